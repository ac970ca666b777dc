/* test_constraint FOLDER: what is generated under a grammar is a text of it, on the device that PORTICO_BACKEND picks,
 * with tokens of single bytes and of several, greedy, drawn and with a draft; and drawn from what is left as if nothing
 * else were there. */
#include "models_test.h"

#include "portico/beam.h"
#include "text/grammar.h"

#include <math.h>

enum { MOST_BYTES = 4096 };

static const char *folder;

typedef struct written {
    char text[MOST_BYTES];
    size_t size;
    int64_t tokens, allowed; /* allowed: of the first token, how many logits are no -infinity */
} written;

static int write_text(void *user, const char *text, size_t bytes)
{
    written *w = user;
    assert_true(w->size + bytes < MOST_BYTES);
    memcpy(w->text + w->size, text, bytes);
    w->text[w->size += bytes] = 0;
    return 0;
}

static int see(void *user, const pco_token *token)
{
    written *w = user;
    assert_true(token->logits[token->id] > -INFINITY);
    for (int64_t i = 0; w->tokens == 0 && i < token->vocab_size; i++) w->allowed += token->logits[i] > -INFINITY;
    w->tokens++;
    return 0;
}

/* Is it a text of the grammar (whole), or the beginning of one? */
static void check_in(const char *grammar, const written *w, int whole)
{
    pco_grammar *g;
    pco_grammar_text *text;
    int allowed;
    check_ok(pco_grammar_parse(grammar, strlen(grammar), "g", &g, &err));
    check_ok(pco_grammar_begin(g, &text, &err));
    for (size_t i = 0; i < w->size; i++) {
        check_ok(pco_grammar_push(text, (unsigned char)w->text[i], &allowed, &err));
        if (!allowed) fail_msg("'%s' is no text of %s", w->text, grammar);
    }
    if (whole && !pco_grammar_complete(text)) fail_msg("'%s' is only the beginning of a text of %s", w->text, grammar);
    pco_grammar_end(text);
    pco_grammar_destroy(g);
}

static void open_models(const char *name, pco_context **context, pco_model **model, pco_model **twin)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.gguf", folder, name);
    check_ok(pco_context_create(NULL, context, &err));
    check_ok(pco_model_open(*context, path, NULL, model, &err));
    check_ok(pco_model_open(*context, path, NULL, twin, &err));
}

static void test_texts(void **state)
{
    static const struct {
        const char *text;
        int ends; /* within the tokens of a test */
    } grammars[] = {
        {"root ::= (\"yes\" | \"no\" | \"\\u00e9t\\u00e9\") [0-9]{3} \"\\U0001F600\"", 1},
        {"root ::= [\\u3042-\\u3096]{2} | \"<\" root \">\"", 0},
        {"root ::= item (\", \" item){2}\nitem ::= [a-z]+", 0},
        {"root ::= \"\"", 1},
    };
    pco_context *context;
    pco_model *model, *twin;
    (void)state;
    open_models("gpt2", &context, &model, &twin);
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            static written w, drafted;
            pco_generate_stats stats = {.size = sizeof stats};
            pco_generate_params params = {.size = sizeof params,
                                          .max_tokens = 25,
                                          .temperature = seed ? 2 : 0,
                                          .seed = seed,
                                          .token = see,
                                          .grammar = grammars[i].text};
            w = drafted = (written){.size = 0};
            check_ok(pco_model_generate(model, "abc", &params, write_text, &w, &stats, &err));
            check_in(grammars[i].text, &w, stats.stop_reason == PCO_STOP_END);
            if (grammars[i].ends) assert_int_equal(stats.stop_reason, PCO_STOP_END);
            params.draft = twin;
            check_ok(pco_model_generate(model, "abc", &params, write_text, &drafted, NULL, &err));
            assert_string_equal(drafted.text, w.text);
            if (seed == 0) print_message("  %s\n", w.text);
        }
    pco_model_close(twin);
    pco_model_close(model);
    pco_context_destroy(context);
}

static int ignore(void *user, const pco_beam *beam)
{
    (void)user;
    (void)beam;
    return 0;
}

/* Of a digit, the tokens that are one, and no others, may come; what is wrong is said. */
static void test_first(void **state)
{
    pco_context *context;
    pco_model *model, *twin;
    static written w;
    int64_t digits = 0;
    (void)state;
    open_models("gpt2", &context, &model, &twin);
    pco_model_info info = {.size = sizeof info};
    pco_model_describe(model, &info);
    for (int32_t id = 0; id < info.vocab_size; id++) {
        size_t bytes;
        const char *token = pco_model_token(model, id, &bytes);
        digits += token && bytes == 1 && *token >= '0' && *token <= '9';
    }
    pco_generate_params params = {.size = sizeof params, .token = see, .grammar = "root ::= [0-9]"};
    w = (written){.size = 0};
    check_ok(pco_model_generate(model, "abc", &params, write_text, &w, NULL, &err));
    assert_int_equal(w.allowed, digits);
    assert_true(digits == 10 && w.tokens == 1);
    params.grammar = "root ::= digit";
    check_fails(pco_model_generate(model, "abc", &params, NULL, &w, NULL, &err), PCO_ERROR_FORMAT,
                "the grammar, line 1: the rule 'digit'");
    params.token = NULL;
    params.grammar = "root ::= \"a\"";
    const pco_beam_params beams = {.size = sizeof beams};
    check_fails(pco_model_beam_search(model, "abc", &params, &beams, ignore, NULL, NULL, &err), PCO_ERROR_INVALID,
                "grammar");
    pco_model_close(twin);
    pco_model_close(model);
    pco_context_destroy(context);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts), cmocka_unit_test(test_first)};
    if (argc != 2) return 2;
    folder = argv[1];
    return cmocka_run_group_tests_name("constraint", tests, NULL, NULL);
}
