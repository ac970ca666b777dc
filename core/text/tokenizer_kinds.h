/* Shared by the tokenizer files only: the common structure, and one pair of functions per kind. */
#ifndef PCO_TEXT_TOKENIZER_KINDS_H
#define PCO_TEXT_TOKENIZER_KINDS_H

#include "base/writer.h"
#include "formats/json.h"
#include "text/tokenizer.h"

/* Token types, by the numbers of GGUF. */
typedef enum text_type {
    TEXT_NORMAL = 1,
    TEXT_UNKNOWN = 2,
    TEXT_CONTROL = 3,
    TEXT_USER = 4, /* user-defined: always found in plain text, before anything else */
    TEXT_UNUSED = 5,
    TEXT_BYTE = 6,
    TEXT_ADDED = 7, /* ours: found in plain text like TEXT_USER, and not one of the model's own tokens */
} text_type;

typedef struct text_token {
    const char *text, *piece; /* in the vocabulary; as decoded. Both in the pool */
    uint32_t size, piece_size;
    double score;
    uint32_t type; /* text_type */
} text_token;

/* Pairs of tokens that merge into one, an open-addressing table. */
typedef struct text_pair {
    uint64_t key; /* left id << 32 | right id */
    uint32_t rank;
    int32_t id; /* of the merged token; -1: an empty bucket */
} text_pair;

/* What is taken from the start of decoded text: nothing, one blank, all blanks. */
typedef enum text_strip { TEXT_STRIP_NONE, TEXT_STRIP_ONE, TEXT_STRIP_ALL } text_strip;

enum { TEXT_ENDS_MOST = 8, TEXT_AROUND_MOST = 8 };

#define TEXT_BLANK "\xE2\x96\x81" /* U+2581, as which SentencePiece spells blanks */

/* Bytes of one text. */
#define TEXT_SIZE_MOST ((size_t)1 << 30)
/* How far one search of an expression in a text of `size` bytes may go: one from a file must not hang. */
#define TEXT_MATCH_MOST(size) ((size) > 700000 ? 45000000u : 20000u + 64u * (uint32_t)(size))

typedef struct text_ids {
    int32_t *data;
    size_t count, capacity;
} text_ids;

/* One call of pco_tokenizer_encode: what it makes, and memory that its parts use again and again. */
typedef struct text_run text_run;

/* Where a piece of text stands: inside the text, right behind a special token, at the very start. */
typedef enum text_position { TEXT_INSIDE, TEXT_BEHIND_MARK, TEXT_AT_START } text_position;

/* Text to tokens, without special tokens. */
typedef pco_status (*text_encode_fn)(text_run *run, const char *text, size_t size, text_position position);
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
    pco_status (*apply)(text_run *run, const text_step *step, const char *text, size_t size, text_position position);
    void *pattern;                       /* pcre2_code, or NULL */
    char *expression;                    /* that it was made from, where it alone says what the step does; owned */
    int (*is_match)(uint32_t codepoint); /* instead of a pattern: each such character is a match */
    text_behaviour behaviour;
    int invert;             /* what the pattern does not match is the match */
    char *content;          /* what stands for a blank, or comes in front; owned */
    int prepend, at_starts; /* `content` comes in front; only at the start of the text */
};
enum { TEXT_STEPS_MOST = 16 };

/* A step of normalisation: appends what becomes of text[size], which is UTF-8. */
typedef struct text_norm text_norm;
struct text_norm {
    pco_status (*apply)(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err);
    unsigned flags; /* what the function makes of it */
    void *pattern;  /* pcre2_code, or NULL */
    char *content;  /* owned */
    size_t content_size;
    void *charsmap; /* text_charsmap, or NULL; owned */
};
enum { TEXT_NORMS_MOST = 24 };

/* A token that is found in text before anything else. */
typedef struct text_mark {
    char *text; /* owned */
    uint32_t size;
    int32_t id;
    unsigned char control, lstrip, rstrip, single_word; /* lstrip, rstrip: takes blanks beside it */
} text_mark;

