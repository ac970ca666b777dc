/* Which dispatches must wait for the ones before them. */
#include "lower.h"

#include <stdio.h>

static int gpu_overlap(const gpu_range *a, const gpu_range *b)
{
    return a->buffer == b->buffer && a->first < b->end && b->first < a->end;
}

/* 1 if one of `n` ranges meets one of the `n_old` since the last barrier, and either is written. */
static int gpu_conflict(const gpu_range *ranges, uint32_t n, const gpu_range *old, size_t n_old)
{
    for (uint32_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n_old; j++) {
            if ((ranges[i].write || old[j].write) && gpu_overlap(&ranges[i], &old[j])) return 1;
        }
    }
    return 0;
}

pco_status gpu_find_hazards(const pco_plan *plan, gpu_list *list, pco_error *err)
{
    const pco_host *host = list->host;
    if (list->count == 0) return PCO_OK;
    gpu_range *since = host->allocate(host->user, (size_t)list->count * sizeof *list->ranges, 64);
    if (!since) {
        snprintf(err->message, sizeof err->message, "no memory to order %u dispatches", list->count);
        return PCO_ERROR_OUT_OF_HOST_MEMORY;
    }
    size_t n_since = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        pco_gpu_dispatch *d = &list->dispatches[i];
        gpu_range *ranges = list->ranges[i];
        for (uint32_t k = 0; k < d->n_bindings; k++) {
            /* One memory may stand in the plan twice. */
            for (uint32_t b = 0; b < ranges[k].buffer; b++) {
                if (plan->buffers[b] == plan->buffers[ranges[k].buffer]) ranges[k].buffer = b;
            }
        }
        d->barrier_before = (uint32_t)gpu_conflict(ranges, d->n_bindings, since, n_since);
        if (d->barrier_before) n_since = 0;
        for (uint32_t k = 0; k < d->n_bindings; k++) {
            if (ranges[k].first < ranges[k].end) since[n_since++] = ranges[k];
        }
    }
    host->release(host->user, since);
    return PCO_OK;
}
