/* Speed of each kernel variant of an operation: its node is taken out of the graph and run alone (runtime/trial.h), as
 * the suite runs it, without what a session would make of it. */
#include "cli/bench.h"

#include "base/error.h"
#include "runtime/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One node with operands of its own. */
typedef struct bench_node {
    pco_node node;
    uint32_t n_tensors;
    pco_tensor tensors[PCO_TRIAL_TENSORS];
    void *made[PCO_TRIAL_TENSORS];       /* values that were made for an operand */
    const void *data[PCO_TRIAL_TENSORS]; /* those, or a constant's */
} bench_node;

static void bench_node_free(bench_node *one)
{
    for (uint32_t t = 0; t < PCO_TRIAL_TENSORS; t++) free(one->made[t]);
}

static uint32_t bench_node_tensor(bench_node *one, const pco_tensor *from, pco_kind kind)
{
    pco_tensor *x = &one->tensors[one->n_tensors];
    *x = *from;
    x->alias = PCO_NONE;
    x->kind = from->kind == PCO_KIND_CONSTANT ? PCO_KIND_CONSTANT : (uint32_t)kind;
    one->data[one->n_tensors] = x->data;
    return one->n_tensors++;
}

/* The last node of the graph with that op, and values for its operands: all f32 that are no constants. */
static pco_status bench_node_take(const pco_graph *graph, uint32_t op, bench_node *one, pco_error *err)
{
    uint32_t n = graph->n_nodes;
    while (n > 0 && graph->nodes[n - 1].op != op) n--;
    if (n == 0) return pco_fail(err, PCO_ERROR_INTERNAL, "the figure's graph has no %s", pco_op_find(op)->name);
    const pco_node *from = &graph->nodes[n - 1];
    *one = (bench_node){.node = *from};
    for (uint32_t i = 0; i < from->n_inputs; i++) {
        if (from->inputs[i] == PCO_NONE) continue;
        const uint32_t t = bench_node_tensor(one, &graph->tensors[from->inputs[i]], PCO_KIND_INPUT);
        one->node.inputs[i] = t;
        if (one->data[t]) continue;
        const int64_t count = pco_tensor_elements(&one->tensors[t]);
        float *values = malloc(one->tensors[t].bytes + sizeof *values);
        if (!values) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for an operand");
        bench_values(values, count, t);
        one->data[t] = one->made[t] = values;
    }
    for (uint32_t i = 0; i < from->n_outputs; i++)
        if (from->outputs[i] != PCO_NONE)
            one->node.outputs[i] = bench_node_tensor(one, &graph->tensors[from->outputs[i]], PCO_KIND_OUTPUT);
    return PCO_OK;
}

typedef struct bench_program {
    const pco_trial *trial;
    pco_program *program;
    uint32_t segments;
} bench_program;

static pco_status bench_program_run(void *user, pco_error *err)
{
    const bench_program *p = user;
    return pco_trial_run(p->trial, p->program, p->segments, UINT64_MAX, err);
}

/* Milliseconds of the kernels alone, as bench_op.c has them for what a session runs: by a program of its own. */
static double bench_variant_by_device(const pco_trial *trial, const pco_trial_memory *memory)
{
    enum { RUNS = 5 };
    const pco_plugin *plugin = trial->on.plugin;
    double times[RUNS + 1] = {0};
    pco_error ignored;
    pco_program *program = NULL;
    if (!(trial->on.info->features & PCO_FEATURE_TIMESTAMPS) || !plugin->device->profile) return 0;
    pco_status status = plugin->device->profile(trial->on.device, 1, &ignored);
    if (!status) status = pco_trial_prepare(trial, memory, &program, &ignored);
    for (int i = 0; !status && i <= RUNS; i++) { /* the first one warms up */
        status = pco_trial_run(trial, program, plugin->program->segments(program), UINT64_MAX, &ignored);
        times[i] = 1e-6 * (double)pco_trial_nanoseconds(trial, program);
    }
    if (program) plugin->program->destroy(trial->on.device, program);
    if (plugin->device->profile(trial->on.device, 0, &ignored) || status) return 0;
    return bench_median(times + 1, RUNS);
}

