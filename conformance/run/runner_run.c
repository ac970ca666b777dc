/* One problem on one device in one variant: proposal, memory, program, and the same bits every time. */
#include "run/constants.h"
#include "run/runner.h"

#include "base/error.h"
#include "runtime/plugin_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t WAIT_NANOSECONDS = 300ull * 1000000000ull; /* interpreters are slow */

conf_run_state conf_run_start(const pco_conformance_device *device, conf_problem *problem)
{
    return (conf_run_state){.device = device,
                            .problem = problem,
                            .overlay = {PCO_NONE, PCO_NONE},
                            .part = {.size = sizeof(pco_part),
                                     .n_tensors = problem->n_tensors,
                                     .n_nodes = 1,
                                     .tensors = problem->tensors,
                                     .nodes = &problem->node}};
}

static pco_open_device conf_run_device(const conf_run_state *run)
{
    return (pco_open_device){run->device->plugin, run->device->device, run->device->info};
}

pco_status conf_run_variants(const conf_run_state *run, pco_variant variants[PCO_VARIANTS], uint32_t *count,
                             pco_error *err)
{
    const pco_open_device on = conf_run_device(run);
    return pco_variants(&on, &run->part, 0, variants, count, err);
}

void conf_run_force(conf_run_state *run, const pco_variant *variants, uint32_t index)
{
    const pco_open_device on = conf_run_device(run);
    run->variant = variants[index];
    run->problem->node.variant = pco_variant_forced(&on, index);
}

/* What lies behind a constant that the plugin converts. */
static const uint8_t BEHIND[8] = {0xe5, 0x7f, 0xe5, 0x7f, 0xe5, 0x7f, 0xe5, 0x7f};

pco_status conf_run_propose(conf_run_state *run, pco_error *err)
{
    const pco_conformance_device *device = run->device;
    conf_problem *problem = run->problem;
    run->node_proposal = (pco_node_proposal){.variant = PCO_NONE, .fused_into = PCO_NONE};
    for (uint32_t t = 0; t < problem->n_tensors; t++)
        run->tensor_proposals[t] =
            (pco_tensor_proposal){0, device->info->buffer_alignment, problem->tensors[t].bytes};
    run->proposal = (pco_proposal){
        .size = sizeof run->proposal, .nodes = &run->node_proposal, .tensors = run->tensor_proposals};
    pco_status status = device->plugin->program->propose(device->device, &run->part, &run->proposal, err);
    if (status) return pco_fail_prefix(err, status, "propose");
    status = pco_proposal_check(device->plugin, &run->part, &run->proposal, err);
    for (uint32_t t = 0; !status && t < problem->n_tensors; t++) {
        const pco_tensor_proposal *p = &run->tensor_proposals[t];
        const pco_tensor *tensor = &problem->tensors[t];
        if (p->layout == 0) continue;
        uint8_t *room = run->converted[t] = calloc(1, p->bytes + sizeof BEHIND);
        if (!room) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
        memcpy(room + p->bytes, BEHIND, sizeof BEHIND);
        status = device->plugin->program->convert(device->device, tensor, p->layout, tensor->data,
                                                  run->converted[t], p->bytes, err);
        if (status) return pco_fail_prefix(err, status, "convert '%s'", tensor->name);
        if (memcmp(room + p->bytes, BEHIND, sizeof BEHIND) != 0)
            return pco_fail(err, PCO_ERROR_INTERNAL, "convert '%s' writes behind the %" PRIu64 " bytes that were proposed",
                            tensor->name, p->bytes);
    }
    return status;
}

