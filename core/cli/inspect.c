/* portico inspect: what a model file holds, and what it would take to run it. */
#include "cli/inspect.h"
#include "cli/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- memory ---- */

/* Tries the model; what a device says no to is part of the answer. */
static void inspect_try(const inspect_arguments *arguments, pco_context *context, inspect_plan *plan)
{
    pco_model *model = NULL;
    pco_error err = {""};
    pco_status status = inspect_open_model(arguments, context, &model, &err);
    if (status) {
        plan->out_of_memory = status == PCO_ERROR_OUT_OF_DEVICE_MEMORY;
        snprintf(plan->message, sizeof plan->message, "%s", err.message);
        pco_model_close(model);
        return;
    }
    const pco_executable_stats stats = inspect_counts(model);
    plan->fits = 1;
    plan->constants = stats.constant_bytes;
    plan->states = stats.state_bytes;
    plan->arena = stats.arena_bytes;
    plan->arena_bound = stats.arena_lower_bound;
    plan->io = stats.io_bytes;
    plan->nodes = stats.nodes;
    plan->parts = stats.parts;
    plan->cpu_nodes = stats.cpu_nodes;
    plan->decomposed = stats.decomposed;
    plan->held = pco_session_memory(model->session, &plan->peak);
    pco_model_close(model);
}

int inspect_make_plan(const inspect_file *file, const inspect_arguments *arguments, inspect_plan *plan)
{
    int status = CLI_OK;
    uint32_t count;
    pco_error err;
    pco_device_set set;
    pco_device_entry device;
    *plan = (inspect_plan){.context = file->context};
    cli_watch_signals();
    pco_context *context = cli_context(arguments->device, &status);
    if (!context) return status;
    const char *selection = arguments->device ? arguments->device : pco_registry_config(context->registry)->backend;
    if (pco_registry_select_sets(context->registry, selection, &set, 1, &count, &err) == PCO_OK) {
        pco_registry_describe_set(context->registry, &set, &device);
        snprintf(plan->device_id, sizeof plan->device_id, "%s", device.id);
        snprintf(plan->device_name, sizeof plan->device_name, "%s", device.info.name);
        plan->device_memory = device.info.memory;
    }
    inspect_try(arguments, context, plan);
    pco_context_destroy(context);
    return CLI_OK;
}

/* ---- command ---- */

static const cli_option INSPECT_OPTIONS[] = {
    {CLI_OPERAND("a model", inspect_arguments, path)},
    {CLI_TEXT("--device", inspect_arguments, device), .traits = CLI_MAY_BE_EMPTY},
    {CLI_WHOLE("--context", inspect_arguments, context, 1, 1 << 24)},
    {CLI_FLAG("--memory", inspect_arguments, memory)},
    {CLI_FLAG("--dot", inspect_arguments, dot)},
    {CLI_FLAG("--json", inspect_arguments, json)},
};

static int inspect_parse(int argc, char **argv, inspect_arguments *arguments)
{
    if (cli_parse(&cli_inspect, argc, argv, arguments, NULL)) return CLI_USAGE;
    if (arguments->dot && (arguments->json || arguments->memory)) {
        cli_error("inspect: --dot and --%s exclude each other", arguments->json ? "json" : "memory");
        return CLI_USAGE;
    }
    return CLI_OK;
}

static int inspect_run(int argc, char **argv)
{
    inspect_arguments arguments = {0};
    inspect_file file;
    inspect_plan plan;
    pco_error err;
    int status = inspect_parse(argc, argv, &arguments);
    if (status) return status;
    if (inspect_open(arguments.path, arguments.context, &file, &err)) return cli_fail(&err);
    if (arguments.dot || arguments.memory) {
        if (!file.model) {
            cli_error("%s holds no model that can run, so there is no %s: %s", arguments.path,
                      arguments.dot ? "graph" : "memory to tell of", file.reason.message);
            status = CLI_FAILED;
        } else if (arguments.memory) {
            status = inspect_memory(&file, &arguments);
        } else if (inspect_dot(&file, &err)) {
            status = cli_fail(&err);
        }
    } else {
        if (file.model) status = inspect_make_plan(&file, &arguments, &plan);
        /* the list is worth having without a device, unless a device was asked for and is not there */
        if (status != CLI_USAGE) {
            const inspect_plan *known = file.model && status == CLI_OK ? &plan : NULL;
            status = CLI_OK;
            if (arguments.json)
                status = inspect_json(&file, known);
            else
                inspect_print(&file, known);
        }
    }
    inspect_close(&file);
    return status;
}

const cli_command cli_inspect = {
    .name = "inspect",
    .summary = "what a model file holds, and the memory that it takes",
    .help = "usage: portico inspect MODEL [--device D] [--context N] [--memory] [--dot | --json]\n\n"
            "MODEL is a .gguf file, a folder of Hugging Face, CTranslate2 or Portico, a .safetensors file, a\n"
            "checkpoint of llama2.c, or what torch.save wrote (.pt, .bin). Prints the format, metadata or "
            "configuration, every tensor,\n"
            "whether the model can run, and, on the chosen device, the memory for weights, cache, activations\n"
            "and buffers, and whether it fits. A GGUF file that is only a header (the data were not\n"
            "downloaded) is listed as such.\n\n"
            "  --device D    as PORTICO_BACKEND: plan for that device\n"
            "  --context N   plan for a cache of N tokens (default: what the file says, at most 4096)\n"
            "  --memory      where the memory goes instead: by kind (weights, states, arenas, inputs and\n"
            "                outputs), by program (activations and workspace in their arena, beside the least\n"
            "                that any plan could take) and by block, on each device that has a part\n"
            "  --dot         the graph of one step (encoder-decoder: both) in Graphviz's language instead:\n"
            "                portico inspect m.gguf --dot | dot -Tsvg > m.svg\n"
            "  --json        one object instead of text\n\n"
            "Exit status: 0 the file is valid (also when the model in it cannot run), 1 it is not, 2 wrong\n"
            "usage.\n",
    CLI_OPTIONS(INSPECT_OPTIONS),
    .run = inspect_run,
};
