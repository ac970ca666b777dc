/* What is kept and comes again: results, as with kernels that were only made to look fast, and what memory held. */
#include "faulty.h"

#include <string.h>

static uint64_t faulty_mix(uint64_t hash, const void *data, uint64_t bytes)
{
    const unsigned char *at = data;
    for (uint64_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * 0x100000001B3ull;
    return hash;
}

/* The node itself: op, attributes and shape. */
static uint64_t faulty_node_key(const faulty_node *node)
{
    uint64_t key = faulty_mix(0xCBF29CE484222325ull, &node->op, sizeof node->op);
    key = faulty_mix(key, node->attrs, sizeof node->attrs);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        key = faulty_mix(key, &node->in[i].dtype, sizeof node->in[i].dtype);
        key = faulty_mix(key, node->in[i].shape, sizeof node->in[i].shape);
    }
    return key;
}

static pco_status faulty_key(pco_device *device, const pco_program *program, const faulty_node *node, uint64_t *key,
                             pco_error *err)
{
    *key = faulty_node_key(node);
    if (device->fault == FAULTY_cached) *key = faulty_mix(*key, &program->number, sizeof program->number);
    if (device->fault == FAULTY_pointer) {
        *key = faulty_mix(*key, &node->in[0].buffer, sizeof node->in[0].buffer);
        *key = faulty_mix(*key, &node->in[0].offset, sizeof node->in[0].offset);
    }
    for (uint32_t i = 0; i < node->n_inputs && device->fault == FAULTY_prefix; i++) {
        const faulty_tensor *t = &node->in[i];
        unsigned char head[64];
        const uint64_t bytes = t->bytes < sizeof head ? t->bytes : sizeof head;
        if (!t->buffer) continue;
        pco_status status = device->plugin->buffer->read(device->inner, t->buffer->inner, t->offset, head, bytes, err);
        if (status) return status;
        *key = faulty_mix(*key, head, bytes);
    }
    return PCO_OK;
}

static bool faulty_has_entries(pco_device *device)
{
    const pco_host *host = device->host;
    if (device->entries) return true;
    device->entries = host->allocate(host->user, FAULTY_ENTRIES * sizeof *device->entries, 16);
    if (device->entries) memset(device->entries, 0, FAULTY_ENTRIES * sizeof *device->entries);
    return device->entries != NULL;
}

pco_status faulty_remember(pco_device *device, const pco_program *program, const faulty_node *node, pco_error *err)
{
    const pco_host *host = device->host;
    const faulty_tensor *y = &node->out[0];
    uint64_t key;
    if (!y->buffer || node->in_place) return PCO_OK;
    pco_status status = faulty_key(device, program, node, &key, err);
    if (status) return status;
    if (!faulty_has_entries(device)) return PCO_ERROR_OUT_OF_HOST_MEMORY;
    faulty_entry *entry = &device->entries[key % FAULTY_ENTRIES];
    if (entry->data && entry->key == key && entry->bytes == y->bytes)
        return device->plugin->buffer->write(device->inner, y->buffer->inner, y->offset, entry->data, y->bytes, err);
    if (entry->data) host->release(host->user, entry->data);
    *entry = (faulty_entry){.key = key, .bytes = y->bytes, .data = host->allocate(host->user, y->bytes, 16)};
    if (!entry->data) return PCO_ERROR_OUT_OF_HOST_MEMORY;
    return device->plugin->buffer->read(device->inner, y->buffer->inner, y->offset, entry->data, y->bytes, err);
}

static void faulty_drop(pco_device *device, faulty_entry *entry)
{
    if (entry->data) device->host->release(device->host->user, entry->data);
    entry->data = NULL;
}

void faulty_leave(pco_device *device, const pco_buffer *buffer)
{
    const pco_buffer_api *api = device->plugin->buffer;
    const uint64_t bytes = buffer->bytes;
    pco_error err;
    uint32_t i = 0;
    if (!faulty_has_entries(device)) return;
    if (!buffer->before || !buffer->behind) {
        for (; i < FAULTY_ENTRIES; i++) faulty_drop(device, &device->entries[i]);
        return;
    }
    while (i < FAULTY_ENTRIES && device->entries[i].data) i++;
    if (i == FAULTY_ENTRIES) return;
    faulty_entry *entry = &device->entries[i];
    *entry = (faulty_entry){.bytes = bytes, .data = device->host->allocate(device->host->user, bytes, 16)};
    if (entry->data && api->read(device->inner, buffer->inner, 0, entry->data, bytes, &err)) faulty_drop(device, entry);
}

void faulty_inherit(pco_device *device, pco_buffer *buffer)
{
    for (uint32_t i = 0; device->entries && i < FAULTY_ENTRIES; i++) {
        faulty_entry *entry = &device->entries[i];
        if (!entry->data || entry->bytes != buffer->bytes) continue;
        buffer->old = entry->data;
        entry->data = NULL;
        return;
    }
}

void faulty_forget(pco_device *device)
{
    for (uint32_t i = 0; device->entries && i < FAULTY_ENTRIES; i++) faulty_drop(device, &device->entries[i]);
    if (device->entries) device->host->release(device->host->user, device->entries);
}
