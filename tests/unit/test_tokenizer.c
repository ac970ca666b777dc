#define CHECK_FOLDER
#include "base/file.h"
#include "base/philox.h"
#include "base/writer.h"
#include "check.h"
#include "gguf_builder.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

static pco_tokenizer *from(const built *file)
{
    pco_gguf *gguf;
    pco_tokenizer *tokenizer;
    check_ok(pco_gguf_parse(file->data, file->size, "f", 0, &gguf, &err));
    check_ok(pco_tokenizer_from_gguf(gguf, &tokenizer, &err));
    pco_gguf_close(gguf); /* the tokenizer keeps nothing of it */
    return tokenizer;
}

static void check_refused(const built *file, pco_status status, const char *part)
{
    pco_gguf *gguf;
    pco_tokenizer *tokenizer;
    check_ok(pco_gguf_parse(file->data, file->size, "f", 0, &gguf, &err));
    check_fails(pco_tokenizer_from_gguf(gguf, &tokenizer, &err), status, part);
    pco_gguf_close(gguf);
}

/* Encodes, and compares with ids[count], which ends at -1. */
static void check_encode(const pco_tokenizer *tokenizer, const char *text, uint32_t flags, const int32_t *expected)
{
    int32_t *ids;
    size_t count, wanted = 0;
    check_ok(pco_tokenizer_encode(tokenizer, text, strlen(text), flags, &ids, &count, &err));
    while (expected[wanted] >= 0) wanted++;
    int same = count == wanted;
    for (size_t i = 0; same && i < count; i++) same = ids[i] == expected[i];
    if (!same) {
        for (size_t i = 0; i < count; i++) printf(" %d", ids[i]);
        fail_msg("'%s' gave the ids above", text);
    }
    free(ids);
}
#define IDS(...) ((const int32_t[]){__VA_ARGS__, -1})

static void check_decode(const pco_tokenizer *tokenizer, const int32_t *ids, const char *expected)
{
    size_t count = 0, size;
    char *text;
    while (ids[count] >= 0) count++;
    check_ok(pco_tokenizer_decode(tokenizer, ids, count, &text, &size, &err));
    assert_string_equal(text, expected);
    assert_int_equal(size, strlen(expected));
    free(text);
}

#define SPACE "\xE2\x96\x81"

/* <unk> <s> </s>, bytes 3 to 258, then the pieces. */
static void build_llama(built *file, const char *model)
{
    static const char *const pieces[] = {SPACE, "a", "b", SPACE "a", "ab", SPACE "ab", "ba", "<user>", "\xC3\xA9"};
    static const float scores[] = {-10, -11, -12, -1, -2, -3, -2, 0, -13};
    static const int32_t types[] = {1, 1, 1, 1, 1, 1, 1, 4, 1};
    enum { BYTES = 256, PIECES = 9, COUNT = 3 + BYTES + PIECES };
    put_header(file, 3, 0, 4);
    put_key_text(file, "tokenizer.ggml.model", model);
    put_key_array(file, "tokenizer.ggml.tokens", PCO_GGUF_STRING, COUNT);
    put_text(file, "<unk>");
    put_text(file, "<s>");
    put_text(file, "</s>");
    for (int i = 0; i < BYTES; i++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", i);
        put_text(file, text);
    }
    for (int i = 0; i < PIECES; i++) put_text(file, pieces[i]);
    put_key_array(file, "tokenizer.ggml.scores", PCO_GGUF_F32, COUNT);
    for (int i = 0; i < 3 + BYTES; i++) put_f32(file, 0);
    for (int i = 0; i < PIECES; i++) put_f32(file, scores[i]);
    put_key_array(file, "tokenizer.ggml.token_type", PCO_GGUF_I32, COUNT);
    for (int i = 0; i < 3 + BYTES; i++) put_u32(file, i == 0 ? 2 : i < 3 ? 3 : 6);
    for (int i = 0; i < PIECES; i++) put_u32(file, (uint32_t)types[i]);
}

