/* Node by node: the reference makes the operands, the device under test is judged on them. */
#include "bisect/bisect_internal.h"

#include "base/error.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BISECT_OPS = 256 }; /* op numbers */

pco_status bisect_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the values of a graph");
}

pco_status pco_bisect_create(const pco_conformance_device *device, const pco_conformance_device *reference,
                             const pco_bisect_isolation *isolation, pco_bisect **out, pco_error *err)
{
    pco_bisect *bisect = calloc(1, sizeof *bisect);
    *out = NULL;
    if (bisect) bisect->ops = calloc(BISECT_OPS, sizeof *bisect->ops);
    if (bisect) bisect->packed = calloc(BISECT_OPS, sizeof *bisect->packed);
    if (bisect && isolation) bisect->apart = bisect_apart_create(isolation);
    if (!bisect || !bisect->ops || !bisect->packed || !bisect->apart != !isolation) {
        pco_bisect_destroy(bisect);
        return bisect_no_memory(err);
    }
    bisect->device = device;
    bisect->reference = reference;
    *out = bisect;
    return PCO_OK;
}

static void bisect_forget_values(pco_bisect *bisect)
{
    for (uint32_t t = 0; bisect->values && bisect->owned && t < bisect->n_values; t++)
        if (bisect->owned[t]) free(bisect->values[t]);
    free(bisect->values);
    free(bisect->owned);
    bisect->values = NULL;
    bisect->owned = NULL;
    bisect->n_values = 0;
    bisect->graph = NULL;
}

void bisect_problem_clear(bisect_problem *problem)
{
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) free(problem->data[i]);
    memset(problem, 0, sizeof *problem);
}

void pco_bisect_destroy(pco_bisect *bisect)
{
    if (!bisect) return;
    bisect_apart_destroy(bisect->apart);
    bisect_forget_values(bisect);
    bisect_problem_clear(&bisect->problem);
    for (bisect_state *state = bisect->states, *next; state; state = next) {
        next = state->next;
        free(state->name);
        free(state->data);
        free(state);
    }
    free(bisect->ops);
    free(bisect->packed);
    free(bisect);
}

const pco_bisect_fault *pco_bisect_first(const pco_bisect *bisect) { return &bisect->fault; }

uint32_t pco_bisect_ops(const pco_bisect *bisect, const pco_bisect_op **ops)
{
    uint32_t count = 0;
    for (uint32_t op = 0; op < BISECT_OPS; op++)
        if (bisect->ops[op].name) bisect->packed[count++] = bisect->ops[op];
    *ops = bisect->packed;
    return count;
}

/* ---- values ---- */

static pco_status bisect_state_data(pco_bisect *bisect, const pco_tensor *tensor, void **data, pco_error *err)
{
    for (bisect_state *state = bisect->states; state; state = state->next)
        if (strcmp(state->name, tensor->name) == 0) {
            *data = state->data;
            if (state->bytes == tensor->bytes) return PCO_OK;
            return pco_fail(err, PCO_ERROR_INVALID, "state '%s' has another size in another graph", tensor->name);
        }
    bisect_state *state = calloc(1, sizeof *state);
    if (state) {
        state->name = strdup(tensor->name);
        state->data = calloc(1, tensor->bytes + 8);
    }
    if (!state || !state->name || !state->data) {
        if (state) free(state->name), free(state->data);
        free(state);
        return bisect_no_memory(err);
    }
    state->bytes = tensor->bytes;
    state->next = bisect->states;
    bisect->states = state;
    *data = state->data;
    return PCO_OK;
}

static pco_status bisect_new_value(pco_bisect *bisect, uint32_t t, pco_error *err)
{
    bisect->values[t] = calloc(1, bisect->graph->tensors[t].bytes + 8);
    bisect->owned[t] = 1;
    return bisect->values[t] ? PCO_OK : bisect_no_memory(err);
}

