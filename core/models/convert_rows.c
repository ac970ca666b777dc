/* Tensors on their way into another file: lists of them, and their numbers row by row. */
#include "models/convert_internal.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pco_status convert_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory to convert tensors");
}

/* ---- lists ---------------------------------------------------------------------------------------------- */

convert_item *convert_add(convert_items *all, const pco_weight *weight, const char *name)
{
    if (all->count == all->capacity) {
        const uint32_t capacity = all->capacity ? 2 * all->capacity : 64;
        convert_item *items = realloc(all->items, capacity * sizeof *items);
        if (!items) return NULL;
        all->items = items;
        all->capacity = capacity;
    }
    convert_item *item = &all->items[all->count++];
    *item = (convert_item){.weight = weight, .rank = weight->rank};
    memcpy(item->shape, weight->shape, sizeof item->shape);
    snprintf(item->name, sizeof item->name, "%s", name);
    return item;
}

convert_item *convert_add_made(convert_items *all, const char *name, uint32_t rank, const int64_t *shape, float **data)
{
    uint64_t bytes;
    pco_error unused;
    if (pco_dtype_bytes(PCO_F32, rank, shape, &bytes, &unused) || bytes > SIZE_MAX / 2) return NULL;
    convert_made *made = calloc(1, sizeof *made + (size_t)bytes);
    if (!made) return NULL;
    made->weight = (pco_weight){
        .name = "made", .type_name = "F32", .dtype = PCO_F32, .rank = rank, .bytes = bytes, .data = made->data};
    memcpy(made->weight.shape, shape, rank * sizeof *shape);
    made->next = all->made;
    all->made = made;
    *data = made->data;
    return convert_add(all, &made->weight, name);
}

void convert_transpose(convert_item *item)
{
    if (item->rank != 2) return; /* a bias */
    const int64_t rows = item->shape[0];
    item->shape[0] = item->shape[1];
    item->shape[1] = rows;
    item->transposed = 1;
}

/* The matrices of the adapter of a weight; NULL where it has none. */
typedef struct convert_adapter {
    const pco_weight *a, *b;
} convert_adapter;

static convert_adapter convert_adapter_of(const convert_job *job, const pco_weight *weight)
{
    convert_adapter found = {NULL, NULL};
    char name[PCO_SPEC_NAME + 32];
    if (!job->adapted || !weight || !pco_text_ends(weight->name, ".weight")) return found;
    const int stem = (int)(strlen(weight->name) - strlen(".weight"));
    snprintf(name, sizeof name, "%.*s" PCO_NN_LORA_A, stem, weight->name);
    found.a = pco_weights_find(job->adapted, name);
    snprintf(name, sizeof name, "%.*s" PCO_NN_LORA_B, stem, weight->name);
    found.b = pco_weights_find(job->adapted, name);
    return found;
}

/* Of a matrix, or of a stack, each of whose matrices has an adapter. */
static int convert_adapter_fits(const convert_adapter *adapter, const pco_weight *weight)
{
    const uint32_t rank = weight->rank;
    if (rank < 2 || rank > 3 || adapter->a->rank != rank || adapter->b->rank != rank) return 0;
    if (rank == 3 && (adapter->a->shape[0] != weight->shape[0] || adapter->b->shape[0] != weight->shape[0])) return 0;
    return adapter->a->shape[rank - 1] == weight->shape[rank - 1] &&
           adapter->b->shape[rank - 2] == weight->shape[rank - 2];
}

pco_status convert_list(const convert_job *job, const pco_weights *weights, const char *label, convert_items *all,
                        pco_error *err)
{
    for (uint32_t i = 0; i < weights->count; i++) {
        const pco_weight *weight = &weights->items[i],
                         *other = job->trained ? pco_weights_find(job->trained, weight->name) : NULL;
        if (other) weight = other;
        if (pco_adapter_is(weight->name)) continue;
        const convert_adapter adapter = convert_adapter_of(job, weight);
        if (adapter.a && !convert_adapter_fits(&adapter, weight))
            return pco_fail(err, PCO_ERROR_FORMAT, "the adapter's '%s' does not have the shape of '%s'",
                            adapter.b->name, weight->name);
        if (weight->dtype < 0 || !pco_ggml_type_of((uint32_t)weight->dtype))
            return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: tensor '%s' has the type %s, which cannot be converted",
                            label, weight->name, weight->type_name);
        if (!convert_add(all, weight, weight->name)) return convert_no_memory(err);
    }
    return PCO_OK;
}

