/* Cases that tell devices which keep a clause of their contract from devices that do not: sums that a narrow
 * accumulator cannot hold, products that it cannot, numbers that are flushed, results that are cut instead of
 * rounded, products that are fused. And the same kinds of trouble in any type: see diagnose.c, which names
 * the clause. */
#include "cases/lists.h"

#include <math.h>

/* Rows of a times columns of b, both by lists; the result in f32, so that what the accumulator held shows. */
static void conf_contract_dot(conf_cases_context *context, uint32_t type, int k, uint32_t n_a, const double *a,
                              uint32_t n_b, const double *b)
{
    conf_case *one = conf_cases_begin(context, PCO_OP_MATMUL, CONF_CONTRACT);
    pco_matmul_attrs *attrs = (pco_matmul_attrs *)one->attrs.bytes;
    attrs->dtype = PCO_F32, attrs->transpose_b = 1;
    conf_cases_list(conf_cases_in(one, type, "4,%d", k), n_a, a); /* as many rows as the smallest tiles have */
    conf_cases_list(conf_cases_in(one, type, "5,%d", k), n_b, b);
    conf_cases_emit(context);
}

static void conf_contract_matmul(conf_cases_context *context)
{
    static const double ONE[] = {1}, FIVES[] = {5}, ODD[] = {51}, LARGE[] = {240}, SMALL[] = {0x1p-6},
                        FIRST[] = {0x1p6, 0x1p-6, 0x1p-6, 0x1p-6, 0x1p-6, 0x1p-6, 0x1p-6},
                        CANCEL[] = {0x1p14, 1, -0x1p14, 1, 1}, FUSED_A[] = {-1.0 - 0x1p-11, 1.0 + 0x1p-12},
                        FUSED_B[] = {1, 1.0 + 0x1p-12}, WIDE[] = {0x1p15, 1, -0x1p15, 1, 1},
                        WIDE_B[] = {0x1p15, 1, 0x1p15, 1, 1};
    for (uint32_t t = 0; t < 3; t++) { /* K is odd throughout: one pipeline serves all on most devices */
        conf_contract_dot(context, CASES_FLOATS[t], 9, 1, FIVES, 1, ODD); /* 2295: 12 bits */
        conf_contract_dot(context, CASES_FLOATS[t], 4095, 1, ONE, 1, ONE);
        conf_contract_dot(context, CASES_FLOATS[t], 3, 1, LARGE, 1, LARGE); /* beyond 65504 */
        conf_contract_dot(context, CASES_FLOATS[t], 7, 7, FIRST, 1, SMALL); /* 1 + 6 * 2^-12 */
        conf_contract_dot(context, CASES_FLOATS[t], 5, 5, CANCEL, 1, ONE);  /* 3 */
        conf_contract_dot(context, CASES_FLOATS[t], 5, 5, WIDE, 5, WIDE_B); /* 3, through 2^30: for f64 */
    }
    conf_contract_dot(context, PCO_F32, 2, 2, FUSED_A, 2, FUSED_B); /* 2^-24 where fused, 0 where not */
}

/* Sums whose partial sums lose bits in 11 and in 8 of them, however they are grouped; each is a small number.
 */
static void conf_contract_sum(conf_cases_context *context, pco_op op)
{
    static const double MIXED[] = {2047, 1, -2047, 3}, CANCEL[] = {16384, 3, -16384, 1, 1};
    for (uint32_t t = 0; t < 3; t++) {
        for (int s = 0; s < 3; s++) {
            conf_case *one = conf_cases_begin(context, op, CONF_CONTRACT);
            pco_sum_attrs *attrs = (pco_sum_attrs *)one->attrs.bytes;
            attrs->n_axes = conf_cases_vector(attrs->axes, "1");
            conf_operand *x = conf_cases_in(one, CASES_FLOATS[t], "3,%s", s == 0 ? "64" : s == 1 ? "257" : "5");
            conf_cases_list(x, s == 2 ? 5 : 4, s == 2 ? CANCEL : MIXED);
            if (CASES_FLOATS[t] == PCO_BF16) /* 2047 is no bf16 */
                x->list[0] = s == 2 ? 16384 : 2032, x->list[2] = s == 2 ? -16384 : -2032;
            conf_cases_emit(context);
        }
    }
}

