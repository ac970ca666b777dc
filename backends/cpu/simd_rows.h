/* Loops over rows for norms, softmax, reductions, rope and attention. Vector number i of a row goes to
 * accumulator i mod 4, also in the tail, so that trailing zeros never change a sum. */

static float row_max(const float *x, int64_t n)
{
    v_f32 most = v_splat(-INFINITY);
    v_i32 nan = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        v_f32 v = v_load(x + i);
        most = v_select(v > most, v, most);
        nan |= v != v;
    }
    float lane[LANES], result = -INFINITY;
    v_store(lane, most);
    bool bad = false;
    for (int j = 0; j < LANES; j++) {
        if (lane[j] > result) result = lane[j];
        if (nan[j]) bad = true;
    }
    for (; i < n; i++) {
        if (x[i] > result) result = x[i];
        if (x[i] != x[i]) bad = true;
    }
    return bad ? NAN : result;
}

/* Rows are summed in blocks, and these in double: an f32 accumulator takes 32 terms at most. */
enum { ROW_BLOCK = 64 * CPU_LANES };

static double row_sum(const float *x, int64_t n)
{
    double total = 0;
    for (int64_t block = 0; block < n; block += ROW_BLOCK) {
        int64_t end = block + ROW_BLOCK < n ? block + ROW_BLOCK : n, i = block;
        v_f32 sum[4] = {{0}, {0}, {0}, {0}};
        for (; i + 4 * LANES <= end; i += 4 * LANES)
            for (int j = 0; j < 4; j++) sum[j] += v_load(x + i + j * LANES);
        for (int j = 0; i < end; j++, i += LANES)
            sum[j] += i + LANES <= end ? v_load(x + i) : v_load_part(x + i, end - i, 0);
        total += (double)v_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
    }
    return total;
}

static double row_sum_squares(const float *x, float mean, double *rest, int64_t n)
{
    double total = 0, first = 0;
    for (int64_t block = 0; block < n; block += ROW_BLOCK) {
        int64_t end = block + ROW_BLOCK < n ? block + ROW_BLOCK : n, i = block;
        v_f32 squares[2] = {{0}, {0}}, sum[2] = {{0}, {0}};
        for (int j = 0; i < end; j ^= 1, i += LANES) {
            v_f32 d = (i + LANES <= end ? v_load(x + i) : v_load_part(x + i, end - i, mean)) - mean;
            squares[j] = v_fma(d, d, squares[j]);
            sum[j] += d;
        }
        total += (double)v_sum(squares[0] + squares[1]);
        first += (double)v_sum(sum[0] + sum[1]);
    }
    *rest = first;
    return total;
}

static float row_exp_sum(float *y, const float *x, float max, int64_t n)
{
    v_f32 sum = {0}, top = v_splat(max);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        v_f32 e = v_exp(v_load(x + i) - top);
        v_store(y + i, e);
        sum += e;
    }
    if (i < n) {
        v_f32 e = v_exp(v_load_part(x + i, n - i, -INFINITY) - top);
        v_store_part(y + i, e, n - i);
        sum += e;
    }
    return v_sum(sum);
}

static void row_scale(float *y, const float *x, float factor, int64_t n)
{
    v_f32 f = v_splat(factor);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(y + i, v_load(x + i) * f);
    for (; i < n; i++) y[i] = x[i] * factor;
}

static void row_add_to(double *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] += (double)x[i];
}

CPU_INLINE v_f32 v_normalise(v_f32 x, v_f32 mean, v_f32 mean_low, v_f32 factor)
{
    return (x - mean - mean_low) * factor;
}

static void row_normalise(float *y, const float *x, float mean, float mean_low, float factor, const float *weight,
                          const float *bias, int64_t n)
{
    v_f32 m = v_splat(mean), l = v_splat(mean_low), f = v_splat(factor);
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t part = n - i;
        bool whole = part >= LANES;
        v_f32 v = v_normalise(whole ? v_load(x + i) : v_load_part(x + i, part, 0), m, l, f);
        if (weight) v = v * (whole ? v_load(weight + i) : v_load_part(weight + i, part, 0));
        if (bias) v = v + (whole ? v_load(bias + i) : v_load_part(bias + i, part, 0));
        if (whole)
            v_store(y + i, v);
        else
            v_store_part(y + i, v, part);
    }
}

static void row_rotate(float *low, float *high, const float *cosine, const float *sine, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        v_f32 a = v_load(low + i), b = v_load(high + i), c = v_load(cosine + i), s = v_load(sine + i);
        v_store(low + i, a * c - b * s);
        v_store(high + i, a * s + b * c);
    }
    if (i < n) {
        int64_t part = n - i;
        v_f32 a = v_load_part(low + i, part, 0), b = v_load_part(high + i, part, 0);
        v_f32 c = v_load_part(cosine + i, part, 0), s = v_load_part(sine + i, part, 0);
        v_store_part(low + i, a * c - b * s, part);
        v_store_part(high + i, a * s + b * c, part);
    }
}

CPU_INLINE v_f32 v_attend_one(v_f32 sum, const float *p, const unsigned char *seen, const float *v, int64_t v_row,
                              int64_t keys, int64_t part)
{
    for (int64_t j = 0; j < keys; j++) {
        if (seen && !seen[j]) continue;
        v_f32 value = part >= LANES ? v_load(v + j * v_row) : v_load_part(v + j * v_row, part, 0);
        sum = v_fma(v_splat(p[j]), value, sum);
    }
    return sum;
}

static void row_attend(float *y, const float *p, const unsigned char *seen, const float *v, int64_t v_row, int64_t keys,
                       int64_t n)
{
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        v_f32 y0 = v_load(y + i), y1 = v_load(y + i + LANES);
        v_f32 y2 = v_load(y + i + 2 * LANES), y3 = v_load(y + i + 3 * LANES);
        for (int64_t j = 0; j < keys; j++) {
            if (seen && !seen[j]) continue;
            const float *at = v + j * v_row + i;
            v_f32 weight = v_splat(p[j]);
            y0 = v_fma(weight, v_load(at), y0);
            y1 = v_fma(weight, v_load(at + LANES), y1);
            y2 = v_fma(weight, v_load(at + 2 * LANES), y2);
            y3 = v_fma(weight, v_load(at + 3 * LANES), y3);
        }
        v_store(y + i, y0);
        v_store(y + i + LANES, y1);
        v_store(y + i + 2 * LANES, y2);
        v_store(y + i + 3 * LANES, y3);
    }
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        v_f32 y0 = v_load(y + i), y1 = v_load(y + i + LANES);
        for (int64_t j = 0; j < keys; j++) {
            if (seen && !seen[j]) continue;
            const float *at = v + j * v_row + i;
            y0 = v_fma(v_splat(p[j]), v_load(at), y0);
            y1 = v_fma(v_splat(p[j]), v_load(at + LANES), y1);
        }
        v_store(y + i, y0);
        v_store(y + i + LANES, y1);
    }
    for (; i + LANES <= n; i += LANES) v_store(y + i, v_attend_one(v_load(y + i), p, seen, v + i, v_row, keys, LANES));
    if (i < n) {
        v_f32 sum = v_load_part(y + i, n - i, 0);
        v_store_part(y + i, v_attend_one(sum, p, seen, v + i, v_row, keys, n - i), n - i);
    }
}