void convert_release(convert_items *all)
{
    free(all->items);
    for (convert_made *made = all->made, *next; made; made = next) {
        next = made->next;
        free(made);
    }
    *all = (convert_items){0};
}

/* ---- what a type can hold ------------------------------------------------------------------------------- */

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

static int convert_is_same(uint32_t dtype, float value)
{
    if (dtype == PCO_F16) return pco_f16_to_f32(pco_f16_from_f32(value)) == value;
    return dtype != PCO_BF16 || pco_bf16_to_f32(pco_bf16_from_f32(value)) == value;
}

int convert_fits(const pco_weight *weight, uint32_t dtype, int exact)
{
    enum { PIECE = 4096 }; /* whole blocks of all types */
    const uint32_t from = (uint32_t)weight->dtype, block = pco_dtype_block(from), bytes = pco_dtype_block_bytes(from);
    const uint64_t count = weight->bytes / bytes * block;
    float numbers[PIECE];
    int fits = 1;
    for (uint64_t at = 0; at < count && fits; at += PIECE) {
        const int64_t some = (int64_t)(count - at < PIECE ? count - at : PIECE);
        int64_t where;
        pco_error unused;
        fits = !pco_dtype_to_f32(from, (const char *)weight->data + at / block * bytes, some, numbers, &unused) &&
               !convert_overflows(dtype, numbers, some, &where);
        for (int64_t i = 0; i < some && fits && exact; i++) fits = convert_is_same(dtype, numbers[i]);
    }
    return fits;
}

/* ---- rows ----------------------------------------------------------------------------------------------- */

/* Some rows of a tensor; each is for itself, so that threads change nothing. */
typedef struct convert_rows {
    const convert_item *item;
    int64_t first, columns, all;
    convert_adapter adapters[3]; /* of the weight and those behind it */
    size_t bytes_in, bytes_out;  /* of a row */
    float *numbers;              /* of all of them */
    unsigned char *out;
    pco_status *status; /* one for each row */
    pco_error *errors;
} convert_rows;

/* Where the file that is made has row `row`, the one that is read has this one. */
static int64_t convert_source_row(const convert_item *item, int64_t all, int64_t row)
{
    const convert_order *order = &item->order;
    if (order->kind == CONVERT_SAME) return row;
    if (order->kind == CONVERT_GROUPS) {
        const int64_t head = row / order->rows, group = head / (order->queries + 2), i = head % (order->queries + 2);
        const int64_t at = i < order->queries
                               ? group * order->queries + i
                               : order->heads * order->queries + (i - order->queries) * order->heads + group;
        return at * order->rows + row % order->rows;
    }
    const int64_t in = row % (all / order->heads), half = order->rows / 2;
    if (in >= order->rows) return row;
    return order->kind == CONVERT_PAIRS ? row - in + in % 2 * half + in / 2 : row - in + in % half * 2 + in / half;
}

/* Adds row `row` of b a to numbers[columns], in double; of a stack, rows of all its matrices count. */
static void convert_add_adapter(const convert_adapter *adapter, int64_t row, int64_t columns, float *numbers)
{
    enum { AT_ONCE = 64 };
    const uint32_t last = adapter->a->rank - 1;
    const int64_t rank = adapter->a->shape[last - 1], matrix = last == 2 ? row / adapter->b->shape[1] : 0;
    const float *a = (const float *)adapter->a->data + matrix * rank * columns,
                *b = (const float *)adapter->b->data + row * rank;
    for (int64_t first = 0; first < columns; first += AT_ONCE) {
        const int64_t count = columns - first < AT_ONCE ? columns - first : AT_ONCE;
        double sum[AT_ONCE];
        for (int64_t j = 0; j < count; j++) sum[j] = (double)numbers[first + j];
        for (int64_t k = 0; k < rank; k++)
            for (int64_t j = 0; j < count; j++) sum[j] += (double)b[k] * (double)a[k * columns + first + j];
        for (int64_t j = 0; j < count; j++) numbers[first + j] = (float)sum[j];
    }
}

