/* Element types: names, sizes, and conversion of rows to and from f32. Everything here is pure and may be
 * called from any thread. Numbers in memory are little endian, and so is every host that Portico runs on. */
#ifndef PCO_BASE_DTYPE_H
#define PCO_BASE_DTYPE_H

#include "portico/plugin.h"

/* The name in dtypes.def, "f32"; "unknown" for anything else. Static. */
const char *pco_dtype_name(uint32_t dtype);

/* What a type can be: numbers with fractions, whole numbers or truth, blocks of quantised weights. */
typedef enum pco_dtype_class {
    PCO_DTYPE_FLOAT = 1,
    PCO_DTYPE_WHOLE = 2,
    PCO_DTYPE_QUANTISED = 4,
    PCO_DTYPE_ANY = 7
} pco_dtype_class;
pco_dtype_class pco_dtype_class_of(uint32_t dtype); /* 0 for an unknown type */

static inline int pco_dtype_is_float(uint32_t dtype) { return pco_dtype_class_of(dtype) == PCO_DTYPE_FLOAT; }

static inline int pco_dtype_is_quantised(uint32_t dtype) { return pco_dtype_class_of(dtype) == PCO_DTYPE_QUANTISED; }

/* The names of all types of the classes, for a message: "f32, f16 or bf16" with "or" for `last`. Returns `text`;
 * PCO_DTYPE_LIST bytes hold all of them. */
enum { PCO_DTYPE_LIST = 16 * PCO_DTYPE_COUNT };
char *pco_dtype_list(uint32_t classes, const char *last, char *text, size_t size);

/* The type with that name, upper or lower case, in *dtype. Errors: NOT_FOUND, listing the names. */
pco_status pco_dtype_from_name(const char *name, pco_dtype *dtype, pco_error *err) PCO_NODISCARD;

/* An element's value in words, for messages: a whole number below 1e15, such as every i32, has all its digits; others
 * have nine, which tell every f32 from the next. Returns text. */
#define PCO_NUMBER_TEXT 32
char *pco_number_text(double value, char text[PCO_NUMBER_TEXT]);

/* Elements in a block (1 unless the type is quantised) and bytes of a block; 0 for an unknown type. */
uint32_t pco_dtype_block(uint32_t dtype);
uint32_t pco_dtype_block_bytes(uint32_t dtype);

/* For a matrix whose rows are not whole blocks of the type: one of smaller blocks and at least as many levels; the type
 * itself where there is none. */
uint32_t pco_dtype_instead(uint32_t dtype);

/* The number of elements of shape[rank]; 1 for rank 0. Errors, INVALID: rank above PCO_MAX_RANK, a negative
 * dimension, or a product of the non-zero dimensions beyond int64. */
pco_status pco_shape_count(uint32_t rank, const int64_t *shape, int64_t *count, pco_error *err) PCO_NODISCARD;

/* Bytes of a contiguous tensor made of blocks of `block` elements (along the last dimension) and
 * `block_bytes` bytes. Errors, INVALID: as pco_shape_count; a last dimension that is not whole blocks; a size
 * beyond int64. */
pco_status pco_shape_bytes(uint32_t rank, const int64_t *shape, uint32_t block, uint32_t block_bytes, uint64_t *bytes,
                           pco_error *err) PCO_NODISCARD;

/* The same for a pco_dtype. Errors also: INVALID for an unknown type. */
pco_status pco_dtype_bytes(uint32_t dtype, uint32_t rank, const int64_t *shape, uint64_t *bytes,
                           pco_error *err) PCO_NODISCARD;

/* "[2, 3]", cut with "..." when it does not fit; returns `text`. 192 bytes hold every shape. */
char *pco_shape_text(uint32_t rank, const int64_t *shape, char *text, size_t size);

/* IEEE 754 binary16 and bfloat16. To f32 is exact; from f32 rounds to nearest, ties to even, with subnormals,
 * overflow to infinity, and NaN kept a (quiet) NaN of the same sign. */
float pco_f16_to_f32(uint16_t bits);
uint16_t pco_f16_from_f32(float value);
float pco_bf16_to_f32(uint16_t bits);
uint16_t pco_bf16_from_f32(float value);

/* `count` elements of any pco_dtype as f32 (i32 is rounded; bool gives 0 or 1). `data` need not be aligned.
 * Errors: INVALID for an unknown type or a count that is not whole blocks. */
pco_status pco_dtype_to_f32(uint32_t dtype, const void *data, int64_t count, float *out, pco_error *err) PCO_NODISCARD;

/* The other way, for floats and quantised types (quant_NAME.c says how). Errors: INVALID as above; for the quantised
 * types also a value that is not finite, by its index; UNSUPPORTED for i32 and bool. */
pco_status pco_dtype_from_f32(uint32_t dtype, const float *in, int64_t count, void *out, pco_error *err) PCO_NODISCARD;

#endif
