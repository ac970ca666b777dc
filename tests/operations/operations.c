/* Operations of one's own as a library, for `portico conformance --ops-from`: between them they use all that a
 * declaration may say of a kernel, up to the most of it, so that the suite sees how a device makes kernels of texts.
 * Every device whose plugin makes them runs them all. */
#include "portico/op.h"

#include <math.h>
#include <stdint.h>

/* ---- two results of two types, operands that may be absent, letters at both ends of the alphabet ---- */

typedef struct blend_attrs {
    double scale;
    int64_t shift, least, most;
    double slope;
} blend_attrs;

static const pco_op_attribute BLEND_ATTRIBUTES[] = {{"scale", 1, 0.75, "of x za_2 in y"},
                                                    {"shift", 0, 3, "of low in y"},
                                                    {"least", 0, INT32_MIN, "as it is"},
                                                    {"most", 0, INT32_MAX, "as it is"},
                                                    {"slope", 1, -0.5, "of x top in rest"}};

/* y = scale x za_2 + shift low, rest = slope x top + low; za_2 and top are 1 where they are absent */
static void blend_terms(const pco_op_call *call, const double *const *in, int64_t i, double *a, double *b, double *c)
{
    const blend_attrs *attrs = call->attrs;
    const pco_tensor *x = call->inputs[0];
    const int64_t n = x->shape[x->rank - 1], m = n * x->shape[x->rank - 2];
    const int fits = attrs->least == INT32_MIN && attrs->most == INT32_MAX;
    *a = attrs->scale * in[0][i] * (in[1] ? in[1][i % n] : 1);
    *b = fits ? in[2][i % m] : 0;
    *c = attrs->slope * in[0][i] * (in[3] ? in[3][i % n] : 1);
}

static pco_status blend(const pco_op_call *call, const double *const *in, double *const *out, pco_error *err)
{
    (void)err;
    for (int64_t i = 0; i < pco_tensor_elements(call->inputs[0]); i++) {
        double a, b, c;
        blend_terms(call, in, i, &a, &b, &c);
        out[0][i] = a + (double)((const blend_attrs *)call->attrs)->shift * b, out[1][i] = c + b;
    }
    return PCO_OK;
}

static pco_status blend_magnitude(const pco_op_call *call, const double *const *in, double *const *out, pco_error *err)
{
    (void)err;
    for (int64_t i = 0; i < pco_tensor_elements(call->inputs[0]); i++) {
        double a, b, c;
        blend_terms(call, in, i, &a, &b, &c);
        out[0][i] = fabs(a) + 3 * fabs(b), out[1][i] = fabs(c) + fabs(b);
    }
    return PCO_OK;
}

/* A word of y each, and every Y_WORDS-th word of rest. */
static const char BLEND_KERNEL[] =
    "#if HAS_ZA_2\n"
    "#define GAIN(i) LOAD(za_2, ZA_2, (i) % DIM_A)\n"
    "#else\n"
    "#define GAIN(i) 1.0f\n"
    "#endif\n"
    "#if HAS_TOP\n"
    "#define TOP_AT(i) LOAD(top, TOP, (i) % DIM_A)\n"
    "#else\n"
    "#define TOP_AT(i) 1.0f\n"
    "#endif\n"
    "#if defined(HAS_Y) && HAS_Y == 1 && defined(HAS_REST) && HAS_REST == 1\n" /* there are results, always */
    "#define WORDS Y_WORDS\n"
    "#else\n"
    "#define WORDS 0\n"
    "#endif\n"
    "#define AS_THEY_ARE (LEAST + 2147483647 == -1 && MOST - 2147483647 == 0)\n"
    "#define LOW_AT(i) (AS_THEY_ARE ? LOAD(low, LOW, (i) % (DIM_A * DIM_Z)) : 0.0f)\n"
    "KERNEL(blend)\n"
    "{\n"
    "    ENTER\n"
    "    const int w = GROUP() * LOCAL_X + LANE_X();\n"
    "    if (w < WORDS) {\n"
    "        uint word = 0u;\n"
    "        for (int i = w * PER_WORD(Y); i < (w + 1) * PER_WORD(Y) && i < Y_SIZE; ++i)\n"
    "            word |= pco_bits(Y, SCALE * LOAD(x, X, i) * GAIN(i) + TO_FLOAT(SHIFT) * LOW_AT(i)) << LANE_AT(Y, "
    "TO_UINT(i));\n"
    "        y[w] = word;\n"
    "        for (int v = w; v < REST_WORDS; v += Y_WORDS) {\n"
    "            word = 0u;\n"
    "            for (int i = v * PER_WORD(REST); i < (v + 1) * PER_WORD(REST) && i < REST_SIZE; ++i)\n"
    "                word |= pco_bits(REST, SLOPE * LOAD(x, X, i) * TOP_AT(i) + LOW_AT(i)) << LANE_AT(REST, "
    "TO_UINT(i));\n"
    "            rest[v] = word;\n"
    "        }\n"
    "    }\n"
    "}"; /* without a newline: a text's last letter counts */

