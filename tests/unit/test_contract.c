/* A device whose contract is false is found and named, and one with a defect is not said to break its contract; so are
 * results that depend on what memory held, on the rows beside them, or on operands that are one. The device is a toy
 * with one such fault at a time. The probes name what it does, and in which order it sums. */
#include "toy.h"

#include "base/dtype.h"
#include "oracle/oracle.h"

#include <math.h>

typedef enum toy_fault {
    TOY_RIGHT,
    TOY_SUMS_F16, /* accumulates in f16 */
    TOY_SUMS_BF16,
    TOY_SUMS_F32, /* and its contract says f64 */
    TOY_FLUSHES,  /* subnormals */
    TOY_CUTS,     /* instead of rounding */
    TOY_FUSES,    /* and its contract says that it does not */
    TOY_HALF,     /* arithmetic in f16 */
    TOY_NO_NAN,   /* NaN becomes 0 */
    TOY_STALE,    /* the last element keeps what it had, unless that is NaN */
    TOY_BATCH,    /* sums a single row the other way round */
    TOY_SAME,     /* wrong where both operands lie in one place */
    TOY_NO_BIAS,  /* forgets it */
    TOY_NO_EPS,   /* forgets it */
    TOY_FAULTS,
    /* no faults: orders of a sum of 64 */
    TOY_NEIGHBOURS = TOY_FAULTS,
    TOY_HALVES,
    TOY_LANES, /* 16 of them, each in order, then their halves */
    TOY_LAST,  /* the last term first */
    TOY_ONCE,  /* in double */
} toy_fault;

struct pco_device {
    toy_fault fault;
};

struct toy_node {
    pco_node node;
    pco_tensor x, w, bias, y;
    pco_matmul_attrs matmul;
    double eps;
    uint8_t *x_data, *w_data, *bias_data, *y_data;
};

/* add, mul, neg of equal shapes; casts; sum along the last of two axes; matmul of two matrices, b transposed or not;
 * rms_norm of two dimensions without its statistics. */
static bool toy_can(const pco_part *part, const pco_node *n)
{
    const pco_tensor *x = &part->tensors[n->inputs[0]], *y = &part->tensors[n->outputs[0]];
    if (!pco_dtype_is_float(x->dtype) || !pco_dtype_is_float(y->dtype) || y->bytes == 0 || x->bytes == 0) return false;
    if (n->op == PCO_OP_NEG || n->op == PCO_OP_CAST) return true;
    const pco_tensor *w = n->n_inputs > 1 ? &part->tensors[n->inputs[1]] : NULL;
    if (n->op == PCO_OP_ADD || n->op == PCO_OP_MUL)
        return w->rank == x->rank && memcmp(w->shape, x->shape, sizeof(int64_t) * x->rank) == 0;
    if (n->op == PCO_OP_SUM) {
        const pco_sum_attrs *attrs = n->attrs;
        return x->rank == 2 && attrs->n_axes == 1 && attrs->axes[0] == 1;
    }
    if (n->op == PCO_OP_RMS_NORM) return x->rank == 2 && n->n_outputs == 1;
    const pco_matmul_attrs *attrs = n->attrs;
    return n->op == PCO_OP_MATMUL && x->rank == 2 && w->rank == 2 && pco_dtype_is_float(w->dtype) &&
           !attrs->transpose_a && !attrs->activation && (n->n_inputs < 4 || n->inputs[3] == PCO_NONE);
}

static pco_status toy_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *err)
{
    (void)device;
    if (toy_can(part, &part->nodes[node])) return PCO_OK;
    snprintf(err->message, sizeof err->message, "the toy does not like it");
    return PCO_ERROR_UNSUPPORTED;
}

static pco_status toy_propose(pco_device *device, const pco_part *part, pco_proposal *proposal, pco_error *err)
{
    (void)device, (void)part, (void)proposal, (void)err;
    return PCO_OK;
}

static uint8_t *toy_at(const pco_plan *plan, uint32_t tensor)
{
    const pco_place *place = &plan->tensors[tensor];
    return plan->buffers[place->buffer]->data + place->offset;
}

