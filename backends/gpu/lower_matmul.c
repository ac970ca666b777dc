/* matmul: y = activation(a b + bias) + c.
 *
 * The problem is put into one form (leading dimensions joined, rows of a batch taken together where b is the
 * same for all), cut into boxes whose windows and grids the device can take, and each box is one dispatch. K is cut
 * as well where b [K,N] or a transposed a is beyond the binding limit, or is long (matmul_chain): sums of its parts are
 * added in y, or, where something is to be added or applied, in a workspace in f32, and a last dispatch finishes them.
 * That dispatch is there on devices with 4 bindings, too, when there is a bias or c. Variants that split K compute its
 * parts side by side, as batch entries that lie behind each other in the workspace; the last dispatch adds them. */
#include "layout.h"
#include "lower_matmul.h"

#include <string.h>

enum { MATMUL_BATCH_DIMS = 3 };

/* What one dispatch computes: batch entries, rows m0..m1, columns n0..n1, terms k0..k1. */
typedef struct matmul_box {
    uint64_t batch[MATMUL_BATCH_DIMS];
    int64_t step_a[MATMUL_BATCH_DIMS], step_b[MATMUL_BATCH_DIMS];
    uint64_t a0, b0, y0; /* elements before the first batch entry */
    uint64_t m0, m1, n0, n1, k0, k1;
    int add; /* 1: to the sums of earlier terms */
} matmul_box;

/* ---- the problem ---- */

static void matmul_join(gpu_matmul *p, const pco_tensor *a, const pco_tensor *b, const pco_tensor *y)
{
    const uint32_t rank = y->rank - 2;
    gpu_view *view = &p->batch;
    memset(view, 0, sizeof *view);
    view->rank = rank;
    view->n = 3;
    for (uint32_t d = 0; d < rank; d++) view->size[d] = (uint64_t)y->shape[d];
    const pco_tensor *const operands[2] = {a, b};
    for (uint32_t k = 0; k < 2; k++) {
        const pco_tensor *x = operands[k];
        int64_t step = x->shape[x->rank - 1] * x->shape[x->rank - 2];
        for (uint32_t d = rank; d-- > 0;) {
            const int64_t own = (int64_t)d + x->rank - y->rank;
            const int64_t size = own < 0 ? 1 : x->shape[own];
            view->stride[k][d] = size == 1 ? 0 : step;
            step *= size;
        }
    }
    int64_t step = (int64_t)(p->m * p->n);
    for (uint32_t d = rank; d-- > 0;) {
        view->stride[2][d] = step;
        step *= y->shape[d];
    }
    gpu_view_coalesce(view);
    if (view->rank == 1 && view->stride[1][0] == 0 && !p->trans_a && view->stride[0][0] == (int64_t)(p->m * p->k)) {
        p->m *= view->size[0];
        view->size[0] = 1;
    }
}

/* One column: a times a vector is the vector times a transposed, whose long rows are what gemv is made for. */
static void matmul_swap(gpu_matmul *p)
{
    const uint32_t a = p->a, type = p->a_type, trans_a = p->trans_a;
    p->a = p->b;
    p->a_type = p->b_type;
    p->trans_a = 0;
    p->b = a;
    p->b_type = type;
    p->trans_b = !trans_a;
    p->lda = p->k;
    p->ldb = trans_a ? p->m : p->k;
    p->n = p->m;
    p->m = 1;
    p->ldy = p->n;
    p->bias_step = 0;
    for (uint32_t d = 0; d < p->batch.rank; d++) {
        const int64_t stride = p->batch.stride[0][d];
        p->batch.stride[0][d] = p->batch.stride[1][d];
        p->batch.stride[1][d] = stride;
    }
}

