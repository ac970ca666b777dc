/* scaled_dot_product_attention: a workgroup per query row (few rows, any use), or per part of the keys of few rows,
 * tiles of keys that many rows share, or two matrix products with the scores in the workspace between them. */
#include "lower_attention.h"
#include "lower_matmul.h"
#include "rows.h"

#include <math.h>

enum {
    ATTENTION_ROWS,
    ATTENTION_TILED,
    ATTENTION_MATMUL,
    ATTENTION_SPLIT,
    ATTENTION_MATRIX,
    ATTENTION_MATRIX2,
    ATTENTION_N_VARIANTS
};
enum {
    ATTENTION_BINDINGS = 8,
    ATTENTION_PARTS = 4,     /* EACH_PART */
    ATTENTION_FEW_ROWS = 16, /* from which on tiles pay */
};

/* Keys of a part and what it leaves beside E sums: SPAN and PART_WORDS of attention_split.kern. Cases with fewer keys
 * show nothing that others do not; from so many on parts are shared out. */
enum {
    ATTENTION_SPAN = 128,
    ATTENTION_PART_WORDS = 2,
    ATTENTION_SPLIT_LOCAL = 64,
    ATTENTION_SPLIT_LEAST = 64,
    ATTENTION_SPLIT_FROM = 2 * ATTENTION_SPAN,
    ATTENTION_SPLIT_BYTES = 1 << 26,
};

enum { ATTENTION_TILED_DEPTH = 0, ATTENTION_TILED_ROWS = 1 };
enum { ATTENTION_SPLIT_UNROLL = 0, ATTENTION_SPLIT_ROWS = 1 };

static const gpu_variant attention_variants[] = {
    [ATTENTION_ROWS] = {"rows", 0},
    /* rows: of an invocation, where values have 65 to 128 elements and the device is no processor */
    [ATTENTION_TILED] =
        {"tiled", .has_forms = 1,
         .constants =
             {[ATTENTION_TILED_DEPTH] = {"depth", 64, {64, 128}}, [ATTENTION_TILED_ROWS] = {"rows", 2, {2, 4}}}},
    [ATTENTION_MATMUL] = {"matmul", .has_forms = 1},
    /* unroll 1: one vector of a key at a time */
    [ATTENTION_SPLIT] = {"split", .constants = {[ATTENTION_SPLIT_UNROLL] = {"unroll", 2, {1, 2}, .small = 1},
                                                [ATTENTION_SPLIT_ROWS] = {"rows", 4, {1, 4}, .smallest = 1}}},
    [ATTENTION_MATRIX] = {"matrix", PCO_GPU_NEEDS_COOPERATIVE_MATRIX},
    [ATTENTION_MATRIX2] = {"matrix2", PCO_GPU_NEEDS_COOPERATIVE_MATRIX | PCO_GPU_NEEDS_COOPERATIVE_MATRIX2}};

uint64_t gpu_attention_parts(uint64_t size, uint64_t width)
{
    return ATTENTION_PARTS + width * gpu_div_up(size, width);
}

