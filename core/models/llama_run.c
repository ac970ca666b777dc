#include "models/llama_run.h"

#include "base/error.h"
#include "models/stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LLAMA_LARGEST_CHUNK = 256 };

struct pco_llama_run {
    pco_session *session;
    const pco_weights *weights;
    pco_llama_config llama; /* what model.config points to, of a Llama */
    pco_causal_model model;
    int64_t context, position;
    uint32_t n_sizes;
    int64_t sizes[PCO_STAGE_SIZES + 1];
    pco_stage stages[2][PCO_STAGE_SIZES + 1]; /* [1]: with the logits of every row */
    uint32_t built;
    int32_t ids[LLAMA_LARGEST_CHUNK], positions[LLAMA_LARGEST_CHUNK];
};

static pco_status llama_stage(pco_llama_run *run, uint32_t size, int all, pco_stage **out, pco_error *err)
{
    pco_stage *stage = *out = &run->stages[all][size];
    if (stage->executable) return PCO_OK;
    char name[64];
    snprintf(name, sizeof name, "%s, %" PRId64 " token%s", run->model.name, run->sizes[size],
             run->sizes[size] == 1 ? "" : "s");
    pco_graph *graph = pco_graph_create();
    if (graph) {
        const pco_nn nn = {.graph = graph, .weights = run->weights};
        run->model.build(&nn, run->model.config, run->context, run->sizes[size], all);
    }
    pco_status status = pco_stage_create(run->session, graph, name, run->sizes[size], stage, err);
    if (!status) run->built++;
    return status;
}

static void llama_build(const pco_nn *nn, const void *config, int64_t context, int64_t rows, int all_logits)
{
    pco_llama_build(nn, config, context, rows, all_logits);
}

/* `llama` is copied into the run, and its config pointed to, when it is not NULL. */
static pco_status llama_create(pco_session *session, const pco_weights *weights, const pco_causal_model *model,
                               const pco_llama_config *llama, int64_t context, pco_llama_run **out,
                               pco_error *err)
{
    *out = NULL;
    pco_llama_run *run = calloc(1, sizeof *run);
    if (!run) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a model");
    run->session = session;
    run->weights = weights;
    run->model = *model;
    if (llama) {
        run->llama = *llama;
        run->model.config = &run->llama;
    }
    run->context = context;
    int64_t most = context < LLAMA_LARGEST_CHUNK ? context : LLAMA_LARGEST_CHUNK;
    run->n_sizes = 1;
    run->sizes[0] = 1;
    if (most > 1) run->n_sizes += pco_stage_sizes(16, most, run->sizes + 1);
    pco_stage *step;
    pco_status status = llama_stage(run, 0, 0, &step, err);
    if (status) {
        pco_llama_run_destroy(run);
        return status;
    }
    *out = run;
    return PCO_OK;
}

pco_status pco_llama_run_create(pco_session *session, const pco_weights *weights,
                                const pco_llama_config *config, int64_t context, pco_llama_run **out,
                                pco_error *err)
{
    const pco_causal_model model = {.name = "llama", .build = llama_build, .vocab_size = config->vocab_size};
    return llama_create(session, weights, &model, config, context, out, err);
}

pco_status pco_llama_run_create_causal(pco_session *session, const pco_weights *weights,
                                       const pco_causal_model *model, int64_t context, pco_llama_run **out,
                                       pco_error *err)
{
    return llama_create(session, weights, model, NULL, context, out, err);
}

void pco_llama_run_destroy(pco_llama_run *run)
{
    if (!run) return;
    for (uint32_t i = 0; i < run->n_sizes; i++) {
        pco_stage_destroy(&run->stages[0][i]);
        pco_stage_destroy(&run->stages[1][i]);
    }
    free(run);
}

pco_status pco_llama_run_warm_up(pco_llama_run *run, pco_error *err)
{
    pco_stage *stage;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; !status && i < run->n_sizes; i++) status = llama_stage(run, i, 0, &stage, err);
    return status;
}

void pco_llama_run_reset(pco_llama_run *run)
{
    run->position = 0;
}

void pco_llama_run_rewind(pco_llama_run *run, int64_t position)
{
    if (position >= 0 && position < run->position) run->position = position;
}

