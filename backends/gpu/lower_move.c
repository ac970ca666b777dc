/* Ops that move data: each is a copy between two strided views. */
#include "elementwise.h"

#include <string.h>

typedef struct gpu_copy {
    uint32_t y, x;
} gpu_copy;

/* 1 if views, offsets and rows are whole words of both, so that the copy may be made in words. */
static int gpu_view_is_words(const gpu_view *view, uint32_t lanes)
{
    const uint32_t inner = view->rank - 1;
    if (view->size[inner] % lanes) return 0;
    for (uint32_t k = 0; k < 2; k++) {
        if (view->stride[k][inner] != 1 || view->offset[k] % lanes) return 0;
        for (uint32_t d = 0; d < inner; d++) {
            if (view->stride[k][d] % lanes) return 0;
        }
    }
    return 1;
}

/* The kernel's MODE: 0 rows of whole words of y, 1 contiguous y, 2 shared words. */
static int32_t gpu_copy_mode(const gpu_lowering *gpu, const gpu_view *view, uint32_t y)
{
    const pco_tensor *tensor = &gpu->part->tensors[y];
    const uint32_t lanes = gpu_lanes(tensor->dtype), inner = view->rank - 1;
    int whole = view->stride[0][inner] == 1 && view->offset[0] % lanes == 0 && view->size[inner] % lanes == 0;
    int64_t step = 1;
    int dense = view->offset[0] % lanes == 0;
    uint64_t count = 1;
    for (uint32_t d = view->rank; d-- > 0;) {
        whole &= d == inner || view->stride[0][d] % lanes == 0;
        dense &= view->stride[0][d] == step;
        step *= (int64_t)view->size[d];
        count *= view->size[d];
    }
    if (whole) return 0;
    /* The last word of a contiguous piece must be y's own. */
    return dense && (count % lanes == 0 || view->offset[0] + count == gpu_count(tensor)) ? 1 : 2;
}

static pco_status gpu_emit_copy_part(gpu_lowering *gpu, const gpu_view *part, void *context)
{
    const gpu_copy *copy = context;
    const uint32_t x_type = gpu->part->tensors[copy->x].dtype, y_type = gpu->part->tensors[copy->y].dtype;
    uint32_t lanes = gpu_lanes(y_type), x_as = x_type, y_as = y_type, unit = 1;
    gpu_view view = *part;
    int32_t mode = 0;
    if (x_type == y_type && lanes > 1 && gpu_view_is_words(&view, lanes)) {
        unit = lanes;
        view.size[view.rank - 1] /= lanes;
        for (uint32_t k = 0; k < 2; k++) {
            for (uint32_t d = 0; d + 1 < view.rank; d++) view.stride[k][d] /= lanes;
        }
        lanes = 1;
        x_as = y_as = PCO_I32;
    } else {
        mode = gpu_copy_mode(gpu, &view, copy->y);
    }
    const uint32_t inner = view.rank - 1;
    const uint64_t n = view.size[inner], rows = gpu_view_rows(&view), all = mode == 1 ? n * rows : n;
    const gpu_rows cover = gpu_cover_rows(gpu, mode == 2 ? n : gpu_div_up(all, lanes), mode == 1 ? 1 : rows);
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, GPU_KERNEL_copy, cover.local_x, cover.local_y, 1);
    gpu_set_specs(gpu, &d, copy, .x = (int32_t)x_as, .y = (int32_t)y_as, .per = (int32_t)cover.per,
                  .rank = (int32_t)view.rank, .mode = mode, .unit_step = view.stride[1][inner] == 1);
    gpu_copy_params params = {
        .n = (uint32_t)n,
        .x_first = gpu_bind_elements(gpu, &d, GPU_copy_x, copy->x, part->offset[1], gpu_view_span(part, 1), 0) / unit,
        .y_first = gpu_bind_elements(gpu, &d, GPU_copy_y, copy->y, part->offset[0], gpu_view_span(part, 0), 1) / unit,
        .chunks = cover.chunks,
        .n_rows = (uint32_t)(mode == 1 ? 1 : rows),
        .x_row_stride = (uint32_t)view.stride[1][inner],
        .y_row_stride = (uint32_t)view.stride[0][inner],
        .n_all = (uint32_t)all};
    for (uint32_t k = 0; k < inner; k++) {
        params.size[k] = (uint32_t)view.size[inner - 1 - k];
        params.x_stride[k] = (uint32_t)view.stride[1][inner - 1 - k];
        params.y_stride[k] = (uint32_t)view.stride[0][inner - 1 - k];
    }
    gpu_set_params_from(gpu, &d, copy, &params);
    return gpu_emit(gpu, &d, cover.groups);
}

