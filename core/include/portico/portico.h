/* Portico: runs transformer models on any compute device. This header opens models and generates text; portico/graph.h
 * and portico/session.h build graphs of your own and run them; portico/sequence.h has several texts under way at once,
 * portico/chat.h talks.
 *
 * A context knows the plugins and devices of the machine. A model is opened on one device; text goes in, text
 * comes out piece by piece. Everything returns a pco_status and leaves one line in a pco_error (NULL where
 * the line is not wanted). Structs begin with their size, which the caller sets: `= {.size = sizeof x}`, so that a
 * program runs with newer libraries, whose structs are longer. All else in a struct of parameters may be zero: every 0
 * and NULL stands for the usual choice. A size that is 0 or unknown is INVALID, or nothing is filled in where there is
 * no status.
 *
 *     pco_context *context;
 *     pco_model *model;
 *     pco_error err;
 *     if (pco_context_create(NULL, &context, &err)) ...
 *     if (pco_model_open(context, "model.gguf", NULL, &model, &err)) ...
 *     if (pco_model_generate(model, "Once upon a time", NULL, print, NULL, NULL, &err)) ...
 *     pco_model_close(model);
 *     pco_context_destroy(context);
 *
 * Files: a model's file is mapped while the model is open. Replace it by renaming another one over it; one that is cut
 * short or written over in place ends the process (SIGBUS) or changes the model.
 *
 * Arguments: a pointer may be NULL where it says so, and `err` and `user` everywhere; otherwise NULL is INVALID, or
 * does nothing where there is no status.
 *
 * fork: threads and devices stay with the process that made the context. In a child its calls are INVALID, destroy and
 * close do nothing; a child that computes execs a program, or is made before there is a context.
 *
 * Threads: a context and the models opened in it are used by one thread at a time, one after the other; different
 * contexts by different threads at once. A call while another thread is in one of the same context is INVALID; a
 * callback may call what its own thread is in. Text is UTF-8. Memory is counted in bytes, time in seconds. What a call
 * hands out belongs to the caller where it says so, and is given back with pco_free. */
#ifndef PORTICO_PORTICO_H
#define PORTICO_PORTICO_H

#include <portico/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pco_context pco_context;
typedef struct pco_model pco_model;

/* "0.1.0". Static. */
PCO_EXPORT const char *pco_version(void);

/* A few words for a status: "out of device memory". Static; never NULL. */
PCO_EXPORT const char *pco_status_text(pco_status status);

/* Gives back memory that a function below handed out. NULL is allowed. */
PCO_EXPORT void pco_free(void *memory);

/* ---- context ---------------------------------------------------------------------------------------- */

typedef struct pco_context_params {
    size_t size;
    const char *backend; /* as PORTICO_BACKEND, "BACKEND[:WHICH][+...][,...]"; NULL: what the environment says */
    uint32_t log_level;  /* 0: what PORTICO_LOG says; otherwise 1 + a pco_log_level */
    /* Receives log lines, without a newline, from any thread; NULL: they go to standard error. */
    void (*log)(void *user, pco_log_level level, const char *line);
    void *log_user;
} pco_context_params;

/* Reads the environment (the README lists the variables) and looks for plugins. A plugin that cannot be used
 * is not an error. `params` may be NULL. Errors: INVALID for a variable, with what it may be; NOT_FOUND for a
 * backend that is named and not there, listing those there are; OUT_OF_HOST_MEMORY. */
PCO_EXPORT pco_status pco_context_create(const pco_context_params *params, pco_context **context,
                                         pco_error *err) PCO_NODISCARD;

/* All models must have been closed; what was not is INVALID to use from then on (portico/session.h). NULL is allowed.
 */
PCO_EXPORT void pco_context_destroy(pco_context *context);

typedef struct pco_device_description {
    size_t size;        /* sizeof, in the first element: it is that of all */
    char id[96];        /* what `device` and PORTICO_BACKEND call it: "vulkan:0" */
    uint32_t preferred; /* 1: it is used when none is named */
    pco_device_info info;
} pco_device_description;

typedef struct pco_plugin_description {
    size_t size;   /* sizeof, in the first element: it is that of all */
    char name[64]; /* "" when it could not be asked */
    char path[512];
    char reason[512]; /* why it cannot be used, or "" */
    uint32_t devices;
} pco_plugin_description;

