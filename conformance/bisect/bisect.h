/* A whole model, op by op: each node runs alone on the device under test, fed with what the reference device
 * made of the nodes before it, and is judged as any case of the suite is. */
#ifndef CONF_BISECT_H
#define CONF_BISECT_H

#include "conformance.h"
#include "graph/graph.h"

typedef struct pco_bisect pco_bisect;

/* One row per op of what was run so far. */
typedef struct pco_bisect_op {
    const char *name;     /* static */
    uint32_t nodes;       /* judged */
    uint32_t unsupported; /* of them the device says that it cannot */
    double worst;         /* error over bound */
    char node[128];       /* where */
} pco_bisect_op;

/* The first node that is wrong. */
typedef struct pco_bisect_fault {
    int found;
    char graph[64], node[128], tensor[128]; /* which graph, node, and output */
    char problem[400];                      /* the node's op, types and shapes */
    pco_conformance_case result;            /* label and variant are not set; variant: below */
    char variant[64];
} pco_bisect_fault;

/* The device under test in a worker process: a crash or a hang is the fault of the node under way. */
typedef struct pco_bisect_isolation {
    char *const *command;     /* as in pco_conformance_isolation */
    double timeout;           /* seconds for one node, on the device and in the oracle */
    void (*beat)(void *user); /* while a node is waited for; may be NULL */
    void *user;
} pco_bisect_isolation;

/* Both devices are borrowed until destroy, and so is `isolation` (NULL: all in this process; else device->plugin and
 * device->device are not used). Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_bisect_create(const pco_conformance_device *device, const pco_conformance_device *reference,
                             const pco_bisect_isolation *isolation, pco_bisect **bisect, pco_error *err) PCO_NODISCARD;
void pco_bisect_destroy(pco_bisect *bisect);

/* The values of an input or run value of the graph; fewer bytes than it has are its beginning. */
typedef struct pco_bisect_input {
    const char *name;
    const void *data;
    uint64_t bytes;
} pco_bisect_input;

/* Called before each node; returns 0 to stop (CANCELLED). May be NULL. */
typedef int (*pco_bisect_progress_fn)(void *user, const char *graph, uint32_t node, uint32_t nodes);

/* Runs a graph (as it runs on the device: decomposed and fused) once. States are kept by name from graph to
 * graph, zero at first. Stops at the first wrong node: see pco_bisect_first. Errors: those of the reference
 * device, which must itself be right; DEVICE_LOST is a fault, not an error. */
pco_status pco_bisect_run(pco_bisect *bisect, const pco_graph *graph, const char *name, const pco_bisect_input *inputs,
                          uint32_t n_inputs, pco_bisect_progress_fn progress, void *user, pco_error *err) PCO_NODISCARD;

/* The reference's values of an output of the graph that ran last, or NULL. */
const void *pco_bisect_output(const pco_bisect *bisect, const char *name);

const pco_bisect_fault *pco_bisect_first(const pco_bisect *bisect);
uint32_t pco_bisect_ops(const pco_bisect *bisect, const pco_bisect_op **ops);

/* Makes the problem of the first fault smaller, dimension by dimension, with slices of its own data, as long
 * as it stays wrong. At most `attempts` runs, and none of a node that hung or lost the device, each of which would take
 * as long again. Returns how many were made; the fault's `result` and `problem` follow. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_bisect_minimise(pco_bisect *bisect, uint32_t attempts, uint32_t *made, pco_error *err) PCO_NODISCARD;

/* Writes the reproducer of the fault as it is now. `repeat`: the command that finds it again. */
pco_status pco_bisect_write_reproducer(pco_bisect *bisect, const char *repeat, const char *folder,
                                       pco_error *err) PCO_NODISCARD;

#endif
