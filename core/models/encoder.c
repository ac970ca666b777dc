#include "models/encoder.h"

#include "base/error.h"
#include "models/graphs.h"
#include "models/stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tokens of a full batch: enough for wide products, and few enough that a step of a large model takes no seconds. */
enum { ENCODER_TOKENS = 512, ENCODER_MOST_TEXTS = 32 };

/* An executable for texts of up to `rows` tokens: of one text, or of a batch. */
typedef struct encoder_stage {
    pco_stage stage;
    uint32_t types, output; /* handles */
} encoder_stage;

struct pco_encoder {
    pco_session *session;
    const pco_weights *weights;
    pco_model_spec spec;
    int64_t context;
    uint32_t n_sizes;
    int64_t sizes[PCO_STAGE_SIZES];
    encoder_stage stages[PCO_ENCODER_OUTPUTS][PCO_STAGE_SIZES][2];
    int32_t *ids, *lengths; /* [tokens of the largest batch], [texts] */
};

static pco_model_side encoder_side(const pco_model_spec *spec)
{
    return spec->decoder_only ? PCO_DECODER : PCO_ENCODER;
}

int64_t pco_encoder_width(const pco_model_spec *spec, pco_encoder_output output)
{
    if (output == PCO_ENCODER_FEATURES) return spec->features.width;
    if (output == PCO_ENCODER_CLASSES) return spec->classes.width;
    return output == PCO_ENCODER_LOGITS ? spec->vocab_size[PCO_ENCODER] : spec->d_model;
}

pco_status pco_encoder_check_output(const pco_model_spec *spec, pco_encoder_output output, pco_error *err)
{
    const char *missing = output == PCO_ENCODER_LOGITS && !spec->masked_head.dense   ? "masked-language head"
                          : output == PCO_ENCODER_FEATURES && !spec->features.linear ? "projection or pooler"
                          : output == PCO_ENCODER_CLASSES && !spec->classes.linear   ? "classifier"
                                                                                     : NULL;
    return missing ? pco_fail(err, PCO_ERROR_UNSUPPORTED, "the model has no %s", missing) : PCO_OK;
}

int64_t pco_encoder_text_end(const pco_model_spec *spec, const int32_t *ids, int64_t count)
{
    int64_t highest = 0;
    for (int64_t i = 0; i < count; i++) {
        if (spec->text_end_id > 0 && ids[i] == spec->text_end_id) return i + 1;
        if (ids[i] > ids[highest]) highest = i;
    }
    return spec->text_end_id == PCO_SPEC_HIGHEST && count ? highest + 1 : count;
}

/* The row of each text that the output is made of: x f32 [batch,rows,width] -> [batch,width]. */
static uint32_t encoder_pool(pco_graph *graph, uint32_t x, uint32_t lengths, int64_t width, pco_encoder_output output)
{
    const int64_t batch = graph->tensors[x].shape[0], rows = graph->tensors[x].shape[1], flat[2] = {batch, width};
    if (output == PCO_ENCODER_CLS || (output == PCO_ENCODER_LAST && lengths == PCO_NONE)) {
        const int64_t row = output == PCO_ENCODER_CLS ? 0 : rows - 1;
        return pco_reshape(graph, pco_slice_axis(graph, x, 1, row, 1), 2, flat);
    }
    if (output == PCO_ENCODER_LAST) {
        const uint32_t first = pco_iota(graph, PCO_I32, 0, -1, (double)rows, 1, (int64_t[]){batch});
        const uint32_t row = pco_binary(graph, PCO_OP_ADD, first, lengths);
        return pco_gather(graph, pco_reshape(graph, x, 2, (int64_t[]){batch * rows, width}), row, 0);
    }
    if (lengths == PCO_NONE)
        return pco_binary_scalar(graph, PCO_OP_DIV, pco_reduce(graph, PCO_OP_SUM, x, 1, 0), (double)rows);
    const uint32_t each = pco_reshape(graph, lengths, 3, (int64_t[]){batch, 1, 1});
    const uint32_t row = pco_iota(graph, PCO_I32, 1, 0, 1, 3, (int64_t[]){1, rows, 1});
    x = pco_where(graph, pco_binary(graph, PCO_OP_LT, row, each), x, pco_scalar(graph, PCO_F32, 0));
    x = pco_reduce(graph, PCO_OP_SUM, x, 1, 0);
    return pco_binary(graph, PCO_OP_DIV, x,
                      pco_cast(graph, pco_reshape(graph, lengths, 2, (int64_t[]){batch, 1}), PCO_F32));
}

