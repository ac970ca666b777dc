/* A device of backends/gpu without a driver behind it: a description is enough to lower nodes. Its API is the one whose
 * kernels the test is linked with. */
#ifndef PCO_TEST_GPU_DEVICE_H
#define PCO_TEST_GPU_DEVICE_H

#include "gpu/gpu.h"
#include "kernels.h"
#include "unit_host.h"

struct pco_device {
    pco_gpu_device gpu;
};

/* Are they OpenCL's? Its processors alone have vectors of 16. */
static uint32_t kernels_are_opencl(void) { return pco_gpu_sources[GPU_KERNEL_matmul_vector_8x16] != NULL; }

/* With subgroups of `least` to `most`; settable: of how many a workgroup may consist where their width is required. */
static pco_device gpu_device(const pco_gpu_driver *driver, uint32_t least, uint32_t most, uint32_t settable)
{
    return (pco_device){{.host = &UNIT_HOST,
                         .driver = driver,
                         .limits = {.type = PCO_DEVICE_DISCRETE,
                                    .is_opencl = kernels_are_opencl(),
                                    .needs_met = kernels_are_opencl() ? 0 : PCO_GPU_NEEDS_SUBGROUPS,
                                    .max_bindings = 8,
                                    .max_binding = 1 << 27,
                                    .max_allocation = 1 << 30,
                                    .offset_alignment = 64,
                                    .max_workgroup = 256,
                                    .max_local = {256, 256, 64},
                                    .max_groups = {65535, 65535, 65535},
                                    .shared_memory = 32768,
                                    .subgroup_min = least,
                                    .subgroup_max = most,
                                    .subgroups_settable = settable}}};
}

#endif
