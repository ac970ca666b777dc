/* test_others FOLDER: small models of other people with published results (FOLDER is the shared data, and each set's
 * EXPECTED.md says where they are from). FOLDER/gpt2-tiny-random: what a GPT-2 continues, by its safetensors.
 * FOLDER/torch-tiny: an encoder, and an encoder-decoder with a model of SentencePiece, as ONNX. Without FOLDER the test
 * is skipped (77). */
#define CHECK_FOLDER
#include "models_test.h"

#include <portico/onnx.h>
#include <portico/portico.h>
#include <portico/session.h>
#include <unistd.h>

#include "base/file.h"
#include "text/tokenizer.h"

static const char *others;

static int others_largest(const float *row, int count, int but)
{
    int best = but == 0;
    for (int i = best; i < count; i++)
        if (i != but && row[i] > row[best]) best = i;
    return best;
}

/* Greedy, from 4 tokens to 10; the gap between the two best logits is above 0.2 at the end. */
static void test_gpt2(void **state)
{
    enum { VOCAB = 1000, PROMPT = 4, LENGTH = 10 };
    static const int32_t want[][LENGTH] = {{0, 0, 0, 52, 204, 204, 204, 204, 204, 204},
                                           {0, 0, 195, 731, 731, 114, 114, 114, 114, 114}};
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"vocab_size\": 1000, \"n_positions\": 512, \"n_embd\": 32, \"n_layer\": 5, "
        "\"n_head\": 4, \"activation_function\": \"gelu_new\", \"layer_norm_epsilon\": 1e-5}";
    static float logits[LENGTH * VOCAB];
    char path[1200], link[1200];
    pco_context *context;
    pco_model *model;
    (void)state;
    snprintf(path, sizeof path, "%s/config.json", check_folder);
    check_ok(pco_file_write(path, config, strlen(config), &err));
    snprintf(path, sizeof path, "%s/gpt2-tiny-random/model.safetensors", others);
    snprintf(link, sizeof link, "%s/model.safetensors", check_folder);
    assert_int_equal(symlink(path, link), 0);
    check_ok(pco_context_create(NULL, &context, &err));
    check_ok(pco_model_open(context, check_folder, NULL, &model, &err));
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        int32_t ids[LENGTH];
        memcpy(ids, want[i], sizeof(int32_t[PROMPT]));
        for (int count = PROMPT; count < LENGTH; count++) {
            check_ok(pco_model_logits(model, ids, (size_t)count, logits, &err));
            ids[count] = others_largest(logits + (size_t)(count - 1) * VOCAB, VOCAB, -1);
        }
        assert_memory_equal(ids, want[i], sizeof ids);
    }
    pco_model_close(model);
    pco_context_destroy(context);
}

#ifdef PCO_HAVE_ONNX

typedef struct others_run {
    pco_context *context;
    pco_session *session;
    pco_onnx_model *model;
    pco_onnx_runner *runner;
} others_run;

static void others_open(others_run *run, const char *name)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/torch-tiny/%s", others, name);
    check_ok(pco_context_create(NULL, &run->context, &err));
    check_ok(pco_session_open(run->context, NULL, &run->session, &err));
    check_ok(pco_onnx_open(path, &run->model, &err));
    check_ok(pco_onnx_runner_create(run->session, run->model, &run->runner, &err));
}

static void others_close(others_run *run)
{
    pco_onnx_runner_destroy(run->runner);
    pco_onnx_close(run->model);
    pco_session_close(run->session);
    pco_context_destroy(run->context);
}

/* [1, count] of whole numbers. */
static pco_onnx_array others_ids(const char *name, const int64_t *ids, int64_t count)
{
    return (pco_onnx_array){.size = sizeof(pco_onnx_array),
                            .name = name,
                            .type = PCO_ONNX_INT64,
                            .rank = 2,
                            .shape = {1, count},
                            .data = ids,
                            .bytes = (uint64_t)count * sizeof *ids};
}

/* The first output, of `count` floats. */
static const float *others_output(const others_run *run, const pco_onnx_array *inputs, uint32_t n, uint64_t count)
{
    pco_onnx_array out = {.size = sizeof out};
    check_ok(pco_onnx_run(run->runner, inputs, n, &err));
    check_ok(pco_onnx_runner_output(run->runner, 0, &out, &err));
    assert_int_equal(out.type, PCO_ONNX_FLOAT);
    assert_int_equal(out.bytes, count * sizeof(float));
    return out.data;
}

/* The mean over five tokens. Both programs compute in f32: two layers, in each of which a number goes through four
 * sums, of 16, 5, 16 and 32 products, and two norms, which round some 16 + 5 + 16 + 32 + 2 * 16 times. Two programs,
 * each rounding so often by at most 2^-24: 2 * 2 * 101 * 2^-24 = 2.4e-5 of the sums, if all errors had one sign; less
 * than half of that is let pass. */
