/* The environment and where things are installed: read here and nowhere else. */
#ifndef PCO_BASE_ENV_H
#define PCO_BASE_ENV_H

#include <signal.h>
#include <stdatomic.h>

#include "portico/plugin.h"

typedef enum pco_fallback {
    PCO_FALLBACK_WARN = 0, /* the node runs on the CPU, and this is said once */
    PCO_FALLBACK_ERROR = 1,
    PCO_FALLBACK_SILENT = 2,
} pco_fallback;

typedef enum pco_self_test {
    PCO_SELF_TEST_ON = 0, /* kernel variants that the cache does not know are tested before they are used */
    PCO_SELF_TEST_OFF = 1,
    PCO_SELF_TEST_ALWAYS = 2, /* whatever the cache knows; plugins that failed in the probe are probed again */
} pco_self_test;

/* Receives log lines (without a newline). May be called from any thread. */
typedef void (*pco_log_fn)(void *user, pco_log_level level, const char *line);

typedef struct pco_config {
    char backend[256];       /* PORTICO_BACKEND: BACKEND[:WHICH][+...][,...]; "": automatic */
    char plugin_path[1024];  /* PORTICO_PLUGIN_PATH: folders separated by colons, searched first */
    char cache_dir[512];     /* PORTICO_CACHE_DIR; else $XDG_CACHE_HOME/portico or ~/.cache/portico; "": no cache */
    pco_log_level log;       /* PORTICO_LOG: error, warning, info, debug */
    pco_fallback fallback;   /* PORTICO_FALLBACK: warn, error, silent */
    pco_self_test self_test; /* PORTICO_SELF_TEST: on, off, always */
    uint32_t threads;        /* PORTICO_THREADS: 1..1024; default: processors this process may use */
    char drivers[1024];      /* what decides which drivers the loaders see: identity of cached probes */
    const volatile sig_atomic_t *interrupted; /* when set, self-tests end with CANCELLED; NULL: never; borrowed */
    uint32_t probe_seconds;                   /* how long a plugin may take in the probe */
    pco_log_fn log_fn;                        /* NULL: lines go to stderr */
    void *log_user;
    atomic_flag *cache_told; /* the registry's: has it been said that the cache cannot be used? NULL: each time */
} pco_config;

/* One documented variable, for `portico --help` and the README's table. */
typedef struct pco_env_row {
    const char *name, *values, *initial, *doc;
} pco_env_row;
const pco_env_row *pco_env_table(uint32_t *count);

/* Reads the environment. Errors: INVALID, naming the variable, its value and what it may be. */
pco_status pco_config_read(pco_config *config, pco_error *err) PCO_NODISCARD;

/* What a launcher of MPI programs (mpirun, mpiexec, srun) says of this process: its rank, and how many were started. */
typedef struct pco_launch {
    int launched; /* 0: no launcher; then rank 0 of 1 */
    uint32_t rank, count;
} pco_launch;
pco_launch pco_launch_read(void);

/* COLUMNS, the width of the user's terminal; 0 when it says nothing. */
uint32_t pco_env_columns(void);

/* Writes a line if the configuration's level lets it through. */
void pco_log_line(const pco_config *config, pco_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
