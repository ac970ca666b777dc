/* Operations of one's own: from a declaration to a row like those of the table. */
#ifndef PCO_GRAPH_OWN_H
#define PCO_GRAPH_OWN_H

#include "graph/graph.h"

/* Checks a declaration and makes a row of it, which the caller holds. Errors: INVALID, with what is wrong in it;
 * OUT_OF_HOST_MEMORY. */
pco_status pco_operation_create(const pco_op_declaration *declaration, pco_operation **operation,
                                pco_error *err) PCO_NODISCARD;
/* One holder more; one less, and the last one frees it. NULL is allowed. */
void pco_operation_hold(pco_operation *operation);
void pco_operation_drop(pco_operation *operation);

/* The node as the functions of its declaration see it. `attrs` are the node's, with pco_own_attrs in front. */
pco_op_call pco_operation_call(const pco_operation *operation, const void *attrs);

/* FNV-1a of all that says what the operation computes, how, and how it is tested, and of its attributes: the same in
 * every process. What functions compute is not in it. */
uint64_t pco_operation_hash(const pco_operation *operation, const void *attrs);

#endif
