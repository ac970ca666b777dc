/* Nodes that the binding limit cuts: what is left is no less than its kernel needs, and the self-test's small problems
 * run all the code that the node will. Nothing runs; once with the kernels of Vulkan, once with those of OpenCL. */
#include "base/dtype.h"
#include "check.h"
#include "gpu/lower.h"
#include "lower_node.h"
#include "runtime/selftest_internal.h"

#include <string.h>

struct pco_gpu_recording {
    uint32_t count, narrow; /* dispatches; those of matmul_vector with less than its 16 columns */
    uint32_t most, bound;   /* buffers of a dispatch; bit i: buffer i of the plan is bound by one */
    uint64_t widest;        /* bytes of a binding */
    uint32_t as_words;      /* copies that move whole words */
};

static pco_gpu_recording last;

static pco_status cuts_record(pco_gpu_device *device, const pco_plan *plan, const pco_gpu_dispatch *list,
                              uint32_t count, uint32_t per_segment, pco_gpu_recording **recording, pco_error *error)
{
    (void)device, (void)plan, (void)per_segment, (void)error;
    last = (pco_gpu_recording){.count = count};
    for (uint32_t i = 0; i < count; i++) {
        last.as_words += list[i].kernel == GPU_KERNEL_copy && list[i].specs[3] == PCO_I32; /* behind the workgroup */
        last.narrow += list[i].kernel == GPU_KERNEL_matmul_vector_8x16 && list[i].params[1] < 16;
        if (list[i].n_bindings > last.most) last.most = list[i].n_bindings;
        for (uint32_t k = 0; k < list[i].n_bindings; k++) {
            last.bound |= 1u << list[i].bindings[k].buffer;
            if (list[i].bindings[k].bytes > last.widest) last.widest = list[i].bindings[k].bytes;
        }
    }
    *recording = &last;
    return PCO_OK;
}

static void cuts_discard(pco_gpu_device *device, pco_gpu_recording *recording) { (void)device, (void)recording; }

static const pco_gpu_driver DRIVER = {.record = cuts_record, .discard = cuts_discard};
static const pco_plugin PLUGIN = {.size = sizeof PLUGIN, .program = &pco_gpu_program_api};

/* A device of this build's API: a GPU, or a processor. */
static pco_device device_of(int processor)
{
    pco_device device = gpu_device(&DRIVER, 32, 32, 0);
    if (device.gpu.limits.is_opencl && processor) device.gpu.limits.needs_met = PCO_GPU_NEEDS_VECTOR_16;
    if (processor) device.gpu.limits.type = PCO_DEVICE_SOFTWARE;
    return device;
}

/* A product of [m, k] and [k, n], or [n, k] along its rows, most of them beyond the binding limit of 128 MiB: boxes of
 * 7 rows and of 15 columns, pieces of k whose sums are added; and one that is not cut, whose k is long. */
typedef struct cut_node {
    int64_t m, n, k;
    int along;
} cut_node;
static const cut_node CUTS[] = {{71, 1000000, 8, 0}, {1000, 524303, 16, 0}, {64, 4096, 20000, 0},
                                {71, 1000000, 8, 1}, {9, 33, 5000000, 1},   {1, 131, 4096, 1}};
enum { N_CUTS = sizeof CUTS / sizeof *CUTS };

static pco_graph *graph_of(const cut_node *cut)
{
    const int64_t a[2] = {cut->m, cut->k}, b[2] = {cut->along ? cut->n : cut->k, cut->along ? cut->k : cut->n};
    pco_graph *g = pco_graph_create();
    const uint32_t x = pco_graph_input(g, "a", PCO_F32, 2, a), w = pco_graph_input(g, "b", PCO_F32, 2, b);
    pco_graph_output(g, pco_matmul(g, x, w, 0, cut->along), "y");
    return g;
}

