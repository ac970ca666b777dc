#include "api/generation.h"

#include "base/clock.h"
#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void api_give(api_generation *g, const char *text, size_t bytes)
{
    if (bytes && g->text && g->text(g->user, text, bytes)) g->stopped = 1;
}

/* Generated text: what no stop string can begin in. */
static pco_status api_give_generated(api_generation *g, const char *text, size_t bytes)
{
    int found = 0, stopped = g->stopped; /* by the token's callback: the text of the token still comes */
    if (!g->stop.count) {
        api_give(g, text, bytes);
        return PCO_OK;
    }
    const size_t sure = api_stop_add(&g->stop, text, bytes, &found);
    pco_status status = pco_writer_check(&g->stop.held, "a text", g->err);
    if (status) return status;
    api_give(g, g->stop.held.data, sure);
    api_stop_given(&g->stop, found || g->stopped > stopped ? g->stop.held.size : sure);
    if (found) g->stats.stop_reason = PCO_STOP_TEXT;
    g->stopped |= found;
    return PCO_OK;
}

/* Gives out the text of one token where `show` is set, and the token itself where it was generated (step >= 0). */
static pco_status api_emit(api_generation *g, int32_t id, int show, int64_t step)
{
    const char *piece = "";
    size_t bytes = 0;
    pco_status status = PCO_OK;
    if (g->decoder.tokenizer) status = pco_decoder_next(&g->decoder, id, &piece, &bytes, g->err);
    if (!status && step >= 0 && g->constraint) status = pco_constraint_accept(g->constraint, piece, bytes, g->err);
    if (!status && step >= 0 && g->params->token) {
        const pco_token token = {.size = sizeof token,
                                 .id = id,
                                 .step = step,
                                 .text = piece,
                                 .bytes = bytes,
                                 .logits = g->model->logits,
                                 .vocab_size = g->model->file->spec.vocab_size[PCO_DECODER]};
        g->stopped |= g->params->token(g->user, &token) != 0;
    }
    if (!status && show && step < 0) api_give(g, piece, bytes);
    if (!status && show && step >= 0) status = api_give_generated(g, piece, bytes);
    return status;
}

/* Of an encoder-decoder. */
static pco_status api_step(const pco_model *model, int32_t id, pco_error *err)
{
    const pco_status status = pco_seq2seq_step(model->seq2seq, id, model->logits, err);
    for (uint32_t i = 0; i < model->file->n_never && !status; i++) model->logits[model->file->never[i]] = -INFINITY;
    return status;
}

/* The model reads the token that the sequence ends with. */
static pco_status api_advance(api_generation *g)
{
    const pco_sequence *sequence = g->sequence;
    const int64_t generated = g->stats.generated_tokens, most = g->params->max_tokens;
    const api_draft_step step = {&g->sampler, generated, most ? most - generated - 1 : INT64_MAX};
    if (g->draft.model) return api_draft_advance(&g->draft, g->sequence, &step, g->err);
    if (g->model->causal) return api_read(g->sequence, g->model->logits, NULL, NULL, g->err);
    return api_step(g->model, sequence->ids[sequence->count - 1], g->err);
}

static int api_ends_text(const void *user, int32_t id) { return api_ends(user, id); }

/* Leaves what the grammar allows. *done: the text is whole, and the model has no token to say so. */
static pco_status api_constrain(api_generation *g, int *done)
{
    int64_t left;
    *done = 0;
    if (!g->constraint) return PCO_OK;
    const pco_status status =
        pco_constraint_mask(g->constraint, g->model->logits, g->decoder.begun, api_ends_text, g->model, &left, g->err);
    if (status || left) return status;
    *done = pco_constraint_complete(g->constraint);
    if (*done) return PCO_OK;
    return pco_fail(g->err, PCO_ERROR_INVALID, "the vocabulary has no token that the grammar allows after %" PRId64,
                    g->stats.generated_tokens);
}

