#include "runtime/loader.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/paths.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

pco_status pco_loader_open(const char *path, void **handle, pco_plugin_tables *tables, pco_error *err)
{
    *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!*handle) return pco_fail(err, PCO_ERROR_IO, "%s", dlerror());
    pco_plugin_query_fn query;
    *(void **)&query = dlsym(*handle, "pco_plugin_query");
    pco_status status;
    if (!query) {
        status = pco_fail(err, PCO_ERROR_ABI, "it is no Portico plugin: it has no symbol pco_plugin_query");
    } else {
        status = pco_plugin_adopt(query(PCO_ABI_VERSION), tables, err);
        *(void **)&tables->operations = dlsym(*handle, "pco_ops_query");
    }
    if (status) {
        dlclose(*handle);
        *handle = NULL;
    }
    return status;
}

pco_status pco_loader_operations(const char *path, void **handle, pco_ops_query_fn *query, pco_error *err)
{
    *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!*handle) return pco_fail(err, PCO_ERROR_IO, "%s", dlerror());
    *(void **)query = dlsym(*handle, "pco_ops_query");
    if (*query) return PCO_OK;
    dlclose(*handle);
    *handle = NULL;
    return pco_fail(err, PCO_ERROR_INVALID, "%s declares no operations: it has no symbol pco_ops_query", path);
}

/* Reads the probe's line until it ends or time is up; 1 when the pipe was closed in time. Time runs in small steps: one
 * in which this process was stopped (Ctrl-Z), and the probe with it, counts as no more than that. */
static int loader_read(int fd, uint32_t seconds, char *text, size_t size)
{
    enum { STEP = 200 };
    size_t used = 0;
    double left = 1000.0 * seconds;
    for (;;) {
        const double begin = pco_seconds();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        const int ready = poll(&wait, 1, left > 0 ? STEP : 0);
        const double spent = 1e3 * (pco_seconds() - begin);
        const int expired = left <= 0;
        left -= spent < STEP ? spent : STEP;
        if ((ready < 0 && errno == EINTR) || (ready == 0 && !expired)) continue;
        if (ready <= 0) return 0;
        char scrap[256];
        ssize_t got = used + 1 < size ? read(fd, text + used, size - 1 - used) : read(fd, scrap, sizeof scrap);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 1;
        if (used + 1 < size) used += (size_t)got;
        text[used < size ? used : size - 1] = 0;
    }
}

/* Did the process end by what it did itself? All other signals come from outside: SIGKILL is the OOM killer's, SIGXCPU
 * a limit's, SIGQUIT the terminal's. */
static int loader_broke(int state)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (WIFSIGNALED(state) && WTERMSIG(state) == own[i]) return 1;
    return 0;
}

static pco_status loader_verdict(int closed, uint32_t seconds, int state, char *text, pco_error *err)
{
    text[strcspn(text, "\n")] = 0;
    if (!closed) return pco_fail(err, PCO_ERROR_TIMEOUT, "it did not answer the probe within %u s", seconds);
    if (WIFSIGNALED(state) && !loader_broke(state))
        return pco_fail(err, PCO_ERROR_INTERNAL, "its probe was ended from outside (%s)", strsignal(WTERMSIG(state)));
    if (WIFSIGNALED(state))
        return pco_fail(err, PCO_ERROR_INTERNAL, "it crashed in the probe (%s)", strsignal(WTERMSIG(state)));
    if (strncmp(text, "ok", 2) == 0 && WIFEXITED(state) && WEXITSTATUS(state) == 0) return PCO_OK;
    if (strncmp(text, "no ", 3) == 0) return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s", text + 3);
    if (strncmp(text, "bad ", 4) == 0) return pco_fail(err, PCO_ERROR_INTERNAL, "%s", text + 4);
    return pco_fail(err, PCO_ERROR_INTERNAL, "the probe ended without an answer (status %d)",
                    WIFEXITED(state) ? WEXITSTATUS(state) : -1);
}

pco_status pco_loader_probe(const char *path, uint32_t seconds, int *broke, pco_error *err)
{
    char program[PATH_MAX], text[600] = "";
    int ends[2], state = 0;
    *broke = 0;
    if (!pco_path_probe(program, sizeof program))
        return pco_fail(err, PCO_ERROR_NOT_FOUND, "the helper program portico-probe is missing; install Portico again");
    if (pipe2(ends, O_CLOEXEC) != 0) return pco_fail(err, PCO_ERROR_IO, "no pipe to the probe: %s", strerror(errno));
    for (int i = 0; i < 2; i++) ends[i] = pco_fd_above(ends[i]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    char *arguments[] = {program, (char *)path, NULL};
    pid_t child;
    int failed = posix_spawn(&child, program, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failed) {
        close(ends[0]);
        return pco_fail(err, PCO_ERROR_IO, "the probe could not be started: %s", strerror(failed));
    }
    int closed = loader_read(ends[0], seconds, text, sizeof text);
    close(ends[0]);
    if (!closed) kill(child, SIGKILL);
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
    *broke = !closed || loader_broke(state);
    return loader_verdict(closed, seconds, state, text, err);
}
