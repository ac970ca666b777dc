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

/* ---- elements and bytes ---- */

static double work_sum(const pco_tensor *tensors, const pco_node *node, double of(const pco_tensor *))
{
    uint32_t seen[PCO_MAX_INPUTS + PCO_MAX_OUTPUTS], count = 0;
    double sum = 0;
    for (uint32_t i = 0; i < node->n_inputs + node->n_outputs; i++) {
        const uint32_t t = i < node->n_inputs ? node->inputs[i] : node->outputs[i - node->n_inputs];
        int again = t == PCO_NONE;
        for (uint32_t k = 0; k < count; k++) again |= seen[k] == t;
        if (again) continue;
        seen[count++] = t;
        sum += of(&tensors[t]);
    }
    return sum;
}

static double work_elements_of(const pco_tensor *tensor) { return (double)pco_tensor_elements(tensor); }

static double work_bytes_of(const pco_tensor *tensor) { return (double)tensor->bytes; }

double pco_node_elements(const pco_tensor *tensors, const pco_node *node)
{
    return work_sum(tensors, node, work_elements_of);
}

double pco_node_bytes(const pco_tensor *tensors, const pco_node *node)
{
    return work_sum(tensors, node, work_bytes_of);
}