/* scale and shift are exact, the rest is two products and a sum: 3 u of their magnitudes. */
static const pco_op_declaration BLEND = {
    .size = sizeof BLEND,
    .name = "blend",
    .signature = "x:F[..,Z,A] za_2?:f32[A] low:G[Z,A] top?:f32[A] -> y:F[..,Z,A] rest:G[..,Z,A]",
    .types = "F=f32,f16,bf16 G=f32,f16",
    .attributes = BLEND_ATTRIBUTES,
    .n_attributes = 5,
    .compute = blend,
    .magnitude = blend_magnitude,
    .ulps = 4,
    .kernel = BLEND_KERNEL};

/* ---- a workgroup for each row, with shared memory ---- */

static int64_t last_of(const pco_tensor *x) { return x->rank ? x->shape[x->rank - 1] : 1; }

/* y = x less the mean of its row */
static pco_status center(const pco_op_call *call, const double *const *in, double *const *out, pco_error *err)
{
    (void)err;
    const int64_t k = last_of(call->inputs[0]), count = pco_tensor_elements(call->inputs[0]);
    for (int64_t row = 0; row < count; row += k) {
        double sum = 0;
        for (int64_t i = 0; i < k; i++) sum += in[0][row + i];
        for (int64_t i = 0; i < k; i++) out[0][row + i] = in[0][row + i] - sum / (double)k;
    }
    return PCO_OK;
}

static pco_status center_magnitude(const pco_op_call *call, const double *const *in, double *const *out, pco_error *err)
{
    (void)err;
    const int64_t k = last_of(call->inputs[0]), count = pco_tensor_elements(call->inputs[0]);
    for (int64_t row = 0; row < count; row += k) {
        double sum = 0;
        for (int64_t i = 0; i < k; i++) sum += fabs(in[0][row + i]);
        for (int64_t i = 0; i < k; i++) out[0][row + i] = fabs(in[0][row + i]) + sum / (double)k;
    }
    return PCO_OK;
}

static const char CENTER_KERNEL[] =
    "#define SHARED_ARRAYS SHARED(float, part, 32)\n"
    "KERNEL(center)\n"
    "{\n"
    "    ENTER\n"
    "    const int row = GROUP(), lane = LANE_X(), first = row * DIM_K;\n"
    "    float sum = 0.0f;\n"
    "    if (first < Y_SIZE)\n"
    "        for (int i = lane; i < DIM_K; i += 32) sum += LOAD(x, X, first + i);\n"
    "    part[lane] = sum;\n"
    "    BARRIER();\n"
    "    sum = 0.0f;\n"
    "    for (int i = 0; i < 32; ++i) sum += part[i];\n"
    "    if (first < Y_SIZE)\n"
    "        for (int i = lane; i < DIM_K; i += 32)\n"
    "            y[first + i] = AS_UINT(LOAD(x, X, first + i) - sum / TO_FLOAT(DIM_K));\n"
    "}\n";

/* 32 partial sums of up to 33 terms, their sum, a division and a difference: fewer than 80 roundings each. */
static const pco_op_declaration CENTER = {.size = sizeof CENTER,
                                          .name = "center",
                                          .signature = "x:f32[..,K] -> y:f32[..,K]",
                                          .compute = center,
                                          .magnitude = center_magnitude,
                                          .ulps = 80,
                                          .kernel = CENTER_KERNEL,
                                          .workgroup = 32,
                                          .group_per_row = 1};

/* The sum of everything and a first number, a scalar: one row of one element. Letter K is a type and a dimension. */
static pco_status total(const pco_op_call *call, const double *const *in, double *const *out, pco_error *err)
{
    (void)err;
    out[0][0] = in[0][0];
    for (int64_t i = 0; i < pco_tensor_elements(call->inputs[1]); i++) out[0][0] += in[1][i];
    return PCO_OK;
}

static pco_status total_magnitude(const pco_op_call *call, const double *const *in, double *const *out, pco_error *err)
{
    (void)err;
    out[0][0] = fabs(in[0][0]);
    for (int64_t i = 0; i < pco_tensor_elements(call->inputs[1]); i++) out[0][0] += fabs(in[1][i]);
    return PCO_OK;
}

