/* CLIP (Radford et al. 2021) in folders of Hugging Face: an encoder of texts, causal, and one of images, both pre-norm,
 * whose features are of one length; or one of them alone. A text is what its end of text makes of it, an image what its
 * class token does. */
#include "models/family.h"
#include "models/image_processor.h"

#define CLIP_SPEC(head) \
    .program = "encoder", \
    .names = {.self_attention_norm = "layer_norm1", \
              .ffn_norm = "layer_norm2", \
              .query = "self_attn.q_proj", \
              .key = "self_attn.k_proj", \
              .value = "self_attn.v_proj", \
              .output = "self_attn.out_proj", \
              .fc1 = "mlp.fc1", \
              .fc2 = "mlp.fc2"}, \
    .features = {.linear = head, .width = 512}, .logit_scale = "logit_scale", \
    .activation_function = PCO_NN_QUICK_GELU, .norm.eps = 1e-5, .attention_bias = PCO_BIAS_ALL, \
    .output_bias = PCO_BIAS_ALL, .ffn_bias = PCO_BIAS_ALL, .position_embedding = PCO_POSITION_LEARNED, \
    .normalize_before = 1, .final_norm = 1, .encoder_only = 1

static const pco_model_spec clip_text_spec = {
    CLIP_SPEC("text_projection"),
    .stacks[PCO_ENCODER] = {.embed_scope = "text_model.embeddings",
                            .head_scope = "text_model",
                            .embedding = "text_model.embeddings.token_embedding.weight",
                            .positions = "text_model.embeddings.position_embedding.weight",
                            .layer = "text_model.encoder.layers.*",
                            .last_norm = "text_model.final_layer_norm"},
    .features_last = 1, .causal = 1};

static const pco_model_spec clip_image_spec = {
    CLIP_SPEC("visual_projection"),
    .stacks[PCO_ENCODER] = {.embed_scope = "vision_model.embeddings",
                            .head_scope = "vision_model",
                            .positions = "vision_model.embeddings.position_embedding.weight",
                            .embedding_norm = "vision_model.pre_layrnorm",
                            .layer = "vision_model.encoder.layers.*",
                            .last_norm = "vision_model.post_layernorm"},
    .patches = {.projection = "vision_model.embeddings.patch_embedding",
                .class_token = "vision_model.embeddings.class_embedding",
                .channels = 3,
                .image = {224, 224},
                .patch = {32, 32}}};

#define CLIP_KEYS \
    .width = "hidden_size", .ffn = "intermediate_size", .layers = "num_hidden_layers", .heads = "num_attention_heads", \
    .eps = "layer_norm_eps", .activation = "hidden_act"

/* Files without a number have that of the first CLIP. Those of its first version say 2 for the end of text, whose
 * vocabularies end with that. */
static void clip_read_text(pco_hub_reader *r, pco_model_spec *spec)
{
    static const pco_hub_keys keys = {CLIP_KEYS, .context = "max_position_embeddings"};
    const pco_hub_sizes usual = {.width = 512, .ffn = 2048, .layers = 12, .heads = 8, .positions = 77, .vocab = 49408};
    pco_hub_ignore(r, "projection_dim"); /* it is that of the whole model */
    const int32_t end = pco_hub_token(r, "eos_token_id", 49407);
    pco_hub_read_encoder_or(r, &keys, &usual, spec);
    spec->text_end_id = end == 2 ? PCO_SPEC_HIGHEST : end;
}

static void clip_read_images(pco_hub_reader *r, pco_model_spec *spec)
{
    static const pco_hub_keys keys = {CLIP_KEYS};
    pco_hub_ignore(r, "projection_dim");
    pco_hub_read_image_encoder(r, &keys, spec);
}