/* Fills in the first `capacity` of them (the array may be NULL with 0); returns how many there are. */
PCO_EXPORT uint32_t pco_context_devices(const pco_context *context, pco_device_description *devices, uint32_t capacity);
PCO_EXPORT uint32_t pco_context_plugins(const pco_context *context, pco_plugin_description *plugins, uint32_t capacity);

/* ---- models ----------------------------------------------------------------------------------------- */

typedef struct pco_model_params {
    size_t size;
    const char *device;     /* as PORTICO_BACKEND, and before it; NULL: the context's */
    int64_t context_length; /* most tokens of a sequence, prompt included; may exceed what the file says, unless
                               positions are learned. 0: what the file says, at most 4096 */
    /* Called while the model is opened, with a share of the work between 0 and 1; returning non-zero cancels.
     */
    int (*progress)(void *user, double share);
    void *progress_user;
    int64_t sequences; /* decoder-only: how many sequences are cached at once (portico/sequence.h), at most 1024; each
                          takes a cache. 0: 1 */
    /* How keys and values are kept: PCO_F32 (0), PCO_F16 (half the memory) or PCO_Q8_0 (17 / 64 of it: blocks of 32
     * quants of 8 bits with one factor; a token's keys must fill such blocks). Caches have room for 256 tokens at first
     * and grow to twice that, and again, up to context_length, as a sequence gets longer (those of an encoder-decoder
     * have all of it at once). */
    uint32_t cache_type;
    const char *adapter; /* a folder with a low-rank adapter in PEFT's layout (adapter_config.json and
                            adapter_model.safetensors), which is added to the weights; NULL: none */
} pco_model_params;

/* Opens a model on a device: a .gguf file (or the first of several that belong together), a folder of Hugging Face
 * (config.json; safetensors or pytorch_model.bin, whole or in shards; its tokenizer), one of CTranslate2 (model.bin), a
 * checkpoint of llama2.c (version 0 or 1, with tokN.bin, of N tokens, or tokenizer.bin beside it), or one that `portico
 * train` wrote: decoders, encoders and encoder-decoders of the families that the README lists. `params` may be NULL.
 * The context outlives the model. Errors: IO, and FORMAT, NOT_FOUND and UNSUPPORTED naming the key, tensor, type or op;
 * NOT_FOUND for a device, listing those there are; UNSUPPORTED for a cache_type; OUT_OF_DEVICE_MEMORY before anything
 * is uploaded, with the bytes needed at first and available; CANCELLED. */
PCO_EXPORT pco_status pco_model_open(pco_context *context, const char *path, const pco_model_params *params,
                                     pco_model **model, pco_error *err) PCO_NODISCARD;

/* The same for the bytes of a .gguf file, which stay as they are until the model is closed. Where they begin at a page,
 * a device that can reads weights in place. `params` may be NULL. Errors: as above. */
PCO_EXPORT pco_status pco_model_open_memory(pco_context *context, const void *data, size_t bytes,
                                            const pco_model_params *params, pco_model **model,
                                            pco_error *err) PCO_NODISCARD;

/* Its sequences must have been destroyed; what was not is INVALID to use from then on. NULL is allowed. */
PCO_EXPORT void pco_model_close(pco_model *model);

typedef struct pco_model_info {
    size_t size;
    char architecture[32];       /* "llama", "gpt2" ..., "transformer" */
    char device[96];             /* "" when inspected without a device */
    int64_t vocab_size;          /* of what is written */
    int64_t source_vocab_size;   /* of what is read; the same for a decoder-only model */
    int64_t context_length;      /* in force */
    int64_t file_context_length; /* what the file says */
    int64_t layers;              /* decoder's layers */
    int64_t width;               /* channels between layers */
    uint64_t parameters;         /* weights in use, tied ones once */
    uint64_t constant_bytes, state_bytes, arena_bytes, io_bytes; /* estimate of device memory: weights,
                                                                    caches, activations, inputs and outputs */
    uint64_t device_bytes, peak_device_bytes; /* held by this model now, and at most; 0 without a device */
    int64_t sequences;                        /* decoder-only: cached at once */
    int64_t cached_tokens;                    /* decoder-only: what the cache of each has room for now */
} pco_model_info;

PCO_EXPORT void pco_model_describe(const pco_model *model, pco_model_info *info);

