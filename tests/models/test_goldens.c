/* test_goldens FOLDER [decomposed|answers|gradients]: all cases of the files of FOLDER (tests/golden), built with
 * core/nn, on the device that PORTICO_BACKEND picks. Per element |y - want| <= 1e-5 (|want| + rms of the row), want in
 * float64. With `decomposed`, every composite op is replaced by primitives. Then the gradients of sum(output * u) for
 * all weights and float inputs, within 1e-4 in the same sense of what PyTorch found in float64. */
#include "models_test.h"

#include "graph/graph.h"

#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/family.h"
#include "models/graphs.h"

static const double golden_tolerance = 1e-5, golden_gradient_tolerance = 1e-4;

/* One case while it runs. */
typedef struct golden_case {
    const char *name, *kind, *file;
    uint32_t seed;
    int causal;
    const cJSON *tensors;
    pco_model_spec config;
    const pco_weights *stored; /* of the file */
    pco_weights *made;         /* weights and inputs by their formula */
    pco_nn nn;
    double worst;
} golden_case;

/* Filled by main, read by the tests. */
typedef struct golden_run {
    models_device device;
    const char *folder;
    int decomposed;
    pco_weights *gradients; /* gradients.safetensors */
} golden_run;

typedef struct golden_file {
    golden_run *run;
    const char *name;
    int gradients; /* 1: compares these, not the outputs */
} golden_file;

/* All tensors of a recipe, by formula. */
static void golden_make(golden_case *c)
{
    c->made = pco_weights_create(c->name);
    assert_non_null(c->made);
    uint32_t number = 0;
    const cJSON *recipe, *size;
    cJSON_ArrayForEach(recipe, c->tensors)
    {
        pco_weight weight = {.type_name = "F32", .dtype = PCO_F32};
        const char *name = cJSON_GetObjectItem(recipe, "name")->valuestring;
        float bound = (float)cJSON_GetObjectItem(recipe, "bound")->valuedouble;
        float offset = (float)cJSON_GetObjectItem(recipe, "offset")->valuedouble;
        int64_t count = 1;
        cJSON_ArrayForEach(size, cJSON_GetObjectItem(recipe, "shape"))
        {
            weight.shape[weight.rank++] = size->valueint;
            count *= size->valueint;
        }
        float *data = malloc((size_t)count * sizeof *data);
        for (int64_t i = 0; i < count; i++) data[i] = models_uniform(c->seed, number, i, bound, offset);
        weight.data = data;
        weight.bytes = (uint64_t)count * sizeof *data;
        check_ok(pco_weights_add(c->made, &weight, name, strlen(name), &err));
        number++;
    }
    check_ok(pco_weights_index(c->made, &err));
}

static void golden_release(golden_case *c)
{
    for (uint32_t i = 0; i < c->made->count; i++) free((void *)(uintptr_t)c->made->items[i].data);
    pco_weights_close(c->made);
}

/* The stored tensor "case/what", or NULL. */
static const pco_weight *golden_stored(const golden_case *c, const char *what)
{
    char name[256];
    snprintf(name, sizeof name, "%s/%s", c->name, what);
    return pco_weights_find(c->stored, name);
}

static uint32_t golden_input(golden_case *c, const char *name)
{
    const pco_weight *x = pco_weights_find(c->made, name);
    return x ? pco_graph_input(c->nn.graph, name, PCO_F32, x->rank, x->shape) : PCO_NONE;
}

/* A stored mask [batch,length] as the bool input [batch,1,1,length], or PCO_NONE. */
static uint32_t golden_mask(golden_case *c, const char *name)
{
    const pco_weight *mask = golden_stored(c, name);
    if (!mask) return PCO_NONE;
    return pco_graph_input(c->nn.graph, name, PCO_BOOL, 4, (int64_t[]){mask->shape[0], 1, 1, mask->shape[1]});
}

static uint32_t golden_ffn(const pco_nn *nn, uint32_t x, const void *user) { return pco_nn_ffn(nn, x, user); }

