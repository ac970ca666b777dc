#include "models/seq2seq.h"

#include "base/error.h"
#include "models/graphs.h"
#include "models/stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQ2SEQ_COPIED = 64 }; /* rows at a time */

struct pco_seq2seq {
    pco_session *session;
    const pco_weights *weights;
    pco_model_spec spec;
    int64_t context, source, position; /* source: tokens of the source; 0: none read */
    uint32_t n_sizes;
    int64_t sizes[PCO_STAGE_SIZES];
    uint32_t cache_type;
    pco_stage step, stages[2][PCO_STAGE_SIZES]; /* by seq2seq_kind */
    int64_t beams;                              /* targets side by side; 0: none yet */
    pco_stage beam_step, beam_copy;
    int32_t *ids;                                    /* [context] */
    int32_t *positions, *starts, *lengths, *parents; /* [beams] */
};

/* What the decoder reads of the source: its keys and values. */
static pco_spec_room seq2seq_source(const pco_model_spec *spec, const pco_seq2seq_form *form)
{
    return (pco_spec_room){1, spec->sound.bands ? spec->sound.rows : form->context, form->cache_type, "cross"};
}

void pco_seq2seq_build_encode(const pco_nn *nn, const pco_model_spec *spec, const pco_seq2seq_form *form)
{
    pco_graph *graph = nn->graph;
    pco_spec_padding padding = {PCO_NONE, PCO_NONE};
    uint32_t source;
    if (spec->sound.bands) {
        source =
            pco_graph_input(graph, "features", PCO_F32, 3, (int64_t[]){1, spec->sound.bands, 2 * spec->sound.rows});
    } else {
        source = pco_graph_input(graph, "ids", PCO_I32, 2, (int64_t[]){1, form->rows});
        padding.lengths = pco_graph_value(graph, "lengths", PCO_I32, 1, (int64_t[]){1});
    }
    uint32_t memory = pco_spec_encode(nn, spec, source, PCO_NONE, &padding);
    const int32_t zero = 0;
    uint32_t first = pco_graph_constant_copy(graph, "first", PCO_I32, 1, (int64_t[]){1}, &zero);
    const pco_spec_room room = seq2seq_source(spec, form);
    const pco_nn_cache *keys = pco_spec_caches(nn, spec, &room, 0), *values = pco_spec_caches(nn, spec, &room, 1);
    const pco_nn_attention_operands none = PCO_NN_NO_OPERANDS;
    for (int64_t i = 0; keys && values && i < spec->layers[PCO_DECODER]; i++) {
        uint32_t key, value;
        pco_graph_scope(graph, "cross.%" PRId64, i);
        pco_nn_layer_params layer = pco_spec_layer(nn, spec, PCO_DECODER, i);
        pco_nn_attention_memory(nn, memory, &layer.cross_attention, &none, &key, &value);
        pco_nn_cache_write(nn, &keys[i], key, first, PCO_NONE);
        pco_nn_cache_write(nn, &values[i], value, first, PCO_NONE);
    }
}

/* The caches of the targets: one, or as many as there are beams. */
static pco_spec_room seq2seq_room(const pco_seq2seq_form *form)
{
    if (form->beams) return (pco_spec_room){form->beams, form->context, form->cache_type, "beam"};
    return (pco_spec_room){1, form->context, form->cache_type, "cache"};
}

void pco_seq2seq_build_decode(const pco_nn *nn, const pco_model_spec *spec, const pco_seq2seq_form *form)
{
    pco_graph *graph = nn->graph;
    const pco_spec_room room = seq2seq_room(form), source = seq2seq_source(spec, form);
    const int64_t one[1] = {1}, batch[1] = {room.lanes}, ids_shape[2] = {room.lanes, form->rows};
    uint32_t ids = pco_graph_input(graph, "ids", PCO_I32, 2, ids_shape);
    pco_spec_decoder decoder = {.memory = PCO_NONE,
                                .padding = {.mask = PCO_NONE},
                                .positions = PCO_NONE,
                                .starts = PCO_NONE,
                                .lengths = PCO_NONE,
                                .take = PCO_NONE,
                                .lane = PCO_NONE};
    decoder.padding.lengths = pco_graph_value(graph, "source_lengths", PCO_I32, 1, one);
    decoder.cross_keys = pco_spec_caches(nn, spec, &source, 0);
    decoder.cross_values = pco_spec_caches(nn, spec, &source, 1);
    if (form->step) {
        decoder.positions = pco_graph_value(graph, "positions", PCO_I32, 2, ids_shape);
        decoder.starts = pco_graph_value(graph, "starts", PCO_I32, 1, batch);
        decoder.lengths = pco_graph_value(graph, "lengths", PCO_I32, 1, batch);
        decoder.keys = pco_spec_caches(nn, spec, &room, 0);
        decoder.values = pco_spec_caches(nn, spec, &room, 1);
    }
    if (graph->status) return;
    uint32_t logits = pco_spec_decode(nn, spec, ids, &decoder);
    logits = pco_reshape(graph, logits, 2, (int64_t[]){room.lanes * form->rows, spec->vocab_size[PCO_DECODER]});
    pco_graph_output(graph, logits, "logits");
}

