#include "graph/graph.h"

#include "base/dtype.h"
#include "base/error.h"
#include "graph/infer.h"
#include "graph/own.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One operation that is no row of the table. */
typedef struct graph_own {
    struct graph_own *next;
    pco_operation *operation;
} graph_own;

pco_graph *pco_graph_create(void)
{
    pco_graph *graph = calloc(1, sizeof *graph);
    if (graph) graph->scope = "";
    return graph;
}

void pco_graph_destroy(pco_graph *graph)
{
    if (!graph) return;
    for (graph_own *own = graph->own; own; own = own->next) pco_operation_drop(own->operation);
    pco_arena_release(&graph->arena);
    free(graph->tensors);
    free(graph->producers);
    free(graph->originals);
    free(graph->nodes);
    free(graph);
}

pco_status pco_graph_check(const pco_graph *graph, pco_error *err)
{
    if (!graph)
        return pco_fail(err, PCO_ERROR_INVALID, "there is no graph: NULL, or out of host memory when it was created");
    if (graph->status) return pco_fail(err, graph->status, "%s", graph->error.message);
    return PCO_OK;
}

uint32_t pco_graph_fail(pco_graph *graph, pco_status status, const char *format, ...)
{
    if (!graph || graph->status) return PCO_NONE;
    if (!format) return pco_graph_fail(graph, PCO_ERROR_INVALID, "pco_graph_fail: format is NULL");
    if (!status) return pco_graph_fail(graph, PCO_ERROR_INVALID, "pco_graph_fail: PCO_OK is no error");
    va_list args;
    va_start(args, format);
    vsnprintf(graph->error.message, sizeof graph->error.message, format, args);
    va_end(args);
    graph->status = status;
    return PCO_NONE;
}

