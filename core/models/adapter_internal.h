/* Shared by the files that read and write adapters. */
#ifndef PCO_MODELS_ADAPTER_INTERNAL_H
#define PCO_MODELS_ADAPTER_INTERNAL_H

#include "models/adapter.h"

/* A projection of a layer; `part` counts the names in pco_layer_names. */
typedef struct adapter_projection {
    pco_model_side side;
    int64_t layer;
    int part;
    int64_t expert; /* whose matrix it is, of a stack; -1: all of them, or there are none */
} adapter_projection;

/* What folders of that kind of model have, which a GGUF file may be of, too; or NULL. */
const pco_hub *adapter_hub(const pco_model_file *file);
/* The projection of that name, as transformers calls it (without what all names of some families begin with) or as the
 * graph does; 0: there is none. */
int adapter_find(const pco_model_file *file, const char *name, int of_hub, adapter_projection *which);
/* The projection that is, or whose expert has, the module of that name in transformers, and what the graph calls it. */
int adapter_of_module(const pco_model_file *file, const char *module, char projection[PCO_SPEC_NAME],
                      adapter_projection *which);
/* Where the graph has row `row` of a projection, transformers has this one. */
int64_t adapter_hub_row(const pco_model_file *file, const adapter_projection *which, int64_t row);
/* How many rows a projection has of which some change places; 0: none does. */
int64_t adapter_moved_rows(const pco_model_file *file, const adapter_projection *which);
/* What transformers calls it behind the number of the layer: "self_attn.q_proj". */
const char *adapter_hub_part(const pco_model_file *file, const adapter_projection *which);
/* Does transformers keep its matrix as [in,out]? */
int adapter_transposed(const pco_model_file *file, const adapter_projection *which);
/* Is it a stack of the matrices of all experts? */
int adapter_is_stack(const pco_model_file *file, const adapter_projection *which);
/* Is it what PEFT calls a parameter of all experts of a layer, or of two the inner one ("base_layer")? */
int adapter_all_experts(const pco_model_file *file, const char *module, int64_t *layer);
/* What transformers calls the module of that expert, of a stack. 0: there is no memory. The caller frees *module. */
int adapter_expert_module(const pco_model_file *file, const char *stack, int64_t expert, char **module);

/* ---- configs (adapter_config.c) ---- */

/* alpha of the modules whose names fit an expression. */
typedef struct adapter_pattern adapter_pattern;

/* What adapter_config.json says, as far as numbers depend on it. */
typedef struct adapter_config {
    pco_adapter_params params;
    adapter_pattern *patterns;
    size_t n_patterns;
} adapter_config;

pco_status adapter_config_read(const char *path, adapter_config *config, pco_error *err);
void adapter_config_release(adapter_config *config);
/* What B of a module is multiplied with. Errors: OUT_OF_HOST_MEMORY; UNSUPPORTED for an expression that takes too
 * long. */
pco_status adapter_config_scale(const adapter_config *config, const char *module, int64_t rank, double *scale,
                                pco_error *err);

/* ---- matrices (adapter_matrix.c) ---- */

/* What the names of all tensors of PEFT begin with. */
#define ADAPTER_PREFIX "base_model.model."

/* Adapters that are read. */
typedef struct adapter_reading {
    const pco_model_file *file;
    const adapter_config *config;
    const pco_weights *all; /* the adapter's file */
    pco_weights *made;      /* with the names of the graph */
} adapter_reading;

pco_status adapter_no_memory(const char *adapter, pco_error *err);
/* The tensor's name without what it begins and ends with: the module, as transformers calls it. */
void adapter_module_of(const pco_weight *from, char module[PCO_SPEC_NAME]);
/* Is it a matrix of floats, of a rank that can be? */
pco_status adapter_check_matrix(const adapter_reading *r, const pco_weight *from, int is_b, pco_error *err);
/* What B is multiplied with. */
pco_status adapter_scale_of(const adapter_reading *r, const pco_weight *b, double *scale, pco_error *err);
/* Its elements as f32, times scale. */
pco_status adapter_read_matrix(const pco_weight *from, double scale, float *to, pco_error *err);
/* A matrix [rows,columns] for each of `stack` experts, or one of 0, under its name in the graph: memory of `made`. */
pco_status adapter_make(const adapter_reading *r, const char *projection, const char *suffix, int64_t stack,
                        int64_t rows, int64_t columns, float **values, pco_error *err);

/* ---- experts (adapter_experts.c) ---- */

/* The matrix of an expert: makes the stack at the one of expert 0. */
pco_status adapter_add_expert(const adapter_reading *r, const pco_weight *from, const char *projection,
                              const adapter_projection *which, pco_error *err);
/* Stacks that gate and up share, and that of down, as PEFT has them for parameters of transformers 5; *known 0: it is
 * no such tensor. */
pco_status adapter_add_fused(const adapter_reading *r, const pco_weight *from, int *known, pco_error *err);

#endif
