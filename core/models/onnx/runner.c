/* Runs of ONNX models: an executable for each set of shapes, and arrays of ONNX's types in and out. */
#include "models/onnx/import.h"
#include "models/onnx/model.h"

#include "base/dtype.h"
#include "base/error.h"
#include "runtime/registry.h"
#include "runtime/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNNER_PROGRAMS = 8 };

/* What was made for one set of shapes, and of values of those inputs that shapes depend on. */
typedef struct runner_program {
    pco_onnx_import import; /* its graph is gone once there is an executable */
    pco_executable *executable;
    pco_onnx_bound *bound; /* by input; `raw` is owned where `values` has the input */
    uint64_t last;         /* the run that used it last; 0: the place is free */
} runner_program;

typedef struct runner_output {
    pco_onnx_array array;
    void *data;
} runner_output;

struct pco_onnx_runner {
    pco_session *session;
    const pco_onnx_model *model;
    runner_program programs[RUNNER_PROGRAMS];
    runner_program *current;
    runner_output *outputs;
    uint64_t runs;
    bool apart; /* composites are not put together */
    pco_onnx_problem_fn problem;
    void *user;
};

static bool runner_values(const pco_onnx_import *import, uint32_t input)
{
    return import->values >> (input < 63 ? input : 63) & 1;
}

static bool runner_used(const pco_onnx_import *import, uint32_t input)
{
    return import->used >> (input < 63 ? input : 63) & 1;
}

static void runner_forget(const pco_onnx_runner *runner, runner_program *program)
{
    pco_executable_destroy(program->executable);
    for (uint32_t i = 0; program->bound && i < runner->model->file.graph.n_inputs; i++)
        if (runner_values(&program->import, i)) free((void *)(size_t)program->bound[i].tensor.raw);
    free(program->bound);
    pco_onnx_import_clear(&program->import);
    *program = (runner_program){0};
}

pco_status pco_onnx_runner_create(pco_session *session, const pco_onnx_model *model, pco_onnx_runner **runner,
                                  pco_error *err)
{
    PCO_NEEDS(runner);
    *runner = NULL;
    PCO_NEEDS(session);
    PCO_NEEDS(model);
    PCO_ENTER(pco_session_registry(session));
    pco_onnx_runner *made = calloc(1, sizeof *made);
    if (made) made->outputs = calloc(model->file.graph.n_outputs + 1u, sizeof *made->outputs);
    if (!made || !made->outputs) {
        free(made);
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory to run an ONNX model");
    }
    made->session = session, made->model = model;
    pco_session_hold(session);
    *runner = made;
    return PCO_OK;
}

static void runner_clear_outputs(pco_onnx_runner *runner)
{
    for (uint32_t i = 0; i < runner->model->file.graph.n_outputs; i++) {
        free(runner->outputs[i].data);
        runner->outputs[i] = (runner_output){0};
    }
}

void pco_onnx_runner_destroy(pco_onnx_runner *runner)
{
    if (!runner) return;
    for (int i = 0; i < RUNNER_PROGRAMS; i++) runner_forget(runner, &runner->programs[i]);
    runner_clear_outputs(runner);
    free(runner->outputs);
    pco_session_release(runner->session);
    free(runner);
}

void pco_onnx_runner_tell(pco_onnx_runner *runner, pco_onnx_problem_fn problem, void *user)
{
    if (runner) runner->problem = problem, runner->user = user;
}

void pco_onnx_runner_merge(pco_onnx_runner *runner, int merge)
{
    if (runner) runner->apart = !merge;
}

/* ---- inputs ---- */

