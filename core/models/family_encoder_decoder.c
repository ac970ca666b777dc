/* EncoderDecoderModel of transformers, which puts two models of other families together: here an encoder that is
 * MegatronBert's (Shoeybi et al. 2019) and a decoder that is Blenderbot's (Roller et al. 2020). Both are the pre-norm
 * transformer (Xiong et al. 2020) with a norm behind the layers, a table of positions and a vocabulary each, which is
 * what most translators are that Portico trains. Pairs of other families are refused. */
#include "models/family.h"

#include "base/error.h"

#include <inttypes.h>

#define DECODER "decoder.model.decoder"

static const pco_layer_names decoder_names = {PCO_FAIRSEQ_LAYER_NAMES};

static const pco_model_spec pair_spec = {
    .program = "decoder",
    .stacks = {{.embed_scope = "encoder",
                .head_scope = "encoder",
                .embedding = "encoder.embeddings.word_embeddings.weight",
                .positions = "encoder.embeddings.position_embeddings.weight",
                .token_types = "encoder.embeddings.token_type_embeddings.weight",
                .layer = "encoder.encoder.layer.*",
                .last_norm = "encoder.encoder.ln"},
               {.embed_scope = "decoder",
                .head_scope = "decoder",
                .embedding = DECODER ".embed_tokens.weight",
                .positions = DECODER ".embed_positions.weight",
                .layer = DECODER ".layers.*",
                .last_norm = DECODER ".layer_norm"}},
    .names = {.self_attention_norm = "attention.ln",
              .query = "attention.self.query",
              .key = "attention.self.key",
              .value = "attention.self.value",
              .output = "attention.output.dense",
              .ffn_norm = "ln",
              .fc1 = "intermediate.dense",
              .fc2 = "output.dense"},
    .decoder_names = &decoder_names,
    .lm_head = "decoder.lm_head.weight",
    .norm.eps = 1e-5, /* of the decoder */
    .normalize_before = 1,
    .final_norm = 1,
    .attention_bias = PCO_BIAS_ALL,
    .output_bias = PCO_BIAS_ALL,
    .ffn_bias = PCO_BIAS_ALL,
    .position_embedding = PCO_POSITION_LEARNED,
};

/* Sizes of a side; the decoder comes second, and its are to fit. */
static void pair_read_side(pco_hub_reader *r, pco_model_side side, const pco_hub_keys *keys, pco_model_spec *spec)
{
    static const char *const sides[] = {"encoder", "decoder"};
    const int64_t width = pco_hub_size(r, keys->width, 1 << 20), heads = pco_hub_size(r, keys->heads, 4096),
                  context = pco_hub_size(r, keys->context, 1 << 24);
    const pco_nn_activation activation = pco_hub_activation(r, keys->activation, PCO_NN_GELU);
    spec->vocab_size[side] = pco_hub_size(r, "vocab_size", INT32_MAX);
    spec->layers[side] = pco_hub_size(r, keys->layers, 1024);
    spec->attention_heads[side] = spec->kv_heads[side] = heads;
    spec->head_dim[side] = width / heads;
    spec->ffn_dim[side] = pco_hub_size(r, keys->ffn, 1 << 24);
    if (!r->status && width % heads)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: '%s' %" PRId64 " is no multiple of '%s'", r->label,
                             keys->width, width, keys->heads);
    if (!r->status && side == PCO_DECODER &&
        (width != spec->d_model || context != spec->max_position_embeddings || activation != spec->activation_function))
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                             "%s: '%s', '%s' or '%s' is not as in the %s, which Portico cannot run", r->label,
                             keys->width, keys->context, keys->activation, sides[PCO_ENCODER]);
    spec->d_model = width;
    spec->max_position_embeddings = spec->position_rows = context;
    spec->activation_function = activation;
}

static void pair_read_encoder(pco_hub_reader *r, pco_model_spec *spec)
{
    static const pco_hub_keys keys = {PCO_HUB_USUAL_KEYS};
    pco_hub_only_text(r, "model_type", "megatron-bert");
    pair_read_side(r, PCO_ENCODER, &keys, spec);
    spec->token_types = pco_hub_size_or(r, "type_vocab_size", 1 << 16, 2);
    const double eps = pco_hub_number(r, "layer_norm_eps", 0, 1, 1e-12);
    if (!r->status && eps != spec->norm.eps)
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                             "%s: 'layer_norm_eps' is %g, and the decoder's is %g, which Portico cannot run", r->label,
                             eps, spec->norm.eps);
    pco_hub_only(r, "add_cross_attention", 0);
    pco_hub_ignore(r, "tie_word_embeddings");
}

static void pair_read_decoder(pco_hub_reader *r, pco_model_spec *spec)
{
    static const pco_hub_keys keys = {.width = "d_model",
                                      .ffn = "decoder_ffn_dim",
                                      .layers = "decoder_layers",
                                      .heads = "decoder_attention_heads",
                                      .context = "max_position_embeddings",
                                      .activation = "activation_function"};
    static const char *const same[] = {"encoder_layers",     "encoder_attention_heads", "encoder_ffn_dim", /* of none */
                                       "is_encoder_decoder", "num_hidden_layers",       "hidden_size",
                                       "num_attention_heads"};
    pco_hub_only_text(r, "model_type", "blenderbot");
    pair_read_side(r, PCO_DECODER, &keys, spec);
    pco_hub_only(r, "scale_embedding", 0);
    spec->tie_word_embeddings = pco_hub_bool(r, "tie_word_embeddings", 1);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) pco_hub_ignore(r, same[i]);
    spec->pad_token_id = pco_hub_token(r, "pad_token_id", 0);
    spec->bos_token_id = pco_hub_token(r, "bos_token_id", 1);
    spec->eos_token_id = pco_hub_token(r, "eos_token_id", 2);
    spec->decoder_start_token_id = pco_hub_token(r, "decoder_start_token_id", 1);
}

