/* Dates as data: their vocabulary is ASCII characters, so ids come from a table and nothing is allocated. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "train/data_internal.h"

/* Seed of the held-out dates: the same for all runs. */
enum { DATES_HELD_OUT_SEED = 7, DATES_TARGET = PCO_DATES_ISO - 1 };

pco_status data_dates_create(pco_data *data, pco_error *err)
{
    pco_vocabulary *vocabulary = &data->vocabulary[1];
    data->dates = pco_dates_create();
    if (!data->dates) return data_no_memory(err);
    pco_status status = pco_dates_vocabulary(vocabulary, err);
    for (uint32_t i = 0; !status && i < vocabulary->count; i++)
        if (!vocabulary->tokens[i][1]) data->characters[(int)vocabulary->tokens[i][0]] = (int32_t)i;
    for (int split = 0; split < 2 && !status; split++) {
        data_part *part = &data->parts[split];
        part->count = (uint32_t)(split == PCO_DATA_TRAIN ? DATA_DATES_POOL * data->rows : data->config->held_out_count);
        part->samples = calloc(part->count + 1, sizeof *part->samples);
        part->ids = calloc(part->count + 1, (PCO_DATES_WRITTEN + DATES_TARGET) * sizeof *part->ids);
        if (!part->samples || !part->ids) status = data_no_memory(err);
    }
    return status;
}

void data_dates_fill(pco_data *data, pco_data_split split, int64_t epoch)
{
    data_part *part = &data->parts[split];
    const int train = split == PCO_DATA_TRAIN;
    int32_t *ids = part->ids;
    for (uint32_t i = 0; i < part->count; i++) {
        char written[PCO_DATES_WRITTEN], iso[PCO_DATES_ISO];
        data_sample *sample = &part->samples[i];
        pco_dates_pair(data->dates, train ? PCO_DATES_TRAIN : PCO_DATES_VALID, train ? data->seed : DATES_HELD_OUT_SEED,
                       (uint64_t)epoch * part->count + i, written, iso);
        sample->at[0] = (uint64_t)(ids - part->ids);
        for (const char *c = written; *c; c++) *ids++ = data->characters[(int)*c];
        if (data->ids.add_eos_to_source) *ids++ = data->ids.eos;
        sample->at[1] = (uint64_t)(ids - part->ids);
        for (const char *c = iso; *c; c++) *ids++ = data->characters[(int)*c];
        sample->size[0] = (uint32_t)(sample->at[1] - sample->at[0]);
        sample->size[1] = DATES_TARGET;
    }
}
