#include "api/text.h"

#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

pco_status pco_model_logits(pco_model *model, const int32_t *ids, size_t count, float *logits, pco_error *err)
{
    API_NEEDS_WRITER(model);
    PCO_NEEDS_SOME(ids, count);
    PCO_NEEDS_SOME(logits, count);
    if (!model->causal)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s is an encoder-decoder: it is scored with a source and a target",
                        model->file->path);
    if (count > (size_t)model->context_length)
        return pco_fail(err, PCO_ERROR_INVALID, "%zu tokens do not fit into a context of %" PRId64, count,
                        model->context_length);
    int64_t lane;
    pco_status status = api_lane(model, &lane, err);
    return status ? status : pco_causal_score(model->causal, ids, (int64_t)count, logits, err);
}

pco_status pco_model_hidden_states(pco_model *model, const int32_t *ids, size_t count, float *states, pco_error *err)
{
    API_NEEDS_MODEL(model);
    PCO_NEEDS_SOME(ids, count);
    PCO_NEEDS_SOME(states, count);
    if (count == 0) return PCO_OK;
    const pco_encoder_text text = {.ids = ids, .count = (int64_t)count};
    pco_status status = api_encoder(model, err);
    return status ? status : pco_encoder_run(model->encoder, PCO_ENCODER_HIDDEN, &text, 1, states, NULL, NULL, err);
}

/* log softmax(logits)[id], in double. */
static double api_log_probability(const float *logits, int64_t vocab, int32_t id)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < vocab; i++)
        if ((double)logits[i] > largest) largest = (double)logits[i];
    for (int64_t i = 0; i < vocab; i++) sum += exp((double)logits[i] - largest);
    return (double)logits[id] - largest - log(sum);
}

/* ids[0..count-2] is the target, ids[count-1] is EOS: the decoder reads the start token and ids[0..count-2].
 */
static pco_status api_score(pco_model *model, const int32_t *ids, size_t count, double *log_probs, pco_error *err)
{
    const int64_t vocab = model->file->spec.vocab_size[PCO_DECODER];
    int32_t *read = malloc(count * sizeof *read);
    float *logits = malloc(count * (size_t)vocab * sizeof *logits);
    pco_status status = PCO_OK;
    if (!read || !logits) status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for scoring");
    if (!status) {
        read[0] = model->file->spec.decoder_start_token_id;
        memcpy(read + 1, ids, (count - 1) * sizeof *read);
        status = pco_seq2seq_score(model->seq2seq, read, (int64_t)count, logits, err);
    }
    for (size_t i = 0; !status && i < count; i++)
        log_probs[i] = api_log_probability(logits + i * (size_t)vocab, vocab, ids[i]);
    free(read);
    free(logits);
    return status;
}

pco_status pco_model_score(pco_model *model, const char *source, const char *target, double **log_probs, size_t *count,
                           pco_error *err)
{
    int32_t *source_ids = NULL, *target_ids = NULL;
    size_t source_count = 0, target_count = 0;
    PCO_NEEDS(log_probs);
    PCO_NEEDS(count);
    *log_probs = NULL;
    *count = 0;
    API_NEEDS_WRITER(model);
    PCO_NEEDS(source);
    PCO_NEEDS(target);
    if (!model->seq2seq)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s is decoder-only: it is scored by pco_model_logits",
                        model->file->path);
    if (!model->file->target) return pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has no tokenizer", model->file->path);
    pco_status status = api_encode(model, source, strlen(source), 1, &source_ids, &source_count, err);
    if (!status)
        status = pco_tokenizer_encode(model->file->target, target, strlen(target), PCO_ENCODE_EOS, &target_ids,
                                      &target_count, err);
    if (!status && !(*log_probs = calloc(target_count + 1, sizeof **log_probs)))
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for scoring");
    if (!status && !*source) {
        if (target_count > 1) status = pco_fail(err, PCO_ERROR_INVALID, "the source is empty and the target is not");
    } else if (!status) {
        status = pco_seq2seq_encode(model->seq2seq, source_ids, (int64_t)source_count, err);
        if (!status) status = api_score(model, target_ids, target_count, *log_probs, err);
    }
    if (status) {
        free(*log_probs);
        *log_probs = NULL;
    } else {
        *count = target_count;
    }
    free(source_ids);
    free(target_ids);
    return status;
}
