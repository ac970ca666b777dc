/* scaled_dot_product_attention_backward, in three kernels: what its rows leave for the others, the gradient of queries,
 * and those of keys and values. */
#include "lower_attention.h"

enum { BACKWARD_DEFAULT, BACKWARD_MATRIX, BACKWARD_N_VARIANTS };

/* Words that the first kernel leaves for each row; see attention_backward.kern and attention_backward_matrix.kern. */
enum { BACKWARD_STAT_WORDS = 5, BACKWARD_MATRIX_STAT_WORDS = 6, BACKWARD_FEW_SCORES = 1 << 15 };

/* `block`: rows or keys of a workgroup, each of which every invocation has sums for. */
static const gpu_variant backward_variants[] = {
    [BACKWARD_DEFAULT] = {"default", .constants = {{"block", 4, {2, 4}, .smallest = 2}}},
    /* judged and not chosen: no GPU has been timed with it */
    [BACKWARD_MATRIX] = {"matrix", PCO_GPU_NEEDS_COOPERATIVE_MATRIX}};

/* The three kernels of a variant, and workgroups of so many invocations for so many rows or keys. */
typedef struct backward_kernels {
    uint32_t stats, queries, keys;
    uint32_t block, local, stat_words;
} backward_kernels;

static backward_kernels backward_plain(const gpu_lowering *gpu)
{
    backward_kernels of = {
        GPU_KERNEL_attention_backward_stats, GPU_KERNEL_attention_backward_queries,
        GPU_KERNEL_attention_backward_keys,  .block = gpu_tuned(gpu, &backward_variants[BACKWARD_DEFAULT], 0),
        .local = gpu_workgroup(gpu, 64),     .stat_words = BACKWARD_STAT_WORDS};
    if (of.block == 2) {
        of.stats = GPU_KERNEL_attention_backward_stats_2;
        of.queries = GPU_KERNEL_attention_backward_queries_2;
        of.keys = GPU_KERNEL_attention_backward_keys_2;
    }
    return of;
}

/* ---- of matrices ---- */

/* attention_backward_matrix.kern: two by two subgroups with `each` matrices of sums, along `LINES` keys or rows. */
enum { BACKWARD_LINES = 32 };

static uint32_t backward_each(const gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    const uint64_t columns = 2 * (uint64_t)gpu->limits->matrix[1], size = gpu_max(z->depth, z->value_depth);
    return size <= 2 * columns ? 2 : size <= 4 * columns ? 4 : size <= 8 * columns ? 8 : 0;
}

static backward_kernels backward_of_matrices(const gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    static const uint32_t KERNELS[2][3] = {
        {GPU_KERNEL_attention_backward_matrix_queries_2, GPU_KERNEL_attention_backward_matrix_queries_4,
         GPU_KERNEL_attention_backward_matrix_queries_8},
        {GPU_KERNEL_attention_backward_matrix_keys_2, GPU_KERNEL_attention_backward_matrix_keys_4,
         GPU_KERNEL_attention_backward_matrix_keys_8}};
    const uint32_t each = backward_each(gpu, z), at = each == 8 ? 2 : each == 4 ? 1 : 0;
    return (backward_kernels){GPU_KERNEL_attention_backward_matrix_stats,
                              KERNELS[0][at],
                              KERNELS[1][at],
                              .block = 2 * gpu->limits->matrix[0],
                              .local = 4 * gpu->limits->matrix_width,
                              .stat_words = BACKWARD_MATRIX_STAT_WORDS};
}

/* Of the kernel for keys, which has the most: own keys and values, lines as long as the longest of the three, products
 * of both, and words of each line. Lines have a vector of 16 bytes to spare. */
static uint64_t backward_shared_memory(const gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    const uint64_t own = 2 * gpu->limits->matrix[0], depth = gpu_div_up(z->depth, 16) * 32 + 16,
                   values = gpu_div_up(z->value_depth, 16) * 32 + 16,
                   sums = 4 * (uint64_t)backward_each(gpu, z) * gpu->limits->matrix[1] + 16;
    return own * (depth + values) + BACKWARD_LINES * gpu_max(sums, gpu_max(depth, values)) +
           own * (8 * BACKWARD_LINES + 16) + BACKWARD_LINES * 8 * 4;
}

/* Own ones; for each of the blocks of keys or rows three fills of the lines, products, and looks at rows and lines;
 * results. */
