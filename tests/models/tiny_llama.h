/* A tiny Llama with random weights: written as GGUF, and computed in double by plain loops that share nothing
 * with the library but the conversion of quantised weights. */
#ifndef PCO_TESTS_TINY_LLAMA_H
#define PCO_TESTS_TINY_LLAMA_H

#include "portico/plugin.h"

enum {
    TINY_VOCAB = 48,
    TINY_WIDTH = 64,
    TINY_HIDDEN = 96,
    TINY_MOST = 512, /* width and hidden */
    TINY_LAYERS = 2,
    TINY_HEADS = 4,
    TINY_GROUPS = 2,
    TINY_HEAD = TINY_WIDTH / TINY_HEADS,
    TINY_CONTEXT = 300,
    TINY_TENSORS = 32
};

typedef struct tiny_llama {
    pco_dtype dtype;              /* of the matrices */
    int width, hidden;            /* 0: TINY_WIDTH and TINY_HIDDEN */
    int rope_dimensions;          /* 0: the whole head */
    double rope_base, rope_scale; /* 0: 10000 and 1 */
    int rope_factors;             /* 1: there is a rope_freqs.weight */
    int own_output;               /* 1: there is an output.weight */
    const char *architecture;     /* NULL: llama */
    const char *without;          /* a key or tensor that is left out */
    const char *as_q8_1;          /* a tensor that is written as Q8_1 (zeros) */
    const char *wrong_shape;      /* a tensor that is one row too long */
} tiny_llama;

/* Writes the file. Returns 0 when that failed. */
int tiny_llama_write(const tiny_llama *model, const char *path);

/* logits [count][TINY_VOCAB] for ids[count]. */
void tiny_llama_logits(const tiny_llama *model, const int32_t *ids, int count, double *logits);

/* Attention weights [TINY_LAYERS][TINY_HEADS][count][count]. */
void tiny_llama_attention(const tiny_llama *model, const int32_t *ids, int count, double *weights);

#endif
