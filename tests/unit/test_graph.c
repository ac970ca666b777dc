/* Building graphs: what inference gives, what it refuses and in which words, what the passes keep. */
#include "check.h"

#include "graph/graph.h"
#include "graph/infer.h"
#include "graph/op_rules.h"
#include "graph/passes.h"

#define SHAPE(...) \
    (const int64_t[]) \
    { \
        __VA_ARGS__ \
    }

static void expect_shape(const pco_graph *g, uint32_t t, uint32_t dtype, uint32_t rank, const int64_t *shape)
{
    assert_int_not_equal(t, PCO_NONE);
    assert_int_equal(g->tensors[t].dtype, dtype);
    assert_int_equal(g->tensors[t].rank, rank);
    for (uint32_t i = 0; i < rank; i++) assert_int_equal(g->tensors[t].shape[i], shape[i]);
}

static void test_shapes(void **state)
{
    (void)state;
    pco_graph *g = pco_graph_create();
    uint32_t a = pco_graph_input(g, "a", PCO_F32, 3, SHAPE(2, 1, 5)),
             b = pco_graph_input(g, "b", PCO_F32, 2, SHAPE(4, 1));
    expect_shape(g, pco_binary(g, PCO_OP_ADD, a, b), PCO_F32, 3, SHAPE(2, 4, 5));
    expect_shape(g, pco_binary(g, PCO_OP_LT, a, b), PCO_BOOL, 3, SHAPE(2, 4, 5));
    uint32_t w = pco_graph_input(g, "w", PCO_F16, 2, SHAPE(7, 5));
    expect_shape(g, pco_linear(g, a, w, PCO_NONE, 0), PCO_F32, 3, SHAPE(2, 1, 7));
    uint32_t i = pco_graph_input(g, "i", PCO_I32, 2, SHAPE(3, 6));
    expect_shape(g, pco_gather(g, a, i, 2), PCO_F32, 4, SHAPE(2, 1, 3, 6));
    expect_shape(g, pco_reduce(g, PCO_OP_MEAN, a, -1, 0), PCO_F32, 2, SHAPE(2, 1));
    expect_shape(g, pco_argmax(g, a, 2, 1), PCO_I32, 3, SHAPE(2, 1, 1));
    expect_shape(g, pco_reshape(g, a, 2, SHAPE(-1, 5)), PCO_F32, 2, SHAPE(2, 5));
    expect_shape(g, pco_concat(g, (uint32_t[]){a, a, a}, 3, 1), PCO_F32, 3, SHAPE(2, 3, 5));
    uint32_t many[17];
    for (int k = 0; k < 17; k++) many[k] = b;
    expect_shape(g, pco_concat(g, many, 17, 0), PCO_F32, 2, SHAPE(68, 1));
    uint32_t q = pco_graph_input(g, "q", PCO_F32, 4, SHAPE(2, 3, 8, 16)),
             kv = pco_graph_input(g, "kv", PCO_F16, 4, SHAPE(2, 9, 2, 16));
    pco_scaled_dot_product_attention_attrs attrs = {.weights = 1};
    uint32_t outs[PCO_MAX_OUTPUTS];
    pco_graph_add(g, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, &attrs, (uint32_t[]){q, kv, kv}, 3, outs);
    expect_shape(g, outs[0], PCO_F32, 4, SHAPE(2, 3, 8, 16));
    expect_shape(g, outs[1], PCO_F32, 4, SHAPE(2, 8, 3, 9));
    check_ok(pco_graph_check(g, &err));
    pco_graph_destroy(g);
}

