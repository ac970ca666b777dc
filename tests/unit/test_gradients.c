/* The rules of differentiation. Each is tried on small tensors with the loss L = sum over outputs of u . y,
 * in float64 by the oracle: every element of its gradient against the central difference of L, which is the
 * adjoint identity <J e_i, u> = <e_i, J^T u> element by element, and on random directions for all operands at
 * once. Then the same graphs run on the device that PORTICO_BACKEND picks, against the float64 result. */
#include "gradient_eval.h"
#include "base/dtype.h"
#include "check_device.h"

#include "cases/cases.h"

#include "graph/graph.h"

#include <math.h>

#define SHAPE(...) \
    (const int64_t[]) \
    { \
        __VA_ARGS__ \
    }
#define BIN(op, a, b) pco_binary(c->graph, PCO_OP_##op, a, b)
#define UN(op, a)     pco_unary(c->graph, PCO_OP_##op, a)

enum { MOST_LEAVES = 24, MOST_OUTPUTS = PCO_MAX_OUTPUTS };

/* One case under construction: its graph, its inputs, and which of them are differentiated. */
typedef struct gradient_case {
    pco_graph *graph;
    const char *name;
    uint64_t seed;
    uint32_t n_leaves;
    uint32_t leaf[MOST_LEAVES];
    unsigned char wrt[MOST_LEAVES];
    double *data[MOST_LEAVES];
    uint32_t out[MOST_OUTPUTS];
} gradient_case;

