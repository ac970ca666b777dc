/* test_images FOLDER: image files beside Pillow, and tiny models that read images in Hugging Face's layout (ViT and
 * CLIP), on the device that PORTICO_BACKEND picks, against transformers in float64 (tests/golden/make_images.py): |y -
 * want| <= 1e-4 (|want| + rms of the row). */
#include "models_test.h"

#include "formats/image.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/encoder.h"
#include "models/image_processor.h"

enum { IMAGES_TEXTS = 4 };
static const char *images_folder;

/* A model, open on the device, and what it should make of its images and texts. */
typedef struct images_case {
    const char *name;
    const pco_weights *goldens;
    models_device device;
    pco_model_file *file;
    pco_image_encoder *run;
    pco_encoder *texts;
    const float *pixels;
    int64_t count, each; /* images; floats of one */
} images_case;

static const pco_weight *images_stored(const images_case *c, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s/%s", c->name, what);
    return pco_weights_find(c->goldens, name);
}

static void images_open(const char *name, images_case *c)
{
    char path[512];
    c->name = name;
    const pco_weight *pixels = images_stored(c, "pixels");
    c->pixels = pixels->data;
    c->count = pixels->shape[0];
    c->each = (int64_t)(pixels->bytes / sizeof(float)) / c->count;
    snprintf(path, sizeof path, "%s/%s", images_folder, name);
    check_ok(pco_model_file_open(path, &c->file, &err));
    assert_non_null(c->file->images);
    assert_int_equal(pco_model_reads_texts(c->file), images_stored(c, "ids") != NULL);
    models_device_open(&c->device);
    check_ok(pco_image_encoder_create(c->device.session, c->file->weights, c->file->images, &c->run, &err));
    if (pco_model_reads_texts(c->file))
        check_ok(pco_encoder_create(c->device.session, c->file->weights, &c->file->spec,
                                    c->file->spec.max_position_embeddings, &c->texts, &err));
}

static void images_close(images_case *c)
{
    pco_image_encoder_destroy(c->run);
    pco_encoder_destroy(c->texts);
    models_device_close(&c->device);
    pco_model_file_close(c->file);
}

static pco_status images_source(void *user, int64_t index, float *pixels, pco_error *error)
{
    const images_case *c = user;
    (void)error;
    assert_true(index < c->count);
    memcpy(pixels, c->pixels + index * c->each, (size_t)c->each * sizeof *pixels);
    return PCO_OK;
}

/* The largest error of that output, of all images in one call and of the last one alone. */
static double images_run(images_case *c, pco_encoder_output output, const double *want)
{
    const int64_t width = pco_encoder_width(c->file->images, output),
                  rows = output == PCO_ENCODER_HIDDEN ? 1 + pco_patch_count(&c->file->images->patches) : 1,
                  total = c->count * rows * width, one = rows * width;
    float *got = malloc((size_t)total * sizeof *got);
    assert_non_null(got);
    check_ok(pco_image_encoder_run(c->run, output, images_source, c->count, got, NULL, c, &err));
    double error = models_error(got, want, total, width, MODELS_TOLERANCE);
    check_ok(pco_image_encoder_run(c->run, output, images_source, 1, got, NULL, c, &err));
    const double alone = models_error(got, want, one, width, MODELS_TOLERANCE);
    free(got);
    return alone > error || isnan(alone) ? alone : error;
}

/* What pooling makes of the hidden states, in float64. */
static double *images_pooled(const images_case *c, pco_encoder_output output)
{
    const pco_weight *hidden = images_stored(c, "hidden");
    const int64_t rows = hidden->shape[1], width = hidden->shape[2];
    double *pooled = calloc((size_t)(c->count * width), sizeof *pooled);
    assert_non_null(pooled);
    const int64_t first = output == PCO_ENCODER_LAST ? rows - 1 : 0, end = output == PCO_ENCODER_CLS ? 1 : rows;
    for (int64_t i = 0; i < c->count; i++)
        for (int64_t t = first; t < end; t++)
            for (int64_t k = 0; k < width; k++)
                pooled[i * width + k] +=
                    ((const double *)hidden->data)[(i * rows + t) * width + k] / (double)(end - first);
    return pooled;
}

