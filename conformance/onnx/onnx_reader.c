/* ONNX's protobuf files, through protobuf-c and the messages of onnx.proto. */
#include "onnx/onnx_reader.h"

#include "base/error.h"
#include "base/file.h"
#include "oracle/oracle_number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pco_status onnx_load(const char *path, uint8_t **data, size_t *bytes, pco_error *err)
{
    pco_map map;
    *data = NULL;
    *bytes = 0;
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    *data = malloc(map.size + 1);
    if (*data && map.size) memcpy(*data, map.data, map.size);
    if (*data)
        *bytes = map.size;
    else
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for '%s'", path);
    pco_map_close(&map);
    return status;
}

const char *onnx_type_name(int32_t type)
{
    static const char *const NAMES[] = {"undefined",  "float",    "uint8",        "int8",           "uint16",
                                        "int16",      "int32",    "int64",        "string",         "bool",
                                        "float16",    "double",   "uint32",       "uint64",         "complex64",
                                        "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2"};
    return type >= 0 && type < (int32_t)(sizeof NAMES / sizeof *NAMES) ? NAMES[type] : "unknown type";
}

static uint32_t onnx_element_bytes(int32_t type)
{
    switch (type) {
    case ONNX_DOUBLE:
    case ONNX_INT64: return 8;
    case ONNX_FLOAT:
    case ONNX_INT32: return 4;
    case ONNX_FLOAT16:
    case ONNX_BFLOAT16: return 2;
    case ONNX_BOOL:
    case ONNX_INT8:
    case ONNX_UINT8: return 1;
    default: return 0;
    }
}

static double onnx_raw_element(int32_t type, const uint8_t *at)
{
    double d;
    int64_t n;
    switch (type) {
    case ONNX_DOUBLE: memcpy(&d, at, 8); return d;
    case ONNX_INT64: memcpy(&n, at, 8); return (double)n;
    case ONNX_FLOAT: oracle_decode(PCO_F32, at, &d, 1); return d;
    case ONNX_INT32: oracle_decode(PCO_I32, at, &d, 1); return d;
    case ONNX_FLOAT16: oracle_decode(PCO_F16, at, &d, 1); return d;
    case ONNX_BFLOAT16: oracle_decode(PCO_BF16, at, &d, 1); return d;
    case ONNX_INT8: return at[0] < 128 ? at[0] : at[0] - 256;
    default: return at[0];
    }
}

/* Values that stand in typed fields; f16 and bf16 as bits in int32_data. */
static bool onnx_typed(const Onnx__TensorProto *from, onnx_tensor *to)
{
    size_t have = from->n_float_data + from->n_int32_data + from->n_int64_data + from->n_double_data;
    if (have != (size_t)to->count) return false;
    for (size_t i = 0; i < have; i++) {
        if (from->n_float_data) to->value[i] = from->float_data[i];
        if (from->n_int64_data) to->value[i] = (double)from->int64_data[i];
        if (from->n_double_data) to->value[i] = from->double_data[i];
        if (!from->n_int32_data) continue;
        uint16_t half = (uint16_t)from->int32_data[i];
        if (to->type == ONNX_FLOAT16 || to->type == ONNX_BFLOAT16)
            oracle_decode(to->type == ONNX_FLOAT16 ? PCO_F16 : PCO_BF16, &half, &to->value[i], 1);
        else
            to->value[i] = from->int32_data[i];
    }
    return true;
}

