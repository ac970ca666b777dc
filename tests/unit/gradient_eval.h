/* oracle_graph.h for tests: errors fail them. */
#ifndef PCO_TESTS_GRADIENT_EVAL_H
#define PCO_TESTS_GRADIENT_EVAL_H

#include "check.h"

#include "graph/op_rules.h"
#include "oracle/oracle_graph.h"

static inline pco_graph *eval_lowered(const pco_graph *graph)
{
    pco_graph *result = NULL;
    check_ok(oracle_graph_lower(graph, &result, &err));
    return result;
}

static inline void eval_run(const pco_graph *graph, double **values)
{
    check_ok(oracle_graph_run(graph, values, &err));
}

static inline void eval_free(const pco_graph *graph, double **values) { oracle_graph_free(graph, values); }

#endif
