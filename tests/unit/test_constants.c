/* What descriptions of devices are enough for; nothing runs. Does the quick tier give each specialisation constant of
 * each kernel two values at least, and each parameter one that its neighbour does not have? What a kernel does under a
 * value that no case gives it is judged by nobody. Programs are only prepared, on descriptions of devices whose kernels
 * differ. What has one value is a missing case, or is argued in ARGUED and ARGUED_PARAMETERS. */
#include "run/constants.h"
#include "run/runner.h"
#include "toy_memory.h"
#include "unit_host.h"

#include "base/dtype.h"
#include "gpu/gpu.h"

#include <fnmatch.h>

enum { BINDING = 1 << 27 };

struct pco_device {
    pco_gpu_device gpu;
    char *source; /* of the kernel that was described last */
    bool told;    /* refusals are printed */
    bool picky;   /* picky_propose is called */
};

/* What programs of several nodes were recorded with. */
struct pco_gpu_recording {
    uint32_t programs, missing; /* missing: nodes behind the first that do not wait */
};

static pco_gpu_recording chains;

/* By kernel: parameters that it was given, and those that once differed from the next one: a kernel that reads the
 * wrong one of two that are always equal goes unnoticed. */
enum { KERNELS = 512 };
static struct {
    uint32_t given, distinct;
} parameters[KERNELS];
_Static_assert(PCO_GPU_MAX_PARAMS <= 32, "a bit each");

static void parameters_note(const pco_gpu_dispatch *dispatch)
{
    assert_true(dispatch->kernel < KERNELS);
    for (uint32_t i = 0; i < dispatch->n_params; i++) {
        const uint32_t next = i + 1 < dispatch->n_params ? dispatch->params[i + 1] : 0;
        parameters[dispatch->kernel].given |= 1u << i;
        if (dispatch->params[i] != next) parameters[dispatch->kernel].distinct |= 1u << i;
    }
}

static pco_status described_record(pco_gpu_device *device, const pco_plan *plan, const pco_gpu_dispatch *list,
                                   uint32_t count, uint32_t per_segment, pco_gpu_recording **recording, pco_error *err)
{
    (void)device, (void)plan, (void)per_segment, (void)err;
    chains.programs += count && list[count - 1].node > 0;
    for (uint32_t i = 1; i < count; i++) chains.missing += list[i].node != list[i - 1].node && !list[i].barrier_before;
    *recording = &chains;
    return PCO_OK;
}

static void described_discard(pco_gpu_device *device, pco_gpu_recording *recording) { (void)device, (void)recording; }

static pco_status described_describe(pco_gpu_device *gpu, const pco_gpu_dispatch *dispatch, pco_dispatch_info *info,
                                     pco_error *err)
{
    pco_device *device = (pco_device *)(void *)gpu;
    const pco_gpu_code *pieces = pco_gpu_sources[dispatch->kernel];
    (void)err;
    parameters_note(dispatch);
    for (uint32_t i = 0; pieces && pieces[i].data; i++) {
        device->source = realloc(device->source, info->source_bytes + pieces[i].bytes);
        memcpy(device->source + info->source_bytes, pieces[i].data, pieces[i].bytes);
        info->source_bytes += pieces[i].bytes;
    }
    info->api = PCO_DISPATCH_VULKAN;
    info->source = device->source;
    info->binary = pco_gpu_codes[dispatch->kernel].data;
    info->binary_bytes = pco_gpu_codes[dispatch->kernel].bytes;
    return PCO_OK;
}

static const pco_gpu_driver DRIVER = {
    .record = described_record, .discard = described_discard, .describe = described_describe};

/* A device of the type, with fixed subgroups, as most software drivers and many GPUs have them. */
static pco_device device_of(pco_device_type type)
{
    return (pco_device){
        {.host = &UNIT_HOST,
         .driver = &DRIVER,
         .limits = {.type = type,
                    .needs_met = PCO_GPU_NEEDS_SUBGROUPS | PCO_GPU_NEEDS_INTEGER_DOT | PCO_GPU_NEEDS_MIXED_FLOAT_DOT,
                    .max_bindings = PCO_GPU_MAX_BINDINGS,
                    .max_binding = BINDING,
                    .max_allocation = 1u << 31,
                    .offset_alignment = 16,
                    .max_workgroup = 1024,
                    .max_local = {1024, 1024, 1024},
                    .max_groups = {65535, 65535, 65535},
                    .shared_memory = 32768,
                    .subgroup_min = 8,
                    .subgroup_max = 8}}};
}