static toy_node *toy_node_make(const pco_part *part, const pco_node *node, const pco_plan *plan)
{
    toy_node *p = calloc(1, sizeof *p);
    p->node = *node;
    p->x = part->tensors[node->inputs[0]], p->x_data = toy_at(plan, node->inputs[0]);
    p->y = part->tensors[node->outputs[0]], p->y_data = toy_at(plan, node->outputs[0]);
    if (node->n_inputs > 1 && node->inputs[1] != PCO_NONE) {
        p->w = part->tensors[node->inputs[1]], p->w_data = toy_at(plan, node->inputs[1]);
        if (node->op == PCO_OP_MATMUL) memcpy(&p->matmul, node->attrs, sizeof p->matmul);
    }
    if (node->n_inputs > 2 && node->inputs[2] != PCO_NONE)
        p->bias = part->tensors[node->inputs[2]], p->bias_data = toy_at(plan, node->inputs[2]);
    if (node->op == PCO_OP_RMS_NORM) p->eps = ((const pco_rms_norm_attrs *)node->attrs)->eps;
    return p;
}

static double toy_load(const pco_tensor *t, const uint8_t *data, int64_t i)
{
    double value;
    oracle_decode(t->dtype, data + i * oracle_block_bytes(t->dtype), &value, 1);
    return value;
}

/* One operation in f32, or as the fault has it. */
static double toy_round(toy_fault fault, double exact)
{
    float nearest = (float)exact;
    if (fault == TOY_HALF) return oracle_round_to(PCO_F16, exact);
    if (fault == TOY_CUTS && isfinite(nearest) && fabs((double)nearest) > fabs(exact))
        nearest = nextafterf(nearest, 0.0f);
    if (fault == TOY_FLUSHES && fabsf(nearest) < 0x1p-126f) return 0.0;
    return nearest;
}

static double toy_accumulate(toy_fault fault, double sum, double term)
{
    if (fault == TOY_SUMS_F16) return oracle_round_to(PCO_F16, sum + term);
    if (fault == TOY_SUMS_BF16) return oracle_round_to(PCO_BF16, sum + term);
    return toy_round(fault == TOY_FLUSHES ? fault : TOY_RIGHT, sum + term);
}

static double toy_input(toy_fault fault, uint32_t dtype, double value)
{
    return fault == TOY_FLUSHES && dtype != PCO_F16 && fabs(value) < 0x1p-126 ? 0.0 : value;
}

/* Terms of a product, in the order of its fault. */
static double toy_sum(toy_fault fault, double *terms, int64_t n)
{
    const int64_t lanes = fault == TOY_LANES ? 16 : n;
    double sum = fault == TOY_LAST ? terms[n - 1] : 0;
    if (fault == TOY_NEIGHBOURS)
        for (; n > 1; n /= 2)
            for (int64_t i = 0; i < n / 2; i++) terms[i] = toy_accumulate(fault, terms[2 * i], terms[2 * i + 1]);
    if (fault == TOY_NEIGHBOURS) return terms[0];
    if (fault == TOY_HALVES || fault == TOY_LANES) {
        for (int64_t i = lanes; i < n; i++) terms[i % lanes] = toy_accumulate(fault, terms[i % lanes], terms[i]);
        for (int64_t half = lanes / 2; half; half /= 2)
            for (int64_t i = 0; i < half; i++) terms[i] = toy_accumulate(fault, terms[i], terms[i + half]);
        return terms[0];
    }
    for (int64_t i = 0; i < n - (fault == TOY_LAST); i++)
        sum = fault == TOY_ONCE ? sum + terms[i] : toy_accumulate(fault, sum, terms[i]);
    return sum;
}

