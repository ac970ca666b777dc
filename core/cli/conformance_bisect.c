#include "cli/conformance_bisect.h"

#include "cli/child.h"
#include "cli/compare.h"
#include "cli/conformance_worker.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/file.h"
#include "bisect/bisect.h"
#include "models/stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BISECT_LARGEST_CHUNK = 256, BISECT_ATTEMPTS = 600 };

/* What is done with a whole graph, or on the reference, may take so many times as long as one node on the device. */
enum { BISECT_PATIENCE = 5 };

/* A graph of the model, made ready on the device under test: that is how it is rewritten, and how it runs
 * whole. */
typedef struct bisect_stage {
    pco_graph *source; /* keeps the constants */
    pco_executable *executable;
    char name[64];
    int64_t rows;
} bisect_stage;

typedef struct bisect_run {
    const conformance_bisect_arguments *arguments;
    pco_model *model; /* on the reference: file, tokenizer */
    pco_session *session;
    pco_bisect *bisect;
    cli_progress progress;
    bisect_stage prompt, step;
    float *logits; /* of the device, when the whole graphs run there */
    int64_t vocab;
    int32_t *ids; /* the prompt, then what the reference goes on with */
    int64_t n_prompt, n_ids;
    const char *device;
    int whole_failed; /* 1: the whole graph could not run, whole_error says why */
    pco_error whole_error;
    double whole;      /* largest difference of a logit over its bound, whole graphs, device and reference */
    int64_t different; /* steps at which the likeliest token differs */
    int64_t steps;
} bisect_run;

static int bisect_on_node(void *user, const char *graph, uint32_t node, uint32_t nodes)
{
    bisect_run *run = user;
    char doing[160];
    snprintf(doing, sizeof doing, "it was at node %u of %u of graph '%s'", node + 1, nodes, graph);
    if (run->arguments->child) cli_child_beat(doing);
    run->progress.label = graph;
    cli_progress_update(&run->progress, node, nodes);
    return !cli_interrupted();
}

/* The device is used in this process from here on: should it take the process along, this is what it did. */
static void bisect_doing(const bisect_run *run, const char *what, const char *graph)
{
    char doing[200];
    snprintf(doing, sizeof doing, "%s%s%s%s on %s", what, graph ? " '" : "", graph ? graph : "", graph ? "'" : "",
             run->device);
    if (run->arguments->child) cli_child_beat(doing);
}

static void bisect_waits(void *user)
{
    (void)user;
    cli_child_beat(NULL);
}

/* ---- the graphs of a model ---- */

static pco_status bisect_stage_make(bisect_run *run, bisect_stage *stage, const char *what, int64_t rows,
                                    pco_error *err)
{
    const pco_model_file *file = run->model->file;
    const int64_t context = run->model->context_length;
    const int first = stage == &run->prompt;
    snprintf(stage->name, sizeof stage->name, "%s, %" PRId64 " row%s", what, rows, rows == 1 ? "" : "s");
    stage->rows = rows;
    stage->source = pco_graph_create();
    if (!stage->source) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a graph");
    const pco_nn nn = {.graph = stage->source, .weights = file->weights};
    if (file->spec.decoder_only)
        pco_causal_build(&nn, &file->spec, PCO_CAUSAL_ROWS(context, rows));
    else if (first)
        pco_seq2seq_build_encode(&nn, &file->spec, &(pco_seq2seq_form){.context = context, .rows = rows});
    else
        pco_seq2seq_build_decode(&nn, &file->spec, &(pco_seq2seq_form){.context = context, .rows = rows, .step = 1});
    const pco_executable_params params = {.size = sizeof params, .name = stage->name, .no_self_test = 1};
    pco_status status = pco_graph_check(stage->source, err);
    bisect_doing(run, "preparing the graph", stage->name);
    if (!status) status = pco_executable_create(run->session, stage->source, &params, &stage->executable, err);
    return status;
}

static void bisect_stage_clear(bisect_stage *stage)
{
    pco_executable_destroy(stage->executable);
    pco_graph_destroy(stage->source);
    *stage = (bisect_stage){0};
}

/* ---- running one: node by node, and whole ---- */