static uint32_t graph_no_memory(pco_graph *graph)
{
    return pco_graph_fail(graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory while building a graph");
}

void pco_graph_scope(pco_graph *graph, const char *format, ...)
{
    char text[128];
    if (!graph || graph->status) return;
    if (!format) {
        pco_graph_fail(graph, PCO_ERROR_INVALID, "pco_graph_scope: format is NULL");
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *copy = pco_arena_text(&graph->arena, text);
    if (!copy)
        graph_no_memory(graph);
    else
        graph->scope = copy;
}

int pco_graph_has(pco_graph *graph, uint32_t x, const char *function)
{
    if (!graph || graph->status) return 0;
    if (x < graph->n_tensors) return 1;
    if (x == PCO_NONE)
        pco_graph_fail(graph, PCO_ERROR_INVALID, "%s: an operand is missing", function);
    else
        pco_graph_fail(graph, PCO_ERROR_INVALID, "%s: %u is no tensor of this graph", function, x);
    return 0;
}

pco_status pco_graph_describe(const pco_graph *graph, uint32_t tensor, pco_tensor *description, pco_error *err)
{
    PCO_NEEDS(graph);
    PCO_NEEDS(description);
    if (tensor >= graph->n_tensors) return pco_fail(err, PCO_ERROR_INVALID, "%u is no tensor of this graph", tensor);
    *description = graph->tensors[tensor];
    return PCO_OK;
}

/* Appends a tensor; `name` is copied. */
static uint32_t graph_append(pco_graph *graph, pco_tensor tensor, const char *name)
{
    if (graph->status) return PCO_NONE;
    pco_error err;
    if (pco_dtype_bytes(tensor.dtype, tensor.rank, tensor.shape, &tensor.bytes, &err))
        return pco_graph_fail(graph, PCO_ERROR_INVALID, "tensor '%s': %s", name, err.message);
    if (graph->n_tensors == graph->tensor_capacity) {
        uint32_t capacity = graph->tensor_capacity ? 2 * graph->tensor_capacity : 64;
        pco_tensor *tensors = realloc(graph->tensors, capacity * sizeof *tensors);
        if (tensors) graph->tensors = tensors;
        uint32_t *producers = realloc(graph->producers, capacity * sizeof *producers);
        if (producers) graph->producers = producers;
        uint32_t *originals = realloc(graph->originals, capacity * sizeof *originals);
        if (originals) graph->originals = originals;
        if (!tensors || !producers || !originals) return graph_no_memory(graph);
        graph->tensor_capacity = capacity;
    }
    tensor.name = pco_arena_text(&graph->arena, name);
    if (!tensor.name) return graph_no_memory(graph);
    graph->producers[graph->n_tensors] = PCO_NONE;
    graph->originals[graph->n_tensors] = PCO_NONE;
    graph->tensors[graph->n_tensors] = tensor;
    return graph->n_tensors++;
}

/* What the host asks for by name must be one tensor. */
static int graph_is_free(pco_graph *graph, uint32_t kind, const char *name)
{
    if (kind == PCO_KIND_CONSTANT || kind == PCO_KIND_STATE) return 1;
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        const pco_tensor *x = &graph->tensors[i];
        if (x->kind != PCO_KIND_INPUT && x->kind != PCO_KIND_VALUE && x->kind != PCO_KIND_OUTPUT) continue;
        if (strcmp(x->name, name) != 0) continue;
        pco_graph_fail(graph, PCO_ERROR_INVALID, "there is an input, run value or output called '%s' already", name);
        return 0;
    }
    return 1;
}

static uint32_t graph_leaf(pco_graph *graph, pco_kind kind, const char *name, pco_dtype dtype, uint32_t rank,
                           const int64_t *shape, const void *data)
{
    if (!graph || graph->status) return PCO_NONE;
    if (!name) return pco_graph_fail(graph, PCO_ERROR_INVALID, "a tensor without a name");
    if (rank > PCO_MAX_RANK)
        return pco_graph_fail(graph, PCO_ERROR_INVALID, "tensor '%s': rank %u is above %d", name, rank, PCO_MAX_RANK);
    if (rank && !shape) return pco_graph_fail(graph, PCO_ERROR_INVALID, "tensor '%s': its shape is NULL", name);
    if (!graph_is_free(graph, kind, name)) return PCO_NONE;
    pco_tensor tensor = {
        .dtype = (uint32_t)dtype, .kind = (uint32_t)kind, .rank = rank, .alias = PCO_NONE, .data = data};
    if (rank) memcpy(tensor.shape, shape, rank * sizeof *shape);
    return graph_append(graph, tensor, name);
}

uint32_t pco_graph_constant(pco_graph *graph, const char *name, pco_dtype dtype, uint32_t rank, const int64_t *shape,
                            const void *data)
{
    return graph_leaf(graph, PCO_KIND_CONSTANT, name, dtype, rank, shape, data);
}

uint32_t pco_graph_constant_copy(pco_graph *graph, const char *name, pco_dtype dtype, uint32_t rank,
                                 const int64_t *shape, const void *data)
{
    uint32_t id = graph_leaf(graph, PCO_KIND_CONSTANT, name, dtype, rank, shape, NULL);
    if (id == PCO_NONE) return id;
    if (!data && graph->tensors[id].bytes)
        return pco_graph_fail(graph, PCO_ERROR_INVALID, "constant '%s': its data are NULL", name);
    graph->tensors[id].data = pco_arena_copy(&graph->arena, data, graph->tensors[id].bytes);
    return graph->tensors[id].data ? id : graph_no_memory(graph);
}

uint32_t pco_graph_input(pco_graph *graph, const char *name, pco_dtype dtype, uint32_t rank, const int64_t *shape)
{
    return graph_leaf(graph, PCO_KIND_INPUT, name, dtype, rank, shape, NULL);
}

uint32_t pco_graph_value(pco_graph *graph, const char *name, pco_dtype dtype, uint32_t rank, const int64_t *shape)
{
    return graph_leaf(graph, PCO_KIND_VALUE, name, dtype, rank, shape, NULL);
}

uint32_t pco_graph_state(pco_graph *graph, const char *name, pco_dtype dtype, uint32_t rank, const int64_t *shape)
{
    return graph_leaf(graph, PCO_KIND_STATE, name, dtype, rank, shape, NULL);
}

uint32_t pco_graph_root(const pco_graph *graph, uint32_t tensor)
{
    while (graph->tensors[tensor].alias != PCO_NONE) tensor = graph->tensors[tensor].alias;
    return tensor;
}

uint32_t pco_graph_find(const pco_graph *graph, const char *name)
{
    for (uint32_t i = 0; graph && name && i < graph->n_tensors; i++)
        if (strcmp(graph->tensors[i].name, name) == 0) return i;
    return PCO_NONE;
}

static pco_node *graph_append_node(pco_graph *graph)
{
    if (graph->n_nodes == graph->node_capacity) {
        uint32_t capacity = graph->node_capacity ? 2 * graph->node_capacity : 64;
        pco_node *nodes = realloc(graph->nodes, capacity * sizeof *nodes);
        if (!nodes) {
            graph_no_memory(graph);
            return NULL;
        }
        graph->nodes = nodes;
        graph->node_capacity = capacity;
    }
    return memset(&graph->nodes[graph->n_nodes], 0, sizeof *graph->nodes);
}

/* The operand that an output shares its memory with, or PCO_NONE. */
static uint32_t graph_shared(const pco_op_info *op, const uint32_t *inputs, uint32_t output)
{
    if (op->op == PCO_OP_RESHAPE) return inputs[0];
    uint32_t written = pco_op_written(op, output);
    return written == PCO_NONE ? PCO_NONE : inputs[written];
}

/* Holds an operation of one's own as long as the graph lives; 0 without memory. */
static int graph_hold(pco_graph *graph, pco_operation *operation)
{
    for (const graph_own *own = graph->own; own; own = own->next)
        if (own->operation == operation) return 1;
    graph_own *own = pco_arena_allocate(&graph->arena, sizeof *own);
    if (!own) return 0;
    *own = (graph_own){.next = graph->own, .operation = operation};
    pco_operation_hold(operation);
    graph->own = own;
    return 1;
}

/* Adds a node whose shapes have been inferred; its axes are counted from the first dimension from here on. */
static uint32_t graph_add_inferred(pco_graph *graph, const pco_shape_context *context, const uint32_t *inputs,
                                   const char *name, uint32_t *outputs)
{
    pco_node *node = graph_append_node(graph);
    if (!node) return PCO_NONE;
    node->op = (uint32_t)context->op->op;
    node->variant = PCO_NONE;
    node->n_inputs = context->n_inputs;
    node->n_outputs = context->n_outputs;
    node->attrs_size = pco_op_attrs_size(context->op);
    void *attrs = node->attrs_size ? pco_arena_copy(&graph->arena, context->attrs, node->attrs_size) : NULL;
    node->attrs = attrs;
    node->name = pco_arena_text(&graph->arena, name);
    if (!node->name || (node->attrs_size && !attrs)) return graph_no_memory(graph);
    if (context->op->own && !graph_hold(graph, (pco_operation *)(uintptr_t)context->op->own))
        return graph_no_memory(graph);
    if (attrs && context->n_inputs > 0) pco_op_resolve_axes(context->op, attrs, context->inputs[0]->rank);
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) node->inputs[i] = i < context->n_inputs ? inputs[i] : PCO_NONE;
    for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) {
        node->outputs[i] = PCO_NONE;
        if (i >= context->n_outputs) continue;
        pco_tensor tensor = context->outputs[i];
        tensor.kind = PCO_KIND_TRANSIENT;
        tensor.alias = graph_shared(context->op, inputs, i);
        char output_name[192];
        snprintf(output_name, sizeof output_name, i ? "%s:%u" : "%s", name, i);
        node->outputs[i] = graph_append(graph, tensor, output_name);
        if (node->outputs[i] == PCO_NONE) return PCO_NONE;
        graph->producers[node->outputs[i]] = graph->n_nodes;
        if (outputs) outputs[i] = node->outputs[i];
    }
    graph->n_nodes++;
    return node->outputs[0];
}

