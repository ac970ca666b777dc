/* The ids of a part; the order of an epoch, and its batches. Sorted by lengths as far as the buckets tell them apart,
 * at random within a bucket, so that little is padded and batches differ from epoch to epoch. */
#include <stdlib.h>
#include <string.h>

#include "train/data_internal.h"
#include "train/random.h"

pco_status data_append(data_part *part, const int32_t *ids, size_t count, pco_error *err)
{
    if (part->id_count + count > part->id_capacity) {
        uint64_t capacity = 2 * part->id_capacity + count + 1024;
        int32_t *grown = realloc(part->ids, capacity * sizeof *grown);
        if (!grown) return data_no_memory(err);
        part->ids = grown;
        part->id_capacity = capacity;
    }
    memcpy(part->ids + part->id_count, ids, count * sizeof *ids);
    part->id_count += count;
    return PCO_OK;
}

static uint32_t plan_bucket(const pco_data_config *config, int side, int64_t length)
{
    uint32_t i = 0;
    while (i + 1 < config->n_buckets[side] && config->buckets[side][i] < length) i++;
    return i;
}

static int64_t plan_batches(const pco_data *data, pco_data_split split)
{
    const data_part *part = &data->parts[split];
    const int drop = data->config->kind == PCO_DATA_TEXT && split == PCO_DATA_TRAIN && part->count >= data->rows;
    return ((int64_t)part->count + (drop ? 0 : data->rows - 1)) / data->rows;
}

pco_status data_plan_create(pco_data *data, pco_data_split split, pco_error *err)
{
    data_part *part = &data->parts[split];
    part->n_cuts = (uint32_t)plan_batches(data, split);
    part->order = calloc(part->count + 1, sizeof *part->order);
    part->shuffled = calloc(part->count + 1, sizeof *part->shuffled);
    part->batch_order = calloc(part->n_cuts + 1, sizeof *part->batch_order);
    part->cuts = calloc(part->n_cuts + 1, sizeof *part->cuts);
    part->epoch = -1;
    return part->order && part->shuffled && part->batch_order && part->cuts ? PCO_OK : data_no_memory(err);
}

/* The target has one more row than the sample: the start token, or the end. */
static uint32_t plan_key(const pco_data *data, const data_sample *sample)
{
    return plan_bucket(data->config, 1, (int64_t)sample->size[1] + 1) * PCO_DATA_BUCKETS +
           plan_bucket(data->config, 0, sample->size[0]);
}

/* order: the samples sorted by key, otherwise in the order of `shuffled` (a counting sort). */
static void plan_sort(const pco_data *data, data_part *part)
{
    uint32_t begin[PCO_DATA_BUCKETS * PCO_DATA_BUCKETS + 1] = {0};
    if (data->config->kind == PCO_DATA_TEXT) {
        memcpy(part->order, part->shuffled, part->count * sizeof *part->order);
        return;
    }
    for (uint32_t i = 0; i < part->count; i++) begin[plan_key(data, &part->samples[i]) + 1]++;
    for (uint32_t k = 0; k < PCO_DATA_BUCKETS * PCO_DATA_BUCKETS; k++) begin[k + 1] += begin[k];
    for (uint32_t i = 0; i < part->count; i++) {
        uint32_t s = part->shuffled[i];
        part->order[begin[plan_key(data, &part->samples[s])]++] = s;
    }
}

static void plan_cut(const pco_data *data, data_part *part, uint32_t index)
{
    data_cut *cut = &part->cuts[index];
    const uint32_t rows = (uint32_t)data->rows, first = index * rows;
    uint32_t longest[2] = {0, 0};
    *cut = (data_cut){.first = first, .count = part->count - first < rows ? part->count - first : rows};
    for (uint32_t i = 0; i < cut->count && part->samples; i++)
        for (int side = 0; side < 2; side++) {
            uint32_t size = part->samples[part->order[first + i]].size[side] + (uint32_t)side;
            if (size > longest[side]) longest[side] = size;
        }
    for (int side = 0; side < 2; side++)
        cut->length[side] = data->config->buckets[side][plan_bucket(data->config, side, longest[side])];
}

void data_plan_epoch(pco_data *data, pco_data_split split, int64_t epoch)
{
    data_part *part = &data->parts[split];
    const int train = split == PCO_DATA_TRAIN;
    if (part->epoch == epoch) return;
    part->epoch = epoch;
    if (data->dates) data_dates_fill(data, split, epoch);
    if (data->config->kind == PCO_DATA_TEXT && train)
        part->windows_from =
            pco_random_below(pco_random_block(data->seed, PCO_RANDOM_WINDOW, (uint32_t)epoch, 0).word[0],
                             (uint32_t)data->config->context);
    for (uint32_t i = 0; i < part->count; i++) part->shuffled[i] = i;
    if (train) pco_random_shuffle(part->shuffled, part->count, data->seed, PCO_RANDOM_SHUFFLE, (uint32_t)epoch);
    plan_sort(data, part);
    for (uint32_t i = 0; i < part->n_cuts; i++) {
        part->batch_order[i] = i;
        plan_cut(data, part, i);
    }
    if (train) pco_random_shuffle(part->batch_order, part->n_cuts, data->seed, PCO_RANDOM_BATCHES, (uint32_t)epoch);
}
