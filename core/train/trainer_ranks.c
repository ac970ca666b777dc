/* Training with other ranks. Each runs forward and backward pass on its rows of the batch, with the loss
 * divided by the labels of the whole batch, so that the sum of all gradients is that of one rank with the
 * whole batch. Sums of buckets go on while the backward pass makes the next ones. Then every rank makes the
 * same update from the same bits; where devices differ, whose rounding would let the weights drift apart,
 * rank 0 makes it and sends the weights. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "train/trainer_internal.h"

/* A bucket is a sixteenth of all gradients, so that the last one, which nothing hides, is short; and not so
 * small that messages cost more than bytes. */
enum { RANKS_SHARE = 16, RANKS_LEAST = 4096 /* elements */ };

/* ---- meeting ---- */

/* The first key in which two configs differ, the folder aside: even intervals count, as all ranks evaluate
 * together. */
static const char *ranks_difference(const cJSON *a, const cJSON *b)
{
    const cJSON *sides[2][2] = {{a, b}, {b, a}}, *item;
    for (int side = 0; side < 2; side++) cJSON_ArrayForEach(item, sides[side][0])
        {
            const cJSON *other = cJSON_GetObjectItemCaseSensitive(sides[side][1], item->string);
            if (strcmp(item->string, "out") != 0 && (!other || !cJSON_Compare(item, other, 1))) return item->string;
        }
    return NULL;
}

/* Rank 0's config, compared with this rank's. */
static pco_status ranks_compare_config(pco_trainer *trainer, pco_error *err)
{
    const int first = pco_ranks_rank(trainer->ranks) == 0;
    char *text = first ? cJSON_PrintUnformatted(trainer->config->root) : NULL;
    uint64_t size = text ? strlen(text) : 0;
    cJSON *root = NULL;
    pco_status status = pco_ranks_broadcast(trainer->ranks, 0, &size, sizeof size, err);
    if (!status && !first) text = malloc(size + 1);
    status = pco_ranks_agree(trainer->ranks, status ? status : text ? PCO_OK : trainer_no_memory(err), 0, err);
    if (!status) status = pco_ranks_broadcast(trainer->ranks, 0, text, size, err);
    if (!status && !first) status = pco_json_parse(text, size, "rank 0's config", &root, err);
    const char *key = !status && !first ? ranks_difference(trainer->config->root, root) : NULL;
    if (key)
        status = pco_fail(err, PCO_ERROR_INVALID,
                          "its config is another than rank 0's: '%s' differs; give all ranks the same", key);
    cJSON_Delete(root);
    free(text);
    return status;
}

pco_status trainer_ranks_begin(pco_trainer *trainer, pco_status status, pco_error *err)
{
    const uint32_t count = pco_ranks_count(trainer->ranks);
    status = pco_ranks_agree(trainer->ranks, status, 0, err);
    if (!status) status = ranks_compare_config(trainer, err);
    status = pco_ranks_agree(trainer->ranks, status, 0, err);
    if (!status && trainer->config->rows < count)
        status = pco_fail(err, PCO_ERROR_INVALID,
                          "a batch_size of %" PRId64 " cannot be shared among %u ranks; each needs a row",
                          trainer->config->rows, count);
    return status;
}

/* What makes a device give the same bits as another. */
static uint64_t ranks_device(const pco_trainer *trainer)
{
    const pco_device_info *info = pco_session_device(trainer->session);
    const char *const texts[] = {PCO_VERSION, info->name, info->driver, info->platform, info->aliases};
    uint64_t hash = PCO_HASH_START;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) hash = pco_hash(hash, texts[i], strlen(texts[i]) + 1);
    hash = pco_hash(hash, &info->max_workgroup, sizeof info->max_workgroup);
    hash = pco_hash(hash, &info->features, sizeof info->features);
    return pco_hash(hash, &info->type, sizeof info->type);
}

