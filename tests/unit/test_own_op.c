/* Operations of one's own through the public headers: what a declaration may be, what runs, gradients against finite
 * differences, and errors of the functions. argv[1 ...]: devices, of which those that are not there are left out; on
 * all of them the answers are the same. */
#define CHECK_SESSIONS
#include "check.h"

#include "portico/op.h"
#include "portico/portico.h"
#include "portico/session.h"

#include <math.h>

static char **devices;

typedef struct power_attrs {
    double scale;
    int64_t exponent;
} power_attrs;

static const pco_op_attribute POWER_ATTRIBUTES[] = {{"scale", 1, 2, "in front"}, {"exponent", 0, 3, "whole"}};

/* y[.., k] = scale (x[.., k] w[k])^exponent, w 1 where absent */
static pco_status power(const pco_op_call *call, const double *const *in, double *const *out, pco_error *error)
{
    const power_attrs *attrs = call->attrs;
    const int64_t k = call->inputs[0]->shape[call->inputs[0]->rank - 1];
    if (attrs->exponent == 13) {
        snprintf(error->message, sizeof error->message, "13 brings bad luck");
        return PCO_ERROR_UNSUPPORTED;
    }
    for (int64_t i = 0; i < pco_tensor_elements(call->inputs[0]); i++)
        out[0][i] = attrs->scale * pow(in[0][i] * (in[1] ? in[1][i % k] : 1), (double)attrs->exponent);
    return PCO_OK;
}

/* d/dx = exponent y / x, d/dw = exponent y / w */
static void power_gradient(pco_graph *graph, const pco_op_call *call, const uint32_t *in, const uint32_t *out,
                           const uint32_t *upstream, uint32_t *gradients)
{
    const power_attrs *attrs = call->attrs;
    const uint32_t all =
        pco_binary_scalar(graph, PCO_OP_MUL, pco_mul(graph, upstream[0], out[0]), (double)attrs->exponent);
    gradients[0] = pco_div(graph, all, in[0]);
    if (in[1] != PCO_NONE) gradients[1] = pco_div(graph, all, in[1]);
}

/* A word of y each; the power by multiplying, as whole powers are. */
static const char POWER_KERNEL[] = "#define SHARED_ARRAYS\n"
                                   "KERNEL(power)\n"
                                   "{\n"
                                   "    ENTER\n"
                                   "    const int w = GROUP() * LOCAL_X + LANE_X(), first = w * PER_WORD(Y);\n"
                                   "    uint word = 0u;\n"
                                   "    for (int i = first; i < first + PER_WORD(Y) && i < Y_SIZE; ++i) {\n"
                                   "        float v = LOAD(x, X, i), r = SCALE;\n"
                                   "#if HAS_W_\n"
                                   "        v *= LOAD(w_, W_, i % DIM_K);\n"
                                   "#endif\n"
                                   "        for (int k = 0; k < EXPONENT; ++k) r *= v;\n"
                                   "        word |= pco_bits(Y, r) << LANE_AT(Y, TO_UINT(i));\n"
                                   "    }\n"
                                   "    if (w < Y_WORDS) y[w] = word;\n"
                                   "}\n";

static const pco_op_declaration POWER = {.size = sizeof POWER,
                                         .name = "power",
                                         .signature = "x:F[..,K] w_?:F[K] -> y:F[..,K]",
                                         .types = "F=f32,f16,bf16",
                                         .attributes = POWER_ATTRIBUTES,
                                         .n_attributes = 2,
                                         .compute = power,
                                         .kernel = POWER_KERNEL,
                                         .gradient = power_gradient};

/* Every second element, as f32, and its index */
static pco_status halve_shape(const pco_op_call *call, pco_tensor *outputs, uint32_t *n_outputs, pco_error *error)
{
    if (call->inputs[0]->rank != 1) {
        snprintf(error->message, sizeof error->message, "x has %u dimensions, and must have 1", call->inputs[0]->rank);
        return PCO_ERROR_INVALID;
    }
    for (uint32_t i = 0; i < *n_outputs; i++) outputs[i].rank = 1, outputs[i].shape[0] = call->inputs[0]->shape[0] / 2;
    outputs[0].dtype = PCO_F32, outputs[1].dtype = PCO_I32;
    return PCO_OK;
}

