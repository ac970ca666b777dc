/* test_training FILE: portico/train.h against PyTorch's optimisers (tests/golden/make_training.py), its
 * checkpoints, loss scaling and errors, on the device that PORTICO_BACKEND picks. */
#define CHECK_FOLDER
#include "models_test.h"

#include "formats/weights.h"
#include "graph/graph.h"
#include "portico/portico.h"
#include "portico/train.h"

#include <unistd.h>

enum { IN = 6, HIDDEN = 8, CLASSES = 5, ROWS = 7, UPDATES = 6 };
static const char *const names[] = {"linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"};
static const int64_t elements[] = {HIDDEN * IN, HIDDEN, CLASSES *HIDDEN, CLASSES};
/* Each update adds the error of a gradient of f32, some 2^-20 of its largest term (test_goldens), times the rate over
 * eps, 50 at most, of values near 1; six of them: 3e-4 at worst, were all errors to have one sign. */
static const double tolerance = 3e-4;

static pco_context *context;
static pco_weights *file;

static const pco_weight *stored(const char *name, const char *what)
{
    char text[256];
    snprintf(text, sizeof text, "%s/%s", name, what);
    const pco_weight *weight = pco_weights_find(file, text);
    if (!weight) fail_msg("the file has no '%s'", text);
    return weight;
}

static double wanted(const char *name, const char *what, int64_t i)
{
    double value;
    memcpy(&value, (const char *)stored(name, what)->data + (size_t)i * sizeof value, sizeof value);
    return value;
}

/* ---- the network ---- */

typedef struct run {
    pco_session *session;
    pco_training *training;
    pco_executable *batch;
} run;

/* The loss of ROWS rows, times the input "factor" where there is one. */
static pco_status add_graph(run *r, pco_dtype dtype, int with_factor, pco_executable **batch, pco_error *why)
{
    const pco_nn_params of_nn = {.size = sizeof of_nn, .dtype = dtype};
    const pco_nn_linear_params first = {.size = sizeof first,
                                        .name = "linear1",
                                        .in_features = IN,
                                        .out_features = HIDDEN,
                                        .bias = 1,
                                        .activation = PCO_NN_GELU};
    const pco_nn_linear_params second = {
        .size = sizeof second, .name = "linear2", .in_features = HIDDEN, .out_features = CLASSES, .bias = 1};
    pco_graph *graph = pco_graph_create();
    pco_nn *nn = pco_nn_create(graph, &of_nn);
    const uint32_t x = pco_graph_input(graph, "x", PCO_F32, 2, (int64_t[]){ROWS, IN});
    const uint32_t labels = pco_graph_input(graph, "labels", PCO_I32, 1, (int64_t[]){ROWS});
    const uint32_t logits = pco_nn_linear(nn, pco_nn_linear(nn, x, &first), &second);
    uint32_t loss = pco_nn_cross_entropy(nn, logits, labels, 0);
    if (with_factor) loss = pco_mul(graph, loss, pco_graph_input(graph, "factor", PCO_F32, 1, (int64_t[]){1}));
    const pco_status status = pco_training_add(r->training, nn, loss, batch, why);
    pco_nn_destroy(nn);
    pco_graph_destroy(graph);
    return status;
}

static run begin(const pco_training_params *params, int with_factor)
{
    run r;
    check_ok(pco_session_open(context, NULL, &r.session, &err));
    check_ok(pco_training_create(r.session, params, &r.training, &err));
    check_ok(add_graph(&r, params->dtype, with_factor, &r.batch, &err));
    return r;
}

static void end(run *r)
{
    pco_training_destroy(r->training);
    pco_session_close(r->session);
}

static void first_values(const run *r, const char *name)
{
    for (int i = 0; i < 4; i++) {
        char what[64];
        snprintf(what, sizeof what, "first/%s", names[i]);
        const pco_weight *weight = stored(name, what);
        check_ok(pco_session_write_state(r->session, names[i], weight->data, weight->bytes, &err));
    }
}

static pco_training_result one_step(const run *r, const char *name, int64_t index)
{
    pco_training_result result = {.size = sizeof result};
    const char *x = stored(name, "x")->data, *labels = stored(name, "labels")->data;
    check_ok(pco_executable_write(r->batch, pco_executable_tensor(r->batch, "x"),
                                  x + (size_t)index * ROWS * IN * sizeof(float), ROWS * IN * sizeof(float), &err));
    check_ok(pco_executable_write(r->batch, pco_executable_tensor(r->batch, "labels"),
                                  labels + (size_t)index * ROWS * sizeof(int32_t), ROWS * sizeof(int32_t), &err));
    check_ok(pco_training_step(r->training, r->batch, &result, &err));
    return result;
}

