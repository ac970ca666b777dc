/* indexed_matmul: with the kernel of few rows of matmul, whose rows of b are those of the matrix that a choice (an
 * index and its row of the result) has chosen. Either a workgroup goes with a choice, or with a matrix, whose choices
 * it finds.
 */
#include "layout.h"
#include "lower.h"

enum { INDEXED_ANY, INDEXED_CHOICES, INDEXED_MATRICES };

static const gpu_variant indexed_variants[] = {
    [INDEXED_ANY] = {"any", 0},
    [INDEXED_CHOICES] = {"choices", 0},
    [INDEXED_MATRICES] = {"matrices", .constants = {{"unroll", 2, {1, 2}, .small = 1}}}}; /* 1: four terms at a time */

/* Rows of the kernel table by variant, and their tiles. Four columns of k-quants by four rows spill on Intel. */
static const struct {
    uint32_t floats, quant, rows, columns, quant_columns;
} INDEXED_KERNELS[] = {
    [INDEXED_ANY] = {GPU_KERNEL_indexed_matmul_1x2, GPU_KERNEL_indexed_matmul_quant_1x2, 1, 2, 2},
    [INDEXED_CHOICES] = {GPU_KERNEL_indexed_matmul_wide_1x4, GPU_KERNEL_indexed_matmul_quant_1x4, 1, 4, 4},
    [INDEXED_MATRICES] = {GPU_KERNEL_indexed_matmul_wide_4x4, GPU_KERNEL_indexed_matmul_quant_4x2, 4, 4, 2},
};

/* x [choices / each, k], weight [matrices, n, k], y [choices, n] */
typedef struct indexed_sizes {
    uint64_t choices, each, matrices, n, k;
} indexed_sizes;

/* What a dispatch computes: choices from `choice` on, columns from `column` on, of matrices from `matrix` on. zeros:
 * also the choices whose index is none. */
typedef struct indexed_part {
    uint64_t choice, choices, matrix, matrices, column, columns;
    int zeros;
} indexed_part;

static indexed_sizes indexed_sizes_of(const gpu_lowering *gpu)
{
    pco_indexed_matmul_attrs room;
    const pco_indexed_matmul_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const pco_tensor *x = gpu_input(gpu, 0), *weight = gpu_input(gpu, 1), *indices = gpu_input(gpu, 2);
    const uint64_t matrices = (uint64_t)attrs->matrices;
    return (indexed_sizes){.choices = gpu_count(indices),
                           .each = x->rank > indices->rank ? 1 : (uint64_t)indices->shape[indices->rank - 1],
                           .matrices = matrices,
                           .n = (uint64_t)weight->shape[0] / matrices,
                           .k = (uint64_t)weight->shape[1]};
}

/* Are workgroups too small for lanes that share a sum? */
static int indexed_is_alone(const gpu_lowering *gpu)
{
    const pco_gpu_limits *limits = gpu->limits;
    return limits->max_workgroup < 64 || limits->max_local[0] < 32 || limits->max_local[1] < 8;
}

/* Lanes that share a sum: by K alone, since the order of a sum must not depend on what comes with it. */
static uint32_t indexed_lanes(const gpu_lowering *gpu, const indexed_sizes *s)
{
    if (indexed_is_alone(gpu)) return 1;
    return gpu->software ? s->k >= 256 ? 8 : 1 : 32;
}

/* Groups of lanes in a workgroup, each with columns of its own. */
static uint32_t indexed_groups(const gpu_lowering *gpu, const indexed_sizes *s)
{
    if (indexed_is_alone(gpu)) return 1;
    return gpu->software ? indexed_lanes(gpu, s) == 1 ? 8 : 1 : 2;
}

/* How often an invocation goes round loops for so many choices, at most: it looks at all, and may have to take all. */
static uint64_t indexed_rounds(const gpu_lowering *gpu, const indexed_sizes *s, uint64_t choices)
{
    const uint32_t rows = INDEXED_KERNELS[gpu->variant].rows;
    const uint64_t taken = gpu->variant == INDEXED_MATRICES ? gpu_div_up(choices, rows) : 1;
    return choices + taken * (gpu_div_up(s->k, 4 * (uint64_t)indexed_lanes(gpu, s)) + 16 * rows + 64) + 64;
}

static uint32_t indexed_kernel(const gpu_lowering *gpu, const gpu_format *format)
{
    if (!format) return INDEXED_KERNELS[gpu->variant].floats;
    const int rolled = gpu->variant == INDEXED_MATRICES && gpu_tuned(gpu, &indexed_variants[INDEXED_MATRICES], 0) == 1;
    const uint32_t first = rolled ? GPU_KERNEL_indexed_matmul_quant_rolled_4x2 : INDEXED_KERNELS[gpu->variant].quant;
    return first + format->number;
}

