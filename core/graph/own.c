#include "graph/own.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/hash.h"
#include "graph/infer.h"
#include "graph/op_signature.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int own_is_name(const char *text) { return pco_signature_word(text) && !text[pco_signature_word(text)]; }

/* One letter's types behind "F=": element types, each once, and no stray comma. */
static pco_status own_check_list(const pco_op_declaration *d, const char *list, size_t length, pco_error *err)
{
    const char *word, *end = list + length;
    size_t size;
    uint64_t seen = 0;
    if (!length || list[length - 1] == ',')
        return pco_fail(err, PCO_ERROR_INVALID, "op '%s': a type is missing in \"%s\"", d->name, d->types);
    while (pco_signature_type_word(&list, end, &word, &size)) {
        const uint32_t type = pco_signature_dtype(word, size);
        if (type == PCO_NONE || pco_dtype_is_quantised(type))
            return pco_fail(err, PCO_ERROR_INVALID, "op '%s': \"%.*s\" is no element type that it can have", d->name,
                            (int)size, word);
        if (seen >> type & 1)
            return pco_fail(err, PCO_ERROR_INVALID, "op '%s': \"%s\" has %s twice for one letter", d->name, d->types,
                            pco_dtype_name(type));
        seen |= UINT64_C(1) << type;
    }
    return PCO_OK;
}

/* The letters of types that the list names, "F=f32,f16 G=i32". */
static pco_status own_check_types(const pco_op_declaration *d, pco_error *err)
{
    uint32_t seen = 0;
    pco_status status = PCO_OK;
    for (const char *at = d->types; *at && !status;) {
        if (at[0] < 'A' || at[0] > 'Z' || at[1] != '=')
            return pco_fail(err, PCO_ERROR_INVALID, "op '%s': types are \"F=f32,f16 G=i32\", not \"%s\"", d->name,
                            d->types);
        if (seen >> (at[0] - 'A') & 1)
            return pco_fail(err, PCO_ERROR_INVALID, "op '%s': \"%s\" lists types of %c twice", d->name, d->types,
                            at[0]);
        seen |= 1u << (at[0] - 'A');
        at += 2;
        const size_t length = strcspn(at, " ");
        status = own_check_list(d, at, length, err);
        at += length + (at[length] == ' ');
    }
    return status;
}

/* What a signature has said so far. */
typedef struct own_said {
    char names[PCO_MAX_INPUTS + PCO_MAX_OUTPUTS][32];
    uint32_t n_names, count[2];
    uint32_t types, sizes; /* letters of operands, as bits */
    int leads, broadcasts;
} own_said;

/* The type of an operand or result: a letter of the list, a type's name, or @. */
static pco_status own_check_type(const pco_op_declaration *d, const pco_signature_operand *operand, pco_error *err)
{
    const char *type = operand->type;
    size_t length;
    const uint32_t named = pco_signature_dtype(type, strlen(type));
    if (type[1] ? named != PCO_NONE && !pco_dtype_is_quantised(named)
                : *type == '@' || (*type >= 'A' && *type <= 'Z' && pco_signature_types(d->types, *type, &length)))
        return PCO_OK;
    return pco_fail(err, PCO_ERROR_INVALID, "op '%s': the type of \"%s:%s[%s]\" is neither a type nor one of \"%s\"",
                    d->name, operand->name, type, operand->dims, d->types);
}

/* A result's type and shape must follow from the operands, where no function says them. */
static pco_status own_check_result(const pco_op_declaration *d, const pco_signature_operand *result,
                                   const own_said *said, pco_error *err)
{
    char open[4] = "";
    if (result->optional)
        return pco_fail(err, PCO_ERROR_INVALID,
                        "op '%s': result %s is marked as one that may be absent; function shape makes results fewer",
                        d->name, result->name);
    if (d->shape) return PCO_OK;
    if (result->is_free || result->type[0] == '@') snprintf(open, sizeof open, "@");
    if (result->leads && !said->leads) snprintf(open, sizeof open, "..");
    if (result->broadcasts && !said->broadcasts) snprintf(open, sizeof open, "*");
    if (!result->type[1] && result->type[0] != '@' && !(said->types >> (result->type[0] - 'A') & 1))
        snprintf(open, sizeof open, "%c", result->type[0]);
    for (const char *size = result->sizes; *size; size++)
        if (*size >= 'A' && !(said->sizes >> (*size - 'A') & 1)) snprintf(open, sizeof open, "%c", *size);
    if (!open[0]) return PCO_OK;
    return pco_fail(err, PCO_ERROR_INVALID,
                    "op '%s': what `%s` of result \"%s:%s[%s]\" is follows from no operand, and there is no function "
                    "shape",
                    d->name, open, result->name, result->type, result->dims);
}

