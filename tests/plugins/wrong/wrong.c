/* A device with one defect: the cpu plugin, but in softmax, layer_norm and rms_norm the eighth element of the
 * first row, where there is one, is a thousandth off. With TOGETHER, instead, that of the results of programs
 * with more than one node, so that each op alone is right. With DIES and STUCK the process dies there, or does not
 * come back; with UNREADY it dies when such a program is prepared. With ASKEW it computes so and proposes an
 * alignment that is none. With CHOOSY it is right, and refuses to prepare what lies behind the first page of a buffer.
 * For tests of what finds and reduces it. */
#include "portico/plugin.h"

#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WRONG_ELEMENT = 7, WRONG_MOST = 4096 };

/* Ours around the cpu plugin's. Devices and buffers are the cpu plugin's own. */
struct pco_program {
    struct pco_program *inner;
    uint32_t count;
    struct {
        pco_buffer *buffer;
        uint64_t offset;
    } places[WRONG_MOST];
};

static pco_plugin wrong_plugin;
static pco_program_api wrong_programs;
static pco_queue_api wrong_queue;
static const pco_plugin *wrong_cpu;

#if defined DIES || defined UNREADY
/* As a driver does it, also where a sanitizer would catch it. */
static void wrong_die(void)
{
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}
#endif

static int wrong_is(const pco_part *part, const pco_node *node)
{
#if defined CHOOSY
    (void)part, (void)node;
    return 0;
#elif defined TOGETHER
    return part->n_nodes > 1 && part->tensors[node->outputs[0]].kind == PCO_KIND_OUTPUT;
#else
    (void)part;
    return node->op == PCO_OP_SOFTMAX || node->op == PCO_OP_LAYER_NORM || node->op == PCO_OP_RMS_NORM;
#endif
}

static pco_status wrong_prepare(pco_device *device, const pco_part *part, const pco_proposal *proposal,
                                const pco_plan *plan, pco_program **out, pco_error *err)
{
#ifdef CHOOSY
    for (uint32_t t = 0; t < part->n_tensors; t++)
        if (plan->tensors[t].buffer != PCO_NONE && plan->tensors[t].offset >= 4096) {
            memcpy(err->message, "too far behind", sizeof "too far behind");
            return PCO_ERROR_UNSUPPORTED;
        }
#endif
    pco_program *program = calloc(1, sizeof *program);
    if (!program) return PCO_ERROR_OUT_OF_HOST_MEMORY;
    pco_status status = wrong_cpu->program->prepare(device, part, proposal, plan, &program->inner, err);
    for (uint32_t i = 0; !status && i < part->n_nodes && program->count < WRONG_MOST; i++) {
        const pco_node *node = &part->nodes[i];
        const pco_tensor *y = &part->tensors[node->outputs[0]];
        const pco_place *place = &plan->tensors[node->outputs[0]];
        if (!wrong_is(part, node)) continue;
        if (y->dtype != PCO_F32 || y->rank == 0 || y->shape[y->rank - 1] <= WRONG_ELEMENT) continue;
        if (y->bytes == 0 || place->buffer == PCO_NONE) continue;
#ifdef UNREADY
        wrong_die();
#endif
        program->places[program->count].buffer = plan->buffers[place->buffer];
        program->places[program->count++].offset = place->offset + 4 * WRONG_ELEMENT;
    }
    if (status) free(program);
    *out = status ? NULL : program;
    return status;
}

static void wrong_destroy(pco_device *device, pco_program *program)
{
    if (!program) return;
    wrong_cpu->program->destroy(device, program->inner);
    free(program);
}

#ifdef ASKEW
static pco_status askew_propose(pco_device *device, const pco_part *part, pco_proposal *proposal, pco_error *err)
{
    pco_status status = wrong_cpu->program->propose(device, part, proposal, err);
    if (!status) proposal->tensors[part->n_tensors - 1].alignment = 3;
    return status;
}
#endif

static uint32_t wrong_segments(const pco_program *program) { return wrong_cpu->program->segments(program->inner); }

static pco_status wrong_submit(pco_device *device, pco_program *program, uint32_t first, uint32_t count,
                               uint64_t *ticket, pco_error *err)
{
    pco_status status = wrong_cpu->queue->submit(device, program->inner, first, count, ticket, err);
    if (!status) status = wrong_cpu->queue->wait(device, *ticket, UINT64_MAX, err);
#ifdef DIES
    if (program->count) wrong_die();
#endif
#ifdef STUCK
    while (program->count) pause();
#endif
    for (uint32_t i = 0; !status && i < program->count; i++) {
        float value;
        pco_buffer *buffer = program->places[i].buffer;
        status = wrong_cpu->buffer->read(device, buffer, program->places[i].offset, &value, sizeof value, err);
        value += 1e-3f * (1.0f + fabsf(value));
        if (!status)
            status = wrong_cpu->buffer->write(device, buffer, program->places[i].offset, &value, sizeof value, err);
    }
    return status;
}

const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    void *library = dlopen(CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "pco_plugin_query") : NULL;
    pco_plugin_query_fn query;
    memcpy(&query, &symbol, sizeof query);
    wrong_cpu = query ? query(host_abi_version) : NULL;
    if (!wrong_cpu) return NULL;
    wrong_plugin = *wrong_cpu;
    wrong_programs = *wrong_cpu->program;
    wrong_queue = *wrong_cpu->queue;
    wrong_plugin.name = WRONG_NAME;
    wrong_plugin.description = "the cpu plugin with a defect, for tests";
    wrong_plugin.program = &wrong_programs;
    wrong_plugin.queue = &wrong_queue;
#ifdef ASKEW
    wrong_programs.propose = askew_propose;
#endif
    wrong_programs.prepare = wrong_prepare;
    wrong_programs.destroy = wrong_destroy;
    wrong_programs.segments = wrong_segments;
    wrong_programs.timings = NULL;
    wrong_programs.segments_until = NULL;
    wrong_queue.submit = wrong_submit;
    return &wrong_plugin;
}