static void indexed_emit(gpu_lowering *gpu, const indexed_sizes *s, const indexed_part *part)
{
    const pco_tensor *x = gpu_input(gpu, 0), *weight = gpu_input(gpu, 1), *y = gpu_output(gpu, 0);
    const gpu_format *format = gpu_format_of(weight->dtype);
    const uint32_t lanes = indexed_lanes(gpu, s), groups = indexed_groups(gpu, s);
    const uint64_t rows = (part->choice + part->choices - 1) / s->each - part->choice / s->each + 1;
    const uint64_t w_first = (part->matrix * s->n + part->column) * s->k,
                   w_count = ((part->matrices - 1) * s->n + part->columns) * s->k;
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, indexed_kernel(gpu, format), lanes, groups, 1);
    gpu_set_specs(gpu, &d, indexed_matmul, .a_t = (int32_t)x->dtype, .b_t = (int32_t)weight->dtype,
                  .y_t = (int32_t)y->dtype, .for_cpu = gpu->software != 0);
    gpu_indexed_matmul_params params = {
        .m_rows = (uint32_t)part->choices,
        .n_columns = (uint32_t)part->columns,
        .k_terms = (uint32_t)s->k,
        .lda = (uint32_t)s->k,
        .ldb = (uint32_t)s->k,
        .a_first = gpu_bind_elements(gpu, &d, GPU_indexed_matmul_a, gpu_input_index(gpu, 0),
                                     part->choice / s->each * s->k, rows * s->k, 0),
        .y_first = gpu_bind_elements(gpu, &d, GPU_indexed_matmul_y, gpu_output_index(gpu, 0),
                                     part->choice * s->n + part->column, (part->choices - 1) * s->n + part->columns, 1),
        .ldy = (uint32_t)s->n,
        .indices_first = gpu_bind_elements(gpu, &d, GPU_indexed_matmul_indices, gpu_input_index(gpu, 2), part->choice,
                                           part->choices, 0),
        .choice_first = (uint32_t)(part->choice % s->each),
        .per_row = (uint32_t)s->each,
        .matrix_first = (uint32_t)part->matrix,
        .matrix_end = (uint32_t)(part->matrix + part->matrices),
        .n_matrices = (uint32_t)s->matrices,
        .matrix_step = (uint32_t)(s->n * s->k),
        .zeros = (uint32_t)part->zeros};
    if (format) {
        const gpu_planes planes = gpu_bind_planes(gpu, &d, GPU_indexed_matmul_b, GPU_indexed_matmul_s,
                                                  gpu_input_index(gpu, 1), w_first, w_count);
        params.b_first = planes.quants_first;
        params.s_first = planes.scales_first;
    } else {
        params.b_first = gpu_bind_elements(gpu, &d, GPU_indexed_matmul_b, gpu_input_index(gpu, 1), w_first, w_count, 0);
    }
    gpu_set_params_from(gpu, &d, indexed_matmul, &params);
    const uint64_t columns =
        format ? INDEXED_KERNELS[gpu->variant].quant_columns : INDEXED_KERNELS[gpu->variant].columns;
    const uint64_t across = gpu_div_up(part->columns, groups * columns);
    gpu_emit_grid(gpu, &d, across, 1,
                  gpu->variant == INDEXED_MATRICES ? part->matrices + (uint64_t)(part->zeros != 0) : part->choices);
}

/* Bytes of `count` weights in what a kernel sees at once: the larger plane, or all. */
static uint64_t indexed_weights(uint32_t dtype, uint64_t bytes)
{
    const gpu_format *format = gpu_format_of(dtype);
    return format ? bytes / gpu_max(format->quants, format->scales) * format->block : bytes / gpu_element_bytes(dtype);
}

/* Choices at a time: their rows of x and y fit, and the loops over them. */
static uint64_t indexed_choices(const gpu_lowering *gpu, const indexed_sizes *s)
{
    const uint64_t x_rows = gpu_window(gpu, 4) / gpu_max(s->k, 1), y_rows = gpu_window(gpu, 4) / s->n;
    const uint64_t most = gpu->variant == INDEXED_MATRICES ? s->choices : gpu->limits->max_groups[2];
    uint64_t choices = gpu_min(gpu_min(s->choices, most), gpu_min(gpu_min(x_rows, y_rows), gpu_window(gpu, 4)));
    while (choices > 1 && !gpu_rounds_fit(gpu, indexed_rounds(gpu, s, choices))) choices = (choices + 1) / 2;
    return choices;
}