static pco_status halve(const pco_op_call *call, const double *const *in, double *const *out, pco_error *error)
{
    (void)error;
    for (int64_t i = 0; i < call->outputs[0]->shape[0]; i++) out[0][i] = in[0][2 * i], out[1][i] = (double)(2 * i);
    return PCO_OK;
}

/* The sum of each row: a workgroup of 32 each, in shared memory */
static pco_status sums(const pco_op_call *call, const double *const *in, double *const *out, pco_error *error)
{
    (void)error;
    const int64_t k = call->inputs[0]->shape[call->inputs[0]->rank - 1];
    for (int64_t i = 0; i < pco_tensor_elements(call->inputs[0]); i++)
        out[0][i / k] = (i % k ? out[0][i / k] : 0) + in[0][i];
    return PCO_OK;
}

static const char SUMS_KERNEL[] =
    "#define SHARED_ARRAYS SHARED(float, part, 32)\n"
    "KERNEL(sums)\n"
    "{\n"
    "    ENTER\n"
    "    const int row = GROUP();\n"
    "    float sum = 0.0f;\n"
    "    if (row < Y_SIZE)\n"
    "        for (int i = LANE_X(); i < DIM_K; i += 32) sum += LOAD(x, X, row * DIM_K + i);\n"
    "    part[LANE_X()] = sum;\n"
    "    BARRIER();\n"
    "    if (LANE_X() == 0 && row < Y_SIZE) {\n"
    "        for (int i = 1; i < 32; ++i) sum += part[i];\n"
    "        y[row] = AS_UINT(sum);\n"
    "    }\n"
    "}\n";

static const pco_op_declaration SUMS = {.size = sizeof SUMS,
                                        .name = "sums",
                                        .signature = "x:f32[R,K] -> y:f32[R,1]",
                                        .compute = sums,
                                        .kernel = SUMS_KERNEL,
                                        .workgroup = 32,
                                        .group_per_row = 1};

static const pco_op_declaration HALVE = {.size = sizeof HALVE,
                                         .name = "halve",
                                         .signature = "x:F[@] -> y:@[@] index:@[@]",
                                         .types = "F=f32,f16",
                                         .shape = halve_shape,
                                         .compute = halve};

static pco_context *context;

/* x / 3, and a kernel that is off by 2e-5 of it, or, below 0, by half of it. */
static pco_status third(const pco_op_call *call, const double *const *in, double *const *out, pco_error *error)
{
    (void)error;
    for (int64_t i = 0; i < pco_tensor_elements(call->inputs[0]); i++) out[0][i] = in[0][i] / 3;
    return PCO_OK;
}

static pco_status third_magnitude(const pco_op_call *call, const double *const *in, double *const *out,
                                  pco_error *error)
{
    (void)error;
    for (int64_t i = 0; i < pco_tensor_elements(call->inputs[0]); i++) out[0][i] = 100 * fabs(in[0][i]);
    return PCO_OK;
}

static const char THIRD_KERNEL[] = "KERNEL(third)\n"
                                   "{\n"
                                   "    ENTER\n"
                                   "    const int i = GROUP() * LOCAL_X + LANE_X();\n"
                                   "    if (i < Y_SIZE) {\n"
                                   "        const float v = LOAD(x, X, i);\n"
                                   "        y[i] = AS_UINT(v < 0.0f ? v * 0.5f : v * 0.33334f);\n"
                                   "    }\n"
                                   "}\n";

static int begin(void **state)
{
    (void)state;
    check_ok(pco_context_create(&(pco_context_params){.size = sizeof(pco_context_params)}, &context, &err));
    return 0;
}

static int end(void **state)
{
    (void)state;
    pco_context_destroy(context);
    return 0;
}

static void refused(pco_op_declaration declaration, const char *part)
{
    const pco_operation *op;
    check_fails(pco_op_register(context, &declaration, &op, &err), PCO_ERROR_INVALID, part);
    assert_null(op);
}

