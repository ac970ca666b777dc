/* Shapes one below, at and above every edge that the device's kernels have (pco_device_info.edges): each
 * dimension of a kernel that is cut into tiles, lanes or blocks, in each float type. In the longer tiers. */
#include "cases/lists.h"

#include "base/dtype.h"
#include "graph/op.h"

enum { LARGEST = 4096 }; /* elements of a dimension: the oracle is slow */

/* Along the last dimension, where that is for the attributes to say. */
static void conf_edge_axes(conf_case *one, const pco_op_info *info)
{
    const pco_attr_info *attr;
    for (uint32_t i = 0; (attr = pco_op_attr(info, i)) != NULL; i++) {
        if (!attr->is_axis || attr->type != PCO_ATTR_VECTOR) continue;
        int64_t *axes = (int64_t *)(void *)(one->attrs.bytes + attr->offset);
        axes[0] = conf_cases_vector(axes + 1, "1");
    }
}

static void conf_edge_rows(conf_cases_context *context, pco_op op, uint32_t type, int size)
{
    const pco_op_info *info = pco_op_find(op);
    const bool norm = info->rows == PCO_ROWS_LAST, composite = info->bound == PCO_BOUND_COMPOSITE;
    conf_case *one = conf_cases_begin(context, op, composite || size % 2 ? CONF_RANDOM : CONF_EXACT);
    conf_cases_in(one, type, "3,%d", size);
    if (norm) conf_cases_in(one, type, "%d", size);
    conf_edge_axes(one, info);
    if (!(op == PCO_OP_LAYER_NORM && size == 1)) conf_cases_emit(context);
    if (norm || size > 300) return;
    one = conf_cases_begin(context, op, CONF_RANDOM); /* so many rows, and a column in the middle */
    conf_cases_in(one, type, "%d,3", size);
    conf_edge_axes(one, info);
    conf_cases_emit(context);
}

/* Columns and terms; x is f32. */
static void conf_edge_norm_matmul(conf_cases_context *context, uint32_t weights, int size)
{
    for (int d = 0; d < 2; d++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_NORM_MATMUL, CONF_RANDOM);
        conf_cases_in(one, PCO_F32, "2,%d", d ? size : 40);
        conf_cases_in(one, weights, "%d,%d", d ? 5 : size, d ? size : 40);
        conf_cases_emit(context);
    }
}

static void conf_edge_elements(conf_cases_context *context, pco_op op, uint32_t type, int size)
{
    conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
    conf_cases_in(one, type, "%d", size);
    if (op == PCO_OP_ADD || op == PCO_OP_MUL || op == PCO_OP_SWIGLU) conf_cases_in(one, type, "%d", size);
    conf_cases_emit(context);
}

static void conf_edge_matmul(conf_cases_context *context, uint32_t type, uint32_t weights, int size)
{
    for (int d = 0; d < 3; d++) {
        const bool blocks = pco_dtype_is_quantised(weights);
        const int m = d == 0 ? size : 5, n = d == 1 ? size : 9, k = conf_cases_blocks(d == 2 ? size : 32, weights);
        conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM);
        pco_matmul_attrs *attrs = (pco_matmul_attrs *)one->attrs.bytes;
        attrs->transpose_b = blocks || size % 2;
        conf_cases_in(one, type, "%d,%d", m, k);
        conf_cases_in(one, weights, "%d,%d", attrs->transpose_b ? n : k, attrs->transpose_b ? k : n)->constant = blocks;
        conf_cases_emit(context);
    }
}

/* Queries, keys and depth. */
static void conf_edge_attention(conf_cases_context *context, pco_op op, uint32_t type, int size)
{
    for (int d = 0; d < 3; d++) {
        if (d == 2 && size > 128) continue;
        int s = d == 0 ? size : 3, t = d == 1 ? size : d == 0 ? 9 : 17, depth = d == 2 ? size : 8;
        if (s * t > 5000) continue;
        bool back = op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD;
        conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
        if (back)
            ((pco_scaled_dot_product_attention_backward_attrs *)one->attrs.bytes)->heads_first = size % 2;
        else
            ((pco_scaled_dot_product_attention_attrs *)one->attrs.bytes)->heads_first = size % 2;
        char shape[2][32];
        snprintf(shape[0], sizeof shape[0], size % 2 ? "1,2,%d,%d" : "1,%d,2,%d", s, depth);
        snprintf(shape[1], sizeof shape[1], size % 2 ? "1,2,%d,%d" : "1,%d,2,%d", t, depth);
        conf_cases_in(one, type, "%s", shape[0]);
        conf_cases_in(one, type, "%s", shape[1]);
        conf_cases_in(one, type, "%s", shape[1]);
        while (back && one->n_inputs < 6) conf_cases_absent(one);
        if (back) conf_cases_in(one, type, "%s", shape[0]);
        conf_cases_emit(context);
    }
}