static pco_status indexed_lower(gpu_lowering *gpu)
{
    const indexed_sizes s = indexed_sizes_of(gpu);
    const pco_tensor *weight = gpu_input(gpu, 1);
    if (gpu_count(gpu_output(gpu, 0)) == 0) return gpu->status;
    const uint64_t choices = indexed_choices(gpu, &s), limit = gpu_window(gpu, 1) - 64;
    const uint64_t row = gpu_max(s.k, 1),
                   window = gpu_min(indexed_weights(weight->dtype, limit), (UINT64_C(1) << 31) - 1024);
    const uint64_t groups = gpu->limits->max_groups[2] - 1;
    const uint64_t columns = gpu_min(gpu_min(s.n, window / row), gpu->limits->max_groups[0]);
    const uint64_t matrices = columns < s.n ? 1 : gpu_min(gpu_min(s.matrices, groups), window / row / s.n);
    if (choices == 0 || columns == 0 || matrices == 0)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "rows of %llu and %llu elements exceed the device's binding limit",
                        (unsigned long long)s.k, (unsigned long long)s.n);
    if (gpu_need_rounds(gpu, indexed_rounds(gpu, &s, choices))) return gpu->status;
    for (uint64_t choice = 0; choice < s.choices; choice += choices)
        for (uint64_t m = 0; m < s.matrices; m += matrices)
            for (uint64_t n = 0; n < s.n && gpu->status == PCO_OK; n += columns)
                indexed_emit(gpu, &s,
                             &(indexed_part){.choice = choice,
                                             .choices = gpu_min(choices, s.choices - choice),
                                             .matrix = m,
                                             .matrices = gpu_min(matrices, s.matrices - m),
                                             .column = n,
                                             .columns = gpu_min(columns, s.n - n),
                                             .zeros = m == 0});
    return gpu->status;
}

static pco_status indexed_supports(gpu_lowering *gpu)
{
    const pco_tensor *weight = gpu_input(gpu, 1);
    if (gpu_format_of(weight->dtype) && weight->kind != PCO_KIND_CONSTANT)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "%s is quantised and not a constant", weight->name);
    const uint32_t kernel =
        gpu_format_of(weight->dtype) ? GPU_KERNEL_indexed_matmul_quant_1x2 : GPU_KERNEL_indexed_matmul_1x2;
    if (pco_gpu_kernels[kernel].n_bindings > gpu->limits->max_bindings)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "%u bindings are needed, the device has %u",
                        pco_gpu_kernels[kernel].n_bindings, gpu->limits->max_bindings);
    return gpu->status;
}

/* Rows of whole vectors of four words; the alignment of offsets is as proposed. */
static int indexed_eligible(const gpu_lowering *gpu, uint32_t variant)
{
    const pco_tensor *x = gpu_input(gpu, 0), *weight = gpu_input(gpu, 1);
    const uint64_t k = (uint64_t)weight->shape[1];
    const int quantised = gpu_format_of(weight->dtype) != NULL;
    if (variant == INDEXED_ANY) return 1;
    /* their tiles take more registers than devices of the smallest ones have */
    if (gpu_smallest_tiles(gpu->limits) && (variant == INDEXED_MATRICES || quantised)) return 0;
    return !gpu->limits->small_kernels && k % (16 / gpu_element_bytes(x->dtype)) == 0 &&
           (quantised || k % (16 / gpu_element_bytes(weight->dtype)) == 0);
}

/* Matrices that few choices share are better looked for by the choices. */
static uint32_t indexed_choose(const gpu_lowering *gpu)
{
    const indexed_sizes s = indexed_sizes_of(gpu);
    if (!indexed_eligible(gpu, INDEXED_CHOICES)) return INDEXED_ANY;
    const int matrices = s.choices >= 2 * s.matrices && indexed_eligible(gpu, INDEXED_MATRICES);
    return matrices ? INDEXED_MATRICES : INDEXED_CHOICES;
}

static void indexed_propose(gpu_lowering *gpu, pco_proposal *proposal)
{
    gpu_want_planes(proposal, gpu->part, gpu_input_index(gpu, 1));
    for (uint32_t i = 0; i < 2; i++) {
        pco_tensor_proposal *tensor = &proposal->tensors[gpu_input_index(gpu, i)];
        if (tensor->alignment < 16) tensor->alignment = 16;
    }
}

const gpu_lowerer gpu_lower_indexed_matmul = {.variants = indexed_variants,
                                              .n_variants = sizeof indexed_variants / sizeof *indexed_variants,
                                              .eligible = indexed_eligible,
                                              .choose = indexed_choose,
                                              .supports = indexed_supports,
                                              .propose = indexed_propose,
                                              .lower = indexed_lower};
