/* One of ONNX's node tests: a model of one node, its inputs and its expected outputs. */
#ifndef CONF_ONNX_TEST_H
#define CONF_ONNX_TEST_H

#include "models/onnx/map.h"

typedef struct onnx_test {
    pco_onnx_model model;
    const pco_onnx_node *node;
    pco_onnx_tensor inputs[PCO_ONNX_MAX_OPERANDS], outputs[PCO_ONNX_MAX_OPERANDS];
    uint32_t given, expected; /* a bit for each input and output that is there */
} onnx_test;

/* Reads folder/model.onnx and folder/test_data_set_0. Release with onnx_test_clear, also after an error.
 * Errors: IO, FORMAT, UNSUPPORTED (an element type that cannot be read), OUT_OF_HOST_MEMORY. */
pco_status onnx_test_read(onnx_test *test, const char *folder, pco_error *err) PCO_NODISCARD;
void onnx_test_clear(onnx_test *test);

#endif