/* The same without a device. Checks that all tensors are there, and runnable. Errors: as pco_model_open. */
PCO_EXPORT pco_status pco_model_inspect(const char *path, int64_t context_length, pco_model_info *info,
                                        pco_error *err) PCO_NODISCARD;

/* ---- text and tokens -------------------------------------------------------------------------------- */

/* For `special` below; may be joined with |. */
enum {
    PCO_TOKENIZE_ENDS = 1,    /* BOS in front and EOS behind, as the model wants it */
    PCO_TOKENIZE_CONTROL = 2, /* control tokens that are spelled out in the text ("<s>") become ids; not for text from
                                 strangers */
};

/* text[bytes] as the ids that a prompt of the model would have: *ids (pco_free) holds *count. For an encoder-decoder it
 * is the source's vocabulary. Errors: NOT_FOUND when the file has no tokenizer; INVALID for text that cannot be
 * encoded. */
PCO_EXPORT pco_status pco_model_tokenize(const pco_model *model, const char *text, size_t bytes, int special,
                                         int32_t **ids, size_t *count, pco_error *err) PCO_NODISCARD;

/* ids[count] as text: *text (pco_free) of *bytes bytes, and a NUL behind them. Control tokens print nothing.
 * For an encoder-decoder it is the target's vocabulary. Errors: as above. */
PCO_EXPORT pco_status pco_model_detokenize(const pco_model *model, const int32_t *ids, size_t count, char **text,
                                           size_t *bytes, pco_error *err) PCO_NODISCARD;

/* Ids with a meaning; -1 where the model has none. */
typedef struct pco_special_ids {
    size_t size;
    int32_t bos, eos, pad, unk;
    int32_t decoder_start;  /* encoder-decoder: what a target begins with */
    int adds_bos, adds_eos; /* 1: a prompt has it (PCO_TOKENIZE_ENDS) */
} pco_special_ids;

/* Fills in as much as ids->size says. Errors: NOT_FOUND when the file has no tokenizer; INVALID for a size. */
PCO_EXPORT pco_status pco_model_special_ids(const pco_model *model, pco_special_ids *ids, pco_error *err) PCO_NODISCARD;

/* 1: a text ends with this token (EOS, or what ends a turn of a chat). */
PCO_EXPORT int pco_model_ends(const pco_model *model, int32_t id);

/* The token as the vocabulary of what is written spells it, *bytes of it and a NUL behind, as long as the model is
 * open; NULL for an id outside, or without a tokenizer. `bytes` may be NULL. */
PCO_EXPORT const char *pco_model_token(const pco_model *model, int32_t id, size_t *bytes);

/* ---- generating ------------------------------------------------------------------------------------- */

/* A sampler of one's own: logits[vocab_size] are those of the token to come, `step` counts tokens from 0. It may change
 * the logits, and sets *id; where it leaves -1 there, the token is drawn from the logits as the parameters say.
 * Returning non-zero ends the call, which is CANCELLED. */
typedef int (*pco_sample_fn)(void *user, float *logits, int64_t vocab_size, int64_t step, int32_t *id);

/* A token that was generated, valid until the callback returns. */
typedef struct pco_token {
    size_t size; /* set by the library */
    int32_t id;
    int64_t step;     /* counts generated tokens, from 0 */
    const char *text; /* [bytes], no NUL; none for a control token or within a character */
    size_t bytes;
    const float *logits; /* [vocab_size]: what it was drawn from */
    int64_t vocab_size;
} pco_token;

/* Receives each token before its text is given out. Returning non-zero stops generation, which is not an error. */
typedef int (*pco_token_fn)(void *user, const pco_token *token);

/* Called while a prompt is read, about every 256 tokens: `done` of `count` are. Returning non-zero ends the call, which
 * is CANCELLED; a sequence is then as before. */
typedef int (*pco_prompt_fn)(void *user, int64_t done, int64_t count);

