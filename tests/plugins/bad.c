/* Plugins that cannot be used, one per value of BAD: each must be listed with its reason and harm nobody. 5 has a
 * device, which may be used when it is named; 6 hangs, and 7 is killed as if from outside; in 8 and above a table or
 * the description of a device has a defect, and 9 talks, too. */
#include "portico/plugin.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if BAD == 1 || BAD == 13 /* made for a later ABI, or an earlier one */
static const pco_plugin TABLE = {.size = 8,
                                 .abi_version = BAD == 1 ? (PCO_ABI_MAJOR + 1) << 16 : (PCO_ABI_MAJOR - 1) << 16 | 3};
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
    if (BAD == 9 && !host->user) puts("what layers print"), fflush(stdout); /* in the probe alone */
    while (BAD == 6) pause();
    if (BAD == 7) raise(SIGKILL);
    return PCO_OK;
}
static void bad_destroy(pco_backend *backend) { (void)backend; }
static uint32_t bad_count(pco_backend *backend)
{
    (void)backend;
    return 1;
}
static pco_status bad_describe(pco_backend *backend, uint32_t index, pco_device_info *info, pco_error *err)
{
    (void)backend, (void)index, (void)err;
    *info = (pco_device_info){.size = info->size,
                              .type = PCO_DEVICE_OTHER,
                              .name = "other",
                              .max_allocation = 1 << 30,
                              .max_binding = 1 << 30,
                              .buffer_alignment = BAD == 9 ? 3 : 64,
                              .max_workgroup = 1,
                              .contract = {.function_ulp = BAD == 12 ? -1 : 4}};
    if (BAD == 10) memset(info->driver, 'x', sizeof info->driver);
    if (BAD == 11) info->max_allocation = 0;
    return PCO_OK;
}
static pco_status bad_open(pco_backend *backend, uint32_t index, pco_device **device, pco_error *err)
{
    (void)backend, (void)index, (void)device, (void)err;
    return PCO_ERROR_INTERNAL;
}

/* Never called: there is no device. */
static void bad_close(pco_device *device) { (void)device; }
static uint64_t bad_left(pco_device *device)
{
    (void)device;
    return 0;
}
static pco_status bad_buffer(pco_device *device, uint64_t bytes, uint32_t usage, pco_buffer **buffer, pco_error *err)
{
    (void)device, (void)bytes, (void)usage, (void)buffer, (void)err;
    return PCO_ERROR_INTERNAL;
}
static void bad_buffer_destroy(pco_device *device, pco_buffer *buffer) { (void)device, (void)buffer; }
#if BAD == 8
#define BAD_WRITE NULL
#else
#define BAD_WRITE bad_write
static pco_status bad_write(pco_device *device, pco_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                            pco_error *err)
{
    (void)device, (void)buffer, (void)offset, (void)data, (void)bytes, (void)err;
    return PCO_ERROR_INTERNAL;
}
#endif
static pco_status bad_read(pco_device *device, pco_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                           pco_error *err)
{
    (void)device, (void)buffer, (void)offset, (void)data, (void)bytes, (void)err;
    return PCO_ERROR_INTERNAL;
}
static pco_status bad_copy(pco_device *device, pco_buffer *from, uint64_t from_offset, pco_buffer *to,
                           uint64_t to_offset, uint64_t bytes, pco_error *err)
{
    (void)device, (void)from, (void)from_offset, (void)to, (void)to_offset, (void)bytes, (void)err;
    return PCO_ERROR_INTERNAL;
}
static void *bad_map(pco_device *device, pco_buffer *buffer)
{
    (void)device, (void)buffer;
    return NULL;
}
static pco_status bad_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *err)
{
    (void)device, (void)part, (void)node, (void)err;
    return PCO_ERROR_UNSUPPORTED;
}
static pco_status bad_propose(pco_device *device, const pco_part *part, pco_proposal *proposal, pco_error *err)
{
    (void)device, (void)part, (void)proposal, (void)err;
    return PCO_ERROR_INTERNAL;
}
static pco_status bad_prepare(pco_device *device, const pco_part *part, const pco_proposal *proposal,
                              const pco_plan *plan, pco_program **program, pco_error *err)
{
    (void)device, (void)part, (void)proposal, (void)plan, (void)program, (void)err;
    return PCO_ERROR_INTERNAL;
}
static void bad_program_destroy(pco_device *device, pco_program *program) { (void)device, (void)program; }
static uint32_t bad_segments(const pco_program *program)
{
    (void)program;
    return 0;
}
static pco_status bad_submit(pco_device *device, pco_program *program, uint32_t first, uint32_t count, uint64_t *ticket,
                             pco_error *err)
{
    (void)device, (void)program, (void)first, (void)count, (void)ticket, (void)err;
    return PCO_ERROR_INTERNAL;
}
static pco_status bad_wait(pco_device *device, uint64_t ticket, uint64_t nanoseconds, pco_error *err)
{
    (void)device, (void)ticket, (void)nanoseconds, (void)err;
    return PCO_ERROR_INTERNAL;
}
static const pco_device_api DEVICE = {.size = sizeof DEVICE, .close = bad_close, .memory_left = bad_left};
static const pco_buffer_api BUFFER = {.size = sizeof BUFFER,
                                      .create = bad_buffer,
                                      .destroy = bad_buffer_destroy,
                                      .write = BAD_WRITE,
                                      .read = bad_read,
                                      .copy = bad_copy,
                                      .map = bad_map};
static const pco_program_api PROGRAM = {.size = sizeof PROGRAM,
                                        .supports = bad_supports,
                                        .propose = bad_propose,
                                        .prepare = bad_prepare,
                                        .destroy = bad_program_destroy,
                                        .segments = bad_segments};
static const pco_queue_api QUEUE = {.size = sizeof QUEUE, .submit = bad_submit, .wait = bad_wait};
static const pco_plugin TABLE = {.size = sizeof TABLE,
                                 .abi_version = PCO_ABI_VERSION,
                                 .name = BAD == 5 ? "other" : "broken",
                                 .version = "1",
                                 .description = "for a test",
                                 .create = bad_create,
                                 .destroy = bad_destroy,
                                 .device_count = bad_count,
                                 .describe = bad_describe,
                                 .open = bad_open,
                                 .device = &DEVICE,
                                 .buffer = &BUFFER,
                                 .program = &PROGRAM,
                                 .queue = &QUEUE};
const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    (void)host_abi_version;
    return &TABLE;
}
#elif BAD == 3 /* a shared object, and no plugin */
PCO_EXPORT int something_else(void);
int something_else(void) { return 3; }
#else          /* does not serve this host */
const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    (void)host_abi_version;
    return NULL;
}
#endif
