/* Tensors beyond 2^31 bytes and beyond a binding: nothing is held on the host but a table of values, which
 * repeats with a prime period, and a piece to copy from. The whole result is computed; rows of it are judged:
 * the first and last, those at 2^31 and 2^32 bytes and at multiples of the binding limit, and some more. */
#include "run/constants.h"
#include "run/runner.h"

#include "base/dtype.h"
#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 25, MAX_SAMPLES = 64, RANDOM_SAMPLES = 16, TAIL = 256 };
static const uint64_t WAIT_NANOSECONDS = 600ull * 1000000000ull;
static const uint64_t SPARE = 1ull << 30; /* memory that is left alone */

typedef struct conf_large_run {
    const pco_conformance_device *device;
    const pco_conformance_options *options;
    const conf_case *one;
    conf_problem problem;                      /* tensors and node; no data */
    uint8_t *table[PCO_MAX_INPUTS];            /* one period, or fewer where the operand is small */
    pco_buffer *buffers[CONF_MAX_TENSORS + 1]; /* by tensor, the workspace last */
    uint8_t *chunk;
    int64_t samples[MAX_SAMPLES];
    uint32_t n_samples;
    pco_program *program; /* of the variant under way */
    uint64_t workspace;
} conf_large_run;

static int64_t conf_large_period(const pco_tensor *tensor)
{
    int64_t count = oracle_count(tensor);
    return count < CONF_LARGE_PERIOD ? count : CONF_LARGE_PERIOD;
}

/* Elements [from, from + count) of an operand. */
static void conf_large_fetch(const conf_large_run *run, uint32_t input, int64_t from, int64_t count, uint8_t *to)
{
    const pco_tensor *tensor = &run->problem.tensors[run->problem.node.inputs[input]];
    int64_t period = conf_large_period(tensor), step = oracle_block_bytes(tensor->dtype);
    while (count > 0) {
        int64_t at = from % period, n = period - at < count ? period - at : count;
        memcpy(to, run->table[input] + at * step, (size_t)(n * step));
        to += n * step, from += n, count -= n;
    }
}

static pco_status conf_large_describe(conf_large_run *run, pco_error *err)
{
    const conf_case *one = run->one;
    conf_problem *p = &run->problem;
    conf_problem_describe(p, one);
    p->rules = oracle_rules_from(&run->device->info->contract);
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        const uint32_t at = p->node.inputs[i];
        conf_case small = *one; /* the operand's values, as a row of one period */
        small.in[i].rank = 1, small.in[i].shape[0] = conf_large_period(&p->tensors[at]);
        run->table[i] = malloc((size_t)small.in[i].shape[0] * oracle_block_bytes(one->in[i].dtype) + 8);
        if (!run->table[i]) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
        conf_operand_fill(&small, i, conf_case_seed(one, run->options->seed), run->table[i]);
    }
    return conf_problem_infer(p, err);
}

/* ---- memory ---- */

static pco_status conf_large_check_room(const conf_large_run *run, pco_error *err)
{
    const pco_device_info *info = run->device->info;
    const pco_device_api *api = run->device->plugin->device;
    uint64_t need = 0, left = info->memory;
    if (api && api->memory_left) left = api->memory_left(run->device->device);
    for (uint32_t t = 0; t < run->problem.n_tensors; t++) {
        uint64_t bytes = run->problem.tensors[t].bytes + TAIL;
        need += bytes;
        if (bytes > info->max_allocation)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                            "size: needs %.1f GiB in one buffer, and the device has %.1f GiB at most",
                            (double)bytes * 0x1p-30, (double)info->max_allocation * 0x1p-30);
    }
    if (left && need + SPARE > left)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "size: needs %.1f GiB, and the device has %.1f GiB left",
                        (double)(need + SPARE) * 0x1p-30, (double)left * 0x1p-30);
    return PCO_OK;
}