/* An array as what an input is bound to; its shape and bytes must agree. */
static pco_status runner_take(const pco_onnx_array *array, const pco_onnx_value *input, pco_onnx_bound *bound,
                              pco_error *err)
{
    char shape[192];
    if (array->size < sizeof *array)
        return pco_fail(err, PCO_ERROR_INVALID, "input '%.100s': size is not sizeof(pco_onnx_array)", input->name);
    if (bound->given) return pco_fail(err, PCO_ERROR_INVALID, "input '%.100s' is given twice", input->name);
    if (input->type && input->type != array->type)
        return pco_fail(err, PCO_ERROR_INVALID, "input '%.100s' is of type %s; the model takes %s", input->name,
                        pco_onnx_type_name(array->type), pco_onnx_type_name(input->type));
    const uint32_t step = pco_onnx_type_bytes(array->type);
    if (!step)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "input '%.100s' is of type %s", input->name,
                        pco_onnx_type_name(array->type));
    bound->tensor = (pco_onnx_tensor){.type = array->type, .rank = array->rank, .raw = array->data};
    pco_status status = pco_shape_count(array->rank, array->shape, &bound->tensor.count, err);
    if (status) return status;
    pco_shape_text(array->rank, array->shape, shape, sizeof shape);
    if ((uint64_t)bound->tensor.count > UINT64_MAX / 8 || array->bytes != (uint64_t)bound->tensor.count * step ||
        (array->bytes && !array->data))
        return pco_fail(err, PCO_ERROR_INVALID, "input '%.100s' of shape %s has %llu bytes", input->name, shape,
                        (unsigned long long)array->bytes);
    memcpy(bound->tensor.shape, array->shape, array->rank * sizeof *array->shape);
    bool fits = !input->shaped || input->rank == array->rank;
    for (uint32_t d = 0; fits && input->shaped && d < input->rank; d++)
        fits = input->dims[d] < 0 || input->dims[d] == array->shape[d];
    if (!fits) {
        char wanted[192] = "[";
        size_t used = 1;
        for (uint32_t d = 0; d < input->rank && used < sizeof wanted; d++) {
            const char *comma = d ? ", " : "";
            used += (size_t)(input->dims[d] >= 0 ? snprintf(wanted + used, sizeof wanted - used, "%s%lld", comma,
                                                            (long long)input->dims[d])
                                                 : snprintf(wanted + used, sizeof wanted - used, "%s%.20s", comma,
                                                            *input->symbols[d] ? input->symbols[d] : "any"));
        }
        return pco_fail(err, PCO_ERROR_INVALID, "input '%.100s' has shape %s; the model takes %s]", input->name, shape,
                        wanted);
    }
    bound->given = true;
    return PCO_OK;
}

/* A dimension that two inputs name alike has one size. */
static pco_status runner_symbols(const pco_onnx_graph *graph, const pco_onnx_bound *bound, pco_error *err)
{
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        for (uint32_t d = 0; bound[i].given && graph->inputs[i].shaped && d < graph->inputs[i].rank; d++) {
            const char *symbol = graph->inputs[i].symbols[d];
            if (!*symbol || strcmp(symbol, "?") == 0 || graph->inputs[i].dims[d] >= 0) continue; /* "?": as no name */
            for (uint32_t j = 0; j <= i; j++)
                for (uint32_t e = 0; bound[j].given && graph->inputs[j].shaped && e < graph->inputs[j].rank; e++) {
                    const bool same = graph->inputs[j].dims[e] < 0 && strcmp(symbol, graph->inputs[j].symbols[e]) == 0;
                    if (!same || bound[i].tensor.shape[d] == bound[j].tensor.shape[e]) continue;
                    return pco_fail(err, PCO_ERROR_INVALID, "'%.60s' is %lld in input '%.60s', and %lld in '%.60s'",
                                    symbol, (long long)bound[j].tensor.shape[e], graph->inputs[j].name,
                                    (long long)bound[i].tensor.shape[d], graph->inputs[i].name);
                }
        }
    return PCO_OK;
}

