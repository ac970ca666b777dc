/* Embeddings: what a model makes of texts, as one vector each. Any model of portico.h has them; encoders (BERT and its
 * kin) have nothing else. */
#ifndef PORTICO_EMBED_H
#define PORTICO_EMBED_H

#include "portico/portico.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the hidden states of a text's tokens, behind the last norm, become one vector. */
typedef enum pco_pooling {
    PCO_POOLING_DEFAULT = 0, /* as the model's folder says (modules.json); mean where it says nothing */
    PCO_POOLING_MEAN = 1,
    PCO_POOLING_CLS = 2,  /* that of the first token */
    PCO_POOLING_LAST = 3, /* that of the last token */
} pco_pooling;

typedef struct pco_embed_params {
    size_t size;
    pco_pooling pooling;
    int normalize; /* 1: to length 1; -1: not; 0: as the model's folder says, else not */
    /* Called with how many texts are done; non-zero ends the call, which is CANCELLED. NULL: nothing is called. */
    int (*progress)(void *user, size_t done, size_t count);
    void *progress_user;
} pco_embed_params;

/* embeddings[count][width], f32, of texts[count], each UTF-8 and ending with NUL; width is that of pco_model_info, or
 * (of CLIP, whose projection they are by default) pco_model_embedding_width of portico/image.h.
 * Texts are run in batches of similar length. A text longer than the model's context (or max_seq_length) is cut; *cut
 * (may be NULL) counts those. `params` may be NULL, and `cut` may be NULL. Threads: as in portico.h.
 * Errors: NOT_FOUND without a tokenizer; INVALID for a text that cannot be encoded, or has no tokens; UNSUPPORTED and
 * FORMAT for what the folder asks for; CANCELLED; what the device returned. */
PCO_EXPORT pco_status pco_model_embed(pco_model *model, const char *const *texts, size_t count,
                                      const pco_embed_params *params, float *embeddings, size_t *cut,
                                      pco_error *err) PCO_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