gpu_attention_sizes gpu_attention_read(const gpu_lowering *gpu)
{
    gpu_attention_sizes z;
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

static void attention_stride(const pco_tensor *x, int heads_first, int64_t stride[3])
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
static gpu_matmul attention_scores(const gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    int64_t q[3], k[3];
    attention_stride(gpu_input(gpu, 0), z->attrs.heads_first != 0, q);
    attention_stride(gpu_input(gpu, 1), z->attrs.heads_first != 0, k);
    const int64_t group = z->group_heads, matrix = (int64_t)z->rows * z->keys;
    return (gpu_matmul){
        .a = gpu_input_index(gpu, 0),
        .b = gpu_input_index(gpu, 1),
        .bias = PCO_NONE,
        .c = PCO_NONE,
        .y = PCO_NONE, /* it goes to the workspace */
        .a_type = gpu_input(gpu, 0)->dtype,
        .b_type = gpu_input(gpu, 1)->dtype,
        .y_type = PCO_F32,
        .bias_type = -1,
        .trans_b = 1,
        .raw = 1,
        .m = z->rows,
        .n = z->keys,
        .k = z->depth,
        .lda = (uint64_t)q[2],
        .ldb = (uint64_t)k[2],
        .ldy = z->keys,
        .y_step = (uint64_t)matrix,
        .batch = {
            .rank = 3,
            .n = 3,
            .size = {z->batch, z->heads / z->group_heads, z->group_heads},
            .stride = {{q[0], group * q[1], q[1]}, {k[0], k[1], 0}, {z->heads * matrix, group * matrix, matrix}}}};
}

/* Weights times values. Sequences of [B,S,H,E] are gone through one by one: their heads' steps are not in line. */
static gpu_matmul attention_join(const gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    int64_t v[3], y[3];
    attention_stride(gpu_input(gpu, 2), z->attrs.heads_first != 0, v);
    attention_stride(gpu_output(gpu, 0), z->attrs.heads_first != 0, y);
    const int64_t group = z->group_heads, matrix = (int64_t)z->rows * z->keys;
    return (gpu_matmul){.b = gpu_input_index(gpu, 2),
                        .bias = PCO_NONE,
                        .c = PCO_NONE,
                        .y = gpu_output_index(gpu, 0),
                        .a_type = PCO_F32,
                        .b_type = gpu_input(gpu, 2)->dtype,
                        .y_type = gpu_output(gpu, 0)->dtype,
                        .bias_type = -1,
                        .scratch_a = 1,
                        .m = z->rows,
                        .n = z->value_depth,
                        .k = z->keys,
                        .lda = z->keys,
                        .ldb = (uint64_t)v[2],
                        .ldy = (uint64_t)y[2],
                        .y_step = (uint64_t)y[1],
                        .batch = {.rank = 4,
                                  .n = 3,
                                  .size = {z->batch, 1, z->heads / z->group_heads, z->group_heads},
                                  .stride = {{z->heads * matrix, 0, group * matrix, matrix},
                                             {v[0], 0, v[1], 0},
                                             {y[0], 0, group * y[1], y[1]}}}};
}

/* Is each key seen by some row, whatever lengths, starts and a mask hold? */
static int attention_is_all_seen(const gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    if (gpu_input(gpu, 3) || gpu_input(gpu, 4)) return 0;
    if (!z->attrs.causal && z->attrs.window <= 0) return 1;
    const int64_t ahead = z->attrs.causal ? 0 : z->attrs.window - 1;
    return !gpu_input(gpu, 5) && (ahead >= z->keys || (int64_t)z->keys <= (int64_t)z->rows + ahead);
}

/* Not where there may be keys that no row sees: those may be anything, and 0 times NaN is NaN. */
static int attention_is_product(const gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    const uint64_t scores = (uint64_t)z->batch * z->heads * z->rows * z->keys;
    if (z->attrs.weights || !attention_is_all_seen(gpu, z) || scores == 0 || z->depth == 0 || z->value_depth == 0)
        return 0;
    if (scores * 4 > gpu_min(GPU_ATTENTION_SCORE_BYTES, gpu_window(gpu, 1))) return 0;
    const gpu_matmul first = attention_scores(gpu, z), second = attention_join(gpu, z);
    return gpu_rows_eligible(gpu, GPU_SHARED, z->keys) && gpu_matmul_choose(gpu, &first) != GPU_MATMUL_NAIVE &&
           gpu_matmul_whole(gpu, &first) && gpu_matmul_choose(gpu, &second) != GPU_MATMUL_NAIVE &&
           gpu_matmul_whole(gpu, &second);
}

/* ---- which variant ---- */

/* Kernels whose rows share tiles of keys. Those for GPUs have a workgroup of one size, which takes `rows` rows along
 * `keys` keys at a time, in steps of `step` of them. Those for processors have an invocation for each row, whose query
 * and result are arrays: for them a load takes many instructions, and registers lie in memory anyway. */
typedef struct attention_tile {
    uint32_t kernel, most; /* elements of a value, and for processors of a key */
    uint32_t x, y;         /* invocations */
    uint32_t rows, keys, step, shared_memory;
} attention_tile;

static int attention_fits(const gpu_lowering *gpu, uint32_t x, uint32_t y)
{
    return !gpu_smallest_tiles(gpu->limits) && x * y <= gpu->limits->max_workgroup && x <= gpu->limits->max_local[0] &&
           y <= gpu->limits->max_local[1];
}

/* The smallest that fits and is for values of so many elements as the variant's `depth` says, or NULL. */
static const attention_tile *attention_tile_of(const gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    static const attention_tile TILES[] = {{GPU_KERNEL_attention_shared_64, 64, 16, 8, 32, 64, 16, 16384},
                                           {GPU_KERNEL_attention_shared_rows4_128, 128, 16, 8, 32, 64, 8, 16384},
                                           {GPU_KERNEL_attention_shared_128, 128, 16, 16, 32, 64, 8, 16384},
                                           {GPU_KERNEL_attention_shared_256, 256, 32, 8, 16, 64, 8, 16384},
                                           {GPU_KERNEL_attention_tiled_64, 64, 32, 1, 32, 32, 8, 16384},
                                           {GPU_KERNEL_attention_tiled_128, 128, 32, 1, 32, 16, 8, 16384}};
    enum { FOUR_ROWS = 1, N_FOR_GPUS = 4, N_TILES = sizeof TILES / sizeof *TILES };
    const gpu_variant *tiled = &attention_variants[ATTENTION_TILED];
    const uint32_t least = gpu_tuned(gpu, tiled, ATTENTION_TILED_DEPTH);
    const int four_rows = gpu_tuned(gpu, tiled, ATTENTION_TILED_ROWS) == 4;
    const uint32_t first = gpu->software ? N_FOR_GPUS : 0, end = gpu->software ? N_TILES : N_FOR_GPUS;
    for (uint32_t i = first; i < end; i++) {
        const attention_tile *tile = &TILES[i];
        if (i == FOUR_ROWS && !four_rows) continue;
        const uint32_t size = gpu->software && z->depth > z->value_depth ? z->depth : z->value_depth;
        if (size <= tile->most && tile->most >= least && gpu->limits->shared_memory >= tile->shared_memory &&
            (gpu->software || attention_fits(gpu, tile->x, tile->y)))
            return tile;
    }
    return NULL;
}

int gpu_attention_has_matrices(const gpu_lowering *gpu)
{
    const uint32_t *matrix = gpu->limits->matrix;
    return gpu_input(gpu, 0)->dtype == PCO_F16 && gpu_input(gpu, 1)->dtype == PCO_F16 && gpu_has_matrix_groups(gpu) &&
           matrix[0] <= 16 && matrix[1] <= 16 && matrix[2] <= 16;
}

/* attention_matrix.kern: two by two subgroups, for f16 alone. Scores are f32, weights two f16, lines have a vector of
 * 16 bytes to spare, and each row has a number for each column of a matrix. */
static int attention_matrix_tile(const gpu_lowering *gpu, const gpu_attention_sizes *z, attention_tile *tile)
{
    enum { KEYS = 32 };
    const uint32_t *matrix = gpu->limits->matrix, x = 4 * gpu->limits->matrix_width, rows = 2 * matrix[0];
    if (!gpu_attention_has_matrices(gpu) || x % rows || x < KEYS || z->value_depth > 8 * 2 * matrix[1]) return 0;
    const uint32_t each = z->value_depth > 4 * 2 * matrix[1] ? 8 : z->value_depth > 2 * 2 * matrix[1] ? 4 : 2;
    const uint32_t depth = (uint32_t)gpu_div_up(z->depth, 16) * 32 + 16, values = each * 2 * matrix[1] * 2 + 16;
    const uint32_t kernel = each == 8   ? GPU_KERNEL_attention_matrix_8
                            : each == 4 ? GPU_KERNEL_attention_matrix_4
                                        : GPU_KERNEL_attention_matrix_2;
    *tile = (attention_tile){
        .kernel = kernel, .most = each * 2 * matrix[1], .x = x, .y = 1, .rows = rows, .keys = KEYS, .step = KEYS};
    tile->shared_memory = rows * depth + KEYS * (depth > values ? depth : values) + rows * 2 * (2 * KEYS + 16) +
                          rows * (4 * KEYS + 16) + rows * matrix[1] * 4 + (x + KEYS) * 4;
    return z->depth <= 256 && tile->shared_memory <= gpu->limits->shared_memory;
}

/* attention_matrix2.kern: four subgroups side by side, which leave scores and weights in matrices. A matrix of weights
 * is multiplied as it is, so a product has as many terms as columns. Two matrices of f32 of each subgroup lie in shared
 * memory. */
static int attention_matrix2_tile(const gpu_lowering *gpu, const gpu_attention_sizes *z, attention_tile *tile)
{
    const uint32_t *matrix = gpu->limits->matrix, x = 4 * gpu->limits->matrix_width;
    if (!gpu_attention_has_matrices(gpu) || matrix[1] != matrix[2] || z->value_depth > 16 * matrix[1]) return 0;
    const uint32_t rows = 4 * matrix[0], keys = 2 * matrix[1];
    if (x < keys) return 0; /* an invocation looks at a key */
    const uint32_t each = z->value_depth > 8 * matrix[1] ? 16 : z->value_depth > 4 * matrix[1] ? 8 : 4;
    const uint32_t depth = (uint32_t)gpu_div_up(z->depth, 16) * 32 + 16, values = each * matrix[1] * 2 + 16;
    const uint32_t kernel = each == 16  ? GPU_KERNEL_attention_matrix2_16
                            : each == 8 ? GPU_KERNEL_attention_matrix2_8
                                        : GPU_KERNEL_attention_matrix2_4;
    *tile = (attention_tile){
        .kernel = kernel, .most = each * matrix[1], .x = x, .y = 1, .rows = rows, .keys = keys, .step = keys};
    tile->shared_memory =
        rows * depth + keys * (depth > values ? depth : values) + 4 * 2 * matrix[0] * matrix[1] * 4 + keys * 4;
    return z->depth <= 256 && tile->shared_memory <= gpu->limits->shared_memory;
}

/* The tile of one of the variants of matrices; 0 where the device or the problem has none. */
static int attention_of_matrices(const gpu_lowering *gpu, uint32_t variant, const gpu_attention_sizes *z,
                                 attention_tile *tile)
{
    return variant == ATTENTION_MATRIX2  ? attention_matrix2_tile(gpu, z, tile)
           : variant == ATTENTION_MATRIX ? attention_matrix_tile(gpu, z, tile)
                                         : 0;
}

/* How often an invocation goes round loops (gpu_rounds_fit), at most: attention_rows goes over D and over a workgroup's
 * keys for each part of a value; attention_tiled fills its tiles and goes over D and E for every eight keys;
 * attention_shared goes over its tile's steps of D and of the keys, each filled by all, and twice over a part of a
 * row's scores. */
static uint64_t attention_rounds_rows(const gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    const uint64_t width = gpu_workgroup(gpu, 64), blocks = gpu_div_up(z->keys, width), joins = 16;
    return blocks * (1 + z->depth + joins + gpu_attention_parts(z->value_depth, width)) +
           (z->attrs.weights ? blocks * (1 + z->depth) : 0) + z->depth + ATTENTION_PARTS;
}

static uint64_t attention_rounds_tiled(const gpu_lowering *gpu, const gpu_attention_sizes *z,
                                       const attention_tile *tile)
{
    const uint64_t width = gpu->software ? gpu_workgroup(gpu, tile->x) : tile->x * tile->y, keys = tile->keys;
    const uint64_t tiles = gpu_div_up(z->keys + keys, keys), fours = gpu_div_up(z->value_depth, 4);
    if (gpu->software)
        return tiles * (1 + gpu_div_up(z->depth * keys / 4, width) + gpu_div_up(fours * keys, width) +
                        keys / 8 * (1 + z->depth + fours)) +
               z->depth + fours + z->value_depth;
    const uint64_t parts = width / tile->rows, fill = 16 * (tile->rows + keys) / width + 16;
    return tiles * (1 + gpu_div_up(z->depth, 16) * (1 + fill) + parts + 2 * keys / parts +
                    keys / tile->step * (1 + tile->step * tile->most / width + tile->step)) +
           8 * (parts + 8);
}

/* Queries; for each tile keys and values, hidden ones again, the steps of the products, and parts of rows; results. */
static uint64_t attention_rounds_matrix(const gpu_attention_sizes *z, const attention_tile *tile)
{
    const uint64_t lines = gpu_max(tile->keys, tile->rows);
    const uint64_t fill = gpu_div_up(lines * (gpu_max(z->depth, tile->most) / 8 + 2), tile->x) + 1;
    return gpu_div_up(z->keys + tile->keys, tile->keys) * (3 * fill + 2 * (z->depth / 8 + 3) + 64) + fill + 8 * 64;
}

static uint64_t attention_n_parts(const gpu_attention_sizes *z) { return gpu_div_up(z->keys, ATTENTION_SPAN); }

static uint64_t attention_split_words(const gpu_attention_sizes *z)
{
    return (uint64_t)z->batch * z->heads * z->rows * attention_n_parts(z) * (z->value_depth + ATTENTION_PART_WORDS);
}

/* Of the longer of the two: a part's queries, scores, weights and values, or a row's parts, twice. */
static uint64_t attention_rounds_split(const gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    const uint64_t width = gpu_workgroup(gpu, ATTENTION_SPLIT_LOCAL), parts = attention_n_parts(z);
    return gpu_max(z->depth + z->value_depth + 4 * ATTENTION_SPAN + width,
                   gpu_div_up(parts, width) * (2 + gpu_attention_parts(z->value_depth, width)) + width);
}

static int attention_is_split(const gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    const uint64_t bytes = attention_split_words(z) * 4;
    return !z->attrs.weights && z->depth > 0 && z->value_depth > 0 && z->rows < ATTENTION_FEW_ROWS &&
           z->keys > ATTENTION_SPLIT_LEAST && bytes <= gpu_min(ATTENTION_SPLIT_BYTES, gpu_window(gpu, 1)) &&
           gpu_workgroup(gpu, ATTENTION_SPLIT_LOCAL) == ATTENTION_SPLIT_LOCAL &&
           gpu_rounds_fit(gpu, attention_rounds_split(gpu, z));
}

static int attention_eligible(const gpu_lowering *gpu, uint32_t variant)
{
    const gpu_attention_sizes z = gpu_attention_read(gpu);
    if (variant == ATTENTION_SPLIT) return attention_is_split(gpu, &z);
    if (variant == ATTENTION_MATMUL) return attention_is_product(gpu, &z);
    if (variant == ATTENTION_ROWS) return gpu_rounds_fit(gpu, attention_rounds_rows(gpu, &z));
    if (variant == ATTENTION_MATRIX || variant == ATTENTION_MATRIX2) {
        attention_tile of;
        return attention_of_matrices(gpu, variant, &z, &of) && z.depth > 0 && z.value_depth > 0 && !z.attrs.weights &&
               gpu_rounds_fit(gpu, attention_rounds_matrix(&z, &of));
    }
    const attention_tile *tile = attention_tile_of(gpu, &z);
    return tile && z.depth > 0 && !z.attrs.weights && gpu_rounds_fit(gpu, attention_rounds_tiled(gpu, &z, tile));
}

static uint32_t attention_choose(const gpu_lowering *gpu)
{
    const gpu_attention_sizes z = gpu_attention_read(gpu);
    /* On a CPU shared memory is no faster than other memory, and the products have the larger tiles; where tiles
     * must be the smallest they have smaller ones. */
    if ((gpu->software || gpu_smallest_tiles(gpu->limits)) && attention_eligible(gpu, ATTENTION_MATMUL))
        return ATTENTION_MATMUL;
    /* Where small kernels are asked for, two of them are slower than the one for rows (docs/performance.md). */
    const int many = z.keys >= ATTENTION_SPLIT_FROM && !gpu->limits->small_kernels;
    if (z.rows < ATTENTION_FEW_ROWS) return many && attention_is_split(gpu, &z) ? ATTENTION_SPLIT : ATTENTION_ROWS;
    /* Those of matrices are offered and judged, and not chosen: their smallest weights can be off by more than their
     * bound (docs/numerics.md), and no GPU has been timed with them. */
    return attention_eligible(gpu, ATTENTION_TILED) ? ATTENTION_TILED : ATTENTION_ROWS;
}

pco_status gpu_attention_supports(gpu_lowering *gpu)
{
    const gpu_attention_sizes z = gpu_attention_read(gpu);
    if (gpu->limits->max_bindings < ATTENTION_BINDINGS)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "attention binds %d buffers, and the device takes %u",
                        ATTENTION_BINDINGS, gpu->limits->max_bindings);
    const uint32_t limit = ATTENTION_PARTS * gpu_workgroup(gpu, 64);
    if (z.depth > limit || z.value_depth > limit)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "heads of %u and %u are larger than %u", z.depth, z.value_depth,
                        limit);
    return gpu->status;
}

