/* What a description of a device is enough for; nothing runs. Subgroup widths: each one that a device lets us require
 * is a variant of its own, and reaches the dispatch. Matrices that are larger than a device's grid or an index. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu_device.h"

struct pco_gpu_recording {
    uint32_t width, count;
    uint32_t kernel, groups;
    int32_t specs[PCO_GPU_MAX_SPECS]; /* of the first dispatch; the first specialisation constants are the workgroup */
    uint64_t columns, most;           /* of a matmul's dispatches: together; elements of b that one of them reaches */
};

static pco_gpu_recording last;

static pco_status widths_record(pco_gpu_device *device, const pco_plan *plan, const pco_gpu_dispatch *list,
                                uint32_t count, uint32_t per_segment, pco_gpu_recording **recording, pco_error *err)
{
    (void)device, (void)plan, (void)per_segment, (void)err;
    last = (pco_gpu_recording){
        .width = list[0].width, .count = count, .kernel = list[0].kernel, .groups = list[0].groups[0]};
    memcpy(last.specs, list[0].specs, sizeof last.specs);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t reach = list[i].params[6] + (uint64_t)list[i].params[1] * list[i].params[4];
        last.columns += list[i].params[1];
        if (reach > last.most) last.most = reach;
    }
    *recording = &last;
    return PCO_OK;
}

static void widths_discard(pco_gpu_device *device, pco_gpu_recording *recording) { (void)device, (void)recording; }

static const pco_gpu_driver DRIVER = {.record = widths_record, .discard = widths_discard};

static pco_device device_of(uint32_t least, uint32_t most, uint32_t settable)
{
    return gpu_device(&DRIVER, least, most, settable);
}

/* softmax of [3, 65] */
typedef struct widths_part {
    pco_softmax_attrs attrs;
    pco_tensor tensors[2];
    pco_node node;
    pco_part part;
} widths_part;

static void part_make(widths_part *p, uint32_t variant)
{
    memset(p, 0, sizeof *p);
    p->attrs.axis = 1;
    for (int i = 0; i < 2; i++)
        p->tensors[i] = (pco_tensor){.kind = i ? PCO_KIND_OUTPUT : PCO_KIND_INPUT,
                                     .rank = 2,
                                     .alias = PCO_NONE,
                                     .shape = {3, 65},
                                     .bytes = 780,
                                     .name = "t"};
    p->node = (pco_node){.op = PCO_OP_SOFTMAX,
                         .n_inputs = 1,
                         .n_outputs = 1,
                         .inputs = {0},
                         .outputs = {1},
                         .variant = variant,
                         .attrs_size = sizeof p->attrs,
                         .attrs = &p->attrs,
                         .name = "softmax"};
    p->part =
        (pco_part){.size = sizeof p->part, .n_tensors = 2, .n_nodes = 1, .tensors = p->tensors, .nodes = &p->node};
}

/* Prepares the variant; *width is what the dispatch requires. */
static pco_status prepare(pco_device *device, uint32_t variant, uint32_t *width)
{
    widths_part p;
    part_make(&p, variant);
    pco_node_proposal node = {.variant = PCO_NONE};
    pco_tensor_proposal tensors[2] = {{0, 64, 780}, {0, 64, 780}};
    pco_proposal proposal = {.size = sizeof proposal, .nodes = &node, .tensors = tensors};
    pco_error err = {""};
    pco_status status = pco_gpu_program_api.propose(device, &p.part, &proposal, &err);
    if (status) return status;
    pco_buffer *buffers[2] = {(pco_buffer *)&p, (pco_buffer *)&tensors};
    pco_place places[2] = {{0, 0, 780}, {1, 0, 780}}, workspace = {.buffer = PCO_NONE};
    pco_plan plan = {
        .size = sizeof plan, .n_buffers = 2, .buffers = buffers, .tensors = places, .workspaces = &workspace};
    pco_program *program = NULL;
    status = pco_gpu_program_api.prepare(device, &p.part, &proposal, &plan, &program, &err);
    if (status == PCO_OK) pco_gpu_program_api.destroy(device, program);
    *width = last.width;
    return status;
}

