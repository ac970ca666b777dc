/* conv1d. On cpu:native it is a product with the register tile of matmul: rows are output channels, columns
 * neighbouring positions, and the terms of a sum are the weights of a channel as they are stored. What the columns see
 * of x is gathered in a panel, in blocks of terms. A sum runs over the terms in order, so that a sample has the same
 * bits alone and in a batch. */
#include "run.h"

/* x [n,c,l], weight [o,c/groups,k], y [n,o,m] */
typedef struct cpu_conv1d {
    int64_t n, c, l, o, k, m, groups;
} cpu_conv1d;

static cpu_conv1d cpu_conv1d_of(const cpu_node *node)
{
    const cpu_tensor *x = &node->in[0], *weight = &node->in[1], *y = &node->out[0];
    const int rank = (int)x->rank;
    return (cpu_conv1d){.n = cpu_product(x->shape, 0, rank - 2),
                        .c = x->shape[rank - 2],
                        .l = x->shape[rank - 1],
                        .o = weight->shape[0],
                        .k = weight->shape[2],
                        .m = y->shape[rank - 1],
                        .groups = node->attrs.conv1d.groups};
}

enum { CPU_CONV1D_TERMS = 512 }; /* of a block */

typedef struct cpu_conv1d_room {
    float *panel;   /* [terms, columns] */
    float *weights; /* [tile rows, terms], where they have to be converted, or are less than a tile */
    float *sums;    /* [channels, columns] */
    float *row;     /* of x, where it has to be converted */
} cpu_conv1d_room;

static int64_t cpu_conv1d_terms(const cpu_conv1d *plan) { return plan->c / plan->groups * plan->k; }

/* Channels of a group, in whole tiles. */
static int64_t cpu_conv1d_rows(const cpu_node *node)
{
    const cpu_conv1d plan = cpu_conv1d_of(node);
    const int64_t high = node->kernels->tile_rows;
    return (plan.o / plan.groups + high - 1) / high * high;
}

/* Where a worker's room lies; with `base` NULL only its size counts. Returns floats. */
static int64_t cpu_conv1d_divide(const cpu_node *node, float *base, cpu_conv1d_room *room)
{
    const cpu_conv1d own = cpu_conv1d_of(node), *plan = &own;
    const int64_t wide = node->kernels->tile_columns, terms = cpu_min(cpu_conv1d_terms(plan), CPU_CONV1D_TERMS);
    const int64_t sizes[4] = {terms * wide, terms * node->kernels->tile_rows, cpu_conv1d_rows(node) * wide,
                              node->in[0].dtype == PCO_F32 ? 0 : plan->l};
    float **parts[4] = {&room->panel, &room->weights, &room->sums, &room->row};
    int64_t at = 0;
    for (int i = 0; i < 4; i++) {
        if (base) *parts[i] = base + at;
        at += (sizes[i] + 15) / 16 * 16;
    }
    return at;
}

static CPU_WORKSPACE(native_conv1d)
{
    cpu_conv1d_room room;
    return node->device->threads * cpu_round64((uint64_t)cpu_conv1d_divide(node, NULL, &room) * 4);
}

/* Terms [first, first + count) of `columns` positions from t on; other columns of the panel are 0. `x` is the first
 * channel's first element. */
static void cpu_conv1d_gather(const cpu_node *node, const cpu_conv1d_room *room, int64_t x, int64_t t, int64_t columns,
                              int64_t first, int64_t count)
{
    const cpu_conv1d own = cpu_conv1d_of(node), *plan = &own;
    const pco_conv1d_attrs *attrs = &node->attrs.conv1d;
    const int64_t wide = node->kernels->tile_columns;
    const float *row = NULL;
    for (int64_t term = first; term < first + count; term++) {
        const int64_t k = term % plan->k, at = x + term / plan->k * plan->l;
        float *to = room->panel + (term - first) * wide;
        if (node->in[0].dtype == PCO_F32) {
            row = (const float *)(void *)node->in[0].data + at;
        } else if (!row || k == 0) {
            node->kernels->load[node->in[0].dtype](room->row, cpu_at(&node->in[0], at), plan->l);
            row = room->row;
        }
        int64_t from = t * attrs->stride + k * attrs->dilation - attrs->padding;
        for (int64_t i = 0; i < wide; i++, from += attrs->stride)
            to[i] = i < columns && from >= 0 && from < plan->l ? row[from] : 0;
    }
}

/* Adds a block of terms to the sums of all channels of a group. `weight` is its first channel's first element. */
static void cpu_conv1d_block(const cpu_node *node, const cpu_conv1d_room *room, int64_t weight, int64_t first,
                             int64_t count)
{
    const cpu_kernels *kernels = node->kernels;
    const cpu_conv1d own = cpu_conv1d_of(node), *plan = &own;
    const cpu_tensor *w = &node->in[1];
    const int64_t terms = cpu_conv1d_terms(plan), channels = plan->o / plan->groups;
    const int64_t high = kernels->tile_rows, wide = kernels->tile_columns;
    for (int64_t o = 0; o < channels; o += high) {
        const float *rows = (const float *)(void *)w->data + weight + o * terms + first;
        int64_t stride = terms;
        if (w->dtype != PCO_F32 || o + high > channels) {
            for (int64_t r = 0; r < high; r++) {
                if (o + r < channels)
                    kernels->load[w->dtype](room->weights + r * count, cpu_at(w, weight + (o + r) * terms + first),
                                            count);
                else
                    memset(room->weights + r * count, 0, (size_t)count * 4);
            }
            rows = room->weights;
            stride = count;
        }
        kernels->tile_strided(count, rows, stride, room->panel, wide, room->sums + o * wide, wide, first > 0);
    }
}

