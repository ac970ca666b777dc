/* Adapters of experts: one for each, or for all in two matrices. In the graph both are stacks. */
#include "models/adapter_internal.h"

#include "base/error.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one for each ---- */

/* The tensor of another expert than that of `from`. */
static pco_status adapter_of_expert(const adapter_reading *r, const pco_weight *from, int64_t expert,
                                    const pco_weight **found, pco_error *err)
{
    size_t begin, end;
    char *name = NULL;
    pco_status status = PCO_OK;
    pco_hub_expert(adapter_hub(r->file), from->name, &begin, &end);
    if (asprintf(&name, "%.*s%" PRId64 ".%s", (int)begin, from->name, expert, from->name + end) < 0)
        return adapter_no_memory(r->all->label, err);
    *found = pco_weights_find(r->all, name);
    if (!*found)
        status = pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s has '%s' and no '%s'; Portico adapts all experts or none",
                          r->all->label, from->name, name);
    free(name);
    return status;
}

/* Has each expert a matrix as expert 0 has it? No file has room for all of them by saying so. */
static pco_status adapter_check_experts(const adapter_reading *r, const pco_weight *from, int is_b, pco_error *err)
{
    const pco_weight *expert;
    pco_status status = PCO_OK;
    for (int64_t e = 0; e < r->file->spec.experts && !status; e++) {
        status = adapter_of_expert(r, from, e, &expert, err);
        if (!status) status = adapter_check_matrix(r, expert, is_b, err);
        if (!status && (expert->shape[0] != from->shape[0] || expert->shape[1] != from->shape[1]))
            status = pco_fail(err, PCO_ERROR_UNSUPPORTED,
                              "%s: '%s' has another shape than that of expert 0; Portico adapts all experts alike",
                              r->all->label, expert->name);
    }
    return status;
}

pco_status adapter_add_expert(const adapter_reading *r, const pco_weight *from, const char *projection,
                              const adapter_projection *which, pco_error *err)
{
    const int is_b = pco_text_ends(from->name, PCO_NN_LORA_B);
    const int64_t experts = r->file->spec.experts, rows = from->shape[0], columns = from->shape[1];
    const pco_weight *expert;
    float *values;
    if (which->expert >= experts)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' is of expert %" PRId64 ", and %s has %" PRId64, r->all->label,
                        from->name, which->expert, r->file->path, experts);
    if (which->expert > 0) return adapter_of_expert(r, from, 0, &expert, err);
    pco_status status = adapter_check_experts(r, from, is_b, err);
    if (!status)
        status =
            adapter_make(r, projection, is_b ? PCO_NN_LORA_B : PCO_NN_LORA_A, experts, rows, columns, &values, err);
    for (int64_t e = 0; e < experts && !status; e++) {
        double scale = 1;
        status = adapter_of_expert(r, from, e, &expert, err);
        if (!status && is_b) status = adapter_scale_of(r, expert, &scale, err);
        if (!status) status = adapter_read_matrix(expert, scale, values + e * rows * columns, err);
    }
    return status;
}

/* ---- one for all ---- */

/* Both matrices: A [experts*rank,in], B [out,rank*experts], whose column j*experts+e is column j of expert e. */
typedef struct adapter_fused {
    int64_t experts, rank, in, out, first; /* which rows of B */
    const float *a, *b;
} adapter_fused;

static pco_status adapter_add_part(const adapter_reading *r, const adapter_fused *fused, const char *projection,
                                   int64_t rows, pco_error *err)
{
    const int64_t experts = fused->experts, rank = fused->rank, in = fused->in;
    float *a, *b;
    pco_status status = adapter_make(r, projection, PCO_NN_LORA_A, experts, rank, in, &a, err);
    if (!status) status = adapter_make(r, projection, PCO_NN_LORA_B, experts, rows, rank, &b, err);
    if (status) return status;
    memcpy(a, fused->a, (size_t)(experts * rank * in) * sizeof *a);
    for (int64_t e = 0; e < experts; e++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < rank; j++)
                b[(e * rows + i) * rank + j] = fused->b[((fused->first + i) * rank + j) * experts + e];
    return PCO_OK;
}

/* Gate and up have one adapter, or down has it: `is_pair`. */
static pco_status adapter_add_parts(const adapter_reading *r, adapter_fused *fused, int is_pair, int64_t layer,
                                    pco_error *err)
{
    const pco_model_spec *spec = &r->file->spec;
    const pco_layer_names *names = pco_spec_names(spec, PCO_DECODER);
    const char *const parts[] = {is_pair ? names->gate : names->down, names->up};
    const int64_t rows = is_pair ? fused->out / 2 : fused->out;
    char projection[PCO_SPEC_NAME];
    pco_status status = PCO_OK;
    for (int i = 0; i < 1 + is_pair && !status; i++) {
        pco_spec_layer_name(spec, PCO_DECODER, layer, parts[i], projection);
        fused->first = i * rows;
        status = adapter_add_part(r, fused, projection, rows, err);
    }
    return status;
}