/* splitmix64 (Steele, Lea, Flood 2014), in [0, 1) */
static double draw(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static uint32_t leaf(gradient_case *c, pco_dtype dtype, double low, double high, uint32_t rank, const int64_t *shape)
{
    char name[16];
    snprintf(name, sizeof name, "in%u", c->n_leaves);
    uint32_t id = pco_graph_input(c->graph, name, dtype, rank, shape), at = c->n_leaves++;
    int64_t count = pco_tensor_elements(&c->graph->tensors[id]);
    c->leaf[at] = id;
    c->data[at] = malloc((size_t)(count + 1) * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        double x = low + (high - low) * draw(&c->seed);
        c->data[at][i] =
            pco_dtype_is_float(dtype) ? oracle_round_to(dtype, x) : floor(x); /* what every device can hold */
    }
    return id;
}

/* An operand to differentiate: f32, or of a half type; one of whole numbers in [low, high). */
static uint32_t half(gradient_case *c, pco_dtype dtype, double low, double high, uint32_t rank, const int64_t *shape)
{
    c->wrt[c->n_leaves] = 1;
    return leaf(c, dtype, low, high, rank, shape);
}

static uint32_t real(gradient_case *c, double low, double high, uint32_t rank, const int64_t *shape)
{
    c->wrt[c->n_leaves] = 1;
    return leaf(c, PCO_F32, low, high, rank, shape);
}

static uint32_t whole(gradient_case *c, double low, double high, uint32_t rank, const int64_t *shape)
{
    return leaf(c, PCO_I32, low, high, rank, shape);
}

static uint32_t truth(gradient_case *c, uint32_t rank, const int64_t *shape)
{
    return leaf(c, PCO_BOOL, 0, 2, rank, shape);
}

static uint32_t add(gradient_case *c, pco_op op, const void *attrs, const uint32_t *in, uint32_t n)
{
    return pco_graph_add(c->graph, op, attrs, in, n, c->out);
}

#include "gradient_cases.h"

/* ---- the loss and its gradients ---- */

/* Adds L = sum u . y as output "loss", and d L / d leaf as "g0", "g1", ... */
static void gradient_finish(gradient_case *c)
{
    pco_graph *g = c->graph;
    uint32_t loss = PCO_NONE, wrt[MOST_LEAVES], gradients[MOST_LEAVES], n = 0, leaves = c->n_leaves;
    for (uint32_t k = 0; k < MOST_OUTPUTS; k++) {
        if (c->out[k] == PCO_NONE) continue;
        pco_tensor y = g->tensors[c->out[k]];
        uint32_t u = leaf(c, PCO_F32, -1, 1, y.rank, y.shape);
        uint32_t terms = pco_reshape(g, pco_binary(g, PCO_OP_MUL, pco_cast(g, c->out[k], PCO_F32), u), 1, SHAPE(-1));
        uint32_t sum = pco_reduce(g, PCO_OP_SUM, terms, 0, 1);
        loss = loss == PCO_NONE ? sum : pco_binary(g, PCO_OP_ADD, loss, sum);
    }
    for (uint32_t i = 0; i < leaves; i++)
        if (c->wrt[i]) wrt[n++] = c->leaf[i];
    pco_error err = {""};
    if (pco_gradients(g, loss, wrt, n, gradients, &err)) fail_msg("%s: %s", c->name, err.message);
    for (uint32_t i = 0, k = 0; i < leaves; i++) {
        char name[16];
        if (!c->wrt[i]) continue;
        const pco_tensor *x = &g->tensors[wrt[k]], *d = &g->tensors[gradients[k]];
        assert_int_equal(x->dtype, d->dtype);
        assert_int_equal(x->rank, d->rank);
        assert_memory_equal(x->shape, d->shape, x->rank * sizeof(int64_t));
        snprintf(name, sizeof name, "g%u", i);
        pco_graph_output(g, gradients[k++], name);
    }
    pco_graph_output(g, loss, "loss");
    if (pco_graph_check(g, &err)) fail_msg("%s: %s", c->name, err.message);
}

static void gradient_make(gradient_case *c, const gradient_row *row)
{
    *c = (gradient_case){.graph = pco_graph_create(), .name = row->name, .seed = 20240607};
    for (uint32_t k = 0; k < MOST_OUTPUTS; k++) c->out[k] = PCO_NONE;
    uint32_t y = row->build(c);
    if (c->out[0] == PCO_NONE) c->out[0] = y;
    gradient_finish(c);
}

static void gradient_clear(gradient_case *c)
{
    pco_graph_destroy(c->graph);
    for (uint32_t i = 0; i < c->n_leaves; i++) free(c->data[i]);
}

/* ---- in float64 ---- */

static double **gradient_values(const gradient_case *c, const pco_graph *lowered)
{
    double **values = calloc(lowered->n_tensors + 1, sizeof(*values));
    for (uint32_t i = 0; i < c->n_leaves; i++) {
        const pco_tensor *x = &c->graph->tensors[c->leaf[i]];
        uint32_t t = pco_graph_find(lowered, x->name);
        values[t] = malloc((size_t)(oracle_count(x) + 1) * sizeof(double));
        memcpy(values[t], c->data[i], (size_t)oracle_count(x) * sizeof(double));
    }
    eval_run(lowered, values);
    return values;
}

static double gradient_loss(const gradient_case *c, const pco_graph *lowered)
{
    double **values = gradient_values(c, lowered);
    double loss = values[pco_graph_find(lowered, "loss")][0];
    eval_free(lowered, values);
    return loss;
}

/* (8 (L(h) - L(-h)) - (L(2h) - L(-2h))) / 12h: wrong by h^4 / 30 of the fifth derivative. */
static double gradient_quotient(const gradient_case *c, const pco_graph *lowered, uint32_t at, int64_t i, double h)
{
    static const double STEPS[4] = {1, -1, 2, -2}, FACTORS[4] = {8, -8, -1, 1};
    const double x = c->data[at][i];
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        c->data[at][i] = x + STEPS[k] * h;
        sum += FACTORS[k] * gradient_loss(c, lowered);
    }
    c->data[at][i] = x;
    return sum / (12 * h);
}

/* Constants of formulas (1/sqrt 2, sqrt(2/pi), ...) are f32 in a graph and exact in the oracle's own
 * composites: 2^-24 relative each, at most four of them meet in one gradient. Differences: h^4/30 = 3e-14
 * times a fifth derivative that is below 1e4 here, and 2^-53 |L| / h = 1e-13 |L|. Together below 4e-7; asked
 * is 1e-6 of the tensor's largest. */
