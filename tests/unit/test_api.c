/* The public interface where it is used wrongly: NULL for each pointer of each function, calls while another thread is
 * in one, backends that are not there, calls in a child of fork, graphs that cannot be. argv[1]: models/dates, argv[2]:
 * a decoder. */
#include "check.h"

#include "portico/chat.h"
#include "portico/beam.h"
#include "portico/image.h"
#include "portico/nn.h"
#include "portico/onnx.h"
#include "portico/op.h"
#include "portico/portico.h"
#include "portico/sequence.h"
#include "portico/session.h"
#include "portico/speech.h"
#include "portico/train.h"
#include "runtime/dlpack.h"

#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path, *decoder_path;

static int take_text(void *user, const char *text, size_t bytes)
{
    (void)user, (void)text, (void)bytes;
    return 0;
}

static int take_beam(void *user, const pco_beam *beam)
{
    (void)user, (void)beam;
    return 0;
}

static int take_answer(void *user, const pco_generate_stats *stats)
{
    (void)user, (void)stats;
    return 0;
}

static int take_speech(void *user, const pco_speech_segment *segment)
{
    (void)user, (void)segment;
    return 0;
}

static int take_map(void *user, const pco_attention_map *map)
{
    (void)user, (void)map;
    return 0;
}

static const int64_t shape[] = {2, 2};
static float values[1024];

static pco_status declared_compute(const pco_op_call *call, const double *const *in, double *const *out,
                                   pco_error *error)
{
    (void)error;
    for (int64_t i = 0; i < pco_tensor_elements(call->inputs[0]); i++) out[0][i] = 2 * in[0][i];
    return PCO_OK;
}
static const pco_op_declaration declaration = {
    .size = sizeof declaration, .name = "twice", .signature = "x:f32[..] -> y:f32[..]", .compute = declared_compute};

/* A new graph in place of the one before: an input, a constant, a state, their sum as output "y", and a loss. */
static pco_graph *fresh_graph(pco_graph **graph)
{
    pco_graph_destroy(*graph);
    *graph = pco_graph_create();
    const uint32_t x = pco_graph_input(*graph, "x", PCO_F32, 2, shape);
    const uint32_t c = pco_graph_constant_copy(*graph, "c", PCO_F32, 2, shape, values);
    const uint32_t loss = pco_sum(*graph, x, &(pco_sum_attrs){.n_axes = 2, .axes = {0, 1}});
    const uint32_t state = pco_graph_state(*graph, "3", PCO_F32, 1, (const int64_t[]){1});
    assert_int_equal(x, 0);
    assert_int_equal(loss, 2);
    assert_int_not_equal(pco_graph_output(*graph, pco_add(*graph, pco_add(*graph, x, c), state), "y"), PCO_NONE);
    return *graph;
}

/* Blocks for a new graph, which has rows of channels, too: tensor 6. */
static pco_nn *fresh_nn(pco_graph **graph, pco_nn **nn)
{
    pco_nn_destroy(*nn);
    *nn = pco_nn_create(fresh_graph(graph), NULL);
    assert_non_null(*nn);
    assert_int_equal(pco_graph_input(*graph, "rows", PCO_F32, 3, (const int64_t[]){1, 2, 2}), 6);
    return *nn;
}

/* With a parameter. */
static pco_nn *trained_nn(pco_graph **graph, pco_nn **nn)
{
    assert_int_not_equal(pco_nn_weight(fresh_nn(graph, nn), "w", 1, (const int64_t[]){1}), PCO_NONE);
    return *nn;
}

/* Its input is written: what is not, is what was there. */
static pco_executable *fed(pco_executable *executable)
{
    check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "x"), values, 16, &err));
    return executable;
}

