#include "run/pipelines.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- the table ---- */

static uint32_t pipelines_find(const conf_pipelines *pipelines, uint64_t identity)
{
    uint32_t low = 0, high = pipelines->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (pipelines->items[middle].identity < identity)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

pco_status conf_pipelines_note(conf_pipelines *pipelines, const pco_conformance_pipeline *seen, bool *fresh,
                               pco_error *err)
{
    const uint32_t at = pipelines_find(pipelines, seen->identity);
    *fresh = at == pipelines->count || pipelines->items[at].identity != seen->identity;
    if (!*fresh) return PCO_OK;
    if (pipelines->count == pipelines->capacity) {
        const uint32_t capacity = pipelines->capacity ? pipelines->capacity * 2 : 256;
        pco_conformance_pipeline *grown = realloc(pipelines->items, capacity * sizeof *grown);
        if (!grown) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the table of pipelines");
        pipelines->items = grown, pipelines->capacity = capacity;
    }
    pco_conformance_figure *figures = NULL;
    if (seen->n_figures) {
        figures = malloc(seen->n_figures * sizeof *figures);
        if (!figures) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the figures of a pipeline");
        memcpy(figures, seen->figures, seen->n_figures * sizeof *figures);
    }
    pco_conformance_pipeline *row = &pipelines->items[at];
    memmove(row + 1, row, (pipelines->count++ - at) * sizeof *row);
    *row = *seen;
    row->figures = figures;
    return PCO_OK;
}

void conf_pipelines_clear(conf_pipelines *pipelines)
{
    for (uint32_t i = 0; i < pipelines->count; i++) free(pipelines->items[i].figures);
    free(pipelines->items);
    *pipelines = (conf_pipelines){0};
}

/* ---- launches ---- */

void conf_inspect(const pco_conformance_device *device)
{
    pco_error unused;
    const pco_device_api *api = device->plugin->device;
    if (api->inspect && api->inspect(device->device, 1, &unused) != PCO_OK) return; /* pipelines without figures */
}

static uint64_t pipelines_identity(const pco_dispatch_info *info)
{
    const uint32_t width = info->subgroup_size;
    uint64_t hash = pco_hash(PCO_HASH_START, info->kernel, strlen(info->kernel) + 1);
    if (info->options) hash = pco_hash(hash, info->options, strlen(info->options) + 1);
    hash = pco_hash(hash, &width, sizeof width);
    return pco_hash(hash, info->specs, info->n_specs * sizeof *info->specs);
}

/* FOLDER/KERNEL-IDENTITY.N.txt, and .bin: the listing and the code itself, as far as the driver gives them. */
static pco_status pipelines_write_code(const conf_pipelines_watch *watch, const pco_conformance_pipeline *seen,
                                       const pco_dispatch_info *info, pco_error *err)
{
    char path[1200];
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < info->n_codes && !status; i++) {
        const pco_machine_code *code = &info->codes[i];
        const int length = snprintf(path, sizeof path, "%s/%s-%016" PRIx64 ".%" PRIu32, watch->folder, seen->kernel,
                                    seen->identity, i);
        if (length < 0 || (size_t)length + sizeof ".txt" > sizeof path)
            return pco_fail(err, PCO_ERROR_INVALID, "the name of the folder '%.200s ...' is too long", watch->folder);
        if (code->listing) {
            memcpy(path + length, ".txt", sizeof ".txt");
            status = pco_file_write(path, code->listing, code->listing_bytes, err);
        }
        if (code->binary && !status) {
            memcpy(path + length, ".bin", sizeof ".bin");
            status = pco_file_write(path, code->binary, code->binary_bytes, err);
        }
    }
    return status;
}

