/* AdamW over 200 steps on the device that PORTICO_BACKEND picks. Each step from the float64 reference's own state,
 * within the bound that the oracle derives from the device's contract; then a run of its own, within a first-order
 * estimate. And what an overflow, clipping and the fusing pass must leave alone. */
#include "gradient_eval.h"
#include "check_device.h"

#include "graph/graph.h"

#include <math.h>

#define SHAPE(...) \
    (const int64_t[]) \
    { \
        __VA_ARGS__ \
    }

enum { ROWS = 24, TERMS = 16, COLUMNS = 5, COUNT = TERMS * COLUMNS, STEPS = 200 };

static const double RATE = 0.01, BETA1 = 0.9, BETA2 = 0.999;

/* In [0, 1), by splitmix64's finaliser (Steele, Lea, Flood 2014) over a counter. */
static double draw(uint64_t counter)
{
    uint64_t z = 0x9E3779B97F4A7C15ull * (counter + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* The problem: the mean of (x w - y)^2 / 2 with x near the identity, w in [-1, 1] at first and y so far away that no
 * gradient changes its sign within 200 steps of at most RATE. */
static void problem(float *x, float *y, float *w)
{
    for (int i = 0; i < ROWS * TERMS; i++)
        x[i] = (float)((i / TERMS % TERMS == i % TERMS ? 1 : 0) + 0.01 * draw((uint64_t)i));
    for (int i = 0; i < ROWS * COLUMNS; i++) y[i] = (float)((draw(1000 + (uint64_t)i % COUNT) < 0.5 ? -1 : 1) * 8.0);
    for (int i = 0; i < COUNT; i++) w[i] = (float)(2 * draw(2000 + (uint64_t)i) - 1);
}

/* One step: states, loss, gradient, update. `given`: the gradient is an input instead. */
static pco_graph *step_graph(int given)
{
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "x", PCO_F32, 2, SHAPE(ROWS, TERMS));
    uint32_t y = pco_graph_input(g, "y", PCO_F32, 2, SHAPE(ROWS, COLUMNS));
    uint32_t run = pco_graph_value(g, "run", PCO_F32, 1, SHAPE(3)), gradient;
    const char *const names[3] = {"param", "m", "v"};
    uint32_t states[3], out[PCO_MAX_OUTPUTS];
    for (int i = 0; i < 3; i++) states[i] = pco_graph_state(g, names[i], PCO_F32, 2, SHAPE(TERMS, COLUMNS));
    if (given) {
        gradient = pco_graph_input(g, "gradient", PCO_F32, 2, SHAPE(TERMS, COLUMNS));
    } else {
        uint32_t d = pco_binary(g, PCO_OP_SUB, pco_matmul(g, x, states[0], 0, 0), y);
        uint32_t flat = pco_reshape(g, pco_binary(g, PCO_OP_MUL, d, d), 1, SHAPE(-1));
        uint32_t loss = pco_binary_scalar(g, PCO_OP_MUL, pco_reduce(g, PCO_OP_MEAN, flat, 0, 1), 0.5);
        check_ok(pco_gradients(g, loss, states, 1, &gradient, &err));
        pco_graph_output(g, loss, "loss");
    }
    uint32_t in[5] = {states[0], states[1], states[2], gradient, run};
    pco_adamw_attrs attrs = {.beta1 = BETA1, .beta2 = BETA2, .eps = 1e-8, .weight_decay = 0.01};
    pco_graph_add(g, PCO_OP_ADAMW, &attrs, in, 5, out);
    for (int i = 0; i < 3; i++) pco_graph_output(g, out[i], (const char *[]){"new param", "new m", "new v"}[i]);
    pco_graph_output(g, gradient, "d");
    check_ok(pco_graph_check(g, &err));
    return g;
}

/* Writes inputs of the same names into the three states. */
static pco_graph *load_graph(void)
{
    pco_graph *g = pco_graph_create();
    uint32_t zero = pco_fill(g, PCO_I32, 0, 1, SHAPE(1));
    for (int i = 0; i < 3; i++) {
        uint32_t s = pco_graph_state(g, (const char *[]){"param", "m", "v"}[i], PCO_F32, 2, SHAPE(TERMS, COLUMNS));
        uint32_t x =
            pco_graph_input(g, (const char *[]){"to param", "to m", "to v"}[i], PCO_F32, 2, SHAPE(TERMS, COLUMNS));
        pco_state_write(g, s, x, zero, 1);
    }
    return g;
}

static void put(pco_executable *e, const char *name, const float *data, int count)
{
    if (pco_executable_tensor(e, name) == PCO_NONE) return;
    check_ok(pco_executable_write(e, pco_executable_tensor(e, name), data, (uint64_t)count * 4, &err));
}

static void take(pco_executable *e, const char *name, float *data)
{
    check_ok(pco_executable_read(e, pco_executable_tensor(e, name), data, COUNT * 4, &err));
}

static pco_executable *make(pco_graph *g)
{
    pco_executable *e = NULL;
    check_ok(pco_executable_create(device_session, g, NULL, &e, &err));
    return e;
}

static void put_states(pco_executable *load, float state[3][COUNT])
{
    for (int i = 0; i < 3; i++) put(load, (const char *[]){"to param", "to m", "to v"}[i], state[i], COUNT);
    check_ok(pco_executable_run(load, &err));
}

static void run_values(float *run, int t)
{
    run[0] = (float)RATE;
    run[1] = (float)(1 - pow(BETA1, t));
    run[2] = (float)(1 - pow(BETA2, t));
}

/* ---- the reference ---- */

/* One step in float64 from `state`, which becomes the state after it; *d receives the gradient. */
static void reference_step(const pco_graph *lowered, double state[3][COUNT], const float *x, const float *y,
                           const float *run, double *d)
{
    static const char *const LEAVES[] = {"param", "m", "v", "x", "y", "run"};
    const float *const inputs[] = {x, y, run};
    double **values = calloc(lowered->n_tensors + 1, sizeof(*values));
    for (int k = 0; k < 6; k++) {
        uint32_t t = pco_graph_find(lowered, LEAVES[k]);
        int64_t count = oracle_count(&lowered->tensors[t]);
        values[t] = malloc((size_t)count * sizeof(double));
        for (int64_t i = 0; i < count; i++) values[t][i] = k < 3 ? state[k][i] : (double)inputs[k - 3][i];
    }
    eval_run(lowered, values);
    for (int k = 0; k < 3; k++) {
        const char *const names[] = {"new param", "new m", "new v"};
        memcpy(state[k], values[pco_graph_find(lowered, names[k])], sizeof state[k]);
    }
    memcpy(d, values[pco_graph_find(lowered, "d")], COUNT * sizeof *d);
    eval_free(lowered, values);
}

/* The device's step from state and gradient in f32, by the oracle: values and bounds. */
static void expected_step(oracle_node *node, const oracle_rules *rules, float state[3][COUNT], const float *d,
                          const float *run, pco_tensor *tensors)
{
    static pco_adamw_attrs attrs;
    attrs = (pco_adamw_attrs){.beta1 = BETA1, .beta2 = BETA2, .eps = 1e-8, .weight_decay = 0.01};
    const float *const data[5] = {state[0], state[1], state[2], d, run};
    *node = (oracle_node){.op = PCO_OP_ADAMW, .attrs = &attrs, .n_inputs = 5, .n_outputs = 3, .rules = rules};
    for (int k = 0; k < 5; k++) {
        tensors[k] = (pco_tensor){.dtype = PCO_F32, .rank = 1, .shape = {k < 4 ? COUNT : 3}, .alias = PCO_NONE};
        check_ok(oracle_operand_load(&node->in[k], &tensors[k], data[k], &err));
        if (k < 3) node->out[k].desc = tensors[k];
    }
    check_ok(oracle_run(node, &err));
}

/* ---- tests ---- */

/* 200 steps, each from the reference's state rounded to f32. */
static void test_each_step(void **unused)
{
    (void)unused;
    float x[ROWS * TERMS], y[ROWS * COLUMNS], w[COUNT], run[3], f[3][COUNT], have[COUNT], d[COUNT];
    double state[3][COUNT] = {{0}}, gradient[COUNT], worst = 0;
    problem(x, y, w);
    for (int i = 0; i < COUNT; i++) state[0][i] = (double)w[i];
    pco_graph *whole = step_graph(0), *given = step_graph(1), *loading = load_graph();
    pco_graph *lowered = eval_lowered(whole);
    pco_executable *step = make(given), *load = make(loading);
    oracle_rules rules = oracle_rules_from(&pco_session_device(device_session)->contract);
    for (int t = 1; t <= STEPS; t++) {
        run_values(run, t);
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < COUNT; i++) f[k][i] = (float)state[k][i];
        reference_step(lowered, state, x, y, run, gradient);
        for (int i = 0; i < COUNT; i++) d[i] = (float)gradient[i];
        put_states(load, f);
        put(step, "gradient", d, COUNT);
        put(step, "run", run, 3);
        check_ok(pco_executable_run(step, &err));
        oracle_node node;
        pco_tensor tensors[5];
        expected_step(&node, &rules, f, d, run, tensors);
        for (int k = 0; k < 3; k++) {
            take(step, (const char *[]){"new param", "new m", "new v"}[k], have);
            for (int i = 0; i < COUNT; i++) {
                double error = fabs((double)have[i] - node.out[k].value[i]), bound = node.out[k].bound[i];
                if (!(error <= bound))
                    fail_msg("step %d: output %d[%d] is %.9g, float64 says %.9g with a bound of %.3g", t, k, i,
                             (double)have[i], node.out[k].value[i], bound);
                if (bound > 0 && error / bound > worst) worst = error / bound;
            }
        }
        oracle_node_clear(&node);
    }
    print_message("  worst error / bound of %d steps: %.3f\n", STEPS, worst);
    pco_executable_destroy(step);
    pco_executable_destroy(load);
    pco_graph_destroy(lowered);
    pco_graph_destroy(whole);
    pco_graph_destroy(given);
    pco_graph_destroy(loading);
}

