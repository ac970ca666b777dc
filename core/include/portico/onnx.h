/* ONNX models (https://onnx.ai): what a file says, what of it cannot be run, and runs on any session.
 *
 *     if (pco_onnx_open("encoder.onnx", &model, &err)) ...
 *     if (pco_onnx_runner_create(session, model, &runner, &err)) ...
 *     pco_onnx_array ids = {sizeof ids, "input_ids", PCO_ONNX_INT64, 2, {1, 16}, data, 16 * sizeof(int64_t)};
 *     if (pco_onnx_run(runner, &ids, 1, &err)) ...
 *     if (pco_onnx_runner_output(runner, 0, &array, &err)) ...
 *
 * Operator sets 13 to 23 are read. Older and newer ones (1 to 28) are, too, as far as the operators in a file mean the
 * same as in these; what does not is refused by its name, and so is an attribute that has gone since. Control flow
 * (Loop, Scan, and an If whose condition only a run knows) is refused. Every attribute of a node is used, or refused by
 * its name.
 *
 * Shapes: dimensions that a file leaves open are those of the arrays that a run is given. A runner makes one executable
 * for each set of shapes (and of those values that shapes depend on), and keeps the last few. What a file computes from
 * shapes and constants alone is computed once, on the host.
 *
 * Types: whole numbers run as i32, and 64-bit floats as f32; a whole number of an input that does not fit is an error,
 * as is a negative one in an output of uint32 or uint64. A result of int32, int64, uint32 or uint64 beyond 32 bits
 * wraps, and is not noticed. Sums and products of int8, uint8, int16 and uint16 wrap as these do; floats of 8 and 4
 * bits run as f32, and are rounded to their own values where they are made. A result has the type that the file says.
 * Strings, complex numbers, sequences and optional values are refused.
 *
 * Threads: a model is read-only once it is open, and may be used by several runners at once; a runner is used by one
 * thread at a time, as its session is. Arguments: `err` may be NULL; other NULL is INVALID. A library that was built
 * without ONNX (Meson's option `onnx`) has these functions, and what opens a model says UNSUPPORTED. */
#ifndef PORTICO_ONNX_H
#define PORTICO_ONNX_H

#include <portico/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* TensorProto.DataType. Elements of 4 and 2 bits are packed in files and, in arrays, a byte each. */
typedef enum pco_onnx_type {
    PCO_ONNX_NO_TYPE = 0, /* not said, or no tensor */
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
    PCO_ONNX_FLOAT8E4M3FNUZ = 18,
    PCO_ONNX_FLOAT8E5M2 = 19,
    PCO_ONNX_FLOAT8E5M2FNUZ = 20,
    PCO_ONNX_UINT4 = 21,
    PCO_ONNX_INT4 = 22,
    PCO_ONNX_FLOAT4E2M1 = 23,
    PCO_ONNX_FLOAT8E8M0 = 24,
    PCO_ONNX_UINT2 = 25,
    PCO_ONNX_INT2 = 26,
} pco_onnx_type;

/* "float", "int64" ...; "unknown type". Static. */
PCO_EXPORT const char *pco_onnx_type_name(int32_t type);
/* Bytes of an element in an array; 0 for what no array holds (strings, unknown types). */
PCO_EXPORT uint32_t pco_onnx_type_bytes(int32_t type);

typedef struct pco_onnx_model pco_onnx_model;
typedef struct pco_onnx_runner pco_onnx_runner;

/* Opens a file; weights beside it ("external data") are mapped, and must lie in its folder or below. Close the model
 * with pco_onnx_close. Errors: IO; FORMAT: no ONNX model, sizes that contradict each other; UNSUPPORTED: an operator
 * set that is not read; OUT_OF_HOST_MEMORY. */
PCO_EXPORT pco_status pco_onnx_open(const char *path, pco_onnx_model **model, pco_error *err) PCO_NODISCARD;
/* The same for a file in memory, which is read during the call. `folder` is where external data lies, and `folder`
 * may be NULL where there is none. */
PCO_EXPORT pco_status pco_onnx_parse(const void *data, size_t size, const char *folder, pco_onnx_model **model,
                                     pco_error *err) PCO_NODISCARD;
/* NULL is allowed. After the runners that use the model. */
PCO_EXPORT void pco_onnx_close(pco_onnx_model *model);