static pco_status runner_bind(const pco_onnx_runner *runner, const pco_onnx_array *inputs, uint32_t count,
                              pco_onnx_bound *bound, pco_error *err)
{
    const pco_onnx_graph *graph = &runner->model->file.graph;
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < count && !status; i++) {
        uint32_t at = i;
        for (at = inputs[i].name ? 0 : i; inputs[i].name && at < graph->n_inputs; at++)
            if (strcmp(graph->inputs[at].name, inputs[i].name) == 0) break;
        if (at >= graph->n_inputs)
            return pco_fail(err, PCO_ERROR_INVALID, "there is no input '%.100s'; the model has %u, the first '%.100s'",
                            inputs[i].name ? inputs[i].name : "behind the last", graph->n_inputs,
                            graph->n_inputs ? graph->inputs[0].name : "");
        status = runner_take(&inputs[i], &graph->inputs[at], &bound[at], err);
    }
    for (uint32_t i = 0; i < graph->n_inputs && !status; i++) {
        bool there = bound[i].given;
        for (uint32_t k = 0; k < graph->n_initializers && !there; k++)
            there = strcmp(graph->initializers[k], graph->inputs[i].name) == 0;
        if (!there) status = pco_fail(err, PCO_ERROR_INVALID, "input '%.100s' is missing", graph->inputs[i].name);
    }
    return status ? status : runner_symbols(graph, bound, err);
}

/* ---- programs ---- */

static bool runner_fits(const pco_onnx_runner *runner, const runner_program *program, const pco_onnx_bound *bound)
{
    for (uint32_t i = 0; i < runner->model->file.graph.n_inputs; i++) {
        const pco_onnx_tensor *a = &program->bound[i].tensor, *b = &bound[i].tensor;
        if (program->bound[i].given != bound[i].given) return false;
        if (!bound[i].given) continue;
        if (a->type != b->type || a->rank != b->rank || memcmp(a->shape, b->shape, sizeof a->shape) != 0) return false;
        if (runner_values(&program->import, i) && a->count &&
            memcmp(a->raw, b->raw, (size_t)a->count * pco_onnx_type_bytes(a->type)) != 0)
            return false;
    }
    return true;
}

/* Takes `bound` over, also after an error. */
static pco_status runner_make(pco_onnx_runner *runner, runner_program *program, pco_onnx_bound *bound, pco_error *err)
{
    runner_forget(runner, program);
    pco_status status = pco_onnx_import_create(&runner->model->file, bound, !runner->apart, runner->problem,
                                               runner->user, &program->import, err);
    const pco_executable_params params = {.size = sizeof params, .name = "the ONNX model"};
    bool runs = false;
    for (uint32_t i = 0; i < program->import.n_made && !status; i++) runs |= program->import.made[i].in_graph;
    if (!status && runs)
        status = pco_executable_create(runner->session, program->import.graph, &params, &program->executable, err);
    for (uint32_t i = 0; i < runner->model->file.graph.n_inputs;
         i++) { /* the caller's memory, in copies or not at all */
        pco_onnx_tensor *tensor = &bound[i].tensor;
        const size_t bytes = (size_t)tensor->count * pco_onnx_type_bytes(tensor->type);
        void *copy = runner_values(&program->import, i) && bound[i].given ? malloc(bytes + 1) : NULL;
        if (copy && bytes) memcpy(copy, tensor->raw, bytes);
        if (!copy && runner_values(&program->import, i) && bound[i].given && !status)
            status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for an input");
        tensor->raw = copy;
    }
    program->bound = bound;
    pco_graph_destroy(program->import.graph);
    program->import.graph = NULL;
    if (status) runner_forget(runner, program);
    return status;
}

/* The program for `bound`, which it takes over; the one that was not used for longest goes. */
static pco_status runner_find(pco_onnx_runner *runner, pco_onnx_bound *bound, pco_error *err)
{
    runner_program *oldest = &runner->programs[0];
    for (int i = 0; i < RUNNER_PROGRAMS; i++) {
        runner_program *program = &runner->programs[i];
        if (program->last < oldest->last) oldest = program;
        if (!program->last || !runner_fits(runner, program, bound)) continue;
        runner->current = program;
        free(bound);
        return PCO_OK;
    }
    pco_status status = runner_make(runner, oldest, bound, err);
    runner->current = status ? NULL : oldest;
    return status;
}

