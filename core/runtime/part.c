/* One part of an executable: its own tables, what the plugin proposes for it, the plan, uploads, the program. */
#include "runtime/session_internal.h"

#include "base/dtype.h"
#include "base/error.h"
#include "runtime/plan.h"
#include "runtime/plugin_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static pco_status part_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory while preparing a program");
}

static uint64_t part_up(uint64_t bytes, uint64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

/* ---- tables ---- */

/* Is a tensor that another part made a state of this part's device, as a write has left it? It is found there. */
static int part_finds(const pco_session *session, const session_part *part, const pco_graph *graph, uint32_t t)
{
    const pco_tensor *root = &graph->tensors[pco_graph_root(graph, t)];
    return root->kind == PCO_KIND_STATE && session_state_slot(session, root->name) == part->slot;
}

/* Gives a graph tensor its place in the part's table. */
static uint32_t part_local(const pco_session *session, session_part *part, const pco_graph *graph, uint32_t t,
                           int made_here, const unsigned char *needed_after)
{
    if (t == PCO_NONE) return PCO_NONE;
    if (part->local[t] != PCO_NONE) return part->local[t];
    const pco_tensor *x = &graph->tensors[t];
    const int shares = x->alias != PCO_NONE && (made_here || part_finds(session, part, graph, t));
    uint32_t alias = shares ? part_local(session, part, graph, x->alias, 0, needed_after) : PCO_NONE;
    uint32_t local = part->view.n_tensors++;
    part->tensors[local] = *x;
    part->tensors[local].alias = alias;
    if (x->kind == PCO_KIND_TRANSIENT || x->kind == PCO_KIND_OUTPUT)
        part->tensors[local].kind = !made_here ? (shares ? PCO_KIND_TRANSIENT : PCO_KIND_INPUT)
                                    : x->kind == PCO_KIND_OUTPUT || needed_after[t] ? PCO_KIND_OUTPUT
                                                                                    : PCO_KIND_TRANSIENT;
    part->local[t] = local;
    return local;
}

static pco_status part_tables(const pco_session *session, const pco_graph *graph, session_part *part,
                              const unsigned char *needed_after, pco_error *err)
{
    uint32_t n = graph->n_tensors + 1;
    part->local = malloc(n * sizeof *part->local);
    part->tensors = calloc(n, sizeof *part->tensors);
    part->nodes = calloc(part->n_nodes + 1, sizeof *part->nodes);
    part->node_proposals = calloc(part->n_nodes + 1, sizeof *part->node_proposals);
    part->workspaces = calloc(part->n_nodes + 1, sizeof *part->workspaces);
    part->tensor_proposals = calloc(n, sizeof *part->tensor_proposals);
    part->places = calloc(n, sizeof *part->places);
    part->view_offsets = calloc(n, sizeof *part->view_offsets);
    part->viewed = calloc(n, 1);
    part->shared = calloc(n, sizeof(*part->shared));
    if (!part->local || !part->tensors || !part->nodes || !part->node_proposals || !part->workspaces ||
        !part->tensor_proposals || !part->places || !part->view_offsets || !part->viewed || !part->shared)
        return part_no_memory(err);
    for (uint32_t t = 0; t < n; t++) part->local[t] = PCO_NONE;
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        const pco_node *node = &graph->nodes[part->first_node + i];
        part->nodes[i] = *node;
        for (uint32_t k = 0; k < node->n_inputs; k++)
            part->nodes[i].inputs[k] = part_local(session, part, graph, node->inputs[k], 0, needed_after);
        for (uint32_t k = 0; k < node->n_outputs; k++)
            part->nodes[i].outputs[k] = part_local(session, part, graph, node->outputs[k], 1, needed_after);
    }
    part->view.size = sizeof part->view;
    part->view.n_nodes = part->n_nodes;
    part->view.tensors = part->tensors;
    part->view.nodes = part->nodes;
    return PCO_OK;
}

static uint32_t part_root(const session_part *part, uint32_t t)
{
    while (part->tensors[t].alias != PCO_NONE) t = part->tensors[t].alias;
    return t;
}

