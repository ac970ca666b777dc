#include "runtime/quarantine.h"

#include "base/error.h"
#include "base/hash.h"
#include "runtime/cache.h"
#include "runtime/marker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Counts changes of the tests themselves: inputs, tolerances, keys. */
#define QUARANTINE_TESTS "tests 3"

typedef struct quarantine_entry {
    uint64_t key;
    pco_verdict verdict;
    char seen[PCO_QUARANTINE_SEEN];
} quarantine_entry;

struct pco_quarantine {
    const pco_config *config;
    char name[64], marker_name[64]; /* of the blob, and of markers */
    pco_marker marker;
    uint32_t count, capacity;
    quarantine_entry *entries;
    int changed;
};

static uint64_t quarantine_text(uint64_t hash, const char *text)
{
    return pco_hash(hash, text, strlen(text) + 1);
}

static void quarantine_name(pco_quarantine *q, const pco_plugin_entry *plugin, const pco_device_info *info)
{
    uint64_t hash = quarantine_text(PCO_HASH_START, QUARANTINE_TESTS);
    hash = quarantine_text(hash, plugin->name);
    hash = quarantine_text(hash, plugin->plugin->version ? plugin->plugin->version : "");
    hash = pco_hash(hash, &plugin->identity, sizeof plugin->identity);
    hash = quarantine_text(hash, info->name);
    hash = quarantine_text(hash, info->driver);
    hash = quarantine_text(hash, info->platform);
    hash = pco_hash(hash, info->uuid, sizeof info->uuid);
    snprintf(q->name, sizeof q->name, "variants-%016" PRIx64, hash);
    snprintf(q->marker_name, sizeof q->marker_name, "testing-%016" PRIx64, hash);
}

/* Lines "good KEY" and "bad KEY WHAT WAS SEEN". A line that is neither ends the reading: the blob has a
 * checksum, so it is from another version. */
static void quarantine_read(pco_quarantine *q, char *text)
{
    for (char *line = text; *line;) {
        char word[8], *end = line + strcspn(line, "\n");
        uint64_t key;
        int used = 0;
        if (*end) *end++ = 0;
        if (sscanf(line, "%7s %16" SCNx64 "%n", word, &key, &used) != 2) return;
        const int bad = strcmp(word, "bad") == 0;
        if (!bad && strcmp(word, "good") != 0) return;
        const char *seen = bad && line[used] == ' ' ? line + used + 1 : "";
        if (pco_quarantine_add(q, key, bad ? PCO_VERDICT_BAD : PCO_VERDICT_GOOD, seen, NULL)) return;
        line = end;
    }
}

/* Tests that ended their processes. With `fresh` they are forgotten, with the rest. */
static void quarantine_collect(pco_quarantine *q, int fresh)
{
    char what[PCO_QUARANTINE_SEEN];
    const char *known;
    if (pco_marker_collect(q->config->cache_dir, q->marker_name, what, sizeof what) == 0 || fresh) return;
    if (pco_quarantine_find(q, PCO_QUARANTINE_DEVICE, &known) != PCO_VERDICT_UNKNOWN ||
        pco_quarantine_add(q, PCO_QUARANTINE_DEVICE, PCO_VERDICT_BAD, what, NULL))
        return;
    pco_quarantine_save(q);
}

pco_quarantine *pco_quarantine_open(const pco_config *config, const pco_plugin_entry *plugin,
                                    const pco_device_info *info, int fresh)
{
    void *data;
    size_t bytes;
    pco_quarantine *q = calloc(1, sizeof *q);
    if (!q) return NULL;
    q->config = config;
    quarantine_name(q, plugin, info);
    if (!fresh && !pco_cache_load(config->cache_dir, q->name, &data, &bytes)) {
        char *text = calloc(1, bytes + 1);
        if (text) {
            memcpy(text, data, bytes);
            quarantine_read(q, text);
        }
        free(text);
        free(data);
        q->changed = 0;
    }
    quarantine_collect(q, fresh);
    return q;
}

void pco_quarantine_begin(pco_quarantine *q, const char *what)
{
    pco_marker_set(&q->marker, q->config->cache_dir, q->marker_name, what);
}

void pco_quarantine_end(pco_quarantine *q)
{
    pco_marker_clear(&q->marker);
}

void pco_quarantine_close(pco_quarantine *q)
{
    if (!q) return;
    pco_marker_clear(&q->marker);
    free(q->entries);
    free(q);
}

pco_verdict pco_quarantine_find(const pco_quarantine *q, uint64_t key, const char **seen)
{
    for (uint32_t i = 0; i < q->count; i++)
        if (q->entries[i].key == key) {
            *seen = q->entries[i].seen;
            return q->entries[i].verdict;
        }
    return PCO_VERDICT_UNKNOWN;
}

pco_status pco_quarantine_add(pco_quarantine *q, uint64_t key, pco_verdict verdict, const char *seen,
                              pco_error *err)
{
    if (q->count == q->capacity) {
        uint32_t capacity = q->capacity ? 2 * q->capacity : 64;
        quarantine_entry *entries = realloc(q->entries, capacity * sizeof *entries);
        if (!entries)
            return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the self-test");
        q->entries = entries;
        q->capacity = capacity;
    }
    quarantine_entry *entry = &q->entries[q->count++];
    *entry = (quarantine_entry){.key = key, .verdict = verdict};
    snprintf(entry->seen, sizeof entry->seen, "%s", seen);
    for (char *at = entry->seen; *at; at++)
        if (*at == '\n') *at = ' ';
    q->changed = 1;
    return PCO_OK;
}

void pco_quarantine_save(pco_quarantine *q)
{
    if (!q->changed || !*q->config->cache_dir) return;
    const size_t line = PCO_QUARANTINE_SEEN + 32;
    char *text = malloc(q->count * line + 1);
    if (!text) return;
    size_t used = 0;
    for (uint32_t i = 0; i < q->count; i++) {
        const quarantine_entry *entry = &q->entries[i];
        const int bad = entry->verdict == PCO_VERDICT_BAD;
        used += (size_t)snprintf(text + used, line, "%s %016" PRIx64 "%s%s\n", bad ? "bad" : "good",
                                 entry->key, bad ? " " : "", bad ? entry->seen : "");
    }
    if (pco_cache_keep(q->config, q->name, text, used))
        pco_log(q->config, PCO_LOG_DEBUG, "the self-test's verdicts are not kept");
    else
        q->changed = 0;
    free(text);
}
