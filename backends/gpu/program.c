/* The program interface of both GPU plugins: asks the lowerers, orders their dispatches, has them recorded.
 */
#include "layout.h"
#include "lower.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Dispatches of a segment: enough that submission costs little, few enough to part long work for watchdogs.
 */
enum { GPU_PER_SEGMENT = 128, GPU_MAX_VARIANTS = 32 };

/* Lowers in the device's own form, or in that of the other kind of device. */
static void gpu_set_form(gpu_lowering *gpu, int other)
{
    gpu->other = other;
    gpu->software = (gpu->limits->type == PCO_DEVICE_SOFTWARE) != other;
}

static gpu_lowering gpu_start(pco_device *device, const pco_part *part, uint32_t node, pco_error *err)
{
    pco_gpu_device *gpu = (pco_gpu_device *)(void *)device;
    const int cut = part->window != 0;
    const uint64_t most = gpu->limits.max_binding;
    gpu_lowering start = {.device = gpu,
                          .host = gpu->host,
                          .limits = &gpu->limits,
                          .binding = cut && part->window < most ? part->window : most,
                          .part = part,
                          .node = &part->nodes[node],
                          .node_index = node,
                          .err = err};
    gpu_set_form(&start, 0);
    return start;
}

/* What is offered for a node: a variant, a required width or 0, and whether it is that of the other kind of device. */
typedef struct gpu_offer {
    uint32_t id, width;
    int other;
} gpu_offer;

/* Widths are offered behind all variants, where there is a choice. */
static uint32_t gpu_offer_widths(const gpu_lowering *gpu, const gpu_lowerer *lowerer, gpu_offer *offers, uint32_t n)
{
    const pco_gpu_limits *limits = gpu->limits;
    const uint32_t plain = n;
    if (!limits->subgroups_settable || limits->subgroup_min >= limits->subgroup_max) return n;
    for (uint32_t i = 0; i < plain; i++) {
        if (!(lowerer->variants[offers[i].id].needs & PCO_GPU_NEEDS_SUBGROUPS)) continue;
        for (uint32_t width = limits->subgroup_min; width <= limits->subgroup_max && n < GPU_MAX_VARIANTS; width *= 2)
            offers[n++] = (gpu_offer){.id = offers[i].id, .width = width};
    }
    return n;
}

/* Forms of the other kind of device come last. */
static uint32_t gpu_offer_others(const gpu_lowering *gpu, const gpu_lowerer *lowerer, gpu_offer *offers, uint32_t n)
{
    gpu_lowering other = *gpu;
    gpu_set_form(&other, 1);
    for (uint32_t id = 0; id < lowerer->n_variants && n < GPU_MAX_VARIANTS; id++) {
        const gpu_variant *variant = &lowerer->variants[id];
        if (!variant->has_forms || (variant->needs & ~gpu->limits->needs_met)) continue;
        if (lowerer->eligible && !lowerer->eligible(&other, id)) continue;
        offers[n++] = (gpu_offer){.id = id, .other = 1};
    }
    return n;
}

/* The variants that this device offers for the node; returns how many. */
static uint32_t gpu_offered(const gpu_lowering *gpu, const gpu_lowerer *lowerer, gpu_offer *offers)
{
    uint32_t n = 0;
    if (!lowerer->variants) {
        offers[n++] = (gpu_offer){.id = 0};
        return n;
    }
    for (uint32_t id = 0; id < lowerer->n_variants && n < GPU_MAX_VARIANTS; id++) {
        if (lowerer->variants[id].needs & ~gpu->limits->needs_met) continue;
        if (lowerer->eligible && !lowerer->eligible(gpu, id)) continue;
        offers[n++] = (gpu_offer){.id = id};
    }
    n = gpu_offer_widths(gpu, lowerer, offers, n);
    return gpu_offer_others(gpu, lowerer, offers, n);
}

/* Fixes gpu->variant: what `wanted` (an index into the offered ones) says, or the lowerer's own choice.
 * Returns the index. */
