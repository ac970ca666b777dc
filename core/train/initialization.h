/* First values of parameters, from a seed. */
#ifndef PCO_TRAIN_INITIALIZATION_H
#define PCO_TRAIN_INITIALIZATION_H

#include "nn/nn.h"

/* Values f32 of a parameter: biases begin as 0, norms as 1 and 0; element i comes from Philox at counter i
 * and a hash of the parameter's name, so it depends on nothing but seed, name, role and shape. `layers` are those
 * of its stack; neither they nor the seed are taken from `how`. Pure. */
void pco_initialize(const pco_initialization *how, uint64_t seed, const pco_nn_parameter *parameter, int64_t layers,
                    float *values);

/* Into the states of a session: pco_nn_initialize, of a list. */
pco_status pco_initialize_parameters(const pco_nn_training *training, pco_session *session,
                                     const pco_initialization *how, pco_error *err) PCO_NODISCARD;

#endif
