/* The probes. Each is one execution of one op on operands that give something else on devices that do it in
 * another way; what came out is said in words, compared with the contract, and part of the fingerprint. */
#include "cases/case_build.h"
#include "run/probe.h"
#include "run/runner.h"

#include "base/error.h"
#include "base/hash.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS = 2048 };

typedef struct conf_probing {
    const pco_conformance_device *device;
    const pco_contract *contract;
    conf_cases_context *context; /* for the case that is being made */
    pco_variant variants[PCO_VARIANTS];
    uint32_t n_variants; /* of the case that was made last */
    double *results;     /* of the last execution */
    uint64_t count, room;
    uint32_t bits; /* a hash of them all */
    pco_conformance_probe *probe;
    pco_error *err;
} conf_probing;

/* ---- lines ---- */

pco_status conf_probe_add(pco_conformance_probe *probe, const pco_conformance_probe_line *line, pco_error *err)
{
    pco_conformance_probe_line *grown = realloc(probe->lines, (probe->n_lines + 1) * sizeof *grown);
    if (!grown) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for probes");
    probe->lines = grown;
    probe->lines[probe->n_lines++] = *line;
    return PCO_OK;
}

void conf_probe_finish(pco_conformance_probe *probe)
{
    uint64_t hash = PCO_HASH_START;
    probe->broken = 0;
    for (uint32_t i = 0; i < probe->n_lines; i++) {
        const pco_conformance_probe_line *line = &probe->lines[i];
        hash = pco_hash(hash, line->name, strlen(line->name) + 1);
        hash = pco_hash(hash, line->value, strlen(line->value) + 1);
        hash = pco_hash(hash, &line->bits, sizeof line->bits);
        probe->broken += line->verdict == PCO_PROBE_BROKEN;
    }
    probe->fingerprint = probe->n_lines ? hash : 0;
}

void pco_conformance_probe_clear(pco_conformance_probe *probe)
{
    free(probe->lines);
    *probe = (pco_conformance_probe){0};
}

const pco_conformance_probe_line *pco_conformance_probe_find(const pco_conformance_probe *probe, const char *name)
{
    for (uint32_t i = 0; i < probe->n_lines; i++)
        if (strcmp(probe->lines[i].name, name) == 0) return &probe->lines[i];
    return NULL;
}

const char *pco_conformance_probe_word(pco_conformance_probe_verdict verdict)
{
    static const char *const WORDS[] = {"", "kept", "better", "broken"};
    return WORDS[verdict];
}

static pco_status conf_probe_say(conf_probing *p, const char *name, const char *value, const char *declared,
                                 pco_conformance_probe_verdict verdict)
{
    pco_conformance_probe_line line = {.bits = p->bits, .verdict = verdict};
    snprintf(line.name, sizeof line.name, "%s", name);
    snprintf(line.value, sizeof line.value, "%s", value);
    snprintf(line.declared, sizeof line.declared, "%s", declared);
    return conf_probe_add(p->probe, &line, p->err);
}

/* What a device does of two ways of which one is the better: kept or better where the contract promises no
 * more, broken where it promised the better one. */
static pco_conformance_probe_verdict conf_probe_verdict(bool better, bool promised)
{
    if (promised) return better ? PCO_PROBE_KEPT : PCO_PROBE_BROKEN;
    return better ? PCO_PROBE_BETTER : PCO_PROBE_KEPT;
}

/* ---- one execution ---- */

static void conf_probe_hash(conf_probing *p, const void *data, uint64_t bytes)
{
    const uint64_t hash = pco_hash(PCO_HASH_START ^ p->bits, data, bytes);
    p->bits = (uint32_t)(hash ^ hash >> 32);
}

