/* Whole models of a few hundred bytes in memory, good ones and bad ones: a Llama as GGUF, and a transformer as
 * config.json and model.safetensors. */
#ifndef PCO_TESTS_MODEL_BUILDER_H
#define PCO_TESTS_MODEL_BUILDER_H

#include <stdio.h>

#include "formats/safetensors.h"
#include "gguf_builder.h"

enum { BUILT_WIDTH = 8, BUILT_HIDDEN = 16, BUILT_VOCAB = 9 };

/* What is changed in the good model: one key's value, or one factor of rope_freqs; or what is added to it. */
typedef struct built_change {
    const char *key;
    double value;
    int least;          /* 1: without the keys that may be absent */
    int factors;        /* 1: there is a tensor rope_freqs, with `value` as one of its elements where there is no key */
    const char *added;  /* a key that the good model does not have, with `value` */
    pco_gguf_type type; /* of it: F32, U32 or BOOL; or STRING, with `text` */
    const char *text;
    const char *tensor;  /* a vector that the good model does not have */
    const char *scaling; /* rope.scaling.type; NULL: linear, "": no key */
} built_change;

static const struct {
    const char *key;
    double value;
    int whole, optional;
} built_llama_keys[] = {{"llama.embedding_length", BUILT_WIDTH, 1},
                        {"llama.block_count", 1, 1},
                        {"llama.feed_forward_length", BUILT_HIDDEN, 1},
                        {"llama.attention.head_count", 2, 1},
                        {"llama.attention.head_count_kv", 1, 1, 1},
                        {"llama.attention.key_length", 4, 1, 1},
                        {"llama.attention.value_length", 4, 1, 1},
                        {"llama.context_length", 16, 1},
                        {"llama.rope.dimension_count", 4, 1, 1},
                        {"llama.attention.layer_norm_rms_epsilon", 1e-5, 0},
                        {"llama.rope.freq_base", 10000, 0},
                        {"llama.rope.scaling.factor", 2, 0}};
enum { BUILT_KEYS = sizeof built_llama_keys / sizeof *built_llama_keys };

static const struct {
    const char *name;
    uint64_t rows, columns; /* no rows: a vector */
} built_llama_tensors[] = {{"token_embd.weight", BUILT_VOCAB, BUILT_WIDTH},
                           {"output_norm.weight", 0, BUILT_WIDTH},
                           {"blk.0.attn_norm.weight", 0, BUILT_WIDTH},
                           {"blk.0.attn_q.weight", BUILT_WIDTH, BUILT_WIDTH},
                           {"blk.0.attn_k.weight", 4, BUILT_WIDTH},
                           {"blk.0.attn_v.weight", 4, BUILT_WIDTH},
                           {"blk.0.attn_output.weight", BUILT_WIDTH, BUILT_WIDTH},
                           {"blk.0.ffn_norm.weight", 0, BUILT_WIDTH},
                           {"blk.0.ffn_gate.weight", BUILT_HIDDEN, BUILT_WIDTH},
                           {"blk.0.ffn_up.weight", BUILT_HIDDEN, BUILT_WIDTH},
                           {"blk.0.ffn_down.weight", BUILT_WIDTH, BUILT_HIDDEN},
                           {"rope_freqs.weight", 0, 2}};
enum { BUILT_TENSORS = sizeof built_llama_tensors / sizeof *built_llama_tensors };

static inline void build_added_key(built *file, const built_change *change)
{
    const unsigned char is = change->value != 0;
    if (change->type == PCO_GGUF_STRING) {
        put_key_text(file, change->added, change->text);
        return;
    }
    put_key(file, change->added, change->type);
    if (change->type == PCO_GGUF_BOOL)
        put(file, &is, 1);
    else if (change->type == PCO_GGUF_U32)
        put_u32(file, (uint32_t)change->value);
    else
        put_f32(file, (float)change->value);
}

