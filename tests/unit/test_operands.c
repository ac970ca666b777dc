/* What the op table says of operands, held against the oracle: the rows of PCO_DOMAIN and of PCO_BYTES. */
#include "check.h"
#include "strict_contract.h"
#include "base/dtype.h"
#include "graph/graph.h"
#include "graph/op_signature.h"
#include "graph/work.h"
#include "run/runner.h"

#include <math.h>

/* ---- domains of floats ---- */

static int domain_is_of_floats(pco_domain domain)
{
    return domain == PCO_DOMAIN_POSITIVE || domain == PCO_DOMAIN_DIVISOR;
}

/* Does the case, which has a number for each element, have something else where operand `input` is `value`? */
static int domain_leaves(const conf_problem *problem, uint32_t input, float value)
{
    const pco_tensor *x = &problem->tensors[problem->node.inputs[input]];
    const void *data[PCO_MAX_INPUTS];
    conf_problem other;
    int leaves = 0;
    memcpy(data, problem->data, sizeof data);
    float *values = malloc(x->bytes + sizeof *values);
    assert_non_null(values);
    for (uint64_t i = 0; i < x->bytes / sizeof *values; i++) values[i] = value;
    data[input] = values;
    check_ok(conf_problem_make_from(&other, problem->one, data, &CONTRACT, &err));
    for (uint32_t o = 0; o < other.oracle.n_outputs; o++)
        for (int64_t i = 0; i < other.oracle.out[o].count; i++)
            leaves |= !isfinite(other.oracle.out[o].value[i]) && isfinite(problem->oracle.out[o].value[i]);
    conf_problem_clear(&other);
    free(values);
    return leaves;
}

typedef struct domain_run {
    uint32_t seen[PCO_OP_LIMIT], wrong; /* bit k: operand k was tried */
    uint32_t floats[PCO_OP_LIMIT];      /* bit k: it is of f32 in some case */
} domain_run;

static bool domain_visit(void *user, const conf_case *one)
{
    domain_run *run = user;
    conf_problem problem;
    uint32_t wanted = 0;
    if (one->large || one->chain) return true;
    for (uint32_t k = 0; k < one->n_inputs; k++)
        if (one->in[k].present && one->in[k].dtype == PCO_F32) wanted |= 1u << k;
    run->floats[one->op] |= wanted;
    wanted &= ~run->seen[one->op];
    const int moves =
        pco_op_find(one->op)->bound == PCO_BOUND_EXACT; /* some have no other cases than of special values */
    if (!wanted || (one->regime != CONF_RANDOM && !moves)) return true;
    check_ok(conf_problem_make(&problem, one, 7, &CONTRACT, &err));
    if (problem.tensors[problem.node.outputs[0]].bytes == 0) wanted = 0;
    for (uint32_t k = 0; k < one->n_inputs; k++) {
        if (!(wanted >> k & 1)) continue;
        run->seen[one->op] |= 1u << k;
        const pco_domain found = domain_leaves(&problem, k, -1.5f) ? PCO_DOMAIN_POSITIVE
                                 : domain_leaves(&problem, k, 0)   ? PCO_DOMAIN_DIVISOR
                                                                   : PCO_DOMAIN_ANY;
        if (found == pco_op_domain(one->op, k)) continue;
        print_error("operand %u of %s is of domain %d, and its row says %d: %s\n", k, pco_op_find(one->op)->name,
                    (int)found, (int)pco_op_domain(one->op, k), one->label);
        run->wrong++;
    }
    conf_problem_clear(&problem);
    return true;
}

static void test_domains(void **state)
{
    (void)state;
    domain_run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    conf_cases_visit(PCO_CONFORMANCE_QUICK, NULL, domain_visit, run);
    /* each operand that can have a domain was tried, so that it has the one that it has, and nothing else has any */
    for (uint32_t op = 0; op < PCO_OP_LIMIT; op++)
        for (uint32_t k = 0; k < PCO_MAX_INPUTS; k++) {
            const int can = run->floats[op] >> k & 1, tried = run->seen[op] >> k & 1;
            if ((can != tried || (!can && domain_is_of_floats(pco_op_domain(op, k)))) && ++run->wrong)
                print_error("operand %u of %s: its domain was not tried\n", k, pco_op_name(op));
        }
    assert_true(run->seen[PCO_OP_ADAMW] == 0x3f && run->seen[PCO_OP_DIV] == 3);
    assert_int_equal(run->wrong, 0);
    free(run);
}

