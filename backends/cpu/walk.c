#include "walk.h"

#include <string.h>

void cpu_walk_init(cpu_walk *walk, uint32_t rank, const int64_t *shape, int operands)
{
    memset(walk, 0, sizeof *walk);
    walk->rank = (int)rank;
    walk->operands = operands;
    walk->count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        walk->shape[i] = shape[i];
        walk->count *= shape[i];
    }
}

void cpu_walk_broadcast(cpu_walk *walk, int operand, uint32_t rank, const int64_t *shape)
{
    int lead = walk->rank - (int)rank;
    int64_t stride = 1;
    for (int i = walk->rank - 1; i >= lead; i--) {
        int64_t size = shape[i - lead];
        walk->stride[operand][i] = size == 1 ? 0 : stride;
        stride *= size;
    }
}

static bool cpu_walk_can_merge(const cpu_walk *walk, int outer, int inner)
{
    for (int o = 0; o < walk->operands; o++)
        if (walk->stride[o][outer] != walk->stride[o][inner] * walk->shape[inner]) return false;
    return true;
}

static void cpu_walk_move(cpu_walk *walk, int to, int from)
{
    walk->shape[to] = walk->shape[from];
    for (int o = 0; o < walk->operands; o++) walk->stride[o][to] = walk->stride[o][from];
}

void cpu_walk_merge(cpu_walk *walk)
{
    int rank = 0;
    for (int i = 0; i < walk->rank; i++)
        if (walk->shape[i] != 1) cpu_walk_move(walk, rank++, i);
    int last = 0;
    for (int i = 1; i < rank; i++) {
        if (cpu_walk_can_merge(walk, last, i)) {
            int64_t size = walk->shape[last] * walk->shape[i];
            cpu_walk_move(walk, last, i);
            walk->shape[last] = size;
        } else {
            cpu_walk_move(walk, ++last, i);
        }
    }
    walk->rank = rank > 0 ? last + 1 : 1;
    if (rank == 0) {
        walk->shape[0] = 1;
        for (int o = 0; o < walk->operands; o++) walk->stride[o][0] = 1;
    }
    for (int o = 0; o < walk->operands; o++) {
        walk->linear[o] = true;
        int64_t stride = 1;
        for (int i = walk->rank - 1; i >= 0; i--) {
            if (walk->stride[o][i] != stride) walk->linear[o] = false;
            stride *= walk->shape[i];
        }
    }
}

void cpu_walk_index(const cpu_walk *walk, int64_t flat, int64_t *index)
{
    for (int i = walk->rank - 1; i > 0; i--) {
        index[i] = flat % walk->shape[i];
        flat /= walk->shape[i];
    }
    index[0] = flat;
}

int64_t cpu_walk_offset(const cpu_walk *walk, int operand, const int64_t *index)
{
    int64_t offset = 0;
    for (int i = 0; i < walk->rank; i++) offset += index[i] * walk->stride[operand][i];
    return offset;
}

void cpu_walk_next_run(const cpu_walk *walk, int64_t *index)
{
    int last = walk->rank - 1;
    index[last] = 0;
    for (int i = last - 1; i >= 0; i--) {
        if (++index[i] < walk->shape[i] || i == 0) return;
        index[i] = 0;
    }
}

static void cpu_repeat(unsigned char *to, const unsigned char *lane, uint32_t bytes, int64_t n)
{
    if (bytes == 4) {
        uint32_t v, *out = (uint32_t *)(void *)to;
        memcpy(&v, lane, 4);
        for (int64_t i = 0; i < n; i++) out[i] = v;
    } else if (bytes == 2) {
        uint16_t v, *out = (uint16_t *)(void *)to;
        memcpy(&v, lane, 2);
        for (int64_t i = 0; i < n; i++) out[i] = v;
    } else if (bytes == 1) {
        memset(to, *lane, (size_t)n);
    } else {
        for (int64_t i = 0; i < n; i++) memcpy(to + i * bytes, lane, bytes);
    }
}

/* A run of an operand whose elements lie `stride` apart. */
static void cpu_fetch_run(unsigned char *to, const unsigned char *from, int64_t stride, uint32_t size,
                          cpu_convert_fn convert, uint32_t lane, int64_t n)
{
    if (stride == 1) {
        if (convert)
            convert(to, from, n);
        else
            memcpy(to, from, (size_t)n * size);
        return;
    }
    if (stride == 0) {
        unsigned char first[8];
        if (convert)
            convert(first, from, 1);
        else
            memcpy(first, from, size);
        cpu_repeat(to, first, lane, n);
        return;
    }
    if (!convert && size == 4) {
        for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i, from + 4 * i * stride, 4);
    } else if (!convert && size == 2) {
        for (int64_t i = 0; i < n; i++) memcpy(to + 2 * i, from + 2 * i * stride, 2);
    } else {
        for (int64_t i = 0; i < n; i++, to += lane, from += stride * size) {
            if (convert)
                convert(to, from, 1);
            else
                memcpy(to, from, size);
        }
    }
}

const void *cpu_walk_fetch(const cpu_walk *walk, int operand, const void *data, uint32_t size, cpu_convert_fn convert,
                           uint32_t lane, int64_t begin, int64_t n, void *buffer)
{
    const unsigned char *from = data;
    if (walk->linear[operand]) {
        from += begin * size;
        if (!convert) return from;
        convert(buffer, from, n);
        return buffer;
    }
    int64_t index[PCO_MAX_RANK];
    cpu_walk_index(walk, begin, index);
    int last = walk->rank - 1;
    int64_t stride = walk->stride[operand][last];
    unsigned char *to = buffer;
    while (n > 0) {
        const unsigned char *start = from + cpu_walk_offset(walk, operand, index) * size;
        int64_t run = walk->shape[last] - index[last];
        if (run > n) run = n;
        if (run == n && to == buffer && stride == 1 && !convert) return start;
        cpu_fetch_run(to, start, stride, size, convert, lane, run);
        to += run * lane;
        n -= run;
        if (n > 0) cpu_walk_next_run(walk, index);
    }
    return buffer;
}
