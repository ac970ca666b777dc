/* test_beams GOLDEN: beam search, on the device that PORTICO_BACKEND picks, finds what generate(num_beams=...) of
 * transformers finds (tests/golden/make_beams.py): the same texts, and scores that differ by what the logits may. */
#include "models_test.h"

#include "base/file.h"
#include "formats/json.h"
#include "text/beam.h"

#include <portico/beam.h>

enum { MOST_TEXTS = 8, MOST_TOKENS = 32 };

static const char *golden;
static cJSON *searches;

static int read_searches(void **state)
{
    char path[512];
    pco_map map;
    (void)state;
    snprintf(path, sizeof path, "%s/beams.json", golden);
    if (pco_map_open(path, &map, NULL)) return -1;
    const pco_status status = pco_json_parse((const char *)map.data, map.size, path, &searches, NULL);
    pco_map_close(&map);
    return status ? -1 : 0;
}

static int drop_searches(void **state)
{
    (void)state;
    cJSON_Delete(searches);
    return 0;
}

static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    assert_non_null(found);
    return found;
}

static int64_t whole(const cJSON *object, const char *name) { return (int64_t)member(object, name)->valuedouble; }

static size_t read_ids(const cJSON *list, int32_t *ids)
{
    size_t count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        assert_true(count < MOST_TOKENS);
        ids[count++] = item->valueint;
    }
    return count;
}

/* Is a text that was found the one of that rank? Scores are of float32 logits there; `tolerance` is what each token's
 * log-probability may be off here and there together, and the score divides their sum. */
static void check_text(const cJSON *want, int64_t rank, const int32_t *ids, size_t count, double score,
                       double tolerance)
{
    int32_t expected[MOST_TOKENS];
    const size_t length = read_ids(cJSON_GetArrayItem(member(want, "texts"), (int)rank), expected);
    assert_int_equal(count, length);
    assert_memory_equal(ids, expected, length * sizeof *ids);
    const cJSON *scores = member(want, "scores"); /* null for one beam, which transformers does not score */
    if (cJSON_IsNull(scores)) return;
    const double tokens = (double)length + 1, penalty = member(want, "length_penalty")->valuedouble;
    const double error = fabs(score - cJSON_GetArrayItem(scores, (int)rank)->valuedouble);
    if (!(error <= tolerance * tokens / fmin(1, pow(tokens, penalty)) + 1e-5))
        fail_msg("text %d: score %.9g, not %.9g", (int)rank, score, cJSON_GetArrayItem(scores, (int)rank)->valuedouble);
}

/* ---- the rules alone: chains of tokens, whose logits are in the file ---- */

static int ends_with_0(const void *user, int32_t id)
{
    (void)user;
    return id == 0;
}

static void check_chain(const cJSON *want, const float *table, int64_t vocab)
{
    const int64_t count = whole(want, "beams");
    const pco_beam_rules rules = {.beams = count,
                                  .vocab_size = vocab,
                                  .max_tokens = whole(want, "max_tokens"),
                                  .length_penalty = member(want, "length_penalty")->valuedouble,
                                  .stopping = (pco_beam_stopping)whole(want, "early_stopping"),
                                  .ends = ends_with_0};
    pco_beams *beams;
    pco_beam_text text;
    int64_t from[MOST_TEXTS];
    int32_t ids[MOST_TEXTS], prompt[MOST_TOKENS];
    float logits[MOST_TEXTS * 16];
    int done = 0;
    assert_true(count <= MOST_TEXTS && vocab <= 16);
    assert_int_equal(read_ids(member(want, "prompt"), prompt), 1);
    for (int64_t i = 0; i < count; i++) ids[i] = prompt[0];
    check_ok(pco_beams_create(&rules, &beams, &err));
    for (int steps = 0; !done; steps++) {
        assert_true(steps < rules.max_tokens);
        for (int64_t i = 0; i < count; i++)
            memcpy(logits + i * vocab, table + ids[i] * vocab, (size_t)vocab * sizeof *logits);
        check_ok(pco_beams_step(beams, logits, from, ids, &done, &err));
    }
    const int returned = cJSON_GetArraySize(member(want, "texts"));
    for (int rank = 0; rank < returned; rank++) {
        assert_true(pco_beams_text(beams, rank, &text));
        check_text(want, rank, text.ids, text.count, text.score, 1e-5); /* the table has six decimals */
    }
    pco_beams_destroy(beams);
}