static pco_status own_check_operand(const pco_op_declaration *d, const pco_signature_operand *operand, own_said *said,
                                    pco_error *err)
{
    pco_status status = own_check_type(d, operand, err);
    if (!status && operand->result) status = own_check_result(d, operand, said, err);
    if (status) return status;
    for (uint32_t i = 0; i < said->n_names; i++)
        if (!strcmp(said->names[i], operand->name))
            return pco_fail(err, PCO_ERROR_INVALID, "op '%s': two operands or results are called \"%s\"", d->name,
                            operand->name);
    said->count[operand->result]++;
    if (said->n_names < PCO_MAX_INPUTS + PCO_MAX_OUTPUTS)
        memcpy(said->names[said->n_names++], operand->name, sizeof operand->name);
    if (operand->result) return PCO_OK;
    if (!operand->type[1] && operand->type[0] != '@') said->types |= 1u << (operand->type[0] - 'A');
    for (const char *size = operand->sizes; *size; size++)
        if (*size >= 'A') said->sizes |= 1u << (*size - 'A');
    said->leads |= operand->leads, said->broadcasts |= operand->broadcasts;
    return PCO_OK;
}

static pco_status own_check_signature(const pco_op_declaration *d, own_said *said, pco_error *err)
{
    pco_signature_reader reader = {.at = d->signature};
    pco_signature_operand operand;
    pco_status status = PCO_OK;
    while (!status && pco_signature_next(&reader, &operand)) status = own_check_operand(d, &operand, said, err);
    if (status) return status;
    if (reader.why)
        return pco_fail(err, PCO_ERROR_INVALID, "op '%s': its signature \"%s\" is not understood at \"%.40s\": %s",
                        d->name, d->signature, reader.at, reader.why);
    if (said->count[0] > PCO_MAX_INPUTS || said->count[1] > PCO_MAX_OUTPUTS || !said->count[0] || !said->count[1])
        return pco_fail(err, PCO_ERROR_INVALID, "op '%s': %u operands and %u results; 1 to %d and 1 to %d can be",
                        d->name, said->count[0], said->count[1], PCO_MAX_INPUTS, PCO_MAX_OUTPUTS);
    return PCO_OK;
}

/* One operand of a list for tests, "3,65", "" (no dimensions) or "-", of up to 2^31 elements. */
static int own_is_shape(const char *text, size_t length)
{
    double count = 1, size = 0;
    uint32_t rank = 1;
    if (!length || (length == 1 && *text == '-')) return 1;
    for (size_t i = 0, digits = 0; i <= length; i++) {
        if (i < length && text[i] >= '0' && text[i] <= '9' && ++digits < 10) {
            size = 10 * size + (text[i] - '0');
            continue;
        }
        if (!digits || (i < length && text[i] != ',')) return 0;
        count *= size < 1 ? 1 : size;
        rank += i < length;
        digits = 0, size = 0;
    }
    return rank <= PCO_MAX_RANK && count <= 0x1p31;
}

static pco_status own_check_shapes(const pco_op_declaration *d, uint32_t n_inputs, pco_error *err)
{
    for (uint32_t k = 0; d->shapes && d->shapes[k]; k++) {
        const char *at = d->shapes[k];
        uint32_t count = 1;
        int good = own_is_shape(at, strcspn(at, " "));
        for (at += strcspn(at, " "); good && *at == ' '; count++) {
            good = own_is_shape(at + 1, strcspn(at + 1, " "));
            at += 1 + strcspn(at + 1, " ");
        }
        if (!good || count != n_inputs)
            return pco_fail(err, PCO_ERROR_INVALID,
                            "op '%s': shapes for tests are \"3,65 65\" for two operands, not \"%.60s\" for %u", d->name,
                            d->shapes[k], n_inputs);
    }
    return PCO_OK;
}

