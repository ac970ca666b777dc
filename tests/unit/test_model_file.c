/* Model files from strangers: every number that divides, sizes or indexes is refused by its name where it is wrong, and
 * what is no file is refused and not waited for. */
#define CHECK_FOLDER
#include "check.h"
#include "model_builder.h"

#include "base/file.h"
#include "models/model.h"
#include "portico/portico.h"

#include <math.h>
#include <sys/stat.h>
#include <sys/time.h>

static void in_folder(char path[512], const char *name) { snprintf(path, 512, "%s/%s", check_folder, name); }

static void write_llama(const built_change *change, char path[512])
{
    static built file;
    build_llama(&file, change);
    in_folder(path, "model.gguf");
    check_ok(pco_file_write(path, file.data, file.size, &err));
}

static void write_transformer(const char *config, char path[512])
{
    char name[600];
    size_t size;
    void *weights = build_transformer_weights(&size);
    assert_non_null(weights);
    in_folder(path, "model");
    check_ok(pco_folder_make(path, &err));
    snprintf(name, sizeof name, "%s/config.json", path);
    check_ok(pco_file_write(name, config, strlen(config), &err));
    snprintf(name, sizeof name, "%s/model.safetensors", path);
    check_ok(pco_file_write(name, weights, size, &err));
    free(weights);
}

static void test_good(void **state)
{
    (void)state;
    char path[512];
    pco_model_info info = {.size = sizeof info};
    write_llama(NULL, path);
    check_ok(pco_model_inspect(path, 0, &info, &err));
    write_llama(&(built_change){.factors = 1, .value = 8}, path);
    check_ok(pco_model_inspect(path, 0, &info, &err));
    write_transformer(BUILT_CONFIG(""), path);
    check_ok(pco_model_inspect(path, 0, &info, &err));
}

static void test_llama_numbers(void **state)
{
    (void)state;
    static const double wrong[] = {0, 1, 3, 5, 4294967295.0, 2147483648.0, -1, -0.0, INFINITY, NAN, 1e38, 1e-40};
    char path[512];
    pco_model_info info = {.size = sizeof info};
    for (int i = 0; i < 2 * BUILT_KEYS; i++)
        for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
            const int k = i / 2, least = i % 2;
            if (built_llama_keys[k].whole && !(wrong[w] >= 0 && wrong[w] < 4294967296.0)) continue;
            if (least && built_llama_keys[k].optional) continue;
            write_llama(&(built_change){.key = built_llama_keys[k].key, .value = wrong[w], .least = least}, path);
            pco_error err = {""};
            const pco_status status = pco_model_inspect(path, 0, &info, &err);
            /* whatever is wrong as a number is told by its key; 1, 3 and 5 may be right, or not fit other keys */
            const int impossible = !(wrong[w] > 0) || wrong[w] > (built_llama_keys[k].whole ? 4e9 : 1e30);
            const int open = wrong[w] == 0 && strcmp(built_llama_keys[k].key, "llama.rope.scaling.factor") == 0;
            if (impossible && !open && (status != PCO_ERROR_FORMAT || !strstr(err.message, built_llama_keys[k].key)))
                fail_msg("%s = %g: status %d, '%s'", built_llama_keys[k].key, wrong[w], (int)status, err.message);
        }
}

static void test_rope_factors(void **state)
{
    (void)state;
    static const float wrong[] = {0, -0.0f, NAN, INFINITY, -INFINITY, -1, 1e-30f, 1e30f};
    char path[512];
    pco_model_info info = {.size = sizeof info};
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        write_llama(&(built_change){.factors = 1, .value = (double)wrong[w]}, path);
        check_fails(pco_model_inspect(path, 0, &info, &err), PCO_ERROR_FORMAT, "element 1 of 'rope_freqs.weight'");
    }
}