/* The whole batch, of all ranks. */
static uint64_t ranks_batch(const pco_trainer *trainer, const pco_data_batch *batch)
{
    const int64_t rows = trainer->config->rows, before = trainer->first_row;
    const size_t targets = (size_t)(rows * batch->target_length) * sizeof(int32_t),
                 sources = (size_t)(rows * batch->source_length) * sizeof(int32_t);
    uint64_t hash = pco_hash(PCO_HASH_START, &batch->tokens, sizeof batch->tokens);
    hash = pco_hash(hash, batch->target - before * batch->target_length, targets);
    return batch->source ? pco_hash(hash, batch->source - before * batch->source_length, sources) : hash;
}

typedef struct ranks_record {
    uint64_t device, batch;
    double value;
} ranks_record;

/* Of every rank; NULL after an error. To be freed. */
static ranks_record *ranks_gather(const pco_trainer *trainer, const ranks_record *mine, pco_status *status,
                                  pco_error *err)
{
    ranks_record *all = malloc(pco_ranks_count(trainer->ranks) * sizeof *all);
    *status = pco_ranks_agree(trainer->ranks, all ? PCO_OK : trainer_no_memory(err), 0, err);
    if (!*status) *status = pco_ranks_gather(trainer->ranks, mine, sizeof *mine, all, err);
    if (!*status) return all;
    free(all);
    return NULL;
}

/* Whose batch is not rank 0's? */
static pco_status ranks_same_batch(const pco_trainer *trainer, const ranks_record *all, pco_error *err)
{
    for (uint32_t i = 1; i < pco_ranks_count(trainer->ranks); i++)
        if (all[i].batch != all[0].batch)
            return pco_fail(err, PCO_ERROR_INVALID,
                            "rank %u reads other data than rank 0 at step %" PRId64 "; give all ranks the same files",
                            i, trainer->step + 1);
    return PCO_OK;
}

pco_status trainer_ranks_meet(pco_trainer *trainer, pco_status status, pco_error *err)
{
    pco_data_batch batch;
    ranks_record mine = {.device = ranks_device(trainer)};
    status = pco_ranks_agree(trainer->ranks, status, 0, err);
    if (status) return status;
    trainer_read_batch(trainer, PCO_DATA_TRAIN, 0, &batch);
    mine.batch = ranks_batch(trainer, &batch);
    ranks_record *all = ranks_gather(trainer, &mine, &status, err);
    if (!all) return status;
    for (uint32_t i = 1; i < pco_ranks_count(trainer->ranks); i++) trainer->mixed |= all[i].device != all[0].device;
    status = ranks_same_batch(trainer, all, err);
    free(all);
    return status;
}

/* ---- states ---- */

/* Calls visit for each state that outlives a step, of parameter after parameter, with room for its values. */
typedef pco_status (*ranks_visit)(pco_trainer *trainer, const char *state, float *values, uint64_t bytes, void *user,
                                  pco_error *err);

/* Visits every state even after an error, as others wait for it; the first error is returned. */
static pco_status ranks_each_state(pco_trainer *trainer, ranks_visit visit, void *user, pco_error *err)
{
    const char *const *prefixes;
    const uint32_t n_prefixes = pco_update_prefixes(trainer->config->optimizer.type, &prefixes);
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < trainer->training.count; i++)
        for (uint32_t k = 0; k <= n_prefixes; k++) {
            const pco_nn_parameter *p = &trainer->training.items[i];
            char name[256];
            pco_error why;
            snprintf(name, sizeof name, "%s%s", k ? prefixes[k - 1] : "", p->name);
            pco_status one =
                visit(trainer, name, trainer->gradients, (uint64_t)pco_nn_elements(p) * sizeof(float), user, &why);
            if (one && !status) {
                status = one;
                if (err) *err = why;
            }
        }
    return status;
}

static pco_status ranks_send_state(pco_trainer *trainer, const char *state, float *values, uint64_t bytes, void *user,
                                   pco_error *err)
{
    const int first = pco_ranks_rank(trainer->ranks) == 0;
    pco_error told;
    (void)user;
    pco_status status = first ? pco_session_read_state(trainer->session, state, values, bytes, err) : PCO_OK;
    pco_status sent = pco_ranks_broadcast(trainer->ranks, 0, values, bytes, &told);
    if (!status && sent) return pco_fail(err, sent, "%s", told.message);
    return status || first ? status : pco_session_write_state(trainer->session, state, values, bytes, err);
}

