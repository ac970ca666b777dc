/* Cases of matmul: tiles cut at every edge, each weight type, each epilogue, vectors and batches. Cases of conv1d. */
#include "cases/lists.h"

#include "base/dtype.h"

#include <stdio.h>

typedef struct conf_matmul_spec {
    int m, n, k;
    const char *batch_a, *batch_b; /* "" or "2,3," */
    int transpose_a, transpose_b, activation, bias, c;
} conf_matmul_spec;

static void conf_matmul_emit(conf_cases_context *context, const conf_matmul_spec *s, uint32_t a_type, uint32_t b_type,
                             uint32_t extra, uint32_t to, bool constant, conf_regime regime)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, regime);
    pco_matmul_attrs *attrs = (pco_matmul_attrs *)one->attrs.bytes;
    attrs->transpose_a = s->transpose_a, attrs->transpose_b = s->transpose_b;
    attrs->activation = s->activation;
    if (to != PCO_NONE) attrs->dtype = to;
    conf_cases_in(one, a_type, "%s%d,%d", s->batch_a, s->transpose_a ? s->k : s->m, s->transpose_a ? s->m : s->k);
    conf_cases_in(one, b_type, "%s%d,%d", s->batch_b, s->transpose_b ? s->n : s->k, s->transpose_b ? s->k : s->n)
        ->constant = constant;
    if (s->bias) {
        conf_operand *bias = conf_cases_in(one, extra, "%d", s->n);
        bias->constant = constant;
    } else if (s->c) {
        conf_cases_absent(one);
    }
    const char *lead = s->batch_a[0] >= s->batch_b[0] ? s->batch_a : s->batch_b;
    if (s->c) conf_cases_in(one, to == PCO_NONE ? a_type : to, "%s%d,%d", lead, s->m, s->n);
    conf_cases_emit(context);
}

/* f32: forms of the operation. */
static const conf_matmul_spec FORMS[] = {
    {33, 65, 31, "", "", 0, 0, 0, 0, 0},   {1, 129, 64, "", "", 0, 1, 0, 1, 0},
    {17, 19, 23, "", "", 1, 0, 0, 0, 0},   {5, 7, 130, "", "", 1, 1, 0, 0, 1},
    {64, 64, 64, "", "", 0, 1, 1, 1, 0},   {3, 33, 257, "", "", 0, 1, 2, 1, 1},
    {9, 31, 32, "", "", 0, 1, 3, 1, 0},    {7, 40, 48, "", "", 0, 1, 4, 0, 1},
    {5, 6, 0, "", "", 0, 1, 0, 1, 0},      {0, 5, 3, "", "", 0, 0, 0, 0, 0},
    {1, 1, 1, "", "", 0, 0, 0, 0, 0},      {7, 9, 33, "2,3,", "2,3,", 0, 0, 0, 0, 0},
    {5, 8, 16, "3,", "", 0, 1, 0, 1, 0},   {4, 6, 9, "2,1,", "1,3,", 0, 0, 0, 0, 0},
    {1, 257, 1025, "", "", 0, 1, 0, 0, 0}, {2, 3, 5, "", "4,", 0, 0, 0, 0, 0},
    {127, 5, 65, "", "", 0, 1, 0, 0, 0},   {129, 66, 9, "", "", 0, 0, 0, 0, 0},
    {3, 4, 5, "", "", 1, 0, 0, 0, 0}, /* small enough for those who watch over memory */
};
enum { N_FORMS = sizeof FORMS / sizeof *FORMS };

/* Weights: K a multiple of 32; what a type's blocks need beyond that is added. */
static const conf_matmul_spec WEIGHTS[] = {
    {1, 65, 64, "", "", 0, 1, 0, 1, 0},  {7, 33, 96, "", "", 0, 1, 0, 0, 0},   {33, 31, 32, "", "", 0, 1, 4, 1, 0},
    {5, 7, 288, "", "", 0, 1, 2, 1, 1},  {3, 17, 64, "2,", "", 0, 1, 0, 0, 0}, {65, 129, 128, "", "", 0, 1, 0, 0, 0},
    {2, 1, 1056, "", "", 0, 1, 0, 0, 0},
};
enum { N_WEIGHTS = sizeof WEIGHTS / sizeof *WEIGHTS };

/* f16: more than one tile of 4 by 4 matrices for each of four subgroups, which are 64 or 128 rows and columns. */
static const conf_matmul_spec TILES[] = {
    {141, 136, 72, "", "", 0, 1, 1, 1, 0},
    {70, 88, 40, "2,", "2,", 0, 0, 0, 0, 1},
};

