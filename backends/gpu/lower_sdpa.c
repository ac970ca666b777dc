/* scaled_dot_product_attention: a workgroup per query row (few rows, any use), or tiles shared by many rows. */
#include "lower.h"

#include <math.h>

enum { SDPA_ROWS, SDPA_TILED, SDPA_BINDINGS = 8, SDPA_ROW_LIMIT = 256, SDPA_TILE_LIMIT = 128 };

/* Bits of the kernels' FLAGS. */
enum { SDPA_CAUSAL = 1, SDPA_LENGTHS = 2, SDPA_STARTS = 4, SDPA_WEIGHTS = 8, SDPA_SOFTCAP = 16, SDPA_WINDOW = 32 };

static const gpu_variant sdpa_variants[] = {[SDPA_ROWS] = {"rows", 0}, [SDPA_TILED] = {"tiled", 0}};

typedef struct sdpa_sizes {
    uint32_t batch, heads, group_heads, rows, keys, depth, value_depth;
    pco_scaled_dot_product_attention_attrs attrs;
} sdpa_sizes;

static sdpa_sizes gpu_sdpa_sizes(const gpu_lowering *gpu)
{
    sdpa_sizes z;
    pco_scaled_dot_product_attention_attrs room;
    const pco_tensor *q = gpu_input(gpu, 0), *k = gpu_input(gpu, 1), *v = gpu_input(gpu, 2);
    z.attrs = *(const pco_scaled_dot_product_attention_attrs *)gpu_attrs(gpu, &room, sizeof room);
    const int head = z.attrs.heads_first ? 1 : 2, row = z.attrs.heads_first ? 2 : 1;
    z.batch = (uint32_t)q->shape[0];
    z.heads = (uint32_t)q->shape[head];
    z.rows = (uint32_t)q->shape[row];
    z.keys = (uint32_t)k->shape[row];
    z.group_heads = k->shape[head] ? (uint32_t)(q->shape[head] / k->shape[head]) : 1;
    z.depth = (uint32_t)q->shape[3];
    z.value_depth = (uint32_t)v->shape[3];
    return z;
}

static int gpu_sdpa_eligible(const gpu_lowering *gpu, uint32_t variant)
{
    const sdpa_sizes z = gpu_sdpa_sizes(gpu);
    if (variant == SDPA_ROWS) return 1;
    const uint32_t larger = z.depth > z.value_depth ? z.depth : z.value_depth;
    return larger <= SDPA_TILE_LIMIT && !z.attrs.weights && gpu->limits->shared_memory >= 16384;
}

static uint32_t gpu_sdpa_choose(const gpu_lowering *gpu)
{
    return gpu_sdpa_sizes(gpu).rows >= 16 && gpu_sdpa_eligible(gpu, SDPA_TILED) ? SDPA_TILED : SDPA_ROWS;
}

static pco_status gpu_sdpa_supports(gpu_lowering *gpu)
{
    const sdpa_sizes z = gpu_sdpa_sizes(gpu);
    if (gpu->limits->max_bindings < SDPA_BINDINGS)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "attention binds %d buffers, and the device takes %u",
                        SDPA_BINDINGS, gpu->limits->max_bindings);
    if (z.depth > SDPA_ROW_LIMIT || z.value_depth > SDPA_ROW_LIMIT)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "heads of %u and %u are larger than %d", z.depth, z.value_depth,
                        SDPA_ROW_LIMIT);
    return gpu->status;
}

/* Binds a whole tensor, or lets the slot see slot `other` when it is absent; its first element is parameter `slot`. */
static void gpu_sdpa_bind(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t slot, uint32_t tensor, uint32_t other,
                          int write)
{
    uint32_t first = 0;
    if (tensor == PCO_NONE || gpu_count(&gpu->part->tensors[tensor]) == 0)
        gpu_bind_again(gpu, d, slot, other);
    else
        first = gpu_bind_elements(gpu, d, slot, tensor, 0, gpu_count(&gpu->part->tensors[tensor]), write);
    gpu_param(gpu, d, slot, first);
}

/* Strides of [B,H,S,D] or [B,S,H,D] per sequence, head and row. */
static void gpu_sdpa_strides(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t param, const pco_tensor *x, int heads_first)
{
    const uint32_t last = (uint32_t)x->shape[3], middle = (uint32_t)x->shape[2] * last;
    gpu_param(gpu, d, param, (uint32_t)x->shape[1] * middle);
    gpu_param(gpu, d, param + 1, heads_first ? middle : last);
    gpu_param(gpu, d, param + 2, heads_first ? last : middle);
}