/* The bytes of that row, and which row it is of which of the item's weights. */
static const unsigned char *convert_row(const convert_rows *rows, int64_t row, int *part, int64_t *in)
{
    const convert_item *item = rows->item;
    const pco_weight *weight = item->weight;
    row = convert_source_row(item, rows->all, row) + item->first;
    for (int i = 0; i < 2 && item->more[i] && (uint64_t)row * rows->bytes_in >= weight->bytes; i++) {
        row -= (int64_t)(weight->bytes / rows->bytes_in);
        weight = item->more[i];
        *part = i + 1;
    }
    *in = row;
    return (const unsigned char *)weight->data + (size_t)row * rows->bytes_in;
}

static pco_status convert_one_row(const convert_rows *rows, int64_t i, pco_error *err)
{
    const convert_item *item = rows->item;
    const uint32_t dtype = (uint32_t)item->weight->dtype;
    int part = 0;
    int64_t row;
    const unsigned char *from = convert_row(rows, rows->first + i, &part, &row);
    const convert_adapter *adapter = &rows->adapters[part];
    unsigned char *to = rows->out + (size_t)i * rows->bytes_out;
    float *numbers = rows->numbers + i * rows->columns;
    int64_t at;
    if (dtype == item->dtype && item->scale == 0 && !adapter->a) {
        memcpy(to, from, rows->bytes_in);
        return PCO_OK;
    }
    pco_status status = pco_dtype_to_f32(dtype, from, rows->columns, numbers, err);
    if (!status && adapter->a) convert_add_adapter(adapter, row, rows->columns, numbers);
    for (int64_t c = 0; c < rows->columns && item->scale != 0; c++)
        numbers[c] = (float)(item->scale * (double)numbers[c] + item->offset);
    if (!status && convert_overflows(item->dtype, numbers, rows->columns, &at))
        status = pco_fail(
            err, PCO_ERROR_FORMAT, "element %" PRId64 " of row %" PRId64 " is %g, which %s cannot hold; take %s", at,
            rows->first + i, (double)numbers[at], pco_dtype_name(item->dtype), item->dtype == PCO_F16 ? "bf16" : "f32");
    return status ? status : pco_dtype_from_f32(item->dtype, numbers, rows->columns, to, err);
}

static void convert_some_rows(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const convert_rows *rows = task;
    (void)worker;
    for (int64_t i = begin; i < end; i++) rows->status[i] = convert_one_row(rows, i, &rows->errors[i]);
}

enum { CONVERT_CHUNK = 4 << 20 }; /* elements that are converted at once */

static pco_status convert_send_rows(convert_job *job, convert_rows *rows, int64_t count, pco_error *err)
{
    pco_status status = PCO_OK;
    const size_t bytes = (size_t)count * rows->bytes_out;
    pco_threads_for(job->threads, count, 1, convert_some_rows, rows);
    for (int64_t i = 0; i < count && !status; i++)
        if (rows->status[i]) status = pco_fail(err, rows->status[i], "%s", rows->errors[i].message);
    if (status) return pco_fail_prefix(err, PCO_ERROR_FORMAT, "tensor '%s'", rows->item->weight->name);
    status = job->stream ? pco_file_stream_send(job->stream, rows->out, bytes, err)
                         : pco_gguf_write_data(&job->out, rows->out, bytes, err);
    job->done += (uint64_t)count * rows->bytes_in;
    if (!status && job->options->progress && job->options->progress(job->options->user, job->done, job->total))
        status = pco_fail(err, PCO_ERROR_CANCELLED, "cancelled");
    return status;
}