/* What a stage does. */
typedef enum seq2seq_kind { SEQ2SEQ_ENCODE, SEQ2SEQ_SCORE, SEQ2SEQ_STEP, SEQ2SEQ_COPY } seq2seq_kind;

static pco_status seq2seq_build(pco_seq2seq *run, seq2seq_kind kind, int64_t beams, int64_t rows, pco_stage *stage,
                                pco_error *err)
{
    static const char *const names[] = {"encoder", "scoring", "decoder", "copy of beams"};
    const pco_seq2seq_form form = {run->context, beams, rows, kind == SEQ2SEQ_STEP, run->cache_type};
    if (stage->executable) return PCO_OK;
    char name[64];
    snprintf(name, sizeof name, "%s, %" PRId64 " token%s", names[kind], rows, rows == 1 ? "" : "s");
    pco_graph *graph = pco_graph_create();
    const pco_nn nn = {.graph = graph, .weights = run->weights};
    const pco_spec_room room = seq2seq_room(&form);
    if (graph && kind == SEQ2SEQ_ENCODE)
        pco_seq2seq_build_encode(&nn, &run->spec, &form);
    else if (graph && kind == SEQ2SEQ_COPY)
        pco_spec_build_copy(&nn, &run->spec, &room, rows);
    else if (graph)
        pco_seq2seq_build_decode(&nn, &run->spec, &form);
    return pco_stage_create(run->session, graph, name, rows, stage, err);
}

pco_status pco_seq2seq_create(pco_session *session, const pco_weights *weights, const pco_model_spec *spec,
                              int64_t context, uint32_t cache_type, pco_seq2seq **out, pco_error *err)
{
    *out = NULL;
    pco_seq2seq *run = calloc(1, sizeof *run);
    if (run) run->ids = calloc((size_t)context, sizeof *run->ids);
    if (!run || !run->ids) {
        free(run);
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a model");
    }
    run->session = session;
    run->weights = weights;
    run->spec = *spec;
    run->context = context;
    run->cache_type = cache_type;
    run->n_sizes = pco_stage_sizes(16, context, run->sizes);
    pco_status status = seq2seq_build(run, SEQ2SEQ_STEP, 0, 1, &run->step, err);
    if (status) {
        pco_seq2seq_destroy(run);
        return status;
    }
    *out = run;
    return PCO_OK;
}

static void seq2seq_drop_beams(pco_seq2seq *run)
{
    pco_stage_destroy(&run->beam_step);
    pco_stage_destroy(&run->beam_copy);
    pco_session_drop_states(run->session, "beam");
    free(run->positions);
    run->positions = run->starts = run->lengths = run->parents = NULL;
    run->beams = 0;
}

void pco_seq2seq_destroy(pco_seq2seq *run)
{
    if (!run) return;
    seq2seq_drop_beams(run);
    for (uint32_t i = 0; i < run->n_sizes; i++) {
        pco_stage_destroy(&run->stages[SEQ2SEQ_ENCODE][i]);
        pco_stage_destroy(&run->stages[SEQ2SEQ_SCORE][i]);
    }
    pco_stage_destroy(&run->step);
    free(run->ids);
    free(run);
}

pco_status pco_seq2seq_warm_up(pco_seq2seq *run, pco_error *err)
{
    pco_status status = PCO_OK;
    for (uint32_t i = 0; !status && i < (run->spec.sound.bands ? 1 : run->n_sizes); i++)
        status = seq2seq_build(run, SEQ2SEQ_ENCODE, 0, run->sizes[i], &run->stages[SEQ2SEQ_ENCODE][i], err);
    return status;
}

