/* What bisect.c and bisect_minimise.c share. */
#ifndef CONF_BISECT_INTERNAL_H
#define CONF_BISECT_INTERNAL_H

#include "bisect/bisect.h"
#include "reproduce/reproduce.h"

/* A node with its data: `one` describes, data[i] is operand i in storage format (owned). */
typedef struct bisect_problem {
    conf_case one;
    void *data[PCO_MAX_INPUTS];
} bisect_problem;

typedef struct bisect_apart bisect_apart;

/* A state, by name. */
typedef struct bisect_state {
    struct bisect_state *next;
    char *name;
    uint64_t bytes;
    void *data;
} bisect_state;

struct pco_bisect {
    const pco_conformance_device *device, *reference;
    bisect_apart *apart; /* NULL: the device under test is used in this process */
    bisect_state *states;
    const pco_graph *graph; /* that ran last; its values are valid until the next run */
    void **values;          /* by tensor: of node outputs and inputs, owned unless a state's or a constant's */
    unsigned char *owned;
    uint32_t n_values;
    uint32_t n_ops;
    pco_bisect_op *ops; /* by op number, then packed for the caller */
    pco_bisect_op *packed;
    pco_bisect_fault fault;
    bisect_problem problem; /* of the fault */
};

/* Runs a problem on the device under test, by the plugin's own choice of variant. *result keeps static
 * strings; variant[64] receives the variant. Errors: OUT_OF_HOST_MEMORY; a lost device is a result. */
pco_status bisect_try(const pco_bisect *bisect, const bisect_problem *problem, const conf_observer *observer,
                      pco_conformance_case *result, char *variant, pco_error *err) PCO_NODISCARD;
void bisect_problem_clear(bisect_problem *problem);
/* "softmax f32[1,8]" and the like into one->label, and the id that follows from it. */
void bisect_problem_label(bisect_problem *problem);
pco_status bisect_no_memory(pco_error *err);

/* ---- in a worker process (bisect_apart.c) ---- */

/* NULL: no memory. */
bisect_apart *bisect_apart_create(const pco_bisect_isolation *isolation);
void bisect_apart_destroy(bisect_apart *apart);

/* Gives the problem to a worker, which is started where there is none, and returns; `problem` stays as it is until
 * bisect_apart_end. With `folder` a reproducer is written there. Errors: IO, OUT_OF_HOST_MEMORY. */
pco_status bisect_apart_begin(bisect_apart *apart, const bisect_problem *problem, const conf_reproducer_text *text,
                              const char *folder, bool prepare_only, pco_error *err) PCO_NODISCARD;
/* Waits for its result: as bisect_try. A crash and a hang are results. Errors: what the worker says of itself
 * (DEVICE_LOST: the device could not be opened). */
pco_status bisect_apart_end(bisect_apart *apart, pco_conformance_case *result, char *variant,
                            pco_error *err) PCO_NODISCARD;
/* Was a reproducer written? As conf_reproducer. */
uint32_t bisect_apart_written(const bisect_apart *apart);

#endif
