#include "runtime/host.h"

#include "base/error.h"
#include "runtime/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *host_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    void *memory = NULL;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    return posix_memalign(&memory, alignment, bytes ? bytes : 1) == 0 ? memory : NULL;
}

static void host_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static void host_log(void *user, pco_log_level level, const char *line)
{
    const pco_host_state *state = user;
    pco_log_line(&state->config, level, "%s", line);
}

static const char *host_setting(void *user, const char *key)
{
    const pco_host_state *state = user;
    return strcmp(key, "threads") == 0 ? state->threads_text : NULL;
}

static uint32_t host_thread_count(void *user)
{
    const pco_host_state *state = user;
    return pco_threads_count(state->threads);
}

static void host_parallel_for(void *user, int64_t count, int64_t grain, pco_parallel_fn fn, void *task)
{
    const pco_host_state *state = user;
    pco_threads_for(state->threads, count, grain, fn, task);
}

static pco_status host_cache_load(void *user, const char *name, void **data, size_t *bytes)
{
    const pco_host_state *state = user;
    return pco_cache_load(state->config.cache_dir, name, data, bytes);
}

static pco_status host_cache_store(void *user, const char *name, const void *data, size_t bytes)
{
    const pco_host_state *state = user;
    return pco_cache_keep(&state->config, name, data, bytes);
}

pco_status pco_host_init(pco_host_state *state, const pco_config *config, pco_error *err)
{
    *state = (pco_host_state){.config = *config, .cache_told = ATOMIC_FLAG_INIT};
    state->config.cache_told = &state->cache_told;
    state->threads = pco_threads_create(config->threads);
    if (!state->threads) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for threads");
    snprintf(state->threads_text, sizeof state->threads_text, "%u", config->threads);
    state->table = (pco_host){.size = sizeof state->table,
                              .user = state,
                              .allocate = host_allocate,
                              .release = host_release,
                              .log = host_log,
                              .setting = host_setting,
                              .thread_count = host_thread_count,
                              .parallel_for = host_parallel_for,
                              .cache_load = host_cache_load,
                              .cache_store = host_cache_store};
    return PCO_OK;
}

void pco_host_release(pco_host_state *state)
{
    pco_threads_destroy(state->threads);
    state->threads = NULL;
}