/* The token that the caller's sampler sets, or that is drawn from the logits. */
static pco_status api_draw(api_generation *g, int64_t step, int32_t *id, int *done)
{
    pco_model *model = g->model;
    const int64_t vocab = model->file->spec.vocab_size[PCO_DECODER];
    *id = -1;
    *done = 0;
    if (g->params->sample && g->params->sample(g->user, model->logits, vocab, step, id))
        return pco_fail(g->err, PCO_ERROR_CANCELLED, "the sampler ended the call at token %" PRId64, step);
    if (*id < -1 || *id >= vocab)
        return pco_fail(g->err, PCO_ERROR_INVALID,
                        "the sampler chose token %d at step %" PRId64 ", outside a vocabulary of %" PRId64, *id, step,
                        vocab);
    if (*id >= 0) return PCO_OK;
    const pco_status status = api_constrain(g, done);
    if (status || *done) return status;
    const size_t count = g->sequence->count, written = (size_t)g->stats.generated_tokens; /* some may be forgotten */
    const pco_sampler_history history = {g->sequence->ids, count, written < count ? written : count};
    return pco_sampler_draw(&g->sampler, model->logits, vocab, &history, (uint64_t)step, model->workspace, id, g->err);
}

/* A full context: forgets the older half of what does not stay. g->room grows by as much. What stays is read again with
 * the next token: keys and values of later tokens have seen those that are forgotten, and positions may be learned. */
static pco_status api_shift(api_generation *g)
{
    pco_sequence *sequence = g->sequence;
    const pco_tokenizer *tokenizer = g->model->file->target;
    int64_t kept = g->params->keep;
    if (kept == 0 && tokenizer && sequence->count && sequence->ids[0] == pco_tokenizer_specials(tokenizer).bos)
        kept = 1;
    const int64_t behind = (int64_t)sequence->count - kept, dropped = (behind + 1) / 2;
    if (dropped < 1) return PCO_OK;
    memmove(sequence->ids + kept, sequence->ids + kept + dropped, (size_t)(behind - dropped) * sizeof *sequence->ids);
    sequence->count -= (size_t)dropped;
    pco_causal_select(g->model->causal, sequence->lane);
    pco_causal_rewind(g->model->causal, kept);
    api_draft_forget(&g->draft);
    g->stats.context_shifts++;
    g->room += dropped;
    return api_advance(g);
}

pco_status api_turn(api_generation *g, int *reads)
{
    const int64_t n = g->stats.generated_tokens, most = g->params->max_tokens;
    pco_status status = PCO_OK;
    int32_t id;
    int done;
    *reads = 0;
    g->ended = 1;
    g->stats.stop_reason = PCO_STOP_MAX_TOKENS;
    if (most > 0 && n >= most) return PCO_OK;
    g->stats.stop_reason = PCO_STOP_CONTEXT;
    if (n >= g->room && g->params->context_shift) status = api_shift(g);
    if (status || n >= g->room) return status;
    status = api_draw(g, n, &id, &done);
    g->stats.stop_reason = PCO_STOP_END;
    if (status || done || api_ends(g->model, id)) return status;
    g->stats.generated_tokens++;
    g->stats.stop_reason = PCO_STOP_CALLBACK;
    g->sequence->ids[g->sequence->count++] = id;
    status = api_emit(g, id, 1, n);
    g->ended = status || g->stopped;
    *reads = !g->ended && n + 1 < g->room && (most == 0 || n + 1 < most);
    return status;
}

void api_finish(api_generation *g)
{
    api_give(g, g->stop.held.data, g->stop.held.size); /* it became no stop string */
    g->stats.generation_seconds = pco_seconds() - g->begin;
}

