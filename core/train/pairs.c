#include "train/pairs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "train/random.h"

/* Column number `wanted`, from 1, of a line; 0 when the line has fewer, *columns of them. */
static int pairs_column(const char *line, size_t size, int64_t wanted, const char **text, uint32_t *bytes,
                        int64_t *columns)
{
    const char *at = line, *end = line + size;
    for (*columns = 1;; ++*columns) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        if (*columns == wanted) {
            *text = at;
            *bytes = (uint32_t)((tab ? tab : end) - at);
            return 1;
        }
        if (!tab) return 0;
        at = tab + 1;
    }
}

static pco_status pairs_line(const char *label, const pco_pairs_params *params, const char *line, size_t size,
                             pco_pair *pair, pco_error *err)
{
    size_t good = pco_utf8_check(line, size);
    if (good < size)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s:%u: the line is not UTF-8 at byte %zu; convert the file to UTF-8",
                        label, pair->line, good);
    if (memchr(line, 0, size))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s:%u: the line contains a NUL byte", label, pair->line);
    for (int side = 0; side < 2; side++) {
        const int64_t wanted = params->columns[side];
        int64_t columns;
        if (!pairs_column(line, size, wanted, &pair->text[side], &pair->size[side], &columns))
            return pco_fail(err, PCO_ERROR_FORMAT,
                            "%s:%u: column %" PRId64 " is missing: the line has %" PRId64 " column%s between tabs",
                            label, pair->line, wanted, columns, columns == 1 ? "" : "s");
        if (pair->size[side] == 0)
            return pco_fail(err, PCO_ERROR_FORMAT, "%s:%u: column %" PRId64 " is empty", label, pair->line, wanted);
    }
    return PCO_OK;
}

static pco_status pairs_all(const pco_map *map, const char *label, const pco_pairs_params *params, pco_pair **pairs,
                            uint32_t *count, pco_error *err)
{
    const char *at = (const char *)map->data, *end = at + map->size;
    const uint32_t threshold = (uint32_t)(params->held_out * 4294967296.0);
    uint32_t capacity = 0;
    pco_status status = PCO_OK;
    while (at < end && !status) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((newline ? newline : end) - at);
        if (size && at[size - 1] == '\r') size--;
        if (*count == capacity) {
            capacity = 2 * capacity + 1024;
            pco_pair *grown = realloc(*pairs, capacity * sizeof *grown);
            if (!grown) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", label);
            *pairs = grown;
        }
        pco_pair *pair = &(*pairs)[*count];
        *pair = (pco_pair){.line = *count + 1};
        pair->held_out = pco_random_block(0, PCO_RANDOM_SPLIT, 0, *count).word[0] < threshold;
        status = pairs_line(label, params, at, size, pair, err);
        ++*count;
        at = newline ? newline + 1 : end;
    }
    return status;
}

pco_status pco_pairs_read(const pco_map *map, const char *label, const pco_pairs_params *params, pco_pair **pairs,
                          uint32_t *count, pco_error *err)
{
    *pairs = NULL;
    *count = 0;
    if (map->size == 0) return pco_fail(err, PCO_ERROR_FORMAT, "%s:1: the file is empty", label);
    pco_status status = pairs_all(map, label, params, pairs, count, err);
    if (status) {
        free(*pairs);
        *pairs = NULL;
        *count = 0;
    }
    return status;
}