static uint32_t gpu_pick(gpu_lowering *gpu, const gpu_lowerer *lowerer, uint32_t wanted)
{
    gpu_offer offers[GPU_MAX_VARIANTS];
    const uint32_t n = gpu_offered(gpu, lowerer, offers);
    uint32_t index = 0;
    if (n == 0) {
        gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "no kernel variant fits this device");
        return 0;
    }
    if (wanted != PCO_NONE) {
        if (wanted >= n) gpu_fail(gpu, PCO_ERROR_NOT_FOUND, "there is no variant %u (of %u)", wanted, n);
        index = wanted < n ? wanted : 0;
    } else if (lowerer->choose) {
        const uint32_t id = lowerer->choose(gpu);
        while (index < n && offers[index].id != id) index++;
        if (index == n) index = 0;
    }
    gpu->variant = offers[index].id;
    gpu->width = offers[index].width;
    gpu_set_form(gpu, offers[index].other);
    return index;
}

/* Words in front of the message that say which op and node failed. */
static pco_status gpu_explain(const gpu_lowering *gpu, const char *op)
{
    char text[sizeof gpu->err->message];
    if (gpu->status == PCO_OK || !gpu->err) return gpu->status;
    memcpy(text, gpu->err->message, sizeof text);
    text[sizeof text - 1] = 0;
    snprintf(gpu->err->message, sizeof gpu->err->message, "%s (%.100s): %.800s", op, gpu->node->name, text);
    return gpu->status;
}

static pco_status gpu_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *err)
{
    gpu_lowering gpu = gpu_start(device, part, node, err);
    const char *name = "op";
    const gpu_lowerer *lowerer = gpu_find_lowerer(gpu.node, &name);
    if (!lowerer) {
        snprintf(err->message, sizeof err->message, "no kernel for op %u", gpu.node->op);
        return PCO_ERROR_UNSUPPORTED;
    }
    gpu_pick(&gpu, lowerer, gpu.node->variant);
    if (gpu.status == PCO_OK && lowerer->supports) lowerer->supports(&gpu);
    if (gpu.status == PCO_OK) lowerer->lower(&gpu);
    return gpu_explain(&gpu, name);
}

/* What kernels need, what plugin.h calls it, and what people read of a build that has no kernels with it, where some
 * are written. What is a property of compilers and not of devices (VECTOR_16) has no name there. */
static const struct {
    uint32_t need, feature;
    const char *words;
} GPU_FEATURES[] = {
    {PCO_GPU_NEEDS_F16, PCO_FEATURE_F16_ARITHMETIC, "fp16 arithmetic"},
    {PCO_GPU_NEEDS_SUBGROUPS, PCO_FEATURE_SUBGROUPS, "subgroups"},
    {PCO_GPU_NEEDS_STORAGE_16, PCO_FEATURE_STORAGE_16, NULL},
    {PCO_GPU_NEEDS_COOPERATIVE_MATRIX, PCO_FEATURE_COOPERATIVE_MATRIX, "cooperative matrices"},
    {PCO_GPU_NEEDS_COOPERATIVE_MATRIX2, PCO_FEATURE_COOPERATIVE_MATRIX2, "cooperative matrices of the second kind"},
    {PCO_GPU_NEEDS_INTEGER_DOT, PCO_FEATURE_INTEGER_DOT, "integer dot products"},
    {PCO_GPU_NEEDS_MIXED_FLOAT_DOT, PCO_FEATURE_MIXED_FLOAT_DOT, "mixed float dot products"},
};
enum { GPU_N_FEATURES = sizeof GPU_FEATURES / sizeof *GPU_FEATURES };

static uint32_t gpu_features(uint32_t needs)
{
    uint32_t features = 0;
    for (uint32_t i = 0; i < GPU_N_FEATURES; i++)
        if (needs & GPU_FEATURES[i].need) features |= GPU_FEATURES[i].feature;
    return features;
}

void pco_gpu_not_in_build(uint32_t features, uint32_t met, char *out, size_t room)
{
    out[0] = 0;
    for (uint32_t i = 0; i < GPU_N_FEATURES; i++) {
        const size_t used = strlen(out);
        if (features & GPU_FEATURES[i].feature && !(met & GPU_FEATURES[i].need) && GPU_FEATURES[i].words)
            snprintf(out + used, room - used, "%s%s", used ? ", " : "", GPU_FEATURES[i].words);
    }
}

