/* A backend out of tree: f32 add, mul (same shapes), relu, softmax and matmul, one after the other, in plain C. */
#include <portico/plugin.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct pco_backend {
    const pco_host *host;
};

struct pco_device {
    const pco_host *host;
};

struct pco_buffer {
    uint64_t bytes;
    unsigned char *data;
};

/* What a prepared node needs: addresses and sizes, so that a run looks nothing up. */
typedef struct example_step {
    uint32_t op;
    const float *a, *b, *bias, *c;
    float *y;
    int64_t count;                      /* elementwise */
    int64_t outer, size, inner;         /* softmax: over `size` elements, `inner` apart */
    int64_t batch, m, n, k;             /* matmul: y[batch][m][n] */
    int64_t a_batch, b_batch;           /* floats from one matrix to the next, 0 when it is shared */
    int64_t a_row, a_col, b_row, b_col; /* strides: a[m][k], b[k][n] */
    int relu;
} example_step;

struct pco_program {
    uint32_t n_steps;
    example_step steps[];
};

static pco_status example_fail(pco_error *err, pco_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (err) vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return status;
}

/* ---- backend and device ---- */

static pco_status example_create(const pco_host *host, pco_backend **backend, pco_error *err)
{
    *backend = host->allocate(host->user, sizeof **backend, sizeof(void *));
    if (!*backend) return example_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    (*backend)->host = host;
    return PCO_OK;
}

static void example_destroy(pco_backend *backend) { backend->host->release(backend->host->user, backend); }

static uint32_t example_device_count(pco_backend *backend)
{
    (void)backend;
    return 1;
}

static pco_status example_describe(pco_backend *backend, uint32_t index, pco_device_info *info, pco_error *err)
{
    (void)backend;
    if (index != 0) return example_fail(err, PCO_ERROR_NOT_FOUND, "there is one device, 0");
    *info = (pco_device_info){.size = sizeof *info, .type = PCO_DEVICE_OTHER};
    snprintf(info->name, sizeof info->name, "plain C, one thread");
    snprintf(info->driver, sizeof info->driver, "example 1");
    snprintf(info->driver_version, sizeof info->driver_version, "1"); /* what reports name, as far as there is any */
    info->memory = info->max_allocation = info->max_binding = UINT64_C(1) << 32;
    info->buffer_alignment = 64;
    info->max_workgroup = 1;
    info->contract = (pco_contract){.accumulate_f32 = PCO_F32,
                                    .compute = PCO_F32,
                                    .round_to_nearest = 1,
                                    .subnormals = 1,
                                    .nan_inf = 1,
                                    .div_ulp = 0.5f,
                                    .sqrt_ulp = 0.5f,
                                    .rsqrt_ulp = 1,
                                    .function_ulp = 4};
    return PCO_OK;
}

static pco_status example_open(pco_backend *backend, uint32_t index, pco_device **device, pco_error *err)
{
    const pco_host *host = backend->host;
    if (index != 0) return example_fail(err, PCO_ERROR_NOT_FOUND, "there is one device, 0");
    *device = host->allocate(host->user, sizeof **device, sizeof(void *));
    if (!*device) return example_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    (*device)->host = host;
    return PCO_OK;
}

static void example_close(pco_device *device) { device->host->release(device->host->user, device); }

static uint64_t example_memory_left(pco_device *device)
{
    (void)device;
    return UINT64_C(1) << 32;
}

/* ---- buffers ---- */

static pco_status example_buffer_create(pco_device *device, uint64_t bytes, uint32_t usage, pco_buffer **buffer,
                                        pco_error *err)
{
    const pco_host *host = device->host;
    (void)usage;
    *buffer = host->allocate(host->user, sizeof **buffer, sizeof(void *));
    if (!*buffer) return example_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    (*buffer)->bytes = bytes;
    (*buffer)->data = host->allocate(host->user, bytes ? bytes : 1, 64);
    if ((*buffer)->data) return PCO_OK;
    host->release(host->user, *buffer);
    *buffer = NULL;
    return example_fail(err, PCO_ERROR_OUT_OF_DEVICE_MEMORY, "no memory for a buffer of %llu bytes",
                        (unsigned long long)bytes);
}