static void gradient_check_float64(const gradient_case *c)
{
    pco_graph *lowered = eval_lowered(c->graph);
    double **values = gradient_values(c, lowered);
    for (uint32_t at = 0; at < c->n_leaves; at++) {
        char name[16];
        if (!c->wrt[at]) continue;
        snprintf(name, sizeof name, "g%u", at);
        const double *g = values[pco_graph_find(lowered, name)];
        int64_t count = oracle_count(&c->graph->tensors[c->leaf[at]]);
        double largest = 1;
        for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(g[i]));
        for (int64_t i = 0; i < count; i++) {
            double quotient = gradient_quotient(c, lowered, at, i, 0x1p-10);
            if (!(fabs(g[i] - quotient) <= 1e-6 * largest))
                fail_msg("%s: d L / d in%u[%lld] is %.10g, the difference quotient says %.10g", c->name, at,
                         (long long)i, g[i], quotient);
        }
    }
    eval_free(lowered, values);
    pco_graph_destroy(lowered);
}

static void test_float64(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof GRADIENT_ROWS / sizeof *GRADIENT_ROWS; i++) {
        gradient_case c;
        gradient_make(&c, &GRADIENT_ROWS[i]);
        gradient_check_float64(&c);
        gradient_clear(&c);
    }
}

/* ---- on a device ---- */

/* The definition that all comparisons with another implementation use: |y - y'| <= 1e-4 (|y| + rms y). Where
 * operands have a half type, a gradient passes through at most eight tensors of that type on its way, each rounded
 * once: 8 u instead, of the coarsest type that there is. */
static void device_compare(const gradient_case *c, pco_executable *e, const char *name, const double *want)
{
    static const double TOLERANCE[] = {[PCO_F32] = 1e-4, [PCO_F16] = 8 * 0x1p-11, [PCO_BF16] = 8 * 0x1p-8};
    uint32_t coarsest = PCO_F32;
    for (uint32_t i = 0; i < c->n_leaves; i++) {
        uint32_t dtype = c->graph->tensors[c->leaf[i]].dtype;
        if (pco_dtype_is_float(dtype) && TOLERANCE[dtype] > TOLERANCE[coarsest]) coarsest = dtype;
    }
    uint32_t handle = pco_executable_tensor(e, name);
    const pco_tensor *x = pco_executable_describe(e, handle);
    int64_t count = oracle_count(x);
    double *have = malloc((size_t)(count + 1) * sizeof *have), square = 0;
    void *data = malloc(x->bytes + 4);
    check_ok(pco_executable_read(e, handle, data, x->bytes, &err));
    oracle_decode(x->dtype, data, have, count);
    for (int64_t i = 0; i < count; i++) square += want[i] * want[i];
    double rms = count ? sqrt(square / (double)count) : 0;
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(have[i] - want[i]) <= TOLERANCE[coarsest] * (fabs(want[i]) + rms)))
            fail_msg("%s: %s[%lld] is %.9g, float64 says %.9g", c->name, name, (long long)i, have[i], want[i]);
    free(data);
    free(have);
}

static void device_case(const gradient_case *c)
{
    pco_graph *lowered = eval_lowered(c->graph);
    double **values = gradient_values(c, lowered);
    pco_executable *e = NULL;
    check_ok(pco_executable_create(device_session, c->graph,
                                   &(pco_executable_params){.size = sizeof(pco_executable_params), .name = c->name}, &e,
                                   &err));
    for (uint32_t i = 0; i < c->n_leaves; i++) {
        const pco_tensor *x = &c->graph->tensors[c->leaf[i]];
        void *data = malloc(x->bytes + 4);
        oracle_encode(x->dtype, c->data[i], data, oracle_count(x));
        if (pco_executable_tensor(e, x->name) != PCO_NONE)
            check_ok(pco_executable_write(e, pco_executable_tensor(e, x->name), data, x->bytes, &err));
        free(data);
    }
    check_ok(pco_executable_run(e, &err));
    for (uint32_t i = 0; i < c->n_leaves; i++) {
        char name[16];
        if (!c->wrt[i]) continue;
        snprintf(name, sizeof name, "g%u", i);
        device_compare(c, e, name, values[pco_graph_find(lowered, name)]);
    }
    pco_executable_destroy(e);
    eval_free(lowered, values);
    pco_graph_destroy(lowered);
}