/* ---- domains of whole numbers ---- */

/* The case with one number in all elements of an i32 operand. */
static void whole_with(conf_problem *made, const conf_problem *problem, uint32_t input, int64_t value)
{
    const pco_tensor *x = &problem->tensors[problem->node.inputs[input]];
    const void *data[PCO_MAX_INPUTS];
    memcpy(data, problem->data, sizeof data);
    int32_t *values = malloc(x->bytes + sizeof *values);
    assert_non_null(values);
    for (uint64_t i = 0; i < x->bytes / sizeof *values; i++) values[i] = (int32_t)value;
    data[input] = values;
    check_ok(conf_problem_make_from(made, problem->one, data, &CONTRACT, &err));
    free(values);
}

/* How many elements of the results differ. */
static int64_t results_differ(const oracle_node *a, const oracle_node *b)
{
    int64_t differ = 0;
    for (uint32_t o = 0; o < a->n_outputs; o++)
        for (int64_t i = 0; i < a->out[o].count; i++) {
            const double x = a->out[o].value[i], y = b->out[o].value[i];
            differ += x != y && !(isnan(x) && isnan(y));
        }
    return differ;
}

static int64_t whole_differ(const conf_problem *problem, uint32_t input, int64_t a, int64_t b)
{
    conf_problem with_a, with_b;
    whole_with(&with_a, problem, input, a);
    whole_with(&with_b, problem, input, b);
    const int64_t differ = results_differ(&with_a.oracle, &with_b.oracle);
    conf_problem_clear(&with_a);
    conf_problem_clear(&with_b);
    return differ;
}

enum { FAR = 1000003 };

typedef struct whole_facts {
    uint32_t cases;
    int lower, upper, more; /* seen in some case: that the range begins, and ends, where it does; all else */
    int wrong;
} whole_facts;

/* low .. high mean something each, and all others the same. */
static void whole_index(const conf_problem *p, uint32_t k, pco_whole_numbers r, whole_facts *facts)
{
    facts->wrong |= whole_differ(p, k, r.high + 1, FAR) || whole_differ(p, k, -1, FAR) || whole_differ(p, k, -FAR, FAR);
    facts->lower |= whole_differ(p, k, r.low, -1) > 0;
    facts->upper |= whole_differ(p, k, r.high, r.high + 1) > 0;
    facts->more = 1;
}

/* All below are as low, all above as high. */
static void whole_length(const conf_problem *p, uint32_t k, pco_whole_numbers r, whole_facts *facts)
{
    facts->wrong |= whole_differ(p, k, r.high, FAR) || whole_differ(p, k, r.low, -FAR);
    facts->lower |= whole_differ(p, k, r.low, r.low + 1) > 0;
    facts->upper |= whole_differ(p, k, r.high, r.high - 1) > 0;
    facts->more = 1;
}

/* The whole second operand is written from low to high, and less of it beyond. */
static void whole_start(const conf_problem *p, uint32_t k, pco_whole_numbers r, whole_facts *facts)
{
    const int64_t all = pco_tensor_elements(&p->tensors[p->node.inputs[1]]);
    const int64_t below = whole_differ(p, k, r.low - 1, FAR), above = whole_differ(p, k, r.high + 1, FAR);
    facts->wrong |= whole_differ(p, k, r.low, FAR) != all || whole_differ(p, k, r.high, FAR) != all;
    facts->wrong |= all > 0 && (below == all || above == all);
    facts->lower |= below < all;
    facts->upper |= above < all;
    facts->more = 1;
}

/* Each bit counts somewhere. */
static void whole_bits(const conf_problem *p, uint32_t k, whole_facts *facts)
{
    const int64_t some = 0x12345678;
    facts->lower |= whole_differ(p, k, some, some ^ 1) > 0;
    facts->upper |= whole_differ(p, k, some, (int64_t)(int32_t)((uint32_t)some ^ 0x80000000u)) > 0;
    facts->more |= whole_differ(p, k, some, some ^ 0x10000) > 0;
}

