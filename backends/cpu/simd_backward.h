/* Rows of the backward ops. Sums in blocks, and these in double, as in simd_rows.h; a tail is filled up with zeros. */

static double row_dot(const float *a, const float *b, int64_t n)
{
    double total = 0;
    for (int64_t block = 0; block < n; block += ROW_BLOCK) {
        int64_t end = block + ROW_BLOCK < n ? block + ROW_BLOCK : n;
        v_f32 sum[2] = {{0}, {0}};
        int j = 0;
        for (int64_t i = block; i < end; i += LANES, j ^= 1) {
            int64_t part = end - i < LANES ? end - i : LANES;
            sum[j] = v_fma(v_load_part(a + i, part, 0), v_load_part(b + i, part, 0), sum[j]);
        }
        total += (double)v_sum(sum[0] + sum[1]);
    }
    return total;
}

static void row_softmax_backward(float *y, const float *p, const float *gradient, float along, int64_t n)
{
    v_f32 rest = v_splat(along);
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t part = n - i < LANES ? n - i : LANES;
        v_store_part(y + i, v_load_part(p + i, part, 0) * (v_load_part(gradient + i, part, 0) - rest), part);
    }
}

CPU_INLINE v_f32 v_weighted(const float *gradient, const float *weight, int64_t i, int64_t part)
{
    v_f32 u = v_load_part(gradient + i, part, 0);
    return weight ? u * v_load_part(weight + i, part, 0) : u;
}

static double row_norm_backward_sums(const float *x, const float *gradient, const float *weight, const float *moments,
                                     double *sum_u, int64_t n)
{
    v_f32 mean = v_splat(moments[0]), low = v_splat(moments[1]), factor = v_splat(moments[2]);
    double total = 0, first = 0;
    for (int64_t block = 0; block < n; block += ROW_BLOCK) {
        int64_t end = block + ROW_BLOCK < n ? block + ROW_BLOCK : n;
        v_f32 sum = {0}, product = {0};
        for (int64_t i = block; i < end; i += LANES) {
            int64_t part = end - i < LANES ? end - i : LANES;
            v_f32 u = v_weighted(gradient, weight, i, part);
            product = v_fma(u, v_normalise(v_load_part(x + i, part, 0), mean, low, factor), product);
            sum += u;
        }
        total += (double)v_sum(product);
        first += (double)v_sum(sum);
    }
    *sum_u = first;
    return total;
}

static void row_norm_backward(float *y, const float *x, const float *gradient, const float *weight,
                              const float *moments, float mean_u, float share, int64_t n)
{
    v_f32 mean = v_splat(moments[0]), low = v_splat(moments[1]), factor = v_splat(moments[2]);
    v_f32 shift = v_splat(mean_u), along = v_splat(share);
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t part = n - i < LANES ? n - i : LANES;
        v_f32 normal = v_normalise(v_load_part(x + i, part, 0), mean, low, factor);
        v_f32 u = v_weighted(gradient, weight, i, part);
        v_store_part(y + i, (u - shift) * factor - normal * along, part);
    }
}

static void map_swiglu_backward(float *gate_gradient, float *up_gradient, const float *gate, const float *up,
                                const float *gradient, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t part = n - i < LANES ? n - i : LANES;
        v_f32 g = v_load_part(gate + i, part, 0), u = v_load_part(up + i, part, 0);
        v_f32 d = v_load_part(gradient + i, part, 0), s = v_sigmoid(g);
        v_store_part(gate_gradient + i, d * u * (s * (g * (1.0f - s) + 1.0f)), part);
        v_store_part(up_gradient + i, d * (g * s), part);
    }
}
