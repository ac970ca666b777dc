/* The product of matrices of any size: blocks of a and b are widened to f32 and packed, then tiles of
 * registers run over them. Loops from the outside: columns by NC, rows by MC, k by KC; packing and computing
 * are two parallel loops per block. A sum runs over k in order and by the same blocks (simd_matmul.h), whatever the
 * tile, the block of rows or the thread, so a row is the same bits alone and in a batch. Many small batches run one per
 * thread instead. */
#include "matmul.h"

enum {
    CPU_KC = 256,      /* steps of k per block; a multiple of the quantised blocks */
    CPU_MC = 1008,     /* rows per block: a multiple of all tile heights (6, 8, 12, 14) */
    CPU_NC = 2048,     /* columns per block: a multiple of all tile widths */
    CPU_TASK_ROWS = 8, /* tiles of one task */
    CPU_TASK_COLUMNS = 4,
    CPU_SMALL = 1 << 26, /* products of a batch below which batches run in parallel */
    CPU_WHOLE =
        1 << 15, /* floats of a, at most, that one thread packs alone: some microseconds, as threads take to meet */
};

_Static_assert(CPU_KC % CPU_BLOCK_MOST == 0 && CPU_KC % CPU_SUM_STEPS == 0, "whole blocks");

typedef struct cpu_gemm {
    const cpu_node *node;
    const cpu_kernels *kernels;
    int64_t a_at, b_at;          /* elements */
    int64_t row;                 /* first row of the batch in the result */
    int64_t m0, m, n0, n, k0, k; /* the block */
    bool first, last;            /* along k */
    int64_t group;               /* tiles of columns in a task */
    bool serial;
    uint32_t worker; /* when serial */
    float *sums;     /* of the block's first element */
    int64_t sums_row;
    float *a_pack, *b_pack, *scratch;
    const float *b_panels; /* of the block: in b_pack, or where a constant has them */
    int64_t b_panel;       /* floats from one to the next */
    int64_t scratch_room;  /* floats per worker */
} cpu_gemm;

static int64_t cpu_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* Room in floats; `scratch` is per worker: a panel before it is packed, and a tile. */
typedef struct cpu_gemm_room {
    int64_t a_pack, b_pack, sums, scratch;
} cpu_gemm_room;

/* Sums grow in y itself where that loses nothing. */
static bool cpu_gemm_in_y(const cpu_node *node) { return node->out[0].dtype == PCO_F32; }

/* b is a constant that lies in panels. */
static bool cpu_gemm_packed(const cpu_node *node) { return node->in[1].layout == CPU_LAYOUT_PANELS; }

static bool cpu_gemm_is_whole(const cpu_node *node)
{
    const cpu_matmul *plan = &node->plan.matmul;
    return cpu_gemm_packed(node) && cpu_up(plan->m, node->kernels->tile_rows) * plan->k <= CPU_WHOLE;
}

static cpu_gemm_room cpu_gemm_measure(const cpu_node *node)
{
    const cpu_matmul *plan = &node->plan.matmul;
    const cpu_kernels *kernels = node->kernels;
    int64_t k = cpu_min(plan->k, CPU_KC), n = cpu_min(plan->n, CPU_NC), m = cpu_min(plan->m, CPU_MC);
    int64_t panel = cpu_max(kernels->tile_rows, kernels->tile_columns);
    cpu_gemm_room room = {
        .a_pack = cpu_up(cpu_up(m, kernels->tile_rows) * (cpu_gemm_is_whole(node) ? plan->k : k), 16),
        .b_pack = cpu_gemm_packed(node) ? 0 : cpu_up(cpu_up(n, kernels->tile_columns) * k, 16),
        .sums = cpu_gemm_in_y(node) ? 0 : cpu_up(m * n, 16),
        .scratch = cpu_up(panel * CPU_KC, 16),
    };
    return room;
}

