/* Processes that train one model together (data-parallel): who they are, and what they tell each other.
 *
 * A transport carries bytes between two ranks (core/cli/mpi.c: over MPI; the tests: between threads). What is
 * built on it here is the same whatever carries it, and depends on nothing but ranks and sizes: sums are
 * taken in the order of the ranks, so that they have the same bits in every run and on every rank.
 *
 * All calls but _rank, _count and _times are collective: every rank makes the same ones, in the same order,
 * with the same sizes. A rank whose own work has failed goes on taking part, with any bytes, until the next
 * agree tells all of them. Where a `pco_ranks *` is NULL there is one rank, and every call does at once what
 * is right for it. */
#ifndef PCO_TRAIN_RANKS_H
#define PCO_TRAIN_RANKS_H

#include "portico/plugin.h"

typedef struct pco_transport {
    void *user;
    uint32_t rank, count;
    int threads; /* 1: exchange may be called from another thread than the one that opened it, by one at a
                    time */
    /* Sends to one rank and receives from one, at the same time; nothing is sent or received where there are
     * 0 bytes. Messages between two ranks arrive in order, whole, and with the size that the receiver
     * expects, or the call fails. Errors: IO. */
    pco_status (*exchange)(void *user, uint32_t to, const void *out, uint64_t out_bytes, uint32_t from, void *in,
                           uint64_t in_bytes, pco_error *err);
} pco_transport;

typedef struct pco_ranks pco_ranks;

/* With more than one rank and a transport that allows it, starts the thread that reduces. The transport is
 * copied, its user borrowed until the destroy. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_ranks_create(const pco_transport *transport, pco_ranks **ranks, pco_error *err) PCO_NODISCARD;
void pco_ranks_destroy(pco_ranks *ranks);

uint32_t pco_ranks_rank(const pco_ranks *ranks);
uint32_t pco_ranks_count(const pco_ranks *ranks);
/* 1: a message failed, so that nothing can be agreed any more; the process has to say so itself. */
int pco_ranks_broken(const pco_ranks *ranks);

/* The rows first .. first+count-1 of a batch of `rows` that are a rank's: contiguous, in the order of the
 * ranks, and as even as can be. */
void pco_ranks_share(uint32_t rank, uint32_t ranks, int64_t rows, int64_t *first, int64_t *count);

/* all[count]: the records of all ranks, `bytes` each, at most PCO_RANKS_RECORD, in their order. log2(ranks)
 * messages (Bruck et al. 1997). Errors: IO, and then of every later call: the ranks no longer know of each
 * other. */
enum { PCO_RANKS_RECORD = 64 };
pco_status pco_ranks_gather(pco_ranks *ranks, const void *mine, uint64_t bytes, void *all,
                            pco_error *err) PCO_NODISCARD;

/* data of rank `root` to all, along a binomial tree. Errors: IO. */
pco_status pco_ranks_broadcast(pco_ranks *ranks, uint32_t root, void *data, uint64_t bytes,
                               pco_error *err) PCO_NODISCARD;

/* One verdict from those of all ranks: OK when all are; else on every rank the status and the message of one
 * that failed, "rank R: ..." unless all failed alike: of those with the largest weight the lowest. */
pco_status pco_ranks_agree(pco_ranks *ranks, pco_status mine, int weight, pco_error *err) PCO_NODISCARD;

/* The largest flag, 0 to 255, of all ranks. */
pco_status pco_ranks_largest(pco_ranks *ranks, int flag, int *largest, pco_error *err) PCO_NODISCARD;

/* Sums. values[count] of all ranks are added element by element, in the order of the ranks, in double, and
 * rounded once; every rank receives the same bits. start returns at once where there is a thread for it;
 * values are then left alone until wait, which waits for all that were started. At most PCO_RANKS_BUCKETS are
 * started between two waits. No other collective call comes between start and wait. reserve makes room for
 * buckets of up to `count` elements, once. A rank owns 1/n of each bucket: it receives that part of all
 * others, adds, and sends the sum to them; a rank sends and receives 2 (n-1)/n of the bucket (reduce-scatter
 * and all-gather, Thakur et al. 2005, by pairwise exchange). */
enum { PCO_RANKS_BUCKETS = 64 };
pco_status pco_ranks_reserve(pco_ranks *ranks, uint64_t count, pco_error *err) PCO_NODISCARD;
void pco_ranks_sum_start(pco_ranks *ranks, float *values, uint64_t count);
pco_status pco_ranks_sum_wait(pco_ranks *ranks, pco_error *err) PCO_NODISCARD;

/* Seconds since the create: in sums, and of those waited for by sum_wait (what nothing hid). */
void pco_ranks_times(const pco_ranks *ranks, double *summing, double *waiting);

#endif
