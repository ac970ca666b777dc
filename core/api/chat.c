#include "portico/chat.h"

#include "api/text.h"
#include "base/error.h"
#include "base/utf8.h"
#include "models/chat.h"
#include "text/template.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- rendering ---- */

static pco_status chat_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a chat");
}

/* {"role": ..., "content": ...} for each message, as the variable `messages`. */
static pco_status chat_messages(const pco_chat_message *messages, size_t count, cJSON *variables, pco_error *err)
{
    cJSON *list = cJSON_CreateArray();
    if (!pco_json_give(variables, "messages", list)) return chat_no_memory(err);
    for (size_t i = 0; i < count; i++) {
        const char *const parts[] = {messages[i].role, messages[i].content};
        cJSON *item = cJSON_CreateObject();
        if (!pco_json_give(list, NULL, item)) return chat_no_memory(err);
        for (int k = 0; k < 2; k++) {
            const char *name = k ? "content" : "role";
            if (!parts[k]) return pco_fail(err, PCO_ERROR_INVALID, "message %zu has no %s: it is NULL", i, name);
            if (pco_utf8_check(parts[k], strlen(parts[k])) != strlen(parts[k]))
                return pco_fail(err, PCO_ERROR_INVALID, "message %zu: its %s is not UTF-8 at byte %zu", i, name,
                                pco_utf8_check(parts[k], strlen(parts[k])));
            if (!pco_json_give(item, name, cJSON_CreateString(parts[k]))) return chat_no_memory(err);
        }
    }
    return PCO_OK;
}

/* The caller's variables, which come before ours. */
static pco_status chat_read_variables(const pco_chat_params *params, size_t count, cJSON **variables, pco_error *err)
{
    const char *text = params->variables ? params->variables : "{}";
    pco_status status = pco_json_parse(text, strlen(text), "the chat's variables", variables, err);
    if (status) return status;
    if (!cJSON_IsObject(*variables))
        return pco_fail(err, PCO_ERROR_FORMAT, "the chat's variables must be a JSON object");
    const cJSON *given = cJSON_GetObjectItemCaseSensitive(*variables, "messages");
    if (given && count)
        return pco_fail(err, PCO_ERROR_INVALID, "messages are given as structs and in 'variables'; leave one out");
    if (given && !cJSON_IsArray(given))
        return pco_fail(err, PCO_ERROR_FORMAT, "the chat's variables: 'messages' must be a list");
    return PCO_OK;
}

/* Ours, as transformers sets them: tools and documents are there, and none. */
static pco_status chat_variables(const pco_model *model, const pco_chat_message *messages, size_t count,
                                 const pco_chat_params *params, cJSON **variables, pco_error *err)
{
    cJSON *ours = cJSON_CreateObject();
    pco_status status = ours ? chat_read_variables(params, count, variables, err) : chat_no_memory(err);
    if (!status) status = pco_model_chat_tokens(model->file, ours, err);
    if (!status && !cJSON_HasObjectItem(*variables, "messages")) status = chat_messages(messages, count, ours, err);
    if (!status &&
        (!pco_json_give(ours, "tools", cJSON_CreateNull()) || !pco_json_give(ours, "documents", cJSON_CreateNull()) ||
         !pco_json_give(ours, "add_generation_prompt", cJSON_CreateBool(!params->complete))))
        status = chat_no_memory(err);
    while (!status && ours->child) {
        cJSON *item = cJSON_DetachItemViaPointer(ours, ours->child);
        if (cJSON_GetObjectItemCaseSensitive(*variables, item->string))
            cJSON_Delete(item);
        else
            cJSON_AddItemToArray(*variables, item); /* it has its name already */
    }
    cJSON_Delete(ours);
    return status;
}

static pco_status chat_params(const pco_chat_params *given, pco_chat_params *known, pco_error *err)
{
    *known = (pco_chat_params){.size = sizeof *known};
    return given ? pco_copy_sized(known, sizeof *known, given, given->size, err) : PCO_OK;
}

