/* Kernel code: one program per row of the kernel table and set of specialisation constants, compiled once
 * per device and kept on disk as the driver's binary. */
#include "opencl.h"

#include <stdio.h>
#include <string.h>

enum { OCL_KEEPING_MS = 500 };

/* What one build works with. */
typedef struct ocl_build {
    pco_device *device;
    const pco_gpu_kernel *row;
    const pco_gpu_code *pieces;
    char options[OCL_OPTIONS_ROOM];
    char name[64]; /* in the cache */
} ocl_build;

/* No fast-math of any kind: the contract is judged. */
static pco_status ocl_build_start(ocl_build *build, pco_device *device, uint32_t kernel, const int32_t *specs,
                                  uint32_t n_specs, pco_error *err)
{
    *build = (ocl_build){
        .device = device,
        .row = pco_gpu_row(&device->gpu, kernel),
        .pieces = pco_gpu_source_of(&device->gpu, kernel),
    };
    if (!build->pieces)
        return ocl_fail(err, PCO_ERROR_UNSUPPORTED, "kernel %s has no OpenCL code in this build", build->row->name);
    char *text = build->options;
    /* The row's own defines stand in its text. No warnings: PoCL writes their number to the user's terminal, "5
     * warnings generated.", of float16 arguments on a processor without such registers; shaders/check.py reads ours. */
    const int bytes = device->has_bytes && build->row->needs & PCO_GPU_NEEDS_INTEGER_DOT;
    const int dot2 = device->has_dot2 && build->row->needs & PCO_GPU_NEEDS_MIXED_FLOAT_DOT;
    int used =
        snprintf(text, OCL_OPTIONS_ROOM, "-cl-std=CL%s -w%s%s%s%s", bytes ? "3.0 -DBYTES" : "1.2",
                 dot2 ? " -DDOT2_AMD" : "", device->correctly_rounded ? " -cl-fp32-correctly-rounded-divide-sqrt" : "",
                 device->gpu.limits.needs_met & PCO_GPU_NEEDS_VECTOR_16 ? " -DVECTOR_16" : "",
                 device->sub_buffers ? " -DSUB_BUFFERS" : "");
    for (uint32_t i = 0; i < n_specs && used < OCL_OPTIONS_ROOM; i++)
        used += snprintf(text + used, (size_t)(OCL_OPTIONS_ROOM - used), " -DS%u=%d", i, (int)specs[i]);
    if (used >= OCL_OPTIONS_ROOM)
        return ocl_fail(err, PCO_ERROR_INTERNAL, "kernel %s: too many defines", build->row->name);
    /* The options hold the specialisation constants. */
    uint64_t hash = ocl_hash(device->identity, &build->row->hash, sizeof build->row->hash);
    hash = ocl_hash_text(ocl_hash_text(hash, build->row->name), text);
    snprintf(build->name, sizeof build->name, "opencl-%016llx.bin", (unsigned long long)hash);
    return PCO_OK;
}

/* The line of a build log that names the error: the first with "error" in it, else the first with text. */
static void ocl_first_error(char *out, size_t room, const char *log)
{
    const char *first = NULL, *found = NULL;
    for (const char *line = log; line && *line && !found; line = strchr(line, '\n')) {
        line += strspn(line, "\r\n \t");
        size_t length = strcspn(line, "\r\n");
        if (length && !first) first = line;
        for (size_t i = 0; i + 5 <= length && !found; i++)
            if (!strncmp(line + i, "error", 5) || !strncmp(line + i, "Error", 5)) found = line;
    }
    const char *line = found ? found : first ? first : "the driver gives no reason";
    snprintf(out, room, "%.*s", (int)strcspn(line, "\r\n"), line);
}