typedef struct pco_generate_params {
    size_t size;
    int64_t max_tokens; /* most tokens that are generated; 0: as many as the context holds */
    double temperature; /* 0: always the likeliest token */
    int64_t top_k;      /* draw among the k likeliest; 0: among all */
    double top_p;       /* draw among the likeliest that have this share together; 0: no limit */
    uint64_t seed;      /* the same seed gives the same text on the same device */
    int echo;           /* 1: the prompt is given to the callback first (decoder-only) */
    const char *prefix; /* encoder-decoder: text that the answer begins with; it is part of the output. NULL: none */
    const int32_t *prompt_ids,
        *prefix_ids; /* instead of the texts, whose pointers are then NULL; BOS and EOS included */
    size_t prompt_count, prefix_count;
    /* Callbacks; each may be NULL. They receive the `user` of the call. */
    pco_sample_fn sample;
    pco_token_fn token;
    pco_prompt_fn progress; /* decoder-only */
    /* Penalties come before the temperature; then come top_k, top_p, min_p and typical_p, each on what is left. */
    double min_p;            /* draw among those at least so likely, as a share of the likeliest; 0: no limit */
    double typical_p;        /* draw among those whose -log p is nearest to the entropy, with this share; 0: no limit */
    double repeat_penalty;   /* of tokens in prompt and text: divides logits above 0, multiplies others; 0 or 1: none */
    double presence_penalty; /* taken from the logits of tokens that were generated */
    double frequency_penalty; /* and this for each time */
    int64_t repeat_last_n;    /* penalties look at so many of the last tokens; 0: all */
    /* stop[stop_count]: where one of these comes in what is generated (in its bytes, over tokens), the text ends before
     * it. What may become one is held back until that is clear. Tokens are as generated. */
    const char *const *stop;
    size_t stop_count;
    /* Decoder-only: what happens when prompt and text fill the context. 0: the text ends (PCO_STOP_CONTEXT). 1: the
     * first `keep` tokens of the sequence stay (a BOS always does), the older half of those behind them is forgotten,
     * and the model reads the rest again at its new place: it goes on as if it had never seen the others. Without
     * max_tokens the text then ends only where the model ends it, or a callback or stop string does. */
    int context_shift;
    int64_t keep; /* at most context_length - 2 */
    /* Speculative decoding, decoder-only: another model of the same context and vocabulary, much faster than this one,
     * proposes up to draft_tokens (at most 64; 0: 4) tokens at a time, which the model reads in one run. The text is
     * the one that the model would write without it, also when it is drawn: the draft draws with the same random
     * numbers, and where it errs the model's own token is taken. It needs a sequence of the draft's. NULL: none. */
    pco_model *draft;
    int64_t draft_tokens;
    /* A grammar in GBNF, the notation of llama.cpp: what is generated is a text of it, or the beginning of one where
     * something else ends it. Tokens that it does not allow are never drawn. NULL: none. */
    const char *grammar;
    /* The same from a JSON schema: type, properties (in their order; those that are not required may be missing),
     * items and how many, lengths of strings, enum, const, anyOf, oneOf and $ref within it; other keywords are
     * UNSUPPORTED, by name. One of the two. */
    const char *json_schema;
} pco_generate_params;

/* Why generation ended. */
typedef enum pco_stop_reason {
    PCO_STOP_END = 0, /* the model ended the text */
    PCO_STOP_MAX_TOKENS = 1,
    PCO_STOP_CONTEXT = 2,  /* prompt and text fill the context, without context_shift */
    PCO_STOP_CALLBACK = 3, /* the callback asked for it */
    PCO_STOP_TEXT = 4,     /* one of the stop strings came */
} pco_stop_reason;

typedef struct pco_generate_stats {
    size_t size;
    pco_stop_reason stop_reason;
    double load_seconds;   /* of pco_model_open */
    int64_t prompt_tokens; /* BOS and EOS included */
    double prompt_seconds; /* until the first logits */
    int64_t generated_tokens;
    double generation_seconds;
    uint64_t peak_device_bytes;
    int64_t context_shifts;                  /* how often the context was full, and half of it forgotten */
    int64_t drafted_tokens, accepted_tokens; /* what a draft proposed, and what of it is in the text */
    int64_t shared_tokens; /* of the prompt's: copied from another sequence, not read (pco_model_generate_batch) */
} pco_generate_stats;

/* Receives text[bytes] (no NUL), at least one byte. Bytes of one character may come in several pieces.
 * Returning non-zero stops generation, which is not an error. */
typedef int (*pco_text_fn)(void *user, const char *text, size_t bytes);

