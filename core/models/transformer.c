#include "models/transformer.h"

#include <inttypes.h>
#include <math.h>

static const char *const transformer_sides[] = {"encoder", "decoder"};

static pco_nn_attention_params transformer_attention(const pco_nn *nn, const pco_transformer_config *config,
                                                     pco_transformer_side side, const char *prefix, int self)
{
    int64_t heads = config->attention_heads[side];
    pco_nn_attention_params params = {.width = config->d_model,
                                      .heads = heads,
                                      .kv_heads = heads,
                                      .head_dim = config->d_model / heads,
                                      .bias = config->attention_bias,
                                      .output_bias = config->attention_bias,
                                      .causal = self && side == PCO_DECODER,
                                      .rope_interleaved = config->rope_interleaved};
    params.query = pco_nn_name(nn, "%s.q_proj", prefix);
    params.key = pco_nn_name(nn, "%s.k_proj", prefix);
    params.value = pco_nn_name(nn, "%s.v_proj", prefix);
    params.output = pco_nn_name(nn, "%s.out_proj", prefix);
    if (self && config->fused_qkv) params.fused = pco_nn_name(nn, "%s.in_proj_", prefix);
    return params;
}

static pco_nn_ffn_params transformer_ffn(const pco_nn *nn, const pco_transformer_config *config,
                                         pco_transformer_side side, const char *prefix)
{
    pco_nn_ffn_params params = {.activation = config->activation_function,
                                .width = config->d_model,
                                .hidden = config->ffn_dim[side],
                                .bias = config->ffn_bias};
    params.fc1 = pco_nn_name(nn, "%s.fc1", prefix);
    params.fc2 = pco_nn_name(nn, "%s.fc2", prefix);
    params.gate = pco_nn_name(nn, "%s.gate_proj", prefix);
    params.up = pco_nn_name(nn, "%s.up_proj", prefix);
    params.down = pco_nn_name(nn, "%s.down_proj", prefix);
    if (config->fused_gate_up) params.gate_up = pco_nn_name(nn, "%s.gate_up_proj", prefix);
    return params;
}

pco_nn_layer_params pco_transformer_layer(const pco_nn *nn, const pco_transformer_config *config,
                                          pco_transformer_side side, int64_t index)
{
    const char *prefix = pco_nn_name(nn, "%s.layers.%lld", transformer_sides[side], (long long)index);
    pco_nn_layer_params params = {.normalize_before = config->normalize_before, .norm = config->norm};
    params.self_attention_norm = pco_nn_name(nn, "%s.self_attn_layer_norm", prefix);
    params.cross_attention_norm = pco_nn_name(nn, "%s.encoder_attn_layer_norm", prefix);
    params.ffn_norm = pco_nn_name(nn, "%s.final_layer_norm", prefix);
    params.self_attention =
        transformer_attention(nn, config, side, pco_nn_name(nn, "%s.self_attn", prefix), 1);
    params.cross_attention =
        transformer_attention(nn, config, side, pco_nn_name(nn, "%s.encoder_attn", prefix), 0);
    params.ffn = transformer_ffn(nn, config, side, prefix);
    return params;
}

static const char *transformer_table(const pco_transformer_config *config, pco_transformer_side side)
{
    if (config->share_embeddings) return "shared.weight";
    return side == PCO_ENCODER ? "encoder.embed_tokens.weight" : "decoder.embed_tokens.weight";
}

uint32_t pco_transformer_embed(const pco_nn *nn, const pco_transformer_config *config,
                               pco_transformer_side side, uint32_t ids, uint32_t positions)
{
    uint32_t x =
        pco_nn_embedding(nn, ids, transformer_table(config, side), config->vocab_size[side], config->d_model);
    if (config->scale_embedding)
        x = pco_binary_scalar(nn->graph, PCO_OP_MUL, x, sqrt((double)config->d_model));
    if (config->position_embedding != PCO_POSITION_ROPE)
        x = pco_nn_sinusoidal(nn, x, positions, config->sinusoidal_layout);
    return pco_nn_activations(nn, pco_nn_dropout(nn, x));
}

/* positions, or position_offset, position_offset + 1, ... for ids [B,S]. */
static uint32_t transformer_positions(const pco_nn *nn, const pco_transformer_config *config, uint32_t ids,
                                      uint32_t positions)
{
    if (positions != PCO_NONE || ids == PCO_NONE || nn->graph->status) return positions;
    return pco_nn_positions(nn, config->position_offset, nn->graph->tensors[ids].shape[1]);
}

static uint32_t transformer_phase(const pco_nn *nn, const pco_transformer_config *config,
                                  pco_transformer_side side)
{
    if (config->position_embedding != PCO_POSITION_ROPE) return PCO_NONE;
    int64_t head_dim = config->d_model / config->attention_heads[side];
    return pco_rope_phase(nn->graph, config->rope_theta, (uint32_t)head_dim, NULL);
}