static pco_sequence *emptied(pco_sequence *sequence)
{
    check_ok(pco_sequence_truncate(sequence, 0, &err));
    return sequence;
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

#ifdef PCO_HAVE_ONNX
#define CLEAR_ONNX pco_onnx_runner_destroy(runner_out), pco_onnx_close(onnx_out), runner_out = NULL, onnx_out = NULL
#else
#define CLEAR_ONNX (void)0
#endif
#define STATUS_CALL(what, call, allowed) \
    { \
        pco_error err = {""}; \
        print_message("%s\n", what); \
        const pco_status status = (call); \
        null_status(what, status, allowed, err.message); \
        free(ids_out), free(text_out), free(numbers_out), free(samples_out); \
        ids_out = NULL, text_out = NULL, numbers_out = NULL, samples_out = NULL; \
        CLEAR_ONNX; \
        if (managed_out) managed_out->deleter(managed_out), managed_out = NULL; \
        pco_weights_close(weights_out); \
        pco_model_close(model_out); \
        pco_sequence_destroy(sequence_out); \
        pco_training_destroy(training_out); \
        pco_executable_destroy(executable_out); \
        pco_session_close(session_out); \
        pco_context_destroy(context_out); \
        weights_out = NULL, training_out = NULL, model_out = NULL, sequence_out = NULL, executable_out = NULL, \
        session_out = NULL, context_out = NULL; \
    }
#define PLAIN_CALL(what, call, allowed) \
    { \
        print_message("%s\n", what); \
        (void)(call); \
    }

/* Of what builds, the graph keeps the error, and there is no tensor. Not even a graph: only no tensor. */
static void null_built(const char *what, uint32_t tensor, const pco_graph *graph, int allowed)
{
    pco_error err = {""};
    const char *name = strchr(what, ' ') + 1;
    const pco_status status = pco_graph_check(graph, &err);
    if (allowed ? status == PCO_OK
                : tensor == PCO_NONE && status == PCO_ERROR_INVALID &&
                      (!graph || strstr(err.message, "NULL") || strstr(err.message, name)))
        return;
    fail_msg("%s NULL: tensor %u, status %d, '%s'", what, tensor, (int)status, err.message);
}

#define BUILD_CALL(what, call, allowed) \
    { \
        print_message("%s\n", what); \
        const uint32_t built = (call); \
        null_built(what, built, graph, allowed); \
    }
#define NO_GRAPH_CALL(what, call) \
    { \
        print_message("%s\n", what); \
        const uint32_t built = (call); \
        null_built(what, built, NULL, 0); \
    }

static size_t null_read(const char *file, void *data, size_t size)
{
    FILE *in = fopen(file, "rb");
    assert_non_null(in);
    const size_t bytes = fread(data, 1, size, in);
    fclose(in);
    return bytes;
}

/* A file in memory that holds those bytes, and its path. */
static int null_file(const void *data, size_t size, char file[64])
{
    const int fd = memfd_create("null", MFD_CLOEXEC);
    assert_int_equal(write(fd, data, size), size);
    snprintf(file, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static void null_empty_file(char *template)
{
    const int fd = mkstemp(template);
    assert_true(fd >= 0);
    close(fd);
}

/* The file with a chat template as its first key: 64 bytes, so that what lies behind keeps its alignment. */
static size_t null_with_template(const unsigned char *gguf, size_t bytes, unsigned char *out)
{
    static const char key[] = "tokenizer.chat_template", text[] = "{{messages|length}}ab";
    const uint64_t key_size = sizeof key - 1, text_size = sizeof text - 1;
    const uint32_t type = 8; /* a string */
    unsigned char *at = out + 24;
    memcpy(out, gguf, 24);
    out[16]++; /* how many keys there are */
    memcpy(at, &key_size, 8);
    memcpy(at += 8, key, key_size);
    memcpy(at += key_size, &type, 4);
    memcpy(at += 4, &text_size, 8);
    memcpy(at += 8, text, text_size);
    assert_int_equal(at + text_size - out, 24 + 64);
    memcpy(at + text_size, gguf + 24, bytes - 24);
    return bytes + 64;
}

/* A thread that is in a call of a context until it is told. */
typedef struct busy_thread {
    pco_model *model;
    pthread_t thread;
    sem_t inside, done;
    int times;
} busy_thread;

static int busy_text(void *user, const char *text, size_t bytes)
{
    busy_thread *busy = user;
    (void)text, (void)bytes;
    if (busy->times++ == 0) sem_post(&busy->inside), sem_wait(&busy->done);
    return 0;
}

static void *busy_work(void *user)
{
    busy_thread *busy = user;
    check_ok(pco_model_generate(busy->model, "3 Sep 51", NULL, busy_text, busy, NULL, &(pco_error){""}));
    return NULL;
}

static void busy_begin(busy_thread *busy, pco_model *model)
{
    *busy = (busy_thread){.model = model};
    sem_init(&busy->inside, 0, 0), sem_init(&busy->done, 0, 0);
    assert_int_equal(pthread_create(&busy->thread, NULL, busy_work, busy), 0);
    sem_wait(&busy->inside);
}

static void busy_end(busy_thread *busy)
{
    sem_post(&busy->done);
    pthread_join(busy->thread, NULL);
    sem_destroy(&busy->inside), sem_destroy(&busy->done);
}

/* A good call while another thread is in one. */
#define SECOND_CALL(what, call) \
    { \
        pco_error err = {""}; \
        const pco_status status = (call); \
        if (status != PCO_ERROR_INVALID || !strstr(err.message, "another thread")) \
            fail_msg("%s while another thread is in a call: status %d, '%s'", what, (int)status, err.message); \
    }

enum { NULL_GGUF = 1 << 18 };

/* The model that reads images beside image_path. */
static char image_path[512];
static pco_model *image_model;
static void null_open_images(pco_context *context)
{
    char vit[600];
    snprintf(vit, sizeof vit, "%.*s/../vit", (int)(strrchr(image_path, '/') - image_path), image_path);
    check_ok(pco_model_open(context, vit, NULL, &image_model, &err));
}

/* The decoder with that template, for several sequences at once. */
static pco_model *null_open_chatty(pco_context *context, const unsigned char *gguf, size_t bytes)
{
    null_open_images(context);
    static unsigned char chatty[NULL_GGUF + 64]; /* lives as long as the model */
    const pco_model_params params = {.size = sizeof params, .device = "cpu", .sequences = 3};
    pco_model *model;
    const size_t chatty_bytes = null_with_template(gguf, bytes, chatty);
    check_ok(pco_model_open_memory(context, chatty, chatty_bytes, &params, &model, &err));
    return model;
}

/* What gives a number or nothing takes NULL for none. */
static void test_null_is_none(void **state)
{
    (void)state;
    const pco_context_params params = {.size = sizeof params, .backend = "cpu"};
    pco_model_info info = {.size = sizeof info};
    pco_context *context;
    check_ok(pco_context_create(&params, &context, &err));
    assert_int_not_equal(pco_context_devices(context, NULL, 0), 0);
    assert_int_equal(pco_context_devices(NULL, NULL, 0), 0);
    pco_model_describe(NULL, &info);
    assert_int_equal(info.layers, 0);
    pco_context_destroy(context);
}

static void test_backend(void **state)
{
    (void)state;
    pco_context *context = NULL;
    static const char *const wrong[] = {"warp", "cpu:77", "cpu:native+warp", ":", "+", ","};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        check_fails(pco_context_create(&(pco_context_params){.size = sizeof(pco_context_params), .backend = wrong[i]},
                                       &context, &err),
                    PCO_ERROR_NOT_FOUND, "there are: cpu:0");
        assert_null(context);
        setenv("PORTICO_BACKEND", wrong[i], 1);
        check_fails(pco_context_create(NULL, &context, &err), PCO_ERROR_NOT_FOUND, "there are: cpu:0");
        unsetenv("PORTICO_BACKEND");
    }
    check_ok(pco_context_create(&(pco_context_params){.size = sizeof(pco_context_params), .backend = "warp,cpu"},
                                &context, &err));
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
    check_ok(pco_context_create(&(pco_context_params){.size = sizeof(pco_context_params), .backend = "cpu"}, &context,
                                &err));
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

/* A child can neither run what its parent made nor close it. */
static void test_fork_session(void **state)
{
    (void)state;
    pco_context *context;
    pco_session *session;
    pco_executable *executable;
    pco_graph *graph = NULL;
    int how;
    check_ok(pco_context_create(&(pco_context_params){.size = sizeof(pco_context_params), .backend = "cpu"}, &context,
                                &err));
    check_ok(pco_session_open(context, NULL, &session, &err));
    check_ok(pco_executable_create(session, fresh_graph(&graph), NULL, &executable, &err));
    check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "x"), values, sizeof *values, &err));
    const pid_t child = fork();
    if (child == 0) {
        pco_session *other;
        pco_error err = {""};
        alarm(20);
        int right = pco_executable_run(executable, &err) == PCO_ERROR_INVALID && strstr(err.message, "fork");
        right &= pco_session_open(context, NULL, &other, &err) == PCO_ERROR_INVALID && !other;
        right &= pco_session_clear_state(session, "3", &err) == PCO_ERROR_INVALID;
        pco_executable_destroy(executable);
        pco_session_close(session);
        _exit(right ? 0 : 9);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0) fail_msg("the child ended with status %d", how);
    check_ok(pco_executable_run(executable, &err));
    pco_executable_destroy(executable);
    pco_session_close(session);
    pco_context_destroy(context);
    pco_graph_destroy(graph);
}