static pco_status onnx_convert(const Onnx__TensorProto *from, onnx_tensor *to, pco_error *err)
{
    uint32_t step = onnx_element_bytes(from->data_type);
    *to = (onnx_tensor){.type = from->data_type, .rank = (uint32_t)from->n_dims, .count = 1};
    if (step == 0) return pco_fail(err, PCO_ERROR_UNSUPPORTED, "element type %s", onnx_type_name(from->data_type));
    if (from->n_dims > PCO_MAX_RANK) return pco_fail(err, PCO_ERROR_UNSUPPORTED, "rank %zu", from->n_dims);
    for (uint32_t i = 0; i < to->rank; i++) {
        to->shape[i] = from->dims[i];
        if (from->dims[i] < 0 || from->dims[i] > 1 << 24)
            return pco_fail(err, PCO_ERROR_FORMAT, "a dimension is out of range");
        to->count *= from->dims[i];
        if (to->count > 1 << 26) return pco_fail(err, PCO_ERROR_FORMAT, "a tensor is too large");
    }
    to->value = calloc((size_t)to->count + 1, sizeof *to->value);
    if (!to->value) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a tensor");
    to->present = true;
    if (!from->has_raw_data || from->raw_data.len == 0) {
        if (onnx_typed(from, to)) return PCO_OK;
        return pco_fail(err, PCO_ERROR_FORMAT, "a tensor has not as many values as its shape says");
    }
    if (from->raw_data.len != (size_t)to->count * step)
        return pco_fail(err, PCO_ERROR_FORMAT, "a tensor has %zu bytes, and needs %zu", from->raw_data.len,
                        (size_t)to->count * step);
    for (int64_t i = 0; i < to->count; i++) to->value[i] = onnx_raw_element(to->type, from->raw_data.data + i * step);
    return PCO_OK;
}

static pco_status onnx_read_tensor(const char *folder, const char *kind, uint32_t index, onnx_tensor *to,
                                   pco_error *err)
{
    char path[1024];
    uint8_t *data;
    size_t bytes;
    snprintf(path, sizeof path, "%s/test_data_set_0/%s_%u.pb", folder, kind, index);
    pco_status status = onnx_load(path, &data, &bytes, err);
    if (status) return status;
    Onnx__TensorProto *proto = onnx__tensor_proto__unpack(NULL, bytes, data);
    free(data);
    if (!proto) return pco_fail(err, PCO_ERROR_FORMAT, "'%s' is not a tensor", path);
    status = onnx_convert(proto, to, err);
    onnx__tensor_proto__free_unpacked(proto, NULL);
    return status;
}

/* Inputs of the node come from the graph's inputs, in their order, or from initializers. */
static pco_status onnx_read_inputs(onnx_test *test, const char *folder, pco_error *err)
{
    const Onnx__GraphProto *graph = test->model->graph;
    for (uint32_t i = 0; i < test->n_inputs; i++) {
        const char *name = test->node->input[i];
        pco_status status = PCO_OK;
        if (!name[0]) continue;
        for (size_t g = 0; g < graph->n_input && !test->inputs[i].present && !status; g++)
            if (graph->input[g]->name && strcmp(graph->input[g]->name, name) == 0)
                status = onnx_read_tensor(folder, "input", (uint32_t)g, &test->inputs[i], err);
        for (size_t g = 0; g < graph->n_initializer && !test->inputs[i].present && !status; g++)
            if (graph->initializer[g]->name && strcmp(graph->initializer[g]->name, name) == 0)
                status = onnx_convert(graph->initializer[g], &test->inputs[i], err);
        if (status) return status;
        if (!test->inputs[i].present) return pco_fail(err, PCO_ERROR_FORMAT, "input '%s' has no values", name);
    }
    return PCO_OK;
}

static pco_status onnx_read_outputs(onnx_test *test, const char *folder, pco_error *err)
{
    const Onnx__GraphProto *graph = test->model->graph;
    for (uint32_t i = 0; i < test->n_outputs; i++) {
        for (size_t g = 0; g < graph->n_output && test->node->output[i][0]; g++) {
            if (!graph->output[g]->name || strcmp(graph->output[g]->name, test->node->output[i]) != 0) continue;
            pco_status status = onnx_read_tensor(folder, "output", (uint32_t)g, &test->outputs[i], err);
            if (status) return status;
        }
    }
    return PCO_OK;
}

