/* test_nn FILE: the blocks of portico/nn.h against PyTorch and transformers (tests/golden/make_nn.py), results and
 * gradients, on the device that PORTICO_BACKEND picks; with weights of the file as constants, and as parameters. */
#include "models_test.h"

#include "formats/weights.h"
#include "nn/nn.h"
#include "portico/portico.h"
#include "train/initialization.h"

enum { WIDTH = 8, HEADS = 2, HIDDEN = 12, BATCH = 2, ROWS = 5, MOST = 96 };
/* As test_goldens, where they are derived: sums of a few dozen products in f32, and through the chain of gradients. */
static const double tolerance = 1e-5, gradient_tolerance = 1e-4;

static const char *nn_path;
static pco_context *context;
static pco_session *session;
static pco_weights *file;

static const pco_weight *stored(const char *format, const char *name, const char *what)
{
    char text[256];
    snprintf(text, sizeof text, format, name, what);
    return pco_weights_find(file, text);
}

/* ---- the cases ---- */

typedef struct nn_case {
    const char *name;
    uint32_t (*build)(const pco_nn *nn, const struct nn_case *c);
    pco_nn_transformer_params params;
} nn_case;

static uint32_t nn_input(const pco_nn *nn, const nn_case *c, const char *what)
{
    const pco_weight *x = stored("%s/%s", c->name, what);
    assert_non_null(x);
    return pco_graph_input(nn->graph, what, (pco_dtype)x->dtype, x->rank, x->shape);
}

static pco_nn_transformer_inputs nn_padding(const pco_nn *nn, const nn_case *c, int of_memory)
{
    pco_nn_transformer_inputs inputs = PCO_NN_NO_INPUTS;
    *(of_memory ? &inputs.memory_lengths : &inputs.lengths) = nn_input(nn, c, "lengths");
    return inputs;
}

static uint32_t build_encoder_layer(const pco_nn *nn, const nn_case *c)
{
    const pco_nn_transformer_inputs inputs = nn_padding(nn, c, 0);
    return pco_nn_encoder_layer(nn, nn_input(nn, c, "x"), "m", &c->params, &inputs);
}

static uint32_t build_decoder_layer(const pco_nn *nn, const nn_case *c)
{
    const pco_nn_transformer_inputs inputs = nn_padding(nn, c, 1);
    const uint32_t x = nn_input(nn, c, "x");
    return pco_nn_decoder_layer(nn, x, nn_input(nn, c, "memory"), "m", &c->params, &inputs);
}

static uint32_t build_transformer(const pco_nn *nn, const nn_case *c)
{
    const pco_nn_transformer_inputs inputs = nn_padding(nn, c, 1);
    const uint32_t x = nn_input(nn, c, "x");
    return pco_nn_transformer(nn, nn_input(nn, c, "memory"), x, "m", &c->params, &inputs);
}

static uint32_t build_encoder(const pco_nn *nn, const nn_case *c)
{
    return pco_nn_encoder(nn, nn_input(nn, c, "x"), "m", &c->params, NULL);
}

static uint32_t build_attention(const pco_nn *nn, const nn_case *c)
{
    const pco_nn_attention_params params = {.size = sizeof params,
                                            .name = "m",
                                            .fused = "m.in_proj_",
                                            .width = WIDTH,
                                            .heads = HEADS,
                                            .bias = 1,
                                            .output_bias = 1};
    pco_nn_attention_operands operands = PCO_NN_NO_OPERANDS;
    unsigned char seen[ROWS * ROWS];
    for (int i = 0; i < ROWS * ROWS; i++) seen[i] = i % ROWS <= i / ROWS;
    operands.mask = pco_graph_constant_copy(nn->graph, "mask", PCO_BOOL, 4, (int64_t[]){1, 1, ROWS, ROWS}, seen);
    return pco_nn_attention(nn, nn_input(nn, c, "x"), &params, &operands);
}

static uint32_t build_ffn(const pco_nn *nn, const nn_case *c)
{
    const pco_nn_ffn_params params = {
        .size = sizeof params, .name = "m", .activation = PCO_NN_SILU, .width = WIDTH, .hidden = HIDDEN, .bias = 1};
    return pco_nn_ffn(nn, nn_input(nn, c, "x"), &params);
}