uint32_t gpu_attention_bind(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint32_t tensor, uint32_t other,
                            int write)
{
    const uint64_t count = tensor == PCO_NONE ? 0 : gpu_count(&gpu->part->tensors[tensor]);
    if (count) return gpu_bind_elements(gpu, d, buffer, tensor, 0, count, write);
    gpu_bind_again(gpu, d, buffer, other);
    return 0;
}

uint32_t gpu_attention_bind_optional(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint32_t tensor,
                                     uint32_t other)
{
    const uint32_t first = gpu_attention_bind(gpu, d, buffer, tensor, other, 0);
    return tensor == PCO_NONE || gpu_count(&gpu->part->tensors[tensor]) == 0 ? GPU_ATTENTION_NOWHERE : first;
}

int32_t gpu_attention_flags(const gpu_attention_sizes *z)
{
    return (z->attrs.weights ? GPU_ATTENTION_WEIGHTS : 0) | (z->attrs.softcap > 0 ? GPU_ATTENTION_SOFTCAP : 0);
}

int32_t gpu_attention_reach(const gpu_attention_sizes *z)
{
    const int64_t window = z->attrs.window > INT32_MAX / 2 ? INT32_MAX / 2 : z->attrs.window;
    if (z->attrs.causal) return ~(window > 0 ? (int32_t)window : INT32_MAX);
    return window > 0 ? (int32_t)window : 0;
}

