/* The safetensors files of a folder in the layout of Hugging Face: model.safetensors, or the shards that
 * model.safetensors.index.json names. */
#ifndef PCO_FORMATS_SHARDS_H
#define PCO_FORMATS_SHARDS_H

#include "formats/weights.h"

/* Maps and checks the files that `path`, one of the two, is or names; their tensors as one collection. The index's
 * weight_map must name each tensor, and the file in which it is. The caller closes *weights. Errors: IO; FORMAT, with
 * the file and the tensor: those of the files, an index that does not fit them, the name of a shard that is no plain
 * file name; OUT_OF_HOST_MEMORY. Thread-safe. */
pco_status pco_shards_open(const char *path, pco_weights **weights, pco_error *err) PCO_NODISCARD;

#endif