/* Neighbours differ, before the first and, where no key is the last, far away. */
static void whole_position(const conf_problem *p, uint32_t k, pco_whole_numbers r, whole_facts *facts)
{
    const int64_t last = r.high < FAR ? r.high : FAR;
    facts->lower |= whole_differ(p, k, r.low - 1, r.low) > 0;
    facts->upper |= whole_differ(p, k, last, last - 1) > 0;
    facts->more = 1;
}

/* Has the node what numbers of that domain are of? */
static int whole_can(const conf_problem *p, pco_domain domain)
{
    const pco_tensor *first = pco_work_input(p->tensors, &p->node, 0),
                     *second = pco_work_input(p->tensors, &p->node, 1);
    return domain == PCO_DOMAIN_BITS || (first && second && first->rank && second->rank);
}

static void whole_look(const conf_problem *p, uint32_t k, pco_domain domain, whole_facts *facts)
{
    facts->cases++;
    if (!whole_can(p, domain)) return;
    const pco_whole_numbers range = pco_node_whole_numbers_by(domain, p->tensors, &p->node);
    if (range.low > range.high) return;
    switch (domain) {
    case PCO_DOMAIN_INDEX:
    case PCO_DOMAIN_CLASS:
    case PCO_DOMAIN_MATRIX: whole_index(p, k, range, facts); break;
    case PCO_DOMAIN_LENGTH: whole_length(p, k, range, facts); break;
    case PCO_DOMAIN_START: whole_start(p, k, range, facts); break;
    case PCO_DOMAIN_POSITION: whole_position(p, k, range, facts); break;
    case PCO_DOMAIN_BITS: whole_bits(p, k, facts); break;
    default: facts->wrong = 1;
    }
}

/* Bit k: the signature says i32 of operand k. */
static uint32_t whole_operands(const pco_op_info *op)
{
    pco_signature_reader reader = {.at = op->signature};
    pco_signature_operand operand;
    uint32_t bits = 0;
    while (pco_signature_next_input(&reader, &operand))
        if (strcmp(operand.type, "i32") == 0) bits |= 1u << operand.index;
    return bits;
}

typedef struct whole_run {
    whole_facts facts[PCO_OP_LIMIT][PCO_MAX_INPUTS][PCO_DOMAINS]; /* as if the row said each of them */
} whole_run;

static int whole_shown(const whole_facts *facts)
{
    return facts->lower && facts->upper && facts->more && !facts->wrong;
}

static bool whole_visit(void *user, const conf_case *one)
{
    enum { ENOUGH = 12, SMALL = 4000 };
    whole_run *run = user;
    conf_problem problem;
    const uint32_t whole = whole_operands(pco_op_find(one->op));
    const int moves = pco_op_find(one->op)->bound == PCO_BOUND_EXACT;
    if (!whole || one->large || one->chain || (one->regime != CONF_RANDOM && !moves)) return true;
    if (one->in[0].present && one->in[0].dtype != PCO_F32 && one->in[0].dtype != PCO_I32) return true;
    check_ok(conf_problem_make(&problem, one, 7, &CONTRACT, &err));
    int64_t most = 0;
    for (uint32_t t = 0; t < problem.n_tensors; t++)
        most = pco_tensor_elements(&problem.tensors[t]) > most ? pco_tensor_elements(&problem.tensors[t]) : most;
    for (uint32_t k = 0; k < one->n_inputs && most <= SMALL; k++)
        for (uint32_t domain = PCO_DOMAIN_ANY + 1; domain < PCO_DOMAINS; domain++) {
            whole_facts *facts = &run->facts[one->op][k][domain];
            if (!one->in[k].present || !(whole >> k & 1) || facts->wrong) continue;
            if (whole_shown(facts) && facts->cases >= ENOUGH) continue;
            whole_look(&problem, k, (pco_domain)domain, facts);
        }
    conf_problem_clear(&problem);
    return true;
}