static pco_status any_shape(const pco_op_call *call, pco_tensor *outputs, uint32_t *n_outputs, pco_error *error)
{
    (void)call, (void)error;
    for (uint32_t i = 0; i < *n_outputs; i++)
        outputs[i] = (pco_tensor){.dtype = PCO_F32, .rank = 1, .shape = {1}, .alias = PCO_NONE, .name = ""};
    return PCO_OK;
}

/* What stands between [ and ], in operands and in results. */
static void test_dimensions(void **state)
{
    static const char *const BAD[] = {".",
                                      "...",
                                      "K,*",
                                      "*,K",
                                      "..,@",
                                      "@,..",
                                      "KN",
                                      "12",
                                      "K,",
                                      ",K",
                                      "K,,N",
                                      "..K",
                                      "..,",
                                      "..,..",
                                      "K,..",
                                      "**",
                                      "@@",
                                      "k",
                                      "K N",
                                      " K",
                                      "K ",
                                      "..,*",
                                      "*..",
                                      "-1",
                                      "K;N",
                                      "..,KN",
                                      "..,.",
                                      "A,B,C,D,E,F,G,H,I",
                                      "..,A,B,C,D,E,F,G,H,I",
                                      "3,,",
                                      "[K",
                                      "?",
                                      "0x"};
    static const char *const GOOD[] = {
        "", "*", "@", "..", "K", "3", "K,3", "..,K", "..,3,K", "A,B,C,D,E,F,G,H", "..,A,B,C,D,E,F,G,H"};
    (void)state;
    char text[80];
    pco_op_declaration one = POWER;
    one.name = "formed", one.shape = any_shape, one.kernel = NULL, one.gradient = NULL, one.n_attributes = 0;
    for (size_t i = 0; i < 2 * (sizeof BAD / sizeof *BAD); i++) {
        snprintf(text, sizeof text, i % 2 ? "x:F[..] -> y:F[%s]" : "x:F[%s] -> y:F[..]", BAD[i / 2]);
        one.signature = text, refused(one, "dimensions");
    }
    for (size_t i = 0; i < 2 * (sizeof GOOD / sizeof *GOOD); i++) {
        pco_context *other;
        const pco_operation *op;
        snprintf(text, sizeof text, i % 2 ? "x:F[..] -> y:F[%s]" : "x:F[%s] -> y:F[..]", GOOD[i / 2]);
        one.signature = text;
        check_ok(pco_context_create(NULL, &other, &err));
        check_ok(pco_op_register(other, &one, &op, &err));
        for (uint32_t rank = 0; rank <= PCO_MAX_RANK; rank++) { /* whatever comes of it, within memory */
            const int64_t shape[PCO_MAX_RANK] = {3, 3, 3, 3, 3, 3, 3, 3};
            pco_graph *tried = pco_graph_create();
            const uint32_t x = pco_graph_input(tried, "x", PCO_F32, rank, shape);
            pco_graph_apply(tried, op, NULL, &x, 1, NULL);
            pco_graph_destroy(tried);
        }
        pco_context_destroy(other);
    }
}

