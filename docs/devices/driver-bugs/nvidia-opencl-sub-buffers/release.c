/* Three sub-buffers that begin at the same place of one buffer, two kernels that see them, and their release. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(code) \
    if ((code) != CL_SUCCESS) printf("line %d: error %d\n", __LINE__, (int)(code)), exit(2)

static const char *TEXT = "kernel void add(global int *a, global int *b)\n"
                          "{\n"
                          "    a[get_global_id(0)] += b[get_global_id(0)];\n"
                          "}\n";

int main(int argc, char **argv)
{
    const int backwards = argc > 1; /* any argument: released in the other order */
    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    cl_uint bits;
    char name[256], version[256];
    (void)argv;
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL));
    CHECK(clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof version, version, NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL));
    printf("%s, driver %s\n", name, version);
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    CHECK(code);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    CHECK(code);
    const size_t step = bits / 8 < 128 ? 128 : bits / 8, items = 32;
    cl_mem whole = clCreateBuffer(context, CL_MEM_READ_WRITE, 20 * step, NULL, &code), part[3];
    CHECK(code);
    CHECK(clEnqueueWriteBuffer(queue, whole, CL_TRUE, 0, sizeof name, name, 0, NULL, NULL));
    for (int i = 0; i < 3; i++) { /* the largest first, all from 0 on */
        const cl_buffer_region region = {0, (size_t)(3 - i) * step};
        part[i] = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
        CHECK(code);
    }
    cl_program program = clCreateProgramWithSource(context, 1, &TEXT, NULL, &code);
    CHECK(code);
    CHECK(clBuildProgram(program, 1, &device, "", NULL, NULL));
    cl_kernel kernel = clCreateKernel(program, "add", &code);
    CHECK(code);
    for (int i = 0; i < 2; i++) {
        CHECK(clSetKernelArg(kernel, 0, sizeof part[0], &part[i]));
        CHECK(clSetKernelArg(kernel, 1, sizeof part[0], &part[i + 1]));
        CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL));
    }
    CHECK(clFinish(queue));
    CHECK(clReleaseKernel(kernel));
    for (int i = 0; i < 3; i++) CHECK(clReleaseMemObject(part[backwards ? 2 - i : i]));
    CHECK(clReleaseMemObject(whole));
    printf("released\n");
    return 0;
}
