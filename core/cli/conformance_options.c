/* The command `portico conformance`: the table of its options, help, and refusing those that would be ignored. */
#include "cli/conformance_parts.h"

#include "base/suggest.h"
#include "graph/op.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An op pattern that names nothing is most likely a slip: say what there is. */
static int conformance_check_ops(const pco_conformance_options *options)
{
    const char *patterns = options->ops;
    uint32_t count;
    const pco_op_info *table = pco_op_table(&count);
    for (const char *at = patterns, *next; at; at = next) {
        char pattern[128];
        size_t length = strcspn(at, ",");
        uint32_t found = 0;
        pco_suggestion suggestion = {0};
        char hint[PCO_SUGGEST_HINT];
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, at);
        next = at[length] ? at + length + 1 : NULL;
        for (uint32_t i = 0; i < count; i++) found += fnmatch(pattern, table[i].name, 0) == 0;
        for (uint32_t i = 0; i < options->n_own; i++) found += fnmatch(pattern, options->own[i]->info.name, 0) == 0;
        if (found) continue;
        for (uint32_t i = 0; i < count; i++) pco_suggest(&suggestion, pattern, table[i].name);
        cli_error("no op matches '%s'%s; `portico ops` lists them", pattern, pco_suggest_hint(&suggestion, hint));
        return 0;
    }
    return 1;
}

/* Cases are known by up to eight hexadecimal digits. */
static int conformance_case_id(void *arguments, const char *option, const char *text)
{
    uint32_t *id = &((conformance_arguments *)arguments)->options.case_id;
    size_t length = strlen(text);
    *id = 0;
    if (length >= 1 && length <= 8 && strspn(text, "0123456789abcdefABCDEF") == length)
        *id = (uint32_t)strtoul(text, NULL, 16);
    if (*id) return 1;
    cli_error("option %s: '%s' is no case: up to eight hexadecimal digits, as a failure prints them", option, text);
    return 0;
}

static int conformance_tier(void *arguments, const char *option, const char *text)
{
    if (pco_conformance_tier_parse(text, &((conformance_arguments *)arguments)->options.tier)) return 1;
    cli_error("option %s: '%s' is none of quick, standard, full, soak, tiny", option, text);
    return 0;
}

static int conformance_slice(void *arguments, const char *option, const char *text)
{
    if (pco_conformance_slice_parse(text, &((conformance_arguments *)arguments)->options.slice)) return 1;
    cli_error("option %s: '%s' is no slice: K/N, the Kth of N, with K from 1 to N", option, text);
    return 0;
}

/* What the program is asked to do. */
enum {
    DO_RUN = 1,
    DO_VERIFY = 2,
    DO_RERUN = 4,
    DO_BISECT = 8,
    DO_PREPARE = 16,
    DO_PROBE = 32,
    DO_COMPILE = 64,
    DO_ANY = 127
};

static const char *const JUDGES[] = {
    [PCO_JUDGE_BOUNDS] = "bounds", [PCO_JUDGE_NMSE] = "nmse", [PCO_JUDGE_FIELD] = "field", NULL};

