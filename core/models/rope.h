/* Scalings of RoPE for longer texts: what divides each frequency. They are worked out when a model is opened, and go to
 * the spec's rope_factors, from its rope_theta and rope_dimensions. */
#ifndef PCO_MODELS_ROPE_H
#define PCO_MODELS_ROPE_H

#include "models/spec.h"

/* Llama 3.1: waves longer than original_context / low are slowed down by factor, those shorter than
 * original_context / high are as they were, and between them it is mixed linearly in the inverse of the length. */
typedef struct pco_rope_llama3 {
    double factor, low, high, original_context;
} pco_rope_llama3;

/* YaRN (Peng et al. 2023, arXiv 2309.00071, 3.2): frequencies that turn more than beta_fast times within the original
 * context stay, those that turn less than beta_slow times are divided by factor, with a ramp between. truncate: the
 * ends of the ramp are whole numbers of pairs. */
typedef struct pco_rope_yarn {
    double factor, original_context, beta_fast, beta_slow;
    int truncate;
} pco_rope_yarn;

/* Errors: UNSUPPORTED for more pairs than a spec holds. `label` is the file, for messages. */
pco_status pco_rope_scale_llama3(pco_model_spec *spec, const pco_rope_llama3 *scaling, const char *label,
                                 pco_error *err) PCO_NODISCARD;
pco_status pco_rope_scale_yarn(pco_model_spec *spec, const pco_rope_yarn *scaling, const char *label,
                               pco_error *err) PCO_NODISCARD;

/* What sine and cosine are multiplied by: 0.1 mscale ln(factor) + 1 of YaRN (3.4 there), and
 * sqrt(1 + ln(factor) / ln(original)) of LongRoPE; 1 for factors up to 1. */
double pco_rope_yarn_amplitude(double factor, double mscale);
double pco_rope_long_amplitude(double factor, int64_t original_context);

#endif
