/* test_llama: a tiny random Llama, written as GGUF by the test, on the device that PORTICO_BACKEND picks,
 * against a reference in double: |y - want| <= 1e-5 (|want| + rms of the row). */
#include "models_test.h"

#include "models/causal.h"
#include "models/model.h"
#include "tiny_llama.h"

#include <portico/portico.h>
#include <unistd.h>

static const double llama_tolerance = 1e-5;

/* A model open on the device, from a file that is gone again. */
typedef struct llama_fixture {
    models_device device;
    pco_model_file *file;
    pco_causal *run;
    int32_t ids[TINY_CONTEXT];
} llama_fixture;

static void llama_path(char path[64])
{
    snprintf(path, 64, "/tmp/portico-llama-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
}

static void llama_open(const tiny_llama *model, int64_t context, llama_fixture *f)
{
    char path[64];
    llama_path(path);
    assert_true(tiny_llama_write(model, path));
    check_ok(pco_model_file_open(path, &f->file, &err));
    unlink(path);
    models_device_open(&f->device);
    check_ok(pco_causal_create(f->device.session, f->file->weights, &f->file->spec,
                               &(pco_causal_room){.context = context, .lanes = 1}, &f->run, &err));
    for (int i = 0; i < TINY_CONTEXT; i++)
        f->ids[i] = (int32_t)(pco_philox4x32_10((pco_philox){{(uint32_t)i, 0, 0, 0}}, 5).word[0] % TINY_VOCAB);
}

static void llama_close(llama_fixture *f)
{
    pco_causal_destroy(f->run);
    models_device_close(&f->device);
    pco_model_file_close(f->file);
}

/* Every form of the model, all logits of a whole prompt, and those of a third token alone: kernels for one row are
 * others. What quantised weights are compared with is what their numbers say, in double. */
static void test_forms(void **state)
{
    static const struct {
        const char *name;
        tiny_llama model;
    } forms[] = {
        {"f32", {.dtype = PCO_F32}},
        {"f16", {.dtype = PCO_F16}},
        {"bf16", {.dtype = PCO_BF16}},
        {"q8_0", {.dtype = PCO_Q8_0, .own_output = 1}},
        {"q4_0", {.dtype = PCO_Q4_0}},
        {"q4_1", {.dtype = PCO_Q4_1}},
        {"q6_k", {.dtype = PCO_Q6_K, .width = 256, .hidden = 512}},
        {"q5_0", {.dtype = PCO_Q5_0}},
        {"q5_1", {.dtype = PCO_Q5_1}},
        {"iq4_nl", {.dtype = PCO_IQ4_NL}},
        {"mxfp4", {.dtype = PCO_MXFP4}},
        {"q2_k", {.dtype = PCO_Q2_K, .width = 256, .hidden = 512}},
        {"q3_k", {.dtype = PCO_Q3_K, .width = 256, .hidden = 512}},
        {"q4_k", {.dtype = PCO_Q4_K, .width = 256, .hidden = 512}},
        {"q5_k", {.dtype = PCO_Q5_K, .width = 256, .hidden = 512}},
        {"iq4_xs", {.dtype = PCO_IQ4_XS, .width = 256, .hidden = 512}},
        {"output.weight", {.dtype = PCO_F32, .own_output = 1}},
        {"rope: 8 of 16 dimensions, base 500", {.dtype = PCO_F32, .rope_dimensions = 8, .rope_base = 500}},
        {"rope: linear scaling by 4", {.dtype = PCO_F32, .rope_scale = 4}},
        {"rope: factors", {.dtype = PCO_F32, .rope_factors = 1, .rope_scale = 2}},
    };
    enum { COUNT = 40 };
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        llama_fixture f;
        float logits[COUNT * TINY_VOCAB];
        double want[COUNT * TINY_VOCAB];
        llama_open(&forms[i].model, 64, &f);
        check_ok(pco_causal_score(f.run, f.ids, COUNT, logits, &err));
        tiny_llama_logits(&forms[i].model, f.ids, COUNT, want);
        double ratio = models_error(logits, want, COUNT * TINY_VOCAB, TINY_VOCAB, llama_tolerance);
        pco_causal_reset(f.run);
        for (int t = 0; t < 3; t++) check_ok(pco_causal_append(f.run, f.ids + t, 1, logits, &err));
        ratio = fmax(ratio, models_error(logits, want + 2 * TINY_VOCAB, TINY_VOCAB, TINY_VOCAB, llama_tolerance));
        print_message("  %-36s error / bound %.3f\n", forms[i].name, ratio);
        assert_true(ratio <= 1);
        llama_close(&f);
    }
}

