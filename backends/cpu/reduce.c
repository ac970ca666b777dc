/* sum, mean, amax, argmax. A result's terms are added in an order that depends on the shapes alone. */
#include "run.h"

enum { CPU_REDUCE_COLUMNS = 256 };

/* The next index over the reduced dimensions [0, rank); false after the last. */
static bool cpu_next(const int64_t *shape, int rank, int64_t *index)
{
    for (int i = rank - 1; i >= 0; i--) {
        if (++index[i] < shape[i]) return true;
        index[i] = 0;
    }
    return false;
}

static int64_t cpu_dot_index(const int64_t *index, const int64_t *stride, int rank)
{
    int64_t offset = 0;
    for (int i = 0; i < rank; i++) offset += index[i] * stride[i];
    return offset;
}

/* Where the terms of result `flat` begin. */
static int64_t cpu_kept_offset(const cpu_reduction *plan, int64_t flat)
{
    int64_t offset = 0;
    for (int i = plan->kept_rank - 1; i >= 0; i--) {
        offset += flat % plan->kept[i] * plan->kept_stride[i];
        flat /= plan->kept[i];
    }
    return offset;
}

/* A run of neighbouring f32 lanes or i32 elements, folded into sums or maxima. */
typedef struct cpu_fold {
    double sum;
    float max;
    uint32_t wrapped;
    int32_t max_i32;
} cpu_fold;

static void cpu_fold_run(const cpu_node *node, cpu_fold *fold, const cpu_tensor *x, int64_t at, int64_t n)
{
    bool max = node->op->op == PCO_OP_AMAX;
    if (x->dtype == PCO_I32) {
        const int32_t *from = (const int32_t *)(void *)x->data + at;
        for (int64_t i = 0; i < n; i++) {
            fold->wrapped += (uint32_t)from[i];
            if (from[i] > fold->max_i32) fold->max_i32 = from[i];
        }
        return;
    }
    float lanes[1024];
    int64_t block = x->dtype == PCO_F32 ? n : 1024;
    for (int64_t i = 0; i < n; i += block) {
        int64_t part = cpu_min(block, n - i);
        const float *from = (const float *)(void *)x->data + at + i;
        if (x->dtype != PCO_F32) {
            node->kernels->load[x->dtype](lanes, cpu_at(x, at + i), part);
            from = lanes;
        }
        if (max) {
            float most = node->kernels->max(from, part);
            fold->max = most > fold->max || most != most ? most : fold->max;
        } else {
            fold->sum += node->kernels->sum(from, part);
        }
    }
}

static void cpu_fold_store(const cpu_node *node, const cpu_fold *fold, int64_t i)
{
    const cpu_tensor *y = &node->out[0];
    bool max = node->op->op == PCO_OP_AMAX;
    if (y->dtype == PCO_I32)
        ((int32_t *)(void *)y->data)[i] = max ? fold->max_i32 : (int32_t)fold->wrapped;
    else if (max)
        cpu_store_f64(y->dtype, y->data, i, (double)fold->max);
    else if (node->op->op == PCO_OP_MEAN)
        cpu_store_f64(y->dtype, y->data, i, fold->sum / (double)node->plan.reduction.terms);
    else
        cpu_store_f64(y->dtype, y->data, i, fold->sum);
}

static const cpu_fold CPU_FOLD_EMPTY = {.max = -INFINITY, .max_i32 = INT32_MIN};

/* The innermost reduced dimension is contiguous (or there is none, or no term). */
static void cpu_reduce_runs(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_reduction *plan = &node->plan.reduction;
    int rank = plan->reduced_rank;
    int64_t run = rank > 0 ? plan->reduced[rank - 1] : 1;
    for (int64_t i = begin; i < end; i++) {
        cpu_fold fold = CPU_FOLD_EMPTY;
        int64_t index[PCO_MAX_RANK] = {0}, base = cpu_kept_offset(plan, i);
        bool more = plan->terms > 0;
        while (more) {
            cpu_fold_run(node, &fold, &node->in[0], base + cpu_dot_index(index, plan->reduced_stride, rank - 1), run);
            more = cpu_next(plan->reduced, rank - 1, index);
        }
        cpu_fold_store(node, &fold, i);
    }
}

/* The innermost kept dimension is contiguous: whole runs of results at once. */
static void cpu_reduce_columns(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_reduction *plan = &node->plan.reduction;
    const cpu_tensor *x = &node->in[0];
    int64_t width = plan->kept[plan->kept_rank - 1];
    for (int64_t i = begin, n; i < end; i += n) {
        n = cpu_min(cpu_min(CPU_REDUCE_COLUMNS, end - i), width - i % width);
        cpu_fold fold[CPU_REDUCE_COLUMNS];
        double sum[CPU_REDUCE_COLUMNS] = {0};
        float lanes[CPU_REDUCE_COLUMNS];
        for (int64_t j = 0; j < n; j++) fold[j] = CPU_FOLD_EMPTY;
        int64_t index[PCO_MAX_RANK] = {0}, base = cpu_kept_offset(plan, i);
        do {
            int64_t at = base + cpu_dot_index(index, plan->reduced_stride, plan->reduced_rank);
            if (cpu_is_float(x->dtype)) node->kernels->load[x->dtype](lanes, cpu_at(x, at), n);
            if (x->dtype == PCO_I32)
                for (int64_t j = 0; j < n; j++) cpu_fold_run(node, &fold[j], x, at + j, 1);
            else if (node->op->op == PCO_OP_AMAX)
                for (int64_t j = 0; j < n; j++)
                    fold[j].max = lanes[j] > fold[j].max || lanes[j] != lanes[j] ? lanes[j] : fold[j].max;
            else
                node->kernels->add_to(sum, lanes, n);
        } while (cpu_next(plan->reduced, plan->reduced_rank, index));
        for (int64_t j = 0; j < n; j++) {
            fold[j].sum = sum[j];
            cpu_fold_store(node, &fold[j], i + j);
        }
    }
}

