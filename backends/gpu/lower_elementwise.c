/* Ops that compute every element of the result from the operands' elements at the same index. */
#include "elementwise.h"

#include <math.h>
#include <string.h>

/* Words of an invocation that goes from one to the next. */
enum { GPU_NEXT_WORDS = 512 };

/* A few shapes only: each makes another pipeline of the same kernel. */
gpu_rows gpu_cover_rows(const gpu_lowering *gpu, uint64_t words, uint64_t rows)
{
    const uint32_t most = gpu_workgroup(gpu, 64);
    gpu_rows cover = {.local_x = most, .local_y = 1, .per = 1};
    if (rows > 1 && words <= most / 4) {
        cover.local_x = words <= most / 16 ? (most + 15) / 16 : most / 4;
        cover.local_y = (uint32_t)gpu_min(most / cover.local_x, gpu->limits->max_local[1]);
    }
    const uint64_t steps = gpu_div_up(words, cover.local_x);
    /* Long streams keep each invocation busy, short ones spread over the device. */
    const uint32_t per = steps * rows >= 1024 ? 8 : steps * rows >= 64 ? 4 : 1;
    while (cover.per < per && cover.per < steps) cover.per *= 2;
    cover.chunks = (uint32_t)gpu_max(gpu_div_up(steps, cover.per), 1);
    cover.groups = gpu_div_up(rows, cover.local_y) * cover.chunks;
    return cover;
}

void gpu_cover_singly(gpu_rows *cover)
{
    cover->chunks *= cover->per;
    cover->groups *= cover->per;
    cover->per = 1;
}

/* ---- numbers in attributes ---- */

static uint32_t gpu_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The 8 or 11 significant bits that bf16 or f16 keep: rounded once, from double. */
static double gpu_round_to(double value, int digits, int lowest)
{
    if (value == 0 || !isfinite(value)) return value;
    int exponent;
    frexp(value, &exponent); /* 2^(exponent-1) <= |value| */
    const int unit = exponent - digits > lowest ? exponent - digits : lowest;
    return ldexp(nearbyint(ldexp(value, -unit)), unit);
}

static int32_t gpu_round_i32(double value)
{
    if (isnan(value)) return 0;
    if (value >= 2147483647.0) return INT32_MAX;
    return value <= -2147483648.0 ? INT32_MIN : (int32_t)value;
}

uint32_t gpu_value_bits(uint32_t dtype, double value)
{
    if (dtype == PCO_I32) return (uint32_t)gpu_round_i32(value);
    if (dtype == PCO_BOOL) return gpu_float_bits(value != 0 ? 1.0f : 0.0f);
    if (dtype == PCO_BF16) return gpu_float_bits((float)gpu_round_to(value, 8, -133));
    if (dtype == PCO_F16) {
        const double rounded = gpu_round_to(value, 11, -24);
        return gpu_float_bits((float)(fabs(rounded) > 65504 ? copysign(INFINITY, rounded) : rounded));
    }
    return gpu_float_bits((float)value);
}

uint32_t gpu_element_bits(uint32_t dtype, double value)
{
    const uint32_t bits = gpu_value_bits(dtype, value), sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
    switch (dtype) {
    case PCO_BOOL: return a != 0;
    case PCO_BF16: return a > 0x7f800000u ? bits >> 16 | 0x40u : bits >> 16;
    case PCO_F16:
        if (a > 0x7f800000u) return sign | 0x7e00u;
        if (a == 0x7f800000u) return sign | 0x7c00u;
        if (a < 0x38800000u) return sign | (uint32_t)ldexp(fabs(gpu_round_to(value, 11, -24)), 24);
        return sign | ((a >> 13) - 0x1c000u);
    default: return bits;
    }
}

/* ---- one operand: flat windows ---- */

