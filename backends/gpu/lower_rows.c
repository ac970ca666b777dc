/* Ops that join the elements of rows: reductions, argmax, softmax and its relatives, cumsum, top_k, norms. */
#include "elementwise.h"
#include "rows.h"

const gpu_variant gpu_row_variants[GPU_N_ROW_VARIANTS] = {
    {"serial", .constants = {{"workgroup", 64, {32, 64, 128, 256}}}},
    {"shared", .constants = {{"workgroup", 64, {32, 64, 128, 256}}}},
    {"subgroup", PCO_GPU_NEEDS_SUBGROUPS, .constants = {{"workgroup", 64, {32, 64, 128}}}},
};

/* Invocations of a workgroup. */
static uint32_t gpu_rows_workgroup(const gpu_lowering *gpu, uint32_t variant)
{
    return gpu_workgroup(gpu, gpu_tuned(gpu, &gpu_row_variants[variant], 0));
}

_Static_assert(GPU_KERNEL_reduce_serial + GPU_SUBGROUP == GPU_KERNEL_reduce_subgroup, "order of rows");
_Static_assert(GPU_KERNEL_argmax_serial + GPU_SUBGROUP == GPU_KERNEL_argmax_subgroup, "order of rows");
_Static_assert(GPU_KERNEL_cumsum_serial + GPU_SHARED == GPU_KERNEL_cumsum_shared, "order of rows");
_Static_assert(GPU_KERNEL_top_k_serial + GPU_SUBGROUP == GPU_KERNEL_top_k_subgroup, "order of rows");
_Static_assert(GPU_KERNEL_softmax_serial + GPU_SUBGROUP == GPU_KERNEL_softmax_subgroup, "order of rows");
_Static_assert(GPU_KERNEL_norm_serial + GPU_SUBGROUP == GPU_KERNEL_norm_subgroup, "order of rows");
_Static_assert(GPU_KERNEL_norm_stats_serial + GPU_SUBGROUP == GPU_KERNEL_norm_stats_subgroup, "order of rows");

/* Loops go over a row at most so often: cumsum in shared memory has 58 rounds for 8 elements of each lane, softmax with
 * BLOCKS 5 for each element. */
enum { ROW_PASSES = 8 };

int gpu_rows_eligible(const gpu_lowering *gpu, uint32_t variant, uint64_t n)
{
    const uint32_t lanes = variant == GPU_SERIAL ? 1 : gpu_rows_workgroup(gpu, variant);
    return gpu_rounds_fit(gpu, ROW_PASSES * (gpu_div_up(n, lanes) + 8));
}

/* Neighbouring rows that lie side by side are read together by neighbouring invocations; very short rows
 * leave a workgroup nothing to share. On CPUs a barrier costs more than it gains, once there is a row for
 * each lane. */
uint32_t gpu_choose_rows(const gpu_lowering *gpu, uint64_t rows, uint64_t n, uint64_t stride)
{
    const int software = gpu->software;
    if (!gpu_rows_eligible(gpu, GPU_SERIAL, n)) return GPU_SHARED;
    if (n <= 4 || (stride > 1 && rows >= 32) || (software && rows >= 16)) return GPU_SERIAL;
    return !software && (gpu->limits->needs_met & PCO_GPU_NEEDS_SUBGROUPS) ? GPU_SUBGROUP : GPU_SHARED;
}

uint64_t gpu_begin_rows(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t serial, uint64_t rows, uint64_t n)
{
    uint32_t x = gpu_rows_workgroup(gpu, gpu->variant), y = 1;
    if (gpu->variant == GPU_SHARED) {
        /* Few sizes, whatever the number of rows: each is a pipeline. */
        const uint32_t most = x;
        x = 4;
        while (x < most && x * 4 < n) x *= 4;
        x = x < most ? x : most;
        while (x * y < most && y * 2 <= gpu->limits->max_local[1]) y *= 2;
    }
    gpu_begin(gpu, d, serial + gpu->variant, x, y, 1);
    return gpu_div_up(rows, gpu->variant == GPU_SERIAL ? x : y);
}

