/* The operands of a node: tensors of the graph, and values that are read on the host. */
#include "models/onnx/map_internal.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool onnx_is(const pco_onnx_map *map, const char *op) { return strcmp(map->node->op, op) == 0; }

uint32_t onnx_skip(pco_onnx_map *map, const char *format, ...)
{
    va_list arguments;
    if (map->skip[0]) return PCO_NONE;
    va_start(arguments, format);
    vsnprintf(map->skip, sizeof map->skip, format, arguments);
    va_end(arguments);
    return PCO_NONE;
}

int32_t onnx_type(const pco_onnx_map *map, uint32_t i) { return onnx_has(map, i) ? map->operands[i]->type : 0; }

/* ---- in the graph ---- */

static bool onnx_borrowed(const pco_onnx_tensor *tensor)
{
    const bool same = tensor->type == PCO_ONNX_FLOAT || tensor->type == PCO_ONNX_FLOAT16 ||
                      tensor->type == PCO_ONNX_BFLOAT16 || tensor->type == PCO_ONNX_INT32;
    return same && tensor->raw && (uintptr_t)tensor->raw % pco_onnx_type_bytes(tensor->type) == 0;
}

/* The type that an array has whose elements are Portico's. */
static int32_t onnx_stored(uint32_t dtype)
{
    return dtype == PCO_F32    ? PCO_ONNX_FLOAT
           : dtype == PCO_F16  ? PCO_ONNX_FLOAT16
           : dtype == PCO_BF16 ? PCO_ONNX_BFLOAT16
           : dtype == PCO_BOOL ? PCO_ONNX_BOOL
                               : PCO_ONNX_INT32;
}

uint32_t onnx_constant(pco_onnx_map *map, pco_dtype dtype, uint32_t rank, const int64_t *shape, const double *values)
{
    const int32_t stored = onnx_stored(dtype);
    int64_t count = 1;
    for (uint32_t d = 0; d < rank; d++) count *= shape[d];
    void *data = malloc((size_t)count * pco_onnx_type_bytes(stored) + 1);
    if (!data) return pco_graph_fail(map->graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a constant");
    for (int64_t i = 0; i < count && dtype == PCO_I32; i++)
        if (values[i] < INT32_MIN || values[i] > INT32_MAX)
            onnx_skip(map, "%.0f is beyond the 32 bits in which whole numbers are run", values[i]);
    pco_onnx_encode(stored, values, count, data);
    const uint32_t constant = pco_graph_constant_copy(map->graph, "constant", dtype, rank, shape, data);
    free(data);
    return constant;
}

uint32_t onnx_in(pco_onnx_map *map, uint32_t i)
{
    if (!onnx_has(map, i) || map->in[i] != PCO_NONE) return onnx_has(map, i) ? map->in[i] : PCO_NONE;
    const pco_onnx_tensor *tensor = map->operands[i];
    uint32_t dtype = pco_onnx_map_type(tensor->type);
    if (dtype == PCO_NONE) return onnx_skip(map, "type %s", pco_onnx_type_name(tensor->type));
    if (onnx_borrowed(tensor)) {
        map->in[i] = pco_graph_constant(map->graph, map->node->inputs[i], (pco_dtype)dtype, tensor->rank, tensor->shape,
                                        tensor->raw);
        return map->in[i];
    }
    const double *values = onnx_known(map, i, false);
    if (values) map->in[i] = onnx_constant(map, (pco_dtype)dtype, tensor->rank, tensor->shape, values);
    return map->in[i];
}

const pco_tensor *onnx_desc(const pco_onnx_map *map, uint32_t tensor)
{
    static const pco_tensor NOTHING = {.name = ""};
    return tensor == PCO_NONE ? &NOTHING : &map->graph->tensors[tensor];
}

/* ---- on the host ---- */

const double *onnx_known(pco_onnx_map *map, uint32_t i, bool quietly)
{
    pco_error err = {""};
    if (!onnx_has(map, i)) return NULL;
    pco_onnx_tensor *tensor = map->operands[i];
    if (pco_onnx_tensor_values(tensor, &err))
        pco_graph_fail(map->graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s", err.message);
    if (!tensor->value && !quietly) {
        if (map->asked == PCO_NONE) map->asked = i;
        onnx_skip(map, "input %u of %.100s is known to a run only", i, map->node->op);
    }
    return tensor->value;
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
    const double *known = onnx_known(map, i, false);
    int64_t count = map->operands[i]->count;
    if (!known) return -1;
    if (count > capacity) {
        onnx_skip(map, "input %u of %.100s has more than %d values", i, map->node->op, (int)capacity);
        count = capacity;
    }
    for (int64_t k = 0; k < count; k++) values[k] = onnx_whole(known[k]);
    return count;
}

double onnx_host_scalar(pco_onnx_map *map, uint32_t i, double initial)
{
    if (!onnx_has(map, i)) return initial;
    const double *known = onnx_known(map, i, false);
    if (known && map->operands[i]->count != 1) onnx_skip(map, "more or less than one value where there is one");
    return known && map->operands[i]->count ? known[0] : initial;
}

int64_t onnx_axis(pco_onnx_map *map, int64_t axis, uint32_t rank)
{
    if (axis < 0) axis += rank;
    if (axis >= 0 && axis < (int64_t)rank) return axis;
    if (!map->graph->status) onnx_skip(map, "an axis that the tensor has not");
    return 0;
}

uint32_t onnx_sum_axes(pco_onnx_map *map, pco_op op, uint32_t x, uint32_t mask, int64_t keepdims)
{
    pco_sum_attrs attrs = {.keepdims = keepdims};
    for (uint32_t d = 0; d < PCO_MAX_RANK; d++)
        if (mask >> d & 1) attrs.axes[attrs.n_axes++] = d;
    return pco_graph_add(map->graph, op, &attrs, &x, 1, NULL);
}

bool onnx_broadcast(const int64_t *a, uint32_t a_rank, const int64_t *b, uint32_t b_rank, int64_t *shape,
                    uint32_t *rank)
{
    *rank = a_rank > b_rank ? a_rank : b_rank;
    if (*rank > PCO_MAX_RANK) return false;
    int64_t made[PCO_MAX_RANK];
    for (uint32_t i = 0; i < *rank; i++) {
        const int64_t x = i < a_rank ? a[a_rank - 1 - i] : 1, y = i < b_rank ? b[b_rank - 1 - i] : 1;
        if (x != y && x != 1 && y != 1) return false;
        made[*rank - 1 - i] = x == 1 ? y : x;
    }
    memcpy(shape, made, *rank * sizeof *shape);
    return true;
}
