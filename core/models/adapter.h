/* Low-rank adapters (Hu et al. 2021) in the layout of PEFT (https://huggingface.co/docs/peft): a folder with
 * adapter_config.json, and adapter_model.safetensors, whose tensors are called
 * "base_model.model.MODULE.lora_A.weight" [rank,in] and "...lora_B.weight" [out,rank]. MODULE is what transformers
 * calls the projection, also where the model is a GGUF file.
 *
 * Experts have an adapter each, called as transformers 4 called them ("model.layers.0.mlp.experts.3.up_proj"), which
 * PEFT also reads where transformers 5 has made one parameter of all. What PEFT writes then is read, too: `lora_A` and
 * `lora_B` of "model.layers.0.mlp.experts", and of "base_layer" in it. */
#ifndef PCO_MODELS_ADAPTER_H
#define PCO_MODELS_ADAPTER_H

#include "models/model.h"

enum { PCO_ADAPTER_MOST_RANK = 1 << 16 };

/* What an adapter's config says, as far as numbers depend on it. */
typedef struct pco_adapter_params {
    int64_t rank;
    double alpha;
    int rank_stabilised; /* what is added is times alpha / sqrt(rank) (Kalajdzievski 2023), not alpha / rank */
    double dropout;      /* in training */
} pco_adapter_params;

double pco_adapter_scale(const pco_adapter_params *params, int64_t rank);

/* Reads the adapter in `folder`, and puts its matrices among the weights of the model, where its graphs find them
 * (core/nn/lora.c): as f32, B times the scale, of experts as stacks. Call it before the model is used, and once.
 * Errors: IO; NOT_FOUND for a file; FORMAT and UNSUPPORTED with the key, or the tensor that fits no projection of the
 * model; OUT_OF_HOST_MEMORY. */
pco_status pco_adapter_open(pco_model_file *file, const char *folder, pco_error *err) PCO_NODISCARD;

/* Is a tensor of the model one of an adapter? */
int pco_adapter_is(const char *tensor);

/* What transformers calls the projection that the model's graph calls `projection`: 1, in `module`; 0: it is none that
 * can have an adapter. */
int pco_adapter_module(const pco_model_file *file, const char *projection, char module[PCO_SPEC_NAME]);
/* Is it one that has an adapter where no config says which do: a query or value projection, as most of PEFT's defaults?
 */
int pco_adapter_usual(const pco_model_file *file, const char *projection);
/* Is it a stack of experts' matrices? The module's name is then that of all, without a number:
 * "model.layers.0.mlp.experts.up_proj". */
int pco_adapter_of_experts(const pco_model_file *file, const char *projection);
/* Is it that module, or does its name end with a dot and `target`, as PEFT's target_modules do? */
int pco_adapter_matches(const char *module, const char *target);
/* Is there a projection of which that is so? */
int pco_adapter_has(const pco_model_file *file, const char *target);
/* What there is in layers, for messages: "self_attn.q_proj, mlp.up_proj"; written to `text`, and returned. */
const char *pco_adapter_parts(const pco_model_file *file, char *text, size_t size);

/* Writes the folder's two files, each whole or not at all; the tensors first. `matrices`, or stacks of them, are F32
 * and have the names of the graph, "PROJECTION.lora_A.weight"; B is without the scale. `base` becomes
 * base_model_name_or_path. Errors: IO; OUT_OF_HOST_MEMORY. */
pco_status pco_adapter_write(const pco_model_file *file, const char *folder, const pco_adapter_params *params,
                             const pco_weight *matrices, uint32_t count, pco_error *err) PCO_NODISCARD;

#endif