static bool cpu_gemm_by_batch(const cpu_node *node)
{
    const cpu_matmul *plan = &node->plan.matmul;
    return plan->batches >= node->device->threads && plan->batches > 1 && plan->m * plan->n * plan->k < CPU_SMALL;
}

CPU_WORKSPACE(native_gemm)
{
    cpu_gemm_room room = cpu_gemm_measure(node);
    uint64_t block = (uint64_t)(room.a_pack + room.b_pack + room.sums) * 4, threads = node->device->threads;
    uint64_t bytes = (uint64_t)room.scratch * 4 * threads;
    return bytes + block * (cpu_gemm_by_batch(node) ? threads : 1);
}

/* Runs fn(task, begin, end, worker) over 0 <= i < count in this thread or in all. */
static void cpu_gemm_loop(cpu_gemm *task, int64_t count, pco_parallel_fn fn)
{
    const pco_host *host = task->node->device->host;
    if (task->serial || count < 2)
        fn(task, 0, count, task->worker);
    else
        host->parallel_for(host->user, count, 1, fn, task);
}

/* `rows` rows of a matrix that is contiguous along k, as a panel. */
static void cpu_pack_rows(const cpu_gemm *task, float *to, const cpu_tensor *x, int64_t at, int64_t stride,
                          int64_t rows, int64_t panel, uint32_t worker)
{
    if (x->dtype == PCO_F32) {
        task->kernels->pack_rows(to, (const float *)(void *)x->data + at, stride, rows, task->k, panel);
        return;
    }
    float *wide = task->scratch + (int64_t)worker * task->scratch_room;
    for (int64_t r = 0; r < rows; r++)
        task->kernels->load[x->dtype](wide + r * task->k, cpu_at(x, at + r * stride), task->k);
    task->kernels->pack_rows(to, wide, task->k, rows, task->k, panel);
}

/* `columns` neighbours for every step of k, `step` elements apart, as a panel. */
static void cpu_pack_columns(const cpu_gemm *task, float *to, const cpu_tensor *x, int64_t at, int64_t step,
                             int64_t columns, int64_t panel)
{
    for (int64_t k = 0; k < task->k; k++, to += panel) {
        task->kernels->load[x->dtype](to, cpu_at(x, at + k * step), columns);
        for (int64_t i = columns; i < panel; i++) to[i] = 0;
    }
}

/* Panels of a, then panels of b. */
static void cpu_gemm_pack(void *argument, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_gemm *task = argument;
    const cpu_matmul *plan = &task->node->plan.matmul;
    const cpu_tensor *a = &task->node->in[0], *b = &task->node->in[1];
    int64_t high = task->kernels->tile_rows, wide = task->kernels->tile_columns;
    int64_t a_panels = cpu_up(task->m, high) / high;
    for (int64_t i = begin; i < end; i++) {
        if (i < a_panels) {
            int64_t rows = cpu_min(high, task->m - i * high);
            int64_t at = task->a_at + (task->m0 + i * high) * plan->a_row + task->k0 * plan->a_k;
            float *to = task->a_pack + i * high * task->k;
            if (plan->a_k == 1)
                cpu_pack_rows(task, to, a, at, plan->a_row, rows, high, worker);
            else
                cpu_pack_columns(task, to, a, at, plan->a_k, rows, high);
            continue;
        }
        int64_t panel = i - a_panels, column = task->n0 + panel * wide;
        int64_t columns = cpu_min(wide, task->n - panel * wide);
        float *to = task->b_pack + panel * wide * task->k;
        if (plan->b_by_rows)
            cpu_pack_rows(task, to, b, task->b_at + column * plan->k + task->k0, plan->k, columns, wide, worker);
        else
            cpu_pack_columns(task, to, b, task->b_at + task->k0 * plan->n + column, plan->n, columns, wide);
    }
}

