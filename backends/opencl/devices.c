/* Which OpenCL devices there are, of any vendor, and what each can do and promises. */
#include "opencl.h"

#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const struct {
    const char *sign, *alias; /* a device whose texts hold the sign goes by the alias as well */
} ocl_aliases[] = {
    {"portable computing language", "pocl"},
    {"rusticl", "rusticl"},
    {"clover", "clover"},
    {"oclgrind", "oclgrind"},
    {"llvmpipe", "llvmpipe"},
    {"softpipe", "softpipe"},
    {"clvk", "clvk"},
    {"intel(r) corporation", "intel"},
    {"nvidia", "nvidia"},
    {"advanced micro devices", "amd"},
    {"amd ", "amd"},
    {"radeon", "radeon"},
    {"adreno", "adreno"},
    {"qualcomm", "qualcomm"},
    {"freedreno", "adreno"},
    {"mali", "mali"},
    {"panfrost", "mali"},
    {"broadcom", "videocore"},
    {"powervr", "powervr"},
    {"vivante", "vivante"},
    {"apple", "apple"},
};
/* clang-format on */

/* ---- enumeration ------------------------------------------------------------------------------------- */

/* Questions to a driver. What a question that it does not know leaves open, an older one's, is as if it were answered
 * with 0 or nothing; any other error means that the device is not known, and must not be used by what it seems to be.
 */
typedef struct ocl_asked {
    const ocl_api *api;
    const ocl_entry *entry;
    cl_int code; /* the first such error */
} ocl_asked;

/* 1: there is an answer. */
static int ocl_answered(ocl_asked *asked, cl_int code)
{
    if (code != CL_SUCCESS && code != CL_INVALID_VALUE && asked->code == CL_SUCCESS) asked->code = code;
    return code == CL_SUCCESS;
}

static int ocl_ask_device(ocl_asked *asked, cl_device_info what, void *out, size_t room)
{
    return ocl_answered(asked, asked->api->GetDeviceInfo(asked->entry->id, what, room, out, NULL));
}

static cl_uint ocl_device_uint(ocl_asked *asked, cl_device_info what)
{
    cl_uint value = 0;
    return ocl_ask_device(asked, what, &value, sizeof value) ? value : 0;
}

static uint64_t ocl_device_ulong(ocl_asked *asked, cl_device_info what)
{
    cl_ulong value = 0;
    return ocl_ask_device(asked, what, &value, sizeof value) ? value : 0;
}

static size_t ocl_device_size(ocl_asked *asked, cl_device_info what)
{
    size_t value = 0;
    return ocl_ask_device(asked, what, &value, sizeof value) ? value : 0;
}

/* A device of which the driver does not even say that is kept: describing and opening it will say why. */
static int ocl_usable(const ocl_api *api, const ocl_entry *entry)
{
    ocl_asked asked = {.api = api, .entry = entry};
    const int usable = ocl_device_uint(&asked, CL_DEVICE_AVAILABLE) &&
                       ocl_device_uint(&asked, CL_DEVICE_COMPILER_AVAILABLE) &&
                       ocl_device_uint(&asked, CL_DEVICE_ENDIAN_LITTLE);
    return usable || asked.code != CL_SUCCESS;
}

