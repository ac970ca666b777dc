/* Building, naming and filtering cases. */
#include "cases/cases.h"
#include "cases/chain.h"

#include "graph/op.h"
#include "oracle/oracle_number.h"
#include "cases/real_data.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const uint32_t CASES_FLOATS[3] = {PCO_F32, PCO_F16, PCO_BF16};
#define CASES_TYPE(NAME, name, block, bytes) PCO_##NAME,
const uint32_t CASES_PLAIN[CASES_N_PLAIN] = {PCO_FLOAT_DTYPES(CASES_TYPE) PCO_WHOLE_DTYPES(CASES_TYPE)};
const uint32_t CASES_QUANTISED[CASES_N_QUANTISED] = {PCO_QUANTISED_DTYPES(CASES_TYPE)};

typedef void (*conf_cases_fn)(conf_cases_context *context, pco_op op);

typedef struct conf_cases_row {
    pco_op op;
    conf_cases_fn list;
} conf_cases_row;

static const conf_cases_row ROWS[] = {
#define PCO_OP(id, upper, name, family, ...) {PCO_OP_##upper, conf_cases_##family},
#include "graph/ops.def"
};

/* Groups of cases beside each op's own list: each adds what it has for the op. */
static const conf_cases_fn GROUPS[] = {
    conf_cases_contract,  conf_cases_real,       conf_cases_twins, conf_cases_traps, conf_cases_missed,
    conf_cases_constants, conf_cases_dimensions, conf_cases_chain, conf_cases_edges, conf_cases_large};

/* Several patterns may stand in a row with commas between. */
static bool conf_cases_match(const char *pattern, const char *name)
{
    char one[128];
    while (pattern) {
        const char *comma = strchr(pattern, ',');
        size_t length = comma ? (size_t)(comma - pattern) : strlen(pattern);
        snprintf(one, sizeof one, "%.*s", (int)length, pattern);
        if (fnmatch(one, name, 0) == 0) return true;
        pattern = comma ? comma + 1 : NULL;
    }
    return false;
}

void conf_cases_visit(pco_conformance_tier tier, const char *pattern, conf_visit_fn visit, void *user)
{
    conf_cases_visit_on(NULL, tier, pattern, visit, user);
}

/* Where a device names no edges: powers of two, as most kernels have them. */
static void conf_cases_edges_of(conf_cases_context *context, const pco_device_info *info)
{
    static const uint32_t USUAL[] = {8, 16, 32, 64, 128, 256};
    context->n_edges = info ? info->n_edges : 0;
    context->binding = info ? info->max_binding : 0;
    if (context->n_edges > PCO_MAX_EDGES) context->n_edges = PCO_MAX_EDGES;
    if (context->n_edges) {
        memcpy(context->edges, info->edges, context->n_edges * sizeof *context->edges);
        return;
    }
    context->n_edges = sizeof USUAL / sizeof *USUAL;
    memcpy(context->edges, USUAL, sizeof USUAL);
}

void conf_cases_visit_on(const pco_device_info *info, pco_conformance_tier tier, const char *pattern,
                         conf_visit_fn visit, void *user)
{
    /* 264 KiB, and not from the heap: a list that there is no memory for would look like an empty one */
    conf_cases_context all = {0}, *context = &all;
    conf_cases_edges_of(context, info);
    context->tier = tier, context->pattern = pattern, context->visit = visit, context->user = user;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0] && !context->stopped; i++) {
        const char *name = pco_op_find(ROWS[i].op)->name;
        if (pattern && !conf_cases_match(pattern, name)) continue;
        context->n_kinds = 0;
        ROWS[i].list(context, ROWS[i].op);
        for (size_t g = 0; g < sizeof GROUPS / sizeof GROUPS[0]; g++) GROUPS[g](context, ROWS[i].op);
    }
}

int conf_cases_blocks(int size, uint32_t type)
{
    const int block = (int)oracle_block_count(type);
    return (size + block - 1) / block * block;
}

