/* The helpers with which a lowerer reads operands and builds dispatches. */
#include "lower.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- operands ---- */

uint32_t gpu_input_index(const gpu_lowering *gpu, uint32_t i)
{
    return i < gpu->node->n_inputs && i < PCO_MAX_INPUTS ? gpu->node->inputs[i] : PCO_NONE;
}

uint32_t gpu_output_index(const gpu_lowering *gpu, uint32_t i)
{
    return i < gpu->node->n_outputs && i < PCO_MAX_OUTPUTS ? gpu->node->outputs[i] : PCO_NONE;
}

const pco_tensor *gpu_input(const gpu_lowering *gpu, uint32_t i)
{
    const uint32_t index = gpu_input_index(gpu, i);
    return index == PCO_NONE ? NULL : &gpu->part->tensors[index];
}

const pco_tensor *gpu_output(const gpu_lowering *gpu, uint32_t i)
{
    const uint32_t index = gpu_output_index(gpu, i);
    return index == PCO_NONE ? NULL : &gpu->part->tensors[index];
}

uint64_t gpu_product(const pco_tensor *tensor, uint32_t first, uint32_t end)
{
    uint64_t product = 1;
    for (uint32_t d = first; d < end && d < PCO_MAX_RANK; d++) product *= (uint64_t)tensor->shape[d];
    return product;
}

uint64_t gpu_count(const pco_tensor *tensor) { return gpu_product(tensor, 0, tensor->rank); }

uint32_t gpu_element_bytes(uint32_t dtype)
{
#define GPU_BYTES(NAME, name, block, bytes) \
    case PCO_##NAME: return bytes;
    switch (dtype) {
        PCO_FLOAT_DTYPES(GPU_BYTES)
        PCO_WHOLE_DTYPES(GPU_BYTES)
    default: return 0;
    }
}

uint32_t gpu_lanes(uint32_t dtype)
{
    const uint32_t bytes = gpu_element_bytes(dtype);
    return bytes ? 4 / bytes : 1;
}

const void *gpu_attrs(const gpu_lowering *gpu, void *room, size_t size)
{
    memset(room, 0, size);
    if (gpu->node->attrs) memcpy(room, gpu->node->attrs, gpu_min(size, gpu->node->attrs_size));
    return room;
}

/* The tensor that owns the memory which `tensor` is a name for. */
static uint32_t gpu_root(const pco_part *part, uint32_t tensor)
{
    for (uint32_t steps = 0; steps < part->n_tensors && part->tensors[tensor].alias != PCO_NONE; steps++) {
        tensor = part->tensors[tensor].alias;
    }
    return tensor;
}

/* Where a tensor lies; in a dry run every tensor begins its own buffer. Buffer PCO_NONE: nowhere. */
static pco_place gpu_place(const gpu_lowering *gpu, uint32_t tensor)
{
    const uint32_t root = gpu_root(gpu->part, tensor);
    if (!gpu->plan) {
        return (pco_place){.buffer = root, .bytes = gpu->part->tensors[tensor].bytes};
    }
    const pco_place own = gpu->plan->tensors[tensor];
    return own.buffer == PCO_NONE ? gpu->plan->tensors[root] : own;
}

int gpu_same_memory(const gpu_lowering *gpu, uint32_t a, uint32_t b)
{
    const pco_place p = gpu_place(gpu, a), q = gpu_place(gpu, b);
    if (p.buffer == PCO_NONE || q.buffer == PCO_NONE) return 0;
    if (p.buffer != q.buffer && (!gpu->plan || gpu->plan->buffers[p.buffer] != gpu->plan->buffers[q.buffer])) {
        return 0;
    }
    return p.offset < q.offset + q.bytes && q.offset < p.offset + p.bytes;
}

int gpu_same_element(const gpu_lowering *gpu, uint32_t a, uint64_t i, uint32_t b, uint64_t k)
{
    const uint32_t dtype = gpu->part->tensors[a].dtype, size = gpu_element_bytes(dtype);
    if (!gpu->plan || dtype != gpu->part->tensors[b].dtype || !gpu_same_memory(gpu, a, b)) return 0;
    return gpu_place(gpu, a).offset + i * size == gpu_place(gpu, b).offset + k * size;
}

