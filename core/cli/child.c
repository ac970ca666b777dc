#include "cli/child.h"

#include "base/clock.h"

#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { CHILD_FREE = 10 }; /* descriptors from here on are not the child's own */
enum { CHILD_UNKILLABLE_SECONDS = 10, CHILD_END_SECONDS = 2 };

static int child_spawn(const char *const *words, pid_t *pid, int *beats)
{
    int ends[2], moved = -1;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    moved = fcntl(ends[1], F_DUPFD_CLOEXEC, CHILD_FREE); /* dup2 of a descriptor onto itself would close it */
    close(ends[1]);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, moved, CLI_CHILD_BEATS);
    fflush(NULL);
    int failed = posix_spawn(pid, "/proc/self/exe", &actions, NULL, (char **)(size_t)words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(moved);
    *beats = ends[0];
    if (failed) close(ends[0]);
    return failed;
}

/* Reads what the child says; 0 when it has closed its end. */
static int child_listen(int beats, cli_child *child, double *heard)
{
    char text[512];
    ssize_t got = read(beats, text, sizeof text - 1);
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    if (got == 0) return 0;
    *heard = pco_seconds();
    text[got] = 0;
    char *end = strrchr(text, '\n');
    if (!end) return 1;
    *end = 0;
    const char *last = strrchr(text, '\n') ? strrchr(text, '\n') + 1 : text;
    if (*last) snprintf(child->doing, sizeof child->doing, "%.199s", last);
    return 1;
}

/* A process that sits in its driver, in the kernel, does not die either: it is left behind. */
static void child_kill(pid_t pid)
{
    const double start = pco_seconds();
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, WNOHANG) == 0 && pco_seconds() - start < CHILD_UNKILLABLE_SECONDS) poll(NULL, 0, 20);
}

int cli_child_run(const char *const *words, double patience, const volatile sig_atomic_t *interrupted, cli_child *child)
{
    pid_t pid;
    int beats, state = 0, open = 1, asked = 0;
    *child = (cli_child){.patience = patience};
    int failed = child_spawn(words, &pid, &beats);
    if (failed) {
        cli_error("a child process could not be started: %s", strerror(failed));
        return 0;
    }
    pid_t ended = 0;
    for (double heard = pco_seconds(); ended == 0;) {
        struct pollfd fd = {.fd = open ? beats : -1, .events = POLLIN};
        if (poll(&fd, 1, 20) > 0) open = child_listen(beats, child, &heard);
        ended = waitpid(pid, &state, WNOHANG);
        if (ended == 0 && interrupted && *interrupted && !asked) {
            asked = kill(pid, SIGTERM) == 0;
            patience = pco_seconds() - heard + CHILD_END_SECONDS;
        }
        if (ended == 0 && pco_seconds() - heard > patience) {
            child_kill(pid);
            break;
        }
    }
    while (ended == pid && open && poll(&(struct pollfd){.fd = beats, .events = POLLIN}, 1, 0) > 0) {
        double heard;
        open = child_listen(beats, child, &heard);
    }
    close(beats);
    if (ended == pid) {
        child->exited = WIFEXITED(state);
        child->status = child->exited ? WEXITSTATUS(state) : 0;
        child->signal = child->exited ? 0 : WTERMSIG(state);
    }
    return 1;
}

void cli_child_describe(const cli_child *child, char *text, size_t size)
{
    char what[80];
    if (child->exited)
        snprintf(what, sizeof what, "the process ended with status %d", child->status);
    else if (child->signal)
        snprintf(what, sizeof what, "the process died (%s)", strsignal(child->signal));
    else
        snprintf(what, sizeof what, "no answer within %g s", child->patience);
    snprintf(text, size, "%s%s%s", what, *child->doing ? " while " : "", child->doing);
}

void cli_child_begin(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fcntl(CLI_CHILD_BEATS, F_SETFD, FD_CLOEXEC);
}

void cli_child_beat(const char *doing)
{
    char line[256];
    int length = snprintf(line, sizeof line, "%.250s\n", doing ? doing : "");
    if (write(CLI_CHILD_BEATS, line, (size_t)length) < 0) return; /* nobody listens: the parent is gone */
}
