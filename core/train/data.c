#include "train/data_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

/* ---- vocabularies ---- */

static uint32_t data_line_of(const pco_map *map, size_t at)
{
    uint32_t line = 1;
    for (size_t i = 0; i < at; i++) line += map->data[i] == '\n';
    return line;
}

/* The training split's texts of one side (-1: of both), a line each; of characters all texts. malloc'ed. */
static pco_status data_corpus(const pco_data *data, int side, int all, char **text, size_t *size, pco_error *err)
{
    size_t used = 0, capacity = data->map.size * (side < 0 ? 2 : 1) + 2 * (size_t)data->n_pairs + 1;
    *text = malloc(capacity);
    if (!*text) return data_no_memory(err);
    if (!data->pairs) {
        *size = all ? data->map.size : data->text_cut;
        memcpy(*text, data->map.data, *size);
        return PCO_OK;
    }
    for (uint32_t i = 0; i < data->n_pairs; i++) {
        const pco_pair *pair = &data->pairs[i];
        for (int s = 0; s < 2; s++) {
            if ((side >= 0 && s != side) || (pair->held_out && !all)) continue;
            memcpy(*text + used, pair->text[s], pair->size[s]);
            used += pair->size[s];
            if (!all) (*text)[used++] = '\n';
        }
    }
    *size = used;
    return PCO_OK;
}

static pco_status data_make_vocabulary(pco_data *data, int side, pco_error *err)
{
    const pco_data_config *config = data->config;
    const pco_data_tokenizer *how = &config->tokenizer[side];
    pco_vocabulary *vocabulary = &data->vocabulary[side];
    const int special = config->kind == PCO_DATA_PAIRS;
    char *text = NULL;
    size_t size = 0;
    if (how->file) {
        pco_status status = pco_vocabulary_read(how->file, vocabulary, err);
        if (!status && special &&
            (vocabulary->special.eos < 0 || vocabulary->special.bos < 0 || vocabulary->special.pad < 0))
            status = pco_fail(err, PCO_ERROR_FORMAT, "%s: pairs need a tokenizer with padding, BOS and EOS tokens",
                              how->file);
        return status;
    }
    pco_status status =
        data_corpus(data, config->share_vocabulary && special ? -1 : side, !how->bpe, &text, &size, err);
    if (!status)
        status = how->bpe ? pco_vocabulary_train_bpe(text, size, how->size, special, vocabulary, err)
                          : pco_vocabulary_train_characters(text, size, special, vocabulary, err);
    if (status) pco_fail_prefix(err, status, "%s", config->file);
    free(text);
    return status;
}

const pco_vocabulary *pco_data_vocabulary(const pco_data *data, int side)
{
    return &data->vocabulary[data->config->share_vocabulary ? 1 : side];
}

/* ---- opening ---- */

static pco_status data_read_text(pco_data *data, pco_error *err)
{
    const pco_data_config *config = data->config;
    const char *text = (const char *)data->map.data;
    size_t good = pco_utf8_check(text, data->map.size);
    if (good < data->map.size)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s:%u: the text is not UTF-8 at byte %zu; convert the file to UTF-8",
                        config->file, data_line_of(&data->map, good), good);
    const char *nul = memchr(text, 0, data->map.size);
    if (nul)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s:%u: the text contains a NUL byte", config->file,
                        data_line_of(&data->map, (size_t)(nul - text)));
    data->text_cut = (size_t)((double)data->map.size * (1 - config->held_out));
    while (data->text_cut < data->map.size && ((unsigned char)text[data->text_cut] & 0xC0) == 0x80) data->text_cut++;
    return PCO_OK;
}

static pco_status data_read(pco_data *data, pco_error *err)
{
    const pco_data_config *config = data->config;
    const pco_pairs_params columns = {{config->source_column, config->target_column}, config->held_out};
    const int made = !data->model;
    if (config->kind == PCO_DATA_DATES) return data_dates_create(data, err);
    pco_status status = pco_map_open(config->file, &data->map, err);
    if (!status && data->map.size == 0)
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s:1: the file is empty", config->file);
    if (!status && config->kind == PCO_DATA_TEXT) status = data_read_text(data, err);
    if (!status && config->kind == PCO_DATA_PAIRS)
        status = pco_pairs_read(&data->map, config->file, &columns, &data->pairs, &data->n_pairs, err);
    if (!status && made && config->kind == PCO_DATA_PAIRS && !config->share_vocabulary)
        status = data_make_vocabulary(data, 0, err);
    if (!status && made) status = data_make_vocabulary(data, 1, err);
    if (!status && !made && (!data->model->source || !data->model->target))
        status = pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has no tokenizer, without which it cannot be trained",
                          data->model->path);
    return status;
}

