/* Adapters from files, and to files. */
#include "models/adapter_internal.h"

#include "base/error.h"
#include "base/utf8.h"
#include "formats/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char adapter_config_name[] = "adapter_config.json", adapter_weights_name[] = "adapter_model.safetensors";

/* ---- tensors ---- */

/* Rows of a B in the order of the graph. */
static pco_status adapter_order_rows(const adapter_reading *r, const adapter_projection *which, const pco_weight *from,
                                     float *values, pco_error *err)
{
    const int64_t rows = from->shape[0], columns = from->shape[1], moved = adapter_moved_rows(r->file, which);
    if (!moved) return PCO_OK;
    if (rows != moved)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: tensor '%s' has %lld rows, and the projection %lld", r->all->label,
                        from->name, (long long)rows, (long long)moved);
    float *as_read = malloc((size_t)(rows * columns) * sizeof *as_read);
    if (!as_read) return adapter_no_memory(r->all->label, err);
    memcpy(as_read, values, (size_t)(rows * columns) * sizeof *as_read);
    for (int64_t row = 0; row < rows; row++)
        memcpy(values + row * columns, as_read + adapter_hub_row(r->file, which, row) * columns,
               (size_t)columns * sizeof *values);
    free(as_read);
    return PCO_OK;
}

/* One matrix, under its name in the graph; of experts, all that belong to the first. */
static pco_status adapter_add(const adapter_reading *r, const pco_weight *from, pco_error *err)
{
    char module[PCO_SPEC_NAME], projection[PCO_SPEC_NAME];
    const int is_b = pco_text_ends(from->name, PCO_NN_LORA_B);
    adapter_projection which;
    int known = 0;
    double scale = 1;
    float *values;
    adapter_module_of(from, module);
    pco_status status = adapter_add_fused(r, from, &known, err);
    if (status || known) return status;
    if (!adapter_of_module(r->file, module, projection, &which))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s: tensor '%s' is of no projection of %s that Portico can adapt; is it an adapter of another "
                        "model?",
                        r->all->label, from->name, r->file->path);
    status = adapter_check_matrix(r, from, is_b, err);
    if (!status && which.expert >= 0) return adapter_add_expert(r, from, projection, &which, err);
    if (!status)
        status = adapter_make(r, projection, is_b ? PCO_NN_LORA_B : PCO_NN_LORA_A, 0, from->shape[0], from->shape[1],
                              &values, err);
    if (!status && is_b) status = adapter_scale_of(r, from, &scale, err);
    if (!status) status = adapter_read_matrix(from, scale, values, err);
    return status || !is_b ? status : adapter_order_rows(r, &which, from, values, err);
}

/* Has each A its B, of the same rank? */
static pco_status adapter_check_pairs(const pco_weights *made, pco_error *err)
{
    char other[PCO_SPEC_NAME + 32];
    for (uint32_t i = 0; i < made->count; i++) {
        const pco_weight *x = &made->items[i];
        const int is_b = pco_text_ends(x->name, PCO_NN_LORA_B);
        snprintf(other, sizeof other, "%.*s%s", (int)(strlen(x->name) - strlen(PCO_NN_LORA_A)), x->name,
                 is_b ? PCO_NN_LORA_A : PCO_NN_LORA_B);
        const pco_weight *y = pco_weights_find(made, other);
        if (!y || x->rank != y->rank || x->shape[x->rank - (is_b ? 1 : 2)] != y->shape[x->rank - (is_b ? 2 : 1)])
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' has no '%s' of the same rank beside it", made->label,
                            x->name, other);
    }
    return PCO_OK;
}

static pco_status adapter_read_tensors(const pco_model_file *file, const char *path, const adapter_config *config,
                                       pco_weights **made, pco_error *err)
{
    pco_weights *all;
    pco_status status = pco_safetensors_open(path, &all, err);
    *made = NULL;
    if (status) return status;
    if (!all->count) status = pco_fail(err, PCO_ERROR_FORMAT, "%s holds no tensors", path);
    if (!status && !(*made = pco_weights_create(path))) status = adapter_no_memory(path, err);
    const adapter_reading reading = {file, config, all, *made};
    for (uint32_t i = 0; i < all->count && !status; i++) status = adapter_add(&reading, &all->items[i], err);
    if (!status) status = pco_weights_index(*made, err);
    if (!status) status = adapter_check_pairs(*made, err);
    if (status) {
        pco_weights_close(*made);
        *made = NULL;
    }
    pco_weights_close(all);
    return status;
}