/* Takes no variant but its own choice. */
static pco_status picky_propose(pco_device *device, const pco_part *part, pco_proposal *proposal, pco_error *err)
{
    if (part->nodes[0].variant != PCO_NONE) return pco_fail(err, PCO_ERROR_UNSUPPORTED, "not this variant");
    return pco_gpu_program_api.propose(device, part, proposal, err);
}

/* The rows of a kernel for each format of quantised weights (name_FORMAT) read their constants with the same code: a
 * value that one has seen, all have. Their constants are joined under the name without the format. */
static void constants_join_formats(const conf_constants *constants, conf_constants *joined)
{
    for (uint32_t i = 0; i < constants->count; i++) {
        pco_conformance_constant one = constants->items[i];
        char kernel[128];
        snprintf(kernel, sizeof kernel, "%s", one.kernel);
        for (uint32_t type = 0; type < PCO_DTYPE_COUNT; type++) {
            const size_t length = strlen(kernel), tail = strlen(pco_dtype_name(type));
            if (!pco_dtype_is_quantised(type) || length <= tail) continue;
            if (strcmp(kernel + length - tail, pco_dtype_name(type)) == 0) kernel[length - tail - 1] = 0;
        }
        snprintf(one.kernel, sizeof one.kernel, "%s", kernel);
        check_ok(conf_constants_note(joined, &one, NULL, &err));
    }
}

/* Prepares every case of the tier on a device that declares this binding limit; returns how many were refused for a
 * size that must fit. */
static uint32_t constants_take(pco_device *device, const char *ops, uint64_t declared, conf_constants *constants)
{
    static const pco_buffer_api buffers = {
        .size = sizeof buffers, .create = toy_create, .destroy = toy_destroy, .write = toy_write, .read = toy_read};
    pco_program_api program = pco_gpu_program_api;
    if (device->picky) program.propose = picky_propose;
    const pco_plugin plugin = {.size = sizeof plugin,
                               .abi_version = PCO_ABI_VERSION,
                               .name = "described",
                               .buffer = &buffers,
                               .program = &program};
    pco_device_info info = {.size = sizeof info,
                            .type = device->gpu.limits.type,
                            .max_allocation = device->gpu.limits.max_allocation,
                            .max_binding = declared,
                            .buffer_alignment = device->gpu.limits.offset_alignment,
                            .subgroup_min = device->gpu.limits.subgroup_min,
                            .subgroup_max = device->gpu.limits.subgroup_max,
                            .features = PCO_FEATURE_SUBGROUPS | PCO_FEATURE_INTEGER_DOT | PCO_FEATURE_MIXED_FLOAT_DOT,
                            .contract = CONTRACT};
    const conf_observer observer = {.prepare_only = true};
    const pco_conformance_device entry = {&plugin, device, &info, "described:0"};
    const pco_conformance_options options = {.tier = PCO_CONFORMANCE_QUICK, .ops = ops, .observer = &observer};
    pco_conformance_result result;
    pco_gpu_describe_edges(&device->gpu.limits, &info);
    check_ok(pco_conformance_run(&options, &entry, 1, &result, &err));
    constants_join_formats(&(conf_constants){.count = result.n_constants, .items = result.constants}, constants);
    uint32_t refused = 0;
    for (uint32_t i = 0; i < result.n_cases; i++) {
        const int size = strncmp(result.cases[i].detail, "refused for its size", 20) == 0;
        if (size && device->told)
            print_message("%s (%s): %s\n", result.cases[i].label, result.cases[i].variant, result.cases[i].detail);
        refused += size;
    }
    pco_conformance_clear(&result, 1);
    free(device->source);
    device->source = NULL;
    return refused;
}

