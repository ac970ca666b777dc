/* scaled_dot_product_attention: a workgroup per query row (few rows, any use), tiles of keys that many rows share, or
 * two matrix products with the scores in the workspace between them. */
#include "lower_matmul.h"

#include <math.h>

enum { SDPA_ROWS, SDPA_TILED, SDPA_MATMUL };
#define SDPA_NOTHING UINT32_MAX /* where absent lengths and starts lie */
enum { SDPA_BINDINGS = 8, SDPA_PARTS = 4 /* EACH_PART */, SDPA_TILE_LIMIT = 128, SDPA_SCORE_BYTES = 1 << 28 };

/* Bits of the kernels' FLAGS. */
enum { SDPA_WEIGHTS = 1, SDPA_SOFTCAP = 2 };

static const gpu_variant sdpa_variants[] = {[SDPA_ROWS] = {"rows", 0}, [SDPA_TILED] = {"tiled", 0},
                                             [SDPA_MATMUL] = {"matmul", .as_other = GPU_AS_OTHER("matmul")}};

typedef struct sdpa_sizes {
    uint32_t batch, heads, group_heads, rows, keys, depth, value_depth;
    pco_scaled_dot_product_attention_attrs attrs;
} sdpa_sizes;

static sdpa_sizes gpu_sdpa_sizes(const gpu_lowering *gpu)
{
    sdpa_sizes z;
    pco_scaled_dot_product_attention_attrs room;
    const pco_tensor *q = gpu_input(gpu, 0), *k = gpu_input(gpu, 1), *v = gpu_input(gpu, 2);
    if (gpu->node->op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD) {
        pco_scaled_dot_product_attention_backward_attrs back;
        back = *(const pco_scaled_dot_product_attention_backward_attrs *)gpu_attrs(gpu, &back, sizeof back);
        z.attrs = (pco_scaled_dot_product_attention_attrs){
            .scale = back.scale, .causal = back.causal, .window = back.window, .heads_first = back.heads_first};
    } else {
        z.attrs = *(const pco_scaled_dot_product_attention_attrs *)gpu_attrs(gpu, &room, sizeof room);
    }
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

static void gpu_sdpa_stride(const pco_tensor *x, int heads_first, int64_t stride[3])
{
    const int64_t last = x->shape[3], middle = x->shape[2] * last;
    stride[0] = x->shape[1] * middle;
    stride[1] = heads_first ? middle : last;
    stride[2] = heads_first ? last : middle;
}

/* ---- two products ----
 *
 * The product's kernel is chosen by the number of rows, so that a row in a prompt of another length may get other bits
 * (within its bound). Prompts in chunks have lengths, and take the other variants. */

/* Scores q k^T to the workspace, [B,H,S,T] in f32. */
static gpu_matmul gpu_sdpa_scores(const gpu_lowering *gpu, const sdpa_sizes *z)
{
    int64_t q[3], k[3];
    gpu_sdpa_stride(gpu_input(gpu, 0), z->attrs.heads_first != 0, q);
    gpu_sdpa_stride(gpu_input(gpu, 1), z->attrs.heads_first != 0, k);
    const int64_t group = z->group_heads, matrix = (int64_t)z->rows * z->keys;
    return (gpu_matmul){
        .a = gpu_input_index(gpu, 0), .b = gpu_input_index(gpu, 1), .bias = PCO_NONE, .c = PCO_NONE,
        .y = gpu_output_index(gpu, 0), .a_type = gpu_input(gpu, 0)->dtype, .b_type = gpu_input(gpu, 1)->dtype,
        .y_type = PCO_F32, .bias_type = -1, .trans_b = 1, .raw = 1,
        .m = z->rows, .n = z->keys, .k = z->depth, .lda = (uint64_t)q[2], .ldb = (uint64_t)k[2],
        .ldy = z->keys, .y_step = (uint64_t)matrix,
        .batch = {.rank = 3, .n = 3, .size = {z->batch, z->heads / z->group_heads, z->group_heads},
                  .stride = {{q[0], group * q[1], q[1]},
                             {k[0], k[1], 0},
                             {z->heads * matrix, group * matrix, matrix}}}};
}

/* Weights times values. Sequences of [B,S,H,E] are gone through one by one: their heads' steps are not in line. */
static gpu_matmul gpu_sdpa_join(const gpu_lowering *gpu, const sdpa_sizes *z)
{
    int64_t v[3], y[3];
    gpu_sdpa_stride(gpu_input(gpu, 2), z->attrs.heads_first != 0, v);
    gpu_sdpa_stride(gpu_output(gpu, 0), z->attrs.heads_first != 0, y);
    const int64_t group = z->group_heads, matrix = (int64_t)z->rows * z->keys;
    return (gpu_matmul){
        .b = gpu_input_index(gpu, 2), .bias = PCO_NONE, .c = PCO_NONE, .y = gpu_output_index(gpu, 0),
        .a_type = PCO_F32, .b_type = gpu_input(gpu, 2)->dtype, .y_type = gpu_output(gpu, 0)->dtype,
        .bias_type = -1, .scratch_a = 1,
        .m = z->rows, .n = z->value_depth, .k = z->keys, .lda = z->keys, .ldb = (uint64_t)v[2],
        .ldy = (uint64_t)y[2], .y_step = (uint64_t)y[1],
        .batch = {.rank = 4, .n = 3, .size = {z->batch, 1, z->heads / z->group_heads, z->group_heads},
                  .stride = {{z->heads * matrix, 0, group * matrix, matrix},
                             {v[0], 0, v[1], 0},
                             {y[0], 0, group * y[1], y[1]}}}};
}

/* Not with lengths: behind them there may be anything, and 0 times NaN is NaN. */
static int gpu_sdpa_is_product(const gpu_lowering *gpu, const sdpa_sizes *z)
{
    const uint64_t scores = (uint64_t)z->batch * z->heads * z->rows * z->keys;
    if (z->attrs.weights || gpu_input(gpu, 4) || scores == 0 || z->depth == 0 || z->value_depth == 0) return 0;
    if (scores * 4 > gpu_min(SDPA_SCORE_BYTES, gpu_window(gpu, 1)) || scores > INT32_MAX) return 0;
    const gpu_matmul first = gpu_sdpa_scores(gpu, z), second = gpu_sdpa_join(gpu, z);
    return gpu_matmul_choose(gpu, &first) != GPU_MATMUL_NAIVE && gpu_matmul_whole(gpu, &first) &&
           gpu_matmul_choose(gpu, &second) != GPU_MATMUL_NAIVE && gpu_matmul_whole(gpu, &second);
}

/* ---- which variant ---- */

static int gpu_sdpa_eligible(const gpu_lowering *gpu, uint32_t variant)
{
    const sdpa_sizes z = gpu_sdpa_sizes(gpu);
    if (variant == SDPA_ROWS) return 1;
    if (variant == SDPA_MATMUL) return gpu_sdpa_is_product(gpu, &z);
    const uint32_t larger = z.depth > z.value_depth ? z.depth : z.value_depth;
    return larger <= SDPA_TILE_LIMIT && !z.attrs.weights && gpu->limits->shared_memory >= 16384;
}

static uint32_t gpu_sdpa_choose(const gpu_lowering *gpu)
{
    /* On a CPU shared memory is no faster than other memory, and the products have the larger tiles. */
    if (gpu->software && gpu_sdpa_eligible(gpu, SDPA_MATMUL)) return SDPA_MATMUL;
    if (gpu_sdpa_sizes(gpu).rows < 16) return SDPA_ROWS;
    return gpu_sdpa_eligible(gpu, SDPA_TILED) ? SDPA_TILED : SDPA_ROWS;
}

static pco_status gpu_sdpa_supports(gpu_lowering *gpu)
{
    const sdpa_sizes z = gpu_sdpa_sizes(gpu);
    if (gpu->limits->max_bindings < SDPA_BINDINGS)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "attention binds %d buffers, and the device takes %u",
                        SDPA_BINDINGS, gpu->limits->max_bindings);
    const uint32_t limit = SDPA_PARTS * gpu_workgroup(gpu, 64);
    if (z.depth > limit || z.value_depth > limit)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "heads of %u and %u are larger than %u", z.depth, z.value_depth,
                        limit);
    return gpu->status;
}

