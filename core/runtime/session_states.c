/* The states of a session: device memory with a name, which outlives executables. */
#include "runtime/session_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static pco_status session_zero(pco_session *session, const session_buffer *state, pco_error *err)
{
    static const unsigned char zeros[65536];
    const session_slot *s = &session->slots[state->slot];
    pco_status status = PCO_OK;
    for (uint64_t at = 0; !status && at < state->bytes; at += sizeof zeros) {
        uint64_t part = state->bytes - at < sizeof zeros ? state->bytes - at : sizeof zeros;
        status = s->plugin->buffer->write(s->device, state->buffer, at, zeros, part, err);
    }
    return status;
}

pco_status session_state(pco_session *session, uint32_t slot, const pco_tensor *tensor, session_buffer **out,
                         pco_error *err)
{
    for (session_buffer *state = session->buffers; state; state = state->next) {
        if (!state->state || strcmp(state->state, tensor->name) != 0) continue;
        if (state->slot != slot)
            return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                            "state '%s' is used by two devices at once: nodes that read or write it must stand in one "
                            "scope (pco_graph_scope) or run on one device; name one device instead of several",
                            tensor->name);
        if (state->dtype != tensor->dtype || state->rank != tensor->rank ||
            memcmp(state->shape, tensor->shape, tensor->rank * sizeof(int64_t)) != 0)
            return pco_fail(err, PCO_ERROR_INVALID, "state '%s' exists in this session with another shape or type",
                            tensor->name);
        *out = state;
        return PCO_OK;
    }
    session_buffer *state = calloc(1, sizeof *state);
    if (!state || !(state->state = strdup(tensor->name))) {
        free(state);
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for state '%s'", tensor->name);
    }
    state->slot = slot;
    state->bytes = (tensor->bytes + 3) / 4 * 4;
    state->content = tensor->bytes;
    state->dtype = tensor->dtype;
    state->rank = tensor->rank;
    memcpy(state->shape, tensor->shape, sizeof state->shape);
    pco_status status = session_buffer_create(session, slot, state->bytes, PCO_USAGE_DEVICE, &state->buffer, err);
    if (!status) status = session_zero(session, state, err);
    if (status) {
        session_buffer_destroy(session, slot, state->buffer, state->bytes);
        free(state->state);
        free(state);
        return pco_fail_prefix(err, status, "state '%s'", tensor->name);
    }
    state->next = session->buffers;
    session->buffers = state;
    *out = state;
    return PCO_OK;
}

uint32_t session_state_slot(const pco_session *session, const char *name)
{
    for (const session_buffer *state = session->buffers; state; state = state->next)
        if (state->state && strcmp(state->state, name) == 0) return state->slot;
    return PCO_NONE;
}

/* The state of that name and size. */
static pco_status session_find_state(const pco_session *session, const char *name, uint64_t bytes, session_buffer **out,
                                     pco_error *err)
{
    for (session_buffer *state = session->buffers; state; state = state->next) {
        if (!state->state || strcmp(state->state, name) != 0) continue;
        if (state->content != bytes)
            return pco_fail(err, PCO_ERROR_INVALID, "state '%s' has %" PRIu64 " bytes, not %" PRIu64, name,
                            state->content, bytes);
        *out = state;
        return PCO_OK;
    }
    return pco_fail(err, PCO_ERROR_NOT_FOUND, "the session has no state '%s'", name);
}

pco_status pco_session_write_state(pco_session *session, const char *name, const void *data, uint64_t bytes,
                                   pco_error *err)
{
    SESSION_NEEDS(session);
    PCO_NEEDS(name);
    PCO_NEEDS_SOME(data, bytes);
    session_buffer *state = NULL;
    pco_status status = session_find_state(session, name, bytes, &state, err);
    if (status || bytes == 0) return status;
    const session_slot *slot = &session->slots[state->slot];
    status = slot->plugin->buffer->write(slot->device, state->buffer, 0, data, bytes, err);
    session_noted(session, state->slot, status);
    return status ? pco_fail_prefix(err, status, "state '%s'", name) : PCO_OK;
}

pco_status pco_session_read_state(pco_session *session, const char *name, void *data, uint64_t bytes, pco_error *err)
{
    SESSION_NEEDS(session);
    PCO_NEEDS(name);
    PCO_NEEDS_SOME(data, bytes);
    session_buffer *state = NULL;
    pco_status status = session_find_state(session, name, bytes, &state, err);
    if (status || bytes == 0) return status;
    const session_slot *slot = &session->slots[state->slot];
    status = slot->plugin->buffer->read(slot->device, state->buffer, 0, data, bytes, err);
    session_noted(session, state->slot, status);
    return status ? pco_fail_prefix(err, status, "state '%s'", name) : PCO_OK;
}