static gpu_matmul matmul_read(const gpu_lowering *gpu)
{
    pco_matmul_attrs room;
    const pco_matmul_attrs *attrs = gpu_attrs(gpu, &room, sizeof room);
    const pco_tensor *a = gpu_input(gpu, 0), *b = gpu_input(gpu, 1), *bias = gpu_input(gpu, 2);
    const pco_tensor *y = gpu_output(gpu, 0);
    gpu_matmul p = {
        .a = gpu_input_index(gpu, 0),
        .b = gpu_input_index(gpu, 1),
        .bias = gpu_input_index(gpu, 2),
        .c = gpu_input_index(gpu, 3),
        .y = gpu_output_index(gpu, 0),
        .a_type = a->dtype,
        .b_type = b->dtype,
        .y_type = y->dtype,
        .bias_type = bias ? (int32_t)bias->dtype : -1,
        .bias_step = 1,
        .variant = gpu->variant,
        .trans_a = attrs->transpose_a != 0,
        .trans_b = attrs->transpose_b != 0,
        .quantised = gpu_format_of(b->dtype) != NULL,
        .activation = (uint32_t)attrs->activation,
    };
    p.m = (uint64_t)y->shape[y->rank - 2];
    p.n = (uint64_t)y->shape[y->rank - 1];
    p.k = (uint64_t)a->shape[a->rank - (p.trans_a ? 2 : 1)];
    p.lda = p.trans_a ? p.m : p.k;
    p.ldb = p.trans_b ? p.k : p.n;
    p.total = gpu_count(y);
    p.ldy = p.n;
    matmul_join(&p, a, b, y);
    p.y_step = p.m * p.n;
    return p;
}

/* ---- windows ---- */

/* Elements between the first and the last of a matrix's `rows` of `row` elements. */
static uint64_t matmul_extent(uint64_t rows, uint64_t step, uint64_t row) { return (rows - 1) * step + row; }

static uint64_t matmul_span(const matmul_box *box, const int64_t *step, uint64_t matrix)
{
    for (uint32_t d = 0; d < MATMUL_BATCH_DIMS; d++) matrix += (box->batch[d] - 1) * (uint64_t)step[d];
    return matrix;
}

typedef struct matmul_window {
    uint64_t first, count;
} matmul_window;

static uint64_t matmul_entries(const matmul_box *box) { return box->batch[0] * box->batch[1] * box->batch[2]; }

static matmul_window matmul_window_a(const gpu_matmul *p, const matmul_box *box)
{
    const uint64_t m = box->m1 - box->m0, k = box->k1 - box->k0;
    return (matmul_window){
        box->a0 + (p->trans_a ? box->k0 * p->lda + box->m0 : box->m0 * p->lda + box->k0),
        matmul_span(box, box->step_a, p->trans_a ? matmul_extent(k, p->lda, m) : matmul_extent(m, p->lda, k))};
}

static matmul_window matmul_window_b(const gpu_matmul *p, const matmul_box *box)
{
    const uint64_t n = box->n1 - box->n0, k = box->k1 - box->k0;
    return (matmul_window){
        box->b0 + (p->trans_b ? box->n0 * p->ldb + box->k0 : box->k0 * p->ldb + box->n0),
        matmul_span(box, box->step_b, p->trans_b ? matmul_extent(n, p->ldb, k) : matmul_extent(k, p->ldb, n))};
}

static matmul_window matmul_window_y(const gpu_matmul *p, const matmul_box *box)
{
    return (matmul_window){box->y0 + box->m0 * p->ldy + box->n0,
                           (matmul_entries(box) - 1) * p->y_step +
                               matmul_extent(box->m1 - box->m0, p->ldy, box->n1 - box->n0)};
}

/* Bytes of `count` elements in the larger plane of a quantised type, or of any other. */
static uint64_t matmul_bytes(uint32_t dtype, uint64_t count)
{
    const gpu_format *format = gpu_format_of(dtype);
    return format ? count / format->block * gpu_max(format->quants, format->scales) : count * gpu_element_bytes(dtype);
}

static uint64_t matmul_y_bytes(const gpu_matmul *p) { return p->raw ? 4 : gpu_element_bytes(p->y_type); }

/* ---- one dispatch ---- */

/* Are rows of this operand, whose window begins at `first`, made of whole 4-word vectors? */
static int matmul_aligned(uint32_t dtype, uint64_t first, uint64_t row, const int64_t *step)
{
    const uint64_t unit = 16 / gpu_element_bytes(dtype);
    return first % unit == 0 && row % unit == 0 && step[0] % (int64_t)unit == 0 && step[1] % (int64_t)unit == 0 &&
           step[2] % (int64_t)unit == 0;
}

