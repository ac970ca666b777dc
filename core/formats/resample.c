#include "formats/resample.h"

#include <math.h>
#include <stdlib.h>

/* Zero crossings of the sinc on either side; entries of the table from one to the next, between which weights are
 * interpolated (an error of pi^2 / 3 / (8 * 512^2) = 1.6e-6 of the largest weight at most); samples written at a time.
 */
enum { CROSSINGS = 32, STEPS = 512, BLOCK = 1024 };

/* Kaiser's parameter for 90 dB: 0.1102 (90 - 8.7). */
static const double resample_beta = 8.96;

static double resample_bessel(double x)
{
    double sum = 1, term = 1;
    for (int k = 1; term > 1e-18 * sum; k++) {
        term *= x * x / (4.0 * k * k);
        sum += term;
    }
    return sum;
}

static void resample_table(float table[CROSSINGS * STEPS + 2])
{
    const double pi = 3.14159265358979323846, whole = resample_bessel(resample_beta);
    for (int i = 0; i <= CROSSINGS * STEPS; i++) {
        const double x = (double)i / STEPS, share = x / CROSSINGS;
        const double window = resample_bessel(resample_beta * sqrt(fmax(0, 1 - share * share))) / whole;
        table[i] = (float)(i ? sin(pi * x) / (pi * x) * window : 1);
    }
    table[CROSSINGS * STEPS + 1] = 0;
}

int64_t pco_resample_count(int64_t count, uint32_t from, uint32_t to)
{
    return (int64_t)(((__int128)count * to + from - 1) / from);
}

/* Sample number n at rate `to`, from in[first ...] at rate `from`; `share`: cycles of the sinc in a sample of those. */
static double resample_one(const float *in, int64_t first, int64_t last, double at, double share, const float *table)
{
    const double reach = CROSSINGS / share;
    int64_t begin = (int64_t)ceil(at - reach), end = (int64_t)floor(at + reach);
    double sum = 0;
    if (begin < first) begin = first;
    if (end > last) end = last;
    for (int64_t k = begin; k <= end; k++) {
        const double x = fabs(at - (double)k) * share * STEPS;
        const int i = x < CROSSINGS * STEPS ? (int)x : CROSSINGS * STEPS;
        const double part = x - i;
        sum += (double)in[k - first] * ((double)table[i] + part * ((double)table[i + 1] - (double)table[i]));
    }
    return sum * share;
}

int pco_resample(pco_resample_fn read, void *user, int64_t count, uint32_t from, uint32_t to, float *samples)
{
    const int64_t made = pco_resample_count(count, from, to);
    if (!made) return 0;
    const double ratio = (double)from / to, share = ratio > 1 ? 1 / ratio : 1;
    const int64_t around = (int64_t)(CROSSINGS / share) + 2;
    const int64_t most = (int64_t)(BLOCK * ratio) + 2 * around + 2;
    float *table = malloc((CROSSINGS * STEPS + 2) * sizeof *table), *in = malloc((size_t)most * sizeof *in);
    int status = table && in ? 0 : -1;
    if (!status) resample_table(table);
    for (int64_t done = 0; !status && done < made; done += BLOCK) {
        const int64_t n = made - done < BLOCK ? made - done : BLOCK;
        int64_t first = (int64_t)((__int128)done * from / to) - around, last = first + most - 1;
        if (first < 0) first = 0;
        if (last > count - 1) last = count - 1;
        status = read(user, first, last - first + 1, in);
        for (int64_t i = 0; !status && i < n; i++) {
            const __int128 at = (__int128)(done + i) * from;
            const double place = (double)(int64_t)(at / to) + (double)(int64_t)(at % to) / to;
            samples[done + i] = (float)resample_one(in, first, last, place, share, table);
        }
    }
    free(table);
    free(in);
    return status;
}