uint32_t pco_transformer_encode(const pco_nn *nn, const pco_transformer_config *config, uint32_t ids,
                                const pco_transformer_padding *padding)
{
    pco_graph_scope(nn->graph, "encoder");
    uint32_t positions = transformer_positions(nn, config, ids, PCO_NONE);
    uint32_t x = pco_transformer_embed(nn, config, PCO_ENCODER, ids, positions);
    pco_nn_attention_operands self = PCO_NN_NO_OPERANDS;
    self.mask = padding->mask;
    self.lengths = padding->lengths;
    self.phase = transformer_phase(nn, config, PCO_ENCODER);
    self.positions = positions;
    for (int64_t i = 0; i < config->layers[PCO_ENCODER]; i++) {
        pco_graph_scope(nn->graph, "encoder.layers.%lld", (long long)i);
        pco_nn_layer_params layer = pco_transformer_layer(nn, config, PCO_ENCODER, i);
        x = pco_nn_encoder_layer(nn, x, &layer, &self);
    }
    pco_graph_scope(nn->graph, "encoder");
    return config->final_norm ? pco_nn_norm(nn, x, "encoder.layer_norm", &config->last_norm) : x;
}

uint32_t pco_transformer_head(const pco_nn *nn, const pco_transformer_config *config, uint32_t x)
{
    pco_graph_scope(nn->graph, "decoder");
    if (config->final_norm) x = pco_nn_norm(nn, x, "decoder.layer_norm", &config->last_norm);
    const int64_t shape[2] = {config->vocab_size[PCO_DECODER], config->d_model};
    const char *name =
        config->tie_word_embeddings ? transformer_table(config, PCO_DECODER) : "lm_head.weight";
    uint32_t bias = PCO_NONE, weight = pco_nn_weight(nn, name, 2, shape);
    if (config->final_logits_bias) bias = pco_nn_weight(nn, "final_logits_bias", 1, shape);
    const int half = nn->training && nn->training->dtype != PCO_F32;
    const pco_matmul_attrs attrs = {.transpose_b = 1, .dtype = half ? PCO_F32 : -1};
    return pco_graph_add(nn->graph, PCO_OP_MATMUL, &attrs,
                         (uint32_t[]){x, pco_nn_activations(nn, weight), bias}, 3, NULL);
}

uint32_t pco_transformer_decode_layers(const pco_nn *nn, const pco_transformer_config *config, uint32_t ids,
                                       const pco_transformer_decoder *decoder)
{
    pco_graph_scope(nn->graph, "decoder");
    uint32_t positions = transformer_positions(nn, config, ids, decoder->positions);
    uint32_t x = pco_transformer_embed(nn, config, PCO_DECODER, ids, positions);
    pco_nn_attention_operands self = PCO_NN_NO_OPERANDS, cross = PCO_NN_NO_OPERANDS;
    self.phase = transformer_phase(nn, config, PCO_DECODER);
    self.positions = positions;
    cross.memory = decoder->memory;
    cross.mask = decoder->padding.mask;
    cross.lengths = decoder->padding.lengths;
    for (int64_t i = 0; i < config->layers[PCO_DECODER]; i++) {
        pco_graph_scope(nn->graph, "decoder.layers.%lld", (long long)i);
        pco_nn_layer_params layer = pco_transformer_layer(nn, config, PCO_DECODER, i);
        if (decoder->key_states) {
            self.key_state = decoder->key_states[i];
            self.value_state = decoder->value_states[i];
            self.index = self.starts = decoder->starts;
            self.lengths = decoder->lengths;
        }
        if (decoder->cross_keys) {
            cross.key = decoder->cross_keys[i];
            cross.value = decoder->cross_values[i];
        }
        x = config->decoder_only ? pco_nn_encoder_layer(nn, x, &layer, &self)
                                 : pco_nn_decoder_layer(nn, x, &layer, &self, &cross);
    }
    return x;
}

uint32_t *pco_transformer_states(const pco_nn *nn, const pco_transformer_config *config, int64_t context,
                                 const char *what)
{
    int64_t heads = config->attention_heads[PCO_DECODER], layers = config->layers[PCO_DECODER];
    const int64_t shape[4] = {1, context, heads, config->d_model / heads};
    uint32_t *states = pco_arena_allocate(&nn->graph->arena, (size_t)(layers + 1) * sizeof *states);
    if (!states) {
        pco_graph_fail(nn->graph, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a graph");
        return NULL;
    }
    for (int64_t i = 0; i < layers; i++)
        states[i] = pco_graph_state(nn->graph, pco_nn_name(nn, "%s.%" PRId64, what, i), PCO_F32, 4, shape);
    return states;
}

uint32_t pco_transformer_decode(const pco_nn *nn, const pco_transformer_config *config, uint32_t ids,
                                const pco_transformer_decoder *decoder)
{
    return pco_transformer_head(nn, config, pco_transformer_decode_layers(nn, config, ids, decoder));
}
