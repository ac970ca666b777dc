/* GGUF files in several parts, NAME-00001-of-00003.gguf and so on: the first has the model's keys, each has some of its
 * tensors. Keys split.no (from 0), split.count and split.tensors.count tell how they belong together. */
#include "formats/gguf_parse.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPLIT_MOST = 99999, SPLIT_TAIL = sizeof "-00001-of-00003.gguf" - 1 };

/* Path of a part, malloc'ed: that of another one with its number in place; NULL without memory. */
static char *split_path(const char *path, uint32_t number, uint32_t count)
{
    char *made = NULL;
    const int stem = (int)(strlen(path) - SPLIT_TAIL);
    return asprintf(&made, "%.*s-%05" PRIu32 "-of-%05" PRIu32 ".gguf", stem, path, number + 1, count) < 0 ? NULL : made;
}

/* Is the file called as part `number` of `count`? */
static int split_is_named(const char *path, uint32_t number, uint32_t count)
{
    char tail[SPLIT_TAIL + 16];
    const size_t size = strlen(path);
    snprintf(tail, sizeof tail, "-%05" PRIu32 "-of-%05" PRIu32 ".gguf", number + 1, count);
    return size > SPLIT_TAIL && strcmp(path + size - SPLIT_TAIL, tail) == 0;
}

static pco_status split_numbers(const pco_gguf *gguf, uint32_t *number, uint32_t *count, pco_error *err)
{
    *number = 0;
    pco_status status = pco_gguf_u32_or(gguf, "split.count", 1, count, err);
    if (!status && *count > 1) status = pco_gguf_u32(gguf, "split.no", number, err);
    return status;
}

static pco_status split_add(pco_gguf *gguf, const char *first, uint32_t number, uint32_t count, uint32_t flags,
                            pco_error *err)
{
    char *path = split_path(first, number, count);
    pco_gguf *part = NULL;
    uint32_t its_number = 0, its_count = 0;
    if (!path) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: out of host memory for its parts", first);
    pco_status status = gguf_open_one(path, flags, &part, err);
    if (status) {
        status =
            pco_fail_prefix(err, status, "%s is one of %" PRIu32 " files, and all must lie beside it", first, count);
        goto done;
    }
    status = split_numbers(part, &its_number, &its_count, err);
    if (!status && (its_number != number || its_count != count))
        status = pco_fail(err, PCO_ERROR_FORMAT,
                          "%s says that it is part %" PRIu64 " of %" PRIu32 ", and by its name it is part %" PRIu32
                          " of %" PRIu32 ": the files are not of one model",
                          path, (uint64_t)its_number + 1, its_count, number + 1, count);
    if (!status) status = pco_weights_join(gguf->weights, part->weights, err);
    if (!status) part->weights = NULL; /* it is closed */
done:
    pco_gguf_close(part);
    free(path);
    return status;
}

/* Takes the tensors of the other parts in, where the file is the first of several. */
static pco_status split_join(pco_gguf *gguf, const char *path, uint32_t flags, pco_error *err)
{
    uint32_t number, count, tensors;
    pco_status status = split_numbers(gguf, &number, &count, err);
    if (status || count <= 1) return status;
    if (count > SPLIT_MOST || number >= count || !split_is_named(path, number, count))
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s is part %" PRIu64 " of %" PRIu32 " of a model, and not called so: its name must end with "
                        "-%05" PRIu64 "-of-%05" PRIu32 ".gguf, as those of the others, which lie beside it",
                        path, (uint64_t)number + 1, count, (uint64_t)number + 1, count);
    if (number > 0) {
        char *first = split_path(path, 0, count);
        status =
            pco_fail(err, PCO_ERROR_INVALID, "%s is part %" PRIu32 " of %" PRIu32 " of a model; give the first: %s",
                     path, number + 1, count, first ? first : "");
        free(first);
        return status;
    }
    for (uint32_t i = 1; i < count && !status; i++) status = split_add(gguf, path, i, count, flags, err);
    if (!status) status = pco_weights_index(gguf->weights, err);
    if (!status) status = pco_gguf_u32_or(gguf, "split.tensors.count", gguf->weights->count, &tensors, err);
    if (!status && tensors != gguf->weights->count)
        status = pco_fail(err, PCO_ERROR_FORMAT,
                          "%s and the files beside it have %" PRIu32 " tensors together, and should have %" PRIu32,
                          path, gguf->weights->count, tensors);
    return status;
}

pco_status pco_gguf_open(const char *path, uint32_t flags, pco_gguf **gguf, pco_error *err)
{
    pco_status status = gguf_open_one(path, flags, gguf, err);
    if (status) return status;
    status = split_join(*gguf, path, flags, err);
    if (!status) return PCO_OK;
    pco_gguf_close(*gguf);
    *gguf = NULL;
    return status;
}
