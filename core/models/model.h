/* A model on disk: its family, configuration, weights and tokenizers. Nothing here needs a device. */
#ifndef PCO_MODELS_MODEL_H
#define PCO_MODELS_MODEL_H

#include "models/llama.h"
#include "models/transformer.h"

typedef enum pco_family {
    PCO_FAMILY_LLAMA = 0,       /* decoder-only, from a .gguf file */
    PCO_FAMILY_TRANSFORMER = 1, /* encoder-decoder, or decoder-only, from a folder with config.json and
                                   model.safetensors */
} pco_family;

/* Read-only once opened; may be shared by threads. */
typedef struct pco_model_file {
    pco_family family;
    char *path;
    const pco_weights *weights;
    pco_llama_config llama; /* of the family that it is */
    pco_transformer_config transformer;
    pco_tokenizer *source, *target; /* of what is read and what is written; the same one where they do not
                                       differ; NULL when the file has none */
    pco_gguf *gguf;                 /* what holds the weights */
    pco_weights *safetensors;
} pco_model_file;

/* Opens a .gguf file or a folder. The caller closes *file. Errors: IO; FORMAT and NOT_FOUND for what is wrong
 * or missing in the files, by name; UNSUPPORTED for another architecture, model type or tokenizer, by name.
 */
pco_status pco_model_file_open(const char *path, pco_model_file **file, pco_error *err) PCO_NODISCARD;
void pco_model_file_close(pco_model_file *file);

/* "llama" or "transformer". Static. */
const char *pco_family_name(pco_family family);

/* 1: the model continues text (models/llama_run.h runs it); 0: it reads a source first (models/seq2seq.h). */
int pco_model_is_causal(const pco_model_file *file);

/* One chunk of a model that continues text, of either family: as pco_llama_build. */
void pco_model_build_causal(const pco_nn *nn, const pco_model_file *file, int64_t context, int64_t rows,
                            int all_logits);

/* Number of the first position, as the run value "positions" counts. */
int64_t pco_model_position_offset(const pco_model_file *file);

/* The most tokens of a sequence: `wanted`, or what the file says (a GGUF's context_length, at most 4096, as a
 * cache of the length that newer models allow would not fit) when `wanted` is 0. Errors, INVALID: wanted
 * below 0 or above 2^24. */
pco_status pco_model_context(const pco_model_file *file, int64_t wanted, int64_t *context,
                             pco_error *err) PCO_NODISCARD;

/* Size of the vocabulary that is written. */
int64_t pco_model_vocab(const pco_model_file *file);

/* Device memory that a model is going to need, in bytes, worked out from its graphs without a device. Devices
 * lay constants out with some padding and add workspace. */
typedef struct pco_memory_estimate {
    uint64_t parameters;     /* elements of the weights that are used */
    uint64_t constant_bytes; /* weights and tables */
    uint64_t state_bytes;    /* caches at their full length */
    uint64_t arena_bytes;    /* activations alive at once, of the step and of the longest chunk */
    uint64_t io_bytes;       /* inputs, run values and outputs of both */
    uint64_t total;
} pco_memory_estimate;

/* Errors: those of building the graphs, that is, tensors that are missing, misshapen or of a type that cannot
 * run. */
pco_status pco_model_estimate(const pco_model_file *file, int64_t context, pco_memory_estimate *estimate,
                              pco_error *err) PCO_NODISCARD;

#endif