static CPU_RUN(native_reduce)
{
    const cpu_reduction *plan = &node->plan.reduction;
    int rank = plan->reduced_rank;
    bool columns = plan->terms > 0 && rank > 0 && plan->reduced_stride[rank - 1] != 1;
    cpu_parallel(node, plan->outputs, cpu_grain(plan->terms), columns ? cpu_reduce_columns : cpu_reduce_runs);
}

static void cpu_argmax_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_tensor *x = &node->in[0];
    cpu_axis axis = node->plan.axis;
    for (int64_t i = begin; i < end; i++) {
        int64_t base = i / axis.inner * axis.n * axis.inner + i % axis.inner, best = 0;
        double most = cpu_load_f64(x->dtype, x->data, base);
        for (int64_t j = 1; j < axis.n && most == most; j++) {
            double v = cpu_load_f64(x->dtype, x->data, base + j * axis.inner);
            if (v > most || v != v) {
                most = v;
                best = j;
            }
        }
        ((int32_t *)(void *)node->out[0].data)[i] = (int32_t)best;
    }
}

static CPU_RUN(argmax) { cpu_parallel(node, node->out[0].count, cpu_grain(node->plan.axis.n), cpu_argmax_slice); }

/* Adds a dimension in front of those of its kind, which merges with its inner neighbour where it can. */
static void cpu_add_dim(int *rank, int64_t *shape, int64_t *stride, int64_t size, int64_t step)
{
    if (size == 1) return;
    if (*rank > 0 && step == shape[*rank - 1] * stride[*rank - 1]) {
        shape[*rank - 1] *= size;
        return;
    }
    shape[*rank] = size;
    stride[(*rank)++] = step;
}

static void cpu_reverse(int rank, int64_t *values)
{
    for (int i = 0; i < rank / 2; i++) {
        int64_t first = values[i];
        values[i] = values[rank - 1 - i];
        values[rank - 1 - i] = first;
    }
}

static CPU_PARSE(reduce)
{
    const pco_sum_attrs *attrs = &node->attrs.sum; /* mean and amax have the same */
    const cpu_tensor *x = &node->in[0];
    uint32_t dims = 0;
    for (int64_t i = 0; i < attrs->n_axes; i++) dims |= 1u << attrs->axes[i];
    cpu_reduction *plan = &node->plan.reduction;
    plan->outputs = node->out[0].count;
    plan->terms = 1;
    int64_t step = 1;
    for (int i = (int)x->rank - 1; i >= 0; i--) {
        if (dims >> i & 1) {
            plan->terms *= x->shape[i];
            cpu_add_dim(&plan->reduced_rank, plan->reduced, plan->reduced_stride, x->shape[i], step);
        } else {
            cpu_add_dim(&plan->kept_rank, plan->kept, plan->kept_stride, x->shape[i], step);
        }
        step *= x->shape[i];
    }
    cpu_reverse(plan->reduced_rank, plan->reduced);
    cpu_reverse(plan->reduced_rank, plan->reduced_stride);
    cpu_reverse(plan->kept_rank, plan->kept);
    cpu_reverse(plan->kept_rank, plan->kept_stride);
}

/* ---- cpu:reference ---- */

CPU_REFERENCE_BEGIN

static void cpu_reference_reduce_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_reduction *plan = &node->plan.reduction;
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    bool integer = x->dtype == PCO_I32;
    for (int64_t i = begin; i < end; i++) {
        int64_t base = cpu_reference_offset(i, plan->kept_rank, plan->kept, plan->kept_stride);
        double sum = 0, most = integer ? (double)INT32_MIN : -INFINITY;
        uint32_t wrapped = 0;
        for (int64_t j = 0; j < plan->terms; j++) {
            int64_t at = base + cpu_reference_offset(j, plan->reduced_rank, plan->reduced, plan->reduced_stride);
            double v = cpu_load_f64(x->dtype, x->data, at);
            sum += v;
            if (v > most || v != v) most = v;
            if (integer) wrapped += (uint32_t)cpu_i32_at(x, at);
        }
        if (node->op->op == PCO_OP_AMAX)
            cpu_store_f64(y->dtype, y->data, i, most);
        else if (integer)
            ((int32_t *)(void *)y->data)[i] = (int32_t)wrapped;
        else
            cpu_store_f64(y->dtype, y->data, i, node->op->op == PCO_OP_MEAN ? sum / (double)plan->terms : sum);
    }
}

static CPU_RUN(reference_reduce)
{
    cpu_parallel(node, node->out[0].count, cpu_grain(node->plan.reduction.terms * 8), cpu_reference_reduce_slice);
}

CPU_REFERENCE_END

CPU_OP(SUM, reduce, 0, PLAIN(native_reduce), PLAIN(reference_reduce))
CPU_OP(MEAN, reduce, 0, PLAIN(native_reduce), PLAIN(reference_reduce))
CPU_OP(AMAX, reduce, 0, PLAIN(native_reduce), PLAIN(reference_reduce))
CPU_OP(ARGMAX, axis, 0, PLAIN(argmax), PLAIN(argmax))
