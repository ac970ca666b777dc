/* The oracle and its judge, without a device: known values, the bounds' exact cases, and that what is wrong
 * is always caught. */
#include "toy.h"

#include "cases/cases.h"
#include "run/judge.h"
#include "run/runner.h"
#include "oracle/oracle_eval.h"
#include "oracle/oracle_power.h"

#include <float.h>
#include <math.h>

static pco_contract contract_loose(void)
{
    return (pco_contract){.compute = PCO_F32,
                          .contraction = 1,
                          .div_ulp = 2.5f,
                          .sqrt_ulp = 3.0f,
                          .rsqrt_ulp = 2.0f,
                          .function_ulp = 4.0f};
}

static pco_contract contract_double(void)
{
    pco_contract contract = CONTRACT;
    contract.compute = PCO_CONTRACT_F64;
    contract.accumulate_f32 = contract.accumulate_f16 = contract.accumulate_bf16 = PCO_CONTRACT_F64;
    contract.rsqrt_ulp = contract.function_ulp = 0.501f;
    return contract;
}

/* Every 16-bit pattern survives decoding and encoding. */
static void test_storage(void **state)
{
    (void)state;
    static const uint32_t HALVES[] = {PCO_F16, PCO_BF16};
    for (uint32_t t = 0; t < 2; t++) {
        const uint32_t dtype = HALVES[t];
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
/* The same as the C library, at the edges of normal numbers and of doubles as well. */
static void test_powers(void **state)
{
    (void)state;
    static const double VALUES[] = {1.0, -1.5, 0x1.fffffffffffffp0, 0x1p-1022, 0x0.8p-1022, 0x1p-1074, -0x1.8p1023};
    for (int e = -1100; e <= 1100; e++) {
        assert_true(oracle_power(e) == ldexpl(1.0L, e));
        for (size_t i = 0; i < sizeof VALUES / sizeof VALUES[0]; i++)
            assert_true(oracle_scaled(VALUES[i], e) == ldexp(VALUES[i], e));
        for (int below = 0; below < 3; below++) { /* the power, what a long double and what a double has below it */
            const oracle_real x = ldexpl(below == 0 ? 1.0L : below == 1 ? 1.0L - LDBL_EPSILON : 1.0L - DBL_EPSILON, e);
            assert_int_equal(oracle_exponent_real(-x), ilogbl(x));
            if ((double)x != 0.0 && isfinite((double)x)) assert_int_equal(oracle_exponent((double)x), ilogb((double)x));
        }
    }
}

static void test_philox(void **state)
{
    (void)state;
    assert_int_equal(oracle_random_word(0, 0, 0, 0), 0x6627e8d5u);
    assert_int_equal(oracle_random_word(0, 0, 0, 1), 0xe169c58du);
    assert_int_equal(oracle_random_word(0, 0, 0, 2), 0xbc57ac4cu);
    assert_int_equal(oracle_random_word(0, 0, 0, 3), 0x9b00dbd8u);
}

/* Bounds are no larger than they must be: exact where a result is representable, half an ulp where it is not.
 */
static void test_bounds(void **state)
{
    (void)state;
    pco_contract contract = CONTRACT;
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
    /* A negative subnormal may be flushed to -0, of which these are numbers or infinite; a normal number may not. */
    const oracle_ve small = oracle_input(&rules, PCO_F32, -1e-40), normal = oracle_input(&rules, PCO_F32, -1e-30);
    const oracle_ve half = {0.5L, 0.0L};
    assert_true(isinf(oracle_sqrt(&rules, small).e) && isnan(oracle_sqrt(&rules, normal).v));
    assert_true(isinf(oracle_rsqrt(&rules, small).e) && isnan(oracle_rsqrt(&rules, normal).v));
    assert_true(isinf(oracle_log(&rules, small).e) && isnan(oracle_log(&rules, normal).v));
    assert_true(isinf(oracle_pow(&rules, small, half).e) && isnan(oracle_pow(&rules, normal, half).v));
    assert_true(!isnan(oracle_rsqrt(&rules, small).v)); /* NaN would have to be NaN */
    assert_true(oracle_pow(&rules, normal, half).e == 0.0L && oracle_log(&rules, normal).e == 0.0L);
}

static oracle_output output_of(uint32_t dtype, double *value, double *bound, int64_t count)
{
    return (oracle_output){
        .desc = {.dtype = dtype, .rank = 1, .shape = {count}}, .count = count, .value = value, .bound = bound};
}

static void test_judge(void **state)
{
    (void)state;
    pco_contract contract = CONTRACT;
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
    uint32_t count = pco_conformance_count(&quick, NULL);
    print_message("%u cases of quick\n", count);
    assert_true(count >= 700 && count <= 4000); /* which lavapipe does in a minute */
    assert_int_equal(pco_conformance_count(&none, NULL), 0);
    assert_int_equal(pco_conformance_count(&two, NULL),
                     pco_conformance_count(&add, NULL) + pco_conformance_count(&matmul, NULL));
    conf_cases_visit(PCO_CONFORMANCE_QUICK, NULL, label_is_unique, seen);
}

/* By family: of the results with elements of 4, 2 and 1 bytes, how many there are, and how many fill all of their
 * memory, which is whole words. */
typedef struct full_family {
    const char *name;
    uint32_t results[5], full[5];
} full_family;

static bool full_visit(void *user, const conf_case *one)
{
#define PCO_OP(id, upper, name, family, ...) {PCO_OP_##upper, #family},
    static const struct {
        uint32_t op;
        const char *family;
    } FAMILIES[] = {
#include "graph/ops.def"
    };
    full_family *family = user;
    conf_problem problem;
    pco_error ignored;
    size_t i = 0;
    if (one->large || one->chain) return true;
    conf_problem_describe(&problem, one);
    if (conf_problem_infer(&problem, &ignored)) return true;
    while (FAMILIES[i].op != one->op) i++;
    while (family->name && strcmp(family->name, FAMILIES[i].family)) family++;
    family->name = FAMILIES[i].family;
    for (uint32_t k = 0; k < problem.node.n_outputs; k++) {
        const pco_tensor *y = &problem.tensors[problem.node.outputs[k]];
        const uint64_t count = (uint64_t)oracle_count(y), bytes = oracle_block_bytes(y->dtype);
        family->results[bytes] += count > 0;
        family->full[bytes] += count > 0 && count * bytes % 4 == 0;
    }
    return true;
}

/* What is written behind a result shows where nothing pads it: each family has such results in tier tiny, in elements
 * of each size that it has. */
static void test_full(void **state)
{
    static full_family families[128];
    uint32_t missing = 0;
    (void)state;
    conf_cases_visit(PCO_CONFORMANCE_TINY, NULL, full_visit, families);
    for (const full_family *family = families; family->name; family++)
        for (uint32_t bytes = 1; bytes <= 4; bytes *= 2)
            if (family->results[bytes] && !family->full[bytes] && ++missing)
                print_message("%s: all results of %u-byte elements have padding behind them\n", family->name, bytes);
    assert_int_equal(missing, 0);
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
    pco_contract contracts[3] = {CONTRACT, contract_loose(), contract_double()};
    for (int i = 0; i < 3; i++) check_contract(&contracts[i]);
}

/* ---- a device in this file: neg and add of f32, with one defect at a time ---- */

typedef enum toy_defect {
    TOY_RIGHT,
    TOY_ZERO,        /* leaves the result at zero */
    TOY_ONE_ELEMENT, /* one element is off by an ulp */
    TOY_BEHIND,      /* writes a word behind its result */
    TOY_INPUT,       /* changes an operand */
    TOY_UNSTEADY,    /* another result each time */
    TOY_IN_PLACE,    /* wrong when the result lies on its operand */
    TOY_UNTOUCHED,   /* writes nothing */
    TOY_REFUSES,     /* supports nothing */
    TOY_LOST,        /* is lost on submission */
    TOY_DEFECTS,
} toy_defect;

struct pco_device {
    toy_defect defect;
    uint32_t runs;
};

struct toy_node {
    float *in[2], *out;
    int64_t count;
    uint32_t op;
};

static pco_status toy_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *err)
{
    const pco_node *n = &part->nodes[node];
    const pco_tensor *y = &part->tensors[n->outputs[0]];
    bool same = y->dtype == PCO_F32 && (n->op == PCO_OP_ADD || n->op == PCO_OP_NEG);
    for (uint32_t i = 0; i < n->n_inputs && same; i++) same = part->tensors[n->inputs[i]].bytes == y->bytes;
    if (device->defect != TOY_REFUSES && same) return PCO_OK;
    snprintf(err->message, sizeof err->message, "the toy does not like it");
    return PCO_ERROR_UNSUPPORTED;
}

static pco_status toy_propose(pco_device *device, const pco_part *part, pco_proposal *proposal, pco_error *err)
{
    (void)device, (void)err;
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        proposal->nodes[i].in_place = 1;
        proposal->nodes[i].workspace = 12;
    }
    return PCO_OK;
}

