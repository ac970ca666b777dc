/* cross_entropy, its backward op, and the optimisers. */
#include "elementwise.h"
#include "rows.h"

#include <math.h>

_Static_assert(GPU_KERNEL_cross_entropy_serial + GPU_SUBGROUP == GPU_KERNEL_cross_entropy_subgroup,
               "order of rows");
_Static_assert(GPU_KERNEL_cross_entropy_backward_serial + GPU_SUBGROUP ==
                   GPU_KERNEL_cross_entropy_backward_subgroup,
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

static uint32_t gpu_choose_entropy(const gpu_lowering *gpu)
{
    const gpu_entropy e = gpu_entropy_of(gpu);
    return gpu_choose_rows(gpu, e.rows, e.n, 1);
}

static void gpu_emit_entropy(gpu_lowering *gpu, const gpu_entropy *e, uint64_t first, uint64_t rows)
{
    const uint32_t y = gpu_output_index(gpu, 0);
    const double rest = e->smoothing / (double)e->n;
    pco_gpu_dispatch d;
    const uint64_t groups = gpu_begin_rows(
        gpu, &d, e->backward ? GPU_KERNEL_cross_entropy_backward_serial : GPU_KERNEL_cross_entropy_serial,
        rows, e->n);
    gpu_spec(gpu, &d, 3, (int32_t)gpu_input(gpu, 0)->dtype);
    gpu_spec(gpu, &d, 4, !e->backward && e->smoothing > 0);
    gpu_spec(gpu, &d, 5, gpu_walk(gpu, 1));
    gpu_param(gpu, &d, 0, (uint32_t)rows);
    gpu_param(gpu, &d, 1, (uint32_t)e->n);
    gpu_param(gpu, &d, 2,
              gpu_bind_elements(gpu, &d, 0, gpu_input_index(gpu, 0), first * e->n, rows * e->n, 0));
    gpu_param(gpu, &d, 3, gpu_bind_elements(gpu, &d, 1, gpu_input_index(gpu, 1), first, rows, 0));
    if (e->backward) {
        gpu_param(gpu, &d, 4, gpu_bind_elements(gpu, &d, 2, gpu_input_index(gpu, 2), first, rows, 0));
        gpu_param(gpu, &d, 5, gpu_bind_elements(gpu, &d, 3, y, first * e->n, rows * e->n, 1));
    } else {
        gpu_param(gpu, &d, 5, gpu_bind_elements(gpu, &d, 2, y, first, rows, 1));
    }
    gpu_param(gpu, &d, 6, e->ignore_index >= INT32_MIN && e->ignore_index <= INT32_MAX);
    gpu_param(gpu, &d, 7, (uint32_t)e->ignore_index);
    gpu_param_f(gpu, &d, 8, (float)(e->backward ? 1 - e->smoothing + rest : e->smoothing));
    gpu_param_f(gpu, &d, 9, (float)(e->backward ? rest : 1 - e->smoothing));
    gpu_param_f(gpu, &d, 10, (float)e->n);
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
        gpu_emit_entropy(gpu, &e, first, gpu_min(step, e.rows - first));
    return gpu->status;
}

const gpu_lowerer gpu_lower_cross_entropy = {.variants = gpu_row_variants,
                                             .n_variants = GPU_N_ROW_VARIANTS,
                                             .choose = gpu_choose_entropy,
                                             .lower = gpu_lower_entropy_node};

/* ---- optimisers ---- */

enum { GPU_SCALARS = 32 }; /* bytes of workspace */

/* The scalars of the step, into the workspace. */
static void gpu_emit_scalars(gpu_lowering *gpu, uint32_t run, uint32_t values, double lambda)
{
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, GPU_KERNEL_optimise_scalars, 1, 1, 1);
    gpu_spec(gpu, &d, 5, gpu_input(gpu, run + 1) != NULL);
    gpu_spec(gpu, &d, 7, values > 1);
    gpu_param(gpu, &d, 0, gpu_bind_elements(gpu, &d, 0, gpu_input_index(gpu, run), 0, values, 0));
    if (gpu_input(gpu, run + 1))
        gpu_param(gpu, &d, 1, gpu_bind_elements(gpu, &d, 1, gpu_input_index(gpu, run + 1), 0, 1, 0));
    gpu_param(gpu, &d, 2, gpu_bind_workspace(gpu, &d, 2, 0, GPU_SCALARS, 1) / 4);
    gpu_param_f(gpu, &d, 3, (float)lambda);
    gpu_emit(gpu, &d, 1);
}