static pco_status conf_large_write(conf_large_run *run, uint32_t tensor, uint32_t input, pco_error *err)
{
    const pco_conformance_device *device = run->device;
    const pco_tensor *desc = &run->problem.tensors[tensor];
    uint64_t step = oracle_block_bytes(desc->dtype), whole = desc->bytes + TAIL;
    for (uint64_t at = 0; at < whole; at += CHUNK) {
        uint64_t bytes = whole - at < CHUNK ? whole - at : CHUNK, data = 0;
        memset(run->chunk, CONF_LARGE_POISON, bytes);
        if (input != PCO_NONE && at < desc->bytes) {
            data = desc->bytes - at < bytes ? desc->bytes - at : bytes;
            conf_large_fetch(run, input, (int64_t)(at / step), (int64_t)(data / step), run->chunk);
        }
        pco_status status =
            device->plugin->buffer->write(device->device, run->buffers[tensor], at, run->chunk, bytes, err);
        if (status) return pco_fail_prefix(err, status, "writing a buffer");
    }
    return PCO_OK;
}

static pco_status conf_large_create(conf_large_run *run, pco_error *err)
{
    const pco_conformance_device *device = run->device;
    for (uint32_t t = 0; t < run->problem.n_tensors; t++) {
        uint64_t bytes = (run->problem.tensors[t].bytes + TAIL + 3) / 4 * 4;
        pco_status status =
            device->plugin->buffer->create(device->device, bytes, PCO_USAGE_DEVICE, &run->buffers[t], err);
        if (status == PCO_ERROR_OUT_OF_DEVICE_MEMORY) {
            char why[256];
            snprintf(why, sizeof why, "%.255s", err->message);
            return pco_fail(err, PCO_ERROR_UNSUPPORTED, "size: a buffer of %.1f GiB: %s", (double)bytes * 0x1p-30, why);
        }
        if (status) return pco_fail_prefix(err, status, "creating a buffer of %" PRIu64 " bytes", bytes);
    }
    for (uint32_t i = 0; i < run->one->n_inputs && !run->options->compile_only; i++) {
        pco_status status = conf_large_write(run, run->problem.node.inputs[i], i, err);
        if (status) return status;
    }
    return PCO_OK;
}

static void conf_large_clear(conf_large_run *run)
{
    for (uint32_t t = 0; t < CONF_MAX_TENSORS + 1; t++)
        if (run->buffers[t]) run->device->plugin->buffer->destroy(run->device->device, run->buffers[t]);
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) free(run->table[i]);
    free(run->chunk);
}

/* ---- which rows ---- */

/* Rows are slices of the first dimension of operand `large`; for gather they are results. */
static uint32_t conf_large_input(const conf_case *one) { return one->op == PCO_OP_MATMUL ? 1 : 0; }

static void conf_large_sample(conf_large_run *run, int64_t row, int64_t rows)
{
    if (row < 0 || row >= rows || run->n_samples == MAX_SAMPLES) return;
    for (uint32_t i = 0; i < run->n_samples; i++)
        if (run->samples[i] == row) return;
    run->samples[run->n_samples++] = row;
}

static void conf_large_choose(conf_large_run *run)
{
    const pco_tensor *x = &run->problem.tensors[run->problem.node.inputs[conf_large_input(run->one)]];
    const pco_tensor *y = &run->problem.tensors[run->problem.node.outputs[0]];
    int64_t rows = run->one->op == PCO_OP_GATHER ? y->shape[0] : x->shape[0];
    uint64_t row_bytes = x->bytes / (uint64_t)x->shape[0], binding = run->device->info->max_binding,
             state = run->options->seed;
    const uint64_t edges[] = {1ull << 31, 1ull << 32, binding, 2 * binding, 3 * binding};
    conf_large_sample(run, 0, rows);
    conf_large_sample(run, rows - 1, rows);
    for (uint32_t e = 0; e < sizeof edges / sizeof *edges; e++)
        for (int64_t beside = -1; beside <= 1 && edges[e] < x->bytes; beside++)
            conf_large_sample(run, (int64_t)(edges[e] / row_bytes) + beside, rows);
    for (int i = 0; i < RANDOM_SAMPLES; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        conf_large_sample(run, (int64_t)((state >> 33) % (uint64_t)rows), rows);
    }
}

/* ---- judging a row ---- */