/* Where a tensor begins in the memory of its root. */
static uint64_t part_offset(const session_part *part, uint32_t t)
{
    uint64_t offset = 0;
    for (; part->tensors[t].alias != PCO_NONE; t = part->tensors[t].alias) offset += part->view_offsets[t];
    return offset;
}

/* ---- buffers ---- */

static pco_status part_add_buffer(session_part *part, pco_buffer *buffer, uint64_t own_bytes, int owned,
                                  uint32_t *index, pco_error *err)
{
    if (part->n_buffers == part->buffer_capacity) {
        uint32_t capacity = part->buffer_capacity ? 2 * part->buffer_capacity : 16;
        pco_buffer **buffers = realloc(part->buffers, capacity * sizeof(*buffers));
        if (buffers) part->buffers = buffers;
        uint64_t *bytes = realloc(part->own_bytes, capacity * sizeof *bytes);
        if (bytes) part->own_bytes = bytes;
        unsigned char *flags = realloc(part->owned, capacity);
        if (flags) part->owned = flags;
        if (!buffers || !bytes || !flags) return part_no_memory(err);
        part->buffer_capacity = capacity;
    }
    part->buffers[part->n_buffers] = buffer;
    part->own_bytes[part->n_buffers] = own_bytes;
    part->owned[part->n_buffers] = (unsigned char)owned;
    *index = part->n_buffers++;
    return PCO_OK;
}

/* Makes a shared buffer one of the plan's buffers, and counts the use. */
static pco_status part_share(session_part *part, session_buffer *shared, uint32_t *index, pco_error *err)
{
    for (uint32_t i = 0; i < part->n_buffers; i++)
        if (part->buffers[i] == shared->buffer) {
            *index = i;
            return PCO_OK;
        }
    pco_status status = part_add_buffer(part, shared->buffer, 0, 0, index, err);
    if (status) return status;
    shared->users++;
    part->shared[part->n_shared++] = shared;
    return PCO_OK;
}

/* A buffer of the part's own; nothing when bytes is 0. */
static pco_status part_own_buffer(pco_session *session, session_part *part, uint64_t bytes, uint32_t usage,
                                  uint32_t *index, pco_error *err)
{
    pco_buffer *buffer;
    *index = PCO_NONE;
    if (bytes == 0) return PCO_OK;
    if (part->plan_only) return part_add_buffer(part, NULL, bytes, 0, index, err);
    pco_status status = session_buffer_create(session, part->slot, bytes, usage, &buffer, err);
    if (status) return status;
    status = part_add_buffer(part, buffer, bytes, 1, index, err);
    if (status) session_buffer_destroy(session, part->slot, buffer, bytes);
    return status;
}

static void part_place(session_part *part, uint32_t t, uint32_t buffer, uint64_t offset, uint64_t bytes)
{
    part->places[t] = (pco_place){.buffer = bytes ? buffer : PCO_NONE, .offset = offset, .bytes = bytes};
}

static uint64_t part_room(const session_part *part, uint32_t t) { return part_up(part->tensor_proposals[t].bytes, 4); }

/* ---- constants ---- */

static pco_status part_upload(pco_session *session, session_part *part, uint32_t t, session_buffer *buffer,
                              uint64_t offset, pco_error *err)
{
    const session_slot *slot = &session->slots[part->slot];
    const pco_tensor *x = &part->tensors[t];
    const pco_tensor_proposal *want = &part->tensor_proposals[t];
    if (want->layout == 0)
        return slot->plugin->buffer->write(slot->device, buffer->buffer, offset, x->data, x->bytes, err);
    void *converted = malloc(want->bytes ? want->bytes : 1);
    if (!converted) return part_no_memory(err);
    pco_status status = slot->plugin->program->convert(slot->device, x, want->layout, x->data, converted, want->bytes,
                                                       err); /* it is there: pco_proposal_check */
    if (!status)
        status = slot->plugin->buffer->write(slot->device, buffer->buffer, offset, converted, want->bytes, err);
    free(converted);
    return status;
}

