/* What the files of the CPU backend share: devices, nodes made ready to run, and how an op is described.
 *
 * A node is parsed once (its shapes and attributes turned into a plan), gets addresses in prepare, and is then
 * a function pointer with its parameters: running it looks nothing up and allocates nothing. */
#ifndef CPU_H
#define CPU_H

#include "types.h"
#include "kernels.h"
#include "walk.h"

#ifndef PCO_VERSION
#define PCO_VERSION "0.1.0"
#endif

typedef struct cpu_node cpu_node;
typedef struct cpu_op cpu_op;

struct pco_backend {
    const pco_host *host;
    char model[128]; /* of the processor */
};

struct pco_device {
    const pco_host *host;
    const cpu_kernels *kernels;
    bool reference;
    bool profiling;
    uint32_t threads;
    uint64_t ticket;
};

struct pco_buffer {
    unsigned char *data;
    uint64_t bytes;
    bool imported;
};

/* How a constant lies in memory. */
typedef enum cpu_layout {
    CPU_LAYOUT_FILE = 0,
    CPU_LAYOUT_PANELS = 1, /* layout.c */
} cpu_layout;

typedef struct cpu_tensor {
    unsigned char *data; /* NULL until prepare, and where there are no elements */
    bool present;
    uint32_t dtype, rank;
    uint32_t layout; /* cpu_layout; of constants, and known once the plugin has proposed */
    int64_t shape[PCO_MAX_RANK];
    int64_t count; /* elements */
} cpu_tensor;

typedef union cpu_attrs {
    unsigned char bytes[256];
#define CPU_ATTRS(NAME, name) pco_##name##_attrs name;
    PCO_OPERATIONS_WITH_ATTRS(CPU_ATTRS)
#undef CPU_ATTRS
    pco_own_attrs own;
} cpu_attrs;

/* A tensor seen as [outer, n, inner] around one axis. */
typedef struct cpu_axis {
    int64_t outer, n, inner;
} cpu_axis;

/* x copied with strides: y[flat] = x[base + sum index * stride], in elements. */
typedef struct cpu_copy {
    cpu_walk walk;
    int64_t base;
} cpu_copy;

typedef struct cpu_reduction {
    int kept_rank, reduced_rank; /* dimensions of either kind, neighbours merged */
    int64_t kept[PCO_MAX_RANK], kept_stride[PCO_MAX_RANK];
    int64_t reduced[PCO_MAX_RANK], reduced_stride[PCO_MAX_RANK];
    int64_t outputs, terms;
} cpu_reduction;

typedef struct cpu_gather {
    int64_t outer, n, inner; /* x is [outer, n, inner] */
    int64_t picks;           /* y is [outer, picks, inner] */
} cpu_gather;

typedef struct cpu_state_write {
    int64_t sequences, middle, n, inner; /* state is [sequences, middle, n, inner] */
    int64_t rows;                        /* x is [sequences, middle, rows, inner] */
} cpu_state_write;

/* y[batch] = a[batch] b[batch] + ...; strides in elements. Batches of a under one b are merged into rows. */
typedef struct cpu_matmul {
    int64_t m, n, k, batches;
    int batch_rank;
    int64_t batch_shape[PCO_MAX_RANK], a_batch[PCO_MAX_RANK], b_batch[PCO_MAX_RANK];
    int64_t a_row, a_k; /* distance between rows of a, and along k */
    bool b_by_rows;     /* b is stored [N,K] */
} cpu_matmul;

typedef struct cpu_attention {
    int64_t b, h, g, s, t, d, e;
    int64_t q_b, q_h, q_s; /* strides in elements; the last dimension is contiguous */
    int64_t k_b, k_g, k_t;
    int64_t v_b, v_g, v_t;
    int64_t y_b, y_h, y_s;
    int64_t mask_b, mask_h, mask_s, mask_t;
    int64_t lengths_b, starts_b; /* 0 or 1 */
    double scale;
} cpu_attention;

typedef struct cpu_rope {
    int64_t b, s, h, d, r;
    int64_t x_b, x_s, x_h;
    int64_t positions_b;
} cpu_rope;

typedef union cpu_plan {
    cpu_walk walk;
    cpu_axis axis;
    cpu_copy copy;
    cpu_reduction reduction;
    cpu_gather gather;
    cpu_state_write state_write;
    cpu_matmul matmul;
    cpu_attention attention;
    cpu_rope rope;
} cpu_plan;

typedef void (*cpu_run_fn)(const cpu_node *node);

