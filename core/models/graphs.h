/* The graphs of a model, from its spec: an encoder-decoder, or a decoder alone. Weights are asked for in one
 * order, which training keeps. */
#ifndef PCO_MODELS_GRAPHS_H
#define PCO_MODELS_GRAPHS_H

#include "models/spec.h"

/* Parameters of layer `index` of a stack, with names kept in the graph. */
pco_nn_layer_params pco_spec_layer(const pco_nn *nn, const pco_model_spec *spec, pco_model_side side, int64_t index);

/* Token and position embeddings: ids i32 [B,S], positions i32 [B,S] or [1,S] (position_offset included), token types
 * i32 [B,S] or PCO_NONE -> f32 [B,S,d_model]. */
uint32_t pco_spec_embed(const pco_nn *nn, const pco_model_spec *spec, pco_model_side side, uint32_t ids,
                        uint32_t positions, uint32_t types);

/* The tensors that hide padding: lengths i32 [B], or mask bool [B|1,1,1,S]; PCO_NONE for none. */
typedef struct pco_spec_padding {
    uint32_t mask, lengths;
} pco_spec_padding;

/* Source ids i32 [B,S], token types i32 [B,S] or PCO_NONE -> memory f32 [B,S,d_model]. Rows of padding hold values too,
 * which mean nothing. A model with relative positions takes lengths and no mask. One that hears has features
 * [1,bands,2 rows] instead of ids. */
uint32_t pco_spec_encode(const pco_nn *nn, const pco_model_spec *spec, uint32_t ids, uint32_t types,
                         const pco_spec_padding *padding);

/* The same of images, whose patches [B,patches,channels * height * width] are f32: memory f32 [B,1 + patches,d_model].
 */
uint32_t pco_spec_encode_patches(const pco_nn *nn, const pco_model_spec *spec, uint32_t patches);

/* x f32 [B,d_model] -> [B,width] of that head. */
uint32_t pco_spec_row_head(const pco_nn *nn, const pco_model_spec *spec, const pco_row_head *head, uint32_t x);

/* x f32 [..,d_model] of an encoder alone -> logits f32 [..,vocab_size[0]] of the tokens that are masked. */
uint32_t pco_spec_masked_head(const pco_nn *nn, const pco_model_spec *spec, uint32_t x);

/* What the decoder attends to, and how. With caches `keys` and `values` (one per layer) it runs a
 * few rows at a time: rows are written from starts[b] on, and starts and lengths are i32 [B]. */
typedef struct pco_spec_decoder {
    uint32_t memory;                               /* [B,T,d_model]; or: */
    const pco_nn_cache *cross_keys, *cross_values; /* one per layer, of B sequences */
    pco_spec_padding padding;                      /* of the source */
    uint32_t positions;                            /* i32 [B,S] or [1,S]; PCO_NONE: from position_offset on */
    const pco_nn_cache *keys, *values;
    uint32_t starts, lengths; /* with states: where rows go, and how many keys there are then */
    uint32_t take, lane;      /* as in pco_nn_attention_operands; PCO_NONE: row b of the batch is that of the states */
} pco_spec_decoder;

/* Room for the keys or values of `lanes` sequences of so many tokens: PCO_F32, PCO_F16 or PCO_Q8_0. */
typedef struct pco_spec_room {
    int64_t lanes, tokens;
    uint32_t type;
    const char *name; /* of its states: "NAME.key.N", "NAME.value.N" */
} pco_spec_room;

/* A cache of keys (or values) for each decoder layer: of what self-attention has seen, or what cross-attention reads.
 * In the graph's memory; NULL after a kept error. */
pco_nn_cache *pco_spec_caches(const pco_nn *nn, const pco_model_spec *spec, const pco_spec_room *room, int values);

/* The graph that copies rows of these caches: the rows that the input "rows" i32 [rows] names, those of lane take[l]
 * (run value i32 [lanes]; none for -1) to lane l, from row starts[l] on (run value i32 [lanes]). All lanes are read
 * before the first is written. */
void pco_spec_build_copy(const pco_nn *nn, const pco_model_spec *spec, const pco_spec_room *room, int64_t rows);

/* Target ids i32 [B,S] -> logits f32 [B,S,vocab_size[1]]. Causal. It is pco_spec_head of
 * pco_spec_decode_layers, which is f32 [B,S,d_model]. A decoder alone has no memory and no cross_keys. */
uint32_t pco_spec_decode(const pco_nn *nn, const pco_model_spec *spec, uint32_t ids, const pco_spec_decoder *decoder);
uint32_t pco_spec_decode_layers(const pco_nn *nn, const pco_model_spec *spec, uint32_t ids,
                                const pco_spec_decoder *decoder);
/* The norm behind the layers of a stack, where there is one. */
uint32_t pco_spec_last_norm(const pco_nn *nn, const pco_model_spec *spec, pco_model_side side, uint32_t x);

/* x f32 [..,d_model] -> logits f32 [..,vocab_size[1]]: the last norm and the output projection. */
uint32_t pco_spec_head(const pco_nn *nn, const pco_model_spec *spec, uint32_t x);

/* The layers of the whole model at once, without states and without logits, for a source and a target of
 * known lengths: the inputs "source" and "target" are i32 [1,rows]. With nn->keep_attention its outputs are
 * the weights of all attentions, "attention:" and the name of its output projection, f32 [1,H,queries,keys].
 * A decoder alone has no source, and source_rows is not looked at. */
void pco_spec_attention(const pco_nn *nn, const pco_model_spec *spec, int64_t source_rows, int64_t target_rows);

#endif