static pco_status convert_send_matrix(convert_job *job, const convert_item *item, pco_error *err)
{
    const uint32_t block = pco_dtype_block((uint32_t)item->weight->dtype);
    int64_t count = 0;
    convert_rows rows = {.item = item, .columns = item->rank ? item->shape[item->rank - 1] : 1};
    pco_status status = pco_shape_count(item->rank, item->shape, &count, err);
    if (status || !count) return status;
    if (item->rank == 1 && (item->order.kind || item->more[0] || item->first)) rows.columns = 1; /* a bias */
    rows.all = count / rows.columns;
    for (int i = 0; i < 3 && item->rank >= 2 && !item->transposed; i++)
        rows.adapters[i] = convert_adapter_of(job, i ? item->more[i - 1] : item->weight);
    int64_t most = CONVERT_CHUNK / rows.columns;
    most = most < 1 ? 1 : most > rows.all ? rows.all : most;
    rows.bytes_in = (size_t)rows.columns / block * pco_dtype_block_bytes((uint32_t)item->weight->dtype);
    rows.bytes_out = (size_t)rows.columns / pco_dtype_block(item->dtype) * pco_dtype_block_bytes(item->dtype);
    rows.numbers = malloc((size_t)(most * rows.columns) * sizeof *rows.numbers);
    rows.out = malloc((size_t)most * rows.bytes_out);
    rows.status = malloc((size_t)most * sizeof *rows.status);
    rows.errors = malloc((size_t)most * sizeof *rows.errors);
    if (!rows.numbers || !rows.out || !rows.status || !rows.errors) status = convert_no_memory(err);
    for (; rows.first < rows.all && !status; rows.first += most)
        status = convert_send_rows(job, &rows, rows.all - rows.first < most ? rows.all - rows.first : most, err);
    free(rows.numbers);
    free(rows.out);
    free(rows.status);
    free(rows.errors);
    return status;
}

/* As F32 in the other order. */
static pco_status convert_send_transposed(convert_job *job, const convert_item *item, pco_error *err)
{
    const int64_t rows = item->shape[1], columns = item->shape[0];
    const pco_weight *const parts[] = {item->weight, item->more[0], item->more[1]};
    int64_t at = 0;
    float *numbers = malloc((size_t)(rows * columns) * sizeof *numbers),
          *turned = malloc((size_t)(rows * columns) * sizeof *turned);
    pco_status status = numbers && turned ? PCO_OK : convert_no_memory(err);
    for (int p = 0; p < 3 && parts[p] && !status; p++) {
        const int64_t count = parts[p]->shape[0] * columns;
        const convert_adapter adapter = convert_adapter_of(job, parts[p]);
        status = pco_dtype_to_f32((uint32_t)parts[p]->dtype, parts[p]->data, count, numbers + at, err);
        for (int64_t row = 0; row < parts[p]->shape[0] && adapter.a && !status; row++)
            convert_add_adapter(&adapter, row, columns, numbers + at + row * columns);
        at += count;
    }
    for (int64_t i = 0; i < rows && !status; i++)
        for (int64_t j = 0; j < columns; j++) turned[j * rows + i] = numbers[i * columns + j];
    pco_weight made = *item->weight;
    made.dtype = PCO_F32;
    made.data = turned;
    made.bytes = (uint64_t)(rows * columns) * sizeof *turned;
    convert_item other = *item;
    other.weight = &made;
    other.more[0] = other.more[1] = NULL;
    if (!status) status = convert_send_matrix(job, &other, err);
    free(numbers);
    free(turned);
    return status;
}

pco_status convert_send(convert_job *job, const convert_item *item, pco_error *err)
{
    pco_status status =
        item->transposed ? convert_send_transposed(job, item, err) : convert_send_matrix(job, item, err);
    return status || job->stream ? status : pco_gguf_write_padding(&job->out, err);
}

pco_status convert_threads(convert_job *job, pco_error *err)
{
    job->threads = pco_threads_create(job->options->threads ? job->options->threads : 1);
    return job->threads ? PCO_OK : convert_no_memory(err);
}
