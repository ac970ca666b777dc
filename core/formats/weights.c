#include "formats/weights.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/dtype.h"
#include "base/error.h"

static pco_status weights_no_memory(const pco_weights *weights, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for the list of tensors", weights->label);
}

pco_weights *pco_weights_create(const char *label)
{
    pco_weights *weights = calloc(1, sizeof *weights);
    if (!weights) return NULL;
    weights->label = strdup(label);
    if (!weights->label) {
        free(weights);
        return NULL;
    }
    return weights;
}

void pco_weights_close(pco_weights *weights)
{
    if (!weights) return;
    for (uint32_t i = 0; i < weights->count; i++) free(weights->items[i].name);
    for (uint32_t i = 0; i < weights->note_count; i++) {
        free(weights->notes[i].key);
        free(weights->notes[i].value);
    }
    free(weights->items);
    free(weights->order);
    free(weights->notes);
    free(weights->label);
    for (uint32_t i = 0; i < weights->map_count; i++) pco_map_close(&weights->maps[i]);
    free(weights->maps);
    if (weights->copies.data) pco_map_close(&weights->copies);
    free(weights);
}

pco_status pco_weights_keep_map(pco_weights *weights, const pco_map *map, pco_error *err)
{
    pco_map *maps = realloc(weights->maps, ((size_t)weights->map_count + 1) * sizeof *maps);
    if (!maps) return weights_no_memory(weights, err);
    weights->maps = maps;
    maps[weights->map_count++] = *map;
    return PCO_OK;
}

pco_status pco_weights_open_mapped(const char *path, pco_weights_parse_fn parse, pco_weights **weights, pco_error *err)
{
    pco_map map;
    *weights = NULL;
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    status = parse(map.data, map.size, path, weights, err);
    if (!status) {
        status = pco_weights_keep_map(*weights, &map, err);
        if (!status) return PCO_OK;
        pco_weights_close(*weights);
        *weights = NULL;
    }
    pco_map_close(&map);
    return status;
}

void *pco_weights_allocate(pco_weights *weights, uint64_t bytes)
{
    pco_error ignored;
    const pco_map map = {.size = (size_t)(bytes ? bytes : 1)};
    if (bytes > SIZE_MAX / 2) return NULL;
    void *data = mmap(NULL, map.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return NULL;
    if (pco_weights_keep_map(weights, &(pco_map){data, map.size}, &ignored)) {
        munmap(data, map.size);
        return NULL;
    }
    return data;
}

pco_status pco_weights_join(pco_weights *to, pco_weights *from, pco_error *err)
{
    const uint64_t count = (uint64_t)to->count + from->count, maps = (uint64_t)to->map_count + from->map_count,
                   notes = (uint64_t)to->note_count + from->note_count;
    if (count > UINT32_MAX / 2 || notes > UINT32_MAX / 2) return weights_no_memory(to, err);
    pco_weight *items = realloc(to->items, (size_t)(count + 1) * sizeof *items);
    if (items) to->items = items;
    pco_map *all_maps = realloc(to->maps, (size_t)(maps + 1) * sizeof *all_maps);
    if (all_maps) to->maps = all_maps;
    pco_weights_note *all_notes = realloc(to->notes, (size_t)(notes + 1) * sizeof *all_notes);
    if (all_notes) to->notes = all_notes;
    if (!items || !all_maps || !all_notes) return weights_no_memory(to, err);
    for (uint32_t i = 0; i < from->count; i++) items[to->count++] = from->items[i];
    for (uint32_t i = 0; i < from->map_count; i++) all_maps[to->map_count++] = from->maps[i];
    for (uint32_t i = 0; i < from->note_count; i++) all_notes[to->note_count++] = from->notes[i];
    to->capacity = (uint32_t)count + 1;
    from->count = from->map_count = from->note_count = 0;
    pco_weights_close(from);
    return PCO_OK;
}

pco_status pco_weights_add(pco_weights *weights, const pco_weight *weight, const char *name, size_t name_size,
                           pco_error *err)
{
    if (weights->count == weights->capacity) {
        uint32_t capacity = weights->capacity ? weights->capacity * 2 : 64;
        if (capacity < weights->capacity) return weights_no_memory(weights, err);
        pco_weight *items = realloc(weights->items, capacity * sizeof *items);
        if (!items) return weights_no_memory(weights, err);
        weights->items = items;
        weights->capacity = capacity;
    }
    char *copy = malloc(name_size + 1);
    if (!copy) return weights_no_memory(weights, err);
    memcpy(copy, name, name_size);
    copy[name_size] = 0;
    pco_weight *item = &weights->items[weights->count++];
    *item = *weight;
    item->name = copy;
    return PCO_OK;
}

pco_status pco_weights_add_note(pco_weights *weights, const char *key, const char *value, pco_error *err)
{
    pco_weights_note *notes = realloc(weights->notes, ((size_t)weights->note_count + 1) * sizeof *notes);
    if (!notes) return weights_no_memory(weights, err);
    weights->notes = notes;
    pco_weights_note note = {strdup(key), strdup(value)};
    if (!note.key || !note.value) {
        free(note.key);
        free(note.value);
        return weights_no_memory(weights, err);
    }
    notes[weights->note_count++] = note;
    return PCO_OK;
}

static int weights_compare(const void *a, const void *b, void *items)
{
    const pco_weight *item = items;
    return strcmp(item[*(const uint32_t *)a].name, item[*(const uint32_t *)b].name);
}

pco_status pco_weights_index(pco_weights *weights, pco_error *err)
{
    free(weights->order);
    weights->order = malloc(((size_t)weights->count + 1) * sizeof *weights->order);
    if (!weights->order) return weights_no_memory(weights, err);
    for (uint32_t i = 0; i < weights->count; i++) weights->order[i] = i;
    if (weights->count)
        qsort_r(weights->order, weights->count, sizeof *weights->order, weights_compare, weights->items);
    for (uint32_t i = 1; i < weights->count; i++) {
        const char *name = weights->items[weights->order[i]].name;
        if (strcmp(weights->items[weights->order[i - 1]].name, name) == 0)
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: tensor '%s' is in the file twice; write the file again",
                            weights->label, name);
    }
    return PCO_OK;
}

const pco_weight *pco_weights_find(const pco_weights *weights, const char *name)
{
    uint32_t low = 0, high = weights->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const pco_weight *item = &weights->items[weights->order[middle]];
        int side = strcmp(name, item->name);
        if (side == 0) return item;
        if (side < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

pco_status pco_weights_require(const pco_weights *weights, const char *name, const pco_weight **weight, pco_error *err)
{
    const pco_weight *found = pco_weights_find(weights, name);
    if (!found)
        return pco_fail(err, PCO_ERROR_NOT_FOUND,
                        "%s: tensor '%s' is missing; the file is incomplete or of another architecture", weights->label,
                        name);
    char types[PCO_DTYPE_LIST];
    if (found->dtype < 0)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s: tensor '%s' has type %s, which Portico cannot run; convert the model to %s",
                        weights->label, name, found->type_name,
                        pco_dtype_list(PCO_DTYPE_FLOAT | PCO_DTYPE_QUANTISED, "or", types, sizeof types));
    *weight = found;
    return PCO_OK;
}

const char *pco_weights_note_value(const pco_weights *weights, const char *key)
{
    for (uint32_t i = 0; i < weights->note_count; i++)
        if (strcmp(weights->notes[i].key, key) == 0) return weights->notes[i].value;
    return NULL;
}
