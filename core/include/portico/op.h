/* Operations of one's own, beside those of the table: declared by a program, by a library or by a plugin
 * (pco_op_declaration in portico/plugin.h says what there is to declare, and above the table there how signatures are
 * written), and then built into graphs, planned, tested and run as the others are.
 *
 *     static const pco_op_declaration SNAKE = {
 *         .size = sizeof SNAKE, .name = "snake",
 *         .signature = "x:F[..] -> y:F[..]", .types = "F=f32,f16,bf16",
 *         .compute = snake, .kernel = SNAKE_KERNEL,
 *     };
 *     if (pco_op_register(context, &SNAKE, &op, &err)) ...
 *     uint32_t y = pco_graph_apply(graph, op, NULL, &x, 1, NULL);
 *
 * Where a device has no kernel for the operation, or the kernel fails the self-test, the CPU computes it with the
 * declaration's function, and one line says so; with PORTICO_FALLBACK=error that is an error. `portico conformance
 * --ops-from LIBRARY` judges the operations of a library as it judges those of the table. docs/own_operations.md has an
 * example, and what kernels may use.
 *
 * Threads: as the context's. Arguments: `err` may be NULL, and what says so; otherwise NULL is INVALID. After fork,
 * calls in the child are INVALID (portico.h). */
#ifndef PORTICO_OP_H
#define PORTICO_OP_H

#include <portico/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pco_context pco_context;
typedef struct pco_operation pco_operation;

/* Makes an operation known to the context. `operation` is valid until the context is destroyed; graphs and executables
 * that have nodes of it keep what they need of it. The declaration and what it points to are borrowed that long.
 * Errors: INVALID, with what is wrong in the declaration, or for a name that the context has already;
 * OUT_OF_HOST_MEMORY. */
PCO_EXPORT pco_status pco_op_register(pco_context *context, const pco_op_declaration *declaration,
                                      const pco_operation **operation, pco_error *err) PCO_NODISCARD;

/* The operation of that name that was registered, or that a plugin of the context declares; NULL: there is none. */
PCO_EXPORT const pco_operation *pco_op_lookup(const pco_context *context, const char *name);

/* Adds a node of it, as pco_graph_add does: `attrs` points to the struct of its attributes (copied); `attrs` may be
 * NULL for their initial values, `outputs` may be NULL, inputs[i] PCO_NONE for an absent optional operand. */
PCO_EXPORT uint32_t pco_graph_apply(pco_graph *graph, const pco_operation *operation, const void *attrs,
                                    const uint32_t *inputs, uint32_t n_inputs, uint32_t *outputs);

#ifdef __cplusplus
}
#endif

#endif
