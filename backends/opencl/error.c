/* Error codes in words, statuses, log lines, and the host's memory. */
#include "opencl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *ocl_code_name(cl_int code)
{
    static const struct {
        cl_int code;
        const char *name;
    } names[] = {
    /* clang-format off */
#define OCL_CODE(name) {name, #name},
        OCL_CODE(CL_SUCCESS)
        OCL_CODE(CL_DEVICE_NOT_FOUND)
        OCL_CODE(CL_DEVICE_NOT_AVAILABLE)
        OCL_CODE(CL_COMPILER_NOT_AVAILABLE)
        OCL_CODE(CL_MEM_OBJECT_ALLOCATION_FAILURE)
        OCL_CODE(CL_OUT_OF_RESOURCES)
        OCL_CODE(CL_OUT_OF_HOST_MEMORY)
        OCL_CODE(CL_PROFILING_INFO_NOT_AVAILABLE)
        OCL_CODE(CL_MEM_COPY_OVERLAP)
        OCL_CODE(CL_BUILD_PROGRAM_FAILURE)
        OCL_CODE(CL_MAP_FAILURE)
        OCL_CODE(CL_MISALIGNED_SUB_BUFFER_OFFSET)
        OCL_CODE(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        OCL_CODE(CL_INVALID_VALUE)
        OCL_CODE(CL_INVALID_PLATFORM)
        OCL_CODE(CL_INVALID_DEVICE)
        OCL_CODE(CL_INVALID_CONTEXT)
        OCL_CODE(CL_INVALID_QUEUE_PROPERTIES)
        OCL_CODE(CL_INVALID_COMMAND_QUEUE)
        OCL_CODE(CL_INVALID_HOST_PTR)
        OCL_CODE(CL_INVALID_MEM_OBJECT)
        OCL_CODE(CL_INVALID_BINARY)
        OCL_CODE(CL_INVALID_BUILD_OPTIONS)
        OCL_CODE(CL_INVALID_PROGRAM)
        OCL_CODE(CL_INVALID_PROGRAM_EXECUTABLE)
        OCL_CODE(CL_INVALID_KERNEL_NAME)
        OCL_CODE(CL_INVALID_KERNEL_DEFINITION)
        OCL_CODE(CL_INVALID_KERNEL)
        OCL_CODE(CL_INVALID_ARG_INDEX)
        OCL_CODE(CL_INVALID_ARG_VALUE)
        OCL_CODE(CL_INVALID_ARG_SIZE)
        OCL_CODE(CL_INVALID_KERNEL_ARGS)
        OCL_CODE(CL_INVALID_WORK_DIMENSION)
        OCL_CODE(CL_INVALID_WORK_GROUP_SIZE)
        OCL_CODE(CL_INVALID_WORK_ITEM_SIZE)
        OCL_CODE(CL_INVALID_GLOBAL_OFFSET)
        OCL_CODE(CL_INVALID_EVENT_WAIT_LIST)
        OCL_CODE(CL_INVALID_EVENT)
        OCL_CODE(CL_INVALID_OPERATION)
        OCL_CODE(CL_INVALID_BUFFER_SIZE)
        OCL_CODE(CL_INVALID_GLOBAL_WORK_SIZE)
#undef OCL_CODE
        {-1001, "CL_PLATFORM_NOT_FOUND_KHR"}, /* of the loader */
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].code == code) return names[i].name;
    return "an unknown OpenCL error";
}

pco_status ocl_fail(pco_error *err, pco_status status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
        for (char *c = err->message; *c; c++)
            if (*c == '\n' || *c == '\r') *c = ' ';
    }
    return status;
}

pco_status ocl_fail_code(pco_device *device, pco_error *err, cl_int code, const char *what)
{
    const char *name = ocl_code_name(code);
    switch (code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
        return ocl_fail(err, PCO_ERROR_OUT_OF_DEVICE_MEMORY, "%s: %s has no memory left (%s, %d)", what,
                        device->gpu.name, name, code);
    case CL_OUT_OF_HOST_MEMORY:
        return ocl_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no host memory left (%s, %d)", what, name, code);
    case CL_OUT_OF_RESOURCES:
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST:
        device->lost = 1;
        return ocl_fail(err, PCO_ERROR_DEVICE_LOST, "%s: %s is lost (%s, %d)", what, device->gpu.name, name, code);
    default: return ocl_fail(err, PCO_ERROR_INTERNAL, "%s: %s says %s (%d)", what, device->gpu.name, name, code);
    }
}

pco_status ocl_alive(const pco_device *device, pco_error *err)
{
    if (device->lost)
        return ocl_fail(err, PCO_ERROR_DEVICE_LOST, "%s was lost earlier and must be closed", device->gpu.name);
    return PCO_OK;
}

void ocl_log(const pco_host *host, pco_log_level level, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    host->log(host->user, level, line);
}

void *ocl_allocate(const pco_host *host, size_t bytes)
{
    void *memory = host->allocate(host->user, bytes ? bytes : 1, 64);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

void ocl_release(const pco_host *host, void *memory)
{
    if (memory) host->release(host->user, memory);
}

uint64_t ocl_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *c = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ c[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t ocl_hash_text(uint64_t hash, const char *text) { return ocl_hash(hash, text, strlen(text) + 1); }