static void llama(void **state)
{
    (void)state;
    enum { S = 259, A, B, SA, AB, SAB, BA, USER, E };
    static built file;
    build_llama(&file, "llama");
    pco_tokenizer *t = from(&file);
    pco_tokenizer_special special = pco_tokenizer_specials(t);
    assert_true(special.bos == 1 && special.eos == 2 && special.unk == 0 && special.pad == -1);
    assert_true(pco_tokenizer_adds_bos(t) && !pco_tokenizer_adds_eos(t));
    assert_int_equal(pco_tokenizer_vocab_size(t), 268);
    assert_string_equal(pco_tokenizer_token(t, 1, NULL), "<s>");
    assert_null(pco_tokenizer_token(t, 268, NULL));
    check_encode(t, "", PCO_ENCODE_BOS, IDS(1));
    check_encode(t, "a", 0, IDS(SA));
    check_encode(t, "ab", PCO_ENCODE_BOS | PCO_ENCODE_EOS, IDS(1, SAB, 2)); /* _a first, then _ab */
    check_encode(t, "bab", 0, IDS(S, BA, B));                               /* ab and ba tie: the leftmost wins */
    check_encode(t, "\xC3\xA9\n", 0, IDS(S, E, 3 + '\n'));
    check_encode(t, "\xE2\x82\xAC\xFF", 0, IDS(S, 3 + 0xE2, 3 + 0x82, 3 + 0xAC, 3 + 0xFF));
    check_encode(t, "<s>", 0, IDS(S, 3 + '<', 3 + 's', 3 + '>'));
    check_encode(t, "<s>a", PCO_ENCODE_SPECIAL, IDS(1, SA));
    check_encode(t, "<0x0A>", 0, IDS(S, 3 + '<', 3 + '0', 3 + 'x', 3 + '0', 3 + 'A', 3 + '>'));
    check_encode(t, "b<user>b", 0, IDS(S, B, USER, S, B));
    check_decode(t, IDS(1, SAB, SA, 2), "ab a");
    check_decode(t, IDS(SA), "a");
    check_decode(t, IDS(1, 3 + 0xC3, 3 + 0xA9, S, E), "\xC3\xA9 \xC3\xA9");
    pco_decoder decoder = PCO_DECODER(t);
    const char *piece;
    size_t size;
    decoder.begun = decoder.show_control = 1;
    check_ok(pco_decoder_next(&decoder, SA, &piece, &size, &err));
    assert_true(size == 2 && memcmp(piece, " a", 2) == 0);
    check_ok(pco_decoder_next(&decoder, 2, &piece, &size, &err));
    assert_true(size == 4 && memcmp(piece, "</s>", 4) == 0);
    check_fails(pco_decoder_next(&decoder, 268, &piece, &size, &err), PCO_ERROR_INVALID, "268");
    check_fails(pco_decoder_next(&decoder, -1, &piece, &size, &err), PCO_ERROR_INVALID, "-1");
    pco_tokenizer_destroy(t);
}

static void llama_long_text(void **state)
{
    (void)state;
    static built file;
    build_llama(&file, "llama");
    pco_tokenizer *t = from(&file);
    size_t size = 200000, count, back_size;
    char *text = malloc(size), *back;
    int32_t *ids;
    uint32_t random = 1;
    for (size_t i = 0; i < size; i++) text[i] = "ab \xC3\xA9"[(random = random * 1664525u + 1013904223u) >> 24 & 3];
    text[0] = 'a';
    check_ok(pco_tokenizer_encode(t, text, size, 0, &ids, &count, &err));
    check_ok(pco_tokenizer_decode(t, ids, count, &back, &back_size, &err));
    assert_int_equal(back_size, size);
    assert_memory_equal(back, text, size);
    free(text);
    free(back);
    free(ids);
    pco_tokenizer_destroy(t);
}

static void refuses_models(void **state)
{
    (void)state;
    static built file;
    build_llama(&file, "rwkv");
    check_refused(&file, PCO_ERROR_UNSUPPORTED, "'rwkv'");
    build_llama(&file, "gpt2");
    check_refused(&file, PCO_ERROR_NOT_FOUND, "tokenizer.ggml.pre"); /* what are its words? */
    put_header(&file, 3, 0, 0);
    check_refused(&file, PCO_ERROR_NOT_FOUND, "tokenizer.ggml.model");
    put_header(&file, 3, 0, 3);
    put_key_text(&file, "tokenizer.ggml.model", "gpt2");
    put_key_text(&file, "tokenizer.ggml.pre", "gpt-2");
    put_key_texts(&file, "tokenizer.ggml.tokens", (const char *const[]){"a", "b"}, 2);
    check_refused(&file, PCO_ERROR_NOT_FOUND, "tokenizer.ggml.merges");
    put_header(&file, 3, 0, 3);
    put_key_text(&file, "tokenizer.ggml.model", "llama");
    put_key_texts(&file, "tokenizer.ggml.tokens", (const char *const[]){"a", "b"}, 2);
    put_key_array(&file, "tokenizer.ggml.scores", PCO_GGUF_F32, 1);
    put_f32(&file, 0);
    check_refused(&file, PCO_ERROR_FORMAT, "1 elements for 2 tokens");
    put_header(&file, 3, 0, 3);
    put_key_text(&file, "tokenizer.ggml.model", "llama");
    put_key_texts(&file, "tokenizer.ggml.tokens", (const char *const[]){"a", "b"}, 2);
    put_key_u32(&file, "tokenizer.ggml.eos_token_id", 2);
    check_refused(&file, PCO_ERROR_FORMAT, "eos_token_id' is 2");
}