static void read_all(const run *r, float *values)
{
    for (int i = 0; i < 4; i++) {
        check_ok(pco_session_read_state(r->session, names[i], values, (uint64_t)elements[i] * sizeof *values, &err));
        values += elements[i];
    }
}
enum { ALL = HIDDEN * IN + HIDDEN + CLASSES * HIDDEN + CLASSES };

/* ---- against PyTorch ---- */

static void check_case(const char *name, pco_training_params params)
{
    float values[ALL], *v = values;
    double worst = 0;
    params.size = sizeof params;
    const int64_t accumulation = params.accumulation ? params.accumulation : 1;
    run r = begin(&params, 0);
    first_values(&r, name);
    for (int64_t i = 0; i < UPDATES * accumulation; i++) {
        const pco_training_result result = one_step(&r, name, i);
        const int last = (i + 1) % accumulation == 0;
        assert_int_equal(result.updated, last);
        assert_int_equal(result.step, (i + 1) / accumulation);
        assert_true(fabs(result.loss - wanted(name, "losses", i)) <= tolerance);
        if (last) assert_true(fabs(result.grad_norm - wanted(name, "norms", i / accumulation)) <= tolerance);
    }
    assert_int_equal(pco_training_steps(r.training), UPDATES);
    read_all(&r, values);
    for (int k = 0; k < 4; k++) {
        char what[64];
        snprintf(what, sizeof what, "last/%s", names[k]);
        for (int64_t i = 0; i < elements[k]; i++) {
            const double off = fabs((double)*v++ - wanted(name, what, i));
            if (!(off <= worst)) worst = off;
        }
    }
    print_message("%s: parameters at most %.3g of the bound away\n", name, worst / tolerance);
    if (!(worst <= tolerance)) fail_msg("%s: a parameter is %g away", name, worst);
    end(&r);
}

static void test_optimisers(void **state)
{
    (void)state;
    check_case("sgd", (pco_training_params){.optimizer = PCO_OPTIMIZER_SGD,
                                            .learning_rate = 0.1,
                                            .momentum = 0.9,
                                            .weight_decay = 0.05,
                                            .decay_all = 1});
    check_case("nesterov", (pco_training_params){.optimizer = PCO_OPTIMIZER_SGD,
                                                 .learning_rate = 0.1,
                                                 .momentum = 0.9,
                                                 .nesterov = 1,
                                                 .max_grad_norm = 0.5});
    check_case("adam", (pco_training_params){.optimizer = PCO_OPTIMIZER_ADAM,
                                             .learning_rate = 0.05,
                                             .beta1 = 0.8,
                                             .beta2 = 0.95,
                                             .eps = 1e-3,
                                             .weight_decay = 0.1,
                                             .decay_all = 1,
                                             .max_grad_norm = 0.7});
    check_case(
        "adamw",
        (pco_training_params){
            .learning_rate = 0.05, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.1, .decay_all = 1});
    check_case("many",
               (pco_training_params){.learning_rate = 0.05, .eps = 1e-3, .max_grad_norm = 0.7, .accumulation = 3});
}

static void test_schedule(void **state)
{
    (void)state;
    const pco_training_params params = {.size = sizeof params,
                                        .learning_rate = 8e-3,
                                        .min_learning_rate = 2e-3,
                                        .schedule = PCO_SCHEDULE_LINEAR,
                                        .warmup_steps = 2,
                                        .steps = 5};
    static const double rates[] = {4e-3, 8e-3, 6e-3, 4e-3, 2e-3, 2e-3}; /* up in 2, down in 3, and there it stays */
    run r = begin(&params, 0);
    first_values(&r, "sgd");
    for (int i = 0; i < UPDATES; i++) assert_true(fabs(one_step(&r, "sgd", i).learning_rate - rates[i]) < 1e-15);
    end(&r);
}

/* ---- layers that are computed again ---- */

enum { LAYERS = 3, WIDE = 16, LONG = 128 };

