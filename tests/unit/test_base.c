/* The base: files written whole, the cache and its checksum, the thread pool, the environment. */
#define CHECK_FOLDER
#include "check.h"

#include "base/env.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/printable.h"
#include "base/sha256.h"
#include "base/suggest.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "runtime/cache.h"
#include "runtime/marker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The linker takes this one: a file system without locks. */
static int no_locks;
int flock(int fd, int operation)
{
    errno = ENOLCK;
    return no_locks ? -1 : (int)syscall(SYS_flock, fd, operation);
}

/* Eight bytes at a time are read as one by one: each byte in each place of them, whatever room there is. */
static void test_printable_eights(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++)
        for (size_t place = 0; place < 19; place++) {
            char text[19] = "~ plain ASCII only", next[4 * PCO_PRINTABLE_MOST], out[40], expected[40];
            size_t used = 0;
            text[18] = '~';
            text[place] = (char)byte;
            for (size_t at = 0, taken; at < sizeof text; at += taken) {
                const size_t length = pco_printable_next(text + at, sizeof text - at, next, &taken);
                memcpy(expected + used, next, length);
                used += length;
            }
            expected[used] = 0;
            assert_string_equal(pco_printable(text, sizeof text, out, sizeof out), expected);
            const size_t room = 1 + (place + (size_t)byte) % 19;
            assert_true(strlen(pco_printable(text, sizeof text, out, room)) < room);
            assert_memory_equal(out, expected, strlen(out));
            assert_true(strlen(out) + 2 * PCO_PRINTABLE_MOST > room);
            assert_int_equal(pco_utf8_check(text, sizeof text), byte < 0x80 ? sizeof text : place);
        }
}

static void test_printable(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } cases[] = {{"plain, gr\xC3\xBC\xC3\x9F\xE2\x96\x81\xF0\x9F\x98\x80",
                  "plain, gr\xC3\xBC\xC3\x9F\xE2\x96\x81\xF0\x9F\x98\x80"},
                 {"a\x1b[2J\x7F\n\r\t\x01", "a\\x1b[2J\\x7f\\n\\r\\t\\x01"},
                 {"\xC2\x9B"
                  "31m",
                  "\\u009b31m"},                                          /* CSI as one character */
                 {"\xE2\x80\xAE\xE2\x81\xA6", "\\u202e\\u2066"},          /* turns the direction of what follows */
                 {"\xF3\xA0\x81\x81", "\\U000e0041"},                     /* a tag, which nothing shows */
                 {"\xFF\xC3(\xED\xA0\x80", "\\xff\\xc3(\\xed\\xa0\\x80"}, /* no UTF-8; a surrogate */
                 {"", ""}};
    char out[100];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(pco_printable(cases[i].text, strlen(cases[i].text), out, sizeof out), cases[i].shown);
        snprintf(out, sizeof out, "%s", cases[i].text);
        pco_printable_line(out, sizeof out);
        assert_string_equal(out, cases[i].shown);
    }
    assert_string_equal(pco_printable("ab\nc", 4, out, 4), "ab"); /* no half escape */
    assert_string_equal(pco_printable("ab\xC3\xBC", 4, out, 4), "ab");
    memset(out, 'x', sizeof out);
    pco_printable_line(out, 8);
    assert_string_equal(out, "xxxxxxx");
    /* each message and each line of the log goes through it */
    pco_error error;
    pco_fail(&error, PCO_ERROR_IO, "%s", "no\x1b[31m");
    assert_string_equal(error.message, "no\\x1b[31m");
    snprintf(error.message, sizeof error.message, "a\nb"); /* from a plugin */
    pco_fail_prefix(&error, PCO_ERROR_IO, "%s", "where");
    assert_string_equal(error.message, "where: a\\nb");
    /* a long path takes neither the reason nor what stands in front of it away */
    char path[4000], end[64];
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = 0;
    for (int prefix = 0; prefix < 2; prefix++) {
        if (prefix)
            pco_fail_prefix(&error, PCO_ERROR_IO, "begin %s", path);
        else
            pco_fail(&error, PCO_ERROR_IO, "begin %s: the reason", path);
        assert_int_equal(strlen(error.message), sizeof error.message - 1);
        assert_memory_equal(error.message, "begin ppp", 9);
        snprintf(end, sizeof end, "%s", error.message + strlen(error.message) - 15);
        assert_string_equal(end, "ppp: the reason");
    }
}