/* Text that is cut anywhere, or has another character anywhere, is refused or understood, and nothing else. */
static void test_mangled(void **state)
{
    static const char SIGNATURE[] = "x:F[..,K] w_?:f32[3,K] -> y:F[..,K] z:i32[*]", OTHERS[] = " :?[].,*@->K3x\x80";
    static struct {
        char name[16], text[sizeof SIGNATURE];
    } kept[sizeof SIGNATURE][sizeof OTHERS]; /* as long as the context */
    (void)state;
    pco_context *other;
    pco_op_declaration one = POWER;
    uint32_t taken = 0;
    check_ok(pco_context_create(NULL, &other, &err));
    one.shape = any_shape, one.gradient = NULL, one.n_attributes = 0;
    for (size_t i = 0; i < sizeof SIGNATURE; i++)
        for (size_t k = 0; k < sizeof OTHERS; k++) { /* the last of the others ends the text */
            const pco_operation *op;
            char *text = kept[i][k].text;
            memcpy(text, SIGNATURE, sizeof SIGNATURE);
            if (i + 1 < sizeof SIGNATURE) text[i] = OTHERS[k];
            snprintf(kept[i][k].name, sizeof kept[i][k].name, "mangled_%u_%u", (unsigned)i, (unsigned)k);
            one.name = kept[i][k].name, one.signature = text;
            pco_error why;
            if (pco_op_register(other, &one, &op, &why) == PCO_OK) {
                pco_graph *graph = pco_graph_create();
                const uint32_t in[2] = {pco_graph_input(graph, "x", PCO_F32, 2, (const int64_t[]){2, 3}),
                                        pco_graph_input(graph, "w", PCO_F32, 2, (const int64_t[]){3, 3})};
                pco_graph_apply(graph, op, NULL, in, 2, NULL);
                pco_graph_destroy(graph);
                taken++;
            }
        }
    pco_context_destroy(other);
    assert_true(taken > 0 && taken < sizeof SIGNATURE * sizeof OTHERS / 2);
}

static void test_declarations(void **state)
{
    (void)state;
    const pco_operation *op, *second;
    pco_op_declaration bad = POWER;
    bad.size = 0, refused(bad, "size");
    bad = POWER, bad.name = "Power", refused(bad, "lower-case");
    bad = POWER, bad.name = NULL, refused(bad, "lower-case");
    bad = POWER, bad.name = "matmul", refused(bad, "the table has an operation of that name");
    bad = POWER, bad.compute = NULL, refused(bad, "compute is NULL");
    bad = POWER, bad.signature = NULL, refused(bad, "signature is NULL");
    bad = POWER, bad.signature = "x:F[..,K]", refused(bad, "not understood");
    bad = POWER, bad.signature = "x:F -> y:F[..]", refused(bad, "not understood");
    bad = POWER, bad.signature = "x:F[..k] -> y:F[..]", refused(bad, "capital letters");
    bad = POWER, bad.signature = "x:G[..] -> y:F[..]", refused(bad, "neither a type");
    bad = POWER, bad.signature = "x:q8_0[..] -> y:F[..]", refused(bad, "neither a type");
    bad = POWER, bad.signature = "x:F[..] -> x:F[..]", refused(bad, "two operands or results");
    bad = POWER, bad.signature = "-> y:f32[3]", refused(bad, "0 operands");
    bad = POWER, bad.signature = "x:F[..]y:F[..] -> z:F[..]", refused(bad, "no space behind dimensions");
    bad = POWER, bad.signature = "x:F[..] -> y:F[..] -> z:F[..]", refused(bad, "a name is missing");
    bad = POWER, bad.signature = "x:F[K] -> y:F[K,N]", refused(bad, "what `N` of result");
    bad = POWER, bad.signature = "x:F[K] -> y:F[..,K]", refused(bad, "what `..` of result");
    bad = POWER, bad.signature = "x:F[K] -> y:F[*]", refused(bad, "what `*` of result");
    bad = POWER, bad.signature = "x:F[K] -> y:F[@]", refused(bad, "what `@` of result");
    bad = POWER, bad.signature = "x:f32[K] -> y:F[K]", refused(bad, "what `F` of result");
    bad = POWER, bad.signature = "x:F[K] -> y?:F[K]", refused(bad, "function shape makes results fewer");
    bad = POWER, bad.signature = "x:f[K] -> y:f[K]", refused(bad, "neither a type");
    bad = POWER, bad.types = "F=f33", refused(bad, "no element type");
    bad = POWER, bad.types = "f32", refused(bad, "types are");
    bad = POWER, bad.types = "F=", refused(bad, "a type is missing");
    bad = POWER, bad.types = "F=f32,", refused(bad, "a type is missing");
    bad = POWER, bad.types = "F=f32,f16,f32", refused(bad, "f32 twice");
    bad = POWER, bad.types = "F=f32 F=f16", refused(bad, "types of F twice");
    bad = POWER, bad.types = "F=f32  G=f16", refused(bad, "types are");
    static const pco_op_range BACKWARDS[] = {{0, 1}, {2, 1}};
    bad = POWER, bad.ranges = BACKWARDS, refused(bad, "range of operand 1");
    static const char *const SHAPES[] = {"3,65",     "3,65 65 65",          "3,,65 65",      "3,65 6x",
                                         "3,-65 65", "1,1,1,1,1,1,1,1,1 1", "65536,65536 3", "99999999999 3"};
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        const char *const list[] = {SHAPES[i], NULL};
        bad = POWER, bad.shapes = list, refused(bad, "shapes for tests");
    }
    static const double SETTINGS[] = {1, 2.5}, NOT[] = {NAN, 2};
    bad = POWER, bad.settings = SETTINGS, bad.n_settings = 1, refused(bad, "2.5 for attribute exponent");
    bad = POWER, bad.settings = NOT, bad.n_settings = 1, refused(bad, "for attribute scale");
    bad = POWER, bad.n_settings = 1, refused(bad, "settings are 1 rows");
    bad = POWER, bad.n_attributes = 17, refused(bad, "17 attributes");
    bad = POWER, bad.ulps = -1, refused(bad, "ulps");
    bad = POWER, bad.workgroup = 48, refused(bad, "power of two");
    check_ok(pco_op_register(context, &POWER, &op, &err));
    check_ok(pco_op_register(context, &HALVE, &second, &err));
    check_ok(pco_op_register(context, &SUMS, &second, &err));
    check_fails(pco_op_register(context, &POWER, &second, &err), PCO_ERROR_INVALID, "registered already");
    assert_ptr_equal(pco_op_lookup(context, "power"), op);
    assert_null(pco_op_lookup(context, "powers"));
}