static double images_text(images_case *c, pco_encoder_output output, const char *what)
{
    const pco_weight *want = images_stored(c, what);
    const int32_t *lengths = images_stored(c, "lengths")->data, *ids = images_stored(c, "ids")->data;
    const int64_t width = pco_encoder_width(&c->file->spec, output);
    pco_encoder_text texts[IMAGES_TEXTS];
    float got[4096];
    assert_int_equal(want->shape[1], width);
    assert_true(want->shape[0] * width <= 4096);
    for (int i = 0; i < IMAGES_TEXTS; ids += lengths[i++]) {
        texts[i] = (pco_encoder_text){.ids = ids, .count = lengths[i]};
        if (output != PCO_ENCODER_FEATURES) continue;
        texts[i].count = pco_encoder_text_end(&c->file->spec, ids, lengths[i]);
        assert_int_equal(texts[i].count, lengths[i] - 1); /* one token is behind the end of text */
    }
    check_ok(pco_encoder_run(c->texts, output, texts, IMAGES_TEXTS, got, NULL, NULL, &err));
    return models_error(got, want->data, want->shape[0] * width, width, MODELS_TOLERANCE);
}

static void images_check(images_case *c)
{
    const pco_weight *features = images_stored(c, "features"), *classes = images_stored(c, "classes");
    double pooling = 0, more = 0, texts = 0;
    const double hidden = images_run(c, PCO_ENCODER_HIDDEN, images_stored(c, "hidden")->data);
    for (int output = PCO_ENCODER_MEAN; output <= PCO_ENCODER_LAST; output++) {
        double *want = images_pooled(c, (pco_encoder_output)output);
        const double error = images_run(c, (pco_encoder_output)output, want);
        if (!(error <= pooling)) pooling = error;
        free(want);
    }
    if (features) more = images_run(c, PCO_ENCODER_FEATURES, features->data);
    if (classes) more = images_run(c, PCO_ENCODER_CLASSES, classes->data);
    assert_true(features || classes);
    if (c->texts) {
        const double states = images_text(c, PCO_ENCODER_HIDDEN, "text_hidden");
        texts = images_text(c, PCO_ENCODER_FEATURES, "text_features");
        if (!(states <= texts)) texts = states;
    }
    print_message("  %-10s error / bound %.4f hidden, %.4f pooled, %.4f %s, texts %.4f\n", c->name, hidden, pooling,
                  more, features ? "features" : "labels", texts);
    assert_true(hidden <= 1 && pooling <= 1 && more <= 1 && texts <= 1);
}

static void images_refuse(images_case *c)
{
    float row[1 << 12];
    check_fails(pco_image_encoder_run(c->run, PCO_ENCODER_LOGITS, images_source, 1, row, NULL, c, &err),
                PCO_ERROR_UNSUPPORTED, "no masked-language head");
    if (!c->file->images->classes.linear)
        check_fails(pco_image_encoder_run(c->run, PCO_ENCODER_CLASSES, images_source, 1, row, NULL, c, &err),
                    PCO_ERROR_UNSUPPORTED, "no classifier");
    if (!c->file->images->features.linear)
        check_fails(pco_image_encoder_run(c->run, PCO_ENCODER_FEATURES, images_source, 1, row, NULL, c, &err),
                    PCO_ERROR_UNSUPPORTED, "no projection or pooler");
}

static void test_images(void **state)
{
    char path[512];
    pco_weights *goldens;
    cJSON *cases;
    const cJSON *item;
    (void)state;
    snprintf(path, sizeof path, "%s/goldens.safetensors", images_folder);
    check_ok(pco_safetensors_open(path, &goldens, &err));
    const char *text = pco_weights_note_value(goldens, "cases");
    assert_non_null(text);
    check_ok(pco_json_parse(text, strlen(text), path, &cases, &err));
    cJSON_ArrayForEach(item, cases)
    {
        images_case c = {.goldens = goldens};
        images_open(cJSON_GetObjectItem(item, "name")->valuestring, &c);
        images_check(&c);
        images_refuse(&c);
        images_close(&c);
    }
    cJSON_Delete(cases);
    pco_weights_close(goldens);
}