/* Uploads constants[first .. first+count-1] into one new shared buffer of `bytes`. */
static pco_status part_constant_chunk(pco_session *session, session_part *part, const uint32_t *constants,
                                      uint32_t count, uint64_t bytes, pco_error *err)
{
    uint32_t index;
    session_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) return part_no_memory(err);
    buffer->slot = part->slot;
    buffer->bytes = bytes;
    pco_status status = session_buffer_create(session, part->slot, bytes, PCO_USAGE_DEVICE, &buffer->buffer, err);
    if (status) {
        free(buffer);
        return pco_fail_prefix(err, status, "weights");
    }
    buffer->next = session->buffers;
    session->buffers = buffer;
    buffer->users = 1; /* kept while this function works */
    status = part_share(part, buffer, &index, err);
    uint64_t offset = 0;
    for (uint32_t i = 0; !status && i < count; i++) {
        uint32_t t = constants[i];
        offset = part_up(offset, part->tensor_proposals[t].alignment);
        status = part_upload(session, part, t, buffer, offset, err);
        if (!status)
            status = session_keep_constant(session, buffer, &part->tensors[t], part->tensor_proposals[t].layout, offset,
                                           part_room(part, t), err);
        part_place(part, t, index, offset, part_room(part, t));
        offset += part_room(part, t);
    }
    session_unuse(session, buffer);
    return status;
}

/* A constant that the device can read where the host has it. */
static pco_status part_import(pco_session *session, session_part *part, uint32_t t, int *done, pco_error *err)
{
    const pco_tensor_proposal *want = &part->tensor_proposals[t];
    uint64_t offset, room = part_room(part, t);
    uint32_t index;
    session_buffer *buffer = session_import(session, part->slot, &part->tensors[t], want->alignment, room, &offset);
    *done = buffer != NULL;
    if (!buffer) return PCO_OK;
    pco_status status = part_share(part, buffer, &index, err);
    if (!status) status = session_keep_constant(session, buffer, &part->tensors[t], 0, offset, room, err);
    if (!status) part_place(part, t, index, offset, room);
    session_unuse(session, buffer);
    return status;
}

/* Constants that lie one behind the other in the file do so on the device, so that a graph for which they are one (q, k
 * and v in one product) finds them there. */
static void part_file_order(const session_part *part, uint32_t *constants, uint32_t count)
{
    for (uint32_t i = 0; i + 1 < count; i++) {
        const pco_tensor *x = &part->tensors[constants[i]];
        const unsigned char *end = (const unsigned char *)x->data + x->bytes;
        for (uint32_t k = i + 2; k < count; k++) {
            const uint32_t t = constants[k];
            if (part->tensors[t].data != end) continue;
            memmove(&constants[i + 2], &constants[i + 1], (k - i - 1) * sizeof *constants);
            constants[i + 1] = t;
            break;
        }
    }
}

/* Uploads constants in chunks, which are no larger than usual unless one tensor is. */
static pco_status part_chunks(pco_session *session, session_part *part, const uint32_t *constants, uint32_t count,
                              pco_error *err)
{
    const uint64_t limit = session->slots[part->slot].entry->info.max_allocation, usual = UINT64_C(256) << 20;
    uint64_t bytes = 0;
    uint32_t first = 0;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; !status && i < count; i++) {
        const uint64_t room = part_room(part, constants[i]);
        uint64_t end = part_up(bytes, part->tensor_proposals[constants[i]].alignment) + room;
        if (i > first && (end > limit || end > usual)) {
            status = part_constant_chunk(session, part, constants + first, i - first, bytes, err);
            first = i;
            end = room;
        }
        bytes = end;
    }
    if (!status && count > first)
        status = part_constant_chunk(session, part, constants + first, count - first, bytes, err);
    return status;
}

