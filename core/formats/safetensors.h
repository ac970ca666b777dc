/* safetensors files: 8 bytes little-endian header length, a JSON object, then the tensors' bytes without
 * gaps. The format: https://huggingface.co/docs/safetensors (header below 100 MB, "__metadata__" a map of
 * strings, offsets contiguous from 0 to the end of the file).
 *
 * Types that Portico runs: F32 F16 BF16 I32 BOOL. Known, listed and readable as bytes: F64 I64 U64 U32 I16
 * U16 I8 U8 F8_E4M3 F8_E5M2 F8_E8M0 C64. */
#ifndef PCO_FORMATS_SAFETENSORS_H
#define PCO_FORMATS_SAFETENSORS_H

#include "base/writer.h"
#include "formats/weights.h"

/* Maps and checks `path`; tensors in the order of the header, "__metadata__" as the notes. The caller closes
 * *weights with pco_weights_close. Errors: IO; FORMAT, with the file, the tensor and the offset;
 * OUT_OF_HOST_MEMORY. Thread-safe. */
pco_status pco_safetensors_open(const char *path, pco_weights **weights, pco_error *err) PCO_NODISCARD;

/* The same for bytes that the caller keeps alive and unchanged until the weights are closed. */
pco_status pco_safetensors_parse(const void *data, size_t size, const char *label, pco_weights **weights,
                                 pco_error *err) PCO_NODISCARD;

/* What comes in front of the data of tensors, which are needed without data here, appended to `out`; and in
 * order[count] whose data come first, second and so on, without gaps, *total bytes in all. For files that never lie in
 * memory whole. Errors: as below. */
pco_status pco_safetensors_head(const pco_weight *tensors, uint32_t count, const pco_weights_note *notes,
                                uint32_t note_count, pco_writer *out, uint32_t *order, uint64_t *total,
                                pco_error *err) PCO_NODISCARD;

/* The whole file in memory: *file (release with free) of *size bytes. Takes from each tensor name, type_name
 * (when dtype is -1; otherwise it may be NULL), dtype, rank, shape and data. Tensors are laid out by falling
 * element size, then matrices before vectors, each in the order in which they are given, so that q, k and v of a
 * layer lie side by side; from an offset that is a multiple of 64, so that all are aligned to their elements.
 * Errors, INVALID: a name twice, empty, not UTF-8 or "__metadata__"; a shape that overflows; a
 * tensor without data. UNSUPPORTED: a type that safetensors does not have. OUT_OF_HOST_MEMORY. */
pco_status pco_safetensors_encode(const pco_weight *tensors, uint32_t count, const pco_weights_note *notes,
                                  uint32_t note_count, void **file, size_t *size, pco_error *err) PCO_NODISCARD;

/* Encodes and writes `path`, whole or not at all: it is read back before it replaces what was there. Errors
 * also: IO. */
pco_status pco_safetensors_write(const char *path, const pco_weight *tensors, uint32_t count,
                                 const pco_weights_note *notes, uint32_t note_count, pco_error *err) PCO_NODISCARD;

#endif
