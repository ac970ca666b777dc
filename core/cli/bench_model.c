/* portico bench MODEL: prompt and generation speed, devices alternating. */
#include "cli/bench.h"
#include "cli/compare.h"

#include "base/clock.h"
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
    double device_prompt, device_token;        /* milliseconds by the device's clock; 0: it has none */
    uint64_t peak;                             /* bytes on the device */
    int rounds;
} bench_runner;

enum { BENCH_ROUNDS = 200, BENCH_DEVICE_ROUNDS = 3 };

static pco_status bench_prompt(bench_runner *r, pco_error *err)
{
    pco_model *model = r->model;
    if (model->seq2seq) return pco_seq2seq_encode(model->seq2seq, r->ids, r->prompt_tokens, err);
    pco_causal_reset(model->causal);
    return pco_causal_append(model->causal, r->ids, r->prompt_tokens, model->logits, err);
}

static pco_status bench_generate(bench_runner *r, pco_error *err)
{
    pco_model *model = r->model;
    pco_status status = PCO_OK;
    for (int64_t i = 0; !status && i < r->max_tokens; i++) {
        int32_t id = r->ids[i % r->prompt_tokens];
        status = model->causal ? pco_causal_append(model->causal, &id, 1, model->logits, err)
                               : pco_seq2seq_step(model->seq2seq, id, model->logits, err);
    }
    return status;
}

static pco_status bench_round(bench_runner *r, double *prompt, double *generation, pco_error *err)
{
    double start = pco_seconds();
    pco_status status = bench_prompt(r, err);
    *prompt = pco_seconds() - start;
    start = pco_seconds();
    if (!status) status = bench_generate(r, err);
    *generation = pco_seconds() - start;
    return status;
}

/* Rounds by the device's own clock. Noting times costs time, so they come after those that are timed. Where the device
 * cannot tell there is no figure, and nothing wrong with the others. */
static void bench_by_device(bench_runner *r, double seconds)
{
    double prompt[BENCH_DEVICE_ROUNDS + 1], token[BENCH_DEVICE_ROUNDS + 1];
    pco_error ignored;
    int n = 0;
    pco_session *session = r->model->session;
    if (!(pco_session_device(session)->features & PCO_FEATURE_TIMESTAMPS)) return;
    pco_status status = pco_session_profile(session, 1, &ignored);
    if (!status) status = api_runner(r->model, &ignored); /* a profile is of programs that are made under it */
    const double start = pco_seconds();
    for (; !status && n <= BENCH_DEVICE_ROUNDS && (n < 2 || pco_seconds() - start < seconds); n++) { /* 0 warms up */
        const uint64_t before = pco_session_nanoseconds(session);
        status = bench_prompt(r, &ignored);
        const uint64_t between = pco_session_nanoseconds(session);
        if (!status) status = bench_generate(r, &ignored);
        prompt[n] = 1e-6 * (double)(between - before);
        token[n] = 1e-6 * (double)(pco_session_nanoseconds(session) - between) / (double)r->max_tokens;
    }
    if (status || pco_session_nanoseconds(session) == 0) return;
    r->device_prompt = bench_median(prompt + 1, n - 1);
    r->device_token = bench_median(token + 1, n - 1);
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
    double prompt, generation, start = pco_seconds();
    pco_status status =
        cli_open_model(context, arguments->what, CLI_OPEN(r->device->id, arguments->context), &r->model, &err);
    r->load_seconds = pco_seconds() - start;
    if (!status) status = bench_lengths(r, arguments, &err);
    if (!status) status = bench_round(r, &prompt, &generation, &err); /* warm-up: builds what it needs */
    if (status) bench_fail(r, &err);
}

static void bench_rounds(bench_runner *runners, uint32_t count, double seconds)
{
    double start = pco_seconds();
    for (int n = 0; n < BENCH_ROUNDS && !cli_interrupted(); n++) {
        if (n >= 3 && pco_seconds() - start > seconds * count) return;
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

static void bench_model_clock(pco_json_writer *json, const char *key, double milliseconds)
{
    if (milliseconds > 0) {
        bench_model_number(json, key, milliseconds);
    } else {
        pco_json_key(json, key);
        pco_json_write_null(json);
    }
}

static void bench_model_json(pco_json_writer *json, bench_runner *r)
{
    pco_json_begin_object(json);
    pco_json_key(json, "device");
    pco_json_write_string(json, r->device->id);
    pco_json_key(json, "error");
    pco_json_write_string(json, r->error);
    if (!*r->error) {
        bench_model_number(json, "load_seconds", r->load_seconds);
        bench_model_number(json, "prompt_tokens", (double)r->prompt_tokens);
        bench_model_number(json, "prompt_tokens_per_second",
                           bench_speed(r->prompt_tokens, bench_median(r->prompt, r->rounds)));
        bench_model_number(json, "generated_tokens", (double)r->max_tokens);
        bench_model_number(json, "tokens_per_second",
                           bench_speed(r->max_tokens, bench_median(r->generation, r->rounds)));
        bench_model_clock(json, "prompt_device_milliseconds", r->device_prompt);
        bench_model_clock(json, "token_device_milliseconds", r->device_token);
        bench_model_number(json, "peak_device_bytes", (double)r->peak);
        bench_model_number(json, "repetitions", r->rounds);
    }
    pco_json_end_object(json);
}

static void bench_model_print(bench_runner *r)
{
    char bytes[32], prompt[32] = "-", token[32] = "-";
    if (*r->error) {
        int column = printf("%-14s ", r->device->id);
        cli_wrap(r->error, column, column);
        return;
    }
    if (r->device_prompt > 0) snprintf(prompt, sizeof prompt, "%.3f", r->device_prompt);
    if (r->device_token > 0) snprintf(token, sizeof token, "%.3f", r->device_token);
    printf("%-14s %8.2f  %12.1f  %14.1f  %10s  %9s  %10s  %4d\n", r->device->id, r->load_seconds,
           bench_speed(r->prompt_tokens, bench_median(r->prompt, r->rounds)),
           bench_speed(r->max_tokens, bench_median(r->generation, r->rounds)), prompt, token, cli_bytes(r->peak, bytes),
           r->rounds);
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
        cli_note("%s ...\n", runners[i].device->id);
        bench_open(&runners[i], context, arguments);
    }
    if (!cli_interrupted()) bench_rounds(runners, count, arguments->seconds);
    for (uint32_t i = 0; i < count && runners[i].device; i++) {
        bench_runner *r = &runners[i];
        if (*r->error) continue;
        pco_session_memory(r->model->session, &r->peak);
        if (!cli_interrupted()) bench_by_device(r, arguments->seconds);
    }
    if (arguments->json)
        pco_json_begin_array(&json);
    else
        printf("%-14s %8s  %12s  %14s  %10s  %9s  %10s  %4s\n", "device", "load s", "prompt tok/s", "generate tok/s",
               "prompt ms*", "token ms*", "memory", "runs");
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
        printf("\nMedians of runs that alternate between the devices; warm-up is not counted.\n"
               "* By the device's own clock, its kernels alone; -: it has none.\n");
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