static void test_rules(void **state)
{
    static float table[16 * 16];
    const cJSON *rows = member(searches, "table"), *row, *value, *chain;
    const int64_t vocab = cJSON_GetArraySize(rows);
    int64_t at = 0, ended = 0, chains = 0;
    (void)state;
    assert_true(vocab <= 16);
    cJSON_ArrayForEach(row, rows) cJSON_ArrayForEach(value, row) table[at++] = (float)value->valuedouble;
    cJSON_ArrayForEach(chain, member(searches, "chains"))
    {
        const cJSON *text = cJSON_GetArrayItem(member(chain, "texts"), 0);
        check_chain(chain, table, vocab);
        ended += cJSON_GetArraySize(text) < whole(chain, "max_tokens");
        chains++;
    }
    print_message("  %d chains, of which %d end\n", (int)chains, (int)ended);
    assert_true(ended > 10 && chains - ended > 3);
    pco_beams *beams;
    int done;
    const pco_beam_rules rules = {.beams = 1,
                                  .vocab_size = 2,
                                  .max_tokens = 4,
                                  .length_penalty = 1,
                                  .stopping = PCO_BEAM_STOP_LIKELY,
                                  .ends = ends_with_0};
    check_ok(pco_beams_create(&rules, &beams, &err));
    check_fails(pco_beams_step(beams, (float[]){1, NAN}, (int64_t[1]){0}, (int32_t[1]){0}, &done, &err),
                PCO_ERROR_INVALID, "token 1");
    pco_beams_destroy(beams);
}

/* Tokens that no text gets, as transformers has them: their probability is not shared out among the others. */
static void test_never(void **state)
{
    static const int32_t never[] = {2, 1};
    const float logits[] = {0, 9, 3, 1};
    (void)state;
    for (uint32_t count = 1; count <= 2; count++) {
        const pco_beam_rules rules = {.beams = 1,
                                      .vocab_size = 4,
                                      .max_tokens = 2,
                                      .length_penalty = 1,
                                      .never = never + (2 - count),
                                      .n_never = count,
                                      .ends = ends_with_0};
        pco_beams *beams;
        pco_beam_text text;
        int64_t from[1];
        int32_t ids[1];
        int done = 0;
        const int32_t best = count == 1 ? 2 : 3; /* 1 is never written, then 2 neither */
        const double each = (double)logits[best] - log(1 + exp(9) + exp(3) + exp(1));
        check_ok(pco_beams_create(&rules, &beams, &err));
        while (!done) check_ok(pco_beams_step(beams, logits, from, ids, &done, &err));
        assert_true(pco_beams_text(beams, 0, &text));
        assert_int_equal(text.count, 2);
        assert_int_equal(text.ids[0], best);
        assert_int_equal(text.ids[1], best);
        assert_true(fabs(text.log_probability - 2 * each) < 1e-9);
        pco_beams_destroy(beams);
    }
}

/* Where no token may follow, the search is over: without a text, or with those that have ended. */
static void test_no_way_on(void **state)
{
    (void)state;
    for (int normalized = 0; normalized < 2; normalized++)
        for (int step = 0; step < 2; step++) {
            pco_beams *beams;
            pco_beam_text text;
            int64_t from[3];
            int32_t ids[3];
            int done = 0;
            const pco_beam_rules rules = {.beams = 3,
                                          .vocab_size = 2,
                                          .max_tokens = 9,
                                          .length_penalty = 1,
                                          .normalized = normalized,
                                          .ends = ends_with_0};
            check_ok(pco_beams_create(&rules, &beams, &err));
            float logits[6] = {0};
            if (step) check_ok(pco_beams_step(beams, logits, from, ids, &done, &err));
            assert_int_equal(done, 0);
            for (int i = 0; i < 6; i++) logits[i] = -INFINITY;
            check_ok(pco_beams_step(beams, logits, from, ids, &done, &err));
            assert_int_equal(done, 1);
            assert_int_equal(pco_beams_text(beams, 0, &text), step);
            pco_beams_destroy(beams);
        }
}

/* ---- models ---- */

typedef struct received {
    const cJSON *want;
    int64_t count;
    int32_t best[MOST_TOKENS];
    size_t best_count;
} received;

static int receive(void *user, const pco_beam *beam)
{
    received *r = user;
    assert_int_equal(beam->rank, r->count);
    /* logits are within 1e-4 (|y| + rms) of the truth here and within as much there, and |y| is below 10: each
     * log-probability is off by up to four times 1e-4 * 15 */
    check_text(r->want, beam->rank, beam->ids, beam->count, beam->score, 4 * 1e-4 * 15);
    if (r->count++ == 0) memcpy(r->best, beam->ids, (r->best_count = beam->count) * sizeof *r->best);
    return 0;
}