void pco_encoder_end(const pco_nn *nn, const pco_model_spec *spec, uint32_t x, uint32_t lengths,
                     pco_encoder_output output)
{
    pco_graph *graph = nn->graph;
    const pco_row_head *head = output == PCO_ENCODER_FEATURES  ? &spec->features
                               : output == PCO_ENCODER_CLASSES ? &spec->classes
                                                               : NULL;
    if (graph->status) return;
    pco_graph_scope(graph, "%s", "pooling");
    if (output == PCO_ENCODER_LOGITS)
        x = pco_spec_masked_head(nn, spec, x);
    else if (output != PCO_ENCODER_HIDDEN)
        x = encoder_pool(graph, x, lengths, spec->d_model,
                         !head                 ? output
                         : spec->features_last ? PCO_ENCODER_LAST
                                               : PCO_ENCODER_CLS);
    if (head) x = pco_spec_row_head(nn, spec, head, x);
    pco_graph_output(graph, x, "output");
}

void pco_encoder_build(const pco_nn *nn, const pco_model_spec *spec, int64_t batch, int64_t rows,
                       pco_encoder_output output)
{
    pco_graph *graph = nn->graph;
    const int64_t shape[2] = {batch, rows};
    uint32_t x, types = PCO_NONE;
    const uint32_t ids = pco_graph_input(graph, "ids", PCO_I32, 2, shape);
    const uint32_t lengths = pco_graph_value(graph, "lengths", PCO_I32, 1, shape);
    if (spec->decoder_only) { /* each row sees those before it, and so no padding */
        const pco_spec_decoder decoder = {.memory = PCO_NONE,
                                          .padding = {PCO_NONE, PCO_NONE},
                                          .positions = PCO_NONE,
                                          .starts = PCO_NONE,
                                          .lengths = PCO_NONE};
        x = pco_spec_last_norm(nn, spec, PCO_DECODER, pco_spec_decode_layers(nn, spec, ids, &decoder));
    } else {
        if (spec->token_types) types = pco_graph_input(graph, "types", PCO_I32, 2, shape);
        /* padding is behind the text: where each row sees those before it, it sees none */
        x = pco_spec_encode(nn, spec, ids, types, &(pco_spec_padding){PCO_NONE, spec->causal ? PCO_NONE : lengths});
    }
    pco_encoder_end(nn, spec, x, lengths, output);
}

static int64_t encoder_batch(int64_t rows)
{
    const int64_t batch = ENCODER_TOKENS / rows;
    return batch < 1 ? 1 : batch < ENCODER_MOST_TEXTS ? batch : ENCODER_MOST_TEXTS;
}

static pco_status encoder_stage_make(pco_encoder *run, pco_encoder_output output, uint32_t size, int full,
                                     encoder_stage **out, pco_error *err)
{
    encoder_stage *made = *out = &run->stages[output][size][full];
    if (made->stage.executable) return PCO_OK;
    const int64_t rows = run->sizes[size], batch = full ? encoder_batch(rows) : 1;
    char name[80];
    snprintf(name, sizeof name, "encoder, %" PRId64 " x %" PRId64 " tokens", batch, rows);
    pco_graph *graph = pco_graph_create();
    if (graph) pco_encoder_build(&(pco_nn){.graph = graph, .weights = run->weights}, &run->spec, batch, rows, output);
    pco_status status = pco_stage_create(run->session, graph, name, rows, &made->stage, err);
    if (status) return status;
    made->types = pco_executable_tensor(made->stage.executable, "types");
    made->output = pco_executable_tensor(made->stage.executable, "output");
    return PCO_OK;
}