/* Values of all tensors that no node makes. */
static pco_status bisect_begin(pco_bisect *bisect, const pco_graph *graph, const pco_bisect_input *inputs,
                               uint32_t n_inputs, pco_error *err)
{
    bisect_forget_values(bisect);
    bisect->values = calloc(graph->n_tensors + 1, sizeof *bisect->values);
    bisect->owned = calloc(graph->n_tensors + 1, 1);
    if (!bisect->values || !bisect->owned) return bisect_no_memory(err);
    bisect->n_values = graph->n_tensors;
    bisect->graph = graph;
    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        const pco_tensor *x = &graph->tensors[t];
        pco_status status = PCO_OK;
        if (x->kind == PCO_KIND_CONSTANT) bisect->values[t] = (void *)(uintptr_t)x->data;
        if (x->kind == PCO_KIND_STATE && x->alias == PCO_NONE)
            status = bisect_state_data(bisect, x, &bisect->values[t], err);
        if (x->kind == PCO_KIND_INPUT || x->kind == PCO_KIND_VALUE) {
            status = bisect_new_value(bisect, t, err);
            for (uint32_t i = 0; !status && i < n_inputs; i++)
                if (strcmp(inputs[i].name, x->name) == 0)
                    memcpy(bisect->values[t], inputs[i].data, inputs[i].bytes < x->bytes ? inputs[i].bytes : x->bytes);
        }
        if (status) return status;
    }
    return PCO_OK;
}

const void *pco_bisect_output(const pco_bisect *bisect, const char *name)
{
    for (uint32_t t = 0; bisect->graph && t < bisect->n_values; t++)
        if (bisect->graph->tensors[t].kind == PCO_KIND_OUTPUT && strcmp(bisect->graph->tensors[t].name, name) == 0)
            return bisect->values[t];
    return NULL;
}

/* ---- one node ---- */

void bisect_problem_label(bisect_problem *problem)
{
    conf_case *one = &problem->one;
    size_t used = (size_t)snprintf(one->label, sizeof one->label, "%s", conf_case_op(one)->name);
    for (uint32_t i = 0; i < one->n_inputs && used < sizeof one->label; i++) {
        const conf_operand *in = &one->in[i];
        used += (size_t)snprintf(one->label + used, sizeof one->label - used, " %s",
                                 in->present ? oracle_dtype_name(in->dtype) : "-");
        for (uint32_t d = 0; in->present && d < in->rank && used < sizeof one->label; d++)
            used += (size_t)snprintf(one->label + used, sizeof one->label - used, "%s%" PRId64, d ? "," : "[",
                                     in->shape[d]);
        if (in->present && in->rank && used < sizeof one->label)
            used += (size_t)snprintf(one->label + used, sizeof one->label - used, "]");
    }
    uint64_t hash = pco_hash(PCO_HASH_START, one->label, strlen(one->label));
    one->id = (uint32_t)pco_hash(hash, one->attrs.bytes, one->attrs_size);
    if (!one->id) one->id = 1;
}

/* The node as a case with the values at hand (copied). */
static pco_status bisect_problem_make(const pco_bisect *bisect, const pco_node *node, bisect_problem *problem,
                                      pco_error *err)
{
    memset(problem, 0, sizeof *problem);
    conf_case *one = &problem->one;
    one->op = node->op;
    one->regime = CONF_ADVERSARIAL; /* a model's activations may be anything, also nearly all zero */
    one->n_inputs = node->n_inputs;
    one->attrs_size = node->attrs_size;
    if (node->attrs_size > sizeof one->attrs.bytes)
        return pco_fail(err, PCO_ERROR_INTERNAL, "node '%s' has %u bytes of attributes", node->name, node->attrs_size);
    if (node->attrs_size) memcpy(one->attrs.bytes, node->attrs, node->attrs_size);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t t = node->inputs[i];
        if (t == PCO_NONE) continue;
        const pco_tensor *x = &bisect->graph->tensors[t];
        conf_operand *in = &one->in[i];
        *in = (conf_operand){
            .present = true, .constant = x->kind == PCO_KIND_CONSTANT, .dtype = x->dtype, .rank = x->rank};
        memcpy(in->shape, x->shape, sizeof in->shape);
        if (!bisect->values[t])
            return pco_fail(err, PCO_ERROR_INTERNAL, "node '%s': operand '%s' has no value", node->name, x->name);
        problem->data[i] = malloc(x->bytes + 8);
        if (!problem->data[i]) return bisect_no_memory(err);
        memcpy(problem->data[i], bisect->values[t], x->bytes);
    }
    bisect_problem_label(problem);
    return PCO_OK;
}

/* Keeps the result of the last variant that ran. */
typedef struct bisect_seen {
    pco_conformance_case *result;
    char *variant; /* [64] */
} bisect_seen;

static void bisect_keep(void *user, pco_conformance_case *result)
{
    bisect_seen *seen = user;
    *seen->result = *result;
    snprintf(seen->variant, 64, "%s", result->variant);
}

