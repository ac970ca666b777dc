#include "models/stage.h"

#include "base/error.h"

#include <string.h>

uint32_t pco_stage_sizes(int64_t first, int64_t most, int64_t sizes[PCO_STAGE_SIZES])
{
    uint32_t count = 0;
    for (int64_t size = first; size < most && count + 1 < PCO_STAGE_SIZES; size *= 4) sizes[count++] = size;
    sizes[count++] = most;
    return count;
}

pco_status pco_stage_create(pco_session *session, pco_graph *graph, const char *name, int64_t rows, pco_stage *stage,
                            pco_error *err)
{
    if (!graph) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a graph");
    const pco_executable_params params = {.size = sizeof params, .name = name};
    *stage = (pco_stage){.rows = rows};
    pco_status status = pco_graph_check(graph, err);
    if (!status) status = pco_executable_create(session, graph, &params, &stage->executable, err);
    pco_graph_destroy(graph);
    if (status) return status;
    stage->ids = pco_executable_tensor(stage->executable, "ids");
    stage->features = pco_executable_tensor(stage->executable, "features");
    stage->positions = pco_executable_tensor(stage->executable, "positions");
    stage->starts = pco_executable_tensor(stage->executable, "starts");
    stage->lengths = pco_executable_tensor(stage->executable, "lengths");
    stage->source_lengths = pco_executable_tensor(stage->executable, "source_lengths");
    stage->row = pco_executable_tensor(stage->executable, "row");
    stage->take = pco_executable_tensor(stage->executable, "take");
    stage->lane = pco_executable_tensor(stage->executable, "lane");
    stage->which = pco_executable_tensor(stage->executable, "rows");
    stage->logits = pco_executable_tensor(stage->executable, "logits");
    return PCO_OK;
}

void pco_stage_destroy(pco_stage *stage)
{
    pco_executable_destroy(stage->executable);
    *stage = (pco_stage){0};
}

pco_status pco_stage_write(pco_stage *stage, uint32_t handle, const int32_t *values, int64_t count, pco_error *err)
{
    if (handle == PCO_NONE) return PCO_OK;
    return pco_executable_write(stage->executable, handle, values, (uint64_t)count * sizeof *values, err);
}

pco_status pco_stage_copy_lanes(pco_stage *stage, const int32_t *from, int32_t *starts, int64_t lanes, int64_t beyond,
                                int64_t length, pco_error *err)
{
    enum { MOST = 256 };
    int32_t rows[MOST];
    pco_status status = PCO_OK;
    if (stage->rows > MOST) return pco_fail(err, PCO_ERROR_INTERNAL, "a copy of %d rows", (int)stage->rows);
    for (int64_t done = 0; !status && done < length; done += stage->rows) {
        for (int64_t i = 0; i < stage->rows; i++) rows[i] = (int32_t)(done + i);
        for (int64_t lane = 0; lane < lanes; lane++) starts[lane] = (int32_t)(from[lane] < 0 ? beyond : done);
        status = pco_stage_write(stage, stage->which, rows, stage->rows, err);
        if (!status) status = pco_stage_write(stage, stage->starts, starts, lanes, err);
        if (!status) status = pco_stage_write(stage, stage->take, from, lanes, err);
        if (!status) status = pco_executable_run(stage->executable, err);
    }
    return status;
}