/* Any position is a number, and so are any 32 bits: what is one may be the other. */
static int whole_is(const whole_facts *facts, pco_domain says, pco_domain other)
{
    const int both = (says == PCO_DOMAIN_POSITION && other == PCO_DOMAIN_BITS) ||
                     (says == PCO_DOMAIN_BITS && other == PCO_DOMAIN_POSITION);
    return !both && whole_shown(&facts[other]);
}

static void test_whole_numbers(void **state)
{
    (void)state;
    whole_run *run = calloc(1, sizeof *run);
    uint32_t count, wrong = 0, tried = 0;
    const pco_op_info *table = pco_op_table(&count);
    assert_non_null(run);
    conf_cases_visit(PCO_CONFORMANCE_QUICK, NULL, whole_visit, run);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < PCO_MAX_INPUTS; k++) {
            const uint32_t op = (uint32_t)table[i].op;
            const whole_facts *facts = run->facts[op][k];
            const pco_domain says = pco_op_domain(op, k);
            const int is_whole = whole_operands(&table[i]) >> k & 1;
            tried += (uint32_t)is_whole;
            if (is_whole != (says != PCO_DOMAIN_ANY && !domain_is_of_floats(says)) && ++wrong)
                print_error("operand %u of %s has the domain '%s'\n", k, table[i].name, pco_domain_of(says)->name);
            for (uint32_t domain = 0; is_whole && domain < PCO_DOMAINS; domain++) {
                const whole_facts *found = &facts[domain];
                if (domain == says ? whole_shown(found) : !whole_is(facts, says, (pco_domain)domain)) continue;
                print_error("operand %u of %s, '%s': %s '%s', %u cases, begins %d, ends %d\n", k, table[i].name,
                            pco_domain_of(says)->name, domain == says ? "is not" : "could as well be",
                            pco_domain_of((pco_domain)domain)->name, found->cases, found->lower, found->upper);
                wrong++;
            }
        }
    assert_int_equal(wrong, 0);
    assert_true(tried >= 19);
    free(run);
}

/* ---- bytes ---- */

/* How many elements of f32 operand k change a result when they change, so many together. */
static int64_t bytes_matter(const conf_problem *problem, uint32_t k, int64_t together)
{
    const pco_tensor *x = &problem->tensors[problem->node.inputs[k]];
    const void *data[PCO_MAX_INPUTS];
    const int64_t count = pco_tensor_elements(x);
    int64_t matter = 0;
    float *values = malloc(x->bytes + sizeof *values);
    assert_non_null(values);
    memcpy(data, problem->data, sizeof data);
    memcpy(values, problem->data[k], x->bytes);
    data[k] = values;
    for (int64_t i = 0; i < count; i += together) {
        int64_t differ = 0;
        for (int sign = -1; sign <= 1 && !differ; sign += 2) { /* the largest, and the smallest */
            conf_problem other;
            for (int64_t j = 0; j < together; j++) values[i + j] += 100 * (float)sign;
            check_ok(conf_problem_make_from(&other, problem->one, data, &CONTRACT, &err));
            differ = results_differ(&problem->oracle, &other.oracle);
            conf_problem_clear(&other);
            memcpy(values + i, (const float *)problem->data[k] + i, (size_t)together * sizeof *values);
        }
        if (differ) matter += together;
    }
    free(values);
    return matter;
}

/* Elements of a f32 state that are written, and those that the results need. */
static int64_t bytes_written(const conf_problem *problem)
{
    const float *before = problem->data[0];
    const oracle_output *after = &problem->oracle.out[0];
    const void *data[PCO_MAX_INPUTS];
    conf_problem other;
    int64_t written = 0, read = 0;
    float *values = malloc((size_t)after->count * sizeof *values + sizeof *values);
    assert_non_null(values);
    memcpy(data, problem->data, sizeof data);
    for (int64_t i = 0; i < after->count; i++) values[i] = before[i] + 100;
    data[0] = values;
    check_ok(conf_problem_make_from(&other, problem->one, data, &CONTRACT, &err));
    for (int64_t i = 0; i < after->count; i++) {
        const double as_it_was = other.oracle.out[0].value[i];
        if (after->value[i] == (double)before[i] && as_it_was == (double)values[i]) continue;
        written++;
        read += after->value[i] != as_it_was;
    }
    conf_problem_clear(&other);
    free(values);
    return written + read;
}

