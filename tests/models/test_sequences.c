/* test_sequences FOLDER DATES: portico.h and sequence.h on the device that PORTICO_BACKEND picks. Logits of sequences
 * in one batch, copied, cut and continued, are held against those of transformers in float64 that test_families uses,
 * with its MODELS_TOLERANCE; callbacks stop, choose and see what they should. */
#include "models_test.h"

#include "formats/gguf.h"
#include "formats/safetensors.h"

#include <math.h>
#include <portico/sequence.h>

enum { MOST = 40, VOCAB = 288 };

static const char *folder, *dates;

/* A model of the folder, and what its logits are for each position of ids[count]. */
typedef struct fixture {
    pco_weights *goldens;
    pco_context *context;
    pco_model *model;
    const int32_t *ids;
    const double *want;
    size_t count;
    char path[512];
} fixture;

static void fixture_open(const char *name, int64_t sequences, fixture *f)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    snprintf(f->path, sizeof f->path, "%s/%s.gguf", folder, name);
    check_ok(pco_safetensors_open(path, &f->goldens, &err));
    f->ids = pco_weights_find(f->goldens, "ids")->data;
    const pco_weight *want = pco_weights_find(f->goldens, "logits");
    f->want = want->data;
    f->count = (size_t)want->shape[0];
    assert_int_equal(want->shape[1], VOCAB);
    assert_true(f->count <= MOST && f->count > 20);
    check_ok(pco_context_create(NULL, &f->context, &err));
    const pco_model_params params = {.size = sizeof params, .sequences = sequences};
    check_ok(pco_model_open(f->context, f->path, &params, &f->model, &err));
}

static void fixture_close(fixture *f)
{
    pco_model_close(f->model);
    pco_context_destroy(f->context);
    pco_weights_close(f->goldens);
}

/* Are these the logits behind the first `length` ids? */
static void check_row(const fixture *f, const float *logits, size_t length)
{
    const double error = models_error(logits, f->want + (length - 1) * VOCAB, VOCAB, VOCAB, MODELS_TOLERANCE);
    if (!(error <= 1)) fail_msg("logits behind %zu tokens: error / bound %g", length, error);
}

/* Three sequences at different places of the text, and one of other tokens between them. */
static void check_batch(const char *name)
{
    fixture f;
    pco_sequence *s[4], *fifth;
    float logits[4 * VOCAB], alone[2 * VOCAB];
    const size_t lengths[] = {3, 17, 9};
    const int32_t other[2] = {7, 250};
    fixture_open(name, 4, &f);
    check_ok(pco_model_logits(f.model, other, 2, alone, &err));
    for (int i = 0; i < 4; i++) check_ok(pco_sequence_create(f.model, &s[i], &err));
    check_fails(pco_sequence_create(f.model, &fifth, &err), PCO_ERROR_INVALID, "room for 4");
    check_fails(pco_model_logits(f.model, other, 1, logits, &err), PCO_ERROR_INVALID, "room for 4");
    for (int i = 0; i < 3; i++) {
        check_ok(pco_sequence_append(s[i], f.ids, lengths[i], logits, NULL, NULL, &err));
        check_row(&f, logits, lengths[i]);
    }
    for (size_t step = 0; step < 2; step++) {
        const int32_t ids[] = {f.ids[17 + step], other[step], f.ids[3 + step], f.ids[9 + step]};
        check_ok(pco_sequences_step((pco_sequence *[]){s[1], s[3], s[0], s[2]}, ids, 4, logits, &err));
        check_row(&f, logits, 18 + step);
        check_row(&f, logits + 2 * VOCAB, 4 + step);
        check_row(&f, logits + 3 * VOCAB, 10 + step);
        double want[VOCAB]; /* both have an error of up to the MODELS_TOLERANCE */
        for (int i = 0; i < VOCAB; i++) want[i] = alone[step * VOCAB + (size_t)i];
        assert_true(models_error(logits + VOCAB, want, VOCAB, VOCAB, 2 * MODELS_TOLERANCE) <= 1);
    }
    /* a step of two leaves the others as they are */
    check_ok(pco_sequences_step((pco_sequence *[]){s[2], s[0]}, (int32_t[]){f.ids[11], f.ids[5]}, 2, logits, &err));
    check_row(&f, logits, 12);
    check_row(&f, logits + VOCAB, 6);
    check_ok(pco_sequences_step((pco_sequence *[]){s[1]}, &f.ids[19], 1, logits, &err));
    check_row(&f, logits, 20);
    for (int i = 0; i < 4; i++) pco_sequence_destroy(s[i]);
    fixture_close(&f);
}