static const char TOTAL_KERNEL[] = "KERNEL(total)\n"
                                   "{\n"
                                   "    ENTER\n"
                                   "    float sum = LOAD(first, FIRST, 0);\n"
                                   "    for (int i = 0; i < DIM_K; ++i) sum += LOAD(x, X, i);\n"
                                   "    if (GROUP() == 0 && LANE_X() == 0) y[0] = AS_UINT(sum);\n"
                                   "}\n";

/* A sum of up to 1024 terms, one after the other. */
static const char *const TOTAL_SHAPES[] = {"1 1", "2,3 7", "5,1 1023", "3,2,4 33", "2,2 0", NULL};
static const pco_op_declaration TOTAL = {.size = sizeof TOTAL,
                                         .name = "total",
                                         .signature = "first:K[..] x:f32[K] -> y:f32[]",
                                         .types = "K=f32,f16",
                                         .compute = total,
                                         .magnitude = total_magnitude,
                                         .ulps = 1024,
                                         .kernel = TOTAL_KERNEL,
                                         .group_per_row = 1,
                                         .shapes = TOTAL_SHAPES};

/* ---- as many buffers (8) and parameters (32) as a kernel has: 8 sizes, 2 of words, 6 letters, 16 attributes ---- */

static const pco_op_attribute CROWD_ATTRIBUTES[] = {
    {"p0", 1, 1, ""},     {"p1", 1, 2, ""},     {"p2", 1, -1, ""},  {"p3", 1, 0.5, ""},
    {"p4", 1, -0.25, ""}, {"p5", 1, 4, ""},     {"p6", 1, 1.5, ""}, {"p7", 0, -7, ""},
    {"p8", 0, 11, ""},    {"p9", 1, 0.125, ""}, {"p10", 0, 3, ""},  {"p11", 1, -3, ""},
    {"p12", 0, 29, ""},   {"p13", 1, 0.75, ""}, {"p14", 0, 5, ""},  {"p15", 0, -31, ""}};

typedef struct crowd_attrs {
    double p0, p1, p2, p3, p4, p5, p6;
    int64_t p7, p8;
    double p9;
    int64_t p10;
    double p11;
    int64_t p12;
    double p13;
    int64_t p14, p15;
} crowd_attrs;

/* Every parameter is a term of its own: y[i] = p0 a[i] + p1 b[i mod B] + ... + p5 f[i mod G] + p6 + p7 + ... + p12, and
 * z[i] = b[i] + p13 + p14 + p15. */
static double crowd_sum(const pco_op_call *call, const double *const *in, int64_t i, int magnitude)
{
    const crowd_attrs *p = call->attrs;
    const double factors[] = {p->p0, p->p1, p->p2, p->p3, p->p4, p->p5};
    const double terms[] = {p->p6, (double)p->p7, (double)p->p8, p->p9, (double)p->p10, p->p11, (double)p->p12};
    double sum = 0;
    for (int k = 0; k < 6; k++) {
        const double term = factors[k] * in[k][i % call->inputs[k]->shape[0]];
        sum += magnitude ? fabs(term) : term;
    }
    for (int k = 0; k < 7; k++) sum += magnitude ? fabs(terms[k]) : terms[k];
    return sum;
}

static pco_status crowd_fill(const pco_op_call *call, const double *const *in, double *const *out, int magnitude)
{
    const crowd_attrs *p = call->attrs;
    for (int64_t i = 0; i < call->inputs[0]->shape[0]; i++) out[0][i] = crowd_sum(call, in, i, magnitude);
    for (int64_t i = 0; i < call->inputs[1]->shape[0]; i++)
        out[1][i] = magnitude ? fabs(in[1][i]) + p->p13 + (double)p->p14 + fabs((double)p->p15)
                              : in[1][i] + p->p13 + (double)p->p14 + (double)p->p15;
    return PCO_OK;
}

static pco_status crowd(const pco_op_call *call, const double *const *in, double *const *out, pco_error *err)
{
    (void)err;
    return crowd_fill(call, in, out, 0);
}

static pco_status crowd_magnitude(const pco_op_call *call, const double *const *in, double *const *out, pco_error *err)
{
    (void)err;
    return crowd_fill(call, in, out, 1);
}

