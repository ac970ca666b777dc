/* base/dtype, base/philox, base/utf8. */
#include <math.h>

#include "base/dtype.h"
#include "base/philox.h"
#include "base/utf8.h"
#include "check.h"

static void names_and_sizes(void **state)
{
    (void)state;
    pco_dtype dtype;
    uint64_t bytes;
    char text[192];
    int64_t wide[9];
    for (int i = 0; i < 9; i++) wide[i] = INT64_MIN;
    assert_string_equal(pco_shape_text(2, (int64_t[]){2, 3}, text, sizeof text), "[2, 3]");
    assert_string_equal(pco_shape_text(0, NULL, text, sizeof text), "[]");
    assert_int_equal(strlen(pco_shape_text(8, wide, text, sizeof text)), 8 * 20 + 7 * 2 + 2);
    assert_non_null(strstr(pco_shape_text(9, wide, text, 64), "...]"));
    assert_string_equal(pco_dtype_name(PCO_BF16), "bf16");
    assert_string_equal(pco_dtype_name(77), "unknown");
    for (uint32_t i = 0; i < PCO_DTYPE_COUNT; i++) {
        check_ok(pco_dtype_from_name(pco_dtype_name(i), &dtype, &err));
        assert_int_equal(dtype, i);
    }
    check_ok(pco_dtype_from_name("Q8_0", &dtype, &err));
    assert_int_equal(dtype, PCO_Q8_0);
    check_fails(pco_dtype_from_name("f8", &dtype, &err), PCO_ERROR_NOT_FOUND, "'f8'");
    /* a list names each type of its classes once, in order, whatever the table holds */
    for (uint32_t classes = 0; classes <= PCO_DTYPE_ANY; classes++) {
        char list[PCO_DTYPE_LIST], *at = list;
        pco_dtype_list(classes, "or", list, sizeof list);
        for (uint32_t i = 0; i < PCO_DTYPE_COUNT; i++) {
            if (!(pco_dtype_class_of(i) & classes)) continue;
            assert_int_equal(strncmp(at, pco_dtype_name(i), strlen(pco_dtype_name(i))), 0);
            at += strlen(pco_dtype_name(i));
            at += strncmp(at, ", ", 2) == 0 ? 2 : strncmp(at, " or ", 4) == 0 ? 4 : 0;
        }
        assert_int_equal(*at, 0);
    }
    char list[PCO_DTYPE_LIST];
    assert_string_equal(pco_dtype_list(PCO_DTYPE_FLOAT, "or", list, sizeof list), "f32, f16 or bf16");
    /* whole numbers are printed as such, others so that every f32 is told from the next */
    static const struct {
        double value;
        const char *text;
    } numbers[] = {{2147483647, "2147483647"},
                   {-2147483648.0, "-2147483648"},
                   {0, "0"},
                   {5, "5"},
                   {0.1f, "0.100000001"},
                   {16777216, "16777216"},
                   {1e30, "1e+30"},
                   {-1819430560, "-1819430560"},
                   {NAN, "nan"},
                   {-INFINITY, "-inf"}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char number[PCO_NUMBER_TEXT];
        assert_string_equal(pco_number_text(numbers[i].value, number), numbers[i].text);
    }
    check_ok(pco_dtype_bytes(PCO_F32, 0, NULL, &bytes, &err));
    assert_int_equal(bytes, 4);
    check_ok(pco_dtype_bytes(PCO_Q4_0, 2, (int64_t[]){3, 64}, &bytes, &err));
    assert_int_equal(bytes, 3 * 2 * 18);
    check_ok(pco_dtype_bytes(PCO_F16, 3, (int64_t[]){5, 0, 7}, &bytes, &err));
    assert_int_equal(bytes, 0);
    check_fails(pco_dtype_bytes(PCO_Q8_0, 1, (int64_t[]){33}, &bytes, &err), PCO_ERROR_INVALID, "[33]");
    check_fails(pco_dtype_bytes(PCO_F32, 1, (int64_t[]){INT64_MAX / 2}, &bytes, &err), PCO_ERROR_INVALID, "bytes");
    check_fails(pco_dtype_bytes(PCO_F32, 3, (int64_t[]){INT64_C(1) << 40, 0, INT64_C(1) << 40}, &bytes, &err),
                PCO_ERROR_INVALID, "elements");
    check_fails(pco_dtype_bytes(PCO_F32, 2, (int64_t[]){2, -1}, &bytes, &err), PCO_ERROR_INVALID, "negative");
    check_fails(pco_dtype_bytes(PCO_F32, 9, (int64_t[9]){1}, &bytes, &err), PCO_ERROR_INVALID, "rank 9");
    check_fails(pco_dtype_bytes(99, 0, NULL, &bytes, &err), PCO_ERROR_INVALID, "99");
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

/* Every finite value survives; between two neighbours the midpoint goes to the even one, and the floats next
 * to the midpoint to their own side. That pins round-to-nearest-even for every f32 up to `top`. */
static void check_rounding(float (*widen)(uint16_t), uint16_t (*narrow)(float), uint16_t infinity)
{
    for (uint32_t i = 0; i < infinity; i++) {
        uint16_t bits = (uint16_t)i, sign = 0x8000;
        float low = widen(bits), high = widen((uint16_t)(i + 1));
        assert_int_equal(narrow(low), bits);
        assert_int_equal(narrow(-low), bits | sign);
        if (i + 1 == infinity) { /* the step continues, as if the exponent range did */
            high = low + (low - widen((uint16_t)(i - 1)));
            if (isinf(high)) continue;
        }
        float middle = (float)(((double)low + (double)high) / 2);
        if (middle == low || middle == high) continue; /* bf16 subnormals: no float between */
        uint16_t even = (uint16_t)(i & 1 ? i + 1 : i);
        assert_int_equal(narrow(middle), even);
        assert_int_equal(narrow(-middle), even | sign);
        assert_int_equal(narrow(nextafterf(middle, 0)), bits);
        assert_int_equal(narrow(nextafterf(middle, INFINITY)), i + 1);
    }
    assert_int_equal(narrow(INFINITY), infinity);
    assert_int_equal(narrow(-INFINITY), infinity | 0x8000);
    assert_true(isinf(widen(infinity)));
    for (uint32_t i = infinity + 1u; i < 0x8000; i++) {
        assert_true(isnan(widen((uint16_t)i)));
        uint16_t back = narrow(widen((uint16_t)i));
        assert_true(back > infinity && back < 0x8000);
    }
    uint32_t little_nan = 0xFF800001u; /* its payload is lost when cut: still NaN, still negative */
    float value;
    memcpy(&value, &little_nan, 4);
    assert_true(narrow(value) > (infinity | 0x8000));
    assert_int_equal(bits_of(widen(0x8000)), 0x80000000u);
}

/* Blocks of 32 are the smallest; of another type that stands in for one of larger blocks a weight has as many bits. */
static void types_instead(void **state)
{
    (void)state;
    for (uint32_t type = 0; type < PCO_DTYPE_COUNT; type++) {
        const uint32_t other = pco_dtype_instead(type), block = pco_dtype_block(type), smaller = pco_dtype_block(other);
        if (block <= 32 ? other != type : smaller != 32 || !pco_dtype_is_quantised(other))
            fail_msg("%s: instead of it %s", pco_dtype_name(type), pco_dtype_name(other));
        if (pco_dtype_block_bytes(other) * block < pco_dtype_block_bytes(type) * smaller)
            fail_msg("%s has more bits than %s", pco_dtype_name(type), pco_dtype_name(other));
    }
    assert_int_equal(pco_dtype_instead(PCO_DTYPE_COUNT), PCO_DTYPE_COUNT);
}

static void half_precision(void **state)
{
    (void)state;
    check_rounding(pco_f16_to_f32, pco_f16_from_f32, 0x7C00);
    assert_int_equal(pco_f16_from_f32(65519.996f), 0x7BFF);
    assert_int_equal(pco_f16_from_f32(65520.0f), 0x7C00);
    assert_true(pco_f16_to_f32(0x3555) == 0x1.554p-2f);
    assert_true(pco_f16_to_f32(0x0001) == 0x1p-24f);
}

static void bfloat16(void **state)
{
    (void)state;
    check_rounding(pco_bf16_to_f32, pco_bf16_from_f32, 0x7F80);
    assert_int_equal(pco_bf16_from_f32(0x1.fffffep127f), 0x7F80);
    assert_int_equal(pco_bf16_from_f32(1.0f), 0x3F80);
}

static void quantised(void **state)
{
    (void)state;
    unsigned char block[34] = {0x00, 0x38}; /* 0.5 */
    float out[32], in[64];
    block[2] = 0x80, block[33] = 5;
    check_ok(pco_dtype_to_f32(PCO_Q8_0, block, 32, out, &err));
    assert_true(out[0] == -64.0f && out[1] == 0 && out[31] == 2.5f);
    memset(block + 2, 0, 32);
    block[2] = 0xF0, block[17] = 0x1F;
    check_ok(pco_dtype_to_f32(PCO_Q4_0, block, 32, out, &err));
    assert_true(out[0] == -4.0f && out[16] == 3.5f && out[15] == 3.5f && out[31] == -3.5f);
    for (int i = 0; i < 64; i++) in[i] = (float)(i - 40) * 0.37f;
    unsigned char coded[68];
    float back[64];
    check_ok(pco_dtype_from_f32(PCO_Q8_0, in, 64, coded, &err));
    check_ok(pco_dtype_to_f32(PCO_Q8_0, coded, 64, back, &err));
    for (int i = 0; i < 64; i++) assert_true(fabsf(back[i] - in[i]) <= 40 * 0.37f / 127 * 0.51f);
    check_ok(pco_dtype_from_f32(PCO_Q4_0, in, 64, coded, &err));
    check_ok(pco_dtype_to_f32(PCO_Q4_0, coded, 64, back, &err));
    for (int i = 0; i < 64; i++) assert_true(fabsf(back[i] - in[i]) <= 40 * 0.37f / 8 * 1.01f);
    memset(in, 0, sizeof in);
    check_ok(pco_dtype_from_f32(PCO_Q4_0, in, 64, coded, &err));
    check_ok(pco_dtype_to_f32(PCO_Q4_0, coded, 64, back, &err));
    for (int i = 0; i < 64; i++) assert_true(back[i] == 0);
    in[3] = 1e-42f; /* 1 / scale overflows */
    check_ok(pco_dtype_from_f32(PCO_Q8_0, in, 64, coded, &err));
    in[5] = NAN;
    check_fails(pco_dtype_from_f32(PCO_Q8_0, in, 64, coded, &err), PCO_ERROR_INVALID, "element 5");
    check_fails(pco_dtype_from_f32(PCO_Q8_0, in, 63, coded, &err), PCO_ERROR_INVALID, "63");
    check_fails(pco_dtype_from_f32(PCO_I32, in, 1, coded, &err), PCO_ERROR_UNSUPPORTED, "i32");
    check_ok(pco_dtype_to_f32(PCO_I32, (int32_t[]){-7}, 1, out, &err));
    assert_true(out[0] == -7.0f);
}

static void philox_known_answers(void **state)
{
    (void)state;
    /* From the Random123 distribution, kat_vectors. */
    pco_philox a = pco_philox4x32_10((pco_philox){{0}}, 0);
    pco_philox b = pco_philox4x32_10((pco_philox){{~0u, ~0u, ~0u, ~0u}}, UINT64_MAX);
    pco_philox c =
        pco_philox4x32_10((pco_philox){{0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}}, UINT64_C(0x299F31D0A4093822));
    assert_memory_equal(a.word, ((uint32_t[]){0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}), 16);
    assert_memory_equal(b.word, ((uint32_t[]){0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}), 16);
    assert_memory_equal(c.word, ((uint32_t[]){0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}), 16);
}

static void utf8(void **state)
{
    (void)state;
    static const char *const bad[] = {"\x80",     "\xC1\x81", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                      "\xE2\x82", "\xFF",     "\xF0\x9F\x98"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[16];
        snprintf(text, sizeof text, "ab%sc", bad[i]);
        assert_int_equal(pco_utf8_check(text, strlen(text)), 2);
    }
    for (uint32_t codepoint = 1; codepoint < 0x110000; codepoint += 61) {
        char text[4];
        uint32_t back = 0;
        if (codepoint >= 0xD800 && codepoint < 0xE000) continue;
        size_t size = pco_utf8_encode(codepoint, text);
        assert_int_equal(pco_utf8_decode(text, size, &back), size);
        assert_int_equal(back, codepoint);
        assert_int_equal(pco_utf8_decode(text, size - 1, &back), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_sizes),
        cmocka_unit_test(types_instead),
        cmocka_unit_test(half_precision),
        cmocka_unit_test(bfloat16),
        cmocka_unit_test(quantised),
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
