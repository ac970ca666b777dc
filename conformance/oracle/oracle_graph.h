/* Graphs in float64: each node by the oracle, values kept as doubles from node to node. Forward passes and gradients
 * computed so are exact enough to compare with difference quotients. */
#ifndef CONF_ORACLE_GRAPH_H
#define CONF_ORACLE_GRAPH_H

#include "graph/graph.h"
#include "oracle/oracle.h"

/* The graph with all composites decomposed for which there is no oracle. Errors: those of pco_graph_rewrite. */
pco_status oracle_graph_lower(const pco_graph *graph, pco_graph **lowered, pco_error *err) PCO_NODISCARD;

/* values[t] of every tensor of the graph. Those of inputs are given, malloc'ed; constants are read from the graph, and
 * what nodes make is made here. All are freed by oracle_graph_free, also after an error. Errors: OUT_OF_HOST_MEMORY;
 * UNSUPPORTED for an op without an oracle; what the function of an operation of one's own says. */
pco_status oracle_graph_run(const pco_graph *graph, double **values, pco_error *err) PCO_NODISCARD;
void oracle_graph_free(const pco_graph *graph, double **values); /* and `values` itself */

#endif
