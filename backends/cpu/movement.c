/* Ops that make and move data, on both devices: they only copy (iota is rounded once, from double). */
#include "run.h"

static void cpu_fill_elements(uint32_t dtype, unsigned char *to, double value, int64_t n)
{
    unsigned char element[4];
    cpu_store_f64(dtype, element, 0, cpu_round_to(dtype, value));
    switch (cpu_size(dtype)) {
    case 1: memset(to, element[0], (size_t)n); break;
    case 2:
        for (int64_t i = 0; i < n; i++) memcpy(to + 2 * i, element, 2);
        break;
    default:
        for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i, element, 4);
        break;
    }
}

static void cpu_fill_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    double value = node->op->op == PCO_OP_PAD ? node->attrs.pad.value : node->attrs.fill.value;
    cpu_fill_elements(node->out[0].dtype, cpu_at(&node->out[0], begin), value, end - begin);
}

void cpu_run_fill(const cpu_node *node) { cpu_parallel(node, node->out[0].count, cpu_grain(1), cpu_fill_slice); }

static void cpu_iota_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const pco_iota_attrs *attrs = &node->attrs.iota;
    const cpu_tensor *y = &node->out[0];
    cpu_axis axis = node->plan.axis;
    uint32_t start = (uint32_t)cpu_f64_to_i32(attrs->start), step = (uint32_t)cpu_f64_to_i32(attrs->step);
    for (int64_t i = begin; i < end; i++) {
        int64_t index = i / axis.inner % axis.n;
        if (y->dtype == PCO_I32)
            ((int32_t *)(void *)y->data)[i] = (int32_t)(start + step * (uint32_t)index);
        else
            cpu_store_f64(y->dtype, y->data, i, attrs->start + attrs->step * (double)index);
    }
}

void cpu_run_iota(const cpu_node *node) { cpu_parallel(node, node->out[0].count, cpu_grain(8), cpu_iota_slice); }

static void cpu_copy_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_copy *plan = &node->plan.copy;
    uint32_t size = cpu_size(node->out[0].dtype);
    unsigned char *to = node->out[0].data + begin * size;
    const void *from =
        cpu_walk_fetch(&plan->walk, 0, node->in[0].data + plan->base * size, size, NULL, size, begin, end - begin, to);
    if (from != to) memcpy(to, from, (size_t)(end - begin) * size);
}

/* broadcast_to, permute, slice. Only a slice can lie where its elements lie in x, and then there is nothing to do. */
void cpu_run_copy(const cpu_node *node)
{
    if (node->in[0].data && node->out[0].data == node->in[0].data + node->plan.copy.base * cpu_size(node->out[0].dtype))
        return;
    cpu_parallel(node, node->out[0].count, cpu_grain(2), cpu_copy_slice);
}

static void cpu_reshape_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    memcpy(node->out[0].data + begin, node->in[0].data + begin, (size_t)(end - begin));
}

void cpu_run_reshape(const cpu_node *node)
{
    if (node->out[0].data == node->in[0].data) return;
    cpu_parallel(node, cpu_bytes(node->out[0].dtype, node->out[0].count), 1 << 18, cpu_reshape_slice);
}

static void cpu_concat_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_tensor *y = &node->out[0];
    cpu_axis axis = node->plan.axis;
    uint32_t size = cpu_size(y->dtype);
    for (int64_t outer = begin; outer < end; outer++) {
        unsigned char *to = y->data + outer * axis.n * axis.inner * size;
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            const cpu_tensor *x = &node->in[i];
            if (!x->present || x->count == 0) continue;
            int64_t bytes = x->count / axis.outer * size;
            memcpy(to, x->data + outer * bytes, (size_t)bytes);
            to += bytes;
        }
    }
}

void cpu_run_concat(const cpu_node *node)
{
    if (node->out[0].count == 0) return;
    cpu_axis axis = node->plan.axis;
    cpu_parallel(node, axis.outer, cpu_grain(axis.n * axis.inner / 4), cpu_concat_slice);
}

/* Runs of x's last dimensions, merged, go to where y has them. */
static void cpu_pad_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_walk *walk = &node->plan.copy.walk;
    uint32_t size = cpu_size(node->out[0].dtype);
    int last = walk->rank - 1;
    int64_t run = walk->shape[last], index[PCO_MAX_RANK];
    for (int64_t row = begin; row < end; row++) {
        cpu_walk_index(walk, row * run, index);
        unsigned char *to = node->out[0].data + (node->plan.copy.base + cpu_walk_offset(walk, 0, index)) * size;
        const unsigned char *from = node->in[0].data + row * run * size;
        if (walk->stride[0][last] == 1)
            memcpy(to, from, (size_t)run * size);
        else
            for (int64_t i = 0; i < run; i++) memcpy(to + i * walk->stride[0][last] * size, from + i * size, size);
    }
}

void cpu_run_pad(const cpu_node *node)
{
    cpu_run_fill(node);
    const cpu_walk *walk = &node->plan.copy.walk;
    if (walk->count == 0) return;
    int64_t run = walk->shape[walk->rank - 1];
    cpu_parallel(node, walk->count / run, cpu_grain(run), cpu_pad_slice);
}