/* Token by token, in chunks, after a rewind and whole: the same logits, up to rounding. */
static void test_paths(void **state)
{
    static const int cuts[][6] = {{1, 1, 1, 1, 1, 1}, {16, 17, 5, 1, 40, 2}, {64, 1, 100, 3, 7, 1}, {TINY_CONTEXT}};
    const tiny_llama model = {.dtype = PCO_F32};
    double *want = malloc(sizeof *want * TINY_CONTEXT * TINY_VOCAB);
    llama_fixture f;
    (void)state;
    llama_open(&model, TINY_CONTEXT, &f);
    tiny_llama_logits(&model, f.ids, TINY_CONTEXT, want);
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        float logits[TINY_VOCAB];
        double worst = 0;
        pco_causal_reset(f.run);
        for (int k = 0; k < 6 && cuts[c][k]; k++) {
            int64_t at = pco_causal_position(f.run), end = at + cuts[c][k];
            check_ok(pco_causal_append(f.run, f.ids + at, cuts[c][k], logits, &err));
            double ratio = models_error(logits, want + (end - 1) * TINY_VOCAB, TINY_VOCAB, TINY_VOCAB, llama_tolerance);
            if (!(ratio <= worst)) worst = ratio;
        }
        print_message("  cut %zu: error / bound %.3f\n", c, worst);
        assert_true(worst <= 1);
    }
    float logits[TINY_VOCAB];
    pco_causal_rewind(f.run, 50);
    check_ok(pco_causal_append(f.run, f.ids + 50, 10, logits, &err));
    assert_true(models_error(logits, want + 59 * TINY_VOCAB, TINY_VOCAB, TINY_VOCAB, llama_tolerance) <= 1);
    free(want);
    llama_close(&f);
}

/* After warm-up, with room in the caches, no length of a prompt builds anything; device memory stays as it is. */
static void test_warm(void **state)
{
    llama_fixture f;
    (void)state;
    llama_open(&(tiny_llama){.dtype = PCO_Q8_0}, TINY_CONTEXT, &f);
    check_ok(pco_causal_reserve(f.run, TINY_CONTEXT, &err));
    const uint32_t built = pco_causal_stages(f.run);
    check_ok(pco_causal_warm_up(f.run, &err));
    uint32_t stages = pco_causal_stages(f.run);
    uint64_t bytes = pco_session_memory(f.device.session, NULL);
    assert_int_equal(stages - built + 1, 4); /* the step was there */
    for (int count = 1; count <= TINY_CONTEXT; count += count < 70 ? 1 : 23) {
        pco_causal_reset(f.run);
        check_ok(pco_causal_append(f.run, f.ids, count, NULL, &err));
    }
    assert_int_equal(pco_causal_stages(f.run), stages);
    assert_int_equal(pco_session_memory(f.device.session, NULL), bytes);
    llama_close(&f);
}

static void test_limits(void **state)
{
    llama_fixture f;
    float logits[TINY_VOCAB];
    (void)state;
    llama_open(&(tiny_llama){.dtype = PCO_F32}, 20, &f);
    check_fails(pco_causal_append(f.run, f.ids, 21, logits, &err), PCO_ERROR_INVALID,
                "21 tokens do not fit into a context of 20");
    check_ok(pco_causal_append(f.run, f.ids, 20, logits, &err));
    check_fails(pco_causal_append(f.run, f.ids, 1, logits, &err), PCO_ERROR_INVALID, "21");
    pco_causal_reset(f.run);
    check_fails(pco_causal_append(f.run, (int32_t[]){1, TINY_VOCAB}, 2, logits, &err), PCO_ERROR_INVALID,
                "token 1 is 48, outside a vocabulary of 48");
    assert_int_equal(pco_causal_position(f.run), 0);
    llama_close(&f);
}