/* The usable devices of one platform, in the platform's own order. */
static pco_status ocl_platform_devices(pco_backend *backend, cl_platform_id platform, pco_error *err)
{
    const ocl_api *api = &backend->api;
    const pco_host *host = backend->host;
    cl_uint count = 0;
    /* A platform without a device (Clover, rusticl that was not asked for) says so with an error. */
    if (api->GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count) != CL_SUCCESS || !count) return PCO_OK;
    cl_device_id *ids = ocl_allocate(host, count * sizeof *ids);
    ocl_entry *entries = ocl_allocate(host, (backend->n_entries + (size_t)count) * sizeof *entries);
    if (!ids || !entries) {
        ocl_release(host, ids);
        ocl_release(host, entries);
        return ocl_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a list of %u devices", count);
    }
    const cl_int code = api->GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids, NULL);
    if (code != CL_SUCCESS) {
        ocl_log(host, PCO_LOG_WARNING,
                "opencl: a platform says that it has %u devices, and does not name them (%s, %d)", count,
                ocl_code_name(code), code);
        count = 0;
    }
    uint32_t n = backend->n_entries;
    if (n) memcpy(entries, backend->entries, n * sizeof *entries);
    for (cl_uint i = 0; i < count; i++) {
        entries[n] = (ocl_entry){.platform = platform, .id = ids[i]};
        if (ids[i] && ocl_usable(api, &entries[n])) n++;
    }
    ocl_release(host, ids);
    ocl_release(host, backend->entries);
    backend->entries = entries;
    backend->n_entries = n;
    return PCO_OK;
}

pco_status ocl_devices_find(pco_backend *backend, pco_error *err)
{
    const ocl_api *api = &backend->api;
    cl_uint count = 0;
    cl_int code = api->GetPlatformIDs(0, NULL, &count);
    if (code != CL_SUCCESS || !count)
        return ocl_fail(err, PCO_ERROR_UNSUPPORTED, "the OpenCL loader finds no driver (%s); is an ICD file installed?",
                        code ? ocl_code_name(code) : "no platform");
    cl_platform_id *platforms = ocl_allocate(backend->host, count * sizeof *platforms);
    if (!platforms) return ocl_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a list of %u platforms", count);
    pco_status status = PCO_OK;
    code = api->GetPlatformIDs(count, platforms, NULL);
    if (code != CL_SUCCESS)
        status = ocl_fail(err, PCO_ERROR_INTERNAL,
                          "the OpenCL loader says that it has %u platforms, and does not name "
                          "them (%s, %d)",
                          count, ocl_code_name(code), code);
    for (cl_uint i = 0; i < count && status == PCO_OK; i++) status = ocl_platform_devices(backend, platforms[i], err);
    ocl_release(backend->host, platforms);
    return status;
}

/* ---- facts ------------------------------------------------------------------------------------------- */

static void ocl_trim(char *text)
{
    size_t lead = strspn(text, " \t\n");
    size_t length = strlen(text + lead);
    memmove(text, text + lead, length + 1);
    while (length && isspace((unsigned char)text[length - 1])) text[--length] = 0;
}

/* Texts of drivers can be longer than ours: then OpenCL gives nothing, so a longer buffer is asked first. */
enum { OCL_LONG_TEXT = 2048 };

static void ocl_keep_text(const char *text, char out[256])
{
    snprintf(out, 256, "%.255s", text);
    ocl_trim(out);
}

static void ocl_device_text(ocl_asked *asked, cl_device_info what, char out[256])
{
    char text[OCL_LONG_TEXT] = "";
    ocl_keep_text(ocl_ask_device(asked, what, text, sizeof text - 1) ? text : "", out);
}

static void ocl_platform_text(ocl_asked *asked, cl_platform_info what, char out[256])
{
    char text[OCL_LONG_TEXT] = "";
    const cl_int code = asked->api->GetPlatformInfo(asked->entry->platform, what, sizeof text - 1, text, NULL);
    ocl_keep_text(ocl_answered(asked, code) ? text : "", out);
}

static void ocl_lower(char *out, size_t room, const char *text)
{
    size_t i = 0;
    for (; text[i] && i + 1 < room; i++) out[i] = (char)tolower((unsigned char)text[i]);
    out[i] = 0;
}

/* 1: the space-separated list holds the word. */
static int ocl_has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *c = list; (c = strstr(c, word)); c += length)
        if ((c == list || c[-1] == ' ') && (c[length] == 0 || c[length] == ' ')) return 1;
    return 0;
}

