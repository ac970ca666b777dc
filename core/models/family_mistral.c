/* Mistral (Jiang et al. 2023): a Llama whose layers may see a window. Its GGUF files say that they are Llamas. */
#include "models/family.h"

static void mistral_read(pco_hub_reader *r, pco_model_spec *spec)
{
    pco_hub_read_decoder(r, &pco_hub_usual_keys, spec);
    pco_hub_read_window(r, 1, spec);
}

static const pco_model_spec mistral_spec = {
    .program = "mistral",
    .activation_function = PCO_NN_SWIGLU,
    .normalize_before = 1,
    .norm.type = PCO_NN_RMS_NORM,
    .final_norm = 1,
    .position_embedding = PCO_POSITION_ROPE,
    .sliding_window = 4096,
    .decoder_only = 1,
};

static void mistral_write(pco_hub_writer *w, const pco_model_spec *spec)
{
    (void)spec;
    pco_hub_put_window(w, 0);
}

static const pco_hub mistral_hub = {PCO_HUB_NAMES("input_layernorm", "post_attention_layernorm"),
                                    .ignored = pco_hub_inverse_frequencies,
                                    .class = "MistralForCausalLM",
                                    .keys = &pco_hub_usual_keys,
                                    .write = mistral_write,
                                    .read = mistral_read};

const pco_family pco_family_mistral = {.name = "mistral",
                                       .model_type = "mistral",
                                       .spec = &mistral_spec,
                                       .in_gguf = &pco_family_llama,
                                       .hub = &mistral_hub};
