/* Cases that were missing: each is here because a fault (tests/mutants) once went past all others. */
#include "cases/lists.h"
#include "oracle/oracle_eval.h"

#include <math.h>
#include <string.h>

enum { MISSED_INPUTS = 4 };

typedef struct conf_missed {
    uint32_t op;
    struct {
        uint32_t dtype;
        const char *shape; /* NULL: no such operand, or it is absent */
    } in[MISSED_INPUTS];
} conf_missed;

static const conf_missed MISSED[] = {
    /* two rows of odd length in types that share words: the smallest count that is more than one row */
    {PCO_OP_ADD, {{PCO_F16, "2,7"}, {PCO_F16, "7"}}},
    {PCO_OP_SWIGLU, {{PCO_F16, "2,7"}, {PCO_F16, "2,7"}}},
    {PCO_OP_WHERE, {{PCO_BOOL, "7"}, {PCO_F16, "2,7"}, {PCO_F16, "7"}}},
    /* and of more elements than the invocations that their words would have */
    {PCO_OP_SWIGLU, {{PCO_F16, "5,258"}}},
    {PCO_OP_SWIGLU_BACKWARD, {{PCO_F16, "5,258"}, {PCO_F16, NULL}, {PCO_F16, "5,129"}}},
    {PCO_OP_ADD, {{PCO_BF16, "5,129"}, {PCO_BF16, "129"}}},
    /* as many operands as a view has, and no dimension */
    {PCO_OP_WHERE, {{PCO_BOOL, ""}, {PCO_F32, ""}, {PCO_F32, ""}}},
    /* operands of which one moves along and the other does not, long enough to be cut into windows */
    {PCO_OP_WHERE, {{PCO_BOOL, "2047"}, {PCO_F16, "2047"}, {PCO_F16, ""}}},
    {PCO_OP_WHERE, {{PCO_BOOL, "2047"}, {PCO_F16, ""}, {PCO_F16, "2047"}}},
    {PCO_OP_SUB, {{PCO_F16, "2047"}, {PCO_F16, ""}}},
    {PCO_OP_SUB, {{PCO_F16, ""}, {PCO_F16, "2047"}}},
    /* rows of odd length, cut anywhere, since nothing is broadcast */
    {PCO_OP_ADD, {{PCO_F16, "5,257"}, {PCO_F16, "5,257"}}},
    /* more rows than a grid has workgroups in one dimension */
    {PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, {{PCO_F32, "1,1,65539,8"}, {PCO_F32, "1,1,2,8"}, {PCO_F32, "1,1,2,8"}}},
    /* more rounds than llvmpipe goes, which counts those of all loops of an invocation together (65,535): in more rows
     * than a vector of a CPU has lanes, with one pass over the row and with several; then products and attention */
    {PCO_OP_SOFTMAX, {{PCO_F32, "16,25001"}}},
    {PCO_OP_LAYER_NORM, {{PCO_F32, "16,25001"}}},
    {PCO_OP_ARGMAX, {{PCO_F32, "16,70001"}}},
    {PCO_OP_LOGSUMEXP, {{PCO_F32, "16,70001"}}},
    {PCO_OP_MATMUL, {{PCO_F16, "3,37003"}, {PCO_F16, "37003,5"}}},
    /* five dimensions of batches, no two of which are one: both outer ones step through a, and then through b */
    {PCO_OP_MATMUL, {{PCO_F32, "2,2,1,2,1,3,5"}, {PCO_F32, "2,1,2,1,2,5,2"}}},
    {PCO_OP_MATMUL, {{PCO_F32, "2,1,2,1,2,3,5"}, {PCO_F32, "2,2,1,2,1,5,2"}}},
    /* more terms than kernels add in one chain, in whole vectors and not; in batches */
    {PCO_OP_MATMUL, {{PCO_F32, "5,4100"}, {PCO_F32, "4100,17"}}},
    {PCO_OP_MATMUL, {{PCO_F32, "2,5,2051"}, {PCO_F32, "2,2051,3"}}},
    {PCO_OP_SCALED_DOT_PRODUCT_ATTENTION,
     {{PCO_F32, "1,1,2,64"}, {PCO_F32, "1,1,20011,64"}, {PCO_F32, "1,1,20011,64"}}},
    /* more elements than 16 bits count, and in the last workgroup more than its invocations take at once */
    {PCO_OP_NEG, {{PCO_F32, "65999"}}},
    {PCO_OP_CONCAT, {{PCO_F16, "32771,2"}, {PCO_F16, "7,2"}}},
    /* the last word, half of it the result's, is not the first of its invocation */
    {PCO_OP_NEG, {{PCO_F16, "8325"}}},
    {PCO_OP_ADD, {{PCO_F16, "8325"}, {PCO_F16, "8325"}}},
    {PCO_OP_WHERE, {{PCO_BOOL, "65999"}, {PCO_F32, "65999"}, {PCO_F32, ""}}},
    /* what begins in the middle of a word, in whole words otherwise */
    {PCO_OP_CONCAT, {{PCO_F16, "3"}, {PCO_F16, "4"}}},
    /* more keys than a workgroup has invocations, where the largest score comes late as often as early; 129: one more
     * than a part of attention_split has */
    {PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, {{PCO_F32, "1,2,3,8"}, {PCO_F32, "1,2,129,8"}, {PCO_F32, "1,2,129,8"}}},
    {PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, {{PCO_F16, "1,2,3,8"}, {PCO_F16, "1,2,131,8"}, {PCO_F16, "1,2,131,8"}}},
    /* the same small enough for tier tiny: one row, and three of a block of four */
    {PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, {{PCO_F32, "1,1,1,2"}, {PCO_F32, "1,1,129,2"}, {PCO_F32, "1,1,129,2"}}},
    {PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, {{PCO_F32, "1,1,3,2"}, {PCO_F32, "1,1,129,2"}, {PCO_F32, "1,1,129,2"}}},
};