static pco_status bisect_whole(bisect_run *run, const bisect_stage *stage, const pco_bisect_input *inputs,
                               uint32_t n_inputs, pco_error *err)
{
    pco_status status = PCO_OK;
    bisect_doing(run, "running the whole graph", stage->name);
    for (uint32_t i = 0; i < n_inputs && !status; i++) {
        uint32_t handle = pco_executable_tensor(stage->executable, inputs[i].name);
        if (handle == PCO_NONE) continue;
        status = pco_executable_write(stage->executable, handle, inputs[i].data, inputs[i].bytes, err);
    }
    if (!status) status = pco_executable_run(stage->executable, err);
    uint32_t logits = pco_executable_tensor(stage->executable, "logits");
    if (!status && logits != PCO_NONE)
        status = pco_executable_read(stage->executable, logits, run->logits, (uint64_t)run->vocab * sizeof *run->logits,
                                     err);
    return status;
}

static void bisect_compare(bisect_run *run, const float *want)
{
    const double ratio = compare_row(run->logits, want, run->vocab, NULL, NULL);
    if (ratio > run->whole) run->whole = ratio;
    run->different += compare_argmax(run->logits, run->vocab) != compare_argmax(want, run->vocab);
    run->steps++;
}

static pco_status bisect_both(bisect_run *run, const bisect_stage *stage, const pco_bisect_input *inputs,
                              uint32_t n_inputs, pco_error *err)
{
    pco_status status = pco_bisect_run(run->bisect, pco_executable_graph(stage->executable), stage->name, inputs,
                                       n_inputs, bisect_on_node, run, err);
    if (status || pco_bisect_first(run->bisect)->found || run->whole_failed) return status;
    run->whole_failed = bisect_whole(run, stage, inputs, n_inputs, &run->whole_error) != PCO_OK;
    const float *want = pco_bisect_output(run->bisect, "logits");
    if (!run->whole_failed && want) bisect_compare(run, want);
    return PCO_OK;
}

/* One chunk of a decoder-only model, or one step of either. */
static pco_status bisect_chunk(bisect_run *run, const bisect_stage *stage, const int32_t *ids, int64_t start,
                               int64_t count, pco_error *err)
{
    const pco_model_file *file = run->model->file;
    const int32_t starts = (int32_t)start, lengths = (int32_t)(start + count), row = (int32_t)count - 1,
                  source = (int32_t)run->n_prompt;
    const int32_t offset = (int32_t)file->spec.position_offset;
    int32_t positions[BISECT_LARGEST_CHUNK], padded[BISECT_LARGEST_CHUNK];
    for (int64_t i = 0; i < stage->rows; i++) {
        positions[i] = starts + offset + (int32_t)i;
        padded[i] = i < count ? ids[i] : 0;
    }
    const uint64_t bytes = (uint64_t)stage->rows * sizeof *padded;
    const pco_bisect_input inputs[] = {{"ids", padded, bytes},
                                       {"positions", positions, bytes},
                                       {"starts", &starts, sizeof starts},
                                       {"lengths", &lengths, sizeof lengths},
                                       {"source_lengths", &source, sizeof source},
                                       {"row", &row, sizeof row}};
    return bisect_both(run, stage, inputs, sizeof inputs / sizeof *inputs, err);
}

static int64_t bisect_rows(int64_t count, int64_t most)
{
    int64_t sizes[PCO_STAGE_SIZES];
    uint32_t n = pco_stage_sizes(16, most, sizes), i = 0;
    while (i + 1 < n && sizes[i] < count) i++;
    return sizes[i];
}

/* Reads the prompt; the stages are those that the model itself would take. */
static pco_status bisect_read_prompt(bisect_run *run, pco_error *err)
{
    const pco_model_file *file = run->model->file;
    const int64_t context = run->model->context_length,
                  most = context < BISECT_LARGEST_CHUNK ? context : BISECT_LARGEST_CHUNK;
    const int causal = file->spec.decoder_only;
    int64_t rows = bisect_rows(run->n_prompt, causal ? most : context);
    pco_status status = bisect_stage_make(run, &run->prompt, causal ? "prompt" : "encoder", rows, err);
    if (status) return status;
    if (causal) {
        for (int64_t done = 0; !status && done < run->n_prompt && !pco_bisect_first(run->bisect)->found; done += rows) {
            int64_t count = run->n_prompt - done < rows ? run->n_prompt - done : rows;
            status = bisect_chunk(run, &run->prompt, run->ids + done, done, count, err);
        }
        return status;
    }
    const int32_t lengths = (int32_t)run->n_prompt;
    int32_t *padded = malloc((size_t)rows * sizeof *padded);
    if (!padded) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for tokens");
    for (int64_t i = 0; i < rows; i++) padded[i] = i < run->n_prompt ? run->ids[i] : file->spec.pad_token_id;
    const pco_bisect_input inputs[] = {{"ids", padded, (uint64_t)rows * sizeof *padded},
                                       {"lengths", &lengths, sizeof lengths}};
    status = bisect_both(run, &run->prompt, inputs, 2, err);
    free(padded);
    return status;
}

