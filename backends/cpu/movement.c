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

static CPU_RUN(fill) { cpu_parallel(node, node->out[0].count, cpu_grain(1), cpu_fill_slice); }

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

static CPU_RUN(iota) { cpu_parallel(node, node->out[0].count, cpu_grain(8), cpu_iota_slice); }

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
static CPU_RUN(copy)
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

static CPU_RUN(reshape)
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

static CPU_RUN(concat)
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

static CPU_RUN(pad)
{
    cpu_run_fill(node);
    const cpu_walk *walk = &node->plan.copy.walk;
    if (walk->count == 0) return;
    int64_t run = walk->shape[walk->rank - 1];
    cpu_parallel(node, walk->count / run, cpu_grain(run), cpu_pad_slice);
}

/* ---- plans ---- */

static CPU_PARSE(iota) { node->plan.axis = cpu_split(&node->out[0], node->attrs.iota.axis); }

static CPU_PARSE(broadcast_to)
{
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    cpu_walk_init(&node->plan.copy.walk, y->rank, y->shape, 1);
    cpu_walk_broadcast(&node->plan.copy.walk, 0, x->rank, x->shape);
    cpu_walk_merge(&node->plan.copy.walk);
}

static void cpu_strides(const cpu_tensor *x, int64_t *stride)
{
    int64_t step = 1;
    for (int i = (int)x->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= x->shape[i];
    }
}

static CPU_PARSE(permute)
{
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    cpu_walk *walk = &node->plan.copy.walk;
    cpu_walk_init(walk, y->rank, y->shape, 1);
    int64_t stride[PCO_MAX_RANK];
    cpu_strides(x, stride);
    for (uint32_t i = 0; i < y->rank; i++) walk->stride[0][i] = stride[node->attrs.permute.dims[i]];
    cpu_walk_merge(walk);
}

static CPU_PARSE(slice)
{
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    const pco_slice_attrs *attrs = &node->attrs.slice;
    cpu_walk *walk = &node->plan.copy.walk;
    cpu_walk_init(walk, y->rank, y->shape, 1);
    int64_t stride[PCO_MAX_RANK];
    cpu_strides(x, stride);
    for (uint32_t i = 0; i < x->rank && y->count > 0; i++) { /* where nothing is taken, a step may be any number */
        walk->stride[0][i] = y->shape[i] > 1 ? stride[i] * attrs->steps[i] : 0;
        node->plan.copy.base += attrs->starts[i] * stride[i];
    }
    cpu_walk_merge(walk);
}

static CPU_PARSE(concat) { node->plan.axis = cpu_split(&node->out[0], node->attrs.concat.axis); }

/* The plan walks over x; the stride is that of y. */
static CPU_PARSE(pad)
{
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    cpu_walk *walk = &node->plan.copy.walk;
    cpu_walk_init(walk, x->rank, x->shape, 1);
    int64_t stride[PCO_MAX_RANK];
    cpu_strides(y, stride);
    for (uint32_t i = 0; i < x->rank; i++) {
        walk->stride[0][i] = stride[i];
        node->plan.copy.base += node->attrs.pad.before[i] * stride[i];
    }
    cpu_walk_merge(walk);
}

CPU_OP(FILL, nothing, 0, PLAIN(fill), PLAIN(fill))
CPU_OP(IOTA, iota, 0, PLAIN(iota), PLAIN(iota))
CPU_OP(BROADCAST_TO, broadcast_to, 0, PLAIN(copy), PLAIN(copy))
CPU_OP(RESHAPE, nothing, 0, PLAIN(reshape), PLAIN(reshape))
CPU_OP(PERMUTE, permute, 0, PLAIN(copy), PLAIN(copy))
CPU_OP(SLICE, slice, 0, PLAIN(copy), PLAIN(copy))
CPU_OP(CONCAT, concat, 0, PLAIN(concat), PLAIN(concat))
CPU_OP(PAD, pad, 0, PLAIN(pad), PLAIN(pad))