/* Is that a format that a build may lack? */
static int images_needs_library(const char *name) { return strstr(name, ".png") || strstr(name, ".jpg"); }

/* An image in a file, beside what Pillow reads: the same bits, but for JPEG. There the inverse cosine transform and the
 * turn to RGB end in an integer each, and which of two neighbours a value between them becomes is each library's own;
 * these files have nothing that is off in both.
 * 1: it was read; 0: this build has no library for it. */
static int images_check_file(const char *name, const pco_weight *want)
{
    char path[512];
    pco_image image = {.size = sizeof image};
    snprintf(path, sizeof path, "%s/files/%s", images_folder, name);
    pco_error err;
    const pco_status status = pco_image_read(path, &image, &err);
    if (status == PCO_ERROR_UNSUPPORTED && images_needs_library(name)) { /* built without it */
        print_message("  %s: %s\n", name, err.message);
        return 0;
    }
    assert_int_equal(status, PCO_OK);
    assert_int_equal(image.height, want->shape[0]);
    assert_int_equal(image.width, want->shape[1]);
    const int most = strstr(name, ".jpg") ? 1 : 0;
    for (uint64_t i = 0; i < want->bytes; i++)
        if (abs((int)image.rgb[i] - ((const unsigned char *)want->data)[i]) > most)
            fail_msg("%s: byte %d is %d, not %d", name, (int)i, image.rgb[i], ((const unsigned char *)want->data)[i]);
    free((void *)image.rgb);
    return 1;
}

/* "MODEL/processed/FILE": what the model's processor makes of an image of "files/FILE": the same bits. */
static void images_check_processed(const pco_weights *stored, const pco_weight *want)
{
    char path[512], name[128];
    const char *slash = strchr(want->name, '/');
    pco_model_file *file;
    pco_image_processor processor;
    snprintf(path, sizeof path, "%s/%.*s", images_folder, (int)(slash - want->name), want->name);
    check_ok(pco_model_file_open(path, &file, &err));
    check_ok(pco_image_processor_read(file, &processor, &err));
    snprintf(name, sizeof name, "files/%s", strrchr(want->name, '/') + 1);
    const pco_weight *rgb = pco_weights_find(stored, name);
    assert_non_null(rgb);
    const pco_image image = {sizeof image, rgb->shape[1], rgb->shape[0], rgb->data};
    float *got = malloc(want->bytes);
    assert_non_null(got);
    check_ok(pco_image_process(&processor, &image, file->images->patches.image, got, &err));
    for (uint64_t i = 0; i < want->bytes / sizeof *got; i++)
        if (memcmp(&got[i], &((const float *)want->data)[i], sizeof *got) != 0)
            fail_msg("%s: element %d is %.9g, not %.9g", want->name, (int)i, (double)got[i],
                     (double)((const float *)want->data)[i]);
    check_fails(pco_image_process(&processor, &image, (const int64_t[2]){3, 5}, got, &err), PCO_ERROR_INVALID,
                "and the model reads 5 x 3");
    free(got);
    pco_model_file_close(file);
}

static void test_files(void **state)
{
    char path[512];
    pco_weights *stored;
    int files = 0, read = 0, processed = 0;
    (void)state;
    snprintf(path, sizeof path, "%s/files.safetensors", images_folder);
    check_ok(pco_safetensors_open(path, &stored, &err));
    for (uint32_t i = 0; i < stored->count; i++) {
        const pco_weight *item = &stored->items[i];
        if (strncmp(item->name, "files/", 6) == 0)
            read += images_check_file(item->name + 6, item), files++;
        else
            images_check_processed(stored, item), processed++;
    }
    print_message("  %d of %d files read, %d processed images\n", read, files, processed);
    assert_true(files == 20 && processed == 52);
    pco_weights_close(stored);
}

static double images_rows(const float *got, const pco_weight *want)
{
    return models_error(got, want->data, want->shape[0] * want->shape[1], want->shape[1], MODELS_TOLERANCE);
}