static uint32_t build_embedding(const pco_nn *nn, const nn_case *c)
{
    const pco_nn_norm_params norm = {.size = sizeof norm, .eps = 1e-5, .width = WIDTH};
    const uint32_t x = pco_nn_embedding(nn, nn_input(nn, c, "ids"), "m.tokens.weight", 11, WIDTH);
    return pco_nn_norm(nn, pco_nn_learned_positions(nn, x, PCO_NONE, "m.positions.weight", ROWS + 2), "m.norm", &norm);
}

static uint32_t build_cross_entropy(const pco_nn *nn, const nn_case *c)
{
    const uint32_t x = nn_input(nn, c, "x");
    return pco_nn_cross_entropy(nn, x, nn_input(nn, c, "labels"), 0.1);
}

#define PARAMS .size = sizeof(pco_nn_transformer_params), .width = WIDTH, .heads = HEADS, .hidden = HIDDEN
static const nn_case cases[] = {
    {"encoder_post", build_encoder_layer, {PARAMS, .fused_projection = 1}},
    {"encoder_pre",
     build_encoder_layer,
     {PARAMS, .fused_projection = 1, .normalize_before = 1, .activation = PCO_NN_GELU}},
    {"decoder_post", build_decoder_layer, {PARAMS, .fused_projection = 1}},
    {"decoder_pre", build_decoder_layer, {PARAMS, .fused_projection = 1, .normalize_before = 1}},
    {"transformer",
     build_transformer,
     {PARAMS, .layers = 2, .decoder_layers = 1, .fused_projection = 1, .normalize_before = 1,
      .activation = PCO_NN_GELU}},
    {"attention", build_attention, {0}},
    {"mistral",
     build_encoder,
     {PARAMS, .kv_heads = 1, .head_dim = 4, .layers = 2, .activation = PCO_NN_SWIGLU, .normalize_before = 1,
      .norm = PCO_NN_RMS_NORM, .no_bias = 1, .causal = 1, .window = 3, .rope_base = 10000}},
    {"ffn", build_ffn, {0}},
    {"embedding", build_embedding, {0}},
    {"cross_entropy", build_cross_entropy, {0}},
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- running them ---- */

static void nn_write_inputs(const nn_case *c, pco_executable *executable)
{
    static const char *const names[] = {"x", "memory", "ids", "labels", "lengths", "factor"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const uint32_t handle = pco_executable_tensor(executable, names[i]);
        const pco_weight *x = stored("%s/%s", c->name, names[i]);
        if (handle != PCO_NONE) check_ok(pco_executable_write(executable, handle, x->data, x->bytes, &err));
    }
}

/* An output against what the file has; returns the largest error in units of the bound. */
static double nn_compare(const nn_case *c, pco_executable *executable, const char *name, const char *what, double bound)
{
    static float y[4096];
    static double want[4096];
    const pco_weight *wanted = stored("%s/%s", c->name, what);
    const uint32_t handle = pco_executable_tensor(executable, name);
    assert_non_null(wanted);
    assert_true(wanted->bytes <= sizeof want);
    memcpy(want, wanted->data, wanted->bytes);
    check_ok(pco_executable_read(executable, handle, y, wanted->bytes / 2, &err));
    assert_int_equal(pco_executable_describe(executable, handle)->bytes, wanted->bytes / 2);
    const int64_t width = wanted->shape[wanted->rank - 1], count = (int64_t)(wanted->bytes / sizeof(double));
    const double ratio = models_error(y, want, count, width, bound);
    if (!(ratio <= 1)) fail_msg("%s: %s is %.3g times its bound away", c->name, what, ratio);
    return ratio;
}

static void test_constants(void **state)
{
    double worst = 0;
    (void)state;
    for (int i = 0; i < CASES; i++) {
        pco_graph *graph = pco_graph_create();
        pco_nn *nn = pco_nn_create(graph, &(pco_nn_params){.size = sizeof(pco_nn_params), .weights = file});
        pco_executable *executable;
        pco_nn_scope(nn, "%s", cases[i].name);
        pco_graph_output(graph, cases[i].build(nn, &cases[i]), "y");
        assert_int_equal(pco_nn_parameters(nn, NULL, 0), 0);
        check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
        nn_write_inputs(&cases[i], executable);
        check_ok(pco_executable_run(executable, &err));
        const double ratio = nn_compare(&cases[i], executable, "y", "y", tolerance);
        if (ratio > worst) worst = ratio;
        pco_executable_destroy(executable);
        pco_nn_destroy(nn);
        pco_graph_destroy(graph);
    }
    print_message("results with constants: at most %.3g of the bound\n", worst);
}

/* The parameters' values from the file. */
static void nn_fill(const pco_nn *nn, const uint32_t *tensors, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        pco_tensor x;
        check_ok(pco_graph_describe(nn->graph, tensors[i], &x, &err));
        const pco_weight *weight = pco_weights_find(file, x.name);
        if (!weight) fail_msg("the file has no '%s'", x.name);
        check_ok(pco_session_write_state(session, x.name, weight->data, weight->bytes, &err));
    }
}

