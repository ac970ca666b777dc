/* What the variants of attention share: queries, which keys they see, and softmax over blocks of keys. */
#include "attention.h"

cpu_query cpu_query_of(const cpu_node *node, int64_t b, int64_t h, int64_t s)
{
    const cpu_attention *plan = &node->plan.attention;
    const pco_scaled_dot_product_attention_attrs *attrs = &node->attrs.scaled_dot_product_attention;
    const cpu_tensor *lengths = &node->in[4], *starts = &node->in[5];
    int64_t position = s + (starts->present ? cpu_i32_at(starts, b * plan->starts_b) : 0);
    cpu_query query = {.b = b, .h = h, .s = s, .low = 0, .high = plan->t};
    if (lengths->present) query.high = cpu_min(query.high, cpu_i32_at(lengths, b * plan->lengths_b));
    if (attrs->causal) query.high = cpu_min(query.high, position + 1);
    if (attrs->window > 0) {
        query.low = cpu_max(query.low, position - attrs->window + 1);
        query.high = cpu_min(query.high, position + attrs->window);
    }
    query.high = cpu_max(query.high, 0);
    query.low = cpu_min(query.low, query.high);
    return query;
}

cpu_query cpu_query_of_group(const cpu_node *node, int64_t b, int64_t g, int64_t r)
{
    const cpu_attention *plan = &node->plan.attention;
    return cpu_query_of(node, b, g * (plan->h / plan->g) + r / plan->s, r % plan->s);
}

void cpu_query_load(const cpu_node *node, const cpu_query *query, float *to)
{
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *q = &node->in[0];
    int64_t at = query->b * plan->q_b + query->h * plan->q_h + query->s * plan->q_s;
    node->kernels->load[q->dtype](to, cpu_at(q, at), plan->d);
    node->kernels->scale(to, to, (float)plan->scale, plan->d);
}

void cpu_query_store(const cpu_node *node, const cpu_query *query, float *o, float sum)
{
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *y = &node->out[0];
    int64_t at = query->b * plan->y_b + query->h * plan->y_h + query->s * plan->y_s;
    if (sum == 0)
        memset(o, 0, (size_t)plan->e * 4);
    else
        node->kernels->scale(o, o, 1 / sum, plan->e);
    node->kernels->store[y->dtype](cpu_at(y, at), o, plan->e);
}

/* A boolean mask hides keys; a float mask is added, and hides where it is -inf. */
static bool cpu_query_mask_tensor(const cpu_node *node, const cpu_query *query, int64_t first, int64_t n, float *scores,
                                  unsigned char *seen)
{
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *mask = &node->in[3];
    int64_t at = query->b * plan->mask_b + query->h * plan->mask_h + query->s * plan->mask_s + first * plan->mask_t;
    bool all = true;
    for (int64_t j = 0; j < n; j++, at += plan->mask_t) {
        if (!seen[j]) {
            all = false;
            continue;
        }
        if (mask->dtype == PCO_BOOL) {
            seen[j] = mask->data[at] != 0;
        } else {
            float add = (float)cpu_load_f64(mask->dtype, mask->data, at);
            seen[j] = add != -INFINITY;
            scores[j] += add;
        }
        if (!seen[j]) all = false;
    }
    return all;
}

bool cpu_query_mask(const cpu_node *node, const cpu_query *query, int64_t first, int64_t n, float *scores,
                    unsigned char *seen)
{
    double cap = node->attrs.scaled_dot_product_attention.softcap;
    if (cap > 0) {
        node->kernels->scale(scores, scores, (float)(1 / cap), n);
        node->kernels->map[PCO_OP_TANH](scores, scores, n);
        node->kernels->scale(scores, scores, (float)cap, n);
    }
    bool all = query->low <= first && first + n <= query->high;
    if (all && !node->in[3].present) return true;
    for (int64_t j = 0; j < n; j++) seen[j] = first + j >= query->low && first + j < query->high;
    if (node->in[3].present) all = cpu_query_mask_tensor(node, query, first, n, scores, seen) && all;
    for (int64_t j = 0; j < n && !all; j++)
        if (!seen[j]) scores[j] = -INFINITY;
    return all;
}

bool cpu_online_add(const cpu_node *node, cpu_online *online, float *scores, int64_t n, float *o, int64_t e)
{
    float most = node->kernels->max(scores, n);
    if (!(most > online->most) && most == most) most = online->most;
    if (most == -INFINITY) return false;
    if (most != online->most) {
        float factor = expf(online->most - most);
        online->sum *= factor;
        node->kernels->scale(o, o, factor, e);
        online->most = most;
    }
    online->sum += node->kernels->exp_sum(scores, scores, most, n);
    return true;
}
