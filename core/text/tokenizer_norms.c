/* Normalisation: steps that rewrite text before it is cut into words. Unicode's own forms are utf8proc's. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <inttypes.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

static void norm_put(pco_writer *out, uint32_t codepoint)
{
    char bytes[4];
    pco_write(out, bytes, pco_utf8_encode(codepoint, bytes));
}

int text_is_blank(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static int norm_is_ascii(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] >= 0x80) return 0;
    return 1;
}

/* utf8proc orders marks within what it is given, and characters without a combining class begin anew, so that a text
 * may be cut in front of ASCII and of what is inert. */
static pco_status norm_part(const char *text, size_t size, utf8proc_option_t options, pco_writer *out, pco_error *err)
{
    utf8proc_uint8_t *made = NULL;
    if (!size) return PCO_OK;
    utf8proc_ssize_t length =
        utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, &made, options | UTF8PROC_STABLE);
    if (length < 0) return pco_fail(err, PCO_ERROR_INVALID, "normalisation: %s", utf8proc_errmsg(length));
    pco_write(out, made, (size_t)length);
    free(made);
    return PCO_OK;
}

pco_status text_norm_unicode(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err)
{
    utf8proc_option_t options = norm->flags & TEXT_DECOMPOSED ? UTF8PROC_DECOMPOSE : UTF8PROC_COMPOSE;
    if (norm->flags & TEXT_COMPATIBLE) options |= UTF8PROC_COMPAT;
    pco_status status = PCO_OK;
    for (size_t at = 0, other, length; at < size && !status; at += other) {
        size_t ascii = 0; /* which stays, but that its last character may combine with what follows */
        uint32_t codepoint;
        while (at + ascii < size && (unsigned char)text[at + ascii] < 0x80) ascii++;
        if (at + ascii < size && ascii) ascii--;
        pco_write(out, text + at, ascii);
        at += ascii;
        for (other = 0; at + other < size; other += length) {
            const int is_ascii = (unsigned char)text[at + other] < 0x80;
            if (is_ascii && other && (unsigned char)text[at + other - 1] < 0x80) break;
            length = pco_utf8_decode(text + at + other, size - at - other, &codepoint);
            if (!is_ascii && text_is_inert(codepoint)) break;
        }
        status = norm_part(text + at, other, options, out, err);
        while (at + other < size && (length = pco_utf8_decode(text + at + other, size - at - other, &codepoint)) &&
               text_is_inert(codepoint)) {
            pco_write(out, text + at + other, length);
            other += length;
        }
    }
    return status;
}

/* As Rust's to_lowercase of single characters: one of them becomes two. */
static void norm_put_lower(pco_writer *out, uint32_t codepoint)
{
    if (codepoint == 0x130)
        pco_write_text(out, "i\xCC\x87");
    else
        norm_put(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)codepoint));
}

pco_status text_norm_lowercase(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err)
{
    (void)norm, (void)err;
    uint32_t codepoint;
    for (size_t at = 0; at < size;) {
        at += pco_utf8_decode(text + at, size - at, &codepoint);
        norm_put_lower(out, codepoint);
    }
    return PCO_OK;
}

static void norm_put_without(const char *text, size_t size, int (*is_dropped)(uint32_t codepoint), pco_writer *out)
{
    uint32_t codepoint;
    for (size_t at = 0, length; at < size; at += length) {
        length = pco_utf8_decode(text + at, size - at, &codepoint);
        if (codepoint < 0x300 || !is_dropped(codepoint)) pco_write(out, text + at, length);
    }
}

pco_status text_norm_unaccented(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err)
{
    (void)norm, (void)err;
    norm_put_without(text, size, text_is_mark, out);
    return PCO_OK;
}

pco_status text_norm_replace(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err)
{
    size_t at = 0;
    pco_status status = PCO_OK;
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    if (!match || !context) status = text_no_memory(err);
    if (!status) pcre2_set_match_limit(context, TEXT_MATCH_MOST(size));
    for (size_t from = 0; from <= size && !status;) {
        int found = pcre2_match(norm->pattern, (PCRE2_SPTR)text, size, from, PCRE2_NO_UTF_CHECK, match, context);
        const size_t *bounds = pcre2_get_ovector_pointer(match);
        if (found == PCRE2_ERROR_NOMATCH) break;
        if (found < 0 || bounds[1] < bounds[0] || bounds[0] < from)
            return pcre2_match_data_free(match), pcre2_match_context_free(context),
                   pco_fail(err, PCO_ERROR_INVALID, "the expression of a normalizer fails (error %d of pcre2)", found);
        pco_write(out, text + at, bounds[0] - at);
        pco_write(out, norm->content, norm->content_size);
        at = from = bounds[1];
        if (bounds[1] == bounds[0]) from += from < size ? pco_utf8_decode(text + from, size - from, NULL) : 1;
    }
    if (!status) pco_write(out, text + at, size - at);
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    return status;
}

pco_status text_norm_prepend(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err)
{
    (void)err;
    if (size) pco_write(out, norm->content, norm->content_size);
    pco_write(out, text, size);
    return PCO_OK;
}

