/* What tells two models apart, without reading all of a large file. */
#include "train/data_internal.h"

#include <string.h>

enum { DIGEST_ENDS = 4096 }; /* bytes at either end of a tensor */

void data_model_digest(const pco_model_file *model, pco_model_side side, char digest[PCO_SHA256_TEXT])
{
    const pco_tokenizer *tokenizer = side == PCO_ENCODER ? model->source : model->target;
    const uint32_t tokens = tokenizer ? pco_tokenizer_vocab_size(tokenizer) : 0;
    pco_sha256 sha;
    pco_sha256_start(&sha);
    for (uint32_t i = 0; i < model->weights->count; i++) {
        const pco_weight *weight = &model->weights->items[i];
        const size_t most = weight->bytes < DIGEST_ENDS ? (size_t)weight->bytes : DIGEST_ENDS;
        const char *data = weight->data;
        pco_sha256_add(&sha, weight->name, strlen(weight->name) + 1);
        pco_sha256_add(&sha, weight->type_name, strlen(weight->type_name) + 1);
        pco_sha256_add(&sha, weight->shape, weight->rank * sizeof *weight->shape);
        if (!data) continue;
        pco_sha256_add(&sha, data, most);
        pco_sha256_add(&sha, data + weight->bytes - most, most);
    }
    for (uint32_t i = 0; i < tokens; i++) {
        size_t size = 0;
        const char *token = pco_tokenizer_token(tokenizer, (int32_t)i, &size);
        pco_sha256_add(&sha, &size, sizeof size);
        if (token) pco_sha256_add(&sha, token, size);
    }
    pco_sha256_finish_text(&sha, digest);
}
