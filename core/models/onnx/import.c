/* A file's graph, node by node: what is known is computed on the host, the rest goes into the graph. */
#include "models/onnx/import.h"

#include "base/error.h"
#include "base/hash.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A named tensor of the file. */
typedef struct import_value {
    pco_onnx_tensor tensor; /* owned */
    uint32_t in_graph;      /* PCO_NONE: not there yet */
    uint64_t depends;       /* bit i: its values depend on those of input i */
    bool broken;            /* what makes it cannot be expressed */
} import_value;

typedef struct import_name {
    const char *name;
    import_value *value;
} import_name;

/* The names of a graph, of a branch, or of a function, which sees no others. */
typedef struct import_scope {
    const struct import_scope *outer; /* of a branch */
    const pco_onnx_node *call;        /* of a function: whose attributes those of its nodes may refer to, */
    const struct import_scope *caller;
    const pco_onnx_function *function;
    import_name *names; /* a hash table */
    uint32_t capacity, used;
    int depth;
} import_scope;

typedef struct import_problem {
    struct import_problem *next;
    const char *op, *node, *why;
} import_problem;

typedef struct import_state {
    const pco_onnx_file *file;
    pco_onnx_import *result;
    pco_arena arena;       /* of one pass */
    import_value **values; /* all, to be cleared */
    uint32_t n_values, value_capacity;
    import_problem *first, **last;
    uint32_t n_problems;
    uint64_t wanted; /* inputs whose values something depends on that must be known */
    bool merge, no_memory;
} import_state;

enum { IMPORT_DEEPEST = 16, IMPORT_MOST_NODES = 1 << 20 };

const char *pco_onnx_input_name(uint32_t index, char *name)
{
    snprintf(name, PCO_ONNX_NAME, "in%u", index);
    return name;
}

const char *pco_onnx_output_name(uint32_t index, char *name)
{
    snprintf(name, PCO_ONNX_NAME, "out%u", index);
    return name;
}

static uint64_t import_bit(uint32_t input) { return UINT64_C(1) << (input < 63 ? input : 63); }

/* ---- names ---- */

static import_value *import_new_value(import_state *state)
{
    import_value *value = pco_arena_allocate(&state->arena, sizeof *value);
    if (value && state->n_values == state->value_capacity) {
        const uint32_t capacity = state->value_capacity ? 2 * state->value_capacity : 64;
        import_value **more = realloc(state->values, capacity * sizeof *more);
        if (more) state->values = more, state->value_capacity = capacity;
        if (!more) value = NULL;
    }
    if (!value) {
        state->no_memory = true;
        return NULL;
    }
    value->in_graph = PCO_NONE;
    state->values[state->n_values++] = value;
    return value;
}

static import_name *import_bucket(import_name *names, uint32_t capacity, const char *name)
{
    uint32_t at = (uint32_t)pco_hash(PCO_HASH_START, name, strlen(name)) & (capacity - 1);
    while (names[at].name && strcmp(names[at].name, name) != 0) at = (at + 1) & (capacity - 1);
    return &names[at];
}

/* A name that is there already stands for something else from now on. */
static void import_define(import_state *state, import_scope *scope, const char *name, import_value *value)
{
    if (!value || state->no_memory) return;
    if (2 * (scope->used + 1) > scope->capacity) {
        const uint32_t capacity = scope->capacity ? 2 * scope->capacity : 64;
        import_name *names = pco_arena_allocate(&state->arena, capacity * sizeof *names);
        if (!names) {
            state->no_memory = true;
            return;
        }
        for (uint32_t i = 0; i < scope->capacity; i++)
            if (scope->names[i].name) *import_bucket(names, capacity, scope->names[i].name) = scope->names[i];
        scope->names = names, scope->capacity = capacity;
    }
    import_name *bucket = import_bucket(scope->names, scope->capacity, name);
    scope->used += !bucket->name;
    *bucket = (import_name){name, value};
}

static import_value *import_find(const import_scope *scope, const char *name)
{
    for (; scope; scope = scope->outer) {
        if (!scope->capacity) continue;
        const import_name *bucket = import_bucket(scope->names, scope->capacity, name);
        if (bucket->name) return bucket->value;
    }
    return NULL;
}