/* The whole way, through the library's interface: files in, scores of labels and vectors out. */
static void images_check_api(const pco_weights *goldens, pco_context *context, const char *name,
                             const pco_image *images, size_t count)
{
    static const char *const labels[] = {"a dog", "A Ham", "a leaf  on a log"};
    const images_case c = {.name = name, .goldens = goldens};
    const pco_weight *scores = images_stored(&c, "file_scores"), *features = images_stored(&c, "file_features"),
                     *texts = images_stored(&c, "label_features");
    const char *const *names;
    char path[512];
    pco_model *model;
    float got[512];
    double worst = 0;
    size_t own;
    snprintf(path, sizeof path, "%s/%s", images_folder, name);
    check_ok(pco_model_open(context, path, NULL, &model, &err));
    check_ok(pco_model_labels(model, &names, &own, &err));
    assert_int_equal(own, scores && !texts ? 3 : 0);
    if (own) assert_string_equal(names[2], "a \"quoted\" bird");
    const pco_classify_params choose = {
        .size = sizeof choose, .labels = texts ? labels : NULL, .label_count = texts ? 3 : 0};
    if (scores) {
        check_ok(pco_model_classify(model, images, count, &choose, got, &err));
        worst = fmax(worst, images_rows(got, scores));
    } else {
        check_fails(pco_model_classify(model, images, count, NULL, got, &err), PCO_ERROR_UNSUPPORTED, "no classifier");
    }
    if (features) {
        const int64_t width = pco_model_embedding_width(model, 1, PCO_POOLING_DEFAULT);
        assert_int_equal(width, features->shape[1]);
        check_ok(pco_model_embed_images(model, images, count, NULL, got, &err));
        worst = fmax(worst, images_rows(got, features));
    }
    if (texts) {
        check_ok(pco_model_embed(model, labels, 3, NULL, got, NULL, &err));
        worst = fmax(worst, images_rows(got, texts));
    } else {
        check_fails(pco_model_embed(model, labels, 3, NULL, got, NULL, &err), PCO_ERROR_UNSUPPORTED, "reads images");
    }
    print_message("  %s, from files: %.4f of the bound\n", name, worst);
    assert_true(worst <= 1);
    pco_model_close(model);
}

static void test_api(void **state)
{
    static const char *const models[] = {"vit", "vit_pooled", "clip", "clip_gelu"};
    enum { FILES = 13 };
    char path[512];
    pco_image images[FILES];
    pco_weights *goldens, *stored;
    pco_context *context;
    size_t count = 0;
    (void)state;
    snprintf(path, sizeof path, "%s/files.safetensors", images_folder);
    check_ok(pco_safetensors_open(path, &stored, &err));
    for (uint32_t i = 0; i < stored->count; i++) {
        const pco_weight *item = &stored->items[i];
        if (strncmp(item->name, "files/", 6) != 0 || strncmp(item->name, "files/way", 9) == 0) continue;
        assert_true(count < FILES);
        images[count++] = (pco_image){sizeof *images, item->shape[1], item->shape[0], item->data};
    }
    snprintf(path, sizeof path, "%s/goldens.safetensors", images_folder);
    check_ok(pco_safetensors_open(path, &goldens, &err));
    check_ok(pco_context_create(NULL, &context, &err));
    for (int i = 0; i < 4; i++) images_check_api(goldens, context, models[i], images, count);
    pco_context_destroy(context);
    pco_weights_close(goldens);
    pco_weights_close(stored);
}