/* Cases whose place harder ones of the above have taken: tier standard has them as well, for reports of before do. */
static const conf_missed EARLIER[] = {
    {PCO_OP_NEG, {{PCO_F32, "65543"}}},
    {PCO_OP_WHERE, {{PCO_BOOL, "65543"}, {PCO_F32, "65543"}, {PCO_F32, ""}}},
    {PCO_OP_SCALED_DOT_PRODUCT_ATTENTION, {{PCO_F32, "1,2,3,8"}, {PCO_F32, "1,2,131,8"}, {PCO_F32, "1,2,131,8"}}},
};

static void conf_missed_rows(conf_cases_context *context, pco_op op, const conf_missed *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const conf_missed *missed = &rows[i];
        if (missed->op != (uint32_t)op) continue;
        conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
        uint32_t n = MISSED_INPUTS;
        while (n && !missed->in[n - 1].shape) n--;
        for (uint32_t k = 0; k < n; k++) {
            if (missed->in[k].shape)
                conf_cases_in(one, missed->in[k].dtype, "%s", missed->in[k].shape);
            else
                conf_cases_absent(one);
        }
        conf_cases_emit(context);
    }
}

/* Batches of one column, which are computed as batches of one row: strides of two operands change places. */
static void conf_missed_column(conf_cases_context *context)
{
    static const char *const SHAPES[2][2] = {{"3,5,7", "3,7,1"}, {"2,3,5,7", "2,1,7,1"}};
    for (uint32_t s = 0; s < 2; s++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM);
        conf_cases_in(one, PCO_F32, "%s", SHAPES[s][0]);
        conf_cases_in(one, PCO_F32, "%s", SHAPES[s][1]);
        conf_cases_emit(context);
    }
}

/* Whole vectors of an operand that is not transposed; one column with a bias; then nothing to sum, where activation,
 * bias and c are all that is left of the product. */
