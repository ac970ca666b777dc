/* For the files that hold oracles: what they share, and the list that oracle.c goes through. */
#ifndef CONF_ORACLE_EVAL_H
#define CONF_ORACLE_EVAL_H

#include "oracle/oracle.h"

static inline bool oracle_present(const oracle_node *node, uint32_t input)
{
    return input < node->n_inputs && node->in[input].desc != NULL;
}

void oracle_put(oracle_output *out, int64_t i, oracle_ve y); /* as it is */
/* Converted to the output's type from the compute format of `rules`. */
void oracle_finish(oracle_output *out, int64_t i, const oracle_rules *rules, oracle_ve y);
oracle_ve oracle_read(const oracle_node *node, uint32_t input, int64_t i);

/* Index in `shape` (broadcast to the output's shape) of the output's element i. */
int64_t oracle_broadcast_index(const pco_tensor *out, const pco_tensor *in, int64_t i);
void oracle_unravel(const pco_tensor *desc, int64_t i, int64_t *index);
int64_t oracle_ravel(const pco_tensor *desc, const int64_t *index);
/* Elements before, at and after an axis (negative: from the end). */
void oracle_axis(const pco_tensor *desc, int64_t axis, int64_t *outer, int64_t *n, int64_t *inner);

/* A sum of n terms under way: value, sum of magnitudes, errors that the terms brought along. */
typedef struct oracle_sum {
    oracle_real v, magnitude, e;
    int64_t n;
} oracle_sum;
void oracle_sum_add(oracle_sum *sum, oracle_ve term);
/* gamma_roundings * sum |term| + errors; nothing where every partial sum is exact in any order, which holds
 * when all terms are multiples of `quantum` and sum |term| stays below 2^precision of them. */
oracle_ve oracle_sum_end(const oracle_rules *rules, const oracle_sum *sum, int64_t roundings, double quantum);

/* The oracles of each family of the op table, whose functions have its name but for those of these families. */
#define oracle_eval_logical      oracle_eval_compare
#define oracle_eval_logical_not  oracle_eval_unary
#define oracle_eval_clamp        oracle_eval_unary
#define oracle_eval_broadcast_to oracle_eval_move
#define oracle_eval_reshape      oracle_eval_move
#define oracle_eval_permute      oracle_eval_move
#define oracle_eval_slice        oracle_eval_move
#define oracle_eval_pad          oracle_eval_move

typedef pco_status oracle_fn(oracle_node *node, pco_error *err);
#define PCO_OP(id, upper, name, family, ...) oracle_fn oracle_eval_##family;
#include "graph/ops.def"
/* For a function that the operations of a family share: the enumeration of those for which LIST_family is
 * ORACLE_LISTED, of which its switch, without `default`, has to have a case each, or it does not compile.
 *
 *     #define SOFTMAX_softmax                 ORACLE_LISTED
 *     #define SOFTMAX(NAME, name, family)     ORACLE_IF(SOFTMAX_##family, NAME)
 *     typedef enum oracle_softmax_op { PCO_OPERATIONS(SOFTMAX) } oracle_softmax_op; */
#define ORACLE_LISTED                    ~, ORACLE_MEMBER
#define ORACLE_IF(listed, NAME)          ORACLE_SECOND(listed, ORACLE_NO_MEMBER, ~)(NAME)
#define ORACLE_SECOND(...)               ORACLE_SECOND_OF(__VA_ARGS__)
#define ORACLE_SECOND_OF(first, of, ...) of
#define ORACLE_MEMBER(NAME)              ORACLE_##NAME = PCO_OP_##NAME,
#define ORACLE_NO_MEMBER(NAME)
#pragma GCC diagnostic error "-Wswitch"
oracle_fn oracle_eval_own;     /* what is declared outside of the table */
oracle_fn oracle_eval_integer; /* sums and elementwise arithmetic in i32 */

/* Philox 4x32-10, written again for the oracle. */
uint32_t oracle_random_word(uint64_t seed, uint64_t offset, uint32_t stream, uint64_t element);

/* Terms exp(s_j - max) of a softmax and their sum, with errors: term[j] and *sum. score: n values with
 * errors, -infinity where masked. The scale that all terms share (the device's own maximum) cancels in every
 * use. */
void oracle_softmax_terms(const oracle_rules *rules, const oracle_rules *sum_rules, const oracle_ve *score, int64_t n,
                          oracle_ve *term, oracle_ve *sum);
/* term / sum; zero where the sum is. */
oracle_ve oracle_softmax_weight(const oracle_rules *rules, oracle_ve term, oracle_ve sum);

#endif