/* Draws and emits until something ends it. The logits of the first token are there. */
static pco_status api_continue(api_generation *g)
{
    pco_status status = PCO_OK;
    int reads;
    g->begin = pco_seconds();
    g->ended = g->stopped;
    while (!status && !g->ended) {
        status = api_turn(g, &reads);
        if (!status && reads) status = api_advance(g);
    }
    api_finish(g);
    return status;
}

pco_status api_ids(api_generation *g, const char *text, const int32_t *given, size_t n_given, int special,
                   const int32_t **ids, size_t *count, int32_t **made)
{
    const pco_model_file *file = g->model->file;
    *ids = given;
    *count = n_given;
    *made = NULL;
    if (!text) return PCO_OK;
    pco_status status = special < 0 ? pco_tokenizer_encode(file->target, text, strlen(text), 0, made, count, g->err)
                                    : api_encode(g->model, text, strlen(text), special, made, count, g->err);
    *ids = *made;
    return status;
}

pco_status api_read_prompt(api_generation *g, size_t before)
{
    const pco_sequence *sequence = g->sequence;
    pco_status status = PCO_OK;
    if (sequence->count == 0)
        return pco_fail(g->err, PCO_ERROR_INVALID, "the prompt is empty, and the model has no BOS to begin from");
    g->decoder.begun = before > 0;
    for (size_t i = before; !status && i < sequence->count && !g->stopped; i++)
        status = api_emit(g, sequence->ids[i], g->params->echo, -1);
    const double begin = pco_seconds();
    if (!status && !g->stopped) status = api_read(g->sequence, g->model->logits, g->params->progress, g->user, g->err);
    g->stats.prompt_tokens = (int64_t)(sequence->count - before);
    g->stats.prompt_seconds = pco_seconds() - begin;
    g->stats.stop_reason = PCO_STOP_CALLBACK;
    return status;
}

static pco_status api_generate_causal(api_generation *g, const char *prompt)
{
    const pco_generate_params *params = g->params;
    const size_t before = g->sequence->count;
    const int32_t *ids;
    int32_t *made;
    size_t count;
    pco_status status = api_ids(g, prompt, params->prompt_ids, params->prompt_count, before ? 0 : PCO_TOKENIZE_ENDS,
                                &ids, &count, &made);
    if (!status) status = api_extend(g->sequence, ids, count, g->err);
    if (!status) status = api_read_prompt(g, before);
    free(made);
    if (status) {
        g->sequence->count = before;
        return status;
    }
    g->room = g->model->context_length - (int64_t)g->sequence->count;
    status = api_continue(g);
    pco_causal_select(g->model->causal, g->sequence->lane);
    if (g->draft.read) pco_causal_rewind(g->model->causal, g->draft.read); /* what was read ahead is not the text */
    return status;
}

/* The start token and the forced prefix. */
static pco_status api_begin_target(api_generation *g)
{
    const pco_model *model = g->model;
    const int32_t *ids;
    int32_t *made;
    size_t count;
    pco_status status = api_step(model, model->file->spec.decoder_start_token_id, g->err);
    if (!status)
        status = api_ids(g, g->params->prefix, g->params->prefix_ids, g->params->prefix_count, -1, &ids, &count, &made);
    if (status) return status;
    for (size_t i = 0; !status && i < count && !g->stopped; i++) {
        if (g->sequence->count > (size_t)model->context_length) break; /* the step below says so */
        g->sequence->ids[g->sequence->count++] = ids[i];
        status = api_emit(g, ids[i], 1, -1);
        if (!status) status = api_advance(g);
    }
    free(made);
    return status;
}