static uint64_t backward_rounds_matrix(const gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    const uint64_t lines = gpu_max(BACKWARD_LINES, 2 * gpu->limits->matrix[0]), x = 4 * gpu->limits->matrix_width;
    const uint64_t columns = 2 * (uint64_t)backward_each(gpu, z) * gpu->limits->matrix[1];
    const uint64_t fill = gpu_div_up(lines * (gpu_max(columns, gpu_max(z->depth, z->value_depth)) / 8 + 2), x) + 1;
    const uint64_t along = gpu_max(z->keys, (uint64_t)z->rows * z->group_heads);
    return gpu_div_up(along + BACKWARD_LINES, BACKWARD_LINES) *
               (3 * fill + (z->depth + z->value_depth) / 4 + 4 * BACKWARD_LINES + 64) +
           2 * fill + 16 * 64;
}

static int backward_has_matrices(const gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    const uint32_t *matrix = gpu->limits->matrix, x = 4 * gpu->limits->matrix_width, own = 2 * matrix[0];
    return gpu_attention_has_matrices(gpu) && z->depth > 0 && z->value_depth > 0 && z->depth <= 256 &&
           z->value_depth <= 256 && own && x % own == 0 && x >= BACKWARD_LINES && backward_each(gpu, z) &&
           backward_shared_memory(gpu, z) <= gpu->limits->shared_memory &&
           gpu_rounds_fit(gpu, backward_rounds_matrix(gpu, z));
}

/* ---- lowering ---- */

static int backward_eligible(const gpu_lowering *gpu, uint32_t variant)
{
    const gpu_attention_sizes z = gpu_attention_read(gpu);
    return variant == BACKWARD_DEFAULT || backward_has_matrices(gpu, &z);
}

/* Binds what the first kernel leaves for each row, or what `other` sees where there are no rows. */
static uint32_t backward_bind_stats(gpu_lowering *gpu, pco_gpu_dispatch *d, const gpu_attention_sizes *z,
                                    uint32_t stat_words, uint32_t buffer, uint32_t other, int write)
{
    const uint64_t words = (uint64_t)z->batch * z->heads * z->rows * stat_words;
    if (words) return gpu_bind_workspace(gpu, d, buffer, 0, words * 4, write) / 4;
    gpu_bind_again(gpu, d, buffer, other);
    return 0;
}

/* Constants, buffers and parameters of the first kernel. */
static void backward_fill_stats(gpu_lowering *gpu, pco_gpu_dispatch *d, const gpu_attention_sizes *z,
                                const backward_kernels *of, uint32_t blocks)
{
    const uint32_t q = GPU_attention_stats_q;
    gpu_attention_stats_params p = {GPU_ATTENTION_PARAMS(z), .n_key_heads = gpu_attention_key_heads(gpu, z),
                                    .n_blocks = blocks};
    GPU_ATTENTION_BIND(gpu, d, z, attention_stats, &p, q);
    p.lengths_first = gpu_attention_bind_optional(gpu, d, GPU_attention_stats_lengths, gpu_input_index(gpu, 4), q);
    p.starts_first = gpu_attention_bind_optional(gpu, d, GPU_attention_stats_starts, gpu_input_index(gpu, 5), q);
    p.gradient_first = gpu_attention_bind(gpu, d, GPU_attention_stats_gradient, gpu_input_index(gpu, 6), q, 0);
    p.stats_first = backward_bind_stats(gpu, d, z, of->stat_words, GPU_attention_stats_stats, q, 1);
    gpu_attention_steps(gpu_input(gpu, 6), z, p.gradient_step);
    const int32_t even = GPU_ATTENTION_EVEN_OF(&p, gpu_attention_is_odd(p.gradient_first, p.gradient_step));
    gpu_set_specs(gpu, d, attention_stats, GPU_ATTENTION_SPECS(gpu, z, even), GPU_ATTENTION_MATRIX_SPECS(gpu));
    gpu_set_params_from(gpu, d, attention_stats, &p);
}

