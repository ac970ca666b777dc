/* What the Vulkan plugin makes of a driver's report, without a driver: a device that says that it has everything gets
 * kernels that this build has code for, and no others. */
#include "check.h"
#include "unit_host.h"
#include "vulkan/vk.h"

/* A graphics card with all that modules of ours may ask for: subgroups of 32, matrices of 16 by 16 by 16. */
static pco_device described_card(vk_physical *physical)
{
    static const vk_report REPORT = {
        .core = {.apiVersion = VK_API_VERSION_1_3,
                 .deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                 .deviceName = "a card",
                 .limits = {.maxStorageBufferRange = 1u << 30,
                            .maxPerStageDescriptorStorageBuffers = 64,
                            .maxDescriptorSetStorageBuffers = 64,
                            .maxComputeSharedMemorySize = 49152,
                            .maxComputeWorkGroupInvocations = 1024,
                            .maxComputeWorkGroupCount = {65535, 65535, 65535},
                            .maxComputeWorkGroupSize = {1024, 1024, 64},
                            .minStorageBufferOffsetAlignment = 16}},
        .subgroup = {.subgroupSize = 32,
                     .supportedStages = VK_SHADER_STAGE_COMPUTE_BIT,
                     .supportedOperations = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT},
        .subgroup_sizes = {.minSubgroupSize = 32, .maxSubgroupSize = 32, .maxComputeWorkgroupSubgroups = 32}};
    memset(physical, 0, sizeof *physical);
    physical->has = VK_HAS_SUBGROUP_CONTROL | VK_HAS_FULL_SUBGROUPS | VK_HAS_F16 | VK_HAS_STORAGE_16 |
                    VK_HAS_INTEGER_DOT | VK_HAS_COOPERATIVE_MATRIX | VK_HAS_MIXED_FLOAT_DOT |
                    VK_HAS_COOPERATIVE_MATRIX2;
    physical->memory = (VkPhysicalDeviceMemoryProperties){
        .memoryHeapCount = 1, .memoryHeaps = {{.size = 1u << 30, .flags = VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}}};
    for (int i = 0; i < 3; i++) physical->limits.matrix[i] = 16;
    vk_describe(physical, &REPORT);
    return (pco_device){.gpu = {.host = &UNIT_HOST, .limits = physical->limits}, .physical = physical};
}

static void test_needs(void **state)
{
    (void)state;
    vk_physical physical;
    const pco_device device = described_card(&physical);
    uint32_t rows = 0;
    for (uint32_t i = 0; i < pco_gpu_n_kernels; i++) {
        if (pco_gpu_kernels[i].needs & ~device.gpu.limits.needs_met) continue;
        if (!pco_gpu_codes[i].data) fail_msg("kernel %s is offered, and has no code", pco_gpu_kernels[i].name);
        rows += pco_gpu_kernels[i].needs != 0;
    }
    assert_true(rows > 0);
    assert_true(device.gpu.limits.needs_met & PCO_GPU_NEEDS_SUBGROUPS);
}

/* A matmul of [96, k] by [k, 128]. */
typedef struct described_product {
    pco_matmul_attrs attrs;
    pco_tensor tensors[3];
    pco_node node;
    pco_part part;
} described_product;

static void described_make(described_product *p, uint32_t type, int64_t k)
{
    const int64_t shapes[3][2] = {{96, k}, {k, 128}, {96, 128}};
    *p = (described_product){.node = {.op = PCO_OP_MATMUL,
                                      .n_inputs = 2,
                                      .n_outputs = 1,
                                      .inputs = {0, 1},
                                      .outputs = {2},
                                      .variant = PCO_NONE,
                                      .attrs_size = sizeof p->attrs,
                                      .attrs = &p->attrs,
                                      .name = "product"}};
    for (int i = 0; i < 3; i++)
        p->tensors[i] = (pco_tensor){.dtype = type,
                                     .kind = i < 2 ? PCO_KIND_INPUT : PCO_KIND_OUTPUT,
                                     .rank = 2,
                                     .alias = PCO_NONE,
                                     .shape = {shapes[i][0], shapes[i][1]},
                                     .bytes = (uint64_t)(shapes[i][0] * shapes[i][1]) * (type == PCO_F32 ? 4 : 2),
                                     .name = "t"};
    p->part =
        (pco_part){.size = sizeof p->part, .n_tensors = 3, .n_nodes = 1, .tensors = p->tensors, .nodes = &p->node};
}

