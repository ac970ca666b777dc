/* indexed_matmul. On cpu:native the rows of x are put in the order of their matrices first, so that each row of weights
 * that was chosen at all is read once for four of them, as it is stored. A sum has the same order whatever comes with
 * it. */
#include "run.h"

/* x [choices / each, k], weight [matrices, n, k], indices [choices], y [choices, n] */
typedef struct cpu_indexed {
    int64_t choices, each, matrices, n, k;
} cpu_indexed;

static cpu_indexed cpu_indexed_of(const cpu_node *node)
{
    const cpu_tensor *x = &node->in[0], *weight = &node->in[1], *indices = &node->in[2];
    const int64_t matrices = node->attrs.indexed_matmul.matrices;
    const bool own = x->rank > indices->rank; /* a row for each index */
    return (cpu_indexed){.choices = indices->count,
                         .each = own ? 1 : indices->shape[indices->rank - 1],
                         .matrices = matrices,
                         .n = weight->shape[0] / matrices,
                         .k = weight->shape[1]};
}

enum { CPU_INDEXED_COLUMNS = 64 };

/* The workspace: rows of x in f32, choice by choice of each matrix; which choice each is; where each matrix begins.
 * Choices without a matrix come last. */
typedef struct cpu_indexed_room {
    float *rows;     /* [choices, k] */
    int64_t *choice; /* [choices] */
    int64_t *end;    /* [matrices + 1] */
} cpu_indexed_room;

static uint64_t cpu_indexed_divide(const cpu_node *node, cpu_indexed_room *room)
{
    const cpu_indexed own = cpu_indexed_of(node), *plan = &own;
    const uint64_t rows = cpu_round64((uint64_t)(plan->choices * plan->k) * 4),
                   choices = cpu_round64((uint64_t)plan->choices * 8);
    if (room) {
        room->rows = (float *)(void *)node->workspace;
        room->choice = (int64_t *)(void *)(node->workspace + rows);
        room->end = (int64_t *)(void *)(node->workspace + rows + choices);
    }
    return rows + choices + cpu_round64((uint64_t)(plan->matrices + 1) * 8);
}

static CPU_WORKSPACE(native_indexed_matmul) { return cpu_indexed_divide(node, NULL); }

/* Number `matrices`: none. */
static int64_t cpu_indexed_matrix(const cpu_node *node, const cpu_indexed *plan, int64_t choice)
{
    const int64_t index = cpu_i32_at(&node->in[2], choice);
    return index >= 0 && index < plan->matrices ? index : plan->matrices;
}

/* Counting sort of the choices; afterwards end[m] is where matrix m ends. */
static void cpu_indexed_sort(const cpu_node *node, const cpu_indexed *plan, const cpu_indexed_room *room)
{
    for (int64_t m = 0; m <= plan->matrices; m++) room->end[m] = 0;
    for (int64_t s = 0; s < plan->choices; s++) room->end[cpu_indexed_matrix(node, plan, s)]++;
    for (int64_t m = 0, at = 0; m <= plan->matrices; m++) {
        const int64_t count = room->end[m];
        room->end[m] = at;
        at += count;
    }
    for (int64_t s = 0; s < plan->choices; s++) room->choice[room->end[cpu_indexed_matrix(node, plan, s)]++] = s;
}

static void cpu_indexed_gather(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_indexed own = cpu_indexed_of(node), *plan = &own;
    const cpu_tensor *x = &node->in[0];
    cpu_indexed_room room;
    cpu_indexed_divide(node, &room);
    for (int64_t i = begin; i < end; i++)
        node->kernels->load[x->dtype](room.rows + i * plan->k, cpu_at(x, room.choice[i] / plan->each * plan->k),
                                      plan->k);
}

