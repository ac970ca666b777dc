/* Devices in turn: in worker processes, or in this one. */
#include "cli/conformance_parts.h"

#include "base/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the callback needs. */
typedef struct conformance_watch {
    const conformance_arguments *arguments;
    cli_progress progress;
    char unit[64];
    uint32_t failed;
    double deadline; /* of a soak without workers; 0: none */
    int stopped;     /* by the first failure */
} conformance_watch;

static int conformance_progress(void *user, const pco_conformance_progress *progress)
{
    conformance_watch *watch = user;
    const pco_conformance_case *last = progress->last;
    if (watch->arguments->verbose) {
        cli_progress_end(&watch->progress);
        cli_note("%s %s #%08x %s [%s]: %s, error/bound %.3g%s%s\n", progress->device->id, last->op_name, last->id,
                 last->label, last->variant, pco_conformance_state_name(last->state), last->ratio,
                 *last->detail ? ": " : "", last->detail);
    }
    if (pco_conformance_state_is_bad(last->state)) {
        if (watch->failed++ < 3 && !watch->arguments->verbose) {
            cli_progress_end(&watch->progress);
            cli_note("%s: %s: %s: %s\n", progress->device->id, last->op_name, pco_conformance_state_name(last->state),
                     last->repeat);
        }
        snprintf(watch->unit, sizeof watch->unit, "cases, %u bad,", watch->failed);
    }
    cli_progress_update(&watch->progress, progress->done, progress->total);
    if (watch->arguments->fail_fast && pco_conformance_state_is_bad(last->state)) watch->stopped = 1;
    return !cli_interrupted() && !watch->stopped && !(watch->deadline > 0 && pco_seconds() >= watch->deadline);
}

/* ---- worker processes ---- */

/* Software devices run their kernels on all processors, but compile them on one; a GPU is not shared. */
static uint32_t conformance_jobs(const conformance_arguments *arguments, const pco_device_info *info)
{
    enum { MOST = 16 }; /* each has the driver's threads and memory besides */
    cpu_set_t set;
    if (arguments->jobs) return arguments->jobs;
    if (!arguments->options.compile_only && info->type != PCO_DEVICE_CPU && info->type != PCO_DEVICE_SOFTWARE) return 1;
    int processors = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return processors < 1 ? 1 : processors > MOST ? MOST : (uint32_t)processors;
}

typedef struct conformance_run {
    const conformance_arguments *arguments;
    const pco_registry *registry;
    conformance_watch watch;
    pco_conformance_log *log;
    pco_conformance_waivers *waivers;
    double deadline;
    uint32_t resumed, threads; /* of workers; 0: PORTICO_THREADS */
    int failed;                /* an error of the run itself, which was printed */
} conformance_run;

static pco_status conformance_isolated(conformance_run *run, const pco_conformance_options *options,
                                       const pco_device_entry *entry, const pco_conformance_device *device,
                                       pco_conformance_result *result, pco_error *err)
{
    conformance_command command;
    conformance_command_make(&command, run->registry, entry, options);
    if (run->threads) conformance_command_threads(&command, run->threads);
    pco_conformance_isolation isolation = {
        .command = command.words,
        .jobs = conformance_jobs(run->arguments, &entry->info),
        .timeout = conformance_timeout(run->arguments->timeout, options->tier),
        .log = run->log,
        .waivers = run->waivers,
        .interrupted = cli_interrupted_flag(),
        .deadline = run->deadline,
    };
    pco_status status = pco_conformance_run_isolated(options, &isolation, device, result, err);
    run->resumed += isolation.resumed;
    return status;
}

/* ---- in this process, for debuggers; the device stays open for further seeds, with the kernels that it has ---- */

static void conformance_close(pco_conformance_device *device)
{
    if (device->device) device->plugin->device->close(device->device);
    device->device = NULL;
}

static pco_status conformance_direct(conformance_run *run, const pco_conformance_options *options,
                                     const pco_device_entry *entry, pco_conformance_device *device,
                                     pco_conformance_result *result, pco_error *err)
{
    const pco_plugin_entry *plugins;
    pco_registry_plugins(run->registry, &plugins);
    const pco_plugin_entry *plugin = &plugins[entry->plugin];
    *result = (pco_conformance_result){.device_id = entry->id, .tier = options->tier, .seed = options->seed};
    pco_status status = PCO_OK;
    if (!device->device)
        status = pco_plugin_open_device(plugin->plugin, plugin->backend, entry->index, &device->device, err);
    if (status) {
        result->status = status;
        result->not_opened = 1;
        snprintf(result->message, sizeof result->message, "it could not be opened: %.220s", err->message);
        return PCO_OK;
    }
    device->plugin = plugin->plugin;
    status = pco_conformance_run(options, device, 1, result, err);
    if (!status && run->waivers) status = pco_conformance_waive(run->waivers, device, result, err);
    if (status || result->status) conformance_close(device);
    return status;
}

