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
    if (special & ~(PCO_TOKENIZE_ENDS | PCO_TOKENIZE_CONTROL))
        return pco_fail(err, PCO_ERROR_INVALID,
                        "special is %d, and must be PCO_TOKENIZE_ENDS, PCO_TOKENIZE_CONTROL, "
                        "both or 0",
                        special);
    if (special & PCO_TOKENIZE_CONTROL) flags |= PCO_ENCODE_SPECIAL;
    if (special & PCO_TOKENIZE_ENDS) flags |= pco_model_around(file, PCO_ENCODER);
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

pco_status pco_model_special_ids(const pco_model *model, pco_special_ids *ids, pco_error *err)
{
    PCO_NEEDS(ids);
    API_NEEDS_MODEL(model);
    const pco_model_file *file = model->file;
    if (!file->target) return pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has no tokenizer", file->path);
    const pco_tokenizer_special special = pco_tokenizer_specials(file->target);
    const int alone = file->spec.decoder_only || file->spec.encoder_only;
    const uint32_t around = pco_model_around(file, PCO_ENCODER);
    const pco_special_ids all = {.bos = special.bos,
                                 .eos = special.eos,
                                 .pad = special.pad,
                                 .unk = special.unk,
                                 .decoder_start = alone ? -1 : file->spec.decoder_start_token_id,
                                 .adds_bos = (around & PCO_ENCODE_BOS) != 0,
                                 .adds_eos = (around & PCO_ENCODE_EOS) != 0};
    return pco_fill_sized(ids, &all, sizeof all, err);
}

int pco_model_ends(const pco_model *model, int32_t id)
{
    if (!model) return 0;
    return model->file->target ? pco_model_file_ends(model->file, id) : id == model->file->spec.eos_token_id;
}

const char *pco_model_token(const pco_model *model, int32_t id, size_t *bytes)
{
    size_t size = 0;
    const char *token = NULL;
    if (model && model->file->target) token = pco_tokenizer_token(model->file->target, id, &size);
    if (bytes) *bytes = token ? size : 0;
    return token;
}

int api_ends(const pco_model *model, int32_t id)
{
    const pco_model_file *file = model->file;
    if (!model->causal || !file->target) return id == file->spec.eos_token_id;
    return pco_model_file_ends(file, id) || id == pco_tokenizer_specials(file->target).bos;
}

pco_status api_check_texts(const pco_model *model, const pco_generate_params *params, const char *function,
                           const char *prompt, int writes, pco_error *err)
{
    const pco_model_file *file = model->file;
    if (!prompt && !params->prompt_ids && params->prompt_count) return pco_fail_missing(err, function, "prompt_ids");
    if (!prompt && !params->prompt_ids) return pco_fail_missing(err, function, "prompt");
    if (!params->prefix_ids && params->prefix_count) return pco_fail_missing(err, function, "prefix_ids");
    if ((prompt && params->prompt_ids) || (params->prefix && params->prefix_ids))
        return pco_fail(err, PCO_ERROR_INVALID, "%s is given as text and as ids; leave one out",
                        params->prefix_ids && params->prefix ? "the prefix" : "the prompt");
    if ((params->prefix || params->prefix_ids) && model->causal)
        return pco_fail(err, PCO_ERROR_INVALID, "prefix is for encoder-decoder models");
    if ((prompt && !file->source) || ((params->prefix || writes) && !file->target))
        return pco_fail(err, PCO_ERROR_NOT_FOUND, "%s has no tokenizer", file->path);
    return PCO_OK;
}
