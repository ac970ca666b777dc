/* ONNX nodes made here: each attribute has its effect, or is refused by its name; and nodes one behind the other. */
#define CHECK_FOLDER
#include "check.h"

#include "onnx/onnx_cases.h"

#include "base/file.h"
#include "models/onnx/map.h"

#include "onnx.pb-c.h"

#include <math.h>

enum { COUNT = 6 };

static pco_session *session;

/* A node test as ONNX writes them: one input for each of `inputs`, COUNT floats each, and one output. */
typedef struct made_node {
    const char *op;
    Onnx__AttributeProto *attributes[4]; /* NULL behind the last */
    const float *inputs[2], *output;
    uint32_t rank; /* of all three: [1,1,..,COUNT]; 0: 1 */
} made_node;

static void write_message(const char *name, const ProtobufCMessage *message)
{
    char path[200];
    uint8_t *packed = malloc(protobuf_c_message_get_packed_size(message) + 1);
    assert_non_null(packed);
    snprintf(path, sizeof path, "%s/test_made/%s", check_folder, name);
    check_ok(pco_file_write(path, packed, protobuf_c_message_pack(message, packed), &err));
    free(packed);
}

static void write_tensor(const char *name, const float *values, uint32_t rank)
{
    Onnx__TensorProto tensor = ONNX__TENSOR_PROTO__INIT;
    int64_t dims[] = {1, 1, COUNT};
    tensor.n_dims = rank ? rank : 1, tensor.dims = dims + 3 - tensor.n_dims;
    tensor.has_data_type = 1, tensor.data_type = PCO_ONNX_FLOAT;
    tensor.n_float_data = COUNT, tensor.float_data = (float *)(size_t)values;
    write_message(name, &tensor.base);
}

static void write_node(const made_node *made)
{
    char *names[] = {"x", "z"}, *result[] = {"y"};
    Onnx__NodeProto node = ONNX__NODE_PROTO__INIT, *nodes[] = {&node};
    Onnx__ValueInfoProto x = ONNX__VALUE_INFO_PROTO__INIT, z = x, y = x, *in[] = {&x, &z}, *out[] = {&y};
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    x.name = names[0], z.name = names[1], y.name = result[0];
    node.op_type = (char *)(size_t)made->op;
    node.n_input = made->inputs[1] ? 2 : 1, node.input = names;
    node.n_output = 1, node.output = result;
    node.attribute = (Onnx__AttributeProto **)(size_t)made->attributes;
    while (made->attributes[node.n_attribute]) node.n_attribute++;
    graph.n_node = 1, graph.node = nodes;
    graph.n_input = node.n_input, graph.input = in, graph.n_output = 1, graph.output = out;
    model.graph = &graph;
    write_message("model.onnx", &model.base);
    write_tensor("test_data_set_0/input_0.pb", made->inputs[0], made->rank);
    if (made->inputs[1]) write_tensor("test_data_set_0/input_1.pb", made->inputs[1], made->rank);
    write_tensor("test_data_set_0/output_0.pb", made->output, made->rank);
}

static int keep_case(void *user, const pco_onnx_case *one)
{
    *(pco_onnx_case *)user = *one;
    return 1;
}

static pco_onnx_case run_node(const made_node *made)
{
    char path[200];
    pco_onnx_result result;
    pco_onnx_case one = {0};
    snprintf(path, sizeof path, "%s/test_made/test_data_set_0", check_folder);
    check_ok(pco_folder_make(path, &err));
    write_node(made);
    check_ok(pco_onnx_run(session, check_folder, NULL, keep_case, &one, &result, &err));
    return one;
}

static const float X[COUNT] = {-2, -1, -0.25f, 0.5f, 1, 3}, Z[COUNT] = {1, 2, -3, 0.5f, -1, 4};

static Onnx__AttributeProto made_float(char *name, float value)
{
    Onnx__AttributeProto attribute = ONNX__ATTRIBUTE_PROTO__INIT;
    attribute.name = name, attribute.has_f = 1, attribute.f = value, attribute.has_type = 1, attribute.type = 1;
    return attribute;
}