/* ---- all devices ---- */

/* What the device does with numbers: of a report, and where nothing else was asked. */
static pco_status conformance_probes(conformance_run *run, const pco_device_entry *entry,
                                     pco_conformance_result *result)
{
    const conformance_arguments *arguments = run->arguments;
    pco_conformance_probe *probe = &result->probe;
    const pco_plugin_entry *plugins;
    pco_error err = {""};
    pco_status status;
    pco_registry_plugins(run->registry, &plugins);
    const pco_plugin_entry *plugin = &plugins[entry->plugin];
    if (arguments->in_process) {
        pco_conformance_device device = {plugin->plugin, NULL, &entry->info, entry->id};
        status = pco_plugin_open_device(plugin->plugin, plugin->backend, entry->index, &device.device, &err);
        if (!status) status = pco_conformance_probe_device(&device, probe, &err);
        if (device.device) plugin->plugin->device->close(device.device);
        if (status) snprintf(probe->message, sizeof probe->message, "%.255s", err.message);
        return PCO_OK;
    }
    conformance_command command;
    pco_conformance_options options = arguments->options;
    options.replays = 0;
    conformance_command_make(&command, run->registry, entry, &options);
    const pco_conformance_isolation isolation = {.command = command.words,
                                                 .timeout = conformance_timeout(arguments->timeout, options.tier),
                                                 .interrupted = cli_interrupted_flag()};
    status = pco_conformance_probe_isolated(&isolation, probe, &err);
    if (!status) return PCO_OK;
    cli_error("%s: %s", entry->id, err.message);
    run->failed = 1;
    return status;
}

static int conformance_only_probe(conformance_run *run, const pco_device_entry *entries, const uint32_t *indices,
                                  uint32_t count, const pco_conformance_device *devices,
                                  pco_conformance_result *results)
{
    uint32_t done = 0, bad = 0;
    cli_watch_signals();
    for (; done < count && !cli_interrupted() && !run->failed; done++) {
        results[done].device_id = devices[done].id;
        if (conformance_probes(run, &entries[indices[done]], &results[done])) continue;
        bad += results[done].probe.broken || results[done].probe.message[0];
    }
    if (!cli_interrupted()) cli_forget_signals();
    if (conformance_print_probes(run->arguments, results, devices, done)) run->failed = 1;
    pco_conformance_clear(results, done);
    return run->failed || bad || done < count ? CLI_FAILED : CLI_OK;
}

/* One device with one seed. Returns 0 when the run is to end. */
static int conformance_device(conformance_run *run, uint64_t seed, const pco_device_entry *entry,
                              pco_conformance_device *device, pco_conformance_result *result)
{
    pco_conformance_options options = run->arguments->options;
    pco_error err = {""};
    options.seed = seed;
    options.progress = conformance_progress;
    options.user = &run->watch;
    snprintf(run->watch.unit, sizeof run->watch.unit, "cases");
    run->watch.failed = 0;
    cli_progress_start(&run->watch.progress, device->id, run->watch.unit);
    pco_status status = run->arguments->in_process ? conformance_direct(run, &options, entry, device, result, &err)
                                                   : conformance_isolated(run, &options, entry, device, result, &err);
    cli_progress_end(&run->watch.progress);
    if (result->status == PCO_ERROR_CANCELLED)
        snprintf(result->message, sizeof result->message, "%s",
                 cli_interrupted()    ? "interrupted"
                 : run->watch.stopped ? "stopped at the first failure"
                                      : "its time is up");
    if (status && status != PCO_ERROR_CANCELLED) {
        cli_error("%s: %s", entry->id, err.message);
        run->failed = 1;
    }
    return status == PCO_OK;
}

/* The run was on one thread; the same on others must give the same bits. */
static void conformance_threads(conformance_run *run, const pco_device_entry *entry, pco_conformance_device *device,
                                pco_conformance_result *result)
{
    enum { MOST_THREADS = 3 };
    conformance_run again = *run;
    for (again.threads = 2; again.threads <= MOST_THREADS && !cli_interrupted() && !result->status; again.threads++) {
        pco_conformance_result other = {0};
        conformance_device(&again, run->arguments->options.seed, entry, device, &other);
        pco_conformance_compare_threads(result, &other);
        pco_conformance_clear(&other, 1);
    }
    run->failed |= again.failed;
}

static int conformance_goes_on(const conformance_run *run)
{
    return !cli_interrupted() && !run->failed && !run->watch.stopped;
}