void gpu_attention_steps(const pco_tensor *x, const gpu_attention_sizes *z, uint32_t step[3])
{
    int64_t stride[3];
    attention_stride(x, z->attrs.heads_first != 0, stride);
    for (uint32_t i = 0; i < 3; i++) step[i] = (uint32_t)stride[i];
}

void gpu_attention_mask_steps(const gpu_lowering *gpu, uint32_t step[4])
{
    const pco_tensor *mask = gpu_input(gpu, 3);
    uint32_t next = 1;
    for (uint32_t i = 4; mask && i-- > 0;) {
        step[i] = mask->shape[i] == 1 ? 0 : next;
        next *= (uint32_t)mask->shape[i];
    }
}

int32_t gpu_attention_mask_type(const gpu_lowering *gpu)
{
    const pco_tensor *mask = gpu_input(gpu, 3);
    return mask ? (int32_t)mask->dtype : -1;
}

float gpu_attention_scale(const gpu_attention_sizes *z)
{
    return (float)(z->attrs.scale != 0 ? z->attrs.scale : 1 / sqrt((double)z->depth));
}

uint32_t gpu_attention_is_odd(uint32_t first, const uint32_t step[3])
{
    return (first | step[0] | step[1] | step[2]) & 1;
}

/* Scores to weights, in the workspace. */
static pco_status attention_weigh(gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    const uint64_t rows = (uint64_t)z->batch * z->heads * z->rows;
    const int serial = gpu->software && gpu_rows_eligible(gpu, GPU_SERIAL, z->keys);
    const uint32_t local = gpu_workgroup(gpu, 64);
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, serial ? GPU_KERNEL_attention_scores_serial : GPU_KERNEL_attention_scores_shared, local, 1, 1);
    gpu_set_specs(gpu, &d, attention_scores, .flags = gpu_attention_flags(z), .walk = serial);
    gpu_attention_scores_params p = {.n_rows = z->rows,
                                     .n_keys = z->keys,
                                     .scale = gpu_attention_scale(z),
                                     .cap = (float)z->attrs.softcap,
                                     .reach = (uint32_t)gpu_attention_reach(z),
                                     .n_all = (uint32_t)rows};
    p.p_first = gpu_bind_workspace(gpu, &d, GPU_attention_scores_p, 0, rows * z->keys * 4, 1) / 4;
    gpu_set_params_from(gpu, &d, attention_scores, &p);
    return gpu_emit(gpu, &d, serial ? gpu_div_up(rows, local) : rows);
}