static pco_status own_check_settings(const pco_op_declaration *d, pco_error *err)
{
    enum { MOST = 1024 };
    if (d->n_settings && (!d->settings || !d->n_attributes || d->n_settings > MOST))
        return pco_fail(err, PCO_ERROR_INVALID, "op '%s': settings are %u rows of %u attributes%s; %d can be", d->name,
                        d->n_settings, d->n_attributes, d->settings ? "" : ", and NULL", MOST);
    for (uint32_t i = 0; i < d->n_settings * d->n_attributes; i++) {
        const pco_op_attribute *attribute = &d->attributes[i % d->n_attributes];
        const double value = d->settings[i];
        if (!isfinite(value) || (!attribute->is_float && (fabs(value) > 0x1p53 || floor(value) != value)))
            return pco_fail(err, PCO_ERROR_INVALID, "op '%s': settings have %g for attribute %s, %s", d->name, value,
                            attribute->name, attribute->is_float ? "a double" : "an int64_t");
    }
    return PCO_OK;
}

/* What is declared for tests. */
static pco_status own_check_tests(const pco_op_declaration *d, uint32_t n_inputs, pco_error *err)
{
    for (uint32_t i = 0; d->ranges && i < n_inputs; i++)
        if (!(d->ranges[i].low <= d->ranges[i].high) || !isfinite(d->ranges[i].low) || !isfinite(d->ranges[i].high))
            return pco_fail(err, PCO_ERROR_INVALID, "op '%s': the range of operand %u is %g to %g", d->name, i,
                            d->ranges[i].low, d->ranges[i].high);
    pco_status status = own_check_shapes(d, n_inputs, err);
    return status ? status : own_check_settings(d, err);
}

static pco_status own_check(const pco_op_declaration *d, uint32_t *n_inputs, pco_error *err)
{
    if (!own_is_name(d->name))
        return pco_fail(err, PCO_ERROR_INVALID,
                        "an op's name \"%.40s\" is not a lower-case letter and then up to 30 of a-z, 0-9 and _",
                        d->name ? d->name : "");
    if (pco_op_find_name(d->name))
        return pco_fail(err, PCO_ERROR_INVALID, "op '%s': the table has an operation of that name", d->name);
    if (!d->signature || !d->compute)
        return pco_fail(err, PCO_ERROR_INVALID, "op '%s': its %s is NULL", d->name,
                        d->signature ? "function compute" : "signature");
    if (d->n_attributes > PCO_OP_ATTRIBUTES || (d->n_attributes && !d->attributes))
        return pco_fail(err, PCO_ERROR_INVALID, "op '%s': %u attributes at %s; %d can be", d->name, d->n_attributes,
                        d->attributes ? "one op" : "NULL", PCO_OP_ATTRIBUTES);
    for (uint32_t i = 0; i < d->n_attributes; i++)
        if (!own_is_name(d->attributes[i].name))
            return pco_fail(err, PCO_ERROR_INVALID, "op '%s': attribute %u has no proper name", d->name, i);
    if (!(d->ulps >= 0) || !isfinite(d->ulps))
        return pco_fail(err, PCO_ERROR_INVALID, "op '%s': ulps is %g", d->name, d->ulps);
    if (d->workgroup > 1024 || (d->workgroup & (d->workgroup - 1)))
        return pco_fail(err, PCO_ERROR_INVALID, "op '%s': a workgroup of %u is no power of two up to 1024", d->name,
                        d->workgroup);
    own_said said = {.n_names = 0};
    pco_status status = own_check_types(d, err);
    if (!status) status = own_check_signature(d, &said, err);
    *n_inputs = said.count[0];
    return status ? status : own_check_tests(d, *n_inputs, err);
}

pco_op_call pco_operation_call(const pco_operation *operation, const void *attrs)
{
    return (pco_op_call){.declaration = &operation->declaration,
                         .attrs = attrs ? (const unsigned char *)attrs + sizeof(pco_own_attrs) : NULL};
}

