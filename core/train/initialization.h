/* First values of parameters, from a seed. */
#ifndef PCO_TRAIN_INITIALIZATION_H
#define PCO_TRAIN_INITIALIZATION_H

#include "nn/nn.h"

typedef enum pco_initialization_type {
    PCO_INITIALIZATION_PYTORCH = 0, /* matrices uniform within 1 / sqrt(fan in), as torch.nn.Linear */
    PCO_INITIALIZATION_XAVIER = 1,  /* matrices uniform within sqrt(6 / (fan in + fan out)) (Glorot & Bengio
                                       2010):  tensor2tensor's, and torch.nn.MultiheadAttention's */
    PCO_INITIALIZATION_NORMAL = 2,  /* matrices normal with `std`; of the projections that end a residual block
                                       with std / sqrt(2 layers) (Radford et al. 2019, 2.3) */
} pco_initialization_type;

typedef struct pco_initialization {
    pco_initialization_type type;
    double std;           /* of NORMAL; 0.02 in GPT-2 */
    double embedding_std; /* of embeddings, normal; 0: 1 / sqrt(width), as tensor2tensor */
} pco_initialization;

/* Values f32 of a parameter: biases begin as 0, norms as 1 and 0; element i comes from Philox at counter i
 * and a hash of the parameter's name, so it depends on nothing but seed, name, role and shape. `layers` are those
 * of its stack. Pure. */
void pco_initialize(const pco_initialization *how, uint64_t seed, const pco_nn_parameter *parameter, int64_t layers,
                    float *values);

#endif