/* Bytes first, by their spelling, then merges. Printable ASCII and space are enough here. */
static void build_gpt2(built *file, const char *pre, const char *last_merge)
{
    static const char *const tokens[] = {"a",
                                         "b",
                                         "c",
                                         "\xC4\xA0",
                                         "1",
                                         "!",
                                         "'",
                                         "s",
                                         "\xC4\x8A",
                                         "ab",
                                         ("\xC4\xA0"
                                          "ab"),
                                         "bc",
                                         "'s",
                                         "<|end|>"};
    const char *const merges[] = {"b c", "a b", "\xC4\xA0 ab", last_merge};
    put_header(file, 3, 0, 7);
    put_key_text(file, "tokenizer.ggml.model", "gpt2");
    put_key_text(file, "tokenizer.ggml.pre", pre);
    put_key_texts(file, "tokenizer.ggml.tokens", tokens, 14);
    put_key_array(file, "tokenizer.ggml.token_type", PCO_GGUF_I32, 14);
    for (int i = 0; i < 14; i++) put_u32(file, i == 13 ? 3 : 1);
    put_key_texts(file, "tokenizer.ggml.merges", merges, 4);
    put_key_u32(file, "tokenizer.ggml.eos_token_id", 13);
    put_key_u32(file, "tokenizer.ggml.eot_token_id", 5);
}

static void gpt2(void **state)
{
    (void)state;
    enum { A, B, C, S, ONE, BANG, QUOTE, LOWER_S, NEWLINE, AB, SAB, BC, QUOTE_S, END };
    static built file;
    int32_t *ids;
    size_t count;
    build_gpt2(&file, "gpt-2", "' s");
    pco_tokenizer *t = from(&file);
    assert_int_equal(pco_tokenizer_specials(t).bos, -1);
    assert_false(pco_tokenizer_adds_bos(t));
    assert_true(pco_tokenizer_ends(t, END) && pco_tokenizer_ends(t, BANG));
    assert_false(pco_tokenizer_ends(t, A) || pco_tokenizer_ends(t, -1));
    check_encode(t, "", 0, IDS(-1));
    check_encode(t, "ab ab", 0, IDS(AB, SAB));
    check_encode(t, "abc", 0, IDS(A, BC)); /* b c is the earlier merge */
    check_encode(t, "a  ab", 0, IDS(A, S, SAB));
    check_encode(t, "ab's1!\n", 0, IDS(AB, QUOTE_S, ONE, BANG, NEWLINE));
    check_encode(t, "<|end|>", PCO_ENCODE_SPECIAL | PCO_ENCODE_EOS, IDS(END, END));
    check_decode(t, IDS(SAB, S, BC, END, NEWLINE), " ab bc\n");
    check_fails(pco_tokenizer_encode(t, "z", 1, 0, &ids, &count, &err), PCO_ERROR_INVALID, "0x7A");
    check_fails(pco_tokenizer_encode(t, "a\xFF", 2, 0, &ids, &count, &err), PCO_ERROR_INVALID, "0xFF");
    check_fails(pco_tokenizer_encode(t, "a", 1, PCO_ENCODE_BOS, &ids, &count, &err), PCO_ERROR_INVALID, "BOS");
    pco_tokenizer_destroy(t);
    build_gpt2(&file, "klingon-bpe", "' s");
    check_refused(&file, PCO_ERROR_UNSUPPORTED, "'klingon-bpe'");
    build_gpt2(&file, "gpt-2", "a c");
    check_refused(&file, PCO_ERROR_FORMAT, "'a c'");
    build_gpt2(&file, "gpt-2", "ac");
    check_refused(&file, PCO_ERROR_FORMAT, "'ac'");
}

/* Names of pre-tokenizers are whole words; some take a word that is a token as it is, and begin with BOS. */
static void words_of_gpt2(void **state)
{
    (void)state;
    enum { A, B, C, S, ONE, BANG, QUOTE, LOWER_S, NEWLINE, AB, SAB, BC, QUOTE_S, END };
    static const char *const names[] = {"llama", "gpt", "-bpe", "", "gpt-2 phi-2", "default2"};
    static built file;
    build_gpt2(&file, "smollm", "' s");
    pco_tokenizer *t = from(&file);
    check_encode(t, "ab1 ab\n\n's", 0, IDS(AB, ONE, SAB, NEWLINE, NEWLINE, QUOTE_S));
    pco_tokenizer_destroy(t);
    build_gpt2(&file, "default", "' s");
    t = from(&file);
    check_encode(t, "ab's", 0, IDS(AB, QUOTE, LOWER_S)); /* signs first */
    pco_tokenizer_destroy(t);
    build_gpt2(&file, "llama-bpe", "' s");
    t = from(&file);
    check_encode(t, "!ab's", PCO_ENCODE_EOS, IDS(BANG, AB, QUOTE_S, END)); /* a sign belongs to letters behind it */
    pco_tokenizer_destroy(t);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        build_gpt2(&file, names[i], "' s");
        check_refused(&file, PCO_ERROR_UNSUPPORTED, "tokenizer.ggml.pre");
    }
}

