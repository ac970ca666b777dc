/* The helpers of the lowering, each held against a plain definition of what it promises, on random small inputs. Cases
 * of the suite see them only through whole operations, whose shapes seldom come to where a helper's edges are: two
 * names for one memory, bindings that are exactly as large as they may be, grids that are full, more launches than a
 * segment has. */
#include "check.h"
#include "gpu_device.h"
#include "gpu/lower.h"

enum { TRIES = 4000, GUARD = 64 };

static uint32_t drawn = 1;

/* 0 .. n - 1 */
static uint32_t draw(uint32_t n)
{
    drawn = drawn * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(drawn >> 8) * n >> 24);
}

/* ---- memory of the host, with a guard behind each piece ---- */

static void *guarded_allocate(void *user, size_t bytes, size_t alignment)
{
    unsigned char *piece = aligned_alloc(64, (64 + bytes + GUARD + 63) / 64 * 64);
    (void)user, (void)alignment;
    memcpy(piece, &bytes, sizeof bytes);
    memset(piece + 64 + bytes, 0xa5, GUARD);
    return piece + 64;
}

static void guarded_release(void *user, void *memory)
{
    unsigned char *piece = (unsigned char *)memory - 64;
    size_t bytes;
    (void)user;
    memcpy(&bytes, piece, sizeof bytes);
    for (int i = 0; i < GUARD; i++) assert_int_equal(piece[64 + bytes + i], 0xa5);
    free(piece);
}

static const pco_host GUARDED = {.size = sizeof GUARDED, .allocate = guarded_allocate, .release = guarded_release};

/* ---- hazards ---- */

enum { MEMORIES = 3, NAMES = 5, MOST_LAUNCHES = 9 /* and one behind them */ };

static int touches(const gpu_range *a, const gpu_range *b, pco_buffer *const *names)
{
    if (names[a->buffer] != names[b->buffer] || !(a->write || b->write)) return 0;
    for (uint64_t byte = a->first; byte < a->end; byte++)
        if (byte >= b->first && byte < b->end) return 1;
    return 0;
}

/* A launch waits if it and one since the last that waited touch the same byte, and one of the two writes it; else not.
 */
static void test_hazards(void **state)
{
    static pco_gpu_dispatch launches[MOST_LAUNCHES + 1];
    static gpu_range ranges[MOST_LAUNCHES + 1][PCO_GPU_MAX_BINDINGS], given[MOST_LAUNCHES + 1][PCO_GPU_MAX_BINDINGS];
    static char memories[MEMORIES];
    pco_buffer *names[NAMES];
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        gpu_list list = {.host = &GUARDED, .dispatches = launches, .ranges = ranges, .count = draw(MOST_LAUNCHES + 1)};
        const pco_plan plan = {.size = sizeof plan, .n_buffers = NAMES, .buffers = names};
        for (int b = 0; b < NAMES; b++) names[b] = (pco_buffer *)(void *)&memories[draw(MEMORIES)];
        for (uint32_t i = 0; i <= list.count; i++) {
            launches[i] = (pco_gpu_dispatch){.n_bindings = 1 + draw(4), .barrier_before = 7};
            for (uint32_t k = 0; k < PCO_GPU_MAX_BINDINGS; k++) {
                const uint32_t first = draw(24);
                ranges[i][k] = (gpu_range){
                    .buffer = draw(NAMES), .write = draw(3) == 0, .first = first, .end = first + 1 + draw(5)};
                if (draw(5) == 0) ranges[i][k] = (gpu_range){.buffer = draw(NAMES)};              /* not used */
                if (k >= launches[i].n_bindings) ranges[i][k] = (gpu_range){NAMES - 1, 1, 0, 99}; /* not there */
            }
        }
        memcpy(given, ranges, sizeof given);
        check_ok(gpu_find_hazards(&plan, &list, &err));
        for (uint32_t i = 0, since = 0; i < list.count; i++) {
            uint32_t waits = 0;
            for (uint32_t before = since; before < i; before++)
                for (uint32_t k = 0; k < launches[i].n_bindings; k++)
                    for (uint32_t j = 0; j < launches[before].n_bindings; j++)
                        waits |= (uint32_t)touches(&given[i][k], &given[before][j], names);
            assert_int_equal(launches[i].barrier_before, waits);
            if (waits) since = i;
            for (uint32_t k = 0; k < PCO_GPU_MAX_BINDINGS; k++) {
                const gpu_range *was = &given[i][k];
                assert_ptr_equal(names[ranges[i][k].buffer], names[was->buffer]);
                if (k >= launches[i].n_bindings) assert_int_equal(ranges[i][k].buffer, was->buffer);
            }
        }
        assert_int_equal(launches[list.count].barrier_before, 7);
    }
}

/* ---- views ---- */