/* New seeds, as many as were asked for, or until time is up, the run is interrupted, or no device is left. */
static void conformance_soak(conformance_run *run, const pco_device_entry *entries, const uint32_t *indices,
                             uint32_t count, pco_conformance_device *devices, pco_conformance_result *results)
{
    uint32_t usable = 1;
    const uint64_t rounds = run->arguments->seeds ? (uint64_t)run->arguments->seeds : UINT64_MAX;
    for (uint64_t round = 1; round < rounds && usable && conformance_goes_on(run); round++) {
        usable = 0;
        for (uint32_t i = 0; i < count && conformance_goes_on(run); i++) {
            pco_conformance_result more;
            pco_error err;
            if (run->deadline > 0 && pco_seconds() >= run->deadline) return;
            if (results[i].status) continue;
            usable++;
            conformance_device(run, run->arguments->options.seed + round, &entries[indices[i]], &devices[i], &more);
            if (pco_conformance_add_round(&results[i], &more, &err)) {
                cli_error("%s", err.message);
                run->failed = 1;
            }
            pco_conformance_clear(&more, 1);
        }
    }
}

static int conformance_open_files(conformance_run *run, const pco_conformance_device *devices, uint32_t count)
{
    const conformance_arguments *arguments = run->arguments;
    pco_error err;
    pco_status status = PCO_OK;
    if (arguments->waivers) status = pco_conformance_waivers_read(arguments->waivers, &run->waivers, &err);
    if (!status && arguments->log)
        status = pco_conformance_log_open(arguments->log, &arguments->options, devices, count, &run->log, &err);
    if (!status) return 1;
    cli_error("%s", err.message);
    return 0;
}

/* One case on one device, written in this process. */
static int conformance_here(const conformance_arguments *arguments, const pco_registry *registry,
                            const pco_device_entry *entry)
{
    const pco_plugin_entry *plugins;
    pco_registry_plugins(registry, &plugins);
    const pco_plugin_entry *plugin = &plugins[entry->plugin];
    pco_conformance_device device = {plugin->plugin, NULL, &entry->info, entry->id};
    pco_error err = {""};
    if (pco_plugin_open_device(plugin->plugin, plugin->backend, entry->index, &device.device, &err)) {
        cli_error("%s could not be opened: %s", entry->id, err.message);
        return CLI_FAILED;
    }
    pco_status status = conformance_reproduce_here(&arguments->reproducers, &device, &arguments->options);
    plugin->plugin->device->close(device.device);
    if (status == PCO_ERROR_UNSUPPORTED && arguments->internal) return CONFORMANCE_TOO_LARGE;
    return status ? CLI_FAILED : CLI_OK;
}

enum { CONFORMANCE_FOLDER = 1024 };

/* Reproducers go where --reproducers says, and otherwise, of the first failures, into the report; `folder` has room. */
static conformance_reproducers conformance_wanted(const conformance_arguments *arguments, uint32_t count,
                                                  char folder[CONFORMANCE_FOLDER])
{
    conformance_reproducers wanted = arguments->reproducers;
    wanted.several = count > 1;
    wanted.timeout = arguments->timeout;
    if (!wanted.folder && arguments->report.folder) {
        snprintf(folder, CONFORMANCE_FOLDER, "%s/reproducers", arguments->report.folder);
        wanted.folder = folder;
        wanted.most = arguments->max_failures;
    }
    return wanted;
}

/* Writes them; folders[i] is that of devices[i], where there is one, to be freed. Returns 0 when one failed. */
static int conformance_write_reproducers(const conformance_arguments *arguments, const pco_conformance_device *devices,
                                         const pco_conformance_result *results, uint32_t count, char **folders)
{
    char root[CONFORMANCE_FOLDER], folder[CONFORMANCE_FOLDER];
    const conformance_reproducers wanted = conformance_wanted(arguments, count, root);
    int good = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (!conformance_reproduce(&wanted, &devices[i], &arguments->options, &results[i])) good = 0;
        if (!wanted.folder) continue;
        conformance_reproducer_folder(&wanted, devices[i].id, folder, sizeof folder);
        folders[i] = strdup(folder); /* without it the report names none */
    }
    return good;
}

/* With `--devices all` a plugin that could not be loaded stands among the devices, under its file's name, as one that
 * could not be opened: what it would have offered was not judged. Those that have nothing to offer on this machine do
 * not. `entries`, `devices` and `results` have room for one each. Returns how many there are. */
