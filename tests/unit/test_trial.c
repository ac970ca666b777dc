/* Trials: where tensors lie, what lies around them, and what is said when that changed. The device is this file. */
#include "check.h"

#include "runtime/trial.h"

struct pco_buffer {
    uint64_t bytes;
    uint8_t *data;
};

struct pco_program {
    pco_place tensors[3], workspace;
    pco_buffer *buffers[PCO_TRIAL_REGIONS];
};

/* Where a run changes a byte: so many bytes behind the begin of a tensor; PCO_NONE: nowhere. */
static struct {
    uint32_t tensor;
    uint64_t at;
} astray;
static uint32_t made;         /* buffers that are there */
static uint32_t in_place = 3; /* as proposed */
static int ink = 0x11;        /* the bytes of the result and of its last word */

static pco_status create(pco_device *device, uint64_t bytes, uint32_t usage, pco_buffer **buffer, pco_error *err)
{
    (void)device, (void)usage, (void)err;
    *buffer = malloc(sizeof **buffer);
    **buffer = (pco_buffer){bytes, calloc(1, bytes)};
    made++;
    return PCO_OK;
}

static void destroy(pco_device *device, pco_buffer *buffer)
{
    (void)device;
    free(buffer->data);
    free(buffer);
    made--;
}

static pco_status write_bytes(pco_device *device, pco_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                              pco_error *err)
{
    (void)device, (void)err;
    assert_true(offset + bytes <= buffer->bytes);
    memcpy(buffer->data + offset, data, bytes);
    return PCO_OK;
}

static pco_status read_bytes(pco_device *device, pco_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                             pco_error *err)
{
    (void)device, (void)err;
    assert_true(offset + bytes <= buffer->bytes);
    memcpy(data, buffer->data + offset, bytes);
    return PCO_OK;
}

static pco_status supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *err)
{
    (void)device, (void)part, (void)node, (void)err;
    return PCO_OK;
}

static pco_status propose(pco_device *device, const pco_part *part, pco_proposal *proposal, pco_error *err)
{
    (void)device, (void)part, (void)err;
    proposal->nodes[0].workspace = 6;
    proposal->nodes[0].in_place = in_place;
    proposal->tensors[1].alignment = 32;
    if (part->tensors[1].kind != PCO_KIND_CONSTANT) return PCO_OK;
    proposal->tensors[1].layout = 7;
    proposal->tensors[1].bytes = 24;
    return PCO_OK;
}

static pco_status convert(pco_device *device, const pco_tensor *tensor, uint32_t layout, const void *from, void *to,
                          uint64_t bytes, pco_error *err)
{
    (void)device, (void)tensor, (void)from, (void)err;
    assert_int_equal(layout, 7);
    memset(to, 0x77, bytes + (astray.tensor == 1)); /* one byte too many */
    return PCO_OK;
}

static pco_status prepare(pco_device *device, const pco_part *part, const pco_proposal *proposal, const pco_plan *plan,
                          pco_program **program, pco_error *err)
{
    (void)device, (void)proposal, (void)err;
    *program = calloc(1, sizeof **program);
    memcpy((*program)->tensors, plan->tensors, part->n_tensors * sizeof *plan->tensors);
    memcpy((*program)->buffers, plan->buffers, plan->n_buffers * sizeof *plan->buffers);
    (*program)->workspace = plan->workspaces[0];
    return PCO_OK;
}

static void program_destroy(pco_device *device, pco_program *program)
{
    (void)device;
    free(program);
}

static pco_status submit(pco_device *device, pco_program *program, uint32_t first, uint32_t count, uint64_t *ticket,
                         pco_error *err)
{
    (void)device, (void)first, (void)count, (void)ticket, (void)err;
    const pco_place *y = &program->tensors[2];
    memset(program->buffers[y->buffer]->data + y->offset, ink, y->bytes);
    const pco_place *scratch = &program->workspace;
    memset(program->buffers[scratch->buffer]->data + scratch->offset, 0x22, scratch->bytes);
    if (astray.tensor == PCO_NONE) return PCO_OK;
    const pco_place *place = &program->tensors[astray.tensor];
    program->buffers[place->buffer]->data[place->offset + astray.at] ^= 1;
    return PCO_OK;
}

