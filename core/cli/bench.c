/* portico bench: how fast is this device? */
#include "cli/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BENCH_FIGURES = 2048 };

/* What is timed, and so which options say something. */
enum { BENCH_OP = 1, BENCH_MODEL = 2, BENCH_OVERHEAD = 4 };

static const cli_option BENCH_OPTIONS[] = {
    {CLI_OPERAND("`op`, `overhead` or a model", bench_arguments, what),
     .uses = BENCH_OP | BENCH_MODEL | BENCH_OVERHEAD},
    {CLI_TEXT("--devices", bench_arguments, devices), .traits = CLI_MAY_BE_EMPTY,
     .uses = BENCH_OP | BENCH_MODEL | BENCH_OVERHEAD},
    {CLI_TEXT("--python", bench_arguments, python), .uses = BENCH_OVERHEAD},
    {CLI_TEXT("--op", bench_arguments, op), .uses = BENCH_OP},
    {CLI_TEXT("--variant", bench_arguments, variant), .uses = BENCH_OP},
    {CLI_FLAG("--variants", bench_arguments, variants), .uses = BENCH_OP},
    {CLI_FLAG("--tunables", bench_arguments, tunables), .uses = BENCH_OP},
    {CLI_NUMBER("--seconds", bench_arguments, seconds, 0.001, 3600), .uses = BENCH_OP | BENCH_MODEL | BENCH_OVERHEAD},
    {CLI_FLAG("--cpu-time", bench_arguments, processor), .uses = BENCH_OP},
    {CLI_WHOLE("--prompt-tokens", bench_arguments, prompt_tokens, 1, 1 << 24), .uses = BENCH_MODEL},
    {CLI_WHOLE("--max-tokens", bench_arguments, max_tokens, 1, 1 << 24), .letter = "-n", .uses = BENCH_MODEL},
    {CLI_WHOLE("--context", bench_arguments, context, 1, 1 << 24), .uses = BENCH_MODEL},
    {CLI_FLAG("--json", bench_arguments, json), .uses = BENCH_OP | BENCH_MODEL | BENCH_OVERHEAD},
};

static int bench_parse(int argc, char **argv, bench_arguments *arguments)
{
    uint64_t given;
    if (cli_parse(&cli_bench, argc, argv, arguments, &given)) return CLI_USAGE;
    const unsigned use = strcmp(arguments->what, "op") == 0         ? BENCH_OP
                         : strcmp(arguments->what, "overhead") == 0 ? BENCH_OVERHEAD
                                                                    : BENCH_MODEL;
    for (uint32_t i = 0; i < cli_bench.n_options; i++) {
        if (!(given >> i & 1) || (BENCH_OPTIONS[i].uses & use)) continue;
        cli_error("bench: option %s is not for %s; see portico bench --help", BENCH_OPTIONS[i].name,
                  use == BENCH_OP         ? "operations"
                  : use == BENCH_OVERHEAD ? "overhead"
                                          : "models");
        return CLI_USAGE;
    }
    if (strcmp(arguments->op, "all") == 0) arguments->op = "*";
    if (arguments->variants && arguments->variant) {
        cli_error("bench: --variants is all of them, and --variant some: one of the two; see portico bench --help");
        return CLI_USAGE;
    }
    if ((arguments->variants || arguments->tunables) && !arguments->variant) arguments->variant = "*";
    return use != BENCH_OP || bench_op_check(arguments->op) ? CLI_OK : CLI_USAGE;
}

/* What is said behind the numbers: its peer, the device's clock, what a variant's tunables are initially. */
static void bench_print_notes(const bench_figure *f)
{
    const char *before = "";
    if (*f->peer) printf("%s", f->peer), before = "; ";
    if (f->device > 0) printf("%s%.3f ms by the device's clock", before, f->device), before = "; ";
    for (uint32_t t = 0; t < f->n_tunables && !*f->set; t++)
        printf("%s%s=%u%s", t ? ", " : before, f->tunables[t].name, f->tunables[t].value,
               t + 1 == f->n_tunables ? " initially" : "");
    putchar('\n');
}