pco_status onnx_test_read(onnx_test *test, const char *folder, pco_error *err)
{
    char path[1024];
    uint8_t *data;
    size_t bytes;
    memset(test, 0, sizeof *test);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    pco_status status = onnx_load(path, &data, &bytes, err);
    if (status) return status;
    test->model = onnx__model_proto__unpack(NULL, bytes, data);
    free(data);
    if (!test->model || !test->model->graph) return pco_fail(err, PCO_ERROR_FORMAT, "'%s' is not an ONNX model", path);
    const Onnx__GraphProto *graph = test->model->graph;
    if (graph->n_node != 1)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "the model has %zu nodes, not one", graph->n_node);
    test->node = graph->node[0];
    if (!test->node->op_type || test->node->n_input > ONNX_MAX_OPERANDS || test->node->n_output > ONNX_MAX_OPERANDS)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "a node with more than %d operands", ONNX_MAX_OPERANDS);
    for (size_t i = 0; i < test->model->n_opset_import; i++) {
        const char *domain = test->model->opset_import[i]->domain;
        if (!domain || !domain[0]) test->opset = test->model->opset_import[i]->version;
    }
    test->n_inputs = (uint32_t)test->node->n_input;
    test->n_outputs = (uint32_t)test->node->n_output;
    status = onnx_read_inputs(test, folder, err);
    return status ? status : onnx_read_outputs(test, folder, err);
}

void onnx_test_clear(onnx_test *test)
{
    for (uint32_t i = 0; i < ONNX_MAX_OPERANDS; i++) {
        free(test->inputs[i].value);
        free(test->outputs[i].value);
    }
    if (test->model) onnx__model_proto__free_unpacked(test->model, NULL);
    memset(test, 0, sizeof *test);
}

enum { ONNX_KNOWN_ATTRIBUTES = 64 }; /* bits of `taken`; what comes behind them is never taken */

/* Its index; PCO_NONE without one. */
static uint32_t onnx_attribute(const onnx_test *test, const char *name)
{
    for (uint32_t i = 0; i < test->node->n_attribute && i < ONNX_KNOWN_ATTRIBUTES; i++)
        if (test->node->attribute[i]->name && strcmp(test->node->attribute[i]->name, name) == 0) return i;
    return PCO_NONE;
}

static void onnx_take(onnx_test *test, uint32_t attribute) { test->taken |= UINT64_C(1) << attribute; }

int64_t onnx_int(onnx_test *test, const char *name, int64_t initial)
{
    const uint32_t at = onnx_attribute(test, name);
    if (at == PCO_NONE || !test->node->attribute[at]->has_i) return initial;
    onnx_take(test, at);
    return test->node->attribute[at]->i;
}

double onnx_float(onnx_test *test, const char *name, double initial)
{
    const uint32_t at = onnx_attribute(test, name);
    if (at == PCO_NONE || !test->node->attribute[at]->has_f) return initial;
    onnx_take(test, at);
    return test->node->attribute[at]->f;
}

void onnx_text(onnx_test *test, const char *name, const char *initial, char *text, size_t capacity)
{
    const uint32_t at = onnx_attribute(test, name);
    snprintf(text, capacity, "%s", initial);
    if (at == PCO_NONE || !test->node->attribute[at]->has_s) return;
    const ProtobufCBinaryData *said = &test->node->attribute[at]->s;
    if (said->len >= capacity || memchr(said->data, 0, said->len)) return;
    snprintf(text, capacity, "%.*s", (int)said->len, (const char *)said->data);
    onnx_take(test, at);
}

int64_t onnx_ints(onnx_test *test, const char *name, int64_t *values, int64_t capacity)
{
    enum { INTS = 7 }; /* AttributeProto.AttributeType */
    const uint32_t at = onnx_attribute(test, name);
    if (at == PCO_NONE) return -1;
    const Onnx__AttributeProto *attribute = test->node->attribute[at];
    if ((attribute->has_type && attribute->type != INTS) || (int64_t)attribute->n_ints > capacity) return -1;
    for (size_t i = 0; i < attribute->n_ints; i++) values[i] = attribute->ints[i];
    onnx_take(test, at);
    return (int64_t)attribute->n_ints;
}

void onnx_without(onnx_test *test, const char *name)
{
    const uint32_t at = onnx_attribute(test, name);
    if (at != PCO_NONE) onnx_take(test, at);
}

const char *onnx_left(const onnx_test *test)
{
    for (uint32_t i = 0; i < test->node->n_attribute; i++)
        if (i >= ONNX_KNOWN_ATTRIBUTES || !(test->taken >> i & 1))
            return test->node->attribute[i]->name ? test->node->attribute[i]->name : "";
    return NULL;
}