int64_t pco_llama_run_position(const pco_llama_run *run)
{
    return run->position;
}

uint32_t pco_llama_run_stages(const pco_llama_run *run)
{
    return run->built;
}

/* The smallest size that holds `count` rows, or the one below it where more than half of the rows would be
 * wasted; the largest when there are more. */
static uint32_t llama_choose(const pco_llama_run *run, int64_t count)
{
    uint32_t size = 0;
    while (size + 1 < run->n_sizes && run->sizes[size] < count) size++;
    if (size > 1 && run->sizes[size] > 2 * count) size--;
    return size;
}

/* Runs the next `count` rows (at most the stage's) from the present position. */
static pco_status llama_chunk(pco_llama_run *run, pco_stage *stage, const int32_t *ids, int64_t count,
                              pco_error *err)
{
    const int32_t start = (int32_t)run->position, end = (int32_t)(run->position + count),
                  last = (int32_t)count - 1;
    for (int64_t i = 0; i < stage->rows; i++) {
        run->ids[i] = i < count ? ids[i] : 0;
        run->positions[i] = start + (int32_t)(run->model.position_offset + i);
    }
    pco_status status = pco_stage_write(stage, stage->ids, run->ids, stage->rows, err);
    if (!status) status = pco_stage_write(stage, stage->positions, run->positions, stage->rows, err);
    if (!status) status = pco_stage_write(stage, stage->starts, &start, 1, err);
    if (!status) status = pco_stage_write(stage, stage->lengths, &end, 1, err);
    if (!status) status = pco_stage_write(stage, stage->row, &last, 1, err);
    if (!status) status = pco_executable_run(stage->executable, err);
    return status;
}

static pco_status llama_check_ids(const pco_llama_run *run, const int32_t *ids, int64_t count, pco_error *err)
{
    if (run->position + count > run->context)
        return pco_fail(err, PCO_ERROR_INVALID, "%" PRId64 " tokens do not fit into a context of %" PRId64,
                        run->position + count, run->context);
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= run->model.vocab_size)
            return pco_fail(err, PCO_ERROR_INVALID,
                            "token %" PRId64 " is %d, outside a vocabulary of %" PRId64, i, ids[i],
                            run->model.vocab_size);
    return PCO_OK;
}

static pco_status llama_run_all(pco_llama_run *run, const int32_t *ids, int64_t count, int all, float *logits,
                                pco_error *err)
{
    const int64_t begin = run->position;
    uint64_t row_bytes = (uint64_t)run->model.vocab_size * sizeof *logits;
    pco_status status = llama_check_ids(run, ids, count, err);
    for (int64_t done = 0; !status && done < count;) {
        pco_stage *stage;
        status = llama_stage(run, llama_choose(run, count - done), all, &stage, err);
        if (status) break;
        int64_t rows = count - done < stage->rows ? count - done : stage->rows;
        status = llama_chunk(run, stage, ids + done, rows, err);
        int last = done + rows == count;
        if (!status && all)
            status =
                pco_executable_read(stage->executable, stage->logits, logits + done * run->model.vocab_size,
                                    (uint64_t)rows * row_bytes, err);
        else if (!status && last && logits)
            status = pco_executable_read(stage->executable, stage->logits, logits, row_bytes, err);
        run->position += rows;
        done += rows;
    }
    if (status) run->position = begin;
    return status;
}

pco_status pco_llama_run_append(pco_llama_run *run, const int32_t *ids, int64_t count, float *logits,
                                pco_error *err)
{
    return llama_run_all(run, ids, count, 0, logits, err);
}

pco_status pco_llama_run_score(pco_llama_run *run, const int32_t *ids, int64_t count, float *logits,
                               pco_error *err)
{
    return llama_run_all(run, ids, count, 1, logits, err);
}

pco_executable_stats pco_llama_run_inspect(const pco_llama_run *run)
{
    for (uint32_t i = run->n_sizes; i-- > 0;)
        for (int all = 1; all >= 0; all--)
            if (run->stages[all][i].executable) return pco_executable_inspect(run->stages[all][i].executable);
    return (pco_executable_stats){0};
}