pco_status trainer_ranks_share_states(pco_trainer *trainer, pco_status status, pco_error *err)
{
    status = pco_ranks_agree(trainer->ranks, status, 0, err);
    if (!status) status = pco_ranks_broadcast(trainer->ranks, 0, &trainer->step, sizeof trainer->step, err);
    if (!status) status = pco_ranks_broadcast(trainer->ranks, 0, &trainer->scale, sizeof trainer->scale, err);
    if (status) return status;
    return pco_ranks_agree(trainer->ranks, ranks_each_state(trainer, ranks_send_state, NULL, err), 0, err);
}

static pco_status ranks_hash_state(pco_trainer *trainer, const char *state, float *values, uint64_t bytes, void *user,
                                   pco_error *err)
{
    uint64_t *hash = user;
    pco_status status = pco_session_read_state(trainer->session, state, values, bytes, err);
    if (!status) *hash = pco_hash(*hash, values, bytes);
    return status;
}

pco_status trainer_ranks_compare(pco_trainer *trainer, pco_error *err)
{
    ranks_record mine = {.batch = PCO_HASH_START};
    if (trainer->mixed) return PCO_OK; /* the weights are rank 0's, and its moments alone count */
    pco_status status = ranks_each_state(trainer, ranks_hash_state, &mine.batch, err);
    status = pco_ranks_agree(trainer->ranks, status, 0, err);
    if (status) return status;
    ranks_record *all = ranks_gather(trainer, &mine, &status, err);
    for (uint32_t i = 1; i < pco_ranks_count(trainer->ranks) && !status; i++)
        if (all[i].batch != all[0].batch)
            status = pco_fail(err, PCO_ERROR_INVALID,
                              "after step %" PRId64
                              " the weights of rank %u are not those of rank 0, though its device is the "
                              "same: one of them computes wrongly; the last checkpoint is kept",
                              trainer->step, i);
    free(all);
    return status;
}

/* ---- buckets ---- */

static const pco_nn_parameter *ranks_parameter(const pco_trainer *trainer, uint32_t back)
{
    return &trainer->training.items[trainer->training.count - 1 - back];
}

/* From the last parameter back, as the backward pass makes them: the same on every rank, whatever its device.
 */
static pco_status ranks_cut(pco_trainer *trainer, pco_error *err)
{
    const uint32_t count = trainer->training.count;
    uint64_t total = 0, most = 0;
    for (uint32_t i = 0; i < count; i++) total += (uint64_t)pco_nn_elements(ranks_parameter(trainer, i));
    const uint64_t least = total / RANKS_SHARE > RANKS_LEAST ? total / RANKS_SHARE : RANKS_LEAST;
    trainer->buckets = calloc(RANKS_SHARE + 1, sizeof *trainer->buckets);
    trainer->gradients = malloc(total * sizeof *trainer->gradients + 1);
    if (!trainer->buckets || !trainer->gradients) return trainer_no_memory(err);
    total = 0;
    for (uint32_t i = 0; i < count; i++) {
        trainer_bucket *bucket = &trainer->buckets[trainer->n_buckets];
        if (bucket->count == 0) *bucket = (trainer_bucket){.first = i, .at = total};
        total += (uint64_t)pco_nn_elements(ranks_parameter(trainer, i));
        bucket->count++;
        bucket->elements = total - bucket->at;
        if (bucket->elements > most) most = bucket->elements;
        if (bucket->elements >= least || i + 1 == count) trainer->n_buckets++;
    }
    return pco_ranks_reserve(trainer->ranks, most, err);
}

pco_status trainer_ranks_prepare(pco_trainer *trainer, trainer_stage *stage, pco_error *err)
{
    if (stage->until) return PCO_OK;
    pco_status status = trainer->buckets ? PCO_OK : ranks_cut(trainer, err);
    if (status) return status;
    stage->until = calloc(trainer->n_buckets + 1, sizeof *stage->until);
    if (!stage->until) return trainer_no_memory(err);
    uint32_t until = 0;
    for (uint32_t b = 0; b < trainer->n_buckets; b++) {
        for (uint32_t i = 0; i < trainer->buckets[b].count; i++) {
            char name[256];
            snprintf(name, sizeof name, "gradient.%s", ranks_parameter(trainer, trainer->buckets[b].first + i)->name);
            const uint32_t written = pco_executable_until(stage->executable, name);
            if (written > until) until = written;
        }
        stage->until[b] = until;
    }
    return PCO_OK;
}