/* With the zero that ends it, so that no two lists are the same bytes. */
static void data_digest_list(pco_sha256 *sha, char *const *list, uint32_t count)
{
    pco_sha256_add(sha, &count, sizeof count);
    for (uint32_t i = 0; i < count; i++) pco_sha256_add(sha, list[i], strlen(list[i]) + 1);
}

static void data_make_digests(pco_data *data)
{
    pco_sha256 sha;
    if (data->map.size) {
        pco_sha256_start(&sha);
        pco_sha256_add(&sha, data->map.data, data->map.size);
        pco_sha256_finish_text(&sha, data->digests.file);
    }
    for (int side = 0; side < 2; side++) {
        if (data->model) {
            data_model_digest(data->model, (pco_model_side)side, data->digests.vocabulary[side]);
            continue;
        }
        const pco_vocabulary *vocabulary = pco_data_vocabulary(data, side);
        const pco_tokenizer_special *special = &vocabulary->special;
        const int32_t ids[] = {vocabulary->bpe, special->pad, special->bos, special->eos};
        pco_sha256_start(&sha);
        pco_sha256_add(&sha, ids, sizeof ids);
        data_digest_list(&sha, vocabulary->tokens, vocabulary->count);
        data_digest_list(&sha, vocabulary->merges, vocabulary->merge_count);
        pco_sha256_finish_text(&sha, data->digests.vocabulary[side]);
    }
}

const pco_data_digests *pco_data_digest(const pco_data *data) { return &data->digests; }

pco_status pco_data_open(const pco_data_config *config, const pco_model_file *model, uint64_t seed, int64_t rows,
                         pco_data **out, pco_error *err)
{
    *out = NULL;
    pco_data *data = calloc(1, sizeof *data);
    if (!data) return data_no_memory(err);
    data->config = config;
    data->model = model;
    data->seed = seed;
    data->rows = rows;
    for (int side = 0; side < 2; side++) data->vocabulary[side].special = (pco_tokenizer_special){-1, -1, -1, -1};
    size_t source = (size_t)(rows * pco_data_longest(data, 0)), target = (size_t)(rows * pco_data_longest(data, 1));
    data->source = calloc(source, sizeof *data->source);
    data->source_lengths = calloc((size_t)rows, sizeof *data->source_lengths);
    data->target = calloc(target, sizeof *data->target);
    data->labels = calloc(target, sizeof *data->labels);
    pco_status status =
        data->source && data->source_lengths && data->target && data->labels ? PCO_OK : data_no_memory(err);
    if (!status) status = data_read(data, err);
    if (!status) data_make_digests(data);
    if (status) {
        pco_data_close(data);
        return status;
    }
    *out = data;
    return PCO_OK;
}

void pco_data_close(pco_data *data)
{
    if (!data) return;
    for (int i = 0; i < 2; i++) {
        data_part *part = &data->parts[i];
        pco_vocabulary_release(&data->vocabulary[i]);
        free(part->ids);
        free(part->samples);
        free(part->order);
        free(part->shuffled);
        free(part->batch_order);
        free(part->cuts);
    }
    free(data->source);
    free(data->source_lengths);
    free(data->target);
    free(data->labels);
    free(data->pairs);
    pco_dates_destroy(data->dates);
    pco_map_close(&data->map);
    free(data);
}

/* ---- encoding ---- */

/* The windows of both splits of a text. */
static pco_status data_encode_text(pco_data *data, const pco_tokenizer *tokenizer, pco_error *err)
{
    const char *text = (const char *)data->map.data;
    const size_t begin[2] = {0, data->text_cut}, end[2] = {data->text_cut, data->map.size};
    const int64_t context = data->config->context;
    pco_status status = PCO_OK;
    for (int split = 0; split < 2 && !status; split++) {
        data_part *part = &data->parts[split];
        size_t count = 0;
        status =
            pco_tokenizer_encode(tokenizer, text + begin[split], end[split] - begin[split], 0, &part->ids, &count, err);
        if (status) return pco_fail_prefix(err, status, "%s", data->config->file);
        int64_t usable = (int64_t)count - (split == PCO_DATA_TRAIN ? context : 1);
        part->id_count = count;
        part->count = usable > 0 ? (uint32_t)(usable / context) : 0;
        if (split == PCO_DATA_TRAIN && part->count == 0)
            status = pco_fail(err, PCO_ERROR_FORMAT,
                              "%s: its training part has %zu tokens, too few for windows of %" PRId64
                              " (context_length): at least %" PRId64 " are needed",
                              data->config->file, count, context, 2 * context);
    }
    return status;
}

/* What a model wants around its texts; those that are trained from nothing have only what the config says. The end of a
 * target, which is a label, is added later. */