static void check_search(pco_model *model, const cJSON *want, received *r)
{
    int32_t prompt[MOST_TOKENS];
    const size_t count = read_ids(member(want, "prompt"), prompt);
    const double penalty = member(want, "length_penalty")->valuedouble;
    const int returned = cJSON_GetArraySize(member(want, "texts"));
    const pco_generate_params params = {
        .size = sizeof params, .max_tokens = whole(want, "max_tokens"), .prompt_ids = prompt, .prompt_count = count};
    const pco_beam_params how = {.size = sizeof how,
                                 .beams = whole(want, "beams"),
                                 .returned = returned,
                                 .length_penalty = penalty == 0 ? PCO_NO_LENGTH_PENALTY : penalty,
                                 .early_stopping = (pco_early_stopping)whole(want, "early_stopping")};
    pco_generate_stats stats = {.size = sizeof stats};
    *r = (received){.want = want};
    check_ok(pco_model_beam_search(model, NULL, &params, &how, receive, r, &stats, &err));
    assert_int_equal(r->count, returned);
    assert_int_equal(stats.generated_tokens, r->best_count);
    assert_int_equal(stats.prompt_tokens, count);
}

static int see_token(void *user, const pco_token *token)
{
    received *r = user;
    assert_true(r->best_count < MOST_TOKENS);
    r->best[r->best_count++] = token->id;
    return 0;
}

static void test_models(void **state)
{
    pco_context *context;
    pco_model *model = NULL;
    const char *open = "";
    const cJSON *want;
    received r, greedy;
    int64_t count = 0;
    (void)state;
    check_ok(pco_context_create(NULL, &context, &err));
    cJSON_ArrayForEach(want, member(searches, "models"))
    {
        const char *name = member(want, "model")->valuestring;
        if (strcmp(open, name) != 0) {
            char path[512];
            pco_model_close(model);
            snprintf(path, sizeof path, "%s/%s", golden, name);
            check_ok(pco_model_open(context, path, NULL, &model, &err));
            open = name;
        }
        check_search(model, want, &r);
        count++;
        if (whole(want, "beams") > 1) continue;
        /* one beam is the likeliest token each time, and a generation between searches finds its own caches */
        greedy = (received){0};
        int32_t prompt[MOST_TOKENS];
        const pco_generate_params params = {.size = sizeof params,
                                            .max_tokens = whole(want, "max_tokens"),
                                            .prompt_ids = prompt,
                                            .prompt_count = read_ids(member(want, "prompt"), prompt),
                                            .token = see_token};
        check_ok(pco_model_generate(model, NULL, &params, NULL, &greedy, NULL, &err));
        assert_int_equal(greedy.best_count, r.best_count);
        assert_memory_equal(greedy.best, r.best, r.best_count * sizeof *r.best);
    }
    print_message("  %d searches\n", (int)count);
    assert_true(count > 20);
    pco_model_close(model);
    pco_context_destroy(context);
}

static int stop_at_3(void *user, int64_t tokens)
{
    (void)user;
    return tokens == 3;
}

static int ignore(void *user, const pco_beam *beam)
{
    (void)user;
    (void)beam;
    return 0;
}

static void test_refused(void **state)
{
    pco_context *context;
    pco_model *model;
    char path[512];
    const int32_t prompt[] = {5, 6, 7};
    pco_generate_params params = {.size = sizeof params, .prompt_ids = prompt, .prompt_count = 3, .max_tokens = 5};
    pco_beam_params how = {.size = sizeof how, .beams = 65};
    (void)state;
    check_ok(pco_context_create(NULL, &context, &err));
    snprintf(path, sizeof path, "%s/seq2seq/t5", golden);
    check_ok(pco_model_open(context, path, NULL, &model, &err));
#define SEARCH() pco_model_beam_search(model, NULL, &params, &how, ignore, NULL, NULL, &err)
    check_fails(SEARCH(), PCO_ERROR_INVALID, "1 to 64");
    how.beams = 2;
    how.returned = 3;
    check_fails(SEARCH(), PCO_ERROR_INVALID, "3 texts");
    how.returned = 2;
    params.temperature = 1;
    check_fails(SEARCH(), PCO_ERROR_INVALID, "no temperature");
    params.temperature = 0;
    how.length_penalty = NAN;
    check_fails(SEARCH(), PCO_ERROR_INVALID, "length_penalty");
    how.length_penalty = 0;
    how.progress = stop_at_3;
    check_fails(SEARCH(), PCO_ERROR_CANCELLED, "beam search");
    how.progress = NULL;
    check_ok(SEARCH());
    how.beams = 3;
    check_ok(SEARCH());
    pco_model_close(model);
    pco_context_destroy(context);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules), cmocka_unit_test(test_no_way_on),
                                       cmocka_unit_test(test_never), cmocka_unit_test(test_models),
                                       cmocka_unit_test(test_refused)};
    if (argc != 2) return 2;
    golden = argv[1];
    return cmocka_run_group_tests_name("beams", tests, read_searches, drop_searches);
}
