/* A plugin whose devices each make another kind of trouble, to test what the conformance suite says of it.
 * All of them run add, sub, mul, neg and abs of f32, of equal shapes or with a scalar; large products are
 * where the trouble lies. */
#include "portico/plugin.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

typedef enum trouble_kind {
    TROUBLE_NONE,
    TROUBLE_CRASH,  /* a segmentation fault at one size */
    TROUBLE_ALWAYS, /* at every size of variant "bad"; variant "good" is right */
    TROUBLE_HANG,
    TROUBLE_LOST,   /* says so */
    TROUBLE_RESET,  /* all is zero from then on, without a word */
    TROUBLE_STOP,   /* ends the process */
    TROUBLE_MEMORY, /* out of host memory */
    TROUBLE_FLAKY,  /* every other run is wrong */
    TROUBLE_WRONG,
    TROUBLE_OPEN,    /* crashes when it is opened */
    TROUBLE_REFUSE,  /* cannot be opened */
    TROUBLE_CLOSE,   /* crashes when it is closed */
    TROUBLE_UNABLE,  /* supports nothing */
    TROUBLE_NOISE,   /* prints a lot, on stdout too */
    TROUBLE_EMPTY,   /* says that it was opened, and gives no device */
    TROUBLE_UNREADY, /* crashes when a large product is prepared */
    TROUBLE_TELLS,   /* prints a word for each program that it prepares */
    TROUBLE_GONE,    /* says that it is lost when it is asked whether it can run a large product */
    TROUBLE_FULL,    /* the process gets next to no more memory once it is open */
    TROUBLE_NARROW,  /* beyond its binding limit variant "wide" writes a word too many, and "bad" crashes */
    TROUBLE_MUTE,    /* lists no variants */
    TROUBLE_KINDS,
} trouble_kind;

static const char *const NAMES[TROUBLE_KINDS] = {
    "sound",  "crash", "always", "hang",  "lost",  "reset",   "stop",  "memory", "flaky", "wrong",  "open",
    "refuse", "close", "unable", "noise", "empty", "unready", "tells", "gone",   "full",  "narrow", "mute"};
enum { TROUBLE_LARGE = 300 /* elements beyond which it begins */, TROUBLE_BINDING = 1 << 19 };

struct pco_backend {
    const pco_host *host;
};
struct pco_device {
    const pco_host *host;
    trouble_kind kind;
    uint32_t products; /* large ones that were prepared */
    int was_reset;
};
struct pco_buffer {
    uint64_t bytes;
    unsigned char *data;
};
typedef struct trouble_node {
    uint32_t op, variant;
    const float *a, *b;
    float *y;
    int64_t a_step, b_step, count; /* step 0: a scalar */
    int large, wrong;
} trouble_node;
struct pco_program {
    uint32_t count;
    trouble_node nodes[]; /* in the order in which they run */
};

static pco_status trouble_fail(pco_error *err, pco_status status, const char *message)
{
    if (err) snprintf(err->message, sizeof err->message, "%s", message);
    return status;
}

/* As a driver does it, also where a sanitizer would catch it. */
static void trouble_crash(void)
{
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

/* The address space of the process may grow by 1 MiB. */
static void trouble_fill(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &pages) != 1) pages = 0;
    if (file) fclose(file);
    const rlim_t bytes = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (1 << 20);
    if (pages) setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes});
}

static pco_status trouble_create(const pco_host *host, pco_backend **backend, pco_error *err)
{
    (void)err;
    *backend = host->allocate(host->user, sizeof **backend, sizeof(void *));
    (*backend)->host = host;
    return PCO_OK;
}

static void trouble_destroy(pco_backend *backend) { backend->host->release(backend->host->user, backend); }

static uint32_t trouble_count(pco_backend *backend)
{
    (void)backend;
    return TROUBLE_KINDS;
}