/* Reads the gradients of a bucket from the device, or writes them there. */
static pco_status ranks_move(pco_trainer *trainer, const trainer_bucket *bucket, int to_device, pco_error *err)
{
    float *values = trainer->gradients + bucket->at;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < bucket->count && !status; i++) {
        const pco_nn_parameter *p = ranks_parameter(trainer, bucket->first + i);
        const uint64_t elements = (uint64_t)pco_nn_elements(p);
        char name[256];
        snprintf(name, sizeof name, "gradient.%s", p->name);
        status = to_device ? pco_session_write_state(trainer->session, name, values, elements * sizeof *values, err)
                           : pco_session_read_state(trainer->session, name, values, elements * sizeof *values, err);
        values += elements;
    }
    return status;
}

/* Runs a stage in stretches that end where a bucket is ready; its sum goes on while the next stretch runs.
 * After an error the other buckets are summed all the same, as the other ranks wait for them. */
static pco_status ranks_run(pco_trainer *trainer, trainer_stage *stage, pco_error *err)
{
    const uint32_t segments = pco_executable_segments(stage->executable);
    uint32_t done = 0;
    pco_status status = PCO_OK;
    for (uint32_t b = 0; b < trainer->n_buckets; b++) {
        const trainer_bucket *bucket = &trainer->buckets[b], *before = bucket - 1;
        const uint32_t until = b + 1 == trainer->n_buckets ? segments : stage->until[b];
        if (b) pco_ranks_sum_start(trainer->ranks, trainer->gradients + before->at, before->elements);
        if (!status && until > done) status = pco_executable_start(stage->executable, done, until - done, err);
        if (!status) status = pco_executable_wait(stage->executable, err);
        if (!status) status = ranks_move(trainer, bucket, 0, err);
        done = until;
    }
    const trainer_bucket *last = &trainer->buckets[trainer->n_buckets - 1];
    pco_ranks_sum_start(trainer->ranks, trainer->gradients + last->at, last->elements);
    return status;
}

/* ---- an update ---- */

/* The batches of the update; the last one's gradients go out while they are made. *loss: this rank's share.
 */
static pco_status ranks_backward(pco_trainer *trainer, pco_train_result *result, double *loss, uint64_t *hash,
                                 pco_error *err)
{
    const int64_t count = trainer->config->accumulation, first = trainer->step * count;
    pco_data_batch batch;
    pco_status status = PCO_OK;
    int sent = 0;
    *loss = 0;
    *hash = PCO_HASH_START;
    for (int64_t i = 0; i < count; i++) {
        trainer_read_batch(trainer, PCO_DATA_TRAIN, first + i, &batch);
        result->tokens += batch.tokens;
        *hash ^= ranks_batch(trainer, &batch);
    }
    for (int64_t i = 0; i < count && !status; i++) {
        trainer_stage *stage = NULL;
        double part = 0;
        trainer_read_batch(trainer, PCO_DATA_TRAIN, first + i, &batch);
        status = trainer_stage_for(trainer, PCO_TRAIN_ACCUMULATE, &batch, &stage, err);
        if (!status) status = trainer_ranks_prepare(trainer, stage, err);
        if (!status)
            status =
                trainer_write_batch(trainer, stage, &batch, trainer_factor(trainer, result->tokens), first + i, err);
        if (!status) status = trainer_write_keep(stage, i > 0, err);
        if (!status && i + 1 < count) status = pco_executable_run(stage->executable, err);
        if (!status && i + 1 == count) {
            sent = 1;
            status = ranks_run(trainer, stage, err);
        }
        if (!status) status = trainer_read(stage, stage->loss, &part, err);
        *loss += part;
    }
    for (uint32_t b = 0; b < trainer->n_buckets && !sent; b++) /* they are waited for */
        pco_ranks_sum_start(trainer->ranks, trainer->gradients + trainer->buckets[b].at, trainer->buckets[b].elements);
    return status;
}

