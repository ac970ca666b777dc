/* An out-of-tree plugin, part two: four operations. A program is an array of steps with their addresses. */
#include "example.h"

#include <string.h>

typedef struct example_step {
    uint32_t op;
    const float *a, *b;
    float *y;
    int64_t count;   /* elements of y */
    int64_t m, n, k; /* matmul */
} example_step;

struct pco_program {
    uint32_t n_steps;
    example_step steps[];
};

static int64_t example_count(const pco_tensor *tensor)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) count *= tensor->shape[i];
    return count;
}

static int example_same_shape(const pco_tensor *a, const pco_tensor *b)
{
    return a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) == 0;
}

/* y[M,N] = a[M,K] b[K,N], and none of the options that the attributes offer. */
static pco_status example_supports_matmul(const pco_node *node, const pco_tensor *a, const pco_tensor *b,
                                          pco_error *err)
{
    const pco_matmul_attrs *attrs = node->attrs;
    if (node->attrs_size < sizeof *attrs)
        return example_fail(err, PCO_ERROR_INVALID, "matmul without attributes");
    for (uint32_t i = 2; i < node->n_inputs; i++)
        if (node->inputs[i] != PCO_NONE)
            return example_fail(err, PCO_ERROR_UNSUPPORTED, "matmul with bias or c is not implemented");
    if (attrs->transpose_a || attrs->transpose_b)
        return example_fail(err, PCO_ERROR_UNSUPPORTED, "matmul with transposed operands is not implemented");
    if (attrs->activation)
        return example_fail(err, PCO_ERROR_UNSUPPORTED, "matmul with activation is not implemented");
    if (a->rank != 2 || b->rank != 2)
        return example_fail(err, PCO_ERROR_UNSUPPORTED,
                            "matmul with more than two dimensions is not implemented");
    return PCO_OK;
}

static pco_status example_supports(pco_device *device, const pco_part *part, uint32_t index, pco_error *err)
{
    (void)device;
    const pco_node *node = &part->nodes[index];
    const pco_tensor *y, *a, *b;
    if (node->op != PCO_OP_ADD && node->op != PCO_OP_MUL && node->op != PCO_OP_RELU &&
        node->op != PCO_OP_MATMUL)
        return example_fail(err, PCO_ERROR_UNSUPPORTED,
                            "op %u is not implemented (only add, mul, relu, matmul)", node->op);
    y = &part->tensors[node->outputs[0]];
    a = &part->tensors[node->inputs[0]];
    b = node->op == PCO_OP_RELU ? a : &part->tensors[node->inputs[1]];
    if (a->dtype != PCO_F32 || b->dtype != PCO_F32 || y->dtype != PCO_F32)
        return example_fail(err, PCO_ERROR_UNSUPPORTED, "only f32 is implemented");
    if (node->op == PCO_OP_MATMUL) return example_supports_matmul(node, a, b, err);
    if (!example_same_shape(a, y) || !example_same_shape(b, y))
        return example_fail(err, PCO_ERROR_UNSUPPORTED, "broadcasting is not implemented");
    return PCO_OK;
}

static pco_status example_propose(pco_device *device, const pco_part *part, pco_proposal *proposal,
                                  pco_error *err)
{
    (void)device, (void)err;
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        proposal->nodes[i].variant = 0;
        /* Each element of y depends on the same element of the operands only. */
        if (part->nodes[i].op != PCO_OP_MATMUL)
            proposal->nodes[i].in_place = part->nodes[i].op == PCO_OP_RELU ? 1 : 3;
    }
    return PCO_OK;
}

/* Where a tensor lies; NULL for one without elements. */
static float *example_address(const pco_plan *plan, uint32_t tensor)
{
    const pco_place *place = &plan->tensors[tensor];
    if (place->buffer == PCO_NONE) return NULL;
    return (float *)(void *)(plan->buffers[place->buffer]->data + place->offset);
}

static pco_status example_prepare(pco_device *device, const pco_part *part, const pco_proposal *proposal,
                                  const pco_plan *plan, pco_program **program, pco_error *err)
{
    (void)proposal;
    const pco_host *host = device->host;
    *program = host->allocate(host->user, sizeof **program + part->n_nodes * sizeof(example_step), 16);
    if (!*program) return example_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the program");
    (*program)->n_steps = part->n_nodes;
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        const pco_node *node = &part->nodes[i];
        const pco_tensor *a = &part->tensors[node->inputs[0]], *y = &part->tensors[node->outputs[0]];
        example_step *step = &(*program)->steps[i];
        *step = (example_step){.op = node->op, .count = example_count(y)};
        step->a = example_address(plan, node->inputs[0]);
        step->b = node->op == PCO_OP_RELU ? NULL : example_address(plan, node->inputs[1]);
        step->y = example_address(plan, node->outputs[0]);
        if (node->op != PCO_OP_MATMUL) continue;
        step->m = a->shape[0];
        step->k = a->shape[1];
        step->n = y->shape[1];
    }
    return PCO_OK;
}

static void example_program_destroy(pco_device *device, pco_program *program)
{
    device->host->release(device->host->user, program);
}

static uint32_t example_segments(const pco_program *program)
{
    return program->n_steps;
}

static void example_matmul(const example_step *step)
{
    for (int64_t m = 0; m < step->m; m++)
        for (int64_t n = 0; n < step->n; n++) {
            float sum = 0;
            for (int64_t k = 0; k < step->k; k++) sum += step->a[m * step->k + k] * step->b[k * step->n + n];
            step->y[m * step->n + n] = sum;
        }
}

static void example_run(const example_step *step)
{
    switch (step->op) {
    case PCO_OP_ADD:
        for (int64_t i = 0; i < step->count; i++) step->y[i] = step->a[i] + step->b[i];
        break;
    case PCO_OP_MUL:
        for (int64_t i = 0; i < step->count; i++) step->y[i] = step->a[i] * step->b[i];
        break;
    case PCO_OP_RELU: /* NaN stays NaN: it is not <= 0 */
        for (int64_t i = 0; i < step->count; i++) step->y[i] = step->a[i] <= 0 ? 0 : step->a[i];
        break;
    default:
        example_matmul(step);
        break;
    }
}

/* Runs at once; there is nothing to wait for. */
static pco_status example_submit(pco_device *device, pco_program *program, uint32_t first, uint32_t count,
                                 uint64_t *ticket, pco_error *err)
{
    (void)device;
    if (first > program->n_steps || count > program->n_steps - first)
        return example_fail(err, PCO_ERROR_INVALID, "there are %u segments", program->n_steps);
    for (uint32_t i = first; i < first + count; i++) example_run(&program->steps[i]);
    *ticket = 0;
    return PCO_OK;
}

static pco_status example_wait(pco_device *device, uint64_t ticket, uint64_t nanoseconds, pco_error *err)
{
    (void)device, (void)ticket, (void)nanoseconds, (void)err;
    return PCO_OK;
}

const pco_program_api EXAMPLE_PROGRAM = {.size = sizeof(pco_program_api),
                                         .supports = example_supports,
                                         .propose = example_propose,
                                         .prepare = example_prepare,
                                         .destroy = example_program_destroy,
                                         .segments = example_segments};

const pco_queue_api EXAMPLE_QUEUE = {
    .size = sizeof(pco_queue_api), .submit = example_submit, .wait = example_wait};
