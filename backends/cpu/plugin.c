/* The CPU plugin: device 0 computes with threads and vectors in f32, device 1 is the reference, plain loops
 * in double. */
#include "program.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { CPU_NATIVE = 0, CPU_REFERENCE = 1, CPU_DEVICES = 2 };

/* The processor's name from /proc/cpuinfo, where the first one's is within the first lines; where it has none, the
 * architecture's. Nothing is allocated: without memory the device would have another name than it had. */
static void cpu_read_model(char *model, size_t room)
{
#if defined(__aarch64__)
    snprintf(model, room, "AArch64 processor");
#elif defined(__x86_64__)
    snprintf(model, room, "x86-64 processor");
#else
    snprintf(model, room, "processor");
#endif
    char text[4096] = "\n";
    size_t size = 1;
    const int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    for (ssize_t got = 1; got > 0 && size + 1 < sizeof text; size += got > 0 ? (size_t)got : 0)
        got = read(fd, text + size, sizeof text - 1 - size);
    close(fd);
    const char *line = strstr(text, "\nmodel name"), *value = line ? strchr(line, ':') : NULL;
    if (!value) return;
    value += 1 + strspn(value + 1, " \t");
    snprintf(model, room, "%.*s", (int)strcspn(value, "\n"), value);
}

static pco_status cpu_backend_create(const pco_host *host, pco_backend **backend, pco_error *err)
{
    *backend = NULL;
    *backend = host->allocate(host->user, sizeof **backend, 16);
    if (!*backend) return cpu_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the backend");
    (*backend)->host = host;
    cpu_read_model((*backend)->model, sizeof(*backend)->model);
    return PCO_OK;
}

static void cpu_backend_destroy(pco_backend *backend)
{
    if (backend) backend->host->release(backend->host->user, backend);
}

static uint32_t cpu_device_count(pco_backend *backend)
{
    (void)backend;
    return CPU_DEVICES;
}

static uint64_t cpu_memory(int name)
{
    long pages = sysconf(name), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

static const cpu_kernels *cpu_device_kernels(const pco_host *host)
{
    return cpu_kernels_choose(host->setting(host->user, "cpu_simd"));
}

/* native: sums in f32 partial sums or better, fused where the processor can, functions within the bounds of
 * simd_math.h and libm (below 4 ulp). reference: one rounding of a result in double; libm's double functions
 * err by 2^-29 of an f32 ulp, which 0.501 covers many times. Neither flushes subnormals. */
static pco_contract cpu_contract(bool reference)
{
    uint32_t type = reference ? PCO_CONTRACT_F64 : PCO_F32;
    return (pco_contract){
        .accumulate_f32 = type,
        .accumulate_f16 = type,
        .accumulate_bf16 = type,
        .compute = type,
        .round_to_nearest = 1,
        .subnormals = 1,
        .contraction = !reference,
        .nan_inf = 1,
        .div_ulp = 0.5f,
        .sqrt_ulp = 0.5f,
        .rsqrt_ulp = 0.501f,
        .function_ulp = reference ? 0.501f : 4.0f,
    };
}

static pco_status cpu_describe(pco_backend *backend, uint32_t index, pco_device_info *info, pco_error *err)
{
    if (index >= CPU_DEVICES) return cpu_fail(err, PCO_ERROR_NOT_FOUND, "the cpu plugin has no device %u", index);
    const pco_host *host = backend->host;
    const cpu_kernels *kernels = cpu_device_kernels(host);
    bool reference = index == CPU_REFERENCE;
    *info = (pco_device_info){
        .size = sizeof *info,
        .type = PCO_DEVICE_CPU,
        .memory = cpu_memory(_SC_PHYS_PAGES),
        .max_allocation = INT64_MAX,
        .max_binding = INT64_MAX,
        .buffer_alignment = 64,
        .max_workgroup = host->thread_count(host->user),
        .features = PCO_FEATURE_UNIFIED_MEMORY | PCO_FEATURE_F64 | PCO_FEATURE_TIMESTAMPS | PCO_FEATURE_STORAGE_16,
        .contract = cpu_contract(reference),
    };
    const int edges[] = {kernels->lanes,
                         kernels->tile_rows,
                         kernels->tile_columns,
                         4 * kernels->lanes,
                         64 * kernels->lanes,
                         4,
                         16,
                         64,
                         256,
                         1008,
                         1024,
                         2048}; /* gemm.c, gemv.c, simd_*.h */
    for (size_t i = 0; i < sizeof edges / sizeof *edges && !reference; i++)
        info->edges[info->n_edges++] = (uint32_t)edges[i];
    snprintf(info->name, sizeof info->name, "%s", backend->model);
    snprintf(info->driver, sizeof info->driver, "portico-cpu %s%s%s", PCO_VERSION, reference ? "" : " ",
             reference ? "" : kernels->name);
    snprintf(info->driver_version, sizeof info->driver_version, "%s", PCO_VERSION);
    snprintf(info->aliases, sizeof info->aliases, "%s", reference ? "reference" : "native");
    return PCO_OK;
}

static pco_status cpu_open(pco_backend *backend, uint32_t index, pco_device **device, pco_error *err)
{
    *device = NULL;
    if (index >= CPU_DEVICES) return cpu_fail(err, PCO_ERROR_NOT_FOUND, "the cpu plugin has no device %u", index);
    const pco_host *host = backend->host;
    *device = host->allocate(host->user, sizeof **device, 16);
    if (!*device) return cpu_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the device");
    uint32_t threads = host->thread_count(host->user);
    **device = (pco_device){
        .host = host,
        .kernels = cpu_device_kernels(host),
        .reference = index == CPU_REFERENCE,
        .threads = threads ? threads : 1,
    };
    return PCO_OK;
}

static void cpu_close(pco_device *device)
{
    if (device) device->host->release(device->host->user, device);
}

static uint64_t cpu_memory_left(pco_device *device)
{
    (void)device;
    return cpu_memory(_SC_AVPHYS_PAGES);
}

static pco_status cpu_profile(pco_device *device, int on, pco_error *err)
{
    (void)err;
    device->profiling = on != 0;
    return PCO_OK;
}

static const pco_device_api cpu_device_api = {
    .size = sizeof(pco_device_api), .close = cpu_close, .memory_left = cpu_memory_left, .profile = cpu_profile};

const pco_plugin *pco_plugin_query(uint32_t host_abi_version)
{
    static const pco_plugin plugin = {
        .size = sizeof(pco_plugin),
        .abi_version = PCO_ABI_VERSION,
        .name = "cpu",
        .version = PCO_VERSION,
        .description = "The processor: vectors and threads (native), and plain loops in double (reference)",
        .create = cpu_backend_create,
        .destroy = cpu_backend_destroy,
        .device_count = cpu_device_count,
        .describe = cpu_describe,
        .open = cpu_open,
        .device = &cpu_device_api,
        .buffer = &cpu_buffer_api,
        .program = &cpu_program_api,
        .queue = &cpu_queue_api,
    };
    return host_abi_version >> 16 == PCO_ABI_MAJOR ? &plugin : NULL;
}
