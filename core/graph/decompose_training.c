/* Decompositions of the loss and the optimisers. */
#include "graph/decompose.h"

#define RULE_GRAPH graph
#define RULE_NODE  node
#include "graph/rules.h"

#include <math.h>
#include <string.h>

/* x [..] as [..,1] */
static uint32_t training_column(pco_graph *graph, uint32_t x)
{
    if (graph->status || x == PCO_NONE) return PCO_NONE;
    int64_t shape[PCO_MAX_RANK];
    uint32_t rank = graph->tensors[x].rank;
    memcpy(shape, graph->tensors[x].shape, sizeof shape);
    shape[rank] = 1;
    return pco_reshape(graph, x, rank + 1, shape);
}

/* `value` where the target is a class, 0 where it is ignored, NaN elsewhere; target and value broadcast. An
 * ignored class is ignored. */
static uint32_t training_choose(pco_graph *graph, uint32_t target, int64_t ignore_index, int64_t classes,
                                uint32_t value)
{
    uint32_t inside = BIN(LOGICAL_AND, BINS(GE, target, 0), BINS(LT, target, (double)classes));
    value = pco_where(graph, inside, value, pco_scalar(graph, PCO_F32, NAN));
    if (ignore_index < INT32_MIN || ignore_index > INT32_MAX) return value;
    uint32_t ignored = BINS(EQ, target, (double)ignore_index);
    return pco_where(graph, ignored, pco_scalar(graph, PCO_F32, 0), value);
}

PCO_DECOMPOSE(cross_entropy)
{
    ATTRS(cross_entropy);
    pco_tensor logits = graph->tensors[INPUT(0)], target = graph->tensors[INPUT(1)];
    int64_t classes = logits.shape[logits.rank - 1];
    uint32_t x = pco_cast(graph, INPUT(0), PCO_F32);
    uint32_t whole = pco_graph_add(graph, PCO_OP_LOGSUMEXP, &(pco_logsumexp_attrs){.axis = -1}, &x, 1, NULL);
    pco_gather_along_axis_attrs pick = {.axis = -1};
    uint32_t column = training_column(graph, INPUT(1));
    uint32_t chosen = pco_graph_add(graph, PCO_OP_GATHER_ALONG_AXIS, &pick, (uint32_t[]){x, column}, 2, NULL);
    chosen = pco_reshape(graph, chosen, target.rank, target.shape);
    uint32_t loss;
    if (attrs->label_smoothing > 0) {
        uint32_t mean = pco_reduce(graph, PCO_OP_MEAN, x, -1, 0);
        uint32_t hit = BINS(MUL, BIN(SUB, whole, chosen), 1 - attrs->label_smoothing);
        loss = BIN(ADD, hit, BINS(MUL, BIN(SUB, whole, mean), attrs->label_smoothing));
    } else {
        loss = BIN(SUB, whole, chosen);
    }
    out[0] = training_choose(graph, INPUT(1), attrs->ignore_index, classes, loss);
    return pco_graph_check(graph, err);
}

PCO_DECOMPOSE(cross_entropy_backward)
{
    ATTRS(cross_entropy_backward);
    pco_tensor logits = graph->tensors[INPUT(0)];
    int64_t classes = logits.shape[logits.rank - 1];
    uint32_t x = pco_cast(graph, INPUT(0), PCO_F32), target = training_column(graph, INPUT(1));
    uint32_t probability = pco_softmax(graph, x, -1);
    uint32_t class = pco_iota(graph, PCO_I32, 0, 0, 1, 1, &classes);
    double rest = attrs->label_smoothing / (double)classes;
    uint32_t hit =
        pco_where(graph, BIN(EQ, class, target), pco_scalar(graph, PCO_F32, 1 - attrs->label_smoothing + rest),
                  pco_scalar(graph, PCO_F32, rest));
    uint32_t value = BIN(MUL, BIN(SUB, probability, hit), training_column(graph, INPUT(2)));
    value = training_choose(graph, target, attrs->ignore_index, classes, value);
    out[0] = pco_cast(graph, value, (pco_dtype)logits.dtype);
    return pco_graph_check(graph, err);
}