static void test_cut_is_tested(void **state)
{
    (void)state;
    uint32_t cut_alike = 0;
    for (uint32_t i = 0; i < 2 * N_CUTS; i++) {
        pco_device device = device_of(i % 2);
        const pco_device_info info = {
            .size = sizeof info, .features = PCO_FEATURE_SUBGROUPS, .subgroup_min = 32, .subgroup_max = 32};
        const pco_open_device on = {&PLUGIN, &device, &info};
        pco_graph *g = graph_of(&CUTS[i / 2]);
        const pco_part part = part_of(g);
        pco_variant variants[PCO_VARIANTS];
        uint32_t n;
        check_ok(pco_variants(&on, &part, 0, variants, &n, &err));
        assert_true(n > 0);
        for (uint32_t v = 0; v < n; v++) {
            selftest_choice choices[4];
            selftest_case small, whole;
            uint64_t pipelines[64];
            uint32_t count, missing;
            check_ok(selftest_case_make(g, 0, 0, &whole, &err));
            check_ok(selftest_case_make(g, 0, 128, &small, &err));
            pco_node node;
            const pco_trial trial = selftest_trial(&on, &whole, v, &node);
            assert_true(pco_trial_pipelines(&trial, pipelines, 64) > 0);
            check_ok(selftest_cover(&on, g, 0, &variants[v], &small, choices, 4, &count, &missing, &err));
            char text[PCO_VARIANT_TEXT];
            if (missing)
                print_message("cut %u, variant %s: %u are missing\n", i / 2, pco_variant_text(&variants[v], text),
                              missing);
            assert_int_equal(missing, 0);
            for (uint32_t k = 0; k < count; k++) cut_alike += choices[k].window > 0;
            selftest_case_free(&small);
            selftest_case_free(&whole);
        }
        pco_graph_destroy(g);
    }
    assert_true(cut_alike > 0);
}

static void lower_variant(pco_device *device, const pco_graph *g, uint32_t v)
{
    lower_node(device, g, v, &(node_layout){0});
}

/* A device with few bindings: every variant that is offered, of every type of weights (quantised ones have two planes),
 * keeps within them, and bias and c are still added. */
static void test_few_bindings(void **state)
{
    (void)state;
    static const uint8_t weights[64 * 256 * 4];
    uint32_t offered[3] = {0};
    for (uint32_t i = 0; i < 3 * PCO_DTYPE_COUNT * 3 * 3; i++) {
        const uint32_t bindings = 4 + i % 3, type = i / 3 % PCO_DTYPE_COUNT, with = 1 + i / 3 / PCO_DTYPE_COUNT % 3;
        const int64_t m = (int64_t[]){1, 8, 64}[i / 9 / PCO_DTYPE_COUNT];
        if (!pco_dtype_is_float(type) && !pco_dtype_is_quantised(type)) continue;
        pco_device device = device_of(i % 2);
        device.gpu.limits.max_bindings = bindings;
        pco_graph *g = pco_graph_create();
        uint32_t in[4] = {pco_graph_input(g, "a", PCO_F32, 2, (int64_t[]){m, 256}),
                          pco_graph_constant(g, "b", (pco_dtype)type, 2, (int64_t[]){64, 256}, weights), PCO_NONE,
                          PCO_NONE};
        if (with & 1) in[2] = pco_graph_input(g, "bias", PCO_F32, 1, (int64_t[]){64});
        if (with & 2) in[3] = pco_graph_input(g, "c", PCO_F32, 2, (int64_t[]){m, 64});
        pco_matmul_attrs attrs = {.transpose_b = 1, .accumulate = PCO_F32, .dtype = -1};
        pco_graph_output(g, pco_graph_add(g, PCO_OP_MATMUL, &attrs, in, 4, NULL), "y");
        check_ok(pco_graph_check(g, &err));
        const pco_open_device on = {&PLUGIN, &device, &(pco_device_info){.features = PCO_FEATURE_SUBGROUPS}};
        const pco_part part = part_of(g);
        pco_variant variants[PCO_VARIANTS];
        uint32_t n;
        check_ok(pco_variants(&on, &part, 0, variants, &n, &err));
        for (uint32_t v = 0; v < n; v++) {
            lower_variant(&device, g, v);
            assert_true(last.most <= bindings);
            assert_int_equal(last.bound & ((1u << g->n_tensors) - 1), (1u << g->n_tensors) - 1);
        }
        offered[bindings - 4] += n;
        pco_graph_destroy(g);
    }
    assert_true(offered[0] < offered[1] && offered[1] < offered[2]);
}

