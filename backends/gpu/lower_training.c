/* cross_entropy, its backward op, and the optimisers. */
#include "elementwise.h"
#include "rows.h"

#include <math.h>

_Static_assert(GPU_KERNEL_cross_entropy_serial + GPU_SUBGROUP == GPU_KERNEL_cross_entropy_subgroup, "order of rows");
_Static_assert(GPU_KERNEL_cross_entropy_backward_serial + GPU_SUBGROUP == GPU_KERNEL_cross_entropy_backward_subgroup,
               "order of rows");

/* ---- cross-entropy ---- */

typedef struct gpu_entropy {
    uint64_t rows, n;
    int backward;
    int64_t ignore_index;
    double smoothing;
} gpu_entropy;

static gpu_entropy gpu_entropy_of(const gpu_lowering *gpu)
{
    const pco_tensor *x = gpu_input(gpu, 0);
    pco_cross_entropy_attrs room; /* both ops have the same */
    const pco_cross_entropy_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    return (gpu_entropy){.rows = gpu_product(x, 0, x->rank - 1),
                         .n = (uint64_t)x->shape[x->rank - 1],
                         .backward = gpu->node->op == PCO_OP_CROSS_ENTROPY_BACKWARD,
                         .ignore_index = attrs->ignore_index,
                         .smoothing = attrs->label_smoothing};
}

static int gpu_entropy_eligible(const gpu_lowering *gpu, uint32_t variant)
{
    return gpu_rows_eligible(gpu, variant, gpu_entropy_of(gpu).n);
}

static uint32_t gpu_choose_entropy(const gpu_lowering *gpu)
{
    const gpu_entropy e = gpu_entropy_of(gpu);
    return gpu_choose_rows(gpu, e.rows, e.n, 1);
}

/* Is there a target to ignore? */
static int gpu_entropy_ignores(const gpu_entropy *e)
{
    return e->ignore_index >= INT32_MIN && e->ignore_index <= INT32_MAX;
}

static void gpu_emit_entropy(gpu_lowering *gpu, const gpu_entropy *e, uint64_t first, uint64_t rows)
{
    pco_gpu_dispatch d;
    const uint64_t groups = gpu_begin_rows(gpu, &d, GPU_KERNEL_cross_entropy_serial, rows, e->n);
    gpu_set_specs(gpu, &d, cross_entropy, .x = (int32_t)gpu_input(gpu, 0)->dtype, .smooth = e->smoothing > 0,
                  .walk = gpu_walk(gpu, 1));
    gpu_set_params(
        gpu, &d, cross_entropy, .n_rows = (uint32_t)rows, .n = (uint32_t)e->n,
        .x_first =
            gpu_bind_elements(gpu, &d, GPU_cross_entropy_x, gpu_input_index(gpu, 0), first * e->n, rows * e->n, 0),
        .target_first = gpu_bind_elements(gpu, &d, GPU_cross_entropy_target, gpu_input_index(gpu, 1), first, rows, 0),
        .y_first = gpu_bind_elements(gpu, &d, GPU_cross_entropy_y, gpu_output_index(gpu, 0), first, rows, 1),
        .has_ignored = (uint32_t)gpu_entropy_ignores(e), .ignored = (uint32_t)e->ignore_index,
        .smoothing = (float)e->smoothing, .one_minus_smoothing = (float)(1 - e->smoothing), .n_as_float = (float)e->n);
    gpu_emit(gpu, &d, groups);
}

static void gpu_emit_entropy_backward(gpu_lowering *gpu, const gpu_entropy *e, uint64_t first, uint64_t rows)
{
    const double rest = e->smoothing / (double)e->n;
    pco_gpu_dispatch d;
    const uint64_t groups = gpu_begin_rows(gpu, &d, GPU_KERNEL_cross_entropy_backward_serial, rows, e->n);
    gpu_set_specs(gpu, &d, cross_entropy_backward, .x = (int32_t)gpu_input(gpu, 0)->dtype, .walk = gpu_walk(gpu, 1));
    gpu_set_params(gpu, &d, cross_entropy_backward, .n_rows = (uint32_t)rows, .n = (uint32_t)e->n,
                   .x_first = gpu_bind_elements(gpu, &d, GPU_cross_entropy_backward_x, gpu_input_index(gpu, 0),
                                                first * e->n, rows * e->n, 0),
                   .target_first = gpu_bind_elements(gpu, &d, GPU_cross_entropy_backward_target,
                                                     gpu_input_index(gpu, 1), first, rows, 0),
                   .gradient_first = gpu_bind_elements(gpu, &d, GPU_cross_entropy_backward_gradient,
                                                       gpu_input_index(gpu, 2), first, rows, 0),
                   .y_first = gpu_bind_elements(gpu, &d, GPU_cross_entropy_backward_y, gpu_output_index(gpu, 0),
                                                first * e->n, rows * e->n, 1),
                   .has_ignored = (uint32_t)gpu_entropy_ignores(e), .ignored = (uint32_t)e->ignore_index,
                   .hit = (float)(1 - e->smoothing + rest), .hit_others = (float)rest);
    gpu_emit(gpu, &d, groups);
}

