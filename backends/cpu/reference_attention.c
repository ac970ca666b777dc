/* cpu:reference: attention and its gradients, in double. */
#include "attention.h"

CPU_REFERENCE_BEGIN

/* Per worker: T scores or weights, E sums, and T bytes that say which keys are seen. */
CPU_WORKSPACE(reference_attention)
{
    const cpu_attention *plan = &node->plan.attention;
    return node->device->threads * cpu_round64((uint64_t)(plan->t * 9 + plan->e * 8));
}

/* Is key j seen by query s of sequence b? The float mask's term goes to *add. */
static bool cpu_reference_sees(const cpu_node *node, int64_t b, int64_t h, int64_t s, int64_t j, double *add)
{
    const cpu_attention *plan = &node->plan.attention;
    const pco_scaled_dot_product_attention_attrs *attrs = &node->attrs.scaled_dot_product_attention;
    const cpu_tensor *mask = &node->in[3], *lengths = &node->in[4], *starts = &node->in[5];
    int64_t position = s;
    *add = 0;
    if (starts->present) position += cpu_i32_at(starts, b * plan->starts_b);
    if (lengths->present && j >= cpu_i32_at(lengths, b * plan->lengths_b)) return false;
    if (attrs->causal && j > position) return false;
    if (attrs->window > 0 && (j <= position - attrs->window || j >= position + attrs->window)) return false;
    if (!mask->present) return true;
    double value = cpu_load_f64(mask->dtype, mask->data,
                                b * plan->mask_b + h * plan->mask_h + s * plan->mask_s + j * plan->mask_t);
    if (mask->dtype == PCO_BOOL) return value != 0;
    *add = value;
    return value != -INFINITY;
}

static double cpu_reference_score(const cpu_node *node, int64_t q_at, int64_t k_at)
{
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *q = &node->in[0], *k = &node->in[1];
    double cap = node->attrs.scaled_dot_product_attention.softcap, sum = 0;
    for (int64_t d = 0; d < plan->d; d++)
        sum += cpu_load_f64(q->dtype, q->data, q_at + d) * cpu_load_f64(k->dtype, k->data, k_at + d);
    sum *= plan->scale;
    return cap > 0 ? cap * tanh(sum / cap) : sum;
}

/* The scores of query row[3] of sequence, group and head row[0..2], to p as exponentials of what they are below the
 * largest, 0 where a key is not seen; none is if all scores are -inf. Returns their sum. */
static double cpu_reference_exponents(const cpu_node *node, const int64_t *row, double *p, unsigned char *seen)
{
    const cpu_attention *plan = &node->plan.attention;
    const int64_t b = row[0], g = row[1], h = row[2], s = row[3];
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < plan->t; j++) {
        double add;
        seen[j] = cpu_reference_sees(node, b, h, s, j, &add);
        if (!seen[j]) continue;
        p[j] = cpu_reference_score(node, b * plan->q_b + h * plan->q_h + s * plan->q_s,
                                   b * plan->k_b + g * plan->k_g + j * plan->k_t) +
               add;
        if (p[j] > most || p[j] != p[j]) most = p[j];
    }
    for (int64_t j = 0; j < plan->t; j++) {
        if (most == -INFINITY) seen[j] = 0;
        p[j] = seen[j] ? exp(p[j] - most) : 0;
        sum += p[j];
    }
    return sum;
}

static void cpu_reference_attend(const cpu_node *node, int64_t b, int64_t h, int64_t s, unsigned char *memory)
{
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *v = &node->in[2], *y = &node->out[0], *weights = &node->out[1];
    double *p = (double *)(void *)memory, *o = p + plan->t;
    unsigned char *seen = (unsigned char *)(void *)(o + plan->e);
    int64_t g = h / (plan->h / plan->g);
    int64_t row = (b * plan->h + h) * plan->s + s, y_at = b * plan->y_b + h * plan->y_h + s * plan->y_s;
    const double sum = cpu_reference_exponents(node, (int64_t[]){b, g, h, s}, p, seen);
    for (int64_t e = 0; e < plan->e; e++) o[e] = 0;
    for (int64_t j = 0; j < plan->t; j++) {
        if (seen[j]) p[j] /= sum;
        if (weights->present) cpu_store_f64(weights->dtype, weights->data, row * plan->t + j, p[j]);
        if (!seen[j]) continue;
        int64_t v_at = b * plan->v_b + g * plan->v_g + j * plan->v_t;
        for (int64_t e = 0; e < plan->e; e++) o[e] += p[j] * cpu_load_f64(v->dtype, v->data, v_at + e);
    }
    for (int64_t e = 0; e < plan->e; e++) cpu_store_f64(y->dtype, y->data, y_at + e, o[e]);
}

/* Slices are rows of [B,H,S]. */
static void cpu_reference_attention_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_attention *plan = &node->plan.attention;
    for (int64_t i = begin; i < end; i++)
        cpu_reference_attend(node, i / plan->s / plan->h, i / plan->s % plan->h, i % plan->s,
                             cpu_worker_memory(node, worker));
}

