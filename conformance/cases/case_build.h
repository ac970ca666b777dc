/* Building cases, one after the other: begin, operands, attributes, emit. */
#ifndef CONF_CASE_BUILD_H
#define CONF_CASE_BUILD_H

#include "base/dtype.h"
#include "cases/case.h"

typedef struct conf_cases_context {
    pco_conformance_tier tier;
    const char *pattern;
    conf_visit_fn visit;
    void *user;
    bool stopped;
    uint64_t binding; /* bytes that a kernel of the device sees through one argument; 0: no device */
    uint32_t n_edges;
    uint32_t edges[PCO_MAX_EDGES]; /* of the device's kernels */
    conf_case one;                 /* under construction */
    uint32_t seen[1 << 16];        /* ids that were visited, by open addressing: lists overlap */
    uint32_t n_kinds;              /* cases of an op with operands of the same types are of one kind */
    struct {
        uint32_t hash, count;
    } kinds[256]; /* of the op whose cases are visited */
} conf_cases_context;

/* Starts a case with the op's default attributes; the second of any row. */
conf_case *conf_cases_begin(conf_cases_context *context, pco_op op, conf_regime regime);
conf_case *conf_cases_begin_row(conf_cases_context *context, const pco_op_info *op, conf_regime regime);
/* Adds an operand; the shape is text such as "2,3,5" ("": a scalar). Returns it, to be refined. */
conf_operand *conf_cases_in(conf_case *one, uint32_t dtype, const char *shape, ...)
    __attribute__((format(printf, 3, 4)));
conf_operand *conf_cases_absent(conf_case *one);
/* Reads "2,3,5" into a vector attribute. */
int64_t conf_cases_vector(int64_t *vector, const char *text);
/* Adds an operand that has the values of operand `of`. */
conf_operand *conf_cases_twin(conf_case *one, uint32_t of);
void conf_cases_list(conf_operand *operand, uint32_t n, const double *list);
void conf_cases_emit(conf_cases_context *context);

static inline bool conf_cases_standard(const conf_cases_context *context)
{
    return context->tier == PCO_CONFORMANCE_STANDARD || context->tier == PCO_CONFORMANCE_FULL ||
           context->tier == PCO_CONFORMANCE_SOAK;
}

/* Every pipeline takes a software driver a tenth of a second or more to compile: in the short tiers the even entries of
 * a list are run in bf16 and the odd ones in f16, as shapes and types do not depend on each other; all in f32. `t` is
 * an index of CASES_FLOATS. */
static inline bool conf_cases_has_half(const conf_cases_context *context, uint32_t t, uint32_t entry)
{
    return t == 0 || conf_cases_standard(context) || (entry + t) % 2 == 0;
}

extern const uint32_t CASES_FLOATS[3];

/* All types but the quantised ones, and those; in the order of their numbers. */
#define CASES_COUNT(NAME, name, block, bytes) +1
enum {
    CASES_N_PLAIN = 0 PCO_FLOAT_DTYPES(CASES_COUNT) PCO_WHOLE_DTYPES(CASES_COUNT),
    CASES_N_QUANTISED = 0 PCO_QUANTISED_DTYPES(CASES_COUNT),
};
extern const uint32_t CASES_PLAIN[CASES_N_PLAIN], CASES_QUANTISED[CASES_N_QUANTISED];

/* Quantised types whose kernels differ from another type's in how a weight is read, and in nothing else. In the short
 * tiers they have the cases that show that, in each variant: five long rows, and a lookup. */
static inline bool conf_cases_is_variation(uint32_t type)
{
    return pco_dtype_is_quantised(type) && type != PCO_Q8_0 && type != PCO_Q4_0 && type != PCO_Q4_1 && type != PCO_Q6_K;
}

/* The least size of at least `size` that whole blocks of the type have. */
int conf_cases_blocks(int size, uint32_t type);

#endif