static pco_status gpu_lower_entropy_node(gpu_lowering *gpu)
{
    const gpu_entropy e = gpu_entropy_of(gpu);
    /* Targets and losses take 4 bytes, one a row. */
    const uint64_t step = gpu_window(gpu, 4) / e.n;
    if (step == 0)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "rows of %llu elements exceed the device's binding limit",
                        (unsigned long long)e.n);
    for (uint64_t first = 0; first < e.rows && gpu->status == PCO_OK; first += step)
        (e.backward ? gpu_emit_entropy_backward : gpu_emit_entropy)(gpu, &e, first, gpu_min(step, e.rows - first));
    return gpu->status;
}

const gpu_lowerer gpu_lower_cross_entropy = {.variants = gpu_row_variants,
                                             .n_variants = GPU_N_ROW_VARIANTS,
                                             .eligible = gpu_entropy_eligible,
                                             .choose = gpu_choose_entropy,
                                             .lower = gpu_lower_entropy_node};

/* ---- optimisers ---- */

enum { GPU_SCALARS = 32 }; /* bytes of workspace */

/* The scalars of the step, into the workspace. */
static void gpu_emit_scalars(gpu_lowering *gpu, uint32_t run, uint32_t values, double lambda)
{
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, GPU_KERNEL_optimise_scalars, 1, 1, 1);
    gpu_set_specs(gpu, &d, optimise_scalars, .has_scale = gpu_input(gpu, run + 1) != NULL, .adam = values > 1);
    gpu_optimise_scalars_params p = {
        .run_first = gpu_bind_elements(gpu, &d, GPU_optimise_scalars_run, gpu_input_index(gpu, run), 0, values, 0),
        .work_first = gpu_bind_workspace(gpu, &d, GPU_optimise_scalars_work, 0, GPU_SCALARS, 1) / 4,
        .lambda = (float)lambda};
    if (gpu_input(gpu, run + 1))
        p.scale_first = gpu_bind_elements(gpu, &d, GPU_optimise_scalars_scale, gpu_input_index(gpu, run + 1), 0, 1, 0);
    gpu_set_params_from(gpu, &d, optimise_scalars, &p);
    gpu_emit(gpu, &d, 1);
}

/* The states as they are, where the plan gave outputs memory of their own. */
static void gpu_keep_states(gpu_lowering *gpu, uint32_t states)
{
    for (uint32_t i = 0; gpu->plan && i < states; i++)
        if (!gpu_same_memory(gpu, gpu_output_index(gpu, i), gpu_input_index(gpu, i)))
            gpu_emit_whole_copy(gpu, gpu_output_index(gpu, i), gpu_input_index(gpu, i));
}

/* Elements [first, first + count). */
static void gpu_emit_moments(gpu_lowering *gpu, const pco_adamw_attrs *attrs, uint64_t first, uint64_t count)
{
    const gpu_rows cover = gpu_cover_rows(gpu, count, 1);
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, GPU_KERNEL_optimise_moments, cover.local_x, 1, 1);
    gpu_set_specs(gpu, &d, optimise_moments, .x = (int32_t)gpu_input(gpu, 3)->dtype, .per = (int32_t)cover.per);
    gpu_set_params(
        gpu, &d, optimise_moments, .n = (uint32_t)count,
        .gradient_first =
            gpu_bind_elements(gpu, &d, GPU_optimise_moments_gradient, gpu_input_index(gpu, 3), first, count, 0),
        .work_first = gpu_bind_workspace(gpu, &d, GPU_optimise_moments_work, 0, GPU_SCALARS, 0) / 4,
        .m_first = gpu_bind_elements(gpu, &d, GPU_optimise_moments_m, gpu_output_index(gpu, 1), first, count, 1),
        .v_first = gpu_bind_elements(gpu, &d, GPU_optimise_moments_v, gpu_output_index(gpu, 2), first, count, 1),
        .beta1 = (float)attrs->beta1, .one_minus_beta1 = (float)(1 - attrs->beta1), .beta2 = (float)attrs->beta2,
        .one_minus_beta2 = (float)(1 - attrs->beta2));
    gpu_emit(gpu, &d, cover.groups);
}

