#include "models/convert_internal.h"

#include "base/utf8.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"
#include "models/chat.h"
#include "text/tokenizer_write.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---------------------------------------------------------------------------------------------- */

/* What a matrix becomes whose rows are not whole blocks of a type: blocks of 32 with at least as many levels. */
static const struct {
    pco_dtype wanted, instead;
} convert_instead[] = {
    {PCO_Q2_K, PCO_IQ4_NL}, {PCO_Q3_K, PCO_IQ4_NL}, {PCO_IQ4_XS, PCO_IQ4_NL},
    {PCO_Q4_K, PCO_Q5_0},   {PCO_Q5_K, PCO_Q5_1},   {PCO_Q6_K, PCO_Q8_0},
};

/* general.file_type: what most tensors are, by ggml's numbers of such mixtures. */
static const struct {
    pco_dtype dtype;
    uint32_t number;
} convert_file_types[] = {
    {PCO_F32, 0},     {PCO_F16, 1},     {PCO_Q4_0, 2},  {PCO_Q4_1, 3},   {PCO_Q8_0, 7},  {PCO_Q5_0, 8},
    {PCO_Q5_1, 9},    {PCO_Q2_K, 10},   {PCO_Q3_K, 11}, {PCO_Q4_K, 14},  {PCO_Q5_K, 16}, {PCO_Q6_K, 18},
    {PCO_IQ4_NL, 25}, {PCO_IQ4_XS, 30}, {PCO_BF16, 32}, {PCO_MXFP4, 38},
};

static double convert_bits(uint32_t dtype) { return 8.0 * pco_dtype_block_bytes(dtype) / pco_dtype_block(dtype); }

/* Tables that are added, and what chooses experts, are small, and what follows hangs on them. */
static int convert_is_matrix(const convert_item *item)
{
    return item->weight->rank >= 2 && pco_text_ends(item->name, ".weight") && !strstr(item->name, "position_embd") &&
           !strstr(item->name, "token_types") && !strstr(item->name, "ffn_gate_inp");
}

/* From here on numbers round to infinity in the type: half a unit above its largest one. 0: none does. */
static float convert_overflow(uint32_t dtype)
{
    return dtype == PCO_F16 ? 65520.0f : dtype == PCO_BF16 ? 0x1.FFp127f : 0;
}

static int convert_overflows(uint32_t dtype, const float *numbers, int64_t count, int64_t *at)
{
    const float from = convert_overflow(dtype);
    for (int64_t i = 0; from > 0 && i < count; i++)
        if (isfinite(numbers[i]) && fabsf(numbers[i]) >= from) return *at = i, 1;
    return 0;
}

/* Would none of its elements become infinite in F16? */
static int convert_fits_f16(const convert_item *item)
{
    enum { PIECE = 4096 }; /* whole blocks of all types */
    const pco_weight *weight = item->weight;
    const uint32_t dtype = (uint32_t)weight->dtype, block = pco_dtype_block(dtype);
    const uint64_t count = weight->bytes / pco_dtype_block_bytes(dtype) * block;
    float numbers[PIECE];
    int fits = 1;
    for (uint64_t at = 0; at < count && fits; at += PIECE) {
        const int64_t some = (int64_t)(count - at < PIECE ? count - at : PIECE);
        int64_t where;
        pco_error unused;
        const char *from = (const char *)weight->data + at / block * pco_dtype_block_bytes(dtype);
        fits = !pco_dtype_to_f32(dtype, from, some, numbers, &unused) &&
               !convert_overflows(PCO_F16, numbers, some, &where);
    }
    return fits;
}

/* For rows that are no whole blocks of anything: half of F32, where that holds all numbers. */
static uint32_t convert_float_type(const convert_item *item)
{
    if (item->weight->dtype == PCO_BF16 || item->weight->dtype == PCO_F16) return (uint32_t)item->weight->dtype;
    return convert_fits_f16(item) ? PCO_F16 : PCO_F32;
}

static uint32_t convert_matrix_type(const convert_item *item, int is_output, const pco_convert_options *options)
{
    const int64_t columns = item->weight->shape[item->weight->rank - 1];
    uint32_t dtype = (uint32_t)options->type;
    if (is_output && options->output_type >= 0)
        dtype = (uint32_t)options->output_type;
    else if (is_output && convert_bits(dtype) < convert_bits(PCO_Q6_K))
        dtype = PCO_Q6_K;
    for (size_t i = 0; i < sizeof convert_instead / sizeof *convert_instead; i++)
        if (convert_instead[i].wanted == dtype && columns % pco_dtype_block(dtype)) dtype = convert_instead[i].instead;
    return columns % pco_dtype_block(dtype) ? convert_float_type(item) : dtype;
}

