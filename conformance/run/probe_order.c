/* The order of a sum, from probes: Xie, Gao and Xu, "FPRev: Revealing the Order of Floating-Point Summation",
 * 2024 (arXiv 2411.00442). With +M at term i, -M at term j and 1 elsewhere, a 1 is lost when it is added to a
 * partial sum that holds one of the two. So what comes out is the number of terms that were not yet added up
 * when they met; this is one figure of the tree of additions for each pair, and together they give the tree.
 */
#include "run/probe.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Terms base, base + step, ... base + (count - 1) * step, each of which stands for `unit` terms. */
typedef struct conf_order_view {
    conf_probe_leaves *leaves;
    uint32_t base, step, count, unit;
} conf_order_view;

/* How many of the view's members have been added up when members i and j meet; 0 where it is no whole number.
 */
static uint32_t conf_order_at(const conf_order_view *view, uint32_t i, uint32_t j)
{
    const uint32_t a = view->base + view->step * (i < j ? i : j), b = view->base + view->step * (i < j ? j : i);
    const uint32_t n = (*view->leaves)[a][b];
    return n % view->unit ? 0 : n / view->unit;
}

/* ---- orders that have a name ---- */

static uint32_t conf_order_forwards(uint32_t i, uint32_t j, uint32_t n)
{
    (void)n;
    return (i < j ? j : i) + 1;
}
static uint32_t conf_order_backwards(uint32_t i, uint32_t j, uint32_t n) { return n - (i < j ? i : j); }
/* Neighbours first: the smallest aligned block that holds both. */
static uint32_t conf_order_pairwise(uint32_t i, uint32_t j, uint32_t n)
{
    uint32_t size = 1;
    (void)n;
    while (i / size != j / size) size *= 2;
    return size;
}
/* Halves first: term i meets i + n/2, then i + n/4. */
static uint32_t conf_order_halves(uint32_t i, uint32_t j, uint32_t n)
{
    uint32_t size = n, step = 1;
    for (; (i ^ j) % (2 * step) == 0; step *= 2) size /= 2;
    return size;
}
static uint32_t conf_order_at_once(uint32_t i, uint32_t j, uint32_t n)
{
    (void)i, (void)j;
    return n;
}

static const struct conf_order_name {
    const char *words;
    uint32_t (*leaves)(uint32_t i, uint32_t j, uint32_t n);
} ORDERS[] = {{"in order", conf_order_forwards},
              {"backwards", conf_order_backwards},
              {"neighbours first", conf_order_pairwise},
              {"halves first", conf_order_halves},
              {"at once", conf_order_at_once}};

static const char *conf_order_name(const conf_order_view *view)
{
    if (view->count == 2) return conf_order_at(view, 0, 1) == 2 ? "in order" : NULL;
    for (size_t k = 0; k < sizeof ORDERS / sizeof *ORDERS; k++) {
        bool fits = true;
        for (uint32_t i = 0; i < view->count && fits; i++)
            for (uint32_t j = i + 1; j < view->count && fits; j++)
                fits = conf_order_at(view, i, j) == ORDERS[k].leaves(i, j, view->count);
        if (fits) return ORDERS[k].words;
    }
    return NULL;
}

/* ---- orders in parts ---- */

/* Is the view made of parts of `size` members, which meet as wholes? `lanes`: part g holds g, g + parts, ...
 * ; else neighbours. */
static bool conf_order_has_parts(const conf_order_view *view, uint32_t size, bool lanes)
{
    const uint32_t parts = view->count / size;
    for (uint32_t i = 0; i < view->count; i++)
        for (uint32_t j = i + 1; j < view->count; j++) {
            const uint32_t a = lanes ? i % parts : i / size, b = lanes ? j % parts : j / size;
            const uint32_t n = conf_order_at(view, i, j), first = lanes ? 1 : size;
            if (n == 0 || (a == b && n > size) || (a != b && n % size)) return false;
            if (a != b && n != conf_order_at(view, a * first, b * first)) return false;
        }
    return true;
}

static bool conf_order_describe(const conf_order_view *view, char *text, size_t size);

static bool conf_order_parts(const conf_order_view *view, uint32_t size, bool lanes, char *text, size_t room)
{
    const uint32_t parts = view->count / size;
    char inner[200] = "", outer[200];
    if (!conf_order_has_parts(view, size, lanes)) return false;
    for (uint32_t g = 0; g < parts; g++) {
        char words[200];
        const conf_order_view part = {view->leaves, view->base + view->step * (lanes ? g : g * size),
                                      view->step * (lanes ? parts : 1), size, view->unit};
        if (!conf_order_describe(&part, words, sizeof words)) return false;
        if (g == 0)
            snprintf(inner, sizeof inner, "%s", words);
        else if (strcmp(inner, words) != 0)
            return false;
    }
    const conf_order_view whole = {view->leaves, view->base, view->step * (lanes ? 1 : size), parts, view->unit * size};
    if (!conf_order_describe(&whole, outer, sizeof outer)) return false;
    snprintf(text, room, "%" PRIu32 " %s of %" PRIu32 " %s; these %s", parts, lanes ? "lanes" : "blocks", size, inner,
             outer);
    return true;
}

static bool conf_order_describe(const conf_order_view *view, char *text, size_t size)
{
    const char *name = conf_order_name(view);
    if (name) {
        snprintf(text, size, "%s", name);
        return true;
    }
    for (uint32_t part = 2; part <= view->count / 2; part *= 2) {
        if (view->count % part) continue;
        if (conf_order_parts(view, part, true, text, size) || conf_order_parts(view, part, false, text, size))
            return true;
    }
    return false;
}

/* Of three pairs among three terms the two that meet last meet at the same addition. */
static bool conf_order_is_tree(conf_probe_leaves leaves)
{
    for (uint32_t i = 0; i < CONF_PROBE_TERMS; i++)
        for (uint32_t j = i + 1; j < CONF_PROBE_TERMS; j++)
            for (uint32_t k = j + 1; k < CONF_PROBE_TERMS; k++) {
                const uint32_t a = leaves[i][j], b = leaves[i][k], c = leaves[j][k];
                const uint32_t most = a > b ? (a > c ? a : c) : b > c ? b : c;
                if ((a == most) + (b == most) + (c == most) < 2) return false;
            }
    return true;
}

void conf_probe_order(conf_probe_leaves leaves, char *text, size_t size)
{
    const conf_order_view all = {(conf_probe_leaves *)leaves, 0, 1, CONF_PROBE_TERMS, 1};
    if (conf_order_describe(&all, text, size)) return;
    uint64_t hash = PCO_HASH_START;
    for (uint32_t i = 0; i + 1 < CONF_PROBE_TERMS; i++)
        hash = pco_hash(hash, &leaves[i][i + 1], CONF_PROBE_TERMS - 1 - i);
    snprintf(text, size, "%s #%08" PRIx32, conf_order_is_tree(leaves) ? "in a tree without a name" : "in no fixed tree",
             (uint32_t)(hash ^ hash >> 32));
}