static void conf_matmul_edges(conf_cases_context *context, uint32_t a_type, uint32_t b_type)
{
    static const int SIZES[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129};
    for (uint32_t i = 0; i < 15; i++) {
        for (uint32_t j = 0; j < 3; j++) {
            int size = SIZES[i];
            conf_matmul_spec s = {j == 0 ? size : 5, j == 1 ? size : 9, j == 2 ? size : 32, "", "", 0, 1, 0, 0, 0};
            s.k = conf_cases_blocks(s.k, b_type);
            conf_matmul_emit(context, &s, a_type, b_type, a_type, PCO_NONE, pco_dtype_is_quantised(b_type),
                             CONF_RANDOM);
            conf_matmul_emit(context, &s, a_type, b_type, a_type, PCO_NONE, true, CONF_EXACT);
        }
    }
}

/* In the short tiers shapes, and what is done with the sum, go with every second type of weights, and each result of
 * another type comes from one: neither depends on the other, and each is a pipeline for every variant. */
static bool conf_matmul_is_extra(uint32_t weight, uint32_t b_type)
{
    if (b_type == PCO_Q4_1) return weight != 0 && weight != 1 && weight != 5;
    if (b_type == PCO_Q6_K) return weight != 0 && weight != 1 && weight != 6; /* one super-block, and five */
    if (weight == 0 || weight == 2) return b_type == PCO_BF16 || b_type == PCO_Q4_0;
    return (weight == 3 || weight == 5 || weight == 6) && (b_type == PCO_F16 || b_type == PCO_Q8_0);
}

/* What a variation has in the short tiers: one case for all variants, and what overflows and cancels. */
static void conf_cases_variation(conf_cases_context *context, uint32_t b)
{
    conf_matmul_spec s = WEIGHTS[1];
    s.k = conf_cases_blocks(WEIGHTS[3].k, b);
    conf_matmul_emit(context, &s, PCO_F32, b, PCO_F32, PCO_NONE, true, CONF_RANDOM);
    s = WEIGHTS[4];
    s.k = conf_cases_blocks(WEIGHTS[3].k, b);
    conf_matmul_emit(context, &s, PCO_F32, b, PCO_F32, PCO_NONE, true, CONF_ADVERSARIAL);
}

/* Blocks of x whose numbers have no exponent in common, beside those that do, and weights that leave what is small in a
 * row to itself: a kernel that rounds x in blocks is found out. In special cases with infinities and NaN. */
static void conf_cases_spread(conf_cases_context *context, uint32_t a, uint32_t b, conf_regime regime)
{
    const int m = regime == CONF_RANDOM ? 16 : 4, n = 33;
    const int k = conf_cases_blocks(regime == CONF_SPECIAL ? 160 : 32, b);
    conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, regime);
    ((pco_matmul_attrs *)one->attrs.bytes)->transpose_b = 1;
    conf_operand *x = conf_cases_in(one, a, "%d,%d", m, k);
    x->fill = CONF_FILL_SPREAD;
    if (regime == CONF_EXACT && b == PCO_Q4_1) x->fill = CONF_FILL_INTEGER, x->low = 249000, x->high = 262000;
    conf_operand *weights = conf_cases_in(one, b, "%d,%d", n, k);
    weights->fill = CONF_FILL_SPARSE, weights->constant = true;
    conf_cases_emit(context);
}

/* f32 by weights of one type. */
static void conf_cases_weights(conf_cases_context *context, uint32_t b)
{
    const bool all = conf_cases_standard(context);
    if (!all && conf_cases_is_variation(b)) {
        conf_cases_variation(context, b);
        return;
    }
    for (uint32_t w = 0; w < N_WEIGHTS; w++) {
        conf_matmul_spec s = WEIGHTS[w];
        s.k = conf_cases_blocks(s.k, b);
        if (all || !conf_matmul_is_extra(w, b))
            conf_matmul_emit(context, &s, PCO_F32, b, PCO_F32, PCO_NONE, true, w == 1 ? CONF_EXACT : CONF_RANDOM);
        if (all || w == 1) conf_matmul_emit(context, &s, PCO_F32, b, PCO_F32, PCO_NONE, false, CONF_RANDOM);
        if (pco_dtype_is_float(b) && !all) continue;
        if (all || (w == 0 && b == PCO_Q4_0))
            conf_matmul_emit(context, &s, PCO_F16, b, PCO_F32, PCO_NONE, true, CONF_RANDOM);
        if (all) conf_matmul_emit(context, &s, PCO_BF16, b, PCO_BF16, PCO_NONE, true, CONF_RANDOM);
    }
    conf_matmul_spec s = WEIGHTS[4];
    s.k = conf_cases_blocks(s.k, b);
    conf_matmul_emit(context, &s, PCO_F32, b, PCO_F32, PCO_NONE, true, CONF_ADVERSARIAL);
}