/* What a library opens to keep has a number that is nobody's, also in a process that closed 0 to 2. */
static void test_descriptors(void **state)
{
    (void)state;
    const int before = dup(STDIN_FILENO);
    close(STDIN_FILENO);
    const int low = open("/dev/null", O_RDONLY), high = pco_fd_above(low), flags = fcntl(high, F_GETFD);
    const int still = fcntl(STDIN_FILENO, F_GETFD);
    dup2(before, STDIN_FILENO);
    close(before);
    assert_int_equal(low, STDIN_FILENO);
    assert_true(high > STDERR_FILENO && flags >= 0 && flags & FD_CLOEXEC);
    assert_int_equal(still, -1);
    close(high);
    assert_int_equal(pco_fd_above(-1), -1);
}

static void test_lock(void **state)
{
    (void)state;
    char path[100], says[100];
    pco_lock first = {0}, second = {0};
    struct stat st;
    snprintf(path, sizeof path, "%s/lock", check_folder);
    check_ok(pco_lock_take(&first, path, &err));
    snprintf(says, sizeof says, "process %ld on ", (long)getpid());
    check_fails(pco_lock_take(&second, path, &err), PCO_ERROR_INVALID, says);
    pco_lock_release(&second); /* not held: nothing happens to the first */
    check_fails(pco_lock_take(&second, path, &err), PCO_ERROR_INVALID, says);
    pco_lock_release(&first);
    assert_int_equal(stat(path, &st), -1);
    check_ok(pco_file_write(path, "\033[2Jsomebody\n", 13, &err)); /* a process that is gone left it */
    check_ok(pco_lock_take(&second, path, &err));
    pco_lock_release(&second);
    no_locks = 1;
    check_fails(pco_lock_take(&first, path, &err), PCO_ERROR_UNSUPPORTED, "cannot be locked: No locks available");
    no_locks = 0;
    check_ok(pco_lock_take(&first, path, &err));
    pco_lock_release(&first);
    check_fails(pco_lock_take(&first, "/nonexistent/lock", &err), PCO_ERROR_IO, "/nonexistent/lock");
}

static void test_file(void **state)
{
    (void)state;
    char path[100];
    pco_map map;
    snprintf(path, sizeof path, "%s/file", check_folder);
    check_ok(pco_file_write(path, "hello", 5, &err));
    check_ok(pco_map_open(path, &map, &err));
    assert_int_equal(map.size, 5);
    assert_memory_equal(map.data, "hello", 5);
    pco_map_close(&map);
    snprintf(path, sizeof path, "%s/missing/model", check_folder);
    check_fails(pco_map_open(path, &map, &err), PCO_ERROR_IO, path);
    check_fails(pco_map_open(check_folder, &map, &err), PCO_ERROR_IO, "not a regular file");
    check_fails(pco_file_write(path, "x", 1, &err), PCO_ERROR_IO, path);
}

/* In place of the C library's, for whatever this program links: counts folders that are synced, and what the file in
 * it was at that moment. */
static int synced_folders;
static char synced_seen[16];

int fsync(int fd)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        int file = openat(fd, "synced", O_RDONLY);
        synced_folders++;
        if (file >= 0) {
            ssize_t size = read(file, synced_seen, sizeof synced_seen - 1);
            synced_seen[size > 0 ? size : 0] = 0;
            close(file);
        }
    }
    return (int)syscall(SYS_fsync, fd);
}

static void test_file_is_durable(void **state)
{
    (void)state;
    char path[100];
    snprintf(path, sizeof path, "%s/synced", check_folder);
    check_ok(pco_file_write(path, "old", 3, &err));
    synced_folders = 0;
    check_ok(pco_file_write(path, "new", 3, &err));
    assert_int_equal(synced_folders, 1);
    assert_string_equal(synced_seen, "new"); /* after the rename */
}

/* What a killed process left of this file is removed; what another one is writing, and all else, stays. */
static void test_file_left(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int stays;
    } files[] = {
        {"left.portico-abC123", 0},  {"left.portico-Locked", 1},  {"left.backup", 1},
        {"left.portico-abc12", 1},   {"left.portico-abc1234", 1}, {"left.portico-ab.123", 1},
        {"other.portico-abc123", 1}, {"xleft.portico-abc123", 1},
    };
    char path[100];
    int held = -1;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", check_folder, files[i].name);
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0);
        if (strstr(path, "Locked")) {
            assert_int_equal(flock(held = fd, LOCK_EX), 0);
        } else {
            close(fd);
        }
    }
    snprintf(path, sizeof path, "%s/left.portico-folder", check_folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/left", check_folder);
    check_ok(pco_file_write(path, "x", 1, &err));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", check_folder, files[i].name);
        if ((access(path, F_OK) == 0) != files[i].stays)
            fail_msg("%s %s", files[i].name, files[i].stays ? "was removed" : "is still there");
    }
    snprintf(path, sizeof path, "%s/left.portico-folder", check_folder);
    assert_int_equal(access(path, F_OK), 0);
    close(held);
}

