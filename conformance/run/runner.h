/* Runs one case on one device: a part of one node, memory of its own, every variant in turn. */
#ifndef CONF_RUNNER_H
#define CONF_RUNNER_H

#include "cases/cases.h"
#include "run/judge.h"
#include "run/problem.h"

#include "runtime/trial.h"

/* What is to be done with the outcome of one variant. */
typedef void (*conf_report_fn)(void *user, pco_conformance_case *result);

/* Runs all variants of a case that match the pattern (NULL: all), and reports each. Returns DEVICE_LOST when
 * the device is gone, OUT_OF_HOST_MEMORY; other failures are results. */
pco_status conf_run_case(const pco_conformance_device *device, const conf_case *one,
                         const pco_conformance_options *options, conf_report_fn report, void *user,
                         pco_error *err) PCO_NODISCARD;

/* The variants of a problem that match (or its own choice). As conf_run_case. */
pco_status conf_run_problem(const pco_conformance_device *device, conf_problem *problem,
                            const pco_conformance_options *options, conf_report_fn report, void *user,
                            pco_error *err) PCO_NODISCARD;

/* A case whose operands are too large to be held here (runner_large.c). `blank` is its result to start from.
 */
pco_status conf_run_large(const pco_conformance_device *device, const conf_case *one,
                          const pco_conformance_options *options, const pco_conformance_case *blank,
                          conf_report_fn report, void *user, pco_error *err) PCO_NODISCARD;

/* The binding limit with which a kernel sees what it has to see of each tensor, and some to spare, where an op is cut
 * along `split` (must_fit.c). */
uint64_t conf_split_bytes(const conf_problem *problem, pco_split_rule split);

/* Is it only the size for which the device refused this problem, in this variant (NULL: in all), and must that size fit
 * (must_fit.c)? Then `detail`, which holds the device's reason, says so. */
bool conf_must_fit(const pco_conformance_device *device, const conf_problem *problem, const pco_variant *variant,
                   char *detail, size_t size);

/* A case that is a program of several nodes (runner_chain.c). */
pco_status conf_run_chain(const pco_conformance_device *device, const conf_case *one,
                          const pco_conformance_options *options, const pco_conformance_case *blank,
                          conf_report_fn report, void *user, pco_error *err) PCO_NODISCARD;

/* A case as other suites judge it (runner_norm.c); reports nothing where they have no such case. */
pco_status conf_run_norm(const pco_conformance_device *device, const conf_case *one,
                         const pco_conformance_options *options, const pco_conformance_case *blank,
                         conf_report_fn report, void *user, pco_error *err) PCO_NODISCARD;

/* ---- one execution (runner_run.c) ---- */

/* A problem on a device in the variant that problem->node.variant names. */
typedef struct conf_run_state {
    const pco_conformance_device *device;
    conf_problem *problem;
    pco_trial trial;
    void *first[PCO_MAX_OUTPUTS];           /* results of the first run */
    const struct conf_observer *observer;   /* may be NULL */
    struct conf_constants_watch *constants; /* the same */
    pco_variant variant;                    /* that runs */
    const char *variant_text;               /* what the observer is told */
    bool bare;                              /* what lies around the results is not looked at */
    pco_conformance_invariance *invariance; /* what pieces found is counted here; may be NULL */
    const struct conf_placement *placement; /* where its memory lies; NULL: as by default */
    uint32_t overlay[2]; /* tensor 0 lies in the memory of tensor 1 (both only read); PCO_NONE: not */
} conf_run_state;

pco_open_device conf_open_device(const pco_conformance_device *device);
conf_run_state conf_run_start(const pco_conformance_device *device, conf_problem *problem);
/* From now on variant `index` of these (pco_trial_variants) is meant. */
void conf_run_force(conf_run_state *run, const pco_variant *variants, uint32_t index);
/* What the plugin wants, and its constants. */
pco_status conf_run_propose(conf_run_state *run, pco_error *err) PCO_NODISCARD;
/* Runs `times` times, output 0 in the memory of tensor `in_place` (PCO_NONE: its own). The first run of a
 * state sets `first`; all others must give the same bits: INTERNAL, and `what` differs. The first finds its
 * memory poisoned, the second as the first left it, the third zeroed, the others again as it was left. */
pco_status conf_run_times(conf_run_state *run, uint32_t in_place, int times, const char *what,
                          pco_error *err) PCO_NODISCARD;
void conf_run_clear(conf_run_state *run); /* what propose and the runs allocated */

/* ---- replays (runner_replay.c) ---- */

/* The last cases that ran, with programs that are ready: they are executed in turn between the replays of a case. */
typedef struct conf_companions conf_companions;
/* `alive` is called about once a second while a case is executed again and again: that takes longer than one run of it
 * may. */
typedef void (*conf_alive_fn)(void *user);
pco_status conf_companions_create(conf_companions **companions, conf_alive_fn alive, void *user,
                                  pco_error *err) PCO_NODISCARD;
void conf_companions_destroy(conf_companions *companions); /* before the device is closed */
/* The case in the variant that the plugin chooses, if it can run it. Errors: DEVICE_LOST, OUT_OF_HOST_MEMORY. */
pco_status conf_companions_add(conf_companions *companions, const pco_conformance_device *device, const conf_case *one,
                               uint64_t seed, pco_error *err) PCO_NODISCARD;

/* Prepares the problem once more and executes it options->replays times (0: nothing), results judged and counted; what
 * it finds is added to the verdict in *result. Errors: DEVICE_LOST, OUT_OF_HOST_MEMORY. */
pco_status conf_run_replay(conf_run_state *run, const pco_conformance_options *options, pco_conformance_case *result,
                           pco_error *err) PCO_NODISCARD;