static void test_used(void **state)
{
    (void)state;
    const float alphas[] = {1, 2.5f, -0.5f};
    for (int i = 0; i < 3; i++) {
        float swiglu[COUNT], swish[COUNT];
        Onnx__AttributeProto alpha = made_float("alpha", alphas[i]);
        for (int k = 0; k < COUNT; k++) {
            swish[k] = (float)(X[k] / (1 + exp(-(double)alphas[i] * X[k])));
            swiglu[k] = swish[k] * Z[k];
        }
        pco_onnx_case one = run_node(&(made_node){"SwiGLU", {&alpha}, {X, Z}, swiglu});
        if (one.state != PCO_ONNX_PASS) fail_msg("SwiGLU, alpha %g: %s", (double)alphas[i], one.detail);
        one = run_node(&(made_node){"Swish", {&alpha}, {X}, swish});
        if (one.state != PCO_ONNX_PASS) fail_msg("Swish, alpha %g: %s", (double)alphas[i], one.detail);
    }
}

/* Six weights over six positions: of eleven positions of the result, strides and zeros leave six. */
static void test_conv(void **state)
{
    (void)state;
    static const struct {
        int64_t pads[2], stride, dilation;
        const char *mode;
    } ROWS[] = {
        {{3, 2}, 1, 1, NULL},         {{5, 5}, 2, 1, NULL},         {{10, 7}, 3, 1, NULL},
        {{0, 0}, 1, 2, "SAME_UPPER"}, {{0, 0}, 1, 1, "SAME_LOWER"},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        Onnx__AttributeProto list = ONNX__ATTRIBUTE_PROTO__INIT, strides, dilations;
        int64_t pads[2] = {ROWS[i].pads[0], ROWS[i].pads[1]}, stride = ROWS[i].stride, dilation = ROWS[i].dilation;
        list.has_type = 1, list.type = 7, list.n_ints = 1;
        strides = dilations = list;
        strides.name = "strides", strides.ints = &stride;
        dilations.name = "dilations", dilations.ints = &dilation;
        list.name = "pads", list.n_ints = 2, list.ints = pads;
        if (ROWS[i].mode) {
            const int64_t both = dilation * (COUNT - 1); /* as many positions as x has */
            const int lower = strcmp(ROWS[i].mode, "SAME_LOWER") == 0;
            list = (Onnx__AttributeProto)ONNX__ATTRIBUTE_PROTO__INIT;
            list.name = "auto_pad", list.has_type = 1, list.type = 3, list.has_s = 1;
            list.s.data = (uint8_t *)(size_t)ROWS[i].mode, list.s.len = strlen(ROWS[i].mode);
            pads[0] = lower ? (both + 1) / 2 : both / 2;
        }
        float y[COUNT];
        for (int t = 0; t < COUNT; t++) {
            double sum = 0;
            for (int k = 0; k < COUNT; k++) {
                const int64_t at = t * stride + k * dilation - pads[0];
                if (at >= 0 && at < COUNT) sum += (double)X[at] * (double)Z[k];
            }
            y[t] = (float)sum;
        }
        const pco_onnx_case one = run_node(&(made_node){"Conv", {&list, &strides, &dilations}, {X, Z}, y, 3});
        if (one.state != PCO_ONNX_PASS) fail_msg("Conv, row %u: %s", (unsigned)i, one.detail);
    }
}

static void expect_refused(const made_node *made, const char *what)
{
    const pco_onnx_case one = run_node(made);
    if (one.state != PCO_ONNX_SKIPPED || !strstr(one.detail, what))
        fail_msg("%s: state %d, '%s'; expected a refusal that says '%s'", made->op, one.state, one.detail, what);
}

