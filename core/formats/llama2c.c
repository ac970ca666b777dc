#include "formats/llama2c.h"

#include "base/error.h"
#include "formats/gguf_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LLAMA2C_NUMBERS = 7,
    LLAMA2C_HEADER = 256,     /* bytes in front of the tensors of version 1 */
    LLAMA2C_MOST = 1 << 24,   /* of each number */
    LLAMA2C_LAYERS = 1 << 10, /* most, so that few bytes do not make many tensors */
    LLAMA2C_PARTS = 12,       /* kinds of tensors */
    LLAMA2C_FIRST_BYTE = 3,   /* the token of byte 0; 0 to 2 are unknown, begin and end */
    LLAMA2C_LAST_BYTE = 3 + 255,
};

/* What the beginning of a checkpoint says. */
typedef struct llama2c_header {
    int64_t dim, hidden, layers, heads, kv_heads, vocab, context;
    int version, shared; /* shared: embeddings are the output projection */
    size_t begin;        /* where the tensors do */
} llama2c_header;

enum llama2c_size { NONE, DIM, HIDDEN, KEYS, VOCAB };

/* Tensors, by GGUF's names; those with a %d are of each layer, all layers of one behind the other. */
enum llama2c_part { EMBED, ATTN_NORM, QUERY, KEY, VALUE, OUT, FFN_NORM, GATE, DOWN, UP, NORM, OUTPUT };
static const struct {
    const char *name;
    enum llama2c_size rows, columns;
} llama2c_parts[LLAMA2C_PARTS] = {
    [EMBED] = {"token_embd.weight", VOCAB, DIM},        [ATTN_NORM] = {"blk.%d.attn_norm.weight", NONE, DIM},
    [QUERY] = {"blk.%d.attn_q.weight", DIM, DIM},       [KEY] = {"blk.%d.attn_k.weight", KEYS, DIM},
    [VALUE] = {"blk.%d.attn_v.weight", KEYS, DIM},      [OUT] = {"blk.%d.attn_output.weight", DIM, DIM},
    [FFN_NORM] = {"blk.%d.ffn_norm.weight", NONE, DIM}, [GATE] = {"blk.%d.ffn_gate.weight", HIDDEN, DIM},
    [DOWN] = {"blk.%d.ffn_down.weight", DIM, HIDDEN},   [UP] = {"blk.%d.ffn_up.weight", HIDDEN, DIM},
    [NORM] = {"output_norm.weight", NONE, DIM},         [OUTPUT] = {"output.weight", VOCAB, DIM},
};

/* In which order they lie. Version 0 has tables of RoPE in front of the output projection. */
static const unsigned char llama2c_orders[2][LLAMA2C_PARTS] = {
    {EMBED, ATTN_NORM, QUERY, KEY, VALUE, OUT, FFN_NORM, GATE, DOWN, UP, NORM, OUTPUT},
    {ATTN_NORM, FFN_NORM, NORM, EMBED, QUERY, KEY, VALUE, OUT, GATE, DOWN, UP, OUTPUT}};

static int64_t llama2c_size(const llama2c_header *h, enum llama2c_size size)
{
    const int64_t sizes[] = {
        [NONE] = 1, [DIM] = h->dim, [HIDDEN] = h->hidden, [KEYS] = h->dim / h->heads * h->kv_heads, [VOCAB] = h->vocab};
    return sizes[size];
}

static int llama2c_per_layer(unsigned part) { return strchr(llama2c_parts[part].name, '%') != NULL; }

/* Bytes of one tensor, which is less than 2^50. */
static uint64_t llama2c_bytes(const llama2c_header *h, unsigned part)
{
    return (uint64_t)llama2c_size(h, llama2c_parts[part].rows) *
           (uint64_t)llama2c_size(h, llama2c_parts[part].columns) * sizeof(float);
}

static uint64_t llama2c_tables(const llama2c_header *h)
{
    return h->version ? 0 : (uint64_t)h->context * (uint64_t)(h->dim / h->heads / 2) * 2 * sizeof(float);
}

