/* Backward ops of softmax, the norms and swiglu. */
#include "elementwise.h"
#include "rows.h"

_Static_assert(GPU_KERNEL_softmax_backward_serial + GPU_SUBGROUP == GPU_KERNEL_softmax_backward_subgroup,
               "order of rows");
_Static_assert(GPU_KERNEL_norm_backward_serial + GPU_SUBGROUP == GPU_KERNEL_norm_backward_subgroup, "order of rows");

/* Slices of so many elements that fit a window; refuses when none does. */
static uint64_t gpu_slices(gpu_lowering *gpu, uint64_t elements, uint64_t all)
{
    const uint64_t step = elements ? gpu_window(gpu, gpu_element_bytes(gpu_input(gpu, 0)->dtype)) / elements : all;
    if (step == 0)
        gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "slices of %llu elements exceed the device's binding limit",
                 (unsigned long long)elements);
    return step;
}

/* ---- softmax_backward ---- */

typedef struct gpu_soft {
    uint64_t outer, n, inner;
} gpu_soft;

static gpu_soft gpu_soft_of(const gpu_lowering *gpu)
{
    pco_softmax_backward_attrs room;
    const pco_softmax_backward_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const pco_tensor *x = gpu_input(gpu, 0);
    const uint32_t axis = (uint32_t)attrs->axis;
    return (gpu_soft){gpu_product(x, 0, axis), (uint64_t)x->shape[axis], gpu_product(x, axis + 1, x->rank)};
}

static int gpu_soft_eligible(const gpu_lowering *gpu, uint32_t variant)
{
    return gpu_rows_eligible(gpu, variant, gpu_soft_of(gpu).n);
}

static uint32_t gpu_choose_soft(const gpu_lowering *gpu)
{
    const gpu_soft s = gpu_soft_of(gpu);
    return gpu_choose_rows(gpu, s.outer * s.inner, s.n, s.inner);
}

