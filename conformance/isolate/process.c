/* Worker processes: how they are started, talked to and ended. */
#include "isolate/isolate.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { WORKER_IN = 3, WORKER_OUT = 4, FIRST_FREE = 10, UNKILLABLE_SECONDS = 10 };

/* A pipe whose ends are out of the way of the numbers that the worker gets. */
static int process_pipe(int ends[2])
{
    int low[2];
    ends[0] = ends[1] = -1;
    if (pipe2(low, O_CLOEXEC) != 0) return -1;
    for (int i = 0; i < 2; i++) {
        ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, FIRST_FREE);
        close(low[i]);
    }
    return ends[0] < 0 || ends[1] < 0 ? -1 : 0;
}

static void process_close(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static int process_spawn(conf_process *process, char *const *command, int in, int out, int error)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, error, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, error, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, in, WORKER_IN);
    posix_spawn_file_actions_adddup2(&actions, out, WORKER_OUT);
    /* a group of its own: Ctrl-C is for the parent, and a driver's compiler dies with the worker */
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    int failed = posix_spawn(&process->pid, command[0], &actions, &attributes, command, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (failed) process->pid = 0;
    return failed;
}

pco_status conf_process_start(conf_process *process, char *const *command, pco_error *err)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, error[2] = {-1, -1};
    pco_status status = PCO_OK;
    *process = (conf_process){.in = -1, .out = -1, .error = -1};
    int failed = process_pipe(in) || process_pipe(out) || process_pipe(error) ? errno : 0;
    if (!failed) failed = process_spawn(process, command, in[0], out[1], error[1]);
    process_close(&in[0]);
    process_close(&out[1]);
    process_close(&error[1]);
    if (failed) {
        process_close(&in[1]);
        process_close(&out[0]);
        process_close(&error[0]);
        status = pco_fail(err, PCO_ERROR_IO, "a worker process could not be started: %s", strerror(failed));
    } else {
        process->in = in[1], process->out = out[0], process->error = error[0];
        fcntl(process->out, F_SETFL, O_NONBLOCK);
        fcntl(process->error, F_SETFL, O_NONBLOCK);
    }
    return status;
}

bool conf_process_send(conf_process *process, const char *line)
{
    for (size_t left = strlen(line); left > 0;) {
        ssize_t put = write(process->in, line, left);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        line += put, left -= (size_t)put;
    }
    return true;
}

bool conf_process_read(conf_process *process, bool (*answer)(void *user, char *line), void *user)
{
    while (process->out >= 0) {
        if (process->used + 4096 > process->size) {
            char *grown = realloc(process->line, process->size + 16384);
            if (!grown) return false;
            process->line = grown, process->size += 16384;
        }
        ssize_t got = read(process->out, process->line + process->used, process->size - process->used - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        if (got == 0) return false;
        process->used += (size_t)got;
        process->line[process->used] = 0;
        char *at = process->line, *end;
        bool go = true;
        while (go && (end = memchr(at, '\n', process->used - (size_t)(at - process->line))) != NULL) {
            *end = 0;
            go = answer(user, at);
            if (process->out < 0) return false; /* the answer was the last, and the process is no more */
            at = end + 1;
        }
        process->used -= (size_t)(at - process->line);
        memmove(process->line, at, process->used);
        if (!go) return true;
    }
    return false;
}

void conf_process_drain(conf_process *process)
{
    char text[2048];
    ssize_t got;
    while (process->error >= 0 && (got = read(process->error, text, sizeof text)) > 0) {
        fwrite(text, 1, (size_t)got, stderr);
        size_t fresh = (size_t)got < CONF_TAIL ? (size_t)got : CONF_TAIL;
        size_t kept = process->tail_used + fresh <= CONF_TAIL ? process->tail_used : CONF_TAIL - fresh;
        memmove(process->tail, process->tail + process->tail_used - kept, kept);
        memcpy(process->tail + kept, text + got - fresh, fresh);
        process->tail_used = kept + fresh;
    }
}

bool conf_process_ended(conf_process *process, int *state)
{
    if (process->pid == 0 || waitpid(process->pid, state, WNOHANG) != process->pid) return false;
    kill(-process->pid, SIGKILL); /* what it started */
    process->pid = 0;
    return true;
}

void conf_process_kill(conf_process *process)
{
    if (process->pid == 0) return;
    kill(-process->pid, SIGKILL);
    kill(process->pid, SIGKILL);
}

int conf_process_finish(conf_process *process, double seconds, bool *killed)
{
    int state = 0;
    *killed = false;
    process_close(&process->in);
    for (double waited = 0; process->pid && !conf_process_ended(process, &state); waited += 0.01) {
        conf_process_drain(process);
        if (waited >= seconds && !*killed) {
            conf_process_kill(process);
            *killed = true;
        }
        if (waited >= seconds + UNKILLABLE_SECONDS) break; /* it sits in the kernel; nothing can be done */
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    process->pid = 0;
    conf_process_drain(process);
    process_close(&process->out);
    process_close(&process->error);
    free(process->line);
    process->line = NULL;
    process->used = process->size = 0;
    return state;
}

void conf_process_describe(const conf_process *process, int state, char *text, size_t size)
{
    char last[200] = "";
    size_t end = process->tail_used, begin;
    while (end > 0 && strchr("\r\n \t", process->tail[end - 1])) end--;
    for (begin = end; begin > 0 && process->tail[begin - 1] != '\n' && end - begin < sizeof last - 1;) begin--;
    for (size_t i = begin; i < end; i++)
        last[i - begin] = (unsigned char)process->tail[i] < 0x20 ? ' ' : process->tail[i];
    last[end - begin] = 0;
    if (WIFSIGNALED(state))
        snprintf(text, size, "the process died (%s)%s", strsignal(WTERMSIG(state)),
                 WTERMSIG(state) == SIGKILL ? ", perhaps because the machine ran out of memory" : "");
    else
        snprintf(text, size, "the process ended with status %d", WEXITSTATUS(state));
    size_t used = strlen(text);
    if (*last && used < size) snprintf(text + used, size - used, "; its last words: %s", last);
}
