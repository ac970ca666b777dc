/* portico compare: the same input on several devices. */
#include "cli/compare.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct compare_arguments {
    const char *model, *devices, *prompt;
    int64_t max_tokens, context;
    int json;
} compare_arguments;

static pco_status compare_text(const pco_model *model, compare_result *result, pco_error *err)
{
    size_t bytes;
    return pco_model_detokenize(model, result->ids + result->prompt, (size_t)(result->count - result->prompt),
                                &result->text, &bytes, err);
}

/* One device. The reference's own tokens are scored everywhere, so that logits are compared on equal input.
 */
static void compare_device(const compare_arguments *arguments, pco_context *context, compare_result *result,
                           const compare_result *reference)
{
    pco_model *model = NULL;
    pco_error err = {""};
    double start = pco_seconds();
    pco_status status =
        cli_open_model(context, arguments->model, CLI_OPEN(result->device, arguments->context), &model, &err);
    result->load_seconds = pco_seconds() - start;
    if (!status) status = compare_generate(model, arguments->prompt, arguments->max_tokens, result, &err);
    if (!status) status = compare_text(model, result, &err);
    const compare_result *target = reference ? reference : result;
    if (!status) status = compare_score(model, target, result, &err);
    if (status) snprintf(result->reason, sizeof result->reason, "%s", *err.message ? err.message : "failed");
    result->status = status;
    pco_model_close(model);
}

static int compare_same_tokens(const compare_result *a, const compare_result *b)
{
    return a->count == b->count && memcmp(a->ids, b->ids, (size_t)a->count * sizeof *a->ids) == 0;
}

/* Largest difference from the reference, divided by its bound COMPARE_BOUND (|y| + rms of the row). */
static void compare_logits(const compare_result *reference, compare_result *result)
{
    const int64_t vocab = reference->vocab;
    for (int64_t row = 0; row < reference->rows; row++) {
        int64_t column = 0;
        double difference = 0;
        const double ratio =
            compare_row(result->logits + row * vocab, reference->logits + row * vocab, vocab, &column, &difference);
        if (ratio <= result->ratio && row) continue;
        result->ratio = ratio;
        result->difference = difference;
        result->row = row;
        result->column = column;
    }
}

static double compare_rate(int64_t count, double seconds) { return seconds > 0 ? (double)count / seconds : 0; }

static void compare_print_text(const char *text)
{
    cli_text(stdout, text);
    putchar('\n');
}

static void compare_table(const compare_result *results, uint32_t count)
{
    const compare_result *reference = &results[0];
    printf("%-11s %-12s %-9s %10s %9s  %-10s %7s %12s %14s\n", "device", "name", "text", "diff/bound", "max diff",
           "at row, id", "load s", "prompt tok/s", "generate tok/s");
    for (uint32_t i = 0; i < count; i++) {
        const compare_result *r = &results[i];
        char at[48] = "";
        if (r->status) {
            int column = printf("%-11s %-12s failed    ", r->device, r->name);
            cli_wrap(r->reason, column, column);
            continue;
        }
        if (r != reference && r->difference != 0) snprintf(at, sizeof at, "%" PRId64 ", %" PRId64, r->row, r->column);
        printf("%-11s %-12s %-9s %10.2g %9.2g  %-10s %7.2f %12.1f %14.1f\n", r->device, r->name,
               r == reference ? "reference"
               : r->same      ? "same"
                              : "DIFFERS",
               r->ratio, r->difference, at, r->load_seconds, compare_rate(r->prompt, r->prompt_seconds),
               compare_rate(r->steps, r->generation_seconds));
    }
    if (reference->status) return;
    printf("\n%" PRId64 " tokens of prompt, %" PRId64 " generated; bound of a logit y: %g (|y| + rms of its row).\n",
           reference->prompt, reference->count - reference->prompt, COMPARE_BOUND);
    printf("%s: ", reference->device);
    compare_print_text(reference->text);
    for (uint32_t i = 1; i < count; i++) {
        if (results[i].status || results[i].same) continue;
        printf("%s: ", results[i].device);
        compare_print_text(results[i].text);
    }
}

static void compare_json_number(pco_json_writer *json, const char *key, double value)
{
    pco_json_key(json, key);
    pco_json_write_number(json, value);
}

static void compare_json_one(pco_json_writer *json, const compare_result *r)
{
    pco_json_begin_object(json);
    pco_json_key(json, "device");
    pco_json_write_string(json, r->device);
    pco_json_key(json, "name");
    pco_json_write_string(json, r->name);
    pco_json_key(json, "ok");
    pco_json_write_bool(json, r->status == PCO_OK && r->same && r->ratio <= 1);
    pco_json_key(json, "error");
    if (r->status)
        pco_json_write_string(json, r->reason);
    else
        pco_json_write_null(json);
    if (!r->status) {
        pco_json_key(json, "same_text");
        pco_json_write_bool(json, r->same);
        pco_json_key(json, "text");
        pco_json_write_string(json, r->text);
        pco_json_key(json, "tokens");
        pco_json_begin_array(json);
        for (int64_t i = r->prompt; i < r->count; i++) pco_json_write_int(json, r->ids[i]);
        pco_json_end_array(json);
        compare_json_number(json, "max_difference", r->difference);
        compare_json_number(json, "row", (double)r->row);
        compare_json_number(json, "id", (double)r->column);
        compare_json_number(json, "difference_over_bound", r->ratio);
        compare_json_number(json, "load_seconds", r->load_seconds);
        compare_json_number(json, "prompt_tokens_per_second", compare_rate(r->prompt, r->prompt_seconds));
        compare_json_number(json, "tokens_per_second", compare_rate(r->steps, r->generation_seconds));
    }
    pco_json_end_object(json);
}

