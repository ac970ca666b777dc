/* The conformance suite: judges a device through the plugin ABI, one op at a time, every element against a
 * float64 oracle and a bound derived from the contract that the device declares (docs/numerics.md).
 *
 * The library prints nothing: results come back in structs and through callbacks. One call runs at a time per
 * device; nothing is kept between calls. */
#ifndef CONF_CONFORMANCE_H
#define CONF_CONFORMANCE_H

#include "base/writer.h"
#include "portico/plugin.h"

#include <signal.h>
#include <stdio.h>

typedef enum pco_conformance_tier {
    PCO_CONFORMANCE_QUICK = 0,    /* every op, type and variant, a few shapes: a minute or two on a software device */
    PCO_CONFORMANCE_STANDARD = 1, /* every op, type and variant at all shapes */
    PCO_CONFORMANCE_TINY = 2,     /* the small cases of quick, for slow interpreters (oclgrind) */
    PCO_CONFORMANCE_FULL = 3,     /* standard, each case 100 times, and tensors beyond 2^31 bytes */
    PCO_CONFORMANCE_SOAK = 4,     /* full, again and again with new seeds */
} pco_conformance_tier;

/* A case (one op, one set of operands, one variant) ends in one of these. */
typedef enum pco_conformance_state {
    PCO_CASE_PASS = 0,
    PCO_CASE_FAIL = 1,         /* a wrong element, a write out of place, a status that is not OK */
    PCO_CASE_UNSUPPORTED = 2,  /* the device says that it cannot, or a limit forbids it; the detail says why */
    PCO_CASE_NOT_PROMISED = 3, /* the contract does not promise NaN and infinity; nothing was run */
    PCO_CASE_MISTRUSTED = 4,   /* passed, but the result or the bound proves too little (nearly all zero) */
    PCO_CASE_WAIVED = 5,       /* a failure that the waiver file expects; `waiver` is its reason */
    PCO_CASE_FLAKY = 6,        /* right once and wrong once, on the same data */
    PCO_CASE_CRASHED = 7,      /* the process that ran it died */
    PCO_CASE_HUNG = 8,         /* no answer within the time limit */
    PCO_CASE_DEVICE_LOST = 9,  /* the device was lost, or no longer answers a known question */
    PCO_CASE_STATES = 10,
} pco_conformance_state;

/* "pass", "fail" ... Static. */
const char *pco_conformance_state_name(pco_conformance_state state);
const char *pco_conformance_tier_name(pco_conformance_tier tier);
/* Reads a tier's name; returns 0 when there is none of that name. */
int pco_conformance_tier_parse(const char *name, pco_conformance_tier *tier);

/* A part of a tier, for devices whose compilers are slow: of `count` slices the one with this number, from 1. A case is
 * in the same slice on every device, whatever else is selected, and in exactly one. A count of 0: the whole tier. */
typedef struct pco_conformance_slice {
    uint32_t number, count;
} pco_conformance_slice;

/* Reads "3/16"; returns 0 when it is no slice. */
int pco_conformance_slice_parse(const char *text, pco_conformance_slice *slice);
enum { PCO_CONFORMANCE_SCOPE_TEXT = 48 };
/* "quick", or "quick, slice 3/16". Returns `text`. */
const char *pco_conformance_scope(pco_conformance_tier tier, pco_conformance_slice slice,
                                  char text[PCO_CONFORMANCE_SCOPE_TEXT]);

/* An open device. `id` ("vulkan:0") goes into the repeat commands. All borrowed. */
typedef struct pco_conformance_device {
    const pco_plugin *plugin;
    pco_device *device;
    const pco_device_info *info;
    const char *id;
} pco_conformance_device;

/* The same work in other pieces, compared bit by bit within one variant. */
typedef enum pco_conformance_piece {
    PCO_PIECE_ROWS = 0,    /* a row alone and in its batch */
    PCO_PIECE_CHUNKS = 1,  /* a prompt in chunks and at once */
    PCO_PIECE_THREADS = 2, /* the whole on another number of threads */
    PCO_PIECE_KINDS = 3,
} pco_conformance_piece;
typedef struct pco_conformance_invariance {
    uint32_t compared[PCO_PIECE_KINDS], differed[PCO_PIECE_KINDS];
} pco_conformance_invariance;