enum { MOST_ELEMENTS = 4 * 4 * 4 * 4 };
typedef struct view_walk {
    uint32_t count, n;
    uint64_t at[GPU_MAX_VIEWS][MOST_ELEMENTS];
} view_walk;

/* Where each operand is, element by element, the last dimension fastest. */
static void walk_on(view_walk *walk, const gpu_view *view)
{
    uint64_t count = 1;
    for (uint32_t d = 0; d < view->rank; d++) count *= view->size[d];
    for (uint64_t i = 0; i < count; i++) {
        uint64_t rest = i, at[GPU_MAX_VIEWS];
        memcpy(at, view->offset, sizeof at);
        for (uint32_t d = view->rank; d-- > 0; rest /= view->size[d])
            for (uint32_t k = 0; k < view->n; k++) at[k] += rest % view->size[d] * (uint64_t)view->stride[k][d];
        assert_true(walk->count < MOST_ELEMENTS);
        for (uint32_t k = 0; k < view->n; k++) walk->at[k][walk->count] = at[k];
        walk->count++;
    }
}

/* Operand 0 is dense; the others go their own ways, which often join. */
static gpu_view draw_view(void)
{
    gpu_view view = {.rank = draw(PCO_MAX_RANK + 1), .n = 1 + draw(GPU_MAX_VIEWS)};
    int64_t shape[PCO_MAX_RANK];
    for (uint32_t d = 0; d < PCO_MAX_RANK; d++) { /* behind the rank is something, too */
        shape[d] = d < view.rank ? 1 + draw(view.rank > 4 ? 2 : 4) : 77;
        view.size[d] = (uint64_t)shape[d];
        for (uint32_t k = 0; k < GPU_MAX_VIEWS; k++) view.stride[k][d] = 99;
    }
    for (uint32_t k = 0; k < view.n; k++) {
        gpu_strides(shape, view.rank, view.stride[k]);
        view.offset[k] = draw(7);
        for (uint32_t d = 0; k && d < view.rank; d++)
            if (draw(4) == 0) view.stride[k][d] = draw(3) ? view.stride[k][d] * 2 : 0;
    }
    return view;
}

static void test_strides(void **state)
{
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        const uint32_t rank = draw(5), lead = draw(rank + 1);
        int64_t shape[PCO_MAX_RANK] = {0}, dense[PCO_MAX_RANK] = {0}, broadcast[PCO_MAX_RANK] = {0};
        pco_tensor x = {.rank = rank - lead};
        for (uint32_t d = 0; d < rank; d++) shape[d] = 1 + draw(4);
        for (uint32_t d = 0; d < x.rank; d++) x.shape[d] = draw(2) ? shape[lead + d] : 1;
        gpu_strides(shape, rank, dense);
        dense[rank] = broadcast[rank] = 7;
        gpu_broadcast_strides(&x, rank, shape, broadcast);
        assert_true(dense[rank] == 7 && broadcast[rank] == 7);
        for (uint32_t d = 0; d < rank; d++) {
            int64_t behind = 1, of_x = 1;
            for (uint32_t e = d + 1; e < rank; e++) behind *= shape[e];
            for (uint32_t e = d + 1; e < rank && d >= lead; e++) of_x *= x.shape[e - lead];
            assert_int_equal(dense[d], behind);
            if (d < lead || x.shape[d - lead] != shape[d]) of_x = 0;
            if (shape[d] > 1) assert_int_equal(broadcast[d], of_x);
        }
    }
}

static void test_coalesce(void **state)
{
    static view_walk before, after;
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        const gpu_view view = draw_view();
        gpu_view joined = view;
        before.count = after.count = 0;
        gpu_view_coalesce(&joined);
        walk_on(&before, &view);
        walk_on(&after, &joined);
        assert_int_equal(before.count, after.count);
        for (uint32_t k = 0; k < view.n; k++)
            assert_memory_equal(before.at[k], after.at[k], before.count * sizeof *before.at[k]);
        assert_true(joined.rank >= 1 && joined.n == view.n);
        for (uint32_t d = 0; d < joined.rank; d++) assert_true(joined.size[d] > 1 || joined.rank == 1);
        for (uint32_t d = 1; d < joined.rank; d++) { /* what steps on evenly is joined */
            int even = 1;
            for (uint32_t k = 0; k < view.n; k++)
                even &= joined.stride[k][d - 1] == joined.stride[k][d] * (int64_t)joined.size[d];
            assert_false(even);
        }
        for (uint32_t k = 0; k < view.n && before.count == 1; k++) assert_int_equal(joined.stride[k][0], 1);
    }
}

typedef struct split_context {
    const uint64_t *limit;
    view_walk walk;
    uint64_t fewest; /* elements between the places where parts of one dimension begin are a multiple of that */
} split_context;

