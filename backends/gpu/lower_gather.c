/* Ops with indices: gather, gather_along_axis, scatter_add. */
#include "elementwise.h"
#include "layout.h"

/* x is [outer, n, inner], y [outer, k, inner]. */
typedef struct gpu_taking {
    uint64_t outer, n, inner, k;
} gpu_taking;

static gpu_taking gpu_taking_of(const pco_tensor *x, const pco_tensor *indices, uint32_t axis)
{
    return (gpu_taking){.outer = gpu_product(x, 0, axis),
                        .n = (uint64_t)x->shape[axis],
                        .inner = gpu_product(x, axis + 1, x->rank),
                        .k = gpu_count(indices)};
}

/* ---- gather ---- */

/* One dispatch: `outer` slices from o on, indices [k, k + n_k), rows [n, n + n_n) of x in view. */
typedef struct gpu_gather_part {
    uint64_t o, outer, k, n_k, n, n_n;
    int zeros; /* also writes the rows whose index is outside of x */
} gpu_gather_part;

/* Binds x, or its two planes, and sets their parameters. */
static void gpu_bind_gathered(gpu_lowering *gpu, pco_gpu_dispatch *d, const gpu_taking *t, const gpu_gather_part *part,
                              gpu_gather_params *params)
{
    const uint32_t x = gpu_input_index(gpu, 0);
    const pco_tensor *tensor = gpu_input(gpu, 0);
    const uint64_t first = (part->o * t->n + part->n) * t->inner;
    const uint64_t count = ((part->outer - 1) * t->n + part->n_n) * t->inner;
    if (gpu_element_bytes(tensor->dtype)) {
        params->x_first = gpu_bind_elements(gpu, d, GPU_gather_x, x, first, count, 0);
        return;
    }
    const gpu_planes planes = gpu_bind_planes(gpu, d, GPU_gather_x, GPU_gather_scales, x, first, count);
    params->x_first = planes.quants_byte;
    params->scales_first = planes.scales_at;
}

static pco_status gpu_emit_gather(gpu_lowering *gpu, const gpu_taking *t, const gpu_gather_part *part)
{
    const pco_tensor *x = gpu_input(gpu, 0), *y = gpu_output(gpu, 0);
    const gpu_format *format = gpu_format_of(x->dtype);
    const uint32_t lanes = gpu_lanes(y->dtype);
    const uint64_t rows = part->outer * part->n_k, y_first = (part->o * t->k + part->k) * t->inner;
    const int whole = rows == t->outer * t->k && part->n_n == t->n;
    const int32_t mode = t->inner % lanes == 0 ? 0 : whole ? 1 : 2;
    const uint64_t units = mode == 0 ? t->inner / lanes : mode == 1 ? gpu_div_up(rows * t->inner, lanes) : t->inner;
    const gpu_rows cover = gpu_cover_rows(gpu, units, mode == 1 ? 1 : rows);
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, format ? GPU_KERNEL_gather_quantised + format->number : GPU_KERNEL_gather, cover.local_x,
              cover.local_y, 1);
    gpu_set_specs(gpu, &d, gather, .x = (int32_t)x->dtype, .y = (int32_t)y->dtype, .per = (int32_t)cover.per,
                  .mode = mode);
    gpu_gather_params params = {
        .n = (uint32_t)t->inner,
        .indices_first = gpu_bind_elements(gpu, &d, GPU_gather_indices, gpu_input_index(gpu, 1), part->k, part->n_k, 0),
        .y_first = gpu_bind_elements(gpu, &d, GPU_gather_y, gpu_output_index(gpu, 0), y_first, rows * t->inner, 1),
        .chunks = cover.chunks,
        .n_rows = (uint32_t)(mode == 1 ? 1 : rows),
        .n_indices = (uint32_t)part->n_k,
        .axis_size = (uint32_t)t->n,
        .window_first = (uint32_t)part->n,
        .window_end = (uint32_t)(part->n + part->n_n),
        .zeros = (uint32_t)part->zeros,
        .n_all = (uint32_t)(rows * t->inner)};
    gpu_bind_gathered(gpu, &d, t, part, &params);
    gpu_set_params_from(gpu, &d, gather, &params);
    return gpu_emit(gpu, &d, cover.groups);
}

