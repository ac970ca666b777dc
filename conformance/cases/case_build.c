/* Building cases, and leaving out those that were there already. */
#include "cases/case_build.h"

#include "graph/op.h"
#include "oracle/oracle_number.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const uint32_t CASES_FLOATS[3] = {PCO_F32, PCO_F16, PCO_BF16};
#define CASES_TYPE(NAME, name, block, bytes) PCO_##NAME,
const uint32_t CASES_PLAIN[CASES_N_PLAIN] = {PCO_FLOAT_DTYPES(CASES_TYPE) PCO_WHOLE_DTYPES(CASES_TYPE)};
const uint32_t CASES_QUANTISED[CASES_N_QUANTISED] = {PCO_QUANTISED_DTYPES(CASES_TYPE)};

int conf_cases_blocks(int size, uint32_t type)
{
    const int block = (int)oracle_block_count(type);
    return (size + block - 1) / block * block;
}

conf_case *conf_cases_begin(conf_cases_context *context, pco_op op, conf_regime regime)
{
    return conf_cases_begin_row(context, pco_op_find(op), regime);
}

conf_case *conf_cases_begin_row(conf_cases_context *context, const pco_op_info *op, conf_regime regime)
{
    conf_case *one = &context->one;
    memset(one, 0, sizeof *one);
    one->op = (uint32_t)op->op, one->regime = regime;
    one->attrs_size = pco_op_attrs_size(op);
    pco_op_default_attrs(op, one->attrs.bytes);
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
    conf_case_label(one);
    one->id = conf_cases_hash(one->label);
    if (!conf_cases_is_new(context, one->id)) return;
    one->turn = conf_cases_turn(context, one);
    /* As in a graph; the label keeps the short form that its list has. */
    if (one->n_inputs) pco_op_resolve_axes(conf_case_op(one), one->attrs.bytes, one->in[0].rank);
    if (!context->visit(context->user, one)) context->stopped = true;
}