static pco_status bisect_judge(const pco_conformance_device *device, conf_problem *problem,
                               const conf_observer *observer, pco_conformance_case *result, char *variant,
                               pco_error *err)
{
    const pco_conformance_options options = {.tier = PCO_CONFORMANCE_QUICK, .observer = observer};
    bisect_seen seen = {result, variant};
    variant[0] = 0;
    problem->own_choice = true;
    pco_status status = conf_run_problem(device, problem, &options, bisect_keep, &seen, err);
    if (status == PCO_ERROR_DEVICE_LOST) {
        result->state = PCO_CASE_DEVICE_LOST;
        status = PCO_OK;
    }
    result->label = result->variant = ""; /* not kept */
    return status;
}

pco_status bisect_try(const pco_bisect *bisect, const bisect_problem *problem, const conf_observer *observer,
                      pco_conformance_case *result, char *variant, pco_error *err)
{
    conf_problem made;
    if (bisect->apart) {
        pco_status asked = bisect_apart_begin(bisect->apart, problem, NULL, NULL, false, err);
        return asked ? asked : bisect_apart_end(bisect->apart, result, variant, err);
    }
    pco_status status = conf_problem_make_from(&made, &problem->one, (const void *const *)problem->data,
                                               &bisect->device->info->contract, err);
    if (!status) status = bisect_judge(bisect->device, &made, observer, result, variant, err);
    conf_problem_clear(&made);
    return status;
}

/* Takes the reference's outputs of a node. */
typedef struct bisect_take {
    pco_bisect *bisect;
    const pco_node *node;
    int taken;
} bisect_take;

static void bisect_take_outputs(void *user, const conf_execution *execution)
{
    bisect_take *take = user;
    if (take->taken || execution->status) return;
    for (uint32_t i = 0; i < take->node->n_outputs; i++) {
        uint32_t to = take->node->outputs[i], from = execution->problem->node.outputs[i];
        if (to == PCO_NONE || !execution->problem->tensors[from].bytes) continue;
        memcpy(take->bisect->values[to], pco_trial_memory_result(execution->memory, from),
               execution->problem->tensors[from].bytes);
    }
    take->taken = 1;
}

/* Makes the node's outputs on the reference device. What an op writes in place is the state itself. */
static pco_status bisect_advance(pco_bisect *bisect, const pco_node *node, conf_problem *problem, pco_error *err)
{
    const pco_graph *graph = bisect->graph;
    bisect_take take = {bisect, node, 0};
    const conf_observer observer = {bisect_take_outputs, &take, false};
    pco_conformance_case result = {0};
    char variant[64];
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        uint32_t t = node->outputs[i];
        if (t == PCO_NONE) continue;
        pco_status status = PCO_OK;
        if (pco_op_written(pco_node_op(node), i) != PCO_NONE)
            bisect->values[t] = bisect->values[pco_graph_root(graph, t)];
        else
            status = bisect_new_value(bisect, t, err);
        if (status) return status;
    }
    pco_status status = bisect_judge(bisect->reference, problem, &observer, &result, variant, err);
    if (status) return status;
    if (take.taken && !pco_conformance_state_is_bad(result.state)) return PCO_OK;
    return pco_fail(err, PCO_ERROR_INTERNAL, "the reference %s is itself wrong at '%s' (%s): %s", bisect->reference->id,
                    node->name, pco_node_op(node)->name, result.detail);
}

static void bisect_note(pco_bisect *bisect, const pco_node *node, const pco_conformance_case *result)
{
    pco_bisect_op *row = &bisect->ops[node->op % BISECT_OPS];
    row->name = pco_node_op(node)->name;
    if (result->state == PCO_CASE_UNSUPPORTED) {
        row->unsupported++;
        return;
    }
    row->nodes++;
    if (row->nodes > 1 && result->ratio <= row->worst) return;
    row->worst = result->ratio;
    snprintf(row->node, sizeof row->node, "%s", node->name);
}

static void bisect_blame(pco_bisect *bisect, const pco_node *node, const char *graph,
                         const pco_conformance_case *result, const char *variant, bisect_problem *problem)
{
    pco_bisect_fault *fault = &bisect->fault;
    uint32_t t = result->output < node->n_outputs ? node->outputs[result->output] : PCO_NONE;
    fault->found = 1;
    fault->result = *result;
    snprintf(fault->graph, sizeof fault->graph, "%s", graph);
    snprintf(fault->node, sizeof fault->node, "%s", node->name);
    snprintf(fault->tensor, sizeof fault->tensor, "%s", t == PCO_NONE ? "" : bisect->graph->tensors[t].name);
    snprintf(fault->problem, sizeof fault->problem, "%s", problem->one.label);
    snprintf(fault->variant, sizeof fault->variant, "%s", variant);
    bisect->problem = *problem;
    memset(problem, 0, sizeof *problem);
}