static pco_status wait_for(pco_device *device, uint64_t ticket, uint64_t nanoseconds, pco_error *err)
{
    (void)device, (void)ticket, (void)nanoseconds;
    return nanoseconds ? PCO_OK : pco_fail(err, PCO_ERROR_TIMEOUT, "not yet");
}

static const pco_buffer_api BUFFERS = {
    .size = sizeof BUFFERS, .create = create, .destroy = destroy, .write = write_bytes, .read = read_bytes};
static const pco_program_api PROGRAMS = {.size = sizeof PROGRAMS,
                                         .supports = supports,
                                         .propose = propose,
                                         .convert = convert,
                                         .prepare = prepare,
                                         .destroy = program_destroy};
static const pco_queue_api QUEUE = {.size = sizeof QUEUE, .submit = submit, .wait = wait_for};
static const pco_plugin PLUGIN = {.size = sizeof PLUGIN, .buffer = &BUFFERS, .program = &PROGRAMS, .queue = &QUEUE};
static const pco_device_info INFO = {.size = sizeof INFO, .buffer_alignment = 16, .max_allocation = 1 << 20};
static const float A[5] = {1, 2, 3, 4, 5}, B[5] = {6, 7, 8, 9, 10};

/* y = a + b, five elements each. */
static pco_tensor tensors[3];
static const pco_node NODE = {.op = PCO_OP_ADD,
                              .n_inputs = 2,
                              .n_outputs = 1,
                              .inputs = {0, 1},
                              .outputs = {2},
                              .variant = PCO_NONE,
                              .name = "add"};

static pco_trial trial_of_add(void)
{
    static const char *const NAMES[] = {"a", "b", "y"};
    const pco_open_device on = {.plugin = &PLUGIN, .info = &INFO};
    const pco_part part = {.size = sizeof part, .n_tensors = 3, .n_nodes = 1, .tensors = tensors, .nodes = &NODE};
    for (int t = 0; t < 3; t++)
        tensors[t] = (pco_tensor){.kind = t == 2 ? PCO_KIND_OUTPUT : PCO_KIND_INPUT,
                                  .rank = 1,
                                  .alias = PCO_NONE,
                                  .shape = {5},
                                  .bytes = 20,
                                  .name = NAMES[t]};
    pco_trial trial = pco_trial_of(&on, &part);
    trial.says_steps = 1;
    astray.tensor = PCO_NONE;
    return trial;
}

