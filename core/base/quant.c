#include "base/quant.h"

#include <float.h>
#include <math.h>

float quant_inverse(float scale)
{
    const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
    return isfinite(inverse) ? inverse : 0.0f;
}

unsigned char quant_level(float x, int most)
{
    const float q = floorf(x + 0.5f);
    return (unsigned char)(q < 0 ? 0 : q > (float)most ? (float)most : q);
}

float quant_largest(const float *x, int n)
{
    float largest = 0;
    for (int j = 0; j < n; j++)
        if (fabsf(x[j]) > fabsf(largest)) largest = x[j];
    return largest;
}

static const float TOO_SMALL = 1e-30f; /* far below what an f16 can scale */

float quant_fit_signed(const float *x, int n, int least)
{
    enum { STEPS = 9 };
    const float largest = quant_largest(x, n);
    float best = 0, scale = 0;
    if (fabsf(largest) < TOO_SMALL) return 0;
    for (int step = -STEPS; step <= STEPS; step++) {
        const float inverse = ((float)least - 0.1f * (float)step) / largest;
        float along = 0, squares = 0;
        for (int j = 0; j < n; j++) {
            const float q = fminf((float)(-least - 1), fmaxf((float)least, rintf(x[j] * inverse)));
            along += x[j] / largest * q;
            squares += q * q;
        }
        if (squares == 0 || along * along <= best * squares) continue;
        best = along * along / squares;
        scale = along / squares * largest;
    }
    return scale;
}

/* ---- lines --------------------------------------------------------------------------------------------- */

/* y = scale q + least, with scale >= 0 and least <= 0. */
typedef struct quant_line {
    double scale, least;
} quant_line;

static int quant_on_line(double x, double inverse, double least, int levels)
{
    const double q = (x - least) * inverse + 0.5;
    return q < 1 ? 0 : q >= levels ? levels : (int)q;
}

static double quant_line_error(const float *x, int n, int levels, quant_line line, unsigned char *q)
{
    const double inverse = line.scale > 0 ? 1 / line.scale : 0;
    double sum = 0;
    for (int j = 0; j < n; j++) {
        const int level = quant_on_line((double)x[j], inverse, line.least, levels);
        const double off = line.scale * level + line.least - (double)x[j];
        sum += off * off;
        if (q) q[j] = (unsigned char)level;
    }
    return sum;
}

/* The line of least squared error for the q that `line` gives. */
static quant_line quant_refit(const float *x, int n, int levels, quant_line line)
{
    const double inverse = line.scale > 0 ? 1 / line.scale : 0;
    double sum_q = 0, sum_x = 0, sum_qq = 0, sum_qx = 0;
    for (int j = 0; j < n; j++) {
        const double q = quant_on_line((double)x[j], inverse, line.least, levels);
        sum_q += q, sum_x += (double)x[j], sum_qq += q * q, sum_qx += q * (double)x[j];
    }
    const double spread = n * sum_qq - sum_q * sum_q;
    if (spread <= 0) return line;
    quant_line fitted = {(n * sum_qx - sum_q * sum_x) / spread, (sum_qq * sum_x - sum_q * sum_qx) / spread};
    if (fitted.least > 0) fitted = (quant_line){sum_qx / sum_qq, 0};
    return fitted.scale > 0 ? fitted : line;
}

static quant_line quant_fit_line(const float *x, int n, int levels)
{
    enum { STEPS = 10 };
    double least = 0, most = (double)x[0], best = DBL_MAX;
    quant_line found = {0, 0};
    for (int j = 0; j < n; j++) {
        least = fmin(least, (double)x[j]);
        most = fmax(most, (double)x[j]);
    }
    if (most - least < (double)TOO_SMALL) return (quant_line){0, least};
    for (int step = -STEPS; step <= STEPS; step++) {
        quant_line line = {(most - least) / (levels + 0.1 * step), least};
        for (int again = 0; again < 2; again++) {
            line = quant_refit(x, n, levels, line);
            const double error = quant_line_error(x, n, levels, line, NULL);
            if (error < best) best = error, found = line;
        }
    }
    return found;
}

/* What x is as f16. */
static float quant_rounded(double x) { return pco_f16_to_f32(pco_f16_from_f32((float)x)); }

static int quant_whole(double x, int most)
{
    const double q = rint(x);
    return !(q > 0) ? 0 : q > most ? most : (int)q;
}