static pco_status split_emit(gpu_lowering *gpu, const gpu_view *part, void *user)
{
    split_context *context = user;
    (void)gpu;
    for (uint32_t k = 0; k < part->n; k++) {
        assert_true(gpu_view_span(part, k) <= context->limit[k]);
        if (context->fewest) assert_int_equal(part->offset[k] % context->fewest, 0);
    }
    if (!context->fewest) walk_on(&context->walk, part);
    context->walk.n++;
    return PCO_OK;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Each element of the view in one part, all operands together; no part where nothing is. */
static void test_split(void **state)
{
    static split_context context;
    static view_walk whole;
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        const gpu_view view = draw_view();
        gpu_lowering gpu = {0};
        uint64_t limit[GPU_MAX_VIEWS], tags[2][MOST_ELEMENTS];
        for (uint32_t k = 0; k < view.n; k++) limit[k] = 1 + draw(draw(2) ? 8 : 64);
        context = (split_context){.limit = limit};
        whole.count = 0;
        walk_on(&whole, &view);
        check_ok(gpu_view_split(&gpu, &view, limit, split_emit, &context));
        assert_int_equal(context.walk.count, whole.count);
        for (uint32_t k = 0; k < view.n; k++) { /* operand 0 tells elements apart: the pairs with it are the same */
            for (uint32_t i = 0; i < whole.count; i++) {
                tags[0][i] = whole.at[0][i] << 32 | whole.at[k][i];
                tags[1][i] = context.walk.at[0][i] << 32 | context.walk.at[k][i];
            }
            for (int t = 0; t < 2; t++) qsort(tags[t], whole.count, sizeof **tags, by_number);
            assert_memory_equal(tags[0], tags[1], whole.count * sizeof **tags);
        }
        for (uint32_t k = 0; k < view.n; k++) {
            uint64_t low = UINT64_MAX, high = 0;
            for (uint32_t i = 0; i < whole.count; i++) {
                if (whole.at[k][i] < low) low = whole.at[k][i];
                if (whole.at[k][i] > high) high = whole.at[k][i];
            }
            assert_int_equal(gpu_view_span(&view, k), high - low + 1);
            if (high - low + 1 > limit[k]) assert_true(context.walk.n > 1);
        }
    }
    assert_int_equal(gpu_view_span(&(gpu_view){.rank = 2, .n = 1, .size = {3, 0}, .stride = {{1, 1}}}, 0), 0);
    gpu_lowering gpu = {0};
    const gpu_view one = {.rank = 1, .n = 1, .size = {1}, .stride = {{1}}};
    assert_int_equal(gpu_view_split(&gpu, &one, (uint64_t[]){0}, split_emit, &context), PCO_ERROR_INTERNAL);
}

/* A row is cut where words begin, and long ones at multiples of 1024; never into twice as many parts as must be. */
static void test_cuts_of_a_row(void **state)
{
    static split_context context;
    (void)state;
    for (uint32_t n = 0; n < TRIES; n++) {
        const uint64_t limit = n % 2 ? 8 + draw(600) : 2048 + draw(9000), size = 1 + draw(60000);
        const gpu_view view = {.rank = 1, .n = 2, .size = {size}, .stride = {{1}, {1}}};
        gpu_lowering gpu = {0};
        context = (split_context){.limit = (uint64_t[]){limit, limit + draw(9)}, .fewest = n % 2 ? 4 : 1024};
        check_ok(gpu_view_split(&gpu, &view, context.limit, split_emit, &context));
        assert_true(context.walk.n <= 1 + 3 * ((size - 1) / limit));
        assert_true(context.walk.n * limit >= size);
    }
}

/* ---- launches ---- */

typedef struct scene {
    pco_device device;
    pco_tensor tensors[3];
    pco_node node;
    pco_part part;
    pco_place places[3], workspace;
    pco_buffer *buffers[3];
    pco_plan plan;
    pco_error err;
    gpu_list list;
    gpu_lowering gpu;
} scene;

static char two_memories[2];