/* 1 if y lies where the elements lie in x: there is nothing to copy. */
static int gpu_copy_is_nothing(const gpu_lowering *gpu, const gpu_view *view, const gpu_copy *copy)
{
    return view->rank == 1 && view->stride[0][0] == 1 && view->stride[1][0] == 1 &&
           gpu_same_element(gpu, copy->y, view->offset[0], copy->x, view->offset[1]);
}

pco_status gpu_emit_copy(gpu_lowering *gpu, const gpu_view *view, uint32_t y, uint32_t x)
{
    gpu_view whole = *view;
    gpu_copy copy = {.y = y, .x = x};
    const uint64_t limit[2] = {gpu_window(gpu, gpu_element_bytes(gpu->part->tensors[y].dtype)),
                               gpu_window(gpu, gpu_element_bytes(gpu->part->tensors[x].dtype))};
    whole.n = 2;
    if (gpu_view_span(&whole, 0) == 0) return gpu->status;
    gpu_view_coalesce(&whole);
    if (gpu_copy_is_nothing(gpu, &whole, &copy)) return gpu->status;
    return gpu_view_split(gpu, &whole, limit, gpu_emit_copy_part, &copy);
}

/* The view of contiguous y, with shape[rank]. */
static gpu_view gpu_result_view(const pco_tensor *y)
{
    gpu_view view = {.rank = y->rank, .n = 2};
    for (uint32_t d = 0; d < y->rank; d++) view.size[d] = (uint64_t)y->shape[d];
    gpu_strides(y->shape, y->rank, view.stride[0]);
    return view;
}

pco_status gpu_emit_whole_copy(gpu_lowering *gpu, uint32_t y, uint32_t x)
{
    const gpu_view view = {.rank = 1, .n = 2, .size = {gpu_count(&gpu->part->tensors[y])}, .stride = {{1}, {1}}};
    return gpu_emit_copy(gpu, &view, y, x);
}

static pco_status gpu_lower_reshape_node(gpu_lowering *gpu)
{
    const uint32_t x = gpu_input_index(gpu, 0), y = gpu_output_index(gpu, 0);
    if (gpu->plan && gpu_same_memory(gpu, x, y)) return gpu->status;
    if (!gpu->plan && gpu->part->tensors[y].alias == x) return gpu->status;
    return gpu_emit_whole_copy(gpu, y, x);
}

const gpu_lowerer gpu_lower_reshape = {.in_place = 1, .lower = gpu_lower_reshape_node};

static pco_status gpu_lower_broadcast_to_node(gpu_lowering *gpu)
{
    const pco_tensor *y = gpu_output(gpu, 0);
    gpu_view view = gpu_result_view(y);
    gpu_broadcast_strides(gpu_input(gpu, 0), y->rank, y->shape, view.stride[1]);
    return gpu_emit_copy(gpu, &view, gpu_output_index(gpu, 0), gpu_input_index(gpu, 0));
}

const gpu_lowerer gpu_lower_broadcast_to = {.lower = gpu_lower_broadcast_to_node};

static pco_status gpu_lower_permute_node(gpu_lowering *gpu)
{
    const pco_tensor *x = gpu_input(gpu, 0), *y = gpu_output(gpu, 0);
    pco_permute_attrs room;
    const pco_permute_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    gpu_view view = gpu_result_view(y);
    int64_t stride[PCO_MAX_RANK] = {0};
    gpu_strides(x->shape, x->rank, stride);
    for (uint32_t d = 0; d < y->rank; d++) view.stride[1][d] = stride[attrs->dims[d]];
    return gpu_emit_copy(gpu, &view, gpu_output_index(gpu, 0), gpu_input_index(gpu, 0));
}

const gpu_lowerer gpu_lower_permute = {.lower = gpu_lower_permute_node};

static pco_status gpu_lower_slice_node(gpu_lowering *gpu)
{
    const pco_tensor *x = gpu_input(gpu, 0), *y = gpu_output(gpu, 0);
    pco_slice_attrs room;
    const pco_slice_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    gpu_view view = gpu_result_view(y);
    int64_t stride[PCO_MAX_RANK] = {0};
    gpu_strides(x->shape, x->rank, stride);
    for (uint32_t d = 0; d < y->rank; d++) {
        view.stride[1][d] = stride[d] * attrs->steps[d];
        view.offset[1] += (uint64_t)(stride[d] * attrs->starts[d]);
    }
    return gpu_emit_copy(gpu, &view, gpu_output_index(gpu, 0), gpu_input_index(gpu, 0));
}

