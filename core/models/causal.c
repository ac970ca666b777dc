#include "models/causal.h"

#include "base/error.h"
#include "models/graphs.h"
#include "models/stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAUSAL_LARGEST_CHUNK = 256 };

struct pco_causal {
    pco_session *session;
    const pco_weights *weights;
    pco_model_spec spec;
    int64_t context, position;
    uint32_t n_sizes;
    int64_t sizes[PCO_STAGE_SIZES + 1];
    pco_stage stages[2][PCO_STAGE_SIZES + 1]; /* [1]: with the logits of every row */
    uint32_t built;
    int32_t ids[CAUSAL_LARGEST_CHUNK], positions[CAUSAL_LARGEST_CHUNK];
};

void pco_causal_build(const pco_nn *nn, const pco_model_spec *spec, int64_t context, int64_t rows, int all_logits)
{
    pco_graph *graph = nn->graph;
    const int64_t one[1] = {1}, row_shape[2] = {1, rows};
    uint32_t ids = pco_graph_input(graph, "ids", PCO_I32, 2, row_shape);
    pco_spec_decoder decoder = {.memory = PCO_NONE, .padding = {PCO_NONE, PCO_NONE}};
    decoder.positions = pco_graph_value(graph, "positions", PCO_I32, 2, row_shape);
    decoder.starts = pco_graph_value(graph, "starts", PCO_I32, 1, one);
    decoder.lengths = pco_graph_value(graph, "lengths", PCO_I32, 1, one);
    decoder.key_states = pco_spec_states(nn, spec, context, "cache.key");
    decoder.value_states = pco_spec_states(nn, spec, context, "cache.value");
    if (graph->status) return;
    uint32_t x = pco_spec_decode_layers(nn, spec, ids, &decoder);
    pco_graph_scope(graph, "%s", spec->stacks[PCO_DECODER].head_scope);
    x = pco_reshape(graph, x, 2, (int64_t[]){rows, spec->d_model});
    if (!all_logits && rows > 1) x = pco_gather(graph, x, pco_graph_value(graph, "row", PCO_I32, 1, (int64_t[]){1}), 0);
    pco_graph_output(graph, pco_spec_head(nn, spec, x), "logits");
}

static pco_status causal_stage(pco_causal *run, uint32_t size, int all, pco_stage **out, pco_error *err)
{
    pco_stage *stage = *out = &run->stages[all][size];
    if (stage->executable) return PCO_OK;
    char name[64];
    snprintf(name, sizeof name, "%s, %" PRId64 " token%s", run->spec.program, run->sizes[size],
             run->sizes[size] == 1 ? "" : "s");
    pco_graph *graph = pco_graph_create();
    if (graph) {
        const pco_nn nn = {.graph = graph, .weights = run->weights};
        pco_causal_build(&nn, &run->spec, run->context, run->sizes[size], all);
    }
    pco_status status = pco_stage_create(run->session, graph, name, run->sizes[size], stage, err);
    if (!status) run->built++;
    return status;
}

pco_status pco_causal_create(pco_session *session, const pco_weights *weights, const pco_model_spec *spec,
                             int64_t context, pco_causal **out, pco_error *err)
{
    *out = NULL;
    pco_causal *run = calloc(1, sizeof *run);
    if (!run) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a model");
    run->session = session;
    run->weights = weights;
    run->spec = *spec;
    run->context = context;
    int64_t most = context < CAUSAL_LARGEST_CHUNK ? context : CAUSAL_LARGEST_CHUNK;
    run->n_sizes = 1;
    run->sizes[0] = 1;
    if (most > 1) run->n_sizes += pco_stage_sizes(16, most, run->sizes + 1);
    pco_stage *step;
    pco_status status = causal_stage(run, 0, 0, &step, err);
    if (status) {
        pco_causal_destroy(run);
        return status;
    }
    *out = run;
    return PCO_OK;
}

void pco_causal_destroy(pco_causal *run)
{
    if (!run) return;
    for (uint32_t i = 0; i < run->n_sizes; i++) {
        pco_stage_destroy(&run->stages[0][i]);
        pco_stage_destroy(&run->stages[1][i]);
    }
    free(run);
}

pco_status pco_causal_warm_up(pco_causal *run, pco_error *err)
{
    pco_stage *stage;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; !status && i < run->n_sizes; i++) status = causal_stage(run, i, 0, &stage, err);
    return status;
}