/* a: a tensor; f32 in the workspace; or records of integers there, all of them, which kernels count from the first. */
static uint32_t matmul_bind_a(gpu_lowering *gpu, const gpu_matmul *p, pco_gpu_dispatch *d, matmul_window a)
{
    if (p->variant == GPU_MATMUL_INTEGER) {
        gpu_bind_workspace(gpu, d, GPU_matmul_a, 0, gpu_matmul_integer_bytes(gpu, p), 0);
        return (uint32_t)a.first;
    }
    return p->scratch_a ? gpu_bind_workspace(gpu, d, GPU_matmul_a, a.first * 4, a.count * 4, 0) / 4
                        : gpu_bind_elements(gpu, d, GPU_matmul_a, p->a, a.first, a.count, 0);
}

/* b, and its scales. */
static void matmul_bind_b(gpu_lowering *gpu, const gpu_matmul *p, pco_gpu_dispatch *d, matmul_window b,
                          gpu_matmul_params *params)
{
    if (!p->quantised) {
        params->b_first = gpu_bind_elements(gpu, d, GPU_matmul_b, p->b, b.first, b.count, 0);
        return;
    }
    const gpu_planes planes = gpu_bind_planes(gpu, d, GPU_matmul_b, GPU_matmul_s, p->b, b.first, b.count);
    params->b_first = planes.quants_first;
    params->s_first = planes.scales_first;
}

/* bias, c and y. */
static void matmul_bind_y(gpu_lowering *gpu, const gpu_matmul *p, pco_gpu_dispatch *d, const matmul_box *box,
                          const gpu_matmul_kernel *kernel, gpu_matmul_params *params)
{
    const matmul_window y = matmul_window_y(p, box);
    if (!kernel->four && !p->raw) {
        if (p->bias_type >= 0) {
            const uint64_t first = p->bias_step ? box->n0 : 0, count = p->bias_step ? box->n1 - box->n0 : 1;
            params->bias_first = gpu_bind_elements(gpu, d, GPU_matmul_bias, p->bias, first, count, 0);
        }
        if (p->c != PCO_NONE) params->c_first = gpu_bind_elements(gpu, d, GPU_matmul_c, p->c, y.first, y.count, 0);
        params->bias_step = p->bias_step;
    }
    params->y_first = p->raw && !p->in_y ? gpu_bind_workspace(gpu, d, GPU_matmul_y, y.first * 4, y.count * 4, 1) / 4
                                         : gpu_bind_elements(gpu, d, GPU_matmul_y, p->y, y.first, y.count, 1);
}

static gpu_matmul_params matmul_sizes(const gpu_matmul *p, const matmul_box *box)
{
    gpu_matmul_params params = {.m_rows = (uint32_t)(box->m1 - box->m0),
                                .n_columns = (uint32_t)(box->n1 - box->n0),
                                .k_terms = (uint32_t)(box->k1 - box->k0),
                                .lda = (uint32_t)p->lda,
                                .ldb = (uint32_t)p->ldb,
                                .ldy = (uint32_t)p->ldy,
                                .y_batch = (uint32_t)p->y_step,
                                .batch = {(uint32_t)box->batch[1], (uint32_t)box->batch[2]}};
    for (uint32_t i = 0; i < MATMUL_BATCH_DIMS; i++) {
        params.step_a[i] = (uint32_t)box->step_a[i];
        params.step_b[i] = (uint32_t)box->step_b[i];
    }
    return params;
}

