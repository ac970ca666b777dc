/* ONNX's nodes as small graphs of Portico's operations, one node at a time. */
#ifndef PCO_MODELS_ONNX_MAP_H
#define PCO_MODELS_ONNX_MAP_H

#include "formats/onnx.h"
#include "graph/graph.h"

enum { PCO_ONNX_MAX_OPERANDS = 64 };

typedef struct pco_onnx_map {
    pco_graph *graph;
    const pco_onnx_file *file; /* that the node is of */
    const pco_onnx_node *node;
    int64_t opset;
    bool merge; /* into composites, where nodes before this one go with it */
    /* By input, filled in by the caller: NULL where it is left out. Without `value` and `raw` only a run will know it;
     * then the input can be no shape, no axis and the like. Values are filled in where they are asked for. */
    pco_onnx_tensor *operands[PCO_ONNX_MAX_OPERANDS];
    /* Its tensor in the graph. PCO_NONE: a constant is made where it is used. */
    uint32_t in[PCO_ONNX_MAX_OPERANDS];
    uint32_t out[PCO_ONNX_MAX_OPERANDS]; /* results; PCO_NONE: not expressed */
    int32_t type[PCO_ONNX_MAX_OPERANDS]; /* of results; 0: input 0's where it runs alike, else what the graph has */
    char skip[256];                      /* why the node cannot be expressed, or "" */
    uint32_t asked;                      /* the input whose values were asked for in vain, or PCO_NONE */
    uint64_t taken;                      /* a bit for each of the node's attributes that was read */
} pco_onnx_map;

/* For a node that gets its operands next. All borrowed. */
pco_onnx_map pco_onnx_map_start(pco_graph *graph, const pco_onnx_file *file, const pco_onnx_node *node, int64_t opset);

/* Adds the node to the graph. Where it cannot be expressed, or has an attribute that the mapping did not take, `skip`
 * says why. What is wrong with the operands themselves is an error of the graph (pco_graph_check). */
void pco_onnx_map_node(pco_onnx_map *map);

/* Is there a mapping for operators of this name? `domain` as in pco_onnx_node. */
bool pco_onnx_map_knows(const char *domain, const char *op);

/* Computes the node's results on the host: true, and results[], each with its values, where it is one of the operators
 * that shapes are worked out with, all of its operands are known (or only their shapes matter), and results are small.
 * `results` are cleared by the caller. Attributes that were not taken are as in pco_onnx_map_node. Results that are not
 * exact are left to that; where the device would not have them either, `skip` says so. */
bool pco_onnx_fold_node(pco_onnx_map *map, pco_onnx_tensor *results);

/* The Portico type in which an ONNX type is run: integers as i32, f64 as f32; PCO_NONE where there is none. */
uint32_t pco_onnx_map_type(int32_t type);

#endif
