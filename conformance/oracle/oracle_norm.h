/* Moments of a row, which the norms and their backward ops share. */
#ifndef CONF_ORACLE_NORM_H
#define CONF_ORACLE_NORM_H

#include "oracle/oracle.h"

typedef struct oracle_norm_row {
    oracle_ve mean, variance, deviation; /* variance: divided, eps not yet added */
    oracle_ve rstd;
} oracle_norm_row;

/* Of a row of operand 0: mean and variance, or mean 0 and the mean square. */
oracle_norm_row oracle_norm_moments(const oracle_node *node, int64_t row, int64_t n, int64_t correction,
                                    const oracle_rules *sum_rules);
oracle_norm_row oracle_norm_squares(const oracle_node *node, int64_t row, int64_t n, const oracle_rules *sum_rules);

/* The deviation and 1 / deviation. */
void oracle_norm_finish(const oracle_rules *rules, oracle_norm_row *r, double eps, bool form1);

/* d * rstd or d / deviation, whichever is worse. */
oracle_ve oracle_norm_scaled(const oracle_rules *rules, oracle_ve d, const oracle_norm_row *r);

#endif
