/* From a node's shapes and attributes to its plan; every op has one of these (ops.def). INVALID, UNSUPPORTED. */
#ifndef CPU_PARSE_H
#define CPU_PARSE_H

#include "cpu.h"

#define CPU_PARSE(name)                 pco_status cpu_parse_##name(cpu_node *node, pco_error *err)
#define CPU_OP(NAME, types, parse, ...) CPU_PARSE(parse);
#include "ops.def"

#endif