static int32_t gpu_sdpa_flags(const gpu_lowering *gpu, const sdpa_sizes *z)
{
    return (z->attrs.causal ? SDPA_CAUSAL : 0) | (gpu_input(gpu, 4) ? SDPA_LENGTHS : 0) |
           (gpu_input(gpu, 5) ? SDPA_STARTS : 0) | (z->attrs.weights ? SDPA_WEIGHTS : 0) |
           (z->attrs.softcap > 0 ? SDPA_SOFTCAP : 0) | (z->attrs.window > 0 ? SDPA_WINDOW : 0);
}

static uint32_t gpu_sdpa_kernel(const gpu_lowering *gpu, const sdpa_sizes *z, uint32_t *local)
{
    const uint32_t larger = z->depth > z->value_depth ? z->depth : z->value_depth;
    *local = gpu_workgroup(gpu, gpu->variant == SDPA_ROWS ? 64 : 32);
    if (gpu->variant == SDPA_ROWS) return GPU_KERNEL_attention_rows;
    return larger <= 64 ? GPU_KERNEL_attention_tiled_64 : GPU_KERNEL_attention_tiled_128;
}

static pco_status gpu_lower_sdpa_node(gpu_lowering *gpu)
{
    const sdpa_sizes z = gpu_sdpa_sizes(gpu);
    const pco_tensor *mask = gpu_input(gpu, 3), *y = gpu_output(gpu, 0);
    if (gpu_count(y) == 0 && !(z.attrs.weights && gpu_count(gpu_output(gpu, 1)))) return gpu->status;
    pco_gpu_dispatch d;
    uint32_t local;
    const uint32_t kernel = gpu_sdpa_kernel(gpu, &z, &local);
    gpu_begin(gpu, &d, kernel, local, 1, 1);
    gpu_spec(gpu, &d, 3, (int32_t)gpu_input(gpu, 0)->dtype);
    gpu_spec(gpu, &d, 4, (int32_t)gpu_input(gpu, 1)->dtype);
    gpu_spec(gpu, &d, 5, mask ? (int32_t)mask->dtype : -1);
    gpu_spec(gpu, &d, 6, gpu_sdpa_flags(gpu, &z));
    gpu_spec(gpu, &d, 7, (int32_t)z.depth);
    gpu_spec(gpu, &d, 8, (int32_t)z.value_depth);
    gpu_sdpa_bind(gpu, &d, 0, gpu_input_index(gpu, 0), 0, 0);
    for (uint32_t i = 1; i < 6; i++) gpu_sdpa_bind(gpu, &d, i, gpu_input_index(gpu, i), 0, 0);
    gpu_sdpa_bind(gpu, &d, 6, gpu_output_index(gpu, 0), 0, 1);
    if (gpu->variant == SDPA_ROWS) gpu_sdpa_bind(gpu, &d, 7, z.attrs.weights ? gpu_output_index(gpu, 1) : PCO_NONE, 6, 1);
    const int heads_first = z.attrs.heads_first != 0;
    gpu_sdpa_strides(gpu, &d, 8, gpu_input(gpu, 0), heads_first);
    gpu_sdpa_strides(gpu, &d, 11, gpu_input(gpu, 1), heads_first);
    gpu_sdpa_strides(gpu, &d, 14, gpu_input(gpu, 2), heads_first);
    gpu_sdpa_strides(gpu, &d, 17, y, heads_first);
    uint32_t step = 1;
    for (uint32_t i = 4; mask && i-- > 0;) {
        gpu_param(gpu, &d, 20 + i, mask->shape[i] == 1 ? 0 : step);
        step *= (uint32_t)mask->shape[i];
    }
    gpu_param(gpu, &d, 24, z.heads);
    gpu_param(gpu, &d, 25, z.group_heads);
    gpu_param(gpu, &d, 26, z.rows);
    gpu_param(gpu, &d, 27, z.keys);
    gpu_param_f(gpu, &d, 28, (float)(z.attrs.scale != 0 ? z.attrs.scale : 1 / sqrt((double)z.depth)));
    gpu_param_f(gpu, &d, 29, (float)z.attrs.softcap);
    gpu_param(gpu, &d, 30, (uint32_t)(z.attrs.window > INT32_MAX / 2 ? INT32_MAX / 2 : z.attrs.window));
    const uint64_t heads = (uint64_t)z.batch * z.heads;
    const uint64_t groups = gpu->variant == SDPA_ROWS ? heads * z.rows : heads * gpu_div_up(z.rows, local);
    if (groups > UINT32_MAX) return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "there are too many rows");
    gpu_param(gpu, &d, 31, (uint32_t)groups);
    return gpu_emit(gpu, &d, groups);
}

const gpu_lowerer gpu_lower_sdpa = {.variants = sdpa_variants,
                                    .n_variants = 2,
                                    .eligible = gpu_sdpa_eligible,
                                    .choose = gpu_sdpa_choose,
                                    .supports = gpu_sdpa_supports,
                                    .lower = gpu_lower_sdpa_node};