static pco_status bisect_node(pco_bisect *bisect, const pco_node *node, const char *graph, pco_error *err)
{
    bisect_problem problem;
    conf_problem made = {0};
    pco_conformance_case result = {0};
    char variant[64];
    pco_status status = bisect_problem_make(bisect, node, &problem, err);
    if (!status && bisect->apart) status = bisect_apart_begin(bisect->apart, &problem, NULL, NULL, false, err);
    if (!status) /* the oracle works here and there at the same time */
        status = conf_problem_make_from(&made, &problem.one, (const void *const *)problem.data,
                                        &bisect->device->info->contract, err);
    if (!status && bisect->apart)
        status = bisect_apart_end(bisect->apart, &result, variant, err);
    else if (!status)
        status = bisect_judge(bisect->device, &made, NULL, &result, variant, err);
    if (!status) bisect_note(bisect, node, &result);
    if (!status && pco_conformance_state_is_bad(result.state) && result.state != PCO_CASE_MISTRUSTED)
        bisect_blame(bisect, node, graph, &result, variant, &problem);
    else if (!status)
        status = bisect_advance(bisect, node, &made, err);
    conf_problem_clear(&made);
    bisect_problem_clear(&problem);
    return status ? pco_fail_prefix(err, status, "%s, node '%s'", graph, node->name) : PCO_OK;
}

pco_status pco_bisect_run(pco_bisect *bisect, const pco_graph *graph, const char *name, const pco_bisect_input *inputs,
                          uint32_t n_inputs, pco_bisect_progress_fn progress, void *user, pco_error *err)
{
    if (bisect->fault.found) return PCO_OK;
    pco_status status = bisect_begin(bisect, graph, inputs, n_inputs, err);
    for (uint32_t i = 0; !status && !bisect->fault.found && i < graph->n_nodes; i++) {
        if (progress && !progress(user, name, i, graph->n_nodes))
            return pco_fail(err, PCO_ERROR_CANCELLED, "interrupted");
        status = bisect_node(bisect, &graph->nodes[i], name, err);
    }
    return status;
}

/* Runs, or only prepares, the problem of the fault once more, and writes what is seen. *written: as conf_reproducer. */
static pco_status bisect_show(pco_bisect *bisect, const conf_reproducer_text *text, bool gone, const char *folder,
                              uint32_t *written, pco_error *err)
{
    pco_conformance_case result;
    char variant[64];
    pco_status status;
    if (bisect->apart) {
        status = bisect_apart_begin(bisect->apart, &bisect->problem, text, folder, gone, err);
        if (!status) status = bisect_apart_end(bisect->apart, &result, variant, err);
        *written = bisect_apart_written(bisect->apart);
        return status;
    }
    conf_reproducer writer = {.text = text, .target = folder, .always = true};
    const conf_observer observer = {conf_reproducer_observe, &writer, gone};
    status = bisect_try(bisect, &bisect->problem, &observer, &result, variant, err);
    *written = writer.written;
    return writer.status ? pco_fail(err, writer.status, "%s", writer.err.message) : status;
}

pco_status pco_bisect_write_reproducer(pco_bisect *bisect, const char *repeat, const char *folder, pco_error *err)
{
    const pco_bisect_fault *fault = &bisect->fault;
    const pco_conformance_state state = fault->result.state;
    const bool gone = state == PCO_CASE_DEVICE_LOST || state == PCO_CASE_CRASHED || state == PCO_CASE_HUNG;
    char title[900], found[600];
    uint32_t written = 0;
    if (!fault->found) return pco_fail(err, PCO_ERROR_NOT_FOUND, "nothing is wrong: there is nothing to reproduce");
    snprintf(title, sizeof title, "%s, from %s, node '%s'", bisect->problem.one.label, fault->graph, fault->node);
    snprintf(found, sizeof found, "%s%s%s", gone ? pco_conformance_state_name(state) : "", gone ? ": " : "",
             fault->result.detail);
    const conf_reproducer_text text = {.title = title,
                                       .found = found,
                                       .repeat = repeat,
                                       .variant = *fault->variant ? fault->variant : "the plugin's own choice"};
    pco_status status = bisect_show(bisect, &text, gone, folder, &written, err);
    if (written || (status && !gone)) return status;
    conf_problem made; /* it cannot even be prepared */
    status = conf_problem_make_from(&made, &bisect->problem.one, (const void *const *)bisect->problem.data,
                                    &bisect->device->info->contract, err);
    if (!status) status = conf_reproducer_write(bisect->device, &made, NULL, &text, folder, err);
    conf_problem_clear(&made);
    return status;
}