static pco_status conf_probe_keep(conf_probing *p, const conf_session *session)
{
    const conf_problem *problem = session->run->problem;
    const pco_tensor *y = &problem->tensors[problem->node.outputs[0]];
    const void *result = pco_trial_memory_result(&session->memory, problem->node.outputs[0]);
    p->count = (uint64_t)problem->oracle.out[0].count;
    if (p->count > p->room) {
        free(p->results);
        p->room = 0;
        p->results = malloc(p->count * sizeof *p->results);
        if (!p->results) return pco_fail(p->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for probes");
        p->room = p->count;
    }
    oracle_decode(y->dtype, result, p->results, (int64_t)p->count);
    conf_probe_hash(p, result, y->bytes);
    return PCO_OK;
}

/* Runs the case on these numbers (by operand) in variant `v`; UNSUPPORTED where there is none. */
static pco_status conf_probe_run(conf_probing *p, const conf_case *one, const double *const *numbers, uint32_t v)
{
    void *data[PCO_MAX_INPUTS] = {NULL};
    conf_problem problem = {0};
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < one->n_inputs && !status; i++) {
        const pco_tensor tensor = conf_operand_tensor(one, i);
        data[i] = malloc(tensor.bytes + 8);
        if (data[i])
            oracle_encode(tensor.dtype, numbers[i], data[i], oracle_count(&tensor));
        else
            status = pco_fail(p->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for probes");
    }
    if (!status) status = conf_problem_make_from(&problem, one, (const void *const *)data, p->contract, p->err);
    conf_run_state run = conf_run_start(p->device, &problem);
    conf_session session = {.run = &run};
    if (!status) status = pco_trial_supports(&run.trial, p->err);
    if (!status) status = pco_trial_variants(&run.trial, p->variants, &p->n_variants, p->err);
    if (!status && v >= p->n_variants) status = pco_fail(p->err, PCO_ERROR_UNSUPPORTED, "no such variant");
    if (!status) conf_run_force(&run, p->variants, v);
    if (!status) status = conf_run_propose(&run, p->err);
    if (!status) status = conf_session_open(&session, &run, PCO_NONE, p->err);
    if (!status) status = pco_trial_memory_write(&session.memory, p->err);
    if (!status) status = conf_session_execute(&session, p->err);
    if (!status) status = conf_probe_keep(p, &session);
    conf_session_close(&session);
    conf_run_clear(&run);
    conf_problem_clear(&problem);
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) free(data[i]);
    return status;
}

/* What the device cannot do, or does wrongly, the cases tell; a probe that did not run has no line. */
static pco_status conf_probe_ended(pco_status status)
{
    return status == PCO_ERROR_DEVICE_LOST || status == PCO_ERROR_OUT_OF_HOST_MEMORY ? status : PCO_OK;
}

/* ---- sums: how wide, and in which order ---- */

enum { WIDTHS = 60, POSITIONS = 9, COLUMNS = CONF_PROBE_PAIRS + WIDTHS * POSITIONS };

/* Where 2^k, 1 and -2^k stand: in every order and near and far, so that 1 is between the two for one of them
 * whatever the order of the sum. */
static const uint8_t POSITION[POSITIONS][3] = {{0, 1, 2},   {2, 1, 0},   {1, 0, 2},   {0, 2, 1}, {0, 32, 16},
                                               {0, 16, 32}, {63, 62, 1}, {1, 62, 63}, {0, 1, 63}};

/* The terms of one sum per column: [terms, columns] or, `rows`, [columns, terms]. */
static void conf_probe_terms(double large, double one, bool rows, double *to)
{
    const uint32_t along = rows ? 1 : COLUMNS, across = rows ? CONF_PROBE_TERMS : 1;
    uint32_t c = 0;
    for (uint32_t i = 0; i < CONF_PROBE_TERMS; i++)
        for (uint32_t j = i + 1; j < CONF_PROBE_TERMS; j++, c++) {
            for (uint32_t t = 0; t < CONF_PROBE_TERMS; t++) to[t * along + c * across] = one;
            to[i * along + c * across] = large, to[j * along + c * across] = -large;
        }
    for (uint32_t k = 0; k < WIDTHS; k++)
        for (uint32_t position = 0; position < POSITIONS; position++, c++) {
            const double small = ldexp(large, -(int)k - 1);
            for (uint32_t t = 0; t < CONF_PROBE_TERMS; t++) to[t * along + c * across] = 0;
            to[POSITION[position][0] * along + c * across] = large;
            to[POSITION[position][1] * along + c * across] = small < one ? 0 : small;
            to[POSITION[position][2] * along + c * across] = -large;
        }
}