/* Builds, asks for gradients of all parameters and float inputs, compares them and the result. */
static double nn_gradients(const nn_case *c)
{
    uint32_t wrt[MOST], gradients[MOST];
    const char *names[MOST];
    pco_graph *graph = pco_graph_create();
    pco_nn *nn = pco_nn_create(graph, NULL);
    pco_executable *executable;
    pco_nn_scope(nn, "%s", c->name);
    uint32_t y = c->build(nn, c);
    const uint32_t parameters = pco_nn_parameters(nn, wrt, MOST);
    uint32_t count = parameters;
    assert_true(count + 2 <= MOST);
    for (int k = 0; k < 2; k++) {
        const uint32_t x = pco_graph_find(graph, k ? "memory" : "x");
        if (x != PCO_NONE) wrt[count++] = x;
    }
    const uint32_t factor = nn_input(nn, c, "factor");
    uint32_t loss = pco_mul(graph, y, factor);
    loss = pco_reduce(graph, PCO_OP_SUM, pco_reshape(graph, loss, 1, (int64_t[]){-1}), 0, 1);
    check_ok(pco_gradients(graph, loss, wrt, count, gradients, &err));
    for (uint32_t i = 0; i < count; i++) {
        pco_tensor x;
        check_ok(pco_graph_describe(graph, wrt[i], &x, &err));
        const size_t scope = i < parameters ? strlen(c->name) + strlen(".m.") : 0; /* "CASE.m.NAME" */
        names[i] = pco_nn_name(nn, "gradient/%s", x.name + scope);
        pco_graph_output(graph, gradients[i], names[i]);
    }
    pco_graph_output(graph, y, "y");
    check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
    nn_fill(nn, wrt, parameters);
    nn_write_inputs(c, executable);
    check_ok(pco_executable_run(executable, &err));
    double worst = 0;
    nn_compare(c, executable, "y", "y", tolerance);
    for (uint32_t i = 0; i < count; i++) {
        const double ratio = nn_compare(c, executable, names[i], names[i], gradient_tolerance);
        if (ratio > worst) worst = ratio;
    }
    /* all that the file has was compared */
    uint32_t wanted = 0;
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s/gradient/", c->name);
    for (uint32_t i = 0; i < file->count; i++) wanted += strncmp(file->items[i].name, prefix, strlen(prefix)) == 0;
    assert_int_equal(wanted, count);
    pco_executable_destroy(executable);
    pco_nn_destroy(nn);
    pco_graph_destroy(graph);
    return worst;
}

static void test_parameters(void **state)
{
    double worst = 0;
    (void)state;
    for (int i = 0; i < CASES; i++) {
        const double ratio = nn_gradients(&cases[i]);
        if (ratio > worst) worst = ratio;
    }
    print_message("gradients: at most %.3g of the bound\n", worst);
}

/* ---- a row at a time, with the keys and values of the rows before in states ---- */