int32_t gpu_walk(const gpu_lowering *gpu, uint64_t stride) { return gpu->variant == GPU_SERIAL && stride == 1; }

/* ---- sum, mean, amax ---- */

/* Dimensions of one kind, outermost first: sizes and strides in x. */
typedef struct gpu_dims {
    uint32_t n;
    uint64_t size[PCO_MAX_RANK], stride[PCO_MAX_RANK], count;
} gpu_dims;

typedef struct gpu_reduction {
    gpu_dims kept, reduced;
    int outer_kept; /* the outermost dimension of x is a kept one */
} gpu_reduction;

static void gpu_add_dim(gpu_dims *dims, uint64_t size, uint64_t stride, int join)
{
    dims->count *= size;
    if (join) {
        dims->size[dims->n - 1] *= size;
        dims->stride[dims->n - 1] = stride;
        return;
    }
    dims->size[dims->n] = size;
    dims->stride[dims->n++] = stride;
}

static gpu_reduction gpu_reduction_of(const pco_tensor *x, int64_t n_axes, const int64_t *axes)
{
    gpu_reduction r = {.kept = {.count = 1}, .reduced = {.count = 1}};
    uint32_t mask = 0;
    int64_t stride[PCO_MAX_RANK] = {0};
    int last = -1;
    gpu_strides(x->shape, x->rank, stride);
    for (int64_t a = 0; a < n_axes; a++) mask |= 1u << axes[a];
    for (uint32_t d = 0; d < x->rank; d++) {
        const int kind = (int)(mask >> d & 1);
        if (x->shape[d] == 1) continue;
        if (last < 0) r.outer_kept = !kind;
        gpu_add_dim(kind ? &r.reduced : &r.kept, (uint64_t)x->shape[d], (uint64_t)stride[d], kind == last);
        last = kind;
    }
    if (r.kept.n == 0) gpu_add_dim(&r.kept, 1, 0, 0);
    if (r.reduced.n == 0) gpu_add_dim(&r.reduced, 1, 0, 0);
    return r;
}

static gpu_reduction gpu_node_reduction(const gpu_lowering *gpu)
{
    pco_sum_attrs room; /* mean and amax have the same fields */
    const pco_sum_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    return gpu_reduction_of(gpu_input(gpu, 0), attrs->n_axes, attrs->axes);
}

static int gpu_reduce_eligible(const gpu_lowering *gpu, uint32_t variant)
{
    return gpu_rows_eligible(gpu, variant, gpu_node_reduction(gpu).reduced.count);
}

static uint32_t gpu_choose_reduce(const gpu_lowering *gpu)
{
    const gpu_reduction r = gpu_node_reduction(gpu);
    return gpu_choose_rows(gpu, r.kept.count, r.reduced.count, r.reduced.stride[r.reduced.n - 1]);
}

