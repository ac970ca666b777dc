/* Cases of elementwise ops. Sizes stand at and beside the edges of workgroups and words. */
#include "cases/lists.h"

#include "base/dtype.h"

#include <math.h>

static const char *const EDGE_SIZES[] = {"0",   "1",   "2",   "3",   "7",   "31",  "32",   "33",   "63",   "64",  "65",
                                         "127", "128", "129", "255", "256", "257", "1023", "1024", "1025", "4099"};
static const char *const RANKED[] = {"", "1,1", "3,5", "2,3,5", "2,3,5,7", "2,1,3,1,5", "0,4", "3,0,2"};

enum { N_EDGES = sizeof EDGE_SIZES / sizeof *EDGE_SIZES, N_RANKED = sizeof RANKED / sizeof *RANKED };

static bool conf_elementwise_integers(pco_op op)
{
    return op == PCO_OP_NEG || op == PCO_OP_ABS || op == PCO_OP_SIGN || op == PCO_OP_CLAMP;
}

static void conf_unary_one(conf_cases_context *context, pco_op op, uint32_t dtype, const char *shape,
                           conf_regime regime, int64_t form)
{
    conf_case *one = conf_cases_begin(context, op, regime);
    conf_cases_in(one, dtype, "%s", shape);
    if (op == PCO_OP_GELU) ((pco_gelu_attrs *)one->attrs.bytes)->approximate = form;
    conf_cases_emit(context);
}

static void conf_unary_type(conf_cases_context *context, pco_op op, uint32_t dtype, int64_t form)
{
    bool wide = dtype == PCO_F32 || dtype == PCO_I32;
    conf_unary_one(context, op, dtype, wide ? "1025" : "1023", CONF_RANDOM, form);
    conf_unary_one(context, op, dtype, "7,37", CONF_ADVERSARIAL, form);
    conf_unary_one(context, op, dtype, wide ? "" : "3", CONF_RANDOM, form);
    if (dtype == PCO_F32) {
        conf_unary_one(context, op, dtype, "0,4", CONF_RANDOM, form);
        conf_unary_one(context, op, dtype, "5,61", CONF_SPECIAL, form);
        conf_unary_one(context, op, dtype, "2,3,5", CONF_EXACT, form);
    } else if (dtype != PCO_I32) {
        conf_unary_one(context, op, dtype, "67", CONF_SPECIAL, form);
    }
    if (!conf_cases_standard(context)) return;
    for (uint32_t i = 0; i < N_EDGES; i++)
        conf_unary_one(context, op, dtype, EDGE_SIZES[i], i % 2 ? CONF_RANDOM : CONF_ADVERSARIAL, form);
    for (uint32_t i = 0; i < N_RANKED; i++) conf_unary_one(context, op, dtype, RANKED[i], CONF_EXACT, form);
}

void conf_cases_unary(conf_cases_context *context, pco_op op)
{
    for (int64_t form = 0; form < (op == PCO_OP_GELU ? 2 : 1); form++)
        for (uint32_t t = 0; t < 3; t++) conf_unary_type(context, op, CASES_FLOATS[t], form);
    if (conf_elementwise_integers(op)) conf_unary_type(context, op, PCO_I32, 0);
    if (op != PCO_OP_SIN && op != PCO_OP_COS) return;
    conf_case *one = conf_cases_begin(context, op, CONF_RANDOM); /* arguments that need a careful reduction */
    conf_operand *x = conf_cases_in(one, PCO_F32, "2047");
    x->low = -100000.0, x->high = 100000.0;
    conf_cases_emit(context);
}

void conf_cases_clamp(conf_cases_context *context, pco_op op)
{
    static const uint32_t TYPES[4] = {PCO_F32, PCO_F16, PCO_BF16, PCO_I32};
    static const double LIMITS[4][2] = {{-1.5, 2.25}, {0.0, INFINITY}, {-INFINITY, 0.1}, {1.0, -1.0}};
    for (uint32_t t = 0; t < 4; t++) {
        conf_unary_type(context, op, TYPES[t], 0);
        for (uint32_t l = 0; l < 4; l++) {
            conf_case *one = conf_cases_begin(context, op, l == 2 ? CONF_ADVERSARIAL : CONF_RANDOM);
            pco_clamp_attrs *attrs = (pco_clamp_attrs *)one->attrs.bytes;
            attrs->min = TYPES[t] == PCO_I32 ? ceil(LIMITS[l][0]) : LIMITS[l][0];
            attrs->max = TYPES[t] == PCO_I32 ? floor(LIMITS[l][1]) : LIMITS[l][1];
            conf_cases_in(one, TYPES[t], "3,43");
            conf_cases_emit(context);
        }
    }
}