static void cached_rows(pco_dtype type, double bound)
{
    pco_session *alone; /* states of another type have the same names */
    check_ok(pco_session_open(context, NULL, &alone, &err));
    const nn_case *c = NULL;
    for (int i = 0; i < CASES; i++)
        if (strcmp(cases[i].name, "mistral") == 0) c = &cases[i];
    pco_nn_transformer_params params = c->params;
    pco_nn_transformer_inputs inputs = PCO_NN_NO_INPUTS;
    pco_graph *graph = pco_graph_create();
    pco_nn *nn = pco_nn_create(graph, &(pco_nn_params){.size = sizeof(pco_nn_params), .weights = file});
    pco_executable *executable;
    float y[BATCH][ROWS][WIDTH];
    double want[BATCH * ROWS * WIDTH];
    const pco_weight *x = stored("%s/%s", c->name, "x"), *wanted = stored("%s/%s", c->name, "y");
    memcpy(want, wanted->data, sizeof want);
    params.context = 7;
    params.cache_type = type;
    pco_nn_scope(nn, "%s", c->name);
    const uint32_t row = pco_graph_input(graph, "row", PCO_F32, 3, (int64_t[]){BATCH, 1, WIDTH});
    inputs.starts = pco_graph_value(graph, "starts", PCO_I32, 1, (int64_t[]){BATCH});
    pco_graph_output(graph, pco_nn_encoder(nn, row, "m", &params, &inputs), "y");
    check_ok(pco_executable_create(alone, graph, NULL, &executable, &err));
    for (int32_t i = 0; i < ROWS; i++) {
        float rows[BATCH][WIDTH];
        for (int b = 0; b < BATCH; b++)
            memcpy(rows[b], (const float *)x->data + (b * ROWS + i) * WIDTH, sizeof rows[b]);
        check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "row"), rows, sizeof rows, &err));
        check_ok(
            pco_executable_write(executable, pco_executable_tensor(executable, "starts"), (int32_t[]){i, i}, 8, &err));
        check_ok(pco_executable_run(executable, &err));
        check_ok(pco_executable_read(executable, pco_executable_tensor(executable, "y"), rows, sizeof rows, &err));
        for (int b = 0; b < BATCH; b++) memcpy(y[b][i], rows[b], sizeof rows[b]);
    }
    const double ratio = models_error(&y[0][0][0], want, BATCH * ROWS * WIDTH, WIDTH, bound);
    if (!(ratio <= 1)) fail_msg("a row at a time: %.3g times the bound away", ratio);
    pco_executable_destroy(executable);
    pco_session_close(alone);
    pco_nn_destroy(nn);
    pco_graph_destroy(graph);
}

/* f16 has 11 bits: keys and values of two layers are off by 2^-11 of them, and results by some times that. */
static void test_cache(void **state)
{
    (void)state;
    cached_rows(PCO_F32, tolerance);
    cached_rows(PCO_F16, 0x1p-8);
}

/* ---- dropout, half types, first values ---- */

static void test_dropout(void **state)
{
    enum { COUNT = 4096 };
    (void)state;
    static float in[COUNT], y[2][COUNT];
    for (int i = 0; i < COUNT; i++) in[i] = 1;
    pco_graph *graph = pco_graph_create();
    pco_nn *nn = pco_nn_create(graph, &(pco_nn_params){.size = sizeof(pco_nn_params), .dropout = 0.25});
    pco_executable *executable;
    const uint32_t x = pco_graph_input(graph, "x", PCO_F32, 1, (int64_t[]){COUNT});
    pco_graph_output(graph, pco_nn_dropout(nn, x), "first");
    pco_graph_output(graph, pco_nn_dropout(nn, x), "second");
    check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
    const int32_t words[2] = {3, 4};
    check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "x"), in, sizeof in, &err));
    check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "dropout_seed"), words, 8, &err));
    check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "dropout_offset"), words, 8, &err));
    check_ok(pco_executable_run(executable, &err));
    check_ok(pco_executable_read(executable, pco_executable_tensor(executable, "first"), y[0], sizeof y[0], &err));
    check_ok(pco_executable_read(executable, pco_executable_tensor(executable, "second"), y[1], sizeof y[1], &err));
    int zeros = 0, same = 0;
    for (int i = 0; i < COUNT; i++) {
        zeros += y[0][i] == 0;
        same += y[0][i] == y[1][i];
        if (y[0][i] != 0) assert_true(fabsf(y[0][i] - 1 / 0.75f) < 1e-6f);
    }
    /* a quarter of them, and 10/16 the same: six standard deviations of 4096 draws are 6 * 32 at most */
    assert_true(abs(zeros - COUNT / 4) < 192 && abs(same - COUNT * 10 / 16) < 192);
    pco_executable_destroy(executable);
    pco_nn_destroy(nn);
    pco_graph_destroy(graph);
}