static void test_batch(void **state)
{
    (void)state;
    check_batch("qwen2");
    check_batch("gemma2"); /* a window in every other layer */
}

/* A fork goes its own way; what is cut is forgotten; what is wrong leaves a sequence as it was. */
static void test_fork(void **state)
{
    fixture f;
    pco_sequence *one, *two;
    float logits[2 * VOCAB];
    size_t count;
    (void)state;
    fixture_open("qwen2", 2, &f);
    check_ok(pco_sequence_create(f.model, &one, &err));
    check_fails(pco_sequence_append(one, NULL, 0, logits, NULL, NULL, &err), PCO_ERROR_INVALID, "empty sequence");
    check_ok(pco_sequence_append(one, f.ids, 12, NULL, NULL, NULL, &err));
    check_ok(pco_sequence_fork(one, &two, &err));
    check_ok(pco_sequence_append(one, (int32_t[]){1, 2, 3}, 3, NULL, NULL, NULL, &err));
    check_ok(pco_sequences_step((pco_sequence *[]){two, one}, (int32_t[]){f.ids[12], 4}, 2, logits, &err));
    check_row(&f, logits, 13);
    assert_memory_equal(pco_sequence_ids(two, &count), f.ids, 13 * sizeof *f.ids);
    assert_int_equal(count, 13);
    check_ok(pco_sequence_truncate(one, 5, &err));
    check_fails(pco_sequence_truncate(one, 6, &err), PCO_ERROR_INVALID, "has 5 tokens");
    check_ok(pco_sequence_append(one, NULL, 0, logits, NULL, NULL, &err));
    check_row(&f, logits, 5);
    check_ok(pco_sequence_append(one, f.ids + 5, 9, logits, NULL, NULL, &err));
    check_row(&f, logits, 14);
    check_fails(pco_sequence_append(one, f.ids, 27, logits, NULL, NULL, &err), PCO_ERROR_INVALID, "41");
    check_fails(pco_sequence_append(one, (int32_t[]){VOCAB}, 1, logits, NULL, NULL, &err), PCO_ERROR_INVALID,
                "token 0 is 288");
    check_fails(pco_sequences_step((pco_sequence *[]){one, one}, f.ids, 2, NULL, &err), PCO_ERROR_INVALID, "same");
    check_fails(pco_sequences_step((pco_sequence *[]){one, NULL}, f.ids, 2, NULL, &err), PCO_ERROR_INVALID, "NULL");
    check_fails(pco_sequences_step((pco_sequence *[]){one, two}, (int32_t[]){3, -1}, 2, NULL, &err), PCO_ERROR_INVALID,
                "sequence 1");
    check_ok(pco_sequence_append(one, f.ids + 14, 1, logits, NULL, NULL, &err));
    check_row(&f, logits, 15);
    pco_sequence_destroy(one);
    pco_sequence_destroy(two);
    fixture_close(&f);
}

/* What the callbacks of one call saw. */
typedef struct seen {
    int32_t ids[MOST];
    float logits[MOST][VOCAB];
    char text[4096];
    int64_t tokens, stop_at, prompts;
    int end_prompt;
} seen;

static int see_token(void *user, const pco_token *token)
{
    seen *s = user;
    assert_int_equal(token->step, s->tokens);
    assert_int_equal(token->vocab_size, VOCAB);
    s->ids[s->tokens] = token->id;
    memcpy(s->logits[s->tokens++], token->logits, sizeof s->logits[0]);
    return s->stop_at && s->tokens == s->stop_at;
}

static int see_text(void *user, const char *text, size_t bytes)
{
    strncat(((seen *)user)->text, text, bytes);
    return 0;
}

static int see_prompt(void *user, int64_t done, int64_t count)
{
    seen *s = user;
    s->prompts++;
    assert_true(done < count);
    return s->end_prompt;
}

/* Forces the text of the fixture: its next token, whatever the logits say. */
static const fixture *forced;
static int force(void *user, float *logits, int64_t vocab_size, int64_t step, int32_t *id)
{
    (void)user, (void)logits;
    assert_int_equal(vocab_size, VOCAB);
    *id = step < 8 ? forced->ids[10 + step] : VOCAB; /* which is none */
    return 0;
}

