/* norm_matmul, where a row of x fits into shared memory, and where it saves time; else the core takes it apart. Rows at
 * once while they and b fit into windows, else columns of one row. */
#include "lower.h"

enum { NORM_MATMUL_WORKGROUP, NORM_MATMUL_LANES, NORM_MATMUL_ROUNDS, NORM_MATMUL_ROUNDS_CPU };
enum { NORM_MATMUL_LANES_CPU = 8, NORM_MATMUL_COLUMNS = 4 /* of each round, for as many neighbours as share them */ };

static const gpu_variant norm_matmul_variants[] = {
    {"shared", .has_forms = 1,
     .constants = {[NORM_MATMUL_WORKGROUP] = {"workgroup", 128, {64, 128, 256}},
                   [NORM_MATMUL_LANES] = {"lanes", 32, {8, 16, 32}},
                   [NORM_MATMUL_ROUNDS] = {"rounds", 1, {1, 2, 4}},
                   [NORM_MATMUL_ROUNDS_CPU] = {"rounds_cpu", 16, {4, 8, 16, 32}}}},
};

/* Products of a row above which the two are left apart: the kernels of matmul, whose forms for each kind of device are
 * not here again, then gain more than a dispatch costs. Measured on lavapipe and PoCL: 2^16 products take 1/1.19 and
 * 1/0.97 of the time of the two; with 2^19 to 2^21, SmolLM2 writes 0.78 and 0.73 as many tokens. The number for GPUs is
 * an estimate, not a measurement: what one does in the microseconds that a dispatch takes to begin behind another. */
static uint64_t norm_matmul_most(const gpu_lowering *gpu) { return gpu->software ? 1u << 16 : 1u << 21; }

/* y [m,n] of x [m,k]; how it is shared out. */
typedef struct norm_matmul {
    uint64_t m, n, k, room;
    uint32_t local, share, rounds, columns;
} norm_matmul;

static norm_matmul norm_matmul_read(const gpu_lowering *gpu)
{
    const gpu_variant *variant = &norm_matmul_variants[0];
    const pco_tensor *x = gpu_input(gpu, 0), *b = gpu_input(gpu, 1);
    norm_matmul p = {.m = gpu_product(x, 0, x->rank - 1), .n = (uint64_t)b->shape[0], .k = (uint64_t)b->shape[1]};
    p.local =
        gpu_workgroup(gpu, gpu->software ? NORM_MATMUL_LANES_CPU : gpu_tuned(gpu, variant, NORM_MATMUL_WORKGROUP));
    p.share = gpu->software ? NORM_MATMUL_LANES_CPU : gpu_tuned(gpu, variant, NORM_MATMUL_LANES);
    if (p.share > p.local) p.share = p.local;
    p.rounds = gpu_tuned(gpu, variant, gpu->software ? NORM_MATMUL_ROUNDS_CPU : NORM_MATMUL_ROUNDS);
    p.columns = NORM_MATMUL_COLUMNS * (p.local / p.share) * p.rounds;
    /* Few sizes, whatever k is: each is a pipeline. */
    p.room = p.k > 1024 ? gpu_div_up(p.k, 1024) * 1024 : 64;
    while (p.room < p.k) p.room *= 2;
    return p;
}

static uint64_t norm_matmul_shared(const norm_matmul *p)
{
    return 4 * (p->room + p->local + (uint64_t)p->local * NORM_MATMUL_COLUMNS);
}

/* The row of the kernel table; those that do without bias and norm_bias where the device has few bindings. */
static uint32_t norm_matmul_kernel(const gpu_lowering *gpu, int wide)
{
    if (pco_gpu_kernels[GPU_KERNEL_norm_matmul_1x4].n_bindings <= gpu->limits->max_bindings)
        return wide ? GPU_KERNEL_norm_matmul_wide_1x4 : GPU_KERNEL_norm_matmul_1x4;
    return wide ? GPU_KERNEL_norm_matmul_4_wide_1x4 : GPU_KERNEL_norm_matmul_4_1x4;
}

static pco_status norm_matmul_supports(gpu_lowering *gpu)
{
    const norm_matmul p = norm_matmul_read(gpu);
    const uint32_t few = pco_gpu_kernels[GPU_KERNEL_norm_matmul_4_1x4].n_bindings,
                   all = pco_gpu_kernels[GPU_KERNEL_norm_matmul_1x4].n_bindings;
    const uint32_t needed = gpu_input(gpu, 2) || gpu_input(gpu, 4) ? all : few;
    if (needed > gpu->limits->max_bindings)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "%u bindings are needed, the device has %u", needed,
                        gpu->limits->max_bindings);
    if (gpu_smallest_tiles(gpu->limits))
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED,
                        "its tile of four columns takes more registers than the device has");
    if (p.n * p.k > norm_matmul_most(gpu))
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "%llu products for a row are done faster without the norm",
                        (unsigned long long)(p.n * p.k));
    if (norm_matmul_shared(&p) > gpu->limits->shared_memory)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "a row of %llu elements does not fit into shared memory",
                        (unsigned long long)p.k);
    return gpu_need_rounds(gpu, 3 * p.k + (uint64_t)p.columns * (p.k / p.share + 64));
}

