/* What tests of encoder-decoders share. */
#ifndef PCO_TESTS_SEQ2SEQ_LOGITS_H
#define PCO_TESTS_SEQ2SEQ_LOGITS_H

#include "models_test.h"

#include "formats/safetensors.h"
#include "models/seq2seq.h"

static inline const pco_weight *seq2seq_stored(const pco_weights *goldens, const char *model, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s/%s", model, what);
    const pco_weight *weight = pco_weights_find(goldens, name);
    assert_non_null(weight);
    return weight;
}

/* The logits behind a source that `run` has read, against `want` [count, vocab] in float64: MODELS_TOLERANCE, for the
 * whole target at once, and token by token with the cache between them. */
static inline void seq2seq_logits_check(pco_seq2seq *run, const char *name, const pco_weight *target,
                                        const pco_weight *want)
{
    const int64_t count = want->shape[0], vocab = want->shape[1];
    const int32_t *ids = target->data;
    double steps = 0;
    float *logits = malloc((size_t)(count * vocab) * sizeof *logits);
    assert_non_null(logits);
    check_ok(pco_seq2seq_score(run, ids, count, logits, &err));
    const double whole = models_error(logits, want->data, count * vocab, vocab, MODELS_TOLERANCE);
    for (int64_t i = 0; i < count; i++) {
        check_ok(pco_seq2seq_step(run, ids[i], logits, &err));
        const double error =
            models_error(logits, (const double *)want->data + i * vocab, vocab, vocab, MODELS_TOLERANCE);
        if (!(error <= steps)) steps = error;
    }
    print_message("  %-10s error / bound %.4f at once, %.4f step by step\n", name, whole, steps);
    assert_true(whole <= 1 && steps <= 1);
    free(logits);
}

#endif
