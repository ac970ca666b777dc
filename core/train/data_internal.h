/* What the files of the data know of each other. */
#ifndef PCO_TRAIN_DATA_INTERNAL_H
#define PCO_TRAIN_DATA_INTERNAL_H

#include "base/error.h"
#include "train/data.h"
#include "train/dates.h"
#include "train/pairs.h"

enum { DATA_DATES_POOL = 16 }; /* batches of dates that are made at once, so that lengths can be sorted */

/* Where the ids of a window or a pair lie in data_part.ids. */
/* A target has one more row than size[1] says. Of a chat, ids[at[0]] are the labels of these rows. */
typedef struct data_sample {
    uint64_t at[2];
    uint32_t size[2];
} data_sample;

/* Rows first .. first+count-1 of the order, padded to lengths. */
typedef struct data_cut {
    uint32_t first, count;
    int64_t length[2];
} data_cut;

/* One split: its samples, and the plan of one epoch. */
typedef struct data_part {
    int32_t *ids;
    uint64_t id_count, id_capacity;
    data_sample *samples;
    uint32_t count, left_out;
    int64_t windows_from; /* of text: where the first window of this epoch begins */
    int64_t epoch;        /* that is planned; -1: none */
    uint32_t *order, *shuffled, *batch_order;
    data_cut *cuts;
    uint32_t n_cuts;
} data_part;

struct pco_data {
    const pco_data_config *config;
    const pco_model_file *model; /* NULL: none is trained further */
    uint64_t seed;
    int64_t rows;
    pco_data_ids ids;
    pco_map map;
    size_t text_cut; /* of text: where the held-out part begins */
    pco_pair *pairs;
    uint32_t n_pairs;
    pco_dates *dates;
    int32_t characters[128]; /* of dates: the id of each */
    pco_vocabulary vocabulary[2];
    data_part parts[2];
    pco_data_digests digests;
    int32_t *source, *source_lengths, *target, *labels; /* of the batch */
};

static inline pco_status data_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the training data");
}

/* data_plan.c: appends ids to those of a part. */
pco_status data_append(data_part *part, const int32_t *ids, size_t count, pco_error *err);
/* Orders an epoch, and cuts it into batches. Room for the plan is made once. */
pco_status data_plan_create(pco_data *data, pco_data_split split, pco_error *err);
void data_plan_epoch(pco_data *data, pco_data_split split, int64_t epoch);

/* data_dates.c: makes the pairs of a pool (training) or all held-out ones. */
pco_status data_dates_create(pco_data *data, pco_error *err);
void data_dates_fill(pco_data *data, pco_data_split split, int64_t epoch);

/* data_chat.c: the ids of all lines, with the model's template. */
pco_status data_encode_chats(pco_data *data, pco_error *err);

/* model_digest.c: hexadecimal SHA-256 of what tells two models apart: names, types and shapes of tensors with the ends
 * of their bytes, and the tokens of a side. */
void data_model_digest(const pco_model_file *model, pco_model_side side, char digest[PCO_SHA256_TEXT]);

#endif
