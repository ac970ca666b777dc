/* Greedy generation and scoring with the tokens in hand, for `portico compare` and `portico bench`. */
#include "cli/compare.h"

#include "base/clock.h"
#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double compare_row(const float *logits, const float *reference, int64_t count, int64_t *column, double *difference)
{
    double squares = 0, worst = -1;
    for (int64_t i = 0; i < count; i++) squares += (double)reference[i] * (double)reference[i];
    const double rms = sqrt(squares / (double)count);
    for (int64_t i = 0; i < count; i++) {
        const double off = fabs((double)logits[i] - (double)reference[i]),
                     bound = COMPARE_BOUND * (fabs((double)reference[i]) + rms),
                     ratio = off == 0     ? 0
                             : isnan(off) ? (double)INFINITY
                                          : off / bound;
        if (ratio <= worst) continue;
        worst = ratio;
        if (column) *column = i;
        if (difference) *difference = off;
    }
    return worst;
}

int32_t compare_argmax(const float *logits, int64_t count)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

static int compare_ends(const pco_model *model, int32_t id)
{
    if (model->seq2seq) return id == model->file->spec.eos_token_id;
    return pco_model_file_ends(model->file, id);
}

/* Reads the prompt: model->logits are those of the first new token. */
static pco_status compare_prompt(pco_model *model, const compare_result *result, pco_error *err)
{
    if (model->causal) {
        pco_causal_reset(model->causal);
        return pco_causal_append(model->causal, result->ids, result->prompt, model->logits, err);
    }
    pco_status status = pco_seq2seq_encode(model->seq2seq, result->ids, result->prompt, err);
    if (status) return status;
    return pco_seq2seq_step(model->seq2seq, model->file->spec.decoder_start_token_id, model->logits, err);
}

static pco_status compare_step(pco_model *model, int32_t id, pco_error *err)
{
    if (model->causal) return pco_causal_append(model->causal, &id, 1, model->logits, err);
    return pco_seq2seq_step(model->seq2seq, id, model->logits, err);
}

pco_status compare_generate(pco_model *model, const char *prompt, int64_t max_tokens, compare_result *result,
                            pco_error *err)
{
    int32_t *ids;
    size_t count;
    pco_status status = pco_model_tokenize(model, prompt, strlen(prompt), 1, &ids, &count, err);
    if (status) return status;
    if (count == 0 || (int64_t)count > model->context_length) {
        pco_free(ids);
        return pco_fail(err, PCO_ERROR_INVALID, "the prompt has %zu tokens; it can have 1 to %" PRId64, count,
                        model->context_length);
    }
    /* The target of an encoder-decoder begins with its start token. */
    int64_t room = model->causal ? model->context_length - (int64_t)count : model->context_length - 1;
    if (max_tokens > room) max_tokens = room;
    result->vocab = model->file->spec.vocab_size[PCO_DECODER];
    result->prompt = result->count = (int64_t)count;
    result->ids = realloc(ids, (count + (size_t)max_tokens + 1) * sizeof *ids);
    if (!result->ids) {
        pco_free(ids);
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for tokens");
    }
    double start = pco_seconds();
    status = compare_prompt(model, result, err);
    result->prompt_seconds = pco_seconds() - start;
    start = pco_seconds();
    for (int64_t n = 0; !status && n < max_tokens && !cli_interrupted(); n++) {
        int32_t id = compare_argmax(model->logits, result->vocab);
        if (compare_ends(model, id)) break;
        result->ids[result->count++] = id;
        if (n + 1 == max_tokens) break;
        status = compare_step(model, id, err);
        result->steps++;
    }
    result->generation_seconds = pco_seconds() - start;
    return status;
}

pco_status compare_score(pco_model *model, const compare_result *target, compare_result *result, pco_error *err)
{
    int64_t answer = target->count - target->prompt;
    result->rows = model->causal ? target->count : answer + 1;
    if (result->vocab != target->vocab) return pco_fail(err, PCO_ERROR_INTERNAL, "vocabularies differ");
    result->logits = malloc((size_t)(result->rows * result->vocab) * sizeof *result->logits);
    int32_t *read = malloc((size_t)(result->rows + 1) * sizeof *read);
    pco_status status = PCO_OK;
    if (!result->logits || !read) {
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for logits");
    } else if (model->causal) {
        status = pco_model_logits(model, target->ids, (size_t)target->count, result->logits, err);
    } else {
        read[0] = model->file->spec.decoder_start_token_id;
        memcpy(read + 1, target->ids + target->prompt, (size_t)answer * sizeof *read);
        status = pco_seq2seq_encode(model->seq2seq, target->ids, target->prompt, err);
        if (!status) status = pco_seq2seq_score(model->seq2seq, read, result->rows, result->logits, err);
    }
    free(read);
    return status;
}

void compare_clear(compare_result *result)
{
    free(result->ids);
    pco_free(result->text);
    free(result->logits);
}