static void golden_build_activations(golden_case *c)
{
    pco_graph *graph = c->nn.graph;
    uint32_t x = golden_input(c, "input");
    uint32_t gelu = pco_graph_add(graph, PCO_OP_GELU, &(pco_gelu_attrs){.approximate = 0}, &x, 1, NULL);
    uint32_t gelu_tanh = pco_graph_add(graph, PCO_OP_GELU, &(pco_gelu_attrs){.approximate = 1}, &x, 1, NULL);
    pco_graph_output(graph, pco_unary(graph, PCO_OP_RELU, x), "relu");
    pco_graph_output(graph, gelu, "gelu");
    pco_graph_output(graph, gelu_tanh, "gelu_tanh");
    pco_graph_output(graph, pco_unary(graph, PCO_OP_SILU, x), "silu");
}

/* Source lengths come as a run value, not as a mask. */
static void golden_build_seq2seq(golden_case *c)
{
    pco_graph *graph = c->nn.graph;
    const pco_weight *src = golden_stored(c, "src"), *tgt = golden_stored(c, "tgt");
    uint32_t source = pco_graph_input(graph, "src", PCO_I32, 2, src->shape);
    uint32_t target = pco_graph_input(graph, "tgt", PCO_I32, 2, tgt->shape);
    pco_spec_padding padding = {PCO_NONE, pco_graph_value(graph, "lengths", PCO_I32, 1, src->shape)};
    uint32_t memory = pco_spec_encode(&c->nn, &c->config, source, PCO_NONE, &padding);
    const pco_spec_decoder decoder = {
        .memory = memory, .padding = padding, .positions = PCO_NONE, .starts = PCO_NONE, .lengths = PCO_NONE};
    uint32_t logits = pco_spec_decode(&c->nn, &c->config, target, &decoder);
    pco_graph_output(graph, memory, "memory");
    pco_graph_output(graph, logits, "logits");
}

static void golden_build_part(golden_case *c)
{
    const pco_nn *nn = &c->nn;
    const int decoder = strcmp(c->kind, "decoder_layer") == 0;
    uint32_t x = golden_input(c, "input"), y = PCO_NONE;
    const int64_t length = nn->graph->tensors[x].shape[1];
    pco_nn_layer_params layer = pco_spec_layer(nn, &c->config, decoder ? PCO_DECODER : PCO_ENCODER, 0);
    layer.self_attention.causal = c->causal;
    pco_nn_attention_operands self = PCO_NN_NO_OPERANDS, cross = PCO_NN_NO_OPERANDS;
    self.mask = golden_mask(c, "visible");
    self.positions = pco_nn_positions(nn, c->config.position_offset, length);
    if (c->config.position_embedding == PCO_POSITION_ROPE)
        self.phase = pco_rope_phase(nn->graph, c->config.rope_theta, (uint32_t)layer.self_attention.head_dim, NULL);
    if (strcmp(c->kind, "norm") == 0) {
        y = pco_nn_norm(nn, x, layer.ffn_norm, &layer.norm);
    } else if (strcmp(c->kind, "ffn") == 0) {
        y = pco_nn_ffn(nn, x, &layer.ffn);
    } else if (strcmp(c->kind, "norm_ffn_residual") == 0) {
        y = pco_nn_residual(nn, x, layer.normalize_before, layer.ffn_norm, &layer.norm, golden_ffn, &layer.ffn);
    } else if (strcmp(c->kind, "attention") == 0) {
        y = pco_nn_attention(nn, x, &layer.self_attention, &self);
    } else if (strcmp(c->kind, "positions") == 0) {
        y = pco_nn_sinusoidal(nn, x, self.positions, c->config.sinusoidal_layout);
    } else if (strcmp(c->kind, "encoder_layer") == 0) {
        y = pco_nn_self_layer(nn, x, &layer, &self);
    } else if (decoder) {
        cross.memory = golden_input(c, "memory");
        cross.mask = golden_mask(c, "memory_visible");
        y = pco_nn_cross_layer(nn, x, &layer, &self, &cross);
    } else {
        fail_msg("%s: unknown kind '%s'", c->name, c->kind);
    }
    pco_graph_output(nn->graph, y, "output");
}