static pco_status attention_products(gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    const gpu_matmul scores = attention_scores(gpu, z), join = attention_join(gpu, z);
    pco_status status = gpu_emit_product(gpu, &scores);
    if (status == PCO_OK) status = attention_weigh(gpu, z);
    return status == PCO_OK ? gpu_emit_product(gpu, &join) : status;
}

/* Where operands and results of attention_rows and attention_tiled are. */
static void attention_bind_all(gpu_lowering *gpu, pco_gpu_dispatch *d, const gpu_attention_sizes *z,
                               gpu_attention_params *p)
{
    const uint32_t q = GPU_attention_q, y = GPU_attention_y, weights = GPU_attention_weights;
    GPU_ATTENTION_BIND(gpu, d, z, attention, p, q);
    p->lengths_first = gpu_attention_bind_optional(gpu, d, GPU_attention_lengths, gpu_input_index(gpu, 4), q);
    p->starts_first = gpu_attention_bind_optional(gpu, d, GPU_attention_starts, gpu_input_index(gpu, 5), q);
    p->y_first = gpu_attention_bind(gpu, d, y, gpu_output_index(gpu, 0), q, 1);
    if (gpu_has_buffer(d, weights))
        p->weights_first =
            gpu_attention_bind(gpu, d, weights, z->attrs.weights ? gpu_output_index(gpu, 1) : PCO_NONE, y, 1);
    gpu_attention_steps(gpu_output(gpu, 0), z, p->y_step);
}

