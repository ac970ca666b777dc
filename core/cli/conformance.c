/* portico conformance: which operation is wrong on a device, by how much, and how to see it again. */
#include "cli/cli.h"
#include "cli/conformance_bisect.h"
#include "cli/conformance_reproduce.h"

#include "conformance.h"
#include "graph/op.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFORMANCE_TOKENS = 2 }; /* behind the prompt, when a model is bisected */

static volatile sig_atomic_t conformance_interrupted;

static void conformance_interrupt(int number)
{
    (void)number;
    conformance_interrupted = 1;
}

typedef struct conformance_arguments {
    const char *devices;
    int json, verbose;
    uint32_t max_failures;
    conformance_reproducers reproducers;
    conformance_bisect_arguments bisect;
    pco_conformance_options options;
} conformance_arguments;

/* What the callback needs. */
typedef struct conformance_watch {
    const conformance_arguments *arguments;
    const pco_conformance_device *device; /* the one whose line is being printed */
    cli_progress progress;
    uint32_t failed;
} conformance_watch;

static int conformance_progress(void *user, const pco_conformance_progress *progress)
{
    conformance_watch *watch = user;
    const pco_conformance_case *last = progress->last;
    if (watch->device != progress->device) {
        cli_progress_end(&watch->progress);
        cli_progress_start(&watch->progress, progress->device->id, "cases");
        watch->device = progress->device;
        watch->failed = 0;
    }
    if (watch->arguments->verbose) {
        cli_progress_end(&watch->progress);
        fprintf(stderr, "%s %s #%08x %s [%s]: %s, error/bound %.3g%s%s\n", progress->device->id,
                last->op_name, last->id, last->label, last->variant, pco_conformance_state_name(last->state),
                last->ratio, *last->detail ? ": " : "", last->detail);
    } else if (last->state == PCO_CASE_FAIL && watch->failed++ < 3) {
        cli_progress_end(&watch->progress);
        fprintf(stderr, "%s: %s fails: %s\n", progress->device->id, last->op_name, last->repeat);
    }
    cli_progress_update(&watch->progress, progress->done, progress->total);
    return !conformance_interrupted;
}

/* "0.123", "inf", or "0" for exact rows. */
static const char *conformance_ratio(double ratio, char *text)
{
    snprintf(text, 32, isinf(ratio) ? "inf" : ratio == 0 ? "0" : "%.3f", ratio);
    return text;
}

static void conformance_table(const pco_conformance_result *result, const pco_conformance_device *device)
{
    char median[32], most[32];
    printf("%s: %s, %s\n", device->id, device->info->name, device->info->driver);
    printf("  %-29s %6s %6s %5s %7s %8s  %7s %7s\n", "op", "cases", "pass", "fail", "unsup.", "variants",
           "median", "max");
    for (uint32_t i = 0; i < result->n_ops; i++) {
        const pco_conformance_op *op = &result->ops[i];
        uint32_t cases = 0, bad = 0;
        for (int s = 0; s < PCO_CASE_STATES; s++) {
            cases += op->count[s];
            if (pco_conformance_state_is_bad((pco_conformance_state)s)) bad += op->count[s];
        }
        printf("  %-29s %6u %6u %5u %7u %8u  %7s %7s%s\n", op->name, cases, op->count[PCO_CASE_PASS], bad,
               op->count[PCO_CASE_UNSUPPORTED], op->variants, conformance_ratio(op->median_ratio, median),
               conformance_ratio(op->max_ratio, most), bad ? "  <- fails" : "");
    }
    if (result->n_ops == 0) printf("  nothing was tested: no case has such a variant\n");
    for (uint32_t i = 0; i < result->n_ops; i++)
        if (result->ops[i].count[PCO_CASE_UNSUPPORTED]) {
            printf("  unsupported: ");
            int column = 15 + printf("%s: ", result->ops[i].name);
            cli_wrap(result->ops[i].reason, column, 15);
        }
    printf("  %u passed, %u failed, %u mistrusted, %u unsupported, %u not promised; tier %s, seed %" PRIu64
           ", %.1f s\n",
           result->count[PCO_CASE_PASS], result->count[PCO_CASE_FAIL], result->count[PCO_CASE_MISTRUSTED],
           result->count[PCO_CASE_UNSUPPORTED], result->count[PCO_CASE_NOT_PROMISED],
           pco_conformance_tier_name(result->tier), result->seed, result->seconds);
    if (result->status) printf("  stopped: %s\n", result->message);
}

