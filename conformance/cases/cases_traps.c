/* Cases that every op needs beside its own list: data of a real model, the same operand twice, and what
 * comparisons by a norm over the whole result are blind to (NaN, infinities, ties, equal rows, rows that see
 * nothing), in each of the three float types. */
#include "cases/lists.h"

#include "base/dtype.h"
#include "cases/real_data.h"

#include <math.h>

/* ---- real activations ---- */

static conf_operand *conf_real_in(conf_case *one, uint32_t dtype, const char *shape, uint32_t real)
{
    conf_operand *operand = conf_cases_in(one, dtype, "%s", shape);
    operand->fill = CONF_FILL_REAL, operand->real = real;
    return operand;
}

static void conf_real_norm(conf_cases_context *context, pco_op op, uint32_t type)
{
    conf_case *one = conf_cases_begin(context, op, CONF_REAL);
    conf_real_in(one, type, "12,96", CONF_REAL_RESIDUAL);
    conf_real_in(one, type, "96", CONF_REAL_NORM_WEIGHT)->constant = true;
    if (op == PCO_OP_LAYER_NORM) conf_real_in(one, type, "96", CONF_REAL_NORM_BIAS)->constant = true;
    conf_cases_emit(context);
}

static void conf_real_matmul(conf_cases_context *context, uint32_t type, int64_t activation)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_REAL);
    pco_matmul_attrs *attrs = (pco_matmul_attrs *)one->attrs.bytes;
    attrs->transpose_b = 1, attrs->activation = activation;
    conf_real_in(one, type, "12,96", CONF_REAL_FEED_FORWARD_INPUT);
    conf_real_in(one, type, "48,96", CONF_REAL_MATRIX)->constant = true;
    conf_real_in(one, type, "48", CONF_REAL_MATRIX_BIAS)->constant = true;
    conf_cases_emit(context);
}

static void conf_real_attention(conf_cases_context *context, uint32_t type, int64_t causal)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, CONF_REAL);
    pco_scaled_dot_product_attention_attrs *attrs = (pco_scaled_dot_product_attention_attrs *)one->attrs.bytes;
    attrs->heads_first = 1, attrs->causal = causal;
    for (uint32_t i = 0; i < 3; i++) conf_real_in(one, type, "1,4,12,24", CONF_REAL_QUERY + i);
    conf_cases_emit(context);
}

static void conf_real_one(conf_cases_context *context, pco_op op, uint32_t type, const char *shape, uint32_t real)
{
    conf_case *one = conf_cases_begin(context, op, CONF_REAL);
    conf_real_in(one, type, shape, real);
    conf_cases_emit(context);
}

void conf_cases_real(conf_cases_context *context, pco_op op)
{
    for (uint32_t t = 0; t < 3; t++) {
        uint32_t type = CASES_FLOATS[t];
        switch (op) {
        case PCO_OP_LAYER_NORM:
        case PCO_OP_RMS_NORM: conf_real_norm(context, op, type); break;
        case PCO_OP_MATMUL:
            if (conf_cases_standard(context)) conf_real_matmul(context, type, 2);
            if (type == PCO_F32 || conf_cases_standard(context)) conf_real_matmul(context, type, 0);
            break;
        case PCO_OP_SCALED_DOT_PRODUCT_ATTENTION:
            if (conf_cases_standard(context)) conf_real_attention(context, type, 0);
            if (type == PCO_F32 || conf_cases_standard(context)) conf_real_attention(context, type, 1);
            break;
        case PCO_OP_SOFTMAX:
        case PCO_OP_LOG_SOFTMAX:
        case PCO_OP_LOGSUMEXP:
        case PCO_OP_ARGMAX: conf_real_one(context, op, type, "4,12,12", CONF_REAL_SCORES); break;
        case PCO_OP_GELU:
        case PCO_OP_RELU:
        case PCO_OP_SILU: conf_real_one(context, op, type, "12,48", CONF_REAL_HIDDEN); break;
        default: break;
        }
    }
}

/* ---- the same operand twice ---- */

