/* How K is cut: where windows ask for it, and where parts of it are computed side by side. */
#include "layout.h"
#include "lower_matmul.h"

uint64_t gpu_matmul_terms(const gpu_lowering *gpu, const gpu_matmul *p)
{
    const uint64_t limit = gpu_window(gpu, 1) - 64;
    uint64_t terms = p->k;
    if (!p->trans_b) terms = gpu_min(terms, limit / (p->ldb * gpu_element_bytes(p->b_type)));
    if (p->trans_a) terms = gpu_min(terms, limit / (p->lda * gpu_element_bytes(p->a_type)));
    if (terms < p->k && terms > 64) terms &= ~UINT64_C(63);
    return gpu_max(terms, 1);
}

int gpu_matmul_whole(const gpu_lowering *gpu, const gpu_matmul *p) { return gpu_matmul_terms(gpu, p) >= p->k; }

uint64_t gpu_matmul_part_of(const gpu_matmul *p, uint32_t parts)
{
    const gpu_format *format = gpu_format_of(p->b_type);
    const uint64_t unit = gpu_max(64, format ? format->block : 0), even = gpu_div_up(p->k, parts);
    return gpu_min(gpu_div_up(even, unit) * unit, p->k);
}