static const int64_t SHAPE[] = {2, 3}, ROW[] = {3};
static const float X[6] = {0.5F, -1, 2, 1.5F, 1, -0.25F}, W[3] = {1, 2, -1.5F};

/* loss = sum of y over x [2,3] and w [3], with its gradients */
static void power_graph(pco_graph *graph, uint32_t *by)
{
    const pco_operation *op = pco_op_lookup(context, "power");
    const uint32_t in[2] = {pco_graph_input(graph, "x", PCO_F32, 2, SHAPE),
                            pco_graph_input(graph, "w", PCO_F32, 1, ROW)};
    const uint32_t y = pco_graph_apply(graph, op, &(power_attrs){.scale = 0.5, .exponent = 3}, in, 2, NULL);
    const uint32_t loss = pco_sum(graph, pco_mul(graph, y, y), &(pco_sum_attrs){.n_axes = 2, .axes = {0, 1}});
    check_ok(pco_gradients(graph, loss, in, 2, by, &err));
    pco_graph_output(graph, loss, "loss");
    pco_graph_output(graph, y, "y");
    const uint32_t rows = pco_graph_apply(graph, pco_op_lookup(context, "sums"), NULL, in, 1, NULL);
    pco_graph_output(graph, rows, "sums");
    pco_graph_output(graph, by[0], "by x");
    pco_graph_output(graph, by[1], "by w");
}

static void put(pco_executable *executable, const char *name, const float *data, size_t bytes)
{
    check_ok(pco_executable_write(executable, pco_executable_tensor(executable, name), data, bytes, &err));
}

static void take(pco_executable *executable, const char *name, void *data, size_t bytes)
{
    check_ok(pco_executable_read(executable, pco_executable_tensor(executable, name), data, bytes, &err));
}

/* sum of (0.5 (x w)^3)^2, in double */
static double power_loss(const double *x, const double *w)
{
    double sum = 0;
    for (int i = 0; i < 6; i++) sum += pow(0.5 * pow(x[i] * w[i % 3], 3), 2);
    return sum;
}

/* The rule against differences of the function in double: (f(v + h) - f(v - h)) / 2h has an error of h^2 f'''/6, here
 * below 1e-5 with h = 1e-4; the graph's f32 rounds some ten times, so 1e-5 of the value. */