/* Keys that change what a model computes: what is not computed is refused, what changes nothing is not. */
static void test_unknown_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double other, same;
    } keys[] = {{"attention.clamp_kqv", 8, 0},
                {"attention.max_alibi_bias", 8, 0},
                {"attention.output_scale", 2, 1},
                {"attention.scale", 0.1, 0.5}, /* heads of 4 */
                {"attention.temperature_scale", 0.1, 0},
                {"attn_logit_softcapping", 20, 0},
                {"embedding_scale", 12, 1},
                {"final_logit_softcapping", 20, 0},
                {"logit_scale", 0.25, 1},
                {"residual_scale", 0.2, 1},
                {"rope.freq_base_swa", 1e6, 10000},
                /* what llama.cpp writes into each file that it saves */
                {"attn_logit_softcapping", 49, 50},
                {"final_logit_softcapping", 31, 30}};
    char path[512], key[128];
    pco_model_info info = {.size = sizeof info};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const double refused[] = {keys[i].other, NAN, INFINITY, -keys[i].other};
        built_change change = {.added = key, .type = PCO_GGUF_F32, .value = keys[i].same};
        snprintf(key, sizeof key, "llama.%s", keys[i].name);
        write_llama(&change, path);
        check_ok(pco_model_inspect(path, 0, &info, &err));
        for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
            change.value = refused[k];
            write_llama(&change, path);
            check_fails(pco_model_inspect(path, 0, &info, &err), PCO_ERROR_UNSUPPORTED, key);
        }
        change.type = PCO_GGUF_U32;
        write_llama(&change, path);
        check_fails(pco_model_inspect(path, 0, &info, &err), PCO_ERROR_FORMAT, key);
    }
}

static void test_unknown_kinds(void **state)
{
    (void)state;
    static const struct {
        built_change change;
        const char *says; /* NULL: it runs */
    } kinds[] = {
        {{.added = "llama.attention.causal", .type = PCO_GGUF_BOOL, .value = 1}, NULL},
        {{.added = "llama.attention.causal", .type = PCO_GGUF_BOOL}, "'llama.attention.causal' is false"},
        {{.added = "llama.attention.sliding_window", .type = PCO_GGUF_U32, .value = 16}, NULL},
        {{.added = "llama.attention.sliding_window", .type = PCO_GGUF_U32}, NULL},
        {{.added = "llama.attention.sliding_window", .type = PCO_GGUF_U32, .value = 15}, "sliding_window' is 15"},
        {{.added = "general.type", .type = PCO_GGUF_STRING, .text = "model"}, NULL},
        {{.added = "general.type", .type = PCO_GGUF_STRING, .text = "adapter"}, "'general.type' is 'adapter'"},
        {{.added = "llama.expert_count", .type = PCO_GGUF_U32, .value = 2000}, "a mixture of 2000 experts"},
        {{.added = "llama.expert_count", .type = PCO_GGUF_U32}, NULL},
        {{.scaling = "yarn"}, NULL},
        {{.scaling = "yarn", .added = "llama.rope.scaling.yarn_ext_factor", .type = PCO_GGUF_F32, .value = 0.5},
         "'llama.rope.scaling.yarn_ext_factor' is 0.5"},
        {{.scaling = "yarn", .added = "llama.rope.scaling.yarn_beta_fast", .type = PCO_GGUF_F32, .value = 16},
         "'llama.rope.scaling.yarn_beta_fast' is 16"},
        {{.added = "llama.rope.scaling.yarn_beta_fast", .type = PCO_GGUF_F32, .value = 16}, NULL},
        {{.added = "llama.rope.scaling.attn_factor", .type = PCO_GGUF_F32, .value = 1.5}, NULL},
        {{.scaling = "dynamic"}, "llama.rope.scaling.type is 'dynamic'"},
        {{.tensor = "blk.0.attn_k.bias"}, "a tensor 'blk.0.attn_k.bias'"},
        {{.tensor = "blk.1.attn_norm.weight"}, "a tensor 'blk.1.attn_norm.weight'"},
        {{.tensor = "rope_factors_long.weight"}, "a tensor 'rope_factors_long.weight'"},
    };
    char path[512];
    pco_model_info info = {.size = sizeof info};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        write_llama(&kinds[i].change, path);
        if (kinds[i].says)
            check_fails(pco_model_inspect(path, 0, &info, &err), PCO_ERROR_UNSUPPORTED, kinds[i].says);
        else
            check_ok(pco_model_inspect(path, 0, &info, &err));
    }
}