/* ---- errors ---- */

pco_status gpu_fail(gpu_lowering *gpu, pco_status status, const char *format, ...)
{
    if (gpu->status != PCO_OK) return gpu->status;
    gpu->status = status;
    if (gpu->err) {
        va_list list;
        va_start(list, format);
        vsnprintf(gpu->err->message, sizeof gpu->err->message, format, list);
        va_end(list);
    }
    return status;
}

/* ---- dispatches ---- */

static const pco_gpu_kernel *gpu_row(const gpu_lowering *gpu, uint32_t kernel)
{
    return pco_gpu_row(gpu->device, kernel);
}

void gpu_begin(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t kernel, uint32_t x, uint32_t y, uint32_t z)
{
    memset(d, 0, sizeof *d);
    memset(gpu->building, 0, sizeof gpu->building);
    gpu->named = 0;
    d->kernel = kernel;
    const uint32_t needs = gpu_row(gpu, kernel)->needs;
    const int settable = needs & PCO_GPU_NEEDS_COOPERATIVE_MATRIX && gpu->limits->subgroups_settable;
    d->width = settable ? gpu->limits->matrix_width : needs & PCO_GPU_NEEDS_SUBGROUPS ? gpu->width : 0;
    d->node = gpu->node_index;
    d->n_specs = gpu_row(gpu, kernel)->n_specs;
    d->n_bindings = gpu_row(gpu, kernel)->n_bindings;
    d->n_params = gpu_row(gpu, kernel)->n_params;
    d->specs[0] = (int32_t)x;
    d->specs[1] = (int32_t)y;
    d->specs[2] = (int32_t)z;
    if (!pco_gpu_source_of(gpu->device, kernel) || (needs & ~gpu->limits->needs_met)) {
        gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "kernel %s is not in this build or beyond this device",
                 gpu_row(gpu, kernel)->name);
    }
    const uint32_t *local = gpu->limits->max_local;
    if (x > local[0] || y > local[1] || z > local[2] || (uint64_t)x * y * z > gpu->limits->max_workgroup) {
        gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "kernel %s in workgroups of %u by %u by %u: the device allows %u",
                 gpu_row(gpu, kernel)->name, x, y, z, gpu->limits->max_workgroup);
    }
    if (d->width && (uint64_t)x * y * z > (uint64_t)d->width * gpu->limits->subgroups_settable) {
        gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "a workgroup of %u in subgroups of %u: the device allows %u of them",
                 x * y * z, d->width, gpu->limits->subgroups_settable);
    }
    if (d->n_bindings > gpu->limits->max_bindings) {
        gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "kernel %s needs %u storage buffers, the device has %u",
                 gpu_row(gpu, kernel)->name, d->n_bindings, gpu->limits->max_bindings);
    }
}

/* The binding of a buffer, whose number is its interface's with its own in the lowest 8 bits. */
static uint32_t gpu_binding_of(const pco_gpu_dispatch *d, uint32_t buffer)
{
    if (d->kernel >= pco_gpu_n_kernels) return buffer; /* made at run time: buffers have no names here */
    const pco_gpu_kernel *kernel = &pco_gpu_kernels[d->kernel];
    const uint32_t number = buffer & 0xff;
    return buffer >> 8 == kernel->interface && number < PCO_GPU_MAX_BINDINGS ? kernel->bindings[number]
                                                                             : PCO_GPU_NO_BINDING;
}

int gpu_has_buffer(const pco_gpu_dispatch *d, uint32_t buffer) { return gpu_binding_of(d, buffer) < d->n_bindings; }

static int gpu_may_write(const gpu_lowering *gpu, const pco_gpu_dispatch *d, uint32_t binding)
{
    return gpu_row(gpu, d->kernel)->writable >> binding & 1;
}

