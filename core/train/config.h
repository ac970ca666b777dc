/* The config of a training run, one JSON file: docs/training.md lists its keys. */
#ifndef PCO_TRAIN_CONFIG_H
#define PCO_TRAIN_CONFIG_H

#include "models/adapter.h"
#include "models/family.h"
#include "train/data.h"
#include "train/initialization.h"
#include "train/schedule.h"
#include "train/update.h"

/* What is computed again in the backward pass instead of being kept: nothing, or the inside of each layer. */
typedef enum pco_recompute { PCO_RECOMPUTE_NONE = 0, PCO_RECOMPUTE_BLOCKS = 1 } pco_recompute;

/* Adapters that are trained, instead of all weights. */
typedef struct pco_lora_config {
    pco_adapter_params params; /* rank 0: all weights are trained */
    const cJSON *targets;      /* in the config's root: a list of texts; NULL: query and value projections */
    int all_linear;            /* 1: all projections in layers */
} pco_lora_config;

typedef struct pco_train_config {
    cJSON *root;  /* the file, as it was, with the seed that holds; owned */
    cJSON *model; /* "model" of root; NULL with `from` */
    char *from;   /* the model that is trained further; NULL: one is made */
    pco_lora_config lora;
    pco_data_config data;
    pco_optimizer_config optimizer;
    pco_schedule schedule; /* without d_model, which the model says */
    pco_initialization initialization;
    int64_t steps, rows, accumulation; /* updates; sequences of a batch; batches of an update */
    uint64_t seed;
    double max_grad_norm, label_smoothing; /* 0: none */
    pco_recompute recompute;
    pco_dtype dtype; /* of activations and products: f32, f16 or bf16 */
    pco_loss_scaling scaling;
    int64_t checkpoint_interval, evaluation_interval, evaluation_batches; /* 0: never; never; all */
    double checkpoint_seconds;                                            /* by the clock of whoever trains; 0: never */
    char *initial_weights; /* a safetensors file with the first values of every parameter; NULL: initialization's */
    char *out;             /* folder of the run */
} pco_train_config;

typedef struct pco_train_overrides {
    const char *data_file, *from, *out; /* NULL: as the file says; taken from the current folder */
    int64_t seed;                       /* below 0: as the file says */
} pco_train_overrides;

/* Reads and checks a config. Paths in it are taken from its own folder, but "out" from the current one. The
 * caller releases *config after success. Errors: IO; FORMAT with the file and all unknown keys, or the key.
 */
pco_status pco_train_config_load(const char *path, const pco_train_overrides *overrides, pco_train_config *config,
                                 pco_error *err) PCO_NODISCARD;
void pco_train_config_release(pco_train_config *config);

/* The config.json of the model that is trained: "model" with the vocabularies of the data, and what follows
 * from them. The caller gives *document to cJSON_Delete. Errors, FORMAT: a model whose kind or vocab_size
 * does not fit the data; what pco_family_of_config says. */
pco_status pco_train_model_config(const pco_train_config *config, const pco_data *data, cJSON **document,
                                  pco_model_spec *model, pco_error *err) PCO_NODISCARD;

/* The first key of two configs that makes a different run (lengths and intervals that do not matter are left
 * out), or NULL when one continues the other. Static or in `a` or `b`. */
const char *pco_train_config_difference(const cJSON *a, const cJSON *b);

#endif
