/* What the config.json files of Hugging Face have in common, whatever the family. */
#ifndef PCO_MODELS_HF_CONFIG_H
#define PCO_MODELS_HF_CONFIG_H

#include "formats/json.h"
#include "models/spec.h"

/* The activation that `key` names, as transformers calls them; `fallback` where the key is absent. */
pco_nn_activation pco_hf_activation(pco_json_reader *reader, const char *key, pco_nn_activation fallback);

/* A token id, or the first of a list of them; -1 for none. */
int32_t pco_hf_token(pco_json_reader *reader, const char *key, int32_t fallback);

/* For the initialiser of the row of an encoder's family: names of tensors that the encoder does not need, by how they
 * begin: heads of tasks, and tables that are made from the config. */
#define PCO_HF_ENCODER_IGNORED \
    "embeddings.position_ids", "pooler.", "classifier.", "qa_outputs.", "cls.seq_relationship."

/* Sizes, activation, epsilon and positions of an encoder as BERT's config has them, and what follows from them. The
 * spec holds names and what the family decides. Errors: FORMAT for a key that is missing or wrong; UNSUPPORTED for
 * what would change the numbers and is not there: a decoder, positions other than absolute ones. */
void pco_hf_read_encoder(pco_json_reader *reader, pco_model_spec *spec);

/* What those do that are called as BERT's: the keys of sizes. */
typedef struct pco_hf_encoder_keys {
    const char *width, *layers, *heads, *hidden, *activation;
} pco_hf_encoder_keys;
void pco_hf_read_encoder_keys(pco_json_reader *reader, const pco_hf_encoder_keys *keys, pco_model_spec *spec);

#endif
