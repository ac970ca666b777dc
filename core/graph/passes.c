#include "graph/passes.h"

#include "base/error.h"
#include "graph/fusion.h"
#include "graph/op_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rewrite_state {
    const pco_graph *source;
    pco_graph *result;
    uint32_t *map;       /* source tensor -> result tensor, or PCO_NONE */
    uint32_t *uses;      /* source tensor: number of live nodes that read it (outputs count as one use) */
    uint32_t *readers;   /* source tensor: the same, with the readers of its copy, and each reader once */
    unsigned char *live; /* source node */
    pco_fusions fusions; /* empty when nothing is to be fused */
} rewrite_state;

static int rewrite_effect(const pco_node *node) { return pco_op_has_effect(pco_node_op(node)); }

/* Marks from the end what outputs and effects need. */
static void rewrite_liveness(rewrite_state *state)
{
    const pco_graph *source = state->source;
    for (uint32_t t = 0; t < source->n_tensors; t++) state->uses[t] = source->tensors[t].kind == PCO_KIND_OUTPUT;
    for (uint32_t i = source->n_nodes; i-- > 0;) {
        const pco_node *node = &source->nodes[i];
        int needed = rewrite_effect(node);
        for (uint32_t k = 0; k < node->n_outputs; k++)
            needed |= node->outputs[k] != PCO_NONE && state->uses[node->outputs[k]] > 0;
        state->live[i] = (unsigned char)needed;
        for (uint32_t k = 0; needed && k < node->n_inputs; k++)
            if (node->inputs[k] != PCO_NONE) state->uses[node->inputs[k]]++;
    }
}

/* What a tensor stands for when a copy counts as its original. */
static uint32_t rewrite_original(const rewrite_state *state, uint32_t t)
{
    return state->source->originals[t] == PCO_NONE ? t : state->source->originals[t];
}

/* Counts readers as if nothing had been copied for recomputation: an original and its copy are then fused
 * alike, and as they would be without recomputation, so that both give the same bits. */
static void rewrite_count_readers(rewrite_state *state)
{
    const pco_graph *source = state->source;
    for (uint32_t t = 0; t < source->n_tensors; t++)
        state->readers[rewrite_original(state, t)] += source->tensors[t].kind == PCO_KIND_OUTPUT;
    for (uint32_t i = 0; i < source->n_nodes; i++) {
        const pco_node *node = &source->nodes[i];
        const uint32_t original = node->n_outputs ? source->originals[node->outputs[0]] : PCO_NONE;
        if (!state->live[i] || (original != PCO_NONE && state->live[source->producers[original]])) continue;
        for (uint32_t k = 0; k < node->n_inputs; k++)
            if (node->inputs[k] != PCO_NONE) state->readers[rewrite_original(state, node->inputs[k])]++;
    }
    for (uint32_t t = 0; t < source->n_tensors; t++) state->readers[t] = state->readers[rewrite_original(state, t)];
}

/* The result's tensor for a source tensor; leaves are made when they are first needed. */
static uint32_t rewrite_tensor(rewrite_state *state, uint32_t t)
{
    if (t == PCO_NONE || state->map[t] != PCO_NONE) return t == PCO_NONE ? PCO_NONE : state->map[t];
    const pco_tensor *x = &state->source->tensors[t];
    pco_graph *result = state->result;
    if (x->kind == PCO_KIND_CONSTANT)
        state->map[t] = pco_graph_constant(result, x->name, (pco_dtype)x->dtype, x->rank, x->shape, x->data);
    else if (x->kind == PCO_KIND_STATE)
        state->map[t] = pco_graph_state(result, x->name, (pco_dtype)x->dtype, x->rank, x->shape);
    else if (x->kind == PCO_KIND_INPUT)
        state->map[t] = pco_graph_input(result, x->name, (pco_dtype)x->dtype, x->rank, x->shape);
    else if (x->kind == PCO_KIND_VALUE)
        state->map[t] = pco_graph_value(result, x->name, (pco_dtype)x->dtype, x->rank, x->shape);
    return state->map[t];
}

