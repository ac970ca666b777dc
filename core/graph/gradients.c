/* Reverse-mode differentiation: which nodes lie between wrt and the loss, and in which order rules are
 * called. */
#include "graph/graph.h"

#include "base/dtype.h"
#include "base/error.h"
#include "graph/gradient.h"
#include "graph/op_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the walk ---- */

/* Per tensor of the graph as it was when the walk began. */
typedef struct gradient_walk {
    pco_graph *graph;
    uint32_t n_tensors;
    uint32_t *sum;         /* the gradient so far, or PCO_NONE */
    unsigned char *wanted; /* 1: it is a wrt, or depends on one through float tensors */
} gradient_walk;

static int gradient_is_float(const pco_tensor *tensor) { return pco_dtype_is_float(tensor->dtype); }

static int gradient_walk_begin(gradient_walk *walk, pco_graph *graph)
{
    *walk = (gradient_walk){.graph = graph, .n_tensors = graph->n_tensors};
    walk->sum = malloc((graph->n_tensors + 1) * sizeof *walk->sum);
    walk->wanted = calloc(graph->n_tensors + 1, 1);
    if (!walk->sum || !walk->wanted) {
        pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory while differentiating");
        return 0;
    }
    for (uint32_t t = 0; t < graph->n_tensors; t++) walk->sum[t] = PCO_NONE;
    return 1;
}

static void gradient_walk_end(gradient_walk *walk)
{
    free(walk->sum);
    free(walk->wanted);
}

/* Marks what depends on the tensors that are marked already, among nodes first .. end-1. */
static void gradient_reach(gradient_walk *walk, uint32_t first, uint32_t end)
{
    const pco_graph *graph = walk->graph;
    for (uint32_t i = first; i < end; i++) {
        const pco_node *node = &graph->nodes[i];
        int reached = 0;
        for (uint32_t k = 0; k < node->n_inputs; k++)
            reached |= node->inputs[k] != PCO_NONE && walk->wanted[node->inputs[k]];
        for (uint32_t k = 0; reached && k < node->n_outputs; k++)
            if (node->outputs[k] != PCO_NONE && gradient_is_float(&graph->tensors[node->outputs[k]]))
                walk->wanted[node->outputs[k]] = 1;
    }
}

static void gradient_through(pco_gradient *g);

static void gradient_node(gradient_walk *walk, uint32_t index)
{
    pco_graph *graph = walk->graph;
    pco_gradient g = {.graph = graph, .node = graph->nodes[index]};
    int needed = 0, wanted = 0;
    for (uint32_t k = 0; k < PCO_MAX_OUTPUTS; k++) {
        uint32_t t = k < g.node.n_outputs ? g.node.outputs[k] : PCO_NONE;
        g.upstream[k] = t == PCO_NONE || !walk->wanted[t] ? PCO_NONE : walk->sum[t];
        needed |= g.upstream[k] != PCO_NONE;
    }
    for (uint32_t k = 0; k < PCO_MAX_INPUTS; k++) {
        uint32_t t = k < g.node.n_inputs ? g.node.inputs[k] : PCO_NONE;
        g.wanted[k] = t != PCO_NONE && walk->wanted[t];
        g.result[k] = PCO_NONE;
        wanted |= g.wanted[k];
    }
    if (!needed || !wanted) return;
    const pco_op_info *info = pco_node_op(&g.node);
    pco_gradient_fn *rule =
        info->own ? info->own->declaration.gradient ? gradient_own : NULL : pco_op_gradient(g.node.op);
    if (!rule) {
        pco_graph_fail(graph, PCO_ERROR_UNSUPPORTED,
                       "op '%s' (%s) has no gradient, and the loss depends on it; take the gradient for "
                       "tensors behind it",
                       info->name, g.node.name);
        return;
    }
    rule(&g);
    if (g.decomposed) gradient_through(&g);
    for (uint32_t k = 0; k < g.node.n_inputs && !graph->status; k++) {
        if (g.result[k] == PCO_NONE || !g.wanted[k]) continue;
        uint32_t *sum = &walk->sum[g.node.inputs[k]];
        *sum = *sum == PCO_NONE ? g.result[k] : pco_binary(graph, PCO_OP_ADD, *sum, g.result[k]);
    }
}

static void gradient_nodes(gradient_walk *walk, uint32_t first, uint32_t end)
{
    for (uint32_t i = end; i-- > first && !walk->graph->status;) gradient_node(walk, i);
}

