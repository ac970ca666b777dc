/* Gradients as graphs: reverse-mode differentiation over the list of nodes, with one rule per op (the column
 * `gradient` of ops.def). What it adds are nodes of the same table, so a gradient runs wherever its graph
 * runs. */
#ifndef PCO_GRAPH_GRADIENTS_H
#define PCO_GRAPH_GRADIENTS_H

#include "graph/graph.h"

/* Appends nodes that compute d loss / d wrt[i] into gradients[i], for each of `count` tensors: a tensor of
 * the shape and type of wrt[i] (zeros where the loss does not depend on it; the same tensor may stand for
 * two). `loss` is f32 with one element; wrt[i] are float tensors of any kind, made by nodes or not.
 *
 * Contributions to a tensor are added in the reverse order of the nodes that read it: the result does not
 * depend on the device. Half types are computed in f32 inside a rule and rounded once, as the decompositions
 * do. Comparisons, indices and integers pass no gradient. A matmul with an activation folded into it that
 * lies on the way is unfolded first, because the rule needs the value in between (rewriting folds it again
 * where nothing else reads that); ids of tensors stay what they were.
 *
 * Errors: INVALID for a loss or a wrt of another type; UNSUPPORTED when the loss depends on a wrt through an
 * op that has no rule, naming the op and its node; they are kept in the graph as those of building are. */
pco_status pco_gradients(pco_graph *graph, uint32_t loss, const uint32_t *wrt, uint32_t count, uint32_t *gradients,
                         pco_error *err) PCO_NODISCARD;

/* The euclidean norm of all elements of `count` float tensors together, f32 [1]: sqrt(sum of squares), summed
 * tensor by tensor in this order. 0 for no tensor. */
uint32_t pco_global_norm(pco_graph *graph, const uint32_t *tensors, uint32_t count);

/* What the gradients are multiplied with so that their norm, f32 [1], is at most max_norm (Pascanu et al.
 * 2013; torch.nn.utils.clip_grad_norm_): min(1, max_norm / (norm + 1e-6)), f32 [1]; max_norm 0 or below: 1.
 * NaN when the norm is not finite, upon which the optimisers leave parameters and moments as they are. */
uint32_t pco_clip_scale(pco_graph *graph, uint32_t norm, double max_norm);

#endif
