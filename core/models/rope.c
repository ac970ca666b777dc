#include "models/rope.h"

#include "base/error.h"

#include <inttypes.h>
#include <math.h>

static const double rope_turn = 2 * 3.14159265358979323846;

static pco_status rope_check(const pco_model_spec *spec, const char *label, pco_error *err)
{
    if (spec->rope_dimensions / 2 <= PCO_ROPE_PAIRS) return PCO_OK;
    return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: RoPE is scaled for %" PRId64 " pairs of channels; Portico can %d",
                    label, spec->rope_dimensions / 2, PCO_ROPE_PAIRS);
}

/* Radians per position. */
static double rope_frequency(const pco_model_spec *spec, int64_t pair)
{
    return pow(spec->rope_theta, -2.0 * (double)pair / (double)spec->rope_dimensions);
}

pco_status pco_rope_scale_llama3(pco_model_spec *spec, const pco_rope_llama3 *scaling, const char *label,
                                 pco_error *err)
{
    const pco_status status = rope_check(spec, label, err);
    const int64_t pairs = status ? 0 : spec->rope_dimensions / 2;
    for (int64_t i = 0; i < pairs; i++) {
        /* how often the wave fits into the original context */
        const double turns = scaling->original_context * rope_frequency(spec, i) / rope_turn;
        double kept = (turns - scaling->low) / (scaling->high - scaling->low);
        kept = kept < 0 ? 0 : kept > 1 ? 1 : kept;
        spec->rope_factors[i] = (float)(1 / ((1 - kept) / scaling->factor + kept));
    }
    spec->rope_factor_count = pairs;
    return status;
}

/* The pair, as a real number, that turns so many times within the original context. */
static double rope_pair_of(const pco_model_spec *spec, const pco_rope_yarn *yarn, double turns)
{
    return (double)spec->rope_dimensions * log(yarn->original_context / (turns * rope_turn)) /
           (2 * log(spec->rope_theta));
}

pco_status pco_rope_scale_yarn(pco_model_spec *spec, const pco_rope_yarn *yarn, const char *label, pco_error *err)
{
    const pco_status status = rope_check(spec, label, err);
    const int64_t pairs = status ? 0 : spec->rope_dimensions / 2;
    double first = rope_pair_of(spec, yarn, yarn->beta_fast), last = rope_pair_of(spec, yarn, yarn->beta_slow);
    if (yarn->truncate) {
        first = floor(first);
        last = ceil(last);
    }
    first = first > 0 ? first : 0;
    last = last < (double)spec->rope_dimensions - 1 ? last : (double)spec->rope_dimensions - 1;
    if (first == last) last += 0.001; /* as the published code: a step instead of a ramp */
    for (int64_t i = 0; i < pairs; i++) {
        double slowed = ((double)i - first) / (last - first);
        slowed = slowed > 0 ? slowed < 1 ? slowed : 1 : 0; /* NaN of a theta of 1: as it was */
        spec->rope_factors[i] = (float)(1 / (slowed / yarn->factor + (1 - slowed)));
    }
    spec->rope_factor_count = pairs;
    return status;
}

double pco_rope_yarn_amplitude(double factor, double mscale) { return factor > 1 ? 0.1 * mscale * log(factor) + 1 : 1; }

double pco_rope_long_amplitude(double factor, int64_t original_context)
{
    return factor > 1 && original_context > 1 ? sqrt(1 + log(factor) / log((double)original_context)) : 1;
}