static toy_node *toy_node_make(const pco_part *part, const pco_node *node, const pco_plan *plan)
{
    toy_node *made = calloc(1, sizeof *made);
    uint32_t y = node->outputs[0];
    made->op = node->op;
    made->count = (int64_t)part->tensors[y].bytes / 4;
    for (uint32_t i = 0; i < node->n_inputs && made->count; i++) {
        const pco_place *place = &plan->tensors[node->inputs[i]];
        made->in[i] = (float *)(void *)(plan->buffers[place->buffer]->data + place->offset);
    }
    if (made->count)
        made->out = (float *)(void *)(plan->buffers[plan->tensors[y].buffer]->data + plan->tensors[y].offset);
    return made;
}

static pco_status toy_node_run(pco_device *device, toy_node *node, pco_error *err)
{
    device->runs++;
    if (device->defect == TOY_LOST) {
        snprintf(err->message, sizeof err->message, "gone");
        return PCO_ERROR_DEVICE_LOST;
    }
    for (int64_t i = 0; i < node->count && device->defect != TOY_UNTOUCHED; i++)
        node->out[i] = node->op == PCO_OP_ADD ? node->in[0][i] + node->in[1][i] : -node->in[0][i];
    if (node->count == 0) return PCO_OK;
    float *y = node->out, *last = &y[node->count - 1];
    if (device->defect == TOY_ZERO) memset(y, 0, (size_t)node->count * sizeof *y);
    if (device->defect == TOY_ONE_ELEMENT) *last = nextafterf(*last, 3.0f);
    if (device->defect == TOY_BEHIND) last[1] = 0.0f;
    if (device->defect == TOY_INPUT) node->in[0][0] = 42.0f;
    if (device->defect == TOY_UNSTEADY && device->runs % 2 == 0) y[0] = nextafterf(y[0], 1e9f);
    if (device->defect == TOY_IN_PLACE && y == node->in[0]) y[0] += 1.0f;
    return PCO_OK;
}