/* Differentiates a composite's decomposition. */
static void gradient_through(pco_gradient *g)
{
    pco_graph *graph = g->graph;
    uint32_t first = graph->n_nodes, out[PCO_MAX_OUTPUTS];
    for (uint32_t k = 0; k < PCO_MAX_OUTPUTS; k++) out[k] = PCO_NONE;
    pco_error err;
    pco_status status = pco_op_decomposition(g->node.op)(graph, &g->node, out, &err);
    if (status) {
        pco_graph_fail(graph, status, "%s", err.message);
        return;
    }
    gradient_walk walk;
    uint32_t end = graph->n_nodes;
    if (gradient_walk_begin(&walk, graph)) {
        for (uint32_t k = 0; k < g->node.n_inputs; k++)
            if (g->wanted[k]) walk.wanted[g->node.inputs[k]] = 1;
        gradient_reach(&walk, first, end);
        for (uint32_t k = 0; k < g->node.n_outputs; k++) {
            if (g->upstream[k] == PCO_NONE || out[k] == PCO_NONE) continue;
            uint32_t *sum = &walk.sum[out[k]];
            *sum = *sum == PCO_NONE ? g->upstream[k] : pco_binary(graph, PCO_OP_ADD, *sum, g->upstream[k]);
        }
        gradient_nodes(&walk, first, end);
        for (uint32_t k = 0; k < g->node.n_inputs; k++) { /* the same tensor twice: its whole gradient, once */
            uint32_t t = g->node.inputs[k];
            if (!g->wanted[k]) continue;
            g->result[k] = walk.sum[t];
            walk.sum[t] = PCO_NONE;
        }
    }
    gradient_walk_end(&walk);
}

/* ---- unfolding ---- */

/* Inserts a node behind node `index`: it takes over the outputs of that one, which gets a tensor of its own.
 */
static void gradient_unfold(pco_graph *graph, uint32_t index)
{
    pco_node node = graph->nodes[index];
    pco_matmul_attrs attrs = *(const pco_matmul_attrs *)node.attrs;
    uint32_t y = node.outputs[0], c = node.n_inputs > 3 ? node.inputs[3] : PCO_NONE;
    const int64_t activation = attrs.activation;
    uint32_t before = graph->n_nodes;
    attrs.activation = 0;
    uint32_t z = pco_graph_add(graph, PCO_OP_MATMUL, &attrs, node.inputs, c == PCO_NONE ? node.n_inputs : 3, NULL);
    uint32_t a = pco_graph_activation(graph, z, activation);
    if (c != PCO_NONE) a = pco_binary(graph, PCO_OP_ADD, a, c);
    if (graph->status) return;
    /* The new nodes, which stand at the end, move to where the old one stood; the last of them makes y. */
    uint32_t added = graph->n_nodes - before;
    pco_node fresh[3];
    memcpy(fresh, &graph->nodes[before], added * sizeof *fresh);
    fresh[0].name = node.name;
    fresh[added - 1].outputs[0] = y;
    graph->producers[a] = PCO_NONE; /* `a` itself is made by nobody and read by nobody */
    memmove(&graph->nodes[index + added], &graph->nodes[index + 1], (before - index - 1) * sizeof *fresh);
    memcpy(&graph->nodes[index], fresh, added * sizeof *fresh);
    graph->n_nodes = before + added - 1;
    for (uint32_t i = index; i < graph->n_nodes; i++)
        for (uint32_t k = 0; k < graph->nodes[i].n_outputs; k++)
            if (graph->nodes[i].outputs[k] != PCO_NONE) graph->producers[graph->nodes[i].outputs[k]] = i;
}

/* Unfolds the matmuls whose gradient needs the value before the activation. */
static void gradient_unfold_all(pco_graph *graph, const unsigned char *wanted, uint32_t n_tensors)
{
    for (uint32_t i = 0; i < graph->n_nodes && !graph->status; i++) {
        const pco_node *node = &graph->nodes[i];
        if (node->op != PCO_OP_MATMUL || node->outputs[0] >= n_tensors || !wanted[node->outputs[0]]) continue;
        if (((const pco_matmul_attrs *)node->attrs)->activation) gradient_unfold(graph, i);
    }
}

/* ---- the whole ---- */

static pco_status gradients_check(const pco_graph *graph, uint32_t loss, const uint32_t *wrt, uint32_t count,
                                  pco_error *err)
{
    pco_status status = pco_graph_check(graph, err);
    if (status) return status;
    if (loss >= graph->n_tensors) return pco_fail(err, PCO_ERROR_INVALID, "the loss is no tensor of this graph");
    const pco_tensor *x = &graph->tensors[loss];
    if (x->dtype != PCO_F32 || pco_tensor_elements(x) != 1)
        return pco_fail(err, PCO_ERROR_INVALID,
                        "the loss '%s' must be one f32 number, and has %lld elements of type %s", x->name,
                        (long long)pco_tensor_elements(x), pco_dtype_name(x->dtype));
    for (uint32_t i = 0; i < count; i++) {
        if (wrt[i] >= graph->n_tensors) return pco_fail(err, PCO_ERROR_INVALID, "wrt %u is no tensor of this graph", i);
        x = &graph->tensors[wrt[i]];
        char types[PCO_DTYPE_LIST];
        if (!gradient_is_float(x))
            return pco_fail(err, PCO_ERROR_INVALID, "'%s' is %s: only %s tensors have a gradient", x->name,
                            pco_dtype_name(x->dtype), pco_dtype_list(PCO_DTYPE_FLOAT, "and", types, sizeof types));
    }
    return PCO_OK;
}

