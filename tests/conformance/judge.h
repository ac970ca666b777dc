/* Comparing one output with the oracle, element by element. */
#ifndef CONF_JUDGE_H
#define CONF_JUDGE_H

#include "cases.h"
#include "oracle.h"

typedef struct conf_verdict {
    int64_t elements, wrong;
    int64_t zeros, expected_zeros; /* of the result, of the oracle */
    int64_t judged, blind; /* with a finite bound and a value that is not zero; of these, bound >= |value| */
    double ratio;          /* worst error / bound; infinity where an exact element differs */
    int64_t element;       /* where */
    double expected, got, bound;
} conf_verdict;

/* Error over bound of one element: at most 1 where it is right. 0 where nothing is promised. */
double conf_judge_element(const oracle_output *out, const oracle_rules *rules, int64_t i, double got);

/* Judges an output; `data` in storage format. */
void conf_judge(const oracle_output *out, const oracle_rules *rules, const void *data, conf_verdict *verdict);

/* ---- judge_nmse.c: the field's habit, to compare with ---- */

/* sum (got - expected)^2 / sum expected^2 over the output; *mismatch: a NaN or infinity that is not where it should
 * be. With infinities that match it is NaN, and no threshold finds fault with that. */
double conf_judge_nmse(const oracle_output *out, const void *data, bool *mismatch);
/* Is there such a case in a suite of that kind? Random data, and types that keep below the threshold. */
bool conf_nmse_takes(const conf_case *one);
/* The case with uniform operands in [-1, 1], where its op allows that. */
conf_case conf_nmse_case(const conf_case *one);

/* Why a passing random result proves little, or NULL. */
const char *conf_judge_mistrust(const conf_verdict *verdict);

#endif
