/* Outputs, and products, of attention and of its gradients. */
#include "graph/graph.h"
#include "graph/infer_parts.h"
#include "graph/work.h"

#include <inttypes.h>
#include <string.h>

/* Sizes of an attention: from the layouts of query, key and value. */
typedef struct attention_sizes {
    int64_t batch, heads, rows, keys, groups, depth, value_depth;
} attention_sizes;

static pco_status infer_attention_sizes(pco_shape_context *context, int64_t heads_first, attention_sizes *z,
                                        pco_error *err)
{
    const pco_tensor *q = INPUT(0), *k = INPUT(1), *v = INPUT(2);
    char left[128], right[128];
    if (q->rank != 4 || k->rank != 4 || v->rank != 4) FAIL("query, key and value need 4 dimensions each");
    int head = heads_first ? 1 : 2, row = heads_first ? 2 : 1;
    *z = (attention_sizes){q->shape[0],    q->shape[head], q->shape[row], k->shape[row],
                           k->shape[head], q->shape[3],    v->shape[3]};
    if (k->shape[0] != z->batch || k->shape[3] != z->depth)
        FAIL("query '%s' %s and key '%s' %s differ in batch or head size", q->name, pco_tensor_shape_text(q, left),
             k->name, pco_tensor_shape_text(k, right));
    if (v->shape[0] != z->batch || v->shape[head] != z->groups || v->shape[row] != z->keys)
        FAIL("key '%s' %s and value '%s' %s differ in batch, heads or length", k->name, pco_tensor_shape_text(k, left),
             v->name, pco_tensor_shape_text(v, right));
    if (z->groups == 0 ? z->heads != 0 : z->heads % z->groups != 0)
        FAIL("%" PRId64 " query heads are no multiple of %" PRId64 " key heads", z->heads, z->groups);
    if (z->depth == 0) FAIL("query '%s' %s has head size 0", q->name, pco_tensor_shape_text(q, left));
    return PCO_OK;
}

/* What says which keys are seen: mask, lengths, starts. */
static pco_status infer_attention_masks(pco_shape_context *context, const attention_sizes *z, pco_error *err)
{
    const pco_tensor *mask = context->n_inputs > 3 ? INPUT(3) : NULL;
    char text[128];
    const int64_t full[4] = {z->batch, z->heads, z->rows, z->keys};
    if (mask) {
        int fits = mask->rank == 4;
        for (uint32_t i = 0; fits && i < 4; i++) fits = mask->shape[i] == full[i] || mask->shape[i] == 1;
        if (!fits)
            FAIL("mask '%s' has shape %s, and must fit [%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", mask->name,
                 pco_tensor_shape_text(mask, text), full[0], full[1], full[2], full[3]);
    }
    for (uint32_t i = 4; i < 6 && i < context->n_inputs; i++)
        if (INPUT(i) && INPUT(i)->shape[0] != z->batch)
            FAIL("'%s' has shape %s, and must have [%" PRId64 "]", INPUT(i)->name,
                 pco_tensor_shape_text(INPUT(i), text), z->batch);
    return PCO_OK;
}

PCO_INFER(attention)
{
    ATTRS(scaled_dot_product_attention);
    attention_sizes z;
    pco_status status = infer_attention_sizes(context, attrs->heads_first, &z, err);
    if (!status) status = infer_attention_masks(context, &z, err);
    if (status) return status;
    const int64_t full[4] = {z.batch, z.heads, z.rows, z.keys};
    if (attrs->window < 0 || attrs->softcap < 0) FAIL("window and softcap cannot be below 0");
    infer_like(context, 0, INPUT(0));
    context->outputs[0].shape[3] = z.value_depth;
    if (attrs->weights) {
        context->n_outputs = 2;
        context->outputs[1].dtype = INPUT(0)->dtype;
        context->outputs[1].rank = 4;
        memcpy(context->outputs[1].shape, full, sizeof full);
    }
    return PCO_OK;
}

PCO_INFER(attention_backward)
{
    ATTRS(scaled_dot_product_attention_backward);
    attention_sizes z;
    pco_status status = infer_attention_sizes(context, attrs->heads_first, &z, err);
    if (!status) status = infer_attention_masks(context, &z, err);
    if (status) return status;
    const pco_tensor *gradient = INPUT(6);
    char text[128];
    int fits = gradient->rank == 4 && gradient->shape[3] == z.value_depth &&
               memcmp(gradient->shape, INPUT(0)->shape, 3 * sizeof(int64_t)) == 0;
    if (!fits)
        FAIL("gradient '%s' has shape %s, and must have that of the attention's result", gradient->name,
             pco_tensor_shape_text(gradient, text));
    if (attrs->window < 0) FAIL("window cannot be below 0");
    for (uint32_t i = 0; i < 3; i++) infer_like(context, i, INPUT(i));
    return PCO_OK;
}

/* So many products of the scores' shape over the depth of keys, and over that of values. */
static double products_scores(const pco_tensor *tensors, const pco_node *node, int heads_first, int keys, int values)
{
    const pco_tensor *query = pco_work_input(tensors, node, 0), *key = pco_work_input(tensors, node, 1);
    const double scores =
        (double)(query->shape[0] * query->shape[1] * query->shape[2]) * (double)key->shape[heads_first ? 2 : 1];
    return scores * (keys * (double)query->shape[3] + values * (double)pco_work_input(tensors, node, 2)->shape[3]);
}

PCO_PRODUCTS(attention)
{
    const pco_scaled_dot_product_attention_attrs *attrs = node->attrs;
    return products_scores(tensors, node, attrs->heads_first != 0, 1, 1);
}

PCO_PRODUCTS(attention_backward)
{
    const pco_scaled_dot_product_attention_backward_attrs *attrs = node->attrs;
    return products_scores(tensors, node, attrs->heads_first != 0, 3, 2);
}