static void characters(void **state)
{
    (void)state;
    static const char *const vocab[] = {"<pad>", "<s>", "</s>", "a", "\xC3\xA9", " ", "ch", "c"};
    pco_tokenizer_special special = {.bos = 1, .eos = 2, .pad = 0, .unk = -1};
    pco_tokenizer *t;
    int32_t *ids;
    size_t count;
    check_ok(pco_tokenizer_from_vocab(vocab, 8, &special, &t, &err));
    check_encode(t, "a \xC3\xA9", PCO_ENCODE_BOS | PCO_ENCODE_EOS, IDS(1, 3, 5, 4, 2));
    check_encode(t, "chc", 0, IDS(6, 7));
    check_encode(t, "<pad>a", PCO_ENCODE_SPECIAL, IDS(0, 3));
    check_decode(t, IDS(1, 5, 3, 4, 2, 0), " a\xC3\xA9");
    check_fails(pco_tokenizer_encode(t, "a\xC3\xA9\xD1\x85", 5, 0, &ids, &count, &err), PCO_ERROR_INVALID,
                "'\xD1\x85' (U+0445) at byte 3");
    check_fails(pco_tokenizer_encode(t, "<pad>", 5, 0, &ids, &count, &err), PCO_ERROR_INVALID, "'<' (U+003C)");
    check_fails(pco_tokenizer_encode(t, "a\xC3", 2, 0, &ids, &count, &err), PCO_ERROR_INVALID, "byte 1");
    pco_tokenizer_destroy(t);
    special.unk = 7;
    check_ok(pco_tokenizer_from_vocab(vocab, 8, &special, &t, &err));
    check_encode(t,
                 "x\xD1\x85"
                 "a",
                 0, IDS(7, 7, 3));
    pco_tokenizer_destroy(t);
    special.unk = 8;
    check_fails(pco_tokenizer_from_vocab(vocab, 8, &special, &t, &err), PCO_ERROR_INVALID, "8");
    check_fails(pco_tokenizer_from_vocab((const char *const[]){"a", "b", "a"}, 3, NULL, &t, &err), PCO_ERROR_INVALID,
                "'a' is in the vocabulary twice");
    check_fails(pco_tokenizer_from_vocab((const char *const[]){"a", ""}, 2, NULL, &t, &err), PCO_ERROR_INVALID,
                "token 1");
    check_fails(pco_tokenizer_from_vocab(NULL, 0, NULL, &t, &err), PCO_ERROR_INVALID, "0 tokens");
}

/* Sennrich et al. 2016, figure 1: five times "low", twice "lower", six times "newest", three times "widest". Pairs of
 * the start: es 9, st 9, we 8, lo 7, ow 7, ne 6, ew 6; then by hand, ties to the lower ids. */
static void trains_bpe(void **state)
{
    (void)state;
    static const char text[] = "low\nlow\nlow\nlow\nlow\nlower\nlower\nnewest\nnewest\nnewest\nnewest\nnewest\n"
                               "newest\nwidest\nwidest\nwidest\n";
    static const char *const merges[] = {"e s", "es t", "l o", "lo w", "e w", "n ew", "new est"};
    pco_vocabulary v, again;
    pco_tokenizer *t;
    char path[100];
    check_ok(pco_vocabulary_train_bpe(text, strlen(text), 3 + 256 + 7, 1, &v, &err));
    assert_int_equal(v.count, 266);
    assert_int_equal(v.merge_count, 7);
    for (int i = 0; i < 7; i++) assert_string_equal(v.merges[i], merges[i]);
    assert_string_equal(v.tokens[2], "</s>");
    assert_string_equal(v.tokens[3 + ' '], "\xC4\xA0"); /* U+0120 */
    assert_string_equal(v.tokens[265], "newest");
    snprintf(path, sizeof path, "%s/bpe.json", check_folder);
    check_ok(pco_vocabulary_write(path, &v, &err));
    check_ok(pco_vocabulary_read(path, &again, &err));
    assert_int_equal(again.count, v.count);
    assert_int_equal(again.special.eos, 2);
    check_ok(pco_vocabulary_tokenizer(&again, path, &t, &err));
    check_encode(t, "newest lowest", PCO_ENCODE_EOS, IDS(265, 3 + ' ', 262, 260, 2));
    check_encode(t, "\xD8\xB3", 0, IDS(3 + 0xD8, 3 + 0xB3)); /* any text has tokens */
    check_decode(t, IDS(265, 3 + 0xD8, 3 + 0xB3, 2), "newest\xD8\xB3");
    pco_tokenizer_destroy(t);
    pco_vocabulary_release(&again);
    pco_vocabulary_release(&v);
    check_ok(pco_vocabulary_train_bpe("ab cd", 5, 300, 0, &v, &err)); /* no pair twice */
    assert_int_equal(v.count, 256);
    pco_vocabulary_release(&v);
    check_fails(pco_vocabulary_train_bpe("ab", 2, 258, 1, &v, &err), PCO_ERROR_INVALID, "it has 259 to");
    check_fails(pco_vocabulary_train_bpe("", 0, 300, 1, &v, &err), PCO_ERROR_INVALID, "empty");
    check_fails(pco_vocabulary_train_bpe("a\xFF", 2, 300, 1, &v, &err), PCO_ERROR_INVALID, "byte 1");
}

