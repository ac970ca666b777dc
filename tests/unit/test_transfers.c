/* Tensors that go from part to part, on the device that PORTICO_BACKEND picks with the CPU's part between two of its
 * own: over `copy` and `map` where the plugin has them, and without; and constants that need no copy (`import`). */
#define CHECK_FOLDER
#include "check_device.h"

#include "base/file.h"
#include "graph/graph.h"

#include <math.h>

enum { COUNT = 1003 };

/* What the device's plugin was asked, and its own functions. Of the CPU's, which may be the same, only `map` is. */
static struct {
    pco_device *device; /* that refuses `tanh` */
    pco_buffer_api buffer, cpu;
    pco_program_api program;
    int copies, reads, writes, imports;
    int maps, cpu_maps, hidden; /* while parts are made; hidden: buffers of the device that the host cannot address */
    uint64_t written;           /* bytes, to any device */
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
    spied.written += bytes;
    return spied.buffer.write(device, buffer, offset, data, bytes, e);
}

static void *spy_map(pco_device *device, pco_buffer *buffer)
{
    void *address = (device == spied.device ? spied.buffer.map : spied.cpu.map)(device, buffer);
    *(device == spied.device ? &spied.maps : &spied.cpu_maps) += 1;
    spied.hidden += device == spied.device && !address;
    return address;
}

static pco_status spy_import(pco_device *device, const void *data, uint64_t bytes, pco_buffer **buffer, pco_error *e)
{
    const pco_status status = spied.buffer.import(device, data, bytes, buffer, e);
    spied.imports += status == PCO_OK;
    return status;
}