typedef struct bytes_facts { /* cases in which the rule says less than all bytes, and of these such as need more */
    uint32_t less[PCO_BYTES_RULES], refuted[PCO_BYTES_RULES];
} bytes_facts;

static bool bytes_visit(void *user, const conf_case *one)
{
    enum { ENOUGH = 6, SMALL = 400, MOST = 1200 };
    static const uint32_t OF[PCO_BYTES_RULES] = {
        [PCO_BYTES_TAKEN] = 0, [PCO_BYTES_WRITTEN] = 0, [PCO_BYTES_CHOSEN] = 1};
    bytes_facts *all = user, *facts = &all[one->op];
    if (one->large || one->chain || (one->regime != CONF_RANDOM && one->regime != CONF_EXACT)) return true;
    for (uint32_t rule = PCO_BYTES_ALL + 1; rule < PCO_BYTES_RULES; rule++) {
        const uint32_t k = OF[rule];
        const int writes = pco_op_writes(pco_op_find(one->op), 0);
        if (facts->less[rule] >= ENOUGH || writes != (rule == PCO_BYTES_WRITTEN)) continue;
        if (k >= one->n_inputs || !one->in[k].present || one->in[k].dtype != PCO_F32) continue;
        conf_problem problem;
        check_ok(conf_problem_make(&problem, one, 7, &CONTRACT, &err));
        const pco_tensor *x = &problem.tensors[problem.node.inputs[k]];
        const double without = pco_node_bytes_by(PCO_BYTES_ALL, problem.tensors, &problem.node) -
                               pco_node_bytes_by((pco_bytes_rule)rule, problem.tensors, &problem.node);
        /* what is written in place counts once where it is read and written by the other rule */
        const double said = (double)x->bytes * (rule == PCO_BYTES_WRITTEN ? 2 : 1) - without;
        /* a row of a matrix is chosen as a whole */
        const int64_t together = rule == PCO_BYTES_CHOSEN && x->shape[1] > 0 ? x->shape[1] : 1;
        if (without > 0 && pco_tensor_elements(x) / together <= (together > 1 ? MOST : SMALL)) {
            const int64_t matter =
                rule == PCO_BYTES_WRITTEN ? bytes_written(&problem) : bytes_matter(&problem, k, together);
            facts->less[rule]++;
            /* shares are quotients, so that whole bytes may be a little less in double: never by half of one here */
            facts->refuted[rule] += (double)matter * sizeof(float) > said + 0.5;
        }
        conf_problem_clear(&problem);
    }
    return true;
}

/* A rule holds where no case needs more than it says, and a row has the rule that says least of those that hold. */
static void test_bytes(void **state)
{
    (void)state;
    bytes_facts *facts = calloc(PCO_OP_LIMIT, sizeof *facts);
    uint32_t count, wrong = 0, rows = 0;
    const pco_op_info *table = pco_op_table(&count);
    assert_non_null(facts);
    conf_cases_visit(PCO_CONFORMANCE_QUICK, NULL, bytes_visit, facts);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t op = (uint32_t)table[i].op;
        rows += pco_op_bytes_rule(op) != PCO_BYTES_ALL;
        for (uint32_t rule = PCO_BYTES_ALL + 1; rule < PCO_BYTES_RULES; rule++) {
            const int holds = facts[op].less[rule] && !facts[op].refuted[rule];
            if (holds == (pco_op_bytes_rule(op) == rule)) continue;
            print_error("%s %s bytes '%s': %u of %u cases need more\n", table[i].name,
                        holds ? "could as well have" : "has not", pco_op_bytes((pco_bytes_rule)rule)->name,
                        facts[op].refuted[rule], facts[op].less[rule]);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
    assert_true(rows >= 5);
    free(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_domains), cmocka_unit_test(test_whole_numbers),
                                       cmocka_unit_test(test_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