pco_status pco_encoder_create(pco_session *session, const pco_weights *weights, const pco_model_spec *spec,
                              int64_t context, pco_encoder **out, pco_error *err)
{
    *out = NULL;
    const int64_t tokens = context > ENCODER_TOKENS ? context : ENCODER_TOKENS;
    pco_encoder *run = calloc(1, sizeof *run);
    if (run) run->ids = calloc((size_t)tokens, sizeof *run->ids);
    if (run) run->lengths = calloc(ENCODER_MOST_TEXTS, sizeof *run->lengths);
    if (!run || !run->ids || !run->lengths) {
        pco_encoder_destroy(run);
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a model");
    }
    run->session = session;
    run->weights = weights;
    run->spec = *spec;
    run->context = context;
    run->n_sizes = pco_stage_sizes(16, context, run->sizes);
    *out = run;
    return PCO_OK;
}

void pco_encoder_destroy(pco_encoder *run)
{
    if (!run) return;
    for (int output = 0; output < PCO_ENCODER_OUTPUTS; output++)
        for (uint32_t size = 0; size < run->n_sizes; size++)
            for (int full = 0; full < 2; full++) pco_stage_destroy(&run->stages[output][size][full].stage);
    free(run->ids);
    free(run->lengths);
    free(run);
}

pco_status pco_encoder_warm_up(pco_encoder *run, pco_encoder_output output, pco_error *err)
{
    encoder_stage *made;
    pco_status status = pco_encoder_check_output(&run->spec, output, err);
    for (uint32_t size = 0; size < run->n_sizes; size++)
        for (int full = 0; !status && full < 2; full++)
            status = encoder_stage_make(run, output, size, full, &made, err);
    return status;
}

pco_executable_stats pco_encoder_inspect(const pco_encoder *run, pco_encoder_output output)
{
    for (uint32_t size = run->n_sizes; size-- > 0;)
        for (int full = 1; full >= 0; full--) {
            const pco_executable *executable = run->stages[output][size][full].stage.executable;
            if (executable) return pco_executable_counts(executable);
        }
    return (pco_executable_stats){0};
}

static pco_status encoder_check(const pco_encoder *run, const pco_encoder_text *text, int64_t number, pco_error *err)
{
    const int64_t vocab = run->spec.vocab_size[encoder_side(&run->spec)];
    if (text->count < 1) return pco_fail(err, PCO_ERROR_INVALID, "text %" PRId64 " has no tokens", number);
    if (text->count > run->context)
        return pco_fail(err, PCO_ERROR_INVALID,
                        "text %" PRId64 " has %" PRId64 " tokens, which do not fit into a context of %" PRId64, number,
                        text->count, run->context);
    for (int64_t i = 0; i < text->count; i++) {
        if (text->ids[i] < 0 || text->ids[i] >= vocab)
            return pco_fail(err, PCO_ERROR_INVALID,
                            "token %" PRId64 " of text %" PRId64 " is %d, outside a vocabulary of %" PRId64, i, number,
                            text->ids[i], vocab);
        const int32_t type = text->types ? text->types[i] : 0;
        if (type < 0 || (type > 0 && type >= run->spec.token_types))
            return pco_fail(err, PCO_ERROR_INVALID,
                            "token %" PRId64 " of text %" PRId64 " has type %d, and the model has %" PRId64, i, number,
                            type, run->spec.token_types);
    }
    return PCO_OK;
}

/* Floats of a text's result. */
static int64_t encoder_floats(const pco_encoder *run, pco_encoder_output output, const pco_encoder_text *text)
{
    const int64_t width = pco_encoder_width(&run->spec, output);
    return output == PCO_ENCODER_HIDDEN || output == PCO_ENCODER_LOGITS ? text->count * width : width;
}

