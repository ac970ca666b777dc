/* Constants in another layout than the file's. */
#ifndef CPU_LAYOUT_H
#define CPU_LAYOUT_H

#include "cpu.h"

/* Panels: a matrix [K,N] as cpu:native's tiles read it, f32 panels[ceil(N / tile_columns)][K][tile_columns], with zeros
 * behind column N. Bytes. */
uint64_t cpu_panels_bytes(const cpu_kernels *kernels, int64_t k, int64_t n);
/* The types whose elements are widened for them. */
static inline bool cpu_panels_take(uint32_t dtype) { return dtype == PCO_F32 || dtype == PCO_F16 || dtype == PCO_BF16; }

/* Fills in layout, bytes and alignment of all constants of a part, for nodes whose variants are in the proposal. */
void cpu_layout_propose(const pco_device *device, const pco_part *part, pco_proposal *proposal);

/* Tells a parsed node of the part how its constants lie. */
void cpu_layout_apply(cpu_node *node, const pco_node *from, const pco_proposal *proposal);

/* pco_program_api.convert */
pco_status cpu_layout_convert(pco_device *device, const pco_tensor *tensor, uint32_t layout, const void *from, void *to,
                              uint64_t bytes, pco_error *err);

#endif