static void convert_choose_types(const convert_items *all, const pco_convert_options *options,
                                 pco_convert_result *result)
{
    int tied = 1;
    for (uint32_t i = 0; i < all->count; i++) tied = tied && strcmp(all->items[i].name, "output.weight") != 0;
    for (uint32_t i = 0; i < all->count; i++) {
        convert_item *item = &all->items[i];
        const uint32_t before = (uint32_t)item->weight->dtype;
        const int is_output = strcmp(item->name, tied ? "token_embd.weight" : "output.weight") == 0;
        item->dtype = before;
        if (options->type >= 0 && convert_is_matrix(item) && pco_dtype_class_of(before) != PCO_DTYPE_WHOLE) {
            item->dtype = convert_matrix_type(item, is_output, options);
            result->odd += !is_output && item->dtype != (uint32_t)options->type;
            result->requants +=
                pco_dtype_is_quantised(before) && item->dtype != before && pco_dtype_is_quantised(item->dtype);
        } else if (item->weight->rank < 2 && pco_dtype_is_float(before)) {
            item->dtype = PCO_F32;
        }
        result->tensors[item->dtype]++;
    }
}

/* ---- numbers -------------------------------------------------------------------------------------------- */

/* Some rows of a tensor; each is for itself, so that threads change nothing. */
typedef struct convert_rows {
    const convert_item *item;
    int64_t first, columns;
    size_t bytes_in, bytes_out; /* of a row */
    float *numbers;             /* of all of them */
    unsigned char *out;
    pco_status *status; /* one for each row */
    pco_error *errors;
} convert_rows;

/* Where the file that is made has row `row` of a matrix, the one that is read has this one. */
static int64_t convert_source_row(const convert_item *item, int64_t row)
{
    if (!item->pair_heads) return row;
    const int64_t head = item->weight->shape[0] / item->pair_heads, in = row % head, half = item->pair_rows / 2;
    return in >= item->pair_rows ? row : row - in + in % 2 * half + in / 2;
}

static void convert_some_rows(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const convert_rows *rows = task;
    const convert_item *item = rows->item;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const unsigned char *from = (const unsigned char *)item->weight->data +
                                    (size_t)convert_source_row(item, rows->first + i) * rows->bytes_in;
        unsigned char *to = rows->out + (size_t)i * rows->bytes_out;
        float *numbers = rows->numbers + i * rows->columns;
        rows->status[i] = PCO_OK;
        if ((uint32_t)item->weight->dtype == item->dtype) {
            memcpy(to, from, rows->bytes_in);
            continue;
        }
        rows->status[i] =
            pco_dtype_to_f32((uint32_t)item->weight->dtype, from, rows->columns, numbers, &rows->errors[i]);
        int64_t at;
        if (!rows->status[i] && convert_overflows(item->dtype, numbers, rows->columns, &at))
            rows->status[i] = pco_fail(&rows->errors[i], PCO_ERROR_FORMAT,
                                       "element %" PRId64 " of row %" PRId64 " is %g, which %s cannot hold; take %s",
                                       at, rows->first + i, (double)numbers[at], pco_dtype_name(item->dtype),
                                       item->dtype == PCO_F16 ? "bf16" : "f32");
        if (!rows->status[i])
            rows->status[i] = pco_dtype_from_f32(item->dtype, numbers, rows->columns, to, &rows->errors[i]);
    }
}

enum { CONVERT_CHUNK = 4 << 20 }; /* elements that are converted at once */

typedef struct convert_job {
    pco_gguf_writer out;
    const pco_convert_options *options;
    pco_threads *threads;
    uint64_t done, total;
} convert_job;

static pco_status convert_send_rows(convert_job *job, convert_rows *rows, int64_t count, pco_error *err)
{
    pco_status status = PCO_OK;
    pco_threads_for(job->threads, count, 1, convert_some_rows, rows);
    for (int64_t i = 0; i < count && !status; i++)
        if (rows->status[i]) status = pco_fail(err, rows->status[i], "%s", rows->errors[i].message);
    if (status) return pco_fail_prefix(err, PCO_ERROR_FORMAT, "tensor '%s'", rows->item->weight->name);
    status = pco_gguf_write_data(&job->out, rows->out, (size_t)count * rows->bytes_out, err);
    job->done += (uint64_t)count * rows->bytes_in;
    if (!status && job->options->progress && job->options->progress(job->options->user, job->done, job->total))
        status = pco_fail(err, PCO_ERROR_CANCELLED, "cancelled");
    return status;
}