static void conf_twin_pair(conf_cases_context *context, pco_op op, uint32_t type, const char *shape)
{
    conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
    if (op == PCO_OP_WHERE) conf_cases_in(one, PCO_BOOL, "%s", shape);
    if (op == PCO_OP_MATMUL) ((pco_matmul_attrs *)one->attrs.bytes)->transpose_b = 1;
    conf_cases_in(one, type, "%s", shape);
    conf_cases_twin(one, one->n_inputs - 1);
    if (op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION) conf_cases_twin(one, 0);
    conf_cases_emit(context);
}

void conf_cases_twins(conf_cases_context *context, pco_op op)
{
    bool attention = op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION;
    bool pair = (op >= PCO_OP_ADD && op <= PCO_OP_GE) || op == PCO_OP_WHERE || op == PCO_OP_SWIGLU ||
                op == PCO_OP_CONCAT || op == PCO_OP_MATMUL;
    for (uint32_t t = 0; t < (conf_cases_standard(context) ? 3u : 1u) && (attention || pair); t++) {
        conf_twin_pair(context, op, CASES_FLOATS[t], attention ? "2,3,9,8" : "17,48");
        if (conf_cases_standard(context))
            conf_twin_pair(context, op, CASES_FLOATS[t], attention ? "1,2,33,40" : "5,131");
        if (conf_cases_standard(context) && attention) conf_twin_pair(context, op, CASES_FLOATS[t], "2,3,9,16");
    }
}

/* ---- traps ---- */

/* One operand, special or of equal rows. */
static void conf_trap_one(conf_cases_context *context, pco_op op, uint32_t type, const char *shape, conf_regime regime,
                          conf_fill fill)
{
    conf_case *one = conf_cases_begin(context, op, regime);
    conf_cases_in(one, type, "%s", shape)->fill = fill;
    if (op == PCO_OP_SUM || op == PCO_OP_MEAN || op == PCO_OP_AMAX) {
        pco_sum_attrs *attrs = (pco_sum_attrs *)one->attrs.bytes; /* the fields of all three */
        attrs->n_axes = conf_cases_vector(attrs->axes, "-1");
    }
    conf_cases_emit(context);
}

static void conf_trap_matmul(conf_cases_context *context, uint32_t type, uint32_t weights)
{
    const int k = conf_cases_blocks(5, weights);
    conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_SPECIAL);
    ((pco_matmul_attrs *)one->attrs.bytes)->transpose_b = 1;
    ((pco_matmul_attrs *)one->attrs.bytes)->dtype = PCO_F32;
    conf_operand *a = conf_cases_in(one, type, "37,%d", k);
    a->fill = CONF_FILL_ROWS; /* rows of -infinity, the others with NaN and infinities here and there */
    a->low = -2.0, a->high = 2.0;
    conf_operand *b = conf_cases_in(one, weights, "7,%d", k);
    b->constant = true;
    if (pco_dtype_is_float(weights)) b->fill = CONF_FILL_UNIFORM, b->low = -2.0, b->high = 2.0;
    conf_cases_emit(context);
}

static void conf_trap_norm(conf_cases_context *context, pco_op op, uint32_t type)
{
    conf_case *one = conf_cases_begin(context, op, CONF_SPECIAL);
    conf_operand *x = conf_cases_in(one, type, "31,5");
    x->low = -2.0, x->high = 2.0;
    conf_operand *weight = conf_cases_in(one, type, "5");
    weight->fill = CONF_FILL_UNIFORM, weight->low = 0.5, weight->high = 2.0;
    conf_cases_emit(context);
}

/* Masks under which some rows see nothing: by truth, by -infinity, by a length of 0; and NaN among the
 * values. */
static void conf_trap_attention(conf_cases_context *context, uint32_t type)
{
    static const double LENGTHS[] = {0, 7, 3};
    int forms = type == PCO_F32 || conf_cases_standard(context) ? 4 : 2;
    for (int form = 0; form < forms; form++) {
        if (type == PCO_BF16 && form == 0 && !conf_cases_standard(context)) continue; /* f16 has it */
        conf_case *one = conf_cases_begin(context, PCO_OP_SCALED_DOT_PRODUCT_ATTENTION,
                                          form == 3 || form == 1 ? CONF_SPECIAL : CONF_RANDOM);
        ((pco_scaled_dot_product_attention_attrs *)one->attrs.bytes)->heads_first = 1;
        for (int i = 0; i < 3; i++) {
            conf_operand *x = conf_cases_in(one, type, "3,2,%d,8", i ? 7 : 5);
            x->low = -2.0, x->high = 2.0;
            if (form != 3 || i < 2) x->fill = CONF_FILL_UNIFORM;
        }
        if (form == 0) {
            conf_cases_in(one, PCO_BOOL, "3,2,5,7")->fill = CONF_FILL_ROWS;
        } else if (form == 1) {
            conf_operand *mask = conf_cases_in(one, type, "3,1,5,7");
            const double list[] = {0, -INFINITY, -INFINITY, 0, 0.5, -INFINITY, 0, -INFINITY};
            conf_cases_list(mask, 8, list);
        } else if (form == 2) {
            conf_cases_absent(one);
            conf_cases_list(conf_cases_in(one, PCO_I32, "3"), 3, LENGTHS);
        }
        conf_cases_emit(context);
    }
}