/* One token at a time, with the reference's likeliest. */
static pco_status bisect_generate(bisect_run *run, pco_error *err)
{
    const pco_model_file *file = run->model->file;
    const int causal = file->spec.decoder_only;
    const float *logits = causal ? pco_bisect_output(run->bisect, "logits") : NULL;
    int32_t id = causal ? logits ? compare_argmax(logits, run->vocab) : 0 : file->spec.decoder_start_token_id;
    int64_t position = causal ? run->n_prompt : 0;
    pco_status status = bisect_stage_make(run, &run->step, causal ? "step" : "decoder", 1, err);
    for (int64_t n = 0; !status && n < run->arguments->max_tokens && position < run->model->context_length; n++) {
        status = bisect_chunk(run, &run->step, &id, position++, 1, err);
        logits = pco_bisect_output(run->bisect, "logits");
        if (status || pco_bisect_first(run->bisect)->found || !logits) break;
        id = compare_argmax(logits, run->vocab);
    }
    return status;
}

/* ---- reporting ---- */

static void bisect_print_ops(const bisect_run *run, const char *id)
{
    const pco_bisect_op *ops;
    uint32_t count = pco_bisect_ops(run->bisect, &ops), nodes = 0;
    printf("%s: %s\n  %-29s %6s %12s  %s\n", id, pco_session_device(run->session)->name, "op", "nodes", "error/bound",
           "at");
    for (uint32_t i = 0; i < count; i++) {
        nodes += ops[i].nodes;
        printf("  %-29s %6u %12.3g  %s", ops[i].name, ops[i].nodes, ops[i].worst, ops[i].node);
        if (ops[i].unsupported) printf(" (%u more run on the CPU)", ops[i].unsupported);
        putchar('\n');
    }
    printf("  %u nodes, each fed with the reference's own operands\n", nodes);
}

static void bisect_print_fault(const pco_bisect_fault *fault)
{
    const pco_conformance_case *result = &fault->result;
    char got[PCO_NUMBER_TEXT], expected[PCO_NUMBER_TEXT];
    printf("\n  the first that is wrong: %s, node '%s' (%s), variant %s\n    %s\n", fault->graph, fault->node,
           result->op_name, fault->variant[0] ? fault->variant : "default", fault->problem);
    if (result->wrong)
        printf("    '%s' element %" PRId64 " is %s, expected %s within %.3g: error / bound %.3g; %" PRId64
               " of %" PRId64 " elements are wrong\n",
               fault->tensor, result->element, pco_number_text(result->got, got),
               pco_number_text(result->expected, expected), result->bound, result->ratio, result->wrong,
               result->elements);
    else
        printf("    %s: %s\n", pco_conformance_state_name(result->state), result->detail);
}

/* The command that finds the fault again, for a shell; malloc'ed, NULL without memory. */
static char *bisect_command(const bisect_run *run, const char *id)
{
    const conformance_bisect_arguments *arguments = run->arguments;
    char *model = cli_quote(arguments->model), *device = cli_quote(id), *prompt = cli_quote(arguments->prompt);
    char *command = NULL;
    if (!model || !device || !prompt ||
        asprintf(&command, "portico conformance --bisect %s --devices %s --prompt %s -n %" PRId64 " --context %" PRId64,
                 model, device, prompt, arguments->max_tokens, run->model->context_length) < 0)
        command = NULL;
    free(model);
    free(device);
    free(prompt);
    return command;
}

/* Makes the fault small and writes it. */
static pco_status bisect_reduce(bisect_run *run, const char *id, pco_error *err)
{
    const conformance_bisect_arguments *arguments = run->arguments;
    const pco_bisect_fault *fault = pco_bisect_first(run->bisect);
    uint32_t made = 0;
    bisect_print_fault(fault);
    fflush(stdout);
    pco_status status = pco_bisect_minimise(run->bisect, BISECT_ATTEMPTS, &made, err);
    if (status) return status;
    if (made)
        printf("  still wrong, after %u attempts to make it smaller: %s\n    %s\n", made, fault->problem,
               fault->result.detail);
    else if (fault->result.state == PCO_CASE_HUNG || fault->result.state == PCO_CASE_DEVICE_LOST)
        printf("  it is not made smaller: each attempt would hang or lose the device again\n");
    if (!arguments->reproducers->folder) {
        printf("  --reproducers DIR writes what shows it without the model\n");
        return PCO_OK;
    }
    char folder[600], path[1024];
    conformance_reproducer_folder(arguments->reproducers, id, folder, sizeof folder);
    snprintf(path, sizeof path, "%s/bisect-%s", folder, fault->result.op_name);
    char *repeat = bisect_command(run, id);
    if (!repeat) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a reproducer");
    status = pco_bisect_write_reproducer(run->bisect, repeat, path, err);
    free(repeat);
    if (!status) printf("  reproducer: %s\n", path);
    return status;
}