/* ---- parts of the keys ---- */

uint32_t gpu_attention_key_heads(const gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    return (uint32_t)gpu_input(gpu, 1)->shape[z->attrs.heads_first ? 1 : 2];
}

static pco_status attention_emit_parts(gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    const gpu_variant *split = &attention_variants[ATTENTION_SPLIT];
    const uint32_t members = z->group_heads * z->rows, q = GPU_attention_split_q,
                   four = members > 1 && gpu_tuned(gpu, split, ATTENTION_SPLIT_ROWS) == 4;
    const uint64_t parts = attention_n_parts(z), blocks = gpu_div_up(members, four ? 4 : 1);
    const uint64_t groups = (uint64_t)z->batch * gpu_attention_key_heads(gpu, z) * parts * blocks;
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, four ? GPU_KERNEL_attention_split_4 : GPU_KERNEL_attention_split_1, ATTENTION_SPLIT_LOCAL, 1, 1);
    const int rolled_up = gpu_tuned(gpu, split, ATTENTION_SPLIT_UNROLL) == 1;
    gpu_attention_split_params p = {GPU_ATTENTION_PARAMS(z), .cap = (float)z->attrs.softcap, .n_parts = (uint32_t)parts,
                                    .n_groups = (uint32_t)groups};
    GPU_ATTENTION_BIND(gpu, &d, z, attention_split, &p, q);
    p.lengths_first = gpu_attention_bind_optional(gpu, &d, GPU_attention_split_lengths, gpu_input_index(gpu, 4), q);
    p.starts_first = gpu_attention_bind_optional(gpu, &d, GPU_attention_split_starts, gpu_input_index(gpu, 5), q);
    p.parts_first = gpu_bind_workspace(gpu, &d, GPU_attention_split_parts, 0, attention_split_words(z) * 4, 1) / 4;
    gpu_set_specs(
        gpu, &d, attention_split,
        GPU_ATTENTION_SPECS(gpu, z, (rolled_up ? GPU_ATTENTION_ROLLED_UP : 0) | GPU_ATTENTION_EVEN_OF(&p, 0)));
    gpu_set_params_from(gpu, &d, attention_split, &p);
    return gpu_emit(gpu, &d, groups);
}