/* Binds a whole tensor, or lets the slot see slot `other` when it is absent; its first element goes to a parameter.
 * Slots from 6 on are written. Lengths and starts that are absent are nowhere. */
static void gpu_sdpa_bind(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t slot, uint32_t tensor, uint32_t other,
                          uint32_t param)
{
    uint32_t first = param == 4 || param == 5 ? SDPA_NOTHING : 0;
    if (tensor == PCO_NONE || gpu_count(&gpu->part->tensors[tensor]) == 0)
        gpu_bind_again(gpu, d, slot, other);
    else
        first = gpu_bind_elements(gpu, d, slot, tensor, 0, gpu_count(&gpu->part->tensors[tensor]), slot >= 6);
    gpu_param(gpu, d, param, first);
}

static int32_t gpu_sdpa_flags(const sdpa_sizes *z)
{
    return (z->attrs.weights ? SDPA_WEIGHTS : 0) | (z->attrs.softcap > 0 ? SDPA_SOFTCAP : 0);
}

static int32_t gpu_sdpa_reach(const sdpa_sizes *z)
{
    const int64_t window = z->attrs.window > INT32_MAX / 2 ? INT32_MAX / 2 : z->attrs.window;
    if (z->attrs.causal) return ~(window > 0 ? (int32_t)window : INT32_MAX);
    return window > 0 ? (int32_t)window : 0;
}

