/* Finding a device, opening it, and its first transfers, with one call of its driver after the other refused: a line
 * that says so, or a device that does without; never a crash, and nothing is left behind.
 *
 *   open_refused PLUGIN LAYER      each in a process of its own; 77 where PORTICO_BACKEND is no device of the plugin */
#include "refuse.h"

#include "portico/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_CALLS = 500, BYTES = 1000, REFUSED = 10, DONE = 11, BAD = 12 };

static int blocks; /* of the host's memory that are in use */

static void *host_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    blocks++;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void host_release(void *user, void *memory)
{
    (void)user;
    blocks -= memory != NULL;
    free(memory);
}

static void host_log(void *user, pco_log_level level, const char *line) { (void)user, (void)level, (void)line; }
static const char *host_setting(void *user, const char *key) { return (void)user, (void)key, NULL; }
static uint32_t host_threads(void *user) { return (void)user, 1; }

static void host_parallel(void *user, int64_t count, int64_t grain, pco_parallel_fn fn, void *task)
{
    (void)user, (void)grain;
    fn(task, 0, 0, count);
}

static pco_status host_load(void *user, const char *name, void **data, size_t *bytes)
{
    (void)user, (void)name;
    *data = NULL, *bytes = 0;
    return PCO_ERROR_NOT_FOUND;
}

static pco_status host_store(void *user, const char *name, const void *data, size_t bytes)
{
    return (void)user, (void)name, (void)data, (void)bytes, PCO_OK;
}

static const pco_host HOST = {.size = sizeof HOST,
                              .allocate = host_allocate,
                              .release = host_release,
                              .log = host_log,
                              .setting = host_setting,
                              .thread_count = host_threads,
                              .parallel_for = host_parallel,
                              .cache_load = host_load,
                              .cache_store = host_store};

/* Writes to a buffer, copies it to another, where the plugin can, and reads that; with the device's clock on. */
static pco_status transfer(const pco_plugin *plugin, pco_device *device, pco_error *err)
{
    const pco_buffer_api *api = plugin->buffer;
    unsigned char sent[BYTES], got[BYTES] = {0};
    pco_buffer *from = NULL, *to = NULL;
    for (int i = 0; i < BYTES; i++) sent[i] = (unsigned char)(i * 7);
    pco_status status = plugin->device->profile(device, 1, err);
    if (!status) status = api->create(device, BYTES, PCO_USAGE_DEVICE, &from, err);
    if (!status) status = api->create(device, BYTES, PCO_USAGE_DEVICE, &to, err);
    if (!status) status = api->write(device, from, 0, sent, BYTES, err);
    if (!status && api->copy) status = api->copy(device, from, 0, to, 0, BYTES, err);
    if (!status) status = api->read(device, api->copy ? to : from, 0, got, BYTES, err);
    if (to) api->destroy(device, to);
    if (from) api->destroy(device, from);
    if (status || memcmp(sent, got, BYTES) == 0) return status;
    snprintf(err->message, sizeof err->message, "wrong bytes");
    return PCO_ERROR_INTERNAL;
}

/* A device that does without what was refused must be the same device: what it is believed to be chooses kernels, names
 * files of the cache, and sets bounds. */
static int same_device(const pco_device_info *a, const pco_device_info *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->driver, b->driver) == 0 && strcmp(a->aliases, b->aliases) == 0 &&
           strcmp(a->api, b->api) == 0 && strcmp(a->platform, b->platform) == 0 && a->type == b->type &&
           a->vendor_id == b->vendor_id && a->memory == b->memory && a->max_allocation == b->max_allocation &&
           a->max_binding == b->max_binding && a->buffer_alignment == b->buffer_alignment &&
           a->max_workgroup == b->max_workgroup && a->shared_memory == b->shared_memory && a->features == b->features &&
           memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0 && memcmp(&a->contract, &b->contract, sizeof a->contract) == 0;
}

/* With call 0, which is none, `sound` is written; otherwise it is what the device is when nothing is refused. */
static int attempt(const pco_plugin *plugin, refuse_start_fn start, refuse_counts_fn counts, unsigned call,
                   pco_device_info *sound)
{
    pco_backend *backend = NULL;
    pco_device *device = NULL;
    pco_error err = {""};
    start(call);
    pco_device_info info = {.size = sizeof info};
    pco_status status = plugin->create(&HOST, &backend, &err);
    if (!status) status = plugin->describe(backend, 0, &info, &err);
    if (!status) status = plugin->open(backend, 0, &device, &err);
    const int opened = !status;
    if (opened) {
        status = transfer(plugin, device, &err);
        plugin->device->close(device);
    }
    if (backend) plugin->destroy(backend);
    const refuse_counts *seen = counts();
    const char *refused = seen->refused;
    printf("%3u %-30s %s\n", call, refused ? refused : "nothing is refused", status ? err.message : "works");
    if (seen->calls == 0) return puts("the layer was not loaded"), BAD;
    if (call == 0) *sound = info;
    if (opened && !same_device(&info, sound)) return puts("it is taken for another device"), BAD;
    if (status && (!refused || !*err.message || strchr(err.message, '\n'))) return puts("no clean refusal"), BAD;
    if (seen->alive || blocks) return printf("left: %u objects, %d blocks of memory\n", seen->alive, blocks), BAD;
    if (!opened && seen->waits) return puts("it waits for a device that was never opened"), BAD;
    return refused ? REFUSED : DONE;
}

int main(int argc, char **argv)
{
    const char *backend = getenv("PORTICO_BACKEND");
    if (argc != 3) return 1;
    setvbuf(stdout, NULL, _IONBF, 0);
    void *library = dlopen(argv[1], RTLD_NOW), *layer = dlopen(argv[2], RTLD_NOW); /* no driver is loaded by that */
    pco_plugin_query_fn query;
    refuse_start_fn start;
    refuse_counts_fn counts;
    if (!library || !layer) return fprintf(stderr, "%s\n", dlerror()), 1;
    *(void **)&query = dlsym(library, "pco_plugin_query");
    *(void **)&start = dlsym(layer, "pco_refuse_start");
    *(void **)&counts = dlsym(layer, "pco_refuse_counts");
    const pco_plugin *plugin = query ? query(PCO_ABI_VERSION) : NULL;
    if (!plugin || !start || !counts) return fputs("the plugin or the layer lacks its functions\n", stderr), 1;
    const size_t length = strlen(plugin->name);
    if (!backend || strncmp(backend, plugin->name, length) != 0 || backend[length] != ':') return 77;
    pco_device_info *sound = mmap(NULL, sizeof *sound, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sound == MAP_FAILED) return perror("mmap"), 1;
    unsigned bad = 0;
    for (unsigned call = 0; call < MOST_CALLS; call++) {
        int state;
        const pid_t child = fork();
        if (child == 0) _exit(attempt(plugin, start, counts, call, sound));
        if (child < 0 || waitpid(child, &state, 0) != child) return perror("fork"), 1;
        if (WIFSIGNALED(state)) printf("%3u ended by signal %d\n", call, WTERMSIG(state));
        bad += WIFSIGNALED(state) || (WEXITSTATUS(state) != REFUSED && WEXITSTATUS(state) != DONE);
        if (call && WIFEXITED(state) && WEXITSTATUS(state) == DONE)
            return printf("%u calls, %u bad\n", call - 1, bad), bad > 0;
    }
    puts("there is no end of calls");
    return 1;
}