/* Results [first, first + count) of the outermost kept dimension. */
static pco_status gpu_emit_reduce(gpu_lowering *gpu, const gpu_reduction *r, uint64_t first, uint64_t count)
{
    const pco_tensor *x = gpu_input(gpu, 0);
    const gpu_dims *kept = &r->kept, *reduced = &r->reduced;
    const uint64_t per = kept->count / kept->size[0], results = per * count;
    const int part = count != kept->size[0];
    pco_gpu_dispatch d;
    const uint64_t groups = gpu_begin_rows(gpu, &d, GPU_KERNEL_reduce_serial, results, reduced->count);
    gpu_set_specs(gpu, &d, reduce, .op = (int32_t)gpu->node->op, .x = (int32_t)x->dtype, .kept = (int32_t)kept->n,
                  .reduced = (int32_t)reduced->n, .walk = gpu_walk(gpu, reduced->stride[reduced->n - 1]),
                  .unit_step = reduced->stride[reduced->n - 1] == 1);
    gpu_reduce_params p = {
        .n_results = (uint32_t)results,
        .n_terms = (uint32_t)reduced->count,
        .x_first = gpu_bind_elements(gpu, &d, GPU_reduce_x, gpu_input_index(gpu, 0), first * kept->stride[0],
                                     part ? count * kept->stride[0] : gpu_count(x), 0),
        .y_first = gpu_bind_elements(gpu, &d, GPU_reduce_y, gpu_output_index(gpu, 0), first * per, results, 1),
        .n_terms_as_float = (float)reduced->count};
    for (uint32_t k = 0; k < kept->n; k++) {
        p.kept_size[k] = (uint32_t)kept->size[kept->n - 1 - k];
        p.kept_stride[k] = (uint32_t)kept->stride[kept->n - 1 - k];
    }
    for (uint32_t k = 0; k < reduced->n; k++) {
        p.reduced_size[k] = (uint32_t)reduced->size[reduced->n - 1 - k];
        p.reduced_stride[k] = (uint32_t)reduced->stride[reduced->n - 1 - k];
    }
    gpu_set_params_from(gpu, &d, reduce, &p);
    return gpu_emit(gpu, &d, groups);
}

