/* portico conformance: which operation is wrong on a device, by how much, and how to see it again. */
#include "cli/child.h"
#include "cli/conformance_parts.h"

#include <stdlib.h>

enum { CONFORMANCE_TOKENS = 2 }; /* behind the prompt, when a model is bisected */

/* Has one of the devices such cases at all? */
static int conformance_has_cases(const conformance_arguments *arguments, const pco_registry *registry,
                                 const uint32_t *indices, uint32_t count)
{
    const pco_conformance_options *options = &arguments->options;
    const pco_device_entry *entries;
    char scope[PCO_CONFORMANCE_SCOPE_TEXT];
    pco_registry_devices(registry, &entries);
    for (uint32_t i = 0; i < count; i++)
        if (pco_conformance_count(options, &entries[indices[i]].info)) return 1;
    cli_error("no case matches: tier %s, ops '%s', case %x",
              pco_conformance_scope(options->tier, options->slice, scope),
              options->ops ? options->ops : "*", options->case_id);
    return 0;
}

/* Runs on the devices that were chosen. */
static int conformance_start(const conformance_arguments *arguments)
{
    int status = CLI_OK;
    pco_registry *registry = cli_registry(&status);
    if (!registry) return status;
    uint32_t *indices, count = cli_select_devices(registry, arguments->devices, &indices, &status);
    if (!count && status == CLI_OK) status = CLI_USAGE; /* nothing was tested */
    if (count > 1 && arguments->reproducers.here) {
        cli_error("conformance: --no-run prepares a case on one device, and --devices names %u", count);
        status = CLI_USAGE;
    } else if (count && !arguments->probe && !conformance_has_cases(arguments, registry, indices, count)) {
        status = CLI_USAGE;
    } else if (count) {
        status = conformance_devices(arguments, registry, indices, count);
    }
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
    if (arguments.bisect.child || arguments.reproducers.here) cli_child_begin();
    if (arguments.bisect.model) {
        arguments.bisect.devices = arguments.devices;
        arguments.bisect.reproducers = &arguments.reproducers;
        arguments.bisect.timeout = arguments.timeout;
        arguments.bisect.in_process = arguments.in_process;
        return conformance_bisect(&arguments.bisect);
    }
    arguments.report.json = arguments.json;
    cli_report_command(&arguments.report, argc, argv);
    const cli_report_rerun rerun = {arguments.devices, arguments.options.seed, arguments.timeout,
                                    arguments.in_process};
    status = cli_report_begin(&arguments.report);
    if (status == CLI_OK)
        status = arguments.report.verify
                     ? cli_report_verify(&arguments.report, &rerun)
                     : conformance_start(&arguments);
    cli_report_clear(&arguments.report);
    return status;
}

const cli_command cli_conformance = {
    .name = "conformance",
    .summary = "judge a device, one operation at a time, against a float64 oracle",
    .help =
        "usage: portico conformance [--devices LIST] [--ops PATTERN] [--tier TIER] [--slice K/N]\n"
        "                           [--variant PATTERN] [--seed S] [--case ID] [--jobs N]\n"
        "                           [--timeout SECONDS] [--log FILE]\n"
        "                           [--waivers FILE] [--seeds N] [--minutes N] [--max-failures N] [--json]\n"
        "                           [--verbose] [--in-process] [--fail-fast] [--judge JUDGE] [--replays N]\n"
        "                           [--invariance]\n"
        "                           [--report DIR] [--baseline DIR [--factor F]]\n"
        "                           [--reproducers DIR [--always | --no-run]]\n"
        "       portico conformance --bisect MODEL [--devices LIST] [--prompt TEXT] [-n N] [--context N]\n"
        "                           [--reproducers DIR] [--timeout SECONDS] [--in-process]\n"
        "       portico conformance --probe [--devices LIST] [--timeout SECONDS] [--in-process] [--json]\n"
        "       portico conformance --verify DIR [--rerun N [--devices LIST] [--seed S] [--timeout SECONDS]\n"
        "                           [--in-process]] [--baseline DIR [--factor F]] [--json]\n\n"
        "Runs every operation on small operands, in every kernel variant that the device has for it,\n"
        "and compares each element with a result computed in double. The bound comes from the device's\n"
        "numeric contract (`portico devices`); the table shows error divided by bound: below 1 passes.\n"
        "Cases run in processes of their own: a crash, a hang or a lost device is a result, and the run\n"
        "goes on. docs/conformance.md describes states, waivers and logs.\n\n"
        "  --devices LIST     devices, separated by commas (each must match one), or `all`; default:\n"
        "                     the device that PORTICO_BACKEND names, or the default. With `all` a plugin that\n"
        "                     cannot be loaded is a failure, unless there is no driver for it here\n"
        "  --ops PATTERN      names of operations, `*` and `?` allowed, several with commas:\n"
        "                     matmul,*_norm\n"
        "  --tier TIER        quick (default): every op, type and variant at a few shapes; standard: at\n"
        "                     all shapes; full: with what takes hours or much memory; soak: full again\n"
        "                     and again with new seeds; tiny: for slow interpreters\n"
        "  --slice K/N        of N slices of the tier the Kth: for devices whose compilers are slow; a case is\n"
        "                     in the same slice on every device, and in exactly one\n"
        "  --variant PATTERN  only kernel variants of that name\n"
        "  --seed S           other random operands (default 0)\n"
        "  --case ID          only that case; failures print the command that repeats each\n"
        "  --jobs N           worker processes at once (default: all processors for software devices, 1 for\n"
        "                     others); the result does not depend on it\n"
        "  --timeout SECONDS  a variant of a case that takes longer is hung (default 120; full, soak: 600);\n"
        "                     with --bisect, a node\n"
        "  --log FILE         what is finished is kept there, and a run that was ended goes on from it\n"
        "  --waivers FILE     failures that are expected, each with a reason\n"
        "  --seeds N          N seeds one after the other, from --seed on; with --in-process each kernel is\n"
        "                     compiled once for all of them\n"
        "  --replays N        each program is executed N times more; results are judged, and how many differ is\n"
        "                     counted, with the rate that N clean replays exclude (95 % confidence)\n"
        "  --invariance       all cases in pieces, and with 1, 2 and 3 threads of the cpu plugin: is each result the\n"
        "                     same bits alone, in chunks and on any number of threads? A table by operation\n"
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
        "  --probe            no cases: what the device does with numbers (width and order of its sums, rounding,\n"
        "                     subnormals, fused products, errors of functions), against its contract, and a\n"
        "                     fingerprint of it; a report has it too\n"
        "  --json             one object instead of tables\n"
        "  --verbose, -v      a line on stderr for each case and variant\n"
        "  --report DIR       also write DIR/report.html, report.json and junit.xml, and reproducers of the\n"
        "                     first failures into DIR/reproducers\n"
        "  --baseline DIR     compare with an earlier report; a regression makes the run fail\n"
        "  --factor F         error/bound has grown when it is above F times what it was (default 2)\n"
        "  --verify DIR       runs nothing: is that report unaltered, complete and a pass?\n"
        "  --rerun N          then repeats N of its cases on the device; --seed S draws the same again\n\n"
        "Exit status: 0 nothing failed, 1 something failed, 2 nothing was tested: wrong usage, no such\n"
        "device, operation, case or variant, or a folder that holds no report, 128 + N the run was ended\n"
        "by signal N (a soak, which is ended so: 0 or 1).\n",
    .run = conformance_main,
};
