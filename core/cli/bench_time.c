/* Timing. */
#include "cli/bench.h"

#include "base/clock.h"

#include <stdlib.h>
#include <time.h>

enum { BENCH_MOST = 2000, BENCH_LEAST = 3 };

static int bench_order(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double bench_median(double *times, int count)
{
    if (count == 0) return 0;
    qsort(times, (size_t)count, sizeof *times, bench_order);
    return count % 2 ? times[count / 2] : (times[count / 2 - 1] + times[count / 2]) / 2;
}

static double bench_processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* threads > 0: the processor time of this process, shared evenly among so many threads. */
static pco_status bench_one(const bench_job *job, uint32_t threads, double *seconds, pco_error *err)
{
    double start = threads ? bench_processor_seconds() : pco_seconds();
    pco_status status = job->run(job->user, err);
    *seconds = threads ? (bench_processor_seconds() - start) / threads : pco_seconds() - start;
    return status;
}

pco_status bench_time(const bench_job *jobs, int count, double seconds, uint32_t threads, double *medians,
                      int *repetitions, pco_error *err)
{
    double *times[BENCH_MAX] = {0}, first = 0;
    pco_status status = PCO_OK;
    int n = 0, least = BENCH_LEAST;
    for (int j = 0; !status && j < count; j++) { /* caches, pages, clocks */
        double once = 0;
        status = bench_one(&jobs[j], threads, &once, err);
        first += once;
        times[j] = malloc(BENCH_MOST * sizeof *times[j]);
        if (!times[j]) status = PCO_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (first > 8 * seconds * count) least = 1;
    double start = pco_seconds();
    while (!status && n < BENCH_MOST && (n < least || pco_seconds() - start < seconds * count) &&
           (n == 0 || !cli_interrupted())) {
        for (int j = 0; !status && j < count; j++) status = bench_one(&jobs[j], threads, &times[j][n], err);
        n++;
    }
    for (int j = 0; j < count; j++) {
        if (!status) medians[j] = bench_median(times[j], n);
        free(times[j]);
    }
    *repetitions = n;
    return status;
}
