/* What the files of a trial know of each other. */
#ifndef PCO_RUNTIME_TRIAL_STEP_H
#define PCO_RUNTIME_TRIAL_STEP_H

#include "base/error.h"

/* The status, with what was being done in front of the message where the trial says that. */
#define TRIAL_STEP(trial, err, status, ...) ((trial)->says_steps ? pco_fail_prefix(err, status, __VA_ARGS__) : (status))

static inline pco_status trial_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
}

/* The room that belongs to so many bytes of a tensor or a workspace (plugin.h: pco_place). */
static inline uint64_t trial_room(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

#endif
