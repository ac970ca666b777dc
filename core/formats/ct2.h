/* Models of CTranslate2, version 2 to 6 of the binary (model.bin): little-endian; u32 version, the name of the
 * specification, u32 its revision, u32 count; per variable its name, u8 rank, u32 dimensions[rank], u8 bytes of an
 * item, u32 items, data; from version 4 on u8 type, u32 bytes, data; from version 3 on, behind all, u32 count of other
 * names, each with the name of the variable. A string is u16 length, a final NUL included, and its bytes. Weights of
 * whole numbers have a variable NAME_scale, for each row or for all: value = stored / scale. */
#ifndef PCO_FORMATS_CT2_H
#define PCO_FORMATS_CT2_H

#include "formats/weights.h"

/* Maps and checks `path`. Weights of whole numbers become F32. Names have dots for slashes, and PyTorch's words for
 * norms ("a/layer_norm/gamma" is "a.layer_norm.weight"). Of a fused key and value ("attention/linear_1" of [2N,K])
 * there are also the halves, "attention.key" and "attention.value". The note "spec" is the specification. The caller
 * closes *weights. Errors: IO; FORMAT, with the byte; UNSUPPORTED for other versions; OUT_OF_HOST_MEMORY. */
pco_status pco_ct2_open(const char *path, pco_weights **weights, pco_error *err) PCO_NODISCARD;
pco_status pco_ct2_parse(const void *data, size_t size, const char *label, pco_weights **weights,
                         pco_error *err) PCO_NODISCARD;

#endif