static void conf_edge_size(conf_cases_context *context, pco_op op, uint32_t type, int size)
{
    const pco_rows_rule rows = pco_op_find(op)->rows;
    if (op == PCO_OP_NORM_MATMUL) {
        conf_edge_norm_matmul(context, type, size);
        return;
    }
    if (rows == PCO_ROWS_AXIS || rows == PCO_ROWS_LAST) {
        conf_edge_rows(context, op, type, size);
        return;
    }
    switch (op) { /* one of each form of kernel */
    case PCO_OP_NEG:
    case PCO_OP_EXP:
    case PCO_OP_GELU:
    case PCO_OP_ADD:
    case PCO_OP_MUL:
    case PCO_OP_SWIGLU: conf_edge_elements(context, op, type, size); break;
    case PCO_OP_MATMUL:
        conf_edge_matmul(context, type, type, size);
        for (uint32_t q = 0; type == PCO_F32 && q < CASES_N_QUANTISED; q++)
            conf_edge_matmul(context, type, CASES_QUANTISED[q], size);
        break;
    case PCO_OP_SCALED_DOT_PRODUCT_ATTENTION:
    case PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD: conf_edge_attention(context, op, type, size); break;
    default: break;
    }
}

void conf_cases_edges(conf_cases_context *context, pco_op op)
{
    for (uint32_t t = 0; t < 3 && conf_cases_standard(context); t++)
        for (uint32_t e = 0; e < context->n_edges; e++)
            for (int beside = -1; beside <= 1; beside++) {
                int64_t size = (int64_t)context->edges[e] + beside;
                if (size > 0 && size <= LARGEST) conf_edge_size(context, op, CASES_FLOATS[t], (int)size);
            }
}

/* ---- large tensors ---- */

enum { ROW = 4096 }; /* elements */

/* So many rows of ROW elements. */
static void conf_large_one(conf_cases_context *context, pco_op op, uint32_t type, int64_t rows)
{
    conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
    double list[] = {(double)rows - 1, 0, 1, (double)rows / 2, (double)rows - 2, 65535, 65536, 65537};
    one->large = true;
    if (op == PCO_OP_MATMUL) { /* a result per row */
        conf_cases_in(one, type, "3,%d", ROW);
        ((pco_matmul_attrs *)one->attrs.bytes)->transpose_b = 1;
    }
    conf_cases_in(one, type, "%lld,%d", (long long)rows, ROW);
    if (op == PCO_OP_GATHER) {
        for (int i = 3; i < 8; i++) list[i] = (double)(int64_t)(list[i] < rows ? list[i] : rows - 1);
        conf_cases_list(conf_cases_in(one, PCO_I32, "8"), 8, list);
    }
    if (op == PCO_OP_SUM) {
        pco_sum_attrs *attrs = (pco_sum_attrs *)one->attrs.bytes;
        attrs->n_axes = conf_cases_vector(attrs->axes, "1");
    }
    conf_cases_emit(context);
}

/* Beyond 2^31 bytes, and beyond what a kernel sees through one argument, where that is less. */
void conf_cases_large(conf_cases_context *context, pco_op op)
{
    bool has =
        op == PCO_OP_NEG || op == PCO_OP_SOFTMAX || op == PCO_OP_SUM || op == PCO_OP_MATMUL || op == PCO_OP_GATHER;
    if (!has || context->tier != PCO_CONFORMANCE_FULL) return;
    uint32_t type = op == PCO_OP_SOFTMAX ? PCO_F16 : PCO_F32;
    int64_t row = type == PCO_F16 ? 2 * ROW : 4 * ROW;
    conf_large_one(context, op, type, ((int64_t)1 << 31) / row + 3);
    if (context->binding && context->binding < (uint64_t)1 << 31)
        conf_large_one(context, op, type, (int64_t)context->binding / row + 3);
}