/* Regions for all tensors and the workspace; output 0 in the memory of input tensor `in_place`, if any. */
static void conf_run_describe(const conf_run_state *run, uint32_t in_place, conf_run_memory *memory)
{
    const conf_problem *problem = run->problem;
    memset(memory, 0, sizeof *memory);
    memory->device = run->device;
    memory->n_regions = problem->n_tensors + 1;
    memory->single = problem->one->id % 2 == 0;
    memory->odd = problem->one->id >> 1;
    memory->placement = run->placement;
    if (run->placement && run->placement->regrouped) memory->single = !memory->single;
    if (run->placement && run->placement->last) memory->single = false;
    for (uint32_t t = 0; t < problem->n_tensors; t++) {
        const pco_tensor *tensor = &problem->tensors[t];
        conf_run_region *region = &memory->regions[t];
        const pco_tensor_proposal *p = &run->tensor_proposals[t];
        *region = (conf_run_region){
            .shares = tensor->alias, .bytes = (p->bytes + 3) / 4 * 4, .data_bytes = p->bytes};
        if (tensor->bytes == 0) region->bytes = 0;
        region->written = tensor->kind == PCO_KIND_OUTPUT || tensor->kind == PCO_KIND_STATE;
        memory->alignment[t] = p->alignment;
        if (run->converted[t]) region->data = run->converted[t];
    }
    for (uint32_t i = 0; i < problem->node.n_inputs; i++) {
        uint32_t t = problem->node.inputs[i];
        if (t == PCO_NONE || run->converted[t] || !problem->data[i]) continue;
        memory->regions[t].data = problem->data[i];
        memory->regions[t].data_bytes = problem->tensors[t].bytes;
    }
    uint32_t over = run->overlay[0], under = run->overlay[1], y = problem->node.outputs[0];
    if (over != PCO_NONE && memory->regions[over].bytes == memory->regions[under].bytes &&
        !run->converted[over] && !run->converted[under])
        memory->regions[over].shares = under;
    if (in_place != PCO_NONE && memory->regions[in_place].bytes && memory->regions[y].bytes) {
        if (memory->regions[y].bytes > memory->regions[in_place].bytes)
            memory->regions[in_place].bytes = memory->regions[y].bytes;
        memory->regions[y].shares = in_place;
        memory->regions[in_place].written = true;
    }
    memory->regions[problem->n_tensors] = (conf_run_region){
        .shares = PCO_NONE, .written = true, .bytes = (run->node_proposal.workspace + 3) / 4 * 4};
    memory->alignment[problem->n_tensors] = run->device->info->buffer_alignment;
}

static pco_status conf_run_prepare(conf_run_state *run, conf_run_memory *memory, pco_program **program,
                                   pco_error *err)
{
    pco_place places[CONF_MAX_TENSORS + 1];
    for (uint32_t r = 0; r < memory->n_regions; r++) {
        const conf_run_region *region = &memory->regions[r];
        places[r] = (pco_place){region->bytes ? region->buffer : PCO_NONE, 0, region->offset, region->bytes};
        /* an output in the memory of a larger input still has only its own room */
        if (r < run->problem->n_tensors && region->shares != PCO_NONE && region->bytes)
            places[r].bytes = (run->tensor_proposals[r].bytes + 3) / 4 * 4;
    }
    pco_plan plan = {.size = sizeof plan,
                     .n_buffers = memory->n_buffers,
                     .buffers = memory->buffers,
                     .tensors = places,
                     .workspaces = &places[run->problem->n_tensors]};
    pco_status status = run->device->plugin->program->prepare(run->device->device, &run->part, &run->proposal,
                                                              &plan, program, err);
    if (status) return pco_fail_prefix(err, status, "prepare");
    status = conf_program_look(run->device, &run->part, *program, &memory->until, err);
    if (status) return status;
    return run->constants ? conf_constants_look(run->constants, run->device, *program, err) : PCO_OK;
}

pco_status conf_run_fill(conf_run_memory *memory, int i, pco_error *err)
{
    memory->no_more = i == 2;
    if (i == 0) return conf_run_memory_reset(memory, err);
    pco_status status = conf_run_memory_states(memory, err);
    return !status && i == 2 ? conf_run_memory_zero(memory, err) : status;
}

