/* An OpenCL platform with one GPU that is not there: another process compiles its kernels to the GPU's machine code and
 * executes that (PCO_EMULATOR, a shell command; gpu.py). Put in front of a program with LD_PRELOAD, it takes the place
 * of libOpenCL. It has what Portico's plugin calls: one queue in order, and all is done when a call returns. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "dispatch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define API EMU_VISIBLE CL_API_ENTRY

enum { ARGUMENTS = 32, VALUE_ROOM = 64, ALIGNMENT = 256 };
static const size_t SPACE = (size_t)1 << 32, MEMORY = (size_t)1 << 31;

/* The types behind OpenCL's handles. */
struct _cl_platform_id {
    char unused;
};
struct _cl_device_id {
    char unused;
};
struct _cl_context {
    char unused;
};
struct _cl_command_queue {
    char unused;
};
struct _cl_mem {
    struct _cl_mem *next; /* buffers, by offset */
    size_t offset, bytes;
};
struct _cl_program {
    uint32_t refs;
    char *source, *log;
    unsigned char *binary;
    size_t bytes;
    emu_loaded loaded;
};
typedef struct kernel_argument {
    cl_mem mem; /* or a value */
    size_t bytes;
    uint8_t value[VALUE_ROOM];
} kernel_argument;
struct _cl_kernel {
    cl_program program;
    uint32_t n_arguments;
    kernel_argument arguments[ARGUMENTS];
};
struct _cl_event {
    char unused;
};

static struct _cl_platform_id the_platform;
static struct _cl_device_id the_device;
static struct _cl_context the_context;
static struct _cl_command_queue the_queue;
static struct _cl_event the_event; /* of everything: it is done */
static struct _cl_mem *the_buffers;
static uint8_t *the_memory;
static int the_socket = -1;

/* ---- the executor ---- */

static void start_child(int socket, int memory, const char *command)
{
    /* both above the numbers that they get */
    socket = fcntl(socket, F_DUPFD, 16), memory = fcntl(memory, F_DUPFD, 16);
    if (socket < 0 || memory < 0 || dup2(socket, EMU_SOCKET) < 0 || dup2(memory, EMU_MEMORY) < 0) _exit(127);
    unsetenv("LD_PRELOAD");
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

/* 1: it runs, and the device has memory. */
static int start(void)
{
    int pair[2];
    const char *command = getenv("PCO_EMULATOR");
    if (the_memory) return the_socket >= 0;
    int memory = memfd_create("device", MFD_CLOEXEC);
    if (!command || memory < 0 || ftruncate(memory, (off_t)SPACE) != 0) return 0;
    void *at = mmap(NULL, SPACE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory, 0);
    if (at == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return 0;
    the_memory = at;
    const pid_t child = fork();
    if (child == 0) start_child(pair[1], memory, command);
    close(pair[1]), close(memory);
    the_socket = child > 0 ? pair[0] : -1;
    return the_socket >= 0;
}

static int transfer(int sends, void *data, size_t bytes)
{
    for (char *at = data; bytes;) {
        ssize_t done = sends ? send(the_socket, at, bytes, MSG_NOSIGNAL) : recv(the_socket, at, bytes, 0);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            close(the_socket);
            the_socket = -1;
            return 0;
        }
        at += done, bytes -= (size_t)done;
    }
    return 1;
}

/* 0: answered; 1: refused, and the answer is why; -1: there is nobody. The answer ends with a zero; free it. */
static int ask(uint32_t kind, void *data, size_t bytes, void **answer, size_t *answer_bytes)
{
    emu_message message = {kind, (uint32_t)bytes};
    *answer = NULL;
    if (!start() || !transfer(1, &message, sizeof message) || !transfer(1, data, bytes) ||
        !transfer(0, &message, sizeof message))
        return -1;
    uint8_t *got = calloc(1, (size_t)message.bytes + 1);
    if (!got || !transfer(0, got, message.bytes)) return free(got), -1;
    *answer = got;
    *answer_bytes = message.bytes;
    return message.kind ? 1 : 0;
}

/* ---- the platform and its device ---- */

static cl_int answer(const void *value, size_t bytes, size_t room, void *out, size_t *needed)
{
    if (out && room < bytes) return CL_INVALID_VALUE;
    if (out) memcpy(out, value, bytes);
    if (needed) *needed = bytes;
    return CL_SUCCESS;
}

static cl_int answer_text(const char *text, size_t room, void *out, size_t *needed)
{
    return answer(text, strlen(text) + 1, room, out, needed);
}

static const char *told(const char *variable, const char *otherwise)
{
    const char *value = getenv(variable);
    return value ? value : otherwise;
}

API cl_int CL_API_CALL clGetPlatformIDs(cl_uint room, cl_platform_id *platforms, cl_uint *count)
{
    if (platforms && room) *platforms = &the_platform;
    if (count) *count = 1;
    return CL_SUCCESS;
}

API cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t room, void *out,
                                         size_t *needed)
{
    (void)platform;
    switch (what) {
    case CL_PLATFORM_NAME: return answer_text("emulator", room, out, needed);
    case CL_PLATFORM_VERSION: return answer_text("OpenCL 1.2", room, out, needed);
    case CL_PLATFORM_EXTENSIONS: return answer_text("", room, out, needed);
    default: return CL_INVALID_VALUE;
    }
}

API cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *devices,
                                      cl_uint *count)
{
    (void)platform, (void)type;
    if (devices && room) *devices = &the_device;
    if (count) *count = 1;
    return CL_SUCCESS;
}

/* Numbers, in the type that OpenCL gives each. What it promises of f32 is what AMD's own driver does. */
static const struct {
    cl_device_info what;
    size_t bytes;
    cl_ulong value;
} FACTS[] = {
    {CL_DEVICE_TYPE, sizeof(cl_device_type), CL_DEVICE_TYPE_GPU},
    {CL_DEVICE_AVAILABLE, sizeof(cl_bool), CL_TRUE},
    {CL_DEVICE_COMPILER_AVAILABLE, sizeof(cl_bool), CL_TRUE},
    {CL_DEVICE_ENDIAN_LITTLE, sizeof(cl_bool), CL_TRUE},
    {CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(cl_bool), CL_FALSE},
    {CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, sizeof(cl_uint), 3},
    {CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t), 1024},
    {CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof(cl_uint), 8 * ALIGNMENT},
    {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof(cl_uint), 1},
    {CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong), (cl_ulong)1 << 31},
    {CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong), (cl_ulong)1 << 30},
    {CL_DEVICE_LOCAL_MEM_SIZE, sizeof(cl_ulong), 65536},
    {CL_DEVICE_SINGLE_FP_CONFIG, sizeof(cl_device_fp_config),
     CL_FP_DENORM | CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST | CL_FP_FMA | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT},
};

API cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t room, void *out, size_t *needed)
{
    static const size_t items[3] = {1024, 1024, 1024};
    (void)device;
    switch (what) {
    case CL_DEVICE_NAME: return answer_text(told("PCO_EMULATOR_NAME", "emulated GPU"), room, out, needed);
    case CL_DRIVER_VERSION: return answer_text(told("PCO_EMULATOR_DRIVER", "1"), room, out, needed);
    case CL_DEVICE_VERSION: return answer_text("OpenCL 1.2 emulated", room, out, needed);
    case CL_DEVICE_VENDOR:
        return answer_text(told("PCO_EMULATOR_VENDOR", "Advanced Micro Devices, Inc."), room, out, needed);
    case CL_DEVICE_VENDOR_ID: {
        const cl_uint id = (cl_uint)strtoul(told("PCO_EMULATOR_VENDOR_ID", "0x1002"), NULL, 0);
        return answer(&id, sizeof id, room, out, needed);
    }
    case CL_DEVICE_EXTENSIONS:
        return answer_text(told("PCO_EMULATOR_EXTENSIONS", "cl_khr_byte_addressable_store cl_khr_fp16"), room, out,
                           needed);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES: return answer(items, sizeof items, room, out, needed);
    default: break;
    }
    for (size_t i = 0; i < sizeof FACTS / sizeof *FACTS; i++) /* little-endian: the first bytes are the number */
        if (FACTS[i].what == what) return answer(&FACTS[i].value, FACTS[i].bytes, room, out, needed);
    return CL_INVALID_VALUE;
}

