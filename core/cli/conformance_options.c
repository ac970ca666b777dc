/* The options of `portico conformance`: reading them, and refusing those that would be ignored. */
#include "cli/conformance_parts.h"

#include "graph/op.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An op pattern that names nothing is most likely a slip: say what there is. */
static int conformance_check_ops(const char *patterns)
{
    uint32_t count;
    const pco_op_info *table = pco_op_table(&count);
    for (const char *at = patterns, *next; at; at = next) {
        char pattern[128];
        size_t length = strcspn(at, ",");
        uint32_t found = 0;
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, at);
        next = at[length] ? at + length + 1 : NULL;
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

/* Options of the program's own child processes, which the help does not mention. */
static int conformance_parse_worker(int argc, char **argv, int *i, conformance_arguments *arguments)
{
    const char *value = NULL;
    int64_t number;
    int m = cli_option(argc, argv, i, "--plugin", NULL, &arguments->plugin);
    if (!m) m = cli_option(argc, argv, i, "--id", NULL, &arguments->id);
    if (!m) m = cli_option(argc, argv, i, "--found", NULL, &arguments->reproducers.found);
    if (!m && (m = cli_option(argc, argv, i, "--here", NULL, NULL)) > 0) arguments->reproducers.here = 1;
    if (!m && (m = cli_option(argc, argv, i, "--child", NULL, NULL)) > 0) arguments->bisect.child = 1;
    if (!m && (m = cli_option(argc, argv, i, "--worker", NULL, NULL)) > 0) arguments->worker = 1;
    if (!m && (m = cli_option(argc, argv, i, "--threads", NULL, &value)) > 0) {
        if (!cli_integer("--threads", value, 1, 1024, &number)) return -1;
        arguments->threads = (uint32_t)number;
    }
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
    if (!m && (m = cli_option(argc, argv, i, "--replays", NULL, &value)) > 0) {
        if (!cli_integer("--replays", value, 1, 1000000, &number)) return -1;
        arguments->options.replays = (uint32_t)number;
    }
    if (!m && (m = cli_option(argc, argv, i, "--invariance", NULL, NULL)) > 0) arguments->options.invariance = 1;
    if (!m && (m = cli_option(argc, argv, i, "--timeout", NULL, &value)) > 0 &&
        !cli_number("--timeout", value, 0.1, 1e6, &arguments->timeout))
        return -1;
    if (!m && (m = cli_option(argc, argv, i, "--minutes", NULL, &value)) > 0 &&
        !cli_number("--minutes", value, 0.001, 1e6, &arguments->minutes))
        return -1;
    if (!m && (m = cli_option(argc, argv, i, "--seeds", NULL, &value)) > 0 &&
        !cli_integer("--seeds", value, 1, 1000000, &arguments->seeds))
        return -1;
    return m;
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
    if (!m && (m = cli_option(argc, argv, i, "--probe", NULL, NULL)) > 0) arguments->probe = 1;
    if (!m && (m = cli_option(argc, argv, i, "--always", NULL, NULL)) > 0) arguments->reproducers.always = 1;
    if (!m && (m = cli_option(argc, argv, i, "--no-run", NULL, NULL)) > 0)
        arguments->reproducers.no_run = arguments->reproducers.here = 1;
    return m;
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

/* What the cases are, and how they are judged and shown. */
static int conformance_parse_what(int argc, char **argv, int *i, conformance_arguments *arguments)
{
    pco_conformance_options *options = &arguments->options;
    const char *value = NULL;
    int64_t number;
    int m = cli_option(argc, argv, i, "--devices", NULL, &arguments->devices);
    if (!m) m = cli_option(argc, argv, i, "--ops", NULL, &options->ops);
    if (!m) m = cli_option(argc, argv, i, "--variant", NULL, &options->variant);
    if (!m && (m = cli_option(argc, argv, i, "--json", NULL, NULL)) > 0) arguments->json = 1;
    if (!m && (m = cli_option(argc, argv, i, "--verbose", "-v", NULL)) > 0) arguments->verbose = 1;
    if (!m && (m = cli_option(argc, argv, i, "--fail-fast", NULL, NULL)) > 0) arguments->fail_fast = 1;
    if (!m && (m = cli_option(argc, argv, i, "--judge", NULL, &value)) > 0 &&
        !conformance_judging(value, &options->judging))
        return -1;
    if (!m && (m = cli_option(argc, argv, i, "--tier", NULL, &value)) > 0 &&
        !pco_conformance_tier_parse(value, &options->tier)) {
        cli_error("option --tier: '%s' is none of quick, standard, full, soak, tiny", value);
        return -1;
    }
    if (!m && (m = cli_option(argc, argv, i, "--slice", NULL, &value)) > 0 &&
        !pco_conformance_slice_parse(value, &options->slice)) {
        cli_error("option --slice: '%s' is no slice: K/N, the Kth of N, with K from 1 to N", value);
        return -1;
    }
    if (!m && (m = cli_option(argc, argv, i, "--seed", NULL, &value)) > 0) {
        if (!cli_integer("--seed", value, 0, INT64_MAX, &number)) return -1;
        options->seed = (uint64_t)number;
    }
    if (!m && (m = cli_option(argc, argv, i, "--case", NULL, &value)) > 0 &&
        !conformance_case_id(value, &options->case_id))
        return -1;
    if (!m && (m = cli_option(argc, argv, i, "--max-failures", NULL, &value)) > 0) {
        if (!cli_integer("--max-failures", value, 1, 100000, &number)) return -1;
        arguments->max_failures = (uint32_t)number;
    }
    return m;
}

/* ---- options that would be ignored ---- */

/* What the program is asked to do. */
enum { DO_RUN = 1, DO_VERIFY = 2, DO_RERUN = 4, DO_BISECT = 8, DO_PREPARE = 16, DO_PROBE = 32 };

/* For which of these each option says something. */
static const struct conformance_option {
    const char *name, *short_name;
    unsigned uses;
} OPTIONS[] = {
    {"--bisect", NULL, DO_BISECT}, /* what the program is to do comes first, so that the message names it */
    {"--verify", NULL, DO_VERIFY | DO_RERUN},
    {"--no-run", NULL, DO_PREPARE},
    {"--probe", NULL, DO_PROBE},
    {"--devices", NULL, DO_RUN | DO_RERUN | DO_BISECT | DO_PREPARE | DO_PROBE},
    {"--ops", NULL, DO_RUN | DO_PREPARE},
    {"--tier", NULL, DO_RUN | DO_PREPARE},
    {"--slice", NULL, DO_RUN},
    {"--variant", NULL, DO_RUN | DO_PREPARE},
    {"--case", NULL, DO_RUN | DO_PREPARE},
    {"--seed", NULL, DO_RUN | DO_RERUN | DO_PREPARE},
    {"--jobs", NULL, DO_RUN},
    {"--timeout", NULL, DO_RUN | DO_RERUN | DO_BISECT | DO_PROBE},
    {"--log", NULL, DO_RUN},
    {"--waivers", NULL, DO_RUN},
    {"--minutes", NULL, DO_RUN},
    {"--seeds", NULL, DO_RUN},
    {"--replays", NULL, DO_RUN},
    {"--invariance", NULL, DO_RUN},
    {"--in-process", NULL, DO_RUN | DO_RERUN | DO_BISECT | DO_PROBE},
    {"--max-failures", NULL, DO_RUN},
    {"--fail-fast", NULL, DO_RUN},
    {"--verbose", "-v", DO_RUN},
    {"--judge", NULL, DO_RUN},
    {"--json", NULL, DO_RUN | DO_VERIFY | DO_PROBE},
    {"--report", NULL, DO_RUN},
    {"--baseline", NULL, DO_RUN | DO_VERIFY | DO_RERUN},
    {"--factor", NULL, DO_RUN | DO_VERIFY | DO_RERUN},
    {"--rerun", NULL, DO_RERUN},
    {"--reproducers", NULL, DO_RUN | DO_BISECT | DO_PREPARE},
    {"--always", NULL, DO_RUN},
    {"--prompt", "-p", DO_BISECT},
    {"--max-tokens", "-n", DO_BISECT},
    {"--context", NULL, DO_BISECT},
};
enum { N_OPTIONS = sizeof OPTIONS / sizeof *OPTIONS };

/* Options that need another one; of several, one is enough. */
static const struct conformance_need {
    const char *option, *needs[2];
} NEEDS[] = {{"--rerun", {"--verify"}},
             {"--factor", {"--baseline"}},
             {"--always", {"--reproducers"}},
             {"--no-run", {"--reproducers"}},
             {"--prompt", {"--bisect"}},
             {"--max-tokens", {"--bisect"}},
             {"--context", {"--bisect"}}};

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

/* The bit of the option that the word of a command line names. */
static uint64_t conformance_bit_of_word(const char *word)
{
    const size_t length = strcspn(word, "=");
    for (uint32_t i = 0; i < N_OPTIONS; i++)
        if ((strlen(OPTIONS[i].name) == length && strncmp(OPTIONS[i].name, word, length) == 0) ||
            (OPTIONS[i].short_name && strcmp(OPTIONS[i].short_name, word) == 0))
            return UINT64_C(1) << i;
    return 0;
}

static unsigned conformance_asked(const conformance_arguments *arguments, const char **by)
{
    if (arguments->bisect.model) return *by = "--bisect", DO_BISECT;
    if (arguments->report.rerun) return *by = "--rerun", DO_RERUN;
    if (arguments->report.verify) return *by = "--verify", DO_VERIFY;
    if (arguments->reproducers.no_run) return *by = "--no-run", DO_PREPARE;
    if (arguments->probe) return *by = "--probe", DO_PROBE;
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

int conformance_parse(int argc, char **argv, conformance_arguments *arguments)
{
    pco_conformance_options *options = &arguments->options;
    uint64_t given = 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int m = conformance_parse_worker(argc, argv, &i, arguments);
        if (m > 0) arguments->internal = 1;
        if (!m) m = conformance_parse_what(argc, argv, &i, arguments);
        if (!m) m = conformance_parse_run(argc, argv, &i, arguments);
        if (!m) m = conformance_parse_more(argc, argv, &i, arguments);
        if (!m) m = cli_report_option(argc, argv, &i, &arguments->report);
        if (m < 0) return CLI_USAGE;
        if (!m) return cli_unknown("conformance", word);
        given |= conformance_bit_of_word(word);
    }
    if (arguments->worker) return CLI_OK;
    if (arguments->internal && !arguments->reproducers.here && !(arguments->bisect.child && arguments->bisect.model)) {
        cli_error("conformance: --plugin, --id, --index and --child are for worker processes, "
                  "which the program starts itself");
        return CLI_USAGE;
    }
    if (!conformance_check(arguments, given)) return CLI_USAGE;
    if (arguments->bisect.model || arguments->report.verify) return CLI_OK;
    return conformance_check_ops(options->ops) ? CLI_OK : CLI_USAGE;
}