/* What the plugin chooses for it runs, and so does each variant that it offers. */
static void described_try(pco_device *device, uint32_t type)
{
    described_product p;
    pco_variant variants[32];
    described_make(&p, type, 64);
    check_ok(pco_gpu_program_api.supports(device, &p.part, 0, &err));
    const uint32_t n = pco_gpu_program_api.variants(device, &p.part, 0, variants, 32);
    assert_true(n > 1 && n <= 32);
    for (p.node.variant = 0; p.node.variant < n; p.node.variant++)
        check_ok(pco_gpu_program_api.supports(device, &p.part, 0, &err));
}

static void test_product(void **state)
{
    (void)state;
    vk_physical physical;
    pco_device device = described_card(&physical);
    described_try(&device, PCO_F32);
    described_try(&device, PCO_F16);
    described_try(&device, PCO_BF16);
}

static int described_offers(pco_device *device, const char *name, int64_t k)
{
    described_product p;
    pco_variant variants[32];
    int found = 0;
    described_make(&p, PCO_F16, k);
    const uint32_t n = pco_gpu_program_api.variants(device, &p.part, 0, variants, 32);
    for (uint32_t v = 0; v < n; v++) found |= strcmp(variants[v].name, name) == 0;
    return found;
}

/* Cooperative matrices: a workgroup is four subgroups of the width that the matrices want. */
static void test_matrix(void **state)
{
    (void)state;
    vk_physical physical;
    pco_device device = described_card(&physical);
    pco_gpu_limits *limits = &device.gpu.limits;
    limits->needs_met |= PCO_GPU_NEEDS_COOPERATIVE_MATRIX; /* as if this build had them */
    assert_int_equal(limits->subgroups_settable, 32);
    assert_true(described_offers(&device, "matrix", 64));
    limits->subgroups_settable = 4;
    assert_true(described_offers(&device, "matrix", 64));
    limits->subgroups_settable = 3;
    assert_false(described_offers(&device, "matrix", 64));
    limits->subgroups_settable = 0; /* there is only one width */
    assert_true(described_offers(&device, "matrix", 64));
    limits->max_rounds = 65535; /* tiles of 32 terms are filled in some 32 rounds by few invocations */
    assert_true(described_offers(&device, "matrix", 32000));
    assert_false(described_offers(&device, "matrix", 64000));
    limits->max_workgroup = 127;
    assert_false(described_offers(&device, "matrix", 64));
}

/* Is attention of [1, 2, 64, depth] over as many keys, with values of so many elements, or are its gradients, offered
 * as that variant? */
static int described_attends(pco_device *device, int gradients, const char *name, int64_t depth, int64_t values)
{
    /* q, k, v, the result or its gradient, and the gradients of the first three */
    const int64_t last[7] = {depth, depth, values, values, depth, depth, values};
    pco_scaled_dot_product_attention_attrs attrs = {.heads_first = 1};
    pco_scaled_dot_product_attention_backward_attrs back_attrs = {.heads_first = 1};
    pco_tensor tensors[7];
    pco_node node = {.op = PCO_OP_SCALED_DOT_PRODUCT_ATTENTION,
                     .n_inputs = 6,
                     .n_outputs = 1,
                     .inputs = {0, 1, 2, PCO_NONE, PCO_NONE, PCO_NONE},
                     .outputs = {3},
                     .variant = PCO_NONE,
                     .attrs_size = sizeof attrs,
                     .attrs = &attrs,
                     .name = "attention"};
    if (gradients) {
        node.op = PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD;
        node.n_inputs = 7, node.n_outputs = 3;
        node.inputs[6] = 3;
        for (uint32_t i = 0; i < 3; i++) node.outputs[i] = 4 + i;
        node.attrs_size = sizeof back_attrs, node.attrs = &back_attrs;
    }
    for (int i = 0; i < 7; i++)
        tensors[i] = (pco_tensor){.dtype = PCO_F16,
                                  .kind = i < 3 + gradients ? PCO_KIND_INPUT : PCO_KIND_OUTPUT,
                                  .rank = 4,
                                  .alias = PCO_NONE,
                                  .shape = {1, 2, 64, last[i]},
                                  .bytes = (uint64_t)(2 * 64 * last[i]) * 2,
                                  .name = "t"};
    const pco_part part = {
        .size = sizeof part, .n_tensors = gradients ? 7 : 4, .n_nodes = 1, .tensors = tensors, .nodes = &node};
    pco_variant variants[32];
    int found = 0;
    const uint32_t n = pco_gpu_program_api.variants(device, &part, 0, variants, 32);
    for (uint32_t v = 0; v < n; v++) {
        if (strcmp(variants[v].name, name) != 0) continue;
        found = 1;
        const uint32_t second = strcmp(name, "matrix2") == 0 ? PCO_FEATURE_COOPERATIVE_MATRIX2 : 0;
        assert_int_equal(variants[v].needs, PCO_FEATURE_COOPERATIVE_MATRIX | second);
    }
    return found;
}

