/* adapter_config.json, as PEFT writes it. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <math.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "models/adapter_internal.h"

/* Keys that say nothing of what a trained adapter adds, or are read. */
static const char *const adapter_harmless[] = {
    "alpha_pattern",
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
    "target_parameters",
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

/* ---- alpha_pattern ---- */

/* Steps of a search, after which an expression is given up: a name takes some hundred. */
enum { ADAPTER_MATCH_MOST = 100000 };

struct adapter_pattern {
    pcre2_code *code;
    double alpha;
};

/* The name of a module, or what is behind one of its dots, as a whole. */
static pco_status adapter_compile(const char *path, const char *expression, adapter_pattern *pattern, pco_error *err)
{
    char *whole = NULL;
    int code = 0;
    PCRE2_SIZE offset = 0;
    PCRE2_UCHAR reason[120];
    if (asprintf(&whole, "^(?:.*\\.)?(?:%s)$", expression) < 0)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", path);
    pattern->code =
        pcre2_compile((PCRE2_SPTR)whole, PCRE2_ZERO_TERMINATED, PCRE2_NEVER_BACKSLASH_C, &code, &offset, NULL);
    free(whole);
    if (pattern->code) return PCO_OK;
    pcre2_get_error_message(code, reason, sizeof reason);
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: the expression '%.100s' of alpha_pattern is wrong: %s", path,
                    expression, (const char *)reason);
}

static pco_status adapter_read_patterns(const cJSON *all, const char *path, adapter_config *config, pco_error *err)
{
    const cJSON *item;
    if (!all || cJSON_IsNull(all)) return PCO_OK;
    if (!cJSON_IsObject(all)) return pco_fail(err, PCO_ERROR_FORMAT, "%s: 'alpha_pattern' must be an object", path);
    config->patterns = calloc((size_t)cJSON_GetArraySize(all) + 1, sizeof *config->patterns);
    if (!config->patterns) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", path);
    cJSON_ArrayForEach(item, all)
    {
        adapter_pattern *pattern = &config->patterns[config->n_patterns];
        pco_status status = pco_json_number_or(all, path, item->string, -1e9, 1e9, 0, &pattern->alpha, err);
        if (!status) status = adapter_compile(path, item->string, pattern, err);
        if (status) return status;
        config->n_patterns++;
    }
    return PCO_OK;
}

/* ---- all of it ---- */

double pco_adapter_scale(const pco_adapter_params *params, int64_t rank)
{
    return params->alpha / (params->rank_stabilised ? sqrt((double)rank) : (double)rank);
}

pco_status adapter_config_read(const char *path, adapter_config *config, pco_error *err)
{
    cJSON *root;
    pco_status status = pco_json_load(path, &root, err);
    pco_adapter_params *params = &config->params;
    *config = (adapter_config){0};
    if (status) return status;
    status = adapter_check_keys(root, path, err);
    if (!status) status = pco_json_int_or(root, path, "r", 1, PCO_ADAPTER_MOST_RANK, 8, &params->rank, err);
    if (!status) status = pco_json_number_or(root, path, "lora_alpha", -1e9, 1e9, 8, &params->alpha, err);
    if (!status) status = pco_json_bool_or(root, path, "use_rslora", 0, &params->rank_stabilised, err);
    if (!status)
        status = adapter_read_patterns(cJSON_GetObjectItemCaseSensitive(root, "alpha_pattern"), path, config, err);
    cJSON_Delete(root);
    return status;
}

void adapter_config_release(adapter_config *config)
{
    for (size_t i = 0; i < config->n_patterns; i++) pcre2_code_free(config->patterns[i].code);
    free(config->patterns);
    *config = (adapter_config){0};
}

pco_status adapter_config_scale(const adapter_config *config, const char *module, int64_t rank, double *scale,
                                pco_error *err)
{
    pco_adapter_params params = config->params;
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pco_status status = PCO_OK;
    int found = PCRE2_ERROR_NOMATCH;
    if (!match || !context)
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for '%.100s'", module);
    if (!status) pcre2_set_match_limit(context, ADAPTER_MATCH_MOST);
    for (size_t i = 0; i < config->n_patterns && !status && found < 0; i++) { /* the first that fits, as in PEFT */
        found = pcre2_match(config->patterns[i].code, (PCRE2_SPTR)module, strlen(module), 0, 0, match, context);
        if (found >= 0) params.alpha = config->patterns[i].alpha;
        if (found < 0 && found != PCRE2_ERROR_NOMATCH)
            status = pco_fail(err, PCO_ERROR_UNSUPPORTED,
                              "an expression of alpha_pattern fails on '%.100s' (error %d of pcre2)", module, found);
    }
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    *scale = pco_adapter_scale(&params, rank);
    return status;
}
