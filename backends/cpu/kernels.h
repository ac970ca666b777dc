/* The inner loops of cpu:native, compiled once per instruction set from simd_*.h and chosen when the device
 * is opened. All work on f32 in contiguous memory without any alignment; within one table, the result for an
 * element depends on neither its position nor its neighbours. */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include <portico/plugin.h>

enum {
    CPU_TILE_MAX = 14 * 32,
    CPU_SUM_STEPS = 64,      /* steps of k whose sum is kept apart */
    CPU_DOT_ROWS = 4,        /* rows that dot_rows takes at once */
    CPU_COLUMNS_MOST = 1024, /* columns that dot_columns takes at once */
};

/* Functions that matmul applies after the bias. */
typedef enum cpu_activation {
    CPU_ACT_NONE = 0,
    CPU_ACT_RELU = 1,
    CPU_ACT_GELU = 2,
    CPU_ACT_GELU_TANH = 3,
    CPU_ACT_SILU = 4,
    CPU_ACT_COUNT = 5,
} cpu_activation;

/* One tile of a product: c[tile_rows, tile_columns] (+)= a b over k steps, the rows of c c_row floats apart.
 * Sums run in the order of k: packed by blocks (simd_matmul.h), strided in one chain. packed: a and b hold the tile's
 * rows or columns of one step after the other; the first `rows` of tile_rows are computed. strided: rows of a are a_row
 * apart, steps of b b_step.
 */
typedef void (*cpu_tile_packed_fn)(int rows, int64_t k, const float *a, const float *b, float *c, int64_t c_row,
                                   int add);
typedef void (*cpu_tile_strided_fn)(int64_t k, const float *a, int64_t a_row, const float *b, int64_t b_step, float *c,
                                    int64_t c_row, int add);

/* One step of adamw: what is the same for all elements. */
typedef struct cpu_adamw {
    float scale;                      /* of the gradient */
    float beta1, rest1, beta2, rest2; /* decays and what they leave of 1 */
    float rate, root, eps;            /* rate / (1 - beta1^t), sqrt(1 - beta2^t) */
    float decay;                      /* rate * lambda */
} cpu_adamw;

typedef struct cpu_kernels {
    const char *name;
    int lanes;
    int tile_rows, tile_columns;

    void (*map[PCO_OP_LIMIT])(float *y, const float *x, int64_t n);
    void (*map2[PCO_OP_LIMIT])(float *y, const float *a, const float *b, int64_t n);
    void (*activate[CPU_ACT_COUNT])(float *y, const float *x, int64_t n);
    void (*clamp)(float *y, const float *x, float low, float high, int64_t n);
    void (*swiglu)(float *y, const float *gate, const float *up, int64_t n);
    void (*adamw)(float *param, float *m, float *v, const float *gradient, const cpu_adamw *step, int64_t n);

    /* Stored elements to f32 and back; load of a quantised type takes whole blocks. */
    void (*load[PCO_DTYPE_COUNT])(void *y, const void *x, int64_t n);
    void (*store[PCO_DTYPE_COUNT])(void *y, const float *x, int64_t n);

    float (*max)(const float *x, int64_t n); /* NaN if one is; -inf over nothing */
    double (*sum)(const float *x, int64_t n);
    double (*sum_squares)(const float *x, float mean, double *rest, int64_t n); /* of x - mean; their sum: rest */
    float (*exp_sum)(float *y, const float *x, float max, int64_t n);           /* y = exp(x - max); their sum */
    double (*dot)(const float *a, const float *b, int64_t n);
    /* y = p * (gradient - along); y may be either */
    void (*softmax_backward)(float *y, const float *p, const float *gradient, float along, int64_t n);
    /* Of u = gradient [* weight]: sum u and sum u * normal, normal = (x - mean - mean_low) * factor, moments
     * = {mean, mean_low, factor}; and
     * y = (u - mean_u) * factor - normal * share, which may be x or the gradient. */
    double (*norm_backward_sums)(const float *x, const float *gradient, const float *weight, const float *moments,
                                 double *sum_u, int64_t n);
    void (*norm_backward)(float *y, const float *x, const float *gradient, const float *weight, const float *moments,
                          float mean_u, float share, int64_t n);
    void (*swiglu_backward)(float *gate_gradient, float *up_gradient, const float *gate, const float *up,
                            const float *gradient, int64_t n);
    void (*scale)(float *y, const float *x, float factor, int64_t n);
    void (*add_to)(double *y, const float *x, int64_t n);
    /* y = (x - mean - mean_low) * factor [* weight] [+ bias] */
    void (*normalise)(float *y, const float *x, float mean, float mean_low, float factor, const float *weight,
                      const float *bias, int64_t n);
    /* (low, high) turned by the angle of each pair */
    void (*rotate)(float *low, float *high, const float *cosine, const float *sine, int64_t n);

    cpu_tile_packed_fn tile_packed;
    cpu_tile_strided_fn tile_strided;
    /* c[rows, columns] = a b for up to tile_rows rows and whole vectors of columns, which b and c have each; a's rows
     * are a_row apart, its steps of k a_step. The same bits as of tiles. */
    void (*tile_direct)(int rows, int64_t columns, int64_t k, const float *a, int64_t a_row, int64_t a_step,
                        const float *b, float *c);
    /* b[n_rows, k] (rows `stride` floats apart) to packed columns: to[step * tile_columns + row]; rows up to
     * tile_columns are filled with zeros. */
    void (*pack_rows)(float *to, const float *b, int64_t stride, int64_t n_rows, int64_t k, int64_t columns);

    /* y[r] = sum_k x[r, k] w[k], for `rows` (1 .. CPU_DOT_ROWS) rows of x and one stored row w. */
    void (*dot_rows[PCO_DTYPE_COUNT])(float *y, const float *x, int64_t x_row, int rows, const void *w, int64_t k);
    /* y[n] = sum_k x[k] w[k, n]; rows of w are w_row stored elements apart. */
    void (*dot_columns[PCO_DTYPE_COUNT])(float *y, const float *x, const void *w, int64_t w_row, int64_t k, int64_t n);
    /* y[n] = y[n] + sum_j p[j] v[j, n] over those j that are seen (all when seen is NULL). */
    void (*attend)(float *y, const float *p, const unsigned char *seen, const float *v, int64_t v_row, int64_t keys,
                   int64_t n);
} cpu_kernels;

/* The table for this processor; `wanted` ("generic", "avx2", "avx512") narrows it, NULL does not. */
const cpu_kernels *cpu_kernels_choose(const char *wanted);

extern const cpu_kernels cpu_kernels_generic;
#if defined(__x86_64__)
extern const cpu_kernels cpu_kernels_avx2;
extern const cpu_kernels cpu_kernels_avx512;
#endif

#endif