static double toy_dot(const toy_node *p, toy_fault fault, int64_t row, int64_t column)
{
    double terms[64];
    int64_t k = p->x.shape[1], single = p->x.shape[0] == 1 && fault == TOY_BATCH;
    const int64_t line = p->matmul.transpose_b ? k : 1, step = p->matmul.transpose_b ? 1 : p->w.shape[1];
    const bool reorders = fault >= TOY_FAULTS && k == 64;
    double sum = 0.0;
    for (int64_t i = 0; i < k; i++) {
        int64_t at = single ? k - 1 - i : i;
        double x = toy_input(fault, p->x.dtype, toy_load(&p->x, p->x_data, row * k + at));
        double term = x;
        if (p->node.op == PCO_OP_MATMUL)
            term *= toy_input(fault, p->w.dtype, toy_load(&p->w, p->w_data, column * line + at * step));
        if (fault != TOY_FUSES) term = (double)(float)term;
        if (reorders)
            terms[i] = term;
        else
            sum = toy_accumulate(fault, sum, term);
    }
    return reorders ? toy_sum(fault, terms, k) : sum;
}

static double toy_norm(const toy_node *p, toy_fault fault, int64_t i)
{
    const int64_t n = p->x.shape[1], row = i / n;
    double sum = 0.0;
    for (int64_t k = 0; k < n; k++) {
        const double x = toy_load(&p->x, p->x_data, row * n + k);
        sum += x * x;
    }
    const double rstd = 1 / sqrt(sum / (double)n + (fault == TOY_NO_EPS ? 0 : p->eps));
    return toy_load(&p->x, p->x_data, i) * rstd * (p->w_data ? toy_load(&p->w, p->w_data, i % n) : 1);
}

/* Of types of 16 bits the number below, towards 0, has the bits less one. */
static double toy_cast(toy_fault fault, uint32_t dtype, double a)
{
    double y = a;
    uint16_t bits;
    if (fault != TOY_CUTS || oracle_block_bytes(dtype) != sizeof bits) return a;
    oracle_encode(dtype, &a, &bits, 1);
    oracle_decode(dtype, &bits, &y, 1);
    if (fabs(y) > fabs(a)) bits--;
    oracle_decode(dtype, &bits, &y, 1);
    return y;
}

static double toy_element(const toy_node *p, toy_fault fault, int64_t i)
{
    if (p->node.op == PCO_OP_SUM) return toy_dot(p, fault, i, 0);
    if (p->node.op == PCO_OP_RMS_NORM) return toy_norm(p, fault, i);
    if (p->node.op == PCO_OP_MATMUL) {
        double y = toy_dot(p, fault, i / p->y.shape[1], i % p->y.shape[1]);
        if (!p->bias_data || fault == TOY_NO_BIAS) return y;
        return (double)(float)(y + toy_load(&p->bias, p->bias_data, i % p->y.shape[1]));
    }
    double a = toy_input(fault, p->x.dtype, toy_load(&p->x, p->x_data, i));
    if (p->node.op == PCO_OP_NEG) return -a;
    if (p->node.op == PCO_OP_CAST) return toy_cast(fault, p->y.dtype, a);
    double b = toy_input(fault, p->w.dtype, toy_load(&p->w, p->w_data, i));
    if (fault == TOY_SAME && p->x_data == p->w_data) return 7.0;
    return toy_round(fault, p->node.op == PCO_OP_ADD ? a + b : a * b);
}

static pco_status toy_node_run(pco_device *device, toy_node *p, pco_error *err)
{
    (void)err;
    int64_t elements = oracle_count(&p->y);
    uint32_t step = oracle_block_bytes(p->y.dtype);
    for (int64_t i = 0; i < elements; i++) {
        double y = toy_element(p, device->fault, i), old;
        if (device->fault == TOY_NO_NAN && isnan(y)) y = 0.0;
        oracle_decode(p->y.dtype, p->y_data + i * step, &old, 1);
        if (device->fault == TOY_STALE && i == elements - 1 && !isnan(old)) continue;
        oracle_encode(p->y.dtype, &y, p->y_data + i * step, 1);
    }
    return PCO_OK;
}

