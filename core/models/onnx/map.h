/* ONNX's nodes as small graphs of Portico's operations, one node at a time. */
#ifndef PCO_MODELS_ONNX_MAP_H
#define PCO_MODELS_ONNX_MAP_H

#include "formats/onnx.h"
#include "graph/graph.h"

enum { PCO_ONNX_MAX_OPERANDS = 8 };

typedef struct pco_onnx_map {
    pco_graph *graph;
    const pco_onnx_node *node;
    /* By input, filled in by the caller: NULL where it is left out. `value` is NULL where only a run will know it; then
     * the input can be no shape, no axis and the like. */
    const pco_onnx_tensor *operands[PCO_ONNX_MAX_OPERANDS];
    /* Its tensor in the graph. PCO_NONE: one of kind INPUT, "input0" and so on, is made where it is used. */
    uint32_t in[PCO_ONNX_MAX_OPERANDS];
    uint32_t out[PCO_ONNX_MAX_OPERANDS]; /* results; PCO_NONE: not expressed */
    char skip[256];                      /* why the node cannot be expressed, or "" */
    uint64_t taken;                      /* a bit for each of the node's attributes that was read */
} pco_onnx_map;

/* For a node that gets its operands next. All borrowed. */
pco_onnx_map pco_onnx_map_start(pco_graph *graph, const pco_onnx_node *node);

/* Adds the node to the graph. Where it cannot be expressed, or has an attribute that the mapping did not take, `skip`
 * says why. What is wrong with the operands themselves is an error of the graph (pco_graph_check). */
void pco_onnx_map_node(pco_onnx_map *map);

/* The Portico type in which an ONNX type is run: integers as i32, f64 as f32; PCO_NONE where there is none. */
uint32_t pco_onnx_map_type(int32_t type);

#endif