static void ocl_find_aliases(const ocl_facts *facts, char *out, size_t room)
{
    char texts[1024], lower[1024];
    snprintf(texts, sizeof texts, "%s | %s | %s | ", facts->platform, facts->vendor, facts->name);
    ocl_lower(lower, sizeof lower, texts);
    out[0] = 0;
    for (size_t i = 0; i < sizeof ocl_aliases / sizeof ocl_aliases[0]; i++) {
        if (!strstr(lower, ocl_aliases[i].sign) || ocl_has_word(out, ocl_aliases[i].alias)) continue;
        size_t used = strlen(out);
        if (used + strlen(ocl_aliases[i].alias) + 2 > room) break;
        snprintf(out + used, room - used, "%s%s", used ? " " : "", ocl_aliases[i].alias);
    }
}

static uint32_t ocl_device_class(ocl_asked *asked, const ocl_facts *facts, const char *aliases)
{
    cl_device_type type = ocl_device_ulong(asked, CL_DEVICE_TYPE);
    if (ocl_has_word(aliases, "llvmpipe") || ocl_has_word(aliases, "softpipe") || ocl_has_word(aliases, "oclgrind") ||
        type & CL_DEVICE_TYPE_CPU)
        return PCO_DEVICE_SOFTWARE;
    if (type & CL_DEVICE_TYPE_GPU) return facts->unified ? PCO_DEVICE_INTEGRATED : PCO_DEVICE_DISCRETE;
    return PCO_DEVICE_OTHER;
}

/* As the Vulkan plugin has it: Adreno, Mali and VideoCore have few registers (docs/gpus). Intel's compiler gives a
 * thread 128 and spills 64 sums for each of its invocations, which Mesa's does not. */
static uint32_t ocl_tiles(uint32_t type, const char *aliases)
{
    if (type == PCO_DEVICE_SOFTWARE) return PCO_GPU_TILES_ANY;
    if (ocl_has_word(aliases, "videocore")) return PCO_GPU_TILES_SMALLEST;
    if (ocl_has_word(aliases, "adreno") || ocl_has_word(aliases, "qualcomm") || ocl_has_word(aliases, "mali"))
        return PCO_GPU_TILES_SMALL;
    return ocl_has_word(aliases, "intel") ? PCO_GPU_TILES_MEDIUM : PCO_GPU_TILES_ANY;
}

static pco_contract ocl_find_contract(ocl_asked *asked, uint32_t correctly_rounded)
{
    cl_device_fp_config fp = ocl_device_ulong(asked, CL_DEVICE_SINGLE_FP_CONFIG);
    pco_contract contract = {
        .accumulate_f32 = PCO_F32,
        .accumulate_f16 = PCO_F32,
        .accumulate_bf16 = PCO_F32,
        .compute = PCO_F32,
        .round_to_nearest = fp & CL_FP_ROUND_TO_NEAREST ? 1 : 0,
        .subnormals = fp & CL_FP_DENORM ? 1 : 0,
        .contraction = 1, /* OpenCL C contracts unless a pragma forbids it */
        .nan_inf = fp & CL_FP_INF_NAN ? 1 : 0,
        /* The floors of the OpenCL specification for f32, or correct rounding. */
        .div_ulp = correctly_rounded ? 0.5f : 2.5f,
        .sqrt_ulp = correctly_rounded ? 0.5f : 3.0f,
        .function_ulp = PCO_GPU_FUNCTION_ULP,
    };
    /* 1 / sqrt(x): an error of s ulp of sqrt is at most 2 s ulp of its inverse. */
    contract.rsqrt_ulp = 2.0f * contract.sqrt_ulp + contract.div_ulp;
    return contract;
}

static uint32_t ocl_min_u64(uint64_t a, uint64_t b) { return (uint32_t)(a < b ? a : b); }

