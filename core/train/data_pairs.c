/* Lines of columns between tabs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "train/data_internal.h"
#include "train/random.h"

/* Column number `wanted`, from 1, of a line; 0 when the line has fewer. */
static int data_column(const char *line, size_t size, int64_t wanted, data_text *text, int64_t *columns)
{
    const char *at = line, *end = line + size;
    for (*columns = 1;; ++*columns) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        if (*columns == wanted) {
            *text = (data_text){at, (uint32_t)((tab ? tab : end) - at)};
            return 1;
        }
        if (!tab) return 0;
        at = tab + 1;
    }
}

static pco_status data_line(const pco_data_config *config, const char *line, size_t size, uint32_t number,
                            data_pair *pair, pco_error *err)
{
    const int64_t wanted[2] = {config->source_column, config->target_column};
    size_t good = pco_utf8_check(line, size);
    if (good < size)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s:%u: the line is not UTF-8 at byte %zu; convert the file to UTF-8",
                        config->file, number, good);
    if (memchr(line, 0, size))
        return pco_fail(err, PCO_ERROR_FORMAT, "%s:%u: the line contains a NUL byte", config->file, number);
    for (int side = 0; side < 2; side++) {
        int64_t columns;
        if (!data_column(line, size, wanted[side], &pair->text[side], &columns))
            return pco_fail(err, PCO_ERROR_FORMAT,
                            "%s:%u: column %" PRId64 " is missing: the line has %" PRId64
                            " column%s between tabs",
                            config->file, number, wanted[side], columns, columns == 1 ? "" : "s");
        if (pair->text[side].size == 0)
            return pco_fail(err, PCO_ERROR_FORMAT, "%s:%u: column %" PRId64 " is empty", config->file, number,
                            wanted[side]);
    }
    pair->line = number;
    return PCO_OK;
}

pco_status data_pairs_read(pco_data *data, pco_error *err)
{
    const pco_data_config *config = data->config;
    const char *at = (const char *)data->map.data, *end = at + data->map.size;
    /* the same lines are held out whatever the seed: runs can be compared, and evaluated later */
    const uint32_t threshold = (uint32_t)(config->held_out * 4294967296.0);
    uint32_t lines = 0, capacity = 0;
    pco_status status = PCO_OK;
    while (at < end && !status) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((newline ? newline : end) - at);
        if (size && at[size - 1] == '\r') size--;
        if (data->n_pairs == capacity) {
            capacity = capacity ? 2 * capacity : 1024;
            data_pair *grown = realloc(data->pairs, capacity * sizeof *grown);
            if (!grown) return data_no_memory(err);
            data->pairs = grown;
        }
        data_pair *pair = &data->pairs[data->n_pairs];
        *pair = (data_pair){0};
        status = data_line(config, at, size, ++lines, pair, err);
        pair->held_out = pco_random_block(0, PCO_RANDOM_SPLIT, 0, data->n_pairs).word[0] < threshold;
        data->n_pairs += !status;
        at = newline ? newline + 1 : end;
    }
    return status;
}
