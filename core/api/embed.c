#include "api/text.h"

#include "base/error.h"
#include "models/sentence.h"
#include "portico/image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct embed_progress {
    const pco_embed_params *params;
    size_t count;
} embed_progress;

static int embed_progressed(void *user, int64_t done)
{
    const embed_progress *progress = user;
    const pco_embed_params *params = progress->params;
    return params->progress ? params->progress(params->progress_user, (size_t)done, progress->count) : 0;
}

/* Cuts to `most` tokens; what the tokenizer puts behind a text stays there. */
static void embed_cut(const pco_model *model, pco_encoder_text *text, int64_t most, size_t *cut)
{
    int32_t *ids = (int32_t *)text->ids;
    if (text->count <= most) return;
    if (pco_tokenizer_adds_eos(model->file->source)) ids[most - 1] = ids[text->count - 1];
    text->count = most;
    ++*cut;
}

void api_normalize(float *rows, size_t count, int64_t width)
{
    for (size_t i = 0; i < count; i++, rows += width) {
        double squares = 0;
        for (int64_t k = 0; k < width; k++) squares += (double)rows[k] * (double)rows[k];
        for (int64_t k = 0; squares > 0 && k < width; k++) rows[k] = (float)((double)rows[k] / sqrt(squares));
    }
}

static pco_encoder_output embed_output(const pco_model *model, const pco_embed_params *params,
                                       const pco_sentence *sentence)
{
    static const pco_encoder_output outputs[] = {[PCO_POOLING_MEAN] = PCO_ENCODER_MEAN,
                                                 [PCO_POOLING_CLS] = PCO_ENCODER_CLS,
                                                 [PCO_POOLING_LAST] = PCO_ENCODER_LAST};
    const pco_model_spec *spec = &model->file->spec;
    if (params->pooling) return outputs[params->pooling];
    return spec->features.linear ? PCO_ENCODER_FEATURES : spec->features_last ? PCO_ENCODER_LAST : sentence->pooling;
}

static pco_status embed_run(pco_model *model, const char *const *texts, size_t count, const pco_embed_params *params,
                            const pco_sentence *sentence, float *embeddings, size_t *cut, pco_error *err)
{
    const pco_model_spec *spec = &model->file->spec;
    const pco_encoder_output output = embed_output(model, params, sentence);
    const int64_t context = model->context_length,
                  most = sentence->max_tokens && sentence->max_tokens < context ? sentence->max_tokens : context;
    pco_encoder_text *encoded = calloc(count + 1, sizeof *encoded);
    embed_progress progress = {params, count};
    if (!encoded) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %zu texts", count);
    pco_status status = api_encoder(model, err);
    for (size_t i = 0; !status && i < count; i++) {
        int32_t *ids = NULL;
        size_t tokens = 0;
        status = texts[i] ? api_encode(model, texts[i], strlen(texts[i]), 1, &ids, &tokens, err)
                          : pco_fail(err, PCO_ERROR_INVALID, "text %zu is NULL", i);
        encoded[i] = (pco_encoder_text){.ids = ids, .count = (int64_t)tokens};
        if (!status) embed_cut(model, &encoded[i], most, cut);
        if (!status && !params->pooling && spec->features_last)
            encoded[i].count = pco_encoder_text_end(spec, ids, encoded[i].count);
    }
    if (!status)
        status = pco_encoder_run(model->encoder, output, encoded, (int64_t)count, embeddings, embed_progressed,
                                 &progress, err);
    for (size_t i = 0; i < count; i++) free((void *)encoded[i].ids);
    free(encoded);
    return status;
}

pco_status api_check_embed(const pco_embed_params *params, pco_error *err)
{
    if ((unsigned)params->pooling <= PCO_POOLING_LAST && params->normalize >= -1 && params->normalize <= 1)
        return PCO_OK;
    return pco_fail(err, PCO_ERROR_INVALID, "pooling is %d and normalize %d, which mean nothing", (int)params->pooling,
                    params->normalize);
}

pco_status pco_model_embed(pco_model *model, const char *const *texts, size_t count, const pco_embed_params *params,
                           float *embeddings, size_t *cut, pco_error *err)
{
    pco_embed_params known = {.size = sizeof known};
    pco_sentence sentence;
    size_t shortened = 0;
    API_NEEDS_MODEL(model);
    PCO_NEEDS_SOME(texts, count);
    PCO_NEEDS_SOME(embeddings, count);
    pco_status status = params ? pco_copy_sized(&known, sizeof known, params, params->size, err) : PCO_OK;
    if (!status) status = api_check_embed(&known, err);
    if (status) return status;
    status = pco_sentence_read(model->file->path, &sentence, err);
    if (!status) status = embed_run(model, texts, count, &known, &sentence, embeddings, &shortened, err);
    if (status) return status;
    if (known.normalize > 0 || (known.normalize == 0 && sentence.normalize))
        api_normalize(embeddings, count, pco_encoder_width(&model->file->spec, embed_output(model, &known, &sentence)));
    if (cut) *cut = shortened;
    return PCO_OK;
}
