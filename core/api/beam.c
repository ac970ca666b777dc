#include "portico/beam.h"
#include "api/text.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/writer.h"
#include "text/beam.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BEAM_MOST = 64, BEAM_USUAL = 4 };

/* One search under way. */
typedef struct beam_search {
    pco_model *model;
    const pco_generate_params *params;
    pco_beam_params how;
    int64_t room;       /* tokens that the context has for what is generated */
    const int32_t *ids; /* what is in front of the text: of an encoder-decoder the prefix, which is part of it */
    size_t count;
    float *logits; /* [beams,vocab_size] */
    int64_t *from, *lanes;
    int32_t *next; /* [beams] */
    pco_beams *beams;
    pco_generate_stats stats;
    pco_error *err;
} beam_search;

static int beam_ends(const void *user, int32_t id) { return api_ends(user, id); }

/* Only what is about how much is generated, and behind what. */
static pco_status beam_check_params(const pco_generate_params *params, pco_error *err)
{
    const double zero[] = {params->temperature, params->min_p, params->typical_p, params->presence_penalty,
                           params->frequency_penalty};
    int plain = !params->top_k && !params->stop_count && !params->sample && !params->token && !params->progress &&
                !params->echo && !params->context_shift && !params->repeat_last_n && !params->draft &&
                !params->grammar && !params->json_schema;
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++) plain &= zero[i] == 0;
    plain &= (params->top_p == 0 || params->top_p == 1) && (params->repeat_penalty == 0 || params->repeat_penalty == 1);
    if (params->max_tokens < 0) return pco_fail(err, PCO_ERROR_INVALID, "max_tokens is below 0");
    if (plain) return PCO_OK;
    return pco_fail(err, PCO_ERROR_INVALID,
                    "beam search draws nothing: it takes no temperature, limits, penalties, stop strings, callbacks, "
                    "echo, context shift, draft and grammar");
}

static pco_status beam_check(const beam_search *s, pco_error *err)
{
    const pco_beam_params *how = &s->how;
    if (how->beams < 1 || how->beams > BEAM_MOST)
        return pco_fail(err, PCO_ERROR_INVALID, "%" PRId64 " beams are not possible; it can be 1 to %d", how->beams,
                        BEAM_MOST);
    if (how->returned < 1 || how->returned > how->beams)
        return pco_fail(err, PCO_ERROR_INVALID, "%" PRId64 " texts are to be returned of %" PRId64 " beams",
                        how->returned, how->beams);
    if (!(how->length_penalty >= -100 && how->length_penalty <= 100))
        return pco_fail(err, PCO_ERROR_INVALID, "length_penalty is %g; it can be -100 to 100", how->length_penalty);
    if ((unsigned)how->early_stopping > PCO_EARLY_STOPPING_NEVER)
        return pco_fail(err, PCO_ERROR_INVALID, "early_stopping is %d, which means nothing", (int)how->early_stopping);
    return beam_check_params(s->params, err);
}

/* ---- the two kinds of models ---- */

/* The prompt, read once; the first step makes the other beams of it. */
static pco_status beam_begin_causal(beam_search *s)
{
    pco_model *model = s->model;
    const pco_causal_room room = {model->context_length, s->how.beams, model->cache_type, "beam"};
    const int64_t vocab = model->file->spec.vocab_size[PCO_DECODER];
    if (model->beams && model->beam_lanes != s->how.beams) {
        pco_causal_destroy(model->beams);
        model->beams = NULL;
    }
    pco_status status = PCO_OK;
    if (!model->beams)
        status =
            pco_causal_create(model->session, model->file->weights, &model->file->spec, &room, &model->beams, s->err);
    if (status) return status;
    model->beam_lanes = s->how.beams;
    for (int64_t i = 0; i < s->how.beams; i++) {
        pco_causal_select(model->beams, s->how.beams - 1 - i); /* the first one at last */
        pco_causal_reset(model->beams);
    }
    status = pco_causal_append(model->beams, s->ids, (int64_t)s->count, s->logits, s->err);
    for (int64_t i = 1; i < s->how.beams; i++) memcpy(s->logits + i * vocab, s->logits, (size_t)vocab * sizeof(float));
    s->room = model->context_length - (int64_t)s->count;
    return status;
}

static pco_status beam_same(beam_search *s, int32_t id)
{
    for (int64_t i = 0; i < s->how.beams; i++) s->next[i] = id;
    return pco_seq2seq_step_beams(s->model->seq2seq, s->next, s->logits, s->err);
}

