/* Images: reading them, the vectors that a model makes of them, and which labels fit them. Encoders that read images
 * (ViT, CLIP) are opened as any model (portico/portico.h). What happens to an image before (its size, a crop, the range
 * of its numbers) is in preprocessor_config.json of the model's folder; results are those of Pillow and the image
 * processors of transformers that use it. */
#ifndef PORTICO_IMAGE_H
#define PORTICO_IMAGE_H

#include "portico/embed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* rgb[height][width][3], each 0 to 255, rows from the top. */
typedef struct pco_image {
    size_t size;
    int64_t width, height;
    const unsigned char *rgb;
} pco_image;

/* Reads a PNG, JPEG or PNM file into *image, whose `size` is set before; image->rgb is given back with pco_free. Grey
 * and CMYK become RGB, transparency is left out, and what EXIF says is lying is turned. Errors: IO; FORMAT; UNSUPPORTED
 * for other kinds of files, and for PNG or JPEG in a library built without; OUT_OF_HOST_MEMORY. Threads: any. */
PCO_EXPORT pco_status pco_image_read(const char *path, pco_image *image, pco_error *err) PCO_NODISCARD;

/* embeddings[count][width], f32, of images[count] (the first one's `size` is that of all), in batches; width is
 * pco_model_embedding_width. With PCO_POOLING_DEFAULT it is what the model makes of the image as a whole: CLIP's
 * projection, the pooler of a ViT that has one, else the class token. `params` may be NULL. Threads: as in portico.h.
 * Errors: UNSUPPORTED for a model that reads no images; INVALID for an image without pixels; NOT_FOUND, FORMAT and
 * UNSUPPORTED for preprocessor_config.json; CANCELLED; what the device returned. */
PCO_EXPORT pco_status pco_model_embed_images(pco_model *model, const pco_image *images, size_t count,
                                             const pco_embed_params *params, float *embeddings,
                                             pco_error *err) PCO_NODISCARD;

/* Floats of an embedding: of a text, or (images: 1) of an image; 0 where the model does not read such, and for NULL.
 * Threads: any. */
PCO_EXPORT int64_t pco_model_embedding_width(const pco_model *model, int images, pco_pooling pooling);

typedef struct pco_classify_params {
    size_t size;
    const char *const *labels; /* [label_count], texts, of a model that reads texts too; NULL: the model's own */
    size_t label_count;
    int logits; /* 1: scores are what softmax would be taken of */
    /* As in pco_embed_params, of images. */
    int (*progress)(void *user, size_t done, size_t count);
    void *progress_user;
} pco_classify_params;

/* scores[count][labels], f32, of images[count]: how likely each label is, softmax over the labels of, for a classifier,
 * its logits, and for CLIP exp(logit_scale) times the cosine of image and text (Radford et al. 2021, 2.3).
 * `params` may be NULL. Errors: UNSUPPORTED for a model without classifier, or for labels where it reads no texts;
 * INVALID for a label that is NULL or no text, and for a list of none; NOT_FOUND for a CLIP without logit_scale; as
 * above. Threads: as in portico.h. */
PCO_EXPORT pco_status pco_model_classify(pco_model *model, const pco_image *images, size_t count,
                                         const pco_classify_params *params, float *scores,
                                         pco_error *err) PCO_NODISCARD;

/* The labels of the model's own classifier ("id2label"): *count of them, 0 without a classifier; names[*count], as long
 * as the model is open. The same name may stand there twice. Threads: as in portico.h. Errors: IO, FORMAT,
 * OUT_OF_HOST_MEMORY. */
PCO_EXPORT pco_status pco_model_labels(pco_model *model, const char *const **names, size_t *count,
                                       pco_error *err) PCO_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