/* ---- problems ---- */

static void import_problem_add(import_state *state, const pco_onnx_node *node, const char *why)
{
    import_problem *problem = pco_arena_allocate(&state->arena, sizeof *problem);
    char *text = pco_arena_text(&state->arena, why);
    const bool named = node && *node->name;
    const char *place = named ? node->name : node && node->n_outputs > 0 ? node->outputs[0] : "";
    if (!problem || !text) {
        state->no_memory = true;
        return;
    }
    *problem = (import_problem){.op = node ? node->op : "", .node = place, .why = text};
    *state->last = problem;
    state->last = &problem->next;
    state->n_problems++;
}

static void import_broken(import_state *state, import_scope *scope, const pco_onnx_node *node)
{
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (!node->outputs[i][0]) continue;
        import_value *value = import_new_value(state);
        if (value) value->broken = true;
        import_define(state, scope, node->outputs[i], value);
    }
}

static void import_refuse(import_state *state, import_scope *scope, const pco_onnx_node *node, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void import_refuse(import_state *state, import_scope *scope, const pco_onnx_node *node, const char *format, ...)
{
    char why[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    import_problem_add(state, node, why);
    import_broken(state, scope, node);
}

/* ---- nodes ---- */

static void import_nodes(import_state *state, import_scope *scope, const pco_onnx_node *nodes, uint32_t count);

static bool import_is_control(const pco_onnx_node *node)
{
    return !*node->domain && (strcmp(node->op, "Loop") == 0 || strcmp(node->op, "Scan") == 0);
}

static const pco_onnx_attribute *import_attribute(const pco_onnx_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->n_attributes; i++)
        if (strcmp(node->attributes[i].name, name) == 0) return &node->attributes[i];
    return NULL;
}

/* Initializers of a graph, in its scope. */
static void import_initializers(import_state *state, import_scope *scope, const pco_onnx_graph *graph)
{
    pco_error err = {""};
    for (uint32_t i = 0; i < graph->n_initializers && !state->no_memory; i++) {
        import_value *value = import_new_value(state);
        if (!value) return;
        if (pco_onnx_initializer(state->file, graph, i, &value->tensor, &err)) {
            const char *const outputs[] = {graph->initializers[i]};
            const pco_onnx_node place = {.op = "initializer", .name = "", .n_outputs = 1, .outputs = outputs};
            import_problem_add(state, &place, err.message);
            value->broken = true;
        }
        import_define(state, scope, graph->initializers[i], value);
    }
}

/* An If whose condition is known is the branch that is taken. */
static void import_if(import_state *state, import_scope *scope, const pco_onnx_node *node)
{
    import_value *condition = node->n_inputs == 1 ? import_find(scope, node->inputs[0]) : NULL;
    pco_error err;
    if (!condition || condition->broken || condition->tensor.count != 1 ||
        pco_onnx_tensor_values(&condition->tensor, &err) || !condition->tensor.value) {
        if (condition && !condition->broken) state->wanted |= condition->depends;
        import_refuse(state, scope, node, "control flow: the condition of If is known to a run only");
        return;
    }
    for (uint32_t i = 0; i < node->n_attributes; i++) {
        const char *name = node->attributes[i].name;
        if (strcmp(name, "then_branch") == 0 || strcmp(name, "else_branch") == 0) continue;
        import_refuse(state, scope, node, "attribute '%.100s' of If is not mapped", name);
        return;
    }
    const pco_onnx_attribute *branch =
        import_attribute(node, condition->tensor.value[0] != 0 ? "then_branch" : "else_branch");
    if (!branch || !branch->graph || branch->graph->n_outputs != node->n_outputs || scope->depth >= IMPORT_DEEPEST) {
        import_refuse(state, scope, node, "If without such a branch, or nested too deep");
        return;
    }
    import_scope inner = {.outer = scope,
                          .call = scope->call,
                          .caller = scope->caller,
                          .function = scope->function,
                          .depth = scope->depth + 1};
    import_initializers(state, &inner, branch->graph);
    import_nodes(state, &inner, branch->graph->nodes, branch->graph->n_nodes);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        import_value *value = import_find(&inner, branch->graph->outputs[i].name);
        if (!value) {
            import_refuse(state, scope, node, "'%.100s' of a branch is made nowhere", branch->graph->outputs[i].name);
            return;
        }
        import_define(state, scope, node->outputs[i], value);
    }
}

