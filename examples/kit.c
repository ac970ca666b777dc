#include "kit.h"

#include "base/philox.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void kit_good(const kit *k, pco_status status, const pco_error *err)
{
    if (!status) return;
    fprintf(stderr, "%s: %s\n", k->name, err->message);
    exit(1);
}

static void *kit_allocate(const kit *k, uint64_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (memory) return memory;
    fprintf(stderr, "%s: out of host memory for %" PRIu64 " bytes\n", k->name, bytes);
    exit(1);
}

void kit_open(kit *k, const char *name)
{
    pco_config config;
    pco_error err;
    *k = (kit){.name = name};
    kit_good(k, pco_config_read(&config, &err), &err);
    kit_good(k, pco_registry_create(&config, &k->registry, &err), &err);
    kit_good(k, pco_registry_open(k->registry, NULL, &k->session, &err), &err);
    k->weights = pco_weights_create(name);
    if (!k->weights) kit_good(k, PCO_ERROR_OUT_OF_HOST_MEMORY, &(pco_error){"out of host memory"});
    printf("%s on %s (%s)\n\n", name, pco_session_device_id(k->session), pco_session_device(k->session)->name);
}

int kit_close(kit *k)
{
    pco_executable_destroy(k->program);
    pco_graph_destroy(k->nn.graph);
    pco_session_close(k->session);
    pco_registry_destroy(k->registry);
    for (uint32_t i = 0; i < k->weights->count; i++)
        if (strcmp(k->weights->items[i].type_name, "rows")) free((void *)(uintptr_t)k->weights->items[i].data);
    pco_weights_close(k->weights);
    return k->failed;
}

/* ---- numbers ---- */

/* 24 random bits in [0, 1), never 0. */
static double kit_uniform(uint32_t seed, uint32_t stream, int64_t i)
{
    const pco_philox counter = {{(uint32_t)(i / 4), (uint32_t)(i >> 34), 0, 0}};
    return ((pco_philox4x32_10(counter, (uint64_t)stream << 32 | seed).word[i % 4] >> 8) + 0.5) * 0x1p-24;
}

void kit_random(float *x, int64_t count, uint32_t seed, float mean, float scale)
{
    const double turn = 6.283185307179586;
    for (int64_t i = 0; i < count; i++) { /* Box and Muller 1958 */
        double u = kit_uniform(seed, 1, 2 * i), v = kit_uniform(seed, 1, 2 * i + 1);
        x[i] = mean + scale * (float)(sqrt(-2 * log(u)) * cos(turn * v));
    }
}

/* ---- weights ---- */

static void kit_add(kit *k, const char *name, const pco_weight *weight)
{
    pco_error err;
    kit_good(k, pco_weights_add(k->weights, weight, name, strlen(name), &err), &err);
    kit_good(k, pco_weights_index(k->weights, &err), &err);
}

/* Uniform within offset - bound, offset + bound; each tensor has a stream of its own. */
static void kit_tensor(kit *k, const char *prefix, const char *part, uint32_t rank, int64_t rows, int64_t columns,
                       double bound, double offset)
{
    char name[256];
    pco_weight weight = {.type_name = "F32", .dtype = PCO_F32, .rank = rank, .shape = {rows, columns}};
    int64_t count = rank == 2 ? rows * columns : rows;
    float *data = kit_allocate(k, (uint64_t)count * sizeof *data);
    size_t size = strlen(prefix);
    snprintf(name, sizeof name, "%s%s%s", prefix, size && prefix[size - 1] == '_' ? "" : ".", part);
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)(offset + bound * (2 * kit_uniform(42, 2 + k->weights->count, i) - 1));
    weight.data = data;
    weight.bytes = (uint64_t)count * sizeof *data;
    kit_add(k, name, &weight);
}

void kit_linear(kit *k, const char *name, int64_t out_features, int64_t in_features, int bias)
{
    double bound = 1 / sqrt((double)in_features);
    kit_tensor(k, name, "weight", 2, out_features, in_features, bound, 0);
    if (bias) kit_tensor(k, name, "bias", 1, out_features, 0, bound, 0);
}

void kit_norm(kit *k, const char *name, const pco_nn_norm_params *params)
{
    kit_tensor(k, name, "weight", 1, params->width, 0, 0, 1);
    if (params->type == PCO_NN_LAYER_NORM) kit_tensor(k, name, "bias", 1, params->width, 0, 0, 0);
}

void kit_ffn(kit *k, const pco_nn_ffn_params *params)
{
    int64_t width = params->width, hidden = params->hidden;
    if (params->activation != PCO_NN_SWIGLU) {
        kit_linear(k, params->fc1, hidden, width, params->bias);
        kit_linear(k, params->fc2, width, hidden, params->bias);
        return;
    }
    if (params->gate_up) {
        kit_linear(k, params->gate_up, 2 * hidden, width, params->bias);
    } else {
        kit_linear(k, params->gate, hidden, width, params->bias);
        kit_linear(k, params->up, hidden, width, params->bias);
    }
    kit_linear(k, params->down, width, hidden, params->bias);
}

