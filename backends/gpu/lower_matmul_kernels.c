/* Which matmul kernel for which problem and device class.
 *
 * A device that is a CPU (software) has no use for shared memory: its tiles live in registers, as large as pays for
 * the cost of a load, which on Vulkan's software drivers is tens of instructions, and one lane sums a whole column.
 * All other devices get tiles in shared memory, and lanes that share a column. */
#include "layout.h"
#include "lower_matmul.h"

/* Worth a try: the alignment of offsets is checked when they are known. */
static int matmul_may_be_wide(const gpu_matmul *p)
{
    const uint32_t unit_a = 16 / gpu_element_bytes(p->a_type);
    const uint32_t unit_b = p->quantised ? 1 : 16 / gpu_element_bytes(p->b_type);
    return !p->trans_a && p->k % unit_a == 0 && p->ldb % unit_b == 0 && (!p->trans_b || p->k % unit_b == 0);
}

/* shared and pairs have none: what the invocations of their one workgroup do is compiled into the kernel. */
const gpu_variant gpu_matmul_variants[GPU_MATMUL_VARIANTS] = {
    [GPU_MATMUL_NAIVE] = {"naive", .constants = {[GPU_NAIVE_WORKGROUP] = {"workgroup", 64, {32, 64, 128, 256}}}},
    [GPU_MATMUL_REGISTER] =
        {"register", .has_forms = 1,
         .constants = {[GPU_REGISTER_ACROSS] = {"across", 8, {4, 8}},
                       [GPU_REGISTER_DOWN] = {"down", 8, {2, 4, 8}},
                       [GPU_REGISTER_ORDERED] = {"ordered", 16, {8, 16, 32}},
                       [GPU_REGISTER_COLUMNS] = {"columns", 16, {4, 8, 16}, .medium = 8, .smallest = 4}}},
    [GPU_MATMUL_SHARED] = {"shared", 0},
    [GPU_MATMUL_GEMV] = {"gemv", .has_forms = 1,
                         .constants = {[GPU_GEMV_LANES] = {"lanes", 32, {8, 16, 32, 64}},
                                       [GPU_GEMV_LANES_ACROSS] = {"lanes_across", 8, {4, 8, 16, 32}},
                                       [GPU_GEMV_LANES_CPU] = {"lanes_cpu", 8, {1, 4, 8, 16}},
                                       [GPU_GEMV_COLUMNS] = {"columns", 4, {1, 2, 4}, .small = 2, .smallest = 1}}},
    [GPU_MATMUL_GEMV_SUBGROUP] = {"gemv_subgroup", PCO_GPU_NEEDS_SUBGROUPS,
                                  .constants = {[GPU_GEMV_LANES] = {"lanes", 64, {32, 64, 128}}}},
    [GPU_MATMUL_VECTOR] = {"vector", PCO_GPU_NEEDS_VECTOR_16,
                           .constants = {[GPU_VECTOR_WORKGROUP] = {"workgroup", 32, {8, 16, 32, 64}}}},
    [GPU_MATMUL_DOT] = {"dot", PCO_GPU_NEEDS_VECTOR_16,
                        .constants = {[GPU_DOT_WORKGROUP] = {"workgroup", 4, {2, 4, 8, 16}}}},
    [GPU_MATMUL_MATRIX] = {"matrix", PCO_GPU_NEEDS_COOPERATIVE_MATRIX,
                           .constants = {[GPU_MATRIX_MATRICES] = {"matrices", 4, {2, 4}}}},
    [GPU_MATMUL_PAIRS] = {"pairs", PCO_GPU_NEEDS_MIXED_FLOAT_DOT},
    [GPU_MATMUL_INTEGER] = {"integer", PCO_GPU_NEEDS_INTEGER_DOT,
                            .constants = {[GPU_INTEGER_LANES] = {"lanes", 32, {8, 16, 32, 64}}}},
    [GPU_MATMUL_GEMV_SPLIT] = {"gemv_split", .constants = {[GPU_SPLIT_PARTS] = {"parts", 4, {2, 4, 8, 16}}}},
    [GPU_MATMUL_SHARED_SPLIT] = {"shared_split", .constants = {[GPU_SPLIT_PARTS] = {"parts", 4, {2, 4, 8, 16}}}},
    [GPU_MATMUL_STREAM] = {"stream", .constants = {[GPU_STREAM_SHARES] = {"shares", 64, {16, 64, 128, 512}},
                                                   [GPU_STREAM_LANES] = {"lanes", 32, {16, 32, 64}}}},
};