CPU_RUN(reference_attention)
{
    const cpu_attention *plan = &node->plan.attention;
    if (node->out[0].count == 0 && node->out[1].count == 0) return;
    cpu_parallel(node, plan->b * plan->h * plan->s, cpu_grain(plan->t * (plan->d + plan->e) * 4),
                 cpu_reference_attention_slice);
}

/* ---- its gradients ---- */

/* Per worker: T weights and T products, gradients of T keys and values, D sums, and which keys are seen. */
CPU_WORKSPACE(reference_attention_backward)
{
    const cpu_attention *plan = &node->plan.attention;
    int64_t doubles = plan->t * (2 + plan->d + plan->e) + plan->d;
    return node->device->threads * cpu_round64((uint64_t)(doubles * 8 + plan->t));
}

static double cpu_reference_at(const cpu_tensor *x, int64_t at) { return cpu_load_f64(x->dtype, x->data, at); }

/* Weights of a row and gradient value^T into p and u; returns sum p u. */
static double cpu_reference_weigh(const cpu_node *node, const int64_t *row, double *p, double *u, unsigned char *seen)
{
    const cpu_attention *plan = &node->plan.attention;
    int64_t b = row[0], g = row[1], h = row[2], s = row[3];
    double along = 0;
    const double sum = cpu_reference_exponents(node, row, p, seen);
    int64_t v_at = b * plan->v_b + g * plan->v_g, y_at = b * plan->y_b + h * plan->y_h + s * plan->y_s;
    for (int64_t j = 0; j < plan->t; j++) {
        if (!seen[j]) continue;
        p[j] /= sum;
        u[j] = 0;
        for (int64_t e = 0; e < plan->e; e++)
            u[j] += cpu_reference_at(&node->in[6], y_at + e) * cpu_reference_at(&node->in[2], v_at + j * plan->v_t + e);
        along += p[j] * u[j];
    }
    return along;
}

/* A row's part in the gradients of keys and values, and its own. */
static void cpu_reference_attend_back(const cpu_node *node, const int64_t *row, double *p)
{
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *q = &node->in[0], *k = &node->in[1], *dy = &node->in[6];
    double *u = p + plan->t, *dk = u + plan->t, *dv = dk + plan->t * plan->d, *dq = dv + plan->t * plan->e;
    unsigned char *seen = (unsigned char *)(void *)(dq + plan->d);
    int64_t b = row[0], g = row[1], h = row[2], s = row[3];
    int64_t q_at = b * plan->q_b + h * plan->q_h + s * plan->q_s, k_at = b * plan->k_b + g * plan->k_g;
    int64_t y_at = b * plan->y_b + h * plan->y_h + s * plan->y_s;
    double along = cpu_reference_weigh(node, row, p, u, seen);
    for (int64_t d = 0; d < plan->d; d++) dq[d] = 0;
    for (int64_t j = 0; j < plan->t; j++) {
        if (!seen[j]) continue;
        double slope = p[j] * (u[j] - along) * plan->scale;
        for (int64_t d = 0; d < plan->d; d++) {
            dq[d] += slope * cpu_reference_at(k, k_at + j * plan->k_t + d);
            dk[j * plan->d + d] += slope * cpu_reference_at(q, q_at + d);
        }
        for (int64_t e = 0; e < plan->e; e++) dv[j * plan->e + e] += p[j] * cpu_reference_at(dy, y_at + e);
    }
    for (int64_t d = 0; d < plan->d; d++) cpu_store_f64(node->out[0].dtype, node->out[0].data, q_at + d, dq[d]);
}

/* Slices are key heads: each adds up what its rows give, in their order. */
static void cpu_reference_attention_backward_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *key = &node->out[1], *value = &node->out[2];
    double *memory = (double *)(void *)cpu_worker_memory(node, worker);
    double *dk = memory + 2 * plan->t, *dv = dk + plan->t * plan->d;
    int64_t group = plan->h / plan->g;
    for (int64_t i = begin; i < end; i++) {
        int64_t b = i / plan->g, g = i % plan->g;
        memset(dk, 0, (size_t)(plan->t * (plan->d + plan->e)) * 8);
        for (int64_t r = 0; r < group * plan->s; r++)
            cpu_reference_attend_back(node, (int64_t[]){b, g, g * group + r / plan->s, r % plan->s}, memory);
        for (int64_t j = 0; j < plan->t; j++) {
            int64_t k_at = b * plan->k_b + g * plan->k_g + j * plan->k_t;
            int64_t v_at = b * plan->v_b + g * plan->v_g + j * plan->v_t;
            for (int64_t d = 0; d < plan->d; d++) cpu_store_f64(key->dtype, key->data, k_at + d, dk[j * plan->d + d]);
            for (int64_t e = 0; e < plan->e; e++)
                cpu_store_f64(value->dtype, value->data, v_at + e, dv[j * plan->e + e]);
        }
    }
}

CPU_RUN(reference_attention_backward)
{
    const cpu_attention *plan = &node->plan.attention;
    cpu_parallel(node, plan->b * plan->g, 1, cpu_reference_attention_backward_slice);
}

CPU_REFERENCE_END
