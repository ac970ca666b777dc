/* The cases of the suite: for each op, shapes, types, attributes and data that have broken devices before.
 * A case is a pure description; its data follow from a seed. Its id is a hash of its label, and its label
 * says all that the case is, so that an id means the same case in every tier and version that has it. */
#ifndef CONF_CASES_H
#define CONF_CASES_H

#include "conformance.h"

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
    CONF_FILL_EQUAL,   /* one value per row of the last dimension */
    CONF_FILL_TIES,    /* few distinct values */
    CONF_FILL_ROWS,    /* every third row of the last dimension false (0), or -infinity for floats; others by
                          the regime */
    CONF_FILL_REAL,    /* captured from a model: real_data.h */
    CONF_FILL_GARBAGE, /* keys and values of attention: NaN beyond lengths[b], where nothing may be read */
} conf_fill;

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

/* Called per case; returns false to stop. */
typedef bool (*conf_visit_fn)(void *user, const conf_case *one);

/* Visits the cases of a tier whose op matches the pattern (fnmatch; NULL: all), in the order of ops.def. The
 * second adds shapes at the edges of a device's kernels; the first has those of no device. */
void conf_cases_visit_on(const pco_device_info *info, pco_conformance_tier tier, const char *pattern,
                         conf_visit_fn visit, void *user);
void conf_cases_visit(pco_conformance_tier tier, const char *pattern, conf_visit_fn visit, void *user);

/* 1 for data of which a result that tells nothing would be a surprise. */
static inline bool conf_regime_is_random(conf_regime regime) { return regime == CONF_RANDOM || regime == CONF_REAL; }

/* True for ops whose kernels drivers compile longest; they are begun first. */
bool conf_cases_is_slow(uint32_t op);

/* "exact", "random" ... Static. */
const char *conf_regime_name(conf_regime regime);
/* The type's name of the first operand that is there; "" without one. Static. */
const char *conf_case_dtype(const conf_case *one);

/* Is it one of those that the options select, in its tier and of its op? */
bool conf_case_is_selected(const conf_case *one, const pco_conformance_options *options);

/* The seed of one case's data. */
uint64_t conf_case_seed(const conf_case *one, uint64_t seed);

/* Describes operand i (dtype, shape, bytes; kind INPUT or CONSTANT). */
pco_tensor conf_operand_tensor(const conf_case *one, uint32_t input);

/* Writes operand i's values, in storage format, `bytes` as described. Pure. */
void conf_operand_fill(const conf_case *one, uint32_t input, uint64_t seed, void *data);

/* ---- for the files that list cases ---- */

typedef struct conf_cases_context {
    pco_conformance_tier tier;
    const char *pattern;
    conf_visit_fn visit;
    void *user;
    bool stopped;
    uint64_t binding; /* bytes that a kernel of the device sees through one argument; 0: no device */
    uint32_t n_edges;
    uint32_t edges[PCO_MAX_EDGES]; /* of the device's kernels */
    conf_case one;                 /* under construction */
    uint32_t seen[1 << 16];        /* ids that were visited, by open addressing: lists overlap */
    uint32_t n_kinds;              /* cases of an op with operands of the same types are of one kind */
    struct {
        uint32_t hash, count;
    } kinds[256]; /* of the op whose cases are visited */
} conf_cases_context;

/* Starts a case with the op's default attributes. */
conf_case *conf_cases_begin(conf_cases_context *context, pco_op op, conf_regime regime);
/* Adds an operand; the shape is text such as "2,3,5" ("": a scalar). Returns it, to be refined. */
conf_operand *conf_cases_in(conf_case *one, uint32_t dtype, const char *shape, ...)
    __attribute__((format(printf, 3, 4)));
conf_operand *conf_cases_absent(conf_case *one);
/* Reads "2,3,5" into a vector attribute. */
int64_t conf_cases_vector(int64_t *vector, const char *text);
/* Adds an operand that has the values of operand `of`. */
conf_operand *conf_cases_twin(conf_case *one, uint32_t of);
void conf_cases_list(conf_operand *operand, uint32_t n, const double *list);
void conf_cases_emit(conf_cases_context *context);

static inline bool conf_cases_standard(const conf_cases_context *context)
{
    return context->tier == PCO_CONFORMANCE_STANDARD || context->tier == PCO_CONFORMANCE_FULL ||
           context->tier == PCO_CONFORMANCE_SOAK;
}

/* Every pipeline takes a software driver a tenth of a second or more to compile: in the short tiers the even entries of
 * a list are run in bf16 and the odd ones in f16, as shapes and types do not depend on each other; all in f32. `t` is
 * an index of CASES_FLOATS. */
static inline bool conf_cases_has_half(const conf_cases_context *context, uint32_t t, uint32_t entry)
{
    return t == 0 || conf_cases_standard(context) || (entry + t) % 2 == 0;
}

extern const uint32_t CASES_FLOATS[3];

/* All types but the quantised ones, and those; in the order of their numbers. */
#define CASES_COUNT(NAME, name, block, bytes) +1
enum {
    CASES_N_PLAIN = 0 PCO_FLOAT_DTYPES(CASES_COUNT) PCO_WHOLE_DTYPES(CASES_COUNT),
    CASES_N_QUANTISED = 0 PCO_QUANTISED_DTYPES(CASES_COUNT),
};
extern const uint32_t CASES_PLAIN[CASES_N_PLAIN], CASES_QUANTISED[CASES_N_QUANTISED];

/* The least size of at least `size` that whole blocks of the type have. */
int conf_cases_blocks(int size, uint32_t type);

/* The cases of each family of the op table, whose lists have its name but for those of these families. */
#define conf_cases_compare                conf_cases_binary
#define conf_cases_logical_not            conf_cases_logical
#define conf_cases_cross_entropy_backward conf_cases_cross_entropy

#define CASES(name)                          void conf_cases_##name(conf_cases_context *context, pco_op op)
#define PCO_OP(id, upper, name, family, ...) CASES(family);
#include "graph/ops.def"
CASES(contract); /* for any op: those of the contract group, if it has any */
CASES(real);
CASES(twins);
CASES(traps);
CASES(missed);
CASES(constants);
CASES(dimensions);
CASES(chain);
CASES(edges);
CASES(large);
#undef CASES

#endif