static pco_status trouble_describe(pco_backend *backend, uint32_t index, pco_device_info *info, pco_error *err)
{
    (void)backend, (void)err;
    uint32_t size = info->size;
    memset(info, 0, size < sizeof *info ? size : sizeof *info);
    info->size = size;
    info->type = PCO_DEVICE_SOFTWARE;
    snprintf(info->name, sizeof info->name, "a device that is %s", NAMES[index]);
    snprintf(info->driver, sizeof info->driver, "trouble 1");
    snprintf(info->aliases, sizeof info->aliases, "%s", NAMES[index]);
    info->memory = info->max_allocation = info->max_binding = UINT64_C(1) << 30;
    if (index == TROUBLE_NARROW) info->max_binding = TROUBLE_BINDING;
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

static pco_status trouble_open(pco_backend *backend, uint32_t index, pco_device **device, pco_error *err)
{
    if (index == TROUBLE_OPEN) trouble_crash();
    if (index == TROUBLE_REFUSE) return trouble_fail(err, PCO_ERROR_INTERNAL, "the firmware is missing");
    if (index == TROUBLE_EMPTY) return PCO_OK;
    *device = backend->host->allocate(backend->host->user, sizeof **device, sizeof(void *));
    **device = (pco_device){.host = backend->host, .kind = (trouble_kind)index};
    if (index == TROUBLE_FULL) trouble_fill();
    return PCO_OK;
}

static void trouble_close(pco_device *device)
{
    if (device->kind == TROUBLE_CLOSE) trouble_crash();
    device->host->release(device->host->user, device);
}

static uint64_t trouble_memory_left(pco_device *device)
{
    return UINT64_C(1) << (device->kind == TROUBLE_NARROW ? 31 : 30); /* large cases leave 1 GiB alone */
}

/* ---- buffers ---- */

static pco_status trouble_buffer_create(pco_device *device, uint64_t bytes, uint32_t usage, pco_buffer **buffer,
                                        pco_error *err)
{
    (void)usage, (void)err;
    *buffer = device->host->allocate(device->host->user, sizeof **buffer, sizeof(void *));
    (*buffer)->bytes = bytes;
    (*buffer)->data = device->host->allocate(device->host->user, bytes ? bytes : 1, 64);
    return PCO_OK;
}

static void trouble_buffer_destroy(pco_device *device, pco_buffer *buffer)
{
    if (!buffer) return;
    device->host->release(device->host->user, buffer->data);
    device->host->release(device->host->user, buffer);
}

static pco_status trouble_write(pco_device *device, pco_buffer *buffer, uint64_t offset, const void *data,
                                uint64_t bytes, pco_error *err)
{
    (void)device, (void)err;
    if (bytes) memcpy(buffer->data + offset, data, bytes);
    return PCO_OK;
}

static pco_status trouble_read(pco_device *device, pco_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               pco_error *err)
{
    (void)device, (void)err;
    if (bytes) memcpy(data, buffer->data + offset, bytes);
    return PCO_OK;
}

static pco_status trouble_copy(pco_device *device, pco_buffer *from, uint64_t from_offset, pco_buffer *to,
                               uint64_t to_offset, uint64_t bytes, pco_error *err)
{
    return trouble_write(device, to, to_offset, from->data + from_offset, bytes, err);
}

static void *trouble_map(pco_device *device, pco_buffer *buffer)
{
    (void)device, (void)buffer;
    return NULL;
}

/* ---- programs ---- */

static int64_t trouble_elements(const pco_tensor *x)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < x->rank; i++) count *= x->shape[i];
    return count;
}

static pco_status trouble_supports(pco_device *device, const pco_part *part, uint32_t index, pco_error *err)
{
    const pco_node *node = &part->nodes[index];
    const pco_tensor *y = &part->tensors[node->outputs[0]];
    if (device->kind == TROUBLE_UNABLE) return trouble_fail(err, PCO_ERROR_UNSUPPORTED, "it can do nothing");
    if (node->op != PCO_OP_ADD && node->op != PCO_OP_SUB && node->op != PCO_OP_MUL && node->op != PCO_OP_NEG &&
        node->op != PCO_OP_ABS)
        return trouble_fail(err, PCO_ERROR_UNSUPPORTED, "no such op");
    if (device->kind == TROUBLE_GONE && node->op == PCO_OP_MUL && trouble_elements(y) > TROUBLE_LARGE)
        return trouble_fail(err, PCO_ERROR_DEVICE_LOST, "the device went away");
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const pco_tensor *x = &part->tensors[node->inputs[i]];
        if (x->dtype != PCO_F32 || (trouble_elements(x) != trouble_elements(y) && trouble_elements(x) != 1))
            return trouble_fail(err, PCO_ERROR_UNSUPPORTED, "f32 of equal shapes or with a scalar only");
    }
    return PCO_OK;
}

