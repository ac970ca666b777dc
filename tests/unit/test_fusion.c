/* Patterns of nodes that become one: each row of the table, what must not match it, and what a device makes of the
 * nodes apart and as one, both judged by the bound of the one. The device is what PORTICO_BACKEND picks. */
#include "check_device.h"

#include "graph/build.h"
#include "graph/fusion.h"
#include "graph/passes.h"
#include "run/judge.h"
#include "run/problem.h"

enum { MOST_READERS = 3 };

/* What a graph has that changes whether its nodes match. */
typedef enum variation {
    PLAIN,
    FLIPPED,        /* the sum's operands the other way round */
    HAS_BIAS,       /* the product has a bias already, */
    HAS_C,          /* an operand c, */
    HAS_ACTIVATION, /* or an activation */
    OUTPUT,         /* the host reads what lies between */
    SECOND_READER,  /* another node reads it */
    HALF,           /* all is f16 */
    OTHER_SHAPE,    /* what is added has another shape */
    TWICE,          /* what is added is the product */
    VARIANT,        /* a variant of the product was asked for */
    WRITTEN,        /* the weight is written before the reader runs */
    VARIATIONS,
} variation;

typedef struct reader {
    pco_op op;
    pco_fusion_other other;
    int64_t approximate; /* of gelu */
} reader;

/* A product, and nodes one behind the other that read it; then what it is as one node. */
typedef struct recipe {
    const char *name; /* of the row that matches; without one, several do */
    reader readers[MOST_READERS];
    uint32_t fits; /* variations with which it still matches */
    int bias, c;
    int64_t activation;
} recipe;

#define FITS(x)  (1u << (x))
#define FITS_ALL (FITS(PLAIN) | FITS(FLIPPED))

static const recipe RECIPES[] = {
    {"matmul, bias", {{PCO_OP_ADD, PCO_FUSION_ROW, 0}}, FITS_ALL, 1, 0, 0},
    {"matmul, residual",
     {{PCO_OP_ADD, PCO_FUSION_TENSOR, 0}},
     FITS_ALL | FITS(HAS_BIAS) | FITS(HAS_ACTIVATION),
     0,
     1,
     0},
    {"matmul, relu", {{PCO_OP_RELU, PCO_FUSION_NOTHING, 0}}, FITS_ALL | FITS(HAS_BIAS), 0, 0, 1},
    {"matmul, gelu", {{PCO_OP_GELU, PCO_FUSION_NOTHING, 0}}, FITS_ALL | FITS(HAS_BIAS), 0, 0, 2},
    {"matmul, gelu (tanh)", {{PCO_OP_GELU, PCO_FUSION_NOTHING, 1}}, FITS_ALL | FITS(HAS_BIAS), 0, 0, 3},
    {"matmul, silu", {{PCO_OP_SILU, PCO_FUSION_NOTHING, 0}}, FITS_ALL | FITS(HAS_BIAS), 0, 0, 4},
    {NULL,
     {{PCO_OP_ADD, PCO_FUSION_ROW, 0}, {PCO_OP_GELU, PCO_FUSION_NOTHING, 1}, {PCO_OP_ADD, PCO_FUSION_TENSOR, 0}},
     FITS_ALL,
     1,
     1,
     3},
};
enum { N_RECIPES = sizeof RECIPES / sizeof *RECIPES };

#define SHAPE(...) \
    (const int64_t[]) \
    { \
        __VA_ARGS__ \
    }

typedef struct sizes {
    int64_t m, k, n;
} sizes;

/* ---- graphs ---- */

static uint32_t n_readers(const recipe *r)
{
    uint32_t count = 0;
    while (count < MOST_READERS && r->readers[count].op) count++;
    return count;
}

static uint32_t operand(pco_graph *g, const char *name, pco_dtype dtype, uint32_t rank, const int64_t *shape)
{
    const uint32_t known = pco_graph_find(g, name);
    return known != PCO_NONE ? known : pco_graph_input(g, name, dtype, rank, shape);
}

static uint32_t add_product(pco_graph *g, const sizes *s, variation with)
{
    const pco_dtype dtype = with == HALF ? PCO_F16 : PCO_F32;
    const int64_t a[2] = {s->m, s->k}, w[2] = {s->k, s->n}, y[2] = {s->m, s->n};
    uint32_t in[4] = {operand(g, "a", dtype, 2, a),
                      with == WRITTEN ? pco_graph_state(g, "w", dtype, 2, w) : operand(g, "w", dtype, 2, w), PCO_NONE,
                      PCO_NONE};
    if (with == HAS_BIAS) in[2] = operand(g, "own bias", dtype, 1, &s->n);
    if (with == HAS_C) in[3] = operand(g, "own c", dtype, 2, y);
    const pco_matmul_attrs attrs = {.activation = with == HAS_ACTIVATION, .dtype = -1};
    const uint32_t product = pco_graph_add(g, PCO_OP_MATMUL, &attrs, in, 4, NULL);
    if (with == VARIANT) g->nodes[g->producers[product]].variant = 0;
    if (with == WRITTEN)
        pco_state_write(g, in[1], pco_graph_input(g, "new", dtype, 2, (const int64_t[]){s->k, 1}),
                        pco_graph_value(g, "at", PCO_I32, 1, &s->k), 1);
    return product;
}

