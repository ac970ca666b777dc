#include "train/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/passes.h"
#include "models/graphs.h"

uint32_t pco_train_state_prefixes(const pco_optimizer_config *optimizer, const char *const **prefixes)
{
    static const char *const adamw[] = {"adamw.m.", "adamw.v."}, *const sgd[] = {"sgd.velocity."};
    *prefixes = optimizer->type == PCO_OPTIMIZER_ADAMW ? adamw : sgd;
    return optimizer->type == PCO_OPTIMIZER_ADAMW ? 2 : 1;
}

/* Batch in, logits f32 [B,T,V] out. */
static uint32_t train_forward(const pco_nn *nn, const pco_model_spec *model, int64_t rows, int64_t source_length,
                              int64_t target_length)
{
    pco_graph *graph = nn->graph;
    pco_spec_decoder decoder = {.memory = PCO_NONE,
                                .padding = {PCO_NONE, PCO_NONE},
                                .positions = PCO_NONE,
                                .starts = PCO_NONE,
                                .lengths = PCO_NONE};
    if (!model->decoder_only) {
        uint32_t source = pco_graph_input(graph, "source", PCO_I32, 2, (int64_t[]){rows, source_length});
        decoder.padding.lengths = pco_graph_value(graph, "source_lengths", PCO_I32, 1, &rows);
        decoder.memory = pco_spec_encode(nn, model, source, PCO_NONE, &decoder.padding);
    }
    uint32_t target = pco_graph_input(graph, "target", PCO_I32, 2, (int64_t[]){rows, target_length});
    return pco_spec_decode(nn, model, target, &decoder);
}

/* The sum of the rows' losses times "loss_scale": f32 [1]. */
static uint32_t train_loss(const pco_nn *nn, uint32_t logits, double smoothing, int64_t rows, int64_t target_length)
{
    pco_graph *graph = nn->graph;
    uint32_t labels = pco_graph_input(graph, "labels", PCO_I32, 2, (int64_t[]){rows, target_length});
    uint32_t scale = pco_graph_value(graph, "loss_scale", PCO_F32, 1, (int64_t[]){1});
    pco_graph_scope(graph, "loss");
    pco_cross_entropy_attrs attrs = {.ignore_index = PCO_DATA_IGNORE, .label_smoothing = smoothing};
    uint32_t loss = pco_graph_add(graph, PCO_OP_CROSS_ENTROPY, &attrs, (uint32_t[]){logits, labels}, 2, NULL);
    loss = pco_reshape(graph, loss, 1, (int64_t[]){rows * target_length});
    loss = pco_reduce(graph, PCO_OP_SUM, loss, 0, 1);
    return pco_binary(graph, PCO_OP_MUL, loss, scale);
}

static uint32_t train_state(const pco_nn *nn, const char *prefix, const pco_nn_parameter *parameter)
{
    return pco_graph_state(nn->graph, pco_nn_name(nn, "%s%s", prefix, parameter->name), PCO_F32, parameter->rank,
                           parameter->shape);
}

/* The update of every parameter, from gradients[]. */
static void train_update(const pco_nn *nn, const pco_train_config *config, const uint32_t *gradients)
{
    const pco_optimizer_config *optimizer = &config->optimizer;
    pco_graph *graph = nn->graph;
    const pco_nn_training *training = nn->training;
    const int adamw = optimizer->type == PCO_OPTIMIZER_ADAMW;
    uint32_t run = pco_graph_value(graph, "run", PCO_F32, 1, (int64_t[]){adamw ? 3 : 1});
    pco_graph_scope(graph, "optimizer");
    uint32_t norm = pco_global_norm(graph, gradients, training->count);
    uint32_t unscale = PCO_NONE;
    if (config->dtype == PCO_F16) { /* gradients are as many times too large as the loss is */
        unscale = pco_graph_value(graph, "unscale", PCO_F32, 1, (int64_t[]){1});
        norm = pco_binary(graph, PCO_OP_MUL, norm, unscale);
    }
    uint32_t scale = pco_clip_scale(graph, norm, config->max_grad_norm);
    if (unscale != PCO_NONE) scale = pco_binary(graph, PCO_OP_MUL, scale, unscale);
    pco_graph_output(graph, norm, "grad_norm");
    for (uint32_t i = 0; i < training->count; i++) {
        const pco_nn_parameter *p = &training->items[i];
        const double decay = optimizer->decay_all || p->rank >= 2 ? optimizer->weight_decay : 0;
        const char *const *prefixes;
        pco_train_state_prefixes(optimizer, &prefixes);
        uint32_t first = train_state(nn, prefixes[0], p);
        pco_graph_scope(graph, "optimizer.%s", p->name);
        if (adamw) {
            pco_adamw_attrs attrs = {
                .beta1 = optimizer->beta1, .beta2 = optimizer->beta2, .eps = optimizer->eps, .weight_decay = decay};
            uint32_t second = train_state(nn, prefixes[1], p);
            uint32_t inputs[] = {p->tensor, first, second, gradients[i], run, scale};
            pco_graph_add(graph, PCO_OP_ADAMW, &attrs, inputs, 6, NULL);
        } else {
            pco_sgd_attrs attrs = {.momentum = optimizer->momentum, .weight_decay = decay};
            uint32_t inputs[] = {p->tensor, first, gradients[i], run, scale};
            pco_graph_add(graph, PCO_OP_SGD, &attrs, inputs, 5, NULL);
        }
    }
}

/* The state in which a parameter's gradients are summed: [1,elements], because writes count along
 * dimension 1. */