/* All but one token are impossible. */
static int mask(void *user, float *logits, int64_t vocab_size, int64_t step, int32_t *id)
{
    (void)user, (void)step, (void)id;
    for (int64_t i = 0; i < vocab_size; i++)
        if (i != 33) logits[i] = -INFINITY;
    return 0;
}

static int refuse(void *user, float *logits, int64_t vocab_size, int64_t step, int32_t *id)
{
    (void)user, (void)logits, (void)vocab_size, (void)id;
    return step == 2;
}

static void test_callbacks(void **state)
{
    fixture f;
    static seen s, again;
    pco_generate_stats stats = {.size = sizeof stats};
    (void)state;
    fixture_open("qwen2", 1, &f);
    forced = &f;
    pco_generate_params params = {.size = sizeof params,
                                  .max_tokens = 8,
                                  .prompt_ids = f.ids,
                                  .prompt_count = 10,
                                  .token = see_token,
                                  .sample = force,
                                  .progress = see_prompt};
    check_ok(pco_model_generate(f.model, NULL, &params, see_text, &s, &stats, &err));
    assert_int_equal(s.tokens, 8);
    assert_int_equal(stats.stop_reason, PCO_STOP_MAX_TOKENS);
    assert_true(s.prompts >= 1);
    assert_memory_equal(s.ids, f.ids + 10, 8 * sizeof *s.ids);
    for (size_t i = 0; i < 8; i++) check_row(&f, s.logits[i], 10 + i);
    params.max_tokens = 9;
    check_fails(pco_model_generate(f.model, NULL, &params, NULL, &again, NULL, &err), PCO_ERROR_INVALID,
                "token 288 at step 8");
    again = (seen){.stop_at = 3};
    params.max_tokens = 8;
    check_ok(pco_model_generate(f.model, NULL, &params, see_text, &again, &stats, &err));
    assert_int_equal(again.tokens, 3);
    assert_int_equal(stats.stop_reason, PCO_STOP_CALLBACK);
    params.sample = mask;
    again = (seen){0};
    check_ok(pco_model_generate(f.model, NULL, &params, NULL, &again, &stats, &err));
    for (int i = 0; i < 8; i++) assert_int_equal(again.ids[i], 33);
    params.sample = refuse;
    again = (seen){0};
    check_fails(pco_model_generate(f.model, NULL, &params, NULL, &again, &stats, &err), PCO_ERROR_CANCELLED, "token 2");
    params.sample = NULL;
    again = (seen){.end_prompt = 1};
    check_fails(pco_model_generate(f.model, NULL, &params, NULL, &again, &stats, &err), PCO_ERROR_CANCELLED,
                "after 0 of 10");
    check_fails(pco_model_generate(f.model, "x", &params, NULL, &again, NULL, &err), PCO_ERROR_INVALID,
                "as text and as ids");
    fixture_close(&f);
}

/* A sequence goes on with text behind text as one text would; greedy, from ids and from text. */
static void test_continue(void **state)
{
    fixture f;
    static seen whole, parts;
    pco_sequence *s;
    size_t count;
    float logits[VOCAB];
    (void)state;
    fixture_open("qwen2", 2, &f);
    pco_generate_params params = {
        .size = sizeof params, .max_tokens = 12, .prompt_ids = f.ids, .prompt_count = 6, .token = see_token};
    check_ok(pco_model_generate(f.model, NULL, &params, NULL, &whole, NULL, &err));
    check_ok(pco_sequence_create(f.model, &s, &err));
    params.max_tokens = 5;
    check_ok(pco_sequence_generate(s, NULL, &params, NULL, &parts, NULL, &err));
    (void)pco_sequence_ids(s, &count);
    assert_int_equal(count, 6 + parts.tokens);
    if (whole.tokens == 12) { /* no end before */
        const int64_t so_far = parts.tokens;
        params.prompt_ids = NULL;
        params.prompt_count = 0;
        params.max_tokens = 7;
        parts.tokens = 0;
        check_ok(pco_sequence_generate(s, "", &params, NULL, &parts, NULL, &err));
        assert_int_equal(parts.tokens, 7);
        assert_memory_equal(parts.ids, whole.ids + so_far, 7 * sizeof *parts.ids);
    }
    /* sampling by hand draws what generate draws */
    check_ok(pco_sequence_truncate(s, 6, &err));
    check_ok(pco_sequence_append(s, NULL, 0, logits, NULL, NULL, &err));
    params = (pco_generate_params){.size = sizeof params, .temperature = 1.5, .seed = 7, .max_tokens = 4};
    int32_t ids[4];
    for (uint64_t i = 0; i < 4; i++) {
        check_ok(pco_sample(&params, logits, VOCAB, i, &ids[i], &err));
        check_ok(pco_sequences_step(&s, &ids[i], 1, logits, &err));
    }
    check_ok(pco_sequence_truncate(s, 6, &err));
    parts = (seen){0};
    params.token = see_token;
    check_ok(pco_sequence_generate(s, "", &params, NULL, &parts, NULL, &err));
    for (int64_t i = 0; i < parts.tokens; i++) assert_int_equal(parts.ids[i], ids[i]);
    check_fails(pco_sample(&params, (float[]){NAN}, 1, 0, ids, &err), PCO_ERROR_INVALID, "NaN");
    pco_sequence_destroy(s);
    fixture_close(&f);
}

