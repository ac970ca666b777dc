/* Executables: from a graph to parts on devices, and running them. */
#include "runtime/session_internal.h"

#include "base/error.h"
#include "graph/op_rules.h"
#include "graph/passes.h"
#include "runtime/selftest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 8 }; /* of decompositions: each leaves simpler operations, or they go in a circle */

static pco_status executable_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for an executable");
}

/* Which slot is to run which node of a graph; *slots is made as large as that needs. */
static pco_status executable_assign(pco_session *session, const pco_graph *graph, uint32_t **slots, pco_error *err)
{
    uint32_t *larger = realloc(*slots, (graph->n_nodes + 1) * sizeof *larger);
    if (!larger) return executable_no_memory(err);
    *slots = larger;
    return session_assign(session, graph, larger, err);
}

/* Marks the composites that are to be decomposed; returns how many. */
static uint32_t executable_mark(pco_session *session, const pco_graph *graph, const pco_executable_params *params,
                                const uint32_t *slots, unsigned char *decompose)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        pco_error why;
        if (!pco_op_decomposition(graph->nodes[i].op) || params->no_decomposition) continue;
        if (!params->force_decomposition && session_supports(session, slots[i], graph, i, &why)) continue;
        decompose[i] = 1;
        count++;
    }
    return count;
}

/* Marks what of a fused graph no longer runs where it was to: a device may know an op and not all that can be fused
 * into it. Returns how many nodes of the source have to stay apart that had not. */
static uint32_t executable_mark_apart(pco_session *session, const pco_graph *graph, const uint32_t *slots,
                                      const uint32_t *fused, unsigned char *apart)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        pco_error why;
        if (fused[i] == PCO_NONE || apart[fused[i]] || session_supports(session, slots[i], graph, i, &why)) continue;
        apart[fused[i]] = 1;
        count++;
    }
    return count;
}

/* The graph with fusions, but those whose nodes the device refuses. Each round leaves more nodes apart than the one
 * before. */
static pco_status executable_fuse(pco_executable *executable, const pco_graph *source, pco_graph **graph,
                                  pco_error *err)
{
    unsigned char *apart = calloc(source->n_nodes + 1, 1);
    uint32_t *fused = malloc(2 * (source->n_nodes + 1) * sizeof *fused);
    pco_status status = apart && fused ? PCO_OK : executable_no_memory(err);
    *graph = NULL;
    while (!status) {
        const pco_rewrite_params params = {.fuse = 1, .apart = apart, .fused = fused};
        status = pco_graph_rewrite(source, &params, graph, err);
        if (!status) status = executable_assign(executable->session, *graph, &executable->slots, err);
        if (status || !executable_mark_apart(executable->session, *graph, executable->slots, fused, apart)) break;
        pco_graph_destroy(*graph);
        *graph = NULL;
    }
    free(apart);
    free(fused);
    return status;
}

/* Rewrites: first with fusions, then with decompositions of what the device does not know, until nothing more
 * can be decomposed. INTERNAL where decompositions lead back to each other. */
static pco_status executable_lower(pco_executable *executable, const pco_graph *source,
                                   const pco_executable_params *params, pco_error *err)
{
    pco_session *session = executable->session;
    pco_graph *graph;
    pco_status status = executable_fuse(executable, source, &graph, err);
    for (int round = 0; !status; round++) {
        unsigned char *decompose = calloc(graph->n_nodes + 1, 1);
        status = decompose ? executable_assign(session, graph, &executable->slots, err) : executable_no_memory(err);
        const uint32_t count = status ? 0 : executable_mark(session, graph, params, executable->slots, decompose);
        if (count == 0 || round == MOST_ROUNDS) {
            free(decompose);
            if (count)
                status =
                    pco_fail(err, PCO_ERROR_INTERNAL,
                             "after %d rounds of decompositions %" PRIu32 " operations are left that no device runs",
                             round, count);
            break;
        }
        pco_graph *next;
        executable->decomposed += count;
        status = pco_graph_rewrite(graph, &(pco_rewrite_params){.decompose = decompose}, &next, err);
        free(decompose);
        if (status) break;
        pco_graph_destroy(graph);
        graph = next;
    }
    if (!status) status = executable_assign(session, graph, &executable->slots, err);
    if (status) {
        pco_graph_destroy(graph);
        return status;
    }
    executable->graph = graph;
    return PCO_OK;
}