static inline void build_llama_keys(built *file, const built_change *change, uint32_t tensors)
{
    static const char *const tokens[] = {"<unk>", "<s>", "</s>", "a", "b", "ab", "\xE2\x96\x81", "<0x0A>", "\xC4\xA0"};
    uint32_t keys = BUILT_KEYS + 5;
    const char *scaling = change && change->scaling ? change->scaling : "linear";
    for (int i = 0; i < BUILT_KEYS; i++) keys -= change && change->least && built_llama_keys[i].optional;
    keys += (change && change->added) - !*scaling;
    put_header(file, 3, tensors, keys);
    put_key_text(file, "general.architecture", "llama");
    if (*scaling) put_key_text(file, "llama.rope.scaling.type", scaling);
    if (change && change->added) build_added_key(file, change);
    for (int i = 0; i < BUILT_KEYS; i++) {
        if (change && change->least && built_llama_keys[i].optional) continue;
        const int changed = change && change->key && strcmp(change->key, built_llama_keys[i].key) == 0;
        const double value = changed ? change->value : built_llama_keys[i].value;
        put_key(file, built_llama_keys[i].key, built_llama_keys[i].whole ? PCO_GGUF_U32 : PCO_GGUF_F32);
        if (built_llama_keys[i].whole)
            put_u32(file, (uint32_t)value);
        else
            put_f32(file, (float)value);
    }
    put_key_text(file, "tokenizer.ggml.model", "llama");
    put_key_texts(file, "tokenizer.ggml.tokens", tokens, BUILT_VOCAB);
    put_key_array(file, "tokenizer.ggml.scores", PCO_GGUF_F32, BUILT_VOCAB);
    for (int i = 0; i < BUILT_VOCAB; i++) put_f32(file, (float)-i);
}

/* Row i of the tensors that the file holds: rope_freqs is the last of them, or what is added stands in its place. */
static inline const char *built_tensor_name(const built_change *change, uint32_t i)
{
    return i == BUILT_TENSORS - 1 && change->tensor ? change->tensor : built_llama_tensors[i].name;
}

static inline void build_llama(built *file, const built_change *change)
{
    const uint32_t tensors = BUILT_TENSORS - !(change && (change->factors || change->tensor));
    uint64_t offset = 0;
    build_llama_keys(file, change, tensors);
    for (uint32_t i = 0; i < tensors; i++) {
        const uint64_t rows = built_llama_tensors[i].rows, columns = built_llama_tensors[i].columns;
        put_tensor(file, built_tensor_name(change, i), rows ? 2 : 1, (uint64_t[]){columns, rows}, 0, offset);
        offset += ((rows ? rows : 1) * columns * sizeof(float) + 31) / 32 * 32;
    }
    put_padding(file, 32);
    for (uint32_t i = 0; i < tensors; i++) {
        const uint64_t rows = built_llama_tensors[i].rows, columns = built_llama_tensors[i].columns;
        const int factors = strcmp(built_tensor_name(change, i), "rope_freqs.weight") == 0;
        for (uint64_t k = 0; k < (rows ? rows : 1) * columns; k++)
            put_f32(file, factors && k == 1 && !change->key ? (float)change->value : 1);
        put_padding(file, 32);
    }
}

/* A decoder alone, of the same sizes. `extra`: more members of the object, each with a comma in front. */
#define BUILT_CONFIG(extra) \
    "{\"model_type\": \"transformer\", \"is_encoder_decoder\": false, \"d_model\": 8, \"decoder_layers\": 1, " \
    "\"decoder_attention_heads\": 2, \"decoder_ffn_dim\": 16, \"max_position_embeddings\": 16, " \
    "\"position_embedding\": \"rope\", \"attention_bias\": false, \"ffn_bias\": false, \"norm_type\": \"rms_norm\", " \
    "\"final_norm\": true, \"vocab_size\": 5, \"vocab\": [\"<pad>\", \"<s>\", \"</s>\", \"a\", \"b\"]" extra "}"

/* Its weights, malloc'ed; NULL when they cannot be made. */
static inline void *build_transformer_weights(size_t *size)
{
    static const float data[128] = {1, 2, 3};
    static const struct {
        const char *name;
        int64_t rows, columns;
    } tensors[] = {{"shared.weight", 5, 8},
                   {"decoder.layers.0.self_attn_layer_norm.weight", 0, 8},
                   {"decoder.layers.0.self_attn.q_proj.weight", 8, 8},
                   {"decoder.layers.0.self_attn.k_proj.weight", 8, 8},
                   {"decoder.layers.0.self_attn.v_proj.weight", 8, 8},
                   {"decoder.layers.0.self_attn.out_proj.weight", 8, 8},
                   {"decoder.layers.0.final_layer_norm.weight", 0, 8},
                   {"decoder.layers.0.fc1.weight", 16, 8},
                   {"decoder.layers.0.fc2.weight", 8, 16},
                   {"decoder.layer_norm.weight", 0, 8}};
    enum { COUNT = sizeof tensors / sizeof *tensors };
    pco_weight weights[COUNT];
    pco_error err;
    void *file = NULL;
    for (int i = 0; i < COUNT; i++)
        weights[i] = (pco_weight){.name = (char *)tensors[i].name,
                                  .dtype = PCO_F32,
                                  .rank = tensors[i].rows ? 2 : 1,
                                  .shape = {tensors[i].rows ? tensors[i].rows : tensors[i].columns, tensors[i].columns},
                                  .data = data};
    return pco_safetensors_encode(weights, COUNT, NULL, 0, &file, size, &err) ? NULL : file;
}

#endif
