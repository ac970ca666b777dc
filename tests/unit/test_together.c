/* Several devices that are used together: which are chosen, and what they run.
 * test_together FOLDER FOLDER: where the plugins of tests/plugins/variants and tests/plugins/trouble are. */
#include "check.h"
#include "graph/graph.h"
#include "runtime/session.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 8, LAYERS = 4, ROOM = 4 };

typedef struct fixture {
    pco_config config;
    pco_registry *registry;
    pco_session *session;
} fixture;

static void open_devices(fixture *f, const char *devices, pco_fallback fallback)
{
    *f = (fixture){.registry = NULL};
    check_ok(pco_config_read(&f->config, &err));
    f->config.fallback = fallback;
    check_ok(pco_registry_create(&f->config, &f->registry, &err));
    if (devices) check_ok(pco_registry_open(f->registry, devices, &f->session, &err));
}

static void close_devices(fixture *f)
{
    pco_session_close(f->session);
    pco_registry_destroy(f->registry);
}

static void test_select(void **state)
{
    (void)state;
    fixture f;
    pco_device_set sets[16];
    pco_device_entry whole;
    const pco_device_entry *devices;
    uint32_t count, index;
    open_devices(&f, NULL, PCO_FALLBACK_ERROR);
    pco_registry_devices(f.registry, &devices);
    check_ok(pco_registry_select_sets(f.registry, "cpu:reference+CPU:native", sets, 16, &count, &err));
    assert_int_equal(count, 1);
    assert_int_equal(sets[0].count, 2);
    pco_registry_describe_set(f.registry, &sets[0], &whole);
    assert_string_equal(whole.id, "cpu:1+cpu:0");
    assert_true(whole.info.memory == devices[sets[0].devices[0]].info.memory + devices[sets[0].devices[1]].info.memory);
    /* each part takes a device that no part before it has */
    check_ok(pco_registry_select_sets(f.registry, "cpu+cpu", sets, 16, &count, &err));
    assert_int_equal(count, 1);
    assert_int_not_equal(sets[0].devices[0], sets[0].devices[1]);
    /* the first of the list that is there; a term without + stands for all that it matches */
    check_ok(pco_registry_select_sets(f.registry, "cpu+warp:9,cpu:native+cpu:reference,cpu", sets, 16, &count, &err));
    assert_int_equal(count, 3);
    assert_int_equal(sets[0].count, 2);
    assert_int_equal(sets[1].count, 1);
    static const char *const wrong[][2] = {
        {"cpu:native+warp:9", "cpu:native+warp:9: there is no device for 'warp:9'; there are: "},
        {"warp:9+cpu:native", "there is no device for 'warp:9'"},
        {"cpu:native+cpu:native", "every device that 'cpu:native' names is joined already; name each once"},
        {"cpu+cpu+cpu", "every device that 'cpu' names is joined already"},
        {"cpu:native+", "there is no device for ''"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        check_fails(pco_registry_select_sets(f.registry, wrong[i][0], sets, 16, &count, &err), PCO_ERROR_NOT_FOUND,
                    wrong[i][1]);
        check_fails(pco_registry_open(f.registry, wrong[i][0], &f.session, &err), PCO_ERROR_NOT_FOUND, wrong[i][1]);
    }
    check_fails(pco_registry_select(f.registry, "cpu:0+cpu:1", &index, 1, &count, &err), PCO_ERROR_UNSUPPORTED,
                "commas");
    close_devices(&f);
}

/* x [rows,W] -> x + the rows of a cache that the layer keeps, once per layer. row n of the cache becomes x.
 */
static pco_graph *layers(int64_t rows, uint32_t first, uint32_t count)
{
    const int64_t shape[3] = {1, rows, WIDTH}, cache[3] = {1, ROOM, WIDTH}, one[1] = {1};
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "x", PCO_F32, 3, shape), at = pco_graph_value(g, "at", PCO_I32, 1, one);
    static float weights[LAYERS][WIDTH];
    for (uint32_t i = first; i < first + count; i++) {
        char name[16];
        for (int k = 0; k < WIDTH; k++) weights[i][k] = (float)(i + 1);
        snprintf(name, sizeof name, "cache.%u", i);
        pco_graph_scope(g, "layer.%u", i);
        uint32_t w = pco_graph_constant(g, "w", PCO_F32, 1, (int64_t[]){WIDTH}, weights[i]);
        x = pco_binary(g, PCO_OP_MUL, x, w);
        uint32_t after = pco_state_write(g, pco_graph_state(g, name, PCO_F32, 3, cache), x, at, 1);
        pco_sum_attrs sum = {.keepdims = 1, .n_axes = 1, .axes = {1}};
        x = pco_binary(g, PCO_OP_ADD, x, pco_graph_add(g, PCO_OP_SUM, &sum, &after, 1, NULL));
    }
    pco_graph_output(g, x, "y");
    return g;
}

