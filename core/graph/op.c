/* Expands ops.def into the table of op.h. How ops are decomposed and differentiated, which is done with graphs, stands
 * above the graph, in op_rules.c. */
#include "graph/op.h"
#include "graph/op_signature.h"
#include "graph/infer.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* One attribute table per op that has attributes: first all rows in one array, in the order of ops.def. */
typedef struct attr_row {
    const char *op;
    pco_attr_info info;
} attr_row;

#define PCO_ATTR_I(op, field, initial, doc) \
    {#op, {#field, PCO_ATTR_INT, offsetof(pco_##op##_attrs, field), initial, 0, doc}},
#define PCO_ATTR_F(op, field, initial, doc) \
    {#op, {#field, PCO_ATTR_FLOAT, offsetof(pco_##op##_attrs, field), initial, 0, doc}},
#define PCO_ATTR_V(op, field, doc) {#op, {#field, PCO_ATTR_VECTOR, offsetof(pco_##op##_attrs, n_##field), 0, 0, doc}},
#define PCO_ATTR_AXIS(op, field, initial, doc) \
    {#op, {#field, PCO_ATTR_INT, offsetof(pco_##op##_attrs, field), initial, 1, doc}},
#define PCO_ATTR_AXES(op, field, doc) \
    {#op, {#field, PCO_ATTR_VECTOR, offsetof(pco_##op##_attrs, n_##field), 0, 1, doc}},
static const attr_row ATTR_ROWS[] = {
#include "graph/ops.def"
};

/* Plugins read the axis of several ops alike, and so does the self-test. */
#define PCO_ATTR_AXIS(op, field, initial, doc) \
    _Static_assert(offsetof(pco_##op##_attrs, field) == 0, "an axis is the first attribute: " #op);
#include "graph/ops.def"

#define SIGNATURE NULL
#define NONE      NULL
#define PCO_OP(id, upper, name_, family_, signature_, types_, infer_, split_, decompose_, gradient_, bound_, rows_, \
               products_, doc_) \
    {.op = PCO_OP_##upper, \
     .name = #name_, \
     .signature = signature_, \
     .types = types_, \
     .doc = doc_, \
     .infer = infer_, \
     .split = PCO_SPLIT_##split_, \
     .bound = PCO_BOUND_##bound_, \
     .rows = PCO_ROWS_##rows_},
static const pco_op_info OPS[] = {
#include "graph/ops.def"
};
#undef SIGNATURE
#undef NONE

enum {
#define PCO_OP(id, upper, ...) ROW_##upper,
#include "graph/ops.def"
};

enum { N_OPS = sizeof OPS / sizeof OPS[0], N_ATTR_ROWS = sizeof ATTR_ROWS / sizeof ATTR_ROWS[0] };

const pco_op_rule *pco_op_bound(pco_bound_rule rule)
{
    static const pco_op_rule RULES[] = {
#define PCO_BOUND(upper, name, doc) {#name, doc},
#include "graph/ops.def"
    };
    return &RULES[rule];
}

const pco_op_rule *pco_op_split(pco_split_rule rule)
{
    static const pco_op_rule RULES[] = {
#define PCO_SPLIT(upper, name, doc) {#name, doc},
#include "graph/ops.def"
    };
    return &RULES[rule];
}

const pco_op_rule *pco_op_rows(pco_rows_rule rule)
{
    static const pco_op_rule RULES[] = {
#define PCO_ROWS(upper, name, doc) {#name, doc},
#include "graph/ops.def"
    };
    return &RULES[rule];
}

const pco_op_rule *pco_domain_of(pco_domain domain)
{
    static const pco_op_rule KINDS[] = {
#define PCO_DOMAIN_KIND(upper, name, doc) {#name, doc},
#include "graph/ops.def"
    };
    return &KINDS[domain];
}

const pco_op_rule *pco_op_bytes(pco_bytes_rule rule)
{
    static const pco_op_rule RULES[] = {
#define PCO_BYTES_RULE(upper, name, doc) {#name, doc},
#include "graph/ops.def"
    };
    return &RULES[rule];
}

const pco_op_info *pco_op_table(uint32_t *count)
{
    *count = N_OPS;
    return OPS;
}

const pco_op_info *pco_op_find(uint32_t op)
{
    static const pco_op_info *const BY_ID[] = {
#define PCO_OP(id, upper, ...) [PCO_OP_##upper] = &OPS[ROW_##upper],
#include "graph/ops.def"
    };
    return op < sizeof BY_ID / sizeof BY_ID[0] ? BY_ID[op] : NULL;
}

const pco_op_info *pco_op_of(uint32_t op, const void *attrs)
{
    if (!PCO_OP_IS_OWN(op)) return pco_op_find(op);
    const pco_operation *own = ((const pco_own_attrs *)attrs)->host;
    return &own->info;
}

const pco_op_info *pco_node_op(const pco_node *node) { return pco_op_of(node->op, node->attrs); }

const pco_op_range *pco_op_range_of(const pco_op_info *op, uint32_t input)
{
    return op->own && op->own->declaration.ranges ? &op->own->declaration.ranges[input] : NULL;
}

const pco_op_info *pco_op_find_name(const char *name)
{
    for (uint32_t i = 0; i < N_OPS; i++)
        if (strcmp(OPS[i].name, name) == 0) return &OPS[i];
    return NULL;
}

uint32_t pco_op_written(const pco_op_info *op, uint32_t output)
{
    pco_signature_reader results = {.at = op->signature}, operands = results;
    pco_signature_operand result, operand;
    while (pco_signature_next(&results, &result))
        if (result.result && result.index == output)
            while (pco_signature_next_input(&operands, &operand))
                if (!strcmp(operand.name, result.name)) return operand.index;
    return PCO_NONE;
}

int pco_op_writes(const pco_op_info *op, uint32_t input)
{
    for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++)
        if (pco_op_written(op, i) == input) return input != PCO_NONE;
    return 0;
}

int pco_op_has_effect(const pco_op_info *op) { return pco_op_written(op, 0) != PCO_NONE; }

pco_domain pco_op_domain(uint32_t op, uint32_t input)
{
    static const struct {
        uint32_t op, input;
        pco_domain domain;
    } ROWS[] = {
#define PCO_DOMAIN(upper, operand, domain) {PCO_OP_##upper, operand, PCO_DOMAIN_##domain},
#include "graph/ops.def"
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++)
        if (ROWS[i].op == op && ROWS[i].input == input) return ROWS[i].domain;
    return PCO_DOMAIN_ANY;
}

pco_bytes_rule pco_op_bytes_rule(uint32_t op)
{
    static const struct {
        uint32_t op;
        pco_bytes_rule rule;
    } ROWS[] = {
#define PCO_BYTES(upper, rule) {PCO_OP_##upper, PCO_BYTES_##rule},
#include "graph/ops.def"
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++)
        if (ROWS[i].op == op) return ROWS[i].rule;
    return PCO_BYTES_ALL;
}

const pco_attr_info *pco_op_attr(const pco_op_info *op, uint32_t i)
{
    if (op->own) return i < op->own->n_attrs ? &op->own->attrs[i] : NULL;
    for (uint32_t row = 0; row < N_ATTR_ROWS; row++)
        if (strcmp(ATTR_ROWS[row].op, op->name) == 0 && i-- == 0) return &ATTR_ROWS[row].info;
    return NULL;
}

uint32_t pco_op_attrs_size(const pco_op_info *op)
{
    uint32_t size = op->own ? sizeof(pco_own_attrs) : 0;
    const pco_attr_info *attr;
    for (uint32_t i = 0; (attr = pco_op_attr(op, i)) != NULL; i++)
        size = attr->offset + (attr->type == PCO_ATTR_VECTOR ? 8u + 8u * PCO_MAX_RANK : 8u);
    return size;
}

void pco_op_default_attrs(const pco_op_info *op, void *attrs)
{
    memset(attrs, 0, pco_op_attrs_size(op));
    if (op->own)
        memcpy(attrs, &(pco_own_attrs){.declaration = &op->own->declaration, .host = op->own}, sizeof(pco_own_attrs));
    const pco_attr_info *attr;
    for (uint32_t i = 0; (attr = pco_op_attr(op, i)) != NULL; i++) {
        unsigned char *at = (unsigned char *)attrs + attr->offset;
        int64_t whole = attr->type == PCO_ATTR_INT ? (int64_t)attr->initial : 0;
        if (attr->type == PCO_ATTR_FLOAT)
            memcpy(at, &attr->initial, sizeof attr->initial);
        else
            memcpy(at, &whole, sizeof whole);
    }
}

/* Where the axes of an attribute begin, and how many there are; 0: it names no dimensions. */
static int64_t op_axes(const pco_attr_info *attr, const void *attrs, const unsigned char **at)
{
    int64_t count = 1;
    if (!attr->is_axis) return 0;
    *at = (const unsigned char *)attrs + attr->offset;
    if (attr->type == PCO_ATTR_VECTOR) {
        memcpy(&count, *at, sizeof count);
        *at += sizeof count;
    }
    return count < PCO_MAX_RANK ? count : PCO_MAX_RANK;
}

uint32_t pco_op_axes(const pco_op_info *op, const void *attrs, uint32_t rank)
{
    const pco_attr_info *attr;
    const unsigned char *at;
    uint32_t dims = 0;
    for (uint32_t i = 0; (attr = pco_op_attr(op, i)) != NULL; i++)
        for (int64_t k = op_axes(attr, attrs, &at), axis; k > 0; k--, at += sizeof axis) {
            memcpy(&axis, at, sizeof axis);
            if (axis < 0) axis += rank;
            if (axis >= 0 && axis < rank) dims |= 1u << axis;
        }
    return dims;
}

void pco_op_resolve_axes(const pco_op_info *op, void *attrs, uint32_t rank)
{
    const pco_attr_info *attr;
    const unsigned char *from;
    for (uint32_t i = 0; (attr = pco_op_attr(op, i)) != NULL; i++)
        for (int64_t k = op_axes(attr, attrs, &from), axis; k > 0; k--, from += sizeof axis) {
            unsigned char *at = (unsigned char *)attrs + (from - (const unsigned char *)attrs);
            memcpy(&axis, at, sizeof axis);
            if (axis < 0) axis += rank;
            memcpy(at, &axis, sizeof axis);
        }
}
