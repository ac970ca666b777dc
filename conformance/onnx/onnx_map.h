/* Each ONNX node as a small graph of Portico ops. */
#ifndef CONF_ONNX_MAP_H
#define CONF_ONNX_MAP_H

#include "onnx/onnx_reader.h"

#include "graph/build.h"

typedef struct onnx_map {
    onnx_test *test;
    pco_graph *graph;
    uint32_t in[ONNX_MAX_OPERANDS];  /* graph inputs, made on first use; PCO_NONE before */
    uint32_t out[ONNX_MAX_OPERANDS]; /* results, set by the mapping; PCO_NONE: not expressed */
    char skip[256];                  /* why the node cannot be expressed, or "" */
} onnx_map;

/* Adds the node to the graph. Where it cannot be expressed, or has an attribute that the mapping did not take, `skip`
 * says why. */
void onnx_map_node(onnx_map *map);

/* The Portico type in which an ONNX type is run: integers as i32, f64 as f32; PCO_NONE where there is none.
 */
uint32_t onnx_map_type(int32_t type);

/* ---- for the mapping files ---- */

static inline bool onnx_has(const onnx_map *map, uint32_t i)
{
    return i < map->test->n_inputs && map->test->inputs[i].present;
}

uint32_t onnx_in(onnx_map *map, uint32_t i); /* as a graph input */
/* Small host-side operands (axes, shapes): up to capacity values; -1 when absent. */
int64_t onnx_host(const onnx_map *map, uint32_t i, int64_t *values, int64_t capacity);
uint32_t onnx_skip(onnx_map *map, const char *why); /* returns PCO_NONE */
const pco_tensor *onnx_desc(const onnx_map *map, uint32_t tensor);
int64_t onnx_axis(int64_t axis, uint32_t rank); /* from the end when negative */
/* Axes from attribute or input `i`, as a bit mask; all of them (or none, with noop) where there are none. */
uint32_t onnx_axes(const onnx_map *map, uint32_t i, uint32_t rank);
uint32_t onnx_sum_axes(onnx_map *map, pco_op op, uint32_t x, uint32_t mask, int64_t keepdims);
/* indices with negative ones counted from the end of an axis of n. */
uint32_t onnx_wrapped(onnx_map *map, uint32_t indices, int64_t n);

typedef void (*onnx_map_fn)(onnx_map *map);
void onnx_map_shapes(onnx_map *map); /* ops that move data */
void onnx_map_layers(onnx_map *map); /* norms, attention, rotary embedding, quantisation */
bool onnx_is(const onnx_map *map, const char *op);

#endif
