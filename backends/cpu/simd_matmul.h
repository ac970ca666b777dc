/* The register tile of matrix multiplication, packing, and products with few rows.
 *
 * A sum over k is that of blocks of CPU_SUM_STEPS steps, each in the order of k and from zero on, which are added in
 * their order. An error grows with the steps of a block and the number of blocks, not with their product: for 4,096
 * steps, 128 roundings behind one another and not 4,096. */

/* A tile of up to CPU_TILE_ROWS rows, whose sums stay in registers. */
#define CPU_ROWS_1(X)  X(0)
#define CPU_ROWS_2(X)  CPU_ROWS_1(X) X(1)
#define CPU_ROWS_3(X)  CPU_ROWS_2(X) X(2)
#define CPU_ROWS_4(X)  CPU_ROWS_3(X) X(3)
#define CPU_ROWS_5(X)  CPU_ROWS_4(X) X(4)
#define CPU_ROWS_6(X)  CPU_ROWS_5(X) X(5)
#define CPU_ROWS_7(X)  CPU_ROWS_6(X) X(6)
#define CPU_ROWS_8(X)  CPU_ROWS_7(X) X(7)
#define CPU_ROWS_9(X)  CPU_ROWS_8(X) X(8)
#define CPU_ROWS_10(X) CPU_ROWS_9(X) X(9)
#define CPU_ROWS_11(X) CPU_ROWS_10(X) X(10)
#define CPU_ROWS_12(X) CPU_ROWS_11(X) X(11)
#define CPU_ROWS_13(X) CPU_ROWS_12(X) X(12)
#define CPU_ROWS_14(X) CPU_ROWS_13(X) X(13)

/* T(n) for each number of rows. */
#if CPU_TILE_ROWS == 6
#define CPU_TILES(T) T(1) T(2) T(3) T(4) T(5) T(6)
#define CPU_ROWS_ALL CPU_ROWS_6
#elif CPU_TILE_ROWS == 8
#define CPU_TILES(T) T(1) T(2) T(3) T(4) T(5) T(6) T(7) T(8)
#define CPU_ROWS_ALL CPU_ROWS_8
#elif CPU_TILE_ROWS == 14
#define CPU_TILES(T) T(1) T(2) T(3) T(4) T(5) T(6) T(7) T(8) T(9) T(10) T(11) T(12) T(13) T(14)
#define CPU_ROWS_ALL CPU_ROWS_14
#else
#error "tiles of that many rows"
#endif

enum { TILE_ROWS = CPU_TILE_ROWS, TILE_COLUMNS = 2 * CPU_LANES };

#define CPU_TILE_ZERO(r) v_f32 c##r##_0 = v_splat(0), c##r##_1 = v_splat(0);
#define CPU_TILE_STEP(r) \
    { \
        v_f32 s = v_splat(a[(r)*a_row]); \
        c##r##_0 = v_fma(s, b0, c##r##_0); \
        c##r##_1 = v_fma(s, b1, c##r##_1); \
    }
#define CPU_TILE_ADD(r) \
    c##r##_0 += v_load(c + (r)*c_row); \
    c##r##_1 += v_load(c + (r)*c_row + LANES);
