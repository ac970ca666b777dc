/* The op table, expanded: what ops.def says of each op, for the graph, the CLI and the conformance cases. */
#ifndef PCO_GRAPH_OP_H
#define PCO_GRAPH_OP_H

#include "portico/plugin.h"

#include <stdatomic.h>

/* What stands in the columns `bound`, `split` and `rows`. */
typedef enum pco_bound_rule {
#define PCO_BOUND(upper, name, doc) PCO_BOUND_##upper,
#include "graph/ops.def"
    PCO_BOUND_RULES,
} pco_bound_rule;

typedef enum pco_split_rule {
#define PCO_SPLIT(upper, name, doc) PCO_SPLIT_##upper,
#include "graph/ops.def"
    PCO_SPLIT_RULES,
} pco_split_rule;

typedef enum pco_rows_rule {
#define PCO_ROWS(upper, name, doc) PCO_ROWS_##upper,
#include "graph/ops.def"
    PCO_ROWS_RULES,
} pco_rows_rule;

/* One of them, as `portico ops` shows it. */
typedef struct pco_op_rule {
    const char *name, *doc;
} pco_op_rule;

typedef enum pco_domain {
#define PCO_DOMAIN_KIND(upper, name, doc) PCO_DOMAIN_##upper,
#include "graph/ops.def"
    PCO_DOMAINS,
} pco_domain;

typedef enum pco_bytes_rule {
#define PCO_BYTES_RULE(upper, name, doc) PCO_BYTES_##upper,
#include "graph/ops.def"
    PCO_BYTES_RULES,
} pco_bytes_rule;

typedef enum pco_attr_type { PCO_ATTR_INT, PCO_ATTR_FLOAT, PCO_ATTR_VECTOR } pco_attr_type;

typedef struct pco_attr_info {
    const char *name;
    pco_attr_type type;
    uint32_t offset; /* of the value in the struct; of n_field for a vector, whose elements follow 8 bytes later */
    double initial;
    int is_axis; /* names dimensions of the first operand */
    const char *doc;
} pco_attr_info;

typedef struct pco_graph pco_graph;
typedef struct pco_shape_context pco_shape_context;
typedef struct pco_operation pco_operation;

/* Works out the outputs of a node from its inputs (core/graph/infer.h). */
typedef pco_status pco_infer_fn(pco_shape_context *context, pco_error *err);

typedef struct pco_op_info {
    pco_op op;
    const char *name;
    const char *signature;
    const char *types;
    const char *doc;
    pco_infer_fn *infer; /* NULL: the signature says it all */
    pco_split_rule split;
    pco_bound_rule bound;
    pco_rows_rule rows;
    const pco_operation *own; /* NULL for a row of the table */
} pco_op_info;

/* An operation of one's own: a row made of a declaration. Held by what it is registered with, and by each graph that
 * has a node of it (own.c). */
struct pco_operation {
    pco_op_info info;
    pco_op_declaration declaration; /* of this library's size */
    uint32_t n_inputs, n_attrs;     /* operands that its signature has */
    pco_attr_info attrs[PCO_OP_ATTRIBUTES];
    atomic_uint holders;
};

/* The row of a node's op, also of one's own. For a number that pco_op_find knows, attrs may be NULL. */
const pco_op_info *pco_op_of(uint32_t op, const void *attrs);
const pco_op_info *pco_node_op(const pco_node *node);

/* The row of an op, or NULL for a number that is reserved or unknown. Static. */
const pco_op_info *pco_op_find(uint32_t op);
const pco_op_info *pco_op_find_name(const char *name);

/* All rows in the order of ops.def; *count receives how many. Static. */
const pco_op_info *pco_op_table(uint32_t *count);

/* Rules by their numbers. Static. */
const pco_op_rule *pco_op_bound(pco_bound_rule rule);
const pco_op_rule *pco_op_split(pco_split_rule rule);
const pco_op_rule *pco_op_rows(pco_rows_rule rule);
const pco_op_rule *pco_domain_of(pco_domain domain);
const pco_op_rule *pco_op_bytes(pco_bytes_rule rule);

/* The operand that output i is after the op has written it in place (an output with an operand's name), or
 * PCO_NONE for an output of its own. */
uint32_t pco_op_written(const pco_op_info *op, uint32_t output);

/* Is operand `input` written in place? */
int pco_op_writes(const pco_op_info *op, uint32_t input);

/* Does the op change a state? Then it runs although nothing may read its outputs, and its place in the order of
 * nodes counts. */
int pco_op_has_effect(const pco_op_info *op);

/* Values that an own op's operand may have, or NULL: it does not say. */
const pco_op_range *pco_op_range_of(const pco_op_info *op, uint32_t input);

/* What operand `input` of an op has to be for a number to come out, or is for. */
pco_domain pco_op_domain(uint32_t op, uint32_t input);

/* What a node of that op reads and writes. */
pco_bytes_rule pco_op_bytes_rule(uint32_t op);

/* Attribute i of an op in the order of its struct, or NULL past the last. Static. */
const pco_attr_info *pco_op_attr(const pco_op_info *op, uint32_t i);

/* Size of the op's attribute struct in bytes; 0 without attributes. */
uint32_t pco_op_attrs_size(const pco_op_info *op);

/* Fills an attribute struct with the op's defaults. */
void pco_op_default_attrs(const pco_op_info *op, void *attrs);

/* The dimensions that the op's axes name of an operand of `rank` dimensions, as bits; 0 where it has none. */
uint32_t pco_op_axes(const pco_op_info *op, const void *attrs, uint32_t rank);

/* Makes axes that count from the end (-1: the last) count from the first of the operand's `rank` dimensions. */
void pco_op_resolve_axes(const pco_op_info *op, void *attrs, uint32_t rank);

#endif