/* Older files have a second copy of a tower, "text_config_dict", which is the one that counts. */
static void clip_read_part(pco_hub_reader *r, const char *key, const char *copy, pco_hub_part_fn read,
                           pco_model_spec *spec)
{
    const int has_copy = pco_hub_item(r, copy) != NULL;
    spec->features.width = pco_hub_size_or(r, "projection_dim", 1 << 20, spec->features.width);
    pco_hub_read_part(r, has_copy ? copy : key, read, spec);
    pco_hub_ignore(r, key);
    pco_hub_ignore(r, "logit_scale_init_value");
}

static void clip_read(pco_hub_reader *r, pco_model_spec *spec)
{
    clip_read_part(r, "text_config", "text_config_dict", clip_read_text, spec);
    pco_hub_ignore(r, "vision_config");
    pco_hub_ignore(r, "vision_config_dict");
}

static void clip_read_second(pco_hub_reader *r, pco_model_spec *spec)
{
    clip_read_part(r, "vision_config", "vision_config_dict", clip_read_images, spec);
    pco_hub_ignore(r, "text_config");
    pco_hub_ignore(r, "text_config_dict");
}

/* A tower alone, whose configuration is the whole file. */
static void clip_read_text_alone(pco_hub_reader *r, pco_model_spec *spec)
{
    spec->features.width = pco_hub_size_or(r, "projection_dim", 1 << 20, spec->features.width);
    clip_read_text(r, spec);
}

static void clip_read_images_alone(pco_hub_reader *r, pco_model_spec *spec)
{
    spec->features.width = pco_hub_size_or(r, "projection_dim", 1 << 20, spec->features.width);
    clip_read_images(r, spec);
}

static const char *const clip_unused[] = {"text_projection.",
                                          "visual_projection.",
                                          "logit_scale",
                                          "text_model.embeddings.position_ids",
                                          "vision_model.embeddings.position_ids",
                                          NULL};
/* Files of both may stand beside the configuration of one. */
static const char *const clip_text_unused[] = {
    "text_projection.", "logit_scale",        "text_model.embeddings.position_ids",
    "vision_model.",    "visual_projection.", NULL};
static const char *const clip_vision_unused[] = {
    "visual_projection.", "logit_scale",      "vision_model.embeddings.position_ids",
    "text_model.",        "text_projection.", NULL};
static const char *const clip_flattened[] = {"vision_model.embeddings.patch_embedding.weight", NULL};
static const pco_hub clip_hub = {.read = clip_read,
                                 .read_images = clip_read_second,
                                 .prefix = "",
                                 .unused = clip_unused,
                                 .flattened = clip_flattened};

static const pco_hub clip_text_hub = {.read = clip_read_text_alone, .prefix = "", .unused = clip_text_unused};
static const pco_hub clip_vision_hub = {
    .read = clip_read_images_alone, .prefix = "", .unused = clip_vision_unused, .flattened = clip_flattened};

static const pco_image_processor_class clip_image_processor = {
    .name = "CLIP",
    .usual = {.resizes = 1,
              .crops = 1,
              .rescales = 1,
              .normalizes = 1,
              .shortest_edge = 224,
              .resample = PCO_RESAMPLE_BICUBIC,
              .crop = {224, 224},
              .factor = 1.0 / 255,
              .mean = {0.48145466, 0.4578275, 0.40821073},
              .deviation = {0.26862954, 0.26130258, 0.27577711}}};

const pco_family pco_family_clip = {.name = "clip",
                                    .model_type = "clip",
                                    .spec = &clip_text_spec,
                                    .images = &clip_image_spec,
                                    .image_processor = &clip_image_processor,
                                    .hub = &clip_hub};
const pco_family pco_family_clip_text = {
    .name = "clip_text", .model_type = "clip_text_model", .spec = &clip_text_spec, .hub = &clip_text_hub};
const pco_family pco_family_clip_vision = {.name = "clip_vision",
                                           .model_type = "clip_vision_model",
                                           .spec = &clip_image_spec,
                                           .image_processor = &pco_image_processor_vit,
                                           .hub = &clip_vision_hub};
