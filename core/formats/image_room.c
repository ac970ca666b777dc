#include "formats/image.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdlib.h>

pco_status image_allocate(image_file *file, int64_t width, int64_t height, uint64_t each)
{
    if (width < 1 || height < 1 || width > PCO_IMAGE_SIDE || height > PCO_IMAGE_SIDE ||
        width * height > PCO_IMAGE_PIXELS)
        return pco_fail(file->err, PCO_ERROR_FORMAT,
                        "%s says that it is %" PRId64 " x %" PRId64
                        " pixels; an image has 1 to %d on a side, and up to "
                        "%d in all",
                        file->label, width, height, PCO_IMAGE_SIDE, PCO_IMAGE_PIXELS);
    if ((uint64_t)(width * height) / each > file->size)
        return pco_fail(file->err, PCO_ERROR_FORMAT, "%s is too short for %" PRId64 " x %" PRId64 " pixels",
                        file->label, width, height);
    unsigned char *rgb = calloc((size_t)(width * height), 3);
    if (!rgb)
        return pco_fail(file->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the image %s", file->label);
    *file->image = (pco_image){.size = sizeof *file->image, .width = width, .height = height, .rgb = rgb};
    return PCO_OK;
}
