/* Cases of the self-test: a node made smaller, and values for its operands. */
#include "runtime/selftest_internal.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/hash.h"
#include "graph/own.h"
#include "graph/work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static pco_status selftest_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the self-test");
}

typedef struct selftest_row {
    int64_t length, block;
} selftest_row;

/* A size of the node made smaller. Rows of large blocks, whatever has their length, keep one or two of the blocks. */
static int64_t selftest_size(int64_t size, int64_t cap, const selftest_row *row)
{
    if (cap == 0 || size <= cap + cap / 2) return size;
    const int64_t small = cap + size % (cap % 64 ? 32 : 64);
    if (size != row->length || small % row->block == 0) return small;
    const int64_t blocks = cap / 64 > 1 ? cap / 64 : 1;
    return blocks * row->block < size ? blocks * row->block : size;
}

/* The rows of the node's quantised operand. */
static selftest_row selftest_row_of(const pco_graph *graph, const pco_node *node)
{
    selftest_row row = {.length = -1, .block = 1};
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] == PCO_NONE) continue;
        const pco_tensor *x = &graph->tensors[node->inputs[i]];
        if (pco_dtype_is_quantised(x->dtype))
            row = (selftest_row){.length = x->shape[x->rank - 1], .block = pco_dtype_block(x->dtype)};
    }
    return row;
}

/* A copy of the attributes with shapes made smaller. */
static void selftest_attrs(const pco_op_info *info, const pco_node *node, int64_t cap, const selftest_row *row,
                           unsigned char *attrs, size_t size)
{
    pco_op_default_attrs(info, attrs);
    if (node->attrs) memcpy(attrs, node->attrs, node->attrs_size < size ? node->attrs_size : size);
    const pco_attr_info *attr;
    for (uint32_t i = 0; (attr = pco_op_attr(info, i)); i++) {
        if (attr->type != PCO_ATTR_VECTOR || (strcmp(attr->name, "shape") != 0 && strcmp(attr->name, "sizes") != 0))
            continue;
        int64_t *vector = (int64_t *)(void *)(attrs + attr->offset);
        for (int64_t k = 0; k < vector[0] && k < PCO_MAX_RANK; k++)
            vector[1 + k] = selftest_size(vector[1 + k], cap, row);
    }
}

static uint32_t selftest_operand(const pco_graph *graph, uint32_t t, int64_t cap, const selftest_row *row,
                                 pco_graph *made)
{
    static const char *const NAMES[SELFTEST_TENSORS] = {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"};
    const pco_tensor *x = &graph->tensors[t];
    const char *name = NAMES[made->n_tensors];
    uint32_t kind = graph->tensors[pco_graph_root(graph, t)].kind;
    int64_t shape[PCO_MAX_RANK];
    for (uint32_t i = 0; i < x->rank; i++) shape[i] = selftest_size(x->shape[i], cap, row);
    pco_dtype dtype = (pco_dtype)x->dtype;
    if (x->kind == PCO_KIND_CONSTANT) return pco_graph_constant(made, name, dtype, x->rank, shape, NULL);
    if (kind == PCO_KIND_STATE) return pco_graph_state(made, name, dtype, x->rank, shape);
    if (kind == PCO_KIND_VALUE) return pco_graph_value(made, name, dtype, x->rank, shape);
    return pco_graph_input(made, name, dtype, x->rank, shape);
}

pco_status selftest_case_make(const pco_graph *graph, uint32_t index, int64_t cap, selftest_case *made, pco_error *err)
{
    const pco_node *node = &graph->nodes[index];
    const pco_op_info *info = pco_node_op(node);
    union {
        int64_t align;
        unsigned char bytes[512];
    } attrs;
    uint32_t inputs[PCO_MAX_INPUTS], outputs[PCO_MAX_OUTPUTS];
    *made = (selftest_case){.graph = pco_graph_create()};
    if (!made->graph) return selftest_no_memory(err);
    const selftest_row row = selftest_row_of(graph, node);
    selftest_attrs(info, node, cap, &row, attrs.bytes, sizeof attrs.bytes);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        inputs[i] = PCO_NONE;
        for (uint32_t k = 0; k < i; k++) /* an operand that is there twice stays one tensor */
            if (node->inputs[k] == node->inputs[i]) inputs[i] = inputs[k];
        if (node->inputs[i] != PCO_NONE && inputs[i] == PCO_NONE)
            inputs[i] = selftest_operand(graph, node->inputs[i], cap, &row, made->graph);
    }
    pco_graph_add_row(made->graph, info, attrs.bytes, inputs, node->n_inputs, outputs);
    pco_status status = pco_graph_check(made->graph, err);
    if (status) {
        selftest_case_free(made);
        return status;
    }
    for (uint32_t k = 0; k < PCO_MAX_OUTPUTS; k++) {
        if (outputs[k] == PCO_NONE) continue;
        pco_tensor *y = &made->graph->tensors[outputs[k]];
        if (node->outputs[k] != PCO_NONE && graph->tensors[node->outputs[k]].alias == PCO_NONE) y->alias = PCO_NONE;
        if (y->alias == PCO_NONE) y->kind = PCO_KIND_OUTPUT;
    }
    return PCO_OK;
}

