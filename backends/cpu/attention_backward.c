/* The gradients of attention: blocks of queries against all keys that they see, as products of register tiles. A worker
 * takes a key head of a sequence with all its queries, in their order, so that no two add to one gradient. What is
 * kept is a block of queries by the number of keys; statistics of rows follow from it. */
#include "attention.h"

enum { CPU_BACK_TILES = 5, CPU_BACK_FLOATS = 1 << 17 };

/* The memory of one worker. Rows of keys and queries are zeros from D (or E) to the next tile, d_room (e_room). */
typedef struct cpu_back {
    const cpu_node *node;
    int64_t b, g;
    int64_t tile, high;  /* columns and rows of the register tile */
    int64_t room, width; /* rows of a block; floats of a row of scores */
    int64_t d_room, e_room;
    int64_t limit;                  /* keys of this sequence; behind them there may be anything */
    int64_t rows, first, last, end; /* of this block: rows; first key, the one behind the last; `end` in tiles */
    float *k_panel, *v_panel;       /* keys and values packed: [D, tile], [E, tile] each */
    float *keys;                    /* [T, d_room], where they do not lie so already */
    float *dk, *dv;                 /* [width, d_room], [width, e_room] */
    float *q, *dy, *dq;             /* [room, d_room], [room, e_room], [room, d_room] */
    float *p, *u;                   /* [room, width]: weights, and what becomes W */
    float *turned;                  /* [width, room] */
    const float *key_rows;
    int64_t key_step;
    cpu_query *query;
    unsigned char *seen;
} cpu_back;

static int64_t cpu_back_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/* Lays the parts out one after the other; returns the bytes that they take. */
static uint64_t cpu_back_lay(const cpu_node *node, unsigned char *memory, cpu_back *back)
{
    const cpu_attention *plan = &node->plan.attention;
    int64_t tile = node->kernels->tile_columns, high = node->kernels->tile_rows;
    int64_t width = cpu_back_up(plan->t, tile) + cpu_back_up(high, tile), most = CPU_BACK_FLOATS / width / high;
    int64_t rows = plan->g ? plan->h / plan->g * plan->s : 0;
    int64_t room = cpu_min(cpu_back_up(rows, high), high * cpu_max(1, cpu_min(CPU_BACK_TILES, most)));
    int64_t d = cpu_back_up(plan->d, tile), e = cpu_back_up(plan->e, tile);
    *back = (cpu_back){.node = node, .tile = tile, .high = high, .room = room, .width = width};
    back->d_room = d, back->e_room = e;
    const struct {
        float **part;
        int64_t floats;
    } parts[] = {{&back->k_panel, width * plan->d},
                 {&back->v_panel, width * plan->e},
                 {&back->keys, plan->t * d},
                 {&back->dk, width * d},
                 {&back->dv, width * e},
                 {&back->q, room * d},
                 {&back->dy, room * e},
                 {&back->dq, room * d},
                 {&back->p, room * width},
                 {&back->u, room * width},
                 {&back->turned, room * width}};
    uint64_t used = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (memory) *parts[i].part = (float *)(void *)(memory + used);
        used += cpu_round64((uint64_t)parts[i].floats * 4);
    }
    if (memory) back->query = (cpu_query *)(void *)(memory + used);
    used += cpu_round64((uint64_t)room * sizeof(cpu_query));
    if (memory) back->seen = memory + used;
    return used + cpu_round64((uint64_t)width);
}

CPU_WORKSPACE(native_attention_backward)
{
    cpu_back back;
    return node->device->threads * cpu_back_lay(node, NULL, &back);
}

/* A stored row in f32, zeros behind it up to `room`. */
static void cpu_back_load(const cpu_node *node, const cpu_tensor *x, int64_t at, int64_t n, float *to, int64_t room)
{
    node->kernels->load[x->dtype](to, cpu_at(x, at), n);
    for (int64_t i = n; i < room; i++) to[i] = 0;
}

/* Rows first .. limit of keys (or values) as panels; widened tile by tile into `wide` where they are not f32. */
static void cpu_back_pack(const cpu_back *back, const cpu_tensor *x, int64_t at, int64_t step, int64_t depth, float *to,
                          float *wide)
{
    const cpu_kernels *kernels = back->node->kernels;
    for (int64_t j = 0; j < back->limit; j += back->tile) {
        int64_t rows = cpu_min(back->tile, back->limit - j);
        const float *from = (const float *)(void *)x->data + at + j * step;
        if (x->dtype != PCO_F32)
            for (int64_t r = 0; r < rows; r++)
                kernels->load[x->dtype](wide + r * depth, cpu_at(x, at + (j + r) * step), depth);
        kernels->pack_rows(to + j * depth, x->dtype == PCO_F32 ? from : wide, x->dtype == PCO_F32 ? step : depth, rows,
                           depth, back->tile);
    }
}

