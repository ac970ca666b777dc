/* Rotary and sinusoidal positions. */
#include "run.h"

/* The turn of pair i per position, and at a position: fractions of a full turn in 64 bits, which wrap. */
static uint64_t cpu_turn(const cpu_tensor *phase, int64_t pair, int32_t position)
{
    uint64_t low = (uint32_t)cpu_i32_at(phase, 2 * pair), high = (uint32_t)cpu_i32_at(phase, 2 * pair + 1);
    return (high << 32 | low) * (uint64_t)(int64_t)position;
}

/* The nearest quarter turn q and a rest of at most an eighth: |a| <= pi/4. Taylor in double, to a^11 and
 * a^12: the remainders, a^13/13! and a^14/14!, are below 7e-12, so that one rounding to f32 is all that
 * counts. */
static void cpu_sine_cosine(uint64_t turn, float *sine, float *cosine)
{
    uint64_t quarter = (turn + (1ull << 61)) >> 62;
    double a = (double)(int64_t)(turn - (quarter << 62)) * (6.28318530717958647693 * 0x1p-64), z = a * a;
    double s = -1.0 / 39916800;
    s = s * z + 1.0 / 362880;
    s = s * z - 1.0 / 5040;
    s = s * z + 1.0 / 120;
    s = s * z - 1.0 / 6;
    s = a + a * z * s;
    double c = 1.0 / 479001600;
    c = c * z - 1.0 / 3628800;
    c = c * z + 1.0 / 40320;
    c = c * z - 1.0 / 720;
    c = c * z + 1.0 / 24;
    c = c * z - 0.5;
    c = 1 + z * c;
    double sines[4] = {s, c, -s, -c}, cosines[4] = {c, -s, -c, s};
    *sine = (float)sines[quarter & 3];
    *cosine = (float)cosines[quarter & 3];
}

/* Per worker: cosines and sines of R pairs, and one head. */
static CPU_WORKSPACE(native_rope)
{
    const cpu_rope *plan = &node->plan.rope;
    return node->device->threads * cpu_round64((uint64_t)(2 * plan->r + plan->d) * 4);
}

static void cpu_rotate_interleaved(float *x, const float *cosine, const float *sine, int64_t pairs)
{
    for (int64_t i = 0; i < pairs; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cosine[i] - b * sine[i];
        x[2 * i + 1] = a * sine[i] + b * cosine[i];
    }
}

/* Slices are positions of [B,S]. */
static void cpu_rope_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    const cpu_node *node = task;
    const cpu_rope *plan = &node->plan.rope;
    const pco_rope_attrs *attrs = &node->attrs.rope;
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    float *cosine = (float *)(void *)cpu_worker_memory(node, worker), *sine = cosine + plan->r, *head = sine + plan->r;
    for (int64_t i = begin; i < end; i++) {
        int64_t b = i / plan->s, s = i % plan->s;
        int32_t position = cpu_i32_at(&node->in[1], b * plan->positions_b + s);
        for (int64_t pair = 0; pair < plan->r; pair++) {
            cpu_sine_cosine(cpu_turn(&node->in[2], pair, position), &sine[pair], &cosine[pair]);
            cosine[pair] = (float)((double)cosine[pair] * attrs->scale);
            sine[pair] = (float)((double)sine[pair] * (attrs->inverse ? -attrs->scale : attrs->scale));
        }
        for (int64_t h = 0; h < plan->h; h++) {
            int64_t at = b * plan->x_b + s * plan->x_s + h * plan->x_h;
            node->kernels->load[x->dtype](head, cpu_at(x, at), plan->d);
            if (attrs->interleaved)
                cpu_rotate_interleaved(head, cosine, sine, plan->r);
            else
                node->kernels->rotate(head, head + plan->r, cosine, sine, plan->r);
            node->kernels->store[y->dtype](cpu_at(y, at), head, plan->d);
        }
    }
}

static CPU_RUN(native_rope)
{
    const cpu_rope *plan = &node->plan.rope;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, plan->b * plan->s, cpu_grain(plan->r * 16 + plan->h * plan->d), cpu_rope_slice);
}

static void cpu_sinusoidal_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_tensor *y = &node->out[0];
    int64_t pairs = node->in[1].shape[0];
    bool halves = node->attrs.sinusoidal_positions.layout != 0;
    for (int64_t i = begin; i < end; i++)
        for (int64_t pair = 0; pair < pairs; pair++) {
            float sine, cosine;
            cpu_sine_cosine(cpu_turn(&node->in[1], pair, cpu_i32_at(&node->in[0], i)), &sine, &cosine);
            int64_t at = i * 2 * pairs + (halves ? pair : 2 * pair);
            cpu_store_f64(y->dtype, y->data, at, (double)sine);
            cpu_store_f64(y->dtype, y->data, at + (halves ? pairs : 1), (double)cosine);
        }
}

