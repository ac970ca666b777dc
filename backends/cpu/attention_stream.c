/* Attention with many queries: blocks of queries against blocks of keys, both in f32 and packed for the
 * register tiles of matmul. Where a query sees only a part of a block, its values are added key by key, so
 * that what it does not see is never multiplied. */
#include "attention.h"

enum { CPU_QUERY_TILES = 8 };

/* The memory of one worker, in floats but for `seen`. */
typedef struct cpu_stream {
    const cpu_node *node;
    int64_t b, g, rows;    /* of this block */
    int64_t room, e_room;  /* rows of q, scores and o; width of o */
    float *q, *scores, *o; /* [room, D], [room, CPU_KEYS], [room, e_room] */
    float *k, *v;          /* panels of [D, tile]; [CPU_KEYS, e_room] */
    const float *values;   /* v, or where they are */
    int64_t values_row;
    float *wide; /* [tile, D] */
    cpu_query *query;
    cpu_online *online;
    unsigned char *seen; /* [room, CPU_KEYS] */
    unsigned char *all, *some;
} cpu_stream;

static int64_t cpu_query_rows(const cpu_node *node) { return CPU_QUERY_TILES * node->kernels->tile_rows; }

/* Lays the parts out one after the other; returns the bytes that they take. */
static uint64_t cpu_stream_lay(const cpu_node *node, unsigned char *memory, cpu_stream *stream)
{
    const cpu_attention *plan = &node->plan.attention;
    uint64_t used = 0, tile = (uint64_t)node->kernels->tile_columns, rows = (uint64_t)cpu_query_rows(node);
    uint64_t d = (uint64_t)plan->d, e = ((uint64_t)plan->e + tile - 1) / tile * tile;
    uint64_t bytes[11] = {rows * d * 4,
                          rows * CPU_KEYS * 4,
                          rows * e * 4,
                          d * CPU_KEYS * 4,
                          e * CPU_KEYS * 4,
                          tile * d * 4,
                          rows * sizeof(cpu_query),
                          rows * sizeof(cpu_online),
                          rows * CPU_KEYS,
                          rows,
                          rows};
    unsigned char *part[11];
    for (int i = 0; i < 11; i++) {
        part[i] = memory ? memory + used : NULL;
        used += cpu_round64(bytes[i]);
    }
    if (!stream) return used;
    *stream = (cpu_stream){
        .node = node,
        .room = (int64_t)rows,
        .e_room = (int64_t)e,
        .q = (float *)(void *)part[0],
        .scores = (float *)(void *)part[1],
        .o = (float *)(void *)part[2],
        .k = (float *)(void *)part[3],
        .v = (float *)(void *)part[4],
        .wide = (float *)(void *)part[5],
        .query = (cpu_query *)(void *)part[6],
        .online = (cpu_online *)(void *)part[7],
        .seen = part[8],
        .all = part[9],
        .some = part[10],
    };
    return used;
}

CPU_WORKSPACE(native_attention_stream) { return node->device->threads * cpu_stream_lay(node, NULL, NULL); }

static void cpu_stream_keys(cpu_stream *stream, int64_t first, int64_t n)
{
    const cpu_node *node = stream->node;
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *k = &node->in[1];
    int64_t tile = node->kernels->tile_columns;
    for (int64_t j = 0; j < n; j += tile) {
        int64_t rows = cpu_min(tile, n - j);
        int64_t at = stream->b * plan->k_b + stream->g * plan->k_g + (first + j) * plan->k_t;
        const float *from = (const float *)(void *)k->data + at;
        int64_t stride = plan->k_t;
        if (k->dtype != PCO_F32) {
            for (int64_t r = 0; r < rows; r++)
                node->kernels->load[k->dtype](stream->wide + r * plan->d, cpu_at(k, at + r * plan->k_t), plan->d);
            from = stream->wide;
            stride = plan->d;
        }
        node->kernels->pack_rows(stream->k + j * plan->d, from, stride, rows, plan->d, tile);
    }
}

/* Values in f32, rows padded with zeros to whole tiles; used where they are if they are so already. */
static void cpu_stream_values(cpu_stream *stream, int64_t first, int64_t n)
{
    const cpu_node *node = stream->node;
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *v = &node->in[2];
    int64_t at = stream->b * plan->v_b + stream->g * plan->v_g + first * plan->v_t;
    stream->values = (const float *)(void *)v->data + at;
    stream->values_row = plan->v_t;
    if (v->dtype == PCO_F32 && plan->e == stream->e_room) return;
    stream->values = stream->v;
    stream->values_row = stream->e_room;
    for (int64_t j = 0; j < n; j++) {
        float *to = stream->v + j * stream->e_room;
        node->kernels->load[v->dtype](to, cpu_at(v, at + j * plan->v_t), plan->e);
        for (int64_t e = plan->e; e < stream->e_room; e++) to[e] = 0;
    }
}

