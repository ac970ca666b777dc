/* Which way up an image is, as EXIF says (CIPA DC-008, 4.6.4 A: Orientation) in the layout of TIFF 6.0. */
#include "formats/image.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of TIFF, whose order its first two say. */
typedef struct exif_bytes {
    const unsigned char *data;
    size_t size;
    int little;
} exif_bytes;

/* The number of `bytes` bytes there; 0 behind the end. */
static uint64_t exif_number(const exif_bytes *exif, uint64_t at, int bytes)
{
    uint64_t value = 0;
    if (at > exif->size || exif->size - at < (uint64_t)bytes) return 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)exif->data[at + (uint64_t)i] << 8 * (exif->little ? i : bytes - 1 - i);
    return value;
}

/* 1 to 8; 1, as it is, where nothing else is said. */
static int exif_orientation(const exif_bytes *exif)
{
    enum { TAG = 0x0112, SHORT = 3, ENTRY = 12 };
    const uint64_t directory = exif_number(exif, 4, 4), entries = exif_number(exif, directory, 2);
    if (exif_number(exif, 2, 2) != 42) return 1;
    for (uint64_t i = 0, at = directory + 2; i < entries && at < exif->size; i++, at += ENTRY) {
        const uint64_t value = exif_number(exif, at + 8, 2);
        if (exif_number(exif, at, 2) == TAG && exif_number(exif, at + 2, 2) == SHORT &&
            exif_number(exif, at + 4, 4) == 1)
            return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* Where row y and column x of an image that is stored so come from. */
static const unsigned char *exif_pixel(const pco_image *image, int orientation, int64_t y, int64_t x)
{
    const int turned = orientation >= 5; /* rows become columns */
    const int upside = turned ? orientation == 6 || orientation == 7 : orientation == 3 || orientation == 4;
    const int mirrored = turned ? orientation >= 7 : orientation == 2 || orientation == 3;
    const int64_t row = turned ? x : y, column = turned ? y : x;
    return image->rgb + 3 * ((upside ? image->height - 1 - row : row) * image->width +
                             (mirrored ? image->width - 1 - column : column));
}

pco_status image_turn(image_file *file, const unsigned char *data, size_t size)
{
    const exif_bytes exif = {data, size, size && data[0] == 'I'};
    const int orientation = exif_orientation(&exif);
    pco_image *image = file->image, made = *image;
    if (orientation == 1) return PCO_OK;
    if (orientation >= 5) made.width = image->height, made.height = image->width;
    unsigned char *to = malloc((size_t)(3 * made.width * made.height));
    if (!to)
        return pco_fail(file->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the image %s", file->label);
    made.rgb = to;
    for (int64_t y = 0; y < made.height; y++)
        for (int64_t x = 0; x < made.width; x++, to += 3) memcpy(to, exif_pixel(image, orientation, y, x), 3);
    free((void *)image->rgb);
    *image = made;
    return PCO_OK;
}