static const pco_onnx_function *import_function(const import_state *state, const pco_onnx_node *node)
{
    for (uint32_t i = 0; i < state->file->n_functions; i++)
        if (strcmp(state->file->functions[i].name, node->op) == 0 &&
            strcmp(state->file->functions[i].domain, node->domain) == 0)
            return &state->file->functions[i];
    return NULL;
}

static void import_call(import_state *state, import_scope *scope, const pco_onnx_node *node,
                        const pco_onnx_function *function)
{
    import_scope inner = {.call = node, .caller = scope, .function = function, .depth = scope->depth + 1};
    if (inner.depth > IMPORT_DEEPEST || node->n_inputs > function->n_inputs || node->n_outputs > function->n_outputs) {
        import_refuse(state, scope, node, "a function that calls itself, or is called with other operands than it has");
        return;
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        import_value *value = node->inputs[i][0] ? import_find(scope, node->inputs[i]) : NULL;
        if (value) import_define(state, &inner, function->inputs[i], value);
    }
    import_nodes(state, &inner, function->nodes, function->n_nodes);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        import_value *value = import_find(&inner, function->outputs[i]);
        if (value && node->outputs[i][0]) import_define(state, scope, node->outputs[i], value);
        if (value || !node->outputs[i][0]) continue;
        import_refuse(state, scope, node, "'%.100s' of a function is made nowhere", function->outputs[i]);
        return;
    }
}

/* What an attribute of a function's node stands for: itself, that of the call, the function's default, or nothing. */
static const pco_onnx_attribute *import_resolved(const import_scope *scope, const pco_onnx_attribute *attribute)
{
    const pco_onnx_attribute *found = attribute;
    for (; found && *found->reference; scope = scope->caller) {
        if (!scope || !scope->call) return NULL;
        const char *name = found->reference;
        found = import_attribute(scope->call, name);
        for (uint32_t i = 0; i < scope->function->n_defaults && !found; i++)
            if (strcmp(scope->function->defaults[i].name, name) == 0) return &scope->function->defaults[i];
    }
    return found;
}

/* The node itself, or one with its attributes in the place of those that refer to a call's; NULL: no memory. */
static const pco_onnx_node *import_resolve(import_state *state, const import_scope *scope, const pco_onnx_node *node)
{
    bool refers = false;
    for (uint32_t i = 0; i < node->n_attributes; i++) refers |= node->attributes[i].reference[0] != 0;
    if (!refers) return node;
    pco_onnx_node *copy = pco_arena_copy(&state->arena, node, sizeof *node);
    pco_onnx_attribute *attributes = pco_arena_allocate(&state->arena, node->n_attributes * sizeof *attributes);
    if (!copy || !attributes) {
        state->no_memory = true;
        return NULL;
    }
    copy->attributes = attributes, copy->n_attributes = 0;
    for (uint32_t i = 0; i < node->n_attributes; i++) {
        const pco_onnx_attribute *found = import_resolved(scope, &node->attributes[i]);
        if (!found) continue;
        attributes[copy->n_attributes] = *found;
        attributes[copy->n_attributes].reference = "";
        attributes[copy->n_attributes++].name = node->attributes[i].name;
    }
    return copy;
}

/* The node's results, by `depends` of its operands. */
static void import_results(import_state *state, import_scope *scope, const pco_onnx_map *map, pco_onnx_tensor *folded,
                           uint64_t depends)
{
    const pco_onnx_node *node = map->node;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        import_value *value = import_new_value(state);
        if (!value) return;
        value->depends = depends;
        if (folded) {
            value->tensor = folded[i];
            folded[i] = (pco_onnx_tensor){0};
        } else if (map->out[i] != PCO_NONE) {
            const pco_tensor *made = &map->graph->tensors[map->out[i]];
            value->in_graph = map->out[i];
            value->tensor = (pco_onnx_tensor){.type = map->type[i], .rank = made->rank, .count = 1};
            memcpy(value->tensor.shape, made->shape, sizeof made->shape);
            for (uint32_t d = 0; d < made->rank; d++) value->tensor.count *= made->shape[d];
        }
        if (node->outputs[i][0]) import_define(state, scope, node->outputs[i], value);
    }
}

