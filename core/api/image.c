#include "portico/image.h"

#include "api/text.h"
#include "base/dtype.h"
#include "base/error.h"
#include "models/image_processor.h"
#include "models/labels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A call that reads images. */
typedef struct image_call {
    pco_model *model;
    const pco_image *images;
    size_t count;
    pco_image_processor processor;
    int (*progress)(void *user, size_t done, size_t count);
    void *progress_user;
} image_call;

static pco_status image_source(void *user, int64_t index, float *pixels, pco_error *err)
{
    const image_call *call = user;
    const size_t stride = call->images->size;
    pco_image image = {.size = sizeof image};
    const pco_status status =
        pco_copy_sized(&image, sizeof image, (const char *)call->images + (size_t)index * stride, stride, err);
    return status ? status
                  : pco_image_process(&call->processor, &image, call->model->file->images->patches.image, pixels, err);
}

static int image_progressed(void *user, int64_t done)
{
    const image_call *call = user;
    return call->progress ? call->progress(call->progress_user, (size_t)done, call->count) : 0;
}

static pco_status image_needs(const pco_model *model, pco_error *err)
{
    if (model->file->images) return PCO_OK;
    return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s reads no images ('%s')", model->file->path,
                    model->file->family->name);
}

pco_status api_image_encoder(pco_model *model, pco_error *err)
{
    const pco_status status = image_needs(model, err);
    if (status || model->images) return status;
    return pco_image_encoder_create(model->session, model->file->weights, model->file->images, &model->images, err);
}

static pco_status image_run(image_call *call, pco_encoder_output output, float *results, pco_error *err)
{
    pco_model *model = call->model;
    pco_status status = pco_image_processor_read(model->file, &call->processor, err);
    if (!status) status = api_image_encoder(model, err);
    if (!status)
        status = pco_image_encoder_run(model->images, output, image_source, (int64_t)call->count, results,
                                       image_progressed, call, err);
    return status;
}

/* The model's own, or what was asked for. */
static pco_encoder_output image_output(const pco_model_spec *spec, pco_pooling pooling)
{
    switch (pooling) {
    case PCO_POOLING_MEAN: return PCO_ENCODER_MEAN;
    case PCO_POOLING_CLS: return PCO_ENCODER_CLS;
    case PCO_POOLING_LAST: return PCO_ENCODER_LAST;
    default: return spec->features.linear ? PCO_ENCODER_FEATURES : PCO_ENCODER_CLS;
    }
}

int64_t pco_model_embedding_width(const pco_model *model, int images, pco_pooling pooling)
{
    if (!model || (images ? !model->file->images : !pco_model_reads_texts(model->file))) return 0;
    const pco_model_spec *spec = images ? model->file->images : &model->file->spec;
    return pco_encoder_width(spec, image_output(spec, pooling));
}

pco_status pco_model_embed_images(pco_model *model, const pco_image *images, size_t count,
                                  const pco_embed_params *params, float *embeddings, pco_error *err)
{
    pco_embed_params known = {.size = sizeof known};
    API_NEEDS_MODEL(model);
    PCO_NEEDS_SOME(images, count);
    PCO_NEEDS_SOME(embeddings, count);
    pco_status status = params ? pco_copy_sized(&known, sizeof known, params, params->size, err) : PCO_OK;
    if (!status) status = api_check_embed(&known, err);
    if (!status) status = image_needs(model, err);
    if (status || !count) return status;
    image_call call = {.model = model,
                       .images = images,
                       .count = count,
                       .progress = known.progress,
                       .progress_user = known.progress_user};
    status = image_run(&call, image_output(model->file->images, known.pooling), embeddings, err);
    if (!status && known.normalize > 0)
        api_normalize(embeddings, count, pco_model_embedding_width(model, 1, known.pooling));
    return status;
}

/* Rows of logits to their softmax, in double. */
static void image_softmax(float *rows, size_t count, size_t width)
{
    for (size_t i = 0; i < count; i++, rows += width) {
        double most = -INFINITY, sum = 0;
        for (size_t k = 0; k < width; k++) most = fmax(most, (double)rows[k]);
        for (size_t k = 0; k < width; k++) sum += exp((double)rows[k] - most);
        for (size_t k = 0; k < width; k++) rows[k] = (float)(exp((double)rows[k] - most) / sum);
    }
}

