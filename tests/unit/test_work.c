/* The columns `rows` and `products` of the op table, held against the oracle and the decompositions. A row of the
 * result is what the row alone gives, and follows from nothing outside it, but from more than an element where the
 * column says so. There are as many products as pairs of a result and an element of the first operand that it follows
 * from; a composite has those of its decomposition. Then each column is read as if it said something else, which has to
 * be found wrong. */
#include "check.h"
#include "strict_contract.h"
#include "graph/graph.h"
#include "graph/op_rules.h"
#include "graph/work.h"
#include "run/runner.h"

#include <math.h>
#include <string.h>

enum { MOST = 600 /* elements */, CASES = 4, CHANGES = 12, WHOLE_CASES = 12, MOST_CASES = 64 };

/* What a row says, or could say. */
typedef struct work_claim {
    pco_rows_rule rows;
    double factor;   /* on the products that the table gives */
    int of_elements; /* for what has none: 1: as many as elements of the result, 2: of the first operand */
} work_claim;

typedef struct work_facts {
    work_claim claim;
    uint32_t cut;     /* rows that were compared */
    uint32_t changed; /* cases of which operands were changed */
    int several;      /* a result follows from more than one element of the first operand */
    int coarse;       /* rows along the last dimension are none: the rule is not coarser than need be */
    int exact;        /* as many products as pairs, in some case */
    int two;          /* a result follows from more than one element of two operands */
    uint32_t wrong;
    char first[CONF_LABEL + 128]; /* what is wrong, and in which case */
} work_facts;

static void work_wrong(work_facts *facts, const conf_case *one, const char *what)
{
    if (!facts->wrong++) snprintf(facts->first, sizeof facts->first, "%s: %s", what, one->label);
}

static int work_has_products(const work_claim *claim, uint32_t op)
{
    return pco_op_products(op) ? claim->factor != 0 : claim->of_elements;
}

static double work_products(const work_claim *claim, const pco_tensor *tensors, const pco_node *node)
{
    const pco_tensor *of =
        claim->of_elements == 2 ? pco_work_input(tensors, node, 0) : pco_work_output(tensors, node, 0);
    if (pco_op_products(node->op)) return claim->factor * pco_node_products(tensors, node);
    return claim->of_elements && of ? (double)pco_tensor_elements(of) : 0;
}

static int work_same(double a, double b) { return isnan(a) ? isnan(b) : a == b; }

/* ---- a row alone ---- */

/* Elements of the tensor in front of a dimension, along it, and behind it. */
static void work_around(const pco_tensor *x, int dim, int64_t *outer, int64_t *n, int64_t *inner)
{
    *outer = *inner = 1;
    for (int d = 0; d < dim; d++) *outer *= x->shape[d];
    for (int d = dim + 1; d < (int)x->rank; d++) *inner *= x->shape[d];
    *n = x->shape[dim];
}

/* Bytes of slice `row`, for the operand of the row alone. */
static void *work_slice(const pco_tensor *x, const void *data, int dim, int64_t row)
{
    int64_t outer = 1, n = 1, inner = 0;
    uint8_t *slice = calloc(1, x->bytes + 8);
    assert_non_null(slice);
    if (dim == PCO_ROWS_WHOLE) return memcpy(slice, data, x->bytes);
    work_around(x, dim, &outer, &n, &inner);
    const uint64_t bytes = outer && n ? x->bytes / (uint64_t)(outer * n) : 0;
    for (int64_t o = 0; o < outer; o++)
        memcpy(slice + (uint64_t)o * bytes, (const uint8_t *)data + (uint64_t)(o * n + row) * bytes, bytes);
    return slice;
}

static void work_compare(const conf_problem *whole, const conf_problem *piece, const pco_node_rows *rows, int64_t row,
                         work_facts *facts)
{
    for (uint32_t k = 0; k < whole->oracle.n_outputs; k++) {
        const oracle_output *all = &whole->oracle.out[k], *part = &piece->oracle.out[k];
        int64_t outer, n, inner;
        if (rows->out[k] == PCO_ROWS_WHOLE || all->desc.rank == 0) {
            work_wrong(facts, whole->one, "a result is not cut");
            return;
        }
        work_around(&all->desc, rows->out[k], &outer, &n, &inner);
        if (part->count != outer * inner || n != rows->n) {
            work_wrong(facts, whole->one, "the result has not so many rows");
            continue;
        }
        for (int64_t i = 0; i < part->count; i++)
            if (!work_same(part->value[i], all->value[(i / inner * n + row) * inner + i % inner])) {
                work_wrong(facts, whole->one, "a row alone is another");
                break;
            }
    }
}