/* The row as a problem of its own, with the oracle's answer. */
static pco_status conf_large_row(const conf_large_run *run, int64_t row, conf_problem *piece, pco_error *err)
{
    const conf_problem *p = &run->problem;
    *piece = (conf_problem){.one = p->one, .rules = p->rules, .node = p->node};
    piece->oracle = (oracle_node){
        .op = p->one->op, .attrs = p->one->attrs.bytes, .n_inputs = p->one->n_inputs, .rules = &piece->rules};
    int64_t from = row;
    if (p->one->op == PCO_OP_GATHER) from = (int64_t)p->one->in[1].list[row % p->one->in[1].n_list];
    for (uint32_t i = 0; i < p->one->n_inputs; i++) {
        pco_tensor *tensor = &piece->tensors[i];
        *tensor = p->tensors[p->node.inputs[i]];
        int64_t per = tensor->rank ? oracle_count(tensor) / tensor->shape[0] : 1, begin = 0;
        bool cut = i == conf_large_input(p->one) || p->one->op == PCO_OP_GATHER;
        if (cut) begin = from * per, tensor->shape[0] = 1;
        tensor->bytes = oracle_bytes(tensor);
        piece->node.inputs[i] = i, piece->n_tensors = i + 1;
        piece->data[i] = malloc(tensor->bytes + 8);
        if (!piece->data[i]) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
        if (p->one->op == PCO_OP_GATHER && i == 1)
            memset(piece->data[i], 0, tensor->bytes); /* the only row that this table has */
        else
            conf_large_fetch(run, i, begin, oracle_count(tensor), piece->data[i]);
        pco_status status = oracle_operand_load(&piece->oracle.in[i], tensor, piece->data[i], err);
        if (status) return status;
    }
    pco_status status = conf_problem_infer(piece, err);
    if (status) return status;
    piece->oracle.n_outputs = piece->node.n_outputs;
    return oracle_run(&piece->oracle, err);
}

/* What the device has for the row: one slice of the result's first dimension, or (matmul) of its last. */
static pco_status conf_large_read(const conf_large_run *run, int64_t row, const conf_problem *piece, uint8_t *to,
                                  pco_error *err)
{
    uint32_t t = run->problem.node.outputs[0];
    const pco_tensor *y = &run->problem.tensors[t];
    uint64_t step = oracle_block_bytes(y->dtype), bytes = piece->tensors[piece->node.outputs[0]].bytes;
    uint64_t parts = run->one->op == PCO_OP_MATMUL ? (uint64_t)y->shape[0] : 1, part = bytes / parts;
    uint64_t stride = run->one->op == PCO_OP_MATMUL ? (uint64_t)y->shape[1] * step : 0;
    for (uint64_t i = 0; i < parts; i++) {
        pco_status status = run->device->plugin->buffer->read(
            run->device->device, run->buffers[t], i * stride + (uint64_t)row * part, to + i * part, part, err);
        if (status) return pco_fail_prefix(err, status, "reading a buffer");
    }
    return PCO_OK;
}

static pco_status conf_large_judge_row(const conf_large_run *run, int64_t row, pco_conformance_case *result,
                                       pco_error *err)
{
    conf_problem piece;
    pco_status status = conf_large_row(run, row, &piece, err);
    uint8_t *got = status ? NULL : malloc(piece.tensors[piece.node.outputs[0]].bytes + 8);
    if (!status && !got) status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
    if (!status) status = conf_large_read(run, row, &piece, got, err);
    if (!status) {
        conf_verdict verdict;
        char texts[2][PCO_NUMBER_TEXT];
        conf_judge(&piece.oracle.out[0], &piece.rules, got, &verdict);
        result->elements += verdict.elements;
        if (verdict.wrong && !result->wrong)
            snprintf(result->detail, sizeof result->detail,
                     "row %" PRId64 ": %" PRId64 " of %" PRId64 " elements are outside their bounds; element %" PRId64
                     " is %s, expected %s within %.3g",
                     row, verdict.wrong, verdict.elements, verdict.element, pco_number_text(verdict.got, texts[0]),
                     pco_number_text(verdict.expected, texts[1]), verdict.bound);
        result->wrong += verdict.wrong;
        if (result->element < 0 || verdict.ratio > result->ratio) {
            result->ratio = verdict.ratio, result->element = row * verdict.elements + verdict.element;
            result->expected = verdict.expected, result->got = verdict.got, result->bound = verdict.bound;
        }
    }
    free(got);
    conf_problem_clear(&piece);
    return status;
}