/* What an accumulator in f16 can hold. */
static const double NARROW_LARGE = 0x1p14, NARROW_ONE = 0x1p-20;

static bool conf_probe_overflows(const conf_probing *p)
{
    for (uint64_t i = 0; i < p->count; i++)
        if (!isfinite(p->results[i])) return true;
    return false;
}

/* Bits of the accumulator, from the first sum in which 1 was lost beside 2^k; 0: none was, up to `most`. */
static uint32_t conf_probe_width(const double *sums, double large, double one, uint32_t *most)
{
    *most = 0;
    for (uint32_t k = 0; k < WIDTHS && ldexp(large, -(int)k - 1) >= one; k++) {
        *most = k + 1;
        for (uint32_t position = 0; position < POSITIONS; position++)
            if (sums[CONF_PROBE_PAIRS + k * POSITIONS + position] == 0) return k + 1;
    }
    return 0;
}

static const char *conf_probe_format(uint32_t bits, char *text, size_t size)
{
    snprintf(text, size, "%" PRIu32 " bits%s", bits,
             bits == 8    ? " (bf16)"
             : bits == 11 ? " (f16)"
             : bits == 24 ? " (f32)"
             : bits == 53 ? " (f64)"
                          : "");
    return text;
}

static pco_status conf_probe_sums(conf_probing *p, const char *name, uint32_t dtype, double large, double one)
{
    const uint32_t accumulate = dtype == PCO_F16    ? p->contract->accumulate_f16
                                : dtype == PCO_BF16 ? p->contract->accumulate_bf16
                                                    : p->contract->accumulate_f32;
    const uint32_t declared = (uint32_t)oracle_format_of(accumulate).precision;
    char key[64], value[160], promise[80];
    uint32_t most;
    const uint32_t bits = conf_probe_width(p->results, large, one, &most);
    if (bits)
        conf_probe_format(bits, value, sizeof value);
    else
        snprintf(value, sizeof value, "more than %" PRIu32 " bits", most);
    conf_probe_format(declared, promise, sizeof promise);
    snprintf(key, sizeof key, "accumulator of %.40s", name);
    pco_status status = conf_probe_say(p, key, value, promise,
                                       bits               ? bits < declared   ? PCO_PROBE_BROKEN
                                                            : bits > declared ? PCO_PROBE_BETTER
                                                                              : PCO_PROBE_KEPT
                                       : most >= declared ? PCO_PROBE_BETTER
                                                          : PCO_PROBE_KEPT);
    if (status || !bits) return status; /* where nothing is lost no order shows */
    conf_probe_leaves leaves = {{0}};
    for (uint32_t i = 0, c = 0; i < CONF_PROBE_TERMS; i++)
        for (uint32_t j = i + 1; j < CONF_PROBE_TERMS; j++, c++) {
            const double later = p->results[c] / one; /* terms that came when the two had met */
            leaves[i][j] =
                (uint8_t)(later >= 0 && later <= CONF_PROBE_TERMS - 2 ? CONF_PROBE_TERMS - lrint(later) : 255);
        }
    conf_probe_order(leaves, value, sizeof value);
    snprintf(key, sizeof key, "order of %.40s", name);
    return conf_probe_say(p, key, value, "", PCO_PROBE_TOLD);
}

static const struct conf_probe_type {
    uint32_t dtype;
    const char *name;
    double large, one; /* of sums: nothing is lost by them but in the accumulator */
} TYPES[] = {{PCO_F32, "f32", 0x1p100, 0x1p20}, {PCO_F16, "f16", 0x1p15, 0x1p-20}, {PCO_BF16, "bf16", 0x1p100, 0x1p20}};

/* "sum of f16, subgroup" */
static const char *conf_probe_name(const conf_probing *p, const char *what, uint32_t v, char *text, size_t size)
{
    char variant[PCO_VARIANT_TEXT];
    const bool several = p->n_variants > 1;
    snprintf(text, size, "%s%s%s", what, several ? ", " : "",
             several ? pco_variant_text(&p->variants[v], variant) : "");
    return text;
}

