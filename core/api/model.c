#include "api/api.h"

#include "base/clock.h"
#include "base/error.h"
#include "models/adapter.h"
#include "models/labels.h"
#include "text/sampler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { API_MOST_LANES = 1024 };

const char *api_who_runs(const pco_model_file *file)
{
    if (file->spec.sound.bands) return "portico transcribe runs it";
    if (!file->spec.encoder_only) return NULL;
    if (!file->images) return "portico embed runs it";
    if (pco_model_reads_texts(file)) return "portico embed and portico classify run it";
    return file->images->classes.linear ? "portico classify and portico embed --image run it"
                                        : "portico embed --image runs it";
}

pco_status api_no_writer(const pco_model_file *file, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s is an encoder ('%s'), which writes no text; %s", file->path,
                    file->family->name, api_who_runs(file));
}

pco_status api_no_reader(const pco_model_file *file, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s hears sound ('%s'), and reads no text; %s", file->path,
                    file->family->name, api_who_runs(file));
}

pco_status api_encoder(pco_model *model, pco_error *err)
{
    if (model->file->spec.sound.bands) return api_no_reader(model->file, err);
    if (model->encoder) return PCO_OK;
    if (!pco_model_reads_texts(model->file))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s reads images ('%s'), and no text", model->file->path,
                        model->file->family->name);
    return pco_encoder_create(model->session, model->file->weights, &model->file->spec, model->context_length,
                              &model->encoder, err);
}

static pco_status api_progress(const pco_model_params *params, double share, pco_error *err)
{
    if (!params->progress || !params->progress(params->progress_user, share)) return PCO_OK;
    return pco_fail(err, PCO_ERROR_CANCELLED, "opening the model was cancelled");
}

/* Refuses a model that the device cannot hold, before anything is uploaded: caches of decoders grow later. */
static pco_status api_check_memory(const pco_model *model, pco_error *err)
{
    const pco_device_info *info = pco_session_device(model->session);
    const int64_t first = model->file->spec.decoder_only && model->context_length > PCO_CAUSAL_FIRST
                              ? PCO_CAUSAL_FIRST
                              : model->context_length;
    pco_memory_estimate need = model->estimate;
    if (info->memory == 0 || need.total <= info->memory) return PCO_OK;
    const pco_status status = pco_model_estimate(model->file, first, model->lanes, model->cache_type, &need, err);
    if (status || need.total <= info->memory) return status;
    return pco_fail(err, PCO_ERROR_OUT_OF_DEVICE_MEMORY,
                    "%s needs about %" PRIu64 " bytes (weights %" PRIu64 ", cache %" PRIu64 " for %" PRId64
                    " tokens, activations %" PRIu64 "), and device %s has %" PRIu64,
                    model->file->path, need.total, need.constant_bytes, need.state_bytes, first,
                    need.arena_bytes + need.io_bytes, pco_session_device_id(model->session), info->memory);
}

static pco_status api_prepare(pco_model *model, pco_error *err)
{
    const pco_model_file *file = model->file;
    int64_t vocab = file->spec.vocab_size[PCO_DECODER];
    model->logits = malloc((size_t)vocab * sizeof *model->logits);
    model->workspace = malloc(pco_sampler_workspace(vocab));
    model->sequences = calloc((size_t)model->lanes, sizeof *model->sequences);
    model->own = (pco_sequence){.model = model};
    model->own.ids = malloc(((size_t)model->context_length + 1) * sizeof *model->own.ids);
    if (!model->logits || !model->workspace || !model->sequences || !model->own.ids)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", file->path);
    if (file->spec.encoder_only) return PCO_OK; /* pco_model_embed prepares what it needs */
    return api_runner(model, err);
}

pco_status api_runner(pco_model *model, pco_error *err)
{
    const pco_model_file *file = model->file;
    const pco_causal_room room = {model->context_length, model->lanes, model->cache_type, NULL};
    pco_causal_destroy(model->causal);
    pco_seq2seq_destroy(model->seq2seq);
    model->causal = NULL;
    model->seq2seq = NULL;
    if (file->spec.decoder_only)
        return pco_causal_create(model->session, file->weights, &file->spec, &room, &model->causal, err);
    return pco_seq2seq_create(model->session, file->weights, &file->spec, model->context_length, model->cache_type,
                              &model->seq2seq, err);
}

/* What a model is opened from: a path, or the bytes of a file. */
typedef struct api_source {
    const char *path;
    const void *data;
    size_t bytes;
} api_source;

static pco_status api_lanes(const pco_model_params *params, const pco_model_file *file, int64_t *lanes, pco_error *err)
{
    *lanes = params->sequences ? params->sequences : 1;
    if (*lanes < 1 || *lanes > API_MOST_LANES)
        return pco_fail(err, PCO_ERROR_INVALID, "%" PRId64 " sequences are not possible; it can be 1 to %d", *lanes,
                        API_MOST_LANES);
    if (*lanes > 1 && file->spec.encoder_only) return api_no_writer(file, err);
    if (*lanes > 1 && !file->spec.decoder_only)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s is an encoder-decoder, which has one sequence at a time",
                        file->path);
    return PCO_OK;
}

