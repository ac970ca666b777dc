/* The helpers of the lowering, each held against a plain definition of what it promises, on random small inputs. Cases
 * of the suite see them only through whole operations, whose shapes seldom come to where a helper's edges are: two
 * names for one memory, dimensions that join for one operand and not for another, rows that are cut. */
#include "lowering.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hazards), cmocka_unit_test(test_strides),
                                       cmocka_unit_test(test_coalesce), cmocka_unit_test(test_split),
                                       cmocka_unit_test(test_cuts_of_a_row)};
    return cmocka_run_group_tests_name("lowering_views", tests, NULL, NULL);
}