static pco_status seq2seq_check(const pco_seq2seq *run, pco_model_side side, const int32_t *ids, int64_t count,
                                int64_t total, pco_error *err)
{
    const char *what = side == PCO_ENCODER ? "source" : "target";
    if (total > run->context)
        return pco_fail(err, PCO_ERROR_INVALID, "a %s of %" PRId64 " tokens does not fit into a context of %" PRId64,
                        what, total, run->context);
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= run->spec.vocab_size[side])
            return pco_fail(err, PCO_ERROR_INVALID,
                            "token %" PRId64 " of the %s is %d, outside a vocabulary of %" PRId64, i, what, ids[i],
                            run->spec.vocab_size[side]);
    return PCO_OK;
}

/* The stage that holds `count` rows, with ids written, padded. */
static pco_status seq2seq_start(pco_seq2seq *run, seq2seq_kind kind, const int32_t *ids, int64_t count, pco_stage **out,
                                pco_error *err)
{
    uint32_t size = 0;
    while (run->sizes[size] < count) size++;
    pco_stage *stage = *out = &run->stages[kind][size];
    pco_status status = seq2seq_build(run, kind, 0, run->sizes[size], stage, err);
    if (status) return status;
    for (int64_t i = 0; i < stage->rows; i++) run->ids[i] = i < count ? ids[i] : run->spec.pad_token_id;
    return pco_stage_write(stage, stage->ids, run->ids, stage->rows, err);
}

pco_status pco_seq2seq_encode(pco_seq2seq *run, const int32_t *ids, int64_t count, pco_error *err)
{
    pco_stage *stage;
    const int32_t length = (int32_t)count;
    run->position = run->source = 0;
    if (run->spec.sound.bands) return pco_fail(err, PCO_ERROR_INVALID, "the model reads sound, and no text");
    if (count < 1) return pco_fail(err, PCO_ERROR_INVALID, "the source has no tokens");
    pco_status status = seq2seq_check(run, PCO_ENCODER, ids, count, count, err);
    if (!status) status = seq2seq_start(run, SEQ2SEQ_ENCODE, ids, count, &stage, err);
    if (!status) status = pco_stage_write(stage, stage->lengths, &length, 1, err);
    if (!status) status = pco_executable_run(stage->executable, err);
    if (!status) run->source = count;
    return status;
}

pco_status pco_seq2seq_hear(pco_seq2seq *run, const float *features, pco_error *err)
{
    const pco_sound_source *sound = &run->spec.sound;
    pco_stage *stage = &run->stages[SEQ2SEQ_ENCODE][0];
    run->position = run->source = 0;
    if (!sound->bands) return pco_fail(err, PCO_ERROR_INVALID, "the model reads text, and no sound");
    const uint64_t bytes = (uint64_t)(sound->bands * 2 * sound->rows) * sizeof *features;
    pco_status status = seq2seq_build(run, SEQ2SEQ_ENCODE, 0, sound->rows, stage, err);
    if (!status) status = pco_executable_write(stage->executable, stage->features, features, bytes, err);
    if (!status) status = pco_executable_run(stage->executable, err);
    if (!status) run->source = sound->rows;
    return status;
}

void pco_seq2seq_restart(pco_seq2seq *run) { run->position = 0; }

pco_status pco_seq2seq_step(pco_seq2seq *run, int32_t id, float *logits, pco_error *err)
{
    pco_stage *stage = &run->step;
    const int32_t start = (int32_t)run->position, length = start + 1, source = (int32_t)run->source;
    const int32_t position = start + (int32_t)run->spec.position_offset;
    if (!run->source) return pco_fail(err, PCO_ERROR_INVALID, "no source has been read");
    pco_status status = seq2seq_check(run, PCO_DECODER, &id, 1, length, err);
    if (!status) status = pco_stage_write(stage, stage->ids, &id, 1, err);
    if (!status) status = pco_stage_write(stage, stage->positions, &position, 1, err);
    if (!status) status = pco_stage_write(stage, stage->starts, &start, 1, err);
    if (!status) status = pco_stage_write(stage, stage->lengths, &length, 1, err);
    if (!status) status = pco_stage_write(stage, stage->source_lengths, &source, 1, err);
    if (!status) status = pco_executable_run(stage->executable, err);
    uint64_t bytes = (uint64_t)run->spec.vocab_size[PCO_DECODER] * sizeof *logits;
    if (!status && logits) status = pco_executable_read(stage->executable, stage->logits, logits, bytes, err);
    if (!status) run->position++;
    return status;
}