/* The type of the loss's own gradient is f32; wrt may be the loss itself. */
static void gradients_walk(pco_graph *graph, uint32_t loss, const uint32_t *wrt, uint32_t count, uint32_t *gradients)
{
    gradient_walk walk = {0};
    if (!gradient_walk_begin(&walk, graph)) {
        gradient_walk_end(&walk);
        return;
    }
    for (uint32_t i = 0; i < count; i++) walk.wanted[wrt[i]] = 1;
    gradient_reach(&walk, 0, graph->n_nodes);
    gradient_unfold_all(graph, walk.wanted, walk.n_tensors);
    gradient_walk_end(&walk);
    if (graph->status) return;
    if (!gradient_walk_begin(&walk, graph)) {
        gradient_walk_end(&walk);
        return;
    }
    for (uint32_t i = 0; i < count; i++) walk.wanted[wrt[i]] = 1;
    uint32_t end = graph->n_nodes;
    gradient_reach(&walk, 0, end);
    pco_tensor x = gradient_tensor(graph, loss);
    walk.sum[loss] = pco_fill(graph, PCO_F32, 1, x.rank, x.shape);
    gradient_nodes(&walk, 0, end);
    for (uint32_t i = 0; i < count && !graph->status; i++) {
        x = gradient_tensor(graph, wrt[i]);
        uint32_t *sum = &walk.sum[wrt[i]];
        if (*sum == PCO_NONE) *sum = pco_fill(graph, (pco_dtype)x.dtype, 0, x.rank, x.shape);
        gradients[i] = *sum;
    }
    gradient_walk_end(&walk);
}

pco_status pco_gradients(pco_graph *graph, uint32_t loss, const uint32_t *wrt, uint32_t count, uint32_t *gradients,
                         pco_error *err)
{
    PCO_NEEDS(graph);
    PCO_NEEDS_SOME(wrt, count);
    PCO_NEEDS_SOME(gradients, count);
    for (uint32_t i = 0; i < count; i++) gradients[i] = PCO_NONE;
    pco_status status = gradients_check(graph, loss, wrt, count, err);
    if (status) return status;
    const char *scope = graph->scope;
    graph->scope = "gradients";
    gradients_walk(graph, loss, wrt, count, gradients);
    graph->scope = scope;
    return pco_graph_check(graph, err);
}

uint32_t pco_global_norm(pco_graph *graph, const uint32_t *tensors, uint32_t count)
{
    uint32_t total = pco_fill(graph, PCO_F32, 0, 1, (const int64_t[]){1});
    if (count && !tensors) return pco_graph_fail(graph, PCO_ERROR_INVALID, "global_norm: the list of tensors is NULL");
    for (uint32_t i = 0; graph && i < count && !graph->status; i++) {
        uint32_t x = pco_cast(graph, tensors[i], PCO_F32);
        pco_tensor tensor = gradient_tensor(graph, x);
        uint32_t square = pco_binary(graph, PCO_OP_MUL, x, x);
        if (tensor.rank > 1) square = pco_reduce(graph, PCO_OP_SUM, square, -1, 0);
        square = pco_reshape(graph, square, 1, (const int64_t[]){-1});
        total = pco_binary(graph, PCO_OP_ADD, total, pco_reduce(graph, PCO_OP_SUM, square, 0, 1));
    }
    return pco_unary(graph, PCO_OP_SQRT, total);
}

uint32_t pco_clip_scale(pco_graph *graph, uint32_t norm, double max_norm)
{
    uint32_t one = pco_fill(graph, PCO_F32, 1, 1, (const int64_t[]){1}), scale = one;
    if (max_norm > 0) {
        uint32_t floor = pco_binary_scalar(graph, PCO_OP_ADD, norm, 1e-6);
        scale = pco_binary(graph, PCO_OP_DIV, pco_scalar(graph, PCO_F32, max_norm), floor);
        scale = pco_binary(graph, PCO_OP_MINIMUM, scale, one);
    }
    uint32_t finite = pco_unary(graph, PCO_OP_ISFINITE, norm);
    return pco_where(graph, finite, scale, pco_scalar(graph, PCO_F32, NAN));
}