static pco_status conf_probe_reduction(conf_probing *p, const struct conf_probe_type *type, double *numbers)
{
    pco_status status = PCO_OK;
    conf_case *one = conf_cases_begin(p->context, PCO_OP_SUM, CONF_CONTRACT);
    pco_sum_attrs *attrs = (pco_sum_attrs *)one->attrs.bytes;
    attrs->n_axes = conf_cases_vector(attrs->axes, "1");
    conf_cases_in(one, type->dtype, "%d,%d", COLUMNS, CONF_PROBE_TERMS);
    p->n_variants = 1;
    for (uint32_t v = 0; v < p->n_variants && !status; v++) {
        char what[32], name[64];
        double large = type->large, small = type->one;
        p->bits = 0;
        conf_probe_terms(large, small, true, numbers);
        status = conf_probe_run(p, one, (const double *const[]){numbers}, v);
        if (!status && conf_probe_overflows(p)) {
            conf_probe_terms(large = NARROW_LARGE, small = NARROW_ONE, true, numbers);
            status = conf_probe_run(p, one, (const double *const[]){numbers}, v);
        }
        snprintf(what, sizeof what, "sum of %s", type->name);
        if (!status)
            status = conf_probe_sums(p, conf_probe_name(p, what, v, name, sizeof name), type->dtype, large, small);
        status = conf_probe_ended(status);
    }
    return status;
}

/* Two products of which one is inexact, in both orders: what is left is 2^-24 where one is added before it is
 * rounded. */
static pco_status conf_probe_fused(conf_probing *p, const conf_case *one, uint32_t rows, double *a, double *b,
                                   uint32_t v, const char *name)
{
    const double x = 1 + 0x1p-12, less = -1 - 0x1p-11;
    char key[64];
    memset(a, 0, rows * CONF_PROBE_TERMS * sizeof *a);
    memset(b, 0, CONF_PROBE_TERMS * COLUMNS * sizeof *b);
    for (uint32_t r = 0; r < rows; r++) {
        double *row = a + r * CONF_PROBE_TERMS;
        row[0] = less, row[1] = x, row[2] = x, row[3] = less;
    }
    b[0] = 1, b[COLUMNS] = x;
    b[2 * COLUMNS + 1] = x, b[3 * COLUMNS + 1] = 1;
    pco_status status = conf_probe_run(p, one, (const double *const[]){a, b}, v);
    if (status) return status;
    const bool fused = p->results[0] != 0 || p->results[1] != 0;
    snprintf(key, sizeof key, "a*b + c in %.40s", name);
    return conf_probe_say(p, key, fused ? "rounded once" : "rounded twice",
                          p->contract->contraction ? "may be rounded once" : "rounded twice",
                          fused && !p->contract->contraction ? PCO_PROBE_BROKEN : PCO_PROBE_KEPT);
}

/* Rows of ones by columns of terms. */
static pco_status conf_probe_products(conf_probing *p, const struct conf_probe_type *type, uint32_t rows, double *a,
                                      double *b)
{
    pco_status status = PCO_OK;
    conf_case *one = conf_cases_begin(p->context, PCO_OP_MATMUL, CONF_CONTRACT);
    ((pco_matmul_attrs *)one->attrs.bytes)->dtype = PCO_F32;
    conf_cases_in(one, type->dtype, "%d,%d", (int)rows, CONF_PROBE_TERMS);
    conf_cases_in(one, type->dtype, "%d,%d", CONF_PROBE_TERMS, COLUMNS);
    p->n_variants = 1;
    for (uint32_t v = 0; v < p->n_variants && !status; v++) {
        char what[48], name[64];
        for (uint32_t i = 0; i < rows * CONF_PROBE_TERMS; i++) a[i] = 1;
        double large = type->large, small = type->one;
        conf_probe_terms(large, small, false, b);
        p->bits = 0;
        status = conf_probe_run(p, one, (const double *const[]){a, b}, v);
        if (!status && conf_probe_overflows(p)) {
            conf_probe_terms(large = NARROW_LARGE, small = NARROW_ONE, false, b);
            status = conf_probe_run(p, one, (const double *const[]){a, b}, v);
        }
        snprintf(what, sizeof what, "matmul of %s, %" PRIu32 " row%s", type->name, rows, rows > 1 ? "s" : "");
        if (!status)
            status = conf_probe_sums(p, conf_probe_name(p, what, v, name, sizeof name), type->dtype, large, small);
        if (!status && type->dtype == PCO_F32 && oracle_format_of(p->contract->accumulate_f32).precision == 24)
            status = conf_probe_fused(p, one, rows, a, b, v, name);
        status = conf_probe_ended(status);
    }
    return status;
}