/* Executions of one program, or of many. */
typedef struct pco_conformance_replays {
    uint64_t executions;
    uint64_t differed; /* gave other bits than most of them */
    uint64_t wrong;    /* had an element outside its bounds, or changed memory around the results */
    uint64_t distinct; /* different results */
} pco_conformance_replays;

/* With 95 % confidence the probability that an execution differs is below this: the upper limit of Clopper and Pearson
 * (Biometrika 26, 1934), one-sided. Where none differed it is 1 - 0.05^(1/N), or about 3/N: the rule of three. */
double pco_conformance_flake_bound(uint64_t differed, uint64_t executions);

/* The result of one case in one variant. `ratio` is the worst error divided by its bound (0 where all is
 * exact, infinity where an exact element differs); the other figures describe that element. */
typedef struct pco_conformance_case {
    uint32_t op, id;
    const char *op_name, *regime, *dtype; /* static; dtype: of the first operand that is there */
    const char *label, *variant;          /* valid during the callback; owned in a result */
    const char *waiver;                   /* as label; NULL: none */
    uint32_t width;                       /* subgroup width that was forced; 0: the driver's choice */
    double seconds;
    uint64_t seed; /* the run's seed, which with the id gives the same data again */
    pco_conformance_state state;
    double ratio;
    uint32_t output;
    int64_t element, elements, wrong; /* wrong: elements outside their bounds */
    double expected, got, bound;
    pco_conformance_replays replays; /* all 0 where none were asked for */
    pco_conformance_invariance invariance;
    uint64_t bits;               /* a hash of the results; not in reports */
    uint64_t explains, evidence; /* of a failure, while the suite runs: clauses of the contract (diagnose.h) */
    char detail[512];            /* what failed, or why it is unsupported */
    char repeat[256];            /* portico conformance --devices D --ops OP ... */
} pco_conformance_case;

typedef struct pco_conformance_progress {
    const pco_conformance_device *device;
    uint32_t done, total; /* cases, before variants are multiplied out */
    const pco_conformance_case *last;
} pco_conformance_progress;

/* After each case and variant. Returns 0 to stop (the run ends with CANCELLED). */
typedef int (*pco_conformance_progress_fn)(void *user, const pco_conformance_progress *progress);

/* Before each case (`whole`: its record has no variant yet), and before each of its variants. Returns 0 to
 * leave it out: nothing is reported for it. */
typedef int (*pco_conformance_begin_fn)(void *user, const pco_conformance_case *next, int whole);

/* How results are judged. The others are what this suite is compared with (docs/conformance.md): one default variant,
 * uniform operands, a threshold for a norm over the whole output, no canaries, no second run. */
typedef enum pco_conformance_judging {
    PCO_JUDGE_BOUNDS = 0,
    PCO_JUDGE_NMSE = 1,  /* 1e-7 */
    PCO_JUDGE_FIELD = 2, /* 5e-4 for matmul and attention, 1e-7 for the rest */
} pco_conformance_judging;

typedef struct pco_conformance_options {
    pco_conformance_tier tier;
    pco_conformance_slice slice;
    const struct pco_operation *const
        *own; /* n_own operations that are no rows of the table, to be judged with those */
    uint32_t n_own;
    const char *own_from; /* the library that declares them, for commands that repeat a case */
    const char *ops;      /* shell pattern of op names, or several with commas; NULL: all */
    uint64_t seed;
    uint32_t case_id;    /* 0: all cases */
    const char *variant; /* shell pattern; NULL: all */
    int invariance;      /* all cases in pieces, in every tier */
    uint32_t replays;    /* executions of each program, besides those that judge it */
    int compile_only;    /* programs are prepared and not run: a pass is what compiles */
    const char *code;    /* then: a folder for machine code, which exists; NULL: none is written */
    pco_conformance_judging judging;
    pco_conformance_progress_fn progress; /* may be NULL */
    pco_conformance_begin_fn begin;       /* may be NULL */
    void *user;
    const struct conf_observer *observer;   /* the suite's own (runner.h); NULL for everyone else */
    struct conf_constants_watch *constants; /* the same (constants.h) */
    struct conf_companions *companions;     /* the same (runner.h) */
} pco_conformance_options;

