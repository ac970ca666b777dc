#include "models/causal.h"

#include "base/error.h"
#include "models/graphs.h"
#include "models/stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAUSAL_LARGEST_CHUNK = 256, CAUSAL_OUTPUTS = 2 };
static const char CAUSAL_NAME[] = "cache";

struct pco_causal {
    pco_session *session;
    const pco_weights *weights;
    pco_model_spec spec;
    int64_t context, lanes, lane; /* lane: which one append and score are about */
    int64_t capacity;             /* tokens that each lane has room for now, at most context */
    uint32_t cache_type;
    const char *name;      /* of the states */
    int64_t *positions_of; /* [lanes] */
    uint32_t n_sizes;
    int64_t sizes[PCO_STAGE_SIZES + 1];
    pco_stage stages[CAUSAL_OUTPUTS][PCO_STAGE_SIZES + 1]; /* by pco_causal_output */
    pco_stage together;                                    /* one token of every lane */
    pco_stage copy;                                        /* from lane to lane */
    uint32_t built;
    pco_causal_progress_fn progress;
    void *progress_user;
    int32_t *ids, *positions;      /* [largest of CAUSAL_LARGEST_CHUNK and lanes] */
    int32_t *starts, *ends, *take; /* [lanes] */
    int64_t *parents;              /* [lanes] */
    float *logits;                 /* [lanes,vocab_size]; made with `together` */
};

/* The run values of the caches, which are states of `decoder`. */
static void causal_build_caches(const pco_nn *nn, const pco_model_spec *spec, const pco_causal_form *form,
                                pco_spec_decoder *decoder)
{
    pco_graph *graph = nn->graph;
    decoder->starts = pco_graph_value(graph, "starts", PCO_I32, 1, &form->lanes);
    decoder->lengths = pco_graph_value(graph, "lengths", PCO_I32, 1, &form->lanes);
    decoder->take = decoder->lane = PCO_NONE;
    if (form->batch < form->lanes) {
        decoder->take = pco_graph_value(graph, "take", PCO_I32, 1, &form->lanes);
        decoder->lane = pco_graph_value(graph, "lane", PCO_I32, 1, &form->batch);
    }
    const pco_spec_room room = {form->lanes, form->capacity ? form->capacity : form->context, form->cache_type,
                                form->name ? form->name : CAUSAL_NAME};
    decoder->keys = pco_spec_caches(nn, spec, &room, 0);
    decoder->values = pco_spec_caches(nn, spec, &room, 1);
}

void pco_causal_build(const pco_nn *nn, const pco_model_spec *given, const pco_causal_form *form)
{
    pco_graph *graph = nn->graph;
    const pco_model_spec of_context = pco_spec_for_context(given, form->context), *spec = &of_context;
    const int64_t shape[2] = {form->batch, form->rows}, rows = form->batch * form->rows;
    uint32_t ids = pco_graph_input(graph, "ids", PCO_I32, 2, shape);
    pco_spec_decoder decoder = {.memory = PCO_NONE, .padding = {PCO_NONE, PCO_NONE}};
    decoder.positions = pco_graph_value(graph, "positions", PCO_I32, 2, shape);
    causal_build_caches(nn, spec, form, &decoder);
    if (graph->status) return;
    uint32_t x = pco_spec_decode_layers(nn, spec, ids, &decoder);
    pco_graph_scope(graph, "%s", spec->stacks[PCO_DECODER].head_scope);
    x = pco_reshape(graph, x, 2, (int64_t[]){rows, spec->d_model});
    if (form->output == PCO_CAUSAL_LAST && form->rows > 1)
        x = pco_gather(graph, x, pco_graph_value(graph, "row", PCO_I32, 1, (int64_t[]){1}), 0);
    pco_graph_output(graph, pco_spec_head(nn, spec, x), "logits");
}

/* Builds a stage; where form is NULL, that of the copy. */
static pco_status causal_make(pco_causal *run, const pco_causal_form *form, const char *name, int64_t rows,
                              pco_stage *stage, pco_error *err)
{
    pco_graph *graph = pco_graph_create();
    const pco_nn nn = {.graph = graph, .weights = run->weights};
    const pco_spec_room room = {run->lanes, run->capacity, run->cache_type, run->name};
    if (graph && form)
        pco_causal_build(&nn, &run->spec, form);
    else if (graph)
        pco_spec_build_copy(&nn, &run->spec, &room, rows);
    pco_status status = pco_stage_create(run->session, graph, name, rows, stage, err);
    if (!status) run->built++;
    return status;
}