/* Columns first .. first + n - 1 of the choices of a matrix; n is at most CPU_INDEXED_COLUMNS. */
static void cpu_indexed_block(const cpu_node *node, const cpu_indexed *plan, const cpu_indexed_room *room,
                              int64_t matrix, int64_t first, int64_t n)
{
    const cpu_tensor *weight = &node->in[1], *y = &node->out[0];
    const int64_t from = matrix ? room->end[matrix - 1] : 0, count = room->end[matrix] - from;
    for (int64_t i = 0; i < count; i += CPU_DOT_ROWS) {
        const int rows = (int)cpu_min(CPU_DOT_ROWS, count - i);
        float sums[CPU_DOT_ROWS][CPU_INDEXED_COLUMNS] = {{0}}, column[CPU_DOT_ROWS];
        for (int64_t j = 0; j < n && matrix < plan->matrices; j++) {
            const unsigned char *row = cpu_at(weight, (matrix * plan->n + first + j) * plan->k);
            node->kernels->dot_rows[weight->dtype](column, room->rows + (from + i) * plan->k, plan->k, rows, row,
                                                   plan->k);
            for (int r = 0; r < rows; r++) sums[r][j] = column[r];
        }
        for (int r = 0; r < rows; r++)
            node->kernels->store[y->dtype](cpu_at(y, room->choice[from + i + r] * plan->n + first), sums[r], n);
    }
}

/* Slices are columns of all matrices, chosen or not, and of none. */
static void cpu_indexed_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_indexed own = cpu_indexed_of(node), *plan = &own;
    cpu_indexed_room room;
    cpu_indexed_divide(node, &room);
    for (int64_t at = begin, n; at < end; at += n) {
        const int64_t first = at % plan->n;
        n = cpu_min(cpu_min(CPU_INDEXED_COLUMNS, end - at), plan->n - first);
        cpu_indexed_block(node, plan, &room, at / plan->n, first, n);
    }
}

static CPU_RUN(native_indexed_matmul)
{
    const cpu_indexed own = cpu_indexed_of(node), *plan = &own;
    cpu_indexed_room room;
    if (node->out[0].count == 0) return;
    cpu_indexed_divide(node, &room);
    cpu_indexed_sort(node, plan, &room);
    cpu_parallel(node, plan->choices, cpu_grain(plan->k), cpu_indexed_gather);
    const int64_t used = cpu_max(1, cpu_min(plan->choices, plan->matrices));
    const int64_t grain = cpu_grain(cpu_max(1, plan->choices * plan->k / used));
    cpu_parallel(node, (plan->matrices + 1) * plan->n, cpu_max(4, grain), cpu_indexed_slice);
}

/* ---- cpu:reference ---- */

CPU_REFERENCE_BEGIN

/* A row of x in double, for each worker. */
static CPU_WORKSPACE(reference_indexed_matmul)
{
    return node->device->threads * cpu_round64((uint64_t)cpu_indexed_of(node).k * 8);
}

static void cpu_reference_indexed_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_indexed own = cpu_indexed_of(node), *plan = &own;
    const cpu_tensor *x = &node->in[0], *weight = &node->in[1], *y = &node->out[0];
    double *row = (double *)(void *)cpu_worker_memory(node, worker);
    for (int64_t s = begin; s < end; s++) {
        const int64_t matrix = cpu_i32_at(&node->in[2], s), from = s / plan->each * plan->k;
        const bool none = matrix < 0 || matrix >= plan->matrices;
        for (int64_t k = 0; k < plan->k; k++) row[k] = cpu_load_f64(x->dtype, x->data, from + k);
        for (int64_t n = 0; n < plan->n; n++) {
            double sum = 0;
            for (int64_t k = 0; k < plan->k && !none; k++)
                sum += row[k] * cpu_load_f64(weight->dtype, weight->data, (matrix * plan->n + n) * plan->k + k);
            cpu_store_f64(y->dtype, y->data, s * plan->n + n, sum);
        }
    }
}

static CPU_RUN(reference_indexed_matmul)
{
    const cpu_indexed plan = cpu_indexed_of(node);
    if (node->out[0].count == 0) return;
    cpu_parallel(node, plan.choices, cpu_grain(plan.n * plan.k), cpu_reference_indexed_slice);
}

CPU_REFERENCE_END

CPU_OP(INDEXED_MATMUL, nothing, 0, MEMORY(native_indexed_matmul), MEMORY(reference_indexed_matmul))