static void work_row(const conf_problem *whole, const pco_node_rows *rows, int64_t row, work_facts *facts)
{
    conf_case alone = *whole->one;
    conf_problem piece;
    pco_error ignored;
    void *data[PCO_MAX_INPUTS] = {0};
    for (uint32_t i = 0; i < whole->node.n_inputs; i++) {
        if (whole->node.inputs[i] == PCO_NONE) continue;
        data[i] = work_slice(&whole->tensors[whole->node.inputs[i]], whole->data[i], rows->in[i], row);
        if (rows->in[i] != PCO_ROWS_WHOLE) alone.in[i].shape[rows->in[i]] = 1;
    }
    if (conf_problem_make_from(&piece, &alone, (const void *const *)data, &CONTRACT, &ignored)) {
        work_wrong(facts, whole->one, "a row alone is no problem");
    } else {
        facts->cut++;
        work_compare(whole, &piece, rows, row, facts);
    }
    conf_problem_clear(&piece);
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) free(data[i]);
}

static int work_is_coarse(pco_rows_rule rule) { return rule == PCO_ROWS_SAMPLES || rule == PCO_ROWS_SEQUENCES; }

/* Rules of whole samples and sequences: would rows along the last dimension do? */
static void work_finer(const conf_problem *whole, work_facts *facts)
{
    const pco_node_rows rows = pco_node_rows_by(PCO_ROWS_LAST, whole->tensors, &whole->node);
    work_facts finer = {0};
    if (rows.n > 1) work_row(whole, &rows, rows.n - 1, &finer);
    facts->coarse |= finer.wrong > 0;
}

/* ---- what follows from what ---- */

static void work_index(const pco_tensor *x, int64_t i, int64_t *at)
{
    for (int d = (int)x->rank - 1; d >= 0; d--) {
        at[d] = i % x->shape[d];
        i /= x->shape[d];
    }
}

/* May element `to` of the result follow from element `from` of operand k, by the rule? */
static int work_allows(pco_rows_rule rule, const conf_problem *problem, uint32_t k, int64_t from, int64_t to)
{
    const pco_tensor *x = &problem->tensors[problem->node.inputs[k]], *y = &problem->oracle.out[0].desc;
    const uint32_t axes = pco_op_axes(pco_op_find(problem->one->op), problem->node.attrs, x->rank);
    int64_t a[PCO_MAX_RANK] = {0}, b[PCO_MAX_RANK] = {0};
    work_index(x, from, a);
    work_index(y, to, b);
    if (x->rank < (rule == PCO_ROWS_SAMPLES ? 2u : 1u)) return 1;
    switch (rule) {
    case PCO_ROWS_ELEMENTS:
        if (y->rank < x->rank) return 0;
        for (uint32_t d = 0, lead = y->rank - x->rank; d < x->rank; d++)
            if (x->shape[d] != 1 && a[d] != b[lead + d]) return 0;
        return 1;
    case PCO_ROWS_AXIS:
        for (uint32_t d = 0, e = 0; d < x->rank; d++) {
            if (!(axes >> d & 1) && a[d] != b[e]) return 0;
            if (y->rank == x->rank || !(axes >> d & 1)) e++;
        }
        return 1;
    case PCO_ROWS_LAST: return memcmp(a, b, (x->rank - 1) * sizeof *a) == 0;
    case PCO_ROWS_SAMPLES: return memcmp(a, b, (x->rank - 2) * sizeof *a) == 0;
    case PCO_ROWS_SEQUENCES: return a[0] == b[0];
    default: return 1;
    }
}

/* The element in storage becomes another number. */
static void work_change(uint32_t dtype, void *data, int64_t i)
{
    if (dtype == PCO_F32)
        ((float *)data)[i] = ((float *)data)[i] * 1.25f + 0.5f;
    else
        ((uint8_t *)data)[i] ^= 1; /* bool */
}

/* A primitive that adds: are they products? */
static int work_may_multiply(const pco_op_info *op, const work_facts *facts)
{
    return op->bound == PCO_BOUND_SUM && !pco_op_decomposition(op->op) && !facts->two;
}

