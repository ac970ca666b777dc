/* Training that goes on with a model: what it begins with, and how what comes of it is written. */
#include "train/trainer_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/error.h"
#include "models/convert.h"

static const char base_model[] = "model.gguf"; /* where the model is of a kind that GGUF has */

/* ---- adapters ---- */

/* "all-linear" is what has a module of its own in transformers, which experts have not: they are named. */
static int base_wants_module(const pco_trainer *trainer, const char *module, const char *projection)
{
    const pco_lora_config *lora = &trainer->config->lora;
    const cJSON *item;
    if (lora->all_linear) return !pco_adapter_of_experts(trainer->base, projection);
    if (!lora->targets) return pco_adapter_usual(trainer->base, projection);
    cJSON_ArrayForEach(item, lora->targets) if (pco_adapter_matches(module, item->valuestring)) return 1;
    return 0;
}

static int base_wants(const void *user, const char *projection)
{
    const pco_trainer *trainer = user;
    char module[PCO_SPEC_NAME];
    return pco_adapter_module(trainer->base, projection, module) && base_wants_module(trainer, module, projection);
}

/* Every target must name something, or the config means another model. */
static pco_status base_check_targets(const pco_trainer *trainer, pco_error *err)
{
    const cJSON *item;
    char parts[1024];
    cJSON_ArrayForEach(item, trainer->config->lora.targets)
    {
        if (pco_adapter_has(trainer->base, item->valuestring)) continue;
        return pco_fail(err, PCO_ERROR_FORMAT, "lora: no projection of %s is called '%.100s'; its layers have %s",
                        trainer->base->path, item->valuestring, pco_adapter_parts(trainer->base, parts, sizeof parts));
    }
    if (!*pco_adapter_parts(trainer->base, parts, sizeof parts))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "lora: %s has no projections that can have adapters",
                        trainer->base->path);
    return PCO_OK;
}

/* ---- opening ---- */

static pco_status base_check_kind(const pco_trainer *trainer, pco_error *err)
{
    const pco_data_kind kind = trainer->config->data.kind;
    const pco_model_spec *spec = &trainer->base->spec;
    const char *path = trainer->base->path;
    if (kind == PCO_DATA_DATES)
        return pco_fail(err, PCO_ERROR_FORMAT, "dates train a model from nothing: leave 'from' out");
    if (spec->encoder_only)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s is an encoder, which writes no text; portico train goes on with models that do", path);
    if (spec->sound.bands)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s hears sound; portico train goes on with models that read text",
                        path);
    if (spec->decoder_only != (kind != PCO_DATA_PAIRS))
        return pco_fail(err, PCO_ERROR_FORMAT,
                        spec->decoder_only ? "%s continues texts: its data are of kind 'text' or 'chat', not 'pairs'"
                                           : "%s is an encoder-decoder: its data are of kind 'pairs'",
                        path);
    if (spec->norm.eps < 0x1p-126 || (spec->final_norm && spec->last_norm.eps < 0x1p-126))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s: the epsilon of its norms is below 1.18e-38, and a row of equal numbers would become 0 / 0",
                        path);
    return PCO_OK;
}

/* All weights: can they be written again? Portico's own folders are, as any that is trained from nothing. */
static pco_status base_check_writing(pco_trainer *trainer, pco_error *err)
{
    const pco_model_file *base = trainer->base;
    char *path = NULL;
    if (!base->family->read_config && (pco_convert_writes(base) || pco_convert_writes_folder(base))) return PCO_OK;
    if (!base->family->read_config)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s: all weights of a model of type '%s' cannot be written yet; train adapters with 'lora'",
                        base->path, base->family->name);
    if (asprintf(&path, "%s/config.json", base->path) < 0) return trainer_no_memory(err);
    pco_status status = pco_json_load(path, &trainer->document, err);
    free(path);
    return status;
}

