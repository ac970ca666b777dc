/* Plugins and devices: what cannot be used is listed with its reason, the rest works, and selections find what
 * they name. argv[1]: a folder with the bad plugins of tests/plugins; argv[2]: one with plugins of CPU devices. */
#define CHECK_FOLDER
#include "check.h"

#include "base/file.h"
#include "runtime/registry.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *bad_folder, *cpu_folder;
static pco_self_test self_test;
static uint32_t probe_seconds = 30;

/* The warnings of a registry, one behind the other. */
static char lines[4000];

static void keep_line(void *user, pco_log_level level, const char *line)
{
    (void)user;
    if (level <= PCO_LOG_WARNING) strncat(lines, line, sizeof lines - strlen(lines) - 1);
}

/* `backend`: what PORTICO_BACKEND says. */
static pco_registry *open_registry_for(const char *path, const char *backend, const char *asked)
{
    lines[0] = 0;
    pco_config config;
    pco_registry *registry = NULL;
    check_ok(pco_config_read(&config, &err));
    snprintf(config.plugin_path, sizeof config.plugin_path, "%s", path);
    snprintf(config.backend, sizeof config.backend, "%s", backend);
    config.log = PCO_LOG_WARNING;
    snprintf(config.cache_dir, sizeof config.cache_dir, "%s/cache", check_folder);
    config.log_fn = keep_line;
    config.self_test = self_test;
    config.probe_seconds = probe_seconds;
    check_ok(pco_registry_create_for(&config, asked, &registry, &err));
    return registry;
}

static pco_registry *open_registry(const char *path) { return open_registry_for(path, "", NULL); }

static const pco_plugin_entry *entry_of(const pco_registry *registry, const char *file)
{
    const pco_plugin_entry *entries;
    uint32_t count = pco_registry_plugins(registry, &entries);
    for (uint32_t i = 0; i < count; i++)
        if (strstr(entries[i].path, file)) return &entries[i];
    return NULL;
}

static const char *reason_of(const pco_registry *registry, const char *file)
{
    const pco_plugin_entry *entry = entry_of(registry, file);
    if (!entry) fail_msg("no plugin entry for %s", file);
    return entry->reason;
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
    snprintf(text, sizeof text, "made for plugin ABI 3.0, and this Portico has %u.%u", PCO_ABI_MAJOR, PCO_ABI_MINOR);
    expect_word(reason_of(registry, "bad1.so"), text);
    snprintf(text, sizeof text, "made for plugin ABI 1.3, and this Portico has %u.%u", PCO_ABI_MAJOR, PCO_ABI_MINOR);
    expect_word(reason_of(registry, "bad13.so"), text);
    expect_word(reason_of(registry, "bad2.so"), "crashed in the probe");
    expect_word(reason_of(registry, "bad3.so"), "pco_plugin_query");
    expect_word(reason_of(registry, "bad4.so"), "does not serve");
    expect_word(reason_of(registry, "bad8.so"), "'buffer' has NULL for write");
    expect_word(reason_of(registry, "bad9.so"), "device 0: its buffer_alignment is 3");
    expect_word(reason_of(registry, "bad10.so"), "device 0: its driver does not end");
    expect_word(reason_of(registry, "bad11.so"), "device 0: its max_allocation is 0");
    expect_word(reason_of(registry, "bad12.so"), "device 0: its contract's function_ulp is -1");
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
    assert_int_equal(count, n);
    check_ok(pco_registry_select(registry, NULL, index, 16, &count, &err));
    assert_true(devices[index[0]].info.type != PCO_DEVICE_SOFTWARE);
    check_fails(pco_registry_select(registry, "warp:9", index, 16, &count, &err), PCO_ERROR_NOT_FOUND, "cpu:0");
    check_fails(pco_registry_select(registry, "cpu:7", index, 16, &count, &err), PCO_ERROR_NOT_FOUND, "cpu:7");
    check_fails(pco_registry_select(registry, "cpu:0+cpu:1", index, 16, &count, &err), PCO_ERROR_UNSUPPORTED, "+");
    pco_registry_destroy(registry);
}

/* Devices of type CPU and OTHER that the path adds are used when they are named, and only then. */
static void test_default(void **state)
{
    (void)state;
    const pco_device_entry *devices;
    const pco_plugin_entry *plugins;
    const char *folders[] = {cpu_folder, bad_folder}, *names[] = {"sound:0", "other:0"};
    for (int i = 0; i < 2; i++) {
        uint32_t index[64], count;
        pco_registry *registry = open_registry(folders[i]);
        pco_registry_devices(registry, &devices);
        pco_registry_plugins(registry, &plugins);
        check_ok(pco_registry_select(registry, names[i], index, 64, &count, &err));
        assert_string_equal(devices[index[0]].id, names[i]);
        check_ok(pco_registry_select(registry, NULL, index, 64, &count, &err));
        for (uint32_t k = 0; k < count; k++)
            if (devices[index[k]].info.type == PCO_DEVICE_CPU || devices[index[k]].info.type == PCO_DEVICE_OTHER)
                assert_false(plugins[devices[index[k]].plugin].on_path);
        pco_registry_destroy(registry);
    }
}