/* Shapes of two operands that broadcast. */
static const char *const PAIRS[][2] = {
    {"1025", "1025"},   {"2,3,5", "5"},     {"", "7,3"},      {"4,1,6", "3,1"},     {"0,3", "3"},
    {"3,5,7", "3,5,7"}, {"33,1", "1,65"},   {"1", "129"},     {"2,3,4,5", "3,1,5"}, {"2,1,3,1,5", "1,4,1,2,1"},
    {"", ""},           {"5,257", "1,257"}, {"5,257", "5,1"}, {"1,1,1", "7"},
};
enum { N_PAIRS = sizeof PAIRS / sizeof *PAIRS };

static void conf_binary_one(conf_cases_context *context, pco_op op, uint32_t dtype, uint32_t pair, conf_regime regime)
{
    conf_case *one = conf_cases_begin(context, op, regime);
    conf_cases_in(one, dtype, "%s", PAIRS[pair][0]);
    conf_cases_in(one, dtype, "%s", PAIRS[pair][1]);
    if (op >= PCO_OP_EQ && op <= PCO_OP_GE && regime == CONF_RANDOM) one->in[0].fill = one->in[1].fill = CONF_FILL_TIES;
    conf_cases_emit(context);
}

/* How operands broadcast has nothing to do with what is computed of them, and each way is a pipeline of every operation
 * and type: in the short tiers every second operation has a way with a type, the others have it with the next one. */
static bool conf_binary_has(const conf_cases_context *context, pco_op op, uint32_t dtype, uint32_t pair)
{
    return conf_cases_standard(context) || ((uint32_t)op + dtype + pair) % 2 == 0;
}

static void conf_binary_type(conf_cases_context *context, pco_op op, uint32_t dtype)
{
    bool full = dtype == PCO_F32;
    conf_binary_one(context, op, dtype, 0, CONF_RANDOM);
    conf_binary_one(context, op, dtype, 5, CONF_ADVERSARIAL);
    if (conf_binary_has(context, op, dtype, 1)) conf_binary_one(context, op, dtype, 1, CONF_RANDOM);
    if (full || conf_cases_standard(context)) {
        for (uint32_t p = 2; p < 5; p++)
            if (conf_binary_has(context, op, dtype, p)) conf_binary_one(context, op, dtype, p, CONF_EXACT);
        conf_binary_one(context, op, dtype, 0, CONF_ADVERSARIAL);
    }
    if (dtype != PCO_I32)
        conf_binary_one(context, op, dtype, full ? 11 : conf_binary_has(context, op, dtype, 1) ? 1 : 0, CONF_SPECIAL);
    if (!conf_cases_standard(context)) return;
    for (uint32_t p = 0; p < N_PAIRS; p++) {
        conf_binary_one(context, op, dtype, p, CONF_RANDOM);
        conf_binary_one(context, op, dtype, p, p % 2 ? CONF_EXACT : CONF_ADVERSARIAL);
    }
    for (uint32_t i = 0; i < N_EDGES; i++) {
        conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
        conf_cases_in(one, dtype, "3,%s", EDGE_SIZES[i]);
        conf_cases_in(one, dtype, "%s", EDGE_SIZES[i]);
        conf_cases_emit(context);
    }
}

void conf_cases_binary(conf_cases_context *context, pco_op op)
{
    for (uint32_t t = 0; t < 3; t++) conf_binary_type(context, op, CASES_FLOATS[t]);
    if (op != PCO_OP_POW) {
        conf_binary_type(context, op, PCO_I32);
        return;
    }
    for (uint32_t t = 0; t < 3; t++) { /* negative bases with whole exponents, and the power zero */
        conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
        conf_operand *a = conf_cases_in(one, CASES_FLOATS[t], "3,41"), *b = conf_cases_in(one, CASES_FLOATS[t], "3,41");
        a->low = -3.0, a->high = -0.5;
        b->fill = CONF_FILL_INTEGER, b->low = -5.0, b->high = 5.0;
        conf_cases_emit(context);
    }
}

