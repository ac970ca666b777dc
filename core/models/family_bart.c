/* BART (Lewis et al. 2019) in folders of Hugging Face: an encoder-decoder, post-norm, with learned positions that begin
 * at 2, a norm behind the embeddings, which both sides share with the output projection. And Marian, without that norm,
 * with sinusoidal positions, or in files that say so a table of any, and for each side a vocabulary of its own where
 * they say that. */
#include "models/family.h"

#include "base/error.h"

#include <inttypes.h>

#define BART_STACK(side) \
    .embed_scope = side, .head_scope = side, .embedding = "shared.weight", .layer = side ".layers.*"
#define BART_LEARNED(side) \
    { \
        BART_STACK(side), .positions = side ".embed_positions.weight", .embedding_norm = side ".layernorm_embedding" \
    }
#define BART_SPEC \
    .program = "decoder", .names = {PCO_FAIRSEQ_LAYER_NAMES}, .logits_bias = "final_logits_bias", .norm.eps = 1e-5, \
    .attention_bias = PCO_BIAS_ALL, .output_bias = PCO_BIAS_ALL, .ffn_bias = PCO_BIAS_ALL, .tie_word_embeddings = 1, \
    .share_embeddings = 1, .add_eos_to_source = 1

static const pco_model_spec bart_spec = {
    BART_SPEC,
    .stacks = {BART_LEARNED("encoder"), BART_LEARNED("decoder")},
    .position_embedding = PCO_POSITION_LEARNED,
    .position_offset = 2,
};

static const pco_model_spec marian_spec = {
    BART_SPEC,
    .stacks = {{BART_STACK("encoder")}, {BART_STACK("decoder")}},
    .position_embedding = PCO_POSITION_SINUSOIDAL,
    .sinusoidal_layout = 2,
};

/* Keys of the first files, which were written when the code had more choices than it has now. */
static void bart_refuse(pco_hub_reader *r, const pco_model_spec *spec, int is_bart)
{
    pco_hub_only(r, "is_encoder_decoder", 1);
    pco_hub_only(r, "normalize_before", 0);
    pco_hub_only(r, "add_final_layer_norm", 0);
    pco_hub_only(r, "normalize_embedding", is_bart);
    if (is_bart)
        pco_hub_only(r, "extra_pos_embeddings", (double)spec->position_offset);
    else
        pco_hub_ignore(r, "extra_pos_embeddings");
    static const char *const same[] = {"add_bias_logits",                  /* the tensor is there */
                                       "num_hidden_layers",                /* encoder_layers once more */
                                       "force_bos_token_to_be_generated",  /* of generation */
                                       "grapheme_chars", "phoneme_chars"}; /* which characters ids stand for */
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) pco_hub_ignore(r, same[i]);
}

static void bart_read_any(pco_hub_reader *r, pco_model_spec *spec, int is_bart)
{
    static const char *const layers[] = {"encoder_layers", "decoder_layers"},
                             *const heads[] = {"encoder_attention_heads", "decoder_attention_heads"},
                             *const hidden[] = {"encoder_ffn_dim", "decoder_ffn_dim"};
    const int64_t vocab = pco_hub_size_or(r, "vocab_size", INT32_MAX, 50265);
    spec->d_model = pco_hub_size_or(r, "d_model", 1 << 20, 1024);
    for (int side = 0; side < 2; side++) {
        spec->vocab_size[side] = vocab;
        spec->layers[side] = pco_hub_size_or(r, layers[side], 1024, 12);
        spec->attention_heads[side] = spec->kv_heads[side] = pco_hub_size_or(r, heads[side], 4096, 16);
        spec->ffn_dim[side] = pco_hub_size_or(r, hidden[side], 1 << 24, 4096);
        spec->head_dim[side] = spec->d_model / spec->attention_heads[side];
        if (!r->status && spec->d_model % spec->attention_heads[side])
            r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: 'd_model' %" PRId64 " is no multiple of '%s'", r->label,
                                 spec->d_model, heads[side]);
    }
    spec->max_position_embeddings = pco_hub_size_or(r, "max_position_embeddings", 1 << 24, 1024);
    spec->position_rows = spec->max_position_embeddings + spec->position_offset;
    spec->activation_function = pco_hub_activation(r, "activation_function", PCO_NN_GELU);
    spec->scale_embedding = pco_hub_bool(r, "scale_embedding", 0);
    pco_spec_set_norm(spec);
    spec->pad_token_id = pco_hub_token(r, "pad_token_id", 1);
    spec->bos_token_id = pco_hub_token(r, "bos_token_id", 0);
    spec->eos_token_id = pco_hub_token(r, "eos_token_id", 2);
    spec->decoder_start_token_id = pco_hub_token(r, "decoder_start_token_id", 2);
    bart_refuse(r, spec, is_bart);
    if (!r->status && spec->position_embedding == PCO_POSITION_SINUSOIDAL && spec->d_model % 2)
        r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: sinusoidal positions need an even d_model", r->label);
    if (spec->pad_token_id < 0) spec->pad_token_id = 0;
}

