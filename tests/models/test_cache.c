/* test_cache FOLDER: keys and values in f32, f16 and q8_0 on the device that PORTICO_BACKEND picks; caches that grow;
 * contexts that are full, with shift and without. */
#include "models_test.h"

#include "base/dtype.h"
#include "formats/safetensors.h"
#include "nn/nn.h"

#include <portico/sequence.h>

enum { MOST_VOCAB = 288, GROWN_VOCAB = 64, LONG = 600 }; /* of gptneox: 64 */

static const char *folder;
static pco_context *context;

static pco_model *open_model(const char *name, int64_t length, uint32_t type, int64_t sequences)
{
    char path[512];
    pco_model *model;
    const pco_model_params params = {
        .size = sizeof params, .context_length = length, .cache_type = type, .sequences = sequences};
    snprintf(path, sizeof path, "%s/%s.gguf", folder, name);
    check_ok(pco_model_open(context, path, &params, &model, &err));
    return model;
}

static int open_context(void **state)
{
    (void)state;
    return pco_context_create(NULL, &context, NULL);
}

static int close_context(void **state)
{
    (void)state;
    pco_context_destroy(context);
    return 0;
}

static float uniform(int64_t i) { return models_uniform(3, 1, i, 1, 0); }

/* x [1,3,2,32] to rows 2 to 4 of the second of two lanes; the other rows stay 0. With d = max |x| / 127 of a block, y
 * is q d', where d' is d in f16 (2^-11 of it) and q is x / d, which the division may move by 2.5 * 2^-24 |q|, to the
 * nearest: |y - x| <= d (1/2 + 127 * 2^-11 + 2^-12). A digit that is wrong by one is wrong by d at least half the time.
 */
static void test_q8_0(void **state)
{
    enum { LANES = 2, TOKENS = 6, ROWS = 3, WIDTH = 64 };
    models_device device;
    pco_executable *run;
    float x[ROWS * WIDTH], y[LANES * TOKENS * WIDTH];
    const int32_t take[LANES] = {-1, 0}, starts[LANES] = {TOKENS, 2};
    (void)state;
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = uniform(i) * (i / 32 == 1 ? 1e-2f : i / 32 == 2 ? 300.0f : 1.0f);
    for (int i = 96; i < 128; i++) x[i] = 0;
    x[5] = -1.5f; /* the largest of its block, and a whole -127 */
    models_device_open(&device);
    pco_graph *graph = pco_graph_create();
    const pco_nn nn = {.graph = graph};
    const uint32_t in = pco_graph_input(graph, "x", PCO_F32, 4, (int64_t[]){1, ROWS, 2, 32});
    const uint32_t to = pco_graph_input(graph, "take", PCO_I32, 1, (int64_t[]){LANES});
    const uint32_t at = pco_graph_input(graph, "starts", PCO_I32, 1, (int64_t[]){LANES});
    const pco_nn_cache cache = pco_nn_cache_state(&nn, "cache", PCO_Q8_0, (int64_t[]){LANES, TOKENS, 2, 32});
    const pco_nn_cache after = pco_nn_cache_write(&nn, &cache, in, at, to);
    pco_graph_output(graph, pco_nn_cache_read(&nn, &after), "y");
    check_ok(pco_graph_check(graph, &err));
    check_ok(pco_executable_create(device.session, graph, NULL, &run, &err));
    check_ok(pco_executable_write(run, pco_executable_tensor(run, "x"), x, sizeof x, &err));
    check_ok(pco_executable_write(run, pco_executable_tensor(run, "take"), take, sizeof take, &err));
    check_ok(pco_executable_write(run, pco_executable_tensor(run, "starts"), starts, sizeof starts, &err));
    check_ok(pco_executable_run(run, &err));
    check_ok(pco_executable_read(run, pco_executable_tensor(run, "y"), y, sizeof y, &err));
    for (int i = 0; i < LANES * TOKENS * WIDTH; i++) {
        const int row = i / WIDTH - TOKENS - 2, from = row * WIDTH + i % WIDTH;
        float largest = 0, want = 0;
        if (row >= 0 && row < ROWS) {
            want = x[from];
            for (int k = from / 32 * 32; k < from / 32 * 32 + 32; k++)
                if (fabsf(x[k]) > largest) largest = fabsf(x[k]);
        }
        const double bound = (double)largest / 127 * (0.5 + 127 * 0x1p-11 + 0x1p-12);
        if (!(fabs((double)y[i] - (double)want) <= bound)) fail_msg("element %d: %g, not %g", i, y[i], want);
    }
    pco_executable_destroy(run);
    pco_graph_destroy(graph);
    models_device_close(&device);
}