/* Which key says by what positions are divided. The good model has a rope.scaling.factor of 2. */
static void test_rope_scale(void **state)
{
    (void)state;
    static const struct {
        built_change change;
        double scale;
    } files[] = {
        {{.least = 0}, 2},
        {{.scaling = ""}, 2},
        {{.key = "llama.rope.scaling.factor", .value = 0}, 1}, /* left open */
        {{.scaling = "none"}, 0},
        {{.added = "llama.rope.scale_linear", .value = 8, .type = PCO_GGUF_F32}, 2},
        {{.added = "llama.rope.scale_linear", .value = 8, .type = PCO_GGUF_F32, .scaling = "none"}, 0},
    };
    char path[512];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        pco_model_file *file;
        write_llama(&files[i].change, path);
        check_ok(pco_model_file_open(path, &file, &err));
        if (file->spec.rope_scale != files[i].scale)
            fail_msg("file %zu: positions are divided by %g, not %g", i, file->spec.rope_scale, files[i].scale);
        pco_model_file_close(file);
    }
}

/* YaRN of the good file's factor 2: half a turn within the original context of 16 positions stays, and a slow wave
 * turns half as far. Its amplitude is 0.1 ln(2) + 1. */
static void test_yarn(void **state)
{
    (void)state;
    static const struct {
        built_change change;
        double amplitude, last_factor;
    } files[] = {
        {{.scaling = "yarn"}, 1.0693147180559945, 2},
        {{.scaling = "yarn", .factors = 1, .value = 8}, 1.0693147180559945, 16},
        {{.scaling = "yarn", .added = "llama.rope.scaling.attn_factor", .type = PCO_GGUF_F32, .value = 0.5},
         0.53465735902799727,
         2},
    };
    char path[512];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        pco_model_file *file;
        write_llama(&files[i].change, path);
        check_ok(pco_model_file_open(path, &file, &err));
        const double amplitude = file->spec.rope_amplitude, factor = file->spec.rope_factors[1];
        if (fabs(amplitude - files[i].amplitude) > 1e-12 || factor != files[i].last_factor ||
            file->spec.rope_factor_count != 2)
            fail_msg("file %zu: amplitude %.17g, factor %g", i, amplitude, factor);
        pco_model_file_close(file);
    }
}

/* What Gemma 2 has beyond a Llama, in 8 layers: `key` is added where it is not NULL, as an array where there are
 * `flags`, a 0 or a 1 each. */
static pco_status read_gemma2_array(const char *key, uint32_t type, double value, const char *flags,
                                    pco_model_spec *spec, pco_error *e)
{
    static built file;
    static const char *const sizes[] = {"embedding_length", "block_count", "feed_forward_length",
                                        "attention.head_count", "context_length"};
    char name[128];
    const pco_family *family;
    pco_gguf *gguf;
    put_header(&file, 3, 1, 7 + (key != NULL));
    put_key_text(&file, "general.architecture", "gemma2");
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "gemma2.%s", sizes[i]);
        put_key_u32(&file, name, i ? 8 : 16);
    }
    put_key(&file, "gemma2.attention.layer_norm_rms_epsilon", PCO_GGUF_F32);
    put_f32(&file, 1e-6f);
    if (key && flags) {
        put_key_array(&file, key, type, strlen(flags));
        for (; *flags; flags++) {
            const unsigned char byte = *flags == '1';
            if (type == PCO_GGUF_BOOL)
                put(&file, &byte, 1);
            else
                put_u32(&file, byte);
        }
    } else if (key) {
        put_key(&file, key, type);
        if (type == PCO_GGUF_U32)
            put_u32(&file, (uint32_t)value);
        else
            put_f32(&file, (float)value);
    }
    put_tensor(&file, "token_embd.weight", 2, (uint64_t[]){16, 4}, 0, 0);
    put_padding(&file, 32);
    for (int i = 0; i < 64; i++) put_f32(&file, 1);
    check_ok(pco_gguf_parse(file.data, file.size, "gemma2", 0, &gguf, &err));
    const pco_status status = pco_family_of_gguf(gguf, &family, spec, e);
    pco_gguf_close(gguf);
    return status;
}

static pco_status read_gemma2(const char *key, uint32_t type, double value, pco_model_spec *spec, pco_error *e)
{
    return read_gemma2_array(key, type, value, NULL, spec, e);
}