/* The folder `to` of one tower of `from`: its weights and tokenizer, and its part of the configuration. */
static void images_part(const char *from, const char *to, const char *part, const char *type)
{
    static const char *const files[] = {"model.safetensors", "tokenizer.json", "preprocessor_config.json"};
    char path[512], other[512];
    cJSON *root;
    snprintf(path, sizeof path, "%s/config.json", from);
    check_ok(pco_json_load(path, &root, &err));
    cJSON *config = cJSON_GetObjectItem(root, part);
    cJSON_DeleteItemFromObject(config, "model_type");
    cJSON_DeleteItemFromObject(config, "projection_dim");
    cJSON_AddStringToObject(config, "model_type", type);
    cJSON_AddNumberToObject(config, "projection_dim", cJSON_GetObjectItem(root, "projection_dim")->valuedouble);
    char *text = cJSON_PrintUnformatted(config);
    snprintf(path, sizeof path, "%s/config.json", to);
    check_ok(pco_file_write(path, text, strlen(text), &err));
    free(text);
    cJSON_Delete(root);
    for (int i = 0; i < 3; i++) {
        snprintf(other, sizeof other, "%s/%s", from, files[i]);
        snprintf(path, sizeof path, "%s/%s", to, files[i]);
        unlink(path);
        char *whole = realpath(other, NULL);
        assert_non_null(whole);
        assert_int_equal(symlink(whole, path), 0);
        free(whole);
    }
}

/* Each tower of CLIP alone makes of texts and images what it makes within the whole: the same bits. */
static void test_towers(void **state)
{
    static const char *const texts[] = {"a dog", "A Ham"};
    char folder[] = "/tmp/portico-towers-XXXXXX", whole[512], path[512];
    float want[2][2][64], got[2][64];
    pco_context *context;
    pco_model *model;
    pco_image image = {.size = sizeof image};
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/files/rgb.ppm", images_folder);
    check_ok(pco_image_read(path, &image, &err));
    snprintf(whole, sizeof whole, "%s/clip", images_folder);
    check_ok(pco_context_create(NULL, &context, &err));
    check_ok(pco_model_open(context, whole, NULL, &model, &err));
    const size_t row = (size_t)pco_model_embedding_width(model, 0, PCO_POOLING_DEFAULT) * sizeof(float);
    check_ok(pco_model_embed(model, texts, 2, NULL, want[0][0], NULL, &err));
    check_ok(pco_model_embed_images(model, &image, 1, NULL, want[1][0], &err));
    pco_model_close(model);
    images_part(whole, folder, "text_config", "clip_text_model");
    check_ok(pco_model_open(context, folder, NULL, &model, &err));
    check_ok(pco_model_embed(model, texts, 2, NULL, got[0], NULL, &err));
    assert_memory_equal(got[0], want[0][0], 2 * row);
    check_fails(pco_model_embed_images(model, &image, 1, NULL, got[0], &err), PCO_ERROR_UNSUPPORTED, "reads no images");
    pco_model_close(model);
    images_part(whole, folder, "vision_config", "clip_vision_model");
    check_ok(pco_model_open(context, folder, NULL, &model, &err));
    check_ok(pco_model_embed_images(model, &image, 1, NULL, got[0], &err));
    assert_memory_equal(got[0], want[1][0], row);
    check_fails(pco_model_embed(model, texts, 1, NULL, got[0], NULL, &err), PCO_ERROR_UNSUPPORTED, "and no text");
    pco_model_close(model);
    pco_context_destroy(context);
    pco_free((void *)image.rgb);
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json",
                                        "preprocessor_config.json"};
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* A class by any of its names, and the family's where the file names none; one number for "size" is the shorter side of
 * CLIP's. */
