/* Storage formats: decoding to double and encoding to nearest even, written for the oracle alone. */
#include "oracle/oracle_power.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define ORACLE_TYPE(NAME, name, block, bytes) [PCO_##NAME] = {#name, block, bytes},
static const struct {
    const char *name;
    uint16_t block, bytes;
} TYPES[PCO_DTYPE_COUNT] = {PCO_DTYPES(ORACLE_TYPE)};

uint32_t oracle_block_bytes(uint32_t dtype) { return dtype < PCO_DTYPE_COUNT ? TYPES[dtype].bytes : 0; }

uint32_t oracle_block_count(uint32_t dtype) { return dtype < PCO_DTYPE_COUNT ? TYPES[dtype].block : 1; }

const char *oracle_dtype_name(uint32_t dtype) { return dtype < PCO_DTYPE_COUNT ? TYPES[dtype].name : "?"; }

int64_t oracle_count(const pco_tensor *tensor)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) count *= tensor->shape[i];
    return count;
}

uint64_t oracle_bytes(const pco_tensor *tensor)
{
    uint32_t block = oracle_block_count(tensor->dtype);
    uint64_t blocks = (uint64_t)oracle_count(tensor) / block;
    return blocks * oracle_block_bytes(tensor->dtype);
}

oracle_format oracle_format_of(uint32_t dtype)
{
    switch (dtype) {
    case PCO_F16: return (oracle_format){11, -14, 65504.0};
    case PCO_BF16: return (oracle_format){8, -126, 0x1.fep127};
    case PCO_CONTRACT_F64: return (oracle_format){53, -1022, 0x1.fffffffffffffp1023};
    default: return (oracle_format){24, -126, 0x1.fffffep127};
    }
}

