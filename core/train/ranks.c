#include "train/ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"

typedef struct ranks_bucket {
    float *values;
    uint64_t count;
} ranks_bucket;

struct pco_ranks {
    pco_transport transport;
    char *records, *turned; /* [count,PCO_RANKS_RECORD] each, for gather */
    float *parts;           /* what the others sent of the part that this rank owns */
    uint64_t part_capacity;
    int broken; /* a message failed: nothing can be agreed any more */
    pco_error why;
    /* the thread, and what it has to do */
    int threaded, stopping;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    ranks_bucket buckets[PCO_RANKS_BUCKETS];
    uint32_t started, done;
    pco_status status; /* of the sums since the last wait */
    double summing, waiting;
};

/* ---- messages ---- */

static pco_status ranks_exchange(pco_ranks *ranks, uint32_t to, const void *out, uint64_t out_bytes, uint32_t from,
                                 void *in, uint64_t in_bytes, pco_error *err)
{
    const pco_transport *t = &ranks->transport;
    pco_status status = ranks->broken ? PCO_ERROR_IO : PCO_OK;
    if (!status) {
        status = t->exchange(t->user, to, out, out_bytes, from, in, in_bytes, &ranks->why);
        ranks->broken = status != PCO_OK;
    }
    return status ? pco_fail(err, PCO_ERROR_IO, "the ranks have lost each other: %s", ranks->why.message) : PCO_OK;
}

uint32_t pco_ranks_rank(const pco_ranks *ranks) { return ranks ? ranks->transport.rank : 0; }

uint32_t pco_ranks_count(const pco_ranks *ranks) { return ranks ? ranks->transport.count : 1; }

int pco_ranks_broken(const pco_ranks *ranks) { return ranks && ranks->broken; }

void pco_ranks_share(uint32_t rank, uint32_t ranks, int64_t rows, int64_t *first, int64_t *count)
{
    *first = rows * rank / ranks;
    *count = rows * ((int64_t)rank + 1) / ranks - *first;
}

/* Records come from the ranks above, in blocks that double; they are then turned to where they belong. */
pco_status pco_ranks_gather(pco_ranks *ranks, const void *mine, uint64_t bytes, void *all, pco_error *err)
{
    const uint32_t n = pco_ranks_count(ranks), rank = pco_ranks_rank(ranks);
    if (n == 1) {
        memcpy(all, mine, bytes);
        return PCO_OK;
    }
    char *blocks = ranks->turned, *out = all;
    pco_status status = PCO_OK;
    memcpy(blocks, mine, bytes);
    for (uint32_t have = 1; have < n && !status; have *= 2) {
        const uint64_t more = (have < n - have ? have : n - have) * bytes;
        status = ranks_exchange(ranks, (rank + n - have) % n, blocks, more, (rank + have) % n, blocks + have * bytes,
                                more, err);
    }
    for (uint32_t i = 0; i < n && !status; i++) memcpy(out + (rank + i) % n * bytes, blocks + i * bytes, bytes);
    return status;
}

static pco_status ranks_send(pco_ranks *ranks, uint32_t to, const void *data, uint64_t bytes, pco_error *err)
{
    return ranks_exchange(ranks, to, data, bytes, pco_ranks_rank(ranks), NULL, 0, err);
}

static pco_status ranks_receive(pco_ranks *ranks, uint32_t from, void *data, uint64_t bytes, pco_error *err)
{
    return ranks_exchange(ranks, pco_ranks_rank(ranks), NULL, 0, from, data, bytes, err);
}

pco_status pco_ranks_broadcast(pco_ranks *ranks, uint32_t root, void *data, uint64_t bytes, pco_error *err)
{
    const uint32_t n = pco_ranks_count(ranks);
    if (n == 1) return PCO_OK;
    const uint32_t relative = (pco_ranks_rank(ranks) + n - root) % n; /* as if the root were 0 */
    uint32_t bit = 1;
    pco_status status = PCO_OK;
    while (bit < n && !(relative & bit)) bit *= 2; /* the lowest bit of that, or beyond all of them */
    if (relative) status = ranks_receive(ranks, (relative - bit + root) % n, data, bytes, err);
    for (bit /= 2; bit > 0 && !status; bit /= 2)
        if (relative + bit < n) status = ranks_send(ranks, (relative + bit + root) % n, data, bytes, err);
    return status;
}