static void test_processors(void **state)
{
    static const struct {
        const char *model, *text, *message;
        int64_t sides[2], shortest_edge;
        int crops;
    } cases[] = {
        {"vit", "{}", NULL, {224, 224}, 0, 0},
        {"vit", "{\"size\": 9}", NULL, {9, 9}, 0, 0},
        {"clip", "{}", NULL, {0, 0}, 224, 1},
        {"clip", "{\"size\": 9}", NULL, {0, 0}, 9, 1},
        {"clip", "{\"size\": 9, \"default_to_square\": true}", NULL, {9, 9}, 0, 1},
        {"vit", "{\"image_processor_type\": \"CLIPImageProcessorFast\"}", NULL, {0, 0}, 224, 1},
        {"vit", "{\"feature_extractor_type\": \"CLIPFeatureExtractor\"}", NULL, {0, 0}, 224, 1},
        {"clip", "{\"feature_extractor_type\": \"ViTFeatureExtractor\"}", NULL, {224, 224}, 0, 0},
        {"clip", "{\"image_processor_type\": \"ViTImageProcessorPil\"}", NULL, {224, 224}, 0, 0},
        {"clip",
         "{\"image_processor_type\": \"CLIPProcessor\"}",
         "'CLIPProcessor' is an image processor that Portico does not have; it has those of ViT and CLIP",
         {0, 0},
         0,
         0},
    };
    char folder[] = "/tmp/portico-processors-XXXXXX", path[512];
    (void)state;
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pco_model_file *file;
        pco_image_processor processor = {.factor = 0};
        snprintf(path, sizeof path, "%s/%s", images_folder, cases[i].model);
        check_ok(pco_model_file_open(path, &file, &err));
        free(file->path);
        assert_non_null(file->path = strdup(folder));
        snprintf(path, sizeof path, "%s/preprocessor_config.json", folder);
        check_ok(pco_file_write(path, cases[i].text, strlen(cases[i].text), &err));
        if (cases[i].message) {
            check_fails(pco_image_processor_read(file, &processor, &err), PCO_ERROR_UNSUPPORTED, cases[i].message);
        } else {
            check_ok(pco_image_processor_read(file, &processor, &err));
            assert_memory_equal(processor.size, cases[i].sides, sizeof processor.size);
            assert_int_equal(processor.shortest_edge, cases[i].shortest_edge);
            assert_int_equal(processor.crops, cases[i].crops);
        }
        pco_model_file_close(file);
    }
    unlink(path);
    rmdir(folder);
}

/* Files that are cut short, that say more than they have, and that are of other kinds. */
static void test_bad_files(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
        pco_status status;
        const char *message;
    } cases[] = {
        {"", 0, PCO_ERROR_FORMAT, "no image that Portico knows"},
        {"P6 2 2 255\n12345678901", 22, PCO_ERROR_FORMAT, "ends before its samples do"},
        {"P6 65535 65535 255\n1", 20, PCO_ERROR_FORMAT, "ends before its samples do"},
        {"P4 65535 65535\n1", 16, PCO_ERROR_FORMAT, "ends before its samples do"},
        {"P3 1 1 9 1 2 10", 15, PCO_ERROR_FORMAT, "a sample is missing or too large"},
        {"P3 1 1 0 1 2 10", 15, PCO_ERROR_FORMAT, "no width, height or largest sample"},
        {"P5 1 x", 6, PCO_ERROR_FORMAT, "no width, height or largest sample"},
        {"P5 1 1 255", 10, PCO_ERROR_FORMAT, "nothing between"},
        {"GIF89a..", 8, PCO_ERROR_UNSUPPORTED, "is a GIF file"},
    };
    pco_image image;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_fails(pco_image_decode(cases[i].bytes, cases[i].size, "x", &image, &err), cases[i].status,
                    cases[i].message);
        assert_null(image.rgb);
    }
    static const char *const names[] = {"rgb.png", "rgb.jpg", "progressive.jpg", "palette.png"};
    for (int i = 0; i < 4; i++) {
        char path[512];
        pco_map map;
        snprintf(path, sizeof path, "%s/files/%s", images_folder, names[i]);
        check_ok(pco_map_open(path, &map, &err));
        pco_status cut_short = pco_image_decode(map.data, map.size, "x", &image, NULL);
        if (cut_short != PCO_ERROR_UNSUPPORTED) { /* the build has its library */
            assert_int_equal(cut_short, PCO_OK);
            free((void *)image.rgb);
            cut_short = PCO_ERROR_FORMAT;
        }
        for (size_t size = 0; size < map.size * 3 / 4; size += 1 + map.size / 50)
            assert_int_equal(pco_image_decode(map.data, size, "x", &image, NULL), cut_short);
        pco_map_close(&map);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files),  cmocka_unit_test(test_bad_files),
                                       cmocka_unit_test(test_api),    cmocka_unit_test(test_images),
                                       cmocka_unit_test(test_towers), cmocka_unit_test(test_processors)};
    if (argc != 2) return 2;
    images_folder = argv[1];
    return cmocka_run_group_tests_name("images", tests, NULL, NULL);
}