static pco_status causal_stage(pco_causal *run, uint32_t size, pco_causal_output output, pco_stage **out,
                               pco_error *err)
{
    pco_stage *stage = *out = &run->stages[output][size];
    if (stage->executable) return PCO_OK;
    char name[64];
    const pco_causal_form form = {run->context,    run->lanes,    1,        run->sizes[size], output,
                                  run->cache_type, run->capacity, run->name};
    snprintf(name, sizeof name, "%s, %" PRId64 " token%s", run->spec.program, run->sizes[size],
             run->sizes[size] == 1 ? "" : "s");
    return causal_make(run, &form, name, run->sizes[size], stage, err);
}

/* The stage of all lanes, with memory for its logits. */
static pco_status causal_together(pco_causal *run, pco_error *err)
{
    char name[64];
    if (run->together.executable) return PCO_OK;
    const uint64_t elements = (uint64_t)run->lanes * (uint64_t)run->spec.vocab_size[PCO_DECODER];
    if (!run->logits) run->logits = malloc(elements * sizeof *run->logits);
    if (!run->logits) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for logits");
    const pco_causal_form form = {run->context,    run->lanes,      run->lanes,    1,
                                  PCO_CAUSAL_LAST, run->cache_type, run->capacity, run->name};
    snprintf(name, sizeof name, "%s, 1 token of %" PRId64, run->spec.program, run->lanes);
    return causal_make(run, &form, name, 1, &run->together, err);
}

static pco_status causal_allocate(pco_causal *run, pco_error *err)
{
    const size_t lanes = (size_t)run->lanes, rows = lanes < CAUSAL_LARGEST_CHUNK ? CAUSAL_LARGEST_CHUNK : lanes;
    run->positions_of = calloc(lanes, sizeof *run->positions_of);
    run->ids = calloc(rows, sizeof *run->ids);
    run->positions = calloc(rows, sizeof *run->positions);
    run->starts = calloc(lanes, sizeof *run->starts);
    run->ends = calloc(lanes, sizeof *run->ends);
    run->take = calloc(lanes, sizeof *run->take);
    run->parents = calloc(lanes, sizeof *run->parents);
    if (run->positions_of && run->ids && run->positions && run->starts && run->ends && run->take && run->parents)
        return PCO_OK;
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a model");
}

pco_status pco_causal_create(pco_session *session, const pco_weights *weights, const pco_model_spec *spec,
                             const pco_causal_room *room, pco_causal **out, pco_error *err)
{
    *out = NULL;
    pco_causal *run = calloc(1, sizeof *run);
    if (!run) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a model");
    run->session = session;
    run->weights = weights;
    run->spec = *spec;
    const int64_t context = run->context = room->context;
    run->lanes = room->lanes;
    run->cache_type = room->cache_type;
    run->name = room->name ? room->name : CAUSAL_NAME;
    run->capacity = context < PCO_CAUSAL_FIRST ? context : PCO_CAUSAL_FIRST;
    int64_t most = context < CAUSAL_LARGEST_CHUNK ? context : CAUSAL_LARGEST_CHUNK;
    run->n_sizes = 1;
    run->sizes[0] = 1;
    if (most > 1) run->n_sizes += pco_stage_sizes(16, most, run->sizes + 1);
    pco_stage *step;
    pco_status status = causal_allocate(run, err);
    if (!status) status = causal_stage(run, 0, PCO_CAUSAL_LAST, &step, err);
    if (status) {
        pco_causal_destroy(run);
        return status;
    }
    *out = run;
    return PCO_OK;
}

static void causal_destroy_stages(pco_causal *run)
{
    for (int output = 0; output < CAUSAL_OUTPUTS; output++)
        for (uint32_t i = 0; i < run->n_sizes; i++) pco_stage_destroy(&run->stages[output][i]);
    pco_stage_destroy(&run->together);
    pco_stage_destroy(&run->copy);
}

