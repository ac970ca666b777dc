/* test_growth FOLDER: caches that are to grow while memory runs out. Each allocation of the library fails once, alone
 * or with all behind it; device memory of the cpu plugin is among them. An error leaves the sequences as they were, and
 * the next call, with memory, gives what would have come of it at once. */
#include "models_test.h"

#include "models/causal.h"

#include <portico/sequence.h>

/* The linker sends the library's calls here (--wrap). */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);

static int64_t made, first_failing, last_failing; /* failing: from 1 on; 0: none */

static int fails(void)
{
    const int64_t n = __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    return first_failing && n >= first_failing && n <= last_failing;
}

void *__wrap_malloc(size_t bytes) { return fails() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t count, size_t bytes) { return fails() ? NULL : __real_calloc(count, bytes); }
void *__wrap_realloc(void *memory, size_t bytes) { return fails() ? NULL : __real_realloc(memory, bytes); }

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    return fails() ? 12 /* ENOMEM */ : __real_posix_memalign(memory, alignment, bytes);
}

enum { VOCAB = 64, BEFORE = 250, MORE = 20, OTHER = 30 };
_Static_assert(BEFORE <= (int)PCO_CAUSAL_FIRST && BEFORE + MORE > (int)PCO_CAUSAL_FIRST, "the cache has to grow");

static const char *path;
static pco_context *context;
static int32_t ids[BEFORE + MORE];

/* What was counted and seen where nothing failed. */
static int64_t allocations;
static float whole[VOCAB], other_whole[VOCAB];

typedef struct texts {
    pco_model *model;
    pco_sequence *one, *other;
} texts;

static void texts_open(texts *t)
{
    const pco_model_params params = {.size = sizeof params, .context_length = 600, .sequences = 2};
    check_ok(pco_model_open(context, path, &params, &t->model, &err));
    check_ok(pco_sequence_create(t->model, &t->one, &err));
    check_ok(pco_sequence_create(t->model, &t->other, &err));
    check_ok(pco_sequence_append(t->other, ids + 11, OTHER, NULL, NULL, NULL, &err));
    check_ok(pco_sequence_append(t->one, ids, BEFORE, NULL, NULL, NULL, &err));
}

static int64_t texts_room(const texts *t)
{
    pco_model_info info = {.size = sizeof info};
    pco_model_describe(t->model, &info);
    return info.cached_tokens;
}

static void texts_close(texts *t)
{
    pco_sequence_destroy(t->one);
    pco_sequence_destroy(t->other);
    pco_model_close(t->model);
}

static pco_status grow(const texts *t, int64_t from, int64_t to, float *logits, pco_error *err)
{
    made = 0;
    first_failing = from, last_failing = to;
    const pco_status status = pco_sequence_append(t->one, ids + BEFORE, MORE, logits, NULL, NULL, err);
    first_failing = 0;
    return status;
}

/* Logits of both, of which the other's caches were moved only. */
static void check_whole(const texts *t, const float *logits, const char *when, int64_t n)
{
    float other[VOCAB];
    check_ok(pco_sequence_append(t->other, NULL, 0, other, NULL, NULL, &err));
    if (memcmp(logits, whole, sizeof whole) != 0) fail_msg("allocation %d, %s: other logits", (int)n, when);
    if (memcmp(other, other_whole, sizeof other) != 0)
        fail_msg("allocation %d, %s: another text's logits", (int)n, when);
}

static void test_without(void **state)
{
    texts t;
    (void)state;
    texts_open(&t);
    assert_int_equal(texts_room(&t), PCO_CAUSAL_FIRST);
    check_ok(grow(&t, 0, 0, whole, &err));
    allocations = made;
    assert_int_equal(texts_room(&t), 2 * PCO_CAUSAL_FIRST);
    check_ok(pco_sequence_append(t.other, NULL, 0, other_whole, NULL, NULL, &err));
    texts_close(&t);
    print_message("%d allocations\n", (int)allocations);
    assert_true(allocations > 50);
}

static int failed; /* calls that ended with an error */

static void check_failing(int64_t n, int64_t last)
{
    texts t;
    size_t count;
    float logits[VOCAB];
    pco_error failure = {""};
    texts_open(&t);
    const pco_status status = grow(&t, n, last, logits, &failure);
    if (status) {
        failed++;
        if (status != PCO_ERROR_OUT_OF_HOST_MEMORY && status != PCO_ERROR_OUT_OF_DEVICE_MEMORY)
            fail_msg("allocation %d: status %d, '%s'", (int)n, (int)status, failure.message);
        if (!strstr(failure.message, "memory")) fail_msg("allocation %d: '%s'", (int)n, failure.message);
        assert_ptr_not_equal(pco_sequence_ids(t.one, &count), NULL);
        assert_int_equal(count, BEFORE);
        assert_ptr_not_equal(pco_sequence_ids(t.other, &count), NULL);
        assert_int_equal(count, OTHER);
        check_ok(grow(&t, 0, 0, logits, &err));
    }
    assert_int_equal(texts_room(&t), 2 * PCO_CAUSAL_FIRST);
    check_whole(&t, logits, status ? "again" : "at once", n);
    texts_close(&t);
}

static void test_each(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= allocations; n++) {
        check_failing(n, n);
        check_failing(n, INT64_MAX);
    }
    print_message("%d of %d calls failed\n", failed, 2 * (int)allocations);
    assert_true(failed > allocations);
}

int main(int argc, char **argv)
{
    static char name[512];
    if (argc != 2) return 2;
    snprintf(name, sizeof name, "%s/gptneox.gguf", argv[1]);
    path = name;
    for (int i = 0; i < BEFORE + MORE; i++) ids[i] = (i * 37 + i / 7) % VOCAB;
    if (pco_context_create(NULL, &context, NULL)) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_without), cmocka_unit_test(test_each)};
    const int status = cmocka_run_group_tests_name("growth", tests, NULL, NULL);
    pco_context_destroy(context);
    return status;
}
