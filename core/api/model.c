#include "api/api.h"

#include "base/error.h"
#include "text/sampler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double api_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

pco_status api_no_writer(const pco_model_file *file, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s is an encoder ('%s'), which writes no text; portico embed runs it",
                    file->path, file->family->name);
}

static pco_status api_progress(const pco_model_params *params, double share, pco_error *err)
{
    if (!params->progress || !params->progress(params->progress_user, share)) return PCO_OK;
    return pco_fail(err, PCO_ERROR_CANCELLED, "opening the model was cancelled");
}

/* Refuses a model that the device cannot hold, before anything is uploaded. */
static pco_status api_check_memory(const pco_model *model, pco_error *err)
{
    const pco_device_info *info = pco_session_device(model->session);
    const pco_memory_estimate *need = &model->estimate;
    if (info->memory == 0 || need->total <= info->memory) return PCO_OK;
    return pco_fail(err, PCO_ERROR_OUT_OF_DEVICE_MEMORY,
                    "%s needs about %" PRIu64 " bytes (weights %" PRIu64 ", cache %" PRIu64 " for %" PRId64
                    " tokens, activations %" PRIu64 "), and device %s has %" PRIu64,
                    model->file->path, need->total, need->constant_bytes, need->state_bytes, model->context_length,
                    need->arena_bytes + need->io_bytes, pco_session_device_id(model->session), info->memory);
}

static pco_status api_prepare(pco_model *model, pco_error *err)
{
    const pco_model_file *file = model->file;
    int64_t vocab = file->spec.vocab_size[PCO_DECODER];
    model->logits = malloc((size_t)vocab * sizeof *model->logits);
    model->workspace = malloc(pco_sampler_workspace(vocab));
    model->sequence = malloc(((size_t)model->context_length + 1) * sizeof *model->sequence);
    if (!model->logits || !model->workspace || !model->sequence)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", file->path);
    if (file->spec.encoder_only) return PCO_OK; /* pco_model_embed prepares what it needs */
    if (file->spec.decoder_only)
        return pco_causal_create(model->session, file->weights, &file->spec, model->context_length, &model->causal,
                                 err);
    return pco_seq2seq_create(model->session, file->weights, &file->spec, model->context_length, &model->seq2seq, err);
}

pco_status pco_model_open(pco_context *context, const char *path, const pco_model_params *params, pco_model **model,
                          pco_error *err)
{
    pco_model_params known = {.size = sizeof known};
    const double begin = api_seconds();
    PCO_NEEDS(model);
    *model = NULL;
    PCO_NEEDS(context);
    PCO_NEEDS(path);
    pco_status status = pco_registry_check(context->registry, err);
    if (!status && params) status = pco_copy_sized(&known, sizeof known, params, params->size, err);
    if (status) return status;
    params = &known;
    pco_model *made = calloc(1, sizeof *made);
    if (!made) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", path);
    made->context = context;
    status = api_progress(params, 0, err);
    if (!status) status = pco_model_file_open(path, &made->file, err);
    if (!status) status = pco_model_context(made->file, params->context_length, &made->context_length, err);
    if (!status) status = pco_model_estimate(made->file, made->context_length, &made->estimate, err);
    if (!status) status = api_progress(params, 0.1, err);
    if (!status) status = pco_registry_open(context->registry, params->device, &made->session, err);
    const pco_map *map = status ? NULL : &made->file->weights->map; /* it is closed after the session */
    if (map && map->data) status = pco_session_lend(made->session, map->data, map->size, err);
    if (!status) status = api_check_memory(made, err);
    if (!status) status = api_progress(params, 0.2, err);
    if (!status) status = api_prepare(made, err);
    if (!status) status = api_progress(params, 1, err);
    if (status) {
        pco_model_close(made);
        return status;
    }
    made->load_seconds = api_seconds() - begin;
    *model = made;
    return PCO_OK;
}

void pco_model_close(pco_model *model)
{
    if (!model || pco_registry_check(model->context->registry, NULL))
        return; /* a child has no device to give it back to */
    pco_causal_destroy(model->causal);
    pco_seq2seq_destroy(model->seq2seq);
    pco_encoder_destroy(model->encoder);
    pco_session_close(model->session);
    pco_model_file_close(model->file);
    free(model->logits);
    free(model->workspace);
    free(model->sequence);
    free(model);
}

static void api_describe(const pco_model_file *file, int64_t context, const pco_memory_estimate *estimate,
                         pco_model_info *info)
{
    const pco_model_spec *spec = &file->spec;
    *info = (pco_model_info){.vocab_size = spec->vocab_size[PCO_DECODER],
                             .source_vocab_size = spec->vocab_size[PCO_ENCODER],
                             .context_length = context,
                             .file_context_length = spec->max_position_embeddings,
                             .layers = spec->layers[spec->encoder_only ? PCO_ENCODER : PCO_DECODER],
                             .width = spec->d_model,
                             .parameters = estimate->parameters,
                             .constant_bytes = estimate->constant_bytes,
                             .state_bytes = estimate->state_bytes,
                             .arena_bytes = estimate->arena_bytes,
                             .io_bytes = estimate->io_bytes};
    snprintf(info->architecture, sizeof info->architecture, "%s", file->family->name);
}

void pco_model_describe(const pco_model *model, pco_model_info *info)
{
    if (!info) return;
    pco_model_info all = {.size = 0};
    if (model && !pco_registry_check(model->context->registry, NULL)) {
        api_describe(model->file, model->context_length, &model->estimate, &all);
        snprintf(all.device, sizeof all.device, "%s", pco_session_device_id(model->session));
        all.device_bytes = pco_session_memory(model->session, &all.peak_device_bytes);
    }
    (void)pco_fill_sized(info, &all, sizeof all, NULL);
}

pco_status pco_model_inspect(const char *path, int64_t context_length, pco_model_info *info, pco_error *err)
{
    pco_model_file *file;
    pco_memory_estimate estimate;
    int64_t context;
    PCO_NEEDS(path);
    PCO_NEEDS(info);
    pco_model_info all = {.size = 0};
    pco_status status = pco_check_sized(sizeof all, info->size, err);
    if (!status) status = pco_model_file_open(path, &file, err);
    if (status) return status;
    status = pco_model_context(file, context_length, &context, err);
    if (!status) status = pco_model_estimate(file, context, &estimate, err);
    if (!status) api_describe(file, context, &estimate, &all);
    if (!status) status = pco_fill_sized(info, &all, sizeof all, err);
    pco_model_file_close(file);
    return status;
}
