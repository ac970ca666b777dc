#include "api/generation.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* A sequence that answers one prompt after the other. */
typedef struct batch_answer {
    pco_sequence *sequence;
    api_generation g;
    size_t prompt; /* its number */
    int busy, reads;
} batch_answer;

typedef struct batch {
    pco_model *model;
    const char *const *prompts;
    void *const *users;
    size_t count, next; /* prompts, and the first that nobody has taken */
    const pco_generate_params *params;
    pco_text_fn text;
    pco_answer_fn answered;
    batch_answer *answers; /* [n_answers] */
    size_t n_answers;
    int64_t *lanes; /* [n_answers], and the rest as well: of a step */
    int32_t *ids;
    batch_answer **reading;
    float *logits; /* [n_answers][vocab_size] */
    pco_generate_stats total;
    int stopped;
    pco_error *err;
} batch;

static api_generation batch_generation(const batch *b, pco_sequence *sequence, size_t prompt)
{
    return (api_generation){.sequence = sequence,
                            .model = b->model,
                            .params = b->params,
                            .text = b->text,
                            .user = b->users ? b->users[prompt] : NULL,
                            .err = b->err};
}

static void batch_add(batch *b, api_generation *g)
{
    pco_generate_stats *total = &b->total;
    g->stats.size = sizeof g->stats;
    total->stop_reason = g->stats.stop_reason;
    total->load_seconds = g->stats.load_seconds;
    total->peak_device_bytes = g->stats.peak_device_bytes;
    total->prompt_tokens += g->stats.prompt_tokens;
    total->prompt_seconds += g->stats.prompt_seconds;
    total->generated_tokens += g->stats.generated_tokens;
    total->context_shifts += g->stats.context_shifts;
    total->drafted_tokens += g->stats.drafted_tokens;
    total->accepted_tokens += g->stats.accepted_tokens;
    total->shared_tokens += g->stats.shared_tokens;
    if (b->answered && b->answered(g->user, &g->stats)) b->stopped = 1;
}

/* What other sequences have read of the same ids is copied instead of read again. */
static pco_status batch_share(batch *b, batch_answer *answer, const int32_t *ids, size_t count)
{
    const pco_model *model = b->model;
    pco_causal *causal = model->causal;
    const int64_t own = answer->sequence->lane;
    int64_t from = own;
    size_t most = 0;
    for (int64_t i = 0; i < model->lanes; i++) {
        const int64_t lane = (own + i) % model->lanes; /* itself first: that costs no copy */
        const pco_sequence *other = model->sequences[lane];
        if (!other) continue;
        pco_causal_select(causal, lane);
        const size_t read = (size_t)pco_causal_position(causal);
        size_t same = 0;
        while (same + 1 < count && same < read && same < other->count && other->ids[same] == ids[same]) same++;
        if (same > most) {
            most = same;
            from = lane;
        }
    }
    pco_status status = PCO_OK;
    if (most) status = pco_causal_copy(causal, from, own, b->err);
    pco_causal_select(causal, own);
    pco_causal_rewind(causal, status ? 0 : (int64_t)most);
    answer->g.stats.shared_tokens = (int64_t)most;
    return status;
}

/* The next prompt; the model's logits are those behind it. */
static pco_status batch_begin(batch *b, batch_answer *answer)
{
    const int32_t *ids;
    int32_t *made = NULL;
    size_t count = 0;
    answer->prompt = b->next++;
    answer->g = batch_generation(b, answer->sequence, answer->prompt);
    answer->busy = 1;
    api_generation *g = &answer->g;
    pco_status status = api_open(g, "pco_model_generate_batch", b->prompts[answer->prompt]);
    if (!status) status = api_ids(g, b->prompts[answer->prompt], NULL, 0, PCO_TOKENIZE_ENDS, &ids, &count, &made);
    if (!status) status = batch_share(b, answer, ids, count);
    answer->sequence->count = 0;
    if (!status) status = api_extend(answer->sequence, ids, count, b->err);
    if (!status) status = api_read_prompt(g, 0);
    free(made);
    g->room = b->model->context_length - (int64_t)answer->sequence->count;
    g->begin = pco_seconds();
    g->ended = g->stopped;
    answer->reads = 0;
    return status;
}

/* Turns until the model has to read for the next one, or all is said. The logits are those of this answer. */
static pco_status batch_turn(batch *b, batch_answer *answer)
{
    pco_status status = PCO_OK;
    answer->reads = 0;
    while (!status && !answer->g.ended && !answer->reads) status = api_turn(&answer->g, &answer->reads);
    if (status || !answer->g.ended) return status;
    api_finish(&answer->g);
    api_close(&answer->g);
    answer->busy = 0;
    batch_add(b, &answer->g);
    return PCO_OK;
}