pco_status trainer_base_open(pco_trainer *trainer, pco_error *err)
{
    const pco_train_config *config = trainer->config;
    const pco_adapter_params *params = &config->lora.params;
    int64_t context;
    if (access(config->from, F_OK) != 0)
        return pco_fail(err, PCO_ERROR_IO,
                        "'from': %s cannot be opened: %m; put the model there, or name it with --from "
                        "(scripts/fetch-models downloads some)",
                        config->from);
    pco_status status = pco_model_file_open(config->from, &trainer->base, err);
    if (!status) status = base_check_kind(trainer, err);
    if (!status) status = pco_model_context(trainer->base, config->data.context, &context, err);
    if (status) return status;
    trainer->model = pco_spec_for_context(&trainer->base->spec, context);
    if (!params->rank) return base_check_writing(trainer, err);
    trainer->lora = (pco_nn_lora){
        .rank = params->rank, .scale = pco_adapter_scale(params, params->rank), .wants = base_wants, .user = trainer};
    trainer->training.lora = &trainer->lora;
    return base_check_targets(trainer, err);
}

/* ---- first values ---- */

static pco_status base_read(const pco_trainer *trainer, const pco_nn_parameter *parameter, pco_error *err)
{
    const pco_weight *weight;
    const int64_t count = pco_nn_elements(parameter);
    pco_status status = pco_weights_require(trainer->base->weights, parameter->name, &weight, err);
    if (status) return status;
    if (weight->rank != parameter->rank || !weight->data ||
        memcmp(weight->shape, parameter->shape, parameter->rank * sizeof(int64_t)) != 0)
        return pco_fail(err, PCO_ERROR_FORMAT, "%s: tensor '%s' is not of the model's shape", trainer->base->path,
                        parameter->name);
    float *values = malloc((size_t)(count ? count : 1) * sizeof *values);
    if (!values) return trainer_no_memory(err);
    status = pco_dtype_to_f32((uint32_t)weight->dtype, weight->data, count, values, err);
    if (!status)
        status =
            pco_session_write_state(trainer->session, parameter->name, values, (uint64_t)count * sizeof *values, err);
    free(values);
    return status;
}

pco_status trainer_base_start(const pco_trainer *trainer, pco_error *err)
{
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < trainer->training.count && !status; i++)
        status = base_read(trainer, &trainer->training.items[i], err);
    return status;
}

/* ---- writing ---- */

/* The model with these weights instead of its own. */
static pco_status base_write_model(const pco_trainer *trainer, const pco_weight *items, uint32_t count, pco_error *err)
{
    const pco_convert_options options = {.type = PCO_CONVERT_KEEP, .output_type = PCO_CONVERT_KEEP};
    pco_convert_result result;
    pco_weights *trained = pco_weights_create("the trained weights");
    char *path = NULL;
    const int gguf = pco_convert_writes(trainer->base);
    if (asprintf(&path, "%s%s%s", trainer->config->out, gguf ? "/" : "", gguf ? base_model : "") < 0) path = NULL;
    pco_status status = trained && path ? PCO_OK : trainer_no_memory(err);
    for (uint32_t i = 0; i < count && !status; i++)
        status = pco_weights_add(trained, &items[i], items[i].name, strlen(items[i].name), err);
    if (!status) status = pco_weights_index(trained, err);
    if (!status && gguf) status = pco_convert_trained(trainer->base, trained, path, &options, &result, err);
    if (!status && !gguf) status = pco_convert_trained_to_folder(trainer->base, trained, path, &options, &result, err);
    pco_weights_close(trained);
    free(path);
    return status;
}

pco_status trainer_base_write(const pco_trainer *trainer, const pco_weight *items, uint32_t count, pco_error *err)
{
    if (!trainer->training.lora) return base_write_model(trainer, items, count, err);
    return pco_adapter_write(trainer->base, trainer->config->out, &trainer->config->lora.params, items, count, err);
}

const pco_model_file *pco_trainer_base(const pco_trainer *trainer) { return trainer->base; }