/* fill of y: whatever it is, it has one buffer, constants and parameters. */
static void scene_make(scene *s)
{
    *s = (scene){.device = gpu_device(NULL, 32, 32, 0), .list = {.host = &GUARDED}};
    s->tensors[0] = (pco_tensor){
        .kind = PCO_KIND_OUTPUT, .rank = 1, .alias = PCO_NONE, .shape = {9000}, .bytes = 36000, .name = "y"};
    s->tensors[1] = (pco_tensor){.rank = 1, .alias = 0, .shape = {9000}, .bytes = 36000, .name = "alias"};
    s->tensors[2] = (pco_tensor){.rank = 1, .alias = PCO_NONE, .shape = {9000}, .bytes = 36000, .name = "x"};
    s->node =
        (pco_node){.op = PCO_OP_FILL, .n_outputs = 1, .outputs = {0}, .n_inputs = 1, .inputs = {2}, .name = "fill"};
    s->part =
        (pco_part){.size = sizeof s->part, .n_tensors = 3, .n_nodes = 1, .tensors = s->tensors, .nodes = &s->node};
    s->buffers[0] = s->buffers[1] = (pco_buffer *)(void *)&two_memories[0];
    s->buffers[2] = (pco_buffer *)(void *)&two_memories[1];
    s->places[0] = (pco_place){0, 64, 36000}, s->places[1] = (pco_place){.buffer = PCO_NONE},
    s->places[2] = (pco_place){2, 64, 36000};
    s->workspace = (pco_place){1, 128, 4096};
    s->plan = (pco_plan){.size = sizeof s->plan,
                         .n_buffers = 3,
                         .buffers = s->buffers,
                         .tensors = s->places,
                         .workspaces = &s->workspace};
    s->gpu = (gpu_lowering){.device = &s->device.gpu,
                            .host = &GUARDED,
                            .limits = &s->device.gpu.limits,
                            .part = &s->part,
                            .node = &s->node,
                            .node_index = 0,
                            .binding = s->device.gpu.limits.max_binding,
                            .plan = &s->plan,
                            .list = &s->list,
                            .err = &s->err};
}

static void scene_clear(scene *s)
{
    if (s->list.dispatches) guarded_release(NULL, s->list.dispatches);
    if (s->list.ranges) guarded_release(NULL, s->list.ranges);
}

static void scene_begin(scene *s, pco_gpu_dispatch *d)
{
    gpu_begin(&s->gpu, d, GPU_KERNEL_fill, 32, 1, 1);
    gpu_set_specs(&s->gpu, d, fill, .per = 1);
    gpu_set_params(&s->gpu, d, fill, .n_words = 1);
}

/* Operands by their numbers: none behind those that the node has, and none where it says so. */
static void test_operands(void **state)
{
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        scene s;
        scene_make(&s);
        s.node.n_inputs = draw(PCO_MAX_INPUTS + 1), s.node.n_outputs = draw(PCO_MAX_OUTPUTS + 1);
        for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) s.node.inputs[i] = draw(4) ? draw(3) : PCO_NONE;
        for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) s.node.outputs[i] = draw(4) ? draw(3) : PCO_NONE;
        for (uint32_t i = 0; i < PCO_MAX_INPUTS + 4; i++) {
            const uint32_t input = i < s.node.n_inputs ? s.node.inputs[i] : PCO_NONE,
                           output = i < s.node.n_outputs ? s.node.outputs[i] : PCO_NONE;
            assert_true(gpu_input_index(&s.gpu, i) == input && gpu_output_index(&s.gpu, i) == output);
            assert_ptr_equal(gpu_input(&s.gpu, i), input == PCO_NONE ? NULL : &s.tensors[input]);
            assert_ptr_equal(gpu_output(&s.gpu, i), output == PCO_NONE ? NULL : &s.tensors[output]);
        }
        pco_tensor x = {.rank = draw(PCO_MAX_RANK + 1)};
        uint64_t count = 1, part = 1;
        const uint32_t first = draw(PCO_MAX_RANK + 1), end = draw(PCO_MAX_RANK + 2);
        for (uint32_t d = 0; d < PCO_MAX_RANK; d++) {
            x.shape[d] = 2 + draw(4);
            if (d < x.rank) count *= (uint64_t)x.shape[d];
            if (d >= first && d < end) part *= (uint64_t)x.shape[d];
        }
        assert_true(gpu_count(&x) == count && gpu_product(&x, first, end) == part);
        scene_clear(&s);
    }
    scene s;
    unsigned char given[40], room[33];
    scene_make(&s);
    memset(given, 0x11, sizeof given);
    for (uint32_t bytes = 0; bytes <= sizeof given; bytes++) { /* of an older or newer caller's struct */
        memset(room, 0xee, sizeof room);
        s.node.attrs = given, s.node.attrs_size = bytes;
        assert_ptr_equal(gpu_attrs(&s.gpu, room, 32), room);
        for (uint32_t i = 0; i < 32; i++) assert_int_equal(room[i], i < bytes ? 0x11 : 0);
        assert_int_equal(room[32], 0xee);
    }
    s.node.attrs = NULL;
    gpu_attrs(&s.gpu, room, 32);
    for (uint32_t i = 0; i < 32; i++) assert_int_equal(room[i], 0);
    assert_true(gpu_element_bytes(PCO_I32) == 4 && gpu_element_bytes(PCO_BF16) == 2 &&
                gpu_element_bytes(PCO_Q4_0) == 0);
    assert_int_equal(gpu_lanes(PCO_Q4_0), 1);
}