static int bisect_report(bisect_run *run, const char *id)
{
    pco_error err = {""};
    bisect_print_ops(run, id);
    if (pco_bisect_first(run->bisect)->found) {
        if (bisect_reduce(run, id, &err)) cli_fail(&err);
        return CLI_FAILED;
    }
    printf("  every op is within its bound\n");
    if (run->whole_failed) {
        printf("  the whole model does not run: %s\n", run->whole_error.message);
        return CLI_FAILED;
    }
    printf("  the whole model, %" PRId64 " tokens: logits differ by %.3g of %g (|y| + rms), %" PRId64
           " tokens differ\n",
           run->steps, run->whole, COMPARE_BOUND, run->different);
    if (run->whole <= 1 && !run->different) return CLI_OK;
    printf("  each op alone is right and together they are not: look at barriers, placement of memory, state\n");
    return CLI_FAILED;
}

/* ---- devices ---- */

typedef struct bisect_device {
    const pco_plugin *plugin;
    pco_conformance_device device;
} bisect_device;

static pco_status bisect_open(const pco_registry *registry, uint32_t index, bisect_device *out, pco_error *err)
{
    const pco_device_entry *entries;
    const pco_plugin_entry *plugins;
    pco_registry_devices(registry, &entries);
    pco_registry_plugins(registry, &plugins);
    const pco_device_entry *entry = &entries[index];
    const pco_plugin_entry *plugin = &plugins[entry->plugin];
    out->plugin = plugin->plugin;
    out->device = (pco_conformance_device){plugin->plugin, NULL, &entry->info, entry->id};
    pco_status status = pco_plugin_open_device(plugin->plugin, plugin->backend, entry->index, &out->device.device, err);
    return status ? pco_fail_prefix(err, status, "%s", entry->id) : PCO_OK;
}

static void bisect_close(bisect_device *device)
{
    if (device->device.device) device->plugin->device->close(device->device.device);
    device->device.device = NULL;
}

static pco_status bisect_tokens(bisect_run *run, pco_error *err)
{
    size_t count = 0;
    const char *prompt = run->arguments->prompt;
    pco_status status = pco_model_tokenize(run->model, prompt, strlen(prompt), 1, &run->ids, &count, err);
    run->n_prompt = (int64_t)count;
    if (!status && (count == 0 || run->n_prompt >= run->model->context_length))
        status = pco_fail(err, PCO_ERROR_INVALID, "the prompt has %zu tokens; it can have 1 to %" PRId64, count,
                          run->model->context_length - 1);
    return status;
}