/* The parameter, from moments that gpu_emit_moments has written. */
static void gpu_emit_adam_step(gpu_lowering *gpu, const pco_adamw_attrs *attrs, uint64_t first, uint64_t count)
{
    const gpu_rows cover = gpu_cover_rows(gpu, count, 1);
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, GPU_KERNEL_optimise_step, cover.local_x, 1, 1);
    gpu_set_specs(gpu, &d, optimise_step, .x = (int32_t)gpu_input(gpu, 3)->dtype, .per = (int32_t)cover.per);
    gpu_set_params(
        gpu, &d, optimise_step, .n = (uint32_t)count,
        .m_first = gpu_bind_elements(gpu, &d, GPU_optimise_step_m, gpu_output_index(gpu, 1), first, count, 0),
        .v_first = gpu_bind_elements(gpu, &d, GPU_optimise_step_v, gpu_output_index(gpu, 2), first, count, 0),
        .work_first = gpu_bind_workspace(gpu, &d, GPU_optimise_step_work, 0, GPU_SCALARS, 0) / 4,
        .param_first = gpu_bind_elements(gpu, &d, GPU_optimise_step_param, gpu_output_index(gpu, 0), first, count, 1),
        .eps = (float)attrs->eps);
    gpu_emit(gpu, &d, cover.groups);
}

static pco_status gpu_lower_adamw_node(gpu_lowering *gpu)
{
    pco_adamw_attrs room;
    const pco_adamw_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const uint64_t total = gpu_count(gpu_output(gpu, 0)), window = gpu_window(gpu, 4);
    if (total == 0) return gpu->status;
    gpu_keep_states(gpu, 3);
    gpu_emit_scalars(gpu, 4, 3, attrs->weight_decay);
    for (uint64_t first = 0; first < total && gpu->status == PCO_OK; first += window) {
        const uint64_t count = gpu_min(window, total - first);
        gpu_emit_moments(gpu, attrs, first, count);
        gpu_emit_adam_step(gpu, attrs, first, count);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_adamw = {.lower = gpu_lower_adamw_node};

static pco_status gpu_lower_sgd_node(gpu_lowering *gpu)
{
    pco_sgd_attrs room;
    const pco_sgd_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const uint64_t total = gpu_count(gpu_output(gpu, 0)), window = gpu_window(gpu, 4);
    if (total == 0) return gpu->status;
    gpu_keep_states(gpu, 2);
    gpu_emit_scalars(gpu, 3, 1, 0);
    for (uint64_t first = 0; first < total && gpu->status == PCO_OK; first += window) {
        const uint64_t count = gpu_min(window, total - first);
        const gpu_rows cover = gpu_cover_rows(gpu, count, 1);
        pco_gpu_dispatch d;
        gpu_begin(gpu, &d, GPU_KERNEL_optimise_sgd, cover.local_x, 1, 1);
        gpu_set_specs(gpu, &d, optimise_sgd, .x = (int32_t)gpu_input(gpu, 2)->dtype, .per = (int32_t)cover.per,
                      .nesterov = attrs->nesterov != 0);
        gpu_set_params(gpu, &d, optimise_sgd, .n = (uint32_t)count,
                       .gradient_first = gpu_bind_elements(gpu, &d, GPU_optimise_sgd_gradient, gpu_input_index(gpu, 2),
                                                           first, count, 0),
                       .work_first = gpu_bind_workspace(gpu, &d, GPU_optimise_sgd_work, 0, GPU_SCALARS, 0) / 4,
                       .velocity_first = gpu_bind_elements(gpu, &d, GPU_optimise_sgd_velocity, gpu_output_index(gpu, 1),
                                                           first, count, 1),
                       .param_first = gpu_bind_elements(gpu, &d, GPU_optimise_sgd_param, gpu_output_index(gpu, 0),
                                                        first, count, 1),
                       .momentum = (float)attrs->momentum, .lambda = (float)attrs->weight_decay);
        gpu_emit(gpu, &d, cover.groups);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_sgd = {.lower = gpu_lower_sgd_node};