static void example_buffer_destroy(pco_device *device, pco_buffer *buffer)
{
    if (!buffer) return;
    device->host->release(device->host->user, buffer->data);
    device->host->release(device->host->user, buffer);
}

static int example_outside(const pco_buffer *buffer, uint64_t offset, uint64_t bytes)
{
    return offset > buffer->bytes || bytes > buffer->bytes - offset;
}

static pco_status example_write(pco_device *device, pco_buffer *buffer, uint64_t offset, const void *data,
                                uint64_t bytes, pco_error *err)
{
    (void)device;
    if (example_outside(buffer, offset, bytes)) return example_fail(err, PCO_ERROR_INVALID, "a write outside a buffer");
    if (bytes) memcpy(buffer->data + offset, data, bytes);
    return PCO_OK;
}

static pco_status example_read(pco_device *device, pco_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               pco_error *err)
{
    (void)device;
    if (example_outside(buffer, offset, bytes)) return example_fail(err, PCO_ERROR_INVALID, "a read outside a buffer");
    if (bytes) memcpy(data, buffer->data + offset, bytes);
    return PCO_OK;
}

static pco_status example_copy(pco_device *device, pco_buffer *from, uint64_t from_offset, pco_buffer *to,
                               uint64_t to_offset, uint64_t bytes, pco_error *err)
{
    if (example_outside(from, from_offset, bytes))
        return example_fail(err, PCO_ERROR_INVALID, "a copy from outside a buffer");
    return example_write(device, to, to_offset, from->data + from_offset, bytes, err);
}

static void *example_map(pco_device *device, pco_buffer *buffer)
{
    (void)device;
    return buffer->data;
}

/* ---- programs ---- */

static const pco_tensor *example_input(const pco_part *part, const pco_node *node, uint32_t i)
{
    return i < node->n_inputs && node->inputs[i] != PCO_NONE ? &part->tensors[node->inputs[i]] : NULL;
}

static int64_t example_elements(const pco_tensor *x)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < x->rank; i++) count *= x->shape[i];
    return count;
}

static pco_status example_supports(pco_device *device, const pco_part *part, uint32_t index, pco_error *err)
{
    (void)device;
    const pco_node *node = &part->nodes[index];
    static const uint32_t OPS[] = {PCO_OP_ADD, PCO_OP_MUL, PCO_OP_RELU, PCO_OP_SOFTMAX, PCO_OP_MATMUL};
    int known = 0;
    for (size_t i = 0; i < sizeof OPS / sizeof *OPS; i++) known |= node->op == OPS[i];
    if (!known) /* one text for all of them: reports fold what is refused for the same reason */
        return example_fail(err, PCO_ERROR_UNSUPPORTED, "add, mul, relu, softmax and matmul are all that there is");
    const pco_tensor *y = &part->tensors[node->outputs[0]];
    for (uint32_t i = 0; i <= node->n_inputs; i++) {
        const pco_tensor *x = i < node->n_inputs ? example_input(part, node, i) : y;
        if (x && x->dtype != PCO_F32)
            return example_fail(err, PCO_ERROR_UNSUPPORTED, "%s is there for f32 only", pco_op_name(node->op));
        if (x && node->op != PCO_OP_MATMUL && example_elements(x) != example_elements(y))
            return example_fail(err, PCO_ERROR_UNSUPPORTED, "'%s' would have to be broadcast", x->name);
    }
    if (node->op != PCO_OP_MATMUL) return PCO_OK;
    const pco_matmul_attrs *attrs = node->attrs;
    if (attrs->activation > 1) return example_fail(err, PCO_ERROR_UNSUPPORTED, "relu is the only activation");
    for (uint32_t i = 0; i < 2; i++) { /* all matrices of an operand, or one for all */
        const pco_tensor *x = example_input(part, node, i);
        int64_t matrices = 1, all = 1;
        for (uint32_t d = 0; d + 2 < x->rank; d++) matrices *= x->shape[d];
        for (uint32_t d = 0; d + 2 < y->rank; d++) all *= y->shape[d];
        if (matrices != all && matrices != 1)
            return example_fail(err, PCO_ERROR_UNSUPPORTED, "the matrices of '%s' would have to be broadcast", x->name);
    }
    return PCO_OK;
}