/* One way to compute a node. */
typedef struct cpu_variant {
    const char *name;
    cpu_run_fn run;
    uint64_t (*workspace)(const cpu_node *node); /* bytes, a multiple of 64; NULL: none */
    bool (*fits)(const cpu_node *node);          /* NULL: always */
    /* In which layout it wants operand i, if that is a constant that nobody wants otherwise. NULL: the file's, always.
     */
    cpu_layout (*layout)(const cpu_node *node, uint32_t i);
} cpu_variant;

struct cpu_op {
    uint32_t op;
    void (*parse)(cpu_node *node); /* fills node->plan */
    uint32_t in_place;             /* inputs whose memory y may take, if they have its type and shape */
    uint32_t n_native;
    const cpu_variant *native; /* the first that fits is chosen unless `choose` says otherwise */
    const cpu_variant *(*choose)(const cpu_node *node);
    const cpu_variant *reference;
    pco_status (*attempt)(const cpu_node *node, pco_error *err); /* instead of what variants run: what can fail */
};

struct cpu_node {
    cpu_run_fn run;
    pco_status (*attempt)(const cpu_node *node, pco_error *err); /* instead, where it is not NULL */
    const cpu_op *op;
    const pco_device *device;
    const cpu_kernels *kernels;
    const char *name;
    uint32_t index;
    uint32_t variant;
    uint32_t n_inputs, n_outputs;
    unsigned char *workspace; /* 64-byte aligned */
    uint64_t workspace_bytes; /* per worker where the variant says so */
    cpu_tensor in[PCO_MAX_INPUTS], out[PCO_MAX_OUTPUTS];
    cpu_attrs attrs;
    cpu_plan plan;
};

/* ---- status ---- */

pco_status cpu_fail(pco_error *err, pco_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- nodes ---- */

const cpu_op *cpu_op_find(uint32_t op);
extern const cpu_op cpu_op_own;       /* of all operations that are declared, own.c */
uint32_t cpu_attrs_size(uint32_t op); /* 0 without attributes */

/* Reads node `index` of a part without addresses. The host has checked it (plugin.h). Errors: UNSUPPORTED, for what a
 * newer host may know and this plugin does not, and for what is beyond its arithmetic. */
PCO_NODISCARD pco_status cpu_node_parse(const pco_device *device, const pco_part *part, uint32_t index, cpu_node *node,
                                        pco_error *err);

/* The variants that fit a parsed node, up to `capacity` of them; returns how many. */
uint32_t cpu_node_variants(const cpu_node *node, const cpu_variant **list, uint32_t capacity);

/* The variant that runs: the one asked for, or the plugin's choice; fills node->variant. Errors: INVALID. */
PCO_NODISCARD pco_status cpu_node_choose(cpu_node *node, uint32_t wanted, const cpu_variant **variant, pco_error *err);

bool cpu_same_shape(const cpu_tensor *a, const cpu_tensor *b);

/* [outer, n, inner] of x around an axis. */
cpu_axis cpu_split(const cpu_tensor *x, int64_t axis);

int64_t cpu_product(const int64_t *shape, int from, int to);

/* ---- running ---- */

static inline int64_t cpu_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t cpu_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline uint64_t cpu_round64(uint64_t bytes) { return (bytes + 63u) & ~(uint64_t)63; }

/* Runs fn(node, begin, end, worker) over 0 <= i < count in slices of at least `grain`. */
static inline void cpu_parallel(const cpu_node *node, int64_t count, int64_t grain, pco_parallel_fn fn)
{
    if (count <= 0) return;
    const pco_host *host = node->device->host;
    if (count <= grain || node->device->threads < 2)
        fn((void *)(uintptr_t)node, 0, count, 0);
    else
        host->parallel_for(host->user, count, grain < 1 ? 1 : grain, fn, (void *)(uintptr_t)node);
}

/* How many indices a slice holds at least, when each costs about `cost` simple operations. */
static inline int64_t cpu_grain(int64_t cost) { return cpu_max(1, 32768 / cpu_max(1, cost)); }

/* The scratch memory of a worker, for variants whose workspace is one part per thread. */
static inline unsigned char *cpu_worker_memory(const cpu_node *node, uint32_t worker)
{
    return node->workspace + (uint64_t)worker * (node->workspace_bytes / node->device->threads);
}

/* Element i of a tensor of 32-bit integers. */
static inline int32_t cpu_i32_at(const cpu_tensor *x, int64_t i) { return ((const int32_t *)(void *)x->data)[i]; }

/* Room for `count` elements of a type behind `at`, in bytes. */
static inline unsigned char *cpu_at(const cpu_tensor *x, int64_t element)
{
    return x->data + cpu_bytes(x->dtype, element);
}

#endif
