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
    uint64_t testing; /* the key of what it says */
    uint32_t count, capacity;
    quarantine_entry *entries;
    int changed;
};

static uint64_t quarantine_text(uint64_t hash, const char *text) { return pco_hash(hash, text, strlen(text) + 1); }

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

/* What a line begins with; the others are the caller's business. */
static const char *const QUARANTINE_WORDS[] = {
    [PCO_VERDICT_GOOD] = "good", [PCO_VERDICT_BAD] = "bad", [PCO_VERDICT_ONCE] = "once"};

static pco_verdict quarantine_verdict(const char *word)
{
    for (int v = PCO_VERDICT_GOOD; v <= PCO_VERDICT_ONCE; v++)
        if (strcmp(word, QUARANTINE_WORDS[v]) == 0) return (pco_verdict)v;
    return PCO_VERDICT_UNKNOWN;
}

/* Lines "good KEY", "bad KEY WHAT WAS SEEN" and "once KEY TEST". A line that is none of them ends the reading: the blob
 * has a checksum, so it is from another version. */
static void quarantine_read(pco_quarantine *q, char *text)
{
    for (char *line = text; *line;) {
        char word[8], *end = line + strcspn(line, "\n");
        uint64_t key;
        int used = 0;
        if (*end) *end++ = 0;
        if (sscanf(line, "%7s %16" SCNx64 "%n", word, &key, &used) != 2) return;
        const pco_verdict verdict = quarantine_verdict(word);
        if (verdict == PCO_VERDICT_UNKNOWN) return;
        if (pco_quarantine_add(q, key, verdict, line[used] == ' ' ? line + used + 1 : "", NULL)) return;
        line = end;
    }
}

/* The test of a process that is gone. What is found now may have been ended together, so it counts once. */
typedef struct quarantine_gone {
    pco_quarantine *q;
    const char *device;
    uint32_t known; /* entries before */
    int fresh;      /* all of that is forgotten, with the rest */
} quarantine_gone;

static quarantine_entry *quarantine_entry_of(pco_quarantine *q, uint64_t key)
{
    for (uint32_t i = 0; i < q->count; i++)
        if (q->entries[i].key == key) return &q->entries[i];
    return NULL;
}

static void quarantine_take(void *user, const char *what)
{
    const quarantine_gone *gone = user;
    pco_quarantine *q = gone->q;
    const uint64_t key = quarantine_text(PCO_HASH_START, what);
    const quarantine_entry *before = quarantine_entry_of(q, key);
    if (gone->fresh || quarantine_entry_of(q, PCO_QUARANTINE_DEVICE)) return;
    if (before && before >= q->entries + gone->known) return; /* found just now, too */
    if (before) {
        if (pco_quarantine_add(q, PCO_QUARANTINE_DEVICE, PCO_VERDICT_BAD, what, NULL)) return;
    } else if (pco_quarantine_add(q, key, PCO_VERDICT_ONCE, what, NULL) == PCO_OK) {
        pco_log_line(
            q->config, PCO_LOG_WARNING,
            "%s: a process ended in the self-test of %s, killed by the driver or from outside; it is tested once "
            "more, and the device is not used any more if a process ends there again",
            gone->device, what);
    }
}

static void quarantine_collect(pco_quarantine *q, const pco_device_info *info, int fresh)
{
    quarantine_gone gone = {q, info->name, q->count, fresh};
    pco_marker_collect(q->config->cache_dir, q->marker_name, quarantine_take, &gone);
    if (q->count > gone.known) pco_quarantine_save(q);
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
    quarantine_collect(q, info, fresh);
    return q;
}

void pco_quarantine_begin(pco_quarantine *q, const char *what)
{
    q->testing = quarantine_text(PCO_HASH_START, what);
    pco_marker_set(&q->marker, q->config->cache_dir, q->marker_name, what);
}

void pco_quarantine_end(pco_quarantine *q)
{
    quarantine_entry *once = quarantine_entry_of(q, q->testing);
    pco_marker_clear(&q->marker);
    if (!once || once->verdict != PCO_VERDICT_ONCE) return;
    *once = q->entries[--q->count]; /* it ended by itself this time */
    q->changed = 1;
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

pco_status pco_quarantine_add(pco_quarantine *q, uint64_t key, pco_verdict verdict, const char *seen, pco_error *err)
{
    if (q->count == q->capacity) {
        uint32_t capacity = q->capacity ? 2 * q->capacity : 64;
        quarantine_entry *entries = realloc(q->entries, capacity * sizeof *entries);
        if (!entries) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the self-test");
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
        const char *gap = *entry->seen ? " " : "";
        used += (size_t)snprintf(text + used, line, "%s %016" PRIx64 "%s%s\n", QUARANTINE_WORDS[entry->verdict],
                                 entry->key, gap, entry->seen);
    }
    if (pco_cache_keep(q->config, q->name, text, used))
        pco_log_line(q->config, PCO_LOG_DEBUG, "the self-test's verdicts are not kept");
    else
        q->changed = 0;
    free(text);
}
