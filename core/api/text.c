#include "api/text.h"

#include "base/error.h"

#include <string.h>

pco_status api_encode(const pco_model *model, const char *text, size_t bytes, int special, int32_t **ids, size_t *count,
                      pco_error *err)
{
    const pco_model_file *file = model->file;
    uint32_t flags = 0;
    *ids = NULL;
    *count = 0;
    if (!file->source) return pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has no tokenizer", file->path);
    if (special && (file->spec.decoder_only || file->spec.encoder_only)) {
        if (pco_tokenizer_adds_bos(file->source)) flags |= PCO_ENCODE_BOS;
        if (pco_tokenizer_adds_eos(file->source)) flags |= PCO_ENCODE_EOS;
    } else if (special && file->spec.add_eos_to_source) {
        flags |= PCO_ENCODE_EOS;
    }
    return pco_tokenizer_encode(file->source, text, bytes, flags, ids, count, err);
}

pco_status pco_model_tokenize(const pco_model *model, const char *text, size_t bytes, int special, int32_t **ids,
                              size_t *count, pco_error *err)
{
    PCO_NEEDS(ids);
    PCO_NEEDS(count);
    *ids = NULL;
    *count = 0;
    API_NEEDS_MODEL(model);
    PCO_NEEDS_SOME(text, bytes);
    return api_encode(model, text, bytes, special, ids, count, err);
}

pco_status pco_model_detokenize(const pco_model *model, const int32_t *ids, size_t count, char **text, size_t *bytes,
                                pco_error *err)
{
    PCO_NEEDS(text);
    PCO_NEEDS(bytes);
    *text = NULL;
    *bytes = 0;
    API_NEEDS_MODEL(model);
    PCO_NEEDS_SOME(ids, count);
    const pco_model_file *file = model->file;
    if (!file->target) return pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has no tokenizer", file->path);
    return pco_tokenizer_decode(file->target, ids, count, text, bytes, err);
}