void quant_fit_affine(const quant_affine *form, const float *x, quant_affine_block *block)
{
    const int groups = QUANT_SUPER / form->size;
    quant_line lines[QUANT_GROUPS_MOST];
    double scale = 0, least = 0;
    for (int g = 0; g < groups; g++) {
        lines[g] = quant_fit_line(x + g * form->size, form->size, form->levels);
        scale = fmax(scale, lines[g].scale);
        least = fmax(least, -lines[g].least);
    }
    block->d = quant_rounded(scale / form->scale_levels);
    block->e = quant_rounded(least / form->scale_levels);
    const double d = (double)block->d, e = (double)block->e;
    for (int g = 0; g < groups; g++) {
        const float *at = x + g * form->size;
        const int s = quant_whole(d > 0 ? lines[g].scale / d : 0, form->scale_levels);
        const int m = quant_whole(e > 0 ? -lines[g].least / e : 0, form->scale_levels);
        double best = DBL_MAX;
        for (int ds = s > 0 ? -1 : 0; ds <= 1; ds++)
            for (int dm = m > 0 ? -1 : 0; dm <= 1; dm++) {
                if (s + ds > form->scale_levels || m + dm > form->scale_levels) continue;
                const quant_line line = {d * (s + ds), -e * (m + dm)};
                const double error = quant_line_error(at, form->size, form->levels, line, NULL);
                if (error >= best) continue;
                best = error;
                block->s[g] = (unsigned char)(s + ds), block->m[g] = (unsigned char)(m + dm);
            }
        (void)quant_line_error(at, form->size, form->levels, (quant_line){d * block->s[g], -e * block->m[g]},
                               block->q + g * form->size);
    }
}

void quant_six_bits(const unsigned char *from, int g, int *s, int *m)
{
    *s = g < 4 ? from[g] & 63 : (from[g + 4] & 15) | from[g - 4] >> 6 << 4;
    *m = g < 4 ? from[g + 4] & 63 : from[g + 4] >> 4 | from[g] >> 6 << 4;
}

void quant_put_six_bits(unsigned char *to, int g, int s, int m)
{
    if (g < 4) {
        to[g] |= (unsigned char)s;
        to[g + 4] |= (unsigned char)m;
        return;
    }
    to[g + 4] = (unsigned char)((s & 15) | (m & 15) << 4);
    to[g - 4] |= (unsigned char)(s >> 4 << 6);
    to[g] |= (unsigned char)(m >> 4 << 6);
}

/* ---- the curve ----------------------------------------------------------------------------------------- */

const signed char QUANT_CURVE[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

unsigned char quant_on_curve(float x)
{
    int low = 0, high = 15;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (x < (float)QUANT_CURVE[middle])
            high = middle;
        else
            low = middle;
    }
    return (unsigned char)(x - (float)QUANT_CURVE[low] <= (float)QUANT_CURVE[high] - x ? low : high);
}

double quant_curve_error(const float *x, int n, float scale)
{
    const float inverse = quant_inverse(scale);
    double sum = 0;
    for (int j = 0; j < n; j++) {
        const double off = (double)scale * QUANT_CURVE[quant_on_curve(x[j] * inverse)] - (double)x[j];
        sum += off * off;
    }
    return sum;
}

/* x* becomes about the first entry, or minus that. */
float quant_fit_curve(const float *x, int n)
{
    enum { STEPS = 7 };
    const float largest = quant_largest(x, n);
    float best = 0, scale = 0;
    if (fabsf(largest) < TOO_SMALL) return 0;
    for (int step = -2 * STEPS - 1; step <= 2 * STEPS + 1; step++) {
        const float inverse = (step & 1 ? 1.0f : -1.0f) * (float)(QUANT_CURVE[0] + step / 2) / largest;
        float along = 0, squares = 0;
        for (int j = 0; j < n; j++) {
            const float value = QUANT_CURVE[quant_on_curve(x[j] * inverse)];
            along += x[j] / largest * value;
            squares += value * value;
        }
        if (squares == 0 || along * along <= best * squares) continue;
        best = along * along / squares;
        scale = along / squares * largest;
    }
    return scale;
}

void quant_put_nibbles(unsigned char *to, const unsigned char *q)
{
    for (int j = 0; j < 16; j++) to[j] = (unsigned char)(q[j] | q[j + 16] << 4);
}