/* A builder may count from the end; nodes, those of decompositions and gradients too, count from the first. */
static void test_axes(void **state)
{
    (void)state;
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "x", PCO_F32, 3, SHAPE(2, 3, 4));
    const uint32_t sum = pco_graph_add(g, PCO_OP_SUM, &(pco_sum_attrs){.n_axes = 2, .axes = {-1, 0}}, &x, 1, NULL);
    uint32_t y = pco_softmax(g, x, -2);
    y = pco_graph_add(g, PCO_OP_LOG_SOFTMAX, NULL, &y, 1, NULL);
    y = pco_concat(g, (uint32_t[]){x, y}, 2, -1);
    y = pco_reduce(g, PCO_OP_SUM, pco_reshape(g, y, 1, SHAPE(-1)), -1, 0);
    check_ok(pco_graph_check(g, &err));
    const pco_sum_attrs *two = g->nodes[g->producers[sum]].attrs;
    assert_int_equal(two->axes[0], 2);
    assert_int_equal(two->axes[1], 0);
    uint32_t gradient;
    check_ok(pco_gradients(g, y, &x, 1, &gradient, &err));
    uint32_t seen = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const pco_node *node = &g->nodes[i];
        const pco_attr_info *attr;
        for (uint32_t k = 0; (attr = pco_op_attr(pco_op_find(node->op), k)) != NULL; k++) {
            if (!attr->is_axis) continue;
            const int64_t *at = (const int64_t *)(const void *)((const char *)node->attrs + attr->offset);
            const int64_t count = attr->type == PCO_ATTR_VECTOR ? *at++ : 1;
            for (int64_t a = 0; a < count; a++, seen++)
                if (at[a] < 0 || at[a] >= (int64_t)g->tensors[node->inputs[0]].rank)
                    fail_msg("%s has the axis %lld", node->name, (long long)at[a]);
        }
    }
    assert_true(seen > 6);
    pco_graph_destroy(g);
}

/* The gradient of cumsum is cumsum the other way: of the operand's type and shape, without any other node. */
static void test_cumsum(void **state)
{
    (void)state;
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "x", PCO_F16, 3, SHAPE(2, 3, 4)), gradient;
    uint32_t y = pco_graph_add(g, PCO_OP_CUMSUM, &(pco_cumsum_attrs){.axis = -2, .exclusive = 1}, &x, 1, NULL);
    expect_shape(g, y, PCO_F16, 3, SHAPE(2, 3, 4));
    uint32_t loss = pco_reduce(g, PCO_OP_SUM, pco_reshape(g, y, 1, SHAPE(-1)), -1, 0);
    check_ok(pco_graph_check(g, &err));
    check_ok(pco_gradients(g, pco_cast(g, loss, PCO_F32), &x, 1, &gradient, &err));
    expect_shape(g, gradient, PCO_F16, 3, SHAPE(2, 3, 4));
    const pco_node *node = &g->nodes[g->producers[gradient]];
    const pco_cumsum_attrs *attrs = node->attrs;
    assert_int_equal(node->op, PCO_OP_CUMSUM);
    assert_int_equal(attrs->axis, 1);
    assert_int_equal(attrs->exclusive, 1);
    assert_int_equal(attrs->reverse, 1);
    pco_graph_destroy(g);
}

/* The k first along an axis, and their indices; whose gradient goes back to where the values came from. */
static void test_top_k(void **state)
{
    (void)state;
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "x", PCO_BF16, 3, SHAPE(2, 5, 4)), out[PCO_MAX_OUTPUTS], gradient;
    pco_graph_add(g, PCO_OP_TOP_K, &(pco_top_k_attrs){.axis = -2, .k = 3, .largest = 1}, &x, 1, out);
    expect_shape(g, out[0], PCO_BF16, 3, SHAPE(2, 3, 4));
    expect_shape(g, out[1], PCO_I32, 3, SHAPE(2, 3, 4));
    uint32_t loss = pco_reduce(g, PCO_OP_SUM, pco_reshape(g, out[0], 1, SHAPE(-1)), -1, 0);
    check_ok(pco_gradients(g, pco_cast(g, loss, PCO_F32), &x, 1, &gradient, &err));
    expect_shape(g, gradient, PCO_BF16, 3, SHAPE(2, 5, 4));
    pco_graph_destroy(g);
}

