/* Norms in front of products: which become one node, what must not match, and what a device makes of the nodes apart
 * and as one, both judged by the bound of norm_matmul. The device is what PORTICO_BACKEND picks. */
#include "check_fusion.h"

#include "base/dtype.h"
#include "graph/fusion.h"
#include "graph/passes.h"
#include "run/judge.h"
#include "run/problem.h"

/* What a graph of products of norm(x) has that changes what becomes one. */
typedef enum variation {
    PLAIN,
    NO_WEIGHT,   /* of the norm */
    BIAS,        /* in the products */
    ACTIVATION,  /* in the products */
    TAKES_IN,    /* a product takes in the activation behind it */
    RANK_3,      /* x [1,1,K] */
    ALONE,       /* one product */
    JOINED,      /* the products' weights lie side by side: one node with slices */
    F16_WEIGHTS, /* of the products */
    VARIATIONS_THAT_FIT,
    TWO_ROWS = VARIATIONS_THAT_FIT,
    OUTPUT,         /* the host reads norm(x) */
    OTHER_READER,   /* a node that is no product does */
    TAKES_RESIDUAL, /* a product takes in a sum */
    NOT_TRANSPOSED, /* weights [K,N] */
    BATCH,          /* weights [1,N,K] */
    BLOCKS,         /* weights in Q8_0 */
    X_STATE,        /* x is a state, */
    WEIGHT_STATE,   /* or the norm's weight is one */
    STATS,          /* the norm has more outputs, */
    HALVES,         /* f16 operands, */
    NORM_VARIANT,   /* or a variant of its own */
    VARIANT,        /* of a product */
    AS_WEIGHT,      /* a product has it as its matrix too */
    VARIATIONS_OF_ALL,
    FORM = VARIATIONS_OF_ALL, /* of layer_norm: another one, */
    CORRECTION,               /* or another divisor */
    VARIATIONS,
} variation;

enum { K = 64, N = 40, PRODUCTS = 2 };

typedef struct weights {
    unsigned char b[PRODUCTS * N * K * 4 + 64];
    float bias[PRODUCTS * N], scale[K], shift[K], x[2 * K];
} weights;

static int n_products(variation with) { return with == ALONE || with == AS_WEIGHT ? 1 : PRODUCTS; }

static pco_dtype weight_type(variation with)
{
    return with == F16_WEIGHTS ? PCO_F16 : with == BLOCKS ? PCO_Q8_0 : PCO_F32;
}

/* Where a product's matrix begins. */
static uint64_t matrix_at(variation with, int which)
{
    const pco_dtype dtype = weight_type(with);
    const uint64_t bytes = N * K / pco_dtype_block(dtype) * pco_dtype_block_bytes(dtype);
    return (uint64_t)which * (bytes + (with == JOINED ? 0 : 16));
}

static uint32_t add_norm(pco_graph *g, const weights *w, int layer, variation with, uint32_t x)
{
    const int64_t k = K;
    const pco_layer_norm_attrs layer_attrs = {
        .eps = 1e-5, .form = with == FORM, .correction = with == CORRECTION, .stats = with == STATS};
    const pco_rms_norm_attrs rms_attrs = {.eps = 1e-5, .stats = with == STATS};
    uint32_t in[3] = {x, PCO_NONE, PCO_NONE}, out[PCO_MAX_OUTPUTS];
    if (with == WEIGHT_STATE)
        in[1] = pco_graph_state(g, "scale", PCO_F32, 1, &k);
    else if (with != NO_WEIGHT)
        in[1] = pco_graph_constant(g, "scale", PCO_F32, 1, &k, w->scale);
    if (layer) in[2] = with == WEIGHT_STATE ? PCO_NONE : pco_graph_constant(g, "shift", PCO_F32, 1, &k, w->shift);
    const uint32_t y = pco_graph_add(g, layer ? PCO_OP_LAYER_NORM : PCO_OP_RMS_NORM,
                                     layer ? (const void *)&layer_attrs : (const void *)&rms_attrs, in, 2 + layer, out);
    if (with == NORM_VARIANT) g->nodes[g->producers[y]].variant = 0;
    if (with == OTHER_READER) pco_graph_output(g, pco_unary(g, PCO_OP_NEG, y), "negative");
    return with == OUTPUT ? pco_graph_output(g, y, "between") : y;
}