/* Operands k, constants that lie one behind the other, of a node and those that it is joined to, as one. */
static uint32_t rewrite_joined(rewrite_state *state, uint32_t t, uint32_t joined, uint32_t k)
{
    const pco_tensor *first = &state->source->tensors[t];
    int64_t shape[PCO_MAX_RANK];
    char name[192];
    size_t length = (size_t)snprintf(name, sizeof name, "%s", first->name);
    memcpy(shape, first->shape, sizeof shape);
    for (; joined != PCO_NONE; joined = state->fusions.joined[joined]) {
        const pco_tensor *next = &state->source->tensors[state->source->nodes[joined].inputs[k]];
        shape[0] += next->shape[0];
        if (length < sizeof name) length += (size_t)snprintf(name + length, sizeof name - length, ", %s", next->name);
    }
    return pco_graph_constant(state->result, name, (pco_dtype)first->dtype, first->rank, shape, first->data);
}

/* What operand k of a node of the source, or as fusing left node `head` of it, is in the result. What the nodes joined
 * to it have elsewhere in the source lies behind its own. */
static uint32_t rewrite_operand(rewrite_state *state, const pco_node *node, uint32_t head, uint32_t joined, uint32_t k)
{
    const uint32_t t = k < node->n_inputs ? node->inputs[k] : PCO_NONE;
    const pco_node *nodes = state->source->nodes;
    const int same = joined == PCO_NONE || nodes[joined].inputs[k] == nodes[head].inputs[k];
    return same ? rewrite_tensor(state, t) : rewrite_joined(state, t, joined, k);
}