/* One row of the summary. Counts are of cases times variants. */
typedef struct pco_conformance_op {
    uint32_t op;
    const char *name;
    uint32_t count[PCO_CASE_STATES];
    uint32_t variants; /* most variants that one case had */
    pco_conformance_invariance invariance;
    double median_ratio, max_ratio; /* over the judged cases; of each, the worst element */
    char reason[256];               /* of the first unsupported case */
} pco_conformance_op;

/* The values that a specialisation constant of a kernel took in a run, ascending: the first that came, when there are
 * more than there is room for. Constants 0 to 2 are the workgroup's size. */
enum { PCO_CONSTANT_VALUES = 16 };
typedef struct pco_conformance_constant {
    char kernel[64], name[24]; /* the plugin's words; name: "" where it is not known */
    uint32_t number, n_values;
    int32_t values[PCO_CONSTANT_VALUES];
} pco_conformance_constant;

/* One thing that the driver's compiler says of a piece of machine code, in the driver's words. */
typedef struct pco_conformance_figure {
    char code[48], name[64]; /* "SIMD16 compute shader", "Spill Count" */
    uint32_t width;          /* of subgroups, for which the code was made; 0: unknown */
    double value;
} pco_conformance_figure;

/* A kernel with its specialisation constants, as the device's compiler has made it: a driver may make several pieces of
 * code of it. */
typedef struct pco_conformance_pipeline {
    uint64_t identity;        /* a hash of what it was made from */
    char kernel[64];          /* the plugin's name */
    char op[32], variant[48]; /* of the first case that launched it */
    uint32_t width;           /* of subgroups, required; 0: the driver's choice */
    uint32_t n_specs;
    int32_t specs[PCO_DISPATCH_SPECS];
    uint32_t n_figures;
    pco_conformance_figure *figures;
} pco_conformance_pipeline;

/* What most drivers have a figure for, under names of their own. */
typedef enum pco_conformance_measure {
    PCO_MEASURE_REGISTERS = 0,
    PCO_MEASURE_SPILLS = 1,  /* of vector registers, to memory */
    PCO_MEASURE_SCRATCH = 2, /* bytes */
    PCO_MEASURE_WAVES = 3,   /* subgroups that a processor holds at once, as the driver counts them */
    PCO_MEASURE_INSTRUCTIONS = 4,
    PCO_MEASURE_CYCLES = 5, /* the compiler's estimate */
    PCO_MEASURES = 6,
} pco_conformance_measure;
/* "registers" ... Static. */
const char *pco_conformance_measure_name(pco_conformance_measure measure);
/* 1: little of it is bad (waves). */
int pco_conformance_measure_is_least(pco_conformance_measure measure);
/* The worst of the pipeline's pieces of code; 0: the driver has no such figure. */
int pco_conformance_pipeline_measure(const pco_conformance_pipeline *pipeline, pco_conformance_measure measure,
                                     double *value);

struct pco_conformance_result;
/* Compares the results of two runs that had other numbers of threads, record by record, and adds what it finds to the
 * rows of `result`. */
void pco_conformance_compare_threads(struct pco_conformance_result *result, const struct pco_conformance_result *other);

/* One round of a soak: the whole tier with one seed. */
typedef struct pco_conformance_round {
    uint64_t seed;
    uint32_t cases, records; /* cases that were finished, and their records */
    uint32_t count[PCO_CASE_STATES];
    double seconds;
    int cut;      /* it was ended before the tier was, by the time limit or by hand: the last round may be */
    char end[64]; /* why, in words */
} pco_conformance_round;

