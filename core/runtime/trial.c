/* What a trial says to the plugin: questions, the program, and running it. */
#include "runtime/trial.h"

#include "base/error.h"
#include "runtime/plugin_check.h"
#include "runtime/trial_step.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

pco_trial pco_trial_of(const pco_open_device *on, const pco_part *part)
{
    return (pco_trial){.on = *on, .part = *part};
}

void pco_trial_clear(pco_trial *trial)
{
    for (uint32_t t = 0; t < PCO_TRIAL_TENSORS; t++) free(trial->converted[t]), trial->converted[t] = NULL;
}

pco_status pco_trial_supports(const pco_trial *trial, pco_error *err)
{
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < trial->part.n_nodes && !status; i++)
        status = trial->on.plugin->program->supports(trial->on.device, &trial->part, i, err);
    return status;
}

pco_status pco_trial_variants(const pco_trial *trial, pco_variant variants[PCO_VARIANTS], uint32_t *count,
                              pco_error *err)
{
    return pco_variants(&trial->on, &trial->part, 0, variants, count, err);
}

uint32_t pco_trial_pipelines(const pco_trial *trial, uint64_t *pipelines, uint32_t capacity)
{
    const pco_program_api *api = trial->on.plugin->program;
    if (!api->pipelines) return 0;
    const uint32_t count = api->pipelines(trial->on.device, &trial->part, 0, pipelines, capacity);
    return count < capacity ? count : capacity;
}

/* ---- the proposal ---- */

static pco_proposal trial_proposal(const pco_trial *trial)
{
    return (pco_proposal){.size = sizeof(pco_proposal),
                          .nodes = (pco_node_proposal *)(uintptr_t)trial->nodes,
                          .tensors = (pco_tensor_proposal *)(uintptr_t)trial->tensors};
}

pco_status pco_trial_propose(pco_trial *trial, pco_error *err)
{
    const pco_part *part = &trial->part;
    for (uint32_t i = 0; i < part->n_nodes; i++) trial->nodes[i] = (pco_node_proposal){.variant = PCO_NONE};
    for (uint32_t t = 0; t < part->n_tensors; t++)
        trial->tensors[t] =
            (pco_tensor_proposal){.alignment = trial->on.info->buffer_alignment, .bytes = part->tensors[t].bytes};
    pco_proposal proposal = trial_proposal(trial);
    pco_status status = trial->on.plugin->program->propose(trial->on.device, part, &proposal, err);
    if (status) return TRIAL_STEP(trial, err, status, "propose");
    return pco_proposal_check(trial->on.plugin, part, &proposal, err);
}

/* What lies behind the room for a converted constant. */
static const uint8_t BEHIND[8] = {0xe5, 0x7f, 0xe5, 0x7f, 0xe5, 0x7f, 0xe5, 0x7f};

static pco_status trial_convert_one(pco_trial *trial, uint32_t t, pco_error *err)
{
    const pco_tensor *tensor = &trial->part.tensors[t];
    const pco_tensor_proposal *p = &trial->tensors[t];
    uint8_t *room = calloc(1, p->bytes + sizeof BEHIND);
    free(trial->converted[t]);
    trial->converted[t] = room;
    if (!room) return trial_no_memory(err);
    memcpy(room + p->bytes, BEHIND, sizeof BEHIND);
    pco_status status =
        trial->on.plugin->program->convert(trial->on.device, tensor, p->layout, tensor->data, room, p->bytes, err);
    if (status) return TRIAL_STEP(trial, err, status, "convert '%s'", tensor->name);
    if (memcmp(room + p->bytes, BEHIND, sizeof BEHIND) != 0)
        return pco_fail(err, PCO_ERROR_INTERNAL, "convert '%s' writes behind the %" PRIu64 " bytes that were proposed",
                        tensor->name, p->bytes);
    return PCO_OK;
}

pco_status pco_trial_convert(pco_trial *trial, pco_error *err)
{
    pco_status status = PCO_OK;
    for (uint32_t t = 0; t < trial->part.n_tensors && !status; t++)
        if (trial->tensors[t].layout) status = trial_convert_one(trial, t, err);
    return status;
}

uint32_t pco_trial_giver(const pco_trial *trial)
{
    const pco_tensor *tensors = trial->part.tensors;
    const pco_node *node = trial->part.nodes;
    const uint32_t in_place = trial->nodes[0].in_place, out = node->outputs[0];
    if (tensors[out].alias != PCO_NONE) return PCO_NONE;
    for (uint32_t k = 0; k < node->n_inputs; k++) {
        const uint32_t t = node->inputs[k];
        if (!(in_place >> k & 1) || t == PCO_NONE || tensors[t].kind != PCO_KIND_INPUT ||
            tensors[t].bytes < tensors[out].bytes)
            continue;
        uint32_t uses = 0;
        for (uint32_t other = 0; other < node->n_inputs; other++)
            uses += node->inputs[other] == t && !(in_place >> other & 1);
        if (uses == 0) return t;
    }
    return PCO_NONE;
}

/* ---- the program ---- */

pco_status pco_trial_prepare_plan(const pco_trial *trial, const pco_plan *plan, pco_program **program, pco_error *err)
{
    const pco_proposal proposal = trial_proposal(trial);
    pco_status status =
        trial->on.plugin->program->prepare(trial->on.device, &trial->part, &proposal, plan, program, err);
    return status ? TRIAL_STEP(trial, err, status, "prepare") : PCO_OK;
}

pco_status pco_trial_prepare(const pco_trial *trial, const pco_trial_memory *memory, pco_program **program,
                             pco_error *err)
{
    pco_place places[PCO_TRIAL_REGIONS];
    for (uint32_t r = 0; r < memory->n_regions; r++) {
        const pco_trial_region *region = &memory->regions[r];
        places[r] = (pco_place){region->bytes ? region->buffer : PCO_NONE, region->offset, region->bytes};
        /* what shares memory with something larger still has only its own room */
        if (r < trial->part.n_tensors && region->bytes) places[r].bytes = trial_room(trial->tensors[r].bytes);
    }
    const pco_plan plan = {.size = sizeof plan,
                           .n_buffers = memory->n_buffers,
                           .buffers = memory->buffers,
                           .tensors = places,
                           .workspaces = &places[trial->part.n_tensors]};
    return pco_trial_prepare_plan(trial, &plan, program, err);
}

pco_status pco_trial_run(const pco_trial *trial, pco_program *program, uint32_t segments, uint64_t nanoseconds,
                         pco_error *err)
{
    const pco_queue_api *queue = trial->on.plugin->queue;
    uint64_t ticket = 0;
    if (segments == 0) return PCO_OK;
    pco_status status = queue->submit(trial->on.device, program, 0, segments, &ticket, err);
    if (status) return TRIAL_STEP(trial, err, status, "submit");
    status = queue->wait(trial->on.device, ticket, nanoseconds, err);
    return status ? TRIAL_STEP(trial, err, status, "wait") : PCO_OK;
}

uint64_t pco_trial_nanoseconds(const pco_trial *trial, pco_program *program)
{
    const pco_program_api *api = trial->on.plugin->program;
    pco_timing timings[PCO_TRIAL_NODES];
    uint64_t sum = 0;
    const uint32_t count = api->timings ? api->timings(trial->on.device, program, timings, PCO_TRIAL_NODES) : 0;
    for (uint32_t i = 0; i < count && i < PCO_TRIAL_NODES; i++) sum += timings[i].nanoseconds;
    return sum;
}
