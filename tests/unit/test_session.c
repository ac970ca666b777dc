/* Graphs on a device, end to end: results, reuse of memory, decompositions, states, fallback, messages. The
 * device is what PORTICO_BACKEND picks. */
#include "graph/graph.h"
#include "graph/op_rules.h"
#include "runtime/session_internal.h"

#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    pco_registry *registry;
    pco_session *session;
} fixture;

static int open_session(void **state)
{
    static fixture f;
    pco_config config;
    pco_error err = {""};
    if (pco_config_read(&config, &err) || pco_registry_create(&config, &f.registry, &err) ||
        pco_registry_open(f.registry, NULL, &f.session, &err)) {
        print_error("%s\n", err.message);
        return -1;
    }
    *state = &f;
    return 0;
}

static int close_session(void **state)
{
    fixture *f = *state;
    pco_session_close(f->session);
    pco_registry_destroy(f->registry);
    return 0;
}

#define SHAPE(...) \
    (const int64_t[]) \
    { \
        __VA_ARGS__ \
    }
#define OK(call) \
    do { \
        pco_error ok_err = {""}, *err = &ok_err; \
        if (call) fail_msg("%s: %s", #call, ok_err.message); \
    } while (0)

static void test_elementwise(void **state)
{
    fixture *f = *state;
    pco_graph *g = pco_graph_create();
    uint32_t a = pco_graph_input(g, "a", PCO_F32, 2, SHAPE(3, 5));
    uint32_t b = pco_graph_input(g, "b", PCO_F32, 1, SHAPE(5));
    uint32_t y = pco_binary(g, PCO_OP_ADD, pco_binary_scalar(g, PCO_OP_MUL, a, 2), b);
    pco_graph_output(g, pco_unary(g, PCO_OP_NEG, y), "y");
    pco_executable *e;
    OK(pco_executable_create(f->session, g, NULL, &e, err));
    pco_graph_destroy(g);
    float va[15], vb[5], vy[15];
    for (int i = 0; i < 15; i++) va[i] = (float)i;
    for (int i = 0; i < 5; i++) vb[i] = (float)(100 * i);
    for (int run = 0; run < 2; run++) {
        OK(pco_executable_write(e, pco_executable_tensor(e, "a"), va, sizeof va, err));
        OK(pco_executable_write(e, pco_executable_tensor(e, "b"), vb, sizeof vb, err));
        OK(pco_executable_run(e, err));
        OK(pco_executable_read(e, pco_executable_tensor(e, "y"), vy, sizeof vy, err));
        for (int i = 0; i < 15; i++) assert_true(vy[i] == -(2 * va[i] + vb[i % 5]));
    }
    pco_executable_destroy(e);
}

/* A graph with every composite op, on fixed inputs. */
static pco_graph *composites(void)
{
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "x", PCO_F32, 4, SHAPE(2, 4, 5, 8)),
             w = pco_graph_input(g, "w", PCO_F32, 1, SHAPE(8));
    uint32_t positions = pco_iota(g, PCO_I32, 1, 90000, 7, 2, SHAPE(1, 5)), phase = pco_rope_phase(g, 10000, 8, NULL);
    uint32_t lengths = pco_graph_value(g, "lengths", PCO_I32, 1, SHAPE(2)), y = x;
    uint32_t seed = pco_graph_value(g, "seed", PCO_I32, 1, SHAPE(2));
    pco_layer_norm_attrs ln = {.eps = 1e-3, .form = 1, .correction = 1, .stats = 1};
    uint32_t outs[PCO_MAX_OUTPUTS];
    pco_graph_add(g, PCO_OP_LAYER_NORM, &ln, (uint32_t[]){x, w, w}, 3, outs);
    pco_graph_output(g, outs[1], "mean");
    pco_graph_output(g, outs[2], "rstd");
    y = outs[0];
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        pco_rope_attrs rope = {.interleaved = interleaved, .heads_first = 1, .scale = 1};
        y = pco_graph_add(g, PCO_OP_ROPE, &rope, (uint32_t[]){y, positions, phase}, 3, NULL);
    }
    pco_scaled_dot_product_attention_attrs at = {
        .causal = 1, .window = 3, .softcap = 5, .heads_first = 1, .weights = 1};
    uint32_t kv = pco_slice_axis(g, y, 1, 0, 2);
    pco_graph_add(g, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, &at, (uint32_t[]){y, kv, kv, PCO_NONE, lengths}, 5, outs);
    pco_graph_output(g, outs[1], "weights");
    y = outs[0];
    y = pco_graph_add(g, PCO_OP_RMS_NORM, NULL, (uint32_t[]){y, w}, 2, NULL);
    y = pco_unary(g, PCO_OP_GELU, y);
    y = pco_graph_add(g, PCO_OP_GELU, &(pco_gelu_attrs){.approximate = 1}, &y, 1, NULL);
    y = pco_unary(g, PCO_OP_SILU, y);
    y = pco_binary(g, PCO_OP_SWIGLU, y, x);
    y = pco_graph_add(g, PCO_OP_SWIGLU, NULL, &y, 1, NULL);
    y = pco_graph_add(g, PCO_OP_DROPOUT, &(pco_dropout_attrs){.p = 0.25, .stream = 3}, (uint32_t[]){y, seed}, 2, NULL);
    pco_graph_output(g, pco_unary(g, PCO_OP_RELU, y), "relu");
    pco_graph_output(g, pco_softmax(g, y, 1), "softmax");
    pco_graph_output(g, pco_graph_add(g, PCO_OP_LOG_SOFTMAX, NULL, &y, 1, NULL), "log_softmax");
    pco_graph_output(g, pco_graph_add(g, PCO_OP_LOGSUMEXP, NULL, &y, 1, NULL), "logsumexp");
    pco_sinusoidal_positions_attrs sp = {.layout = 0, .dtype = PCO_F32};
    pco_graph_output(g, pco_graph_add(g, PCO_OP_SINUSOIDAL_POSITIONS, &sp, (uint32_t[]){positions, phase}, 2, NULL),
                     "pe");
    return g;
}

