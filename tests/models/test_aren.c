/* test_aren FOLDER: the Arabic to Latin transliteration model of FOLDER (ct2-aren of the shared data),
 * and what CTranslate2 publishes for it (tests/translator_test.cc there). Without FOLDER the test
 * is skipped (77). */
#include "check.h"

#include <math.h>
#include <portico/beam.h>
#include <portico/portico.h>
#include <unistd.h>

typedef struct aren_run {
    const char *folder, *name;
    int exact; /* log-probabilities are published for the float model */
    pco_context *context;
    pco_model *model;
} aren_run;

typedef struct aren_text {
    char data[256];
    size_t size;
} aren_text;

static int aren_collect(void *user, const char *text, size_t bytes)
{
    aren_text *out = user;
    if (out->size + bytes >= sizeof out->data) return 1;
    memcpy(out->data + out->size, text, bytes);
    out->size += bytes;
    out->data[out->size] = 0;
    return 0;
}

static int aren_open(void **state)
{
    aren_run *run = *state;
    char from[1024];
    pco_error error;
    snprintf(from, sizeof from, "%s/%s", run->folder, run->name);
    if (pco_context_create(NULL, &run->context, &error) ||
        pco_model_open(run->context, from, NULL, &run->model, &error)) {
        fprintf(stderr, "%s: %s\n", from, error.message);
        return -1;
    }
    return 0;
}

static int aren_close(void **state)
{
    aren_run *run = *state;
    pco_model_close(run->model);
    pco_context_destroy(run->context);
    return 0;
}

static void aren_check(aren_run *run, const char *source, const char *prefix, int64_t max_tokens, const char *want)
{
    aren_text text = {.size = 0};
    const pco_generate_params params = {.size = sizeof params, .max_tokens = max_tokens, .prefix = prefix};
    check_ok(pco_model_generate(run->model, source, &params, aren_collect, &text, NULL, &err));
    assert_string_equal(text.data, want);
}

static void test_greedy(void **state)
{
    aren_run *run = *state;
    aren_check(run, "آتزمون", NULL, 0, "atzmon");
    aren_check(run, "آزا", NULL, 0, "azza");
    aren_check(run, "آتزمون", NULL, 3, "atz");
    aren_check(run, "", NULL, 0, "");
    if (!run->exact) return;
    aren_check(run, "آتزمون", "ats", 0, "atsumon");
    aren_check(run, "آتزمون", "atzo", 0, "atzomon");
}

static int aren_collect_beam(void *user, const pco_beam *beam) { return aren_collect(user, beam->text, beam->bytes); }

/* The best of four texts: published as the same as the greedy one. */
static void test_beams(void **state)
{
    static const char *const pairs[][2] = {{"آتزمون", "atzmon"}, {"آزا", "azza"}, {"", ""}};
    aren_run *run = *state;
    const pco_beam_params how = {.size = sizeof how, .beams = 4};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        aren_text text = {.size = 0};
        check_ok(pco_model_beam_search(run->model, pairs[i][0], NULL, &how, aren_collect_beam, &text, NULL, &err));
        assert_string_equal(text.data, pairs[i][1]);
    }
}

/* Published to 6 digits, tolerance 1e-5. */
static void aren_score(aren_run *run, const char *source, const char *target, const double *want, size_t wanted)
{
    double *log_probs, worst = 0;
    size_t count;
    check_ok(pco_model_score(run->model, source, target, &log_probs, &count, &err));
    assert_int_equal(count, wanted);
    for (size_t i = 0; i < count; i++) worst = fmax(worst, fabs(log_probs[i] - want[i]));
    print_message("  %s: largest difference %.2e\n", target, worst);
    assert_true(worst <= 1e-5);
    pco_free(log_probs);
}

static void test_score(void **state)
{
    static const double first[] = {-0.106023, -0.065410, -0.056002, -0.447953, -0.230714, -0.092184, -0.063463};
    static const double second[] = {-0.072660, -0.300309, -0.181187, -0.395671,
                                    -0.025631, -0.123466, -0.002034, -0.012639};
    aren_run *run = *state;
    double *log_probs;
    size_t count;
    aren_score(run, "آتزمون", "atzmon", first, 7);
    aren_score(run, "آتشيسون", "achison", second, 8);
    check_ok(pco_model_score(run->model, "", "", &log_probs, &count, &err));
    assert_int_equal(count, 1);
    assert_true(log_probs[0] == 0);
    pco_free(log_probs);
    check_fails(pco_model_score(run->model, "", "a", &log_probs, &count, &err), PCO_ERROR_INVALID, "empty");
}

int main(int argc, char **argv)
{
    if (argc < 2 || access(argv[1], R_OK) != 0) {
        printf("skipped: no folder with the model\n");
        return 77;
    }
    aren_run exact = {.folder = argv[1], .name = "aren-transliteration", .exact = 1};
    aren_run rounded = {.folder = argv[1], .name = "aren-transliteration-i8"};
    const struct CMUnitTest tests[] = {
        {"float: greedy", test_greedy, aren_open, aren_close, &exact},
        {"float: beams", test_beams, aren_open, aren_close, &exact},
        {"float: score", test_score, aren_open, aren_close, &exact},
        {"int8: greedy", test_greedy, aren_open, aren_close, &rounded},
        {"int8: beams", test_beams, aren_open, aren_close, &rounded},
    };
    return cmocka_run_group_tests_name("aren", tests, NULL, NULL);
}