/* A task is a tile's width of positions, in all channels of a group of a sample. */
static void cpu_conv1d_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_conv1d own = cpu_conv1d_of(node), *plan = &own;
    const cpu_tensor *bias = &node->in[2], *y = &node->out[0];
    const int64_t wide = node->kernels->tile_columns, panels = (plan->m + wide - 1) / wide;
    const int64_t terms = cpu_conv1d_terms(plan), channels = plan->o / plan->groups, each = plan->c / plan->groups;
    cpu_conv1d_room room;
    cpu_conv1d_divide(node, (float *)(void *)cpu_worker_memory(node, worker), &room);
    for (int64_t i = begin; i < end; i++) {
        const int64_t t = i % panels * wide, columns = cpu_min(wide, plan->m - t), group = i / panels % plan->groups;
        const int64_t sample = i / panels / plan->groups;
        for (int64_t first = 0, count; first < terms; first += count) {
            count = cpu_min(CPU_CONV1D_TERMS, terms - first);
            cpu_conv1d_gather(node, &room, (sample * plan->c + group * each) * plan->l, t, columns, first, count);
            cpu_conv1d_block(node, &room, group * channels * terms, first, count);
        }
        for (int64_t o = 0; o < channels; o++) {
            float *sums = room.sums + o * wide;
            const int64_t channel = group * channels + o;
            if (bias->present) {
                const float b = (float)cpu_load_f64(bias->dtype, bias->data, channel);
                for (int64_t j = 0; j < columns; j++) sums[j] += b;
            }
            node->kernels->store[y->dtype](cpu_at(y, (sample * plan->o + channel) * plan->m + t), sums, columns);
        }
    }
}

static CPU_RUN(native_conv1d)
{
    const cpu_conv1d own = cpu_conv1d_of(node), *plan = &own;
    const int64_t wide = node->kernels->tile_columns, panels = (plan->m + wide - 1) / wide;
    cpu_parallel(node, plan->n * plan->groups * panels,
                 cpu_grain(cpu_conv1d_rows(node) * cpu_conv1d_terms(plan) * wide / 8), cpu_conv1d_slice);
}

/* ---- cpu:reference ---- */

CPU_REFERENCE_BEGIN

/* For each worker: a row of x and one of y, in double. */
static CPU_WORKSPACE(reference_conv1d)
{
    const cpu_conv1d plan = cpu_conv1d_of(node);
    return node->device->threads * cpu_round64((uint64_t)(plan.l + plan.m) * 8);
}

/* Adds to sum[t] what weight k of a channel of x contributes: no t where x is not. */
static void cpu_reference_conv1d_add(const cpu_node *node, double *sum, const double *row, int64_t k, double weight)
{
    const cpu_conv1d own = cpu_conv1d_of(node), *plan = &own;
    const pco_conv1d_attrs *attrs = &node->attrs.conv1d;
    const int64_t offset = k * attrs->dilation - attrs->padding; /* t * stride + offset lies in 0 .. l - 1 */
    const int64_t first = offset < 0 ? (-offset + attrs->stride - 1) / attrs->stride : 0;
    const int64_t end = offset < plan->l ? cpu_min(plan->m, (plan->l - 1 - offset) / attrs->stride + 1) : 0;
    for (int64_t t = first; t < end; t++) sum[t] += row[t * attrs->stride + offset] * weight;
}

/* Slices are channels of the result, over all samples. */
static void cpu_reference_conv1d_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_conv1d own = cpu_conv1d_of(node), *plan = &own;
    const cpu_tensor *x = &node->in[0], *weight = &node->in[1], *bias = &node->in[2], *y = &node->out[0];
    const int64_t each = plan->c / plan->groups;
    double *row = (double *)(void *)cpu_worker_memory(node, worker), *sum = row + plan->l;
    for (int64_t i = begin; i < end; i++) {
        const int64_t o = i % plan->o, first = i / plan->o * plan->c + o / (plan->o / plan->groups) * each;
        for (int64_t t = 0; t < plan->m; t++) sum[t] = 0;
        for (int64_t c = 0; c < each; c++) {
            for (int64_t p = 0; p < plan->l; p++) row[p] = cpu_load_f64(x->dtype, x->data, (first + c) * plan->l + p);
            for (int64_t k = 0; k < plan->k; k++)
                cpu_reference_conv1d_add(node, sum, row, k,
                                         cpu_load_f64(weight->dtype, weight->data, (o * each + c) * plan->k + k));
        }
        for (int64_t t = 0; t < plan->m; t++)
            cpu_store_f64(y->dtype, y->data, i * plan->m + t,
                          bias->present ? sum[t] + cpu_load_f64(bias->dtype, bias->data, o) : sum[t]);
    }
}

static CPU_RUN(reference_conv1d)
{
    const cpu_conv1d own = cpu_conv1d_of(node), *plan = &own;
    cpu_parallel(node, plan->n * plan->o, cpu_grain(plan->c / plan->groups * plan->k * plan->m),
                 cpu_reference_conv1d_slice);
}

CPU_REFERENCE_END

CPU_OP(CONV1D, nothing, 0, MEMORY(native_conv1d), MEMORY(reference_conv1d))
