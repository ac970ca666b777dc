#include "train/bleu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

static pco_status bleu_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for BLEU");
}

/* ---- 13a ---- */

static int bleu_digit(char c) { return c >= '0' && c <= '9'; }

/* ASCII signs that always stand alone: all but . , - ' and letters and digits. */
static int bleu_sign(char c)
{
    return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
           (c >= ':' && c <= '@') || c == '/';
}

static int bleu_point(char c) { return c == '.' || c == ','; }

/* Bytes of the white space at the start of text[size], 0 for none: what Unicode calls so, as in str.split. */
static size_t bleu_space(const char *text, size_t size)
{
    uint32_t c;
    size_t length = pco_utf8_decode(text, size, &c);
    int space = (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
                (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
    return length && space ? length : 0;
}

/* A text that grows. The first pass makes three bytes of one at most, the others four of two: room for 24
 * times the line is always enough. */
typedef struct bleu_text {
    char *data;
    size_t size;
} bleu_text;

static void bleu_put(bleu_text *out, const char *text, size_t size)
{
    memcpy(out->data + out->size, text, size);
    out->size += size;
}

/* Replaces every `from`, left to right. */
static void bleu_replace(bleu_text *text, const char *from, const char *to)
{
    const size_t length = strlen(from), other = strlen(to);
    size_t kept = 0;
    for (size_t at = 0; at < text->size;) {
        int found = text->size - at >= length && memcmp(text->data + at, from, length) == 0;
        if (found)
            memcpy(text->data + kept, to, other), kept += other, at += length;
        else
            text->data[kept++] = text->data[at++];
    }
    text->size = kept;
}

/* The four passes of mteval-v13a, in order: signs alone; . and , behind what is no digit; . and , before what
 * is no digit; - behind a digit. In each, matches do not overlap. */
static void bleu_pass(const bleu_text *in, bleu_text *out, int pass)
{
    const char *t = in->data;
    out->size = 0;
    for (size_t i = 0; i < in->size; i++) {
        const int two = i + 1 < in->size;
        if (pass == 0 && bleu_sign(t[i])) {
            bleu_put(out, (char[]){' ', t[i], ' '}, 3);
        } else if (pass == 1 && two && !bleu_digit(t[i]) && bleu_point(t[i + 1])) {
            bleu_put(out, (char[]){t[i], ' ', t[i + 1], ' '}, 4);
            i++;
        } else if (pass == 2 && two && bleu_point(t[i]) && !bleu_digit(t[i + 1])) {
            bleu_put(out, (char[]){' ', t[i], ' ', t[i + 1]}, 4);
            i++;
        } else if (pass == 3 && two && bleu_digit(t[i]) && t[i + 1] == '-') {
            bleu_put(out, (char[]){t[i], ' ', '-', ' '}, 4);
            i++;
        } else {
            bleu_put(out, &t[i], 1);
        }
    }
}

/* Words with one space between them. */
static void bleu_join(const bleu_text *in, char *out)
{
    size_t size = 0;
    for (size_t i = 0; i < in->size;) {
        size_t space = bleu_space(in->data + i, in->size - i);
        if (space) {
            if (size && out[size - 1] != ' ') out[size++] = ' ';
            i += space;
        } else {
            out[size++] = in->data[i++];
        }
    }
    while (size && out[size - 1] == ' ') size--;
    out[size] = 0;
}

pco_status pco_bleu_tokenize(const char *line, char **tokens, pco_error *err)
{
    const size_t size = strlen(line), room = 24 * size + 64;
    bleu_text a = {malloc(room), 0}, b = {malloc(room), 0};
    *tokens = malloc(room);
    if (!a.data || !b.data || !*tokens) {
        free(a.data);
        free(b.data);
        free(*tokens);
        *tokens = NULL;
        return bleu_no_memory(err);
    }
    bleu_put(&a, " ", 1);
    bleu_put(&a, line, size);
    bleu_replace(&a, "<skipped>", "");
    bleu_replace(&a, "-\n", "");
    bleu_replace(&a, "\n", " ");
    bleu_replace(&a, "&quot;", "\"");
    bleu_replace(&a, "&amp;", "&");
    bleu_replace(&a, "&lt;", "<");
    bleu_replace(&a, "&gt;", ">");
    bleu_put(&a, " ", 1);
    for (int pass = 0; pass < 4; pass++) {
        bleu_pass(&a, &b, pass);
        bleu_text kept = a;
        a = b;
        b = kept;
    }
    bleu_join(&a, *tokens);
    free(a.data);
    free(b.data);
    return PCO_OK;
}

/* ---- counting ---- */

/* The words of a tokenized line: pointers into it. */
typedef struct bleu_words {
    char *text;
    const char **word;
    uint32_t *size;
    uint32_t count;
} bleu_words;

static void bleu_release(bleu_words *words)
{
    free(words->text);
    free(words->word);
    free(words->size);
}

static pco_status bleu_split(const char *line, bleu_words *words, pco_error *err)
{
    *words = (bleu_words){0};
    pco_status status = pco_bleu_tokenize(line, &words->text, err);
    if (status) return status;
    size_t most = strlen(words->text) / 2 + 2;
    words->word = malloc(most * sizeof *words->word);
    words->size = malloc(most * sizeof *words->size);
    if (!words->word || !words->size) return bleu_no_memory(err);
    for (const char *at = words->text; *at; at += *at == ' ') {
        words->word[words->count] = at;
        words->size[words->count] = (uint32_t)strcspn(at, " ");
        at += words->size[words->count++];
    }
    return PCO_OK;
}

static int bleu_same(const bleu_words *a, uint32_t i, const bleu_words *b, uint32_t k, uint32_t order)
{
    for (uint32_t n = 0; n < order; n++)
        if (a->size[i + n] != b->size[k + n] || memcmp(a->word[i + n], b->word[k + n], a->size[i + n]) != 0) return 0;
    return 1;
}

/* How often the n-gram that begins at `i` of `a` is in the first `end` n-grams of `b`. */
static uint32_t bleu_count(const bleu_words *a, uint32_t i, const bleu_words *b, uint32_t end, uint32_t order)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < end; k++) count += (uint32_t)bleu_same(a, i, b, k, order);
    return count;
}

