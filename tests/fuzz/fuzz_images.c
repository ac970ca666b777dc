/* Images from anywhere: none may crash, hang, or be of more pixels than is said. With libFuzzer: scripts/fuzz. Alone:
 * fuzz_files.h, with
 * files of tests/golden/images, and of tests/fuzz/images, which showed faults. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/image.h"

/* Flat areas are next to nothing in a file, so that images are bounded by what is said there. */
#define FUZZ_FIXED (PCO_IMAGE_MOST)
#include "fuzz_files.h"

static uint32_t fuzz_crc(const uint8_t *data, size_t size)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

/* The checksums of a PNG's chunks, without which libpng looks no further. */
static void fuzz_check_sums(uint8_t *data, size_t size)
{
    for (size_t at = 8; at < size && size - at >= 12;) {
        const size_t length =
            (size_t)data[at] << 24 | (size_t)data[at + 1] << 16 | (size_t)data[at + 2] << 8 | data[at + 3];
        if (length > size - at - 12) return;
        const uint32_t crc = fuzz_crc(data + at + 4, length + 4);
        at += length + 8;
        for (int i = 0; i < 4; i++) data[at++] = (uint8_t)(crc >> (24 - 8 * i));
    }
}

static int fuzz_input(const uint8_t *data, size_t size)
{
    pco_image image;
    pco_error err;
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    memcpy(copy, data, size);
    if (size > 8 && memcmp(copy, "\x89PNG", 4) == 0) fuzz_check_sums(copy, size);
    if (pco_image_decode(copy, size, "fuzz", &image, &err) == PCO_OK) {
        const int64_t pixels = image.width * image.height;
        if (image.width < 1 || image.height < 1 || pixels > PCO_IMAGE_PIXELS) abort();
        volatile unsigned char last = image.rgb[pixels * 3 - 1];
        (void)last;
        free((void *)image.rgb);
        fuzz_parsed++;
    } else if (image.rgb) {
        abort();
    }
    free(copy);
    return 0;
}

#ifndef PCO_LIBFUZZER
int main(int argc, char **argv) { return fuzz_changed(argc, argv, 1, fuzz_change_bytes); }
#endif
