/* Tensors of files that torch.save wrote: zip archives (since PyTorch 1.6) and the pickles of before. Nothing is
 * executed: a pickle that wants more than tensors, numbers, texts, lists and dicts is refused by what it wants.
 *
 * A tensor is called by its keys in nested dicts, joined by dots. Those that are a piece of a storage in order point
 * into the file; others (transposed ones) are copied. Types as in formats/safetensors.h. */
#ifndef PCO_FORMATS_TORCH_FILE_H
#define PCO_FORMATS_TORCH_FILE_H

#include "formats/weights.h"

/* Does a file that begins so look like one? */
int pco_torch_is(const void *data, size_t size);

/* Maps and checks `path`. The caller closes *weights with pco_weights_close. Errors: IO; FORMAT, with the file and the
 * tensor; UNSUPPORTED: opcodes and globals, by name, compressed archives, other byte orders; OUT_OF_HOST_MEMORY.
 * Thread-safe. */
pco_status pco_torch_open(const char *path, pco_weights **weights, pco_error *err) PCO_NODISCARD;

/* The same for bytes that the caller keeps alive and unchanged until the weights are closed. */
pco_status pco_torch_parse(const void *data, size_t size, const char *label, pco_weights **weights,
                           pco_error *err) PCO_NODISCARD;

#endif