/* Writes what the executable takes under `name` from the recipe or from the file. */
static void golden_write(const golden_case *c, pco_executable *executable, const char *name)
{
    uint32_t handle = pco_executable_tensor(executable, name);
    const pco_weight *made = pco_weights_find(c->made, name), *stored = golden_stored(c, name);
    if (handle == PCO_NONE) return;
    const pco_tensor *x = pco_executable_describe(executable, handle);
    if (made) {
        check_ok(pco_executable_write(executable, handle, made->data, made->bytes, &err));
    } else if (x->dtype == PCO_BOOL) {
        unsigned char mask[1024];
        for (uint64_t i = 0; i < x->bytes; i++) mask[i] = ((const int32_t *)stored->data)[i] != 0;
        check_ok(pco_executable_write(executable, handle, mask, x->bytes, &err));
    } else {
        check_ok(pco_executable_write(executable, handle, stored->data, stored->bytes, &err));
    }
}

static void golden_write_lengths(const golden_case *c, pco_executable *executable)
{
    uint32_t handle = pco_executable_tensor(executable, "lengths");
    const pco_weight *src = golden_stored(c, "src");
    int32_t lengths[16] = {0};
    if (handle == PCO_NONE) return;
    for (int64_t i = 0; i < src->shape[0] * src->shape[1]; i++)
        lengths[i / src->shape[1]] += ((const int32_t *)src->data)[i] != c->config.pad_token_id;
    check_ok(pco_executable_write(executable, handle, lengths, (uint64_t)src->shape[0] * sizeof *lengths, &err));
}

static void golden_compare(golden_case *c, pco_executable *executable, const char *name)
{
    uint32_t handle = pco_executable_tensor(executable, name);
    const pco_weight *want = golden_stored(c, name);
    if (handle == PCO_NONE || !want || strcmp(want->type_name, "F64") != 0) return;
    const pco_tensor *x = pco_executable_describe(executable, handle);
    if (x->kind != PCO_KIND_OUTPUT) return;
    assert_int_equal(x->bytes * 2, want->bytes);
    float *y = malloc(x->bytes);
    double *wide = malloc(want->bytes);
    memcpy(wide, want->data, want->bytes);
    check_ok(pco_executable_read(executable, handle, y, x->bytes, &err));
    double ratio = models_error(y, wide, (int64_t)(x->bytes / 4), x->shape[x->rank - 1], golden_tolerance);
    if (ratio > c->worst) c->worst = ratio;
    free(y);
    free(wide);
}

/* ---- gradients ---- */

enum { GOLDEN_PARTS = 512 };

/* The tensors of the graph that are differentiated: weights, blocks of rows of weights ("name[0:64]"), inputs. */
typedef struct golden_parts {
    uint32_t count;
    uint32_t tensor[GOLDEN_PARTS];
    char output[GOLDEN_PARTS][160];
} golden_parts;

static const pco_weight *golden_gradient(const golden_run *run, const golden_case *c, const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s/%s", c->file, c->name, name);
    return pco_weights_find(run->gradients, full);
}

/* Does graph tensor `x` hold the tensor `name` of the recipe, or rows of it? *first: of these, the first. */
static int golden_holds(const pco_tensor *x, const char *name, int64_t *first)
{
    size_t length = strlen(name);
    long long row = 0;
    if (x->kind != PCO_KIND_CONSTANT && x->kind != PCO_KIND_INPUT) return 0;
    if (strncmp(x->name, name, length) != 0) return 0;
    if (x->name[length] && sscanf(x->name + length, "[%lld:", &row) != 1) return 0;
    *first = row;
    return 1;
}

/* Adds sum(output * u) over the case's outputs (of a whole model: its logits), and its gradients as outputs. */
static void golden_differentiate(golden_case *c, golden_parts *parts)
{
    pco_graph *graph = c->nn.graph;
    uint32_t loss = PCO_NONE, number = 0, gradients[GOLDEN_PARTS], n = graph->n_tensors;
    for (uint32_t t = 0; t < n; t++) {
        pco_tensor x = graph->tensors[t];
        char name[32];
        if (x.kind != PCO_KIND_OUTPUT || (strcmp(c->kind, "seq2seq") == 0 && strcmp(x.name, "memory") == 0)) continue;
        snprintf(name, sizeof name, "u%u", number++);
        uint32_t u = pco_graph_input(graph, name, PCO_F32, x.rank, x.shape);
        uint32_t flat = pco_reshape(graph, pco_binary(graph, PCO_OP_MUL, t, u), 1, (int64_t[]){-1});
        uint32_t sum = pco_reduce(graph, PCO_OP_SUM, flat, 0, 1);
        loss = loss == PCO_NONE ? sum : pco_binary(graph, PCO_OP_ADD, loss, sum);
    }
    const cJSON *recipe;
    parts->count = 0;
    cJSON_ArrayForEach(recipe, c->tensors)
    {
        int64_t first;
        const char *name = cJSON_GetObjectItem(recipe, "name")->valuestring;
        for (uint32_t t = 0; t < n; t++) {
            if (!golden_holds(&graph->tensors[t], name, &first)) continue;
            assert_true(parts->count < GOLDEN_PARTS);
            snprintf(parts->output[parts->count], sizeof parts->output[0], "d:%s", graph->tensors[t].name);
            parts->tensor[parts->count++] = t;
        }
    }
    check_ok(pco_gradients(graph, loss, parts->tensor, parts->count, gradients, &err));
    for (uint32_t i = 0; i < parts->count; i++) pco_graph_output(graph, gradients[i], parts->output[i]);
}

