/* The OpenCL layer of refuse.h (OPENCL_LAYERS). */
#define CL_TARGET_OPENCL_VERSION 120
#include "refuse.h"

#include <string.h>

#include <CL/cl_layer.h>

static const cl_icd_dispatch *refuse_next;
static cl_icd_dispatch refuse_table; /* what is NULL goes to the next one */

typedef void(CL_CALLBACK *refuse_notify)(const char *, const void *, size_t, void *);

/* X(name, type, parameters, arguments): what makes an object. */
#define MAKES(X) \
    X(CreateContext, cl_context, \
      (const cl_context_properties *a, cl_uint b, const cl_device_id *c, refuse_notify d, void *e, cl_int *status), \
      (a, b, c, d, e, status)) \
    X(CreateCommandQueue, cl_command_queue, \
      (cl_context a, cl_device_id b, cl_command_queue_properties c, cl_int * status), (a, b, c, status)) \
    X(CreateBuffer, cl_mem, (cl_context a, cl_mem_flags b, size_t c, void *d, cl_int *status), (a, b, c, d, status)) \
    X(CreateSubBuffer, cl_mem, (cl_mem a, cl_mem_flags b, cl_buffer_create_type c, const void *d, cl_int *status), \
      (a, b, c, d, status))

#define RELEASES(X) \
    X(ReleaseContext, cl_context) \
    X(ReleaseCommandQueue, cl_command_queue) \
    X(ReleaseMemObject, cl_mem) \
    X(ReleaseEvent, cl_event)

/* X(name, parameters, arguments, output, bytes of it): what answers a question. */
#define ANSWERS(X) \
    X(GetPlatformIDs, (cl_uint a, cl_platform_id * b, cl_uint * c), (a, b, c), b, a * sizeof *b) \
    X(GetPlatformInfo, (cl_platform_id a, cl_platform_info b, size_t c, void *d, size_t *e), (a, b, c, d, e), d, c) \
    X(GetDeviceIDs, (cl_platform_id a, cl_device_type b, cl_uint c, cl_device_id * d, cl_uint * e), (a, b, c, d, e), \
      d, c * sizeof *d) \
    X(GetDeviceInfo, (cl_device_id a, cl_device_info b, size_t c, void *d, size_t *e), (a, b, c, d, e), d, c)

/* X(name, parameters, arguments, event): what is put into the queue. */
#define ENQUEUES(X) \
    X(EnqueueWriteBuffer, \
      (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, const void *f, cl_uint g, const cl_event *h, \
       cl_event *event), \
      (a, b, c, d, e, f, g, h, event)) \
    X(EnqueueReadBuffer, \
      (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void *f, cl_uint g, const cl_event *h, \
       cl_event *event), \
      (a, b, c, d, e, f, g, h, event)) \
    X(EnqueueCopyBuffer, \
      (cl_command_queue a, cl_mem b, cl_mem c, size_t d, size_t e, size_t f, cl_uint g, const cl_event *h, \
       cl_event *event), \
      (a, b, c, d, e, f, g, h, event))

#define WRAP(name, type, parameters, arguments) \
    static CL_API_ENTRY type CL_API_CALL refuse_##name parameters \
    { \
        if (refuse_now("cl" #name)) { \
            if (status) *status = CL_OUT_OF_HOST_MEMORY; \
            return NULL; \
        } \
        const type made = refuse_next->cl##name arguments; \
        refuse_counted.alive += made != NULL; \
        return made; \
    }
MAKES(WRAP)
#undef WRAP
#define WRAP(name, type) \
    static CL_API_ENTRY cl_int CL_API_CALL refuse_##name(type object) \
    { \
        refuse_counted.alive--; \
        return refuse_next->cl##name(object); \
    }
RELEASES(WRAP)
#undef WRAP
#define WRAP(name, parameters, arguments, output, bytes) \
    static CL_API_ENTRY cl_int CL_API_CALL refuse_##name parameters \
    { \
        if (refuse_now("cl" #name)) { \
            if (output) memset(output, REFUSE_RUBBISH, bytes); \
            return CL_OUT_OF_HOST_MEMORY; \
        } \
        return refuse_next->cl##name arguments; \
    }
ANSWERS(WRAP)
#undef WRAP
#define WRAP(name, parameters, arguments) \
    static CL_API_ENTRY cl_int CL_API_CALL refuse_##name parameters \
    { \
        if (refuse_now("cl" #name)) { \
            if (event) memset(event, REFUSE_RUBBISH, sizeof *event); \
            return CL_OUT_OF_HOST_MEMORY; \
        } \
        const cl_int status = refuse_next->cl##name arguments; \
        refuse_counted.alive += status == CL_SUCCESS && event; \
        return status; \
    }
ENQUEUES(WRAP)
#undef WRAP

static CL_API_ENTRY cl_int CL_API_CALL refuse_WaitForEvents(cl_uint count, const cl_event *events)
{
    return refuse_now("clWaitForEvents") ? CL_OUT_OF_HOST_MEMORY : refuse_next->clWaitForEvents(count, events);
}

static CL_API_ENTRY cl_int CL_API_CALL refuse_Finish(cl_command_queue queue)
{
    refuse_counted.waits++;
    return refuse_now("clFinish") ? CL_OUT_OF_HOST_MEMORY : refuse_next->clFinish(queue);
}

REFUSE_VISIBLE CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t size, void *value,
                                                              size_t *needed)
{
    static const char own[] = "portico-refuse";
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const void *from = name == CL_LAYER_API_VERSION ? (const void *)&version : own;
    const size_t bytes = name == CL_LAYER_API_VERSION ? sizeof version : sizeof own;
    if (name != CL_LAYER_API_VERSION && name != CL_LAYER_NAME) return CL_INVALID_VALUE;
    if (value && size < bytes) return CL_INVALID_VALUE;
    if (value) memcpy(value, from, bytes);
    if (needed) *needed = bytes;
    return CL_SUCCESS;
}

REFUSE_VISIBLE CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count, const cl_icd_dispatch *next,
                                                           cl_uint *own_count, const cl_icd_dispatch **own)
{
    const cl_uint entries = sizeof refuse_table / sizeof(void *);
    if (!next || !own_count || !own || count < entries) return CL_INVALID_VALUE;
    refuse_next = next;
#define ROW(name, ...) refuse_table.cl##name = refuse_##name;
    MAKES(ROW)
    RELEASES(ROW)
    ANSWERS(ROW)
    ENQUEUES(ROW)
    ROW(WaitForEvents, )
    ROW(Finish, )
#undef ROW
    *own = &refuse_table;
    *own_count = entries;
    return CL_SUCCESS;
}