static uint32_t bleu_grams(const bleu_words *words, uint32_t order)
{
    return words->count >= order ? words->count - order + 1 : 0;
}

/* An n-gram matches as often as the reference that has it most often has it. */
static void bleu_matches(pco_bleu *bleu, const bleu_words *hypothesis, const bleu_words *references, uint32_t count)
{
    for (uint32_t order = 1; order <= PCO_BLEU_ORDER; order++) {
        const uint32_t grams = bleu_grams(hypothesis, order);
        bleu->totals[order - 1] += grams;
        for (uint32_t i = 0; i < grams; i++) {
            uint32_t most = 0, before = bleu_count(hypothesis, i, hypothesis, i, order);
            for (uint32_t r = 0; r < count; r++) {
                uint32_t here = bleu_count(hypothesis, i, &references[r], bleu_grams(&references[r], order), order);
                if (here > most) most = here;
            }
            bleu->matches[order - 1] += before < most;
        }
    }
}

pco_status pco_bleu_add(pco_bleu *bleu, const char *hypothesis, const char *const *references, uint32_t count,
                        pco_error *err)
{
    bleu_words words, *others = calloc(count, sizeof *others);
    if (!others) return bleu_no_memory(err);
    pco_status status = bleu_split(hypothesis, &words, err);
    for (uint32_t r = 0; r < count && !status; r++) status = bleu_split(references[r], &others[r], err);
    if (!status) {
        int64_t closest = -1, best = 0;
        for (uint32_t r = 0; r < count; r++) { /* of equally close ones the shorter */
            int64_t length = others[r].count, away = llabs(length - (int64_t)words.count);
            if (closest < 0 || away < best || (away == best && length < closest)) closest = length, best = away;
        }
        bleu_matches(bleu, &words, others, count);
        bleu->length += words.count;
        bleu->reference_length += closest;
    }
    for (uint32_t r = 0; r < count; r++) bleu_release(&others[r]);
    bleu_release(&words);
    free(others);
    return status;
}

double pco_bleu_score(const pco_bleu *bleu, double *brevity, double precisions[PCO_BLEU_ORDER])
{
    const double length = (double)bleu->length, reference = (double)bleu->reference_length;
    double penalty = bleu->length >= bleu->reference_length ? 1 : bleu->length ? exp(1 - reference / length) : 0;
    double sum = 0, smooth = 1;
    int none = 1, whole = 1;
    for (int n = 0; n < PCO_BLEU_ORDER; n++) {
        double precision = 0;
        none &= bleu->matches[n] == 0;
        if (bleu->totals[n] == 0)
            whole = 0; /* too short for n-grams of this order anywhere */
        else if (bleu->matches[n] == 0)
            precision = 100 / ((smooth *= 2) * (double)bleu->totals[n]);
        else
            precision = 100 * (double)bleu->matches[n] / (double)bleu->totals[n];
        if (precisions) precisions[n] = precision;
        sum += precision > 0 ? log(precision) : 0;
    }
    if (brevity) *brevity = penalty;
    return none || !whole ? 0 : penalty * exp(sum / PCO_BLEU_ORDER);
}
