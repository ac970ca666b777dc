/* ONNX's models, through protobuf-c and the messages of onnx.proto. */
#include "formats/onnx.h"

#include "base/error.h"
#include "base/file.h"

#include "onnx.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *onnx_name(const char *name) { return name ? name : ""; }

/* ONNX's own domain has two names. */
static const char *onnx_domain(const char *name) { return name && strcmp(name, "ai.onnx") != 0 ? name : ""; }

/* One for each of `count`, and one more: a list without entries is no lack of memory. */
static void *onnx_list(pco_onnx_file *file, size_t count, size_t bytes)
{
    return pco_arena_allocate(&file->arena, (count + 1) * bytes);
}

static pco_onnx_value onnx_describe_value(const Onnx__ValueInfoProto *from)
{
    pco_onnx_value value = {.size = sizeof value, .name = onnx_name(from->name)};
    const Onnx__TensorTypeProto *type = from->type ? from->type->tensor_type : NULL;
    value.type = type && type->has_elem_type ? type->elem_type : PCO_ONNX_NO_TYPE;
    const Onnx__TensorShapeProto *shape = type ? type->shape : NULL;
    if (!shape || shape->n_dim > PCO_MAX_RANK) return value;
    value.shaped = 1, value.rank = (uint32_t)shape->n_dim;
    for (uint32_t d = 0; d < value.rank; d++) {
        value.dims[d] = shape->dim[d]->has_dim_value ? shape->dim[d]->dim_value : -1;
        if (value.dims[d] < 0) value.dims[d] = -1;
        value.symbols[d] = onnx_name(shape->dim[d]->dim_param);
    }
    return value;
}

static const pco_onnx_value *onnx_describe_values(pco_onnx_file *file, Onnx__ValueInfoProto *const *from, size_t count)
{
    pco_onnx_value *values = onnx_list(file, count, sizeof *values);
    for (size_t i = 0; values && i < count; i++) values[i] = onnx_describe_value(from[i]);
    return values;
}

static bool onnx_describe_graph(pco_onnx_file *file, const Onnx__GraphProto *from, pco_onnx_graph *to);

static bool onnx_describe_attribute(pco_onnx_file *file, const Onnx__AttributeProto *said, pco_onnx_attribute *to)
{
    pco_onnx_graph *graph = NULL;
    if (said->g) {
        graph = onnx_list(file, 0, sizeof *graph);
        if (!graph || !onnx_describe_graph(file, said->g, graph)) return false;
    }
    *to = (pco_onnx_attribute){.name = onnx_name(said->name),
                               .reference = onnx_name(said->ref_attr_name),
                               .type = said->has_type ? said->type : 0,
                               .has_int = said->has_i,
                               .has_float = said->has_f,
                               .has_text = said->has_s,
                               .i = said->i,
                               .f = (double)said->f,
                               .text = (const char *)said->s.data,
                               .text_bytes = said->s.len,
                               .n_ints = said->n_ints,
                               .n_floats = said->n_floats,
                               .ints = said->ints,
                               .floats = said->floats,
                               .tensor = said->t,
                               .graph = graph};
    return true;
}

static const pco_onnx_attribute *onnx_describe_attributes(pco_onnx_file *file, Onnx__AttributeProto *const *from,
                                                          size_t count)
{
    pco_onnx_attribute *attributes = onnx_list(file, count, sizeof *attributes);
    for (size_t i = 0; attributes && i < count; i++)
        if (!onnx_describe_attribute(file, from[i], &attributes[i])) return NULL;
    return attributes;
}

static const pco_onnx_node *onnx_describe_nodes(pco_onnx_file *file, Onnx__NodeProto *const *from, size_t count)
{
    pco_onnx_node *nodes = onnx_list(file, count, sizeof *nodes);
    for (size_t i = 0; nodes && i < count; i++) {
        nodes[i] = (pco_onnx_node){.op = onnx_name(from[i]->op_type),
                                   .name = onnx_name(from[i]->name),
                                   .domain = onnx_domain(from[i]->domain),
                                   .n_inputs = (uint32_t)from[i]->n_input,
                                   .n_outputs = (uint32_t)from[i]->n_output,
                                   .n_attributes = (uint32_t)from[i]->n_attribute,
                                   .inputs = (const char *const *)from[i]->input,
                                   .outputs = (const char *const *)from[i]->output};
        nodes[i].attributes = onnx_describe_attributes(file, from[i]->attribute, from[i]->n_attribute);
        if (!nodes[i].attributes) return NULL;
    }
    file->total_nodes += (uint32_t)count;
    return nodes;
}

/* Lists point into the message; false: no memory. */
static bool onnx_describe_graph(pco_onnx_file *file, const Onnx__GraphProto *from, pco_onnx_graph *to)
{
    const char **initializers = onnx_list(file, from->n_initializer, sizeof *initializers);
    *to = (pco_onnx_graph){.n_nodes = (uint32_t)from->n_node,
                           .n_inputs = (uint32_t)from->n_input,
                           .n_outputs = (uint32_t)from->n_output,
                           .n_initializers = (uint32_t)from->n_initializer,
                           .inputs = onnx_describe_values(file, from->input, from->n_input),
                           .outputs = onnx_describe_values(file, from->output, from->n_output),
                           .initializers = initializers,
                           .message = from};
    for (size_t i = 0; initializers && i < from->n_initializer; i++)
        initializers[i] = onnx_name(from->initializer[i]->name);
    to->nodes = onnx_describe_nodes(file, from->node, from->n_node);
    return initializers && to->inputs && to->outputs && to->nodes;
}

