/* norm_matmul. On cpu:native the two ops whose name it has, one behind the other, so that it has their bits: what the
 * product reads lies in the workspace. */
#include "matmul.h"
#include "norm.h"

extern const cpu_op cpu_op_LAYER_NORM, cpu_op_RMS_NORM, cpu_op_MATMUL;

typedef struct cpu_norm_matmul {
    cpu_node norm, product;
    const cpu_variant *norm_variant, *product_variant;
} cpu_norm_matmul;

static uint64_t cpu_variant_bytes(const cpu_variant *variant, const cpu_node *node)
{
    return variant->workspace ? cpu_round64(variant->workspace(node)) : 0;
}

/* A node of another op on the same device, without operands. */
static cpu_node cpu_norm_matmul_node(const cpu_node *node, const cpu_op *op)
{
    return (cpu_node){.op = op,
                      .device = node->device,
                      .kernels = node->kernels,
                      .name = node->name,
                      .index = node->index,
                      .n_outputs = 1};
}

/* The node of the norm, whose result is not yet anywhere. */
static cpu_node cpu_norm_matmul_norm(const cpu_node *node)
{
    const pco_norm_matmul_attrs *attrs = &node->attrs.norm_matmul;
    const bool layer = attrs->norm != 0;
    cpu_node norm = cpu_norm_matmul_node(node, layer ? &cpu_op_LAYER_NORM : &cpu_op_RMS_NORM);
    norm.in[0] = norm.out[0] = node->in[0];
    norm.out[0].data = NULL;
    norm.in[1] = node->in[3];
    norm.in[2] = node->in[4];
    norm.n_inputs = layer ? 3 : 2;
    if (layer)
        norm.attrs.layer_norm = (pco_layer_norm_attrs){.eps = attrs->eps};
    else
        norm.attrs.rms_norm = (pco_rms_norm_attrs){.eps = attrs->eps};
    norm.op->parse(&norm);
    return norm;
}

/* The two nodes, and what they need of the workspace besides the norm's result, which begins it. */
static uint64_t cpu_norm_matmul_divide(const cpu_node *node, cpu_norm_matmul *both)
{
    const pco_norm_matmul_attrs *attrs = &node->attrs.norm_matmul;
    cpu_node *norm = &both->norm, *product = &both->product;
    *norm = cpu_norm_matmul_norm(node);
    norm->out[0].data = node->workspace;
    *product = cpu_norm_matmul_node(node, &cpu_op_MATMUL);
    product->in[0] = norm->out[0];
    product->in[1] = node->in[1];
    product->in[2] = node->in[2];
    product->n_inputs = 3;
    product->out[0] = node->out[0];
    product->attrs.matmul =
        (pco_matmul_attrs){.transpose_b = 1, .activation = attrs->activation, .accumulate = PCO_F32, .dtype = PCO_F32};
    product->op->parse(product);
    both->norm_variant = &norm->op->native[0];
    both->product_variant = product->op->choose(product);
    const uint64_t rows = cpu_round64((uint64_t)norm->out[0].count * 4);
    if (node->workspace) norm->workspace = product->workspace = node->workspace + rows;
    norm->workspace_bytes = cpu_variant_bytes(both->norm_variant, norm);
    product->workspace_bytes = cpu_variant_bytes(both->product_variant, product);
    return rows + (uint64_t)cpu_max((int64_t)norm->workspace_bytes, (int64_t)product->workspace_bytes);
}

static CPU_WORKSPACE(native_norm_matmul)
{
    cpu_norm_matmul both;
    return cpu_norm_matmul_divide(node, &both);
}

static CPU_RUN(native_norm_matmul)
{
    cpu_norm_matmul both;
    cpu_norm_matmul_divide(node, &both);
    both.norm_variant->run(&both.norm);
    both.product_variant->run(&both.product);
}

/* ---- cpu:reference ---- */

CPU_REFERENCE_BEGIN

/* A row of norm(x) in double, for each worker. */
static CPU_WORKSPACE(reference_norm_matmul)
{
    return node->device->threads * cpu_round64((uint64_t)node->plan.axis.n * 8);
}

static void cpu_reference_norm_matmul_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_tensor *b = &node->in[1], *bias = &node->in[2], *y = &node->out[0];
    const int64_t k = node->plan.axis.n, columns = b->shape[0];
    const cpu_node norm = cpu_norm_matmul_norm(node);
    double *row = (double *)(void *)cpu_worker_memory(node, worker);
    for (int64_t m = begin; m < end; m++) {
        const cpu_norm_row moments = cpu_reference_norm_row(&norm, m);
        for (int64_t i = 0; i < k; i++) row[i] = cpu_reference_normal(&norm, m, i, moments);
        for (int64_t n = 0; n < columns; n++) {
            double sum = 0;
            for (int64_t i = 0; i < k; i++) sum += row[i] * cpu_load_f64(b->dtype, b->data, n * k + i);
            if (bias->present) sum += cpu_load_f64(bias->dtype, bias->data, n);
            sum = cpu_reference_activation(node->attrs.norm_matmul.activation, sum);
            cpu_store_f64(y->dtype, y->data, m * columns + n, sum);
        }
    }
}

static CPU_RUN(reference_norm_matmul)
{
    const cpu_tensor *b = &node->in[1];
    if (node->out[0].count == 0) return;
    cpu_parallel(node, node->plan.axis.outer, cpu_grain(b->count), cpu_reference_norm_matmul_slice);
}

CPU_REFERENCE_END

CPU_OP(NORM_MATMUL, rows, 0, MEMORY(native_norm_matmul), MEMORY(reference_norm_matmul))
