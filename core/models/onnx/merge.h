/* Composites from the primitives that exporters take them apart into. */
#ifndef PCO_MODELS_ONNX_MERGE_H
#define PCO_MODELS_ONNX_MERGE_H

#include "graph/graph.h"

/* What the node that makes y, and those before it, are together: the result of a composite that is appended, or y
 * itself. The nodes that it was are still there, and fall away where nobody else reads them. In f32 only: halves would
 * be rounded less often. Called for each result as a graph is built, so that a composite may grow by a node at a time.
 */
uint32_t pco_onnx_merge(pco_graph *graph, uint32_t y);

#endif