/* One run for the last tokens of all that wait for one. */
static pco_status batch_step(batch *b)
{
    const int64_t vocab = b->model->file->spec.vocab_size[PCO_DECODER];
    int64_t n = 0;
    for (size_t i = 0; i < b->n_answers; i++) {
        batch_answer *answer = &b->answers[i];
        if (!answer->busy) continue;
        b->reading[n] = answer;
        b->lanes[n] = answer->sequence->lane;
        b->ids[n++] = answer->sequence->ids[answer->sequence->count - 1];
    }
    if (!n) return PCO_OK;
    pco_status status = pco_causal_step(b->model->causal, b->lanes, b->ids, n, b->logits, b->err);
    for (int64_t i = 0; !status && i < n && !b->stopped; i++) {
        memcpy(b->model->logits, b->logits + i * vocab, (size_t)vocab * sizeof *b->logits);
        status = batch_turn(b, b->reading[i]);
        if (status) status = pco_fail_prefix(b->err, status, "prompt %zu", b->reading[i]->prompt);
    }
    return status;
}

static pco_status batch_memory(batch *b)
{
    const size_t vocab = (size_t)b->model->file->spec.vocab_size[PCO_DECODER];
    size_t room = 0;
    for (int64_t lane = 0; lane < b->model->lanes; lane++) room += !b->model->sequences[lane];
    if (room > b->count) room = b->count;
    int64_t lane;
    if (!room) return api_lane(b->model, &lane, b->err); /* says that there is none */
    b->answers = calloc(room, sizeof *b->answers);
    b->lanes = calloc(room, sizeof *b->lanes);
    b->ids = calloc(room, sizeof *b->ids);
    b->reading = calloc(room, sizeof *b->reading);
    b->logits = calloc(room * vocab, sizeof *b->logits);
    if (!b->answers || !b->lanes || !b->ids || !b->reading || !b->logits)
        return pco_fail(b->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %zu sequences", room);
    pco_status status = PCO_OK;
    while (!status && b->n_answers < room) {
        status = pco_sequence_create(b->model, &b->answers[b->n_answers].sequence, b->err);
        b->n_answers += !status;
    }
    return status;
}

/* Decoders: as many sequences side by side as there is room for. */
static pco_status batch_together(batch *b)
{
    pco_status status = batch_memory(b);
    while (!status && !b->stopped) {
        size_t busy = 0;
        for (size_t i = 0; !status && i < b->n_answers && !b->stopped; i++) {
            batch_answer *answer = &b->answers[i];
            while (!status && !answer->busy && b->next < b->count && !b->stopped) {
                status = batch_begin(b, answer);
                if (!status) status = batch_turn(b, answer);
                if (status) status = pco_fail_prefix(b->err, status, "prompt %zu", answer->prompt);
            }
            busy += answer->busy != 0;
        }
        if (!busy) break;
        if (!status && !b->stopped) status = batch_step(b);
    }
    for (size_t i = 0; i < b->n_answers; i++) {
        if (b->answers[i].busy) api_close(&b->answers[i].g);
        pco_sequence_destroy(b->answers[i].sequence);
    }
    free(b->answers);
    free(b->lanes);
    free(b->ids);
    free(b->reading);
    free(b->logits);
    return status;
}

/* Encoder-decoders, and with a draft: one after the other. */
static pco_status batch_in_turn(batch *b)
{
    pco_model *model = b->model;
    pco_status status = PCO_OK;
    for (; !status && b->next < b->count && !b->stopped; b->next++) {
        model->own.count = 0;
        if (model->causal) status = api_lane(model, &model->own.lane, b->err);
        api_generation g = batch_generation(b, &model->own, b->next);
        if (!status) status = api_generate(&g, "pco_model_generate_batch", b->prompts[b->next]);
        if (status) return pco_fail_prefix(b->err, status, "prompt %zu", b->next);
        batch_add(b, &g);
    }
    return status;
}

pco_status pco_model_generate_batch(pco_model *model, const char *const *prompts, size_t count,
                                    const pco_generate_params *params, pco_text_fn text, pco_answer_fn answered,
                                    void *const *users, pco_generate_stats *stats, pco_error *err)
{
    pco_generate_params known = {.size = sizeof known};
    PCO_NEEDS_SOME(prompts, count);
    API_NEEDS_WRITER(model);
    pco_status status = params ? pco_copy_sized(&known, sizeof known, params, params->size, err) : PCO_OK;
    if (!status && stats) status = pco_check_sized(sizeof *stats, stats->size, err);
    for (size_t i = 0; !status && i < count; i++)
        if (!prompts[i]) status = pco_fail(err, PCO_ERROR_INVALID, "prompt %zu is NULL", i);
    if (!status && known.prompt_ids)
        status = pco_fail(err, PCO_ERROR_INVALID, "the prompts are texts; leave prompt_ids out");
    if (status) return status;
    batch b = {.model = model,
               .prompts = prompts,
               .users = users,
               .count = count,
               .params = &known,
               .text = text,
               .answered = answered,
               .err = err};
    const double begin = pco_seconds();
    if (count) status = model->causal && !known.draft ? batch_together(&b) : batch_in_turn(&b);
    b.total.generation_seconds = pco_seconds() - begin - b.total.prompt_seconds;
    if (stats) (void)pco_fill_sized(stats, &b.total, sizeof b.total, NULL); /* its size was looked at above */
    return status;
}
