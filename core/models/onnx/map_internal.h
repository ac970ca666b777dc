/* For the files that map nodes. */
#ifndef PCO_MODELS_ONNX_MAP_INTERNAL_H
#define PCO_MODELS_ONNX_MAP_INTERNAL_H

#include "models/onnx/map.h"

#include "graph/graph.h"

/* How an operator is mapped: by a function, which gives result 0 and may set others in `out`, or, where that is NULL,
 * to one operation of the same operands. */
typedef struct onnx_rule {
    const char *op; /* NULL: the end of a list */
    uint32_t (*map)(pco_onnx_map *map);
    pco_op same;
    uint32_t inputs; /* of `same` */
} onnx_rule;

extern const onnx_rule ONNX_ELEMENTWISE[], ONNX_FUNCTIONS[], ONNX_CASTS[], ONNX_SUMS[], ONNX_EINSUM[], ONNX_SHAPES[],
    ONNX_INDICES[], ONNX_NORMS[], ONNX_CONV[], ONNX_LAYERS[], ONNX_QUANTISED[], ONNX_RESIZE[];

/* ---- operands (map_operands.c) ---- */

static inline bool onnx_has(const pco_onnx_map *map, uint32_t i) { return i < map->node->n_inputs && map->operands[i]; }

bool onnx_is(const pco_onnx_map *map, const char *op);
/* The first reason stays; returns PCO_NONE. */
uint32_t onnx_skip(pco_onnx_map *map, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint32_t onnx_in(pco_onnx_map *map, uint32_t i);        /* input i in the graph; PCO_NONE where it is left out */
int32_t onnx_type(const pco_onnx_map *map, uint32_t i); /* ONNX's type of input i, or 0 */
/* The values of input i, of which operands[i]->count are there; NULL where it is left out or not known, and then the
 * node is skipped unless `quietly`. */
const double *onnx_known(pco_onnx_map *map, uint32_t i, bool quietly);
/* Values of input i that are read here (axes, shapes): how many, up to `capacity`; -1 where it is left out. */
int64_t onnx_host(pco_onnx_map *map, uint32_t i, int64_t *values, int64_t capacity);
/* The only value of input i, or `initial` where it is left out. */
double onnx_host_scalar(pco_onnx_map *map, uint32_t i, double initial);
/* After an error, which the graph keeps, a tensor of rank 0. Its shape has zeros behind its rank. */
const pco_tensor *onnx_desc(const pco_onnx_map *map, uint32_t tensor);
/* From the end when negative. One outside of the rank is skipped: 0. */
int64_t onnx_axis(pco_onnx_map *map, int64_t axis, uint32_t rank);
uint32_t onnx_sum_axes(pco_onnx_map *map, pco_op op, uint32_t x, uint32_t mask, int64_t keepdims);
/* A constant of that type from doubles. */
uint32_t onnx_constant(pco_onnx_map *map, pco_dtype dtype, uint32_t rank, const int64_t *shape, const double *values);
/* `shape` of `rank` dimensions broadcast with another; false where they do not go together, or are too many. */
bool onnx_broadcast(const int64_t *a, uint32_t a_rank, const int64_t *b, uint32_t b_rank, int64_t *shape,
                    uint32_t *rank);

/* ---- what operators are told of axes and shapes (map_bounds.c), for graph and host ---- */

/* Axes from attribute or input `i`, as a bit mask; all of them (or none, with noop) where there are none. */
uint32_t onnx_axes(pco_onnx_map *map, uint32_t i, uint32_t rank);
/* What Slice takes of a shape: for each dimension the first index, how many, and the step, which may be negative. The
 * functions are false where the node is skipped. */
typedef struct onnx_slices {
    int64_t start[PCO_MAX_RANK], size[PCO_MAX_RANK], step[PCO_MAX_RANK];
} onnx_slices;
bool onnx_bounds_slice(pco_onnx_map *map, const pco_onnx_tensor *x, onnx_slices *slices);
bool onnx_bounds_reshape(pco_onnx_map *map, const pco_onnx_tensor *x, int64_t *shape, uint32_t *rank);
bool onnx_bounds_squeeze(pco_onnx_map *map, const pco_onnx_tensor *x, int64_t *shape, uint32_t *rank);
bool onnx_bounds_expand(pco_onnx_map *map, const pco_onnx_tensor *x, int64_t *shape, uint32_t *rank);
bool onnx_bounds_permute(pco_onnx_map *map, const pco_onnx_tensor *x, int64_t *dims);
/* Sizes along *axis of the node's outputs. */
bool onnx_bounds_split(pco_onnx_map *map, const pco_onnx_tensor *x, int64_t *axis, int64_t *sizes);

/* Limits of a whole type of at most 32 bits; false for other types (map_types.c). */
bool onnx_range(int32_t type, double *low, double *high);

/* ---- to narrower types (map_casts.c) ---- */

/* i32 to what remains of it in a narrower whole type, which wraps; others as they are. */
uint32_t onnx_wrapped_to(pco_onnx_map *map, uint32_t x, int32_t type);
/* Floats to the nearest integer, ties to even. */
uint32_t onnx_rounded(pco_onnx_map *map, uint32_t x);
/* f32 to the nearest number of a float of 8 or 4 bits. */
uint32_t onnx_small_rounded(pco_onnx_map *map, uint32_t x, int32_t type, bool saturate);

/* ---- pieces that several operators need ---- */

/* Indices with negative ones counted from the end of an axis of n. */
uint32_t onnx_wrapped(pco_onnx_map *map, uint32_t indices, int64_t n);
/* `count` indices along an axis of n, start, start + 1 ... ; what lies outside is brought in. */
typedef enum onnx_choice {
    ONNX_CHOOSE_EDGE,    /* the nearest */
    ONNX_CHOOSE_WRAPPED, /* from the other end on */
    ONNX_CHOOSE_MIRRORED /* back from the last one, which is not repeated */
} onnx_choice;
uint32_t onnx_chosen(pco_onnx_map *map, uint32_t x, int64_t axis, int64_t count, onnx_choice how, int64_t start,
                     int64_t n);
/* exp(x) - 1, without cancellation. */
uint32_t onnx_expm1(pco_onnx_map *map, uint32_t x);
/* The product of two operands as MatMul has it: vectors are rows, or columns. */
uint32_t onnx_product(pco_onnx_map *map, uint32_t a, uint32_t b);

/* ---- attributes (map_attributes.c): each call takes the one that it names, unless it is of another type or does not
 * fit; the default comes where there is none ---- */

int64_t onnx_int(pco_onnx_map *map, const char *name, int64_t initial);
/* The same of one that says yes or no: other values than 0 and 1 are skipped. */
int64_t onnx_flag(pco_onnx_map *map, const char *name, int64_t initial);
double onnx_float(pco_onnx_map *map, const char *name, double initial);
/* The attribute's text into `text`, or `initial`. */
void onnx_text(pco_onnx_map *map, const char *name, const char *initial, char *text, size_t capacity);
/* Number of entries, or -1 without the attribute. */
int64_t onnx_ints(pco_onnx_map *map, const char *name, int64_t *values, int64_t capacity);
/* An attribute that is a tensor, which the caller clears; false without it. */
bool onnx_tensor(pco_onnx_map *map, const char *name, pco_onnx_tensor *tensor);
bool onnx_given(const pco_onnx_map *map, const char *name);
/* Takes an attribute that says nothing here, whatever its value is. */
void onnx_without(pco_onnx_map *map, const char *name);
/* The name of the first attribute that nobody took; NULL: all were. */
const char *onnx_left(const pco_onnx_map *map);

#endif