static pco_status gpu_lower_reduce_node(gpu_lowering *gpu)
{
    const pco_tensor *x = gpu_input(gpu, 0), *y = gpu_output(gpu, 0);
    const gpu_reduction r = gpu_node_reduction(gpu);
    const uint64_t window = gpu_window(gpu, gpu_element_bytes(x->dtype));
    if (gpu_count(y) == 0) return gpu->status;
    const uint64_t most = gpu_max(gpu_count(x), gpu_count(y)); /* of no terms there are more results than terms */
    if (most <= window) return gpu_emit_reduce(gpu, &r, 0, r.kept.size[0]);
    const uint64_t step = r.outer_kept ? window / (most / r.kept.size[0]) : 0;
    if (step == 0) {
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED,
                        "%s exceeds the device's binding limit, and these axes cannot be cut into windows", x->name);
    }
    for (uint64_t first = 0; first < r.kept.size[0] && gpu->status == PCO_OK; first += step) {
        gpu_emit_reduce(gpu, &r, first, gpu_min(step, r.kept.size[0] - first));
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_reduce = {.variants = gpu_row_variants,
                                      .n_variants = GPU_N_ROW_VARIANTS,
                                      .eligible = gpu_reduce_eligible,
                                      .choose = gpu_choose_reduce,
                                      .lower = gpu_lower_reduce_node};

/* ---- along one axis: argmax, softmax, log_softmax, logsumexp, cumsum, top_k ---- */

typedef struct gpu_along {
    uint64_t outer, n, inner;
} gpu_along;

static gpu_along gpu_node_axis(const gpu_lowering *gpu)
{
    pco_softmax_attrs room; /* the axis comes first in all of them */
    const pco_softmax_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const pco_tensor *x = gpu_input(gpu, 0);
    const uint32_t axis = (uint32_t)attrs->axis;
    return (gpu_along){gpu_product(x, 0, axis), (uint64_t)x->shape[axis], gpu_product(x, axis + 1, x->rank)};
}

static int gpu_axis_eligible(const gpu_lowering *gpu, uint32_t variant)
{
    return gpu_rows_eligible(gpu, variant, gpu_node_axis(gpu).n);
}

static uint32_t gpu_choose_axis(const gpu_lowering *gpu)
{
    const gpu_along a = gpu_node_axis(gpu);
    return gpu_choose_rows(gpu, a.outer * a.inner, a.n, a.inner);
}

static void gpu_emit_argmax(gpu_lowering *gpu, const gpu_along *a, uint64_t first, uint64_t outer)
{
    const uint64_t rows = outer * a->inner, block = a->n * a->inner;
    pco_gpu_dispatch d;
    const uint64_t groups = gpu_begin_rows(gpu, &d, GPU_KERNEL_argmax_serial, rows, a->n);
    gpu_set_specs(gpu, &d, argmax, .x = (int32_t)gpu_input(gpu, 0)->dtype, .strided = a->inner > 1,
                  .walk = gpu_walk(gpu, a->inner));
    gpu_set_params(
        gpu, &d, argmax, .n_rows = (uint32_t)rows, .n = (uint32_t)a->n,
        .x_first = gpu_bind_elements(gpu, &d, GPU_argmax_x, gpu_input_index(gpu, 0), first * block, outer * block, 0),
        .y_first = gpu_bind_elements(gpu, &d, GPU_argmax_y, gpu_output_index(gpu, 0), first * a->inner, rows, 1),
        .stride = (uint32_t)a->inner);
    gpu_emit(gpu, &d, groups);
}

static void gpu_emit_softmax(gpu_lowering *gpu, const gpu_along *a, uint64_t first, uint64_t outer)
{
    const uint64_t rows = outer * a->inner, block = a->n * a->inner;
    const uint64_t y_block = gpu->node->op == PCO_OP_LOGSUMEXP ? a->inner : block;
    const int32_t walk = gpu_walk(gpu, a->inner);
    pco_gpu_dispatch d;
    const uint64_t groups = gpu_begin_rows(gpu, &d, GPU_KERNEL_softmax_serial, rows, a->n);
    gpu_set_specs(gpu, &d, softmax, .op = (int32_t)gpu->node->op, .x = (int32_t)gpu_input(gpu, 0)->dtype,
                  .strided = a->inner > 1, .walk = walk,
                  .blocks = walk && (gpu->limits->needs_met & PCO_GPU_NEEDS_VECTOR_16));
    gpu_set_params(
        gpu, &d, softmax, .n_rows = (uint32_t)rows, .n = (uint32_t)a->n,
        .x_first = gpu_bind_elements(gpu, &d, GPU_softmax_x, gpu_input_index(gpu, 0), first * block, outer * block, 0),
        .y_first =
            gpu_bind_elements(gpu, &d, GPU_softmax_y, gpu_output_index(gpu, 0), first * y_block, outer * y_block, 1),
        .stride = (uint32_t)a->inner);
    gpu_emit(gpu, &d, groups);
}

static void gpu_emit_cumsum(gpu_lowering *gpu, const gpu_along *a, uint64_t first, uint64_t outer)
{
    const uint64_t rows = outer * a->inner, block = a->n * a->inner;
    pco_cumsum_attrs room;
    const pco_cumsum_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    pco_gpu_dispatch d;
    const uint64_t groups = gpu_begin_rows(gpu, &d, GPU_KERNEL_cumsum_serial, rows, a->n);
    gpu_set_specs(gpu, &d, cumsum, .x = (int32_t)gpu_input(gpu, 0)->dtype, .strided = a->inner > 1);
    gpu_set_params(
        gpu, &d, cumsum, .n_rows = (uint32_t)rows, .n = (uint32_t)a->n,
        .x_first = gpu_bind_elements(gpu, &d, GPU_cumsum_x, gpu_input_index(gpu, 0), first * block, outer * block, 0),
        .y_first = gpu_bind_elements(gpu, &d, GPU_cumsum_y, gpu_output_index(gpu, 0), first * block, outer * block, 1),
        .stride = (uint32_t)a->inner, .exclusive = attrs->exclusive != 0, .reverse = attrs->reverse != 0);
    gpu_emit(gpu, &d, groups);
}

/* Rounds of loops in one dispatch, where the driver sets no limit: a device that works on one for seconds is taken for
 * hung. Few, so that small rows of the suite take several dispatches too. */
enum { TOP_K_ROUNDS = 1 << 15 };

/* How many of k results one dispatch takes, each in a pass over its row. */
static uint64_t gpu_top_k_count(const gpu_lowering *gpu, uint64_t n, uint64_t k)
{
    const uint64_t lanes = gpu->variant == GPU_SERIAL ? 1 : gpu_rows_workgroup(gpu, gpu->variant);
    const uint64_t pass = gpu_div_up(n, lanes) + 16; /* and to join what the lanes have found */
    uint64_t count = gpu_max(1, gpu_min(k, TOP_K_ROUNDS / pass));
    while (count > 1 && !gpu_rounds_fit(gpu, count * pass)) count /= 2;
    return count;
}

static void gpu_emit_top_k(gpu_lowering *gpu, const gpu_along *a, uint64_t first, uint64_t outer)
{
    const uint64_t rows = outer * a->inner, block = a->n * a->inner;
    pco_top_k_attrs room;
    const pco_top_k_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const uint64_t k = (uint64_t)attrs->k, step = gpu_top_k_count(gpu, a->n, k), y_block = k * a->inner;
    for (uint64_t r = 0; r < k && gpu->status == PCO_OK; r += step) {
        pco_gpu_dispatch d;
        const uint64_t groups = gpu_begin_rows(gpu, &d, GPU_KERNEL_top_k_serial, rows, a->n);
        gpu_set_specs(gpu, &d, top_k, .x = (int32_t)gpu_input(gpu, 0)->dtype, .strided = a->inner > 1,
                      .walk = gpu_walk(gpu, a->inner));
        gpu_set_params(gpu, &d, top_k, .n_rows = (uint32_t)rows, .n = (uint32_t)a->n, .k = (uint32_t)k,
                       .first = (uint32_t)r, .count = (uint32_t)gpu_min(step, k - r),
                       .x_first = gpu_bind_elements(gpu, &d, GPU_top_k_x, gpu_input_index(gpu, 0), first * block,
                                                    outer * block, 0),
                       .values_first = gpu_bind_elements(gpu, &d, GPU_top_k_values, gpu_output_index(gpu, 0),
                                                         first * y_block, outer * y_block, 1),
                       .indices_first = gpu_bind_elements(gpu, &d, GPU_top_k_indices, gpu_output_index(gpu, 1),
                                                          first * y_block, outer * y_block, 1),
                       .stride = (uint32_t)a->inner, .smallest = attrs->largest == 0);
        gpu_emit(gpu, &d, groups);
    }
}

/* In windows of whole slices, each of them emitted by itself. */
static pco_status gpu_lower_along(gpu_lowering *gpu,
                                  void (*emit)(gpu_lowering *gpu, const gpu_along *a, uint64_t first, uint64_t outer))
{
    const pco_tensor *x = gpu_input(gpu, 0);
    const gpu_along a = gpu_node_axis(gpu);
    if (gpu_count(gpu_output(gpu, 0)) == 0) return gpu->status;
    uint32_t bytes = gpu_element_bytes(x->dtype); /* results have no more elements, but indices have wider ones */
    for (uint32_t i = 0; i < gpu->node->n_outputs; i++)
        bytes = (uint32_t)gpu_max(bytes, gpu_element_bytes(gpu_output(gpu, i)->dtype));
    const uint64_t window = gpu_window(gpu, bytes);
    const uint64_t step = a.n ? window / (a.n * a.inner) : a.outer;
    if (step == 0) {
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "slices of %llu elements exceed the device's binding limit",
                        (unsigned long long)(a.n * a.inner));
    }
    for (uint64_t first = 0; first < a.outer && gpu->status == PCO_OK; first += step)
        emit(gpu, &a, first, gpu_min(step, a.outer - first));
    return gpu->status;
}