typedef struct text_marks {
    text_mark *items; /* by first byte, then the longest first */
    uint32_t count, capacity;
    uint32_t first[257]; /* where those that begin with a byte begin; the last: the count */
} text_marks;

/* Strings as a tree of bytes. Node 0 is the root. */
typedef struct text_trie {
    struct text_trie_edge {
        uint32_t from; /* node << 8 | byte, and so below 2^24 nodes */
        uint32_t to;   /* 0: an empty bucket */
    } *edges;
    uint32_t size, nodes;
    int32_t *ids; /* of the token that ends at a node, or -1 */
} text_trie;

/* What SentencePiece does with a text before its model sees it. */
typedef struct text_sentence {
    void *charsmap; /* text_charsmap, or NULL; owned */
    text_marks symbols;
    enum { TEXT_SENTENCE_UNIGRAM = 1, TEXT_SENTENCE_BPE, TEXT_SENTENCE_WORD, TEXT_SENTENCE_CHAR } model;
    int squeeze; /* of several blanks one is left, and none at the ends */
    int suffix;  /* the blank that is added goes behind the text */
    int escape;  /* blanks are spelled U+2581 */
    int first;   /* a blank is added only at the very start, and not behind special tokens */
    int single;  /* scores are added in single precision */
    double best; /* score of the most frequent token */
} text_sentence;

struct pco_tokenizer {
    text_encode_fn encode;
    text_word_fn word; /* of kinds whose `encode` is text_steps_encode */
    text_norm norms[TEXT_NORMS_MOST];
    text_step steps[TEXT_STEPS_MOST];
    uint32_t norm_count, step_count;
    text_marks marks[2]; /* found in the text as it is, and in what is left once it is normalised */
    text_token *tokens;
    uint32_t count;
    char *pool; /* the bytes of all texts and pieces */
    size_t pool_used, pool_size;
    uint32_t *table;       /* open addressing by text; id + 1, or 0 for an empty bucket */
    uint32_t table_size;   /* a power of two */
    uint32_t longest;      /* bytes of the longest token */
    int32_t byte_ids[256]; /* token of each byte, or -1 */
    pco_tokenizer_special special;
    int32_t ends[TEXT_ENDS_MOST]; /* a text ends there, too: end of a turn, of a message */
    uint32_t end_count;
    int32_t around[2][TEXT_AROUND_MOST]; /* in front of a text and behind it */
    uint32_t around_count[2];
    int add_bos, add_eos;
    uint32_t max_length; /* tokens that the model takes; 0: not said */
    int space_prefix;    /* llama: a space goes in front of text */
    text_strip strip;    /* from the start of what is decoded */
    char *chat_template;
    /* BPE */
    text_pair *pairs;
    uint32_t pairs_size;   /* a power of two */
    char spelling[256][4]; /* of each byte */
    int ignore_merges;     /* a word that is a token becomes that token, whatever its merges would make of it */
    int fuse_unk;          /* neighbours without a token become one unknown token */
    int byte_fallback;     /* ... or the tokens of their bytes */
    int blank_starts;      /* U+2581 is in no token behind another character: a text may be cut in front of it */
    char *prefixes[2];     /* WordPiece: in front of the first part of a word and of the others; BPE: [1], too */
    char *suffix;          /* BPE: behind the last character of a word */
    uint32_t longest_word; /* WordPiece: characters; a longer word is unknown. 0: any */
    text_trie trie;        /* WordPiece, Unigram */
    double unk_score;      /* Unigram */
    text_sentence sentence;
    pco_tokenizer *pieces; /* Marian: cuts texts into pieces, owned; whose names have other ids here */
    int32_t *renamed;      /* [pieces->count]; owned */
};