/* ---- one operation each ---- */

static pco_status conf_probe_elements(conf_probing *p, pco_op op, uint32_t from, uint32_t to, uint32_t n,
                                      const double *a, const double *b)
{
    conf_case *one = conf_cases_begin(p->context, op, CONF_CONTRACT);
    conf_cases_in(one, from, "%d", (int)n);
    if (b) conf_cases_in(one, from, "%d", (int)n);
    if (op == PCO_OP_CAST) ((pco_cast_attrs *)one->attrs.bytes)->dtype = to;
    p->bits = 0;
    return conf_probe_run(p, one, (const double *const[]){a, b}, 0);
}

/* What becomes of 1 and a half, 1 + u and a half, and of quarters; u is the distance of neighbours. */
static const char *conf_probe_rounding(const double *y, double u)
{
    static const struct {
        const char *words;
        double steps[6];
    } MODES[] = {{"to nearest, ties to even", {0, 2, 1, -1, 0, 0}},
                 {"to nearest, ties away from zero", {1, 2, 1, -1, 0, 0}},
                 {"toward zero", {0, 1, 0, 0, 0, 0}},
                 {"up", {1, 2, 1, 0, 1, 0}},
                 {"down", {0, 1, 0, -1, 0, -1}}};
    for (size_t m = 0; m < sizeof MODES / sizeof *MODES; m++) {
        bool fits = true;
        for (int i = 0; i < 6; i++) fits &= y[i] == (i == 3 || i == 5 ? -1 : 1) + MODES[m].steps[i] * u;
        if (fits) return MODES[m].words;
    }
    return "in no one way";
}

static pco_status conf_probe_roundings(conf_probing *p)
{
    static const struct {
        const char *name;
        pco_op op;
        uint32_t from, to;
        double unit;
    } PROBES[] = {{"rounding of f32 a + b", PCO_OP_ADD, PCO_F32, PCO_F32, 0x1p-23},
                  {"rounding of f16 a + b", PCO_OP_ADD, PCO_F16, PCO_F16, 0x1p-10},
                  {"rounding of bf16 a + b", PCO_OP_ADD, PCO_BF16, PCO_BF16, 0x1p-7},
                  {"rounding of f32 to f16", PCO_OP_CAST, PCO_F32, PCO_F16, 0x1p-10},
                  {"rounding of f32 to bf16", PCO_OP_CAST, PCO_F32, PCO_BF16, 0x1p-7}};
    for (size_t i = 0; i < sizeof PROBES / sizeof *PROBES; i++) {
        const double u = PROBES[i].unit, base[6] = {1, 1 + u, 1, -1, 1, -1},
                     more[6] = {u / 2, u / 2, 3 * u / 4, -3 * u / 4, u / 4, -u / 4};
        double sum[6];
        const bool cast = PROBES[i].op == PCO_OP_CAST;
        for (int k = 0; k < 6; k++) sum[k] = base[k] + more[k];
        pco_status status = conf_probe_elements(p, PROBES[i].op, PROBES[i].from, PROBES[i].to, 6, cast ? sum : base,
                                                cast ? NULL : more);
        if (!status) {
            const char *words = conf_probe_rounding(p->results, u);
            const bool even = strcmp(words, "to nearest, ties to even") == 0, promised = p->contract->round_to_nearest;
            status =
                conf_probe_say(p, PROBES[i].name, words, promised ? "to nearest, ties to even" : "to either neighbour",
                               conf_probe_verdict(even, promised));
        }
        status = conf_probe_ended(status);
        if (status) return status;
    }
    return PCO_OK;
}

