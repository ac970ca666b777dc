/* Runs rows.cl on the first device of the first OpenCL platform and checks what it stores. Exit status 1: it is wrong. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

enum { ITEMS = 32, ROWS = 8 * ITEMS };

static void check(cl_int status, const char *what)
{
    if (status == CL_SUCCESS) return;
    fprintf(stderr, "%s: OpenCL error %d\n", what, (int)status);
    exit(2);
}

int main(void)
{
    static char source[4096], name[256];
    const char *text = source;
    const size_t items = ITEMS;
    int wrong = 0;
    cl_platform_id platform;
    cl_device_id device;
    cl_int status;
    FILE *file = fopen("rows.cl", "r");
    if (!file || fread(source, 1, sizeof source - 1, file) == 0) return fputs("rows.cl is not here\n", stderr), 2;
    fclose(file);

    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    check(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL), "clGetDeviceInfo");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    check(status, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    check(status, "clCreateCommandQueue");
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &status);
    check(status, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, "-cl-std=CL1.2", NULL, NULL), "clBuildProgram");
    cl_kernel kernel = clCreateKernel(program, "rows", &status);
    check(status, "clCreateKernel");
    cl_mem clamped = clCreateBuffer(context, CL_MEM_READ_WRITE, ROWS * sizeof(int), NULL, &status);
    check(status, "clCreateBuffer");
    check(clSetKernelArg(kernel, 0, sizeof clamped, &clamped), "clSetKernelArg");

    printf("%s\n", name);
    for (int n = 1; n <= ROWS; n++) {
        int there[ITEMS] = {0}, count = 0;
        cl_mem memory =
            clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof there, there, &status);
        check(status, "clCreateBuffer");
        check(clSetKernelArg(kernel, 1, sizeof memory, &memory), "clSetKernelArg");
        check(clSetKernelArg(kernel, 2, sizeof n, &n), "clSetKernelArg");
        check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL), "clEnqueueNDRangeKernel");
        check(clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, sizeof there, there, 0, NULL, NULL), "clEnqueueReadBuffer");
        clReleaseMemObject(memory);
        for (int i = 0; i < ITEMS; i++) count += there[i] == (8 * i < n);
        if (count < ITEMS && wrong++ == 0)
            printf("n = %d: work-item 0 stored %d, expected 1; %d of %d are right\n", n, there[0], count, ITEMS);
    }
    printf("%d of %d sizes are wrong\n", wrong, ROWS);
    return wrong > 0;
}