/* What a device cannot launch is refused: each limit, exactly. */
static void test_limits(void **state)
{
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        scene s;
        pco_gpu_dispatch d;
        scene_make(&s);
        pco_gpu_limits *limits = &s.device.gpu.limits;
        const uint32_t x = 1 + draw(9), y = 1 + draw(4), z = 1 + draw(4), width = draw(2) * (1 + draw(8));
        for (int i = 0; i < 3; i++) limits->max_local[i] = 1 + draw(10);
        limits->max_workgroup = 1 + draw(80), limits->max_bindings = 2 + draw(5),
        limits->subgroups_settable = 1 + draw(9);
        if (draw(4) == 0) limits->needs_met = 0;
        const uint32_t kernel = draw(3) ? GPU_KERNEL_norm_subgroup : GPU_KERNEL_where;
        const pco_gpu_kernel *row = &pco_gpu_kernels[kernel];
        s.gpu.width = width, s.gpu.node_index = (uint32_t)n;
        gpu_begin(&s.gpu, &d, kernel, x, y, z);
        const uint32_t size = x * y * z, needed = row->needs ? width : 0;
        const int allowed = x <= limits->max_local[0] && y <= limits->max_local[1] && z <= limits->max_local[2] &&
                            size <= limits->max_workgroup && row->n_bindings <= limits->max_bindings &&
                            !(row->needs & ~limits->needs_met) &&
                            (!needed || size <= needed * limits->subgroups_settable);
        assert_int_equal(s.gpu.status, allowed ? PCO_OK : PCO_ERROR_UNSUPPORTED);
        assert_true(d.kernel == kernel && d.width == needed && d.node == (uint32_t)n && d.n_specs == row->n_specs);
        assert_true(d.n_bindings == row->n_bindings && d.n_params == row->n_params);
        assert_true(d.specs[0] == (int32_t)x && d.specs[1] == (int32_t)y && d.specs[2] == (int32_t)z &&
                    d.specs[3] == 0);
        limits->max_local[0] = 1 + draw(300);
        const uint32_t wanted = 1 + draw(300), got = gpu_workgroup(&s.gpu, wanted);
        const uint32_t most =
            limits->max_local[0] < limits->max_workgroup ? limits->max_local[0] : limits->max_workgroup;
        assert_true(got && !(got & (got - 1)) && got <= wanted && got <= most && (got * 2 > wanted || got * 2 > most));
        scene_clear(&s);
    }
}

/* A binding that a launch has no use for sees what another does, read only, and of those a written one. Names of
 * another kernel's buffers, constants and parameters are no names. */
static void test_names(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 64; n++) {
        scene s;
        pco_gpu_dispatch d;
        scene_make(&s);
        s.plan.workspaces = &s.workspace;
        gpu_begin(&s.gpu, &d, GPU_KERNEL_where, 32, 1, 1);
        gpu_set_specs(&s.gpu, &d, where, .x = 5);
        gpu_set_params(&s.gpu, &d, where, .n_all = 9);
        assert_true(d.specs[3] == 5 && d.params[0] == 9);
        static const uint32_t BUFFERS[4] = {GPU_where_c, GPU_where_a, GPU_where_b, GPU_where_y};
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(gpu_has_buffer(&d, BUFFERS[i]));
            if (n >> i & 1) gpu_bind_elements(&s.gpu, &d, BUFFERS[i], i & 1 ? 0 : 2, i * 3, 4 + i, n >> 4 == i);
        }
        const pco_gpu_dispatch before = d;
        const pco_status status = gpu_emit(&s.gpu, &d, 1);
        assert_int_equal(status, n & 15 ? PCO_OK : PCO_ERROR_INTERNAL);
        for (uint32_t i = 0; i < 4 && !status; i++) {
            const pco_gpu_binding *got = &s.list.dispatches[0].bindings[i];
            const gpu_range *range = &s.list.ranges[0][i];
            uint32_t from = i, good = 4;
            for (uint32_t k = 0; k < 4; k++)
                if (before.bindings[k].bytes && (good == 4 || before.bindings[k].write)) good = k;
            if (!(n >> i & 1)) from = good;
            assert_true(got->offset == before.bindings[from].offset && got->bytes == before.bindings[from].bytes &&
                        got->buffer == before.bindings[from].buffer);
            assert_int_equal(got->write, from == i ? before.bindings[i].write : 0);
            assert_int_equal(range->end > range->first, from == i);
        }
        scene_clear(&s);
    }
    for (int wrong = 0; wrong < 6; wrong++) {
        scene s;
        pco_gpu_dispatch d;
        scene_make(&s);
        gpu_begin(&s.gpu, &d, GPU_KERNEL_fill, 32, 1, 1);
        assert_false(gpu_has_buffer(&d, GPU_iota_y));
        if (wrong != 0) gpu_set_specs(&s.gpu, &d, fill, .per = 1);
        if (wrong != 1) gpu_set_params(&s.gpu, &d, fill, .n_words = 1);
        if (wrong == 2) gpu_set_specs(&s.gpu, &d, where, .per = 1);
        if (wrong == 3) gpu_set_params(&s.gpu, &d, where, .n = 1);
        if (wrong == 4) gpu_bind_elements(&s.gpu, &d, GPU_iota_y, 0, 0, 4, 1);
        if (wrong == 5) gpu_bind_again(&s.gpu, &d, GPU_fill_y, GPU_iota_y);
        gpu_bind_elements(&s.gpu, &d, GPU_fill_y, 0, 0, 4, 1);
        assert_int_equal(gpu_emit(&s.gpu, &d, 1), PCO_ERROR_INTERNAL);
        assert_int_equal(s.list.count, 0);
        scene_clear(&s);
    }
}