static const struct {
    const char *kernel, *constant; /* patterns */
    const char *why;
} ARGUED[] = {
    {"*", "LOCAL_[XYZ]", "a workgroup has one size wherever the device's limits allow it; smaller limits give another"},
    {"*_serial", "WALK", "rows of these ops lie side by side, and an invocation goes along its own"},
    {"*_shared", "WALK", "invocations that share a row do not walk along it"},
    {"*_subgroup", "WALK", "invocations that share a row do not walk along it"},
    {"softmax_*", "BLOCKS", "only where loops become vectors (VECTOR_16: OpenCL on a processor)"},
    {"unary", "NEXT", "only where loops become vectors (VECTOR_16: OpenCL on a processor)"},
    {"matmul_*", "ORDER", "only on OpenCL"},
    {"matmul_*", "RAW", "sums of a part of K: above the binding limit, which small windows and tier full have"},
    {"matmul_finish", "PER", "it has no other size"},
    {"matmul_*_wide_*", "TRANS_A", "whole vectors of a lie along K"},
    {"matmul_register_quant_*", "TRANS_A", "whole vectors of a lie along K"},
    {"matmul_gemv_quant_*", "TRANS_A", "whole vectors of a lie along K"},
    {"matmul_*_quant*", "TRANS_B", "quantised weights are [N,K]"},
    {"matmul_gemv_subgroup_*", "TRANS_B", "lanes share a column, which has to lie along K"},
    {"matmul_gemv_wide_4x1", "TRANS_B", "a column that lies along K has one sum on GPUs, and 4 x 4 of them are few"},
    {"matmul_gemv_wide_4x1", "FOR_CPU", "only where b lies along K"},
    {"matmul_gemv_subgroup_*", "FOR_CPU", "a kernel for GPUs"},
    {"matmul_shared_quant_*", "TRANS_A", "whole vectors of a lie along K"},
    {"matmul_gemv_quant_1x4", "FOR_CPU", "a kernel for GPUs"},
    {"matmul_gemv_quant_1x8", "FOR_CPU", "a kernel for processors"},
    {"matmul_gemv_quant_integer_1x4", "FOR_CPU", "it has one form"},
    {"matmul_gemv_quant_integer_1x4", "A_T", "what it reads are records of integers, whatever they were made from"},
    {"matmul_pairs_*", "[AB]_T", "products of f16 alone"},
    {"matmul_pairs_*", "CLAMP",
     "only kernels with tiles in registers look at it, and newer compilers keep what nobody does"},
    {"matmul_pairs_64x64", "BIAS_T", "what becomes of a sum is the text of matmul_pairs_wide_64x64"},
    {"matmul_pairs_64x64", "ACTIVATION", "what becomes of a sum is the text of matmul_pairs_wide_64x64"},
    {"matmul_stream_*", "TRANS_[AB]", "lines of a and of b lie along K"},
    {"attention_shared_256", "[QKM]", "elements are read as in attention_shared_64, whose tile alone is another"},
    {"gather_quantised", "MODE", "rows of 32 weights are whole words"},
};

static const char *argued(const pco_conformance_constant *one)
{
    for (size_t i = 0; i < sizeof ARGUED / sizeof *ARGUED; i++)
        if (fnmatch(ARGUED[i].kernel, one->kernel, 0) == 0 && fnmatch(ARGUED[i].constant, one->name, 0) == 0)
            return ARGUED[i].why;
    return NULL;
}

static void test_two_values(void **state)
{
    static const pco_device_type TYPES[] = {PCO_DEVICE_SOFTWARE, PCO_DEVICE_DISCRETE};
    conf_constants constants = {0};
    uint32_t missing = 0;
    (void)state;
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        pco_device device = device_of(TYPES[i]);
        assert_int_equal(constants_take(&device, NULL, BINDING, &constants), 0);
    }
    assert_true(constants.count > 300);
    for (uint32_t i = 0; i < constants.count; i++) {
        const pco_conformance_constant *one = &constants.items[i];
        assert_true(one->name[0] != 0);
        if (one->n_values > 1 || argued(one)) continue;
        missing++;
        print_message("kernel %s: constant %u (%s) is always %d: add a case, or argue it\n", one->kernel,
                      (unsigned)one->number, one->name, (int)one->values[0]);
    }
    conf_constants_clear(&constants);
    assert_int_equal(missing, 0);
}

