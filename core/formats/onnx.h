/* ONNX files (https://onnx.ai/onnx/repo-docs/IR.html): what a model or a tensor says, without what its nodes mean.
 * models/onnx makes graphs of them. */
#ifndef PCO_FORMATS_ONNX_H
#define PCO_FORMATS_ONNX_H

#include "base/arena.h"
#include "base/file.h"
#include "portico/onnx.h"

#include <stdbool.h>

/* A tensor. `value` are all values as doubles: exact for every type that is read, but for whole numbers beyond 2^53. It
 * is NULL where only a run will know them, and until pco_onnx_tensor_values was called where `raw` has them: as they
 * stand in an array (pco_onnx_array), borrowed from the file. */
typedef struct pco_onnx_tensor {
    int32_t type; /* pco_onnx_type */
    uint32_t rank;
    int64_t shape[PCO_MAX_RANK];
    int64_t count;
    double *value; /* count of them, owned */
    const void *raw;
} pco_onnx_tensor;

/* AttributeProto.AttributeType: those that the mapping asks for. */
enum { PCO_ONNX_ATTRIBUTE_FLOATS = 6, PCO_ONNX_ATTRIBUTE_INTS = 7 };

typedef struct pco_onnx_graph pco_onnx_graph;

typedef struct pco_onnx_attribute {
    const char *name;
    const char *reference; /* "": none; the attribute of the function's call whose value it takes */
    int32_t type;          /* as above; 0: not said */
    bool has_int, has_float, has_text;
    int64_t i;
    double f;
    const char *text; /* of text_bytes bytes, not terminated */
    size_t text_bytes, n_ints, n_floats;
    const int64_t *ints;
    const float *floats;
    const void *tensor;          /* for pco_onnx_tensor_of; NULL: none */
    const pco_onnx_graph *graph; /* NULL: none */
} pco_onnx_attribute;

typedef struct pco_onnx_node {
    const char *op, *name, *domain; /* "": ONNX's own domain */
    uint32_t n_inputs, n_outputs, n_attributes;
    const char *const *inputs, *const *outputs; /* names; "": left out */
    const pco_onnx_attribute *attributes;
} pco_onnx_node;

struct pco_onnx_graph {
    uint32_t n_nodes, n_inputs, n_outputs, n_initializers;
    const pco_onnx_node *nodes;
    const pco_onnx_value *inputs, *outputs; /* `optional` is not filled in */
    const char *const *initializers;        /* names */
    const void *message;
};

/* What a node of this name and domain stands for. */
typedef struct pco_onnx_function {
    const char *name, *domain;
    uint32_t n_inputs, n_outputs, n_nodes, n_defaults;
    const char *const *inputs, *const *outputs;
    const pco_onnx_node *nodes;
    const pco_onnx_attribute *defaults;
} pco_onnx_function;

typedef struct pco_onnx_external {
    const char *location;
    pco_map map;
} pco_onnx_external;

/* All names and lists belong to the file; a name that it leaves out is "". Read-only once opened. */
typedef struct pco_onnx_file {
    int64_t opset; /* of ONNX's own operators; 0: not said */
    pco_onnx_graph graph;
    uint32_t n_functions, n_external, total_nodes;
    const pco_onnx_function *functions;
    pco_onnx_external *external; /* files of weights, mapped when the file is opened */
    void *message;               /* what was parsed */
    pco_arena arena;
} pco_onnx_file;

/* Reads `path`; close it also after an error. Errors: IO; FORMAT: no ONNX model, or one that is nested deeper than any,
 * external data outside of the folder, or less than tensors say; OUT_OF_HOST_MEMORY. */
pco_status pco_onnx_file_open(const char *path, pco_onnx_file *file, pco_error *err) PCO_NODISCARD;
/* The same for `size` bytes, called `label` in messages; `folder` is where external data lies, or NULL. */
pco_status pco_onnx_file_parse(const void *data, size_t size, const char *label, const char *folder,
                               pco_onnx_file *file, pco_error *err) PCO_NODISCARD;
void pco_onnx_file_close(pco_onnx_file *file);

/* Of an initializer, or of an attribute's tensor; clear it also after an error. Values that the file has in an array's
 * layout become `raw`, others `value`. Errors: UNSUPPORTED: an element type or a rank that cannot be read; FORMAT: a
 * shape that is out of range, or not as many values as it says; OUT_OF_HOST_MEMORY. */
pco_status pco_onnx_initializer(const pco_onnx_file *file, const pco_onnx_graph *graph, uint32_t index,
                                pco_onnx_tensor *tensor, pco_error *err) PCO_NODISCARD;
pco_status pco_onnx_tensor_of(const pco_onnx_file *file, const void *message, pco_onnx_tensor *tensor,
                              pco_error *err) PCO_NODISCARD;

/* Fills in `value` from `raw`, if it is not there yet. Errors: OUT_OF_HOST_MEMORY. */
pco_status pco_onnx_tensor_values(pco_onnx_tensor *tensor, pco_error *err) PCO_NODISCARD;
void pco_onnx_tensor_clear(pco_onnx_tensor *tensor);

/* Reads a file that holds one tensor, with its values. As above; errors also: IO. */
pco_status pco_onnx_tensor_read(const char *path, pco_onnx_tensor *tensor, pco_error *err) PCO_NODISCARD;

/* `count` elements in an array's layout to doubles, and back, rounded to nearest even and saturated where a type cannot
 * hold a value. For every type that pco_onnx_type_bytes knows. */
void pco_onnx_decode(int32_t type, const void *raw, int64_t count, double *value);
void pco_onnx_encode(int32_t type, const double *value, int64_t count, void *raw);

/* A float of 8 or 4 bits; all 0 for float8e8m0, which holds powers of two alone. */
typedef struct pco_onnx_small {
    int mantissa, bias; /* bits behind the point; what is subtracted from the exponent */
    bool infinity, nan; /* are there such */
    double largest;     /* finite number */
} pco_onnx_small;
/* False for another type. */
bool pco_onnx_small_float(int32_t type, pco_onnx_small *small);

/* Before it is parsed: are messages nested no deeper than `PCO_ONNX_DEEPEST`, and so few that parsing takes no more
 * than ten times the file's bytes and a little? (formats/onnx_nesting.c) */
enum { PCO_ONNX_DEEPEST = 32 };
pco_status pco_onnx_nesting(const void *data, size_t size, const char *label, pco_error *err) PCO_NODISCARD;

#endif
