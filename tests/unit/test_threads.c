/* Who may call from which thread (portico.h): two threads with a context each at once, and a second thread on a context
 * that another one uses, which gets a line and not a crash. argv[1]: models/dates. Under ThreadSanitizer with
 * scripts/test --all. */
#include "check.h"

#include "portico/portico.h"
#include "portico/session.h"
#include "portico/train.h"

#include <pthread.h>
#include <semaphore.h>

static const char *path;

enum { SIZE = 64, RUNS = 20 };

/* One thread's work: a graph, a model, over and over. Returns NULL, or what went wrong. */
typedef struct worker {
    const char *device;
    float first, last;
    char text[64], message[1200];
} worker;

static int append(void *user, const char *text, size_t bytes)
{
    strncat(user, text, bytes < 60 - strlen(user) ? bytes : 60 - strlen(user));
    return 0;
}

static pco_status work_graph(pco_context *context, worker *one, pco_error *err)
{
    pco_session *session = NULL;
    pco_executable *executable = NULL;
    float x[SIZE * SIZE], y[SIZE * SIZE];
    const int64_t square[] = {SIZE, SIZE};
    for (int i = 0; i < SIZE * SIZE; i++) x[i] = (float)(i % 7) / 8;
    pco_graph *graph = pco_graph_create();
    const uint32_t in = pco_graph_input(graph, "x", PCO_F32, 2, square);
    pco_graph_output(graph, pco_softmax(graph, pco_matmul(graph, in, in, 0, 1), -1), "y");
    pco_status status = pco_session_open(context, one->device, &session, err);
    if (!status) status = pco_executable_create(session, graph, NULL, &executable, err);
    pco_graph_destroy(graph);
    const uint32_t from = pco_executable_tensor(executable, "x"), to = pco_executable_tensor(executable, "y");
    for (int i = 0; i < RUNS && !status; i++) {
        status = pco_executable_write(executable, from, x, sizeof x, err);
        if (!status) status = pco_executable_run(executable, err);
        if (!status) status = pco_executable_read(executable, to, y, sizeof y, err);
        if (i == 0) one->first = y[1];
        one->last = y[1];
    }
    pco_executable_destroy(executable);
    pco_session_close(session);
    return status;
}

/* A parameter, and what trains it. */
static pco_status begin_training(pco_session *session, pco_training **training, pco_executable **batch, pco_error *err)
{
    const pco_training_params params = {.size = sizeof params, .learning_rate = 0.1};
    const pco_nn_linear_params linear = {.size = sizeof linear, .name = "l", .in_features = SIZE, .out_features = 8};
    pco_graph *graph = pco_graph_create();
    pco_nn *nn = pco_nn_create(graph, NULL);
    const uint32_t x = pco_graph_input(graph, "x", PCO_F32, 2, (const int64_t[]){SIZE, SIZE});
    const uint32_t labels = pco_graph_input(graph, "labels", PCO_I32, 1, (const int64_t[]){SIZE});
    const uint32_t loss = pco_nn_cross_entropy(nn, pco_nn_linear(nn, x, &linear), labels, 0);
    pco_status status = pco_training_create(session, &params, training, err);
    if (!status) status = pco_training_add(*training, nn, loss, batch, err);
    if (!status) status = pco_training_initialize(*training, NULL, err);
    pco_nn_destroy(nn);
    pco_graph_destroy(graph);
    return status;
}

static pco_status work_training(pco_context *context, const worker *one, pco_error *err)
{
    pco_session *session = NULL;
    pco_training *training = NULL;
    pco_executable *batch;
    float x[SIZE * SIZE];
    int32_t labels[SIZE];
    for (int i = 0; i < SIZE * SIZE; i++) x[i] = (float)(i % 7) / 8;
    for (int i = 0; i < SIZE; i++) labels[i] = i % 8;
    pco_status status = pco_session_open(context, one->device, &session, err);
    if (!status) status = begin_training(session, &training, &batch, err);
    if (!status) status = pco_executable_write(batch, pco_executable_tensor(batch, "x"), x, sizeof x, err);
    if (!status)
        status = pco_executable_write(batch, pco_executable_tensor(batch, "labels"), labels, sizeof labels, err);
    for (int i = 0; i < RUNS && !status; i++) status = pco_training_step(training, batch, NULL, err);
    pco_training_destroy(training);
    pco_session_close(session);
    return status;
}

static void *work(void *user)
{
    worker *one = user;
    pco_context *context = NULL;
    pco_model *model = NULL;
    pco_error err = {""};
    pco_status status =
        pco_context_create(&(pco_context_params){.size = sizeof(pco_context_params), .backend = "cpu"}, &context, &err);
    if (!status) status = work_graph(context, one, &err);
    if (!status) status = work_training(context, one, &err);
    if (!status) status = pco_model_open(context, path, NULL, &model, &err);
    if (!status) status = pco_model_generate(model, "3 Sep 51", NULL, append, one->text, NULL, &err);
    pco_model_close(model);
    pco_context_destroy(context);
    if (status) snprintf(one->message, sizeof one->message, "%s", err.message);
    return NULL;
}