static void run_composites(pco_session *session, int decompose, float *out, const char *const *names, const int *sizes)
{
    pco_graph *g = composites();
    OK(pco_graph_check(g, err));
    pco_executable *e;
    pco_executable_params params = {.size = sizeof params, .force_decomposition = decompose};
    OK(pco_executable_create(session, g, &params, &e, err));
    pco_graph_destroy(g);
    float x[320], w[8];
    for (int i = 0; i < 320; i++) x[i] = sinf((float)i * 1.7f) * 2;
    for (int i = 0; i < 8; i++) w[i] = 0.5f + 0.1f * (float)i;
    int32_t lengths[2] = {5, 3}, seed[2] = {12345, -7};
    OK(pco_executable_write(e, pco_executable_tensor(e, "x"), x, sizeof x, err));
    OK(pco_executable_write(e, pco_executable_tensor(e, "w"), w, sizeof w, err));
    OK(pco_executable_write(e, pco_executable_tensor(e, "lengths"), lengths, sizeof lengths, err));
    OK(pco_executable_write(e, pco_executable_tensor(e, "seed"), seed, sizeof seed, err));
    OK(pco_executable_run(e, err));
    for (int i = 0; names[i]; i++) {
        OK(pco_executable_read(e, pco_executable_tensor(e, names[i]), out, (uint64_t)sizes[i] * 4, err));
        out += sizes[i];
    }
    pco_executable_stats stats = pco_executable_counts(e);
    if (stats.parts == 1) assert_true(stats.arena_bytes <= stats.transient_bytes + 65536);
    if (decompose) assert_true(stats.decomposed >= 12);
    pco_executable_destroy(e);
}