/* Chooses a slot for each node and cuts the list where it changes. */
static pco_status executable_partition(pco_executable *executable, const pco_executable_params *params, pco_error *err)
{
    pco_graph *graph = executable->graph;
    executable->parts = calloc(graph->n_nodes + 1, sizeof *executable->parts);
    if (!executable->parts) return executable_no_memory(err);
    pco_status status = session_choose(executable->session, graph, executable->slots,
                                       params->no_self_test || params->plan_only, &executable->cpu_nodes, err);
    for (uint32_t i = 0; !status && i < graph->n_nodes; i++) {
        session_part *last = executable->n_parts ? &executable->parts[executable->n_parts - 1] : NULL;
        if (!last || last->slot != executable->slots[i]) {
            last = &executable->parts[executable->n_parts++];
            last->slot = executable->slots[i];
            last->plan_only = params->plan_only;
            last->first_node = i;
        }
        last->n_nodes++;
    }
    return status;
}

/* For each tensor: does another part than its own read it, or the host? */
static void executable_needs(const pco_executable *executable, unsigned char *needed, uint32_t *maker)
{
    const pco_graph *graph = executable->graph;
    for (uint32_t t = 0; t < graph->n_tensors; t++) maker[t] = PCO_NONE;
    for (uint32_t p = 0; p < executable->n_parts; p++)
        for (uint32_t i = 0; i < executable->parts[p].n_nodes; i++) {
            const pco_node *node = &graph->nodes[executable->parts[p].first_node + i];
            for (uint32_t k = 0; k < node->n_inputs; k++) {
                uint32_t t = node->inputs[k];
                if (t != PCO_NONE && maker[t] != PCO_NONE && maker[t] != p) needed[t] = 1;
            }
            for (uint32_t k = 0; k < node->n_outputs; k++)
                if (node->outputs[k] != PCO_NONE) maker[node->outputs[k]] = p;
        }
}

/* Where the host finds a tensor of a part, or NULL. */
static unsigned char *executable_address(const pco_executable *executable, uint32_t p, uint32_t local)
{
    const session_part *part = &executable->parts[p];
    const session_slot *slot = &executable->session->slots[part->slot];
    const pco_place *place = &part->places[local];
    if (part->plan_only || place->buffer == PCO_NONE || !slot->plugin->buffer->map) return NULL;
    unsigned char *address = slot->plugin->buffer->map(slot->device, part->buffers[place->buffer]);
    return address ? address + place->offset : NULL;
}

static pco_status executable_add_copy(pco_executable *executable, uint32_t t, uint32_t from_part, uint32_t to_part,
                                      pco_error *err)
{
    if (executable->n_copies == executable->copy_capacity) {
        uint32_t capacity = executable->copy_capacity ? 2 * executable->copy_capacity : 8;
        executable_copy *copies = realloc(executable->copies, capacity * sizeof *copies);
        if (!copies) return executable_no_memory(err);
        executable->copies = copies;
        executable->copy_capacity = capacity;
    }
    const session_part *from = &executable->parts[from_part], *to = &executable->parts[to_part];
    executable_copy copy = {.from_part = from_part,
                            .from = from->local[t],
                            .to_part = to_part,
                            .to = to->local[t],
                            .bytes = executable->graph->tensors[t].bytes};
    copy.on_device = from->slot == to->slot && executable->session->slots[to->slot].plugin->buffer->copy;
    if (!copy.on_device) copy.to_address = executable_address(executable, to_part, copy.to);
    if (!copy.on_device && !copy.to_address) copy.from_address = executable_address(executable, from_part, copy.from);
    const int staged = !copy.on_device && !copy.from_address && !copy.to_address;
    if (staged && copy.bytes > executable->staging_bytes) executable->staging_bytes = copy.bytes;
    executable->copies[executable->n_copies++] = copy;
    return PCO_OK;
}