static pco_status own_infer(pco_shape_context *context, pco_error *err)
{
    const pco_operation *own = context->op->own;
    for (uint32_t i = 0; i < context->n_inputs; i++)
        if (context->inputs[i] && pco_dtype_is_quantised(context->inputs[i]->dtype))
            return pco_infer_fail(context, err, "operand %u is quantised", i);
    if (own->declaration.shape) {
        pco_op_call call = pco_operation_call(own, context->attrs);
        const uint32_t most = context->n_outputs;
        call.n_inputs = context->n_inputs;
        memcpy(call.inputs, context->inputs, sizeof call.inputs);
        pco_error why = {""};
        const pco_status status = own->declaration.shape(&call, context->outputs, &context->n_outputs, &why);
        if (status)
            return pco_fail(err, status, "op '%s' (%s): %s", own->declaration.name, context->node_name,
                            why.message[0] ? why.message : "its function shape refuses the operands");
        if (context->n_outputs > most || !context->n_outputs)
            return pco_infer_fail(context, err, "its function shape says that there are %u results of %u",
                                  context->n_outputs, most);
    }
    for (uint32_t i = 0; i < context->n_outputs; i++) {
        const pco_tensor *y = &context->outputs[i];
        int good = y->rank <= PCO_MAX_RANK && y->dtype < PCO_DTYPE_COUNT && !pco_dtype_is_quantised(y->dtype);
        for (uint32_t d = 0; good && d < y->rank; d++) good = y->shape[d] >= 0;
        if (!good) return pco_infer_fail(context, err, "result %u has no possible type or shape", i);
    }
    return PCO_OK;
}

pco_status pco_operation_create(const pco_op_declaration *from, pco_operation **operation, pco_error *err)
{
    *operation = NULL;
    pco_operation *made = calloc(1, sizeof *made);
    if (!made) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for an operation");
    pco_op_declaration *d = &made->declaration;
    pco_status status = pco_copy_sized(d, sizeof *d, from, from->size, err);
    d->size = sizeof *d;
    /* one function of the kernels' dialect within 4 ulp, which is 8 u, and eight roundings of 1 u (docs/numerics.md) */
    if (!d->ulps) d->ulps = 16;
    if (!d->types) d->types = "";
    if (!d->doc) d->doc = "";
    if (!status) status = own_check(d, &made->n_inputs, err);
    if (status) {
        free(made);
        return status;
    }
    const uint64_t hash = pco_hash(PCO_HASH_START, d->name, strlen(d->name));
    made->info = (pco_op_info){.op = (pco_op)(PCO_OP_OWN | (uint32_t)((hash ^ hash >> 32) & 0x3fffffff)),
                               .name = d->name,
                               .signature = d->signature,
                               .types = d->types,
                               .doc = d->doc,
                               .infer = own_infer,
                               .split = PCO_SPLIT_NONE,
                               .bound = PCO_BOUND_COMPOSITE,
                               .rows = PCO_ROWS_NONE,
                               .own = made};
    made->n_attrs = d->n_attributes;
    for (uint32_t i = 0; i < d->n_attributes; i++)
        made->attrs[i] = (pco_attr_info){.name = d->attributes[i].name,
                                         .type = d->attributes[i].is_float ? PCO_ATTR_FLOAT : PCO_ATTR_INT,
                                         .offset = (uint32_t)sizeof(pco_own_attrs) + 8 * i,
                                         .initial = d->attributes[i].initial,
                                         .doc = d->attributes[i].doc ? d->attributes[i].doc : ""};
    atomic_init(&made->holders, 1);
    *operation = made;
    return PCO_OK;
}

void pco_operation_hold(pco_operation *operation) { atomic_fetch_add(&operation->holders, 1); }

void pco_operation_drop(pco_operation *operation)
{
    if (operation && atomic_fetch_sub(&operation->holders, 1) == 1) free(operation);
}

uint64_t pco_operation_hash(const pco_operation *operation, const void *attrs)
{
    const pco_op_declaration *d = &operation->declaration;
    const char *const texts[] = {d->name, d->signature, d->types, d->kernel ? d->kernel : ""};
    const uint32_t facts[] = {d->workgroup, d->group_per_row, d->ranges != NULL, d->magnitude != NULL};
    uint64_t hash = pco_hash(PCO_HASH_START, facts, sizeof facts);
    hash = pco_hash(hash, &d->ulps, sizeof d->ulps);
    if (d->ranges) hash = pco_hash(hash, d->ranges, operation->n_inputs * sizeof *d->ranges);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) hash = pco_hash(hash, texts[i], strlen(texts[i]) + 1);
    for (uint32_t i = 0; i < operation->n_attrs; i++) {
        hash = pco_hash(hash, operation->attrs[i].name, strlen(operation->attrs[i].name) + 1);
        hash = pco_hash(hash, &operation->attrs[i].type, sizeof operation->attrs[i].type);
    }
    return pco_hash(hash, (const unsigned char *)attrs + sizeof(pco_own_attrs), 8 * operation->n_attrs);
}