/* The gradients of attention, one head of `size` rows and keys: does the device take them as one operation? */
static pco_status described_gradient(pco_device *device, int64_t size)
{
    pco_scaled_dot_product_attention_backward_attrs attrs = {.heads_first = 1};
    pco_tensor tensors[7];
    pco_node node = {.op = PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD,
                     .n_inputs = 7,
                     .n_outputs = 3,
                     .inputs = {0, 1, 2, PCO_NONE, PCO_NONE, PCO_NONE, 3},
                     .outputs = {4, 5, 6},
                     .variant = PCO_NONE,
                     .attrs_size = sizeof attrs,
                     .attrs = &attrs,
                     .name = "gradient"};
    for (int i = 0; i < 7; i++)
        tensors[i] = (pco_tensor){.dtype = PCO_F32,
                                  .kind = i < 4 ? PCO_KIND_INPUT : PCO_KIND_OUTPUT,
                                  .rank = 4,
                                  .alias = PCO_NONE,
                                  .shape = {1, 1, size, 8},
                                  .bytes = (uint64_t)size * 8 * 4,
                                  .name = "t"};
    const pco_part part = {.size = sizeof part, .n_tensors = 7, .n_nodes = 1, .tensors = tensors, .nodes = &node};
    pco_error why;
    return pco_gpu_program_api.supports(device, &part, 0, &why);
}

/* A GPU, too, is left the decomposition, from 2^15 scores on and up to 256 MiB of them. */
static void test_gradient(void **state)
{
    (void)state;
    vk_physical physical;
    pco_device device = described_card(&physical);
    assert_int_equal(described_gradient(&device, 181), PCO_OK);
    assert_int_equal(described_gradient(&device, 182), PCO_ERROR_UNSUPPORTED);
    assert_int_equal(described_gradient(&device, 8192), PCO_ERROR_UNSUPPORTED);
    assert_int_equal(described_gradient(&device, 8193), PCO_OK);
}

/* Bytes of the arrays that attention_matrix.kern declares, one after the other. */
static uint32_t described_arrays(const uint32_t matrix[3], uint32_t invocations, uint32_t depth, uint32_t values)
{
    const uint32_t rows = 2 * matrix[0], keys = 32, depth_vectors = (depth + 15) / 16 * 2;
    uint32_t each = 2;
    while (2 * each * matrix[1] < values) each *= 2;
    const uint32_t value_vectors = 2 * each * matrix[1] / 8;
    const uint32_t queries = rows * (depth_vectors + 1),
                   lines = keys * ((depth_vectors > value_vectors ? depth_vectors : value_vectors) + 1),
                   weights = rows * (keys / 8 + 1), scores = rows * (keys / 4 + 1), fades = rows * matrix[1] / 4;
    return 16 * (queries + lines + 2 * weights + scores + fades) + 4 * invocations + 4 * keys;
}

/* Those of attention_matrix2.kern. */
static uint32_t described_arrays2(const uint32_t matrix[3], uint32_t depth, uint32_t values)
{
    const uint32_t rows = 4 * matrix[0], keys = 2 * matrix[1], depth_vectors = (depth + 15) / 16 * 2;
    uint32_t each = 4;
    while (each * matrix[1] < values) each *= 2;
    const uint32_t value_vectors = each * matrix[1] / 8;
    const uint32_t queries = rows * (depth_vectors + 1),
                   lines = keys * ((depth_vectors > value_vectors ? depth_vectors : value_vectors) + 1),
                   areas = 4 * 2 * matrix[0] * matrix[1] / 4;
    return 16 * (queries + lines + areas) + 4 * keys;
}

/* Those of attention_backward_matrix.kern, of keys. */
static uint32_t described_arrays_of_gradients(const uint32_t matrix[3], uint32_t depth, uint32_t values)
{
    const uint32_t own = 2 * matrix[0], lines = 32, depth_vectors = (depth + 15) / 16 * 2,
                   slope_vectors = (values + 15) / 16 * 2;
    uint32_t each = 2, longest = depth_vectors > slope_vectors ? depth_vectors : slope_vectors;
    while (2 * each * matrix[1] < (depth > values ? depth : values)) each *= 2;
    if (longest < 2 * each * matrix[1] / 8) longest = 2 * each * matrix[1] / 8;
    return 16 * (own * (depth_vectors + 1) + own * (slope_vectors + 1) + lines * (longest + 1) +
                 own * (2 * lines / 4 + 1)) +
           4 * lines * 8;
}