/* A window begins where a binding may, ends with a whole word, and no larger one is bound than there has to be. */
static void test_bindings(void **state)
{
    static const uint32_t TYPES[] = {PCO_F32, PCO_F16, PCO_BOOL};
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        scene s;
        pco_gpu_dispatch d;
        const uint32_t type = TYPES[draw(3)], bytes = gpu_element_bytes(type), alias = draw(2), write = draw(2),
                       lanes = 4 / bytes;
        const uint64_t first = draw(400) * (uint64_t)lanes, count = draw(900), align = UINT64_C(4) << draw(7);
        scene_make(&s);
        for (int t = 0; t < 2; t++) s.tensors[t].dtype = type;
        assert_int_equal(gpu_lanes(type), lanes);
        s.device.gpu.limits.offset_alignment = (uint32_t)align;
        s.places[0].offset = draw(200) * 4;
        s.gpu.binding = 16 + draw(4000);
        scene_begin(&s, &d);
        const uint32_t at = gpu_bind_elements(&s.gpu, &d, GPU_fill_y, alias, first, count, (int)write);
        const pco_gpu_binding *got = &d.bindings[0];
        const uint64_t begin = s.places[0].offset + first * bytes, end = (begin + count * bytes + 3) / 4 * 4;
        if (!count) {
            assert_true(s.gpu.status == PCO_OK && at == 0 && got->bytes == 0);
        } else if (end - begin / align * align > s.gpu.binding) {
            assert_int_equal(s.gpu.status, PCO_ERROR_UNSUPPORTED);
        } else {
            const gpu_range *range = &s.gpu.building[0];
            assert_int_equal(s.gpu.status, PCO_OK);
            assert_int_equal(got->offset, begin / align * align);
            assert_int_equal(got->offset + got->bytes, end);
            assert_int_equal(got->offset + at * bytes, begin);
            assert_true(got->write == write && got->buffer == 0);
            assert_true(range->buffer == 0 && range->write == write && range->first == begin && range->end == end);
        }
        scene_clear(&s);
    }
}

/* A node's workspace is as large as the last byte of it that it binds, and what the plan does not give is not bound. */
static void test_workspaces(void **state)
{
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        scene s;
        uint64_t most = 0;
        scene_make(&s);
        if (n % 2) s.gpu.plan = NULL;
        for (int i = 0; i < 3 && !s.gpu.status; i++) {
            pco_gpu_dispatch d;
            const uint64_t first = draw(1200) * 4, bytes = 4 + draw(300) * 4;
            scene_begin(&s, &d);
            const uint32_t at = gpu_bind_workspace(&s.gpu, &d, GPU_fill_y, first, bytes, n % 3);
            if (first + bytes > most) most = first + bytes;
            assert_int_equal(s.gpu.workspace, most);
            if (s.gpu.plan && first + bytes > 4096) {
                assert_int_equal(s.gpu.status, PCO_ERROR_INTERNAL);
                continue;
            }
            assert_int_equal(s.gpu.status, PCO_OK);
            assert_int_equal(d.bindings[0].offset + at, (s.gpu.plan ? 128 : 0) + first);
            assert_int_equal(d.bindings[0].buffer, s.gpu.plan ? 1 : s.part.n_tensors);
            assert_int_equal(d.bindings[0].write, n % 3 != 0);
        }
        scene_clear(&s);
    }
}

/* Do tensors lie in the same memory? Two names may be one; an alias lies where its root does. */
static void test_same_memory(void **state)
{
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        scene s;
        scene_make(&s);
        const uint64_t x = draw(60) * 4, y = draw(60) * 4, i = draw(20), k = draw(20);
        const uint32_t alias = draw(2), other = draw(3), type = draw(2) ? PCO_F16 : PCO_F32;
        s.places[0] = (pco_place){0, y, 4 + draw(20) * 4};
        s.places[2] = (pco_place){other, x, 4 + draw(20) * 4};
        for (int t = 0; t < 3; t++) s.tensors[t].dtype = type;
        const int same = other < 2 && x < y + s.places[0].bytes && y < x + s.places[2].bytes;
        assert_int_equal(!!gpu_same_memory(&s.gpu, alias, 2), same);
        assert_int_equal(!!gpu_same_memory(&s.gpu, 2, alias), same);
        const uint64_t bytes = gpu_element_bytes(type);
        assert_int_equal(!!gpu_same_element(&s.gpu, alias, i, 2, k), same && y + i * bytes == x + k * bytes);
        s.tensors[2].dtype = PCO_BF16;
        assert_int_equal(gpu_same_element(&s.gpu, alias, i, 2, i), 0);
        s.gpu.plan = NULL;
        assert_true(gpu_same_memory(&s.gpu, 0, 1) && !gpu_same_memory(&s.gpu, alias, 2));
        assert_int_equal(gpu_same_element(&s.gpu, 0, i, 1, i), 0);
    }
}