static pco_status gpu_lower_gather_node(gpu_lowering *gpu)
{
    const pco_tensor *x = gpu_input(gpu, 0), *indices = gpu_input(gpu, 1), *y = gpu_output(gpu, 0);
    pco_gather_attrs room;
    const pco_gather_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const int quantised = gpu_format_of(x->dtype) != NULL;
    if (quantised && x->kind != PCO_KIND_CONSTANT) {
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "%s is quantised and not a constant", x->name);
    }
    const gpu_taking t = gpu_taking_of(x, indices, (uint32_t)attrs->axis);
    if (gpu_count(y) == 0) return gpu->status;
    const uint64_t x_window = gpu_window(gpu, quantised ? 1 : gpu_element_bytes(x->dtype));
    const uint64_t y_window = gpu_window(gpu, gpu_element_bytes(y->dtype));
    if (gpu_count(x) <= x_window && gpu_count(y) <= y_window && t.k <= gpu_window(gpu, 4)) {
        const gpu_gather_part all = {.outer = t.outer, .n_k = t.k, .n_n = t.n, .zeros = 1};
        return gpu_emit_gather(gpu, &t, &all);
    }
    const uint64_t step_n = x_window / t.inner, step_k = gpu_min(y_window / t.inner, gpu_window(gpu, 4));
    if (step_n == 0 || step_k == 0) {
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "rows of %llu elements exceed the device's binding limit",
                        (unsigned long long)t.inner);
    }
    for (uint64_t o = 0; o < t.outer; o++) {
        for (uint64_t k = 0; k < t.k; k += step_k) {
            for (uint64_t n = 0; n < gpu_max(t.n, 1) && gpu->status == PCO_OK; n += step_n) {
                const gpu_gather_part part = {.o = o,
                                              .outer = 1,
                                              .k = k,
                                              .n_k = gpu_min(step_k, t.k - k),
                                              .n = n,
                                              .n_n = gpu_min(step_n, t.n - n),
                                              .zeros = n == 0};
                gpu_emit_gather(gpu, &t, &part);
            }
        }
    }
    return gpu->status;
}

static void gpu_propose_gather(gpu_lowering *gpu, pco_proposal *proposal)
{
    gpu_want_planes(proposal, gpu->part, gpu_input_index(gpu, 0));
}

const gpu_lowerer gpu_lower_gather = {.propose = gpu_propose_gather, .lower = gpu_lower_gather_node};

/* ---- gather_along_axis ---- */

static pco_status gpu_lower_gather_along_axis_node(gpu_lowering *gpu)
{
    const pco_tensor *x = gpu_input(gpu, 0), *indices = gpu_input(gpu, 1), *y = gpu_output(gpu, 0);
    pco_gather_along_axis_attrs room;
    const pco_gather_along_axis_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const uint32_t axis = (uint32_t)attrs->axis, lanes = gpu_lanes(x->dtype);
    gpu_taking t = gpu_taking_of(x, indices, axis);
    t.k = (uint64_t)indices->shape[axis];
    if (gpu_count(y) == 0) return gpu->status;
    /* Windows of whole outer slices; four of them are whole words of every type. */
    const uint64_t slice = gpu_max(t.n, t.k) * t.inner;
    uint64_t step = gpu_window(gpu, 4) / slice;
    if (step < t.outer) step &= ~UINT64_C(3);
    if (step == 0) {
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "slices of %llu elements exceed the device's binding limit",
                        (unsigned long long)slice);
    }
    for (uint64_t o = 0; o < t.outer && gpu->status == PCO_OK; o += step) {
        const uint64_t outer = gpu_min(step, t.outer - o), count = outer * t.k * t.inner, first = o * t.k * t.inner;
        const gpu_rows cover = gpu_cover_rows(gpu, gpu_div_up(count, lanes), 1);
        pco_gpu_dispatch d;
        gpu_begin(gpu, &d, GPU_KERNEL_gather_along_axis, cover.local_x, 1, 1);
        gpu_set_specs(gpu, &d, gather_along_axis, .x = (int32_t)x->dtype, .per = (int32_t)cover.per);
        gpu_set_params(
            gpu, &d, gather_along_axis, .n = (uint32_t)count,
            .x_first = gpu_bind_elements(gpu, &d, GPU_gather_along_axis_x, gpu_input_index(gpu, 0), o * t.n * t.inner,
                                         outer * t.n * t.inner, 0),
            .indices_first =
                gpu_bind_elements(gpu, &d, GPU_gather_along_axis_indices, gpu_input_index(gpu, 1), first, count, 0),
            .y_first_word =
                gpu_bind_elements(gpu, &d, GPU_gather_along_axis_y, gpu_output_index(gpu, 0), first, count, 1) / lanes,
            .inner = (uint32_t)t.inner, .slice = (uint32_t)(t.k * t.inner), .axis_size = (uint32_t)t.n);
        gpu_emit(gpu, &d, cover.groups);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_gather_along_axis = {.lower = gpu_lower_gather_along_axis_node};

/* ---- scatter_add ---- */

/* Links of all indices, in the workspace. */
static void gpu_emit_links(gpu_lowering *gpu, const gpu_taking *t)
{
    const uint32_t local = gpu_workgroup(gpu, 64);
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, GPU_KERNEL_scatter_link, local, 1, 1);
    gpu_set_params(gpu, &d, scatter_link, .n_indices = (uint32_t)t->k,
                   .indices_first =
                       gpu_bind_elements(gpu, &d, GPU_scatter_link_indices, gpu_input_index(gpu, 1), 0, t->k, 0),
                   .links_first = gpu_bind_workspace(gpu, &d, GPU_scatter_link_links, 0, t->k * 8, 1) / 4,
                   .axis_size = (uint32_t)t->n);
    gpu_emit(gpu, &d, gpu_div_up(t->k, local));
}