static pco_status executable_link(pco_executable *executable, const uint32_t *maker, pco_error *err)
{
    for (uint32_t p = 0; p < executable->n_parts; p++)
        for (uint32_t t = 0; t < executable->graph->n_tensors; t++) {
            const uint32_t local = executable->parts[p].local[t];
            if (local == PCO_NONE || maker[t] == PCO_NONE || maker[t] >= p) continue;
            if (executable->parts[p].tensors[local].alias != PCO_NONE) continue; /* a state, found where it is */
            pco_status status = executable_add_copy(executable, t, maker[t], p, err);
            if (status) return status;
        }
    if (executable->staging_bytes && !(executable->staging = malloc(executable->staging_bytes)))
        return executable_no_memory(err);
    return PCO_OK;
}

static pco_status executable_parts(pco_executable *executable, pco_error *err)
{
    uint32_t n = executable->graph->n_tensors + 1;
    unsigned char *needed = calloc(n, 1);
    uint32_t *maker = malloc(n * sizeof *maker);
    pco_status status = needed && maker ? PCO_OK : executable_no_memory(err);
    if (!status) executable_needs(executable, needed, maker);
    for (uint32_t p = 0; !status && p < executable->n_parts; p++)
        status = session_part_create(executable->session, executable->graph, &executable->parts[p], needed, err);
    if (!status) status = executable_link(executable, maker, err);
    free(needed);
    free(maker);
    return status;
}

/* Which inputs and run values have to be written before a run: those with memory, of which nobody knows what it holds.
 */
static pco_status executable_expect(pco_executable *executable, pco_error *err)
{
    const pco_graph *graph = executable->graph;
    executable->given = malloc(graph->n_tensors + 1);
    if (!executable->given) return executable_no_memory(err);
    memset(executable->given, 1, graph->n_tensors + 1);
    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        if (graph->tensors[t].kind != PCO_KIND_INPUT && graph->tensors[t].kind != PCO_KIND_VALUE) continue;
        for (uint32_t p = 0; p < executable->n_parts && executable->given[t]; p++) {
            const session_part *part = &executable->parts[p];
            if (part->local[t] != PCO_NONE && part->places[part->local[t]].buffer != PCO_NONE) executable->given[t] = 0;
        }
        executable->n_missing += !executable->given[t];
    }
    return PCO_OK;
}

void executable_give(pco_executable *executable, uint32_t handle)
{
    executable->n_missing -= !executable->given[handle];
    executable->given[handle] = 1;
}

static pco_status executable_fail_missing(const pco_executable *executable, pco_error *err)
{
    uint32_t t = 0;
    while (executable->given[t]) t++;
    return pco_fail(err, PCO_ERROR_INVALID,
                    "input '%s' was never written: write it with pco_executable_write before the first run",
                    executable->graph->tensors[t].name);
}

/* The session's list, which pco_session_executable walks. */
static void executable_enlist(pco_executable *executable)
{
    pco_executable **end = &executable->session->executables;
    while (*end) end = &(*end)->next;
    *end = executable;
}

static void executable_delist(pco_executable *executable)
{
    pco_executable **at = &executable->session->executables;
    while (*at && *at != executable) at = &(*at)->next;
    if (*at) *at = executable->next;
}

