/* Activations and weights of a model, for the real regime: made by tests/golden/make_real.py. D = 96 wide, 12 tokens,
 * 4 heads of 24. */
#ifndef CONF_REAL_DATA_H
#define CONF_REAL_DATA_H

#include <stdint.h>

enum {
    CONF_REAL_RESIDUAL, /* [12, 96] what the norm in front of attention sees */
    CONF_REAL_QUERY,    /* [4, 12, 24], as key and value */
    CONF_REAL_KEY,
    CONF_REAL_VALUE,
    CONF_REAL_SCORES,             /* [4, 12, 12] before softmax */
    CONF_REAL_FEED_FORWARD_INPUT, /* [12, 96] */
    CONF_REAL_HIDDEN,             /* [12, 48] before gelu */
    CONF_REAL_NORM_WEIGHT,        /* [96] */
    CONF_REAL_NORM_BIAS,
    CONF_REAL_MATRIX,      /* [48, 96] */
    CONF_REAL_MATRIX_BIAS, /* [48] */
    CONF_N_REAL
};

const char *conf_real_name(uint32_t real); /* static */
double conf_real_value(uint32_t real, int64_t i);

#endif