/* Keys and values of one head, and gradients that are zero so far. */
static void cpu_back_begin(cpu_back *back)
{
    const cpu_node *node = back->node;
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *k = &node->in[1], *lengths = &node->in[4];
    int64_t at = back->b * plan->k_b + back->g * plan->k_g;
    back->limit = plan->t;
    if (lengths->present) back->limit = cpu_max(0, cpu_min(plan->t, cpu_i32_at(lengths, back->b * plan->lengths_b)));
    cpu_back_pack(back, k, at, plan->k_t, plan->d, back->k_panel, back->dk); /* their room is not used yet */
    cpu_back_pack(back, &node->in[2], back->b * plan->v_b + back->g * plan->v_g, plan->v_t, plan->e, back->v_panel,
                  back->dv);
    back->key_rows = (const float *)(void *)k->data + at;
    back->key_step = plan->k_t;
    if (k->dtype != PCO_F32 || plan->d != back->d_room) {
        back->key_rows = back->keys;
        back->key_step = back->d_room;
        for (int64_t j = 0; j < back->limit; j++)
            cpu_back_load(node, k, at + j * plan->k_t, plan->d, back->keys + j * back->d_room, back->d_room);
    }
    memset(back->dk, 0, (size_t)(back->width * back->d_room) * 4);
    memset(back->dv, 0, (size_t)(back->width * back->e_room) * 4);
}

/* The keys that rows r .. r + n - 1 see, together. */
static void cpu_back_range(const cpu_back *back, int64_t r, int64_t n, int64_t *low, int64_t *high)
{
    *low = back->end, *high = back->first;
    for (int64_t i = r; i < cpu_min(r + n, back->rows); i++) {
        if (back->query[i].low >= back->query[i].high) continue;
        *low = cpu_min(*low, back->query[i].low);
        *high = cpu_max(*high, back->query[i].high);
    }
}

/* Queries (times scale) and gradients of a block, and the keys that it sees. Returns false when it sees none. */
static bool cpu_back_rows(cpu_back *back, int64_t row)
{
    const cpu_node *node = back->node;
    const cpu_attention *plan = &node->plan.attention;
    int64_t low = plan->t, high = 0;
    for (int64_t r = 0; r < back->room; r++) {
        float *q = back->q + r * back->d_room, *dy = back->dy + r * back->e_room;
        memset(q, 0, (size_t)back->d_room * 4);
        memset(dy, 0, (size_t)back->e_room * 4);
        if (r >= back->rows) continue;
        cpu_query *query = &back->query[r];
        *query = cpu_query_of_group(node, back->b, back->g, row + r);
        if (query->low >= query->high) continue;
        cpu_query_load(node, query, q);
        int64_t at = query->b * plan->y_b + query->h * plan->y_h + query->s * plan->y_s;
        cpu_back_load(node, &node->in[6], at, plan->e, dy, back->e_room);
        low = cpu_min(low, query->low);
        high = cpu_max(high, query->high);
    }
    back->first = low / back->tile * back->tile;
    back->last = high;
    back->end = low < high ? back->first + cpu_back_up(high - back->first, back->high) : back->first;
    return low < high;
}

/* Scores and gradient value^T where they are seen, tile by tile. */
static void cpu_back_products(const cpu_back *back)
{
    const cpu_kernels *kernels = back->node->kernels;
    const cpu_attention *plan = &back->node->plan.attention;
    for (int64_t r = 0; r < back->rows; r += back->high) {
        int64_t low, high;
        cpu_back_range(back, r, back->high, &low, &high);
        for (int64_t j = low / back->tile * back->tile; j < high; j += back->tile) {
            kernels->tile_strided(plan->d, back->q + r * back->d_room, back->d_room, back->k_panel + j * plan->d,
                                  back->tile, back->p + r * back->width + j, back->width, 0);
            kernels->tile_strided(plan->e, back->dy + r * back->e_room, back->e_room, back->v_panel + j * plan->e,
                                  back->tile, back->u + r * back->width + j, back->width, 0);
        }
    }
}