static pco_status gpu_lower_soft_node(gpu_lowering *gpu)
{
    const gpu_soft s = gpu_soft_of(gpu);
    const uint64_t block = s.n * s.inner;
    if (gpu_count(gpu_output(gpu, 0)) == 0) return gpu->status;
    const uint64_t step = gpu_slices(gpu, block, s.outer);
    for (uint64_t first = 0; first < s.outer && gpu->status == PCO_OK; first += step) {
        const uint64_t outer = gpu_min(step, s.outer - first);
        pco_gpu_dispatch d;
        const uint64_t groups = gpu_begin_rows(gpu, &d, GPU_KERNEL_softmax_backward_serial, outer * s.inner, s.n);
        gpu_set_specs(gpu, &d, softmax_backward, .x = (int32_t)gpu_input(gpu, 0)->dtype, .strided = s.inner > 1,
                      .walk = gpu_walk(gpu, s.inner));
        gpu_set_params(gpu, &d, softmax_backward, .n_rows = (uint32_t)(outer * s.inner), .n = (uint32_t)s.n,
                       .p_first = gpu_bind_elements(gpu, &d, GPU_softmax_backward_p, gpu_input_index(gpu, 0),
                                                    first * block, outer * block, 0),
                       .gradient_first = gpu_bind_elements(gpu, &d, GPU_softmax_backward_gradient,
                                                           gpu_input_index(gpu, 1), first * block, outer * block, 0),
                       .y_first = gpu_bind_elements(gpu, &d, GPU_softmax_backward_y, gpu_output_index(gpu, 0),
                                                    first * block, outer * block, 1),
                       .stride = (uint32_t)s.inner);
        gpu_emit(gpu, &d, groups);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_softmax_backward = {.variants = gpu_row_variants,
                                                .n_variants = GPU_N_ROW_VARIANTS,
                                                .eligible = gpu_soft_eligible,
                                                .choose = gpu_choose_soft,
                                                .lower = gpu_lower_soft_node};

/* ---- norms ---- */

typedef struct gpu_norm_backward {
    int rms, form;
    double eps;
    uint64_t n, rows;
    int64_t divisor;
} gpu_norm_backward;

static gpu_norm_backward gpu_norm_backward_of(const gpu_lowering *gpu)
{
    const pco_tensor *x = gpu_input(gpu, 0);
    gpu_norm_backward b = {.rms = gpu->node->op == PCO_OP_RMS_NORM_BACKWARD,
                           .n = (uint64_t)x->shape[x->rank - 1],
                           .rows = gpu_product(x, 0, x->rank - 1)};
    b.divisor = (int64_t)b.n;
    if (b.rms) {
        pco_rms_norm_backward_attrs room;
        b.eps = ((const pco_rms_norm_backward_attrs *)gpu_attrs(gpu, &room, sizeof room))->eps;
    } else {
        pco_layer_norm_backward_attrs room;
        const pco_layer_norm_backward_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
        b.eps = attrs->eps;
        b.form = attrs->form != 0;
        b.divisor -= attrs->correction;
    }
    return b;
}

static int gpu_norm_backward_eligible(const gpu_lowering *gpu, uint32_t variant)
{
    return gpu_rows_eligible(gpu, variant, gpu_norm_backward_of(gpu).n);
}

static uint32_t gpu_choose_norm_backward(const gpu_lowering *gpu)
{
    const gpu_norm_backward b = gpu_norm_backward_of(gpu);
    return gpu_choose_rows(gpu, b.rows, b.n, 1);
}

static void gpu_emit_norm_backward(gpu_lowering *gpu, const gpu_norm_backward *b, uint64_t first, uint64_t rows)
{
    const pco_tensor *weight = gpu_input(gpu, 2);
    const uint64_t n = b->n;
    pco_gpu_dispatch d;
    const uint64_t groups = gpu_begin_rows(gpu, &d, GPU_KERNEL_norm_backward_serial, rows, n);
    gpu_set_specs(gpu, &d, norm_backward, .rms = b->rms, .x = (int32_t)gpu_input(gpu, 0)->dtype, .form = b->form,
                  .w = (int32_t)(weight ? weight->dtype : PCO_F32), .has_weight = weight != NULL,
                  .walk = gpu_walk(gpu, 1));
    gpu_norm_backward_params p = {
        .n_rows = (uint32_t)rows,
        .n = (uint32_t)n,
        .x_first = gpu_bind_elements(gpu, &d, GPU_norm_backward_x, gpu_input_index(gpu, 0), first * n, rows * n, 0),
        .eps = (float)b->eps,
        .n_as_float = (float)n,
        .divisor = (float)b->divisor,
        .gradient_first =
            gpu_bind_elements(gpu, &d, GPU_norm_backward_gradient, gpu_input_index(gpu, 1), first * n, rows * n, 0),
        .y_first = gpu_bind_elements(gpu, &d, GPU_norm_backward_y, gpu_output_index(gpu, 0), first * n, rows * n, 1)};
    if (weight) p.weight_first = gpu_bind_elements(gpu, &d, GPU_norm_backward_weight, gpu_input_index(gpu, 2), 0, n, 0);
    gpu_set_params_from(gpu, &d, norm_backward, &p);
    gpu_emit(gpu, &d, groups);
}

static pco_status gpu_lower_norm_backward_node(gpu_lowering *gpu)
{
    const gpu_norm_backward b = gpu_norm_backward_of(gpu);
    if (gpu_count(gpu_output(gpu, 0)) == 0) return gpu->status;
    const uint64_t step = gpu_slices(gpu, b.n, b.rows);
    for (uint64_t first = 0; first < b.rows && gpu->status == PCO_OK; first += step)
        gpu_emit_norm_backward(gpu, &b, first, gpu_min(step, b.rows - first));
    return gpu->status;
}

const gpu_lowerer gpu_lower_norm_backward = {.variants = gpu_row_variants,
                                             .n_variants = GPU_N_ROW_VARIANTS,
                                             .eligible = gpu_norm_backward_eligible,
                                             .choose = gpu_choose_norm_backward,
                                             .lower = gpu_lower_norm_backward_node};

/* ---- swiglu_backward ---- */

/* `rows` rows of n elements, which begin at element `begin` of gate, up and the results and at element `at`
 * of the gradient. Joined halves: the rows of these are 2n elements apart, and up and its gradient lie n
 * further on. part 0: the gate's gradient; 1: that of up. */
static void gpu_emit_swiglu_backward(gpu_lowering *gpu, uint64_t begin, uint64_t at, uint64_t rows, uint64_t n,
                                     int part)
{
    const pco_tensor *gate = gpu_input(gpu, 0);
    const int joined = gpu_input(gpu, 1) == NULL;
    const uint32_t lanes = gpu_lanes(gate->dtype), up = gpu_input_index(gpu, joined ? 0 : 1);
    const uint64_t half = joined ? n : 0, stride = n + half, span = (rows - 1) * stride + n;
    const int32_t mode = rows == 1 && !joined ? 1 : n % lanes ? 2 : 0;
    const gpu_rows cover = gpu_cover_rows(gpu, mode == 2 ? n : gpu_div_up(n, lanes), rows);
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, GPU_KERNEL_swiglu_backward, cover.local_x, cover.local_y, 1);
    gpu_set_specs(gpu, &d, swiglu_backward, .x = (int32_t)gate->dtype, .per = (int32_t)cover.per, .mode = mode,
                  .part = part);
    gpu_swiglu_backward_params p = {
        .n = (uint32_t)n,
        .n_rows = (uint32_t)rows,
        .chunks = cover.chunks,
        .gate_first = gpu_bind_elements(gpu, &d, GPU_swiglu_backward_gate, gpu_input_index(gpu, 0), begin, span, 0),
        .gradient_first =
            gpu_bind_elements(gpu, &d, GPU_swiglu_backward_gradient, gpu_input_index(gpu, 2), at, rows * n, 0),
        .y_first = gpu_bind_elements(gpu, &d, GPU_swiglu_backward_y, gpu_output_index(gpu, joined ? 0 : (uint32_t)part),
                                     begin + (part ? half : 0), span, 1),
        .row_step = (uint32_t)stride};
    if (part == 0) p.up_first = gpu_bind_elements(gpu, &d, GPU_swiglu_backward_up, up, begin + half, span, 0);
    gpu_set_params_from(gpu, &d, swiglu_backward, &p);
    gpu_emit(gpu, &d, cover.groups);
}

static pco_status gpu_lower_swiglu_backward_node(gpu_lowering *gpu)
{
    const pco_tensor *gradient = gpu_input(gpu, 2);
    const int joined = gpu_input(gpu, 1) == NULL;
    const uint64_t total = gpu_count(gradient), window = gpu_window(gpu, gpu_element_bytes(gradient->dtype));
    if (total == 0) return gpu->status;
    for (int part = 0; part < 2; part++) {
        if (!joined) {
            for (uint64_t first = 0; first < total && gpu->status == PCO_OK; first += window) {
                const uint64_t count = gpu_min(window, total - first);
                gpu_emit_swiglu_backward(gpu, first, first, 1, count, part);
            }
            continue;
        }
        const uint64_t n = (uint64_t)gradient->shape[gradient->rank - 1], rows = total / n;
        const uint64_t step = gpu_slices(gpu, 2 * n, rows);
        for (uint64_t first = 0; first < rows && gpu->status == PCO_OK; first += step)
            gpu_emit_swiglu_backward(gpu, first * 2 * n, first * n, gpu_min(step, rows - first), n, part);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_swiglu_backward = {.lower = gpu_lower_swiglu_backward_node};
