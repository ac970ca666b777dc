/* Patterns of nodes that become one: each row of the tables, what must not match it, and what a device makes of the
 * nodes apart and as one, both judged by the bound of the one. The device is what PORTICO_BACKEND picks. */
#include "check_fusion.h"

#include "base/dtype.h"
#include "graph/fusion.h"
#include "graph/passes.h"
#include "run/judge.h"
#include "run/problem.h"
#include "runtime/memory.h"

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

/* The result of a recipe, in y; returns how many nodes the device ran, and how many kernels in *launched. */
static uint32_t run(const recipe *r, const sizes *s, variation with, float *const data[4], float *y, uint32_t *launched)
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
    const uint32_t nodes = pco_executable_counts(executable).nodes;
    *launched = launches(executable);
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
    uint32_t launched[2];
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
        assert_int_equal(run(r, s, WITH[apart], data, y, &launched[apart]), apart ? 1 + n_readers(r) : 1);
        conf_judge(&problem.oracle.out[0], &problem.rules, y, &verdict);
        assert_true(verdict.judged > counts[3] / 3);
        if (verdict.wrong)
            fail_msg("%s, %s: element %d is %.9g, and should be %.9g within %.3g", r->name ? r->name : "all",
                     apart ? "apart" : "as one", (int)verdict.element, verdict.got, verdict.expected, verdict.bound);
        conf_problem_clear(&problem);
    }
    check_launches(r->name ? r->name : "all", launched[0], launched[1], n_readers(r));
    for (uint32_t i = 0; i < 4; i++) free(data[i]);
    free(y);
}

/* Fewer nodes and launches for the device, and the same bound. */
static void test_device(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_RECIPES; i++) compare(&RECIPES[i], &(sizes){3, 37, 19});
    compare(&RECIPES[N_RECIPES - 1], &(sizes){1, 64, 48}); /* one row, as in a step */
}

/* ---- joins ---- */

/* What a graph of swiglu(x gate, x up) has that changes whether the products become one. */
typedef enum pair {
    PAIR_PLAIN,
    PAIR_UP_FIRST, /* in the list of nodes */
    PAIR_BIASES,   /* which lie side by side too */
    PAIRS_THAT_FIT,
    PAIR_GAP = PAIRS_THAT_FIT, /* between the weights */
    PAIR_SWAPPED,              /* up lies before gate */
    PAIR_BIASES_APART,
    PAIR_ONE_BIAS,
    PAIR_OTHER_OPERAND,  /* another x for up */
    PAIR_NOT_TRANSPOSED, /* weights [K,N], whose rows are no columns of the result */
    PAIR_ACTIVATION,     /* in one of the products */
    PAIR_OUTPUT,         /* the host reads a product */
    PAIR_SECOND_READER,  /* another node does */
    PAIR_INPUTS,         /* weights that are no constants */
    PAIR_STATE,          /* x is a state */
    PAIR_VARIANT,        /* a variant of a product, */
    PAIR_READER_VARIANT, /* or of the reader, was asked for */
    PAIRS,
} pair;

typedef struct weights {
    unsigned char matrices[3][1 << 13]; /* gate, up, and room */
    float biases[3][32];
} weights;

static uint64_t matrix_bytes(pco_dtype dtype, const sizes *s)
{
    return (uint64_t)(s->n * s->k) / pco_dtype_block(dtype) * pco_dtype_block_bytes(dtype);
}

