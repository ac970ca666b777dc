#include "graph/own.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/hash.h"
#include "graph/infer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A word of [a-z][a-z0-9_]*, of 31 characters at most; returns its length, or 0. */
static size_t own_word(const char *text)
{
    const size_t length = text ? strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;
    return length > 0 && length < 32 && text[0] >= 'a' && text[0] <= 'z' ? length : 0;
}

static int own_is_name(const char *text) { return own_word(text) && !text[own_word(text)]; }

/* One operand or result, "name?:TYPE[dims]"; returns what is behind it, or NULL. */
static const char *own_operand(const char *at, int result, const char **why)
{
    const size_t name = own_word(at);
    *why = "a name is missing";
    if (!name) return NULL;
    at += name;
    if (*at == '?') at++;
    *why = "a type is missing";
    if (*at++ != ':') return NULL;
    const size_t type = strcspn(at, "[ ");
    if (type < 1 || type > 7 || at[type] != '[') return NULL;
    *why = "dimensions are missing, or longer than 31 characters";
    at += type + 1;
    const size_t dims = strcspn(at, "]");
    if (dims > 31 || at[dims] != ']') return NULL;
    *why = "dimensions are `..`, `*`, `@`, capital letters and digits, with commas between";
    for (size_t i = 0; i < dims; i++)
        if (!strchr("*@,", at[i]) && !(at[i] == '.' && i < 2) && !(at[i] >= 'A' && at[i] <= 'Z') &&
            !(at[i] >= '0' && at[i] <= '9'))
            return NULL;
    (void)result;
    at += dims + 1;
    return at + strspn(at, " ");
}

/* The letters of types that the list names, "F=f32,f16 G=i32". */
static pco_status own_check_types(const pco_op_declaration *d, pco_error *err)
{
    for (const char *at = d->types; at && *at;) {
        if (at[0] < 'A' || at[0] > 'Z' || at[1] != '=')
            return pco_fail(err, PCO_ERROR_INVALID, "op '%s': types are \"F=f32,f16\", not \"%s\"", d->name, d->types);
        at += 2;
        while (*at && *at != ' ') {
            const size_t length = strcspn(at, ", ");
            uint32_t type = 0;
            while (type < PCO_DTYPE_COUNT &&
                   (strncmp(pco_dtype_name(type), at, length) || pco_dtype_name(type)[length]))
                type++;
            if (type == PCO_DTYPE_COUNT || pco_dtype_is_quantised(type))
                return pco_fail(err, PCO_ERROR_INVALID, "op '%s': \"%.*s\" is no element type that it can have",
                                d->name, (int)length, at);
            at += length + (at[length] == ',');
        }
        at += strspn(at, " ");
    }
    return PCO_OK;
}

static int own_has_letter(const char *types, char letter)
{
    for (const char *at = types; at && *at; at++)
        if (at[0] == letter && at[1] == '=') return 1;
    return 0;
}

/* The type of an operand: a letter of the list, a type's name, or @. */
static int own_type_is_known(const pco_op_declaration *d, const char *operand)
{
    const char *type = strchr(operand, ':') + 1;
    const size_t length = strcspn(type, "[");
    if (length == 1) return *type == '@' || own_has_letter(d->types, *type);
    for (uint32_t i = 0; i < PCO_DTYPE_COUNT; i++)
        if (strlen(pco_dtype_name(i)) == length && !strncmp(pco_dtype_name(i), type, length))
            return !pco_dtype_is_quantised(i);
    return 0;
}

/* Is the word at `name` the name of one before it? */
static int own_is_named(const char *signature, const char *name)
{
    const size_t length = own_word(name);
    for (const char *at = signature; at < name; at += strcspn(at, " "), at += strspn(at, " "))
        if (own_word(at) == length && !strncmp(at, name, length)) return 1;
    return 0;
}

static pco_status own_check_signature(const pco_op_declaration *d, pco_error *err)
{
    const char *at = d->signature + strspn(d->signature, " "), *why = "there is no \"->\"";
    uint32_t count[2] = {0, 0};
    int result = 0;
    while (at && *at) {
        if (!strncmp(at, "->", 2)) {
            if (result++) break;
            at += 2;
            at += strspn(at, " ");
            continue;
        }
        const char *operand = at;
        at = own_operand(at, result, &why);
        if (!at) break;
        if (!own_type_is_known(d, operand))
            return pco_fail(err, PCO_ERROR_INVALID, "op '%s': the type in \"%.*s\" is neither a type nor one of \"%s\"",
                            d->name, (int)strcspn(operand, " "), operand, d->types ? d->types : "");
        if (own_is_named(d->signature, operand))
            return pco_fail(err, PCO_ERROR_INVALID, "op '%s': two operands or results are called \"%.*s\"", d->name,
                            (int)own_word(operand), operand);
        count[result]++;
    }
    if (!at || result != 1)
        return pco_fail(err, PCO_ERROR_INVALID, "op '%s': its signature \"%s\" is not understood: %s", d->name,
                        d->signature, why);
    if (count[0] > PCO_MAX_INPUTS || count[1] > PCO_MAX_OUTPUTS || !count[0] || !count[1])
        return pco_fail(err, PCO_ERROR_INVALID, "op '%s': %u operands and %u results; 1 to %d and 1 to %d can be",
                        d->name, count[0], count[1], PCO_MAX_INPUTS, PCO_MAX_OUTPUTS);
    return PCO_OK;
}

static pco_status own_check(const pco_op_declaration *d, pco_error *err)
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
    pco_status status = own_check_types(d, err);
    return status ? status : own_check_signature(d, err);
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
    if (!d->ulps) d->ulps = 16;
    if (!d->types) d->types = "";
    if (!d->doc) d->doc = "";
    if (!status) status = own_check(d, err);
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
    const uint32_t facts[] = {d->workgroup, d->group_per_row};
    uint64_t hash = pco_hash(PCO_HASH_START, facts, sizeof facts);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) hash = pco_hash(hash, texts[i], strlen(texts[i]) + 1);
    return pco_hash(hash, (const unsigned char *)attrs + sizeof(pco_own_attrs), 8 * operation->n_attrs);
}