/* Changes elements of operand k; counts[y] results follow from so many of them. Returns how many pairs there are. */
static double work_follow(const conf_problem *problem, uint32_t k, int64_t step, uint32_t *counts, work_facts *facts)
{
    const pco_tensor *x = &problem->tensors[problem->node.inputs[k]];
    const pco_rows_rule rule = facts->claim.rows;
    const oracle_output *before = &problem->oracle.out[0];
    const int64_t count = pco_tensor_elements(x);
    double pairs = 0;
    for (int64_t i = 0; i < count; i += step) {
        conf_problem other;
        void *data[PCO_MAX_INPUTS] = {0};
        memcpy(data, problem->data, sizeof data);
        data[k] = work_slice(x, problem->data[k], PCO_ROWS_WHOLE, 0);
        work_change(x->dtype, data[k], i);
        check_ok(conf_problem_make_from(&other, problem->one, (const void *const *)data, &CONTRACT, &err));
        for (int64_t j = 0; j < before->count; j++) {
            if (work_same(before->value[j], other.oracle.out[0].value[j])) continue;
            pairs++;
            counts[j]++;
            if (!work_allows(rule, problem, k, i, j)) work_wrong(facts, problem->one, "a row follows from another");
        }
        conf_problem_clear(&other);
        free(data[k]);
    }
    return pairs;
}

static uint32_t work_most(const uint32_t *counts, int64_t n)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++)
        if (counts[i] > most) most = counts[i];
    return most;
}

static void work_follows(const conf_problem *problem, const pco_op_info *op, work_facts *facts)
{
    const oracle_output *y = &problem->oracle.out[0];
    const pco_rows_rule rule = facts->claim.rows;
    const int pairs_count = !pco_op_decomposition(op->op) && work_has_products(&facts->claim, op->op);
    uint32_t several = 0; /* operands of which a result takes more than one element */
    for (uint32_t k = 0; k < problem->node.n_inputs; k++) {
        if (problem->node.inputs[k] == PCO_NONE) continue;
        const pco_tensor *x = &problem->tensors[problem->node.inputs[k]];
        const int64_t count = pco_tensor_elements(x);
        if ((x->dtype != PCO_F32 && x->dtype != PCO_BOOL) || count == 0) continue;
        if (k > 0 && rule != PCO_ROWS_ELEMENTS && pco_op_decomposition(op->op)) continue;
        uint32_t *counts = calloc((size_t)y->count + 1, sizeof *counts);
        assert_non_null(counts);
        work_facts ignored = {.claim = facts->claim};
        const int placed = k == 0 || rule == PCO_ROWS_ELEMENTS;
        const int every =
            pairs_count || work_may_multiply(op, facts) || (k == 0 && rule > PCO_ROWS_ELEMENTS && !facts->several);
        const int64_t step = every || count <= CHANGES ? 1 : count / CHANGES;
        const double pairs = work_follow(problem, k, step, counts, placed ? facts : &ignored);
        const uint32_t most = work_most(counts, y->count);
        if (k == 0 && pairs_count) {
            const double products = work_products(&facts->claim, problem->tensors, &problem->node);
            if (pairs > products) work_wrong(facts, problem->one, "there are more products");
            facts->exact |= pairs == products;
        }
        if (k == 0 && most > 1) facts->several = 1;
        several += most > 1;
        free(counts);
    }
    facts->two |= several > 1;
    if (!pairs_count && !pco_op_decomposition(op->op) && several > 1)
        work_wrong(facts, problem->one, "there are products");
}

/* ---- all cases ---- */

/* Cases whose operands say where each element goes: of numbers that differ, and small. */
static int work_suits(const conf_case *one)
{
    if (one->regime != CONF_RANDOM || !one->n_inputs || !one->in[0].present) return 0;
    if (one->in[0].dtype != PCO_F32 && one->in[0].dtype != PCO_BOOL) return 0;
    if (one->op == PCO_OP_SWIGLU && one->n_inputs == 1) return 0; /* two elements of one operand */
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        if (!one->in[i].present) continue;
        const pco_tensor x = conf_operand_tensor(one, i);
        if (pco_tensor_elements(&x) > MOST || one->in[i].twin || one->in[i].fill == CONF_FILL_GARBAGE) return 0;
    }
    return 1;
}

/* Why a row cannot say so, whatever the cases show, or NULL. */
static const char *work_refuses(const pco_op_info *op, pco_rows_rule rule)
{
    const pco_attr_info *first = pco_op_attr(op, 0);
    if (rule == PCO_ROWS_NONE) return NULL;
    if (!strncmp(op->signature, "->", 2)) return "it has no operands";
    if (rule == PCO_ROWS_MATMUL && !(first && !strcmp(first->name, "transpose_a")))
        return "it is no product of matrices";
    if (rule > PCO_ROWS_ELEMENTS && rule != PCO_ROWS_AXIS && first && first->is_axis) return "its rows follow its axes";
    return NULL;
}