const gpu_lowerer gpu_lower_slice = {.lower = gpu_lower_slice_node};

static pco_status gpu_lower_concat_node(gpu_lowering *gpu)
{
    const pco_tensor *y = gpu_output(gpu, 0);
    pco_concat_attrs room;
    const pco_concat_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const uint32_t axis = (uint32_t)attrs->axis;
    const uint64_t inner = gpu_product(y, axis + 1, y->rank), outer = gpu_product(y, 0, axis);
    uint64_t before = 0;
    for (uint32_t i = 0; i < gpu->node->n_inputs; i++) {
        const pco_tensor *x = gpu_input(gpu, i);
        if (!x) continue;
        const uint64_t n = (uint64_t)x->shape[axis] * inner;
        const gpu_view view = {.rank = 2,
                               .n = 2,
                               .size = {outer, n},
                               .stride = {{y->shape[axis] * (int64_t)inner, 1}, {(int64_t)n, 1}},
                               .offset = {before, 0}};
        gpu_emit_copy(gpu, &view, gpu_output_index(gpu, 0), gpu_input_index(gpu, i));
        before += n;
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_concat = {.lower = gpu_lower_concat_node};

/* ---- pad ---- */

/* Sizes of y, of x and elements in front, innermost first; unpadded dimensions joined with the next outer
 * one. */
typedef struct gpu_frame {
    uint32_t rank;
    uint64_t y[PCO_MAX_RANK], x[PCO_MAX_RANK], front[PCO_MAX_RANK];
} gpu_frame;

static gpu_frame gpu_pad_frame(const pco_tensor *x, const pco_tensor *y, const pco_pad_attrs *attrs)
{
    gpu_frame frame = {.rank = 0};
    uint64_t joined = 1; /* elements of the unpadded dimensions inside of d */
    for (uint32_t d = y->rank; d-- > 0;) {
        const uint64_t y_size = (uint64_t)y->shape[d], x_size = (uint64_t)x->shape[d];
        if (y_size == x_size && d > 0) {
            joined *= y_size;
            continue;
        }
        frame.y[frame.rank] = y_size * joined;
        frame.x[frame.rank] = x_size * joined;
        frame.front[frame.rank++] = (uint64_t)attrs->before[d] * joined;
        joined = 1;
    }
    if (frame.rank == 0) frame = (gpu_frame){.rank = 1, .y = {1}, .x = {1}};
    return frame;
}

/* Elements of x that elements [first, first + count) of y show, and those between: whole slices of the outermost
 * dimension. Returns the first, *shown how many. */
static uint64_t gpu_pad_shown(const gpu_frame *frame, uint64_t first, uint64_t count, uint64_t *shown)
{
    const uint32_t outer = frame->rank - 1;
    uint64_t y_slice = 1, x_slice = 1;
    for (uint32_t k = 0; k < outer; k++) y_slice *= frame->y[k], x_slice *= frame->x[k];
    const uint64_t front = frame->front[outer], size = frame->x[outer];
    const uint64_t begin = first / y_slice, end = gpu_div_up(first + count, y_slice);
    const uint64_t from = begin > front ? gpu_min(begin - front, size) : 0;
    const uint64_t to = end > front ? gpu_min(end - front, size) : 0;
    *shown = (to - from) * x_slice;
    return from * x_slice;
}

static pco_status gpu_lower_pad_node(gpu_lowering *gpu)
{
    const pco_tensor *x = gpu_input(gpu, 0), *y = gpu_output(gpu, 0);
    pco_pad_attrs room;
    const pco_pad_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const gpu_frame frame = gpu_pad_frame(x, y, attrs);
    const uint32_t lanes = gpu_lanes(x->dtype);
    const uint64_t total = gpu_count(y), most = gpu_window(gpu, gpu_element_bytes(y->dtype));
    /* What a window of y shows of x, whole slices, has to fit as well. */
    const uint64_t window = gpu_count(x) > most ? gpu_max(most / 8, 1) * 4 : most;
    if (total > UINT32_MAX) return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "a result of more than 2^32 elements");
    for (uint64_t first = 0; first < total && gpu->status == PCO_OK; first += window) {
        const uint64_t count = gpu_min(window, total - first), words = gpu_div_up(count, lanes);
        const gpu_rows cover = gpu_cover_rows(gpu, words, 1);
        uint64_t shown;
        const uint64_t x_first = gpu_pad_shown(&frame, first, count, &shown);
        pco_gpu_dispatch d;
        gpu_begin(gpu, &d, GPU_KERNEL_pad, cover.local_x, 1, 1);
        gpu_set_specs(gpu, &d, pad, .x = (int32_t)x->dtype, .per = (int32_t)cover.per, .rank = (int32_t)frame.rank);
        /* Places in x are counted from its beginning, modulo 2^32. */
        gpu_pad_params params = {
            .n = (uint32_t)count,
            .x_first =
                gpu_bind_elements(gpu, &d, GPU_pad_x, gpu_input_index(gpu, 0), x_first, shown, 0) - (uint32_t)x_first,
            .y_first_word = gpu_bind_elements(gpu, &d, GPU_pad_y, gpu_output_index(gpu, 0), first, count, 1) / lanes,
            .value = gpu_element_bits(x->dtype, attrs->value),
            .index_first = (uint32_t)first};
        for (uint32_t k = 0; k < frame.rank; k++) {
            params.y_size[k] = (uint32_t)frame.y[k];
            params.x_size[k] = (uint32_t)frame.x[k];
            params.front[k] = (uint32_t)frame.front[k];
        }
        gpu_set_params_from(gpu, &d, pad, &params);
        gpu_emit(gpu, &d, cover.groups);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_pad = {.lower = gpu_lower_pad_node};

/* ---- state_write ---- */

/* Windows along dimension 0 when the state or x is beyond the binding limit. */
static pco_status gpu_lower_state_write_node(gpu_lowering *gpu)
{
    const pco_tensor *state = gpu_input(gpu, 0), *x = gpu_input(gpu, 1), *index = gpu_input(gpu, 2);
    pco_state_write_attrs room;
    const pco_state_write_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const uint32_t axis = (uint32_t)attrs->axis, y = gpu_output_index(gpu, 0);
    const uint32_t lanes = gpu_lanes(state->dtype), state_index = gpu_input_index(gpu, 0);
    const uint64_t batch = (uint64_t)state->shape[0], outer = gpu_product(state, 1, axis);
    const uint64_t steps = (uint64_t)x->shape[axis], inner = gpu_product(state, axis + 1, state->rank);
    const uint64_t x_row = outer * steps * inner, y_row = outer * (uint64_t)state->shape[axis] * inner;
    if (gpu->plan && !gpu_same_memory(gpu, y, state_index)) gpu_emit_whole_copy(gpu, y, state_index);
    if (gpu_count(x) == 0 || y_row == 0) return gpu->status;
    uint64_t window = gpu_min(gpu_window(gpu, gpu_element_bytes(state->dtype)) / y_row,
                              gpu_window(gpu, gpu_element_bytes(x->dtype)) / x_row);
    if (window == 0) window = 1; /* refused when bound, if it is too long */
    for (uint64_t first = 0; first < batch && gpu->status == PCO_OK; first += window) {
        const uint64_t count = gpu_min(window, batch - first), rows = count * outer * steps;
        const int several = gpu_count(index) > 1;
        const int32_t mode = inner % lanes ? 2 : first * y_row % lanes ? 2 : 0;
        const gpu_rows cover = gpu_cover_rows(gpu, mode ? inner : inner / lanes, rows);
        pco_gpu_dispatch d;
        gpu_begin(gpu, &d, GPU_KERNEL_state_write, cover.local_x, cover.local_y, 1);
        gpu_set_specs(gpu, &d, state_write, .x = (int32_t)x->dtype, .y = (int32_t)state->dtype,
                      .per = (int32_t)cover.per, .mode = mode);
        gpu_set_params(gpu, &d, state_write, .n = (uint32_t)inner,
                       .x_first = gpu_bind_elements(gpu, &d, GPU_state_write_x, gpu_input_index(gpu, 1), first * x_row,
                                                    count * x_row, 0),
                       .index_first = gpu_bind_elements(gpu, &d, GPU_state_write_index, gpu_input_index(gpu, 2),
                                                        several ? first : 0, several ? count : 1, 0),
                       .y_first = gpu_bind_elements(gpu, &d, GPU_state_write_y, y, first * y_row, count * y_row, 1),
                       .chunks = cover.chunks, .n_rows = (uint32_t)rows, .n_steps = (uint32_t)steps,
                       .n_outer = (uint32_t)outer, .axis_size = (uint32_t)state->shape[axis],
                       .index_step = several ? 1 : 0);
        gpu_emit(gpu, &d, cover.groups);
    }
    return gpu->status;
}

const gpu_lowerer gpu_lower_state_write = {.in_place = 1, .lower = gpu_lower_state_write_node};
