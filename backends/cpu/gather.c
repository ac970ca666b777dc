/* Reading and writing by index. */
#include "run.h"

static void cpu_gather_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_gather *plan = &node->plan.gather;
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    int64_t y_bytes = plan->inner * cpu_size(y->dtype);
    for (int64_t i = begin; i < end; i++) {
        unsigned char *to = y->data + i * y_bytes;
        int64_t outer = i / plan->picks, index = cpu_i32_at(&node->in[1], i % plan->picks);
        if (index < 0 || index >= plan->n) {
            memset(to, 0, (size_t)y_bytes);
            continue;
        }
        const unsigned char *from = cpu_at(x, (outer * plan->n + index) * plan->inner);
        if (!cpu_is_quantised(x->dtype)) {
            memcpy(to, from, (size_t)y_bytes);
            continue;
        }
        float weights[CPU_BLOCK_MOST]; /* in f32, to which types with a minimum are rounded; all others are exact */
        const int64_t block = cpu_block(x->dtype);
        for (int64_t j = 0; j < plan->inner; j += block) {
            node->kernels->load[x->dtype](weights, from + cpu_bytes(x->dtype, j), block);
            node->kernels->store[y->dtype](cpu_at(y, i * plan->inner + j), weights, block);
        }
    }
}

static CPU_RUN(gather)
{
    if (node->out[0].count == 0) return;
    const cpu_gather *plan = &node->plan.gather;
    cpu_parallel(node, plan->outer * plan->picks, cpu_grain(plan->inner), cpu_gather_slice);
}

static void cpu_gather_along_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_gather *plan = &node->plan.gather;
    uint32_t size = cpu_size(node->out[0].dtype);
    for (int64_t i = begin; i < end; i++) {
        int64_t inner = i % plan->inner, outer = i / plan->inner / plan->picks;
        int64_t index = cpu_i32_at(&node->in[1], i);
        unsigned char *to = node->out[0].data + i * size;
        if (index < 0 || index >= plan->n)
            memset(to, 0, size);
        else
            memcpy(to, node->in[0].data + ((outer * plan->n + index) * plan->inner + inner) * size, size);
    }
}

static CPU_RUN(gather_along_axis) { cpu_parallel(node, node->out[0].count, cpu_grain(16), cpu_gather_along_slice); }

/* ---- scatter_add ---- */

/* 16-bit types are summed in f32 and rounded once. */
static CPU_WORKSPACE(native_scatter_add)
{
    const cpu_tensor *y = &node->out[0];
    return cpu_size(y->dtype) == 2 ? cpu_round64((uint64_t)y->count * 4) : 0;
}

static void cpu_scatter_run(uint32_t dtype, const cpu_kernels *kernels, unsigned char *sum, const unsigned char *from,
                            int64_t n)
{
    if (dtype == PCO_I32) {
        uint32_t *to = (uint32_t *)(void *)sum;
        const uint32_t *add = (const uint32_t *)(const void *)from;
        for (int64_t i = 0; i < n; i++) to[i] += add[i];
        return;
    }
    float lanes[256], *to = (float *)(void *)sum;
    for (int64_t i = 0; i < n; i += 256) {
        int64_t part = cpu_min(256, n - i);
        kernels->load[dtype](lanes, from + i * cpu_size(dtype), part);
        kernels->map2[PCO_OP_ADD](to + i, to + i, lanes, part);
    }
}

/* Slices are runs of [outer, inner]: each element has one owner, who takes the updates in order. */
static void cpu_scatter_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_gather *plan = &node->plan.gather;
    const cpu_tensor *updates = &node->in[2];
    uint32_t size = cpu_size(updates->dtype);
    unsigned char *sum = size == 2 ? node->workspace : node->out[0].data;
    for (int64_t at = begin; at < end;) {
        int64_t outer = at / plan->inner, inner = at % plan->inner;
        int64_t run = cpu_min(plan->inner - inner, end - at);
        for (int64_t pick = 0; pick < plan->picks; pick++) {
            int64_t index = cpu_i32_at(&node->in[1], pick);
            if (index < 0 || index >= plan->n) continue;
            int64_t to = (outer * plan->n + index) * plan->inner + inner;
            int64_t from = (outer * plan->picks + pick) * plan->inner + inner;
            cpu_scatter_run(updates->dtype, node->kernels, sum + to * 4, updates->data + from * size, run);
        }
        at += run;
    }
}

static CPU_RUN(native_scatter_add)
{
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    const cpu_gather *plan = &node->plan.gather;
    if (y->count == 0) return;
    bool narrow = cpu_size(x->dtype) == 2;
    if (narrow)
        node->kernels->load[x->dtype](node->workspace, x->data, x->count);
    else if (y->data != x->data)
        memcpy(y->data, x->data, (size_t)cpu_bytes(x->dtype, x->count));
    cpu_parallel(node, plan->outer * plan->inner, cpu_grain(plan->picks * 2), cpu_scatter_slice);
    if (narrow) node->kernels->store[y->dtype](y->data, (const float *)(const void *)node->workspace, y->count);
}

/* ---- state_write ---- */

