/* Model files of SentencePiece: messages of protobuf, whose wire format is read here, since nothing else in them needs
 * a library. Numbers of fields are those of sentencepiece_model.proto. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/tokenizer_kinds.h"

typedef struct piece_reader {
    const unsigned char *at, *end;
    int broken;
} piece_reader;

/* A field: its number, and a value by its kind. */
typedef struct piece_field {
    uint32_t number, wire;
    uint64_t value;       /* wire 0, 1 and 5 */
    piece_reader message; /* wire 2 */
} piece_field;

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static uint64_t piece_varint(piece_reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
        const unsigned char byte = *reader->at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return value;
    }
    reader->broken = 1;
    return 0;
}

/* The next field; 0 at the end, or where the message is broken. */
static int piece_next(piece_reader *reader, piece_field *field)
{
    if (reader->at == reader->end || reader->broken) return 0;
    const uint64_t key = piece_varint(reader);
    uint64_t size = 0;
    *field = (piece_field){.number = (uint32_t)(key >> 3), .wire = (uint32_t)(key & 7)};
    if (field->wire == WIRE_VARINT) field->value = piece_varint(reader);
    if (field->wire == WIRE_BYTES) size = piece_varint(reader);
    if (field->wire == WIRE_64 || field->wire == WIRE_32) size = field->wire == WIRE_64 ? 8 : 4;
    if (field->wire == 3 || field->wire == 4 || field->wire > 5 || size > (uint64_t)(reader->end - reader->at))
        reader->broken = 1;
    if (reader->broken) return 0;
    if (field->wire == WIRE_BYTES) field->message = (piece_reader){reader->at, reader->at + size, 0};
    if (field->wire == WIRE_32) memcpy(&field->value, reader->at, 4);
    reader->at += size;
    return 1;
}

static size_t piece_size(const piece_reader *bytes) { return (size_t)(bytes->end - bytes->at); }

/* ---- what a file says ---- */

typedef struct piece_text {
    const char *data;
    size_t size;
} piece_text;

typedef struct piece_file {
    const char *label;
    uint32_t count, total;                       /* pieces; and with tokens that are added */
    size_t bytes;                                /* of all pieces */
    int model, byte_fallback, suffix;            /* of trainer_spec */
    int dummy_prefix, squeeze, escape, denormal; /* of the normalisers */
    piece_text charsmap, unk_surface, names[3];  /* of BOS, EOS and padding */
} piece_file;

static piece_text piece_bytes(const piece_field *field)
{
    return (piece_text){(const char *)field->message.at, piece_size(&field->message)};
}

static int piece_trainer(piece_reader message, piece_file *file)
{
    piece_field field;
    while (piece_next(&message, &field)) {
        if (field.number == 3) file->model = (int)(field.value & 0xFF);
        if (field.number == 24) file->suffix = field.value != 0;
        if (field.number == 35) file->byte_fallback = field.value != 0;
        if (field.wire != WIRE_BYTES) continue;
        if (field.number == 44) file->unk_surface = piece_bytes(&field);
        if (field.number >= 46 && field.number <= 48) file->names[field.number - 46] = piece_bytes(&field);
    }
    return !message.broken;
}

static int piece_normalizer(piece_reader message, piece_file *file)
{
    piece_field field;
    while (piece_next(&message, &field)) {
        if (field.number == 2 && field.wire == WIRE_BYTES) file->charsmap = piece_bytes(&field);
        if (field.number == 3) file->dummy_prefix = field.value != 0;
        if (field.number == 4) file->squeeze = field.value != 0;
        if (field.number == 5) file->escape = field.value != 0;
    }
    return !message.broken;
}

static int piece_denormalizer(piece_reader message, piece_file *file)
{
    piece_field field;
    while (piece_next(&message, &field)) file->denormal |= field.number == 2 && piece_size(&field.message);
    return !message.broken;
}