/* One tile; where there are not all columns through a whole one. */
static void cpu_gemm_tile(const cpu_gemm *task, const float *a, const float *b, float *sums, int64_t rows,
                          int64_t columns)
{
    int64_t wide = task->kernels->tile_columns;
    if (columns == wide) {
        task->kernels->tile_packed((int)rows, task->k, a, b, sums, task->sums_row, !task->first);
        return;
    }
    float edge[CPU_TILE_MAX] = {0};
    if (!task->first)
        for (int64_t r = 0; r < rows; r++) memcpy(edge + r * wide, sums + r * task->sums_row, (size_t)columns * 4);
    task->kernels->tile_packed((int)rows, task->k, a, b, edge, wide, !task->first);
    for (int64_t r = 0; r < rows; r++) memcpy(sums + r * task->sums_row, edge + r * wide, (size_t)columns * 4);
}

/* Groups of tiles of the block, columns outermost. */
static int64_t cpu_gemm_groups(const cpu_gemm *task)
{
    int64_t group_m = CPU_TASK_ROWS * task->kernels->tile_rows, group_n = task->group * task->kernels->tile_columns;
    return cpu_up(task->m, group_m) / group_m * (cpu_up(task->n, group_n) / group_n);
}

static void cpu_gemm_compute(void *argument, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_gemm *task = argument;
    int64_t high = task->kernels->tile_rows, wide = task->kernels->tile_columns;
    int64_t group_m = CPU_TASK_ROWS * high, group_n = task->group * wide;
    int64_t groups_m = cpu_up(task->m, group_m) / group_m;
    for (int64_t i = begin; i < end; i++) {
        int64_t m0 = i % groups_m * group_m, m1 = cpu_min(task->m, m0 + group_m);
        int64_t n0 = i / groups_m * group_n, n1 = cpu_min(task->n, n0 + group_n);
        for (int64_t n = n0; n < n1; n += wide)
            for (int64_t m = m0; m < m1; m += high)
                cpu_gemm_tile(task, task->a_pack + m * task->k, task->b_panels + n / wide * task->b_panel,
                              task->sums + m * task->sums_row + n, cpu_min(high, m1 - m), cpu_min(wide, n1 - n));
        if (task->last)
            for (int64_t m = m0; m < m1; m++)
                cpu_matmul_finish(task->node, task->row + task->m0 + m, task->n0 + n0,
                                  task->sums + m * task->sums_row + n0, n1 - n0);
    }
}

/* The steps of k from k0 on. */
static void cpu_gemm_step(cpu_gemm *task, int64_t k0)
{
    const cpu_matmul *plan = &task->node->plan.matmul;
    const bool packed = cpu_gemm_packed(task->node);
    task->k0 = k0;
    task->k = cpu_min(CPU_KC, plan->k - k0);
    task->first = k0 == 0;
    task->last = k0 + task->k == plan->k;
    task->b_panel = task->kernels->tile_columns * (packed ? plan->k : task->k);
    task->b_panels = task->b_pack;
    if (packed) /* n0 is whole panels */
        task->b_panels =
            (const float *)(const void *)task->node->in[1].data + task->n0 * plan->k + k0 * task->kernels->tile_columns;
}

/* The same groups, each over all of k, from panels of a that are all there. */
static void cpu_gemm_compute_whole(void *argument, int64_t begin, int64_t end, uint32_t worker)
{
    cpu_gemm task = *(const cpu_gemm *)argument;
    const int64_t room = cpu_up(task.m, task.kernels->tile_rows);
    float *a_pack = task.a_pack;
    for (int64_t i = begin; i < end; i++) {
        int64_t k0 = 0;
        do {
            cpu_gemm_step(&task, k0);
            task.a_pack = a_pack + k0 * room;
            cpu_gemm_compute(&task, i, i + 1, worker);
            k0 += task.k;
        } while (!task.last);
    }
}

/* Few rows by a constant: a is packed by one thread, so that the threads meet once, and not twice for each block of k.
 */
