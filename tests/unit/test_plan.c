/* Planning: nothing that lives at the same time overlaps, alignments hold, and memory is reused. */
#include "check.h"

#include "base/philox.h"
#include "runtime/plan.h"

enum { COUNT = 200 };

static void test_random_intervals(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 50; seed++) {
        pco_interval intervals[COUNT];
        uint64_t most = 0;
        for (uint32_t i = 0; i < COUNT; i++) {
            pco_philox r = pco_philox4x32_10((pco_philox){{i, 0, 0, 0}}, seed);
            intervals[i] = (pco_interval){.first = r.word[0] % 100,
                                          .bytes = 4 * (1 + r.word[1] % 1000),
                                          .alignment = UINT64_C(1) << (4 + r.word[2] % 5)};
            intervals[i].last = intervals[i].first + r.word[3] % 10;
            if (intervals[i].bytes > most) most = intervals[i].bytes;
        }
        pco_chunk_sizes sizes;
        uint64_t limit = seed % 2 ? 8192 : UINT64_MAX / 2;
        check_ok(pco_plan_intervals(intervals, COUNT, limit, &sizes, &err));
        uint64_t total = 0;
        for (uint32_t c = 0; c < sizes.count; c++) {
            assert_true(sizes.bytes[c] <= limit);
            total += sizes.bytes[c];
        }
        assert_true(total >= sizes.lower_bound);
        if (seed % 2 == 0) assert_true(total <= 2 * sizes.lower_bound);
        for (uint32_t i = 0; i < COUNT; i++) {
            const pco_interval *a = &intervals[i];
            assert_int_equal(a->offset % a->alignment, 0);
            assert_true(a->offset + a->bytes <= sizes.bytes[a->chunk]);
            for (uint32_t k = 0; k < i; k++) {
                const pco_interval *b = &intervals[k];
                int together = a->first <= b->last && b->first <= a->last && a->chunk == b->chunk;
                assert_true(!together || a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
            }
        }
        free(sizes.bytes);
    }
}

static void test_too_large(void **state)
{
    (void)state;
    pco_interval interval = {.bytes = 100, .alignment = 4};
    pco_chunk_sizes sizes;
    check_fails(pco_plan_intervals(&interval, 1, 99, &sizes, &err), PCO_ERROR_OUT_OF_DEVICE_MEMORY, "100 bytes");
}

/* Aliases count for the tensor that has the memory; what nobody reads lives at its node; an input has no first node. */
static void test_lifetimes(void **state)
{
    (void)state;
    enum { INPUT, MADE, SHAPED, SHAPED_AGAIN, UNREAD, LAST, UNUSED, N };
    pco_tensor tensors[N];
    for (int t = 0; t < N; t++) tensors[t] = (pco_tensor){.alias = PCO_NONE};
    tensors[SHAPED].alias = MADE;
    tensors[SHAPED_AGAIN].alias = SHAPED;
    const pco_node nodes[] = {
        {.n_inputs = 2, .inputs = {INPUT, PCO_NONE}, .n_outputs = 1, .outputs = {MADE}},
        {.n_inputs = 1, .inputs = {MADE}, .n_outputs = 1, .outputs = {SHAPED}},
        {.n_inputs = 1, .inputs = {INPUT}, .n_outputs = 2, .outputs = {UNREAD, PCO_NONE}},
        {.n_inputs = 1, .inputs = {SHAPED}, .n_outputs = 1, .outputs = {SHAPED_AGAIN}},
        {.n_inputs = 2, .inputs = {SHAPED_AGAIN, SHAPED_AGAIN}, .n_outputs = 1, .outputs = {LAST}}};
    static const pco_lifetime expected[N] = {{PCO_NONE, 2}, {0, 4}, {PCO_NONE, 0}, {PCO_NONE, 0},
                                             {2, 2},        {4, 4}, {PCO_NONE, 0}};
    pco_lifetime lifetimes[N];
    pco_plan_lifetimes(tensors, N, nodes, 5, lifetimes);
    for (int t = 0; t < N; t++) {
        assert_int_equal(lifetimes[t].first, expected[t].first);
        assert_int_equal(lifetimes[t].last, expected[t].last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_intervals), cmocka_unit_test(test_too_large),
                                       cmocka_unit_test(test_lifetimes)};
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
