/* Attention and its gradients in gpu/: their sizes, and what their kernels declare alike. */
#ifndef PCO_GPU_LOWER_ATTENTION_H
#define PCO_GPU_LOWER_ATTENTION_H

#include "lower.h"

/* Bits of the kernels' FLAGS. */
enum { GPU_ATTENTION_WEIGHTS = 1, GPU_ATTENTION_SOFTCAP = 2, GPU_ATTENTION_ROLLED_UP = 4, GPU_ATTENTION_EVEN = 8 };

/* Bytes of scores that may lie in the workspace. */
enum { GPU_ATTENTION_SCORE_BYTES = 1 << 28 };

#define GPU_ATTENTION_NOWHERE UINT32_MAX /* where absent lengths and starts lie */

typedef struct gpu_attention_sizes {
    uint32_t batch, heads, group_heads, rows, keys, depth, value_depth;
    pco_scaled_dot_product_attention_attrs attrs;
} gpu_attention_sizes;

/* Those of a node of either operation. */
gpu_attention_sizes gpu_attention_read(const gpu_lowering *gpu);
uint32_t gpu_attention_key_heads(const gpu_lowering *gpu, const gpu_attention_sizes *z);

/* Says why the node cannot run here with any kernel. */
pco_status gpu_attention_supports(gpu_lowering *gpu);

/* What kernels of cooperative matrices want: f16, four subgroups, and matrices of 16 rows and columns at most. */
int gpu_attention_has_matrices(const gpu_lowering *gpu);

/* How often loops go round over the elements of a value, by a workgroup. */
uint64_t gpu_attention_parts(uint64_t size, uint64_t width);

/* Binds a whole tensor, or lets the buffer see what `other` sees where there is nothing. Returns the tensor's first
 * element, or 0. */
uint32_t gpu_attention_bind(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint32_t tensor, uint32_t other,
                            int write);

/* The same for lengths and starts: those that are absent are nowhere. */
uint32_t gpu_attention_bind_optional(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint32_t tensor,
                                     uint32_t other);

/* Strides of [B,H,S,D] or [B,S,H,D] per sequence, head and row. */
void gpu_attention_steps(const pco_tensor *x, const gpu_attention_sizes *z, uint32_t step[3]);

/* Strides of the mask per sequence, head, row and key, 0 where it has only one; they are left as they are where there
 * is no mask. */
void gpu_attention_mask_steps(const gpu_lowering *gpu, uint32_t step[4]);

int32_t gpu_attention_flags(const gpu_attention_sizes *z);
int32_t gpu_attention_reach(const gpu_attention_sizes *z);
int32_t gpu_attention_mask_type(const gpu_lowering *gpu);
float gpu_attention_scale(const gpu_attention_sizes *z);
uint32_t gpu_attention_is_odd(uint32_t first, const uint32_t step[3]);

/* The flag for a kernel's parameters: `odd`, whether what it reads or writes beside these three is. */
#define GPU_ATTENTION_EVEN_OF(p, odd) \
    (gpu_attention_is_odd((p)->q_first, (p)->q_step) || gpu_attention_is_odd((p)->k_first, (p)->k_step) || \
             gpu_attention_is_odd((p)->v_first, (p)->v_step) || (odd) \
         ? 0 \
         : GPU_ATTENTION_EVEN)

/* What the kernels that read queries, keys and values declare alike: all constants, and some parameters. */
#define GPU_ATTENTION_SPECS(gpu, z, more_flags) \
    .q = (int32_t)gpu_input(gpu, 0)->dtype, .k = (int32_t)gpu_input(gpu, 1)->dtype, .m = gpu_attention_mask_type(gpu), \
    .flags = gpu_attention_flags(z) | (more_flags), .d = (int32_t)(z)->depth, .e = (int32_t)(z)->value_depth
#define GPU_ATTENTION_MATRIX_SPECS(gpu) \
    .matrix_m = (int32_t)(gpu)->limits->matrix[0], .matrix_n = (int32_t)(gpu)->limits->matrix[1], \
    .matrix_k = (int32_t)(gpu)->limits->matrix[2]
#define GPU_ATTENTION_PARAMS(z) \
    .n_heads = (z)->heads, .group_heads = (z)->group_heads, .n_rows = (z)->rows, .n_keys = (z)->keys, \
    .scale = gpu_attention_scale(z), .reach = (uint32_t)gpu_attention_reach(z)

/* Binds these and the mask to the buffers of that interface, and says where they begin and what their strides are. */
#define GPU_ATTENTION_BIND(gpu, d, z, interface, p, other) \
    do { \
        (p)->q_first = gpu_attention_bind(gpu, d, GPU_##interface##_q, gpu_input_index(gpu, 0), other, 0); \
        (p)->k_first = gpu_attention_bind(gpu, d, GPU_##interface##_k, gpu_input_index(gpu, 1), other, 0); \
        (p)->v_first = gpu_attention_bind(gpu, d, GPU_##interface##_v, gpu_input_index(gpu, 2), other, 0); \
        (p)->mask_first = gpu_attention_bind(gpu, d, GPU_##interface##_mask, gpu_input_index(gpu, 3), other, 0); \
        gpu_attention_steps(gpu_input(gpu, 0), z, (p)->q_step); \
        gpu_attention_steps(gpu_input(gpu, 1), z, (p)->k_step); \
        gpu_attention_steps(gpu_input(gpu, 2), z, (p)->v_step); \
        gpu_attention_mask_steps(gpu, (p)->mask_step); \
    } while (0)

#endif
