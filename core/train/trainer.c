#include "train/trainer_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "formats/safetensors.h"

static pco_status trainer_one_batch(pco_trainer *trainer, pco_train_result *result, pco_error *err)
{
    pco_data_batch batch;
    trainer_stage *stage;
    trainer_read_batch(trainer, PCO_DATA_TRAIN, trainer->step, &batch);
    result->tokens = batch.tokens;
    pco_status status = trainer_stage_for(trainer, PCO_TRAIN_STEP, &batch, &stage, err);
    if (!status)
        status = trainer_write_batch(trainer, stage, &batch, trainer_factor(trainer, batch.tokens), trainer->step, err);
    if (!status) status = trainer_write_run(trainer, stage, result->learning_rate, err);
    if (!status) status = pco_executable_run(stage->executable, err);
    if (!status) status = trainer_read(stage, stage->loss, &result->loss, err);
    if (!status) status = trainer_read(stage, stage->grad_norm, &result->grad_norm, err);
    return status;
}

/* The mean is over the labels of all batches together, as if they were one. */
static pco_status trainer_many_batches(pco_trainer *trainer, pco_train_result *result, pco_error *err)
{
    const int64_t count = trainer->config->accumulation, first = trainer->step * count;
    pco_data_batch batch;
    trainer_stage *stage;
    pco_status status = PCO_OK;
    for (int64_t i = 0; i < count; i++) {
        trainer_read_batch(trainer, PCO_DATA_TRAIN, first + i, &batch);
        result->tokens += batch.tokens;
    }
    for (int64_t i = 0; i < count && !status; i++) {
        double loss = 0;
        trainer_read_batch(trainer, PCO_DATA_TRAIN, first + i, &batch);
        status = trainer_stage_for(trainer, PCO_TRAIN_ACCUMULATE, &batch, &stage, err);
        if (!status)
            status =
                trainer_write_batch(trainer, stage, &batch, trainer_factor(trainer, result->tokens), first + i, err);
        if (!status) status = trainer_write_keep(stage, i > 0, err);
        if (!status) status = pco_executable_run(stage->executable, err);
        if (!status) status = trainer_read(stage, stage->loss, &loss, err);
        result->loss += loss;
    }
    if (!status) status = trainer_stage_for(trainer, PCO_TRAIN_APPLY, NULL, &stage, err);
    if (!status) status = trainer_write_run(trainer, stage, result->learning_rate, err);
    if (!status) status = pco_executable_run(stage->executable, err);
    if (!status) status = trainer_read(stage, stage->grad_norm, &result->grad_norm, err);
    return status;
}

pco_status pco_trainer_step(pco_trainer *trainer, pco_train_result *result, pco_error *err)
{
    *result = (pco_train_result){.learning_rate = pco_schedule_rate(&trainer->schedule, trainer->step + 1)};
    pco_status status = trainer->ranks                       ? trainer_ranks_step(trainer, result, err)
                        : trainer->config->accumulation == 1 ? trainer_one_batch(trainer, result, err)
                                                             : trainer_many_batches(trainer, result, err);
    if (status) return status;
    result->loss_scale = trainer->scale.factor;
    result->loss /= result->loss_scale;
    result->skipped = !isfinite(result->grad_norm);
    /* the forward pass knows no factor, so a bad loss is no overflow that a smaller one would cure */
    if (!isfinite(result->loss) || !pco_loss_scale_step(&trainer->scale, !result->skipped)) {
        int found = 0;
        status = trainer_diagnose(trainer, result->loss, result->grad_norm, &found, err);
        return pco_ranks_agree(trainer->ranks, status, found, err);
    }
    trainer->step++;
    return PCO_OK;
}

