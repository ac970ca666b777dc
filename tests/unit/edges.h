/* What the tests of the edges of single operations share: devices that are described, and nodes that are lowered. */
#ifndef PCO_TEST_EDGES_H
#define PCO_TEST_EDGES_H

#include "base/dtype.h"
#include "check.h"
#include "gpu/elementwise.h"
#include "lower_node.h"

#include <math.h>
#include <string.h>

enum { MOST_LAUNCHES = 64 };

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

static node_layout layout; /* but for `steps` */

static void lowered(pco_device *device, const pco_graph *g, uint32_t v, uint32_t steps)
{
    layout.steps = steps;
    lower_node(device, g, v, &layout);
}

static void forget(pco_graph *g) { pco_graph_destroy(g); }

static pco_graph *made(pco_graph *g, pco_op op, const void *attrs, const uint32_t *in, uint32_t n)
{
    pco_graph_output(g, pco_graph_add(g, op, attrs, in, n, NULL), "y");
    check_ok(pco_graph_check(g, &err));
    return g;
}

#endif