/* Random bytes, and characters of all lengths between them. */
static size_t draw_text(char *text, size_t most, uint32_t seed)
{
    static const char *const parts[] = {"the ",
                                        " '\xE2\x80\xAFre",
                                        "  \r\n\n",
                                        "\xD8\xB3\xD9\x84",
                                        "\xE6\x9D\xB1\xE4\xBA\xAC",
                                        "\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD",
                                        "e\xCC\x81",
                                        "12345,6",
                                        "\t\tif (a != b);",
                                        "<s>"};
    size_t used = 0;
    for (uint32_t i = 0; used + 24 < most; i++) {
        const pco_philox random = pco_philox4x32_10((pco_philox){{i, seed, 0, 0}}, 5);
        const char *part = parts[random.word[1] % 10];
        if (random.word[0] % 3 == 0) {
            memcpy(text + used, random.word + 1, 1 + random.word[2] % 4); /* NUL and bytes that are no UTF-8 too */
            used += 1 + random.word[2] % 4;
        } else {
            memcpy(text + used, part, strlen(part));
            used += strlen(part);
        }
        if (random.word[3] % 9 == 0) break;
    }
    return used;
}

/* decode(encode(x)) is x, whatever the words are. */
static void bytes_come_back(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt-2",      "smollm",     "llama-bpe",  "dbrx",        "qwen2",
                                        "qwen35",     "minicpm5",   "falcon",     "default",     "deepseek-llm",
                                        "gpt-4o",     "tiny_aya",   "tekken",     "bloom",       "viking",
                                        "bailingmoe", "seed-coder", "exaone-moe", "deepseek-v3", "deepseek-coder"};
    static const char sample[] =
        "the cat, the dog and the \xE6\x9D\xB1\xE4\xBA\xAC; then 12 12 the the\n\n\n  a  a if if (( ((\n";
    pco_vocabulary v;
    check_ok(pco_vocabulary_train_bpe(sample, strlen(sample), 300, 0, &v, &err));
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        static built file;
        put_header(&file, 3, 0, 4);
        put_key_text(&file, "tokenizer.ggml.model", "gpt2");
        put_key_text(&file, "tokenizer.ggml.pre", names[n]);
        put_key_texts(&file, "tokenizer.ggml.tokens", (const char *const *)v.tokens, v.count);
        put_key_texts(&file, "tokenizer.ggml.merges", (const char *const *)v.merges, v.merge_count);
        pco_tokenizer *t = from(&file);
        for (uint32_t i = 0; i < 500; i++) {
            char text[400], *back;
            size_t size = draw_text(text, sizeof text, i), count, back_size;
            int32_t *ids;
            check_ok(pco_tokenizer_encode(t, text, size, 0, &ids, &count, &err));
            check_ok(pco_tokenizer_decode(t, ids, count, &back, &back_size, &err));
            if (back_size != size || memcmp(back, text, size) != 0)
                fail_msg("%s: text %u did not come back", names[n], i);
            free(ids);
            free(back);
        }
        pco_tokenizer_destroy(t);
    }
    pco_vocabulary_release(&v);
}

static void trains_characters(void **state)
{
    (void)state;
    pco_vocabulary v;
    pco_tokenizer *t;
    check_ok(pco_vocabulary_train_characters("b\xC3\xA9 a\nb", 7, 0, &v, &err));
    assert_int_equal(v.count, 5);
    check_ok(pco_vocabulary_tokenizer(&v, "v", &t, &err));
    check_encode(t, "\n ab\xC3\xA9", 0, IDS(0, 1, 2, 3, 4));
    pco_tokenizer_destroy(t);
    pco_vocabulary_release(&v);
}

static void put_file(const char *folder, const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    check_ok(pco_file_write(path, text, strlen(text), &err));
}

/* vocab.json with merges.txt, as of GPT-2. */
static void folders(void **state)
{
    (void)state;
    char folder[200];
    pco_tokenizer *t;
    snprintf(folder, sizeof folder, "%s/gpt2", check_folder);
    check_ok(pco_folder_make(folder, &err));
    check_fails(pco_tokenizer_open_folder(folder, &t, &err), PCO_ERROR_NOT_FOUND, "there is no tokenizer");
    put_file(folder, "merges.txt", "#version: 0.2\na b\r\n\n# #\n");
    put_file(folder, "vocab.json", "{\"<|endoftext|>\": 4, \"a\": 0, \"b\": 1, \"ab\": 2, \"#\": 3, \"##\": 5}");
    check_ok(pco_tokenizer_open_folder(folder, &t, &err));
    check_encode(t, "ab##a", PCO_ENCODE_EOS, IDS(2, 5, 0, 4));
    pco_tokenizer_destroy(t);
    put_file(folder, "vocab.json", "{\"a\": 0, \"b\": 2}");
    check_fails(pco_tokenizer_open_folder(folder, &t, &err), PCO_ERROR_FORMAT, "the id of 'b'");
}