static pco_status attention_emit_merge(gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    const uint64_t groups = (uint64_t)z->batch * z->heads * z->rows;
    const uint32_t parts = GPU_attention_merge_parts;
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, GPU_KERNEL_attention_split_merge, ATTENTION_SPLIT_LOCAL, 1, 1);
    gpu_set_specs(gpu, &d, attention_merge, .q = (int32_t)gpu_output(gpu, 0)->dtype, .e = (int32_t)z->value_depth);
    gpu_attention_merge_params p = {.n_heads = z->heads,
                                    .n_rows = z->rows,
                                    .n_keys = z->keys,
                                    .reach = (uint32_t)gpu_attention_reach(z),
                                    .n_parts = (uint32_t)attention_n_parts(z),
                                    .n_groups = (uint32_t)groups};
    p.parts_first = gpu_bind_workspace(gpu, &d, parts, 0, attention_split_words(z) * 4, 0) / 4;
    p.lengths_first = gpu_attention_bind_optional(gpu, &d, GPU_attention_merge_lengths, gpu_input_index(gpu, 4), parts);
    p.starts_first = gpu_attention_bind_optional(gpu, &d, GPU_attention_merge_starts, gpu_input_index(gpu, 5), parts);
    p.y_first = gpu_attention_bind(gpu, &d, GPU_attention_merge_y, gpu_output_index(gpu, 0), parts, 1);
    gpu_attention_steps(gpu_output(gpu, 0), z, p.y_step);
    gpu_set_params_from(gpu, &d, attention_merge, &p);
    return gpu_emit(gpu, &d, groups);
}

