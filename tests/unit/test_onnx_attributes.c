/* ONNX nodes made here: each attribute has its effect, or is refused by its name; and nodes one behind the other. */
#define CHECK_FOLDER
#include "check.h"

#include "onnx/onnx_cases.h"

#include "base/file.h"
#include "models/onnx/import.h"

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
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[] = {&opset};
    opset.has_version = 1, opset.version = 23;
    model.graph = &graph, model.n_opset_import = 1, model.opset_import = opsets;
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
    check_ok(pco_onnx_cases_run(session, check_folder, NULL, keep_case, &one, &result, &err));
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

static void expect_refused(const made_node *made, const char *what)
{
    const pco_onnx_case one = run_node(made);
    if (one.state != PCO_ONNX_SKIPPED || !strstr(one.detail, what))
        fail_msg("%s: state %d, '%s'; expected a refusal that says '%s'", made->op, one.state, one.detail, what);
}

/* What one says yes or no with is 0 or 1, and a limit below 0 leaves the first of two cases. */
static void test_odd_values(void **state)
{
    (void)state;
    static const char *const OPS[] = {"ReduceSum", "Mod", "CumSum"};
    static char *const NAMES[] = {"keepdims", "fmod", "reverse"};
    for (int i = 0; i < 3; i++)
        for (int64_t value = -1; value <= 2; value += 3) {
            char line[100];
            Onnx__AttributeProto flag = ONNX__ATTRIBUTE_PROTO__INIT;
            flag.name = NAMES[i], flag.has_type = 1, flag.type = 2, flag.has_i = 1, flag.i = value;
            snprintf(line, sizeof line, "attribute '%s' of %s is %d, and must be 0 or 1", NAMES[i], OPS[i], (int)value);
            expect_refused(&(made_node){OPS[i], {&flag}, {X, i == 1 ? Z : NULL}, X}, line);
        }
    float y[COUNT];
    Onnx__AttributeProto limit = made_float("lambd", -0.75f), bias = made_float("bias", 1);
    for (int k = 0; k < COUNT; k++) y[k] = X[k] < 0.75f ? X[k] + 1 : X[k] - 1;
    const pco_onnx_case one = run_node(&(made_node){"Shrink", {&limit, &bias}, {X}, y});
    if (one.state != PCO_ONNX_PASS) fail_msg("Shrink: %s", one.detail);
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
    expect_refused(&(made_node){"Conv", {NULL}, {X, Z}, X, 2}, "Conv of none, or more than three dimensions");
    expect_refused(&(made_node){"Gelu", {&text}, {X}, X}, "Gelu in an unknown form");
    expect_refused(&(made_node){"Det", {NULL}, {X}, X}, "no mapping for Det");
    expect_refused(&(made_node){"Relu", {NULL}, {X, Z}, X}, "more operands than are mapped");
}

/* ---- graphs of several nodes ---- */

static void count_problem(void *user, const char *op, const char *node, const char *reason)
{
    char *list = user;
    const size_t used = strlen(list);
    snprintf(list + used, 512 - used, "%s %s: %s; ", op, node, reason);
}