/* By what PEFT calls the parameter in its patterns: the module, of two the outer one, and the parameter's name. */
static pco_status adapter_fused_scale(const adapter_reading *r, const pco_weight *b, int is_pair, int64_t rank,
                                      double *scale, pco_error *err)
{
    char module[PCO_SPEC_NAME], *parameter = NULL;
    adapter_module_of(b, module);
    const size_t size = strlen(module), inner = pco_text_ends(module, ".base_layer") ? strlen(".base_layer") : 0;
    if (asprintf(&parameter, "%.*s.%s", (int)(size - inner), module, is_pair ? "gate_up_proj" : "down_proj") < 0)
        return adapter_no_memory(r->all->label, err);
    const pco_status status = adapter_config_scale(r->config, parameter, rank, scale, err);
    free(parameter);
    return status;
}

/* Which they are, their sizes say. */
static pco_status adapter_check_pair(const adapter_reading *r, const pco_weight *a, const pco_weight *b, int *is_pair,
                                     pco_error *err)
{
    const pco_model_spec *spec = &r->file->spec;
    const int64_t width = spec->d_model, hidden = spec->ffn_dim[PCO_DECODER], experts = spec->experts;
    pco_status status = adapter_check_matrix(r, a, 0, err);
    if (!status) status = adapter_check_matrix(r, b, 1, err);
    if (status) return status;
    if (a->shape[0] % experts || a->shape[0] != b->shape[1])
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: '%s' has %" PRId64 " rows and its B %" PRId64 " columns, and should have the same number "
                        "for each of %" PRId64 " experts of %s",
                        r->all->label, a->name, a->shape[0], b->shape[1], experts, r->file->path);
    *is_pair = a->shape[1] == width && b->shape[0] == 2 * hidden;
    if (*is_pair || (a->shape[1] == hidden && b->shape[0] == width)) return PCO_OK;
    return pco_fail(err, PCO_ERROR_FORMAT,
                    "%s: '%s' and its B are of matrices [%" PRId64 ",%" PRId64 "], which the experts of %s have not",
                    r->all->label, a->name, b->shape[0], a->shape[1], r->file->path);
}

/* A, whose B has that name. */
static pco_status adapter_add_pair(const adapter_reading *r, const pco_weight *a, const char *b_name, int64_t layer,
                                   pco_error *err)
{
    const pco_weight *b = pco_weights_find(r->all, b_name);
    const int64_t experts = r->file->spec.experts;
    int is_pair;
    double scale;
    if (!b) return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' has no '%s' beside it", r->all->label, a->name, b_name);
    pco_status status = adapter_check_pair(r, a, b, &is_pair, err);
    if (status) return status;
    adapter_fused fused = {.experts = experts, .rank = a->shape[0] / experts, .in = a->shape[1], .out = b->shape[0]};
    float *a_values = malloc((size_t)(a->shape[0] * a->shape[1]) * sizeof *a_values),
          *b_values = malloc((size_t)(b->shape[0] * b->shape[1]) * sizeof *b_values);
    fused.a = a_values;
    fused.b = b_values;
    if (!a_values || !b_values) status = adapter_no_memory(r->all->label, err);
    if (!status) status = adapter_fused_scale(r, b, is_pair, fused.rank, &scale, err);
    if (!status) status = adapter_read_matrix(a, 1, a_values, err);
    if (!status) status = adapter_read_matrix(b, scale, b_values, err);
    if (!status) status = adapter_add_parts(r, &fused, is_pair, layer, err);
    free(a_values);
    free(b_values);
    return status;
}

pco_status adapter_add_fused(const adapter_reading *r, const pco_weight *from, int *known, pco_error *err)
{
    const int is_b = pco_text_ends(from->name, PCO_NN_LORA_B);
    char module[PCO_SPEC_NAME], *other = NULL;
    int64_t layer;
    adapter_module_of(from, module);
    *known = adapter_all_experts(r->file, module, &layer);
    if (!*known) return PCO_OK;
    if (asprintf(&other, "%.*s%s", (int)(strlen(from->name) - strlen(PCO_NN_LORA_A)), from->name,
                 is_b ? PCO_NN_LORA_A : PCO_NN_LORA_B) < 0)
        return adapter_no_memory(r->all->label, err);
    pco_status status = PCO_OK;
    if (!is_b)
        status = adapter_add_pair(r, from, other, layer, err);
    else if (!pco_weights_find(r->all, other))
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' has no '%s' beside it", r->all->label, from->name, other);
    free(other);
    return status;
}