static pco_status attention_split(gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    const pco_status status = attention_emit_parts(gpu, z);
    return status ? status : attention_emit_merge(gpu, z);
}

/* A GPU's form on a device that is a processor, as `@gpu` asks for: its compiler would take minutes to unroll it. */
static int attention_is_for_gpus_on_a_processor(const gpu_lowering *gpu) { return gpu->other && !gpu->software; }

static pco_status attention_lower(gpu_lowering *gpu)
{
    const gpu_attention_sizes z = gpu_attention_read(gpu);
    const pco_tensor *y = gpu_output(gpu, 0);
    if (gpu_count(y) == 0 && !(z.attrs.weights && gpu_count(gpu_output(gpu, 1)))) return gpu->status;
    if (gpu->variant == ATTENTION_MATMUL) return attention_products(gpu, &z);
    if (gpu->variant == ATTENTION_SPLIT) return attention_split(gpu, &z);
    pco_gpu_dispatch d;
    attention_tile of_matrices;
    const attention_tile *tile = gpu->variant == ATTENTION_TILED ? attention_tile_of(gpu, &z) : NULL;
    if (attention_of_matrices(gpu, gpu->variant, &z, &of_matrices)) tile = &of_matrices;
    const uint32_t local = gpu_workgroup(gpu, tile ? tile->x : 64);
    gpu_begin(gpu, &d, tile ? tile->kernel : GPU_KERNEL_attention_rows, local, tile ? tile->y : 1, 1);
    const int rolled_up = tile && attention_is_for_gpus_on_a_processor(gpu);
    gpu_attention_params p = {GPU_ATTENTION_PARAMS(&z), .cap = (float)z.attrs.softcap};
    attention_bind_all(gpu, &d, &z, &p);
    const int32_t even = GPU_ATTENTION_EVEN_OF(&p, gpu_attention_is_odd(p.y_first, p.y_step));
    gpu_set_specs(gpu, &d, attention, GPU_ATTENTION_SPECS(gpu, &z, (rolled_up ? GPU_ATTENTION_ROLLED_UP : 0) | even),
                  GPU_ATTENTION_MATRIX_SPECS(gpu));
    const uint64_t heads = (uint64_t)z.batch * z.heads;
    const int serial = gpu->software && gpu->variant == ATTENTION_TILED; /* an invocation has a row */
    const uint64_t groups = heads * gpu_div_up(z.rows, !tile ? 1 : serial ? local : tile->rows);
    if (groups > UINT32_MAX) return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "there are too many rows");
    p.n_groups = (uint32_t)groups;
    gpu_set_params_from(gpu, &d, attention, &p);
    return gpu_emit(gpu, &d, groups);
}

const gpu_lowerer gpu_lower_attention = {.variants = attention_variants,
                                         .n_variants = ATTENTION_N_VARIANTS,
                                         .eligible = attention_eligible,
                                         .choose = attention_choose,
                                         .supports = gpu_attention_supports,
                                         .lower = attention_lower};