static void test_refused(void **state)
{
    (void)state;
    float clipped[COUNT], sum[COUNT];
    for (int k = 0; k < COUNT; k++) clipped[k] = fminf(X[k], 1), sum[k] = X[k] + Z[k];
    Onnx__AttributeProto max = made_float("max", 1), alpha = made_float("alpha", 0.2f), axis = made_float("axis", 0),
                         unnamed = made_float("", 1), text = alpha;
    text.has_f = 0, text.has_s = 1, text.type = 3;
    text.name = "approximate", text.s.data = (uint8_t *)"sigmoid", text.s.len = 7;
    /* before opset 11 */
    expect_refused(&(made_node){"Clip", {&max}, {X}, clipped}, "attribute 'max' of Clip is not mapped");
    expect_refused(&(made_node){"Add", {&alpha}, {X, Z}, sum}, "attribute 'alpha' of Add is not mapped");
    expect_refused(&(made_node){"Swish", {&alpha, &max}, {X}, X}, "attribute 'max' of Swish is not mapped");
    /* an axis is no float */
    expect_refused(&(made_node){"Softmax", {&axis}, {X}, X}, "attribute 'axis' of Softmax is not mapped");
    expect_refused(&(made_node){"Abs", {&unnamed}, {X}, X}, "attribute '' of Abs is not mapped");
    expect_refused(&(made_node){"Conv", {NULL}, {X, Z}, X, 2}, "Conv of other than one dimension");
    expect_refused(&(made_node){"Gelu", {&text}, {X}, X}, "Gelu in an unknown form");
    expect_refused(&(made_node){"ReduceMin", {NULL}, {X}, X}, "no mapping for ReduceMin");
    expect_refused(&(made_node){"Relu", {NULL}, {X, Z}, X}, "more operands than are mapped");
}

/* What one node made is another's operand: only a run knows its values, so that it is a tensor and never a shape. */
static void test_behind(void **state)
{
    (void)state;
    const char *const names[] = {"x", "shape"}, *const results[] = {"y"};
    double values[] = {3, -1};
    const pco_onnx_tensor x = {PCO_ONNX_FLOAT, 1, {COUNT}, COUNT, NULL}, shape = {PCO_ONNX_INT64, 1, {2}, 2, values};
    const pco_onnx_node relu = {.op = "Relu", .n_inputs = 1, .n_outputs = 1, .inputs = names, .outputs = results};
    const pco_onnx_node reshape = {.op = "Reshape", .n_inputs = 2, .n_outputs = 1, .inputs = names, .outputs = results};
    pco_graph *graph = pco_graph_create();
    assert_non_null(graph);
    pco_onnx_map first = pco_onnx_map_start(graph, &relu), next = pco_onnx_map_start(graph, &reshape);
    first.operands[0] = &x;
    pco_onnx_map_node(&first);
    assert_string_equal(first.skip, "");
    next.operands[0] = &x, next.in[0] = first.out[0];
    next.operands[1] = &shape;
    pco_onnx_map_node(&next);
    assert_string_equal(next.skip, "");
    assert_int_equal(graph->n_nodes, 2);
    assert_int_equal(graph->nodes[1].inputs[0], first.out[0]);
    const pco_tensor *y = &graph->tensors[next.out[0]];
    assert_true(y->rank == 2 && y->shape[0] == 3 && y->shape[1] == COUNT / 3);
    pco_onnx_tensor later = shape;
    later.value = NULL;
    pco_onnx_map none = pco_onnx_map_start(graph, &reshape);
    none.operands[0] = &x, none.in[0] = first.out[0], none.operands[1] = &later;
    pco_onnx_map_node(&none);
    assert_string_equal(none.skip, "input 1 of Reshape is known to a run only");
    pco_graph_destroy(graph);
}

int main(void)
{
    pco_config config;
    pco_registry *registry = NULL;
    pco_error err = {""};
    setenv("PORTICO_CACHE_DIR", "", 1);
    pco_status status = pco_config_read(&config, &err);
    if (!status) status = pco_registry_create(&config, &registry, &err);
    if (!status) status = pco_registry_open(registry, "cpu:reference", &session, &err);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_used), cmocka_unit_test(test_conv),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_behind)};
    int failed = 1;
    if (status)
        fprintf(stderr, "test_onnx_attributes: %s\n", err.message);
    else
        failed = cmocka_run_group_tests_name("onnx attributes", tests, check_make_folder, check_remove_folder);
    pco_session_close(session);
    pco_registry_destroy(registry);
    return failed;
}
