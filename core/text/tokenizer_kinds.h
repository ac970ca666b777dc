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

/* One call of pco_tokenizer_encode: what it makes, and memory that its parts use again and again. */
typedef struct text_run text_run;

/* Text to tokens, without special tokens. `first`: at the start, or right behind a special token. */
typedef pco_status (*text_encode_fn)(text_run *run, const char *text, size_t size, int first);
/* A word, as the steps of pre-tokenisation cut the text, to tokens. */
typedef pco_status (*text_word_fn)(text_run *run, const char *word, size_t size);

/* What becomes of text that a pattern matches: cut off on both sides, dropped, joined with the text before or behind
 * it, or cut off together with the matches that touch it. */
typedef enum text_behaviour {
    TEXT_ISOLATED,
    TEXT_REMOVED,
    TEXT_MERGED_WITH_PREVIOUS,
    TEXT_MERGED_WITH_NEXT,
    TEXT_CONTIGUOUS,
} text_behaviour;

/* A step of pre-tokenisation: gets a piece of the text and hands its parts to the next step, the last to `word`. */
typedef struct text_step text_step;
struct text_step {
    pco_status (*apply)(text_run *run, const text_step *step, const char *text, size_t size, int first);
    void *pattern; /* pcre2_code, or NULL */
    text_behaviour behaviour;
    int invert; /* what the pattern does not match is the match */
};
enum { TEXT_STEPS_MOST = 16 };

struct pco_tokenizer {
    text_encode_fn encode;
    text_word_fn word; /* of kinds whose `encode` is text_steps_encode */
    text_step steps[TEXT_STEPS_MOST];
    uint32_t step_count;
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
    uint32_t *marked;      /* ids of control and user-defined tokens, by first byte, then the longest piece first */
    uint32_t marked_count;
    uint32_t marked_first[257]; /* where in `marked` those that begin with a byte begin; the last: the count */
    uint32_t longest;           /* bytes of the longest token */
    /* gpt2 */
    text_pair *pairs;
    uint32_t pairs_size;   /* a power of two */
    char spelling[256][4]; /* of each byte */
    int ignore_merges;     /* a word that is a token becomes that token, whatever its merges would make of it */
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
pco_status text_push_bytes(text_run *run, const char *bytes, size_t size);
pco_status text_no_memory(pco_error *err);

/* tokenizer_llama.c, tokenizer_gpt2.c: fill what is particular to the kind. */
pco_status text_llama_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err);
pco_status text_gpt2_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err);
/* The same with merges[count], each "LEFT RIGHT"; `label` is for messages. */
pco_status text_gpt2_prepare_list(pco_tokenizer *tokenizer, const char *label, const char *const *merges,
                                  uint32_t count, pco_error *err);
/* How the vocabulary spells a byte: 1 or 2 bytes of UTF-8 and a NUL. */
void text_gpt2_spell(unsigned char byte, char out[4]);
/* The pieces, before text_index. */
void text_llama_pieces(pco_tokenizer *tokenizer);
void text_gpt2_pieces(pco_tokenizer *tokenizer);

/* ---- cutting (tokenizer_steps.c, tokenizer_words.c) ---------------------------------------------------- */

/* The expression that GPT-2 cuts text into words with (pcre2 syntax); it matches any text, at once. */
extern const char TEXT_GPT2_WORDS[];

/* Compiles an expression; the caller gives *pattern (pcre2_code) to pcre2_code_free. Errors: FORMAT, where the
 * expression is wrong, with `label`. */
pco_status text_pattern_compile(const char *expression, const char *label, void **pattern, pco_error *err);
/* Appends a step that cuts where the expression matches. Errors: as above; UNSUPPORTED for too many steps. */
pco_status text_add_split(pco_tokenizer *tokenizer, const char *expression, const char *label, text_behaviour behaviour,
                          int invert, pco_error *err);
/* Appends the steps that a value of tokenizer.ggml.pre names, and sets what else follows from it. Errors: UNSUPPORTED
 * by name. */
pco_status text_add_words(pco_tokenizer *tokenizer, const char *name, const char *label, pco_error *err);
void text_release_steps(pco_tokenizer *tokenizer);
/* A text_encode_fn: all steps, then `word` for each part. */
pco_status text_steps_encode(text_run *run, const char *text, size_t size, int first);

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

/* ---- a run (tokenizer_run.c) --------------------------------------------------------------------------- */

enum { TEXT_CACHED_BYTES = 24, TEXT_CACHED_IDS = 8, TEXT_CACHE_SIZE = 1 << 14 };

/* A word and its tokens, so that frequent words are merged once. */
typedef struct text_cached {
    unsigned char size, count; /* bytes of the word, 0: empty; its tokens */
    char word[TEXT_CACHED_BYTES];
    int32_t ids[TEXT_CACHED_IDS];
} text_cached;

struct text_run {
    const pco_tokenizer *tokenizer;
    text_ids ids;
    text_merger merger;
    text_cached *cache; /* TEXT_CACHE_SIZE, by hash; NULL: none, for a short text */
    void *match;        /* pcre2_match_data, made when a step first needs it */
    void *context;      /* pcre2_match_context */
    void *stack;        /* pcre2_jit_stack */
    pco_error *err;
};

/* `size`: of all text to come, which decides whether a cache is worth its memory. */
pco_status text_run_begin(text_run *run, const pco_tokenizer *tokenizer, size_t size, pco_error *err);
/* All but `ids`, which the caller frees. */
void text_run_end(text_run *run);
/* tokenizer->word, or what the cache has of it. */
pco_status text_run_word(text_run *run, const char *word, size_t size);

#endif
