/* Encoder, decoder and cross-attention with their masks ("Attention Is All You Need"): what a token reaches.
 * Layers normalise first, with LayerNorm in the std + eps form, and the stacks end in a norm. */
#include "kit.h"

#include <stdio.h>
#include <string.h>

enum { SOURCE = 9, VALID = 7, TARGET = 6, WIDTH = 64, HEADS = 4, HIDDEN = 256, LAYERS = 2, VOCAB = 50 };

static const pco_nn_norm_params norm = {sizeof norm, PCO_NN_LAYER_NORM, PCO_NN_STD_EPS, 1e-6, WIDTH};

static pco_nn_attention_params attention(const pco_nn *nn, const char *name, int causal)
{
    return (pco_nn_attention_params){.size = sizeof(pco_nn_attention_params),
                                     .query = pco_nn_name(nn, "%s.q", name),
                                     .key = pco_nn_name(nn, "%s.k", name),
                                     .value = pco_nn_name(nn, "%s.v", name),
                                     .output = pco_nn_name(nn, "%s.o", name),
                                     .width = WIDTH,
                                     .heads = HEADS,
                                     .kv_heads = HEADS,
                                     .head_dim = WIDTH / HEADS,
                                     .bias = 1,
                                     .output_bias = 1,
                                     .causal = causal};
}

static pco_nn_layer_params layer(kit *k, const char *stack, int index, int decoder)
{
    const pco_nn *nn = &k->nn;
    const char *p = pco_nn_name(nn, "%s.%d", stack, index);
    const pco_nn_layer_params params = {.normalize_before = 1,
                                        .norm = norm,
                                        .self_attention_norm = pco_nn_name(nn, "%s.residual1", p),
                                        .cross_attention_norm = pco_nn_name(nn, "%s.residual2", p),
                                        .ffn_norm = pco_nn_name(nn, "%s.residual3", p),
                                        .self_attention = attention(nn, pco_nn_name(nn, "%s.self_attn", p), decoder),
                                        .cross_attention = attention(nn, pco_nn_name(nn, "%s.enc_dec_attn", p), 0),
                                        .ffn = {.size = sizeof(pco_nn_ffn_params),
                                                .activation = PCO_NN_RELU,
                                                .fc1 = pco_nn_name(nn, "%s.fc1", p),
                                                .fc2 = pco_nn_name(nn, "%s.fc2", p),
                                                .width = WIDTH,
                                                .hidden = HIDDEN,
                                                .bias = 1}};
    kit_layer(k, &params, decoder);
    return params;
}

static uint32_t embed(kit *k, const char *name, int64_t length)
{
    char table[64];
    snprintf(table, sizeof table, "%s.embedding", name);
    kit_linear(k, table, VOCAB, WIDTH, 0);
    uint32_t ids = pco_graph_input(k->nn.graph, name, PCO_I32, 2, (int64_t[]){1, length});
    uint32_t x = pco_nn_embedding(&k->nn, ids, pco_nn_name(&k->nn, "%s.embedding.weight", name), VOCAB, WIDTH);
    return pco_nn_sinusoidal(&k->nn, x, pco_nn_positions(&k->nn, 0, length), 0);
}

static void build(kit *k)
{
    pco_nn_attention_operands encoder = PCO_NN_NO_OPERANDS, self = PCO_NN_NO_OPERANDS, cross = PCO_NN_NO_OPERANDS;
    kit_begin(k);
    encoder.mask = cross.mask = pco_graph_input(k->nn.graph, "mask", PCO_BOOL, 4, (int64_t[]){1, 1, 1, SOURCE});
    uint32_t memory = embed(k, "source", SOURCE), x = embed(k, "target", TARGET);
    for (int i = 0; i < LAYERS; i++) {
        const pco_nn_layer_params params = layer(k, "encoder", i, 0);
        memory = pco_nn_self_layer(&k->nn, memory, &params, &encoder);
    }
    kit_norm(k, "encoder.norm", &norm);
    kit_norm(k, "decoder.norm", &norm);
    cross.memory = pco_nn_norm(&k->nn, memory, "encoder.norm", &norm);
    for (int i = 0; i < LAYERS; i++) {
        const pco_nn_layer_params params = layer(k, "decoder", i, 1);
        x = pco_nn_cross_layer(&k->nn, x, &params, &self, &cross);
    }
    pco_graph_output(k->nn.graph, pco_nn_norm(&k->nn, x, "decoder.norm", &norm), "y");
    kit_ready(k);
}

static void run(kit *k, const int32_t *source, const int32_t *target, float y[TARGET][WIDTH])
{
    unsigned char mask[SOURCE];
    for (int i = 0; i < SOURCE; i++) mask[i] = i < VALID; /* the rest is padding */
    kit_write(k, "mask", mask, sizeof mask);
    kit_write(k, "source", source, SOURCE * sizeof *source);
    kit_write(k, "target", target, TARGET * sizeof *target);
    kit_run(k);
    kit_read(k, "y", y, sizeof(float[TARGET][WIDTH]));
}

int main(void)
{
    static const struct {
        const char *what;
        int source, index, first; /* which token changes; the first row that it reaches */
    } changes[] = {{"source token 3", 1, 3, 0},
                   {"source token 8, padding", 1, 8, TARGET},
                   {"target token 0", 0, 0, 0},
                   {"target token 4", 0, 4, 4}};
    static float y[TARGET][WIDTH], z[TARGET][WIDTH];
    int32_t ids[2][16] = {{7, 6, 5, 4, 3, 2, 1, 0, 0}, {1, 11, 12, 13, 14, 15}}, other[2][16];
    kit k;
    kit_open(&k, "encoder_decoder");
    build(&k);
    run(&k, ids[0], ids[1], y);
    printf("%-26s %s\n", "change of", "largest change of decoder row 0 .. 5");
    for (int c = 0; c < 4; c++) {
        memcpy(other, ids, sizeof ids);
        other[!changes[c].source][changes[c].index] = 40;
        run(&k, other[0], other[1], z);
        printf("%-26s", changes[c].what);
        for (int row = 0; row < TARGET; row++) {
            double change = kit_difference(y[row], z[row], WIDTH);
            printf(" %8.1e", change);
            /* Where nothing arrives the same bits come out, so any change is one; 1e-4 besides shows that it is not
             * rounding, which is some 2^-20 = 1e-6 of rows of scale 1 after a few layers. */
            kit_check(&k, row < changes[c].first ? change == 0 : change > 1e-4, changes[c].what);
        }
        printf("\n");
    }
    printf("\n%lld parameters; a masked token reaches nothing, to the last bit\n", (long long)kit_parameters(&k, ""));
    return kit_close(&k);
}