/* The variant that the trial's node names: prepared, and timed. */
static pco_status bench_variant_time(const bench_setup *setup, pco_trial *trial, const bench_node *one,
                                     bench_figure *figure, double *seconds, pco_error *err)
{
    static const pco_trial_placement placement = {0};
    const pco_program_api *api = trial->on.plugin->program;
    bench_program program = {.trial = trial};
    pco_trial_memory memory = {0};
    pco_status status = pco_trial_supports(trial, err);
    if (!status) status = pco_trial_propose(trial, err);
    if (!status) status = pco_trial_convert(trial, err);
    if (!status) {
        pco_trial_lay_out(trial, &placement, one->data, &memory);
        status = pco_trial_memory_create(&memory, err);
    }
    if (!status) status = pco_trial_memory_write(&memory, err);
    if (!status) status = pco_trial_prepare(trial, &memory, &program.program, err);
    if (!status) {
        program.segments = api->segments(program.program);
        const bench_job job = {bench_program_run, &program};
        status = bench_time(&job, 1, setup->seconds, setup->processor, seconds, &figure->repetitions, err);
        if (!status) figure->device = bench_variant_by_device(trial, &memory);
    }
    if (program.program) api->destroy(trial->on.device, program.program);
    pco_trial_memory_destroy(&memory);
    pco_trial_clear(trial);
    return status;
}

static pco_status bench_variants_time(const bench_setup *setup, const pco_open_device *on, const bench_alone *alone,
                                      bench_node *one, bench_figure *figures, uint32_t capacity, uint32_t *count,
                                      pco_error *err)
{
    const pco_part part = {
        .size = sizeof part, .n_tensors = one->n_tensors, .n_nodes = 1, .tensors = one->tensors, .nodes = &one->node};
    pco_trial trial = pco_trial_of(on, &part);
    pco_variant variants[PCO_VARIANTS];
    uint32_t n, chosen;
    pco_status status = pco_trial_supports(&trial, err);
    if (!status) status = pco_trial_variants(&trial, variants, &n, err);
    if (!status) status = pco_trial_propose(&trial, err);
    if (status) return status;
    chosen = trial.nodes[0].variant;
    for (uint32_t v = 0; v < n && *count < capacity && !cli_interrupted(); v++) {
        if (!pco_variant_matches(&variants[v], setup->variant)) continue;
        bench_figure *figure = &figures[(*count)++];
        double seconds = 0;
        *figure = (bench_figure){.unit = ""};
        snprintf(figure->name, sizeof figure->name, "%s", alone->name);
        pco_variant_text(&variants[v], figure->variant);
        one->node.variant = pco_variant_forced(on, v);
        status = bench_variant_time(setup, &trial, one, figure, &seconds, err);
        if (status == PCO_ERROR_DEVICE_LOST) return status;
        if (status)
            snprintf(figure->error, sizeof figure->error, "%.500s", err->message);
        else
            bench_rate(figure, seconds, alone->flops, alone->bytes);
        if (v == chosen) snprintf(figure->peer, sizeof figure->peer, "the device's choice");
    }
    return PCO_OK;
}

uint32_t bench_variants(const bench_setup *setup, pco_registry *registry, const bench_alone *alone,
                        bench_figure *figures, uint32_t capacity)
{
    const pco_plugin_entry *plugins;
    const pco_device_entry *devices;
    uint32_t index, found, count = 0;
    pco_error err = {""};
    bench_node one = {.n_tensors = 0};
    pco_open_device on = {0};
    pco_registry_plugins(registry, &plugins);
    pco_registry_devices(registry, &devices);
    pco_status status = pco_registry_select(registry, setup->device, &index, 1, &found, &err);
    if (!status) {
        const pco_plugin_entry *plugin = &plugins[devices[index].plugin];
        on = (pco_open_device){.plugin = plugin->plugin, .info = &devices[index].info};
        status = pco_plugin_open_device(on.plugin, plugin->backend, devices[index].index, &on.device, &err);
    }
    const int opened = !status;
    if (!status) status = bench_node_take(alone->graph, alone->op, &one, &err);
    if (!status) status = bench_variants_time(setup, &on, alone, &one, figures, capacity, &count, &err);
    if (opened) on.plugin->device->close(on.device);
    bench_node_free(&one);
    if (status && count < capacity) bench_refuse(&figures[count++], alone->name, &err);
    return count;
}