/* How far 200 free steps may lead apart, to first order. With u = 2^-24 and |w| <= 3: a step rounds the parameter
 * twice, 2 u |w|. It moves it by RATE |m| / sqrt(v) <= 1.1 RATE here, of which the relative error is that of m and of
 * sqrt(v): each 1.5 times the gradient's, g, and 8 roundings. g: a dot product of 16 terms, a difference, 24 rows
 * summed, 44 u times the ratio of the sum of magnitudes to the sum, below 3 as y dominates. What an error e of the
 * parameter does to the next gradient is at most e |H| / |g| <= e / 4 relative, RATE of it in the parameter: over
 * 200 steps a growth of exp(200 RATE / 4) = 1.65. */
static double free_estimate(void)
{
    const double u = 0x1p-24, g = 3 * 44 * u;
    return 1.65 * STEPS * (2 * u * 3 + 1.1 * RATE * (3 * g + 8 * u));
}

static void test_free_run(void **unused)
{
    (void)unused;
    float x[ROWS * TERMS], y[ROWS * COLUMNS], w[COUNT], run[3], f[3][COUNT] = {{0}}, have[COUNT], again[COUNT];
    double state[3][COUNT] = {{0}}, gradient[COUNT], worst = 0;
    problem(x, y, w);
    memcpy(f[0], w, sizeof w);
    for (int i = 0; i < COUNT; i++) state[0][i] = (double)w[i];
    pco_graph *whole = step_graph(0), *loading = load_graph(), *lowered = eval_lowered(whole);
    pco_executable *step = make(whole), *load = make(loading);
    put(step, "x", x, ROWS * TERMS);
    put(step, "y", y, ROWS * COLUMNS);
    for (int pass = 0; pass < 2; pass++) { /* the second: the same bits */
        put_states(load, f);
        for (int t = 1; t <= STEPS; t++) {
            run_values(run, t);
            put(step, "run", run, 3);
            check_ok(pco_executable_run(step, &err));
            if (pass == 0) reference_step(lowered, state, x, y, run, gradient);
        }
        take(step, "new param", pass ? again : have);
    }
    assert_memory_equal(have, again, sizeof have);
    for (int i = 0; i < COUNT; i++) {
        assert_true(fabs(state[0][i] - (double)w[i]) > 100 * RATE); /* it went somewhere */
        worst = fmax(worst, fabs((double)have[i] - state[0][i]));
    }
    print_message("  after %d steps %.2g away, estimated %.2g\n", STEPS, worst, free_estimate());
    assert_true(worst <= free_estimate());
    pco_executable_destroy(step);
    pco_executable_destroy(load);
    pco_graph_destroy(lowered);
    pco_graph_destroy(whole);
    pco_graph_destroy(loading);
}