static void test_device(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof GRADIENT_ROWS / sizeof *GRADIENT_ROWS; i++) {
        gradient_case c;
        gradient_make(&c, &GRADIENT_ROWS[i]);
        device_case(&c);
        gradient_clear(&c);
    }
}

#include "gradient_of_cases.h"

/* ---- what is refused, and what is special ---- */

static void test_errors(void **state)
{
    (void)state;
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "ex", PCO_F32, 2, SHAPE(2, 3)), i = pco_graph_input(g, "eye", PCO_I32, 1, SHAPE(1));
    uint32_t loss = pco_reduce(g, PCO_OP_SUM, pco_reshape(g, x, 1, SHAPE(6)), 0, 1), gradient;
    check_fails(pco_gradients(g, x, &x, 1, &gradient, &err), PCO_ERROR_INVALID, "6 elements");
    check_fails(pco_gradients(g, loss, &i, 1, &gradient, &err), PCO_ERROR_INVALID, "'eye' is i32");
    check_fails(pco_gradients(g, loss, (uint32_t[]){999}, 1, &gradient, &err), PCO_ERROR_INVALID, "no tensor");
    check_ok(pco_graph_check(g, &err));
    uint32_t state_id = pco_graph_state(g, "cache", PCO_F32, 2, SHAPE(2, 3));
    uint32_t after = pco_state_write(g, state_id, x, i, 1);
    loss = pco_reduce(g, PCO_OP_SUM, pco_reshape(g, after, 1, SHAPE(6)), 0, 1);
    check_fails(pco_gradients(g, loss, &x, 1, &gradient, &err), PCO_ERROR_UNSUPPORTED, "'state_write' (state_write_");
    pco_graph_destroy(g);
}

/* No path, a path through integers only, the loss itself, one tensor twice. */
static void test_special(void **state)
{
    (void)state;
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "x", PCO_F32, 1, SHAPE(3)), z = pco_graph_input(g, "z", PCO_F16, 2, SHAPE(2, 2));
    uint32_t k = pco_cast(g, pco_cast(g, x, PCO_I32), PCO_F32);
    uint32_t loss = pco_reduce(g, PCO_OP_SUM, pco_binary(g, PCO_OP_MUL, k, k), 0, 0), gradients[4];
    check_ok(pco_gradients(g, loss, (uint32_t[]){x, z, loss, x}, 4, gradients, &err));
    for (int i = 0; i < 4; i++) {
        const pco_node *made = &g->nodes[g->producers[gradients[i]]];
        assert_int_equal(made->op, PCO_OP_FILL);
        assert_true(((const pco_fill_attrs *)made->attrs)->value == (i == 2));
    }
    assert_int_equal(g->tensors[gradients[1]].dtype, PCO_F16);
    assert_int_equal(g->tensors[gradients[1]].rank, 2);
    pco_graph_destroy(g);
}

/* Ties, infinities and NaN of what picks one of several: as PyTorch 1.13 gives them (printed by it, in float64). Rows
 * of the loss have the weights 1, 2, 3 ... All values and all gradients are exact in f32, so that nothing is tolerated.
 */
enum { PICK_MOST = 20 };

typedef struct pick_case {
    pco_op op;
    int64_t shape[2]; /* of the operands; amax reduces the second */
    double in[2][PICK_MOST], want[2][PICK_MOST];
} pick_case;

static const pick_case PICKS[] = {
    {PCO_OP_MAXIMUM,
     {1, 8},
     {{1, 2, 3, NAN, 5, INFINITY, -INFINITY, 0}, {1, 3, 2, 4, NAN, INFINITY, -INFINITY, -0.0}},
     {{0.5, 0, 3, 4, 5, 3, 3.5, 4}, {0.5, 2, 0, 4, 5, 3, 3.5, 4}}},
    {PCO_OP_MINIMUM,
     {1, 8},
     {{1, 2, 3, NAN, 5, INFINITY, -INFINITY, 0}, {1, 3, 2, 4, NAN, INFINITY, -INFINITY, -0.0}},
     {{0.5, 2, 0, 4, 5, 3, 3.5, 4}, {0.5, 0, 3, 4, 5, 3, 3.5, 4}}},
    {PCO_OP_AMAX,
     {5, 4},
     {{1, 3, 3, 2, 5, 5, 5, 5, 1, NAN, 2, 3, -INFINITY, -INFINITY, -INFINITY, -INFINITY, INFINITY, 0, INFINITY, 0}},
     {{0, 0.5, 0.5, 0, 0.5, 0.5, 0.5, 0.5, NAN, NAN, NAN, NAN, 1, 1, 1, 1, 2.5, 0, 2.5, 0}}},
};

