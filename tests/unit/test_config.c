/* Each family's config.json of Hugging Face: an invented key, and a known one with a value that Portico cannot follow,
 * refuse the model in one line that names the key; what is known to change nothing does not. */
#include "check.h"

#include "models/family.h"
#include "models/hub.h"

enum { CONFIG_CASES = 8 };

/* What a config.json says beside the model_type, and values that it may not have. */
typedef struct config_family {
    const char *type, *keys;
    struct {
        const char *key, *value, *says; /* says NULL: the key */
    } wrong[CONFIG_CASES];
} config_family;

#define CONFIG_SIZES            "\"vocab_size\": 64, \"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 4"
#define CONFIG_DECODER_EPS(eps) CONFIG_SIZES ", \"intermediate_size\": 48, \"" eps "\": 1e-5"
#define CONFIG_DECODER          CONFIG_DECODER_EPS("rms_norm_eps")
#define CONFIG_ENCODER \
    "\"vocab_size\": 64, \"hidden_size\": 32, \"intermediate_size\": 48, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 4, \"max_position_embeddings\": 40"
#define CONFIG_SEQ2SEQ "\"vocab_size\": 64, \"d_model\": 32, \"is_encoder_decoder\": true"
/* What no decoder can follow, in the place of values that are right. */
#define CONFIG_NO_DECODER \
    {"num_attention_heads", "5", NULL}, {"num_hidden_layers", "0", NULL}, {"is_encoder_decoder", "true", NULL}, \
        {"hidden_act", "\"mish\"", NULL}, \
    { \
        "rope_scaling", "{\"type\": \"dynamic\"}", "dynamic" \
    }
#define CONFIG_NO_ENCODER \
    {"position_embedding_type", "\"relative_key\"", NULL}, {"is_decoder", "true", NULL}, \
        {"add_cross_attention", "true", NULL}, {"hidden_act", "\"mish\"", NULL}, {"num_attention_heads", "5", NULL}, \
    { \
        "tie_word_embeddings", "false", NULL \
    }

/* How the parts of CLIP's first file begin. */
#define CONFIG_CLIP_PART \
    "{\"_name_or_path\": \"\", \"add_cross_attention\": false, \"architectures\": null, \"attention_dropout\": 0.0, " \
    "\"chunk_size_feed_forward\": 0, \"diversity_penalty\": 0.0, \"do_sample\": false, \"dropout\": 0.0, " \
    "\"early_stopping\": false, \"encoder_no_repeat_ngram_size\": 0, \"eos_token_id\": 2, \"hidden_act\": " \
    "\"quick_gelu\", " \
    "\"id2label\": {\"0\": \"LABEL_0\", \"1\": \"LABEL_1\"}, \"initializer_factor\": 1.0, \"is_decoder\": false, " \
    "\"is_encoder_decoder\": false, \"layer_norm_eps\": 1e-05, \"length_penalty\": 1.0, \"max_length\": 20, " \
    "\"no_repeat_ngram_size\": 0, \"num_beams\": 1, \"output_scores\": false, \"pad_token_id\": 1, " \
    "\"projection_dim\": 512, \"pruned_heads\": {}, \"repetition_penalty\": 1.0, \"return_dict\": true, " \
    "\"tie_encoder_decoder\": false, \"tie_word_embeddings\": true, \"top_k\": 50, \"top_p\": 1.0, " \
    "\"torchscript\": false, \"transformers_version\": \"4.16.0.dev0\", \"use_bfloat16\": false"

/* The parts of an encoder-decoder, up to what is to differ. */
#define CONFIG_PAIR_ENCODER \
    "{\"model_type\": \"megatron-bert\", \"vocab_size\": 64, \"hidden_size\": 32, \"num_hidden_layers\": 2, " \
    "\"num_attention_heads\": 4, \"intermediate_size\": 48, \"hidden_act\": \"gelu\", \"max_position_embeddings\": 40"