/* The start token and the prefix, of all beams; the source has been read. */
static pco_status beam_begin_seq2seq(beam_search *s)
{
    pco_model *model = s->model;
    pco_status status = pco_seq2seq_begin_beams(model->seq2seq, s->how.beams, s->err);
    if (!status) status = beam_same(s, model->file->spec.decoder_start_token_id);
    for (size_t i = 0; !status && i < s->count; i++) status = beam_same(s, s->ids[i]);
    s->room = model->context_length - (int64_t)s->count; /* the last token need not be read */
    return status;
}

static pco_status beam_go_on(beam_search *s)
{
    pco_model *model = s->model;
    if (model->seq2seq) {
        const pco_status status = pco_seq2seq_reorder_beams(model->seq2seq, s->from, s->err);
        return status ? status : pco_seq2seq_step_beams(model->seq2seq, s->next, s->logits, s->err);
    }
    pco_status status = pco_causal_reorder(model->beams, s->from, s->err);
    return status ? status : pco_causal_step(model->beams, s->lanes, s->next, s->how.beams, s->logits, s->err);
}

/* ---- the search ---- */

/* The text of the tokens of a beam, in `text`, as pco_model_generate gives it out. */
static pco_status beam_write(const beam_search *s, const int32_t *ids, size_t count, pco_writer *text)
{
    pco_decoder decoder = PCO_DECODER(s->model->file->target);
    const int shown = s->model->seq2seq != NULL; /* a prefix is part of the output */
    pco_status status = PCO_OK;
    text->size = 0;
    for (size_t i = 0; !status && i < s->count + count; i++) {
        const char *piece;
        size_t bytes;
        status = pco_decoder_next(&decoder, i < s->count ? s->ids[i] : ids[i - s->count], &piece, &bytes, s->err);
        if (!status && (shown || i >= s->count)) pco_write(text, piece, bytes);
    }
    pco_write_char(text, 0);
    return status ? status : pco_writer_check(text, "a text", s->err);
}

static pco_status beam_give(beam_search *s, int64_t most, pco_beam_fn receive, void *user)
{
    pco_beam_text best;
    pco_writer text = {0};
    pco_status status = PCO_OK;
    int stopped = 0;
    for (int64_t rank = 0; !status && !stopped && rank < s->how.returned; rank++) {
        if (!pco_beams_text(s->beams, rank, &best)) break;
        const pco_stop_reason reason = best.ended        ? PCO_STOP_END
                                       : most == s->room ? PCO_STOP_CONTEXT
                                                         : PCO_STOP_MAX_TOKENS;
        if (rank == 0) {
            s->stats.generated_tokens = (int64_t)best.count;
            s->stats.stop_reason = reason;
        }
        if (s->model->file->target) status = beam_write(s, best.ids, best.count, &text);
        if (status) break;
        const pco_beam beam = {.size = sizeof beam,
                               .rank = rank,
                               .text = text.data,
                               .bytes = text.data ? text.size - 1 : 0,
                               .ids = best.ids,
                               .count = best.count,
                               .score = best.score,
                               .log_probability = best.log_probability,
                               .stop_reason = reason};
        stopped = receive(user, &beam);
    }
    pco_writer_release(&text);
    return status;
}

static pco_status beam_run(beam_search *s, pco_beam_fn receive, void *user)
{
    const pco_model_spec *spec = &s->model->file->spec;
    const int64_t most = s->params->max_tokens && s->params->max_tokens < s->room ? s->params->max_tokens : s->room;
    const pco_beam_rules rules = {.beams = s->how.beams,
                                  .never = s->model->file->never,
                                  .n_never = s->model->file->n_never,
                                  .vocab_size = spec->vocab_size[PCO_DECODER],
                                  .max_tokens = most,
                                  .length_penalty = s->how.length_penalty,
                                  .stopping = (pco_beam_stopping)s->how.early_stopping,
                                  .ends = beam_ends,
                                  .user = s->model};
    if (most < 1)
        return pco_fail(s->err, PCO_ERROR_INVALID, "the prompt fills the context of %" PRId64 " tokens",
                        s->model->context_length);
    const double begin = pco_seconds();
    int done = 0;
    pco_status status = pco_beams_create(&rules, &s->beams, s->err);
    for (int64_t tokens = 1; !status; tokens++) {
        status = pco_beams_step(s->beams, s->logits, s->from, s->next, &done, s->err);
        if (status || done) break;
        if (s->how.progress && s->how.progress(s->how.progress_user, tokens))
            status = pco_fail(s->err, PCO_ERROR_CANCELLED, "the callback ended a beam search");
        if (!status) status = beam_go_on(s);
    }
    s->stats.generation_seconds = pco_seconds() - begin;
    return status ? status : beam_give(s, most, receive, user);
}