/* One piece: its text, score and type. */
static int piece_read(piece_reader message, piece_text *text, float *score, uint32_t *type)
{
    piece_field field;
    *text = (piece_text){"", 0};
    *score = 0;
    *type = TEXT_NORMAL;
    while (piece_next(&message, &field)) {
        const uint32_t bits = (uint32_t)field.value;
        if (field.number == 1 && field.wire == WIRE_BYTES) *text = piece_bytes(&field);
        if (field.number == 2 && field.wire == WIRE_32) memcpy(score, &bits, 4);
        if (field.number == 3 && field.wire == WIRE_VARINT) *type = bits;
    }
    return !message.broken;
}

static pco_status piece_broken(const char *label, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: this is no model of SentencePiece, or it is cut off", label);
}

/* All but the pieces, which are counted and checked. */
static pco_status piece_scan(piece_reader reader, piece_file *file, pco_error *err)
{
    piece_field field;
    int good = 1;
    while (good && piece_next(&reader, &field)) {
        piece_text text;
        float score;
        uint32_t type;
        if (field.number < 1 || field.number > 200 || (field.number <= 5 && field.wire != WIRE_BYTES)) good = 0;
        if (!good || field.wire != WIRE_BYTES) continue;
        if (field.number == 1) {
            good = piece_read(field.message, &text, &score, &type);
            if (good &&
                (!text.size || text.size > UINT16_MAX || type < TEXT_NORMAL || type > TEXT_BYTE || isnan(score)))
                return pco_fail(err, PCO_ERROR_FORMAT, "%s: piece %" PRIu32 " is empty, too long or of no known type",
                                file->label, file->count);
            file->bytes += text.size;
            file->count++;
        }
        if (field.number == 2) good = piece_trainer(field.message, file);
        if (field.number == 3) good = piece_normalizer(field.message, file);
        if (field.number == 5) good = piece_denormalizer(field.message, file);
    }
    if (!good || reader.broken || !file->count) return piece_broken(file->label, err);
    if (file->model == TEXT_SENTENCE_WORD || file->model < TEXT_SENTENCE_UNIGRAM || file->model > TEXT_SENTENCE_CHAR)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "%s: a SentencePiece model of type %s is not supported; unigram, bpe and char are", file->label,
                        file->model == TEXT_SENTENCE_WORD ? "word" : "unknown");
    if (file->denormal)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: a table that rewrites decoded text is not supported",
                        file->label);
    return PCO_OK;
}

/* ---- the tokenizer ---- */

static pco_status piece_put_all(piece_reader reader, const piece_file *file, pco_tokenizer *tokenizer, pco_error *err)
{
    piece_field field;
    uint32_t id = 0;
    while (id < file->count && piece_next(&reader, &field)) {
        piece_text text;
        float score;
        uint32_t type;
        if (field.number != 1) continue;
        piece_read(field.message, &text, &score, &type);
        if (type == TEXT_UNUSED) {
            if (file->model != TEXT_SENTENCE_UNIGRAM)
                return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: unused pieces in a BPE are not supported",
                                file->label);
            type = TEXT_ADDED; /* never made of text */
        }
        text_set_token(tokenizer, id, text.data, text.size, type);
        if (type == TEXT_UNKNOWN) tokenizer->special.unk = (int32_t)id;
        tokenizer->tokens[id++].score = (double)score;
    }
    return PCO_OK;
}

static int32_t piece_special(const pco_tokenizer *tokenizer, const piece_text *name, const char *usual)
{
    const int32_t id =
        name->data ? text_find(tokenizer, name->data, name->size) : text_find(tokenizer, usual, strlen(usual));
    return id >= 0 && tokenizer->tokens[id].type == TEXT_CONTROL ? id : -1;
}

/* Tokens that are added: new ones, or others for pieces of the model. */
static pco_status piece_scan_added(const cJSON *added, piece_file *file, pco_error *err)
{
    const cJSON *item;
    file->total = file->count;
    cJSON_ArrayForEach(item, added)
    {
        int64_t id;
        const char *text;
        pco_status status = pco_json_int(item, file->label, "id", 0, 2 * (int64_t)file->count + 4096, &id, err);
        if (!status) status = pco_json_string(item, file->label, "content", &text, err);
        if (status) return status;
        file->bytes += strlen(text);
        if (id >= file->total) file->total = (uint32_t)id + 1;
    }
    return PCO_OK;
}