/* The loss and its gradients "g0" and "g1". Returns how many operands there are. */
static int pick_build(const pick_case *one, pco_graph *g)
{
    const int operands = one->op == PCO_OP_AMAX ? 1 : 2;
    uint32_t in[2], gradients[2], y;
    for (int i = 0; i < operands; i++) in[i] = pco_graph_input(g, i ? "in1" : "in0", PCO_F32, 2, one->shape);
    y = operands == 1 ? pco_reduce(g, PCO_OP_AMAX, in[0], 1, 0)
                      : pco_reshape(g, pco_binary(g, one->op, in[0], in[1]), 1, SHAPE(-1));
    uint32_t u = pco_iota(g, PCO_F32, 0, 1, 1, 1, SHAPE(one->op == PCO_OP_AMAX ? one->shape[0] : one->shape[1]));
    uint32_t loss = pco_reduce(g, PCO_OP_SUM, pco_binary(g, PCO_OP_MUL, y, u), 0, 1);
    check_ok(pco_gradients(g, loss, in, (uint32_t)operands, gradients, &err));
    for (int i = 0; i < operands; i++) pco_graph_output(g, gradients[i], i ? "g1" : "g0");
    check_ok(pco_graph_check(g, &err));
    return operands;
}

static void pick_check(const pick_case *one, int operand, const double *got, int nan, const char *where)
{
    for (int64_t i = 0; i < one->shape[0] * one->shape[1]; i++) {
        const double want = one->want[operand][i];
        const int64_t row = one->op == PCO_OP_AMAX ? i / one->shape[1] * one->shape[1] : i;
        int special = 0; /* something here is not finite */
        for (int64_t k = row; k < (one->op == PCO_OP_AMAX ? row + one->shape[1] : row + 1); k++)
            special |= !isfinite(one->in[0][k]) || !isfinite(one->in[1][k]);
        if (special && !nan) continue;
        if (isnan(want) ? !isnan(got[i]) : got[i] != want)
            fail_msg("%s, %s: operand %d, element %d: %g, and PyTorch has %g", where, pco_op_find(one->op)->name,
                     operand, (int)i, got[i], want);
    }
}

static void test_ties(void **state)
{
    (void)state;
    for (size_t p = 0; p < sizeof PICKS / sizeof *PICKS; p++) {
        const pick_case *one = &PICKS[p];
        const int64_t count = one->shape[0] * one->shape[1];
        pco_graph *g = pco_graph_create();
        const int operands = pick_build(one, g);
        pco_graph *lowered = eval_lowered(g);
        double **values = calloc(lowered->n_tensors, sizeof *values);
        static const char *const inputs[] = {"in0", "in1"}, *const outputs[] = {"g0", "g1"};
        pco_executable *e = NULL;
        check_ok(pco_executable_create(device_session, g,
                                       &(pco_executable_params){.size = sizeof(pco_executable_params), .name = "ties"},
                                       &e, &err));
        for (int i = 0; i < operands; i++) {
            const uint32_t at = pco_graph_find(lowered, inputs[i]);
            float data[PICK_MOST];
            values[at] = malloc((size_t)count * sizeof **values);
            memcpy(values[at], one->in[i], (size_t)count * sizeof **values);
            oracle_encode(PCO_F32, one->in[i], data, count);
            check_ok(
                pco_executable_write(e, pco_executable_tensor(e, inputs[i]), data, sizeof *data * (size_t)count, &err));
        }
        eval_run(lowered, values);
        check_ok(pco_executable_run(e, &err));
        for (int i = 0; i < operands; i++) {
            float data[PICK_MOST];
            double got[PICK_MOST];
            pick_check(one, i, values[pco_graph_find(lowered, outputs[i])], 1, "float64");
            check_ok(
                pco_executable_read(e, pco_executable_tensor(e, outputs[i]), data, sizeof *data * (size_t)count, &err));
            oracle_decode(PCO_F32, data, got, count);
            pick_check(one, i, got, pco_session_device(device_session)->contract.nan_inf, "the device");
        }
        pco_executable_destroy(e);
        eval_free(lowered, values);
        pco_graph_destroy(lowered);
        pco_graph_destroy(g);
    }
}

