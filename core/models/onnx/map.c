/* The operators that are mapped, in lists, and one of them at a time. */
#include "models/onnx/map_internal.h"
#include "models/onnx/merge.h"

#include <stdio.h>
#include <string.h>

static const onnx_rule *const RULES[] = {ONNX_ELEMENTWISE, ONNX_FUNCTIONS, ONNX_CASTS,     ONNX_SUMS,
                                         ONNX_EINSUM,      ONNX_SHAPES,    ONNX_INDICES,   ONNX_NORMS,
                                         ONNX_CONV,        ONNX_LAYERS,    ONNX_QUANTISED, ONNX_RESIZE};

static const onnx_rule *onnx_find(const char *domain, const char *op)
{
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES && !*domain; i++)
        for (const onnx_rule *rule = RULES[i]; rule->op; rule++)
            if (strcmp(rule->op, op) == 0) return rule;
    return NULL;
}

/* Those that exist on the host only: constants, and what works shapes out; with their attributes. */
static const struct {
    const char *op, *attributes[8];
} HOST_ONLY[] = {
    {"Constant",
     {"value", "value_int", "value_ints", "value_float", "value_floats", "value_string", "value_strings",
      "sparse_value"}},
    {"Shape", {"start", "end"}},
    {"Size", {NULL}},
};

static bool onnx_host_only(const char *op)
{
    for (size_t i = 0; i < sizeof HOST_ONLY / sizeof *HOST_ONLY; i++)
        if (strcmp(HOST_ONLY[i].op, op) == 0) return true;
    return false;
}

static void onnx_host_only_refuse(pco_onnx_map *map)
{
    const char *op = map->node->op;
    for (size_t i = 0; i < sizeof HOST_ONLY / sizeof *HOST_ONLY; i++)
        for (int k = 0; k < 8 && strcmp(HOST_ONLY[i].op, op) == 0 && HOST_ONLY[i].attributes[k]; k++)
            onnx_without(map, HOST_ONLY[i].attributes[k]);
    const char *left = onnx_left(map);
    if (left)
        onnx_skip(map, "attribute '%.100s' of %.100s is not mapped", left, op);
    else
        onnx_skip(map, "%.100s of what only a run knows, or too large", op);
}

bool pco_onnx_map_knows(const char *domain, const char *op)
{
    return onnx_find(domain, op) || (!*domain && onnx_host_only(op));
}

static uint32_t onnx_map_same(pco_onnx_map *map, const onnx_rule *rule)
{
    uint32_t in[PCO_ONNX_MAX_OPERANDS];
    if (map->node->n_inputs > rule->inputs) return onnx_skip(map, "more operands than are mapped");
    for (uint32_t i = 0; i < rule->inputs; i++) in[i] = onnx_in(map, i);
    uint32_t y = pco_graph_add(map->graph, rule->same, NULL, in, rule->inputs, NULL);
    return onnx_wrapped_to(map, y, onnx_type(map, 0));
}

pco_onnx_map pco_onnx_map_start(pco_graph *graph, const pco_onnx_file *file, const pco_onnx_node *node, int64_t opset)
{
    pco_onnx_map map = {.graph = graph, .file = file, .node = node, .opset = opset, .asked = PCO_NONE};
    for (uint32_t i = 0; i < PCO_ONNX_MAX_OPERANDS; i++) map.in[i] = map.out[i] = PCO_NONE;
    return map;
}

/* What ONNX calls the type of a result that its rule did not name. */
static int32_t onnx_result_type(const pco_onnx_map *map, uint32_t out)
{
    static const struct {
        uint32_t dtype;
        int32_t type;
    } TYPES[] = {{PCO_F32, PCO_ONNX_FLOAT},
                 {PCO_F16, PCO_ONNX_FLOAT16},
                 {PCO_BF16, PCO_ONNX_BFLOAT16},
                 {PCO_I32, PCO_ONNX_INT64},
                 {PCO_BOOL, PCO_ONNX_BOOL}};
    const uint32_t dtype = onnx_desc(map, out)->dtype;
    if (pco_onnx_map_type(onnx_type(map, 0)) == dtype) return onnx_type(map, 0);
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (TYPES[i].dtype == dtype) return TYPES[i].type;
    return 0;
}

void pco_onnx_map_node(pco_onnx_map *map)
{
    const pco_onnx_node *node = map->node;
    if (node->n_inputs > PCO_ONNX_MAX_OPERANDS || node->n_outputs > PCO_ONNX_MAX_OPERANDS || !node->n_outputs) {
        onnx_skip(map, node->n_outputs ? "a node with too many operands" : "a node without results");
        return;
    }
    const onnx_rule *rule = onnx_find(node->domain, node->op);
    if (rule) map->out[0] = rule->map ? rule->map(map) : onnx_map_same(map, rule);
    if (map->skip[0] || map->graph->status) return;
    if (map->merge) map->out[0] = pco_onnx_merge(map->graph, map->out[0]);
    if (map->graph->status) return;
    const char *left = onnx_left(map);
    if (!rule && !*node->domain && onnx_host_only(node->op))
        onnx_host_only_refuse(map);
    else if (!rule)
        onnx_skip(map, "no mapping for %.100s%s%.100s", node->domain, *node->domain ? "." : "", node->op);
    else if (map->out[0] == PCO_NONE)
        onnx_skip(map, "%.100s has no result", node->op);
    else if (left)
        onnx_skip(map, "attribute '%.100s' of %.100s is not mapped", left, node->op);
    for (uint32_t i = 0; i < node->n_outputs && !map->skip[0]; i++)
        if (node->outputs[i][0] && map->out[i] == PCO_NONE)
            onnx_skip(map, "output %u of %.100s is not mapped", i, node->op);
    for (uint32_t i = 0; i < node->n_outputs && !map->skip[0]; i++)
        if (map->out[i] != PCO_NONE && !map->type[i]) map->type[i] = onnx_result_type(map, map->out[i]);
}
