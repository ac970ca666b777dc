/* Models of llama2.c (Karpathy 2023), as if they were GGUF files of a Llama: its keys, tensors of F32 in the file that
 * is mapped, and the tokenizer. Little-endian. The checkpoint of version 0 is i32 of dim, hidden_dim, n_layers,
 * n_heads, n_kv_heads, vocab_size (negative where the output projection is a matrix of its own) and seq_len, then
 * tensors and tables of RoPE; that of version 1 is "ak42" as a u32, i32 version, the same seven numbers, a byte that
 * says whether embeddings are the output projection, and tensors from byte 256 on. The tokenizer, in a file of its own:
 * i32 most bytes of a token; per token f32 score, i32 bytes, the bytes, with blanks for U+2581. RMS norm's epsilon is
 * 1e-5 and RoPE's base 10000 in every such program. */
#ifndef PCO_FORMATS_LLAMA2C_H
#define PCO_FORMATS_LLAMA2C_H

#include "formats/gguf.h"

/* Does the file begin so, and, for version 0, which has no other mark, is it as long as its numbers say? Errors: IO. */
pco_status pco_llama2c_is(const char *path, int *is, pco_error *err) PCO_NODISCARD;

/* Maps `path`, and takes the tokenizer from the file tokN.bin, of N tokens, or else tokenizer.bin beside it; without
 * one there are no keys of a tokenizer. The caller closes *gguf. Errors: IO; FORMAT; UNSUPPORTED for other versions;
 * OUT_OF_HOST_MEMORY. */
pco_status pco_llama2c_open(const char *path, pco_gguf **gguf, pco_error *err) PCO_NODISCARD;

/* The same for bytes that the caller keeps as they are until the close; those of the tokenizer (NULL: none) until the
 * return. */
pco_status pco_llama2c_parse(const void *data, size_t size, const void *tokenizer, size_t tokenizer_size,
                             const char *label, pco_gguf **gguf, pco_error *err) PCO_NODISCARD;

#endif
