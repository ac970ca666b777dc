/* Comparing one output with the oracle, element by element. */
#ifndef CONF_JUDGE_H
#define CONF_JUDGE_H

#include "oracle/oracle.h"

typedef struct conf_verdict {
    int64_t elements, wrong;
    int64_t zeros, expected_zeros; /* of the result, of the oracle */
    int64_t judged, blind;         /* with a finite bound and a value that is not zero; of these, bound >= |value| */
    double ratio;                  /* worst error / bound; infinity where an exact element differs */
    int64_t element;               /* where */
    double expected, got, bound;
} conf_verdict;

/* Error over bound of one element: at most 1 where it is right. 0 where nothing is promised. */
double conf_judge_element(const oracle_output *out, const oracle_rules *rules, int64_t i, double got);

/* Judges an output; `data` in storage format. */
void conf_judge(const oracle_output *out, const oracle_rules *rules, const void *data, conf_verdict *verdict);

/* Why a passing random result proves little, or NULL. */
const char *conf_judge_mistrust(const conf_verdict *verdict);

#endif