/* Describes the first `most` cases that went wrong. */
static void conformance_failures(const pco_conformance_result *result, uint32_t most)
{
    uint32_t shown = 0, all = 0;
    for (uint32_t i = 0; i < result->n_cases; i++) {
        const pco_conformance_case *one = &result->cases[i];
        if (!pco_conformance_state_is_bad(one->state) || all++ >= most) continue;
        shown++;
        printf("\n  %s #%08x %s, variant %s: %s\n", one->op_name, one->id, one->label, one->variant,
               pco_conformance_state_name(one->state));
        printf("    ");
        cli_wrap(one->detail, 4, 4);
        if (one->wrong) printf("    error / bound: %.3g\n", one->ratio);
        printf("    again: %s\n", one->repeat);
    }
    if (all > shown) printf("\n  and %u more\n", all - shown);
}

/* An op pattern that names nothing is most likely a slip: say what there is. */
static int conformance_check_ops(const char *patterns)
{
    uint32_t count;
    const pco_op_info *table = pco_op_table(&count);
    for (const char *at = patterns; at && *at;) {
        char pattern[128];
        size_t length = strcspn(at, ",");
        uint32_t found = 0;
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, at);
        at += length + (at[length] == ',');
        for (uint32_t i = 0; i < count; i++) found += fnmatch(pattern, table[i].name, 0) == 0;
        if (found) continue;
        cli_error("no op matches '%s'; `portico ops` lists them", pattern);
        return 0;
    }
    return 1;
}

/* Cases are known by up to eight hexadecimal digits. */
static int conformance_case_id(const char *text, uint32_t *id)
{
    size_t length = strlen(text);
    *id = 0;
    if (length >= 1 && length <= 8 && strspn(text, "0123456789abcdefABCDEF") == length)
        *id = (uint32_t)strtoul(text, NULL, 16);
    if (*id) return 1;
    cli_error("option --case: '%s' is no case: up to eight hexadecimal digits, as a failure prints them",
              text);
    return 0;
}

static int conformance_check_reproducers(const conformance_reproducers *wanted,
                                         const conformance_bisect_arguments *bisect,
                                         const pco_conformance_options *options)
{
    if ((wanted->always || wanted->no_run) && !wanted->folder) {
        cli_error("option %s needs --reproducers", wanted->always ? "--always" : "--no-run");
        return 0;
    }
    if (!bisect->model && (bisect->prompt || bisect->context || bisect->max_tokens != CONFORMANCE_TOKENS)) {
        cli_error("options --prompt, -n and --context belong to --bisect");
        return 0;
    }
    if (!wanted->no_run || (options->ops && options->case_id && options->variant)) return 1;
    cli_error("option --no-run needs --ops, --case and --variant, as a failure prints them");
    return 0;
}

