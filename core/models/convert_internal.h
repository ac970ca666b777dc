/* Shared by the files that make model files into others. */
#ifndef PCO_MODELS_CONVERT_INTERNAL_H
#define PCO_MODELS_CONVERT_INTERNAL_H

#include "base/threads.h"
#include "formats/gguf_write.h"
#include "models/adapter.h"
#include "models/convert.h"

/* In which order rows of the file that is read become those of the one that is made. */
typedef enum convert_kind {
    CONVERT_SAME,
    CONVERT_PAIRS,  /* in each of `heads` heads the first `rows` rows, halves apart, become neighbours */
    CONVERT_HALVES, /* the opposite */
    CONVERT_GROUPS  /* all queries, keys, values of heads of `rows` rows: for each of `heads` key heads its `queries`
                       queries, its key, its value */
} convert_kind;

typedef struct convert_order {
    convert_kind kind;
    int64_t heads, rows, queries;
} convert_order;

/* A tensor on its way. */
typedef struct convert_item {
    const pco_weight *weight;
    const pco_weight *more[2]; /* whose rows come behind those of `weight`; or NULL */
    char name[PCO_SPEC_NAME];  /* in the file that is made */
    uint32_t dtype;            /* that it gets */
    uint32_t rank;
    int64_t shape[PCO_MAX_RANK]; /* in the file that is made */
    int64_t first;               /* row of `weight` with which it begins */
    convert_order order;
    int transposed;       /* [in,out] in the file that is made; then in no other order */
    double scale, offset; /* numbers become scale * number + offset; scale 0: they stay */
} convert_item;

/* A weight that the model has not as a tensor. */
typedef struct convert_made {
    pco_weight weight;
    struct convert_made *next;
    float data[];
} convert_made;

typedef struct convert_items {
    convert_item *items;
    uint32_t count, capacity;
    convert_made *made; /* owned */
} convert_items;

typedef struct convert_job {
    pco_gguf_writer out;     /* for a GGUF file */
    pco_file_stream *stream; /* for a safetensors file, instead */
    const pco_convert_options *options;
    const pco_weights *adapted; /* among which matrices have adapters, which are added; NULL: none do */
    const pco_weights *trained; /* what comes instead of tensors of these names; NULL: nothing */
    pco_threads *threads;
    uint64_t done, total;
} convert_job;

/* ---- lists (convert_rows.c) ---- */

/* An item that is a weight as it is, at the end; NULL without memory. */
convert_item *convert_add(convert_items *all, const pco_weight *weight, const char *name);
/* The same for a weight of its own: F32, zeros. *data is for the caller to fill. */
convert_item *convert_add_made(convert_items *all, const char *name, uint32_t rank, const int64_t *shape, float **data);
/* A matrix gets the other order; a bias stays. */
void convert_transpose(convert_item *item);
/* All tensors but those of adapters, by their names, or the job's instead. Errors: UNSUPPORTED for a type that cannot
 * be converted; FORMAT for an adapter that does not fit. */
pco_status convert_list(const convert_job *job, const pco_weights *weights, const char *label, convert_items *all,
                        pco_error *err);
void convert_release(convert_items *all);
pco_status convert_no_memory(pco_error *err);

/* ---- numbers (convert_rows.c) ---- */

/* Sends the data of one tensor. Errors: FORMAT for numbers that the type cannot hold, by tensor and place; CANCELLED.
 */
pco_status convert_send(convert_job *job, const convert_item *item, pco_error *err) PCO_NODISCARD;
/* Are all its numbers the same in the type (`exact`), or at least finite where they were? */
int convert_fits(const pco_weight *weight, uint32_t dtype, int exact);
pco_status convert_threads(convert_job *job, pco_error *err) PCO_NODISCARD;

/* ---- models (convert_hub.c, convert_trained.c) ---- */

/* A model as the file that is made has it. */
typedef struct convert_target {
    const pco_family *family; /* whose files they are */
    int folder;               /* a folder of Hugging Face, not GGUF */
    pco_model_spec spec;      /* of the model that is read, as far as the target has it in another form (a table of
                                 positions): what reading it must give */
    pco_model_spec names;     /* what it calls its tensors, and how they lie */
} convert_target;

/* The family of the model in such files; NULL: there is none. */
const pco_family *convert_family(const pco_model_file *file, int folder);
/* The names of tensors there, and the order of their rows. Errors: UNSUPPORTED, by name. */
pco_status convert_rename(const pco_model_file *file, const convert_target *target, convert_items *all,
                          pco_error *err) PCO_NODISCARD;
/* The names of all items as a folder of the target's family has them, which have been those of its spec. */
pco_status convert_store_names(const convert_target *target, convert_items *all, pco_error *err) PCO_NODISCARD;
/* Tensors that GGUF has and a folder has not, behind the others: factors of rotations, which live in the spec. */
pco_status convert_add_factors(const pco_model_spec *spec, convert_items *all, pco_error *err) PCO_NODISCARD;
/* The keys of the model itself. */
void convert_put_spec(pco_gguf_writer *out, const pco_model_file *file, const convert_target *target);
/* Is it what was read back? Errors: UNSUPPORTED, with what such files cannot say. */
pco_status convert_compare_specs(const char *path, const convert_target *target, const pco_model_spec *read,
                                 pco_error *err) PCO_NODISCARD;

/* The spec of a model of any parts, as that family's files have it. */
void convert_trained_spec(const pco_model_file *file, const pco_family *family, pco_model_spec *spec);
/* Is it a part of what the target has as one projection? It keeps its name until convert_trained_items. */
int convert_trained_part(const pco_model_file *file, const convert_target *target, const char *name,
                         char to[PCO_SPEC_NAME]);
/* Behind convert_rename: positions as a table, embeddings with their factor, or once for each side, biases of zero, one
 * projection for query, key and value, where the target has these and the model has not. */
pco_status convert_trained_items(const pco_model_file *file, const convert_target *target, convert_items *all,
                                 pco_error *err) PCO_NODISCARD;

/* ---- reading back (convert_compare.c) ---- */

/* Does the model that was written make the same ids of texts (`exact`: also of those that are not as a normaliser
 * leaves them; an encoder-decoder on both sides), and do they end with the same tokens? Errors: UNSUPPORTED. */
pco_status convert_compare_ids(const pco_model_file *file, const pco_model_file *made, int exact,
                               pco_error *err) PCO_NODISCARD;

#endif