/* Does a device with so many bindings run it? The weights: operand 1; others of norm_matmul, by bit: bias, and the
 * norm's weight and bias. */
static int runs(pco_op op, pco_dtype weights, int constant, uint32_t others, uint32_t bindings)
{
    static const uint8_t data[64 * 256 * 4];
    pco_device device = device_of(0);
    device.gpu.limits.max_bindings = bindings;
    pco_graph *g = pco_graph_create();
    uint32_t in[5] = {pco_graph_input(g, "x", PCO_F32, 2, (int64_t[]){2, 256}),
                      constant ? pco_graph_constant(g, "w", weights, 2, (int64_t[]){64, 256}, data)
                               : pco_graph_input(g, "w", weights, 2, (int64_t[]){64, 256}),
                      op == PCO_OP_INDEXED_MATMUL ? pco_graph_input(g, "indices", PCO_I32, 2, (int64_t[]){2, 1})
                                                  : PCO_NONE,
                      PCO_NONE, PCO_NONE};
    for (uint32_t i = 0; i < 3; i++)
        if (others >> i & 1)
            in[2 + i] = pco_graph_input(g, (const char *[]){"bias", "weight", "shift"}[i], PCO_F32, 1,
                                        (int64_t[]){i ? 256 : 64});
    const pco_norm_matmul_attrs layer = {.norm = 1, .eps = 1e-5};
    const int is_norm = op == PCO_OP_NORM_MATMUL;
    pco_graph_output(g, pco_graph_add(g, op, is_norm ? &layer : NULL, in, is_norm ? 5 : 3, NULL), "y");
    check_ok(pco_graph_check(g, &err));
    const pco_part part = part_of(g);
    pco_error why;
    const pco_status status = pco_gpu_program_api.supports(&device, &part, 0, &why);
    const int does = status == PCO_OK;
    assert_true(does || status == PCO_ERROR_UNSUPPORTED); /* and not a defect of the lowering */
    if (does) {
        lower_variant(&device, g, PCO_NONE);
        assert_true(last.most <= bindings);
    }
    pco_graph_destroy(g);
    return does;
}

/* What kernels need is asked for, no more and no less: a buffer more where weights have two planes, which plugins make
 * of constants alone. */
static void test_refused(void **state)
{
    (void)state;
    for (uint32_t bindings = 3; bindings < 8; bindings++)
        for (int constant = 0; constant < 2; constant++) {
            assert_int_equal(runs(PCO_OP_INDEXED_MATMUL, PCO_F32, constant, 0, bindings), bindings >= 4);
            assert_int_equal(runs(PCO_OP_INDEXED_MATMUL, PCO_Q4_0, constant, 0, bindings), constant && bindings >= 5);
            for (uint32_t others = 0; others < 8; others++)
                assert_int_equal(runs(PCO_OP_NORM_MATMUL, PCO_F16, constant, others, bindings),
                                 bindings >= (others & 5 ? 6u : 4u));
        }
}

/* conv1d goes round for each channel and each of its taps, and for little else: no fewer rounds are asked for. */
static void test_rounds(void **state)
{
    (void)state;
    const pco_conv1d_attrs attrs = {.stride = 1, .dilation = 1, .groups = 1};
    for (int64_t taps = 1; taps < 4; taps++)
        for (int less = 0; less < 2; less++) {
            pco_device device = device_of(0);
            pco_graph *g = pco_graph_create();
            const uint32_t in[2] = {pco_graph_input(g, "x", PCO_F32, 3, (int64_t[]){1, 100, 8}),
                                    pco_graph_input(g, "w", PCO_F32, 3, (int64_t[]){2, 100, taps})};
            device.gpu.limits.max_rounds = (uint32_t)(100 + 100 * taps + 64 - less);
            pco_graph_output(g, pco_graph_add(g, PCO_OP_CONV1D, &attrs, in, 2, NULL), "y");
            check_ok(pco_graph_check(g, &err));
            const pco_part part = part_of(g);
            pco_error why;
            assert_int_equal(pco_gpu_program_api.supports(&device, &part, 0, &why),
                             less ? PCO_ERROR_UNSUPPORTED : PCO_OK);
            pco_graph_destroy(g);
        }
}