/* Fills a dispatch with `kernel`, all but the grid; 0 if the windows turn out not to be aligned as it needs. */
static int matmul_fill(gpu_lowering *gpu, const gpu_matmul *p, const matmul_box *box, const gpu_matmul_kernel *kernel,
                       pco_gpu_dispatch *d, gpu_matmul_params *params)
{
    const matmul_window a = matmul_window_a(p, box), b = matmul_window_b(p, box);
    *params = matmul_sizes(p, box);
    gpu_begin(gpu, d, kernel->kernel, kernel->local_x, kernel->local_y, 1);
    params->a_first = matmul_bind_a(gpu, p, d, a);
    matmul_bind_b(gpu, p, d, b, params);
    if (kernel->wide && (p->trans_a || (box->k1 - box->k0) % (16 / gpu_element_bytes(p->a_type)) ||
                         !matmul_aligned(p->a_type, params->a_first, p->lda, box->step_a) ||
                         (!p->quantised && !matmul_aligned(p->b_type, params->b_first, p->ldb, box->step_b)))) {
        return 0;
    }
    matmul_bind_y(gpu, p, d, box, kernel, params);
    const uint64_t m = box->m1 - box->m0, n = box->n1 - box->n0;
    const uint32_t y_type = p->raw ? PCO_F32 : p->y_type;
    const uint32_t a_type = p->variant == GPU_MATMUL_INTEGER ? PCO_F32 : p->a_type;
    gpu_set_specs(gpu, d, matmul, .a_t = (int32_t)a_type, .b_t = (int32_t)p->b_type, .y_t = (int32_t)y_type,
                  .bias_t = p->raw ? -1 : p->bias_type, .has_c = !p->raw && p->c != PCO_NONE,
                  .activation = p->raw ? 0 : (int32_t)p->activation, .trans_a = (int32_t)p->trans_a,
                  .trans_b = (int32_t)p->trans_b, .clamp = kernel->clamps && (m < kernel->rows || n < kernel->columns),
                  .raw = p->raw ? 1 + box->add : 0,
                  .pairs = kernel->pairs && y_type != PCO_F32 && p->n % 2 == 0 && p->ldy % 2 == 0 &&
                           p->y_step % 2 == 0 && params->y_first % 2 == 0,
                  .order = (int32_t)kernel->order, .for_cpu = (int32_t)kernel->for_cpu,
                  .matrix_m = (int32_t)gpu->limits->matrix[0], .matrix_n = (int32_t)gpu->limits->matrix[1],
                  .matrix_k = (int32_t)gpu->limits->matrix[2]);
    return 1;
}

static pco_status matmul_emit(gpu_lowering *gpu, const gpu_matmul *p, const matmul_box *box)
{
    pco_gpu_dispatch d;
    gpu_matmul_params params;
    gpu_matmul_kernel kernel = gpu_matmul_pick(gpu, p, box->m1 - box->m0, box->n1 - box->n0, 1);
    if (!matmul_fill(gpu, p, box, &kernel, &d, &params)) {
        kernel = gpu_matmul_pick(gpu, p, box->m1 - box->m0, box->n1 - box->n0, 0);
        matmul_fill(gpu, p, box, &kernel, &d, &params);
    }
    const uint64_t m = box->m1 - box->m0, n = box->n1 - box->n0, entries = matmul_entries(box);
    const uint64_t words = gpu_div_up(m * n * entries, p->raw ? 1 : gpu_lanes(p->y_type));
    if (kernel.flat) {
        params.window_words = (uint32_t)words;
        params.window_all = (uint32_t)(m * n * entries);
        params.window_entry = (uint32_t)(m * n);
        params.window_columns = (uint32_t)n;
    }
    gpu_set_params_from(gpu, &d, matmul, &params);
    if (kernel.flat) return gpu_emit(gpu, &d, gpu_div_up(words, kernel.local_x));
    const uint64_t across = gpu_div_up(n, kernel.columns), down = gpu_div_up(m, kernel.rows);
    return kernel.order
               ? gpu_emit_grid(gpu, &d, gpu_div_up(down, kernel.grid_x), gpu_div_up(across, kernel.grid_y), entries)
               : gpu_emit_grid(gpu, &d, gpu_div_up(across, kernel.grid_x), gpu_div_up(down, kernel.grid_y), entries);
}

/* ---- cutting ---- */

static int matmul_fits(const gpu_lowering *gpu, const gpu_matmul *p, const matmul_box *box, int *y_fits)
{
    const uint64_t limit = gpu_window(gpu, 1) - 64;
    *y_fits = matmul_window_y(p, box).count * matmul_y_bytes(p) <= limit;
    const uint64_t b = matmul_window_b(p, box).count,
                   most = gpu_min(gpu->limits->max_groups[0], gpu->limits->max_groups[1]);
    /* Kernels count elements in 31 bits, of which only formats of less than a byte have more in a window. Every
     * kernel's workgroup holds at least one row and two columns (matmul_gemv_1x2 with one group). */
    return *y_fits && matmul_bytes(p->a_type, matmul_window_a(p, box).count) <= limit &&
           matmul_bytes(p->b_type, b) <= limit && b <= (UINT64_C(1) << 31) - 1024 &&
           matmul_entries(box) <= gpu->limits->max_groups[2] && (box->m1 - box->m0) <= most &&
           (box->n1 - box->n0) <= most * 2;
}

