/* The configurable transformer (Vaswani et al. 2017 and its common variants), an encoder-decoder or a decoder
 * alone: its config.json and its graphs. Fields, defaults and tensor names: tests/golden/README.md. */
#ifndef PCO_MODELS_TRANSFORMER_H
#define PCO_MODELS_TRANSFORMER_H

#include "formats/json.h"
#include "nn/nn.h"
#include "text/tokenizer.h"

typedef enum pco_transformer_side { PCO_ENCODER = 0, PCO_DECODER = 1 } pco_transformer_side;

typedef enum pco_position_embedding {
    PCO_POSITION_SINUSOIDAL = 0,
    PCO_POSITION_ROPE = 1
} pco_position_embedding;

/* The fields of config.json; pairs are indexed by pco_transformer_side. */
typedef struct pco_transformer_config {
    int64_t vocab_size[2], d_model;
    int64_t layers[2], attention_heads[2], ffn_dim[2];
    pco_nn_activation activation_function;
    int fused_gate_up, normalize_before;
    pco_nn_norm_params norm, last_norm; /* of the layers; the stacks' own, with final_norm */
    int final_norm;
    int attention_bias, ffn_bias, fused_qkv;
    pco_position_embedding position_embedding;
    double rope_theta;
    int rope_interleaved, sinusoidal_layout; /* layout 0: interleaved; 1: half */
    int64_t position_offset;
    int scale_embedding, tie_word_embeddings, share_embeddings, final_logits_bias;
    int32_t pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id;
    int64_t max_position_embeddings;
    int add_eos_to_source;
    int decoder_only; /* is_encoder_decoder is false: a language model, without encoder and cross-attention */
    double dropout;   /* in training graphs only, on embeddings and on what each block adds */
} pco_transformer_config;

/* Reads the fields from `root`. Errors, FORMAT: all unknown keys, in one message; a field that is not what it
 * should be; sizes that do not fit each other. */
pco_status pco_transformer_config_read(const cJSON *root, const char *label, pco_transformer_config *config,
                                       pco_error *err) PCO_NODISCARD;

/* A tokenizer from "encoder_vocab" or "decoder_vocab", else "vocab", whose length must be the side's
 * vocabulary size: byte-level BPE with "encoder_merges", "decoder_merges" or "merges", else characters; NULL in
 * *tokenizer when there is no list. The caller destroys it. Errors: FORMAT. */
pco_status pco_transformer_tokenizer(const cJSON *root, const char *label,
                                     const pco_transformer_config *config, pco_transformer_side side,
                                     pco_tokenizer **tokenizer, pco_error *err) PCO_NODISCARD;

/* Parameters of layer `index` of a stack, with names kept in the graph. */
pco_nn_layer_params pco_transformer_layer(const pco_nn *nn, const pco_transformer_config *config,
                                          pco_transformer_side side, int64_t index);

/* Token and position embeddings: ids i32 [B,S], positions i32 [B,S] or [1,S] (position_offset included) ->
 * f32 [B,S,d_model]. */
uint32_t pco_transformer_embed(const pco_nn *nn, const pco_transformer_config *config,
                               pco_transformer_side side, uint32_t ids, uint32_t positions);

/* The tensors that hide padding: lengths i32 [B], or mask bool [B|1,1,1,S]; PCO_NONE for none. */
typedef struct pco_transformer_padding {
    uint32_t mask, lengths;
} pco_transformer_padding;

/* Source ids i32 [B,S] -> memory f32 [B,S,d_model]. Rows of padding hold values too, which mean nothing. */
uint32_t pco_transformer_encode(const pco_nn *nn, const pco_transformer_config *config, uint32_t ids,
                                const pco_transformer_padding *padding);

/* What the decoder attends to, and how. With key_states and value_states (one per layer, [B,T,H,D]) it runs a
 * few rows at a time: rows are written from starts[b] on, and starts and lengths are i32 [B]. */
typedef struct pco_transformer_decoder {
    uint32_t memory;                           /* [B,T,d_model]; or: */
    const uint32_t *cross_keys, *cross_values; /* one per layer, [B,T,H,D] */
    pco_transformer_padding padding;           /* of the source */
    uint32_t positions;                        /* i32 [B,S] or [1,S]; PCO_NONE: from position_offset on */
    const uint32_t *key_states, *value_states;
    uint32_t starts, lengths; /* with states: where rows go, and how many keys there are then */
} pco_transformer_decoder;

/* A state for each decoder layer, f32 [1,context,heads,d_model/heads], "what.N": caches, or the keys and values that
 * cross-attention reads. In the graph's memory; NULL after a kept error. */
uint32_t *pco_transformer_states(const pco_nn *nn, const pco_transformer_config *config, int64_t context,
                                 const char *what);

/* Target ids i32 [B,S] -> logits f32 [B,S,vocab_size[1]]. Causal. It is pco_transformer_head of
 * pco_transformer_decode_layers, which is f32 [B,S,d_model]. A decoder alone has no memory and no cross_keys. */
uint32_t pco_transformer_decode(const pco_nn *nn, const pco_transformer_config *config, uint32_t ids,
                                const pco_transformer_decoder *decoder);
uint32_t pco_transformer_decode_layers(const pco_nn *nn, const pco_transformer_config *config, uint32_t ids,
                                       const pco_transformer_decoder *decoder);
/* x f32 [..,d_model] -> logits f32 [..,vocab_size[1]]: the last norm and the output projection. */
uint32_t pco_transformer_head(const pco_nn *nn, const pco_transformer_config *config, uint32_t x);

/* A decoder alone, one chunk of one sequence, with the inputs, run values, states and outputs of pco_llama_build
 * (models/llama.h); the caches are [1,context,H,D]. */
void pco_transformer_build_causal(const pco_nn *nn, const pco_transformer_config *config, int64_t context,
                                  int64_t rows, int all_logits);

#endif
