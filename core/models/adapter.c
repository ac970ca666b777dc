/* Adapters from files, and to files. */
#include "models/adapter_internal.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/utf8.h"
#include "formats/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char adapter_config_name[] = "adapter_config.json", adapter_weights_name[] = "adapter_model.safetensors",
                  adapter_prefix[] = "base_model.model.";

enum { ADAPTER_MOST_RANK = 1 << 16 };

static pco_status adapter_no_memory(const char *folder, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the adapter %s", folder);
}

double pco_adapter_scale(const pco_adapter_params *params, int64_t rank)
{
    return params->alpha / (params->rank_stabilised ? sqrt((double)rank) : (double)rank);
}

int pco_adapter_is(const char *tensor)
{
    return pco_text_ends(tensor, PCO_NN_LORA_A) || pco_text_ends(tensor, PCO_NN_LORA_B);
}

/* ---- adapter_config.json ---- */

/* Keys that say nothing of what a trained adapter adds. */
static const char *const adapter_harmless[] = {
    "auto_mapping",
    "base_model_name_or_path",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "megatron_core",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "rank_pattern",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "lora_dropout",
    "lora_alpha",
    "r",
    "use_rslora",
    "bias",
    "init_lora_weights",
    "loftq_config",
    "ensure_weight_tying",
    "eva_config",
};

static int adapter_says_nothing(const cJSON *item)
{
    return cJSON_IsNull(item) || cJSON_IsFalse(item) || ((cJSON_IsArray(item) || cJSON_IsObject(item)) && !item->child);
}

static pco_status adapter_check_keys(const cJSON *root, const char *path, pco_error *err)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, root)
    {
        int known = adapter_says_nothing(item);
        for (size_t i = 0; i < sizeof adapter_harmless / sizeof *adapter_harmless && !known; i++)
            known = strcmp(adapter_harmless[i], item->string) == 0;
        if (!known)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: '%.60s' is set, which Portico does not know to follow",
                            path, item->string);
    }
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "peft_type")),
               *bias = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "bias")),
               *start = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "init_lora_weights"));
    if (!type || strcmp(type, "LORA") != 0)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: 'peft_type' is '%.40s'; Portico runs 'LORA'", path,
                        type ? type : "not a text");
    if (bias && strcmp(bias, "none") != 0)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: 'bias' is '%.40s'; Portico runs adapters without biases", path,
                        bias);
    /* those that change the weights beside which the adapter stands */
    static const char *const moved[] = {"pissa", "olora", "loftq", "corda", "lora_ga"};
    for (size_t i = 0; start && i < sizeof moved / sizeof *moved; i++)
        if (strncmp(start, moved[i], strlen(moved[i])) == 0)
            return pco_fail(
                err, PCO_ERROR_UNSUPPORTED,
                "%s: 'init_lora_weights' is '%.40s', which changes the model's own weights; save it in PEFT "
                "with path_initial_model_for_weight_conversion",
                path, start);
    return PCO_OK;
}

static pco_status adapter_read_config(const char *path, pco_adapter_params *params, pco_error *err)
{
    cJSON *root;
    pco_status status = pco_json_load(path, &root, err);
    *params = (pco_adapter_params){0};
    if (status) return status;
    status = adapter_check_keys(root, path, err);
    if (!status) status = pco_json_int_or(root, path, "r", 1, ADAPTER_MOST_RANK, 8, &params->rank, err);
    if (!status) status = pco_json_number_or(root, path, "lora_alpha", -1e9, 1e9, 8, &params->alpha, err);
    if (!status) status = pco_json_bool_or(root, path, "use_rslora", 0, &params->rank_stabilised, err);
    cJSON_Delete(root);
    return status;
}

/* ---- tensors ---- */

/* Elements as f32, `columns` in a row; rows of a B in the order of the graph, times scale. */
static pco_status adapter_fill(const pco_model_file *file, const adapter_place *place, const pco_weight *from,
                               double scale, float *to, pco_error *err)
{
    const int64_t rows = from->shape[0], columns = from->shape[1];
    const size_t row_bytes = (size_t)columns * pco_dtype_block_bytes((uint32_t)from->dtype);
    for (int64_t row = 0; row < rows; row++) {
        const int64_t source = place ? adapter_hub_row(file, place, row) : row;
        pco_status status =
            pco_dtype_to_f32((uint32_t)from->dtype, (const char *)from->data + (size_t)source * row_bytes, columns,
                             to + row * columns, err);
        if (status) return status;
    }
    for (int64_t i = 0; place && i < rows * columns; i++) to[i] = (float)((double)to[i] * scale);
    return PCO_OK;
}

