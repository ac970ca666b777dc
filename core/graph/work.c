/* Rows, products and bytes of a node. */
#include "graph/work.h"
#include "graph/graph.h"
#include "graph/op_signature.h"

#include <string.h>

/* ---- rows ---- */

pco_node_rows pco_node_rows_whole(void)
{
    pco_node_rows rows = {.n = 0};
    for (int i = 0; i < PCO_MAX_INPUTS; i++) rows.in[i] = PCO_ROWS_WHOLE;
    for (int i = 0; i < PCO_MAX_OUTPUTS; i++) rows.out[i] = PCO_ROWS_WHOLE;
    return rows;
}

/* Operand 0, of at least so many dimensions, and all results along the first one. */
static pco_node_rows work_first(const pco_tensor *tensors, const pco_node *node, uint32_t rank)
{
    pco_node_rows rows = pco_node_rows_whole();
    const pco_tensor *x = pco_work_input(tensors, node, 0);
    if (!x || x->rank < rank) return rows;
    rows.n = x->shape[0];
    rows.in[0] = 0;
    for (uint32_t i = 0; i < node->n_outputs; i++) rows.out[i] = 0;
    return rows;
}

/* All operands that have the result's first dimension. */
static pco_node_rows work_elements(const pco_tensor *tensors, const pco_node *node)
{
    pco_node_rows rows = pco_node_rows_whole();
    const pco_tensor *y = pco_work_output(tensors, node, 0), *x;
    if (y->rank < 2) return rows;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if ((x = pco_work_input(tensors, node, i)) && x->rank == y->rank && x->shape[0] == y->shape[0]) rows.in[i] = 0;
    rows.n = y->shape[0];
    rows.out[0] = 0;
    return rows;
}

/* Does the signature give operand i the dimensions [B] or [@]: of the batch, or whatever the op looks at? */
static int work_of_batch(const pco_op_info *op, uint32_t i)
{
    pco_signature_reader reader = {.at = op->signature};
    pco_signature_operand operand;
    while (pco_signature_next_input(&reader, &operand))
        if (operand.index == i) return operand.is_free || !strcmp(operand.sizes, "B");
    return 0;
}

static pco_node_rows work_sequences(const pco_tensor *tensors, const pco_node *node, const pco_op_info *op)
{
    pco_node_rows rows = work_first(tensors, node, 2); /* one of one dimension is a row, not a batch of them */
    const pco_tensor *x;
    for (uint32_t i = 1; i < node->n_inputs; i++)
        if ((x = pco_work_input(tensors, node, i)) && work_of_batch(op, i) && x->shape[0] == rows.n) rows.in[i] = 0;
    return rows;
}

/* Rows of a (columns where it is transposed), of c and of the result. */
static pco_node_rows work_matmul(const pco_tensor *tensors, const pco_node *node)
{
    pco_node_rows rows = pco_node_rows_whole();
    const pco_matmul_attrs *attrs = node->attrs;
    const pco_tensor *a = pco_work_input(tensors, node, 0), *c = pco_work_input(tensors, node, 3),
                     *y = pco_work_output(tensors, node, 0);
    rows.in[0] = (int)a->rank - (attrs->transpose_a ? 1 : 2);
    rows.out[0] = (int)y->rank - 2;
    rows.n = y->shape[y->rank - 2];
    if (c && c->rank >= 2 && c->shape[c->rank - 2] == rows.n) rows.in[3] = (int)c->rank - 2;
    return rows;
}

