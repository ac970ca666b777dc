/* matmul in gpu/: the problem in the form that kernels compute, and which kernel takes it. */
#ifndef PCO_GPU_LOWER_MATMUL_H
#define PCO_GPU_LOWER_MATMUL_H

#include "lower.h"

enum {
    GPU_MATMUL_NAIVE,
    GPU_MATMUL_REGISTER,
    GPU_MATMUL_SHARED,
    GPU_MATMUL_GEMV,
    GPU_MATMUL_GEMV_SUBGROUP,
    GPU_MATMUL_VECTOR,
    GPU_MATMUL_DOT,
    GPU_MATMUL_MATRIX,
    GPU_MATMUL_PAIRS,
    GPU_MATMUL_INTEGER,
    GPU_MATMUL_GEMV_SPLIT,   /* GPU_MATMUL_GEMV for parts of K side by side, */
    GPU_MATMUL_SHARED_SPLIT, /* and GPU_MATMUL_SHARED */
    GPU_MATMUL_STREAM,       /* few rows: the same share of all terms of a row of tiles for each workgroup */
    GPU_MATMUL_VARIANTS
};

/* y[..,M,N] = activation(a b + bias) + c. Row r of a begins at r * lda (of a transposed a: term k at k * lda). */
typedef struct gpu_matmul {
    uint32_t a, b, bias, c, y; /* tensors, PCO_NONE when absent */
    uint32_t a_type, b_type, y_type;
    int32_t bias_type;  /* -1: no bias */
    uint32_t bias_step; /* 0: the same bias for all columns */
    uint32_t trans_a, trans_b, quantised, activation;
    uint32_t variant;   /* GPU_MATMUL_* */
    uint32_t raw;       /* 1: f32 sums are stored, and may be added to: in the workspace, */
    uint32_t in_y;      /* or (1) in y, which then is just that */
    uint32_t scratch_a; /* 1: a is f32 in the workspace, from its beginning */
    uint64_t m, n, k, lda, ldb, total;
    uint64_t ldy, y_step; /* rows and batch entries of y */
    gpu_view batch;       /* operands a, b, y */
} gpu_matmul;

/* A row of the kernel table and how its grid covers the result. */
typedef struct gpu_matmul_kernel {
    uint32_t kernel;
    uint32_t wide, four, flat; /* 4-word vectors; a, b, s and y only; one dimension of words */
    uint32_t rows, columns;    /* of the tile of an invocation or of a workgroup */
    uint32_t local_x, local_y;
    uint32_t grid_x, grid_y; /* tiles in a workgroup */
    uint32_t order;          /* 1: rows of tiles along x */
    uint32_t clamps, pairs;  /* it has a form for results smaller than a tile; it stores two columns at once */
    uint32_t for_cpu;        /* 1: the form for processors */
} gpu_matmul_kernel;

/* Emits the product with the kernel that suits it; nothing is added or applied. K is not cut: it must fit. For other
 * lowerers; gpu_matmul_whole says beforehand whether K fits. */
pco_status gpu_emit_product(gpu_lowering *gpu, const gpu_matmul *p);
int gpu_matmul_whole(const gpu_lowering *gpu, const gpu_matmul *p);

/* May a workgroup be four subgroups of the width that cooperative matrices want? */
int gpu_has_matrix_groups(const gpu_lowering *gpu);

/* Bytes of all of a as records of integers. */
uint64_t gpu_matmul_integer_bytes(const gpu_lowering *gpu, const gpu_matmul *p);

/* Constants of the variants, in the order of gpu_matmul_variants. */
enum { GPU_NAIVE_WORKGROUP = 0 };
enum { GPU_REGISTER_ACROSS = 0, GPU_REGISTER_DOWN = 1, GPU_REGISTER_ORDERED = 2, GPU_REGISTER_COLUMNS = 3 };
enum { GPU_GEMV_LANES = 0, GPU_GEMV_LANES_ACROSS = 1, GPU_GEMV_LANES_CPU = 2, GPU_GEMV_COLUMNS = 3 };
enum { GPU_VECTOR_WORKGROUP = 0 };
enum { GPU_DOT_WORKGROUP = 0 };
enum { GPU_MATRIX_MATRICES = 0 };
enum { GPU_INTEGER_LANES = 0 };
enum { GPU_SPLIT_PARTS = 0 };
enum { GPU_STREAM_SHARES = 0, GPU_STREAM_LANES = 1 };

/* Numbers of a in a record of shaders/integer.inc, and its bytes. */
enum { GPU_INTEGER_BLOCK = 32, GPU_INTEGER_BYTES = 352 };
extern const gpu_variant gpu_matmul_variants[GPU_MATMUL_VARIANTS];

/* The kernel of p->variant for a box of m by n; wide: one that needs aligned rows may be chosen. */
gpu_matmul_kernel gpu_matmul_pick(const gpu_lowering *gpu, const gpu_matmul *p, uint64_t m, uint64_t n, int wide);
int gpu_matmul_can(const gpu_lowering *gpu, const gpu_matmul *p, uint32_t variant);
uint32_t gpu_matmul_choose(const gpu_lowering *gpu, const gpu_matmul *p);

/* Terms of k at a time, such that a window of whole rows of b [K,N] and of a [K,M] fits. */
uint64_t gpu_matmul_terms(const gpu_lowering *gpu, const gpu_matmul *p);

/* The variant whose kernels compute the parts of one that splits K, or the variant itself. */
uint32_t gpu_matmul_base(uint32_t variant);
/* Terms of one of so many parts: a multiple of 64 and of b's block, which depends on K alone, as the order of a row's
 * sum must not on other rows; K where that makes one part. */
uint64_t gpu_matmul_part_of(const gpu_matmul *p, uint32_t parts);
/* The same for p->variant; K where it does not split it. */
uint64_t gpu_matmul_part(const gpu_lowering *gpu, const gpu_matmul *p);

/* Stream-k (shaders/matmul_gemv.kern, STREAM): terms of all tiles of columns behind each other, in blocks. Where a
 * share ends, and so the order of a row's sum, depends on K, N and the tunable, never on other rows. */
enum { GPU_STREAM_BLOCK = 64 };
typedef struct gpu_matmul_shares {
    uint64_t groups, blocks; /* workgroups, and blocks that each has, but for the last, which may have fewer */
    uint64_t parts;          /* workgroups that one tile's sums come from, at most */
} gpu_matmul_shares;
gpu_matmul_shares gpu_matmul_stream(const gpu_lowering *gpu, const gpu_matmul *p, const gpu_matmul_kernel *kernel);

#endif
