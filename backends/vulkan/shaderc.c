/* GLSL to SPIR-V at run time, by libshaderc, which is opened when a kernel is first made of text; where it cannot be
 * opened (Debian 12's lacks symbols that only its program has), by that program, glslc. What they made is kept in the
 * cache, so that a later start needs neither them nor the time. */
#include "vk.h"

#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Of shaderc.h, whose enumerators and signatures are those of its version 1 interface. */
enum { SHADERC_COMPUTE = 2, SHADERC_VULKAN = 0, SHADERC_PERFORMANCE = 2 };
#define SHADERC_VULKAN_1_1 ((1u << 22) | (1u << 12))

typedef struct vk_shaderc {
    void *library;
    void *(*compiler_initialize)(void);
    void (*compiler_release)(void *compiler);
    void *(*compile_options_initialize)(void);
    void (*compile_options_release)(void *options);
    void (*compile_options_set_target_env)(void *options, int target, uint32_t version);
    void (*compile_options_set_optimization_level)(void *options, int level);
    void *(*compile_into_spv)(const void *compiler, const char *text, size_t bytes, int kind, const char *file,
                              const char *entry, const void *options);
    void (*result_release)(void *result);
    size_t (*result_get_length)(const void *result);
    const char *(*result_get_bytes)(const void *result);
    int (*result_get_compilation_status)(const void *result);
    const char *(*result_get_error_message)(const void *result);
} vk_shaderc;