pco_status gpu_emit_unary(gpu_lowering *gpu, uint32_t op, uint32_t x, uint32_t y, uint32_t low, uint32_t high)
{
    const uint32_t x_type = gpu->part->tensors[x].dtype, y_type = gpu->part->tensors[y].dtype;
    const uint64_t total = gpu_count(&gpu->part->tensors[y]);
    const uint64_t window = gpu_window(gpu, gpu_max(gpu_element_bytes(x_type), gpu_element_bytes(y_type)));
    for (uint64_t first = 0; first < total && gpu->status == PCO_OK; first += window) {
        const uint64_t count = gpu_min(window, total - first), words = gpu_div_up(count, gpu_lanes(y_type));
        gpu_rows cover = gpu_cover_rows(gpu, words, 1);
        /* A CPU's compiler makes vectors of a loop's turns sooner than of invocations. */
        const int next = (gpu->limits->needs_met & PCO_GPU_NEEDS_VECTOR_16) && words > GPU_NEXT_WORDS;
        if (next)
            cover = (gpu_rows){
                .local_x = 1, .local_y = 1, .per = GPU_NEXT_WORDS, .groups = gpu_div_up(words, GPU_NEXT_WORDS)};
        pco_gpu_dispatch d;
        gpu_begin(gpu, &d, GPU_KERNEL_unary, cover.local_x, 1, 1);
        const uint32_t x_first = gpu_bind_elements(gpu, &d, GPU_unary_x, x, first, count, 0);
        const int aligned = x_first % gpu_lanes(x_type) == 0 && gpu_lanes(x_type) <= gpu_lanes(y_type);
        gpu_set_specs(gpu, &d, unary, .op = (int32_t)op, .x = (int32_t)x_type, .y = (int32_t)y_type,
                      .per = (int32_t)cover.per, .aligned = aligned, .next = next);
        gpu_set_params(gpu, &d, unary, .n = (uint32_t)count, .x_first = x_first,
                       .y_first_word = gpu_bind_elements(gpu, &d, GPU_unary_y, y, first, count, 1) / gpu_lanes(y_type),
                       .low = low, .high = high);
        gpu_emit(gpu, &d, cover.groups);
    }
    return gpu->status;
}

/* Of the kernel only: the tanh form of gelu. */
enum { GPU_OP_GELU_TANH = 1071 };

static pco_status gpu_lower_unary_node(gpu_lowering *gpu)
{
    uint32_t op = gpu->node->op, low = 0, high = 0;
    if (op == PCO_OP_CLAMP) {
        pco_clamp_attrs room;
        const pco_clamp_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
        low = gpu_value_bits(gpu_input(gpu, 0)->dtype, attrs->min);
        high = gpu_value_bits(gpu_input(gpu, 0)->dtype, attrs->max);
    }
    if (op == PCO_OP_GELU) {
        pco_gelu_attrs room;
        const pco_gelu_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
        if (attrs->approximate) op = GPU_OP_GELU_TANH;
    }
    return gpu_emit_unary(gpu, op, gpu_input_index(gpu, 0), gpu_output_index(gpu, 0), low, high);
}

const gpu_lowerer gpu_lower_unary = {.in_place = 1, .lower = gpu_lower_unary_node};

/* ---- two operands, broadcast ---- */

/* Which tensors the views of a gpu_view belong to: the result first. */
typedef struct gpu_tensors {
    uint32_t op, tensor[GPU_MAX_VIEWS];
} gpu_tensors;

/* Binds what operand k of the view touches; returns its first element's place in the window. */
static uint32_t gpu_bind_view(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, const gpu_view *view,
                              const gpu_tensors *tensors, uint32_t k, int write)
{
    return gpu_bind_elements(gpu, d, buffer, tensors->tensor[k], view->offset[k], gpu_view_span(view, k), write);
}

/* Binds what the view's result occupies; returns its first word's place in the window. */
static uint32_t gpu_bind_result(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, const gpu_view *view,
                                const gpu_tensors *tensors)
{
    const pco_tensor *tensor = &gpu->part->tensors[tensors->tensor[0]];
    const uint32_t y = gpu_bind_view(gpu, d, buffer, view, tensors, 0, 1), lanes = gpu_lanes(tensor->dtype);
    if (y % lanes) {
        gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "%s cannot be cut into windows at whole words", tensor->name);
    }
    return y / lanes;
}

uint64_t gpu_view_rows(const gpu_view *view)
{
    uint64_t rows = 1;
    for (uint32_t i = 0; i + 1 < view->rank; i++) rows *= view->size[i];
    return rows;
}

/* What the binary kernel's ALIGNED says of input k, whose first element is element `first` of its window: it steps by 0
 * or 1, and if by 1, rows begin at whole words. */
static int gpu_rows_aligned(const gpu_view *view, uint32_t k, uint32_t first, uint32_t lanes)
{
    const int64_t *stride = view->stride[k];
    if (stride[view->rank - 1] == 0) return 1;
    int aligned = stride[view->rank - 1] == 1 && first % lanes == 0;
    for (uint32_t i = 0; i + 1 < view->rank; i++) aligned &= stride[i] % lanes == 0;
    return aligned;
}

