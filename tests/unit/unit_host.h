/* The host of plugins' parts that are tested without a registry. */
#ifndef PCO_TEST_UNIT_HOST_H
#define PCO_TEST_UNIT_HOST_H

#include <portico/plugin.h>
#include <stdlib.h>

static void *unit_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void unit_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static const pco_host UNIT_HOST = {.size = sizeof UNIT_HOST, .allocate = unit_allocate, .release = unit_release};

#endif
