#include "base/suggest.h"

#include <stdio.h>
#include <string.h>

static char suggest_lower(char letter) { return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter; }

static uint32_t suggest_least(uint32_t a, uint32_t b) { return a < b ? a : b; }

uint32_t pco_suggest_distance(const char *a, const char *b)
{
    /* rows of the table of distances between the beginnings of a and b: the last but one, the last, and this one */
    uint32_t rows[3][PCO_SUGGEST_NAME], *before = rows[0], *last = rows[1], *now = rows[2];
    const uint32_t length = (uint32_t)strlen(b);
    for (uint32_t k = 0; k <= length; k++) last[k] = before[k] = k;
    for (uint32_t i = 1; a[i - 1]; i++) {
        now[0] = i;
        for (uint32_t k = 1; k <= length; k++) {
            const char x = suggest_lower(a[i - 1]), y = suggest_lower(b[k - 1]);
            now[k] = suggest_least(suggest_least(last[k], now[k - 1]) + 1, last[k - 1] + (x != y));
            if (i > 1 && k > 1 && x == suggest_lower(b[k - 2]) && y == suggest_lower(a[i - 2]))
                now[k] = suggest_least(now[k], before[k - 2] + 1);
        }
        uint32_t *const oldest = before;
        before = last;
        last = now;
        now = oldest;
    }
    return last[length];
}

void pco_suggest(pco_suggestion *suggestion, const char *word, const char *name)
{
    const char *letters = name + strspn(name, "-");
    word += strspn(word, "-");
    if (strlen(name) >= PCO_SUGGEST_NAME || strlen(word) >= PCO_SUGGEST_NAME) return;
    const uint32_t distance = pco_suggest_distance(word, letters);
    if (distance > PCO_SUGGEST_MOST_WRONG || 2 * distance >= strlen(letters)) return;
    if (*suggestion->name && suggestion->distance <= distance) return;
    snprintf(suggestion->name, sizeof suggestion->name, "%s", name);
    suggestion->distance = distance;
}

const char *pco_suggest_hint(const pco_suggestion *suggestion, char *hint)
{
    *hint = 0;
    if (*suggestion->name) snprintf(hint, PCO_SUGGEST_HINT, " (did you mean '%s'?)", suggestion->name);
    return hint;
}