static void test_two_contexts(void **state)
{
    (void)state;
    pthread_t threads[2];
    worker workers[2] = {{.device = "cpu:native"}, {.device = "cpu:reference"}};
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(workers[i].message, "");
        assert_string_equal(workers[i].text, "2051-09-03");
        assert_true(workers[i].first == workers[i].last);
    }
}

/* ---- a second thread on one context ---- */

typedef struct shared {
    pco_context *context;
    pco_model *model;
    pco_session *session;
    pco_executable *executable, *batch;
    pco_training *training;
    sem_t inside, tried;
    pthread_t second;
    int calls, refused, reentered;
} shared;

static void try_one(shared *both, pco_status status, const pco_error *err)
{
    both->calls++;
    both->refused += status == PCO_ERROR_INVALID && strstr(err->message, "another thread") != NULL;
}

static void *second_thread(void *user)
{
    shared *both = user;
    pco_error err = {""};
    int32_t *ids = NULL;
    size_t count;
    pco_session *session = NULL;
    sem_wait(&both->inside);
    try_one(both, pco_executable_run(both->executable, &err), &err);
    try_one(both, pco_session_open(both->context, "cpu", &session, &err), &err);
    try_one(both, pco_model_tokenize(both->model, "3", 1, 1, &ids, &count, &err), &err);
    try_one(both, pco_session_clear_state(both->session, "s", &err), &err);
    try_one(both, pco_training_step(both->training, both->batch, NULL, &err), &err);
    try_one(both, pco_training_initialize(both->training, NULL, &err), &err);
    try_one(both, pco_training_save(both->training, "/nowhere/x", &err), &err);
    sem_post(&both->tried);
    return NULL;
}

/* The first thread is in a call, and calls again from its callback; the second one tries meanwhile. */
static int while_inside(void *user, const char *text, size_t bytes)
{
    shared *both = user;
    (void)text, (void)bytes;
    if (both->reentered++) return 0;
    check_ok(pco_executable_run(both->executable, &err));
    sem_post(&both->inside);
    sem_wait(&both->tried);
    return 0;
}

static void test_one_context(void **state)
{
    (void)state;
    shared both = {0};
    const int64_t shape[] = {4};
    sem_init(&both.inside, 0, 0), sem_init(&both.tried, 0, 0);
    check_ok(pco_context_create(&(pco_context_params){.size = sizeof(pco_context_params), .backend = "cpu"},
                                &both.context, &err));
    check_ok(pco_session_open(both.context, NULL, &both.session, &err));
    pco_graph *graph = pco_graph_create();
    const uint32_t x = pco_graph_input(graph, "x", PCO_F32, 1, shape),
                   s = pco_graph_state(graph, "s", PCO_F32, 1, shape);
    pco_graph_output(graph, pco_add(graph, x, s), "y");
    check_ok(pco_executable_create(both.session, graph, NULL, &both.executable, &err));
    pco_graph_destroy(graph);
    const float zeros[4] = {0};
    check_ok(
        pco_executable_write(both.executable, pco_executable_tensor(both.executable, "x"), zeros, sizeof zeros, &err));
    check_ok(begin_training(both.session, &both.training, &both.batch, &err));
    check_ok(pco_model_open(both.context, path, NULL, &both.model, &err));
    assert_int_equal(pthread_create(&both.second, NULL, second_thread, &both), 0);
    check_ok(pco_model_generate(both.model, "3 Sep 51", NULL, while_inside, &both, NULL, &err));
    pthread_join(both.second, NULL);
    assert_int_equal(both.calls, 7);
    assert_int_equal(both.refused, 7);
    assert_true(both.reentered > 1);
    check_ok(pco_executable_run(both.executable, &err)); /* nothing was spoilt */
    pco_model_close(both.model);
    pco_training_destroy(both.training);
    pco_executable_destroy(both.executable);
    pco_session_close(both.session);
    pco_context_destroy(both.context);
    sem_destroy(&both.inside), sem_destroy(&both.tried);
}

/* One thread after the other may use what the first one made. */
static void *take_over(void *user)
{
    shared *both = user;
    pco_error err = {""};
    both->calls = (int)pco_session_open(both->context, NULL, &both->session, &err);
    return NULL;
}

static void test_in_turn(void **state)
{
    (void)state;
    shared both = {0};
    check_ok(pco_context_create(NULL, &both.context, &err));
    assert_int_equal(pthread_create(&both.second, NULL, take_over, &both), 0);
    pthread_join(both.second, NULL);
    assert_int_equal(both.calls, PCO_OK);
    pco_session_close(both.session);
    pco_context_destroy(both.context);
}

int main(int argc, char **argv)
{
    path = argc > 1 ? argv[1] : "models/dates";
    setenv("PORTICO_BACKEND", "cpu", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_contexts), cmocka_unit_test(test_one_context),
                                       cmocka_unit_test(test_in_turn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