static uint32_t pair_product(pco_graph *g, const sizes *s, pco_dtype dtype, const weights *w, pair with, int up)
{
    const int transposed = with != PAIR_NOT_TRANSPOSED, swapped = with == PAIR_SWAPPED && up;
    const int64_t shape[2] = {transposed ? s->n : s->k, transposed ? s->k : s->n};
    const uint64_t bytes = matrix_bytes(dtype, s);
    const unsigned char *data = w->matrices[0] + bytes;
    if (up) data += swapped ? 0 : bytes;
    if (up && with == PAIR_GAP) data += 4;
    if (swapped) data -= bytes;
    uint32_t in[3] = {
        operand(g, with == PAIR_OTHER_OPERAND && up ? "other" : "x", PCO_F32, 2, (const int64_t[]){s->m, s->k}),
        with == PAIR_INPUTS ? operand(g, up ? "up" : "gate", dtype, 2, shape)
                            : pco_graph_constant(g, up ? "up" : "gate", dtype, 2, shape, data),
        PCO_NONE};
    const float *bias = w->biases[0] + (up ? s->n + (with == PAIR_BIASES_APART) : 0);
    if (with == PAIR_BIASES || with == PAIR_BIASES_APART || (with == PAIR_ONE_BIAS && up))
        in[2] = pco_graph_constant(g, up ? "up bias" : "gate bias", PCO_F32, 1, &s->n, bias);
    const pco_matmul_attrs attrs = {
        .transpose_b = transposed, .activation = with == PAIR_ACTIVATION && up, .dtype = -1};
    const uint32_t y = pco_graph_add(g, PCO_OP_MATMUL, &attrs, in, 3, NULL);
    if (with == PAIR_VARIANT && up) g->nodes[g->producers[y]].variant = 0;
    if (with == PAIR_SECOND_READER && up) pco_graph_output(g, pco_unary(g, PCO_OP_NEG, y), "between");
    return with == PAIR_OUTPUT && up ? pco_graph_output(g, y, "between") : y;
}

static pco_graph *pair_graph(const sizes *s, pco_dtype dtype, const weights *w, pair with)
{
    pco_graph *g = pco_graph_create();
    uint32_t in[2];
    if (with == PAIR_STATE) pco_graph_state(g, "x", PCO_F32, 2, (const int64_t[]){s->m, s->k});
    for (int i = 0; i < 2; i++) {
        const int up = with == PAIR_UP_FIRST ? !i : i;
        in[up] = pair_product(g, s, dtype, w, with, up);
    }
    const uint32_t y = pco_graph_add(g, PCO_OP_SWIGLU, NULL, in, 2, NULL);
    if (with == PAIR_READER_VARIANT) g->nodes[g->producers[y]].variant = 0;
    pco_graph_output(g, y, "y");
    check_ok(pco_graph_check(g, &err));
    return g;
}

static void test_pairs(void **state)
{
    (void)state;
    static const weights w;
    const sizes s = {3, 32, 6};
    uint32_t count;
    pco_join_table(&count);
    assert_int_equal(count, 2);
    for (pair with = PAIR_PLAIN; with < PAIRS; with++) {
        pco_graph *g = pair_graph(&s, PCO_F32, &w, with), *joined;
        check_ok(pco_graph_rewrite(g, &(pco_rewrite_params){.fuse = 1}, &joined, &err));
        if (g->n_nodes - joined->n_nodes != (with < PAIRS_THAT_FIT))
            fail_msg("variation %d: %u nodes of %u are left", (int)with, joined->n_nodes, g->n_nodes);
        const pco_node *product = find_product(joined);
        const pco_tensor *b = &joined->tensors[product->inputs[1]];
        if (with < PAIRS_THAT_FIT) {
            assert_int_equal(b->shape[0], 2 * s.n);
            assert_ptr_equal(b->data, w.matrices[0] + b->bytes / 2);
            assert_int_equal(product->inputs[2] != PCO_NONE, with == PAIR_BIASES);
        }
        pco_graph_destroy(joined);
        pco_graph_destroy(g);
    }
}

/* Weights and x of which all sums are exact: whole numbers, and 64ths. A block of Q8_0 whose largest is 127 has scale
 * 1; x is 0 there. */