API cl_context CL_API_CALL clCreateContext(const cl_context_properties *properties, cl_uint count,
                                           const cl_device_id *devices,
                                           void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                                           void *user, cl_int *status)
{
    (void)properties, (void)count, (void)devices, (void)notify, (void)user;
    const int there = start();
    *status = there ? CL_SUCCESS : CL_DEVICE_NOT_AVAILABLE;
    return there ? &the_context : NULL;
}

API cl_int CL_API_CALL clReleaseContext(cl_context context) { return (void)context, CL_SUCCESS; }

API cl_command_queue CL_API_CALL clCreateCommandQueue(cl_context context, cl_device_id device,
                                                      cl_command_queue_properties properties, cl_int *status)
{
    (void)context, (void)device, (void)properties;
    *status = CL_SUCCESS;
    return &the_queue;
}

API cl_int CL_API_CALL clReleaseCommandQueue(cl_command_queue queue) { return (void)queue, CL_SUCCESS; }
API cl_int CL_API_CALL clFlush(cl_command_queue queue) { return (void)queue, CL_SUCCESS; }
API cl_int CL_API_CALL clFinish(cl_command_queue queue) { return (void)queue, CL_SUCCESS; }

/* ---- memory: the first gap that is large enough ---- */

API cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *status)
{
    struct _cl_mem **link = &the_buffers, *made = calloc(1, sizeof *made);
    const size_t room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t at = ALIGNMENT; /* nothing lies at 0 */
    (void)context, (void)flags, (void)host;
    while (made && *link && (*link)->offset - at < room) {
        at = (*link)->offset + ((*link)->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        link = &(*link)->next;
    }
    if (!made || !bytes || bytes > MEMORY || room > SPACE - at) {
        free(made);
        *status = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        return NULL;
    }
    *made = (struct _cl_mem){.next = *link, .offset = at, .bytes = bytes};
    *link = made;
    *status = CL_SUCCESS;
    return made;
}

/* Only llvmpipe is given sub-buffers. */
API cl_mem CL_API_CALL clCreateSubBuffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type,
                                         const void *info, cl_int *status)
{
    (void)buffer, (void)flags, (void)type, (void)info;
    *status = CL_INVALID_OPERATION;
    return NULL;
}

API cl_int CL_API_CALL clReleaseMemObject(cl_mem mem)
{
    struct _cl_mem **link = &the_buffers;
    while (*link != mem) link = &(*link)->next;
    *link = mem->next;
    /* gives the pages back where whole ones are free */
    const size_t page = 4096, first = (mem->offset + page - 1) / page * page;
    const size_t end = (mem->offset + mem->bytes) / page * page;
    if (end > first) madvise(the_memory + first, end - first, MADV_REMOVE);
    free(mem);
    return CL_SUCCESS;
}

static cl_int finish(cl_event *event)
{
    if (event) *event = &the_event;
    return CL_SUCCESS;
}

static int holds(cl_mem mem, size_t offset, size_t bytes)
{
    return offset <= mem->bytes && bytes <= mem->bytes - offset;
}

API cl_int CL_API_CALL clEnqueueWriteBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocks, size_t offset,
                                            size_t bytes, const void *data, cl_uint n, const cl_event *wait,
                                            cl_event *event)
{
    (void)queue, (void)blocks, (void)n, (void)wait;
    if (!holds(mem, offset, bytes)) return CL_INVALID_VALUE;
    memcpy(the_memory + mem->offset + offset, data, bytes);
    return finish(event);
}

API cl_int CL_API_CALL clEnqueueReadBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocks, size_t offset,
                                           size_t bytes, void *data, cl_uint n, const cl_event *wait, cl_event *event)
{
    (void)queue, (void)blocks, (void)n, (void)wait;
    if (!holds(mem, offset, bytes)) return CL_INVALID_VALUE;
    memcpy(data, the_memory + mem->offset + offset, bytes);
    return finish(event);
}

API cl_int CL_API_CALL clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset,
                                           size_t to_offset, size_t bytes, cl_uint n, const cl_event *wait,
                                           cl_event *event)
{
    (void)queue, (void)n, (void)wait;
    if (!holds(from, from_offset, bytes) || !holds(to, to_offset, bytes)) return CL_INVALID_VALUE;
    memmove(the_memory + to->offset + to_offset, the_memory + from->offset + from_offset, bytes);
    return finish(event);
}

/* ---- programs ---- */

API cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint count, const char **texts,
                                                     const size_t *lengths, cl_int *status)
{
    cl_program made = calloc(1, sizeof *made);
    size_t bytes = 0;
    (void)context;
    for (cl_uint i = 0; i < count; i++) bytes += lengths && lengths[i] ? lengths[i] : strlen(texts[i]);
    char *at = made ? made->source = calloc(1, bytes + 1) : NULL;
    for (cl_uint i = 0; at && i < count; i++) {
        const size_t length = lengths && lengths[i] ? lengths[i] : strlen(texts[i]);
        memcpy(at, texts[i], length);
        at += length;
    }
    *status = at ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    if (at) made->refs = 1;
    if (!at) free(made);
    return at ? made : NULL;
}

API cl_program CL_API_CALL clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *devices,
                                                     const size_t *lengths, const unsigned char **binaries,
                                                     cl_int *status_of_binary, cl_int *status)
{
    cl_program made = calloc(1, sizeof *made);
    (void)context, (void)count, (void)devices;
    if (made) made->binary = malloc(*lengths);
    *status = made && made->binary ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    if (status_of_binary) *status_of_binary = *status;
    if (*status) return free(made), NULL;
    memcpy(made->binary, *binaries, *lengths);
    made->bytes = *lengths;
    made->refs = 1;
    return made;
}

static cl_int compile(cl_program program, const char *options)
{
    const size_t n = strlen(options) + 1, length = strlen(program->source);
    char *text = malloc(n + length);
    void *got = NULL;
    size_t bytes = 0;
    if (!text) return CL_OUT_OF_HOST_MEMORY;
    memcpy(text, options, n);
    memcpy(text + n, program->source, length);
    const int refused = ask(EMU_COMPILE, text, n + length, &got, &bytes);
    free(text);
    if (refused < 0) return CL_DEVICE_NOT_AVAILABLE;
    if (refused) {
        free(program->log);
        program->log = got;
        return CL_BUILD_PROGRAM_FAILURE;
    }
    program->binary = got;
    program->bytes = bytes;
    return CL_SUCCESS;
}

API cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                      const char *options, void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    void *got = NULL;
    size_t bytes = 0;
    (void)count, (void)devices, (void)notify, (void)user;
    cl_int status = program->binary ? CL_SUCCESS : compile(program, options ? options : "");
    if (status) return status;
    const int refused = ask(EMU_LOAD, program->binary, program->bytes, &got, &bytes);
    if (refused == 0 && bytes == sizeof program->loaded)
        memcpy(&program->loaded, got, bytes);
    else
        status = refused < 0 ? CL_DEVICE_NOT_AVAILABLE : CL_INVALID_BINARY;
    free(got);
    return status;
}

API cl_int CL_API_CALL clReleaseProgram(cl_program program)
{
    if (--program->refs) return CL_SUCCESS;
    free(program->source), free(program->log), free(program->binary), free(program);
    return CL_SUCCESS;
}

API cl_int CL_API_CALL clGetProgramInfo(cl_program program, cl_program_info what, size_t room, void *out,
                                        size_t *needed)
{
    if (what == CL_PROGRAM_BINARY_SIZES) return answer(&program->bytes, sizeof program->bytes, room, out, needed);
    if (what != CL_PROGRAM_BINARIES) return CL_INVALID_VALUE;
    if (out && *(unsigned char **)out) memcpy(*(unsigned char **)out, program->binary, program->bytes);
    if (needed) *needed = sizeof(unsigned char *);
    return CL_SUCCESS;
}

API cl_int CL_API_CALL clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what,
                                             size_t room, void *out, size_t *needed)
{
    (void)device;
    if (what != CL_PROGRAM_BUILD_LOG) return CL_INVALID_VALUE;
    return answer_text(program->log ? program->log : "", room, out, needed);
}

/* ---- kernels ---- */

API cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char *name, cl_int *status)
{
    (void)name; /* a program of Portico's has one */
    cl_kernel made = calloc(1, sizeof *made);
    *status = made ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    if (made) made->program = program;
    if (made) program->refs++;
    return made;
}

API cl_int CL_API_CALL clReleaseKernel(cl_kernel kernel)
{
    clReleaseProgram(kernel->program);
    free(kernel);
    return CL_SUCCESS;
}