/* Logits of a prompt and of steps, against those of transformers in float64. What rounding keys and values does: a key
 * moves scores, and with them the weights, and a value what is mixed, by up to u = 2^-11 (f16) or 2^-8 (half of a 127th
 * of the largest of its block) of their size, in each of the 2 layers; GAIN counts each of the 4 with its
 * whole size at the logits. The goldens' 1e-4 is for all else. */
static double check_logits(const char *name, uint32_t type, double u)
{
    enum { GAIN = 4, PROMPT = 21 };
    char path[512];
    pco_weights *goldens;
    static float logits[64 * MOST_VOCAB];
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    check_ok(pco_safetensors_open(path, &goldens, &err));
    const int32_t *ids = pco_weights_find(goldens, "ids")->data;
    const pco_weight *want = pco_weights_find(goldens, "logits");
    const int64_t count = want->shape[0], vocab = want->shape[1];
    assert_true(vocab <= MOST_VOCAB && count <= 64);
    pco_model *model = open_model(name, 0, type, 2);
    pco_sequence *s, *other;
    check_ok(pco_sequence_create(model, &other, &err));
    check_ok(pco_sequence_create(model, &s, &err));
    check_ok(pco_sequence_append(s, ids, PROMPT, logits + (PROMPT - 1) * vocab, NULL, NULL, &err));
    for (int64_t i = PROMPT; i < count; i++) check_ok(pco_sequences_step(&s, ids + i, 1, logits + i * vocab, &err));
    pco_sequence_destroy(other); /* a fork copies the quants and their factors */
    check_ok(pco_sequence_truncate(s, PROMPT, &err));
    check_ok(pco_sequence_fork(s, &other, &err));
    check_ok(pco_sequences_step((pco_sequence *[]){s, other}, (int32_t[]){ids[0], ids[PROMPT]}, 2, logits, &err));
    double again[MOST_VOCAB];
    for (int64_t i = 0; i < vocab; i++) again[i] = (double)logits[PROMPT * vocab + i];
    assert_true(models_error(logits + vocab, again, vocab, vocab, 2e-4 + GAIN * u) <= 1);
    const double error = models_error(logits + (PROMPT - 1) * vocab, (const double *)want->data + (PROMPT - 1) * vocab,
                                      (count - PROMPT + 1) * vocab, vocab, 1e-4 + GAIN * u);
    print_message("  %-10s %-5s error / bound %.3f\n", name, pco_dtype_name(type), error);
    pco_sequence_destroy(s);
    pco_sequence_destroy(other);
    pco_model_close(model);
    pco_weights_close(goldens);
    return error;
}

static void test_types(void **state)
{
    pco_model_info wide = {.size = sizeof wide}, half = wide, quarter = wide;
    (void)state;
    assert_true(check_logits("gptneox", PCO_F32, 0) <= 1);
    assert_true(check_logits("gptneox", PCO_F16, 0x1p-11) <= 1);
    assert_true(check_logits("gptneox", PCO_Q8_0, 0x1p-8) <= 1);
    assert_true(check_logits("gemma2", PCO_F16, 0x1p-11) <= 1);
    assert_true(check_logits("gpt2", PCO_Q8_0, 0x1p-8) <= 1);
    pco_model *models[] = {open_model("gptneox", 0, PCO_F32, 1), open_model("gptneox", 0, PCO_F16, 1),
                           open_model("gptneox", 0, PCO_Q8_0, 1)};
    pco_model_describe(models[0], &wide);
    pco_model_describe(models[1], &half);
    pco_model_describe(models[2], &quarter);
    assert_int_equal(wide.state_bytes, 2 * half.state_bytes);
    assert_int_equal(17 * wide.state_bytes, 64 * quarter.state_bytes);
    for (int i = 0; i < 3; i++) pco_model_close(models[i]);
    /* what is not needed yet takes no memory */
    models[0] = open_model("gptneox", 256, PCO_F32, 1);
    models[1] = open_model("gptneox", 100000, PCO_F32, 1);
    pco_model_describe(models[0], &wide);
    pco_model_describe(models[1], &half);
    assert_int_equal(half.device_bytes, wide.device_bytes);
    assert_int_equal(half.context_length, 100000);
    for (int i = 0; i < 2; i++) pco_model_close(models[i]);
}

