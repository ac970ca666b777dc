#include "base/threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

struct pco_threads {
    uint32_t count;
    uint32_t started;
    pthread_t *workers;
    pthread_mutex_t loop; /* held by the thread whose loop runs */
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    uint64_t round; /* number of loops so far; workers wait for the next */
    uint32_t busy;  /* workers that have not finished the round */
    uint32_t next_worker;
    int stop;
    pco_parallel_fn fn;
    void *task;
    int64_t end, slice;
    atomic_llong next;
};

static void threads_work(pco_threads *threads, uint32_t worker)
{
    for (;;) {
        int64_t begin = atomic_fetch_add(&threads->next, threads->slice);
        if (begin >= threads->end) return;
        int64_t end = begin + threads->slice < threads->end ? begin + threads->slice : threads->end;
        threads->fn(threads->task, begin, end, worker);
    }
}

static void *threads_main(void *argument)
{
    pco_threads *threads = argument;
    pthread_mutex_lock(&threads->lock);
    uint32_t worker = ++threads->next_worker;
    uint64_t seen = 0;
    for (;;) {
        while (threads->round == seen && !threads->stop) pthread_cond_wait(&threads->wake, &threads->lock);
        if (threads->stop) break;
        seen = threads->round;
        pthread_mutex_unlock(&threads->lock);
        threads_work(threads, worker);
        pthread_mutex_lock(&threads->lock);
        if (--threads->busy == 0) pthread_cond_signal(&threads->done);
    }
    pthread_mutex_unlock(&threads->lock);
    return NULL;
}

pco_threads *pco_threads_create(uint32_t count)
{
    pco_threads *threads = calloc(1, sizeof *threads);
    if (!threads) return NULL;
    threads->count = count ? count : 1;
    threads->workers = calloc(threads->count, sizeof *threads->workers);
    if (!threads->workers) {
        free(threads);
        return NULL;
    }
    pthread_mutex_init(&threads->loop, NULL);
    pthread_mutex_init(&threads->lock, NULL);
    pthread_cond_init(&threads->wake, NULL);
    pthread_cond_init(&threads->done, NULL);
    return threads;
}

/* Starts the workers; signals stay with the program's own threads. Fewer than asked for is no error. */
static void threads_start(pco_threads *threads)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (threads->started + 1 < threads->count) {
        if (pthread_create(&threads->workers[threads->started], NULL, threads_main, threads) != 0) break;
        threads->started++;
    }
    threads->count = threads->started + 1;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void pco_threads_destroy(pco_threads *threads)
{
    if (!threads) return;
    pthread_mutex_lock(&threads->lock);
    threads->stop = 1;
    pthread_cond_broadcast(&threads->wake);
    pthread_mutex_unlock(&threads->lock);
    for (uint32_t i = 0; i < threads->started; i++) pthread_join(threads->workers[i], NULL);
    pthread_cond_destroy(&threads->done);
    pthread_cond_destroy(&threads->wake);
    pthread_mutex_destroy(&threads->lock);
    pthread_mutex_destroy(&threads->loop);
    free(threads->workers);
    free(threads);
}

uint32_t pco_threads_count(const pco_threads *threads) { return threads->count; }

void pco_threads_for(pco_threads *threads, int64_t count, int64_t grain, pco_parallel_fn fn, void *task)
{
    if (count <= 0) return;
    if (grain < 1) grain = 1;
    if (threads->count == 1 || count <= grain || pthread_mutex_trylock(&threads->loop) != 0) {
        fn(task, 0, count, 0);
        return;
    }
    pthread_mutex_lock(&threads->lock);
    if (threads->started + 1 < threads->count) threads_start(threads);
    int64_t slice = (count + 4 * (int64_t)threads->count - 1) / (4 * (int64_t)threads->count);
    threads->fn = fn;
    threads->task = task;
    threads->end = count;
    threads->slice = slice > grain ? slice : grain;
    atomic_store(&threads->next, 0);
    threads->busy = threads->started;
    threads->round++;
    pthread_cond_broadcast(&threads->wake);
    pthread_mutex_unlock(&threads->lock);
    threads_work(threads, 0);
    pthread_mutex_lock(&threads->lock);
    while (threads->busy > 0) pthread_cond_wait(&threads->done, &threads->lock);
    pthread_mutex_unlock(&threads->lock);
    pthread_mutex_unlock(&threads->loop);
}
