/* ONNX's own node tests, run through the graph API and a session: another project's opinion of what the ops
 * mean, composition included. Tolerance as ONNX uses it: |y - expected| <= 1e-7 + 1e-3 |expected|. */
#ifndef CONF_ONNX_CASES_H
#define CONF_ONNX_CASES_H

#include "runtime/session.h"

typedef enum pco_onnx_state {
    PCO_ONNX_PASS = 0,
    PCO_ONNX_FAIL = 1,
    PCO_ONNX_SKIPPED = 2, /* the node cannot be expressed; the detail says why */
    PCO_ONNX_STATES = 3,
} pco_onnx_state;

typedef struct pco_onnx_case {
    const char *name; /* valid during the callback */
    pco_onnx_state state;
    double ratio; /* worst error over tolerance */
    pco_executable_stats stats;
    char detail[512];
} pco_onnx_case;

/* Returns 0 to stop. */
typedef int (*pco_onnx_progress_fn)(void *user, const pco_onnx_case *result);

typedef struct pco_onnx_result {
    uint32_t count[PCO_ONNX_STATES];
    char first_failure[640];
} pco_onnx_result;

/* Runs the cases in `folder` whose names match the shell pattern (NULL: all), in the order of their names.
 * Errors: NOT_FOUND when there is no such folder or no case in it (a test then skips), CANCELLED,
 * DEVICE_LOST, OUT_OF_HOST_MEMORY. Wrong results are counted, not errors. */
pco_status pco_onnx_cases_run(pco_session *session, const char *folder, const char *pattern,
                              pco_onnx_progress_fn progress, void *user, pco_onnx_result *result,
                              pco_error *err) PCO_NODISCARD;

#endif