/* The stages are gone then, all but the step, which is built again while its constants are held on the device. */
pco_status pco_causal_reserve(pco_causal *run, int64_t tokens, pco_error *err)
{
    int64_t capacity = run->capacity;
    pco_stage *step;
    if (tokens <= capacity) return PCO_OK;
    while (capacity < tokens) capacity *= 2;
    if (capacity > run->context) capacity = run->context;
    pco_session_hold_constants(run->session, 1);
    causal_destroy_stages(run);
    pco_status status = pco_session_resize_states(run->session, run->name, capacity, err);
    const int grown = !status;
    if (grown) run->capacity = capacity;
    if (grown) status = causal_stage(run, 0, PCO_CAUSAL_LAST, &step, err);
    if (!grown && !pco_session_resize_states(run->session, run->name, run->capacity, NULL) &&
        causal_stage(run, 0, PCO_CAUSAL_LAST, &step, NULL))
        causal_destroy_stages(run); /* the next call builds it, or says why not */
    pco_session_hold_constants(run->session, 0);
    if (!status) return PCO_OK;
    return pco_fail_prefix(err, status, "making room for sequences of %" PRId64 " tokens", capacity);
}

void pco_causal_prefer(pco_causal *run, int64_t rows)
{
    uint32_t at = 0;
    while (at < run->n_sizes && run->sizes[at] < rows) at++;
    if (at == run->n_sizes || run->sizes[at] == rows || run->n_sizes > PCO_STAGE_SIZES) return;
    memmove(run->sizes + at + 1, run->sizes + at, (run->n_sizes - at) * sizeof *run->sizes);
    run->sizes[at] = rows;
    for (int output = 0; output < CAUSAL_OUTPUTS; output++) {
        pco_stage *stages = run->stages[output];
        memmove(stages + at + 1, stages + at, (run->n_sizes - at) * sizeof *stages);
        stages[at] = (pco_stage){0};
    }
    run->n_sizes++;
}

int64_t pco_causal_capacity(const pco_causal *run) { return run->capacity; }

void pco_causal_destroy(pco_causal *run)
{
    if (!run) return;
    causal_destroy_stages(run);
    pco_session_drop_states(run->session, run->name);
    free(run->positions_of);
    free(run->ids);
    free(run->positions);
    free(run->starts);
    free(run->ends);
    free(run->take);
    free(run->parents);
    free(run->logits);
    free(run);
}

pco_status pco_causal_warm_up(pco_causal *run, pco_error *err)
{
    pco_stage *stage;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; !status && i < run->n_sizes; i++) status = causal_stage(run, i, PCO_CAUSAL_LAST, &stage, err);
    return status;
}

void pco_causal_select(pco_causal *run, int64_t lane) { run->lane = lane; }

void pco_causal_watch(pco_causal *run, pco_causal_progress_fn progress, void *user)
{
    run->progress = progress;
    run->progress_user = user;
}

void pco_causal_reset(pco_causal *run) { run->positions_of[run->lane] = 0; }

void pco_causal_rewind(pco_causal *run, int64_t position)
{
    if (position >= 0 && position < run->positions_of[run->lane]) run->positions_of[run->lane] = position;
}

int64_t pco_causal_position(const pco_causal *run) { return run->positions_of[run->lane]; }

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

/* Says that lanes take no rows: what they would write is beyond their end, and they see no key. */
static void causal_idle(pco_causal *run)
{
    for (int64_t i = 0; i < run->lanes; i++) {
        run->starts[i] = (int32_t)run->capacity;
        run->ends[i] = 0;
        run->take[i] = -1;
    }
}

/* Writes where the rows of each lane go, and runs. */
static pco_status causal_go(pco_causal *run, pco_stage *stage, pco_error *err)
{
    pco_status status = pco_stage_write(stage, stage->starts, run->starts, run->lanes, err);
    if (!status) status = pco_stage_write(stage, stage->lengths, run->ends, run->lanes, err);
    if (!status) status = pco_stage_write(stage, stage->take, run->take, run->lanes, err);
    return status ? status : pco_executable_run(stage->executable, err);
}

