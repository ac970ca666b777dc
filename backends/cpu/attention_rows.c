/* Attention with few queries, as in decoding: keys are read as they are stored, one dot product each; and the
 * variant that keeps a whole row of weights, for nodes that want them. */
#include "attention.h"

enum { CPU_ROWS_AT_ONCE = 16 };

/* Values of keys first .. first+n-1 in f32, rows *stride apart: where they are, or widened into `wide`. */
static const float *cpu_values(const cpu_node *node, int64_t b, int64_t g, int64_t first, int64_t n, float *wide,
                               int64_t *stride)
{
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *v = &node->in[2];
    int64_t at = b * plan->v_b + g * plan->v_g + first * plan->v_t;
    *stride = plan->v_t;
    if (v->dtype == PCO_F32) return (const float *)(void *)v->data + at;
    for (int64_t j = 0; j < n; j++)
        node->kernels->load[v->dtype](wide + j * plan->e, cpu_at(v, at + j * plan->v_t), plan->e);
    *stride = plan->e;
    return wide;
}

/* Per worker: queries, scores, results, values. */
CPU_WORKSPACE(native_attention_rows)
{
    const cpu_attention *plan = &node->plan.attention;
    int64_t floats = CPU_ROWS_AT_ONCE * (plan->d + CPU_KEYS + plan->e) + CPU_KEYS * plan->e;
    return node->device->threads * cpu_round64((uint64_t)floats * 4);
}

/* Up to CPU_ROWS_AT_ONCE queries that share key head g. */
static void cpu_attend_rows(const cpu_node *node, int64_t b, int64_t g, int64_t row, int64_t rows, float *memory)
{
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *k = &node->in[1];
    float *q = memory, *scores = q + CPU_ROWS_AT_ONCE * plan->d, *o = scores + CPU_ROWS_AT_ONCE * CPU_KEYS;
    float *wide = o + CPU_ROWS_AT_ONCE * plan->e;
    cpu_query query[CPU_ROWS_AT_ONCE];
    cpu_online online[CPU_ROWS_AT_ONCE];
    unsigned char seen[CPU_KEYS];
    int64_t low = plan->t, high = 0;
    for (int64_t r = 0; r < rows; r++) {
        query[r] = cpu_query_of_group(node, b, g, row + r);
        online[r] = (cpu_online){.most = -INFINITY, .sum = 0};
        cpu_query_load(node, &query[r], q + r * plan->d);
        memset(o + r * plan->e, 0, (size_t)plan->e * 4);
        if (query[r].low < query[r].high) {
            low = cpu_min(low, query[r].low);
            high = cpu_max(high, query[r].high);
        }
    }
    for (int64_t first = low / CPU_KEYS * CPU_KEYS; first < high; first += CPU_KEYS) {
        int64_t n = cpu_min(CPU_KEYS, high - first), stride;
        for (int64_t j = 0; j < n; j++) {
            const unsigned char *key = cpu_at(k, b * plan->k_b + g * plan->k_g + (first + j) * plan->k_t);
            float column[CPU_DOT_ROWS];
            for (int64_t r = 0; r < rows; r += CPU_DOT_ROWS) {
                int part = (int)cpu_min(CPU_DOT_ROWS, rows - r);
                node->kernels->dot_rows[k->dtype](column, q + r * plan->d, plan->d, part, key, plan->d);
                for (int i = 0; i < part; i++) scores[(r + i) * CPU_KEYS + j] = column[i];
            }
        }
        const float *v = cpu_values(node, b, g, first, n, wide, &stride);
        for (int64_t r = 0; r < rows; r++) {
            float *p = scores + r * CPU_KEYS;
            bool all = cpu_query_mask(node, &query[r], first, n, p, seen);
            if (cpu_online_add(node, &online[r], p, n, o + r * plan->e, plan->e))
                node->kernels->attend(o + r * plan->e, p, all ? NULL : seen, v, stride, n, plan->e);
        }
    }
    for (int64_t r = 0; r < rows; r++) cpu_query_store(node, &query[r], o + r * plan->e, online[r].sum);
}