uint32_t gpu_matmul_base(uint32_t variant)
{
    return variant == GPU_MATMUL_GEMV_SPLIT     ? GPU_MATMUL_GEMV
           : variant == GPU_MATMUL_SHARED_SPLIT ? GPU_MATMUL_SHARED
                                                : variant;
}

/* A constant of the problem's variant. */
static uint32_t matmul_tuned(const gpu_lowering *gpu, uint32_t variant, uint32_t constant)
{
    return gpu_tuned(gpu, &gpu_matmul_variants[variant], constant);
}

uint64_t gpu_matmul_part(const gpu_lowering *gpu, const gpu_matmul *p)
{
    if (gpu_matmul_base(p->variant) == p->variant) return p->k;
    return gpu_matmul_part_of(p, matmul_tuned(gpu, p->variant, GPU_SPLIT_PARTS));
}

/* The row of the kernel table: of floats, or of b's format. */
static uint32_t matmul_row(const gpu_matmul *p, uint32_t floats, uint32_t quant)
{
    const gpu_format *format = gpu_format_of(p->b_type);
    return format ? quant + format->number : floats;
}

/* Are there tiles to fill? */
static int matmul_large(const gpu_matmul *p) { return p->m >= 16 && p->n >= 16; }

/* Has the device room for all buffers that a row of the kernel table declares? */
static int matmul_binds(const gpu_lowering *gpu, uint32_t row)
{
    return pco_gpu_kernels[row].n_bindings <= gpu->limits->max_bindings;
}

/* Does it allow workgroups of that shape? Some OpenCL devices have one invocation across and along all but the first
 * dimension. */
static int matmul_has_groups(const gpu_lowering *gpu, const gpu_matmul_kernel *kernel)
{
    return kernel->local_x <= gpu->limits->max_local[0] && kernel->local_y <= gpu->limits->max_local[1];
}

static gpu_matmul_kernel matmul_naive(const gpu_lowering *gpu, const gpu_matmul *p)
{
    const uint32_t all = matmul_row(p, GPU_KERNEL_matmul_naive, GPU_KERNEL_matmul_naive_quant);
    const uint32_t four = !matmul_binds(gpu, all);
    const uint32_t local = gpu_workgroup(gpu, matmul_tuned(gpu, GPU_MATMUL_NAIVE, GPU_NAIVE_WORKGROUP));
    const uint32_t kernel = four ? matmul_row(p, GPU_KERNEL_matmul_naive_4, GPU_KERNEL_matmul_naive_quant_4) : all;
    return (gpu_matmul_kernel){
        .kernel = kernel, .four = four, .flat = 1, .rows = 1, .columns = 1, .local_x = local, .local_y = 1};
}

static gpu_matmul_kernel matmul_tile(uint32_t kernel, uint32_t rows, uint32_t columns, uint32_t wide)
{
    return (gpu_matmul_kernel){.kernel = kernel, .rows = rows, .columns = columns, .wide = wide};
}

