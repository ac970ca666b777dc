#include "api/text.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

pco_status api_lane(pco_model *model, int64_t *lane, pco_error *err)
{
    for (*lane = 0; *lane < model->lanes; ++*lane)
        if (!model->sequences[*lane]) {
            pco_causal_select(model->causal, *lane);
            pco_causal_reset(model->causal);
            return PCO_OK;
        }
    return pco_fail(err, PCO_ERROR_INVALID,
                    "%s has room for %" PRId64 " sequence%s, and you have as many; destroy one, or open the model with "
                    "more (pco_model_params.sequences)",
                    model->file->path, model->lanes, model->lanes == 1 ? "" : "s");
}

static pco_status sequence_create(pco_model *model, pco_sequence **out, pco_error *err)
{
    int64_t lane;
    if (!model->causal)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s is an encoder-decoder, and has no sequences to continue",
                        model->file->path);
    pco_status status = api_lane(model, &lane, err);
    if (status) return status;
    pco_sequence *sequence = calloc(1, sizeof *sequence);
    if (sequence) sequence->ids = calloc((size_t)model->context_length + 1, sizeof *sequence->ids);
    if (!sequence || !sequence->ids) {
        free(sequence);
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a sequence");
    }
    sequence->model = model;
    sequence->lane = lane;
    *out = model->sequences[lane] = sequence;
    return PCO_OK;
}

pco_status pco_sequence_create(pco_model *model, pco_sequence **sequence, pco_error *err)
{
    PCO_NEEDS(sequence);
    *sequence = NULL;
    API_NEEDS_MODEL(model);
    return sequence_create(model, sequence, err);
}

void pco_sequence_destroy(pco_sequence *sequence)
{
    if (!sequence || (sequence->model && pco_registry_check(sequence->model->context->registry, NULL))) return;
    if (sequence->model) sequence->model->sequences[sequence->lane] = NULL;
    free(sequence->ids);
    free(sequence);
}

pco_status pco_sequence_fork(pco_sequence *from, pco_sequence **sequence, pco_error *err)
{
    PCO_NEEDS(sequence);
    *sequence = NULL;
    API_NEEDS_SEQUENCE(from);
    pco_status status = sequence_create(from->model, sequence, err);
    if (status) return status;
    status = pco_causal_copy(from->model->causal, from->lane, (*sequence)->lane, err);
    if (status) {
        pco_sequence_destroy(*sequence);
        *sequence = NULL;
        return status;
    }
    memcpy((*sequence)->ids, from->ids, from->count * sizeof *from->ids);
    (*sequence)->count = from->count;
    return PCO_OK;
}

const int32_t *pco_sequence_ids(const pco_sequence *sequence, size_t *count)
{
    if (count) *count = sequence ? sequence->count : 0;
    return sequence ? sequence->ids : NULL;
}

pco_status pco_sequence_truncate(pco_sequence *sequence, size_t length, pco_error *err)
{
    API_NEEDS_SEQUENCE(sequence);
    if (length > sequence->count)
        return pco_fail(err, PCO_ERROR_INVALID, "the sequence has %zu tokens, and is to keep %zu", sequence->count,
                        length);
    sequence->count = length;
    pco_causal_select(sequence->model->causal, sequence->lane);
    pco_causal_rewind(sequence->model->causal, (int64_t)length);
    return PCO_OK;
}

pco_status api_extend(pco_sequence *sequence, const int32_t *ids, size_t count, pco_error *err)
{
    const pco_model *model = sequence->model;
    const int64_t vocab = model->file->spec.vocab_size[PCO_DECODER];
    if (count > (size_t)model->context_length - sequence->count)
        return pco_fail(err, PCO_ERROR_INVALID, "the prompt has %zu tokens%s and the context %" PRId64,
                        sequence->count + count, sequence->count ? " with those before it" : "", model->context_length);
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return pco_fail(err, PCO_ERROR_INVALID, "token %zu is %d, outside a vocabulary of %" PRId64, i, ids[i],
                            vocab);
    if (count) memcpy(sequence->ids + sequence->count, ids, count * sizeof *ids);
    sequence->count += count;
    return PCO_OK;
}

pco_status api_read(pco_sequence *sequence, float *logits, pco_prompt_fn progress, void *user, pco_error *err)
{
    pco_causal *causal = sequence->model->causal;
    pco_causal_select(causal, sequence->lane);
    if (logits && !sequence->count)
        return pco_fail(err, PCO_ERROR_INVALID, "an empty sequence has no logits; append a token first");
    if (logits) pco_causal_rewind(causal, (int64_t)sequence->count - 1); /* they come with the last token */
    const int64_t position = pco_causal_position(causal), count = (int64_t)sequence->count - position;
    if (count <= 0) return PCO_OK;
    pco_causal_watch(causal, progress, user);
    const pco_status status = pco_causal_append(causal, sequence->ids + position, count, logits, err);
    pco_causal_watch(causal, NULL, NULL);
    return status;
}

pco_status pco_sequence_append(pco_sequence *sequence, const int32_t *ids, size_t count, float *logits,
                               pco_prompt_fn progress, void *user, pco_error *err)
{
    API_NEEDS_SEQUENCE(sequence);
    PCO_NEEDS_SOME(ids, count);
    const size_t before = sequence->count;
    pco_status status = api_extend(sequence, ids, count, err);
    if (!status) status = api_read(sequence, logits, progress, user, err);
    if (status) sequence->count = before;
    return status;
}

/* Is everything but the last token of a step there? */
static pco_status sequence_check_step(pco_sequence *const *sequences, size_t count, pco_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (!sequences[i]) return pco_fail(err, PCO_ERROR_INVALID, "sequence %zu of a step is NULL", i);
        if (!sequences[i]->model)
            return pco_fail(err, PCO_ERROR_INVALID, "the model of sequence %zu of a step was closed", i);
        if (sequences[i]->model != sequences[0]->model)
            return pco_fail(err, PCO_ERROR_INVALID, "sequence %zu of a step is of another model than the first", i);
        for (size_t k = 0; k < i; k++)
            if (sequences[k] == sequences[i])
                return pco_fail(err, PCO_ERROR_INVALID, "sequence %zu of a step is the same as sequence %zu", i, k);
    }
    return PCO_OK;
}

pco_status pco_sequences_step(pco_sequence *const *sequences, const int32_t *ids, size_t count, float *logits,
                              pco_error *err)
{
    PCO_NEEDS_SOME(sequences, count);
    PCO_NEEDS_SOME(ids, count);
    pco_status status = sequence_check_step(sequences, count, err);
    if (status || count == 0) return status;
    pco_model *model = sequences[0]->model;
    API_NEEDS_MODEL(model);
    int64_t *lanes = malloc(count * sizeof *lanes);
    if (!lanes) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a step");
    for (size_t i = 0; !status && i < count; i++) {
        lanes[i] = sequences[i]->lane;
        status = api_read(sequences[i], NULL, NULL, NULL, err);
        if (!status && sequences[i]->count >= (size_t)model->context_length)
            status = pco_fail(err, PCO_ERROR_INVALID, "sequence %zu fills its context of %" PRId64 " tokens", i,
                              model->context_length);
    }
    if (!status) status = pco_causal_step(model->causal, lanes, ids, (int64_t)count, logits, err);
    for (size_t i = 0; !status && i < count; i++) sequences[i]->ids[sequences[i]->count++] = ids[i];
    free(lanes);
    return status;
}