static uint32_t variants_of(pco_device *device, pco_variant *variants, uint32_t capacity)
{
    widths_part p;
    part_make(&p, PCO_NONE);
    return pco_gpu_program_api.variants(device, &p.part, 0, variants, capacity);
}

static void test_each_width(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"serial", "shared", "subgroup", "subgroup", "subgroup", "subgroup", "subgroup"};
    static const uint32_t WIDTHS[] = {0, 0, 0, 8, 16, 32, 64};
    pco_device device = device_of(8, 64, 16);
    pco_variant variants[16];
    assert_int_equal(variants_of(&device, variants, 16), 7);
    for (uint32_t v = 0; v < 7; v++) {
        uint32_t width = 99;
        assert_string_equal(variants[v].name, NAMES[v]);
        assert_int_equal(variants[v].subgroup_width, WIDTHS[v]);
        assert_int_equal(variants[v].form, PCO_FORM_OWN);
        assert_int_equal(variants[v].needs, v < 2 ? 0 : PCO_FEATURE_SUBGROUPS);
        assert_int_equal(prepare(&device, v, &width), PCO_OK);
        assert_int_equal(width, WIDTHS[v]);
    }
    uint32_t width = 99; /* the plugin's own choice requires nothing */
    assert_int_equal(prepare(&device, PCO_NONE, &width), PCO_OK);
    assert_int_equal(width, 0);
}

static void test_no_choice(void **state)
{
    (void)state;
    pco_variant variants[16];
    pco_device one = device_of(32, 32, 16), fixed = device_of(8, 64, 0);
    assert_int_equal(variants_of(&one, variants, 16), 3);
    assert_int_equal(variants_of(&fixed, variants, 16), 3);
}

/* A workgroup of 64 is 8 subgroups of 8; where 4 are allowed that is said, and 16 wide fits. */
static void test_too_many(void **state)
{
    (void)state;
    pco_device device = device_of(8, 32, 4);
    uint32_t width = 0;
    assert_int_equal(prepare(&device, 3, &width), PCO_ERROR_UNSUPPORTED);
    assert_int_equal(prepare(&device, 4, &width), PCO_OK);
    assert_int_equal(width, 16);
}

/* As many workgroups as a grid may have are not too many. */
static void test_full_grid(void **state)
{
    (void)state;
    pco_device device = device_of(32, 32, 0);
    uint32_t width = 0;
    assert_int_equal(prepare(&device, 1, &width), PCO_OK);
    const uint32_t groups = last.groups;
    assert_true(groups > 1);
    for (uint32_t less = 0; less < 2; less++) {
        for (int d = 0; d < 3; d++) device.gpu.limits.max_groups[d] = d ? 1 : groups - less;
        assert_int_equal(prepare(&device, 1, &width), less ? PCO_ERROR_UNSUPPORTED : PCO_OK);
    }
}

/* What the kernels' tables say of a size: the numbers among the defines (tiles, lanes, terms, depths), and workgroups
 * of 64, whose invocations own words of one, two or four elements. Those below 4 are beside other edges. */
static bool edge_of_kernels(uint32_t size)
{
    if (size == 64 || size == 128 || size == 256) return true;
    for (uint32_t k = 0; k < pco_gpu_n_kernels; k++)
        for (const char *at = strchr(pco_gpu_kernels[k].defines, '='); at; at = strchr(at + 1, '=')) {
            char *end;
            if (strtoul(at + 1, &end, 10) == size && (*end == ' ' || *end == 0)) return true;
        }
    return false;
}