#define CONFIG_PAIR_DECODER \
    "{\"model_type\": \"blenderbot\", \"vocab_size\": 64, \"decoder_layers\": 2, \"decoder_attention_heads\": 4, " \
    "\"decoder_ffn_dim\": 48, \"activation_function\": \"gelu\", \"max_position_embeddings\": 40"

static const config_family families[] = {
    {"llama", CONFIG_DECODER, {CONFIG_NO_DECODER}},
    {"mistral", CONFIG_DECODER, {CONFIG_NO_DECODER, {"sliding_window", "-1", NULL}}},
    {"qwen2", CONFIG_DECODER, {CONFIG_NO_DECODER, {"layer_types", "[\"linear_attention\", \"full_attention\"]", NULL}}},
    {"qwen3", CONFIG_DECODER, {CONFIG_NO_DECODER, {"layer_types", "[\"full_attention\"]", NULL}}},
    {"gemma2",
     CONFIG_DECODER,
     {{"query_pre_attn_scalar", "0", NULL},
      {"hidden_activation", "\"mish\"", NULL},
      {"use_bidirectional_attention", "true", NULL},
      {"final_logit_softcapping", "-1", NULL}}},
    {"gpt2",
     "\"vocab_size\": 64, \"n_embd\": 32, \"n_layer\": 2, \"n_head\": 4, \"layer_norm_epsilon\": 1e-5",
     {{"scale_attn_by_inverse_layer_idx", "true", NULL}, {"activation_function", "\"mish\"", NULL}}},
    {"mixtral",
     CONFIG_DECODER,
     {CONFIG_NO_DECODER, {"num_local_experts", "0", NULL}, {"num_experts_per_tok", "9", NULL}}},
    {"qwen3_moe",
     CONFIG_DECODER,
     {CONFIG_NO_DECODER,
      {"decoder_sparse_step", "2", NULL},
      {"mlp_only_layers", "[1]", NULL},
      {"norm_topk_prob", "1", NULL}}},
    {"gemma3_text",
     CONFIG_DECODER,
     {{"query_pre_attn_scalar", "0", NULL},
      {"hidden_activation", "\"mish\"", NULL},
      {"use_bidirectional_attention", "true", NULL},
      {"sliding_window_pattern", "0", NULL},
      {"rope_local_base_freq", "\"a\"", NULL},
      {"rope_parameters",
       "{\"full_attention\": {\"rope_theta\": 1e6}, \"sliding_attention\": {\"partial_rotary_factor\": 0.5}}",
       "partial_rotary_factor"},
      {"rope_parameters", "{\"full_attention\": {}, \"sliding_attention\": {}, \"factor\": 8}", "'factor' beside"}}},
    {"olmo2", CONFIG_DECODER, {CONFIG_NO_DECODER, {"attention_bias", "2", NULL}}},
    {"smollm3",
     CONFIG_DECODER,
     {CONFIG_NO_DECODER,
      {"no_rope_layer_interval", "0", NULL},
      {"no_rope_layers", "[1]", NULL},
      {"no_rope_layers", "[1, \"a\"]", NULL}}},
    {"phi3",
     CONFIG_DECODER,
     {CONFIG_NO_DECODER,
      {"partial_rotary_factor", "0.01", "RoPE turns"},
      {"rope_scaling", "{\"type\": \"longrope\", \"short_factor\": [1, 1, 1, 1]}", "long_factor"}}},
    {"starcoder2",
     CONFIG_DECODER_EPS("norm_epsilon"),
     {CONFIG_NO_DECODER, {"norm_type", "\"rms_norm\"", NULL}, {"mlp_type", "\"gated\"", NULL}}},
    {"gpt_neox",
     CONFIG_DECODER_EPS("layer_norm_eps"),
     {CONFIG_NO_DECODER, {"rotary_pct", "2", NULL}, {"use_parallel_residual", "1", NULL}}},
    {"falcon",
     CONFIG_SIZES ", \"layer_norm_epsilon\": 1e-5",
     {{"alibi", "true", NULL},
      {"apply_residual_connection_post_layernorm", "true", NULL},
      {"activation", "\"mish\"", NULL},
      {"num_ln_in_parallel_attn", "2", NULL}}},
    {"bert", CONFIG_ENCODER, {CONFIG_NO_ENCODER, {"type_vocab_size", "0", NULL}}},
    {"roberta", CONFIG_ENCODER, {CONFIG_NO_ENCODER, {"pad_token_id", "39", "max_position_embeddings"}}},
    {"xlm-roberta", CONFIG_ENCODER, {CONFIG_NO_ENCODER, {"pad_token_id", "-1", NULL}}},
    {"camembert", CONFIG_ENCODER, {CONFIG_NO_ENCODER}},
    {"albert", CONFIG_ENCODER, {CONFIG_NO_ENCODER, {"inner_group_num", "2", NULL}, {"net_structure_type", "1", NULL}}},
    {"mpnet", CONFIG_ENCODER, {CONFIG_NO_ENCODER, {"relative_attention_num_buckets", "16", NULL}}},
    {"distilbert",
     "\"vocab_size\": 64, \"dim\": 32, \"hidden_dim\": 48, \"n_layers\": 2, \"n_heads\": 4, "
     "\"max_position_embeddings\": 40",
     {{"activation", "\"mish\"", NULL}, {"n_heads", "5", NULL}, {"tie_weights_", "false", NULL}}},
    {"bart",
     CONFIG_SEQ2SEQ,
     {{"add_final_layer_norm", "true", NULL},
      {"normalize_before", "true", NULL},
      {"normalize_embedding", "false", NULL},
      {"static_position_embeddings", "true", NULL},
      {"extra_pos_embeddings", "0", NULL},
      {"tie_word_embeddings", "false", NULL},
      {"is_encoder_decoder", "false", NULL}}},
    {"marian",
     CONFIG_SEQ2SEQ,
     {{"share_encoder_decoder_embeddings", "1", NULL},
      {"normalize_embedding", "true", NULL},
      {"static_position_embeddings", "0", NULL},
      {"decoder_vocab_size", "65", NULL},
      {"activation_function", "\"mish\"", NULL}}},
    {"t5",
     CONFIG_SEQ2SEQ,
     {{"feed_forward_proj", "\"gated-silu\"", NULL},
      {"dense_act_fn", "\"gelu\"", NULL},
      {"is_gated_act", "true", NULL},
      {"relative_attention_num_buckets", "2", NULL},
      {"is_encoder_decoder", "false", NULL}}},
    {"whisper",
     CONFIG_SEQ2SEQ ", \"encoder_attention_heads\": 4, \"decoder_attention_heads\": 4",
     {{"num_mel_bins", "0", NULL},
      {"encoder_attention_heads", "5", NULL},
      {"max_source_positions", "0", NULL},
      {"activation_function", "\"mish\"", NULL},
      {"is_encoder_decoder", "false", NULL}}},
    {"encoder-decoder",
     "\"decoder_start_token_id\": 1, \"encoder\": " CONFIG_PAIR_ENCODER
     ", \"layer_norm_eps\": 1e-5}, \"decoder\": " CONFIG_PAIR_DECODER ", \"d_model\": 32}",
     {{"encoder", CONFIG_PAIR_ENCODER "}", "'layer_norm_eps' is 1e-12, and the decoder's is 1e-05"},
      {"encoder", "{\"model_type\": \"bert\"}", "'model_type' is bert"},
      {"encoder", CONFIG_PAIR_ENCODER ", \"layer_norm_eps\": 1e-5, \"invented\": 1}", "'invented'"},
      {"decoder", "{\"model_type\": \"gpt2\"}", "'model_type' is gpt2"},
      {"decoder", CONFIG_PAIR_DECODER ", \"d_model\": 36}", "'d_model'"},
      {"decoder", CONFIG_PAIR_DECODER ", \"d_model\": 32, \"scale_embedding\": true}", "'scale_embedding'"},
      {"decoder", "[]", "'decoder' must be an object"},
      {"is_encoder_decoder", "false", NULL}}},
    {"vit",
     "\"hidden_size\": 32, \"num_attention_heads\": 4, \"patch_size\": 16",
     {{"num_channels", "1", NULL},
      {"image_size", "8", "'image_size' 8 is less than 'patch_size' 16"},
      {"image_size", "[32, 0]", NULL},
      {"patch_size", "\"16\"", NULL},
      {"hidden_act", "\"mish\"", NULL},
      {"pooler_act", "\"relu\"", NULL},
      {"num_attention_heads", "5", NULL},
      {"qkv_bias", "2", NULL}}},
    {"clip",
     "\"projection_dim\": 8",
     {{"projection_dim", "0", NULL},
      {"text_config", "[1]", NULL},
      {"text_config", "{\"hidden_act\": \"mish\"}", "'hidden_act'"},
      {"text_config", "{\"invented\": 1}", "'invented'"},
      {"text_config_dict", "{\"is_decoder\": true}", "'is_decoder'"},
      {"vision_config", "{\"image_size\": 1}", "'image_size' 1 is less"},
      {"vision_config", "{\"invented\": 1}", "'vision_config': Portico does not know 'invented'"},
      {"vision_config_dict", "{\"num_channels\": 4}", "'num_channels'"}}},
    {"clip_text_model", "\"projection_dim\": 8", {{"projection_dim", "0", NULL}, {"hidden_act", "\"mish\"", NULL}}},
    {"clip_vision_model", "\"projection_dim\": 8", {{"projection_dim", "0", NULL}, {"image_size", "1", NULL}}},
};
enum { CONFIG_FAMILIES = sizeof families / sizeof *families };

