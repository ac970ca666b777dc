/* The Llama family in GGUF (Touvron et al. 2023): RMSNorm, RoPE on adjacent pairs, grouped queries, SwiGLU.
 */
#ifndef PCO_MODELS_LLAMA_H
#define PCO_MODELS_LLAMA_H

#include "formats/gguf.h"
#include "nn/nn.h"

typedef struct pco_llama_config {
    int64_t vocab_size, embedding_length, block_count, feed_forward_length;
    int64_t head_count, head_count_kv, head_dim;
    int64_t context_length; /* what the file says */
    int64_t rope_dimensions;
    double rope_freq_base, rope_scale; /* positions are divided by rope_scale */
    double rms_epsilon;
    const float *rope_factors; /* rope_freqs.weight [rope_dimensions / 2], or NULL; in the file's memory */
} pco_llama_config;

/* Reads the metadata of a file whose general.architecture is "llama". Errors: UNSUPPORTED for another
 * architecture, experts or a kind of RoPE scaling, by name; NOT_FOUND and FORMAT for keys, naming them. */
pco_status pco_llama_config_read(const pco_gguf *gguf, pco_llama_config *config,
                                 pco_error *err) PCO_NODISCARD;

/* Builds one chunk: `rows` tokens of one sequence behind what is in the cache. It reads the input "ids" i32
 * [1,rows] and the run values "positions" i32 [1,rows], "starts" i32 [1] (position of the first row) and
 * "lengths" i32 [1] (valid keys: starts + valid rows); rows beyond the valid ones are computed and mean
 * nothing. The output "logits" is f32 [rows,vocab_size] with all_logits, else [1,vocab_size] of the row that
 * the run value "row" i32 [1] names (there is none when rows is 1). */
void pco_llama_build(const pco_nn *nn, const pco_llama_config *config, int64_t context, int64_t rows,
                     int all_logits);

/* Builds the layers for a whole text at once, without a cache and without logits: the input "ids" is i32
 * [1,rows]. With nn->keep_attention its outputs are "attention:blk.N.attn_output", f32
 * [1,head_count,rows,rows]. */
void pco_llama_build_attention(const pco_nn *nn, const pco_llama_config *config, int64_t rows);

#endif