/* Where to cut `count`: in the middle, at a multiple of 64, or of 2, when there is one. */
static uint64_t matmul_middle(uint64_t count)
{
    const uint64_t half = (count + 1) / 2, coarse = (half + 63) & ~UINT64_C(63), even = (half + 1) & ~UINT64_C(1);
    return coarse < count ? coarse : even < count ? even : half;
}

/* A stack of boxes rather than recursion: halving twice 2^40 leaves at most 80 waiting. */
static pco_status matmul_cut(gpu_lowering *gpu, const gpu_matmul *p, matmul_box whole)
{
    enum { DEPTH = 128 };
    matmul_box waiting[DEPTH];
    uint32_t count = 1;
    waiting[0] = whole;
    while (count > 0 && gpu->status == PCO_OK) {
        matmul_box box = waiting[--count], rest;
        int y_fits;
        if (matmul_fits(gpu, p, &box, &y_fits) || count + 2 > DEPTH) {
            matmul_emit(gpu, p, &box);
            continue;
        }
        while (box.batch[0] == 1 && box.batch[1] * box.batch[2] > 1) {
            for (uint32_t d = 0; d + 1 < MATMUL_BATCH_DIMS; d++) {
                box.batch[d] = box.batch[d + 1];
                box.step_a[d] = box.step_a[d + 1];
                box.step_b[d] = box.step_b[d + 1];
            }
            box.batch[2] = 1;
            box.step_a[2] = box.step_b[2] = 0;
        }
        rest = box;
        const uint64_t m = box.m1 - box.m0, n = box.n1 - box.n0, limit = gpu_window(gpu, 1) - 64;
        const int a_fits = matmul_bytes(p->a_type, matmul_window_a(p, &box).count) <= limit;
        if (box.batch[0] > 1) {
            box.batch[0] /= 2;
            rest.batch[0] -= box.batch[0];
            rest.a0 += box.batch[0] * (uint64_t)box.step_a[0];
            rest.b0 += box.batch[0] * (uint64_t)box.step_b[0];
            rest.y0 += box.batch[0] * box.batch[1] * box.batch[2] * p->y_step;
        } else if (m > 1 &&
                   (!y_fits || !a_fits || m > gpu_min(gpu->limits->max_groups[0], gpu->limits->max_groups[1]))) {
            box.m1 = rest.m0 = box.m0 + matmul_middle(m);
        } else if (n > 1) {
            box.n1 = rest.n0 = box.n0 + matmul_middle(n);
        } else {
            matmul_emit(gpu, p, &box); /* says what does not fit */
            continue;
        }
        waiting[count++] = rest;
        waiting[count++] = box;
    }
    return gpu->status;
}

/* May sums grow in y itself? */
static int matmul_grows_in_y(const gpu_matmul *p)
{
    return p->y_type == PCO_F32 && p->bias_type < 0 && p->c == PCO_NONE && p->activation == 0;
}

/* Terms that kernels add one after the other, at most, where more passes over y are all that it costs. An error grows
 * with the terms of such a chain: the gradient at a model's output is a sum over its tokens, 49,152 of SmolLM2. Kernels
 * of few rows are left out: most share a sum out among lanes. Of b [K,N] alone, whose small windows are cut along
 * k, too: so the self-test's small products run what adds to a part's sums. */
static uint64_t matmul_chain(const gpu_matmul *p)
{
    enum { CHAIN = 2048 };
    switch (p->variant) {
    case GPU_MATMUL_NAIVE:
    case GPU_MATMUL_REGISTER:
    case GPU_MATMUL_SHARED:
    case GPU_MATMUL_VECTOR:
    case GPU_MATMUL_PAIRS:
    case GPU_MATMUL_MATRIX: return matmul_grows_in_y(p) && !p->trans_b ? CHAIN : p->k;
    default: return p->k;
    }
}

