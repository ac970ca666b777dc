/* ONNX models, as portico/onnx.h has them. */
#include "models/onnx/model.h"

#include "base/error.h"
#include "models/onnx/import.h"

#include <stdlib.h>
#include <string.h>

enum { MODEL_OLDEST = 1, MODEL_NEWEST = 28 }; /* operator sets */

static pco_status model_finish(pco_onnx_model *opened, pco_status status, const char *label, pco_onnx_model **model,
                               pco_error *err)
{
    const int64_t opset = opened->file.opset;
    if (!status && (opset < MODEL_OLDEST || opset > MODEL_NEWEST))
        status = pco_fail(err, PCO_ERROR_UNSUPPORTED,
                          "'%s' has operator set %lld; %d to %d are read: convert it with onnx.version_converter",
                          label, (long long)opset, MODEL_OLDEST, MODEL_NEWEST);
    if (status) {
        pco_onnx_close(opened);
        return status;
    }
    *model = opened;
    return PCO_OK;
}

pco_status pco_onnx_open(const char *path, pco_onnx_model **model, pco_error *err)
{
    PCO_NEEDS(model);
    *model = NULL;
    PCO_NEEDS(path);
    pco_onnx_model *opened = calloc(1, sizeof *opened);
    if (!opened) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for '%s'", path);
    return model_finish(opened, pco_onnx_file_open(path, &opened->file, err), path, model, err);
}

pco_status pco_onnx_parse(const void *data, size_t size, const char *folder, pco_onnx_model **model, pco_error *err)
{
    static const char LABEL[] = "the model in memory";
    PCO_NEEDS(model);
    *model = NULL;
    PCO_NEEDS(data);
    pco_onnx_model *opened = calloc(1, sizeof *opened);
    if (!opened) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for %s", LABEL);
    return model_finish(opened, pco_onnx_file_parse(data, size, LABEL, folder, &opened->file, err), LABEL, model, err);
}

void pco_onnx_close(pco_onnx_model *model)
{
    if (!model) return;
    pco_onnx_file_close(&model->file);
    free(model);
}

uint32_t pco_onnx_inputs(const pco_onnx_model *model) { return model ? model->file.graph.n_inputs : 0; }
uint32_t pco_onnx_outputs(const pco_onnx_model *model) { return model ? model->file.graph.n_outputs : 0; }
int64_t pco_onnx_opset(const pco_onnx_model *model) { return model ? model->file.opset : 0; }
uint32_t pco_onnx_nodes(const pco_onnx_model *model) { return model ? model->file.total_nodes : 0; }

pco_status pco_onnx_input(const pco_onnx_model *model, uint32_t index, pco_onnx_value *value, pco_error *err)
{
    PCO_NEEDS(model);
    PCO_NEEDS(value);
    const pco_onnx_graph *graph = &model->file.graph;
    if (index >= graph->n_inputs)
        return pco_fail(err, PCO_ERROR_INVALID, "input %u of a model that has %u", index, graph->n_inputs);
    pco_onnx_value known = graph->inputs[index];
    for (uint32_t i = 0; i < graph->n_initializers; i++)
        if (strcmp(graph->initializers[i], known.name) == 0) known.optional = 1;
    return pco_fill_sized(value, &known, sizeof known, err);
}

pco_status pco_onnx_output(const pco_onnx_model *model, uint32_t index, pco_onnx_value *value, pco_error *err)
{
    PCO_NEEDS(model);
    PCO_NEEDS(value);
    const pco_onnx_graph *graph = &model->file.graph;
    if (index >= graph->n_outputs)
        return pco_fail(err, PCO_ERROR_INVALID, "output %u of a model that has %u", index, graph->n_outputs);
    return pco_fill_sized(value, &graph->outputs[index], sizeof *value, err);
}

uint32_t pco_onnx_check(const pco_onnx_model *model, pco_onnx_problem_fn problem, void *user)
{
    return model ? pco_onnx_unknown(&model->file, problem, user) : 0;
}

int pco_onnx_has_operator(const char *domain, const char *op)
{
    if (!domain || !op) return 0;
    return pco_onnx_map_knows(strcmp(domain, "ai.onnx") == 0 ? "" : domain, op);
}