static pco_status ocl_build_failed(const ocl_build *build, cl_program program, cl_int code, pco_error *err)
{
    pco_device *device = build->device;
    size_t bytes = 0;
    char *log = NULL;
    if (device->api->GetProgramBuildInfo(program, device->entry.id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) ==
            CL_SUCCESS &&
        bytes && (log = ocl_allocate(device->gpu.host, bytes + 1)))
        device->api->GetProgramBuildInfo(program, device->entry.id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
    ocl_log(device->gpu.host, PCO_LOG_DEBUG, "opencl: kernel %s (%s) does not compile:", build->row->name,
            build->options);
    for (const char *line = log; line && *line; line += *line == '\n') {
        size_t length = strcspn(line, "\n");
        ocl_log(device->gpu.host, PCO_LOG_DEBUG, "opencl:   %.*s", (int)(length < 900 ? length : 900), line);
        line += length;
    }
    char words[512];
    ocl_first_error(words, sizeof words, log ? log : "");
    ocl_release(device->gpu.host, log);
    if (code == CL_OUT_OF_HOST_MEMORY)
        return ocl_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory to compile kernel %s", build->row->name);
    return ocl_fail(err, PCO_ERROR_INTERNAL, "kernel %s does not compile on %s (%s): %s", build->row->name,
                    device->gpu.name, ocl_code_name(code), words);
}

static pco_status ocl_build_from_source(const ocl_build *build, cl_program *program, pco_error *err)
{
    pco_device *device = build->device;
    const char *texts[PCO_GPU_MOST_PIECES];
    size_t lengths[PCO_GPU_MOST_PIECES];
    cl_uint n = 0;
    for (; n < PCO_GPU_MOST_PIECES && build->pieces[n].data; n++)
        texts[n] = build->pieces[n].data, lengths[n] = build->pieces[n].bytes;
    cl_int code = CL_SUCCESS;
    *program = device->api->CreateProgramWithSource(device->context, n, texts, lengths, &code);
    if (!*program) return ocl_fail_code(device, err, code, "creating a program");
    code = device->api->BuildProgram(*program, 1, &device->entry.id, build->options, NULL, NULL);
    if (code == CL_SUCCESS) return PCO_OK;
    pco_status status = ocl_build_failed(build, *program, code, err);
    device->api->ReleaseProgram(*program);
    *program = NULL;
    return status;
}

/* NULL when there is no binary, or the driver does not want it any more. A damaged one must not get here
 * (PoCL and rusticl abort on it): the host's checksum sees to that. */
static cl_program ocl_build_from_cache(const ocl_build *build)
{
    pco_device *device = build->device;
    const pco_host *host = device->gpu.host;
    void *data = NULL;
    size_t bytes = 0;
    if (host->cache_load(host->user, build->name, &data, &bytes) != PCO_OK || !data) return NULL;
    const unsigned char *binary = data;
    cl_int code = CL_SUCCESS, code_of_binary = CL_SUCCESS;
    cl_program program = NULL;
    if (bytes)
        program = device->api->CreateProgramWithBinary(device->context, 1, &device->entry.id, &bytes, &binary,
                                                       &code_of_binary, &code);
    ocl_release(host, data);
    if (program && code_of_binary == CL_SUCCESS)
        code = device->api->BuildProgram(program, 1, &device->entry.id, build->options, NULL, NULL);
    if (program && code == CL_SUCCESS && code_of_binary == CL_SUCCESS) return program;
    if (program) device->api->ReleaseProgram(program);
    ocl_log(host, PCO_LOG_DEBUG, "opencl: the driver refuses the kept binary of %s: compiling again", build->row->name);
    return NULL;
}

/* The program as the driver keeps it, or NULL. */
static unsigned char *ocl_binary(pco_device *device, cl_program program, size_t *bytes)
{
    *bytes = 0;
    if (device->api->GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof *bytes, bytes, NULL) != CL_SUCCESS ||
        !*bytes)
        return NULL;
    unsigned char *binary = ocl_allocate(device->gpu.host, *bytes);
    if (!binary) return NULL;
    if (device->api->GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS)
        return binary;
    ocl_release(device->gpu.host, binary);
    return NULL;
}

static pco_status ocl_build_store(const ocl_build *build, cl_program program)
{
    pco_device *device = build->device;
    const pco_host *host = device->gpu.host;
    size_t bytes;
    unsigned char *binary = ocl_binary(device, program, &bytes);
    if (!binary) return PCO_ERROR_UNSUPPORTED;
    pco_status status = host->cache_store(host->user, build->name, binary, bytes);
    ocl_release(host, binary);
    return status;
}