/* Scores of all rows for this block of keys, masked and taken in. */
static void cpu_stream_scores(cpu_stream *stream, int64_t first, int64_t n)
{
    const cpu_node *node = stream->node;
    int64_t d = node->plan.attention.d, tile = node->kernels->tile_columns, high = node->kernels->tile_rows;
    for (int64_t r = 0; r < stream->rows; r += high)
        for (int64_t j = 0; j < n; j += tile)
            node->kernels->tile_strided(d, stream->q + r * d, d, stream->k + j * d, tile,
                                        stream->scores + r * CPU_KEYS + j, CPU_KEYS, 0);
    for (int64_t r = 0; r < stream->rows; r++) {
        float *scores = stream->scores + r * CPU_KEYS;
        stream->all[r] = cpu_query_mask(node, &stream->query[r], first, n, scores, stream->seen + r * CPU_KEYS);
        stream->some[r] =
            cpu_online_add(node, &stream->online[r], scores, n, stream->o + r * stream->e_room, stream->e_room);
    }
}

/* o += weights * values */
static void cpu_stream_attend(cpu_stream *stream, int64_t n)
{
    const cpu_kernels *kernels = stream->node->kernels;
    int64_t tile = kernels->tile_columns, high = kernels->tile_rows;
    for (int64_t r0 = 0; r0 < stream->rows; r0 += high) {
        int64_t r1 = cpu_min(stream->rows, r0 + high);
        bool all = true;
        for (int64_t r = r0; r < r1; r++) all = all && stream->all[r] && stream->some[r];
        for (int64_t e = 0; e < stream->e_room && all; e += tile)
            kernels->tile_strided(n, stream->scores + r0 * CPU_KEYS, CPU_KEYS, stream->values + e, stream->values_row,
                                  stream->o + r0 * stream->e_room + e, stream->e_room, 1);
        for (int64_t r = r0; r < r1 && !all; r++)
            if (stream->some[r])
                kernels->attend(stream->o + r * stream->e_room, stream->scores + r * CPU_KEYS,
                                stream->all[r] ? NULL : stream->seen + r * CPU_KEYS, stream->values, stream->values_row,
                                n, stream->e_room);
    }
}

static void cpu_stream_block(cpu_stream *stream, int64_t row, int64_t rows)
{
    const cpu_node *node = stream->node;
    const cpu_attention *plan = &node->plan.attention;
    int64_t low = plan->t, high = 0;
    stream->rows = rows;
    memset(stream->q, 0, (size_t)(stream->room * plan->d) * 4);
    memset(stream->o, 0, (size_t)(stream->room * stream->e_room) * 4);
    memset(stream->scores, 0, (size_t)stream->room * CPU_KEYS * 4);
    for (int64_t r = 0; r < rows; r++) {
        cpu_query *query = &stream->query[r];
        *query = cpu_query_of_group(node, stream->b, stream->g, row + r);
        stream->online[r] = (cpu_online){.most = -INFINITY, .sum = 0};
        cpu_query_load(node, query, stream->q + r * plan->d);
        if (query->low < query->high) {
            low = cpu_min(low, query->low);
            high = cpu_max(high, query->high);
        }
    }
    for (int64_t first = low / CPU_KEYS * CPU_KEYS; first < high; first += CPU_KEYS) {
        int64_t n = cpu_min(CPU_KEYS, high - first);
        cpu_stream_keys(stream, first, n);
        cpu_stream_scores(stream, first, n);
        cpu_stream_values(stream, first, n);
        cpu_stream_attend(stream, n);
    }
    for (int64_t r = 0; r < rows; r++)
        cpu_query_store(node, &stream->query[r], stream->o + r * stream->e_room, stream->online[r].sum);
}

/* Slices are blocks of queries, over all sequences and key heads. */
static void cpu_stream_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_attention *plan = &node->plan.attention;
    cpu_stream stream;
    cpu_stream_lay(node, cpu_worker_memory(node, worker), &stream);
    int64_t rows = plan->h / plan->g * plan->s, blocks = (rows + stream.room - 1) / stream.room;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i % blocks * stream.room;
        stream.b = i / blocks / plan->g;
        stream.g = i / blocks % plan->g;
        cpu_stream_block(&stream, row, cpu_min(stream.room, rows - row));
    }
}

CPU_RUN(native_attention_stream)
{
    const cpu_attention *plan = &node->plan.attention;
    if (node->out[0].count == 0) return;
    int64_t room = cpu_query_rows(node), rows = plan->h / plan->g * plan->s, blocks = (rows + room - 1) / room;
    cpu_parallel(node, plan->b * plan->g * blocks, cpu_grain(room * plan->t * (plan->d + plan->e) / 8),
                 cpu_stream_slice);
}
