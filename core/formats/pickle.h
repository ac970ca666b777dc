/* Python's pickles, as far as files of PyTorch need them: a list of values, of which nothing is ever executed. The
 * opcodes: Python's Lib/pickletools.py. A value is a node, known by its number.
 *
 * Memory stays below ten times the pickle: what would need more (many empty lists, say) is refused. */
#ifndef PCO_FORMATS_PICKLE_H
#define PCO_FORMATS_PICKLE_H

#include "portico/plugin.h"

#include <stddef.h>

typedef enum pco_pickle_kind {
    PCO_PICKLE_NONE,
    PCO_PICKLE_BOOL,
    PCO_PICKLE_INT,    /* `number` */
    PCO_PICKLE_FLOAT,  /* its value is not kept */
    PCO_PICKLE_TEXT,   /* text[size], in the pickle's memory */
    PCO_PICKLE_GLOBAL, /* a name of Python's: `number` is that of the row of the caller's table */
    PCO_PICKLE_TUPLE,  /* these four: cells from `first` on */
    PCO_PICKLE_LIST,
    PCO_PICKLE_DICT,      /* keys and values in turn */
    PCO_PICKLE_CALL,      /* what a global would be called with: it, and the tuple */
    PCO_PICKLE_PERSISTENT /* a persistent id; `number` is its node */
} pco_pickle_kind;

typedef struct pco_pickle_node {
    uint8_t kind;
    uint8_t seen;  /* for the caller */
    uint32_t size; /* of text or cells */
    union {
        int64_t number;
        const char *text;
        struct {
            uint32_t first, last; /* cells; UINT32_MAX for none */
        } cells;
    } is;
} pco_pickle_node;

/* One item of a tuple, list or dict. */
typedef struct pco_pickle_cell {
    uint32_t node, next;
} pco_pickle_cell;

typedef struct pco_pickle {
    pco_pickle_node *nodes;
    pco_pickle_cell *cells;
    uint32_t n_nodes, n_cells, most_nodes, most_cells;
    uint32_t root;
    size_t used; /* bytes of the pickle: more may follow behind it */
} pco_pickle;

/* Reads the pickle at data[size]. globals[n]: "module name" of each that may occur. `label` is for messages. The first
 * is Python's OrderedDict, whose calls become dicts. Give it to pco_pickle_release in any case. Errors: FORMAT for a
 * pickle that is cut off or wrong, with the place; UNSUPPORTED for opcodes and globals other than those known, by name;
 * OUT_OF_HOST_MEMORY. */
pco_status pco_pickle_read(const void *data, size_t size, const char *label, const char *const *globals, uint32_t n,
                           pco_pickle *pickle, pco_error *err) PCO_NODISCARD;
void pco_pickle_release(pco_pickle *pickle);

/* Item `index` of a tuple or list, or of a call (0: the global, 1: the tuple); UINT32_MAX when there is none. */
uint32_t pco_pickle_item(const pco_pickle *pickle, uint32_t node, uint32_t index);
/* The integer, or -1 for what is none or below 0. */
int64_t pco_pickle_size(const pco_pickle *pickle, uint32_t node);

#endif