/* Kernels that count through dimensions are unrolled for each number of them: all numbers up to the highest. */
static void test_ranks(void **state)
{
    static const struct {
        const char *kernel, *constant; /* patterns */
        int32_t highest;
    } COUNTS[] = {{"binary", "RANK", 8}, {"copy", "RANK", 8},     {"pad", "RANK", 8},
                  {"where", "RANK", 7},  {"reduce_*", "KEPT", 4}, {"reduce_*", "REDUCED", 4}};
    conf_constants constants = {0};
    pco_device device = device_of(PCO_DEVICE_SOFTWARE);
    uint32_t missing = 0;
    (void)state;
    constants_take(&device, "add,where,permute,pad,sum", BINDING, &constants);
    for (size_t k = 0; k < sizeof COUNTS / sizeof *COUNTS; k++) {
        uint32_t values = 0;
        for (uint32_t i = 0; i < constants.count; i++) {
            const pco_conformance_constant *one = &constants.items[i];
            if (fnmatch(COUNTS[k].kernel, one->kernel, 0) != 0 || strcmp(one->name, COUNTS[k].constant) != 0) continue;
            for (uint32_t v = 0; v < one->n_values; v++) values |= 1u << one->values[v];
        }
        for (int32_t n = 1; n <= COUNTS[k].highest; n++) {
            if (values & 1u << n) continue;
            missing++;
            print_message("kernel %s: %s is never %d: add a case\n", COUNTS[k].kernel, COUNTS[k].constant, (int)n);
        }
    }
    conf_constants_clear(&constants);
    assert_int_equal(missing, 0);
}

static const struct {
    const char *kernel; /* a pattern */
    const char *numbers;
    const char *why;
} ARGUED_PARAMETERS[] = {
    {"attention_*", "0 1 2 6", "what is bound whole begins at 0: tensors lie where bindings may begin"},
    {"cross_entropy_*", "3", "targets, losses and their gradients are a number for each row, and are cut alike"},
    {"dropout", "1 2 3", "x and y are cut alike, seed and offset are bound whole"},
    {"random_bits", "1 2", "seed, offset are bound whole"},
    {"gather_along_axis", "2", "indices and y are cut alike"},
    {"scatter_link", "1", "indices and links are bound whole"},
    {"softmax_backward_*", "2 3", "the three tensors have one shape and type and are cut alike"},
    {"cumsum_*", "2", "x and y have one shape and type and are cut alike"},
    {"rope", "2", "positions and phase are bound whole"},
    {"norm_matmul_*", "5", "the norm's weight and bias are bound whole"},
    {"matmul_finish", "3", "sums begin at 0 in the workspace, and a bias is bound whole"},
};

enum { N_ARGUED_PARAMETERS = sizeof ARGUED_PARAMETERS / sizeof *ARGUED_PARAMETERS };

/* The argument about a parameter; N_ARGUED_PARAMETERS: none. */
static size_t argued_parameter(const char *kernel, uint32_t number)
{
    char text[8], numbers[64];
    size_t i = 0;
    snprintf(text, sizeof text, " %u ", (unsigned)number);
    for (; i < N_ARGUED_PARAMETERS; i++) {
        snprintf(numbers, sizeof numbers, " %s ", ARGUED_PARAMETERS[i].numbers);
        if (fnmatch(ARGUED_PARAMETERS[i].kernel, kernel, 0) == 0 && strstr(numbers, text)) break;
    }
    return i;
}

/* A parameter that always equals the next one: a kernel could read the other and nobody would know. Small windows give
 * the places where operands begin a value each. */
static void test_parameters(void **state)
{
    conf_constants constants = {0};
    pco_device device = device_of(PCO_DEVICE_SOFTWARE), discrete = device_of(PCO_DEVICE_DISCRETE);
    uint32_t missing = 0, used[N_ARGUED_PARAMETERS + 1] = {0};
    (void)state;
    memset(parameters, 0, sizeof parameters);
    constants_take(&discrete, "scaled_dot_product_attention", BINDING, &constants);
    constants_take(&device, NULL, BINDING, &constants);
    device.gpu.limits.max_binding = 1024;
    device.gpu.limits.offset_alignment = 256;
    constants_take(&device, NULL, 1024, &constants);
    for (uint32_t k = 0; k < pco_gpu_n_kernels; k++) {
        uint32_t same = parameters[k].given & ~parameters[k].distinct;
        for (uint32_t other = 0; other < pco_gpu_n_kernels; other++) /* of the same text */
            if (strcmp(pco_gpu_kernels[k].file, pco_gpu_kernels[other].file) == 0) same &= ~parameters[other].distinct;
        for (uint32_t i = 0; i < PCO_GPU_MAX_PARAMS; i++) {
            if (!(same & 1u << i)) continue;
            const size_t argument = argued_parameter(pco_gpu_kernels[k].name, i);
            used[argument]++;
            if (argument < N_ARGUED_PARAMETERS) continue;
            missing++;
            print_message("kernel %s: parameter %u always equals the next one: add a case, or argue it\n",
                          pco_gpu_kernels[k].name, (unsigned)i);
        }
    }
    conf_constants_clear(&constants);
    for (size_t i = 0; i < N_ARGUED_PARAMETERS; i++)
        if (!used[i]) fail_msg("nothing to argue for: parameters of %s", ARGUED_PARAMETERS[i].kernel);
    assert_int_equal(missing, 0);
}

