#include <math.h>

#include "check.h"
#include "text/sampler.h"

static int32_t draw(pco_sampler sampler, const float *logits, int64_t count, uint64_t step)
{
    int32_t id = -1;
    check_ok(pco_sampler_draw(&sampler, logits, count, step, NULL, &id, &err));
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
    check_fails(pco_sampler_draw(&sampler, (float[]){1, NAN}, 2, 0, NULL, &id, &err), PCO_ERROR_INVALID, "logit 1");
    check_fails(pco_sampler_draw(&sampler, (float[]){INFINITY}, 1, 0, NULL, &id, &err), PCO_ERROR_INVALID, "logit 0");
    check_fails(pco_sampler_draw(&sampler, (float[]){-INFINITY}, 1, 0, NULL, &id, &err), PCO_ERROR_INVALID, "all 1");
    check_fails(pco_sampler_draw(&sampler, NULL, 0, 0, NULL, &id, &err), PCO_ERROR_INVALID, "0 logits");
    check_fails(pco_sampler_check(&(pco_sampler){.temperature = -1, .top_p = 1}, &err), PCO_ERROR_INVALID,
                "temperature");
    check_fails(pco_sampler_check(&(pco_sampler){.temperature = NAN, .top_p = 1}, &err), PCO_ERROR_INVALID,
                "temperature");
    check_fails(pco_sampler_check(&(pco_sampler){.top_p = 0}, &err), PCO_ERROR_INVALID, "top_p");
    check_fails(pco_sampler_check(&(pco_sampler){.top_p = 1.5}, &err), PCO_ERROR_INVALID, "top_p");
    check_fails(pco_sampler_check(&(pco_sampler){.top_p = 1, .top_k = -2}, &err), PCO_ERROR_INVALID, "top_k");
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
        check_ok(pco_sampler_draw(&sampler, logits, 50, (uint64_t)step, workspace, &id, &err));
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
        cmocka_unit_test(reproducible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
