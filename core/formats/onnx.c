/* ONNX's protobuf files, through protobuf-c and the messages of onnx.proto. */
#include "formats/onnx.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/file.h"

#include "onnx.pb-c.h"

#include <stdlib.h>
#include <string.h>

const char *pco_onnx_type_name(int32_t type)
{
    static const char *const NAMES[] = {"undefined",  "float",    "uint8",        "int8",           "uint16",
                                        "int16",      "int32",    "int64",        "string",         "bool",
                                        "float16",    "double",   "uint32",       "uint64",         "complex64",
                                        "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2"};
    return type >= 0 && type < (int32_t)(sizeof NAMES / sizeof *NAMES) ? NAMES[type] : "unknown type";
}

/* ---- tensors ---- */

static uint32_t onnx_element_bytes(int32_t type)
{
    switch (type) {
    case PCO_ONNX_DOUBLE:
    case PCO_ONNX_INT64: return 8;
    case PCO_ONNX_FLOAT:
    case PCO_ONNX_INT32: return 4;
    case PCO_ONNX_FLOAT16:
    case PCO_ONNX_BFLOAT16: return 2;
    case PCO_ONNX_BOOL:
    case PCO_ONNX_INT8:
    case PCO_ONNX_UINT8: return 1;
    default: return 0;
    }
}

static double onnx_half(int32_t type, uint16_t bits)
{
    return (double)(type == PCO_ONNX_FLOAT16 ? pco_f16_to_f32(bits) : pco_bf16_to_f32(bits));
}

static double onnx_raw_element(int32_t type, const uint8_t *at)
{
    double d;
    float f;
    int64_t n;
    int32_t i;
    uint16_t half;
    switch (type) {
    case PCO_ONNX_DOUBLE: memcpy(&d, at, 8); return d;
    case PCO_ONNX_INT64: memcpy(&n, at, 8); return (double)n;
    case PCO_ONNX_FLOAT: memcpy(&f, at, 4); return (double)f;
    case PCO_ONNX_INT32: memcpy(&i, at, 4); return i;
    case PCO_ONNX_FLOAT16:
    case PCO_ONNX_BFLOAT16: memcpy(&half, at, 2); return onnx_half(type, half);
    case PCO_ONNX_INT8: return at[0] < 128 ? at[0] : at[0] - 256;
    default: return at[0];
    }
}

/* How many values stand in typed fields; SIZE_MAX where they stand in several. */
static size_t onnx_typed_count(const Onnx__TensorProto *from)
{
    const size_t counts[] = {from->n_float_data, from->n_int32_data, from->n_int64_data, from->n_double_data};
    size_t found = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!counts[i]) continue;
        if (found) return SIZE_MAX;
        found = counts[i];
    }
    return found;
}

/* Half types stand as bits in int32_data. */
static double onnx_typed_element(const Onnx__TensorProto *from, int64_t i)
{
    if (from->n_float_data) return (double)from->float_data[i];
    if (from->n_int64_data) return (double)from->int64_data[i];
    if (from->n_double_data) return from->double_data[i];
    if (from->data_type == PCO_ONNX_FLOAT16 || from->data_type == PCO_ONNX_BFLOAT16)
        return onnx_half(from->data_type, (uint16_t)from->int32_data[i]);
    return from->int32_data[i];
}

static pco_status onnx_convert(const Onnx__TensorProto *from, pco_onnx_tensor *to, pco_error *err)
{
    const uint32_t step = onnx_element_bytes(from->data_type);
    *to = (pco_onnx_tensor){.type = from->data_type, .count = 1};
    if (step == 0) return pco_fail(err, PCO_ERROR_UNSUPPORTED, "element type %s", pco_onnx_type_name(from->data_type));
    if (from->n_dims > PCO_MAX_RANK) return pco_fail(err, PCO_ERROR_UNSUPPORTED, "rank %zu", from->n_dims);
    to->rank = (uint32_t)from->n_dims;
    for (uint32_t i = 0; i < to->rank; i++) {
        to->shape[i] = from->dims[i];
        if (from->dims[i] < 0 || from->dims[i] > 1 << 24)
            return pco_fail(err, PCO_ERROR_FORMAT, "a dimension is out of range");
        to->count *= from->dims[i];
        if (to->count > 1 << 26) return pco_fail(err, PCO_ERROR_FORMAT, "a tensor is too large");
    }
    const bool raw = from->has_raw_data && from->raw_data.len;
    if (!raw && onnx_typed_count(from) != (size_t)to->count)
        return pco_fail(err, PCO_ERROR_FORMAT, "a tensor has not as many values as its shape says");
    if (raw && from->raw_data.len != (size_t)to->count * step)
        return pco_fail(err, PCO_ERROR_FORMAT, "a tensor has %zu bytes, and needs %zu", from->raw_data.len,
                        (size_t)to->count * step);
    to->value = malloc(((size_t)to->count + 1) * sizeof *to->value);
    if (!to->value) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a tensor");
    for (int64_t i = 0; i < to->count; i++)
        to->value[i] = raw ? onnx_raw_element(to->type, from->raw_data.data + i * step) : onnx_typed_element(from, i);
    return PCO_OK;
}

