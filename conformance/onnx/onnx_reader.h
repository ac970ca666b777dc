/* Reads one ONNX node test: a model of one node, and its inputs and expected outputs as tensors. */
#ifndef CONF_ONNX_READER_H
#define CONF_ONNX_READER_H

#include "portico/plugin.h"

#include "onnx.pb-c.h"

#include <stdbool.h>

/* ONNX's element types (TensorProto.DataType). */
enum {
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT8 = 3,
    ONNX_UINT16 = 4,
    ONNX_INT16 = 5,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_STRING = 8,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10,
    ONNX_DOUBLE = 11,
    ONNX_UINT32 = 12,
    ONNX_UINT64 = 13,
    ONNX_BFLOAT16 = 16,
    ONNX_FLOAT8E4M3FN = 17,
    ONNX_FLOAT8E5M2 = 19,
};

/* A tensor in host memory, all values as doubles (exact for every type that occurs). */
typedef struct onnx_tensor {
    bool present;
    int32_t type;
    uint32_t rank;
    int64_t shape[PCO_MAX_RANK];
    int64_t count;
    double *value;
} onnx_tensor;

enum { ONNX_MAX_OPERANDS = 8 };

typedef struct onnx_test {
    Onnx__ModelProto *model;
    const Onnx__NodeProto *node;
    int64_t opset;
    uint32_t n_inputs, n_outputs; /* of the node, absent ones included */
    uint64_t taken;               /* a bit for each of the node's attributes that was read */
    onnx_tensor inputs[ONNX_MAX_OPERANDS], outputs[ONNX_MAX_OPERANDS];
} onnx_test;

/* Reads folder/model.onnx and folder/test_data_set_0. Release with onnx_test_clear, also after an error.
 * Errors: IO, FORMAT, UNSUPPORTED (an element type that cannot be read), OUT_OF_HOST_MEMORY. */
pco_status onnx_test_read(onnx_test *test, const char *folder, pco_error *err) PCO_NODISCARD;
void onnx_test_clear(onnx_test *test);

const char *onnx_type_name(int32_t type);

/* Attributes of the node, with defaults. Each call takes the attribute, unless it is of another type or does not fit.
 */
int64_t onnx_int(onnx_test *test, const char *name, int64_t initial);
double onnx_float(onnx_test *test, const char *name, double initial);
/* The attribute's text into `text`, or `initial`. */
void onnx_text(onnx_test *test, const char *name, const char *initial, char *text, size_t capacity);
/* Number of entries, or -1 without the attribute. */
int64_t onnx_ints(onnx_test *test, const char *name, int64_t *values, int64_t capacity);
/* Takes an attribute that says nothing here, whatever its value is. */
void onnx_without(onnx_test *test, const char *name);
/* The name of the first attribute that nobody took; NULL: all were. */
const char *onnx_left(const onnx_test *test);

#endif