/* All batch entries for terms k0..k1; dimensions beyond three are gone through one by one. */
static pco_status matmul_batches(gpu_lowering *gpu, const gpu_matmul *p, uint64_t k0, uint64_t k1)
{
    const gpu_view *view = &p->batch;
    const uint32_t outer = view->rank > MATMUL_BATCH_DIMS ? view->rank - MATMUL_BATCH_DIMS : 0;
    uint64_t count = 1;
    for (uint32_t d = 0; d < outer; d++) count *= view->size[d];
    for (uint64_t i = 0; i < count && gpu->status == PCO_OK; i++) {
        matmul_box box = {.batch = {1, 1, 1}, .m1 = p->m, .n1 = p->n, .k0 = k0, .k1 = k1, .add = k0 > 0};
        uint64_t left = i;
        for (uint32_t d = outer; d-- > 0; left /= view->size[d]) {
            const uint64_t at = left % view->size[d];
            box.a0 += at * (uint64_t)view->stride[0][d];
            box.b0 += at * (uint64_t)view->stride[1][d];
            box.y0 += at * (uint64_t)view->stride[2][d];
        }
        for (uint32_t d = outer; d < view->rank; d++) {
            const uint32_t to = d + MATMUL_BATCH_DIMS - view->rank;
            box.batch[to] = view->size[d];
            box.step_a[to] = view->size[d] > 1 ? view->stride[0][d] : 0;
            box.step_b[to] = view->size[d] > 1 ? view->stride[1][d] : 0;
        }
        matmul_cut(gpu, p, box);
    }
    return gpu->status;
}

/* ---- integers of the left operand ---- */

/* All of a, once for all columns, from the beginning of the workspace (shaders/integer_split.kern). */
static pco_status matmul_split(gpu_lowering *gpu, const gpu_matmul *p)
{
    enum { LOCAL = 64, EACH = LOCAL / 8 };
    const uint64_t count = gpu_count(&gpu->part->tensors[p->a]), records = count / GPU_INTEGER_BLOCK;
    pco_gpu_dispatch d;
    gpu_begin(gpu, &d, GPU_KERNEL_integer_split, LOCAL, 1, 1);
    gpu_set_specs(gpu, &d, integer_split, .x = (int32_t)p->a_type);
    gpu_integer_split_params params = {.n_records = (uint32_t)records};
    params.x_first = gpu_bind_elements(gpu, &d, GPU_integer_split_x, p->a, 0, count, 0);
    gpu_bind_workspace(gpu, &d, GPU_integer_split_y, 0, gpu_matmul_integer_bytes(gpu, p), 1);
    gpu_set_params_from(gpu, &d, integer_split, &params);
    return gpu_emit(gpu, &d, gpu_div_up(records, EACH));
}

/* ---- from sums to the result ---- */

/* Of `sums` parts; none: nothing was to be added. */
static pco_status matmul_finish(gpu_lowering *gpu, const gpu_matmul *p, uint32_t sums)
{
    enum { PER = 4 };
    const uint64_t window = gpu_window(gpu, 4);
    const uint32_t local = gpu_workgroup(gpu, 64);
    for (uint64_t first = 0; first < p->total && gpu->status == PCO_OK; first += window) {
        const uint64_t count = gpu_min(window, p->total - first), words = gpu_div_up(count, gpu_lanes(p->y_type));
        pco_gpu_dispatch d;
        gpu_begin(gpu, &d, GPU_KERNEL_matmul_finish, local, 1, 1);
        gpu_set_specs(gpu, &d, matmul_finish, .y_t = (int32_t)p->y_type, .bias_t = p->bias_type,
                      .has_c = p->c != PCO_NONE, .activation = (int32_t)p->activation, .has_x = sums > 0, .per = PER);
        gpu_matmul_finish_params params = {.n = (uint32_t)count,
                                           .n_columns = (uint32_t)p->n,
                                           .column_first = (uint32_t)(first % p->n),
                                           .n_sums = sums,
                                           .sums_step = (uint32_t)p->total,
                                           .bias_step = p->bias_step};
        if (sums) {
            const uint64_t seen = (sums - 1) * p->total + count;
            params.x_first = gpu_bind_workspace(gpu, &d, GPU_matmul_finish_x, first * 4, seen * 4, 0) / 4;
        }
        if (p->bias_type >= 0)
            params.bias_first =
                gpu_bind_elements(gpu, &d, GPU_matmul_finish_bias, p->bias, 0, p->bias_step ? p->n : 1, 0);
        if (p->c != PCO_NONE) params.c_first = gpu_bind_elements(gpu, &d, GPU_matmul_finish_c, p->c, first, count, 0);
        params.y_first_word =
            gpu_bind_elements(gpu, &d, GPU_matmul_finish_y, p->y, first, count, 1) / gpu_lanes(p->y_type);
        gpu_set_params_from(gpu, &d, matmul_finish, &params);
        gpu_emit(gpu, &d, gpu_div_up(words, (uint64_t)local * PER));
    }
    return gpu->status;
}