/* Binds bytes [first, first + bytes) of a place; returns the distance from the window's beginning. */
static uint32_t gpu_bind(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, pco_place place, const char *name,
                         uint64_t first, uint64_t bytes, uint32_t write)
{
    const uint32_t binding = gpu_binding_of(d, buffer);
    if (binding >= d->n_bindings) {
        gpu_fail(gpu, PCO_ERROR_INTERNAL, "kernel %s has no buffer %u of interface %u", gpu_row(gpu, d->kernel)->name,
                 buffer & 0xff, buffer >> 8);
        return 0;
    }
    if (write && !gpu_may_write(gpu, d, binding)) {
        gpu_fail(gpu, PCO_ERROR_INTERNAL, "kernel %s only reads binding %u", gpu_row(gpu, d->kernel)->name, binding);
        return 0;
    }
    if (bytes == 0) return 0;
    if (place.buffer == PCO_NONE) {
        gpu_fail(gpu, PCO_ERROR_INTERNAL, "%s has no memory in the plan", name);
        return 0;
    }
    const uint64_t at = place.offset + first;
    const uint64_t begin = at & ~(uint64_t)(gpu->limits->offset_alignment - 1);
    const uint64_t end = (at + bytes + 3) & ~UINT64_C(3);
    const uint64_t limit = gpu_min(gpu->binding, UINT64_C(1) << 31);
    if (end - begin > limit) {
        gpu_fail(gpu, PCO_ERROR_UNSUPPORTED,
                 "%s needs a window of %llu bytes in one piece, above the device's binding limit of %llu", name,
                 (unsigned long long)(end - begin), (unsigned long long)limit);
        return 0;
    }
    d->bindings[binding] =
        (pco_gpu_binding){.buffer = place.buffer, .write = write, .offset = begin, .bytes = end - begin};
    gpu->building[binding] =
        (gpu_range){.buffer = place.buffer, .write = write, .first = at & ~UINT64_C(3), .end = end};
    return (uint32_t)(at - begin);
}

uint32_t gpu_bind_read(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint32_t tensor, uint64_t first,
                       uint64_t bytes)
{
    return gpu_bind(gpu, d, buffer, gpu_place(gpu, tensor), gpu->part->tensors[tensor].name, first, bytes, 0);
}

uint32_t gpu_bind_write(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint32_t tensor, uint64_t first,
                        uint64_t bytes)
{
    return gpu_bind(gpu, d, buffer, gpu_place(gpu, tensor), gpu->part->tensors[tensor].name, first, bytes, 1);
}

uint32_t gpu_bind_elements(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint32_t tensor, uint64_t first,
                           uint64_t count, int write)
{
    const uint32_t size = gpu_element_bytes(gpu->part->tensors[tensor].dtype);
    if (size == 0) {
        gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "%s is quantised", gpu->part->tensors[tensor].name);
        return 0;
    }
    return (write ? gpu_bind_write : gpu_bind_read)(gpu, d, buffer, tensor, first * size, count * size) / size;
}

uint32_t gpu_bind_workspace(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint64_t first, uint64_t bytes,
                            int write)
{
    gpu->workspace = gpu_max(gpu->workspace, first + bytes);
    const pco_place dry = {.buffer = gpu->part->n_tensors, .bytes = gpu->workspace};
    const pco_place place = gpu->plan ? gpu->plan->workspaces[gpu->node_index] : dry;
    if (first + bytes > place.bytes) {
        gpu_fail(gpu, PCO_ERROR_INTERNAL, "%s: the plan gives %llu bytes of workspace, %llu are needed",
                 gpu->node->name, (unsigned long long)place.bytes, (unsigned long long)(first + bytes));
        return 0;
    }
    return gpu_bind(gpu, d, buffer, place, "the workspace", first, bytes, write ? 1 : 0);
}

/* Binding `to` sees what binding `from` sees. */
static void gpu_see_again(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t to, uint32_t from)
{
    d->bindings[to] = d->bindings[from];
    d->bindings[to].write = 0;
    gpu->building[to] = (gpu_range){.buffer = d->bindings[from].buffer};
}

void gpu_bind_again(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t buffer, uint32_t other)
{
    const uint32_t to = gpu_binding_of(d, buffer), from = gpu_binding_of(d, other);
    if (to < d->n_bindings && from < d->n_bindings)
        gpu_see_again(gpu, d, to, from);
    else
        gpu_fail(gpu, PCO_ERROR_INTERNAL, "kernel %s lacks buffer %u or %u", gpu_row(gpu, d->kernel)->name, buffer,
                 other);
}