static bool work_visit(void *user, const conf_case *one)
{
    work_facts *facts = (work_facts *)user + one->op;
    const pco_op_info *op = pco_op_find(one->op);
    const pco_rows_rule rule = facts->claim.rows;
    if (work_refuses(op, rule)) return true;
    const int counts = work_has_products(&facts->claim, one->op) && !pco_op_decomposition(op->op) && !facts->exact;
    const int more = (counts || work_may_multiply(op, facts)) && facts->changed < MOST_CASES;
    const int follows = (facts->changed < CASES || more) && work_suits(one);
    const int finer = work_is_coarse(rule) && !facts->coarse;
    const int cuts = rule != PCO_ROWS_NONE && (facts->cut < 2 * CASES || finer);
    if (one->large || one->chain || facts->wrong || (!follows && !cuts)) return true;
    conf_problem problem;
    check_ok(conf_problem_make(&problem, one, 7, &CONTRACT, &err));
    const pco_node_rows rows = pco_node_rows_by(rule, problem.tensors, &problem.node);
    if (cuts && rows.n > 1) {
        work_row(&problem, &rows, 0, facts);
        work_row(&problem, &rows, rows.n - 1, facts);
    }
    if (finer) work_finer(&problem, facts);
    if (follows && problem.oracle.out[0].count > 0) {
        facts->changed++;
        work_follows(&problem, op, facts);
    }
    conf_problem_clear(&problem);
    return true;
}

/* What is wrong with a row that says so, or NULL. */
static const char *work_fault(const pco_op_info *op, const work_facts *of)
{
    const pco_rows_rule rule = of->claim.rows;
    const int products = work_has_products(&of->claim, op->op) && !pco_op_decomposition(op->op);
    const char *refused = work_refuses(op, rule);
    if (refused) return refused;
    if (of->wrong) return of->first;
    if (rule != PCO_ROWS_NONE && !of->cut) return "no case has rows";
    if (rule > PCO_ROWS_ELEMENTS && !of->several)
        return "the column `rows` says more than elements, and each result follows from one";
    if (work_is_coarse(rule) && !of->coarse)
        return "the column `rows` says less than is so: rows along the last dimension are the same alone";
    if (products && !of->two) return "nothing is multiplied by several";
    return products && !of->exact ? "no case has as many products as the column says" : NULL;
}

/* What the cases show of each op, where its row says this of rows (PCO_ROWS_RULES: what it says) and products. */
static work_facts *work_gather(pco_rows_rule rows, double factor, int of_elements)
{
    work_facts *facts = calloc(PCO_OP_LIMIT, sizeof *facts);
    assert_non_null(facts);
    uint32_t count;
    const pco_op_info *table = pco_op_table(&count);
    for (uint32_t i = 0; i < count; i++)
        facts[table[i].op].claim = (work_claim){rows == PCO_ROWS_RULES ? table[i].rows : rows, factor, of_elements};
    conf_cases_visit(PCO_CONFORMANCE_QUICK, NULL, work_visit, facts);
    return facts;
}

static void test_rows(void **state)
{
    (void)state;
    work_facts *facts = work_gather(PCO_ROWS_RULES, 1, 0);
    uint32_t count, wrong = 0;
    const pco_op_info *table = pco_op_table(&count);
    for (uint32_t i = 0; i < count; i++) {
        const char *fault = work_fault(&table[i], &facts[table[i].op]);
        if (fault && ++wrong) print_error("%s: %s\n", table[i].name, fault);
    }
    free(facts);
    assert_int_equal(wrong, 0);
}

/* ---- all else that rows could say is found wrong ---- */

/* Rows that say nothing of rows, and could. */
static int work_silent(const pco_op_info *op, pco_rows_rule rule)
{
    static const struct {
        pco_op op;
        pco_rows_rule rule;
    } SILENT[] = {
        /* bool, and right or wrong in every case: a row alone cannot be another */
        {PCO_OP_LOGICAL_AND, PCO_ROWS_ELEMENTS},
        {PCO_OP_LOGICAL_OR, PCO_ROWS_ELEMENTS},
        {PCO_OP_LOGICAL_NOT, PCO_ROWS_ELEMENTS},
        /* of gradients nothing is promised: a step is of a whole batch */
        {PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD, PCO_ROWS_SEQUENCES},
        {PCO_OP_SWIGLU_BACKWARD, PCO_ROWS_SEQUENCES},
    };
    for (size_t i = 0; i < sizeof SILENT / sizeof *SILENT; i++)
        if (SILENT[i].op == op->op && SILENT[i].rule == rule) return 1;
    return 0;
}

