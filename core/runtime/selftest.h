/* The self-test on first use: before a device runs a node, the kernel variant that its plugin would take is
 * run once on a small problem of the same kind and compared with cpu:reference. A variant that fails is kept
 * out of use; the node takes another one, or the device does not run it. Verdicts are kept in the cache
 * (runtime/quarantine.h). The cpu plugin is not tested: it is what the others are compared with.
 * PORTICO_SELF_TEST switches it. */
#ifndef PCO_RUNTIME_SELFTEST_H
#define PCO_RUNTIME_SELFTEST_H

#include "graph/graph.h"
#include "runtime/session.h"

/* May slot `slot` run this node? When the default variant has failed and another has not, node->variant is
 * set, and a line of the log says so, once. Errors: UNSUPPORTED, none is left, and `why` says what was seen;
 * DEVICE_LOST in the test while the device has other work (it is opened again where it has none);
 * OUT_OF_HOST_MEMORY: in err. */
pco_status session_selftest(pco_session *session, uint32_t slot, pco_graph *graph, uint32_t node, pco_error *why,
                            pco_error *err) PCO_NODISCARD;

/* Keeps what was found since the last call, and says at level info how long that took. */
void session_selftest_save(pco_session *session);

/* Frees session->selftest. */
void session_selftest_close(pco_session *session);

#endif
