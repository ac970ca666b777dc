/* Mixtral (Jiang et al. 2024): a Mistral whose feed-forward blocks are experts, of which each token takes two. Its GGUF
 * files say that they are Llamas. */
#include "models/family.h"

static const pco_model_spec mixtral_spec = {
    .program = "mixtral",
    .activation_function = PCO_NN_SWIGLU,
    .normalize_before = 1,
    .norm.type = PCO_NN_RMS_NORM,
    .final_norm = 1,
    .position_embedding = PCO_POSITION_ROPE,
    .rope_theta = 1e6,
    .experts_normalized = 1,
    .decoder_only = 1,
};

static void mixtral_read(pco_hub_reader *r, pco_model_spec *spec)
{
    pco_hub_read_decoder(r, &pco_hub_usual_keys, spec);
    pco_hub_read_window(r, 1, spec);
    pco_hub_read_experts(r, "num_local_experts", 8, "num_experts_per_tok", 2, spec);
}

static void mixtral_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    pco_hub_put_window(w, 0);
    pco_hub_put_size(w, "num_local_experts", spec->experts);
    pco_hub_put_size(w, "num_experts_per_tok", spec->experts_used);
}

static const pco_hub mixtral_hub = {.stack = PCO_HUB_STACK,
                                    .base = "model.",
                                    .lm_head = "lm_head.weight",
                                    .names = {PCO_HUB_ATTENTION("input_layernorm", "post_attention_layernorm"),
                                              .router = "block_sparse_moe.gate", .gate = "block_sparse_moe.experts.w1",
                                              .up = "block_sparse_moe.experts.w3",
                                              .down = "block_sparse_moe.experts.w2"},
                                    .experts = "block_sparse_moe.experts.",
                                    .ignored = pco_hub_inverse_frequencies,
                                    .class = "MixtralForCausalLM",
                                    .keys = &pco_hub_usual_keys,
                                    .write = mixtral_write,
                                    .read = mixtral_read};

static int mixtral_is(const pco_model_spec *spec) { return spec->experts > 0; }

const pco_family pco_family_mixtral = {.name = "mixtral",
                                       .model_type = "mixtral",
                                       .spec = &mixtral_spec,
                                       .in_gguf = &pco_family_llama,
                                       .is = mixtral_is,
                                       .hub = &mixtral_hub};
