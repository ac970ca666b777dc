/* Memory of a device that does not exist: the host's. */
#ifndef PCO_TESTS_TOY_MEMORY_H
#define PCO_TESTS_TOY_MEMORY_H

#include "check.h"
#include "strict_contract.h"

#include "conformance.h"

struct pco_buffer {
    uint8_t *data;
};

static pco_status toy_create(pco_device *device, uint64_t bytes, uint32_t usage, pco_buffer **buffer, pco_error *err)
{
    (void)device, (void)usage, (void)err;
    *buffer = malloc(sizeof **buffer);
    (*buffer)->data = calloc(1, bytes + 1);
    return PCO_OK;
}

static void toy_destroy(pco_device *device, pco_buffer *buffer)
{
    (void)device;
    free(buffer->data);
    free(buffer);
}

static pco_status toy_write(pco_device *device, pco_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                            pco_error *err)
{
    (void)device, (void)err;
    memcpy(buffer->data + offset, data, bytes);
    return PCO_OK;
}

static pco_status toy_read(pco_device *device, pco_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                           pco_error *err)
{
    (void)device, (void)err;
    memcpy(data, buffer->data + offset, bytes);
    return PCO_OK;
}

#endif