/* What a device does with numbers, seen from outside (docs/numerics.md). */
typedef enum pco_conformance_probe_verdict {
    PCO_PROBE_TOLD = 0,   /* the contract says nothing of it */
    PCO_PROBE_KEPT = 1,   /* as the contract promises */
    PCO_PROBE_BETTER = 2, /* more than it promises */
    PCO_PROBE_BROKEN = 3, /* less */
} pco_conformance_probe_verdict;

typedef struct pco_conformance_probe_line {
    char name[64], value[160];
    char declared[80]; /* by the contract, or "" */
    pco_conformance_probe_verdict verdict;
    uint32_t bits; /* a hash of all that the device gave */
} pco_conformance_probe_line;

typedef struct pco_conformance_probe {
    uint32_t n_lines, broken;
    pco_conformance_probe_line *lines;
    uint64_t fingerprint; /* a hash of all lines: other where a driver computes in another way. 0: nothing was probed */
    char message[256];    /* why the probes ended early, or "" */
} pco_conformance_probe;

/* Probes an open device; pco_conformance_probe_clear also after an error. Errors: DEVICE_LOST, OUT_OF_HOST_MEMORY. */
pco_status pco_conformance_probe_device(const pco_conformance_device *device, pco_conformance_probe *probe,
                                        pco_error *err) PCO_NODISCARD;
void pco_conformance_probe_clear(pco_conformance_probe *probe);
/* The line of that name; NULL: there is none. */
const pco_conformance_probe_line *pco_conformance_probe_find(const pco_conformance_probe *probe, const char *name);
/* "", "kept", "better", "broken". Static. */
const char *pco_conformance_probe_word(pco_conformance_probe_verdict verdict);

typedef struct pco_conformance_result {
    const char *device_id; /* borrowed from the device list */
    pco_status status;     /* OK; DEVICE_LOST and CANCELLED end a device's run early */
    char message[256];
    int not_opened; /* the device could not be opened; the message says why */
    pco_conformance_tier tier;
    pco_conformance_slice slice;
    uint64_t seed;
    double seconds;
    uint32_t count[PCO_CASE_STATES];
    pco_conformance_replays replays; /* of all records together */
    pco_conformance_probe probe;     /* empty where it was not asked for */
    uint32_t n_ops;
    pco_conformance_op *ops; /* those that had a case */
    uint32_t n_cases;
    pco_conformance_case *cases; /* every case and variant, in the suite's order */
    uint32_t rounds;             /* seeds tried by a soak; counts are over all, cases of the later are the bad ones */
    pco_conformance_round *each_round; /* of a soak */
    uint32_t n_constants;              /* by kernel and number; none where the plugin does not describe its launches */
    pco_conformance_constant *constants;
    uint32_t n_pipelines; /* of a run that only compiles */
    pco_conformance_pipeline *pipelines;
} pco_conformance_result;

/* 1 for the states that make a run fail: fail, mistrusted, flaky, crashed, hung, device lost. */
int pco_conformance_state_is_bad(pco_conformance_state state);
/* 1 for a record that was not run, because its variant had taken the device down too often; it has that state. */
int pco_conformance_is_given_up(const pco_conformance_case *one);
/* 1 if there is a ratio: pass, fail, mistrusted, waived, flaky. */
int pco_conformance_state_is_judged(pco_conformance_state state);

/* How a run ended, for an exit code: FAIL when something is bad on one of the devices, or one could not be opened or
 * not be run to its end; else NOTHING_TESTED when that holds for one of them. */
typedef enum pco_conformance_verdict {
    PCO_VERDICT_PASS = 0,
    PCO_VERDICT_FAIL = 1,
    PCO_VERDICT_NOTHING_TESTED = 2, /* no case matched, or none could run */
} pco_conformance_verdict;
pco_conformance_verdict pco_conformance_judge(const pco_conformance_result *results, uint32_t count);

