/* What a write does where the path leads to no plain file, where what was written is not what was meant, or where
 * something lies in its way; and the writer, which keeps its first error. */
#define CHECK_FOLDER
#include "check.h"

#include "base/file.h"
#include "base/writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int damages;              /* files, between being written and being read back */
static int known;                /* so many draws of random bytes give zeros */
static char temporary[PATH_MAX]; /* the file that was synced last */

/* In place of the C library's, for whatever this program links. */
int fsync(int fd)
{
    char link[64];
    struct stat st;
    if (damages) assert_int_equal(pwrite(fd, "X", 1, 0), 1);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        const ssize_t length = readlink(link, temporary, sizeof temporary - 1);
        assert_true(length > 0);
        temporary[length] = 0;
    }
    return (int)syscall(SYS_fsync, fd);
}

ssize_t getrandom(void *bytes, size_t size, unsigned flags)
{
    if (known == 0) return syscall(SYS_getrandom, bytes, size, flags);
    known--;
    memset(bytes, 0, size);
    return (ssize_t)size;
}

static const char *in_folder(const char *name)
{
    static char path[2][100];
    static int turn;
    char *at = path[turn ^= 1];
    snprintf(at, sizeof path[0], "%s/%s", check_folder, name);
    return at;
}

static void check_holds(const char *name, const char *text)
{
    pco_map map;
    check_ok(pco_map_open(in_folder(name), &map, &err));
    assert_int_equal(map.size, strlen(text));
    assert_memory_equal(map.data, text, map.size);
    pco_map_close(&map);
}

static int files_like(const char *part)
{
    int n = 0;
    DIR *list = opendir(check_folder);
    for (const struct dirent *entry; (entry = readdir(list));) n += strstr(entry->d_name, part) != NULL;
    closedir(list);
    return n;
}

static mode_t kind(const char *name)
{
    struct stat st;
    assert_int_equal(lstat(in_folder(name), &st), 0);
    return st.st_mode & S_IFMT;
}

