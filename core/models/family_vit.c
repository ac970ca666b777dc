/* The vision transformer (Dosovitskiy et al. 2020) in folders of Hugging Face: an encoder of patches behind a class
 * token, pre-norm, with learned positions; labels, or a pooler, from the class token. */
#include "models/family.h"
#include "models/image_processor.h"

static const pco_model_spec vit_spec = {
    .program = "encoder",
    .stacks[PCO_ENCODER] = {.embed_scope = "embeddings",
                            .head_scope = "encoder",
                            .positions = "embeddings.position_embeddings",
                            .layer = "encoder.layer.*",
                            .last_norm = "layernorm"},
    .names = {.self_attention_norm = "layernorm_before",
              .ffn_norm = "layernorm_after",
              .query = "attention.attention.query",
              .key = "attention.attention.key",
              .value = "attention.attention.value",
              .output = "attention.output.dense",
              .fc1 = "intermediate.dense",
              .fc2 = "output.dense"},
    .patches = {.projection = "embeddings.patch_embeddings.projection",
                .bias = 1,
                .class_token = "embeddings.cls_token",
                .channels = 3,
                .image = {224, 224},
                .patch = {16, 16}},
    .features = {.linear = "pooler.dense", .bias = 1, .tanh = 1},
    .classes = {.linear = "classifier", .bias = 1},
    .activation_function = PCO_NN_GELU,
    .norm.eps = 1e-12,
    .attention_bias = PCO_BIAS_ALL,
    .output_bias = PCO_BIAS_ALL,
    .ffn_bias = PCO_BIAS_ALL,
    .position_embedding = PCO_POSITION_LEARNED,
    .normalize_before = 1,
    .final_norm = 1,
    .encoder_only = 1,
};

static void vit_read(pco_hub_reader *r, pco_model_spec *spec)
{
    static const pco_hub_keys keys = {.width = "hidden_size",
                                      .ffn = "intermediate_size",
                                      .layers = "num_hidden_layers",
                                      .heads = "num_attention_heads",
                                      .eps = "layer_norm_eps",
                                      .activation = "hidden_act"};
    pco_hub_read_image_encoder(r, &keys, spec);
    spec->attention_bias = pco_hub_bias(r, "qkv_bias", 1);
    spec->features.width = pco_hub_size_or(r, "pooler_output_size", 1 << 20, spec->d_model);
    pco_hub_only_text(r, "pooler_act", "tanh");
    pco_hub_ignore(r, "encoder_stride"); /* of a head that paints what is masked */
    spec->classes.width = pco_hub_labels(r);
}

static const char *const vit_unused[] = {"pooler.", "classifier.", "decoder.", "embeddings.mask_token", NULL};
static const char *const vit_flattened[] = {"embeddings.cls_token", "embeddings.position_embeddings",
                                            "embeddings.patch_embeddings.projection.weight", NULL};
static const pco_hub vit_hub = {.read = vit_read, .prefix = "vit.", .unused = vit_unused, .flattened = vit_flattened};

const pco_image_processor_class pco_image_processor_vit = {.name = "ViT",
                                                           .usual = {.resizes = 1,
                                                                     .rescales = 1,
                                                                     .normalizes = 1,
                                                                     .size = {224, 224},
                                                                     .resample = PCO_RESAMPLE_BILINEAR,
                                                                     .crop = {224, 224},
                                                                     .factor = 1.0 / 255,
                                                                     .mean = {0.5, 0.5, 0.5},
                                                                     .deviation = {0.5, 0.5, 0.5}}};

const pco_family pco_family_vit = {.name = "vit",
                                   .model_type = "vit",
                                   .spec = &vit_spec,
                                   .image_processor = &pco_image_processor_vit,
                                   .hub = &vit_hub};