static void check_gradient(double *at, const double *x, const double *w, float got)
{
    const double h = 1e-4, before = *at;
    *at = before + h;
    const double above = power_loss(x, w);
    *at = before - h;
    const double below = power_loss(x, w);
    *at = before;
    const double want = (above - below) / (2 * h);
    if (!(fabs((double)got - want) <= 1e-5 * fabs(want) + 1e-5))
        fail_msg("gradient %g, differences give %g", (double)got, want);
}

static void test_gradients(void **state)
{
    (void)state;
    double x[6], w[3];
    for (int i = 0; i < 6; i++) x[i] = (double)X[i];
    for (int i = 0; i < 3; i++) w[i] = (double)W[i];
    int tested = 0;
    for (char **device = devices; *device; device++) {
        pco_session *session = open_if_there(context, *device);
        pco_executable *executable;
        if (!session) continue;
        tested++;
        pco_graph *graph = pco_graph_create();
        uint32_t by[2];
        float loss, rows[2], by_x[6], by_w[3];
        power_graph(graph, by);
        check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
        pco_executable_stats stats = {.size = sizeof stats};
        check_ok(pco_executable_inspect(executable, &stats, &err));
        assert_int_equal(stats.cpu_nodes, 0); /* kernels were made of text, and have passed the self-test */
        pco_graph_destroy(graph);             /* what it needs of the operation stays */
        put(executable, "x", X, sizeof X);
        put(executable, "w", W, sizeof W);
        check_ok(pco_executable_run(executable, &err));
        take(executable, "loss", &loss, sizeof loss);
        take(executable, "by x", by_x, sizeof by_x);
        take(executable, "by w", by_w, sizeof by_w);
        take(executable, "sums", rows, sizeof rows);
        for (int i = 0; i < 2; i++) assert_true(rows[i] == X[3 * i] + X[3 * i + 1] + X[3 * i + 2]); /* exact */
        assert_true(fabs((double)loss - power_loss(x, w)) <= 1e-6 * power_loss(x, w));
        for (int i = 0; i < 6; i++) check_gradient(&x[i], x, w, by_x[i]);
        for (int i = 0; i < 3; i++) check_gradient(&w[i], x, w, by_w[i]);
        pco_executable_destroy(executable);
        pco_session_close(session);
    }
    assert_true(tested);
}

/* An absent operand, initial attributes, half types, results of two types, and shapes by a function. */
static void test_forms(void **state)
{
    (void)state;
    pco_session *session;
    pco_executable *executable;
    float y[6], z[3];
    int32_t index[3];
    pco_graph *graph = pco_graph_create();
    const uint32_t x = pco_graph_input(graph, "x", PCO_F32, 1, (const int64_t[]){6});
    const uint32_t half = pco_cast(graph, x, PCO_F16);
    uint32_t both[PCO_MAX_OUTPUTS];
    const uint32_t made = pco_graph_apply(graph, pco_op_lookup(context, "power"), NULL, &half, 1, NULL);
    pco_graph_output(graph, pco_cast(graph, made, PCO_F32), "y");
    pco_graph_apply(graph, pco_op_lookup(context, "halve"), NULL, &x, 1, both);
    pco_graph_output(graph, both[0], "z");
    pco_graph_output(graph, both[1], "index");
    check_ok(pco_session_open(context, "cpu", &session, &err));
    check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
    put(executable, "x", X, sizeof X);
    check_ok(pco_executable_run(executable, &err));
    take(executable, "y", y, sizeof y);
    take(executable, "z", z, sizeof z);
    take(executable, "index", index, sizeof index);
    for (int i = 0; i < 6; i++) assert_true(y[i] == 2 * X[i] * X[i] * X[i]); /* exact in f16 */
    for (int i = 0; i < 3; i++) assert_true(z[i] == X[2 * i] && index[i] == 2 * i);
    pco_executable_destroy(executable);
    pco_session_close(session);
    pco_graph_destroy(graph);
}

