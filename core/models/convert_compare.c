/* Whether a model that was written has the tokenizer of the one that was read. */
#include "models/convert_internal.h"

#include "base/error.h"
#include "text/tokenizer_write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Letters with and without case, numbers, blanks, ends of lines, signs, other scripts, contractions. */
static const char convert_probe[] =
    "Hello, World! I'm 1234567 and YOU'LL see: x = y_2 + {z};\n\n\t  Stra\xC3\x9F"
    "e \xE4\xBD\xA0\xE5\xA5\xBD "
    "\xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 \xF0\x9F\x98\x80 -- it's 3.14%  \r\n end ";

/* Do both tokenizers of a side make the same ids of a text, with what each puts around it? */
static pco_status convert_compare_text(const pco_model_file *file, const pco_model_file *made, pco_model_side side,
                                       const char *text, size_t size, pco_error *err)
{
    int32_t *ids[2] = {NULL, NULL};
    size_t counts[2] = {0, 0};
    const pco_tokenizer *of[2] = {side ? file->target : file->source, side ? made->target : made->source};
    pco_status status = PCO_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const pco_model_file *one = i ? made : file;
        /* a target's own ends are of training */
        const uint32_t flags =
            of[i] && (side == PCO_ENCODER || file->spec.decoder_only) ? pco_model_around(one, side) : 0;
        status = of[i]
                     ? pco_tokenizer_encode(of[i], text, size, flags, &ids[i], &counts[i], err)
                     : pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: its tokenizer is not in what was written", file->path);
        if (status == PCO_ERROR_INVALID && !i) return PCO_OK; /* it has no tokens for that text */
    }
    if (!status && (counts[0] != counts[1] || memcmp(ids[0], ids[1], counts[0] * sizeof **ids) != 0))
        status = pco_fail(err, PCO_ERROR_UNSUPPORTED,
                          "%s: its tokenizer makes other ids of a text than what %s can say of it", file->path,
                          made->gguf ? "GGUF" : "a folder of Hugging Face");
    free(ids[0]);
    free(ids[1]);
    return status;
}

static pco_status convert_compare_side(const pco_model_file *file, const pco_model_file *made, pco_model_side side,
                                       int exact, pco_error *err)
{
    pco_writer pieces = {0};
    pco_status status = convert_compare_text(file, made, side, convert_probe, sizeof convert_probe - 1, err);
    if (!status && exact) status = pco_tokenizer_sample(side ? file->target : file->source, &pieces, err);
    if (!status && exact) status = convert_compare_text(file, made, side, pieces.data, pieces.size, err);
    pco_writer_release(&pieces);
    return status;
}

/* `exact`: texts need not be as a normaliser leaves them. */
pco_status convert_compare_ids(const pco_model_file *file, const pco_model_file *made, int exact, pco_error *err)
{
    if (!file->target) return PCO_OK;
    pco_status status = convert_compare_side(file, made, PCO_DECODER, exact, err);
    if (!status && !file->spec.decoder_only) status = convert_compare_side(file, made, PCO_ENCODER, exact, err);
    for (uint32_t i = 0; i < file->n_ends && !status; i++)
        if (!pco_model_file_ends(made, file->ends[i]))
            status = pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: %s cannot say that a text ends with token %" PRId32,
                              file->path, made->gguf ? "GGUF" : "a folder of Hugging Face", file->ends[i]);
    return status;
}
