/* Images at another size, as Image.resize of Pillow 13 for 8 bits per channel: along rows and along columns, each
 * rounded to a byte; a filter as wide as the pixels that one comes from, with weights of 22 bits. */
#include "models/image_processor.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESIZE_BITS = 22 };

/* Where pixel i comes from: `count` weights from first on, which stand at weights + i * most. */
typedef struct resize_axis {
    int64_t out, most;
    int64_t *first, *count;
    int32_t *weights;
} resize_axis;

static double resize_sinc(double x) { return x == 0 ? 1 : sin(x * M_PI) / (x * M_PI); }

/* The filters (Keys 1981 for the cubic one, with a = -1/2), and how far they reach. */
static double resize_filter(pco_resample resample, double x)
{
    const double distance = fabs(x);
    switch (resample) {
    case PCO_RESAMPLE_BOX: return x > -0.5 && x <= 0.5;
    case PCO_RESAMPLE_BILINEAR: return distance < 1 ? 1 - distance : 0;
    case PCO_RESAMPLE_HAMMING:
        return distance >= 1 ? 0 : distance == 0 ? 1 : resize_sinc(x) * (0.54 + 0.46 * cos(x * M_PI));
    case PCO_RESAMPLE_BICUBIC:
        if (distance < 1) return (1.5 * distance - 2.5) * distance * distance + 1;
        return distance < 2 ? (((distance - 5) * distance + 8) * distance - 4) * -0.5 : 0;
    default: return x >= -3 && x < 3 ? resize_sinc(x) * resize_sinc(x / 3) : 0;
    }
}

static double resize_reach(pco_resample resample)
{
    return resample == PCO_RESAMPLE_BOX       ? 0.5
           : resample == PCO_RESAMPLE_BICUBIC ? 2
           : resample == PCO_RESAMPLE_LANCZOS ? 3
                                              : 1;
}

static void resize_release(resize_axis *axis)
{
    free(axis->first);
    free(axis->count);
    free(axis->weights);
}