static pco_status convert_send(convert_job *job, const convert_item *item, pco_error *err)
{
    const pco_weight *weight = item->weight;
    int64_t count = 0;
    convert_rows rows = {.item = item, .columns = weight->rank ? weight->shape[weight->rank - 1] : 1};
    pco_status status = pco_shape_count(weight->rank, weight->shape, &count, err);
    if (status || !count) return status;
    if (weight->rank == 1 && item->pair_heads) rows.columns = 1; /* a bias: each element is a row */
    const int64_t all = count / rows.columns;
    int64_t most = CONVERT_CHUNK / rows.columns;
    most = most < 1 ? 1 : most > all ? all : most;
    rows.bytes_in = (size_t)(weight->bytes / (uint64_t)all);
    rows.bytes_out = (size_t)rows.columns / pco_dtype_block(item->dtype) * pco_dtype_block_bytes(item->dtype);
    rows.numbers = malloc((size_t)(most * rows.columns) * sizeof *rows.numbers);
    rows.out = malloc((size_t)most * rows.bytes_out);
    rows.status = malloc((size_t)most * sizeof *rows.status);
    rows.errors = malloc((size_t)most * sizeof *rows.errors);
    if (!rows.numbers || !rows.out || !rows.status || !rows.errors)
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for rows of '%s'", weight->name);
    for (; rows.first < all && !status; rows.first += most)
        status = convert_send_rows(job, &rows, all - rows.first < most ? all - rows.first : most, err);
    free(rows.numbers);
    free(rows.out);
    free(rows.status);
    free(rows.errors);
    return status ? status : pco_gguf_write_padding(&job->out, err);
}

static pco_status convert_send_all(convert_job *job, const convert_items *all, const char *path,
                                   pco_convert_result *result, pco_error *err)
{
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < all->count && !status; i++) {
        const convert_item *item = &all->items[i];
        uint64_t bytes = 0;
        status = pco_gguf_put_tensor(&job->out, item->name, item->weight->rank, item->weight->shape,
                                     pco_ggml_type_of(item->dtype), err);
        if (!status) status = pco_dtype_bytes(item->dtype, item->weight->rank, item->weight->shape, &bytes, err);
        job->total += item->weight->bytes;
        result->bytes_out += bytes;
    }
    result->bytes_in = job->total;
    if (!status) status = pco_gguf_write_open(&job->out, path, err);
    for (uint32_t i = 0; i < all->count && !status; i++) status = convert_send(job, &all->items[i], err);
    return status;
}

/* ---- where models come from ----------------------------------------------------------------------------- */

/* Keys that say of another file what may not be so of this one. */
static int convert_drops(const char *key)
{
    static const char *const keys[] = {"general.alignment", "general.file_type", "general.quantization_version"};
    int drops = strncmp(key, "split.", 6) == 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) drops = drops || strcmp(key, keys[i]) == 0;
    return drops;
}

static void convert_put_type(pco_gguf_writer *out, const convert_items *all, const pco_convert_options *options)
{
    uint32_t most = PCO_F32;
    uint64_t bytes = 0, largest = 0;
    for (uint32_t dtype = 0; dtype < PCO_DTYPE_COUNT && options->type < 0; dtype++, bytes = 0) {
        for (uint32_t i = 0; i < all->count; i++)
            bytes += all->items[i].dtype == dtype ? all->items[i].weight->bytes : 0;
        if (bytes > largest) most = dtype;
        if (bytes > largest) largest = bytes;
    }
    if (options->type >= 0) most = (uint32_t)options->type;
    for (size_t i = 0; i < sizeof convert_file_types / sizeof *convert_file_types; i++)
        if (convert_file_types[i].dtype == most)
            pco_gguf_put_u32(out, "general.file_type", convert_file_types[i].number);
    pco_gguf_put_u32(out, "general.quantization_version", 2); /* that of ggml's blocks as they are since 2023 */
}

static pco_status convert_list(const pco_weights *weights, const char *label, convert_items *all, pco_error *err)
{
    all->items = calloc((size_t)weights->count + CONVERT_MADE, sizeof *all->items);
    if (!all->items)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: out of host memory for its tensors", label);
    for (uint32_t i = 0; i < weights->count; i++) {
        const pco_weight *weight = &weights->items[i];
        if (weight->dtype < 0 || !pco_ggml_type_of((uint32_t)weight->dtype))
            return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: tensor '%s' has the type %s, which cannot be converted",
                            label, weight->name, weight->type_name);
        all->items[i].weight = weight;
        snprintf(all->items[i].name, sizeof all->items[i].name, "%.*s", PCO_GGUF_NAME - 1, weight->name);
    }
    all->count = weights->count;
    return PCO_OK;
}

