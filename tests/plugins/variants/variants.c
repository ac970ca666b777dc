/* The cpu plugin under another name, so that its kernels are self-tested, with a defect in matmul:
 *
 *   sound  none
 *   tile   in every variant but the last the last element of the result is off by 100
 *   every  in every variant
 *   lost   every variant but the last loses the device, which stays lost until it is closed
 *   fatal  every variant ends the process while VARIANTS_FATAL is set, and takes VARIANTS_SLOW seconds longer
 *   cut    as tile, but only where the result is beyond a limit of 8 KiB, or the part's window, and would be cut
 *   scarce in every variant, but that the first run finds no host memory
 *   bare   none, and nothing but matmul, reshape and slice is supported
 *
 * Devices, buffers and what is not said here are the cpu plugin's own. */
#include "portico/plugin.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VARIANTS_MOST = 4096 };

struct pco_program {
    struct pco_program *inner;
    int loses;
    uint32_t count;
    struct {
        uint32_t node;
        pco_buffer *buffer;
        uint64_t offset;
    } places[VARIANTS_MOST];
};

static pco_plugin variants_plugin;
static pco_program_api variants_programs;
static pco_queue_api variants_queue;
static pco_device_api variants_devices;
static const pco_plugin *variants_cpu;
static pco_device *variants_lost; /* the device that is lost now */

#if defined(DEFECT_CUT)
static int variants_is_cut(const pco_part *part, uint32_t i)
{
    const uint64_t limit = part->window && part->window < 8192 ? part->window : 8192;
    return part->tensors[part->nodes[i].outputs[0]].bytes + 64 > limit;
}

static uint32_t variants_pipelines(pco_device *device, const pco_part *part, uint32_t node, uint64_t *pipelines,
                                   uint32_t capacity)
{
    const uint32_t count = 1 + (uint32_t)variants_is_cut(part, node);
    (void)device;
    for (uint32_t i = 0; i < count && i < capacity; i++) pipelines[i] = i;
    return count;
}
#endif

/* Has this node, as proposed, the defect? */
static int variants_is_wrong(pco_device *device, const pco_part *part, uint32_t i, const pco_proposal *proposal)
{
    if (part->nodes[i].op != PCO_OP_MATMUL) return 0;
#if defined(DEFECT_SOUND) || defined(DEFECT_BARE)
    (void)device, (void)proposal;
    return 0;
#elif defined(DEFECT_FATAL)
    (void)device, (void)proposal;
    if (getenv("VARIANTS_FATAL")) raise(SIGKILL);
    const char *slow = getenv("VARIANTS_SLOW");
    if (slow) usleep((useconds_t)(atof(slow) * 1e6));
    return 0;
#elif defined(DEFECT_EVERY) || defined(DEFECT_SCARCE)
    (void)device, (void)proposal;
    return 1;
#else
    pco_variant all[16];
#if defined(DEFECT_CUT)
    if (!variants_is_cut(part, i)) return 0;
#endif
    return proposal->nodes[i].variant + 1 < variants_cpu->program->variants(device, part, i, all, 16);
#endif
}

static pco_status variants_prepare(pco_device *device, const pco_part *part, const pco_proposal *proposal,
                                   const pco_plan *plan, pco_program **out, pco_error *err)
{
    pco_program *program = calloc(1, sizeof *program);
    if (!program) return PCO_ERROR_OUT_OF_HOST_MEMORY;
    pco_status status = variants_cpu->program->prepare(device, part, proposal, plan, &program->inner, err);
    for (uint32_t i = 0; !status && i < part->n_nodes && program->count < VARIANTS_MOST; i++) {
        const pco_tensor *y = &part->tensors[part->nodes[i].outputs[0]];
        const pco_place *place = &plan->tensors[part->nodes[i].outputs[0]];
        if (!variants_is_wrong(device, part, i, proposal)) continue;
#if defined(DEFECT_LOST)
        program->loses = 1;
#endif
        if (y->dtype != PCO_F32 || y->bytes == 0 || place->buffer == PCO_NONE) continue;
        program->places[program->count].node = i;
        program->places[program->count].buffer = plan->buffers[place->buffer];
        program->places[program->count++].offset = place->offset + y->bytes - 4;
    }
    if (status) free(program);
    *out = status ? NULL : program;
    return status;
}

