/* What the reader of grammars and the one who follows texts know of each other. */
#ifndef PCO_TEXT_GRAMMAR_INTERNAL_H
#define PCO_TEXT_GRAMMAR_INTERNAL_H

#include "text/grammar.h"

typedef enum grammar_kind { GRAMMAR_RULE, GRAMMAR_CLASS, GRAMMAR_END } grammar_kind;

/* A place in a production: a rule, a class of characters, or the end of the rule. */
typedef struct grammar_symbol {
    uint32_t kind, index; /* of rules; of classes; of the rule that ends */
} grammar_symbol;

typedef struct grammar_range {
    uint32_t first, last; /* code points */
} grammar_range;

typedef struct grammar_class {
    uint32_t first, count; /* of ranges */
    int negated;
} grammar_class;

/* Productions of a rule follow each other as a list: `next` of each, 0 at the end. */
typedef struct grammar_production {
    uint32_t rule, symbol, next; /* symbol: where it begins */
} grammar_production;

typedef struct grammar_rule {
    char *name;            /* NULL: made here, for a group or a repetition */
    uint32_t productions;  /* the first of them, counted from 1; 0: none */
    uint32_t line;         /* where it was first named */
    int defined, nullable; /* nullable: an empty text follows from it */
} grammar_rule;

struct pco_grammar {
    grammar_rule *rules;
    grammar_class *classes;
    grammar_range *ranges;
    grammar_production *productions; /* from 1 on */
    grammar_symbol *symbols;
    uint32_t n_rules, n_classes, n_ranges, n_productions, n_symbols;
    size_t rules_room, classes_room, ranges_room, productions_room, symbols_room;
    uint32_t root;
};

#endif