/* What a dispatch computes: `rows` rows of `columns` columns. */
typedef struct norm_matmul_part {
    uint64_t row, rows, column, columns;
} norm_matmul_part;

/* Elements of an operand; where there is none, the buffer sees x. Returns where they begin. */
static uint32_t norm_matmul_bind(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint32_t operand,
                                 uint64_t first, uint64_t count)
{
    if (gpu_input(gpu, operand))
        return gpu_bind_elements(gpu, d, buffer, gpu_input_index(gpu, operand), first, count, 0);
    if (gpu_has_buffer(d, buffer)) gpu_bind_again(gpu, d, buffer, GPU_norm_matmul_x);
    return 0;
}

static int norm_matmul_fill(gpu_lowering *gpu, const norm_matmul *p, const norm_matmul_part *part, int wide,
                            pco_gpu_dispatch *d)
{
    pco_norm_matmul_attrs room;
    const pco_norm_matmul_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const pco_tensor *b = gpu_input(gpu, 1), *bias = gpu_input(gpu, 2), *weight = gpu_input(gpu, 3),
                     *shift = gpu_input(gpu, 4);
    const uint32_t unit = 16 / gpu_element_bytes(b->dtype);
    gpu_begin(gpu, d, norm_matmul_kernel(gpu, wide), p->local, 1, 1);
    gpu_norm_matmul_params params = {.k_terms = (uint32_t)p->k,
                                     .n_columns = (uint32_t)part->columns,
                                     .eps = (float)attrs->eps,
                                     .k_as_float = (float)p->k};
    params.x_first = norm_matmul_bind(gpu, d, GPU_norm_matmul_x, 0, part->row * p->k, part->rows * p->k);
    params.b_first = norm_matmul_bind(gpu, d, GPU_norm_matmul_b, 1, part->column * p->k, part->columns * p->k);
    params.weight_first = norm_matmul_bind(gpu, d, GPU_norm_matmul_norm_weight, 3, 0, p->k);
    params.bias_first = norm_matmul_bind(gpu, d, GPU_norm_matmul_bias, 2, part->column, part->columns);
    params.shift_first = norm_matmul_bind(gpu, d, GPU_norm_matmul_norm_bias, 4, 0, p->k);
    params.y_first = gpu_bind_elements(gpu, d, GPU_norm_matmul_y, gpu_output_index(gpu, 0),
                                       part->row * p->n + part->column, part->rows * part->columns, 1);
    if (wide && (p->k % unit || params.b_first % unit)) return 0;
    gpu_set_specs(gpu, d, norm_matmul, .layer = (int32_t)attrs->norm, .b_t = (int32_t)b->dtype,
                  .bias_t = bias ? (int32_t)bias->dtype : -1,
                  .norm_t = (int32_t)(weight  ? weight->dtype
                                      : shift ? shift->dtype
                                              : PCO_F32),
                  .has_weight = weight != NULL, .has_shift = shift != NULL, .activation = (int32_t)attrs->activation,
                  .share = (int32_t)p->share, .rounds = (int32_t)p->rounds, .room = (int32_t)p->room);
    gpu_set_params_from(gpu, d, norm_matmul, &params);
    return 1;
}

static void norm_matmul_emit(gpu_lowering *gpu, const norm_matmul *p, const norm_matmul_part *part)
{
    pco_gpu_dispatch d;
    if (!norm_matmul_fill(gpu, p, part, 1, &d)) norm_matmul_fill(gpu, p, part, 0, &d);
    gpu_emit_grid(gpu, &d, gpu_div_up(part->columns, p->columns), part->rows, 1);
}

static pco_status norm_matmul_lower(gpu_lowering *gpu)
{
    const norm_matmul p = norm_matmul_read(gpu);
    const uint64_t window = gpu_window(gpu, 4), b_window = gpu_window(gpu, gpu_element_bytes(gpu_input(gpu, 1)->dtype));
    if (p.m * p.n == 0) return gpu->status;
    const uint64_t columns = gpu_min(gpu_min(p.n, window), b_window / p.k);
    if (p.k > window || columns == 0)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "a row of %llu elements exceeds the device's binding limit",
                        (unsigned long long)p.k);
    const uint64_t rows =
        columns < p.n ? 1 : gpu_min(gpu_min(p.m, gpu->limits->max_groups[1]), window / gpu_max(p.n, p.k));
    for (uint64_t m = 0; m < p.m; m += rows)
        for (uint64_t n = 0; n < p.n && gpu->status == PCO_OK; n += columns)
            norm_matmul_emit(gpu, &p, &(norm_matmul_part){m, gpu_min(rows, p.m - m), n, gpu_min(columns, p.n - n)});
    return gpu->status;
}

static void norm_matmul_propose(gpu_lowering *gpu, pco_proposal *proposal)
{
    pco_tensor_proposal *b = &proposal->tensors[gpu_input_index(gpu, 1)];
    if (b->alignment < 16) b->alignment = 16;
}

const gpu_lowerer gpu_lower_norm_matmul = {.variants = norm_matmul_variants,
                                           .n_variants = 1,
                                           .supports = norm_matmul_supports,
                                           .propose = norm_matmul_propose,
                                           .lower = norm_matmul_lower};