static uint32_t gpu_variants(pco_device *device, const pco_part *part, uint32_t node, pco_variant *variants,
                             uint32_t capacity)
{
    const gpu_lowering gpu = gpu_start(device, part, node, NULL);
    const gpu_lowerer *lowerer = gpu_find_lowerer(gpu.node, NULL);
    gpu_offer offers[GPU_MAX_VARIANTS];
    if (!lowerer) return 0;
    const uint32_t n = gpu_offered(&gpu, lowerer, offers);
    for (uint32_t i = 0; i < n && i < capacity; i++) {
        const gpu_variant *variant = lowerer->variants ? &lowerer->variants[offers[i].id] : NULL;
        variants[i] = (pco_variant){.name = variant ? variant->name : "default",
                                    .subgroup_width = offers[i].width,
                                    .form = !offers[i].other ? PCO_FORM_OWN
                                            : gpu.software   ? PCO_FORM_GPU
                                                             : PCO_FORM_CPU,
                                    .needs = variant ? gpu_features(variant->needs) : 0};
    }
    return n;
}

/* Inputs whose memory the output may take: of the same element size and count, and read at no other place. */
static uint32_t gpu_in_place(const gpu_lowering *gpu, const gpu_lowerer *lowerer)
{
    const pco_tensor *y = gpu_output(gpu, 0);
    uint32_t mask = 0;
    for (uint32_t i = 0; y && i < gpu->node->n_inputs; i++) {
        const pco_tensor *x = gpu_input(gpu, i);
        if (!(lowerer->in_place >> i & 1) || !x) continue;
        if (x->dtype == y->dtype && gpu_count(x) == gpu_count(y)) mask |= 1u << i;
    }
    return mask;
}

static pco_status gpu_propose(pco_device *device, const pco_part *part, pco_proposal *proposal, pco_error *err)
{
    for (uint32_t node = 0; node < part->n_nodes; node++) {
        gpu_lowering gpu = gpu_start(device, part, node, err);
        pco_node_proposal *wish = &proposal->nodes[node];
        const char *name = "op";
        const gpu_lowerer *lowerer = gpu_find_lowerer(gpu.node, &name);
        if (!lowerer) {
            snprintf(err->message, sizeof err->message, "no kernel for op %u", gpu.node->op);
            return PCO_ERROR_UNSUPPORTED;
        }
        wish->variant = gpu_pick(&gpu, lowerer, gpu.node->variant);
        wish->in_place = gpu_in_place(&gpu, lowerer);
        if (gpu.status == PCO_OK) lowerer->lower(&gpu);
        wish->workspace = (gpu.workspace + 3) & ~UINT64_C(3);
        if (gpu.status == PCO_OK && lowerer->propose) lowerer->propose(&gpu, proposal);
        if (gpu.status != PCO_OK) return gpu_explain(&gpu, name);
    }
    return PCO_OK;
}

static void gpu_list_free(gpu_list *list)
{
    if (list->dispatches) list->host->release(list->host->user, list->dispatches);
    if (list->ranges) list->host->release(list->host->user, list->ranges);
    *list = (gpu_list){.host = list->host};
}

static pco_status gpu_lower_part(pco_device *device, const pco_part *part, const pco_proposal *proposal,
                                 const pco_plan *plan, gpu_list *list, pco_error *err)
{
    for (uint32_t node = 0; node < part->n_nodes; node++) {
        gpu_lowering gpu = gpu_start(device, part, node, err);
        const char *name = "op";
        const gpu_lowerer *lowerer = gpu_find_lowerer(gpu.node, &name);
        if (!lowerer) {
            snprintf(err->message, sizeof err->message, "no kernel for op %u", gpu.node->op);
            return PCO_ERROR_UNSUPPORTED;
        }
        gpu.plan = plan;
        gpu.list = list;
        gpu_pick(&gpu, lowerer, proposal->nodes[node].variant);
        if (gpu.status == PCO_OK) lowerer->lower(&gpu);
        if (gpu.status != PCO_OK) return gpu_explain(&gpu, name);
    }
    return PCO_OK;
}