/* All places at once: no two regions meet, guards are as wide as was asked, alignments hold. */
static void test_places(void **state)
{
    (void)state;
    static const void *const data[3] = {A, B, NULL};
    for (uint32_t i = 0; i < 256; i++) {
        const pco_trial_placement placement = {.single = i & 1,
                                               .odd_or_even = i >> 1 & 1,
                                               .odd = i >> 2,
                                               .shift = i % 3,
                                               .alignment = i >> 3 & 1 ? 64 : 0,
                                               .guard = i >> 4 & 1 ? 256 : 0,
                                               .last = i >> 5 & !(i & 1),
                                               .recycled = i >> 6 & 1,
                                               .around = {1, 2, 3, 4}};
        pco_trial trial = trial_of_add();
        pco_trial_memory m;
        pco_program *program = NULL;
        check_ok(pco_trial_propose(&trial, &err));
        pco_trial_lay_out(&trial, &placement, data, &m);
        check_ok(pco_trial_memory_create(&m, &err));
        assert_int_equal(m.n_buffers, placement.single ? 1 : 4);
        for (uint32_t r = 0; r < 4; r++) {
            const pco_trial_region *x = &m.regions[r];
            const uint64_t alignment = placement.alignment ? 64 : r == 1 ? 32 : 16;
            assert_int_equal(x->offset % alignment, 0);
            assert_true(x->offset >= placement.guard + placement.shift * alignment);
            if (placement.odd_or_even)
                assert_int_equal((x->offset / alignment - placement.shift) % 2, placement.odd >> r & 1);
            if (placement.last)
                assert_int_equal(m.sizes[x->buffer], x->offset + x->bytes);
            else
                assert_true(m.sizes[x->buffer] >= x->offset + x->bytes + placement.guard);
            for (uint32_t other = 0; other < r; other++)
                if (m.regions[other].buffer == x->buffer)
                    assert_true(x->offset >= m.regions[other].offset + m.regions[other].bytes + placement.guard);
        }
        check_ok(pco_trial_memory_write(&m, &err));
        check_ok(pco_trial_prepare(&trial, &m, &program, &err));
        check_ok(pco_trial_run(&trial, program, 1, 1, &err));
        check_ok(pco_trial_memory_read(&m, &err));
        check_ok(pco_trial_memory_check(&m, &err));
        assert_memory_equal(pco_trial_memory_result(&m, 0), A, sizeof A);
        assert_int_equal(*(const uint8_t *)pco_trial_memory_result(&m, 2), 0x11);
        free(program);
        pco_trial_memory_destroy(&m);
        assert_int_equal(made, 0);
    }
}

/* What was changed, and where. */
static void test_astray(void **state)
{
    (void)state;
    static const void *const data[3] = {A, B, NULL};
    static const struct {
        uint32_t tensor;
        uint64_t at;
        const char *says;
    } CASES[] = {{2, 20, "write out of place: 1 bytes behind 'y'"},
                 {0, UINT64_MAX, "write out of place: 1 bytes before 'a'"},
                 {1, 3, "operand 'b' was changed at byte 3"}};
    for (int single = 0; single < 2; single++)
        for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
            const pco_trial_placement placement = {.single = single, .guard = 64};
            pco_trial trial = trial_of_add();
            pco_trial_memory m;
            pco_program *program = NULL;
            check_ok(pco_trial_propose(&trial, &err));
            pco_trial_lay_out(&trial, &placement, data, &m);
            check_ok(pco_trial_memory_create(&m, &err));
            check_ok(pco_trial_memory_write(&m, &err));
            check_ok(pco_trial_prepare(&trial, &m, &program, &err));
            astray.tensor = CASES[i].tensor, astray.at = CASES[i].at;
            check_ok(pco_trial_run(&trial, program, 1, 1, &err));
            check_ok(pco_trial_memory_read(&m, &err));
            check_fails(pco_trial_memory_check(&m, &err), PCO_ERROR_INTERNAL, CASES[i].says);
            check_fails(pco_trial_run(&trial, program, 1, 0, &err), PCO_ERROR_TIMEOUT, "wait: not yet");
            free(program);
            pco_trial_memory_destroy(&m);
        }
    assert_int_equal(made, 0);
}