/* The norm, and the factor that clips, of gradients that are small, large, and not finite. */
static void test_clipping(void **unused)
{
    (void)unused;
    static const float FIRST[4] = {3, 0.3f, INFINITY, NAN};
    static const double NORMS[4] = {5, 0.5, INFINITY, NAN};
    for (int k = 0; k < 4; k++) {
        pco_graph *g = pco_graph_create();
        uint32_t t[2] = {pco_graph_input(g, "a", PCO_F32, 2, SHAPE(1, 1)), pco_graph_input(g, "b", PCO_F16, 0, NULL)};
        uint32_t norm = pco_global_norm(g, t, 2);
        pco_graph_output(g, pco_clip_scale(g, norm, 1), "scale");
        pco_graph_output(g, norm, "norm");
        check_ok(pco_graph_check(g, &err));
        pco_executable *e = make(g);
        pco_graph_destroy(g);
        double b = k == 1 ? 0.4 : 4;
        uint16_t half;
        float norm_found, scale;
        oracle_encode(PCO_F16, &b, &half, 1);
        put(e, "a", &FIRST[k], 1);
        check_ok(pco_executable_write(e, pco_executable_tensor(e, "b"), &half, 2, &err));
        check_ok(pco_executable_run(e, &err));
        check_ok(pco_executable_read(e, pco_executable_tensor(e, "norm"), &norm_found, 4, &err));
        check_ok(pco_executable_read(e, pco_executable_tensor(e, "scale"), &scale, 4, &err));
        pco_executable_destroy(e);
        if (k < 2) { /* 0.4 as f16 is 2^-12 relative away at most */
            assert_true(fabs((double)norm_found - NORMS[k]) <= 0x1p-11 * NORMS[k]);
            assert_true(fabs((double)scale - (k ? 1.0 : 0.2)) <= 1e-6);
        } else {
            assert_true(scale != scale);
        }
    }
}

