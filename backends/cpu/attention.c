/* Attention and its gradients: plans and variants. */
#include "attention.h"

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

static CPU_PARSE(attention) { cpu_attention_read(node, &node->out[0]); }

/* The attributes become those of the forward op, which say the same. */
static CPU_PARSE(attention_backward)
{
    const pco_scaled_dot_product_attention_backward_attrs attrs = node->attrs.scaled_dot_product_attention_backward;
    node->attrs.scaled_dot_product_attention = (pco_scaled_dot_product_attention_attrs){
        .scale = attrs.scale, .causal = attrs.causal, .window = attrs.window, .heads_first = attrs.heads_first};
    cpu_attention_read(node, &node->in[6]);
}

static bool cpu_without_weights(const cpu_node *node) { return !node->out[1].present; }

static const cpu_variant cpu_attention_variants[] = {
    {"stream", cpu_run_native_attention_stream, cpu_native_attention_stream_workspace, cpu_without_weights},
    {"rows", cpu_run_native_attention_rows, cpu_native_attention_rows_workspace, cpu_without_weights},
    {"whole", cpu_run_native_attention_whole, cpu_native_attention_whole_workspace, NULL},
};

/* Up to this many queries per key head, packing the keys costs more than it saves. */
enum { CPU_ATTENTION_ROWS = 8 };

static const cpu_variant *cpu_attention_choose(const cpu_node *node)
{
    const cpu_attention *plan = &node->plan.attention;
    if (node->out[1].present) return &cpu_attention_variants[2];
    bool few = plan->g == 0 || plan->h / plan->g * plan->s <= CPU_ATTENTION_ROWS;
    return &cpu_attention_variants[few ? 1 : 0];
}

CPU_OP(SCALED_DOT_PRODUCT_ATTENTION, attention, 0, CHOICE(attention), MEMORY(reference_attention))
CPU_OP(SCALED_DOT_PRODUCT_ATTENTION_BACKWARD, attention_backward, 0, MEMORY(native_attention_backward),
       MEMORY(reference_attention_backward))
