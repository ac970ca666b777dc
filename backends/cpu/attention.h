/* What the variants of attention in cpu:native share: which keys a row sees, and softmax over blocks of keys
 * that arrive one after the other. Blocks begin at multiples of CPU_KEYS whatever the rows, so that a row
 * gives the same bits alone and in a batch. */
#ifndef CPU_ATTENTION_H
#define CPU_ATTENTION_H

#include "run.h"

enum { CPU_KEYS = 128 };

/* One query: sequence, head, row; the keys that length, causality and window let it see. */
typedef struct cpu_query {
    int64_t b, h, s;
    int64_t low, high; /* low <= j < high; low <= high */
} cpu_query;

/* Softmax so far: the largest score and the sum of exp(score - most). */
typedef struct cpu_online {
    float most, sum;
} cpu_online;

cpu_query cpu_query_of(const cpu_node *node, int64_t b, int64_t h, int64_t s);

/* Query row `r` of those that share key head g: heads of the group outermost. */
cpu_query cpu_query_of_group(const cpu_node *node, int64_t b, int64_t g, int64_t r);

/* Loads a query times the scale. */
void cpu_query_load(const cpu_node *node, const cpu_query *query, float *to);

/* Stores y = o / sum; zeros where no key was seen. */
void cpu_query_store(const cpu_node *node, const cpu_query *query, float *o, float sum);

/* Scores of keys first .. first+n-1 become capped and masked: -inf where not seen. Returns true if all are
 * seen, and does then not write `seen`. */
bool cpu_query_mask(const cpu_node *node, const cpu_query *query, int64_t first, int64_t n, float *scores,
                    unsigned char *seen);

/* Takes a block of scores in: they become weights relative to online->most; o is rescaled. Returns false
 * where there is nothing to add to o. */
bool cpu_online_add(const cpu_node *node, cpu_online *online, float *scores, int64_t n, float *o, int64_t e);

/* attention_stream.c, attention_rows.c, attention_backward.c */
CPU_RUN(native_attention_stream);
CPU_WORKSPACE(native_attention_stream);
CPU_RUN(native_attention_rows);
CPU_WORKSPACE(native_attention_rows);
CPU_RUN(native_attention_whole);
CPU_WORKSPACE(native_attention_whole);
CPU_RUN(native_attention_backward);
CPU_WORKSPACE(native_attention_backward);

/* reference_attention.c */
CPU_RUN(reference_attention);
CPU_WORKSPACE(reference_attention);
CPU_RUN(reference_attention_backward);
CPU_WORKSPACE(reference_attention_backward);

#endif