static pco_status gpu_emit_binary(gpu_lowering *gpu, const gpu_view *view, void *context)
{
    const gpu_tensors *tensors = context;
    const uint32_t y_type = gpu->part->tensors[tensors->tensor[0]].dtype, lanes = gpu_lanes(y_type);
    const uint32_t inner = view->rank - 1;
    const uint64_t n = view->size[inner], rows = gpu_view_rows(view);
    const int element = rows > 1 && n % lanes != 0;
    const gpu_rows cover = gpu_cover_rows(gpu, gpu_div_up(element ? n * rows : n, lanes), element ? 1 : rows);
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, GPU_KERNEL_binary, cover.local_x, cover.local_y, 1);
    gpu_binary_params params = {.n_all = (uint32_t)gpu_view_span(view, 0),
                                .a_first = gpu_bind_view(gpu, &d, GPU_binary_a, view, tensors, 1, 0),
                                .b_first = gpu_bind_view(gpu, &d, GPU_binary_b, view, tensors, 2, 0),
                                .y_first_word = gpu_bind_result(gpu, &d, GPU_binary_y, view, tensors),
                                .n = (uint32_t)n,
                                .chunks = cover.chunks,
                                .n_rows = (uint32_t)(element ? 1 : rows)};
    for (uint32_t k = 0; k < inner; k++) {
        params.size[k] = (uint32_t)view->size[inner - 1 - k];
        params.a_stride[k] = (uint32_t)view->stride[1][inner - 1 - k];
        params.b_stride[k] = (uint32_t)view->stride[2][inner - 1 - k];
    }
    gpu_set_params_from(gpu, &d, binary, &params);
    const uint32_t x_type = gpu->part->tensors[tensors->tensor[1]].dtype, x_lanes = gpu_lanes(x_type);
    const int aligned = !element && x_lanes <= lanes && gpu_rows_aligned(view, 1, params.a_first, x_lanes) &&
                        gpu_rows_aligned(view, 2, params.b_first, x_lanes);
    gpu_set_specs(gpu, &d, binary, .op = (int32_t)tensors->op, .x = (int32_t)x_type, .y = (int32_t)y_type,
                  .per = (int32_t)cover.per, .rank = (int32_t)view->rank, .element = element,
                  .a_step = (int32_t)view->stride[1][inner], .b_step = (int32_t)view->stride[2][inner],
                  .aligned = aligned);
    return gpu_emit(gpu, &d, cover.groups);
}

/* Cuts a view whose first operand is the contiguous result into windows. Operands reach at most `reach` times
 * as far as the result does, so cutting the result is enough, and it stays contiguous. */
static pco_status gpu_split_result(gpu_lowering *gpu, gpu_view *view, gpu_tensors *tensors, uint64_t reach,
                                   gpu_view_fn emit)
{
    uint64_t limit = UINT64_MAX, limits[GPU_MAX_VIEWS];
    for (uint32_t k = 0; k < view->n; k++) {
        const uint32_t bytes = gpu_element_bytes(gpu->part->tensors[tensors->tensor[k]].dtype);
        limit = gpu_min(limit, gpu_window(gpu, bytes) / (k ? reach : 1));
    }
    for (uint32_t k = 0; k < view->n; k++) limits[k] = k ? UINT64_MAX : limit;
    if (gpu_view_span(view, 0) == 0) return gpu->status;
    gpu_view_coalesce(view);
    return gpu_view_split(gpu, view, limits, emit, tensors);
}

/* The view of inputs 0 .. n-1 broadcast to output 0, which comes first. */
static gpu_view gpu_broadcast_view(const gpu_lowering *gpu, uint32_t n, gpu_tensors *tensors)
{
    const pco_tensor *y = gpu_output(gpu, 0);
    gpu_view view = {.rank = y->rank, .n = n + 1};
    tensors->tensor[0] = gpu_output_index(gpu, 0);
    for (uint32_t d = 0; d < y->rank; d++) view.size[d] = (uint64_t)y->shape[d];
    gpu_strides(y->shape, y->rank, view.stride[0]);
    for (uint32_t i = 0; i < n; i++) {
        tensors->tensor[i + 1] = gpu_input_index(gpu, i);
        gpu_broadcast_strides(gpu_input(gpu, i), y->rank, y->shape, view.stride[i + 1]);
    }
    return view;
}

static pco_status gpu_lower_binary_node(gpu_lowering *gpu)
{
    gpu_tensors tensors = {.op = gpu->node->op};
    gpu_view view = gpu_broadcast_view(gpu, 2, &tensors);
    return gpu_split_result(gpu, &view, &tensors, 1, gpu_emit_binary);
}

