/* What the files of the OpenCL plugin share. No op names in here: gpu/ turns nodes into dispatches.
 *
 *   api.c     libOpenCL, opened at run time, as a table of functions
 *   error.c   error codes in words, statuses, log lines, memory
 *   devices.c which devices there are, and what they can do
 *   device.c  open and close: context, queue, limits, memory left, profiling
 *   buffer.c  memory
 *   program.c kernel code: compiled, cached
 *   record.c  a list of dispatches made ready to enqueue
 *   queue.c   submit, wait, timings */
#ifndef OCL_OPENCL_H
#define OCL_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "gpu/gpu.h"

/* clang-format off */
#define OCL_API_FUNCTIONS(X)                                                                                \
    X(GetPlatformIDs) X(GetPlatformInfo) X(GetDeviceIDs) X(GetDeviceInfo)                                   \
    X(CreateContext) X(ReleaseContext) X(CreateCommandQueue) X(ReleaseCommandQueue)                         \
    X(CreateBuffer) X(CreateSubBuffer) X(ReleaseMemObject)                                                  \
    X(EnqueueWriteBuffer) X(EnqueueReadBuffer) X(EnqueueCopyBuffer)                                         \
    X(CreateProgramWithSource) X(CreateProgramWithBinary) X(BuildProgram) X(ReleaseProgram)                 \
    X(GetProgramInfo) X(GetProgramBuildInfo)                                                                \
    X(CreateKernel) X(ReleaseKernel) X(SetKernelArg) X(GetKernelWorkGroupInfo)                              \
    X(EnqueueNDRangeKernel) X(GetEventInfo) X(GetEventProfilingInfo)                                        \
    X(WaitForEvents) X(RetainEvent) X(ReleaseEvent) X(Flush) X(Finish)
/* clang-format on */

typedef struct ocl_api {
#define OCL_MEMBER(name) __typeof__(cl##name) *name;
    OCL_API_FUNCTIONS(OCL_MEMBER)
#undef OCL_MEMBER
} ocl_api;

/* One device of one platform, as it was found. */
typedef struct ocl_entry {
    cl_platform_id platform;
    cl_device_id id;
} ocl_entry;

struct pco_backend {
    const pco_host *host;
    ocl_api api;
    uint32_t n_entries;
    ocl_entry *entries;
};

/* A compiled kernel: a row of pco_gpu_kernels with its specialisation constants. Lives until close. */
typedef struct ocl_program {
    struct ocl_program *next;
    cl_program program;
    uint32_t kernel, n_specs;
    int32_t specs[PCO_GPU_MAX_SPECS];
} ocl_program;

enum { OCL_FIGURES = 4, OCL_OPTIONS_ROOM = 1024, OCL_PROGRAM_BUCKETS = 64, OCL_TICKETS = 64 };

struct pco_device {
    pco_gpu_device gpu; /* first: gpu/ sees only this */
    const ocl_api *api;
    ocl_entry entry;
    cl_context context;
    cl_command_queue queue; /* in order */
    uint64_t memory, allocated;
    uint64_t identity;                /* hash of platform, device and driver, for names in the cache */
    uint32_t correctly_rounded;       /* 1: / and sqrt are asked to be */
    uint32_t has_bytes;               /* 1: OpenCL C 3.0 has dot products of bytes there */
    uint32_t has_dot2;                /* 1: the compiler is AMD's, and the GPU multiplies two pairs of halves at once */
    uint32_t unified;                 /* 1: host memory can be used in place */
    uint32_t sub_buffers;             /* 1: kernels get sub-buffers, not whole buffers and where windows begin */
    uint32_t kernel_limit_unknown;    /* 1: what the driver says of a kernel's workgroup is not true */
    uint32_t clock_unknown;           /* 1: nor are its times: timings are taken on the host, one dispatch at a time */
    double keeping_ms;                /* spent on keeping binaries since open */
    char described[OCL_OPTIONS_ROOM]; /* build options of the last launch that was described */
    char *described_source;           /* its text */
    pco_machine_code code;            /* of that launch, under inspection */
    pco_code_figure figures[OCL_FIGURES];
    unsigned char *binary;
    uint32_t lost;
    ocl_program *programs[OCL_PROGRAM_BUCKETS];
    /* The last command of the most recent submissions; ticket t lies at t % OCL_TICKETS. */
    uint64_t ticket;
    cl_event events[OCL_TICKETS];
};

