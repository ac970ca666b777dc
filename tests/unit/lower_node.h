/* The only node of a graph, lowered for a device that is described. What is launched, the driver's `record` sees. */
#ifndef PCO_TEST_LOWER_NODE_H
#define PCO_TEST_LOWER_NODE_H

#include "check.h"
#include "gpu_device.h"
#include "graph/graph.h"

enum { MOST_TENSORS = 12, MOST_ALIGNMENT = 256 };

/* Where tensors lie, each in a buffer of its own. */
typedef struct node_layout {
    uint64_t steps;     /* times the alignment that it asks for, from the beginning */
    uint64_t workspace; /* where workspaces begin in their buffer */
    uint64_t alias;     /* where those that share another's memory begin in it */
    uint32_t alignment; /* of every second one, without a wish; 0: the device's, of all */
} node_layout;

static pco_part part_of(const pco_graph *g)
{
    return (pco_part){
        .size = sizeof(pco_part), .n_tensors = g->n_tensors, .n_nodes = 1, .tensors = g->tensors, .nodes = g->nodes};
}

/* With variant v. */
static void lower_node(pco_device *device, const pco_graph *g, uint32_t v, const node_layout *layout)
{
    pco_node node = g->nodes[0];
    pco_part part = part_of(g);
    pco_tensor_proposal proposals[MOST_TENSORS];
    pco_node_proposal proposed = {.variant = PCO_NONE};
    pco_proposal proposal = {.size = sizeof proposal, .nodes = &proposed, .tensors = proposals};
    pco_place places[MOST_TENSORS];
    pco_buffer *buffers[MOST_TENSORS + 1];
    pco_program *program;
    node.variant = v;
    part.nodes = &node;
    assert_true(part.n_tensors <= MOST_TENSORS);
    for (uint32_t t = 0; t < part.n_tensors; t++)
        proposals[t] = (pco_tensor_proposal){0,
                                             !layout->alignment ? device->gpu.limits.offset_alignment
                                             : t % 2            ? MOST_ALIGNMENT
                                                                : layout->alignment,
                                             part.tensors[t].bytes};
    check_ok(pco_gpu_program_api.propose(device, &part, &proposal, &err));
    for (uint32_t t = 0; t <= part.n_tensors; t++) buffers[t] = (pco_buffer *)(uintptr_t)&places[t];
    for (uint32_t t = 0; t < part.n_tensors; t++) {
        assert_false(proposals[t].alignment & (proposals[t].alignment - 1));
        places[t] = (pco_place){t, layout->steps * proposals[t].alignment, proposals[t].bytes};
        if (part.tensors[t].alias == PCO_NONE) continue;
        places[t] = places[part.tensors[t].alias];
        places[t].offset += layout->alias;
    }
    const pco_place workspace = {part.n_tensors, layout->workspace, proposed.workspace};
    const pco_plan plan = {.size = sizeof plan,
                           .n_buffers = part.n_tensors + 1,
                           .buffers = buffers,
                           .tensors = places,
                           .workspaces = &workspace};
    check_ok(pco_gpu_program_api.prepare(device, &part, &proposal, &plan, &program, &err));
    pco_gpu_program_api.destroy(device, program);
}

#endif