/* Positions as PyTorch counts them; a batch of none has gradients of 0. */
static void test_conv1d(void **state)
{
    (void)state;
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "x", PCO_F16, 4, SHAPE(2, 0, 4, 10)), gradients[2];
    uint32_t w = pco_graph_input(g, "w", PCO_F32, 3, SHAPE(6, 2, 3));
    const pco_conv1d_attrs attrs = {.stride = 2, .padding = 1, .dilation = 2, .groups = 2};
    uint32_t y = pco_graph_add(g, PCO_OP_CONV1D, &attrs, (uint32_t[]){x, w}, 2, NULL);
    expect_shape(g, y, PCO_F16, 4, SHAPE(2, 0, 6, 4));
    uint32_t loss = pco_reduce(g, PCO_OP_SUM, pco_reshape(g, y, 1, SHAPE(0)), -1, 0);
    check_ok(pco_gradients(g, pco_cast(g, loss, PCO_F32), (uint32_t[]){x, w}, 2, gradients, &err));
    expect_shape(g, gradients[0], PCO_F16, 4, SHAPE(2, 0, 4, 10));
    expect_shape(g, gradients[1], PCO_F32, 3, SHAPE(6, 2, 3));
    pco_graph_destroy(g);
}

/* Each says what is wrong with which operand. */
static void test_conv1d_refuses(void **state)
{
    (void)state;
    static const struct {
        pco_conv1d_attrs attrs;
        int64_t weight[3], bias;
        const char *words[2];
    } ROWS[] = {
        {{0, 0, 1, 1}, {6, 4, 3}, 6, {"stride 0", "conv1d"}},
        {{1, 0, 0, 1}, {6, 4, 3}, 6, {"dilation 0", "conv1d"}},
        {{1, -1, 1, 1}, {6, 4, 3}, 6, {"padding -1", "conv1d"}},
        {{1, 0, 1, 3}, {6, 4, 3}, 6, {"3 groups", "[2,4,10]"}},
        {{1, 0, 1, 4}, {6, 1, 3}, 6, {"4 groups", "[6,1,3]"}},
        {{1, 0, 1, 1}, {6, 3, 3}, 6, {"[6,3,3]", "[O,C/groups,K]"}},
        {{1, 1, 4, 1}, {6, 4, 4}, 6, {"4 weights, 4 apart", "10 positions"}},
        {{1, 0, 1, 1}, {6, 4, 0}, 6, {"empty", "[6,4,0]"}},
        {{1, 0, 1, 1}, {6, 4, 3}, 5, {"bias", "6 channels"}},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        pco_graph *g = pco_graph_create();
        uint32_t in[3] = {pco_graph_input(g, "x", PCO_F32, 3, SHAPE(2, 4, 10)),
                          pco_graph_input(g, "w", PCO_F32, 3, ROWS[i].weight),
                          pco_graph_input(g, "b", PCO_F32, 1, &ROWS[i].bias)};
        pco_graph_add(g, PCO_OP_CONV1D, &ROWS[i].attrs, in, 3, NULL);
        check_fails(pco_graph_check(g, &err), PCO_ERROR_INVALID, ROWS[i].words[0]);
        check_fails(pco_graph_check(g, &err), PCO_ERROR_INVALID, ROWS[i].words[1]);
        pco_graph_destroy(g);
    }
}

/* One refusal: `build` must leave an error that holds all of the words. */
#define REFUSES(build, ...) \
    do { \
        pco_graph *g = pco_graph_create(); \
        uint32_t x = pco_graph_input(g, "ex", PCO_F32, 2, SHAPE(3, 4)); \
        uint32_t i = pco_graph_input(g, "eye", PCO_I32, 1, SHAPE(5)); \
        (void)x, (void)i; \
        (void)(build); \
        pco_error refusal = {""}; \
        assert_int_equal(pco_graph_check(g, &refusal), PCO_ERROR_INVALID); \
        const char *const words[] = {__VA_ARGS__}; \
        for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) \
            if (!strstr(refusal.message, words[k])) fail_msg("'%s' does not say '%s'", refusal.message, words[k]); \
        pco_graph_destroy(g); \
    } while (0)