/* Those of the other two: y is the gradient of queries, or that of keys, and then `other` that of values. */
static void backward_fill_gradients(gpu_lowering *gpu, pco_gpu_dispatch *d, const gpu_attention_sizes *z,
                                    const backward_kernels *of, uint32_t blocks)
{
    const uint32_t y = GPU_attention_gradients_y, other = GPU_attention_gradients_other;
    const int keys = gpu_has_buffer(d, other);
    gpu_attention_gradients_params p = {GPU_ATTENTION_PARAMS(z), .n_key_heads = gpu_attention_key_heads(gpu, z),
                                        .n_blocks = blocks};
    p.y_first = gpu_attention_bind(gpu, d, y, gpu_output_index(gpu, keys ? 1 : 0), y, 1);
    if (keys) p.other_first = gpu_attention_bind(gpu, d, other, gpu_output_index(gpu, 2), y, 1);
    GPU_ATTENTION_BIND(gpu, d, z, attention_gradients, &p, y);
    p.gradient_first = gpu_attention_bind(gpu, d, GPU_attention_gradients_gradient, gpu_input_index(gpu, 6), y, 0);
    p.stats_first = backward_bind_stats(gpu, d, z, of->stat_words, GPU_attention_gradients_stats, y, 0);
    gpu_attention_steps(gpu_input(gpu, 6), z, p.gradient_step);
    const uint32_t odd = gpu_attention_is_odd(p.gradient_first, p.gradient_step) | ((p.y_first | p.other_first) & 1);
    const int32_t even = GPU_ATTENTION_EVEN_OF(&p, odd);
    gpu_set_specs(gpu, d, attention_gradients, GPU_ATTENTION_SPECS(gpu, z, even), GPU_ATTENTION_MATRIX_SPECS(gpu));
    gpu_set_params_from(gpu, d, attention_gradients, &p);
}

/* One of the three kernels over `groups` blocks of rows or keys. */
static pco_status backward_emit(gpu_lowering *gpu, const gpu_attention_sizes *z, const backward_kernels *of,
                                uint32_t kernel, uint64_t groups)
{
    if (groups == 0 || gpu->status) return gpu->status;
    if (groups > UINT32_MAX) return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "there are too many rows or keys");
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, kernel, of->local, 1, 1);
    if (kernel == of->stats)
        backward_fill_stats(gpu, &d, z, of, (uint32_t)groups);
    else
        backward_fill_gradients(gpu, &d, z, of, (uint32_t)groups);
    return gpu_emit(gpu, &d, groups);
}

static pco_status backward_lower(gpu_lowering *gpu)
{
    const gpu_attention_sizes z = gpu_attention_read(gpu);
    const backward_kernels of = gpu->variant == BACKWARD_MATRIX ? backward_of_matrices(gpu, &z) : backward_plain(gpu);
    const uint64_t rows = (uint64_t)z.batch * z.heads * gpu_div_up(z.rows, of.block);
    const uint64_t keys = (uint64_t)z.batch * gpu_attention_key_heads(gpu, &z) * gpu_div_up(z.keys, of.block);
    backward_emit(gpu, &z, &of, of.stats, rows);
    backward_emit(gpu, &z, &of, of.queries, rows);
    return backward_emit(gpu, &z, &of, of.keys, keys);
}

/* Rounds of the longest of the three kernels: over keys, or over the rows of all heads that share them. */
static uint64_t backward_rounds(const gpu_lowering *gpu, const gpu_attention_sizes *z)
{
    const uint64_t width = gpu_workgroup(gpu, 64), depth = (uint64_t)z->depth + z->value_depth;
    const uint64_t parts = gpu_attention_parts(z->depth, width) + gpu_attention_parts(z->value_depth, width);
    const uint64_t along = gpu_max(z->keys, (uint64_t)z->rows * z->group_heads);
    return gpu_div_up(along, width) * (1 + depth + parts) + backward_plain(gpu).block * (depth + parts);
}

/* Invocations read keys side by side, each its own line, and the products of the decomposition have tiles: over 1,024
 * positions they take 0.08 of the time on lavapipe, and 0.18 on an NVIDIA H200. It is refused, but where it costs
 * little, and where the decomposition's scores would take more memory than is given them. */
static pco_status backward_supports(gpu_lowering *gpu)
{
    const gpu_attention_sizes z = gpu_attention_read(gpu);
    if (gpu_need_rounds(gpu, backward_rounds(gpu, &z))) return gpu->status;
    if (gpu_workgroup(gpu, 64) < 4) return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "weights are read by fours");
    const uint64_t scores = (uint64_t)z.batch * z.heads * z.rows * z.keys;
    if (scores > BACKWARD_FEW_SCORES && scores * 4 <= GPU_ATTENTION_SCORE_BYTES)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "step by step is faster with %llu scores",
                        (unsigned long long)scores);
    return gpu_attention_supports(gpu);
}

const gpu_lowerer gpu_lower_attention_backward = {.variants = backward_variants,
                                                  .n_variants = BACKWARD_N_VARIANTS,
                                                  .eligible = backward_eligible,
                                                  .supports = backward_supports,
                                                  .lower = backward_lower};