/* What a stranger writes by mistake is the graph's error, which names it; nothing after it crashes. */
static void test_misuse(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        int step;
    } mistakes[] = {{"add", 0},
                    {"tensor of this graph", 1},
                    {"called 'x' already", 2},
                    {"fill: 9 dimensions", 3},
                    {"axis 7", 4},
                    {"missing", 5},
                    {"does not exist", 6},
                    {"element type", 7},
                    {"dimension", 8}};
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        pco_graph *graph = NULL;
        fresh_graph(&graph);
        const uint32_t longer = pco_graph_input(graph, "longer", PCO_F32, 1, (const int64_t[]){3});
        uint32_t y = PCO_NONE;
        switch (mistakes[i].step) {
        case 0: y = pco_add(graph, 0, longer); break;
        case 1: y = pco_exp(graph, 4711); break;
        case 2: y = pco_graph_output(graph, pco_exp(graph, 0), "x"); break;
        case 3: y = pco_fill(graph, PCO_F32, 1, 9, (const int64_t[9]){1}); break;
        case 4: y = pco_softmax(graph, 0, 7); break;
        case 5: y = pco_cast(graph, PCO_NONE, PCO_F16); break;
        case 6: y = pco_graph_add(graph, (pco_op)9999, NULL, NULL, 0, NULL); break;
        case 7: y = pco_graph_input(graph, "odd", (pco_dtype)99, 0, NULL); break;
        case 8: y = pco_reshape(graph, 0, 9, (const int64_t[9]){1}); break;
        }
        assert_int_equal(y, PCO_NONE);
        assert_int_equal(pco_relu(graph, pco_add(graph, y, y)), PCO_NONE);
        pco_error err = {""};
        const pco_status status = pco_graph_check(graph, &err);
        if (status != PCO_ERROR_INVALID || !strstr(err.message, mistakes[i].says))
            fail_msg("mistake %d: status %d, '%s'", mistakes[i].step, (int)status, err.message);
        pco_graph_destroy(graph);
    }
}