static void llama_refused(const tiny_llama *model, pco_status status, const char *part)
{
    char path[64];
    pco_model_info info = {.size = sizeof info};
    llama_path(path);
    assert_true(tiny_llama_write(model, path));
    check_fails(pco_model_inspect(path, 0, &info, &err), status, part);
    unlink(path);
}

/* What cannot run is refused by name, without a device. */
static void test_refused(void **state)
{
    pco_model_info info = {.size = sizeof info};
    (void)state;
    llama_refused(&(tiny_llama){.architecture = "mamba"}, PCO_ERROR_UNSUPPORTED,
                  "architecture 'mamba', which Portico cannot run; it runs 'llama', 'qwen2', ");
    llama_refused(&(tiny_llama){.without = "llama.block_count"}, PCO_ERROR_NOT_FOUND, "llama.block_count");
    llama_refused(&(tiny_llama){.without = "llama.attention.layer_norm_rms_epsilon"}, PCO_ERROR_NOT_FOUND,
                  "llama.attention.layer_norm_rms_epsilon");
    llama_refused(&(tiny_llama){.without = "blk.1.ffn_up.weight"}, PCO_ERROR_NOT_FOUND,
                  "no tensor 'blk.1.ffn_up.weight', which should have shape [96, 64]");
    llama_refused(&(tiny_llama){.wrong_shape = "blk.0.attn_k.weight"}, PCO_ERROR_FORMAT,
                  "has shape [33, 64] and should have [32, 64]");
    llama_refused(&(tiny_llama){.as_q8_1 = "blk.0.attn_q.weight"}, PCO_ERROR_UNSUPPORTED,
                  "tensor 'blk.0.attn_q.weight' is Q8_1, which Portico cannot run; use f32, f16, bf16, q8_0, q4_0, "
                  "q4_1, q6_k, q4_k, "
                  "q5_k, q5_0, q5_1, q2_k, q3_k, iq4_nl, iq4_xs or mxfp4");
    check_fails(pco_model_inspect("/nonexistent.gguf", 0, &info, &err), PCO_ERROR_IO, "/nonexistent.gguf");
    check_fails(pco_model_inspect("/proc/self/exe", 0, &info, &err), PCO_ERROR_FORMAT, "neither a GGUF file");
}

/* The public API on a file without a tokenizer. */
static void test_api(void **state)
{
    const tiny_llama model = {.dtype = PCO_F16};
    enum { COUNT = 5 };
    static const int32_t ids[COUNT] = {1, 7, 30, 2, 9};
    char path[64];
    pco_context *context;
    pco_model *opened;
    pco_model_info info = {.size = sizeof info};
    float logits[COUNT * TINY_VOCAB];
    double want[COUNT * TINY_VOCAB];
    (void)state;
    llama_path(path);
    assert_true(tiny_llama_write(&model, path));
    check_ok(pco_context_create(NULL, &context, &err));
    check_fails(pco_model_open(context, path,
                               &(pco_model_params){.size = sizeof(pco_model_params), .context_length = -1}, &opened,
                               &err),
                PCO_ERROR_INVALID, "-1");
    check_fails(pco_model_open(context, path,
                               &(pco_model_params){.size = sizeof(pco_model_params), .device = "nothing"}, &opened,
                               &err),
                PCO_ERROR_NOT_FOUND, "nothing");
    check_ok(pco_model_open(context, path, &(pco_model_params){.size = sizeof(pco_model_params), .context_length = 4},
                            &opened, &err));
    pco_model_describe(opened, &info);
    assert_int_equal(info.context_length, 4);
    assert_int_equal(info.file_context_length, TINY_CONTEXT);
    assert_int_equal(info.vocab_size, TINY_VOCAB);
    assert_true(info.parameters > 0 && info.device_bytes > 0 && info.peak_device_bytes >= info.device_bytes);
    assert_int_equal(info.state_bytes, 2 * TINY_LAYERS * 4 * TINY_GROUPS * TINY_HEAD * 4);
    check_fails(pco_model_logits(opened, ids, COUNT, logits, &err), PCO_ERROR_INVALID, "context of 4");
    check_ok(pco_model_logits(opened, ids, 4, logits, &err));
    tiny_llama_logits(&model, ids, 4, want);
    assert_true(models_error(logits, want, 4 * TINY_VOCAB, TINY_VOCAB, llama_tolerance) <= 1);
    check_fails(pco_model_generate(opened, "", NULL, NULL, NULL, NULL, &err), PCO_ERROR_NOT_FOUND, "no tokenizer");
    pco_model_close(opened);
    pco_context_destroy(context);
    unlink(path);
}