/* tokens.c: room for `count` tokens with `bytes` bytes of text in all. NULL without memory. */
pco_tokenizer *text_create(uint32_t count, size_t bytes);
/* The opposite, but for what is particular to the kind. */
void text_release(pco_tokenizer *tokenizer);
/* Copies the text of token `id` into the pool. Its piece is set by text_set_piece. */
void text_set_token(pco_tokenizer *tokenizer, uint32_t id, const char *text, size_t size, uint32_t type);
/* Copies a piece, at most one byte longer than the token's text. */
void text_set_piece(pco_tokenizer *tokenizer, uint32_t id, const char *piece, size_t size);
/* The token's text with `to` for each `from`, which is not empty and not shorter. */
void text_set_piece_replaced(pco_tokenizer *tokenizer, uint32_t id, const char *from, const char *to);
/* Appends the text with `to` for each `from`; an empty `from` is nowhere. */
void text_write_replaced(pco_writer *out, const char *text, size_t size, const char *from, const char *to);
/* Fills the table and `longest`, and marks tokens of type CONTROL and USER, once all texts and pieces are set. Of
 * tokens with the same text the first is found; *twice is one of the others, or -1. */
pco_status text_index(pco_tokenizer *tokenizer, int32_t *twice, pco_error *err);
/* The same without marking. */
pco_status text_index_table(pco_tokenizer *tokenizer, int32_t *twice, pco_error *err);
/* The bucket of a text in the table, or the empty one where it would be (tokenizer_find.c). */
uint32_t *text_bucket(const pco_tokenizer *tokenizer, const char *text, size_t size);
/* The token with that text, or -1. */
int32_t text_find(const pco_tokenizer *tokenizer, const char *text, size_t size);
/* The same, but only one that plain text may become. */
int32_t text_find_plain(const pco_tokenizer *tokenizer, const char *text, size_t size);
/* Finds out about `blank_starts`, once tokens and index are set. For kinds of BPE that spell blanks as U+2581. */
void text_cut_at_blanks(pco_tokenizer *tokenizer);
pco_status text_push(text_ids *ids, int32_t id, pco_error *err);
/* Tokens for bytes without one of their own: byte tokens, else one unknown token, else INVALID. */
pco_status text_push_bytes(text_run *run, const char *bytes, size_t size);
pco_status text_no_memory(pco_error *err);
/* Is this one of the model's own tokens, which plain text may become? Control, unknown and byte tokens only look like
 * text. */
int text_is_plain(const text_token *token);
/* White space, as Unicode has it. */
int text_is_blank(uint32_t codepoint);
/* Sets of code points as Hugging Face's tokenizers have them, whose parts keep Unicode's tables of several versions
 * (text_sets.c): signs of ASCII and punctuation; control characters but tab and ends of lines; marks without a width;
 * all marks; numbers. Inert: what its normalisation forms leave as it is, though newer ones do not. */
int text_is_punctuation(uint32_t codepoint);
int text_is_control(uint32_t codepoint);
int text_is_nonspacing(uint32_t codepoint);
int text_is_mark(uint32_t codepoint);
int text_is_number(uint32_t codepoint);
int text_is_inert(uint32_t codepoint);
/* The byte of "<0xNN>", or -1. */
int text_byte_value(const char *text, size_t size);

/* ---- special tokens in text (tokenizer_marks.c) ---- */

/* Adds a copy of a mark; before text_marks_sort, which sorts them for the search. */
pco_status text_marks_add(text_marks *marks, const text_mark *mark, pco_error *err);
void text_marks_sort(text_marks *marks);
void text_marks_release(text_marks *marks);
/* Pushes the marks in text[size], and hands what stands between them to `encode`. */
/* The longest mark that text[size] begins with, or NULL. */
const text_mark *text_marks_at(const text_marks *marks, const char *text, size_t size);
pco_status text_marks_cut(text_run *run, const text_marks *marks, const char *text, size_t size, text_position position,
                          text_encode_fn encode);

/* ---- a tree of tokens (tokenizer_trie.c) ---- */

/* Of the texts of all tokens that text_is_plain says yes to. Errors: OUT_OF_HOST_MEMORY; FORMAT with `label` for a
 * vocabulary that is too large. */
pco_status text_trie_make(pco_tokenizer *tokenizer, const char *label, pco_error *err);
/* The node behind `node` along a byte, or 0. */
uint32_t text_trie_step(const text_trie *trie, uint32_t node, unsigned char byte);
void text_trie_release(text_trie *trie);