static int conformance_parse(int argc, char **argv, conformance_arguments *arguments)
{
    pco_conformance_options *options = &arguments->options;
    for (int i = 1; i < argc; i++) {
        const char *value = NULL;
        int64_t number;
        int m = cli_option(argc, argv, &i, "--devices", NULL, &arguments->devices);
        if (!m) m = cli_option(argc, argv, &i, "--ops", NULL, &options->ops);
        if (!m) m = cli_option(argc, argv, &i, "--variant", NULL, &options->variant);
        if (!m && (m = cli_option(argc, argv, &i, "--json", NULL, NULL)) > 0) arguments->json = 1;
        if (!m) m = cli_option(argc, argv, &i, "--reproducers", NULL, &arguments->reproducers.folder);
        if (!m) m = cli_option(argc, argv, &i, "--bisect", NULL, &arguments->bisect.model);
        if (!m) m = cli_option(argc, argv, &i, "--prompt", "-p", &arguments->bisect.prompt);
        if (!m && (m = cli_option(argc, argv, &i, "--max-tokens", "-n", &value)) > 0 &&
            !cli_integer("-n", value, 1, 1 << 20, &arguments->bisect.max_tokens))
            return CLI_USAGE;
        if (!m && (m = cli_option(argc, argv, &i, "--context", NULL, &value)) > 0 &&
            !cli_integer("--context", value, 1, 1 << 24, &arguments->bisect.context))
            return CLI_USAGE;
        if (!m && (m = cli_option(argc, argv, &i, "--always", NULL, NULL)) > 0)
            arguments->reproducers.always = 1;
        if (!m && (m = cli_option(argc, argv, &i, "--no-run", NULL, NULL)) > 0)
            arguments->reproducers.no_run = 1;
        if (!m && (m = cli_option(argc, argv, &i, "--verbose", "-v", NULL)) > 0) arguments->verbose = 1;
        if (!m && (m = cli_option(argc, argv, &i, "--tier", NULL, &value)) > 0 &&
            !pco_conformance_tier_parse(value, &options->tier)) {
            cli_error("option --tier: '%s' is none of quick, standard, tiny", value);
            return CLI_USAGE;
        }
        if (!m && (m = cli_option(argc, argv, &i, "--seed", NULL, &value)) > 0) {
            if (!cli_integer("--seed", value, 0, INT64_MAX, &number)) return CLI_USAGE;
            options->seed = (uint64_t)number;
        }
        if (!m && (m = cli_option(argc, argv, &i, "--case", NULL, &value)) > 0 &&
            !conformance_case_id(value, &options->case_id))
            return CLI_USAGE;
        if (!m && (m = cli_option(argc, argv, &i, "--max-failures", NULL, &value)) > 0) {
            if (!cli_integer("--max-failures", value, 1, 100000, &number)) return CLI_USAGE;
            arguments->max_failures = (uint32_t)number;
        }
        if (m < 0) return CLI_USAGE;
        if (!m) return cli_unknown("conformance", argv[i]);
    }
    if (!conformance_check_ops(options->ops)) return CLI_USAGE;
    if (!conformance_check_reproducers(&arguments->reproducers, &arguments->bisect, options))
        return CLI_USAGE;
    if (pco_conformance_count(options) == 0) {
        cli_error("no case matches: tier %s, ops '%s', case %x", pco_conformance_tier_name(options->tier),
                  options->ops ? options->ops : "*", options->case_id);
        return CLI_USAGE;
    }
    return CLI_OK;
}

/* Prints what was found, and judges it. `opened` results are filled. */
static int conformance_report(const conformance_arguments *arguments, const pco_conformance_result *results,
                              const pco_conformance_device *devices, uint32_t opened, uint32_t broken)
{
    pco_error err;
    if (arguments->json) {
        if (pco_conformance_write_json(results, devices, opened, stdout, &err)) return cli_fail(&err);
    } else {
        for (uint32_t i = 0; i < opened; i++) {
            if (i) putchar('\n');
            conformance_table(&results[i], &devices[i]);
            conformance_failures(&results[i], arguments->max_failures);
        }
    }
    pco_conformance_verdict verdict = pco_conformance_judge(results, opened);
    fprintf(stderr, "conformance: %s\n",
            verdict == PCO_VERDICT_FAIL || broken ? "FAILED"
            : verdict == PCO_VERDICT_PASS         ? "passed"
                                                  : "NOTHING TESTED on a device");
    if (verdict == PCO_VERDICT_FAIL || broken) return CLI_FAILED;
    return verdict == PCO_VERDICT_PASS ? CLI_OK : CLI_USAGE;
}

/* Devices are opened one after the other, so that one that hangs in its driver does not keep the others. */
static int conformance_devices(const conformance_arguments *arguments, const pco_registry *registry,
                               const uint32_t *indices, uint32_t count)
{
    const pco_device_entry *entries;
    const pco_plugin_entry *plugins;
    pco_registry_devices(registry, &entries);
    pco_registry_plugins(registry, &plugins);
    pco_conformance_device *devices = calloc(count, sizeof *devices);
    pco_conformance_result *results = calloc(count, sizeof *results);
    conformance_watch watch = {.arguments = arguments};
    pco_conformance_options options = arguments->options;
    conformance_reproducers reproducers = arguments->reproducers;
    reproducers.several = count > 1;
    options.progress = conformance_progress;
    options.user = &watch;
    uint32_t opened = 0, broken = 0;
    int status = CLI_FAILED;
    for (uint32_t i = 0; devices && results && i < count && !conformance_interrupted; i++) {
        const pco_device_entry *entry = &entries[indices[i]];
        const pco_plugin_entry *plugin = &plugins[entry->plugin];
        pco_device *device;
        pco_error err = {""};
        if (plugin->plugin->open(plugin->backend, entry->index, &device, &err)) {
            cli_error("%s cannot be opened: %s", entry->id, err.message);
            broken++;
            continue;
        }
        devices[opened] = (pco_conformance_device){plugin->plugin, device, &entry->info, entry->id};
        if (arguments->reproducers.no_run) {
            if (conformance_reproduce_unseen(&reproducers, &devices[opened], &options)) status = CLI_OK;
            plugin->plugin->device->close(device);
            free(devices);
            free(results);
            return status;
        }
        if (pco_conformance_run(&options, &devices[opened], 1, &results[opened], &err)) {
            if (!conformance_interrupted) cli_error("%s: %s", entry->id, err.message);
            broken++;
        }
        cli_progress_end(&watch.progress);
        if (!conformance_reproduce(&reproducers, &devices[opened], &results[opened])) broken++;
        opened++;
        plugin->plugin->device->close(device);
        devices[opened - 1].device = NULL;
    }
    if (conformance_interrupted) cli_error("interrupted");
    if (devices && results)
        status = conformance_report(arguments, results, devices, opened, broken || conformance_interrupted);
    if (results) pco_conformance_clear(results, opened);
    free(devices);
    free(results);
    return status;
}