static pco_status gpu_prepare(pco_device *device, const pco_part *part, const pco_proposal *proposal,
                              const pco_plan *plan, pco_program **program, pco_error *err)
{
    pco_gpu_device *gpu = (pco_gpu_device *)(void *)device;
    const pco_host *host = gpu->host;
    gpu_list list = {.host = host};
    pco_program *made = host->allocate(host->user, sizeof *made, 64);
    pco_status status = PCO_ERROR_OUT_OF_HOST_MEMORY;
    if (!made) {
        snprintf(err->message, sizeof err->message, "no memory for a program");
        goto fail;
    }
    *made = (pco_program){0};
    status = gpu_lower_part(device, part, proposal, plan, &list, err);
    if (status != PCO_OK) goto fail;
    status = gpu_find_hazards(plan, &list, err);
    if (status != PCO_OK) goto fail;
    made->n_dispatches = list.count;
    made->dispatches = list.dispatches;
    status = gpu->driver->record(gpu, plan, list.dispatches, list.count, GPU_PER_SEGMENT, &made->recording, err);
    if (status != PCO_OK) goto fail;
    list.dispatches = NULL; /* the program's now */
    gpu_list_free(&list);
    *program = made;
    return PCO_OK;
fail:
    gpu_list_free(&list);
    if (made) host->release(host->user, made);
    return status;
}

static void gpu_destroy(pco_device *device, pco_program *program)
{
    pco_gpu_device *gpu = (pco_gpu_device *)(void *)device;
    if (!program) return;
    gpu->driver->discard(gpu, program->recording);
    if (program->dispatches) gpu->host->release(gpu->host->user, program->dispatches);
    gpu->host->release(gpu->host->user, program);
}

/* The recording knows its device; the driver's function needs only the recording, and segments are counted as
 * gpu_prepare asked for them. */
static uint32_t gpu_segments(const pco_program *program)
{
    return (program->n_dispatches + GPU_PER_SEGMENT - 1) / GPU_PER_SEGMENT;
}

/* Dispatches stand in the order of their nodes. */
static uint32_t gpu_segments_until(const pco_program *program, uint32_t node)
{
    uint32_t count = program->n_dispatches;
    while (count > 0 && program->dispatches[count - 1].node > node) count--;
    return (count + GPU_PER_SEGMENT - 1) / GPU_PER_SEGMENT;
}

