/* Records added up: counts, rows per op, medians. */
#include "run/result.h"

#include "base/error.h"
#include "graph/op.h"

#include <stdlib.h>
#include <string.h>

void conf_case_free(pco_conformance_case *one)
{
    free((void *)(uintptr_t)one->label);
    free((void *)(uintptr_t)one->variant);
    free((void *)(uintptr_t)one->waiver);
    one->label = one->variant = one->waiver = NULL;
}

pco_status conf_case_copy(const pco_conformance_case *one, pco_conformance_case *copy, pco_error *err)
{
    *copy = *one;
    copy->label = strdup(one->label);
    copy->variant = strdup(one->variant);
    copy->waiver = one->waiver ? strdup(one->waiver) : NULL;
    if (copy->label && copy->variant && !one->waiver == !copy->waiver) return PCO_OK;
    conf_case_free(copy);
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for results");
}

pco_status conf_result_start(conf_result_builder *builder, const pco_conformance_options *options,
                             const char *device_id, pco_conformance_result *result, pco_error *err)
{
    uint32_t n_ops;
    pco_op_table(&n_ops);
    *builder = (conf_result_builder){.result = result};
    *result = (pco_conformance_result){
        .device_id = device_id, .tier = options->tier, .slice = options->slice, .seed = options->seed};
    result->ops = calloc(n_ops + options->n_own, sizeof *result->ops);
    return result->ops ? PCO_OK : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for results");
}

static pco_conformance_op *conf_result_row(pco_conformance_result *result, uint32_t op, const char *name)
{
    for (uint32_t i = result->n_ops; i-- > 0;)
        if (result->ops[i].op == op) return &result->ops[i];
    pco_conformance_op *row = &result->ops[result->n_ops++];
    *row = (pco_conformance_op){.op = op, .name = name};
    return row;
}

static void conf_replays_add(pco_conformance_replays *sum, const pco_conformance_replays *more)
{
    sum->executions += more->executions, sum->differed += more->differed;
    sum->wrong += more->wrong, sum->distinct += more->distinct;
}

void conf_result_count(conf_result_builder *builder, const pco_conformance_case *one)
{
    pco_conformance_op *row = conf_result_row(builder->result, one->op, one->op_name);
    row->count[one->state]++;
    builder->result->count[one->state]++;
    conf_replays_add(&builder->result->replays, &one->replays);
    for (int kind = 0; kind < PCO_PIECE_KINDS; kind++) {
        row->invariance.compared[kind] += one->invariance.compared[kind];
        row->invariance.differed[kind] += one->invariance.differed[kind];
    }
    if (builder->last_id != one->id || builder->last_seed != one->seed) builder->units = 0;
    builder->last_id = one->id, builder->last_seed = one->seed;
    if (++builder->units > row->variants) row->variants = builder->units;
    if (one->state == PCO_CASE_UNSUPPORTED && !row->reason[0])
        snprintf(row->reason, sizeof row->reason, "%.255s", one->detail);
}

pco_status conf_result_add(conf_result_builder *builder, const pco_conformance_case *one, pco_error *err)
{
    pco_conformance_result *result = builder->result;
    if (result->n_cases == builder->capacity) {
        uint32_t capacity = builder->capacity ? builder->capacity * 2 : 1024;
        pco_conformance_case *grown = realloc(result->cases, capacity * sizeof *grown);
        if (!grown) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for results");
        result->cases = grown, builder->capacity = capacity;
    }
    pco_status status = conf_case_copy(one, &result->cases[result->n_cases], err);
    if (status) return status;
    result->n_cases++;
    conf_result_count(builder, one);
    return PCO_OK;
}

void conf_result_constants(pco_conformance_result *result, conf_constants *constants)
{
    result->constants = constants->items, result->n_constants = constants->count;
    *constants = (conf_constants){0};
}

void conf_result_pipelines(pco_conformance_result *result, conf_pipelines *pipelines)
{
    result->pipelines = pipelines->items, result->n_pipelines = pipelines->count;
    *pipelines = (conf_pipelines){0};
}

static bool conf_result_is_same_run(const pco_conformance_case *a, const pco_conformance_case *b)
{
    return a->id == b->id && a->width == b->width && a->seed == b->seed && strcmp(a->variant, b->variant) == 0;
}

void pco_conformance_compare_threads(pco_conformance_result *result, const pco_conformance_result *other)
{
    for (uint32_t i = 0, j = 0; i < result->n_cases; i++) {
        const pco_conformance_case *one = &result->cases[i];
        while (j < other->n_cases && !conf_result_is_same_run(&other->cases[j], one)) j++;
        if (j == other->n_cases) { /* a record that one of the two has not: its neighbours may still be there */
            j = 0;
            continue;
        }
        if (!one->bits || !other->cases[j].bits) continue;
        pco_conformance_invariance *sum = &conf_result_row(result, one->op, one->op_name)->invariance;
        sum->compared[PCO_PIECE_THREADS]++;
        sum->differed[PCO_PIECE_THREADS] += one->bits != other->cases[j].bits;
    }
}

static int conf_result_compare(const void *left, const void *right)
{
    const pco_conformance_case *a = *(const pco_conformance_case *const *)left,
                               *b = *(const pco_conformance_case *const *)right;
    if (a->op != b->op) return a->op < b->op ? -1 : 1;
    return a->ratio < b->ratio ? -1 : a->ratio > b->ratio;
}

