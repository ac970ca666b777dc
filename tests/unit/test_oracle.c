/* The oracle and its judge, without a device: known values, the bounds' exact cases, and that what is wrong is
 * always caught. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cases.h"
#include "conformance.h"
#include "judge.h"
#include "oracle.h"

static pco_contract contract_strict(void)
{
    return (pco_contract){.size = sizeof(pco_contract), .compute = PCO_F32, .round_to_nearest = 1, .subnormals = 1,
                          .nan_inf = 1, .div_ulp = 0.5f, .sqrt_ulp = 0.5f, .rsqrt_ulp = 2.0f, .function_ulp = 4.0f};
}

static pco_contract contract_loose(void)
{
    return (pco_contract){.size = sizeof(pco_contract), .compute = PCO_F32, .contraction = 1, .div_ulp = 2.5f,
                          .sqrt_ulp = 3.0f, .rsqrt_ulp = 2.0f, .function_ulp = 4.0f};
}

static pco_contract contract_double(void)
{
    pco_contract contract = contract_strict();
    contract.compute = PCO_CONTRACT_F64;
    contract.accumulate_f32 = contract.accumulate_f16 = contract.accumulate_bf16 = PCO_CONTRACT_F64;
    contract.rsqrt_ulp = contract.function_ulp = 0.501f;
    return contract;
}

/* Every 16-bit pattern survives decoding and encoding. */
static void test_storage(void **state)
{
    (void)state;
    for (uint32_t dtype = PCO_F16; dtype <= PCO_BF16; dtype++) {
        for (uint32_t bits = 0; bits < 65536; bits++) {
            uint16_t in = (uint16_t)bits, out;
            double value;
            oracle_decode(dtype, &in, &value, 1);
            oracle_encode(dtype, &value, &out, 1);
            if (isnan(value))
                assert_true((out & 0x7c00) == 0x7c00);
            else
                assert_int_equal(in, out);
        }
    }
    assert_true(oracle_round_to(PCO_F16, 65519.0) == 65504.0);
    assert_true(isinf(oracle_round_to(PCO_F16, 65520.0)));
    assert_true(oracle_round_to(PCO_F16, 2049.0) == 2048.0); /* ties to even */
    assert_true(oracle_round_to(PCO_F16, 2051.0) == 2052.0);
    assert_true(oracle_round_to(PCO_I32, -3.7) == -3.0);
    assert_true(oracle_round_to(PCO_I32, 1e20) == 2147483647.0);
}

static void test_quantum(void **state)
{
    (void)state;
    assert_true(oracle_quantum(0.0) == 0.0);
    assert_true(oracle_quantum(12.0) == 4.0);
    assert_true(oracle_quantum(-0.75) == 0.25);
    assert_true(oracle_quantum(0x1p-1074) == 0x1p-1074);
}

/* Words of Philox 4x32-10 published with the generator: counter 0 and key 0; all ones. */
static void test_philox(void **state)
{
    (void)state;
    assert_int_equal(oracle_random_word(0, 0, 0, 0), 0x6627e8d5u);
    assert_int_equal(oracle_random_word(0, 0, 0, 1), 0xe169c58du);
    assert_int_equal(oracle_random_word(0, 0, 0, 2), 0xbc57ac4cu);
    assert_int_equal(oracle_random_word(0, 0, 0, 3), 0x9b00dbd8u);
}

/* Bounds are no larger than they must be: exact where a result is representable, half an ulp where it is not. */
static void test_bounds(void **state)
{
    (void)state;
    pco_contract contract = contract_strict();
    oracle_rules rules = oracle_rules_from(&contract);
    oracle_ve two = {2.0L, 0.0L}, three = {3.0L, 0.0L};
    assert_true(oracle_add(&rules, two, three).e == 0.0L);
    oracle_ve third = oracle_div(&rules, two, three);
    assert_true(third.e > 0.0L && third.e <= 0x1p-25L);
    oracle_ve difference = oracle_sub(&rules, third, third);
    assert_true(difference.e >= 2 * third.e); /* cancellation keeps the error */
    assert_true(oracle_exp(&rules, two).e <= 4 * 0x1p-21L);
    assert_true(isinf(oracle_log(&rules, (oracle_ve){1.0L, 2.0L}).e));
    oracle_ve far = oracle_gelu(&rules, (oracle_ve){-12.0L, 0.0L}, false);
    assert_true(fabsl(far.v) < 1e-30L && far.e > 1e-7L && far.e < 1e-5L); /* absolute error of erf near -1 */
    contract = contract_loose();
    rules = oracle_rules_from(&contract);
    assert_true(oracle_input(&rules, PCO_F32, 1e-40).e > 0.0L);
    assert_true(oracle_input(&rules, PCO_F16, 1e-7).e == 0.0L);
}

