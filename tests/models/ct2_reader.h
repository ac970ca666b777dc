/* Reads a CTranslate2 model (model.bin, version 2) of the shape that OpenNMT's encoder-decoders have, and
 * writes it as config.json and model.safetensors. For tests: Portico itself does not read this format. */
#ifndef PCO_TESTS_CT2_READER_H
#define PCO_TESTS_CT2_READER_H

#include "portico/plugin.h"

/* One variable, as float32: int8 and int16 are divided by their scale. */
typedef struct ct2_variable {
    char name[128];
    uint32_t rank;
    int64_t shape[4];
    int64_t count;
    float *data;
} ct2_variable;

typedef struct ct2_model {
    uint32_t count;
    ct2_variable *variables;
} ct2_model;

/* Reads `path`. The layout, little endian: u32 version, string spec, u32 revision, u32 count; per variable:
 * string name, u8 rank, u32 dims[rank], u8 item size, u32 item count, data. A string is u16 length with a
 * final NUL, then the bytes. Errors: IO, FORMAT. */
pco_status ct2_read(const char *path, ct2_model *model, pco_error *err);
void ct2_release(ct2_model *model);

/* Converts FROM/model.bin with its two vocabularies into TO/config.json and TO/model.safetensors. */
pco_status ct2_convert(const char *from, const char *to, pco_error *err);

#endif
