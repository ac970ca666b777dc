/* Operands against the signature of their op, and what its letters bind. */
#include "graph/infer.h"
#include "graph/op_signature.h"
#include "portico/graph.h"

#include "base/dtype.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the letters and symbols of one signature are bound to so far. */
typedef struct signature_binding {
    int64_t size[26]; /* of dimension letters; -1: free */
    int32_t type[26]; /* of type letters; -1: free */
    int has_lead;     /* `..` has been seen */
    uint32_t lead_rank;
    int64_t lead[PCO_MAX_RANK];
    uint32_t star_rank; /* `*`, broadcast so far */
    int64_t star[PCO_MAX_RANK];
    char names[26][32]; /* operand that bound each letter, for messages */
} signature_binding;

int64_t pco_tensor_elements(const pco_tensor *tensor)
{
    int64_t count = tensor != NULL;
    for (uint32_t i = 0; tensor && i < tensor->rank; i++) count *= tensor->shape[i];
    return count;
}

char *pco_tensor_shape_text(const pco_tensor *tensor, char *text)
{
    size_t used = 0;
    text[used++] = '[';
    for (uint32_t i = 0; i < tensor->rank && used < 100; i++)
        used += (size_t)snprintf(text + used, 128 - used, "%s%" PRId64, i ? "," : "", tensor->shape[i]);
    snprintf(text + used, 128 - used, "]");
    return text;
}

pco_status pco_infer_fail(const pco_shape_context *context, pco_error *err, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return pco_fail(err, PCO_ERROR_INVALID, "op '%s' (%s): %s", context->op->name,
                    context->node_name ? context->node_name : "unnamed", text);
}

/* Is `type` among the names after "LETTER=" in the op's type list? "quantised" names all types of that class. */
static int signature_type_listed(const char *types, char letter, uint32_t type, char *list, size_t size)
{
    const char *word;
    size_t length;
    const char *at = pco_signature_types(types, letter, &length);
    if (!at) return 0;
    snprintf(list, size, "%.*s", (int)length, at);
    for (const char *end = at + length; pco_signature_type_word(&at, end, &word, &length);) {
        if (pco_signature_dtype(word, length) == type) return 1;
        if (length == strlen("quantised") && !strncmp(word, "quantised", length) && pco_dtype_is_quantised(type))
            return 1;
    }
    return 0;
}

static pco_status signature_check_type(const pco_shape_context *context, signature_binding *binding,
                                       const pco_signature_operand *operand, const pco_tensor *tensor, pco_error *err)
{
    if (tensor->dtype >= PCO_DTYPE_COUNT)
        return pco_infer_fail(context, err, "%s '%s' has the unknown type %u", operand->name, tensor->name,
                              tensor->dtype);
    const char *have = pco_dtype_name(tensor->dtype);
    if (operand->type[0] == '@') return PCO_OK;
    if (strlen(operand->type) > 1) {
        if (strcmp(operand->type, have) == 0) return PCO_OK;
        return pco_infer_fail(context, err, "%s '%s' is %s, and must be %s", operand->name, tensor->name, have,
                              operand->type);
    }
    char list[64] = "";
    int letter = operand->type[0] - 'A';
    if (!signature_type_listed(context->op->types, operand->type[0], tensor->dtype, list, sizeof list))
        return pco_infer_fail(context, err, "%s '%s' is %s, and must be one of %s", operand->name, tensor->name, have,
                              list);
    if (binding->type[letter] >= 0 && binding->type[letter] != (int32_t)tensor->dtype)
        return pco_infer_fail(context, err, "%s '%s' is %s, and must have the type of the operands before it, %s",
                              operand->name, tensor->name, have, pco_dtype_name((uint32_t)binding->type[letter]));
    binding->type[letter] = (int32_t)tensor->dtype;
    return PCO_OK;
}

static pco_status signature_bind_star(const pco_shape_context *context, signature_binding *binding,
                                      const pco_tensor *tensor, pco_error *err)
{
    uint32_t rank = tensor->rank > binding->star_rank ? tensor->rank : binding->star_rank;
    int64_t shape[PCO_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t from_end = rank - 1 - i;
        int64_t a = from_end < binding->star_rank ? binding->star[binding->star_rank - 1 - from_end] : 1;
        int64_t b = from_end < tensor->rank ? tensor->shape[tensor->rank - 1 - from_end] : 1;
        if (a != b && a != 1 && b != 1) {
            char left[128], right[128];
            pco_tensor seen = {.rank = binding->star_rank};
            memcpy(seen.shape, binding->star, sizeof seen.shape);
            return pco_infer_fail(context, err, "shapes %s and %s ('%s') cannot be broadcast together",
                                  pco_tensor_shape_text(&seen, left), pco_tensor_shape_text(tensor, right),
                                  tensor->name);
        }
        shape[i] = a == 1 ? b : a;
    }
    memcpy(binding->star, shape, rank * sizeof *shape);
    binding->star_rank = rank;
    return PCO_OK;
}

static pco_status signature_bind_lead(const pco_shape_context *context, signature_binding *binding,
                                      const pco_signature_operand *operand, const pco_tensor *tensor, uint32_t rank,
                                      pco_error *err)
{
    if (!binding->has_lead) {
        binding->has_lead = 1;
        binding->lead_rank = rank;
        memcpy(binding->lead, tensor->shape, rank * sizeof(int64_t));
        return PCO_OK;
    }
    if (binding->lead_rank == rank && memcmp(binding->lead, tensor->shape, rank * sizeof(int64_t)) == 0) return PCO_OK;
    char have[128], want[128];
    pco_tensor seen = {.rank = binding->lead_rank};
    memcpy(seen.shape, binding->lead, sizeof seen.shape);
    return pco_infer_fail(context, err, "%s '%s' has shape %s, and its leading dimensions must be %s", operand->name,
                          tensor->name, pco_tensor_shape_text(tensor, have), pco_tensor_shape_text(&seen, want));
}