static pco_status spy_no_import(pco_device *device, const void *data, uint64_t bytes, pco_buffer **buffer, pco_error *e)
{
    (void)device, (void)data, (void)bytes, (void)buffer;
    spied.imports++;
    return pco_fail(e, PCO_ERROR_UNSUPPORTED, "for a test");
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

/* Is the device's memory the host's, for certain? */
static int in_host_memory(void)
{
    return strcmp(session_plugin(&(uint32_t){0})->name, "cpu") == 0 ||
           strstr(pco_session_device(device_session)->aliases, "lavapipe");
}

/* Of the plugin that runs what the device refuses. */
static pco_plugin_tables *cpu_tables(void)
{
    const pco_plugin_entry *plugins;
    const uint32_t count = pco_registry_plugins(device_registry, &plugins);
    for (uint32_t i = 0; i < count; i++)
        if (plugins[i].plugin && strcmp(plugins[i].plugin->name, "cpu") == 0) return plugins[i].tables;
    fail_msg("there is no plugin 'cpu'");
    return NULL;
}

/* exp(x) * tanh(exp(x)): exp(x) is needed by the CPU, and again by the device. Counts what one run does. */
static void run_parts(const float *x, float *y)
{
    pco_graph *g = pco_graph_create();
    const uint32_t in = pco_graph_input(g, "x", PCO_F32, 1, (int64_t[]){COUNT}), e = pco_unary(g, PCO_OP_EXP, in);
    pco_graph_output(g, pco_binary(g, PCO_OP_MUL, pco_unary(g, PCO_OP_TANH, e), e), "y");
    pco_executable *executable;
    spied.maps = spied.cpu_maps = spied.hidden = 0;
    check_ok(pco_executable_create(device_session, g, NULL, &executable, &err));
    const int maps = spied.maps, cpu_maps = spied.cpu_maps, hidden = spied.hidden;
    assert_int_equal(pco_executable_counts(executable).parts, 3);
    assert_int_equal(pco_executable_counts(executable).cpu_nodes, 1);
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
    spied.maps = maps, spied.cpu_maps = cpu_maps, spied.hidden = hidden;
}

static void test_parts(void **state)
{
    (void)state;
    pco_plugin_tables *tables = session_plugin(&(uint32_t){0})->tables, *cpu = cpu_tables();
    spied.buffer = tables->buffer;
    spied.program = tables->program;
    spied.cpu = cpu->buffer;
    float x[COUNT], y[4][COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = (float)(i % 37 - 18) / 9;
    tables->program.supports = spy_supports;
    tables->buffer.read = spy_read;
    tables->buffer.write = spy_write;
    cpu->buffer.map = spy_map;
    for (int without = 0; without < 4; without++) {
        tables->buffer.copy = without & 1 || !spied.buffer.copy ? NULL : spy_copy;
        tables->buffer.map = without & 2 || !spied.buffer.map ? NULL : spy_map;
        run_parts(x, y[without]);
        assert_int_equal(spied.copies, tables->buffer.copy != NULL);
        /* exp(x) is read for the CPU, which may look itself, and for the device where that cannot copy */
        assert_true(spied.reads <= 1 + !tables->buffer.copy);
        assert_true(spied.writes <= 1 + !tables->buffer.copy);
        if (!tables->buffer.copy && !tables->buffer.map) assert_int_equal(spied.writes, 2);
        /* what comes from elsewhere is put into the device's memory where the host can address that */
        if (!tables->buffer.map) assert_int_equal(spied.maps, 0);
        if (tables->buffer.map) assert_true(spied.maps >= 1 + !tables->buffer.copy);
        if (tables->buffer.map && in_host_memory()) assert_int_equal(spied.hidden, 0);
        if (tables->buffer.map && !spied.hidden) assert_int_equal(spied.writes, 0);
        if (cpu->buffer.map) assert_true(spied.cpu_maps > 0); /* the CPU's always can be */
        for (int i = 0; i < COUNT; i++) {
            const double e = exp((double)x[i]);
            assert_true(fabs((double)y[without][i] - e * tanh(e)) < 1e-4 * (1 + e));
            assert_true(y[without][i] == y[0][i]);
        }
    }
    tables->buffer = spied.buffer;
    tables->program = spied.program;
    cpu->buffer.map = spied.cpu.map;
}

/* y = x + constant, in a program of the session's; the constant lies at `data`. */
static pco_executable *run_constant(pco_session *session, const float *data, const float *x)
{
    float y[COUNT];
    pco_graph *g = pco_graph_create();
    const uint32_t in = pco_graph_input(g, "x", PCO_F32, 1, (int64_t[]){COUNT});
    const uint32_t c = pco_graph_constant(g, "c", PCO_F32, 1, (int64_t[]){COUNT}, data);
    pco_graph_output(g, pco_binary(g, PCO_OP_ADD, in, c), "y");
    pco_executable *executable;
    check_ok(pco_executable_create(session, g, NULL, &executable, &err));
    pco_graph_destroy(g);
    check_ok(pco_executable_write(executable, pco_executable_tensor(executable, "x"), x, sizeof y, &err));
    check_ok(pco_executable_run(executable, &err));
    check_ok(pco_executable_read(executable, pco_executable_tensor(executable, "y"), y, sizeof y, &err));
    for (int i = 0; i < COUNT; i++) assert_true(y[i] == x[i] + data[i]);
    return executable;
}

/* Constants in memory that outlives the session are used where they are, by all programs and once; elsewhere they are
 * copied, with the same results. */
static void test_import(void **state)
{
    (void)state;
    char path[600];
    pco_map map;
    float x[COUNT], values[3 * COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = (float)(i % 61);
    for (int i = 0; i < 3 * COUNT; i++) values[i] = (float)(i % 127);
    snprintf(path, sizeof path, "%s/weights", check_folder);
    check_ok(pco_file_write(path, values, sizeof values, &err));
    check_ok(pco_map_open(path, &map, &err));
    const float *lent = (const float *)(const void *)map.data;
    pco_plugin_tables *tables = session_plugin(&(uint32_t){0})->tables;
    const int takes = in_host_memory(); /* of other drivers, some do */
    spied.buffer = tables->buffer;
    tables->buffer.write = spy_write;
    for (int way = 0; way < 3; way++) { /* imported, refused by the device, not lent */
        pco_session *session;
        tables->buffer.import = way == 1 ? spy_no_import : spied.buffer.import ? spy_import : NULL;
        check_ok(pco_registry_open(device_registry, pco_session_device_id(device_session), &session, &err));
        if (way < 2) check_ok(pco_session_lend(session, map.data, map.size, &err));
        spied.imports = 0, spied.written = 0;
        pco_executable *all[3] = {run_constant(session, lent + 64, x)};
        const uint64_t first = spied.written;
        all[1] = run_constant(session, lent + 64, x);
        all[2] = run_constant(session, lent + 1024, x);
        if (way == 1) assert_int_equal(spied.imports, 1);
        if (takes && way == 0) {
            assert_int_equal(spied.imports, 1);
            assert_true(first < 2 * sizeof x);
            assert_true(spied.written - first < 3 * sizeof x);
        } else if (way != 0) {
            assert_true(first >= 2 * sizeof x);
        }
        uint64_t held = pco_session_memory(session, NULL);
        assert_true(held >= 2 * sizeof x);
        for (int i = 0; i < 3; i++) pco_executable_destroy(all[i]);
        assert_int_equal(pco_session_memory(session, NULL), 0);
        pco_executable_destroy(run_constant(session, lent + 64, x));  /* once more, after all were gone */
        pco_executable_destroy(run_constant(session, values + 7, x)); /* not lent */
        pco_session_close(session);
    }
    tables->buffer = spied.buffer;
    pco_map_close(&map);
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

static int open_all(void **state) { return check_make_folder(state) || device_open(state); }

/* A test that fails leaves its spies behind: each begins with the plugin's own tables. */
static pco_plugin_tables own, own_cpu;

static int save_tables(void **state)
{
    (void)state;
    own = *session_plugin(&(uint32_t){0})->tables;
    own_cpu = *cpu_tables();
    return 0;
}

static int restore_tables(void **state)
{
    (void)state;
    *session_plugin(&(uint32_t){0})->tables = own;
    *cpu_tables() = own_cpu;
    return 0;
}

static int close_all(void **state) { return device_close(state) || check_remove_folder(state); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_parts, save_tables, restore_tables),
                                       cmocka_unit_test_setup_teardown(test_copy, save_tables, restore_tables),
                                       cmocka_unit_test_setup_teardown(test_import, save_tables, restore_tables)};
    setenv("PORTICO_FALLBACK", "silent", 1); /* a part on the CPU is what is tested */
    return cmocka_run_group_tests_name("transfers", tests, open_all, close_all);
}