/* What goes in, or comes out. */
typedef struct pco_onnx_value {
    size_t size;      /* sizeof(pco_onnx_value), set by the caller */
    const char *name; /* as long as the model */
    int32_t type;     /* pco_onnx_type; PCO_ONNX_NO_TYPE: the file does not say, or it is no tensor */
    int shaped;       /* 1: rank and dims are known */
    uint32_t rank;
    int64_t dims[PCO_MAX_RANK];        /* -1: left open, */
    const char *symbols[PCO_MAX_RANK]; /* under this name, or "" */
    int optional;                      /* of an input: 1, the file has values for it */
} pco_onnx_value;

PCO_EXPORT uint32_t pco_onnx_inputs(const pco_onnx_model *model);
PCO_EXPORT uint32_t pco_onnx_outputs(const pco_onnx_model *model);
/* Fills in as much as value->size says. INVALID for one that is not there. */
PCO_EXPORT pco_status pco_onnx_input(const pco_onnx_model *model, uint32_t index, pco_onnx_value *value,
                                     pco_error *err) PCO_NODISCARD;
PCO_EXPORT pco_status pco_onnx_output(const pco_onnx_model *model, uint32_t index, pco_onnx_value *value,
                                      pco_error *err) PCO_NODISCARD;
/* The operator set of ONNX's own operators; how many nodes there are, in functions and branches too. */
PCO_EXPORT int64_t pco_onnx_opset(const pco_onnx_model *model);
PCO_EXPORT uint32_t pco_onnx_nodes(const pco_onnx_model *model);

/* One thing that cannot be run: which node, and why. Strings live during the call. */
typedef void (*pco_onnx_problem_fn)(void *user, const char *op, const char *node, const char *why);

/* Tells of every operator that has no mapping, before shapes are known; a run tells of the rest. Returns how many.
 * `problem` may be NULL. */
PCO_EXPORT uint32_t pco_onnx_check(const pco_onnx_model *model, pco_onnx_problem_fn problem, void *user);

/* Is there a mapping for an operator of this name and domain ("" or "ai.onnx": ONNX's own)? */
PCO_EXPORT int pco_onnx_has_operator(const char *domain, const char *op);

/* Contiguous values in host memory, of ONNX's type, outermost dimension first. */
typedef struct pco_onnx_array {
    size_t size;      /* sizeof(pco_onnx_array) */
    const char *name; /* of the input or output; of an input it may be NULL: the input in this place */
    int32_t type;     /* pco_onnx_type */
    uint32_t rank;
    int64_t shape[PCO_MAX_RANK];
    const void *data;
    uint64_t bytes;
} pco_onnx_array;

/* Runs a model on a session; both outlive it. Destroy it before the session is closed. Errors: OUT_OF_HOST_MEMORY. */
PCO_EXPORT pco_status pco_onnx_runner_create(pco_session *session, const pco_onnx_model *model,
                                             pco_onnx_runner **runner, pco_error *err) PCO_NODISCARD;
/* NULL is allowed. */
PCO_EXPORT void pco_onnx_runner_destroy(pco_onnx_runner *runner);

/* Exporters take attention, norms and activations apart into simple operators, which are put together again: the same
 * but for rounding, and a row of attention that sees no key is 0, not NaN. With 0, from the next set of shapes on, not.
 */
PCO_EXPORT void pco_onnx_runner_merge(pco_onnx_runner *runner, int merge);

/* Told of everything that a run could not express, one call each, before it returns UNSUPPORTED. NULL: nobody. */
PCO_EXPORT void pco_onnx_runner_tell(pco_onnx_runner *runner, pco_onnx_problem_fn problem, void *user);

/* Runs once, and waits. Inputs are read during the call, in any order. Errors: INVALID: an input that is missing, not
 * there, of another type or shape than the file says, or a value that does not fit; UNSUPPORTED, with the first thing
 * that cannot be run and how many more there are; what pco_executable_create and _run return. */
PCO_EXPORT pco_status pco_onnx_run(pco_onnx_runner *runner, const pco_onnx_array *inputs, uint32_t n_inputs,
                                   pco_error *err) PCO_NODISCARD;
/* The output of the last run, in the order of the model's; its memory is the runner's and lives until the next run.
 * array->size is set by the caller. INVALID before a run and for one that is not there. */
PCO_EXPORT pco_status pco_onnx_runner_output(const pco_onnx_runner *runner, uint32_t index, pco_onnx_array *array,
                                             pco_error *err) PCO_NODISCARD;

/* The executable of the last run, to look at (pco_executable_inspect); NULL where nothing had to run. */
PCO_EXPORT const pco_executable *pco_onnx_runner_executable(const pco_onnx_runner *runner);

#ifdef __cplusplus
}
#endif

#endif