static pco_status piece_put_added(const cJSON *added, const piece_file *file, pco_tokenizer *tokenizer, pco_error *err)
{
    const cJSON *item;
    pco_status status = PCO_OK;
    for (uint32_t id = file->count; id < file->total; id++) text_set_token(tokenizer, id, "", 0, TEXT_ADDED);
    cJSON_ArrayForEach(item, added)
    {
        const char *text = cJSON_GetObjectItemCaseSensitive(item, "content")->valuestring;
        const uint32_t id = (uint32_t)cJSON_GetObjectItemCaseSensitive(item, "id")->valuedouble;
        const int special = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "special"));
        if (id >= file->count) text_set_token(tokenizer, id, text, strlen(text), special ? TEXT_CONTROL : TEXT_ADDED);
        if (special && id < file->count && (int32_t)id != tokenizer->special.unk)
            tokenizer->tokens[id].type = TEXT_CONTROL;
        const text_mark mark = {(char *)text,
                                (uint32_t)strlen(text),
                                (int32_t)id,
                                special != 0,
                                cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "lstrip")) != 0,
                                cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "rstrip")) != 0,
                                cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "single_word")) != 0};
        if (!status && mark.size) status = text_marks_add(&tokenizer->marks[0], &mark, err);
    }
    return status;
}

static pco_status piece_build(piece_reader reader, const piece_file *file, const cJSON *added, pco_tokenizer *tokenizer,
                              pco_error *err)
{
    text_sentence *sentence = &tokenizer->sentence;
    int32_t twice;
    pco_status status = piece_put_all(reader, file, tokenizer, err);
    if (!status) status = piece_put_added(added, file, tokenizer, err);
    if (status) return status;
    sentence->model = file->model;
    sentence->squeeze = file->squeeze;
    sentence->suffix = file->suffix;
    sentence->escape = file->escape;
    sentence->single = 1;
    tokenizer->space_prefix = file->dummy_prefix;
    tokenizer->byte_fallback = file->byte_fallback;
    text_llama_pieces(tokenizer);
    if (tokenizer->special.unk >= 0)
        text_set_piece(tokenizer, (uint32_t)tokenizer->special.unk, file->unk_surface.data, file->unk_surface.size);
    status = text_index_table(tokenizer, &twice, err);
    if (!status && twice >= 0 && tokenizer->tokens[twice].size && !added)
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: piece '%.80s' is there twice", file->label,
                          tokenizer->tokens[twice].text);
    if (!status && file->charsmap.size)
        status = text_charsmap_make(file->charsmap.data, file->charsmap.size, file->label, &sentence->charsmap, err);
    if (status) return status;
    tokenizer->special.bos = piece_special(tokenizer, &file->names[0], "<s>");
    tokenizer->special.eos = piece_special(tokenizer, &file->names[1], "</s>");
    tokenizer->special.pad = piece_special(tokenizer, &file->names[2], "<pad>");
    return text_sentence_ready(tokenizer, file->label, err);
}

pco_status text_sentence_model(const unsigned char *data, size_t size, const cJSON *added, const char *label,
                               pco_tokenizer **tokenizer, pco_error *err)
{
    const piece_reader reader = {data, size ? data + size : data, 0};
    piece_file file = {.label = label,
                       .model = TEXT_SENTENCE_UNIGRAM,
                       .dummy_prefix = 1,
                       .squeeze = 1,
                       .escape = 1,
                       .unk_surface = {" \xE2\x81\x87 ", 5}};
    *tokenizer = NULL;
    if (!size) return piece_broken(label, err);
    pco_status status = piece_scan(reader, &file, err);
    if (!status) status = piece_scan_added(added, &file, err);
    if (status) return status;
    pco_tokenizer *made = text_create(file.total, file.bytes + file.unk_surface.size);
    if (!made) return text_no_memory(err);
    status = piece_build(reader, &file, added, made, err);
    if (status)
        pco_tokenizer_destroy(made);
    else
        *tokenizer = made;
    return status;
}