static uint32_t add_reader(pco_graph *g, const reader *r, uint32_t y, const sizes *s, variation with)
{
    const pco_dtype dtype = with == HALF ? PCO_F16 : PCO_F32;
    if (r->op == PCO_OP_GELU)
        return pco_graph_add(g, PCO_OP_GELU, &(pco_gelu_attrs){.approximate = r->approximate}, &y, 1, NULL);
    if (r->other == PCO_FUSION_NOTHING) return pco_unary(g, r->op, y);
    const uint32_t other = with == TWICE                ? y
                           : with == OTHER_SHAPE        ? operand(g, "column", dtype, 2, (const int64_t[]){s->m, 1})
                           : r->other == PCO_FUSION_ROW ? operand(g, "bias", dtype, 1, &s->n)
                                                        : operand(g, "c", dtype, 2, (const int64_t[]){s->m, s->n});
    return with == FLIPPED ? pco_binary(g, r->op, other, y) : pco_binary(g, r->op, y, other);
}

static pco_graph *build(const recipe *r, const sizes *s, variation with)
{
    pco_graph *g = pco_graph_create();
    char name[20];
    uint32_t y = add_product(g, s, with);
    for (uint32_t i = 0; i < n_readers(r); i++) {
        snprintf(name, sizeof name, "between %u", i);
        if (with == OUTPUT) y = pco_graph_output(g, y, name);
        if (with == SECOND_READER) pco_graph_output(g, pco_unary(g, PCO_OP_NEG, y), name);
        y = add_reader(g, &r->readers[i], y, s, with);
    }
    pco_graph_output(g, y, "y");
    check_ok(pco_graph_check(g, &err));
    return g;
}

static const pco_node *find_product(const pco_graph *g)
{
    const pco_node *found = NULL;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == PCO_OP_MATMUL) found = &g->nodes[i];
    assert_non_null(found);
    return found;
}

/* Is the variation another graph at all for this recipe? */
static int applies(const recipe *r, variation with)
{
    if (with == FLIPPED || with == OTHER_SHAPE || with == TWICE) return r->readers[0].other != PCO_FUSION_NOTHING;
    return 1;
}

static void expect(const recipe *r, variation with)
{
    const sizes s = {3, 5, 4};
    pco_graph *g = build(r, &s, with), *fused;
    check_ok(pco_graph_rewrite(g, &(pco_rewrite_params){.fuse = 1}, &fused, &err));
    const int fits = r->fits >> with & 1;
    const pco_node *product = find_product(fused);
    const pco_matmul_attrs *attrs = product->attrs;
    const uint32_t gone = g->n_nodes - fused->n_nodes;
    if (gone != (fits ? n_readers(r) : 0))
        fail_msg("%s, variation %d: %u nodes became others", r->name ? r->name : "all", (int)with, gone);
    assert_int_equal(product->inputs[2] != PCO_NONE, (fits && r->bias) || with == HAS_BIAS);
    assert_int_equal(product->inputs[3] != PCO_NONE, (fits && r->c) || with == HAS_C);
    assert_int_equal(attrs->activation, with == HAS_ACTIVATION ? 1 : fits ? r->activation : 0);
    if (fits) assert_string_equal(fused->tensors[product->outputs[0]].name, "y");
    pco_graph_destroy(fused);
    check_ok(pco_graph_rewrite(g, &(pco_rewrite_params){.fuse = 0}, &fused, &err));
    assert_int_equal(fused->n_nodes, g->n_nodes);
    pco_graph_destroy(fused);
    pco_graph_destroy(g);
}

/* Each row has a recipe of its own, which it matches, and does not with one thing changed. */
static void test_rows(void **state)
{
    (void)state;
    uint32_t count, named = 0;
    const pco_fusion *rows = pco_fusion_table(&count);
    for (uint32_t i = 0; i < N_RECIPES; i++) {
        const recipe *r = &RECIPES[i];
        uint32_t row = 0;
        while (r->name && row < count && strcmp(rows[row].name, r->name) != 0) row++;
        if (row == count) fail_msg("there is no row '%s'", r->name);
        named += r->name != NULL;
        for (variation with = PLAIN; with < VARIATIONS; with++)
            if (applies(r, with) && (r->name || with == PLAIN)) expect(r, with);
    }
    assert_int_equal(named, count);
}