/* Buffers and values both come as bytes; a handle has the size of a pointer, and no value of Portico's kernels has. */
API cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    if (index >= ARGUMENTS || size > VALUE_ROOM) return CL_INVALID_ARG_INDEX;
    kernel_argument *argument = &kernel->arguments[index];
    if (index >= kernel->n_arguments) kernel->n_arguments = index + 1;
    *argument = (kernel_argument){.bytes = size};
    if (size == sizeof(cl_mem))
        memcpy(&argument->mem, value, size);
    else
        memcpy(argument->value, value, size);
    return CL_SUCCESS;
}

API cl_int CL_API_CALL clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what,
                                                size_t room, void *out, size_t *needed)
{
    const cl_ulong shared = kernel->program->loaded.shared, private = kernel->program->loaded.private;
    const size_t most = 1024, multiple = 32;
    (void)device;
    switch (what) {
    case CL_KERNEL_WORK_GROUP_SIZE: return answer(&most, sizeof most, room, out, needed);
    case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE: return answer(&multiple, sizeof multiple, room, out, needed);
    case CL_KERNEL_LOCAL_MEM_SIZE: return answer(&shared, sizeof shared, room, out, needed);
    case CL_KERNEL_PRIVATE_MEM_SIZE: return answer(&private, sizeof private, room, out, needed);
    default: return CL_INVALID_VALUE;
    }
}

/* Returns the bytes of the message. */
static size_t put_run(uint8_t *message, cl_kernel kernel, const size_t *global, const size_t *local)
{
    emu_run run = {.program = kernel->program->loaded.program, .n_arguments = kernel->n_arguments};
    size_t at = sizeof run;
    for (int d = 0; d < 3; d++) run.local[d] = (uint32_t)local[d], run.groups[d] = (uint32_t)(global[d] / local[d]);
    memcpy(message, &run, sizeof run);
    for (uint32_t i = 0; i < kernel->n_arguments; i++) {
        const kernel_argument *from = &kernel->arguments[i];
        const emu_argument argument = {.bytes = from->mem ? 0 : from->bytes,
                                       .offset = from->mem ? from->mem->offset : 0};
        memcpy(message + at, &argument, sizeof argument);
        at += sizeof argument;
        memcpy(message + at, from->value, (size_t)argument.bytes);
        at += ((size_t)argument.bytes + 7) / 8 * 8;
    }
    return at;
}

API cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                              const size_t *offset, const size_t *global, const size_t *local,
                                              cl_uint n, const cl_event *wait, cl_event *event)
{
    uint8_t message[sizeof(emu_run) + ARGUMENTS * (sizeof(emu_argument) + VALUE_ROOM)];
    void *got = NULL;
    size_t bytes = 0;
    (void)queue, (void)offset, (void)n, (void)wait;
    if (dimensions != 3) return CL_INVALID_WORK_DIMENSION;
    const int refused = ask(EMU_RUN, message, put_run(message, kernel, global, local), &got, &bytes);
    if (refused > 0) fprintf(stderr, "emulator: %s\n", (const char *)got);
    free(got);
    return refused ? CL_OUT_OF_RESOURCES : finish(event);
}

/* ---- events ---- */

API cl_int CL_API_CALL clGetEventInfo(cl_event event, cl_event_info what, size_t room, void *out, size_t *needed)
{
    const cl_int status = CL_COMPLETE;
    (void)event;
    return what == CL_EVENT_COMMAND_EXECUTION_STATUS ? answer(&status, sizeof status, room, out, needed)
                                                     : CL_INVALID_VALUE;
}

/* The time that the emulator takes would say nothing of the GPU. */
API cl_int CL_API_CALL clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t room, void *out,
                                               size_t *needed)
{
    (void)event, (void)what, (void)room, (void)out, (void)needed;
    return CL_PROFILING_INFO_NOT_AVAILABLE;
}

API cl_int CL_API_CALL clWaitForEvents(cl_uint count, const cl_event *events)
{
    return (void)count, (void)events, CL_SUCCESS;
}

API cl_int CL_API_CALL clRetainEvent(cl_event event) { return (void)event, CL_SUCCESS; }
API cl_int CL_API_CALL clReleaseEvent(cl_event event) { return (void)event, CL_SUCCESS; }