/* In bf16, 8 bits: results are those of f32 within 2^-8 for each rounding of a few layers; and they do differ. */
static void test_half(void **state)
{
    (void)state;
    const nn_case *c = &cases[1];
    uint32_t wrt[MOST];
    pco_graph *graph = pco_graph_create();
    pco_nn *nn = pco_nn_create(graph, &(pco_nn_params){.size = sizeof(pco_nn_params), .dtype = PCO_BF16});
    pco_executable *executable;
    pco_nn_scope(nn, "%s", c->name);
    pco_graph_output(graph, pco_cast(graph, c->build(nn, c), PCO_F32), "y");
    const uint32_t count = pco_nn_parameters(nn, wrt, MOST);
    check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
    nn_fill(nn, wrt, count);
    nn_write_inputs(c, executable);
    check_ok(pco_executable_run(executable, &err));
    const double ratio = nn_compare(c, executable, "y", "y", 0x1p-4);
    assert_true(ratio * 0x1p-4 > 1e-4);
    pco_executable_destroy(executable);
    pco_nn_destroy(nn);
    pco_graph_destroy(graph);
}

static void test_initialize(void **state)
{
    (void)state;
    static float first[64 * 48], again[64 * 48], wanted[64 * 48];
    pco_graph *graph = pco_graph_create();
    pco_nn *nn = pco_nn_create(graph, NULL);
    pco_executable *executable;
    pco_initialization how = {.size = sizeof how, .type = PCO_INITIALIZATION_XAVIER, .seed = 7};
    const pco_nn_linear_params linear = {
        .size = sizeof linear, .name = "first.values", .in_features = 48, .out_features = 64, .bias = 1};
    const uint32_t x = pco_graph_input(graph, "x", PCO_F32, 2, (int64_t[]){1, 48});
    pco_graph_output(graph, pco_nn_linear(nn, x, &linear), "y");
    check_fails(pco_nn_initialize(nn, session, &how, &err), PCO_ERROR_NOT_FOUND, "first.values");
    check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
    check_ok(pco_nn_initialize(nn, session, &how, &err));
    check_ok(pco_session_read_state(session, "first.values.weight", first, sizeof first, &err));
    double most = 0, squares = 0;
    for (int i = 0; i < 64 * 48; i++) {
        if (fabs((double)first[i]) > most) most = fabs((double)first[i]);
        squares += (double)first[i] * (double)first[i];
    }
    const double bound = sqrt(6.0 / (64 + 48)); /* Glorot & Bengio 2010, (16) */
    assert_true(most <= bound && most > 0.99 * bound);
    assert_true(fabs(sqrt(squares / (64 * 48)) / (bound / sqrt(3)) - 1) < 0.05);
    /* what the trainer begins with */
    const pco_nn_parameter same = {.name = (char[]){"first.values.weight"}, .rank = 2, .shape = {64, 48}};
    pco_initialize(&how, 7, &same, 1, wanted);
    assert_memory_equal(first, wanted, sizeof first);
    how.seed = 8;
    check_ok(pco_nn_initialize(nn, session, &how, &err));
    check_ok(pco_session_read_state(session, "first.values.weight", again, sizeof again, &err));
    assert_memory_not_equal(first, again, sizeof first);
    how.type = PCO_INITIALIZATION_ZEROS;
    check_ok(pco_nn_initialize(nn, session, &how, &err));
    check_ok(pco_session_read_state(session, "first.values.weight", again, sizeof again, &err));
    for (int i = 0; i < 64 * 48; i++) assert_true(again[i] == 0);
    how.type = PCO_INITIALIZATION_NORMAL;
    check_fails(pco_nn_initialize(nn, session, &how, &err), PCO_ERROR_INVALID, "std");
    how.std = 0.02;
    check_ok(pco_nn_initialize(nn, session, &how, &err));
    check_ok(pco_session_read_state(session, "first.values.weight", again, sizeof again, &err));
    squares = 0;
    for (int i = 0; i < 64 * 48; i++) squares += (double)again[i] * (double)again[i];
    assert_true(fabs(sqrt(squares / (64 * 48)) / 0.02 - 1) < 0.08); /* 6 / sqrt(2 * 3072) */
    how.size = 4096;
    check_fails(pco_nn_initialize(nn, session, &how, &err), PCO_ERROR_INVALID, "newer header");
    pco_executable_destroy(executable);
    pco_nn_destroy(nn);
    pco_graph_destroy(graph);
}

