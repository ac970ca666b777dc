/* The same library as an OpenCL layer (OPENCL_LAYERS): counts what is made, launched and moved through it. */
#define CL_TARGET_OPENCL_VERSION 120
#include "interpose.h"

#include <CL/cl_layer.h>

#define VISIBLE __attribute__((visibility("default")))

static const cl_icd_dispatch *opencl_next;
static cl_icd_dispatch opencl_table; /* what is NULL goes to the next one */

static CL_API_ENTRY cl_mem CL_API_CALL count_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size,
                                                            void *host, cl_int *status)
{
    interpose_add(INTERPOSE_CL_OBJECTS, 1, "clCreateBuffer");
    return opencl_next->clCreateBuffer(context, flags, size, host, status);
}

static CL_API_ENTRY cl_mem CL_API_CALL count_clCreateSubBuffer(cl_mem buffer, cl_mem_flags flags,
                                                               cl_buffer_create_type type, const void *info,
                                                               cl_int *status)
{
    interpose_add(INTERPOSE_CL_OBJECTS, 1, "clCreateSubBuffer");
    return opencl_next->clCreateSubBuffer(buffer, flags, type, info, status);
}

static CL_API_ENTRY cl_program CL_API_CALL count_clCreateProgramWithSource(cl_context context, cl_uint count,
                                                                           const char **text, const size_t *lengths,
                                                                           cl_int *status)
{
    interpose_add(INTERPOSE_CL_OBJECTS, 1, "clCreateProgramWithSource");
    return opencl_next->clCreateProgramWithSource(context, count, text, lengths, status);
}

static CL_API_ENTRY cl_int CL_API_CALL count_clBuildProgram(cl_program program, cl_uint count,
                                                            const cl_device_id *devices, const char *options,
                                                            void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    interpose_add(INTERPOSE_CL_OBJECTS, 1, "clBuildProgram");
    return opencl_next->clBuildProgram(program, count, devices, options, notify, user);
}

static CL_API_ENTRY cl_kernel CL_API_CALL count_clCreateKernel(cl_program program, const char *name, cl_int *status)
{
    interpose_add(INTERPOSE_CL_OBJECTS, 1, "clCreateKernel");
    return opencl_next->clCreateKernel(program, name, status);
}

static CL_API_ENTRY cl_int CL_API_CALL count_clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size,
                                                            const void *value)
{
    interpose_add(INTERPOSE_CL_ARGUMENTS, 1, "clSetKernelArg");
    return opencl_next->clSetKernelArg(kernel, index, size, value);
}

static CL_API_ENTRY cl_int CL_API_CALL count_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel,
                                                                    cl_uint dimensions, const size_t *offset,
                                                                    const size_t *global, const size_t *local,
                                                                    cl_uint n, const cl_event *wait, cl_event *event)
{
    interpose_add(INTERPOSE_CL_LAUNCHES, 1, NULL);
    return opencl_next->clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, n, wait, event);
}

static CL_API_ENTRY cl_int CL_API_CALL count_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool block,
                                                                  size_t offset, size_t bytes, const void *data,
                                                                  cl_uint n, const cl_event *wait, cl_event *event)
{
    interpose_add(INTERPOSE_CL_WRITTEN, bytes, NULL);
    return opencl_next->clEnqueueWriteBuffer(queue, buffer, block, offset, bytes, data, n, wait, event);
}

static CL_API_ENTRY cl_int CL_API_CALL count_clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool block,
                                                                 size_t offset, size_t bytes, void *data, cl_uint n,
                                                                 const cl_event *wait, cl_event *event)
{
    interpose_add(INTERPOSE_CL_READ, bytes, NULL);
    return opencl_next->clEnqueueReadBuffer(queue, buffer, block, offset, bytes, data, n, wait, event);
}

static CL_API_ENTRY cl_int CL_API_CALL count_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                                                 size_t from_offset, size_t to_offset, size_t bytes,
                                                                 cl_uint n, const cl_event *wait, cl_event *event)
{
    interpose_add(INTERPOSE_CL_WRITTEN, bytes, NULL);
    return opencl_next->clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, bytes, n, wait, event);
}

static CL_API_ENTRY void *CL_API_CALL count_clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool block,
                                                               cl_map_flags flags, size_t offset, size_t bytes,
                                                               cl_uint n, const cl_event *wait, cl_event *event,
                                                               cl_int *status)
{
    interpose_add(flags & CL_MAP_READ ? INTERPOSE_CL_READ : INTERPOSE_CL_WRITTEN, bytes, NULL);
    return opencl_next->clEnqueueMapBuffer(queue, buffer, block, flags, offset, bytes, n, wait, event, status);
}

VISIBLE CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t size, void *value, size_t *needed)
{
    static const char own[] = "portico-interpose";
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const void *from = name == CL_LAYER_API_VERSION ? (const void *)&version : own;
    size_t bytes = name == CL_LAYER_API_VERSION ? sizeof version : sizeof own;
    if (name != CL_LAYER_API_VERSION && name != CL_LAYER_NAME) return CL_INVALID_VALUE;
    if (value && size < bytes) return CL_INVALID_VALUE;
    if (value) __builtin_memcpy(value, from, bytes);
    if (needed) *needed = bytes;
    return CL_SUCCESS;
}

VISIBLE CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count, const cl_icd_dispatch *next, cl_uint *own_count,
                                                    const cl_icd_dispatch **own)
{
    const cl_uint entries = sizeof opencl_table / sizeof(void *);
    if (!next || !own_count || !own || count < entries) return CL_INVALID_VALUE;
    opencl_next = next;
    opencl_table.clCreateBuffer = count_clCreateBuffer;
    opencl_table.clCreateSubBuffer = count_clCreateSubBuffer;
    opencl_table.clCreateProgramWithSource = count_clCreateProgramWithSource;
    opencl_table.clBuildProgram = count_clBuildProgram;
    opencl_table.clCreateKernel = count_clCreateKernel;
    opencl_table.clSetKernelArg = count_clSetKernelArg;
    opencl_table.clEnqueueNDRangeKernel = count_clEnqueueNDRangeKernel;
    opencl_table.clEnqueueWriteBuffer = count_clEnqueueWriteBuffer;
    opencl_table.clEnqueueReadBuffer = count_clEnqueueReadBuffer;
    opencl_table.clEnqueueCopyBuffer = count_clEnqueueCopyBuffer;
    opencl_table.clEnqueueMapBuffer = count_clEnqueueMapBuffer;
    *own = &opencl_table;
    *own_count = entries;
    interpose_state()->cl_layers++;
    return CL_SUCCESS;
}
