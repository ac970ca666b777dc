/* What the files behind portico/onnx.h know of each other. */
#ifndef PCO_MODELS_ONNX_MODEL_H
#define PCO_MODELS_ONNX_MODEL_H

#include "formats/onnx.h"

struct pco_onnx_model {
    pco_onnx_file file;
};

#endif