static bool onnx_describe_functions(pco_onnx_file *file, const Onnx__ModelProto *message)
{
    pco_onnx_function *functions = onnx_list(file, message->n_functions, sizeof *functions);
    for (size_t i = 0; functions && i < message->n_functions; i++) {
        const Onnx__FunctionProto *from = message->functions[i];
        functions[i] = (pco_onnx_function){
            .name = onnx_name(from->name),
            .domain = onnx_domain(from->domain),
            .n_inputs = (uint32_t)from->n_input,
            .n_outputs = (uint32_t)from->n_output,
            .n_nodes = (uint32_t)from->n_node,
            .n_defaults = (uint32_t)from->n_attribute_proto,
            .inputs = (const char *const *)from->input,
            .outputs = (const char *const *)from->output,
            .nodes = onnx_describe_nodes(file, from->node, from->n_node),
            .defaults = onnx_describe_attributes(file, from->attribute_proto, from->n_attribute_proto)};
        if (!functions[i].nodes || !functions[i].defaults) return false;
    }
    file->functions = functions, file->n_functions = (uint32_t)message->n_functions;
    return functions != NULL;
}

/* ---- files of weights ---- */

/* Within its folder: no absolute path, and no way up. */
static bool onnx_inside(const char *location)
{
    if (!*location || *location == '/') return false;
    for (const char *part = location; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (strcmp(part, "..") == 0 || strncmp(part, "../", 3) == 0) return false;
    return true;
}

static pco_status onnx_map_external(pco_onnx_file *file, const Onnx__TensorProto *tensor, const char *folder,
                                    pco_error *err)
{
    const char *location = NULL;
    char path[4096];
    for (size_t i = 0; i < tensor->n_external_data; i++)
        if (strcmp(onnx_name(tensor->external_data[i]->key), "location") == 0)
            location = tensor->external_data[i]->value;
    if (!location || !onnx_inside(location))
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "tensor '%.100s' has its values in '%.200s', which is not in the folder of the model",
                        onnx_name(tensor->name), onnx_name(location));
    for (uint32_t i = 0; i < file->n_external; i++)
        if (strcmp(file->external[i].location, location) == 0) return PCO_OK;
    if (!folder)
        return pco_fail(err, PCO_ERROR_INVALID, "tensor '%.100s' has its values in the file '%.200s': say its folder",
                        onnx_name(tensor->name), location);
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, location) >= sizeof path)
        return pco_fail(err, PCO_ERROR_FORMAT, "the path of '%.200s' is too long", location);
    pco_onnx_external *more = realloc(file->external, (file->n_external + 1) * sizeof *more);
    if (!more) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for external data");
    file->external = more;
    more[file->n_external] = (pco_onnx_external){.location = location};
    pco_status status = pco_map_open(path, &more[file->n_external].map, err);
    if (!status) file->n_external++;
    return status;
}

static pco_status onnx_map_graph(pco_onnx_file *file, const Onnx__GraphProto *graph, const char *folder,
                                 pco_error *err);

static pco_status onnx_map_nodes(pco_onnx_file *file, Onnx__NodeProto *const *nodes, size_t count, const char *folder,
                                 pco_error *err)
{
    pco_status status = PCO_OK;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < nodes[i]->n_attribute && !status; k++) {
            const Onnx__AttributeProto *said = nodes[i]->attribute[k];
            if (said->t && said->t->data_location == 1) status = onnx_map_external(file, said->t, folder, err);
            if (said->g && !status) status = onnx_map_graph(file, said->g, folder, err);
        }
    return status;
}

static pco_status onnx_map_graph(pco_onnx_file *file, const Onnx__GraphProto *graph, const char *folder, pco_error *err)
{
    pco_status status = PCO_OK;
    for (size_t i = 0; i < graph->n_initializer && !status; i++)
        if (graph->initializer[i]->data_location == 1)
            status = onnx_map_external(file, graph->initializer[i], folder, err);
    return status ? status : onnx_map_nodes(file, graph->node, graph->n_node, folder, err);
}

/* ---- the file ---- */

pco_status pco_onnx_file_parse(const void *data, size_t size, const char *label, const char *folder,
                               pco_onnx_file *file, pco_error *err)
{
    *file = (pco_onnx_file){0};
    pco_status status = pco_onnx_nesting(data, size, label, err);
    if (status) return status;
    Onnx__ModelProto *message = onnx__model_proto__unpack(NULL, size, data);
    file->message = message;
    if (!message || !message->graph) return pco_fail(err, PCO_ERROR_FORMAT, "'%s' is not an ONNX model", label);
    for (size_t i = 0; i < message->n_opset_import; i++)
        if (!*onnx_domain(message->opset_import[i]->domain)) file->opset = message->opset_import[i]->version;
    if (!onnx_describe_graph(file, message->graph, &file->graph) || !onnx_describe_functions(file, message))
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for '%s'", label);
    status = onnx_map_graph(file, message->graph, folder, err);
    for (size_t i = 0; i < message->n_functions && !status; i++)
        status = onnx_map_nodes(file, message->functions[i]->node, message->functions[i]->n_node, folder, err);
    return status;
}

pco_status pco_onnx_file_open(const char *path, pco_onnx_file *file, pco_error *err)
{
    pco_map map;
    *file = (pco_onnx_file){0};
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + (slash == path)) : strdup(".");
    if (!folder)
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for '%s'", path);
    else
        status = pco_onnx_file_parse(map.data, map.size, path, folder, file, err);
    free(folder);
    pco_map_close(&map);
    return status;
}

void pco_onnx_file_close(pco_onnx_file *file)
{
    if (file->message) onnx__model_proto__free_unpacked(file->message, NULL);
    for (uint32_t i = 0; i < file->n_external; i++) pco_map_close(&file->external[i].map);
    free(file->external);
    pco_arena_release(&file->arena);
    *file = (pco_onnx_file){0};
}
