/* A toy device: what is the same for every toy of a test. Memory is the host's; the test defines `struct pco_device`,
 * `struct toy_node`, toy_supports, toy_propose, toy_node_make and toy_node_run, and includes this file before them. */
#ifndef PCO_TESTS_TOY_H
#define PCO_TESTS_TOY_H

#include "toy_memory.h"

typedef struct toy_node toy_node; /* one that is prepared */

struct pco_program {
    uint32_t count;
    toy_node *nodes[]; /* in the order in which they run */
};

/* From calloc. */
static toy_node *toy_node_make(const pco_part *part, const pco_node *node, const pco_plan *plan);
static pco_status toy_node_run(pco_device *device, toy_node *node, pco_error *err);

static pco_status toy_prepare(pco_device *device, const pco_part *part, const pco_proposal *proposal,
                              const pco_plan *plan, pco_program **program, pco_error *err)
{
    (void)device, (void)proposal, (void)err;
    *program = calloc(1, sizeof **program + part->n_nodes * sizeof(toy_node *));
    for (uint32_t i = 0; i < part->n_nodes; i++)
        (*program)->nodes[(*program)->count++] = toy_node_make(part, &part->nodes[i], plan);
    return PCO_OK;
}

static pco_status toy_submit(pco_device *device, pco_program *program, uint32_t first, uint32_t count, uint64_t *ticket,
                             pco_error *err)
{
    (void)first, (void)count;
    *ticket = 1;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < program->count && !status; i++) status = toy_node_run(device, program->nodes[i], err);
    return status;
}

static void toy_free(pco_device *device, pco_program *program)
{
    (void)device;
    for (uint32_t i = 0; i < program->count; i++) free(program->nodes[i]);
    free(program);
}

static uint32_t toy_segments(const pco_program *program)
{
    (void)program;
    return 1;
}

static pco_status toy_wait(pco_device *device, uint64_t ticket, uint64_t nanoseconds, pco_error *err)
{
    (void)device, (void)ticket, (void)nanoseconds, (void)err;
    return PCO_OK;
}

static pco_status toy_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *err);
static pco_status toy_propose(pco_device *device, const pco_part *part, pco_proposal *proposal, pco_error *err);

static inline const pco_plugin *toy_plugin(void)
{
    static const pco_buffer_api buffers = {
        .size = sizeof buffers, .create = toy_create, .destroy = toy_destroy, .write = toy_write, .read = toy_read};
    static const pco_program_api programs = {.size = sizeof programs,
                                             .supports = toy_supports,
                                             .propose = toy_propose,
                                             .prepare = toy_prepare,
                                             .destroy = toy_free,
                                             .segments = toy_segments};
    static const pco_queue_api queues = {.size = sizeof queues, .submit = toy_submit, .wait = toy_wait};
    static const pco_plugin plugin = {.size = sizeof plugin,
                                      .abi_version = PCO_ABI_VERSION,
                                      .name = "toy",
                                      .buffer = &buffers,
                                      .program = &programs,
                                      .queue = &queues};
    return &plugin;
}

static inline pco_device_info toy_info(const pco_contract *contract)
{
    return (pco_device_info){
        .size = sizeof(pco_device_info), .max_allocation = 1 << 30, .buffer_alignment = 64, .contract = *contract};
}

/* The suite's judgement of `device`, which declares `contract`. */
static pco_conformance_result toy_judge(pco_device *device, const pco_contract *contract, const char *ops,
                                        uint64_t seed)
{
    const pco_device_info info = toy_info(contract);
    pco_conformance_device entry = {toy_plugin(), device, &info, "toy:0"};
    pco_conformance_options options = {.ops = ops, .seed = seed};
    pco_conformance_result result;
    check_ok(pco_conformance_run(&options, &entry, 1, &result, &err));
    return result;
}

#endif
