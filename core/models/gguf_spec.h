/* A spec from the metadata of a GGUF file, whose keys have the architecture in front. Which keys are read
 * follows from what the family has set already: those of RoPE where positions are rotated, the epsilon of its
 * kind of norm, soft caps and a window where it has a default for them. */
#ifndef PCO_MODELS_GGUF_SPEC_H
#define PCO_MODELS_GGUF_SPEC_H

#include "formats/gguf.h"
#include "models/spec.h"

/* For the initialiser of a family's spec: what GGUF calls the tensors of a decoder, whatever the family, but for the
 * norms in front of blocks. */
#define PCO_GGUF_NAMES(attention_norm_name, ffn_norm_name) \
    .stacks[PCO_DECODER] = {.embed_scope = "embed", \
                            .head_scope = "output", \
                            .embedding = "token_embd.weight", \
                            .positions = "position_embd.weight", \
                            .layer = "blk.*", \
                            .last_norm = "output_norm"}, \
    .lm_head = "output.weight", .names.self_attention_norm = attention_norm_name, .names.ffn_norm = ffn_norm_name, \
    .names.query = "attn_q", .names.key = "attn_k", .names.value = "attn_v", .names.output = "attn_output", \
    .names.fc1 = "ffn_up", .names.fc2 = "ffn_down", .names.gate = "ffn_gate", .names.up = "ffn_up", \
    .names.down = "ffn_down"

/* For names.router of families with experts; the stacks of experts have names of their own, which reading fills in. */
#define PCO_GGUF_ROUTER "ffn_gate_inp"

/* What GGUF calls the stacks of experts. */
void pco_gguf_name_experts(pco_layer_names *names);

/* Fills in sizes, epsilon, RoPE, the vocabulary, and the soft caps and window of families that have some. Errors:
 * UNSUPPORTED for experts, a kind of RoPE scaling, and keys that ask for what the family does not compute, by name;
 * NOT_FOUND and FORMAT for keys, naming them. */
pco_status pco_gguf_read_spec(const pco_gguf *gguf, pco_model_spec *spec, pco_error *err) PCO_NODISCARD;

#endif