pco_status pco_executable_create(pco_session *session, const pco_graph *graph, const pco_executable_params *params,
                                 pco_executable **out, pco_error *err)
{
    pco_executable_params known = {.size = sizeof known};
    PCO_NEEDS(out);
    *out = NULL;
    SESSION_NEEDS(session);
    pco_error unread;
    if (!err) err = &unread; /* what is found on the way is looked at */
    pco_status status = graph ? pco_graph_check(graph, err) : pco_fail_missing(err, __func__, "graph");
    for (uint32_t t = 0; !status && t < graph->n_tensors; t++) {
        const pco_tensor *x = &graph->tensors[t];
        if (x->kind == PCO_KIND_CONSTANT && !x->data && x->bytes)
            status = pco_fail(err, PCO_ERROR_INVALID, "constant '%s' has no data", x->name);
    }
    if (!status && params) status = pco_copy_sized(&known, sizeof known, params, params->size, err);
    if (status) return status;
    params = &known;
    for (uint32_t i = 0; i < session->n_devices; i++) {
        const session_slot *slot = &session->slots[i];
        if (!slot->plugin)
            return pco_fail(err, PCO_ERROR_DEVICE_LOST, "device %s was lost and could not be opened again",
                            slot->entry->id);
        if (slot->lost) /* whatever a self-test found there would be no kernel's fault */
            return pco_fail(err, PCO_ERROR_DEVICE_LOST,
                            "device %s was lost; close what is on it and open the session again", slot->entry->id);
    }
    pco_executable *executable = calloc(1, sizeof *executable);
    if (!executable) return executable_no_memory(err);
    executable->session = session;
    executable->name = strdup(params->name ? params->name : "");
    executable_enlist(executable);
    if (!executable->name) status = executable_no_memory(err);
    if (!status) status = executable_lower(executable, graph, params, err);
    if (!status) status = executable_partition(executable, params, err);
    session_selftest_save(session);
    if (!status) status = executable_parts(executable, err);
    if (!status) status = executable_expect(executable, err);
    if (status) {
        if (params->name) pco_fail_prefix(err, status, "%s", params->name);
        pco_executable_destroy(executable);
        return status;
    }
    *out = executable;
    return PCO_OK;
}

static pco_status executable_wait(pco_executable *executable, pco_error *err);

void pco_executable_destroy(pco_executable *executable)
{
    if (!executable || pco_registry_check(executable->session->registry, NULL)) return;
    pco_session *session = executable->session;
    pco_error ignored;
    if (executable_wait(executable, &ignored)) executable->running = 0; /* what ran is of no use any more */
    executable_delist(executable);
    for (uint32_t p = executable->n_parts; p-- > 0;) session_part_destroy(executable->session, &executable->parts[p]);
    free(executable->parts);
    free(executable->slots);
    free(executable->copies);
    free(executable->staging);
    free(executable->given);
    pco_graph_destroy(executable->graph);
    free(executable->name);
    free(executable);
    if (session->closed) pco_session_close(session);
}

uint32_t pco_executable_tensor(const pco_executable *executable, const char *name)
{
    if (!executable || !name) return PCO_NONE;
    const pco_graph *graph = executable->graph;
    for (uint32_t t = 0; t < graph->n_tensors; t++) {
        uint32_t kind = graph->tensors[t].kind;
        if ((kind == PCO_KIND_INPUT || kind == PCO_KIND_VALUE || kind == PCO_KIND_OUTPUT) &&
            strcmp(graph->tensors[t].name, name) == 0)
            return t;
    }
    return PCO_NONE;
}

const pco_tensor *pco_executable_describe(const pco_executable *executable, uint32_t handle)
{
    return executable && handle < executable->graph->n_tensors ? &executable->graph->tensors[handle] : NULL;
}

/* Is it what is read after a run (output 1), or written before? */
static int executable_has(const pco_tensor *x, int output)
{
    return output ? x->kind == PCO_KIND_OUTPUT : x->kind == PCO_KIND_INPUT || x->kind == PCO_KIND_VALUE;
}

/* `x` is another tensor, or NULL where the name that was asked for is none. Says which there are. */
static pco_status executable_fail_handle(const pco_executable *executable, const pco_tensor *x, int output,
                                         pco_error *err)
{
    const pco_graph *graph = executable->graph;
    char names[512] = "";
    size_t used = 0;
    for (uint32_t t = 0; t < graph->n_tensors && used < sizeof names - 64; t++)
        if (executable_has(&graph->tensors[t], output))
            used += (size_t)snprintf(names + used, sizeof names - used, "%s'%.40s'", used ? ", " : "",
                                     graph->tensors[t].name);
    const char *kind = output ? "output" : "input";
    if (!used) snprintf(names, sizeof names, "none");
    return x && x->name ? pco_fail(err, PCO_ERROR_INVALID, "'%.100s' is no %s; there are: %s", x->name, kind, names)
                        : pco_fail(err, PCO_ERROR_INVALID, "no handle of an %s; there are: %s", kind, names);
}