/* Finds a constant where the session or the device has it already. */
static pco_status part_constant_there(pco_session *session, session_part *part, uint32_t t, int *done, pco_error *err)
{
    const uint64_t room = part_room(part, t);
    session_buffer *known;
    uint64_t offset;
    uint32_t index;
    *done = 0;
    if (session_find_constant(session, part->slot, &part->tensors[t], &part->tensor_proposals[t], room, &known,
                              &offset)) {
        *done = 1;
        pco_status status = part_share(part, known, &index, err);
        if (!status) part_place(part, t, index, offset, room);
        return status;
    }
    return part->tensor_proposals[t].layout == 0 ? part_import(session, part, t, done, err) : PCO_OK;
}

static pco_status part_constants(pco_session *session, session_part *part, pco_error *err)
{
    const uint64_t limit = session->slots[part->slot].entry->info.max_allocation;
    uint32_t *waiting = malloc((part->view.n_tensors + 1) * sizeof *waiting), n = 0;
    pco_status status = waiting ? PCO_OK : part_no_memory(err);
    for (uint32_t t = 0; !status && t < part->view.n_tensors; t++) {
        const pco_tensor *x = &part->tensors[t];
        if (x->kind != PCO_KIND_CONSTANT) continue;
        const uint64_t room = part_room(part, t);
        int done;
        part->constant_bytes += room;
        if (!x->data && x->bytes) status = pco_fail(err, PCO_ERROR_INVALID, "constant '%s' has no data", x->name);
        if (status || x->bytes == 0) {
            part_place(part, t, PCO_NONE, 0, 0);
            continue;
        }
        if (room > limit) {
            status = pco_fail(err, PCO_ERROR_OUT_OF_DEVICE_MEMORY,
                              "tensor '%s' of %" PRIu64 " bytes is larger than one allocation of this device, %" PRIu64
                              " bytes",
                              x->name, room, limit);
            break;
        }
        status = part_constant_there(session, part, t, &done, err);
        if (!status && !done) waiting[n++] = t;
    }
    if (!status) part_file_order(part, waiting, n);
    if (!status) status = part_chunks(session, part, waiting, n, err);
    free(waiting);
    return status;
}

/* ---- states, inputs, outputs ---- */

static pco_status part_states(pco_session *session, session_part *part, pco_error *err)
{
    for (uint32_t t = 0; t < part->view.n_tensors; t++) {
        uint32_t index;
        session_buffer *state;
        if (part->tensors[t].kind != PCO_KIND_STATE) continue;
        pco_status status = session_state(session, part->slot, &part->tensors[t], &state, err);
        if (!status) status = part_share(part, state, &index, err);
        if (status) return status;
        part_place(part, t, index, 0, state->bytes);
        part->state_bytes += state->bytes;
    }
    return PCO_OK;
}

/* All roots of one kind side by side in one buffer. */
static pco_status part_side_by_side(pco_session *session, session_part *part, const unsigned char *group, int kind,
                                    uint32_t usage, pco_error *err)
{
    uint64_t bytes = 0;
    uint32_t index;
    for (uint32_t t = 0; t < part->view.n_tensors; t++)
        if (group[t] == kind) {
            bytes = part_up(bytes, part->tensor_proposals[t].alignment);
            part_place(part, t, 0, bytes, part_room(part, t));
            bytes += part_room(part, t);
        }
    pco_status status = part_own_buffer(session, part, bytes, usage, &index, err);
    for (uint32_t t = 0; t < part->view.n_tensors; t++)
        if (group[t] == kind && part->places[t].bytes) part->places[t].buffer = index;
    part->io_bytes += bytes;
    return status;
}

/* ---- transients ---- */

/* Lets output 0 of a node take over the memory of a transient operand that dies there. */
static void part_in_place(session_part *part, uint32_t *owner, pco_lifetime *life, const unsigned char *group)
{
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        const pco_node *node = &part->nodes[i];
        uint32_t out = node->outputs[0], allowed = part->node_proposals[i].in_place;
        if (!allowed || part->tensors[out].alias != PCO_NONE || group[out] != PCO_KIND_TRANSIENT) continue;
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            if (!(allowed >> k & 1) || node->inputs[k] == PCO_NONE) continue;
            uint32_t from = part_root(part, node->inputs[k]);
            if (part->viewed[from]) continue; /* the operand may begin elsewhere, and others lie beside it */
            if (group[from] != PCO_KIND_TRANSIENT || part_room(part, from) < part_room(part, out)) continue;
            while (owner[from] != from) from = owner[from];
            int twice = 0; /* the same memory as another operand that may not be overwritten */
            for (uint32_t other = 0; other < node->n_inputs; other++) {
                if (other == k || node->inputs[other] == PCO_NONE || (allowed >> other & 1)) continue;
                uint32_t r = part_root(part, node->inputs[other]);
                while (owner[r] != r) r = owner[r];
                twice |= r == from;
            }
            if (twice || life[from].last != i) continue;
            owner[out] = from;
            life[from].last = life[out].last;
            break;
        }
    }
}