/* The limit of this kernel may be below the device's. */
static pco_status ocl_check_workgroup(const ocl_build *build, const ocl_program *made, pco_error *err)
{
    pco_device *device = build->device;
    cl_int code = CL_SUCCESS;
    cl_kernel kernel = device->api->CreateKernel(made->program, "pco_main", &code);
    if (!kernel)
        return ocl_fail(err, PCO_ERROR_INTERNAL, "kernel %s has no entry pco_main on %s (%s)", build->row->name,
                        device->gpu.name, ocl_code_name(code));
    size_t most = 0;
    code = device->api->GetKernelWorkGroupInfo(kernel, device->entry.id, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most,
                                               NULL);
    device->api->ReleaseKernel(kernel);
    if (code != CL_SUCCESS || !most || most > device->gpu.limits.max_workgroup || device->kernel_limit_unknown)
        most = device->gpu.limits.max_workgroup;
    uint64_t wanted = (uint64_t)made->specs[0] * (uint64_t)made->specs[1] * (uint64_t)made->specs[2];
    if (wanted > most)
        return ocl_fail(err, PCO_ERROR_UNSUPPORTED,
                        "kernel %s wants a workgroup of %llu on %s, which can run it with %llu at most",
                        build->row->name, (unsigned long long)wanted, device->gpu.name, (unsigned long long)most);
    return PCO_OK;
}

/* Some drivers compile once more for a binary (PoCL: up to a second for a kernel). A device spends a limited
 * time on keeping, so that a first start is not held up; what is left out is kept by later ones. */
static void ocl_keep(const ocl_build *build, cl_program program)
{
    pco_device *device = build->device;
    if (device->keeping_ms >= OCL_KEEPING_MS) return;
    const uint64_t start = ocl_now();
    if (ocl_build_store(build, program) != PCO_OK) {
        ocl_log(device->gpu.host, PCO_LOG_DEBUG, "opencl: no binary of %s is kept", build->row->name);
        device->keeping_ms = OCL_KEEPING_MS; /* nor of the others, most likely */
        return;
    }
    device->keeping_ms += 1e-6 * (double)(ocl_now() - start);
}

/* A fresh entry with its program, from the cache or from source. */
static pco_status ocl_program_make(const ocl_build *build, ocl_program *made, pco_error *err)
{
    pco_device *device = build->device;
    const pco_host *host = device->gpu.host;
    const uint64_t start = ocl_now();
    made->program = ocl_build_from_cache(build);
    if (made->program && ocl_check_workgroup(build, made, err) == PCO_OK) {
        ocl_log(host, PCO_LOG_DEBUG, "opencl: kernel %s from the cache in %.1f ms", build->row->name,
                1e-6 * (double)(ocl_now() - start));
        return PCO_OK;
    }
    if (made->program) device->api->ReleaseProgram(made->program);
    pco_status status = ocl_build_from_source(build, &made->program, err);
    if (status != PCO_OK) return status;
    ocl_log(host, PCO_LOG_DEBUG, "opencl: kernel %s (%s) compiled in %.1f ms", build->row->name, build->options,
            1e-6 * (double)(ocl_now() - start));
    status = ocl_check_workgroup(build, made, err);
    if (status != PCO_OK) {
        device->api->ReleaseProgram(made->program);
        made->program = NULL;
        return status;
    }
    ocl_keep(build, made->program);
    return PCO_OK;
}

pco_status ocl_program_find(pco_device *device, uint32_t kernel, const int32_t *specs, uint32_t n_specs,
                            ocl_program **program, pco_error *err)
{
    *program = NULL;
    if (!pco_gpu_row(&device->gpu, kernel) || n_specs < 3 || n_specs > PCO_GPU_MAX_SPECS || specs[0] < 1 ||
        specs[1] < 1 || specs[2] < 1)
        return ocl_fail(err, PCO_ERROR_INTERNAL, "a dispatch without a kernel or workgroup size");
    uint64_t key = ocl_hash(ocl_hash(OCL_HASH_START, &kernel, sizeof kernel), specs, n_specs * sizeof *specs);
    ocl_program **bucket = &device->programs[(key ^ key >> 32) % OCL_PROGRAM_BUCKETS];
    for (ocl_program *known = *bucket; known; known = known->next)
        if (known->kernel == kernel && known->n_specs == n_specs &&
            !memcmp(known->specs, specs, n_specs * sizeof *specs)) {
            *program = known;
            return PCO_OK;
        }
    ocl_build build;
    pco_status status = ocl_build_start(&build, device, kernel, specs, n_specs, err);
    if (status != PCO_OK) return status;
    ocl_program *made = ocl_allocate(device->gpu.host, sizeof *made);
    if (!made) return ocl_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for kernel %s", build.row->name);
    made->kernel = kernel;
    made->n_specs = n_specs;
    memcpy(made->specs, specs, n_specs * sizeof *specs);
    status = ocl_program_make(&build, made, err);
    if (status != PCO_OK) {
        ocl_release(device->gpu.host, made);
        return status;
    }
    made->next = *bucket;
    *bucket = made;
    *program = made;
    return PCO_OK;
}