/* ---- what cannot be ---- */

static uint32_t misuse_linear(const pco_nn *nn, const char *name, int64_t in, int64_t out, int64_t total)
{
    return pco_nn_linear(nn, 0,
                         &(pco_nn_linear_params){.size = sizeof(pco_nn_linear_params),
                                                 .name = name,
                                                 .in_features = in,
                                                 .out_features = out,
                                                 .total_rows = total});
}

static uint32_t misuse_attention(const pco_nn *nn, int64_t width, int64_t heads, int64_t kv_heads)
{
    return pco_nn_attention(
        nn, 0,
        &(pco_nn_attention_params){
            .size = sizeof(pco_nn_attention_params), .name = "a", .width = width, .heads = heads, .kv_heads = kv_heads},
        NULL);
}

static uint32_t misuse_layer(const pco_nn *nn, uint32_t x, pco_nn_transformer_params params)
{
    return pco_nn_encoder(nn, x, "e", &params, NULL);
}

/* Each on a graph of its own with x f32 [2,5,8] (0), ids i32 [2,5] (1) and y f32 [2,5] (2). */
static uint32_t misuse(const pco_nn *nn, int step)
{
    static const pco_nn_transformer_params good = {PARAMS, .layers = 1};
    pco_nn_transformer_params params = good;
    pco_nn_attention_operands operands = PCO_NN_NO_OPERANDS;
    pco_nn_transformer_inputs inputs = PCO_NN_NO_INPUTS;
    char name[400];
    memset(name, 'n', sizeof name);
    name[399] = 0;
    switch (step) {
    case 0: return misuse_linear(nn, NULL, 8, 8, 0);
    case 1: return misuse_linear(nn, "l", 7, 8, 0);
    case 2: return misuse_linear(nn, "l", 8, INT64_MAX, 0);
    case 3: return misuse_linear(nn, "l", 8, 8, 7);
    case 4: return misuse_linear(nn, name, 8, 8, 0);
    case 5: return misuse_linear(nn, "l", 8, 8, 0), misuse_linear(nn, "l", 8, 9, 0);
    case 6: return misuse_linear(nn, "x", 8, 8, 0) == PCO_NONE ? PCO_NONE : pco_nn_weight(nn, "x", 1, (int64_t[]){3});
    case 7: return pco_nn_linear(nn, 0, &(pco_nn_linear_params){.name = "l"});
    case 8: return pco_nn_linear(nn, 0, &(pco_nn_linear_params){.size = 4096});
    case 9: return pco_nn_linear(nn, 0, NULL);
    case 10: return misuse_attention(nn, 8, 3, 0);
    case 11: return misuse_attention(nn, 8, 4, 3);
    case 12: return misuse_attention(nn, 8, 0, 0);
    case 13: return misuse_attention(nn, 1 << 30, 1, 1);
    case 14: return misuse_attention(nn, 16, 2, 0);
    case 15: return pco_nn_sinusoidal(nn, 2, PCO_NONE, 0);
    case 16: return pco_nn_sinusoidal(nn, 0, PCO_NONE, 3);
    case 17: return pco_nn_learned_positions(nn, 0, PCO_NONE, "p", 4);
    case 18: return pco_nn_rope(nn, 0, PCO_NONE, PCO_NONE, 0, 1);
    case 19: return pco_nn_embedding(nn, 1, "e", 0, 8);
    case 20: return pco_nn_embedding(nn, 0, "e", 10, 8);
    case 21: return pco_nn_norm(nn, 0, "n", &(pco_nn_norm_params){sizeof(pco_nn_norm_params), 7, 0, 1e-5, 8});
    case 22: return pco_nn_norm(nn, 0, "n", &(pco_nn_norm_params){sizeof(pco_nn_norm_params), 0, 0, 1e-5, 9});
    case 23: return misuse_layer(nn, 4711, params);
    case 24: return misuse_layer(nn, 2, params);
    case 25: params.width = 16; return misuse_layer(nn, 0, params);
    case 26: params.layers = 0; return misuse_layer(nn, 0, params);
    case 27: params.layers = -1; return misuse_layer(nn, 0, params);
    case 28: params.activation = (pco_nn_activation)9; return misuse_layer(nn, 0, params);
    case 29: params.context = 8; return misuse_layer(nn, 0, params);
    case 30: params.rope_base = 1e4, params.heads = 8; return misuse_layer(nn, 0, params);
    case 31: params.norm_eps = -1; return misuse_layer(nn, 0, params);
    case 32: params.size = 0; return misuse_layer(nn, 0, params);
    case 33: return pco_nn_encoder(nn, 0, "", &params, NULL);
    case 34: return pco_nn_decoder(nn, 0, PCO_NONE, "d", &params, NULL);
    case 35: inputs.size = 0; return pco_nn_encoder(nn, 0, "e", &params, &inputs);
    case 36:
        operands.size = 4096;
        return pco_nn_attention(
            nn, 0,
            &(pco_nn_attention_params){.size = sizeof(pco_nn_attention_params), .name = "a", .width = 8, .heads = 2},
            &operands);
    case 37: inputs.lengths = 0; return pco_nn_encoder(nn, 0, "e", &params, &inputs);
    case 38: return pco_nn_cross_entropy(nn, 0, 2, 0);
    case 39: return pco_nn_positions(nn, -1, 4);
    case 40:
        return pco_nn_ffn(nn, 0,
                          &(pco_nn_ffn_params){.size = sizeof(pco_nn_ffn_params),
                                               .name = "f",
                                               .activation = PCO_NN_RELU,
                                               .width = 8,
                                               .hidden = 8,
                                               .experts = 4,
                                               .experts_used = 2});
    case 41:
        return pco_nn_ffn(nn, 0,
                          &(pco_nn_ffn_params){
                              .size = sizeof(pco_nn_ffn_params), .activation = PCO_NN_RELU, .width = 8, .hidden = 8});
    case 42: return pco_nn_weight(nn, "w", 9, (int64_t[9]){1});
    case 43: return pco_nn_weight(nn, "w", 2, (int64_t[]){-1, 4});
    case 45:
        params.context = 8, params.cache_type = PCO_I32;
        inputs.starts = 1;
        return pco_nn_encoder(nn, 0, "e", &params, &inputs);
    case 46: return pco_nn_cache_create(nn, "c", PCO_F32, 1, 0, 1, 1) ? 0 : PCO_NONE;
    case 44: pco_nn_scope((pco_nn *)(uintptr_t)nn, "%s", name); return PCO_NONE;
    }
    return 0;
}