void pco_causal_reset(pco_causal *run) { run->position = 0; }

void pco_causal_rewind(pco_causal *run, int64_t position)
{
    if (position >= 0 && position < run->position) run->position = position;
}

int64_t pco_causal_position(const pco_causal *run) { return run->position; }

uint32_t pco_causal_stages(const pco_causal *run) { return run->built; }

/* The smallest size that holds `count` rows, or the one below it where more than half of the rows would be
 * wasted; the largest when there are more. */
static uint32_t causal_choose(const pco_causal *run, int64_t count)
{
    uint32_t size = 0;
    while (size + 1 < run->n_sizes && run->sizes[size] < count) size++;
    if (size > 1 && run->sizes[size] > 2 * count) size--;
    return size;
}

/* Runs the next `count` rows (at most the stage's) from the present position. */
static pco_status causal_chunk(pco_causal *run, pco_stage *stage, const int32_t *ids, int64_t count, pco_error *err)
{
    const int32_t start = (int32_t)run->position, end = (int32_t)(run->position + count), last = (int32_t)count - 1;
    for (int64_t i = 0; i < stage->rows; i++) {
        run->ids[i] = i < count ? ids[i] : 0;
        run->positions[i] = start + (int32_t)(run->spec.position_offset + i);
    }
    pco_status status = pco_stage_write(stage, stage->ids, run->ids, stage->rows, err);
    if (!status) status = pco_stage_write(stage, stage->positions, run->positions, stage->rows, err);
    if (!status) status = pco_stage_write(stage, stage->starts, &start, 1, err);
    if (!status) status = pco_stage_write(stage, stage->lengths, &end, 1, err);
    if (!status) status = pco_stage_write(stage, stage->row, &last, 1, err);
    if (!status) status = pco_executable_run(stage->executable, err);
    return status;
}

static pco_status causal_check_ids(const pco_causal *run, const int32_t *ids, int64_t count, pco_error *err)
{
    if (run->position + count > run->context)
        return pco_fail(err, PCO_ERROR_INVALID, "%" PRId64 " tokens do not fit into a context of %" PRId64,
                        run->position + count, run->context);
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= run->spec.vocab_size[PCO_DECODER])
            return pco_fail(err, PCO_ERROR_INVALID, "token %" PRId64 " is %d, outside a vocabulary of %" PRId64, i,
                            ids[i], run->spec.vocab_size[PCO_DECODER]);
    return PCO_OK;
}

static pco_status causal_run(pco_causal *run, const int32_t *ids, int64_t count, int all, float *logits, pco_error *err)
{
    const int64_t begin = run->position;
    uint64_t row_bytes = (uint64_t)run->spec.vocab_size[PCO_DECODER] * sizeof *logits;
    pco_status status = causal_check_ids(run, ids, count, err);
    for (int64_t done = 0; !status && done < count;) {
        pco_stage *stage;
        status = causal_stage(run, causal_choose(run, count - done), all, &stage, err);
        if (status) break;
        int64_t rows = count - done < stage->rows ? count - done : stage->rows;
        status = causal_chunk(run, stage, ids + done, rows, err);
        int last = done + rows == count;
        if (!status && all)
            status =
                pco_executable_read(stage->executable, stage->logits, logits + done * run->spec.vocab_size[PCO_DECODER],
                                    (uint64_t)rows * row_bytes, err);
        else if (!status && last && logits)
            status = pco_executable_read(stage->executable, stage->logits, logits, row_bytes, err);
        run->position += rows;
        done += rows;
    }
    if (status) run->position = begin;
    return status;
}

pco_status pco_causal_append(pco_causal *run, const int32_t *ids, int64_t count, float *logits, pco_error *err)
{
    return causal_run(run, ids, count, 0, logits, err);
}

pco_status pco_causal_score(pco_causal *run, const int32_t *ids, int64_t count, float *logits, pco_error *err)
{
    return causal_run(run, ids, count, 1, logits, err);
}

pco_executable_stats pco_causal_inspect(const pco_causal *run)
{
    for (uint32_t i = run->n_sizes; i-- > 0;)
        for (int all = 1; all >= 0; all--)
            if (run->stages[all][i].executable) return pco_executable_counts(run->stages[all][i].executable);
    return (pco_executable_stats){0};
}