/* A model from nodes written as "op input,input output"; inputs x and z are float [2,n], s int64 [2]; output y. */
static pco_onnx_model *made_model(const char *const *lines, uint32_t count)
{
    enum { MOST = 8 };
    static char text[MOST][3][64];
    static char *inputs[MOST][4], *outputs[MOST][1];
    Onnx__NodeProto nodes[MOST], *listed[MOST];
    Onnx__ValueInfoProto x = ONNX__VALUE_INFO_PROTO__INIT, z = x, s = x, y = x, *in[] = {&x, &z, &s}, *out[] = {&y};
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[] = {&opset};
    Onnx__TypeProto types[3];
    Onnx__TensorTypeProto tensors[3];
    Onnx__TensorShapeProto shape = ONNX__TENSOR_SHAPE_PROTO__INIT;
    Onnx__Dimension two = ONNX__DIMENSION__INIT, n = ONNX__DIMENSION__INIT, *dims[] = {&two, &n};
    pco_onnx_model *opened = NULL;
    two.has_dim_value = 1, two.dim_value = 2, n.dim_param = (char *)(size_t) "n";
    shape.n_dim = 2, shape.dim = dims;
    for (int i = 0; i < 3; i++) {
        onnx__type_proto__init(&types[i]);
        onnx__tensor_type_proto__init(&tensors[i]);
        types[i].tensor_type = &tensors[i];
        tensors[i].has_elem_type = 1, tensors[i].elem_type = i < 2 ? PCO_ONNX_FLOAT : PCO_ONNX_INT64;
        tensors[i].shape = i < 2 ? &shape : NULL;
        in[i]->type = &types[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        onnx__node_proto__init(&nodes[i]);
        assert_int_equal(sscanf(lines[i], "%63s %63s %63s", text[i][0], text[i][1], text[i][2]), 3);
        nodes[i].op_type = text[i][0], nodes[i].input = inputs[i], nodes[i].output = outputs[i];
        for (char *at = strtok(text[i][1], ","); at; at = strtok(NULL, ",")) inputs[i][nodes[i].n_input++] = at;
        outputs[i][0] = text[i][2], nodes[i].n_output = 1, listed[i] = &nodes[i];
    }
    x.name = (char *)(size_t) "x", z.name = (char *)(size_t) "z", s.name = (char *)(size_t) "s",
    y.name = (char *)(size_t) "y";
    graph.n_node = count, graph.node = listed, graph.n_input = 3, graph.input = in, graph.n_output = 1;
    graph.output = out;
    opset.has_version = 1, opset.version = 17;
    model.graph = &graph, model.n_opset_import = 1, model.opset_import = opsets;
    uint8_t *packed = malloc(onnx__model_proto__get_packed_size(&model) + 1);
    assert_non_null(packed);
    check_ok(pco_onnx_parse(packed, onnx__model_proto__pack(&model, packed), NULL, &opened, &err));
    free(packed);
    return opened;
}

static pco_error why; /* of the last run */

static pco_status run_model(pco_onnx_runner *runner, int64_t n, const int64_t *s)
{
    float x[16], z[16];
    for (int i = 0; i < 16; i++) x[i] = (float)i, z[i] = (float)(i % 3);
    const pco_onnx_array arrays[] = {
        {sizeof *arrays, "s", PCO_ONNX_INT64, 1, {2}, s, 2 * sizeof *s},
        {sizeof *arrays, "x", PCO_ONNX_FLOAT, 2, {2, n}, x, (uint64_t)n * 2 * sizeof *x},
        {sizeof *arrays, "z", PCO_ONNX_FLOAT, 2, {2, n}, z, (uint64_t)n * 2 * sizeof *z},
    };
    return pco_onnx_run(runner, arrays, 3, &why);
}

/* Shapes that a graph works out, from other shapes and from an input's values, are known when it is made. */
static void test_shapes(void **state)
{
    (void)state;
    static const char *const LINES[] = {"Add x,z sum", "Shape z shape", "Reshape sum,s turned",
                                        "Expand turned,shape y"};
    pco_onnx_model *model = made_model(LINES, 4);
    pco_onnx_runner *runner = NULL;
    check_ok(pco_onnx_runner_create(session, model, &runner, &err));
    const int64_t good[2] = {2, 2}, bad[2] = {INT64_C(1) << 40, 1};
    pco_onnx_array wide = {.size = sizeof wide};
    check_ok(run_model(runner, 2, good));
    check_ok(pco_onnx_runner_output(runner, 0, &wide, &err));
    assert_true(wide.rank == 2 && wide.shape[0] == 2 && wide.shape[1] == 2);
    assert_int_equal(run_model(runner, 2, bad), PCO_ERROR_UNSUPPORTED);
    assert_int_equal(pco_onnx_runner_output(runner, 0, &wide, &why), PCO_ERROR_INVALID); /* of a run that failed */
    pco_onnx_runner_destroy(runner);
    pco_onnx_close(model);

    static const char *const FLAT[] = {"Add x,z sum", "Shape z shape", "Sub shape,shape none", "Add none,s same",
                                       "Reshape sum,same y"};
    model = made_model(FLAT, 5);
    check_ok(pco_onnx_runner_create(session, model, &runner, &err));
    for (int64_t n = 2; n < 6; n += 2)
        for (int turn = 0; turn < 2; turn++) {
            const int64_t s[2] = {turn ? -1 : 2, n};
            pco_onnx_array y = {.size = sizeof y};
            check_ok(run_model(runner, n, s));
            check_ok(pco_onnx_runner_output(runner, 0, &y, &err));
            assert_true(y.type == PCO_ONNX_FLOAT && y.rank == 2);
            if (turn) assert_true(y.shape[0] == 2 && y.shape[1] == n);
            for (int64_t i = 0; turn && i < 2 * n; i++)
                assert_true(((const float *)y.data)[i] == (float)i + (float)(i % 3));
        }
    pco_onnx_runner_destroy(runner);
    pco_onnx_close(model);
}

/* All that is missing is told of at once, with its place, also behind what cannot be expressed. */
static void test_missing(void **state)
{
    (void)state;
    static const char *const LINES[] = {"Bogus x a", "Relu a b", "Loop s,x c", "Wild b,c d", "Clip x,z e", "Add e,d y"};
    char list[512] = "";
    const int64_t s[2] = {2, 2};
    pco_onnx_model *model = made_model(LINES, 6);
    pco_onnx_runner *runner = NULL;
    assert_int_equal(pco_onnx_check(model, count_problem, list), 3);
    assert_string_equal(list,
                        "Bogus a: no mapping for Bogus; Loop c: control flow: Loop; Wild d: no mapping for Wild; ");
    check_ok(pco_onnx_runner_create(session, model, &runner, &err));
    list[0] = 0;
    pco_onnx_runner_tell(runner, count_problem, list);
    assert_int_equal(run_model(runner, 2, s), PCO_ERROR_UNSUPPORTED);
    assert_non_null(strstr(list, "Bogus a: no mapping"));
    assert_non_null(strstr(list, "Loop c: control flow"));
    assert_non_null(strstr(list, "Wild d: no mapping"));
    assert_non_null(strstr(list, "Clip e: more or less than one value"));
    assert_non_null(strstr(why.message, "(and 3 more)"));
    pco_onnx_runner_destroy(runner);
    pco_onnx_close(model);
}

/* Arrays that are not what the model takes are told apart by one line each. */
static void test_inputs(void **state)
{
    (void)state;
    static const char *const LINES[] = {"Add x,z sum", "Neg sum y"};
    const float x[8] = {0};
    pco_onnx_model *model = made_model(LINES, 2);
    pco_onnx_runner *runner = NULL;
    pco_onnx_array arrays[] = {{sizeof *arrays, "x", PCO_ONNX_FLOAT, 2, {2, 2}, x, 16},
                               {sizeof *arrays, "z", PCO_ONNX_FLOAT, 2, {2, 3}, x, 24},
                               {sizeof *arrays, "s", PCO_ONNX_INT64, 1, {2}, x, 16}};
    check_ok(pco_onnx_runner_create(session, model, &runner, &err));
    assert_int_equal(pco_onnx_run(runner, arrays, 3, &why), PCO_ERROR_INVALID);
    assert_string_equal(why.message, "'n' is 2 in input 'x', and 3 in 'z'");
    assert_int_equal(pco_onnx_run(runner, arrays, 2, &why), PCO_ERROR_INVALID);
    assert_string_equal(why.message, "input 's' is missing");
    arrays[1].shape[0] = 3, arrays[1].shape[1] = 2;
    assert_int_equal(pco_onnx_run(runner, arrays, 3, &why), PCO_ERROR_INVALID);
    assert_string_equal(why.message, "input 'z' has shape [3, 2]; the model takes [2, n]");
    arrays[1] = arrays[0], arrays[1].name = "q";
    assert_int_equal(pco_onnx_run(runner, arrays, 3, &why), PCO_ERROR_INVALID);
    assert_string_equal(why.message, "there is no input 'q'; the model has 3, the first 'x'");
    arrays[1].name = "z", arrays[1].type = PCO_ONNX_INT32;
    assert_int_equal(pco_onnx_run(runner, arrays, 3, &why), PCO_ERROR_INVALID);
    assert_string_equal(why.message, "input 'z' is of type int32; the model takes float");
    pco_onnx_runner_destroy(runner);
    pco_onnx_close(model);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_used),       cmocka_unit_test(test_conv),
                                       cmocka_unit_test(test_odd_values), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_shapes),     cmocka_unit_test(test_missing),
                                       cmocka_unit_test(test_inputs)};
    int failed = 1;
    if (status)
        fprintf(stderr, "test_onnx_attributes: %s\n", err.message);
    else
        failed = cmocka_run_group_tests_name("onnx attributes", tests, check_make_folder, check_remove_folder);
    pco_session_close(session);
    pco_registry_destroy(registry);
    return failed;
}