pco_status conf_run_execute(const pco_conformance_device *device, pco_program *program, conf_run_memory *memory,
                            const pco_tensor *tensors, pco_error *err)
{
    const pco_plugin *plugin = device->plugin;
    uint64_t ticket = 0;
    uint32_t segments = memory->no_more ? memory->until : plugin->program->segments(program);
    if (segments > 0) {
        pco_status status = plugin->queue->submit(device->device, program, 0, segments, &ticket, err);
        if (status) return pco_fail_prefix(err, status, "submit");
        status = plugin->queue->wait(device->device, ticket, WAIT_NANOSECONDS, err);
        if (status) return pco_fail_prefix(err, status, "wait");
    }
    return conf_run_memory_check(memory, tensors, err);
}

pco_status conf_session_execute(conf_session *session, pco_error *err)
{
    const conf_run_state *run = session->run;
    pco_status status =
        conf_run_execute(run->device, session->program, &session->memory, run->problem->tensors, err);
    return run->bare && status == PCO_ERROR_INTERNAL ? PCO_OK : status;
}

pco_status conf_session_compare(conf_session *session, const char *what, pco_error *err)
{
    conf_run_state *run = session->run;
    for (uint32_t i = 0; i < run->problem->node.n_outputs; i++) {
        uint32_t t = run->problem->node.outputs[i];
        uint64_t bytes = run->problem->tensors[t].bytes;
        if (bytes == 0) continue;
        const uint8_t *result = conf_run_memory_result(&session->memory, t), *first = run->first[i];
        if (!first) {
            run->first[i] = malloc(bytes);
            if (!run->first[i]) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
            memcpy(run->first[i], result, bytes);
            continue;
        }
        for (uint64_t at = 0; at < bytes; at++)
            if (result[at] != first[at])
                return pco_fail(err, PCO_ERROR_INTERNAL,
                                "%s differs from the first run at byte %" PRIu64 " of '%s'", what, at,
                                run->problem->tensors[t].name);
    }
    return PCO_OK;
}

static void conf_run_show(const conf_run_state *run, const conf_run_memory *memory, pco_program *program,
                          bool ran, pco_status status, const pco_error *err)
{
    const conf_execution execution = {run->device,  run->problem, memory, program,
                                      run->variant_text, ran,     status, status ? err->message : "",
                                      NULL};
    if (run->observer) run->observer->observe(run->observer->user, &execution);
}

pco_status conf_session_open(conf_session *session, conf_run_state *run, uint32_t in_place, pco_error *err)
{
    *session = (conf_session){.run = run};
    conf_run_describe(run, in_place, &session->memory);
    pco_status status = conf_run_memory_create(&session->memory, err);
    return status ? status : conf_run_prepare(run, &session->memory, &session->program, err);
}

void conf_session_close(conf_session *session)
{
    const pco_conformance_device *device = session->run->device;
    if (session->program) device->plugin->program->destroy(device->device, session->program);
    session->program = NULL;
    conf_run_memory_destroy(&session->memory);
}

pco_status conf_run_times(conf_run_state *run, uint32_t in_place, int times, const char *what, pco_error *err)
{
    static const char *const FOUND[] = {"the first run",
                                        "the second run, over memory that holds the first one's results,",
                                        "the third run, over zeroed memory,"};
    conf_session session;
    pco_status status = conf_session_open(&session, run, in_place, err);
    if (!status && run->observer && run->observer->prepare_only) {
        conf_run_show(run, &session.memory, session.program, false, PCO_OK, err);
        status = pco_fail(err, PCO_ERROR_CANCELLED, "not run");
    }
    for (int i = 0; i < times && !status; i++) {
        char name[64];
        snprintf(name, sizeof name, "run %d of %d", i + 1, times);
        status = conf_run_fill(&session.memory, i, err);
        if (!status) status = conf_session_execute(&session, err);
        if (!status) status = conf_session_compare(&session, what ? what : i < 3 ? FOUND[i] : name, err);
        conf_run_show(run, &session.memory, session.program, true, status, err);
    }
    conf_session_close(&session);
    return status;
}

void conf_run_clear(conf_run_state *run)
{
    for (uint32_t t = 0; t < CONF_MAX_TENSORS; t++) free(run->converted[t]), run->converted[t] = NULL;
    for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) free(run->first[i]), run->first[i] = NULL;
}