/* Behind every tensor and the word that it ends in, nothing may have changed. */
static pco_status conf_large_check_tails(const conf_large_run *run, pco_error *err)
{
    for (uint32_t t = 0; t < run->problem.n_tensors; t++) {
        uint8_t tail[TAIL];
        const pco_tensor *tensor = &run->problem.tensors[t];
        pco_status status =
            run->device->plugin->buffer->read(run->device->device, run->buffers[t], tensor->bytes, tail, TAIL, err);
        if (status) return pco_fail_prefix(err, status, "reading a buffer");
        for (uint64_t i = -tensor->bytes % 4; i < TAIL; i++)
            if (tail[i] != CONF_LARGE_POISON)
                return pco_fail(err, PCO_ERROR_INTERNAL, "write out of place: %" PRIu64 " bytes behind '%s'", i + 1,
                                tensor->name);
    }
    return PCO_OK;
}

/* ---- one variant ---- */

static pco_status conf_large_execute(conf_large_run *run, conf_run_state *state, pco_error *err)
{
    const pco_plugin *plugin = run->device->plugin;
    pco_place places[CONF_MAX_TENSORS + 1];
    uint32_t n = run->problem.n_tensors;
    pco_status status = conf_run_propose(state, err);
    if (status) return status;
    for (uint32_t t = 0; t < n; t++) places[t] = (pco_place){t, 0, (run->problem.tensors[t].bytes + 3) / 4 * 4};
    places[n] = (pco_place){.buffer = PCO_NONE};
    if (state->trial.nodes[0].workspace) {
        places[n] = (pco_place){n, 0, (state->trial.nodes[0].workspace + 3) / 4 * 4};
        run->workspace = places[n].bytes;
        status = plugin->buffer->create(run->device->device, places[n].bytes, PCO_USAGE_DEVICE, &run->buffers[n], err);
        if (status) return pco_fail_prefix(err, PCO_ERROR_UNSUPPORTED, "size: workspace");
    }
    pco_plan plan = {.size = sizeof plan,
                     .n_buffers = run->buffers[n] ? n + 1 : n,
                     .buffers = run->buffers,
                     .tensors = places,
                     .workspaces = &places[n]};
    status = pco_trial_prepare_plan(&state->trial, &plan, &run->program, err);
    if (!status && run->options->constants)
        status = conf_constants_look(run->options->constants, run->device, run->program, false, err);
    if (!status && conf_only_prepares(run->options)) return pco_fail(err, PCO_ERROR_CANCELLED, "not run");
    return status ? status
                  : pco_trial_run(&state->trial, run->program, plugin->program->segments(run->program),
                                  WAIT_NANOSECONDS, err);
}

static void conf_large_finish(conf_large_run *run)
{
    const pco_plugin *plugin = run->device->plugin;
    const uint32_t n = run->problem.n_tensors;
    if (run->program) plugin->program->destroy(run->device->device, run->program);
    if (run->buffers[n]) plugin->buffer->destroy(run->device->device, run->buffers[n]);
    run->program = NULL, run->buffers[n] = NULL, run->workspace = 0;
}

static pco_status conf_large_make_row(const void *run, int64_t row, conf_problem *piece, pco_error *err)
{
    return conf_large_row(run, row, piece, err);
}

/* For whoever looks on, while the program is there. */
static void conf_large_show(const conf_large_run *run, const char *variant, pco_status status, const char *message)
{
    conf_large_view view = {.n_buffers = run->problem.n_tensors,
                            .n_rows = run->n_samples,
                            .rows = run->samples,
                            .columns = run->one->op == PCO_OP_MATMUL,
                            .make_row = conf_large_make_row,
                            .run = run};
    if (!run->options->observer || !run->program) return;
    for (uint32_t t = 0; t < view.n_buffers; t++)
        view.buffers[t].bytes = (run->problem.tensors[t].bytes + TAIL + 3) / 4 * 4;
    for (uint32_t i = 0; i < run->one->n_inputs; i++) {
        const pco_tensor *tensor = &run->problem.tensors[run->problem.node.inputs[i]];
        view.buffers[i].data = tensor->bytes;
        view.buffers[i].period = (uint64_t)conf_large_period(tensor) * oracle_block_bytes(tensor->dtype);
        view.buffers[i].table = run->table[i];
    }
    if (run->workspace) view.buffers[view.n_buffers++].bytes = run->workspace;
    const conf_execution execution = {run->device,  &run->problem, NULL,
                                      run->program, variant,       !conf_only_prepares(run->options),
                                      status,       message,       &view};
    if (run->options->observer->observe) run->options->observer->observe(run->options->observer->user, &execution);
}