static pco_status part_arenas(pco_session *session, session_part *part, pco_interval *intervals, uint32_t count,
                              uint32_t *first_buffer, pco_error *err)
{
    pco_chunk_sizes sizes;
    pco_status status =
        pco_plan_intervals(intervals, count, session->slots[part->slot].entry->info.max_allocation, &sizes, err);
    if (status) return status;
    part->lower_bound = sizes.lower_bound;
    *first_buffer = part->n_buffers;
    for (uint32_t i = 0; !status && i < sizes.count; i++) {
        uint32_t index;
        status = part_own_buffer(session, part, sizes.bytes[i], PCO_USAGE_DEVICE, &index, err);
        part->arena_bytes += sizes.bytes[i];
    }
    free(sizes.bytes);
    return status;
}

static pco_status part_transients(pco_session *session, session_part *part, const unsigned char *group, pco_error *err)
{
    uint32_t n = part->view.n_tensors, count = 0, first_buffer = 0;
    uint32_t alignment = session->slots[part->slot].entry->info.buffer_alignment;
    uint32_t *owner = malloc((n + 1) * sizeof *owner), *slot = malloc((n + 1) * sizeof *slot);
    pco_lifetime *life = malloc((n + 1) * sizeof *life);
    pco_interval *intervals = calloc(n + part->n_nodes + 1, sizeof *intervals);
    pco_status status = PCO_OK;
    if (!owner || !life || !slot || !intervals) {
        status = part_no_memory(err);
        goto done;
    }
    for (uint32_t t = 0; t < n; t++) owner[t] = t;
    pco_plan_lifetimes(part->tensors, n, part->nodes, part->n_nodes, life);
    part_in_place(part, owner, life, group);
    for (uint32_t t = 0; t < n; t++) {
        slot[t] = PCO_NONE;
        if (group[t] != PCO_KIND_TRANSIENT || life[t].first == PCO_NONE || part_room(part, t) == 0) continue;
        part->transient_bytes += part_room(part, t);
        if (owner[t] != t) continue;
        slot[t] = count;
        intervals[count++] =
            (pco_interval){life[t].first, life[t].last, part_room(part, t), part->tensor_proposals[t].alignment, 0, 0};
    }
    uint32_t workspaces = count;
    part->activation_peak = pco_plan_lower_bound(intervals, count);
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        uint64_t bytes = part_up(part->node_proposals[i].workspace, 4);
        if (bytes == 0) continue;
        intervals[count++] = (pco_interval){i, i, bytes, alignment, 0, 0};
        part->workspace_bytes += bytes;
        if (bytes > part->workspace_peak) part->workspace_peak = bytes;
    }
    status = part_arenas(session, part, intervals, count, &first_buffer, err);
    for (uint32_t t = 0; !status && t < n; t++) {
        uint32_t top = t;
        while (owner[top] != top) top = owner[top];
        if (group[t] != PCO_KIND_TRANSIENT || slot[top] == PCO_NONE) continue;
        part_place(part, t, first_buffer + intervals[slot[top]].chunk, intervals[slot[top]].offset, part_room(part, t));
    }
    for (uint32_t i = 0; !status && i < part->n_nodes; i++) {
        part->workspaces[i].buffer = PCO_NONE;
        if (!part->node_proposals[i].workspace) continue;
        const pco_interval *w = &intervals[workspaces++];
        part->workspaces[i] = (pco_place){first_buffer + w->chunk, w->offset, w->bytes};
    }