static void cpu_rows_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_attention *plan = &node->plan.attention;
    float *memory = (float *)(void *)cpu_worker_memory(node, worker);
    int64_t rows = plan->h / plan->g * plan->s, blocks = (rows + CPU_ROWS_AT_ONCE - 1) / CPU_ROWS_AT_ONCE;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i % blocks * CPU_ROWS_AT_ONCE;
        cpu_attend_rows(node, i / blocks / plan->g, i / blocks % plan->g, row, cpu_min(CPU_ROWS_AT_ONCE, rows - row),
                        memory);
    }
}

CPU_RUN(native_attention_rows)
{
    const cpu_attention *plan = &node->plan.attention;
    if (node->out[0].count == 0) return;
    int64_t rows = plan->h / plan->g * plan->s, blocks = (rows + CPU_ROWS_AT_ONCE - 1) / CPU_ROWS_AT_ONCE;
    int64_t cost = cpu_min(rows, CPU_ROWS_AT_ONCE) * plan->t * (plan->d + plan->e) / 8;
    cpu_parallel(node, plan->b * plan->g * blocks, cpu_grain(cost), cpu_rows_slice);
}

/* ---- whole rows of weights ---- */

/* Per worker: a query, a row of scores, a result, values, and which keys are seen. */
CPU_WORKSPACE(native_attention_whole)
{
    const cpu_attention *plan = &node->plan.attention;
    int64_t floats = plan->d + plan->t + plan->e + CPU_KEYS * plan->e;
    return node->device->threads * cpu_round64((uint64_t)(floats * 4 + plan->t));
}

static void cpu_attend_whole(const cpu_node *node, const cpu_query *query, float *memory)
{
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *k = &node->in[1], *weights = &node->out[1];
    float *q = memory, *p = q + plan->d, *o = p + plan->t, *wide = o + plan->e;
    unsigned char *seen = (unsigned char *)(void *)(wide + CPU_KEYS * plan->e);
    int64_t g = query->h / (plan->h / plan->g);
    cpu_query_load(node, query, q);
    for (int64_t j = 0; j < plan->t; j++) {
        p[j] = 0;
        if (j >= query->low && j < query->high)
            node->kernels->dot_rows[k->dtype](&p[j], q, 0, 1,
                                              cpu_at(k, query->b * plan->k_b + g * plan->k_g + j * plan->k_t), plan->d);
    }
    bool all = cpu_query_mask(node, query, 0, plan->t, p, seen);
    float most = node->kernels->max(p, plan->t);
    bool some = most != -INFINITY;
    if (some) {
        float sum = node->kernels->exp_sum(p, p, most, plan->t);
        node->kernels->scale(p, p, 1 / sum, plan->t);
    } else {
        memset(p, 0, (size_t)plan->t * 4);
    }
    memset(o, 0, (size_t)plan->e * 4);
    for (int64_t first = query->low; first < query->high && some; first += CPU_KEYS) {
        int64_t n = cpu_min(CPU_KEYS, query->high - first), stride;
        const float *v = cpu_values(node, query->b, g, first, n, wide, &stride);
        node->kernels->attend(o, p + first, all ? NULL : seen + first, v, stride, n, plan->e);
    }
    cpu_query_store(node, query, o, 1);
    int64_t row = (query->b * plan->h + query->h) * plan->s + query->s;
    if (weights->present) node->kernels->store[weights->dtype](cpu_at(weights, row * plan->t), p, plan->t);
}

/* Slices are rows of [B,H,S]. */
static void cpu_whole_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_attention *plan = &node->plan.attention;
    for (int64_t i = begin; i < end; i++) {
        cpu_query query = cpu_query_of(node, i / plan->s / plan->h, i / plan->s % plan->h, i % plan->s);
        cpu_attend_whole(node, &query, (float *)(void *)cpu_worker_memory(node, worker));
    }
}

CPU_RUN(native_attention_whole)
{
    const cpu_attention *plan = &node->plan.attention;
    if (node->out[0].count == 0 && node->out[1].count == 0) return;
    cpu_parallel(node, plan->b * plan->h * plan->s, cpu_grain(plan->t * (plan->d + plan->e) / 4), cpu_whole_slice);
}