#if defined(DEFECT_BARE)
static pco_status variants_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *err)
{
    const uint32_t op = part->nodes[node].op;
    if (op == PCO_OP_MATMUL || op == PCO_OP_RESHAPE || op == PCO_OP_SLICE)
        return variants_cpu->program->supports(device, part, node, err);
    snprintf(err->message, sizeof err->message, "only matmul, reshape and slice are here");
    return PCO_ERROR_UNSUPPORTED;
}
#endif

static void variants_destroy(pco_device *device, pco_program *program)
{
    if (!program) return;
    variants_cpu->program->destroy(device, program->inner);
    free(program);
}

static uint32_t variants_segments(const pco_program *program)
{
    (void)program;
    return 1;
}

static pco_status variants_spoil(pco_device *device, const pco_program *program, uint32_t node, pco_error *err)
{
    pco_status status = PCO_OK;
    for (uint32_t i = 0; !status && i < program->count; i++) {
        float value;
        pco_buffer *buffer = program->places[i].buffer;
        if (program->places[i].node != node) continue;
        status = variants_cpu->buffer->read(device, buffer, program->places[i].offset, &value, sizeof value, err);
        value += 100;
        if (!status)
            status = variants_cpu->buffer->write(device, buffer, program->places[i].offset, &value, sizeof value, err);
    }
    return status;
}

/* Node by node (each is a segment of the cpu plugin), so that what follows reads the wrong element. */
static pco_status variants_submit(pco_device *device, pco_program *program, uint32_t first, uint32_t count,
                                  uint64_t *ticket, pco_error *err)
{
    (void)first, (void)count;
    if (program->loses) variants_lost = device;
    if (variants_lost == device) {
        snprintf(err->message, sizeof err->message, "the device is gone");
        return PCO_ERROR_DEVICE_LOST;
    }
#if defined(DEFECT_SCARCE)
    static int runs;
    if (program->count && runs++ == 0) {
        snprintf(err->message, sizeof err->message, "no memory this time");
        return PCO_ERROR_OUT_OF_HOST_MEMORY;
    }
#endif
    pco_status status = PCO_OK;
    for (uint32_t i = 0; !status && i < variants_cpu->program->segments(program->inner); i++) {
        status = variants_cpu->queue->submit(device, program->inner, i, 1, ticket, err);
        if (!status) status = variants_cpu->queue->wait(device, *ticket, UINT64_MAX, err);
        if (!status) status = variants_spoil(device, program, i, err);
    }
    return status;
}

static void variants_close(pco_device *device)
{
    if (variants_lost == device) variants_lost = NULL;
    variants_cpu->device->close(device);
}

const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    void *library = dlopen(CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "pco_plugin_query") : NULL;
    pco_plugin_query_fn query;
    memcpy(&query, &symbol, sizeof query);
    variants_cpu = query ? query(host_abi_version) : NULL;
    if (!variants_cpu) return NULL;
    variants_plugin = *variants_cpu;
    variants_programs = *variants_cpu->program;
    variants_queue = *variants_cpu->queue;
    variants_devices = *variants_cpu->device;
    variants_plugin.name = VARIANTS_NAME;
    variants_plugin.description = "the cpu plugin with a defect, for tests";
    variants_plugin.program = &variants_programs;
    variants_plugin.queue = &variants_queue;
    variants_plugin.device = &variants_devices;
    variants_programs.prepare = variants_prepare;
    variants_programs.destroy = variants_destroy;
    variants_programs.segments = variants_segments;
    variants_programs.timings = NULL;
    variants_programs.segments_until = NULL;
#if defined(DEFECT_BARE)
    variants_programs.supports = variants_supports;
#endif
#if defined(DEFECT_CUT)
    variants_programs.pipelines = variants_pipelines;
#endif
    variants_queue.submit = variants_submit;
    variants_devices.close = variants_close;
    return &variants_plugin;
}