static pco_conformance_result toy_run(toy_fault fault)
{
    pco_device device = {.fault = fault};
    pco_contract contract = CONTRACT;
    if (fault == TOY_SUMS_F32) contract.accumulate_f32 = contract.accumulate_f16 = PCO_CONTRACT_F64;
    return toy_judge(&device, &contract, "add,mul,neg,sum,matmul,rms_norm", 3);
}

static const char *const SAYS[TOY_FAULTS] = {
    [TOY_SUMS_F16] = "behaves like f16 accumulation, and the contract declares f32 (accumulate_f16)",
    [TOY_SUMS_BF16] = "behaves like bf16 accumulation, and the contract declares f32 (accumulate_f32)",
    [TOY_SUMS_F32] = "behaves like f32 accumulation, and the contract declares f64 (accumulate_f32)",
    [TOY_FLUSHES] = "flushes subnormals",
    [TOY_CUTS] = "does not round to nearest even as the contract says (round_to_nearest)",
    [TOY_FUSES] = "products are fused with sums, and the contract says that they are not (contraction)",
    [TOY_HALF] = "behaves like arithmetic in f16, and the contract declares f32 (compute)",
    [TOY_NO_NAN] = "NaN or infinity is not what IEEE 754 says",
    [TOY_STALE] = "over zeroed memory, differs from the first run",
    [TOY_BATCH] = "in the whole; one variant has one result for any number of rows",
    [TOY_SAME] = "with one tensor for equal operands, the result differs",
    [TOY_NO_BIAS] = "elements are outside their bounds",
    [TOY_NO_EPS] = "elements are outside their bounds",
};

/* What names a clause of the contract. */
static const char *const CLAUSES[] = {"behaves like", "flushes", "does not round", "ulp, and the contract", "nan_inf"};

static void test_right(void **state)
{
    (void)state;
    pco_conformance_result result = toy_run(TOY_RIGHT);
    for (uint32_t i = 0; i < result.n_cases; i++)
        if (pco_conformance_state_is_bad(result.cases[i].state))
            print_error("%s: %s\n", result.cases[i].label, result.cases[i].detail);
    assert_int_equal(pco_conformance_judge(&result, 1), PCO_VERDICT_PASS);
    uint32_t contract = 0;
    for (uint32_t i = 0; i < result.n_cases; i++)
        contract += result.cases[i].state == PCO_CASE_PASS && strcmp(result.cases[i].regime, "contract") == 0;
    assert_true(contract >= 30);
    pco_conformance_clear(&result, 1);
}

/* Found, and named in at least one case; and no other clause is blamed in the cases made for it. */
static void test_named(void **state)
{
    (void)state;
    for (toy_fault fault = TOY_RIGHT + 1; fault < TOY_FAULTS; fault++) {
        pco_conformance_result result = toy_run(fault);
        uint32_t named = 0, failed = 0;
        for (uint32_t i = 0; i < result.n_cases; i++) {
            if (result.cases[i].state != PCO_CASE_FAIL) continue;
            failed++;
            named += strstr(result.cases[i].detail, SAYS[fault]) != NULL;
            for (size_t c = 0; c < sizeof CLAUSES / sizeof *CLAUSES && fault >= TOY_NO_BIAS; c++)
                if (strstr(result.cases[i].detail, CLAUSES[c]))
                    fail_msg("%s: %s", result.cases[i].label, result.cases[i].detail);
        }
        if (named == 0)
            for (uint32_t i = 0; i < result.n_cases; i++)
                if (result.cases[i].state == PCO_CASE_FAIL)
                    print_error("%s: %s\n", result.cases[i].label, result.cases[i].detail);
        print_message("fault %d: %u failed, %u named\n", fault, failed, named);
        assert_true(named > 0);
        assert_int_equal(pco_conformance_judge(&result, 1), PCO_VERDICT_FAIL);
        pco_conformance_clear(&result, 1);
    }
}

/* ---- probes ---- */