/* Two updates of a stack with dropout; the parameters at the end, and what the executable is made of. */
static pco_executable_stats recomputed(int recompute, float *values)
{
    const pco_training_params params = {.size = sizeof params, .learning_rate = 0.05, .recompute = recompute};
    const pco_nn_params with_dropout = {.size = sizeof with_dropout, .dropout = 0.1};
    const pco_nn_transformer_params stack = {
        .size = sizeof stack, .width = WIDE, .heads = 2, .layers = LAYERS, .normalize_before = 1};
    const pco_initialization how = {.size = sizeof how, .seed = 4};
    pco_executable_stats stats = {.size = sizeof stats};
    float x[LONG * WIDE];
    int32_t labels[LONG];
    run r;
    for (int i = 0; i < LONG * WIDE; i++) x[i] = models_uniform(1, 2, i, 1, 0);
    for (int i = 0; i < LONG; i++) labels[i] = i % WIDE;
    check_ok(pco_session_open(context, NULL, &r.session, &err));
    check_ok(pco_training_create(r.session, &params, &r.training, &err));
    pco_graph *graph = pco_graph_create();
    pco_nn *nn = pco_nn_create(graph, &with_dropout);
    const uint32_t in = pco_graph_input(graph, "x", PCO_F32, 3, (int64_t[]){1, LONG, WIDE});
    const uint32_t classes = pco_graph_input(graph, "labels", PCO_I32, 2, (int64_t[]){1, LONG});
    const uint32_t y = pco_nn_encoder(nn, in, "stack", &stack, NULL);
    check_ok(pco_training_add(r.training, nn, pco_nn_cross_entropy(nn, y, classes, 0), &r.batch, &err));
    pco_nn_destroy(nn);
    pco_graph_destroy(graph);
    check_ok(pco_training_initialize(r.training, &how, &err));
    check_ok(pco_executable_write(r.batch, pco_executable_tensor(r.batch, "x"), x, sizeof x, &err));
    check_ok(pco_executable_write(r.batch, pco_executable_tensor(r.batch, "labels"), labels, sizeof labels, &err));
    for (int i = 0; i < 2; i++) check_ok(pco_training_step(r.training, r.batch, NULL, &err));
    check_ok(pco_session_read_state(r.session, "stack.layers.0.linear1.weight", values,
                                    4 * WIDE * WIDE * sizeof *values, &err));
    check_ok(pco_executable_inspect(r.batch, &stats, &err));
    end(&r);
    return stats;
}

static void test_recompute(void **state)
{
    (void)state;
    static float kept[4 * WIDE * WIDE], again[4 * WIDE * WIDE];
    const pco_executable_stats all = recomputed(0, kept), fewer = recomputed(1, again);
    assert_memory_equal(kept, again, sizeof kept);
    assert_true(fewer.nodes > all.nodes);
    assert_true(fewer.arena_lower_bound < all.arena_lower_bound);
    print_message("recompute: %llu bytes at least, %llu without\n", (unsigned long long)fewer.arena_lower_bound,
                  (unsigned long long)all.arena_lower_bound);
}

/* ---- checkpoints ---- */

static void file_path(char path[512], const char *name) { snprintf(path, 512, "%s/%s", check_folder, name); }

