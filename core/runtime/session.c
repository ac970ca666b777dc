#include "runtime/session_internal.h"
#include "runtime/selftest.h"

#include "base/error.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Up to this size a constant is known by its content; above it by name and address. */
enum { SESSION_HASHED = 1 << 16 };

/* Opens all devices of a set, or none. */
static pco_status session_open_set(pco_session *session, const pco_device_set *set, pco_error *err)
{
    pco_status status = PCO_OK;
    for (uint32_t i = 0; !status && i < set->count; i++) status = session_open_slot(session, i, set->devices[i], err);
    if (status) {
        session_close_slots(session);
        return status;
    }
    session->n_devices = set->count;
    pco_registry_describe_set(session->registry, set, &session->whole);
    return PCO_OK;
}

pco_registry *pco_session_registry(const pco_session *session) { return session->registry; }

pco_status pco_registry_open(pco_registry *registry, const char *devices, pco_session **out, pco_error *err)
{
    enum { MOST = 64 };
    pco_device_set sets[MOST];
    uint32_t count;
    *out = NULL;
    pco_error unread;
    if (!err) err = &unread;
    if (!devices || !*devices) devices = pco_registry_config(registry)->backend;
    pco_status status = pco_registry_select_sets(registry, devices, sets, MOST, &count, err);
    if (status) return status;
    pco_session *session = calloc(1, sizeof *session);
    if (!session) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a session");
    session->registry = registry;
    for (uint32_t i = 0; i < count && i < MOST; i++) {
        status = session_open_set(session, &sets[i], err);
        if (!status) break;
        if (i + 1 < count)
            pco_log_line(pco_registry_config(registry), PCO_LOG_WARNING, "%s; the next device is tried", err->message);
    }
    if (status) {
        free(session);
        return status;
    }
    pco_registry_opened(registry);
    *out = session;
    return PCO_OK;
}

pco_status pco_session_profile(pco_session *session, int on, pco_error *err)
{
    SESSION_NEEDS(session);
    for (uint32_t i = 0; i < session->n_devices; i++) {
        const session_slot *slot = &session->slots[i];
        const pco_device_api *api = slot->plugin->device;
        pco_status status = api->profile && slot->plugin->program->timings
                                ? api->profile(slot->device, on, err)
                                : pco_fail(err, PCO_ERROR_UNSUPPORTED, "its plugin takes no timings");
        if (status) return pco_fail_prefix(err, session_noted(session, i, status), "device %s", slot->entry->id);
    }
    session->profiling = on;
    if (on) session->nanoseconds = 0;
    return PCO_OK;
}

uint64_t pco_session_nanoseconds(const pco_session *session)
{
    return !session || session->nanoseconds == UINT64_MAX ? 0 : session->nanoseconds;
}

pco_status session_open_cpu(pco_session *session, pco_error *err)
{
    uint32_t index, count;
    if (session->slots[SESSION_CPU].plugin) return PCO_OK;
    pco_status status = pco_registry_select(session->registry, "cpu:native", &index, 1, &count, err);
    if (!status) status = session_open_slot(session, SESSION_CPU, index, err);
    return status;
}

/* Closed while something was made in it: that can do nothing any more but be destroyed, and the last takes the session
 * with it. */
static void session_close_early(pco_session *session)
{
    uint32_t count = session->holders;
    for (const pco_executable *e = session->executables; e; e = e->next) count++;
    if (!session->closed)
        pco_log_line(
            pco_registry_config(session->registry), PCO_LOG_ERROR,
            "pco_session_close: of what was made in the session (executables, trainings), %u %s not destroyed, "
            "and can do nothing any more; destroy these first",
            count, count == 1 ? "was" : "were");
    session->closed = 1;
}

void pco_session_hold(pco_session *session) { session->holders++; }

void pco_session_release(pco_session *session)
{
    session->holders--;
    if (session->closed) pco_session_close(session);
}

void pco_session_close(pco_session *session)
{
    if (!session || pco_registry_check(session->registry, NULL)) return; /* a child has no device to give it back to */
    if (session->executables || session->holders) {
        session_close_early(session);
        return;
    }
    session_selftest_close(session);
    while (session->constants) {
        session_constant *next = session->constants->next;
        free(session->constants->content);
        free(session->constants);
        session->constants = next;
    }
    while (session->buffers) {
        session_buffer *shared = session->buffers;
        session->buffers = shared->next;
        session_buffer_destroy(session, shared->slot, shared->buffer, shared->bytes);
        free(shared->state);
        free(shared);
    }
    while (session->lent) {
        session_lent *next = session->lent->next;
        free(session->lent);
        session->lent = next;
    }
    while (session->units) {
        session_unit *next = session->units->next;
        free(session->units->name);
        free(session->units);
        session->units = next;
    }
    session_close_slots(session);
    pco_registry *registry = session->registry;
    free(session);
    pco_registry_closed(registry);
}

