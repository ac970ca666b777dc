/* What a training is made of: executables by stage and shape, what goes into them before a run and comes out of them.
 * The trainer, its checkpoints, its ranks and its diagnosis are written with these. */
#include "train/trainer_internal.h"

#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pco_status trainer_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for training");
}

/* ---- executables ---- */

static void trainer_handles(trainer_stage *stage)
{
    const struct {
        uint32_t *handle;
        const char *name;
    } names[] = {{&stage->source, "source"},
                 {&stage->source_lengths, "source_lengths"},
                 {&stage->target, "target"},
                 {&stage->labels, "labels"},
                 {&stage->loss_scale, "loss_scale"},
                 {&stage->keep, "keep"},
                 {&stage->dropout_seed, "dropout_seed"},
                 {&stage->dropout_offset, "dropout_offset"},
                 {&stage->loss, "loss"},
                 {&stage->grad_norm, "grad_norm"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        *names[i].handle = pco_executable_tensor(stage->executable, names[i].name);
}

static pco_status trainer_build(pco_trainer *trainer, trainer_stage *stage, pco_error *err)
{
    static const char *const words[] = {"training", "training", "the update", "evaluation", "diagnosis"};
    char name[96];
    snprintf(name, sizeof name, "%s, %" PRId64 " x %" PRId64 " tokens", words[stage->kind], trainer->rows,
             stage->target_length);
    const pco_executable_params params = {.size = sizeof params, .name = name};
    pco_graph *graph = pco_graph_create();
    if (!graph) return trainer_no_memory(err);
    const pco_nn nn = {
        .graph = graph, .weights = trainer->base ? trainer->base->weights : NULL, .training = &trainer->training};
    pco_train_build(&nn, trainer->config, &trainer->model, stage->kind, trainer->rows, stage->source_length,
                    stage->target_length);
    pco_status status = pco_graph_check(graph, err);
    if (!status) status = pco_executable_create(trainer->session, graph, &params, &stage->executable, err);
    pco_graph_destroy(graph);
    if (!status) trainer_handles(stage);
    return status;
}

pco_status trainer_stage_for(pco_trainer *trainer, pco_train_stage kind, const pco_data_batch *batch,
                             trainer_stage **out, pco_error *err)
{
    const int64_t source = batch ? batch->source_length : 0, target = batch ? batch->target_length : 0;
    for (uint32_t i = 0; i < trainer->n_stages; i++) {
        trainer_stage *stage = *out = trainer->stages[i];
        if (stage->kind == kind && stage->source_length == source && stage->target_length == target) return PCO_OK;
    }
    if (trainer->n_stages == trainer->stage_capacity) {
        uint32_t capacity = 2 * trainer->stage_capacity + 8;
        trainer_stage **grown = realloc(trainer->stages, capacity * sizeof *grown);
        if (!grown) return trainer_no_memory(err);
        trainer->stages = grown;
        trainer->stage_capacity = capacity;
    }
    trainer_stage *stage = *out = calloc(1, sizeof *stage);
    if (!stage) return trainer_no_memory(err);
    *stage = (trainer_stage){.kind = kind, .source_length = source, .target_length = target};
    pco_status status = trainer_build(trainer, stage, err);
    if (status) {
        pco_executable_destroy(stage->executable);
        free(stage);
        return status;
    }
    trainer->stages[trainer->n_stages++] = stage;
    return PCO_OK;
}

static pco_status trainer_write(trainer_stage *stage, uint32_t handle, const void *data, uint64_t bytes, pco_error *err)
{
    return handle == PCO_NONE ? PCO_OK : pco_executable_write(stage->executable, handle, data, bytes, err);
}

pco_status trainer_write_batch(pco_trainer *trainer, trainer_stage *stage, const pco_data_batch *batch, float scale,
                               int64_t index, pco_error *err)
{
    const uint64_t seed = trainer->config->seed;
    /* Elements are counted from this rank's first row, so that row is part of the counter: masks of their own. */
    const uint64_t high = ((uint64_t)index >> 32) + ((uint64_t)trainer->first_row << 8);
    const int32_t dropout_seed[2] = {(int32_t)(uint32_t)seed, (int32_t)(uint32_t)(seed >> 32)},
                  offset[2] = {(int32_t)(uint32_t)index, (int32_t)(uint32_t)high};
    const uint64_t rows = (uint64_t)batch->rows * sizeof(int32_t), target = rows * (uint64_t)batch->target_length;
    pco_status status = trainer_write(stage, stage->target, batch->target, target, err);
    if (!status) status = trainer_write(stage, stage->labels, batch->labels, target, err);
    if (!status)
        status = trainer_write(stage, stage->source, batch->source, rows * (uint64_t)batch->source_length, err);
    if (!status) status = trainer_write(stage, stage->source_lengths, batch->source_lengths, rows, err);
    if (!status) status = trainer_write(stage, stage->loss_scale, &scale, sizeof scale, err);
    if (!status) status = trainer_write(stage, stage->dropout_seed, dropout_seed, sizeof dropout_seed, err);
    if (!status) status = trainer_write(stage, stage->dropout_offset, offset, sizeof offset, err);
    return status;
}

pco_status trainer_read(const trainer_stage *stage, uint32_t handle, double *value, pco_error *err)
{
    float read = 0;
    pco_status status = pco_executable_read(stage->executable, handle, &read, sizeof read, err);
    *value = (double)read;
    return status;
}

pco_status trainer_write_keep(trainer_stage *stage, float keep, pco_error *err)
{
    return trainer_write(stage, stage->keep, &keep, sizeof keep, err);
}

void trainer_read_batch(pco_trainer *trainer, pco_data_split split, int64_t index, pco_data_batch *batch)
{
    const int64_t first = trainer->first_row;
    pco_data_read(trainer->data, split, index, batch);
    batch->rows = trainer->rows;
    batch->target += first * batch->target_length;
    batch->labels += first * batch->target_length;
    if (!batch->source) return;
    batch->source += first * batch->source_length;
    batch->source_lengths += first;
}

/* ---- an update ---- */

float trainer_factor(const pco_trainer *trainer, int64_t tokens)
{
    return (float)trainer->scale.factor * (1 / (float)tokens);
}

pco_status trainer_write_run(pco_trainer *trainer, trainer_stage *stage, double rate, pco_error *err)
{
    const double t = (double)(trainer->step - trainer->scale.skipped) + 1; /* moments know no skipped update */
    return pco_update_write(stage->executable, &trainer->config->optimizer, rate, t, trainer->scale.factor, err);
}

int64_t pco_trainer_batches(const pco_trainer *trainer) { return trainer->step * trainer->config->accumulation; }

pco_status pco_trainer_read(const pco_trainer *trainer, const char *name, float *values, int64_t count, pco_error *err)
{
    return pco_session_read_state(trainer->session, name, values, (uint64_t)count * sizeof *values, err);
}

pco_executable_stats pco_trainer_inspect(const pco_trainer *trainer)
{
    return pco_executable_counts(trainer->stages[trainer->n_stages - 1]->executable);
}