static gpu_matmul_kernel matmul_register(const gpu_lowering *gpu, const gpu_matmul *p, uint64_t m, uint64_t n, int wide)
{
    const int software = gpu->software, vulkan = !gpu->limits->is_opencl;
    const uint32_t columns = software ? 0 : matmul_tuned(gpu, GPU_MATMUL_REGISTER, GPU_REGISTER_COLUMNS);
    gpu_matmul_kernel k;
    if (columns == 4 && !(wide && p->quantised)) {
        k = matmul_tile(wide ? GPU_KERNEL_matmul_register_wide_2x1 : GPU_KERNEL_matmul_register_2x1, 2, 4,
                        (uint32_t)wide);
    } else if (!wide) {
        k = matmul_tile(GPU_KERNEL_matmul_register_4x2, 4, 8, 0);
    } else if (p->quantised && software) {
        k = matmul_tile(matmul_row(p, 0, GPU_KERNEL_matmul_register_quant_8x2), 8, 8, 1);
    } else if (p->quantised) {
        k = matmul_tile(matmul_row(p, 0, GPU_KERNEL_matmul_register_quant_4x2), 4, 8, 1);
    } else if (software && vulkan && m >= 12 && n >= 16) {
        k = matmul_tile(GPU_KERNEL_matmul_register_wide_16x4, 16, 16, 1);
    } else if (columns == 8) {
        k = matmul_tile(GPU_KERNEL_matmul_register_wide_4x2, 4, 8, 1);
    } else if (m <= 4 || !software || (!p->trans_b && n >= 16)) {
        k = matmul_tile(GPU_KERNEL_matmul_register_wide_4x4, 4, 16, 1);
    } else {
        k = matmul_tile(GPU_KERNEL_matmul_register_wide_8x2, 8, 8, 1);
    }
    /* On a CPU neighbours in a workgroup run one after the other: they should meet the same columns of b. */
    k.order = software && !p->trans_b && !vulkan;
    k.local_x = gpu_workgroup(
        gpu, matmul_tuned(gpu, GPU_MATMUL_REGISTER, k.order ? GPU_REGISTER_ORDERED : GPU_REGISTER_ACROSS));
    k.local_y = software ? 1 : matmul_tuned(gpu, GPU_MATMUL_REGISTER, GPU_REGISTER_DOWN);
    while (k.local_y > 1 &&
           (k.local_y > gpu->limits->max_local[1] || k.local_x * k.local_y > gpu->limits->max_workgroup))
        k.local_y /= 2;
    k.grid_x = k.local_x;
    k.grid_y = k.local_y;
    k.clamps = k.pairs = 1;
    return k;
}

static gpu_matmul_kernel matmul_vector(const gpu_lowering *gpu)
{
    const uint32_t local = gpu_workgroup(gpu, matmul_tuned(gpu, GPU_MATMUL_VECTOR, GPU_VECTOR_WORKGROUP));
    return (gpu_matmul_kernel){.kernel = GPU_KERNEL_matmul_vector_8x16,
                               .rows = 8,
                               .columns = 16,
                               .local_x = local,
                               .local_y = 1,
                               .grid_x = local,
                               .grid_y = 1,
                               .order = 1,
                               .clamps = 1,
                               .pairs = 1};
}

static gpu_matmul_kernel matmul_dot(const gpu_lowering *gpu, const gpu_matmul *p)
{
    const int four = p->m > 1;
    const uint32_t local = gpu_workgroup(gpu, matmul_tuned(gpu, GPU_MATMUL_DOT, GPU_DOT_WORKGROUP));
    const uint32_t kernel = four ? matmul_row(p, GPU_KERNEL_matmul_dot_4x4, GPU_KERNEL_matmul_dot_quant_4x4)
                                 : matmul_row(p, GPU_KERNEL_matmul_dot_1x4, GPU_KERNEL_matmul_dot_quant_1x4);
    return (gpu_matmul_kernel){.kernel = kernel,
                               .rows = four ? 4 : 1,
                               .columns = 4,
                               .local_x = local,
                               .local_y = 1,
                               .grid_x = local,
                               .grid_y = 1};
}

