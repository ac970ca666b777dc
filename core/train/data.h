/* What a model is trained on: batches of token ids, by number.
 *
 * A batch depends on the seed, the split and its number alone, so the position in the data is that number:
 * nothing else has to be saved. Training batches go through the data once per epoch, in another order each
 * time; held-out ones are the same each time. Lengths are padded up to a few sizes (buckets), one executable
 * for each. */
#ifndef PCO_TRAIN_DATA_H
#define PCO_TRAIN_DATA_H

#include "base/sha256.h"
#include "formats/json.h"
#include "models/model.h"
#include "text/vocabulary.h"

typedef enum pco_data_kind {
    PCO_DATA_TEXT = 0,  /* a text file, for a language model */
    PCO_DATA_PAIRS = 1, /* lines "SOURCE tab TARGET ...", for an encoder-decoder */
    PCO_DATA_DATES = 2, /* written dates and their ISO form, made from the seed */
    PCO_DATA_CHAT = 3,  /* JSON lines {"messages": [{"role", "content"}, ...]}, for a model with a chat template */
} pco_data_kind;

typedef enum pco_data_split { PCO_DATA_TRAIN = 0, PCO_DATA_HELD_OUT = 1 } pco_data_split;

enum { PCO_DATA_BUCKETS = 32 };

/* How a tokenizer comes about. */
typedef struct pco_data_tokenizer {
    char *file;   /* read from there; or, when NULL: */
    int bpe;      /* byte-level BPE, else characters, trained on the training split */
    int64_t size; /* of the BPE */
} pco_data_tokenizer;

typedef struct pco_data_config {
    pco_data_kind kind;
    char *file;
    int64_t source_column, target_column; /* from 1 */
    double held_out;                      /* share of the text (its end) or of the pairs (at random) */
    int64_t held_out_count;               /* dates: how many */
    int64_t context;                      /* most tokens of a window, or of a source or target */
    pco_data_tokenizer tokenizer[2];      /* of source and target; text has the second alone */
    int share_vocabulary;                 /* one vocabulary for both sides, the second's */
    int64_t buckets[2][PCO_DATA_BUCKETS]; /* rising */
    uint32_t n_buckets[2];
} pco_data_config;

/* Reads the object "data" of a training config. Relative paths are taken from `folder`. The caller releases
 * the config after success. Errors, FORMAT: unknown keys, all in one message; values that are not what they
 * should be. */
pco_status pco_data_config_read(const cJSON *object, const char *label, const char *folder, pco_data_config *config,
                                pco_error *err) PCO_NODISCARD;
void pco_data_config_release(pco_data_config *config);

/* What the model decides about the ids. */
typedef struct pco_data_ids {
    int32_t pad, eos, decoder_start;
    int add_eos_to_source;
} pco_data_ids;

enum { PCO_DATA_IGNORE = -100 }; /* the label of a row without a loss (PyTorch's ignore_index) */

/* One batch; arrays belong to the data and hold until the next one. */
typedef struct pco_data_batch {
    int64_t rows, source_length, target_length; /* [rows,source_length], [rows,target_length] */
    const int32_t *source, *source_lengths;     /* NULL without a source; lengths are [rows], at least 1 */
    const int32_t *target, *labels;             /* what the decoder reads, and the token that follows each */
    int64_t tokens;                             /* labels that are not PCO_DATA_IGNORE */
} pco_data_batch;

typedef struct pco_data pco_data;

/* Reads and tokenizes the files. `rows` is the size of a batch. `model`: the one that is trained further, whose
 * tokenizers (and, for chats, template) are used; NULL: there is none, and vocabularies are made. `config` and `model`
 * are borrowed until the destroy.
 * Errors: IO; FORMAT with file and line: empty, not UTF-8, a missing column, too few tokens; NOT_FOUND for a model
 * without tokenizer or template. */
pco_status pco_data_open(const pco_data_config *config, const pco_model_file *model, uint64_t seed, int64_t rows,
                         pco_data **data, pco_error *err) PCO_NODISCARD;
void pco_data_close(pco_data *data);

/* What tells two data apart: of the bytes of the file ("" for dates), and of each side's vocabulary (tokens, merges and
 * special ids, however it came about; where a model is trained further, that model), as hexadecimal SHA-256. */
typedef struct pco_data_digests {
    char file[PCO_SHA256_TEXT], vocabulary[2][PCO_SHA256_TEXT];
} pco_data_digests;
const pco_data_digests *pco_data_digest(const pco_data *data);

/* The vocabularies that were made; the same one when they are shared. They outlive the data no longer than it lives. */
const pco_vocabulary *pco_data_vocabulary(const pco_data *data, int side);

/* Turns texts into ids; comes before the first batch. Errors: what the tokenizers say, with the line; FORMAT
 * when the last bucket of a side is shorter than a row can be. */
pco_status pco_data_encode(pco_data *data, const pco_data_ids *ids, pco_error *err) PCO_NODISCARD;

/* Batches of an epoch, or of the held-out split; and windows or pairs of a split, with those that were left
 * out because they are too long in *left_out (may be NULL). */
int64_t pco_data_batches(const pco_data *data, pco_data_split split);
int64_t pco_data_samples(const pco_data *data, pco_data_split split, int64_t *left_out);

/* Batch number `index`, from 0; held-out ones are below pco_data_batches. Allocates nothing. */
void pco_data_read(pco_data *data, pco_data_split split, int64_t index, pco_data_batch *batch);

/* The most elements that a batch's source and target can have. */
int64_t pco_data_longest(const pco_data *data, int side);

#endif
