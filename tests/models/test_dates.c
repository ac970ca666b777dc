/* test_dates FOLDER [LINES]: greedy answers of models/dates for the first LINES pairs of FOLDER/test.tsv (all
 * of them when it is missing), through the public API. At least 99% are right: the trained model has all of
 * them right, and float32 on another device may tip a close decision. */
#include "check.h"

#include <portico/portico.h>

typedef struct dates_run {
    const char *folder;
    long lines;
} dates_run;

typedef struct dates_text {
    char data[256];
    size_t size;
} dates_text;

static int dates_collect(void *user, const char *text, size_t bytes)
{
    dates_text *out = user;
    if (out->size + bytes >= sizeof out->data) return 1;
    memcpy(out->data + out->size, text, bytes);
    out->size += bytes;
    out->data[out->size] = 0;
    return 0;
}

static void test_accuracy(void **state)
{
    const dates_run *run = *state;
    pco_context *context;
    pco_model *model;
    pco_generate_stats stats = {0};
    char path[1024], line[512];
    long right = 0, total = 0;
    double seconds = 0;
    check_ok(pco_context_create(NULL, &context, &err));
    check_ok(pco_model_open(context, run->folder, NULL, &model, &err));
    snprintf(path, sizeof path, "%s/test.tsv", run->folder);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    while (total < run->lines && fgets(line, sizeof line, in)) {
        dates_text text = {.size = 0};
        char *tab = strchr(line, '\t');
        assert_non_null(tab);
        *tab++ = 0;
        tab[strcspn(tab, "\n")] = 0;
        check_ok(pco_model_generate(model, line, NULL, dates_collect, &text, &stats, &err));
        int good = strcmp(text.data, tab) == 0 && stats.stop_reason == PCO_STOP_END;
        if (!good) print_message("  %s: %s, not %s\n", line, text.data, tab);
        right += good;
        total++;
        seconds += stats.prompt_seconds + stats.generation_seconds;
    }
    fclose(in);
    print_message("  %ld of %ld right, %.1f ms each\n", right, total,
                  total ? 1e3 * seconds / (double)total : 0);
    assert_true(total > 0);
    assert_true(right * 100 >= total * 99);
    pco_model_close(model);
    pco_context_destroy(context);
}

static void test_edges(void **state)
{
    const dates_run *run = *state;
    pco_context *context;
    pco_model *model;
    dates_text text = {.size = 0};
    double *log_probs;
    size_t count;
    pco_generate_stats stats;
    check_ok(pco_context_create(NULL, &context, &err));
    check_ok(pco_model_open(context, run->folder, NULL, &model, &err));
    check_ok(pco_model_generate(model, "", NULL, dates_collect, &text, NULL, &err));
    assert_int_equal(text.size, 0);
    pco_generate_params three = {.max_tokens = 3};
    check_ok(pco_model_generate(model, "3 Sep 51", &three, dates_collect, &text, &stats, &err));
    assert_string_equal(text.data, "205");
    assert_int_equal(stats.stop_reason, PCO_STOP_MAX_TOKENS);
    char long_source[101] = "";
    memset(long_source, '1', 100);
    check_fails(pco_model_generate(model, long_source, NULL, NULL, NULL, NULL, &err), PCO_ERROR_INVALID,
                "the source has 101 tokens and the context 64");
    check_fails(pco_model_generate(model, "\xc3\xa9", NULL, NULL, NULL, NULL, &err), PCO_ERROR_INVALID, "");
    check_ok(pco_model_score(model, "3 Sep 51", "2051-09-03", &log_probs, &count, &err));
    assert_int_equal(count, 11);
    for (size_t i = 0; i < count; i++) assert_true(log_probs[i] <= 0 && log_probs[i] > -0.1);
    pco_free(log_probs);
    check_fails(pco_model_logits(model, (int32_t[]){1}, 1, NULL, &err), PCO_ERROR_UNSUPPORTED,
                "encoder-decoder");
    pco_model_close(model);
    pco_context_destroy(context);
}

int main(int argc, char **argv)
{
    /* All lines on the CPU; the first ones elsewhere, where a software driver takes a second for each. */
    const char *backend = getenv("PORTICO_BACKEND");
    long lines = backend && strncmp(backend, "cpu", 3) != 0 ? 25 : 1000000;
    dates_run run = {argc > 1 ? argv[1] : "models/dates", argc > 2 ? atol(argv[2]) : lines};
    const struct CMUnitTest tests[] = {
        {"accuracy", test_accuracy, NULL, NULL, &run},
        {"edges", test_edges, NULL, NULL, &run},
    };
    return cmocka_run_group_tests_name("dates", tests, NULL, NULL);
}