/* Bytes of the whole file; saturates. */
static uint64_t llama2c_total(const llama2c_header *h)
{
    uint64_t total = h->begin + llama2c_tables(h);
    for (unsigned part = 0; part < LLAMA2C_PARTS; part++) {
        uint64_t bytes = llama2c_bytes(h, part);
        if (part == OUTPUT && h->shared) continue;
        if (llama2c_per_layer(part) && __builtin_mul_overflow(bytes, (uint64_t)h->layers, &bytes)) return UINT64_MAX;
        if (__builtin_add_overflow(total, bytes, &total)) return UINT64_MAX;
    }
    return total;
}

/* Reads what is there; returns whether the numbers can be those of a model. */
static int llama2c_read(const unsigned char *data, size_t size, llama2c_header *h)
{
    int32_t n[LLAMA2C_NUMBERS];
    size_t at = 0;
    *h = (llama2c_header){.begin = sizeof n};
    if (size >= 8 && memcmp(data, "24ka", 4) == 0) {
        int32_t version;
        memcpy(&version, data + 4, sizeof version);
        h->version = version;
        h->begin = LLAMA2C_HEADER;
        at = 8;
        if (version != 1) return 0;
    }
    if (size < h->begin) return 0;
    memcpy(n, data + at, sizeof n);
    if (h->version) {
        h->shared = data[at + sizeof n] != 0;
    } else {
        h->shared = n[5] > 0;
        if (n[5] < 0 && n[5] >= -LLAMA2C_MOST) n[5] = -n[5];
    }
    for (int i = 0; i < LLAMA2C_NUMBERS; i++)
        if (n[i] < 1 || n[i] > LLAMA2C_MOST) return 0;
    h->dim = n[0], h->hidden = n[1], h->layers = n[2], h->heads = n[3], h->kv_heads = n[4], h->vocab = n[5];
    h->context = n[6];
    return h->layers <= LLAMA2C_LAYERS && h->dim % h->heads == 0 && h->dim / h->heads % 2 == 0 &&
           h->heads % h->kv_heads == 0;
}

static int llama2c_begins(const unsigned char *data, size_t size)
{
    llama2c_header h;
    if (size >= 8 && memcmp(data, "24ka", 4) == 0) return 1;
    return llama2c_read(data, size, &h) && llama2c_total(&h) == size;
}

pco_status pco_llama2c_is(const char *path, int *is, pco_error *err)
{
    pco_map map;
    *is = 0;
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    *is = llama2c_begins(map.data, map.size);
    pco_map_close(&map);
    return PCO_OK;
}

static pco_status llama2c_check(const unsigned char *data, size_t size, const char *label, llama2c_header *h,
                                pco_error *err)
{
    if (!llama2c_read(data, size, h)) {
        if (h->version > 1 || h->version < 0)
            return pco_fail(
                err, PCO_ERROR_UNSUPPORTED,
                "%s is a checkpoint of llama2.c of version %d, and Portico reads 0 and 1 (in f32); export it "
                "again with --version 1, or as a folder of Hugging Face",
                label, h->version);
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: the numbers at its beginning are not those of a checkpoint of llama2.c", label);
    }
    if (llama2c_total(h) != size)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s has %zu bytes, and by the numbers at its beginning it should have %" PRIu64
                        "; copy or download it again",
                        label, size, llama2c_total(h));
    return PCO_OK;
}

/* ---- tokenizer ------------------------------------------------------------------------------------------ */

typedef struct llama2c_tokens {
    pco_gguf_string *texts;
    float *scores;
    int32_t *types; /* of GGUF: 1 a piece of text, 2 unknown, 3 control, 6 a byte */
    char *bytes;    /* of the texts */
} llama2c_tokens;

static void llama2c_release(llama2c_tokens *tokens)
{
    free(tokens->texts);
    free(tokens->scores);
    free(tokens->types);
    free(tokens->bytes);
}

/* A token's text with U+2581 for blanks; begin and end without the line ends around them. Returns its bytes. */
static size_t llama2c_spell(int64_t id, const char *text, size_t size, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        if ((id == 1 || id == 2) && text[i] == '\n') continue;
        if (text[i] == ' ') {
            memcpy(out + used, "\xE2\x96\x81", 3);
            used += 3;
        } else {
            out[used++] = text[i];
        }
    }
    return used;
}

