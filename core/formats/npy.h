/* NumPy .npy files, versions 1.0 and 2.0, little endian, C order. The format:
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 *
 * Types: '<f4' F32, '<f2' F16, '<i4' I32, '|b1' BOOL, and with dtype -1, by type_name, '<f8' "F64", '<i8' "I64", '|i1'
 * "I8",
 * '|u1' "U8". */
#ifndef PCO_FORMATS_NPY_H
#define PCO_FORMATS_NPY_H

#include "formats/weights.h"

/* One array, under the name "array". Read-only once opened. */
typedef struct pco_npy {
    pco_weight array; /* name is static here; data is aligned to 16 bytes in files that NumPy or Portico wrote */
    pco_map map;      /* owned; empty when parsed from the caller's memory */
} pco_npy;

/* Maps and checks `path`. Close *npy with pco_npy_close; after an error there is nothing to close. Errors:
 * IO; FORMAT: not .npy, a version, type, order or shape that is not as above, bytes missing or left over, a
 * bool that is neither 0 nor 1. */
pco_status pco_npy_open(const char *path, pco_npy *npy, pco_error *err) PCO_NODISCARD;

/* The same for bytes that the caller keeps alive and unchanged until the close. */
pco_status pco_npy_parse(const void *data, size_t size, const char *label, pco_npy *npy, pco_error *err) PCO_NODISCARD;

void pco_npy_close(pco_npy *npy);

/* The file in memory: *file (release with free) of *size bytes. Takes dtype, type_name (when dtype is -1),
 * rank, shape and data. Errors: UNSUPPORTED for a type that is not above; INVALID for a shape;
 * OUT_OF_HOST_MEMORY. */
pco_status pco_npy_encode(const pco_weight *array, void **file, size_t *size, pco_error *err) PCO_NODISCARD;

/* Encodes and writes `path`, whole or not at all. Errors also: IO. */
pco_status pco_npy_write(const char *path, const pco_weight *array, pco_error *err) PCO_NODISCARD;

#endif