static pco_status api_generate_seq2seq(api_generation *g, const char *prompt)
{
    pco_model *model = g->model;
    const int32_t *ids;
    int32_t *made;
    size_t count;
    g->stats.stop_reason = PCO_STOP_END;
    if (prompt ? !*prompt : !g->params->prompt_count) return PCO_OK;
    pco_status status =
        api_ids(g, prompt, g->params->prompt_ids, g->params->prompt_count, PCO_TOKENIZE_ENDS, &ids, &count, &made);
    if (status) return status;
    const double begin = pco_seconds();
    g->stats.prompt_tokens = (int64_t)count;
    if ((int64_t)count > model->context_length)
        status = pco_fail(g->err, PCO_ERROR_INVALID, "the source has %zu tokens and the context %" PRId64, count,
                          model->context_length);
    if (!status) status = pco_seq2seq_encode(model->seq2seq, ids, (int64_t)count, g->err);
    free(made);
    if (!status) status = api_begin_target(g);
    g->stats.prompt_seconds = pco_seconds() - begin;
    g->stats.stop_reason = PCO_STOP_CALLBACK;
    if (status) return status;
    /* the last token of the target need not be read: position may reach the context */
    g->room = model->context_length - pco_seq2seq_position(model->seq2seq) + 1;
    return api_continue(g);
}

/* The grammar, and what it makes of the vocabulary. */
static pco_status api_grammar(api_generation *g)
{
    const pco_model_file *file = g->model->file;
    const char *text = g->params->grammar, *schema = g->params->json_schema;
    if (!text && !schema) return PCO_OK;
    if (text && schema)
        return pco_fail(g->err, PCO_ERROR_INVALID, "there is a grammar and a JSON schema; leave one out");
    if (!file->target)
        return pco_fail(g->err, PCO_ERROR_NOT_FOUND, "%s has no tokenizer, which a grammar needs", file->path);
    pco_status status = text ? pco_grammar_parse(text, strlen(text), "the grammar", &g->grammar, g->err)
                             : pco_grammar_of_schema(schema, strlen(schema), "the JSON schema", &g->grammar, g->err);
    return status ? status
                  : pco_constraint_create(g->grammar, file->target, file->spec.vocab_size[PCO_DECODER], &g->constraint,
                                          g->err);
}

static pco_status api_sampler(const pco_generate_params *params, pco_sampler *sampler, pco_error *err)
{
    *sampler = (pco_sampler){.temperature = params->temperature,
                             .top_p = params->top_p == 0 ? 1 : params->top_p,
                             .top_k = params->top_k,
                             .seed = params->seed,
                             .min_p = params->min_p,
                             .typical_p = params->typical_p,
                             .repeat_penalty = params->repeat_penalty,
                             .presence_penalty = params->presence_penalty,
                             .frequency_penalty = params->frequency_penalty,
                             .repeat_last_n = params->repeat_last_n};
    return pco_sampler_check(sampler, err);
}

/* Text needs a tokenizer; ids alone need none. */
static pco_status api_check_call(const api_generation *g, const char *function, const char *prompt)
{
    const pco_generate_params *params = g->params;
    const pco_model_file *file = g->model->file;
    pco_status status = api_check_texts(g->model, params, function, prompt, g->text || params->stop_count, g->err);
    if (status) return status;
    if (!params->stop && params->stop_count) return pco_fail_missing(g->err, function, "stop");
    for (size_t i = 0; i < params->stop_count; i++)
        if (!params->stop[i] || !*params->stop[i])
            return pco_fail(g->err, PCO_ERROR_INVALID, "stop string %zu is %s; leave it out", i,
                            params->stop[i] ? "empty" : "NULL");
    if (params->max_tokens < 0) return pco_fail(g->err, PCO_ERROR_INVALID, "max_tokens is below 0");
    if (params->context_shift && !g->model->causal)
        return pco_fail(g->err, PCO_ERROR_INVALID, "context_shift is for language models; %s is an encoder-decoder",
                        file->path);
    if (params->keep < 0 || (params->keep && params->keep > g->model->context_length - 2))
        return pco_fail(g->err, PCO_ERROR_INVALID,
                        "keep is %" PRId64 "; with a context of %" PRId64 " it is 0 to %" PRId64, params->keep,
                        g->model->context_length, g->model->context_length - 2);
    return PCO_OK;
}

