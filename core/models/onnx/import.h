/* Whole ONNX graphs as graphs of Portico's operations. */
#ifndef PCO_MODELS_ONNX_IMPORT_H
#define PCO_MODELS_ONNX_IMPORT_H

#include "models/onnx/map.h"

/* What an input of the file is in one run. */
typedef struct pco_onnx_bound {
    pco_onnx_tensor tensor; /* type and shape; `raw` holds its values, borrowed, for those that shapes depend on */
    bool given;             /* false: the file's own values */
} pco_onnx_bound;

/* What an output of the file became. */
typedef struct pco_onnx_made {
    pco_onnx_tensor tensor; /* type and shape; `value` where the host knows it already */
    bool in_graph;          /* as an output of the graph, called pco_onnx_output_name */
} pco_onnx_made;

enum { PCO_ONNX_NAME = 24 };

typedef struct pco_onnx_import {
    pco_graph *graph;    /* owned */
    pco_onnx_made *made; /* by output of the file */
    uint32_t n_made;
    uint64_t values; /* bit i: the graph holds for these values of input i only; bit 63: of any input from there on */
    uint64_t used;   /* bit i, likewise: the graph has input i, called pco_onnx_input_name */
    uint32_t n_problems;
    pco_arena arena;
} pco_onnx_import;

/* Makes a graph for inputs of these shapes, with composites where `merge` allows them (merge.h). `bound` has an entry
 * per input of the file. Tells of everything that cannot be expressed, and goes on behind it as far as shapes are
 * known. Constants are borrowed from the file. Errors: UNSUPPORTED, with the first problem and how many more there are;
 * OUT_OF_HOST_MEMORY. Clear the result also after an error. */
pco_status pco_onnx_import_create(const pco_onnx_file *file, const pco_onnx_bound *bound, bool merge,
                                  pco_onnx_problem_fn problem, void *user, pco_onnx_import *result,
                                  pco_error *err) PCO_NODISCARD;
void pco_onnx_import_clear(pco_onnx_import *result);

/* "in3", "out0": in name[PCO_ONNX_NAME]; returned. */
const char *pco_onnx_input_name(uint32_t index, char *name);
const char *pco_onnx_output_name(uint32_t index, char *name);

/* Operators without mapping, as far as names tell. Returns how many nodes have one. */
uint32_t pco_onnx_unknown(const pco_onnx_file *file, pco_onnx_problem_fn problem, void *user);

#endif
