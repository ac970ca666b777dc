/* What happens to an image before a model reads it: preprocessor_config.json, as the image processors of transformers
 * that use Pillow follow it. */
#ifndef PCO_MODELS_IMAGE_PROCESSOR_H
#define PCO_MODELS_IMAGE_PROCESSOR_H

#include "models/model.h"
#include "portico/image.h"

/* As Pillow numbers its filters. */
typedef enum pco_resample {
    PCO_RESAMPLE_NEAREST = 0,
    PCO_RESAMPLE_LANCZOS = 1,
    PCO_RESAMPLE_BILINEAR = 2,
    PCO_RESAMPLE_BICUBIC = 3,
    PCO_RESAMPLE_BOX = 4,
    PCO_RESAMPLE_HAMMING = 5
} pco_resample;

/* Heights come before widths. */
typedef struct pco_image_processor {
    int resizes, crops, rescales, normalizes;
    int64_t size[2]; /* or: */
    int64_t shortest_edge;
    pco_resample resample;
    int64_t crop[2];
    double factor;
    double mean[3], deviation[3];
} pco_image_processor;

/* A class of transformers: what files of it leave out. */
typedef struct pco_image_processor_class {
    const char *name; /* what stands before "ImageProcessor" and its like */
    pco_image_processor usual;
} pco_image_processor_class;

/* That of ViT (family_vit.c), which other rows have, too. */
extern const pco_image_processor_class pco_image_processor_vit;

/* Reads preprocessor_config.json, or "image_processor" of processor_config.json, of the model's folder. Errors:
 * NOT_FOUND when there is none; FORMAT; UNSUPPORTED, naming the key, for what would change the pixels in another way.
 */
pco_status pco_image_processor_read(const pco_model_file *file, pco_image_processor *processor,
                                    pco_error *err) PCO_NODISCARD;

/* pixels f32 [3][extent[0]][extent[1]] of an image. Errors: INVALID for an image without pixels, and where what comes
 * out is not of that extent; OUT_OF_HOST_MEMORY. */
pco_status pco_image_process(const pco_image_processor *processor, const pco_image *image, const int64_t extent[2],
                             float *pixels, pco_error *err) PCO_NODISCARD;

/* The image at another size, into to->rgb (malloc'ed): to->width and to->height say which (image_resize.c). */
pco_status pco_image_resize(const pco_image *image, pco_resample resample, pco_image *to, pco_error *err) PCO_NODISCARD;

#endif
