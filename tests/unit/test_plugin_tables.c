/* What the host takes of a plugin's tables: every function that must be there, by name; what may be missing or be left
 * out at the end; numbers of the ABI. */
#include "check.h"

#include "runtime/plugin_check.h"

#include <stddef.h>

enum { PLUGIN, DEVICE, BUFFER, PROGRAM, QUEUE, TABLES };

/* With room behind each, as a plugin has whose header knows more. */
typedef struct source {
    struct {
        pco_plugin table;
        void *more[4];
    } plugin;
    struct {
        pco_device_api table;
        void *more[4];
    } device;
    struct {
        pco_buffer_api table;
        void *more[4];
    } buffer;
    struct {
        pco_program_api table;
        void *more[4];
    } program;
    struct {
        pco_queue_api table;
        void *more[4];
    } queue;
} source;

static source from;

#define ROW(which, name, table, member, optional) \
    { \
        which, name, #member, offsetof(table, member), optional \
    }
static const struct {
    int table;
    const char *table_name, *name;
    size_t offset;
    int optional;
} FUNCTIONS[] = {
    ROW(PLUGIN, "plugin", pco_plugin, create, 0),
    ROW(PLUGIN, "plugin", pco_plugin, destroy, 0),
    ROW(PLUGIN, "plugin", pco_plugin, device_count, 0),
    ROW(PLUGIN, "plugin", pco_plugin, describe, 0),
    ROW(PLUGIN, "plugin", pco_plugin, open, 0),
    ROW(DEVICE, "device", pco_device_api, close, 0),
    ROW(DEVICE, "device", pco_device_api, memory_left, 0),
    ROW(DEVICE, "device", pco_device_api, profile, 1),
    ROW(BUFFER, "buffer", pco_buffer_api, create, 0),
    ROW(BUFFER, "buffer", pco_buffer_api, destroy, 0),
    ROW(BUFFER, "buffer", pco_buffer_api, write, 0),
    ROW(BUFFER, "buffer", pco_buffer_api, read, 0),
    ROW(BUFFER, "buffer", pco_buffer_api, copy, 1),
    ROW(BUFFER, "buffer", pco_buffer_api, map, 1),
    ROW(BUFFER, "buffer", pco_buffer_api, import, 1),
    ROW(PROGRAM, "program", pco_program_api, supports, 0),
    ROW(PROGRAM, "program", pco_program_api, variants, 1),
    ROW(PROGRAM, "program", pco_program_api, propose, 0),
    ROW(PROGRAM, "program", pco_program_api, convert, 1),
    ROW(PROGRAM, "program", pco_program_api, prepare, 0),
    ROW(PROGRAM, "program", pco_program_api, destroy, 0),
    ROW(PROGRAM, "program", pco_program_api, segments, 0),
    ROW(PROGRAM, "program", pco_program_api, timings, 1),
    ROW(PROGRAM, "program", pco_program_api, describe, 1),
    ROW(PROGRAM, "program", pco_program_api, segments_until, 1),
    ROW(PROGRAM, "program", pco_program_api, pipelines, 1),
    ROW(PROGRAM, "program", pco_program_api, tunables, 1),
    ROW(PROGRAM, "program", pco_program_api, tune, 1),
    ROW(PROGRAM, "program", pco_program_api, lend, 1),
    ROW(QUEUE, "queue", pco_queue_api, submit, 0),
    ROW(QUEUE, "queue", pco_queue_api, wait, 0),
};
enum { N_FUNCTIONS = sizeof FUNCTIONS / sizeof *FUNCTIONS };

/* Every function is there, and is called by nobody. */
static void make_sound(void)
{
    memset(&from, 0x5a, sizeof from);
    from.plugin.table.size = sizeof from.plugin.table;
    from.plugin.table.abi_version = PCO_ABI_VERSION;
    from.plugin.table.name = "sound";
    from.plugin.table.version = from.plugin.table.description = "for a test";
    from.plugin.table.device = &from.device.table;
    from.plugin.table.buffer = &from.buffer.table;
    from.plugin.table.program = &from.program.table;
    from.plugin.table.queue = &from.queue.table;
    from.device.table.size = sizeof from.device.table;
    from.buffer.table.size = sizeof from.buffer.table;
    from.program.table.size = sizeof from.program.table;
    from.queue.table.size = sizeof from.queue.table;
}

static void *source_table(int table)
{
    void *const tables[TABLES] = {&from.plugin, &from.device, &from.buffer, &from.program, &from.queue};
    return tables[table];
}

static int taken(const pco_plugin_tables *to, int i)
{
    const void *const tables[TABLES] = {&to->plugin, to->plugin.device, to->plugin.buffer, to->plugin.program,
                                        to->plugin.queue};
    void *function;
    memcpy(&function, (const char *)tables[FUNCTIONS[i].table] + FUNCTIONS[i].offset, sizeof function);
    return function != NULL;
}