static oracle_output output_of(uint32_t dtype, double *value, double *bound, int64_t count)
{
    return (oracle_output){.desc = {.dtype = dtype, .rank = 1, .shape = {count}}, .count = count, .value = value,
                           .bound = bound};
}

static void test_judge(void **state)
{
    (void)state;
    pco_contract contract = contract_strict();
    oracle_rules rules = oracle_rules_from(&contract);
    double value[5] = {1.0, NAN, INFINITY, 0.0, 3e38}, bound[5] = {1e-6, 0.0, 0.0, 0.0, 1e38};
    oracle_output out = output_of(PCO_F32, value, bound, 5);
    assert_true(conf_judge_element(&out, &rules, 0, 1.0 + 0.9e-6) <= 1.0);
    assert_true(conf_judge_element(&out, &rules, 0, 1.0 + 1.1e-6) > 1.0);
    assert_true(conf_judge_element(&out, &rules, 0, NAN) > 1.0);
    assert_true(conf_judge_element(&out, &rules, 1, NAN) == 0.0);
    assert_true(conf_judge_element(&out, &rules, 1, 0.0) > 1.0);
    assert_true(conf_judge_element(&out, &rules, 2, INFINITY) == 0.0);
    assert_true(conf_judge_element(&out, &rules, 2, -INFINITY) > 1.0);
    assert_true(conf_judge_element(&out, &rules, 3, -0.0) == 0.0);
    out.sign_of_zero = true;
    assert_true(conf_judge_element(&out, &rules, 3, -0.0) > 1.0);
    assert_true(conf_judge_element(&out, &rules, 4, INFINITY) == 0.0); /* the bound reaches over the edge */
    float wrong[5] = {1.0f, NAN, INFINITY, 0.0f, NAN};
    conf_verdict verdict;
    conf_judge(&out, &rules, wrong, &verdict);
    assert_int_equal(verdict.wrong, 1);
    assert_int_equal(verdict.element, 4);
}

static bool label_is_unique(void *user, const conf_case *one)
{
    uint8_t *seen = user; /* a bit per hash would collide; ids are 32 bits, so a set of the low 24 will do */
    assert_true(strlen(one->label) < CONF_LABEL - 1);
    uint32_t bit = one->id & 0xffffff;
    if (seen[bit / 8] >> (bit % 8) & 1) print_message("low bits of an id twice: %s\n", one->label);
    seen[bit / 8] |= (uint8_t)(1u << (bit % 8));
    return true;
}

static void test_cases(void **state)
{
    (void)state;
    static uint8_t seen[1 << 21];
    pco_conformance_options quick = {.tier = PCO_CONFORMANCE_QUICK}, none = {.ops = "no_such_op"};
    pco_conformance_options two = {.ops = "add,matm*"}, add = {.ops = "add"}, matmul = {.ops = "matmul"};
    uint32_t count = pco_conformance_count(&quick);
    assert_in_range(count, 700, 2500);
    assert_int_equal(pco_conformance_count(&none), 0);
    assert_int_equal(pco_conformance_count(&two), pco_conformance_count(&add) + pco_conformance_count(&matmul));
    conf_cases_visit(PCO_CONFORMANCE_QUICK, NULL, label_is_unique, seen);
}

static void check_contract(const pco_contract *contract)
{
    pco_conformance_self_test result;
    pco_error err = {""};
    assert_int_equal(pco_conformance_test_judge(PCO_CONFORMANCE_QUICK, NULL, 7, contract, &result, &err), PCO_OK);
    if (result.rejected || result.missed || result.toothless) print_error("%s\n", result.first);
    assert_true(result.cases > 700 && result.elements_moved > 10000);
    assert_int_equal(result.rejected, 0);
    assert_int_equal(result.missed, 0);
    assert_int_equal(result.toothless, 0);
}

static void test_always_caught(void **state)
{
    (void)state;
    pco_contract contracts[3] = {contract_strict(), contract_loose(), contract_double()};
    for (int i = 0; i < 3; i++) check_contract(&contracts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_storage), cmocka_unit_test(test_quantum), cmocka_unit_test(test_philox),
        cmocka_unit_test(test_bounds),  cmocka_unit_test(test_judge),   cmocka_unit_test(test_cases),
        cmocka_unit_test(test_always_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