static void test_refusals(void **state)
{
    (void)state;
    REFUSES(pco_binary(g, PCO_OP_ADD, x, i), "add", "eye", "i32", "f32");
    REFUSES(pco_unary(g, PCO_OP_EXP, i), "exp", "eye", "i32", "f32,f16,bf16");
    REFUSES(pco_binary(g, PCO_OP_ADD, x, pco_graph_input(g, "five", PCO_F32, 1, SHAPE(5))), "add", "[3,4]", "[5]");
    REFUSES(pco_graph_add(g, PCO_OP_LAYER_NORM, NULL, (uint32_t[]){x, pco_graph_input(g, "w", PCO_F32, 1, SHAPE(5))}, 2,
                          NULL),
            "layer_norm", "weight", "[5]", "N");
    REFUSES(pco_graph_add(g, PCO_OP_RELU, NULL, NULL, 0, NULL), "relu", "'x' is missing");
    REFUSES(pco_graph_add(g, PCO_OP_RELU, NULL, (uint32_t[]){x, x}, 2, NULL), "relu", "at most 1");
    REFUSES(pco_slice_axis(g, x, 1, 2, 3), "slice", "ex", "[3,4]");
    REFUSES(pco_softmax(g, x, 2), "softmax", "axis 2");
    REFUSES(pco_graph_add(g, PCO_OP_CUMSUM, &(pco_cumsum_attrs){.axis = -3}, &x, 1, NULL), "cumsum", "axis -3");
    REFUSES(pco_unary(g, PCO_OP_CUMSUM, pco_cast(g, x, PCO_BOOL)), "cumsum", "bool", "f32,f16,bf16,i32");
    REFUSES(pco_unary(g, PCO_OP_CUMSUM, pco_graph_input(g, "s", PCO_F32, 0, NULL)), "cumsum", "axis -1");
    REFUSES(pco_graph_add(g, PCO_OP_TOP_K, &(pco_top_k_attrs){.axis = 1, .k = 5}, &x, 1, NULL), "top_k", "k 5", "4");
    REFUSES(pco_graph_add(g, PCO_OP_TOP_K, &(pco_top_k_attrs){.axis = 0, .k = -1}, &x, 1, NULL), "top_k", "k -1");
    REFUSES(pco_unary(g, PCO_OP_TOP_K, pco_graph_input(g, "t", PCO_F32, 0, NULL)), "top_k", "axis -1");
    REFUSES(pco_graph_add(g, PCO_OP_DROPOUT, &(pco_dropout_attrs){.p = 1},
                          (uint32_t[]){x, pco_graph_input(g, "seed", PCO_I32, 1, SHAPE(2))}, 2, NULL),
            "dropout", "p is 1, not in [0, 1)");
    REFUSES(
        pco_graph_add(g, PCO_OP_PAD,
                      &(pco_pad_attrs){.n_before = 2, .before = {0, INT64_MAX}, .n_after = 2, .after = {0, INT64_MAX}},
                      &x, 1, NULL),
        "pad", "dimension 1 is too long"); /* 4 + 2 (2^63 - 1) is 2 modulo 2^64 */
    REFUSES(
        pco_graph_add(g, PCO_OP_SLICE,
                      &(pco_slice_attrs){
                          .n_starts = 2, .n_sizes = 2, .sizes = {3, 3}, .n_steps = 2, .steps = {1, INT64_C(1) << 62}},
                      &x, 1, NULL),
        "slice", "3 elements from 0", "[3,4]"); /* 2 steps are -2^63 modulo 2^64 */
    REFUSES(pco_reshape(g, x, 1, SHAPE(13)), "reshape", "[3,4]", "[13]");
    REFUSES(pco_permute(g, x, SHAPE(0, 0)), "permute", "order");
    REFUSES(pco_graph_add(g, PCO_OP_QUANTIZE, NULL, &x, 1, NULL), "does not exist");
    REFUSES(pco_cast(g, x, PCO_Q8_0), "cast");
    REFUSES(pco_graph_input(g, "big", PCO_F32, 2, SHAPE(INT64_C(1) << 40, INT64_C(1) << 40)), "big");
}