/* `count` tokens of data[size], which end where the file does. */
static pco_status llama2c_read_tokens(const unsigned char *data, size_t size, int64_t count, const char *label,
                                      llama2c_tokens *tokens, pco_error *err)
{
    size_t at = 4, used = 0;
    for (int64_t id = 0; id < count; id++) {
        int32_t bytes;
        if (size - at < 8) goto damaged;
        memcpy(&tokens->scores[id], data + at, 4);
        memcpy(&bytes, data + at + 4, 4);
        at += 8;
        if (bytes < 0 || (size_t)bytes > size - at) goto damaged;
        tokens->texts[id].data = tokens->bytes + used;
        tokens->texts[id].size = llama2c_spell(id, (const char *)data + at, (size_t)bytes, tokens->bytes + used);
        tokens->types[id] = id == 0                                                  ? 2
                            : id < LLAMA2C_FIRST_BYTE                                ? 3
                            : id <= LLAMA2C_LAST_BYTE && tokens->texts[id].size == 6 ? 6
                                                                                     : 1;
        used += tokens->texts[id].size;
        at += (size_t)bytes;
    }
    if (at == size) return PCO_OK;
damaged:
    return pco_fail(err, PCO_ERROR_FORMAT,
                    "%s: the tokenizer beside it is not one of %" PRId64 " tokens, which the model has", label, count);
}

static pco_status llama2c_put_tokenizer(pco_gguf_writer *out, const void *data, size_t size, int64_t count,
                                        const char *label, pco_error *err)
{
    if (size < 4 || (size - 4) / 8 < (uint64_t)count)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s: the tokenizer beside it is not one of %" PRId64 " tokens, which the model has", label,
                        count);
    llama2c_tokens tokens = {malloc((size_t)count * sizeof *tokens.texts),
                             malloc((size_t)count * sizeof *tokens.scores),
                             malloc((size_t)count * sizeof *tokens.types), malloc(3 * size)};
    pco_status status = PCO_OK;
    if (!tokens.texts || !tokens.scores || !tokens.types || !tokens.bytes)
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: out of host memory for its tokenizer", label);
    if (!status) status = llama2c_read_tokens(data, size, count, label, &tokens, err);
    if (!status) {
        pco_gguf_put_text(out, "tokenizer.ggml.model", "llama");
        pco_gguf_put_texts(out, "tokenizer.ggml.tokens", tokens.texts, (uint64_t)count);
        pco_gguf_put_f32s(out, "tokenizer.ggml.scores", tokens.scores, (uint64_t)count);
        pco_gguf_put_i32s(out, "tokenizer.ggml.token_type", tokens.types, (uint64_t)count);
        pco_gguf_put_u32(out, "tokenizer.ggml.bos_token_id", 1);
        pco_gguf_put_u32(out, "tokenizer.ggml.eos_token_id", 2);
        pco_gguf_put_u32(out, "tokenizer.ggml.unknown_token_id", 0);
    }
    llama2c_release(&tokens);
    return status;
}

/* ---- the model ------------------------------------------------------------------------------------------ */