/* One rule holds for an op that has rows, and none for one that has none: so that a row that says `none`, or another
 * rule, is found. */
static void test_other_rows(void **state)
{
    (void)state;
    uint32_t count, wrong = 0, held[PCO_OP_LIMIT] = {0};
    const pco_op_info *table = pco_op_table(&count);
    for (pco_rows_rule rule = PCO_ROWS_NONE + 1; rule < PCO_ROWS_RULES; rule++) {
        work_facts *facts = work_gather(rule, 1, 0);
        for (uint32_t i = 0; i < count; i++)
            if (!work_fault(&table[i], &facts[table[i].op]) && !work_silent(&table[i], rule))
                held[table[i].op] |= 1u << rule;
        free(facts);
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t own = table[i].rows == PCO_ROWS_NONE ? 0 : 1u << table[i].rows;
        if (held[table[i].op] == own || !++wrong) continue;
        for (pco_rows_rule rule = 0; rule < PCO_ROWS_RULES; rule++)
            if ((held[table[i].op] & ~own) >> rule & 1)
                print_error("%s: the column `rows` could as well say %s\n", table[i].name, pco_op_rows(rule)->name);
        if (own & ~held[table[i].op]) print_error("%s: the column `rows` is not found right\n", table[i].name);
    }
    assert_int_equal(wrong, 0);
}

static void test_other_products(void **state)
{
    (void)state;
    static const struct {
        double factor;
        int of_elements;
        const char *what;
    } LIES[] = {
        {0, 1, "as many as results, or none"}, {0.5, 2, "as many as elements, or half"}, {2, 0, "twice as many"}};
    uint32_t count, wrong = 0;
    const pco_op_info *table = pco_op_table(&count);
    for (size_t lie = 0; lie < sizeof LIES / sizeof *LIES; lie++) {
        work_facts *facts = work_gather(PCO_ROWS_RULES, LIES[lie].factor, LIES[lie].of_elements);
        for (uint32_t i = 0; i < count; i++) {
            if (pco_op_decomposition(table[i].op) || (!pco_op_products(table[i].op) && !LIES[lie].of_elements))
                continue;
            if (!work_fault(&table[i], &facts[table[i].op]) && ++wrong)
                print_error("%s: products could as well be %s\n", table[i].name, LIES[lie].what);
        }
        free(facts);
    }
    assert_int_equal(wrong, 0);
}

/* ---- products of composites ---- */

typedef struct work_composite {
    uint32_t cases, wrong;
} work_composite;

static double work_decomposed(const conf_case *one, double *own)
{
    const pco_op_info *op = pco_op_find(one->op);
    static const char *const NAMES[PCO_MAX_INPUTS] = {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"};
    uint32_t inputs[PCO_MAX_INPUTS], out[PCO_MAX_OUTPUTS];
    pco_graph *graph = pco_graph_create();
    double products = 0;
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        const conf_operand *x = &one->in[i];
        inputs[i] = PCO_NONE;
        if (!x->present) continue;
        inputs[i] = (pco_op_writes(op, i) ? pco_graph_state : pco_graph_input)(graph, NAMES[i], (pco_dtype)x->dtype,
                                                                               x->rank, x->shape);
    }
    pco_graph_add(graph, (pco_op)one->op, one->attrs_size ? one->attrs.bytes : NULL, inputs, one->n_inputs, out);
    check_ok(pco_graph_check(graph, &err));
    const pco_node node = graph->nodes[0];
    *own = pco_node_products(graph->tensors, &node);
    for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) out[i] = PCO_NONE;
    check_ok(pco_op_decomposition(op->op)(graph, &node, out, &err));
    for (uint32_t i = 1; i < graph->n_nodes; i++) products += pco_node_products(graph->tensors, &graph->nodes[i]);
    pco_graph_destroy(graph);
    return products;
}

static bool work_composite_visit(void *user, const conf_case *one)
{
    work_composite *of = (work_composite *)user + one->op;
    double own;
    if (!pco_op_decomposition(one->op) || one->large || one->chain || of->cases == WHOLE_CASES) return true;
    of->cases++;
    const double products = work_decomposed(one, &own);
    if (own != products && !of->wrong++)
        print_error("%s has %.0f products, and its decomposition %.0f: %s\n", pco_op_name(one->op), own, products,
                    one->label);
    return true;
}