pco_node_rows pco_node_rows_by(pco_rows_rule rule, const pco_tensor *tensors, const pco_node *node)
{
    const pco_op_info *op = pco_node_op(node);
    const pco_tensor *x = pco_work_input(tensors, node, 0);
    switch (rule) {
    case PCO_ROWS_ELEMENTS: return work_elements(tensors, node);
    case PCO_ROWS_LAST: return work_first(tensors, node, 2);
    case PCO_ROWS_SAMPLES: return work_first(tensors, node, 3);
    case PCO_ROWS_SEQUENCES: return work_sequences(tensors, node, op);
    case PCO_ROWS_MATMUL: return work_matmul(tensors, node);
    case PCO_ROWS_AXIS: {
        const uint32_t axes = pco_op_axes(op, node->attrs, x->rank);
        return !axes || (axes & 1) ? pco_node_rows_whole() : work_first(tensors, node, 2);
    }
    default: return pco_node_rows_whole();
    }
}

pco_node_rows pco_node_rows_of(const pco_tensor *tensors, const pco_node *node)
{
    return pco_node_rows_by(pco_node_op(node)->rows, tensors, node);
}

/* ---- products ---- */

pco_products_fn *pco_op_products(uint32_t op)
{
    static const struct {
        uint32_t op;
        pco_products_fn *products;
    } ROWS[] = {
#define NONE NULL
#define PCO_OP(id, upper, name, family, signature, types, infer, split, decomposition, gradient, bound, rows, \
               products_, ...) \
    {PCO_OP_##upper, products_},
#include "graph/ops.def"
#undef NONE
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (ROWS[i].op == op) return ROWS[i].products;
    return NULL;
}

double pco_node_products(const pco_tensor *tensors, const pco_node *node)
{
    pco_products_fn *products = pco_op_products(node->op);
    return products ? products(tensors, node) : 0;
}

double pco_node_terms(const pco_tensor *tensors, const pco_node *node)
{
    const pco_op_info *op = pco_node_op(node);
    const pco_tensor *x = pco_work_input(tensors, node, 0), *y = pco_work_output(tensors, node, 0);
    double terms = 1;
    if (pco_op_products(node->op) && op->bound == PCO_BOUND_SUM)
        return pco_tensor_elements(y) ? pco_node_products(tensors, node) / (double)pco_tensor_elements(y) : 1;
    if (op->rows == PCO_ROWS_AXIS) {
        const uint32_t axes = pco_op_axes(op, node->attrs, x->rank);
        for (uint32_t d = 0; d < x->rank; d++)
            if (axes >> d & 1) terms *= (double)x->shape[d];
        return terms > 1 ? terms : 1;
    }
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++) {
        const pco_tensor *t =
            i < node->n_inputs ? pco_work_input(tensors, node, i) : pco_work_output(tensors, node, i - node->n_inputs);
        for (uint32_t d = 0; t && d < t->rank; d++)
            if ((double)t->shape[d] > terms) terms = (double)t->shape[d];
    }
    return terms;
}

/* ---- operands ---- */

/* A whole attribute of the node's op; 0 where it has none of that name. */
static int64_t work_attribute(const pco_node *node, const char *name)
{
    const pco_attr_info *attr;
    for (uint32_t i = 0; (attr = pco_op_attr(pco_node_op(node), i)); i++)
        if (strcmp(attr->name, name) == 0) return *(const int64_t *)((const char *)node->attrs + attr->offset);
    return 0;
}

/* Size of the dimension of x that the op's axis names. */
static int64_t work_axis(const pco_node *node, const pco_tensor *x)
{
    const uint32_t axes = pco_op_axes(pco_node_op(node), node->attrs, x->rank);
    for (uint32_t d = 0; d < x->rank; d++)
        if (axes >> d & 1) return x->shape[d];
    return 1;
}

/* Rows of an operand of attention. */
static int64_t work_attention_rows(const pco_tensor *tensors, const pco_node *node, uint32_t input)
{
    return pco_work_input(tensors, node, input)->shape[work_attribute(node, "heads_first") ? 2 : 1];
}

/* The last position that the first query may have, so that the last query is at the last key (attention, which counts
 * keys); of others any. */
static int64_t work_positions(const pco_tensor *tensors, const pco_node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (pco_op_domain(node->op, i) != PCO_DOMAIN_LENGTH) continue;
        const int64_t room = work_attention_rows(tensors, node, 1) - work_attention_rows(tensors, node, 0);
        return room > 0 ? room : 0;
    }
    return INT32_MAX;
}