static pco_status gpu_lower_argmax_node(gpu_lowering *gpu) { return gpu_lower_along(gpu, gpu_emit_argmax); }
static pco_status gpu_lower_softmax_node(gpu_lowering *gpu) { return gpu_lower_along(gpu, gpu_emit_softmax); }
static pco_status gpu_lower_cumsum_node(gpu_lowering *gpu) { return gpu_lower_along(gpu, gpu_emit_cumsum); }
static pco_status gpu_lower_top_k_node(gpu_lowering *gpu) { return gpu_lower_along(gpu, gpu_emit_top_k); }

const gpu_lowerer gpu_lower_argmax = {.variants = gpu_row_variants,
                                      .n_variants = GPU_N_ROW_VARIANTS,
                                      .eligible = gpu_axis_eligible,
                                      .choose = gpu_choose_axis,
                                      .lower = gpu_lower_argmax_node};
const gpu_lowerer gpu_lower_top_k = {.variants = gpu_row_variants,
                                     .n_variants = GPU_N_ROW_VARIANTS,
                                     .eligible = gpu_axis_eligible,
                                     .choose = gpu_choose_axis,
                                     .lower = gpu_lower_top_k_node};
const gpu_lowerer gpu_lower_softmax = {.variants = gpu_row_variants,
                                       .n_variants = GPU_N_ROW_VARIANTS,
                                       .eligible = gpu_axis_eligible,
                                       .choose = gpu_choose_axis,
                                       .lower = gpu_lower_softmax_node};