/* Each composite and its decomposition agree: f32 arithmetic of a dozen steps, values of order 1. */
static void test_decompositions(void **state)
{
    fixture *f = *state;
    static const char *const names[] = {"mean",        "rstd",      "weights", "relu", "softmax",
                                        "log_softmax", "logsumexp", "pe",      NULL};
    static const int sizes[] = {40, 40, 2 * 4 * 5 * 5, 160, 160, 160, 40, 40};
    static float whole[1000], parts[1000];
    run_composites(f->session, 0, whole, names, sizes);
    run_composites(f->session, 1, parts, names, sizes);
    int at = 0;
    for (int k = 0; names[k]; k++)
        for (int i = 0; i < sizes[k]; i++, at++)
            if (!(fabsf(whole[at] - parts[at]) <= 2e-5f * (1 + fabsf(whole[at]))))
                fail_msg("%s[%d]: %.9g as one op, %.9g decomposed", names[k], i, (double)whole[at], (double)parts[at]);
}

/* The linker sends the library's calls here (--wrap). So often neg is a composite, and becomes neg. */
pco_decompose_fn *__real_pco_op_decomposition(uint32_t op);
pco_decompose_fn *__wrap_pco_op_decomposition(uint32_t op);
static int turns;

static pco_status decompose_turn(pco_graph *graph, const pco_node *node, uint32_t *out, pco_error *err)
{
    (void)err;
    turns--;
    out[0] = pco_unary(graph, PCO_OP_NEG, node->inputs[0]);
    return PCO_OK;
}

pco_decompose_fn *__wrap_pco_op_decomposition(uint32_t op)
{
    return op == PCO_OP_NEG && turns > 0 ? decompose_turn : __real_pco_op_decomposition(op);
}

/* Decompositions of decompositions come to an end; those that do not are an error. */
static void test_circles(void **state)
{
    fixture *f = *state;
    const pco_executable_params params = {.size = sizeof params, .force_decomposition = 1};
    pco_graph *g = pco_graph_create();
    pco_graph_output(g, pco_unary(g, PCO_OP_NEG, pco_graph_input(g, "x", PCO_F32, 1, SHAPE(5))), "y");
    pco_executable *e;
    turns = 8;
    OK(pco_executable_create(f->session, g, &params, &e, err));
    assert_int_equal(turns, 0);
    assert_int_equal(pco_executable_counts(e).decomposed, 8);
    assert_int_equal(pco_executable_counts(e).nodes, 1);
    pco_executable_destroy(e);
    for (int more = 9; more < 1000; more += 900) {
        pco_error err = {""};
        turns = more;
        assert_int_equal(pco_executable_create(f->session, g, &params, &e, &err), PCO_ERROR_INTERNAL);
        assert_int_equal(turns, more - 8);
        assert_null(e);
        if (!strstr(err.message, "after 8 rounds of decompositions 1 operations are left")) fail_msg("%s", err.message);
    }
    turns = 0;
    pco_graph_destroy(g);
}

