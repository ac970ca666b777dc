/* Programs: what the device can run, what a part needs, and parts made runnable. A program is an array of
 * nodes with their addresses; each node is a segment. */
#include "program.h"

#include "layout.h"

#include <time.h>

/* Where a node reads an input of the part, or a run value: what cpu_lend changes. A view of it counts too, and the node
 * that makes it, which then has nothing to copy. */
typedef struct cpu_link {
    unsigned char **at, *home;
    uint32_t tensor;
    uint64_t offset; /* of a view */
} cpu_link;

struct pco_program {
    uint32_t n_nodes, n_links;
    cpu_link *links;
    bool profiling;
    uint64_t *nanoseconds; /* n_nodes, of the last run */
    cpu_node nodes[];
};

static pco_status cpu_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *err)
{
    cpu_node parsed;
    return cpu_node_parse(device, part, node, &parsed, err);
}

static uint32_t cpu_variants(pco_device *device, const pco_part *part, uint32_t node, pco_variant *variants,
                             uint32_t capacity)
{
    cpu_node parsed;
    const cpu_variant *list[8];
    if (cpu_node_parse(device, part, node, &parsed, NULL)) return 0;
    uint32_t count = cpu_node_variants(&parsed, list, 8);
    for (uint32_t i = 0; i < count && i < capacity; i++) variants[i] = (pco_variant){.name = list[i]->name};
    return count;
}

/* The inputs whose memory output 0 may take: allowed by the op, and of its type and shape. */
static uint32_t cpu_in_place(const cpu_node *node)
{
    uint32_t mask = 0;
    const cpu_tensor *y = &node->out[0];
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const cpu_tensor *x = &node->in[i];
        if (!(node->op->in_place >> i & 1) || !x->present || x->count != y->count) continue;
        if (cpu_size(x->dtype) == cpu_size(y->dtype) && cpu_same_shape(x, y)) mask |= 1u << i;
    }
    return mask;
}

static pco_status cpu_propose(pco_device *device, const pco_part *part, pco_proposal *proposal, pco_error *err)
{
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        cpu_node node;
        const cpu_variant *variant;
        pco_status status = cpu_node_parse(device, part, i, &node, err);
        if (!status) status = cpu_node_choose(&node, part->nodes[i].variant, &variant, err);
        if (status) return status;
        pco_node_proposal *out = &proposal->nodes[i];
        out->variant = node.variant;
        out->in_place = cpu_in_place(&node);
    }
    cpu_layout_propose(device, part, proposal);
    for (uint32_t i = 0; i < part->n_nodes; i++) { /* what a node needs may depend on how its constants lie */
        cpu_node node;
        const cpu_variant *variant;
        pco_status status = cpu_node_parse(device, part, i, &node, err);
        if (!status) status = cpu_node_choose(&node, proposal->nodes[i].variant, &variant, err);
        if (status) return status;
        cpu_layout_apply(&node, &part->nodes[i], proposal);
        proposal->nodes[i].workspace = variant->workspace ? variant->workspace(&node) : 0;
    }
    return PCO_OK;
}

/* The address of a place, or NULL where there is no memory. */
static unsigned char *cpu_address(const pco_plan *plan, const pco_place *place)
{
    return place->buffer == PCO_NONE ? NULL : plan->buffers[place->buffer]->data + place->offset;
}

static void cpu_bind(cpu_node *node, const pco_node *from, const pco_plan *plan, const cpu_variant *variant)
{
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->in[i].count > 0) node->in[i].data = cpu_address(plan, &plan->tensors[from->inputs[i]]);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->out[i].count > 0) node->out[i].data = cpu_address(plan, &plan->tensors[from->outputs[i]]);
    node->workspace_bytes = variant->workspace ? variant->workspace(node) : 0;
    if (node->workspace_bytes) node->workspace = cpu_address(plan, &plan->workspaces[node->index]);
    node->run = variant->run;
    node->attempt = node->op->attempt;
}

/* Whose memory a tensor of a part lies in. */
static uint32_t cpu_root(const pco_part *part, uint32_t tensor)
{
    while (part->tensors[tensor].alias != PCO_NONE) tensor = part->tensors[tensor].alias;
    return tensor;
}

static void cpu_link_tensor(pco_program *program, const pco_part *part, const pco_plan *plan, uint32_t tensor,
                            cpu_tensor *of)
{
    if (tensor == PCO_NONE || !of->data) return;
    const uint32_t root = cpu_root(part, tensor), kind = part->tensors[root].kind;
    if (kind != PCO_KIND_INPUT && kind != PCO_KIND_VALUE) return;
    program->links[program->n_links++] =
        (cpu_link){.at = &of->data,
                   .home = of->data,
                   .tensor = root,
                   .offset = plan->tensors[tensor].offset - plan->tensors[root].offset};
}

