/* ONNX files (https://onnx.ai/onnx/repo-docs/IR.html): what a model or a tensor says, without what its nodes mean.
 * models/onnx/map.h makes graphs of nodes. */
#ifndef PCO_FORMATS_ONNX_H
#define PCO_FORMATS_ONNX_H

#include "base/arena.h"
#include "portico/plugin.h"

#include <stdbool.h>

/* TensorProto.DataType */
typedef enum pco_onnx_type {
    PCO_ONNX_FLOAT = 1,
    PCO_ONNX_UINT8 = 2,
    PCO_ONNX_INT8 = 3,
    PCO_ONNX_UINT16 = 4,
    PCO_ONNX_INT16 = 5,
    PCO_ONNX_INT32 = 6,
    PCO_ONNX_INT64 = 7,
    PCO_ONNX_STRING = 8,
    PCO_ONNX_BOOL = 9,
    PCO_ONNX_FLOAT16 = 10,
    PCO_ONNX_DOUBLE = 11,
    PCO_ONNX_UINT32 = 12,
    PCO_ONNX_UINT64 = 13,
    PCO_ONNX_BFLOAT16 = 16,
    PCO_ONNX_FLOAT8E4M3FN = 17,
    PCO_ONNX_FLOAT8E5M2 = 19,
} pco_onnx_type;

/* "float", "int64" ...; "unknown type". Static. */
const char *pco_onnx_type_name(int32_t type);

/* A tensor in host memory, all values as doubles: exact for every type that is read, but for whole numbers beyond
 * 2^53. */
typedef struct pco_onnx_tensor {
    int32_t type; /* pco_onnx_type */
    uint32_t rank;
    int64_t shape[PCO_MAX_RANK];
    int64_t count;
    double *value; /* count of them, owned */
} pco_onnx_tensor;

/* AttributeProto.AttributeType: those that the mapping asks for. */
enum { PCO_ONNX_ATTRIBUTE_INTS = 7 };

typedef struct pco_onnx_attribute {
    const char *name;
    int32_t type; /* as above; 0: not said */
    bool has_int, has_float, has_text;
    int64_t i;
    double f;
    const char *text; /* of text_bytes bytes, not terminated */
    size_t text_bytes, n_ints;
    const int64_t *ints;
} pco_onnx_attribute;

typedef struct pco_onnx_node {
    const char *op;
    uint32_t n_inputs, n_outputs, n_attributes;
    const char *const *inputs, *const *outputs; /* names; "": left out */
    const pco_onnx_attribute *attributes;
} pco_onnx_node;

/* All names and lists belong to the model; a name that the file leaves out is "". Read-only once opened. */
typedef struct pco_onnx_model {
    int64_t opset; /* of ONNX's own operators; 0: not said */
    uint32_t n_nodes, n_inputs, n_outputs, n_initializers;
    const pco_onnx_node *nodes;
    const char *const *inputs, *const *outputs, *const *initializers; /* names */
    void *message;                                                    /* what was parsed */
    pco_arena arena;
} pco_onnx_model;

/* Reads `path`; close it also after an error. Errors: IO; FORMAT: no ONNX model; OUT_OF_HOST_MEMORY. */
pco_status pco_onnx_open(const char *path, pco_onnx_model *model, pco_error *err) PCO_NODISCARD;
void pco_onnx_close(pco_onnx_model *model);

/* The values of an initializer; clear them also after an error. Errors: UNSUPPORTED: an element type or a rank that
 * cannot be read; FORMAT: a shape that is out of range, or not as many values as it says; OUT_OF_HOST_MEMORY. */
pco_status pco_onnx_initializer(const pco_onnx_model *model, uint32_t index, pco_onnx_tensor *tensor,
                                pco_error *err) PCO_NODISCARD;

/* Reads a file that holds one tensor. As above; errors also: IO. */
pco_status pco_onnx_tensor_read(const char *path, pco_onnx_tensor *tensor, pco_error *err) PCO_NODISCARD;
void pco_onnx_tensor_clear(pco_onnx_tensor *tensor);

#endif
