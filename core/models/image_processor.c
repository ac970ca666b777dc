#include "models/image_processor.h"

#include "base/error.h"
#include "formats/image.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Is `type` the class, or one that was called so before? */
static int processor_is(const char *type, const pco_image_processor_class *class)
{
    static const char *const ends[] = {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor"};
    const size_t length = strlen(class->name);
    if (strncmp(type, class->name, length) != 0) return 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strcmp(type + length, ends[i]) == 0) return 1;
    return 0;
}

/* The class that the file names, of those that families have; the model's family's where it names none. */
static const pco_image_processor_class *processor_class(pco_hub_reader *r, const pco_model_file *file)
{
    const char *type = cJSON_GetStringValue(pco_hub_item(r, "image_processor_type")),
               *before = cJSON_GetStringValue(pco_hub_item(r, "feature_extractor_type"));
    char list[256] = "";
    size_t used = 0;
    const pco_image_processor_class *class;
    if (!type) type = before;
    if (!type) return file->family->image_processor;
    for (uint32_t i = 0; (class = pco_family_image_processor(i)) != NULL; i++) {
        if (processor_is(type, class)) return class;
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? " and " : "", class->name);
    }
    if (!r->status)
        r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                             "%s: '%.100s' is an image processor that Portico does not have; it has those of %s",
                             r->label, type, list);
    return file->family->image_processor;
}

/* A number of pixels, for both sides or (square: 0) the shorter one; or an object that says which. */
static void processor_size(pco_hub_reader *r, const char *key, int square, int64_t size[2], int64_t *shortest)
{
    const cJSON *item = pco_hub_item(r, key);
    int64_t both = 0;
    if (!item || r->status) return;
    pco_hub_reader part = {.root = item, .label = r->label, .err = r->err};
    if (cJSON_IsNumber(item)) {
        r->status = pco_json_int(r->root, r->label, key, 1, PCO_SPEC_IMAGE, &both, r->err);
        if (r->status) return;
        size[0] = size[1] = square ? both : 0;
        if (shortest) *shortest = square ? 0 : both;
        return;
    }
    if (cJSON_IsObject(item) && shortest && cJSON_HasObjectItem(item, "shortest_edge")) {
        *shortest = pco_hub_size(&part, "shortest_edge", PCO_SPEC_IMAGE);
    } else {
        size[0] = pco_hub_size(&part, "height", PCO_SPEC_IMAGE);
        size[1] = pco_hub_size(&part, "width", PCO_SPEC_IMAGE);
        if (shortest) *shortest = 0;
    }
    pco_hub_check_keys(&part);
    r->status = part.status;
}

/* Three numbers, or one for all. */
static void processor_channels(pco_hub_reader *r, const char *key, double least, double values[3])
{
    const cJSON *item = pco_hub_item(r, key), *number = cJSON_IsArray(item) ? item->child : item;
    if (!item || r->status) return;
    for (int c = 0; c < 3; c++) {
        if (!cJSON_IsNumber(number) || !(number->valuedouble >= least && number->valuedouble <= 1e6)) {
            r->status = pco_fail(r->err, PCO_ERROR_FORMAT, "%s: '%s' must be three numbers from %g to 1e6", r->label,
                                 key, least);
            return;
        }
        values[c] = number->valuedouble;
        if (cJSON_IsArray(item)) number = number->next;
    }
}

static void processor_read(pco_hub_reader *r, const pco_model_file *file, pco_image_processor *p)
{
    static const char *const harmless[] = {"do_convert_rgb", "processor_class", "return_tensors", "image_seq_length"};
    *p = processor_class(r, file)->usual;
    p->resizes = pco_hub_bool(r, "do_resize", p->resizes);
    p->crops = pco_hub_bool(r, "do_center_crop", p->crops);
    p->rescales = pco_hub_bool(r, "do_rescale", p->rescales);
    p->normalizes = pco_hub_bool(r, "do_normalize", p->normalizes);
    processor_size(r, "size", pco_hub_bool(r, "default_to_square", !p->shortest_edge), p->size, &p->shortest_edge);
    processor_size(r, "crop_size", 1, p->crop, NULL);
    if (pco_hub_item(r, "resample") && !r->status) {
        int64_t filter = 0;
        r->status = pco_json_int(r->root, r->label, "resample", 0, PCO_RESAMPLE_HAMMING, &filter, r->err);
        p->resample = (pco_resample)filter;
    }
    p->factor = pco_hub_number(r, "rescale_factor", -1e6, 1e6, p->factor);
    processor_channels(r, "image_mean", -1e6, p->mean);
    processor_channels(r, "image_std", 1e-6, p->deviation);
    pco_hub_only(r, "do_pad", 0);
    pco_hub_only_text(r, "input_data_format", "channels_first");
    pco_hub_only_text(r, "data_format", "channels_first");
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) pco_hub_ignore(r, harmless[i]);
    pco_hub_check_keys(r);
}

