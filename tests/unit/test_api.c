/* The public interface where it is used wrongly: NULL for each pointer of each function, backends that are not there,
 * calls in a child of fork. argv[1]: models/dates. */
#include "check.h"

#include "portico/portico.h"

#include <sys/wait.h>
#include <unistd.h>

static const char *path;

static int take_text(void *user, const char *text, size_t bytes)
{
    (void)user, (void)text, (void)bytes;
    return 0;
}

static int take_map(void *user, const pco_attention_map *map)
{
    (void)user, (void)map;
    return 0;
}

/* The status of one call in which one pointer is NULL. */
static void null_status(const char *what, pco_status status, int allowed, const char *message)
{
    const char *name = strchr(what, ' ') + 1;
    if (allowed ? status == PCO_OK || status == PCO_ERROR_UNSUPPORTED
                : status == PCO_ERROR_INVALID && strstr(message, name))
        return;
    fail_msg("%s NULL: status %d, '%s'", what, (int)status, message);
}

#define STATUS_CALL(what, call, allowed) \
    { \
        pco_error err = {""}; \
        print_message("%s\n", what); \
        const pco_status status = (call); \
        null_status(what, status, allowed, err.message); \
        free(ids_out), free(text_out), free(numbers_out); \
        ids_out = NULL, text_out = NULL, numbers_out = NULL; \
        pco_model_close(model_out); \
        pco_context_destroy(context_out); \
        model_out = NULL, context_out = NULL; \
    }
#define PLAIN_CALL(what, call, allowed) \
    { \
        print_message("%s\n", what); \
        (void)(call); \
    }

static void test_null(void **state)
{
    (void)state;
    const pco_context_params context_params = {.backend = "cpu"};
    const pco_model_params model_params = {.device = "cpu"};
    const pco_generate_params generate_params = {.max_tokens = 2};
    const int32_t ids[2] = {5, 6};
    pco_context *context, *context_out = NULL;
    pco_model *model, *model_out = NULL;
    static pco_device_description devices[1];
    static pco_plugin_description plugins[1];
    pco_model_info info;
    pco_generate_stats stats;
    int32_t *ids_out = NULL;
    size_t count_out;
    char *text_out = NULL;
    float logits[1000];
    double *numbers_out = NULL;
    check_ok(pco_context_create(&context_params, &context, &err));
    check_ok(pco_model_open(context, path, &model_params, &model, &err));
#include "null_calls.h"
    assert_int_not_equal(pco_context_devices(context, NULL, 0), 0);
    assert_int_equal(pco_context_devices(NULL, NULL, 0), 0);
    pco_model_describe(NULL, &info);
    assert_int_equal(info.layers, 0);
    pco_model_close(model);
    pco_context_destroy(context);
}

static void test_backend(void **state)
{
    (void)state;
    pco_context *context = NULL;
    static const char *const wrong[] = {"warp", "cpu:77", "cpu:native+warp", ":", "+", ","};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        check_fails(pco_context_create(&(pco_context_params){.backend = wrong[i]}, &context, &err), PCO_ERROR_NOT_FOUND,
                    "there are: cpu:0");
        assert_null(context);
        setenv("PORTICO_BACKEND", wrong[i], 1);
        check_fails(pco_context_create(NULL, &context, &err), PCO_ERROR_NOT_FOUND, "there are: cpu:0");
        unsetenv("PORTICO_BACKEND");
    }
    check_ok(pco_context_create(&(pco_context_params){.backend = "warp,cpu"}, &context, &err));
    pco_context_destroy(context);
}

/* In the child of a fork every call ends, with an error, and the parent's model goes on. */
static void test_fork(void **state)
{
    (void)state;
    pco_context *context;
    pco_model *model, *other;
    int how;
    setenv("PORTICO_THREADS", "3", 1); /* threads that the child has not */
    check_ok(pco_context_create(&(pco_context_params){.backend = "cpu"}, &context, &err));
    check_ok(pco_model_open(context, path, NULL, &model, &err));
    const pid_t child = fork();
    if (child == 0) {
        pco_error err = {""};
        int32_t *ids;
        size_t count;
        alarm(20);
        int right = pco_model_generate(model, "3 Sep 51", NULL, NULL, NULL, NULL, &err) == PCO_ERROR_INVALID &&
                    strstr(err.message, "fork");
        right &= pco_model_open(context, path, NULL, &other, &err) == PCO_ERROR_INVALID && !other;
        right &= pco_model_tokenize(model, "3", 1, 0, &ids, &count, &err) == PCO_ERROR_INVALID;
        right &= pco_context_devices(context, NULL, 0) == 0;
        pco_model_close(model);
        pco_context_destroy(context);
        _exit(right ? 0 : 9);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0) fail_msg("the child ended with status %d", how);
    check_ok(pco_model_generate(model, "3 Sep 51", NULL, take_text, NULL, NULL, &err));
    pco_model_close(model);
    pco_context_destroy(context);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_api MODEL\n");
        return 2;
    }
    path = argv[1];
    unsetenv("PORTICO_BACKEND");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_null), cmocka_unit_test(test_backend),
                                       cmocka_unit_test(test_fork)};
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