static void test_missing_functions(void **state)
{
    (void)state;
    for (int i = 0; i < N_FUNCTIONS; i++) {
        pco_plugin_tables to;
        char text[128];
        make_sound();
        memset((char *)source_table(FUNCTIONS[i].table) + FUNCTIONS[i].offset, 0, sizeof(void *));
        snprintf(text, sizeof text, "its table '%s' has NULL for %s", FUNCTIONS[i].table_name, FUNCTIONS[i].name);
        if (!FUNCTIONS[i].optional) {
            check_fails(pco_plugin_adopt(&from.plugin.table, &to, &err), PCO_ERROR_ABI, text);
            continue;
        }
        check_ok(pco_plugin_adopt(&from.plugin.table, &to, &err));
        for (int k = 0; k < N_FUNCTIONS; k++) assert_int_equal(taken(&to, k), k != i);
    }
}

/* A table that ends in front of a function lacks it and all behind it. */
static void test_short_tables(void **state)
{
    (void)state;
    for (int i = 0; i < N_FUNCTIONS; i++) {
        pco_plugin_tables to;
        char text[128];
        int must = i;
        make_sound();
        const uint32_t size = (uint32_t)FUNCTIONS[i].offset;
        memcpy(source_table(FUNCTIONS[i].table), &size, sizeof size);
        while (must < N_FUNCTIONS && FUNCTIONS[must].table == FUNCTIONS[i].table && FUNCTIONS[must].optional) must++;
        if (must < N_FUNCTIONS && FUNCTIONS[must].table == FUNCTIONS[i].table) {
            snprintf(text, sizeof text, "its table '%s' ends after %u bytes, without %s", FUNCTIONS[i].table_name,
                     (unsigned)size, FUNCTIONS[must].name);
            check_fails(pco_plugin_adopt(&from.plugin.table, &to, &err), PCO_ERROR_ABI, text);
            continue;
        }
        check_ok(pco_plugin_adopt(&from.plugin.table, &to, &err));
        for (int k = 0; k < N_FUNCTIONS; k++)
            assert_int_equal(taken(&to, k), FUNCTIONS[k].table != FUNCTIONS[i].table || k < i);
    }
}

/* What a table has beyond the host's header is left alone. */
static void test_long_tables(void **state)
{
    (void)state;
    for (int table = 0; table < TABLES; table++) {
        pco_plugin_tables to[2];
        uint32_t size;
        make_sound();
        memset(to, 0, sizeof to);
        memcpy(&size, source_table(table), sizeof size);
        size += sizeof from.queue.more;
        memcpy(source_table(table), &size, sizeof size);
        check_ok(pco_plugin_adopt(&from.plugin.table, &to[0], &err));
        for (int k = 0; k < N_FUNCTIONS; k++) assert_true(taken(&to[0], k));
        for (size_t i = 0; i < sizeof to[1]; i++) assert_int_equal(((const unsigned char *)&to[1])[i], 0);
    }
}

static void test_tables_and_numbers(void **state)
{
    (void)state;
    pco_plugin_tables to;
    make_sound();
    check_ok(pco_plugin_adopt(&from.plugin.table, &to, &err));
    assert_ptr_equal(to.plugin.program, &to.program);
    check_fails(pco_plugin_adopt(NULL, &to, &err), PCO_ERROR_ABI, "does not serve");
    from.plugin.table.queue = NULL;
    check_fails(pco_plugin_adopt(&from.plugin.table, &to, &err), PCO_ERROR_ABI, "has no 'queue'");
    make_sound();
    from.plugin.table.size = offsetof(pco_plugin, buffer);
    check_fails(pco_plugin_adopt(&from.plugin.table, &to, &err), PCO_ERROR_ABI, "has no 'buffer'");
    const uint32_t others[] = {(PCO_ABI_MAJOR - 1) << 16 | 3, (PCO_ABI_MAJOR + 1) << 16, PCO_ABI_VERSION + 1};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char text[128];
        make_sound();
        from.plugin.table.abi_version = others[i];
        snprintf(text, sizeof text, "made for plugin ABI %u.%u, and this Portico has %u.%u", others[i] >> 16,
                 others[i] & 0xffff, PCO_ABI_MAJOR, PCO_ABI_MINOR);
        check_fails(pco_plugin_adopt(&from.plugin.table, &to, &err), PCO_ERROR_ABI, text);
    }
    make_sound();
    from.plugin.table.name = "Not so";
    check_fails(pco_plugin_adopt(&from.plugin.table, &to, &err), PCO_ERROR_ABI, "its name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_missing_functions), cmocka_unit_test(test_short_tables),
                                       cmocka_unit_test(test_long_tables), cmocka_unit_test(test_tables_and_numbers)};
    return cmocka_run_group_tests_name("plugin_tables", tests, NULL, NULL);
}