static void cpu_convert_run(const cpu_node *node, const cpu_tensor *to, int64_t to_at, const cpu_tensor *from,
                            int64_t from_at, int64_t n)
{
    if (to->dtype == from->dtype) {
        memcpy(cpu_at(to, to_at), cpu_at(from, from_at), (size_t)cpu_bytes(to->dtype, n));
        return;
    }
    float lanes[256];
    for (int64_t i = 0; i < n; i += 256) {
        int64_t part = cpu_min(256, n - i);
        node->kernels->load[from->dtype](lanes, cpu_at(from, from_at + i), part);
        node->kernels->store[to->dtype](cpu_at(to, to_at + i), lanes, part);
    }
}

/* Slices are rows of [sequences, middle]. */
static void cpu_state_write_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_state_write *plan = &node->plan.state_write;
    const cpu_tensor *index = &node->in[2];
    for (int64_t i = begin; i < end; i++) {
        int64_t first = cpu_i32_at(index, index->count > 1 ? i / plan->middle : 0);
        int64_t skip = first < 0 ? -first : 0;
        int64_t rows = cpu_min(plan->rows, plan->n - first) - skip;
        if (rows <= 0) continue;
        cpu_convert_run(node, &node->out[0], (i * plan->n + first + skip) * plan->inner, &node->in[1],
                        (i * plan->rows + skip) * plan->inner, rows * plan->inner);
    }
}

static CPU_RUN(state_write)
{
    const cpu_tensor *state = &node->in[0], *y = &node->out[0];
    const cpu_state_write *plan = &node->plan.state_write;
    if (y->count == 0) return;
    /* The plan gives both the same memory; a host that does not still gets the state after the write. */
    if (y->data != state->data) memcpy(y->data, state->data, (size_t)cpu_bytes(y->dtype, y->count));
    if (node->in[1].count == 0) return;
    cpu_parallel(node, plan->sequences * plan->middle, cpu_grain(plan->rows * plan->inner), cpu_state_write_slice);
}

/* ---- plans ---- */

/* x around the axis, and how many slices of it are picked. */
static void cpu_plan_gather(cpu_node *node, int64_t axis, int64_t picks)
{
    const cpu_axis split = cpu_split(&node->in[0], axis);
    node->plan.gather = (cpu_gather){.outer = split.outer, .n = split.n, .inner = split.inner, .picks = picks};
}

static CPU_PARSE(gather) { cpu_plan_gather(node, node->attrs.gather.axis, node->in[1].count); }

static CPU_PARSE(gather_along_axis)
{
    const int64_t axis = node->attrs.gather_along_axis.axis;
    cpu_plan_gather(node, axis, node->in[1].shape[axis]);
}

static CPU_PARSE(scatter_add) { cpu_plan_gather(node, node->attrs.scatter_add.axis, node->in[1].count); }

static CPU_PARSE(state_write)
{
    const cpu_tensor *state = &node->in[0], *x = &node->in[1];
    const int axis = (int)node->attrs.state_write.axis;
    node->plan.state_write = (cpu_state_write){
        .sequences = state->shape[0],
        .middle = cpu_product(state->shape, 1, axis),
        .n = state->shape[axis],
        .inner = cpu_product(state->shape, axis + 1, (int)state->rank),
        .rows = x->shape[axis],
    };
}

/* ---- cpu:reference ---- */

CPU_REFERENCE_BEGIN

/* Floats are summed in double and rounded once. */
static CPU_WORKSPACE(reference_scatter_add)
{
    const cpu_tensor *y = &node->out[0];
    return y->dtype == PCO_I32 ? 0 : cpu_round64((uint64_t)y->count * 8);
}

static CPU_RUN(reference_scatter_add)
{
    const cpu_tensor *x = &node->in[0], *indices = &node->in[1], *updates = &node->in[2], *y = &node->out[0];
    const cpu_gather *plan = &node->plan.gather;
    double *sum = (double *)(void *)node->workspace;
    bool integer = y->dtype == PCO_I32;
    for (int64_t i = 0; i < y->count; i++) {
        if (integer)
            ((int32_t *)(void *)y->data)[i] = cpu_i32_at(x, i);
        else
            sum[i] = cpu_load_f64(x->dtype, x->data, i);
    }
    for (int64_t outer = 0; outer < plan->outer; outer++)
        for (int64_t pick = 0; pick < plan->picks; pick++) {
            int64_t index = cpu_i32_at(indices, pick);
            if (index < 0 || index >= plan->n) continue;
            for (int64_t inner = 0; inner < plan->inner; inner++) {
                int64_t to = (outer * plan->n + index) * plan->inner + inner;
                int64_t from = (outer * plan->picks + pick) * plan->inner + inner;
                if (integer)
                    ((uint32_t *)(void *)y->data)[to] += (uint32_t)cpu_i32_at(updates, from);
                else
                    sum[to] += cpu_load_f64(updates->dtype, updates->data, from);
            }
        }
    for (int64_t i = 0; i < y->count && !integer; i++) cpu_store_f64(y->dtype, y->data, i, sum[i]);
}

CPU_REFERENCE_END

CPU_OP(GATHER, gather, 0, PLAIN(gather), PLAIN(gather))
CPU_OP(GATHER_ALONG_AXIS, gather_along_axis, 0, PLAIN(gather_along_axis), PLAIN(gather_along_axis))
CPU_OP(SCATTER_ADD, scatter_add, 1, MEMORY(native_scatter_add), MEMORY(reference_scatter_add))
CPU_OP(STATE_WRITE, state_write, 0, PLAIN(state_write), PLAIN(state_write))
