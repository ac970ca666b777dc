/* Subgroup widths: each one that a device lets us require is a variant of its own, and reaches the dispatch.
 * The device is a description only; nothing runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/gpu.h"

struct pco_device {
    pco_gpu_device gpu;
};

struct pco_gpu_recording {
    uint32_t width, count;
};

static pco_gpu_recording last;

static void *widths_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void widths_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static pco_status widths_record(pco_gpu_device *device, const pco_plan *plan, const pco_gpu_dispatch *list,
                                uint32_t count, uint32_t per_segment, pco_gpu_recording **recording,
                                pco_error *err)
{
    (void)device, (void)plan, (void)per_segment, (void)err;
    last = (pco_gpu_recording){list[0].width, count};
    *recording = &last;
    return PCO_OK;
}

static void widths_discard(pco_gpu_device *device, pco_gpu_recording *recording)
{
    (void)device, (void)recording;
}

static const pco_host HOST = {.size = sizeof HOST, .allocate = widths_allocate, .release = widths_release};
static const pco_gpu_driver DRIVER = {.record = widths_record, .discard = widths_discard};

static pco_device device_of(uint32_t least, uint32_t most, uint32_t settable)
{
    return (pco_device){{.host = &HOST,
                         .driver = &DRIVER,
                         .limits = {.type = PCO_DEVICE_DISCRETE,
                                    .needs_met = PCO_GPU_NEEDS_SUBGROUPS,
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
    p->attrs.axis = -1;
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
    p->part = (pco_part){
        .size = sizeof p->part, .n_tensors = 2, .n_nodes = 1, .tensors = p->tensors, .nodes = &p->node};
}

/* Prepares the variant; *width is what the dispatch requires. */
static pco_status prepare(pco_device *device, uint32_t variant, uint32_t *width)
{
    widths_part p;
    part_make(&p, variant);
    pco_node_proposal node = {.variant = PCO_NONE, .fused_into = PCO_NONE};
    pco_tensor_proposal tensors[2] = {{0, 64, 780}, {0, 64, 780}};
    pco_proposal proposal = {.size = sizeof proposal, .nodes = &node, .tensors = tensors};
    pco_error err = {""};
    pco_status status = pco_gpu_program_api.propose(device, &p.part, &proposal, &err);
    if (status) return status;
    pco_buffer *buffers[2] = {(pco_buffer *)&p, (pco_buffer *)&tensors};
    pco_place places[2] = {{0, 0, 0, 780}, {1, 0, 0, 780}}, workspace = {.buffer = PCO_NONE};
    pco_plan plan = {
        .size = sizeof plan, .n_buffers = 2, .buffers = buffers, .tensors = places, .workspaces = &workspace};
    pco_program *program = NULL;
    status = pco_gpu_program_api.prepare(device, &p.part, &proposal, &plan, &program, &err);
    if (status == PCO_OK) pco_gpu_program_api.destroy(device, program);
    *width = last.width;
    return status;
}

static uint32_t names_of(pco_device *device, const char **names, uint32_t capacity)
{
    widths_part p;
    part_make(&p, PCO_NONE);
    return pco_gpu_program_api.variants(device, &p.part, 0, names, capacity);
}

static void test_each_width(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"serial",      "shared",      "subgroup",   "subgroup@8",
                                        "subgroup@16", "subgroup@32", "subgroup@64"};
    static const uint32_t WIDTHS[] = {0, 0, 0, 8, 16, 32, 64};
    pco_device device = device_of(8, 64, 16);
    const char *names[16];
    assert_int_equal(names_of(&device, names, 16), 7);
    for (uint32_t v = 0; v < 7; v++) {
        uint32_t width = 99;
        assert_string_equal(names[v], NAMES[v]);
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
    const char *names[16];
    pco_device one = device_of(32, 32, 16), fixed = device_of(8, 64, 0);
    assert_int_equal(names_of(&one, names, 16), 3);
    assert_int_equal(names_of(&fixed, names, 16), 3);
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

static void test_edges(void **state)
{
    (void)state;
    pco_device device = device_of(8, 512, 4);
    pco_device_info info = {.size = sizeof info};
    pco_gpu_describe_edges(&device.gpu.limits, &info);
    uint32_t found = 0;
    for (uint32_t i = 0; i < info.n_edges; i++) found += info.edges[i] == 64 || info.edges[i] == 512;
    assert_int_equal(found, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_width), cmocka_unit_test(test_no_choice),
                                       cmocka_unit_test(test_too_many), cmocka_unit_test(test_edges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
