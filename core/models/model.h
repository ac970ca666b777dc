/* A model on disk: its family, spec, weights and tokenizers. Nothing here needs a device. */
#ifndef PCO_MODELS_MODEL_H
#define PCO_MODELS_MODEL_H

#include "models/family.h"

enum { PCO_MODEL_ENDS = 32 };

/* Read-only once opened; may be shared by threads. */
typedef struct pco_model_file {
    const pco_family *family;
    char *path;
    const pco_weights *weights;
    int is_part; /* 1: the model is a part of what the folder holds (hub_whole.c) */
    pco_model_spec spec;
    pco_model_spec second;          /* of a model that reads texts and images: the encoder of images */
    const pco_model_spec *images;   /* what reads images: `spec`, `second`, or NULL */
    pco_tokenizer *source, *target; /* of what is read and what is written; the same one where they do not
                                       differ; NULL when the file has none */
    int32_t ends[PCO_MODEL_ENDS];   /* tokens that end a text, beside those that the tokenizer knows of */
    uint32_t n_ends;
    int32_t *never; /* [n_never]: what an encoder-decoder of Hugging Face must not write ("bad_words_ids"); owned */
    uint32_t n_never;
    pco_gguf *gguf; /* what holds the weights; also of a file of llama2.c */
    pco_weights *safetensors;
} pco_model_file;

/* Opens a .gguf file, one of llama2.c or a folder. The caller closes *file. Errors: IO; FORMAT and NOT_FOUND for what
 * is wrong or missing in the files, by name; UNSUPPORTED for another architecture, model type or tokenizer, by name.
 */
pco_status pco_model_file_open(const char *path, pco_model_file **file, pco_error *err) PCO_NODISCARD;
/* The same for the bytes of a .gguf file, which the caller keeps as they are until the close. */
pco_status pco_model_file_open_memory(const void *data, size_t size, pco_model_file **file,
                                      pco_error *err) PCO_NODISCARD;
void pco_model_file_close(pco_model_file *file);

/* Does the model read texts, or images alone? */
static inline int pco_model_reads_texts(const pco_model_file *file) { return file->images != &file->spec; }

/* What the model has around a text of that side, for which it has a tokenizer: PCO_ENCODE_BOS, PCO_ENCODE_EOS. */
uint32_t pco_model_around(const pco_model_file *file, pco_model_side side);

/* Does a text that the model continues end with this token? */
int pco_model_file_ends(const pco_model_file *file, int32_t id);

/* The most tokens of a sequence: `wanted`, or what the file says (a GGUF's context_length, at most 4096, as a
 * cache of the length that newer models allow would not fit) when `wanted` is 0. Errors, INVALID: wanted
 * below 0 or above 2^24, or beyond a table of learned positions. */
pco_status pco_model_context(const pco_model_file *file, int64_t wanted, int64_t *context,
                             pco_error *err) PCO_NODISCARD;

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

/* `lanes`: sequences of a decoder that are cached at once; cache_type: in PCO_F32, PCO_F16 or PCO_Q8_0. Errors: those
 * of building the graphs, that is, tensors that are missing, misshapen or of a type that cannot run. */
pco_status pco_model_estimate(const pco_model_file *file, int64_t context, int64_t lanes, uint32_t cache_type,
                              pco_memory_estimate *estimate, pco_error *err) PCO_NODISCARD;

#endif
