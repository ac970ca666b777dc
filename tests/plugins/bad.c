/* Plugins that cannot be used, one per value of BAD: each must be listed with its reason and harm nobody. 5 has a device,
 * which may be used when it is named; 6 hangs, and 7 is killed as if from outside. */
#include "portico/plugin.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#if BAD == 1 /* made for a later ABI */
static const pco_plugin TABLE = {.size = sizeof TABLE, .abi_version = (PCO_ABI_MAJOR + 1) << 16, .name = "newer"};
const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    (void)host_abi_version;
    return &TABLE;
}
#elif BAD == 2 || BAD >= 5 /* crashes, hangs or is killed when it is asked for devices, or has one */
static pco_status bad_create(const pco_host *host, pco_backend **backend, pco_error *err)
{
    (void)host, (void)err;
    *backend = NULL;
    if (BAD == 2) abort();
    while (BAD == 6) pause();
    if (BAD == 7) raise(SIGKILL);
    return PCO_OK;
}
static uint32_t bad_count(pco_backend *backend)
{
    (void)backend;
    return 1;
}
static pco_status bad_describe(pco_backend *backend, uint32_t index, pco_device_info *info, pco_error *err)
{
    (void)backend, (void)index, (void)err;
    *info = (pco_device_info){.size = info->size, .type = PCO_DEVICE_OTHER, .name = "other"};
    return PCO_OK;
}
static pco_status bad_open(pco_backend *backend, uint32_t index, pco_device **device, pco_error *err)
{
    (void)backend, (void)index, (void)device, (void)err;
    return PCO_ERROR_INTERNAL;
}
static const pco_device_api DEVICE = {.size = sizeof DEVICE};
static const pco_buffer_api BUFFER = {.size = sizeof BUFFER};
static const pco_program_api PROGRAM = {.size = sizeof PROGRAM};
static const pco_queue_api QUEUE = {.size = sizeof QUEUE};
static const pco_plugin TABLE = {.size = sizeof TABLE, .abi_version = PCO_ABI_VERSION, .name = BAD == 5 ? "other" : "broken",
                                 .version = "1", .description = "for a test", .create = bad_create,
                                 .device_count = bad_count, .describe = bad_describe, .open = bad_open,
                                 .device = &DEVICE, .buffer = &BUFFER, .program = &PROGRAM, .queue = &QUEUE};
const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    (void)host_abi_version;
    return &TABLE;
}
#elif BAD == 3 /* a shared object, and no plugin */
PCO_EXPORT int something_else(void);
int something_else(void)
{
    return 3;
}
#else /* does not serve this host */
const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    (void)host_abi_version;
    return NULL;
}
#endif
