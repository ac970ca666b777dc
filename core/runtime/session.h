/* Sessions, from the inside: portico/session.h has what runs graphs. */
#ifndef PCO_RUNTIME_SESSION_H
#define PCO_RUNTIME_SESSION_H

#include "graph/graph.h"
#include "portico/session.h"
#include "runtime/registry.h"

/* The registry that it was opened from. */
pco_registry *pco_session_registry(const pco_session *session);

/* As pco_session_open, of a registry's devices. */
pco_status pco_registry_open(pco_registry *registry, const char *devices, pco_session **session,
                             pco_error *err) PCO_NODISCARD;

/* Who keeps a session for later calls says so, so that one that is closed too early is still there: the last release,
 * or the last executable, then takes it. */
void pco_session_hold(pco_session *session);
void pco_session_release(pco_session *session);

/* 1: constants stay on the devices, as if an executable used them, until the call with 0: for those who build their
 * executables anew. */
void pco_session_hold_constants(pco_session *session, int hold);

/* Makes dimension 1 of all states whose name begins with `prefix` and a full stop so long: what they hold there stays,
 * as far as it fits, and the rest is zero. No executable may use them. Errors: INVALID when one does;
 * OUT_OF_DEVICE_MEMORY and what the device returned: some states have the new length then, and the call with the old
 * one undoes that. */
pco_status pco_session_resize_states(pco_session *session, const char *prefix, int64_t length,
                                     pco_error *err) PCO_NODISCARD;

/* Destroys the states whose name begins with `prefix` and a full stop, and that no executable uses. */
void pco_session_drop_states(pco_session *session, const char *prefix);

/* What an executable is made of. */
pco_executable_stats pco_executable_counts(const pco_executable *executable);

/* The graph as it runs: rewritten, fused, decomposed. Lives as long as the executable; constants point to the
 * data of the graph that it was made from. */
const pco_graph *pco_executable_graph(const pco_executable *executable);

#endif