static void add_product(pco_graph *g, const weights *w, variation with, uint32_t x, int which)
{
    static const char *const NAMES[PRODUCTS][3] = {{"b0", "bias0", "y0"}, {"b1", "bias1", "y1"}};
    const int64_t n = N, straight[3] = {1, N, K}, turned[2] = {K, N};
    const pco_dtype dtype = weight_type(with);
    const pco_matmul_attrs attrs = {
        .transpose_b = with != NOT_TRANSPOSED, .activation = with == ACTIVATION ? 2 : 0, .dtype = -1};
    uint32_t in[4] = {x, PCO_NONE, PCO_NONE, PCO_NONE};
    if (with == HALVES) in[0] = x = pco_cast(g, x, PCO_F16);
    if (with == AS_WEIGHT)
        in[1] = x;
    else
        in[1] = pco_graph_constant(g, NAMES[which][0], dtype, with == BATCH ? 3 : 2,
                                   with == NOT_TRANSPOSED ? turned : straight + (with != BATCH),
                                   w->b + matrix_at(with, which));
    if (with == BIAS) in[2] = pco_graph_constant(g, NAMES[which][1], PCO_F32, 1, &n, w->bias + which * N);
    uint32_t y = pco_graph_add(g, PCO_OP_MATMUL, &attrs, in, 4, NULL);
    if (with == VARIANT && which) g->nodes[g->producers[y]].variant = 0;
    if (with == TAKES_IN) y = pco_unary(g, PCO_OP_RELU, y);
    if (with == TAKES_RESIDUAL && which)
        y = pco_binary(g, PCO_OP_ADD, y, pco_graph_input(g, "residual", PCO_F32, 2, (const int64_t[]){1, N}));
    if (with == JOINED) y = pco_unary(g, PCO_OP_NEG, y); /* pieces of one result are not handed out */
    pco_graph_output(g, y, NAMES[which][2]);
}

static pco_graph *build(const weights *w, int layer, variation with)
{
    pco_graph *g = pco_graph_create();
    const int64_t shape[3] = {1, with == TWO_ROWS ? 2 : 1, K};
    const int flat = with != RANK_3;
    const uint32_t x = with == X_STATE ? pco_graph_state(g, "x", PCO_F32, 2, shape + 1)
                                       : pco_graph_input(g, "x", PCO_F32, 3 - (uint32_t)flat, shape + flat);
    const uint32_t y = add_norm(g, w, layer, with, x);
    for (int i = 0; i < n_products(with); i++) add_product(g, w, with, y, i);
    check_ok(pco_graph_check(g, &err));
    return g;
}