pco_status executable_check(const pco_executable *executable, uint32_t handle, uint64_t bytes, int output,
                            pco_error *err)
{
    const pco_tensor *x = pco_executable_describe(executable, handle);
    if (!x || !executable_has(x, output)) return executable_fail_handle(executable, x, output, err);
    if (bytes > x->bytes)
        return pco_fail(err, PCO_ERROR_INVALID, "tensor '%s' has %" PRIu64 " bytes, not %" PRIu64, x->name, x->bytes,
                        bytes);
    return PCO_OK;
}

void executable_move(pco_executable *executable, uint32_t handle, const void *data)
{
    for (uint32_t p = 0; p < executable->n_parts; p++) {
        const session_part *part = &executable->parts[p];
        const session_slot *slot = &executable->session->slots[part->slot];
        const uint32_t local = part->local[handle];
        if (local != PCO_NONE && part->places[local].buffer != PCO_NONE)
            slot->plugin->program->lend(slot->device, part->program, local, data);
    }
}

void executable_take_back(pco_executable *executable, uint32_t handle)
{
    if (executable->given[handle] != EXECUTABLE_LENT) return;
    executable_move(executable, handle, NULL);
    executable->given[handle] = 0;
    executable->n_missing++;
}

pco_status pco_executable_write(pco_executable *executable, uint32_t handle, const void *data, uint64_t bytes,
                                pco_error *err)
{
    EXECUTABLE_NEEDS(executable);
    PCO_NEEDS_SOME(data, bytes);
    pco_status status = executable_check(executable, handle, bytes, 0, err);
    if (!status) executable_take_back(executable, handle);
    for (uint32_t p = 0; !status && p < executable->n_parts; p++) {
        const session_part *part = &executable->parts[p];
        const session_slot *slot = &executable->session->slots[part->slot];
        uint32_t local = part->local[handle];
        if (local == PCO_NONE || part->places[local].buffer == PCO_NONE || bytes == 0) continue;
        const pco_place *place = &part->places[local];
        status =
            slot->plugin->buffer->write(slot->device, part->buffers[place->buffer], place->offset, data, bytes, err);
        session_noted(executable->session, part->slot, status);
    }
    if (!status && bytes) executable_give(executable, handle);
    return status;
}

static pco_status executable_read_local(const pco_executable *executable, uint32_t p, uint32_t local, void *data,
                                        uint64_t bytes, pco_error *err)
{
    const session_part *part = &executable->parts[p];
    const session_slot *slot = &executable->session->slots[part->slot];
    const pco_place *place = &part->places[local];
    if (place->buffer == PCO_NONE || bytes == 0) return PCO_OK;
    return session_noted(
        executable->session, part->slot,
        slot->plugin->buffer->read(slot->device, part->buffers[place->buffer], place->offset, data, bytes, err));
}

static pco_status executable_fail_unrun(const pco_executable *executable, uint32_t handle, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_INVALID, "output '%s' has not been computed: read it behind a pco_executable_run",
                    executable->graph->tensors[handle].name);
}

pco_status pco_executable_read(pco_executable *executable, uint32_t handle, void *data, uint64_t bytes, pco_error *err)
{
    EXECUTABLE_NEEDS(executable);
    PCO_NEEDS_SOME(data, bytes);
    pco_status status = executable_check(executable, handle, bytes, 1, err);
    if (!status && !executable->ran) status = executable_fail_unrun(executable, handle, err);
    if (status) return status;
    for (uint32_t p = 0; p < executable->n_parts; p++) { /* the first part that knows it is the one that makes it */
        uint32_t local = executable->parts[p].local[handle];
        if (local != PCO_NONE) return executable_read_local(executable, p, local, data, bytes, err);
    }
    return pco_fail(err, PCO_ERROR_INTERNAL, "output '%s' is made by no part", executable->graph->tensors[handle].name);
}