/* The node's operands; false: one of them is broken, or not there. */
static bool import_operands(import_state *state, import_scope *scope, pco_onnx_map *map, import_value **operands,
                            uint64_t *depends)
{
    const pco_onnx_node *node = map->node;
    bool whole = true;
    for (uint32_t i = 0; i < node->n_inputs && i < PCO_ONNX_MAX_OPERANDS; i++) {
        if (!node->inputs[i][0]) continue;
        operands[i] = import_find(scope, node->inputs[i]);
        if (!operands[i] && scope->function) { /* an operand that the call leaves out */
            bool parameter = false;
            for (uint32_t k = 0; k < scope->function->n_inputs; k++)
                parameter |= strcmp(scope->function->inputs[k], node->inputs[i]) == 0;
            if (parameter) continue;
        }
        if (!operands[i]) {
            import_refuse(state, scope, node, "input '%.100s' is made nowhere", node->inputs[i]);
            return false;
        }
        whole &= !operands[i]->broken;
        *depends |= operands[i]->depends;
        map->operands[i] = &operands[i]->tensor;
        map->in[i] = operands[i]->in_graph;
    }
    if (!whole && !pco_onnx_map_knows(node->domain, node->op))
        import_refuse(state, scope, node, "no mapping for %.100s%s%.100s", node->domain, *node->domain ? "." : "",
                      node->op);
    else if (!whole)
        import_broken(state, scope, node);
    return whole;
}

static void import_node(import_state *state, import_scope *scope, const pco_onnx_node *node, int64_t opset)
{
    pco_graph *graph = state->result->graph;
    pco_onnx_map map = pco_onnx_map_start(graph, state->file, node, opset);
    map.merge = state->merge;
    pco_onnx_tensor folded[PCO_ONNX_MAX_OPERANDS] = {{0}};
    import_value *operands[PCO_ONNX_MAX_OPERANDS] = {NULL};
    uint64_t depends = 0;
    if (!import_operands(state, scope, &map, operands, &depends)) return;
    if (pco_onnx_fold_node(&map, folded)) {
        const bool of_shape = strcmp(node->op, "Shape") == 0 || strcmp(node->op, "Size") == 0;
        import_results(state, scope, &map, folded, of_shape ? 0 : depends);
        return;
    }
    pco_onnx_map_node(&map);
    for (uint32_t i = 0; i < node->n_inputs && i < PCO_ONNX_MAX_OPERANDS; i++)
        if (operands[i]) operands[i]->in_graph = map.in[i];
    if (map.skip[0] && map.asked != PCO_NONE && operands[map.asked]) state->wanted |= operands[map.asked]->depends;
    if (map.skip[0]) {
        import_refuse(state, scope, node, "%s", map.skip);
    } else if (graph->status == PCO_ERROR_OUT_OF_HOST_MEMORY) {
        state->no_memory = true;
    } else if (graph->status) {
        import_refuse(state, scope, node, "%.500s", graph->error.message);
    } else {
        import_results(state, scope, &map, NULL, depends);
    }
    if (graph->status != PCO_ERROR_OUT_OF_HOST_MEMORY) graph->status = PCO_OK; /* and the next node is looked at, too */
}

static void import_nodes(import_state *state, import_scope *scope, const pco_onnx_node *nodes, uint32_t count)
{
    for (uint32_t i = 0; i < count && !state->no_memory; i++) {
        const pco_onnx_node *node = import_resolve(state, scope, &nodes[i]);
        if (!node) return;
        const pco_onnx_function *function = import_function(state, node);
        if (import_is_control(node))
            import_refuse(state, scope, node, "control flow: %s", node->op);
        else if (!*node->domain && strcmp(node->op, "If") == 0)
            import_if(state, scope, node);
        else if (function)
            import_call(state, scope, node, function);
        else
            import_node(state, scope, node, state->file->opset);
        if (state->result->graph->n_nodes > IMPORT_MOST_NODES) {
            import_refuse(state, scope, node, "the graph has more than %d nodes", IMPORT_MOST_NODES);
            return;
        }
    }
}

