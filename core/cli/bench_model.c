/* portico bench MODEL: prompt and generation speed, devices alternating. */
#include "cli/bench.h"
#include "cli/compare.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A device with its model. The tokens are arbitrary and the same everywhere: speed does not depend on them.
 */
typedef struct bench_runner {
    const pco_device_entry *device;
    pco_model *model;
    char error[512];
    int64_t prompt_tokens, max_tokens;
    int32_t *ids;
    double load_seconds, *prompt, *generation; /* seconds of each round */
    int rounds;
} bench_runner;

enum { BENCH_ROUNDS = 200 };

static pco_status bench_round(bench_runner *r, double *prompt, double *generation, pco_error *err)
{
    pco_model *model = r->model;
    double start = cli_seconds();
    pco_status status;
    if (model->causal) {
        pco_causal_reset(model->causal);
        status = pco_causal_append(model->causal, r->ids, r->prompt_tokens, model->logits, err);
    } else {
        status = pco_seq2seq_encode(model->seq2seq, r->ids, r->prompt_tokens, err);
    }
    *prompt = cli_seconds() - start;
    start = cli_seconds();
    for (int64_t i = 0; !status && i < r->max_tokens; i++) {
        int32_t id = r->ids[i % r->prompt_tokens];
        status = model->causal ? pco_causal_append(model->causal, &id, 1, model->logits, err)
                               : pco_seq2seq_step(model->seq2seq, id, model->logits, err);
    }
    *generation = cli_seconds() - start;
    return status;
}

static pco_status bench_lengths(bench_runner *r, const bench_arguments *arguments, pco_error *err)
{
    int64_t context = r->model->context_length, vocab = r->model->file->spec.vocab_size[PCO_DECODER];
    if (r->model->seq2seq && r->model->file->spec.vocab_size[PCO_ENCODER] < vocab)
        vocab = r->model->file->spec.vocab_size[PCO_ENCODER];
    r->prompt_tokens = arguments->prompt_tokens;
    if (!r->prompt_tokens) r->prompt_tokens = context / 2 < 64 ? (context + 1) / 2 : 64;
    int64_t room = r->model->causal ? context - r->prompt_tokens : context;
    r->max_tokens = arguments->max_tokens ? arguments->max_tokens : room < 32 ? room : 32;
    if (r->prompt_tokens > context || r->max_tokens > room)
        return pco_fail(err, PCO_ERROR_INVALID,
                        "%" PRId64 " tokens of prompt and %" PRId64 " generated do not fit into a "
                        "context of %" PRId64,
                        r->prompt_tokens, r->max_tokens, context);
    r->ids = malloc((size_t)r->prompt_tokens * sizeof *r->ids);
    r->prompt = malloc(BENCH_ROUNDS * sizeof *r->prompt);
    r->generation = malloc(BENCH_ROUNDS * sizeof *r->generation);
    if (!r->ids || !r->prompt || !r->generation)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    for (int64_t i = 0; i < r->prompt_tokens; i++) r->ids[i] = (int32_t)((i * 7 + 3) % vocab);
    return PCO_OK;
}

static void bench_fail(bench_runner *r, const pco_error *err)
{
    snprintf(r->error, sizeof r->error, "%.500s", *err->message ? err->message : "failed");
}

static void bench_open(bench_runner *r, pco_context *context, const bench_arguments *arguments)
{
    pco_error err = {""};
    double prompt, generation, start = cli_seconds();
    pco_status status = cli_open_model(context, arguments->what, r->device->id, arguments->context, &r->model, &err);
    r->load_seconds = cli_seconds() - start;
    if (!status) status = bench_lengths(r, arguments, &err);
    if (!status) status = bench_round(r, &prompt, &generation, &err); /* warm-up: builds what it needs */
    if (status) bench_fail(r, &err);
}

static void bench_rounds(bench_runner *runners, uint32_t count, double seconds)
{
    double start = cli_seconds();
    for (int n = 0; n < BENCH_ROUNDS && !cli_interrupted(); n++) {
        if (n >= 3 && cli_seconds() - start > seconds * count) return;
        for (uint32_t i = 0; i < count; i++) {
            bench_runner *r = &runners[i];
            pco_error err = {""};
            if (*r->error) continue;
            if (bench_round(r, &r->prompt[r->rounds], &r->generation[r->rounds], &err))
                bench_fail(r, &err);
            else
                r->rounds++;
        }
    }
}

