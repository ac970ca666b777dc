/* portico conformance: which operation is wrong on a device, by how much, and how to see it again. */
#include "cli/conformance_parts.h"

#include "graph/op.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFORMANCE_TOKENS = 2 }; /* behind the prompt, when a model is bisected */

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

/* Options of a worker process, which the help does not mention. */
static int conformance_parse_worker(int argc, char **argv, int *i, conformance_arguments *arguments)
{
    const char *value = NULL;
    int64_t number;
    int m = cli_option(argc, argv, i, "--plugin", NULL, &arguments->plugin);
    if (!m) m = cli_option(argc, argv, i, "--id", NULL, &arguments->id);
    if (!m && (m = cli_option(argc, argv, i, "--worker", NULL, NULL)) > 0) arguments->worker = 1;
    if (!m && (m = cli_option(argc, argv, i, "--index", NULL, &value)) > 0) {
        if (!cli_integer("--index", value, 0, UINT32_MAX, &number)) return -1;
        arguments->index = (uint32_t)number;
    }
    return m;
}

/* How the cases are run. */
static int conformance_parse_run(int argc, char **argv, int *i, conformance_arguments *arguments)
{
    const char *value = NULL;
    int64_t number;
    int m = cli_option(argc, argv, i, "--log", NULL, &arguments->log);
    if (!m) m = cli_option(argc, argv, i, "--waivers", NULL, &arguments->waivers);
    if (!m && (m = cli_option(argc, argv, i, "--in-process", NULL, NULL)) > 0) arguments->in_process = 1;
    if (!m && (m = cli_option(argc, argv, i, "--jobs", NULL, &value)) > 0) {
        if (!cli_integer("--jobs", value, 1, 256, &number)) return -1;
        arguments->jobs = (uint32_t)number;
    }
    if (!m && (m = cli_option(argc, argv, i, "--timeout", NULL, &value)) > 0 &&
        !cli_number("--timeout", value, 0.1, 1e6, &arguments->timeout))
        return -1;
    if (!m && (m = cli_option(argc, argv, i, "--minutes", NULL, &value)) > 0 &&
        !cli_number("--minutes", value, 0.001, 1e6, &arguments->minutes))
        return -1;
    return m;
}

/* Options that contradict each other. */
static int conformance_check(const conformance_arguments *arguments)
{
    if (arguments->in_process && (arguments->log || arguments->jobs || arguments->timeout > 0)) {
        cli_error("conformance: --in-process runs without workers: there is no %s then",
                  arguments->log    ? "--log"
                  : arguments->jobs ? "--jobs"
                                    : "--timeout");
        return 0;
    }
    if (arguments->minutes > 0 && arguments->options.tier != PCO_CONFORMANCE_SOAK) {
        cli_error("conformance: --minutes is for --tier soak; other tiers run once");
        return 0;
    }
    return 1;
}

/* Reproducers, and the bisection of a model. */
static int conformance_parse_more(int argc, char **argv, int *i, conformance_arguments *arguments)
{
    const char *value = NULL;
    int m = cli_option(argc, argv, i, "--reproducers", NULL, &arguments->reproducers.folder);
    if (!m) m = cli_option(argc, argv, i, "--bisect", NULL, &arguments->bisect.model);
    if (!m) m = cli_option(argc, argv, i, "--prompt", "-p", &arguments->bisect.prompt);
    if (!m && (m = cli_option(argc, argv, i, "--max-tokens", "-n", &value)) > 0 &&
        !cli_integer("-n", value, 1, 1 << 20, &arguments->bisect.max_tokens))
        return -1;
    if (!m && (m = cli_option(argc, argv, i, "--context", NULL, &value)) > 0 &&
        !cli_integer("--context", value, 1, 1 << 24, &arguments->bisect.context))
        return -1;
    if (!m && (m = cli_option(argc, argv, i, "--always", NULL, NULL)) > 0) arguments->reproducers.always = 1;
    if (!m && (m = cli_option(argc, argv, i, "--no-run", NULL, NULL)) > 0)
        arguments->reproducers.no_run = arguments->reproducers.here = 1;
    if (!m && (m = cli_option(argc, argv, i, "--here", NULL, NULL)) > 0) arguments->reproducers.here = 1;
    return m;
}