/* Structs say how long they are. */
static void test_sizes(void **state)
{
    (void)state;
    pco_context *context;
    pco_session *session;
    pco_executable *executable, *other;
    pco_graph *graph = NULL;
    pco_executable_stats counts = {.size = offsetof(pco_executable_stats, cpu_nodes), .cpu_nodes = 77};
    check_ok(pco_context_create(&(pco_context_params){.size = sizeof(pco_context_params), .backend = "cpu"}, &context,
                                &err));
    check_ok(pco_session_open(context, NULL, &session, &err));
    fresh_graph(&graph);
    check_fails(pco_executable_create(session, graph, &(pco_executable_params){.name = "x"}, &executable, &err),
                PCO_ERROR_INVALID, "size");
    check_fails(pco_executable_create(session, graph, &(pco_executable_params){.size = 3}, &executable, &err),
                PCO_ERROR_INVALID, "size of a struct is 3");
    check_fails(pco_executable_create(session, graph, &(pco_executable_params){.size = 4096}, &executable, &err),
                PCO_ERROR_INVALID, "newer header");
    check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
    check_ok(pco_executable_inspect(executable, &counts, &err)); /* of a program with an older, shorter struct */
    assert_int_not_equal(counts.nodes, 0);
    assert_int_equal(counts.cpu_nodes, 77);
    pco_graph_output(graph, pco_exp(graph, pco_graph_constant(graph, "empty", PCO_F32, 2, shape, NULL)), "z");
    check_fails(pco_executable_create(session, graph, NULL, &other, &err), PCO_ERROR_INVALID, "'empty'");
    check_fails(pco_executable_start(executable, 0, 1000, &err), PCO_ERROR_INVALID, "segments");
    check_fails(pco_session_lend(session, values + 1, 8, &err), PCO_ERROR_INVALID, "page");
    pco_executable_destroy(executable);
    pco_session_close(session);
    pco_context_destroy(context);
    pco_graph_destroy(graph);
}