static void ocl_find_limits(ocl_asked *asked, ocl_facts *facts)
{
    pco_gpu_limits *limits = &facts->limits;
    size_t items[16] = {1, 1, 1};
    if (ocl_device_uint(asked, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS) < 3 ||
        !ocl_ask_device(asked, CL_DEVICE_MAX_WORK_ITEM_SIZES, items, sizeof items))
        items[0] = items[1] = items[2] = 1;
    size_t group = ocl_device_size(asked, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    const uint32_t wanted = ocl_device_uint(asked, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;
    facts->alignment = 16;
    while (facts->alignment < wanted && facts->alignment < 1u << 20) facts->alignment *= 2;
    limits->type = facts->type;
    if (ocl_device_uint(asked, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT) >= 8) limits->needs_met = PCO_GPU_NEEDS_VECTOR_16;
    if (facts->has_bytes || facts->type == PCO_DEVICE_SOFTWARE) limits->needs_met |= PCO_GPU_NEEDS_INTEGER_DOT;
    if (facts->features & PCO_FEATURE_MIXED_FLOAT_DOT) limits->needs_met |= PCO_GPU_NEEDS_MIXED_FLOAT_DOT;
    limits->max_bindings = PCO_GPU_MAX_BINDINGS;
    limits->max_allocation = facts->max_allocation;
    /* Kernels index words of a window with 32 bits of bytes. */
    limits->max_binding = facts->max_allocation < UINT32_MAX - 3 ? facts->max_allocation : UINT32_MAX - 3;
    limits->max_binding &= ~(uint64_t)3;
    /* Kernels read uint4, and get offsets in these units. */
    limits->offset_alignment = facts->sub_buffers ? facts->alignment : 16;
    limits->max_workgroup = ocl_min_u64(group ? group : 1, 1u << 16);
    for (int d = 0; d < 3; d++) {
        limits->max_local[d] = ocl_min_u64(items[d] ? items[d] : 1, limits->max_workgroup);
        /* get_global_id is cut to 32 bits in the kernels, and size_t may be 32 bits on the device. */
        limits->max_groups[d] = UINT32_MAX / limits->max_local[d];
        if (limits->max_groups[d] > INT32_MAX) limits->max_groups[d] = INT32_MAX;
    }
    limits->shared_memory = ocl_min_u64(ocl_device_ulong(asked, CL_DEVICE_LOCAL_MEM_SIZE), 1u << 30);
    limits->is_opencl = 1;
    if (strstr(facts->name, "llvmpipe"))
        limits->max_rounds = pco_gpu_llvmpipe_rounds((uint32_t)strtoul(facts->driver, NULL, 10));
    limits->contract = ocl_find_contract(asked, facts->correctly_rounded);
}

/* No extension tells it. AMD's driver names a GPU as its compiler does: "gfx1030", "gfx90a:sramecc+:xnack-". Those are
 * Vega 20, CDNA 1 to 4, Navi 12 and 14, and RDNA 2 to 4 (LLVM, AMDGPU: FeatureDot10Insts); of what comes after them
 * nothing is known. */
static uint32_t ocl_has_dot2(const char *name)
{
    static const char *const LEADING[] = {"gfx906",  "gfx908", "gfx90a", "gfx94",  "gfx950", "gfx1011",
                                          "gfx1012", "gfx103", "gfx110", "gfx115", "gfx120"};
    for (size_t i = 0; i < sizeof LEADING / sizeof LEADING[0]; i++)
        if (strncmp(name, LEADING[i], strlen(LEADING[i])) == 0) return 1;
    return 0;
}

static uint32_t ocl_find_features(ocl_asked *asked, ocl_facts *facts)
{
    char extensions[8192] = "";
    if (!ocl_ask_device(asked, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions - 1)) extensions[0] = 0;
    uint32_t features = PCO_FEATURE_STORAGE_16 | PCO_FEATURE_TIMESTAMPS; /* both are core in OpenCL 1.2 */
    if (facts->unified) features |= PCO_FEATURE_UNIFIED_MEMORY;
    if (ocl_has_word(extensions, "cl_khr_fp16")) features |= PCO_FEATURE_F16_ARITHMETIC;
    if (ocl_has_word(extensions, "cl_khr_fp64")) features |= PCO_FEATURE_F64;
    if (ocl_has_word(extensions, "cl_khr_subgroups") || ocl_has_word(extensions, "cl_intel_subgroups") ||
        ocl_has_word(extensions, "cl_qcom_reqd_sub_group_size"))
        features |= PCO_FEATURE_SUBGROUPS;
    const int khr = ocl_has_word(extensions, "cl_khr_integer_dot_product");
    facts->has_bytes = khr && strncmp(facts->version, "OpenCL 3", 8) == 0 ? 1 : 0;
    if (khr || ocl_has_word(extensions, "cl_arm_integer_dot_product_int8") ||
        ocl_has_word(extensions, "cl_qcom_dot_product8"))
        features |= PCO_FEATURE_INTEGER_DOT;
    return features;
}

pco_status ocl_devices_facts(const ocl_api *api, const ocl_entry *entry, ocl_facts *facts, pco_error *err)
{
    ocl_asked all = {.api = api, .entry = entry}, *asked = &all;
    *facts = (ocl_facts){0};
    ocl_device_text(asked, CL_DEVICE_NAME, facts->name);
    ocl_device_text(asked, CL_DRIVER_VERSION, facts->driver);
    ocl_device_text(asked, CL_DEVICE_VERSION, facts->version);
    ocl_device_text(asked, CL_DEVICE_VENDOR, facts->vendor);
    ocl_platform_text(asked, CL_PLATFORM_NAME, facts->platform);
    ocl_platform_text(asked, CL_PLATFORM_VERSION, facts->platform_version);
    cl_device_fp_config fp = ocl_device_ulong(asked, CL_DEVICE_SINGLE_FP_CONFIG);
    facts->correctly_rounded = fp & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT ? 1 : 0;
    facts->unified = ocl_device_uint(asked, CL_DEVICE_HOST_UNIFIED_MEMORY) ? 1 : 0;
    facts->vendor_id = ocl_device_uint(asked, CL_DEVICE_VENDOR_ID);
    facts->memory = ocl_device_ulong(asked, CL_DEVICE_GLOBAL_MEM_SIZE);
    facts->max_allocation = ocl_device_ulong(asked, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    if (facts->max_allocation > UINT64_C(16) << 32) facts->max_allocation = UINT64_C(16) << 32; /* see pco_at */
    facts->features = ocl_find_features(asked, facts);
    char aliases[128];
    ocl_find_aliases(facts, aliases, sizeof aliases);
    /* Mesa 22.3 names the subgroup's width as the limit of every kernel, and runs larger ones well. */
    facts->kernel_limit_unknown = ocl_has_word(aliases, "rusticl") ? 1 : 0;
    /* There, events of a kernel that takes half a second are 1 ns apart. */
    facts->clock_unknown = ocl_has_word(aliases, "rusticl") && ocl_has_word(aliases, "llvmpipe") ? 1 : 0;
    /* It keeps an address for each invocation, and finds what is the same in all of them only where that is an
     * argument: with a sum there, add takes 2.6 times as long. */
    facts->sub_buffers = facts->clock_unknown;
    if (facts->clock_unknown) facts->features &= ~(uint32_t)PCO_FEATURE_TIMESTAMPS;
    facts->type = ocl_device_class(asked, facts, aliases);
    facts->limits.tiles = ocl_tiles(facts->type, aliases);
    facts->has_dot2 = facts->features & PCO_FEATURE_F16_ARITHMETIC && ocl_has_dot2(facts->name);
    /* Processors multiply bytes and halves without an extension: kernels for GPUs that have one are judged there. */
    if (facts->type == PCO_DEVICE_SOFTWARE) facts->features |= PCO_FEATURE_INTEGER_DOT;
    if (facts->type == PCO_DEVICE_SOFTWARE || facts->has_dot2) facts->features |= PCO_FEATURE_MIXED_FLOAT_DOT;
    ocl_find_limits(asked, facts);
    const char *const texts[] = {facts->platform, facts->platform_version, facts->vendor,
                                 facts->name,     facts->version,          facts->driver};
    facts->identity = OCL_HASH_START;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        facts->identity = ocl_hash_text(facts->identity, texts[i]);
    if (all.code == CL_SUCCESS) return PCO_OK;
    return ocl_fail(err, PCO_ERROR_INTERNAL, "the driver does not say what %s is (%s, %d)",
                    *facts->name ? facts->name : "its device", ocl_code_name(all.code), all.code);
}

/* ---- description ------------------------------------------------------------------------------------- */

/* Objects of a platform with cl_khr_icd begin with a table of its driver's functions, in the order of CL/cl_icd.h;
 * other platforms are the library itself. */
static void ocl_find_driver_file(const ocl_api *api, cl_platform_id platform, char *out, size_t room)
{
    enum { GET_PLATFORM_INFO = 1 };
    char extensions[4096] = "", path[PATH_MAX];
    void *function;
    Dl_info at;
    memcpy(&function, &api->GetPlatformInfo, sizeof function);
    if (api->GetPlatformInfo(platform, CL_PLATFORM_EXTENSIONS, sizeof extensions - 1, extensions, NULL) == CL_SUCCESS &&
        ocl_has_word(extensions, "cl_khr_icd")) {
        void *const *table;
        memcpy(&table, (const void *)platform, sizeof table);
        if (table && table[GET_PLATFORM_INFO]) function = table[GET_PLATFORM_INFO];
    }
    out[0] = 0;
    if (dladdr(function, &at) && at.dli_fname && realpath(at.dli_fname, path) && strlen(path) < room)
        snprintf(out, room, "%s", path);
}

pco_status ocl_devices_describe(pco_backend *backend, uint32_t index, pco_device_info *info, pco_error *err)
{
    if (index >= backend->n_entries)
        return ocl_fail(err, PCO_ERROR_NOT_FOUND, "there is no OpenCL device %u, only %u", index, backend->n_entries);
    ocl_facts facts;
    const pco_status status = ocl_devices_facts(&backend->api, &backend->entries[index], &facts, err);
    if (status) return status;
    pco_device_info made = {
        .size = sizeof made,
        .type = facts.type,
        .memory = facts.memory,
        .max_allocation = facts.max_allocation,
        .max_binding = facts.limits.max_binding,
        .buffer_alignment = facts.alignment,
        .max_workgroup = facts.limits.max_workgroup,
        .shared_memory = facts.limits.shared_memory,
        .features = facts.features,
        .contract = facts.limits.contract,
    };
    snprintf(made.name, sizeof made.name, "%s", facts.name);
    snprintf(made.driver, sizeof made.driver, "%.120s %.120s", facts.platform, facts.driver);
    snprintf(made.platform, sizeof made.platform, "%s", facts.platform);
    made.vendor_id = facts.vendor_id;
    snprintf(made.api, sizeof made.api, "%.63s", facts.version);
    snprintf(made.driver_version, sizeof made.driver_version, "%.63s", facts.driver);
    ocl_find_driver_file(&backend->api, backend->entries[index].platform, made.driver_file, sizeof made.driver_file);
    ocl_find_aliases(&facts, made.aliases, sizeof made.aliases);
    uint64_t second = ocl_hash(facts.identity, "uuid", 4);
    memcpy(made.uuid, &facts.identity, 8);
    memcpy(made.uuid + 8, &second, 8);
    pco_gpu_not_in_build(facts.features, facts.limits.needs_met, made.not_in_build, sizeof made.not_in_build);
    pco_gpu_describe_edges(&facts.limits, &made);
    *info = made;
    return PCO_OK;
}