/* What a batch wrote for one prompt, or a call for it alone. */
typedef struct answer {
    char text[256];
    size_t bytes;
    int32_t ids[16];
    int64_t tokens;
    float last[VOCAB];
    pco_generate_stats stats;
    int whole;
} answer;

static int answer_text(void *user, const char *text, size_t bytes)
{
    answer *a = user;
    assert_true(a->bytes + bytes < sizeof a->text && !a->whole);
    memcpy(a->text + a->bytes, text, bytes);
    a->bytes += bytes;
    return 0;
}

static int answer_token(void *user, const pco_token *token)
{
    answer *a = user;
    assert_true(a->tokens < 16 && token->step == a->tokens && token->vocab_size == VOCAB);
    a->ids[a->tokens++] = token->id;
    memcpy(a->last, token->logits, sizeof a->last);
    return 0;
}

static int answer_whole(void *user, const pco_generate_stats *stats)
{
    answer *a = user;
    assert_false(a->whole);
    a->whole = 1;
    a->stats = *stats;
    return 0;
}

/* Each answer of a batch is that of its prompt alone, however many go side by side, and what prompts have in common is
 * read once. */
static void check_prompts(int64_t sequences, const pco_generate_params *how)
{
    static const char *const prompts[] = {"one two three four", "one two three five", "7", "one two", "zebra 0", "7"};
    enum { PROMPTS = sizeof prompts / sizeof *prompts };
    static answer alone[PROMPTS], together[PROMPTS];
    void *users[PROMPTS];
    fixture f;
    pco_generate_params params = *how;
    pco_generate_stats stats = {.size = sizeof stats};
    fixture_open("qwen2", sequences, &f);
    params.token = answer_token;
    memset(alone, 0, sizeof alone);
    memset(together, 0, sizeof together);
    for (size_t i = 0; i < PROMPTS; i++) {
        alone[i].stats.size = sizeof stats;
        users[i] = &together[i];
        check_ok(pco_model_generate(f.model, prompts[i], &params, answer_text, &alone[i], &alone[i].stats, &err));
    }
    check_ok(
        pco_model_generate_batch(f.model, prompts, PROMPTS, &params, answer_text, answer_whole, users, &stats, &err));
    int64_t prompt_tokens = 0, generated = 0, shared = 0;
    for (size_t i = 0; i < PROMPTS; i++) {
        const answer *a = &alone[i], *b = &together[i];
        assert_true(b->whole && b->bytes == a->bytes && b->tokens == a->tokens);
        assert_memory_equal(b->text, a->text, a->bytes);
        assert_memory_equal(b->ids, a->ids, (size_t)a->tokens * sizeof *a->ids);
        assert_int_equal(b->stats.stop_reason, a->stats.stop_reason);
        assert_int_equal(b->stats.prompt_tokens, a->stats.prompt_tokens);
        assert_int_equal(b->stats.context_shifts, a->stats.context_shifts);
        double want[VOCAB]; /* both have an error of up to the MODELS_TOLERANCE; a grammar leaves -infinity in them */
        for (int k = 0; k < VOCAB; k++) want[k] = (double)a->last[k];
        assert_true(!a->tokens || params.grammar ||
                    models_error(b->last, want, VOCAB, VOCAB, 2 * MODELS_TOLERANCE) <= 1);
        prompt_tokens += a->stats.prompt_tokens;
        generated += a->stats.generated_tokens;
        shared += b->stats.shared_tokens;
    }
    assert_int_equal(stats.prompt_tokens, prompt_tokens);
    assert_int_equal(stats.generated_tokens, generated);
    assert_int_equal(stats.shared_tokens, shared);
    if (sequences > 1)
        assert_true(together[1].stats.shared_tokens >= 8); /* bytes of "one two three " at the least, if not tokens */
    if (sequences == PROMPTS) {
        assert_int_equal(together[5].stats.shared_tokens, together[5].stats.prompt_tokens - 1); /* all but the last */
        assert_int_equal(together[0].stats.shared_tokens, 0);
    }
    check_fails(pco_model_generate_batch(f.model, (const char *[]){"a", NULL}, 2, NULL, NULL, NULL, NULL, NULL, &err),
                PCO_ERROR_INVALID, "prompt 1 is NULL");
    params.prompt_ids = f.ids;
    params.prompt_count = 3;
    check_fails(pco_model_generate_batch(f.model, prompts, 1, &params, NULL, NULL, NULL, NULL, &err), PCO_ERROR_INVALID,
                "leave prompt_ids out");
    fixture_close(&f);
}