static void golden_write_u(const golden_case *c, pco_executable *executable)
{
    for (uint32_t number = 0;; number++) {
        char name[32];
        snprintf(name, sizeof name, "u%u", number);
        uint32_t handle = pco_executable_tensor(executable, name);
        if (handle == PCO_NONE) return;
        uint64_t bytes = pco_executable_describe(executable, handle)->bytes;
        float *u = malloc(bytes);
        for (uint64_t i = 0; i < bytes / 4; i++) u[i] = models_uniform(c->seed, 2000 + number, (int64_t)i, 1, 0);
        check_ok(pco_executable_write(executable, handle, u, bytes, &err));
        free(u);
    }
}

/* The kept elements of one tensor of the recipe that lie in one part of it. */
static void golden_compare_part(golden_case *c, pco_executable *executable, const char *output, const pco_weight *want,
                                int64_t begin, int64_t count)
{
    uint32_t handle = pco_executable_tensor(executable, output);
    assert_int_not_equal(handle, PCO_NONE);
    const pco_tensor *x = pco_executable_describe(executable, handle);
    int64_t kept = want->shape[1], own = (int64_t)(x->bytes / 4);
    float *have = malloc(x->bytes + 4);
    const double *value = want->data, *rms = value + kept;
    check_ok(pco_executable_read(executable, handle, have, x->bytes, &err));
    for (int64_t k = 0; k < kept; k++) {
        int64_t at = k * count / kept - begin;
        if (at < 0 || at >= own) continue;
        double error = fabs((double)have[at] - value[k]);
        double ratio = error == 0 ? 0 : error / (golden_gradient_tolerance * (fabs(value[k]) + rms[k]));
        if (!(ratio <= c->worst)) c->worst = ratio == ratio ? ratio : INFINITY;
    }
    free(have);
}

static void golden_compare_gradients(const golden_run *run, golden_case *c, pco_executable *executable,
                                     const golden_parts *parts)
{
    uint32_t part = 0;
    const cJSON *recipe, *size;
    cJSON_ArrayForEach(recipe, c->tensors)
    {
        const char *name = cJSON_GetObjectItem(recipe, "name")->valuestring;
        const pco_weight *want = golden_gradient(run, c, name);
        int64_t count = 1, rows = cJSON_GetArrayItem(cJSON_GetObjectItem(recipe, "shape"), 0)->valueint, first;
        cJSON_ArrayForEach(size, cJSON_GetObjectItem(recipe, "shape")) count *= size->valueint;
        assert_non_null(want);
        for (; part < parts->count && golden_holds(&c->nn.graph->tensors[parts->tensor[part]], name, &first); part++)
            golden_compare_part(c, executable, parts->output[part], want, first * (count / rows), count);
    }
    assert_int_equal(part, parts->count);
}

