/* From a node's shapes and attributes to its plan; every op has one of these (ops.def). What plugin.h says the host has
 * checked is so: nothing is refused here. */
#ifndef CPU_PARSE_H
#define CPU_PARSE_H

#include "cpu.h"

#define CPU_PARSE(name)          void cpu_parse_##name(cpu_node *node)
#define CPU_OP(NAME, parse, ...) CPU_PARSE(parse);
#include "ops.def"

#endif