/* The order of what a matmul computes counts: of a chain, only what fits goes. */
static void test_order(void **state)
{
    (void)state;
    const sizes s = {3, 5, 4};
    pco_graph *g = pco_graph_create(), *fused;
    uint32_t y = add_product(g, &s, PLAIN);
    y = pco_binary(g, PCO_OP_ADD, y, operand(g, "c", PCO_F32, 2, SHAPE(3, 4)));
    pco_graph_output(g, pco_unary(g, PCO_OP_RELU, y), "y"); /* relu is not in front of c */
    check_ok(pco_graph_rewrite(g, &(pco_rewrite_params){.fuse = 1}, &fused, &err));
    assert_int_equal(fused->n_nodes, 2);
    assert_int_equal(((const pco_matmul_attrs *)find_product(fused)->attrs)->activation, 0);
    pco_graph_destroy(fused);
    pco_graph_destroy(g);
}

/* ---- on a device ---- */

static void fill(float *x, int64_t count, uint32_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
    }
}

/* The result of a recipe, in y; returns how many nodes the device ran. */
static uint32_t run(const recipe *r, const sizes *s, variation with, float *const data[4], float *y)
{
    static const char *const NAMES[4] = {"a", "w", "bias", "c"};
    const int64_t counts[4] = {s->m * s->k, s->k * s->n, s->n, s->m * s->n};
    pco_executable *executable;
    pco_graph *g = build(r, s, with);
    check_ok(pco_executable_create(device_session, g, NULL, &executable, &err));
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t handle = pco_executable_tensor(executable, NAMES[i]);
        if (handle == PCO_NONE) continue;
        check_ok(pco_executable_write(executable, handle, data[i], (uint64_t)counts[i] * sizeof *data[i], &err));
    }
    check_ok(pco_executable_run(executable, &err));
    check_ok(pco_executable_read(executable, pco_executable_tensor(executable, "y"), y, (uint64_t)counts[3] * sizeof *y,
                                 &err));
    const uint32_t nodes = pco_executable_inspect(executable).nodes;
    pco_executable_destroy(executable);
    pco_graph_destroy(g);
    return nodes;
}

/* The node that a recipe becomes, as a case with these operands. Nodes apart hand on f32, so that a device which
 * computes in double rounds between them, and as one only at the end. */
static void answer(const recipe *r, const sizes *s, float *const data[4], int apart, conf_case *one,
                   conf_problem *problem)
{
    const int64_t shapes[4][2] = {{s->m, s->k}, {s->k, s->n}, {s->n, 0}, {s->m, s->n}};
    const int present[4] = {1, 1, r->bias, r->c};
    const pco_matmul_attrs attrs = {.activation = r->activation, .dtype = -1};
    const void *operands[PCO_MAX_INPUTS] = {NULL};
    pco_contract contract = pco_session_device(device_session)->contract;
    if (apart) contract.compute = PCO_F32;
    *one = (conf_case){.op = PCO_OP_MATMUL, .regime = CONF_RANDOM, .attrs_size = sizeof attrs};
    memcpy(one->attrs.bytes, &attrs, sizeof attrs);
    for (uint32_t i = 0; i < 4; i++) {
        if (!present[i]) continue;
        one->in[i] = (conf_operand){.present = true, .dtype = PCO_F32, .rank = i == 2 ? 1 : 2};
        memcpy(one->in[i].shape, shapes[i], sizeof shapes[i]);
        operands[i] = data[i];
        one->n_inputs = i + 1;
    }
    check_ok(conf_problem_make_from(problem, one, operands, &contract, &err));
}

static void compare(const recipe *r, const sizes *s)
{
    const int64_t counts[4] = {s->m * s->k, s->k * s->n, s->n, s->m * s->n};
    static const variation WITH[2] = {PLAIN, OUTPUT};
    float *data[4], *y = malloc((size_t)counts[3] * sizeof *y);
    assert_non_null(y);
    for (uint32_t i = 0; i < 4; i++) {
        assert_non_null(data[i] = malloc((size_t)counts[i] * sizeof(float)));
        fill(data[i], counts[i], i + 1);
    }
    for (int apart = 0; apart < 2; apart++) {
        conf_case one;
        conf_problem problem;
        conf_verdict verdict;
        answer(r, s, data, apart, &one, &problem);
        assert_int_equal(run(r, s, WITH[apart], data, y), apart ? 1 + n_readers(r) : 1);
        conf_judge(&problem.oracle.out[0], &problem.rules, y, &verdict);
        assert_true(verdict.judged > counts[3] / 3);
        if (verdict.wrong)
            fail_msg("%s, %s: element %d is %.9g, and should be %.9g within %.3g", r->name ? r->name : "all",
                     apart ? "apart" : "as one", (int)verdict.element, verdict.got, verdict.expected, verdict.bound);
        conf_problem_clear(&problem);
    }
    for (uint32_t i = 0; i < 4; i++) free(data[i]);
    free(y);
}

/* Fewer nodes for the device, and the same bound. */
static void test_device(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_RECIPES; i++) compare(&RECIPES[i], &(sizes){3, 37, 19});
    compare(&RECIPES[N_RECIPES - 1], &(sizes){1, 64, 48}); /* one row, as in a step */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_device)};
    return cmocka_run_group_tests_name("fusion", tests, device_open, device_close);
}