static pco_status cpu_link_all(pco_device *device, pco_program *program, const pco_part *part, const pco_plan *plan,
                               pco_error *err)
{
    const pco_host *host = device->host;
    size_t most = 0;
    for (uint32_t i = 0; i < part->n_nodes; i++) most += part->nodes[i].n_inputs + part->nodes[i].n_outputs;
    program->links = host->allocate(host->user, most * sizeof *program->links + 8, 64);
    if (!program->links)
        return cpu_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the operands of %u nodes", part->n_nodes);
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        const pco_node *from = &part->nodes[i];
        cpu_node *node = &program->nodes[i];
        for (uint32_t k = 0; k < node->n_inputs; k++)
            cpu_link_tensor(program, part, plan, from->inputs[k], &node->in[k]);
        for (uint32_t k = 0; k < node->n_outputs; k++)
            cpu_link_tensor(program, part, plan, from->outputs[k], &node->out[k]);
    }
    return PCO_OK;
}

static void cpu_lend(pco_device *device, pco_program *program, uint32_t tensor, const void *data)
{
    (void)device;
    for (uint32_t i = 0; i < program->n_links; i++) {
        const cpu_link *link = &program->links[i];
        if (link->tensor == tensor) *link->at = data ? (unsigned char *)(uintptr_t)data + link->offset : link->home;
    }
}

static void cpu_program_destroy(pco_device *device, pco_program *program)
{
    if (!program) return;
    device->host->release(device->host->user, program->links);
    device->host->release(device->host->user, program->nanoseconds);
    device->host->release(device->host->user, program);
}

static pco_status cpu_prepare(pco_device *device, const pco_part *part, const pco_proposal *proposal,
                              const pco_plan *plan, pco_program **program, pco_error *err)
{
    *program = NULL;
    const pco_host *host = device->host;
    size_t bytes = sizeof(pco_program) + part->n_nodes * sizeof(cpu_node);
    pco_program *made = host->allocate(host->user, bytes, 64);
    if (!made) return cpu_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a program of %u nodes", part->n_nodes);
    made->n_nodes = part->n_nodes, made->n_links = 0, made->links = NULL;
    made->profiling = device->profiling;
    made->nanoseconds = host->allocate(host->user, part->n_nodes * sizeof(uint64_t) + 8, 64);
    pco_status status = PCO_OK;
    if (made->nanoseconds)
        memset(made->nanoseconds, 0, part->n_nodes * sizeof(uint64_t));
    else
        status = cpu_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for timings of %u nodes", part->n_nodes);
    for (uint32_t i = 0; i < part->n_nodes && !status; i++) {
        const cpu_variant *variant;
        status = cpu_node_parse(device, part, i, &made->nodes[i], err);
        if (!status) status = cpu_node_choose(&made->nodes[i], proposal->nodes[i].variant, &variant, err);
        if (status) break;
        cpu_layout_apply(&made->nodes[i], &part->nodes[i], proposal);
        cpu_bind(&made->nodes[i], &part->nodes[i], plan, variant);
        made->nodes[i].name = "";
    }
    if (!status) status = cpu_link_all(device, made, part, plan, err);
    if (status) {
        cpu_program_destroy(device, made);
        return status;
    }
    *program = made;
    return PCO_OK;
}

static uint32_t cpu_segments(const pco_program *program) { return program->n_nodes; }

static uint32_t cpu_segments_until(const pco_program *program, uint32_t node)
{
    (void)program;
    return node + 1;
}

static uint32_t cpu_timings(pco_device *device, pco_program *program, pco_timing *out, uint32_t capacity)
{
    (void)device;
    if (!program->profiling) return 0;
    for (uint32_t i = 0; i < program->n_nodes && i < capacity; i++)
        out[i] = (pco_timing){.node = i, .nanoseconds = program->nanoseconds[i]};
    return program->n_nodes;
}

static uint64_t cpu_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Runs in the caller's thread and the pool; complete when it returns. */
static pco_status cpu_submit(pco_device *device, pco_program *program, uint32_t first, uint32_t count, uint64_t *ticket,
                             pco_error *err)
{
    if (first > program->n_nodes || count > program->n_nodes - first)
        return cpu_fail(err, PCO_ERROR_INVALID, "segments %u..%llu of %u", first, (unsigned long long)first + count,
                        program->n_nodes);
    pco_status status;
    for (uint32_t i = first; i < first + count; i++) {
        const cpu_node *node = &program->nodes[i];
        uint64_t start = program->profiling ? cpu_now() : 0;
        if (!node->attempt)
            node->run(node);
        else if ((status = node->attempt(node, err)) != PCO_OK)
            return status;
        if (program->profiling) program->nanoseconds[i] = cpu_now() - start;
    }
    *ticket = ++device->ticket;
    return PCO_OK;
}

static pco_status cpu_wait(pco_device *device, uint64_t ticket, uint64_t nanoseconds, pco_error *err)
{
    (void)nanoseconds;
    if (ticket > device->ticket)
        return cpu_fail(err, PCO_ERROR_INVALID, "ticket %llu was never given", (unsigned long long)ticket);
    return PCO_OK;
}

const pco_program_api cpu_program_api = {
    .size = sizeof(pco_program_api),
    .supports = cpu_supports,
    .variants = cpu_variants,
    .propose = cpu_propose,
    .convert = cpu_layout_convert,
    .prepare = cpu_prepare,
    .destroy = cpu_program_destroy,
    .segments = cpu_segments,
    .timings = cpu_timings,
    .segments_until = cpu_segments_until,
    .lend = cpu_lend,
};

const pco_queue_api cpu_queue_api = {.size = sizeof(pco_queue_api), .submit = cpu_submit, .wait = cpu_wait};