static pco_status convert_run(convert_job *job, convert_items *all, const char *path, pco_convert_result *result,
                              pco_error *err)
{
    convert_choose_types(all, job->options, result);
    convert_put_type(&job->out, all, job->options);
    job->threads = pco_threads_create(job->options->threads ? job->options->threads : 1);
    if (!job->threads) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for threads");
    pco_status status = convert_send_all(job, all, path, result, err);
    pco_threads_destroy(job->threads);
    return status;
}

static pco_status convert_gguf(const pco_gguf *gguf, const char *path, convert_job *job, pco_convert_result *result,
                               pco_error *err)
{
    convert_items all = {0};
    const pco_family *family;
    pco_model_spec spec;
    /* of a model that nobody here knows, it is not known either which tensors may have another type */
    pco_status status = job->options->type >= 0 ? pco_family_of_gguf(gguf, &family, &spec, err) : PCO_OK;
    if (!status) status = convert_list(pco_gguf_weights(gguf), pco_gguf_label(gguf), &all, err);
    for (uint64_t i = 0; i < pco_gguf_entry_count(gguf) && !status; i++)
        if (!convert_drops(pco_gguf_entry_at(gguf, i)->key)) pco_gguf_put_entry(&job->out, pco_gguf_entry_at(gguf, i));
    if (!status) status = convert_run(job, &all, path, result, err);
    free(all.items);
    return status;
}

/* Every token as it is decoded, behind each other and, once more, behind blanks: what tokens are found in. */
static pco_status convert_all_pieces(const pco_tokenizer *tokenizer, pco_writer *out, pco_error *err)
{
    static const char *const between[] = {"", " "};
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t id = 0; id < pco_tokenizer_vocab_size(tokenizer); id++) {
            pco_decoder decoder = {.tokenizer = tokenizer, .begun = 1};
            const char *piece;
            size_t size;
            pco_status status = pco_decoder_next(&decoder, (int32_t)id, &piece, &size, err);
            if (status) return status;
            pco_write_text(out, between[pass]);
            pco_write(out, piece, size);
        }
    return pco_writer_check(out, "a text of all tokens", err);
}

/* Letters with and without case, numbers, blanks, ends of lines, signs, other scripts, contractions. */
static const char convert_probe[] =
    "Hello, World! I'm 1234567 and YOU'LL see: x = y_2 + {z};\n\n\t  Stra\xC3\x9F"
    "e \xE4\xBD\xA0\xE5\xA5\xBD "
    "\xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 \xF0\x9F\x98\x80 -- it's 3.14%  \r\n end ";

/* Do both tokenizers make the same ids of a text, with what each puts around it? */
static pco_status convert_compare_text(const pco_model_file *file, const pco_model_file *made, const char *text,
                                       size_t size, pco_error *err)
{
    int32_t *ids[2] = {NULL, NULL};
    size_t counts[2] = {0, 0};
    const pco_tokenizer *of[2] = {file->target, made->target};
    pco_status status = PCO_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const uint32_t flags = (pco_tokenizer_adds_bos(of[i]) ? PCO_ENCODE_BOS : 0u) |
                               (pco_tokenizer_adds_eos(of[i]) ? PCO_ENCODE_EOS : 0u);
        status = pco_tokenizer_encode(of[i], text, size, flags, &ids[i], &counts[i], err);
    }
    if (!status && (counts[0] != counts[1] || memcmp(ids[0], ids[1], counts[0] * sizeof **ids) != 0))
        status = pco_fail(err, PCO_ERROR_UNSUPPORTED,
                          "%s: its tokenizer makes other ids of a text than what GGUF can say of it", file->path);
    free(ids[0]);
    free(ids[1]);
    return status;
}

/* `exact`: texts need not be as a normaliser leaves them. */
static pco_status convert_compare_ids(const pco_model_file *file, const pco_model_file *made, int exact, pco_error *err)
{
    pco_writer pieces = {0};
    if (!file->target) return PCO_OK;
    pco_status status = convert_compare_text(file, made, convert_probe, sizeof convert_probe - 1, err);
    if (!status && exact) status = convert_all_pieces(file->target, &pieces, err);
    if (!status && exact) status = convert_compare_text(file, made, pieces.data, pieces.size, err);
    for (uint32_t i = 0; i < file->n_ends && !status; i++)
        if (!pco_model_file_ends(made, file->ends[i]))
            status = pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: GGUF cannot say that a text ends with token %" PRId32,
                              file->path, file->ends[i]);
    pco_writer_release(&pieces);
    return status;
}