static pco_status beam_memory(beam_search *s)
{
    const size_t n = (size_t)s->how.beams, vocab = (size_t)s->model->file->spec.vocab_size[PCO_DECODER];
    s->logits = malloc(n * vocab * sizeof *s->logits);
    s->from = malloc(n * sizeof *s->from);
    s->lanes = malloc(n * sizeof *s->lanes);
    s->next = malloc(n * sizeof *s->next);
    if (!s->logits || !s->from || !s->lanes || !s->next)
        return pco_fail(s->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %zu beams", n);
    for (size_t i = 0; i < n; i++) s->lanes[i] = (int64_t)i;
    return PCO_OK;
}

/* An empty source: an empty answer, for sure. */
static pco_status beam_nothing(beam_search *s, pco_beam_fn receive, void *user)
{
    const pco_beam beam = {.size = sizeof beam, .text = s->model->file->target ? "" : NULL};
    s->stats.stop_reason = PCO_STOP_END;
    (void)receive(user, &beam);
    return PCO_OK;
}

/* Reads prompt and prefix, and searches. */
static pco_status beam_search_behind(beam_search *s, const char *prompt, pco_beam_fn receive, void *user)
{
    const pco_generate_params *params = s->params;
    pco_model *model = s->model;
    const pco_tokenizer *target = model->file->target;
    const int32_t *source = params->prompt_ids;
    int32_t *made = NULL, *prefix = NULL;
    size_t count = params->prompt_count;
    if (model->seq2seq && (prompt ? !*prompt : !count)) return beam_nothing(s, receive, user);
    pco_status status = PCO_OK;
    if (prompt) status = api_encode(model, prompt, strlen(prompt), PCO_TOKENIZE_ENDS, &made, &count, s->err);
    if (prompt) source = made;
    s->stats.prompt_tokens = (int64_t)count;
    s->ids = model->seq2seq ? params->prefix_ids : source;
    s->count = model->seq2seq ? params->prefix_count : count;
    if (!status && params->prefix && target) {
        status = pco_tokenizer_encode(target, params->prefix, strlen(params->prefix), 0, &prefix, &s->count, s->err);
        s->ids = prefix;
    }
    const double begin = pco_seconds();
    if (!status && !model->seq2seq && !count)
        status = pco_fail(s->err, PCO_ERROR_INVALID, "the prompt is empty, and the model has no BOS to begin from");
    if (!status) status = beam_memory(s);
    if (!status && model->seq2seq) status = pco_seq2seq_encode(model->seq2seq, source, (int64_t)count, s->err);
    if (!status) status = model->seq2seq ? beam_begin_seq2seq(s) : beam_begin_causal(s);
    s->stats.prompt_seconds = pco_seconds() - begin;
    if (!status) status = beam_run(s, receive, user);
    free(made);
    free(prefix);
    return status;
}

pco_status pco_model_beam_search(pco_model *model, const char *prompt, const pco_generate_params *params,
                                 const pco_beam_params *how, pco_beam_fn receive, void *user, pco_generate_stats *stats,
                                 pco_error *err)
{
    pco_generate_params known = {.size = sizeof known};
    beam_search s = {.model = model, .params = &known, .how = {.size = sizeof s.how}, .err = err};
    PCO_NEEDS(receive);
    API_NEEDS_WRITER(model);
    pco_status status = params ? pco_copy_sized(&known, sizeof known, params, params->size, err) : PCO_OK;
    if (!status && how) status = pco_copy_sized(&s.how, sizeof s.how, how, how->size, err);
    if (!status && stats) status = pco_check_sized(sizeof *stats, stats->size, err);
    if (!status) status = api_check_texts(model, &known, __func__, prompt, 0, err);
    if (status) return status;
    if (!s.how.beams) s.how.beams = BEAM_USUAL;
    if (!s.how.returned) s.how.returned = 1;
    if (s.how.length_penalty == 0) s.how.length_penalty = 1;
    status = beam_check(&s, err);
    if (!status) status = beam_search_behind(&s, prompt, receive, user);
    pco_beams_destroy(s.beams);
    free(s.logits);
    free(s.from);
    free(s.lanes);
    free(s.next);
    s.stats.load_seconds = model->load_seconds;
    pco_session_memory(model->session, &s.stats.peak_device_bytes);
    if (stats) (void)pco_fill_sized(stats, &s.stats, sizeof s.stats, NULL);
    return status;
}