static const char CROWD_KERNEL[] =
    "KERNEL(crowd)\n"
    "{\n"
    "    ENTER\n"
    "    const int i = GROUP() * LOCAL_X + LANE_X();\n"
    "    if (A_SIZE == DIM_A && B_SIZE == DIM_B && C_SIZE == DIM_C && D_SIZE == DIM_D && E_SIZE == DIM_E && F_SIZE == "
    "DIM_G) {\n"
    "        if (i < Y_WORDS && i < Y_SIZE)\n"
    "            y[i] = AS_UINT(P0 * LOAD(a, A, i) + P1 * LOAD(b, B, i % DIM_B) + P2 * LOAD(c, C, i % DIM_C) +\n"
    "                           P3 * LOAD(d, D, i % DIM_D) + P4 * LOAD(e, E, i % DIM_E) + P5 * LOAD(f, F, i % DIM_G) "
    "+\n"
    "                           P6 + TO_FLOAT(P7) + TO_FLOAT(P8) + P9 + TO_FLOAT(P10) + P11 + TO_FLOAT(P12));\n"
    "        if (i < DIM_A)\n"
    "            for (int k = i; k < Z_WORDS && k < Z_SIZE; k += DIM_A)\n"
    "                z[k] = AS_UINT(LOAD(b, B, k) + P13 + TO_FLOAT(P14) + TO_FLOAT(P15));\n"
    "    }\n"
    "}\n";

/* 13 terms: 13 sums and a product each. */
static const pco_op_declaration CROWD = {
    .size = sizeof CROWD,
    .name = "crowd",
    .signature = "a:f32[A] b:f32[B] c:f32[C] d:f32[D] e:f32[E] f:f32[G] -> y:f32[A] z:f32[B]",
    .attributes = CROWD_ATTRIBUTES,
    .n_attributes = 16,
    .compute = crowd,
    .magnitude = crowd_magnitude,
    .ulps = 16,
    .kernel = CROWD_KERNEL};

/* ---- integers and booleans, a shape that a function says, shapes that are listed ---- */

/* y[i] = x[2 i], index[i] = 2 i, where that is even[i]; otherwise 0 and -1 */
static pco_status halve_shape(const pco_op_call *call, pco_tensor *outputs, uint32_t *n_outputs, pco_error *err)
{
    (void)err;
    for (uint32_t i = 0; i < *n_outputs; i++) outputs[i].rank = 1, outputs[i].shape[0] = call->inputs[1]->shape[0];
    outputs[0].dtype = call->inputs[0]->dtype, outputs[1].dtype = PCO_I32;
    return PCO_OK;
}

static pco_status halve(const pco_op_call *call, const double *const *in, double *const *out, pco_error *err)
{
    (void)err;
    for (int64_t i = 0; i < call->outputs[0]->shape[0]; i++) {
        const int there = in[1][i] != 0 && 2 * i < call->inputs[0]->shape[0];
        out[0][i] = there ? in[0][2 * i] : 0, out[1][i] = there ? (double)(2 * i) : -1;
    }
    return PCO_OK;
}

static const char HALVE_KERNEL[] =
    "#define THERE(i) (LOAD_BITS(even, EVEN, i) != 0u && 2 * (i) < X_SIZE)\n"
    "KERNEL(halve)\n"
    "{\n"
    "    ENTER\n"
    "    const int w = GROUP() * LOCAL_X + LANE_X();\n"
    "    if (w < Y_WORDS) {\n"
    "        uint word = 0u;\n"
    "        for (int i = w * PER_WORD(Y); i < (w + 1) * PER_WORD(Y) && i < Y_SIZE; ++i) {\n"
    "            if (THERE(i)) word |= LOAD_BITS(x, X, 2 * i) << LANE_AT(Y, TO_UINT(i));\n"
    "            index[i] = TO_UINT(THERE(i) ? 2 * i : -1);\n"
    "        }\n"
    "        y[w] = word;\n"
    "    }\n"
    "}\n";

static const char *const HALVE_SHAPES[] = {"8 4", "7 3", "1025 513", "1 1", "4099 2051", "6 0", NULL};
static const pco_op_declaration HALVE = {.size = sizeof HALVE,
                                         .name = "halve",
                                         .signature = "x:F[@] even:bool[@] -> y:@[@] index:@[@]",
                                         .types = "F=f32,f16",
                                         .shape = halve_shape,
                                         .compute = halve,
                                         .kernel = HALVE_KERNEL,
                                         .shapes = HALVE_SHAPES};

const pco_op_declaration *pco_ops_query(uint32_t index)
{
    static const pco_op_declaration *const ALL[] = {&BLEND, &CENTER, &TOTAL, &CROWD, &HALVE};
    return index < sizeof ALL / sizeof *ALL ? ALL[index] : NULL;
}
