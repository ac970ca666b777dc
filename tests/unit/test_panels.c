/* Constants that cpu:native keeps as its tiles read them: the same bits as without, whatever the number of rows, one
 * copy for all programs of a session, and none where something else reads the matrix. */
#include "check.h"

#include "portico/portico.h"
#include "portico/session.h"
#include "runtime/memory.h"

enum { MOST = 70 * 300 + 300 * 100 };

static pco_context *context;

typedef struct problem {
    int64_t m, k, n;
    int transposed, gathered; /* the weight is [N,K]; its rows are also looked up */
    pco_dtype dtype;          /* of x and the weight */
} problem;

static uint64_t size_of(const problem *p) { return p->dtype == PCO_F32 ? 4 : 2; }

/* From -1 to 1, as f32 or a half type from element `from` on; a half type's are bits whose exponent is that of a number
 * from 1 to 2 in bf16, and below 2^-3 in f16. */
static const void *numbers(pco_dtype dtype, int64_t from)
{
    static float values[MOST];
    static uint16_t halves[MOST];
    uint32_t random = 1;
    for (int i = 0; i < MOST; i++) {
        random = random * 1664525u + 1013904223u;
        values[i] = (float)(int32_t)random * 0x1p-31f;
        halves[i] = (uint16_t)(random >> 16 & 0x8000u) | (uint16_t)(dtype == PCO_BF16 ? 0x3f80u : 0x2c00u) |
                    (uint16_t)(random >> 20 & 0x7fu);
    }
    return dtype == PCO_F32 ? (const void *)(values + from) : halves + from;
}

/* Runs x w, with w as a constant or an input; y has m n elements of the type. */
static pco_executable *product(pco_session *session, const problem *p, const void *w, int constant, void *y)
{
    const int64_t x_shape[] = {p->m, p->k}, w_shape[] = {p->transposed ? p->n : p->k, p->transposed ? p->k : p->n};
    const uint64_t size = size_of(p);
    pco_executable *executable = NULL;
    pco_graph *graph = pco_graph_create();
    const uint32_t in = pco_graph_input(graph, "x", p->dtype, 2, x_shape),
                   weight = constant ? pco_graph_constant(graph, "w", p->dtype, 2, w_shape, w)
                                     : pco_graph_input(graph, "w", p->dtype, 2, w_shape);
    pco_graph_output(graph, pco_matmul(graph, in, weight, 0, p->transposed), "y");
    if (p->gathered) {
        const int32_t row = 1;
        const uint32_t index = pco_graph_constant_copy(graph, "row", PCO_I32, 1, (int64_t[]){1}, &row);
        pco_graph_output(graph, pco_gather(graph, weight, index, 0), "row 1");
    }
    check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
    pco_graph_destroy(graph);
    check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "x"), numbers(p->dtype, 0),
                                  (uint64_t)(p->m * p->k) * size, &err));
    if (!constant)
        check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "w"), w,
                                      (uint64_t)(p->k * p->n) * size, &err));
    check_ok(pco_executable_run(executable, &err));
    check_ok(pco_executable_read(executable, pco_executable_tensor(executable, "y"), y, (uint64_t)(p->m * p->n) * size,
                                 &err));
    return executable;
}

static uint64_t weights(const pco_session *session)
{
    pco_memory_total totals[PCO_MEMORY_DEVICES];
    const uint32_t count = pco_session_totals(session, totals);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) bytes += totals[i].weights;
    return bytes;
}

static void test_same_bits(void **state)
{
    (void)state;
    /* whole panels and pieces of one; one and several blocks of k; products of few rows and of many */
    static const int64_t ROWS[] = {1, 3, 4, 14, 15, 29, 70}, K[] = {1, 64, 300}, N[] = {7, 32, 50, 64, 100};
    static const pco_dtype TYPES[] = {PCO_F32, PCO_F16, PCO_BF16};
    static float y[2][70 * 100];
    for (size_t i = 0; i < 7 * 3 * 5 * 3; i++) {
        const problem p = {.m = ROWS[i % 7], .k = K[i / 7 % 3], .n = N[i / 21 % 5], .dtype = TYPES[i / 105]};
        pco_session *session = NULL;
        check_ok(pco_session_open(context, "cpu:native", &session, &err));
        for (int constant = 0; constant < 2; constant++)
            pco_executable_destroy(product(session, &p, numbers(p.dtype, 70 * 300), constant, y[constant]));
        assert_memory_equal(y[0], y[1], (size_t)(p.m * p.n) * size_of(&p));
        pco_session_close(session);
    }
}