static void wrong(const pco_operation *op, const void *attrs, uint32_t rank, pco_dtype dtype, const char *part)
{
    pco_graph *graph = pco_graph_create();
    const uint32_t x = pco_graph_input(graph, "x", dtype, rank, SHAPE);
    assert_int_equal(pco_graph_apply(graph, op, attrs, &x, 1, NULL), PCO_NONE);
    check_fails(pco_graph_check(graph, &err), PCO_ERROR_INVALID, part);
    pco_graph_destroy(graph);
}

static void test_misuse(void **state)
{
    (void)state;
    const pco_operation *op = pco_op_lookup(context, "power"), *two = pco_op_lookup(context, "halve");
    wrong(NULL, NULL, 2, PCO_F32, "operation is NULL");
    wrong(op, NULL, 0, PCO_F32, "at least 1 dimension");
    wrong(op, NULL, 2, PCO_I32, "must be one of f32,f16,bf16");
    wrong(two, NULL, 2, PCO_F32, "x has 2 dimensions, and must have 1");
    pco_graph *graph = pco_graph_create();
    const uint32_t x = pco_graph_input(graph, "x", PCO_F32, 2, SHAPE),
                   made = pco_graph_apply(graph, two, NULL, &x, 0, NULL);
    assert_int_equal(made, PCO_NONE);
    check_fails(pco_graph_check(graph, &err), PCO_ERROR_INVALID, "operand 'x' is missing");
    pco_graph_destroy(graph);
    graph = pco_graph_create();
    assert_int_equal(pco_graph_add(graph, (pco_op)(PCO_OP_OWN + 5), NULL, &x, 1, NULL), PCO_NONE);
    check_fails(pco_graph_check(graph, &err), PCO_ERROR_INVALID, "pco_graph_apply");
    pco_graph_destroy(graph);
    graph = pco_graph_create(); /* not differentiable */
    const uint32_t v = pco_graph_input(graph, "v", PCO_F32, 1, ROW);
    const uint32_t loss = pco_sum(graph, pco_graph_apply(graph, two, NULL, &v, 1, NULL), &(pco_sum_attrs){.n_axes = 1});
    uint32_t by;
    check_fails(pco_gradients(graph, loss, &v, 1, &by, &err), PCO_ERROR_UNSUPPORTED, "op 'halve'");
    pco_graph_destroy(graph);
}

/* Does the device run `declaration`, or has its self-test refused the kernel? All verdicts are kept in one place. */
static void check_runs(const char *device, const pco_op_declaration *declaration, int runs)
{
    pco_context *other;
    const pco_operation *op;
    pco_executable *executable;
    check_ok(pco_context_create(NULL, &other, &err));
    check_ok(pco_op_register(other, declaration, &op, &err));
    pco_session *session = open_if_there(other, device);
    if (session) {
        pco_graph *graph = pco_graph_create();
        const uint32_t x = pco_graph_input(graph, "x", PCO_F32, 2, (const int64_t[]){7, 64});
        pco_graph_output(graph, pco_graph_apply(graph, op, NULL, &x, 1, NULL), "y");
        check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
        pco_executable_stats stats = {.size = sizeof stats};
        check_ok(pco_executable_inspect(executable, &stats, &err));
        assert_int_equal(stats.cpu_nodes, !runs);
        pco_graph_destroy(graph);
        pco_executable_destroy(executable);
        pco_session_close(session);
    }
    pco_context_destroy(other);
}

static const pco_op_range ABOVE = {0.25, 2};

/* The self-test holds a kernel to what the declaration says, and so does a verdict that is kept. */
static void test_bounds(void **state)
{
    static const pco_op_range BOTH = {-2, 2};
    (void)state;
    for (char **device = devices; *device; device++) {
        if (!strncmp(*device, "cpu", 3)) continue; /* has no kernels */
        pco_op_declaration one = {.size = sizeof one,
                                  .name = "third",
                                  .signature = "x:f32[..] -> y:f32[..]",
                                  .compute = third,
                                  .kernel = THIRD_KERNEL,
                                  .ranges = &ABOVE};
        for (int again = 0; again < 2; again++) { /* 2e-5 are 336 ulps of 2^-24 */
            one.ulps = 400, check_runs(*device, &one, 1);
            one.ulps = 0, check_runs(*device, &one, 0);
            one.ulps = 300, check_runs(*device, &one, 0);
            one.ulps = 16, one.magnitude = third_magnitude, check_runs(*device, &one, 1); /* 300 times y */
            one.ranges = &BOTH, check_runs(*device, &one, 0);
            one.ranges = &ABOVE, one.magnitude = NULL;
        }
    }
}