pco_status api_open(api_generation *g, const char *function, const char *prompt)
{
    const pco_generate_params *params = g->params;
    pco_status status = api_check_call(g, function, prompt);
    if (!status) status = api_sampler(params, &g->sampler, g->err);
    if (status) return status;
    g->decoder = PCO_DECODER(g->model->file->target);
    g->stop = (api_stop){params->stop, params->stop_count, {0}};
    status = api_grammar(g);
    if (!status && params->draft) status = api_draft_open(&g->draft, g->model, params, g->err);
    return status;
}

void api_close(api_generation *g)
{
    g->stats.drafted_tokens = g->draft.made;
    g->stats.accepted_tokens = g->draft.accepted;
    api_draft_close(&g->draft);
    pco_constraint_destroy(g->constraint);
    pco_grammar_destroy(g->grammar);
    pco_writer_release(&g->stop.held);
    g->constraint = NULL;
    g->grammar = NULL;
    g->stats.load_seconds = g->model->load_seconds;
    pco_session_memory(g->model->session, &g->stats.peak_device_bytes);
}

pco_status api_generate(api_generation *g, const char *function, const char *prompt)
{
    pco_status status = api_open(g, function, prompt);
    if (!status) status = g->model->causal ? api_generate_causal(g, prompt) : api_generate_seq2seq(g, prompt);
    api_close(g);
    return status;
}

/* As both of the functions below. */
static pco_status api_generate_sized(pco_sequence *sequence, const char *function, const char *prompt,
                                     const pco_generate_params *params, pco_text_fn text, void *user,
                                     pco_generate_stats *stats, pco_error *err)
{
    pco_generate_params known = {.size = sizeof known};
    pco_status status = params ? pco_copy_sized(&known, sizeof known, params, params->size, err) : PCO_OK;
    if (!status && stats) status = pco_check_sized(sizeof *stats, stats->size, err);
    if (status) return status;
    api_generation g = {
        .sequence = sequence, .model = sequence->model, .params = &known, .text = text, .user = user, .err = err};
    status = api_generate(&g, function, prompt);
    if (stats) (void)pco_fill_sized(stats, &g.stats, sizeof g.stats, NULL); /* its size was looked at above */
    return status;
}

pco_status pco_model_generate(pco_model *model, const char *prompt, const pco_generate_params *params, pco_text_fn text,
                              void *user, pco_generate_stats *stats, pco_error *err)
{
    API_NEEDS_WRITER(model);
    model->own.count = 0;
    pco_status status = model->causal ? api_lane(model, &model->own.lane, err) : PCO_OK;
    return status ? status : api_generate_sized(&model->own, __func__, prompt, params, text, user, stats, err);
}

pco_status pco_sequence_generate(pco_sequence *sequence, const char *prompt, const pco_generate_params *params,
                                 pco_text_fn text, void *user, pco_generate_stats *stats, pco_error *err)
{
    API_NEEDS_SEQUENCE(sequence);
    return api_generate_sized(sequence, __func__, prompt, params, text, user, stats, err);
}

pco_status pco_sample(const pco_generate_params *params, const float *logits, size_t count, uint64_t step, int32_t *id,
                      pco_error *err)
{
    pco_generate_params known = {.size = sizeof known};
    pco_sampler sampler;
    PCO_NEEDS(id);
    PCO_NEEDS(logits);
    pco_status status = params ? pco_copy_sized(&known, sizeof known, params, params->size, err) : PCO_OK;
    if (!status) status = api_sampler(&known, &sampler, err);
    if (status) return status;
    const size_t written = known.prompt_ids ? known.prompt_count : 0;
    const pco_sampler_history history = {known.prompt_ids, written, step < written ? (size_t)step : written};
    return pco_sampler_draw(&sampler, logits, (int64_t)count, written ? &history : NULL, step, NULL, id, err);
}