pco_status pco_session_clear_state(pco_session *session, const char *name, pco_error *err)
{
    SESSION_NEEDS(session);
    PCO_NEEDS(name);
    for (session_buffer *state = session->buffers; state; state = state->next)
        if (state->state && strcmp(state->state, name) == 0) return session_zero(session, state, err);
    return pco_fail(err, PCO_ERROR_NOT_FOUND, "the session has no state '%s'", name);
}

/* ---- many at once ---- */

static int states_begins(const session_buffer *state, const char *prefix)
{
    const size_t n = strlen(prefix);
    return state->state && strncmp(state->state, prefix, n) == 0 && state->state[n] == '.';
}

void pco_session_drop_states(pco_session *session, const char *prefix)
{
    for (session_buffer **at = &session->buffers; *at;) {
        session_buffer *state = *at;
        if (!states_begins(state, prefix) || state->users > 0) {
            at = &state->next;
            continue;
        }
        *at = state->next;
        session_buffer_destroy(session, state->slot, state->buffer, state->bytes);
        free(state->state);
        free(state);
    }
}

/* The rows that both lengths have, to another buffer, by way of the host. */
static pco_status states_move(const session_slot *slot, const session_buffer *state, pco_buffer *to, int64_t length,
                              pco_error *err)
{
    enum { PIECE = 1 << 20 };
    const uint64_t row = state->content / (uint64_t)state->shape[0] / (uint64_t)state->shape[1];
    const int64_t kept = length < state->shape[1] ? length : state->shape[1];
    unsigned char *piece = malloc(PIECE);
    pco_status status = PCO_OK;
    if (!piece) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for state '%s'", state->state);
    for (int64_t lane = 0; lane < state->shape[0]; lane++) {
        const uint64_t bytes = (uint64_t)kept * row, before = (uint64_t)(lane * state->shape[1]) * row,
                       after = (uint64_t)(lane * length) * row;
        for (uint64_t at = 0; !status && at < bytes; at += PIECE) {
            const uint64_t part = bytes - at < PIECE ? bytes - at : PIECE;
            status = slot->plugin->buffer->read(slot->device, state->buffer, before + at, piece, part, err);
            if (!status) status = slot->plugin->buffer->write(slot->device, to, after + at, piece, part, err);
        }
    }
    free(piece);
    return status;
}

/* A state with another length: a new buffer, then its content, then the old one goes. */
static pco_status states_resize(pco_session *session, session_buffer *state, int64_t length, pco_error *err)
{
    const session_slot *slot = &session->slots[state->slot];
    session_buffer made = *state;
    uint64_t content;
    if (__builtin_mul_overflow(state->content / (uint64_t)state->shape[1], (uint64_t)length, &content) ||
        content > UINT64_MAX - 3)
        return pco_fail(err, PCO_ERROR_OUT_OF_DEVICE_MEMORY, "state '%s' of length %" PRId64 " is too large",
                        state->state, length);
    made.content = content;
    made.bytes = (content + 3) / 4 * 4;
    made.shape[1] = length;
    pco_status status = session_buffer_create(session, state->slot, made.bytes, PCO_USAGE_DEVICE, &made.buffer, err);
    if (!status) status = session_zero(session, &made, err);
    if (!status) status = states_move(slot, state, made.buffer, length, err);
    if (status) {
        session_buffer_destroy(session, state->slot, made.buffer, made.bytes);
        session_noted(session, state->slot, status);
        return pco_fail_prefix(err, status, "state '%s'", state->state);
    }
    session_buffer_destroy(session, state->slot, state->buffer, state->bytes);
    state->buffer = made.buffer;
    state->content = made.content;
    state->bytes = made.bytes;
    state->shape[1] = length;
    return PCO_OK;
}

pco_status pco_session_resize_states(pco_session *session, const char *prefix, int64_t length, pco_error *err)
{
    SESSION_NEEDS(session);
    for (session_buffer *state = session->buffers; state; state = state->next) {
        if (!states_begins(state, prefix)) continue;
        if (state->users > 0 || state->rank < 2 || state->shape[0] < 1 || state->shape[1] < 1 || length < 1)
            return pco_fail(err, PCO_ERROR_INVALID, "state '%s' is in use, or has no length", state->state);
    }
    for (session_buffer *state = session->buffers; state; state = state->next) {
        if (!states_begins(state, prefix) || state->shape[1] == length) continue;
        const pco_status status = states_resize(session, state, length, err);
        if (status) return status;
    }
    return PCO_OK;
}

void pco_session_hold_constants(pco_session *session, int hold)
{
    for (session_buffer *buffer = session->buffers, *next; buffer; buffer = next) {
        next = buffer->next;
        if (buffer->state || (!hold && !buffer->held)) continue;
        if (hold) {
            buffer->users++;
            buffer->held = 1;
        } else {
            buffer->held = 0;
            session_unuse(session, buffer);
        }
    }
}