#define A conformance_arguments
static const cli_option OPTIONS[] = {
    /* what the program is to do comes first, so that messages name it */
    {CLI_TEXT("--bisect", A, bisect.model), .uses = DO_BISECT},
    {CLI_TEXT("--verify", A, report.verify), .uses = DO_VERIFY | DO_RERUN},
    {CLI_FLAG("--no-run", A, reproducers.no_run), .uses = DO_PREPARE},
    {CLI_FLAG("--probe", A, probe), .uses = DO_PROBE},
    {CLI_FLAG("--compile-only", A, options.compile_only), .uses = DO_COMPILE},
    {CLI_TEXT("--code", A, options.code), .uses = DO_COMPILE},
    {CLI_TEXT("--devices", A, devices), .traits = CLI_MAY_BE_EMPTY,
     .uses = DO_RUN | DO_RERUN | DO_BISECT | DO_PREPARE | DO_PROBE | DO_COMPILE},
    {CLI_TEXT("--ops", A, options.ops), .uses = DO_RUN | DO_PREPARE | DO_COMPILE},
    {CLI_TEXT("--ops-from", A, options.own_from), .uses = DO_RUN | DO_PREPARE | DO_COMPILE},
    {CLI_READ("--tier", conformance_tier), .uses = DO_RUN | DO_PREPARE | DO_COMPILE},
    {CLI_READ("--slice", conformance_slice), .uses = DO_RUN | DO_COMPILE},
    {CLI_TEXT("--variant", A, options.variant), .uses = DO_RUN | DO_PREPARE | DO_COMPILE},
    {CLI_READ("--case", conformance_case_id), .uses = DO_RUN | DO_PREPARE | DO_COMPILE},
    {CLI_WHOLE("--seed", A, options.seed, 0, INT64_MAX), .uses = DO_RUN | DO_RERUN | DO_PREPARE},
    {CLI_WHOLE("--jobs", A, jobs, 1, 256), .uses = DO_RUN | DO_COMPILE},
    {CLI_NUMBER("--timeout", A, timeout, 0.1, 1e6), .uses = DO_RUN | DO_RERUN | DO_BISECT | DO_PROBE | DO_COMPILE},
    {CLI_TEXT("--log", A, log), .uses = DO_RUN},
    {CLI_TEXT("--waivers", A, waivers), .uses = DO_RUN},
    {CLI_NUMBER("--minutes", A, minutes, 0.001, 1e6), .uses = DO_RUN},
    {CLI_WHOLE("--seeds", A, seeds, 1, 1000000), .uses = DO_RUN},
    {CLI_WHOLE("--replays", A, options.replays, 1, 1000000), .uses = DO_RUN},
    {CLI_FLAG("--invariance", A, options.invariance), .uses = DO_RUN},
    {CLI_FLAG("--in-process", A, in_process), .uses = DO_RUN | DO_RERUN | DO_BISECT | DO_PROBE | DO_COMPILE},
    {CLI_WHOLE("--max-failures", A, max_failures, 1, 100000), .uses = DO_RUN | DO_COMPILE},
    {CLI_FLAG("--fail-fast", A, fail_fast), .uses = DO_RUN | DO_COMPILE},
    {CLI_FLAG("--verbose", A, verbose), .letter = "-v", .uses = DO_RUN | DO_COMPILE},
    {CLI_WORD("--judge", A, options.judging, JUDGES), .uses = DO_RUN},
    {CLI_FLAG("--json", A, json), .uses = DO_RUN | DO_VERIFY | DO_PROBE | DO_COMPILE},
    {CLI_TEXT("--report", A, report.folder), .uses = DO_RUN},
    {CLI_TEXT("--baseline", A, report.baseline), .uses = DO_RUN | DO_VERIFY | DO_RERUN},
    {CLI_NUMBER("--factor", A, report.factor, 1, 1e6), .uses = DO_RUN | DO_VERIFY | DO_RERUN},
    {CLI_WHOLE("--rerun", A, report.rerun, 1, 1000000), .uses = DO_RERUN},
    {CLI_TEXT("--reproducers", A, reproducers.folder), .uses = DO_RUN | DO_BISECT | DO_PREPARE},
    {CLI_FLAG("--always", A, reproducers.always), .uses = DO_RUN},
    {CLI_TEXT("--prompt", A, bisect.prompt), .letter = "-p", .traits = CLI_MAY_BE_EMPTY, .uses = DO_BISECT},
    {CLI_WHOLE("--max-tokens", A, bisect.max_tokens, 1, 1 << 20), .letter = "-n", .uses = DO_BISECT},
    {CLI_WHOLE("--context", A, bisect.context, 1, 1 << 24), .uses = DO_BISECT},
    {CLI_FLAG("--worker", A, worker), .traits = CLI_HIDDEN, .uses = DO_ANY},
    {CLI_TEXT("--plugin", A, plugin), .traits = CLI_HIDDEN, .uses = DO_ANY},
    {CLI_TEXT("--id", A, id), .traits = CLI_HIDDEN, .uses = DO_ANY},
    {CLI_WHOLE("--index", A, index, 0, UINT32_MAX), .traits = CLI_HIDDEN, .uses = DO_ANY},
    {CLI_WHOLE("--threads", A, threads, 1, 1024), .traits = CLI_HIDDEN, .uses = DO_ANY},
    {CLI_FLAG("--child", A, bisect.child), .traits = CLI_HIDDEN, .uses = DO_ANY},
    {CLI_FLAG("--here", A, reproducers.here), .traits = CLI_HIDDEN, .uses = DO_ANY},
    /* what a failure looked like may be an empty text */
    {CLI_TEXT("--found", A, reproducers.found), .traits = CLI_HIDDEN | CLI_MAY_BE_EMPTY, .uses = DO_ANY},
};
#undef A
enum { N_OPTIONS = sizeof OPTIONS / sizeof *OPTIONS };