static uint32_t train_gradient_state(const pco_nn *nn, const pco_nn_parameter *parameter, int64_t *elements)
{
    *elements = pco_nn_elements(parameter);
    return pco_graph_state(nn->graph, pco_nn_name(nn, "gradient.%s", parameter->name), PCO_F32, 2,
                           (int64_t[]){1, *elements});
}

static void train_accumulate(const pco_nn *nn, const uint32_t *gradients)
{
    pco_graph *graph = nn->graph;
    const int32_t zero = 0;
    uint32_t keep = pco_graph_value(graph, "keep", PCO_F32, 1, (int64_t[]){1});
    uint32_t first = pco_graph_constant_copy(graph, "first", PCO_I32, 1, (int64_t[]){1}, &zero);
    pco_graph_scope(graph, "accumulate");
    /* chosen, not multiplied: what a skipped update left may be infinite */
    const uint32_t chosen = graph->n_nodes;
    keep = pco_binary_scalar(graph, PCO_OP_GT, keep, 0);
    pco_graph_hoist(graph, chosen);
    const uint32_t none = pco_scalar(graph, PCO_F32, 0);
    for (uint32_t i = 0; i < nn->training->count; i++) {
        int64_t elements;
        uint32_t state = train_gradient_state(nn, &nn->training->items[i], &elements);
        const uint32_t begin = graph->n_nodes;
        uint32_t kept = pco_where(graph, keep, state, none);
        uint32_t more = pco_reshape(graph, gradients[i], 2, (int64_t[]){1, elements});
        pco_state_write(graph, state, pco_binary(graph, PCO_OP_ADD, kept, more), first, 1);
        pco_graph_hoist(graph, begin); /* a gradient is summed when it is there, and can be read while others come */
    }
}

static void train_apply(const pco_nn *nn, const pco_train_config *config, uint32_t *gradients)
{
    for (uint32_t i = 0; i < nn->training->count; i++) {
        pco_nn_parameter *p = &nn->training->items[i];
        int64_t elements;
        p->tensor = pco_graph_state(nn->graph, p->name, PCO_F32, p->rank, p->shape);
        gradients[i] = pco_reshape(nn->graph, train_gradient_state(nn, p, &elements), p->rank, p->shape);
    }
    train_update(nn, config, gradients);
}

/* Every float tensor that a node makes becomes an output of its own name. */
static void train_show_all(pco_graph *graph)
{
    const uint32_t count = graph->n_tensors;
    for (uint32_t t = 0; t < count && !graph->status; t++) {
        const pco_tensor *x = &graph->tensors[t];
        if (x->kind != PCO_KIND_TRANSIENT || (x->dtype != PCO_F32 && x->dtype != PCO_F16 && x->dtype != PCO_BF16) ||
            x->alias != PCO_NONE)
            continue;
        pco_graph_output(graph, t, x->name);
    }
}

/* Each layer's inside is computed again in the backward pass. */
static void train_recompute(pco_graph *graph, const pco_model_spec *model, uint32_t loss)
{
    for (int side = model->decoder_only ? PCO_DECODER : PCO_ENCODER; side <= PCO_DECODER; side++)
        for (int64_t i = 0; i < model->layers[side]; i++) {
            char scope[PCO_SPEC_NAME];
            pco_graph_recompute(graph, loss, pco_spec_layer_name(model, (pco_model_side)side, i, NULL, scope));
        }
}

/* The type of activations, and dropout. */
static void train_begin(const pco_nn *nn, const pco_model_spec *model, pco_dtype dtype, pco_train_stage stage)
{
    const int evaluate = stage == PCO_TRAIN_EVALUATE;
    pco_nn_training_begin(nn, evaluate ? PCO_F32 : dtype, evaluate ? 0 : model->dropout);
}

void pco_train_build(const pco_nn *nn, const pco_train_config *config, const pco_model_spec *model,
                     pco_train_stage stage, int64_t rows, int64_t source_length, int64_t target_length)
{
    pco_graph *graph = nn->graph;
    uint32_t loss = PCO_NONE;
    if (stage != PCO_TRAIN_APPLY) {
        train_begin(nn, model, config->dtype, stage);
        uint32_t logits = train_forward(nn, model, rows, source_length, target_length);
        loss = train_loss(nn, logits, stage == PCO_TRAIN_EVALUATE ? 0 : config->label_smoothing, rows, target_length);
    }
    if (stage == PCO_TRAIN_EVALUATE) {
        pco_graph_output(graph, loss, "loss");
        return;
    }
    const uint32_t count = nn->training->count;
    uint32_t *gradients = calloc(2 * (size_t)count + 2, sizeof *gradients), *parameters = gradients + count + 1;
    if (!gradients) {
        pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for gradients");
        return;
    }
    for (uint32_t i = 0; i < count; i++) parameters[i] = nn->training->items[i].tensor;
    pco_error err;
    if (stage == PCO_TRAIN_APPLY) {
        train_apply(nn, config, gradients);
    } else if (!graph->status && pco_gradients(graph, loss, parameters, count, gradients, &err) == PCO_OK) {
        if (config->recompute == PCO_RECOMPUTE_BLOCKS && stage != PCO_TRAIN_DIAGNOSE)
            train_recompute(graph, model, loss);
        if (stage == PCO_TRAIN_STEP) train_update(nn, config, gradients);
        if (stage == PCO_TRAIN_ACCUMULATE) train_accumulate(nn, gradients);
        pco_graph_output(graph, loss, "loss");
        if (stage == PCO_TRAIN_DIAGNOSE) train_show_all(graph);
    }
    free(gradients);
}