/* Tiles of 64 by 64 in shared memory: matmul_shared.kern and matmul_pairs.kern. */
static gpu_matmul_kernel matmul_shared(const gpu_lowering *gpu, const gpu_matmul *p, int wide)
{
    const uint32_t floats = wide ? GPU_KERNEL_matmul_shared_wide_64x64 : GPU_KERNEL_matmul_shared_64x64;
    const uint32_t halves = wide ? GPU_KERNEL_matmul_pairs_wide_64x64 : GPU_KERNEL_matmul_pairs_64x64;
    const uint32_t kernel =
        p->variant == GPU_MATMUL_PAIRS ? halves : matmul_row(p, floats, GPU_KERNEL_matmul_shared_quant_64x64);
    gpu_matmul_kernel k = matmul_tile(kernel, 64, 64, (uint32_t)wide);
    k.local_x = 16;
    k.local_y = 8;
    k.grid_x = k.grid_y = k.pairs = 1;
    k.for_cpu = (uint32_t)gpu->software;
    return k;
}

/* For a GPU of the smallest tiles: eight sums at most, and one part of a block of quants at a time. */
static gpu_matmul_kernel matmul_gemv_smallest(const gpu_matmul *p, int wide)
{
    const int several = p->m > 1;
    if (!wide) return matmul_tile(GPU_KERNEL_matmul_gemv_1x1, 1, p->trans_b ? 1 : 4, 0);
    if (!p->trans_b)
        return several ? matmul_tile(GPU_KERNEL_matmul_gemv_wide_2x1, 2, 4, 1)
                       : matmul_tile(GPU_KERNEL_matmul_gemv_wide_1x1, 1, 4, 1);
    return several
               ? matmul_tile(matmul_row(p, GPU_KERNEL_matmul_gemv_wide_4x2, GPU_KERNEL_matmul_gemv_quant_4x2), 4, 2, 1)
               : matmul_tile(matmul_row(p, GPU_KERNEL_matmul_gemv_wide_1x2, GPU_KERNEL_matmul_gemv_quant_rolled_1x2), 1,
                             2, 1);
}

/* The kernel, and the tile of an invocation. */
static gpu_matmul_kernel matmul_gemv_tile(const gpu_lowering *gpu, const gpu_matmul *p, int wide)
{
    const int subgroup = p->variant == GPU_MATMUL_GEMV_SUBGROUP;
    const uint32_t columns = subgroup || gpu->software ? 4 : matmul_tuned(gpu, GPU_MATMUL_GEMV, GPU_GEMV_COLUMNS);
    if (columns == 1) return matmul_gemv_smallest(p, wide);
    /* Across, a GPU's registers hold one vector of columns in four rows. */
    const int four_rows = p->m > 1 && wide && !subgroup, narrow = !p->trans_b && !gpu->software;
    /* Where loads are dear (see above), terms of a serve more columns: quants are small beside them. */
    const int eight = wide && p->quantised && !four_rows && p->trans_b && gpu->software;
    const int two = four_rows && p->trans_b && columns == 2;
    const uint32_t width = (p->trans_b ? 1 : 4) * (eight ? 8 : four_rows && narrow ? 1 : wide && !two ? 4 : 2);
    uint32_t kernel = GPU_KERNEL_matmul_gemv_1x2;
    if (subgroup) {
        kernel = wide ? GPU_KERNEL_matmul_gemv_subgroup_wide_1x4 : GPU_KERNEL_matmul_gemv_subgroup_1x2;
    } else if (wide && p->quantised) {
        kernel = matmul_row(p, 0,
                            two         ? GPU_KERNEL_matmul_gemv_quant_4x2
                            : four_rows ? GPU_KERNEL_matmul_gemv_quant_4x4
                            : eight     ? GPU_KERNEL_matmul_gemv_quant_1x8
                                        : GPU_KERNEL_matmul_gemv_quant_1x4);
    } else if (wide) {
        kernel = !four_rows ? GPU_KERNEL_matmul_gemv_wide_1x4
                 : two      ? GPU_KERNEL_matmul_gemv_wide_4x2
                 : narrow   ? GPU_KERNEL_matmul_gemv_wide_4x1
                            : GPU_KERNEL_matmul_gemv_wide_4x4;
    }
    return matmul_tile(kernel, four_rows ? 4 : 1, width, (uint32_t)wide);
}

