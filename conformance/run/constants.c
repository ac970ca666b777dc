#include "run/constants.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

static int conf_constant_order(const pco_conformance_constant *a, const pco_conformance_constant *b)
{
    const int kernels = strcmp(a->kernel, b->kernel);
    return kernels ? kernels : a->number < b->number ? -1 : a->number > b->number;
}

/* The row of a constant, which is made when there is none; NULL: no memory. */
static pco_conformance_constant *conf_constants_row(conf_constants *constants, const pco_conformance_constant *seen)
{
    uint32_t low = 0, high = constants->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = conf_constant_order(seen, &constants->items[middle]);
        if (order == 0) return &constants->items[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    if (constants->count == constants->capacity) {
        const uint32_t capacity = constants->capacity ? constants->capacity * 2 : 256;
        pco_conformance_constant *grown = realloc(constants->items, capacity * sizeof *grown);
        if (!grown) return NULL;
        constants->items = grown, constants->capacity = capacity;
    }
    pco_conformance_constant *row = &constants->items[low];
    memmove(row + 1, row, (constants->count++ - low) * sizeof *row);
    *row = *seen;
    row->n_values = 0;
    return row;
}

/* Inserts a value in order; false: it was there, or there is no room for more. */
static bool conf_constant_insert(pco_conformance_constant *row, int32_t value)
{
    uint32_t at = 0;
    while (at < row->n_values && row->values[at] < value) at++;
    if ((at < row->n_values && row->values[at] == value) || row->n_values == PCO_CONSTANT_VALUES) return false;
    memmove(&row->values[at + 1], &row->values[at], (row->n_values++ - at) * sizeof *row->values);
    row->values[at] = value;
    return true;
}

pco_status conf_constants_note(conf_constants *constants, const pco_conformance_constant *seen, bool *fresh,
                               pco_error *err)
{
    bool any = false;
    pco_conformance_constant *row = conf_constants_row(constants, seen);
    if (!row) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the table of constants");
    for (uint32_t i = 0; i < seen->n_values && i < PCO_CONSTANT_VALUES; i++)
        any |= conf_constant_insert(row, seen->values[i]);
    if (fresh) *fresh = any;
    return PCO_OK;
}

pco_status conf_constants_add(conf_constants *constants, const conf_constants *from, pco_error *err)
{
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < from->count && !status; i++)
        status = conf_constants_note(constants, &from->items[i], NULL, err);
    return status;
}

void conf_constants_clear(conf_constants *constants)
{
    free(constants->items);
    *constants = (conf_constants){0};
}

/* ---- launches ---- */

/* The name that the kernel's text gives a constant: "SPEC(4, PER, ..." in the dialect of shaders/. "" where there is no
 * such text, as in other plugins. */
static void conf_constant_name(const pco_dispatch_info *info, uint32_t number, char *name, size_t size)
{
    char begin[24];
    const int length = snprintf(begin, sizeof begin, "\nSPEC(%u, ", (unsigned)number);
    const char *at = info->source, *end = at ? at + info->source_bytes : NULL;
    name[0] = 0;
    if (number < 3) snprintf(name, size, "LOCAL_%c", "XYZ"[number]);
    while (at && number >= 3 && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        if (end - at > length && memcmp(at, begin, (size_t)length) == 0) {
            const char *word = at + length;
            size_t n = 0;
            while (word + n < end && n + 1 < size && (word[n] == '_' || (word[n] >= 'A' && word[n] <= 'Z'))) n++;
            memcpy(name, word, n);
            name[n] = 0;
            return;
        }
        at++;
    }
}

/* Is the kernel's text in the dialect of shaders/, and says nothing of the constant? */
static bool conf_constant_is_unknown(const pco_dispatch_info *info, const pco_conformance_constant *seen)
{
    static const char spec[] = "\nSPEC(";
    const size_t length = sizeof spec - 1;
    const char *at = info->source, *end = at ? at + info->source_bytes : NULL;
    if (seen->name[0] || info->api != PCO_DISPATCH_VULKAN) return false;
    while (at && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        if ((size_t)(end - at) > length && memcmp(at, spec, length) == 0) return true;
        at++;
    }
    return false;
}

