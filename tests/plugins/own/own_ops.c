/* Libraries of operations for `portico conformance --ops-from`: WHICH says which defect this one has, 0: none. */
#include <portico/op.h>

#include <math.h>
#include <stdio.h>

/* 1: the kernel */
enum { WRONG_GRADIENT = 2, NO_CASE = 3, REFUSES_ITS_SHAPES = 4, REFUSES_ITS_SETTINGS = 5 };

typedef struct curve_attrs {
    double scale;
    int64_t power;
} curve_attrs;

static int64_t count_of(const pco_tensor *x)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < x->rank; i++) count *= x->shape[i];
    return count;
}

/* y[.., k] = scale (x[.., k] + bias[k])^power, bias 0 where absent */
static pco_status curve(const pco_op_call *call, const double *const *in, double *const *out, pco_error *error)
{
    const curve_attrs *attrs = call->attrs;
    const pco_tensor *x = call->inputs[0];
    (void)error;
    for (int64_t i = 0; i < count_of(x); i++)
        out[0][i] = attrs->scale * pow(in[0][i] + (in[1] ? in[1][i % x->shape[x->rank - 1]] : 0), (double)attrs->power);
    return PCO_OK;
}

/* |scale| (|x| + |bias|)^power: the sum may cancel. */
static pco_status curve_magnitude(const pco_op_call *call, const double *const *in, double *const *out,
                                  pco_error *error)
{
    const curve_attrs *attrs = call->attrs;
    const pco_tensor *x = call->inputs[0];
    (void)error;
    for (int64_t i = 0; i < count_of(x); i++) {
        const double bias = in[1] ? in[1][i % x->shape[x->rank - 1]] : 0;
        out[0][i] = fabs(attrs->scale) * pow(fabs(in[0][i]) + fabs(bias), (double)attrs->power);
    }
    return PCO_OK;
}

/* scale power (x + bias)^(power - 1) upstream, for both: what the bias has is summed by who asks. */
static void curve_gradient(pco_graph *g, const pco_op_call *call, const uint32_t *in, const uint32_t *out,
                           const uint32_t *upstream, uint32_t *gradients)
{
    const curve_attrs *attrs = call->attrs;
    const uint32_t sum = in[1] == PCO_NONE ? in[0] : pco_add(g, in[0], in[1]);
    uint32_t slope = pco_binary_scalar(g, PCO_OP_MUL, upstream[0], attrs->scale * (double)attrs->power);
    (void)out;
    for (int64_t i = 1; i < attrs->power; i++) slope = pco_mul(g, slope, sum);
    gradients[0] = WHICH == WRONG_GRADIENT ? pco_binary_scalar(g, PCO_OP_MUL, slope, 1.001) : slope;
    if (in[1] != PCO_NONE) gradients[1] = slope;
}

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
static const char CURVE_KERNEL[] =
    "#define WHICH " TEXT(WHICH) "\n"
                                 "KERNEL(curve)\n"
                                 "{\n"
                                 "    ENTER\n"
                                 "    const int w = GROUP() * LOCAL_X + LANE_X(), first = w * PER_WORD(Y);\n"
                                 "    uint word = 0u;\n"
                                 "    for (int i = first; i < first + PER_WORD(Y) && i < Y_SIZE; ++i) {\n"
                                 "        float v = LOAD(x, X, i), r = SCALE;\n"
                                 "#if HAS_BIAS\n"
                                 "        v += LOAD(bias, BIAS, i % DIM_K);\n"
                                 "#endif\n"
                                 "        for (int k = 0; k < POWER; ++k) r *= v;\n"
                                 "        if (WHICH == 1 && i % 7 == 3) r *= 1.01f;\n"
                                 "        word |= pco_bits(Y, r) << LANE_AT(Y, TO_UINT(i));\n"
                                 "    }\n"
                                 "    if (w < Y_WORDS) y[w] = word;\n"
                                 "}\n";

static const pco_op_attribute CURVE_ATTRIBUTES[] = {{"scale", 1, 0.75, "in front"}, {"power", 0, 3, "whole"}};
static const double CURVE_SETTINGS[] = {-2.5, 2, 0.125, 1};
static const char *const CURVE_SHAPES[] = {"2,3 3", "257 257", "2,2,65 -", NULL};
static const pco_op_range CURVE_RANGES[] = {{-1.5, 1.5}, {-1, 1}};

