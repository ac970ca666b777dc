#include "train/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/passes.h"
#include "models/graphs.h"

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
static void train_begin(const pco_nn *nn, const pco_train_config *config, const pco_model_spec *model,
                        pco_train_stage stage)
{
    const int evaluate = stage == PCO_TRAIN_EVALUATE;
    pco_nn_training_begin(nn, evaluate ? PCO_F32 : config->dtype, evaluate ? 0 : model->dropout,
                          evaluate ? 0 : config->lora.params.dropout);
}

void pco_train_build(const pco_nn *nn, const pco_train_config *config, const pco_model_spec *model,
                     pco_train_stage stage, int64_t rows, int64_t source_length, int64_t target_length)
{
    pco_graph *graph = nn->graph;
    uint32_t loss = PCO_NONE;
    if (stage != PCO_TRAIN_APPLY) {
        train_begin(nn, config, model, stage);
        uint32_t logits = train_forward(nn, model, rows, source_length, target_length);
        loss = train_loss(nn, logits, stage == PCO_TRAIN_EVALUATE ? 0 : config->label_smoothing, rows, target_length);
    }
    if (stage == PCO_TRAIN_EVALUATE) {
        pco_graph_output(graph, loss, "loss");
        return;
    }
    const uint32_t count = nn->training->count;
    const int scaled = config->dtype == PCO_F16;
    uint32_t *gradients = calloc(2 * (size_t)count + 2, sizeof *gradients), *parameters = gradients + count + 1;
    if (!gradients) {
        pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for gradients");
        return;
    }
    for (uint32_t i = 0; i < count; i++) parameters[i] = nn->training->items[i].tensor;
    pco_error err;
    if (stage == PCO_TRAIN_APPLY) {
        pco_update_apply(nn, &config->optimizer, config->max_grad_norm, scaled, gradients);
    } else if (!graph->status && pco_gradients(graph, loss, parameters, count, gradients, &err) == PCO_OK) {
        if (config->recompute == PCO_RECOMPUTE_BLOCKS && stage != PCO_TRAIN_DIAGNOSE)
            train_recompute(graph, model, loss);
        if (stage == PCO_TRAIN_STEP) pco_update_build(nn, &config->optimizer, config->max_grad_norm, scaled, gradients);
        if (stage == PCO_TRAIN_ACCUMULATE) pco_update_accumulate(nn, gradients);
        pco_graph_output(graph, loss, "loss");
        if (stage == PCO_TRAIN_DIAGNOSE) train_show_all(graph);
    }
    free(gradients);
}