/* tokenizer_llama.c, tokenizer_gpt2.c: fill what is particular to the kind. */
pco_status text_llama_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err);
pco_status text_gpt2_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err);
/* The same with merges[count], each "LEFT RIGHT"; `label` is for messages. */
pco_status text_gpt2_prepare_list(pco_tokenizer *tokenizer, const char *label, const char *const *merges,
                                  uint32_t count, pco_error *err);
/* Where merges come from, for messages. */
typedef struct text_source {
    const char *label, *key;
} text_source;
/* The merges of BPE, "LEFT RIGHT" each, once the index is made. */
pco_status text_gpt2_merges(pco_tokenizer *tokenizer, const text_source *source, const pco_gguf_string *merges,
                            uint64_t count, pco_error *err);
/* Makes it a byte-level BPE. */
void text_gpt2_ready(pco_tokenizer *tokenizer);
/* How the vocabulary spells a byte: 1 or 2 bytes of UTF-8 and a NUL. */
void text_gpt2_spell(unsigned char byte, char out[4]);
/* The byte that a character of the vocabulary spells, or -1. */
int text_spelled_byte(uint32_t codepoint);
/* tokenizer_gguf_kinds.c */
pco_status text_gemma4_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err);
pco_status text_t5_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err);
pco_status text_bert_prepare(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err);
/* Scores of all tokens (key tokenizer.ggml.scores). */
pco_status text_read_scores(pco_tokenizer *tokenizer, const pco_gguf *gguf, pco_error *err);
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
/* The same at characters of a set. */
pco_status text_add_cut(pco_tokenizer *tokenizer, int (*is_match)(uint32_t codepoint), const char *label,
                        text_behaviour behaviour, pco_error *err);
/* Appends the steps that a value of tokenizer.ggml.pre names, and sets what else follows from it. Errors: UNSUPPORTED
 * by name. */
pco_status text_add_words(pco_tokenizer *tokenizer, const char *name, const char *label, pco_error *err);
/* A value of tokenizer.ggml.pre that stands for the steps of the tokenizer, in name[64]; 0 where there is none. */
int text_words_name(const pco_tokenizer *tokenizer, char name[64]);
void text_release_steps(pco_tokenizer *tokenizer);
void text_release_step(const text_step *step);
/* A text_encode_fn: normalisation, marks in what it makes, all steps, then `word` for each part. */
pco_status text_steps_encode(text_run *run, const char *text, size_t size, text_position position);
/* Appends a step that does something else. `content` becomes the tokenizer's own, also when it fails. */
pco_status text_add_step(pco_tokenizer *tokenizer, const text_step *step, const char *label, pco_error *err);
/* The functions of such steps: blanks become `content`, which may also come in front; bytes are spelled as in the
 * vocabulary of a byte-level BPE; `content` comes in front of what does not begin with it. */
pco_status text_step_metaspace(text_run *run, const text_step *step, const char *text, size_t size,
                               text_position position);
pco_status text_step_spell(text_run *run, const text_step *step, const char *text, size_t size, text_position position);
pco_status text_step_prepend(text_run *run, const text_step *step, const char *text, size_t size,
                             text_position position);

/* ---- normalisation (tokenizer_norms.c, tokenizer_charsmap.c) ---- */

/* Appends a step, whose content, pattern and charsmap become the tokenizer's own, also when it fails. */
pco_status text_add_norm(pco_tokenizer *tokenizer, const text_norm *norm, const char *label, pco_error *err);
/* All steps; *made is what `out` holds then, or `text` itself where there is none. */
pco_status text_normalize(const pco_tokenizer *tokenizer, const char *text, size_t size, pco_writer *out,
                          const char **made, size_t *made_size, pco_error *err);
void text_release_norms(pco_tokenizer *tokenizer);
void text_release_norm(const text_norm *norm);