static uint32_t trouble_variants(pco_device *device, const pco_part *part, uint32_t node, pco_variant *variants,
                                 uint32_t capacity)
{
    (void)part, (void)node;
    static const char *const ALWAYS[] = {"bad", "good"}, *const NARROW[] = {"only", "wide", "bad", "good"};
    static const char *const ONLY[] = {"only"};
    const char *const *names = device->kind == TROUBLE_ALWAYS ? ALWAYS : device->kind == TROUBLE_NARROW ? NARROW : ONLY;
    const uint32_t count = device->kind == TROUBLE_ALWAYS ? 2 : device->kind == TROUBLE_NARROW ? 4 : 1;
    if (device->kind == TROUBLE_MUTE) return 0;
    for (uint32_t i = 0; i < count && i < capacity; i++) variants[i] = (pco_variant){.name = names[i]};
    return count;
}

static pco_status trouble_propose(pco_device *device, const pco_part *part, pco_proposal *proposal, pco_error *err)
{
    (void)device, (void)part, (void)proposal, (void)err;
    return PCO_OK;
}

static int64_t trouble_step(const pco_part *part, const pco_node *node, uint32_t i)
{
    return i < node->n_inputs && trouble_elements(&part->tensors[node->inputs[i]]) > 1;
}

static float *trouble_address(const pco_plan *plan, uint32_t t)
{
    if (t == PCO_NONE || plan->tensors[t].buffer == PCO_NONE) return NULL;
    return (float *)(void *)(plan->buffers[plan->tensors[t].buffer]->data + plan->tensors[t].offset);
}

static trouble_node trouble_prepare_node(pco_device *device, const pco_part *part, const pco_node *node,
                                         const pco_plan *plan)
{
    trouble_node made = {.op = node->op,
                         .variant = node->variant,
                         .a = trouble_address(plan, node->inputs[0]),
                         .b = node->n_inputs > 1 ? trouble_address(plan, node->inputs[1]) : NULL,
                         .y = trouble_address(plan, node->outputs[0]),
                         .a_step = trouble_step(part, node, 0),
                         .b_step = trouble_step(part, node, 1),
                         .count = trouble_elements(&part->tensors[node->outputs[0]])};
    made.large = node->op == PCO_OP_MUL && made.count > TROUBLE_LARGE;
    device->products += (uint32_t)made.large;
    if (device->kind == TROUBLE_UNREADY && made.large) trouble_crash();
    made.wrong =
        made.large && (device->kind == TROUBLE_WRONG || (device->kind == TROUBLE_FLAKY && device->products == 1));
    return made;
}

static pco_status trouble_prepare(pco_device *device, const pco_part *part, const pco_proposal *proposal,
                                  const pco_plan *plan, pco_program **program, pco_error *err)
{
    (void)proposal, (void)err;
    if (device->kind == TROUBLE_TELLS) fprintf(stderr, "trouble: prepared\n");
    *program = device->host->allocate(device->host->user, sizeof **program + part->n_nodes * sizeof(trouble_node),
                                      sizeof(void *));
    (*program)->count = part->n_nodes;
    for (uint32_t i = 0; i < part->n_nodes; i++)
        (*program)->nodes[i] = trouble_prepare_node(device, part, &part->nodes[i], plan);
    return PCO_OK;
}

static void trouble_program_destroy(pco_device *device, pco_program *program)
{
    if (program) device->host->release(device->host->user, program);
}

static uint32_t trouble_segments(const pco_program *program)
{
    for (uint32_t i = 0; i < program->count; i++)
        if (program->nodes[i].count) return 1;
    return 0;
}

/* ---- running ---- */