/* 1: the device runs norm_matmul of a row of k by k times n. */
static int runs_norm(pco_device *device, int64_t n, int64_t k)
{
    pco_graph *g = pco_graph_create();
    const uint32_t in[2] = {pco_graph_input(g, "x", PCO_F32, 2, (int64_t[]){1, k}),
                            pco_graph_input(g, "w", PCO_F32, 2, (int64_t[]){n, k})};
    pco_graph_output(g, pco_graph_add(g, PCO_OP_NORM_MATMUL, NULL, in, 2, NULL), "y");
    check_ok(pco_graph_check(g, &err));
    const pco_part part = part_of(g);
    pco_error why;
    const pco_status status = pco_gpu_program_api.supports(device, &part, 0, &why);
    assert_true(status == PCO_OK || status == PCO_ERROR_UNSUPPORTED);
    pco_graph_destroy(g);
    return status == PCO_OK;
}

/* The fewest rounds of loops with which it does. */
static int64_t rounds_of_norm(pco_device *device, int64_t n, int64_t k)
{
    int64_t low = 0, high = 1 << 20;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        device->gpu.limits.max_rounds = (uint32_t)middle;
        *(runs_norm(device, n, k) ? &high : &low) = middle;
    }
    return high;
}

/* norm_matmul goes three times over its row, and for each column over the terms of an invocation; what does not gain by
 * being one is left to the two. */
static void test_norm_matmul(void **state)
{
    (void)state;
    for (int software = 0; software < 2; software++) {
        pco_device device = device_of(software);
        const int64_t most = software ? 1 << 16 : 1 << 21;
        assert_true(runs_norm(&device, most / 256, 256));
        assert_false(runs_norm(&device, most / 256 + 1, 256));
        device.gpu.limits.max_workgroup = 1; /* nobody shares terms */
        const int64_t a = rounds_of_norm(&device, 4, 256), b = rounds_of_norm(&device, 4, 512),
                      columns = (a - (b - a)) / 64;
        assert_true(columns > 0);
        assert_int_equal(a, 3 * 256 + columns * (256 + 64));
        assert_int_equal(b, 3 * 512 + columns * (512 + 64));
    }
    pco_device smallest = device_of(0);
    assert_true(runs_norm(&smallest, 4, 256));
    smallest.gpu.limits.tiles = PCO_GPU_TILES_SMALLEST; /* its tile of four columns is larger */
    assert_false(runs_norm(&smallest, 4, 256));
}

/* Columns go along a grid's first dimension and choices along its third, of which a device may have fewer than of
 * others. */
static void test_indexed_groups(void **state)
{
    (void)state;
    for (uint32_t v = 0; v < 3; v++)
        for (uint32_t few = 0; few < 3; few += 2) {
            pco_device device = device_of(0);
            for (uint32_t d = 0; d < 3; d++) device.gpu.limits.max_groups[d] = d == few ? 4 : 65535;
            pco_graph *g = pco_graph_create();
            const pco_indexed_matmul_attrs attrs = {.matrices = 6};
            const uint32_t in[3] = {pco_graph_input(g, "x", PCO_F32, 2, (int64_t[]){9, 256}),
                                    pco_graph_input(g, "w", PCO_F32, 2, (int64_t[]){6 * 300, 256}),
                                    pco_graph_input(g, "indices", PCO_I32, 2, (int64_t[]){9, 2})};
            pco_graph_output(g, pco_graph_add(g, PCO_OP_INDEXED_MATMUL, &attrs, in, 3, NULL), "y");
            check_ok(pco_graph_check(g, &err));
            lower_variant(&device, g, v);
            assert_true(last.count > 1);
            pco_graph_destroy(g);
        }
}