pco_status pco_trainer_evaluate(pco_trainer *trainer, double *loss, int64_t *tokens, pco_error *err)
{
    int64_t batches = pco_data_batches(trainer->data, PCO_DATA_HELD_OUT), most = trainer->config->evaluation_batches;
    double sum = 0;
    pco_status status = PCO_OK;
    *tokens = 0;
    if (most && batches > most) batches = most;
    for (int64_t i = 0; i < batches && !status; i++) {
        pco_data_batch batch;
        trainer_stage *stage;
        double part = 0;
        trainer_read_batch(trainer, PCO_DATA_HELD_OUT, i, &batch);
        status = trainer_stage_for(trainer, PCO_TRAIN_EVALUATE, &batch, &stage, err);
        if (!status) status = trainer_write_batch(trainer, stage, &batch, 1, 0, err);
        if (!status) status = pco_executable_run(stage->executable, err);
        if (!status) status = trainer_read(stage, stage->loss, &part, err);
        sum += part;
        *tokens += batch.tokens;
    }
    if (trainer->ranks) status = trainer_ranks_sum(trainer, status, &sum, err);
    *loss = *tokens ? sum / (double)*tokens : NAN;
    return status;
}

/* ---- creating ---- */

static int64_t trainer_layers(const pco_model_spec *model, const char *name)
{
    const char *layer = model->stacks[PCO_ENCODER].layer; /* NULL in a decoder alone that has one stack of names */
    return model->layers[layer && strncmp(name, layer, strcspn(layer, "*")) == 0 ? PCO_ENCODER : PCO_DECODER];
}

/* First values from a file. */
static pco_status trainer_read_weights(pco_trainer *trainer, pco_error *err)
{
    pco_weights *file = NULL;
    pco_status status = pco_safetensors_open(trainer->config->initial_weights, &file, err);
    if (status) return status;
    for (uint32_t i = 0; i < trainer->training.count && !status; i++)
        status = pco_state_load(trainer->session, file, &trainer->training.items[i], "", "", err);
    pco_weights_close(file);
    return status;
}

static pco_status trainer_initialize(pco_trainer *trainer, pco_error *err)
{
    pco_status status = PCO_OK;
    if (trainer->config->initial_weights) return trainer_read_weights(trainer, err);
    if (trainer->base && !trainer->training.lora) return trainer_base_start(trainer, err);
    for (uint32_t i = 0; i < trainer->training.count && !status; i++) {
        const pco_nn_parameter *p = &trainer->training.items[i];
        const uint64_t bytes = (uint64_t)pco_nn_elements(p) * sizeof(float);
        float *values = malloc(bytes ? bytes : 1);
        if (!values) return trainer_no_memory(err);
        pco_initialize(&trainer->config->initialization, trainer->config->seed, p,
                       trainer_layers(&trainer->model, p->name), values);
        status = pco_session_write_state(trainer->session, p->name, values, bytes, err);
        free(values);
    }
    return status;
}

static pco_status trainer_open(pco_trainer *trainer, pco_error *err)
{
    const pco_train_config *config = trainer->config;
    pco_status status = config->from ? trainer_base_open(trainer, err) : PCO_OK;
    if (!status) status = pco_data_open(&config->data, trainer->base, config->seed, config->rows, &trainer->data, err);
    if (!status && !trainer->base)
        status = pco_train_model_config(config, trainer->data, &trainer->document, &trainer->model, err);
    if (status) return status;
    trainer->schedule = config->schedule;
    trainer->schedule.d_model = trainer->model.d_model;
    const pco_data_ids ids = {.pad = trainer->model.pad_token_id,
                              .eos = trainer->model.eos_token_id,
                              .decoder_start = trainer->model.decoder_start_token_id,
                              .add_eos_to_source = trainer->model.add_eos_to_source};
    return pco_data_encode(trainer->data, &ids, err);
}

/* Is the folder free, and does it hold what is asked for? */
static pco_status trainer_check_start(pco_trainer *trainer, pco_train_resume resume, pco_error *err)
{
    pco_status status = trainer_take_folder(trainer, err);
    if (status) return status;
    const int there = trainer_has_checkpoint(trainer);
    if (there && !resume)
        return pco_fail(err, PCO_ERROR_INVALID,
                        "%s holds a run already; --resume continues it, and --out takes another folder",
                        trainer->config->out);
    if (!there && resume)
        return pco_fail(err, PCO_ERROR_NOT_FOUND, "%s holds no checkpoint to resume; start without --resume",
                        trainer->config->out);
    return PCO_OK;
}

