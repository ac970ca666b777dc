/* Tensors that go from part to part, on the device that PORTICO_BACKEND picks with the CPU's part between two of its
 * own: over `copy` and `map` where the plugin has them, and without. */
#include "check_device.h"

#include "graph/build.h"

#include <math.h>

enum { COUNT = 1003 };

/* What the device's plugin was asked, and its own functions. The CPU's is left alone, unless it is the same. */
static struct {
    pco_device *device; /* that refuses `tanh` */
    pco_buffer_api buffer;
    pco_program_api program;
    int copies, reads, writes;
} spied;

static pco_status spy_supports(pco_device *device, const pco_part *part, uint32_t node, pco_error *e)
{
    if (!spied.device) spied.device = device; /* the session asks its first device first */
    if (device == spied.device && part->nodes[node].op == PCO_OP_TANH)
        return pco_fail(e, PCO_ERROR_UNSUPPORTED, "for a test");
    return spied.program.supports(device, part, node, e);
}

static pco_status spy_copy(pco_device *device, pco_buffer *from, uint64_t from_offset, pco_buffer *to,
                           uint64_t to_offset, uint64_t bytes, pco_error *e)
{
    spied.copies++;
    return spied.buffer.copy(device, from, from_offset, to, to_offset, bytes, e);
}

static pco_status spy_read(pco_device *device, pco_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                           pco_error *e)
{
    spied.reads += device == spied.device;
    return spied.buffer.read(device, buffer, offset, data, bytes, e);
}

static pco_status spy_write(pco_device *device, pco_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                            pco_error *e)
{
    spied.writes += device == spied.device;
    return spied.buffer.write(device, buffer, offset, data, bytes, e);
}

/* The plugin of the session's device, which is its device *index. */
static const pco_plugin_entry *session_plugin(uint32_t *index)
{
    const pco_plugin_entry *plugins;
    const pco_device_entry *devices;
    uint32_t device, count;
    pco_registry_plugins(device_registry, &plugins);
    pco_registry_devices(device_registry, &devices);
    check_ok(pco_registry_select(device_registry, pco_session_device_id(device_session), &device, 1, &count, &err));
    *index = devices[device].index;
    return &plugins[devices[device].plugin];
}

/* exp(x) * tanh(exp(x)): exp(x) is needed by the CPU, and again by the device. Counts what one run does. */
static void run_parts(const float *x, float *y)
{
    pco_graph *g = pco_graph_create();
    const uint32_t in = pco_graph_input(g, "x", PCO_F32, 1, (int64_t[]){COUNT}), e = pco_unary(g, PCO_OP_EXP, in);
    pco_graph_output(g, pco_binary(g, PCO_OP_MUL, pco_unary(g, PCO_OP_TANH, e), e), "y");
    pco_executable *executable;
    check_ok(pco_executable_create(device_session, g, NULL, &executable, &err));
    assert_int_equal(pco_executable_inspect(executable).parts, 3);
    assert_int_equal(pco_executable_inspect(executable).cpu_nodes, 1);
    check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "x"), x, COUNT * sizeof *x, &err));
    for (int run = 0; run < 2; run++) {
        spied.copies = spied.reads = spied.writes = 0;
        check_ok(pco_executable_run(executable, &err));
    }
    const int copies = spied.copies, reads = spied.reads, writes = spied.writes;
    check_ok(pco_executable_read(executable, pco_executable_tensor(executable, "y"), y, COUNT * sizeof *y, &err));
    pco_executable_destroy(executable);
    pco_graph_destroy(g);
    spied.copies = copies, spied.reads = reads, spied.writes = writes;
}

static void test_parts(void **state)
{
    (void)state;
    pco_plugin_tables *tables = session_plugin(&(uint32_t){0})->tables;
    spied.buffer = tables->buffer;
    spied.program = tables->program;
    float x[COUNT], y[4][COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = (float)(i % 37 - 18) / 9;
    tables->program.supports = spy_supports;
    tables->buffer.read = spy_read;
    tables->buffer.write = spy_write;
    for (int without = 0; without < 4; without++) {
        tables->buffer.copy = without & 1 || !spied.buffer.copy ? NULL : spy_copy;
        tables->buffer.map = without & 2 ? NULL : spied.buffer.map;
        run_parts(x, y[without]);
        assert_int_equal(spied.copies, tables->buffer.copy != NULL);
        /* exp(x) is read for the CPU, which may look itself, and for the device where that cannot copy */
        assert_true(spied.reads <= 1 + !tables->buffer.copy);
        assert_true(spied.writes <= 1 + !tables->buffer.copy);
        if (!tables->buffer.copy && !tables->buffer.map) assert_int_equal(spied.writes, 2);
        for (int i = 0; i < COUNT; i++) {
            const double e = exp((double)x[i]);
            assert_true(fabs((double)y[without][i] - e * tanh(e)) < 1e-4 * (1 + e));
            assert_true(y[without][i] == y[0][i]);
        }
    }
    tables->buffer = spied.buffer;
    tables->program = spied.program;
}

/* Any bytes from any offset to any other, and back. */
static void test_copy(void **state)
{
    (void)state;
    uint32_t index;
    const pco_plugin_entry *entry = session_plugin(&index);
    const pco_buffer_api *api = entry->plugin->buffer;
    if (!api->copy) skip();
    pco_device *device;
    check_ok(entry->plugin->open(entry->backend, index, &device, &err));
    static const uint32_t usages[] = {PCO_USAGE_DEVICE, PCO_USAGE_UPLOAD, PCO_USAGE_READBACK};
    unsigned char put[512], got[512];
    for (int i = 0; i < 512; i++) put[i] = (unsigned char)(i * 7 + 1);
    for (int u = 0; u < 9; u++) {
        pco_buffer *from, *to;
        check_ok(api->create(device, sizeof put, usages[u / 3], &from, &err));
        check_ok(api->create(device, sizeof put, usages[u % 3], &to, &err));
        for (uint32_t at = 0; at < 6; at++) {
            const uint64_t bytes = 301 + 4 * at, begin = 3 * at, end = 100 - 5 * at;
            memset(got, 0, sizeof got);
            check_ok(api->write(device, from, 0, put, sizeof put, &err));
            check_ok(api->write(device, to, 0, got, sizeof got, &err));
            check_ok(api->copy(device, from, begin, to, end, bytes, &err));
            check_ok(api->read(device, to, 0, got, sizeof got, &err));
            for (uint64_t i = 0; i < sizeof got; i++)
                assert_int_equal(got[i], i >= end && i < end + bytes ? put[i - end + begin] : 0);
        }
        check_fails(api->copy(device, from, 0, to, 400, 200, &err), PCO_ERROR_INVALID, "");
        const unsigned char *address = api->map ? api->map(device, to) : NULL;
        if (address) assert_memory_equal(address, got, sizeof got);
        api->destroy(device, from);
        api->destroy(device, to);
    }
    entry->plugin->device->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts), cmocka_unit_test(test_copy)};
    return cmocka_run_group_tests_name("transfers", tests, device_open, device_close);
}
