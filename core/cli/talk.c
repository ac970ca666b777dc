#include "cli/talk.h"

#include "base/error.h"
#include "formats/json.h"

#include <stdlib.h>
#include <string.h>

static const char *const talk_roles[] = {"system", "user", "assistant"};

void cli_talk_cut(cli_talk *talk, size_t first)
{
    while (talk->count > first) free((char *)talk->messages[--talk->count].content);
}

void cli_talk_release(cli_talk *talk)
{
    cli_talk_cut(talk, 0);
    free(talk->messages);
    *talk = (cli_talk){0};
}

static int talk_is(const cli_talk *talk, size_t index, const char *role)
{
    return index < talk->count && strcmp(talk->messages[index].role, role) == 0;
}

static void talk_remove(cli_talk *talk, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) free((char *)talk->messages[i].content);
    talk->count -= count;
    memmove(talk->messages + first, talk->messages + first + count, (talk->count - first) * sizeof *talk->messages);
}

size_t cli_talk_forget(cli_talk *talk)
{
    const size_t first = (size_t)talk_is(talk, 0, "system");
    size_t end = first + 1;
    while (end < talk->count && !talk_is(talk, end, "user")) end++;
    if (end >= talk->count) return 0; /* it is the last one */
    talk_remove(talk, first, end - first);
    return end - first;
}

pco_status cli_talk_add(cli_talk *talk, const char *role, const char *content, pco_error *err)
{
    char *copy = strdup(content);
    if (copy && talk->count == talk->capacity) {
        const size_t capacity = 2 * talk->capacity + 8;
        pco_chat_message *grown = realloc(talk->messages, capacity * sizeof *grown);
        if (grown) {
            talk->messages = grown;
            talk->capacity = capacity;
        }
    }
    if (!copy || talk->count == talk->capacity) {
        free(copy);
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a message");
    }
    talk->messages[talk->count++] = (pco_chat_message){role, copy};
    return PCO_OK;
}

pco_status cli_talk_system(cli_talk *talk, const char *content, pco_error *err)
{
    if (talk_is(talk, 0, "system")) talk_remove(talk, 0, 1);
    if (!*content) return PCO_OK;
    pco_status status = cli_talk_add(talk, "system", content, err);
    if (status) return status;
    const pco_chat_message added = talk->messages[talk->count - 1];
    memmove(talk->messages + 1, talk->messages, (talk->count - 1) * sizeof added);
    talk->messages[0] = added;
    return PCO_OK;
}

pco_status cli_talk_save(const cli_talk *talk, const char *path, pco_error *err)
{
    pco_writer out = {0};
    pco_json_writer json = {.out = &out, .indent = 2};
    pco_json_begin_array(&json);
    for (size_t i = 0; i < talk->count; i++) {
        pco_json_begin_object(&json);
        pco_json_key(&json, "role");
        pco_json_write_string(&json, talk->messages[i].role);
        pco_json_key(&json, "content");
        pco_json_write_string(&json, talk->messages[i].content);
        pco_json_end_object(&json);
    }
    pco_json_end_array(&json);
    pco_write_text(&out, "\n");
    pco_status status = pco_writer_save(&out, path, err);
    pco_writer_release(&out);
    return status;
}

pco_status cli_talk_load(cli_talk *talk, const char *path, pco_error *err)
{
    static const char *const keys[] = {"role", "content"};
    cli_talk read = {0};
    cJSON *root;
    pco_status status = pco_json_load(path, &root, err);
    if (status) return status;
    if (!cJSON_IsArray(root))
        status = pco_fail(err, PCO_ERROR_FORMAT,
                          "%s: a chat is a list of messages, [{\"role\": ..., \"content\": ...}, ...]", path);
    const cJSON *item;
    cJSON_ArrayForEach(item, root)
    {
        const char *content = NULL;
        uint32_t role = 0;
        if (!status) status = pco_json_known(item, path, keys, 2, err);
        if (!status) status = pco_json_enum(item, path, "role", talk_roles, 3, &role, err);
        if (!status) status = pco_json_string(item, path, "content", &content, err);
        if (!status) status = cli_talk_add(&read, talk_roles[role], content, err);
    }
    cJSON_Delete(root);
    if (status) {
        cli_talk_release(&read);
        return status;
    }
    cli_talk_release(talk);
    *talk = read;
    return PCO_OK;
}