/* As many workgroups as were asked for, and at most a last row of them more; refused where the grid is too small. */
static void test_grids(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < TRIES; n++) {
        scene s;
        pco_gpu_dispatch d;
        uint32_t most[3];
        const uint64_t groups = draw(80);
        scene_make(&s);
        for (int i = 0; i < 3; i++) s.device.gpu.limits.max_groups[i] = most[i] = 1 + draw(6);
        scene_begin(&s, &d);
        gpu_bind_elements(&s.gpu, &d, GPU_fill_y, 0, 0, 5, 1);
        const uint64_t planes = (groups + most[0] - 1) / most[0], rows = (planes + most[1] - 1) / most[1];
        const pco_status status = gpu_emit(&s.gpu, &d, groups);
        if (rows > most[2]) {
            assert_int_equal(status, PCO_ERROR_UNSUPPORTED);
        } else {
            assert_int_equal(status, PCO_OK);
            assert_int_equal(s.list.count, groups != 0);
        }
        if (s.list.count) {
            const uint32_t *grid = s.list.dispatches[0].groups;
            for (int i = 0; i < 3; i++) assert_in_range(grid[i], 1, most[i]);
            assert_true((uint64_t)grid[0] * grid[1] * grid[2] >= groups);
            assert_true((uint64_t)(grid[0] - 1) * grid[1] * grid[2] < groups);
        }
        scene_clear(&s);
    }
}

/* A list of many launches keeps them all, and their bytes. */
static void test_many_launches(void **state)
{
    (void)state;
    scene s;
    scene_make(&s);
    for (uint32_t i = 0; i < 300; i++) {
        pco_gpu_dispatch d;
        gpu_begin(&s.gpu, &d, GPU_KERNEL_fill, 32, 1, 1);
        gpu_set_specs(&s.gpu, &d, fill, .per = 1);
        gpu_set_params(&s.gpu, &d, fill, .n_words = i);
        gpu_bind_elements(&s.gpu, &d, GPU_fill_y, 0, i, 5, 1);
        assert_int_equal(gpu_emit(&s.gpu, &d, 1 + i), PCO_OK);
    }
    assert_int_equal(s.list.count, 300);
    for (uint32_t i = 0; i < 300; i++) {
        assert_true(s.list.dispatches[i].params[0] == i && s.list.dispatches[i].groups[0] == 1 + i);
        assert_int_equal(s.list.ranges[i][0].first, 64 + i * 4);
    }
    scene_clear(&s);
}

/* Elements that fit, wherever in a binding's unit the tensor begins: as many as possible, but of whole 1024s or fours.
 */
static void test_windows(void **state)
{
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        scene s;
        scene_make(&s);
        const uint64_t bytes = 1 + draw(40), align = UINT64_C(4) << draw(7), binding = 1 + draw(draw(2) ? 200 : 100000);
        s.device.gpu.limits.offset_alignment = (uint32_t)align;
        s.gpu.binding = binding;
        uint64_t fit = binding > align ? (binding - align) / bytes : 0;
        fit -= fit % (fit >= 1024 ? 1024 : fit >= 4 ? 4 : 1);
        assert_int_equal(gpu_window(&s.gpu, bytes), fit);
    }
}

/* What a program says of its launches: segments, of which those up to a node are counted, and each launch as it is. */
static pco_status told_describe(pco_gpu_device *device, const pco_gpu_dispatch *dispatch, pco_dispatch_info *info,
                                pco_error *err)
{
    (void)device, (void)dispatch, (void)info, (void)err;
    return PCO_OK;
}

static uint32_t told_per;

static pco_status told_record(pco_gpu_device *device, const pco_plan *plan, const pco_gpu_dispatch *list,
                              uint32_t count, uint32_t per_segment, pco_gpu_recording **recording, pco_error *err)
{
    (void)device, (void)plan, (void)list, (void)count, (void)recording, (void)err;
    told_per = per_segment;
    return PCO_OK;
}

static void told_discard(pco_gpu_device *device, pco_gpu_recording *recording) { (void)device, (void)recording; }

