/* The operands of a node: tensors of the graph, and values that are read on the host. */
#include "models/onnx/map_internal.h"

#include <stdio.h>
#include <string.h>

bool onnx_is(const pco_onnx_map *map, const char *op) { return strcmp(map->node->op, op) == 0; }

uint32_t onnx_skip(pco_onnx_map *map, const char *why)
{
    if (!map->skip[0]) snprintf(map->skip, sizeof map->skip, "%s", why);
    return PCO_NONE;
}

uint32_t pco_onnx_map_type(int32_t type)
{
    switch (type) {
    case PCO_ONNX_FLOAT:
    case PCO_ONNX_DOUBLE: return PCO_F32;
    case PCO_ONNX_FLOAT16: return PCO_F16;
    case PCO_ONNX_BFLOAT16: return PCO_BF16;
    case PCO_ONNX_INT8:
    case PCO_ONNX_UINT8:
    case PCO_ONNX_INT32:
    case PCO_ONNX_INT64: return PCO_I32;
    case PCO_ONNX_BOOL: return PCO_BOOL;
    default: return PCO_NONE;
    }
}

int32_t onnx_type(const pco_onnx_map *map, uint32_t i) { return onnx_has(map, i) ? map->operands[i]->type : 0; }

uint32_t onnx_in(pco_onnx_map *map, uint32_t i)
{
    char name[16];
    if (!onnx_has(map, i)) return PCO_NONE;
    const pco_onnx_tensor *tensor = map->operands[i];
    uint32_t dtype = pco_onnx_map_type(tensor->type);
    if (dtype == PCO_NONE) return onnx_skip(map, pco_onnx_type_name(tensor->type));
    snprintf(name, sizeof name, "input%u", i);
    if (map->in[i] == PCO_NONE)
        map->in[i] = pco_graph_input(map->graph, name, (pco_dtype)dtype, tensor->rank, tensor->shape);
    return map->in[i];
}

/* Values of input i that are read here; NULL where there are none. */
static const double *onnx_known(pco_onnx_map *map, uint32_t i)
{
    if (!map->operands[i]->value && !map->skip[0])
        snprintf(map->skip, sizeof map->skip, "input %u of %.100s is known to a run only", i, map->node->op);
    return map->operands[i]->value;
}

/* A whole number; the ends of int64 where it is beyond them, as "to the end" is in ranges. */
static int64_t onnx_whole(double value)
{
    if (value >= 0x1p63) return INT64_MAX;
    return value >= -0x1p63 ? (int64_t)value : INT64_MIN;
}

int64_t onnx_host(pco_onnx_map *map, uint32_t i, int64_t *values, int64_t capacity)
{
    if (!onnx_has(map, i)) return -1;
    const double *known = onnx_known(map, i);
    int64_t count = map->operands[i]->count;
    if (!known) return -1;
    if (count > capacity) {
        if (!map->skip[0])
            snprintf(map->skip, sizeof map->skip, "input %u of %.100s has more than %d values", i, map->node->op,
                     (int)capacity);
        count = capacity;
    }
    for (int64_t k = 0; k < count; k++) values[k] = onnx_whole(known[k]);
    return count;
}

double onnx_host_scalar(pco_onnx_map *map, uint32_t i, double initial)
{
    if (!onnx_has(map, i)) return initial;
    const double *known = onnx_known(map, i);
    if (known && map->operands[i]->count != 1) onnx_skip(map, "more or less than one value where there is one");
    return known && map->operands[i]->count ? known[0] : initial;
}

const pco_tensor *onnx_desc(const pco_onnx_map *map, uint32_t tensor)
{
    static const pco_tensor NOTHING = {.name = ""};
    return tensor == PCO_NONE ? &NOTHING : &map->graph->tensors[tensor];
}

int64_t onnx_axis(pco_onnx_map *map, int64_t axis, uint32_t rank)
{
    if (axis < 0) axis += rank;
    if (axis >= 0 && axis < (int64_t)rank) return axis;
    if (!map->graph->status) onnx_skip(map, "an axis that the tensor has not");
    return 0;
}

uint32_t onnx_axes(pco_onnx_map *map, uint32_t i, uint32_t rank)
{
    int64_t axes[PCO_MAX_RANK], n = onnx_host(map, i, axes, PCO_MAX_RANK);
    uint32_t mask = 0;
    if (n < 0) n = onnx_ints(map, "axes", axes, PCO_MAX_RANK);
    for (int64_t k = 0; k < n; k++) mask |= 1u << onnx_axis(map, axes[k], rank);
    const int64_t noop = onnx_int(map, "noop_with_empty_axes", 0);
    if (n <= 0 && !noop) mask = (1u << rank) - 1;
    return mask;
}

uint32_t onnx_sum_axes(pco_onnx_map *map, pco_op op, uint32_t x, uint32_t mask, int64_t keepdims)
{
    pco_sum_attrs attrs = {.keepdims = keepdims};
    for (uint32_t d = 0; d < PCO_MAX_RANK; d++)
        if (mask >> d & 1) attrs.axes[attrs.n_axes++] = d;
    return pco_graph_add(map->graph, op, &attrs, &x, 1, NULL);
}
