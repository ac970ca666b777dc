/* Inputs and outputs beside plain copies: what was never written, memory that the host addresses, tensors of DLPack,
 * timings of nodes.
 * argv[1 ...]: devices, of which those that are not there are left out. */
#define CHECK_SESSIONS
#include "check.h"

#include "portico/portico.h"
#include "portico/session.h"
#include "runtime/dlpack.h"

static pco_context *context;
static char **devices;

/* y = x + x of [2,3], with a second node */
static pco_executable *make(pco_session *session)
{
    pco_executable *executable;
    pco_graph *graph = pco_graph_create();
    const uint32_t x = pco_graph_input(graph, "x", PCO_F32, 2, (const int64_t[]){2, 3});
    pco_graph_output(graph, pco_exp(graph, pco_sub(graph, x, x)), "one");
    pco_graph_output(graph, pco_add(graph, x, x), "y");
    check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
    pco_graph_destroy(graph);
    return executable;
}

/* Memory that nobody has written holds anything: a run that would read it is refused, by the input's name. */
static void unwritten(pco_session *session)
{
    const float values[] = {1, 2, 3, 4, 5, 6};
    float y[6];
    pco_executable *executable;
    pco_graph *graph = pco_graph_create();
    const int64_t shape[] = {2, 3}, none[] = {0, 3};
    const uint32_t a = pco_graph_input(graph, "a", PCO_F32, 2, shape);
    const uint32_t b = pco_graph_value(graph, "b", PCO_F32, 2, shape),
                   empty = pco_graph_input(graph, "e", PCO_F32, 2, none);
    pco_graph_input(graph, "unused", PCO_F32, 2, shape);
    pco_graph_output(graph, pco_add(graph, a, b), "y");
    pco_graph_output(graph, pco_exp(graph, empty), "z");
    check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
    pco_graph_destroy(graph);
    const uint32_t first = pco_executable_tensor(executable, "a"), second = pco_executable_tensor(executable, "b");
    check_fails(pco_executable_run(executable, &err), PCO_ERROR_INVALID, "'a' was never written");
    check_ok(pco_executable_write(executable, first, values, sizeof values, &err));
    check_ok(pco_executable_write(executable, second, values, 0, &err)); /* nothing */
    check_fails(pco_executable_run(executable, &err), PCO_ERROR_INVALID, "'b' was never written");
    check_fails(pco_executable_start(executable, 0, pco_executable_segments(executable), &err), PCO_ERROR_INVALID,
                "'b' was never written");
    check_ok(pco_executable_write(executable, second, values, sizeof values, &err));
    for (int run = 0; run < 2; run++) { /* written once for all runs; what nothing reads and what is empty, never */
        check_ok(pco_executable_run(executable, &err));
        check_ok(pco_executable_read(executable, pco_executable_tensor(executable, "y"), y, sizeof y, &err));
        for (int i = 0; i < 6; i++) assert_true(y[i] == 2 * values[i]);
    }
    pco_executable_destroy(executable);
}

static void read_dlpack(pco_executable *executable, const float *want)
{
    DLManagedTensor *made;
    check_ok(pco_executable_read_dlpack(executable, pco_executable_tensor(executable, "y"), &made, &err));
    const DLTensor *y = &made->dl_tensor;
    assert_int_equal(y->device.device_type, DL_CPU);
    assert_int_equal(y->ndim, 2);
    assert_true(y->dtype.code == DL_FLOAT && y->dtype.bits == 32 && y->dtype.lanes == 1);
    assert_true(y->shape[0] == 2 && y->shape[1] == 3 && y->strides[0] == 3 && y->strides[1] == 1);
    assert_int_equal((uintptr_t)y->data % 64, 0);
    assert_memory_equal((const char *)y->data + y->byte_offset, want, 24);
    made->deleter(made);
}

