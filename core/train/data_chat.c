/* Chats: each line of a file is a conversation, written as the model's template writes it; what the assistant says has
 * a loss. */
#include "train/data_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "models/chat.h"
#include "text/template.h"
#include "train/random.h"

/* What templates that write today's date are told: seconds since 1970 of 26 July 2024, the day that Llama 3's take
 * where they are told none. A run must see the same texts on another day. */
#define CHAT_NOW INT64_C(1721952000)

typedef struct chat_reader {
    const pco_data *data;
    pco_template *template;
    cJSON *variables; /* of all chats */
} chat_reader;

/* A conversation as text or as ids. */
typedef struct chat_text {
    char *text;
    int32_t *ids;
    size_t size, count;
} chat_text;

static void chat_release(chat_text *t)
{
    free(t->text);
    free(t->ids);
    *t = (chat_text){0};
}

static pco_status chat_open(chat_reader *r, pco_error *err)
{
    char *source;
    const pco_model_file *model = r->data->model;
    pco_status status = pco_model_chat_source(model, &source, err);
    if (status) return status;
    status = pco_template_parse(source, strlen(source), model->path, &r->template, err);
    free(source);
    if (!status && !(r->variables = cJSON_CreateObject())) status = data_no_memory(err);
    if (!status) status = pco_model_chat_tokens(model, r->variables, err);
    if (!status && (!pco_json_give(r->variables, "tools", cJSON_CreateNull()) ||
                    !pco_json_give(r->variables, "documents", cJSON_CreateNull())))
        status = data_no_memory(err);
    return status;
}

/* The first `count` messages; with `asked`, and the beginning of an answer. */
static pco_status chat_render(const chat_reader *r, const cJSON *messages, int count, int asked, chat_text *out,
                              pco_error *err)
{
    cJSON *variables = cJSON_Duplicate(r->variables, 1), *list = cJSON_CreateArray();
    const cJSON *item;
    int i = 0, good = pco_json_give(variables, "messages", list);
    cJSON_ArrayForEach(item, messages) if (good && i++ < count) good =
        pco_json_give(list, NULL, cJSON_Duplicate(item, 1));
    good = good && pco_json_give(variables, "add_generation_prompt", cJSON_CreateBool(asked));
    *out = (chat_text){0};
    pco_status status =
        good ? pco_template_render(r->template, variables, CHAT_NOW, &out->text, &out->size, err) : data_no_memory(err);
    cJSON_Delete(variables);
    if (!status)
        status = pco_tokenizer_encode(r->data->model->target, out->text, out->size, PCO_ENCODE_SPECIAL, &out->ids,
                                      &out->count, err);
    if (status) chat_release(out);
    return status;
}

static int chat_begins(const chat_text *whole, const chat_text *part)
{
    return part->size <= whole->size && memcmp(whole->text, part->text, part->size) == 0;
}

static size_t chat_common(const chat_text *a, const chat_text *b)
{
    size_t i = 0;
    while (i < a->count && i < b->count && a->ids[i] == b->ids[i]) i++;
    return i;
}

/* Gives the ids of one answer their labels: those that the template adds to the question, and to what asks for an
 * answer. A token that is of both has a loss. */
static pco_status chat_answer(const chat_reader *r, const cJSON *messages, int index, const chat_text *whole,
                              int32_t *labels, pco_error *err)
{
    chat_text asked, told = {0};
    pco_status status = chat_render(r, messages, index, 1, &asked, err);
    if (!status) status = chat_render(r, messages, index + 1, 0, &told, err);
    if (!status && (!chat_begins(&told, &asked) || !chat_begins(whole, &told)))
        status =
            pco_fail(err, PCO_ERROR_UNSUPPORTED,
                     "the chat template of %s writes an answer (message %d) in another way than it asks for it, or "
                     "changes it in longer chats; end the chat with that answer, or leave it out",
                     r->data->model->path, index + 1);
    if (!status) {
        const size_t begin = chat_common(whole, &asked), end = chat_common(whole, &told);
        for (size_t i = begin; i < end; i++) labels[i] = whole->ids[i];
    }
    chat_release(&asked);
    chat_release(&told);
    return status;
}

static int chat_is_answer(const cJSON *message)
{
    const char *role = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "role"));
    return role && strcmp(role, "assistant") == 0;
}