/* Runs the next `count` rows (at most the stage's) from the present position. */
static pco_status causal_chunk(pco_causal *run, pco_stage *stage, const int32_t *ids, int64_t count, pco_error *err)
{
    const int32_t lane = (int32_t)run->lane, last = (int32_t)count - 1;
    const int32_t start = (int32_t)run->positions_of[lane];
    for (int64_t i = 0; i < stage->rows; i++) {
        run->ids[i] = i < count ? ids[i] : 0;
        run->positions[i] = start + (int32_t)(run->spec.position_offset + i);
    }
    causal_idle(run);
    run->starts[lane] = start;
    run->ends[lane] = start + (int32_t)count;
    run->take[lane] = 0;
    pco_status status = pco_stage_write(stage, stage->ids, run->ids, stage->rows, err);
    if (!status) status = pco_stage_write(stage, stage->positions, run->positions, stage->rows, err);
    if (!status) status = pco_stage_write(stage, stage->row, &last, 1, err);
    if (!status) status = pco_stage_write(stage, stage->lane, &lane, 1, err);
    return status ? status : causal_go(run, stage, err);
}

static pco_status causal_check_ids(const pco_causal *run, int64_t position, const int32_t *ids, int64_t count,
                                   pco_error *err)
{
    if (position + count > run->context)
        return pco_fail(err, PCO_ERROR_INVALID, "%" PRId64 " tokens do not fit into a context of %" PRId64,
                        position + count, run->context);
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= run->spec.vocab_size[PCO_DECODER])
            return pco_fail(err, PCO_ERROR_INVALID, "token %" PRId64 " is %d, outside a vocabulary of %" PRId64, i,
                            ids[i], run->spec.vocab_size[PCO_DECODER]);
    return PCO_OK;
}

static pco_status causal_progress(const pco_causal *run, int64_t done, int64_t count, pco_error *err)
{
    if (!run->progress || !run->progress(run->progress_user, done, count)) return PCO_OK;
    return pco_fail(err, PCO_ERROR_CANCELLED,
                    "the callback ended the reading of a prompt after %" PRId64 " of %" PRId64 " tokens", done, count);
}

/* Reads what a chunk leaves behind: of each row, or of the last one. */
static pco_status causal_read(const pco_causal *run, pco_stage *stage, pco_causal_output output, int64_t done,
                              int64_t rows, int last, float *results, pco_error *err)
{
    const int64_t width = run->spec.vocab_size[PCO_DECODER];
    if (!results || (output == PCO_CAUSAL_LAST && !last)) return PCO_OK;
    if (output == PCO_CAUSAL_LAST) done = 0, rows = 1;
    return pco_executable_read(stage->executable, stage->logits, results + done * width,
                               (uint64_t)(rows * width) * sizeof *results, err);
}

static pco_status causal_run(pco_causal *run, const int32_t *ids, int64_t count, pco_causal_output output,
                             float *results, pco_error *err)
{
    int64_t *position = &run->positions_of[run->lane];
    const int64_t begin = *position;
    pco_status status = causal_check_ids(run, begin, ids, count, err);
    if (!status) status = pco_causal_reserve(run, begin + count, err);
    for (int64_t done = 0; !status && done < count;) {
        pco_stage *stage;
        status = causal_progress(run, done, count, err);
        if (!status) status = causal_stage(run, causal_choose(run, count - done), output, &stage, err);
        if (status) break;
        int64_t rows = count - done < stage->rows ? count - done : stage->rows;
        status = causal_chunk(run, stage, ids + done, rows, err);
        if (!status) status = causal_read(run, stage, output, done, rows, done + rows == count, results, err);
        *position += rows;
        done += rows;
    }
    if (status) *position = begin;
    return status;
}

pco_status pco_causal_append(pco_causal *run, const int32_t *ids, int64_t count, float *logits, pco_error *err)
{
    return causal_run(run, ids, count, PCO_CAUSAL_LAST, logits, err);
}

pco_status pco_causal_score(pco_causal *run, const int32_t *ids, int64_t count, float *logits, pco_error *err)
{
    return causal_run(run, ids, count, PCO_CAUSAL_ALL, logits, err);
}