/* The family's config with `key` as given, in the place of what it has there. */
static pco_status config_read(const config_family *c, const char *key, const char *value, pco_model_spec *spec,
                              pco_error *e)
{
    char text[2000];
    cJSON *root;
    const pco_family *family;
    snprintf(text, sizeof text, "{\"model_type\": \"%s\", %s}", c->type, c->keys);
    check_ok(pco_json_parse(text, strlen(text), "config.json", &root, &err));
    cJSON_DeleteItemFromObjectCaseSensitive(root, key);
    cJSON_AddItemToObject(root, key, cJSON_Parse(value));
    pco_status status = pco_family_of_config(root, "config.json", &family, spec, e);
    if (!status) assert_string_equal(family->model_type, c->type);
    if (!status && family->images) {
        *spec = *family->images;
        status = pco_hub_read_images(family->hub, root, "config.json", spec, e);
    }
    cJSON_Delete(root);
    return status;
}

static const config_family *config_of(const char *type)
{
    int i = 0;
    while (i + 1 < CONFIG_FAMILIES && strcmp(families[i].type, type) != 0) i++;
    assert_string_equal(families[i].type, type);
    return &families[i];
}

/* What published files say beyond the keys that the first ones have, and what follows where they do not. */
static void test_published(void **state)
{
    (void)state;
    static const struct {
        const char *type, *key, *value;
    } same[] = {{"phi3", "attention_bias", "false"},
                {"phi3", "mlp_bias", "false"},
                {"phi3", "lm_head_bias", "false"},
                {"phi3", "full_attn_mod", "1"},
                {"phi3", "interpolate_factor", "1"},
                {"starcoder2", "attention_softmax_in_fp32", "true"},
                {"starcoder2", "scale_attn_weights", "true"},
                {"starcoder2", "layer_norm_epsilon", "1e-5"},
                {"starcoder2", "mlp_type", "\"default\""},
                {"smollm3", "pretraining_tp", "2"},
                {"smollm3", "max_window_layers", "28"},
                {"gemma3_text", "cache_implementation", "\"hybrid\""},
                {"gemma3_text", "final_logit_softcapping", "null"},
                {"qwen3_moe", "mlp_only_layers", "[]"},
                {"qwen3_moe", "router_aux_loss_coef", "0.001"},
                {"falcon", "num_kv_heads", "71"},
                {"falcon", "ff_factor", "4"},
                {"bart", "extra_pos_embeddings", "2"},
                {"marian", "static_position_embeddings", "true"},
                {"distilbert", "sinusoidal_pos_embds", "true"},
                {"whisper", "scale_embedding", "true"},
                {"albert", "down_scale_factor", "1"},
                {"vit", "encoder_stride", "16"},
                {"vit", "image_size", "[32, 48]"},
                {"clip", "text_config_dict", "null"},
                {"clip", "logit_scale_init_value", "2.6592"},
                {"clip", "text_config", CONFIG_CLIP_PART ", \"max_position_embeddings\": 77, \"vocab_size\": 49408}"},
                {"clip", "vision_config", CONFIG_CLIP_PART ", \"patch_size\": 32, \"image_size\": 224}"}};
    pco_model_spec spec;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        check_ok(config_read(config_of(same[i].type), same[i].key, same[i].value, &spec, &err));
    check_ok(config_read(config_of("mistral"), "use_cache", "true", &spec, &err));
    assert_int_equal(spec.sliding_window, 4096);
    check_ok(config_read(config_of("mistral"), "sliding_window", "null", &spec, &err));
    assert_int_equal(spec.sliding_window, 0);
    check_ok(config_read(config_of("gemma2"), "use_cache", "true", &spec, &err));
    assert_true(spec.attention_softcap == 50 && spec.logits_softcap == 30);
    check_ok(config_read(config_of("gemma2"), "attn_logit_softcapping", "null", &spec, &err));
    assert_true(spec.attention_softcap == 0 && spec.logits_softcap == 30);
    check_ok(config_read(config_of("gemma3_text"), "rope_parameters",
                         "{\"full_attention\": {\"partial_rotary_factor\": 0.5, \"rope_theta\": 5e5}, "
                         "\"sliding_attention\": {\"partial_rotary_factor\": 0.5, \"rope_theta\": 7e3}}",
                         &spec, &err));
    assert_int_equal(spec.rope_dimensions, 128); /* half of 256, which is usual */
    assert_true(spec.rope_theta == 5e5 && spec.rope_theta_windowed == 7e3);
    check_ok(config_read(config_of("gpt_neox"), "use_cache", "true", &spec, &err));
    assert_int_equal(spec.rope_dimensions, 2); /* a quarter of 8 */
}