uint32_t pco_graph_add(pco_graph *graph, pco_op op, const void *attrs, const uint32_t *inputs, uint32_t n_inputs,
                       uint32_t *outputs)
{
    if (outputs)
        for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) outputs[i] = PCO_NONE;
    if (!graph || graph->status) return PCO_NONE;
    const pco_op_info *info = pco_op_find((uint32_t)op);
    if (!info)
        return pco_graph_fail(graph, PCO_ERROR_INVALID, "op %d does not exist%s", (int)op,
                              PCO_OP_IS_OWN(op) ? "; operations of one's own are added with pco_graph_apply" : "");
    return pco_graph_add_row(graph, info, attrs, inputs, n_inputs, outputs);
}

uint32_t pco_graph_add_row(pco_graph *graph, const pco_op_info *info, const void *attrs, const uint32_t *inputs,
                           uint32_t n_inputs, uint32_t *outputs)
{
    if (outputs)
        for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) outputs[i] = PCO_NONE;
    if (!graph || graph->status) return PCO_NONE;
    if (n_inputs && (!inputs || n_inputs > PCO_MAX_INPUTS))
        return pco_graph_fail(graph, PCO_ERROR_INVALID, "op '%s': %u operands at %s; at most %d", info->name, n_inputs,
                              inputs ? "one node" : "NULL", PCO_MAX_INPUTS);
    char name[160];
    snprintf(name, sizeof name, "%s%s%s_%u", graph->scope, *graph->scope ? "." : "", info->name, graph->n_nodes);
    _Alignas(8) unsigned char defaults[512];
    if (!attrs) {
        pco_op_default_attrs(info, defaults);
        attrs = defaults;
    }
    while (n_inputs > 0 && inputs[n_inputs - 1] == PCO_NONE) n_inputs--;
    pco_shape_context context = {.op = info, .attrs = attrs, .node_name = name, .n_inputs = n_inputs};
    for (uint32_t i = 0; i < n_inputs && i < PCO_MAX_INPUTS; i++) {
        if (inputs[i] != PCO_NONE && inputs[i] >= graph->n_tensors)
            return pco_graph_fail(graph, PCO_ERROR_INVALID, "op '%s' (%s): operand %u is no tensor of this graph",
                                  info->name, name, i);
        context.inputs[i] = inputs[i] == PCO_NONE ? NULL : &graph->tensors[inputs[i]];
    }
    pco_error err;
    pco_status status = pco_infer(&context, &err);
    if (status) return pco_graph_fail(graph, status, "%s", err.message);
    return graph_add_inferred(graph, &context, inputs, name, outputs);
}