static uint32_t data_flags(const pco_data *data, pco_model_side side)
{
    const uint32_t end = data->ids.add_eos_to_source ? PCO_ENCODE_EOS : 0;
    const uint32_t flags = data->model ? pco_model_around(data->model, side) : end;
    return side == PCO_ENCODER ? flags : flags & ~(uint32_t)PCO_ENCODE_EOS;
}

static pco_status data_encode_pair(pco_data *data, const pco_tokenizer *const *tokenizers, const pco_pair *pair,
                                   pco_error *err)
{
    const int64_t context = data->config->context;
    data_part *part = &data->parts[pair->held_out ? PCO_DATA_HELD_OUT : PCO_DATA_TRAIN];
    data_sample *sample = &part->samples[part->count];
    int32_t *ids[2] = {NULL, NULL};
    size_t count[2] = {0, 0};
    pco_status status = PCO_OK;
    for (int side = 0; side < 2 && !status; side++) {
        status = pco_tokenizer_encode(tokenizers[side], pair->text[side], pair->size[side],
                                      data_flags(data, (pco_model_side)side), &ids[side], &count[side], err);
    }
    if (status) {
        pco_fail_prefix(err, status, "%s:%u", data->config->file, pair->line);
    } else if ((int64_t)count[0] > context || (int64_t)count[1] + 1 > context) {
        part->left_out++;
    } else {
        for (int side = 0; side < 2 && !status; side++) {
            sample->at[side] = part->id_count;
            sample->size[side] = (uint32_t)count[side];
            status = data_append(part, ids[side], count[side], err);
        }
        part->count++;
    }
    free(ids[0]);
    free(ids[1]);
    return status;
}

static pco_status data_encode_pairs(pco_data *data, const pco_tokenizer *const *tokenizers, pco_error *err)
{
    pco_status status = PCO_OK;
    for (int split = 0; split < 2 && !status; split++) {
        data->parts[split].samples = calloc((size_t)data->n_pairs + 1, sizeof *data->parts[split].samples);
        if (!data->parts[split].samples) status = data_no_memory(err);
    }
    for (uint32_t i = 0; i < data->n_pairs && !status; i++)
        status = data_encode_pair(data, tokenizers, &data->pairs[i], err);
    if (!status && data->parts[PCO_DATA_TRAIN].count == 0)
        status = pco_fail(
            err, PCO_ERROR_FORMAT,
            "%s: no pair is left to train on: %u are longer than context_length %" PRId64 ", and held_out is %g",
            data->config->file, data->parts[PCO_DATA_TRAIN].left_out, data->config->context, data->config->held_out);
    return status;
}

/* Rows are padded up to a bucket, so the last bucket must hold the longest row that can come. */
static pco_status data_check_buckets(const pco_data *data, pco_error *err)
{
    static const char *const keys[] = {"source_buckets", "target_buckets"};
    const int64_t context = data->config->context;
    if (data->config->kind == PCO_DATA_TEXT) return PCO_OK;
    for (int side = data->config->kind == PCO_DATA_CHAT; side < 2; side++) {
        int64_t longest = data->config->kind != PCO_DATA_DATES ? context
                          : side == 0                          ? PCO_DATES_LONGEST + (data->ids.add_eos_to_source != 0)
                                      : PCO_DATES_ISO; /* ten characters, and the start token or the end */
        if (pco_data_longest(data, side) < longest)
            return pco_fail(err, PCO_ERROR_FORMAT,
                            "data: '%s' ends at %" PRId64 ", and a row can have %" PRId64 " tokens; add %" PRId64
                            " to the list",
                            keys[side], pco_data_longest(data, side), longest, longest);
    }
    return PCO_OK;
}

/* Texts and pairs, with the vocabularies that were made for them, or the model's tokenizers. */
static pco_status data_encode_texts(pco_data *data, pco_error *err)
{
    const int share = data->config->share_vocabulary;
    pco_tokenizer *made[2] = {NULL, NULL};
    const pco_tokenizer *tokenizers[2] = {NULL, NULL};
    pco_status status = PCO_OK;
    for (int side = 1; side >= 0 && !status; side--) {
        if (!data->model && (side == 1 || !share))
            status = pco_vocabulary_tokenizer(&data->vocabulary[side],
                                              side ? "the vocabulary" : "the source vocabulary", &made[side], err);
        tokenizers[side] = data->model ? side ? data->model->target : data->model->source : made[side];
    }
    if (!tokenizers[0]) tokenizers[0] = tokenizers[1];
    if (!status)
        status = data->config->kind == PCO_DATA_TEXT ? data_encode_text(data, tokenizers[1], err)
                                                     : data_encode_pairs(data, tokenizers, err);
    for (int side = 0; side < 2; side++) pco_tokenizer_destroy(made[side]);
    return status;
}

