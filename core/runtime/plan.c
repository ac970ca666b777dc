#include "runtime/plan.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint32_t plan_root(const pco_tensor *tensors, uint32_t t)
{
    while (tensors[t].alias != PCO_NONE) t = tensors[t].alias;
    return t;
}

void pco_plan_lifetimes(const pco_tensor *tensors, uint32_t n_tensors, const pco_node *nodes, uint32_t n_nodes,
                        pco_lifetime *lifetimes)
{
    for (uint32_t t = 0; t < n_tensors; t++) lifetimes[t] = (pco_lifetime){PCO_NONE, 0};
    for (uint32_t i = 0; i < n_nodes; i++) {
        const pco_node *node = &nodes[i];
        for (uint32_t k = 0; k < node->n_inputs; k++)
            if (node->inputs[k] != PCO_NONE) lifetimes[plan_root(tensors, node->inputs[k])].last = i;
        for (uint32_t k = 0; k < node->n_outputs; k++) {
            if (node->outputs[k] == PCO_NONE) continue;
            pco_lifetime *life = &lifetimes[plan_root(tensors, node->outputs[k])];
            if (life->first == PCO_NONE) life->first = i;
            life->last = i;
        }
    }
}

static int plan_larger_first(const void *a, const void *b)
{
    const pco_interval *x = *(pco_interval *const *)a, *y = *(pco_interval *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x < y ? -1 : 1;
}

static int plan_lower_offset(const void *a, const void *b)
{
    const pco_interval *x = *(pco_interval *const *)a, *y = *(pco_interval *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* The lowest offset in `chunk` where `interval` meets none of the placed ones; UINT64_MAX if it does not fit. */
static uint64_t plan_fit(pco_interval *const *placed, uint32_t n_placed, const pco_interval *interval, uint32_t chunk,
                         uint64_t limit, pco_interval **scratch)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_placed; i++)
        if (placed[i]->chunk == chunk && placed[i]->first <= interval->last && interval->first <= placed[i]->last)
            scratch[n++] = placed[i];
    qsort(scratch, n, sizeof *scratch, plan_lower_offset);
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (at + interval->bytes <= scratch[i]->offset) break;
        uint64_t end = scratch[i]->offset + scratch[i]->bytes;
        if (end > at) at = (end + interval->alignment - 1) & ~(interval->alignment - 1);
    }
    return at + interval->bytes <= limit ? at : UINT64_MAX;
}

uint64_t pco_plan_lower_bound(const pco_interval *intervals, uint32_t count)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < count; i++) { /* the most is alive at the beginning of some interval */
        uint64_t alive = 0;
        for (uint32_t k = 0; k < count; k++)
            if (intervals[k].first <= intervals[i].first && intervals[i].first <= intervals[k].last)
                alive += intervals[k].bytes;
        if (alive > most) most = alive;
    }
    return most;
}

pco_status pco_plan_intervals(pco_interval *intervals, uint32_t count, uint64_t chunk_limit, pco_chunk_sizes *sizes,
                              pco_error *err)
{
    pco_status status = PCO_OK;
    *sizes = (pco_chunk_sizes){.lower_bound = pco_plan_lower_bound(intervals, count)};
    pco_interval **order = malloc((count + 1) * sizeof(*order)), **scratch = malloc((count + 1) * sizeof(*scratch));
    sizes->bytes = calloc(count + 1, sizeof *sizes->bytes);
    if (!order || !scratch || !sizes->bytes) {
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory while planning");
        goto done;
    }
    for (uint32_t i = 0; i < count; i++) order[i] = &intervals[i];
    qsort(order, count, sizeof *order, plan_larger_first);
    for (uint32_t i = 0; i < count; i++) {
        if (order[i]->bytes > chunk_limit) {
            status = pco_fail(err, PCO_ERROR_OUT_OF_DEVICE_MEMORY,
                              "a tensor of %" PRIu64 " bytes is larger than one allocation of this device, %" PRIu64
                              " bytes",
                              order[i]->bytes, chunk_limit);
            goto done;
        }
        uint32_t chunk = 0;
        uint64_t at;
        while ((at = plan_fit(order, i, order[i], chunk, chunk_limit, scratch)) == UINT64_MAX) chunk++;
        order[i]->chunk = chunk;
        order[i]->offset = at;
        if (chunk >= sizes->count) sizes->count = chunk + 1;
        if (at + order[i]->bytes > sizes->bytes[chunk]) sizes->bytes[chunk] = at + order[i]->bytes;
    }
done:
    free(order);
    free(scratch);
    if (status) {
        free(sizes->bytes);
        *sizes = (pco_chunk_sizes){0};
    }
    return status;
}
