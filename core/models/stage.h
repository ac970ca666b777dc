/* Stages: an executable of a model for a number of rows, with the handles of what is written and read at each
 * run. Models keep a small family of them, so that after warm-up no length builds anything. */
#ifndef PCO_MODELS_STAGE_H
#define PCO_MODELS_STAGE_H

#include "runtime/session.h"

enum { PCO_STAGE_SIZES = 16 };

/* Handles are PCO_NONE where the graph has no such tensor. */
typedef struct pco_stage {
    pco_executable *executable; /* NULL: not built yet */
    int64_t rows;
    uint32_t ids, features, positions, starts, lengths, source_lengths, row, take, lane,
        which; /* inputs and run values */
    uint32_t logits;
} pco_stage;

/* Sizes first, 4 * first, 16 * first ... below `most`, then `most` itself; returns how many. */
uint32_t pco_stage_sizes(int64_t first, int64_t most, int64_t sizes[PCO_STAGE_SIZES]);

/* Makes the graph's executable (the graph may carry an error, which is then returned) and looks the handles
 * up. The graph is destroyed in any case. */
pco_status pco_stage_create(pco_session *session, pco_graph *graph, const char *name, int64_t rows, pco_stage *stage,
                            pco_error *err) PCO_NODISCARD;
void pco_stage_destroy(pco_stage *stage);

/* Writes the i32 values of a handle; nothing for PCO_NONE. */
pco_status pco_stage_write(pco_stage *stage, uint32_t handle, const int32_t *values, int64_t count,
                           pco_error *err) PCO_NODISCARD;

/* Runs a stage of pco_spec_build_copy until the first `length` rows of each lane l (of `lanes`) are those that lane
 * from[l] had; from[l] < 0: it stays. `starts` is room for [lanes]; what is written at row `beyond` is dropped. */
pco_status pco_stage_copy_lanes(pco_stage *stage, const int32_t *from, int32_t *starts, int64_t lanes, int64_t beyond,
                                int64_t length, pco_error *err) PCO_NODISCARD;

#endif