static pco_status chat_render(const pco_model *model, const pco_chat_message *messages, size_t count,
                              const pco_chat_params *params, char **text, size_t *bytes, pco_error *err)
{
    char *source = NULL;
    pco_template *template = NULL;
    cJSON *variables = NULL;
    const char *given = params->source;
    pco_status status = given ? PCO_OK : pco_model_chat_source(model->file, &source, err);
    if (!given) given = source;
    if (!status)
        status = pco_template_parse(given, strlen(given), params->source ? "the template" : model->file->path,
                                    &template, err);
    if (!status) status = chat_variables(model, messages, count, params, &variables, err);
    if (!status)
        status = pco_template_render(template, variables, params->time ? params->time : (int64_t)time(NULL), text,
                                     bytes, err);
    pco_template_destroy(template);
    cJSON_Delete(variables);
    free(source);
    return status;
}

static pco_status chat_encode(const pco_model *model, const pco_chat_message *messages, size_t count,
                              const pco_chat_params *params, int32_t **ids, size_t *n_ids, pco_error *err)
{
    char *text = NULL;
    size_t bytes;
    pco_status status = chat_render(model, messages, count, params, &text, &bytes, err);
    if (!status) status = api_encode(model, text, bytes, PCO_TOKENIZE_CONTROL, ids, n_ids, err);
    free(text);
    return status;
}

pco_status pco_chat_source(const pco_model *model, char **source, pco_error *err)
{
    PCO_NEEDS(source);
    *source = NULL;
    API_NEEDS_MODEL(model);
    return pco_model_chat_source(model->file, source, err);
}

pco_status pco_chat_render(const pco_model *model, const pco_chat_message *messages, size_t count,
                           const pco_chat_params *params, char **text, size_t *bytes, pco_error *err)
{
    pco_chat_params known;
    PCO_NEEDS(text);
    PCO_NEEDS(bytes);
    *text = NULL;
    *bytes = 0;
    API_NEEDS_MODEL(model);
    PCO_NEEDS_SOME(messages, count);
    pco_status status = chat_params(params, &known, err);
    return status ? status : chat_render(model, messages, count, &known, text, bytes, err);
}

pco_status pco_chat_encode(const pco_model *model, const pco_chat_message *messages, size_t count,
                           const pco_chat_params *params, int32_t **ids, size_t *n_ids, pco_error *err)
{
    pco_chat_params known;
    PCO_NEEDS(ids);
    PCO_NEEDS(n_ids);
    *ids = NULL;
    *n_ids = 0;
    API_NEEDS_MODEL(model);
    PCO_NEEDS_SOME(messages, count);
    pco_status status = chat_params(params, &known, err);
    return status ? status : chat_encode(model, messages, count, &known, ids, n_ids, err);
}

/* ---- answering ---- */

/* The token that the template writes behind an answer, if it is a control token; -1 otherwise. Files name one end of a
 * text, and some not that of a turn. */
static int32_t chat_end(const pco_model *model, const pco_chat_params *params)
{
    static const char mark[] = "fjord7";
    static const pco_chat_message probe[] = {{"user", "a"}, {"assistant", mark}};
    const pco_chat_params complete = {.size = sizeof complete, .source = params->source, .complete = 1, .time = 1};
    pco_decoder decoder = PCO_DECODER(model->file->target);
    const char *piece, *at = NULL;
    char *text = NULL;
    size_t bytes, count = 0;
    int32_t *ids = NULL, end = -1;
    pco_error why;
    if (chat_render(model, probe, 2, &complete, &text, &bytes, &why)) return -1;
    for (const char *next = text; (next = strstr(next, mark)); next++) at = next + sizeof mark - 1;
    if (at && !api_encode(model, at, strlen(at), PCO_TOKENIZE_CONTROL, &ids, &count, &why) && count &&
        !pco_decoder_next(&decoder, ids[0], &piece, &bytes, &why) && bytes == 0)
        end = ids[0];
    free(ids);
    free(text);
    return end;
}

typedef struct chat_answer {
    const pco_generate_params *generate;
    pco_text_fn text;
    void *user;
    int32_t end;
    int ended, stopped;
} chat_answer;

