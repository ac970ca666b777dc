/* Sessions, from the inside: portico/session.h has what runs graphs. */
#ifndef PCO_RUNTIME_SESSION_H
#define PCO_RUNTIME_SESSION_H

#include "graph/graph.h"
#include "portico/session.h"
#include "runtime/registry.h"

/* As pco_session_open, of a registry's devices. */
pco_status pco_registry_open(pco_registry *registry, const char *devices, pco_session **session,
                             pco_error *err) PCO_NODISCARD;

/* What an executable is made of. */
pco_executable_stats pco_executable_counts(const pco_executable *executable);

/* The graph as it runs: rewritten, fused, decomposed. Lives as long as the executable; constants point to the
 * data of the graph that it was made from. */
const pco_graph *pco_executable_graph(const pco_executable *executable);

#endif
