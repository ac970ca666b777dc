/* What the files of `portico inspect` know of each other. */
#ifndef PCO_CLI_INSPECT_H
#define PCO_CLI_INSPECT_H

#include "cli/cli.h"
#include "formats/gguf.h"
#include "formats/json.h"
#include "models/model.h"
#include "portico/portico.h"

#include <limits.h>

/* What was found at a path. Zero-initialised: empty. */
typedef struct inspect_file {
    char path[PATH_MAX];        /* of the file with the tensors */
    char config_path[PATH_MAX]; /* of config.json, or "" */
    int is_folder;              /* of a model */
    const char *format;         /* "GGUF 3", "safetensors" */
    pco_gguf *gguf;
    pco_weights *owned; /* of safetensors */
    const pco_weights *weights;
    cJSON *config;
    int header_only;       /* GGUF: everything but the data */
    pco_model_file *model; /* NULL when it is no model that Portico runs */
    int64_t context;       /* of the model: what was asked for, else its own */
    pco_memory_estimate estimate;
    pco_error reason; /* why there is no model; "" when there is */
} inspect_file;

/* What was asked for. */
typedef struct inspect_arguments {
    const char *path, *device;
    int dot, json, memory;
    int64_t context; /* 0: the model's own, at most 4096 */
} inspect_arguments;

/* Memory of a model on a device. */
typedef struct inspect_plan {
    char device_id[96], device_name[256];
    uint64_t device_memory, constants, states, arena, arena_bound, io, held, peak;
    uint32_t nodes, parts, cpu_nodes, decomposed;
    int64_t context;
    int fits;          /* 1: everything was allocated */
    int out_of_memory; /* 1: it does not fit; 0 with fits 0: something else is the matter */
    char message[1024];
} inspect_plan;

/* Opens a file or a model folder and finds out what it is. Errors: what the reader says. A file that is good
 * and holds no model that can run is no error: file->reason tells. `context` as in pco_model_params. */
pco_status inspect_open(const char *path, int64_t context, inspect_file *file, pco_error *err) PCO_NODISCARD;
void inspect_close(inspect_file *file);

/* Tries the model on the device and fills the plan. Returns 0, or the exit status after a message. */
int inspect_make_plan(const inspect_file *file, const inspect_arguments *arguments, inspect_plan *plan);

/* Makes the model ready on the device and prints where its memory goes, on stdout. Returns the exit status.
 */
int inspect_memory(const inspect_file *file, const inspect_arguments *arguments);

/* Opens a model on the device with all programs that a prompt or source of any length needs. The caller
 * closes *model also after an error. */
pco_status inspect_open_model(const inspect_arguments *arguments, pco_context *context, pco_model **model,
                              pco_error *err) PCO_NODISCARD;

/* What the program with the most rows of such a model is made of; of one that reads texts and images, both of them. */
pco_executable_stats inspect_counts(const pco_model *model);

/* The graphs of a model in Graphviz's language, on stdout. */
pco_status inspect_dot(const inspect_file *file, pco_error *err) PCO_NODISCARD;

/* On stdout. `plan` may be NULL. */
void inspect_print(const inspect_file *file, const inspect_plan *plan);
int inspect_json(const inspect_file *file, const inspect_plan *plan);

#endif