static double bench_speed(int64_t tokens, double seconds) { return seconds > 0 ? (double)tokens / seconds : 0; }

static void bench_model_number(pco_json_writer *json, const char *key, double value)
{
    pco_json_key(json, key);
    pco_json_write_number(json, value);
}

static void bench_model_json(pco_json_writer *json, bench_runner *r)
{
    uint64_t peak = 0;
    pco_json_begin_object(json);
    pco_json_key(json, "device");
    pco_json_write_string(json, r->device->id);
    pco_json_key(json, "error");
    pco_json_write_string(json, r->error);
    if (!*r->error) {
        pco_session_memory(r->model->session, &peak);
        bench_model_number(json, "load_seconds", r->load_seconds);
        bench_model_number(json, "prompt_tokens", (double)r->prompt_tokens);
        bench_model_number(json, "prompt_tokens_per_second",
                           bench_speed(r->prompt_tokens, bench_median(r->prompt, r->rounds)));
        bench_model_number(json, "generated_tokens", (double)r->max_tokens);
        bench_model_number(json, "tokens_per_second",
                           bench_speed(r->max_tokens, bench_median(r->generation, r->rounds)));
        bench_model_number(json, "peak_device_bytes", (double)peak);
        bench_model_number(json, "repetitions", r->rounds);
    }
    pco_json_end_object(json);
}

static void bench_model_print(bench_runner *r)
{
    char bytes[32];
    uint64_t peak = 0;
    if (*r->error) {
        int column = printf("%-14s ", r->device->id);
        cli_wrap(r->error, column, column);
        return;
    }
    pco_session_memory(r->model->session, &peak);
    printf("%-14s %8.2f  %12.1f  %14.1f  %10s  %4d\n", r->device->id, r->load_seconds,
           bench_speed(r->prompt_tokens, bench_median(r->prompt, r->rounds)),
           bench_speed(r->max_tokens, bench_median(r->generation, r->rounds)), cli_bytes(peak, bytes), r->rounds);
}

static int bench_model_devices(const bench_arguments *arguments, pco_context *context, const pco_device_entry *devices,
                               uint32_t count)
{
    bench_runner *runners = calloc(count, sizeof *runners);
    int status = CLI_FAILED;
    pco_writer text = {0};
    pco_json_writer json = {.out = &text, .indent = 2};
    if (!runners) return status;
    for (uint32_t i = 0; i < count && !cli_interrupted(); i++) {
        runners[i].device = &devices[i];
        fprintf(stderr, "%s ...\n", runners[i].device->id);
        bench_open(&runners[i], context, arguments);
    }
    if (!cli_interrupted()) bench_rounds(runners, count, arguments->seconds);
    if (arguments->json)
        pco_json_begin_array(&json);
    else
        printf("%-14s %8s  %12s  %14s  %10s  %4s\n", "device", "load s", "prompt tok/s", "generate tok/s", "memory",
               "runs");
    for (uint32_t i = 0; i < count && runners[i].device; i++) {
        if (!*runners[i].error && !cli_interrupted()) status = CLI_OK;
        if (arguments->json)
            bench_model_json(&json, &runners[i]);
        else
            bench_model_print(&runners[i]);
    }
    if (arguments->json) {
        pco_json_end_array(&json);
        const int printed = cli_print(&text);
        if (printed) status = printed;
    } else if (status == CLI_OK) {
        printf("\nMedians of runs that alternate between the devices; warm-up is not counted.\n");
    }
    for (uint32_t i = 0; i < count; i++) {
        pco_model_close(runners[i].model);
        free(runners[i].ids);
        free(runners[i].prompt);
        free(runners[i].generation);
    }
    free(runners);
    return status;
}

int bench_model(const bench_arguments *arguments)
{
    pco_device_entry *devices = NULL;
    int status = CLI_OK;
    cli_watch_signals();
    pco_context *context = cli_context(arguments->devices, &status);
    if (!context) return status;
    uint32_t count = cli_select_sets(context->registry, arguments->devices, &devices, &status);
    if (count) status = bench_model_devices(arguments, context, devices, count);
    free(devices);
    pco_context_destroy(context);
    return cli_exit_status(status);
}