pco_status pco_causal_step(pco_causal *run, const int64_t *lanes, const int32_t *ids, int64_t count, float *logits,
                           pco_error *err)
{
    const int64_t vocab = run->spec.vocab_size[PCO_DECODER];
    pco_status status = PCO_OK;
    int64_t longest = 0;
    causal_idle(run);
    for (int64_t i = 0; i < count; i++) {
        const int64_t lane = lanes[i];
        if (lane < 0 || lane >= run->lanes || run->take[lane] >= 0)
            return pco_fail(err, PCO_ERROR_INVALID, "sequence %" PRId64 " of a step is named twice, or not there", i);
        const int64_t position = run->positions_of[lane];
        status = causal_check_ids(run, position, ids + i, 1, err);
        if (status) return pco_fail_prefix(err, status, "sequence %" PRId64 " of a step", i);
        if (position + 1 > longest) longest = position + 1;
        run->take[lane] = (int32_t)i;
        run->starts[lane] = (int32_t)position;
        run->ends[lane] = (int32_t)position + 1;
    }
    if (count == 1) {
        const int64_t selected = run->lane;
        run->lane = lanes[0];
        status = pco_causal_append(run, ids, 1, logits, err);
        run->lane = selected;
        return status;
    }
    if (count == 0) return PCO_OK;
    for (int64_t lane = 0; lane < run->lanes; lane++) {
        const int busy = run->take[lane] >= 0;
        run->ids[lane] = busy ? ids[run->take[lane]] : 0;
        run->positions[lane] = (int32_t)run->spec.position_offset + (busy ? run->starts[lane] : 0);
    }
    status = pco_causal_reserve(run, longest, err);
    for (int64_t lane = 0; lane < run->lanes; lane++)
        if (run->take[lane] < 0) run->starts[lane] = (int32_t)run->capacity;
    if (!status) status = causal_together(run, err);
    pco_stage *stage = &run->together;
    if (!status) status = pco_stage_write(stage, stage->ids, run->ids, run->lanes, err);
    if (!status) status = pco_stage_write(stage, stage->positions, run->positions, run->lanes, err);
    if (!status) status = causal_go(run, stage, err);
    const uint64_t row = (uint64_t)vocab * sizeof *logits;
    if (!status && logits)
        status = pco_executable_read(stage->executable, stage->logits, run->logits, (uint64_t)run->lanes * row, err);
    for (int64_t i = 0; !status && i < count; i++) {
        if (logits) memcpy(logits + i * vocab, run->logits + lanes[i] * vocab, row);
        run->positions_of[lanes[i]]++;
    }
    return status;
}

pco_status pco_causal_reorder(pco_causal *run, const int64_t *from, pco_error *err)
{
    pco_stage *stage = &run->copy;
    int64_t longest = 0;
    pco_status status = PCO_OK;
    for (int64_t lane = 0; lane < run->lanes; lane++) {
        const int moves = from[lane] >= 0 && from[lane] != lane;
        run->take[lane] = moves ? (int32_t)from[lane] : -1;
        if (moves && run->positions_of[from[lane]] > longest) longest = run->positions_of[from[lane]];
    }
    if (!longest) return PCO_OK;
    if (!stage->executable)
        status = causal_make(run, NULL, "copy of a sequence", run->sizes[run->n_sizes - 1], stage, err);
    if (!status) status = pco_stage_copy_lanes(stage, run->take, run->starts, run->lanes, run->capacity, longest, err);
    for (int64_t lane = 0; lane < run->lanes; lane++) run->ends[lane] = (int32_t)run->positions_of[lane];
    for (int64_t lane = 0; lane < run->lanes; lane++)
        if (run->take[lane] >= 0) run->positions_of[lane] = status ? 0 : run->ends[run->take[lane]];
    return status;
}

pco_status pco_causal_copy(pco_causal *run, int64_t from, int64_t to, pco_error *err)
{
    if (from == to) return PCO_OK;
    if (!run->positions_of[from]) {
        run->positions_of[to] = 0;
        return PCO_OK;
    }
    for (int64_t lane = 0; lane < run->lanes; lane++) run->parents[lane] = lane == to ? from : -1;
    return pco_causal_reorder(run, run->parents, err);
}

pco_executable_stats pco_causal_inspect(const pco_causal *run)
{
    static const pco_causal_output outputs[] = {PCO_CAUSAL_ALL, PCO_CAUSAL_LAST};
    for (uint32_t i = run->n_sizes; i-- > 0;)
        for (int k = 0; k < 2; k++)
            if (run->stages[outputs[k]][i].executable)
                return pco_executable_counts(run->stages[outputs[k]][i].executable);
    return (pco_executable_stats){0};
}
