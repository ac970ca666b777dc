/* What a node works on, by the columns `rows` and `products` of the op table, and by its PCO_DOMAIN and PCO_BYTES. Read
 * by the self-test, the conformance suite and `portico bench op`. */
#ifndef PCO_GRAPH_WORK_H
#define PCO_GRAPH_WORK_H

#include "graph/op.h"

/* Operand or result i, or NULL where it is absent. */
static inline const pco_tensor *pco_work_input(const pco_tensor *tensors, const pco_node *node, uint32_t i)
{
    return i < node->n_inputs && node->inputs[i] != PCO_NONE ? &tensors[node->inputs[i]] : NULL;
}

static inline const pco_tensor *pco_work_output(const pco_tensor *tensors, const pco_node *node, uint32_t i)
{
    return i < node->n_outputs && node->outputs[i] != PCO_NONE ? &tensors[node->outputs[i]] : NULL;
}

enum { PCO_ROWS_WHOLE = -1 };

/* Along which dimension a node is cut into rows that are problems of their own: of each operand and result, or
 * PCO_ROWS_WHOLE. */
typedef struct pco_node_rows {
    int in[PCO_MAX_INPUTS], out[PCO_MAX_OUTPUTS];
    int64_t n; /* how many there are; 0: the op has no rows, or these shapes have none */
} pco_node_rows;

pco_node_rows pco_node_rows_whole(void);
pco_node_rows pco_node_rows_by(pco_rows_rule rule, const pco_tensor *tensors, const pco_node *node);
/* By the rule of its op. */
pco_node_rows pco_node_rows_of(const pco_tensor *tensors, const pco_node *node);

/* Terms of the longest sum that the node takes, or more: what adds by rows or in products says how many; for others it
 * is the longest dimension. */
double pco_node_terms(const pco_tensor *tensors, const pco_node *node);

/* Products that are added, with zeros that stand for what lies outside; 0 where there are none. */
double pco_node_products(const pco_tensor *tensors, const pco_node *node);

/* Elements of all operands and results, each counted once. */
double pco_node_elements(const pco_tensor *tensors, const pco_node *node);

/* Bytes that the node reads and writes, by the rule of its op, or by another one. */
double pco_node_bytes(const pco_tensor *tensors, const pco_node *node);
double pco_node_bytes_by(pco_bytes_rule rule, const pco_tensor *tensors, const pco_node *node);

/* Whole numbers, both ends among them; low > high: there is none. */
typedef struct pco_whole_numbers {
    int64_t low, high;
} pco_whole_numbers;

/* What i32 operand `input` may be, by its domain, where that says so: all 32 bits for others. */
pco_whole_numbers pco_node_whole_numbers(const pco_tensor *tensors, const pco_node *node, uint32_t input);
/* What an operand of that domain may be. Its first two operands are there, and the first has a dimension, where the
 * domain is of them. */
pco_whole_numbers pco_node_whole_numbers_by(pco_domain domain, const pco_tensor *tensors, const pco_node *node);

/* How many products a node of that op adds; NULL: none. */
typedef double pco_products_fn(const pco_tensor *tensors, const pco_node *node);
pco_products_fn *pco_op_products(uint32_t op);

/* Those that the table names (what NONE becomes is never defined). */
#define PCO_PRODUCTS(name) double products_##name(const pco_tensor *tensors, const pco_node *node)
#define NONE               products_nothing
#define PCO_OP(id, upper, name, family, signature, types, infer, split, decomposition, gradient, bound, rows, \
               products, ...) \
    pco_products_fn products;
#include "graph/ops.def"
#undef NONE

#endif
