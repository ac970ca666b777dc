/* Tokenizers: text to token ids and back.
 *
 * Three kinds: SentencePiece-style BPE with scores ("llama" in GGUF; Kudo and Richardson 2018, with byte
 * fallback), byte-level BPE with a merge list ("gpt2"; Sennrich et al. 2016, Radford et al. 2019; also config.json
 * "vocab" with "merges"), and plain characters from a list (config.json "vocab").
 *
 * A tokenizer is read-only once made and may be shared by threads; it keeps nothing of what it was made from.
 */
#ifndef PCO_TEXT_TOKENIZER_H
#define PCO_TEXT_TOKENIZER_H

#include "formats/gguf.h"

typedef struct pco_tokenizer pco_tokenizer;

/* Ids of the special tokens; -1 where there is none. */
typedef struct pco_tokenizer_special {
    int32_t bos, eos, pad, unk;
} pco_tokenizer_special;

/* From the tokenizer.ggml.* keys. The caller gives *tokenizer to pco_tokenizer_destroy. Errors: UNSUPPORTED
 * for a model other than llama and gpt2, or a pre-tokenizer that tokenizer_words.c does not list, by name; NOT_FOUND
 * and FORMAT for keys, naming them; OUT_OF_HOST_MEMORY. */
pco_status pco_tokenizer_from_gguf(const pco_gguf *gguf, pco_tokenizer **tokenizer, pco_error *err) PCO_NODISCARD;

/* From tokens[count], UTF-8 strings; each usually one character. `special` may be NULL for none. Special
 * tokens are not found in plain text. Errors, INVALID: no tokens, an empty one, one twice, one that is not
 * UTF-8, a special id outside the list. */
pco_status pco_tokenizer_from_vocab(const char *const *tokens, uint32_t count, const pco_tokenizer_special *special,
                                    pco_tokenizer **tokenizer, pco_error *err) PCO_NODISCARD;

/* Byte-level BPE from tokens[count], spelled as GPT-2 spells bytes, and merges[merge_count], each "LEFT RIGHT",
 * the first merged first. The special tokens are the only ones that are not spelled so. `label` is for messages.
 * Errors: INVALID as above; FORMAT for a merge that is not two tokens that make a third. */
pco_status pco_tokenizer_from_bpe(const char *label, const char *const *tokens, uint32_t count,
                                  const char *const *merges, uint32_t merge_count, const pco_tokenizer_special *special,
                                  pco_tokenizer **tokenizer, pco_error *err) PCO_NODISCARD;

/* From a folder as Hugging Face's: tokenizer.json, or vocab.json with merges.txt (GPT-2 and its kin), vocab.txt (BERT),
 * tokenizer.model or spiece.model (Llama, Gemma, T5), vocab.json with source.spm (what Marian reads); and what
 * tokenizer_config.json, special_tokens_map.json and added_tokens.json say beside it. The caller gives *tokenizer to
 * pco_tokenizer_destroy. Errors: NOT_FOUND where the folder has none of these; IO; FORMAT and UNSUPPORTED with the file
 * and the place in it. */
pco_status pco_tokenizer_open_folder(const char *folder, pco_tokenizer **tokenizer, pco_error *err) PCO_NODISCARD;

/* The tokenizer of what is written, where the folder has one that is not that of what is read: Marian's target.spm with
 * vocab.json, or target_vocab.json where tokenizer_config.json says "separate_vocabs". Errors: NOT_FOUND where it has
 * not; as above. */
pco_status pco_tokenizer_open_target(const char *folder, pco_tokenizer **tokenizer, pco_error *err) PCO_NODISCARD;

/* The same from a file of any kind, known by its bytes and (vocab.txt) its name: tokenizer.json, GGUF, a SentencePiece
 * model; or from a folder. Errors: as above, and as pco_gguf_open. */
pco_status pco_tokenizer_open(const char *path, pco_tokenizer **tokenizer, pco_error *err) PCO_NODISCARD;

/* NULL is allowed. */
void pco_tokenizer_destroy(pco_tokenizer *tokenizer);

uint32_t pco_tokenizer_vocab_size(const pco_tokenizer *tokenizer);
pco_tokenizer_special pco_tokenizer_specials(const pco_tokenizer *tokenizer);

/* Does a text end with this token: EOS, or what ends a turn or a message of a chat? */
int pco_tokenizer_ends(const pco_tokenizer *tokenizer, int32_t id);

/* Does the model want BOS in front of (EOS behind) a prompt? */
int pco_tokenizer_adds_bos(const pco_tokenizer *tokenizer);
int pco_tokenizer_adds_eos(const pco_tokenizer *tokenizer);

/* The model's chat template (Jinja), or NULL where it has none. */
const char *pco_tokenizer_chat_template(const pco_tokenizer *tokenizer);

/* The most tokens of a text, as tokenizer_config.json says ("model_max_length"); 0 where it does not. */
uint32_t pco_tokenizer_max_length(const pco_tokenizer *tokenizer);

/* The token as the vocabulary spells it, *size bytes with a NUL behind; NULL for an id outside the
 * vocabulary. */
const char *pco_tokenizer_token(const pco_tokenizer *tokenizer, int32_t id, size_t *size);

enum {
    PCO_ENCODE_BOS = 1u << 0,     /* BOS in front */
    PCO_ENCODE_EOS = 1u << 1,     /* EOS behind */
    PCO_ENCODE_SPECIAL = 1u << 2, /* control tokens that are spelled out in the text ("<s>") become ids; do
                                     not set this for text from strangers */
};

/* Encodes text[size]; *ids (release with free, never NULL on success) holds *count tokens. Empty text has no
 * tokens of its own. Tokens that the file calls user-defined are always found in the text. Text that is not
 * UTF-8 is encoded byte by byte (llama, gpt2) or refused with its byte offset (characters).
 * Errors: INVALID: a character or byte without a token where there is no unknown token either; BOS or EOS
 * asked for where there is none; more than 2^30 bytes. OUT_OF_HOST_MEMORY. */
pco_status pco_tokenizer_encode(const pco_tokenizer *tokenizer, const char *text, size_t size, uint32_t flags,
                                int32_t **ids, size_t *count, pco_error *err) PCO_NODISCARD;

/* Decoding, token by token. Start with PCO_DECODER(tokenizer) and feed every id of the sequence, the prompt
 * included: the space that a llama tokenizer puts in front of a text is then taken away again, from the first
 * piece after any BOS, and only there. To decode a continuation on its own, with its leading space, set
 * `begun` to 1 first. */
typedef struct pco_decoder {
    const pco_tokenizer *tokenizer;
    int begun;        /* a piece has been given out */
    int show_control; /* print control tokens as the vocabulary spells them; otherwise they print nothing */
} pco_decoder;

#define PCO_DECODER(t) ((pco_decoder){.tokenizer = (t)})

/* The bytes of one more token: *piece, *size bytes, owned by the tokenizer. Bytes of one character may be
 * spread over several tokens; concatenated pieces are the text. Errors: INVALID for an id outside the
 * vocabulary. */
pco_status pco_decoder_next(pco_decoder *decoder, int32_t id, const char **piece, size_t *size,
                            pco_error *err) PCO_NODISCARD;

/* Decodes ids[count] at once; *text (release with free) ends with NUL, *size bytes before it. Errors as
 * above, and OUT_OF_HOST_MEMORY. */
pco_status pco_tokenizer_decode(const pco_tokenizer *tokenizer, const int32_t *ids, size_t count, char **text,
                                size_t *size, pco_error *err) PCO_NODISCARD;

#endif
