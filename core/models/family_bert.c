/* BERT (Devlin et al. 2018) in folders of Hugging Face: an encoder alone, post-norm, with learned positions and token
 * types. RoBERTa (Liu et al. 2019), XLM-RoBERTa and CamemBERT are the same with positions that begin behind the padding
 * token's id, and a head of another name. */
#include "models/family.h"

#define BERT_SPEC(head_dense, head_norm, head_bias) \
    .program = "encoder", \
    .stacks[PCO_ENCODER] = {.embed_scope = "embeddings", \
                            .head_scope = "encoder", \
                            .embedding = "embeddings.word_embeddings.weight", \
                            .positions = "embeddings.position_embeddings.weight", \
                            .token_types = "embeddings.token_type_embeddings.weight", \
                            .embedding_norm = "embeddings.LayerNorm", \
                            .layer = "encoder.layer.*"}, \
    .names = {.self_attention_norm = "attention.output.LayerNorm", \
              .ffn_norm = "output.LayerNorm", \
              .query = "attention.self.query", \
              .key = "attention.self.key", \
              .value = "attention.self.value", \
              .output = "attention.output.dense", \
              .fc1 = "intermediate.dense", \
              .fc2 = "output.dense"}, \
    .masked_head = {.dense = head_dense, .norm = head_norm, .bias = head_bias}, .activation_function = PCO_NN_GELU, \
    .norm.eps = 1e-12, .attention_bias = PCO_BIAS_ALL, .output_bias = PCO_BIAS_ALL, .ffn_bias = PCO_BIAS_ALL, \
    .position_embedding = PCO_POSITION_LEARNED, .encoder_only = 1

static const pco_model_spec bert_spec = {
    BERT_SPEC("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias")};

/* The padding token is 1 where a config does not say. */
static const pco_model_spec roberta_spec = {BERT_SPEC("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
                                            .pad_token_id = 1};

static void bert_read(pco_hub_reader *r, pco_model_spec *spec)
{
    pco_hub_read_encoder(r, &pco_hub_encoder_keys, spec);
    spec->masked_head.activation = spec->activation_function;
    spec->token_types = pco_hub_size_or(r, "type_vocab_size", 1 << 20, 2);
}

static void roberta_read(pco_hub_reader *r, pco_model_spec *spec)
{
    spec->position_offset = 1 + (int64_t)pco_hub_number(r, "pad_token_id", 0, 1 << 24, spec->pad_token_id);
    pco_hub_read_encoder(r, &pco_hub_encoder_keys, spec);
    spec->masked_head.activation = PCO_NN_GELU;
    spec->token_types = pco_hub_size_or(r, "type_vocab_size", 1 << 20, 1);
}

static const char *const bert_unused[] = {PCO_HUB_ENCODER_UNUSED, "cls.predictions.decoder.", NULL};
static const char *const roberta_unused[] = {PCO_HUB_ENCODER_UNUSED, "lm_head.decoder.", NULL};

static const pco_hub bert_hub = {
    .read = bert_read, .telltale = "type_vocab_size", .prefix = "bert.", .unused = bert_unused};
static const pco_hub roberta_hub = {.read = roberta_read, .prefix = "roberta.", .unused = roberta_unused};

const pco_family pco_family_bert = {.name = "bert", .model_type = "bert", .spec = &bert_spec, .hub = &bert_hub};

#define ROBERTA(type) \
    { \
        .name = type, .model_type = type, .spec = &roberta_spec, .hub = &roberta_hub \
    }

const pco_family pco_family_roberta = ROBERTA("roberta");
const pco_family pco_family_xlm_roberta = ROBERTA("xlm-roberta");
const pco_family pco_family_camembert = ROBERTA("camembert");
