#include "api/api.h"

#include "base/error.h"
#include "models/graphs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One call. */
typedef struct attention_call {
    pco_model *model;
    pco_executable *executable;
    float *weights; /* of one attention */
    uint64_t capacity;
    pco_attention_fn receive;
    void *user;
    int stopped;
} attention_call;

static pco_status attention_check(const pco_model *model, pco_model_side side, const int32_t *ids, size_t count,
                                  size_t total, pco_error *err)
{
    const pco_model_file *file = model->file;
    int64_t vocab = file->spec.vocab_size[side];
    const char *what = model->causal ? "text" : side == PCO_ENCODER ? "source" : "target";
    if (total > (size_t)model->context_length)
        return pco_fail(err, PCO_ERROR_INVALID, "a %s of %zu tokens does not fit into a context of %" PRId64, what,
                        total, model->context_length);
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return pco_fail(err, PCO_ERROR_INVALID, "token %zu of the %s is %d, outside a vocabulary of %" PRId64, i,
                            what, ids[i], vocab);
    return PCO_OK;
}

static pco_status attention_prepare(attention_call *call, int64_t source_rows, int64_t target_rows, pco_error *err)
{
    const pco_model_file *file = call->model->file;
    const pco_executable_params params = {.size = sizeof params, .name = "attention"};
    pco_graph *graph = pco_graph_create();
    if (!graph) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a graph");
    const pco_nn nn = {.graph = graph, .weights = file->weights, .keep_attention = 1};
    pco_spec_attention(&nn, &file->spec, source_rows, target_rows);
    pco_status status = pco_graph_check(graph, err);
    if (!status) status = pco_executable_create(call->model->session, graph, &params, &call->executable, err);
    pco_graph_destroy(graph);
    return status;
}

static pco_status attention_write(attention_call *call, const char *input, const int32_t *ids, size_t count,
                                  pco_error *err)
{
    uint32_t handle = pco_executable_tensor(call->executable, input);
    return pco_executable_write(call->executable, handle, ids, (uint64_t)count * sizeof *ids, err);
}

/* Reads the weights of one kind of attention, layer by layer; `output` is what the spec calls its output projection. */
static pco_status attention_give(attention_call *call, pco_attention_kind kind, pco_model_side side, const char *output,
                                 pco_error *err)
{
    const pco_model_spec *spec = &call->model->file->spec;
    char name[PCO_SPEC_NAME + 16], layer[PCO_SPEC_NAME];
    for (int64_t i = 0; i < spec->layers[side] && !call->stopped; i++) {
        snprintf(name, sizeof name, "attention:%s", pco_spec_layer_name(spec, side, i, output, layer));
        uint32_t handle = pco_executable_tensor(call->executable, name);
        const pco_tensor *x = pco_executable_describe(call->executable, handle);
        if (!x) return pco_fail(err, PCO_ERROR_INTERNAL, "the graph has no output '%s'", name);
        if (x->bytes > call->capacity) {
            float *grown = realloc(call->weights, x->bytes);
            if (!grown) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for '%s'", name);
            call->weights = grown;
            call->capacity = x->bytes;
        }
        pco_status status = pco_executable_read(call->executable, handle, call->weights, x->bytes, err);
        if (status) return status;
        const pco_attention_map map = {sizeof map, kind, i, x->shape[1], x->shape[2], x->shape[3], call->weights};
        call->stopped = call->receive(call->user, &map);
    }
    return PCO_OK;
}

static pco_status attention_text(attention_call *call, const int32_t *ids, size_t count, pco_error *err)
{
    pco_status status = attention_check(call->model, PCO_DECODER, ids, count, count, err);
    if (!status) status = attention_prepare(call, 0, (int64_t)count, err);
    if (!status) status = attention_write(call, "target", ids, count, err);
    if (!status) status = pco_executable_run(call->executable, err);
    if (status) return status;
    return attention_give(call, PCO_ATTENTION_DECODER, PCO_DECODER, call->model->file->spec.names.output, err);
}

static pco_status attention_pair(attention_call *call, const int32_t *source, size_t source_count,
                                 const int32_t *target, size_t target_count, pco_error *err)
{
    const pco_model_spec *spec = &call->model->file->spec;
    int32_t *read = malloc((target_count + 1) * sizeof *read);
    if (!read) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a target");
    read[0] = spec->decoder_start_token_id;
    if (target_count) memcpy(read + 1, target, target_count * sizeof *read);
    const size_t rows = target_count + 1;
    pco_status status = attention_check(call->model, PCO_ENCODER, source, source_count, source_count, err);
    if (!status) status = attention_check(call->model, PCO_DECODER, target, target_count, rows, err);
    if (!status) status = attention_prepare(call, (int64_t)source_count, (int64_t)rows, err);
    if (!status) status = attention_write(call, "source", source, source_count, err);
    if (!status) status = attention_write(call, "target", read, rows, err);
    if (!status) status = pco_executable_run(call->executable, err);
    free(read);
    const pco_layer_names *names = &spec->names;
    if (!status) status = attention_give(call, PCO_ATTENTION_ENCODER, PCO_ENCODER, names->output, err);
    if (!status) status = attention_give(call, PCO_ATTENTION_DECODER, PCO_DECODER, names->output, err);
    if (!status) status = attention_give(call, PCO_ATTENTION_CROSS, PCO_DECODER, names->cross_output, err);
    return status;
}

pco_status pco_model_attention(pco_model *model, const int32_t *source, size_t source_count, const int32_t *target,
                               size_t target_count, pco_attention_fn receive, void *user, pco_error *err)
{
    API_NEEDS_WRITER(model);
    PCO_NEEDS_SOME(source, source_count);
    PCO_NEEDS_SOME(target, target_count);
    PCO_NEEDS(receive);
    attention_call call = {.model = model, .receive = receive, .user = user};
    pco_status status;
    if (model->causal && source_count)
        return pco_fail(err, PCO_ERROR_INVALID, "%s is decoder-only, and has no source", model->file->path);
    if (model->causal && target_count == 0)
        return pco_fail(err, PCO_ERROR_INVALID, "a text without tokens has no attention");
    if (model->seq2seq && source_count == 0)
        return pco_fail(err, PCO_ERROR_INVALID, "a source without tokens has no attention");
    if (model->causal)
        status = attention_text(&call, target, target_count, err);
    else
        status = attention_pair(&call, source, source_count, target, target_count, err);
    pco_executable_destroy(call.executable);
    free(call.weights);
    return status;
}