/* Strides of [B,H,S,D] or [B,S,H,D] per sequence, head and row. */
static void gpu_sdpa_strides(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t param, const pco_tensor *x,
                             int heads_first)
{
    int64_t stride[3];
    gpu_sdpa_stride(x, heads_first, stride);
    for (uint32_t i = 0; i < 3; i++) gpu_param(gpu, d, param + i, (uint32_t)stride[i]);
}

/* What all kernels have in common: constants 5 and 6 and parameters 20 to 30. */
static void gpu_sdpa_describe(gpu_lowering *gpu, pco_gpu_dispatch *d, const sdpa_sizes *z)
{
    const pco_tensor *mask = gpu_input(gpu, 3);
    uint32_t step = 1;
    gpu_spec(gpu, d, 5, mask ? (int32_t)mask->dtype : -1);
    gpu_spec(gpu, d, 6, gpu_sdpa_flags(z));
    for (uint32_t i = 4; mask && i-- > 0;) {
        gpu_param(gpu, d, 20 + i, mask->shape[i] == 1 ? 0 : step);
        step *= (uint32_t)mask->shape[i];
    }
    gpu_param(gpu, d, 24, z->heads);
    gpu_param(gpu, d, 25, z->group_heads);
    gpu_param(gpu, d, 26, z->rows);
    gpu_param(gpu, d, 27, z->keys);
    gpu_param_f(gpu, d, 28, (float)(z->attrs.scale != 0 ? z->attrs.scale : 1 / sqrt((double)z->depth)));
    gpu_param_f(gpu, d, 29, (float)z->attrs.softcap);
    gpu_param(gpu, d, 30, (uint32_t)gpu_sdpa_reach(z));
}

/* Kernels that read queries, keys and values also have constants 3, 4, 7 and 8. */
static void gpu_sdpa_describe_heads(gpu_lowering *gpu, pco_gpu_dispatch *d, const sdpa_sizes *z)
{
    gpu_sdpa_describe(gpu, d, z);
    gpu_spec(gpu, d, 3, (int32_t)gpu_input(gpu, 0)->dtype);
    gpu_spec(gpu, d, 4, (int32_t)gpu_input(gpu, 1)->dtype);
    gpu_spec(gpu, d, 7, (int32_t)z->depth);
    gpu_spec(gpu, d, 8, (int32_t)z->value_depth);
}

/* Scores to weights, in the workspace. */
static pco_status gpu_sdpa_weigh(gpu_lowering *gpu, const sdpa_sizes *z)
{
    const uint64_t rows = (uint64_t)z->batch * z->heads * z->rows;
    const int serial = gpu->software;
    const uint32_t local = gpu_workgroup(gpu, 64);
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, serial ? GPU_KERNEL_attention_scores_serial : GPU_KERNEL_attention_scores_shared, local, 1, 1);
    gpu_sdpa_describe(gpu, &d, z);
    gpu_spec(gpu, &d, 9, serial);
    gpu_param(gpu, &d, 0, gpu_bind_workspace(gpu, &d, 0, 0, rows * z->keys * 4, 1) / 4);
    gpu_sdpa_bind(gpu, &d, 1, gpu_input_index(gpu, 3), 0, 3);
    gpu_sdpa_bind(gpu, &d, 2, gpu_input_index(gpu, 5), 0, 5);
    gpu_param(gpu, &d, 31, (uint32_t)rows);
    return gpu_emit(gpu, &d, serial ? gpu_div_up(rows, local) : rows);
}