static pco_conformance_state conf_large_state(pco_status status)
{
    return status == PCO_ERROR_UNSUPPORTED   ? PCO_CASE_UNSUPPORTED
           : status == PCO_ERROR_DEVICE_LOST ? PCO_CASE_DEVICE_LOST
                                             : PCO_CASE_FAIL;
}

static pco_status conf_large_variant(conf_large_run *run, conf_run_state *state, pco_conformance_case *result,
                                     pco_error *err)
{
    pco_status status =
        run->options->compile_only ? PCO_OK : conf_large_write(run, run->problem.node.outputs[0], PCO_NONE, err);
    if (!status) status = conf_large_execute(run, state, err);
    for (uint32_t i = 0; i < run->n_samples && !status; i++)
        status = conf_large_judge_row(run, run->samples[i], result, err);
    if (!status) status = conf_large_check_tails(run, err);
    if (status == PCO_ERROR_CANCELLED)
        conf_large_show(run, result->variant, PCO_OK, "");
    else
        conf_large_show(run, result->variant, result->wrong ? PCO_ERROR_INTERNAL : status,
                        result->wrong ? result->detail
                        : status      ? err->message
                                      : "");
    conf_large_finish(run);
    if (status == PCO_ERROR_CANCELLED && run->options->compile_only) status = PCO_OK;
    result->state = result->wrong ? PCO_CASE_FAIL : PCO_CASE_PASS;
    if (status) {
        result->state = conf_large_state(status);
        result->ratio = status == PCO_ERROR_UNSUPPORTED ? 0.0 : INFINITY;
        snprintf(result->detail, sizeof result->detail, "%.511s", err->message);
    }
    conf_run_clear(state);
    return status == PCO_ERROR_DEVICE_LOST || status == PCO_ERROR_OUT_OF_HOST_MEMORY ? status : PCO_OK;
}

static pco_status conf_large_variants(conf_large_run *run, const pco_conformance_case *blank, conf_report_fn report,
                                      void *user, pco_error *err)
{
    const pco_conformance_options *options = run->options;
    conf_run_state state = conf_run_start(run->device, &run->problem);
    pco_variant variants[PCO_VARIANTS];
    uint32_t count;
    pco_status status = pco_trial_variants(&state.trial, variants, &count, err);
    for (uint32_t v = 0; !status && v < count; v++) {
        char text[PCO_VARIANT_TEXT];
        pco_conformance_case result = *blank;
        result.variant = pco_variant_text(&variants[v], text);
        if (variants[v].subgroup_width || variants[v].form) continue; /* these are for the small cases */
        if (!pco_variant_matches(&variants[v], options->variant)) continue;
        if (options->begin && !options->begin(options->user, &result, 0)) continue;
        conf_run_force(&state, variants, v);
        status = conf_large_variant(run, &state, &result, err);
        report(user, &result);
    }
    return status;
}

pco_status conf_run_large(const pco_conformance_device *device, const conf_case *one,
                          const pco_conformance_options *options, const pco_conformance_case *blank,
                          conf_report_fn report, void *user, pco_error *err)
{
    conf_large_run run = {.device = device, .options = options, .one = one};
    pco_status status = conf_large_describe(&run, err);
    if (!status) status = conf_large_check_room(&run, err);
    if (!status) {
        const conf_run_state state = conf_run_start(device, &run.problem);
        status = pco_trial_supports(&state.trial, err);
    }
    run.chunk = status ? NULL : malloc(CHUNK);
    if (!status && !run.chunk) status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
    if (!status) status = conf_large_create(&run, err);
    if (!status) {
        conf_large_choose(&run);
        status = conf_large_variants(&run, blank, report, user, err);
    } else {
        pco_conformance_case result = *blank;
        result.state = conf_large_state(status);
        snprintf(result.detail, sizeof result.detail, "%.511s", err->message);
        report(user, &result);
        if (status != PCO_ERROR_DEVICE_LOST && status != PCO_ERROR_OUT_OF_HOST_MEMORY) status = PCO_OK;
    }
    conf_large_clear(&run);
    return status;
}