static void pair_fill(const sizes *s, pco_dtype dtype, weights *w, float *x, float *sums[2])
{
    const int64_t elements = s->n * s->k;
    float *values = malloc((size_t)elements * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < s->m * s->k; i++) x[i] = i % s->k % 32 ? (float)(i * 7 % 5 - 2) / 64 : 0;
    for (int up = 0; up < 2; up++) {
        const uint64_t bytes = matrix_bytes(dtype, s);
        for (int64_t i = 0; i < elements; i++) values[i] = i % 32 ? (float)((i * (5 + up) + i / 9) % 11 - 5) : 127;
        check_ok(pco_dtype_from_f32(dtype, values, elements, w->matrices[0] + bytes * (uint64_t)(1 + up), &err));
        for (int64_t row = 0; row < s->m; row++)
            for (int64_t n = 0; n < s->n; n++) {
                float sum = 0;
                for (int64_t k = 0; k < s->k; k++) sum += x[row * s->k + k] * values[n * s->k + k];
                sums[up][row * s->n + n] = sum;
            }
    }
    free(values);
}

static void pair_compare(const sizes *s, pco_dtype dtype)
{
    static weights w;
    static float x[512], gate[128], up[128], y[128];
    const int64_t shape[2] = {s->m, s->n};
    conf_case one = {.op = PCO_OP_SWIGLU, .regime = CONF_RANDOM, .n_inputs = 2};
    conf_problem problem;
    uint32_t launched[2];
    pair_fill(s, dtype, &w, x, (float *[]){gate, up});
    for (uint32_t i = 0; i < 2; i++) {
        one.in[i] = (conf_operand){.present = true, .dtype = PCO_F32, .rank = 2};
        memcpy(one.in[i].shape, shape, sizeof shape);
    }
    check_ok(conf_problem_make_from(&problem, &one, (const void *const[PCO_MAX_INPUTS]){gate, up},
                                    &pco_session_device(device_session)->contract, &err));
    for (int apart = 0; apart < 2; apart++) {
        pco_executable *executable;
        conf_verdict verdict;
        pco_graph *g = pair_graph(s, dtype, &w, apart ? PAIR_OUTPUT : PAIR_PLAIN);
        check_ok(pco_executable_create(device_session, g, NULL, &executable, &err));
        assert_int_equal(pco_executable_counts(executable).nodes, 2 + apart);
        launched[apart] = launches(executable);
        assert_int_equal(pco_executable_counts(executable).constant_bytes >= 2 * matrix_bytes(dtype, s), 1);
        check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "x"), x,
                                      (uint64_t)(s->m * s->k) * sizeof *x, &err));
        check_ok(pco_executable_run(executable, &err));
        check_ok(pco_executable_read(executable, pco_executable_tensor(executable, "y"), y,
                                     (uint64_t)(s->m * s->n) * sizeof *y, &err));
        conf_judge(&problem.oracle.out[0], &problem.rules, y, &verdict);
        assert_true(verdict.judged > s->m * s->n / 2);
        if (verdict.wrong)
            fail_msg("%s, %s: element %d is %.9g, and should be %.9g within %.3g", pco_dtype_name(dtype),
                     apart ? "apart" : "as one", (int)verdict.element, verdict.got, verdict.expected, verdict.bound);
        pco_executable_destroy(executable);
        pco_graph_destroy(g);
    }
    check_launches("gate and up", launched[0], launched[1], 1);
    conf_problem_clear(&problem);
}

/* Sums are exact, apart and as one; what is made of them is judged as one swiglu. */
static void test_pairs_device(void **state)
{
    (void)state;
    static const pco_dtype DTYPES[] = {PCO_F32, PCO_F16, PCO_Q8_0};
    for (int i = 0; i < 3; i++) {
        pair_compare(&(sizes){3, 64, 20}, DTYPES[i]);
        pair_compare(&(sizes){1, 64, 24}, DTYPES[i]); /* one row, as in a step */
    }
}

/* ---- rows of products ---- */