static pco_status example_propose(pco_device *device, const pco_part *part, pco_proposal *proposal, pco_error *err)
{
    (void)device, (void)err;
    for (uint32_t i = 0; i < part->n_nodes; i++) /* elementwise ops may write over their operands */
        if (part->nodes[i].op != PCO_OP_MATMUL) proposal->nodes[i].in_place = part->nodes[i].n_inputs == 1 ? 1 : 3;
    return PCO_OK;
}

static float *example_address(const pco_plan *plan, uint32_t t)
{
    if (t == PCO_NONE || plan->tensors[t].buffer == PCO_NONE) return NULL;
    return (float *)(void *)(plan->buffers[plan->tensors[t].buffer]->data + plan->tensors[t].offset);
}

static void example_matmul_step(const pco_part *part, const pco_node *node, example_step *step)
{
    const pco_matmul_attrs *attrs = node->attrs;
    const pco_tensor *a = example_input(part, node, 0), *b = example_input(part, node, 1);
    const pco_tensor *y = &part->tensors[node->outputs[0]];
    step->m = y->shape[y->rank - 2];
    step->n = y->shape[y->rank - 1];
    step->k = a->shape[a->rank - (attrs->transpose_a ? 2 : 1)];
    step->batch = step->m > 0 && step->n > 0 ? example_elements(y) / (step->m * step->n) : 0;
    step->a_batch = example_elements(a) > step->m * step->k ? step->m * step->k : 0;
    step->b_batch = example_elements(b) > step->k * step->n ? step->k * step->n : 0;
    step->a_row = attrs->transpose_a ? 1 : step->k;
    step->a_col = attrs->transpose_a ? step->m : 1;
    step->b_row = attrs->transpose_b ? 1 : step->n;
    step->b_col = attrs->transpose_b ? step->k : 1;
    step->relu = attrs->activation == 1;
}

/* The axis counts from the first dimension: the core has seen to that. */
static void example_softmax_step(const pco_part *part, const pco_node *node, example_step *step)
{
    const pco_softmax_attrs *attrs = node->attrs;
    const pco_tensor *x = example_input(part, node, 0);
    step->outer = step->inner = 1;
    step->size = x->shape[attrs->axis];
    for (uint32_t d = 0; d < x->rank; d++) {
        if (d < attrs->axis) step->outer *= x->shape[d];
        if (d > attrs->axis) step->inner *= x->shape[d];
    }
}

static pco_status example_prepare(pco_device *device, const pco_part *part, const pco_proposal *proposal,
                                  const pco_plan *plan, pco_program **program, pco_error *err)
{
    const pco_host *host = device->host;
    (void)proposal;
    size_t bytes = sizeof **program + part->n_nodes * sizeof(example_step);
    *program = host->allocate(host->user, bytes, sizeof(void *));
    if (!*program) return example_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a program");
    memset(*program, 0, bytes);
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        const pco_node *node = &part->nodes[i];
        example_step *step = &(*program)->steps[(*program)->n_steps++];
        step->op = node->op;
        step->count = example_elements(&part->tensors[node->outputs[0]]);
        step->a = example_address(plan, node->inputs[0]);
        step->b = node->n_inputs > 1 ? example_address(plan, node->inputs[1]) : NULL;
        step->bias = node->n_inputs > 2 ? example_address(plan, node->inputs[2]) : NULL;
        step->c = node->n_inputs > 3 ? example_address(plan, node->inputs[3]) : NULL;
        step->y = example_address(plan, node->outputs[0]);
        if (node->op == PCO_OP_MATMUL) example_matmul_step(part, node, step);
        if (node->op == PCO_OP_SOFTMAX) example_softmax_step(part, node, step);
    }
    return PCO_OK;
}

static void example_program_destroy(pco_device *device, pco_program *program)
{
    if (program) device->host->release(device->host->user, program);
}

static uint32_t example_segments(const pco_program *program) { return program->n_steps; }

/* ---- running ---- */

static float example_relu(float x) { return x < 0 ? 0 : x; /* NaN stays NaN */ }

