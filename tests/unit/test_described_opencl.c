/* What the OpenCL plugin makes of what a driver says of its device, without a driver. */
#include "check.h"
#include "opencl/opencl.h"
#include "unit_host.h"

/* What the driver says, in the words of drivers that there are, and what it should be taken for. */
static const struct spoken {
    const char *platform, *vendor, *name;
    cl_device_type type;
    uint32_t is, tiles; /* pco_device_type, PCO_GPU_TILES_* */
} SPOKEN[] = {
    {"NVIDIA CUDA", "NVIDIA Corporation", "NVIDIA H200", CL_DEVICE_TYPE_GPU, PCO_DEVICE_DISCRETE, PCO_GPU_TILES_ANY},
    {"AMD Accelerated Parallel Processing", "Advanced Micro Devices, Inc.", "gfx1100", CL_DEVICE_TYPE_GPU,
     PCO_DEVICE_DISCRETE, PCO_GPU_TILES_ANY},
    {"Intel(R) OpenCL Graphics", "Intel(R) Corporation", "Intel(R) Arc(TM) A770 Graphics", CL_DEVICE_TYPE_GPU,
     PCO_DEVICE_DISCRETE, PCO_GPU_TILES_MEDIUM},
    {"Intel(R) OpenCL", "Intel(R) Corporation", "Intel(R) Core(TM) i7-8550U CPU", CL_DEVICE_TYPE_CPU,
     PCO_DEVICE_SOFTWARE, PCO_GPU_TILES_ANY},
    {"QUALCOMM Snapdragon(TM)", "QUALCOMM", "QUALCOMM Adreno(TM) 750", CL_DEVICE_TYPE_GPU, PCO_DEVICE_DISCRETE,
     PCO_GPU_TILES_SMALL},
    {"ARM Platform", "ARM", "Mali-G610 r0p0", CL_DEVICE_TYPE_GPU, PCO_DEVICE_DISCRETE, PCO_GPU_TILES_SMALL},
    {"rusticl", "freedreno", "FD740", CL_DEVICE_TYPE_GPU, PCO_DEVICE_DISCRETE, PCO_GPU_TILES_SMALL},
    {"rusticl", "Broadcom", "V3D 7.1", CL_DEVICE_TYPE_GPU, PCO_DEVICE_DISCRETE, PCO_GPU_TILES_SMALLEST},
    {"rusticl", "Mesa/X.org", "llvmpipe (LLVM 15.0.6, 256 bits)", CL_DEVICE_TYPE_GPU, PCO_DEVICE_SOFTWARE,
     PCO_GPU_TILES_ANY},
    {"Portable Computing Language", "GenuineIntel", "pthread-Intel(R) Xeon(R) Processor", CL_DEVICE_TYPE_CPU,
     PCO_DEVICE_SOFTWARE, PCO_GPU_TILES_ANY},
};
enum { N_SPOKEN = sizeof SPOKEN / sizeof SPOKEN[0] };

/* Handles are addresses: of the row whose device it is. */
static cl_int spoken_text(const char *text, size_t room, void *out)
{
    if (strlen(text) >= room) return CL_INVALID_VALUE;
    memcpy(out, text, strlen(text) + 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL spoken_platform(cl_platform_id platform, cl_platform_info what, size_t room, void *out,
                                          size_t *needed)
{
    const struct spoken *of = (const struct spoken *)platform;
    (void)needed;
    return spoken_text(what == CL_PLATFORM_NAME ? of->platform : "OpenCL 3.0", room, out);
}

static cl_int CL_API_CALL spoken_device(cl_device_id device, cl_device_info what, size_t room, void *out,
                                        size_t *needed)
{
    const struct spoken *of = (const struct spoken *)device;
    (void)needed;
    switch (what) {
    case CL_DEVICE_VENDOR: return spoken_text(of->vendor, room, out);
    case CL_DEVICE_NAME: return spoken_text(of->name, room, out);
    case CL_DEVICE_EXTENSIONS: return spoken_text("cl_khr_fp16", room, out);
    case CL_DEVICE_TYPE: memcpy(out, &of->type, sizeof of->type); return CL_SUCCESS;
    default: return CL_INVALID_VALUE; /* an older driver's answer */
    }
}

static void test_taken_for(void **state)
{
    (void)state;
    const ocl_api api = {.GetPlatformInfo = spoken_platform, .GetDeviceInfo = spoken_device};
    for (uint32_t i = 0; i < N_SPOKEN; i++) {
        const struct spoken *of = &SPOKEN[i];
        const ocl_entry entry = {.platform = (cl_platform_id)of, .id = (cl_device_id)of};
        ocl_facts facts;
        pco_error err;
        assert_int_equal(ocl_devices_facts(&api, &entry, &facts, &err), PCO_OK);
        if (facts.type != of->is || facts.limits.tiles != of->tiles)
            fail_msg("%s: type %u and tiles %u, not %u and %u", of->name, facts.type, facts.limits.tiles, of->is,
                     of->tiles);
        assert_int_equal(facts.has_dot2, !strncmp(of->name, "gfx1100", 7)); /* as AMD's own driver calls it */
        assert_true(facts.limits.is_opencl);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_taken_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
