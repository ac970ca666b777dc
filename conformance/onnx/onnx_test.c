#include "onnx/onnx_test.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

static pco_status onnx_read_tensor(const char *folder, const char *kind, uint32_t index, pco_onnx_tensor *to,
                                   pco_error *err)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/test_data_set_0/%s_%u.pb", folder, kind, index);
    return pco_onnx_tensor_read(path, to, err);
}

/* The first of `names` with that name; PCO_NONE without one. */
static uint32_t onnx_find_name(const char *const *names, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return i;
    return PCO_NONE;
}

/* Inputs of the node come from the graph's inputs, in their order, or from initializers. */
static pco_status onnx_read_inputs(onnx_test *test, const char *folder, pco_error *err)
{
    const pco_onnx_model *model = &test->model;
    for (uint32_t i = 0; i < test->node->n_inputs; i++) {
        const char *name = test->node->inputs[i];
        if (!name[0]) continue;
        const uint32_t input = onnx_find_name(model->inputs, model->n_inputs, name);
        const uint32_t initializer = onnx_find_name(model->initializers, model->n_initializers, name);
        if (input == PCO_NONE && initializer == PCO_NONE)
            return pco_fail(err, PCO_ERROR_FORMAT, "input '%s' has no values", name);
        pco_status status = input != PCO_NONE ? onnx_read_tensor(folder, "input", input, &test->inputs[i], err)
                                              : pco_onnx_initializer(model, initializer, &test->inputs[i], err);
        if (status) return status;
        test->given |= 1u << i;
    }
    return PCO_OK;
}

static pco_status onnx_read_outputs(onnx_test *test, const char *folder, pco_error *err)
{
    const pco_onnx_model *model = &test->model;
    for (uint32_t i = 0; i < test->node->n_outputs; i++) {
        const char *name = test->node->outputs[i];
        const uint32_t output = name[0] ? onnx_find_name(model->outputs, model->n_outputs, name) : PCO_NONE;
        if (output == PCO_NONE) continue;
        pco_status status = onnx_read_tensor(folder, "output", output, &test->outputs[i], err);
        if (status) return status;
        test->expected |= 1u << i;
    }
    return PCO_OK;
}

pco_status onnx_test_read(onnx_test *test, const char *folder, pco_error *err)
{
    char path[1024];
    memset(test, 0, sizeof *test);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    pco_status status = pco_onnx_open(path, &test->model, err);
    if (status) return status;
    if (test->model.n_nodes != 1)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "the model has %u nodes, not one", test->model.n_nodes);
    test->node = test->model.nodes;
    if (!test->node->op[0] || test->node->n_inputs > PCO_ONNX_MAX_OPERANDS ||
        test->node->n_outputs > PCO_ONNX_MAX_OPERANDS)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "a node with more than %d operands", PCO_ONNX_MAX_OPERANDS);
    status = onnx_read_inputs(test, folder, err);
    return status ? status : onnx_read_outputs(test, folder, err);
}

void onnx_test_clear(onnx_test *test)
{
    for (uint32_t i = 0; i < PCO_ONNX_MAX_OPERANDS; i++) {
        pco_onnx_tensor_clear(&test->inputs[i]);
        pco_onnx_tensor_clear(&test->outputs[i]);
    }
    pco_onnx_close(&test->model);
}
