/* A worker process of `portico conformance`: loads one plugin, and judges one device of it for the parent. */
#include "cli/conformance_parts.h"

#include "runtime/host.h"
#include "runtime/loader.h"

#include <inttypes.h>
#include <stdio.h>

void conformance_command_make(conformance_command *command, const pco_registry *registry, const pco_device_entry *entry,
                              const pco_conformance_options *options)
{
    const pco_plugin_entry *plugins;
    pco_registry_plugins(registry, &plugins);
    snprintf(command->tier, sizeof command->tier, "%s", pco_conformance_tier_name(options->tier));
    snprintf(command->seed, sizeof command->seed, "%" PRIu64, options->seed);
    snprintf(command->index, sizeof command->index, "%" PRIu32, entry->index);
    char *const words[] = {
        "/proc/self/exe", "conformance",  "--worker",   "--plugin",        (char *)plugins[entry->plugin].path,
        "--index",        command->index, "--id",       (char *)entry->id, "--tier",
        command->tier,    "--seed",       command->seed};
    int n = 0;
    for (; n < (int)(sizeof words / sizeof *words); n++) command->words[n] = words[n];
    if (options->own_from) command->words[n++] = "--ops-from", command->words[n++] = (char *)options->own_from;
    if (options->variant) command->words[n++] = "--variant", command->words[n++] = (char *)options->variant;
    if (options->judging != PCO_JUDGE_BOUNDS)
        command->words[n++] = "--judge", command->words[n++] = options->judging == PCO_JUDGE_NMSE ? "nmse" : "field";
    snprintf(command->replays, sizeof command->replays, "%" PRIu32, options->replays);
    if (options->replays) command->words[n++] = "--replays", command->words[n++] = command->replays;
    if (options->invariance) command->words[n++] = "--invariance";
    if (options->compile_only) command->words[n++] = "--compile-only";
    if (options->code) command->words[n++] = "--code", command->words[n++] = (char *)options->code;
    command->words[n] = NULL;
}

void conformance_command_threads(conformance_command *command, uint32_t threads)
{
    int n = 0;
    while (command->words[n]) n++;
    snprintf(command->threads, sizeof command->threads, "%" PRIu32, threads);
    command->words[n++] = "--threads", command->words[n++] = command->threads;
    command->words[n] = NULL;
}

double conformance_timeout(double asked, pco_conformance_tier tier)
{
    return asked > 0 ? asked : tier >= PCO_CONFORMANCE_FULL ? 600 : 120;
}

typedef struct worker_device {
    const conformance_arguments *arguments;
    pco_host_state host;
    pco_plugin_tables tables;
    const pco_plugin *plugin; /* of `tables`, when it is loaded */
    pco_backend *backend;
    pco_device *device;
    pco_device_info info;
} worker_device;

static pco_status worker_open(void *user, pco_conformance_device *device, pco_error *err)
{
    worker_device *worker = user;
    const conformance_arguments *arguments = worker->arguments;
    void *handle;
    pco_status status = pco_loader_open(arguments->plugin, &handle, &worker->tables, err);
    if (status) return status;
    worker->plugin = &worker->tables.plugin;
    status = worker->plugin->create(&worker->host.table, &worker->backend, err);
    if (status) return status;
    worker->info.size = sizeof worker->info;
    status = worker->plugin->describe(worker->backend, arguments->index, &worker->info, err);
    if (!status)
        status = pco_plugin_open_device(worker->plugin, worker->backend, arguments->index, &worker->device, err);
    *device = (pco_conformance_device){worker->plugin, worker->device, &worker->info, arguments->id};
    return status;
}

int conformance_worker(const conformance_arguments *arguments)
{
    pco_config config;
    pco_error err;
    worker_device worker = {.arguments = arguments};
    if (!arguments->plugin || !arguments->id) {
        cli_error("conformance: --worker is for `portico conformance` itself");
        return CLI_USAGE;
    }
    pco_status status = pco_config_read(&config, &err);
    if (arguments->threads) config.threads = arguments->threads;
    if (!status) status = pco_host_init(&worker.host, &config, &err);
    if (status) return cli_fail(&err);
    status = pco_conformance_serve(&arguments->options, worker_open, &worker, &err);
    if (worker.device) worker.plugin->device->close(worker.device);
    if (worker.backend) worker.plugin->destroy(worker.backend);
    pco_host_release(&worker.host);
    return status ? CLI_FAILED : CLI_OK;
}