enum { ATTENDED = 23 };

typedef struct llama_maps {
    int count, stop_at; /* attentions received; the one that stops */
    float weights[TINY_LAYERS][TINY_HEADS * ATTENDED * ATTENDED];
} llama_maps;

static int llama_keep(void *user, const pco_attention_map *map)
{
    llama_maps *maps = user;
    assert_int_equal(map->kind, PCO_ATTENTION_DECODER);
    assert_int_equal(map->layer, maps->count);
    assert_int_equal(map->heads, TINY_HEADS);
    assert_int_equal(map->queries, ATTENDED);
    assert_int_equal(map->keys, ATTENDED);
    memcpy(maps->weights[maps->count++], map->weights, sizeof maps->weights[0]);
    return maps->count == maps->stop_at;
}

/* Attention weights against the reference, and what is refused. */
static void test_attention(void **state)
{
    const tiny_llama model = {.dtype = PCO_F32, .rope_factors = 1};
    static double want[TINY_LAYERS][TINY_HEADS * ATTENDED * ATTENDED];
    static llama_maps maps;
    int32_t ids[TINY_CONTEXT + 1];
    char path[64];
    pco_context *context;
    pco_model *opened;
    (void)state;
    for (int i = 0; i <= TINY_CONTEXT; i++) ids[i] = i * 7 % TINY_VOCAB;
    llama_path(path);
    assert_true(tiny_llama_write(&model, path));
    check_ok(pco_context_create(NULL, &context, &err));
    check_ok(pco_model_open(context, path, NULL, &opened, &err));
    pco_model_info before = {.size = sizeof before}, after = {.size = sizeof after};
    pco_model_describe(opened, &before);
    check_ok(pco_model_attention(opened, NULL, 0, ids, ATTENDED, llama_keep, &maps, &err));
    assert_int_equal(maps.count, TINY_LAYERS);
    tiny_llama_attention(&model, ids, ATTENDED, want[0]);
    for (int l = 0; l < TINY_LAYERS; l++)
        assert_true(
            models_error(maps.weights[l], want[l], TINY_HEADS * ATTENDED * ATTENDED, ATTENDED, llama_tolerance) <= 1);
    maps = (llama_maps){.stop_at = 1};
    check_ok(pco_model_attention(opened, NULL, 0, ids, ATTENDED, llama_keep, &maps, &err));
    assert_int_equal(maps.count, 1);
    check_fails(pco_model_attention(opened, ids, 1, ids, 1, llama_keep, &maps, &err), PCO_ERROR_INVALID, "no source");
    check_fails(pco_model_attention(opened, NULL, 0, NULL, 0, llama_keep, &maps, &err), PCO_ERROR_INVALID,
                "without tokens");
    check_fails(pco_model_attention(opened, NULL, 0, ids, TINY_CONTEXT + 1, llama_keep, &maps, &err), PCO_ERROR_INVALID,
                "context of 300");
    ids[2] = TINY_VOCAB;
    check_fails(pco_model_attention(opened, NULL, 0, ids, 3, llama_keep, &maps, &err), PCO_ERROR_INVALID,
                "token 2 of the text is 48");
    pco_model_describe(opened, &after); /* its program is gone, and it shared the weights */
    assert_true(after.device_bytes <= before.device_bytes + 4096);
    pco_model_close(opened);
    pco_context_destroy(context);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),     cmocka_unit_test(test_paths),   cmocka_unit_test(test_warm),
        cmocka_unit_test(test_limits),    cmocka_unit_test(test_refused), cmocka_unit_test(test_api),
        cmocka_unit_test(test_attention),
    };
    return cmocka_run_group_tests_name("llama", tests, NULL, NULL);
}