static void early_log(void *user, pco_log_level level, const char *line)
{
    if (level == PCO_LOG_ERROR) snprintf(user, 256, "%s", line);
}

/* What is closed before what was made in it gets a line; what was made in it is refused from then on, and the last of
 * it takes all with it (test `leaks` would see what stays). */
static void test_closed_too_early(void **state)
{
    (void)state;
    char said[256] = "";
    float y[4];
    const pco_context_params quiet = {.size = sizeof quiet, .backend = "cpu", .log = early_log, .log_user = said};
    const pco_model_params two = {.size = sizeof two, .sequences = 2};
    pco_context *context;
    pco_session *session;
    pco_executable *executable, *other;
    pco_training *training;
    pco_model *model;
    pco_sequence *sequence;
    pco_graph *graph = NULL;
    check_ok(pco_context_create(&quiet, &context, &err));
    check_ok(pco_model_open(context, decoder_path, &two, &model, &err));
    check_ok(pco_sequence_create(model, &sequence, &err));
    pco_model_close(model);
    check_fails(pco_sequence_append(sequence, NULL, 0, NULL, NULL, NULL, &err), PCO_ERROR_INVALID, "model was closed");
    check_fails(pco_sequences_step(&sequence, (const int32_t[]){5}, 1, NULL, &err), PCO_ERROR_INVALID, "was closed");
    pco_sequence_destroy(sequence);
    assert_string_equal(said, "");
    check_ok(pco_model_open(context, path, NULL, &model, &err));
    check_ok(pco_session_open(context, NULL, &session, &err));
    check_ok(pco_executable_create(session, fresh_graph(&graph), NULL, &executable, &err));
    check_ok(pco_training_create(
        session, &(pco_training_params){.size = sizeof(pco_training_params), .learning_rate = 1}, &training, &err));
    check_ok(pco_executable_run(fed(executable), &err));
    pco_session_close(session);
    assert_non_null(strstr(said, "pco_session_close: of what was made"));
    assert_non_null(strstr(said, " 2 were not destroyed"));
    check_fails(pco_executable_run(executable, &err), PCO_ERROR_INVALID, "pco_executable_run: its session was closed");
    check_fails(pco_executable_create(session, graph, NULL, &other, &err), PCO_ERROR_INVALID, "session was closed");
    pco_context_destroy(context);
    assert_non_null(strstr(said, "pco_context_destroy: 2 of the context's sessions and models were not closed"));
    check_fails(pco_executable_read(executable, 0, y, sizeof y, &err), PCO_ERROR_INVALID, "context was destroyed");
    pco_training_destroy(training);
    check_fails(pco_executable_run(executable, &err), PCO_ERROR_INVALID, "context was destroyed");
    pco_executable_destroy(executable); /* and the session with it */
    check_fails(pco_model_generate(model, "3", NULL, NULL, NULL, NULL, &err), PCO_ERROR_INVALID,
                "context was destroyed");
    pco_model_close(model); /* and the context with it */
    pco_graph_destroy(graph);
}

