/* Planning of transient memory: lifetimes to offsets in as few bytes as we can. */
#ifndef PCO_RUNTIME_PLAN_H
#define PCO_RUNTIME_PLAN_H

#include "portico/plugin.h"

/* The steps of a list of nodes in which a tensor's memory is in use: from the first node that writes it, or an alias of
 * it, to the last that reads or writes it. */
typedef struct pco_lifetime {
    uint32_t first, last; /* first: PCO_NONE where no node writes it; last: 0 where none touches it */
} pco_lifetime;

/* Fills in lifetimes[n_tensors]. Those of aliases stay empty: they count for the tensor whose memory they share. */
void pco_plan_lifetimes(const pco_tensor *tensors, uint32_t n_tensors, const pco_node *nodes, uint32_t n_nodes,
                        pco_lifetime *lifetimes);

/* Something that needs memory from step `first` to step `last`, both included. */
typedef struct pco_interval {
    uint32_t first, last;
    uint64_t bytes, alignment; /* a power of two */
    uint32_t chunk;            /* result: which arena */
    uint64_t offset;           /* result */
} pco_interval;

typedef struct pco_chunk_sizes {
    uint32_t count;
    uint64_t *bytes;      /* malloc'ed; of each arena */
    uint64_t lower_bound; /* most bytes alive at one step */
} pco_chunk_sizes;

/* The most bytes alive at one step: no plan needs less. */
uint64_t pco_plan_lower_bound(const pco_interval *intervals, uint32_t count);

/* Assigns offsets: intervals in the order of falling size, each at the lowest offset where it meets no other one
 * that is alive at the same time (greedy by size: Pisarchyk & Lee 2020, arXiv 2001.03288). An arena is at most
 * `chunk_limit` bytes; what does not fit goes to the next. Errors: OUT_OF_DEVICE_MEMORY when one interval is
 * larger than the limit; OUT_OF_HOST_MEMORY. */
pco_status pco_plan_intervals(pco_interval *intervals, uint32_t count, uint64_t chunk_limit, pco_chunk_sizes *sizes,
                              pco_error *err) PCO_NODISCARD;

#endif