static void bench_print(const pco_device_entry *device, const bench_figure *figures, uint32_t count)
{
    int column = 14, variant = 0; /* columns of the longest; of a variant with a space in front */
    for (uint32_t i = 0; i < count; i++) {
        if ((int)strlen(figures[i].name) > column) column = (int)strlen(figures[i].name);
        const int length = (int)(strlen(figures[i].variant) + strlen(figures[i].set)) + (*figures[i].set ? 1 : 0);
        if (length && length + 1 > variant) variant = length + 1;
    }
    printf("%s: %s, %s\n", device->id, device->info.name, device->info.driver);
    for (uint32_t i = 0; i < count; i++) {
        const bench_figure *f = &figures[i];
        char name[128];
        snprintf(name, sizeof name, "%-*s%s%s%s%s", column, f->name, *f->variant ? " " : "", f->variant,
                 *f->set ? " " : "", f->set);
        if (*f->error) {
            const int behind = printf("  %-*s ", column + variant, name);
            cli_wrap(f->error, behind, behind);
            continue;
        }
        printf("  %-*s %9.3f ms  %8.2f %-7s  %4d runs  ", column + variant, name, f->milliseconds, f->rate, f->unit,
               f->repetitions);
        bench_print_notes(f);
    }
}

static void bench_json_number(pco_json_writer *json, const char *key, double value)
{
    pco_json_key(json, key);
    if (value > 0)
        pco_json_write_number(json, value);
    else
        pco_json_write_null(json);
}

static void bench_json_text(pco_json_writer *json, const char *key, const char *value)
{
    pco_json_key(json, key);
    pco_json_write_string(json, value);
}

static void bench_json(pco_json_writer *json, const pco_device_entry *device, const bench_figure *figures,
                       uint32_t count)
{
    pco_json_begin_object(json);
    bench_json_text(json, "device", device->id);
    bench_json_text(json, "name", device->info.name);
    bench_json_text(json, "driver", device->info.driver);
    pco_json_key(json, "figures");
    pco_json_begin_array(json);
    for (uint32_t i = 0; i < count; i++) {
        const bench_figure *f = &figures[i];
        pco_json_begin_object(json);
        bench_json_text(json, "name", f->name);
        bench_json_text(json, "variant", f->variant);
        pco_json_key(json, "tunables");
        pco_json_begin_object(json);
        for (uint32_t t = 0; t < f->n_tunables; t++) {
            pco_json_key(json, f->tunables[t].name);
            pco_json_write_int(json, f->tunables[t].value);
        }
        pco_json_end_object(json);
        bench_json_number(json, "milliseconds", f->milliseconds);
        bench_json_number(json, "device_milliseconds", f->device);
        bench_json_number(json, "rate", f->rate);
        bench_json_text(json, "unit", f->unit);
        bench_json_number(json, "of_copy", f->of_copy);
        bench_json_number(json, "ratio_to_peer", f->ratio);
        bench_json_text(json, "peer", f->peer);
        pco_json_key(json, "repetitions");
        pco_json_write_int(json, f->repetitions);
        bench_json_text(json, "error", f->error);
        pco_json_end_object(json);
    }
    pco_json_end_array(json);
    pco_json_end_object(json);
}

static int bench_devices(const bench_arguments *arguments, pco_registry *registry, const uint32_t *indices,
                         uint32_t count)
{
    const pco_device_entry *devices;
    pco_registry_devices(registry, &devices);
    bench_figure *figures = calloc(BENCH_FIGURES, sizeof *figures);
    if (!figures) return CLI_FAILED;
    int status = CLI_FAILED; /* until there is a figure */
    pco_writer text = {0};
    pco_json_writer json = {.out = &text, .indent = 2};
    if (arguments->json)
        pco_json_begin_array(&json);
    else
        printf("Medians of interleaved runs after one that is not counted; %u threads on the CPU.\n\n",
               pco_registry_config(registry)->threads);
    for (uint32_t i = 0; i < count && !cli_interrupted(); i++) {
        const pco_device_entry *device = &devices[indices[i]];
        bench_setup setup = {.device = device->id,
                             .seconds = arguments->seconds,
                             .variant = arguments->variant,
                             .tunables = arguments->tunables};
        if (arguments->processor) setup.processor = pco_registry_config(registry)->threads;
        cli_note("%s ...\n", device->id);
        uint32_t n = 1;
        if (strcmp(arguments->what, "overhead") == 0)
            bench_overhead(registry, device->id, arguments->python, arguments->seconds, figures);
        else
            n = bench_ops(&setup, registry, arguments->op, pco_registry_config(registry)->threads, figures,
                          BENCH_FIGURES);
        for (uint32_t k = 0; k < n; k++)
            if (!*figures[k].error) status = CLI_OK;
        if (n == 0 && !cli_interrupted()) cli_error("%s: no figure has a variant '%s'", device->id, arguments->variant);
        if (arguments->json) {
            bench_json(&json, device, figures, n);
            continue;
        }
        if (i) putchar('\n');
        bench_print(device, figures, n);
        fflush(stdout);
    }
    if (arguments->json) {
        pco_json_end_array(&json);
        const int printed = cli_print(&text);
        if (printed) status = printed;
    }
    free(figures);
    return status;
}