/* One device. */
static int bisect_one(const conformance_bisect_arguments *arguments, pco_model *model, const pco_registry *registry,
                      uint32_t index, const bisect_device *reference)
{
    const pco_device_entry *entries;
    pco_registry_devices(registry, &entries);
    bisect_run run = {.arguments = arguments,
                      .model = model,
                      .vocab = model->file->spec.vocab_size[PCO_DECODER],
                      .device = entries[index].id};
    const pco_conformance_options options = {.tier = PCO_CONFORMANCE_QUICK};
    conformance_command command;
    conformance_command_make(&command, registry, &entries[index], &options);
    const pco_bisect_isolation isolation = {.command = command.words,
                                            .timeout = conformance_timeout(arguments->timeout, options.tier),
                                            .beat = arguments->child ? bisect_waits : NULL};
    bisect_device device = {.device = {.info = &entries[index].info, .id = entries[index].id}};
    pco_error err = {""};
    int status = CLI_FAILED;
    run.logits = malloc((size_t)run.vocab * sizeof *run.logits);
    pco_status result =
        run.logits ? PCO_OK : pco_fail(&err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for logits");
    if (!result && arguments->in_process) result = bisect_open(registry, index, &device, &err);
    if (!result) result = bisect_tokens(&run, &err);
    bisect_doing(&run, "opening the device", NULL);
    if (!result) result = pco_registry_open(model->context->registry, device.device.id, &run.session, &err);
    if (!result)
        result = pco_bisect_create(&device.device, &reference->device, arguments->in_process ? NULL : &isolation,
                                   &run.bisect, &err);
    cli_progress_start(&run.progress, "", "nodes");
    if (!result) result = bisect_read_prompt(&run, &err);
    if (!result && !pco_bisect_first(run.bisect)->found) result = bisect_generate(&run, &err);
    cli_progress_end(&run.progress);
    if (!result) status = bisect_report(&run, device.device.id);
    if (result) cli_fail(&err);
    pco_bisect_destroy(run.bisect);
    bisect_stage_clear(&run.prompt);
    bisect_stage_clear(&run.step);
    pco_session_close(run.session);
    bisect_close(&device);
    pco_free(run.ids);
    free(run.logits);
    return status;
}

/* All that one process does: the devices indices[count], one after the other. */
static int bisect_devices(const conformance_bisect_arguments *arguments, pco_context *context, const uint32_t *indices,
                          uint32_t count)
{
    uint32_t wanted, found;
    pco_model *model = NULL;
    bisect_device reference = {0};
    pco_error err = {""};
    int status = CLI_OK;
    pco_status result =
        cli_open_model(context, arguments->model, CLI_OPEN("cpu:reference", arguments->context), &model, &err);
    if (!result) result = pco_registry_select(context->registry, "cpu:reference", &wanted, 1, &found, &err);
    if (!result) result = bisect_open(context->registry, wanted, &reference, &err);
    if (result) status = cli_fail(&err);
    for (uint32_t i = 0; !result && i < count && !cli_interrupted(); i++) {
        if (i) putchar('\n');
        int one = bisect_one(arguments, model, context->registry, indices[i], &reference);
        if (i == 0 || one) status = one;
    }
    bisect_close(&reference);
    pco_model_close(model);
    return status;
}

/* One device in a process of its own: when that dies or says nothing any more, the device failed. */
static int bisect_in_child(const conformance_bisect_arguments *arguments, const char *device)
{
    char tokens[24], context[24], timeout[32], folder[600], how[400];
    const double limit = conformance_timeout(arguments->timeout, PCO_CONFORMANCE_QUICK);
    const char *words[24] = {"portico",  "conformance",     "--bisect", arguments->model, "--devices", device,
                             "--prompt", arguments->prompt, "-n",       tokens,           "--timeout", timeout,
                             "--child"};
    int n = 13;
    cli_child child;
    snprintf(tokens, sizeof tokens, "%" PRId64, arguments->max_tokens);
    snprintf(timeout, sizeof timeout, "%.17g", limit);
    snprintf(context, sizeof context, "%" PRId64, arguments->context);
    if (arguments->context) words[n++] = "--context", words[n++] = context;
    if (arguments->reproducers->folder) {
        conformance_reproducer_folder(arguments->reproducers, device, folder, sizeof folder);
        words[n++] = "--reproducers", words[n++] = folder;
    }
    if (!cli_child_run(words, BISECT_PATIENCE * limit, cli_interrupted_flag(), &child)) return CLI_FAILED;
    if (child.exited) return child.status;
    if (cli_interrupted()) return CLI_FAILED;
    cli_child_describe(&child, how, sizeof how);
    printf("%s: %s\n", device, how);
    cli_error("%s: %s: %s; `portico conformance --devices %s` judges each op alone", device,
              child.signal ? "crashed" : "hung", how, device);
    return CLI_FAILED;
}

int conformance_bisect(const conformance_bisect_arguments *given)
{
    conformance_bisect_arguments arguments = *given;
    conformance_reproducers reproducers = *given->reproducers;
    const pco_device_entry *entries;
    int status = CLI_OK;
    cli_watch_signals();
    pco_context *context = cli_context(arguments.devices, &status);
    if (!context) return status;
    uint32_t *indices, count = cli_select_devices(context->registry, arguments.devices, &indices, &status);
    if (!arguments.prompt) arguments.prompt = pco_is_directory(arguments.model) ? "3 March 2021" : "Once upon a time";
    reproducers.several = count > 1;
    arguments.reproducers = &reproducers;
    if (!count) status = CLI_USAGE; /* the reason has been said */
    pco_registry_devices(context->registry, &entries);
    if (count && (arguments.in_process || arguments.child))
        status = bisect_devices(&arguments, context, indices, count);
    for (uint32_t i = 0; i < count && !arguments.in_process && !arguments.child && !cli_interrupted(); i++) {
        if (i) putchar('\n');
        int one = bisect_in_child(&arguments, entries[indices[i]].id);
        if (i == 0 || one) status = one;
    }
    free(indices);
    pco_context_destroy(context);
    return cli_exit_status(status);
}