/* Products by a small matrix, which tiles read where it lies, and by the same with a column more, which are packed. */
static void test_small(void **state)
{
    (void)state;
    static float y[2][70 * 65], wide[64 * 65], narrow[64 * 64];
    const float *values = numbers(PCO_F32, 0);
    for (int64_t n = 32; n <= 64; n += 32)
        for (int64_t m = 1; m <= 33; m++) {
            const problem p = {.m = m, .k = 50, .n = n}, more = {.m = m, .k = 50, .n = n + 1};
            for (int64_t i = 0; i < 50 * n; i++) wide[i / n * (n + 1) + i % n] = narrow[i] = values[i];
            pco_session *session = NULL;
            check_ok(pco_session_open(context, "cpu:native", &session, &err));
            pco_executable_destroy(product(session, &p, narrow, 0, y[0]));
            pco_executable_destroy(product(session, &more, wide, 0, y[1]));
            for (int64_t r = 0; r < m; r++)
                assert_memory_equal(y[0] + r * n, y[1] + r * (n + 1), (size_t)n * sizeof **y);
            pco_session_close(session);
        }
}

/* Two programs of one matrix, with few rows and with many. */
static uint64_t weights_of(problem p)
{
    static float y[2][70 * 100];
    pco_executable *executables[2];
    pco_session *session = NULL;
    check_ok(pco_session_open(context, "cpu:native", &session, &err));
    for (int i = 0; i < 2; i++) {
        p.m = i ? 70 : 2;
        executables[i] = product(session, &p, numbers(p.dtype, 70 * 300), 1, y[i]);
    }
    assert_memory_equal(y[0], y[1], (size_t)(2 * p.n) * size_of(&p) * (p.transposed ? 0 : 1));
    const uint64_t bytes = weights(session);
    for (int i = 0; i < 2; i++) pco_executable_destroy(executables[i]);
    assert_int_equal(weights(session), 0);
    pco_session_close(session);
    return bytes;
}

static void test_memory(void **state)
{
    (void)state;
    const uint64_t matrix = 64 * 300 * 4;
    assert_int_equal(weights_of((problem){.k = 300, .n = 64}), matrix);
    /* 90 columns in panels of 32, 16 or 8 are at most 96 */
    const uint64_t padded = weights_of((problem){.k = 64, .n = 90});
    assert_true(padded > 64 * 90 * 4 && padded <= 64 * 96 * 4);
    /* a half type takes as much as f32 does, so that it is widened once */
    assert_int_equal(weights_of((problem){.k = 300, .n = 64, .dtype = PCO_F16}), matrix);
    /* as in the file: what is read by rows, what else is read, and what would be padding for the most part */
    assert_int_equal(weights_of((problem){.k = 300, .n = 64, .transposed = 1}), matrix);
    assert_int_equal(weights_of((problem){.k = 300, .n = 64, .transposed = 1, .dtype = PCO_F16}), matrix / 2);
    assert_int_equal(weights_of((problem){.k = 64, .n = 90, .gathered = 1}), 64 * 90 * 4 + 4);
    assert_int_equal(weights_of((problem){.k = 300, .n = 3}), 300 * 3 * 4);
    assert_int_equal(weights_of((problem){.k = 50, .n = 64}), 50 * 64 * 4); /* and what is small */
}

static int start(void **state)
{
    (void)state;
    pco_error err;
    return pco_context_create(NULL, &context, &err);
}

static int stop(void **state)
{
    (void)state;
    pco_context_destroy(context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_small),
                                       cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, start, stop);
}