/* The same on the host; `cache` is kept by the caller. */
static void expect(float cache[LAYERS][ROOM], int32_t at, int rows, float x[ROOM])
{
    for (int i = 0; i < LAYERS; i++) {
        float sum = 0;
        for (int r = 0; r < rows; r++) cache[i][at + r] = x[r] *= (float)(i + 1);
        for (int r = 0; r < ROOM; r++) sum += cache[i][r];
        for (int r = 0; r < rows; r++) x[r] += sum;
    }
}

static void step(pco_executable *e, float cache[LAYERS][ROOM], int32_t at, int rows)
{
    float x[ROOM * WIDTH], y[ROOM * WIDTH], want[ROOM];
    for (int r = 0; r < rows; r++) want[r] = (float)(at + r + 1);
    for (int i = 0; i < rows * WIDTH; i++) x[i] = want[i / WIDTH];
    expect(cache, at, rows, want);
    check_ok(pco_executable_write(e, pco_executable_tensor(e, "x"), x, (uint64_t)(rows * WIDTH) * 4, &err));
    check_ok(pco_executable_write(e, pco_executable_tensor(e, "at"), &at, sizeof at, &err));
    check_ok(pco_executable_run(e, &err));
    check_ok(pco_executable_read(e, pco_executable_tensor(e, "y"), y, (uint64_t)(rows * WIDTH) * 4, &err));
    for (int i = 0; i < rows * WIDTH; i++) assert_true(y[i] == want[i / WIDTH]);
}

/* Two programs share the caches of layers that are on different devices; a third has only some of the layers.
 */
static void test_states(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu:native+cpu:reference", "sound:0+cpu:reference",
                                          "cpu:reference+sound:1+cpu:native"};
    for (int d = 0; d < 3; d++) {
        fixture f;
        pco_executable *prompt, *token, *tail;
        float cache[LAYERS][ROOM] = {{0}};
        open_devices(&f, devices[d], PCO_FALLBACK_ERROR);
        pco_graph *g = layers(3, 0, LAYERS);
        check_ok(pco_executable_create(f.session, g, NULL, &prompt, &err));
        pco_graph_destroy(g);
        g = layers(1, 0, LAYERS);
        check_ok(pco_executable_create(f.session, g, NULL, &token, &err));
        pco_graph_destroy(g);
        g = layers(1, LAYERS - 1, 1);
        check_ok(pco_executable_create(f.session, g, NULL, &tail, &err));
        pco_graph_destroy(g);
        assert_int_equal(pco_executable_counts(prompt).parts, d == 2 ? 3 : 2);
        assert_int_equal(pco_executable_counts(token).parts, d == 2 ? 3 : 2);
        assert_int_equal(pco_executable_counts(tail).parts, 1);
        assert_int_equal(pco_executable_counts(prompt).cpu_nodes + pco_executable_counts(token).cpu_nodes, 0);
        step(prompt, cache, 0, 3);
        step(token, cache, 3, 1);
        step(prompt, cache, 1, 3);
        step(token, cache, 0, 1);
        pco_executable_destroy(tail);
        pco_executable_destroy(token);
        pco_executable_destroy(prompt);
        close_devices(&f);
    }
}