const pco_device_info *pco_session_device(const pco_session *session) { return session ? &session->whole.info : NULL; }

const char *pco_session_device_id(const pco_session *session) { return session ? session->whole.id : NULL; }

uint64_t pco_session_memory(const pco_session *session, uint64_t *peak)
{
    if (peak) *peak = session ? session->peak : 0;
    return session ? session->bytes : 0;
}

pco_status session_buffer_create(pco_session *session, uint32_t slot, uint64_t bytes, uint32_t usage,
                                 pco_buffer **buffer, pco_error *err)
{
    const session_slot *s = &session->slots[slot];
    *buffer = NULL;
    pco_status status = s->plugin->buffer->create(s->device, bytes, usage, buffer, err);
    if (status) return pco_fail_prefix(err, status, "device %s", s->entry->id);
    session->slots[slot].live++;
    session->bytes += bytes;
    if (session->bytes > session->peak) session->peak = session->bytes;
    return PCO_OK;
}

void session_buffer_destroy(pco_session *session, uint32_t slot, pco_buffer *buffer, uint64_t bytes)
{
    if (!buffer) return;
    session->slots[slot].plugin->buffer->destroy(session->slots[slot].device, buffer);
    session->slots[slot].live--;
    session->bytes -= bytes;
}

static uint64_t session_constant_key(const pco_tensor *tensor)
{
    uint64_t key = pco_hash(PCO_HASH_START, tensor->shape, tensor->rank * sizeof *tensor->shape);
    key = pco_hash(key, &tensor->dtype, sizeof tensor->dtype);
    if (tensor->bytes <= SESSION_HASHED) return pco_hash(key, tensor->data, tensor->bytes);
    return pco_hash(key, tensor->name, strlen(tensor->name));
}

/* A hash says which constants may be the same; what they hold says which are. */
static int session_is_constant(const session_constant *c, const pco_tensor *tensor)
{
    if (tensor->bytes > SESSION_HASHED) return c->data == tensor->data;
    return c->data_bytes == tensor->bytes && (!tensor->bytes || memcmp(c->content, tensor->data, tensor->bytes) == 0);
}

/* Do the names of constants that were made one hold this one? */
static int session_names(const char *names, const char *name)
{
    const char *at = strstr(names, name);
    const size_t length = strlen(name);
    return at && (at == names || at[-1] == ' ') && (at[length] == 0 || at[length] == ',');
}

/* Do `bytes` of a constant begin at `data`, and are they what is to be there? A large one's are: it is borrowed. */
static int session_holds(const session_constant *c, const unsigned char *data, uint64_t bytes)
{
    if (c->layout || data < c->data || data >= c->data + c->data_bytes) return 0;
    const uint64_t at = (uint64_t)(data - c->data);
    if (bytes > c->data_bytes - at) return 0;
    return c->data_bytes > SESSION_HASHED || memcmp((const unsigned char *)c->content + at, data, bytes) == 0;
}

/* Is `tensor` on the device as constants that lie one behind the other in a buffer, of which c is the first? */
static int session_follow(const pco_session *session, const session_constant *c, const pco_tensor *tensor)
{
    const unsigned char *data = tensor->data;
    uint64_t done = 0;
    for (const session_constant *next = c; next;) {
        if (!session_holds(next, data + done, next->data_bytes) || !session_names(tensor->name, next->name)) return 0;
        done += next->data_bytes;
        if (done >= tensor->bytes) return done == tensor->bytes;
        for (next = session->constants; next; next = next->next)
            if (next->buffer == c->buffer && next->offset == c->offset + done && next->data == data + done &&
                next->data_bytes && next->data_bytes <= tensor->bytes - done)
                break;
    }
    return 0;
}

int session_find_constant(pco_session *session, uint32_t slot, const pco_tensor *tensor,
                          const pco_tensor_proposal *want, uint64_t bytes, session_buffer **buffer, uint64_t *offset)
{
    const uint64_t key = session_constant_key(tensor);
    for (const session_constant *c = session->constants; c; c = c->next)
        if (c->buffer->slot == slot && c->key == key && c->layout == want->layout && c->bytes == bytes &&
            session_is_constant(c, tensor)) {
            *buffer = c->buffer;
            *offset = c->offset;
            return 1;
        }
    for (const session_constant *c = session->constants; c && !want->layout && tensor->bytes; c = c->next) {
        if (c->buffer->slot != slot || c->layout) continue;
        const uint64_t at = (uint64_t)((const unsigned char *)tensor->data - c->data);
        const int within = session_names(c->name, tensor->name) && session_holds(c, tensor->data, tensor->bytes) &&
                           at + bytes <= c->bytes,
                  made_of = c->data == tensor->data && c->data_bytes && c->data_bytes < tensor->bytes &&
                            bytes == tensor->bytes && session_follow(session, c, tensor);
        if (!(within || made_of) || (c->offset + at) % want->alignment) continue;
        *buffer = c->buffer;
        *offset = c->offset + at;
        return 1;
    }
    return 0;
}

