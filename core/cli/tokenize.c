#include "cli/tokenize.h"

#include "base/error.h"
#include "cli/cli.h"
#include "formats/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void tokenize_ids(const int32_t *ids, size_t count, int json, pco_writer *out)
{
    if (json) pco_write_char(out, '[');
    for (size_t i = 0; i < count; i++) pco_print(out, "%s%d", !i ? "" : json ? ", " : " ", (int)ids[i]);
    pco_write_text(out, json ? "]\n" : "\n");
}

static pco_status tokenize_one(const pco_tokenizer *tokenizer, const char *text, size_t size,
                               const tokenize_options *options, pco_writer *out, pco_error *err)
{
    int32_t *ids;
    size_t count;
    uint32_t flags = options->special ? PCO_ENCODE_SPECIAL : 0;
    if (options->ends && pco_tokenizer_adds_bos(tokenizer)) flags |= PCO_ENCODE_BOS;
    if (options->ends && pco_tokenizer_adds_eos(tokenizer)) flags |= PCO_ENCODE_EOS;
    pco_status status = pco_tokenizer_encode(tokenizer, text, size, flags, &ids, &count, err);
    if (status) return status;
    const uint32_t most = pco_tokenizer_max_length(tokenizer);
    if (most && count > most)
        cli_note("portico: a text has %zu tokens, more than the %u that the model takes\n", count, most);
    tokenize_ids(ids, count, options->json, out);
    free(ids);
    return PCO_OK;
}

pco_status tokenize_encode(const pco_tokenizer *tokenizer, const char *text, size_t size,
                           const tokenize_options *options, pco_writer *out, pco_error *err)
{
    pco_status status = PCO_OK;
    if (!options->lines && !options->json) return tokenize_one(tokenizer, text, size, options, out, err);
    for (size_t at = 0, number = 1, length; at < size && !status; at += length + 1, number++) {
        const char *end = memchr(text + at, '\n', size - at), *line = text + at;
        char label[40];
        cJSON *value = NULL;
        length = end ? (size_t)(end - line) : size - at;
        size_t bytes = length;
        snprintf(label, sizeof label, "line %zu", number);
        if (options->json) {
            status = pco_json_parse(line, length, label, &value, err);
            if (!status && !cJSON_IsString(value))
                status = pco_fail(err, PCO_ERROR_FORMAT, "%s: not a string of JSON", label);
            line = status ? NULL : value->valuestring;
            bytes = line ? strlen(line) : 0;
        }
        if (!status) status = tokenize_one(tokenizer, line, bytes, options, out, err);
        cJSON_Delete(value);
    }
    return status;
}

/* The numbers of a line, between blanks, commas and brackets. */
static pco_status tokenize_read_ids(char *line, int32_t **ids, size_t *count, pco_error *err)
{
    char *rest = NULL;
    *count = 0;
    *ids = malloc((strlen(line) / 2 + 1) * sizeof **ids);
    if (!*ids) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a line of ids");
    for (char *word = strtok_r(line, " \t\r,[]", &rest); word; word = strtok_r(NULL, " \t\r,[]", &rest)) {
        char *end;
        long id = strtol(word, &end, 10);
        if (*end || id < 0 || id > INT32_MAX)
            return pco_fail(err, PCO_ERROR_FORMAT, "'%.40s' is not the id of a token", word);
        (*ids)[(*count)++] = (int32_t)id;
    }
    return PCO_OK;
}

pco_status tokenize_decode(const pco_tokenizer *tokenizer, char *text, size_t size, const tokenize_options *options,
                           pco_writer *out, pco_error *err)
{
    pco_json_writer json = {.out = out};
    pco_status status = PCO_OK;
    for (char *line = text, *next; line && line < text + size && !status; line = next) {
        int32_t *ids;
        size_t count, bytes;
        char *back = NULL;
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        status = tokenize_read_ids(line, &ids, &count, err);
        if (!status) status = pco_tokenizer_decode(tokenizer, ids, count, &back, &bytes, err);
        if (!status && options->json)
            pco_json_write_bytes(&json, back, bytes);
        else if (!status)
            pco_write(out, back, bytes);
        if (options->json || options->lines) pco_write_char(out, '\n');
        json.filled = 0; /* values of their own */
        free(ids);
        free(back);
    }
    return status;
}

static double tokenize_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

pco_status tokenize_bench(const pco_tokenizer *tokenizer, const char *text, size_t size,
                          const tokenize_options *options, pco_writer *out, pco_error *err)
{
    double best = 0, spent = 0;
    size_t count = 0;
    int rounds = 0;
    for (; !rounds || spent < options->seconds; rounds++) {
        int32_t *ids;
        const double begin = tokenize_now();
        pco_status status = pco_tokenizer_encode(tokenizer, text, size, 0, &ids, &count, err);
        const double took = tokenize_now() - begin;
        if (status) return status;
        free(ids);
        spent += took;
        if (!rounds || took < best) best = took;
    }
    if (options->json)
        pco_print(out, "{\"bytes\": %zu, \"tokens\": %zu, \"rounds\": %d, \"seconds\": %.6f}\n", size, count, rounds,
                  best);
    else
        pco_print(out, "%zu bytes, %zu tokens: %.3f s, %.2f MB/s (processor time of one thread, best of %d)\n", size,
                  count, best, (double)size / 1e6 / (best > 0 ? best : 1e-9), rounds);
    return PCO_OK;
}