static void test_table(void **state)
{
    (void)state;
    uint32_t count;
    const pco_op_info *table = pco_op_table(&count);
    assert_true(count >= 60);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < i; k++) assert_int_not_equal(table[k].op, table[i].op);
        assert_ptr_equal(pco_op_find_name(table[i].name), &table[i]);
        assert_ptr_equal(pco_op_find((uint32_t)table[i].op), &table[i]);
        assert_true(strstr(table[i].signature, "->") != NULL);
        assert_true(strlen(table[i].doc) >= 3);
        const int primitive = table[i].op < 70 || (table[i].op >= 100 && table[i].op < 110);
        assert_true(primitive ==
                    (pco_op_decomposition(table[i].op) == NULL)); /* composites decompose, primitives do not */
        unsigned char attrs[512];
        assert_true(pco_op_attrs_size(&table[i]) <= sizeof attrs);
        pco_op_default_attrs(&table[i], attrs);
    }
    assert_null(pco_op_find(PCO_OP_QUANTIZE));
}

/* Dead nodes go, effects and outputs stay, names stay. */
static void test_rewrite(void **state)
{
    (void)state;
    pco_graph *g = pco_graph_create(), *r;
    uint32_t x = pco_graph_input(g, "x", PCO_F32, 2, SHAPE(3, 4)),
             cache = pco_graph_state(g, "cache", PCO_F32, 2, SHAPE(1, 4));
    uint32_t at = pco_graph_value(g, "at", PCO_I32, 1, SHAPE(1));
    pco_unary(g, PCO_OP_EXP, x);
    pco_state_write(g, cache, pco_graph_constant_copy(g, "one", PCO_F32, 2, SHAPE(1, 1), (float[]){1}), at, 1);
    uint32_t y = pco_unary(g, PCO_OP_GELU, x);
    pco_graph_output(g, y, "y");
    pco_graph_output(g, x, "copy of x");
    pco_graph_output(g, pco_reshape(g, y, 1, SHAPE(12)), "flat");
    check_ok(pco_graph_rewrite(g, &(pco_rewrite_params){.fuse = 1}, &r, &err));
    assert_int_equal(g->n_nodes, 5);
    assert_int_equal(r->n_nodes, 4); /* state_write, gelu, two copies */
    for (uint32_t i = 0; i < r->n_nodes; i++) assert_int_not_equal(r->nodes[i].op, PCO_OP_EXP);
    assert_int_not_equal(pco_graph_find(r, "y"), PCO_NONE);
    assert_int_not_equal(pco_graph_find(r, "flat"), PCO_NONE);
    uint32_t copy = pco_graph_find(r, "copy of x");
    assert_int_equal(r->tensors[copy].alias, PCO_NONE);
    pco_graph_destroy(r);
    pco_graph_destroy(g);
}

/* The phase of position p is p times the step, exactly, as a 64-bit fraction of a turn. */
/* What was appended last moves to behind what it needs, and not before an earlier use of its state. */
static void test_hoist(void **state)
{
    (void)state;
    const int32_t zero = 0;
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "x", PCO_F32, 2, SHAPE(1, 4)), s = pco_graph_state(g, "s", PCO_F32, 2, SHAPE(1, 4)),
             u = pco_graph_state(g, "u", PCO_F32, 2, SHAPE(1, 4)),
             at = pco_graph_constant_copy(g, "at", PCO_I32, 1, SHAPE(1), &zero);
    uint32_t a = pco_unary(g, PCO_OP_RELU, x), b = pco_unary(g, PCO_OP_NEG, a), c = pco_binary(g, PCO_OP_ADD, b, s),
             d = pco_unary(g, PCO_OP_EXP, c);
    pco_graph_output(g, d, "y");
    const uint32_t first = g->n_nodes;
    pco_state_write(g, u, pco_binary(g, PCO_OP_ADD, pco_binary(g, PCO_OP_MUL, u, x), a), at, 1);
    pco_graph_hoist(g, first);
    const uint32_t second = g->n_nodes;
    pco_state_write(g, s, pco_unary(g, PCO_OP_NEG, a), at, 1); /* c reads s as it was */
    pco_graph_hoist(g, second);
    const pco_op order[] = {PCO_OP_RELU, PCO_OP_MUL, PCO_OP_ADD,         PCO_OP_STATE_WRITE, PCO_OP_NEG,
                            PCO_OP_ADD,  PCO_OP_NEG, PCO_OP_STATE_WRITE, PCO_OP_EXP};
    assert_int_equal(g->n_nodes, sizeof order / sizeof *order);
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        assert_int_equal(g->nodes[n].op, order[n]);
        assert_int_equal(g->producers[g->nodes[n].outputs[0]], n);
    }
    check_ok(pco_graph_check(g, &err));
    pco_graph_destroy(g);
}