/* What OpenCL tells of a kernel on a device, and the driver's binary. */
static pco_status ocl_program_inspect(pco_device *device, const pco_gpu_dispatch *dispatch, pco_dispatch_info *info,
                                      pco_error *err)
{
    static const struct {
        cl_kernel_work_group_info which;
        const char *name;
        int is_size; /* size_t; else cl_ulong */
    } ASKED[OCL_FIGURES] = {{CL_KERNEL_PRIVATE_MEM_SIZE, "Private memory", 0},
                            {CL_KERNEL_LOCAL_MEM_SIZE, "Local memory", 0},
                            {CL_KERNEL_WORK_GROUP_SIZE, "Most work-items", 1},
                            {CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, "Preferred multiple", 1}};
    ocl_program *made;
    pco_status status = ocl_program_find(device, dispatch->kernel, dispatch->specs, dispatch->n_specs, &made, err);
    if (status != PCO_OK) return status;
    cl_int code = CL_SUCCESS;
    cl_kernel kernel = device->api->CreateKernel(made->program, "pco_main", &code);
    if (!kernel) return ocl_fail_code(device, err, code, "creating a kernel");
    device->code = (pco_machine_code){.name = "kernel", .figures = device->figures};
    for (uint32_t i = 0; i < OCL_FIGURES; i++) {
        size_t size = 0;
        cl_ulong value = 0;
        if (device->api->GetKernelWorkGroupInfo(kernel, device->entry.id, ASKED[i].which,
                                                ASKED[i].is_size ? sizeof size : sizeof value,
                                                ASKED[i].is_size ? (void *)&size : (void *)&value, NULL) == CL_SUCCESS)
            device->figures[device->code.n_figures++] =
                (pco_code_figure){ASKED[i].name, ASKED[i].is_size ? (double)size : (double)value};
    }
    device->api->ReleaseKernel(kernel);
    size_t bytes;
    ocl_release(device->gpu.host, device->binary);
    device->binary = ocl_binary(device, made->program, &bytes);
    device->code.binary = device->binary;
    device->code.binary_bytes = device->binary ? bytes : 0;
    info->codes = &device->code;
    info->n_codes = 1;
    return PCO_OK;
}

pco_status ocl_program_describe(pco_gpu_device *gpu, const pco_gpu_dispatch *dispatch, pco_dispatch_info *info,
                                pco_error *err)
{
    pco_device *device = (pco_device *)gpu;
    ocl_build build;
    pco_status status = ocl_build_start(&build, device, dispatch->kernel, dispatch->specs, dispatch->n_specs, err);
    if (status != PCO_OK) return status;
    memcpy(device->described, build.options, sizeof device->described);
    info->api = PCO_DISPATCH_OPENCL;
    info->entry = "pco_main";
    info->options = device->described;
    ocl_release(gpu->host, device->described_source);
    device->described_source = pco_gpu_source_text(gpu, dispatch->kernel, &info->source_bytes);
    if (!device->described_source)
        return ocl_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a kernel's source");
    info->source = device->described_source;
    for (uint32_t i = 0; i < info->n_bindings; i++) { /* windows are of whole words, and never empty */
        uint64_t bytes = info->bindings[i].bytes;
        info->bindings[i].bytes = bytes ? (bytes + 3) & ~(uint64_t)3 : 4;
    }
    return gpu->inspect ? ocl_program_inspect(device, dispatch, info, err) : PCO_OK;
}

void ocl_programs_destroy(pco_device *device)
{
    ocl_release(device->gpu.host, device->binary);
    ocl_release(device->gpu.host, device->described_source);
    for (uint32_t i = 0; i < OCL_PROGRAM_BUCKETS; i++) {
        ocl_program *next = NULL;
        for (ocl_program *program = device->programs[i]; program; program = next) {
            next = program->next;
            device->api->ReleaseProgram(program->program);
            ocl_release(device->gpu.host, program);
        }
        device->programs[i] = NULL;
    }
}
