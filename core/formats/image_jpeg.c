/* JPEG, by libjpeg-turbo. */
#include "formats/image.h"

#include "base/error.h"

#ifdef PCO_HAVE_JPEG
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

/* A block of 64 pixels takes a bit at least. */
enum { JPEG_PIXELS_OF_BYTE = 8 * 64 };
/* Scans of a progressive file, of which each goes over all pixels. */
enum { JPEG_SCANS = 64 };
static const int64_t jpeg_work = 1 << 30; /* pixels of all scans */

/* The error manager, which libjpeg hands back, and what it has to know. */
typedef struct jpeg_reader {
    struct jpeg_error_mgr manager; /* first */
    struct jpeg_progress_mgr progress;
    struct jpeg_decompress_struct jpeg;
    image_file *file;
    pco_status status;
    jmp_buf leave;
} jpeg_reader;

static void jpeg_reader_fail(jpeg_reader *reader, const char *message)
{
    if (!reader->status)
        reader->status = pco_fail(reader->file->err, PCO_ERROR_FORMAT, "%s cannot be read as JPEG: %.150s",
                                  reader->file->label, message);
    longjmp(reader->leave, 1);
}

static void jpeg_reader_exit(j_common_ptr jpeg)
{
    char message[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, message);
    jpeg_reader_fail((jpeg_reader *)jpeg->err, message);
}

/* Warnings are of what can still be seen; but where the file ends, the rest is grey. */
static void jpeg_reader_message(j_common_ptr jpeg, int level)
{
    if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF)
        jpeg_reader_fail((jpeg_reader *)jpeg->err, "it ends too early");
}

static void jpeg_reader_progress(j_common_ptr jpeg)
{
    jpeg_reader *reader = (jpeg_reader *)jpeg->err;
    const int64_t scans = reader->jpeg.input_scan_number,
                  pixels = (int64_t)reader->jpeg.image_width * reader->jpeg.image_height;
    if (scans > JPEG_SCANS || scans * pixels > jpeg_work) jpeg_reader_fail(reader, "it has too many scans");
}

/* A row of the inverse of cyan, magenta, yellow and black, as Adobe's files have them, to red, green and blue. */
static void jpeg_mix(const JSAMPLE *inks, int64_t width, unsigned char *rgb)
{
    for (int64_t x = 0; x < width; x++, inks += 4)
        for (int c = 0; c < 3; c++) *rgb++ = (unsigned char)(inks[3] - ((255 - inks[c]) * inks[3] + 127) / 255);
}

/* All rows, the first one at `rgb`. */
static void jpeg_rows(struct jpeg_decompress_struct *jpeg, unsigned char *rgb)
{
    JSAMPARRAY inks = NULL; /* the library's, as is what it becomes when it goes */
    (void)jpeg_start_decompress(jpeg);
    if (jpeg->out_color_space == JCS_CMYK)
        inks = jpeg->mem->alloc_sarray((j_common_ptr)jpeg, JPOOL_IMAGE, jpeg->output_width * 4, 1);
    for (; jpeg->output_scanline < jpeg->output_height; rgb += (size_t)jpeg->output_width * 3) {
        (void)jpeg_read_scanlines(jpeg, inks ? inks : &rgb, 1);
        if (inks) jpeg_mix(inks[0], jpeg->output_width, rgb);
    }
}

static pco_status jpeg_turn(const jpeg_reader *reader)
{
    for (jpeg_saved_marker_ptr marker = reader->jpeg.marker_list; marker; marker = marker->next)
        if (marker->data_length > 6 && memcmp(marker->data, "Exif\0", 6) == 0)
            return image_turn(reader->file, marker->data + 6, marker->data_length - 6);
    return PCO_OK;
}

static void jpeg_decode(jpeg_reader *reader)
{
    struct jpeg_decompress_struct *jpeg = &reader->jpeg;
    image_file *file = reader->file;
    jpeg_create_decompress(jpeg);
    jpeg->progress = &reader->progress;
    reader->progress.progress_monitor = jpeg_reader_progress;
    jpeg_mem_src(jpeg, file->data, (unsigned long)file->size);
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xFFFF);
    (void)jpeg_read_header(jpeg, TRUE);
    jpeg->out_color_space = jpeg->num_components == 4 ? JCS_CMYK : JCS_RGB;
    reader->status = image_allocate(file, jpeg->image_width, jpeg->image_height, JPEG_PIXELS_OF_BYTE);
    if (reader->status) return;
    jpeg_rows(jpeg, (unsigned char *)file->image->rgb);
    reader->status = jpeg_turn(reader);
}

/* Errors leave by longjmp to here, where no local changes. */
static void jpeg_guard(jpeg_reader *reader)
{
    if (setjmp(reader->leave) == 0) jpeg_decode(reader);
}

pco_status image_read_jpeg(image_file *file)
{
    jpeg_reader reader = {.file = file};
    reader.jpeg.err = jpeg_std_error(&reader.manager);
    reader.manager.error_exit = jpeg_reader_exit;
    reader.manager.emit_message = jpeg_reader_message;
    jpeg_guard(&reader);
    jpeg_destroy_decompress(&reader.jpeg);
    return reader.status;
}

#else

pco_status image_read_jpeg(image_file *file)
{
    return pco_fail(file->err, PCO_ERROR_UNSUPPORTED,
                    "%s is a JPEG file, and this Portico was built without libjpeg-turbo", file->label);
}

#endif