static pco_status conf_probe_subnormals(conf_probing *p)
{
    static const struct {
        const char *name;
        pco_op op;
        uint32_t from, to;
        double a, b, y; /* b = 0: none */
        bool always;    /* kept whatever the contract says */
    } PROBES[] = {
        {"f32 subnormals read by a * b", PCO_OP_MUL, PCO_F32, PCO_F32, 0x1p-130, 0x1p10, 0x1p-120, false},
        {"f32 subnormals made by a * b", PCO_OP_MUL, PCO_F32, PCO_F32, 0x1p-100, 0x1p-30, 0x1p-130, false},
        {"f32 subnormals read by a + b", PCO_OP_ADD, PCO_F32, PCO_F32, 0x1p-127, 0x1p-126, 0x1.8p-126, false},
        {"f32 subnormals made by a + b", PCO_OP_ADD, PCO_F32, PCO_F32, 0x1.8p-126, -0x1p-126, 0x1p-127, false},
        {"bf16 subnormals read by a cast", PCO_OP_CAST, PCO_BF16, PCO_F32, 0x1p-130, 0, 0x1p-130, false},
        {"bf16 subnormals made by a cast", PCO_OP_CAST, PCO_F32, PCO_BF16, 0x1p-130, 0, 0x1p-130, false},
        {"f16 subnormals read by a cast", PCO_OP_CAST, PCO_F16, PCO_F32, 0x1p-20, 0, 0x1p-20, true},
        {"f16 subnormals made by a cast", PCO_OP_CAST, PCO_F32, PCO_F16, 0x1p-20, 0, 0x1p-20, true}};
    for (size_t i = 0; i < sizeof PROBES / sizeof *PROBES; i++) {
        double a[4], b[4];
        for (int k = 0; k < 4; k++)
            a[k] = k % 2 ? -PROBES[i].a : PROBES[i].a, b[k] = k % 2 ? -PROBES[i].b : PROBES[i].b;
        if (PROBES[i].op == PCO_OP_MUL)
            for (int k = 0; k < 4; k++) b[k] = PROBES[i].b;
        pco_status status =
            conf_probe_elements(p, PROBES[i].op, PROBES[i].from, PROBES[i].to, 4, a, PROBES[i].b != 0 ? b : NULL);
        if (!status) {
            const bool kept = p->results[0] == PROBES[i].y && p->results[1] == -PROBES[i].y;
            const bool promised = p->contract->subnormals || PROBES[i].always;
            /* of a sum the other operand is left */
            const double left = PROBES[i].op == PCO_OP_ADD && fabs(PROBES[i].a) < 0x1p-126 ? PROBES[i].b : 0;
            status = conf_probe_say(p, PROBES[i].name,
                                    kept                    ? "kept"
                                    : p->results[0] == left ? "flushed"
                                                            : "changed",
                                    promised ? "kept" : "may be flushed", conf_probe_verdict(kept, promised));
        }
        status = conf_probe_ended(status);
        if (status) return status;
    }
    return PCO_OK;
}

/* ---- functions: the largest error of many arguments ---- */

static double conf_probe_divide(double a, double b) { return a / b; }
static double conf_probe_sqrt(double a, double b)
{
    (void)b;
    return sqrt(a);
}
static double conf_probe_rsqrt(double a, double b)
{
    (void)b;
    return 1 / sqrt(a);
}
static double conf_probe_exp(double a, double b)
{
    (void)b;
    return exp(a);
}
static double conf_probe_log(double a, double b)
{
    (void)b;
    return log(a);
}
static double conf_probe_tanh(double a, double b)
{
    (void)b;
    return tanh(a);
}
static double conf_probe_erf(double a, double b)
{
    (void)b;
    return erf(a);
}

/* Units in the last place of f32 by which the reference may be off: it is a function of f64, of which glibc
 * promises no more than 2 ulp for any of these; an ulp of f64 is 2^-29 ulp of f32, and 2^-28 where the value
 * lies beside a power of two. */
static const double REFERENCE_ULP = 2 * 0x1p-28;

/* The largest error of `count` results, in ulp of f32; infinite where a result is none or not finite. */
static double conf_probe_error(const double *results, const double *values, uint32_t count)
{
    double worst = 0;
    for (uint32_t k = 0; k < count; k++) {
        int exponent;
        frexp(values[k], &exponent);
        const double error = fabs(results[k] - values[k]) / ldexp(1, exponent - 24);
        if (!isfinite(error)) return INFINITY;
        worst = fmax(worst, error);
    }
    return worst;
}