/* Copies what the kernel has of its interface's struct, which may have more at the end. */
static void gpu_copy(gpu_lowering *gpu, const pco_gpu_dispatch *d, uint32_t interface, const char *what, void *to,
                     uint32_t words, const void *from, size_t bytes)
{
    const pco_gpu_kernel *kernel = gpu_row(gpu, d->kernel);
    if (interface != kernel->interface || bytes < words * sizeof(uint32_t)) {
        gpu_fail(gpu, PCO_ERROR_INTERNAL, "kernel %s has %u %s of interface %u, not %zu bytes of interface %u",
                 kernel->name, words, what, kernel->interface, bytes, interface);
        return;
    }
    memcpy(to, from, words * sizeof(uint32_t));
}

void gpu_set_spec_words(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t interface, const void *specs, size_t bytes)
{
    gpu->named |= GPU_NAMED_SPECS;
    gpu_copy(gpu, d, interface, "constants", d->specs + 3, d->n_specs - 3, specs, bytes);
}

void gpu_set_param_words(gpu_lowering *gpu, pco_gpu_dispatch *d, uint32_t interface, const void *params, size_t bytes)
{
    gpu->named |= GPU_NAMED_PARAMS;
    gpu_copy(gpu, d, interface, "parameters", d->params, d->n_params, params, bytes);
}

/* Room for one more dispatch. */
static pco_status gpu_grow(gpu_lowering *gpu)
{
    gpu_list *list = gpu->list;
    if (list->count < list->capacity) return PCO_OK;
    const uint32_t capacity = list->capacity ? list->capacity * 2 : 64;
    const pco_host *host = list->host;
    pco_gpu_dispatch *dispatches = host->allocate(host->user, capacity * sizeof *dispatches, 64);
    gpu_range(*ranges)[PCO_GPU_MAX_BINDINGS] = host->allocate(host->user, capacity * sizeof *ranges, 64);
    if (!dispatches || !ranges) {
        if (dispatches) host->release(host->user, dispatches);
        if (ranges) host->release(host->user, ranges);
        return gpu_fail(gpu, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a list of %u dispatches", capacity);
    }
    if (list->count) {
        memcpy(dispatches, list->dispatches, list->count * sizeof *dispatches);
        memcpy(ranges, list->ranges, list->count * sizeof *ranges);
    }
    if (list->dispatches) host->release(host->user, list->dispatches);
    if (list->ranges) host->release(host->user, list->ranges);
    list->dispatches = dispatches;
    list->ranges = ranges;
    list->capacity = capacity;
    return PCO_OK;
}

/* Bindings that this dispatch leaves unused get a buffer all the same: of what it does bind, the first that is written
 * or the first that is read, as the kernel declares the unused one. A validation layer goes by the declaration, and by
 * whole windows, which begin at an aligned offset: one that is declared for reading and sees what is written here would
 * read what the dispatch before it has written in front of that, and one declared for writing would write an operand.
 */
static pco_status gpu_fill_bindings(gpu_lowering *gpu, pco_gpu_dispatch *d)
{
    uint32_t good[2] = {PCO_NONE, PCO_NONE}; /* read, written */
    for (uint32_t binding = d->n_bindings; binding-- > 0;)
        if (d->bindings[binding].bytes) good[d->bindings[binding].write != 0] = binding;
    for (uint32_t binding = 0; binding < d->n_bindings; binding++) {
        if (d->bindings[binding].bytes) continue;
        const int write = gpu_may_write(gpu, d, binding);
        const uint32_t from = good[write] != PCO_NONE ? good[write] : good[!write];
        if (from == PCO_NONE)
            return gpu_fail(gpu, PCO_ERROR_INTERNAL, "kernel %s binds nothing", gpu_row(gpu, d->kernel)->name);
        gpu_see_again(gpu, d, binding, from);
    }
    return PCO_OK;
}

pco_status gpu_emit_grid(gpu_lowering *gpu, pco_gpu_dispatch *d, uint64_t x, uint64_t y, uint64_t z)
{
    const uint64_t groups[3] = {x, y, z};
    if (gpu->status != PCO_OK || x == 0 || y == 0 || z == 0) return gpu->status;
    if ((d->n_specs > 3 && !(gpu->named & GPU_NAMED_SPECS)) || (d->n_params > 0 && !(gpu->named & GPU_NAMED_PARAMS)))
        return gpu_fail(gpu, PCO_ERROR_INTERNAL, "kernel %s was given no constants or no parameters",
                        gpu_row(gpu, d->kernel)->name);
    for (uint32_t i = 0; i < 3; i++) {
        if (groups[i] > gpu->limits->max_groups[i]) {
            return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED, "%llu workgroups in dimension %u, the device has %u",
                            (unsigned long long)groups[i], i, gpu->limits->max_groups[i]);
        }
        d->groups[i] = (uint32_t)groups[i];
    }
    if (gpu_fill_bindings(gpu, d) != PCO_OK) return gpu->status;
    if (!gpu->list) return PCO_OK;
    if (gpu_grow(gpu) != PCO_OK) return gpu->status;
    gpu->list->dispatches[gpu->list->count] = *d;
    memcpy(gpu->list->ranges[gpu->list->count], gpu->building, sizeof gpu->building);
    gpu->list->count++;
    return PCO_OK;
}

