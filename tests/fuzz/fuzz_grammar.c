/* Grammars and JSON schemas from anywhere, and texts of bytes that follow them: none may crash, hang or take more
 * memory than is promised. A NUL parts the grammar from the text. With libFuzzer: scripts/fuzz. Alone, it changes
 * grammars of files, the same way each time: fuzz_grammar ROUNDS FILE... */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "text/grammar.h"

/* What a grammar takes is bounded by how many symbols it has (2^14), and what a text takes by its items (2^22), not by
 * the bytes that say so: ("a"){1000}. */
#define FUZZ_FIXED (64 << 20)
#include "fuzz_limits.h"

static unsigned long fuzz_parsed, fuzz_bytes;

static int fuzz_input(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    const size_t length = nul ? (size_t)(nul - data) : size;
    pco_grammar *grammar;
    pco_grammar_text *text;
    pco_error err;
    const int schema = length && *data == '{';
    if (schema ? pco_grammar_of_schema((const char *)data, length, "fuzz", &grammar, &err)
               : pco_grammar_parse((const char *)data, length, "fuzz", &grammar, &err))
        return 0;
    fuzz_parsed++;
    if (!pco_grammar_begin(grammar, &text, &err)) {
        for (size_t i = length; i < size && i < length + 300; i++) {
            int allowed;
            const size_t before = pco_grammar_size(text);
            if (pco_grammar_push(text, data[i], &allowed, &err)) break;
            if (pco_grammar_size(text) != before + (allowed != 0)) abort();
            fuzz_bytes += allowed != 0;
            (void)pco_grammar_complete(text);
            if (i % 7 == 0) pco_grammar_cut(text, pco_grammar_size(text) / 2);
        }
        pco_grammar_end(text);
    }
    pco_grammar_destroy(grammar);
    return 0;
}

#ifndef PCO_LIBFUZZER

static uint32_t fuzz_below(uint32_t count)
{
    static uint32_t step;
    return pco_philox4x32_10((pco_philox){{step++, 0, 0, 0}}, 3).word[0] % count;
}

int main(int argc, char **argv)
{
    enum { MOST = 8192 };
    static const char some[] = "{}[]()\"|*+?,:.-\\^ \n0123456789abcx::=";
    static uint8_t files[16][MOST], text[2 * MOST];
    size_t sizes[16];
    const int count = argc - 2 < 16 ? argc - 2 : 16;
    const long rounds = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
    if (rounds < 1) return 2;
    for (int i = 0; i < count; i++) {
        FILE *in = fopen(argv[i + 2], "rb");
        if (!in) return 2;
        sizes[i] = fread(files[i], 1, MOST, in);
        fclose(in);
    }
    for (long round = 0; round < rounds; round++) {
        const uint32_t which = fuzz_below((uint32_t)count);
        size_t size = sizes[which];
        memcpy(text, files[which], size);
        for (uint32_t n = fuzz_below(6); n > 0 && size > 40; n--) {
            const uint32_t at = fuzz_below((uint32_t)size), from = fuzz_below((uint32_t)size - 30),
                           kind = fuzz_below(4);
            if (kind == 0) text[at] = (uint8_t)some[fuzz_below(sizeof some - 1)];
            if (kind == 1) text[at] = (uint8_t)fuzz_below(256);
            if (kind == 2 && at + 30 < size) memmove(text + at, text + from, fuzz_below(30));
            if (kind == 3) memmove(text + at, text + at + 1, --size - at);
        }
        text[size++] = 0;
        for (uint32_t n = fuzz_below(200); n > 0; n--)
            text[size++] = fuzz_below(4) ? (uint8_t)some[fuzz_below(sizeof some - 1)] : (uint8_t)fuzz_below(256);
        LLVMFuzzerTestOneInput(text, size);
    }
    printf("%ld grammars, of which %lu were read, and %lu bytes followed\n", rounds, fuzz_parsed, fuzz_bytes);
    return fuzz_parsed > (unsigned long)rounds / 20 && fuzz_bytes > (unsigned long)rounds / 20 ? 0 : 1;
}

#endif