/* Behind the last element of a result: zeros, or what was there. */
static void test_rest(void **state)
{
    (void)state;
    static const void *const data[3] = {A, B, NULL};
    static const struct {
        uint8_t before, after, late; /* late: changes that bit of the last byte */
        const char *says;
    } CASES[] = {{0x11, 0x11, 0, NULL},
                 {0x55, 0, 0, NULL},
                 {0, 0x11, 0, "write behind the last element: byte 18 of 'y', which has 18"},
                 {0x11, 0x11, 1, "write behind the last element: byte 19 of 'y', which has 18"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const uint8_t before = CASES[i].before;
        const pco_trial_placement placement = {.guard = 64, .around = {before, before, before, before}};
        pco_trial trial = trial_of_add();
        pco_trial_memory m;
        pco_program *program = NULL;
        tensors[2].bytes = 18;
        check_ok(pco_trial_propose(&trial, &err));
        pco_trial_lay_out(&trial, &placement, data, &m);
        check_ok(pco_trial_memory_create(&m, &err));
        check_ok(pco_trial_memory_write(&m, &err));
        check_ok(pco_trial_prepare(&trial, &m, &program, &err));
        if (CASES[i].late) astray.tensor = 2, astray.at = 19;
        ink = CASES[i].after;
        check_ok(pco_trial_run(&trial, program, 1, 1, &err));
        ink = 0x11;
        check_ok(pco_trial_memory_read(&m, &err));
        check_ok(pco_trial_memory_check(&m, &err));
        if (CASES[i].says)
            check_fails(pco_trial_memory_check_rest(&m, &err), PCO_ERROR_INTERNAL, CASES[i].says);
        else
            check_ok(pco_trial_memory_check_rest(&m, &err));
        free(program);
        pco_trial_memory_destroy(&m);
    }
    assert_int_equal(made, 0);
}

/* An operand gives its memory away when it may, and nothing else reads it. */
static void test_in_place(void **state)
{
    (void)state;
    static const void *const data[3] = {A, B, NULL};
    const pco_trial_placement placement = {.guard = 64};
    pco_trial trial = trial_of_add();
    pco_trial_memory m;
    pco_program *program = NULL;
    in_place = 1u << 2;
    check_fails(pco_trial_propose(&trial, &err), PCO_ERROR_INTERNAL,
                "the plugin proposed the result of 'add' in place of an operand behind its 2");
    in_place = 3;
    check_ok(pco_trial_propose(&trial, &err));
    assert_int_equal(pco_trial_giver(&trial), 0);
    tensors[0].kind = PCO_KIND_CONSTANT;
    assert_int_equal(pco_trial_giver(&trial), 1);
    tensors[1].bytes = 16;
    assert_int_equal(pco_trial_giver(&trial), PCO_NONE);
    trial = trial_of_add();
    check_ok(pco_trial_propose(&trial, &err));
    pco_trial_lay_out(&trial, &placement, data, &m);
    pco_trial_share(&m, 2, 0);
    check_ok(pco_trial_memory_create(&m, &err));
    assert_int_equal(m.n_buffers, 3);
    check_ok(pco_trial_memory_write(&m, &err));
    check_ok(pco_trial_prepare(&trial, &m, &program, &err));
    check_ok(pco_trial_run(&trial, program, 1, 1, &err));
    check_ok(pco_trial_memory_read(&m, &err));
    check_ok(pco_trial_memory_check(&m, &err)); /* the operand is the result now */
    assert_int_equal(*(const uint8_t *)pco_trial_memory_result(&m, 0), 0x11);
    check_ok(pco_trial_memory_restore(&m, &err));
    check_ok(pco_trial_memory_read(&m, &err));
    assert_memory_equal(pco_trial_memory_result(&m, 0), A, sizeof A);
    free(program);
    pco_trial_memory_destroy(&m);
}

static void test_convert(void **state)
{
    (void)state;
    static const void *const data[3] = {A, B, NULL};
    const pco_trial_placement placement = {0};
    pco_trial trial = trial_of_add();
    pco_trial_memory m;
    tensors[1].kind = PCO_KIND_CONSTANT, tensors[1].data = B;
    check_ok(pco_trial_propose(&trial, &err));
    check_ok(pco_trial_convert(&trial, &err));
    pco_trial_lay_out(&trial, &placement, data, &m);
    assert_int_equal(m.regions[1].data_bytes, 24);
    assert_int_equal(*(const uint8_t *)m.regions[1].data, 0x77);
    astray.tensor = 1;
    check_fails(pco_trial_convert(&trial, &err), PCO_ERROR_INTERNAL, "convert 'b' writes behind the 24 bytes");
    pco_trial_clear(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_places), cmocka_unit_test(test_astray),
                                       cmocka_unit_test(test_rest), cmocka_unit_test(test_in_place),
                                       cmocka_unit_test(test_convert)};
    return cmocka_run_group_tests_name("trial", tests, NULL, NULL);
}