/* The examples of FIPS 180-4 and its test vectors: none, one and two blocks, a million bytes, odd portions.
 */
static void test_sha256(void **state)
{
    (void)state;
    static const struct {
        const char *text, *digest;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
         "mnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    pco_sha256 sha;
    char digest[PCO_SHA256_TEXT], many[1000];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pco_sha256_start(&sha);
        pco_sha256_add(&sha, cases[i].text, strlen(cases[i].text));
        pco_sha256_finish_text(&sha, digest);
        assert_string_equal(digest, cases[i].digest);
    }
    memset(many, 'a', sizeof many);
    for (size_t portion = 1; portion <= 1000; portion = portion * 3 + 1) {
        pco_sha256_start(&sha);
        for (size_t done = 0; done < 1000000; done += portion)
            pco_sha256_add(&sha, many, done + portion > 1000000 ? 1000000 - done : portion);
        pco_sha256_finish_text(&sha, digest);
        assert_string_equal(digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}

static void test_cache(void **state)
{
    (void)state;
    char dir[100], path[120];
    void *data;
    size_t bytes;
    snprintf(dir, sizeof dir, "%s/deep/cache", check_folder);
    snprintf(path, sizeof path, "%s/blob-1", dir);
    check_ok(pco_cache_store(dir, "blob-1", "abc", 3, &err));
    assert_int_equal(pco_cache_load(dir, "blob-1", &data, &bytes), PCO_OK);
    assert_int_equal(bytes, 3);
    assert_memory_equal(data, "abc", 3);
    free(data);
    FILE *file = fopen(path, "r+b"); /* damage the last byte */
    fseek(file, -1, SEEK_END);
    fputc('x', file);
    fclose(file);
    assert_int_equal(pco_cache_load(dir, "blob-1", &data, &bytes), PCO_ERROR_NOT_FOUND);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(pco_cache_store(dir, "../escape", "abc", 3, NULL), PCO_ERROR_NOT_FOUND);
    assert_int_equal(pco_cache_load("", "blob-1", &data, &bytes), PCO_ERROR_NOT_FOUND);
}

typedef struct loop {
    atomic_int counts[10007];
    atomic_int in_use[8];
    atomic_int clashes;
} loop;

static void loop_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    loop *l = task;
    if (atomic_fetch_add(&l->in_use[worker], 1)) atomic_fetch_add(&l->clashes, 1);
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&l->counts[i], 1);
    atomic_fetch_sub(&l->in_use[worker], 1);
}

/* A marker of a process that lives is not taken; of one that is gone it is, once. */
static void keep_text(void *user, const char *text) { strcat(user, text); }