static void conf_missed_matmul(conf_cases_context *context)
{
    static const uint32_t TYPES[2] = {PCO_F32, PCO_F16};
    /* small windows see two rows of a and one of two columns of b: neighbours there are every second of the result */
    conf_case *every_second = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM);
    ((pco_matmul_attrs *)every_second->attrs.bytes)->transpose_b = 1;
    conf_cases_in(every_second, PCO_F16, "2,160");
    conf_cases_in(every_second, PCO_F32, "2,160");
    conf_cases_emit(context);
    for (uint32_t t = 0; t < 2; t++) {
        conf_case *vectors = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM);
        conf_cases_in(vectors, TYPES[t], "6,40");
        conf_cases_in(vectors, TYPES[t], "40,72");
        vectors->every = true; /* eight rows are clamped to six: docs/devices/driver-bugs/llvm-vector-combine */
        conf_cases_emit(context);
        if (t == 0 || conf_cases_standard(context)) {
            conf_case *column = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM);
            conf_cases_in(column, TYPES[t], "33,64");
            conf_cases_in(column, TYPES[t], "64,1");
            conf_cases_in(column, TYPES[t], "1");
            conf_cases_emit(context);
        }
        for (int64_t activation = 1; activation <= 4; activation++) {
            conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_RANDOM);
            ((pco_matmul_attrs *)one->attrs.bytes)->activation = activation;
            conf_cases_in(one, TYPES[t], "33,0");
            conf_cases_in(one, TYPES[t], "0,31");
            conf_cases_in(one, TYPES[t], "31");
            if (activation % 2) conf_cases_in(one, TYPES[t], "33,31");
            conf_cases_emit(context);
        }
    }
}

/* Long enough to be cut into windows, and padded in as many dimensions as there are. */
static void conf_missed_pad(conf_cases_context *context)
{
    static const char *const SHAPES[2][3] = {{"20,21", "1,2", "3,0"},
                                             {"1,2,1,1,1,2,1,1", "1,1,1,1,1,1,1,1", "0,0,0,0,0,0,0,0"}};
    for (uint32_t s = 0; s < 2; s++) {
        conf_case *one = conf_cases_begin(context, PCO_OP_PAD, CONF_RANDOM);
        pco_pad_attrs *attrs = (pco_pad_attrs *)one->attrs.bytes;
        conf_cases_in(one, PCO_F32, "%s", SHAPES[s][0]);
        attrs->n_before = conf_cases_vector(attrs->before, SHAPES[s][1]);
        attrs->n_after = conf_cases_vector(attrs->after, SHAPES[s][2]);
        attrs->value = -2.0;
        conf_cases_emit(context);
    }
}

/* Rows far from 0 and close together: the mean is subtracted before squares are summed. */
static void conf_missed_layer_norm(conf_cases_context *context)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_LAYER_NORM, CONF_RANDOM);
    conf_operand *x = conf_cases_in(one, PCO_F32, "3,17");
    x->low = 1000.0, x->high = 1001.0;
    conf_cases_emit(context);
}

/* Positions on both sides of 0. */
static void conf_missed_positions(conf_cases_context *context, pco_op op)
{
    conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
    if (op == PCO_OP_ROPE) conf_cases_in(one, PCO_F32, "2,5,3,16");
    conf_operand *positions = conf_cases_in(one, PCO_I32, "2,5");
    positions->fill = CONF_FILL_INTEGER, positions->low = -100000, positions->high = 100000;
    conf_operand *phase = conf_cases_in(one, PCO_I32, "8,2");
    phase->fill = CONF_FILL_PHASE, phase->constant = true;
    conf_cases_emit(context);
}

/* Rows that share words, more than a small window holds; then an index that 16 bits do not hold. */
static void conf_missed_gather(conf_cases_context *context)
{
    static const double INDICES[4] = {65539, 3, 65999, 66000};
    conf_case *one = conf_cases_begin(context, PCO_OP_GATHER, CONF_RANDOM);
    conf_cases_in(one, PCO_F16, "11,3");
    conf_operand *rows = conf_cases_in(one, PCO_I32, "401");
    rows->fill = CONF_FILL_INTEGER, rows->low = 0, rows->high = 10;
    conf_cases_emit(context);
    one = conf_cases_begin(context, PCO_OP_GATHER, CONF_RANDOM);
    conf_cases_in(one, PCO_F32, "66000,1");
    conf_cases_list(conf_cases_in(one, PCO_I32, "4"), 4, INDICES);
    conf_cases_emit(context);
}