static gpu_matmul_kernel matmul_gemv(const gpu_lowering *gpu, const gpu_matmul *p, int wide)
{
    const int subgroup = p->variant == GPU_MATMUL_GEMV_SUBGROUP;
    gpu_matmul_kernel k = matmul_gemv_tile(gpu, p, wide);
    k.for_cpu = gpu->software && !subgroup;
    /* Lanes depend on K and N, never on M: the order of a row's sum must not. On a CPU lanes read one row of b
     * together: as many rows at once as there are invocations would push each other out of a cache, since rows are
     * often powers of two apart. */
    uint32_t lanes, groups = 1;
    if (subgroup) {
        lanes = gpu_workgroup(gpu, matmul_tuned(gpu, GPU_MATMUL_GEMV_SUBGROUP, GPU_GEMV_LANES));
    } else if (gpu->software) {
        const int along = (p->trans_b || p->n < 256) && p->k >= 256;
        lanes = along ? matmul_tuned(gpu, GPU_MATMUL_GEMV, GPU_GEMV_LANES_CPU) : 1;
        groups = lanes == 1 ? 8 : 1;
    } else {
        lanes = matmul_tuned(gpu, GPU_MATMUL_GEMV, p->trans_b ? GPU_GEMV_LANES : GPU_GEMV_LANES_ACROSS);
        groups = 64 / lanes;
    }
    k.local_x = p->trans_b ? lanes : groups;
    k.local_y = p->trans_b ? groups : lanes;
    k.grid_x = groups;
    k.grid_y = 1;
    return k;
}

/* Four subgroups, two by two, of 2 by 2 or 4 by 4 matrices each (shaders/matmul_matrix.kern). Four by four are more
 * than the registers hold where matrices are small: on Intel's GPUs. */
static gpu_matmul_kernel matmul_matrix(const gpu_lowering *gpu, uint64_t m, uint64_t n, int wide)
{
    const uint32_t rows = gpu->limits->matrix[0], columns = gpu->limits->matrix[1];
    const int most = matmul_tuned(gpu, GPU_MATMUL_MATRIX, GPU_MATRIX_MATRICES) == 4;
    const int four = most && wide && (gpu->software || rows * columns >= 256) && m > 4 * rows && n > 4 * columns;
    gpu_matmul_kernel k = four   ? matmul_tile(GPU_KERNEL_matmul_matrix_wide_4x4, 8 * rows, 8 * columns, 1)
                          : wide ? matmul_tile(GPU_KERNEL_matmul_matrix_wide_2x2, 4 * rows, 4 * columns, 1)
                                 : matmul_tile(GPU_KERNEL_matmul_matrix_2x2, 4 * rows, 4 * columns, 0);
    k.local_x = 4 * gpu->limits->matrix_width;
    k.local_y = k.grid_x = k.grid_y = k.pairs = 1;
    k.for_cpu = (uint32_t)gpu->software;
    return k;
}

/* Lanes share four columns as in matmul_gemv, a block of each at a time. */
static gpu_matmul_kernel matmul_integer(const gpu_lowering *gpu, const gpu_matmul *p)
{
    gpu_matmul_kernel k = matmul_tile(matmul_row(p, 0, GPU_KERNEL_matmul_gemv_quant_integer_1x4), 1, 4, 0);
    k.local_x = matmul_tuned(gpu, GPU_MATMUL_INTEGER, GPU_INTEGER_LANES);
    k.local_y = k.grid_x = 64 / k.local_x;
    k.grid_y = 1;
    return k;
}