static void test_checkpoint(void **state)
{
    (void)state;
    char path[512], weights[512];
    float straight[ALL], resumed[ALL];
    const pco_training_params params = {.size = sizeof params,
                                        .learning_rate = 0.05,
                                        .schedule = PCO_SCHEDULE_COSINE,
                                        .steps = 8,
                                        .max_grad_norm = 1,
                                        .accumulation = 2};
    file_path(path, "training.safetensors");
    file_path(weights, "weights.safetensors");
    run r = begin(&params, 0);
    first_values(&r, "many");
    for (int i = 0; i < 6; i++) one_step(&r, "many", i);
    check_ok(pco_training_save(r.training, path, &err));
    check_ok(pco_training_save_weights(r.training, weights, &err));
    for (int i = 6; i < 12; i++) one_step(&r, "many", i);
    read_all(&r, straight);
    end(&r);
    r = begin(&params, 0);
    check_ok(pco_training_initialize(r.training, NULL, &err)); /* other values, which are gone then */
    check_ok(pco_training_load(r.training, path, &err));
    assert_int_equal(pco_training_steps(r.training), 3);
    for (int i = 6; i < 12; i++) one_step(&r, "many", i);
    read_all(&r, resumed);
    assert_memory_equal(straight, resumed, sizeof straight);
    /* the parameters alone, and what is no checkpoint or another's */
    pco_weights *saved;
    check_ok(pco_weights_open(weights, &saved, &err));
    assert_int_equal(saved->count, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(pco_weights_find(saved, names[i])->bytes, 4 * elements[i]);
    pco_weights_close(saved);
    check_fails(pco_training_load(r.training, weights, &err), PCO_ERROR_FORMAT, "no checkpoint");
    check_fails(pco_training_load(r.training, "/nowhere/x", &err), PCO_ERROR_IO, "/nowhere");
    check_fails(pco_training_save(r.training, "/nowhere/x", &err), PCO_ERROR_IO, "/nowhere");
    end(&r);
    pco_training_params other = params;
    other.optimizer = PCO_OPTIMIZER_ADAM;
    r = begin(&other, 0);
    check_fails(pco_training_load(r.training, path, &err), PCO_ERROR_FORMAT, "is of the optimiser adamw");
    end(&r);
    unlink(path);
    unlink(weights);
}

/* ---- what is not finite ---- */

static void write_factor(const run *r, float factor)
{
    check_ok(pco_executable_write(r->batch, pco_executable_tensor(r->batch, "factor"), &factor, sizeof factor, &err));
}

static void test_not_finite(void **state)
{
    (void)state;
    float before[ALL], after[ALL];
    const pco_training_params params = {.size = sizeof params, .learning_rate = 0.05, .accumulation = 2};
    pco_training_result result = {.size = sizeof result};
    run r = begin(&params, 1);
    first_values(&r, "many");
    write_factor(&r, 1);
    one_step(&r, "many", 0);
    one_step(&r, "many", 1);
    read_all(&r, before);
    write_factor(&r, INFINITY);
    check_fails(pco_training_step(r.training, r.batch, &result, &err), PCO_ERROR_INVALID,
                "the loss of step 2 is inf: all parameters are finite");
    read_all(&r, after);
    assert_memory_equal(before, after, sizeof before);
    /* what was summed up is forgotten, and training goes on */
    write_factor(&r, 1);
    assert_int_equal(one_step(&r, "many", 2).updated, 0);
    assert_int_equal(one_step(&r, "many", 3).updated, 1);
    const float bad = NAN;
    check_ok(pco_session_read_state(r.session, "linear1.bias", before, HIDDEN * sizeof(float), &err));
    before[3] = bad;
    check_ok(pco_session_write_state(r.session, "linear1.bias", before, HIDDEN * sizeof(float), &err));
    check_fails(pco_training_step(r.training, r.batch, &result, &err), PCO_ERROR_INVALID, "'linear1.bias'");
    char path[512];
    file_path(path, "bad.safetensors");
    check_fails(pco_training_save(r.training, path, &err), PCO_ERROR_INVALID, "linear1.bias");
    assert_int_not_equal(access(path, F_OK), 0);
    end(&r);
}

/* In f16 a factor of 2^24 overflows (65504 is the largest number), is halved until nothing does, and then doubles. */
static void test_scaling(void **state)
{
    (void)state;
    float before[ALL], after[ALL];
    const pco_training_params params = {
        .size = sizeof params, .learning_rate = 0.01, .dtype = PCO_F16, .loss_scale = 0x1p24, .loss_scale_interval = 3};
    run r = begin(&params, 0);
    first_values(&r, "sgd");
    read_all(&r, before);
    pco_training_result result = one_step(&r, "sgd", 0);
    assert_int_equal(result.skipped, 1);
    assert_true(result.loss_scale == 0x1p24 && isfinite(result.loss));
    read_all(&r, after);
    assert_memory_equal(before, after, sizeof before);
    int steps = 1;
    for (; result.skipped && steps < 30; steps++) result = one_step(&r, "sgd", 0);
    assert_int_equal(result.skipped, 0);
    const double good = result.loss_scale;
    assert_true(good < 0x1p24 && good >= 1024);
    assert_true(fabs(result.loss - wanted("sgd", "losses", 0)) < 0.02); /* 11 bits */
    assert_true(fabs(result.grad_norm - wanted("sgd", "norms", 0)) < 0.02);
    for (int i = 0; i < 2; i++) assert_true(one_step(&r, "sgd", 0).loss_scale == good);
    assert_true(one_step(&r, "sgd", 0).loss_scale == 2 * good);
    end(&r);
}

/* ---- misuse ---- */

static void test_params(void **state)
{
    (void)state;
    pco_session *session;
    pco_training *training;
    check_ok(pco_session_open(context, NULL, &session, &err));
    static const struct {
        pco_training_params params;
        const char *says;
    } wrong[] = {
        {{.size = 0}, "size"},
        {{.size = 4096}, "newer header"},
        {{.size = sizeof(pco_training_params)}, "learning_rate"},
        {{.size = sizeof(pco_training_params), .learning_rate = -1}, "learning_rate"},
        {{.size = sizeof(pco_training_params), .learning_rate = 1, .optimizer = (pco_optimizer_type)7}, "optimizer"},
        {{.size = sizeof(pco_training_params), .learning_rate = 1, .beta2 = 1}, "beta2"},
        {{.size = sizeof(pco_training_params), .learning_rate = 1, .eps = -1}, "eps"},
        {{.size = sizeof(pco_training_params), .learning_rate = 1, .nesterov = 1}, "nesterov"},
        {{.size = sizeof(pco_training_params), .learning_rate = 1, .weight_decay = (double)NAN}, "weight_decay"},
        {{.size = sizeof(pco_training_params), .learning_rate = 1, .min_learning_rate = 2}, "min_learning_rate"},
        {{.size = sizeof(pco_training_params), .learning_rate = 1, .schedule = PCO_SCHEDULE_COSINE}, "more steps"},
        {{.size = sizeof(pco_training_params), .learning_rate = 1, .schedule = PCO_SCHEDULE_INVERSE_SQRT}, "width"},
        {{.size = sizeof(pco_training_params), .learning_rate = 1, .accumulation = -3}, "accumulation"},
        {{.size = sizeof(pco_training_params), .learning_rate = 1, .loss_scale = 3}, "power of two"},
        {{.size = sizeof(pco_training_params), .learning_rate = 1, .dtype = PCO_I32}, "dtype"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        check_fails(pco_training_create(session, &wrong[i].params, &training, &err), PCO_ERROR_INVALID, wrong[i].says);
        assert_null(training);
    }
    pco_session_close(session);
}

static void test_misuse(void **state)
{
    (void)state;
    const pco_training_params params = {.size = sizeof params, .learning_rate = 0.1};
    const pco_nn_linear_params linear = {.size = sizeof linear, .name = "other", .in_features = 2, .out_features = 1};
    pco_training_result result = {.size = sizeof result};
    run r = begin(&params, 0);
    run empty = {.session = r.session};
    pco_executable *other = NULL;
    check_ok(pco_training_create(r.session, &params, &empty.training, &err));
    check_fails(pco_training_initialize(empty.training, NULL, &err), PCO_ERROR_INVALID, "nothing to train");
    check_fails(pco_training_save(empty.training, "/nowhere", &err), PCO_ERROR_INVALID, "nothing to train");
    check_fails(pco_training_load(empty.training, "/nowhere", &err), PCO_ERROR_INVALID, "nothing to train");
    check_fails(pco_training_step(empty.training, r.batch, &result, &err), PCO_ERROR_INVALID,
                "none of this training's");
    result.size = 4096;
    check_fails(pco_training_step(r.training, r.batch, &result, &err), PCO_ERROR_INVALID, "newer header");
    check_fails(add_graph(&r, PCO_BF16, 0, &other, &err), PCO_ERROR_INVALID, "dtype");
    static const char *const says[] = {"no tensor",  "one element", "no parameters", "'other.weight' is not the same",
                                       "loss_scale", "a file's",    "matmul"};
    for (int i = 0; i < 7; i++) {
        const pco_nn_params of_file = {.size = sizeof of_file, .weights = file};
        pco_graph *graph = pco_graph_create();
        pco_nn *nn = pco_nn_create(graph, i == 5 ? &of_file : NULL);
        const uint32_t x = pco_graph_input(graph, "x", PCO_F32, 2, (int64_t[]){1, i == 6 ? 3 : 2});
        const uint32_t one = pco_graph_input(graph, "one", PCO_F32, 1, (int64_t[]){1});
        uint32_t loss = i == 0 ? 4711 : i == 1 ? x : one;
        if (i == 4) pco_graph_value(graph, "loss_scale", PCO_F32, 1, (int64_t[]){1});
        if (i == 3 || i == 4 || i == 6) loss = pco_nn_linear(nn, x, &linear);
        run *of = i == 3 ? &r : &empty;
        check_fails(pco_training_add(of->training, nn, loss, &other, &err), PCO_ERROR_INVALID, says[i]);
        assert_null(other);
        pco_nn_destroy(nn);
        pco_graph_destroy(graph);
    }
    check_ok(add_graph(&empty, PCO_F32, 0, &other, &err)); /* after all that */
    pco_training_destroy(empty.training);
    end(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_optimisers), cmocka_unit_test(test_schedule),
                                       cmocka_unit_test(test_checkpoint), cmocka_unit_test(test_not_finite),
                                       cmocka_unit_test(test_scaling),    cmocka_unit_test(test_params),
                                       cmocka_unit_test(test_misuse),     cmocka_unit_test(test_recompute)};
    pco_error error = {""};
    if (argc != 2) return 2;
    if (pco_context_create(NULL, &context, &error) || pco_weights_open(argv[1], &file, &error))
        return fprintf(stderr, "test_training: %s\n", error.message), 1;
    const int failed = cmocka_run_group_tests(tests, check_make_folder, check_remove_folder);
    pco_weights_close(file);
    pco_context_destroy(context);
    return failed;
}