static void test_edges(void **state)
{
    (void)state;
    static const struct {
        uint32_t least, most, group;
    } DEVICES[] = {{8, 512, 1024}, {32, 32, 256}, {1, 1, 64}, {2, 4, 64}, {4, 16, 60}, {0, 0, 48}};
    for (size_t d = 0; d < sizeof DEVICES / sizeof *DEVICES; d++) {
        const uint32_t least = DEVICES[d].least, most = DEVICES[d].most, group = DEVICES[d].group;
        pco_device device = device_of(least, most, 4);
        pco_device_info info = {.size = sizeof info};
        uint32_t expected = 0;
        device.gpu.limits.max_workgroup = group;
        pco_gpu_describe_edges(&device.gpu.limits, &info);
        pco_gpu_describe_edges(&device.gpu.limits, &info); /* whatever was there before */
        for (uint32_t size = 1; size <= 1024; size++) {
            const bool width = least && size > 1 && size >= least && size <= most && (size & (size - 1)) == 0;
            const bool wanted = (size >= 4 && edge_of_kernels(size)) || width || size == (group < 64 ? group : 64);
            uint32_t found = 0;
            for (uint32_t i = 0; i < info.n_edges; i++) found += info.edges[i] == size;
            if (found != wanted) fail_msg("device %zu: %u is an edge %u times", d, (unsigned)size, (unsigned)found);
            expected += wanted;
        }
        assert_int_equal(info.n_edges, expected);
    }
    pco_device all = device_of(1, 1u << 31, 4); /* more widths than there is room for */
    pco_device_info info = {.size = sizeof info};
    pco_gpu_describe_edges(&all.gpu.limits, &info);
    assert_int_equal(info.n_edges, PCO_MAX_EDGES);
    assert_int_equal(info.vendor_id, 0); /* which is behind them */
}

/* m rows by a matrix [n, k] along k. */
typedef struct product {
    pco_matmul_attrs attrs;
    pco_tensor tensors[3];
    pco_node node;
    pco_part part;
} product;

static void product_make(product *p, uint32_t type, int64_t m, int64_t n, int64_t k, uint32_t variant)
{
    const uint64_t count = (uint64_t)(n * k), bytes = type == PCO_Q4_0 ? count / 32 * 18 : count * 4;
    *p = (product){
        .attrs = {.transpose_b = 1, .accumulate = PCO_F32, .dtype = -1},
        .tensors = {{.kind = PCO_KIND_INPUT, .shape = {m, k}, .bytes = (uint64_t)(m * k) * 4, .name = "a"},
                    {.kind = PCO_KIND_CONSTANT, .dtype = type, .shape = {n, k}, .bytes = bytes, .name = "b"},
                    {.kind = PCO_KIND_OUTPUT, .shape = {m, n}, .bytes = (uint64_t)(m * n) * 4, .name = "y"}},
        .node = {.op = PCO_OP_MATMUL,
                 .n_inputs = 2,
                 .n_outputs = 1,
                 .inputs = {0, 1},
                 .outputs = {2},
                 .variant = variant,
                 .attrs_size = sizeof p->attrs,
                 .attrs = &p->attrs,
                 .name = "matmul"},
        .part = {.size = sizeof p->part, .n_tensors = 3, .n_nodes = 1, .tensors = p->tensors, .nodes = &p->node}};
    for (uint32_t i = 0; i < 3; i++) p->tensors[i].rank = 2, p->tensors[i].alias = PCO_NONE;
}

enum { MOST_TENSORS = 8 };

/* Lowers a part of one node, each tensor in a buffer of its own; what was recorded is in `last`. */
static pco_status lower(pco_device *device, const pco_part *part)
{
    pco_tensor_proposal proposals[MOST_TENSORS];
    pco_place places[MOST_TENSORS], workspace = {.buffer = PCO_NONE};
    pco_buffer *buffers[MOST_TENSORS];
    for (uint32_t i = 0; i < part->n_tensors; i++) {
        proposals[i] = (pco_tensor_proposal){0, 64, part->tensors[i].bytes};
        buffers[i] = (pco_buffer *)(uintptr_t)&part->tensors[i];
    }
    pco_node_proposal proposed = {.variant = PCO_NONE};
    pco_proposal proposal = {.size = sizeof proposal, .nodes = &proposed, .tensors = proposals};
    pco_error err = {""};
    pco_program *program = NULL;
    pco_status status = pco_gpu_program_api.propose(device, part, &proposal, &err);
    for (uint32_t i = 0; i < part->n_tensors; i++) places[i] = (pco_place){i, 0, proposals[i].bytes};
    const pco_plan plan = {.size = sizeof plan,
                           .n_buffers = part->n_tensors,
                           .buffers = buffers,
                           .tensors = places,
                           .workspaces = &workspace};
    if (!status) status = pco_gpu_program_api.prepare(device, part, &proposal, &plan, &program, &err);
    if (!status) pco_gpu_program_api.destroy(device, program);
    if (status) print_message("%s\n", err.message);
    return status;
}