/* A state that one graph writes in a unit of the second device is read by another, in a unit of the first. */
static void test_other_unit(void **state)
{
    (void)state;
    fixture f;
    pco_executable *writer, *reader;
    const int64_t shape[2] = {1, WIDTH}, one[1] = {1};
    float x[WIDTH], y[WIDTH];
    int32_t at = 0;
    open_devices(&f, "cpu:native+cpu:reference", PCO_FALLBACK_ERROR);
    pco_graph *g = pco_graph_create();
    uint32_t t = pco_graph_input(g, "x", PCO_F32, 2, shape), index = pco_graph_value(g, "at", PCO_I32, 1, one);
    pco_graph_scope(g, "early");
    t = pco_unary(g, PCO_OP_NEG, t);
    pco_graph_scope(g, "late");
    pco_graph_output(g, pco_state_write(g, pco_graph_state(g, "s", PCO_F32, 2, shape), t, index, 1), "w");
    check_ok(pco_executable_create(f.session, g, NULL, &writer, &err));
    pco_graph_destroy(g);
    g = pco_graph_create();
    pco_graph_scope(g, "early");
    t = pco_unary(g, PCO_OP_ABS, pco_graph_state(g, "s", PCO_F32, 2, shape));
    pco_graph_scope(g, "another");
    pco_graph_output(g, pco_unary(g, PCO_OP_NEG, t), "y");
    check_ok(pco_executable_create(f.session, g, NULL, &reader, &err));
    pco_graph_destroy(g);
    for (int i = 0; i < WIDTH; i++) x[i] = (float)i;
    check_ok(pco_executable_write(writer, pco_executable_tensor(writer, "x"), x, sizeof x, &err));
    check_ok(pco_executable_write(writer, pco_executable_tensor(writer, "at"), &at, sizeof at, &err));
    check_ok(pco_executable_run(writer, &err));
    check_ok(pco_executable_run(reader, &err));
    check_ok(pco_executable_read(reader, pco_executable_tensor(reader, "y"), y, sizeof y, &err));
    for (int i = 0; i < WIDTH; i++) assert_true(y[i] == -x[i]);
    assert_int_equal(pco_executable_counts(writer).parts, 2);
    pco_executable_destroy(reader);
    pco_executable_destroy(writer);
    close_devices(&f);
}

/* Two writes into one state, in units of two devices, and work of another device between them: both are found. */
static void test_written_twice(void **state)
{
    (void)state;
    fixture f;
    pco_executable *e;
    const int64_t row[3] = {1, 1, WIDTH}, cache[3] = {1, ROOM, WIDTH}, one[1] = {1};
    float x[WIDTH], y[WIDTH], held[ROOM * WIDTH];
    const int32_t at[2] = {1, 2};
    open_devices(&f, "cpu:native+cpu:reference", PCO_FALLBACK_ERROR);
    pco_graph *g = pco_graph_create();
    uint32_t t = pco_graph_input(g, "x", PCO_F32, 3, row), a = pco_graph_value(g, "a", PCO_I32, 1, one),
             b = pco_graph_value(g, "b", PCO_I32, 1, one);
    pco_graph_scope(g, "early");
    uint32_t s = pco_state_write(g, pco_graph_state(g, "s", PCO_F32, 3, cache), t, a, 1);
    pco_graph_scope(g, "late");
    t = pco_unary(g, PCO_OP_NEG, t);
    pco_graph_scope(g, "early");
    t = pco_binary(g, PCO_OP_MUL, t, t);
    pco_graph_scope(g, "late");
    s = pco_state_write(g, s, t, b, 1);
    pco_sum_attrs sum = {.keepdims = 1, .n_axes = 1, .axes = {1}};
    pco_graph_output(g, pco_graph_add(g, PCO_OP_SUM, &sum, &s, 1, NULL), "y");
    check_ok(pco_executable_create(f.session, g, NULL, &e, &err));
    pco_graph_destroy(g);
    for (int i = 0; i < WIDTH; i++) x[i] = (float)(i + 1);
    check_ok(pco_executable_write(e, pco_executable_tensor(e, "x"), x, sizeof x, &err));
    check_ok(pco_executable_write(e, pco_executable_tensor(e, "a"), &at[0], sizeof at[0], &err));
    check_ok(pco_executable_write(e, pco_executable_tensor(e, "b"), &at[1], sizeof at[1], &err));
    check_ok(pco_executable_run(e, &err));
    check_ok(pco_executable_read(e, pco_executable_tensor(e, "y"), y, sizeof y, &err));
    check_ok(pco_session_read_state(f.session, "s", held, sizeof held, &err));
    for (int i = 0; i < ROOM * WIDTH; i++) {
        const int r = i / WIDTH;
        const float value = x[i % WIDTH];
        assert_true(held[i] == (r == 1 ? value : r == 2 ? value * value : 0));
    }
    for (int i = 0; i < WIDTH; i++) assert_true(y[i] == x[i] + x[i] * x[i]);
    assert_int_equal(pco_executable_counts(e).parts, 3);
    pco_executable_destroy(e);
    close_devices(&f);
}