/* FNV-1a over words: which code a dispatch runs. */
static uint64_t gpu_pipeline(const pco_gpu_dispatch *dispatch)
{
    const uint32_t words[2] = {dispatch->kernel, dispatch->width};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < 2; i++) hash = (hash ^ words[i]) * UINT64_C(0x100000001b3);
    for (uint32_t i = 0; i < dispatch->n_specs; i++)
        hash = (hash ^ (uint32_t)dispatch->specs[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint32_t gpu_pipelines(pco_device *device, const pco_part *part, uint32_t node, uint64_t *pipelines,
                              uint32_t capacity)
{
    pco_error why;
    gpu_lowering gpu = gpu_start(device, part, node, &why);
    const gpu_lowerer *lowerer = gpu_find_lowerer(gpu.node, NULL);
    gpu_list list = {.host = gpu.host};
    uint32_t count = 0;
    if (!lowerer) return 0;
    gpu.list = &list;
    gpu_pick(&gpu, lowerer, gpu.node->variant);
    if (gpu.status == PCO_OK && lowerer->supports) lowerer->supports(&gpu);
    if (gpu.status == PCO_OK) lowerer->lower(&gpu);
    for (uint32_t i = 0; i < list.count && gpu.status == PCO_OK; i++) {
        const uint64_t pipeline = gpu_pipeline(&list.dispatches[i]);
        uint32_t k = 0, before = 0;
        while (k < count && k < capacity && pipelines[k] != pipeline) k++;
        if (k < count && k < capacity) continue;
        if (count > capacity) /* not all are listed */
            while (gpu_pipeline(&list.dispatches[before]) != pipeline) before++;
        if (count > capacity && before < i) continue;
        if (count < capacity) pipelines[count] = pipeline;
        count++;
    }
    gpu_list_free(&list);
    return count;
}

static pco_status gpu_describe(pco_device *device, pco_program *program, uint32_t index, pco_dispatch_info *info,
                               pco_error *err)
{
    pco_gpu_device *gpu = (pco_gpu_device *)(void *)device;
    if (index >= program->n_dispatches) {
        snprintf(err->message, sizeof err->message, "launch %u of %u", index, program->n_dispatches);
        return PCO_ERROR_NOT_FOUND;
    }
    const pco_gpu_dispatch *dispatch = &program->dispatches[index];
    pco_dispatch_info full = {.size = sizeof full,
                              .node = dispatch->node,
                              .barrier_before = dispatch->barrier_before,
                              .kernel = pco_gpu_row(gpu, dispatch->kernel)->name,
                              .options = "",
                              .n_specs = dispatch->n_specs,
                              .n_params = PCO_GPU_MAX_PARAMS,
                              .n_bindings = dispatch->n_bindings};
    memcpy(full.specs, dispatch->specs, dispatch->n_specs * sizeof *full.specs);
    memcpy(full.params, dispatch->params, dispatch->n_params * sizeof *full.params);
    for (int d = 0; d < 3; d++) {
        full.workgroup[d] = (uint32_t)dispatch->specs[d];
        full.groups[d] = dispatch->groups[d];
    }
    for (uint32_t i = 0; i < dispatch->n_bindings; i++) {
        const pco_gpu_binding *binding = &dispatch->bindings[i];
        full.bindings[i] = (pco_dispatch_binding){binding->buffer, binding->write, binding->offset, binding->bytes};
    }
    pco_status status = gpu->driver->describe(gpu, dispatch, &full, err);
    if (status == PCO_OK) *info = full;
    return status;
}

void pco_gpu_add_timing(pco_gpu_timings *timings, uint32_t node, uint64_t nanoseconds)
{
    if (timings->n == 0 || timings->node != node) {
        if (timings->n < timings->capacity) timings->out[timings->n] = (pco_timing){.node = node};
        timings->n++;
        timings->node = node;
    }
    if (timings->n <= timings->capacity) timings->out[timings->n - 1].nanoseconds += nanoseconds;
}

static uint32_t gpu_timings(pco_device *device, pco_program *program, pco_timing *out, uint32_t capacity)
{
    pco_gpu_device *gpu = (pco_gpu_device *)(void *)device;
    return program->recording ? gpu->driver->timings(gpu, program->recording, out, capacity) : 0;
}

const pco_program_api pco_gpu_program_api = {
    .size = sizeof(pco_program_api),
    .supports = gpu_supports,
    .variants = gpu_variants,
    .propose = gpu_propose,
    .convert = gpu_convert,
    .prepare = gpu_prepare,
    .destroy = gpu_destroy,
    .segments = gpu_segments,
    .timings = gpu_timings,
    .describe = gpu_describe,
    .segments_until = gpu_segments_until,
    .pipelines = gpu_pipelines,
    .tunables = pco_gpu_tunables,
    .tune = pco_gpu_tune,
};

static void gpu_add_edge(pco_device_info *info, uint32_t size)
{
    for (uint32_t i = 0; i < info->n_edges; i++)
        if (info->edges[i] == size) return;
    if (size > 1 && info->n_edges < PCO_MAX_EDGES) info->edges[info->n_edges++] = size;
}

/* Tiles of matmul (4, 8, 32 and 64 rows, 2 to 64 columns, steps of 16), of attention (keys by 16, 32 and 128,
 * depths of 64 and 128), lanes of gemv and their terms (4 to 32), workgroups, and the elements of a workgroup where
 * each invocation owns a word. */
void pco_gpu_describe_edges(const pco_gpu_limits *limits, pco_device_info *info)
{
    static const uint32_t SIZES[] = {4, 8, 16, 32, 64, 128, 256};
    info->n_edges = 0;
    for (uint32_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) gpu_add_edge(info, SIZES[i]);
    for (uint32_t width = limits->subgroup_min; width && width <= limits->subgroup_max; width *= 2)
        gpu_add_edge(info, width);
    gpu_add_edge(info, limits->max_workgroup < 64 ? limits->max_workgroup : 64);
}
