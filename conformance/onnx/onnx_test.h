/* One of ONNX's node tests: a model, its inputs and its expected outputs. */
#ifndef CONF_ONNX_TEST_H
#define CONF_ONNX_TEST_H

#include "formats/onnx.h"

typedef struct onnx_test {
    pco_onnx_model *model;
    uint32_t n_inputs, n_outputs;
    pco_onnx_tensor *inputs, *outputs; /* in the order of the model's */
} onnx_test;

/* Reads folder/model.onnx and folder/test_data_set_0. Release with onnx_test_clear, also after an error.
 * Errors: IO, FORMAT, UNSUPPORTED (an element type that cannot be read), OUT_OF_HOST_MEMORY. */
pco_status onnx_test_read(onnx_test *test, const char *folder, pco_error *err) PCO_NODISCARD;
void onnx_test_clear(onnx_test *test);

#endif