static pco_status multiply_row(pco_device *device, uint32_t type, int64_t n, int64_t k)
{
    product p;
    product_make(&p, type, 1, n, k, PCO_NONE);
    return lower(device, &p.part);
}

/* The kernel and workgroup of a variant. */
static pco_gpu_recording product_with(pco_device *device, const char *name, pco_form form)
{
    pco_variant all[32];
    product p;
    product_make(&p, PCO_F32, 16, 64, 64, PCO_NONE);
    const uint32_t n = pco_gpu_program_api.variants(device, &p.part, 0, all, 32);
    uint32_t v = 0;
    while (v < n && (strcmp(all[v].name, name) != 0 || all[v].form != (uint32_t)form)) v++;
    assert_true(v < n);
    p.node.variant = v;
    assert_int_equal(lower(device, &p.part), PCO_OK);
    return last;
}

/* What a GPU would run can be asked for on a processor, and the other way round, and is the same dispatch. */
static void test_other(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"register", "gemv"};
    pco_device gpu = device_of(32, 32, 0), software = device_of(32, 32, 0);
    software.gpu.limits.type = PCO_DEVICE_SOFTWARE;
    for (int i = 0; i < 2; i++) {
        const pco_gpu_recording on_gpu = product_with(&gpu, NAMES[i], PCO_FORM_OWN),
                                on_cpu = product_with(&software, NAMES[i], PCO_FORM_OWN),
                                as_gpu = product_with(&software, NAMES[i], PCO_FORM_GPU),
                                as_cpu = product_with(&gpu, NAMES[i], PCO_FORM_CPU);
        assert_memory_equal(&on_gpu, &as_gpu, sizeof on_gpu);
        assert_memory_equal(&on_cpu, &as_cpu, sizeof on_cpu);
        assert_memory_not_equal(&on_gpu, &on_cpu, sizeof on_gpu);
    }
}

/* A vocabulary of 200000 with rows that are no whole vectors: two columns a workgroup, and 65535 workgroups. */
static void test_grid(void **state)
{
    (void)state;
    static const uint32_t types[] = {PCO_DEVICE_DISCRETE, PCO_DEVICE_SOFTWARE};
    for (int i = 0; i < 2; i++)
        for (int64_t k = 31; k <= 301; k += 270) {
            pco_device device = device_of(32, 32, 0);
            device.gpu.limits.type = types[i];
            device.gpu.limits.max_binding = UINT64_C(1) << 30;
            assert_int_equal(multiply_row(&device, PCO_F32, 200000, k), PCO_OK);
            assert_int_equal(last.columns, 200000);
        }
}

/* Kernels count elements in 31 bits, and 2 GiB of Q4_0 are 2^32. */
static void test_index(void **state)
{
    (void)state;
    pco_device device = device_of(32, 32, 0);
    device.gpu.limits.max_binding = device.gpu.limits.max_allocation = UINT32_MAX;
    assert_int_equal(multiply_row(&device, PCO_Q4_0, 196608, 16384), PCO_OK);
    assert_int_equal(last.columns, 196608);
    assert_true(last.most <= INT32_MAX);
}

/* ---- few pipelines ---- */

/* Rows that a workgroup shares have three sizes of workgroup, which depend on the row and not on how many there are. */
static void test_row_sizes(void **state)
{
    (void)state;
    static const int64_t COUNTS[] = {1, 2, 3, 17, 1000};
    pco_device device = device_of(32, 32, 0);
    int32_t before = 0;
    uint32_t sizes = 0;
    for (int64_t n = 1; n <= 300; n++) {
        int32_t first = 0;
        for (int i = 0; i < 5; i++) {
            widths_part p;
            part_make(&p, 1);
            for (int t = 0; t < 2; t++) {
                p.tensors[t].shape[0] = COUNTS[i], p.tensors[t].shape[1] = n;
                p.tensors[t].bytes = (uint64_t)(COUNTS[i] * n) * 4;
            }
            assert_int_equal(lower(&device, &p.part), PCO_OK);
            assert_int_equal(last.specs[0] * last.specs[1] * last.specs[2], 64);
            if (i == 0) first = last.specs[0];
            assert_int_equal(last.specs[0], first);
        }
        sizes += first != before;
        before = first;
    }
    assert_int_equal(sizes, 3);
}