void conf_cases_matmul(conf_cases_context *context, pco_op op)
{
    (void)op;
    bool all = conf_cases_standard(context);
    for (uint32_t f = 0; f < N_FORMS; f++) {
        conf_regime regime = f % 3 == 0 ? CONF_EXACT : f % 3 == 1 ? CONF_RANDOM : CONF_ADVERSARIAL;
        if (FORMS[f].activation > 1) regime = CONF_RANDOM;
        conf_matmul_emit(context, &FORMS[f], PCO_F32, PCO_F32, PCO_F32, PCO_NONE, f % 2 == 1, regime);
        if (regime != CONF_RANDOM)
            conf_matmul_emit(context, &FORMS[f], PCO_F32, PCO_F32, PCO_F32, PCO_NONE, false, CONF_RANDOM);
        for (uint32_t t = 1; t < 3; t++)
            if (all || ((f < 2 || f == 3 || f == 11) && conf_cases_has_half(context, t, f / 2)))
                conf_matmul_emit(context, &FORMS[f], CASES_FLOATS[t], CASES_FLOATS[t],
                                 f == 3 ? PCO_F32 : CASES_FLOATS[t], PCO_NONE, false, CONF_RANDOM);
    }
    conf_cases_weights(context, PCO_F16);
    conf_cases_weights(context, PCO_BF16);
    for (uint32_t q = 0; q < CASES_N_QUANTISED; q++) conf_cases_weights(context, CASES_QUANTISED[q]);
    for (uint32_t q = 0; q < CASES_N_QUANTISED; q++) {
        const uint32_t b = CASES_QUANTISED[q];
        if (all || !conf_cases_is_variation(b)) conf_cases_spread(context, PCO_F32, b, CONF_RANDOM);
        if (all) conf_cases_spread(context, PCO_F16, b, CONF_RANDOM);
        if (all || b == PCO_Q8_0 || b == PCO_Q4_1) conf_cases_spread(context, PCO_F32, b, CONF_SPECIAL);
        if (b == PCO_Q8_0 || b == PCO_Q4_1) conf_cases_spread(context, PCO_F32, b, CONF_EXACT);
    }
    for (uint32_t t = 0; t < 3; t++) /* results of another type */
        for (uint32_t to = 0; to < 3; to++)
            if (t != to && (all || (t != 1 && to == (t + 1) % 3)))
                conf_matmul_emit(context, &WEIGHTS[1], CASES_FLOATS[t], CASES_FLOATS[t], PCO_F32, to, true,
                                 CONF_RANDOM);
    conf_matmul_emit(context, &TILES[0], PCO_F16, PCO_F16, PCO_F32, PCO_NONE, true, CONF_EXACT);
    conf_matmul_emit(context, &TILES[1], PCO_F16, PCO_F16, PCO_F32, PCO_F32, false, CONF_RANDOM);
    conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM); /* a narrow accumulator is allowed */
    conf_cases_in(one, PCO_F16, "9,48");
    conf_cases_in(one, PCO_F16, "11,48");
    ((pco_matmul_attrs *)one->attrs.bytes)->accumulate = PCO_F16;
    ((pco_matmul_attrs *)one->attrs.bytes)->transpose_b = 1;
    conf_cases_emit(context);
    one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM); /* f32 accumulators: the sum leaves the range of f16 */
    conf_operand *a = conf_cases_in(one, PCO_F16, "5,256"), *b = conf_cases_in(one, PCO_F16, "256,7");
    a->low = -60.0, a->high = -40.0, b->low = 5.0, b->high = 8.0;
    ((pco_matmul_attrs *)one->attrs.bytes)->dtype = PCO_F32;
    conf_cases_emit(context);
    if (!all) return;
    for (uint32_t i = 0; i < 3; i++) conf_matmul_edges(context, PCO_F32, CASES_FLOATS[i]);
    for (uint32_t i = 0; i < CASES_N_QUANTISED; i++) conf_matmul_edges(context, PCO_F32, CASES_QUANTISED[i]);
    conf_matmul_edges(context, PCO_F16, PCO_F16);
    conf_matmul_edges(context, PCO_BF16, PCO_BF16);
}