static void dlpack(pco_executable *executable)
{
    float stored[] = {99, 1, 4, 2, 5, 3, 6}; /* [2,3] stored by columns, behind one more */
    int64_t shape[] = {2, 3}, strides[] = {1, 2};
    const float want[] = {2, 4, 6, 8, 10, 12}, plain[] = {2, 8, 4, 10, 6, 12};
    DLManagedTensor x = {.dl_tensor = {.data = stored,
                                       .byte_offset = 4,
                                       .device = {DL_CPU, 0},
                                       .ndim = 2,
                                       .dtype = {DL_FLOAT, 32, 1},
                                       .shape = shape,
                                       .strides = strides}};
    const uint32_t handle = pco_executable_tensor(executable, "x");
    check_ok(pco_executable_write_dlpack(executable, handle, &x, &err));
    check_ok(pco_executable_run(executable, &err));
    read_dlpack(executable, want);
    x.dl_tensor.strides = NULL; /* contiguous */
    check_ok(pco_executable_write_dlpack(executable, handle, &x, &err));
    check_ok(pco_executable_run(executable, &err));
    read_dlpack(executable, plain);
    x.dl_tensor.dtype.bits = 64;
    check_fails(pco_executable_write_dlpack(executable, handle, &x, &err), PCO_ERROR_INVALID, "must be f32");
    x.dl_tensor.dtype.bits = 32, shape[1] = 2;
    check_fails(pco_executable_write_dlpack(executable, handle, &x, &err), PCO_ERROR_INVALID,
                "another shape than [2,3]");
    shape[1] = 3, x.dl_tensor.device.device_type = 2;
    check_fails(pco_executable_write_dlpack(executable, handle, &x, &err), PCO_ERROR_UNSUPPORTED, "move it to the CPU");
    x.dl_tensor.device.device_type = DL_CPU, x.dl_tensor.data = NULL;
    check_fails(pco_executable_write_dlpack(executable, handle, &x, &err), PCO_ERROR_INVALID, "has no data");
    DLManagedTensor *made;
    check_fails(pco_executable_read_dlpack(executable, handle, &made, &err), PCO_ERROR_INVALID, "no output");
    assert_null(made);
}

static void map(pco_executable *executable, const char *device)
{
    void *x, *y;
    const float data[] = {1, 2, 3, 4, 5, 6}, want[] = {2, 4, 6, 8, 10, 12};
    pco_error why = {""};
    const pco_status status = pco_executable_map(executable, pco_executable_tensor(executable, "y"), &y, &why);
    if (strncmp(device, "cpu", 3) != 0 && status == PCO_ERROR_UNSUPPORTED) {
        assert_non_null(strstr(why.message, "cannot address"));
        return;
    }
    assert_int_equal(status, PCO_OK);
    /* both nodes read x, in one part */
    check_ok(pco_executable_map(executable, pco_executable_tensor(executable, "x"), &x, &err));
    memcpy(x, data, sizeof data);
    check_ok(pco_executable_run(executable, &err));
    assert_memory_equal(y, want, sizeof want);
    check_fails(pco_executable_map(executable, PCO_NONE, &y, &err), PCO_ERROR_INVALID, "no input");
}