/* Positions at which a single rounding of the angle would be off by radians. */
static void conf_trap_far(conf_cases_context *context, pco_op op, uint32_t type)
{
    static const double FAR[] = {100000, 99999, 65537, 100000, 131071, 1};
    conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
    if (op == PCO_OP_ROPE)
        conf_cases_in(one, type, "1,6,2,32");
    else
        ((pco_sinusoidal_positions_attrs *)one->attrs.bytes)->dtype = type;
    conf_cases_list(conf_cases_in(one, PCO_I32, op == PCO_OP_ROPE ? "1,6" : "6"), 6, FAR);
    conf_operand *phase = conf_cases_in(one, PCO_I32, "16,2");
    phase->fill = CONF_FILL_PHASE, phase->constant = true;
    conf_cases_emit(context);
}

static void conf_trap_rope(conf_cases_context *context, uint32_t type)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_ROPE, CONF_SPECIAL);
    conf_cases_in(one, type, "1,7,3,8");
    conf_operand *positions = conf_cases_in(one, PCO_I32, "1,7");
    positions->fill = CONF_FILL_INTEGER, positions->high = 50.0;
    conf_operand *phase = conf_cases_in(one, PCO_I32, "4,2");
    phase->fill = CONF_FILL_PHASE, phase->constant = true;
    conf_cases_emit(context);
}

static void conf_trap_type(conf_cases_context *context, pco_op op, uint32_t type)
{
    switch (op) {
    case PCO_OP_SOFTMAX:
    case PCO_OP_LOG_SOFTMAX:
    case PCO_OP_LOGSUMEXP:
        conf_trap_one(context, op, type, "7,33", CONF_RANDOM, CONF_FILL_EQUAL);
        conf_trap_one(context, op, type, "31,5", CONF_SPECIAL, CONF_FILL_DEFAULT);
        break;
    case PCO_OP_ARGMAX:
        conf_trap_one(context, op, type, "7,33", CONF_RANDOM, CONF_FILL_EQUAL);
        conf_trap_one(context, op, type, "7,33", CONF_SPECIAL, CONF_FILL_ROWS);
        break;
    case PCO_OP_SUM:
    case PCO_OP_MEAN:
    case PCO_OP_AMAX: conf_trap_one(context, op, type, "31,5", CONF_SPECIAL, CONF_FILL_ROWS); break;
    case PCO_OP_SWIGLU: conf_trap_one(context, op, type, "9,14", CONF_SPECIAL, CONF_FILL_DEFAULT); break;
    case PCO_OP_LAYER_NORM:
    case PCO_OP_RMS_NORM: conf_trap_norm(context, op, type); break;
    case PCO_OP_MATMUL:
        conf_trap_matmul(context, type, type);
        for (uint32_t q = 0; type == PCO_F32 && q < CASES_N_QUANTISED && conf_cases_standard(context); q++)
            conf_trap_matmul(context, type, CASES_QUANTISED[q]);
        break;
    case PCO_OP_SCALED_DOT_PRODUCT_ATTENTION: conf_trap_attention(context, type); break;
    case PCO_OP_ROPE:
        conf_trap_rope(context, type);
        conf_trap_far(context, op, type);
        break;
    case PCO_OP_SINUSOIDAL_POSITIONS: conf_trap_far(context, op, type); break;
    default: break;
    }
}

void conf_cases_traps(conf_cases_context *context, pco_op op)
{
    for (uint32_t t = 0; t < 3; t++) conf_trap_type(context, op, CASES_FLOATS[t]);
}