/* One matrix, under its name in the graph. */
static pco_status adapter_add(const pco_model_file *file, const pco_weights *all, const pco_weight *from,
                              const pco_adapter_params *params, pco_weights *to, pco_error *err)
{
    char module[PCO_SPEC_NAME], projection[PCO_SPEC_NAME], *name;
    const int is_b = pco_text_ends(from->name, PCO_NN_LORA_B);
    const size_t tail = strlen(PCO_NN_LORA_A), size = strlen(from->name), head = strlen(adapter_prefix);
    adapter_place place;
    const int skip = strncmp(from->name, adapter_prefix, head) == 0 ? (int)head : 0;
    snprintf(module, sizeof module, "%.*s", pco_adapter_is(from->name) ? (int)(size - tail) - skip : 0,
             from->name + skip);
    if (!pco_adapter_projection(file, module, projection) || !adapter_find(file, projection, 0, &place))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s: tensor '%s' is of no projection of %s that Portico can adapt; is it an adapter of another "
                        "model?",
                        all->label, from->name, file->path);
    if (from->rank != 2 || from->dtype < 0 || !pco_dtype_is_float((uint32_t)from->dtype) || from->shape[0] < 1 ||
        from->shape[1] < 1 || from->shape[is_b ? 1 : 0] > ADAPTER_MOST_RANK)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: tensor '%s' must be a matrix of F32, F16 or BF16", all->label,
                        from->name);
    const int64_t rows = adapter_moved_rows(file, &place);
    if (is_b && rows && from->shape[0] != rows)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: tensor '%s' has %lld rows, and the projection %lld", all->label,
                        from->name, (long long)from->shape[0], (long long)rows);
    if (asprintf(&name, "%s%s", projection, is_b ? PCO_NN_LORA_B : PCO_NN_LORA_A) < 0)
        return adapter_no_memory(all->label, err);
    pco_weight made = {.type_name = "F32", .dtype = PCO_F32, .rank = 2, .shape = {from->shape[0], from->shape[1]}};
    made.bytes = (uint64_t)made.shape[0] * (uint64_t)made.shape[1] * sizeof(float);
    float *values = pco_weights_allocate(to, made.bytes);
    made.data = values;
    pco_status status = values ? PCO_OK : adapter_no_memory(all->label, err);
    const double scale = is_b ? pco_adapter_scale(params, from->shape[1]) : 1;
    if (!status) status = adapter_fill(file, is_b ? &place : NULL, from, scale, values, err);
    if (!status) status = pco_weights_add(to, &made, name, strlen(name), err);
    free(name);
    return status;
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
        if (!y || x->shape[is_b ? 1 : 0] != y->shape[is_b ? 0 : 1])
            return pco_fail(err, PCO_ERROR_FORMAT, "%s: '%s' has no '%s' of the same rank beside it", made->label,
                            x->name, other);
    }
    return PCO_OK;
}

static pco_status adapter_read_tensors(const pco_model_file *file, const char *path, const pco_adapter_params *params,
                                       pco_weights **made, pco_error *err)
{
    pco_weights *all;
    pco_status status = pco_safetensors_open(path, &all, err);
    *made = NULL;
    if (status) return status;
    if (!all->count) status = pco_fail(err, PCO_ERROR_FORMAT, "%s holds no tensors", path);
    if (!status && !(*made = pco_weights_create(path))) status = adapter_no_memory(path, err);
    for (uint32_t i = 0; i < all->count && !status; i++)
        status = adapter_add(file, all, &all->items[i], params, *made, err);
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
    pco_adapter_params params;
    pco_weights *made = NULL, *to = file->gguf ? pco_gguf_own_weights(file->gguf) : file->safetensors;
    if (asprintf(&config, "%s/%s", folder, adapter_config_name) < 0) config = NULL;
    if (asprintf(&weights, "%s/%s", folder, adapter_weights_name) < 0) weights = NULL;
    pco_status status = config && weights ? PCO_OK : adapter_no_memory(folder, err);
    if (!status && access(config, F_OK) != 0)
        status = pco_fail(err, PCO_ERROR_NOT_FOUND, "%s is no adapter: it has no %s", folder, adapter_config_name);
    if (!status) status = adapter_read_config(config, &params, err);
    if (!status && access(weights, F_OK) != 0)
        status = pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has no %s; save the adapter as safetensors", folder,
                          adapter_weights_name);
    if (!status) status = adapter_read_tensors(file, weights, &params, &made, err);
    if (!status) {
        status = pco_weights_join(to, made, err);
        if (status) pco_weights_close(made);
    }
    if (!status) status = pco_weights_index(to, err);
    free(config);
    free(weights);
    return status;
}