static pco_status conf_probe_functions(conf_probing *p)
{
    const pco_contract *c = p->contract;
    const struct {
        const char *name;
        pco_op op;
        double (*value)(double a, double b);
        double low, high; /* of the argument */
        float declared;
    } PROBES[] = {{"a / b", PCO_OP_DIV, conf_probe_divide, 0.01, 100, c->div_ulp},
                  {"sqrt", PCO_OP_SQRT, conf_probe_sqrt, 0.01, 100, c->sqrt_ulp},
                  {"rsqrt", PCO_OP_RSQRT, conf_probe_rsqrt, 0.01, 100, c->rsqrt_ulp},
                  {"exp", PCO_OP_EXP, conf_probe_exp, -80, 80, c->function_ulp},
                  {"log", PCO_OP_LOG, conf_probe_log, 0.01, 100, c->function_ulp},
                  {"tanh", PCO_OP_TANH, conf_probe_tanh, -8, 8, c->function_ulp},
                  {"erf", PCO_OP_ERF, conf_probe_erf, -4, 4, c->function_ulp}};
    double a[ARGUMENTS], b[ARGUMENTS];
    for (size_t i = 0; i < sizeof PROBES / sizeof *PROBES; i++) {
        uint64_t state = 88172645463325252ull;
        for (uint32_t k = 0; k < 2 * ARGUMENTS; k++) { /* Marsaglia's xorshift: the same everywhere */
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            const double unit = (double)(state >> 11) * 0x1p-53;
            (k % 2 ? b : a)[k / 2] = (float)(PROBES[i].low + unit * (PROBES[i].high - PROBES[i].low));
        }
        pco_status status =
            conf_probe_elements(p, PROBES[i].op, PCO_F32, PCO_F32, ARGUMENTS, a, PROBES[i].op == PCO_OP_DIV ? b : NULL);
        if (!status) {
            double values[ARGUMENTS];
            char key[64], value[160], promise[80];
            for (uint32_t k = 0; k < ARGUMENTS; k++) values[k] = PROBES[i].value(a[k], b[k]);
            const double worst = conf_probe_error(p->results, values, ARGUMENTS);
            snprintf(key, sizeof key, "error of %s", PROBES[i].name);
            if (!isfinite(worst))
                snprintf(value, sizeof value, "a result is not finite");
            else if (worst <= 0.5 + REFERENCE_ULP)
                snprintf(value, sizeof value, "rounded correctly");
            else
                snprintf(value, sizeof value, "%.2f ulp", worst);
            snprintf(promise, sizeof promise, "%g ulp", (double)PROBES[i].declared);
            status =
                conf_probe_say(p, key, value, promise,
                               worst > (double)PROBES[i].declared + REFERENCE_ULP ? PCO_PROBE_BROKEN : PCO_PROBE_KEPT);
        }
        status = conf_probe_ended(status);
        if (status) return status;
    }
    return PCO_OK;
}

/* ---- all of them ---- */

pco_status pco_conformance_probe_device(const pco_conformance_device *device, pco_conformance_probe *probe,
                                        pco_error *err)
{
    enum { MOST_ROWS = 16 };
    conf_probing p = {.device = device, .contract = &device->info->contract, .probe = probe, .err = err};
    double *a = malloc(MOST_ROWS * CONF_PROBE_TERMS * sizeof *a), *b = malloc(CONF_PROBE_TERMS * COLUMNS * sizeof *b);
    pco_status status = PCO_OK;
    *probe = (pco_conformance_probe){0};
    p.context = calloc(1, sizeof *p.context);
    if (!p.context || !a || !b) status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for probes");
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES && !status; t++) {
        status = conf_probe_reduction(&p, &TYPES[t], b);
        if (!status) status = conf_probe_products(&p, &TYPES[t], 1, a, b);
        if (!status) status = conf_probe_products(&p, &TYPES[t], MOST_ROWS, a, b);
    }
    if (!status) status = conf_probe_roundings(&p);
    if (!status) status = conf_probe_subnormals(&p);
    if (!status) status = conf_probe_functions(&p);
    conf_probe_finish(probe);
    free(p.context);
    free(p.results);
    free(a);
    free(b);
    return status;
}