/* Options that need another one; of several, one is enough. */
static const struct conformance_need {
    const char *option, *needs[2];
} NEEDS[] = {{"--rerun", {"--verify"}},       {"--factor", {"--baseline"}},  {"--always", {"--reproducers"}},
             {"--no-run", {"--reproducers"}}, {"--prompt", {"--bisect"}},    {"--max-tokens", {"--bisect"}},
             {"--context", {"--bisect"}},     {"--code", {"--compile-only"}}};

/* Options of which one leaves the other without effect, and why. */
static const struct conformance_pair {
    const char *one, *other, *why;
} PAIRS[] = {{"--in-process", "--log", "without worker processes nothing is logged"},
             {"--in-process", "--invariance", "a process has one number of threads"},
             {"--seeds", "--invariance", "runs are compared seed by seed"},
             {"--log", "--invariance", "the log is of one number of threads"},
             {"--in-process", "--jobs", "there are no worker processes then"},
             {"--in-process", "--timeout", "nobody could end a case that hangs"},
             {"--case", "--slice", "the case is in one of them, and none is left of the others"},
             {"--ops-from", "--report", "a report is of operations that everyone has"},
             {"--ops-from", "--baseline", "a report is of operations that everyone has"},
             {"--seeds", "--log", "a log is of one seed"},
             {"--seeds", "--report", "a report is of one seed"},
             {"--seeds", "--baseline", "runs are compared seed by seed"}};

/* What a norm finds is for comparison only: nothing else is written of it. */
static const char *const NOT_OF_NORMS[] = {"--reproducers", "--report", "--baseline", "--log", "--replays"};

static uint64_t conformance_bit(const char *name)
{
    for (uint32_t i = 0; i < N_OPTIONS; i++)
        if (strcmp(OPTIONS[i].name, name) == 0) return UINT64_C(1) << i;
    return 0;
}

static unsigned conformance_asked(const conformance_arguments *arguments, const char **by)
{
    if (arguments->bisect.model) return *by = "--bisect", DO_BISECT;
    if (arguments->report.rerun) return *by = "--rerun", DO_RERUN;
    if (arguments->report.verify) return *by = "--verify", DO_VERIFY;
    if (arguments->reproducers.no_run) return *by = "--no-run", DO_PREPARE;
    if (arguments->probe) return *by = "--probe", DO_PROBE;
    if (arguments->options.compile_only) return *by = "--compile-only", DO_COMPILE;
    return *by = "", DO_RUN;
}

static int conformance_refuse(const char *one, const char *other, const char *why)
{
    cli_error("conformance: %s and %s do not go together: %s; leave out one of them", one, other, why);
    return 0;
}

/* Every option that was given must have a meaning. Returns 0 after a message. */
static int conformance_check_given(const conformance_arguments *arguments, uint64_t given)
{
    const char *by;
    for (size_t i = 0; i < sizeof NEEDS / sizeof *NEEDS; i++)
        if ((given & conformance_bit(NEEDS[i].option)) && !(given & conformance_bit(NEEDS[i].needs[0]))) {
            cli_error("conformance: option %s says nothing without %s", NEEDS[i].option, NEEDS[i].needs[0]);
            return 0;
        }
    const unsigned asked = conformance_asked(arguments, &by);
    for (uint32_t i = 0; i < N_OPTIONS; i++)
        if ((given >> i & 1) && !(OPTIONS[i].uses & asked))
            return conformance_refuse(by, OPTIONS[i].name, "the second would be ignored");
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++)
        if ((given & conformance_bit(PAIRS[i].one)) && (given & conformance_bit(PAIRS[i].other)))
            return conformance_refuse(PAIRS[i].one, PAIRS[i].other, PAIRS[i].why);
    for (size_t i = 0; i < sizeof NOT_OF_NORMS / sizeof *NOT_OF_NORMS; i++)
        if (arguments->options.judging != PCO_JUDGE_BOUNDS && (given & conformance_bit(NOT_OF_NORMS[i])))
            return conformance_refuse("--judge nmse|field", NOT_OF_NORMS[i],
                                      "a norm is for comparison only, and judges no single element");
    return 1;
}

