/* Attention and positions. */
#include "parse.h"

/* The mask is [B,H,S,T], where each size may be 1. */
static void cpu_attention_mask(const cpu_tensor *mask, cpu_attention *plan)
{
    int64_t *const stride[4] = {&plan->mask_b, &plan->mask_h, &plan->mask_s, &plan->mask_t};
    int64_t step = 1;
    for (int i = 3; i >= 0 && mask->present; i--) {
        *stride[i] = mask->shape[i] == 1 ? 0 : step;
        step *= mask->shape[i];
    }
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
static void cpu_attention_read(cpu_node *node, const cpu_tensor *y)
{
    const cpu_tensor *q = &node->in[0], *k = &node->in[1], *v = &node->in[2];
    pco_scaled_dot_product_attention_attrs *attrs = &node->attrs.scaled_dot_product_attention;
    cpu_attention *plan = &node->plan.attention;
    bool first = attrs->heads_first != 0;
    int64_t heads, rows;
    cpu_heads(q, first, &plan->h, &plan->s, &plan->q_b, &plan->q_h, &plan->q_s);
    cpu_heads(k, first, &plan->g, &plan->t, &plan->k_b, &plan->k_g, &plan->k_t);
    cpu_heads(v, first, &heads, &rows, &plan->v_b, &plan->v_g, &plan->v_t);
    cpu_heads(y, first, &heads, &rows, &plan->y_b, &plan->y_h, &plan->y_s);
    plan->b = q->shape[0];
    plan->d = q->shape[3];
    plan->e = v->shape[3];
    cpu_attention_mask(&node->in[3], plan);
    plan->lengths_b = node->in[4].present;
    plan->starts_b = node->in[5].present;
    attrs->window = cpu_min(attrs->window, INT64_C(1) << 32); /* positions and it can be added */
    plan->scale = attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)plan->d);
}

CPU_PARSE(attention) { cpu_attention_read(node, &node->out[0]); }

/* The attributes become those of the forward op, which say the same. */
CPU_PARSE(attention_backward)
{
    const pco_scaled_dot_product_attention_backward_attrs attrs = node->attrs.scaled_dot_product_attention_backward;
    node->attrs.scaled_dot_product_attention = (pco_scaled_dot_product_attention_attrs){
        .scale = attrs.scale, .causal = attrs.causal, .window = attrs.window, .heads_first = attrs.heads_first};
    cpu_attention_read(node, &node->in[6]);
}

CPU_PARSE(rope)
{
    const cpu_tensor *x = &node->in[0], *positions = &node->in[1], *phase = &node->in[2];
    cpu_rope *plan = &node->plan.rope;
    cpu_heads(x, node->attrs.rope.heads_first != 0, &plan->h, &plan->s, &plan->x_b, &plan->x_h, &plan->x_s);
    plan->b = x->shape[0];
    plan->d = x->shape[3];
    plan->r = phase->shape[0];
    plan->positions_b = positions->shape[0] > 1 ? plan->s : 0;
}
