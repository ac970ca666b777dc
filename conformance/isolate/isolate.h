/* A run in child processes, which a device can crash, hang or lose without ending it. See isolate.c. */
#ifndef CONF_ISOLATE_H
#define CONF_ISOLATE_H

#include "run/constants.h"
#include "run/pipelines.h"
#include "run/runner.h"

#include "formats/json.h"

#include <stdbool.h>
#include <sys/types.h>

/* ---- the cases of a run, in order (isolate_queue.c) ---- */

typedef struct conf_listed {
    uint32_t op, id;
    const char *op_name, *regime, *dtype; /* static */
    char *label;
    uint32_t begun; /* by how many workers, one after the other */
    bool done;
} conf_listed;

typedef struct conf_list {
    uint32_t count, capacity;
    conf_listed *items;
    uint32_t *by_id; /* indices, sorted by id */
} conf_list;

pco_status conf_list_make(conf_list *list, const pco_conformance_options *options, const pco_device_info *info,
                          pco_error *err) PCO_NODISCARD;
void conf_list_clear(conf_list *list);
/* Index of a case; PCO_NONE: no such case. */
uint32_t conf_list_find(const conf_list *list, uint32_t id);

/* One record: unit n of a case is its n-th variant. */
typedef struct conf_unit {
    uint32_t order, unit; /* order: index of the case in the list */
    pco_conformance_case one;
} conf_unit;

typedef struct conf_units {
    uint32_t count, capacity;
    conf_unit *items;
} conf_units;

/* Takes a copy of the record. Errors: OUT_OF_HOST_MEMORY. */
pco_status conf_units_add(conf_units *units, uint32_t order, uint32_t unit, const pco_conformance_case *one,
                          pco_error *err) PCO_NODISCARD;
void conf_units_clear(conf_units *units);
/* By case, then variant. */
void conf_units_sort(conf_units *units);

/* Cases of a group after which the device gave wrong answers: each is tried alone. */
typedef struct conf_family {
    uint32_t left, lost; /* cases not yet judged; cases after which the device was lost */
    conf_units held;     /* records of the others */
} conf_family;

/* Cases of one op that a worker is given at once: [begin, end) of the list without those that are done. */
typedef struct conf_group {
    uint32_t begin, end;
    uint32_t from;       /* units of the first case that are known already */
    uint32_t handed;     /* workers that were gone when they were to get it */
    bool taken, begun;   /* begun: a worker has had it; it comes before the others */
    conf_family *family; /* NULL, or shared by groups of one case */
} conf_group;

enum { CONF_GROUP = 16 }; /* cases; a known question is asked after each group */

/* The bound on all that is done again: a case is begun by a worker once, once more behind each variant that a worker
 * was lost in, and once more alone when the device was spoilt after its group. Each of these adds a record or makes the
 * group smaller, so a case that is begun more often, and a group that cannot be handed over, are faults that end the
 * run. */
enum { CONF_MAX_BEGUN = PCO_VARIANTS + 2, CONF_MAX_HANDED = 3 };

typedef struct conf_queue {
    const conf_list *list;
    uint32_t count, capacity, open; /* open: not taken */
    conf_group *groups;
} conf_queue;

/* All groups of the cases that are not done. Errors: OUT_OF_HOST_MEMORY. */
pco_status conf_queue_make(conf_queue *queue, const conf_list *list, pco_error *err) PCO_NODISCARD;
void conf_queue_clear(conf_queue *queue);
pco_status conf_queue_add(conf_queue *queue, const conf_group *group, pco_error *err) PCO_NODISCARD;
/* The next group for a worker that has run `op` (0: none), so that kernels that it has are used again; ops
 * that others[n] work on are left to them while there is something else. Slow ops come first. False: there is none. */
bool conf_queue_take(conf_queue *queue, uint32_t op, const uint32_t *others, uint32_t n, conf_group *group);

/* After this many crashes, hangs or losses in one variant of an op, the rest of it is not run. */
enum { CONF_MAX_CRASHES = 3 };
#define CONF_NOT_RUN "not run: this variant of the op had taken the device down %d times"

/* Did `variant` (of that subgroup width) of the op crash so often in cases before `order`? The state of the
 * crash that ended it, in the order of the cases, or PCO_CASE_PASS. */
pco_conformance_state conf_units_banned(const conf_units *units, uint32_t op, const char *variant, uint32_t width,
                                        uint32_t order);

/* ---- one worker process (process.c) ---- */

enum { CONF_TAIL = 1024 };

typedef struct conf_process {
    pid_t pid;          /* 0: none */
    int in, out, error; /* commands to it, answers, what it prints; -1: closed */
    char *line;         /* of answers, not yet complete */
    size_t used, size;
    char tail[CONF_TAIL]; /* the last that it printed */
    size_t tail_used;
} conf_process;