/* How many cases were tested, and how many there were with those that were refused or are not promised. */
uint32_t pco_conformance_op_tested(const pco_conformance_op *op); /* of one row */
uint32_t pco_conformance_tested(const pco_conformance_result *results, uint32_t count, uint32_t *all);

/* Number of cases that the options select on a device, which adds shapes at the edges of its kernels (NULL: those of no
 * device); 0 when nothing matches. */
uint32_t pco_conformance_count(const pco_conformance_options *options, const pco_device_info *info);

/* Runs the suite on each device in turn: results[i] for devices[i] (to be cleared even after an error).
 * Errors: OUT_OF_HOST_MEMORY, CANCELLED. A device that is lost or fails is a result, not an error. */
pco_status pco_conformance_run(const pco_conformance_options *options, const pco_conformance_device *devices,
                               uint32_t n_devices, pco_conformance_result *results, pco_error *err) PCO_NODISCARD;
void pco_conformance_clear(pco_conformance_result *results, uint32_t count);

/* ---- a run that survives the device: see docs/conformance.md ---- */

/* Failures that are expected: a file of patterns with reasons. */
typedef struct pco_conformance_waivers pco_conformance_waivers;
typedef struct pco_conformance_waiver {
    uint32_t line; /* in the file */
    const char *reason, *reference;
    uint32_t waived, passed; /* failures that it covered; records that it covers and that passed */
} pco_conformance_waiver;
/* Errors: IO; FORMAT, with the line. */
pco_status pco_conformance_waivers_read(const char *path, pco_conformance_waivers **waivers,
                                        pco_error *err) PCO_NODISCARD;
void pco_conformance_waivers_destroy(pco_conformance_waivers *waivers);
uint32_t pco_conformance_waivers_list(const pco_conformance_waivers *waivers, const pco_conformance_waiver **rows);
/* Waives every bad record of a result that a waiver covers, and counts anew. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_conformance_waive(pco_conformance_waivers *waivers, const pco_conformance_device *device,
                                 pco_conformance_result *result, pco_error *err) PCO_NODISCARD;

/* The log of a run: what is finished, so that a run that was ended goes on where it was. */
typedef struct pco_conformance_log pco_conformance_log;
/* Opens a log or begins it. One that is there must be of the same suite, options and devices. Errors: IO;
 * FORMAT (no log); INVALID (of another run, or in use), in one line. */
pco_status pco_conformance_log_open(const char *path, const pco_conformance_options *options,
                                    const pco_conformance_device *devices, uint32_t n_devices,
                                    pco_conformance_log **log, pco_error *err) PCO_NODISCARD;
void pco_conformance_log_close(pco_conformance_log *log);

typedef struct pco_conformance_isolation {
    char *const *command;             /* of a worker, NULL-terminated: a program that calls pco_conformance_serve */
    uint32_t jobs;                    /* workers at once, at least 1 */
    double timeout;                   /* seconds for one variant of a case */
    pco_conformance_log *log;         /* may be NULL */
    pco_conformance_waivers *waivers; /* may be NULL; counts what they waive */
    const volatile sig_atomic_t *interrupted; /* may be NULL: set to end the run with CANCELLED */
    double deadline;                          /* by base/clock.h, for the end of the run; 0: none */
    uint32_t resumed;                         /* out: cases that the log had */
} pco_conformance_isolation;

/* As pco_conformance_run for one device, whose `plugin` and `device` are not used: worker processes open it.
 * Crash, hang and loss are states of the case under way, and the run goes on. The records and their order do
 * not depend on the number of workers. When the device can no longer be used at all, the result's status and
 * message say so. Errors: OUT_OF_HOST_MEMORY, CANCELLED, IO (a worker cannot be started; the log cannot be
 * written). */
pco_status pco_conformance_run_isolated(const pco_conformance_options *options, pco_conformance_isolation *isolation,
                                        const pco_conformance_device *device, pco_conformance_result *result,
                                        pco_error *err) PCO_NODISCARD;