static void bart_read(pco_hub_reader *r, pco_model_spec *spec)
{
    bart_read_any(r, spec, 1);
    pco_hub_only(r, "tie_word_embeddings", 1);
    pco_hub_only(r, "share_encoder_decoder_embeddings", 1);
    pco_hub_only(r, "decoder_vocab_size", (double)spec->vocab_size[PCO_DECODER]);
    pco_hub_only(r, "static_position_embeddings", 0);
}

static void marian_read(pco_hub_reader *r, pco_model_spec *spec)
{
    static const char *const positions[] = {"encoder.embed_positions.weight", "decoder.embed_positions.weight"},
                             *const embeddings[] = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};
    const int table = !pco_hub_bool(r, "static_position_embeddings", 1);
    if (table) spec->position_embedding = PCO_POSITION_LEARNED;
    bart_read_any(r, spec, 0);
    spec->share_embeddings = pco_hub_bool(r, "share_encoder_decoder_embeddings", 1);
    for (int side = 0; side < 2; side++) {
        if (table) spec->stacks[side].positions = positions[side];
        if (!spec->share_embeddings) spec->stacks[side].embedding = embeddings[side];
    }
    if (spec->share_embeddings)
        pco_hub_only(r, "decoder_vocab_size", (double)spec->vocab_size[PCO_DECODER]);
    else
        spec->vocab_size[PCO_DECODER] =
            pco_hub_size_or(r, "decoder_vocab_size", INT32_MAX, spec->vocab_size[PCO_ENCODER]);
    spec->tie_word_embeddings = pco_hub_bool(r, "tie_word_embeddings", 1);
    if (!spec->tie_word_embeddings) spec->lm_head = "lm_head.weight";
    spec->add_eos_to_source = pco_hub_bool(r, "add_eos_to_source", 1); /* Portico's own */
}

/* Positions are the table that lies in the file: transformers takes it where there is one. */
static void marian_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    pco_hub_put_bool(w, "is_encoder_decoder", 1);
    pco_hub_put_size(w, "vocab_size", spec->vocab_size[PCO_ENCODER]);
    pco_hub_put_size(w, "decoder_vocab_size", spec->vocab_size[PCO_DECODER]);
    pco_hub_put_size(w, "d_model", spec->d_model);
    pco_hub_put_size(w, "encoder_layers", spec->layers[PCO_ENCODER]);
    pco_hub_put_size(w, "decoder_layers", spec->layers[PCO_DECODER]);
    pco_hub_put_size(w, "encoder_attention_heads", spec->attention_heads[PCO_ENCODER]);
    pco_hub_put_size(w, "decoder_attention_heads", spec->attention_heads[PCO_DECODER]);
    pco_hub_put_size(w, "encoder_ffn_dim", spec->ffn_dim[PCO_ENCODER]);
    pco_hub_put_size(w, "decoder_ffn_dim", spec->ffn_dim[PCO_DECODER]);
    pco_hub_put_size(w, "max_position_embeddings", spec->max_position_embeddings);
    pco_hub_put_activation(w, "activation_function", spec->activation_function);
    pco_hub_put_bool(w, "scale_embedding", spec->scale_embedding);
    pco_hub_put_bool(w, "static_position_embeddings", 0);
    /* transformers ties all three tables or none */
    pco_hub_put_bool(w, "share_encoder_decoder_embeddings", spec->share_embeddings && spec->tie_word_embeddings);
    pco_hub_put_bool(w, "tie_word_embeddings", spec->tie_word_embeddings);
    pco_hub_put_size(w, "decoder_start_token_id", spec->decoder_start_token_id);
    pco_hub_put_or_null(w, "forced_eos_token_id", 0, 0); /* or it is 0 */
    pco_hub_put_bool(w, "add_eos_to_source", spec->add_eos_to_source);
}

static const char *const bart_unused[] = {"encoder.embed_tokens.",    "decoder.embed_tokens.",    "lm_head.",
                                          "encoder.embed_positions.", "decoder.embed_positions.", NULL};
static const char *const bart_bare[] = {"final_logits_bias", "lm_head.", NULL};
static const pco_hub bart_hub = {.read = bart_read,
                                 .prefix = "model.",
                                 .bare = bart_bare,
                                 .unused = bart_unused,
                                 .class = "BartForConditionalGeneration"};
static const pco_hub marian_hub = {.read = marian_read,
                                   .prefix = "model.",
                                   .bare = bart_bare,
                                   .unused = bart_unused,
                                   .class = "MarianMTModel",
                                   .write = marian_write};

const pco_family pco_family_bart = {.name = "bart", .model_type = "bart", .spec = &bart_spec, .hub = &bart_hub};

const pco_family pco_family_marian = {
    .name = "marian", .model_type = "marian", .says_scale = 1, .spec = &marian_spec, .hub = &marian_hub};