/* Is the file that was written the model that was read? */
static pco_status convert_read_back(const pco_model_file *file, const pco_gguf_writer *out, int exact, pco_error *err)
{
    pco_model_file *made = NULL;
    pco_memory_estimate unused;
    pco_map map = {0};
    pco_status status = pco_gguf_write_map(out, &map, err);
    if (!status && (pco_model_file_open_memory(map.data, map.size, &made, err) ||
                    pco_model_estimate(made, 1, 1, PCO_F32, &unused, err))) /* which builds all of it */
        status = pco_fail_prefix(err, PCO_ERROR_UNSUPPORTED, "%s: GGUF cannot say all of it", file->path);
    if (!status) status = convert_compare_specs(file, &made->spec, err);
    if (!status) status = convert_compare_ids(file, made, exact, err);
    pco_model_file_close(made);
    pco_map_close(&map);
    return status;
}

/* The chat template, wherever the folder has it. */
static pco_status convert_put_template(const pco_model_file *file, convert_job *job, pco_error *err)
{
    char *source;
    pco_status status = pco_model_chat_source(file, &source, err);
    if (status == PCO_ERROR_NOT_FOUND) return PCO_OK;
    if (!status) pco_gguf_put_text(&job->out, "tokenizer.chat_template", source);
    free(source);
    return status;
}

static pco_status convert_put_tokens(const pco_model_file *file, convert_job *job, pco_convert_result *result,
                                     pco_error *err)
{
    int exact = 1;
    result->no_tokenizer = !file->target;
    if (!file->target) return PCO_OK;
    pco_status status = pco_tokenizer_put_gguf(file->target, (uint32_t)file->spec.vocab_size[PCO_DECODER], file->ends,
                                               file->n_ends, &job->out, &exact, err);
    result->other_ids = !exact;
    return status ? pco_fail_prefix(err, status, "%s", file->path) : convert_put_template(file, job, err);
}

static pco_status convert_folder(const pco_model_file *file, const char *path, convert_job *job,
                                 pco_convert_result *result, pco_error *err)
{
    convert_items all = {0};
    pco_weight made[CONVERT_MADE];
    if (!convert_family(file))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: GGUF has no models of type '%s' that Portico knows of",
                        file->path, file->family->name);
    pco_status status = convert_list(file->weights, file->path, &all, err);
    if (!status) status = convert_rename(file, &all, err);
    if (!status) convert_add_factors(&file->spec, &all, made);
    if (!status) convert_put_spec(&job->out, file);
    if (!status) status = convert_put_tokens(file, job, result, err);
    if (!status) status = convert_run(job, &all, path, result, err);
    if (!status) status = convert_read_back(file, &job->out, !result->other_ids, err);
    free(all.items);
    return status;
}

static pco_status convert_check(const pco_convert_options *options, pco_error *err)
{
    const int32_t types[] = {options->type, options->output_type};
    for (int i = 0; i < 2; i++)
        if (types[i] >= 0 &&
            (!pco_ggml_type_of((uint32_t)types[i]) || pco_dtype_class_of((uint32_t)types[i]) == PCO_DTYPE_WHOLE))
            return pco_fail(err, PCO_ERROR_INVALID, "weights of GGUF files cannot be of type %s",
                            pco_dtype_name((uint32_t)types[i]));
    return PCO_OK;
}

pco_status pco_convert_to_gguf(const char *in, const char *out, const pco_convert_options *options,
                               pco_convert_result *result, pco_error *err)
{
    pco_gguf *gguf = NULL;
    pco_model_file *file = NULL;
    convert_job job = {.options = options};
    *result = (pco_convert_result){0};
    const int folder = pco_is_directory(in);
    pco_status status = convert_check(options, err);
    if (!status) status = folder ? pco_model_file_open(in, &file, err) : pco_gguf_open(in, 0, &gguf, err);
    if (!status)
        status = folder ? convert_folder(file, out, &job, result, err) : convert_gguf(gguf, out, &job, result, err);
    status = pco_gguf_write_close(&job.out, status, err);
    pco_gguf_close(gguf);
    pco_model_file_close(file);
    return status;
}
