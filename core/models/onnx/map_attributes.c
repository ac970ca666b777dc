/* The attributes of a node, and which of them were taken. */
#include "models/onnx/map_internal.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

enum { ONNX_KNOWN_ATTRIBUTES = 64 }; /* bits of `taken`; what comes behind them is never taken */

/* NULL without one. */
static const pco_onnx_attribute *onnx_attribute(const pco_onnx_map *map, const char *name)
{
    for (uint32_t i = 0; i < map->node->n_attributes && i < ONNX_KNOWN_ATTRIBUTES; i++)
        if (strcmp(map->node->attributes[i].name, name) == 0) return &map->node->attributes[i];
    return NULL;
}

static void onnx_take(pco_onnx_map *map, const pco_onnx_attribute *attribute)
{
    map->taken |= UINT64_C(1) << (attribute - map->node->attributes);
}

int64_t onnx_int(pco_onnx_map *map, const char *name, int64_t initial)
{
    const pco_onnx_attribute *said = onnx_attribute(map, name);
    if (!said || !said->has_int) return initial;
    onnx_take(map, said);
    return said->i;
}

int64_t onnx_flag(pco_onnx_map *map, const char *name, int64_t initial)
{
    const int64_t said = onnx_int(map, name, initial);
    if (said != 0 && said != 1)
        onnx_skip(map, "attribute '%s' of %.100s is %lld, and must be 0 or 1", name, map->node->op, (long long)said);
    return said;
}

double onnx_float(pco_onnx_map *map, const char *name, double initial)
{
    const pco_onnx_attribute *said = onnx_attribute(map, name);
    if (!said || !said->has_float) return initial;
    onnx_take(map, said);
    return said->f;
}

void onnx_text(pco_onnx_map *map, const char *name, const char *initial, char *text, size_t capacity)
{
    const pco_onnx_attribute *said = onnx_attribute(map, name);
    snprintf(text, capacity, "%s", initial);
    if (!said || !said->has_text || said->text_bytes >= capacity) return;
    if (said->text_bytes && memchr(said->text, 0, said->text_bytes)) return;
    snprintf(text, capacity, "%.*s", (int)said->text_bytes, said->text_bytes ? said->text : "");
    onnx_take(map, said);
}

int64_t onnx_ints(pco_onnx_map *map, const char *name, int64_t *values, int64_t capacity)
{
    const pco_onnx_attribute *said = onnx_attribute(map, name);
    if (!said || (said->type && said->type != PCO_ONNX_ATTRIBUTE_INTS) || said->n_ints > (size_t)capacity) return -1;
    for (size_t i = 0; i < said->n_ints; i++) values[i] = said->ints[i];
    onnx_take(map, said);
    return (int64_t)said->n_ints;
}

bool onnx_tensor(pco_onnx_map *map, const char *name, pco_onnx_tensor *tensor)
{
    const pco_onnx_attribute *said = onnx_attribute(map, name);
    pco_error err;
    *tensor = (pco_onnx_tensor){0};
    if (!said || !said->tensor) return false;
    onnx_take(map, said);
    if (!pco_onnx_tensor_of(map->file, said->tensor, tensor, &err)) return true;
    onnx_skip(map, "attribute '%s' of %.100s: %.100s", name, map->node->op, err.message);
    pco_onnx_tensor_clear(tensor);
    return false;
}

bool onnx_given(const pco_onnx_map *map, const char *name) { return onnx_attribute(map, name) != NULL; }

void onnx_without(pco_onnx_map *map, const char *name)
{
    const pco_onnx_attribute *said = onnx_attribute(map, name);
    if (said) onnx_take(map, said);
}

const char *onnx_left(const pco_onnx_map *map)
{
    for (uint32_t i = 0; i < map->node->n_attributes; i++)
        if (i >= ONNX_KNOWN_ATTRIBUTES || !(map->taken >> i & 1)) return map->node->attributes[i].name;
    return NULL;
}
