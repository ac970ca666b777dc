/* Encoder, decoder and cross-attention with their masks ("Attention Is All You Need"): what a token reaches.
 * Layers normalise first, with LayerNorm in the std + eps form, and the stacks end in a norm. */
#include "kit.h"

#include <stdio.h>
#include <string.h>

enum { SOURCE = 9, VALID = 7, TARGET = 6, WIDTH = 64, HEADS = 4, HIDDEN = 256, LAYERS = 2, VOCAB = 50 };

static uint32_t embed(kit *k, const char *name, int64_t length)
{
    char table[64];
    snprintf(table, sizeof table, "%s.embedding.weight", name);
    uint32_t ids = pco_graph_input(k->graph, name, PCO_I32, 2, (int64_t[]){1, length});
    return pco_nn_sinusoidal(k->nn, pco_nn_embedding(k->nn, ids, table, VOCAB, WIDTH), PCO_NONE, 0);
}

static void build(kit *k)
{
    const pco_nn_transformer_params params = {.size = sizeof params,
                                              .width = WIDTH,
                                              .heads = HEADS,
                                              .hidden = HIDDEN,
                                              .layers = LAYERS,
                                              .normalize_before = 1,
                                              .norm_form = PCO_NN_STD_EPS,
                                              .norm_eps = 1e-6};
    pco_nn_transformer_inputs inputs = PCO_NN_NO_INPUTS;
    kit_begin(k, NULL);
    inputs.memory_mask = pco_graph_input(k->graph, "mask", PCO_BOOL, 4, (int64_t[]){1, 1, 1, SOURCE});
    uint32_t source = embed(k, "source", SOURCE), target = embed(k, "target", TARGET);
    pco_graph_output(k->graph, pco_nn_transformer(k->nn, source, target, "model", &params, &inputs), "y");
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
    printf("\n%lld parameters; a masked token reaches nothing, to the last bit\n", (long long)kit_parameters(&k));
    return kit_close(&k);
}