/* The probes of the isolation's device, in a worker process. A device that crashes, hangs or cannot be opened is no
 * error: the message says so. Errors: OUT_OF_HOST_MEMORY, IO. */
pco_status pco_conformance_probe_isolated(const pco_conformance_isolation *isolation, pco_conformance_probe *probe,
                                          pco_error *err) PCO_NODISCARD;

/* A worker's part: opens the device, answers until there are no more commands. File descriptors 3 and 4 are
 * the parent's. Returns what ended it; the parent has been told. */
enum { PCO_CONFORMANCE_COMMANDS = 3, PCO_CONFORMANCE_ANSWERS = 4 };
typedef pco_status (*pco_conformance_open_fn)(void *user, pco_conformance_device *device, pco_error *err);
pco_status pco_conformance_serve(const pco_conformance_options *options, pco_conformance_open_fn open, void *user,
                                 pco_error *err) PCO_NODISCARD;

/* Makes a result the first round of a soak. A run that was cancelled is a round that was cut, and no failure. Errors:
 * OUT_OF_HOST_MEMORY. */
pco_status pco_conformance_start_rounds(pco_conformance_result *result, pco_error *err) PCO_NODISCARD;

/* Adds the result of a further round (another seed) to a soak's: all is counted, and what went wrong is kept. As
 * above. */
pco_status pco_conformance_add_round(pco_conformance_result *sum, pco_conformance_result *round,
                                     pco_error *err) PCO_NODISCARD;

/* One JSON object: options, devices with their contract, op rows, failures. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_conformance_write_json(const pco_conformance_result *results, const pco_conformance_device *devices,
                                      uint32_t count, pco_writer *out, pco_error *err) PCO_NODISCARD;

/* Reproducers (reproduce.c): a folder with all that one case needs to be seen again, with Portico and
 * without: inputs, expected, got and bounds as .npy, the memory before the run, the kernels, the launches, a
 * README.txt, and, where the plugin can describe its launches, a C program that needs only the Vulkan or
 * OpenCL loader. */
enum {
    PCO_REPRODUCER_ALWAYS = 1u << 0,    /* also when the case passes */
    PCO_REPRODUCER_NO_RUN = 1u << 1,    /* prepare it only: for what crashes, hangs or loses the device */
    PCO_REPRODUCER_NO_DEVICE = 1u << 2, /* leave the device alone: operands and expected values only */
};

/* Runs one case again, of the tier and the operations that the options `of` name (`one`: id, seed, variant; with NO_RUN
 * and NO_DEVICE also detail), and writes the
 * folder, whole or not at all; its parent is created when it is absent, and an older reproducer of that name
 * is replaced. Errors: NOT_FOUND when there is no such case or variant, or when it passes and flags do not
 * have ALWAYS; INVALID when the folder exists and is no reproducer; IO. */
pco_status pco_conformance_write_reproducer(const pco_conformance_device *device, const pco_conformance_options *of,
                                            const pco_conformance_case *one, uint32_t flags, const char *folder,
                                            pco_error *err) PCO_NODISCARD;

/* "OP-ID-VARIANT", the name of a case's folder, into text[size]. */
void pco_conformance_reproducer_name(const pco_conformance_case *one, char *text, size_t size);

/* Does the judge catch what it must? For every case of the tier that matches: the oracle's own values,
 * rounded, must pass; moved just outside the bound (for exact results: with the lowest bit changed) at
 * sampled elements, each must be flagged. Needs no device. */
typedef struct pco_conformance_self_test {
    uint32_t cases, elements_moved;
    uint32_t rejected;  /* cases whose rounded oracle values did not pass */
    uint32_t missed;    /* moved elements that were not flagged */
    uint32_t toothless; /* random cases whose bound cannot tell the result from zero */
    char first[512];    /* the first of these, in words */
} pco_conformance_self_test;
pco_status pco_conformance_test_judge(pco_conformance_tier tier, const char *ops, uint64_t seed,
                                      const pco_contract *contract, pco_conformance_self_test *result,
                                      pco_error *err) PCO_NODISCARD;

#endif