pco_status conf_result_finish(conf_result_builder *builder, pco_error *err)
{
    pco_conformance_result *result = builder->result;
    const pco_conformance_case **judged = malloc((result->n_cases + 1) * sizeof *judged);
    if (!judged) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for results");
    uint32_t count = 0;
    for (uint32_t i = 0; i < result->n_cases; i++)
        if (pco_conformance_state_is_judged(result->cases[i].state)) judged[count++] = &result->cases[i];
    qsort(judged, count, sizeof *judged, conf_result_compare);
    for (uint32_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && judged[end]->op == judged[begin]->op;) end++;
        pco_conformance_op *row = conf_result_row(result, judged[begin]->op, judged[begin]->op_name);
        row->median_ratio = judged[begin + (end - begin) / 2]->ratio;
        row->max_ratio = judged[end - 1]->ratio;
    }
    free(judged);
    return PCO_OK;
}

/* Notes `round`, whose records are all there, in `sum`; a run that was cancelled was cut. */
static pco_status conf_result_note_round(pco_conformance_result *sum, pco_conformance_result *round, pco_error *err)
{
    pco_conformance_round *grown = realloc(sum->each_round, (sum->rounds + 1) * sizeof *grown);
    if (!grown) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for results");
    sum->each_round = grown;
    pco_conformance_round *noted = &grown[sum->rounds++];
    *noted = (pco_conformance_round){.seed = round->seed, .records = round->n_cases, .seconds = round->seconds};
    memcpy(noted->count, round->count, sizeof noted->count);
    for (uint32_t i = 0; i < round->n_cases; i++) /* records of one case stand in a row */
        noted->cases += i == 0 || round->cases[i].id != round->cases[i - 1].id;
    if (round->status != PCO_ERROR_CANCELLED) return PCO_OK;
    noted->cut = 1;
    snprintf(noted->end, sizeof noted->end, "%.63s", round->message);
    round->status = PCO_OK;
    round->message[0] = 0;
    return PCO_OK;
}

pco_status pco_conformance_start_rounds(pco_conformance_result *result, pco_error *err)
{
    return conf_result_note_round(result, result, err);
}

pco_status pco_conformance_add_round(pco_conformance_result *sum, pco_conformance_result *round, pco_error *err)
{
    pco_status status = conf_result_note_round(sum, round, err);
    if (status) return status;
    conf_result_builder builder = {.result = sum, .capacity = sum->n_cases};
    pco_conformance_replays replays = sum->replays;
    conf_replays_add(&replays, &round->replays);
    for (uint32_t i = 0; i < round->n_cases; i++) {
        if (!pco_conformance_state_is_bad(round->cases[i].state)) continue;
        status = conf_result_add(&builder, &round->cases[i], err);
        if (status) return status;
    }
    for (uint32_t i = 0; i < round->n_ops; i++) {
        const pco_conformance_op *row = &round->ops[i];
        pco_conformance_op *total = conf_result_row(sum, row->op, row->name);
        for (int s = 0; s < PCO_CASE_STATES; s++) { /* what is bad was counted when it was added */
            if (pco_conformance_state_is_bad((pco_conformance_state)s)) continue;
            total->count[s] += row->count[s];
            sum->count[s] += row->count[s];
        }
        if (row->variants > total->variants) total->variants = row->variants;
        if (row->max_ratio > total->max_ratio) total->max_ratio = row->max_ratio;
    }
    conf_constants all = {sum->n_constants, sum->n_constants, sum->constants};
    status = conf_constants_add(&all, &(conf_constants){round->n_constants, 0, round->constants}, err);
    conf_result_constants(sum, &all);
    if (!status && !sum->status && round->status) {
        sum->status = round->status;
        memcpy(sum->message, round->message, sizeof sum->message);
    }
    sum->seconds += round->seconds;
    sum->replays = replays; /* those of records that are not kept, too */
    return status;
}

void pco_conformance_clear(pco_conformance_result *results, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t c = 0; c < results[i].n_cases; c++) conf_case_free(&results[i].cases[c]);
        free(results[i].ops);
        free(results[i].cases);
        free(results[i].each_round);
        pco_conformance_probe_clear(&results[i].probe);
        free(results[i].constants);
        for (uint32_t p = 0; p < results[i].n_pipelines; p++) free(results[i].pipelines[p].figures);
        free(results[i].pipelines);
        memset(&results[i], 0, sizeof results[i]);
    }
}

static bool conf_state_is_tested(int state) { return state != PCO_CASE_UNSUPPORTED && state != PCO_CASE_NOT_PROMISED; }

uint32_t pco_conformance_op_tested(const pco_conformance_op *op)
{
    uint32_t tested = 0;
    for (int s = 0; s < PCO_CASE_STATES; s++)
        if (conf_state_is_tested(s)) tested += op->count[s];
    return tested;
}

uint32_t pco_conformance_tested(const pco_conformance_result *results, uint32_t count, uint32_t *all)
{
    uint32_t tested = 0;
    *all = 0;
    for (uint32_t i = 0; i < count; i++)
        for (int s = 0; s < PCO_CASE_STATES; s++) {
            *all += results[i].count[s];
            if (conf_state_is_tested(s)) tested += results[i].count[s];
        }
    return tested;
}
