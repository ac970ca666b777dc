#include "base/env.h"

#include "base/error.h"
#include "base/printable.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const pco_env_row ROWS[] = {
    {"PORTICO_BACKEND", "BACKEND[:WHICH][+...][,...]", "automatic",
     "device to use: a plugin's name, and an index or a part of a device's, driver's or platform's name; "
     "those "
     "joined with + are used together; the first of the list that works"},
    {"PORTICO_PLUGIN_PATH", "folder[:folder...]", "none", "folders searched for plugins before the installed ones"},
    {"PORTICO_CACHE_DIR", "folder, or empty", "~/.cache/portico",
     "where compiled kernels, probe results and verdicts of self-tests are kept; empty: nowhere"},
    {"PORTICO_LOG", "error, warning, info, debug", "warning", "which lines are logged to stderr"},
    {"PORTICO_FALLBACK", "warn, error, silent", "warn",
     "what to do about an op that the device cannot run: run it on the CPU and say so once, refuse, or say "
     "nothing"},
    {"PORTICO_SELF_TEST", "on, off, always", "on",
     "whether a kernel variant must agree with cpu:reference before a device other than the CPU uses it: "
     "once per "
     "device and driver (the verdicts are kept in the cache), never, or in every process, also where a test "
     "has ended processes before, or a plugin has crashed or hung in its probe"},
    {"PORTICO_THREADS", "1 to 1024", "all processors", "threads of the cpu plugin"},
};

const pco_env_row *pco_env_table(uint32_t *count)
{
    *count = sizeof ROWS / sizeof ROWS[0];
    return ROWS;
}

/* secure_getenv: a program that runs with more rights than its caller (set-user-ID) takes no folders of plugins from
 * him. */
static pco_status env_text(const char *name, char *out, size_t size, pco_error *err)
{
    const char *value = secure_getenv(name);
    if (!value) return PCO_OK;
    if (strlen(value) >= size)
        return pco_fail(err, PCO_ERROR_INVALID, "%s is longer than %zu characters; shorten it", name, size - 1);
    strcpy(out, value);
    return PCO_OK;
}

/* The position of the variable's value in a NULL-terminated list of choices. */
static pco_status env_choice(const char *name, const char *const *choices, int *choice, pco_error *err)
{
    const char *value = secure_getenv(name);
    if (!value || !*value) return PCO_OK;
    char list[128] = "";
    for (int i = 0; choices[i]; i++) {
        if (strcmp(value, choices[i]) == 0) {
            *choice = i;
            return PCO_OK;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", choices[i]);
    }
    return pco_fail(err, PCO_ERROR_INVALID, "%s is '%s', and must be one of %s", name, value, list);
}

static pco_status env_threads(uint32_t *threads, pco_error *err)
{
    cpu_set_t set;
    *threads = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
    const char *value = secure_getenv("PORTICO_THREADS");
    if (!value || !*value) return PCO_OK;
    char *end;
    errno = 0;
    long number = strtol(value, &end, 10);
    if (*end || errno || number < 1 || number > 1024)
        return pco_fail(err, PCO_ERROR_INVALID, "PORTICO_THREADS is '%s', and must be a number from 1 to 1024", value);
    *threads = (uint32_t)number;
    return PCO_OK;
}

static pco_status env_cache(char *dir, size_t size, pco_error *err)
{
    if (secure_getenv("PORTICO_CACHE_DIR")) return env_text("PORTICO_CACHE_DIR", dir, size, err);
    const char *xdg = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    int length = 0;
    if (xdg && *xdg == '/')
        length = snprintf(dir, size, "%s/portico", xdg);
    else if (home && *home == '/')
        length = snprintf(dir, size, "%s/.cache/portico", home);
    if (length < 0 || (size_t)length >= size) dir[0] = 0;
    return PCO_OK;
}

/* Variables of the Vulkan and OpenCL loaders that change which drivers there are. */
static void env_drivers(char *out, size_t size)
{
    static const char *const names[] = {"VK_ICD_FILENAMES", "VK_DRIVER_FILES",    "VK_ADD_DRIVER_FILES",
                                        "OCL_ICD_VENDORS",  "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES",
                                        "RUSTICL_ENABLE",   "POCL_DEVICES",       "LD_PRELOAD",
                                        "LD_LIBRARY_PATH",  "VK_INSTANCE_LAYERS"};
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = secure_getenv(names[i]);
        if (value && used < size) used += (size_t)snprintf(out + used, size - used, "%s=%s;", names[i], value);
    }
}

pco_status pco_config_read(pco_config *config, pco_error *err)
{
    static const char *const levels[] = {"error", "warning", "info", "debug", NULL};
    static const char *const fallbacks[] = {"warn", "error", "silent", NULL};
    static const char *const self_tests[] = {"on", "off", "always", NULL};
    *config = (pco_config){.log = PCO_LOG_WARNING, .probe_seconds = 30};
    int level = PCO_LOG_WARNING, fallback = PCO_FALLBACK_WARN, self_test = PCO_SELF_TEST_ON;
    pco_status status = env_text("PORTICO_BACKEND", config->backend, sizeof config->backend, err);
    if (!status) status = env_text("PORTICO_PLUGIN_PATH", config->plugin_path, sizeof config->plugin_path, err);
    if (!status) status = env_cache(config->cache_dir, sizeof config->cache_dir, err);
    if (!status) status = env_choice("PORTICO_LOG", levels, &level, err);
    if (!status) status = env_choice("PORTICO_FALLBACK", fallbacks, &fallback, err);
    if (!status) status = env_choice("PORTICO_SELF_TEST", self_tests, &self_test, err);
    if (!status) status = env_threads(&config->threads, err);
    env_drivers(config->drivers, sizeof config->drivers);
    config->log = (pco_log_level)level;
    config->fallback = (pco_fallback)fallback;
    config->self_test = (pco_self_test)self_test;
    return status;
}

/* The first of these variables that holds a number; -1 without one. */
static long env_first_number(const char *const *names, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *value = secure_getenv(names[i]);
        char *end;
        long number = value ? strtol(value, &end, 10) : -1;
        if (value && *value && !*end && number >= 0 && number <= 1 << 30) return number;
    }
    return -1;
}

uint32_t pco_env_columns(void)
{
    static const char *const names[] = {"COLUMNS"};
    const long columns = env_first_number(names, 1);
    return columns > 0 && columns <= 10000 ? (uint32_t)columns : 0;
}

pco_launch pco_launch_read(void)
{
    /* Open MPI; MPICH, Intel MPI and srun --mpi=pmi2; MVAPICH; srun --mpi=pmix says the rank alone */
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "PMIX_RANK"};
    static const char *const counts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                         "SLURM_STEP_NUM_TASKS"};
    const long rank = env_first_number(ranks, 4), count = env_first_number(counts, 4);
    if (rank < 0) return (pco_launch){.count = 1};
    return (pco_launch){
        .launched = 1, .rank = (uint32_t)rank, .count = count > rank ? (uint32_t)count : (uint32_t)rank + 1};
}

void pco_log_line(const pco_config *config, pco_log_level level, const char *format, ...)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    if (level > config->log) return;
    char line[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    pco_printable_line(line, sizeof line);
    if (config->log_fn)
        config->log_fn(config->log_user, level, line);
    else
        fprintf(stderr, "portico: %s: %s\n", names[level], line);
}