/* Element i of a run vector, as a scalar. */
static uint32_t training_scalar(pco_graph *graph, uint32_t run, int64_t i)
{
    return pco_reshape(graph, pco_slice_axis(graph, run, 0, i, 1), 0, NULL);
}

/* The whole state becomes `value`, or stays where `keep` (a scalar bool, or PCO_NONE) is false. Written along
 * the last dimension, or through a view [1,N] where there is none but the first. */
static uint32_t training_write(pco_graph *graph, uint32_t state, uint32_t value, uint32_t keep)
{
    if (keep != PCO_NONE) value = pco_where(graph, keep, value, state);
    if (graph->status) return PCO_NONE;
    pco_tensor tensor = graph->tensors[state];
    int64_t count = pco_tensor_elements(&tensor);
    uint32_t zero = pco_fill(graph, PCO_I32, 0, 1, SHAPE(1));
    if (tensor.rank > 1) return pco_state_write(graph, state, value, zero, tensor.rank - 1);
    uint32_t view = pco_reshape(graph, state, 2, SHAPE(1, count));
    view = pco_state_write(graph, view, pco_reshape(graph, value, 2, SHAPE(1, count)), zero, 1);
    return pco_reshape(graph, view, tensor.rank, tensor.shape);
}

/* gradient * scale in f32; *keep: is the scale a number? */
static uint32_t training_gradient(pco_graph *graph, uint32_t gradient, uint32_t scale, uint32_t *keep)
{
    gradient = pco_cast(graph, gradient, PCO_F32);
    *keep = PCO_NONE;
    if (scale == PCO_NONE) return gradient;
    scale = pco_reshape(graph, scale, 0, NULL);
    *keep = UN(ISFINITE, scale);
    return BIN(MUL, gradient, scale);
}

PCO_DECOMPOSE(adamw)
{
    ATTRS(adamw);
    uint32_t param = INPUT(0), keep, gradient = training_gradient(graph, INPUT(3), INPUT(5), &keep);
    uint32_t rate = training_scalar(graph, INPUT(4), 0), first = training_scalar(graph, INPUT(4), 1);
    uint32_t second = training_scalar(graph, INPUT(4), 2);
    uint32_t m = BIN(ADD, BINS(MUL, INPUT(1), attrs->beta1), BINS(MUL, gradient, 1 - attrs->beta1));
    uint32_t square = BIN(MUL, BINS(MUL, gradient, 1 - attrs->beta2), gradient);
    uint32_t v = BIN(ADD, BINS(MUL, INPUT(2), attrs->beta2), square);
    uint32_t deviation = BINS(ADD, BIN(DIV, UN(SQRT, v), UN(SQRT, second)), attrs->eps);
    uint32_t step = BIN(MUL, BIN(DIV, rate, first), BIN(DIV, m, deviation));
    uint32_t decayed = param;
    if (attrs->weight_decay != 0) decayed = BIN(SUB, param, BIN(MUL, param, BINS(MUL, rate, attrs->weight_decay)));
    uint32_t moved = BIN(SUB, decayed, step);
    out[0] = training_write(graph, param, moved, keep);
    out[1] = training_write(graph, INPUT(1), m, keep);
    out[2] = training_write(graph, INPUT(2), v, keep);
    return pco_graph_check(graph, err);
}

PCO_DECOMPOSE(sgd)
{
    ATTRS(sgd);
    uint32_t param = INPUT(0), keep, gradient = training_gradient(graph, INPUT(2), INPUT(4), &keep);
    uint32_t rate = training_scalar(graph, INPUT(3), 0);
    if (attrs->weight_decay != 0) gradient = BIN(ADD, gradient, BINS(MUL, param, attrs->weight_decay));
    uint32_t velocity = BIN(ADD, BINS(MUL, INPUT(1), attrs->momentum), gradient), step = velocity;
    if (attrs->nesterov) step = BIN(ADD, gradient, BINS(MUL, velocity, attrs->momentum));
    uint32_t moved = BIN(SUB, param, BIN(MUL, rate, step));
    out[0] = training_write(graph, param, moved, keep);
    out[1] = training_write(graph, INPUT(1), velocity, keep);
    return pco_graph_check(graph, err);
}