enum { /* flags of text_norm_unicode: the forms */
       TEXT_NFC = 0,
       TEXT_DECOMPOSED = 1,
       TEXT_COMPATIBLE = 2
};
enum { TEXT_CLEAN = 1, TEXT_CHINESE = 2, TEXT_ACCENTS = 4, TEXT_LOWER = 8 }; /* of text_norm_bert */
enum { TEXT_LEFT = 1, TEXT_RIGHT = 2 };                                      /* of text_norm_strip */
pco_status text_norm_unicode(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err);
/* Without marks. */
pco_status text_norm_unaccented(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err);
pco_status text_norm_lowercase(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err);
pco_status text_norm_replace(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err);
pco_status text_norm_prepend(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err);
pco_status text_norm_strip(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err);
pco_status text_norm_nmt(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err);
pco_status text_norm_bert(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err);
pco_status text_norm_spell(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err);
/* By grapheme, as Hugging Face's. */
pco_status text_norm_charsmap_hf(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err);
/* The table of a norm from the bytes of a SentencePiece model. Errors: FORMAT with `label`. */
pco_status text_charsmap_make(const void *data, size_t size, const char *label, void **charsmap, pco_error *err);

/* Appends the bytes that the table was made of. */
void text_charsmap_bytes(const void *charsmap, pco_writer *out);

/* The longest string of the table that text[size] begins with: what stands for it, and its length; or NULL. */
const char *text_charsmap_longest(const void *charsmap, const char *text, size_t size, size_t *length);

/* ---- SentencePiece (tokenizer_sentence.c, sentencepiece.c) ---- */

/* Makes it such a tokenizer, once tokens, index and `sentence` are set; user-defined tokens are its symbols, and
 * control tokens are marks. */
pco_status text_sentence_ready(pco_tokenizer *tokenizer, const char *label, pco_error *err);
/* A text_word_fn: SentencePiece's BPE, by falling score of the merged token; CHAR: without merging. */
pco_status text_llama_word(text_run *run, const char *word, size_t size);
/* A tokenizer from the bytes of a model file, and tokens that are added, as in tokenizer.json, or NULL. Errors: FORMAT
 * and UNSUPPORTED with `label`. */
pco_status text_sentence_model(const unsigned char *data, size_t size, const cJSON *added, const char *label,
                               pco_tokenizer **tokenizer, pco_error *err);

/* ---- what stands beside a tokenizer (tokenizer_config.c) ---- */

typedef struct text_config {
    const char *folder;      /* borrowed */
    cJSON *root, *map, *ids; /* tokenizer_config.json, special_tokens_map.json, added_tokens.json; or NULL */
    cJSON *added;            /* what these add, as tokenizer.json's "added_tokens" */
    char class[64];          /* of the tokenizer, without "Fast" at the end; or empty */
} text_config;

/* What there is of these files in a folder; the caller closes it. Errors: IO and FORMAT with the file. */
pco_status text_config_open(const char *folder, text_config *config, pco_error *err);
void text_config_close(text_config *config);
/* A token's text, or a flag, by its key in either file. */
const char *text_config_text(const text_config *config, const char *key, const char *fallback);
int text_config_flag(const text_config *config, const char *key, int fallback);
/* Fills `added`. `find`: the id of a text among the model's own `count` tokens, or -1. Errors: FORMAT. */
typedef int64_t (*text_config_find_fn)(const void *user, const char *text);
pco_status text_config_add_all(text_config *config, text_config_find_fn find, const void *user, int64_t count,
                               pco_error *err);
/* Special tokens by their names, what goes around a text where nothing else says so, and the length of texts. */
void text_config_apply(const text_config *config, pco_tokenizer *tokenizer);

/* ---- older layouts (tokenizer_files.c) ---- */

/* From vocab.txt, from vocab.json and merges.txt, from a model of SentencePiece. Errors: FORMAT and UNSUPPORTED. */
pco_status text_files_bert(const char *path, text_config *config, pco_tokenizer **tokenizer, pco_error *err);
pco_status text_files_bpe(const char *path, const char *merges_path, text_config *config, pco_tokenizer **tokenizer,
                          pco_error *err);