static pco_status gpu_sdpa_products(gpu_lowering *gpu, const sdpa_sizes *z)
{
    const gpu_matmul scores = gpu_sdpa_scores(gpu, z), join = gpu_sdpa_join(gpu, z);
    pco_status status = gpu_emit_product(gpu, &scores);
    if (status == PCO_OK) status = gpu_sdpa_weigh(gpu, z);
    return status == PCO_OK ? gpu_emit_product(gpu, &join) : status;
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
    const pco_tensor *y = gpu_output(gpu, 0);
    if (gpu_count(y) == 0 && !(z.attrs.weights && gpu_count(gpu_output(gpu, 1)))) return gpu->status;
    if (gpu->variant == SDPA_MATMUL) return gpu_sdpa_products(gpu, &z);
    pco_gpu_dispatch d;
    uint32_t local;
    const uint32_t kernel = gpu_sdpa_kernel(gpu, &z, &local);
    gpu_begin(gpu, &d, kernel, local, 1, 1);
    gpu_sdpa_describe_heads(gpu, &d, &z);
    for (uint32_t i = 0; i < 6; i++) gpu_sdpa_bind(gpu, &d, i, gpu_input_index(gpu, i), 0, i);
    gpu_sdpa_bind(gpu, &d, 6, gpu_output_index(gpu, 0), 0, 6);
    if (gpu->variant == SDPA_ROWS)
        gpu_sdpa_bind(gpu, &d, 7, z.attrs.weights ? gpu_output_index(gpu, 1) : PCO_NONE, 6, 7);
    const int heads_first = z.attrs.heads_first != 0;
    gpu_sdpa_strides(gpu, &d, 8, gpu_input(gpu, 0), heads_first);
    gpu_sdpa_strides(gpu, &d, 11, gpu_input(gpu, 1), heads_first);
    gpu_sdpa_strides(gpu, &d, 14, gpu_input(gpu, 2), heads_first);
    gpu_sdpa_strides(gpu, &d, 17, y, heads_first);
    const uint64_t heads = (uint64_t)z.batch * z.heads;
    const uint64_t groups = gpu->variant == SDPA_ROWS ? heads * z.rows : heads * gpu_div_up(z.rows, local);
    if (groups > UINT32_MAX) return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "there are too many rows");
    gpu_param(gpu, &d, 31, (uint32_t)groups);
    return gpu_emit(gpu, &d, groups);
}

const gpu_lowerer gpu_lower_sdpa = {.variants = sdpa_variants,
                                    .n_variants = 3,
                                    .eligible = gpu_sdpa_eligible,
                                    .choose = gpu_sdpa_choose,
                                    .supports = gpu_sdpa_supports,
                                    .lower = gpu_lower_sdpa_node};

/* ---- its gradients ---- */

/* Words that the first kernel leaves for each row, and rows or keys of a workgroup; see attention_backward.kern. */
enum { SDPA_STAT_WORDS = 5, SDPA_BLOCK = 4, SDPA_FEW_SCORES = 1 << 15 };

/* Binds a whole tensor, or slot `other` again where there is nothing; its first element goes to parameter `slot`, if it
 * has one. */
static void gpu_sdpa_see(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t slot, uint32_t tensor, uint32_t other,
                         int write)
{
    const uint64_t count = tensor == PCO_NONE ? 0 : gpu_count(&gpu->part->tensors[tensor]);
    if (count == 0)
        gpu_bind_again(gpu, d, slot, other);
    else
        gpu_param(gpu, d, slot, gpu_bind_elements(gpu, d, slot, tensor, 0, count, write));
}

static uint32_t gpu_sdpa_key_heads(const gpu_lowering *gpu, const sdpa_sizes *z)
{
    return (uint32_t)gpu_input(gpu, 1)->shape[z->attrs.heads_first ? 1 : 2];
}