static double image_norm(const float *row, int64_t width)
{
    double squares = 0;
    for (int64_t k = 0; k < width; k++) squares += (double)row[k] * (double)row[k];
    return sqrt(squares);
}

/* The factor of cosines. */
static pco_status image_scale(const pco_model_file *file, double *scale, pco_error *err)
{
    const pco_weight *weight =
        file->images->logit_scale ? pco_weights_find(file->weights, file->images->logit_scale) : NULL;
    if (!weight || weight->dtype < 0 || pco_dtype_class_of((uint32_t)weight->dtype) != PCO_DTYPE_FLOAT ||
        weight->bytes != (weight->dtype == PCO_F32 ? 4 : 2))
        return pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has no '%s' of one number", file->path,
                        file->images->logit_scale ? file->images->logit_scale : "logit_scale");
    *scale = exp((double)pco_hub_element(weight, 0));
    return PCO_OK;
}

/* scores[count][labels] = scale * cosine of image and text. */
static pco_status image_match(image_call *call, const pco_classify_params *params, float *scores, pco_error *err)
{
    const pco_model_spec *spec = call->model->file->images;
    const size_t labels = params->label_count;
    const int64_t width = spec->features.width;
    double scale = 0;
    float *texts = malloc((labels + call->count) * (size_t)width * sizeof *texts);
    if (!texts) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %zu labels", labels);
    float *images = texts + labels * (size_t)width;
    pco_status status = image_scale(call->model->file, &scale, err);
    if (!status) status = pco_model_embed(call->model, params->labels, labels, NULL, texts, NULL, err);
    if (!status) status = image_run(call, PCO_ENCODER_FEATURES, images, err);
    for (size_t i = 0; !status && i < call->count; i++)
        for (size_t j = 0; j < labels; j++) {
            const float *a = images + i * (size_t)width, *b = texts + j * (size_t)width;
            double sum = 0;
            for (int64_t k = 0; k < width; k++) sum += (double)a[k] * (double)b[k];
            scores[i * labels + j] = (float)(scale * sum / (image_norm(a, width) * image_norm(b, width)));
        }
    free(texts);
    return status;
}

pco_status pco_model_classify(pco_model *model, const pco_image *images, size_t count,
                              const pco_classify_params *params, float *scores, pco_error *err)
{
    pco_classify_params known = {.size = sizeof known};
    API_NEEDS_MODEL(model);
    PCO_NEEDS_SOME(images, count);
    PCO_NEEDS_SOME(scores, count);
    pco_status status = params ? pco_copy_sized(&known, sizeof known, params, params->size, err) : PCO_OK;
    if (!status) status = image_needs(model, err);
    if (status) return status;
    PCO_NEEDS_SOME(known.labels, known.label_count);
    const pco_model_file *file = model->file;
    image_call call = {.model = model,
                       .images = images,
                       .count = count,
                       .progress = known.progress,
                       .progress_user = known.progress_user};
    if (known.labels && !pco_model_reads_texts(file))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s reads no texts, so that labels cannot be chosen", file->path);
    if (!known.labels && !file->images->classes.linear)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s has no classifier%s", file->path,
                        pco_model_reads_texts(file) ? "; it needs labels to choose from" : "");
    if (known.labels && !known.label_count) return pco_fail(err, PCO_ERROR_INVALID, "there are no labels");
    if (!count) return PCO_OK;
    status =
        known.labels ? image_match(&call, &known, scores, err) : image_run(&call, PCO_ENCODER_CLASSES, scores, err);
    if (!status && !known.logits)
        image_softmax(scores, count, known.labels ? known.label_count : (size_t)file->images->classes.width);
    return status;
}

pco_status pco_model_labels(pco_model *model, const char *const **names, size_t *count, pco_error *err)
{
    API_NEEDS_MODEL(model);
    PCO_NEEDS(names);
    PCO_NEEDS(count);
    *names = NULL;
    *count = 0;
    const pco_model_spec *spec = model->file->images;
    if (!spec || !spec->classes.linear) return PCO_OK;
    if (!model->labels) {
        const pco_status status = pco_labels_read(model->file, (size_t)spec->classes.width, &model->labels, err);
        if (status) return status;
    }
    *names = (const char *const *)model->labels->names;
    *count = model->labels->count;
    return PCO_OK;
}