/* Rows of whole words are copied as words, and others by the halves in them. */
static void test_words(void **state)
{
    (void)state;
    for (int64_t columns = 2; columns < 6; columns++) {
        pco_device device = device_of(0);
        pco_graph *g = pco_graph_create();
        const uint32_t x[2] = {pco_graph_input(g, "x", PCO_F16, 2, (int64_t[]){3, columns}),
                               pco_graph_input(g, "y", PCO_F16, 2, (int64_t[]){3, columns})};
        pco_graph_output(g, pco_concat(g, x, 2, 1), "z");
        check_ok(pco_graph_check(g, &err));
        lower_variant(&device, g, PCO_NONE);
        assert_int_equal(last.count, 2);
        assert_int_equal(last.as_words, columns % 2 ? 0 : 2);
        pco_graph_destroy(g);
    }
}

/* A vector that begins in front of a box's first column would read outside of the window. */
static void test_no_narrow_vectors(void **state)
{
    (void)state;
    pco_device device = device_of(1);
    if (!(device.gpu.limits.needs_met & PCO_GPU_NEEDS_VECTOR_16)) skip();
    device.gpu.limits.max_binding = 512; /* 143 columns become 64, 64 and 15 */
    pco_graph *g = graph_of(&(cut_node){8, 143, 4, 0});
    lower_variant(&device, g, PCO_NONE);
    assert_true(last.count > 2);
    assert_int_equal(last.narrow, 0);
    pco_graph_destroy(g);
}

/* Kernels count in 32 bits with a sign: where a device binds up to 4 GiB, windows have 2 GiB at most, and what cannot
 * be cut is refused beyond that. */
static void test_windows_of_2_gib(void **state)
{
    (void)state;
    enum { POSITIONS = 1 << 29 }; /* 2 GiB of i32, which rope binds whole */
    pco_device device = device_of(0);
    device.gpu.limits.max_binding = UINT32_MAX - 3, device.gpu.limits.max_allocation = UINT64_C(1) << 36;
    pco_graph *g = graph_of(&(cut_node){100, 8000000, 16, 0});
    lower_variant(&device, g, PCO_NONE);
    assert_true(last.count > 1);
    assert_in_range(last.widest, UINT64_C(1) << 30, UINT64_C(1) << 31);
    pco_graph_destroy(g);
    static const int32_t phase[2] = {0, 0};
    pco_error ignored;
    for (int more = 0; more < 2; more++) {
        const int64_t rows = POSITIONS + more, x[4] = {1, rows, 1, 2}, at[2] = {1, rows}, pairs[2] = {1, 2};
        g = pco_graph_create();
        uint32_t in[3] = {pco_graph_input(g, "x", PCO_F16, 4, x), pco_graph_input(g, "positions", PCO_I32, 2, at),
                          pco_graph_constant(g, "phase", PCO_I32, 2, pairs, phase)};
        pco_graph_output(g, pco_graph_add(g, PCO_OP_ROPE, &(pco_rope_attrs){.scale = 1.0}, in, 3, NULL), "y");
        check_ok(pco_graph_check(g, &err));
        const pco_part part = part_of(g);
        assert_int_equal(pco_gpu_program_api.supports(&device, &part, 0, &ignored),
                         more ? PCO_ERROR_UNSUPPORTED : PCO_OK);
        pco_graph_destroy(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cut_is_tested),   cmocka_unit_test(test_no_narrow_vectors),
                                       cmocka_unit_test(test_few_bindings),    cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_rounds),          cmocka_unit_test(test_norm_matmul),
                                       cmocka_unit_test(test_indexed_groups),  cmocka_unit_test(test_words),
                                       cmocka_unit_test(test_windows_of_2_gib)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