/* Kernels have words of 32 bits: a node whose attribute takes more is not for them. */
static void test_wide_attributes(void **state)
{
    static const struct {
        double initial;
        int runs;
    } EDGES[] = {{INT32_MAX, 1}, {INT32_MAX + 1.0, 0}, {INT32_MIN, 1}, {INT32_MIN - 1.0, 0}};
    (void)state;
    for (char **device = devices; *device; device++)
        for (size_t i = 0; i < sizeof EDGES / sizeof *EDGES && strncmp(*device, "cpu", 3); i++) {
            const pco_op_attribute edge = {"edge", 0, EDGES[i].initial, "is not looked at"};
            const pco_op_declaration one = {.size = sizeof one,
                                            .name = "third",
                                            .signature = "x:f32[..] -> y:f32[..]",
                                            .attributes = &edge,
                                            .n_attributes = 1,
                                            .compute = third,
                                            .kernel = THIRD_KERNEL,
                                            .ranges = &ABOVE,
                                            .ulps = 400};
            check_runs(*device, &one, EDGES[i].runs);
        }
}

/* What a function says when a node runs ends the run, and the next one is as good as any. */
static void test_failing(void **state)
{
    (void)state;
    pco_session *session;
    pco_executable *executable;
    pco_graph *graph = pco_graph_create();
    const uint32_t x = pco_graph_input(graph, "x", PCO_F32, 2, SHAPE);
    pco_graph_output(graph, pco_graph_apply(graph, pco_op_lookup(context, "power"), &(power_attrs){1, 13}, &x, 1, NULL),
                     "y");
    check_ok(pco_session_open(context, "cpu", &session, &err));
    check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
    put(executable, "x", X, sizeof X);
    check_fails(pco_executable_run(executable, &err), PCO_ERROR_UNSUPPORTED, "op 'power': 13 brings bad luck");
    check_fails(pco_executable_run(executable, &err), PCO_ERROR_UNSUPPORTED, "op 'power': 13 brings bad luck");
    pco_executable_destroy(executable);
    pco_session_close(session);
    pco_graph_destroy(graph);
}

/* A graph may outlive the context that knew its operation. */
static void test_lifetime(void **state)
{
    (void)state;
    pco_context *other;
    const pco_operation *op;
    check_ok(pco_context_create(NULL, &other, &err));
    check_ok(pco_op_register(other, &POWER, &op, &err));
    pco_graph *graph = pco_graph_create();
    const uint32_t x = pco_graph_input(graph, "x", PCO_F32, 2, SHAPE);
    pco_graph_output(graph, pco_graph_apply(graph, op, NULL, &x, 1, NULL), "y");
    pco_context_destroy(other);
    pco_session *session;
    pco_executable *executable;
    check_ok(pco_session_open(context, "cpu", &session, &err));
    check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
    pco_graph_destroy(graph);
    static const float values[64] = {1};
    check_ok(pco_executable_write(executable, x, values, (uint64_t)(SHAPE[0] * SHAPE[1]) * sizeof *values, &err));
    check_ok(pco_executable_run(executable, &err));
    pco_executable_destroy(executable);
    pco_session_close(session);
}

int main(int argc, char **argv)
{
    (void)argc;
    devices = argv + 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_declarations), cmocka_unit_test(test_dimensions), cmocka_unit_test(test_mangled),
        cmocka_unit_test(test_gradients),    cmocka_unit_test(test_forms),      cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_failing),      cmocka_unit_test(test_bounds),     cmocka_unit_test(test_wide_attributes),
        cmocka_unit_test(test_lifetime),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
