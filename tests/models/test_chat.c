/* test_chat FOLDER: portico/chat.h on the device that PORTICO_BACKEND picks, with a tiny model of the folder and
 * templates of our own. What templates make of messages is test_template's. */
#include "models_test.h"

#include <portico/chat.h>

#include <string.h>

static const char *folder;
static const char source[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|endoftext|>{% endfor %}"
                             "{% if add_generation_prompt %}<assistant>{% endif %}";

typedef struct chat_fixture {
    pco_context *context;
    pco_model *model;
    pco_sequence *sequence;
} chat_fixture;

static void chat_open(chat_fixture *f, int64_t context_length)
{
    char path[512];
    snprintf(path, sizeof path, "%s/qwen2.gguf", folder);
    const pco_model_params params = {.size = sizeof params, .context_length = context_length, .sequences = 2};
    check_ok(pco_context_create(NULL, &f->context, &err));
    check_ok(pco_model_open(f->context, path, &params, &f->model, &err));
    check_ok(pco_sequence_create(f->model, &f->sequence, &err));
}

static void chat_close(chat_fixture *f)
{
    pco_sequence_destroy(f->sequence);
    pco_model_close(f->model);
    pco_context_destroy(f->context);
}

typedef struct chat_said {
    char data[2048];
    size_t size;
    int64_t tokens, most;
} chat_said;

static int chat_text(void *user, const char *text, size_t bytes)
{
    chat_said *said = user;
    assert_true(said->size + bytes < sizeof said->data);
    memcpy(said->data + said->size, text, bytes);
    said->size += bytes;
    said->data[said->size] = 0;
    return 0;
}

static int chat_token(void *user, const pco_token *token)
{
    chat_said *said = user;
    assert_int_equal(token->step, said->tokens);
    return ++said->tokens == said->most;
}

/* Of a sampler: letters, and then the token that ends a turn. */
static int chat_sample(void *user, float *logits, int64_t vocab_size, int64_t step, int32_t *id)
{
    (void)user, (void)logits, (void)vocab_size;
    *id = step < 3 ? 60 + (int32_t)step : 0;
    return 0;
}

/* The likeliest of the tokens that are one sign of ASCII each: what a random model writes is no UTF-8. */
static int chat_ascii(void *user, float *logits, int64_t vocab_size, int64_t step, int32_t *id)
{
    (void)user, (void)step, (void)id;
    for (int64_t i = 0; i < vocab_size; i++)
        if (i < 1 || i > 94) logits[i] = -INFINITY;
    return 0;
}

static void test_render(void **state)
{
    static const pco_chat_message talk[] = {{"system", "S"}, {"user", "<b>\n\"é\""}};
    chat_fixture f;
    char *text, *own;
    size_t bytes, count;
    int32_t *ids;
    (void)state;
    chat_open(&f, 64);
    const pco_chat_params
        begun = {.size = sizeof begun, .source = source},
        complete = {.size = sizeof complete, .source = source, .complete = 1},
        more = {.size = sizeof more,
                .source = "{{ x }}{{ messages | length }}{{ tools is none }}{{ eos_token }}{{ strftime_now('%Y') }}",
                .time = 86400 * 366,
                .variables = "{\"x\": [1], \"messages\": [{\"role\": \"user\"}, {}]}"};
    check_ok(pco_chat_render(f.model, talk, 2, &begun, &text, &bytes, &err));
    assert_string_equal(text, "<system>S<|endoftext|><user><b>\n\"é\"<|endoftext|><assistant>");
    assert_int_equal(bytes, strlen(text));
    pco_free(text);
    check_ok(pco_chat_render(f.model, talk, 1, &complete, &text, &bytes, &err));
    assert_string_equal(text, "<system>S<|endoftext|>");
    check_ok(pco_chat_encode(f.model, talk, 1, &complete, &ids, &count, &err));
    assert_int_equal(ids[count - 1], 0); /* <|endoftext|> is one token */
    pco_free(ids);
    pco_free(text);
    check_ok(pco_chat_render(f.model, NULL, 0, &more, &text, &bytes, &err));
    assert_string_equal(text, "[1]2True<|endoftext|>1971");
    pco_free(text);
    check_fails(pco_chat_render(f.model, talk, 2, &more, &text, &bytes, &err), PCO_ERROR_INVALID, "leave one out");
    check_fails(pco_chat_render(f.model, &(pco_chat_message){"user", NULL}, 1, &begun, &text, &bytes, &err),
                PCO_ERROR_INVALID, "message 0 has no content");
    check_fails(pco_chat_render(f.model, &(pco_chat_message){"user", "\xFF"}, 1, &begun, &text, &bytes, &err),
                PCO_ERROR_INVALID, "not UTF-8 at byte 0");
    check_fails(pco_chat_source(f.model, &own, &err), PCO_ERROR_NOT_FOUND, "no chat template");
    check_fails(pco_chat_render(f.model, talk, 2, NULL, &text, &bytes, &err), PCO_ERROR_NOT_FOUND, "no chat template");
    chat_close(&f);
}

/* Turn by turn, what a sequence keeps gives the text of one that reads everything anew. */
static void test_turns(void **state)
{
    pco_chat_message talk[] = {{"user", "one two three"}, {"assistant", NULL}, {"user", "and four"}};
    const pco_chat_params params = {.size = sizeof params, .source = source};
    const pco_generate_params generate = {.size = sizeof generate, .max_tokens = 12, .sample = chat_ascii};
    pco_generate_stats first = {.size = sizeof first}, second = first, fresh = first;
    chat_said one = {.size = 0}, two = {.size = 0}, anew = {.size = 0};
    chat_fixture f;
    pco_sequence *other;
    int32_t *ids;
    size_t count;
    (void)state;
    chat_open(&f, 256);
    check_ok(pco_chat_answer(f.sequence, talk, 1, &params, &generate, chat_text, &one, &first, &err));
    check_ok(pco_chat_encode(f.model, talk, 1, &params, &ids, &count, &err));
    assert_int_equal(first.prompt_tokens, count);
    pco_free(ids);
    talk[1].content = one.data;
    check_ok(pco_chat_answer(f.sequence, talk, 3, &params, &generate, chat_text, &two, &second, &err));
    check_ok(pco_sequence_create(f.model, &other, &err));
    check_ok(pco_chat_answer(other, talk, 3, &params, &generate, chat_text, &anew, &fresh, &err));
    assert_string_equal(two.data, anew.data);
    assert_true(second.prompt_tokens <= fresh.prompt_tokens - first.prompt_tokens);
    /* asked again, it reads one token */
    anew.size = 0;
    check_ok(pco_chat_answer(other, talk, 3, &params, &generate, chat_text, &anew, &fresh, &err));
    assert_int_equal(fresh.prompt_tokens, 1);
    assert_string_equal(two.data, anew.data);
    pco_sequence_destroy(other);
    chat_close(&f);
}

static void test_ends(void **state)
{
    static const pco_chat_message talk[] = {{"user", "a"}};
    const pco_chat_params params = {.size = sizeof params, .source = source};
    pco_generate_params generate = {.size = sizeof generate, .sample = chat_sample, .token = chat_token};
    pco_generate_stats stats = {.size = sizeof stats};
    chat_said said = {.most = -1};
    chat_fixture f;
    (void)state;
    chat_open(&f, 40);
    check_ok(pco_chat_answer(f.sequence, talk, 1, &params, &generate, chat_text, &said, &stats, &err));
    assert_int_equal(stats.stop_reason, PCO_STOP_END);
    assert_int_equal(stats.generated_tokens, 3);
    said = (chat_said){.most = 2};
    check_ok(pco_chat_answer(f.sequence, talk, 1, &params, &generate, chat_text, &said, &stats, &err));
    assert_int_equal(stats.stop_reason, PCO_STOP_CALLBACK);
    assert_int_equal(stats.generated_tokens, 2);
    generate.echo = 1;
    check_fails(pco_chat_answer(f.sequence, talk, 1, &params, &generate, NULL, NULL, NULL, &err), PCO_ERROR_INVALID,
                "echo");
    const pco_chat_message wide = {"user",
                                   "a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m"};
    check_fails(pco_chat_answer(f.sequence, &wide, 1, &params, NULL, NULL, NULL, NULL, &err), PCO_ERROR_INVALID,
                "the context of 40 leaves no room");
    chat_close(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_render), cmocka_unit_test(test_turns),
                                       cmocka_unit_test(test_ends)};
    if (argc < 2) return 2;
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
