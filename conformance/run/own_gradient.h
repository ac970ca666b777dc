/* The gradients of operations of one's own, which no device has a part in: a rule is a graph. */
#ifndef CONF_OWN_GRADIENT_H
#define CONF_OWN_GRADIENT_H

#include "graph/op.h"

typedef struct conf_own_gradient {
    uint32_t cases;
    int64_t elements, judged; /* of operands; judged: where differences tell a slope */
    double worst;             /* error / bound */
    int right;
    char detail[400]; /* what is wrong */
} conf_own_gradient;

/* Judges the function `gradient` of a declaration that has one, on small cases: every element of the gradient of a sum
 * with random factors, in float64, against difference quotients (docs/numerics.md, Gradients). Errors:
 * OUT_OF_HOST_MEMORY. */
pco_status conf_own_gradient_judge(const pco_operation *own, conf_own_gradient *result, pco_error *err) PCO_NODISCARD;

#endif