pco_status text_norm_strip(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err)
{
    (void)err;
    uint32_t codepoint;
    size_t begin = 0, end = size, length;
    while ((norm->flags & TEXT_LEFT) && (length = pco_utf8_decode(text + begin, size - begin, &codepoint)) &&
           text_is_blank(codepoint))
        begin += length;
    while ((norm->flags & TEXT_RIGHT) && end > begin) {
        length = 1;
        while (((unsigned char)text[end - length] & 0xC0) == 0x80) length++;
        pco_utf8_decode(text + end - length, length, &codepoint);
        if (!text_is_blank(codepoint)) break;
        end -= length;
    }
    pco_write(out, text + begin, end - begin);
    return PCO_OK;
}

pco_status text_norm_nmt(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err)
{
    (void)norm, (void)err;
    for (size_t at = 0; at < size;) {
        uint32_t c;
        at += pco_utf8_decode(text + at, size - at, &c);
        int dropped = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
        int blank = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                    c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
        if (!dropped) norm_put(out, blank ? ' ' : c);
    }
    return PCO_OK;
}

/* ---- BERT's (Devlin et al. 2019): control characters go, blanks are spaces, Chinese characters stand alone ---- */

static int norm_is_chinese(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

pco_status text_norm_bert(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err)
{
    pco_writer clean = {0}, decomposed = {0};
    pco_status status = PCO_OK;
    for (size_t at = 0; at < size;) {
        uint32_t c;
        at += pco_utf8_decode(text + at, size - at, &c);
        if ((norm->flags & TEXT_CLEAN) && (c == 0 || c == 0xFFFD || text_is_control(c))) continue;
        if ((norm->flags & TEXT_CLEAN) && text_is_blank(c)) c = ' ';
        int alone = (norm->flags & TEXT_CHINESE) && norm_is_chinese(c);
        if (alone) pco_write_char(&clean, ' ');
        norm_put(&clean, c);
        if (alone) pco_write_char(&clean, ' ');
    }
    if ((norm->flags & TEXT_ACCENTS) && clean.size && !norm_is_ascii(clean.data, clean.size)) {
        const text_norm nfd = {.flags = TEXT_DECOMPOSED};
        status = text_norm_unicode(&nfd, clean.data, clean.size, &decomposed, err);
        clean.size = 0;
        if (!status && decomposed.size) norm_put_without(decomposed.data, decomposed.size, text_is_nonspacing, &clean);
    }
    if (!status && clean.size && (norm->flags & TEXT_LOWER))
        status = text_norm_lowercase(norm, clean.data, clean.size, out, err);
    else if (!status && clean.size)
        pco_write(out, clean.data, clean.size);
    if (!status) status = pco_writer_check(&clean, "normalised text", err);
    if (!status) status = pco_writer_check(&decomposed, "normalised text", err);
    pco_writer_release(&clean);
    pco_writer_release(&decomposed);
    return status;
}

pco_status text_norm_spell(const text_norm *norm, const char *text, size_t size, pco_writer *out, pco_error *err)
{
    (void)norm, (void)err;
    for (size_t i = 0; i < size; i++) {
        char spelled[4];
        text_gpt2_spell((unsigned char)text[i], spelled);
        pco_write_text(out, spelled);
    }
    return PCO_OK;
}

/* ---- the list ---- */

void text_release_norm(const text_norm *norm)
{
    pcre2_code_free(norm->pattern);
    free(norm->content);
    free(norm->charsmap);
}

pco_status text_add_norm(pco_tokenizer *tokenizer, const text_norm *norm, const char *label, pco_error *err)
{
    if (tokenizer->norm_count < TEXT_NORMS_MOST) {
        tokenizer->norms[tokenizer->norm_count++] = *norm;
        return PCO_OK;
    }
    text_release_norm(norm);
    return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: more than %d steps of normalisation are not supported", label,
                    TEXT_NORMS_MOST);
}

void text_release_norms(pco_tokenizer *tokenizer)
{
    for (uint32_t i = 0; i < tokenizer->norm_count; i++) text_release_norm(&tokenizer->norms[i]);
}

pco_status text_normalize(const pco_tokenizer *tokenizer, const char *text, size_t size, pco_writer *out,
                          const char **made, size_t *made_size, pco_error *err)
{
    pco_writer before = {0};
    pco_status status = PCO_OK;
    *made = text;
    *made_size = size;
    for (uint32_t i = 0; i < tokenizer->norm_count && !status; i++) {
        const text_norm *norm = &tokenizer->norms[i];
        if (norm->apply == text_norm_unicode && norm_is_ascii(*made, *made_size)) continue;
        pco_writer swap = before; /* which held the text before the last step */
        before = *out;
        *out = swap;
        out->size = 0;
        status = norm->apply(norm, *made, *made_size, out, err);
        if (!status) status = pco_writer_check(out, "normalised text", err);
        if (!status && pco_utf8_check(out->data, out->size) != out->size) /* all that follows takes UTF-8 for granted */
            status = pco_fail(err, PCO_ERROR_FORMAT,
                              "step %" PRIu32 " of the tokenizer's normalizer makes bytes that are not UTF-8", i);
        if (!status && out->size > TEXT_SIZE_MOST)
            status = pco_fail(err, PCO_ERROR_INVALID, "normalised, the text is too long to encode at once; cut it");
        *made = out->size ? out->data : "";
        *made_size = out->size;
    }
    pco_writer_release(&before);
    return status;
}