/* Attention with cooperative matrices is offered where its arrays fit, to the byte. */
static void test_attention_arrays(void **state)
{
    (void)state;
    static const uint32_t MATRICES[][3] = {{16, 16, 16}, {8, 16, 16}, {8, 8, 16}, {16, 8, 8}};
    static const int64_t SIZES[][2] = {{64, 64}, {128, 40}, {20, 100}, {256, 128}, {16, 16}};
    static const struct {
        const char *variant;
        int gradients;
    } FORMS[] = {{"matrix", 0}, {"matrix2", 0}, {"matrix", 1}};
    enum { N_FORMS = sizeof FORMS / sizeof *FORMS };
    vk_physical physical;
    pco_device device = described_card(&physical);
    pco_gpu_limits *limits = &device.gpu.limits;
    uint32_t judged[N_FORMS] = {0};
    /* as if this build had them */
    limits->needs_met |= PCO_GPU_NEEDS_COOPERATIVE_MATRIX | PCO_GPU_NEEDS_COOPERATIVE_MATRIX2;
    for (size_t m = 0; m < sizeof MATRICES / sizeof *MATRICES; m++)
        for (size_t i = 0; i < N_FORMS * (sizeof SIZES / sizeof *SIZES); i++) {
            const uint32_t depth = (uint32_t)SIZES[i / N_FORMS][0], values = (uint32_t)SIZES[i / N_FORMS][1];
            const char *name = FORMS[i % N_FORMS].variant;
            const int gradients = FORMS[i % N_FORMS].gradients;
            memcpy(limits->matrix, MATRICES[m], sizeof limits->matrix);
            limits->shared_memory = 1 << 20;
            /* values that no row of the table holds */
            if (!described_attends(&device, gradients, name, depth, values)) continue;
            judged[i % N_FORMS]++;
            limits->shared_memory = i % N_FORMS == 1 ? described_arrays2(MATRICES[m], depth, values)
                                    : i % N_FORMS == 2
                                        ? described_arrays_of_gradients(MATRICES[m], depth, values)
                                        : described_arrays(MATRICES[m], 4 * limits->matrix_width, depth, values);
            if (!described_attends(&device, gradients, name, depth, values))
                fail_msg("%s %zu, heads %zu: not offered within %u bytes", name, m, i, limits->shared_memory);
            limits->shared_memory--;
            if (described_attends(&device, gradients, name, depth, values))
                fail_msg("%s %zu, heads %zu: offered within %u bytes", name, m, i, limits->shared_memory);
        }
    assert_true(judged[0] > 12);
    assert_true(judged[1] > 12); /* of weights that are multiplied as they are: {8, 8, 16} has none */
    assert_true(judged[2] > 12);
}

/* Timings of launches, and of one that was lost between two of its node: which node each is of, and how many there are
 * where there is room for fewer. */
static void test_timings(void **state)
{
    (void)state;
    pco_timing out[3] = {{0}};
    pco_gpu_timings sum = {.out = out, .capacity = 2};
    static const uint32_t NODES[] = {0, 0, 3, 3, 7, 7};
    for (uint32_t i = 0; i < 6; i++) pco_gpu_add_timing(&sum, NODES[i], i + 1);
    assert_int_equal(sum.n, 3);
    assert_int_equal(out[0].node, 0);
    assert_int_equal(out[0].nanoseconds, 3);
    assert_int_equal(out[1].node, 3);
    assert_int_equal(out[1].nanoseconds, 7);
    assert_int_equal(out[2].nanoseconds, 0); /* no room for it */
}

/* A driver's version as its vendor counts: NVIDIA packs them otherwise than Vulkan does, Mesa does not. */
static void test_versions(void **state)
{
    (void)state;
    vk_report report = {.core = {.vendorID = 0x10de, .driverVersion = 0x9127c100, .deviceName = "a card"}};
    vk_physical physical = {.has = 0};
    report.driver.driverID = VK_DRIVER_ID_NVIDIA_PROPRIETARY;
    vk_describe(&physical, &report);
    assert_string_equal(physical.info.driver_version, "580.159.4 (0x9127c100)");
    assert_string_equal(physical.info.driver, "580.159.4");
    report.core.driverVersion = VK_MAKE_API_VERSION(0, 26, 2, 6);
    report.driver.driverID = VK_DRIVER_ID_MESA_RADV;
    vk_describe(&physical, &report);
    assert_string_equal(physical.info.driver_version, "26.2.6 (0x06802006)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_needs),    cmocka_unit_test(test_product),
                                       cmocka_unit_test(test_matrix),   cmocka_unit_test(test_attention_arrays),
                                       cmocka_unit_test(test_gradient), cmocka_unit_test(test_timings),
                                       cmocka_unit_test(test_versions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