static int compare_json(const compare_result *results, uint32_t count)
{
    pco_writer text = {0};
    pco_json_writer json = {.out = &text, .indent = 2};
    pco_json_begin_object(&json);
    pco_json_key(&json, "reference");
    pco_json_write_string(&json, results[0].device);
    compare_json_number(&json, "bound", COMPARE_BOUND);
    pco_json_key(&json, "devices");
    pco_json_begin_array(&json);
    for (uint32_t i = 0; i < count; i++) compare_json_one(&json, &results[i]);
    pco_json_end_array(&json);
    pco_json_end_object(&json);
    return cli_print(&text);
}

/* What people call the device: its first alias, else the beginning of its name. */
static void compare_name(char *name, size_t room, const pco_device_entry *entry)
{
    const size_t alias = strcspn(entry->info.aliases, " ");
    const char *text = strchr(entry->id, '+') ? "together" : alias ? entry->info.aliases : entry->info.name;
    const size_t length = text == entry->info.aliases ? alias : strlen(text);
    snprintf(name, room, "%.*s", (int)pco_utf8_check(text, length < room ? length : room - 1), text);
}

/* cpu:reference first, if it is among them. */
static void compare_order(pco_device_entry *entries, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        if (!strstr(entries[i].info.aliases, "reference")) continue;
        pco_device_entry reference = entries[i];
        memmove(entries + 1, entries, i * sizeof *entries);
        entries[0] = reference;
        return;
    }
}

static int compare_all(const compare_arguments *arguments, pco_context *context, pco_device_entry *entries,
                       uint32_t count)
{
    compare_order(entries, count);
    compare_result *results = calloc(count, sizeof *results);
    int status = results ? CLI_OK : CLI_FAILED;
    uint32_t done = 0;
    for (; results && done < count && !cli_interrupted(); done++) {
        compare_result *r = &results[done];
        const compare_result *reference = done ? &results[0] : NULL;
        snprintf(r->device, sizeof r->device, "%s", entries[done].id);
        compare_name(r->name, sizeof r->name, &entries[done]);
        cli_note("%s ...\n", r->device);
        compare_device(arguments, context, r, reference);
        r->same = r->status == PCO_OK;
        if (!r->status && reference) {
            compare_logits(reference, r);
            r->same = compare_same_tokens(reference, r);
        }
        if (r->status || !r->same || r->ratio > 1) status = CLI_FAILED;
        if (done == 0 && r->status) {
            done++;
            break; /* there is nothing to compare with */
        }
    }
    if (cli_interrupted()) cli_note("interrupted\n");
    if (done && arguments->json) {
        const int printed = compare_json(results, done);
        if (printed) status = printed;
    } else if (done) {
        compare_table(results, done);
    }
    for (uint32_t i = 0; i < done; i++) compare_clear(&results[i]);
    free(results);
    return status;
}

static const cli_option COMPARE_OPTIONS[] = {
    {CLI_OPERAND("a model", compare_arguments, model)},
    {CLI_TEXT("--devices", compare_arguments, devices), .traits = CLI_MAY_BE_EMPTY},
    {CLI_TEXT("--prompt", compare_arguments, prompt), .letter = "-p", .traits = CLI_MAY_BE_EMPTY},
    {CLI_WHOLE("--max-tokens", compare_arguments, max_tokens, 1, 1 << 20), .letter = "-n"},
    {CLI_WHOLE("--context", compare_arguments, context, 1, 1 << 24)},
    {CLI_FLAG("--json", compare_arguments, json)},
};

static int compare_run(int argc, char **argv)
{
    compare_arguments arguments = {.devices = "all", .max_tokens = 32};
    pco_device_entry *entries = NULL;
    int status = cli_parse(&cli_compare, argc, argv, &arguments, NULL);
    if (status) return status;
    /* A folder is an encoder-decoder, a file a decoder: each gets something that it can do something with. */
    if (!arguments.prompt) arguments.prompt = pco_is_directory(arguments.model) ? "3 March 2021" : "Once upon a time";
    cli_watch_signals();
    pco_context *context = cli_context(arguments.devices, &status);
    if (!context) return status;
    uint32_t count = cli_select_sets(context->registry, arguments.devices, &entries, &status);
    if (count) status = compare_all(&arguments, context, entries, count);
    free(entries);
    pco_context_destroy(context);
    return cli_exit_status(status);
}

const cli_command cli_compare = {
    .name = "compare",
    .summary = "the same input on several devices, side by side",
    .help = "usage: portico compare MODEL [--devices LIST] [--prompt TEXT] [-n N] [--context N] [--json]\n\n"
            "Runs the model on each device with the likeliest token at every step. One table: whether the\n"
            "text is that of the first device, the largest difference of a logit (row: token of the\n"
            "sequence; id: in the vocabulary) when the first device's tokens are scored, load time, and\n"
            "tokens per second for prompt and generation, first use included. cpu:reference, when it is in\n"
            "the list, comes first.\n\n"
            "  --devices LIST   devices separated by commas, each of which must match one, or `all`\n"
            "                   (default); devices joined with + run the model together\n"
            "  --prompt, -p TEXT\n"
            "                   the prompt or source (default: the beginning of a story; for a model\n"
            "                   folder, a date)\n"
            "  -n, --max-tokens N\n"
            "                   most tokens that are generated (default 32)\n"
            "  --context N      as for portico run\n"
            "  --json           one object instead of a table\n\n"
            "Exit status: 0 all agree; 1 a text differs, a logit differs by more than 1e-4 (|y| + rms of\n"
            "its row), or a device failed; 2 wrong usage; 128 + N ended by signal N.\n",
    CLI_OPTIONS(COMPARE_OPTIONS),
    .run = compare_run,
};