/* Names that are none, and what is read before it is there. */
static void test_handles(void **state)
{
    (void)state;
    float y[4];
    pco_context *context;
    pco_session *session;
    pco_executable *executable;
    pco_graph *graph = NULL;
    check_ok(pco_context_create(&(pco_context_params){.size = sizeof(pco_context_params), .backend = "cpu"}, &context,
                                &err));
    check_ok(pco_session_open(context, NULL, &session, &err));
    check_ok(pco_executable_create(session, fresh_graph(&graph), NULL, &executable, &err));
    const uint32_t none = pco_executable_tensor(executable, "nothing"), out = pco_executable_tensor(executable, "y");
    check_fails(pco_executable_write(executable, none, y, 16, &err), PCO_ERROR_INVALID,
                "no handle of an input; there are: 'x'");
    check_fails(pco_executable_read(executable, none, y, 16, &err), PCO_ERROR_INVALID, "there are: 'y'");
    check_fails(pco_executable_write(executable, out, y, 16, &err), PCO_ERROR_INVALID,
                "'y' is no input; there are: 'x'");
    check_fails(pco_executable_read(executable, out, y, 16, &err), PCO_ERROR_INVALID, "'y' has not been computed");
    check_fails(pco_executable_run(executable, &err), PCO_ERROR_INVALID, "'x' was never written");
    check_fails(pco_executable_write(executable, pco_executable_tensor(executable, "x"), values, 17, &err),
                PCO_ERROR_INVALID, "'x' has 16 bytes, not 17");
    check_ok(pco_executable_run(fed(executable), &err));
    check_ok(pco_executable_read(executable, out, y, 16, &err));
    pco_executable_destroy(executable);
    pco_session_close(session);
    pco_context_destroy(context);
    pco_graph_destroy(graph);
}

/* Embeddings of a model that was made for something else: alone or together the same, and of length 1 on request. */
static void test_embed(void **state)
{
    static const char *const texts[] = {"3 May 2021", "4", "Saturday the 1st of June, 2019"};
    pco_embed_params params = {.size = sizeof params, .normalize = 1};
    float rows[3 * 96], one[96];
    pco_context *context;
    pco_model *model;
    size_t cut = 9;
    (void)state;
    check_ok(pco_context_create(NULL, &context, &err));
    check_ok(pco_model_open(context, path, NULL, &model, &err));
    check_ok(pco_model_embed(model, texts, 3, &params, rows, &cut, &err));
    assert_int_equal(cut, 0);
    for (int i = 0; i < 3; i++) {
        double squares = 0, difference = 0;
        check_ok(pco_model_embed(model, &texts[i], 1, NULL, one, NULL, &err));
        for (int k = 0; k < 96; k++) squares += (double)one[k] * (double)one[k];
        for (int k = 0; k < 96; k++)
            difference = fmax(difference, fabs((double)one[k] / sqrt(squares) - (double)rows[96 * i + k]));
        assert_true(difference < 1e-5); /* two kernels of f32 products of 96 */
    }
    assert_true(fabs((double)(rows[0] - rows[96])) > 1e-4);
    params.pooling = (pco_pooling)7;
    check_fails(pco_model_embed(model, texts, 1, &params, rows, NULL, &err), PCO_ERROR_INVALID, "mean nothing");
    pco_model_close(model);
    pco_context_destroy(context);
}

/* Arguments of the calls below. */
static const pco_context_params context_params = {.size = sizeof context_params, .backend = "cpu"};
static const pco_model_params model_params = {.size = sizeof model_params, .device = "cpu"};
static const pco_generate_params generate_params = {.size = sizeof generate_params, .max_tokens = 2};
static const char *const texts[2] = {"3 May 2021", "4"};
static const pco_embed_params embed_params = {.size = sizeof embed_params};
static const unsigned char image_rgb[3];
static const pco_image image = {sizeof image, 1, 1, image_rgb};
static const pco_classify_params classify_params = {.size = sizeof classify_params};
static pco_image image_out = {.size = sizeof image_out};
static const char *const *labels_out;
static const pco_beam_params beam_params = {.size = sizeof beam_params, .beams = 2};
static const pco_chat_message chat_message = {"user", "a"};
static const pco_chat_params chat_params = {.size = sizeof chat_params, .source = "{{ messages[0].content }}"};
static const pco_generate_params chat_generate = {.size = sizeof chat_generate, .max_tokens = 2};
static const int32_t ids[2] = {5, 6};
static const pco_executable_params executable_params = {.size = sizeof executable_params};
static const uint32_t wrt[PCO_MAX_INPUTS] = {0};
static const double frequencies[] = {1, 0.5};
static const float factors[] = {1, 1};
static const _Alignas(65536) unsigned char page[4] = {0};