/* ---- writing ---- */

/* adapter_config.json; what PEFT takes for granted is left out. NULL without memory. */
static char *adapter_config(const pco_model_file *file, const pco_adapter_params *params, const pco_weight *matrices,
                            uint32_t count)
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
        adapter_place place;
        const cJSON *item;
        int there = 0;
        snprintf(projection, sizeof projection, "%.*s", (int)(strlen(matrices[i].name) - strlen(PCO_NN_LORA_A)),
                 matrices[i].name);
        if (!adapter_find(file, projection, 0, &place) || !pco_adapter_module(file, projection, module)) continue;
        transposed |= adapter_transposed(file, &place);
        const char *part = adapter_hub_part(file, &place);
        cJSON_ArrayForEach(item, targets) there |= strcmp(item->valuestring, part) == 0;
        if (!there) good = pco_json_give(targets, NULL, cJSON_CreateString(part));
    }
    good = good && cJSON_AddBoolToObject(root, "fan_in_fan_out", transposed);
    if (good) text = cJSON_Print(root);
    cJSON_Delete(root);
    return text;
}

/* The matrix as PEFT has it: another name, and the rows of a B in its order. name and data are malloc'ed. */
static int adapter_export(const pco_model_file *file, const pco_weight *matrix, pco_weight *to)
{
    char module[PCO_SPEC_NAME], projection[PCO_SPEC_NAME];
    const int is_b = pco_text_ends(matrix->name, PCO_NN_LORA_B);
    adapter_place place;
    snprintf(projection, sizeof projection, "%.*s", (int)(strlen(matrix->name) - strlen(PCO_NN_LORA_A)), matrix->name);
    *to = *matrix;
    to->name = NULL;
    char *data = malloc((size_t)matrix->bytes + 1);
    to->data = data;
    if (!data || !adapter_find(file, projection, 0, &place) || !pco_adapter_module(file, projection, module)) return 0;
    if (asprintf(&to->name, "%s%s%s", adapter_prefix, module, is_b ? PCO_NN_LORA_B : PCO_NN_LORA_A) < 0) {
        to->name = NULL;
        return 0;
    }
    const size_t row_bytes = (size_t)matrix->shape[1] * sizeof(float);
    for (int64_t row = 0; row < matrix->shape[0]; row++) {
        const int64_t there = is_b ? adapter_hub_row(file, &place, row) : row;
        memcpy(data + (size_t)there * row_bytes, (const char *)matrix->data + (size_t)row * row_bytes, row_bytes);
    }
    return 1;
}

pco_status pco_adapter_write(const pco_model_file *file, const char *folder, const pco_adapter_params *params,
                             const pco_weight *matrices, uint32_t count, pco_error *err)
{
    char *config = NULL, *weights = NULL, *lines = NULL, *text = adapter_config(file, params, matrices, count);
    pco_weight *items = calloc((size_t)count + 1, sizeof *items);
    int good = items && text && asprintf(&lines, "%s\n", text) >= 0;
    if (!good) lines = NULL;
    if (asprintf(&config, "%s/%s", folder, adapter_config_name) < 0) config = NULL;
    if (asprintf(&weights, "%s/%s", folder, adapter_weights_name) < 0) weights = NULL;
    for (uint32_t i = 0; i < count && good; i++) good = adapter_export(file, &matrices[i], &items[i]);
    pco_status status = good && config && weights ? PCO_OK : adapter_no_memory(folder, err);
    if (!status) {
        char key[] = "format", value[] = "pt";
        status = pco_safetensors_write(weights, items, count, &(pco_weights_note){key, value}, 1, err);
    }
    if (!status) status = pco_file_write(config, lines, strlen(lines), err);
    for (uint32_t i = 0; items && i < count; i++) {
        free(items[i].name);
        free((void *)items[i].data);
    }
    free(items);
    cJSON_free(text);
    free(lines);
    free(config);
    free(weights);
    return status;
}