typedef struct conf_norm_matmul_spec {
    const char *x; /* without K */
    int n, k, norm, activation, bias, weight, shift;
    conf_regime regime;
} conf_norm_matmul_spec;

/* Columns that fill no, one and several rounds and workgroups; rows that are whole vectors and are not; one term, where
 * eps is as large as its square: else the norm's gradient would be what rounding leaves. */
static const conf_norm_matmul_spec NORM_MATMULS[] = {
    {"1,1", 67, 64, 0, 0, 0, 1, 0, CONF_RANDOM},       {"1", 131, 136, 1, 0, 1, 1, 1, CONF_RANDOM},
    {"2,3", 33, 257, 1, 2, 1, 1, 0, CONF_ADVERSARIAL}, {"5", 9, 72, 0, 4, 1, 0, 0, CONF_RANDOM},
    {"1", 61, 1032, 0, 0, 0, 1, 0, CONF_ADVERSARIAL},  {"3", 2, 31, 1, 3, 0, 0, 1, CONF_RANDOM},
    {"4", 6, 1, 0, 1, 1, 1, 0, CONF_RANDOM},           {"0", 7, 16, 1, 0, 1, 1, 1, CONF_RANDOM},
    {"2", 0, 8, 0, 0, 0, 1, 0, CONF_RANDOM},           {"7", 4, 5, 1, 0, 0, 0, 0, CONF_RANDOM},
};
enum { N_NORM_MATMULS = sizeof NORM_MATMULS / sizeof *NORM_MATMULS };

static void conf_norm_matmul_emit(conf_cases_context *context, const conf_norm_matmul_spec *s, uint32_t b,
                                  uint32_t bias, uint32_t norm, bool constant)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_NORM_MATMUL, s->regime);
    pco_norm_matmul_attrs *attrs = (pco_norm_matmul_attrs *)one->attrs.bytes;
    *attrs = (pco_norm_matmul_attrs){.norm = s->norm, .eps = s->n % 2 ? 1e-5 : 1e-3, .activation = s->activation};
    conf_operand *x = conf_cases_in(one, PCO_F32, "%s,%d", s->x, s->k);
    if (s->n % 2 == 0) x->low = -0.03, x->high = 0.03; /* rows in which eps decides */
    conf_cases_in(one, b, "%d,%d", s->n, s->k)->constant = constant;
    conf_operand *operands[3];
    const int present[3] = {s->bias, s->weight, s->shift};
    for (uint32_t i = 0; i < 3; i++) {
        operands[i] = present[i] ? conf_cases_in(one, i ? norm : bias, "%d", i ? s->k : s->n) : conf_cases_absent(one);
        operands[i]->constant = constant && present[i];
    }
    conf_cases_emit(context);
}

void conf_cases_norm_matmul(conf_cases_context *context, pco_op op)
{
    (void)op;
    const bool all = conf_cases_standard(context);
    for (uint32_t s = 0; s < N_NORM_MATMULS; s++)
        for (uint32_t t = 0; t < 3; t++) {
            if (t > 0 && !all && s > 3) continue;
            conf_norm_matmul_emit(context, &NORM_MATMULS[s], CASES_FLOATS[t], CASES_FLOATS[(t + s) % 3],
                                  CASES_FLOATS[(t + s / 2) % 3], (s + t) % 2 == 1);
        }
    conf_norm_matmul_spec spec = {"3", 0, 0, 0, 0, 1, 1, 0, CONF_RANDOM};
    for (int size = 1; size < 132 && all; size += size < 5 || size % 32 == 0 ? 1 : size % 32 == 1 ? 30 : 27)
        for (uint32_t i = 0; i < 2; i++) {
            spec.n = i ? size : 19, spec.k = i ? 24 : size + 1, spec.norm = size % 2, spec.shift = size % 2;
            conf_norm_matmul_emit(context, &spec, CASES_FLOATS[(uint32_t)size % 3], PCO_F32, PCO_F32, true);
        }
}

typedef struct conf_indexed_spec {
    const char *x, *indices; /* x without K */
    int matrices, n, k;
    conf_regime regime;
} conf_indexed_spec;

/* A row of x for all indices of a row, or for each; matrices that all, some and none choose; more choices than
 * matrices, and fewer; -1 and the number of matrices lie outside, which nothing of the last form does. */