static uint32_t conformance_broken(const conformance_run *run, pco_device_entry *entries,
                                   pco_conformance_device *devices, pco_conformance_result *results)
{
    const pco_plugin_entry *plugins;
    const uint32_t n = pco_registry_plugins(run->registry, &plugins);
    uint32_t count = 0;
    if (!run->arguments->devices || strcmp(run->arguments->devices, "all") != 0) return 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!plugins[i].failed) continue;
        pco_device_entry *entry = &entries[count];
        const char *name = strrchr(plugins[i].path, '/');
        name = name ? name + 1 : plugins[i].path;
        *entry = (pco_device_entry){.plugin = i, .info.size = sizeof entry->info};
        snprintf(entry->id, sizeof entry->id, "%.*s", (int)strcspn(name, "."), name);
        snprintf(entry->info.name, sizeof entry->info.name, "a plugin that could not be loaded");
        snprintf(entry->info.driver, sizeof entry->info.driver, "%.*s", (int)sizeof entry->info.driver - 1,
                 plugins[i].path);
        devices[count] = (pco_conformance_device){.info = &entry->info, .id = entry->id};
        results[count] = (pco_conformance_result){.device_id = entry->id,
                                                  .tier = run->arguments->options.tier,
                                                  .seed = run->arguments->options.seed,
                                                  .status = PCO_ERROR_INTERNAL,
                                                  .not_opened = 1};
        snprintf(results[count].message, sizeof results[count].message, "its plugin could not be loaded: %.220s",
                 plugins[i].reason);
        count++;
    }
    return count;
}

int conformance_devices(const conformance_arguments *arguments, const pco_registry *registry, const uint32_t *indices,
                        uint32_t count)
{
    const pco_device_entry *entries;
    const pco_plugin_entry *plugins;
    const uint32_t room = count + pco_registry_plugins(registry, &plugins);
    pco_registry_devices(registry, &entries);
    if (arguments->reproducers.here) return conformance_here(arguments, registry, &entries[indices[0]]);
    pco_conformance_device *devices = calloc(room, sizeof *devices);
    pco_conformance_result *results = calloc(room, sizeof *results);
    pco_device_entry *broken = calloc(room, sizeof *broken);
    char **folders = calloc(room, sizeof *folders);
    conformance_run run = {.arguments = arguments, .registry = registry, .watch = {.arguments = arguments}};
    int soak = arguments->options.tier == PCO_CONFORMANCE_SOAK || arguments->seeds > 1, status = CLI_FAILED;
    uint32_t done = 0, judged;
    if (arguments->minutes > 0) run.watch.deadline = run.deadline = pco_seconds() + 60 * arguments->minutes;
    if (!devices || !results || !broken || !folders) {
        cli_error("out of host memory");
        goto done;
    }
    for (uint32_t i = 0; i < count; i++)
        devices[i] = (pco_conformance_device){.info = &entries[indices[i]].info, .id = entries[indices[i]].id};
    if (arguments->probe) {
        status = conformance_only_probe(&run, entries, indices, count, devices, results);
        goto done;
    }
    status = CLI_USAGE;
    if (arguments->options.invariance) run.threads = 1;
    if (!conformance_open_files(&run, devices, count)) goto done;
    cli_watch_signals();
    for (int go = 1; go && done < count && !cli_interrupted(); done++)
        go = conformance_device(&run, arguments->options.seed, &entries[indices[done]], &devices[done],
                                &results[done]) ||
             (soak && !run.watch.stopped);
    for (uint32_t i = 0; i < done && soak; i++) {
        pco_error err;
        if (!pco_conformance_start_rounds(&results[i], &err)) continue;
        cli_error("%s", err.message);
        run.failed = 1;
    }
    if (soak && !run.failed) conformance_soak(&run, entries, indices, done, devices, results);
    for (uint32_t i = 0; i < done; i++) conformance_close(&devices[i]);
    for (uint32_t i = 0; i < done && arguments->options.invariance; i++)
        conformance_threads(&run, &entries[indices[i]], &devices[i], &results[i]);
    for (uint32_t i = 0; i < done && arguments->report.folder && !cli_interrupted(); i++)
        if (!results[i].not_opened && conformance_probes(&run, &entries[indices[i]], &results[i])) break;
    if (!cli_interrupted()) cli_forget_signals();
    judged = done + conformance_broken(&run, broken, devices + done, results + done);
    if (!conformance_write_reproducers(arguments, devices, results, done, folders)) run.failed = 1;
    if (run.resumed) cli_note("conformance: %u cases were in the log already\n", run.resumed);
    if (cli_interrupted() && !soak) cli_error("interrupted");
    status = arguments->options.compile_only
                 ? conformance_print_compiled(arguments, results, devices, judged,
                                              run.failed || done < count || cli_interrupted())
                 : conformance_report(arguments, results, devices, judged, (const char *const *)folders, run.waivers,
                                      run.failed || conformance_own_failed(arguments) || (!soak && done < count) ||
                                          (!soak && cli_interrupted()));
    if (!soak) status = cli_exit_status(status); /* a soak is ended so */
    pco_conformance_clear(results, judged);
done:
    pco_conformance_log_close(run.log);
    pco_conformance_waivers_destroy(run.waivers);
    for (uint32_t i = 0; folders && i < room; i++) free(folders[i]);
    free(folders);
    free(broken);
    free(devices);
    free(results);
    return status;
}