/* A workgroup's lanes share the columns of one tile at a time. */
static gpu_matmul_kernel matmul_stream(const gpu_lowering *gpu, const gpu_matmul *p, int wide)
{
    gpu_matmul_kernel k = !wide      ? matmul_tile(GPU_KERNEL_matmul_stream_1x2, 1, 2, 0)
                          : p->m > 1 ? matmul_tile(GPU_KERNEL_matmul_stream_wide_4x4, 4, 4, 1)
                                     : matmul_tile(GPU_KERNEL_matmul_stream_wide_1x4, 1, 4, 1);
    k.local_x = matmul_tuned(gpu, GPU_MATMUL_STREAM, GPU_STREAM_LANES);
    k.local_y = k.grid_x = k.grid_y = 1;
    k.for_cpu = (uint32_t)gpu->software;
    return k;
}

gpu_matmul_shares gpu_matmul_stream(const gpu_lowering *gpu, const gpu_matmul *p, const gpu_matmul_kernel *kernel)
{
    const uint64_t blocks = gpu_div_up(p->k, GPU_STREAM_BLOCK), all = gpu_div_up(p->n, kernel->columns) * blocks,
                   share = gpu_div_up(all, matmul_tuned(gpu, GPU_MATMUL_STREAM, GPU_STREAM_SHARES));
    return (gpu_matmul_shares){gpu_div_up(all, share), share, (blocks + share - 2) / share + 1};
}

gpu_matmul_kernel gpu_matmul_pick(const gpu_lowering *gpu, const gpu_matmul *p, uint64_t m, uint64_t n, int wide)
{
    const int aligned = wide && matmul_may_be_wide(p);
    switch (p->variant) {
    case GPU_MATMUL_REGISTER: return matmul_register(gpu, p, m, n, aligned);
    case GPU_MATMUL_SHARED:
    case GPU_MATMUL_PAIRS: return matmul_shared(gpu, p, aligned);
    /* What cutting leaves may be narrower than a vector, whose first columns would then lie outside of the window. */
    case GPU_MATMUL_VECTOR: return n < 16 ? matmul_register(gpu, p, m, n, aligned) : matmul_vector(gpu);
    case GPU_MATMUL_DOT: return matmul_dot(gpu, p);
    case GPU_MATMUL_MATRIX: return matmul_matrix(gpu, m, n, aligned);
    case GPU_MATMUL_INTEGER: return matmul_integer(gpu, p);
    case GPU_MATMUL_STREAM: return matmul_stream(gpu, p, aligned);
    case GPU_MATMUL_GEMV: return matmul_gemv(gpu, p, aligned);
    case GPU_MATMUL_GEMV_SUBGROUP: return matmul_gemv(gpu, p, aligned);
    default: return matmul_naive(gpu, p);
    }
}

/* How often an invocation goes round loops (gpu_rounds_fit), at most: one term after the other, for two results of 16
 * bits or with the filling of tiles besides, or four together; and some hundred to store a tile. */
static uint64_t matmul_rounds(uint32_t variant, uint64_t k)
{
    const int singly = variant == GPU_MATMUL_NAIVE || variant == GPU_MATMUL_SHARED || variant == GPU_MATMUL_VECTOR ||
                       variant == GPU_MATMUL_MATRIX || variant == GPU_MATMUL_PAIRS;
    return (singly ? 2 * k : gpu_div_up(k, 4)) + 1024;
}

int gpu_has_matrix_groups(const gpu_lowering *gpu)
{
    const uint32_t subgroups = gpu->limits->subgroups_settable, local = 4 * gpu->limits->matrix_width;
    return (subgroups == 0 || subgroups >= 4) && local <= gpu->limits->max_workgroup &&
           local <= gpu->limits->max_local[0];
}

/* Products of f16 alone, with room for the largest tiles of matmul_matrix.kern: of a and b, with a vector of 16 bytes
 * to spare for every 64, and one matrix of sums for each subgroup. */
