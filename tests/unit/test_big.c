/* A weight beyond the binding limit of a device: f32 [4096,14336], 234 MB, as one matrix-vector product and as a
 * gather of rows, in exact integers. The device is what PORTICO_BACKEND picks. */
#include "check.h"

#include "graph/graph.h"
#include "runtime/session.h"

enum { N = 4096, K = 14336, ROWS = 3 };

static float weight(int64_t n, int64_t k) { return (float)((n * 7 + k * 13) % 5 - 2); }

static void test_big_weight(void **state)
{
    (void)state;
    pco_config config;
    pco_registry *registry;
    pco_session *session;
    check_ok(pco_config_read(&config, &err));
    check_ok(pco_registry_create(&config, &registry, &err));
    check_ok(pco_registry_open(registry, NULL, &session, &err));
    float *w = malloc(sizeof *w * N * K), *x = malloc(sizeof *x * K), *y = malloc(sizeof *y * N);
    float *rows = malloc(sizeof *rows * ROWS * K);
    assert_true(w && x && y && rows);
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++) w[n * K + k] = weight(n, k);
    for (int64_t k = 0; k < K; k++) x[k] = (float)(k % 3 - 1);
    pco_graph *g = pco_graph_create();
    uint32_t big = pco_graph_constant(g, "big", PCO_F32, 2, (const int64_t[]){N, K}, w);
    uint32_t in = pco_graph_input(g, "x", PCO_F32, 2, (const int64_t[]){1, K});
    uint32_t at = pco_graph_input(g, "at", PCO_I32, 1, (const int64_t[]){ROWS});
    pco_graph_output(g, pco_linear(g, in, big, PCO_NONE, 0), "y");
    pco_graph_output(g, pco_gather(g, big, at, 0), "rows");
    pco_executable *e;
    check_ok(pco_executable_create(session, g, NULL, &e, &err));
    pco_graph_destroy(g);
    const int32_t which[ROWS] = {0, N - 1, N / 2};
    check_ok(pco_executable_write(e, pco_executable_tensor(e, "x"), x, sizeof *x * K, &err));
    check_ok(pco_executable_write(e, pco_executable_tensor(e, "at"), which, sizeof which, &err));
    check_ok(pco_executable_run(e, &err));
    check_ok(pco_executable_read(e, pco_executable_tensor(e, "y"), y, sizeof *y * N, &err));
    check_ok(pco_executable_read(e, pco_executable_tensor(e, "rows"), rows, sizeof *rows * ROWS * K, &err));
    for (int64_t n = 0; n < N; n++) {
        float sum = 0;
        for (int64_t k = 0; k < K; k++) sum += weight(n, k) * x[k];
        if (y[n] != sum) fail_msg("y[%d] is %g, and should be %g", (int)n, (double)y[n], (double)sum);
    }
    for (int r = 0; r < ROWS; r++) assert_memory_equal(rows + (int64_t)r * K, w + (int64_t)which[r] * K, sizeof *w * K);
    pco_executable_destroy(e);
    pco_session_close(session);
    pco_registry_destroy(registry);
    free(w);
    free(x);
    free(y);
    free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_big_weight)};
    return cmocka_run_group_tests_name("big", tests, NULL, NULL);
}