static pco_status executable_carry(pco_executable *executable, const executable_copy *copy, pco_error *err)
{
    const session_part *from_part = &executable->parts[copy->from_part], *part = &executable->parts[copy->to_part];
    const session_slot *slot = &executable->session->slots[part->slot];
    const pco_place *from = &from_part->places[copy->from], *place = &part->places[copy->to];
    if (place->buffer == PCO_NONE || from->buffer == PCO_NONE) return PCO_OK; /* it has no elements */
    pco_buffer *buffer = part->buffers[place->buffer];
    pco_status status = PCO_OK;
    if (copy->on_device) {
        status = slot->plugin->buffer->copy(slot->device, from_part->buffers[from->buffer], from->offset, buffer,
                                            place->offset, copy->bytes, err);
        return session_noted(executable->session, part->slot, status);
    }
    const void *data = copy->from_address;
    if (!data) {
        void *to = copy->to_address ? copy->to_address : executable->staging;
        status = executable_read_local(executable, copy->from_part, copy->from, to, copy->bytes, err);
        data = to;
    }
    if (status || copy->to_address) return status;
    return session_noted(executable->session, part->slot,
                         slot->plugin->buffer->write(slot->device, buffer, place->offset, data, copy->bytes, err));
}

/* What other parts made for this one. */
static pco_status executable_feed_part(pco_executable *executable, uint32_t p, pco_error *err)
{
    pco_status status = PCO_OK;
    for (uint32_t i = 0; !status && i < executable->n_copies; i++)
        if (executable->copies[i].to_part == p) status = executable_carry(executable, &executable->copies[i], err);
    return status;
}

static pco_status executable_said(pco_executable *executable, uint32_t p, pco_status status, pco_error *err)
{
    const session_slot *slot = &executable->session->slots[executable->parts[p].slot];
    session_noted(executable->session, executable->parts[p].slot, status);
    return status ? pco_fail_prefix(err, status, "device %s", slot->entry->id) : PCO_OK;
}

static pco_status executable_wait(pco_executable *executable, pco_error *err)
{
    if (!executable->running) return PCO_OK;
    const uint32_t p = executable->running_part;
    const session_slot *slot = &executable->session->slots[executable->parts[p].slot];
    executable->running = 0;
    return executable_said(executable, p, slot->plugin->queue->wait(slot->device, executable->ticket, UINT64_MAX, err),
                           err);
}

pco_status pco_executable_wait(pco_executable *executable, pco_error *err)
{
    EXECUTABLE_NEEDS(executable);
    return executable_wait(executable, err);
}

static pco_status executable_start_part(pco_executable *executable, uint32_t p, uint32_t first, uint32_t count,
                                        pco_error *err)
{
    const session_part *part = &executable->parts[p];
    const session_slot *slot = &executable->session->slots[part->slot];
    pco_status status = executable_wait(executable, err);
    if (!status && first == 0) status = executable_feed_part(executable, p, err);
    if (status) return status;
    status = slot->plugin->queue->submit(slot->device, part->program, first, count, &executable->ticket, err);
    executable->running = !status;
    executable->running_part = p;
    return executable_said(executable, p, status, err);
}

pco_status pco_executable_start(pco_executable *executable, uint32_t first, uint32_t count, pco_error *err)
{
    EXECUTABLE_NEEDS(executable);
    const uint32_t end = first + count, segments = pco_executable_segments(executable);
    uint32_t begin = 0; /* of the part */
    pco_status status = PCO_OK;
    if (first > segments || count > segments - first)
        return pco_fail(err, PCO_ERROR_INVALID, "%u segments from number %u on: the executable has %u", count, first,
                        segments);
    if (executable->n_missing) return executable_fail_missing(executable, err);
    executable->ran = 1;
    for (uint32_t p = 0; !status && p < executable->n_parts; p++) {
        const uint32_t after = begin + executable->parts[p].segments, from = first > begin ? first : begin,
                       to = end < after ? end : after;
        if (from < to || (begin == after && first <= begin && begin <= end))
            status = executable_start_part(executable, p, from - begin, to - from, err);
        begin = after;
    }
    return status;
}