/* A matrix of a half type that a batch was multiplied with: 60000 + 60000 is more than f16 holds, and so is
 * what is taken off again, but their sum is 32. It is rounded once, so it is 32. */
static void test_rounded_once(void **state)
{
    (void)state;
    static const double many[] = {60000, 60000, -60000, -59968}, one = 1;
    for (int side = 0; side < 2; side++) {
        pco_graph *g = pco_graph_create();
        pco_matmul_attrs attrs = {.transpose_a = side, .dtype = PCO_F32};
        uint32_t x = pco_graph_input(g, "x", PCO_F16, 2, SHAPE(1, 1)),
                 batch = pco_graph_input(g, "batch", PCO_F16, 3, SHAPE(2, 1, 2)), gradient;
        uint32_t y =
            pco_graph_add(g, PCO_OP_MATMUL, &attrs, side ? (uint32_t[]){batch, x} : (uint32_t[]){x, batch}, 2, NULL);
        uint32_t loss = pco_reduce(g, PCO_OP_SUM, pco_reshape(g, y, 1, SHAPE(-1)), 0, 1);
        check_ok(pco_gradients(g, loss, &x, 1, &gradient, &err));
        pco_graph_output(g, gradient, "gradient");
        pco_executable *e = NULL;
        uint16_t data[4], got;
        double value;
        check_ok(pco_executable_create(device_session, g,
                                       &(pco_executable_params){.size = sizeof(pco_executable_params), .name = "once"},
                                       &e, &err));
        oracle_encode(PCO_F16, many, data, 4);
        check_ok(pco_executable_write(e, pco_executable_tensor(e, "batch"), data, sizeof data, &err));
        oracle_encode(PCO_F16, &one, &got, 1);
        if (pco_executable_tensor(e, "x") != PCO_NONE)
            check_ok(pco_executable_write(e, pco_executable_tensor(e, "x"), &got, sizeof got, &err));
        check_ok(pco_executable_run(e, &err));
        check_ok(pco_executable_read(e, pco_executable_tensor(e, "gradient"), &got, sizeof got, &err));
        oracle_decode(PCO_F16, &got, &value, 1);
        assert_true(value == 32);
        pco_executable_destroy(e);
        pco_graph_destroy(g);
    }
}

/* Attention's gradient has no tensor of queries by keys; what the op does not cover (a cap) has some. */
static void test_nothing_square(void **state)
{
    (void)state;
    for (int capped = 0; capped < 2; capped++) {
        pco_graph *g = pco_graph_create();
        const pco_scaled_dot_product_attention_attrs attrs = {.causal = 1, .heads_first = 1, .softcap = 2 * capped};
        uint32_t x[3], gradients[3], squares = 0;
        for (int i = 0; i < 3; i++) {
            const char *name = (const char *[]){"q", "k", "v"}[i];
            x[i] = pco_graph_input(g, name, PCO_F32, 4, SHAPE(1, 1, 37, 4));
        }
        uint32_t y = pco_graph_add(g, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, &attrs, x, 3, NULL);
        uint32_t loss = pco_reduce(g, PCO_OP_SUM, pco_reshape(g, y, 1, SHAPE(-1)), 0, 1);
        check_ok(pco_gradients(g, loss, x, 3, gradients, &err));
        for (uint32_t t = 0; t < g->n_tensors; t++) squares += pco_tensor_elements(&g->tensors[t]) >= 37 * 37;
        assert_int_equal(squares > 0, capped);
        pco_graph_destroy(g);
    }
}