pco_status pco_adapter_open(pco_model_file *file, const char *folder, pco_error *err)
{
    char *config = NULL, *weights = NULL;
    adapter_config read = {0};
    pco_weights *made = NULL, *to = file->gguf ? pco_gguf_own_weights(file->gguf) : file->safetensors;
    if (asprintf(&config, "%s/%s", folder, adapter_config_name) < 0) config = NULL;
    if (asprintf(&weights, "%s/%s", folder, adapter_weights_name) < 0) weights = NULL;
    pco_status status = config && weights ? PCO_OK : adapter_no_memory(folder, err);
    if (!status && access(config, F_OK) != 0)
        status = pco_fail(err, PCO_ERROR_NOT_FOUND, "%s is no adapter: it has no %s", folder, adapter_config_name);
    if (!status) status = adapter_config_read(config, &read, err);
    if (!status && access(weights, F_OK) != 0)
        status = pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has no %s; save the adapter as safetensors", folder,
                          adapter_weights_name);
    if (!status) status = adapter_read_tensors(file, weights, &read, &made, err);
    if (!status) {
        status = pco_weights_join(to, made, err);
        if (status) pco_weights_close(made);
    }
    if (!status) status = pco_weights_index(to, err);
    adapter_config_release(&read);
    free(config);
    free(weights);
    return status;
}

/* ---- writing ---- */

/* adapter_config.json; what PEFT takes for granted is left out. NULL without memory. */
static char *adapter_config_text(const pco_model_file *file, const pco_adapter_params *params,
                                 const pco_weight *matrices, uint32_t count)
{
    cJSON *root = cJSON_CreateObject(), *targets = cJSON_CreateArray();
    char *base = realpath(file->path, NULL), *text = NULL;
    int transposed = 0,
        good = root && cJSON_AddStringToObject(root, "peft_type", "LORA") &&
               pco_json_give(root, "task_type",
                             cJSON_CreateString(file->spec.decoder_only ? "CAUSAL_LM" : "SEQ_2_SEQ_LM")) &&
               cJSON_AddStringToObject(root, "base_model_name_or_path", base ? base : file->path) &&
               cJSON_AddNumberToObject(root, "r", (double)params->rank) &&
               cJSON_AddNumberToObject(root, "lora_alpha", params->alpha) &&
               cJSON_AddNumberToObject(root, "lora_dropout", params->dropout) &&
               cJSON_AddStringToObject(root, "bias", "none") &&
               cJSON_AddBoolToObject(root, "use_rslora", params->rank_stabilised) &&
               cJSON_AddTrueToObject(root, "inference_mode");
    free(base);
    good = pco_json_give(root, "target_modules", targets) && good;
    for (uint32_t i = 0; i < count && good; i++) { /* the parts of layers that have adapters, each once */
        char module[PCO_SPEC_NAME], projection[PCO_SPEC_NAME];
        adapter_projection which;
        const cJSON *item;
        int there = 0;
        snprintf(projection, sizeof projection, "%.*s", (int)(strlen(matrices[i].name) - strlen(PCO_NN_LORA_A)),
                 matrices[i].name);
        if (!adapter_find(file, projection, 0, &which) || !pco_adapter_module(file, projection, module)) continue;
        transposed |= adapter_transposed(file, &which);
        const char *part = adapter_hub_part(file, &which), *dot = strrchr(part, '.');
        if (dot && adapter_is_stack(file, &which)) part = dot + 1; /* a number stands in front */
        cJSON_ArrayForEach(item, targets) there |= strcmp(item->valuestring, part) == 0;
        if (!there) good = pco_json_give(targets, NULL, cJSON_CreateString(part));
    }
    good = good && cJSON_AddBoolToObject(root, "fan_in_fan_out", transposed);
    if (good) text = cJSON_Print(root);
    cJSON_Delete(root);
    return text;
}