/* What a graph of x q, x k, x v has that changes which products become one. */
typedef enum row {
    ROW_PLAIN,
    ROW_BIASES,
    ROW_RANK_3,     /* x [1,1,K] */
    ROW_LAST_FIRST, /* v, k, q in the list of nodes */
    ROWS_OF_THREE,
    ROW_GAP = ROWS_OF_THREE, /* between the weights of q and of k */
    ROW_OTHER_OPERAND,       /* another x for v */
    ROWS_OF_TWO,
    ROW_GAPS = ROWS_OF_TWO,
    ROW_TWO_ROWS,       /* x [2,K] */
    ROW_BLOCKS,         /* weights in Q8_0 */
    ROW_BIASES_APART,   /* there is room between them */
    ROW_ONE_BIAS,       /* k has one */
    ROW_SAME_C,         /* k and v add one tensor */
    ROW_NOT_TRANSPOSED, /* weights [K,N] */
    ROW_BATCH,          /* weights [1,N,K] */
    ROW_ACTIVATION,     /* of k */
    ROW_TAKES_IN,       /* the reader of k is taken in */
    ROW_OUTPUT,         /* the host reads k */
    ROW_INPUTS,         /* weights that are no constants */
    ROW_STATE,          /* x is a state */
    ROW_VARIANT,        /* one of k was asked for */
    ROWS,
} row;

enum { ROW_K = 64, ROW_N = 128, ROW_MOST = 4 * ROW_N + 8 }; /* q has two, k and v one */

typedef struct row_weights {
    unsigned char matrices[ROW_MOST * ROW_K * 4], room[64];
    float biases[ROW_MOST];
} row_weights;

static uint32_t row_product(pco_graph *g, pco_dtype dtype, const row_weights *w, row with, int64_t m, int which)
{
    static const char *const NAMES[3][3] = {{"q.w", "q.b", "q"}, {"k.w", "k.b", "k"}, {"v.w", "v.b", "v"}};
    static const int64_t BEGINS[3] = {0, 2 * ROW_N, 3 * ROW_N};
    const int64_t n = which ? ROW_N : 2 * ROW_N, rows = with == ROW_TWO_ROWS ? 2 : m;
    const int64_t gap = (with == ROW_GAP && which) + (with == ROW_GAPS) * which;
    const uint64_t row_bytes = ROW_K / pco_dtype_block(dtype) * pco_dtype_block_bytes(dtype);
    const void *data = w->matrices + (uint64_t)(BEGINS[which] + gap) * row_bytes;
    const int batch = with == ROW_BATCH, flat = with != ROW_RANK_3 && !batch;
    const int64_t x[3] = {1, rows, ROW_K}, straight[3] = {1, n, ROW_K}, turned[2] = {ROW_K, n};
    const int64_t *shape = with == ROW_NOT_TRANSPOSED ? turned : straight + !batch;
    const uint32_t rank = batch ? 3 : 2;
    uint32_t in[4] = {
        operand(g, with == ROW_OTHER_OPERAND && which == 2 ? "other" : "x", PCO_F32, flat ? 2 : 3, x + flat),
        with == ROW_INPUTS ? operand(g, NAMES[which][0], dtype, rank, shape)
                           : pco_graph_constant(g, NAMES[which][0], dtype, rank, shape, data),
        PCO_NONE, PCO_NONE};
    if (with == ROW_BIASES || with == ROW_BIASES_APART || (with == ROW_ONE_BIAS && which == 1))
        in[2] = pco_graph_constant(g, NAMES[which][1], PCO_F32, 1, &n,
                                   w->biases + BEGINS[which] + (with == ROW_BIASES_APART) * which);
    if (with == ROW_SAME_C && which) in[3] = operand(g, "c", PCO_F32, 2, SHAPE(1, ROW_N));
    const pco_matmul_attrs attrs = {
        .transpose_b = with != ROW_NOT_TRANSPOSED, .activation = with == ROW_ACTIVATION && which == 1, .dtype = -1};
    uint32_t y = pco_graph_add(g, PCO_OP_MATMUL, &attrs, in, 4, NULL);
    if (with == ROW_VARIANT && which == 1) g->nodes[g->producers[y]].variant = 0;
    if (with == ROW_OUTPUT && which == 1) y = pco_graph_output(g, y, "between");
    y = pco_unary(g, with == ROW_TAKES_IN && which == 1 ? PCO_OP_RELU : PCO_OP_NEG, y);
    return pco_graph_output(g, y, NAMES[which][2]);
}