uint32_t pco_graph_apply(pco_graph *graph, const pco_operation *operation, const void *attrs, const uint32_t *inputs,
                         uint32_t n_inputs, uint32_t *outputs)
{
    if (outputs)
        for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) outputs[i] = PCO_NONE;
    if (!graph || graph->status) return PCO_NONE;
    if (!operation) return pco_graph_fail(graph, PCO_ERROR_INVALID, "pco_graph_apply: operation is NULL");
    _Alignas(8) unsigned char all[sizeof(pco_own_attrs) + 8 * PCO_OP_ATTRIBUTES];
    pco_op_default_attrs(&operation->info, all);
    if (attrs) memcpy(all + sizeof(pco_own_attrs), attrs, 8 * operation->n_attrs);
    return pco_graph_add_row(graph, &operation->info, all, inputs, n_inputs, outputs);
}

uint32_t pco_graph_output(pco_graph *graph, uint32_t tensor, const char *name)
{
    if (!pco_graph_has(graph, tensor, "output")) return PCO_NONE;
    if (!name) return pco_graph_fail(graph, PCO_ERROR_INVALID, "an output without a name");
    if (!graph_is_free(graph, PCO_KIND_OUTPUT, name)) return PCO_NONE;
    uint32_t kind = graph->tensors[pco_graph_root(graph, tensor)].kind;
    if ((kind != PCO_KIND_TRANSIENT && kind != PCO_KIND_OUTPUT) || graph->tensors[tensor].kind == PCO_KIND_OUTPUT) {
        pco_reshape_attrs attrs = {.n_shape = graph->tensors[tensor].rank};
        memcpy(attrs.shape, graph->tensors[tensor].shape, sizeof attrs.shape);
        tensor = pco_graph_add(graph, PCO_OP_RESHAPE, &attrs, &tensor, 1, NULL);
        if (tensor == PCO_NONE) return PCO_NONE;
        graph->tensors[tensor].alias = PCO_NONE; /* a copy: the host must find it after the run */
    }
    graph->tensors[tensor].kind = PCO_KIND_OUTPUT;
    graph->tensors[tensor].name = pco_arena_text(&graph->arena, name);
    return graph->tensors[tensor].name ? tensor : graph_no_memory(graph);
}