static void test_gemma2_numbers(void **state)
{
    (void)state;
    static const char pattern[] = "gemma2.attention.sliding_window_pattern", cap[] = "gemma2.attn_logit_softcapping";
    pco_model_spec spec;
    check_ok(read_gemma2(NULL, 0, 0, &spec, &err));
    assert_true(spec.attention_softcap == 50 && spec.logits_softcap == 30 && spec.sliding_window == 4096);
    check_ok(read_gemma2("gemma2.attention.sliding_window", PCO_GGUF_U32, 512, &spec, &err));
    assert_int_equal(spec.sliding_window, 512);
    check_ok(read_gemma2(cap, PCO_GGUF_F32, 20, &spec, &err));
    assert_true(spec.attention_softcap == 20 && spec.logits_softcap == 30);
    check_fails(read_gemma2(cap, PCO_GGUF_F32, -1, &spec, &err), PCO_ERROR_FORMAT, cap);
    check_ok(read_gemma2(pattern, PCO_GGUF_U32, 3, &spec, &err));
    assert_int_equal(spec.full_interval, 3);
    check_fails(read_gemma2(pattern, PCO_GGUF_U32, 0, &spec, &err), PCO_ERROR_FORMAT, pattern);
}

/* A flag for each of eight layers, 1 where there is a window, as bools or as whole numbers. */
static void test_window_flags(void **state)
{
    (void)state;
    static const char pattern[] = "gemma2.attention.sliding_window_pattern";
    static const struct {
        const char *flags;
        int64_t first, interval;
        const char *says;
    } lists[] = {
        {"10101010", 0, 2, NULL},
        {"1110111000", 0, 4, NULL}, /* more than layers */
        {"11111111", 0, 0, NULL},
        {"00000000", 8, 0, NULL},
        {"00111111", 2, 0, NULL},
        {"10101011", 0, 0, "layer 7"},
        {"1010101", 0, 0, "7 elements for 8 layers"},
    };
    pco_model_spec spec;
    for (size_t i = 0; i < 2 * (sizeof lists / sizeof *lists); i++) {
        const char *flags = lists[i / 2].flags;
        pco_error err = {""};
        const pco_status status =
            read_gemma2_array(pattern, i % 2 ? PCO_GGUF_BOOL : PCO_GGUF_U32, 0, flags, &spec, &err);
        if (lists[i / 2].says
                ? !status || !strstr(err.message, lists[i / 2].says)
                : status || spec.full_first != lists[i / 2].first || spec.full_interval != lists[i / 2].interval)
            fail_msg("%s: status %d, '%s', %d first, one in %d", flags, (int)status, err.message, (int)spec.full_first,
                     (int)spec.full_interval);
    }
}

/* A mixture of four experts: how wide each is, how scores become weights, how many a token takes. */
static pco_status read_experts(uint32_t hidden, uint32_t gating, uint32_t used, pco_model_spec *spec, pco_error *e)
{
    static const char *const names[] = {"embedding_length",  "block_count",          "feed_forward_length",
                                        "context_length",    "attention.head_count", "expert_count",
                                        "expert_used_count", "expert_gating_func",   "expert_feed_forward_length"};
    const uint32_t values[] = {16, 2, 8, 32, 2, 4, used, gating, hidden};
    static built file;
    char name[128];
    const pco_family *family;
    pco_gguf *gguf;
    put_header(&file, 3, 1, 11);
    put_key_text(&file, "general.architecture", "qwen3moe");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "qwen3moe.%s", names[i]);
        put_key_u32(&file, name, values[i]);
    }
    put_key(&file, "qwen3moe.attention.layer_norm_rms_epsilon", PCO_GGUF_F32);
    put_f32(&file, 1e-6f);
    put_tensor(&file, "token_embd.weight", 2, (uint64_t[]){16, 4}, 0, 0);
    put_padding(&file, 32);
    for (int i = 0; i < 64; i++) put_f32(&file, 1);
    check_ok(pco_gguf_parse(file.data, file.size, "qwen3moe", 0, &gguf, &err));
    const pco_status status = pco_family_of_gguf(gguf, &family, spec, e);
    pco_gguf_close(gguf);
    return status;
}

