/* PNG, by libpng. */
#include "formats/image.h"

#include "base/error.h"

#ifdef PCO_HAVE_PNG
#include <png.h>
#include <stdlib.h>
#include <string.h>

/* Deflate makes at most 1032 bytes of one, and a byte is up to eight pixels. */
enum { PNG_PIXELS_OF_BYTE = 1032 * 8 };

/* What libpng is given to call back with. */
typedef struct png_source {
    image_file *file;
    size_t at;
    pco_status status;
} png_source;

static void png_source_read(png_structp png, png_bytep to, size_t bytes)
{
    png_source *source = png_get_io_ptr(png);
    if (bytes > source->file->size - source->at) png_error(png, "it ends too early");
    memcpy(to, source->file->data + source->at, bytes);
    source->at += bytes;
}

static void png_source_error(png_structp png, png_const_charp message)
{
    png_source *source = png_get_error_ptr(png);
    if (!source->status)
        source->status = pco_fail(source->file->err, PCO_ERROR_FORMAT, "%s cannot be read as PNG: %.100s",
                                  source->file->label, message);
    png_longjmp(png, 1);
}

static void png_source_warn(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

/* Chunks of which libpng would take as much memory as they say that they are long, or as they have when they are
 * unpacked, are not looked at: none of them is of pixels. */
static void png_limit(png_structp png)
{
    static const png_byte skipped[] = "iCCP\0zTXt\0iTXt\0tEXt\0sPLT\0eXIf\0pCAL\0sCAL";
    png_set_user_limits(png, PCO_IMAGE_SIDE, PCO_IMAGE_SIDE);
    png_set_chunk_malloc_max(png, 1 << 16);
    png_set_chunk_cache_max(png, 16);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, skipped, 8);
}

/* By the chunk that has EXIF, wherever it stands. */
static pco_status png_turn(image_file *file)
{
    for (size_t at = 8; file->size - at >= 12;) {
        const size_t length = png_get_uint_32(file->data + at);
        if (length > file->size - at - 12) break;
        if (memcmp(file->data + at + 4, "eXIf", 4) == 0) return image_turn(file, file->data + at + 8, length);
        at += length + 12;
    }
    return PCO_OK;
}

static void png_decode(png_structp png, png_infop info, png_source *source)
{
    png_limit(png);
    png_read_info(png, info);
    const int64_t width = png_get_image_width(png, info), height = png_get_image_height(png, info);
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != (size_t)width * 3) png_error(png, "its rows are not of red, green and blue");
    source->status = image_allocate(source->file, width, height, PNG_PIXELS_OF_BYTE);
    if (source->status) return;
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < height; y++)
            png_read_row(png, (png_bytep)source->file->image->rgb + y * width * 3, NULL);
    source->status = png_turn(source->file);
}

/* Errors leave by longjmp to here, where no local changes. */
static void png_guard(png_structp png, png_infop info, png_source *source)
{
    if (setjmp(png_jmpbuf(png)) == 0) png_decode(png, info, source);
}

pco_status image_read_png(image_file *file)
{
    png_source source = {.file = file};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, png_source_error, png_source_warn);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info) {
        png_destroy_read_struct(&png, NULL, NULL);
        return pco_fail(file->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the image %s", file->label);
    }
    png_set_read_fn(png, &source, png_source_read);
    png_guard(png, info, &source);
    png_destroy_read_struct(&png, &info, NULL);
    return source.status;
}

#else

pco_status image_read_png(image_file *file)
{
    return pco_fail(file->err, PCO_ERROR_UNSUPPORTED, "%s is a PNG file, and this Portico was built without libpng",
                    file->label);
}

#endif
