/* Speed of single operations, each beside something that says how good it is: a copy of the same device,
 * OpenBLAS, or the operation's own decomposition. Operands are states and results transients, so that
 * everything lies in device memory; one element of a result is an output, to keep it alive. */
#include "cli/bench.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/suggest.h"
#include "graph/work.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 4096,
    COLUMNS = 4096,
    SQUARE = 1024,
    NARROW = 256,
    POSITIONS = 1024,
    HEADS = 8,
    HEAD_SIZE = 64,
    FRAMES = 3000,
    BANDS = 80,
    CHANNELS = 384,
    TAPS = 3
};

typedef enum bench_against { AGAINST_COPY, AGAINST_BLAS, AGAINST_DECOMPOSITION, AGAINST_NOTHING } bench_against;

typedef struct bench_row {
    const char *name;
    pco_op op; /* the node that is meant */
    bench_against against;
    uint32_t (*build)(pco_graph *graph, const void *weights);
    int dtype; /* of the constant [ROWS,COLUMNS] that build takes; -1: none */
} bench_row;

/* What one run of a row is counted as. */
typedef struct bench_work {
    double flops; /* 0: `bytes` are what counts */
    double bytes;
} bench_work;

/* Of the node that is meant: of products, where there are enough to a byte that no device waits for its memory. */
static bench_work bench_work_of(const bench_row *row, const pco_graph *graph)
{
    enum { PRODUCTS_PER_BYTE = 8 };
    bench_work work = {0, 0};
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].op != (uint32_t)row->op) continue;
        const double products = pco_node_products(graph->tensors, &graph->nodes[i]);
        work.bytes = pco_node_bytes(graph->tensors, &graph->nodes[i]);
        if (products > PRODUCTS_PER_BYTE * work.bytes) work.flops = 2 * products;
        break;
    }
    return work;
}

static uint32_t bench_state(pco_graph *graph, const char *name, int64_t rows, int64_t columns)
{
    return pco_graph_state(graph, name, PCO_F32, 2, (int64_t[]){rows, columns});
}

static uint32_t bench_large(pco_graph *graph) { return bench_state(graph, "x", ROWS, COLUMNS); }

static uint32_t bench_large_half(pco_graph *graph, const char *name)
{
    return pco_graph_state(graph, name, PCO_F16, 2, (int64_t[]){ROWS, COLUMNS});
}

static uint32_t bench_vector(pco_graph *graph, const char *name)
{
    float ones[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) ones[i] = 1;
    return pco_graph_constant_copy(graph, name, PCO_F32, 1, (int64_t[]){COLUMNS}, ones);
}

static uint32_t bench_copy(pco_graph *graph, const void *weights)
{
    (void)weights;
    uint32_t x = bench_large(graph);
    const uint32_t halves[2] = {pco_reshape(graph, x, 1, (int64_t[]){-1}),
                                pco_reshape(graph, bench_state(graph, "y", 1, 4), 1, (int64_t[]){-1})};
    return pco_concat(graph, halves, 2, 0);
}

static uint32_t bench_add(pco_graph *graph, const void *weights)
{
    (void)weights;
    return pco_binary(graph, PCO_OP_ADD, bench_large(graph), bench_state(graph, "z", ROWS, COLUMNS));
}

static uint32_t bench_gelu(pco_graph *graph, const void *weights)
{
    (void)weights;
    return pco_unary(graph, PCO_OP_GELU, bench_large(graph));
}

static uint32_t bench_add_f16(pco_graph *graph, const void *weights)
{
    (void)weights;
    return pco_binary(graph, PCO_OP_ADD, bench_large_half(graph, "x16"), bench_large_half(graph, "z16"));
}

static uint32_t bench_gelu_f16(pco_graph *graph, const void *weights)
{
    (void)weights;
    return pco_unary(graph, PCO_OP_GELU, bench_large_half(graph, "x16"));
}

static uint32_t bench_layer_norm(pco_graph *graph, const void *weights)
{
    (void)weights;
    const uint32_t inputs[3] = {bench_large(graph), bench_vector(graph, "weight"), bench_vector(graph, "bias")};
    return pco_graph_add(graph, PCO_OP_LAYER_NORM, NULL, inputs, 3, NULL);
}

