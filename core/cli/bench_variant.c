/* Speed of each kernel variant of an operation: its node is taken out of the graph and run alone (runtime/trial.h), as
 * the suite runs it, without what a session would make of it. */
#include "cli/bench.h"

#include "base/error.h"
#include "runtime/trial.h"

#include <inttypes.h>
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

/* The variants of one node, under way. */
typedef struct bench_variants_run {
    const bench_setup *setup;
    const bench_alone *alone;
    bench_node *one;
    pco_trial trial;
    const pco_variant *variant; /* this one, and its tunables */
    pco_tunable tunables[PCO_TUNABLES];
    uint32_t n_tunables;
    bench_figure *figures;
    uint32_t capacity, count;
} bench_variants_run;

/* Times the variant as it is set, with tunable `set` (PCO_NONE: all are as they are initially) at `value`. Errors:
 * DEVICE_LOST; of others the figure says why there is none. */
static pco_status bench_variants_figure(bench_variants_run *run, uint32_t set, uint32_t value, pco_error *err)
{
    if (run->count == run->capacity) return PCO_OK;
    bench_figure *figure = &run->figures[run->count++];
    double seconds = 0;
    *figure = (bench_figure){.unit = "", .n_tunables = run->n_tunables};
    snprintf(figure->name, sizeof figure->name, "%s", run->alone->name);
    pco_variant_text(run->variant, figure->variant);
    for (uint32_t t = 0; t < run->n_tunables; t++) {
        figure->tunables[t].name = run->tunables[t].name;
        figure->tunables[t].value = t == set ? value : run->tunables[t].initial;
    }
    if (set != PCO_NONE) snprintf(figure->set, sizeof figure->set, "%.31s=%" PRIu32, run->tunables[set].name, value);
    const pco_status status = bench_variant_time(run->setup, &run->trial, run->one, figure, &seconds, err);
    if (status == PCO_ERROR_DEVICE_LOST) return status;
    if (status)
        snprintf(figure->error, sizeof figure->error, "%.500s", err->message);
    else
        bench_rate(figure, seconds, run->alone->flops, run->alone->bytes);
    return PCO_OK;
}

/* A number for what the node would launch; 0: the plugin does not tell. */
static uint64_t bench_variants_code(const bench_variants_run *run)
{
    enum { MOST = 64 };
    uint64_t pipelines[MOST], sum = 0;
    const uint32_t n = pco_trial_pipelines(&run->trial, pipelines, MOST);
    for (uint32_t i = 0; i < n && i < MOST; i++) sum = sum * 31 + pipelines[i];
    return sum;
}

/* Each value of each tunable that launches what no value before it did. */
static pco_status bench_variants_tune(bench_variants_run *run, pco_error *err)
{
    enum { MOST = 64 };
    uint64_t seen[MOST] = {bench_variants_code(run)};
    uint32_t n_seen = 1;
    pco_status status = PCO_OK;
    for (uint32_t t = 0; t < run->n_tunables && !status; t++) {
        const pco_tunable *one = &run->tunables[t];
        for (uint32_t v = 0; v < one->n_values && !status && !cli_interrupted(); v++) {
            status = pco_variant_tune(&run->trial.on, run->alone->op, run->variant, one, one->values[v], err);
            if (status) break;
            const uint64_t code = bench_variants_code(run);
            uint32_t k = 0;
            while (k < n_seen && (seen[k] != code || !code)) k++;
            if (one->values[v] == one->initial || k < n_seen) continue;
            if (n_seen < MOST) seen[n_seen++] = code;
            status = bench_variants_figure(run, t, one->values[v], err);
        }
        pco_error ignored;
        if (pco_variant_tune(&run->trial.on, run->alone->op, run->variant, one, one->initial, status ? &ignored : err))
            status = PCO_ERROR_INTERNAL;
    }
    return status;
}

/* All variants that match, and their tunables. */
static pco_status bench_variants_time(bench_variants_run *run, pco_error *err)
{
    pco_variant variants[PCO_VARIANTS];
    uint32_t n, chosen;
    pco_trial *trial = &run->trial;
    pco_status status = pco_trial_supports(trial, err);
    if (!status) status = pco_trial_variants(trial, variants, &n, err);
    if (!status) status = pco_trial_propose(trial, err);
    if (status) return status;
    chosen = trial->nodes[0].variant;
    for (uint32_t v = 0; v < n && !status && !cli_interrupted(); v++) {
        if (!pco_variant_matches(&variants[v], run->setup->variant)) continue;
        const uint32_t first = run->count;
        run->variant = &variants[v];
        run->n_tunables = 0;
        run->one->node.variant = pco_variant_forced(&trial->on, v);
        if (run->setup->tunables)
            status =
                pco_variant_tunables(&trial->on, run->alone->op, run->variant, run->tunables, &run->n_tunables, err);
        if (!status) status = bench_variants_figure(run, PCO_NONE, 0, err);
        if (v == chosen && first < run->count)
            snprintf(run->figures[first].peer, sizeof run->figures[first].peer, "the device's choice");
        if (!status) status = bench_variants_tune(run, err);
    }
    return status;
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
    if (!status) {
        const pco_part part = {
            .size = sizeof part, .n_tensors = one.n_tensors, .n_nodes = 1, .tensors = one.tensors, .nodes = &one.node};
        bench_variants_run run = {.setup = setup,
                                  .alone = alone,
                                  .one = &one,
                                  .trial = pco_trial_of(&on, &part),
                                  .figures = figures,
                                  .capacity = capacity};
        status = bench_variants_time(&run, &err);
        count = run.count;
    }
    if (opened) on.plugin->device->close(on.device);
    bench_node_free(&one);
    if (status && count < capacity) bench_refuse(&figures[count++], alone->name, &err);
    return count;
}