/* Puts a source tensor's own facts (output kind, name) on the tensor that stands for it now. */
static void rewrite_settle(rewrite_state *state, uint32_t t, uint32_t made)
{
    pco_graph *result = state->result;
    const pco_tensor *x = &state->source->tensors[t];
    state->map[t] = made;
    if (result->status || made == PCO_NONE || x->kind != PCO_KIND_OUTPUT) return;
    if (x->alias == PCO_NONE) result->tensors[made].alias = PCO_NONE; /* a copy stays a copy */
    result->tensors[made].kind = PCO_KIND_OUTPUT;
    result->tensors[made].name = pco_arena_text(&result->arena, x->name);
    if (!result->tensors[made].name)
        pco_graph_fail(result, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory while rewriting a graph");
}

/* A decomposition may hand back an operand, or a tensor that another output already is: outputs of the graph
 * need one of their own. */
static uint32_t rewrite_own(rewrite_state *state, uint32_t t, uint32_t made)
{
    pco_graph *result = state->result;
    if (result->status || made == PCO_NONE || state->source->tensors[t].kind != PCO_KIND_OUTPUT) return made;
    uint32_t root = pco_graph_root(result, made);
    uint32_t kind = result->tensors[root].kind;
    if ((kind == PCO_KIND_TRANSIENT || kind == PCO_KIND_OUTPUT) && result->tensors[made].kind == PCO_KIND_TRANSIENT)
        return made;
    pco_reshape_attrs attrs = {.n_shape = result->tensors[made].rank};
    memcpy(attrs.shape, result->tensors[made].shape, sizeof attrs.shape);
    made = pco_graph_add(result, PCO_OP_RESHAPE, &attrs, &made, 1, NULL);
    if (made != PCO_NONE) result->tensors[made].alias = PCO_NONE;
    return made;
}

/* The last node added is called as one of the source, and what is behind. */
static void rewrite_name(pco_graph *result, const pco_node *node, const char *behind)
{
    char text[192];
    snprintf(text, sizeof text, "%s%s", node->name, behind);
    const char *name = result->status ? NULL : pco_arena_text(&result->arena, text);
    if (name) result->nodes[result->n_nodes - 1].name = name;
}

/* The results of a node and those that it is joined to, as slices of what they make as one. */
static void rewrite_split(rewrite_state *state, uint32_t head, uint32_t made)
{
    int64_t begin = 0;
    for (uint32_t i = head; i != PCO_NONE; i = state->fusions.joined[i]) {
        const pco_node *node = &state->source->nodes[i];
        const pco_tensor *y = &state->source->tensors[node->outputs[0]];
        const int64_t size = y->shape[y->rank - 1];
        const uint32_t piece = pco_slice_axis(state->result, made, -1, begin, size);
        rewrite_name(state->result, node, "_slice");
        rewrite_settle(state, node->outputs[0], piece);
        begin += size;
    }
}

static void rewrite_node(rewrite_state *state, uint32_t i, int decompose)
{
    pco_graph *result = state->result;
    const pco_node *node = &state->source->nodes[i];
    const uint32_t fused = state->fusions.into ? state->fusions.into[i] : PCO_NONE;
    uint32_t out[PCO_MAX_OUTPUTS], inputs[PCO_MAX_INPUTS];
    const uint32_t joined = fused == PCO_NONE ? PCO_NONE : state->fusions.joined[fused];
    if (fused != PCO_NONE) node = &state->fusions.nodes[fused];
    for (uint32_t k = 0; k < PCO_MAX_INPUTS; k++) inputs[k] = rewrite_operand(state, node, fused, joined, k);
    pco_decompose_fn *decomposition = pco_op_decomposition(node->op);
    for (uint32_t k = 0; k < PCO_MAX_OUTPUTS; k++) out[k] = PCO_NONE;
    if (decompose && decomposition) {
        pco_node view = *node;
        memcpy(view.inputs, inputs, sizeof inputs);
        pco_error err;
        pco_status status = decomposition(result, &view, out, &err);
        if (status) pco_graph_fail(result, status, "%s", err.message);
    } else {
        pco_graph_add_row(result, pco_node_op(node), node->attrs, inputs, node->n_inputs, out);
        if (!result->status) result->nodes[result->n_nodes - 1].variant = node->variant;
        rewrite_name(result, node, "");
    }
    if (fused != PCO_NONE && state->fusions.split[fused]) {
        rewrite_split(state, fused, out[0]);
        return;
    }
    const pco_node *place = &state->source->nodes[i]; /* a fused node makes what the last of its readers made */
    for (uint32_t k = 0; k < place->n_outputs; k++) {
        if (decompose) out[k] = rewrite_own(state, place->outputs[k], out[k]);
        rewrite_settle(state, place->outputs[k], out[k]);
    }
}

/* The node that would have to stay apart for node i not to be emitted as it is, or PCO_NONE. */
static uint32_t rewrite_apart(const rewrite_state *state, uint32_t i)
{
    const uint32_t into = state->fusions.into ? state->fusions.into[i] : PCO_NONE;
    return into == PCO_NONE || state->fusions.taken[into] == PCO_NONE ? into : state->fusions.taken[into];
}

static int rewrite_allocate(rewrite_state *state)
{
    uint32_t nodes = state->source->n_nodes + 1, tensors = state->source->n_tensors + 1;
    state->result = pco_graph_create();
    state->map = malloc(tensors * sizeof *state->map);
    state->uses = calloc(tensors, sizeof *state->uses);
    state->readers = calloc(tensors, sizeof *state->readers);
    state->live = calloc(nodes, 1);
    if (!state->result || !state->map || !state->uses || !state->readers || !state->live) return 0;
    for (uint32_t t = 0; t < tensors; t++) state->map[t] = PCO_NONE;
    return 1;
}

pco_status pco_graph_rewrite(const pco_graph *source, const pco_rewrite_params *params, pco_graph **result,
                             pco_error *err)
{
    rewrite_state state = {.source = source};
    *result = NULL;
    pco_status status = pco_graph_check(source, err);
    if (status) return status;
    if (!rewrite_allocate(&state)) {
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory while rewriting a graph");
        goto done;
    }
    rewrite_liveness(&state);
    rewrite_count_readers(&state);
    if (params->fuse) status = pco_fusions_find(source, state.live, state.readers, params->apart, &state.fusions, err);
    if (status) goto done;
    for (uint32_t t = 0; t < source->n_tensors; t++)
        if (source->tensors[t].kind == PCO_KIND_INPUT || source->tensors[t].kind == PCO_KIND_VALUE)
            rewrite_tensor(&state, t);
    for (uint32_t i = 0; i < source->n_nodes; i++) {
        const uint32_t before = state.result->n_nodes;
        if (!state.live[i] || (state.fusions.moved && state.fusions.moved[i])) continue;
        rewrite_node(&state, i, params->decompose && params->decompose[i]);
        for (uint32_t k = before; params->fused && k < state.result->n_nodes; k++)
            params->fused[k] = rewrite_apart(&state, i);
    }
    status = pco_graph_check(state.result, err);
done:
    free(state.map);
    free(state.uses);
    free(state.readers);
    free(state.live);
    pco_fusions_release(&state.fusions);
    if (status) {
        pco_graph_destroy(state.result);
        state.result = NULL;
    }
    *result = state.result;
    return status;
}
