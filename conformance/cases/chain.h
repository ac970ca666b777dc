/* Programs of several nodes in one part, which share memory as those of a model do: what a later node writes an earlier
 * one may still read. A node alone never shows that. Values are whole numbers, so that every result is exact. */
#ifndef CONF_CHAIN_H
#define CONF_CHAIN_H

#include "portico/plugin.h"

#include <stdbool.h>

enum { CONF_CHAIN_NODES = 3, CONF_CHAIN_INPUTS = 3 };

typedef enum conf_chain_place {
    CONF_CHAIN_OWN,      /* memory of its own, or that of a state that is written */
    CONF_CHAIN_RECYCLED, /* where the result of the first node lay, which nobody reads any more */
    CONF_CHAIN_IN_PLACE, /* in the memory of its first operand, if the plugin proposes that */
} conf_chain_place;

typedef struct conf_chain_node {
    uint32_t op, n_inputs;
    uint32_t inputs[CONF_CHAIN_INPUTS]; /* operand i of the case, or CONF_CHAIN_RESULT + k: what node k made */
    conf_chain_place place;
    bool kept; /* still there at the end, and judged */
} conf_chain_node;
enum { CONF_CHAIN_RESULT = 100 };

typedef struct conf_chain {
    const char *name; /* for labels */
    uint32_t op;      /* under which it is listed */
    uint32_t n_nodes;
    conf_chain_node nodes[CONF_CHAIN_NODES];
} conf_chain;

/* Program `chain` of a case, counted from 1; NULL: there is none. */
const conf_chain *conf_chain_find(uint32_t chain);

#endif