/* q, k, v [1,1,4,D] and, or not, starts [1]. */
typedef struct attention {
    pco_scaled_dot_product_attention_attrs attrs;
    pco_tensor tensors[5];
    pco_node node;
    pco_part part;
} attention;

static void attention_make(attention *p, int64_t depth, int causal, int64_t window, int starts)
{
    *p = (attention){
        .attrs = {.scale = 1.0, .causal = causal, .window = window, .heads_first = 1},
        .node = {.op = PCO_OP_SCALED_DOT_PRODUCT_ATTENTION,
                 .n_inputs = starts ? 6 : 3,
                 .n_outputs = 1,
                 .inputs = {0, 1, 2, PCO_NONE, PCO_NONE, starts ? 4 : PCO_NONE},
                 .outputs = {3},
                 .attrs_size = sizeof p->attrs,
                 .attrs = &p->attrs,
                 .name = "attention"},
        .part = {.size = sizeof p->part, .n_tensors = 5, .n_nodes = 1, .tensors = p->tensors, .nodes = &p->node}};
    for (uint32_t i = 0; i < 4; i++)
        p->tensors[i] = (pco_tensor){.kind = i == 3 ? PCO_KIND_OUTPUT : PCO_KIND_INPUT,
                                     .rank = 4,
                                     .alias = PCO_NONE,
                                     .shape = {1, 1, 4, depth},
                                     .bytes = (uint64_t)depth * 16,
                                     .name = "t"};
    p->tensors[4] = (pco_tensor){.kind = PCO_KIND_INPUT,
                                 .dtype = PCO_I32,
                                 .rank = 1,
                                 .alias = PCO_NONE,
                                 .shape = {1},
                                 .bytes = 4,
                                 .name = "starts"};
}

/* What a row sees is no constant of the kernel: all kinds of attention share one. */
static void test_attention_kinds(void **state)
{
    (void)state;
    pco_device device = device_of(32, 32, 0);
    attention p;
    attention_make(&p, 64, 0, 0, 0);
    assert_int_equal(lower(&device, &p.part), PCO_OK);
    const pco_gpu_recording plain = last;
    for (int kind = 1; kind < 8; kind++) {
        attention_make(&p, 64, kind & 1, kind & 2 ? 2 : 0, kind & 4);
        assert_int_equal(lower(&device, &p.part), PCO_OK);
        assert_int_equal(last.kernel, plain.kernel);
        assert_memory_equal(last.specs, plain.specs, sizeof plain.specs);
    }
}

/* An invocation holds four elements of a head: wider ones are refused, and not cut off. */
static void test_wide_heads(void **state)
{
    (void)state;
    static const uint32_t GROUPS[] = {16, 32, 64, 256};
    static const int64_t MOST[] = {64, 128, 256, 256};
    for (int i = 0; i < 4; i++) {
        pco_device device = device_of(32, 32, 0);
        device.gpu.limits.max_workgroup = GROUPS[i];
        for (int wide = 0; wide < 4; wide++) { /* 1: queries and keys, 2: values and results, 3: both */
            pco_error err = {""};
            attention p;
            attention_make(&p, MOST[i], 0, 0, 0);
            for (int t = 0; t < 4; t++) p.tensors[t].shape[3] += t < 2 ? wide & 1 : wide >> 1;
            assert_int_equal(pco_gpu_program_api.supports(&device, &p.part, 0, &err),
                             wide ? PCO_ERROR_UNSUPPORTED : PCO_OK);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_width), cmocka_unit_test(test_no_choice), cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_edges),      cmocka_unit_test(test_grid),      cmocka_unit_test(test_index),
        cmocka_unit_test(test_other),      cmocka_unit_test(test_row_sizes), cmocka_unit_test(test_attention_kinds),
        cmocka_unit_test(test_wide_heads), cmocka_unit_test(test_full_grid)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
