/* Whisper (Radford et al. 2022) in folders of Hugging Face: an encoder-decoder, pre-norm, that hears log-mel features
 * and writes text. The encoder's positions are sinuses, which files have as a table; those of the decoder are learned.
 * Projections have biases, but for those of the keys; the output projection is the decoder's embeddings. */
#include "models/family.h"

#include "base/error.h"
#include "models/log_mel.h"

#include <inttypes.h>

#define WHISPER_STACK(side) \
    .embed_scope = side, .head_scope = side, .embedding = "decoder.embed_tokens.weight", \
    .positions = side ".embed_positions.weight", .layer = side ".layers.*", .last_norm = side ".layer_norm"

static const pco_model_spec whisper_spec = {
    .program = "decoder",
    .stacks = {{WHISPER_STACK("encoder")}, {WHISPER_STACK("decoder")}},
    .names = {PCO_FAIRSEQ_LAYER_NAMES},
    .sound = {.conv1 = "encoder.conv1", .conv2 = "encoder.conv2"},
    .lm_head = "proj_out.weight",
    .norm.eps = 1e-5,
    .normalize_before = 1,
    .final_norm = 1,
    .attention_bias = PCO_BIAS_ALL,
    .no_key_bias = 1,
    .output_bias = PCO_BIAS_ALL,
    .ffn_bias = PCO_BIAS_ALL,
    .position_embedding = PCO_POSITION_LEARNED,
    .share_embeddings = 1,
};

static void whisper_ignore(pco_hub_reader *r)
{
    static const char *const same[] = {"num_hidden_layers",  /* encoder_layers once more */
                                       "scale_embedding",    /* read, and not used, by all */
                                       "forced_decoder_ids", /* of generation */
                                       "median_filter_width",   "classifier_proj_size", "use_weighted_layer_sum",
                                       "apply_spec_augment",    "mask_time_prob",       "mask_time_length",
                                       "mask_time_min_masks",   "mask_feature_prob",    "mask_feature_length",
                                       "mask_feature_min_masks"}; /* of training, and of other heads */
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) pco_hub_ignore(r, same[i]);
}

static void whisper_read(pco_hub_reader *r, pco_model_spec *spec)
{
    static const char *const layers[] = {"encoder_layers", "decoder_layers"},
                             *const heads[] = {"encoder_attention_heads", "decoder_attention_heads"},
                             *const hidden[] = {"encoder_ffn_dim", "decoder_ffn_dim"};
    const int64_t vocab = pco_hub_size_or(r, "vocab_size", INT32_MAX, 51865);
    spec->d_model = pco_hub_size_or(r, "d_model", 1 << 20, 384);
    for (int side = 0; side < 2; side++) {
        spec->vocab_size[side] = vocab;
        spec->layers[side] = pco_hub_size_or(r, layers[side], 1024, 4);
        spec->attention_heads[side] = spec->kv_heads[side] = pco_hub_size_or(r, heads[side], 4096, 6);
        spec->ffn_dim[side] = pco_hub_size_or(r, hidden[side], 1 << 24, 1536);
        spec->head_dim[side] = spec->d_model / spec->attention_heads[side];
        if (!r->status && spec->d_model % spec->attention_heads[side])
            r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: 'd_model' %" PRId64 " is no multiple of '%s'", r->label,
                                 spec->d_model, heads[side]);
    }
    spec->sound.bands = pco_hub_size_or(r, "num_mel_bins", PCO_LOG_MEL_BANDS, 80);
    spec->sound.rows = pco_hub_size_or(r, "max_source_positions", 1 << 14, 1500);
    spec->max_position_embeddings = pco_hub_size_or(r, "max_target_positions", 1 << 24, 448);
    spec->activation_function = pco_hub_activation(r, "activation_function", PCO_NN_GELU);
    pco_spec_set_norm(spec);
    spec->last_norm = spec->norm;
    spec->tie_word_embeddings = pco_hub_bool(r, "tie_word_embeddings", 1);
    if (spec->tie_word_embeddings) spec->lm_head = NULL; /* some files have it twice */
    pco_hub_only(r, "is_encoder_decoder", 1);
    spec->pad_token_id = pco_hub_token(r, "pad_token_id", 50256);
    spec->bos_token_id = pco_hub_token(r, "bos_token_id", 50256);
    spec->eos_token_id = pco_hub_token(r, "eos_token_id", 50256);
    spec->decoder_start_token_id = pco_hub_token(r, "decoder_start_token_id", 50257);
    whisper_ignore(r);
}

static const char *const whisper_unused[] = {"proj_out.", NULL}; /* where it is tied */
static const char *const whisper_bare[] = {"proj_out.", NULL};
static const pco_hub whisper_hub = {.read = whisper_read,
                                    .prefix = "model.",
                                    .bare = whisper_bare,
                                    .unused = whisper_unused,
                                    .class = "WhisperForConditionalGeneration"};

const pco_family pco_family_whisper = {
    .name = "whisper", .model_type = "whisper", .spec = &whisper_spec, .hub = &whisper_hub};