static void llama2c_put_keys(pco_gguf_writer *out, const llama2c_header *h)
{
    pco_gguf_put_text(out, "general.architecture", "llama");
    pco_gguf_put_u32(out, "llama.vocab_size", (uint32_t)h->vocab);
    pco_gguf_put_u32(out, "llama.context_length", (uint32_t)h->context);
    pco_gguf_put_u32(out, "llama.embedding_length", (uint32_t)h->dim);
    pco_gguf_put_u32(out, "llama.block_count", (uint32_t)h->layers);
    pco_gguf_put_u32(out, "llama.feed_forward_length", (uint32_t)h->hidden);
    pco_gguf_put_u32(out, "llama.attention.head_count", (uint32_t)h->heads);
    pco_gguf_put_u32(out, "llama.attention.head_count_kv", (uint32_t)h->kv_heads);
    pco_gguf_put_u32(out, "llama.rope.dimension_count", (uint32_t)(h->dim / h->heads));
    pco_gguf_put_f32(out, "llama.rope.freq_base", 10000.0f);
    pco_gguf_put_f32(out, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

static pco_status llama2c_add_part(const llama2c_header *h, unsigned part, const unsigned char *data,
                                   pco_weights *weights, pco_error *err)
{
    const int64_t rows = llama2c_size(h, llama2c_parts[part].rows),
                  columns = llama2c_size(h, llama2c_parts[part].columns);
    const int vector = llama2c_parts[part].rows == NONE, layers = llama2c_per_layer(part) ? (int)h->layers : 1;
    pco_status status = PCO_OK;
    for (int i = 0; i < layers && !status; i++) {
        char name[PCO_GGUF_NAME];
        pco_weight weight = {.type_name = "F32",
                             .dtype = PCO_F32,
                             .rank = vector ? 1 : 2,
                             .shape = {vector ? columns : rows, vector ? 0 : columns},
                             .bytes = llama2c_bytes(h, part),
                             .data = data + (uint64_t)i * llama2c_bytes(h, part)};
        const int length = snprintf(name, sizeof name, llama2c_parts[part].name, i);
        status = pco_weights_add(weights, &weight, name, (size_t)length, err);
    }
    return status;
}

static pco_status llama2c_add_tensors(const llama2c_header *h, const unsigned char *data, pco_weights *weights,
                                      pco_error *err)
{
    const unsigned char *at = data + h->begin;
    pco_status status = PCO_OK;
    for (int i = 0; i < LLAMA2C_PARTS && !status; i++) {
        const unsigned part = llama2c_orders[h->version][i];
        if (part == OUTPUT && h->shared) continue;
        if (part == OUTPUT) at += llama2c_tables(h);
        status = llama2c_add_part(h, part, at, weights, err);
        at += llama2c_bytes(h, part) * (llama2c_per_layer(part) ? (uint64_t)h->layers : 1);
    }
    return status ? status : pco_weights_index(weights, err);
}

pco_status pco_llama2c_parse(const void *data, size_t size, const void *tokenizer, size_t tokenizer_size,
                             const char *label, pco_gguf **gguf, pco_error *err)
{
    llama2c_header header;
    pco_gguf_writer out = {0};
    *gguf = NULL;
    pco_status status = llama2c_check(data, size, label, &header, err);
    if (!status) llama2c_put_keys(&out, &header);
    if (!status && tokenizer) status = llama2c_put_tokenizer(&out, tokenizer, tokenizer_size, header.vocab, label, err);
    if (!status) status = pco_gguf_write_opened(&out, label, gguf, err);
    status = pco_gguf_write_close(&out, status, err);
    if (!status) status = llama2c_add_tensors(&header, data, pco_gguf_own_weights(*gguf), err);
    if (!status) return PCO_OK;
    pco_gguf_close(*gguf);
    *gguf = NULL;
    return status;
}

/* Maps the tokenizer beside `path`, if there is one. */
static pco_status llama2c_map_tokenizer(const char *path, const pco_map *model, pco_map *map, pco_error *err)
{
    const char *slash = strrchr(path, '/');
    llama2c_header header;
    char name[32], *found = NULL;
    char *folder = !slash ? strdup(".") : strndup(path, slash > path ? (size_t)(slash - path) : 1);
    if (!folder) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", path);
    pco_status status = llama2c_check(model->data, model->size, path, &header, err);
    for (int i = 0; i < 2 && !status && !found; i++) {
        snprintf(name, sizeof name, i ? "tokenizer.bin" : "tok%" PRId64 ".bin", header.vocab);
        status = pco_file_find(folder, name, &found, err);
    }
    if (!status && found) status = pco_map_open(found, map, err);
    free(found);
    free(folder);
    return status;
}

pco_status pco_llama2c_open(const char *path, pco_gguf **gguf, pco_error *err)
{
    pco_map map, tokenizer = {0};
    *gguf = NULL;
    pco_status status = pco_map_open(path, &map, err);
    if (status) return status;
    status = llama2c_map_tokenizer(path, &map, &tokenizer, err);
    if (!status) status = pco_llama2c_parse(map.data, map.size, tokenizer.data, tokenizer.size, path, gguf, err);
    pco_map_close(&tokenizer);
    if (!status) status = pco_weights_keep_map(pco_gguf_own_weights(*gguf), &map, err);
    if (!status) return PCO_OK;
    pco_map_close(&map);
    pco_gguf_close(*gguf);
    *gguf = NULL;
    return status;
}