/* ---- parts of k side by side ---- */

/* The batch entries of a view of two dimensions at most; the outermost of three is the parts'. */
static void matmul_box_batches(const gpu_view *view, matmul_box *box)
{
    for (uint32_t d = 0; d < view->rank; d++) {
        const uint32_t to = d + MATMUL_BATCH_DIMS - view->rank;
        box->batch[to] = view->size[d];
        box->step_a[to] = view->size[d] > 1 ? view->stride[0][d] : 0;
        box->step_b[to] = view->size[d] > 1 ? view->stride[1][d] : 0;
    }
}

/* Of `part` terms each; the last one may be shorter, and is a dispatch of its own then. */
static pco_status matmul_side_by_side(gpu_lowering *gpu, gpu_matmul p, uint64_t part)
{
    const gpu_view *view = &p.batch;
    const uint64_t whole = p.k / part, done = whole * part;
    matmul_box box = {.batch = {whole, 1, 1}, .m1 = p.m, .n1 = p.n, .k1 = part};
    p.raw = 1;
    p.in_y = 0;
    box.step_a[0] = (int64_t)(p.trans_a ? part * p.lda : part);
    box.step_b[0] = (int64_t)(p.trans_b ? part : part * p.ldb);
    matmul_box_batches(view, &box);
    matmul_cut(gpu, &p, box);
    if (done < p.k && gpu->status == PCO_OK) {
        box.batch[0] = 1;
        box.step_a[0] = box.step_b[0] = 0;
        box.y0 = whole * p.total;
        box.k0 = done;
        box.k1 = p.k;
        matmul_cut(gpu, &p, box);
    }
    return gpu->status ? gpu->status : matmul_finish(gpu, &p, (uint32_t)gpu_div_up(p.k, part));
}

/* ---- the same share of all terms for each workgroup ---- */

/* All columns and all batch entries at once, with sums of as many parts as a tile can have. Returns the kernel. */
static gpu_matmul_kernel matmul_stream_box(const gpu_lowering *gpu, const gpu_matmul *p, int wide, matmul_box *box)
{
    const gpu_matmul_kernel kernel = gpu_matmul_pick(gpu, p, p->m, p->n, wide);
    *box = (matmul_box){.batch = {gpu_matmul_stream(gpu, p, &kernel).parts, 1, 1}, .m1 = p->m, .n1 = p->n, .k1 = p->k};
    matmul_box_batches(&p->batch, box);
    return kernel;
}

/* Do the windows of all that fit, so that nothing has to be cut? */
static int matmul_streams(const gpu_lowering *gpu, gpu_matmul p)
{
    int fits = 1;
    p.variant = GPU_MATMUL_STREAM;
    p.raw = 1;
    for (int wide = 0; wide < 2; wide++) {
        matmul_box box;
        int y_fits;
        matmul_stream_box(gpu, &p, wide, &box);
        fits = fits && matmul_fits(gpu, &p, &box, &y_fits);
    }
    return fits;
}

static pco_status matmul_stream(gpu_lowering *gpu, gpu_matmul p)
{
    pco_gpu_dispatch d;
    gpu_matmul_params params;
    matmul_box box;
    p.raw = 1;
    p.in_y = 0;
    gpu_matmul_kernel kernel = matmul_stream_box(gpu, &p, 1, &box);
    if (!matmul_fill(gpu, &p, &box, &kernel, &d, &params)) {
        kernel = matmul_stream_box(gpu, &p, 0, &box);
        matmul_fill(gpu, &p, &box, &kernel, &d, &params);
    }
    gpu_set_params_from(gpu, &d, matmul, &params);
    const gpu_matmul_shares shares = gpu_matmul_stream(gpu, &p, &kernel);
    gpu_emit_grid(gpu, &d, shares.groups, gpu_div_up(p.m, kernel.rows), box.batch[1] * box.batch[2]);
    return gpu->status ? gpu->status : matmul_finish(gpu, &p, (uint32_t)shares.parts);
}

