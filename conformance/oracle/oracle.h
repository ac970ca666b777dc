/* The oracle: for every op, the value in exact arithmetic and a bound on the error of a device that keeps its
 * contract, element by element. docs/numerics.md derives the bounds; each derivation is summarised beside its
 * code. Nothing here is shared with a backend. */
#ifndef CONF_ORACLE_H
#define CONF_ORACLE_H

#include "oracle/oracle_number.h"

typedef struct oracle_operand {
    const pco_tensor *desc; /* NULL where absent */
    const double *value;
    int64_t count;
    double quantum; /* a power of two of which all values are multiples; 0 where there is none */
    double largest; /* largest magnitude */
    bool tiny;      /* holds f32 subnormals, which a device may flush */
} oracle_operand;

typedef struct oracle_output {
    pco_tensor desc;
    int64_t count;
    double *value;     /* NaN and infinities stand for themselves */
    double *bound;     /* infinity: nothing is promised for this element */
    bool sign_of_zero; /* -0 and +0 differ */
} oracle_output;

typedef struct oracle_node {
    uint32_t op;
    const void *attrs;
    uint32_t n_inputs, n_outputs;
    oracle_operand in[PCO_MAX_INPUTS];
    oracle_output out[PCO_MAX_OUTPUTS]; /* desc given by the caller, from pco_infer */
    const oracle_rules *rules;
} oracle_node;

/* Decodes raw storage into an operand; release with oracle_operand_clear. OUT_OF_HOST_MEMORY. */
pco_status oracle_operand_load(oracle_operand *operand, const pco_tensor *desc, const void *data,
                               pco_error *err) PCO_NODISCARD;
void oracle_operand_clear(oracle_operand *operand);

/* Computes value and bound of all outputs; release with oracle_node_clear. Errors: OUT_OF_HOST_MEMORY;
 * UNSUPPORTED for an op without an oracle. */
bool oracle_knows(uint32_t op); /* is there an oracle for it? */
pco_status oracle_run(oracle_node *node, pco_error *err) PCO_NODISCARD;
void oracle_node_clear(oracle_node *node); /* operands and outputs */

#endif