/* What the graph says of each misuse */
static const char *const misuse_says[] = {"has no name",
                                          "matmul",
                                          "out_features",
                                          "not all of 7",
                                          "more than 255 bytes",
                                          "asked for too",
                                          "already",
                                          "size",
                                          "newer header",
                                          "params is NULL",
                                          "multiple",
                                          "multiple",
                                          "heads is 0",
                                          "",
                                          "",
                                          "3 dimensions",
                                          "layout 3",
                                          "not enough",
                                          "4 dimensions",
                                          "vocab is 0",
                                          "gather",
                                          "norm of type 7",
                                          "layer_norm",
                                          "4711",
                                          "3 dimensions",
                                          "channels",
                                          "layers is 0",
                                          "layers",
                                          "activation 9",
                                          "starts",
                                          "even head_dim",
                                          "norm_eps",
                                          "size",
                                          "no name",
                                          "missing",
                                          "PCO_NN_NO_INPUTS",
                                          "NO_OPERANDS",
                                          "attention",
                                          "cross_entropy",
                                          "no position",
                                          "experts",
                                          "no name",
                                          "1 to 8",
                                          "",
                                          "more than 255",
                                          "cache can be",
                                          "tokens is 0"};

static void test_misuse(void **state)
{
    (void)state;
    for (int i = 0; i < (int)(sizeof misuse_says / sizeof *misuse_says); i++) {
        pco_graph *graph = pco_graph_create();
        pco_nn *nn = pco_nn_create(graph, NULL);
        pco_error why = {""};
        pco_graph_input(graph, "x", PCO_F32, 3, (int64_t[]){2, 5, 8});
        pco_graph_input(graph, "ids", PCO_I32, 2, (int64_t[]){2, 5});
        pco_graph_input(graph, "y", PCO_F32, 2, (int64_t[]){2, 5});
        const uint32_t result = misuse(nn, i);
        const pco_status status = pco_graph_check(graph, &why);
        if (result != PCO_NONE || status != (i == 45 ? PCO_ERROR_UNSUPPORTED : PCO_ERROR_INVALID) || !*why.message ||
            strchr(why.message, '\n') || !strstr(why.message, misuse_says[i]))
            fail_msg("misuse %d: tensor %u, status %d, '%s' without '%s'", i, result, status, why.message,
                     misuse_says[i]);
        pco_nn_destroy(nn);
        pco_graph_destroy(graph);
    }
}