struct pco_buffer {
    cl_mem mem;
    uint64_t bytes;   /* as asked for */
    uint64_t room;    /* as allocated, a multiple of 16 */
    uint64_t counted; /* how much of it counts as device memory */
};

typedef struct ocl_step {
    cl_kernel kernel; /* all arguments set; NULL: an empty grid */
    size_t global[3], local[3];
    uint32_t node;
    cl_event event;       /* of the last run, when timings are taken */
    uint64_t nanoseconds; /* of the last run, taken on the host */
} ocl_step;

struct pco_gpu_recording {
    uint32_t count, per_segment;
    uint32_t timed;
    ocl_step *steps;
    uint32_t n_windows;
    cl_mem *windows; /* sub-buffers, where the device is given them */
};

/* api.c */
PCO_NODISCARD pco_status ocl_api_load(ocl_api *api, pco_error *err);

/* error.c */
#if defined(__GNUC__)
#define OCL_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define OCL_PRINTF(text, first)
#endif
const char *ocl_code_name(cl_int code);
/* Sets the message and returns the status. */
pco_status ocl_fail(pco_error *err, pco_status status, const char *format, ...) OCL_PRINTF(3, 4);
/* A call that failed while the device was at work: out of resources means that it is lost. */
pco_status ocl_fail_code(pco_device *device, pco_error *err, cl_int code, const char *what);
/* OK, or DEVICE_LOST once the device is lost. */
PCO_NODISCARD pco_status ocl_alive(const pco_device *device, pco_error *err);
void ocl_log(const pco_host *host, pco_log_level level, const char *format, ...) OCL_PRINTF(3, 4);
/* Zeroed memory from the host, or NULL. */
void *ocl_allocate(const pco_host *host, size_t bytes);
void ocl_release(const pco_host *host, void *memory);
/* Continues a 64-bit hash (FNV-1a); start with OCL_HASH_START. */
#define OCL_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t ocl_hash(uint64_t hash, const void *data, size_t bytes);
uint64_t ocl_hash_text(uint64_t hash, const char *text);

/* devices.c */
/* What a device says of itself that Portico wants to know. */
typedef struct ocl_facts {
    char name[256], driver[256], version[256], vendor[256], platform[256], platform_version[256];
    uint32_t type; /* pco_device_type */
    uint32_t vendor_id;
    uint32_t features, unified, correctly_rounded, has_bytes, has_dot2, kernel_limit_unknown, clock_unknown,
        sub_buffers;
    uint32_t alignment; /* of tensors in a buffer, bytes */
    uint64_t memory, max_allocation;
    uint64_t identity;
    pco_gpu_limits limits;
} ocl_facts;
PCO_NODISCARD pco_status ocl_devices_find(pco_backend *backend, pco_error *err);
PCO_NODISCARD pco_status ocl_devices_facts(const ocl_api *api, const ocl_entry *entry, ocl_facts *facts,
                                           pco_error *err);
pco_status ocl_devices_describe(pco_backend *backend, uint32_t index, pco_device_info *info, pco_error *err);

/* device.c */
pco_status ocl_device_open(pco_backend *backend, uint32_t index, pco_device **device, pco_error *err);
extern const pco_device_api ocl_device_api;

/* buffer.c */
extern const pco_buffer_api ocl_buffer_api;

/* program.c */
PCO_NODISCARD pco_status ocl_program_find(pco_device *device, uint32_t kernel, const int32_t *specs, uint32_t n_specs,
                                          ocl_program **program, pco_error *err);
/* The driver's part of pco_dispatch_info. */
PCO_NODISCARD pco_status ocl_program_describe(pco_gpu_device *gpu, const pco_gpu_dispatch *dispatch,
                                              pco_dispatch_info *info, pco_error *err);
void ocl_programs_destroy(pco_device *device);

/* record.c */
extern const pco_gpu_driver ocl_gpu_driver;

/* queue.c */
/* Nanoseconds of a clock that only goes forward. */
uint64_t ocl_now(void);
extern const pco_queue_api ocl_queue_api;
/* Kernel times of the last run, one entry per run of dispatches of the same node; returns how many. */
uint32_t ocl_queue_timings(pco_gpu_device *gpu, pco_gpu_recording *recording, pco_timing *out, uint32_t capacity);

#endif
