#include "runtime/words.h"

#include "base/dtype.h"

const pco_feature_word PCO_FEATURE_WORDS[PCO_N_FEATURE_WORDS] = {
    {PCO_FEATURE_F16_ARITHMETIC, "f16 arithmetic"},
    {PCO_FEATURE_STORAGE_16, "16-bit storage"},
    {PCO_FEATURE_SUBGROUPS, "subgroups"},
    {PCO_FEATURE_INTEGER_DOT, "integer dot product"},
    {PCO_FEATURE_MIXED_FLOAT_DOT, "mixed float dot product"},
    {PCO_FEATURE_COOPERATIVE_MATRIX, "cooperative matrix"},
    {PCO_FEATURE_COOPERATIVE_MATRIX2, "cooperative matrix 2"},
    {PCO_FEATURE_UNIFIED_MEMORY, "unified memory"},
    {PCO_FEATURE_F64, "f64"},
    {PCO_FEATURE_TIMESTAMPS, "timestamps"},
};

const char *pco_device_type_word(uint32_t type)
{
    static const char *const TYPES[] = {[PCO_DEVICE_CPU] = "cpu",
                                        [PCO_DEVICE_DISCRETE] = "discrete GPU",
                                        [PCO_DEVICE_INTEGRATED] = "integrated GPU",
                                        [PCO_DEVICE_VIRTUAL] = "virtual",
                                        [PCO_DEVICE_SOFTWARE] = "software",
                                        [PCO_DEVICE_OTHER] = "other"};
    return type < sizeof TYPES / sizeof *TYPES ? TYPES[type] : "unknown";
}

const char *pco_accumulator_word(uint32_t type) { return type == PCO_CONTRACT_F64 ? "f64" : pco_dtype_name(type); }
