/* The services that the runtime gives to plugins. */
#ifndef PCO_RUNTIME_HOST_H
#define PCO_RUNTIME_HOST_H

#include "base/env.h"
#include "base/threads.h"

typedef struct pco_host_state {
    pco_config config;
    pco_threads *threads;
    char threads_text[16];
    atomic_flag cache_told; /* config's */
    pco_host table;         /* user points to this struct */
} pco_host_state;

/* Fills the table; `config` is copied. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_host_init(pco_host_state *state, const pco_config *config, pco_error *err) PCO_NODISCARD;
void pco_host_release(pco_host_state *state);

#endif
