/* Numbers with their error bounds. The oracle evaluates every op in pairs (v, e): v is the value in exact
 * arithmetic (long double, as good as), e bounds how far a device that keeps its contract can be from v.
 * Each step of a decomposition propagates the errors of its operands and adds its own rounding; the rules are
 * in docs/numerics.md. Shares no code with any backend. Pure functions; any thread. */
#ifndef CONF_ORACLE_NUMBER_H
#define CONF_ORACLE_NUMBER_H

#include "portico/plugin.h"

#include <stdbool.h>

typedef long double oracle_real;

typedef struct oracle_ve {
    oracle_real v, e;
} oracle_ve;

/* A binary floating-point format: `precision` significant bits (the hidden one included). */
typedef struct oracle_format {
    int precision;
    int emin;   /* exponent of the smallest normal number */
    double max; /* largest finite number */
} oracle_format;

/* What a contract says, as the oracle uses it. */
typedef struct oracle_rules {
    oracle_format compute;             /* of elementwise functions, or of the accumulator inside sums */
    oracle_format accumulate[3];       /* of f32, f16, bf16 inputs (by pco_dtype) */
    double round;                      /* ulps that + - * and conversions may lose: 1/2 to nearest, 1 otherwise */
    double flush;                      /* f32 numbers below this may become 0: 2^-126 or 0 */
    double div, sqrt, rsqrt, function; /* ulps of the compute format */
    bool nan_inf;
    bool exact_casts; /* one right result, ties to even; whole graphs are evaluated without, in exact arithmetic */
    bool narrow; /* matmul's accumulators are as `accumulate` says, whatever the node asks for (never by a contract) */
} oracle_rules;

oracle_rules oracle_rules_from(const pco_contract *contract);

/* Rules in which sums of tensors of this type are computed: `compute` is the accumulator. */
oracle_rules oracle_rules_sum(const oracle_rules *rules, uint32_t dtype);

/* PCO_F32, PCO_F16, PCO_BF16 or PCO_CONTRACT_F64. */
oracle_format oracle_format_of(uint32_t dtype);

/* ---- storage ---- */

/* Bytes of one block of the type, and elements in it (1, or 32 for quantised types). */
uint32_t oracle_block_bytes(uint32_t dtype);
uint32_t oracle_block_count(uint32_t dtype);
int64_t oracle_count(const pco_tensor *tensor); /* elements */
uint64_t oracle_bytes(const pco_tensor *tensor);
const char *oracle_dtype_name(uint32_t dtype);

/* Storage to doubles (exact for every type), and back (to nearest even; integers saturate). */
void oracle_decode(uint32_t dtype, const void *from, double *to, int64_t count);
void oracle_encode(uint32_t dtype, const double *from, void *to, int64_t count);
double oracle_round_to(uint32_t dtype, double value);

/* ---- rounding ---- */

oracle_real oracle_ulp(oracle_format format, oracle_real value);
bool oracle_representable(oracle_format format, oracle_real value);

/* The largest power of two of which x is a multiple; 0 for x = 0. */
double oracle_quantum(double x);

/* gamma_n = n u / (1 - n u), with u = rules->round ulps relative to 1. */
oracle_real oracle_gamma(const oracle_rules *rules, int64_t n);

/* An operand read by the device: exact, except that an f32 subnormal may be read as 0. */
oracle_ve oracle_input(const oracle_rules *rules, uint32_t dtype, double x);

/* A constant of the formula, rounded to the compute format. */
oracle_ve oracle_constant(const oracle_rules *rules, double c);

/* The rounding of + - *: nothing where the result is exact and representable. */
oracle_ve oracle_rounded(const oracle_rules *rules, oracle_ve a);

/* An error of so many ulps of the result, plus the smallest normal number where it may underflow. */
oracle_ve oracle_within(const oracle_rules *rules, oracle_ve a, double ulps);

/* The conversion to the output's type, where that is narrower than the compute format. */
oracle_ve oracle_narrowed(const oracle_rules *rules, uint32_t dtype, oracle_ve a);

/* A finished sum handed from the accumulator (`from`) to the compute format (`to`). */
oracle_ve oracle_handed(const oracle_rules *from, const oracle_rules *to, oracle_ve a);

oracle_ve oracle_add(const oracle_rules *rules, oracle_ve a, oracle_ve b);
oracle_ve oracle_sub(const oracle_rules *rules, oracle_ve a, oracle_ve b);
oracle_ve oracle_mul(const oracle_rules *rules, oracle_ve a, oracle_ve b);
oracle_ve oracle_div(const oracle_rules *rules, oracle_ve a, oracle_ve b);
/* a / b, or a times the rounded reciprocal of b, whichever is worse. */
oracle_ve oracle_quotient(const oracle_rules *rules, oracle_ve a, oracle_ve b);
oracle_ve oracle_sqrt(const oracle_rules *rules, oracle_ve a);
/* True where a is negative and a device may take it for 0, a subnormal that may be flushed, say. A function that is NaN
 * below 0 and a number there promises neither: it gives 0 with an infinite bound, which lets NaN pass too. */
bool oracle_may_reach_zero(oracle_ve a);
/* rsqrt, or the reciprocal of sqrt, whichever is worse. */
oracle_ve oracle_rsqrt(const oracle_rules *rules, oracle_ve a);

/* ---- functions ---- */

oracle_ve oracle_exp(const oracle_rules *rules, oracle_ve a);
oracle_ve oracle_log(const oracle_rules *rules, oracle_ve a);
oracle_ve oracle_sin(const oracle_rules *rules, oracle_ve a);
oracle_ve oracle_cos(const oracle_rules *rules, oracle_ve a);
oracle_ve oracle_tanh(const oracle_rules *rules, oracle_ve a);
oracle_ve oracle_erf(const oracle_rules *rules, oracle_ve a);
oracle_ve oracle_pow(const oracle_rules *rules, oracle_ve a, oracle_ve b);
oracle_ve oracle_sigmoid(const oracle_rules *rules, oracle_ve a);
oracle_ve oracle_silu(const oracle_rules *rules, oracle_ve a);
oracle_ve oracle_gelu(const oracle_rules *rules, oracle_ve a, bool tanh_form);

/* Sine and cosine of a turn given as a 64-bit fraction, by the rules of rope. */
void oracle_turn(const oracle_rules *rules, uint64_t turn, oracle_ve *sine, oracle_ve *cosine);

#endif
