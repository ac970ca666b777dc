/* From a node's shapes and attributes to its plan; every op has one of these. INVALID, UNSUPPORTED. */
#ifndef CPU_PARSE_H
#define CPU_PARSE_H

#include "cpu.h"

#define CPU_PARSE(name) pco_status cpu_parse_##name(cpu_node *node, pco_error *err)
CPU_PARSE(elementwise); /* all operands broadcast to the result */
CPU_PARSE(unary);       /* one operand, the result's shape */
CPU_PARSE(cast);
CPU_PARSE(swiglu);
CPU_PARSE(dropout);
CPU_PARSE(random_bits);
CPU_PARSE(fill);
CPU_PARSE(iota);
CPU_PARSE(broadcast_to);
CPU_PARSE(reshape);
CPU_PARSE(permute);
CPU_PARSE(slice);
CPU_PARSE(concat);
CPU_PARSE(pad);
CPU_PARSE(gather);
CPU_PARSE(gather_along_axis);
CPU_PARSE(scatter_add);
CPU_PARSE(state_write);
CPU_PARSE(matmul);
CPU_PARSE(reduce);
CPU_PARSE(argmax);
CPU_PARSE(softmax);
CPU_PARSE(logsumexp);
CPU_PARSE(layer_norm);
CPU_PARSE(rms_norm);
CPU_PARSE(rope);
CPU_PARSE(sinusoidal_positions);
CPU_PARSE(attention);
CPU_PARSE(attention_backward);
CPU_PARSE(cross_entropy); /* and its backward op */
CPU_PARSE(adamw);
CPU_PARSE(sgd);
CPU_PARSE(softmax_backward);
CPU_PARSE(norm_backward);
CPU_PARSE(swiglu_backward);

#endif
