/* A pool of threads for parallel loops. */
#ifndef PCO_BASE_THREADS_H
#define PCO_BASE_THREADS_H

#include "portico/plugin.h"

typedef struct pco_threads pco_threads;

/* `count` threads in all, the caller's among them: count - 1 are started at the first loop that needs them. */
pco_threads *pco_threads_create(uint32_t count);
void pco_threads_destroy(pco_threads *threads);
uint32_t pco_threads_count(const pco_threads *threads);

/* fn(task, begin, end, worker) over 0 <= i < count, in slices of at least `grain`. One loop at a time: a loop
 * started while another runs (or from inside a slice) is done serially by its caller, as worker 0 of a task of
 * its own. Allocates nothing. */
void pco_threads_for(pco_threads *threads, int64_t count, int64_t grain, pco_parallel_fn fn, void *task);

#endif
