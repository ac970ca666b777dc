/* top_k: the same on both devices, because it is exact. */
#include "run.h"

/* An element of a row as one number, so that what comes first is larger: its value in the upper half, in an order by
 * bits that has NaN above everything and -0 equal to 0, and how far it is from the end of any row in the lower. */
static uint64_t cpu_top_k_key(const cpu_tensor *x, int64_t at, int64_t index, bool largest)
{
    uint32_t order;
    if (x->dtype == PCO_I32) {
        order = (uint32_t)cpu_i32_at(x, at) ^ 0x80000000u;
    } else {
        const float value = (float)cpu_load_f64(x->dtype, x->data, at); /* exact */
        const uint32_t bits = cpu_bits_f32(value);
        order = value != value ? UINT32_MAX : value == 0 ? 0x80000000u : bits >> 31 ? ~bits : bits | 0x80000000u;
    }
    return (uint64_t)(largest ? order : ~order) << 32 | (uint32_t)(INT32_MAX - index);
}

/* Moves the number at `i` down, to where neither of those below is smaller. */
static void cpu_top_k_sink(uint64_t *heap, int64_t n, int64_t i)
{
    const uint64_t key = heap[i];
    for (int64_t below; (below = 2 * i + 1) < n; i = below) {
        if (below + 1 < n && heap[below + 1] < heap[below]) below++;
        if (heap[below] >= key) break;
        heap[i] = heap[below];
    }
    heap[i] = key;
}

/* The k first of a row, in order: a heap whose top is the last of them, emptied from its end (Williams 1964). */
static void cpu_top_k_row(const cpu_node *node, int64_t base, uint64_t *heap)
{
    const pco_top_k_attrs *attrs = &node->attrs.top_k;
    const cpu_tensor *x = &node->in[0];
    const int64_t k = attrs->k, inner = node->plan.axis.inner;
    const bool largest = attrs->largest != 0;
    for (int64_t j = 0; j < k; j++) heap[j] = cpu_top_k_key(x, base + j * inner, j, largest);
    for (int64_t j = k / 2 - 1; j >= 0; j--) cpu_top_k_sink(heap, k, j);
    for (int64_t j = k; j < node->plan.axis.n; j++) {
        const uint64_t key = cpu_top_k_key(x, base + j * inner, j, largest);
        if (key <= heap[0]) continue;
        heap[0] = key;
        cpu_top_k_sink(heap, k, 0);
    }
    for (int64_t j = k - 1; j > 0; j--) {
        const uint64_t last = heap[0];
        heap[0] = heap[j];
        heap[j] = last;
        cpu_top_k_sink(heap, j, 0);
    }
}

static void cpu_top_k_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_tensor *x = &node->in[0], *values = &node->out[0], *indices = &node->out[1];
    const cpu_axis axis = node->plan.axis;
    const int64_t k = node->attrs.top_k.k, size = cpu_size(x->dtype);
    uint64_t *heap = (uint64_t *)(void *)cpu_worker_memory(node, worker);
    for (int64_t i = begin; i < end; i++) {
        const int64_t o = i / axis.inner, column = i % axis.inner, base = o * axis.n * axis.inner + column;
        cpu_top_k_row(node, base, heap);
        for (int64_t j = 0; j < k; j++) {
            const int64_t index = INT32_MAX - (int64_t)(uint32_t)heap[j], to = (o * k + j) * axis.inner + column;
            memcpy(values->data + to * size, x->data + (base + index * axis.inner) * size, (size_t)size);
            ((int32_t *)(void *)indices->data)[to] = (int32_t)index;
        }
    }
}

static CPU_WORKSPACE(top_k) { return node->device->threads * cpu_round64((uint64_t)node->attrs.top_k.k * 8); }

static CPU_RUN(top_k)
{
    const cpu_axis axis = node->plan.axis;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, axis.outer * axis.inner, cpu_grain(axis.n * 4 + node->attrs.top_k.k * 16), cpu_top_k_slice);
}

CPU_OP(TOP_K, axis, 0, MEMORY(top_k), MEMORY(top_k))