bool conf_cases_is_slow(uint32_t op)
{
    return op == PCO_OP_MATMUL || op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION ||
           op == PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD;
}

const char *conf_regime_name(conf_regime regime)
{
    static const char *const REGIMES[] = {"exact", "random", "adversarial", "special", "real", "contract"};
    return REGIMES[regime];
}

const char *conf_case_dtype(const conf_case *one)
{
    for (uint32_t i = 0; i < one->n_inputs; i++)
        if (one->in[i].present) return oracle_dtype_name(one->in[i].dtype);
    return "";
}

conf_case *conf_cases_begin(conf_cases_context *context, pco_op op, conf_regime regime)
{
    conf_case *one = &context->one;
    memset(one, 0, sizeof *one);
    one->op = op, one->regime = regime;
    one->attrs_size = pco_op_attrs_size(pco_op_find(op));
    pco_op_default_attrs(pco_op_find(op), one->attrs.bytes);
    return one;
}

int64_t conf_cases_vector(int64_t *vector, const char *text)
{
    int64_t n = 0;
    while (*text && n < PCO_MAX_RANK) {
        char *end;
        vector[n++] = strtoll(text, &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
    return n;
}

conf_operand *conf_cases_in(conf_case *one, uint32_t dtype, const char *shape, ...)
{
    char text[96];
    va_list arguments;
    va_start(arguments, shape);
    vsnprintf(text, sizeof text, shape, arguments);
    va_end(arguments);
    conf_operand *operand = &one->in[one->n_inputs++];
    operand->present = true;
    operand->dtype = dtype;
    operand->rank = (uint32_t)conf_cases_vector(operand->shape, text);
    return operand;
}

conf_operand *conf_cases_absent(conf_case *one) { return &one->in[one->n_inputs++]; }

conf_operand *conf_cases_twin(conf_case *one, uint32_t of)
{
    conf_operand *operand = &one->in[one->n_inputs++];
    *operand = one->in[of];
    operand->twin = of + 1;
    return operand;
}

void conf_cases_list(conf_operand *operand, uint32_t n, const double *list)
{
    operand->fill = CONF_FILL_LIST;
    operand->n_list = n;
    memcpy(operand->list, list, n * sizeof *list);
}

/* ---- labels ---- */

__attribute__((format(printf, 2, 3))) static void conf_cases_append(char *label, const char *format, ...)
{
    size_t length = strlen(label);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(label + length, CONF_LABEL - length, format, arguments);
    va_end(arguments);
}

static void conf_cases_label_vector(char *label, const int64_t *vector, int64_t n)
{
    for (int64_t i = 0; i < n; i++) conf_cases_append(label, "%s%lld", i ? "," : "", (long long)vector[i]);
}

static void conf_cases_label_operand(char *label, const conf_operand *operand)
{
    static const char *const FILLS[] = {"",      "int",   "uniform", "list", "bool", "bits",
                                        "phase", "equal", "ties",    "rows", "real", "garbage"};
    if (!operand->present) {
        conf_cases_append(label, " -");
        return;
    }
    if (operand->twin) {
        conf_cases_append(label, " =in%u", operand->twin - 1);
        return;
    }
    conf_cases_append(label, " %s[", oracle_dtype_name(operand->dtype));
    conf_cases_label_vector(label, operand->shape, operand->rank);
    conf_cases_append(label, "]%s%s", operand->constant ? "const" : "", FILLS[operand->fill]);
    if (operand->fill == CONF_FILL_REAL)
        conf_cases_append(label, ":%s", conf_real_name(operand->real));
    else if (operand->fill == CONF_FILL_LIST)
        for (uint32_t i = 0; i < operand->n_list; i++)
            conf_cases_append(label, "%s%g", i ? "," : ":", operand->list[i]);
    else if (operand->low != 0.0 || operand->high != 0.0)
        conf_cases_append(label, "(%g..%g)", operand->low, operand->high);
}

/* Attributes that differ from their defaults. */
static void conf_cases_label_attrs(const conf_case *one, char *label)
{
    const pco_op_info *info = pco_op_find(one->op);
    unsigned char defaults[256] = {0};
    pco_op_default_attrs(info, defaults);
    const pco_attr_info *attr;
    for (uint32_t i = 0; (attr = pco_op_attr(info, i)) != NULL; i++) {
        const unsigned char *at = one->attrs.bytes + attr->offset;
        double real;
        int64_t vector[PCO_MAX_RANK + 1];
        if (attr->type == PCO_ATTR_VECTOR) {
            memcpy(vector, at, sizeof vector);
            conf_cases_append(label, " %s=", attr->name);
            conf_cases_label_vector(label, vector + 1, vector[0]);
        } else if (memcmp(at, defaults + attr->offset, 8) != 0) {
            memcpy(&real, at, 8);
            memcpy(vector, at, 8);
            if (attr->type == PCO_ATTR_FLOAT)
                conf_cases_append(label, " %s=%g", attr->name, real);
            else
                conf_cases_append(label, " %s=%lld", attr->name, (long long)vector[0]);
        }
    }
}

static uint32_t conf_cases_hash(const char *text)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash ? hash : 1;
}

/* Elements that a case touches: what the tiny tier is cut by. */
static int64_t conf_cases_work(const conf_case *one)
{
    int64_t work = 0;
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        int64_t count = one->in[i].present;
        for (uint32_t d = 0; d < one->in[i].rank; d++) count *= one->in[i].shape[d];
        work += count;
    }
    return work;
}