static pco_conformance_result toy_run(toy_defect defect, const char *ops)
{
    pco_device device = {.defect = defect};
    pco_contract contract = CONTRACT;
    return toy_judge(&device, &contract, ops, 5);
}

static void test_toy_right(void **state)
{
    (void)state;
    pco_conformance_result result = toy_run(TOY_RIGHT, "neg,add");
    for (uint32_t i = 0; i < result.n_cases; i++)
        if (pco_conformance_state_is_bad(result.cases[i].state)) print_error("%s\n", result.cases[i].detail);
    assert_int_equal(result.count[PCO_CASE_FAIL] + result.count[PCO_CASE_MISTRUSTED], 0);
    assert_true(result.count[PCO_CASE_PASS] > 5 && result.count[PCO_CASE_UNSUPPORTED] > 5);
    assert_int_equal(pco_conformance_judge(&result, 1), PCO_VERDICT_PASS);
    assert_int_equal(result.n_ops, 2);
    assert_true(result.ops[0].op == PCO_OP_ADD && result.ops[0].max_ratio <= 1.0);
    pco_conformance_clear(&result, 1);
}

static void test_toy_wrong(void **state)
{
    (void)state;
    static const char *const SAYS[TOY_DEFECTS] = {
        [TOY_ZERO] = "outside their bounds",
        [TOY_ONE_ELEMENT] = "outside their bounds",
        [TOY_BEHIND] = "behind 'y'",
        [TOY_INPUT] = "operand 'in0' was changed",
        [TOY_UNSTEADY] = "differs from the first run",
        [TOY_IN_PLACE] = "running in place",
        [TOY_UNTOUCHED] = "outside their bounds",
        [TOY_LOST] = "gone",
    };
    for (toy_defect defect = TOY_ZERO; defect < TOY_DEFECTS; defect++) {
        if (defect == TOY_REFUSES) continue;
        pco_conformance_result result = toy_run(defect, "neg");
        assert_int_equal(pco_conformance_judge(&result, 1), PCO_VERDICT_FAIL);
        assert_true(result.count[defect == TOY_LOST ? PCO_CASE_DEVICE_LOST : PCO_CASE_FAIL] > 0);
        const pco_conformance_case *bad = result.cases;
        while (!pco_conformance_state_is_bad(bad->state)) bad++;
        if (!strstr(bad->detail, SAYS[defect])) print_error("%s\n", bad->detail);
        assert_non_null(strstr(bad->detail, SAYS[defect]));
        assert_non_null(strstr(bad->repeat, "portico conformance --devices toy:0 --tier quick --ops neg"));
        assert_int_equal(result.status, defect == TOY_LOST ? PCO_ERROR_DEVICE_LOST : PCO_OK);
        pco_conformance_clear(&result, 1);
    }
}

static void test_toy_refuses(void **state)
{
    (void)state;
    pco_conformance_result result = toy_run(TOY_REFUSES, "neg");
    assert_int_equal(pco_conformance_judge(&result, 1), PCO_VERDICT_NOTHING_TESTED);
    assert_string_equal(result.ops[0].reason, "the toy does not like it");
    pco_conformance_clear(&result, 1);
    result = toy_run(TOY_RIGHT, "no_such_op");
    assert_int_equal(pco_conformance_judge(&result, 1), PCO_VERDICT_NOTHING_TESTED);
    pco_conformance_clear(&result, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_storage),   cmocka_unit_test(test_quantum),   cmocka_unit_test(test_philox),
        cmocka_unit_test(test_powers),    cmocka_unit_test(test_bounds),    cmocka_unit_test(test_judge),
        cmocka_unit_test(test_cases),     cmocka_unit_test(test_full),      cmocka_unit_test(test_always_caught),
        cmocka_unit_test(test_toy_right), cmocka_unit_test(test_toy_wrong), cmocka_unit_test(test_toy_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
