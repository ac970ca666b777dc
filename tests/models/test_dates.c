/* test_dates FOLDER [LINES]: greedy answers of models/dates for the first LINES pairs of FOLDER/test.tsv (all
 * of them when it is missing), through the public API. At least 99% are right: the trained model has all of
 * them right, and float32 on another device may tip a close decision. */
#include "check.h"

#include <math.h>
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
    pco_generate_stats stats = {.size = sizeof stats};
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
    print_message("  %ld of %ld right, %.1f ms each\n", right, total, total ? 1e3 * seconds / (double)total : 0);
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
    pco_generate_stats stats = {.size = sizeof stats};
    check_ok(pco_context_create(NULL, &context, &err));
    check_ok(pco_model_open(context, run->folder, NULL, &model, &err));
    check_ok(pco_model_generate(model, "", NULL, dates_collect, &text, NULL, &err));
    assert_int_equal(text.size, 0);
    pco_generate_params three = {.size = sizeof three, .max_tokens = 3};
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
    float logit;
    check_fails(pco_model_logits(model, (int32_t[]){1}, 1, &logit, &err), PCO_ERROR_UNSUPPORTED, "encoder-decoder");
    pco_model_close(model);
    pco_context_destroy(context);
}

typedef struct dates_maps {
    int seen[3];
    int64_t source, target; /* tokens */
} dates_maps;

/* A row sums to 1: each weight is e_j / sum, whose error is that of exp (2 ulp), of a sum of T terms, of a
 * division and of the last rounding, together at most (T + 8) 2^-24 of it where the contract is that of f32.
 * Tokens that come later have 0. */
static int dates_attention(void *user, const pco_attention_map *map)
{
    dates_maps *maps = user;
    int64_t queries = map->kind == PCO_ATTENTION_ENCODER ? maps->source : maps->target;
    int64_t keys = map->kind == PCO_ATTENTION_DECODER ? maps->target : maps->source;
    assert_int_equal(map->layer, maps->seen[map->kind]++);
    assert_int_equal(map->queries, queries);
    assert_int_equal(map->keys, keys);
    for (int64_t row = 0; row < map->heads * queries; row++) {
        double sum = 0;
        for (int64_t k = 0; k < keys; k++) {
            double weight = (double)map->weights[row * keys + k];
            assert_true(weight >= 0 && weight <= 1 + 1e-6);
            if (map->kind == PCO_ATTENTION_DECODER && k > row % queries) assert_true(weight == 0);
            sum += weight;
        }
        if (!(fabs(sum - 1) <= (double)(keys + 8) * 0x1p-24)) fail_msg("a row of weights sums to %.9g", sum);
    }
    return 0;
}

static void test_attention(void **state)
{
    const dates_run *run = *state;
    pco_context *context;
    pco_model *model;
    int32_t *ids;
    size_t count;
    check_ok(pco_context_create(NULL, &context, &err));
    check_ok(pco_model_open(context, run->folder, NULL, &model, &err));
    check_ok(pco_model_tokenize(model, "3 Sep 51", 8, 1, &ids, &count, &err));
    const int32_t target[] = {5, 3, 8};
    dates_maps maps = {.source = (int64_t)count, .target = 4};
    check_ok(pco_model_attention(model, ids, count, target, 3, dates_attention, &maps, &err));
    for (int kind = 0; kind < 3; kind++) assert_int_equal(maps.seen[kind], 2);
    maps = (dates_maps){.source = (int64_t)count, .target = 1};
    check_ok(pco_model_attention(model, ids, count, NULL, 0, dates_attention, &maps, &err));
    assert_int_equal(maps.seen[2], 2);
    check_fails(pco_model_attention(model, NULL, 0, target, 3, dates_attention, &maps, &err), PCO_ERROR_INVALID,
                "source without tokens");
    check_fails(pco_model_attention(model, (int32_t[]){-1}, 1, target, 3, dates_attention, &maps, &err),
                PCO_ERROR_INVALID, "of the source is -1");
    int32_t many[64] = {0};
    check_fails(pco_model_attention(model, ids, count, many, 64, dates_attention, &maps, &err), PCO_ERROR_INVALID,
                "target of 65 tokens");
    pco_free(ids);
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
        {"attention", test_attention, NULL, NULL, &run},
    };
    return cmocka_run_group_tests_name("dates", tests, NULL, NULL);
}