/* What the first device cannot run goes to the next, not to the CPU. */
static void test_next(void **state)
{
    (void)state;
    fixture f;
    pco_executable *e;
    const int64_t shape[2] = {WIDTH, WIDTH};
    open_devices(&f, "trouble:sound+cpu:reference", PCO_FALLBACK_ERROR);
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "x", PCO_F32, 2, shape);
    float ones[WIDTH * WIDTH], y[WIDTH * WIDTH];
    for (int i = 0; i < WIDTH * WIDTH; i++) ones[i] = 1;
    pco_graph_scope(g, "light"); /* so light that it belongs to the device with little memory */
    x = pco_unary(g, PCO_OP_NEG, x);
    x = pco_matmul(g, x, x, 0, 0);
    pco_graph_scope(g, "heavy");
    pco_graph_output(g, pco_binary(g, PCO_OP_MUL, x, pco_graph_constant(g, "w", PCO_F32, 2, shape, ones)), "y");
    check_ok(pco_executable_create(f.session, g, NULL, &e, &err));
    pco_graph_destroy(g);
    check_ok(pco_executable_write(e, pco_executable_tensor(e, "x"), ones, sizeof ones, &err));
    check_ok(pco_executable_run(e, &err));
    check_ok(pco_executable_read(e, pco_executable_tensor(e, "y"), y, sizeof y, &err));
    for (int i = 0; i < WIDTH * WIDTH; i++) assert_true(y[i] == WIDTH);
    assert_int_equal(pco_executable_counts(e).cpu_nodes, 0);
    assert_int_equal(pco_executable_counts(e).parts, 2);
    pco_executable_destroy(e);
    close_devices(&f);
}

/* A plugin that says that it opened its device, and gives none. */
static void test_empty(void **state)
{
    (void)state;
    fixture f;
    open_devices(&f, NULL, PCO_FALLBACK_ERROR);
    check_fails(pco_registry_open(f.registry, "trouble:empty", &f.session, &err), PCO_ERROR_INTERNAL,
                "the plugin says that it opened the device, and gave none");
    assert_null(f.session);
    close_devices(&f);
}

/* A device that can read a state and not write it: both are done where both can be. */
static void test_gather(void **state)
{
    (void)state;
    fixture f;
    pco_executable *e;
    const int64_t shape[2] = {1, WIDTH}, one[1] = {1};
    open_devices(&f, "trouble:sound", PCO_FALLBACK_SILENT);
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "x", PCO_F32, 2, shape), at = pco_graph_value(g, "at", PCO_I32, 1, one);
    uint32_t s = pco_graph_state(g, "s", PCO_F32, 2, shape), y = pco_binary(g, PCO_OP_ADD, s, x);
    pco_graph_output(g, pco_state_write(g, s, y, at, 1), "w");
    pco_graph_output(g, pco_unary(g, PCO_OP_NEG, y), "y");
    check_ok(pco_executable_create(f.session, g, NULL, &e, &err));
    pco_graph_destroy(g);
    float ones[WIDTH], got[WIDTH];
    int32_t zero = 0;
    for (int i = 0; i < WIDTH; i++) ones[i] = 1;
    check_ok(pco_executable_write(e, pco_executable_tensor(e, "x"), ones, sizeof ones, &err));
    check_ok(pco_executable_write(e, pco_executable_tensor(e, "at"), &zero, sizeof zero, &err));
    for (int run = 1; run <= 3; run++) {
        check_ok(pco_executable_run(e, &err));
        check_ok(pco_executable_read(e, pco_executable_tensor(e, "y"), got, sizeof got, &err));
        for (int i = 0; i < WIDTH; i++) assert_true(got[i] == (float)-run);
    }
    assert_true(pco_executable_counts(e).cpu_nodes >= 2);
    pco_executable_destroy(e);
    close_devices(&f);
}

int main(int argc, char **argv)
{
    char path[2048];
    if (argc != 3) return 2;
    snprintf(path, sizeof path, "%s:%s", argv[1], argv[2]);
    setenv("PORTICO_PLUGIN_PATH", path, 1);
    setenv("PORTICO_CACHE_DIR", "", 1);
    unsetenv("PORTICO_BACKEND");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_select),        cmocka_unit_test(test_states),
                                       cmocka_unit_test(test_other_unit),    cmocka_unit_test(test_next),
                                       cmocka_unit_test(test_written_twice), cmocka_unit_test(test_gather),
                                       cmocka_unit_test(test_empty)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