done:
    free(owner);
    free(life);
    free(slot);
    free(intervals);
    return status;
}

/* ---- the whole ---- */

static pco_status part_propose(pco_session *session, session_part *part, pco_error *err)
{
    const session_slot *slot = &session->slots[part->slot];
    uint32_t alignment = slot->entry->info.buffer_alignment;
    if (alignment < 16) alignment = 16;
    for (uint32_t i = 0; i < part->n_nodes; i++) part->node_proposals[i] = (pco_node_proposal){.variant = PCO_NONE};
    for (uint32_t t = 0; t < part->view.n_tensors; t++)
        part->tensor_proposals[t] = (pco_tensor_proposal){.alignment = alignment, .bytes = part->tensors[t].bytes};
    pco_proposal proposal = {.size = sizeof proposal, .nodes = part->node_proposals, .tensors = part->tensor_proposals};
    pco_status status = slot->plugin->program->propose(slot->device, &part->view, &proposal, err);
    if (!status) status = pco_proposal_check(slot->plugin, &part->view, &proposal, err);
    return status;
}

/* What memory each tensor needs of its own: its kind, an OUTPUT when any alias is one, 255 for none. */
static void part_groups(const session_part *part, unsigned char *group)
{
    for (uint32_t t = 0; t < part->view.n_tensors; t++)
        group[t] = part->tensors[t].alias == PCO_NONE ? (unsigned char)part->tensors[t].kind : 255;
    for (uint32_t t = 0; t < part->view.n_tensors; t++) {
        uint32_t root = part_root(part, t);
        if (part->tensors[t].kind == PCO_KIND_OUTPUT && group[root] == PCO_KIND_TRANSIENT)
            group[root] = PCO_KIND_OUTPUT;
    }
}

/* Where in x the elements of a slice lie, in elements, if they are one piece; -1 if not. */
static int64_t part_slice_begin(const pco_tensor *x, const pco_slice_attrs *attrs)
{
    int64_t begin = 0, stride = 1;
    int whole = 1; /* all dimensions behind this one are taken as they are */
    for (uint32_t d = x->rank; d-- > 0;) {
        if (attrs->sizes[d] != 1 && (attrs->steps[d] != 1 || !whole)) return -1;
        whole &= attrs->sizes[d] == x->shape[d];
        begin += attrs->starts[d] * stride;
        stride *= x->shape[d];
    }
    return begin;
}

/* Slices that are one piece of a transient are found there, and nothing need be copied: where the host can read
 * neither, no other part does, and the piece begins where the plugin wants a tensor like it to begin. */
static void part_views(const session_slot *slot, session_part *part, unsigned char *group)
{
    if ((slot->plugin->abi_version & 0xffff) < 2) return; /* it would copy the piece onto itself */
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        const pco_node *node = &part->nodes[i];
        if (node->op != PCO_OP_SLICE) continue;
        const uint32_t x = node->inputs[0], y = node->outputs[0], root = part_root(part, x);
        const pco_tensor_proposal *want = &part->tensor_proposals[y];
        if (group[y] != PCO_KIND_TRANSIENT || group[root] != PCO_KIND_TRANSIENT || !part->tensors[y].bytes) continue;
        const int64_t begin = part_slice_begin(&part->tensors[x], node->attrs);
        if (begin < 0) continue;
        const uint64_t offset = (uint64_t)begin * pco_dtype_block_bytes(part->tensors[x].dtype),
                       all = part_offset(part, x) + offset;
        if (all % want->alignment || part->tensor_proposals[root].alignment % want->alignment ||
            all + part_room(part, y) > part_room(part, root))
            continue;
        part->tensors[y].alias = x;
        part->view_offsets[y] = offset;
        part->viewed[root] = 1;
        group[y] = 255;
    }
}

/* Tensors that share memory lie where its owner does, or within. */
static void part_place_shared(session_part *part)
{
    for (uint32_t t = 0; t < part->view.n_tensors; t++) {
        if (part->tensors[t].alias == PCO_NONE) continue;
        const uint64_t room = part_room(part, t);
        pco_place place = part->places[part_root(part, t)];
        place.offset += part_offset(part, t);
        if (place.bytes > room) place.bytes = room;
        part->places[t] = place;
    }
}