/* Starts `command` in a process group of its own, commands as its file descriptor 3 and answers as 4. */
pco_status conf_process_start(conf_process *process, char *const *command, pco_error *err) PCO_NODISCARD;
/* Sends a line. False: it is gone. */
bool conf_process_send(conf_process *process, const char *line);
/* Reads what is there, without waiting. `answer` gets each whole line; it returns false to stop reading.
 * Returns false when the other end is closed. */
bool conf_process_read(conf_process *process, bool (*answer)(void *user, char *line), void *user);
/* Passes on to stderr what was printed, and keeps the end of it. */
void conf_process_drain(conf_process *process);
/* Is it dead? Then *state is that of waitpid. */
bool conf_process_ended(conf_process *process, int *state);
void conf_process_kill(conf_process *process);
/* Closes what is open and waits for its end, killing it after `seconds`. Returns the state of waitpid;
 * *killed: it did not end by itself. */
int conf_process_finish(conf_process *process, double seconds, bool *killed);
/* "died of a segmentation fault; it printed: ..." into text. */
void conf_process_describe(const conf_process *process, int state, char *text, size_t size);

/* ---- the run (isolate.c: who does what; isolate_verdict.c: what is concluded from it) ---- */

/* One of so many workers at once, and who follows it where it ends. */
typedef struct conf_job {
    conf_process process;
    bool started, ready, busy, stopped, closed; /* stopped: it said why it ends; closed: no worker is started here */
    uint32_t op;
    conf_group group;
    conf_units pending; /* records of the group */
    uint32_t order;     /* the case under way; PCO_NONE: none is */
    uint32_t unit;      /* of its next record */
    bool begun;         /* a case of the group */
    bool announced;     /* `next` has begun and has no record yet */
    bool whole;         /* ... and no variant yet; without `announced`: the last record was of the case as a whole */
    pco_conformance_case next;
    bool hung;
    uint32_t question; /* that is being asked */
    double heard;      /* when it said something */
    char why[256];
    struct conf_isolated *run;
} conf_job;

typedef struct conf_isolated {
    const pco_conformance_options *options;
    pco_conformance_isolation *isolation;
    const pco_conformance_device *device;
    conf_list list;
    conf_queue queue;
    conf_units units, crashes; /* all records; those that took the device or the process down */
    conf_constants constants;
    conf_pipelines pipelines;
    uint32_t n_jobs, done;
    conf_job *jobs;
    uint32_t questions; /* that may be asked: those after which the device did not die at once */
    uint32_t known;     /* what the device knew at first */
    bool asked;
    uint32_t failed_starts; /* in a row */
    bool not_opened;        /* not even once */
    pco_status lost;        /* the device cannot be used any more ... */
    char message[256];      /* ... and why */
    pco_status status;
    pco_error *err;
} conf_isolated;

/* The worker of a job is gone, or was sent away because it hung. What it had begun is judged and committed,
 * the rest of its group queued again. `how`: in words. */
void conf_job_gone(conf_job *job, const char *how);
/* All cases of the group have run and the device was asked. */
void conf_job_asked(conf_job *job, bool sane);

/* ---- what it is asked: known.c ---- */

/* Asks the questions i whose bit is in `wanted`: small cases with exact answers. Bit i of the mask: it was
 * answered rightly; what the device does not support, or always gets wrong, has no bit. `asks` (may be NULL)
 * is told before each. Errors: DEVICE_LOST, OUT_OF_HOST_MEMORY. */
enum { CONF_QUESTIONS = 7 }; /* a mask of all */
pco_status conf_known_ask(const pco_conformance_device *device, uint32_t wanted,
                          void (*asks)(void *user, uint32_t question), void *user, uint32_t *mask,
                          pco_error *err) PCO_NODISCARD;

/* ---- the log (run_log.c) and waivers (waivers.c) ---- */

/* Adds the records of finished cases of this device and seed, marks the cases done, and notes the constants. */
pco_status conf_log_replay(pco_conformance_log *log, const char *device_id, uint64_t seed, conf_list *list,
                           conf_units *units, conf_constants *constants, pco_error *err) PCO_NODISCARD;
/* Appends a value that a constant took; it is on the disk with the next records. */
void conf_log_constant(pco_conformance_log *log, const char *device_id, uint64_t seed,
                       const pco_conformance_constant *seen);
/* Appends records; those of cases [begin, end) are then complete. It is on the disk on return. Errors: IO. */
pco_status conf_log_write(pco_conformance_log *log, const char *device_id, uint64_t seed, const conf_units *units,
                          const conf_list *list, uint32_t begin, uint32_t end, pco_error *err) PCO_NODISCARD;
/* Is this bad record waived? */
bool conf_waivers_cover(const pco_conformance_waivers *waivers, const pco_conformance_device *device,
                        const pco_conformance_case *one);

#endif