static void test_marker(void **state)
{
    (void)state;
    char dir[100], text[1000] = "";
    int ready[2], stop[2];
    pco_marker own;
    snprintf(dir, sizeof dir, "%s/markers", check_folder);
    assert_int_equal(pipe(ready) + pipe(stop), 0);
    const pid_t child = fork();
    if (child == 0) {
        pco_marker marker;
        char byte = 0;
        close(stop[1]);
        pco_marker_set(&marker, dir, "testing-1", "op 'x'");
        if (write(ready[1], &byte, 1) != 1 || read(stop[0], &byte, 1) < 0) _exit(1);
        _exit(0); /* without clearing it */
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    pco_marker_set(&own, dir, "testing-1", "op 'y'");
    assert_true(own.set);
    pco_marker_collect(dir, "testing-1", keep_text, text);
    assert_string_equal(text, "");
    pco_marker_clear(&own);
    close(stop[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    pco_marker_collect(dir, "testing-2", keep_text, text);
    assert_string_equal(text, "");
    pco_marker_collect(dir, "testing-1", keep_text, text);
    assert_string_equal(text, "op 'x'");
    pco_marker_collect(dir, "testing-1", keep_text, text);
    assert_string_equal(text, "op 'x'");
    pco_marker_set(&own, "", "testing-1", "no cache");
    assert_false(own.set);
    pco_marker_clear(&own);
}

static void test_threads(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 8; count += 7) {
        pco_threads *threads = pco_threads_create(count);
        loop *l = calloc(1, sizeof *l);
        for (int round = 1; round <= 100; round++) {
            pco_threads_for(threads, 10007, 16, loop_slice, l);
            for (int i = 0; i < 10007; i++) assert_int_equal(atomic_load(&l->counts[i]), round);
        }
        assert_int_equal(atomic_load(&l->clashes), 0);
        memset(l, 0, sizeof *l);
        /* so short that most workers come too late, at once behind each other and with time to fall asleep */
        for (int round = 1; round <= 3000; round++) {
            if (round % 300 == 0) usleep(1000);
            pco_threads_for(threads, 20, 1, loop_slice, l);
            for (int i = 0; i < 20; i++) assert_int_equal(atomic_load(&l->counts[i]), round);
        }
        assert_int_equal(atomic_load(&l->clashes), 0);
        free(l);
        pco_threads_destroy(threads);
    }
}

static void test_environment(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *word;
    } bad[] = {{"PORTICO_THREADS", "0", "1 to 1024"},
               {"PORTICO_THREADS", "4x", "'4x'"},
               {"PORTICO_LOG", "loud", "debug"},
               {"PORTICO_FALLBACK", "maybe", "warn, error, silent"}};
    pco_config config;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv(bad[i].name, bad[i].value, 1);
        check_fails(pco_config_read(&config, &err), PCO_ERROR_INVALID, bad[i].word);
        unsetenv(bad[i].name);
    }
    setenv("PORTICO_FALLBACK", "error", 1);
    setenv("PORTICO_THREADS", "3", 1);
    check_ok(pco_config_read(&config, &err));
    assert_int_equal(config.fallback, PCO_FALLBACK_ERROR);
    assert_int_equal(config.threads, 3);
}

static void test_suggest(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        uint32_t distance;
    } pairs[] = {{"", "", 0},
                 {"", "abc", 3},
                 {"abc", "", 3},
                 {"matmul", "matmul", 0},
                 {"matmull", "matmul", 1},
                 {"mtamul", "matmul", 1},
                 {"Matmul", "matmul", 0},
                 {"kitten", "sitting", 3},
                 {"ca", "abc", 3} /* of the optimal string alignment: no part is changed twice */};
    static const struct {
        const char *word, *near;
    } words[] = {{"trian", "train"}, {"tran", "train"}, {"--trian", "train"}, {"t", ""},       {"rn", "run"},
                 {"r", ""},          {"xyzzy", ""},     {"-train", "train"},  {"", ""},        {"evel", "eval"},
                 {"veal", "eval"},   {"aevl", ""},      {"TRAIN", "train"},   {"trainees", ""}};
    static const char *const names[] = {"run", "train", "eval"};
    char hint[PCO_SUGGEST_HINT], longest[2 * PCO_SUGGEST_NAME];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_int_equal(pco_suggest_distance(pairs[i].a, pairs[i].b), pairs[i].distance);
        assert_int_equal(pco_suggest_distance(pairs[i].b, pairs[i].a), pairs[i].distance);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        pco_suggestion suggestion = {0};
        for (int k = 0; k < 3; k++) pco_suggest(&suggestion, words[i].word, names[k]);
        assert_string_equal(suggestion.name, words[i].near);
    }
    pco_suggestion none = {0};
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = 0;
    pco_suggest(&none, longest, longest); /* longer than what is compared */
    assert_string_equal(pco_suggest_hint(&none, hint), "");
    longest[PCO_SUGGEST_NAME - 1] = 0;
    pco_suggest(&none, longest, longest);
    assert_string_equal(none.name, longest);
    pco_suggestion best = {0};
    pco_suggest(&best, "--jsom", "--jsons");
    pco_suggest(&best, "--jsom", "--json");
    assert_string_equal(pco_suggest_hint(&best, hint), " (did you mean '--json'?)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printable),   cmocka_unit_test(test_printable_eights),
        cmocka_unit_test(test_descriptors), cmocka_unit_test(test_lock),
        cmocka_unit_test(test_file),        cmocka_unit_test(test_file_is_durable),
        cmocka_unit_test(test_file_left),   cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_cache),       cmocka_unit_test(test_threads),
        cmocka_unit_test(test_environment), cmocka_unit_test(test_marker),
        cmocka_unit_test(test_suggest),
    };
    return cmocka_run_group_tests_name("base", tests, check_make_folder, check_remove_folder);
}
