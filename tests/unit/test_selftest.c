/* The self-test on first use, on the devices of tests/plugins/variants: what a session makes of them.
 * test_selftest FOLDER: where these plugins are. */
#include "check.h"
#include "graph/graph.h"
#include "runtime/selftest_internal.h"
#include "runtime/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 4096 };

typedef struct fixture {
    pco_config config;
    pco_registry *registry;
    pco_session *session;
    char lines[LINES];
} fixture;

static void keep_line(void *user, pco_log_level level, const char *line)
{
    fixture *f = user;
    const size_t used = strlen(f->lines);
    (void)level;
    snprintf(f->lines + used, LINES - used, "%s\n", line);
}

static void open_device(fixture *f, const char *device, pco_fallback fallback)
{
    *f = (fixture){.registry = NULL};
    check_ok(pco_config_read(&f->config, &err));
    f->config.cache_dir[0] = 0; /* each test finds out for itself */
    f->config.fallback = fallback;
    f->config.self_test = PCO_SELF_TEST_ON;
    f->config.log_fn = keep_line;
    f->config.log_user = f;
    check_ok(pco_registry_create(&f->config, &f->registry, &err));
    check_ok(pco_registry_open(f->registry, device, &f->session, &err));
}

static void close_device(fixture *f)
{
    pco_session_close(f->session);
    pco_registry_destroy(f->registry);
}

/* y = x w for one row, -x, or |x| (2) */
static pco_status make(fixture *f, int matmul, pco_executable **executable, pco_error *err)
{
    static float weights[64 * 64];
    for (int i = 0; i < 64 * 64; i++) weights[i] = (float)(i % 5) - 2;
    const int64_t row[2] = {1, 64}, square[2] = {64, 64};
    pco_graph *g = pco_graph_create();
    uint32_t y = pco_graph_input(g, "x", PCO_F32, 2, row);
    if (matmul == 2)
        y = pco_unary(g, PCO_OP_ABS, y);
    else if (matmul)
        y = pco_matmul(g, y, pco_graph_constant_copy(g, "w", PCO_F32, 2, square, weights), 0, 0);
    else
        y = pco_unary(g, PCO_OP_NEG, y);
    pco_graph_output(g, y, "y");
    pco_status status = pco_executable_create(f->session, g, NULL, executable, err);
    pco_graph_destroy(g);
    return status;
}

static void run(pco_executable *e, int matmul)
{
    float x[64], y[64];
    for (int i = 0; i < 64; i++) x[i] = (float)(i % 7);
    check_ok(pco_executable_write(e, pco_executable_tensor(e, "x"), x, sizeof x, &err));
    check_ok(pco_executable_run(e, &err));
    check_ok(pco_executable_read(e, pco_executable_tensor(e, "y"), y, sizeof y, &err));
    for (int i = 0; i < 64; i++) {
        float want = -x[i];
        if (matmul) want = 0;
        for (int k = 0; matmul && k < 64; k++) want += x[k] * ((float)((k * 64 + i) % 5) - 2);
        assert_true(y[i] == want);
    }
}

/* A variant that is wrong: another one. All are: the CPU, and it is said. */
static void test_wrong(void **state)
{
    (void)state;
    static const char *const devices[] = {"tile:0", "every:0"};
    for (int i = 0; i < 2; i++) {
        fixture f;
        pco_executable *e;
        open_device(&f, devices[i], PCO_FALLBACK_WARN);
        check_ok(make(&f, 1, &e, &err));
        run(e, 1);
        assert_int_equal(pco_executable_counts(e).cpu_nodes, i);
        assert_non_null(strstr(f.lines, "failed the self-test"));
        assert_non_null(strstr(f.lines, i ? "op 'matmul' runs on the CPU" : "'naive' is used instead"));
        pco_executable_destroy(e);
        close_device(&f);
    }
}

/* With PORTICO_FALLBACK=error a device without a right kernel is an error, and the session goes on. */
static void test_refused(void **state)
{
    (void)state;
    fixture f;
    pco_executable *e;
    open_device(&f, "every:0", PCO_FALLBACK_ERROR);
    check_fails(make(&f, 1, &e, &err), PCO_ERROR_UNSUPPORTED, "failed the self-test");
    check_ok(make(&f, 0, &e, &err));
    run(e, 0);
    pco_executable_destroy(e);
    close_device(&f);
}