/* y = x W^T with a frozen W of each quantised type: the gradient of x passes through W as it is, u W for the loss sum u
 * y. A weight may be rounded three times when its block is read, each time by at most 2^-24 of three times the largest
 * weight (d q + m); then there are ROWS products and sums. */
static void test_frozen(void **state)
{
    enum { COUNT = 3, ROWS = 5, WIDTH = 256 };
    (void)state;
    for (uint32_t dtype = 0; dtype < PCO_DTYPE_COUNT; dtype++) {
        uint64_t seed = 5 + dtype, bytes = 0;
        float w[ROWS * WIDTH], u[COUNT * ROWS], x[COUNT * WIDTH] = {0}, got[COUNT * WIDTH], largest = 0;
        if (!pco_dtype_is_quantised(dtype)) continue;
        for (int i = 0; i < ROWS * WIDTH; i++) w[i] = (float)(2 * draw(&seed) - 1);
        for (int i = 0; i < COUNT * ROWS; i++) u[i] = (float)(2 * draw(&seed) - 1);
        check_ok(pco_dtype_bytes(dtype, 2, SHAPE(ROWS, WIDTH), &bytes, &err));
        void *blocks = malloc(bytes);
        check_ok(pco_dtype_from_f32(dtype, w, ROWS * WIDTH, blocks, &err));
        check_ok(pco_dtype_to_f32(dtype, blocks, ROWS * WIDTH, w, &err));
        for (int i = 0; i < ROWS * WIDTH; i++) largest = fmaxf(largest, fabsf(w[i]));
        pco_graph *g = pco_graph_create();
        const uint32_t a = pco_graph_input(g, "x", PCO_F32, 2, SHAPE(COUNT, WIDTH)),
                       b = pco_graph_constant(g, "w", (pco_dtype)dtype, 2, SHAPE(ROWS, WIDTH), blocks),
                       y = pco_linear(g, a, b, PCO_NONE, 0),
                       terms = pco_binary(g, PCO_OP_MUL, y, pco_graph_input(g, "u", PCO_F32, 2, SHAPE(COUNT, ROWS))),
                       loss = pco_reduce(g, PCO_OP_SUM, pco_reshape(g, terms, 1, SHAPE(-1)), 0, 1);
        uint32_t gradient;
        check_ok(pco_gradients(g, loss, &a, 1, &gradient, &err));
        pco_graph_output(g, gradient, "gradient");
        pco_graph_output(g, loss, "loss");
        pco_executable *e = NULL;
        const pco_executable_params params = {.size = sizeof params, .name = "frozen"};
        check_ok(pco_executable_create(device_session, g, &params, &e, &err));
        check_ok(pco_executable_write(e, pco_executable_tensor(e, "x"), x, sizeof x, &err));
        check_ok(pco_executable_write(e, pco_executable_tensor(e, "u"), u, sizeof u, &err));
        check_ok(pco_executable_run(e, &err));
        check_ok(pco_executable_read(e, pco_executable_tensor(e, "gradient"), got, sizeof got, &err));
        for (int i = 0; i < COUNT * WIDTH; i++) {
            double want = 0, bound = 0;
            for (int n = 0; n < ROWS; n++) {
                const double factor = (double)u[i / WIDTH * ROWS + n], weight = (double)w[n * WIDTH + i % WIDTH];
                want += factor * weight;
                bound += fabs(factor) * (2 * ROWS * fabs(weight) + 3 * 3 * (double)largest) * 0x1p-24;
            }
            if (!(fabs((double)got[i] - want) <= bound))
                fail_msg("%s: the gradient of element %d is %.9g, and should be %.9g", pco_dtype_name(dtype), i,
                         (double)got[i], want);
        }
        pco_executable_destroy(e);
        pco_graph_destroy(g);
        free(blocks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),   cmocka_unit_test(test_errors),         cmocka_unit_test(test_special),
        cmocka_unit_test(test_float64), cmocka_unit_test(test_device),         cmocka_unit_test(test_rounded_once),
        cmocka_unit_test(test_ties),    cmocka_unit_test(test_nothing_square), cmocka_unit_test(test_frozen),
    };
    return cmocka_run_group_tests(tests, device_open, device_close);
}
