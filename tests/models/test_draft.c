/* test_draft FOLDER: with a draft the text is the one without, on the device that PORTICO_BACKEND picks. */
#include "models_test.h"

#include "portico/sequence.h"

enum { MOST = 128, PROMPT = 7, STOP = 33 };

static const char *folder;

typedef struct written {
    int32_t ids[MOST];
    float last[512];               /* logits of the last token */
    int64_t count, vocab, stop_at; /* stop_at 0: never */
} written;

static int see(void *user, const pco_token *token)
{
    written *w = user;
    assert_true(w->count < MOST && token->vocab_size <= 512);
    w->ids[w->count++] = token->id;
    w->vocab = token->vocab_size;
    memcpy(w->last, token->logits, (size_t)token->vocab_size * sizeof *w->last);
    return w->count == w->stop_at;
}

static pco_model *open_model(pco_context *context, const char *name, int64_t length)
{
    char path[512];
    pco_model *model;
    const pco_model_params params = {.size = sizeof params, .context_length = length, .sequences = 2};
    snprintf(path, sizeof path, "%s/%s.gguf", folder, name);
    check_ok(pco_model_open(context, path, &params, &model, &err));
    return model;
}

/* The same with and without; returns what share of the draft's tokens was accepted. */
static double check_same(pco_model *model, pco_model *draft, const pco_generate_params *how, pco_sequence *sequence)
{
    static written alone, with;
    pco_generate_params params = *how;
    pco_generate_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    alone.count = with.count = 0;
    alone.stop_at = with.stop_at = sequence ? STOP : 0;
    params.token = see;
    check_ok(pco_model_generate(model, NULL, &params, NULL, &alone, &before, &err));
    params.draft = draft;
    check_ok(sequence ? pco_sequence_generate(sequence, NULL, &params, NULL, &with, &after, &err)
                      : pco_model_generate(model, NULL, &params, NULL, &with, &after, &err));
    assert_int_equal(with.count, alone.count);
    assert_memory_equal(with.ids, alone.ids, (size_t)alone.count * sizeof *alone.ids);
    assert_int_equal(after.stop_reason, before.stop_reason);
    assert_int_equal(after.context_shifts, before.context_shifts);
    assert_int_equal(before.drafted_tokens, 0);
    assert_true(after.accepted_tokens <= after.drafted_tokens && after.accepted_tokens <= after.generated_tokens);
    double want[512]; /* both are within 1e-4 of the truth (test_families) */
    for (int64_t i = 0; i < alone.vocab; i++) want[i] = (double)alone.last[i];
    assert_true(models_error(with.last, want, alone.vocab, alone.vocab, 2e-4) <= 1);
    return after.drafted_tokens ? (double)after.accepted_tokens / (double)after.drafted_tokens : -1;
}

static void check_pair(const char *name, const char *other)
{
    pco_context *context;
    int32_t prompt[PROMPT];
    for (int i = 0; i < PROMPT; i++) prompt[i] = 20 + 5 * i;
    check_ok(pco_context_create(NULL, &context, &err));
    pco_model *model = open_model(context, name, 300), *twin = open_model(context, name, 300),
              *stranger = open_model(context, other, 300), *brief = open_model(context, name, 20);
    pco_generate_params params = {
        .size = sizeof params, .prompt_ids = prompt, .prompt_count = PROMPT, .max_tokens = 60, .draft_tokens = 3};
    /* the twin errs only where a text is shorter than what it proposes */
    assert_true(check_same(model, twin, &params, NULL) == 1);
    const double share = check_same(model, stranger, &params, NULL);
    print_message("  %s for %s: %.2f accepted\n", other, name, share);
    assert_true(share >= 0 && share < 0.9);
    check_same(model, brief, &params, NULL); /* which falls silent when its context is full */
    params.temperature = 1.3;
    params.seed = 11;
    params.top_k = 20;
    params.repeat_penalty = 1.2;
    assert_true(check_same(model, twin, &params, NULL) == 1); /* it draws with the same numbers */
    check_same(model, stranger, &params, NULL);
    params.draft_tokens = 0;
    pco_sequence *s;
    float next[512], fresh[512];
    size_t count;
    check_ok(pco_sequence_create(model, &s, &err));
    check_same(model, twin, &params, s);
    /* what was read ahead is forgotten: the sequence goes on from its own tokens */
    (void)pco_sequence_ids(s, &count);
    assert_int_equal(count, PROMPT + STOP);
    check_ok(pco_sequence_append(s, prompt, 2, next, NULL, NULL, &err));
    int32_t all[MOST];
    const int32_t *ids = pco_sequence_ids(s, &count);
    memcpy(all, ids, count * sizeof *all);
    pco_sequence_destroy(s);
    check_ok(pco_sequence_create(twin, &s, &err));
    check_ok(pco_sequence_append(s, all, count, fresh, NULL, NULL, &err));
    pco_sequence_destroy(s);
    pco_model_info info = {.size = sizeof info};
    pco_model_describe(model, &info);
    double want[512];
    for (int64_t i = 0; i < info.vocab_size; i++) want[i] = (double)fresh[i];
    assert_true(models_error(next, want, info.vocab_size, info.vocab_size, 2e-4) <= 1);
    /* over a full context: a model with 24 tokens */
    pco_model *narrow = open_model(context, name, 24);
    params.context_shift = 1;
    params.keep = 4;
    check_same(narrow, twin, &params, NULL);
    check_same(narrow, stranger, &params, NULL);
    params.context_shift = 0;
    params.keep = 0;
    check_same(narrow, stranger, &params, NULL);
    pco_model_close(narrow);
    pco_model_close(brief);
    pco_model_close(stranger);
    pco_model_close(twin);
    pco_model_close(model);
    pco_context_destroy(context);
}

static void test_same(void **state)
{
    (void)state;
    check_pair("gptneox", "gptneox-sequential");
}

static void test_refused(void **state)
{
    pco_context *context;
    const int32_t prompt[] = {5};
    (void)state;
    check_ok(pco_context_create(NULL, &context, &err));
    pco_model *model = open_model(context, "gptneox", 40), *other = open_model(context, "qwen2", 40);
    pco_generate_params params = {.size = sizeof params, .prompt_ids = prompt, .prompt_count = 1, .draft = other};
    check_fails(pco_model_generate(model, NULL, &params, NULL, NULL, NULL, &err), PCO_ERROR_INVALID, "vocabulary of");
    params.draft = model;
    check_fails(pco_model_generate(model, NULL, &params, NULL, NULL, NULL, &err), PCO_ERROR_INVALID, "model itself");
    pco_model_close(other);
    params.draft = other = open_model(context, "gptneox", 40);
    params.draft_tokens = 65;
    check_fails(pco_model_generate(model, NULL, &params, NULL, NULL, NULL, &err), PCO_ERROR_INVALID, "1 to 64");
    params.draft_tokens = 0;
    pco_sequence *s[2];
    for (int i = 0; i < 2; i++) check_ok(pco_sequence_create(other, &s[i], &err));
    check_fails(pco_model_generate(model, NULL, &params, NULL, NULL, NULL, &err), PCO_ERROR_INVALID, "room for 2");
    for (int i = 0; i < 2; i++) pco_sequence_destroy(s[i]);
    check_ok(pco_model_generate(model, NULL, &params, NULL, NULL, NULL, &err));
    pco_model_close(other);
    pco_model_close(model);
    pco_context_destroy(context);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same), cmocka_unit_test(test_refused)};
    if (argc != 2) return 2;
    folder = argv[1];
    return cmocka_run_group_tests_name("draft", tests, NULL, NULL);
}