pco_status pco_seq2seq_begin_beams(pco_seq2seq *run, int64_t beams, pco_error *err)
{
    run->position = 0;
    if (run->beams == beams) return PCO_OK;
    seq2seq_drop_beams(run);
    int32_t *values = calloc(4 * (size_t)beams, sizeof *values);
    if (!values) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %" PRId64 " beams", beams);
    run->positions = values;
    run->starts = values + beams;
    run->lengths = values + 2 * beams;
    run->parents = values + 3 * beams;
    run->beams = beams;
    const int64_t rows = run->context < SEQ2SEQ_COPIED ? run->context : SEQ2SEQ_COPIED;
    pco_status status = seq2seq_build(run, SEQ2SEQ_STEP, beams, 1, &run->beam_step, err);
    if (!status) status = seq2seq_build(run, SEQ2SEQ_COPY, beams, rows, &run->beam_copy, err);
    if (status) seq2seq_drop_beams(run);
    return status;
}

pco_status pco_seq2seq_step_beams(pco_seq2seq *run, const int32_t *ids, float *logits, pco_error *err)
{
    pco_stage *stage = &run->beam_step;
    const int32_t source = (int32_t)run->source;
    const int64_t beams = run->beams;
    if (!run->source || !beams) return pco_fail(err, PCO_ERROR_INVALID, "no source has been read");
    pco_status status = seq2seq_check(run, PCO_DECODER, ids, beams, run->position + 1, err);
    for (int64_t i = 0; i < beams; i++) {
        run->starts[i] = (int32_t)run->position;
        run->lengths[i] = (int32_t)run->position + 1;
        run->positions[i] = (int32_t)(run->position + run->spec.position_offset);
    }
    if (!status) status = pco_stage_write(stage, stage->ids, ids, beams, err);
    if (!status) status = pco_stage_write(stage, stage->positions, run->positions, beams, err);
    if (!status) status = pco_stage_write(stage, stage->starts, run->starts, beams, err);
    if (!status) status = pco_stage_write(stage, stage->lengths, run->lengths, beams, err);
    if (!status) status = pco_stage_write(stage, stage->source_lengths, &source, 1, err);
    if (!status) status = pco_executable_run(stage->executable, err);
    const uint64_t bytes = (uint64_t)(beams * run->spec.vocab_size[PCO_DECODER]) * sizeof *logits;
    if (!status && logits) status = pco_executable_read(stage->executable, stage->logits, logits, bytes, err);
    if (!status) run->position++;
    return status;
}

pco_status pco_seq2seq_reorder_beams(pco_seq2seq *run, const int64_t *from, pco_error *err)
{
    int moves = 0;
    for (int64_t i = 0; i < run->beams; i++) {
        run->parents[i] = from[i] == i ? -1 : (int32_t)from[i];
        moves |= from[i] != i;
    }
    if (!moves) return PCO_OK;
    return pco_stage_copy_lanes(&run->beam_copy, run->parents, run->starts, run->beams, run->context, run->position,
                                err);
}

int64_t pco_seq2seq_position(const pco_seq2seq *run) { return run->position; }

pco_status pco_seq2seq_score(pco_seq2seq *run, const int32_t *ids, int64_t count, float *logits, pco_error *err)
{
    pco_stage *stage;
    const int32_t source = (int32_t)run->source;
    if (!run->source) return pco_fail(err, PCO_ERROR_INVALID, "no source has been read");
    if (count < 1) return pco_fail(err, PCO_ERROR_INVALID, "the target has no tokens");
    pco_status status = seq2seq_check(run, PCO_DECODER, ids, count, count, err);
    if (!status) status = seq2seq_start(run, SEQ2SEQ_SCORE, ids, count, &stage, err);
    if (!status) status = pco_stage_write(stage, stage->source_lengths, &source, 1, err);
    if (!status) status = pco_executable_run(stage->executable, err);
    uint64_t bytes = (uint64_t)(count * run->spec.vocab_size[PCO_DECODER]) * sizeof *logits;
    if (!status) status = pco_executable_read(stage->executable, stage->logits, logits, bytes, err);
    return status;
}

pco_executable_stats pco_seq2seq_inspect(const pco_seq2seq *run)
{
    for (uint32_t i = run->n_sizes; i-- > 0;)
        for (int kind = 0; kind < 2; kind++)
            if (run->stages[kind][i].executable) return pco_executable_counts(run->stages[kind][i].executable);
    return pco_executable_counts(run->step.executable);
}