#define CPU_TILE_SAVE(r) \
    v_store(c + (r)*c_row, c##r##_0); \
    v_store(c + (r)*c_row + LANES, c##r##_1);

/* The blocks of a sum over k steps, from the function's k, a, a_step, b, b_step and add on: LOAD reads what a step has
 * of b, STEP adds it, and ADD and SAVE bring a block's sums to c. */
#define CPU_BLOCKS(rows, ZERO, LOAD, STEP, ADD, SAVE) \
    do { \
        const int64_t block = k < CPU_SUM_STEPS ? k : CPU_SUM_STEPS; \
        CPU_ROWS_##rows(ZERO) for (int64_t step = 0; step < block; step++) \
        { \
            LOAD CPU_ROWS_##rows(STEP) a += a_step; \
            b += b_step; \
        } \
        if (add) { \
            CPU_ROWS_##rows(ADD) \
        } \
        CPU_ROWS_##rows(SAVE) k -= block; \
        add = 1; \
    } while (k > 0);

#define CPU_TILE_COLUMNS v_f32 b0 = v_load(b), b1 = v_load(b + LANES);
#define CPU_TILE(rows) \
    CPU_INLINE void tile_##rows(int64_t k, const float *a, int64_t a_row, int64_t a_step, const float *b, \
                                int64_t b_step, float *c, int64_t c_row, int add) \
    { \
        CPU_BLOCKS(rows, CPU_TILE_ZERO, CPU_TILE_COLUMNS, CPU_TILE_STEP, CPU_TILE_ADD, CPU_TILE_SAVE) \
    }
CPU_TILES(CPU_TILE)

#define CPU_TILE_CASE(rows) \
    case rows: tile_##rows(k, a, 1, TILE_ROWS, b, TILE_COLUMNS, c, c_row, add); return;

static void tile_packed(int rows, int64_t k, const float *a, const float *b, float *c, int64_t c_row, int add)
{
    switch (rows) {
        CPU_TILES(CPU_TILE_CASE)
    default: return;
    }
}

/* The same of one vector of columns. */
#define CPU_NARROW_STEP(r) c##r = v_fma(v_splat(a[(r)*a_row]), b0, c##r);
#define CPU_NARROW_ZERO(r) v_f32 c##r = v_splat(0);
#define CPU_NARROW_ADD(r)  c##r += v_load(c + (r)*c_row);
#define CPU_NARROW_SAVE(r) v_store(c + (r)*c_row, c##r);
#define CPU_NARROW_COLUMNS v_f32 b0 = v_load(b);
#define CPU_NARROW(rows) \
    CPU_INLINE void narrow_##rows(int64_t k, const float *a, int64_t a_row, int64_t a_step, const float *b, \
                                  int64_t b_step, float *c, int64_t c_row) \
    { \
        int add = 0; \
        CPU_BLOCKS(rows, CPU_NARROW_ZERO, CPU_NARROW_COLUMNS, CPU_NARROW_STEP, CPU_NARROW_ADD, CPU_NARROW_SAVE) \
    }
CPU_TILES(CPU_NARROW)

/* And of less than a vector. */
static void narrow_part(int rows, int64_t part, int64_t k, const float *a, int64_t a_row, int64_t a_step,
                        const float *b, int64_t columns, float *c)
{
    for (int r = 0; r < rows; r++) {
        v_f32 total = v_splat(0);
        for (int64_t step = 0; step < k;) {
            const int first = step == 0;
            const int64_t end = k - step < CPU_SUM_STEPS ? k : step + CPU_SUM_STEPS;
            v_f32 sum = v_splat(0);
            for (; step < end; step++)
                sum = v_fma(v_splat(a[r * a_row + step * a_step]), v_load_part(b + step * columns, part, 0), sum);
            total = first ? sum : total + sum;
        }
        v_store_part(c + r * columns, total, part);
    }
}

#define CPU_DIRECT_CASE(rows) \
    case rows: \
        for (; n + TILE_COLUMNS <= columns; n += TILE_COLUMNS) \
            tile_##rows(k, a, a_row, a_step, b + n, columns, c + n, columns, 0); \
        for (; n + LANES <= columns; n += LANES) narrow_##rows(k, a, a_row, a_step, b + n, columns, c + n, columns); \
        break;

static void tile_direct(int rows, int64_t columns, int64_t k, const float *a, int64_t a_row, int64_t a_step,
                        const float *b, float *c)
{
    int64_t n = 0;
    switch (rows) {
        CPU_TILES(CPU_DIRECT_CASE)
    default: return;
    }
    if (n < columns) narrow_part(rows, columns - n, k, a, a_row, a_step, b + n, columns, c + n);
}

/* One chain, which goes on from c: the products of attention, where a row has the bits that it has through `attend`
 * when other rows of its tile see fewer keys, and whatever else comes in strides. */
#define CPU_CHAIN_BEGIN(r) \
    v_f32 c##r##_0 = add ? v_load(c + (r)*c_row) : v_splat(0); \
    v_f32 c##r##_1 = add ? v_load(c + (r)*c_row + LANES) : v_splat(0);