static const struct {
    toy_fault fault;
    const char *line, *value;
    int broken;
} PROBED[] = {
    {TOY_RIGHT, "accumulator of sum of f32", "24 bits (f32)"},
    {TOY_RIGHT, "order of sum of bf16", "in order"},
    {TOY_RIGHT, "a*b + c in matmul of f32, 1 row", "rounded twice"},
    {TOY_RIGHT, "rounding of f32 to f16", "to nearest, ties to even"},
    {TOY_RIGHT, "f32 subnormals made by a * b", "kept"},
    {TOY_SUMS_F16, "accumulator of matmul of f32, 16 rows", "11 bits (f16)", 1},
    {TOY_SUMS_BF16, "accumulator of sum of f32", "8 bits (bf16)", 1},
    {TOY_SUMS_F32, "accumulator of sum of f32", "24 bits (f32)", 1},
    {TOY_FLUSHES, "f32 subnormals made by a * b", "flushed", 1},
    {TOY_FLUSHES, "f32 subnormals read by a + b", "flushed", 1},
    {TOY_CUTS, "rounding of f32 a + b", "toward zero", 1},
    {TOY_CUTS, "rounding of f32 to f16", "toward zero", 1},
    {TOY_CUTS, "rounding of f32 to bf16", "toward zero", 1},
    {TOY_FUSES, "a*b + c in matmul of f32, 1 row", "rounded once", 1},
    {TOY_FUSES, "a*b + c in matmul of f32, 16 rows", "rounded once", 1},
    {TOY_BATCH, "order of matmul of f32, 1 row", "backwards"},
    {TOY_BATCH, "order of matmul of f32, 16 rows", "in order"},
    {TOY_NEIGHBOURS, "order of sum of f32", "neighbours first"},
    {TOY_HALVES, "order of matmul of f16, 1 row", "halves first"},
    {TOY_LANES, "order of sum of f32", "16 lanes of 4 in order; these halves first"},
    {TOY_LAST, "order of sum of f32", "in a tree without a name #"},
    {TOY_ONCE, "accumulator of sum of f32", "53 bits (f64)"},
};
enum { PROBES = sizeof PROBED / sizeof *PROBED };

static pco_conformance_probe toy_probe(toy_fault fault)
{
    pco_device device = {.fault = fault};
    pco_contract contract = CONTRACT;
    if (fault == TOY_SUMS_F32) contract.accumulate_f32 = contract.accumulate_f16 = PCO_CONTRACT_F64;
    const pco_device_info info = toy_info(&contract);
    const pco_conformance_device entry = {toy_plugin(), &device, &info, "toy:0"};
    pco_conformance_probe probe = {0};
    check_ok(pco_conformance_probe_device(&entry, &probe, &err));
    return probe;
}

/* What each toy does is named, what it promises and does not keep is BROKEN, and no two have one fingerprint. */
static void test_probes(void **state)
{
    uint64_t seen[TOY_ONCE + 1] = {0};
    (void)state;
    for (int i = 0; i < PROBES;) {
        const toy_fault fault = PROBED[i].fault;
        pco_conformance_probe probe = toy_probe(fault);
        int broken = 0;
        for (; i < PROBES && PROBED[i].fault == fault; i++) {
            const pco_conformance_probe_line *line = pco_conformance_probe_find(&probe, PROBED[i].line);
            if (!line || strncmp(line->value, PROBED[i].value, strlen(PROBED[i].value)) != 0 ||
                (line->verdict == PCO_PROBE_BROKEN) != PROBED[i].broken)
                fail_msg("toy %d: %s: %s, %s", (int)fault, PROBED[i].line, line ? line->value : "no line",
                         line ? pco_conformance_probe_word(line->verdict) : "");
            broken |= PROBED[i].broken;
        }
        assert_int_equal(probe.broken > 0, broken);
        for (toy_fault other = 0; other <= TOY_ONCE; other++) assert_true(seen[other] != probe.fingerprint);
        seen[fault] = probe.fingerprint;
        pco_conformance_probe_clear(&probe);
    }
    pco_conformance_probe again = toy_probe(TOY_RIGHT);
    assert_true(again.fingerprint == seen[TOY_RIGHT]);
    pco_conformance_probe_clear(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_right), cmocka_unit_test(test_named),
                                       cmocka_unit_test(test_probes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