pco_status pco_data_encode(pco_data *data, const pco_data_ids *ids, pco_error *err)
{
    data->ids = *ids;
    if (data->config->kind == PCO_DATA_DATES && data->config->context < PCO_DATES_WRITTEN - 16)
        return pco_fail(err, PCO_ERROR_FORMAT, "data: dates need a context_length of at least %d",
                        PCO_DATES_WRITTEN - 16);
    pco_status status = data_check_buckets(data, err);
    if (!status && data->config->kind == PCO_DATA_CHAT)
        status = data_encode_chats(data, err);
    else if (!status && data->config->kind != PCO_DATA_DATES)
        status = data_encode_texts(data, err);
    if (!status) status = data_plan_create(data, PCO_DATA_TRAIN, err);
    if (!status) status = data_plan_create(data, PCO_DATA_HELD_OUT, err);
    return status;
}

/* ---- reading ---- */

int64_t pco_data_longest(const pco_data *data, int side)
{
    return data->config->buckets[side][data->config->n_buckets[side] - 1];
}

int64_t pco_data_batches(const pco_data *data, pco_data_split split) { return data->parts[split].n_cuts; }

int64_t pco_data_samples(const pco_data *data, pco_data_split split, int64_t *left_out)
{
    if (left_out) *left_out = data->parts[split].left_out;
    return data->parts[split].count;
}

/* Row r of a batch of text: a window. */
static void data_window(pco_data *data, const data_part *part, uint32_t sample, int64_t row)
{
    const int64_t context = data->config->context;
    const int32_t *ids = part->ids + part->windows_from + (int64_t)sample * context;
    memcpy(data->target + row * context, ids, (size_t)context * sizeof *ids);
    memcpy(data->labels + row * context, ids + 1, (size_t)context * sizeof *ids);
}

/* Row r of a batch of chats. */
static void data_chat(pco_data *data, const data_part *part, const data_sample *sample, const data_cut *cut,
                      int64_t row)
{
    const size_t bytes = ((size_t)sample->size[1] + 1) * sizeof *part->ids;
    memcpy(data->target + row * cut->length[1], part->ids + sample->at[1], bytes);
    memcpy(data->labels + row * cut->length[1], part->ids + sample->at[0], bytes);
}

static void data_row(pco_data *data, const data_part *part, const data_sample *sample, const data_cut *cut, int64_t row)
{
    int32_t *source = data->source + row * cut->length[0], *target = data->target + row * cut->length[1];
    int32_t *labels = data->labels + row * cut->length[1];
    const int32_t *ids = part->ids + sample->at[1];
    memcpy(source, part->ids + sample->at[0], sample->size[0] * sizeof *source);
    data->source_lengths[row] = (int32_t)sample->size[0];
    target[0] = data->ids.decoder_start;
    memcpy(target + 1, ids, sample->size[1] * sizeof *ids);
    memcpy(labels, ids, sample->size[1] * sizeof *ids);
    labels[sample->size[1]] = data->ids.eos;
}

void pco_data_read(pco_data *data, pco_data_split split, int64_t index, pco_data_batch *batch)
{
    data_part *part = &data->parts[split];
    data_plan_epoch(data, split, split == PCO_DATA_TRAIN ? index / part->n_cuts : 0);
    const data_cut *cut = &part->cuts[part->batch_order[index % part->n_cuts]];
    const int text = data->config->kind == PCO_DATA_TEXT, alone = text || data->config->kind == PCO_DATA_CHAT;
    *batch = (pco_data_batch){.rows = data->rows,
                              .source_length = alone ? 0 : cut->length[0],
                              .target_length = cut->length[1],
                              .source = alone ? NULL : data->source,
                              .source_lengths = alone ? NULL : data->source_lengths,
                              .target = data->target,
                              .labels = data->labels};
    const int64_t sources = data->rows * batch->source_length, targets = data->rows * batch->target_length;
    for (int64_t i = 0; i < sources; i++) data->source[i] = data->ids.pad;
    for (int64_t i = 0; i < targets; i++) data->target[i] = data->ids.pad < 0 ? 0 : data->ids.pad;
    for (int64_t i = 0; i < targets; i++) data->labels[i] = PCO_DATA_IGNORE;
    for (int64_t row = 0; row < data->rows; row++) data->source_lengths[row] = 1;
    for (uint32_t i = 0; i < cut->count; i++) {
        uint32_t sample = part->order[cut->first + i];
        if (text)
            data_window(data, part, sample, i);
        else if (alone)
            data_chat(data, part, &part->samples[sample], cut, i);
        else
            data_row(data, part, &part->samples[sample], cut, i);
    }
    for (int64_t i = 0; i < targets; i++) batch->tokens += data->labels[i] != PCO_DATA_IGNORE;
}