void conf_cases_logical(conf_cases_context *context, pco_op op)
{
    uint32_t last = conf_cases_standard(context) ? N_PAIRS : 6;
    for (uint32_t p = 0; p < last; p++) {
        conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
        conf_cases_in(one, PCO_BOOL, "%s", PAIRS[p][0]);
        if (op != PCO_OP_LOGICAL_NOT) conf_cases_in(one, PCO_BOOL, "%s", PAIRS[p][1]);
        conf_cases_emit(context);
    }
    for (uint32_t i = 0; i < N_EDGES && conf_cases_standard(context); i++) {
        conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
        conf_cases_in(one, PCO_BOOL, "%s", EDGE_SIZES[i]);
        if (op != PCO_OP_LOGICAL_NOT) conf_cases_in(one, PCO_BOOL, "%s", EDGE_SIZES[i]);
        conf_cases_emit(context);
    }
}

void conf_cases_where(conf_cases_context *context, pco_op op)
{
    static const uint32_t TYPES[5] = {PCO_F32, PCO_F16, PCO_BF16, PCO_I32, PCO_BOOL};
    static const char *const SHAPES[][3] = {
        {"1025", "1025", "1025"}, {"3,5,7", "7", ""}, {"5,1", "3,1,7", "1"},     {"", "2,3", "3"},
        {"0,3", "3", "1"},        {"129", "", ""},    {"2,1,4", "2,3,1", "3,4"},
    };
    for (uint32_t t = 0; t < 5; t++) {
        for (uint32_t s = 0; s < (conf_cases_standard(context) || t == 0 ? 7u : 3u); s++) {
            conf_case *one = conf_cases_begin(context, op, s == 1 ? CONF_ADVERSARIAL : CONF_RANDOM);
            conf_cases_in(one, PCO_BOOL, "%s", SHAPES[s][0]);
            conf_cases_in(one, TYPES[t], "%s", SHAPES[s][1]);
            conf_cases_in(one, TYPES[t], "%s", SHAPES[s][2]);
            conf_cases_emit(context);
        }
        if (t > 2) continue;
        conf_case *one = conf_cases_begin(context, op, CONF_SPECIAL); /* what is not chosen is not looked at */
        conf_cases_in(one, PCO_BOOL, "131");
        conf_cases_in(one, TYPES[t], "131");
        conf_cases_in(one, TYPES[t], "131");
        conf_cases_emit(context);
    }
}

static void conf_cast_one(conf_cases_context *context, uint32_t from, uint32_t to, const char *shape,
                          conf_regime regime, double limit)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_CAST, regime);
    conf_operand *x = conf_cases_in(one, from, "%s", shape);
    if (from != PCO_BOOL && from != PCO_I32) x->low = -limit, x->high = limit;
    ((pco_cast_attrs *)one->attrs.bytes)->dtype = to;
    conf_cases_emit(context);
}

void conf_cases_cast(conf_cases_context *context, pco_op op)
{
    (void)op;
    for (uint32_t i = 0; i < CASES_N_PLAIN * CASES_N_PLAIN; i++) {
        const uint32_t from = CASES_PLAIN[i / CASES_N_PLAIN], to = CASES_PLAIN[i % CASES_N_PLAIN];
        conf_cast_one(context, from, to, "513", CONF_RANDOM, 100.0);
        conf_cast_one(context, from, to, "5,23", CONF_ADVERSARIAL, 1.0);
        if (pco_dtype_is_float(from))
            conf_cast_one(context, from, to, "71", CONF_SPECIAL, from == PCO_F16 ? 1000.0 : 1e10);
        for (uint32_t e = 0; e < N_EDGES && conf_cases_standard(context); e++)
            conf_cast_one(context, from, to, EDGE_SIZES[e], e % 2 ? CONF_RANDOM : CONF_ADVERSARIAL, e % 3 ? 2.0 : 3e-5);
    }
}

void conf_cases_swiglu(conf_cases_context *context, pco_op op)
{
    static const char *const SHAPES[] = {"3,7,32", "1,1,66", "257", "5,130", "0,8", "2,3,5,14", "1026", "33,2"};
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t s = 0; s < (conf_cases_standard(context) || t == 0 ? 8u : 3u); s++) {
            for (uint32_t split = 0; split < 2; split++) {
                if (split && s == 2) continue; /* an odd last dimension cannot be halved */
                conf_case *one = conf_cases_begin(context, op, s == 1 ? CONF_ADVERSARIAL : CONF_RANDOM);
                conf_cases_in(one, CASES_FLOATS[t], "%s", SHAPES[s]);
                if (!split) conf_cases_in(one, CASES_FLOATS[t], "%s", SHAPES[s]);
                conf_cases_emit(context);
            }
        }
    }
}
