/* What a prepared program says of itself, against what it launches: how many segments a node needs, which pieces of
 * machine code, and what is written. The host relies on the first where another device waits for a node, and on the
 * second where the self-test must see what a large node will run; the plugin on the third, where it decides what
 * waits for what. */
#include "run/runner.h"

#include "base/error.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

enum { MOST_LAUNCHES = 256 };

/* One word for what two launches of the same code have in common; what the header does not show may differ. */
static uint64_t program_code(const pco_dispatch_info *info)
{
    uint64_t hash = PCO_HASH_START;
    hash = pco_hash(hash, info->kernel, strlen(info->kernel) + 1);
    if (info->options) hash = pco_hash(hash, info->options, strlen(info->options) + 1);
    hash = pco_hash(hash, info->workgroup, sizeof info->workgroup);
    return pco_hash(hash, info->specs, info->n_specs * sizeof *info->specs);
}

static pco_status program_segments(const pco_program_api *api, const pco_part *part, const pco_program *program,
                                   uint32_t *until, pco_error *err)
{
    const uint32_t segments = api->segments(program);
    *until = segments;
    if (!api->segments_until) return PCO_OK;
    uint32_t before = 0;
    for (uint32_t node = 0; node < part->n_nodes; node++) {
        *until = api->segments_until(program, node);
        if (*until < before || *until > segments)
            return pco_fail(err, PCO_ERROR_INTERNAL,
                            "segments_until: node %" PRIu32 " needs %" PRIu32 " segments of %" PRIu32
                            ", the one before it %" PRIu32,
                            node, *until, segments, before);
        before = *until;
    }
    return PCO_OK;
}

/* Launches of each node, and how many different ones; false where there are too many to look at. */
static bool program_count(const pco_conformance_device *device, pco_program *program, uint32_t node, uint32_t *launches,
                          uint32_t *codes)
{
    uint64_t seen[MOST_LAUNCHES];
    *launches = *codes = 0;
    for (uint32_t i = 0;; i++) {
        pco_dispatch_info info = {.size = sizeof info};
        pco_error end;
        if (device->plugin->program->describe(device->device, program, i, &info, &end)) return true;
        if (info.node != node || !info.kernel) continue;
        if (i >= MOST_LAUNCHES) return false;
        ++*launches;
        const uint64_t code = program_code(&info);
        uint32_t k = 0;
        while (k < *codes && seen[k] != code) k++;
        if (k == *codes) seen[(*codes)++] = code;
    }
}

static pco_status program_pipelines(const pco_conformance_device *device, const pco_part *part, pco_program *program,
                                    pco_error *err)
{
    const pco_program_api *api = device->plugin->program;
    if (!api->pipelines || !api->describe) return PCO_OK;
    for (uint32_t node = 0; node < part->n_nodes; node++) {
        uint64_t listed[MOST_LAUNCHES];
        uint32_t launches, codes;
        if (!program_count(device, program, node, &launches, &codes)) continue;
        if (!launches) continue; /* its result lies where its operand does already */
        const uint32_t count = api->pipelines(device->device, part, node, listed, MOST_LAUNCHES);
        if (count < codes || count > launches)
            return pco_fail(err, PCO_ERROR_INTERNAL,
                            "pipelines: node %" PRIu32 " is said to run %" PRIu32 " pieces of code, and has %" PRIu32
                            " launches, %" PRIu32 " of them different",
                            node, count, launches, codes);
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < i; k++)
                if (listed[i] == listed[k])
                    return pco_fail(err, PCO_ERROR_INTERNAL, "pipelines: node %" PRIu32 " lists one twice", node);
    }
    return PCO_OK;
}

/* Notes in `written` which regions the binding writes; false when it writes, and none of them. */
static bool program_binding_fits(const pco_trial_memory *memory, const pco_dispatch_binding *binding, bool *written)
{
    bool fits = !binding->write;
    for (uint32_t r = 0; r < memory->n_regions && binding->write; r++) {
        const pco_trial_region *region = &memory->regions[r];
        if (!region->written || !region->bytes || region->buffer != binding->buffer ||
            binding->offset >= region->offset + region->bytes || region->offset >= binding->offset + binding->bytes)
            continue;
        fits = written[r] = true;
    }
    return fits;
}

/* Launches say of each result that they write it, and of nothing else: what waits for what, and what memory may be
 * given to a launch at all, follows from that. */
static pco_status program_writes(const pco_conformance_device *device, const pco_trial_memory *memory,
                                 pco_program *program, pco_error *err)
{
    const pco_program_api *api = device->plugin->program;
    const pco_part *part = &memory->trial->part;
    bool written[PCO_TRIAL_REGIONS] = {false};
    uint32_t bindings = 0; /* none at all: a plugin that shows its code alone */
    if (!api->describe) return PCO_OK;
    for (uint32_t launch = 0;; launch++) {
        pco_dispatch_info info = {.size = sizeof info};
        pco_status status = api->describe(device->device, program, launch, &info, err);
        if (status == PCO_ERROR_NOT_FOUND && launch == 0) return PCO_OK; /* all lies where an operand does */
        if (status == PCO_ERROR_NOT_FOUND) break;
        if (status) return pco_fail_prefix(err, status, "describe");
        for (uint32_t b = 0; b < info.n_bindings && b < PCO_DISPATCH_BINDINGS; b++, bindings++) {
            const pco_dispatch_binding *binding = &info.bindings[b];
            if (!program_binding_fits(memory, binding, written))
                return pco_fail(err, PCO_ERROR_INTERNAL,
                                "describe: launch %" PRIu32 " (%s) says that it writes %" PRIu64 " bytes at %" PRIu64
                                " of buffer %" PRIu32 ", where nothing is that the node may write",
                                launch, info.kernel ? info.kernel : "", binding->bytes, binding->offset,
                                binding->buffer);
        }
    }
    for (uint32_t t = 0; t < part->n_tensors && bindings; t++) {
        const pco_trial_region *region = &memory->regions[t];
        if (region->written && region->bytes && region->shares == PCO_NONE && !written[t])
            return pco_fail(err, PCO_ERROR_INTERNAL, "describe: no launch says that it writes '%s'",
                            part->tensors[t].name);
    }
    return PCO_OK;
}

pco_status conf_program_look(const conf_session *session, uint32_t *until, pco_error *err)
{
    const pco_conformance_device *device = session->device;
    const pco_part *part = &session->trial->part;
    pco_status status = program_segments(device->plugin->program, part, session->program, until, err);
    if (!status) status = program_pipelines(device, part, session->program, err);
    return status ? status : program_writes(device, &session->memory, session->program, err);
}
