/* What a case is: a pure description, from whose seed its data follow. Its id is a hash of its label, and its label
 * says all that the case is, so that an id means the same case in every tier and version that has it. */
#ifndef CONF_CASE_H
#define CONF_CASE_H

#include "conformance.h"
#include "graph/op.h"

#include <stdbool.h>

typedef enum conf_regime {
    CONF_EXACT,       /* small integers: sums and products are exact, so results are bit for bit */
    CONF_RANDOM,      /* uniform in the op's domain */
    CONF_ADVERSARIAL, /* large, cancelling, tiny, subnormal, zeros of both signs, equal rows, ties */
    CONF_SPECIAL,     /* with NaN and infinities; only where the contract promises them */
    CONF_REAL,        /* activations and weights of a model (real_data.c) */
    CONF_CONTRACT,    /* operands on which devices that keep a clause differ from those that do not */
    CONF_REGIMES,
} conf_regime;

typedef enum conf_fill {
    CONF_FILL_DEFAULT, /* by the regime, between low and high */
    CONF_FILL_INTEGER, /* whole numbers low..high */
    CONF_FILL_UNIFORM,
    CONF_FILL_LIST,    /* list[i mod n_list] */
    CONF_FILL_BOOL,    /* true with probability low */
    CONF_FILL_BITS,    /* 32 random bits */
    CONF_FILL_PHASE,   /* rotary phases of base 10000 */
    CONF_FILL_EQUAL,   /* one value per row of the last dimension; a whole number low..high where they are given */
    CONF_FILL_TIES,    /* few distinct values */
    CONF_FILL_ROWS,    /* every third row of the last dimension false (0), or -infinity for floats; others by
                          the regime */
    CONF_FILL_REAL,    /* captured from a model: real_data.h */
    CONF_FILL_GARBAGE, /* keys and values of attention: NaN beyond lengths[b], where nothing may be read */
    CONF_FILL_UNSEEN,  /* the same, and NaN wherever the mask and the rules of the op let no row see the key */
    CONF_FILL_KEYS,    /* a mask of attention that hides every fourth key from all rows, and others from some */
    CONF_FILL_SPREAD,  /* blocks of 32 numbers that lie close together, far apart, at the edges of f32's range ... */
    CONF_FILL_SPARSE,  /* quantised weights of which three in four are 0 */
    CONF_FILL_RISING,  /* by the regime; from every fourth row of the last dimension to the next twice as large */
} conf_fill;

/* Has the operand NaN where nothing may be read? */
static inline bool conf_fill_is_garbage(conf_fill fill)
{
    return fill == CONF_FILL_GARBAGE || fill == CONF_FILL_UNSEEN;
}

typedef struct conf_operand {
    bool present;
    bool constant; /* given as a constant, so that the plugin may lay it out anew */
    uint32_t dtype, rank;
    int64_t shape[PCO_MAX_RANK];
    conf_fill fill;
    double low, high;
    uint32_t n_list;
    double list[8];
    uint32_t twin; /* 1 + the operand whose type, shape and values this one has; 0: none */
    uint32_t real; /* CONF_FILL_REAL: which capture */
} conf_operand;

enum { CONF_LABEL = 400 };

typedef struct conf_case {
    uint32_t op, id;
    uint32_t turn; /* how many cases of the op with operands of these types came before it */
    conf_regime regime;
    bool large;     /* not to be held on the host: judged by rows (runner_large.c) */
    bool every;     /* each variant runs it, in the short tiers, too */
    uint32_t chain; /* 0: one node; else a program of several that share memory (chain.h) */
    uint32_t n_inputs;
    conf_operand in[PCO_MAX_INPUTS];
    uint32_t attrs_size;
    union {
        int64_t align;
        unsigned char bytes[256];
    } attrs;
    char label[CONF_LABEL];
} conf_case;

/* The row of its op, which may be one of somebody's own. */
static inline const pco_op_info *conf_case_op(const conf_case *one) { return pco_op_of(one->op, one->attrs.bytes); }

/* Called per case; returns false to stop. */
typedef bool (*conf_visit_fn)(void *user, const conf_case *one);

/* 1 for data of which a result that tells nothing would be a surprise. */
static inline bool conf_regime_is_random(conf_regime regime) { return regime == CONF_RANDOM || regime == CONF_REAL; }

/* "exact", "random" ... Static. */
const char *conf_regime_name(conf_regime regime);
/* The type's name of the first operand that is there; "" without one. Static. */
const char *conf_case_dtype(const conf_case *one);
/* Writes the label of a case that has none yet. */
void conf_case_label(conf_case *one);

/* The seed of one case's data. */
uint64_t conf_case_seed(const conf_case *one, uint64_t seed);

/* Describes operand i (dtype, shape, bytes; kind INPUT or CONSTANT). */
pco_tensor conf_operand_tensor(const conf_case *one, uint32_t input);

/* Writes operand i's values, in storage format, `bytes` as described. Pure. */
void conf_operand_fill(const conf_case *one, uint32_t input, uint64_t seed, void *data);

#endif