static int conformance_check(const conformance_arguments *arguments, uint64_t given)
{
    const pco_conformance_options *options = &arguments->options;
    if (!conformance_check_given(arguments, given)) return 0;
    if (arguments->minutes > 0 && options->tier != PCO_CONFORMANCE_SOAK) {
        cli_error("conformance: --minutes is for --tier soak; other tiers end by themselves");
        return 0;
    }
    if ((given & conformance_bit("--max-failures")) && arguments->json && !arguments->report.folder)
        return conformance_refuse("--json", "--max-failures", "the object has all failures");
    if (!arguments->reproducers.here || (options->ops && options->case_id && options->variant)) return 1;
    cli_error("option --no-run needs --ops, --case and --variant, as a failure prints them");
    return 0;
}

/* Reads the command line into *arguments, which holds the defaults. Options that would be ignored are refused, in one
 * line. Returns the exit status. */
static int conformance_parse(int argc, char **argv, conformance_arguments *arguments)
{
    uint64_t given;
    int status;
    if (cli_parse(&cli_conformance, argc, argv, arguments, &given)) return CLI_USAGE;
    if (arguments->reproducers.no_run) arguments->reproducers.here = 1;
    for (uint32_t i = 0; i < N_OPTIONS; i++)
        if ((given >> i & 1) && (OPTIONS[i].traits & CLI_HIDDEN)) arguments->internal = 1;
    status = conformance_own_load(arguments);
    if (status || arguments->worker) return status;
    if (arguments->internal && !arguments->reproducers.here && !(arguments->bisect.child && arguments->bisect.model)) {
        cli_error("conformance: --plugin, --id, --index and --child are for worker processes, "
                  "which the program starts itself");
        return CLI_USAGE;
    }
    if (!conformance_check(arguments, given)) return CLI_USAGE;
    if (arguments->bisect.model || arguments->report.verify) return CLI_OK;
    return conformance_check_ops(&arguments->options) ? CLI_OK : CLI_USAGE;
}

static int conformance_main(int argc, char **argv)
{
    enum { TOKENS = 2 }; /* behind the prompt, when a model is bisected */
    conformance_arguments arguments = {
        .max_failures = 20, .bisect.max_tokens = TOKENS, .options = {.tier = PCO_CONFORMANCE_QUICK}};
    const int status = conformance_parse(argc, argv, &arguments);
    const int result = status ? status : conformance_do(&arguments, argc, argv);
    conformance_own_clear(&arguments);
    return result;
}

const cli_command cli_conformance = {
    .name = "conformance",
    .summary = "judge a device, one operation at a time, against a float64 oracle",
    .help =
        "usage: portico conformance [--devices LIST] [--ops PATTERN] [--ops-from LIBRARY] [--tier TIER]\n"
        "                           [--slice K/N] [--variant PATTERN] [--seed S] [--case ID] [--jobs N]\n"
        "                           [--timeout SECONDS] [--log FILE]\n"
        "                           [--waivers FILE] [--seeds N] [--minutes N] [--max-failures N] [--json]\n"
        "                           [--verbose] [--in-process] [--fail-fast] [--judge JUDGE] [--replays N]\n"
        "                           [--invariance]\n"
        "                           [--report DIR] [--baseline DIR [--factor F]]\n"
        "                           [--reproducers DIR [--always | --no-run]]\n"
        "       portico conformance --bisect MODEL [--devices LIST] [--prompt TEXT] [-n N] [--context N]\n"
        "                           [--reproducers DIR] [--timeout SECONDS] [--in-process]\n"
        "       portico conformance --probe [--devices LIST] [--timeout SECONDS] [--in-process] [--json]\n"
        "       portico conformance --compile-only [--devices LIST] [--ops PATTERN] [--tier TIER] [--slice K/N]\n"
        "                           [--variant PATTERN] [--code DIR] [--jobs N] [--timeout SECONDS] [--json]\n"
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
        "  --ops-from LIBRARY operations that a shared object declares (portico/op.h); without --ops only these\n"
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
        "                     made, find the first that is out of its bound and make it small; --prompt,\n"
        "                     -p TEXT; -n, --max-tokens N (tokens behind the prompt, default 2); --context N\n"
        "  --probe            no cases: what the device does with numbers (width and order of its sums, rounding,\n"
        "                     subnormals, fused products, errors of functions), against its contract, and a\n"
        "                     fingerprint of it; a report has it too\n"
        "  --compile-only     nothing is run: every kernel that the cases would launch goes through the device's\n"
        "                     compiler, and what that says of them is shown: registers, spills, instructions\n"
        "  --code DIR         machine code and listings go there, as far as the driver gives them\n"
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
    CLI_OPTIONS(OPTIONS),
    .run = conformance_main,
};