/* A rate that rounds to all of 2^32 words, one more than 32 bits hold; and one that is the very word of the first
 * element, which stays: it is not below. */
static void conf_missed_dropout(conf_cases_context *context)
{
    static const double SEED[2] = {0, 0};
    conf_case *one = conf_cases_begin(context, PCO_OP_DROPOUT, CONF_EXACT);
    ((pco_dropout_attrs *)one->attrs.bytes)->p = 1 - 0x1p-34;
    conf_cases_in(one, PCO_F32, "37");
    conf_cases_in(one, PCO_I32, "2")->fill = CONF_FILL_BITS;
    conf_cases_emit(context);
    one = conf_cases_begin(context, PCO_OP_DROPOUT, CONF_RANDOM);
    ((pco_dropout_attrs *)one->attrs.bytes)->p = oracle_random_word(0, 0, 0, 0) * 0x1p-32;
    conf_operand *x = conf_cases_in(one, PCO_F32, "4");
    x->low = 1, x->high = 2;
    conf_cases_list(conf_cases_in(one, PCO_I32, "2"), 2, SEED);
    conf_cases_emit(context);
}

static double conf_missed_nan(uint64_t bits)
{
    double nan;
    memcpy(&nan, &bits, sizeof nan);
    return nan;
}

/* Integers one beside the middle between two numbers of bf16, where only their lowest bit says to which side. */
static void conf_missed_cast(conf_cases_context *context)
{
    static const double BESIDE[5] = {0x1p30 + 0x1p22 + 1, -0x1p30 - 0x1p22 - 1, 0x1p30 + 0x3p22 - 1,
                                     0x1p25 + 0x1p17 + 1, -0x1p25 - 0x3p17 + 1};
    conf_case *one = conf_cases_begin(context, PCO_OP_CAST, CONF_RANDOM);
    conf_cases_list(conf_cases_in(one, PCO_I32, "3,5"), 5, BESIDE);
    ((pco_cast_attrs *)one->attrs.bytes)->dtype = PCO_BF16;
    conf_cases_emit(context);
    /* In the middle between two subnormal numbers of f16, and right beside it. */
    static const double MIDDLE[8] = {0x1p-25,    0x1.8p-24,      -0x1.4p-23,      0x1.cp-23,
                                     -0x1.2p-22, 0x1.3ffffep-23, -0x1.400002p-23, 0x1.13p-15};
    one = conf_cases_begin(context, PCO_OP_CAST, CONF_RANDOM);
    conf_cases_list(conf_cases_in(one, PCO_F32, "5,8"), 8, MIDDLE);
    ((pco_cast_attrs *)one->attrs.bytes)->dtype = PCO_F16;
    conf_cases_emit(context);
    /* A NaN of all ones becomes -0 where a carry goes through it. */
    const double full = conf_missed_nan(UINT64_C(0x7fffffffffffffff)), list[3] = {full, -full, 1.5};
    for (uint32_t t = 1; t < 3; t++) {
        one = conf_cases_begin(context, PCO_OP_CAST, CONF_SPECIAL);
        conf_cases_list(conf_cases_in(one, PCO_F32, "2,3"), 3, list);
        ((pco_cast_attrs *)one->attrs.bytes)->dtype = CASES_FLOATS[t];
        conf_cases_emit(context);
    }
}

/* Negative numbers that a device may take for -0, of which these functions are no NaN, and those that it may not. */
static void conf_missed_below_zero(conf_cases_context *context, pco_op op)
{
    static const double LIST[8] = {-1e-40, -1e-45, 1e-40, -0.0, 0.0, -0x1p-126, 0x1p-126, 4.0};
    static const double POWERS[8] = {0.5, -0.5, 0.5, 0.5, -0.5, 0.5, 0.5, -0.5};
    conf_case *one = conf_cases_begin(context, op, CONF_SPECIAL);
    conf_cases_list(conf_cases_in(one, PCO_F32, "3,8"), 8, LIST);
    if (op == PCO_OP_POW) conf_cases_list(conf_cases_in(one, PCO_F32, "3,8"), 8, POWERS);
    conf_cases_emit(context);
}