/* Older layouts, and what stands beside them. */
static void layouts(void **state)
{
    (void)state;
    char folder[200], path[300];
    pco_tokenizer *t;
    snprintf(folder, sizeof folder, "%s/bert", check_folder);
    check_ok(pco_folder_make(folder, &err));
    put_file(folder, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\r\nhel\n##lo\n!\n\xC3\xA9\ne\n");
    check_ok(pco_tokenizer_open_folder(folder, &t, &err));
    check_encode(t, "HELLO!\xC3\xA9 x", PCO_ENCODE_BOS | PCO_ENCODE_EOS, IDS(1, 3, 4, 5, 7, 0, 2));
    check_decode(t, IDS(3, 4, 5), "hello!");
    assert_int_equal(pco_tokenizer_max_length(t), 0);
    pco_tokenizer_destroy(t);
    snprintf(path, sizeof path, "%s/vocab.txt", folder);
    check_ok(pco_tokenizer_open(path, &t, &err));
    assert_int_equal(pco_tokenizer_vocab_size(t), 8);
    pco_tokenizer_destroy(t);
    put_file(folder, "tokenizer_config.json",
             "{\"do_lower_case\": false, \"model_max_length\": 512, \"sep_token\": {\"content\": \"!\"}, "
             "\"added_tokens_decoder\": {\"9\": {\"content\": \"<x>\", \"special\": true, \"lstrip\": true}}}");
    put_file(folder, "special_tokens_map.json", "{\"mask_token\": \"<m>\"}");
    put_file(folder, "added_tokens.json", "{\"hey\": 8}");
    check_ok(pco_tokenizer_open_folder(folder, &t, &err));
    check_encode(t, "hel <x>\xC3\xA9 hey<m>", PCO_ENCODE_EOS | PCO_ENCODE_SPECIAL, IDS(3, 9, 6, 8, 10, 5));
    assert_int_equal(pco_tokenizer_max_length(t), 512);
    pco_tokenizer_destroy(t);
    put_file(folder, "added_tokens.json", "{\"hey\": 80000}");
    check_fails(pco_tokenizer_open_folder(folder, &t, &err), PCO_ERROR_FORMAT, "added_tokens.json");
    put_file(folder, "added_tokens.json", "[]");
    check_fails(pco_tokenizer_open_folder(folder, &t, &err), PCO_ERROR_FORMAT, "not an object");
    snprintf(folder, sizeof folder, "%s/klingon", check_folder);
    check_ok(pco_folder_make(folder, &err));
    put_file(folder, "merges.txt", "a b\n");
    put_file(folder, "vocab.json", "{\"a\": 0, \"b\": 1, \"ab\": 2, \"<s>\": 3}");
    put_file(folder, "tokenizer_config.json", "{\"tokenizer_class\": \"KlingonTokenizerFast\"}");
    check_fails(pco_tokenizer_open_folder(folder, &t, &err), PCO_ERROR_UNSUPPORTED, "'KlingonTokenizer'");
    put_file(folder, "tokenizer_config.json", "{\"bos_token\": \"<s>\", \"add_bos_token\": true}");
    check_ok(pco_tokenizer_open_folder(folder, &t, &err));
    assert_int_equal(pco_tokenizer_adds_bos(t), 1);
    check_encode(t, "ab", PCO_ENCODE_BOS, IDS(3, 2));
    pco_tokenizer_destroy(t);
    put_file(folder, "tokenizer.model",
             "\n\x05\n\x03"
             "a");
    snprintf(path, sizeof path, "%s/tokenizer.model", folder);
    check_fails(pco_tokenizer_open(path, &t, &err), PCO_ERROR_FORMAT, "no model of SentencePiece");
}

/* A piece of a model of SentencePiece: its text, a score of -1, and a type. */
static void put_piece(pco_writer *out, const char *text, char type)
{
    const char size = (char)strlen(text);
    const char head[] = {0x0A, (char)(size + 9), 0x0A, size}, tail[] = {0x15, 0, 0, (char)0x80, (char)0xBF, 0x18, type};
    pco_write(out, head, sizeof head);
    pco_write_text(out, text);
    pco_write(out, tail, sizeof tail);
}

static void put_pieces(const char *folder, const char *name, const char *const *texts)
{
    char path[300];
    pco_writer out = {0};
    for (put_piece(&out, "<unk>", 2); *texts; texts++) put_piece(&out, *texts, 1);
    check_ok(pco_writer_check(&out, name, &err));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    check_ok(pco_file_write(path, out.data, out.size, &err));
    pco_writer_release(&out);
}

/* vocab.json with source.spm and target.spm, as of Marian: ids by what pieces are called. */
static void marian(void **state)
{
    (void)state;
    char folder[200];
    pco_tokenizer *t;
    snprintf(folder, sizeof folder, "%s/marian", check_folder);
    check_ok(pco_folder_make(folder, &err));
    put_pieces(folder, "source.spm",
               (const char *const[]){"\xE2\x96\x81",
                                     "\xE2\x96\x81"
                                     "a",
                                     "b", "c", NULL});
    put_file(folder, "vocab.json",
             "{\"</s>\": 0, \"<unk>\": 1, \"b\": 2, \"\xE2\x96\x81"
             "a\": 3, \"\xC3\xA9\xC3\xA9\": 4, "
             "\">>fra<<\": 5, \"<pad>\": 6}");
    check_ok(pco_tokenizer_open_folder(folder, &t, &err));
    check_encode(t, "ab", PCO_ENCODE_EOS, IDS(3, 2, 0));
    check_encode(t, "abc", 0, IDS(3, 2, 1)); /* a piece that the vocabulary lacks */
    check_encode(t,
                 "a\xC3\xA9\xC3\xA9"
                 "b",
                 0, IDS(3, 4, 2)); /* no piece, but the vocabulary has it */
    check_encode(t,
                 "a\xC3\xA9"
                 "b",
                 0, IDS(3, 1, 2));
    check_encode(t, ">>fra<<ab", 0, IDS(5, 3, 2));
    check_encode(t, ">>nob<<ab", 0, IDS(1, 3, 2));
    check_encode(t, "</s>", PCO_ENCODE_SPECIAL, IDS(0));
    assert_int_equal(pco_tokenizer_specials(t).pad, 6);
    assert_int_equal(pco_tokenizer_adds_eos(t), 1);
    pco_tokenizer_destroy(t);
    check_fails(pco_tokenizer_open_target(folder, &t, &err), PCO_ERROR_NOT_FOUND, "target.spm");
    put_pieces(folder, "target.spm", (const char *const[]){"\xE2\x96\x81", "b", NULL});
    check_ok(pco_tokenizer_open_target(folder, &t, &err));
    check_encode(t, "b", 0, IDS(1, 2));
    pco_tokenizer_destroy(t);
    put_file(folder, "tokenizer_config.json", "{\"separate_vocabs\": true}");
    check_fails(pco_tokenizer_open_target(folder, &t, &err), PCO_ERROR_NOT_FOUND, "target_vocab.json");
    put_file(folder, "vocab.json", "{\"</s>\": 0, \"<unk>\": 1, \"b\": 1}");
    check_fails(pco_tokenizer_open_folder(folder, &t, &err), PCO_ERROR_FORMAT, "the id of 'b'");
    put_file(folder, "vocab.json", "{\"</s>\": 0, \"b\": 1}");
    check_fails(pco_tokenizer_open_folder(folder, &t, &err), PCO_ERROR_FORMAT, "lacks '<unk>'");
    put_file(folder, "source.spm",
             "\n\x05\n\x03"
             "a");
    check_fails(pco_tokenizer_open_folder(folder, &t, &err), PCO_ERROR_FORMAT, "no model of SentencePiece");
}

#define JSON_BPE(normalizer, cut) \
    "{\"added_tokens\": [{\"id\": 4, \"content\": \"<s>\", \"special\": true, \"lstrip\": false, \"rstrip\": false, " \
    "\"single_word\": false, \"normalized\": false}], \"normalizer\": " normalizer ", \"pre_tokenizer\": " cut ", " \
    "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\", " \
    "\"type_id\": 0}}, " \
    "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}]}, \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": " \
    "{\"type\": \"BPE\", " \
    "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"\\u0120\": 3}, \"merges\": [\"a b\"]}}"
#define JSON_CUT "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}"

/* tokenizer.json goes before the other files; what it has and we don't is named. */
static void json_folders(void **state)
{
    (void)state;
    char folder[200];
    pco_tokenizer *t;
    snprintf(folder, sizeof folder, "%s/json", check_folder);
    check_ok(pco_folder_make(folder, &err));
    put_file(folder, "tokenizer.json", JSON_BPE("null", JSON_CUT));
    check_ok(pco_tokenizer_open_folder(folder, &t, &err));
    check_encode(t, "ab a", 0, IDS(2, 3, 0));
    check_encode(t, "ab", PCO_ENCODE_BOS, IDS(4, 2));
    pco_tokenizer_destroy(t);
    put_file(folder, "tokenizer.json", JSON_BPE("{\"type\": \"Transliterate\"}", JSON_CUT));
    check_fails(pco_tokenizer_open_folder(folder, &t, &err), PCO_ERROR_UNSUPPORTED, "the normalizer 'Transliterate'");
    put_file(folder, "tokenizer.json", JSON_BPE("null", "{\"type\": \"UnicodeScripts\"}"));
    check_fails(pco_tokenizer_open_folder(folder, &t, &err), PCO_ERROR_UNSUPPORTED,
                "the pre-tokenizer 'UnicodeScripts'");
    put_file(folder, "tokenizer.json", /* an expression that matches nothing, too */
             JSON_BPE("null",
                      "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": "
                      "\"b?\"}, \"behavior\": \"Isolated\"}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                      "\"use_regex\": false}]}"));
    check_ok(pco_tokenizer_open_folder(folder, &t, &err));
    check_encode(t, "aaba", 0, IDS(0, 0, 1, 0));
    pco_tokenizer_destroy(t);
    put_file(folder, "tokenizer.json", "{\"model\": 7}");
    check_fails(pco_tokenizer_open_folder(folder, &t, &err), PCO_ERROR_FORMAT, "tokenizer.json");
    put_file(folder, "tokenizer.json", "{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0, \"b\": 0}}}");
    check_fails(pco_tokenizer_open_folder(folder, &t, &err), PCO_ERROR_FORMAT, "'a' and 'b' have the same id 0");
    put_file(folder, "tokenizer.json",
             "{\"added_tokens\": [{\"id\": 1, \"content\": \"c\"}], \"model\": {\"type\": \"WordLevel\", \"vocab\": "
             "{\"a\": 0, \"b\": 1}}}");
    check_fails(pco_tokenizer_open_folder(folder, &t, &err), PCO_ERROR_FORMAT, "'b' and 'c' have the same id 1");
}

/* An expression, a table of SentencePiece or what stands for a blank must not cut characters in two. */
static void json_bytes(void **state)
{
    /* the table has one entry, for "a": in front the size of its trie, 257 units of which three are used, then the
     * string, 0xFF; as base64 */
    static unsigned char table[4 + 4 * 257 + 3];
    static const uint32_t units[][2] = {{0, 1 << 10}, {1 ^ 'a', 1 << 10 | 1 << 8 | 'a'}, {'a', 1u << 31}};
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char folder[200], base64[1600], normalizer[1800], file[4000];
    const uint32_t trie = 4 * 257;
    size_t used = 0, count;
    pco_tokenizer *t;
    int32_t *ids;
    (void)state;
    snprintf(folder, sizeof folder, "%s/json", check_folder);
    check_ok(pco_folder_make(folder, &err));
    static const char *const wrong[] = {
        "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\C\"}, \"behavior\": \"Isolated\"}",
        "{\"type\": \"Metaspace\", \"replacement\": \"\"}", "{\"type\": \"Metaspace\", \"replacement\": \"ab\"}"};
    static const char *const says[] = {"the expression", "the replacement ''", "the replacement 'ab'"};
    for (int i = 0; i < 3; i++) {
        snprintf(file, sizeof file, JSON_BPE("null", "%s"), wrong[i]);
        put_file(folder, "tokenizer.json", file);
        check_fails(pco_tokenizer_open_folder(folder, &t, &err), PCO_ERROR_FORMAT, says[i]);
    }
    /* a letter that is a class behind a backslash */
    put_file(folder, "tokenizer.json",
             "{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"d\", \"prepend_scheme\": \"never\"}, "
             "\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0, \"da\": 1, \"?\": 2, \"1\": 3, \"a1\": 4}, "
             "\"unk_token\": \"?\"}}");
    check_ok(pco_tokenizer_open_folder(folder, &t, &err));
    check_encode(t, "a a1", 0, IDS(0, 2));
    check_encode(t, "a1 a", 0, IDS(4, 1));
    pco_tokenizer_destroy(t);
    memcpy(table, &trie, 4);
    for (int i = 0; i < 3; i++) memcpy(table + 4 + 4 * units[i][0], &units[i][1], 4);
    table[4 + trie] = 0xFF;
    assert_true(sizeof table % 3 == 0);
    for (size_t i = 0; i < sizeof table; i += 3) {
        const uint32_t bits = (uint32_t)(table[i] << 16 | table[i + 1] << 8 | table[i + 2]);
        for (int shift = 18; shift >= 0; shift -= 6) base64[used++] = digits[bits >> shift & 63];
    }
    base64[used] = 0;
    snprintf(normalizer, sizeof normalizer, "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"%s\"}", base64);
    snprintf(file, sizeof file, JSON_BPE("%s", JSON_CUT), normalizer);
    put_file(folder, "tokenizer.json", file);
    check_ok(pco_tokenizer_open_folder(folder, &t, &err));
    check_encode(t, "b", 0, IDS(1));
    check_fails(pco_tokenizer_encode(t, "bab", 3, 0, &ids, &count, &err), PCO_ERROR_FORMAT, "not UTF-8");
    pco_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama),      cmocka_unit_test(llama_long_text),   cmocka_unit_test(refuses_models),
        cmocka_unit_test(gpt2),       cmocka_unit_test(words_of_gpt2),     cmocka_unit_test(characters),
        cmocka_unit_test(trains_bpe), cmocka_unit_test(trains_characters), cmocka_unit_test(folders),
        cmocka_unit_test(marian),     cmocka_unit_test(json_folders),      cmocka_unit_test(bytes_come_back),
        cmocka_unit_test(layouts),    cmocka_unit_test(json_bytes),
    };
    return cmocka_run_group_tests(tests, check_make_folder, check_remove_folder);
}