/* Has the build's compiler made a kernel of that name? */
static bool is_in_build(const char *pattern)
{
    for (uint32_t i = 0; i < pco_gpu_n_kernels; i++)
        if (pco_gpu_sources[i] && fnmatch(pattern, pco_gpu_kernels[i].name, 0) == 0) return true;
    return false;
}

/* An argument about a constant that takes two values, or is not there, is none. */
static void test_arguments(void **state)
{
    conf_constants constants = {0};
    pco_device device = device_of(PCO_DEVICE_SOFTWARE);
    (void)state;
    constants_take(&device, NULL, BINDING, &constants);
    for (size_t i = 0; i < sizeof ARGUED / sizeof *ARGUED; i++) {
        uint32_t single = 0;
        if (!is_in_build(ARGUED[i].kernel)) continue;
        for (uint32_t c = 0; c < constants.count; c++)
            single += constants.items[c].n_values == 1 && argued(&constants.items[c]) == ARGUED[i].why;
        if (!single) fail_msg("nothing to argue for: %s %s", ARGUED[i].kernel, ARGUED[i].constant);
    }
    conf_constants_clear(&constants);
}

/* A device that declares a larger binding limit than its kernels keep to refuses what must fit. One whose kernels see
 * 4 KiB at once, and says so, cuts what is larger. */
static void test_refusals(void **state)
{
    static const char OPS[] = "add,neg,where,cast,fill,iota,pad,permute,slice,concat,sum,matmul";
    conf_constants constants = {0};
    pco_device device = device_of(PCO_DEVICE_SOFTWARE);
    (void)state;
    device.gpu.limits.max_binding = 4096;
    assert_int_equal(constants_take(&device, OPS, 4096, &constants), 0);
    assert_true(constants_take(&device, OPS, BINDING, &constants) > 0);
    device.gpu.limits.max_binding = BINDING;
    device.gpu.limits.max_groups[0] = device.gpu.limits.max_groups[1] = device.gpu.limits.max_groups[2] = 1;
    assert_true(constants_take(&device, "neg", BINDING, &constants) > 0);
    device = device_of(PCO_DEVICE_SOFTWARE);
    device.picky = true; /* in whatever size */
    assert_int_equal(constants_take(&device, "add,softmax", BINDING, &constants), 0);
    assert_int_equal(constants_take(&device, "sum,matmul", BINDING, &constants), 0);
    conf_constants_clear(&constants);
}

/* Few workgroups in one dimension, and few invocations of a workgroup there, are no reason to refuse while there are
 * others: a result is cut, or a grid spread, or another variant chosen. */
static void test_one_dimension(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < 2; kind++)
        for (uint32_t few = 0; few < (kind ? 3u : 1u); few++) {
            conf_constants constants = {0};
            pco_device device = device_of(kind ? PCO_DEVICE_SOFTWARE : PCO_DEVICE_DISCRETE);
            uint32_t *groups = device.gpu.limits.max_groups;
            for (uint32_t d = 0; d < 3; d++) groups[d] = d == few ? 2 : 65535;
            device.gpu.limits.max_local[few] = 2;
            device.told = true;
            assert_int_equal(constants_take(&device, NULL, BINDING, &constants), 0);
            conf_constants_clear(&constants);
        }
}

/* Nodes that share memory wait for each other: for what they read, and before they write what another reads. */
static void test_hazards(void **state)
{
    conf_constants constants = {0};
    pco_device device = device_of(PCO_DEVICE_SOFTWARE);
    (void)state;
    chains = (pco_gpu_recording){0};
    constants_take(&device, "add", BINDING, &constants);
    assert_true(chains.programs >= 8);
    assert_int_equal(chains.missing, 0);
    conf_constants_clear(&constants);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_values), cmocka_unit_test(test_ranks),
                                       cmocka_unit_test(test_parameters), cmocka_unit_test(test_arguments),
                                       cmocka_unit_test(test_refusals),   cmocka_unit_test(test_one_dimension),
                                       cmocka_unit_test(test_hazards)};
    return cmocka_run_group_tests_name("constants", tests, NULL, NULL);
}
