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

void pco_hub_read_encoder(pco_hub_reader *r, const pco_hub_keys *keys, pco_model_spec *spec)
{
    spec->vocab_size[PCO_ENCODER] = spec->vocab_size[PCO_DECODER] = pco_hub_size(r, "vocab_size", INT32_MAX);
    spec->d_model = pco_hub_size(r, keys->width, 1 << 20);
    spec->layers[PCO_ENCODER] = pco_hub_size(r, keys->layers, 1024);
    const int64_t heads = pco_hub_size(r, keys->heads, 4096);
    spec->ffn_dim[PCO_ENCODER] = pco_hub_size(r, keys->ffn, 1 << 24);
    const int64_t positions = pco_hub_size(r, keys->context, 1 << 24);
    spec->activation_function = pco_hub_activation(r, keys->activation, spec->activation_function);
    spec->norm.eps = pco_hub_number(r, keys->eps, 0, 1, spec->norm.eps);
    spec->pad_token_id = pco_hub_token(r, "pad_token_id", spec->pad_token_id);
    spec->bos_token_id = spec->eos_token_id = spec->decoder_start_token_id = -1;
    hub_refuse_encoder(r);
    if (r->status) return;
    if (spec->d_model % heads) {
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: '%s' %" PRId64 " is no multiple of '%s' %" PRId64, r->label,
                             keys->width, spec->d_model, keys->heads, heads);
        return;
    }
    spec->attention_heads[PCO_ENCODER] = spec->kv_heads[PCO_ENCODER] = heads;
    spec->head_dim[PCO_ENCODER] = spec->d_model / heads;
    pco_spec_set_norm(spec);
    spec->position_rows = positions;
    spec->max_position_embeddings = positions - spec->position_offset;
    if (spec->max_position_embeddings < 1)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT,
                             "%s: '%s' is %" PRId64 ", of which the first %" PRId64 " are for padding", r->label,
                             keys->context, positions, spec->position_offset);
}