static pco_status encoder_write(pco_encoder *run, encoder_stage *stage, int64_t batch, const pco_encoder_text *texts,
                                const int64_t *order, int64_t count, pco_error *err)
{
    const int64_t rows = stage->stage.rows;
    pco_status status = PCO_OK;
    for (int types = 0; !status && types < 2; types++) {
        if (types && stage->types == PCO_NONE) break;
        memset(run->ids, 0, (size_t)(batch * rows) * sizeof *run->ids);
        for (int64_t b = 0; b < count; b++) {
            const pco_encoder_text *text = &texts[order[b]];
            const int32_t *from = types ? text->types : text->ids;
            if (from) memcpy(run->ids + b * rows, from, (size_t)text->count * sizeof *from);
        }
        status = pco_stage_write(&stage->stage, types ? stage->types : stage->stage.ids, run->ids, batch * rows, err);
    }
    for (int64_t b = 0; b < batch; b++) run->lengths[b] = b < count ? (int32_t)texts[order[b]].count : 1;
    return status ? status : pco_stage_write(&stage->stage, stage->stage.lengths, run->lengths, batch, err);
}

/* A batch of texts, none longer than the stage's rows, to their places in `results`. */
static pco_status encoder_batch_run(pco_encoder *run, pco_encoder_output output, uint32_t size,
                                    const pco_encoder_text *texts, const int64_t *order, int64_t count,
                                    const int64_t *places, float *results, pco_error *err)
{
    encoder_stage *stage;
    const int full = count > 1;
    const int64_t rows = run->sizes[size], batch = full ? encoder_batch(rows) : 1;
    const int64_t width = pco_encoder_width(&run->spec, output);
    const int64_t each = output == PCO_ENCODER_HIDDEN || output == PCO_ENCODER_LOGITS ? rows * width : width;
    float *values = malloc((size_t)(batch * each) * sizeof *values);
    if (!values) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for embeddings");
    pco_status status = encoder_stage_make(run, output, size, full, &stage, err);
    if (!status) status = encoder_write(run, stage, batch, texts, order, count, err);
    if (!status) status = pco_executable_run(stage->stage.executable, err);
    if (!status)
        status = pco_executable_read(stage->stage.executable, stage->output, values,
                                     (uint64_t)(count * each) * sizeof *values, err);
    for (int64_t b = 0; !status && b < count; b++)
        memcpy(results + places[order[b]], values + b * each,
               (size_t)encoder_floats(run, output, &texts[order[b]]) * sizeof *values);
    free(values);
    return status;
}

/* order[i]: texts of the same stage together, in the order given; found[i]: the stage of text i. */
static void encoder_sort(const pco_encoder *run, const pco_encoder_text *texts, int64_t count, int64_t *order,
                         uint32_t *found)
{
    int64_t at = 0;
    for (uint32_t size = 0; size < run->n_sizes; size++)
        for (int64_t i = 0; i < count; i++)
            if (texts[i].count <= run->sizes[size] && (size == 0 || texts[i].count > run->sizes[size - 1])) {
                found[i] = size;
                order[at++] = i;
            }
}

pco_status pco_encoder_run(pco_encoder *run, pco_encoder_output output, const pco_encoder_text *texts, int64_t count,
                           float *results, pco_encoder_progress progress, void *user, pco_error *err)
{
    pco_status status = pco_encoder_check_output(&run->spec, output, err);
    for (int64_t i = 0; !status && i < count; i++) status = encoder_check(run, &texts[i], i, err);
    if (status) return status;
    int64_t *order = malloc((size_t)(count + 1) * sizeof *order),
            *places = malloc((size_t)(count + 1) * sizeof *places);
    uint32_t *found = malloc((size_t)(count + 1) * sizeof *found);
    if (!order || !places || !found) {
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %" PRId64 " texts", count);
    } else {
        encoder_sort(run, texts, count, order, found);
        places[0] = 0;
        for (int64_t i = 0; i < count; i++) places[i + 1] = places[i] + encoder_floats(run, output, &texts[i]);
    }
    for (int64_t done = 0, n; !status && done < count; done += n) {
        const uint32_t size = found[order[done]];
        const int64_t most = encoder_batch(run->sizes[size]);
        for (n = 1; n < most && done + n < count && found[order[done + n]] == size;) n++;
        status = encoder_batch_run(run, output, size, texts, order + done, n, places, results, err);
        if (!status && progress && progress(user, done + n))
            status = pco_fail(err, PCO_ERROR_CANCELLED, "embedding was cancelled");
    }
    free(order);
    free(places);
    free(found);
    return status;
}