pco_whole_numbers pco_node_whole_numbers_by(pco_domain domain, const pco_tensor *tensors, const pco_node *node)
{
    const pco_tensor *x = pco_work_input(tensors, node, 0);
    switch (domain) {
    case PCO_DOMAIN_INDEX: return (pco_whole_numbers){0, work_axis(node, x) - 1};
    case PCO_DOMAIN_CLASS: return (pco_whole_numbers){0, x->shape[x->rank - 1] - 1};
    case PCO_DOMAIN_MATRIX: return (pco_whole_numbers){0, work_attribute(node, "matrices") - 1};
    case PCO_DOMAIN_START:
        return (pco_whole_numbers){0, work_axis(node, x) - work_axis(node, pco_work_input(tensors, node, 1))};
    case PCO_DOMAIN_LENGTH: return (pco_whole_numbers){0, work_attention_rows(tensors, node, 1)};
    case PCO_DOMAIN_POSITION: return (pco_whole_numbers){0, work_positions(tensors, node)};
    default: return (pco_whole_numbers){INT32_MIN, INT32_MAX};
    }
}

pco_whole_numbers pco_node_whole_numbers(const pco_tensor *tensors, const pco_node *node, uint32_t input)
{
    return pco_node_whole_numbers_by(pco_op_domain(node->op, input), tensors, node);
}

/* ---- elements and bytes ---- */

static double work_elements_of(const pco_tensor *tensor) { return tensor ? (double)pco_tensor_elements(tensor) : 0; }

/* Operand i, or behind them result i - n_inputs; NULL where it is absent, or the same as an earlier one. */
static const pco_tensor *work_tensor(const pco_tensor *tensors, const pco_node *node, uint32_t i)
{
    const uint32_t *in = node->inputs, *out = node->outputs, n = node->n_inputs;
    const uint32_t t = i < n ? in[i] : out[i - n];
    for (uint32_t k = 0; k < i; k++)
        if ((k < n ? in[k] : out[k - n]) == t) return NULL;
    return t == PCO_NONE ? NULL : &tensors[t];
}

/* What share of operand i, or behind them of result i - n_inputs, is read or written; 1: all. */
static double work_share(pco_bytes_rule rule, const pco_tensor *tensors, const pco_node *node, uint32_t i)
{
    double some = 1, all = 1;
    if (rule == PCO_BYTES_TAKEN && i == 0) {
        some = work_elements_of(pco_work_output(tensors, node, 0));
        all = work_elements_of(pco_work_input(tensors, node, 0));
    } else if (rule == PCO_BYTES_WRITTEN && i == 0) {
        some = 0; /* it is not read */
    } else if (rule == PCO_BYTES_WRITTEN && i == node->n_inputs) {
        some = work_elements_of(pco_work_input(tensors, node, 1));
        all = work_elements_of(pco_work_output(tensors, node, 0));
    } else if (rule == PCO_BYTES_CHOSEN && i == 1) {
        some = work_elements_of(pco_work_input(tensors, node, 2));
        all = (double)work_attribute(node, "matrices");
    }
    return some < all ? some / all : 1;
}

double pco_node_elements(const pco_tensor *tensors, const pco_node *node)
{
    double sum = 0;
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++)
        sum += work_elements_of(work_tensor(tensors, node, i));
    return sum;
}

double pco_node_bytes_by(pco_bytes_rule rule, const pco_tensor *tensors, const pco_node *node)
{
    double sum = 0;
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++) {
        const pco_tensor *x = work_tensor(tensors, node, i);
        if (x) sum += (double)x->bytes * work_share(rule, tensors, node, i);
    }
    return sum;
}

double pco_node_bytes(const pco_tensor *tensors, const pco_node *node)
{
    return pco_node_bytes_by(pco_op_bytes_rule(node->op), tensors, node);
}