/* A copy of x, then the slices that indices name. Never in place: shared words of x are read while those of y
 * are written. */
static pco_status gpu_lower_scatter_add_node(gpu_lowering *gpu)
{
    const pco_tensor *x = gpu_input(gpu, 0), *indices = gpu_input(gpu, 1);
    pco_scatter_add_attrs room;
    const pco_scatter_add_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const gpu_taking t = gpu_taking_of(x, indices, (uint32_t)attrs->axis);
    const uint32_t lanes = gpu_lanes(x->dtype), y = gpu_output_index(gpu, 0);
    gpu_emit_whole_copy(gpu, y, gpu_input_index(gpu, 0));
    if (t.k == 0 || gpu_count(x) == 0) return gpu->status;
    const uint64_t slice = gpu_max(t.n, t.k) * t.inner, window = gpu_window(gpu, gpu_element_bytes(x->dtype));
    const uint64_t step = window / slice;
    if (step == 0) {
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "slices of %llu elements exceed the device's binding limit",
                        (unsigned long long)slice);
    }
    const int32_t mode = t.inner % lanes ? 2 : 0;
    /* Each invocation goes along the links of a slice, or over all indices for its own: rounds grow with them. */
    const uint64_t rounds = t.k * (mode ? 1 : lanes);
    if (gpu_need_rounds(gpu, rounds + 64)) return gpu->status;
    gpu_emit_links(gpu, &t);
    for (uint64_t o = 0; o < t.outer && gpu->status == PCO_OK; o += step) {
        const uint64_t outer = gpu_min(step, t.outer - o), rows = outer * t.k, x_slice = t.n * t.inner;
        gpu_rows cover = gpu_cover_rows(gpu, mode ? t.inner : t.inner / lanes, rows);
        if (!gpu_rounds_fit(gpu, cover.per * (rounds + 8))) gpu_cover_singly(&cover);
        pco_gpu_dispatch d;
        gpu_begin(gpu, &d, GPU_KERNEL_scatter_add, cover.local_x, cover.local_y, 1);
        gpu_set_specs(gpu, &d, scatter_add, .x = (int32_t)x->dtype, .per = (int32_t)cover.per, .mode = mode);
        gpu_set_params(gpu, &d, scatter_add, .n = (uint32_t)t.inner,
                       .x_first = gpu_bind_elements(gpu, &d, GPU_scatter_add_x, gpu_input_index(gpu, 0), o * x_slice,
                                                    outer * x_slice, 0),
                       .links_first = gpu_bind_workspace(gpu, &d, GPU_scatter_add_links, 0, t.k * 8, 0) / 4,
                       .updates_first = gpu_bind_elements(gpu, &d, GPU_scatter_add_updates, gpu_input_index(gpu, 2),
                                                          o * t.k * t.inner, outer * t.k * t.inner, 0),
                       .y_first = gpu_bind_elements(gpu, &d, GPU_scatter_add_y, y, o * x_slice, outer * x_slice, 1),
                       .chunks = cover.chunks, .n_rows = (uint32_t)rows, .n_indices = (uint32_t)t.k,
                       .axis_size = (uint32_t)t.n);
        gpu_emit(gpu, &d, cover.groups);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_scatter_add = {.lower = gpu_lower_scatter_add_node};