static void test_misuse_of_files_and_params(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        pco_graph *graph = pco_graph_create();
        pco_nn *nn = pco_nn_create(graph, &(pco_nn_params){.size = sizeof(pco_nn_params), .weights = file});
        const char *name = i ? "ffn.m.linear1.bias" : "ffn.m.linear9.bias";
        assert_int_equal(pco_nn_weight(nn, name, 1, (int64_t[]){3}), PCO_NONE);
        check_fails(pco_graph_check(graph, &err), i ? PCO_ERROR_FORMAT : PCO_ERROR_NOT_FOUND, name);
        check_fails(pco_nn_initialize(nn, session, NULL, &err), PCO_ERROR_INVALID, "no parameters");
        pco_nn_destroy(nn);
        pco_graph_destroy(graph);
    }
    static const pco_nn_params wrong[] = {{.size = 0},
                                          {.size = sizeof(pco_nn_params), .dtype = PCO_I32},
                                          {.size = sizeof(pco_nn_params), .dropout = 1},
                                          {.size = sizeof(pco_nn_params), .dropout = (double)NAN}};
    for (int i = 0; i < 4; i++) {
        pco_graph *graph = pco_graph_create();
        assert_null(pco_nn_create(graph, &wrong[i]));
        check_fails(pco_graph_check(graph, &err), PCO_ERROR_INVALID, "pco_nn_create");
        pco_graph_destroy(graph);
    }
    assert_null(pco_nn_create(NULL, NULL));
    assert_int_equal(pco_nn_linear(NULL, 0, NULL), PCO_NONE);
    pco_weights *none;
    check_fails(pco_weights_open("/nowhere/model.safetensors", &none, &err), PCO_ERROR_IO, "/nowhere");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants), cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_cache),     cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_half),      cmocka_unit_test(test_initialize),
        cmocka_unit_test(test_misuse),    cmocka_unit_test(test_misuse_of_files_and_params)};
    pco_error error = {""};
    if (argc != 2) return 2;
    nn_path = argv[1];
    if (pco_context_create(NULL, &context, &error) || pco_session_open(context, NULL, &session, &error) ||
        pco_weights_open(nn_path, &file, &error))
        return fprintf(stderr, "test_nn: %s\n", error.message), 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pco_session_close(session);
    pco_weights_close(file);
    pco_context_destroy(context);
    return failed;
}
