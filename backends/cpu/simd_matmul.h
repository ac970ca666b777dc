/* The register tile of matrix multiplication, packing, and products with few rows. */

#define CPU_ROWS_6(X)  X(0) X(1) X(2) X(3) X(4) X(5)
#define CPU_ROWS_8(X)  CPU_ROWS_6(X) X(6) X(7)
#define CPU_ROWS_12(X) CPU_ROWS_8(X) X(8) X(9) X(10) X(11)
#define CPU_ROWS_14(X) CPU_ROWS_12(X) X(12) X(13)

#if CPU_TILE_ROWS == 6
#define CPU_ROWS CPU_ROWS_6
#elif CPU_TILE_ROWS == 8
#define CPU_ROWS CPU_ROWS_8
#elif CPU_TILE_ROWS == 12
#define CPU_ROWS CPU_ROWS_12
#else
#define CPU_ROWS CPU_ROWS_14
#endif

enum { TILE_ROWS = CPU_TILE_ROWS, TILE_COLUMNS = 2 * CPU_LANES };

#define CPU_TILE_LOAD(r)                                                                                     \
    v_f32 c##r##_0 = add ? v_load(c + (r)*c_row) : v_splat(0);                                               \
    v_f32 c##r##_1 = add ? v_load(c + (r)*c_row + LANES) : v_splat(0);
#define CPU_TILE_STEP(r)                                                                                     \
    {                                                                                                        \
        v_f32 s = v_splat(a[(r)*a_row]);                                                                     \
        c##r##_0 = v_fma(s, b0, c##r##_0);                                                                   \
        c##r##_1 = v_fma(s, b1, c##r##_1);                                                                   \
    }