/* On CPUs the barriers of a scan cost more than other lanes gain, however few rows there are. */
static uint32_t gpu_choose_cumsum(const gpu_lowering *gpu)
{
    if (gpu->software) return gpu_axis_eligible(gpu, GPU_SERIAL) ? GPU_SERIAL : GPU_SHARED;
    return gpu_choose_axis(gpu) == GPU_SERIAL ? GPU_SERIAL : GPU_SHARED;
}

const gpu_lowerer gpu_lower_cumsum = {.variants = gpu_row_variants,
                                      .n_variants = GPU_SHARED + 1, /* none with subgroups */
                                      .eligible = gpu_axis_eligible,
                                      .choose = gpu_choose_cumsum,
                                      .lower = gpu_lower_cumsum_node};

/* ---- layer_norm, rms_norm ---- */

typedef struct gpu_norming {
    int rms, form;
    double eps;
    uint64_t n, rows;
    int64_t divisor; /* of the sum of squares */
    uint32_t mean, rstd;
} gpu_norming;

static gpu_norming gpu_norming_of(const gpu_lowering *gpu)
{
    const pco_tensor *x = gpu_input(gpu, 0);
    gpu_norming norm = {.rms = gpu->node->op == PCO_OP_RMS_NORM, .mean = PCO_NONE};
    norm.n = (uint64_t)x->shape[x->rank - 1];
    norm.rows = gpu_product(x, 0, x->rank - 1);
    norm.divisor = (int64_t)norm.n;
    if (norm.rms) {
        pco_rms_norm_attrs room;
        const pco_rms_norm_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
        norm.eps = attrs->eps;
        norm.rstd = gpu_output_index(gpu, 1);
    } else {
        pco_layer_norm_attrs room;
        const pco_layer_norm_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
        norm.eps = attrs->eps;
        norm.form = attrs->form != 0;
        norm.divisor -= attrs->correction;
        norm.mean = gpu_output_index(gpu, 1);
        norm.rstd = gpu_output_index(gpu, 2);
    }
    return norm;
}

static int gpu_norm_eligible(const gpu_lowering *gpu, uint32_t variant)
{
    return gpu_rows_eligible(gpu, variant, gpu_norming_of(gpu).n);
}

static uint32_t gpu_choose_norm(const gpu_lowering *gpu)
{
    const gpu_norming norm = gpu_norming_of(gpu);
    return gpu_choose_rows(gpu, norm.rows, norm.n, 1);
}

