/* What the files of `portico bench` know of each other. */
#ifndef PCO_CLI_BENCH_H
#define PCO_CLI_BENCH_H

#include "cli/cli.h"
#include "formats/json.h"
#include "graph/graph.h"
#include "runtime/session.h"
#include "runtime/variant.h"

enum { BENCH_MAX = 4 }; /* things that are timed against each other */

/* What was asked for. */
typedef struct bench_arguments {
    const char *what; /* "op", "overhead", or a model */
    const char *devices, *op, *variant, *python;
    int variants, tunables;                     /* all variants; and their tunables */
    int64_t prompt_tokens, max_tokens, context; /* of a model; 0: as bench_model chooses */
    double seconds;
    int json, processor;
} bench_arguments;

/* What every figure needs. */
typedef struct bench_setup {
    const char *device;   /* "vulkan:0" */
    double seconds;       /* per timed thing */
    uint32_t processor;   /* > 0: processor time divided by so many threads, instead of the clock */
    const char *variant;  /* pattern: kernel variants are timed; NULL: what a session runs */
    int tunables;         /* of variants: with each value of each tunable */
    pco_session *session; /* of the figure under way */
} bench_setup;

/* One result line. */
typedef struct bench_figure {
    char name[64];
    char variant[PCO_VARIANT_TEXT];  /* "" for what a session runs */
    char set[PCO_VARIANT_NAME + 12]; /* the tunable that is not as it is initially: "lanes=16"; "" for none */
    uint32_t n_tunables;             /* of a variant, where they were asked for, with their values */
    struct {
        const char *name;
        uint32_t value;
    } tunables[PCO_TUNABLES];
    double milliseconds; /* median of the runs */
    double device;       /* the same by the device's own clock, its kernels alone; 0: it has none */
    double rate;         /* in `unit` */
    const char *unit;    /* "GFLOP/s", "GB/s" */
    double of_copy;      /* fraction of the bandwidth of a copy; 0: not compared */
    char peer[192];      /* what it was compared with, and the ratio; "" for none */
    double ratio;        /* to the peer: above 1 is faster than it; 0: none */
    char error[512];     /* why there is no figure; "" when there is */
    int repetitions;
} bench_figure;

/* Something that can be run again and again. Returns a status. */
typedef struct bench_job {
    pco_status (*run)(void *user, pco_error *err);
    void *user;
} bench_job;

/* The median of times[count], which are sorted; 0 of none. */
double bench_median(double *times, int count);

/* Medians of the seconds of jobs[count], their repetitions interleaved, one run of each before that for
 * warm-up. *repetitions receives how many each had (at least 3). threads > 0: processor time of the process
 * divided by threads, for devices that are the processor, on a machine with other work. */
pco_status bench_time(const bench_job *jobs, int count, double seconds, uint32_t threads, double *medians,
                      int *repetitions, pco_error *err) PCO_NODISCARD;

/* OpenBLAS, found at run time, with the best kernels that it has for this processor. */
typedef struct bench_blas {
    void *library;
    char version[16], core[48]; /* "0.3.21", "SkylakeX" */
    void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*set_threads)(int count);
} bench_blas;
int bench_blas_open(bench_blas *blas, uint32_t threads);
void bench_blas_close(bench_blas *blas);

/* Runs the figures whose name matches `pattern` on setup->device; fills figures[capacity], returns how many.
 */
uint32_t bench_ops(bench_setup *setup, pco_registry *registry, const char *pattern, uint32_t threads,
                   bench_figure *figures, uint32_t capacity);

/* One operation, whose node is to be run alone. */
typedef struct bench_alone {
    const char *name;
    const pco_graph *graph; /* that has one */
    uint32_t op;
    double flops, bytes; /* as of a figure */
} bench_alone;

/* Times each variant that matches setup->variant on setup->device, one after the other; returns how many figures there
 * are. Where nothing could be asked, one says why. */
uint32_t bench_variants(const bench_setup *setup, pco_registry *registry, const bench_alone *alone,
                        bench_figure *figures, uint32_t capacity);

/* Values of an operand between -1 and 1, others for each `salt`: zeros are faster than numbers on some devices. */
void bench_values(float *values, int64_t count, uint32_t salt);

/* A figure that there is not, and why. */
void bench_refuse(bench_figure *figure, const char *name, const pco_error *why);

/* Fills in time, rate and unit: of floating-point operations, or of bytes where those are 0. */
void bench_rate(bench_figure *figure, double seconds, double flops, double bytes);

/* Is there a figure of that name? 0 after a message. */
int bench_op_check(const char *pattern);

/* What a run of many small nodes costs the host on that device; `python` (NULL: none) has PyTorch or onnxruntime, or
 * both, to run them beside it. */
void bench_overhead(pco_registry *registry, const char *device, const char *python, double seconds,
                    bench_figure *figure);

/* `portico bench MODEL`. Returns the exit status. */
int bench_model(const bench_arguments *arguments);

#endif