static int vk_shaderc_open(vk_shaderc *calls)
{
    *calls = (vk_shaderc){.library = dlopen("libshaderc.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!calls->library) return 0;
#define VK_FIND(name) \
    *(void **)&calls->name = dlsym(calls->library, "shaderc_" #name); \
    if (!calls->name) goto fail
    VK_FIND(compiler_initialize);
    VK_FIND(compiler_release);
    VK_FIND(compile_options_initialize);
    VK_FIND(compile_options_release);
    VK_FIND(compile_options_set_target_env);
    VK_FIND(compile_options_set_optimization_level);
    VK_FIND(compile_into_spv);
    VK_FIND(result_release);
    VK_FIND(result_get_length);
    VK_FIND(result_get_bytes);
    VK_FIND(result_get_compilation_status);
    VK_FIND(result_get_error_message);
#undef VK_FIND
    return 1;
fail:
    dlclose(calls->library);
    return 0;
}

/* The first line that names an error: "snake:3: error: ..." */
static void vk_shaderc_words(char *out, size_t room, const char *log)
{
    const char *at = log ? strstr(log, "error") : NULL;
    while (at && at > log && at[-1] != '\n') at--;
    if (!at) at = log && *log ? log : "the compiler gives no reason";
    snprintf(out, room, "%.*s", (int)strcspn(at, "\r\n"), at);
}

/* ---- the program ---- */

/* Not by PATH: a library runs nothing that its user's surroundings choose. */
static const char *const VK_GLSLC[] = {"/usr/bin/glslc", "/usr/local/bin/glslc"};

/* Runs glslc on files without names, 0 to 2 of it. Returns the state of waitpid, or -1. */
static int vk_glslc_spawn(const char *program, const int *files)
{
    char *arguments[] = {
        (char *)(uintptr_t)program, "-fshader-stage=compute", "--target-env=vulkan1.1", "-O", "-o", "-", "-", NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int state = -1, failed = 0;
    if (posix_spawn_file_actions_init(&actions)) return -1;
    for (int i = 0; i < 3; i++) failed |= posix_spawn_file_actions_adddup2(&actions, files[i], i);
    if (!failed && !posix_spawn(&child, program, &actions, NULL, arguments, environ))
        while (waitpid(child, &state, 0) < 0)
            if (errno != EINTR) {
                state = -1;
                break;
            }
    posix_spawn_file_actions_destroy(&actions);
    return state;
}

/* All of a file, with a NUL behind it; from the host, or NULL. */
static char *vk_glslc_read(const pco_host *host, int file, size_t *bytes)
{
    const off_t size = lseek(file, 0, SEEK_END);
    char *data = size < 0 ? NULL : vk_allocate(host, (size_t)size / 4 + 1, 4);
    ssize_t got = 1;
    *bytes = 0;
    while (data && got > 0 && *bytes < (size_t)size) {
        got = pread(file, data + *bytes, (size_t)size - *bytes, (off_t)*bytes);
        if (got > 0) *bytes += (size_t)got;
    }
    return data;
}

static pco_status vk_glslc_take(const pco_host *host, const char *name, const int *files, int state, pco_gpu_code *code,
                                pco_error *err)
{
    size_t bytes = 0;
    char words[400], *text = vk_glslc_read(host, files[state == 0 ? 1 : 2], &bytes);
    if (!text) return vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a kernel");
    if (state == 0 && bytes && bytes % 4 == 0) {
        *code = (pco_gpu_code){text, bytes};
        return PCO_OK;
    }
    vk_shaderc_words(words, sizeof words, state == 0 ? NULL : text);
    vk_release(host, text);
    const int nameless = strncmp(words, "<stdin>", 7) == 0;
    return vk_fail(err, PCO_ERROR_INVALID, "its kernel does not compile: %s%s", nameless ? name : "",
                   nameless ? words + 7 : words);
}

static pco_status vk_glslc_run(pco_device *device, const char *name, const pco_gpu_code *source, pco_gpu_code *code,
                               pco_error *err)
{
    const char *program = NULL;
    for (size_t i = 0; !program && i < sizeof VK_GLSLC / sizeof *VK_GLSLC; i++)
        if (access(VK_GLSLC[i], X_OK) == 0) program = VK_GLSLC[i];
    if (!program)
        return vk_fail(
            err, PCO_ERROR_UNSUPPORTED,
            "its kernel is compiled by libshaderc.so.1, or glslc where that cannot be opened (Debian 12), and "
            "there is neither; install libshaderc1 or glslc");
    pco_status status = PCO_ERROR_OUT_OF_HOST_MEMORY;
    int files[3], good = 1;
    for (int i = 0; i < 3; i++) {
        files[i] = memfd_create("portico-kernel", MFD_CLOEXEC);
        good = good && files[i] > 2;
    }
    for (size_t at = 0; good && at < source->bytes;) {
        const ssize_t done = pwrite(files[0], (const char *)source->data + at, source->bytes - at, (off_t)at);
        good = done > 0;
        at += done > 0 ? (size_t)done : 0;
    }
    if (good)
        status = vk_glslc_take(device->gpu.host, name, files, vk_glslc_spawn(program, files), code, err);
    else
        status = vk_fail(err, status, "no file in memory for a kernel: %s", strerror(errno));
    for (int i = 0; i < 3; i++)
        if (files[i] >= 0) close(files[i]);
    return status;
}

/* ---- the library ---- */

static pco_status vk_shaderc_take(pco_device *device, const vk_shaderc *calls, const void *result, pco_gpu_code *code,
                                  pco_error *err)
{
    char words[400];
    if (!result || calls->result_get_compilation_status(result) != 0) {
        vk_shaderc_words(words, sizeof words, result ? calls->result_get_error_message(result) : NULL);
        return vk_fail(err, PCO_ERROR_INVALID, "its kernel does not compile: %s", words);
    }
    const size_t bytes = calls->result_get_length(result);
    void *copy = vk_allocate(device->gpu.host, bytes / 4 + 1, 4);
    if (!copy) return vk_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a kernel");
    memcpy(copy, calls->result_get_bytes(result), bytes);
    *code = (pco_gpu_code){copy, bytes};
    return PCO_OK;
}

static pco_status vk_shaderc_run(pco_device *device, const char *name, const pco_gpu_code *source, pco_gpu_code *code,
                                 pco_error *err)
{
    vk_shaderc calls;
    pco_status status = PCO_ERROR_OUT_OF_HOST_MEMORY;
    if (!vk_shaderc_open(&calls)) return vk_glslc_run(device, name, source, code, err);
    void *compiler = calls.compiler_initialize(), *options = calls.compile_options_initialize(), *result = NULL;
    if (compiler && options) {
        calls.compile_options_set_target_env(options, SHADERC_VULKAN, SHADERC_VULKAN_1_1);
        calls.compile_options_set_optimization_level(options, SHADERC_PERFORMANCE);
        result = calls.compile_into_spv(compiler, source->data, source->bytes, SHADERC_COMPUTE, name, "main", options);
        status = vk_shaderc_take(device, &calls, result, code, err);
    }
    if (result) calls.result_release(result);
    if (options) calls.compile_options_release(options);
    if (compiler) calls.compiler_release(compiler);
    dlclose(calls.library);
    return status;
}

pco_status vk_shaderc_compile(pco_gpu_device *gpu, const char *name, const pco_gpu_code *source, pco_gpu_code *code,
                              pco_error *err)
{
    pco_device *device = (pco_device *)(void *)gpu;
    const pco_host *host = gpu->host;
    char blob[64];
    void *data = NULL;
    size_t bytes = 0;
    snprintf(blob, sizeof blob, "own-%016llx.spv", (unsigned long long)vk_hash(0, source->data, source->bytes));
    if (host->cache_load(host->user, blob, &data, &bytes) == PCO_OK && data && bytes && bytes % 4 == 0) {
        *code = (pco_gpu_code){data, bytes};
        return PCO_OK;
    }
    if (data) host->release(host->user, data);
    const pco_status status = vk_shaderc_run(device, name, source, code, err);
    if (status == PCO_OK) (void)host->cache_store(host->user, blob, code->data, code->bytes);
    return status;
}
