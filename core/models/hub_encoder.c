/* What the config.json files of encoders have in common. */
#include "models/hub.h"

#include "base/error.h"

#include <inttypes.h>

const pco_hub_keys pco_hub_encoder_keys = {.width = "hidden_size",
                                           .ffn = "intermediate_size",
                                           .layers = "num_hidden_layers",
                                           .heads = "num_attention_heads",
                                           .context = "max_position_embeddings",
                                           .eps = "layer_norm_eps",
                                           .activation = "hidden_act"};

/* What would change the numbers and is not there. */
static void hub_refuse_encoder(pco_hub_reader *r)
{
    pco_hub_only_text(r, "position_embedding_type", "absolute");
    pco_hub_only(r, "is_encoder_decoder", 0);
    pco_hub_only(r, "is_decoder", 0);
    pco_hub_only(r, "add_cross_attention", 0);
    pco_hub_only(r, "tie_word_embeddings", 1);
}

/* What encoders of texts and of images have. 0 after an error. */
static int hub_read_layers(pco_hub_reader *r, const pco_hub_keys *keys, const pco_hub_sizes *usual,
                           pco_model_spec *spec)
{
    spec->d_model = pco_hub_usual_size(r, keys->width, 1 << 20, usual->width);
    spec->layers[PCO_ENCODER] = pco_hub_usual_size(r, keys->layers, 1024, usual->layers);
    const int64_t heads = pco_hub_usual_size(r, keys->heads, 4096, usual->heads);
    spec->ffn_dim[PCO_ENCODER] = pco_hub_usual_size(r, keys->ffn, 1 << 24, usual->ffn);
    spec->activation_function = pco_hub_activation(r, keys->activation, spec->activation_function);
    spec->norm.eps = pco_hub_number(r, keys->eps, 0, 1, spec->norm.eps);
    spec->bos_token_id = spec->eos_token_id = spec->decoder_start_token_id = -1;
    hub_refuse_encoder(r);
    if (r->status) return 0;
    if (spec->d_model % heads) {
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: '%s' %" PRId64 " is no multiple of '%s' %" PRId64, r->label,
                             keys->width, spec->d_model, keys->heads, heads);
        return 0;
    }
    spec->attention_heads[PCO_ENCODER] = spec->kv_heads[PCO_ENCODER] = heads;
    spec->head_dim[PCO_ENCODER] = spec->d_model / heads;
    pco_spec_set_norm(spec);
    spec->last_norm = spec->norm;
    return 1;
}

void pco_hub_read_encoder(pco_hub_reader *r, const pco_hub_keys *keys, pco_model_spec *spec)
{
    pco_hub_read_encoder_or(r, keys, &(pco_hub_sizes){0}, spec);
}

void pco_hub_read_encoder_or(pco_hub_reader *r, const pco_hub_keys *keys, const pco_hub_sizes *usual,
                             pco_model_spec *spec)
{
    spec->vocab_size[PCO_ENCODER] = spec->vocab_size[PCO_DECODER] =
        pco_hub_usual_size(r, "vocab_size", INT32_MAX, usual->vocab);
    const int64_t positions = pco_hub_usual_size(r, keys->context, 1 << 24, usual->positions);
    spec->pad_token_id = pco_hub_token(r, "pad_token_id", spec->pad_token_id);
    if (!hub_read_layers(r, keys, usual, spec)) return;
    spec->position_rows = positions;
    spec->max_position_embeddings = positions - spec->position_offset;
    if (spec->max_position_embeddings < 1)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                             "%s: '%s' is %" PRId64 ", of which the first %" PRId64 " are for padding", r->label,
                             keys->context, positions, spec->position_offset);
}

/* A height and a width: a number for both, or a list of two. */
static void hub_read_extent(pco_hub_reader *r, const char *key, int64_t extent[2])
{
    const cJSON *item = pco_hub_item(r, key), *number = cJSON_IsArray(item) ? item->child : item;
    if (!item || r->status) return;
    for (int i = 0; i < 2; i++) {
        if (!number || !pco_json_whole(number, &extent[i]) || extent[i] < 1 || extent[i] > PCO_SPEC_IMAGE) {
            r->status =
                pco_fail(r->err, PCO_ERROR_FORMAT, "%s: '%s' must be a number of pixels, 1 to %d, or two of them",
                         r->label, key, PCO_SPEC_IMAGE);
            return;
        }
        if (cJSON_IsArray(item)) number = number->next;
    }
}

void pco_hub_read_image_encoder(pco_hub_reader *r, const pco_hub_keys *keys, pco_model_spec *spec)
{
    const pco_hub_sizes usual = {.width = 768, .ffn = 3072, .layers = 12, .heads = 12};
    pco_patches *p = &spec->patches;
    hub_read_extent(r, "image_size", p->image);
    hub_read_extent(r, "patch_size", p->patch);
    pco_hub_only(r, "num_channels", (double)p->channels);
    spec->pad_token_id = -1;
    if (!hub_read_layers(r, keys, &usual, spec)) return;
    for (int i = 0; i < 2; i++)
        if (p->image[i] < p->patch[i]) {
            r->status =
                pco_fail(r->err, PCO_ERROR_FORMAT, "%s: 'image_size' %" PRId64 " is less than 'patch_size' %" PRId64,
                         r->label, p->image[i], p->patch[i]);
            return;
        }
    spec->position_rows = spec->max_position_embeddings = 1 + pco_patch_count(p);
}

int64_t pco_hub_labels(pco_hub_reader *r)
{
    const int64_t named = cJSON_GetArraySize(pco_hub_item(r, "id2label"));
    return named ? named : pco_hub_size_or(r, "num_labels", 1 << 20, 2);
}
