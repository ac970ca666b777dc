#include "api/draft.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DRAFT_USUAL = 4, DRAFT_MOST = 64 };

static pco_status draft_check(const pco_model *draft, const pco_model *model, const pco_generate_params *params,
                              pco_error *err)
{
    const int64_t vocab = model->file->spec.vocab_size[PCO_DECODER], its = draft->file->spec.vocab_size[PCO_DECODER];
    if (!model->causal || !draft->causal)
        return pco_fail(err, PCO_ERROR_INVALID, "a draft is one language model for another; %s is none",
                        (model->causal ? draft : model)->file->path);
    if (draft == model || draft->context != model->context)
        return pco_fail(err, PCO_ERROR_INVALID, "the draft is %s; open it anew, in the model's context",
                        draft == model ? "the model itself" : "a model of another context");
    if (vocab != its)
        return pco_fail(err, PCO_ERROR_INVALID, "the draft %s has a vocabulary of %" PRId64 ", and %s one of %" PRId64,
                        draft->file->path, its, model->file->path, vocab);
    if (params->draft_tokens < 0 || params->draft_tokens > DRAFT_MOST)
        return pco_fail(err, PCO_ERROR_INVALID, "draft_tokens is %" PRId64 "; it can be 1 to %d", params->draft_tokens,
                        DRAFT_MOST);
    return PCO_OK;
}

pco_status api_draft_open(api_draft *draft, pco_model *model, const pco_generate_params *params, pco_error *err)
{
    pco_status status = draft_check(params->draft, model, params, err);
    if (status) return status;
    const uint64_t vocab = (uint64_t)model->file->spec.vocab_size[PCO_DECODER];
    draft->model = params->draft;
    draft->most = params->draft_tokens ? params->draft_tokens : DRAFT_USUAL;
    draft->proposed = malloc((size_t)(draft->most + 1) * sizeof *draft->proposed);
    draft->rows = malloc((size_t)((uint64_t)(draft->most + 1) * vocab) * sizeof *draft->rows);
    if (!draft->proposed || !draft->rows)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a draft");
    pco_causal_prefer(model->causal, draft->most + 1);
    return pco_sequence_create(draft->model, &draft->sequence, err);
}

void api_draft_close(api_draft *draft)
{
    pco_sequence_destroy(draft->sequence);
    free(draft->proposed);
    free(draft->rows);
}

void api_draft_forget(api_draft *draft) { draft->count = draft->next = 0; }

/* The draft reads the text: what it has of it stays. */
static pco_status draft_follow(const api_draft *draft, const pco_sequence *text, pco_error *err)
{
    pco_sequence *s = draft->sequence;
    size_t same = 0;
    while (same < s->count && same < text->count && s->ids[same] == text->ids[same]) same++;
    pco_status status = pco_sequence_truncate(s, same, err);
    if (!status) status = api_extend(s, text->ids + same, text->count - same, err);
    return status ? status : api_read(s, draft->model->logits, NULL, NULL, err);
}

/* Up to `most` tokens behind the text, in draft->proposed + 1. */
static pco_status draft_propose(api_draft *draft, const pco_sequence *text, const api_draft_step *step, int64_t most,
                                pco_error *err)
{
    pco_model *model = draft->model;
    pco_sequence *s = draft->sequence;
    const int64_t vocab = model->file->spec.vocab_size[PCO_DECODER];
    draft->count = draft->next = 0;
    if (most > model->context_length - (int64_t)text->count) most = model->context_length - (int64_t)text->count;
    if (most < 1) return PCO_OK;
    pco_status status = draft_follow(draft, text, err);
    while (!status && draft->count < most) {
        const size_t generated = (size_t)(step->generated + draft->count);
        const pco_sampler_history history = {s->ids, s->count, generated < s->count ? generated : s->count};
        int32_t *id = &draft->proposed[draft->count + 1];
        status = pco_sampler_draw(step->sampler, model->logits, vocab, &history, generated, model->workspace, id, err);
        if (status) break;
        draft->count++;
        if (draft->count == most || api_ends(model, *id)) break;
        status = api_extend(s, id, 1, err);
        if (!status) status = api_read(s, model->logits, NULL, NULL, err);
    }
    draft->made += draft->count;
    return status;
}

pco_status api_draft_advance(api_draft *draft, pco_sequence *sequence, const api_draft_step *step, pco_error *err)
{
    pco_model *model = sequence->model;
    const size_t row = (size_t)model->file->spec.vocab_size[PCO_DECODER] * sizeof(float);
    const int32_t last = sequence->ids[sequence->count - 1];
    pco_status status = PCO_OK;
    if (draft->next < draft->count && draft->proposed[draft->next + 1] == last) {
        draft->next++;
        draft->accepted++;
    } else {
        int64_t most = model->context_length - (int64_t)sequence->count;
        if (most > step->wanted) most = step->wanted;
        if (most > draft->most) most = draft->most;
        const int64_t before = (int64_t)sequence->count - 1;
        status = draft_propose(draft, sequence, step, most, err);
        pco_causal_select(model->causal, sequence->lane);
        pco_causal_rewind(model->causal, before);
        const int64_t position = pco_causal_position(model->causal);
        if (!status && position < before) /* behind a shift, much is unread */
            status = pco_causal_append(model->causal, sequence->ids + position, before - position, NULL, err);
        draft->proposed[0] = last;
        if (!status)
            status = draft->count ? pco_causal_score(model->causal, draft->proposed, draft->count + 1, draft->rows, err)
                                  : pco_causal_append(model->causal, draft->proposed, 1, draft->rows, err);
    }
    if (status)
        api_draft_forget(draft);
    else
        memcpy(model->logits, draft->rows + (size_t)draft->next * (row / sizeof(float)), row);
    draft->read = (int64_t)sequence->count - (status != PCO_OK);
    return status;
}
