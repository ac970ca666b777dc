/* Shape and type inference: from a node's operands to its outputs, with messages that name the op, the
 * operands and both shapes. Signatures are read by signature.c; what letters cannot say is in infer_*.c. */
#ifndef PCO_GRAPH_INFER_H
#define PCO_GRAPH_INFER_H

#include "graph/op.h"

struct pco_shape_context {
    const pco_op_info *op;
    const void *attrs;
    const char *node_name;
    uint32_t n_inputs;
    const pco_tensor *inputs[PCO_MAX_INPUTS]; /* NULL where absent */
    uint32_t n_outputs;                       /* set by inference */
    pco_tensor outputs[PCO_MAX_OUTPUTS];      /* dtype, rank, shape (and bytes) are set by inference */
};

/* Checks operands against the signature (presence, types, letters, broadcast), then fills the outputs by the
 * signature or by the op's own function. Errors: INVALID. */
pco_status pco_infer(pco_shape_context *context, pco_error *err) PCO_NODISCARD;

/* Reads the signature: checks operands, and fills those outputs whose dims the signature determines. */
pco_status pco_infer_signature(pco_shape_context *context, pco_error *err) PCO_NODISCARD;

/* "[2,10,512]" into text, which holds at least 128 bytes; returns text. */
char *pco_tensor_shape_text(const pco_tensor *tensor, char *text);

/* An INVALID error "op 'name' (node): ..." */
pco_status pco_infer_fail(const pco_shape_context *context, pco_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define PCO_INFER(name) pco_status infer_##name(pco_shape_context *context, pco_error *err)

/* Those that the table names (what SIGNATURE becomes is never defined). */
#define SIGNATURE                                                     infer_by_signature
#define PCO_OP(id, upper, name, family, signature, types, infer, ...) pco_infer_fn infer;
#include "graph/ops.def"
#undef SIGNATURE

#endif