static int conformance_check_more(const conformance_arguments *arguments)
{
    const conformance_reproducers *wanted = &arguments->reproducers;
    const conformance_bisect_arguments *bisect = &arguments->bisect;
    const pco_conformance_options *options = &arguments->options;
    if ((wanted->always || wanted->here) && !wanted->folder) {
        cli_error("option %s needs --reproducers", wanted->always ? "--always" : "--no-run");
        return 0;
    }
    if (!bisect->model && (bisect->prompt || bisect->context || bisect->max_tokens != CONFORMANCE_TOKENS)) {
        cli_error("options --prompt, -n and --context belong to --bisect");
        return 0;
    }
    if (!wanted->here || (options->ops && options->case_id && options->variant)) return 1;
    cli_error("option --no-run needs --ops, --case and --variant, as a failure prints them");
    return 0;
}

static int conformance_judging(const char *name, pco_conformance_judging *judging)
{
    static const char *const NAMES[] = {"bounds", "nmse", "field"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, NAMES[i]) == 0) {
            *judging = (pco_conformance_judging)i;
            return 1;
        }
    cli_error("option --judge: '%s' is none of bounds, nmse, field", name);
    return 0;
}

static int conformance_parse(int argc, char **argv, conformance_arguments *arguments)
{
    pco_conformance_options *options = &arguments->options;
    for (int i = 1; i < argc; i++) {
        const char *value = NULL;
        int64_t number;
        int m = cli_option(argc, argv, &i, "--devices", NULL, &arguments->devices);
        if (!m) m = conformance_parse_worker(argc, argv, &i, arguments);
        if (!m) m = conformance_parse_run(argc, argv, &i, arguments);
        if (!m) m = conformance_parse_more(argc, argv, &i, arguments);
        if (!m) m = cli_option(argc, argv, &i, "--ops", NULL, &options->ops);
        if (!m) m = cli_option(argc, argv, &i, "--variant", NULL, &options->variant);
        if (!m && (m = cli_option(argc, argv, &i, "--json", NULL, NULL)) > 0) arguments->json = 1;
        if (!m && (m = cli_option(argc, argv, &i, "--verbose", "-v", NULL)) > 0) arguments->verbose = 1;
        if (!m && (m = cli_option(argc, argv, &i, "--fail-fast", NULL, NULL)) > 0) arguments->fail_fast = 1;
        if (!m && (m = cli_option(argc, argv, &i, "--judge", NULL, &value)) > 0 &&
            !conformance_judging(value, &options->judging))
            return CLI_USAGE;
        if (!m && (m = cli_option(argc, argv, &i, "--tier", NULL, &value)) > 0 &&
            !pco_conformance_tier_parse(value, &options->tier)) {
            cli_error("option --tier: '%s' is none of quick, standard, full, soak, tiny", value);
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
        if (!m) m = cli_report_option(argc, argv, &i, &arguments->report);
        if (m < 0) return CLI_USAGE;
        if (!m) return cli_unknown("conformance", argv[i]);
    }
    if (arguments->worker) return CLI_OK;
    if (!conformance_check(arguments) || !conformance_check_more(arguments)) return CLI_USAGE;
    if (!conformance_check_ops(options->ops)) return CLI_USAGE;
    if (pco_conformance_count(options) == 0) {
        cli_error("no case matches: tier %s, ops '%s', case %x", pco_conformance_tier_name(options->tier),
                  options->ops ? options->ops : "*", options->case_id);
        return CLI_USAGE;
    }
    return CLI_OK;
}

/* Runs on the devices that were chosen. */
static int conformance_start(const conformance_arguments *arguments)
{
    int status = CLI_OK;
    pco_registry *registry = cli_registry(&status);
    if (!registry) return status;
    uint32_t *indices, count = cli_select_devices(registry, arguments->devices, &indices, &status);
    if (!count) status = CLI_USAGE; /* nothing was tested */
    if (count) status = conformance_devices(arguments, registry, indices, count);
    free(indices);
    pco_registry_destroy(registry);
    return status;
}

static int conformance_main(int argc, char **argv)
{
    conformance_arguments arguments = {.max_failures = 20,
                                       .bisect.max_tokens = CONFORMANCE_TOKENS,
                                       .options = {.tier = PCO_CONFORMANCE_QUICK}};
    int status = conformance_parse(argc, argv, &arguments);
    if (status) return status;
    if (arguments.worker) return conformance_worker(&arguments);
    if (arguments.bisect.model) {
        arguments.bisect.devices = arguments.devices;
        arguments.bisect.reproducers = &arguments.reproducers;
        return conformance_bisect(&arguments.bisect);
    }
    arguments.report.json = arguments.json;
    status = cli_report_begin(&arguments.report);
    if (status == CLI_OK)
        status = arguments.report.verify
                     ? cli_report_verify(&arguments.report, arguments.devices, arguments.options.seed)
                     : conformance_start(&arguments);
    cli_report_clear(&arguments.report);
    return status;
}

const cli_command cli_conformance = {
    .name = "conformance",
    .summary = "judge a device, one operation at a time, against a float64 oracle",
    .help =
        "usage: portico conformance [--devices LIST] [--ops PATTERN] [--tier TIER] [--variant PATTERN]\n"
        "                           [--seed S] [--case ID] [--jobs N] [--timeout SECONDS] [--log FILE]\n"
        "                           [--waivers FILE] [--minutes N] [--max-failures N] [--json] [--verbose]\n"
        "                           [--in-process] [--fail-fast] [--judge JUDGE] [--report DIR] [--baseline "
        "DIR [--factor F]]\n"
        "                           [--reproducers DIR [--always | --no-run]]\n"
        "       portico conformance --bisect MODEL [--devices LIST] [--prompt TEXT] [-n N] [--context N]\n"
        "                           [--reproducers DIR]\n"
        "       portico conformance --verify DIR [--rerun N [--devices LIST] [--seed S]] [--baseline DIR]\n\n"
        "Runs every operation on small operands, in every kernel variant that the device has for it,\n"
        "and compares each element with a result computed in double. The bound comes from the device's\n"
        "numeric contract (`portico devices`); the table shows error divided by bound: below 1 passes.\n"
        "Cases run in processes of their own: a crash, a hang or a lost device is a result, and the run\n"
        "goes on. docs/conformance.md describes states, waivers and logs.\n\n"
        "  --devices LIST     devices, separated by commas (each must match one), or `all`; default:\n"
        "                     the device that PORTICO_BACKEND names, or the default\n"
        "  --ops PATTERN      names of operations, `*` and `?` allowed, several with commas:\n"
        "                     matmul,*_norm\n"
        "  --tier TIER        quick (default): every op, type and variant at a few shapes; standard: at\n"
        "                     all shapes; full: with what takes hours or much memory; soak: full again\n"
        "                     and again with new seeds; tiny: for slow interpreters\n"
        "  --variant PATTERN  only kernel variants of that name\n"
        "  --seed S           other random operands (default 0)\n"
        "  --case ID          only that case; failures print the command that repeats each\n"
        "  --jobs N           worker processes at once (default: all processors for software devices, 1 for\n"
        "                     others); the result does not depend on it\n"
        "  --timeout SECONDS  a variant of a case that takes longer is hung (default 120; full, soak: 600)\n"
        "  --log FILE         what is finished is kept there, and a run that was ended goes on from it\n"
        "  --waivers FILE     failures that are expected, each with a reason\n"
        "  --minutes N        a soak ends then (default: with Ctrl-C)\n"
        "  --in-process       without worker processes, for debuggers: a crash ends the run\n"
        "  --max-failures N   failing cases that are described, per device (default 20)\n"
        "  --fail-fast        stop at the first failure\n"
        "  --judge JUDGE      bounds (default); for comparison only: nmse or field, a norm over each\n"
        "                     output of uniform operands, as other suites judge (docs/conformance.md)\n"
        "  --reproducers DIR  write a folder into DIR for each failure, with all that shows it again,\n"
        "                     without Portico too; --always: for cases that pass as well; --no-run: for\n"
        "                     one case (--ops, --case, --variant) without running it\n"
        "  --bisect MODEL     run a model's operations one by one, each on the operands that cpu:reference\n"
        "                     made, find the first that is out of its bound and make it small; --prompt\n"
        "                     TEXT, -n N (tokens behind the prompt, default 2), --context N\n"
        "  --json             one object instead of tables\n"
        "  --verbose, -v      a line on stderr for each case and variant\n"
        "  --report DIR       also write DIR/report.html, report.json and junit.xml, and reproducers of the\n"
        "                     first failures into DIR/reproducers\n"
        "  --baseline DIR     compare with an earlier report; a regression makes the run fail\n"
        "  --factor F         error/bound has grown when it is above F times what it was (default 2)\n"
        "  --verify DIR       runs nothing: is that report unaltered, complete and a pass?\n"
        "  --rerun N          then repeats N of its cases on the device; --seed S draws the same again\n\n"
        "Exit status: 0 nothing failed, 1 something failed or the run was interrupted, 2 nothing was\n"
        "tested: wrong usage, no such device, operation, case or variant, or a folder that holds no "
        "report.\n",
    .run = conformance_main,
};