pco_status pco_image_processor_read(const pco_model_file *file, pco_image_processor *processor, pco_error *err)
{
    static const char *const names[] = {"preprocessor_config.json", "processor_config.json"};
    for (int i = 0; i < 2; i++) {
        char *path;
        cJSON *root;
        const pco_status status = pco_json_load_if(file->path, names[i], &path, &root, err);
        const cJSON *part = i ? cJSON_GetObjectItemCaseSensitive(root, "image_processor") : root;
        pco_hub_reader reader = {.root = part, .label = path, .status = status, .err = err};
        if (!status && part && !cJSON_IsObject(part))
            reader.status = pco_fail(err, PCO_ERROR_FORMAT, "%s: %s", path,
                                     i ? "'image_processor' must be an object" : "not an object");
        if (!reader.status && part) processor_read(&reader, file, processor);
        cJSON_Delete(root);
        free(path);
        if (part || reader.status) return reader.status;
    }
    return pco_fail(err, PCO_ERROR_NOT_FOUND,
                    "%s has no %s, which says what happens to images before the model reads them", file->path,
                    names[0]);
}

static pco_status processor_resize(const pco_image_processor *p, const pco_image *image, pco_image *to, pco_error *err)
{
    const int64_t shorter = image->width < image->height ? image->width : image->height,
                  longer = image->width < image->height ? image->height : image->width;
    int64_t high = p->size[0], wide = p->size[1];
    if (p->shortest_edge) {
        const int64_t edge = p->shortest_edge,
                      other = (int64_t)((double)(edge * longer) / (double)shorter); /* as Python divides */
        high = image->width <= image->height ? other : edge;
        wide = image->width <= image->height ? edge : other;
    }
    if (high * wide > PCO_IMAGE_PIXELS || wide * image->height > PCO_IMAGE_PIXELS)
        return pco_fail(err, PCO_ERROR_INVALID,
                        "an image of %" PRId64 " x %" PRId64 " pixels would become one of %" PRId64 " x %" PRId64
                        ", which is too large; crop it first",
                        image->width, image->height, wide, high);
    *to = (pco_image){.width = wide, .height = high};
    return pco_image_resize(image, p->resample, to, err);
}

/* Where the middle of `made` pixels out of (or, with zeros around them, more than) `there` begins: half of the
 * difference, rounded down. */
static int64_t processor_middle(int64_t there, int64_t made)
{
    const int64_t spare = there - made;
    return spare / 2 - (spare < 0 && spare % 2);
}

pco_status pco_image_process(const pco_image_processor *p, const pco_image *image, const int64_t extent[2],
                             float *pixels, pco_error *err)
{
    pco_image resized = {.size = 0};
    if (image->width < 1 || image->height < 1 || image->width > PCO_IMAGE_SIDE || image->height > PCO_IMAGE_SIDE ||
        !image->rgb)
        return pco_fail(err, PCO_ERROR_INVALID, "an image of %" PRId64 " x %" PRId64 " pixels%s", image->width,
                        image->height, image->rgb ? "" : ", which it has not");
    if (p->resizes) {
        const pco_status status = processor_resize(p, image, &resized, err);
        if (status) return status;
        image = &resized;
    }
    const int64_t made[2] = {p->crops ? p->crop[0] : image->height, p->crops ? p->crop[1] : image->width};
    if (made[0] != extent[0] || made[1] != extent[1]) {
        free((void *)resized.rgb);
        return pco_fail(err, PCO_ERROR_INVALID,
                        "preprocessor_config.json makes images of %" PRId64 " x %" PRId64
                        " pixels, and the model reads %" PRId64 " x %" PRId64,
                        made[1], made[0], extent[1], extent[0]);
    }
    const int64_t offset[2] = {processor_middle(image->height, made[0]), processor_middle(image->width, made[1])};
    for (int c = 0; c < 3; c++)
        for (int64_t y = 0; y < made[0]; y++)
            for (int64_t x = 0; x < made[1]; x++) {
                const int64_t row = y + offset[0], column = x + offset[1];
                const int inside = row >= 0 && row < image->height && column >= 0 && column < image->width;
                float value = inside ? (float)image->rgb[(row * image->width + column) * 3 + c] : 0;
                if (p->rescales) value = (float)((double)value * p->factor);
                if (p->normalizes) value = (value - (float)p->mean[c]) / (float)p->deviation[c];
                *pixels++ = value;
            }
    free((void *)resized.rgb);
    return PCO_OK;
}