static void tile_strided(int64_t k, const float *a, int64_t a_row, const float *b, int64_t b_step, float *c,
                         int64_t c_row, int add)
{
    CPU_ROWS_ALL(CPU_CHAIN_BEGIN)
    for (int64_t step = 0; step < k; step++, a++, b += b_step) {
        CPU_TILE_COLUMNS
        CPU_ROWS_ALL(CPU_TILE_STEP)
    }
    CPU_ROWS_ALL(CPU_TILE_SAVE)
}

/* Four rows of four become four columns of four. */
CPU_INLINE void transpose_4(float *to, int64_t to_row, const float *b, int64_t stride)
{
    typedef float v4 __attribute__((vector_size(16)));
    v4 r0, r1, r2, r3;
    memcpy(&r0, b, 16);
    memcpy(&r1, b + stride, 16);
    memcpy(&r2, b + 2 * stride, 16);
    memcpy(&r3, b + 3 * stride, 16);
    v4 a = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), c = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
    v4 d = __builtin_shufflevector(r0, r1, 2, 6, 3, 7), e = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    r0 = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    r1 = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    r2 = __builtin_shufflevector(d, e, 0, 1, 4, 5);
    r3 = __builtin_shufflevector(d, e, 2, 3, 6, 7);
    memcpy(to, &r0, 16);
    memcpy(to + to_row, &r1, 16);
    memcpy(to + 2 * to_row, &r2, 16);
    memcpy(to + 3 * to_row, &r3, 16);
}

/* In steps of PACK_STEPS: the source is read by whole cache lines, and what is written stays in the first
 * cache. */
enum { PACK_STEPS = 16 };

static void pack_rows(float *to, const float *b, int64_t stride, int64_t n_rows, int64_t k, int64_t columns)
{
    for (int64_t first = 0; first < k; first += PACK_STEPS) {
        int64_t end = first + PACK_STEPS < k ? first + PACK_STEPS : k, row = 0;
        for (; row + 4 <= n_rows; row += 4) {
            const float *from = b + row * stride;
            int64_t step = first;
            for (; step + 4 <= end; step += 4) transpose_4(to + step * columns + row, columns, from + step, stride);
            for (; step < end; step++)
                for (int64_t i = 0; i < 4; i++) to[step * columns + row + i] = from[i * stride + step];
        }
        for (; row < columns; row++)
            for (int64_t step = first; step < end; step++)
                to[step * columns + row] = row < n_rows ? b[row * stride + step] : 0;
    }
}

/* ---- few rows ---- */

/* Accumulators per row: as many as registers allow for four rows at once. */
#if defined(CPU_AVX512) || defined(__aarch64__)
enum { SUMS = 4 };
#else
enum { SUMS = 2 };
#endif

CPU_INLINE float sums_total(const v_f32 *sum)
{
    return v_sum(SUMS == 4 ? (sum[0] + sum[1]) + (sum[2] + sum[SUMS - 1]) : sum[0] + sum[1]);
}

#define CPU_DOT(name, stored, vector_load, scalar) \
    CPU_INLINE void name##_rows(float *y, const float *x, int64_t x_row, const int rows, const stored *w, int64_t k) \
    { \
        v_f32 sum[CPU_DOT_ROWS][SUMS]; \
        _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) _Pragma("GCC unroll 4") for (int j = 0; j < SUMS; j++) \
            sum[r][j] = v_splat(0); \
        int64_t i = 0; \
        for (; i + SUMS * LANES <= k; i += SUMS * LANES) _Pragma("GCC unroll 4") for (int j = 0; j < SUMS; j++) \
            { \
                v_f32 weight = vector_load(w + i + j * LANES); \
                _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) sum[r][j] = \
                    v_fma(v_load(x + r * x_row + i + j * LANES), weight, sum[r][j]); \
            } \
        if (i < k) { \
            _Pragma("GCC unroll 4") for (int j = 0; j < SUMS; j++, i += LANES) \
            { \
                if (i >= k) break; \
                int64_t part = k - i; \
                float padded[LANES] = {0}; \
                for (int64_t q = 0; q < LANES && q < part; q++) padded[q] = scalar(w[i + q]); \
                v_f32 weight = v_load(padded); \
                _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) \
                { \
                    const float *at = x + r * x_row + i; \
                    v_f32 value = part >= LANES ? v_load(at) : v_load_part(at, part, 0); \
                    sum[r][j] = v_fma(value, weight, sum[r][j]); \
                } \
            } \
        } \
        _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) y[r] = sums_total(sum[r]); \
    } \
    static void name(float *y, const float *x, int64_t x_row, int rows, const void *w, int64_t k) \
    { \
        if (rows == 4) { \
            name##_rows(y, x, x_row, 4, w, k); \
            return; \
        } \
        for (int r = 0; r < rows; r++) name##_rows(y + r, x + r * x_row, 0, 1, w, k); \
    }

