#include "kit.h"

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

void kit_open(kit *k, const char *name)
{
    pco_error err;
    *k = (kit){.name = name};
    kit_good(k, pco_context_create(NULL, &k->context, &err), &err);
    kit_good(k, pco_session_open(k->context, NULL, &k->session, &err), &err);
    printf("%s on %s (%s)\n\n", name, pco_session_device_id(k->session), pco_session_device(k->session)->name);
}

static void kit_end(kit *k)
{
    pco_executable_destroy(k->program);
    pco_nn_destroy(k->nn);
    pco_graph_destroy(k->graph);
    k->program = NULL;
    k->nn = NULL;
    k->graph = NULL;
}

int kit_close(kit *k)
{
    kit_end(k);
    pco_session_close(k->session);
    pco_context_destroy(k->context);
    return k->failed;
}

/* ---- numbers ---- */

/* Draws from (0, 1), by counting (Steele, Lea & Flood 2014, SplitMix64). */
static double kit_uniform(uint32_t seed, int64_t i)
{
    uint64_t z = ((uint64_t)seed << 32) + (uint64_t)i * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return ((double)((z ^ z >> 31) >> 40) + 0.5) * 0x1p-24;
}

void kit_random(float *x, int64_t count, uint32_t seed, float mean, float scale)
{
    const double turn = 6.283185307179586;
    for (int64_t i = 0; i < count; i++) { /* Box and Muller 1958 */
        double u = kit_uniform(seed, 2 * i), v = kit_uniform(seed, 2 * i + 1);
        x[i] = mean + scale * (float)(sqrt(-2 * log(u)) * cos(turn * v));
    }
}

/* ---- graphs ---- */

void kit_begin(kit *k, const pco_nn_params *params)
{
    kit_end(k);
    k->graph = pco_graph_create();
    k->nn = pco_nn_create(k->graph, params);
    if (!k->nn) kit_good(k, PCO_ERROR_OUT_OF_HOST_MEMORY, &(pco_error){"out of host memory for a graph"});
}

void kit_ready(kit *k)
{
    pco_error err;
    kit_good(k, pco_graph_check(k->graph, &err), &err);
    kit_good(k, pco_executable_create(k->session, k->graph, NULL, &k->program, &err), &err);
    kit_good(k, pco_nn_initialize(k->nn, k->session, NULL, &err), &err);
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
    timespec_get(&now, TIME_UTC);
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

pco_executable_stats kit_memory(const kit *k)
{
    pco_error err;
    pco_executable_stats stats = {.size = sizeof stats};
    kit_good(k, pco_executable_inspect(k->program, &stats, &err), &err);
    return stats;
}

int64_t kit_parameters(const kit *k)
{
    pco_error err;
    int64_t count = 0;
    uint32_t tensors[256];
    const uint32_t n = pco_nn_parameters(k->nn, tensors, 256);
    for (uint32_t i = 0; i < n && i < 256; i++) {
        pco_tensor tensor;
        kit_good(k, pco_graph_describe(k->graph, tensors[i], &tensor, &err), &err);
        count += (int64_t)(tensor.bytes / sizeof(float));
    }
    return count;
}

void kit_join(kit *k, const char *whole, const char *const *parts, int count, uint64_t bytes)
{
    pco_error err;
    char *data = malloc((size_t)count * bytes);
    if (!data) kit_good(k, PCO_ERROR_OUT_OF_HOST_MEMORY, &(pco_error){"out of host memory for a weight"});
    for (int i = 0; i < count; i++)
        kit_good(k, pco_session_read_state(k->session, parts[i], data + (size_t)i * bytes, bytes, &err), &err);
    kit_good(k, pco_session_write_state(k->session, whole, data, (uint64_t)count * bytes, &err), &err);
    free(data);
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