/* sign, exponent and fraction fields of an IEEE-like 16-bit number */
static double oracle_decode16(uint16_t bits, int exponent_bits)
{
    int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    int fraction = bits & ((1 << fraction_bits) - 1);
    double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1) return fraction ? (double)NAN : sign * INFINITY;
    if (exponent == 0) return sign * oracle_scaled(fraction, 1 - bias - fraction_bits);
    return sign * oracle_scaled(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

/* To nearest even in a format, overflow to infinity. */
static double oracle_nearest(oracle_format format, double x)
{
    if (isnan(x) || isinf(x) || x == 0.0) return x;
    int exponent = oracle_exponent(x);
    if (exponent < format.emin) exponent = format.emin;
    int shift = exponent - format.precision + 1;
    double scaled = oracle_scaled(x, -shift);
    double whole = floor(scaled), rest = scaled - whole;
    if (rest > 0.5 || (rest == 0.5 && fmod(whole, 2.0) != 0.0)) whole += 1.0;
    double result = oracle_scaled(whole, shift);
    if (fabs(result) > format.max) return copysign(INFINITY, x);
    return copysign(result, x);
}

static uint16_t oracle_encode16(oracle_format format, int exponent_bits, double x)
{
    int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    unsigned sign = signbit(x) ? 0x8000u : 0u, top = (unsigned)((1 << exponent_bits) - 1);
    if (isnan(x)) return (uint16_t)(sign | (top << fraction_bits) | (1u << (fraction_bits - 1)));
    x = fabs(oracle_nearest(format, x));
    if (isinf(x)) return (uint16_t)(sign | (top << fraction_bits));
    if (x == 0.0) return (uint16_t)sign;
    int exponent = oracle_exponent(x);
    if (exponent < format.emin) return (uint16_t)(sign | (unsigned)oracle_scaled(x, bias - 1 + fraction_bits));
    unsigned fraction = (unsigned)oracle_scaled(x, fraction_bits - exponent) & ((1u << fraction_bits) - 1);
    return (uint16_t)(sign | ((unsigned)(exponent + bias) << fraction_bits) | fraction);
}

static int32_t oracle_to_i32(double x)
{
    if (isnan(x)) return 0;
    x = trunc(x);
    if (x >= 2147483647.0) return INT32_MAX;
    if (x <= -2147483648.0) return INT32_MIN;
    return (int32_t)x;
}

static double oracle_half(const uint8_t *at) { return oracle_decode16((uint16_t)(at[0] | at[1] << 8), 5); }

/* Each decodes a block, as its comment in plugin.h says. */
static void oracle_decode_q8_0(const uint8_t *block, double *to)
{
    for (int i = 0; i < 32; i++) to[i] = oracle_half(block) * (block[2 + i] < 128 ? block[2 + i] : block[2 + i] - 256);
}

static void oracle_decode_q4_0(const uint8_t *block, double *to)
{
    for (int i = 0; i < 32; i++)
        to[i] = oracle_half(block) * ((i < 16 ? block[2 + i] & 15 : block[2 + i - 16] >> 4) - 8);
}

static void oracle_decode_q4_1(const uint8_t *block, double *to)
{
    for (int i = 0; i < 32; i++)
        to[i] = oracle_half(block) * (i < 16 ? block[4 + i] & 15 : block[4 + i - 16] >> 4) + oracle_half(block + 2);
}

/* Two halves of 128 weights, in rows of 32 that share bytes: the low bits of rows 0 and 2 the first 32 bytes, those of
 * rows 1 and 3 the next; the high bits of all four the same 32. */
static void oracle_decode_q6_k(const uint8_t *block, double *to)
{
    for (int half = 0; half < 2; half++) {
        const uint8_t *low = block + 64 * half, *high = block + 128 + 32 * half;
        for (int row = 0; row < 4; row++) {
            for (int i = 0; i < 32; i++) {
                const int at = 128 * half + 32 * row + i;
                const int pair = low[row % 2 * 32 + i], quad = high[i] / (1 << 2 * row) % 4;
                const int scale = (block[192 + at / 16] ^ 128) - 128;
                to[at] = oracle_half(block + 208) * scale * ((row < 2 ? pair % 16 : pair / 16) + 16 * quad - 32);
            }
        }
    }
}

/* The scales and minima of a super-block of Q4_K or Q5_K: their low bits, then, of the last four, the high ones from
 * what the first eight bytes have left. */
static void oracle_six_bits(const uint8_t *from, int *scale, int *minimum)
{
    for (int g = 0; g < 4; g++) {
        scale[g] = from[g] % 64;
        minimum[g] = from[4 + g] % 64;
        scale[4 + g] = from[8 + g] % 16 + from[g] / 64 * 16;
        minimum[4 + g] = from[8 + g] / 16 + from[4 + g] / 64 * 16;
    }
}

static void oracle_decode_q4_k(const uint8_t *block, double *to)
{
    int scale[8], minimum[8];
    oracle_six_bits(block + 4, scale, minimum);
    for (int i = 0; i < 256; i++) {
        const int byte = block[16 + i / 64 * 32 + i % 32], q = i / 32 % 2 ? byte / 16 : byte % 16;
        to[i] = oracle_half(block) * scale[i / 32] * q - oracle_half(block + 2) * minimum[i / 32];
    }
}

static void oracle_decode_q5_k(const uint8_t *block, double *to)
{
    int scale[8], minimum[8];
    oracle_six_bits(block + 4, scale, minimum);
    for (int i = 0; i < 256; i++) {
        const int byte = block[48 + i / 64 * 32 + i % 32], low = i / 32 % 2 ? byte / 16 : byte % 16;
        const int fifth = block[16 + i % 32] & 1 << i / 32 ? 16 : 0;
        to[i] = oracle_half(block) * scale[i / 32] * (low + fifth) - oracle_half(block + 2) * minimum[i / 32];
    }
}

/* A number of Q5_0 or Q5_1, from the word of fifth bits on. */
static int oracle_five_bits(const uint8_t *at, int i)
{
    return (i < 16 ? at[4 + i] % 16 : at[4 + i - 16] / 16) + (at[i / 8] & 1 << i % 8 ? 16 : 0);
}

static void oracle_decode_q5_0(const uint8_t *block, double *to)
{
    for (int i = 0; i < 32; i++) to[i] = oracle_half(block) * (oracle_five_bits(block + 2, i) - 16);
}

static void oracle_decode_q5_1(const uint8_t *block, double *to)
{
    for (int i = 0; i < 32; i++) to[i] = oracle_half(block) * oracle_five_bits(block + 4, i) + oracle_half(block + 2);
}

/* Two halves of 128 weights, in four rows of 32 that share bytes. */
static void oracle_decode_q2_k(const uint8_t *block, double *to)
{
    for (int half = 0; half < 2; half++)
        for (int row = 0; row < 4; row++)
            for (int i = 0; i < 32; i++) {
                const int at = 128 * half + 32 * row + i, q = block[16 + 32 * half + i] / (1 << 2 * row) % 4;
                to[at] = oracle_half(block + 80) * (block[at / 16] % 16) * q -
                         oracle_half(block + 82) * (block[at / 16] / 16);
            }
}

/* As Q2_K; row r of half h has its third bits in bit 4 h + r of the first 32 bytes. */
static void oracle_decode_q3_k(const uint8_t *block, double *to)
{
    int scale[16];
    for (int g = 0; g < 16; g++) {
        const int low = g < 8 ? block[96 + g] % 16 : block[96 + g - 8] / 16;
        scale[g] = low + 16 * (block[104 + g % 4] / (1 << g / 4 * 2) % 4) - 32;
    }
    for (int half = 0; half < 2; half++)
        for (int row = 0; row < 4; row++)
            for (int i = 0; i < 32; i++) {
                const int at = 128 * half + 32 * row + i, low = block[32 + 32 * half + i] / (1 << 2 * row) % 4;
                const int third = block[i] & 1 << (4 * half + row) ? 0 : 4;
                to[at] = oracle_half(block + 108) * scale[at / 16] * (low - third);
            }
}

static int oracle_curve(int q)
{
    static const int VALUES[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return VALUES[q];
}

static void oracle_decode_iq4_nl(const uint8_t *block, double *to)
{
    for (int i = 0; i < 16; i++) {
        to[i] = oracle_half(block) * oracle_curve(block[2 + i] % 16);
        to[i + 16] = oracle_half(block) * oracle_curve(block[2 + i] / 16);
    }
}

static void oracle_decode_iq4_xs(const uint8_t *block, double *to)
{
    const int high = block[2] + 256 * block[3];
    for (int g = 0; g < 8; g++) {
        const int low = g % 2 ? block[4 + g / 2] / 16 : block[4 + g / 2] % 16;
        const double scale = oracle_half(block) * (low + 16 * (high / (1 << 2 * g) % 4) - 32);
        for (int i = 0; i < 16; i++) {
            to[32 * g + i] = scale * oracle_curve(block[8 + 16 * g + i] % 16);
            to[32 * g + i + 16] = scale * oracle_curve(block[8 + 16 * g + i] / 16);
        }
    }
}

/* A number of E2M1: sign, two bits of exponent with bias 1, one of fraction; the block's exponent has bias 127. */
static void oracle_decode_mxfp4(const uint8_t *block, double *to)
{
    for (int i = 0; i < 32; i++) {
        const int q = i < 16 ? block[1 + i] % 16 : block[1 + i - 16] / 16, exponent = q / 2 % 4, fraction = q % 2;
        const double size = exponent ? ldexp(1 + fraction / 2.0, exponent - 1) : fraction / 2.0;
        to[i] = ldexp(q < 8 || size == 0 ? size : -size, block[0] - 127);
    }
}

/* Does the type consist of blocks? Then all of them are decoded. */
static bool oracle_decode_blocks(uint32_t dtype, const uint8_t *from, double *to, int64_t count)
{
    switch (dtype) {
#define ORACLE_BLOCKS(NAME, name, block, bytes) \
    case PCO_##NAME: \
        for (int64_t i = 0; i < count; i += (block)) oracle_decode_##name(from + i / (block) * (bytes), to + i); \
        return true;
        PCO_QUANTISED_DTYPES(ORACLE_BLOCKS)
    default: return false;
    }
}

void oracle_decode(uint32_t dtype, const void *from, double *to, int64_t count)
{
    const uint8_t *bytes = from;
    if (oracle_decode_blocks(dtype, bytes, to, count)) return;
    for (int64_t i = 0; i < count; i++) {
        float f;
        int32_t n;
        uint16_t h;
        switch (dtype) {
        case PCO_F32: memcpy(&f, bytes + 4 * i, 4), to[i] = f; break;
        case PCO_I32: memcpy(&n, bytes + 4 * i, 4), to[i] = n; break;
        case PCO_F16: memcpy(&h, bytes + 2 * i, 2), to[i] = oracle_decode16(h, 5); break;
        case PCO_BF16: memcpy(&h, bytes + 2 * i, 2), to[i] = oracle_decode16(h, 8); break;
        default: to[i] = bytes[i];
        }
    }
}

void oracle_encode(uint32_t dtype, const double *from, void *to, int64_t count)
{
    uint8_t *bytes = to;
    for (int64_t i = 0; i < count; i++) {
        float f = (float)oracle_nearest(oracle_format_of(PCO_F32), from[i]);
        int32_t n = dtype == PCO_I32 ? oracle_to_i32(from[i]) : 0;
        uint16_t h = 0;
        if (dtype == PCO_F16) h = oracle_encode16(oracle_format_of(dtype), 5, from[i]);
        if (dtype == PCO_BF16) h = oracle_encode16(oracle_format_of(dtype), 8, from[i]);
        switch (dtype) {
        case PCO_F32: memcpy(bytes + 4 * i, &f, 4); break;
        case PCO_I32: memcpy(bytes + 4 * i, &n, 4); break;
        case PCO_F16:
        case PCO_BF16: memcpy(bytes + 2 * i, &h, 2); break;
        default: bytes[i] = from[i] != 0.0;
        }
    }
}

double oracle_round_to(uint32_t dtype, double value)
{
    if (dtype == PCO_I32) return oracle_to_i32(value);
    if (dtype == PCO_BOOL) return value != 0.0;
    return oracle_nearest(oracle_format_of(dtype), value);
}
