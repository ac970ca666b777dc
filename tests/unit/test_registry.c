/* Plugins and devices: what cannot be used is listed with its reason, the rest works, and selections find what
 * they name. argv[1]: a folder with the bad plugins of tests/plugins. */
#include "check.h"

#include "base/file.h"
#include "runtime/registry.h"

#include <unistd.h>

static const char *bad_folder;

static pco_registry *open_registry(const char *path)
{
    pco_config config;
    pco_registry *registry = NULL;
    check_ok(pco_config_read(&config, &err));
    snprintf(config.plugin_path, sizeof config.plugin_path, "%s", path);
    config.log = PCO_LOG_ERROR;
    check_ok(pco_registry_create(&config, &registry, &err));
    return registry;
}

static const char *reason_of(const pco_registry *registry, const char *file)
{
    const pco_plugin_entry *entries;
    uint32_t count = pco_registry_plugins(registry, &entries);
    for (uint32_t i = 0; i < count; i++)
        if (strstr(entries[i].path, file)) return entries[i].reason;
    fail_msg("no plugin entry for %s", file);
    return "";
}

static void expect_word(const char *text, const char *word)
{
    if (!strstr(text, word)) fail_msg("'%s' does not say '%s'", text, word);
}

static void test_bad_plugins(void **state)
{
    (void)state;
    char path[512], text[512];
    snprintf(text, sizeof text, "%s/not-elf.so", bad_folder);
    check_ok(pco_file_write(text, "hello", 5, &err));
    snprintf(path, sizeof path, "/nonexistent:%s", bad_folder);
    pco_registry *registry = open_registry(path);
    expect_word(reason_of(registry, "not-elf.so"), "not-elf.so");
    expect_word(reason_of(registry, "bad1.so"), "ABI 2.0");
    expect_word(reason_of(registry, "bad2.so"), "crashed in the probe");
    expect_word(reason_of(registry, "bad3.so"), "pco_plugin_query");
    expect_word(reason_of(registry, "bad4.so"), "does not serve");
    assert_string_equal(reason_of(registry, "/cpu.so"), "");
    uint32_t index, count;
    check_ok(pco_registry_select(registry, "cpu:native", &index, 1, &count, &err));
    pco_registry_destroy(registry);
    unlink(text);
}

static void test_selection(void **state)
{
    (void)state;
    pco_registry *registry = open_registry("");
    const pco_device_entry *devices;
    uint32_t n = pco_registry_devices(registry, &devices), index[16], count;
    assert_true(n >= 2);
    check_ok(pco_registry_select(registry, "cpu:0", index, 16, &count, &err));
    assert_int_equal(count, 1);
    uint32_t zero = index[0];
    check_ok(pco_registry_select(registry, "CPU:Native", index, 16, &count, &err));
    assert_int_equal(count, 1);
    assert_int_equal(index[0], zero);
    check_ok(pco_registry_select(registry, "nothing:9,cpu:reference,cpu", index, 16, &count, &err));
    assert_int_equal(count, 2);
    assert_string_equal(devices[index[0]].id, "cpu:1");
    check_ok(pco_registry_select(registry, "all", index, 16, &count, &err));
    assert_int_equal(count, n - 1); /* without null:0 */
    check_ok(pco_registry_select(registry, NULL, index, 16, &count, &err));
    assert_true(devices[index[0]].info.type != PCO_DEVICE_SOFTWARE);
    check_fails(pco_registry_select(registry, "warp:9", index, 16, &count, &err), PCO_ERROR_NOT_FOUND, "cpu:0");
    check_fails(pco_registry_select(registry, "cpu:7", index, 16, &count, &err), PCO_ERROR_NOT_FOUND, "cpu:7");
    check_fails(pco_registry_select(registry, "cpu:0+cpu:1", index, 16, &count, &err), PCO_ERROR_UNSUPPORTED, "+");
    pco_registry_destroy(registry);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_registry FOLDER\n");
        return 2;
    }
    bad_folder = argv[1];
    setenv("PORTICO_CACHE_DIR", "", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bad_plugins), cmocka_unit_test(test_selection)};
    return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