const gpu_lowerer gpu_lower_binary = {.in_place = 3, .lower = gpu_lower_binary_node};

/* swiglu(gate, up) is a binary op; a gate that holds both halves is two views of it. */
static pco_status gpu_lower_swiglu_node(gpu_lowering *gpu)
{
    const pco_tensor *y = gpu_output(gpu, 0);
    if (gpu_input(gpu, 1)) return gpu_lower_binary_node(gpu);
    if (gpu_count(y) == 0) return gpu->status;
    const uint32_t gate = gpu_input_index(gpu, 0);
    const uint64_t n = (uint64_t)y->shape[y->rank - 1];
    gpu_tensors tensors = {.op = gpu->node->op, .tensor = {gpu_output_index(gpu, 0), gate, gate}};
    gpu_view view = {.rank = 2,
                     .n = 3,
                     .size = {gpu_count(y) / n, n},
                     .stride = {{(int64_t)n, 1}, {(int64_t)(2 * n), 1}, {(int64_t)(2 * n), 1}},
                     .offset = {0, 0, n}};
    return gpu_split_result(gpu, &view, &tensors, 2, gpu_emit_binary);
}

const gpu_lowerer gpu_lower_swiglu = {.in_place = 3, .lower = gpu_lower_swiglu_node};

/* ---- where ---- */

static pco_status gpu_emit_where(gpu_lowering *gpu, const gpu_view *view, void *context)
{
    const gpu_tensors *tensors = context;
    const uint32_t type = gpu->part->tensors[tensors->tensor[0]].dtype, lanes = gpu_lanes(type);
    const uint32_t inner = view->rank - 1;
    const uint64_t n = view->size[inner], rows = gpu_view_rows(view);
    const int element = rows > 1 && n % lanes != 0;
    if (view->rank == PCO_MAX_RANK) { /* one dimension too many for the parameters */
        gpu_view slice = *view;
        slice.size[0] = 1;
        for (uint64_t i = 0; i < view->size[0] && gpu->status == PCO_OK; i++) {
            gpu_view part = slice;
            gpu_view_coalesce(&part);
            gpu_emit_where(gpu, &part, context);
            for (uint32_t k = 0; k < slice.n; k++) slice.offset[k] += (uint64_t)slice.stride[k][0];
        }
        return gpu->status;
    }
    const gpu_rows cover = gpu_cover_rows(gpu, gpu_div_up(element ? n * rows : n, lanes), element ? 1 : rows);
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, GPU_KERNEL_where, cover.local_x, cover.local_y, 1);
    gpu_set_specs(gpu, &d, where, .x = (int32_t)type, .per = (int32_t)cover.per, .rank = (int32_t)view->rank,
                  .element = element, .c_step = (int32_t)view->stride[1][inner],
                  .a_step = (int32_t)view->stride[2][inner], .b_step = (int32_t)view->stride[3][inner]);
    gpu_where_params params = {.n_all = (uint32_t)gpu_view_span(view, 0),
                               .c_first = gpu_bind_view(gpu, &d, GPU_where_c, view, tensors, 1, 0),
                               .a_first = gpu_bind_view(gpu, &d, GPU_where_a, view, tensors, 2, 0),
                               .b_first = gpu_bind_view(gpu, &d, GPU_where_b, view, tensors, 3, 0),
                               .y_first_word = gpu_bind_result(gpu, &d, GPU_where_y, view, tensors),
                               .n = (uint32_t)n,
                               .chunks = cover.chunks,
                               .n_rows = (uint32_t)(element ? 1 : rows)};
    for (uint32_t k = 0; k < inner; k++) {
        params.size[k] = (uint32_t)view->size[inner - 1 - k];
        params.c_stride[k] = (uint32_t)view->stride[1][inner - 1 - k];
        params.a_stride[k] = (uint32_t)view->stride[2][inner - 1 - k];
        params.b_stride[k] = (uint32_t)view->stride[3][inner - 1 - k];
    }
    gpu_set_params_from(gpu, &d, where, &params);
    return gpu_emit(gpu, &d, cover.groups);
}

static pco_status gpu_lower_where_node(gpu_lowering *gpu)
{
    gpu_tensors tensors = {.op = gpu->node->op};
    gpu_view view = gpu_broadcast_view(gpu, 3, &tensors);
    return gpu_split_result(gpu, &view, &tensors, 1, gpu_emit_where);
}

const gpu_lowerer gpu_lower_where = {.in_place = 6, .lower = gpu_lower_where_node};
