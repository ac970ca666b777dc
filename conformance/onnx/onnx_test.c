#include "onnx/onnx_test.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pco_status onnx_read_tensors(const char *folder, const char *kind, pco_onnx_tensor *to, uint32_t count,
                                    pco_error *err)
{
    char path[1024];
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < count && !status; i++) {
        snprintf(path, sizeof path, "%s/test_data_set_0/%s_%u.pb", folder, kind, i);
        status = pco_onnx_tensor_read(path, &to[i], err);
    }
    return status;
}

pco_status onnx_test_read(onnx_test *test, const char *folder, pco_error *err)
{
    char path[1024];
    memset(test, 0, sizeof *test);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    pco_status status = pco_onnx_open(path, &test->model, err);
    if (status) return status;
    const uint32_t n_inputs = pco_onnx_inputs(test->model), n_outputs = pco_onnx_outputs(test->model);
    test->inputs = calloc(n_inputs + 1u, sizeof *test->inputs);
    test->outputs = calloc(n_outputs + 1u, sizeof *test->outputs);
    if (!test->inputs || !test->outputs) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a test");
    test->n_inputs = n_inputs, test->n_outputs = n_outputs;
    status = onnx_read_tensors(folder, "input", test->inputs, n_inputs, err);
    return status ? status : onnx_read_tensors(folder, "output", test->outputs, n_outputs, err);
}

void onnx_test_clear(onnx_test *test)
{
    for (uint32_t i = 0; i < test->n_inputs; i++) pco_onnx_tensor_clear(&test->inputs[i]);
    for (uint32_t i = 0; i < test->n_outputs; i++) pco_onnx_tensor_clear(&test->outputs[i]);
    free(test->inputs);
    free(test->outputs);
    pco_onnx_close(test->model);
}
