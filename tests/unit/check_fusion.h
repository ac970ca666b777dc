/* For tests of what becomes of a graph's nodes. */
#ifndef PCO_TESTS_CHECK_FUSION_H
#define PCO_TESTS_CHECK_FUSION_H

#include "check_device.h"

#include "graph/graph.h"
#include "runtime/session_internal.h"

static inline uint32_t count_op(const pco_graph *g, pco_op op)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) count += g->nodes[i].op == (uint32_t)op;
    return count;
}

/* How many kernels run; 0 where the device does not say. */
static inline uint32_t launches(const pco_executable *executable)
{
    uint32_t count = 0;
    for (uint32_t p = 0; p < executable->n_parts; p++) {
        const session_part *part = &executable->parts[p];
        const session_slot *slot = &executable->session->slots[part->slot];
        pco_dispatch_info info;
        pco_error why;
        for (uint32_t i = 0; slot->plugin->program->describe; i++, count++)
            if (slot->plugin->program->describe(slot->device, part->program, i, &info, &why)) break;
    }
    return count;
}

/* Each node taken in costs a launch less: a device may not need two for what is one node. */
static inline void check_launches(const char *what, uint32_t as_one, uint32_t apart, uint32_t taken_in)
{
    if (apart && (!as_one || as_one + taken_in > apart))
        fail_msg("%s: %u launches apart, and as one %u, not %u less", what, apart, as_one, taken_in);
}

/* What the session's device would say, for functions that refuse more. */
static const pco_plugin *real_plugin;

/* An executable as if the device answered like this. */
static inline pco_executable *create_refusing(const pco_graph *g, pco_status (*supports)(pco_device *, const pco_part *,
                                                                                         uint32_t, pco_error *))
{
    session_slot *slot = &device_session->slots[0];
    pco_executable *executable;
    pco_error why;
    real_plugin = slot->plugin;
    pco_program_api program = *real_plugin->program;
    pco_plugin plugin = *real_plugin;
    program.supports = supports;
    plugin.program = &program;
    slot->plugin = &plugin;
    const pco_status status = pco_executable_create(device_session, g, NULL, &executable, &why);
    slot->plugin = real_plugin;
    if (status) fail_msg("%s", why.message);
    return executable;
}

#endif