static void conf_contract_pair(conf_cases_context *context, pco_op op, uint32_t type, uint32_t n, const double *a,
                               const double *b)
{
    conf_case *one = conf_cases_begin(context, op, CONF_CONTRACT);
    conf_cases_list(conf_cases_in(one, type, "7,5"), n, a);
    conf_cases_list(conf_cases_in(one, type, "7,5"), n, b);
    conf_cases_emit(context);
}

/* Unit roundoffs of the three types: operands whose exact sum or product lies three quarters of the way to
 * the next number, and subnormal operands and results. */
static void conf_contract_binary(conf_cases_context *context, pco_op op)
{
    static const double UNIT[3] = {0x1p-23, 0x1p-10, 0x1p-7}, TINY[3] = {0x1p-126, 0x1p-14, 0x1p-126};
    for (uint32_t t = 0; t < 3; t++) {
        double u = UNIT[t], tiny = TINY[t];
        double high[] = {1, -1, 1 + u, 1, 3}, low[] = {0.75 * u, -0.75 * u, 0.75 * u, 1.25 * u, 1.5 * u};
        double x[] = {1 + u, 1 + 2 * u, -1 - 3 * u, 1 + u, 1 - u}, y[] = {1.75, 1.375, 1.75, -1.75, 1 + u};
        double small[] = {tiny / 4, -tiny / 2, tiny, tiny * 1.5, 0},
               other[] = {0, tiny / 8, -tiny / 4, -tiny, tiny / 2};
        double near[] = {tiny, -tiny * 2, tiny, tiny * 3, 0.75}, by[] = {0.5, 0.25, 0.125, 0.25, tiny};
        if (op == PCO_OP_MUL) {
            conf_contract_pair(context, op, CASES_FLOATS[t], 5, x, y);
            conf_contract_pair(context, op, CASES_FLOATS[t], 5, near, by);
        } else {
            conf_contract_pair(context, op, CASES_FLOATS[t], 5, high, low);
            conf_contract_pair(context, op, CASES_FLOATS[t], 5, small, other);
        }
    }
}

/* Stores: f32 to a narrower type, at three quarters, at ties and beyond the largest number. */
static void conf_contract_cast(conf_cases_context *context)
{
    for (uint32_t t = 1; t < 3; t++) {
        double u = t == 1 ? 0x1p-10 : 0x1p-7, tiny = t == 1 ? 0x1p-14 : 0x1p-126;
        const double list[] = {1 + 0.75 * u, -1 - 0.75 * u, 1 + 0.5 * u, 1 + 1.5 * u, 1 - 0.125 * u, tiny / 2, 1, -3};
        conf_case *one = conf_cases_begin(context, PCO_OP_CAST, CONF_CONTRACT);
        conf_cases_list(conf_cases_in(one, PCO_F32, "3,17"), 8, list);
        ((pco_cast_attrs *)one->attrs.bytes)->dtype = CASES_FLOATS[t];
        conf_cases_emit(context);
    }
}

static void conf_contract_unary(conf_cases_context *context, pco_op op)
{
    static const double LIST[] = {0x1p-130, -0x1p-149, 0x1.8p-127, 1 + 0x1p-20, -0x1p-126, 0x1.000002p-1, 3, -0x1p-140};
    conf_case *one = conf_cases_begin(context, op, CONF_CONTRACT);
    conf_cases_list(conf_cases_in(one, PCO_F32, "5,9"), 8, LIST);
    conf_cases_emit(context);
}

void conf_cases_contract(conf_cases_context *context, pco_op op)
{
    switch (op) {
    case PCO_OP_MATMUL: conf_contract_matmul(context); break;
    case PCO_OP_SUM:
    case PCO_OP_MEAN: conf_contract_sum(context, op); break;
    case PCO_OP_ADD:
    case PCO_OP_SUB:
    case PCO_OP_MUL: conf_contract_binary(context, op); break;
    case PCO_OP_CAST: conf_contract_cast(context); break;
    case PCO_OP_NEG:
    case PCO_OP_ABS:
    case PCO_OP_RELU: conf_contract_unary(context, op); break;
    default: break;
    }
}