/* Rows of the least integer, where an invocation without an element must not look like one with the largest. */
static void conf_missed_least(conf_cases_context *context)
{
    static const double LEAST[1] = {-2147483648.0}, MIXED[3] = {-2147483648.0, -2147483648.0, -2147483647.0};
    conf_case *one = conf_cases_begin(context, PCO_OP_ARGMAX, CONF_SPECIAL);
    conf_cases_list(conf_cases_in(one, PCO_I32, "3,5"), 1, LEAST);
    conf_cases_emit(context);
    one = conf_cases_begin(context, PCO_OP_ARGMAX, CONF_SPECIAL);
    conf_cases_list(conf_cases_in(one, PCO_I32, "3,70"), 3, MIXED);
    conf_cases_emit(context);
}

/* Classes that are ruled out by a logit of -infinity, and are no targets: without smoothing they weigh nothing. */
static void conf_missed_ruled_out(conf_cases_context *context, pco_op op)
{
    static const double TARGETS[2] = {1, 2}, LOGITS[3] = {-INFINITY, 0.5, -1.25};
    conf_case *one = conf_cases_begin(context, op, CONF_SPECIAL);
    conf_cases_list(conf_cases_in(one, PCO_F32, "4,3"), 3, LOGITS);
    conf_cases_list(conf_cases_in(one, PCO_I32, "4"), 2, TARGETS);
    if (op == PCO_OP_CROSS_ENTROPY_BACKWARD) conf_cases_in(one, PCO_F32, "4")->fill = CONF_FILL_UNIFORM;
    conf_cases_emit(context);
}

/* A target to ignore that no i32 can be, and whose lower half is a class. */
static void conf_missed_ignored(conf_cases_context *context, pco_op op)
{
    static const double TARGETS[2] = {1, 2};
    conf_case *one = conf_cases_begin(context, op, CONF_RANDOM);
    ((pco_cross_entropy_attrs *)one->attrs.bytes)->ignore_index = (INT64_C(1) << 32) + 1;
    conf_cases_in(one, PCO_F32, "4,3");
    conf_cases_list(conf_cases_in(one, PCO_I32, "4"), 2, TARGETS);
    if (op == PCO_OP_CROSS_ENTROPY_BACKWARD) conf_cases_in(one, PCO_F32, "4");
    conf_cases_emit(context);
}

void conf_cases_missed(conf_cases_context *context, pco_op op)
{
    conf_missed_rows(context, op, MISSED, sizeof MISSED / sizeof *MISSED);
    if (conf_cases_standard(context)) conf_missed_rows(context, op, EARLIER, sizeof EARLIER / sizeof *EARLIER);
    if (op == PCO_OP_MATMUL) conf_missed_column(context);
    if (op == PCO_OP_MATMUL) conf_missed_matmul(context);
    if (op == PCO_OP_LAYER_NORM) conf_missed_layer_norm(context);
    if (op == PCO_OP_ROPE || op == PCO_OP_SINUSOIDAL_POSITIONS) conf_missed_positions(context, op);
    if (op == PCO_OP_PAD) conf_missed_pad(context);
    if (op == PCO_OP_GATHER) conf_missed_gather(context);
    if (op == PCO_OP_DROPOUT) conf_missed_dropout(context);
    if (op == PCO_OP_CAST) conf_missed_cast(context);
    if (op == PCO_OP_ARGMAX) conf_missed_least(context);
    if (pco_op_domain(op, 1) == PCO_DOMAIN_CLASS) {
        conf_missed_ruled_out(context, op);
        conf_missed_ignored(context, op);
    }
    if (pco_op_domain(op, 0) == PCO_DOMAIN_POSITIVE) conf_missed_below_zero(context, op);
}