static pco_status signature_check_dims(const pco_shape_context *context, signature_binding *binding,
                                       const pco_signature_operand *operand, const pco_tensor *tensor, pco_error *err)
{
    if (operand->is_free) return PCO_OK;
    if (operand->broadcasts) return signature_bind_star(context, binding, tensor, err);
    char text[128];
    const uint32_t fixed = operand->n_sizes;
    if (tensor->rank < fixed || (!operand->leads && tensor->rank != fixed))
        return pco_infer_fail(context, err, "%s '%s' has shape %s, and must have %s%u dimension%s [%s]", operand->name,
                              tensor->name, pco_tensor_shape_text(tensor, text), operand->leads ? "at least " : "",
                              fixed, fixed == 1 ? "" : "s", operand->dims);
    uint32_t at = tensor->rank - fixed;
    if (operand->leads) {
        pco_status status = signature_bind_lead(context, binding, operand, tensor, at, err);
        if (status) return status;
    }
    for (const char *dims = operand->sizes; *dims; dims++) {
        int64_t have = tensor->shape[at++];
        if (*dims <= '9') {
            if (have != *dims - '0')
                return pco_infer_fail(context, err, "%s '%s' has shape %s, and dimension %u must be %c", operand->name,
                                      tensor->name, pco_tensor_shape_text(tensor, text), at - 1, *dims);
            continue;
        }
        int letter = *dims - 'A';
        if (binding->size[letter] >= 0 && binding->size[letter] != have)
            return pco_infer_fail(context, err,
                                  "%s '%s' has shape %s: dimension %u (%c) is %" PRId64 ", but %s has %c = %" PRId64,
                                  operand->name, tensor->name, pco_tensor_shape_text(tensor, text), at - 1, *dims, have,
                                  binding->names[letter], *dims, binding->size[letter]);
        if (binding->size[letter] < 0)
            snprintf(binding->names[letter], sizeof binding->names[letter], "%s", operand->name);
        binding->size[letter] = have;
    }
    return PCO_OK;
}

static pco_status signature_fill_output(const pco_shape_context *context, const signature_binding *binding,
                                        const pco_signature_operand *operand, pco_tensor *out, pco_error *err)
{
    if (operand->type[1] == 0 && operand->type[0] != '@')
        out->dtype = (uint32_t)binding->type[operand->type[0] - 'A'];
    else if (operand->type[1])
        out->dtype = pco_signature_dtype(operand->type, strlen(operand->type));
    if (operand->is_free) return PCO_OK;
    if (operand->broadcasts) {
        out->rank = binding->star_rank;
        memcpy(out->shape, binding->star, sizeof out->shape);
        return PCO_OK;
    }
    if (operand->leads) {
        out->rank = binding->lead_rank;
        memcpy(out->shape, binding->lead, sizeof out->shape);
    }
    if (out->rank + operand->n_sizes > PCO_MAX_RANK)
        return pco_infer_fail(context, err, "result %s would have %u dimensions, and a tensor has up to %d",
                              operand->name, out->rank + operand->n_sizes, PCO_MAX_RANK);
    for (const char *dims = operand->sizes; *dims; dims++)
        out->shape[out->rank++] = *dims >= 'A' ? binding->size[*dims - 'A'] : *dims - '0';
    return PCO_OK;
}

pco_status pco_infer_signature(pco_shape_context *context, pco_error *err)
{
    signature_binding binding = {0};
    memset(binding.size, 0xff, sizeof binding.size);
    memset(binding.type, 0xff, sizeof binding.type);
    pco_signature_reader reader = {.at = context->op->signature};
    pco_signature_operand operand;
    uint32_t count = 0;
    int more = pco_signature_next(&reader, &operand);
    for (; more && !operand.result; more = pco_signature_next(&reader, &operand)) {
        const pco_tensor *tensor = operand.index < context->n_inputs ? context->inputs[operand.index] : NULL;
        count++;
        if (!tensor) {
            if (operand.optional) continue;
            return pco_infer_fail(context, err, "operand '%s' is missing", operand.name);
        }
        pco_status status = signature_check_type(context, &binding, &operand, tensor, err);
        if (!status) status = signature_check_dims(context, &binding, &operand, tensor, err);
        if (status) return status;
    }
    if (context->n_inputs > count)
        return pco_infer_fail(context, err, "%u operands were given, and it takes at most %u", context->n_inputs,
                              count);
    context->n_outputs = 0;
    for (; more; more = pco_signature_next(&reader, &operand)) {
        pco_tensor *out = &context->outputs[operand.index];
        *out = (pco_tensor){.alias = PCO_NONE, .name = ""};
        pco_status status = signature_fill_output(context, &binding, &operand, out, err);
        if (status) return status;
        if (!operand.optional) context->n_outputs = operand.index + 1;
    }
    return PCO_OK;
}

pco_status pco_infer(pco_shape_context *context, pco_error *err)
{
    pco_status status = pco_infer_signature(context, err);
    if (!status && context->op->infer) status = context->op->infer(context, err);
    return status;
}