/* True the first time that an id comes. */
static bool conf_cases_is_new(conf_cases_context *context, uint32_t id)
{
    uint32_t size = sizeof context->seen / sizeof *context->seen;
    for (uint32_t i = 0; i < size; i++) {
        uint32_t *bucket = &context->seen[(id + i) % size];
        if (*bucket == id) return false;
        if (*bucket != 0) continue;
        *bucket = id;
        return true;
    }
    return true;
}

/* How many of its kind came before; 0 when there are too many kinds to remember. */
static uint32_t conf_cases_turn(conf_cases_context *context, const conf_case *one)
{
    char kind[12 * (PCO_MAX_INPUTS + 1)]; /* room for as many numbers of 32 bits */
    int length = snprintf(kind, sizeof kind, "%u", one->op);
    for (uint32_t i = 0; i < one->n_inputs; i++)
        length +=
            snprintf(kind + length, sizeof kind - (size_t)length, one->in[i].present ? " %u" : " -", one->in[i].dtype);
    const uint32_t hash = conf_cases_hash(kind);
    for (uint32_t i = 0; i < context->n_kinds; i++)
        if (context->kinds[i].hash == hash) return context->kinds[i].count++;
    if (context->n_kinds == sizeof context->kinds / sizeof *context->kinds) return 0;
    context->kinds[context->n_kinds].hash = hash;
    context->kinds[context->n_kinds++].count = 1;
    return 0;
}

void conf_cases_emit(conf_cases_context *context)
{
    conf_case *one = &context->one;
    if (context->stopped) return;
    if (context->tier == PCO_CONFORMANCE_TINY && conf_cases_work(one) > 700) return;
    conf_cases_append(one->label, "%s", pco_op_find(one->op)->name);
    for (uint32_t i = 0; i < one->n_inputs; i++) conf_cases_label_operand(one->label, &one->in[i]);
    conf_cases_label_attrs(one, one->label);
    if (one->chain) conf_cases_append(one->label, " program of %s", conf_chain_find(one->chain)->name);
    conf_cases_append(one->label, "%s %s", one->large ? " large" : "", conf_regime_name(one->regime));
    one->id = conf_cases_hash(one->label);
    if (!conf_cases_is_new(context, one->id)) return;
    one->turn = conf_cases_turn(context, one);
    /* As in a graph; the label keeps the short form that its list has. */
    if (one->n_inputs) pco_op_resolve_axes(pco_op_find(one->op), one->attrs.bytes, one->in[0].rank);
    if (!context->visit(context->user, one)) context->stopped = true;
}
