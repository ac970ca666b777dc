#include <math.h>

#include "check.h"
#include "text/sampler.h"

#include "sampler_golden.inc"

static int32_t draw(pco_sampler sampler, const float *logits, int64_t count, uint64_t step)
{
    int32_t id = -1;
    check_ok(pco_sampler_draw(&sampler, logits, count, NULL, step, NULL, &id, &err));
    return id;
}

static void greedy(void **state)
{
    (void)state;
    assert_int_equal(draw(PCO_SAMPLER_GREEDY, (float[]){1, 3, -2, 3}, 4, 0), 1);
    assert_int_equal(draw(PCO_SAMPLER_GREEDY, (float[]){-INFINITY, -5}, 2, 0), 1);
}

static void refuses(void **state)
{
    (void)state;
    pco_sampler sampler = PCO_SAMPLER_GREEDY;
    int32_t id;
    check_fails(pco_sampler_draw(&sampler, (float[]){1, NAN}, 2, NULL, 0, NULL, &id, &err), PCO_ERROR_INVALID,
                "logit 1");
    check_fails(pco_sampler_draw(&sampler, (float[]){INFINITY}, 1, NULL, 0, NULL, &id, &err), PCO_ERROR_INVALID,
                "logit 0");
    check_fails(pco_sampler_draw(&sampler, (float[]){-INFINITY}, 1, NULL, 0, NULL, &id, &err), PCO_ERROR_INVALID,
                "all 1");
    check_fails(pco_sampler_draw(&sampler, NULL, 0, NULL, 0, NULL, &id, &err), PCO_ERROR_INVALID, "0 logits");
    check_fails(pco_sampler_check(&(pco_sampler){.temperature = -1, .top_p = 1}, &err), PCO_ERROR_INVALID,
                "temperature");
    check_fails(pco_sampler_check(&(pco_sampler){.temperature = NAN, .top_p = 1}, &err), PCO_ERROR_INVALID,
                "temperature");
    check_fails(pco_sampler_check(&(pco_sampler){.top_p = 0}, &err), PCO_ERROR_INVALID, "top_p");
    check_fails(pco_sampler_check(&(pco_sampler){.top_p = 1.5}, &err), PCO_ERROR_INVALID, "top_p");
    check_fails(pco_sampler_check(&(pco_sampler){.top_p = 1, .top_k = -2}, &err), PCO_ERROR_INVALID, "top_k");
    const struct {
        pco_sampler sampler;
        const char *name;
    } cases[] = {{{.top_p = 1, .min_p = -0.1}, "min_p"},
                 {{.top_p = 1, .min_p = NAN}, "min_p"},
                 {{.top_p = 1, .typical_p = 1.5}, "typical_p"},
                 {{.top_p = 1, .repeat_penalty = -1}, "repeat_penalty"},
                 {{.top_p = 1, .repeat_penalty = 1e-9}, "repeat_penalty"},
                 {{.top_p = 1, .presence_penalty = NAN}, "presence_penalty"},
                 {{.top_p = 1, .frequency_penalty = 1e9}, "frequency_penalty"},
                 {{.top_p = 1, .repeat_last_n = -1}, "repeat_last_n"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        check_fails(pco_sampler_check(&cases[c].sampler, &err), PCO_ERROR_INVALID, cases[c].name);
}

/* Frequencies of 40,000 draws against softmax: five standard deviations. */
static void follows_softmax(void **state)
{
    (void)state;
    enum { N = 5, DRAWS = 40000 };
    static const float logits[N] = {0.5f, -1, 2, -INFINITY, 1};
    static const struct {
        pco_sampler sampler;
        int kept[N];
    } cases[] = {
        {{.temperature = 1, .top_p = 1, .seed = 3}, {1, 1, 1, 1, 1}},
        {{.temperature = 0.7, .top_p = 1, .top_k = 2, .seed = 4}, {0, 0, 1, 0, 1}},
        {{.temperature = 1, .top_p = 0.85, .seed = 5}, {1, 0, 1, 0, 1}}, /* 0.60 + 0.22 < 0.85 < + 0.13 */
        {{.temperature = 1, .top_p = 0.85, .top_k = 2, .seed = 5}, {0, 0, 1, 0, 1}},
        {{.temperature = 1, .top_p = 1e-9, .seed = 6}, {0, 0, 1, 0, 0}},
        {{.temperature = 1, .top_p = 1, .top_k = 100, .seed = 6}, {1, 1, 1, 1, 1}},
        {{.temperature = 1, .top_p = 1, .seed = 7, .min_p = 0.3},
         {0, 0, 1, 0, 1}}, /* exp(-1) = 0.37, exp(-1.5) = 0.22 */
        /* score less its mean of 1.48: -0.98, -2.48, 0.52, -0.48; the nearest has 0.22, with the next 0.83 */
        {{.temperature = 1, .top_p = 1, .seed = 8, .typical_p = 0.2}, {0, 0, 0, 0, 1}},
        {{.temperature = 1, .top_p = 1, .seed = 8, .typical_p = 0.3}, {0, 0, 1, 0, 1}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t counts[N] = {0};
        double weight[N], total = 0;
        for (int i = 0; i < N; i++) {
            weight[i] = cases[c].kept[i] * exp((double)logits[i] / cases[c].sampler.temperature);
            total += weight[i];
        }
        for (int step = 0; step < DRAWS; step++) counts[draw(cases[c].sampler, logits, N, (uint64_t)step)]++;
        for (int i = 0; i < N; i++) {
            double p = weight[i] / total, deviation = sqrt(DRAWS * p * (1 - p));
            if (fabs((double)counts[i] - DRAWS * p) > 5 * deviation + 1e-9)
                fail_msg("case %zu, token %d: %d draws, expected %g", c, i, (int)counts[i], DRAWS * p);
        }
    }
}

/* transformers computes the same formulas in double: some 50 roundings of 2^-53 each, in sums of 24. */
static void as_transformers(void **state)
{
    (void)state;
    float logits[GOLDEN_N];
    double got[GOLDEN_N];
    const pco_sampler_history text = {golden_text, GOLDEN_TEXT, GOLDEN_GENERATED};
    for (int i = 0; i < GOLDEN_N; i++) logits[i] = (float)golden_logits[i];
    for (size_t c = 0; c < sizeof golden / sizeof *golden; c++) {
        check_ok(pco_sampler_probabilities(&golden[c].sampler, logits, GOLDEN_N, &text, got, &err));
        for (int i = 0; i < GOLDEN_N; i++)
            if (fabs(got[i] - golden[c].probabilities[i]) > 1e-14)
                fail_msg("case %zu, token %d: %.17g, transformers %.17g", c, i, got[i], golden[c].probabilities[i]);
    }
}

/* At temperature 0, penalties decide; without a text, they do not. */
static void greedy_with_penalties(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 1, 1, 2};
    static const float logits[] = {4, 3.9f, -1, 3.5f};
    const struct {
        pco_sampler sampler;
        int32_t id;
    } cases[] = {
        {{.top_p = 1, .repeat_penalty = 1}, 0},
        {{.top_p = 1, .repeat_penalty = 1.1}, 0},                          /* 3.64, 3.55, -1.1, 3.5 */
        {{.top_p = 1, .repeat_penalty = 1.2}, 3},                          /* 3.33, 3.25, -1.2, 3.5 */
        {{.top_p = 1, .repeat_penalty = 1.2, .repeat_last_n = 3}, 0},      /* 0 is not among the last three */
        {{.top_p = 1, .presence_penalty = 0.3}, 0},                        /* 0 is of the prompt; 1: 3.6 */
        {{.top_p = 1, .presence_penalty = -0.3}, 1},                       /* 4.2 */
        {{.top_p = 1, .frequency_penalty = -0.06}, 1},                     /* 3.9 + 2 * 0.06 */
        {{.top_p = 1, .frequency_penalty = -0.06, .repeat_last_n = 2}, 0}, /* once */
    };
    const pco_sampler_history text = {ids, 4, 3};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int32_t id;
        check_ok(pco_sampler_draw(&cases[c].sampler, logits, 4, &text, 0, NULL, &id, &err));
        if (id != cases[c].id) fail_msg("case %zu: %d", c, (int)id);
        assert_int_equal(draw(cases[c].sampler, logits, 4, 0), 0);
    }
    int32_t id;
    check_fails(pco_sampler_draw(&(pco_sampler){.top_p = 1}, logits, 2, &text, 0, NULL, &id, &err), PCO_ERROR_INVALID,
                "token 2");
}

static void reproducible(void **state)
{
    (void)state;
    static const int32_t expected[8] = {47, 36, 16, 47, 31, 39, 21, 24};
    float logits[50];
    pco_sampler sampler = {.temperature = 0.9, .top_p = 0.95, .top_k = 40, .seed = 42};
    for (int i = 0; i < 50; i++) logits[i] = (float)((i * 37) % 50) * 0.1f;
    void *workspace = malloc(pco_sampler_workspace(50));
    for (int step = 0; step < 8; step++) {
        int32_t id;
        check_ok(pco_sampler_draw(&sampler, logits, 50, NULL, (uint64_t)step, workspace, &id, &err));
        assert_int_equal(id, expected[step]);
        assert_int_equal(draw(sampler, logits, 50, (uint64_t)step), id);
    }
    free(workspace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy),
        cmocka_unit_test(refuses),
        cmocka_unit_test(follows_softmax),
        cmocka_unit_test(as_transformers),
        cmocka_unit_test(greedy_with_penalties),
        cmocka_unit_test(reproducible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