static pco_graph *row_graph(pco_dtype dtype, const row_weights *w, row with, int64_t m)
{
    pco_graph *g = pco_graph_create();
    if (with == ROW_STATE) pco_graph_state(g, "x", PCO_F32, 2, SHAPE(1, ROW_K));
    for (int i = 0; i < 3; i++) row_product(g, dtype, w, with, m, with == ROW_LAST_FIRST ? 2 - i : i);
    check_ok(pco_graph_check(g, &err));
    return g;
}

static void test_rows_of_products(void **state)
{
    (void)state;
    static const row_weights w;
    for (row with = ROW_PLAIN; with < ROWS; with++) {
        const uint32_t pieces = with < ROWS_OF_THREE ? 3 : with < ROWS_OF_TWO ? 2 : 0;
        pco_graph *g = row_graph(with == ROW_BLOCKS ? PCO_Q8_0 : PCO_F32, &w, with, 1), *joined;
        check_ok(pco_graph_rewrite(g, &(pco_rewrite_params){.fuse = 1}, &joined, &err));
        if (count_op(joined, PCO_OP_SLICE) != pieces || count_op(joined, PCO_OP_MATMUL) != 3 - pieces + (pieces > 0))
            fail_msg("variation %d: %u products and %u slices", (int)with, count_op(joined, PCO_OP_MATMUL),
                     count_op(joined, PCO_OP_SLICE));
        pco_graph_destroy(joined);
        pco_graph_destroy(g);
    }
}

static void row_fill(pco_dtype dtype, row_weights *w, float x[2 * ROW_K], float sums[2][4 * ROW_N])
{
    static float values[4 * ROW_N * ROW_K];
    for (int i = 0; i < 2 * ROW_K; i++) x[i] = (float)(i * 7 % 5 - 2) / 64;
    for (int i = 0; i < 4 * ROW_N * ROW_K; i++) values[i] = (float)((i * 5 + i / 9) % 11 - 5);
    for (int n = 0; n < 4 * ROW_N; n++) w->biases[n] = (float)(n % 7 - 3);
    check_ok(pco_dtype_from_f32(dtype, values, 4 * ROW_N * ROW_K, w->matrices, &err));
    for (int m = 0; m < 2; m++)
        for (int n = 0; n < 4 * ROW_N; n++) {
            sums[m][n] = w->biases[n];
            for (int k = 0; k < ROW_K; k++) sums[m][n] += x[m * ROW_K + k] * values[n * ROW_K + k];
        }
}

/* All sums are exact, and so is what is made of them. */
static pco_executable *row_run(pco_dtype dtype, const row_weights *w, row with, int64_t m, const float *x,
                               float sums[2][4 * ROW_N])
{
    static const char *const NAMES[3] = {"q", "k", "v"};
    pco_executable *executable;
    float y[2 * 2 * ROW_N];
    pco_graph *g = row_graph(dtype, w, with, m);
    check_ok(pco_executable_create(device_session, g, NULL, &executable, &err));
    check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "x"), x,
                                  (uint64_t)(m * ROW_K) * sizeof *x, &err));
    check_ok(pco_executable_run(executable, &err));
    for (int64_t i = 0, begin = 0; i < 3; i++) {
        const int64_t n = i ? ROW_N : 2 * ROW_N;
        check_ok(pco_executable_read(executable, pco_executable_tensor(executable, NAMES[i]), y,
                                     (uint64_t)(m * n) * sizeof *y, &err));
        for (int64_t k = 0; k < m * n; k++)
            if (y[k] != -sums[k / n][begin + k % n])
                fail_msg("%s, %s: element %d is %.9g, not %.9g", pco_dtype_name(dtype), NAMES[i], (int)k, y[k],
                         -sums[k / n][begin + k % n]);
        begin += n;
    }
    pco_graph_destroy(g);
    return executable;
}

