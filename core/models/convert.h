/* Model files of one kind or type made into others. Nothing here needs a device. */
#ifndef PCO_MODELS_CONVERT_H
#define PCO_MODELS_CONVERT_H

#include "models/model.h"

enum { PCO_CONVERT_KEEP = -1 };

typedef struct pco_convert_options {
    int32_t type;        /* a pco_dtype for all matrices; PCO_CONVERT_KEEP: each as it is */
    int32_t output_type; /* for the output projection, and for embeddings that are one; PCO_CONVERT_KEEP: Q6_K where
                            `type` has fewer bits, else as `type` */
    const char *adapter; /* a folder with a low-rank adapter (models/adapter.h), which is added to the matrices before
                            they get their type; NULL: none. The model is then one that Portico runs */
    uint32_t threads;    /* 0: one */
    /* From time to time, in bytes of the input; other than 0 ends it with CANCELLED. May be NULL. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
} pco_convert_options;

/* What was written. */
typedef struct pco_convert_result {
    uint64_t bytes_in, bytes_out; /* of the tensors */
    uint32_t tensors[PCO_DTYPE_COUNT];
    uint32_t odd;      /* matrices that got another type than asked for: their rows are not whole blocks of it */
    uint32_t requants; /* that were quantised before, otherwise: what that lost stays lost */
    int no_tokenizer;  /* the folder has none, so that only ids can be run */
    int other_ids;     /* its tokenizer normalises texts, which GGUF cannot say */
} pco_convert_result;

/* Writes the GGUF file `out` from the model `in`: a GGUF file (the first of several, too), whose keys are kept, and
 * which, for a `type`, is of a model that Portico runs; one of llama2.c; or a folder of Hugging Face of a family that
 * GGUF has (models/family.h), with its chat template, and its tokenizer where that is a byte-level BPE. Vectors of
 * floats become F32. A file from a folder is read back before it takes its place: the same spec must come out, and the
 * same ids for a text. Errors: those of opening `in`; INVALID for a type that weights of GGUF cannot have; UNSUPPORTED
 * for what GGUF cannot say, by name; FORMAT for weights that are not finite where they are to be quantised; IO, when
 * `out` is as it was; CANCELLED; OUT_OF_HOST_MEMORY. */
pco_status pco_convert_to_gguf(const char *in, const char *out, const pco_convert_options *options,
                               pco_convert_result *result, pco_error *err) PCO_NODISCARD;

/* Makes `out` a folder of Hugging Face, which may be there when it is empty, from a model that Portico runs and a
 * family of transformers computes (models/hub.h: those with a class): of a GGUF file, of a folder that Portico trained
 * or of Hugging Face, whose config.json and tokenizer are copied. `type` is F32, F16 or BF16;
 * PCO_CONVERT_KEEP: floats stay, and what is quantised becomes F32, without a loss. Vectors have the type of most
 * matrices where it holds them exactly, else F32. The folder is read back before it takes its place: the same spec must
 * come out, and the same ids. Errors: as above. */
pco_status pco_convert_to_folder(const char *in, const char *out, const pco_convert_options *options,
                                 pco_convert_result *result, pco_error *err) PCO_NODISCARD;

/* Writes the GGUF file `out` from an open model, with the tensors of `trained` (by the names of its graph, of the same
 * shapes) instead of those that it has. Errors: as above. */
pco_status pco_convert_trained(const pco_model_file *file, const pco_weights *trained, const char *out,
                               const pco_convert_options *options, pco_convert_result *result,
                               pco_error *err) PCO_NODISCARD;
/* The same into `folder`, which is there and may have other files, from a model of a folder of Hugging Face of a family
 * that is written: config.json and the tokenizer's files as they are there, and model.safetensors. Errors: as above. */
pco_status pco_convert_trained_to_folder(const pco_model_file *file, const pco_weights *trained, const char *folder,
                                         const pco_convert_options *options, pco_convert_result *result,
                                         pco_error *err) PCO_NODISCARD;
/* Is it of a kind that GGUF has? Or one for pco_convert_trained_to_folder? */
int pco_convert_writes(const pco_model_file *file);
int pco_convert_writes_folder(const pco_model_file *file);

#endif