/* ---- a pass ---- */

static void import_inputs(import_state *state, import_scope *scope, const pco_onnx_bound *bound, uint64_t values)
{
    const pco_onnx_graph *graph = &state->file->graph;
    char name[PCO_ONNX_NAME];
    for (uint32_t i = 0; i < graph->n_inputs && !state->no_memory; i++) {
        import_value *value = bound[i].given ? import_new_value(state) : NULL;
        if (!value) continue;
        value->tensor = bound[i].tensor;
        value->depends = import_bit(i);
        const uint32_t dtype = pco_onnx_map_type(value->tensor.type);
        if (values & import_bit(i)) {
            value->tensor.value = NULL; /* made of `raw` where it is wanted */
        } else if (dtype != PCO_NONE) {
            value->tensor.raw = NULL, value->tensor.value = NULL;
            value->in_graph = pco_graph_input(state->result->graph, pco_onnx_input_name(i, name), (pco_dtype)dtype,
                                              value->tensor.rank, value->tensor.shape);
        } else {
            const pco_onnx_node place = {.op = "input", .name = graph->inputs[i].name};
            char why[64];
            snprintf(why, sizeof why, "type %s", pco_onnx_type_name(value->tensor.type));
            import_problem_add(state, &place, why);
            value->broken = true;
        }
        import_define(state, scope, graph->inputs[i].name, value);
    }
}

/* Are values that the host knows exact? Of whole numbers, doubles have all below 2^53. */
static bool import_is_exact(const pco_onnx_tensor *tensor)
{
    const bool wide = tensor->type == PCO_ONNX_INT64 || tensor->type == PCO_ONNX_UINT64;
    for (int64_t i = 0; i < tensor->count && wide && tensor->value; i++)
        if (!(fabs(tensor->value[i]) < 0x1p53)) return false;
    return true;
}

static void import_outputs(import_state *state, import_scope *scope)
{
    const pco_onnx_graph *graph = &state->file->graph;
    pco_onnx_import *result = state->result;
    char name[PCO_ONNX_NAME];
    for (uint32_t i = 0; i < graph->n_outputs && !state->no_memory; i++) {
        import_value *value = import_find(scope, graph->outputs[i].name);
        pco_onnx_made *made = &result->made[i];
        const pco_onnx_node place = {.op = "output", .name = graph->outputs[i].name};
        pco_error err;
        if (!value) import_problem_add(state, &place, "is made nowhere");
        if (!value || value->broken) continue;
        if (pco_onnx_tensor_values(&value->tensor, &err)) state->no_memory = true;
        if (!import_is_exact(&value->tensor)) import_problem_add(state, &place, "whole numbers of 2^53 and more");
        made->tensor = value->tensor;
        made->tensor.raw = NULL, made->tensor.value = NULL;
        made->in_graph = !value->tensor.value;
        if (made->in_graph && !state->no_memory) {
            pco_graph_output(result->graph, value->in_graph, pco_onnx_output_name(i, name));
        } else if (!state->no_memory) {
            const size_t bytes = ((size_t)value->tensor.count + 1) * sizeof(double);
            made->tensor.value = malloc(bytes);
            state->no_memory |= !made->tensor.value;
            if (made->tensor.value) memcpy(made->tensor.value, value->tensor.value, bytes - sizeof(double));
        }
    }
}

static void import_release(import_state *state)
{
    for (uint32_t i = 0; i < state->n_values; i++) pco_onnx_tensor_clear(&state->values[i]->tensor);
    free(state->values);
    pco_arena_release(&state->arena);
}