static const pco_nn_params nn_params = {.size = sizeof nn_params};
static const pco_initialization initialization = {.size = sizeof initialization};
static const pco_nn_linear_params linear_params = {
    .size = sizeof linear_params, .name = "l", .in_features = 2, .out_features = 2};
static const pco_nn_norm_params norm_params = {.size = sizeof norm_params, .eps = 1e-5, .width = 2};
static const pco_nn_attention_params attention_params = {
    .size = sizeof attention_params, .name = "a", .width = 2, .heads = 1};
static const pco_nn_attention_operands attention_operands = PCO_NN_NO_OPERANDS;
static const pco_nn_ffn_params ffn_params = {
    .size = sizeof ffn_params, .name = "f", .activation = PCO_NN_RELU, .width = 2, .hidden = 2};
static const pco_nn_transformer_params transformer_params = {
    .size = sizeof transformer_params, .width = 2, .heads = 1, .layers = 1};
static const pco_nn_transformer_inputs transformer_inputs = PCO_NN_NO_INPUTS;
static const pco_training_params training_params = {.size = sizeof training_params, .learning_rate = 0.1};
static pco_device_description devices[1] = {{.size = sizeof *devices}};
static pco_plugin_description plugins[1] = {{.size = sizeof *plugins}};

static pco_model_info info = {.size = sizeof info};
static pco_generate_stats stats = {.size = sizeof stats};
static pco_special_ids special = {.size = sizeof special};
static pco_node_timing node_timings[1] = {{.size = sizeof *node_timings}};
static int64_t managed_shape[] = {2, 2};
static const DLManagedTensor managed = {
    .dl_tensor = {values, {DL_CPU, 0}, 2, {DL_FLOAT, 32, 1}, managed_shape, NULL, 0}};
static pco_executable_stats counts = {.size = sizeof counts};
static pco_training_result training_result = {.size = sizeof training_result};

/* One sample of silence, as a file. */
static const char sound_bytes[] =
    "RIFF\0\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x80\x3E\0\0\0\x7D\0\0\2\0\x10\0data\2\0\0\0\0";
static char sound_path[64];
static const pco_transcribe_params transcribe_params = {.size = sizeof transcribe_params};
static pco_transcribe_stats transcribe_stats = {.size = sizeof transcribe_stats};

#ifdef PCO_HAVE_ONNX
/* One Identity from x to y, operator set 13. */
static const char onnx_bytes[] =
    "\x3A\x1C\x0A\x10\x0A\x01x\x12\x01y\x22\x08Identity\x5A\x03\x0A\x01x\x62\x03\x0A\x01y\x42\x02\x10\x0D";
#endif