static int matmul_can_matrix(const gpu_lowering *gpu, const gpu_matmul *p)
{
    const uint32_t *matrix = gpu->limits->matrix, lines = 2 * 4 * (matrix[0] + matrix[1]);
    return p->a_type == PCO_F16 && p->b_type == PCO_F16 && gpu_has_matrix_groups(gpu) &&
           lines * 80 + 4 * 4 * matrix[0] * matrix[1] <= gpu->limits->shared_memory;
}

/* Room for what matmul_shared.kern and matmul_pairs.kern are compiled for. */
static int matmul_has_tiles(const gpu_lowering *gpu)
{
    return !gpu_smallest_tiles(gpu->limits) && gpu->limits->max_workgroup >= 128 && gpu->limits->max_local[0] >= 16 &&
           gpu->limits->max_local[1] >= 8 && gpu->limits->shared_memory >= 8704;
}

uint64_t gpu_matmul_integer_bytes(const gpu_lowering *gpu, const gpu_matmul *p)
{
    return gpu_count(&gpu->part->tensors[p->a]) / GPU_INTEGER_BLOCK * GPU_INTEGER_BYTES;
}

/* Where workgroups may be too few for the device: few rows, and tiles as gpu_matmul_choose takes them. Sums of all
 * parts have to be seen at once, by what adds them (shaders/matmul_finish.kern). */
static int matmul_can_split(const gpu_lowering *gpu, const gpu_matmul *p, uint32_t variant)
{
    gpu_matmul chosen = *p;
    chosen.variant = variant;
    const uint64_t part = gpu_matmul_part(gpu, &chosen);
    const int one_column = p->n == 1 && !p->quantised;
    const int apt = variant == GPU_MATMUL_GEMV_SPLIT ? p->m <= 16 || one_column : matmul_large(p);
    return apt && part < p->k && p->batch.rank <= 2 && gpu_matmul_whole(gpu, p) &&
           p->total <= gpu_window(gpu, 4) / gpu_div_up(p->k, part) && gpu_matmul_can(gpu, p, gpu_matmul_base(variant));
}

/* Few rows of floats, a sum that has several blocks, and room for all sums of all parts at once. An invocation goes
 * over the blocks of its share, and with each tile that ends in there over the workgroup's sums. */
static int matmul_can_stream(const gpu_lowering *gpu, const gpu_matmul *p)
{
    if (p->quantised || p->trans_a || !p->trans_b || p->m > 16 || p->k <= GPU_STREAM_BLOCK || p->batch.rank > 2 ||
        !gpu_matmul_whole(gpu, p) || gpu_smallest_tiles(gpu->limits) || gpu->limits->max_workgroup < 64)
        return 0;
    for (int wide = 0; wide < 2; wide++) {
        const gpu_matmul_kernel kernel = matmul_stream(gpu, p, wide);
        const gpu_matmul_shares shares = gpu_matmul_stream(gpu, p, &kernel);
        const uint64_t tiles = shares.blocks / gpu_div_up(p->k, GPU_STREAM_BLOCK) + 2, /* it meets, at most */
            rows = gpu_div_up(kernel.rows * kernel.columns, kernel.local_x);
        if (p->total > gpu_window(gpu, 4) / shares.parts || shares.groups > gpu->limits->max_groups[0] ||
            shares.blocks * shares.groups >> 25 ||
            !gpu_rounds_fit(gpu, shares.blocks * (GPU_STREAM_BLOCK / 4 / kernel.local_x + 1) +
                                     tiles * (rows * (kernel.local_x + shares.parts + 1) + 8)))
            return 0;
    }
    return 1;
}