/* exp(x - max) / sum of exp(x - max); a row of -inf gives zeros. Row by row, so that a row alone has the same bits. */
static void example_softmax(const example_step *s)
{
    for (int64_t row = 0; row < s->outer * s->inner; row++) {
        const int64_t at = row / s->inner * s->size * s->inner + row % s->inner;
        float max = -INFINITY, sum = 0;
        for (int64_t k = 0; k < s->size; k++) {
            const float x = s->a[at + k * s->inner];
            if (x > max || isnan(x)) max = x;
        }
        for (int64_t k = 0; k < s->size; k++) {
            const float y = max == -INFINITY ? 0 : expf(s->a[at + k * s->inner] - max);
            s->y[at + k * s->inner] = y;
            sum += y;
        }
        for (int64_t k = 0; k < s->size && sum != 0; k++) s->y[at + k * s->inner] /= sum;
    }
}

static void example_matmul(const example_step *s)
{
    for (int64_t i = 0; i < s->batch * s->m; i++) {
        const float *a = s->a + i / s->m * s->a_batch + i % s->m * s->a_row, *b = s->b + i / s->m * s->b_batch;
        for (int64_t n = 0; n < s->n; n++) {
            float sum = 0;
            for (int64_t k = 0; k < s->k; k++) sum += a[k * s->a_col] * b[k * s->b_row + n * s->b_col];
            if (s->bias) sum += s->bias[n];
            if (s->relu) sum = example_relu(sum);
            s->y[i * s->n + n] = s->c ? sum + s->c[i * s->n + n] : sum;
        }
    }
}

static pco_status example_submit(pco_device *device, pco_program *program, uint32_t first, uint32_t count,
                                 uint64_t *ticket, pco_error *err)
{
    (void)device;
    if (first > program->n_steps || count > program->n_steps - first)
        return example_fail(err, PCO_ERROR_INVALID, "segments beyond the program's %u", program->n_steps);
    for (uint32_t i = first; i < first + count; i++) {
        const example_step *s = &program->steps[i];
        if (s->op == PCO_OP_MATMUL) example_matmul(s);
        if (s->op == PCO_OP_SOFTMAX) example_softmax(s);
        for (int64_t k = 0; s->op == PCO_OP_ADD && k < s->count; k++) s->y[k] = s->a[k] + s->b[k];
        for (int64_t k = 0; s->op == PCO_OP_MUL && k < s->count; k++) s->y[k] = s->a[k] * s->b[k];
        for (int64_t k = 0; s->op == PCO_OP_RELU && k < s->count; k++) s->y[k] = example_relu(s->a[k]);
    }
    *ticket = 0;
    return PCO_OK;
}

static pco_status example_wait(pco_device *device, uint64_t ticket, uint64_t nanoseconds, pco_error *err)
{
    (void)device, (void)ticket, (void)nanoseconds, (void)err;
    return PCO_OK; /* submit has done it all */
}

static const pco_device_api example_device_api = {
    .size = sizeof(pco_device_api), .close = example_close, .memory_left = example_memory_left};

static const pco_buffer_api example_buffer_api = {.size = sizeof(pco_buffer_api),
                                                  .create = example_buffer_create,
                                                  .destroy = example_buffer_destroy,
                                                  .write = example_write,
                                                  .read = example_read,
                                                  .copy = example_copy,
                                                  .map = example_map};

static const pco_program_api example_program_api = {.size = sizeof(pco_program_api),
                                                    .supports = example_supports,
                                                    .propose = example_propose,
                                                    .prepare = example_prepare,
                                                    .destroy = example_program_destroy,
                                                    .segments = example_segments};

static const pco_queue_api example_queue_api = {
    .size = sizeof(pco_queue_api), .submit = example_submit, .wait = example_wait};

static const pco_plugin example_plugin = {.size = sizeof(pco_plugin),
                                          .abi_version = PCO_ABI_VERSION,
                                          .name = "example",
                                          .version = "1",
                                          .description =
                                              "an example: f32 add, mul, relu, softmax and matmul in plain C",
                                          .create = example_create,
                                          .destroy = example_destroy,
                                          .device_count = example_device_count,
                                          .describe = example_describe,
                                          .open = example_open,
                                          .device = &example_device_api,
                                          .buffer = &example_buffer_api,
                                          .program = &example_program_api,
                                          .queue = &example_queue_api};

const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    return host_abi_version >> 16 == PCO_ABI_MAJOR ? &example_plugin : NULL;
}