/* The skeleton loads where somebody compiles it, and is not among what Portico brings. */
static void test_skeleton(void **state)
{
    (void)state;
    uint32_t index, count;
    pco_registry *registry = open_registry(bad_folder);
    check_ok(pco_registry_select(registry, "null:0", &index, 1, &count, &err));
    pco_registry_destroy(registry);
    registry = open_registry("");
    check_fails(pco_registry_select(registry, "null:0", &index, 1, &count, &err), PCO_ERROR_NOT_FOUND, "null:0");
    pco_registry_destroy(registry);
}

static void copy_plugin(const char *to)
{
    char from[512];
    pco_map map;
    snprintf(from, sizeof from, "%s/bad5.so", bad_folder);
    check_ok(pco_map_open(from, &map, &err));
    check_ok(pco_file_write(to, map.data, map.size, &err));
    pco_map_close(&map);
}

/* What others can write is not run: the folder, the file, the file behind a link. */
static void test_writable_by_others(void **state)
{
    (void)state;
    char file[512], link[512], folder[512], inner[512];
    snprintf(folder, sizeof folder, "%s/linked", check_folder);
    snprintf(file, sizeof file, "%s/mine.so", check_folder);
    snprintf(inner, sizeof inner, "%s/linked/inner.so", check_folder);
    snprintf(link, sizeof link, "%s/link.so", check_folder);
    assert_int_equal(mkdir(folder, 0755), 0);
    copy_plugin(file);
    copy_plugin(inner);
    assert_int_equal(symlink(inner, link), 0);
    const struct {
        const char *path, *refused; /* what is opened to others, and the file that is not used then */
        mode_t mode;
    } cases[] = {
        {file, "mine.so", 0664}, {file, "mine.so", 0646}, {inner, "inner.so", 0666}, {folder, "inner.so", 0775}};
    /* Of a build with umask 002 the group is trusted: it may write the program itself. */
    struct stat self;
    assert_int_equal(stat("/proc/self/exe", &self), 0);
    const mode_t more = self.st_mode & S_IWGRP ? S_IWOTH : 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stat before;
        assert_int_equal(stat(cases[i].path, &before), 0);
        assert_int_equal(chmod(cases[i].path, cases[i].mode | more), 0);
        pco_registry *registry = open_registry(check_folder);
        expect_word(reason_of(registry, cases[i].refused), "written by others");
        expect_word(lines, "written by others");
        pco_registry_destroy(registry);
        assert_int_equal(chmod(cases[i].path, before.st_mode & 07777), 0);
    }
    assert_int_equal(chmod(check_folder, 0777), 0);
    pco_registry *registry = open_registry(check_folder);
    assert_null(entry_of(registry, "mine.so"));
    expect_word(lines, "a folder of plugins is not used");
    pco_registry_destroy(registry);
    assert_int_equal(chmod(check_folder, 0700), 0);
    if (geteuid() == 0 && chown(file, 12345, 0) == 0) { /* root of a user namespace may not have that user */
        registry = open_registry(check_folder);
        expect_word(reason_of(registry, "mine.so"), "belongs to user 12345");
        pco_registry_destroy(registry);
        assert_int_equal(chown(file, 0, 0), 0);
    }
    registry = open_registry(check_folder);
    assert_string_equal(lines, "");
    assert_true(entry_of(registry, "inner.so")->plugin || entry_of(registry, "mine.so")->plugin);
    pco_registry_destroy(registry);
    unlink(link);
    unlink(file);
}

/* Another plugin of the same name, size and time is another plugin. */
static void test_replaced(void **state)
{
    (void)state;
    char file[512];
    uint64_t identity[2];
    snprintf(file, sizeof file, "%s/same.so", check_folder);
    copy_plugin(file);
    for (int i = 0; i < 2; i++) {
        struct stat st;
        assert_int_equal(stat(file, &st), 0);
        pco_registry *registry = open_registry(check_folder);
        identity[i] = entry_of(registry, "same.so")->identity;
        pco_registry_destroy(registry);
        const int fd = open(file, O_WRONLY);
        assert_int_equal(pwrite(fd, "x", 1, st.st_size - 1), 1);
        assert_int_equal(futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}), 0);
        close(fd);
    }
    assert_int_not_equal(identity[0], identity[1]);
    unlink(file);
}