#define CPU_SAME(x) (x)
CPU_DOT(dot_f32, float, v_load, CPU_SAME)
CPU_DOT(dot_f16, uint16_t, v_load_f16, cpu_f16_to_f32)
CPU_DOT(dot_bf16, uint16_t, v_load_bf16, cpu_bf16_to_f32)

/* Four steps of k at a time over all columns, whose sums stay in the first cache. */
#define CPU_COLUMNS(name, stored, vector_load, scalar) \
    CPU_INLINE v_f32 name##_part(const stored *w, int64_t n) \
    { \
        float padded[LANES] = {0}; \
        for (int64_t q = 0; q < n; q++) padded[q] = scalar(w[q]); \
        return v_load(padded); \
    } \
    CPU_INLINE void name##_block(float *y, const float *x, const stored *w, int64_t w_row, int64_t k, int64_t n) \
    { \
        memset(y, 0, (size_t)n * 4); \
        int64_t step = 0; \
        for (; step + 4 <= k; step += 4, w += 4 * w_row) { \
            v_f32 x0 = v_splat(x[step]), x1 = v_splat(x[step + 1]); \
            v_f32 x2 = v_splat(x[step + 2]), x3 = v_splat(x[step + 3]); \
            int64_t i = 0; \
            for (; i + LANES <= n; i += LANES) { \
                v_f32 sum = v_fma(x0, vector_load(w + i), v_load(y + i)); \
                sum = v_fma(x1, vector_load(w + w_row + i), sum); \
                sum = v_fma(x2, vector_load(w + 2 * w_row + i), sum); \
                v_store(y + i, v_fma(x3, vector_load(w + 3 * w_row + i), sum)); \
            } \
            if (i < n) { \
                int64_t part = n - i; \
                v_f32 sum = v_fma(x0, name##_part(w + i, part), v_load_part(y + i, part, 0)); \
                sum = v_fma(x1, name##_part(w + w_row + i, part), sum); \
                sum = v_fma(x2, name##_part(w + 2 * w_row + i, part), sum); \
                v_store_part(y + i, v_fma(x3, name##_part(w + 3 * w_row + i, part), sum), part); \
            } \
        } \
        for (; step < k; step++, w += w_row) { \
            v_f32 x0 = v_splat(x[step]); \
            int64_t i = 0; \
            for (; i + LANES <= n; i += LANES) v_store(y + i, v_fma(x0, vector_load(w + i), v_load(y + i))); \
            if (i < n) { \
                v_f32 sum = v_fma(x0, name##_part(w + i, n - i), v_load_part(y + i, n - i, 0)); \
                v_store_part(y + i, sum, n - i); \
            } \
        } \
    } \
    static void name(float *y, const float *x, const void *from, int64_t w_row, int64_t k, int64_t n) \
    { \
        const stored *w = from; \
        name##_block(y, x, w, w_row, k < CPU_SUM_STEPS ? k : CPU_SUM_STEPS, n); \
        for (int64_t step = CPU_SUM_STEPS; step < k; step += CPU_SUM_STEPS) { \
            float block[CPU_COLUMNS_MOST]; \
            name##_block(block, x + step, w + step * w_row, w_row, \
                         k - step < CPU_SUM_STEPS ? k - step : CPU_SUM_STEPS, n); \
            for (int64_t i = 0; i < n; i++) y[i] += block[i]; \
        } \
    }
CPU_COLUMNS(columns_f32, float, v_load, CPU_SAME)
CPU_COLUMNS(columns_f16, uint16_t, v_load_f16, cpu_f16_to_f32)
CPU_COLUMNS(columns_bf16, uint16_t, v_load_bf16, cpu_bf16_to_f32)
