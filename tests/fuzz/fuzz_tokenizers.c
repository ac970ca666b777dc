/* Tokenizers from files of anybody: a tokenizer.json (begins with '{'), a model of SentencePiece (with a line feed, the
 * first field of its message) or a folder of small files (else: each begins with the byte 0x1E, its name and a line
 * end). None may crash, hang or read out of bounds, also when a text is encoded with what was read.
 * fuzz_tokenizers ROUNDS FILE ...: every file, then ROUNDS times one of them with a few bytes changed, the same way
 * each time. With libFuzzer: scripts/fuzz. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/philox.h"
#include "text/tokenizer_kinds.h"
#include "fuzz_files.h"

static const char *const FUZZ_NAMES[] = {
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt", "vocab.txt",
    "tokenizer.model",       "tokenizer.json"};
enum { FUZZ_NAMES_COUNT = sizeof FUZZ_NAMES / sizeof *FUZZ_NAMES };

static void fuzz_use(const pco_tokenizer *tokenizer, const char *more, size_t more_size)
{
    static const char fixed[] = "<s> Hello,  w\xC3\xB6rld \xFF\n's 12<|end|>ab e\xCC\x81\xE6\x9D\xB1\xEA\xB0\x80 ";
    pco_error err;
    char text[256];
    size_t size = sizeof fixed - 1;
    memcpy(text, fixed, size);
    if (more_size > sizeof text - size) more_size = sizeof text - size;
    memcpy(text + size, more, more_size);
    for (uint32_t flags = 0; flags < 8; flags += 7) {
        int32_t *ids;
        size_t count, back_size;
        char *back;
        if (pco_tokenizer_encode(tokenizer, text, size + more_size, flags, &ids, &count, &err)) continue;
        if (pco_tokenizer_decode(tokenizer, ids, count, &back, &back_size, &err)) abort();
        free(back);
        free(ids);
    }
}

static void fuzz_folder(const uint8_t *data, size_t size)
{
    char folder[64], path[128];
    pco_tokenizer *tokenizer;
    pco_error err;
    snprintf(folder, sizeof folder, "/dev/shm/portico-fuzz-%d", (int)getpid());
    if (mkdir(folder, 0700) != 0) return;
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at + 1, 0x1E, size - at - 1);
        const size_t length = end ? (size_t)(end - data) - at : size - at;
        const char *text = (const char *)data + at + 1;
        for (int i = 0; i < FUZZ_NAMES_COUNT && length > 1; i++) {
            const size_t name = strlen(FUZZ_NAMES[i]);
            if (length < name + 2 || memcmp(text, FUZZ_NAMES[i], name) != 0 || text[name] != '\n') continue;
            snprintf(path, sizeof path, "%s/%s", folder, FUZZ_NAMES[i]);
            FILE *out = fopen(path, "wb");
            if (!out || fwrite(text + name + 1, 1, length - name - 2, out) != length - name - 2) abort();
            fclose(out);
        }
        at += length;
    }
    if (!pco_tokenizer_open_folder(folder, &tokenizer, &err)) {
        fuzz_use(tokenizer, (const char *)data, size);
        pco_tokenizer_destroy(tokenizer);
    }
    for (int i = 0; i < FUZZ_NAMES_COUNT; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, FUZZ_NAMES[i]);
        unlink(path);
    }
    rmdir(folder);
}

static int fuzz_input(const uint8_t *data, size_t size)
{
    pco_tokenizer *tokenizer = NULL;
    pco_error err;
    cJSON *root = NULL;
    if (!size) return 0;
    if (*data == '{') {
        if (!pco_json_parse((const char *)data, size, "fuzz", &root, &err))
            (void)!text_json_tokenizer(root, "fuzz", &tokenizer, &err);
        cJSON_Delete(root);
    } else if (*data == '\n') {
        (void)!text_sentence_model(data, size, NULL, "fuzz", &tokenizer, &err);
    } else if (*data == 0x1E) {
        fuzz_folder(data, size);
    }
    if (tokenizer) fuzz_use(tokenizer, (const char *)data, size);
    pco_tokenizer_destroy(tokenizer);
    return 0;
}

#ifndef PCO_LIBFUZZER

static void fuzz_one(const pco_map *seed, uint64_t round)
{
    uint8_t *copy = malloc(seed->size + !seed->size);
    if (!copy) abort();
    if (seed->size) memcpy(copy, seed->data, seed->size);
    for (uint32_t i = 0; round && i < 1 + round % 5 && seed->size > 1; i++) {
        const pco_philox bits = pco_philox4x32_10((pco_philox){{(uint32_t)round, i, 0, 0}}, 3);
        uint8_t *byte = &copy[1 + bits.word[0] % (seed->size - 1)];
        *byte = bits.word[1] & 1 ? (uint8_t)bits.word[2] : copy[bits.word[3] % seed->size];
    }
    fuzz_exact(copy, seed->size);
    free(copy);
}

int main(int argc, char **argv)
{
    const unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    for (int i = 2; i < argc; i++) {
        pco_map map;
        pco_error err;
        if (pco_map_open(argv[i], &map, &err)) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        for (unsigned long round = 0; round <= rounds / (unsigned long)(argc - 2); round++) fuzz_one(&map, round);
        pco_map_close(&map);
    }
    fprintf(stderr, "%d files, %lu changed ones: nothing crashed\n", argc - 2, rounds);
    return argc < 3;
}

#endif