static pco_status part_check_memory(pco_session *session, const session_part *part, pco_error *err)
{
    const session_slot *slot = &session->slots[part->slot];
    uint64_t need = 0, left = slot->plugin->device->memory_left(slot->device), offset;
    session_buffer *buffer;
    for (uint32_t t = 0; t < part->view.n_tensors; t++) {
        const pco_tensor *x = &part->tensors[t];
        if (x->kind == PCO_KIND_CONSTANT && x->data &&
            !session_find_constant(session, part->slot, x, &part->tensor_proposals[t], part_room(part, t), &buffer,
                                   &offset))
            need += part_room(part, t);
    }
    if (left == 0 || need <= left) return PCO_OK;
    return pco_fail(
        err, PCO_ERROR_OUT_OF_DEVICE_MEMORY,
        "the weights need %.1f MiB and device %s (%s) has %.1f MiB left; use a smaller or more quantised model, "
        "or another device",
        (double)need / 1048576, slot->entry->id, slot->entry->info.name, (double)left / 1048576);
}

pco_status session_part_create(pco_session *session, const pco_graph *graph, session_part *part,
                               const unsigned char *needed_after, pco_error *err)
{
    const session_slot *slot = &session->slots[part->slot];
    unsigned char *group = NULL;
    pco_status status = part_tables(session, graph, part, needed_after, err);
    if (!status) status = part_propose(session, part, err);
    if (!status && !part->plan_only) status = part_check_memory(session, part, err);
    if (!status && !(group = malloc(part->view.n_tensors + 1))) status = part_no_memory(err);
    if (!status) {
        part_groups(part, group);
        part_views(slot, part, group);
        for (uint32_t t = 0; t < part->view.n_tensors; t++) part_place(part, t, PCO_NONE, 0, 0);
        if (!part->plan_only) status = part_constants(session, part, err);
    }
    if (!status && !part->plan_only) status = part_states(session, part, err);
    if (!status) status = part_side_by_side(session, part, group, PCO_KIND_INPUT, PCO_USAGE_UPLOAD, err);
    if (!status) status = part_side_by_side(session, part, group, PCO_KIND_VALUE, PCO_USAGE_UPLOAD, err);
    if (!status) status = part_side_by_side(session, part, group, PCO_KIND_OUTPUT, PCO_USAGE_READBACK, err);
    if (!status) status = part_transients(session, part, group, err);
    if (!status) part_place_shared(part);
    if (!status && !part->plan_only) {
        pco_proposal proposal = {
            .size = sizeof proposal, .nodes = part->node_proposals, .tensors = part->tensor_proposals};
        pco_plan plan = {.size = sizeof plan,
                         .n_buffers = part->n_buffers,
                         .buffers = part->buffers,
                         .tensors = part->places,
                         .workspaces = part->workspaces};
        status = slot->plugin->program->prepare(slot->device, &part->view, &proposal, &plan, &part->program, err);
    }
    if (!status && !part->plan_only) part->segments = slot->plugin->program->segments(part->program);
    free(group);
    return status;
}

void session_part_destroy(pco_session *session, session_part *part)
{
    const session_slot *slot = &session->slots[part->slot];
    if (part->program) slot->plugin->program->destroy(slot->device, part->program);
    for (uint32_t i = 0; i < part->n_buffers; i++)
        if (part->owned[i]) session_buffer_destroy(session, part->slot, part->buffers[i], part->own_bytes[i]);
    for (uint32_t i = 0; i < part->n_shared; i++) session_unuse(session, part->shared[i]);
    free(part->local);
    free(part->tensors);
    free(part->nodes);
    free(part->node_proposals);
    free(part->tensor_proposals);
    free(part->places);
    free(part->view_offsets);
    free(part->viewed);
    free(part->workspaces);
    free(part->buffers);
    free(part->own_bytes);
    free(part->owned);
    free(part->shared);
}