uint32_t pco_executable_segments(const pco_executable *executable)
{
    uint32_t count = 0;
    for (uint32_t p = 0; executable && p < executable->n_parts; p++) count += executable->parts[p].segments;
    return count;
}

uint32_t pco_executable_until(const pco_executable *executable, const char *state)
{
    if (!executable || !state) return 0;
    const pco_graph *graph = executable->graph;
    uint32_t last = PCO_NONE, begin = 0;
    for (uint32_t n = 0; n < graph->n_nodes; n++)
        for (uint32_t k = 0; k < graph->nodes[n].n_outputs; k++) {
            if (graph->nodes[n].outputs[k] == PCO_NONE) continue;
            const pco_tensor *root = &graph->tensors[pco_graph_root(graph, graph->nodes[n].outputs[k])];
            if (root->kind == PCO_KIND_STATE && strcmp(root->name, state) == 0) last = n;
        }
    for (uint32_t p = 0; last != PCO_NONE && p < executable->n_parts; p++) {
        const session_part *part = &executable->parts[p];
        const pco_program_api *api = executable->session->slots[part->slot].plugin->program;
        if (last < part->first_node + part->n_nodes) {
            return begin +
                   (api->segments_until ? api->segments_until(part->program, last - part->first_node) : part->segments);
        }
        begin += part->segments;
    }
    return 0;
}

/* What the nodes of the last run took goes into the session's sum. */
static void executable_sum_times(const pco_executable *executable)
{
    pco_session *session = executable->session;
    for (uint32_t p = 0; p < executable->n_parts && session->nanoseconds != UINT64_MAX; p++) {
        const session_part *part = &executable->parts[p];
        const session_slot *slot = &session->slots[part->slot];
        pco_timing *timings = calloc(part->n_nodes + 1, sizeof *timings);
        uint32_t count = timings && slot->plugin->program->timings
                             ? slot->plugin->program->timings(slot->device, part->program, timings, part->n_nodes)
                             : 0;
        for (uint32_t i = 0; i < count && i < part->n_nodes; i++) session->nanoseconds += timings[i].nanoseconds;
        if (count == 0) session->nanoseconds = UINT64_MAX;
        free(timings);
    }
}

pco_status pco_executable_run(pco_executable *executable, pco_error *err)
{
    EXECUTABLE_NEEDS(executable);
    pco_status status = pco_executable_start(executable, 0, pco_executable_segments(executable), err);
    if (!status) status = pco_executable_wait(executable, err);
    if (!status && executable->session->profiling) executable_sum_times(executable);
    return status;
}

pco_executable_stats pco_executable_counts(const pco_executable *executable)
{
    pco_executable_stats stats = {.size = sizeof stats,
                                  .nodes = executable->graph->n_nodes,
                                  .parts = executable->n_parts,
                                  .cpu_nodes = executable->cpu_nodes,
                                  .decomposed = executable->decomposed};
    for (uint32_t p = 0; p < executable->n_parts; p++) {
        const session_part *part = &executable->parts[p];
        stats.constant_bytes += part->constant_bytes;
        stats.state_bytes += part->state_bytes;
        stats.arena_bytes += part->arena_bytes;
        stats.transient_bytes += part->transient_bytes;
        stats.io_bytes += part->io_bytes;
        stats.arena_lower_bound += part->lower_bound;
    }
    return stats;
}

pco_status pco_executable_inspect(const pco_executable *executable, pco_executable_stats *stats, pco_error *err)
{
    EXECUTABLE_NEEDS(executable);
    PCO_NEEDS(stats);
    const pco_executable_stats counts = pco_executable_counts(executable);
    return pco_fill_sized(stats, &counts, sizeof counts, err);
}

const pco_graph *pco_executable_graph(const pco_executable *executable) { return executable->graph; }
