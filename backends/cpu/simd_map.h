/* Elementwise loops. */

#define CPU_MAP(name, expression) \
    static void name(float *y, const float *from, int64_t n) \
    { \
        int64_t i = 0; \
        for (; i + LANES <= n; i += LANES) { \
            v_f32 x = v_load(from + i); \
            v_store(y + i, expression); \
        } \
        if (i < n) { \
            v_f32 x = v_load_part(from + i, n - i, 0); \
            v_store_part(y + i, expression, n - i); \
        } \
    }

CPU_INLINE v_f32 v_relu(v_f32 x) { return (v_f32)(((x > 0.0f) | (x != x)) & (v_i32)x); }

CPU_INLINE v_f32 v_sign(v_f32 x)
{
    v_f32 one = v_splat(1.0f);
    v_f32 y = (v_f32)(((x > 0.0f) & (v_i32)one) | ((x < 0.0f) & (v_i32)-one));
    return v_select(x != x, x, y);
}

CPU_MAP(map_neg, (v_f32)((v_i32)x ^ INT32_MIN))
CPU_MAP(map_abs, v_abs(x))
CPU_MAP(map_sign, v_sign(x))
CPU_MAP(map_reciprocal, 1.0f / x)
CPU_MAP(map_exp, v_exp(x))
CPU_MAP(map_tanh, v_tanh(x))
CPU_MAP(map_erf, v_erf(x))
CPU_MAP(map_sigmoid, v_sigmoid(x))
CPU_MAP(map_relu, v_relu(x))
CPU_MAP(map_gelu, v_gelu(x))
CPU_MAP(map_gelu_tanh, v_gelu_tanh(x))
CPU_MAP(map_silu, v_silu(x))

#define CPU_MAP2(name, expression) \
    static void name(float *y, const float *left, const float *right, int64_t n) \
    { \
        int64_t i = 0; \
        for (; i + LANES <= n; i += LANES) { \
            v_f32 a = v_load(left + i), b = v_load(right + i); \
            v_store(y + i, expression); \
        } \
        if (i < n) { \
            v_f32 a = v_load_part(left + i, n - i, 1), b = v_load_part(right + i, n - i, 1); \
            v_store_part(y + i, expression, n - i); \
        } \
    }

/* A NaN on either side fails a < b; it is a's where a is NaN, else b is taken: b's, or a number never. */
CPU_MAP2(map2_add, a + b)
CPU_MAP2(map2_sub, a - b)
CPU_MAP2(map2_mul, a *b)
CPU_MAP2(map2_div, a / b)
CPU_MAP2(map2_minimum, v_select((a < b) | (a != a), a, b))
CPU_MAP2(map2_maximum, v_select((a > b) | (a != a), a, b))
CPU_MAP2(map_swiglu, v_silu(a) * b)

static void map_clamp(float *y, const float *from, float low, float high, int64_t n)
{
    v_f32 least = v_splat(low), most = v_splat(high);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        v_f32 x = v_load(from + i);
        x = v_select(x < least, least, x);
        v_store(y + i, v_select(x > most, most, x));
    }
    for (; i < n; i++) {
        float x = from[i] < low ? low : from[i];
        y[i] = x > high ? high : x;
    }
}

/* The tail in the same code: an element's result does not depend on where it stands. */
static void map_adamw(float *param, float *m, float *v, const float *gradient, const cpu_adamw *step, int64_t n)
{
    v_f32 scale = v_splat(step->scale), beta1 = v_splat(step->beta1), rest1 = v_splat(step->rest1);
    v_f32 beta2 = v_splat(step->beta2), rest2 = v_splat(step->rest2), rate = v_splat(step->rate);
    v_f32 root = v_splat(step->root), eps = v_splat(step->eps), decay = v_splat(step->decay);
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t part = n - i < LANES ? n - i : LANES;
        v_f32 g = v_load_part(gradient + i, part, 0) * scale, p = v_load_part(param + i, part, 0);
        v_f32 first = v_load_part(m + i, part, 0) * beta1 + g * rest1;
        v_f32 second = v_load_part(v + i, part, 0) * beta2 + g * rest2 * g, deviation;
        float lane[LANES];
        v_store(lane, second);
        for (int j = 0; j < LANES; j++) lane[j] = __builtin_sqrtf(lane[j]);
        deviation = v_load(lane) / root + eps;
        v_store_part(param + i, p - p * decay - rate * (first / deviation), part);
        v_store_part(m + i, first, part);
        v_store_part(v + i, second, part);
    }
}