/* p becomes weights, u becomes p (u - sum p u); zeros where a key is not seen. */
static void cpu_back_weigh(const cpu_back *back)
{
    const cpu_node *node = back->node;
    for (int64_t r = 0; r < back->room; r++) {
        float *p = back->p + r * back->width, *u = back->u + r * back->width;
        int64_t low = r < back->rows ? back->query[r].low : 0, high = r < back->rows ? back->query[r].high : 0;
        int64_t n = high - low;
        bool all = n > 0 && cpu_query_mask(node, &back->query[r], low, n, p + low, back->seen);
        float most = n > 0 ? node->kernels->max(p + low, n) : -INFINITY;
        if (most == -INFINITY) low = high = back->first, n = 0;
        for (int64_t j = 0; j < n && !all; j++)
            if (!back->seen[j]) u[low + j] = 0;
        if (n > 0) {
            float sum = node->kernels->exp_sum(p + low, p + low, most, n);
            node->kernels->scale(p + low, p + low, 1 / sum, n);
            float along = (float)node->kernels->dot(p + low, u + low, n);
            node->kernels->softmax_backward(u + low, p + low, u + low, along, n);
        }
        for (int64_t j = back->first; j < back->end; j++) {
            if (j == low) j = high;
            if (j < back->end) p[j] = u[j] = 0;
        }
    }
}

/* sums[key, :] += x[row, key] rows[row, :] over the rows that see it: x is turned first. */
static void cpu_back_columns(const cpu_back *back, const float *x, const float *rows, float *sums, int64_t room)
{
    const cpu_kernels *kernels = back->node->kernels;
    kernels->pack_rows(back->turned, x + back->first, back->width, back->room, back->end - back->first, back->room);
    for (int64_t j = back->first; j < back->end; j += back->high) {
        int64_t first = 0, last = back->rows;
        while (first < last && (back->query[first].high <= j || back->query[first].low >= j + back->high)) first++;
        while (first < last && (back->query[last - 1].high <= j || back->query[last - 1].low >= j + back->high)) last--;
        for (int64_t i = 0; i < room && first < last; i += back->tile)
            kernels->tile_strided(last - first, back->turned + (j - back->first) * back->room + first, back->room,
                                  rows + first * room + i, room, sums + j * room + i, room, 1);
    }
}

/* The gradients of the block's own queries. */
static void cpu_back_queries(const cpu_back *back)
{
    const cpu_node *node = back->node;
    const cpu_kernels *kernels = node->kernels;
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *y = &node->out[0];
    for (int64_t r = 0; r < back->rows; r += back->high) {
        int64_t low, high;
        cpu_back_range(back, r, back->high, &low, &high);
        for (int64_t d = 0; d < back->d_room; d += back->tile)
            kernels->tile_strided(cpu_max(0, high - low), back->u + r * back->width + low, back->width,
                                  back->key_rows + low * back->key_step + d, back->key_step,
                                  back->dq + r * back->d_room + d, back->d_room, 0);
    }
    for (int64_t r = 0; r < back->rows; r++) {
        const cpu_query *query = &back->query[r];
        float *dq = back->dq + r * back->d_room;
        kernels->scale(dq, dq, (float)plan->scale, plan->d);
        int64_t at = query->b * plan->q_b + query->h * plan->q_h + query->s * plan->q_s;
        kernels->store[y->dtype](cpu_at(y, at), dq, plan->d);
    }
}

static void cpu_back_store(const cpu_back *back)
{
    const cpu_node *node = back->node;
    const cpu_attention *plan = &node->plan.attention;
    const cpu_tensor *k = &node->out[1], *v = &node->out[2];
    int64_t k_at = back->b * plan->k_b + back->g * plan->k_g, v_at = back->b * plan->v_b + back->g * plan->v_g;
    for (int64_t j = 0; j < plan->t; j++) {
        node->kernels->store[k->dtype](cpu_at(k, k_at + j * plan->k_t), back->dk + j * back->d_room, plan->d);
        node->kernels->store[v->dtype](cpu_at(v, v_at + j * plan->v_t), back->dv + j * back->e_room, plan->e);
    }
}

/* Slices are key heads. */
static void cpu_back_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_attention *plan = &node->plan.attention;
    cpu_back back;
    cpu_back_lay(node, cpu_worker_memory(node, worker), &back);
    int64_t rows = plan->h / plan->g * plan->s;
    for (int64_t i = begin; i < end; i++) {
        back.b = i / plan->g;
        back.g = i % plan->g;
        cpu_back_begin(&back);
        for (int64_t row = 0; row < rows; row += back.room) {
            back.rows = cpu_min(back.room, rows - row);
            if (cpu_back_rows(&back, row)) {
                cpu_back_products(&back);
                cpu_back_weigh(&back);
                cpu_back_columns(&back, back.p, back.dy, back.dv, back.e_room);
                cpu_back_columns(&back, back.u, back.q, back.dk, back.d_room);
            }
            cpu_back_queries(&back);
        }
        cpu_back_store(&back);
    }
}

CPU_RUN(native_attention_backward)
{
    const cpu_attention *plan = &node->plan.attention;
    if (plan->g == 0) return;
    int64_t cost = plan->h / plan->g * plan->s * plan->t * (plan->d + plan->e) / 8;
    cpu_parallel(node, plan->b * plan->g, cpu_grain(cost), cpu_back_slice);
}