pco_status gpu_emit(gpu_lowering *gpu, pco_gpu_dispatch *d, uint64_t groups)
{
    const uint32_t *max = gpu->limits->max_groups;
    if (groups <= max[0]) return gpu_emit_grid(gpu, d, groups, 1, 1);
    const uint64_t planes = gpu_div_up(groups, max[0]);
    const uint64_t z = gpu_div_up(planes, max[1]), y = gpu_div_up(planes, z);
    return gpu_emit_grid(gpu, d, gpu_div_up(groups, y * z), y, z);
}

uint32_t gpu_workgroup(const gpu_lowering *gpu, uint32_t wanted)
{
    const uint64_t most = gpu_min(gpu->limits->max_workgroup, gpu->limits->max_local[0]);
    uint32_t size = 1;
    while (size * 2 <= wanted && size * 2 <= most) size *= 2;
    return size;
}

int gpu_smallest_tiles(const pco_gpu_limits *limits) { return limits->tiles == PCO_GPU_TILES_SMALLEST; }

uint32_t gpu_initial(const pco_gpu_limits *limits, const gpu_constant *constant)
{
    const uint32_t of[PCO_GPU_TILES] = {[PCO_GPU_TILES_ANY] = constant->initial,
                                        [PCO_GPU_TILES_MEDIUM] = constant->medium,
                                        [PCO_GPU_TILES_SMALL] = constant->small,
                                        [PCO_GPU_TILES_SMALLEST] = constant->smallest};
    uint32_t tiles = limits->tiles;
    while (tiles && !of[tiles]) tiles--;
    return of[tiles];
}

uint32_t gpu_tuned(const gpu_lowering *gpu, const gpu_variant *variant, uint32_t i)
{
    const gpu_constant *constant = &variant->constants[i];
    for (uint32_t s = 0; s < gpu->device->n_settings; s++) {
        const pco_gpu_setting *setting = &gpu->device->settings[s];
        if (setting->constant == constant) return setting->value;
    }
    return gpu_initial(gpu->limits, constant);
}

int gpu_rounds_fit(const gpu_lowering *gpu, uint64_t rounds)
{
    return !gpu->limits->max_rounds || rounds <= gpu->limits->max_rounds;
}

pco_status gpu_need_rounds(gpu_lowering *gpu, uint64_t rounds)
{
    if (gpu_rounds_fit(gpu, rounds)) return gpu->status;
    return gpu_fail(gpu, PCO_ERROR_UNSUPPORTED,
                    "loops of an invocation would have up to %llu rounds, and this driver leaves them after %u",
                    (unsigned long long)rounds, gpu->limits->max_rounds);
}

uint64_t gpu_window(const gpu_lowering *gpu, uint64_t bytes)
{
    const uint64_t limit = gpu_min(gpu->binding, UINT64_C(1) << 31);
    const uint64_t room = limit - gpu_min(gpu->limits->offset_alignment, limit);
    const uint64_t count = room / bytes;
    return count >= 1024 ? count & ~UINT64_C(1023) : count >= 4 ? count & ~UINT64_C(3) : count;
}
