/* What the tests of models share. The device is the one that PORTICO_BACKEND picks. */
#ifndef PCO_TESTS_MODELS_TEST_H
#define PCO_TESTS_MODELS_TEST_H

#include "check.h"

#include <math.h>

#include "base/philox.h"
#include "runtime/session.h"

/* A registry and a session on the device. */
typedef struct models_device {
    pco_registry *registry;
    pco_session *session;
} models_device;

static inline void models_device_open(models_device *device)
{
    pco_config config;
    check_ok(pco_config_read(&config, &err));
    check_ok(pco_registry_create(&config, &device->registry, &err));
    check_ok(pco_registry_open(device->registry, NULL, &device->session, &err));
}

static inline void models_device_close(models_device *device)
{
    pco_session_close(device->session);
    pco_registry_destroy(device->registry);
}

/* Element i of the generator of tests/golden/README.md: offset + uniform(-bound, bound), in float32, rounded
 * after each operation. */
static inline float models_uniform(uint32_t seed, uint32_t tensor, int64_t i, float bound, float offset)
{
    pco_philox counter = {{(uint32_t)(i / 4), 0, 0, 0}};
    uint32_t word = pco_philox4x32_10(counter, (uint64_t)tensor << 32 | seed).word[i % 4];
    volatile float value = (float)(word >> 8) * 0x1p-24f - 0.5f; /* exact */
    value = value * 2;
    value = value * bound;
    value = offset + value;
    return value;
}

/* Of what a model answers, beside float64: |y - want| <= MODELS_TOLERANCE (|want| + rms of the row). A bound of the
 * worst case grows with each layer's condition and says nothing, so this is what roundings that do not know of each
 * other add up to. A sum of K products of either sign, one after the other, is off by sqrt(K / 6) u of its size (u =
 * 2^-24; the variances of K roundings of partial sums), which is 26 u for K = 4096; 12 operations of that kind in each
 * of 30 layers of a residual stream: sqrt(360) 26 u = 2.9e-5. Three times that is allowed. A wrong form (an eps, a
 * position, GELU's tanh) moves logits by 1e-3 and more. */
#define MODELS_TOLERANCE 1e-4

/* The largest |y - want| / (tolerance * (|want| + rms of the row)) over rows of `width`; infinite for NaN. */
static inline double models_error(const float *y, const double *want, int64_t count, int64_t width, double tolerance)
{
    double worst = 0;
    for (int64_t row = 0; row < count / width; row++) {
        double squares = 0;
        for (int64_t i = 0; i < width; i++) squares += want[row * width + i] * want[row * width + i];
        double rms = sqrt(squares / (double)width);
        for (int64_t i = 0; i < width; i++) {
            double w = want[row * width + i], error = fabs((double)y[row * width + i] - w);
            double ratio = error == 0 ? 0 : error / (tolerance * (fabs(w) + rms));
            if (!(ratio <= worst)) worst = ratio == ratio ? ratio : INFINITY;
        }
    }
    return worst;
}

/* The same against float32 values. */
static inline double models_error_f32(const float *y, const float *want, int64_t count, int64_t width, double tolerance)
{
    double *wide = malloc((size_t)count * sizeof *wide);
    for (int64_t i = 0; i < count; i++) wide[i] = (double)want[i];
    double worst = models_error(y, wide, count, width, tolerance);
    free(wide);
    return worst;
}

#endif