/* Mean and rstd of rows [first, first + rows). */
static void gpu_emit_norm_stats(gpu_lowering *gpu, const gpu_norming *norm, uint64_t first, uint64_t rows)
{
    const uint64_t n = norm->n;
    pco_gpu_dispatch d;
    const uint64_t groups = gpu_begin_rows(gpu, &d, GPU_KERNEL_norm_stats_serial, rows, n);
    gpu_set_specs(gpu, &d, norm_stats, .rms = norm->rms, .x = (int32_t)gpu_input(gpu, 0)->dtype, .form = norm->form,
                  .walk = gpu_walk(gpu, 1));
    gpu_norm_stats_params p = {
        .n_rows = (uint32_t)rows,
        .n = (uint32_t)n,
        .x_first = gpu_bind_elements(gpu, &d, GPU_norm_stats_x, gpu_input_index(gpu, 0), first * n, rows * n, 0),
        .eps = (float)norm->eps,
        .n_as_float = (float)n,
        .divisor = (float)norm->divisor};
    if (norm->mean != PCO_NONE)
        p.mean_first = gpu_bind_elements(gpu, &d, GPU_norm_stats_mean, norm->mean, first, rows, 1);
    p.rstd_first = gpu_bind_elements(gpu, &d, GPU_norm_stats_rstd, norm->rstd, first, rows, 1);
    gpu_set_params_from(gpu, &d, norm_stats, &p);
    gpu_emit(gpu, &d, groups);
}

/* The result of rows [first, first + rows). */
static void gpu_emit_norm(gpu_lowering *gpu, const gpu_norming *norm, uint64_t first, uint64_t rows)
{
    const pco_tensor *weight = gpu_input(gpu, 1), *bias = norm->rms ? NULL : gpu_input(gpu, 2);
    const uint64_t n = norm->n;
    pco_gpu_dispatch d;
    const uint64_t groups = gpu_begin_rows(gpu, &d, GPU_KERNEL_norm_serial, rows, n);
    gpu_set_specs(gpu, &d, norm, .rms = norm->rms, .x = (int32_t)gpu_input(gpu, 0)->dtype, .form = norm->form,
                  .w = (int32_t)(weight ? weight->dtype
                                 : bias ? bias->dtype
                                        : PCO_F32),
                  .has_weight = weight != NULL, .has_bias = bias != NULL, .walk = gpu_walk(gpu, 1));
    gpu_norm_params p = {
        .n_rows = (uint32_t)rows,
        .n = (uint32_t)n,
        .x_first = gpu_bind_elements(gpu, &d, GPU_norm_x, gpu_input_index(gpu, 0), first * n, rows * n, 0),
        .eps = (float)norm->eps,
        .n_as_float = (float)n,
        .divisor = (float)norm->divisor,
        .y_first = gpu_bind_elements(gpu, &d, GPU_norm_y, gpu_output_index(gpu, 0), first * n, rows * n, 1)};
    if (weight) p.weight_first = gpu_bind_elements(gpu, &d, GPU_norm_weight, gpu_input_index(gpu, 1), 0, n, 0);
    if (bias) p.bias_first = gpu_bind_elements(gpu, &d, GPU_norm_bias, gpu_input_index(gpu, 2), 0, n, 0);
    gpu_set_params_from(gpu, &d, norm, &p);
    gpu_emit(gpu, &d, groups);
}

static pco_status gpu_lower_norm_node(gpu_lowering *gpu)
{
    const gpu_norming norm = gpu_norming_of(gpu);
    const uint64_t step = norm.n ? gpu_window(gpu, gpu_element_bytes(gpu_input(gpu, 0)->dtype)) / norm.n : norm.rows;
    if (step == 0 && norm.rows) {
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "rows of %llu elements exceed the device's binding limit",
                        (unsigned long long)norm.n);
    }
    /* Statistics first: in place, the result overwrites what they are taken from. */
    for (uint64_t first = 0; first < norm.rows && gpu->status == PCO_OK; first += step) {
        const uint64_t rows = gpu_min(step, norm.rows - first);
        if (norm.rstd != PCO_NONE) gpu_emit_norm_stats(gpu, &norm, first, rows);
        if (norm.n) gpu_emit_norm(gpu, &norm, first, rows);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_norm = {.variants = gpu_row_variants,
                                    .n_variants = GPU_N_ROW_VARIANTS,
                                    .eligible = gpu_norm_eligible,
                                    .choose = gpu_choose_norm,
                                    .lower = gpu_lower_norm_node};
