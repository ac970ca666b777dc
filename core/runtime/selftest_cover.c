/* Which code the test of a small node runs, and which the node itself would. They differ where tensors are beyond the
 * device's binding limit and are cut: what cutting leaves may be narrower than a tile, or add to the sums of another
 * piece. And where a size decides: the lanes that share a sum, say. */
#include "runtime/selftest_internal.h"

#include <string.h>

enum { COVER_PIPELINES = 64, COVER_SMALLEST = 2048 };

typedef struct cover_search {
    const pco_open_device *on;
    const pco_variant *variant;
    uint64_t missing[COVER_PIPELINES];
    uint32_t n_missing;
} cover_search;

static uint32_t cover_pipelines(const pco_open_device *on, const selftest_case *one, uint32_t variant,
                                uint64_t *pipelines)
{
    pco_node node;
    const pco_trial trial = selftest_trial(on, one, variant, &node);
    return pco_trial_pipelines(&trial, pipelines, COVER_PIPELINES);
}

/* Takes what this case runs from what is missing; 1 if it was something. */
static int cover_takes(cover_search *search, const selftest_case *one, uint32_t variant)
{
    uint64_t have[COVER_PIPELINES];
    const uint32_t before = search->n_missing, n = cover_pipelines(search->on, one, variant, have);
    search->n_missing = 0;
    for (uint32_t i = 0; i < before; i++) {
        uint32_t k = 0;
        while (k < n && have[k] != search->missing[i]) k++;
        if (k == n) search->missing[search->n_missing++] = search->missing[i];
    }
    return search->n_missing < before;
}

/* One size, whole and with smaller and smaller windows: few pieces are tried first. */
static uint32_t cover_size(cover_search *search, selftest_case *one, int64_t cap, selftest_choice *choices,
                           uint32_t count, uint32_t capacity)
{
    static const uint64_t PARTS[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
    uint32_t forced;
    if (selftest_case_cost(one) > SELFTEST_WORK || !selftest_offers(search->on, one, search->variant, &forced))
        return count;
    if (cover_takes(search, one, forced)) choices[count++] = (selftest_choice){cap, 0};
    for (uint32_t p = 0; p < sizeof PARTS / sizeof *PARTS; p++) {
        for (uint32_t t = 0; t < one->graph->n_tensors && search->n_missing && count < capacity; t++) {
            one->window = one->graph->tensors[t].bytes / PARTS[p];
            /* what is offered depends on the window, and with it the variant's number */
            if (one->window >= COVER_SMALLEST && selftest_offers(search->on, one, search->variant, &forced) &&
                cover_takes(search, one, forced))
                choices[count++] = (selftest_choice){cap, one->window};
        }
    }
    return count;
}

pco_status selftest_cover(const pco_open_device *on, const pco_graph *graph, uint32_t node, const pco_variant *variant,
                          const selftest_case *small, selftest_choice *choices, uint32_t capacity, uint32_t *count,
                          uint32_t *missing, pco_error *err)
{
    static const int64_t CAPS[] = {128, 256, 512, 1024, 96, 64, 32, 0};
    cover_search search = {.on = on, .variant = variant};
    selftest_case one;
    uint32_t forced;
    *count = *missing = 0;
    pco_status status = selftest_case_make(graph, node, 0, &one, err); /* the node as it is */
    if (status) return status == PCO_ERROR_OUT_OF_HOST_MEMORY ? status : PCO_OK;
    if (selftest_offers(on, &one, variant, &forced))
        search.n_missing = cover_pipelines(on, &one, forced, search.missing);
    selftest_case_free(&one);
    if (search.n_missing && selftest_offers(on, small, variant, &forced)) cover_takes(&search, small, forced);
    for (uint32_t i = 0; i < sizeof CAPS / sizeof *CAPS && search.n_missing && *count < capacity; i++) {
        status = selftest_case_make(graph, node, CAPS[i], &one, err);
        if (status == PCO_ERROR_OUT_OF_HOST_MEMORY) return status;
        if (status) continue; /* no node any more: its sizes are bound to each other */
        *count = cover_size(&search, &one, CAPS[i], choices, *count, capacity);
        selftest_case_free(&one);
    }
    *missing = search.n_missing;
    return PCO_OK;
}