static CPU_RUN(native_sinusoidal_positions)
{
    if (node->out[0].count == 0) return;
    cpu_parallel(node, node->in[0].count, cpu_grain(node->in[1].shape[0] * 16), cpu_sinusoidal_slice);
}

static CPU_PARSE(rope)
{
    const cpu_tensor *x = &node->in[0], *positions = &node->in[1], *phase = &node->in[2];
    cpu_rope *plan = &node->plan.rope;
    cpu_heads(x, node->attrs.rope.heads_first != 0, &plan->h, &plan->s, &plan->x_b, &plan->x_h, &plan->x_s);
    plan->b = x->shape[0];
    plan->d = x->shape[3];
    plan->r = phase->shape[0];
    plan->positions_b = positions->shape[0] > 1 ? plan->s : 0;
}

/* ---- cpu:reference ---- */

CPU_REFERENCE_BEGIN

/* Radians of a pair at a position: a 64-bit fraction of a turn, which wraps, taken in [-1/2, 1/2). */
static double cpu_reference_angle(const cpu_tensor *phase, int64_t pair, int32_t position)
{
    uint64_t fraction = (uint64_t)(uint32_t)cpu_i32_at(phase, 2 * pair + 1) << 32;
    fraction |= (uint32_t)cpu_i32_at(phase, 2 * pair);
    fraction *= (uint64_t)(int64_t)position;
    return (double)(int64_t)fraction * 0x1p-64 * 6.28318530717958647693;
}

static void cpu_reference_rope_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    const cpu_rope *plan = &node->plan.rope;
    const pco_rope_attrs *attrs = &node->attrs.rope;
    const cpu_tensor *x = &node->in[0], *y = &node->out[0];
    for (int64_t i = begin; i < end; i++) {
        int64_t b = i / plan->s / plan->h, s = i / plan->h % plan->s, h = i % plan->h;
        int64_t at = b * plan->x_b + s * plan->x_s + h * plan->x_h;
        int32_t position = cpu_i32_at(&node->in[1], b * plan->positions_b + s);
        for (int64_t pair = 0; pair < plan->r; pair++) {
            double angle = cpu_reference_angle(&node->in[2], pair, position);
            double cosine = cos(angle) * attrs->scale, sine = sin(angle) * attrs->scale;
            if (attrs->inverse) sine = -sine;
            int64_t first = at + (attrs->interleaved ? 2 * pair : pair);
            int64_t second = attrs->interleaved ? first + 1 : first + plan->r;
            double u = cpu_load_f64(x->dtype, x->data, first), v = cpu_load_f64(x->dtype, x->data, second);
            cpu_store_f64(y->dtype, y->data, first, u * cosine - v * sine);
            cpu_store_f64(y->dtype, y->data, second, u * sine + v * cosine);
        }
        for (int64_t j = 2 * plan->r; j < plan->d; j++)
            cpu_store_f64(y->dtype, y->data, at + j, cpu_load_f64(x->dtype, x->data, at + j));
    }
}

static CPU_RUN(reference_rope)
{
    const cpu_rope *plan = &node->plan.rope;
    if (node->out[0].count == 0) return;
    cpu_parallel(node, plan->b * plan->s * plan->h, cpu_grain(plan->r * 64), cpu_reference_rope_slice);
}

static CPU_RUN(reference_sinusoidal_positions)
{
    const cpu_tensor *positions = &node->in[0], *phase = &node->in[1], *y = &node->out[0];
    int64_t pairs = phase->shape[0];
    bool halves = node->attrs.sinusoidal_positions.layout != 0;
    for (int64_t i = 0; i < positions->count; i++)
        for (int64_t pair = 0; pair < pairs; pair++) {
            double angle = cpu_reference_angle(phase, pair, cpu_i32_at(positions, i));
            int64_t sine = i * 2 * pairs + (halves ? pair : 2 * pair), cosine = halves ? sine + pairs : sine + 1;
            cpu_store_f64(y->dtype, y->data, sine, sin(angle));
            cpu_store_f64(y->dtype, y->data, cosine, cos(angle));
        }
}

CPU_REFERENCE_END

CPU_OP(ROPE, rope, 1, MEMORY(native_rope), PLAIN(reference_rope))
CPU_OP(SINUSOIDAL_POSITIONS, nothing, 0, PLAIN(native_sinusoidal_positions), PLAIN(reference_sinusoidal_positions))