void selftest_case_free(selftest_case *one)
{
    for (uint32_t t = 0; t < SELFTEST_TENSORS; t++) free(one->data[t]);
    pco_graph_destroy(one->graph);
    *one = (selftest_case){0};
}

double selftest_case_cost(const selftest_case *one)
{
    const pco_node *node = &one->graph->nodes[0];
    const double products = pco_node_products(one->graph->tensors, node);
    return products > 0 ? products : pco_node_elements(one->graph->tensors, node);
}

uint64_t selftest_case_hash(const selftest_case *one)
{
    const pco_node *node = &one->graph->nodes[0];
    uint64_t hash = pco_hash(PCO_HASH_START, &node->op, sizeof node->op);
    const pco_operation *own = pco_node_op(node)->own; /* whose attributes begin with addresses */
    const uint64_t declared = own ? pco_operation_hash(own, node->attrs) : 0;
    if (own)
        hash = pco_hash(hash, &declared, sizeof declared);
    else if (node->attrs_size)
        hash = pco_hash(hash, node->attrs, node->attrs_size);
    hash = pco_hash(hash, node->inputs, node->n_inputs * sizeof *node->inputs);
    for (uint32_t t = 0; t < one->graph->n_tensors; t++) {
        const pco_tensor *x = &one->graph->tensors[t];
        const uint32_t facts[] = {x->dtype, x->kind, x->rank, x->alias};
        hash = pco_hash(hash, facts, sizeof facts);
        hash = pco_hash(hash, x->shape, x->rank * sizeof *x->shape);
    }
    if (one->window) hash = pco_hash(hash, &one->window, sizeof one->window);
    return hash;
}

/* ---- values ---- */

/* Bits for element i of operand k: the finaliser of splitmix64 (Steele, Lea & Flood 2014). */
static uint64_t selftest_bits(uint32_t k, uint64_t i)
{
    uint64_t z = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)(k + 1) * UINT64_C(0xd1342543de82ef95);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* A scale of the gradient too: nothing would be seen of the gradient beside 0. */
static int selftest_is_positive(uint32_t op, uint32_t k)
{
    return pco_op_domain(op, k) != PCO_DOMAIN_ANY || (op == PCO_OP_ADAMW && k == 5);
}

/* Comparisons get five numbers only, so that both answers are right somewhere. */
static int selftest_compares(uint32_t op) { return op >= PCO_OP_EQ && op <= PCO_OP_GE; }

/* Multiples of 1/8 from -2 to 2, or from 1/4 to 2 1/4: exact in every float type. Most sums of their products
 * are exact in f32, so that a right kernel is far inside the tolerance. isfinite gets NaN and infinities
 * for half of them, where the device promises to keep them (`special`). */
static void selftest_floats(const pco_op_info *info, uint32_t k, int64_t count, int special, float *out)
{
    const uint32_t op = (uint32_t)info->op;
    const int positive = selftest_is_positive(op, k);
    const pco_op_range *range = pco_op_range_of(info, k); /* 32 steps of it */
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = selftest_bits(k, (uint64_t)i) >> 20;
        if (range)
            out[i] = (float)(range->low + (range->high - range->low) * (double)(bits % 33) / 32);
        else if (op == PCO_OP_ISFINITE && special && bits % 2 == 0)
            out[i] = bits & 2 ? NAN : bits & 4 ? INFINITY : -INFINITY;
        else if (selftest_compares(op))
            out[i] = (float)((int)(bits % 5) - 2) * 0.875f;
        else
            out[i] = positive ? (float)(bits % 17 + 2) / 8 : (float)((int)(bits % 33) - 16) / 8;
    }
}