static const conf_indexed_spec INDEXED[] = {
    {"2,9", "2,9,2", 4, 33, 96, CONF_RANDOM},    {"1,1", "1,1,3", 17, 65, 64, CONF_EXACT},
    {"3,7,2", "3,7,2", 5, 17, 288, CONF_RANDOM}, {"5", "5,1", 1, 7, 32, CONF_ADVERSARIAL},
    {"31", "31,4", 3, 1, 544, CONF_RANDOM},      {"2,0", "2,0,2", 4, 5, 32, CONF_RANDOM},
    {"4,2", "4,2", 9, 66, 320, CONF_EXACT},      {"", "67", 6, 19, 32, CONF_RANDOM},
    {"3", "3,2", 4, 5, 8, CONF_RANDOM},
};
enum { N_INDEXED = sizeof INDEXED / sizeof *INDEXED };

static void conf_indexed_emit(conf_cases_context *context, const conf_indexed_spec *s, uint32_t x, uint32_t w, int k,
                              bool constant)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_INDEXED_MATMUL, s->regime);
    ((pco_indexed_matmul_attrs *)one->attrs.bytes)->matrices = s->matrices;
    conf_cases_in(one, x, "%s%s%d", s->x, *s->x ? "," : "", k);
    conf_cases_in(one, w, "%d,%d", s->matrices * s->n, k)->constant = constant;
    conf_operand *index = conf_cases_in(one, PCO_I32, "%s", s->indices);
    index->fill = CONF_FILL_INTEGER, index->low = k > 8 ? -1.0 : 0.0,
    index->high = k > 8 ? s->matrices : s->matrices - 1;
    conf_cases_emit(context);
}

void conf_cases_indexed_matmul(conf_cases_context *context, pco_op op)
{
    (void)op;
    const bool all = conf_cases_standard(context);
    for (uint32_t s = 0; s < N_INDEXED; s++)
        for (uint32_t t = 0; t < 3; t++) {
            if (t > 0 && !all && (s > 1 || !conf_cases_has_half(context, t, s))) continue;
            conf_indexed_emit(context, &INDEXED[s], CASES_FLOATS[t], CASES_FLOATS[t], INDEXED[s].k, s % 2 == 1);
            if (all || (s < 3 && s % 3 == t))
                conf_indexed_emit(context, &INDEXED[s], CASES_FLOATS[t], CASES_FLOATS[(t + 1) % 3], INDEXED[s].k, true);
            if (t == 0 && (all || s == 0)) /* rows that are no whole vectors */
                conf_indexed_emit(context, &INDEXED[s], PCO_F32, PCO_F32, INDEXED[s].k - 3, false);
        }
    for (uint32_t q = 0; q < CASES_N_QUANTISED; q++)
        for (uint32_t s = 0; s < N_INDEXED; s++) {
            const uint32_t type = CASES_QUANTISED[q];
            /* how a weight is read is the same as in matmul's gemv, which the short tiers try in all types */
            if (!all && (conf_cases_is_variation(type) || s > 0)) continue;
            const int k = conf_cases_blocks(INDEXED[s].k, type);
            conf_indexed_emit(context, &INDEXED[s], PCO_F32, type, k, true);
            if (all || type == PCO_Q4_0)
                conf_indexed_emit(context, &INDEXED[s], CASES_FLOATS[1 + s % 2], type, k, true);
        }
}

typedef struct conf_conv1d_spec {
    const char *x, *weight;
    int stride, padding, dilation, groups, bias;
    conf_regime regime;
} conf_conv1d_spec;

/* `w`, `b`: types of weight and bias. */
static void conf_conv1d_emit(conf_cases_context *context, const conf_conv1d_spec *s, uint32_t x, uint32_t w, uint32_t b)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_CONV1D, s->regime);
    *(pco_conv1d_attrs *)one->attrs.bytes = (pco_conv1d_attrs){s->stride, s->padding, s->dilation, s->groups};
    conf_cases_in(one, x, "%s", s->x);
    conf_operand *weight = conf_cases_in(one, w, "%s", s->weight);
    weight->constant = s->bias == 1;
    if (s->bias) conf_cases_in(one, b, "%d", (int)weight->shape[0])->constant = s->bias == 1;
    conf_cases_emit(context);
}

/* bias: 0 none, 1 constant, like the weights, 2 an operand. Rows of an odd size begin in the middle of a word, in f16
 * and bf16; channels are tiles and what is left of one. TILED stands where the short tiers, which take variants by
 * turns (runner.c), run its tiles in f32 and in a half type. */