static void test_fused_matmul(void **state)
{
    fixture *f = *state;
    enum { M = 3, K = 7, N = 5 };
    pco_graph *g = pco_graph_create();
    float w[N * K], b[N], x[M * K], r[M * N], y[M * N];
    for (int i = 0; i < N * K; i++) w[i] = (float)(i % 5 - 2);
    for (int i = 0; i < N; i++) b[i] = (float)i;
    for (int i = 0; i < M * K; i++) x[i] = (float)(i % 3 - 1);
    for (int i = 0; i < M * N; i++) r[i] = (float)(100 * i);
    uint32_t in = pco_graph_input(g, "x", PCO_F32, 2, SHAPE(M, K)),
             res = pco_graph_input(g, "r", PCO_F32, 2, SHAPE(M, N));
    uint32_t t = pco_linear(g, in, pco_graph_constant_copy(g, "w", PCO_F32, 2, SHAPE(N, K), w), PCO_NONE, 0);
    t = pco_binary(g, PCO_OP_ADD, t, pco_graph_constant_copy(g, "b", PCO_F32, 1, SHAPE(N), b));
    t = pco_unary(g, PCO_OP_RELU, t);
    pco_graph_output(g, pco_binary(g, PCO_OP_ADD, res, t), "y");
    pco_executable *e;
    OK(pco_executable_create(f->session, g, NULL, &e, err));
    pco_graph_destroy(g);
    assert_int_equal(pco_executable_counts(e).nodes, 1);
    OK(pco_executable_write(e, pco_executable_tensor(e, "x"), x, sizeof x, err));
    OK(pco_executable_write(e, pco_executable_tensor(e, "r"), r, sizeof r, err));
    OK(pco_executable_run(e, err));
    OK(pco_executable_read(e, pco_executable_tensor(e, "y"), y, sizeof y, err));
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            float sum = b[n];
            for (int k = 0; k < K; k++) sum += x[m * K + k] * w[n * K + k];
            assert_true(y[m * N + n] == (sum > 0 ? sum : 0) + r[m * N + n]);
        }
    pco_executable_destroy(e);
}

/* Two executables share a state; what falls outside is dropped. */
static void test_state(void **state)
{
    fixture *f = *state;
    pco_executable *e[2];
    for (int k = 0; k < 2; k++) {
        pco_graph *g = pco_graph_create();
        uint32_t cache = pco_graph_state(g, "cache", PCO_F32, 3, SHAPE(2, 4, 3));
        uint32_t at = pco_graph_value(g, "at", PCO_I32, 1, SHAPE(2));
        uint32_t x = pco_graph_input(g, "x", PCO_F32, 3, SHAPE(2, k + 1, 3));
        pco_graph_output(g, pco_state_write(g, cache, x, at, 1), "y");
        OK(pco_executable_create(f->session, g, NULL, &e[k], err));
        pco_graph_destroy(g);
    }
    const float x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    float y[24];
    OK(pco_executable_write(e[1], pco_executable_tensor(e[1], "x"), x, sizeof x, err));
    OK(pco_executable_write(e[1], pco_executable_tensor(e[1], "at"), (int32_t[]){0, 3}, 8, err));
    OK(pco_executable_run(e[1], err));
    OK(pco_executable_write(e[0], pco_executable_tensor(e[0], "x"), x, 24, err));
    OK(pco_executable_write(e[0], pco_executable_tensor(e[0], "at"), (int32_t[]){2, 0}, 8, err));
    OK(pco_executable_run(e[0], err));
    OK(pco_executable_read(e[0], pco_executable_tensor(e[0], "y"), y, sizeof y, err));
    const float want[24] = {1, 2, 3, 4, 5, 6, 1, 2, 3, 0, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0, 0, 7, 8, 9};
    assert_memory_equal(y, want, sizeof want);
    OK(pco_session_clear_state(f->session, "cache", err));
    pco_executable_destroy(e[0]);
    pco_executable_destroy(e[1]);
}

static void test_messages(void **state)
{
    (void)state;
    pco_graph *g = pco_graph_create();
    pco_error err;
    uint32_t a = pco_graph_input(g, "left", PCO_F32, 2, SHAPE(3, 5)),
             b = pco_graph_input(g, "right", PCO_F32, 2, SHAPE(4, 6));
    assert_int_equal(pco_matmul(g, a, b, 0, 0), PCO_NONE);
    assert_int_equal(pco_graph_check(g, &err), PCO_ERROR_INVALID);
    assert_non_null(strstr(err.message, "matmul"));
    assert_non_null(strstr(err.message, "left"));
    assert_non_null(strstr(err.message, "[3,5]"));
    assert_non_null(strstr(err.message, "[4,6]"));
    pco_graph_destroy(g);
}

