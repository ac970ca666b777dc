#include "formats/image.h"

#include "base/error.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

static pco_status image_dispatch(image_file *file)
{
    static const struct {
        const char *magic;
        size_t size;
        const char *name;
    } others[] = {
        {"GIF8", 4, "GIF"}, {"RIFF", 4, "RIFF (WebP)"}, {"BM", 2, "BMP"}, {"II*", 3, "TIFF"}, {"MM", 2, "TIFF"}};
    const unsigned char *data = file->data;
    if (file->size >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0) return image_read_png(file);
    if (file->size >= 3 && memcmp(data, "\xFF\xD8\xFF", 3) == 0) return image_read_jpeg(file);
    if (file->size >= 2 && data[0] == 'P' && data[1] >= '1' && data[1] <= '6') return image_read_pnm(file);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (file->size >= others[i].size && memcmp(data, others[i].magic, others[i].size) == 0)
            return pco_fail(file->err, PCO_ERROR_UNSUPPORTED,
                            "%s is a %s file; Portico reads PNG, JPEG and PNM (PPM, PGM, PBM)", file->label,
                            others[i].name);
    return pco_fail(file->err, PCO_ERROR_FORMAT, "%s is no image that Portico knows: PNG, JPEG or PNM (PPM, PGM, PBM)",
                    file->label);
}

pco_status pco_image_decode(const void *data, size_t size, const char *label, pco_image *image, pco_error *err)
{
    image_file file = {data, size, label, image, err};
    *image = (pco_image){.size = sizeof *image};
    const pco_status status = image_dispatch(&file);
    if (!status) return PCO_OK;
    free((void *)image->rgb);
    *image = (pco_image){.size = sizeof *image};
    return status;
}

pco_status pco_image_read(const char *path, pco_image *image, pco_error *err)
{
    pco_map map;
    pco_image made;
    PCO_NEEDS(path);
    PCO_NEEDS(image);
    pco_status status = pco_check_sized(sizeof made, image->size, err);
    if (!status) status = pco_map_open(path, &map, err);
    if (status) return status;
    status = pco_image_decode(map.data, map.size, path, &made, err);
    pco_map_close(&map);
    if (!status) status = pco_fill_sized(image, &made, sizeof made, err);
    return status;
}
