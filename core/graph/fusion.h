/* Fusion: two nodes, one of which reads what the other makes, become one node with the same bound. Which do is a table
 * of patterns; matching them, and keeping nodes in an order in which they can run, is the same for all. */
#ifndef PCO_GRAPH_FUSION_H
#define PCO_GRAPH_FUSION_H

#include "graph/graph.h"

/* What the reader takes beside the result that it reads. */
typedef enum pco_fusion_other {
    PCO_FUSION_NOTHING,
    PCO_FUSION_ROW,    /* a vector as long as a row of the result, which has more dimensions than one */
    PCO_FUSION_TENSOR, /* a tensor of the result's shape and type */
} pco_fusion_other;

/* An attribute of an op and a value for it. */
typedef struct pco_fusion_attr {
    int given; /* 0: none is meant */
    size_t offset;
    int64_t value;
} pco_fusion_attr;

/* A pattern: the only reader of a node's result goes, and the node computes it too. Both make f32 of one shape: a
 * narrower result would be rounded once less, and numbers would depend on whether a pass ran. */
typedef struct pco_fusion {
    const char *name;
    pco_op op;              /* of the node that stays */
    uint32_t absent;        /* bit i: it must not have operand i yet */
    pco_fusion_attr unless; /* an attribute of it that must have this value */
    pco_op reader;          /* op of the reader */
    pco_fusion_attr where;  /* an attribute of the reader, likewise */
    pco_fusion_other other; /* what the reader's other operand must be */
    uint32_t operand;       /* and which operand of the node that stays it becomes */
    pco_fusion_attr sets;   /* the attribute of the node that stays which says what it computes now */
} pco_fusion;

/* All patterns. Static. */
const pco_fusion *pco_fusion_table(uint32_t *count);

/* Is there a pattern in which a node of this op stays? */
int pco_fusion_keeps(uint32_t op);

/* What fusing makes of a graph, per node: nodes are emitted in their order, but those which have `moved`. */
typedef struct pco_fusions {
    uint32_t *into;       /* the node that is emitted in its place, as it became, or PCO_NONE: itself, as it is */
    unsigned char *moved; /* 1: it is emitted later, where its last reader stood */
    pco_node *nodes;      /* the nodes as they became; tensors are those of the graph */
    pco_arena arena;      /* their attributes */
} pco_fusions;

/* Finds the patterns in `graph`. live[i]: is node i needed? readers[t]: how often live nodes read tensor t, where an
 * output is read once more. OUT_OF_HOST_MEMORY; release the result with pco_fusions_release, also after that. */
pco_status pco_fusions_find(const pco_graph *graph, const unsigned char *live, const uint32_t *readers,
                            pco_fusions *fusions, pco_error *err) PCO_NODISCARD;
void pco_fusions_release(pco_fusions *fusions);

#endif
