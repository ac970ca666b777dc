/* What the op table says of errors, the column `bound`, held against the oracle: cases of the quick tier are judged
 * under three sets of rules: a contract's, the same with functions of 64 times the ulps, and the same with accumulators
 * of f16. What then becomes wider tells what the bound is made of. All else that a row could say has to be found
 * wrong. */
#include "check.h"
#include "strict_contract.h"
#include "base/dtype.h"
#include "graph/op_rules.h"
#include "run/runner.h"

#include <math.h>

/* One rounding: of the result, and one that the contract allows two ulps (rsqrt); both at the end of a binade. */
static const double ONE_ROUNDING = 3;

typedef struct bound_facts {
    uint32_t cases, inexact; /* cases in which some element has a bound */
    int follows_functions, follows_sums;
    double ulps; /* the widest bound of a normal number, in ulps of the result's type */
    char widest[CONF_LABEL];
} bound_facts;

/* Is a bound wider there? */
static int bound_widens(const oracle_node *narrow, const oracle_node *wide)
{
    for (uint32_t o = 0; o < narrow->n_outputs; o++)
        for (int64_t i = 0; i < narrow->out[o].count; i++)
            if (wide->out[o].bound[i] > 2 * narrow->out[o].bound[i]) return 1;
    return 0;
}

static int bound_follows(const conf_problem *problem, const oracle_rules *rules)
{
    conf_problem other;
    check_ok(conf_problem_make_with(&other, problem, rules, &err));
    const int widens = bound_widens(&problem->oracle, &other.oracle);
    conf_problem_clear(&other);
    return widens;
}

static void bound_measure(const conf_problem *problem, const oracle_output *out, bound_facts *facts)
{
    const uint32_t dtype = out->desc.dtype;
    int inexact = 0;
    for (int64_t i = 0; i < out->count; i++) {
        inexact |= out->bound[i] > 0;
        if (!pco_dtype_is_float(dtype) || !isfinite(out->value[i])) continue;
        /* a result, or an operand's reciprocal, that may underflow has another bound */
        const oracle_format format = oracle_format_of(dtype);
        const double size = fabs(out->value[i]);
        if (size < ldexp(1, format.emin + 1) || size > ldexp(1, -format.emin - 1)) continue;
        const double ulps = out->bound[i] / (double)oracle_ulp(format, size);
        if (ulps <= facts->ulps) continue;
        facts->ulps = ulps;
        snprintf(facts->widest, sizeof facts->widest, "%s", problem->one->label);
    }
    facts->inexact += inexact;
}

/* Cases whose bound is not only the op's: an activation after a matmul, and values that are converted on the way. */
static int bound_is_mixed(const conf_case *one)
{
    if (one->op == PCO_OP_MATMUL) return ((const pco_matmul_attrs *)(const void *)one->attrs.bytes)->activation != 0;
    if (one->op == PCO_OP_GATHER) return pco_dtype_is_quantised(one->in[0].dtype);
    return one->op == PCO_OP_STATE_WRITE && one->in[0].dtype != one->in[1].dtype;
}

static bool bound_visit(void *user, const conf_case *one)
{
    bound_facts *facts = (bound_facts *)user + one->op;
    if (one->large || one->chain || one->regime == CONF_SPECIAL || bound_is_mixed(one)) return true;
    conf_problem problem;
    check_ok(conf_problem_make(&problem, one, 7, &CONTRACT, &err));
    facts->cases++;
    for (uint32_t o = 0; o < problem.oracle.n_outputs; o++) bound_measure(&problem, &problem.oracle.out[o], facts);
    oracle_rules rules = problem.rules;
    rules.function *= 64;
    facts->follows_functions |= bound_follows(&problem, &rules);
    rules = problem.rules;
    rules.narrow = true;
    for (int i = 0; i < 3; i++) rules.accumulate[i] = oracle_format_of(PCO_F16);
    facts->follows_sums |= bound_follows(&problem, &rules);
    conf_problem_clear(&problem);
    return true;
}

/* What is wrong with a row, or NULL. */
static const char *bound_fault(const pco_op_info *op, pco_bound_rule bound, const bound_facts *facts)
{
    const int follows = facts->follows_functions || facts->follows_sums;
    if ((bound == PCO_BOUND_EXACT) != (facts->inexact == 0)) return facts->inexact ? "is not exact" : "is exact";
    switch (bound) {
    case PCO_BOUND_ROUND:
        if (follows) return "follows functions or accumulators: it is more than one operation";
        return facts->ulps > ONE_ROUNDING ? "is wider than one rounding" : NULL;
    case PCO_BOUND_FUNCTION:
        if (!facts->follows_functions) return "does not follow the contract's figure for functions";
        return facts->follows_sums ? "follows the accumulators" : NULL;
    case PCO_BOUND_SUM:
        if (pco_op_decomposition(op->op)) return "is that of a composite, of which the sum is only a part";
        if (!facts->follows_sums) return "does not follow the accumulators";
        return facts->follows_functions ? "follows the contract's figure for functions" : NULL;
    case PCO_BOUND_COMPOSITE:
        if (!pco_op_decomposition(op->op)) return "is that of a primitive: there is nothing to propagate it through";
        return !follows && facts->ulps <= ONE_ROUNDING ? "is that of one rounding" : NULL;
    default: return NULL;
    }
}

/* Where a composite's bound follows functions alone, `function` and `composite` both say how it comes about. What
 * follows from the column does not differ: it is read where rows have axes or a last dimension (cases_edges.c). */
static int bound_either(const pco_op_info *op, pco_bound_rule other, const bound_facts *facts)
{
    const uint32_t pair = 1u << PCO_BOUND_FUNCTION | 1u << PCO_BOUND_COMPOSITE;
    return (1u << op->bound | 1u << other) == pair && pco_op_decomposition(op->op) && facts->follows_functions &&
           !facts->follows_sums && op->rows != PCO_ROWS_AXIS && op->rows != PCO_ROWS_LAST;
}

static void test_bounds(void **state)
{
    (void)state;
    bound_facts *facts = calloc(PCO_OP_LIMIT, sizeof *facts);
    assert_non_null(facts);
    conf_cases_visit(PCO_CONFORMANCE_QUICK, NULL, bound_visit, facts);
    uint32_t count, wrong = 0;
    const pco_op_info *table = pco_op_table(&count);
    for (uint32_t i = 0; i < count; i++) {
        const bound_facts *of = &facts[table[i].op];
        const char *fault = bound_fault(&table[i], table[i].bound, of);
        assert_true(of->cases > 0);
        if (fault && ++wrong)
            print_error("the bound of %s %s (%.3g ulps: %s)\n", table[i].name, fault, of->ulps, of->widest);
        for (pco_bound_rule lie = 0; lie < PCO_BOUND_RULES; lie++)
            if (lie != table[i].bound && !bound_fault(&table[i], lie, of) && !bound_either(&table[i], lie, of) &&
                ++wrong)
                print_error("the row of %s could as well say %s\n", table[i].name, pco_op_bound(lie)->name);
    }
    free(facts);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