/* Is the kernel's text in the dialect of shaders/, and another kernel's? There "KERNEL(name)" is what name_1x4 and
 * others are made of; a text may have several. */
static bool conf_constants_of_another(const pco_dispatch_info *info)
{
    static const char begin[] = "\nKERNEL(";
    const size_t length = sizeof begin - 1;
    const char *at = info->source, *end = at ? at + info->source_bytes : NULL;
    bool any = false;
    if (!info->kernel || info->api != PCO_DISPATCH_VULKAN) return false;
    while (at && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        if ((size_t)(end - at++) <= length || memcmp(at - 1, begin, length) != 0) continue;
        const char *name = at - 1 + length, *close = memchr(name, ')', (size_t)(end - name));
        if (close && strncmp(info->kernel, name, (size_t)(close - name)) == 0) return false;
        any = true;
    }
    return any;
}

/* Does the code read the constant? SPIR-V (specification, 2.3 and 3.20) names those that were not optimised away. */
static bool conf_constant_is_read(const pco_dispatch_info *info, uint32_t number)
{
    enum { HEADER = 5, OP_DECORATE = 71, OP_FUNCTION = 54, SPEC_ID = 1 };
    const uint32_t *words = info->binary;
    const uint64_t count = info->binary_bytes / sizeof *words;
    if (info->api != PCO_DISPATCH_VULKAN || !words) return true;
    for (uint64_t at = HEADER; at < count && words[at] >> 16 && (words[at] & 0xffff) != OP_FUNCTION;
         at += words[at] >> 16)
        if ((words[at] & 0xffff) == OP_DECORATE && at + 3 < count && words[at + 2] == SPEC_ID &&
            words[at + 3] == number)
            return true;
    return false;
}

pco_status conf_constants_look(conf_constants_watch *watch, const pco_conformance_device *device, pco_program *program,
                               bool own, pco_error *err)
{
    const pco_program_api *api = device->plugin->program;
    if (!api->describe) return PCO_OK;
    for (uint32_t launch = 0;; launch++) {
        pco_dispatch_info info = {.size = sizeof info};
        pco_status status = api->describe(device->device, program, launch, &info, err);
        if (status == PCO_ERROR_NOT_FOUND) return PCO_OK;
        if (status) return pco_fail_prefix(err, status, "describe");
        if (watch->launch) watch->launch(watch->launch_user, &info);
        for (uint32_t i = 0; i < info.n_specs && i < PCO_DISPATCH_SPECS; i++) {
            pco_conformance_constant seen = {.number = i, .n_values = 1, .values = {info.specs[i]}};
            bool fresh;
            if (!conf_constant_is_read(&info, i)) continue;
            snprintf(seen.kernel, sizeof seen.kernel, "%s", info.kernel ? info.kernel : "");
            status = conf_constants_note(&watch->constants, &seen, &fresh, err);
            if (status) return status;
            if (!fresh) continue;
            conf_constant_name(&info, i, seen.name, sizeof seen.name);
            if (conf_constant_is_unknown(&info, &seen))
                return pco_fail(err, PCO_ERROR_INTERNAL,
                                "describe: the source of kernel %s does not declare constant %u, which its code reads",
                                seen.kernel, (unsigned)i);
            if (!own && conf_constants_of_another(&info))
                return pco_fail(err, PCO_ERROR_INTERNAL, "describe: the source of kernel %s is another kernel's",
                                seen.kernel);
            pco_conformance_constant *row = conf_constants_row(&watch->constants, &seen);
            if (row) memcpy(row->name, seen.name, sizeof row->name);
            if (watch->fresh) watch->fresh(watch->user, &seen);
        }
    }
}