/* 0 leaves open what follows from elsewhere: the width of a block without experts, a softmax. */
static void test_expert_numbers(void **state)
{
    (void)state;
    pco_model_spec spec;
    check_ok(read_experts(24, 1, 2, &spec, &err));
    assert_true(spec.experts == 4 && spec.experts_used == 2 && spec.ffn_dim[PCO_DECODER] == 24);
    check_ok(read_experts(24, 0, 2, &spec, &err));
    assert_int_equal(spec.ffn_dim[PCO_DECODER], 24);
    check_ok(read_experts(0, 1, 2, &spec, &err));
    assert_int_equal(spec.ffn_dim[PCO_DECODER], 8);
    check_fails(read_experts(24, 2, 2, &spec, &err), PCO_ERROR_UNSUPPORTED, "'qwen3moe.expert_gating_func' is 2");
    check_fails(read_experts(24, 1, 0, &spec, &err), PCO_ERROR_FORMAT, "'qwen3moe.expert_used_count' is 0");
    check_fails(read_experts(24, 1, 5, &spec, &err), PCO_ERROR_FORMAT, "'qwen3moe.expert_used_count' is 5");
}

static void test_transformer_numbers(void **state)
{
    (void)state;
    static const char *const keys[] = {"encoder_attention_heads",
                                       "encoder_layers",
                                       "encoder_ffn_dim",
                                       "rope_theta",
                                       "position_offset",
                                       "norm_eps",
                                       "dropout",
                                       "pad_token_id",
                                       "bos_token_id",
                                       "eos_token_id",
                                       "decoder_start_token_id",
                                       "encoder_vocab_size"};
    static const char *const values[] = {"-7", "1e300", "4294967296", "\"x\"", "0.5e-400", "2147483647"};
    char path[512], config[2000];
    pco_model_info info = {.size = sizeof info};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            snprintf(config, sizeof config, BUILT_CONFIG(", \"%s\": %s"), keys[k], values[v]);
            write_transformer(config, path);
            pco_error err = {""};
            const pco_status status = pco_model_inspect(path, 0, &info, &err);
            if (v < (strcmp(keys[k], "rope_theta") == 0 ? 2 : 4) &&
                (status != PCO_ERROR_FORMAT || !strstr(err.message, keys[k])))
                fail_msg("%s = %s: status %d, '%s'", keys[k], values[v], (int)status, err.message);
        }
    /* ids of tokens that the tables do not have, also where there is no tokenizer to see it */
    static const char *const none = "{\"model_type\": \"transformer\", \"is_encoder_decoder\": false, \"d_model\": 8, "
                                    "\"decoder_layers\": 1, \"decoder_attention_heads\": 2, \"decoder_ffn_dim\": 16, "
                                    "\"vocab_size\": 5, \"decoder_start_token_id\": 5}";
    write_transformer(none, path);
    check_fails(pco_model_inspect(path, 0, &info, &err), PCO_ERROR_FORMAT, "decoder_start_token_id is 5");
    static const char *const zero = "{\"model_type\": \"transformer\", \"%s\": 0}";
    static const char *const sizes[] = {"d_model",         "encoder_attention_heads", "decoder_attention_heads",
                                        "encoder_ffn_dim", "decoder_ffn_dim",         "max_position_embeddings"};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        snprintf(config, sizeof config, zero, sizes[k]);
        write_transformer(config, path);
        check_fails(pco_model_inspect(path, 0, &info, &err), PCO_ERROR_FORMAT, sizes[k]);
    }
}

/* Files whose numbers and tensors are each in order and fit no model together are refused where they are opened: by
 * what trains, converts and runs alike. */
static void test_no_graph(void **state)
{
    (void)state;
    static const struct {
        const char *key, *says;
        double value;
    } built_wrong[] = {{"llama.attention.head_count_kv", "no model: ", 2},
                       {"llama.feed_forward_length", "no model: ", 32},
                       {"llama.block_count", "has no tensor 'blk.1.attn_norm.weight'", 2}};
    static const char *const configs[] = {BUILT_CONFIG(", \"decoder_ffn_dim\": 32"),
                                          BUILT_CONFIG(", \"tie_word_embeddings\": false"),
                                          BUILT_CONFIG(", \"is_encoder_decoder\": true")};
    pco_model_file *file;
    pco_error err = {""};
    char path[512];
    for (size_t i = 0; i < sizeof built_wrong / sizeof *built_wrong; i++) {
        write_llama(&(built_change){.key = built_wrong[i].key, .value = built_wrong[i].value}, path);
        if (!pco_model_file_open(path, &file, &err)) fail_msg("%s is opened", built_wrong[i].key);
        if (file || !strstr(err.message, path) || !strstr(err.message, built_wrong[i].says))
            fail_msg("%s: '%s'", built_wrong[i].key, err.message);
    }
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        write_transformer(configs[i], path);
        if (!pco_model_file_open(path, &file, &err)) fail_msg("%s is opened", configs[i]);
        if (file || !strstr(err.message, path)) fail_msg("%s: '%s'", configs[i], err.message);
    }
}