static void adapter_free_items(pco_weight *items, uint32_t count)
{
    for (uint32_t i = 0; items && i < count; i++) {
        free(items[i].name);
        free((void *)items[i].data);
    }
    free(items);
}

/* A matrix, or that of an expert, as PEFT has it: another name, and the rows of a B in its order. name and data are
 * malloc'ed. */
static int adapter_export(const pco_model_file *file, const pco_weight *matrix, int64_t expert, pco_weight *to)
{
    char module[PCO_SPEC_NAME], projection[PCO_SPEC_NAME], *of_expert = NULL;
    const int is_b = pco_text_ends(matrix->name, PCO_NN_LORA_B), stack = matrix->rank == 3;
    const int64_t rows = matrix->shape[stack], columns = matrix->shape[stack + 1];
    adapter_projection which;
    snprintf(projection, sizeof projection, "%.*s", (int)(strlen(matrix->name) - strlen(PCO_NN_LORA_A)), matrix->name);
    *to = *matrix;
    to->rank = 2;
    to->shape[0] = rows;
    to->shape[1] = columns;
    to->bytes = (uint64_t)(rows * columns) * sizeof(float);
    to->name = NULL;
    char *data = malloc((size_t)to->bytes + 1);
    to->data = data;
    if (!data || !adapter_find(file, projection, 0, &which) || !pco_adapter_module(file, projection, module)) return 0;
    if (stack && !adapter_expert_module(file, module, expert, &of_expert)) return 0;
    const int good = asprintf(&to->name, "%s%s%s", ADAPTER_PREFIX, stack ? of_expert : module,
                              is_b ? PCO_NN_LORA_B : PCO_NN_LORA_A) >= 0;
    free(of_expert);
    if (!good) {
        to->name = NULL;
        return 0;
    }
    const size_t row_bytes = (size_t)columns * sizeof(float);
    const char *from = (const char *)matrix->data + (size_t)(expert * rows) * row_bytes;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t there = is_b ? adapter_hub_row(file, &which, row) : row;
        memcpy(data + (size_t)there * row_bytes, from + (size_t)row * row_bytes, row_bytes);
    }
    return 1;
}

/* All of them, in items[*count]; NULL without memory. */
static pco_weight *adapter_export_all(const pco_model_file *file, const pco_weight *matrices, uint32_t count,
                                      uint32_t *made)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < count; i++) all += matrices[i].rank == 3 ? (uint64_t)matrices[i].shape[0] : 1;
    pco_weight *items = all <= UINT32_MAX ? calloc((size_t)all + 1, sizeof *items) : NULL;
    int good = items != NULL;
    *made = 0;
    for (uint32_t i = 0; i < count && good; i++)
        for (int64_t e = 0; e < (matrices[i].rank == 3 ? matrices[i].shape[0] : 1) && good; e++)
            good = adapter_export(file, &matrices[i], e, &items[(*made)++]);
    if (good) return items;
    adapter_free_items(items, *made);
    return NULL;
}

pco_status pco_adapter_write(const pco_model_file *file, const char *folder, const pco_adapter_params *params,
                             const pco_weight *matrices, uint32_t count, pco_error *err)
{
    char *config = NULL, *weights = NULL, *lines = NULL, *text = adapter_config_text(file, params, matrices, count);
    uint32_t made;
    pco_weight *items = adapter_export_all(file, matrices, count, &made);
    int good = items && text && asprintf(&lines, "%s\n", text) >= 0;
    if (!good) lines = NULL;
    if (asprintf(&config, "%s/%s", folder, adapter_config_name) < 0) config = NULL;
    if (asprintf(&weights, "%s/%s", folder, adapter_weights_name) < 0) weights = NULL;
    pco_status status = good && config && weights ? PCO_OK : adapter_no_memory(folder, err);
    if (!status) {
        char key[] = "format", value[] = "pt";
        status = pco_safetensors_write(weights, items, made, &(pco_weights_note){key, value}, 1, err);
    }
    if (!status) status = pco_file_write(config, lines, strlen(lines), err);
    adapter_free_items(items, made);
    cJSON_free(text);
    free(lines);
    free(config);
    free(weights);
    return status;
}