pco_nn_attention_params kit_causal(int64_t width, int64_t heads)
{
    return (pco_nn_attention_params){.size = sizeof(pco_nn_attention_params),
                                     .width = width,
                                     .heads = heads,
                                     .kv_heads = heads,
                                     .head_dim = width / heads,
                                     .bias = 1,
                                     .output_bias = 1,
                                     .causal = 1};
}

void kit_attention(kit *k, const pco_nn_attention_params *params)
{
    int64_t queries = params->heads * params->head_dim, keys = params->kv_heads * params->head_dim;
    if (params->fused) {
        kit_linear(k, params->fused, queries + 2 * keys, params->width, params->bias);
    } else {
        kit_linear(k, params->query, queries, params->width, params->bias);
        kit_linear(k, params->key, keys, params->width, params->bias);
        kit_linear(k, params->value, keys, params->width, params->bias);
    }
    kit_linear(k, params->output, params->width, queries, params->output_bias);
}

void kit_layer(kit *k, const pco_nn_layer_params *params, int cross)
{
    kit_norm(k, params->self_attention_norm, &params->norm);
    kit_attention(k, &params->self_attention);
    if (cross) {
        kit_norm(k, params->cross_attention_norm, &params->norm);
        kit_attention(k, &params->cross_attention);
    }
    kit_norm(k, params->ffn_norm, &params->norm);
    kit_ffn(k, &params->ffn);
}

void kit_rows(kit *k, const char *name, const char *of, int64_t first, int64_t count)
{
    const pco_weight *whole = pco_weights_find(k->weights, of);
    if (!whole) kit_good(k, PCO_ERROR_NOT_FOUND, &(pco_error){"there is no tensor to take rows of"});
    pco_weight part = *whole;
    uint64_t row = whole->bytes / (uint64_t)whole->shape[0];
    part.type_name = "rows"; /* borrowed */
    part.shape[0] = count;
    part.data = (const char *)whole->data + (uint64_t)first * row;
    part.bytes = (uint64_t)count * row;
    kit_add(k, name, &part);
}

int64_t kit_parameters(const kit *k, const char *prefix)
{
    int64_t count = 0;
    for (uint32_t i = 0; i < k->weights->count; i++)
        if (strncmp(k->weights->items[i].name, prefix, strlen(prefix)) == 0)
            count += (int64_t)(k->weights->items[i].bytes / sizeof(float));
    return count;
}

/* ---- graphs ---- */

void kit_begin(kit *k)
{
    pco_executable_destroy(k->program);
    pco_graph_destroy(k->nn.graph);
    k->program = NULL;
    k->nn = (pco_nn){.graph = pco_graph_create(), .weights = k->weights};
    if (!k->nn.graph) kit_good(k, PCO_ERROR_OUT_OF_HOST_MEMORY, &(pco_error){"out of host memory for a graph"});
}

void kit_ready(kit *k)
{
    pco_error err;
    kit_good(k, pco_graph_check(k->nn.graph, &err), &err);
    kit_good(k, pco_executable_create(k->session, k->nn.graph, NULL, &k->program, &err), &err);
}

void kit_write(kit *k, const char *tensor, const void *data, uint64_t bytes)
{
    pco_error err;
    uint32_t handle = pco_executable_tensor(k->program, tensor);
    kit_good(k, pco_executable_write(k->program, handle, data, bytes, &err), &err);
}

void kit_run(kit *k)
{
    pco_error err;
    kit_good(k, pco_executable_run(k->program, &err), &err);
}

void kit_read(kit *k, const char *tensor, void *data, uint64_t bytes)
{
    pco_error err;
    uint32_t handle = pco_executable_tensor(k->program, tensor);
    kit_good(k, pco_executable_read(k->program, handle, data, bytes, &err), &err);
}

void kit_map(kit *k, const float *x, int64_t n_x, float *y, int64_t n_y)
{
    kit_write(k, "x", x, (uint64_t)n_x * sizeof *x);
    kit_run(k);
    kit_read(k, "y", y, (uint64_t)n_y * sizeof *y);
}

static double kit_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double kit_seconds(kit *k)
{
    double best = INFINITY;
    const double begin = kit_clock();
    kit_run(k);
    for (int i = 0; i < 3 || (i < 50 && kit_clock() - begin < 0.1); i++) {
        double start = kit_clock();
        kit_run(k);
        double seconds = kit_clock() - start;
        if (seconds < best) best = seconds;
    }
    return best;
}

pco_memory_use kit_memory(const kit *k)
{
    pco_memory_use uses[PCO_MEMORY_DEVICES], sum;
    uint32_t n = pco_executable_memory(k->program, uses);
    sum = uses[0];
    for (uint32_t i = 1; i < n; i++) {
        sum.weights += uses[i].weights;
        sum.activations += uses[i].activations;
        sum.workspace += uses[i].workspace;
        sum.arena += uses[i].arena;
        sum.lower_bound += uses[i].lower_bound;
        sum.unplanned += uses[i].unplanned;
        sum.io += uses[i].io;
    }
    return sum;
}

/* ---- figures ---- */

double kit_rms(const float *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum / (double)count);
}

double kit_difference(const float *a, const float *b, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= most)) most = d == d ? d : INFINITY;
    }
    return most;
}

void kit_check(kit *k, int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "%s: this does not hold: %s\n", k->name, what);
    k->failed = 1;
}