static void pair_read(pco_hub_reader *r, pco_model_spec *spec)
{
    pco_hub_only(r, "is_encoder_decoder", 1);
    pco_hub_read_part(r, "encoder", pair_read_encoder, spec);
    pco_hub_read_part(r, "decoder", pair_read_decoder, spec);
    pco_spec_set_norm(spec);
    spec->last_norm = spec->norm;
    spec->pad_token_id = pco_hub_token(r, "pad_token_id", spec->pad_token_id);
    spec->bos_token_id = pco_hub_token(r, "bos_token_id", spec->bos_token_id);
    spec->eos_token_id = pco_hub_token(r, "eos_token_id", spec->eos_token_id);
    spec->decoder_start_token_id = pco_hub_token(r, "decoder_start_token_id", spec->decoder_start_token_id);
    if (spec->pad_token_id < 0) spec->pad_token_id = 0;
    pco_hub_ignore(r, "tie_word_embeddings");
    spec->add_eos_to_source = pco_hub_bool(r, "add_eos_to_source", 0); /* Portico's own */
}

static void pair_write_encoder(pco_hub_writer *w, const pco_model_spec *spec)
{
    pco_hub_put_text(w, "model_type", "megatron-bert");
    pco_hub_put_size(w, "vocab_size", spec->vocab_size[PCO_ENCODER]);
    pco_hub_put_size(w, "hidden_size", spec->d_model);
    pco_hub_put_size(w, "num_hidden_layers", spec->layers[PCO_ENCODER]);
    pco_hub_put_size(w, "num_attention_heads", spec->attention_heads[PCO_ENCODER]);
    pco_hub_put_size(w, "intermediate_size", spec->ffn_dim[PCO_ENCODER]);
    pco_hub_put_size(w, "max_position_embeddings", spec->max_position_embeddings);
    pco_hub_put_size(w, "type_vocab_size", 1);
    pco_hub_put_activation(w, "hidden_act", spec->activation_function);
    pco_hub_put_number(w, "layer_norm_eps", spec->norm.eps);
    pco_hub_put_size(w, "pad_token_id", spec->pad_token_id);
}

static void pair_write_decoder(pco_hub_writer *w, const pco_model_spec *spec)
{
    pco_hub_put_text(w, "model_type", "blenderbot");
    pco_hub_put_bool(w, "is_decoder", 1);
    pco_hub_put_bool(w, "add_cross_attention", 1);
    pco_hub_put_bool(w, "is_encoder_decoder", 0);
    pco_hub_put_size(w, "vocab_size", spec->vocab_size[PCO_DECODER]);
    pco_hub_put_size(w, "d_model", spec->d_model);
    pco_hub_put_size(w, "decoder_layers", spec->layers[PCO_DECODER]);
    pco_hub_put_size(w, "encoder_layers", spec->layers[PCO_DECODER]); /* "num_hidden_layers" of transformers */
    pco_hub_put_size(w, "decoder_attention_heads", spec->attention_heads[PCO_DECODER]);
    pco_hub_put_size(w, "encoder_attention_heads", spec->attention_heads[PCO_DECODER]); /* likewise */
    pco_hub_put_size(w, "decoder_ffn_dim", spec->ffn_dim[PCO_DECODER]);
    pco_hub_put_size(w, "max_position_embeddings", spec->max_position_embeddings);
    pco_hub_put_activation(w, "activation_function", spec->activation_function);
    pco_hub_put_bool(w, "scale_embedding", 0);
    pco_hub_put_bool(w, "tie_word_embeddings", spec->tie_word_embeddings);
    pco_hub_put_size(w, "pad_token_id", spec->pad_token_id);
    pco_hub_put_size(w, "bos_token_id", spec->bos_token_id);
    pco_hub_put_size(w, "eos_token_id", spec->eos_token_id);
    pco_hub_put_or_null(w, "forced_eos_token_id", 0, 0); /* or it is 2 */
}

static void pair_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    pco_hub_put_bool(w, "is_encoder_decoder", 1);
    pco_hub_put_bool(w, "tie_word_embeddings", spec->tie_word_embeddings);
    pco_hub_put_size(w, "decoder_start_token_id", spec->decoder_start_token_id);
    pco_hub_put_bool(w, "add_eos_to_source", spec->add_eos_to_source);
    pco_hub_put_part(w, "encoder", pair_write_encoder);
    pco_hub_put_part(w, "decoder", pair_write_decoder);
}

static const char *const pair_unused[] = {"encoder.pooler.", "encoder.embeddings.position_ids", "decoder.lm_head.",
                                          NULL};
static const pco_hub pair_hub = {.read = pair_read,
                                 .prefix = "",
                                 .unused = pair_unused,
                                 .unread = "encoder.pooler.dense",
                                 .class = "EncoderDecoderModel",
                                 .write = pair_write};

const pco_family pco_family_encoder_decoder = {
    .name = "encoder-decoder", .model_type = "encoder-decoder", .spec = &pair_spec, .hub = &pair_hub};