/* How many messages there are up to the last answer. Errors: FORMAT. */
static pco_status chat_check(const cJSON *line, int *count, pco_error *err)
{
    const cJSON *messages = cJSON_GetObjectItemCaseSensitive(line, "messages"), *item;
    int i = 0;
    *count = 0;
    if (!cJSON_IsArray(messages)) return pco_fail(err, PCO_ERROR_FORMAT, "a chat is an object with a list 'messages'");
    cJSON_ArrayForEach(item, messages)
    {
        i++;
        if (!cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "role")) ||
            !cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "content")))
            return pco_fail(err, PCO_ERROR_FORMAT, "message %d must have a 'role' and a 'content', both texts", i);
        if (chat_is_answer(item)) *count = i;
    }
    if (!*count)
        return pco_fail(err, PCO_ERROR_FORMAT, "no message has the role 'assistant', and only answers are learned");
    return PCO_OK;
}

/* All of one chat: ids, and for each its label; no labels (NULL) where it is too long. */
static pco_status chat_line(const chat_reader *r, const cJSON *line, chat_text *whole, int32_t **labels, pco_error *err)
{
    int count, i = 0;
    const cJSON *messages = cJSON_GetObjectItemCaseSensitive(line, "messages"), *item;
    *labels = NULL;
    *whole = (chat_text){0};
    pco_status status = chat_check(line, &count, err);
    if (!status) status = chat_render(r, messages, count, 0, whole, err);
    if (!status && (whole->count < 2 || (int64_t)whole->count - 1 > r->data->config->context)) return PCO_OK;
    if (!status && !(*labels = malloc(whole->count * sizeof **labels))) status = data_no_memory(err);
    for (size_t k = 0; k < whole->count && !status; k++) (*labels)[k] = PCO_DATA_IGNORE;
    cJSON_ArrayForEach(item, messages)
    {
        if (!status && i < count && chat_is_answer(item)) status = chat_answer(r, messages, i, whole, *labels, err);
        i++;
    }
    return status;
}

/* The row reads ids 0 .. n-2, and its labels are those of 1 .. n-1. */
static pco_status chat_add(data_part *part, const chat_text *whole, const int32_t *labels, uint32_t *capacity,
                           pco_error *err)
{
    if (!labels) {
        part->left_out++;
        return PCO_OK;
    }
    if (part->count == *capacity) {
        *capacity = 2 * *capacity + 256;
        data_sample *grown = realloc(part->samples, *capacity * sizeof *grown);
        if (!grown) return data_no_memory(err);
        part->samples = grown;
    }
    const uint32_t size = (uint32_t)whole->count - 1;
    data_sample *sample = &part->samples[part->count++];
    *sample = (data_sample){.at = {part->id_count, part->id_count + size}, .size = {0, size - 1}};
    pco_status status = data_append(part, labels + 1, size, err);
    return status ? status : data_append(part, whole->ids, size, err);
}

static int chat_is_blank(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') return 0;
    return 1;
}

static pco_status chat_all(pco_data *data, const chat_reader *r, pco_error *err)
{
    const uint32_t threshold = (uint32_t)(data->config->held_out * 4294967296.0);
    const char *at = (const char *)data->map.data, *end = at + data->map.size;
    uint32_t number = 0, capacity[2] = {0, 0};
    pco_status status = PCO_OK;
    while (at < end && !status) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t size = (size_t)((newline ? newline : end) - at);
        const int held_out = pco_random_block(0, PCO_RANDOM_SPLIT, 0, number++).word[0] < threshold;
        chat_text whole = {0};
        int32_t *labels = NULL;
        cJSON *line = NULL;
        if (!chat_is_blank(at, size)) {
            status = pco_json_parse(at, size, "the line", &line, err);
            if (!status) status = chat_line(r, line, &whole, &labels, err);
            if (!status)
                status = chat_add(&data->parts[held_out ? PCO_DATA_HELD_OUT : PCO_DATA_TRAIN], &whole, labels,
                                  &capacity[held_out], err);
            if (status) pco_fail_prefix(err, status, "%s:%u", data->config->file, number);
        }
        cJSON_Delete(line);
        chat_release(&whole);
        free(labels);
        at = newline ? newline + 1 : end;
    }
    return status;
}

pco_status data_encode_chats(pco_data *data, pco_error *err)
{
    chat_reader reader = {.data = data};
    const data_part *part = &data->parts[PCO_DATA_TRAIN];
    pco_status status = chat_open(&reader, err);
    if (!status) status = chat_all(data, &reader, err);
    if (!status && part->count == 0)
        status = pco_fail(err, PCO_ERROR_FORMAT,
                          "%s: no chat is left to train on: %u are longer than context_length %" PRId64
                          ", and held_out is %g",
                          data->config->file, part->left_out, data->config->context, data->config->held_out);
    pco_template_destroy(reader.template);
    cJSON_Delete(reader.variables);
    return status;
}
