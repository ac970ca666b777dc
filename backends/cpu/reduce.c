/* sum, mean, amax, argmax, cumsum. A result's terms are added in an order that depends on the shapes alone. */
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

void cpu_run_native_reduce(const cpu_node *node)
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

void cpu_run_argmax(const cpu_node *node)
{
    cpu_parallel(node, node->out[0].count, cpu_grain(node->plan.axis.n), cpu_argmax_slice);
}

/* ---- cumsum: floats in double ---- */

enum { CPU_CUMSUM_PARTS = 4, CPU_CUMSUM_PART = 256, CPU_CUMSUM_COLUMNS = 256 };

/* Where term j of a row lies, counted from its beginning in steps of the axis. */
static int64_t cpu_cumsum_at(const cpu_node *node, int64_t j)
{
    return node->attrs.cumsum.reverse ? node->plan.axis.n - 1 - j : j;
}

/* i32 elements [from, from + width) of each step: one row, or neighbours. */
static void cpu_cumsum_i32(const cpu_node *node, int64_t from, int64_t width)
{
    uint32_t sum[CPU_CUMSUM_COLUMNS] = {0};
    const cpu_axis *axis = &node->plan.axis;
    for (int64_t j = 0; j < axis->n; j++) {
        int64_t at = from + cpu_cumsum_at(node, j) * axis->inner;
        const uint32_t *x = (const uint32_t *)(void *)node->in[0].data + at;
        uint32_t *y = (uint32_t *)(void *)node->out[0].data + at;
        for (int64_t i = 0; i < width; i++) {
            uint32_t before = sum[i];
            sum[i] += x[i];
            y[i] = node->attrs.cumsum.exclusive ? before : sum[i];
        }
    }
}

/* Rows that lie side by side: term after term, many rows at once. */
static void cpu_cumsum_columns(const cpu_node *node, int64_t from, int64_t width)
{
    double sum[CPU_CUMSUM_COLUMNS] = {0};
    float lanes[CPU_CUMSUM_COLUMNS], sums[CPU_CUMSUM_COLUMNS];
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    for (int64_t j = 0; j < node->plan.axis.n; j++) {
        int64_t at = from + cpu_cumsum_at(node, j) * node->plan.axis.inner;
        node->kernels->load[x->dtype](lanes, cpu_at(x, at), width);
        if (!node->attrs.cumsum.exclusive) node->kernels->add_to(sum, lanes, width);
        for (int64_t i = 0; i < width; i++) sums[i] = (float)sum[i];
        if (node->attrs.cumsum.exclusive) node->kernels->add_to(sum, lanes, width);
        node->kernels->store[y->dtype](cpu_at(y, at), sums, width);
    }
}

static void cpu_cumsum_turn(float *lanes, int64_t n)
{
    for (int64_t i = 0; i < n / 2; i++) {
        float lane = lanes[i];
        lanes[i] = lanes[n - 1 - i];
        lanes[n - 1 - i] = lane;
    }
}

/* lanes[0 .. n) become their sums, with *sum in front of them; it becomes the sum of all. Four parts at once, since a
 * sum waits for the one before it. */
static void cpu_cumsum_block(float *lanes, int64_t n, bool exclusive, double *sum)
{
    double part[CPU_CUMSUM_PARTS] = {0}, sums[CPU_CUMSUM_PARTS][CPU_CUMSUM_PART], carry = *sum;
    int64_t width = (n + CPU_CUMSUM_PARTS - 1) / CPU_CUMSUM_PARTS;
    for (int64_t i = n; i < width * CPU_CUMSUM_PARTS; i++) lanes[i] = 0;
    for (int64_t i = 0; i < width; i++)
        for (int p = 0; p < CPU_CUMSUM_PARTS; p++) {
            double before = part[p];
            part[p] += (double)lanes[p * width + i];
            sums[p][i] = exclusive ? before : part[p];
        }
    for (int p = 0; p < CPU_CUMSUM_PARTS; p++) {
        for (int64_t i = 0; i < width; i++) lanes[p * width + i] = (float)(carry + sums[p][i]);
        carry += part[p];
    }
    *sum = carry;
}

/* A row that is contiguous. */
static void cpu_cumsum_row(const cpu_node *node, int64_t from)
{
    float lanes[CPU_CUMSUM_PARTS * CPU_CUMSUM_PART];
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    const pco_cumsum_attrs *attrs = &node->attrs.cumsum;
    double sum = 0;
    for (int64_t j = 0, n, size = node->plan.axis.n; j < size; j += n) {
        n = cpu_min(CPU_CUMSUM_PARTS * CPU_CUMSUM_PART, size - j);
        int64_t at = from + (attrs->reverse ? size - j - n : j);
        node->kernels->load[x->dtype](lanes, cpu_at(x, at), n);
        if (attrs->reverse) cpu_cumsum_turn(lanes, n);
        cpu_cumsum_block(lanes, n, attrs->exclusive != 0, &sum);
        if (attrs->reverse) cpu_cumsum_turn(lanes, n);
        node->kernels->store[y->dtype](cpu_at(y, at), lanes, n);
    }
}

static void cpu_cumsum_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    cpu_axis axis = node->plan.axis;
    for (int64_t i = begin, width; i < end; i += width) {
        int64_t from = i / axis.inner * axis.n * axis.inner + i % axis.inner;
        width = cpu_min(cpu_min(CPU_CUMSUM_COLUMNS, end - i), axis.inner - i % axis.inner);
        if (node->in[0].dtype == PCO_I32)
            cpu_cumsum_i32(node, from, width);
        else if (axis.inner > 1)
            cpu_cumsum_columns(node, from, width);
        else
            cpu_cumsum_row(node, from);
    }
}

void cpu_run_native_cumsum(const cpu_node *node)
{
    cpu_axis axis = node->plan.axis;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, axis.outer * axis.inner, cpu_grain(axis.n), cpu_cumsum_slice);
}