static void test_prompts(void **state)
{
    (void)state;
    pco_generate_params params = {.size = sizeof params, .max_tokens = 9};
    check_prompts(6, &params);
    check_prompts(2, &params);
    check_prompts(1, &params);
    params.temperature = 1.2;
    params.seed = 3;
    params.grammar = "root ::= [a-z0-9 ]*";
    check_prompts(3, &params);
}

/* A prompt that is wrong ends the call by its number, and the model is as good as new; an encoder-decoder answers one
 * after the other. */
static void test_prompts_fail(void **state)
{
    fixture f;
    static answer a[2];
    char longest[6000];
    pco_model *model;
    (void)state;
    fixture_open("qwen2", 2, &f);
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    pco_generate_params params = {.size = sizeof params, .max_tokens = 3, .token = answer_token};
    void *users[] = {&a[0], &a[1]};
    check_fails(
        pco_model_generate_batch(f.model, (const char *[]){"a", longest}, 2, &params, NULL, NULL, users, NULL, &err),
        PCO_ERROR_INVALID, "prompt 1: the prompt has");
    memset(a, 0, sizeof a);
    check_ok(pco_model_generate_batch(f.model, (const char *[]){"a", "b"}, 2, &params, answer_text, answer_whole, users,
                                      NULL, &err));
    assert_true(a[0].whole && a[1].whole && a[0].tokens);
    check_ok(pco_model_open(f.context, dates, NULL, &model, &err));
    memset(a, 0, sizeof a);
    params.token = NULL;
    params.max_tokens = 0;
    check_ok(pco_model_generate_batch(model, (const char *[]){"3 May 2021", "4 June 2022"}, 2, &params, answer_text,
                                      answer_whole, users, NULL, &err));
    assert_string_equal(a[0].text, "2021-05-03");
    assert_string_equal(a[1].text, "2022-06-04");
    pco_model_close(model);
    fixture_close(&f);
}

/* Hidden states times the output projection of the file, in double, are the logits: their error is that of the hidden
 * states, which is part of the logits' own. */
static void check_hidden(const fixture *f, const void *bytes, size_t size, const float *hidden)
{
    pco_gguf *gguf;
    check_ok(pco_gguf_parse(bytes, size, "the model", 0, &gguf, &err));
    const float *projection = pco_weights_find(pco_gguf_weights(gguf), "output.weight")->data;
    for (size_t row = 0; row < f->count; row++) {
        float logits[VOCAB];
        for (int id = 0; id < VOCAB; id++) {
            double sum = 0;
            for (int c = 0; c < 32; c++) sum += (double)hidden[row * 32 + (size_t)c] * (double)projection[id * 32 + c];
            logits[id] = (float)sum;
        }
        check_row(f, logits, row + 1);
    }
    pco_gguf_close(gguf);
}