typedef struct ranks_verdict {
    int32_t status, weight;
    uint64_t message; /* hash */
} ranks_verdict;

pco_status pco_ranks_agree(pco_ranks *ranks, pco_status mine, int weight, pco_error *err)
{
    const uint32_t n = pco_ranks_count(ranks);
    if (n == 1) return mine;
    const ranks_verdict verdict = {(int32_t)mine, weight,
                                   mine ? pco_hash(PCO_HASH_START, err->message, strlen(err->message)) : 0};
    ranks_verdict *all = (ranks_verdict *)(void *)ranks->records;
    pco_error told = {""};
    pco_status status = pco_ranks_gather(ranks, &verdict, sizeof verdict, all, &told);
    uint32_t chosen = n, alike = 1;
    for (uint32_t i = 0; i < n && !status; i++) {
        alike &= all[i].status != PCO_OK && all[i].message == all[0].message;
        if (all[i].status && (chosen == n || all[i].weight > all[chosen].weight)) chosen = i;
    }
    if (!status && chosen < n) {
        if (chosen == pco_ranks_rank(ranks)) told = *err;
        status = pco_ranks_broadcast(ranks, chosen, &told, sizeof told, &told);
        told.message[sizeof told.message - 1] = 0;
        if (!status) status = (pco_status)all[chosen].status;
        if (!alike && !ranks->broken) pco_fail_prefix(&told, status, "rank %u", chosen);
    }
    if (status) *err = told;
    return status;
}

pco_status pco_ranks_largest(pco_ranks *ranks, int flag, int *largest, pco_error *err)
{
    const uint32_t n = pco_ranks_count(ranks);
    const unsigned char mine = (unsigned char)flag;
    *largest = mine;
    if (n == 1) return PCO_OK;
    pco_status status = pco_ranks_gather(ranks, &mine, 1, ranks->records, err);
    for (uint32_t i = 0; i < n && !status; i++) {
        const int other = (unsigned char)ranks->records[i];
        if (other > *largest) *largest = other;
    }
    return status;
}

/* ---- sums ---- */

/* Part i of a bucket: elements begin .. end-1. */
static uint64_t ranks_part(const pco_ranks *ranks, uint64_t count, uint32_t i)
{
    return count / ranks->transport.count * i + count % ranks->transport.count * i / ranks->transport.count;
}

/* parts: [n-1,size], of the ranks in their order without this one. In double, so that the sum of thousands of
 * ranks is as exact as one of two. */
static void ranks_add(const pco_ranks *ranks, float *own, uint64_t size)
{
    const uint32_t n = ranks->transport.count, rank = ranks->transport.rank;
    for (uint64_t i = 0; i < size; i++) {
        double sum = 0;
        for (uint32_t r = 0; r < n; r++)
            sum += (double)(r == rank ? own[i] : ranks->parts[(r - (r > rank)) * size + i]);
        own[i] = (float)sum;
    }
}

static pco_status ranks_sum(pco_ranks *ranks, float *values, uint64_t count, pco_error *err)
{
    const uint32_t n = ranks->transport.count, rank = ranks->transport.rank;
    const uint64_t own = ranks_part(ranks, count, rank), size = ranks_part(ranks, count, rank + 1) - own;
    pco_status status = PCO_OK;
    for (uint32_t s = 1; s < n && !status; s++) {
        const uint32_t to = (rank + s) % n, from = (rank + n - s) % n;
        const uint64_t begin = ranks_part(ranks, count, to), end = ranks_part(ranks, count, to + 1);
        status = ranks_exchange(ranks, to, values + begin, (end - begin) * sizeof *values, from,
                                ranks->parts + (from - (from > rank)) * size, size * sizeof *values, err);
    }
    if (!status) ranks_add(ranks, values + own, size);
    for (uint32_t s = 1; s < n && !status; s++) {
        const uint32_t to = (rank + s) % n, from = (rank + n - s) % n;
        const uint64_t begin = ranks_part(ranks, count, from), end = ranks_part(ranks, count, from + 1);
        status = ranks_exchange(ranks, to, values + own, size * sizeof *values, from, values + begin,
                                (end - begin) * sizeof *values, err);
    }
    return status;
}

static void ranks_sum_timed(pco_ranks *ranks, const ranks_bucket *bucket)
{
    pco_error err;
    const double begin = pco_seconds();
    pco_status status = ranks_sum(ranks, bucket->values, bucket->count, &err);
    ranks->summing += pco_seconds() - begin;
    if (status && !ranks->status) ranks->status = status;
}