static void resize_weights(resize_axis *axis, int64_t i, double centre, double stretch, pco_resample resample,
                           double *exact)
{
    double sum = 0;
    for (int64_t k = 0; k < axis->count[i]; k++) {
        exact[k] = resize_filter(resample, ((double)(k + axis->first[i]) - centre + 0.5) * (1 / stretch));
        sum += exact[k];
    }
    for (int64_t k = 0; k < axis->count[i]; k++) {
        const double weight = (sum != 0 ? exact[k] / sum : exact[k]) * (1 << RESIZE_BITS);
        axis->weights[i * axis->most + k] = (int32_t)(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
}

static pco_status resize_prepare(int64_t in, int64_t out, pco_resample resample, resize_axis *axis, pco_error *err)
{
    const double scale = (double)in / (double)out, stretch = scale < 1 ? 1 : scale,
                 reach = resize_reach(resample) * stretch;
    *axis = (resize_axis){.out = out, .most = (int64_t)ceil(reach) * 2 + 1};
    axis->first = calloc((size_t)out, sizeof *axis->first);
    axis->count = calloc((size_t)out, sizeof *axis->count);
    axis->weights = calloc((size_t)(out * axis->most), sizeof *axis->weights);
    double *exact = calloc((size_t)axis->most, sizeof *exact);
    if (!axis->first || !axis->count || !axis->weights || !exact) {
        resize_release(axis);
        free(exact);
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for an image");
    }
    for (int64_t i = 0; i < out; i++) {
        const double centre = ((double)i + 0.5) * scale;
        const double begin = centre - reach + 0.5, end = centre + reach + 0.5;
        axis->first[i] = begin < 0 ? 0 : (int64_t)begin;
        axis->count[i] = (end > (double)in ? in : (int64_t)end) - axis->first[i];
        resize_weights(axis, i, centre, stretch, resample, exact);
    }
    free(exact);
    return PCO_OK;
}

/* One byte of a result: the sum over from[k * step]. */
static unsigned char resize_byte(const unsigned char *from, int64_t step, const int32_t *weights, int64_t count)
{
    int64_t sum = 1 << (RESIZE_BITS - 1);
    for (int64_t k = 0; k < count; k++) sum += (int64_t)from[k * step] * weights[k];
    sum >>= RESIZE_BITS;
    return (unsigned char)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* `lines` lines, `line` bytes apart in both images, of pixels that are `step` bytes apart. */
static void resize_lines(const resize_axis *axis, const unsigned char *from, unsigned char *to, int64_t lines,
                         const int64_t line[2], const int64_t step)
{
    for (int64_t y = 0; y < lines; y++)
        for (int64_t i = 0; i < axis->out; i++)
            for (int c = 0; c < 3; c++)
                to[y * line[1] + i * step + c] = resize_byte(from + y * line[0] + axis->first[i] * step + c, step,
                                                             axis->weights + i * axis->most, axis->count[i]);
}

static void resize_nearest(const pco_image *image, const pco_image *to)
{
    const double high = (double)image->height / (double)to->height, wide = (double)image->width / (double)to->width;
    unsigned char *rgb = (unsigned char *)to->rgb;
    double y = high * 0.5;
    for (int64_t i = 0; i < to->height; i++, y += high) {
        double x = wide * 0.5;
        for (int64_t k = 0; k < to->width; k++, x += wide, rgb += 3) {
            const int64_t row = (int64_t)y < image->height ? (int64_t)y : image->height - 1,
                          column = (int64_t)x < image->width ? (int64_t)x : image->width - 1;
            memcpy(rgb, image->rgb + (row * image->width + column) * 3, 3);
        }
    }
}

/* Along one axis, 0 (rows) or 1 (columns); of the same size it is a copy. */
static pco_status resize_along(const pco_image *image, int columns, pco_resample resample, const pco_image *to,
                               pco_error *err)
{
    resize_axis axis;
    unsigned char *rgb = (unsigned char *)to->rgb;
    const int64_t in = columns ? image->height : image->width, out = columns ? to->height : to->width;
    if (in == out) return memcpy(rgb, image->rgb, (size_t)(to->width * to->height * 3)), PCO_OK;
    pco_status status = resize_prepare(in, out, resample, &axis, err);
    if (status) return status;
    if (columns)
        resize_lines(&axis, image->rgb, rgb, image->width, (int64_t[]){3, 3}, image->width * 3);
    else
        resize_lines(&axis, image->rgb, rgb, image->height, (int64_t[]){image->width * 3, to->width * 3}, 3);
    resize_release(&axis);
    return PCO_OK;
}

/* Which way is gone first changes some bytes by one: columns where much more is left of the width than of the height.
 * (Pillow until 12 always begins with the rows.) */
static int resize_columns_first(const pco_image *image, const pco_image *to)
{
    const int64_t fewer_rows = image->height - to->height;
    return fewer_rows > 0 && fewer_rows > 2 * (image->width - to->width);
}

static pco_status resize_twice(const pco_image *image, pco_resample resample, const pco_image *to, pco_error *err)
{
    const int columns = resize_columns_first(image, to);
    pco_image between = {.width = columns ? image->width : to->width, .height = columns ? to->height : image->height};
    between.rgb = malloc((size_t)(between.width * between.height * 3));
    if (!between.rgb) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for an image");
    pco_status status = resize_along(image, columns, resample, &between, err);
    if (!status) status = resize_along(&between, !columns, resample, to, err);
    free((void *)between.rgb);
    return status;
}

pco_status pco_image_resize(const pco_image *image, pco_resample resample, pco_image *to, pco_error *err)
{
    pco_status status = PCO_OK;
    to->rgb = malloc((size_t)(to->width * to->height * 3));
    if (!to->rgb) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for an image");
    if (resample == PCO_RESAMPLE_NEAREST)
        resize_nearest(image, to);
    else
        status = resize_twice(image, resample, to, err);
    if (!status) return PCO_OK;
    free((void *)to->rgb);
    to->rgb = NULL;
    return status;
}