int gpu_matmul_can(const gpu_lowering *gpu, const gpu_matmul *p, uint32_t variant)
{
    if (gpu_matmul_base(variant) != variant) return matmul_can_split(gpu, p, variant);
    if (!gpu_rounds_fit(gpu, matmul_rounds(variant, p->k))) return 0;
    if (gpu->limits->small_kernels && variant != GPU_MATMUL_SHARED) return variant == GPU_MATMUL_NAIVE;
    gpu_matmul chosen = *p;
    chosen.variant = variant;
    const gpu_matmul_kernel kernel = gpu_matmul_pick(gpu, &chosen, p->m, p->n, 1);
    if (!matmul_binds(gpu, kernel.kernel) || !matmul_has_groups(gpu, &kernel)) return 0;
    const int readable = !p->quantised || !p->trans_a; /* kernels that read quants want a in whole vectors */
    const int smallest = gpu_smallest_tiles(gpu->limits);
    switch (variant) {
    case GPU_MATMUL_REGISTER: return readable && !(p->quantised && smallest);
    case GPU_MATMUL_SHARED: return readable && matmul_has_tiles(gpu);
    case GPU_MATMUL_PAIRS: return p->a_type == PCO_F16 && p->b_type == PCO_F16 && matmul_has_tiles(gpu);
    case GPU_MATMUL_VECTOR: return !p->quantised && !p->trans_b && p->n >= 16;
    case GPU_MATMUL_DOT: return p->n == 1 && !p->quantised ? !p->trans_a : p->trans_b && !p->trans_a;
    case GPU_MATMUL_GEMV: return readable && gpu->limits->max_workgroup >= 64;
    case GPU_MATMUL_MATRIX: return matmul_can_matrix(gpu, p);
    case GPU_MATMUL_STREAM: return matmul_can_stream(gpu, p);
    case GPU_MATMUL_INTEGER:
        return p->quantised && !smallest && p->trans_b && !p->trans_a && gpu->limits->max_workgroup >= 64 &&
               gpu_matmul_integer_bytes(gpu, p) <= gpu_window(gpu, 1) - 64;
    case GPU_MATMUL_GEMV_SUBGROUP: return !p->quantised && (p->n == 1 ? !p->trans_a : p->trans_b);
    default: return 1;
    }
}

uint32_t gpu_matmul_choose(const gpu_lowering *gpu, const gpu_matmul *p)
{
    const int software = gpu->software;
    const int one_column = p->n == 1 && !p->quantised;
    /* The smallest tiles have no form for quants: those go four rows at a time. */
    const int in_fours = p->quantised && gpu_smallest_tiles(gpu->limits);
    if ((p->m <= 4 || one_column || in_fours) && gpu_matmul_can(gpu, p, GPU_MATMUL_GEMV)) {
        if (gpu->limits->needs_met & PCO_GPU_NEEDS_VECTOR_16 && p->k >= 16 && gpu_matmul_can(gpu, p, GPU_MATMUL_DOT))
            return GPU_MATMUL_DOT;
        const int subgroups = gpu->limits->needs_met & PCO_GPU_NEEDS_SUBGROUPS && !software && !p->quantised;
        const int along = one_column ? !p->trans_a : p->trans_b;
        return subgroups && along && p->m == 1 ? GPU_MATMUL_GEMV_SUBGROUP : GPU_MATMUL_GEMV;
    }
    const int large = matmul_large(p);
    if (!software && large && gpu->limits->needs_met & PCO_GPU_NEEDS_COOPERATIVE_MATRIX &&
        gpu_matmul_can(gpu, p, GPU_MATMUL_MATRIX))
        return GPU_MATMUL_MATRIX;
    if ((!software || gpu->limits->small_kernels) && large && gpu_matmul_can(gpu, p, GPU_MATMUL_SHARED))
        return GPU_MATMUL_SHARED;
    if ((gpu->limits->needs_met & PCO_GPU_NEEDS_VECTOR_16) && p->m >= 8 && gpu_matmul_can(gpu, p, GPU_MATMUL_VECTOR))
        return GPU_MATMUL_VECTOR;
    return gpu_matmul_can(gpu, p, GPU_MATMUL_REGISTER) ? GPU_MATMUL_REGISTER : GPU_MATMUL_NAIVE;
}