/* The bytes of a file are a model too; its hidden states times the output projection are its logits; its vocabulary. */
static void test_memory(void **state)
{
    fixture f;
    pco_model *model;
    pco_special_ids special = {.size = sizeof special};
    pco_model_info info = {.size = sizeof info};
    static float logits[MOST * VOCAB], hidden[MOST * 32];
    (void)state;
    fixture_open("qwen2", 1, &f);
    FILE *in = fopen(f.path, "rb");
    assert_non_null(in);
    static _Alignas(32) unsigned char bytes[1 << 18];
    const size_t size = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    check_ok(pco_model_open_memory(f.context, bytes, size, NULL, &model, &err));
    check_ok(pco_model_logits(model, f.ids, f.count, logits, &err));
    for (size_t i = 0; i < f.count; i++) check_row(&f, logits + i * VOCAB, i + 1);
    check_ok(pco_model_hidden_states(model, f.ids, f.count, hidden, &err));
    check_hidden(&f, bytes, size, hidden);
    pco_model_describe(model, &info);
    assert_int_equal(info.width, 32);
    assert_int_equal(info.sequences, 1);
    check_ok(pco_model_special_ids(model, &special, &err));
    assert_int_equal(special.eos, 0);
    assert_int_equal(special.decoder_start, -1);
    assert_true(pco_model_ends(model, special.eos));
    assert_false(pco_model_ends(model, 5));
    size_t length;
    assert_non_null(pco_model_token(model, 5, &length));
    assert_int_equal(length, 1);
    assert_null(pco_model_token(model, VOCAB, &length));
    pco_model_close(model);
    check_fails(pco_model_open_memory(f.context, bytes, 100, NULL, &model, &err), PCO_ERROR_FORMAT, "memory");
    check_fails(pco_model_open(f.context, f.path,
                               &(pco_model_params){.size = sizeof(pco_model_params), .sequences = 1025}, &model, &err),
                PCO_ERROR_INVALID, "1 to 1024");
    fixture_close(&f);
}

/* An encoder-decoder takes ids too, and has hidden states of what it reads; those on the device are those of the
 * reference, within twice the MODELS_TOLERANCE of a model's results. */
static void test_encoder(void **state)
{
    enum { WIDTH_MOST = 1024 };
    pco_context *context, *reference;
    pco_model *model, *other;
    pco_sequence *none;
    pco_model_info info = {.size = sizeof info};
    int32_t *ids;
    size_t count;
    static float hidden[24 * WIDTH_MOST], wanted[24 * WIDTH_MOST];
    static double want[24 * WIDTH_MOST];
    static seen text, same;
    (void)state;
    const pco_context_params params = {.size = sizeof params, .backend = "cpu:reference"};
    check_ok(pco_context_create(NULL, &context, &err));
    check_ok(pco_context_create(&params, &reference, &err));
    check_ok(pco_model_open(context, dates, NULL, &model, &err));
    check_ok(pco_model_open(reference, dates, NULL, &other, &err));
    check_ok(pco_model_tokenize(model, "3 Sep 2051", 10, PCO_TOKENIZE_ENDS, &ids, &count, &err));
    pco_model_describe(model, &info);
    assert_true(count <= 24 && info.width <= WIDTH_MOST);
    check_ok(pco_model_hidden_states(model, ids, count, hidden, &err));
    check_ok(pco_model_hidden_states(other, ids, count, wanted, &err));
    for (size_t i = 0; i < count * (size_t)info.width; i++) want[i] = wanted[i];
    assert_true(models_error(hidden, want, (int64_t)count * info.width, info.width, 2 * MODELS_TOLERANCE) <= 1);
    check_ok(pco_model_generate(model, "3 Sep 2051", NULL, see_text, &text, NULL, &err));
    const pco_generate_params by_ids = {.size = sizeof by_ids, .prompt_ids = ids, .prompt_count = count};
    check_ok(pco_model_generate(model, NULL, &by_ids, see_text, &same, NULL, &err));
    assert_string_equal(text.text, "2051-09-03");
    assert_string_equal(same.text, text.text);
    check_fails(pco_sequence_create(model, &none, &err), PCO_ERROR_UNSUPPORTED, "encoder-decoder");
    free(ids);
    pco_model_close(model);
    pco_model_close(other);
    pco_context_destroy(context);
    pco_context_destroy(reference);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_batch),     cmocka_unit_test(test_fork),
                                       cmocka_unit_test(test_callbacks), cmocka_unit_test(test_continue),
                                       cmocka_unit_test(test_prompts),   cmocka_unit_test(test_prompts_fail),
                                       cmocka_unit_test(test_memory),    cmocka_unit_test(test_encoder)};
    if (argc != 3) return 2;
    folder = argv[1];
    dates = argv[2];
    return cmocka_run_group_tests_name("sequences", tests, NULL, NULL);
}
