/* What the files of the self-test know of each other. */
#ifndef PCO_RUNTIME_SELFTEST_INTERNAL_H
#define PCO_RUNTIME_SELFTEST_INTERNAL_H

#include "graph/graph.h"
#include "portico/plugin.h"
#include "runtime/quarantine.h"
#include "runtime/trial.h"

enum {
    SELFTEST_TENSORS = PCO_MAX_INPUTS + PCO_MAX_OUTPUTS,
    /* Work that a test may be: made smaller until it is below the first; as the node is if its variant is not offered
     * for less, below the second. Products; cpu:reference does some 10^8 a second. */
    SELFTEST_WORK = 2000000,
    SELFTEST_WORK_WHOLE = 16000000,
};

/* One node in a graph of its own, with the values of its operands. */
typedef struct selftest_case {
    pco_graph *graph;
    void *data[SELFTEST_TENSORS]; /* of each tensor; NULL for what the node makes */
    uint64_t window; /* of the part (plugin.h): tensors are cut as if this were the device's limit; 0: not */
} selftest_case;

/* A case from node `node` of a graph. cap 0: as it is; otherwise dimensions above 1.5 cap become cap plus
 * their remainder by 64 (or 32), so that tails of tiles, vectors and blocks stay what they are. Tensors have
 * no values yet. Errors: INVALID when that is no node any more (the sizes are bound to each other);
 * OUT_OF_HOST_MEMORY. */
pco_status selftest_case_make(const pco_graph *graph, uint32_t node, int64_t cap, selftest_case *made,
                              pco_error *err) PCO_NODISCARD;
void selftest_case_free(selftest_case *one);

/* Products, or elements where there are none: about what a run costs. */
double selftest_case_cost(const selftest_case *one);

/* The case on a device, in a variant or by the plugin's choice (PCO_NONE); *node is the trial's. */
pco_trial selftest_trial(const pco_open_device *on, const selftest_case *one, uint32_t variant, pco_node *node);

/* Op, attributes, and type, kind and shape of all operands; and the window. */
uint64_t selftest_case_hash(const selftest_case *one);

/* Values for the operands: the same for the same case everywhere, inside the op's domain; with `special`, NaN and
 * infinities for an op that asks for them. */
pco_status selftest_case_fill(selftest_case *one, int special, pco_error *err) PCO_NODISCARD;

/* Runs the case's node with a variant. in_place: with output 0 in the memory of an operand, if the plugin
 * allows one; *was_in_place tells. results[k], of output k, are malloc'ed. Errors: what the plugin returned. */
pco_status selftest_run(const pco_open_device *on, const selftest_case *one, uint32_t variant, int in_place,
                        int *was_in_place, void **results, pco_error *err) PCO_NODISCARD;
/* The variant that the plugin chooses for the case. */
pco_status selftest_proposed(const pco_open_device *on, const selftest_case *one, uint32_t *variant);
void selftest_results_free(void **results);

/* Has the case this variant, and can the device run it? *forced is then what forces it. */
int selftest_offers(const pco_open_device *on, const selftest_case *one, const pco_variant *variant, uint32_t *forced);
/* Small cases that run what the node does with a variant and `small` does not: sizes (selftest_case_make's cap) and
 * windows, at most `capacity`. *missing: how much runs in none of them. Errors: OUT_OF_HOST_MEMORY. */
typedef struct selftest_choice {
    int64_t cap;
    uint64_t window;
} selftest_choice;
pco_status selftest_cover(const pco_open_device *on, const pco_graph *graph, uint32_t node, const pco_variant *variant,
                          const selftest_case *small, selftest_choice *choices, uint32_t capacity, uint32_t *count,
                          uint32_t *missing, pco_error *err) PCO_NODISCARD;

/* Of the node of an operation of one's own: how far each element of a result may be from `want` by its declaration.
 * `unit` and `unit_of_result` are whole units in the last place of the device's arithmetic and of the result's type.
 * Errors: OUT_OF_HOST_MEMORY, and those of the function `magnitude`. */
pco_status selftest_own_bounds(const selftest_case *one, uint32_t output, double unit, double unit_of_result,
                               const float *want, int64_t count, double *bound, pco_error *err) PCO_NODISCARD;

/* GOOD if the results agree within what both contracts allow. BAD: `seen` says where they do not. Errors:
 * OUT_OF_HOST_MEMORY, and there is no verdict. */
pco_status selftest_agree(const selftest_case *one, const pco_contract *contract, void *const *got, void *const *want,
                          pco_verdict *verdict, char *seen, size_t size, pco_error *err);

#endif
