/* Fusion: two nodes become one with the same bound, either because one reads what the other makes, or because both do
 * the same to one tensor. Which do is two tables of patterns; matching them, and keeping nodes in an order in which
 * they can run, is the same for all. */
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

/* Who reads the nodes of a join. */
typedef enum pco_join_readers {
    PCO_JOIN_PAIR, /* two nodes, and nothing reads them but one node, as its operands 0 and 1. It then has one operand,
                    * whose rows are those of both */
    PCO_JOIN_ANY,  /* two nodes or more, of one row each, and whatever does. Slices of the one node, which are views of
                    * it  (core/runtime/part.c), take their places; of more rows they would be copies. Other graphs of a
                    * model then use the same constants apart: they are of types that devices keep as files do, so that
                    * the session finds them in the constant made of them, and nothing is held twice */
} pco_join_readers;

/* A pattern of nodes that do the same to one tensor. They become one node, whose constants are as long as theirs
 * together, where the constants of each lie right behind those of another: that takes no copy, and no memory. Each
 * element is made as before. */
typedef struct pco_join {
    const char *name;
    pco_op op;             /* of all, whose attributes are the same */
    uint32_t behind;       /* bit i: operands i are such constants, or absent; all others are the same tensors */
    uint32_t absent;       /* bit i: none has operand i */
    pco_fusion_attr where; /* an attribute of all: the first dimension of constants of rank 2 is the result's last */
    pco_join_readers readers;
    pco_op reader; /* of a pair */
} pco_join;

/* An attribute of one op that becomes one of another; attributes have 8 bytes. */
typedef struct pco_fusion_copy {
    size_t from, to;
} pco_fusion_copy;

/* A pattern: a node goes, and all that read its result make it themselves. Each of them, as fusing and joining have
 * left it, is then a node of another op, with the operands that it has, but that operand 0 is that of the node that
 * goes. The result has one row: of more, each reader would make all of them again. What the node that goes reads is
 * written by nobody. */
typedef struct pco_intake {
    const char *name;
    pco_op op;                 /* of the node that goes */
    pco_fusion_attr always[3]; /* its attributes that must have these values */
    pco_op reader;             /* of all that read its result, as operand 0 */
    uint32_t absent;           /* bit i: a reader must not have operand i */
    uint32_t matrices;         /* bit i: operand i of a reader has rank 2, and a type without blocks */
    pco_fusion_attr where[2];  /* attributes of a reader that must have these values */
    pco_op becomes;
    uint32_t operand;      /* of it, which operand 1 of the node that goes becomes; the others follow */
    pco_fusion_attr sets;  /* the attribute of it which says what has gone */
    pco_fusion_copy gone;  /* an attribute of what has gone that it keeps, */
    pco_fusion_copy reads; /* and one of the reader */
} pco_intake;

/* All patterns. Static. */
const pco_fusion *pco_fusion_table(uint32_t *count);
const pco_intake *pco_intake_table(uint32_t *count);
const pco_join *pco_join_table(uint32_t *count);

/* What fusing makes of a graph, per node: nodes are emitted in their order, but those which have `moved`. */
typedef struct pco_fusions {
    uint32_t *into;       /* the node that is emitted in its place, as it became, or PCO_NONE: itself, as it is */
    uint32_t *joined;     /* the node whose constants go behind its own, or PCO_NONE */
    uint32_t *taken;      /* the node that it has taken in, or PCO_NONE: that one goes where it is refused */
    unsigned char *split; /* 1: slices of it are the results of itself, of the node it is joined to, and so on */
    unsigned char *moved; /* 1: it is not emitted here, but where its last reader or the node it is joined to stood, or
                           * by all that read it */
    pco_node *nodes;      /* the nodes as they became; tensors are those of the graph */
    pco_arena arena;      /* their attributes */
} pco_fusions;

/* Finds the patterns in `graph`. live[i]: is node i needed? readers[t]: how often live nodes read tensor t, where an
 * output is read once more. apart[i]: node i stays as it is; NULL: none has to. OUT_OF_HOST_MEMORY; release the result
 * with pco_fusions_release, also after that. */
pco_status pco_fusions_find(const pco_graph *graph, const unsigned char *live, const uint32_t *readers,
                            const unsigned char *apart, pco_fusions *fusions, pco_error *err) PCO_NODISCARD;
void pco_fusions_release(pco_fusions *fusions);

#endif
