/* What a prepared program says of itself, against what it launches: how many segments a node needs, and which
 * pieces of machine code. The host relies on both: on the first where another device waits for a node, on the
 * second where the self-test must see what a large node will run. */
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

pco_status conf_program_look(const pco_conformance_device *device, const pco_part *part, pco_program *program,
                             uint32_t *until, pco_error *err)
{
    pco_status status = program_segments(device->plugin->program, part, program, until, err);
    return status ? status : program_pipelines(device, part, program, err);
}
