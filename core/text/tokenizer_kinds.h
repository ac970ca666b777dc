/* Shared by the tokenizer files only: the common structure, and one pair of functions per kind. */
#ifndef PCO_TEXT_TOKENIZER_KINDS_H
#define PCO_TEXT_TOKENIZER_KINDS_H

#include "text/tokenizer.h"

/* Token types, by the numbers of GGUF. */
typedef enum text_type {
    TEXT_NORMAL = 1,
    TEXT_UNKNOWN = 2,
    TEXT_CONTROL = 3,
    TEXT_USER = 4, /* user-defined: always found in plain text, before anything else */
    TEXT_UNUSED = 5,
    TEXT_BYTE = 6,
} text_type;

typedef struct text_token {
    const char *text, *piece; /* in the vocabulary; as decoded. Both in the pool */
    uint32_t size, piece_size;
    float score;
    uint32_t type; /* text_type */
} text_token;

/* Pairs of tokens that merge into one, an open-addressing table. */
typedef struct text_pair {
    uint64_t key; /* left id << 32 | right id */
    uint32_t rank;
    int32_t id; /* of the merged token; -1: an empty bucket */
} text_pair;

typedef struct text_ids {
    int32_t *data;
    size_t count, capacity;
} text_ids;

/* Text to tokens, without special tokens. `first`: at the start, or right behind a special token. */
typedef pco_status (*text_encode_fn)(const pco_tokenizer *tokenizer, const char *text, size_t size, int first,
                                     text_ids *ids, pco_error *err);

struct pco_tokenizer {
    text_encode_fn encode;
    text_token *tokens;
    uint32_t count;
    char *pool; /* the bytes of all texts and pieces */
    size_t pool_used;
    uint32_t *table;     /* open addressing by text; id + 1, or 0 for an empty bucket */
    uint32_t table_size; /* a power of two */
    pco_tokenizer_special special;
    int32_t eot, eom; /* end of a turn, of a message: a text ends there too; -1: none */
    int add_bos, add_eos;
    int space_prefix;      /* llama: a space goes in front of text, and is taken away when decoding */
    int32_t byte_ids[256]; /* token of each byte, or -1 */
    uint32_t *marked;      /* ids of control and user-defined tokens, longest piece first */
    uint32_t marked_count;
    unsigned char marked_first[256]; /* 1: a marked token begins with this byte */
    uint32_t longest;                /* bytes of the longest token */
    /* gpt2 */
    text_pair *pairs;
    uint32_t pairs_size; /* a power of two */
    void *pattern;       /* pcre2_code */
};

/* tokens.c: room for `count` tokens with `bytes` bytes of text in all. NULL without memory. */
pco_tokenizer *text_create(uint32_t count, size_t bytes);
/* The opposite, but for what is particular to the kind. */
void text_release(pco_tokenizer *tokenizer);
/* Copies the text of token `id` into the pool. Its piece is set by text_set_piece. */
void text_set_token(pco_tokenizer *tokenizer, uint32_t id, const char *text, size_t size, uint32_t type);
/* Copies a piece, at most as long as the token's text. */
void text_set_piece(pco_tokenizer *tokenizer, uint32_t id, const char *piece, size_t size);
/* Fills the table, `longest` and `marked`, once all texts and pieces are set. Of tokens with the same text
 * the first is found; *twice is one of the others, or -1. */
pco_status text_index(pco_tokenizer *tokenizer, int32_t *twice, pco_error *err);
/* The token with that text, or -1. */
int32_t text_find(const pco_tokenizer *tokenizer, const char *text, size_t size);
pco_status text_push(text_ids *ids, int32_t id, pco_error *err);
/* Tokens for bytes without one of their own: byte tokens, else one unknown token, else INVALID. */
pco_status text_push_bytes(const pco_tokenizer *tokenizer, const char *bytes, size_t size, text_ids *ids,
                           pco_error *err);
pco_status text_no_memory(pco_error *err);

/* tokenizer_llama.c, tokenizer_gpt2.c: fill what is particular to the kind. */
pco_status text_llama_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err);
pco_status text_gpt2_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err);
/* The same with merges[count], each "LEFT RIGHT"; `label` is for messages. */
pco_status text_gpt2_prepare_list(pco_tokenizer *tokenizer, const char *label, const char *const *merges,
                                  uint32_t count, pco_error *err);
/* The compiled expression (pcre2_code) that cuts text into words, which the caller frees. */
pco_status text_gpt2_pattern(void **pattern, pco_error *err);
/* How the vocabulary spells a byte: 1 or 2 bytes of UTF-8 and a NUL. */
void text_gpt2_spell(unsigned char byte, char out[4]);
/* The pieces, before text_index. */
void text_llama_pieces(pco_tokenizer *tokenizer);
void text_gpt2_pieces(pco_tokenizer *tokenizer);
void text_gpt2_release(pco_tokenizer *tokenizer);

/* ---- merging (tokenizer_merge.c): the loop that both kinds of BPE share -----------------------------------
 */

/* A piece of the text, in a list by index; size 0 when merged into its left neighbour. */
typedef struct text_symbol {
    uint32_t begin, size;
    int32_t previous, next; /* -1 at the ends */
    int32_t id;             /* token, or -1 when it is not known yet */
} text_symbol;

typedef struct text_candidate {
    double rank;
    int32_t left, right, id;
    uint32_t size; /* of both together: the candidate is stale when they have grown since */
} text_candidate;

/* Reusable memory; zero it before the first use. */
typedef struct text_merger {
    text_symbol *symbols;
    size_t symbol_count, symbol_capacity;
    text_candidate *heap;
    size_t heap_count, heap_capacity;
} text_merger;

/* Can these neighbours merge? Their token in *id and the rank, smaller first. */
typedef int (*text_pair_fn)(const pco_tokenizer *tokenizer, const char *text, const text_symbol *left,
                            const text_symbol *right, double *rank, int32_t *id);

/* Appends a symbol to merger->symbols. */
pco_status text_merger_add(text_merger *merger, size_t begin, size_t size, int32_t id, pco_error *err);
/* Merges the pair with the smallest rank, the leftmost of equals, until none is left. Symbol 0 stays first.
 */
pco_status text_merger_run(text_merger *merger, const pco_tokenizer *tokenizer, const char *text, text_pair_fn pair,
                           pco_error *err);
void text_merger_release(text_merger *merger);

#endif