/* ---- runs ---- */

static bool runner_same(int32_t type, uint32_t dtype)
{
    return (type == PCO_ONNX_FLOAT && dtype == PCO_F32) || (type == PCO_ONNX_FLOAT16 && dtype == PCO_F16) ||
           (type == PCO_ONNX_BFLOAT16 && dtype == PCO_BF16) || (type == PCO_ONNX_INT32 && dtype == PCO_I32);
}

static int32_t runner_stored(uint32_t dtype)
{
    return dtype == PCO_F32    ? PCO_ONNX_FLOAT
           : dtype == PCO_F16  ? PCO_ONNX_FLOAT16
           : dtype == PCO_BF16 ? PCO_ONNX_BFLOAT16
           : dtype == PCO_BOOL ? PCO_ONNX_BOOL
                               : PCO_ONNX_INT32;
}

static pco_status runner_write(const pco_onnx_runner *runner, uint32_t input, const pco_onnx_array *array,
                               pco_error *err)
{
    char name[PCO_ONNX_NAME];
    pco_executable *executable = runner->current->executable;
    const uint32_t handle = pco_executable_tensor(executable, pco_onnx_input_name(input, name));
    if (handle == PCO_NONE || !array->bytes) return PCO_OK; /* nothing depends on it */
    const uint32_t dtype = pco_executable_describe(executable, handle)->dtype;
    if (runner_same(array->type, dtype))
        return pco_executable_write(executable, handle, array->data, array->bytes, err);
    const int64_t count = (int64_t)(array->bytes / pco_onnx_type_bytes(array->type));
    const uint64_t bytes = (uint64_t)count * pco_onnx_type_bytes(runner_stored(dtype));
    double *values = malloc((size_t)count * sizeof *values);
    void *data = malloc(bytes);
    pco_status status = values && data ? PCO_OK : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for an input");
    if (!status) pco_onnx_decode(array->type, array->data, count, values);
    for (int64_t i = 0; i < count && !status && dtype == PCO_I32; i++)
        if (values[i] < INT32_MIN || values[i] > INT32_MAX)
            status =
                pco_fail(err, PCO_ERROR_INVALID,
                         "element %lld of input '%.100s' is %.0f, beyond the 32 bits in which whole numbers are run",
                         (long long)i, runner->model->file.graph.inputs[input].name, values[i]);
    if (!status) {
        pco_onnx_encode(runner_stored(dtype), values, count, data);
        status = pco_executable_write(executable, handle, data, bytes, err);
    }
    free(values);
    free(data);
    return status;
}

/* `raw` of the graph's type, or `values`, into an array of the output's. */
static pco_status runner_convert(runner_output *output, const double *values, pco_error *err)
{
    const int64_t count = (int64_t)(output->array.bytes / pco_onnx_type_bytes(output->array.type));
    output->data = malloc(output->array.bytes + 1);
    if (!output->data) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for an output");
    if (values) pco_onnx_encode(output->array.type, values, count, output->data);
    return PCO_OK;
}

static pco_status runner_read(const pco_onnx_runner *runner, uint32_t index, runner_output *output, pco_error *err)
{
    char name[PCO_ONNX_NAME];
    pco_executable *executable = runner->current->executable;
    const uint32_t handle = pco_executable_tensor(executable, pco_onnx_output_name(index, name));
    if (handle == PCO_NONE) return pco_fail(err, PCO_ERROR_INTERNAL, "output %u is not in the program", index);
    const uint32_t dtype = pco_executable_describe(executable, handle)->dtype;
    const int64_t count = runner->current->import.made[index].tensor.count;
    pco_status status = runner_convert(output, NULL, err);
    if (status || !count) return status;
    if (runner_same(output->array.type, dtype))
        return pco_executable_read(executable, handle, output->data, output->array.bytes, err);
    const uint64_t bytes = (uint64_t)count * pco_onnx_type_bytes(runner_stored(dtype));
    double *values = malloc((size_t)count * sizeof *values);
    void *data = malloc(bytes);
    status = values && data ? pco_executable_read(executable, handle, data, bytes, err)
                            : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for an output");
    if (!status) pco_onnx_decode(runner_stored(dtype), data, count, values);
    const bool unsigned_type = output->array.type == PCO_ONNX_UINT32 || output->array.type == PCO_ONNX_UINT64;
    for (int64_t i = 0; i < count && !status && unsigned_type; i++)
        if (values[i] < 0)
            status = pco_fail(err, PCO_ERROR_UNSUPPORTED,
                              "element %lld of output '%.100s' is beyond the 31 bits in which %s is run", (long long)i,
                              output->array.name, pco_onnx_type_name(output->array.type));
    if (!status) {
        pco_onnx_encode(output->array.type, values, count, output->data);
    }
    free(values);
    free(data);
    return status;
}

