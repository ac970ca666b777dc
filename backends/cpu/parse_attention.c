/* Attention and positions. */
#include "parse.h"

/* One value per sequence, or one for all; the stride along sequences. */
static bool cpu_per_sequence(const cpu_tensor *x, int64_t sequences, int64_t *stride)
{
    *stride = x->present && x->count > 1;
    return !x->present || (x->rank <= 1 && (x->count == sequences || x->count == 1));
}

static bool cpu_attention_mask(const cpu_tensor *mask, cpu_attention *plan)
{
    if (!mask->present) return true;
    const int64_t full[4] = {plan->b, plan->h, plan->s, plan->t};
    int64_t *stride[4] = {&plan->mask_b, &plan->mask_h, &plan->mask_s, &plan->mask_t};
    if (mask->rank > 4) return false;
    int64_t step = 1;
    for (int i = 3; i >= 4 - (int)mask->rank; i--) {
        int64_t size = mask->shape[i - (4 - (int)mask->rank)];
        if (size != 1 && size != full[i]) return false;
        *stride[i] = size == 1 ? 0 : step;
        step *= size;
    }
    return true;
}

/* Sizes and strides of [B,H,S,D] or [B,S,H,D]. */
static void cpu_heads(const cpu_tensor *x, bool heads_first, int64_t *heads, int64_t *rows, int64_t *stride_b,
                      int64_t *stride_h, int64_t *stride_s)
{
    int64_t width = x->shape[3];
    *heads = x->shape[heads_first ? 1 : 2];
    *rows = x->shape[heads_first ? 2 : 1];
    *stride_b = x->shape[1] * x->shape[2] * width;
    *stride_h = heads_first ? *rows * width : width;
    *stride_s = heads_first ? width : *heads * width;
}

/* Sizes and strides, with y the result or its gradient; attributes are those of the forward op. */
static pco_status cpu_attention_read(cpu_node *node, const cpu_tensor *y, pco_error *err)
{
    const cpu_tensor *q = &node->in[0], *k = &node->in[1], *v = &node->in[2];
    const pco_scaled_dot_product_attention_attrs *attrs = &node->attrs.scaled_dot_product_attention;
    cpu_attention *plan = &node->plan.attention;
    if (q->rank != 4 || k->rank != 4 || v->rank != 4 || y->rank != 4)
        return cpu_invalid(node, err, "query, key, value and output do not have four dimensions");
    bool first = attrs->heads_first != 0;
    int64_t v_heads, v_rows, y_heads, y_rows;
    cpu_heads(q, first, &plan->h, &plan->s, &plan->q_b, &plan->q_h, &plan->q_s);
    cpu_heads(k, first, &plan->g, &plan->t, &plan->k_b, &plan->k_g, &plan->k_t);
    cpu_heads(v, first, &v_heads, &v_rows, &plan->v_b, &plan->v_g, &plan->v_t);
    cpu_heads(y, first, &y_heads, &y_rows, &plan->y_b, &plan->y_h, &plan->y_s);
    plan->b = q->shape[0];
    plan->d = q->shape[3];
    plan->e = v->shape[3];
    if (k->shape[0] != plan->b || v->shape[0] != plan->b || y->shape[0] != plan->b ||
        k->shape[3] != plan->d || v_heads != plan->g || v_rows != plan->t || y_heads != plan->h ||
        y_rows != plan->s || y->shape[3] != plan->e)
        return cpu_invalid(node, err, "the shapes of query, key, value and output (or its gradient) do not fit");
    if (plan->h > 0 && (plan->g == 0 || plan->h % plan->g))
        return cpu_invalid(node, err, "%lld heads are not a multiple of %lld", (long long)plan->h,
                           (long long)plan->g);
    if (!cpu_attention_mask(&node->in[3], plan)) return cpu_invalid(node, err, "the mask does not broadcast");
    if (!cpu_per_sequence(&node->in[4], plan->b, &plan->lengths_b) ||
        !cpu_per_sequence(&node->in[5], plan->b, &plan->starts_b))
        return cpu_invalid(node, err, "lengths or starts are not one per sequence");
    plan->scale = attrs->scale != 0 ? attrs->scale : plan->d > 0 ? 1 / sqrt((double)plan->d) : 1;
    return PCO_OK;
}

CPU_PARSE(attention)
{
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *weights = &node->out[1];
    pco_status status = cpu_attention_read(node, &node->out[0], err);
    if (status) return status;
    if (weights->present &&
        (weights->rank != 4 || weights->shape[0] != plan->b || weights->shape[1] != plan->h ||
         weights->shape[2] != plan->s || weights->shape[3] != plan->t))
        return cpu_invalid(node, err, "weights are not [B,H,S,T]");
    return PCO_OK;
}

/* The attributes become those of the forward op, which say the same. */
CPU_PARSE(attention_backward)
{
    const pco_scaled_dot_product_attention_backward_attrs attrs = node->attrs.scaled_dot_product_attention_backward;
    node->attrs.scaled_dot_product_attention = (pco_scaled_dot_product_attention_attrs){
        .scale = attrs.scale, .causal = attrs.causal, .window = attrs.window, .heads_first = attrs.heads_first};
    for (uint32_t i = 0; i < 3; i++)
        if (!cpu_same_shape(&node->in[i], &node->out[i]))
            return cpu_invalid(node, err, "operands and their gradients differ in shape");
    return cpu_attention_read(node, &node->in[6], err);
}

static bool cpu_is_phase(const cpu_tensor *phase)
{
    return phase->rank == 2 && phase->shape[1] == 2;
}

CPU_PARSE(rope)
{
    const cpu_tensor *x = &node->in[0], *positions = &node->in[1], *phase = &node->in[2];
    cpu_rope *plan = &node->plan.rope;
    if (x->rank != 4 || !cpu_same_shape(x, &node->out[0]))
        return cpu_invalid(node, err, "input and output differ in shape or do not have four dimensions");
    cpu_heads(x, node->attrs.rope.heads_first != 0, &plan->h, &plan->s, &plan->x_b, &plan->x_h, &plan->x_s);
    plan->b = x->shape[0];
    plan->d = x->shape[3];
    if (!cpu_is_phase(phase)) return cpu_invalid(node, err, "phase is not [R,2]");
    plan->r = phase->shape[0];
    if (2 * plan->r > plan->d) return cpu_invalid(node, err, "phase has more pairs than x");
    if (positions->rank != 2 || positions->shape[1] != plan->s ||
        (positions->shape[0] != plan->b && positions->shape[0] != 1))
        return cpu_invalid(node, err, "positions are neither [B,S] nor [1,S]");
    plan->positions_b = positions->shape[0] > 1 ? plan->s : 0;
    return PCO_OK;
}

CPU_PARSE(sinusoidal_positions)
{
    const cpu_tensor *positions = &node->in[0], *phase = &node->in[1], *y = &node->out[0];
    if (!cpu_is_float(y->dtype) || node->attrs.sinusoidal_positions.dtype != (int64_t)y->dtype)
        return cpu_invalid(node, err, "dtype does not say the type of the output");
    if (!cpu_is_phase(phase)) return cpu_invalid(node, err, "phase is not [R,2]");
    if (y->rank != positions->rank + 1 || y->shape[y->rank - 1] != 2 * phase->shape[0] ||
        memcmp(y->shape, positions->shape, positions->rank * sizeof y->shape[0]))
        return cpu_invalid(node, err, "the output is not [..,2R]");
    return PCO_OK;
}