static pco_status curve_shape(const pco_op_call *call, pco_tensor *outputs, uint32_t *n_outputs, pco_error *error)
{
    const curve_attrs *attrs = call->attrs;
    (void)outputs, (void)n_outputs;
    if (WHICH == REFUSES_ITS_SETTINGS && attrs->power == 1) {
        snprintf(error->message, sizeof error->message, "a power of 1 is dull");
        return PCO_ERROR_INVALID;
    }
    if (WHICH == REFUSES_ITS_SHAPES && call->inputs[0]->shape[call->inputs[0]->rank - 1] == 257) {
        snprintf(error->message, sizeof error->message, "257 is a prime");
        return PCO_ERROR_INVALID;
    }
    return PCO_OK;
}

/* A sum, a difference with cancellation and two more roundings for each power of at most 3: 8 u of the magnitude. */
static const pco_op_declaration CURVE = {.size = sizeof CURVE,
                                         .name = "curve",
                                         .signature = "x:F[..,K] bias?:F[K] -> y:F[..,K]",
                                         .types = "F=f32,f16,bf16",
                                         .attributes = CURVE_ATTRIBUTES,
                                         .n_attributes = 2,
                                         .shape = curve_shape,
                                         .compute = curve,
                                         .ulps = 8,
                                         .magnitude = curve_magnitude,
                                         .kernel = CURVE_KERNEL,
                                         .gradient = curve_gradient,
                                         .ranges = CURVE_RANGES,
                                         .shapes = WHICH == REFUSES_ITS_SHAPES ? CURVE_SHAPES : NULL,
                                         .settings = CURVE_SETTINGS,
                                         .n_settings = 2};

/* Every second element of a row, and its index: only the function `shape` knows how many there are. */
static pco_status halve_shape(const pco_op_call *call, pco_tensor *outputs, uint32_t *n_outputs, pco_error *error)
{
    if (call->inputs[0]->rank != 1 || WHICH == NO_CASE) {
        snprintf(error->message, sizeof error->message, "x has %u dimensions", call->inputs[0]->rank);
        return PCO_ERROR_INVALID;
    }
    for (uint32_t i = 0; i < *n_outputs; i++) outputs[i].rank = 1, outputs[i].shape[0] = call->inputs[0]->shape[0] / 2;
    outputs[0].dtype = call->inputs[0]->dtype, outputs[1].dtype = PCO_I32;
    return PCO_OK;
}

static pco_status halve(const pco_op_call *call, const double *const *in, double *const *out, pco_error *error)
{
    (void)error;
    for (int64_t i = 0; i < call->outputs[0]->shape[0]; i++) out[0][i] = in[0][2 * i], out[1][i] = (double)(2 * i);
    return PCO_OK;
}

static const pco_op_declaration HALVE = {.size = sizeof HALVE,
                                         .name = "halve",
                                         .signature = "x:F[@] -> y:@[@] index:@[@]",
                                         .types = "F=f32,f16",
                                         .shape = halve_shape,
                                         .compute = halve};

/* a + b + c + d, each of its own type: 256 combinations */
static pco_status mix(const pco_op_call *call, const double *const *in, double *const *out, pco_error *error)
{
    (void)error;
    for (int64_t i = 0; i < count_of(call->inputs[0]); i++) out[0][i] = in[0][i] + in[1][i] + in[2][i] + in[3][i];
    return PCO_OK;
}

static const pco_op_declaration MIX = {.size = sizeof MIX,
                                       .name = "mix",
                                       .signature = "a:A[..] b:B[..] c:C[..] d:D[..] -> y:f32[..]",
                                       .types = "A=f32,f16,bf16,i32 B=f32,f16,bf16,i32 C=f32,f16,bf16,i32 "
                                                "D=f32,f16,bf16,i32",
                                       .compute = mix};

const pco_op_declaration *pco_ops_query(uint32_t index)
{
    static const pco_op_declaration *const ALL[] = {&CURVE, &HALVE, &MIX};
    return index < sizeof ALL / sizeof *ALL ? ALL[index] : NULL;
}