static uint64_t weights_held(void)
{
    pco_memory_total totals[PCO_MEMORY_DEVICES];
    const uint32_t count = pco_session_totals(device_session, totals);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) bytes += totals[i].weights;
    return bytes;
}

/* A step and a prompt, which has the products apart: whichever is there first, the weights are held once. */
static void row_compare(pco_dtype dtype, int prompt_first)
{
    static row_weights w;
    float x[2 * ROW_K], sums[2][4 * ROW_N];
    pco_executable *both[2];
    uint64_t held[2];
    row_fill(dtype, &w, x, sums);
    const uint64_t before = weights_held();
    for (int i = 0; i < 2; i++) {
        const int prompt = prompt_first ? !i : i;
        both[prompt] = row_run(dtype, &w, ROW_BIASES, 1 + prompt, x, sums);
        held[i] = weights_held() - before;
    }
    const uint64_t bytes = 4 * ROW_N * (ROW_K * pco_dtype_block_bytes(dtype) + sizeof(float));
    assert_true(held[0] >= bytes);
    assert_int_equal(held[1], held[0]);
    assert_int_equal(count_op(pco_executable_graph(both[0]), PCO_OP_MATMUL), 1);
    assert_int_equal(count_op(pco_executable_graph(both[1]), PCO_OP_MATMUL), 3);
    if (launches(both[0])) assert_int_equal(launches(both[0]), 4); /* one product and three neg */
    pco_executable_destroy(both[0]);
    pco_executable_destroy(both[1]);
    assert_int_equal(weights_held(), before);
}

static void test_rows_device(void **state)
{
    (void)state;
    static const pco_dtype DTYPES[] = {PCO_F32, PCO_F16, PCO_BF16};
    for (int i = 0; i < 3; i++)
        for (int first = 0; first < 2; first++) row_compare(DTYPES[i], first);
}

/* ---- what a device refuses ---- */

/* A device without gelu in a product, and without wide products. */
static pco_status refuse_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *why)
{
    const pco_node *n = &part->nodes[node];
    const pco_tensor *y = &part->tensors[n->outputs[0]];
    if (n->op == PCO_OP_MATMUL && ((const pco_matmul_attrs *)n->attrs)->activation == 2) return PCO_ERROR_UNSUPPORTED;
    if (n->op == PCO_OP_MATMUL && y->shape[y->rank - 1] > 2 * ROW_N) return PCO_ERROR_UNSUPPORTED;
    return real_plugin->program->supports(device, part, node, why);
}

/* One fused node that a device refuses stays apart; the others are fused. */
static void test_refused(void **state)
{
    (void)state;
    static row_weights w;
    const sizes s = {3, 5, 4};
    pco_graph *g = row_graph(PCO_F32, &w, ROW_PLAIN, 1);
    pco_graph_output(g, pco_unary(g, PCO_OP_RELU, add_product(g, &s, PLAIN)), "relu");
    pco_graph_output(g, pco_unary(g, PCO_OP_GELU, add_product(g, &s, PLAIN)), "gelu");
    check_ok(pco_graph_check(g, &err));
    pco_executable *executable = create_refusing(g, refuse_supports);
    const pco_graph *fused = pco_executable_graph(executable);
    assert_int_equal(count_op(fused, PCO_OP_RELU), 0);
    assert_int_equal(count_op(fused, PCO_OP_GELU), 1);
    assert_int_equal(count_op(fused, PCO_OP_MATMUL), 4); /* q; k and v; two */
    assert_int_equal(count_op(fused, PCO_OP_SLICE), 2);
    pco_executable_destroy(executable);
    pco_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows),         cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_device),       cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_pairs_device), cmocka_unit_test(test_rows_of_products),
                                       cmocka_unit_test(test_rows_device),  cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("fusion", tests, device_open, device_close);
}