#define CPU_TILE_SAVE(r)                                                                                     \
    v_store(c + (r)*c_row, c##r##_0);                                                                        \
    v_store(c + (r)*c_row + LANES, c##r##_1);

CPU_INLINE void tile(int64_t k, const float *a, int64_t a_row, int64_t a_step, const float *b, float *c,
                     int64_t c_row, int add)
{
    CPU_ROWS(CPU_TILE_LOAD)
    for (int64_t step = 0; step < k; step++) {
        v_f32 b0 = v_load(b), b1 = v_load(b + LANES);
        CPU_ROWS(CPU_TILE_STEP)
        a += a_step;
        b += TILE_COLUMNS;
    }
    CPU_ROWS(CPU_TILE_SAVE)
}

static void tile_packed(int64_t k, const float *a, int64_t a_row, const float *b, float *c, int64_t c_row,
                        int add)
{
    (void)a_row;
    tile(k, a, 1, TILE_ROWS, b, c, c_row, add);
}

static void tile_strided(int64_t k, const float *a, int64_t a_row, const float *b, float *c, int64_t c_row,
                         int add)
{
    tile(k, a, a_row, 1, b, c, c_row, add);
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

static void pack_rows(float *to, const float *b, int64_t stride, int64_t n_rows, int64_t k, int64_t columns)
{
    int64_t row = 0;
    for (; row + 4 <= n_rows; row += 4) {
        const float *from = b + row * stride;
        int64_t step = 0;
        for (; step + 4 <= k; step += 4) transpose_4(to + step * columns + row, columns, from + step, stride);
        for (; step < k; step++)
            for (int64_t i = 0; i < 4; i++) to[step * columns + row + i] = from[i * stride + step];
    }
    for (; row < columns; row++)
        for (int64_t step = 0; step < k; step++)
            to[step * columns + row] = row < n_rows ? b[row * stride + step] : 0;
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

#define CPU_DOT(name, stored, vector_load, scalar)                                                           \
    CPU_INLINE void name##_rows(float *y, const float *x, int64_t x_row, const int rows, const stored *w,    \
                                int64_t k)                                                                   \
    {                                                                                                        \
        v_f32 sum[CPU_DOT_ROWS][SUMS];                                                                       \
        _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++)                                               \
            _Pragma("GCC unroll 4") for (int j = 0; j < SUMS; j++) sum[r][j] = v_splat(0);                   \
        int64_t i = 0;                                                                                       \
        for (; i + SUMS * LANES <= k; i += SUMS * LANES)                                                     \
            _Pragma("GCC unroll 4") for (int j = 0; j < SUMS; j++) {                                         \
                v_f32 weight = vector_load(w + i + j * LANES);                                               \
                _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++)                                       \
                    sum[r][j] = v_fma(v_load(x + r * x_row + i + j * LANES), weight, sum[r][j]);             \
            }                                                                                                \
        if (i < k) {                                                                                         \
            _Pragma("GCC unroll 4") for (int j = 0; j < SUMS; j++, i += LANES) {                             \
                if (i >= k) break;                                                                           \
                int64_t part = k - i;                                                                        \
                float padded[LANES] = {0};                                                                   \
                for (int64_t q = 0; q < LANES && q < part; q++) padded[q] = scalar(w[i + q]);                \
                v_f32 weight = v_load(padded);                                                               \
                _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++)                                       \
                {                                                                                            \
                    const float *at = x + r * x_row + i;                                                     \
                    v_f32 value = part >= LANES ? v_load(at) : v_load_part(at, part, 0);                     \
                    sum[r][j] = v_fma(value, weight, sum[r][j]);                                             \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) y[r] = sums_total(sum[r]);                    \
    }                                                                                                        \
    static void name(float *y, const float *x, int64_t x_row, int rows, const void *w, int64_t k)            \
    {                                                                                                        \
        if (rows == 4) {                                                                                     \
            name##_rows(y, x, x_row, 4, w, k);                                                               \
            return;                                                                                          \
        }                                                                                                    \
        for (int r = 0; r < rows; r++) name##_rows(y + r, x + r * x_row, 0, 1, w, k);                        \
    }

#define CPU_SAME(x) (x)
CPU_DOT(dot_f32, float, v_load, CPU_SAME)
CPU_DOT(dot_f16, uint16_t, v_load_f16, cpu_f16_to_f32)
CPU_DOT(dot_bf16, uint16_t, v_load_bf16, cpu_bf16_to_f32)

CPU_INLINE v_f32 q8_0_products(const unsigned char *block, const float *x)
{
    v_f32 sum = v_load_i8(block + 2) * v_load(x);
    _Pragma("GCC unroll 8") for (int j = LANES; j < CPU_BLOCK; j += LANES)
        sum = v_fma(v_load_i8(block + 2 + j), v_load(x + j), sum);
    return sum;
}

CPU_INLINE v_f32 q4_0_products(const unsigned char *block, const float *x)
{
    v_f32 sum = {0}, low, high;
    _Pragma("GCC unroll 8") for (int j = 0; j < 16; j += LANES)
    {
        v_load_nibbles(block + 2 + j, &low, &high);
        sum = v_fma(low, v_load(x + j), sum);
        sum = v_fma(high, v_load(x + 16 + j), sum);
    }
    return sum;
}

#define CPU_DOT_QUANTISED(name, products, block_bytes)                                                       \
    static void name(float *y, const float *x, int64_t x_row, int rows, const void *w, int64_t k)            \
    {                                                                                                        \
        int64_t blocks = k / CPU_BLOCK;                                                                      \
        for (int r = 0; r < rows; r++, x += x_row) {                                                         \
            const unsigned char *block = w;                                                                  \
            v_f32 even = {0}, odd = {0};                                                                     \
            int64_t i = 0;                                                                                   \
            for (; i + 2 <= blocks; i += 2, block += 2 * block_bytes) {                                      \
                v_f32 d0 = v_splat(cpu_scale(block)), d1 = v_splat(cpu_scale(block + block_bytes));          \
                even = v_fma(d0, products(block, x + i * CPU_BLOCK), even);                                  \
                odd = v_fma(d1, products(block + block_bytes, x + (i + 1) * CPU_BLOCK), odd);                \
            }                                                                                                \
            if (i < blocks) even = v_fma(v_splat(cpu_scale(block)), products(block, x + i * CPU_BLOCK), even); \
            y[r] = v_sum(even + odd);                                                                        \
        }                                                                                                    \
    }

CPU_INLINE float cpu_scale(const unsigned char *block)
{
#if defined(CPU_AVX512) || defined(CPU_AVX2)
    return _cvtsh_ss(cpu_u16_at(block));
#else
    return cpu_f16_to_f32(cpu_u16_at(block));
#endif
}
CPU_DOT_QUANTISED(dot_q8_0, q8_0_products, CPU_Q8_0_BYTES)
CPU_DOT_QUANTISED(dot_q4_0, q4_0_products, CPU_Q4_0_BYTES)

#define CPU_COLUMNS(name, stored, vector_load, scalar)                                                       \
    static void name(float *y, const float *x, const void *from, int64_t w_row, int64_t k, int64_t n)        \
    {                                                                                                        \
        const stored *w = from;                                                                              \
        int64_t i = 0;                                                                                       \
        for (; i + 4 * LANES <= n; i += 4 * LANES) {                                                         \
            v_f32 y0 = v_splat(0), y1 = y0, y2 = y0, y3 = y0;                                                \
            const stored *at = w + i;                                                                        \
            for (int64_t step = 0; step < k; step++, at += w_row) {                                          \
                v_f32 s = v_splat(x[step]);                                                                  \
                y0 = v_fma(s, vector_load(at), y0);                                                          \
                y1 = v_fma(s, vector_load(at + LANES), y1);                                                  \
                y2 = v_fma(s, vector_load(at + 2 * LANES), y2);                                              \
                y3 = v_fma(s, vector_load(at + 3 * LANES), y3);                                              \
            }                                                                                                \
            v_store(y + i, y0);                                                                              \
            v_store(y + i + LANES, y1);                                                                      \
            v_store(y + i + 2 * LANES, y2);                                                                  \
            v_store(y + i + 3 * LANES, y3);                                                                  \
        }                                                                                                    \
        for (; i < n; i += LANES) {                                                                          \
            v_f32 sum = v_splat(0);                                                                          \
            int64_t part = n - i < LANES ? n - i : LANES;                                                    \
            const stored *at = w + i;                                                                        \
            for (int64_t step = 0; step < k; step++, at += w_row) {                                          \
                float padded[LANES] = {0};                                                                   \
                for (int64_t q = 0; q < part; q++) padded[q] = scalar(at[q]);                                \
                sum = v_fma(v_splat(x[step]), v_load(padded), sum);                                          \
            }                                                                                                \
            v_store_part(y + i, sum, part);                                                                  \
        }                                                                                                    \
    }
CPU_COLUMNS(columns_f32, float, v_load, CPU_SAME)
CPU_COLUMNS(columns_f16, uint16_t, v_load_f16, cpu_f16_to_f32)
CPU_COLUMNS(columns_bf16, uint16_t, v_load_bf16, cpu_bf16_to_f32)