static void test_phase(void **state)
{
    (void)state;
    pco_graph *g = pco_graph_create();
    const double quarter = 1.5707963267948966192;
    uint32_t t = pco_phase_table(g, &quarter, 1);
    const uint32_t *words = g->tensors[t].data;
    uint64_t step = (uint64_t)words[1] << 32 | words[0];
    int64_t error = (int64_t)(step - (UINT64_C(1) << 62));
    assert_true(llabs(error) < 1 << 12); /* pi/2 as a double is right to 2^-53 */
    pco_graph_destroy(g);
}

static uint32_t find_node(const pco_graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (strcmp(g->nodes[i].name, name) == 0) return i;
    return PCO_NONE;
}

/* loss = sum(exp(tanh(x) w)): the block "in" makes h = tanh(x) and y = exp(h w), which "loss" reads. */
static pco_graph *recompute_graph(uint32_t *loss, uint32_t *gradients)
{
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "x", PCO_F32, 2, SHAPE(3, 4)), w = pco_graph_state(g, "w", PCO_F32, 2, SHAPE(4, 4));
    pco_graph_scope(g, "in");
    uint32_t h = pco_unary(g, PCO_OP_TANH, x);
    uint32_t y = pco_unary(g, PCO_OP_EXP, pco_matmul(g, h, w, 0, 0));
    pco_graph_scope(g, "loss");
    *loss = pco_reduce(g, PCO_OP_SUM, pco_reshape(g, y, 1, SHAPE(12)), 0, 1);
    check_ok(pco_gradients(g, *loss, (uint32_t[]){x, w}, 2, gradients, &err));
    pco_graph_output(g, gradients[0], "dx");
    pco_graph_output(g, gradients[1], "dw");
    return g;
}

/* Backward nodes read copies, which stand between the loss and their first reader; what "loss" reads of the block is
 * kept, and nothing that makes it alone runs twice. */
static void test_recompute(void **state)
{
    (void)state;
    uint32_t loss, gradients[2];
    pco_graph *g = recompute_graph(&loss, gradients), *r;
    assert_int_equal(pco_graph_recompute(g, loss, "in"), 1); /* tanh: exp's gradient reads y, which is kept */
    check_ok(pco_graph_check(g, &err));
    uint32_t again = find_node(g, "in.tanh_0_again"), forward = find_node(g, "in.tanh_0");
    assert_int_not_equal(again, PCO_NONE);
    assert_true(again > g->producers[loss]);
    uint32_t kept = g->nodes[forward].outputs[0], copy = g->nodes[again].outputs[0], readers = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < g->nodes[i].n_inputs; k++) {
            if (g->nodes[i].inputs[k] == kept) assert_true(i < g->producers[loss]);
            if (g->nodes[i].inputs[k] != copy) continue;
            assert_true(i > again);
            readers++;
        }
    assert_true(readers > 0);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < g->nodes[i].n_outputs; k++) assert_int_equal(g->producers[g->nodes[i].outputs[k]], i);
    check_ok(pco_graph_rewrite(g, &(pco_rewrite_params){.fuse = 1}, &r, &err)); /* passes leave both */
    assert_int_not_equal(find_node(r, "in.tanh_0_again"), PCO_NONE);
    assert_int_not_equal(find_node(r, "in.tanh_0"), PCO_NONE);
    pco_graph_destroy(r);
    assert_int_equal(pco_graph_recompute(g, loss, "out"), 0);
    check_fails(pco_graph_check(g, &err), PCO_ERROR_INVALID, "the scope 'out'");
    pco_graph_destroy(g);
}

