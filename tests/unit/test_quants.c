/* Quantised types as GGUF has them: tests/golden/quants.gguf holds random blocks of each and what the gguf package
 * makes of them (make_quants.py). The core, and the oracle, which shares nothing with it, must say the same. */
#include <math.h>

#include "base/dtype.h"
#include "check.h"
#include "formats/gguf.h"
#include "oracle/oracle_number.h"

static const char *golden;

/* Both tensors of each type. */
static void test_widens(void **state)
{
    pco_gguf *gguf;
    char path[512], name[64];
    uint32_t types = 0;
    (void)state;
    snprintf(path, sizeof path, "%s/quants.gguf", golden);
    check_ok(pco_gguf_open(path, 0, &gguf, &err));
    for (uint32_t type = 0; type < PCO_DTYPE_COUNT; type++) {
        const pco_weight *coded, *decoded;
        if (!pco_dtype_is_quantised(type)) continue;
        snprintf(name, sizeof name, "quant.%s", pco_dtype_name(type));
        check_ok(pco_weights_require(pco_gguf_weights(gguf), name, &coded, &err));
        snprintf(name, sizeof name, "dequant.%s", pco_dtype_name(type));
        check_ok(pco_weights_require(pco_gguf_weights(gguf), name, &decoded, &err));
        const int64_t count = (int64_t)decoded->bytes / 4;
        const float *want = decoded->data;
        float *out = malloc(decoded->bytes);
        double *exact = malloc((size_t)count * sizeof *exact);
        assert_int_equal(coded->dtype, type);
        assert_true(count >= 1024);
        check_ok(pco_dtype_to_f32(type, coded->data, count, out, &err));
        oracle_decode(type, coded->data, exact, count);
        for (int64_t i = 0; i < count; i++) {
            if (out[i] != want[i] || (float)exact[i] != want[i])
                fail_msg("%s, weight %d: %.9g, the oracle %.17g, gguf %.9g", pco_dtype_name(type), (int)i,
                         (double)out[i], exact[i], (double)want[i]);
        }
        types++;
        free(out);
        free(exact);
    }
    assert_true(types >= 13);
    pco_gguf_close(gguf);
}

/* An error is at most 1 / levels of the largest magnitude: half a step, and what the scale of a group is rounded by
 * (one in 126 of a line's ends each, or one in 30 for Q2_K), and for a search, which makes the sum of squares small and
 * not the largest error, up to twice that. Q3_K's and Q4_0's forms lack the largest level on one side, the curve of IQ4
 * has gaps of 24 in 127, and MXFP4's, 4 in 12, under a scale that is a power of two. */
static double levels_of(uint32_t type)
{
    switch (type) {
    case PCO_Q8_0: return 127;
    case PCO_Q6_K: return 31;
    case PCO_Q5_0:
    case PCO_Q5_1: return 15;
    case PCO_Q5_K: return 10;
    case PCO_Q4_0:
    case PCO_Q4_1:
    case PCO_Q4_K:
    case PCO_IQ4_NL:
    case PCO_IQ4_XS: return 7;
    case PCO_Q3_K:
    case PCO_MXFP4: return 3;
    case PCO_Q2_K: return 1.5;
    default: fail_msg("%s: how exact is it?", pco_dtype_name(type));
    }
    return 0;
}

/* What is quantised comes back within the step that its block has, zeros as zeros; and again as the same blocks'
 * values. */
static void test_narrows(void **state)
{
    enum { COUNT = 512 };
    (void)state;
    for (uint32_t type = 0; type < PCO_DTYPE_COUNT; type++) {
        float in[COUNT], out[COUNT];
        unsigned char blocks[COUNT * 2];
        if (!pco_dtype_is_quantised(type)) continue;
        const double levels = levels_of(type);
        for (int i = 0; i < COUNT; i++) in[i] = (float)((i * 7919 % 1021) - 510) / 300 * (i / 256 ? 1 : 0.01f);
        check_ok(pco_dtype_from_f32(type, in, COUNT, blocks, &err));
        check_ok(pco_dtype_to_f32(type, blocks, COUNT, out, &err));
        for (int i = 0; i < COUNT; i++) {
            const double most = i / 256 ? 1.7 : 0.017;
            if (!((double)fabsf(out[i] - in[i]) <= most / levels * 1.05))
                fail_msg("%s: %g becomes %g", pco_dtype_name(type), (double)in[i], (double)out[i]);
        }
        memset(in, 0, sizeof in);
        check_ok(pco_dtype_from_f32(type, in, COUNT, blocks, &err));
        check_ok(pco_dtype_to_f32(type, blocks, COUNT, out, &err));
        for (int i = 0; i < COUNT; i++) assert_true(out[i] == 0);
        for (int i = 0; i < COUNT; i++) in[i] = 1e-42f * (float)(i % 3); /* scales that f16 does not have */
        check_ok(pco_dtype_from_f32(type, in, COUNT, blocks, &err));
        check_ok(pco_dtype_to_f32(type, blocks, COUNT, out, &err));
        for (int i = 0; i < COUNT; i++) assert_true(fabsf(out[i]) < 1e-6f);
        in[5] = INFINITY;
        check_fails(pco_dtype_from_f32(type, in, COUNT, blocks, &err), PCO_ERROR_INVALID, "element 5");
        check_fails(pco_dtype_from_f32(type, in, pco_dtype_block(type) - 1, blocks, &err), PCO_ERROR_INVALID,
                    "whole blocks");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_widens), cmocka_unit_test(test_narrows)};
    golden = argc > 1 ? argv[1] : "tests/golden";
    return cmocka_run_group_tests_name("quants", tests, NULL, NULL);
}