static uint32_t bench_rms_norm(pco_graph *graph, const void *weights)
{
    (void)weights;
    const uint32_t inputs[2] = {bench_large(graph), bench_vector(graph, "weight")};
    return pco_graph_add(graph, PCO_OP_RMS_NORM, NULL, inputs, 2, NULL);
}

static uint32_t bench_softmax(pco_graph *graph, const void *weights)
{
    (void)weights;
    return pco_softmax(graph, bench_large(graph), -1);
}

static uint32_t bench_matmul(pco_graph *graph, const void *weights)
{
    (void)weights;
    return pco_matmul(graph, bench_state(graph, "a", SQUARE, SQUARE), bench_state(graph, "b", SQUARE, SQUARE), 0, 0);
}

static uint32_t bench_gemv(pco_graph *graph, pco_dtype dtype, const void *weights)
{
    uint32_t weight = pco_graph_constant(graph, "weight", dtype, 2, (int64_t[]){ROWS, COLUMNS}, weights);
    return pco_linear(graph, bench_state(graph, "v", 1, COLUMNS), weight, PCO_NONE, 0);
}

static uint32_t bench_gemv_f32(pco_graph *graph, const void *weights) { return bench_gemv(graph, PCO_F32, weights); }

static uint32_t bench_gemv_f16(pco_graph *graph, const void *weights) { return bench_gemv(graph, PCO_F16, weights); }

static uint32_t bench_gemv_bf16(pco_graph *graph, const void *weights) { return bench_gemv(graph, PCO_BF16, weights); }