static pco_status pipelines_look(conf_pipelines_watch *watch, const pco_dispatch_info *info, pco_error *err)
{
    pco_conformance_pipeline seen = {.width = info->subgroup_size};
    bool fresh;
    if (!info->kernel) return PCO_OK;
    seen.identity = pipelines_identity(info);
    snprintf(seen.kernel, sizeof seen.kernel, "%s", info->kernel);
    snprintf(seen.op, sizeof seen.op, "%s", watch->op ? watch->op : "");
    snprintf(seen.variant, sizeof seen.variant, "%s", watch->variant ? watch->variant : "");
    seen.n_specs = info->n_specs < PCO_DISPATCH_SPECS ? info->n_specs : PCO_DISPATCH_SPECS;
    memcpy(seen.specs, info->specs, seen.n_specs * sizeof *seen.specs);
    const uint32_t at = pipelines_find(&watch->pipelines, seen.identity);
    if (at < watch->pipelines.count && watch->pipelines.items[at].identity == seen.identity) return PCO_OK;
    uint32_t n = 0;
    for (uint32_t i = 0; i < info->n_codes; i++) n += info->codes[i].n_figures;
    seen.figures = calloc(n + 1, sizeof *seen.figures);
    if (!seen.figures) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the figures of a pipeline");
    for (uint32_t i = 0; i < info->n_codes; i++) {
        for (uint32_t k = 0; k < info->codes[i].n_figures; k++) {
            pco_conformance_figure *figure = &seen.figures[seen.n_figures++];
            snprintf(figure->code, sizeof figure->code, "%s", info->codes[i].name);
            snprintf(figure->name, sizeof figure->name, "%s", info->codes[i].figures[k].name);
            figure->width = info->codes[i].subgroup_size;
            figure->value = info->codes[i].figures[k].value;
        }
    }
    pco_status status = conf_pipelines_note(&watch->pipelines, &seen, &fresh, err);
    if (!status && watch->folder) status = pipelines_write_code(watch, &seen, info, err);
    if (!status && watch->fresh) watch->fresh(watch->user, &seen);
    free(seen.figures);
    return status;
}

void conf_pipelines_launch(void *user, const pco_dispatch_info *info)
{
    conf_pipelines_watch *watch = user;
    if (!watch->status) watch->status = pipelines_look(watch, info, &watch->err);
}

/* ---- what the figures of drivers mean ---- */

/* Words of RADV, ANV, NVK, Turnip, PanVK, V3DV and OpenCL. A scalar register of AMD that is spilled goes to a vector
 * register, and not to memory: it is not counted. */
static const struct pipelines_measure {
    const char *title;
    int least; /* of several pieces of code the least counts, and not the most */
    const char *names[7];
} MEASURES[PCO_MEASURES] = {
    [PCO_MEASURE_REGISTERS] = {"registers",
                               0,
                               {"VGPRs", "Max live registers", "Number of GPRs", "Registers used", "Work registers",
                                "Max Temps"}},
    [PCO_MEASURE_SPILLS] = {"spills",
                            0,
                            {"Spilled VGPRs", "Spill Count", "Spills to memory", "Spills", "STP Count", "TMU Spills"}},
    [PCO_MEASURE_SCRATCH] = {"scratch",
                             0,
                             {"Scratch size", "Scratch Memory Size", "SLM Size", "Private memory", "Spill Size"}},
    [PCO_MEASURE_WAVES] = {"waves", 1, {"Subgroups per SIMD", "Max warps/SM", "Max Waves Per Core", "Threads"}},
    [PCO_MEASURE_INSTRUCTIONS] = {"instructions", 0, {"Instructions", "Instruction Count"}},
    [PCO_MEASURE_CYCLES] = {"cycles", 0, {"Inverse Throughput", "Cycle Count", "Static cycle count"}},
};

const char *pco_conformance_measure_name(pco_conformance_measure measure)
{
    return (unsigned)measure < PCO_MEASURES ? MEASURES[measure].title : "?";
}

int pco_conformance_measure_is_least(pco_conformance_measure measure) { return MEASURES[measure].least; }

int pco_conformance_pipeline_measure(const pco_conformance_pipeline *pipeline, pco_conformance_measure measure,
                                     double *value)
{
    int known = 0;
    for (uint32_t i = 0; i < pipeline->n_figures; i++) {
        const pco_conformance_figure *figure = &pipeline->figures[i];
        const char *const *name = MEASURES[measure].names;
        while (*name && strcasecmp(*name, figure->name) != 0) name++;
        if (!*name) continue;
        if (!known || (MEASURES[measure].least ? figure->value < *value : figure->value > *value))
            *value = figure->value;
        known = 1;
    }
    return known;
}
