#include "api/text.h"

#include "base/error.h"
#include "text/sampler.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One generation under way. */
typedef struct api_generation {
    pco_model *model;
    const pco_generate_params *params;
    pco_sampler sampler;
    pco_decoder decoder;
    pco_text_fn text;
    void *user;
    int stopped; /* the callback asked to stop */
    pco_generate_stats stats;
    pco_error *err;
} api_generation;

/* Decodes one token, and gives its bytes to the callback where `show` is set. */
static pco_status api_emit(api_generation *g, int32_t id, int show)
{
    const char *piece;
    size_t bytes;
    if (g->model->n_sequence <= (size_t)g->model->context_length) g->model->sequence[g->model->n_sequence++] = id;
    pco_status status = pco_decoder_next(&g->decoder, id, &piece, &bytes, g->err);
    if (!status && show && bytes && g->text && g->text(g->user, piece, bytes)) g->stopped = 1;
    return status;
}

static pco_status api_advance(api_generation *g, int32_t id)
{
    pco_model *model = g->model;
    if (model->causal) return pco_causal_append(model->causal, &id, 1, model->logits, g->err);
    return pco_seq2seq_step(model->seq2seq, id, model->logits, g->err);
}

/* Draws and emits until something ends it. The logits of the first token are there; `room` is how many tokens
 * the context still holds. */
static pco_status api_continue(api_generation *g, int64_t room)
{
    pco_model *model = g->model;
    const pco_tokenizer_special special = pco_tokenizer_specials(model->file->target);
    const int causal = model->causal != NULL;
    const int32_t end = model->file->spec.eos_token_id;
    const int64_t vocab = model->file->spec.vocab_size[PCO_DECODER];
    const double begin = api_seconds();
    pco_status status = PCO_OK;
    for (int64_t n = 0; !status && !g->stopped; n++) {
        int32_t id;
        g->stats.stop_reason = PCO_STOP_MAX_TOKENS;
        if (g->params->max_tokens > 0 && n >= g->params->max_tokens) break;
        g->stats.stop_reason = PCO_STOP_CONTEXT;
        if (n >= room) break;
        status = pco_sampler_draw(&g->sampler, model->logits, vocab, (uint64_t)n, model->workspace, &id, g->err);
        g->stats.stop_reason = PCO_STOP_END;
        if (status || (causal ? pco_tokenizer_ends(model->file->target, id) || id == special.bos : id == end)) break;
        g->stats.generated_tokens++;
        g->stats.stop_reason = PCO_STOP_CALLBACK;
        status = api_emit(g, id, 1);
        int more = n + 1 < room && (g->params->max_tokens == 0 || n + 1 < g->params->max_tokens);
        if (!status && !g->stopped && more) status = api_advance(g, id);
    }
    g->stats.generation_seconds = api_seconds() - begin;
    return status;
}

static pco_status api_generate_causal(api_generation *g, const char *prompt)
{
    pco_model *model = g->model;
    int32_t *ids;
    size_t count;
    if (g->params->prefix) return pco_fail(g->err, PCO_ERROR_INVALID, "prefix is for encoder-decoder models");
    pco_status status = api_encode(model, prompt, strlen(prompt), 1, &ids, &count, g->err);
    if (status) return status;
    if (count == 0)
        status = pco_fail(g->err, PCO_ERROR_INVALID, "the prompt is empty, and the model has no BOS to begin from");
    else if ((int64_t)count > model->context_length)
        status = pco_fail(g->err, PCO_ERROR_INVALID, "the prompt has %zu tokens and the context %" PRId64, count,
                          model->context_length);
    for (size_t i = 0; !status && i < count && !g->stopped; i++) status = api_emit(g, ids[i], g->params->echo);
    const double begin = api_seconds();
    pco_causal_reset(model->causal);
    if (!status && !g->stopped) status = pco_causal_append(model->causal, ids, (int64_t)count, model->logits, g->err);
    g->stats.prompt_tokens = (int64_t)count;
    g->stats.prompt_seconds = api_seconds() - begin;
    g->stats.stop_reason = PCO_STOP_CALLBACK;
    free(ids);
    return status ? status : api_continue(g, model->context_length - (int64_t)count);
}

/* The start token and the forced prefix. */
static pco_status api_begin_target(api_generation *g)
{
    pco_model *model = g->model;
    const char *prefix = g->params->prefix;
    int32_t *ids = NULL;
    size_t count = 0;
    pco_status status = api_advance(g, model->file->spec.decoder_start_token_id);
    if (!status && prefix)
        status = pco_tokenizer_encode(model->file->target, prefix, strlen(prefix), 0, &ids, &count, g->err);
    for (size_t i = 0; !status && i < count && !g->stopped; i++) {
        status = api_emit(g, ids[i], 1);
        if (!status) status = api_advance(g, ids[i]);
    }
    free(ids);
    return status;
}

static pco_status api_generate_seq2seq(api_generation *g, const char *prompt)
{
    pco_model *model = g->model;
    int32_t *ids;
    size_t count;
    g->stats.stop_reason = PCO_STOP_END;
    if (!*prompt) return PCO_OK;
    pco_status status = api_encode(model, prompt, strlen(prompt), 1, &ids, &count, g->err);
    if (status) return status;
    const double begin = api_seconds();
    g->stats.prompt_tokens = (int64_t)count;
    if ((int64_t)count > model->context_length)
        status = pco_fail(g->err, PCO_ERROR_INVALID, "the source has %zu tokens and the context %" PRId64, count,
                          model->context_length);
    if (!status) status = pco_seq2seq_encode(model->seq2seq, ids, (int64_t)count, g->err);
    if (!status) status = api_begin_target(g);
    g->stats.prompt_seconds = api_seconds() - begin;
    g->stats.stop_reason = PCO_STOP_CALLBACK;
    free(ids);
    if (status) return status;
    /* the last token of the target need not be read: position may reach the context */
    return api_continue(g, model->context_length - pco_seq2seq_position(model->seq2seq) + 1);
}

pco_status pco_model_generate(pco_model *model, const char *prompt, const pco_generate_params *params, pco_text_fn text,
                              void *user, pco_generate_stats *stats, pco_error *err)
{
    pco_generate_params known = {.size = sizeof known};
    API_NEEDS_WRITER(model);
    PCO_NEEDS(prompt);
    pco_status status = params ? pco_copy_sized(&known, sizeof known, params, params->size, err) : PCO_OK;
    if (!status && stats) status = pco_check_sized(sizeof *stats, stats->size, err);
    if (status) return status;
    params = &known;
    api_generation g = {.model = model, .params = params, .text = text, .user = user, .err = err};
    g.sampler = (pco_sampler){.temperature = params->temperature,
                              .top_p = params->top_p == 0 ? 1 : params->top_p,
                              .top_k = params->top_k,
                              .seed = params->seed};
    if (params->max_tokens < 0) return pco_fail(err, PCO_ERROR_INVALID, "max_tokens is below 0");
    status = pco_sampler_check(&g.sampler, err);
    if (status) return status;
    if (!model->file->source || !model->file->target)
        return pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has no tokenizer", model->file->path);
    g.decoder = PCO_DECODER(model->file->target);
    model->n_sequence = 0;
    status = model->causal ? api_generate_causal(&g, prompt) : api_generate_seq2seq(&g, prompt);
    g.stats.load_seconds = model->load_seconds;
    pco_session_memory(model->session, &g.stats.peak_device_bytes);
    if (stats) (void)pco_fill_sized(stats, &g.stats, sizeof g.stats, NULL); /* its size was looked at above */
    return status;
}