/* One pass over the file, with the values of inputs `values` known. */
static pco_status import_pass(import_state *state, const pco_onnx_bound *bound, uint64_t values, pco_error *err)
{
    const pco_onnx_graph *graph = &state->file->graph;
    pco_onnx_import *result = state->result;
    import_scope scope = {0};
    state->last = &state->first;
    result->graph = pco_graph_create();
    result->n_made = graph->n_outputs;
    result->made = pco_arena_allocate(&result->arena, (graph->n_outputs + 1) * sizeof *result->made);
    if (!result->graph || !result->made)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the graph of an ONNX model");
    import_initializers(state, &scope, graph);
    import_inputs(state, &scope, bound, values);
    import_nodes(state, &scope, graph->nodes, graph->n_nodes);
    import_outputs(state, &scope);
    for (uint32_t t = 0; t < result->graph->n_tensors; t++)
        if (result->graph->tensors[t].kind == PCO_KIND_INPUT)
            result->used |= import_bit((uint32_t)strtoul(result->graph->tensors[t].name + 2, NULL, 10));
    if (state->no_memory)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the graph of an ONNX model");
    return pco_graph_check(result->graph, err);
}

pco_status pco_onnx_import_create(const pco_onnx_file *file, const pco_onnx_bound *bound, bool merge,
                                  pco_onnx_problem_fn problem, void *user, pco_onnx_import *result, pco_error *err)
{
    uint64_t values = 0;
    pco_status status = PCO_OK;
    for (;;) {
        import_state state = {.file = file, .result = result, .merge = merge};
        *result = (pco_onnx_import){0};
        status = import_pass(&state, bound, values, err);
        if (!status && state.n_problems && (state.wanted & ~values)) { /* again, with more that is known */
            values |= state.wanted;
            import_release(&state);
            pco_onnx_import_clear(result);
            continue;
        }
        result->values = values, result->n_problems = state.n_problems;
        for (const import_problem *p = state.first; p && !status && problem; p = p->next)
            problem(user, p->op, p->node, p->why);
        if (!status && state.n_problems) {
            char more[48] = "";
            if (state.n_problems > 1) snprintf(more, sizeof more, " (and %u more)", state.n_problems - 1);
            status = pco_fail(err, PCO_ERROR_UNSUPPORTED, "%.80s '%.120s': %.300s%s", state.first->op,
                              state.first->node, state.first->why, more);
        }
        import_release(&state);
        return status;
    }
}

void pco_onnx_import_clear(pco_onnx_import *result)
{
    for (uint32_t i = 0; i < result->n_made && result->made; i++) pco_onnx_tensor_clear(&result->made[i].tensor);
    pco_graph_destroy(result->graph);
    pco_arena_release(&result->arena);
    *result = (pco_onnx_import){0};
}

/* ---- by name ---- */

typedef struct import_names {
    const import_state *state;
    pco_onnx_problem_fn problem;
    void *user;
    uint32_t count;
} import_names;

static void import_unknown(import_names *names, const pco_onnx_node *nodes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const pco_onnx_node *node = &nodes[i];
        char why[256];
        for (uint32_t k = 0; k < node->n_attributes; k++)
            if (node->attributes[k].graph)
                import_unknown(names, node->attributes[k].graph->nodes, node->attributes[k].graph->n_nodes);
        if (import_function(names->state, node) || (!*node->domain && strcmp(node->op, "If") == 0)) continue;
        if (import_is_control(node))
            snprintf(why, sizeof why, "control flow: %s", node->op);
        else if (!pco_onnx_map_knows(node->domain, node->op))
            snprintf(why, sizeof why, "no mapping for %.100s%s%.100s", node->domain, *node->domain ? "." : "",
                     node->op);
        else
            continue;
        names->count++;
        if (names->problem)
            names->problem(names->user, node->op,
                           *node->name       ? node->name
                           : node->n_outputs ? node->outputs[0]
                                             : "",
                           why);
    }
}

uint32_t pco_onnx_unknown(const pco_onnx_file *file, pco_onnx_problem_fn problem, void *user)
{
    const import_state state = {.file = file};
    import_names names = {.state = &state, .problem = problem, .user = user};
    import_unknown(&names, file->graph.nodes, file->graph.n_nodes);
    for (uint32_t i = 0; i < file->n_functions; i++)
        import_unknown(&names, file->functions[i].nodes, file->functions[i].n_nodes);
    return names.count;
}