/* Whoever asks for no reason gets none, wherever it is found. */
static void test_no_error(void **state)
{
    (void)state;
    static const char llama[] = "{\"model_type\": \"llama\", \"vocab_size\": 8, \"hidden_size\": 8, "
                                "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"intermediate_size\": 16, "
                                "\"max_position_embeddings\": 16, \"rms_norm_eps\": 1e-5}";
    pco_model_file *file;
    char path[512], tokenizer[600];
    write_llama(&(built_change){.key = "llama.block_count", .value = 2}, path);
    assert_int_not_equal(pco_model_file_open(path, &file, NULL), PCO_OK);
    write_transformer(BUILT_CONFIG(", \"decoder_ffn_dim\": 32"), path);
    assert_int_not_equal(pco_model_file_open(path, &file, NULL), PCO_OK);
    write_transformer(llama, path);
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.json", path);
    check_ok(pco_file_write(tokenizer, "{", 1, &err));
    check_fails(pco_model_file_open(path, &file, &err), PCO_ERROR_FORMAT, "tokenizer.json");
    assert_int_equal(pco_model_file_open(path, &file, NULL), PCO_ERROR_FORMAT);
    assert_int_equal(unlink(tokenizer), 0);
}

/* A pipe with nobody at its other end would be waited for without end: the alarm ends the test then. */
static void test_no_files(void **state)
{
    (void)state;
    char path[512], inner[600];
    pco_model_info info = {.size = sizeof info};
    pco_map map;
    alarm(20);
    in_folder(path, "pipe.gguf");
    assert_int_equal(mkfifo(path, 0600), 0);
    check_fails(pco_model_inspect(path, 0, &info, &err), PCO_ERROR_IO, "not a regular file but a pipe");
    check_fails(pco_model_inspect("/dev/zero", 0, &info, &err), PCO_ERROR_IO, "not a regular file but a device");
    check_fails(pco_map_open(check_folder, &map, &err), PCO_ERROR_IO, "not a regular file but a folder");
    const char *const parts[] = {"config.json", "model.safetensors"};
    for (int i = 0; i < 2; i++) {
        write_transformer(BUILT_CONFIG(""), path);
        snprintf(inner, sizeof inner, "%s/%s", path, parts[i]);
        assert_int_equal(unlink(inner), 0);
        assert_int_equal(mkfifo(inner, 0600), 0);
        check_fails(pco_model_inspect(path, 0, &info, &err), PCO_ERROR_IO, parts[i]);
        assert_int_equal(unlink(inner), 0);
        assert_int_equal(mkdir(inner, 0700), 0);
        check_fails(pco_model_inspect(path, 0, &info, &err), PCO_ERROR_IO, "a folder");
        assert_int_equal(rmdir(inner), 0);
    }
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),           cmocka_unit_test(test_llama_numbers),
        cmocka_unit_test(test_rope_factors),   cmocka_unit_test(test_unknown_numbers),
        cmocka_unit_test(test_unknown_kinds),  cmocka_unit_test(test_rope_scale),
        cmocka_unit_test(test_gemma2_numbers), cmocka_unit_test(test_window_flags),
        cmocka_unit_test(test_yarn),           cmocka_unit_test(test_transformer_numbers),
        cmocka_unit_test(test_no_files),       cmocka_unit_test(test_no_graph),
        cmocka_unit_test(test_no_error),       cmocka_unit_test(test_expert_numbers)};
    return cmocka_run_group_tests_name("model_file", tests, check_make_folder, check_remove_folder);
}