static void test_refused(void **state)
{
    pco_model *model;
    char path[512];
    (void)state;
    pco_model_params params = {.size = sizeof params, .cache_type = PCO_Q4_0};
    snprintf(path, sizeof path, "%s/qwen2.gguf", folder);
    check_fails(pco_model_open(context, path, &params, &model, &err), PCO_ERROR_UNSUPPORTED, "not q4_0");
    params.cache_type = PCO_Q8_0;
    check_fails(pco_model_open(context, path, &params, &model, &err), PCO_ERROR_UNSUPPORTED, "16 elements");
}

/* A long text in pieces that make the caches grow twice is what it is at once; the other sequence is not touched. */
static void check_growth(uint32_t type)
{
    static int32_t ids[LONG];
    static float pieces[GROWN_VOCAB], whole[GROWN_VOCAB], before[GROWN_VOCAB], after[GROWN_VOCAB];
    pco_model_info info[3];
    pco_sequence *s, *other;
    for (int i = 0; i < LONG; i++) ids[i] = (i * 37 + i / 7) % GROWN_VOCAB;
    pco_model *model = open_model("gptneox", 1000, type, 2);
    for (int i = 0; i < 3; i++) info[i].size = sizeof info[i];
    check_ok(pco_sequence_create(model, &other, &err));
    check_ok(pco_sequence_create(model, &s, &err));
    check_ok(pco_sequence_append(other, ids + 11, 30, before, NULL, NULL, &err));
    check_ok(pco_sequence_append(s, ids, 250, NULL, NULL, NULL, &err));
    pco_model_describe(model, &info[0]);
    assert_int_equal(info[0].vocab_size, GROWN_VOCAB);
    for (int i = 250; i < 262; i++) check_ok(pco_sequences_step(&s, ids + i, 1, NULL, &err));
    pco_model_describe(model, &info[1]);
    check_ok(pco_sequence_append(s, ids + 262, LONG - 262, pieces, NULL, NULL, &err));
    pco_model_describe(model, &info[2]);
    assert_int_equal(info[0].cached_tokens, 256);
    assert_int_equal(info[1].cached_tokens, 512);
    assert_int_equal(info[2].cached_tokens, 1000);
    check_ok(pco_sequence_append(other, NULL, 0, after, NULL, NULL, &err));
    pco_sequence_destroy(s);
    pco_sequence_destroy(other);
    pco_model_close(model);
    model = open_model("gptneox", 1000, type, 1);
    check_ok(pco_sequence_create(model, &s, &err));
    check_ok(pco_sequence_append(s, ids, LONG, whole, NULL, NULL, &err));
    double want[GROWN_VOCAB];
    for (int i = 0; i < GROWN_VOCAB; i++) want[i] = (double)whole[i];
    const double u = type == PCO_Q8_0 ? 0x1p-8 : 0; /* a rounding may fall to the other side where the rows differ */
    assert_true(models_error(pieces, want, GROWN_VOCAB, GROWN_VOCAB, 2e-4 + 4 * u) <= 1);
    for (int i = 0; i < GROWN_VOCAB; i++) want[i] = (double)before[i];
    assert_true(models_error(after, want, GROWN_VOCAB, GROWN_VOCAB, 2e-4 + 4 * u) <= 1);
    pco_sequence_destroy(s);
    pco_model_close(model);
}

static void test_growth(void **state)
{
    (void)state;
    check_growth(PCO_F32);
    check_growth(PCO_Q8_0);
}

/* What a generation under shift saw: its tokens, and the logits of each. */
typedef struct shifted {
    int32_t ids[80];
    float logits[80][MOST_VOCAB];
    int64_t count;
} shifted;

