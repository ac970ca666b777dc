/* The contract of a device that does not exist: IEEE 754 in f32, with functions good to 4 ulp. */
#ifndef PCO_TESTS_STRICT_CONTRACT_H
#define PCO_TESTS_STRICT_CONTRACT_H

#include "portico/plugin.h"

static const pco_contract CONTRACT = {.compute = PCO_F32,
                                      .round_to_nearest = 1,
                                      .subnormals = 1,
                                      .nan_inf = 1,
                                      .div_ulp = 0.5f,
                                      .sqrt_ulp = 0.5f,
                                      .rsqrt_ulp = 2.0f,
                                      .function_ulp = 4.0f};

#endif
