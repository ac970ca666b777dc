#include "parse.h"

/* a [..,M,K] (or [..,K,M]) and b [..,K,N] (or [..,N,K]) without looking at leading dimensions. */
static pco_status cpu_matmul_sizes(cpu_node *node, cpu_matmul *plan, pco_error *err)
{
    const cpu_tensor *a = &node->in[0], *b = &node->in[1];
    const pco_matmul_attrs *attrs = &node->attrs.matmul;
    if (a->rank < 2 || b->rank < 2) return cpu_invalid(node, err, "a and b have at least two dimensions");
    int64_t a0 = a->shape[a->rank - 2], a1 = a->shape[a->rank - 1];
    int64_t b0 = b->shape[b->rank - 2], b1 = b->shape[b->rank - 1];
    bool ta = attrs->transpose_a != 0, tb = attrs->transpose_b != 0;
    plan->m = ta ? a1 : a0;
    plan->k = ta ? a0 : a1;
    plan->n = tb ? b0 : b1;
    plan->a_row = ta ? 1 : a1;
    plan->a_k = ta ? a1 : 1;
    plan->b_by_rows = tb;
    if ((tb ? b1 : b0) != plan->k)
        return cpu_invalid(node, err, "a has %lld columns and b %lld rows", (long long)plan->k,
                           (long long)(tb ? b1 : b0));
    if (cpu_is_quantised(b->dtype) && (!tb || b->rank != 2))
        return cpu_invalid(node, err, "quantised b is [N,K] with transpose_b = 1");
    return PCO_OK;
}

static pco_status cpu_matmul_operands(const cpu_node *node, const cpu_matmul *plan, pco_error *err)
{
    const cpu_tensor *y = &node->out[0], *bias = &node->in[2], *c = &node->in[3];
    const pco_matmul_attrs *attrs = &node->attrs.matmul;
    int64_t dtype = attrs->dtype == -1 ? node->in[0].dtype : attrs->dtype;
    if (dtype != (int64_t)y->dtype || !cpu_is_float(y->dtype))
        return cpu_invalid(node, err, "dtype does not say the type of the output");
    if (bias->present && (bias->rank != 1 || bias->count != plan->n))
        return cpu_invalid(node, err, "bias is not [%lld]", (long long)plan->n);
    if (c->present && !cpu_same_shape(c, y)) return cpu_invalid(node, err, "c and output differ in shape");
    if (attrs->activation < 0 || attrs->activation >= CPU_ACT_COUNT)
        return cpu_invalid(node, err, "activation is %lld", (long long)attrs->activation);
    if (attrs->accumulate != PCO_F32 && attrs->accumulate != PCO_F16)
        return cpu_invalid(node, err, "accumulate is %lld", (long long)attrs->accumulate);
    return PCO_OK;
}

CPU_PARSE(matmul)
{
    const cpu_tensor *a = &node->in[0], *b = &node->in[1], *y = &node->out[0];
    cpu_matmul *plan = &node->plan.matmul;
    pco_status status = cpu_matmul_sizes(node, plan, err);
    if (!status) status = cpu_matmul_operands(node, plan, err);
    if (status) return status;
    if (y->rank < 2 || y->rank != (a->rank > b->rank ? a->rank : b->rank) || y->shape[y->rank - 2] != plan->m ||
        y->shape[y->rank - 1] != plan->n)
        return cpu_invalid(node, err, "the output is not [..,%lld,%lld]", (long long)plan->m, (long long)plan->n);
    cpu_walk walk;
    cpu_walk_init(&walk, y->rank - 2, y->shape, 2);
    if (!cpu_walk_broadcast(&walk, 0, a->rank - 2, a->shape) || !cpu_walk_broadcast(&walk, 1, b->rank - 2, b->shape))
        return cpu_invalid(node, err, "leading dimensions do not broadcast to the output");
    cpu_walk_merge(&walk);
    plan->batches = walk.count;
    /* Under one b, batches are more rows. */
    bool one_b = true;
    for (int i = 0; i < walk.rank; i++)
        if (walk.shape[i] != 1 && walk.stride[1][i] != 0) one_b = false;
    if (one_b && walk.linear[0] && plan->a_k == 1) {
        plan->m *= plan->batches;
        plan->batches = 1;
        cpu_walk_init(&walk, 0, NULL, 2);
        cpu_walk_merge(&walk);
    }
    plan->batch_rank = walk.rank;
    for (int i = 0; i < walk.rank; i++) {
        plan->batch_shape[i] = walk.shape[i];
        plan->a_batch[i] = walk.stride[0][i] * cpu_product(a->shape, (int)a->rank - 2, (int)a->rank);
        plan->b_batch[i] = walk.stride[1][i] * cpu_product(b->shape, (int)b->rank - 2, (int)b->rank);
    }
    return PCO_OK;
}

CPU_PARSE(conv1d)
{
    const cpu_tensor *x = &node->in[0], *weight = &node->in[1], *bias = &node->in[2], *y = &node->out[0];
    const pco_conv1d_attrs *attrs = &node->attrs.conv1d;
    cpu_conv1d *plan = &node->plan.conv1d;
    if (x->rank < 2 || weight->rank != 3 || y->rank != x->rank)
        return cpu_invalid(node, err, "x and y have two dimensions or more, and weight three");
    const int rank = (int)x->rank;
    *plan = (cpu_conv1d){.n = cpu_product(x->shape, 0, rank - 2),
                         .c = x->shape[rank - 2],
                         .l = x->shape[rank - 1],
                         .o = weight->shape[0],
                         .k = weight->shape[2],
                         .m = y->shape[rank - 1],
                         .groups = attrs->groups};
    if (attrs->stride < 1 || attrs->dilation < 1 || attrs->padding < 0 || attrs->groups < 1 || plan->k < 1 ||
        plan->c % attrs->groups || plan->o % attrs->groups || weight->shape[1] * attrs->groups != plan->c)
        return cpu_invalid(node, err, "the attributes do not go with the shapes");
    const int64_t last = (plan->m - 1) * attrs->stride + (plan->k - 1) * attrs->dilation;
    cpu_tensor want = *x;
    want.shape[rank - 2] = plan->o;
    want.shape[rank - 1] = plan->m;
    if (!cpu_same_shape(&want, y) || plan->m < 1 || last >= plan->l + 2 * attrs->padding)
        return cpu_invalid(node, err, "the output has another shape");
    if (bias->present && bias->count != plan->o)
        return cpu_invalid(node, err, "bias is not [%lld]", (long long)plan->o);
    return PCO_OK;
}