/* The calls (null_calls.h and second_calls.h, made from the headers) find their arguments here by name. */
static void test_null(void **state)
{
    (void)state;
    pco_context *context, *context_out = NULL;
    pco_model *model, *decoder, *model_out = NULL;
    pco_sequence *sequence, *sequence_out = NULL;
    pco_nn *nn = NULL;
    pco_weights *weights_out = NULL;
    char weights_path[512];
    snprintf(weights_path, sizeof weights_path, "%s/model.safetensors", path);
    pco_training *training, *training_out = NULL;
    pco_executable *batch_out = NULL;
    char checkpoint_path[] = "/tmp/portico-api-XXXXXX";
    null_empty_file(checkpoint_path);
    int32_t *ids_out = NULL, id_out;
    size_t count_out;
    char *text_out = NULL;
    float logits[1000], *samples_out = NULL;
    double *numbers_out = NULL;
    pco_graph *graph = NULL;
    pco_session *session, *session_out = NULL;
    pco_executable *executable, *executable_out = NULL;
    pco_tensor tensor = {0};
    uint32_t numbers[PCO_MAX_OUTPUTS];
    uint64_t bytes_out;
    check_ok(pco_context_create(&context_params, &context, &err));
    check_ok(pco_model_open(context, path, &model_params, &model, &err));
    static unsigned char gguf[NULL_GGUF];
    const size_t gguf_bytes = null_read(decoder_path, gguf, sizeof gguf);
    decoder = null_open_chatty(context, gguf, gguf_bytes);
    check_ok(pco_sequence_create(decoder, &sequence, &err));
    pco_sequence *sequences[] = {sequence, NULL};
    check_ok(pco_sequence_create(decoder, &sequences[1], &err));
    check_ok(pco_session_open(context, "cpu", &session, &err));
    check_ok(pco_session_profile(session, 1, &err));
    check_ok(pco_executable_create(session, fresh_graph(&graph), NULL, &executable, &err));
    check_ok(pco_executable_run(fed(executable), &err));
    check_ok(pco_training_create(session, &training_params, &training, &err));
    void *address_out;
    DLManagedTensor *managed_out = NULL;
    pco_op_declaration other = declaration;
    const pco_operation *operation, *operation_out;
    other.name = "other";
    check_ok(pco_op_register(context, &other, &operation, &err));
    const uint32_t handles[] = {pco_executable_tensor(executable, "x"), pco_executable_tensor(executable, "y")};
#ifdef PCO_HAVE_ONNX
    pco_onnx_model *onnx = NULL, *onnx_out = NULL;
    pco_onnx_runner *runner = NULL, *runner_out = NULL;
    pco_onnx_value onnx_value = {.size = sizeof onnx_value};
    const pco_onnx_array onnx_input = {sizeof onnx_input, "x", PCO_ONNX_FLOAT, 1, {1}, factors, 4};
    pco_onnx_array onnx_output = {.size = sizeof onnx_output};
    check_ok(pco_onnx_parse(onnx_bytes, sizeof onnx_bytes - 1, NULL, &onnx, &err));
    check_ok(pco_onnx_runner_create(session, onnx, &runner, &err));
    check_ok(pco_onnx_run(runner, &onnx_input, 1, &err));
    char onnx_path[64];
    const int onnx_file = null_file(onnx_bytes, sizeof onnx_bytes - 1, onnx_path);
#endif
#include "null_calls.h"
    busy_thread busy;
    busy_begin(&busy, model);
#include "second_calls.h"
    busy_end(&busy);
#ifdef PCO_HAVE_ONNX
    pco_onnx_runner_destroy(runner);
    pco_onnx_close(onnx);
    close(onnx_file);
#endif
    pco_nn_destroy(nn);
    pco_graph_destroy(graph);
    pco_training_destroy(training);
    unlink(checkpoint_path);
    pco_executable_destroy(executable);
    pco_session_close(session);
    pco_sequence_destroy(sequence);
    pco_sequence_destroy(sequences[1]);
    pco_model_close(decoder);
    pco_model_close(image_model);
    pco_model_close(model);
    pco_context_destroy(context);
}

int main(int argc, char **argv)
{
    snprintf(image_path, sizeof image_path, "%s/../../tests/golden/images/files/rgb.ppm", argc > 1 ? argv[1] : "");
    if (argc != 3) {
        fprintf(stderr, "usage: test_api MODEL DECODER\n");
        return 2;
    }
    path = argv[1];
    decoder_path = argv[2];
    unsetenv("PORTICO_BACKEND");
    (void)null_file(sound_bytes, sizeof sound_bytes, sound_path); /* open until the end */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null),    cmocka_unit_test(test_null_is_none), cmocka_unit_test(test_embed),
        cmocka_unit_test(test_backend), cmocka_unit_test(test_fork),         cmocka_unit_test(test_fork_session),
        cmocka_unit_test(test_misuse),  cmocka_unit_test(test_sizes),        cmocka_unit_test(test_closed_too_early),
        cmocka_unit_test(test_handles)};
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