/* ---- the same work in other places (runner_placed.c) ---- */

/* Where tensors lie and what lies around them. */
typedef struct conf_placement {
    const char *words;
    uint32_t shift; /* as pco_trial_placement */
    bool regrouped; /* one buffer for all where each had its own, and the other way round */
    bool recycled;
    bool last; /* each in a buffer of its own, which ends where it ends */
    uint8_t around[4];
} conf_placement;

typedef enum conf_places {
    CONF_PLACES_NONE,
    CONF_PLACES_LAST, /* each tensor at the end of a buffer of its own */
    CONF_PLACES_ALL,
} conf_places;

/* The same problem at other offsets, between other neighbours, in recycled memory and at the end of its buffers: the
 * same bits as in run->first. Then (ALL) in one program with other operands, which are judged, and with the first ones
 * again. INTERNAL: a difference, in words. */
pco_status conf_run_placed(conf_run_state *run, conf_places places, pco_error *err) PCO_NODISCARD;

/* ---- the same work in other pieces (runner_pieces.c) ---- */

/* Runs parts of the problem again as problems of their own, in the same variant, and compares bit for bit:
 * equal operands as one tensor and in one place, a row alone, a prompt in chunks. INTERNAL: a difference, in
 * words. Where the piece has no such variant, nothing is compared. `rows`: how many single rows are tried; 0:
 * only equal operands. */
pco_status conf_run_pieces(const conf_run_state *whole, int rows, pco_error *err) PCO_NODISCARD;

/* ---- one recorded program, executed again and again (runner_run.c) ---- */

typedef struct conf_session {
    const pco_conformance_device *device;
    pco_trial *trial;
    conf_run_state *run; /* NULL: a program of several nodes */
    pco_trial_memory memory;
    pco_program *program;
    uint32_t until; /* segments, from the first, that the program needs (conf_program_look) */
    bool no_more;   /* the next run submits only those */
} conf_session;

/* Where a case lies unless something else is wanted: between canaries, in one buffer or in several, at odd or at even
 * multiples of alignments. */
pco_trial_placement conf_usual_placement(const conf_case *one);
/* Lays the problem out and prepares its program; close it also after an error. */
pco_status conf_session_open(conf_session *session, conf_run_state *run, uint32_t in_place,
                             pco_error *err) PCO_NODISCARD;
/* The rest of that, where trial and memory are laid out. `constants` may be NULL. */
pco_status conf_session_prepare(conf_session *session, struct conf_constants_watch *constants,
                                pco_error *err) PCO_NODISCARD;
/* Run number i (from 0) finds poison, what the one before left, zeros, and then again what was left. */
pco_status conf_session_fill(conf_session *session, int i, pco_error *err) PCO_NODISCARD;
/* Submits it, waits, reads everything back, and checks what lies around its results. What it finds there is up to the
 * caller. */
pco_status conf_session_execute(conf_session *session, pco_error *err) PCO_NODISCARD;
/* Keeps the results as run->first if there are none yet, else compares them with those, bit for bit. */
pco_status conf_session_compare(conf_session *session, const char *what, pco_error *err) PCO_NODISCARD;
void conf_session_close(conf_session *session);

/* Checks what a prepared program says of its segments and of its pieces of code (plugin.h: segments_until, pipelines)
 * against what it launches (describe), and what that writes against what may be written. `until`: how many segments its
 * last node needs. INTERNAL: they disagree. */
pco_status conf_program_look(const conf_session *session, uint32_t *until, pco_error *err) PCO_NODISCARD;

/* ---- looking on ---- */

/* What a case of runner_large.c has instead of images of its memory. */
typedef struct conf_large_view {
    uint32_t n_buffers; /* of operands and results, by tensor, then the workspace, if there is one */
    struct {
        uint64_t bytes, data; /* of the buffer; of the operand that it begins with (0: none), poison behind it */
        uint64_t period;      /* the operand repeats the bytes of `table` */
        const uint8_t *table;
    } buffers[CONF_MAX_TENSORS + 1];
    uint32_t n_rows; /* that are judged */
    const int64_t *rows;
    bool columns; /* of a result they are columns */
    /* The row as a problem with the oracle's answer; release it with conf_problem_clear, also after an error. */
    pco_status (*make_row)(const void *run, int64_t row, conf_problem *piece, pco_error *err);
    const void *run;
} conf_large_view;
enum { CONF_LARGE_POISON = 0x7f, CONF_LARGE_PERIOD = 1000003 /* elements, a prime */ };

/* One execution, or a program that is about to be executed. */
typedef struct conf_execution {
    const pco_conformance_device *device;
    const conf_problem *problem;
    const pco_trial_memory *memory; /* image: before the first run; after: behind this one, if it ran */
    pco_program *program;
    const char *variant;
    bool ran;          /* false: only prepared */
    pco_status status; /* of the run and the checks of memory and repeatability; the judge comes later */
    const char *message;
    const conf_large_view *large; /* NULL, or instead of `memory` */
} conf_execution;

/* `observe` is called after each execution of the whole problem, or, with prepare_only, instead of the first; then
 * nothing runs, and where it is NULL, no answer is worked out. */
typedef struct conf_observer {
    void (*observe)(void *user, const conf_execution *execution); /* or NULL */
    void *user;
    bool prepare_only;
} conf_observer;

/* Is nothing run, but prepared? */
static inline bool conf_only_prepares(const pco_conformance_options *options)
{
    return options->compile_only || (options->observer && options->observer->prepare_only);
}

/* Does nobody look at the right answer? */
static inline bool conf_needs_no_answer(const pco_conformance_options *options)
{
    return options->compile_only ||
           (options->observer && options->observer->prepare_only && !options->observer->observe);
}

#endif