/* An input where the caller has it: no copy, so that what changes there is seen, a view of it as well. */
static void lend(pco_session *session, const char *device)
{
    float memory[8] = {0, 1, 2, 3, 4, 5, 6}, *data = memory + 1; /* aligned for an element, and no more */
    const float written[6] = {7, 8, 9, 10, 11, 12};
    float y[6], z[6];
    pco_executable *executable;
    pco_graph *graph = pco_graph_create();
    const uint32_t x = pco_graph_input(graph, "x", PCO_F32, 2, (const int64_t[]){2, 3});
    pco_graph_output(graph, pco_add(graph, x, x), "y");
    pco_graph_output(graph, pco_neg(graph, pco_reshape(graph, x, 2, (const int64_t[]){3, 2})), "z");
    pco_graph_output(graph, x, "same");
    check_ok(pco_executable_create(session, graph, NULL, &executable, &err));
    pco_graph_destroy(graph);
    const uint32_t in = pco_executable_tensor(executable, "x"), to = pco_executable_tensor(executable, "y"),
                   view = pco_executable_tensor(executable, "z"), same = pco_executable_tensor(executable, "same");
    check_ok(pco_executable_write(executable, in, written, sizeof written, &err));
    pco_error why = {""};
    const pco_status status = pco_executable_lend(executable, in, data, sizeof written, &why);
    if (strncmp(device, "cpu", 3) != 0) { /* what was written is still there */
        assert_int_equal(status, PCO_ERROR_UNSUPPORTED);
        assert_non_null(strstr(why.message, "write 'x' with pco_executable_write"));
        check_ok(pco_executable_run(executable, &err));
        check_ok(pco_executable_read(executable, to, y, sizeof y, &err));
        for (int i = 0; i < 6; i++) assert_true(y[i] == 2 * written[i]);
        pco_executable_destroy(executable);
        return;
    }
    check_ok(status);
    for (int run = 0; run < 3; run++) {
        if (run == 2) check_ok(pco_executable_write(executable, in, written, sizeof written, &err));
        check_ok(pco_executable_run(executable, &err));
        const float *want = run < 2 ? data : written;
        check_ok(pco_executable_read(executable, to, y, sizeof y, &err));
        check_ok(pco_executable_read(executable, view, z, sizeof z, &err));
        for (int i = 0; i < 6; i++) assert_true(y[i] == 2 * want[i] && z[i] == -want[i]);
        check_ok(pco_executable_read(executable, same, y, sizeof y, &err));
        assert_memory_equal(y, want, sizeof y);
        for (int i = 0; i < 6; i++) data[i] = (float)(run + 2) * (float)(i + 1); /* no node has written there */
    }
    check_fails(pco_executable_lend(executable, in, data, 20, &err), PCO_ERROR_INVALID, "'x' has 24 bytes, not 20");
    check_fails(pco_executable_lend(executable, in, (char *)data + 1, 24, &err), PCO_ERROR_INVALID, "not aligned to 4");
    check_fails(pco_executable_lend(executable, to, data, 24, &err), PCO_ERROR_INVALID, "'y' is no input");
    check_ok(pco_executable_lend(executable, in, data, 24, &err));
    check_ok(pco_executable_lend(executable, in, NULL, 0, &err));
    check_fails(pco_executable_run(executable, &err), PCO_ERROR_INVALID, "'x' was never written");
    pco_executable_destroy(executable);
}

static void time_nodes(pco_session *session)
{
    pco_node_timing timings[8] = {{.size = sizeof *timings}};
    uint32_t count = 0, named = 0;
    pco_error why;
    if (pco_session_profile(session, 1, &why) == PCO_ERROR_UNSUPPORTED) return;
    const float data[6] = {0};
    pco_executable *executable = make(session);
    check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "x"), data, sizeof data, &err));
    check_ok(pco_executable_run(executable, &err));
    check_ok(pco_executable_timings(executable, timings, 8, &count, &err));
    assert_true(count >= 3 && count <= 8);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(timings[i].size, sizeof *timings);
        assert_non_null(timings[i].node);
        assert_string_equal(timings[i].device, pco_session_device_id(session));
        named += !strcmp(timings[i].op, "exp") + !strcmp(timings[i].op, "add") + !strcmp(timings[i].op, "sub");
    }
    assert_int_equal(named, 3);
    uint32_t again;
    check_ok(pco_executable_timings(executable, NULL, 0, &again, &err));
    assert_int_equal(again, count);
    pco_executable_destroy(executable);
    check_ok(pco_session_profile(session, 0, &err));
}

static void test_devices(void **state)
{
    (void)state;
    int tested = 0;
    for (char **device = devices; *device; device++) {
        pco_session *session = open_if_there(context, *device);
        uint32_t count;
        if (!session) continue;
        tested++;
        pco_executable *executable = make(session);
        check_fails(pco_executable_timings(executable, NULL, 0, &count, &err), PCO_ERROR_INVALID, "nothing was timed");
        unwritten(session);
        dlpack(executable);
        map(executable, *device);
        lend(session, *device);
        pco_executable_destroy(executable);
        time_nodes(session);
        pco_session_close(session);
    }
    assert_true(tested);
}

int main(int argc, char **argv)
{
    (void)argc;
    devices = argv + 1;
    pco_error err = {""};
    if (pco_context_create(NULL, &context, &err)) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pco_context_destroy(context);
    return failed;
}
