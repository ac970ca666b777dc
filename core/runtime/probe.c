/* portico-probe PLUGIN: loads a plugin, asks for its devices, and says "ok N" or "no REASON". A driver that
 * crashes while it is asked takes this process down and no other. */
#include "runtime/loader.h"

#include "base/fd.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *probe_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    void *memory = NULL;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    return posix_memalign(&memory, alignment, bytes ? bytes : 1) == 0 ? memory : NULL;
}

static void probe_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static void probe_log(void *user, pco_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static const char *probe_setting(void *user, const char *key)
{
    (void)user, (void)key;
    return NULL;
}

static uint32_t probe_threads(void *user)
{
    (void)user;
    return 1;
}

static void probe_for(void *user, int64_t count, int64_t grain, pco_parallel_fn fn, void *task)
{
    (void)user, (void)grain;
    fn(task, 0, count, 0);
}

static pco_status probe_load(void *user, const char *name, void **data, size_t *bytes)
{
    (void)user, (void)name, (void)data, (void)bytes;
    return PCO_ERROR_NOT_FOUND;
}

static pco_status probe_store(void *user, const char *name, const void *data, size_t bytes)
{
    (void)user, (void)name, (void)data, (void)bytes;
    return PCO_ERROR_NOT_FOUND;
}

/* Where the answer goes. What drivers and layers print while they are asked is none: it goes to stderr. */
static FILE *probe_answer(void)
{
    const int copy = dup(STDOUT_FILENO);
    FILE *answer = copy < 0 ? NULL : fdopen(copy, "w");
    if (!answer) return stdout;
    dup2(STDERR_FILENO, STDOUT_FILENO);
    return answer;
}

int main(int argc, char **argv)
{
    pco_fd_standard();
    if (argc != 2) {
        fprintf(stderr, "usage: portico-probe PLUGIN\n");
        return 2;
    }
    const pco_host host = {.size = sizeof host,
                           .allocate = probe_allocate,
                           .release = probe_release,
                           .log = probe_log,
                           .setting = probe_setting,
                           .thread_count = probe_threads,
                           .parallel_for = probe_for,
                           .cache_load = probe_load,
                           .cache_store = probe_store};
    FILE *answer = probe_answer();
    pco_error err = {""};
    void *handle;
    pco_plugin_tables tables;
    const pco_plugin *plugin = &tables.plugin;
    pco_backend *backend;
    pco_status status = pco_loader_open(argv[1], &handle, &tables, &err);
    if (status) {
        fprintf(answer, "bad %s\n", err.message);
        return 1;
    }
    status = plugin->create(&host, &backend, &err);
    if (status) { /* UNSUPPORTED: there is nothing for it on this machine */
        fprintf(answer, "%s %s\n", status == PCO_ERROR_UNSUPPORTED ? "no" : "bad", err.message);
        return 1;
    }
    uint32_t count = plugin->device_count(backend);
    for (uint32_t i = 0; i < count; i++) {
        pco_device_info info = {.size = sizeof info};
        /* One that cannot be described costs no other: the registry asks again, and leaves it out with a line. */
        if (plugin->describe(backend, i, &info, &err)) continue;
    }
    fprintf(answer, "ok %u\n", count);
    fflush(answer);
    _exit(0); /* without the drivers' exit handlers */
}