static int see(void *user, const pco_token *token)
{
    shifted *s = user;
    s->ids[s->count] = token->id;
    memcpy(s->logits[s->count++], token->logits, MOST_VOCAB * sizeof(float));
    return 0;
}

/* Never the end of a text. */
static int go_on(void *user, float *logits, int64_t vocab, int64_t step, int32_t *id)
{
    (void)user;
    (void)logits;
    (void)vocab;
    *id = (int32_t)((step * 29 + 40) % 200 + 20);
    return 0;
}

/* Keeps the first 5 of 24: the 19 behind them lose their older 10, and from then on logits are those of what is left.
 */
static void test_shift(void **state)
{
    enum { CONTEXT = 24, KEEP = 5, PROMPT = 9, TOKENS = 60 };
    static shifted saw;
    int32_t prompt[PROMPT], text[CONTEXT + 1];
    pco_generate_stats stats = {.size = sizeof stats};
    (void)state;
    pco_model_info info = {.size = sizeof info};
    pco_model *model = open_model("gpt2", CONTEXT, PCO_F32, 2), *fresh = open_model("gpt2", CONTEXT, PCO_F32, 1);
    pco_model_describe(model, &info);
    assert_int_equal(info.vocab_size, MOST_VOCAB);
    for (int i = 0; i < PROMPT; i++) prompt[i] = 31 + 7 * i;
    pco_generate_params params = {.size = sizeof params,
                                  .prompt_ids = prompt,
                                  .prompt_count = PROMPT,
                                  .max_tokens = TOKENS,
                                  .sample = go_on,
                                  .token = see};
    saw.count = 0;
    check_ok(pco_model_generate(model, NULL, &params, NULL, &saw, &stats, &err));
    assert_int_equal(stats.stop_reason, PCO_STOP_CONTEXT);
    assert_int_equal(stats.generated_tokens, CONTEXT - PROMPT);
    assert_int_equal(stats.context_shifts, 0);
    params.context_shift = 1;
    params.keep = KEEP;
    saw.count = 0;
    pco_sequence *s;
    size_t count;
    check_ok(pco_sequence_create(model, &s, &err));
    check_ok(pco_sequence_generate(s, NULL, &params, NULL, &saw, &stats, &err));
    assert_int_equal(stats.stop_reason, PCO_STOP_MAX_TOKENS);
    assert_int_equal(stats.generated_tokens, TOKENS);
    assert_int_equal(saw.count, TOKENS);
    memcpy(text, prompt, sizeof prompt);
    int length = PROMPT, shifts = 0;
    for (int i = 0; i < TOKENS; i++) {
        float logits[MOST_VOCAB * CONTEXT];
        if (length == CONTEXT) {
            const int dropped = (CONTEXT - KEEP + 1) / 2;
            memmove(text + KEEP, text + KEEP + dropped, (size_t)(CONTEXT - KEEP - dropped) * sizeof *text);
            length -= dropped;
            shifts++;
        }
        check_ok(pco_model_logits(fresh, text, (size_t)length, logits, &err));
        double want[MOST_VOCAB];
        for (int k = 0; k < MOST_VOCAB; k++) want[k] = (double)logits[(length - 1) * MOST_VOCAB + k];
        assert_true(models_error(saw.logits[i], want, MOST_VOCAB, MOST_VOCAB, 2e-4) <=
                    1); /* both within 1e-4 of the truth */
        text[length++] = saw.ids[i];
    }
    assert_int_equal(stats.context_shifts, shifts);
    assert_true(shifts > 3);
    const int32_t *ids = pco_sequence_ids(s, &count);
    assert_int_equal(count, length);
    assert_memory_equal(ids, text, count * sizeof *ids);
    params.keep = CONTEXT - 1;
    check_fails(pco_model_generate(model, NULL, &params, NULL, &saw, &stats, &err), PCO_ERROR_INVALID, "0 to 22");
    pco_sequence_destroy(s);
    pco_model_close(model);
    pco_model_close(fresh);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_q8_0), cmocka_unit_test(test_types),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_growth),
                                       cmocka_unit_test(test_shift)};
    if (argc != 2) return 2;
    folder = argv[1];
    return cmocka_run_group_tests_name("cache", tests, open_context, close_context);
}