static void *ranks_thread(void *user)
{
    pco_ranks *ranks = user;
    pthread_mutex_lock(&ranks->mutex);
    while (!ranks->stopping) {
        if (ranks->done == ranks->started) {
            pthread_cond_wait(&ranks->changed, &ranks->mutex);
            continue;
        }
        const ranks_bucket bucket = ranks->buckets[ranks->done];
        pthread_mutex_unlock(&ranks->mutex);
        ranks_sum_timed(ranks, &bucket);
        pthread_mutex_lock(&ranks->mutex);
        ranks->done++;
        pthread_cond_broadcast(&ranks->changed);
    }
    pthread_mutex_unlock(&ranks->mutex);
    return NULL;
}

pco_status pco_ranks_reserve(pco_ranks *ranks, uint64_t count, pco_error *err)
{
    if (pco_ranks_count(ranks) == 1) return PCO_OK;
    const uint64_t n = ranks->transport.count, capacity = (count / n + 1) * (n - 1);
    if (capacity <= ranks->part_capacity) return PCO_OK;
    float *parts = realloc(ranks->parts, capacity * sizeof *parts);
    if (!parts) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for sums of gradients");
    ranks->parts = parts;
    ranks->part_capacity = capacity;
    return PCO_OK;
}

void pco_ranks_sum_start(pco_ranks *ranks, float *values, uint64_t count)
{
    const ranks_bucket bucket = {values, count};
    if (pco_ranks_count(ranks) == 1) return;
    if (!ranks->threaded) {
        const double begin = pco_seconds();
        ranks_sum_timed(ranks, &bucket);
        ranks->waiting += pco_seconds() - begin;
        return;
    }
    pthread_mutex_lock(&ranks->mutex);
    ranks->buckets[ranks->started++] = bucket;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->mutex);
}

pco_status pco_ranks_sum_wait(pco_ranks *ranks, pco_error *err)
{
    if (pco_ranks_count(ranks) == 1) return PCO_OK;
    const double begin = pco_seconds();
    if (ranks->threaded) {
        pthread_mutex_lock(&ranks->mutex);
        while (ranks->done < ranks->started) pthread_cond_wait(&ranks->changed, &ranks->mutex);
        ranks->done = ranks->started = 0;
        pthread_mutex_unlock(&ranks->mutex);
        ranks->waiting += pco_seconds() - begin;
    }
    const pco_status status = ranks->status;
    ranks->status = PCO_OK;
    if (!status) return PCO_OK;
    return pco_fail(err, status, "the ranks have lost each other: %s", ranks->why.message);
}

void pco_ranks_times(const pco_ranks *ranks, double *summing, double *waiting)
{
    *summing = ranks ? ranks->summing : 0;
    *waiting = ranks ? ranks->waiting : 0;
}

/* ---- creating ---- */

pco_status pco_ranks_create(const pco_transport *transport, pco_ranks **out, pco_error *err)
{
    pco_ranks *ranks = *out = calloc(1, sizeof *ranks);
    if (!ranks) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %u ranks", transport->count);
    ranks->transport = *transport;
    pthread_mutex_init(&ranks->mutex, NULL);
    pthread_cond_init(&ranks->changed, NULL);
    ranks->records = malloc((size_t)transport->count * PCO_RANKS_RECORD);
    ranks->turned = malloc((size_t)transport->count * PCO_RANKS_RECORD);
    if (!ranks->records || !ranks->turned) {
        pco_ranks_destroy(ranks);
        *out = NULL;
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %u ranks", transport->count);
    }
    ranks->threaded =
        transport->threads && transport->count > 1 && pthread_create(&ranks->thread, NULL, ranks_thread, ranks) == 0;
    return PCO_OK;
}

void pco_ranks_destroy(pco_ranks *ranks)
{
    if (!ranks) return;
    if (ranks->threaded) {
        pthread_mutex_lock(&ranks->mutex);
        ranks->stopping = 1;
        pthread_cond_broadcast(&ranks->changed);
        pthread_mutex_unlock(&ranks->mutex);
        pthread_join(ranks->thread, NULL);
    }
    pthread_mutex_destroy(&ranks->mutex);
    pthread_cond_destroy(&ranks->changed);
    free(ranks->parts);
    free(ranks->records);
    free(ranks->turned);
    free(ranks);
}