static pco_status ranks_apply(pco_trainer *trainer, pco_train_result *result, pco_error *err)
{
    trainer_stage *stage;
    pco_status status = PCO_OK;
    for (uint32_t b = 0; b < trainer->n_buckets && !status; b++)
        status = ranks_move(trainer, &trainer->buckets[b], 1, err);
    if (!status) status = trainer_stage_for(trainer, PCO_TRAIN_APPLY, NULL, &stage, err);
    if (!status) status = trainer_write_run(trainer, stage, result->learning_rate, err);
    if (!status) status = pco_executable_run(stage->executable, err);
    if (!status) status = trainer_read(stage, stage->grad_norm, &result->grad_norm, err);
    return status;
}

/* Rank 0's weights and norm to all. */
static pco_status ranks_send_weights(pco_trainer *trainer, pco_train_result *result, pco_error *err)
{
    const int first = pco_ranks_rank(trainer->ranks) == 0;
    const uint32_t count = trainer->training.count;
    float *at = trainer->gradients;
    pco_status status = pco_ranks_broadcast(trainer->ranks, 0, &result->grad_norm, sizeof result->grad_norm, err);
    for (uint32_t i = 0; i < count && first && !status; at += pco_nn_elements(ranks_parameter(trainer, i++)))
        status = pco_trainer_read(trainer, ranks_parameter(trainer, i)->name, at,
                                  pco_nn_elements(ranks_parameter(trainer, i)), err);
    status = pco_ranks_agree(trainer->ranks, status, 0, err);
    for (uint32_t b = 0; b < trainer->n_buckets && !status; b++)
        status = pco_ranks_broadcast(trainer->ranks, 0, trainer->gradients + trainer->buckets[b].at,
                                     trainer->buckets[b].elements * sizeof *at, err);
    at = trainer->gradients;
    for (uint32_t i = 0; i < count && !first && !status; i++) {
        const pco_nn_parameter *p = ranks_parameter(trainer, i);
        status = pco_session_write_state(trainer->session, p->name, at, (uint64_t)pco_nn_elements(p) * sizeof *at, err);
        at += pco_nn_elements(p);
    }
    return pco_ranks_agree(trainer->ranks, status, 0, err);
}

pco_status trainer_ranks_step(pco_trainer *trainer, pco_train_result *result, pco_error *err)
{
    ranks_record mine = {0};
    pco_error lost;
    pco_status status = ranks_backward(trainer, result, &mine.value, &mine.batch, err),
               summed = pco_ranks_sum_wait(trainer->ranks, &lost);
    if (summed) return pco_fail(err, summed, "%s", lost.message);
    status = pco_ranks_agree(trainer->ranks, status, 0, err);
    ranks_record *all = status ? NULL : ranks_gather(trainer, &mine, &status, err);
    if (!status) status = ranks_same_batch(trainer, all, err);
    for (uint32_t i = 0; i < pco_ranks_count(trainer->ranks) && !status; i++) result->loss += all[i].value;
    free(all);
    if (status || !isfinite(result->loss)) return status;
    if (!trainer->mixed || pco_ranks_rank(trainer->ranks) == 0) status = ranks_apply(trainer, result, err);
    status = pco_ranks_agree(trainer->ranks, status, 0, err);
    return status || !trainer->mixed ? status : ranks_send_weights(trainer, result, err);
}

pco_status trainer_ranks_sum(pco_trainer *trainer, pco_status status, double *sum, pco_error *err)
{
    const ranks_record mine = {.value = *sum};
    status = pco_ranks_agree(trainer->ranks, status, 0, err);
    ranks_record *all = status ? NULL : ranks_gather(trainer, &mine, &status, err);
    *sum = 0;
    for (uint32_t i = 0; i < pco_ranks_count(trainer->ranks) && !status; i++) *sum += all[i].value;
    free(all);
    return status;
}
