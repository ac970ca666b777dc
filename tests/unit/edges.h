/* What the tests of the edges of single operations share: devices that are described, and nodes that are lowered. */
#ifndef PCO_TEST_EDGES_H
#define PCO_TEST_EDGES_H

#include "base/dtype.h"
#include "check.h"
#include "gpu/elementwise.h"
#include "gpu_device.h"
#include "graph/graph.h"

#include <math.h>
#include <string.h>

enum { MOST_LAUNCHES = 64, MOST_TENSORS = 12, MOST_ALIGNMENT = 256 };

struct pco_gpu_recording {
    uint32_t count;
    pco_gpu_dispatch launches[MOST_LAUNCHES];
};

static pco_gpu_recording last;

static pco_status edges_record(pco_gpu_device *device, const pco_plan *plan, const pco_gpu_dispatch *list,
                               uint32_t count, uint32_t per_segment, pco_gpu_recording **recording, pco_error *error)
{
    (void)device, (void)plan, (void)per_segment, (void)error;
    assert_true(count <= MOST_LAUNCHES);
    last.count = count;
    memcpy(last.launches, list, count * sizeof *list);
    *recording = &last;
    return PCO_OK;
}

static void edges_discard(pco_gpu_device *device, pco_gpu_recording *recording) { (void)device, (void)recording; }

static const pco_gpu_driver DRIVER = {.record = edges_record, .discard = edges_discard};

static pco_device device_of(int software, uint64_t binding)
{
    pco_device device = gpu_device(&DRIVER, 32, 32, 0);
    if (software) device.gpu.limits.type = PCO_DEVICE_SOFTWARE;
    if (binding) device.gpu.limits.max_binding = binding;
    return device;
}

/* The graph's only node. */
static pco_part part_of(const pco_graph *g)
{
    return (pco_part){
        .size = sizeof(pco_part), .n_tensors = g->n_tensors, .n_nodes = 1, .tensors = g->tensors, .nodes = g->nodes};
}

static int supported_as(pco_device *device, const pco_graph *g, uint32_t v)
{
    pco_part part = part_of(g);
    pco_node node = g->nodes[0];
    pco_error why;
    node.variant = v;
    part.nodes = &node;
    const pco_status status = pco_gpu_program_api.supports(device, &part, 0, &why);
    assert_true(status == PCO_OK || status == PCO_ERROR_UNSUPPORTED);
    return status == PCO_OK;
}

static inline int supported(pco_device *device, const pco_graph *g) { return supported_as(device, g, PCO_NONE); }

static uint64_t workspace_at;      /* where workspaces begin in their buffer */
static uint64_t alias_at;          /* where those that share another's memory begin in it */
static uint32_t tensors_alignment; /* of every second one, without a wish; 0: the device's, of all */

/* Lowers the node with variant v. Each tensor lies in a buffer of its own, `steps` times the alignment that it asks for
 * from the beginning. */
static void lowered(pco_device *device, const pco_graph *g, uint32_t v, uint32_t steps)
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
                                             !tensors_alignment ? device->gpu.limits.offset_alignment
                                             : t % 2            ? MOST_ALIGNMENT
                                                                : tensors_alignment,
                                             part.tensors[t].bytes};
    check_ok(pco_gpu_program_api.propose(device, &part, &proposal, &err));
    for (uint32_t t = 0; t <= part.n_tensors; t++) buffers[t] = (pco_buffer *)(uintptr_t)&places[t];
    for (uint32_t t = 0; t < part.n_tensors; t++) {
        assert_false(proposals[t].alignment & (proposals[t].alignment - 1));
        places[t] = (pco_place){t, (uint64_t)steps * proposals[t].alignment, proposals[t].bytes};
        if (part.tensors[t].alias == PCO_NONE) continue;
        places[t] = places[part.tensors[t].alias];
        places[t].offset += alias_at;
    }
    const pco_place workspace = {part.n_tensors, workspace_at, proposed.workspace};
    const pco_plan plan = {.size = sizeof plan,
                           .n_buffers = part.n_tensors + 1,
                           .buffers = buffers,
                           .tensors = places,
                           .workspaces = &workspace};
    check_ok(pco_gpu_program_api.prepare(device, &part, &proposal, &plan, &program, &err));
    pco_gpu_program_api.destroy(device, program);
}

static void forget(pco_graph *g) { pco_graph_destroy(g); }

static pco_graph *made(pco_graph *g, pco_op op, const void *attrs, const uint32_t *in, uint32_t n)
{
    pco_graph_output(g, pco_graph_add(g, op, attrs, in, n, NULL), "y");
    check_ok(pco_graph_check(g, &err));
    return g;
}

#endif