/* A crash or a hang in the probe is paid for once: the second start knows, and says how it is tried again. */
static void test_probe_is_kept(void **state)
{
    (void)state;
    static const struct {
        const char *file, *says;
        int kept;
    } plugins[] = {{"bad2.so", "it crashed in the probe (Aborted)", 1},
                   {"stuck/bad6.so", "it did not answer the probe within 2 s", 1},
                   {"stuck/bad7.so", "its probe was ended from outside (Killed)", 0},
                   {"bad3.so", "pco_plugin_query", 0}};
    char folder[100], from[512], to[120];
    pco_map map;
    probe_seconds = 2; /* what else there is was probed before */
    snprintf(folder, sizeof folder, "%s/kept", check_folder);
    assert_int_equal(mkdir(folder, 0755), 0);
    snprintf(to, sizeof to, "%s/it.so", folder);
    for (size_t i = 0; i < sizeof plugins / sizeof *plugins; i++) {
        snprintf(from, sizeof from, "%s/%s", bad_folder, plugins[i].file);
        check_ok(pco_map_open(from, &map, &err));
        check_ok(pco_file_write(to, map.data, map.size, &err));
        for (int start = 0; start < 5; start++) {
            /* the third looks whatever is known; before the fifth the file changes */
            self_test = start == 2 ? PCO_SELF_TEST_ALWAYS : PCO_SELF_TEST_ON;
            if (start == 4) {
                char *other = malloc(map.size + 1);
                assert_non_null(other);
                memcpy(other, map.data, map.size);
                other[map.size] = 'x';
                check_ok(pco_file_write(to, other, map.size + 1, &err));
                free(other);
            }
            pco_registry *registry = open_registry(folder);
            const int known = plugins[i].kept && (start == 1 || start == 3);
            expect_word(reason_of(registry, "it.so"), plugins[i].says);
            if (known) expect_word(reason_of(registry, "it.so"), "at an earlier start; PORTICO_SELF_TEST=always tries");
            if (!known) assert_null(strstr(reason_of(registry, "it.so"), "earlier"));
            if (!known && plugins[i].kept) expect_word(lines, "is not tried again before it or a driver has changed");
            if (known) assert_null(strstr(lines, "is not used"));
            pco_registry_destroy(registry);
        }
        pco_map_close(&map);
    }
    self_test = PCO_SELF_TEST_ON;
    probe_seconds = 30;
}

/* Of our own folder, who names plugins gets these and the CPU's; what is on the path is always looked at. */
static void test_asked(void **state)
{
    (void)state;
    /* `all`: every plugin is looked at, since the selection names none, or one that is not there. */
    static const struct {
        const char *asked, *backend;
        int all;
    } cases[] = {
        {"cpu:native", "", 0}, {"CPU", "", 0},           {"cpu:0+cpu:1", "", 0}, {"cpu:reference,cpu:native", "", 0},
        {"sound", "", 0},      {"sound:0,cpu", "", 0},   {"cpu", "all", 0},      {"", "cpu:native", 0},
        {"", "", 1},           {"", "suond", 1},         {NULL, "cpu", 1},       {"all", "cpu", 1},
        {"suond", "", 1},      {"cpu,nothing:0", "", 1}, {"cp", "", 1}};
    pco_registry *whole = open_registry(cpu_folder);
    const pco_plugin_entry *entries;
    const pco_device_entry *devices;
    const uint32_t n_plugins = pco_registry_plugins(whole, &entries), n_devices = pco_registry_devices(whole, &devices);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pco_registry *registry = open_registry_for(cpu_folder, cases[i].backend, cases[i].asked);
        const int others = entry_of(registry, "/vulkan.so") || entry_of(registry, "/opencl.so");
        const int there = entry_of(whole, "/vulkan.so") || entry_of(whole, "/opencl.so");
        if (others != (cases[i].all && there)) fail_msg("case %zu loads %s", i, others ? "others" : "too few");
        assert_non_null(entry_of(registry, "/cpu.so"));
        assert_non_null(entry_of(registry, "/sound.so"));
        int found = -1;
        check_ok(pco_registry_complete(registry, &found, &err));
        assert_int_equal(found, there && !cases[i].all);
        assert_int_equal(pco_registry_plugins(registry, &entries), n_plugins);
        assert_int_equal(pco_registry_devices(registry, &devices), n_devices);
        check_ok(pco_registry_complete(registry, &found, &err));
        assert_int_equal(found, 0);
        pco_registry_destroy(registry);
    }
    pco_registry_destroy(whole);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: test_registry FOLDER FOLDER\n");
        return 2;
    }
    bad_folder = argv[1];
    cpu_folder = argv[2];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bad_plugins),
                                       cmocka_unit_test(test_selection),
                                       cmocka_unit_test(test_default),
                                       cmocka_unit_test(test_skeleton),
                                       cmocka_unit_test(test_writable_by_others),
                                       cmocka_unit_test(test_replaced),
                                       cmocka_unit_test(test_probe_is_kept),
                                       cmocka_unit_test(test_asked)};
    return cmocka_run_group_tests_name("registry", tests, check_make_folder, check_remove_folder);
}