pco_status session_keep_constant(pco_session *session, session_buffer *buffer, const pco_tensor *tensor,
                                 uint32_t layout, uint64_t offset, uint64_t bytes, pco_error *err)
{
    const uint64_t held = tensor->bytes <= SESSION_HASHED ? tensor->bytes : 0;
    session_constant *c = calloc(1, sizeof *c);
    void *content = malloc(held + 1);
    char *name = strdup(tensor->name);
    if (!c || !content || !name) {
        free(c);
        free(content);
        free(name);
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for constant '%s'", tensor->name);
    }
    if (held) memcpy(content, tensor->data, held);
    *c = (session_constant){.next = session->constants,
                            .buffer = buffer,
                            .offset = offset,
                            .bytes = bytes,
                            .key = session_constant_key(tensor),
                            .name = name,
                            .data = tensor->data,
                            .data_bytes = tensor->bytes,
                            .content = content,
                            .layout = layout};
    session->constants = c;
    return PCO_OK;
}

pco_status pco_session_lend(pco_session *session, const void *data, uint64_t bytes, pco_error *err)
{
    SESSION_NEEDS(session);
    PCO_NEEDS_SOME(data, bytes);
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if ((uintptr_t)data % page)
        return pco_fail(err, PCO_ERROR_INVALID, "lent memory must begin at a page (%zu bytes), as mmap gives it",
                        (size_t)page);
    session_lent *lent = calloc(1, sizeof *lent);
    if (!lent) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a session");
    *lent = (session_lent){.next = session->lent, .data = data, .bytes = bytes};
    session->lent = lent;
    return PCO_OK;
}

/* The buffer around lent memory, on a slot: the one that is there, or a new one without users. NULL where the device
 * does not take it, which is asked once. */
static session_buffer *session_wrap(pco_session *session, uint32_t slot, session_lent *lent, uint64_t bytes)
{
    const session_slot *s = &session->slots[slot];
    const pco_buffer_api *api = s->plugin->buffer;
    pco_error why;
    for (session_buffer *b = session->buffers; b; b = b->next)
        if (b->slot == slot && b->imported == lent->data) return b;
    if (!api->import || lent->refused >> slot & 1 || bytes > s->entry->info.max_allocation) return NULL;
    session_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer || api->import(s->device, lent->data, bytes, &buffer->buffer, &why)) {
        lent->refused |= 1u << slot;
        free(buffer);
        return NULL;
    }
    session->slots[slot].live++;
    buffer->slot = slot;
    buffer->imported = lent->data;
    buffer->next = session->buffers;
    session->buffers = buffer;
    return buffer;
}

session_buffer *session_import(pco_session *session, uint32_t slot, const pco_tensor *tensor, uint32_t alignment,
                               uint64_t room, uint64_t *offset)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const unsigned char *data = tensor->data;
    session_lent *lent = session->lent;
    while (lent && !(data >= lent->data && data < lent->data + lent->bytes)) lent = lent->next;
    if (!lent) return NULL;
    const uint64_t at = (uint64_t)(data - lent->data), bytes = (lent->bytes + page - 1) / page * page;
    if (at % alignment || tensor->bytes > lent->bytes - at || room > bytes - at) return NULL;
    session_buffer *buffer = session_wrap(session, slot, lent, bytes);
    if (!buffer) return NULL;
    buffer->users++;
    buffer->bytes += room;
    session->bytes += room;
    if (session->bytes > session->peak) session->peak = session->bytes;
    *offset = at;
    return buffer;
}

void session_unuse(pco_session *session, session_buffer *buffer)
{
    if (--buffer->users > 0 || buffer->state) return;
    for (session_constant **at = &session->constants; *at;) {
        session_constant *c = *at;
        if (c->buffer != buffer) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        free(c->content);
        free(c->name);
        free(c);
    }
    for (session_buffer **at = &session->buffers; *at; at = &(*at)->next)
        if (*at == buffer) {
            *at = buffer->next;
            break;
        }
    session_buffer_destroy(session, buffer->slot, buffer->buffer, buffer->bytes);
    free(buffer);
}