static void test_encoder(void **state)
{
    enum { TOKENS = 5, WIDTH = 16, SAID = 7 };
    static const float want[SAID] = {-0.6178509f,  -0.8135831f,   0.34416935f, 0.3912577f,
                                     -0.13068882f, 2.5897025e-4f, -0.18638384f};
    static const int64_t ids[TOKENS] = {1, 2, 3, 4, 5}, ones[TOKENS] = {1, 1, 1, 1, 1}, zeros[TOKENS];
    const pco_onnx_array inputs[] = {others_ids("input_ids", ids, TOKENS), others_ids("attention_mask", ones, TOKENS),
                                     others_ids("token_type_ids", zeros, TOKENS)};
    float mean[SAID] = {0};
    others_run run;
    (void)state;
    others_open(&run, "dummy_transformer.onnx");
    const float *rows = others_output(&run, inputs, 3, TOKENS * WIDTH);
    for (int t = 0; t < TOKENS; t++)
        for (int i = 0; i < SAID; i++) mean[i] += rows[t * WIDTH + i] / TOKENS;
    const double ratio = models_error_f32(mean, want, SAID, SAID, 1e-5);
    print_message("  encoder: error / (|y| + rms) %.1e\n", ratio * 1e-5);
    assert_true(ratio <= 1);
    others_close(&run);
}

/* "generate some random text", behind which token 1 ends the source; token 0 begins what is written, and 1 is not
 * chosen (that is how the results were made). */
static void test_encoder_decoder(void **state)
{
    enum { VOCAB = 10000, WIDTH = 8, LENGTH = 10, MOST = 64 };
    static const char prompt[] = "generate some random text", *const want[LENGTH] = {"<unk>",
                                                                                     "\xE2\x96\x81linear",
                                                                                     "\xE2\x96\x81recruit",
                                                                                     "\xE2\x96\x81latest",
                                                                                     "\xE2\x96\x81sack",
                                                                                     "\xE2\x96\x81"
                                                                                     "annually",
                                                                                     "\xE2\x96\x81institutions",
                                                                                     "\xE2\x96\x81"
                                                                                     "cert",
                                                                                     "\xE2\x96\x81solid",
                                                                                     "\xE2\x96\x81references"};
    others_run encoder, decoder;
    pco_tokenizer *tokenizer;
    int32_t *tokens;
    size_t count;
    char path[1200];
    int64_t source[MOST], ones[MOST], written[LENGTH] = {0};
    float mask[MOST];
    (void)state;
    snprintf(path, sizeof path, "%s/torch-tiny/en.wiki.bpe.vs10000.model", others);
    check_ok(pco_tokenizer_open(path, &tokenizer, &err));
    check_ok(pco_tokenizer_encode(tokenizer, prompt, sizeof prompt - 1, 0, &tokens, &count, &err));
    assert_true(count > 0 && count < MOST);
    for (size_t i = 0; i <= count; i++) source[i] = i < count ? tokens[i] : 1, ones[i] = 1, mask[i] = 1;
    const int64_t length = (int64_t)count + 1;
    free(tokens);
    others_open(&encoder, "random_encoder.onnx");
    others_open(&decoder, "random_decoder.onnx");
    const pco_onnx_array inputs[] = {others_ids("input_ids", source, length),
                                     others_ids("attention_mask", ones, length)};
    const float *hidden = others_output(&encoder, inputs, 2, (uint64_t)length * WIDTH);
    for (int64_t n = 1; n < LENGTH; n++) {
        pco_onnx_array given[] = {others_ids("input_ids", written, n),
                                  others_ids("encoder_attention_mask", NULL, length),
                                  others_ids("encoder_hidden_states", NULL, length)};
        for (int i = 1; i < 3; i++) given[i].type = PCO_ONNX_FLOAT;
        given[1].data = mask, given[1].bytes = (uint64_t)length * sizeof *mask;
        given[2].data = hidden, given[2].bytes = (uint64_t)length * WIDTH * sizeof *hidden;
        given[2].rank = 3, given[2].shape[2] = WIDTH;
        const float *logits = others_output(&decoder, given, 3, (uint64_t)n * VOCAB);
        written[n] = others_largest(logits + (n - 1) * VOCAB, VOCAB, 1);
    }
    for (int i = 0; i < LENGTH; i++) {
        size_t size;
        const char *piece = pco_tokenizer_token(tokenizer, (int32_t)written[i], &size);
        assert_int_equal(size, strlen(want[i]));
        assert_memory_equal(piece, want[i], size);
    }
    others_close(&decoder);
    others_close(&encoder);
    pco_tokenizer_destroy(tokenizer);
}

#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
#ifdef PCO_HAVE_ONNX
        cmocka_unit_test(test_encoder),
        cmocka_unit_test(test_encoder_decoder),
#endif
    };
    char path[1200];
    snprintf(path, sizeof path, "%s/gpt2-tiny-random/model.safetensors", argc > 1 ? argv[1] : "");
    if (access(path, R_OK) != 0) {
        printf("skipped: no folder with the models\n");
        return 77;
    }
    others = argv[1];
    return cmocka_run_group_tests_name("others", tests, check_make_folder, check_remove_folder);
}