/* One of the three kernels over `groups` blocks of rows or keys; results go to slot 5 and, of keys, 7. */
static pco_status gpu_sdpa_back(gpu_lowering *gpu, const sdpa_sizes *z, uint32_t kernel, uint64_t groups)
{
    const uint64_t words = (uint64_t)z->batch * z->heads * z->rows * SDPA_STAT_WORDS;
    const int first = kernel == GPU_KERNEL_attention_backward_stats;
    const int keys = kernel == GPU_KERNEL_attention_backward_keys;
    const uint32_t known = first ? 0 : 5, stats = first ? 7 : 4, heads_first = z->attrs.heads_first != 0;
    if (groups == 0) return gpu->status;
    if (groups > UINT32_MAX) return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "there are too many rows or keys");
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, kernel, gpu_workgroup(gpu, 64), 1, 1);
    gpu_sdpa_describe_heads(gpu, &d, z);
    if (!first) gpu_sdpa_see(gpu, &d, 5, gpu_output_index(gpu, keys ? 1 : 0), 5, 1);
    if (keys) gpu_sdpa_see(gpu, &d, 7, gpu_output_index(gpu, 2), 5, 1);
    for (uint32_t i = 0; i < 4; i++) gpu_sdpa_see(gpu, &d, i, gpu_input_index(gpu, i), known, 0);
    for (uint32_t i = 4; i < 6 && first; i++) gpu_sdpa_bind(gpu, &d, i, gpu_input_index(gpu, i), known, i);
    gpu_sdpa_see(gpu, &d, 6, gpu_input_index(gpu, 6), known, 0);
    if (words)
        gpu_param(gpu, &d, stats, gpu_bind_workspace(gpu, &d, stats, 0, words * 4, first) / 4);
    else
        gpu_bind_again(gpu, &d, stats, known);
    for (uint32_t i = 0; i < 3; i++) gpu_sdpa_strides(gpu, &d, 8 + 3 * i, gpu_input(gpu, i), (int)heads_first);
    gpu_sdpa_strides(gpu, &d, 17, gpu_input(gpu, 6), (int)heads_first);
    gpu_param(gpu, &d, 29, gpu_sdpa_key_heads(gpu, z));
    gpu_param(gpu, &d, 31, (uint32_t)groups);
    return gpu_emit(gpu, &d, groups);
}

static pco_status gpu_lower_sdpa_backward_node(gpu_lowering *gpu)
{
    const sdpa_sizes z = gpu_sdpa_sizes(gpu);
    const uint64_t rows = (uint64_t)z.batch * z.heads * gpu_div_up(z.rows, SDPA_BLOCK);
    const uint64_t keys = (uint64_t)z.batch * gpu_sdpa_key_heads(gpu, &z) * gpu_div_up(z.keys, SDPA_BLOCK);
    pco_status status = gpu_sdpa_back(gpu, &z, GPU_KERNEL_attention_backward_stats, rows);
    if (!status) status = gpu_sdpa_back(gpu, &z, GPU_KERNEL_attention_backward_queries, rows);
    return status ? status : gpu_sdpa_back(gpu, &z, GPU_KERNEL_attention_backward_keys, keys);
}

/* Where invocations are lanes of a processor's vectors each operand costs a load per lane, and the products of the
 * decomposition, which have register tiles, are faster (0.08 of it over 1,024 positions on lavapipe). It is refused
 * there, but where it costs little, and where the decomposition's scores would take more memory than is given them. */
static pco_status gpu_sdpa_backward_supports(gpu_lowering *gpu)
{
    const sdpa_sizes z = gpu_sdpa_sizes(gpu);
    const uint64_t scores = (uint64_t)z.batch * z.heads * z.rows * z.keys;
    if (gpu->software && scores > SDPA_FEW_SCORES && scores * 4 <= SDPA_SCORE_BYTES)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "a processor is faster step by step with %llu scores",
                        (unsigned long long)scores);
    return gpu_sdpa_supports(gpu);
}

const gpu_lowerer gpu_lower_sdpa_backward = {.supports = gpu_sdpa_backward_supports,
                                             .lower = gpu_lower_sdpa_backward_node};
