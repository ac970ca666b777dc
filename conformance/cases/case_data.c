/* The data of a case: a pure function of seed, operand and element (a counter-based generator). */
#include "cases/case.h"

#include "graph/op.h"
#include "oracle/oracle_number.h"
#include "cases/real_data.h"

#include <math.h>
#include <string.h>

/* splitmix64's finaliser (Steele, Lea, Flood 2014) over a counter */
static uint64_t conf_data_bits(uint64_t seed, uint64_t counter)
{
    uint64_t z = seed + 0x9E3779B97F4A7C15ull * (counter + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static double conf_data_unit(uint64_t bits) { return (double)(bits >> 11) * 0x1p-53; }

uint64_t conf_case_seed(const conf_case *one, uint64_t seed) { return conf_data_bits(seed, one->id); }

pco_tensor conf_operand_tensor(const conf_case *one, uint32_t input)
{
    static const char *const NAMES[PCO_MAX_INPUTS] = {"in0", "in1", "in2", "in3", "in4", "in5", "in6", "in7"};
    const conf_operand *operand = &one->in[input];
    pco_tensor tensor = {.dtype = operand->dtype,
                         .kind = operand->constant ? PCO_KIND_CONSTANT : PCO_KIND_INPUT,
                         .rank = operand->rank,
                         .alias = PCO_NONE,
                         .name = NAMES[input]};
    if (pco_op_writes(conf_case_op(one), input)) tensor.kind = PCO_KIND_STATE;
    memcpy(tensor.shape, operand->shape, sizeof tensor.shape);
    tensor.bytes = oracle_bytes(&tensor);
    return tensor;
}

/* Where each op is tried: what it is used for, short of overflow. */
static void conf_data_domain(const conf_case *one, uint32_t input, double *low, double *high)
{
    bool half = one->in[input].dtype == PCO_F16;
    const bool positive = pco_op_domain(one->op, input) == PCO_DOMAIN_POSITIVE;
    double limit = 2.0;
    switch (one->op) {
    case PCO_OP_EXP: limit = half ? 10.0 : 80.0; break;
    case PCO_OP_LOG:
    case PCO_OP_SQRT:
    case PCO_OP_RSQRT: limit = 1000.0; break;
    case PCO_OP_POW: limit = 4.0; break;
    case PCO_OP_SIN:
    case PCO_OP_COS:
    case PCO_OP_TANH:
    case PCO_OP_GELU:
    case PCO_OP_SILU:
    case PCO_OP_SWIGLU:
    case PCO_OP_SOFTMAX:
    case PCO_OP_LOG_SOFTMAX:
    case PCO_OP_LOGSUMEXP: limit = 10.0; break;
    case PCO_OP_ERF: limit = 5.0; break;
    case PCO_OP_SIGMOID: limit = 30.0; break;
    case PCO_OP_FLOOR:
    case PCO_OP_CAST:
    case PCO_OP_CLAMP:
    case PCO_OP_ISFINITE: limit = 100.0; break;
    default: break;
    }
    const pco_op_range *range = pco_op_range_of(conf_case_op(one), input);
    if (range) {
        *low = range->low, *high = range->high;
        return;
    }
    *low = positive ? 1.0 / 1024.0 : -limit;
    *high = limit;
}

static bool conf_data_divides(const conf_case *one, uint32_t input)
{
    return pco_op_domain(one->op, input) == PCO_DOMAIN_DIVISOR;
}

static double conf_data_integer(uint64_t bits, double low, double high)
{
    return low + floor(conf_data_unit(bits) * (high - low + 1.0));
}

/* Values that break kernels: zeros of both signs, subnormals, neighbours that cancel, large ones. */
static double conf_data_adversarial(uint64_t bits, uint64_t pick, uint32_t dtype, double low, double high)
{
    double large = dtype == PCO_F16 ? 100.0 : 1e4, unit = conf_data_unit(bits), sign = bits & 1 && low < 0 ? -1.0 : 1.0;
    bool function = high >= 4.0 || low > 0.0; /* functions have a domain, arithmetic has not */
    switch (pick % 10) {
    case 0: return low > 0.0 ? low : sign * 0.0;
    case 1: return sign * (dtype == PCO_F16 ? ldexp(1 + floor(unit * 1000), -24) : ldexp(1.0 + unit, -130));
    case 2: return sign * (1.0 + floor(unit * 4) * (dtype == PCO_F32 ? 0x1p-23 : dtype == PCO_F16 ? 0x1p-10 : 0x1p-7));
    case 3: return function ? high : large * (1.0 + 0x1p-6 * floor(unit * 4));
    case 4: return function ? low : -large * (1.0 + 0x1p-6 * floor(unit * 4));
    case 5: return sign * ldexp(1.0 + unit, dtype == PCO_F16 ? -12 : -40);
    case 6: return sign * unit * high * 2.0;
    default: return low + unit * (high - low);
    }
}

static double conf_data_special(uint64_t bits, uint64_t pick, double value)
{
    switch (pick % 11) {
    case 0: return NAN;
    case 1: return INFINITY;
    case 2: return -INFINITY;
    case 3: return bits & 1 ? -0.0 : 0.0;
    case 4: return -value;
    default: return value;
    }
}

static double conf_data_integer_value(const conf_case *one, uint32_t input, uint64_t bits, uint64_t pick)
{
    static const double EDGES[] = {0, 1, -1, 2147483647.0, -2147483648.0, -2147483647.0, 16777217.0, 46341.0};
    (void)input;
    if (one->regime == CONF_EXACT) return conf_data_integer(bits, -8, 8);
    if (one->regime != CONF_RANDOM && pick % 3 != 0) return EDGES[bits % 8];
    return (double)(int32_t)(uint32_t)(bits >> 16);
}

/* By the regime. */
static double conf_data_default(const conf_case *one, uint32_t input, uint64_t bits, uint64_t pick)
{
    const conf_operand *operand = &one->in[input];
    double low = operand->low, high = operand->high;
    if (operand->dtype == PCO_BOOL) return (double)(pick % 2);
    if (operand->dtype == PCO_I32) return conf_data_integer_value(one, input, bits, pick);
    if (low == 0.0 && high == 0.0) conf_data_domain(one, input, &low, &high);
    if (one->regime == CONF_EXACT) {
        if (conf_data_divides(one, input)) return ldexp(bits & 1 ? -1.0 : 1.0, (int)(pick % 4));
        return conf_data_integer(bits, low >= 0 ? 1 : -fmin(8, -low), fmin(8, high));
    }
    double value = one->regime == CONF_RANDOM ? low + conf_data_unit(bits) * (high - low)
                                              : conf_data_adversarial(bits, pick, operand->dtype, low, high);
    if (one->regime == CONF_SPECIAL) return conf_data_special(bits, pick >> 8, value);
    if (conf_data_divides(one, input) && fabs(value) < 0x1p-6) value = value < 0 ? -0.25 : 0.25;
    return value;
}

static double conf_data_phase(const conf_operand *operand, int64_t i)
{
    double pairs = (double)operand->shape[0];
    long double turn = powl(10000.0L, -(long double)(i / 2) / pairs) / (2 * 3.14159265358979323846264338327950288L);
    uint64_t fraction = (uint64_t)ldexpl(turn, 64);
    return (int32_t)(uint32_t)(i % 2 ? fraction >> 32 : fraction);
}

/* Key or value element i of an attention: is it beyond its sequence's length? */
static bool conf_data_is_beyond(const conf_case *one, uint32_t input, int64_t i)
{
    const int64_t *shape = one->in[input].shape;
    int64_t heads_first = one->op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD
                              ? ((const pco_scaled_dot_product_attention_backward_attrs *)one->attrs.bytes)->heads_first
                              : ((const pco_scaled_dot_product_attention_attrs *)one->attrs.bytes)->heads_first;
    int64_t b = i / (shape[1] * shape[2] * shape[3]);
    int64_t t = heads_first ? i / shape[3] % shape[2] : i / shape[3] / shape[2] % shape[1];
    return t >= (int64_t)one->in[4].list[b % one->in[4].n_list];
}

static double conf_data_value(const conf_case *one, uint32_t input, uint64_t seed, int64_t i);

/* Do the mask, the lengths and the rules of attention let row s of head h of sequence b see key t? at: b, h, s, t. */
static bool conf_data_sees(const conf_case *one, uint64_t seed, const int64_t *at)
{
    const pco_scaled_dot_product_attention_attrs *attrs =
        (const pco_scaled_dot_product_attention_attrs *)one->attrs.bytes;
    const conf_operand *mask = &one->in[3], *lengths = &one->in[4], *starts = &one->in[5];
    const int64_t key = at[3], row = at[2] + (starts->present ? (int64_t)starts->list[at[0] % starts->n_list] : 0);
    if (lengths->present && key >= (int64_t)lengths->list[at[0] % lengths->n_list]) return false;
    if (attrs->causal && key > row) return false;
    if (attrs->window > 0 && (row - key >= attrs->window || key - row >= attrs->window)) return false;
    if (!mask->present) return true;
    int64_t i = 0;
    for (uint32_t d = 0; d < 4; d++) i = i * mask->shape[d] + (mask->shape[d] == 1 ? 0 : at[d]);
    const double value = conf_data_value(one, 3, seed, i);
    return mask->dtype == PCO_BOOL ? value != 0 : value > -INFINITY;
}

/* Key or value element i of an attention: is there no row that sees it? */
static bool conf_data_is_unseen(const conf_case *one, uint32_t input, uint64_t seed, int64_t i)
{
    const int64_t *shape = one->in[input].shape, *query = one->in[0].shape;
    const bool heads_first = ((const pco_scaled_dot_product_attention_attrs *)one->attrs.bytes)->heads_first != 0;
    const int head = heads_first ? 1 : 2, row = 3 - head;
    const int64_t first = i / shape[3] % shape[2], second = i / shape[3] / shape[2] % shape[1];
    const int64_t g = heads_first ? second : first, heads = query[head] / shape[head];
    int64_t at[4] = {i / (shape[1] * shape[2] * shape[3]), 0, 0, heads_first ? first : second};
    for (at[1] = g * heads; at[1] < (g + 1) * heads; at[1]++)
        for (at[2] = 0; at[2] < query[row]; at[2]++)
            if (conf_data_sees(one, seed, at)) return false;
    return true;
}

/* Where the large element of a block of a row is. */
static int64_t conf_data_large_at(int64_t block, int64_t row) { return (block * 7 + row) % 32; }

/* Numbers of which 32 can or cannot have one exponent: most are about 2^centre, and one of a block is `above` times as
 * large. In exact cases the others are so few units that all 31 together are less than 2^24 of them. In special cases
 * one row of three has an infinity beside other numbers, and one a NaN beside zeros. */
static double conf_data_spread(const conf_case *one, uint32_t input, uint64_t bits, int64_t i)
{
    enum { BLOCK = 32, KINDS = 14, JUST_NEAR = 3, ONE_BIT_TOO_FAR = 4 };
    static const struct {
        int centre, range, above; /* exponents */
    } KIND[KINDS] = {{0, 0, 0},  {0, 3, 0},  {0, 2, 12},  {0, 0, 14},  {0, 0, 15}, {0, 0, 18}, {0, 0, 22},
                     {0, 4, 24}, {0, 2, 40}, {-63, 0, 0}, {-66, 3, 2}, {60, 2, 3}, {66, 1, 0}, {-130, 6, 0}};
    const conf_operand *operand = &one->in[input];
    const int64_t block = i / BLOCK, row = i / operand->shape[operand->rank - 1], at = i % BLOCK;
    const uint64_t of_exact = row % 2 ? JUST_NEAR : ONE_BIT_TOO_FAR;
    /* of 16 rows with one block each, every kind */
    const uint64_t kind = one->regime == CONF_EXACT ? of_exact : (uint64_t)(block + row + row / 8) % (KINDS + 2);
    const double sign = bits & 1 ? -1.0 : 1.0;
    if (one->regime == CONF_SPECIAL && at == block % BLOCK) {
        if (row % 3 == 1 && kind % 4 == 1) return sign * (double)INFINITY;
        if (row % 3 == 2 && kind > KINDS) return (double)NAN;
    }
    if (kind == KINDS) return sign * 0.0;
    if (kind > KINDS) return at == block % BLOCK ? sign * (1.0 + conf_data_unit(bits)) : sign * 0.0;
    const int exponent = KIND[kind].centre - (int)(bits >> 8) % (KIND[kind].range + 1);
    const int limit = operand->dtype == PCO_F16 ? 15 : 127;
    const int more = at == conf_data_large_at(block, row) ? KIND[kind].above : 0;
    if (one->regime == CONF_EXACT && !more) return sign * ldexp((double)(1 + (bits >> 8) % ((1 << 19) - 1)), -23);
    const double value = ldexp(1.0 + conf_data_unit(bits), exponent + more < limit ? exponent + more : limit - 1);
    return sign * value;
}

static double conf_data_value(const conf_case *one, uint32_t input, uint64_t seed, int64_t i)
{
    const conf_operand *operand = &one->in[input];
    uint64_t bits = conf_data_bits(seed ^ (input * 0x632BE59BD9B4E019ull), 2 * (uint64_t)i);
    uint64_t pick = conf_data_bits(seed ^ (input * 0x632BE59BD9B4E019ull), 2 * (uint64_t)i + 1);
    int64_t last = operand->rank ? operand->shape[operand->rank - 1] : 1;
    uint64_t row = conf_data_bits(seed ^ input, (uint64_t)(i / last));
    switch (operand->fill) {
    case CONF_FILL_INTEGER: return conf_data_integer(bits, operand->low, operand->high);
    case CONF_FILL_UNIFORM: return operand->low + conf_data_unit(bits) * (operand->high - operand->low);
    case CONF_FILL_LIST: return operand->list[i % operand->n_list];
    case CONF_FILL_BOOL: return conf_data_unit(bits) < operand->low;
    case CONF_FILL_BITS: return (int32_t)(uint32_t)bits;
    case CONF_FILL_PHASE: return conf_data_phase(operand, i);
    case CONF_FILL_EQUAL:
        if (operand->low < operand->high) return conf_data_integer(row, operand->low, operand->high);
        return conf_data_integer(row, -40, 40) / 8.0;
    case CONF_FILL_GARBAGE: return conf_data_is_beyond(one, input, i) ? (double)NAN : conf_data_unit(bits) * 4.0 - 2.0;
    case CONF_FILL_UNSEEN:
        return conf_data_is_unseen(one, input, seed, i) ? (double)NAN : conf_data_unit(bits) * 4.0 - 2.0;
    case CONF_FILL_KEYS: /* the same keys whatever the seed: what is garbage follows from it */
        if (i % last % 4 == 1 || i % 3 == 1) return operand->dtype == PCO_BOOL ? 0.0 : -INFINITY;
        return operand->dtype == PCO_BOOL ? 1.0 : conf_data_unit(bits) * 2.0 - 1.0;
    case CONF_FILL_REAL: return conf_real_value(operand->real, i);
    case CONF_FILL_SPREAD: return conf_data_spread(one, input, bits, i);
    case CONF_FILL_TIES: return conf_data_integer(bits, -1, 1);
    case CONF_FILL_RISING:
        return ldexp(conf_data_default(one, input, bits, pick),
                     (int)(i / last % operand->shape[operand->rank - 2]) / 4);
    case CONF_FILL_ROWS:
        if (i / last % 3 == 1) return operand->dtype == PCO_BOOL ? 0.0 : -INFINITY;
        return operand->dtype == PCO_BOOL ? (double)(pick % 2) : conf_data_default(one, input, bits, pick);
    default: return conf_data_default(one, input, bits, pick);
    }
}

/* Where the f16s of a type's blocks are, and how large they are beside the usual scale, so that weights are about 1. */
typedef struct conf_data_form {
    int scale, least; /* offsets of d, and of m or e; -1: none */
    double size;      /* of d in that scale, but in exact cases 1 */
    double below;     /* m or e in d; in exact cases the whole number below */
} conf_data_form;

static conf_data_form conf_data_form_of(uint32_t dtype)
{
    switch (dtype) {
    case PCO_Q4_1: return (conf_data_form){0, 2, 1, -7.3};
    case PCO_Q5_1: return (conf_data_form){0, 2, 1 / 2.0, -15.3};
    case PCO_Q4_K: return (conf_data_form){0, 2, 1 / 32.0, 7.3};
    case PCO_Q5_K: return (conf_data_form){0, 2, 1 / 64.0, 15.3};
    case PCO_Q2_K: return (conf_data_form){80, 82, 1 / 4.0, 1.7};
    case PCO_Q3_K: return (conf_data_form){108, -1, 1 / 16.0, 0};
    case PCO_Q6_K: return (conf_data_form){208, -1, 1, 0};
    case PCO_IQ4_NL: return (conf_data_form){0, -1, 1 / 16.0, 0};
    case PCO_IQ4_XS: return (conf_data_form){0, -1, 1 / 256.0, 0};
    case PCO_MXFP4: return (conf_data_form){-1, -1, 1, 0};
    default: return (conf_data_form){0, -1, 1, 0};
    }
}

/* Byte i of a block, but for those f16s. Scales of a few bits are small in exact cases: where they lie in six bits, the
 * lower two of the low four, and the middle one of the high two's four values. */
static uint8_t conf_data_byte(uint32_t dtype, bool exact, uint32_t i, uint64_t bits)
{
    const uint8_t byte = (uint8_t)(bits >> 24);
    switch (dtype) {
    case PCO_Q8_0: return exact ? (uint8_t)(int8_t)((int)(bits % 9) - 4) : byte;
    case PCO_Q6_K: return i >= 192 ? (uint8_t)(int8_t)((int)(bits % (exact ? 3 : 17)) - (exact ? 1 : 8)) : byte;
    case PCO_Q4_K:
    case PCO_Q5_K: return exact && i < 16 ? byte & 0x33 : byte;
    case PCO_Q2_K: return exact && i < 16 ? byte & 0x33 : byte;
    case PCO_Q3_K: return exact && i >= 104 ? 0xaa : exact && i >= 96 ? byte & 0x33 : byte;
    case PCO_IQ4_XS: return exact && i < 4 ? 0xaa : exact && i < 8 ? byte & 0x33 : byte;
    case PCO_MXFP4: return i > 0 ? byte : exact ? 128 : (uint8_t)(122 + bits % 4);
    default: return byte;
    }
}

/* The byte of quants of a type that stands for weights of 0 (of Q4_1 with m = -zero d), and which bytes of a block are
 * that; first = end where this is not that simple. */
typedef struct conf_data_nothing {
    uint32_t first, end, byte, from, byte_from; /* from `from` on it is `byte_from` */
} conf_data_nothing;

static conf_data_nothing conf_data_nothing_of(uint32_t dtype, uint32_t zero)
{
    switch (dtype) {
    case PCO_Q8_0: return (conf_data_nothing){2, 34, 0x00, 34, 0};
    case PCO_Q4_0: return (conf_data_nothing){2, 18, 0x88, 18, 0};
    case PCO_Q4_1: return (conf_data_nothing){4, 20, 0x11 * zero, 20, 0};
    case PCO_Q6_K: return (conf_data_nothing){0, 192, 0x00, 128, 0xaa};
    default: return (conf_data_nothing){0};
    }
}

/* Three of four quants of a block become that; at an edge (zero = 0 or 15) the others are that or the one beside it. In
 * exact cases a block of Q8_0 has a single 1, or ones alone but where the large element of block r of row r is
 * (conf_data_spread), for an r below 4, so that sums of the small ones have all their bits; weights of Q4_1, 1.5 q - 7,
 * are -1 here and 1/2 there: 1.5 times the sum of x is more than a float holds where the sum is just what it holds. */
static void conf_data_thin(uint32_t dtype, bool exact, uint32_t zero, uint64_t seed, uint64_t number, uint8_t *block)
{
    const uint64_t first = number * oracle_block_bytes(dtype);
    for (uint32_t i = 4; exact && dtype == PCO_Q4_1 && i < 20; i++)
        block[i] = conf_data_bits(seed, first + i) % 32 ? 0x44 : 0x54;
    for (uint32_t i = 2; exact && dtype == PCO_Q8_0 && i < 34; i++)
        block[i] = number % 32 < 16 ? number % 32 == i - 2
                                    : conf_data_large_at((int64_t)number % 4, (int64_t)number % 4) != i - 2;
    if (exact) return;
    const conf_data_nothing nothing = conf_data_nothing_of(dtype, zero);
    for (uint32_t i = nothing.first; i < nothing.end; i++)
        if (conf_data_bits(seed ^ 0x5ca1ab1e, first + i) % 4)
            block[i] = (uint8_t)(i < nothing.from ? nothing.byte : nothing.byte_from);
        else if (zero == 0 || zero == 15)
            block[i] = (uint8_t)(nothing.byte ^ (block[i] & 0x11));
}

/* Blocks with f16 scales: 1 for exact cases, else between 0.01 and 0.1. */
static void conf_data_blocks(const conf_case *one, uint32_t input, uint64_t seed, uint8_t *data, int64_t count)
{
    const uint32_t dtype = one->in[input].dtype, size = oracle_block_bytes(dtype);
    const bool exact = one->regime == CONF_EXACT;
    conf_data_form form = conf_data_form_of(dtype);
    for (int64_t block = 0; block < count / oracle_block_count(dtype); block++) {
        uint8_t *to = data + block * size;
        double scale = exact ? 1.0 : form.size * (0.01 + 0.09 * conf_data_unit(conf_data_bits(seed, (uint64_t)block)));
        if (one->regime == CONF_ADVERSARIAL && block % 3 == 0) scale = block % 2 ? 0.0 : -ldexp(3.0, -20);
        for (uint32_t i = 0; i < size; i++)
            to[i] = conf_data_byte(dtype, exact, i, conf_data_bits(~seed, (uint64_t)block * size + i));
        if (one->in[input].fill == CONF_FILL_SPARSE) {
            /* the q whose weight is 0: in the middle, or where one more or less is none */
            const uint32_t zero = dtype != PCO_Q4_1 || exact || block % 5 < 3 ? 7 : block % 5 == 3 ? 0 : 15;
            conf_data_thin(dtype, exact, zero, seed, (uint64_t)block, to);
            if (dtype == PCO_Q4_1)
                scale = exact ? 1.5 : ldexp(1.0 + (double)(block % 8), -7), form.below = -(double)zero;
            if (one->regime == CONF_SPECIAL && block % 31 == 3) scale = INFINITY;
            if (one->regime == CONF_RANDOM && dtype == PCO_Q4_1 && block % 5 == 2) /* next to constant: m is +-60000 */
                scale = ldexp(1.0, -14), form.below = ldexp(block % 2 ? 60000.0 : -60000.0, 14);
        }
        const double least = exact ? floor(form.below) : form.below * scale;
        if (form.least >= 0) oracle_encode(PCO_F16, &least, to + form.least, 1);
        if (form.scale >= 0) oracle_encode(PCO_F16, &scale, to + form.scale, 1);
    }
}

void conf_operand_fill(const conf_case *one, uint32_t input, uint64_t seed, void *data)
{
    pco_tensor desc = conf_operand_tensor(one, input);
    int64_t count = oracle_count(&desc);
    if (one->in[input].twin) input = one->in[input].twin - 1;
    if (oracle_block_count(desc.dtype) > 1) {
        conf_data_blocks(one, input, seed ^ input, data, count);
        return;
    }
    uint32_t step = oracle_block_bytes(desc.dtype);
    for (int64_t i = 0; i < count; i++) {
        double value = conf_data_value(one, input, seed, i);
        oracle_encode(desc.dtype, &value, (uint8_t *)data + i * step, 1);
    }
}
