/* Device memory from the graphs alone. */
#include "models/model.h"

#include "base/error.h"
#include "models/causal.h"
#include "models/encoder.h"
#include "models/seq2seq.h"
#include "runtime/plan.h"

#include <stdlib.h>

/* Sums that do not wrap: what is beyond them fits into no device. */
static void estimate_count(uint64_t *sum, uint64_t bytes)
{
    if (__builtin_add_overflow(*sum, bytes, sum)) *sum = UINT64_MAX;
}

/* Most bytes of transients that are alive at once, nodes run in order. */
static pco_status estimate_arena(const pco_graph *graph, uint64_t *peak, pco_error *err)
{
    pco_lifetime *life = malloc((graph->n_tensors + 1) * sizeof *life);
    if (!life) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for an estimate");
    pco_plan_lifetimes(graph->tensors, graph->n_tensors, graph->nodes, graph->n_nodes, life);
    uint64_t alive = 0;
    *peak = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const pco_node *node = &graph->nodes[i];
        for (uint32_t k = 0; k < node->n_outputs; k++)
            if (node->outputs[k] != PCO_NONE && graph->tensors[node->outputs[k]].kind == PCO_KIND_TRANSIENT &&
                life[node->outputs[k]].first == i)
                estimate_count(&alive, graph->tensors[node->outputs[k]].bytes);
        if (alive > *peak) *peak = alive;
        for (uint32_t k = 0; k < node->n_inputs + node->n_outputs; k++) {
            const uint32_t t = k < node->n_inputs ? node->inputs[k] : node->outputs[k - node->n_inputs];
            if (t == PCO_NONE) continue;
            const uint32_t root = pco_graph_root(graph, t);
            if (life[root].first == PCO_NONE || life[root].last != i || graph->tensors[root].kind != PCO_KIND_TRANSIENT)
                continue;
            if (alive != UINT64_MAX) alive -= graph->tensors[root].bytes;
            life[root].first = PCO_NONE; /* gone: it may be an operand twice */
        }
    }
    free(life);
    return PCO_OK;
}

/* A constant that `other` has too, at the same address. */
static int estimate_counted(const pco_graph *other, const pco_tensor *constant)
{
    for (uint32_t t = 0; other && t < other->n_tensors; t++)
        if (other->tensors[t].kind == PCO_KIND_CONSTANT && other->tensors[t].data == constant->data) return 1;
    return 0;
}

static int estimate_state_counted(const pco_graph *other, const pco_tensor *state)
{
    uint32_t t = other ? pco_graph_find(other, state->name) : PCO_NONE;
    return t != PCO_NONE && other->tensors[t].kind == PCO_KIND_STATE;
}

/* Adds what `graph` needs beyond `other` (NULL: nothing was counted yet). */
static pco_status estimate_add(const pco_graph *graph, const pco_graph *other, pco_memory_estimate *estimate,
                               pco_error *err)
{
    uint64_t arena = 0;
    pco_status status = pco_graph_check(graph, err);
    if (!status) status = estimate_arena(graph, &arena, err);
    if (status) return status;
    estimate_count(&estimate->arena_bytes, arena);
    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        const pco_tensor *x = &graph->tensors[t];
        if (x->kind == PCO_KIND_CONSTANT && !estimate_counted(other, x)) {
            estimate_count(&estimate->constant_bytes, x->bytes);
            if (x->dtype != PCO_I32) estimate->parameters += (uint64_t)pco_tensor_elements(x);
        } else if (x->kind == PCO_KIND_STATE && !estimate_state_counted(other, x)) {
            estimate_count(&estimate->state_bytes, x->bytes);
        } else if (x->kind == PCO_KIND_INPUT || x->kind == PCO_KIND_OUTPUT || x->kind == PCO_KIND_VALUE) {
            estimate_count(&estimate->io_bytes, x->bytes);
        }
    }
    return PCO_OK;
}

pco_status pco_model_estimate(const pco_model_file *file, int64_t context, int64_t lanes, uint32_t cache_type,
                              pco_memory_estimate *estimate, pco_error *err)
{
    *estimate = (pco_memory_estimate){0};
    pco_graph *step = pco_graph_create(), *chunk = pco_graph_create();
    const pco_nn step_nn = {.graph = step, .weights = file->weights},
                 chunk_nn = {.graph = chunk, .weights = file->weights};
    pco_status status = PCO_OK;
    if (!step || !chunk) {
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for an estimate");
    } else if (!pco_model_reads_texts(file)) {
        pco_image_encoder_build(&step_nn, file->images, 1, PCO_ENCODER_HIDDEN);
    } else if (file->images) {
        pco_encoder_build(&step_nn, &file->spec, 1, context, PCO_ENCODER_HIDDEN);
        pco_image_encoder_build(&chunk_nn, file->images, 1, PCO_ENCODER_HIDDEN);
    } else if (file->spec.encoder_only) { /* one text; a batch of short ones has as many tokens */
        pco_encoder_build(&step_nn, &file->spec, 1, context, PCO_ENCODER_MEAN);
        pco_encoder_build(&chunk_nn, &file->spec, 1, 1, PCO_ENCODER_MEAN);
    } else if (file->spec.decoder_only) {
        const int64_t chunk_rows = context < 256 ? context : 256;
        pco_causal_form form = {
            .context = context, .lanes = lanes, .batch = lanes, .rows = 1, .cache_type = cache_type};
        pco_causal_build(&step_nn, &file->spec, &form);
        form.batch = 1;
        form.rows = chunk_rows;
        pco_causal_build(&chunk_nn, &file->spec, &form);
    } else {
        pco_seq2seq_form form = {.context = context, .rows = 1, .step = 1, .cache_type = cache_type};
        pco_seq2seq_build_decode(&step_nn, &file->spec, &form);
        form.rows = context;
        form.step = 0;
        pco_seq2seq_build_encode(&chunk_nn, &file->spec, &form);
    }
    if (!status) status = estimate_add(step, NULL, estimate, err);
    if (!status) status = estimate_add(chunk, step, estimate, err);
    pco_graph_destroy(step);
    pco_graph_destroy(chunk);
    const uint64_t kinds[] = {estimate->constant_bytes, estimate->state_bytes, estimate->arena_bytes,
                              estimate->io_bytes};
    for (int i = 0; i < 4; i++) estimate_count(&estimate->total, kinds[i]);
    return status;
}
