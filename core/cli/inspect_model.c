/* Opens a model as `portico inspect` needs it: ready to run. */
#include "cli/inspect.h"
#include "cli/model.h"

#include "models/encoder.h"
#include "models/seq2seq.h"

/* What `portico embed` and `portico classify` read of an encoder. */
static pco_encoder_output inspect_output(const pco_model_spec *spec)
{
    return spec->classes.linear       ? PCO_ENCODER_CLASSES
           : spec->features.linear    ? PCO_ENCODER_FEATURES
           : spec->patches.projection ? PCO_ENCODER_CLS
                                      : PCO_ENCODER_MEAN;
}

/* Of texts, of images, or both. */
static pco_status inspect_open_encoders(pco_model *model, pco_error *err)
{
    const pco_model_file *file = model->file;
    pco_status status = PCO_OK;
    if (pco_model_reads_texts(file)) {
        status = api_encoder(model, err);
        if (!status) status = pco_encoder_warm_up(model->encoder, inspect_output(&file->spec), err);
    }
    if (status || !file->images) return status;
    status = api_image_encoder(model, err);
    return status ? status : pco_image_encoder_warm_up(model->images, inspect_output(file->images), err);
}

pco_status inspect_open_model(const inspect_arguments *arguments, pco_context *context, pco_model **model,
                              pco_error *err)
{
    pco_status status =
        cli_open_any_model(context, arguments->path, CLI_OPEN(arguments->device, arguments->context), model, err);
    if (!status && (*model)->causal) status = pco_causal_reserve((*model)->causal, (*model)->context_length, err);
    if (!status && (*model)->causal) status = pco_causal_warm_up((*model)->causal, err);
    if (!status && (*model)->seq2seq) status = pco_seq2seq_warm_up((*model)->seq2seq, err);
    return status || !(*model)->file->spec.encoder_only ? status : inspect_open_encoders(*model, err);
}

pco_executable_stats inspect_counts(const pco_model *model)
{
    const pco_model_file *file = model->file;
    if (model->causal) return pco_causal_inspect(model->causal);
    if (model->seq2seq) return pco_seq2seq_inspect(model->seq2seq);
    pco_executable_stats all = {0}, images = {0};
    if (model->encoder) all = pco_encoder_inspect(model->encoder, inspect_output(&file->spec));
    if (model->images) images = pco_image_encoder_inspect(model->images, inspect_output(file->images));
    all.constant_bytes += images.constant_bytes;
    all.nodes += images.nodes;
    all.cpu_nodes += images.cpu_nodes;
    all.decomposed += images.decomposed;
    if (images.parts > all.parts) all.parts = images.parts;
    if (images.io_bytes > all.io_bytes) all.io_bytes = images.io_bytes;
    if (images.arena_bytes <= all.arena_bytes) return all;
    all.arena_bytes = images.arena_bytes;
    all.arena_lower_bound = images.arena_lower_bound;
    return all;
}
