/* Families of models: one row each, in a file of its own, and the list of them (family.c). Nothing outside
 * such a file asks which family a model is of. */
#ifndef PCO_MODELS_FAMILY_H
#define PCO_MODELS_FAMILY_H

#include "formats/gguf.h"
#include "models/hub.h"
#include "text/tokenizer.h"

/* A family is read from GGUF files, from folders with a config.json, or from both. The spec that it begins with is what
 * all its models share, with the names of GGUF where it is read from there; the rest is what the file says. */
typedef struct pco_family {
    const char *name;
    const char *architecture; /* general.architecture of its GGUF files; NULL: it is not read from GGUF */
    const char *model_type;   /* of its config.json; NULL: it is not read from folders */
    const pco_model_spec *spec;
    const pco_model_spec *images; /* what its second encoder begins with, which reads images; NULL: there is none */
    /* Of a family that reads images: how, where the folder does not say (models/image_processor.h). */
    const struct pco_image_processor_class *image_processor;
    /* What pco_gguf_read_spec does not know of (models/gguf_spec.h), called after it; may be NULL. */
    pco_status (*read_gguf)(const pco_gguf *gguf, pco_model_spec *spec, pco_error *err);
    const struct pco_family *in_gguf; /* whose GGUF files its models are, where it has none of its own; may be NULL */
    /* With in_gguf: is such a model, of those files, one of this row's? May be NULL. */
    int (*is)(const pco_model_spec *spec);
    /* Where a model's spec says whose files it is written as, in GGUF or as a folder of Hugging Face: those of whom, or
     * NULL for nobody. NULL: its own, and in_gguf's. */
    const struct pco_family *(*written_as)(const pco_model_spec *spec, int folder);
    int any_parts;  /* its models choose their parts one by one: what another family always has and one of them has not
                       is made when it is written as that one's (convert_trained.c) */
    int one_bias;   /* one key of its files says of all biases of a layer whether they are there */
    int says_scale; /* a key of its files says whether embeddings are scaled */
    const pco_hub *hub; /* folders are in the layout of Hugging Face; NULL: in one of its own, which is read by: */
    pco_status (*read_config)(const cJSON *root, const char *label, pco_model_spec *spec, pco_error *err);
    /* With read_config: the tokenizer of a side, NULL when there is none. The others say by themselves which they have.
     */
    pco_status (*read_tokenizer)(const cJSON *root, const char *label, const pco_model_spec *spec, pco_model_side side,
                                 pco_tokenizer **tokenizer, pco_error *err);
} pco_family;

/* The names of a layer's parts in fairseq's transformer (Ott et al. 2019), which BART, Marian, Blenderbot and Whisper
 * have in Hugging Face's layout, and Portico's own models. */
#define PCO_FAIRSEQ_LAYER_NAMES \
    .self_attention_norm = "self_attn_layer_norm", .cross_attention_norm = "encoder_attn_layer_norm", \
    .ffn_norm = "final_layer_norm", .query = "self_attn.q_proj", .key = "self_attn.k_proj", \
    .value = "self_attn.v_proj", .output = "self_attn.out_proj", .cross_query = "encoder_attn.q_proj", \
    .cross_key = "encoder_attn.k_proj", .cross_value = "encoder_attn.v_proj", .cross_output = "encoder_attn.out_proj", \
    .fc1 = "fc1", .fc2 = "fc2"

/* The rows; family.c lists them. */
extern const pco_family pco_family_falcon, pco_family_gemma2, pco_family_gemma3, pco_family_gpt2, pco_family_gptneox,
    pco_family_llama, pco_family_mistral, pco_family_mixtral, pco_family_olmo2, pco_family_phi3, pco_family_qwen2,
    pco_family_qwen3, pco_family_qwen3moe, pco_family_smollm3, pco_family_starcoder2, pco_family_transformer;
extern const pco_family pco_family_albert, pco_family_bart, pco_family_bert, pco_family_camembert, pco_family_clip,
    pco_family_clip_text, pco_family_clip_vision, pco_family_distilbert, pco_family_encoder_decoder, pco_family_mpnet,
    pco_family_marian, pco_family_t5, pco_family_roberta, pco_family_vit, pco_family_whisper, pco_family_xlm_roberta;

/* Which family a file is of, and its spec. Errors: UNSUPPORTED for another architecture or model type, naming
 * those that there are; those of the family. */
pco_status pco_family_of_gguf(const pco_gguf *gguf, const pco_family **family, pco_model_spec *spec,
                              pco_error *err) PCO_NODISCARD;
pco_status pco_family_of_config(const cJSON *root, const char *label, const pco_family **family, pco_model_spec *spec,
                                pco_error *err) PCO_NODISCARD;

/* The classes of image processors that rows have, each once, by number; NULL behind the last. */
const struct pco_image_processor_class *pco_family_image_processor(uint32_t index);

/* The row of models that are made anew, whose config need not name it. */
const pco_family *pco_family_anew(void);

/* Whose folders a model is written as: the family's, or one's that says of GGUF files of the family that they are its
 * own. */
const pco_family *pco_family_of_folder(const pco_family *family, const pco_model_spec *spec);

#endif
