/* A loop is a round: the caller publishes it, opens the gate, works, and shuts the gate again. Workers that come while
 * it is open work with it. One that wakes too late finds it shut, and nobody waits for it. Between rounds workers look
 * at the gate for some microseconds before they sleep, since the loops of a run follow each other faster than a thread
 * wakes up. */
#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum {
    THREADS_LOOKS = 1000, /* at the gate before sleeping: about 20 microseconds, a few times what waking up takes */
};

/* The gate: the round's number, whether it is open, and how many workers are inside. */
#define GATE_INSIDE ((UINT64_C(1) << 15) - 1)
#define GATE_OPEN   (UINT64_C(1) << 15)
#define GATE_ROUND  (UINT64_C(1) << 16)

struct pco_threads {
    uint32_t count;
    uint32_t started;
    int looks; /* none where there are more threads than processors */
    pthread_t *workers;
    pthread_mutex_t loop; /* held by the thread whose loop runs */
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    uint32_t next_worker;
    atomic_bool stop;
    atomic_uint_fast64_t gate;
    atomic_uint sleepers;
    pco_parallel_fn fn; /* of the round, written while nobody is inside */
    void *task;
    int64_t end, slice;
    atomic_llong next;
};

static void threads_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void threads_work(pco_threads *threads, uint32_t worker)
{
    for (;;) {
        int64_t begin = atomic_fetch_add(&threads->next, threads->slice);
        if (begin >= threads->end) return;
        int64_t end = begin + threads->slice < threads->end ? begin + threads->slice : threads->end;
        threads->fn(threads->task, begin, end, worker);
    }
}

static bool threads_is_new(uint64_t gate, uint64_t seen) { return gate & GATE_OPEN && gate / GATE_ROUND != seen; }

/* Enters a round that is open and was not seen. */
static bool threads_enter(pco_threads *threads, uint64_t *seen)
{
    uint64_t gate = atomic_load(&threads->gate);
    while (threads_is_new(gate, *seen))
        if (atomic_compare_exchange_weak(&threads->gate, &gate, gate + 1)) {
            *seen = gate / GATE_ROUND;
            return true;
        }
    return false;
}

static void threads_leave(pco_threads *threads)
{
    const uint64_t gate = atomic_fetch_sub(&threads->gate, 1) - 1;
    if (gate & (GATE_OPEN | GATE_INSIDE)) return;
    pthread_mutex_lock(&threads->lock);
    pthread_cond_signal(&threads->done);
    pthread_mutex_unlock(&threads->lock);
}

/* Until there is a round to enter. Who opens one looks for sleepers afterwards, and who sleeps counts as one before it
 * looks at the gate: so one of the two sees the other. */
static void threads_sleep(pco_threads *threads, uint64_t seen)
{
    for (int i = 0; i < threads->looks; i++) {
        if (threads_is_new(atomic_load(&threads->gate), seen) || atomic_load(&threads->stop)) return;
        threads_pause();
    }
    pthread_mutex_lock(&threads->lock);
    atomic_fetch_add(&threads->sleepers, 1);
    while (!threads_is_new(atomic_load(&threads->gate), seen) && !atomic_load(&threads->stop))
        pthread_cond_wait(&threads->wake, &threads->lock);
    atomic_fetch_sub(&threads->sleepers, 1);
    pthread_mutex_unlock(&threads->lock);
}

static void *threads_main(void *argument)
{
    pco_threads *threads = argument;
    uint64_t seen = 0;
    pthread_mutex_lock(&threads->lock);
    const uint32_t worker = ++threads->next_worker;
    pthread_mutex_unlock(&threads->lock);
    while (!atomic_load(&threads->stop)) {
        if (threads_enter(threads, &seen)) {
            threads_work(threads, worker);
            threads_leave(threads);
        } else {
            threads_sleep(threads, seen);
        }
    }
    return NULL;
}

pco_threads *pco_threads_create(uint32_t count)
{
    pco_threads *threads = calloc(1, sizeof *threads);
    cpu_set_t set;
    if (!threads) return NULL;
    threads->count = count ? count : 1;
    threads->workers = calloc(threads->count, sizeof *threads->workers);
    if (!threads->workers) {
        free(threads);
        return NULL;
    }
    if (sched_getaffinity(0, sizeof set, &set) == 0 && threads->count <= (uint32_t)CPU_COUNT(&set))
        threads->looks = THREADS_LOOKS;
    pthread_mutex_init(&threads->loop, NULL);
    pthread_mutex_init(&threads->lock, NULL);
    pthread_cond_init(&threads->wake, NULL);
    pthread_cond_init(&threads->done, NULL);
    return threads;
}

/* Starts the workers; signals stay with the program's own threads, but for those of what a worker does itself: one that
 * is blocked would end the process without its handler. Fewer than asked for is no error. */
static void threads_start(pco_threads *threads)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t others, old;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&others, faults[i]);
    pthread_sigmask(SIG_SETMASK, &others, &old);
    while (threads->started + 1 < threads->count) {
        if (pthread_create(&threads->workers[threads->started], NULL, threads_main, threads) != 0) break;
        threads->started++;
    }
    threads->count = threads->started + 1;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void threads_wake(pco_threads *threads)
{
    pthread_mutex_lock(&threads->lock);
    pthread_cond_broadcast(&threads->wake);
    pthread_mutex_unlock(&threads->lock);
}

void pco_threads_destroy(pco_threads *threads)
{
    if (!threads) return;
    atomic_store(&threads->stop, true);
    threads_wake(threads);
    for (uint32_t i = 0; i < threads->started; i++) pthread_join(threads->workers[i], NULL);
    pthread_cond_destroy(&threads->done);
    pthread_cond_destroy(&threads->wake);
    pthread_mutex_destroy(&threads->lock);
    pthread_mutex_destroy(&threads->loop);
    free(threads->workers);
    free(threads);
}

uint32_t pco_threads_count(const pco_threads *threads) { return threads->count; }

/* Lets nobody in any more, and waits for those who are inside. */
static void threads_shut(pco_threads *threads)
{
    uint64_t gate = atomic_fetch_and(&threads->gate, ~GATE_OPEN);
    for (int i = 0; i < threads->looks && gate & GATE_INSIDE; i++) {
        threads_pause();
        gate = atomic_load(&threads->gate);
    }
    if (!(gate & GATE_INSIDE)) return;
    pthread_mutex_lock(&threads->lock);
    while (atomic_load(&threads->gate) & GATE_INSIDE) pthread_cond_wait(&threads->done, &threads->lock);
    pthread_mutex_unlock(&threads->lock);
}

void pco_threads_for(pco_threads *threads, int64_t count, int64_t grain, pco_parallel_fn fn, void *task)
{
    if (count <= 0) return;
    if (grain < 1) grain = 1;
    if (threads->count == 1 || count <= grain || pthread_mutex_trylock(&threads->loop) != 0) {
        fn(task, 0, count, 0);
        return;
    }
    if (threads->started + 1 < threads->count) threads_start(threads);
    int64_t slice = (count + 4 * (int64_t)threads->count - 1) / (4 * (int64_t)threads->count);
    threads->fn = fn;
    threads->task = task;
    threads->end = count;
    threads->slice = slice > grain ? slice : grain;
    atomic_store(&threads->next, 0);
    atomic_store(&threads->gate, (atomic_load(&threads->gate) / GATE_ROUND + 1) * GATE_ROUND | GATE_OPEN);
    if (atomic_load(&threads->sleepers)) threads_wake(threads);
    threads_work(threads, 0);
    threads_shut(threads);
    pthread_mutex_unlock(&threads->loop);
}