/* The test costs the device: it is opened again, unless something else is on it. */
static void test_lost(void **state)
{
    (void)state;
    fixture f;
    pco_executable *first, *second;
    open_device(&f, "lost:0", PCO_FALLBACK_ERROR);
    check_ok(make(&f, 1, &first, &err));
    run(first, 1);
    pco_executable_destroy(first);
    close_device(&f);

    open_device(&f, "lost:0", PCO_FALLBACK_ERROR);
    check_ok(make(&f, 0, &first, &err));
    check_fails(make(&f, 1, &second, &err), PCO_ERROR_DEVICE_LOST, "lost in the self-test of op 'matmul'");
    /* no kernel is blamed for what it finds on a device that is gone */
    check_fails(make(&f, 1, &second, &err), PCO_ERROR_DEVICE_LOST, "open the session again");
    check_fails(make(&f, 2, &second, &err), PCO_ERROR_DEVICE_LOST, "open the session again");
    pco_executable_destroy(first);
    close_device(&f);
}

/* The same where a model has lost it. */
static void test_lost_in_use(void **state)
{
    (void)state;
    fixture f;
    pco_executable *e, *other;
    const int64_t shape[2] = {8, 8};
    static const float values[64] = {1};
    open_device(&f, "lost:0", PCO_FALLBACK_ERROR);
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "x", PCO_F32, 2, shape);
    pco_graph_output(g, pco_matmul(g, x, x, 0, 0), "y");
    check_ok(pco_executable_create(
        f.session, g, &(pco_executable_params){.size = sizeof(pco_executable_params), .no_self_test = 1}, &e, &err));
    pco_graph_destroy(g);
    check_ok(pco_executable_write(e, x, values, sizeof values, &err));
    check_fails(pco_executable_run(e, &err), PCO_ERROR_DEVICE_LOST, "the device is gone");
    check_fails(make(&f, 0, &other, &err), PCO_ERROR_DEVICE_LOST, "open the session again");
    assert_null(strstr(f.lines, "self-test"));
    pco_executable_destroy(e);
    close_device(&f);
}