static pco_status gpu_lower_matmul_node(gpu_lowering *gpu)
{
    gpu_matmul p = matmul_read(gpu);
    if (p.total == 0) return gpu->status;
    const uint64_t part = gpu_matmul_part(gpu, &p);
    p.variant = gpu_matmul_base(p.variant);
    const int is_gemv =
        p.variant == GPU_MATMUL_GEMV || p.variant == GPU_MATMUL_GEMV_SUBGROUP || p.variant == GPU_MATMUL_DOT;
    if (is_gemv && p.n == 1 && !p.quantised) matmul_swap(&p);
    if (part < p.k) return matmul_side_by_side(gpu, p, part);
    if (p.variant == GPU_MATMUL_STREAM) return matmul_stream(gpu, p);
    if (p.k == 0) return matmul_finish(gpu, &p, 0);
    const uint64_t terms = gpu_min(gpu_matmul_terms(gpu, &p), matmul_chain(&p));
    const int crowded = gpu_matmul_pick(gpu, &p, p.m, p.n, 1).four && (p.bias_type >= 0 || p.c != PCO_NONE);
    p.raw = terms < p.k || crowded;
    p.in_y = p.raw && matmul_grows_in_y(&p);
    if (p.variant == GPU_MATMUL_INTEGER) matmul_split(gpu, &p);
    for (uint64_t k = 0; k < p.k && gpu->status == PCO_OK; k += terms) {
        matmul_batches(gpu, &p, k, gpu_min(k + terms, p.k));
    }
    return p.raw && !p.in_y ? matmul_finish(gpu, &p, 1) : gpu->status;
}

pco_status gpu_emit_product(gpu_lowering *gpu, const gpu_matmul *p)
{
    gpu_matmul chosen = *p;
    chosen.variant = gpu_matmul_choose(gpu, p);
    /* One column is turned into one row for nodes only. */
    if (chosen.variant == GPU_MATMUL_DOT && !p->trans_b) chosen.variant = GPU_MATMUL_GEMV;
    return matmul_batches(gpu, &chosen, 0, chosen.k);
}

/* ---- the lowerer ---- */

static pco_status gpu_supports_matmul(gpu_lowering *gpu)
{
    const pco_tensor *b = gpu_input(gpu, 1);
    if (gpu_format_of(b->dtype) && b->kind != PCO_KIND_CONSTANT)
        return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "%s is quantised and not a constant", b->name);
    return gpu->status;
}

static int gpu_eligible_matmul(const gpu_lowering *gpu, uint32_t variant)
{
    const gpu_matmul p = matmul_read(gpu);
    return gpu_matmul_can(gpu, &p, variant) && (variant != GPU_MATMUL_STREAM || matmul_streams(gpu, p));
}

static uint32_t gpu_choose_matmul(const gpu_lowering *gpu)
{
    const gpu_matmul p = matmul_read(gpu);
    return gpu_matmul_choose(gpu, &p);
}

static void gpu_propose_matmul(gpu_lowering *gpu, pco_proposal *proposal)
{
    const uint32_t b = gpu_input_index(gpu, 1);
    gpu_want_planes(proposal, gpu->part, b);
    for (uint32_t i = 0; i < 2; i++) {
        pco_tensor_proposal *tensor = &proposal->tensors[gpu_input_index(gpu, i)];
        if (tensor->alignment < 16) tensor->alignment = 16;
    }
}

const gpu_lowerer gpu_lower_matmul = {
    .variants = gpu_matmul_variants,
    .n_variants = GPU_MATMUL_VARIANTS,
    .eligible = gpu_eligible_matmul,
    .choose = gpu_choose_matmul,
    .supports = gpu_supports_matmul,
    .propose = gpu_propose_matmul,
    .lower = gpu_lower_matmul_node,
};
