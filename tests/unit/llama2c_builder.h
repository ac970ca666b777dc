/* Checkpoints and tokenizers of llama2.c of a few kilobytes in memory. */
#ifndef PCO_TESTS_LLAMA2C_BUILDER_H
#define PCO_TESTS_LLAMA2C_BUILDER_H

#include "gguf_builder.h"

enum { L2C_DIM = 8, L2C_HIDDEN = 12, L2C_LAYERS = 2, L2C_HEADS = 2, L2C_KV_HEADS = 1, L2C_VOCAB = 9, L2C_CONTEXT = 16 };

/* By GGUF's names, in the order of version 0 and of version 1, from the programs export.py and run.c of llama2.c. */
typedef struct l2c_tensor {
    const char *name;
    int rows, columns, layers; /* no rows: a vector; no layers: one of the model */
} l2c_tensor;
static const l2c_tensor l2c_orders[2][12] = {
    {{"token_embd.weight", L2C_VOCAB, L2C_DIM, 0},
     {"blk.%d.attn_norm.weight", 0, L2C_DIM, L2C_LAYERS},
     {"blk.%d.attn_q.weight", L2C_DIM, L2C_DIM, L2C_LAYERS},
     {"blk.%d.attn_k.weight", 4, L2C_DIM, L2C_LAYERS},
     {"blk.%d.attn_v.weight", 4, L2C_DIM, L2C_LAYERS},
     {"blk.%d.attn_output.weight", L2C_DIM, L2C_DIM, L2C_LAYERS},
     {"blk.%d.ffn_norm.weight", 0, L2C_DIM, L2C_LAYERS},
     {"blk.%d.ffn_gate.weight", L2C_HIDDEN, L2C_DIM, L2C_LAYERS},
     {"blk.%d.ffn_down.weight", L2C_DIM, L2C_HIDDEN, L2C_LAYERS},
     {"blk.%d.ffn_up.weight", L2C_HIDDEN, L2C_DIM, L2C_LAYERS},
     {"output_norm.weight", 0, L2C_DIM, 0},
     {"output.weight", L2C_VOCAB, L2C_DIM, 0}},
    {{"blk.%d.attn_norm.weight", 0, L2C_DIM, L2C_LAYERS},
     {"blk.%d.ffn_norm.weight", 0, L2C_DIM, L2C_LAYERS},
     {"output_norm.weight", 0, L2C_DIM, 0},
     {"token_embd.weight", L2C_VOCAB, L2C_DIM, 0},
     {"blk.%d.attn_q.weight", L2C_DIM, L2C_DIM, L2C_LAYERS},
     {"blk.%d.attn_k.weight", 4, L2C_DIM, L2C_LAYERS},
     {"blk.%d.attn_v.weight", 4, L2C_DIM, L2C_LAYERS},
     {"blk.%d.attn_output.weight", L2C_DIM, L2C_DIM, L2C_LAYERS},
     {"blk.%d.ffn_gate.weight", L2C_HIDDEN, L2C_DIM, L2C_LAYERS},
     {"blk.%d.ffn_down.weight", L2C_DIM, L2C_HIDDEN, L2C_LAYERS},
     {"blk.%d.ffn_up.weight", L2C_HIDDEN, L2C_DIM, L2C_LAYERS},
     {"output.weight", L2C_VOCAB, L2C_DIM, 0}},
};

/* Element i of a tensor: its letters, its layer and i, each in a place of its own. */
static inline float l2c_value(const char *name, int layer, int i)
{
    int letters = 0;
    for (const char *at = strrchr(name, '.') - 1; at >= name && *at != '.'; at--) letters = letters * 3 + *at;
    return (float)(letters % 8191) + (float)layer / 2 + (float)i / 1024;
}

static inline void build_llama2c(built *file, int version, int shared)
{
    const int32_t numbers[] = {L2C_DIM,    L2C_HIDDEN,   L2C_LAYERS,
                               L2C_HEADS,  L2C_KV_HEADS, version || shared ? L2C_VOCAB : -L2C_VOCAB,
                               L2C_CONTEXT};
    file->size = 0;
    if (version) put(file, "24ka", 4);
    if (version) put_u32(file, (uint32_t)version);
    put(file, numbers, sizeof numbers);
    if (version) put(file, shared ? "\1" : "\0", 1);
    while (version && file->size < 256) put(file, "", 1);
    for (int t = 0; t < 12 - shared; t++) {
        const l2c_tensor *tensor = &l2c_orders[version != 0][t];
        for (int i = 0; t == 11 && !version && i < L2C_CONTEXT * 4; i++) put_f32(file, 0.5f); /* tables of RoPE */
        for (int layer = 0; layer < tensor->layers + !tensor->layers; layer++)
            for (int i = 0; i < tensor->columns * (tensor->rows + !tensor->rows); i++)
                put_f32(file, l2c_value(tensor->name, layer, i));
    }
    for (int i = 0; shared && !version && i < L2C_CONTEXT * 4; i++) put_f32(file, 0.5f);
}

static inline void build_llama2c_tokens(built *file)
{
    static const char *const tokens[L2C_VOCAB] = {"<unk>", "\n<s>\n", "\n</s>\n", "<0x00>", " a", "a", "b", "ab", " "};
    file->size = 0;
    put_u32(file, 7);
    for (int i = 0; i < L2C_VOCAB; i++) {
        put_f32(file, (float)-i);
        put_u32(file, (uint32_t)strlen(tokens[i]));
        put(file, tokens[i], strlen(tokens[i]));
    }
}

#endif