#define BENCH_GEMV(NAME, name, block, bytes) \
    static uint32_t bench_gemv_##name(pco_graph *graph, const void *weights) \
    { \
        return bench_gemv(graph, PCO_##NAME, weights); \
    }
PCO_QUANTISED_DTYPES(BENCH_GEMV)

/* A row, and a matrix so small that what is begun counts as much as what is computed. */
static uint32_t bench_norm_matmul(pco_graph *graph, const void *weights)
{
    (void)weights;
    const uint32_t inputs[2] = {bench_state(graph, "v", 1, NARROW), bench_state(graph, "weight", NARROW, NARROW)};
    return pco_graph_add(graph, PCO_OP_NORM_MATMUL, NULL, inputs, 2, NULL);
}

static uint32_t bench_attend(pco_graph *graph, int64_t heads, int64_t size, int64_t queries, int64_t keys)
{
    static const char *const names[] = {"query", "key", "value"};
    uint32_t inputs[3];
    for (int i = 0; i < 3; i++) {
        const int64_t rows = i ? keys : queries;
        uint32_t x = bench_state(graph, names[i], heads * rows, size);
        inputs[i] = pco_reshape(graph, x, 4, (int64_t[]){1, heads, rows, size});
    }
    return pco_graph_add(graph, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, NULL, inputs, 3, NULL);
}

static uint32_t bench_attention(pco_graph *graph, const void *weights)
{
    (void)weights;
    return bench_attend(graph, HEADS, HEAD_SIZE, POSITIONS, POSITIONS);
}

static uint32_t bench_attention_row(pco_graph *graph, const void *weights)
{
    (void)weights;
    return bench_attend(graph, HEADS, HEAD_SIZE, 1, POSITIONS);
}

/* As a step of the smallest models, where a head is a vector or two. */
static uint32_t bench_attention_row_few(pco_graph *graph, const void *weights)
{
    (void)weights;
    return bench_attend(graph, 64, 8, 1, 128);
}

/* All three gradients take part in the result, so that the decomposition makes them all. */
static uint32_t bench_gradients(pco_graph *graph, int positions)
{
    static const char *const names[] = {"query", "key", "value", "gradient"};
    uint32_t inputs[7] = {PCO_NONE, PCO_NONE, PCO_NONE, PCO_NONE, PCO_NONE, PCO_NONE, PCO_NONE}, out[PCO_MAX_OUTPUTS];
    for (int i = 0; i < 4; i++) {
        uint32_t x = bench_state(graph, names[i], HEADS * positions, HEAD_SIZE);
        inputs[i < 3 ? i : 6] = pco_reshape(graph, x, 4, (int64_t[]){1, HEADS, positions, HEAD_SIZE});
    }
    pco_graph_add(graph, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD, NULL, inputs, 7, out);
    return pco_binary(graph, PCO_OP_ADD, pco_binary(graph, PCO_OP_ADD, out[0], out[1]), out[2]);
}

static uint32_t bench_attention_backward(pco_graph *graph, const void *weights)
{
    (void)weights;
    return bench_gradients(graph, POSITIONS);
}

/* Of so few scores that GPUs, too, do it in one, and not step by step. */
static uint32_t bench_attention_backward_few(pco_graph *graph, const void *weights)
{
    (void)weights;
    return bench_gradients(graph, 48);
}

/* As an embedding's gradient: each slice is named four times. */
static uint32_t bench_scatter_add(pco_graph *graph, const void *weights)
{
    (void)weights;
    uint32_t zeros = pco_fill(graph, PCO_F32, 0, 2, (int64_t[]){ROWS, COLUMNS});
    int32_t rows[POSITIONS];
    for (int i = 0; i < POSITIONS; i++) rows[i] = i / 4;
    uint32_t inputs[3] = {zeros, pco_graph_constant_copy(graph, "rows", PCO_I32, 1, (int64_t[]){POSITIONS}, rows),
                          bench_state(graph, "updates", POSITIONS, COLUMNS)};
    return pco_graph_add(graph, PCO_OP_SCATTER_ADD, NULL, inputs, 3, NULL);
}

/* The first layer of Whisper's smallest encoder. */
static uint32_t bench_conv1d(pco_graph *graph, const void *weights)
{
    (void)weights;
    uint32_t weight = bench_state(graph, "weight", CHANNELS, BANDS * TAPS);
    weight = pco_reshape(graph, weight, 3, (int64_t[]){CHANNELS, BANDS, TAPS});
    const pco_conv1d_attrs attrs = {.stride = 1, .padding = 1, .dilation = 1, .groups = 1};
    const uint32_t inputs[2] = {bench_state(graph, "x", BANDS, FRAMES), weight};
    return pco_graph_add(graph, PCO_OP_CONV1D, &attrs, inputs, 2, NULL);
}

#define LARGE (4.0 * ROWS * COLUMNS)
#define BENCH_GEMV_ROW(NAME, name, block, bytes) \
    {"gemv_" #name, PCO_OP_MATMUL, AGAINST_COPY, bench_gemv_##name, PCO_##NAME},
static const bench_row BENCH_ROWS[] = {
    {"copy", PCO_OP_CONCAT, AGAINST_NOTHING, bench_copy, -1},
    {"add", PCO_OP_ADD, AGAINST_COPY, bench_add, -1},
    {"gelu", PCO_OP_GELU, AGAINST_COPY, bench_gelu, -1},
    {"add_f16", PCO_OP_ADD, AGAINST_COPY, bench_add_f16, -1},
    {"gelu_f16", PCO_OP_GELU, AGAINST_COPY, bench_gelu_f16, -1},
    {"layer_norm", PCO_OP_LAYER_NORM, AGAINST_COPY, bench_layer_norm, -1},
    {"rms_norm", PCO_OP_RMS_NORM, AGAINST_COPY, bench_rms_norm, -1},
    {"softmax", PCO_OP_SOFTMAX, AGAINST_COPY, bench_softmax, -1},
    {"matmul", PCO_OP_MATMUL, AGAINST_BLAS, bench_matmul, -1},
    {"gemv_f32", PCO_OP_MATMUL, AGAINST_COPY, bench_gemv_f32, PCO_F32},
    {"gemv_f16", PCO_OP_MATMUL, AGAINST_COPY, bench_gemv_f16, PCO_F16},
    {"gemv_bf16", PCO_OP_MATMUL, AGAINST_COPY, bench_gemv_bf16, PCO_BF16},
    PCO_QUANTISED_DTYPES(BENCH_GEMV_ROW){"norm_matmul", PCO_OP_NORM_MATMUL, AGAINST_DECOMPOSITION, bench_norm_matmul,
                                         -1},
    {"attention", PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, AGAINST_DECOMPOSITION, bench_attention, -1},
    {"attention_row", PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, AGAINST_DECOMPOSITION, bench_attention_row, -1},
    {"attention_row_few", PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, AGAINST_DECOMPOSITION, bench_attention_row_few, -1},
    {"attention_backward", PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD, AGAINST_DECOMPOSITION,
     bench_attention_backward, -1},
    {"attention_backward_few", PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD, AGAINST_DECOMPOSITION,
     bench_attention_backward_few, -1},
    {"conv1d", PCO_OP_CONV1D, AGAINST_NOTHING, bench_conv1d, -1},
    {"scatter_add", PCO_OP_SCATTER_ADD, AGAINST_COPY, bench_scatter_add, -1},
};
enum { BENCH_N_ROWS = sizeof BENCH_ROWS / sizeof BENCH_ROWS[0] };

int bench_op_check(const char *pattern)
{
    char names[512], hint[PCO_SUGGEST_HINT];
    size_t used = 0;
    pco_suggestion suggestion = {0};
    for (int i = 0; i < BENCH_N_ROWS; i++) {
        if (fnmatch(pattern, BENCH_ROWS[i].name, 0) == 0) return 1;
        pco_suggest(&suggestion, pattern, BENCH_ROWS[i].name);
        cli_append(names, sizeof names, &used, "%s%s", i ? ", " : "", BENCH_ROWS[i].name);
    }
    cli_error("there is no figure '%s'%s; there are: %s", pattern, pco_suggest_hint(&suggestion, hint), names);
    return 0;
}

/* ---- running ---- */

static pco_status bench_execute(void *user, pco_error *err) { return pco_executable_run(user, err); }

static pco_status bench_fill_state(pco_session *session, const pco_tensor *x, uint32_t seed, pco_error *err)
{
    const int64_t count = pco_tensor_elements(x);
    uint64_t bytes;
    pco_status status = pco_dtype_bytes(x->dtype, x->rank, x->shape, &bytes, err);
    if (status) return status;
    float *values = malloc((size_t)count * sizeof *values);
    void *data = malloc(bytes);
    if (!values || !data) {
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for an operand");
    } else {
        bench_values(values, count, seed);
        status = pco_dtype_from_f32(x->dtype, values, count, data, err);
        if (!status) status = pco_session_write_state(session, x->name, data, bytes, err);
    }
    free(values);
    free(data);
    return status;
}

/* Fills the states of `graph`. Their values are made here, so that no operation but the one that is timed can fail. */
static pco_status bench_fill(pco_session *session, const pco_graph *graph, pco_error *err)
{
    pco_status status = PCO_OK;
    for (uint32_t t = 0; t < graph->n_tensors && !status; t++) {
        const pco_tensor *x = &graph->tensors[t];
        if (x->kind == PCO_KIND_STATE && x->alias == PCO_NONE) status = bench_fill_state(session, x, t, err);
    }
    return status;
}

/* An executable of a row; `fill`: its states get their values. *work may be NULL. */
static pco_status bench_make(pco_session *session, const bench_row *row, const void *weights, int decomposed, int fill,
                             bench_work *work, pco_executable **executable, pco_error *err)
{
    pco_graph *graph = pco_graph_create();
    *executable = NULL;
    if (!graph) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a graph");
    uint32_t y = pco_reshape(graph, row->build(graph, weights), 1, (int64_t[]){-1});
    pco_graph_output(graph, pco_slice_axis(graph, y, 0, 0, 1), "first");
    pco_status status = pco_graph_check(graph, err);
    if (work) *work = bench_work_of(row, graph);
    const pco_executable_params params = {.size = sizeof params, .name = row->name, .force_decomposition = decomposed};
    if (!status) status = pco_executable_create(session, graph, &params, executable, err);
    if (!status && pco_executable_counts(*executable).cpu_nodes)
        status = pco_fail(err, PCO_ERROR_UNSUPPORTED, "the device cannot run it: it would run on the CPU");
    if (!status && fill) status = bench_fill(session, graph, err);
    pco_graph_destroy(graph);
    if (status) {
        pco_executable_destroy(*executable);
        *executable = NULL;
    }
    return status;
}

static pco_status bench_weights(int dtype, void **weights, pco_error *err)
{
    uint64_t bytes;
    *weights = NULL;
    if (dtype < 0) return PCO_OK;
    pco_status status = pco_dtype_bytes((uint32_t)dtype, 2, (int64_t[]){ROWS, COLUMNS}, &bytes, err);
    if (status) return status;
    float *row = malloc(COLUMNS * sizeof *row);
    unsigned char *all = malloc(bytes);
    for (int64_t r = 0; row && all && !status && r < ROWS; r++) {
        for (int i = 0; i < COLUMNS; i++) row[i] = (float)(((r * 31 + i * 17) % 255) - 127) / 127;
        status = pco_dtype_from_f32((uint32_t)dtype, row, COLUMNS, all + bytes / ROWS * (uint64_t)r, err);
    }
    if (!row || !all) status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for weights");
    free(row);
    if (status)
        free(all);
    else
        *weights = all;
    return status;
}

/* A matrix product by OpenBLAS. */
typedef struct bench_product {
    bench_blas blas;
    float *a, *b, *c;
} bench_product;

static pco_status bench_blas_run(void *user, pco_error *err)
{
    (void)err;
    const bench_product *p = user;
    enum { ROW_MAJOR = 101, PLAIN = 111 };
    p->blas.sgemm(ROW_MAJOR, PLAIN, PLAIN, SQUARE, SQUARE, SQUARE, 1, p->a, SQUARE, p->b, SQUARE, 0, p->c, SQUARE);
    return PCO_OK;
}

static int bench_product_open(bench_product *p, uint32_t threads)
{
    size_t count = (size_t)SQUARE * SQUARE;
    *p = (bench_product){.a = malloc(count * 4), .b = malloc(count * 4), .c = malloc(count * 4)};
    if (!p->a || !p->b || !p->c || !bench_blas_open(&p->blas, threads)) return 0;
    for (size_t i = 0; i < count; i++) {
        p->a[i] = sinf((float)i * 1e-3f);
        p->b[i] = sinf((float)i * 1e-3f + 1);
    }
    return 1;
}

static void bench_product_close(bench_product *p)
{
    bench_blas_close(&p->blas);
    free(p->a);
    free(p->b);
    free(p->c);
}

static void bench_results(const bench_row *row, const bench_work *work, const double *medians, const bench_blas *blas,
                          bench_figure *figure)
{
    bench_rate(figure, medians[0], work->flops, work->bytes);
    if (row->against == AGAINST_COPY) {
        double copy = 1e-9 * 2 * LARGE / medians[1];
        figure->of_copy = figure->rate / copy;
        snprintf(figure->peer, sizeof figure->peer, "%.0f %% of copy (%.1f GB/s)", 100 * figure->of_copy, copy);
    } else if (row->against == AGAINST_DECOMPOSITION) {
        figure->ratio = medians[1] / medians[0];
        snprintf(figure->peer, sizeof figure->peer, "%.2f times its decomposition (%.3f ms)", figure->ratio,
                 1e3 * medians[1]);
    } else if (row->against == AGAINST_BLAS && medians[1] > 0) {
        figure->ratio = medians[1] / medians[0];
        snprintf(figure->peer, sizeof figure->peer, "%.2f times OpenBLAS %s (%s) on the CPU (%.1f GFLOP/s)",
                 figure->ratio, blas->version, blas->core, 1e-9 * work->flops / medians[1]);
    }
}

/* Milliseconds of the kernels alone by the device's clock, the median of five runs of a program of its own: noting
 * times costs time. 0 where the device has no clock. */
static double bench_by_device(bench_setup *setup, const bench_row *row, const void *weights)
{
    enum { RUNS = 5 };
    pco_error err;
    pco_executable *executable = NULL;
    double times[RUNS + 1] = {0};
    if (!(pco_session_device(setup->session)->features & PCO_FEATURE_TIMESTAMPS)) return 0;
    pco_status status = pco_session_profile(setup->session, 1, &err);
    if (!status) status = bench_make(setup->session, row, weights, 0, 0, NULL, &executable, &err);
    for (int i = 0; !status && i <= RUNS; i++) { /* the first one warms up */
        const uint64_t before = pco_session_nanoseconds(setup->session);
        status = pco_executable_run(executable, &err);
        times[i] = 1e-6 * (double)(pco_session_nanoseconds(setup->session) - before);
    }
    pco_executable_destroy(executable);
    if (pco_session_profile(setup->session, 0, &err) || status) return 0;
    return bench_median(times + 1, RUNS);
}

static pco_status bench_figure_run(bench_setup *setup, const bench_row *row, uint32_t threads, const void *weights,
                                   bench_figure *figure, pco_error *err)
{
    pco_executable *subject = NULL, *other = NULL;
    bench_product product = {0};
    bench_work work;
    double medians[BENCH_MAX] = {0};
    int jobs = 1;
    bench_job job[2] = {{bench_execute, NULL}, {bench_execute, NULL}};
    pco_status status = bench_make(setup->session, row, weights, 0, 1, &work, &subject, err);
    job[0].user = subject;
    if (!status && row->against == AGAINST_COPY) {
        status = bench_make(setup->session, &BENCH_ROWS[0], NULL, 0, 1, NULL, &other, err);
        jobs = 2;
    } else if (!status && row->against == AGAINST_DECOMPOSITION) {
        status = bench_make(setup->session, row, weights, 1, 0, NULL, &other, err);
        jobs = 2;
    }
    job[1].user = other;
    if (!status && row->against == AGAINST_BLAS) {
        if (bench_product_open(&product, threads)) {
            job[1] = (bench_job){bench_blas_run, &product};
            jobs = 2;
        } else {
            snprintf(figure->peer, sizeof figure->peer, "peer not installed (libopenblas.so.0)");
        }
    }
    if (!status) status = bench_time(job, jobs, setup->seconds, setup->processor, medians, &figure->repetitions, err);
    if (!status) bench_results(row, &work, medians, &product.blas, figure);
    if (!status) figure->device = bench_by_device(setup, row, weights);
    bench_product_close(&product);
    pco_executable_destroy(subject);
    pco_executable_destroy(other);
    return status;
}

/* What a session runs, as one figure. */
static uint32_t bench_row_run(bench_setup *setup, pco_registry *registry, const bench_row *row, uint32_t threads,
                              const void *weights, bench_figure *figure, pco_error *err)
{
    *figure = (bench_figure){.unit = ""};
    snprintf(figure->name, sizeof figure->name, "%s", row->name);
    /* A session of its own: states are kept until it ends. */
    pco_status status = pco_registry_open(registry, setup->device, &setup->session, err);
    if (!status) status = bench_figure_run(setup, row, threads, weights, figure, err);
    if (status) snprintf(figure->error, sizeof figure->error, "%.500s", *err->message ? err->message : "failed");
    pco_session_close(setup->session);
    setup->session = NULL;
    return 1;
}

/* Its variants, a figure for each. */
static uint32_t bench_row_variants(const bench_setup *setup, pco_registry *registry, const bench_row *row,
                                   const void *weights, bench_figure *figures, uint32_t capacity, pco_error *err)
{
    pco_graph *graph = pco_graph_create();
    uint32_t count = 1;
    pco_status status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a graph");
    if (graph) {
        row->build(graph, weights);
        status = pco_graph_check(graph, err);
    }
    const bench_work work = status ? (bench_work){0} : bench_work_of(row, graph);
    const bench_alone alone = {
        .name = row->name, .graph = graph, .op = row->op, .flops = work.flops, .bytes = work.bytes};
    if (status)
        bench_refuse(figures, row->name, err);
    else
        count = bench_variants(setup, registry, &alone, figures, capacity);
    pco_graph_destroy(graph);
    return count;
}

uint32_t bench_ops(bench_setup *setup, pco_registry *registry, const char *pattern, uint32_t threads,
                   bench_figure *figures, uint32_t capacity)
{
    uint32_t count = 0;
    for (int i = 0; i < BENCH_N_ROWS && count < capacity && !cli_interrupted(); i++) {
        const bench_row *row = &BENCH_ROWS[i];
        pco_error err = {""};
        void *weights = NULL;
        if (fnmatch(pattern, row->name, 0) != 0) continue;
        if (bench_weights(row->dtype, &weights, &err)) {
            bench_refuse(&figures[count++], row->name, &err);
        } else if (setup->variant) {
            count += bench_row_variants(setup, registry, row, weights, &figures[count], capacity - count, &err);
        } else {
            count += bench_row_run(setup, registry, row, threads, weights, &figures[count], &err);
        }
        free(weights);
    }
    return count;
}