/* A test that could not be made is no verdict: it is made the next time. */
static void test_no_verdict(void **state)
{
    (void)state;
    fixture f;
    pco_executable *e;
    open_device(&f, "scarce:0", PCO_FALLBACK_ERROR);
    check_fails(make(&f, 1, &e, &err), PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory this time");
    check_fails(make(&f, 1, &e, &err), PCO_ERROR_UNSUPPORTED, "failed the self-test");
    close_device(&f);
}

/* Operands of a comparison are equal in some elements and not in others, with one number for all of them too: else
 * a kernel that says the same of everything would pass. */
static void test_equal_and_not(void **state)
{
    (void)state;
    static const pco_dtype types[] = {PCO_F32, PCO_I32};
    static const int64_t shapes[2][2] = {{1, 1}, {2, 16}};
    for (int i = 0; i < 4; i++) {
        selftest_case one;
        int equal = 0;
        pco_graph *g = pco_graph_create();
        const uint32_t x = pco_graph_input(g, "x", types[i / 2], 2, shapes[1]);
        pco_graph_output(g, pco_binary(g, PCO_OP_EQ, x, pco_graph_input(g, "y", types[i / 2], 2, shapes[i % 2])), "e");
        check_ok(selftest_case_make(g, 0, 0, &one, &err));
        check_ok(selftest_case_fill(&one, 1, &err));
        const int32_t *a = one.data[0], *b = one.data[1]; /* words; 0 is written one way only */
        for (int k = 0; k < 32; k++) equal += a[k] == b[i % 2 ? k : 0];
        assert_in_range(equal, 2, 30);
        selftest_case_free(&one);
        pco_graph_destroy(g);
    }
}

/* Whole numbers are those of the operand's domain: all matrices are chosen, and nothing else. */
static void test_whole_numbers(void **state)
{
    (void)state;
    enum { MATRICES = 3, CHOICES = 64 };
    selftest_case one;
    int seen[MATRICES] = {0};
    pco_graph *g = pco_graph_create();
    const uint32_t inputs[3] = {pco_graph_input(g, "x", PCO_F32, 2, (const int64_t[]){1, 8}),
                                pco_graph_input(g, "weight", PCO_F32, 2, (const int64_t[]){MATRICES * 5, 8}),
                                pco_graph_input(g, "indices", PCO_I32, 2, (const int64_t[]){1, CHOICES})};
    const pco_indexed_matmul_attrs attrs = {.matrices = MATRICES};
    pco_graph_output(g, pco_graph_add(g, PCO_OP_INDEXED_MATMUL, &attrs, inputs, 3, NULL), "y");
    check_ok(selftest_case_make(g, 0, 0, &one, &err));
    check_ok(selftest_case_fill(&one, 1, &err));
    const int32_t *indices = one.data[2];
    for (int i = 0; i < CHOICES; i++) {
        assert_in_range(indices[i], 0, MATRICES - 1);
        seen[indices[i]]++;
    }
    for (int m = 0; m < MATRICES; m++) assert_true(seen[m] > 0);
    selftest_case_free(&one);
    pco_graph_destroy(g);
}

/* Half of what isfinite is asked is not finite, of each kind; and nothing is where that is not promised. */
static void test_finite_and_not(void **state)
{
    (void)state;
    const int64_t shape[1] = {64};
    for (int special = 0; special < 2; special++) {
        selftest_case one;
        int nan = 0, up = 0, down = 0;
        pco_graph *g = pco_graph_create();
        pco_graph_output(g, pco_unary(g, PCO_OP_ISFINITE, pco_graph_input(g, "x", PCO_F32, 1, shape)), "y");
        check_ok(selftest_case_make(g, 0, 0, &one, &err));
        check_ok(selftest_case_fill(&one, special, &err));
        const float *x = one.data[0];
        for (int k = 0; k < 64; k++) nan += isnan(x[k]) != 0, up += x[k] == INFINITY, down += x[k] == -INFINITY;
        assert_true(special ? nan && up && down && nan + up + down < 48 : nan + up + down == 0);
        selftest_case_free(&one);
        pco_graph_destroy(g);
    }
}

/* The code of a large node's pieces is wrong: small problems are cut for the test so that it runs. */
static void test_cut(void **state)
{
    (void)state;
    for (int large = 0; large < 2; large++) {
        fixture f;
        pco_executable *e;
        const int64_t a[2] = {4, 64}, b[2] = {64, large ? 1024 : 256};
        open_device(&f, "cut:0", PCO_FALLBACK_ERROR);
        pco_graph *g = pco_graph_create();
        const uint32_t x = pco_graph_input(g, "x", PCO_F32, 2, a), w = pco_graph_input(g, "w", PCO_F32, 2, b);
        pco_graph_output(g, pco_matmul(g, x, w, 0, 0), "y");
        check_ok(pco_executable_create(f.session, g, NULL, &e, &err));
        assert_int_equal(strstr(f.lines, "failed the self-test") != NULL, large);
        pco_graph_destroy(g);
        pco_executable_destroy(e);
        close_device(&f);
    }
}

/* Nothing is said of a device whose kernels are right, and a caller may do without the test. */
static void test_quiet(void **state)
{
    (void)state;
    fixture f;
    pco_executable *e;
    open_device(&f, "sound:0", PCO_FALLBACK_ERROR);
    check_ok(make(&f, 1, &e, &err));
    run(e, 1);
    assert_string_equal(f.lines, "");
    pco_executable_destroy(e);
    close_device(&f);

    const int64_t shape[2] = {1, 8};
    open_device(&f, "every:0", PCO_FALLBACK_ERROR);
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "x", PCO_F32, 2, shape);
    pco_graph_output(g, pco_matmul(g, x, x, 1, 0), "y");
    check_ok(pco_executable_create(
        f.session, g, &(pco_executable_params){.size = sizeof(pco_executable_params), .no_self_test = 1}, &e, &err));
    pco_graph_destroy(g);
    assert_string_equal(f.lines, "");
    pco_executable_destroy(e);
    close_device(&f);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    setenv("PORTICO_PLUGIN_PATH", argv[1], 1);
    unsetenv("PORTICO_BACKEND");
    unsetenv("PORTICO_LOG");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wrong),         cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_lost),          cmocka_unit_test(test_lost_in_use),
                                       cmocka_unit_test(test_no_verdict),    cmocka_unit_test(test_whole_numbers),
                                       cmocka_unit_test(test_equal_and_not), cmocka_unit_test(test_finite_and_not),
                                       cmocka_unit_test(test_cut),           cmocka_unit_test(test_quiet)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