/* The states as they are, where the plan gave outputs memory of their own. */
static void gpu_keep_states(gpu_lowering *gpu, uint32_t states)
{
    for (uint32_t i = 0; gpu->plan && i < states; i++)
        if (!gpu_same_memory(gpu, gpu_output_index(gpu, i), gpu_input_index(gpu, i)))
            gpu_emit_whole_copy(gpu, gpu_output_index(gpu, i), gpu_input_index(gpu, i));
}

static gpu_rows gpu_begin_optimiser(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t kernel,
                                    uint32_t gradient, uint64_t count)
{
    const gpu_rows cover = gpu_cover_rows(gpu, count, 1);
    gpu_begin(gpu, d, kernel, cover.local_x, 1, 1);
    gpu_spec(gpu, d, 3, (int32_t)gpu_input(gpu, gradient)->dtype);
    gpu_spec(gpu, d, 4, (int32_t)cover.per);
    gpu_param(gpu, d, 0, (uint32_t)count);
    return cover;
}

static void gpu_emit_adamw(gpu_lowering *gpu, const pco_adamw_attrs *attrs, uint64_t first, uint64_t count)
{
    const uint32_t param = gpu_output_index(gpu, 0), m = gpu_output_index(gpu, 1),
                   v = gpu_output_index(gpu, 2);
    pco_gpu_dispatch d;
    gpu_rows cover = gpu_begin_optimiser(gpu, &d, GPU_KERNEL_optimise_moments, 3, count);
    gpu_param(gpu, &d, 1, gpu_bind_elements(gpu, &d, 0, gpu_input_index(gpu, 3), first, count, 0));
    gpu_param(gpu, &d, 2, gpu_bind_workspace(gpu, &d, 1, 0, GPU_SCALARS, 0) / 4);
    gpu_param(gpu, &d, 3, gpu_bind_elements(gpu, &d, 2, m, first, count, 1));
    gpu_param(gpu, &d, 4, gpu_bind_elements(gpu, &d, 3, v, first, count, 1));
    gpu_param_f(gpu, &d, 5, (float)attrs->beta1);
    gpu_param_f(gpu, &d, 6, (float)(1 - attrs->beta1));
    gpu_param_f(gpu, &d, 7, (float)attrs->beta2);
    gpu_param_f(gpu, &d, 8, (float)(1 - attrs->beta2));
    gpu_emit(gpu, &d, cover.groups);
    cover = gpu_begin_optimiser(gpu, &d, GPU_KERNEL_optimise_step, 3, count);
    gpu_param(gpu, &d, 1, gpu_bind_elements(gpu, &d, 0, m, first, count, 0));
    gpu_param(gpu, &d, 2, gpu_bind_elements(gpu, &d, 1, v, first, count, 0));
    gpu_param(gpu, &d, 3, gpu_bind_workspace(gpu, &d, 2, 0, GPU_SCALARS, 0) / 4);
    gpu_param(gpu, &d, 4, gpu_bind_elements(gpu, &d, 3, param, first, count, 1));
    gpu_param_f(gpu, &d, 5, (float)attrs->eps);
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
    for (uint64_t first = 0; first < total && gpu->status == PCO_OK; first += window)
        gpu_emit_adamw(gpu, attrs, first, gpu_min(window, total - first));
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
        pco_gpu_dispatch d;
        const gpu_rows cover = gpu_begin_optimiser(gpu, &d, GPU_KERNEL_optimise_sgd, 2, count);
        gpu_spec(gpu, &d, 6, attrs->nesterov != 0);
        gpu_param(gpu, &d, 1, gpu_bind_elements(gpu, &d, 0, gpu_input_index(gpu, 2), first, count, 0));
        gpu_param(gpu, &d, 2, gpu_bind_workspace(gpu, &d, 1, 0, GPU_SCALARS, 0) / 4);
        gpu_param(gpu, &d, 3, gpu_bind_elements(gpu, &d, 2, gpu_output_index(gpu, 1), first, count, 1));
        gpu_param(gpu, &d, 4, gpu_bind_elements(gpu, &d, 3, gpu_output_index(gpu, 0), first, count, 1));
        gpu_param_f(gpu, &d, 5, (float)attrs->momentum);
        gpu_param_f(gpu, &d, 6, (float)attrs->weight_decay);
        gpu_emit(gpu, &d, cover.groups);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_sgd = {.lower = gpu_lower_sgd_node};