static void cpu_gemm_whole(cpu_gemm *task)
{
    const int64_t high = task->kernels->tile_rows, panels = cpu_up(task->m, high) / high;
    float *a_pack = task->a_pack;
    int64_t k0 = 0;
    do {
        cpu_gemm_step(task, k0);
        task->a_pack = a_pack + k0 * panels * high;
        cpu_gemm_pack(task, 0, panels, task->worker);
        k0 += task->k;
    } while (!task->last);
    task->a_pack = a_pack;
    task->group = 1;
    cpu_gemm_loop(task, cpu_gemm_groups(task), cpu_gemm_compute_whole);
}

static void cpu_gemm_block(cpu_gemm *task)
{
    int64_t high = task->kernels->tile_rows, wide = task->kernels->tile_columns;
    int64_t panels = cpu_up(task->m, high) / high + (cpu_gemm_packed(task->node) ? 0 : cpu_up(task->n, wide) / wide);
    if (cpu_gemm_is_whole(task->node)) {
        cpu_gemm_whole(task);
        return;
    }
    task->group = CPU_TASK_COLUMNS;
    int64_t k0 = 0;
    do {
        cpu_gemm_step(task, k0);
        cpu_gemm_loop(task, panels, cpu_gemm_pack);
        cpu_gemm_loop(task, cpu_gemm_groups(task), cpu_gemm_compute);
        k0 += task->k;
    } while (!task->last);
}

static void cpu_gemm_batch(cpu_gemm *task, int64_t batch, float *sums)
{
    const cpu_node *node = task->node;
    const cpu_matmul *plan = &node->plan.matmul;
    cpu_matmul_offsets(plan, batch, &task->a_at, &task->b_at);
    task->row = batch * plan->m;
    for (task->n0 = 0; task->n0 < plan->n; task->n0 += task->n) {
        task->n = cpu_min(CPU_NC, plan->n - task->n0);
        for (task->m0 = 0; task->m0 < plan->m; task->m0 += task->m) {
            task->m = cpu_min(CPU_MC, plan->m - task->m0);
            bool in_y = cpu_gemm_in_y(node);
            task->sums_row = in_y ? plan->n : task->n;
            task->sums = in_y ? (float *)(void *)node->out[0].data + (task->row + task->m0) * plan->n + task->n0 : sums;
            cpu_gemm_block(task);
        }
    }
}

/* The task of a worker, with its memory; `sums` is set where the sums do not lie in y. */
static cpu_gemm cpu_gemm_task(const cpu_node *node, bool serial, uint32_t worker, float **sums)
{
    cpu_gemm_room room = cpu_gemm_measure(node);
    float *memory = (float *)(void *)node->workspace;
    cpu_gemm task = {.node = node,
                     .kernels = node->kernels,
                     .serial = serial,
                     .worker = worker,
                     .scratch = memory,
                     .scratch_room = room.scratch};
    memory += node->device->threads * room.scratch;
    if (serial) memory += worker * (room.a_pack + room.b_pack + room.sums);
    task.a_pack = memory;
    task.b_pack = memory + room.a_pack;
    *sums = memory + room.a_pack + room.b_pack;
    return task;
}

static void cpu_gemm_batches(void *argument, int64_t begin, int64_t end, uint32_t worker)
{
    float *sums;
    cpu_gemm task = cpu_gemm_task(argument, true, worker, &sums);
    for (int64_t batch = begin; batch < end; batch++) cpu_gemm_batch(&task, batch, sums);
}

CPU_RUN(native_gemm)
{
    const cpu_matmul *plan = &node->plan.matmul;
    if (node->out[0].count == 0) return;
    if (cpu_gemm_by_batch(node)) {
        cpu_parallel(node, plan->batches, cpu_grain(plan->m * plan->n * plan->k / 4), cpu_gemm_batches);
        return;
    }
    float *sums;
    cpu_gemm task = cpu_gemm_task(node, node->device->threads < 2, 0, &sums);
    for (int64_t batch = 0; batch < plan->batches; batch++) cpu_gemm_batch(&task, batch, sums);
}