static pco_status runner_result(pco_onnx_runner *runner, uint32_t index, pco_error *err)
{
    const pco_onnx_made *made = &runner->current->import.made[index];
    const pco_onnx_value *said = &runner->model->file.graph.outputs[index];
    runner_output *output = &runner->outputs[index];
    output->array = (pco_onnx_array){.size = sizeof output->array, .name = said->name, .rank = made->tensor.rank};
    output->array.type = pco_onnx_type_bytes(said->type) ? said->type : made->tensor.type;
    memcpy(output->array.shape, made->tensor.shape, sizeof output->array.shape);
    output->array.bytes = (uint64_t)made->tensor.count * pco_onnx_type_bytes(output->array.type);
    const pco_status status =
        made->in_graph ? runner_read(runner, index, output, err) : runner_convert(output, made->tensor.value, err);
    output->array.data = output->data;
    return status;
}

pco_status pco_onnx_run(pco_onnx_runner *runner, const pco_onnx_array *inputs, uint32_t n_inputs, pco_error *err)
{
    PCO_NEEDS(runner);
    PCO_NEEDS_SOME(inputs, n_inputs);
    PCO_ENTER(pco_session_registry(runner->session));
    const pco_onnx_graph *graph = &runner->model->file.graph;
    runner->current = NULL;
    runner_clear_outputs(runner);
    pco_onnx_bound *bound = calloc(graph->n_inputs + 1u, sizeof *bound);
    if (!bound) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory to run an ONNX model");
    pco_status status = runner_bind(runner, inputs, n_inputs, bound, err);
    if (status)
        free(bound);
    else
        status = runner_find(runner, bound, err);
    if (status) return status;
    runner->current->last = ++runner->runs;
    for (uint32_t i = 0; i < n_inputs && runner->current->executable && !status; i++) {
        uint32_t at = inputs[i].name ? 0 : i;
        while (inputs[i].name && strcmp(graph->inputs[at].name, inputs[i].name) != 0) at++;
        if (runner_used(&runner->current->import, at)) status = runner_write(runner, at, &inputs[i], err);
    }
    if (!status && runner->current->executable) status = pco_executable_run(runner->current->executable, err);
    for (uint32_t i = 0; i < graph->n_outputs && !status; i++) status = runner_result(runner, i, err);
    if (status) runner->current = NULL;
    return status;
}

pco_status pco_onnx_runner_output(const pco_onnx_runner *runner, uint32_t index, pco_onnx_array *array, pco_error *err)
{
    PCO_NEEDS(runner);
    PCO_NEEDS(array);
    PCO_ENTER(pco_session_registry(runner->session));
    const uint32_t count = runner->model->file.graph.n_outputs;
    if (index >= count) return pco_fail(err, PCO_ERROR_INVALID, "output %u of a model that has %u", index, count);
    if (!runner->current) return pco_fail(err, PCO_ERROR_INVALID, "outputs are there after a run that succeeded");
    return pco_fill_sized(array, &runner->outputs[index].array, sizeof *array, err);
}

const pco_executable *pco_onnx_runner_executable(const pco_onnx_runner *runner)
{
    return runner && runner->current ? runner->current->executable : NULL;
}