static int bench_run(int argc, char **argv)
{
    bench_arguments arguments = {.op = "*", .seconds = 0.5};
    uint32_t *indices = NULL;
    int status = bench_parse(argc, argv, &arguments);
    if (status) return status;
    if (strcmp(arguments.what, "op") != 0 && strcmp(arguments.what, "overhead") != 0) return bench_model(&arguments);
    cli_watch_signals();
    pco_registry *registry = cli_registry(arguments.devices, &status);
    if (!registry) return status;
    uint32_t count = cli_select_devices(registry, arguments.devices, &indices, &status);
    if (count) status = bench_devices(&arguments, registry, indices, count);
    free(indices);
    pco_registry_destroy(registry);
    return cli_exit_status(status);
}

const cli_command cli_bench = {
    .name = "bench",
    .summary = "speed of operations, or of a model",
    .help = "usage: portico bench op [--devices LIST] [--op NAME] [--variant PATTERN | --variants]\n"
            "                        [--tunables] [--seconds S] [--cpu-time] [--json]\n"
            "       portico bench MODEL [--devices LIST] [--prompt-tokens N] [-n N] [--context N] [--seconds "
            "S] [--json]\n"
            "       portico bench overhead [--devices LIST] [--python PROGRAM] [--seconds S] [--json]\n\n"
            "`bench op` times single operations on operands in device memory. Copy, add, gelu, norms and\n"
            "softmax work on 4096 x 4096 f32; gemv is one row times 4096 x 4096 weights; each is shown as a\n"
            "fraction of what a copy on the same device moves per second. matmul is 1024^3 in f32, beside\n"
            "OpenBLAS with as many threads when libopenblas.so.0 is installed. attention is 8 heads of 64\n"
            "over 1,024 positions (attention_row: one query; attention_backward: its gradients), or over few\n"
            "(attention_row_few: a query of 64 heads of 8 over 128; attention_backward_few: 48) beside its own\n"
            "decomposition into primitives, and so is norm_matmul, an rms_norm and one row times 256 x 256.\n"
            "scatter_add adds 1,024 rows of 4096 to a quarter as many.\n"
            "conv1d takes 80 channels to 384 over 3,000 positions, three at a time.\n"
            "`bench MODEL` times reading a prompt and generating token by token. Repetitions of what is\n"
            "compared (there, all devices) alternate in one run; the figures are medians; warm-up is not\n"
            "counted. Figures are of the host's clock; where a device has a clock of its own, what its kernels\n"
            "alone took by that is added: of an operation, of a prompt, and of a token generated.\n\n"
            "`bench overhead` times what a run costs the host: a graph of 200 nodes on 16 x 16 numbers, written,\n"
            "run and read, beside PyTorch (eager) and onnxruntime where --python names a Python that has them;\n"
            "turns alternate, and x is how many times as long they take. Where that Python has portico, also\n"
            "what the first call of a function takes in a new process, with kernels in the cache.\n\n"
            "  --devices LIST     devices separated by commas, each of which must match one, or `all`;\n"
            "                     default: the chosen one\n"
            "  --op NAME          one figure, a pattern, or `all` (default)\n"
            "  --variant PATTERN  instead of what a model would run, each kernel variant of that name, alone and one\n"
            "                     after the other: '*' for all (names as in portico conformance)\n"
            "  --variants         all variants, as --variant '*'\n"
            "  --tunables         of each variant also a line for each legal value of each of its tunables (lanes\n"
            "                     that share a sum, invocations of a workgroup), the others at their initial values;\n"
            "                     values that change nothing of what is launched are left out\n"
            "  --seconds S        time per figure (default 0.5), at least 3 runs\n"
            "  --cpu-time         processor time divided by the number of threads, instead of the clock: for\n"
            "                     devices that are the processor, while it has other work to do\n"
            "  --prompt-tokens N  length of the prompt (default 64, or half of the context)\n"
            "  -n, --max-tokens N tokens generated in one run (default 32)\n"
            "  --context N        as for portico run\n"
            "  --python PROGRAM   a Python with torch, or with onnx and onnxruntime\n"
            "  --json             an array of objects instead of text\n\n"
            "Exit status: 0 done, 1 nothing could be timed, 2 wrong usage, 128 + N ended by signal N.\n",
    CLI_OPTIONS(BENCH_OPTIONS),
    .run = bench_run,
};