/* Continues a prompt (decoder-only: an empty one begins from BOS) or answers a source (encoder-decoder: an
 * empty source gives an empty answer). The text is that behind the prompt; the space that some vocabularies
 * put in front of a text is left out. Every call begins anew, in a cache that no sequence has (portico/sequence.h).
 * `params`, `text` and `stats` may be NULL; the prompt only where params has ids. Errors:
 * INVALID for parameters (the range is named), for a prompt longer than the context, with both numbers, for ids outside
 * the vocabulary, and when sequences take all caches; CANCELLED by a callback; what the device returned. The model
 * stays usable after any error but DEVICE_LOST. */
PCO_EXPORT pco_status pco_model_generate(pco_model *model, const char *prompt, const pco_generate_params *params,
                                         pco_text_fn text, void *user, pco_generate_stats *stats,
                                         pco_error *err) PCO_NODISCARD;

/* The token that these parameters draw from logits[count] at that step, in *id: pure, for any thread. `params` may be
 * NULL: the largest. Penalties look at params->prompt_ids, the last `step` of them as generated. Errors: INVALID for
 * parameters, for ids outside of `count`, and for logits that are NaN or +infinity. */
PCO_EXPORT pco_status pco_sample(const pco_generate_params *params, const float *logits, size_t count, uint64_t step,
                                 int32_t *id, pco_error *err) PCO_NODISCARD;

/* ---- scoring ---------------------------------------------------------------------------------------- */

/* Decoder-only: logits [count][vocab_size] for ids[count]; row i is for the token that follows ids[0..i]. No
 * BOS is added. Errors: UNSUPPORTED for an encoder-decoder; INVALID as in generate. */
PCO_EXPORT pco_status pco_model_logits(pco_model *model, const int32_t *ids, size_t count, float *logits,
                                       pco_error *err) PCO_NODISCARD;

/* The last hidden states of ids[count], states f32 [count][width]: what the output projection of a decoder reads, or
 * what an encoder hands on. Nothing is added to the ids. Row i of a decoder depends on ids[0..i], of an encoder on all.
 * Errors: INVALID as in generate. */
PCO_EXPORT pco_status pco_model_hidden_states(pco_model *model, const int32_t *ids, size_t count, float *states,
                                              pco_error *err) PCO_NODISCARD;

/* Encoder-decoder: natural logarithms of the probability of each token of `target`, and of EOS behind it,
 * given `source`: *log_probs (pco_free), *count of them. An empty source has an empty answer: its EOS has 0,
 * and a target that is not empty is INVALID. Errors: UNSUPPORTED for a decoder-only model; as in generate. */
PCO_EXPORT pco_status pco_model_score(pco_model *model, const char *source, const char *target, double **log_probs,
                                      size_t *count, pco_error *err) PCO_NODISCARD;

/* ---- attention -------------------------------------------------------------------------------------- */

typedef enum pco_attention_kind {
    PCO_ATTENTION_ENCODER = 0, /* the source sees itself */
    PCO_ATTENTION_DECODER = 1, /* the text sees what it has so far */
    PCO_ATTENTION_CROSS = 2,   /* the target sees the source */
} pco_attention_kind;

/* Softmax weights of one attention: weights [heads][queries][keys], valid until the callback returns. A row
 * sums to 1 within rounding; what a token does not see has 0. */
typedef struct pco_attention_map {
    size_t size; /* set by the library */
    pco_attention_kind kind;
    int64_t layer, heads, queries, keys;
    const float *weights;
} pco_attention_map;

/* Receives the attentions in the order of the layers, the encoder's first. Returning non-zero ends the call,
 * which is not an error. */
typedef int (*pco_attention_fn)(void *user, const pco_attention_map *map);

/* The attention weights of a text, computed in one run of its own. Decoder-only: target[target_count] is the
 * text, BOS included where there is one, and there is no source. Encoder-decoder: the decoder reads its start
 * token and then target[target_count], so that its attentions have target_count + 1 queries; the target may
 * be empty. Errors: INVALID for ids outside the vocabulary, a text longer than the context, a source that is
 * missing or not wanted; OUT_OF_DEVICE_MEMORY and what the device returned. */
PCO_EXPORT pco_status pco_model_attention(pco_model *model, const int32_t *source, size_t source_count,
                                          const int32_t *target, size_t target_count, pco_attention_fn receive,
                                          void *user, pco_error *err) PCO_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