/* All that reads it makes the norm itself, or nothing does. */
static void test_patterns(void **state)
{
    (void)state;
    static const weights w;
    uint32_t count;
    pco_intake_table(&count);
    assert_int_equal(count, 2); /* rms_norm and layer_norm */
    for (int layer = 0; layer < 2; layer++)
        for (variation with = PLAIN; with < (layer ? VARIATIONS : VARIATIONS_OF_ALL); with++) {
            pco_graph *g = build(&w, layer, with), *fused;
            const int fits = with < VARIATIONS_THAT_FIT;
            const uint32_t products = with == JOINED ? 1 : (uint32_t)n_products(with);
            check_ok(pco_graph_rewrite(g, &(pco_rewrite_params){.fuse = 1}, &fused, &err));
            if (count_op(fused, PCO_OP_NORM_MATMUL) != (fits ? products : 0) ||
                count_op(fused, layer ? PCO_OP_LAYER_NORM : PCO_OP_RMS_NORM) != !fits)
                fail_msg("%s, variation %d: %u of norm_matmul, %u products, %u norms",
                         layer ? "layer_norm" : "rms_norm", (int)with, count_op(fused, PCO_OP_NORM_MATMUL),
                         count_op(fused, PCO_OP_MATMUL), count_op(fused, layer ? PCO_OP_LAYER_NORM : PCO_OP_RMS_NORM));
            for (uint32_t i = 0; i < fused->n_nodes; i++) {
                const pco_norm_matmul_attrs *attrs = fused->nodes[i].attrs;
                if (fused->nodes[i].op != PCO_OP_NORM_MATMUL) continue;
                assert_int_equal(attrs->norm, layer);
                assert_true(attrs->eps == 1e-5);
                assert_int_equal(attrs->activation, with == ACTIVATION ? 2 : with == TAKES_IN ? 1 : 0);
            }
            pco_graph_destroy(fused);
            pco_graph_destroy(g);
        }
}

/* ---- on a device ---- */

static void fill(weights *w, variation with)
{
    const pco_dtype dtype = weight_type(with);
    float values[PRODUCTS * N * K];
    uint32_t seed = 7;
    float *const all[4] = {values, w->bias, w->scale, w->x};
    const uint32_t counts[4] = {PRODUCTS * N * K, PRODUCTS * N, 2 * K /* and shift */, 2 * K};
    for (uint32_t a = 0; a < 4; a++)
        for (uint32_t i = 0; i < counts[a]; i++) {
            seed = seed * 1664525u + 1013904223u;
            all[a][i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
        }
    for (int i = 0; i < PRODUCTS; i++)
        check_ok(pco_dtype_from_f32(dtype, values + i * N * K, N * K, w->b + matrix_at(with, i), &err));
}

/* Product `which` as a case. Nodes apart hand on f32, so that a device which computes in double rounds between them. */
static void answer(const weights *w, int layer, variation with, int which, int apart, conf_case *one,
                   conf_problem *problem)
{
    const int64_t shapes[5][2] = {{1, K}, {N, K}, {N, 0}, {K, 0}, {K, 0}};
    const int present[5] = {1, 1, with == BIAS, with != NO_WEIGHT, layer};
    const pco_norm_matmul_attrs attrs = {.norm = layer,
                                         .eps = 1e-5,
                                         .activation = with == ACTIVATION ? 2
                                                       : with == TAKES_IN ? 1
                                                                          : 0};
    const pco_dtype dtype = weight_type(with);
    const void *const data[5] = {w->x, w->b + matrix_at(with, which), w->bias + which * N, w->scale, w->shift};
    const void *operands[PCO_MAX_INPUTS] = {NULL};
    pco_contract contract = pco_session_device(device_session)->contract;
    if (apart) contract.compute = PCO_F32;
    *one = (conf_case){.op = PCO_OP_NORM_MATMUL, .regime = CONF_RANDOM, .attrs_size = sizeof attrs};
    memcpy(one->attrs.bytes, &attrs, sizeof attrs);
    for (uint32_t i = 0; i < 5; i++) {
        if (!present[i]) continue;
        one->in[i] = (conf_operand){.present = true, .dtype = i == 1 ? dtype : PCO_F32, .rank = i < 2 ? 2 : 1};
        memcpy(one->in[i].shape, shapes[i], sizeof shapes[i]);
        operands[i] = data[i];
        one->n_inputs = i + 1;
    }
    check_ok(conf_problem_make_from(problem, one, operands, &contract, &err));
}

/* Returns whether the device has run it so; what it refuses as one, it runs apart. `all` receives the results, and
 * *launched how many kernels ran. */
static int compare(const weights *w, int layer, variation with, int apart, float all[PRODUCTS][N], uint32_t *launched)
{
    static const char *const NAMES[PRODUCTS] = {"y0", "y1"};
    pco_executable *executable;
    pco_graph *g = build(w, layer, with);
    if (apart) g->nodes[0].variant = 0; /* asked for, so that it stays */
    check_ok(pco_executable_create(device_session, g, NULL, &executable, &err));
    const int products = with == JOINED ? 1 : n_products(with), slices = with == JOINED ? 2 * PRODUCTS : 0;
    const int refused = !apart && count_op(pco_executable_graph(executable), PCO_OP_NORM_MATMUL) == 0;
    if (refused) apart = 1;
    assert_int_equal(count_op(pco_executable_graph(executable), PCO_OP_NORM_MATMUL), apart ? 0 : products);
    assert_int_equal(pco_executable_counts(executable).nodes, products + slices + apart);
    *launched = launches(executable);
    check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "x"), w->x, K * sizeof(float), &err));
    check_ok(pco_executable_run(executable, &err));
    for (int i = 0; i < n_products(with); i++) {
        conf_case one;
        conf_problem problem;
        conf_verdict verdict;
        float *y = all[i];
        answer(w, layer, with, i, apart, &one, &problem);
        check_ok(pco_executable_read(executable, pco_executable_tensor(executable, NAMES[i]), y, sizeof all[i], &err));
        for (int k = 0; k < N && with == JOINED; k++) y[k] = -y[k];
        conf_judge(&problem.oracle.out[0], &problem.rules, y, &verdict);
        assert_true(verdict.judged > N / 3);
        if (verdict.wrong)
            fail_msg("%s, variation %d, %s: element %d is %.9g, and should be %.9g within %.3g",
                     layer ? "layer_norm" : "rms_norm", (int)with, apart ? "apart" : "as one", (int)verdict.element,
                     verdict.got, verdict.expected, verdict.bound);
        conf_problem_clear(&problem);
    }
    pco_executable_destroy(executable);
    pco_graph_destroy(g);
    return !refused;
}