/* Links stay, what they lead to is replaced, and it keeps its mode. */
static void links(void **state)
{
    (void)state;
    struct stat st;
    check_ok(pco_file_write(in_folder("target"), "old", 3, &err));
    assert_int_equal(chmod(in_folder("target"), 0640), 0);
    assert_int_equal(symlink("target", in_folder("link")), 0);
    assert_int_equal(symlink(in_folder("link"), in_folder("link-to-link")), 0);
    assert_int_equal(symlink("later", in_folder("dangling")), 0);
    assert_int_equal(symlink("endless", in_folder("endless")), 0);
    check_ok(pco_file_write(in_folder("link-to-link"), "new", 3, &err));
    check_holds("target", "new");
    assert_true(kind("link-to-link") == S_IFLNK && kind("link") == S_IFLNK);
    assert_int_equal(stat(in_folder("target"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    const mode_t mask = umask(077); /* what is new is as private as the user wants it, what is there stays */
    check_ok(pco_file_write(in_folder("private"), "new", 3, &err));
    check_ok(pco_file_write(in_folder("target"), "new", 3, &err));
    umask(mask);
    assert_int_equal(stat(in_folder("private"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(in_folder("target"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    check_ok(pco_file_write(in_folder("dangling"), "made", 4, &err));
    check_holds("later", "made");
    assert_true(kind("dangling") == S_IFLNK);
    check_fails(pco_file_write(in_folder("endless"), "x", 1, &err), PCO_ERROR_IO, "no end");
    check_fails(pco_file_write(check_folder, "x", 1, &err), PCO_ERROR_IO, "a folder");
    check_fails(pco_file_write("", "x", 1, &err), PCO_ERROR_IO, "empty");
}

/* What is no regular file is written to as it is. */
static void straight(void **state)
{
    (void)state;
    char path[64], got[16] = "";
    int pipe_ends[2], is_regular, log;
    check_fails(pco_file_write("/dev/full", "x", 1, &err), PCO_ERROR_IO, "/dev/full: cannot write: No space");
    assert_int_equal(symlink("/dev/full", in_folder("full")), 0);
    check_fails(pco_file_write(in_folder("full"), "x", 1, &err), PCO_ERROR_IO, "No space");
    check_ok(pco_file_write("/dev/null", "x", 1, &err));
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    int reader = open(in_folder("fifo"), O_RDONLY | O_NONBLOCK);
    check_ok(pco_file_write(in_folder("fifo"), "through", 7, &err));
    check_ok(pco_file_open_log(in_folder("fifo"), &log, &is_regular, &err));
    assert_int_equal(is_regular, 0);
    close(log);
    assert_int_equal(read(reader, got, sizeof got), 7);
    assert_memory_equal(got, "through", 7);
    close(reader);
    assert_true(kind("fifo") == S_IFIFO);
    /* as /dev/stdout is: a pipe, or a file that others write too, behind what is there */
    assert_int_equal(pipe(pipe_ends), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", pipe_ends[1]);
    check_ok(pco_file_write(path, "pipe", 4, &err));
    assert_int_equal(read(pipe_ends[0], got, sizeof got), 4);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    int fd = open(in_folder("open"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(fd, "one", 3), 3);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert_int_equal(symlink(path, in_folder("stdout")), 0);
    check_ok(pco_file_write(in_folder("stdout"), "two", 3, &err));
    assert_int_equal(write(fd, "three", 5), 5);
    close(fd);
    check_holds("open", "onetwothree");
}

static pco_status refuse(void *user, const void *data, size_t size, pco_error *error)
{
    assert_int_equal(size, 3);
    assert_memory_equal(data, "new", 3);
    return *(int *)user ? pco_fail(error, PCO_ERROR_FORMAT, "not what was meant") : PCO_OK;
}

/* A file that is not right never takes the old one's place, and leaves nothing behind. */
static void checked(void **state)
{
    (void)state;
    int wrong = 1;
    check_ok(pco_file_write(in_folder("checked"), "old", 3, &err));
    check_fails(pco_file_write_checked(in_folder("checked"), "new", 3, refuse, &wrong, &err), PCO_ERROR_FORMAT,
                "meant");
    check_holds("checked", "old");
    wrong = 0;
    damages = 1;
    check_fails(pco_file_write_checked(in_folder("checked"), "new", 3, refuse, &wrong, &err), PCO_ERROR_IO,
                "reads back");
    damages = 0;
    check_holds("checked", "old");
    assert_int_equal(files_like("checked"), 1);
    check_ok(pco_file_write_checked(in_folder("checked"), "new", 3, refuse, &wrong, &err));
    check_holds("checked", "new");
}

/* No one who can write to the folder can lay a link or a file where the next write would begin: its name cannot be
 * known, and what is there already is left alone. */
static void temporaries(void **state)
{
    (void)state;
    char before[sizeof temporary];
    check_ok(pco_file_write(in_folder("drawn"), "old", 3, &err));
    memcpy(before, temporary, sizeof before);
    check_ok(pco_file_write(in_folder("drawn"), "old", 3, &err));
    assert_string_not_equal(before, temporary);
    check_ok(pco_file_write(in_folder("victim"), "victim", 6, &err));
    for (int held = 0; held < 2; held++) { /* a link; a file that another process is writing */
        known = 1;
        check_ok(pco_file_write(in_folder("drawn"), "old", 3, &err));
        memcpy(before, temporary, sizeof before);
        const char *name = strrchr(before, '/') + 1;
        int fd = -1;
        if (held) {
            fd = open(before, O_RDWR | O_CREAT | O_EXCL, 0600);
            assert_int_equal(write(fd, "victim", 6), 6);
            assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
        } else {
            assert_int_equal(symlink("victim", before), 0);
        }
        known = 1; /* the next draw gives another name */
        check_ok(pco_file_write(in_folder("drawn"), "new", 3, &err));
        check_holds("drawn", "new");
        known = INT_MAX;
        check_fails(pco_file_write(in_folder("drawn"), "newer", 5, &err), PCO_ERROR_IO, "cannot create");
        known = 0;
        check_holds("drawn", "new");
        assert_true(kind(name) == (held ? S_IFREG : S_IFLNK));
        check_holds(name, "victim"); /* also where the link leads */
        assert_int_equal(unlink(before), 0);
        if (held) close(fd);
    }
}

static void writer(void **state)
{
    (void)state;
    static char big[5000];
    const size_t whole = 10 + sizeof big - 1 + 2;
    pco_writer out = {0};
    memset(big, 'b', sizeof big - 1);
    pco_print(&out, "%d %s", 12, "twelve");
    pco_write_char(&out, '!');
    pco_write_text(&out, "");
    pco_print(&out, "%s", big);
    pco_write(&out, "\0x", 2);
    check_ok(pco_writer_check(&out, "a text", &err));
    assert_int_equal(out.size, whole);
    assert_memory_equal(out.data, "12 twelve!bbb", 13);
    assert_memory_equal(out.data + whole - 3, "b\0x", 4); /* with a NUL behind it */
    /* the first error is kept, and what is not whole is not written */
    pco_write(&out, big, SIZE_MAX / 2);
    pco_write_text(&out, "more");
    pco_print(&out, "and more");
    assert_int_equal(out.size, whole);
    check_fails(pco_writer_check(&out, "a text", &err), PCO_ERROR_OUT_OF_HOST_MEMORY, "a text: out of host memory");
    check_fails(pco_writer_save(&out, in_folder("unwritten"), &err), PCO_ERROR_OUT_OF_HOST_MEMORY, "unwritten");
    assert_int_equal(files_like("unwritten"), 0);
    check_fails(pco_writer_flush(&out, 1, "stdout", &err), PCO_ERROR_OUT_OF_HOST_MEMORY, "stdout");
    pco_writer_release(&out);
    for (int i = 0; i < 2; i++) {
        int is_regular, fd;
        check_ok(pco_file_open_log(in_folder("log"), &fd, &is_regular, &err));
        assert_true(is_regular);
        pco_print(&out, "line %d\n", i);
        check_ok(pco_writer_flush(&out, fd, "a log", &err));
        close(fd);
    }
    check_holds("log", "line 0\nline 1\n");
    /* what a link leads to is gone on with, and the link stays */
    int is_regular, fd;
    assert_int_equal(symlink("log", in_folder("log-link")), 0);
    check_ok(pco_file_open_log(in_folder("log-link"), &fd, &is_regular, &err));
    assert_true(is_regular);
    check_ok(pco_file_send(fd, "line 2\n", 7, "a log", &err));
    close(fd);
    check_holds("log", "line 0\nline 1\nline 2\n");
    assert_true(kind("log-link") == S_IFLNK);
    pco_writer_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links),       cmocka_unit_test(straight), cmocka_unit_test(checked),
        cmocka_unit_test(temporaries), cmocka_unit_test(writer),
    };
    return cmocka_run_group_tests(tests, check_make_folder, check_remove_folder);
}
