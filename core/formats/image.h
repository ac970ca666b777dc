/* Images in files: PNM (P1 to P6), and PNG and JPEG where libpng and libjpeg-turbo were there when Portico was built.
 *
 * What is read is what Pillow's exif_transpose and convert("RGB") make of the file: it is turned as EXIF says; colour
 * profiles and gamma change nothing, and what an alpha channel hides is seen. */
#ifndef PCO_FORMATS_IMAGE_H
#define PCO_FORMATS_IMAGE_H

#include <stddef.h>

#include "portico/image.h"

/* Most pixels of an image's side, and of the whole: 192 MiB. PNG and JPEG hold flat areas in next to nothing; a file
 * that is too short for all that it says it has is refused before anything is allocated (image_allocate). The most
 * bytes in one piece are the coefficients of a progressive JPEG of four colours, of 16 bits. */
enum { PCO_IMAGE_SIDE = 65535, PCO_IMAGE_PIXELS = 1 << 26, PCO_IMAGE_MOST = PCO_IMAGE_PIXELS * 8 };

/* data[size] is the file, `label` its path. image->rgb is malloc'ed. Errors: FORMAT; UNSUPPORTED for other kinds of
 * files; OUT_OF_HOST_MEMORY. */
pco_status pco_image_decode(const void *data, size_t size, const char *label, pco_image *image,
                            pco_error *err) PCO_NODISCARD;

/* ---- for the readers -------------------------------------------------------------------------------- */

/* A file that is read. */
typedef struct image_file {
    const unsigned char *data;
    size_t size;
    const char *label;
    pco_image *image;
    pco_error *err;
} image_file;

/* Allocates width x height pixels, into file->image. `each`: as many pixels as a byte of the file may stand for.
 * Errors: FORMAT, OUT_OF_HOST_MEMORY. */
pco_status image_allocate(image_file *file, int64_t width, int64_t height, uint64_t each) PCO_NODISCARD;

/* Turns file->image as the EXIF data[size] says; what cannot be read there says nothing. Errors: OUT_OF_HOST_MEMORY. */
pco_status image_turn(image_file *file, const unsigned char *data, size_t size) PCO_NODISCARD;

pco_status image_read_pnm(image_file *file) PCO_NODISCARD;
pco_status image_read_png(image_file *file) PCO_NODISCARD;
pco_status image_read_jpeg(image_file *file) PCO_NODISCARD;

#endif