static int conformance_run(int argc, char **argv)
{
    conformance_arguments arguments = {.max_failures = 20,
                                       .bisect.max_tokens = CONFORMANCE_TOKENS,
                                       .options = {.tier = PCO_CONFORMANCE_QUICK}};
    int status = conformance_parse(argc, argv, &arguments);
    if (status) return status;
    if (arguments.bisect.model) {
        arguments.bisect.devices = arguments.devices;
        arguments.bisect.reproducers = &arguments.reproducers;
        return conformance_bisect(&arguments.bisect);
    }
    pco_registry *registry = cli_registry(&status);
    if (!registry) return status;
    uint32_t *indices, count = cli_select_devices(registry, arguments.devices, &indices, &status);
    if (!count) status = CLI_USAGE; /* nothing was tested */
    signal(SIGINT, conformance_interrupt);
    if (count) status = conformance_devices(&arguments, registry, indices, count);
    signal(SIGINT, SIG_DFL);
    free(indices);
    pco_registry_destroy(registry);
    return status;
}

const cli_command cli_conformance = {
    .name = "conformance",
    .summary = "judge a device, one operation at a time, against a float64 oracle",
    .help =
        "usage: portico conformance [--devices LIST] [--ops PATTERN] [--tier TIER] [--variant PATTERN]\n"
        "                           [--seed S] [--case ID] [--max-failures N] [--json] [--verbose]\n"
        "                           [--reproducers DIR [--always | --no-run]]\n"
        "       portico conformance --bisect MODEL [--devices LIST] [--prompt TEXT] [-n N] [--context N]\n"
        "                           [--reproducers DIR]\n\n"
        "Runs every operation on small operands, in every kernel variant that the device has for it,\n"
        "and compares each element with a result computed in double. The bound comes from the device's\n"
        "numeric contract (`portico devices`); the table shows error divided by bound: below 1 passes.\n\n"
        "  --devices LIST     devices, separated by commas (each must match one), or `all`; default:\n"
        "                     the device that PORTICO_BACKEND names, or the default\n"
        "  --ops PATTERN      names of operations, `*` and `?` allowed, several with commas:\n"
        "                     matmul,*_norm\n"
        "  --tier TIER        quick (default): every op, type and variant at a few shapes; standard: at\n"
        "                     all shapes; tiny: for slow interpreters\n"
        "  --variant PATTERN  only kernel variants of that name\n"
        "  --seed S           other random operands (default 0)\n"
        "  --case ID          only that case; failures print the command that repeats each\n"
        "  --max-failures N   failing cases that are described, per device (default 20)\n"
        "  --reproducers DIR  write a folder into DIR for each failure, with all that shows it again,\n"
        "                     without Portico too; --always: for cases that pass as well; --no-run: for\n"
        "                     one case (--ops, --case, --variant) without running it\n"
        "  --bisect MODEL     run a model's operations one by one, each on the operands that cpu:reference\n"
        "                     made, find the first that is out of its bound and make it small; --prompt\n"
        "                     TEXT, -n N (tokens behind the prompt, default 2), --context N\n"
        "  --json             one object instead of tables\n"
        "  --verbose, -v      a line on stderr for each case and variant\n\n"
        "Exit status: 0 nothing failed, 1 something failed or the run was interrupted, 2 nothing was\n"
        "tested: wrong usage, no such device, operation, case or variant.\n",
    .run = conformance_run,
};