/* What i32 operand k of the node may hold: low .. low + span - 1; span 0: all 32 bits. */
static void selftest_range(const selftest_case *one, uint32_t k, int64_t *low, int64_t *span)
{
    enum { POSITIONS = 1000 };
    const pco_node *node = &one->graph->nodes[0];
    const pco_domain domain = pco_op_domain(node->op, k);
    *low = selftest_compares(node->op) ? -2 : -100;
    *span = selftest_compares(node->op) ? 5 : 201;
    if (PCO_OP_IS_OWN(node->op)) {
        const pco_op_range *range = pco_op_range_of(pco_node_op(node), k);
        *low = range ? (int64_t)ceil(range->low) : 0;
        *span = range ? (int64_t)floor(range->high) - *low + 1 : 1;
    } else if (domain == PCO_DOMAIN_BITS) {
        *span = 0;
    } else if (domain != PCO_DOMAIN_ANY) {
        const pco_whole_numbers range = pco_node_whole_numbers(one->graph->tensors, node, k);
        *low = range.low;
        *span = range.high - range.low + 1;
        if (domain == PCO_DOMAIN_POSITION && *span > POSITIONS) *span = POSITIONS;
    }
}

/* The operand that counts keys (of attention), or PCO_NONE. */
static uint32_t selftest_lengths(const pco_node *node)
{
    for (uint32_t k = 0; k < node->n_inputs; k++)
        if (pco_op_domain(node->op, k) == PCO_DOMAIN_LENGTH) return k;
    return PCO_NONE;
}

/* Lengths: a few keys less than there are. Positions beside them: so that the last query is the last of them. */
static void selftest_keys(const selftest_case *one, uint32_t lengths, uint32_t k, int64_t count, int32_t *out)
{
    const pco_node *node = &one->graph->nodes[0];
    const int64_t keys = pco_node_whole_numbers(one->graph->tensors, node, lengths).high;
    const int64_t behind = k == lengths ? 0 : keys - pco_node_whole_numbers(one->graph->tensors, node, k).high;
    for (int64_t i = 0; i < count; i++) {
        const int64_t length = keys - (keys / 8 + i) % (keys ? keys : 1);
        out[i] = (int32_t)(length > behind ? length - behind : 0);
    }
}

static void selftest_integers(const selftest_case *one, uint32_t k, int64_t count, int32_t *out)
{
    const uint32_t lengths = selftest_lengths(&one->graph->nodes[0]);
    int64_t low, span;
    if (lengths != PCO_NONE) {
        selftest_keys(one, lengths, k, count, out);
        return;
    }
    selftest_range(one, k, &low, &span);
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = selftest_bits(k, (uint64_t)i) >> 8;
        out[i] = span > 0 ? (int32_t)(low + (int64_t)(bits % (uint64_t)span)) : span < 0 ? 0 : (int32_t)(uint32_t)bits;
    }
}

static pco_status selftest_fill_one(selftest_case *one, uint32_t k, uint32_t t, int special, pco_error *err)
{
    pco_tensor *x = &one->graph->tensors[t];
    const int64_t count = pco_tensor_elements(x);
    pco_status status = PCO_OK;
    if (!(one->data[t] = calloc(1, x->bytes + 8))) return selftest_no_memory(err);
    if (x->dtype == PCO_I32) {
        selftest_integers(one, k, count, one->data[t]);
    } else if (x->dtype == PCO_BOOL) {
        for (int64_t i = 0; i < count; i++)
            ((unsigned char *)one->data[t])[i] = (selftest_bits(k, (uint64_t)i) >> 20) % 4 != 0;
    } else {
        float *values = malloc(((size_t)count + 1) * sizeof *values);
        if (!values) return selftest_no_memory(err);
        selftest_floats(pco_node_op(&one->graph->nodes[0]), k, count, special, values);
        status = pco_dtype_from_f32(x->dtype, values, count, one->data[t], err);
        free(values);
    }
    if (x->kind == PCO_KIND_CONSTANT) x->data = one->data[t];
    return status;
}

pco_status selftest_case_fill(selftest_case *one, int special, pco_error *err)
{
    const pco_node *node = &one->graph->nodes[0];
    pco_status status = PCO_OK;
    for (uint32_t k = 0; !status && k < node->n_inputs; k++)
        if (node->inputs[k] != PCO_NONE && !one->data[node->inputs[k]])
            status = selftest_fill_one(one, k, node->inputs[k], special, err);
    return status;
}