static void test_empty(void **state)
{
    fixture *f = *state;
    pco_graph *g = pco_graph_create();
    uint32_t a = pco_graph_input(g, "a", PCO_F32, 2, SHAPE(0, 5)), w = pco_graph_input(g, "w", PCO_F32, 2, SHAPE(5, 0));
    pco_graph_output(g, pco_matmul(g, w, a, 0, 0), "y"); /* K = 0: zeros */
    pco_graph_output(g, pco_unary(g, PCO_OP_EXP, a), "none");
    pco_executable *e;
    OK(pco_executable_create(f->session, g, NULL, &e, err));
    pco_graph_destroy(g);
    float y[25];
    memset(y, 1, sizeof y);
    OK(pco_executable_run(e, err));
    OK(pco_executable_read(e, pco_executable_tensor(e, "y"), y, sizeof y, err));
    for (int i = 0; i < 25; i++) assert_true(y[i] == 0);
    pco_executable_destroy(e);
}

enum { SMALL = 50, LARGE = 20000 /* more than is compared by content */ };

/* y = x + c, run with x = 1 */
static pco_executable *add_constant(pco_session *session, int64_t n, const float *c)
{
    static float x[LARGE], y[LARGE];
    pco_graph *g = pco_graph_create();
    const uint32_t in = pco_graph_input(g, "x", PCO_F32, 1, &n);
    pco_graph_output(g, pco_binary(g, PCO_OP_ADD, in, pco_graph_constant(g, "c", PCO_F32, 1, &n, c)), "y");
    pco_executable *e;
    OK(pco_executable_create(session, g, NULL, &e, err));
    pco_graph_destroy(g);
    for (int i = 0; i < n; i++) x[i] = 1;
    OK(pco_executable_write(e, pco_executable_tensor(e, "x"), x, (uint64_t)n * sizeof *x, err));
    OK(pco_executable_run(e, err));
    OK(pco_executable_read(e, pco_executable_tensor(e, "y"), y, (uint64_t)n * sizeof *y, err));
    for (int i = 0; i < n; i++)
        if (y[i] != 1 + c[i]) fail_msg("element %d of %d is %g, not %g", i, (int)n, (double)y[i], (double)(1 + c[i]));
    return e;
}

static uint32_t count_constants(const pco_session *session)
{
    uint32_t count = 0;
    for (const session_constant *c = session->constants; c; c = c->next) count++;
    return count;
}

/* Constants whose hashes agree are one only where they hold the same. */
static void test_hashes(void **state)
{
    fixture *f = *state;
    static float one[LARGE], other[LARGE];
    for (int64_t n = SMALL; n <= LARGE; n += LARGE - SMALL) {
        for (int i = 0; i < n; i++) one[i] = other[i] = (float)(i % 100);
        other[n - 1]++;
        assert_int_equal(count_constants(f->session), 0);
        pco_executable *e[3] = {NULL, add_constant(f->session, n, other)};
        assert_int_equal(count_constants(f->session), 1);
        const uint64_t key = f->session->constants->key;
        pco_executable_destroy(e[1]);
        assert_int_equal(count_constants(f->session), 0);
        e[0] = add_constant(f->session, n, one);
        f->session->constants->key = key; /* as if it were the hash of both */
        e[1] = add_constant(f->session, n, other);
        assert_int_equal(count_constants(f->session), 2);
        e[2] = add_constant(f->session, n, other);
        assert_int_equal(count_constants(f->session), 2);
        for (int i = 0; i < 3; i++) pco_executable_destroy(e[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_elementwise), cmocka_unit_test(test_fused_matmul),
                                       cmocka_unit_test(test_state),       cmocka_unit_test(test_messages),
                                       cmocka_unit_test(test_empty),       cmocka_unit_test(test_decompositions),
                                       cmocka_unit_test(test_hashes),      cmocka_unit_test(test_circles)};
    return cmocka_run_group_tests_name("session", tests, open_session, close_session);
}