/* Reads the file, and says what it is going to need. */
static pco_status api_read_model(pco_model *model, const api_source *source, const pco_model_params *params,
                                 pco_error *err)
{
    pco_status status = api_progress(params, 0, err);
    if (!status)
        status = source->path ? pco_model_file_open(source->path, &model->file, err)
                              : pco_model_file_open_memory(source->data, source->bytes, &model->file, err);
    if (!status && params->adapter) status = pco_adapter_open(model->file, params->adapter, err);
    if (!status) status = pco_model_context(model->file, params->context_length, &model->context_length, err);
    if (!status) status = api_lanes(params, model->file, &model->lanes, err);
    model->cache_type = params->cache_type;
    if (!status)
        status = pco_model_estimate(model->file, model->context_length, model->lanes, model->cache_type,
                                    &model->estimate, err);
    return status ? status : api_progress(params, 0.1, err);
}

/* Lends the file's memory to the session, which is closed before it. */
static pco_status api_lend(pco_model *model, const api_source *source, pco_error *err)
{
    const pco_map given = {source->data, source->bytes};
    const pco_map *maps = source->path ? model->file->weights->maps : &given;
    const uint32_t count = source->path ? model->file->weights->map_count : 1;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < count && !status; i++)
        if (maps[i].data && (uintptr_t)maps[i].data % (uintptr_t)sysconf(_SC_PAGESIZE) == 0)
            status = pco_session_lend(model->session, maps[i].data, maps[i].size, err);
    return status;
}

static pco_status api_open(pco_context *context, const api_source *source, const pco_model_params *params,
                           pco_model **model, pco_error *err)
{
    pco_model_params known = {.size = sizeof known};
    const double begin = pco_seconds();
    PCO_ENTER(context->registry);
    pco_status status = PCO_OK;
    if (!status && params) status = pco_copy_sized(&known, sizeof known, params, params->size, err);
    if (status) return status;
    params = &known;
    pco_model *made = calloc(1, sizeof *made);
    if (!made) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a model");
    made->context = context;
    status = api_read_model(made, source, params, err);
    if (!status) status = pco_registry_open(context->registry, params->device, &made->session, err);
    if (!status) status = api_lend(made, source, err);
    if (!status) status = api_check_memory(made, err);
    if (!status) status = api_progress(params, 0.2, err);
    if (!status) status = api_prepare(made, err);
    if (!status) status = api_progress(params, 1, err);
    if (status) {
        pco_model_close(made);
        return status;
    }
    made->load_seconds = pco_seconds() - begin;
    *model = made;
    return PCO_OK;
}

pco_status pco_model_open(pco_context *context, const char *path, const pco_model_params *params, pco_model **model,
                          pco_error *err)
{
    PCO_NEEDS(model);
    *model = NULL;
    PCO_NEEDS(context);
    PCO_NEEDS(path);
    return api_open(context, &(api_source){.path = path}, params, model, err);
}

pco_status pco_model_open_memory(pco_context *context, const void *data, size_t bytes, const pco_model_params *params,
                                 pco_model **model, pco_error *err)
{
    PCO_NEEDS(model);
    *model = NULL;
    PCO_NEEDS(context);
    PCO_NEEDS(data);
    return api_open(context, &(api_source){.data = data, .bytes = bytes}, params, model, err);
}

void pco_model_close(pco_model *model)
{
    if (!model || pco_registry_check(model->context->registry, NULL))
        return; /* a child has no device to give it back to */
    for (int64_t lane = 0; model->sequences && lane < model->lanes; lane++)
        if (model->sequences[lane]) model->sequences[lane]->model = NULL; /* what is done with it is refused */
    pco_causal_destroy(model->causal);
    pco_causal_destroy(model->beams);
    pco_seq2seq_destroy(model->seq2seq);
    pco_encoder_destroy(model->encoder);
    pco_image_encoder_destroy(model->images);
    pco_labels_destroy(model->labels);
    pco_session_close(model->session);
    pco_model_file_close(model->file);
    free(model->logits);
    free(model->workspace);
    free(model->sequences);
    free(model->own.ids);
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
        all.sequences = model->causal ? model->lanes : 0;
        all.cached_tokens = model->causal ? pco_causal_capacity(model->causal) : 0;
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
    if (!status) status = pco_model_estimate(file, context, 1, PCO_F32, &estimate, err);
    if (!status) api_describe(file, context, &estimate, &all);
    if (!status) status = pco_fill_sized(info, &all, sizeof all, err);
    pco_model_file_close(file);
    return status;
}