static void test_programs(void **state)
{
    static const pco_gpu_driver DRIVER = {.describe = told_describe, .record = told_record, .discard = told_discard};
    const pco_program_api *api = &pco_gpu_program_api;
    (void)state;
    scene s;
    scene_make(&s);
    s.device = gpu_device(&DRIVER, 32, 32, 0);
    s.node.n_inputs = 0;
    pco_node_proposal wish = {.variant = PCO_NONE};
    const pco_proposal proposal = {.size = sizeof proposal, .nodes = &wish};
    pco_program *prepared = NULL;
    check_ok(api->prepare(&s.device, &s.part, &proposal, &s.plan, &prepared, &err));
    api->destroy(&s.device, prepared);
    assert_true(told_per > 1);
    pco_gpu_dispatch *launches = calloc(4 * told_per, sizeof *launches);
    for (uint32_t count = 0; count < 4 * told_per; count++) {
        pco_program program = {.n_dispatches = count, .dispatches = launches};
        launches[count].node = count / 5;
        assert_int_equal(api->segments(&program), (count + told_per - 1) / told_per);
        const uint32_t node = draw(count / 5 + 2), until = (node + 1) * 5 < count ? (node + 1) * 5 : count;
        assert_int_equal(api->segments_until(&program, node), (until + told_per - 1) / told_per);
    }
    for (uint32_t n = 0; n < TRIES; n++) {
        pco_gpu_dispatch *d = launches;
        unsigned char *raw = (unsigned char *)d;
        for (size_t i = 0; i < sizeof *d; i++) raw[i] = (unsigned char)draw(256);
        d->kernel = draw(pco_gpu_n_kernels), d->n_specs = 3 + draw(PCO_GPU_MAX_SPECS - 2);
        d->n_params = draw(PCO_GPU_MAX_PARAMS + 1), d->n_bindings = draw(PCO_GPU_MAX_BINDINGS + 1);
        pco_program program = {.n_dispatches = 1, .dispatches = launches};
        pco_dispatch_info info = {.size = sizeof info};
        check_ok(api->describe(&s.device, &program, 0, &info, &err));
        assert_string_equal(info.kernel, pco_gpu_kernels[d->kernel].name);
        assert_true(info.node == d->node && info.barrier_before == d->barrier_before);
        assert_true(info.n_specs == d->n_specs && info.n_bindings == d->n_bindings);
        assert_memory_equal(info.specs, d->specs, d->n_specs * sizeof *d->specs);
        assert_memory_equal(info.params, d->params, d->n_params * sizeof *d->params);
        assert_memory_equal(info.groups, d->groups, sizeof d->groups);
        assert_memory_equal(info.workgroup, d->specs, sizeof info.workgroup);
        for (uint32_t i = 0; i < d->n_bindings; i++)
            assert_true(
                info.bindings[i].buffer == d->bindings[i].buffer && info.bindings[i].write == d->bindings[i].write &&
                info.bindings[i].offset == d->bindings[i].offset && info.bindings[i].bytes == d->bindings[i].bytes);
        check_fails(api->describe(&s.device, &program, 1, &info, &err), PCO_ERROR_NOT_FOUND, "launch 1 of 1");
    }
    free(launches);
}

/* Times of launches become those of nodes, in their order; what there is no room for is counted. */
static void test_timings(void **state)
{
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        pco_timing out[6] = {{0}};
        uint64_t expected[16] = {0};
        uint32_t node = draw(3), nodes = 0, numbers[16];
        pco_gpu_timings timings = {.out = out, .capacity = draw(6)};
        for (uint32_t i = draw(12); i > 0; i--) {
            const uint64_t time = draw(1000);
            if (!nodes || numbers[nodes - 1] != node) numbers[nodes++] = node;
            expected[nodes - 1] += time;
            pco_gpu_add_timing(&timings, node, time);
            node += draw(2) * (1 + draw(2));
        }
        assert_int_equal(timings.n, nodes);
        for (uint32_t i = 0; i < 6; i++) {
            const int there = i < nodes && i < timings.capacity;
            assert_true(out[i].node == (there ? numbers[i] : 0) && out[i].nanoseconds == (there ? expected[i] : 0));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hazards),       cmocka_unit_test(test_strides),       cmocka_unit_test(test_coalesce),
        cmocka_unit_test(test_split),         cmocka_unit_test(test_cuts_of_a_row), cmocka_unit_test(test_bindings),
        cmocka_unit_test(test_workspaces),    cmocka_unit_test(test_same_memory),   cmocka_unit_test(test_grids),
        cmocka_unit_test(test_many_launches), cmocka_unit_test(test_windows),       cmocka_unit_test(test_programs),
        cmocka_unit_test(test_timings),       cmocka_unit_test(test_operands),      cmocka_unit_test(test_limits),
        cmocka_unit_test(test_names)};
    return cmocka_run_group_tests_name("lowering", tests, NULL, NULL);
}
