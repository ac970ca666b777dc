/* The rule of conv1d. Gradients of x and of the weights are convolutions too, so that they have gradients themselves.
 */
#include "graph/gradient.h"

#define RULE_GRAPH g->graph
#define RULE_NODE  &g->node
#include "graph/rules.h"

/* x [n,c,l], weight [o,c/groups,k], y [n,o,m]. rest: positions behind the last that the weights reach. */
typedef struct conv1d_sizes {
    int64_t n, c, l, o, k, m, groups, rest;
} conv1d_sizes;

static conv1d_sizes conv1d_sizes_of(pco_gradient *g)
{
    ATTRS(conv1d);
    const pco_tensor x = gradient_tensor(g->graph, g->node.inputs[0]), w = gradient_tensor(g->graph, g->node.inputs[1]),
                     y = gradient_tensor(g->graph, g->node.outputs[0]);
    conv1d_sizes s = {.n = 1,
                      .c = x.shape[x.rank - 2],
                      .l = x.shape[x.rank - 1],
                      .o = w.shape[0],
                      .k = w.shape[2],
                      .m = y.shape[y.rank - 1],
                      .groups = attrs->groups};
    for (uint32_t i = 0; i + 2 < x.rank; i++) s.n *= x.shape[i];
    s.rest = s.l + 2 * attrs->padding - attrs->dilation * (s.k - 1) - 1 - (s.m - 1) * attrs->stride;
    return s;
}

/* dy with stride - 1 zeros behind each position (behind a single one, as many as are used), as the convolution in the
 * other direction, with weights in the other order, sees it: output channels are its input, and each x gets what it
 * gave. */
static void conv1d_to_x(pco_gradient *g, const conv1d_sizes *s, uint32_t dy)
{
    ATTRS(conv1d);
    pco_graph *graph = g->graph;
    const pco_tensor x = gradient_tensor(graph, g->node.inputs[0]);
    const int64_t reach = attrs->dilation * (s->k - 1), padding = reach - attrs->padding,
                  cut = padding < 0 ? -padding : 0, step = s->m > 1 ? attrs->stride : s->rest + 1;
    uint32_t weight = g->node.inputs[1];
    if (step > 1) {
        const pco_pad_attrs zeros = {.n_before = 4, .n_after = 4, .after = {0, 0, 0, step - 1}};
        dy = pco_reshape(graph, dy, 4, SHAPE(s->n, s->o, s->m, 1));
        dy = pco_graph_add(graph, PCO_OP_PAD, &zeros, &dy, 1, NULL);
        dy = pco_reshape(graph, dy, 3, SHAPE(s->n, s->o, s->m * step));
    } else {
        dy = pco_reshape(graph, dy, 3, SHAPE(s->n, s->o, s->m));
    }
    dy = pco_slice_axis(graph, dy, 2, cut, (s->m - 1) * step + 1 + s->rest - 2 * cut);
    if (s->k > 1) weight = pco_gather(graph, weight, pco_iota(graph, PCO_I32, 0, (double)(s->k - 1), -1, 1, &s->k), 2);
    weight = pco_reshape(graph, weight, 4, SHAPE(s->groups, s->o / s->groups, s->c / s->groups, s->k));
    weight = pco_permute(graph, weight, SHAPE(0, 2, 1, 3));
    weight = pco_reshape(graph, weight, 3, SHAPE(s->c, s->o / s->groups, s->k));
    const pco_conv1d_attrs back = {
        .stride = 1, .padding = padding + cut, .dilation = attrs->dilation, .groups = s->groups};
    uint32_t dx = pco_graph_add(graph, PCO_OP_CONV1D, &back, (uint32_t[]){dy, weight}, 2, NULL);
    g->result[0] = pco_reshape(graph, dx, x.rank, x.shape);
}

/* Channels as samples and samples as channels: dy goes over x in steps of the dilation, its elements a stride apart.
 * Where x and the weights differ in type, sums stay in f32 until the end. */
static void conv1d_to_weight(pco_gradient *g, const conv1d_sizes *s, uint32_t dy)
{
    ATTRS(conv1d);
    pco_graph *graph = g->graph;
    const pco_tensor w = gradient_tensor(graph, g->node.inputs[1]);
    const int64_t each = s->c / s->groups;
    uint32_t x = g->node.inputs[0];
    if (gradient_tensor(graph, x).dtype != w.dtype) x = pco_cast(graph, x, PCO_F32);
    x = pco_reshape(graph, x, 4, SHAPE(s->n, s->groups, each, s->l));
    x = pco_reshape(graph, pco_permute(graph, x, SHAPE(2, 1, 0, 3)), 3, SHAPE(each, s->groups * s->n, s->l));
    dy = pco_permute(graph, pco_reshape(graph, dy, 3, SHAPE(s->n, s->o, s->m)), SHAPE(1, 0, 2));
    const pco_conv1d_attrs over = {
        .stride = attrs->dilation, .padding = attrs->padding, .dilation = attrs->stride, .groups = s->groups};
    uint32_t dw = pco_graph_add(graph, PCO_OP_CONV1D, &over, (uint32_t[]){x, dy}, 2, NULL);
    dw = pco_permute(graph, pco_slice_axis(graph, dw, 2, 0, s->k), SHAPE(1, 0, 2));
    gradient_give(g, 1, dw);
}

PCO_GRADIENT(conv1d)
{
    const conv1d_sizes s = conv1d_sizes_of(g);
    const uint32_t dy = g->upstream[0];
    if (s.n == 0) return; /* no samples: all gradients are 0 */
    if (g->wanted[0]) conv1d_to_x(g, &s, dy);
    if (g->wanted[1]) conv1d_to_weight(g, &s, dy);
    if (g->wanted[2]) {
        const pco_sum_attrs all = {.n_axes = 2, .axes = {0, 2}};
        uint32_t flat = pco_cast(g->graph, pco_reshape(g->graph, dy, 3, SHAPE(s.n, s.o, s.m)), PCO_F32);
        gradient_give(g, 2, pco_graph_add(g->graph, PCO_OP_SUM, &all, &flat, 1, NULL));
    }
}