/* The data, and the first executables, which make the states. */
static pco_status trainer_first_stages(pco_trainer *trainer, pco_error *err)
{
    pco_data_batch batch;
    trainer_stage *stage;
    const int one = trainer->config->accumulation == 1 && !trainer->ranks;
    pco_status status = trainer_open(trainer, err);
    if (status) return status;
    trainer_read_batch(trainer, PCO_DATA_TRAIN, 0, &batch);
    status = trainer_stage_for(trainer, one ? PCO_TRAIN_STEP : PCO_TRAIN_ACCUMULATE, &batch, &stage, err);
    if (!status && trainer->ranks) status = trainer_ranks_prepare(trainer, stage, err);
    if (!status && !one) status = trainer_stage_for(trainer, PCO_TRAIN_APPLY, NULL, &stage, err);
    return status;
}

pco_status pco_trainer_create_ranks(pco_session *session, const pco_train_config *config, pco_ranks *ranks,
                                    pco_train_resume resume, pco_trainer **out, pco_error *err)
{
    *out = NULL;
    pco_trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer) return trainer_no_memory(err);
    const uint32_t rank = pco_ranks_rank(ranks), count = pco_ranks_count(ranks);
    trainer->config = config;
    trainer->session = session;
    trainer->scale = pco_loss_scale_begin(config->dtype, &config->scaling);
    trainer->ranks = count > 1 ? ranks : NULL;
    pco_ranks_share(rank, count, config->rows, &trainer->first_row, &trainer->rows);
    pco_status status = rank == 0 ? trainer_check_start(trainer, resume, err) : PCO_OK;
    if (trainer->ranks) status = trainer_ranks_begin(trainer, status, err);
    if (!status) {
        status = trainer_first_stages(trainer, err);
        if (trainer->ranks) status = trainer_ranks_meet(trainer, status, err);
    }
    if (!status) {
        if (rank == 0) status = resume ? trainer_load(trainer, resume, err) : trainer_initialize(trainer, err);
        if (rank == 0 && !status) status = trainer_check_folder(trainer, err);
        if (rank == 0 && !status) status = trainer_check_start(trainer, resume, err); /* if it was not there before */
        if (trainer->ranks) status = trainer_ranks_share_states(trainer, status, err);
    }
    if (status) {
        pco_trainer_destroy(trainer);
        return status;
    }
    *out = trainer;
    return PCO_OK;
}

pco_status pco_trainer_create(pco_session *session, const pco_train_config *config, pco_train_resume resume,
                              pco_trainer **out, pco_error *err)
{
    return pco_trainer_create_ranks(session, config, NULL, resume, out, err);
}

void pco_trainer_destroy(pco_trainer *trainer)
{
    if (!trainer) return;
    for (uint32_t i = 0; i < trainer->n_stages; i++) {
        pco_executable_destroy(trainer->stages[i]->executable);
        free(trainer->stages[i]->until);
        free(trainer->stages[i]);
    }
    free(trainer->stages);
    free(trainer->buckets);
    free(trainer->gradients);
    pco_nn_training_release(&trainer->training);
    pco_data_close(trainer->data);
    pco_model_file_close(trainer->base);
    cJSON_Delete(trainer->document);
    pco_lock_release(&trainer->lock);
    free(trainer->unlocked);
    free(trainer);
}

/* ---- what it is ---- */

int64_t pco_trainer_steps(const pco_trainer *trainer) { return trainer->step; }

uint32_t pco_trainer_executables(const pco_trainer *trainer) { return trainer->n_stages; }

int pco_trainer_mixed(const pco_trainer *trainer) { return trainer->mixed; }

const char *pco_trainer_unlocked(const pco_trainer *trainer) { return trainer->unlocked; }

const pco_data *pco_trainer_data(const pco_trainer *trainer) { return trainer->data; }

const pco_nn_training *pco_trainer_parameters(const pco_trainer *trainer, int64_t *elements)
{
    *elements = 0;
    for (uint32_t i = 0; i < trainer->training.count; i++) *elements += pco_nn_elements(&trainer->training.items[i]);
    return &trainer->training;
}