static int answer_text(void *user, const char *text, size_t bytes)
{
    const chat_answer *a = user;
    return a->text(a->user, text, bytes);
}

static int answer_sample(void *user, float *logits, int64_t vocab_size, int64_t step, int32_t *id)
{
    const chat_answer *a = user;
    return a->generate->sample(a->user, logits, vocab_size, step, id);
}

static int answer_token(void *user, const pco_token *token)
{
    chat_answer *a = user;
    a->ended = token->id == a->end;
    if (!a->ended && a->generate->token && a->generate->token(a->user, token)) a->stopped = 1;
    return a->ended || a->stopped;
}

static int answer_prompt(void *user, int64_t done, int64_t count)
{
    const chat_answer *a = user;
    return a->generate->progress(a->user, done, count);
}

/* Keeps what the sequence has of ids[count], but the last one: its logits are wanted. */
static pco_status chat_keep(pco_sequence *sequence, const int32_t *ids, size_t count, size_t *kept, pco_error *err)
{
    *kept = 0;
    while (*kept + 1 < count && *kept < sequence->count && sequence->ids[*kept] == ids[*kept]) ++*kept;
    return pco_sequence_truncate(sequence, *kept, err);
}

static pco_status chat_generate(pco_sequence *sequence, const int32_t *ids, size_t count, const pco_chat_params *params,
                                const pco_generate_params *generate, pco_text_fn text, void *user,
                                pco_generate_stats *stats, pco_error *err)
{
    const pco_model *model = sequence->model;
    pco_generate_params inner = *generate;
    pco_generate_stats said = {.size = sizeof said};
    size_t kept;
    if (!count) return pco_fail(err, PCO_ERROR_INVALID, "the chat template writes nothing for these messages");
    if (count >= (size_t)model->context_length)
        return pco_fail(err, PCO_ERROR_INVALID,
                        "the messages have %zu tokens, and the context of %" PRId64 " leaves no room for an answer",
                        count, model->context_length);
    chat_answer answer = {generate, text, user, chat_end(model, params), 0, 0};
    pco_status status = chat_keep(sequence, ids, count, &kept, err);
    inner.prompt_ids = ids + kept;
    inner.prompt_count = count - kept;
    inner.token = answer_token;
    inner.sample = generate->sample ? answer_sample : NULL;
    inner.progress = generate->progress ? answer_prompt : NULL;
    if (!status) status = pco_sequence_generate(sequence, NULL, &inner, text ? answer_text : NULL, &answer, &said, err);
    if (status) return status;
    if (answer.ended) {
        said.stop_reason = PCO_STOP_END;
        said.generated_tokens--;
    }
    return stats ? pco_fill_sized(stats, &said, sizeof said, err) : PCO_OK;
}

pco_status pco_chat_answer(pco_sequence *sequence, const pco_chat_message *messages, size_t count,
                           const pco_chat_params *params, const pco_generate_params *generate, pco_text_fn text,
                           void *user, pco_generate_stats *stats, pco_error *err)
{
    pco_chat_params known;
    pco_generate_params how = {.size = sizeof how};
    int32_t *ids = NULL;
    size_t n_ids = 0;
    API_NEEDS_SEQUENCE(sequence);
    PCO_NEEDS_SOME(messages, count);
    pco_status status = chat_params(params, &known, err);
    if (!status && generate) status = pco_copy_sized(&how, sizeof how, generate, generate->size, err);
    how.size = sizeof how; /* it is handed on, with more than a caller with an older header knows */
    if (!status && stats) status = pco_check_sized(sizeof *stats, stats->size, err);
    if (!status && (how.prompt_ids || how.prompt_count || how.prefix || how.prefix_ids || how.echo || known.complete))
        status = pco_fail(err, PCO_ERROR_INVALID, "a chat's answer takes no prompt, prefix, echo and no 'complete'");
    if (!status) status = chat_encode(sequence->model, messages, count, &known, &ids, &n_ids, err);
    if (!status) status = chat_generate(sequence, ids, n_ids, &known, &how, text, user, stats, err);
    free(ids);
    return status;
}