static void test_products(void **state)
{
    (void)state;
    work_composite *of = calloc(PCO_OP_LIMIT, sizeof *of);
    assert_non_null(of);
    conf_cases_visit(PCO_CONFORMANCE_QUICK, NULL, work_composite_visit, of);
    uint32_t count, wrong = 0;
    const pco_op_info *table = pco_op_table(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (pco_op_decomposition(table[i].op)) assert_true(of[table[i].op].cases > 0);
        wrong += of[table[i].op].wrong > 0;
    }
    free(of);
    assert_int_equal(wrong, 0);
}

/* ---- every case, by its shapes ---- */

/* Is a row alone a node, with one row in each result? Shapes alone are looked at, and so all cases of standard, which
 * are cut when they run. */
static bool work_shapes_visit(void *user, const conf_case *one)
{
    uint32_t *wrong = user;
    conf_problem whole, piece;
    pco_error why = {""};
    if (one->large || one->chain) return true;
    conf_problem_describe(&whole, one);
    check_ok(conf_problem_infer(&whole, &err));
    const pco_node_rows rows = pco_node_rows_of(whole.tensors, &whole.node);
    if (!rows.n) return true;
    conf_case alone = *one;
    for (uint32_t i = 0; i < whole.node.n_inputs; i++)
        if (rows.in[i] != PCO_ROWS_WHOLE) alone.in[i].shape[rows.in[i]] = 1;
    conf_problem_describe(&piece, &alone);
    int fits = conf_problem_infer(&piece, &why) == PCO_OK;
    for (uint32_t k = 0; fits && k < whole.node.n_outputs; k++) {
        const pco_tensor *all = &whole.tensors[whole.node.outputs[k]], *part = &piece.tensors[piece.node.outputs[k]];
        if (rows.out[k] == PCO_ROWS_WHOLE) continue;
        fits = all->rank == part->rank;
        for (uint32_t d = 0; fits && d < all->rank; d++)
            fits = part->shape[d] == ((int)d == rows.out[k] ? 1 : all->shape[d]);
    }
    if (!fits && ++*wrong < 8) print_error("%s: a row alone is no node like it: %s\n", one->label, why.message);
    return true;
}

static void test_shapes(void **state)
{
    (void)state;
    uint32_t wrong = 0;
    conf_cases_visit(PCO_CONFORMANCE_STANDARD, NULL, work_shapes_visit, &wrong);
    assert_int_equal(wrong, 0);
}

/* ---- operands and results ---- */

/* Elements and bytes of all that a node reads and writes: what is absent is nothing, and what it reads twice is one. */
static void test_sizes(void **state)
{
    (void)state;
    pco_graph *g = pco_graph_create();
    const uint32_t a = pco_graph_input(g, "a", PCO_F32, 2, (const int64_t[]){3, 64});
    const uint32_t b = pco_graph_input(g, "b", PCO_Q8_0, 2, (const int64_t[]){5, 64});
    const uint32_t c = pco_graph_input(g, "c", PCO_F32, 2, (const int64_t[]){3, 5});
    const pco_matmul_attrs attrs = {.transpose_b = 1, .dtype = -1};
    pco_graph_add(g, PCO_OP_MATMUL, &attrs, (const uint32_t[]){a, b, PCO_NONE, c}, 4, NULL);
    const uint32_t half = pco_cast(g, a, PCO_F16);
    pco_binary(g, PCO_OP_MUL, half, half);
    check_ok(pco_graph_check(g, &err));
    static const struct {
        double elements, bytes;
    } EXPECTED[] = {
        {3 * 64 + 5 * 64 + 2 * 3 * 5, 4 * 3 * 64 + 5 * 2 * 34 + 2 * 4 * 3 * 5}, /* blocks of 32 take 34 bytes */
        {2 * 3 * 64, (4 + 2) * 3 * 64},
        {2 * 3 * 64, 2 * 2 * 3 * 64},
    };
    assert_int_equal(g->n_nodes, 3);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        assert_true(pco_node_elements(g->tensors, &g->nodes[i]) == EXPECTED[i].elements);
        assert_true(pco_node_bytes(g->tensors, &g->nodes[i]) == EXPECTED[i].bytes);
    }
    pco_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows),           cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_other_rows),     cmocka_unit_test(test_products),
                                       cmocka_unit_test(test_other_products), cmocka_unit_test(test_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