pco_status pco_onnx_tensor_read(const char *path, pco_onnx_tensor *tensor, pco_error *err)
{
    pco_map map;
    *tensor = (pco_onnx_tensor){0};
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    Onnx__TensorProto *message = onnx__tensor_proto__unpack(NULL, map.size, map.data);
    pco_map_close(&map);
    if (!message) return pco_fail(err, PCO_ERROR_FORMAT, "'%s' is not a tensor", path);
    status = onnx_convert(message, tensor, err);
    onnx__tensor_proto__free_unpacked(message, NULL);
    return status;
}

void pco_onnx_tensor_clear(pco_onnx_tensor *tensor)
{
    free(tensor->value);
    *tensor = (pco_onnx_tensor){0};
}

/* ---- models ---- */

static const char *onnx_name(const char *name) { return name ? name : ""; }

/* One for each of `count`, and one more: a list without entries is no lack of memory. */
static void *onnx_list(pco_onnx_model *model, size_t count, size_t bytes)
{
    return pco_arena_allocate(&model->arena, (count + 1) * bytes);
}

static const char **onnx_value_names(pco_onnx_model *model, Onnx__ValueInfoProto *const *values, size_t count)
{
    const char **names = onnx_list(model, count, sizeof *names);
    for (size_t i = 0; names && i < count; i++) names[i] = onnx_name(values[i]->name);
    return names;
}

static bool onnx_describe_node(pco_onnx_model *model, const Onnx__NodeProto *from, pco_onnx_node *to)
{
    pco_onnx_attribute *attributes = onnx_list(model, from->n_attribute, sizeof *attributes);
    *to = (pco_onnx_node){.op = onnx_name(from->op_type),
                          .n_inputs = (uint32_t)from->n_input,
                          .n_outputs = (uint32_t)from->n_output,
                          .n_attributes = (uint32_t)from->n_attribute,
                          .inputs = (const char *const *)from->input,
                          .outputs = (const char *const *)from->output,
                          .attributes = attributes};
    for (size_t i = 0; attributes && i < from->n_attribute; i++) {
        const Onnx__AttributeProto *said = from->attribute[i];
        attributes[i] = (pco_onnx_attribute){.name = onnx_name(said->name),
                                             .type = said->has_type ? said->type : 0,
                                             .has_int = said->has_i,
                                             .has_float = said->has_f,
                                             .has_text = said->has_s,
                                             .i = said->i,
                                             .f = (double)said->f,
                                             .text = (const char *)said->s.data,
                                             .text_bytes = said->s.len,
                                             .n_ints = said->n_ints,
                                             .ints = said->ints};
    }
    return attributes != NULL;
}

/* Into the model's lists, which point into the message; false: no memory. */
static bool onnx_describe(pco_onnx_model *model, const Onnx__ModelProto *message)
{
    const Onnx__GraphProto *graph = message->graph;
    pco_onnx_node *nodes = onnx_list(model, graph->n_node, sizeof *nodes);
    const char **initializers = onnx_list(model, graph->n_initializer, sizeof *initializers);
    model->inputs = onnx_value_names(model, graph->input, graph->n_input);
    model->outputs = onnx_value_names(model, graph->output, graph->n_output);
    if (!nodes || !initializers || !model->inputs || !model->outputs) return false;
    for (size_t i = 0; i < graph->n_node; i++)
        if (!onnx_describe_node(model, graph->node[i], &nodes[i])) return false;
    for (size_t i = 0; i < graph->n_initializer; i++) initializers[i] = onnx_name(graph->initializer[i]->name);
    for (size_t i = 0; i < message->n_opset_import; i++)
        if (!*onnx_name(message->opset_import[i]->domain)) model->opset = message->opset_import[i]->version;
    model->nodes = nodes, model->initializers = initializers;
    model->n_nodes = (uint32_t)graph->n_node, model->n_initializers = (uint32_t)graph->n_initializer;
    model->n_inputs = (uint32_t)graph->n_input, model->n_outputs = (uint32_t)graph->n_output;
    return true;
}

pco_status pco_onnx_open(const char *path, pco_onnx_model *model, pco_error *err)
{
    pco_map map;
    *model = (pco_onnx_model){0};
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    Onnx__ModelProto *message = onnx__model_proto__unpack(NULL, map.size, map.data);
    pco_map_close(&map);
    model->message = message;
    if (!message || !message->graph) return pco_fail(err, PCO_ERROR_FORMAT, "'%s' is not an ONNX model", path);
    if (!onnx_describe(model, message)) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for '%s'", path);
    return PCO_OK;
}

void pco_onnx_close(pco_onnx_model *model)
{
    if (model->message) onnx__model_proto__free_unpacked(model->message, NULL);
    pco_arena_release(&model->arena);
    *model = (pco_onnx_model){0};
}

pco_status pco_onnx_initializer(const pco_onnx_model *model, uint32_t index, pco_onnx_tensor *tensor, pco_error *err)
{
    const Onnx__ModelProto *message = model->message;
    return onnx_convert(message->graph->initializer[index], tensor, err);
}
