/* The operators that are mapped, in lists, and one of them at a time. */
#include "models/onnx/map_internal.h"

#include <stdio.h>

static const onnx_rule *const RULES[] = {ONNX_ELEMENTWISE, ONNX_SUMS, ONNX_SHAPES, ONNX_LAYERS, ONNX_QUANTISED};

static const onnx_rule *onnx_find(const pco_onnx_map *map)
{
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++)
        for (const onnx_rule *rule = RULES[i]; rule->op; rule++)
            if (onnx_is(map, rule->op)) return rule;
    return NULL;
}

static uint32_t onnx_map_same(pco_onnx_map *map, const onnx_rule *rule)
{
    uint32_t in[PCO_ONNX_MAX_OPERANDS];
    if (map->node->n_inputs > rule->inputs) return onnx_skip(map, "more operands than are mapped");
    for (uint32_t i = 0; i < rule->inputs; i++) in[i] = onnx_in(map, i);
    return pco_graph_add(map->graph, rule->same, NULL, in, rule->inputs, NULL);
}

pco_onnx_map pco_onnx_map_start(pco_graph *graph, const pco_onnx_node *node)
{
    pco_onnx_map map = {.graph = graph, .node = node};
    for (uint32_t i = 0; i < PCO_ONNX_MAX_OPERANDS; i++) map.in[i] = map.out[i] = PCO_NONE;
    return map;
}

void pco_onnx_map_node(pco_onnx_map *map)
{
    const pco_onnx_node *node = map->node;
    if (node->n_inputs > PCO_ONNX_MAX_OPERANDS || node->n_outputs > PCO_ONNX_MAX_OPERANDS || !node->n_outputs) {
        onnx_skip(map, node->n_outputs ? "a node with too many operands" : "a node without results");
        return;
    }
    const onnx_rule *rule = onnx_find(map);
    if (rule) map->out[0] = rule->map ? rule->map(map) : onnx_map_same(map, rule);
    if (map->skip[0] || map->graph->status) return;
    const char *left = onnx_left(map);
    if (map->out[0] == PCO_NONE)
        snprintf(map->skip, sizeof map->skip, "no mapping for %.200s", node->op);
    else if (left)
        snprintf(map->skip, sizeof map->skip, "attribute '%.100s' of %.100s is not mapped", left, node->op);
}