pco_status text_files_pieces(const char *path, text_config *config, pco_tokenizer **tokenizer, pco_error *err);
/* {"text": id}: is each id one of 0 ... count - 1, and there once? Errors: FORMAT. */
pco_status text_files_check_ids(const cJSON *vocab, int64_t count, const char *path, pco_error *err);
/* A text_config_find_fn in such an object. */
int64_t text_files_find(const void *user, const char *text);
/* From vocab.json and a model of SentencePiece: one side of Marian (tokenizer_marian.c). Errors likewise. */
pco_status text_files_marian(const char *vocab_path, const char *pieces_path, text_config *config,
                             pco_tokenizer **tokenizer, pco_error *err);

/* ---- tokenizer.json (tokenizer_json.c, tokenizer_json_steps.c) ---- */

/* The parts "normalizer", "pre_tokenizer", "post_processor" and "decoder"; item may be NULL or null. *spelled: does
 * the last step spell bytes, which a byte-level BPE does itself? Errors: FORMAT and UNSUPPORTED with the place. */
pco_status text_json_normalizer(pco_tokenizer *tokenizer, const cJSON *item, const char *label, int depth,
                                pco_error *err);
pco_status text_json_pre_tokenizer(pco_tokenizer *tokenizer, const cJSON *item, const char *label, int depth,
                                   int *spelled, pco_error *err);
pco_status text_json_post_processor(pco_tokenizer *tokenizer, const cJSON *item, const char *label, int depth,
                                    pco_error *err);
/* "pattern": {"String": "x"} or {"Regex": "x"} as an expression of pcre2; the caller frees *expression. */
pco_status text_json_pattern(const cJSON *item, const char *label, char **expression, pco_error *err);
/* What the decoder does with each token. */
typedef struct text_decoding {
    int bytes;        /* spelled bytes become bytes */
    int byte_tokens;  /* <0xNN> is a byte */
    int blank_before; /* a blank in front of tokens without `prefix` (WordPiece) */
    int cleanup;      /* and none in front of signs */
    const char *prefix, *replaced[4][2];
    int n_replaced;
} text_decoding;
pco_status text_json_decoder(pco_tokenizer *tokenizer, const cJSON *item, const char *label, int depth,
                             text_decoding *decoding, pco_error *err);
/* The pieces, before text_index_table. */
void text_decoding_pieces(pco_tokenizer *tokenizer, const text_decoding *decoding);
/* A tokenizer from a parsed tokenizer.json. */
pco_status text_json_tokenizer(const cJSON *root, const char *label, pco_tokenizer **tokenizer, pco_error *err);

/* ---- models (tokenizer_bpe.c, tokenizer_wordpiece.c, tokenizer_unigram.c): a text_word_fn each ---- */

pco_status text_bpe_word(text_run *run, const char *word, size_t size);
pco_status text_wordpiece_word(text_run *run, const char *word, size_t size);
pco_status text_unigram_word(text_run *run, const char *word, size_t size);
/* A word is a token, or unknown. */
pco_status text_whole_word(text_run *run, const char *word, size_t size);
/* Makes it such a tokenizer, once tokens, scores and prefixes are set. */
pco_status text_wordpiece_ready(pco_tokenizer *tokenizer, const char *label, pco_error *err);
pco_status text_unigram_ready(pco_tokenizer *tokenizer, const char *label, pco_error *err);

/* ---- writing (tokenizer_write.c) ---- */

/* A token of a list of characters that is more than one, and is found in text before them? */
int text_is_word_of_characters(const pco_tokenizer *tokenizer, uint32_t id);

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

/* One, for symbols whose ids are known: what the merge list says. */
int text_pair_by_ids(const pco_tokenizer *tokenizer, const char *text, const text_symbol *left,
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
    const pco_tokenizer *names; /* NULL, or what has ids of texts that `tokenizer` does not know: those ids, behind
                                   tokenizer->count, stand for them */
    text_ids ids;
    text_merger merger;
    int control;       /* control tokens are found in the text */
    pco_writer normal; /* text, normalised */
    void *paths;       /* of text_unigram_word */
    size_t path_capacity;
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
/* tokenizer->word, or what the cache has of it; of each word of the text, if it may be cut. */
pco_status text_run_word(text_run *run, const char *word, size_t size);

#endif
