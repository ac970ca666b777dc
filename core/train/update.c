#include "train/update.h"

#include <math.h>

#include "graph/passes.h"

uint32_t pco_update_prefixes(pco_optimizer_type type, const char *const **prefixes)
{
    static const char *const adamw[] = {"adamw.m.", "adamw.v."}, *const adam[] = {"adam.m.", "adam.v."},
                             *const sgd[] = {"sgd.velocity."};
    *prefixes = type == PCO_OPTIMIZER_SGD ? sgd : type == PCO_OPTIMIZER_ADAM ? adam : adamw;
    return type == PCO_OPTIMIZER_SGD ? 1 : 2;
}

static uint32_t update_state(const pco_nn *nn, const char *prefix, const pco_nn_parameter *parameter)
{
    return pco_graph_state(nn->graph, pco_nn_name(nn, "%s%s", prefix, parameter->name), PCO_F32, parameter->rank,
                           parameter->shape);
}

/* One node of the optimiser; `decay` is the parameter's. */
static void update_parameter(const pco_nn *nn, const pco_optimizer_config *optimizer, const pco_nn_parameter *p,
                             uint32_t gradient, uint32_t run, uint32_t scale, double decay)
{
    const char *const *prefixes;
    pco_graph *graph = nn->graph;
    pco_update_prefixes(optimizer->type, &prefixes);
    const uint32_t first = update_state(nn, prefixes[0], p);
    pco_graph_scope(graph, "optimizer.%s", p->name);
    if (optimizer->type == PCO_OPTIMIZER_SGD) {
        const pco_sgd_attrs attrs = {
            .momentum = optimizer->momentum, .nesterov = optimizer->nesterov, .weight_decay = decay};
        pco_graph_add(graph, PCO_OP_SGD, &attrs, (uint32_t[]){p->tensor, first, gradient, run, scale}, 5, NULL);
        return;
    }
    pco_adamw_attrs attrs = {
        .beta1 = optimizer->beta1, .beta2 = optimizer->beta2, .eps = optimizer->eps, .weight_decay = decay};
    if (optimizer->type == PCO_OPTIMIZER_ADAM && decay > 0) {
        /* the decay goes through the moments; what is left of the scale is 1, or NaN where it was not finite */
        attrs.weight_decay = 0;
        gradient = pco_binary(graph, PCO_OP_MUL, pco_cast(graph, gradient, PCO_F32), scale);
        gradient = pco_binary(graph, PCO_OP_ADD, gradient, pco_binary_scalar(graph, PCO_OP_MUL, p->tensor, decay));
        scale = pco_binary_scalar(graph, PCO_OP_MUL, scale, 0);
        scale = pco_binary_scalar(graph, PCO_OP_ADD, scale, 1);
    }
    const uint32_t second = update_state(nn, prefixes[1], p);
    pco_graph_add(graph, PCO_OP_ADAMW, &attrs, (uint32_t[]){p->tensor, first, second, gradient, run, scale}, 6, NULL);
}

void pco_update_build(const pco_nn *nn, const pco_optimizer_config *optimizer, double max_grad_norm, int scaled,
                      const uint32_t *gradients)
{
    pco_graph *graph = nn->graph;
    const pco_nn_training *training = nn->training;
    const int64_t numbers[1] = {optimizer->type == PCO_OPTIMIZER_SGD ? 1 : 3};
    uint32_t run = pco_graph_value(graph, "run", PCO_F32, 1, numbers);
    pco_graph_scope(graph, "optimizer");
    uint32_t norm = pco_global_norm(graph, gradients, training->count);
    uint32_t unscale = PCO_NONE;
    if (scaled) { /* gradients are as many times too large as the loss is */
        unscale = pco_graph_value(graph, "unscale", PCO_F32, 1, (int64_t[]){1});
        norm = pco_binary(graph, PCO_OP_MUL, norm, unscale);
    }
    uint32_t scale = pco_clip_scale(graph, norm, max_grad_norm);
    if (unscale != PCO_NONE) scale = pco_binary(graph, PCO_OP_MUL, scale, unscale);
    pco_graph_output(graph, norm, "grad_norm");
    for (uint32_t i = 0; i < training->count; i++) {
        const pco_nn_parameter *p = &training->items[i];
        const double decay = optimizer->decay_all || p->rank >= 2 ? optimizer->weight_decay : 0;
        update_parameter(nn, optimizer, p, gradients[i], run, scale, decay);
    }
}

/* The state in which a parameter's gradients are summed: [1,elements], because writes count along
 * dimension 1. */
static uint32_t update_gradient_state(const pco_nn *nn, const pco_nn_parameter *parameter, int64_t *elements)
{
    *elements = pco_nn_elements(parameter);
    return pco_graph_state(nn->graph, pco_nn_name(nn, "gradient.%s", parameter->name), PCO_F32, 2,
                           (int64_t[]){1, *elements});
}

void pco_update_accumulate(const pco_nn *nn, const uint32_t *gradients)
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
        uint32_t state = update_gradient_state(nn, &nn->training->items[i], &elements);
        const uint32_t begin = graph->n_nodes;
        uint32_t kept = pco_where(graph, keep, state, none);
        uint32_t more = pco_reshape(graph, gradients[i], 2, (int64_t[]){1, elements});
        pco_state_write(graph, state, pco_binary(graph, PCO_OP_ADD, kept, more), first, 1);
        pco_graph_hoist(graph, begin); /* a gradient is summed when it is there, and can be read while others come */
    }
}

void pco_update_apply(const pco_nn *nn, const pco_optimizer_config *optimizer, double max_grad_norm, int scaled,
                      uint32_t *gradients)
{
    for (uint32_t i = 0; i < nn->training->count; i++) {
        pco_nn_parameter *p = &nn->training->items[i];
        int64_t elements;
        p->tensor = pco_graph_state(nn->graph, p->name, PCO_F32, p->rank, p->shape);
        gradients[i] = pco_reshape(nn->graph, update_gradient_state(nn, p, &elements), p->rank, p->shape);
    }
    pco_update_build(nn, optimizer, max_grad_norm, scaled, gradients);
}

/* The rate and the corrections of the moments (Kingma & Ba 2015, algorithm 1), in double. */
pco_status pco_update_write(pco_executable *executable, const pco_optimizer_config *optimizer, double rate, double t,
                            double factor, pco_error *err)
{
    const uint32_t unscaled = pco_executable_tensor(executable, "unscale");
    const float unscale = (float)(1 / factor);
    const float run[3] = {(float)rate, (float)(1 - pow(optimizer->beta1, t)), (float)(1 - pow(optimizer->beta2, t))};
    const uint64_t values = optimizer->type == PCO_OPTIMIZER_SGD ? 1 : 3;
    pco_status status = PCO_OK;
    if (unscaled != PCO_NONE) status = pco_executable_write(executable, unscaled, &unscale, sizeof unscale, err);
    if (status) return status;
    return pco_executable_write(executable, pco_executable_tensor(executable, "run"), run, values * sizeof *run, err);
}