static void test_invented(void **state)
{
    (void)state;
    pco_model_spec spec;
    static const char *const values[] = {"1", "true", "\"a\"", "[1]", "{\"a\": 1}"};
    for (int i = 0; i < CONFIG_FAMILIES; i++)
        for (int v = 0; v < 5; v++)
            check_fails(config_read(&families[i], "invented_key", values[v], &spec, &err), PCO_ERROR_UNSUPPORTED,
                        "'invented_key'");
}

static void test_harmless(void **state)
{
    (void)state;
    pco_model_spec spec;
    static const char *const keys[][2] = {{"transformers_version", "\"9.9\""},
                                          {"architectures", "[\"Any\"]"},
                                          {"torch_dtype", "\"float16\""},
                                          {"temperature", "0.7"},
                                          {"id2label", "{\"0\": \"a\"}"},
                                          {"_name_or_path", "\"a/b\""},
                                          {"invented_key", "null"},
                                          {"pruned_heads", "{}"},
                                          {"use_cache", "false"}};
    for (int i = 0; i < CONFIG_FAMILIES; i++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            check_ok(config_read(&families[i], keys[k][0], keys[k][1], &spec, &err));
}

static void test_wrong(void **state)
{
    (void)state;
    pco_model_spec spec;
    for (int i = 0; i < CONFIG_FAMILIES; i++)
        for (int k = 0; k < CONFIG_CASES && families[i].wrong[k].key; k++) {
            const char *key = families[i].wrong[k].key, *says = families[i].wrong[k].says;
            pco_error err = {""};
            const pco_status status = config_read(&families[i], key, families[i].wrong[k].value, &spec, &err);
            if ((status != PCO_ERROR_UNSUPPORTED && status != PCO_ERROR_FORMAT) ||
                !strstr(err.message, says ? says : key) || strchr(err.message, '\n'))
                fail_msg("%s, %s = %s: status %d, '%s'", families[i].type, key, families[i].wrong[k].value, (int)status,
                         err.message);
        }
    for (int i = 0; i < CONFIG_FAMILIES; i++)
        check_fails(config_read(&families[i], "pruned_heads", "{\"0\": [1]}", &spec, &err), PCO_ERROR_UNSUPPORTED,
                    "'pruned_heads'");
}

/* A model of several media: the config of its text, which says what is not usual. */
static void test_part(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        pco_status status;
        const char *says;
    } cases[] = {
        {"{\"text_config\": {\"hidden_size\": 2560, \"model_type\": \"gemma3_text\", \"num_hidden_layers\": 34}, "
         "\"vision_config\": {\"hidden_size\": 1152}, \"mm_tokens_per_image\": 256, \"boi_token_index\": 255999}",
         PCO_OK, NULL},
        {"{\"text_config\": {}}", PCO_OK, NULL},
        {"{\"text_config\": {}, \"tie_word_embeddings\": false}", PCO_OK, NULL},
        {"{\"text_config\": {\"invented_key\": 1}}", PCO_ERROR_UNSUPPORTED,
         "'text_config': Portico does not know 'invented_key'"},
        {"{\"text_config\": {\"model_type\": \"bert\"}}", PCO_ERROR_UNSUPPORTED, "'model_type' is bert"},
        {"{\"text_config\": {\"model_type\": \"other\"}}", PCO_ERROR_UNSUPPORTED, "'model_type' is other"},
        {"{\"text_config\": {}, \"quantization_config\": {\"bits\": 4}}", PCO_ERROR_UNSUPPORTED,
         "'quantization_config'"},
        {"{\"text_config\": {\"quantization_config\": {}}}", PCO_ERROR_UNSUPPORTED, "'quantization_config'"},
        {"{\"text_config\": {}, \"invented_key\": 1}", PCO_ERROR_UNSUPPORTED,
         "config.json: Portico does not know 'invented_key'"},
        {"{\"text_config\": {}, \"tie_word_embeddings\": 3}", PCO_ERROR_FORMAT, "'tie_word_embeddings'"},
        {"{\"text_config\": {\"num_attention_heads\": 0}}", PCO_ERROR_FORMAT, "'num_attention_heads'"},
        {"{\"text_config\": 3}", PCO_ERROR_UNSUPPORTED, "'gemma3'"},
        {"{}", PCO_ERROR_UNSUPPORTED, "'gemma3'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pco_model_spec spec;
        const pco_family *family;
        cJSON *root;
        check_ok(pco_json_parse(cases[i].text, strlen(cases[i].text), "config.json", &root, &err));
        cJSON_AddStringToObject(root, "model_type", "gemma3");
        if (cases[i].says) {
            check_fails(pco_family_of_config(root, "config.json", &family, &spec, &err), cases[i].status,
                        cases[i].says);
        } else {
            check_ok(pco_family_of_config(root, "config.json", &family, &spec, &err));
            assert_string_equal(family->name, "gemma3");
            assert_int_equal(spec.d_model, i ? 2304 : 2560);
            assert_int_equal(spec.layers[PCO_DECODER], i ? 26 : 34);
            assert_int_equal(spec.kv_heads[PCO_DECODER], 4);
            assert_int_equal(spec.vocab_size[0], 262208);
            assert_int_equal(spec.tie_word_embeddings, i < 2);
        }
        cJSON_Delete(root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_published), cmocka_unit_test(test_invented),
                                       cmocka_unit_test(test_harmless), cmocka_unit_test(test_wrong),
                                       cmocka_unit_test(test_part)};
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