/* A product with the state before it was written, to which something is added after: fused or not, it is that. */
static void test_order(void **unused)
{
    (void)unused;
    pco_graph *g = pco_graph_create();
    uint32_t s = pco_graph_state(g, "matrix", PCO_F32, 2, SHAPE(2, 2)),
             a = pco_graph_input(g, "a", PCO_F32, 2, SHAPE(2, 2));
    uint32_t product = pco_matmul(g, a, s, 0, 0);
    uint32_t after = pco_state_write(g, s, a, pco_fill(g, PCO_I32, 0, 1, SHAPE(1)), 1);
    pco_graph_output(g, pco_binary(g, PCO_OP_ADD, product, a), "sum");
    pco_graph_output(g, after, "after");
    pco_executable *e = make(g);
    pco_graph_destroy(g);
    const float data[4] = {1, 2, 3, 4};
    float sum[4], now[4];
    put(e, "a", data, 4);
    check_ok(pco_executable_run(e, &err));
    check_ok(pco_executable_read(e, pco_executable_tensor(e, "sum"), sum, 16, &err));
    check_ok(pco_executable_read(e, pco_executable_tensor(e, "after"), now, 16, &err));
    assert_memory_equal(sum, data, sizeof data); /* the state held zeros */
    assert_memory_equal(now, data, sizeof data);
    pco_executable_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_step), cmocka_unit_test(test_free_run),
                                       cmocka_unit_test(test_clipping), cmocka_unit_test(test_order)};
    return cmocka_run_group_tests(tests, device_open, device_close);
}
