/* MPNet (Song et al. 2020) in folders of Hugging Face: BERT without token types, whose scores also have a bias for each
 * distance, as T5's; all layers share the table. */
#include "models/family.h"

#include "base/error.h"
#include "models/hf_config.h"

#include <inttypes.h>

static const pco_model_spec mpnet_spec = {
    .program = "encoder",
    .stacks[PCO_ENCODER] = {.embed_scope = "embeddings",
                            .head_scope = "encoder",
                            .embedding = "embeddings.word_embeddings.weight",
                            .positions = "embeddings.position_embeddings.weight",
                            .embedding_norm = "embeddings.LayerNorm",
                            .relative_bias = "encoder.relative_attention_bias.weight",
                            .layer = "encoder.layer.*"},
    .names = {.self_attention_norm = "attention.LayerNorm",
              .ffn_norm = "output.LayerNorm",
              .query = "attention.attn.q",
              .key = "attention.attn.k",
              .value = "attention.attn.v",
              .output = "attention.attn.o",
              .fc1 = "intermediate.dense",
              .fc2 = "output.dense"},
    .masked_head = {.dense = "lm_head.dense", .norm = "lm_head.layer_norm", .bias = "lm_head.bias"},
    .activation_function = PCO_NN_GELU,
    .norm.eps = 1e-12,
    .attention_bias = PCO_BIAS_ALL,
    .output_bias = PCO_BIAS_ALL,
    .ffn_bias = PCO_BIAS_ALL,
    .position_embedding = PCO_POSITION_LEARNED,
    .position_offset = 2,
    .pad_token_id = 1,
    .relative_buckets = 32,
    .relative_distance = 128,
    .encoder_only = 1,
};

static pco_status mpnet_read(const cJSON *root, const char *label, pco_model_spec *spec, pco_error *err)
{
    pco_json_reader reader = {.root = root, .label = label, .err = err};
    pco_hf_read_encoder(&reader, spec);
    spec->masked_head.activation = PCO_NN_GELU;
    const int64_t buckets = pco_json_read_int(&reader, "relative_attention_num_buckets", 1, INT32_MAX, 32);
    if (reader.status || buckets == spec->relative_buckets) return reader.status;
    return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                    "%s: 'relative_attention_num_buckets' is %" PRId64 "; MPNet is known with %" PRId64 " only", label,
                    buckets, spec->relative_buckets);
}

static const char *const mpnet_ignored[] = {PCO_HF_ENCODER_IGNORED, "lm_head.decoder.", NULL};

const pco_family pco_family_mpnet = {
    .name = "mpnet", .spec = &mpnet_spec, .prefix = "mpnet.", .ignored = mpnet_ignored, .read_config = mpnet_read};