static pco_status trouble_make(pco_device *device, const trouble_node *node, pco_error *err)
{
    switch (device->kind) {
    case TROUBLE_CRASH:
        fprintf(stderr, "trouble: register r7 is on fire\n");
        trouble_crash();
        break;
    case TROUBLE_ALWAYS:
        if (node->variant == 0) trouble_crash();
        break;
    case TROUBLE_HANG:
        for (;;) pause();
    case TROUBLE_LOST: return trouble_fail(err, PCO_ERROR_DEVICE_LOST, "the device fell off the bus");
    case TROUBLE_RESET: device->was_reset = 1; break;
    case TROUBLE_STOP: _exit(3);
    case TROUBLE_MEMORY: return trouble_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    default: break;
    }
    return PCO_OK;
}

static void trouble_compute(const pco_device *device, const trouble_node *p)
{
    for (int64_t i = 0; i < p->count; i++) {
        float a = p->a[i * p->a_step], b = p->b ? p->b[i * p->b_step] : 0;
        float y = p->op == PCO_OP_ADD   ? a + b
                  : p->op == PCO_OP_SUB ? a - b
                  : p->op == PCO_OP_MUL ? a * b
                  : p->op == PCO_OP_NEG ? -a
                                        : fabsf(a);
        p->y[i] = device->was_reset ? 0.0f : y;
    }
    if (p->wrong && p->count) p->y[p->count - 1] += 1000;
    if (device->kind == TROUBLE_NARROW && p->count > TROUBLE_BINDING / 4) {
        if (p->variant == 1) p->y[p->count] = 1;
        if (p->variant == 2) trouble_crash();
    }
}

static pco_status trouble_submit(pco_device *device, pco_program *program, uint32_t first, uint32_t count,
                                 uint64_t *ticket, pco_error *err)
{
    (void)first, (void)count;
    *ticket = 0;
    pco_status status = PCO_OK;
    if (device->kind == TROUBLE_NOISE) printf("{\"kind\": \"done\"}\n%.20000d\n", 1), fflush(stdout);
    for (uint32_t i = 0; !status && i < program->count; i++) {
        const trouble_node *node = &program->nodes[i];
        if (node->large || (device->kind == TROUBLE_ALWAYS && node->op == PCO_OP_MUL))
            status = trouble_make(device, node, err);
        if (!status) trouble_compute(device, node);
    }
    return status;
}

static pco_status trouble_wait(pco_device *device, uint64_t ticket, uint64_t nanoseconds, pco_error *err)
{
    (void)device, (void)ticket, (void)nanoseconds, (void)err;
    return PCO_OK;
}

static const pco_device_api DEVICE = {
    .size = sizeof DEVICE, .close = trouble_close, .memory_left = trouble_memory_left};
static const pco_buffer_api BUFFER = {.size = sizeof BUFFER,
                                      .create = trouble_buffer_create,
                                      .destroy = trouble_buffer_destroy,
                                      .write = trouble_write,
                                      .read = trouble_read,
                                      .copy = trouble_copy,
                                      .map = trouble_map};
static const pco_program_api PROGRAM = {.size = sizeof PROGRAM,
                                        .supports = trouble_supports,
                                        .variants = trouble_variants,
                                        .propose = trouble_propose,
                                        .prepare = trouble_prepare,
                                        .destroy = trouble_program_destroy,
                                        .segments = trouble_segments};
static const pco_queue_api QUEUE = {.size = sizeof QUEUE, .submit = trouble_submit, .wait = trouble_wait};
static const pco_plugin TABLE = {.size = sizeof TABLE,
                                 .abi_version = PCO_ABI_VERSION,
                                 .name = "trouble",
                                 .version = "1",
                                 .description = "makes trouble",
                                 .create = trouble_create,
                                 .destroy = trouble_destroy,
                                 .device_count = trouble_count,
                                 .describe = trouble_describe,
                                 .open = trouble_open,
                                 .device = &DEVICE,
                                 .buffer = &BUFFER,
                                 .program = &PROGRAM,
                                 .queue = &QUEUE};
const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    (void)host_abi_version;
    return &TABLE;
}