/* A node and a launch less for the device, and the same bound; without a bias on any device. On cpu:native the same
 * bits. */
static void test_device(void **state)
{
    (void)state;
    static weights w;
    const pco_device_info *device = pco_session_device(device_session);
    const int on_cpu = device->type == PCO_DEVICE_CPU && device->contract.compute == PCO_F32;
    for (int layer = 0; layer < 2; layer++)
        for (variation with = PLAIN; with < VARIATIONS_THAT_FIT; with++) {
            if (with == RANK_3) continue;
            fill(&w, with);
            float y[2][PRODUCTS][N] = {{{0}}};
            uint32_t launched[2];
            int as_asked[2];
            for (int apart = 0; apart < 2; apart++) {
                as_asked[apart] = compare(&w, layer, with, apart, y[apart], &launched[apart]);
                assert_true(as_asked[apart] || layer || with == BIAS);
            }
            if (as_asked[0])
                check_launches(layer ? "layer_norm in front" : "rms_norm in front", launched[0], launched[1], 1);
            if (on_cpu) assert_memory_equal(y[0], y[1], sizeof y[0]);
        }
}

/* ---- what a device refuses ---- */

static pco_status refuse_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *why)
{
    if (part->nodes[node].op == PCO_OP_NORM_MATMUL) return PCO_ERROR_UNSUPPORTED;
    return real_plugin->program->supports(device, part, node, why);
}

/* The norm stays, and the products keep what else they have taken in. */
static void test_refused(void **state)
{
    (void)state;
    static weights w;
    pco_graph *g = build(&w, 0, TAKES_IN);
    pco_executable *executable = create_refusing(g, refuse_supports);
    const pco_graph *fused = pco_executable_graph(executable);
    assert_int_equal(count_op(fused, PCO_OP_RMS_NORM), 1);
    assert_int_equal(count_op(fused, PCO_OP_MATMUL), PRODUCTS);
    assert_int_equal(fused->n_nodes, 1 + PRODUCTS);
    pco_executable_destroy(executable);
    pco_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_patterns), cmocka_unit_test(test_device),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("intake", tests, device_open, device_close);
}