enum { TILED = 15 };
static const conf_conv1d_spec CONVOLUTIONS[] = {
    {"2,5,37", "7,5,3", 1, 1, 1, 1, 1, CONF_RANDOM},
    {"3,8,40", "9,8,3", 2, 1, 1, 1, 0, CONF_EXACT},
    {"4,6,29", "10,3,4", 1, 3, 2, 2, 2, CONF_RANDOM},
    {"1,4,70", "4,1,5", 1, 2, 1, 4, 0, CONF_ADVERSARIAL},
    {"6,33", "3,2,2", 3, 0, 4, 3, 1, CONF_EXACT},
    {"2,2,3,19", "5,3,1", 1, 0, 1, 1, 2, CONF_ADVERSARIAL},
    {"2,3,1031", "2,3,3", 1, 1, 1, 1, 0, CONF_RANDOM},
    {"1,1,1", "1,1,1", 1, 0, 1, 1, 1, CONF_EXACT},
    {"2,40,8", "6,40,8", 1, 0, 1, 1, 0, CONF_RANDOM},
    {"0,3,9", "2,3,3", 1, 0, 1, 1, 0, CONF_RANDOM},
    {"2,3,4", "5,3,9", 2, 9, 2, 1, 1, CONF_RANDOM},
    {"3,2,67", "4,2,3", 7, 5, 1, 1, 0, CONF_EXACT},
    {"2,3,65", "3,3,31", 1, 0, 2, 1, 2, CONF_SPECIAL},
    {"2,9,11", "6,3,2", 1, 0, 1, 3, 1, CONF_SPECIAL},
    {"1,2,300", "3,2,2", 1, 0, 299, 1, 0, CONF_RANDOM},
    [TILED] = {"2,6,81", "34,3,3", 1, 1, 1, 2, 1, CONF_RANDOM}, /* large tiles, full and not, either way */
    {"3,64,9", "130,64,3", 1, 1, 1, 1, 0, CONF_RANDOM},
    {"2,2,2", "3,2,3", 5, 2, 1, 1, 1, CONF_SPECIAL},
    {"1,3,6", "1,3,2", 2147483647, 0, 1, 1, 0, CONF_RANDOM},
    {"5,2,3001", "4,2,2999", 1, 0, 1, 1, 0, CONF_RANDOM}, /* many terms, few positions, as in a gradient of weights */
    /* weights of a channel exceed a small window, what they meet fits */
    {"1,30,8", "2,30,9", 1, 1, 1, 1, 0, CONF_RANDOM},
};
enum { N_CONVOLUTIONS = sizeof CONVOLUTIONS / sizeof *CONVOLUTIONS };

void conf_cases_conv1d(conf_cases_context *context, pco_op op)
{
    (void)op;
    const bool all = conf_cases_standard(context);
    for (uint32_t s = 0; s < N_CONVOLUTIONS; s++) {
        const conf_conv1d_spec *spec = &CONVOLUTIONS[s];
        for (uint32_t t = 0; t < 3; t++)
            if (t == 0 || all || ((s < 5 || s == TILED) && conf_cases_has_half(context, t, s)))
                conf_conv1d_emit(context, spec, CASES_FLOATS[t], CASES_FLOATS[t], CASES_FLOATS[t]);
        for (uint32_t t = 0; t < 3; t++) /* weights and bias of other types */
            if (all || (s < 4 && s % 3 == t))
                conf_conv1d_emit(context, spec, CASES_FLOATS[t], CASES_FLOATS[(t + 1) % 3], CASES_FLOATS[(t + 2) % 3]);
    }
    conf_conv1d_spec spec = {"", "", 1, 1, 1, 1, 1, CONF_RANDOM};
    for (int size = 1; size < 132 && all; size += size < 5 || size % 32 == 0 ? 1 : size % 32 == 1 ? 30 : 27)
        for (uint32_t i = 0; i < 3; i++) {
            char x[24], weight[24];
            snprintf(x, sizeof x, "2,%d,%d", i == 1 ? size : 3, i == 0 ? size : 18);
            snprintf(weight, sizeof weight, "%d,%d,3", i == 2 ? size : 5, i == 1 ? size : 3);
            spec.x = x, spec.weight = weight, spec.stride = 1 + size % 2, spec.bias = size % 3;
            conf_conv1d_emit(context, &spec, CASES_FLOATS[(uint32_t)size % 3], CASES_FLOATS[(uint32_t)size % 3],
                             PCO_F32);
        }
}
