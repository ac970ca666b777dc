/* How signatures of operations are written (plugin.h), read in one place for the table and for operations of one's
 * own. */
#ifndef PCO_GRAPH_OP_SIGNATURE_H
#define PCO_GRAPH_OP_SIGNATURE_H

#include "portico/plugin.h"

#include <stddef.h>

/* One operand or result. */
typedef struct pco_signature_operand {
    char name[32], type[8]; /* as written: "F", "f32" or "@" */
    int optional, result;
    uint32_t index; /* among the operands, or among the results */
    int is_free;    /* [@] */
    int broadcasts; /* [*] */
    int leads;      /* [..] or [..,K] */
    uint32_t n_sizes;
    char sizes[PCO_MAX_RANK + 1]; /* letters and digits, without `..` and commas */
    char dims[32];                /* as written */
} pco_signature_operand;

/* A signature under way: begin with {.at = signature}. */
typedef struct pco_signature_reader {
    const char *at;
    const char *why; /* when nothing follows: what is wrong with the rest, or NULL at the end */
    uint32_t count;  /* operands, or results, that were read */
    int result;      /* "->" is behind */
} pco_signature_reader;

/* Reads the next operand or result; 0 at the end, or where what follows is none. */
int pco_signature_next(pco_signature_reader *reader, pco_signature_operand *operand);
/* The same, of operands only: 0 at "->". */
int pco_signature_next_input(pco_signature_reader *reader, pco_signature_operand *operand);

/* How long the word of [a-z][a-z0-9_]*, up to 31 characters, at `text` is; 0: there is none. */
size_t pco_signature_word(const char *text);

/* What stands behind "LETTER=" in a list of types, "F=f32,f16 G=i32"; NULL: the list has no such letter. Its length
 * goes into *length. */
const char *pco_signature_types(const char *types, char letter, size_t *length);
/* The word at *at of what ends at `end`, of *length characters; *at moves behind it and its comma. 0 at the end. */
int pco_signature_type_word(const char **at, const char *end, const char **word, size_t *length);
/* The element type of that name, or PCO_NONE. */
uint32_t pco_signature_dtype(const char *name, size_t length);

#endif