/* Builds, runs and compares; returns error / bound. */
static double golden_run_case(const golden_run *run, golden_case *c, int gradients)
{
    static const char *const inputs[] = {"input", "memory", "visible", "memory_visible", "src", "tgt"};
    static const char *const outputs[] = {"output", "memory", "logits", "relu", "gelu", "gelu_tanh", "silu"};
    const pco_executable_params params = {
        .size = sizeof params, .name = c->name, .force_decomposition = run->decomposed};
    pco_executable *executable;
    golden_parts parts;
    golden_make(c);
    c->nn = (pco_nn){pco_graph_create(), c->made};
    if (strcmp(c->kind, "activation") == 0)
        golden_build_activations(c);
    else if (strcmp(c->kind, "seq2seq") == 0)
        golden_build_seq2seq(c);
    else
        golden_build_part(c);
    if (gradients) golden_differentiate(c, &parts);
    check_ok(pco_graph_check(c->nn.graph, &err));
    check_ok(pco_executable_create(run->device.session, c->nn.graph, &params, &executable, &err));
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        uint32_t handle = pco_executable_tensor(executable, inputs[i]);
        if (handle == PCO_NONE || pco_executable_describe(executable, handle)->kind != PCO_KIND_INPUT) continue;
        golden_write(c, executable, inputs[i]);
    }
    golden_write_lengths(c, executable);
    golden_write_u(c, executable);
    check_ok(pco_executable_run(executable, &err));
    c->worst = -1;
    if (gradients) golden_compare_gradients(run, c, executable, &parts);
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs && !gradients; i++)
        golden_compare(c, executable, outputs[i]);
    pco_executable_destroy(executable);
    pco_graph_destroy(c->nn.graph);
    golden_release(c);
    return c->worst;
}

static void test_file(void **state)
{
    const golden_file *file = *state;
    char path[1024];
    pco_weights *weights;
    cJSON *cases;
    snprintf(path, sizeof path, "%s/%s.safetensors", file->run->folder, file->name);
    check_ok(pco_safetensors_open(path, &weights, &err));
    const char *text = pco_weights_note_value(weights, "cases");
    assert_non_null(text);
    check_ok(pco_json_parse(text, strlen(text), path, &cases, &err));
    int wrong = 0, count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, cases)
    {
        golden_case c = {.name = cJSON_GetObjectItem(item, "name")->valuestring,
                         .kind = cJSON_GetObjectItem(item, "kind")->valuestring,
                         .file = file->name,
                         .seed = (uint32_t)cJSON_GetObjectItem(item, "seed")->valueint,
                         .causal = cJSON_IsTrue(cJSON_GetObjectItem(item, "causal")),
                         .tensors = cJSON_GetObjectItem(item, "tensors"),
                         .stored = weights};
        const cJSON *config = cJSON_GetObjectItem(item, "config");
        const pco_family *family;
        if (config) check_ok(pco_family_of_config(config, c.name, &family, &c.config, &err));
        double ratio = golden_run_case(file->run, &c, file->gradients);
        int good = ratio >= 0 && ratio <= 1;
        print_message("  %-34s error / bound %.3f%s\n", c.name, ratio, good ? "" : "  WRONG");
        wrong += !good;
        count++;
    }
    cJSON_Delete(cases);
    pco_weights_close(weights);
    assert_true(count > 0);
    assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
    golden_run run = {.folder = argc > 1 ? argv[1] : "tests/golden"};
    run.decomposed = argc > 2 && strcmp(argv[2], "decomposed") == 0;
    static const char *const names[] = {"notebook_000", "notebook_001", "notebook_002",
                                        "notebook_003", "notebook_004", "seq2seq_matrix"};
    enum { FILES = sizeof names / sizeof *names };
    const char *which = argc > 2 ? argv[2] : "";
    const size_t first = strcmp(which, "gradients") == 0 ? FILES : 0;
    const size_t end = strcmp(which, "answers") == 0 ? FILES : 2 * FILES;
    golden_file files[2 * FILES];
    struct CMUnitTest tests[2 * FILES];
    char titles[2 * FILES][64];
    for (size_t i = 0; i < 2 * FILES; i++) {
        files[i] = (golden_file){&run, names[i % FILES], i >= FILES};
        snprintf(titles[i], sizeof titles[i], "%s%s", names[i % FILES], i < FILES ? "" : ", gradients");
        tests[i] = (struct CMUnitTest){titles[i], test_file, NULL, NULL, &files[i]};
    }
    char path[1024];
    snprintf(path, sizeof path, "%s/gradients.safetensors", run.folder);
    pco_config config;
    pco_error err;
    if (pco_safetensors_open(path, &run.gradients, &err) || pco_config_read(&config, &err) ||
        pco_registry_create(&config, &run.device.registry, &err) ||
        pco_registry_open(run.device.registry, NULL, &run.device.session, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    int failed = _cmocka_run_group_tests("goldens", tests + first, end - first, NULL, NULL);
    models_device_close(&run.device);
    pco_weights_close(run.gradients);
    return failed;
}
