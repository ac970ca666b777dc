/* Grammars and JSON schemas from anywhere, and texts of bytes that follow them: none may crash, hang or take more
 * memory than is promised. A NUL parts the grammar from the text. With libFuzzer: scripts/fuzz. Alone, it changes
 * grammars of files, the same way each time: fuzz_grammar ROUNDS FILE... */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/grammar.h"

/* What a grammar takes is bounded by how many symbols it has (2^14), and what a text takes by its items (2^22), not by
 * the bytes that say so: ("a"){1000}. */
#define FUZZ_FIXED (64 << 20)
#include "fuzz_files.h"

static unsigned long fuzz_bytes;

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

/* A grammar, and behind a NUL a text. */
static size_t fuzz_change(uint8_t *text, size_t size)
{
    static const char some[] = "{}[]()\"|*+?,:.-\\^ \n0123456789abcx::=";
    size = fuzz_change_signs(text, size, some);
    text[size++] = 0;
    for (uint32_t n = fuzz_below(200); n > 0; n--)
        text[size++] = fuzz_below(4) ? (uint8_t)some[fuzz_below(sizeof some - 1)] : (uint8_t)fuzz_below(256);
    return size;
}

int main(int argc, char **argv)
{
    const int status = fuzz_changed(argc, argv, 0, fuzz_change);
    fprintf(stderr, "%lu bytes followed a grammar\n", fuzz_bytes);
    return status || fuzz_bytes < strtoul(argv[1], NULL, 10) / 20;
}

#endif
