/* A case in words. */
#include "cases/case.h"
#include "cases/chain.h"
#include "cases/real_data.h"

#include "graph/op.h"
#include "oracle/oracle_number.h"

#include <stdarg.h>
#include <string.h>

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

__attribute__((format(printf, 2, 3))) static void conf_label_append(char *label, const char *format, ...)
{
    size_t length = strlen(label);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(label + length, CONF_LABEL - length, format, arguments);
    va_end(arguments);
}

static void conf_label_vector(char *label, const int64_t *vector, int64_t n)
{
    for (int64_t i = 0; i < n; i++) conf_label_append(label, "%s%lld", i ? "," : "", (long long)vector[i]);
}

static void conf_label_operand(char *label, const conf_operand *operand)
{
    static const char *const FILLS[] = {"",       "int",   "uniform", "list",   "bool",  "bits",
                                        "phase",  "equal", "ties",    "rows",   "real",  "garbage",
                                        "unseen", "keys",  "spread",  "sparse", "rising"};
    if (!operand->present) {
        conf_label_append(label, " -");
        return;
    }
    if (operand->twin) {
        conf_label_append(label, " =in%u", operand->twin - 1);
        return;
    }
    conf_label_append(label, " %s[", oracle_dtype_name(operand->dtype));
    conf_label_vector(label, operand->shape, operand->rank);
    conf_label_append(label, "]%s%s", operand->constant ? "const" : "", FILLS[operand->fill]);
    if (operand->fill == CONF_FILL_REAL)
        conf_label_append(label, ":%s", conf_real_name(operand->real));
    else if (operand->fill == CONF_FILL_LIST)
        for (uint32_t i = 0; i < operand->n_list; i++)
            conf_label_append(label, "%s%g", i ? "," : ":", operand->list[i]);
    else if (operand->low != 0.0 || operand->high != 0.0)
        conf_label_append(label, "(%g..%g)", operand->low, operand->high);
}

/* Attributes that differ from their defaults. */
static void conf_label_attrs(const conf_case *one, char *label)
{
    const pco_op_info *info = conf_case_op(one);
    unsigned char defaults[256] = {0};
    pco_op_default_attrs(info, defaults);
    const pco_attr_info *attr;
    for (uint32_t i = 0; (attr = pco_op_attr(info, i)) != NULL; i++) {
        const unsigned char *at = one->attrs.bytes + attr->offset;
        double real;
        int64_t vector[PCO_MAX_RANK + 1];
        if (attr->type == PCO_ATTR_VECTOR) {
            memcpy(vector, at, sizeof vector);
            conf_label_append(label, " %s=", attr->name);
            conf_label_vector(label, vector + 1, vector[0]);
        } else if (memcmp(at, defaults + attr->offset, 8) != 0) {
            memcpy(&real, at, 8);
            memcpy(vector, at, 8);
            if (attr->type == PCO_ATTR_FLOAT)
                conf_label_append(label, " %s=%g", attr->name, real);
            else
                conf_label_append(label, " %s=%lld", attr->name, (long long)vector[0]);
        }
    }
}

void conf_case_label(conf_case *one)
{
    conf_label_append(one->label, "%s", conf_case_op(one)->name);
    for (uint32_t i = 0; i < one->n_inputs; i++) conf_label_operand(one->label, &one->in[i]);
    conf_label_attrs(one, one->label);
    if (one->chain) conf_label_append(one->label, " program of %s", conf_chain_find(one->chain)->name);
    conf_label_append(one->label, "%s %s", one->large ? " large" : "", conf_regime_name(one->regime));
}