/* gelu(x w), whose product the backward pass reads: neither it nor its original, which then has one reader, is folded
 * into the product, because without recomputation it would not be. */
static void test_recompute_fusion(void **state)
{
    (void)state;
    uint32_t gradient, gelu = 0, products = 0;
    pco_graph *g = pco_graph_create(), *r;
    uint32_t x = pco_graph_input(g, "x", PCO_F32, 2, SHAPE(3, 4)), w = pco_graph_state(g, "w", PCO_F32, 2, SHAPE(4, 4));
    pco_graph_scope(g, "in");
    uint32_t a = pco_unary(g, PCO_OP_GELU, pco_matmul(g, x, w, 0, 0)), y = pco_matmul(g, a, w, 0, 0);
    pco_graph_scope(g, "loss");
    uint32_t loss = pco_reduce(g, PCO_OP_SUM, pco_reshape(g, y, 1, SHAPE(12)), 0, 1);
    check_ok(pco_gradients(g, loss, &w, 1, &gradient, &err));
    pco_graph_output(g, gradient, "dw");
    pco_graph_output(g, loss, "loss");
    assert_int_equal(pco_graph_recompute(g, loss, "in"), 2);
    check_ok(pco_graph_rewrite(g, &(pco_rewrite_params){.fuse = 1}, &r, &err));
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        gelu += r->nodes[i].op == PCO_OP_GELU;
        if (r->nodes[i].op != PCO_OP_MATMUL) continue;
        assert_int_equal(((const pco_matmul_attrs *)r->nodes[i].attrs)->activation, 0);
        products += strncmp(r->nodes[i].name, "in.", 3) == 0;
    }
    assert_int_equal(gelu, 2);
    assert_int_equal(products, 3);
    pco_graph_destroy(r);
    pco_graph_destroy(g);
}

/* What a node reads must not have been written since: tanh(w), with a write into w before the gradients. */
static void test_recompute_refuses(void **state)
{
    (void)state;
    uint32_t gradient;
    pco_graph *g = pco_graph_create();
    uint32_t x = pco_graph_input(g, "x", PCO_F32, 2, SHAPE(1, 4)), w = pco_graph_state(g, "w", PCO_F32, 2, SHAPE(1, 4));
    uint32_t at = pco_graph_value(g, "at", PCO_I32, 1, SHAPE(1));
    pco_graph_scope(g, "in");
    uint32_t y = pco_binary(g, PCO_OP_MUL, pco_unary(g, PCO_OP_TANH, w), x);
    pco_graph_scope(g, "loss");
    pco_state_write(g, w, x, at, 1);
    uint32_t loss = pco_reduce(g, PCO_OP_SUM, pco_reshape(g, y, 1, SHAPE(4)), 0, 1);
    check_ok(pco_gradients(g, loss, &x, 1, &gradient, &err));
    pco_graph_output(g, gradient, "dx");
    pco_graph_recompute(g, loss, "in");
    check_fails(pco_graph_check(g, &err), PCO_ERROR_UNSUPPORTED, "the state 'w' before that");
    pco_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_axes),
                                       cmocka_unit_test(test_cumsum),
                                       cmocka_unit_test(test_top_k),
                                       cmocka_unit_test(test_conv1d),
                                       cmocka_unit_test(test_conv1d_refuses),
                                       cmocka_unit_test(test_recompute),
                                       cmocka_unit_test(test_recompute_refuses),
                                       cmocka_unit_test(test_recompute_fusion),
                                       cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_table),
                                       cmocka_unit_test(test_rewrite),
                                       cmocka_unit_test(test_hoist),
                                       cmocka_unit_test(test_phase)};
    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
