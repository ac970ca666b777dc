/* test_encoders FOLDER: tiny encoders in Hugging Face's layout, on the device that PORTICO_BACKEND picks, against
 * transformers in float64 (tests/golden/make_encoders.py): |y - want| <= 1e-4 (|want| + rms of the row). */
#include "models_test.h"

#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/encoder.h"
#include "models/model.h"
#include "models/sentence.h"

enum { ENCODERS_TEXTS = 4 };
static const char *encoders_folder;

/* A model, open on the device, its texts, and what it should make of them. */
typedef struct encoders_case {
    const char *name;
    models_device device;
    pco_model_file *file;
    pco_encoder *run;
    pco_encoder_text texts[ENCODERS_TEXTS];
    int64_t tokens, width;
    const double *hidden, *logits;
} encoders_case;

static const pco_weight *encoders_stored(const pco_weights *goldens, const char *model, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s/%s", model, what);
    return pco_weights_find(goldens, name);
}

static void encoders_open(const pco_weights *goldens, const char *name, encoders_case *c)
{
    char path[512];
    const pco_weight *hidden = encoders_stored(goldens, name, "hidden"),
                     *logits = encoders_stored(goldens, name, "logits");
    const int32_t *lengths = encoders_stored(goldens, name, "lengths")->data;
    const int32_t *ids = encoders_stored(goldens, name, "ids")->data,
                  *types = encoders_stored(goldens, name, "types")->data;
    c->name = name;
    c->hidden = hidden->data;
    c->width = hidden->shape[1];
    c->logits = logits ? logits->data : NULL;
    for (int i = 0; i < ENCODERS_TEXTS; i++) {
        c->texts[i] = (pco_encoder_text){ids + c->tokens, types + c->tokens, lengths[i]};
        c->tokens += lengths[i];
    }
    snprintf(path, sizeof path, "%s/%s", encoders_folder, name);
    check_ok(pco_model_file_open(path, &c->file, &err));
    assert_true(c->file->spec.encoder_only);
    assert_int_equal(c->file->spec.masked_head.dense != NULL, c->logits != NULL);
    models_device_open(&c->device);
    check_ok(pco_encoder_create(c->device.session, c->file->weights, &c->file->spec,
                                c->file->spec.max_position_embeddings, &c->run, &err));
}

static void encoders_close(encoders_case *c)
{
    pco_encoder_destroy(c->run);
    models_device_close(&c->device);
    pco_model_file_close(c->file);
}

/* All texts in one call, or each in a call of its own. */
static double encoders_run(encoders_case *c, pco_encoder_output output, const double *want, int64_t width, int apart)
{
    const int rows = output == PCO_ENCODER_HIDDEN || output == PCO_ENCODER_LOGITS;
    const int64_t total = rows ? c->tokens : ENCODERS_TEXTS;
    float *got = malloc((size_t)(total * width) * sizeof *got);
    assert_non_null(got);
    if (!apart) check_ok(pco_encoder_run(c->run, output, c->texts, ENCODERS_TEXTS, got, NULL, NULL, &err));
    for (int64_t i = 0, at = 0; apart && i < ENCODERS_TEXTS; i++) {
        check_ok(pco_encoder_run(c->run, output, &c->texts[i], 1, got + at * width, NULL, NULL, &err));
        at += rows ? c->texts[i].count : 1;
    }
    const double error = models_error(got, want, total * width, width, MODELS_TOLERANCE);
    free(got);
    return error;
}

/* What pooling makes of the hidden states, in float64. */
static double *encoders_pooled(const encoders_case *c, pco_encoder_output output)
{
    double *pooled = calloc((size_t)(ENCODERS_TEXTS * c->width), sizeof *pooled);
    const double *row = c->hidden;
    assert_non_null(pooled);
    for (int i = 0; i < ENCODERS_TEXTS; i++) {
        const int64_t count = c->texts[i].count, width = c->width;
        const int64_t first = output == PCO_ENCODER_LAST ? count - 1 : 0, end = output == PCO_ENCODER_CLS ? 1 : count;
        for (int64_t t = first; t < end; t++)
            for (int64_t k = 0; k < width; k++) pooled[i * width + k] += row[t * width + k] / (double)(end - first);
        row += count * width;
    }
    return pooled;
}

static void encoders_check(encoders_case *c)
{
    const double together = encoders_run(c, PCO_ENCODER_HIDDEN, c->hidden, c->width, 0),
                 apart = encoders_run(c, PCO_ENCODER_HIDDEN, c->hidden, c->width, 1);
    double pooling = 0, logits = 0;
    for (int output = PCO_ENCODER_MEAN; output <= PCO_ENCODER_LAST; output++) {
        double *want = encoders_pooled(c, (pco_encoder_output)output);
        const double error = encoders_run(c, (pco_encoder_output)output, want, c->width, 0);
        if (!(error <= pooling)) pooling = error;
        free(want);
    }
    if (c->logits) logits = encoders_run(c, PCO_ENCODER_LOGITS, c->logits, c->file->spec.vocab_size[PCO_ENCODER], 0);
    print_message("  %-15s error / bound %.4f as a batch, %.4f apart, %.4f pooled, logits %.4f\n", c->name, together,
                  apart, pooling, logits);
    assert_true(together <= 1 && apart <= 1 && pooling <= 1 && logits <= 1);
}

static void encoders_refuse(encoders_case *c)
{
    const int32_t ids[2] = {0, (int32_t)c->file->spec.vocab_size[PCO_ENCODER]}, types[2] = {0, 99};
    pco_encoder_text text = {.ids = ids};
    float row[64];
    check_fails(pco_encoder_run(c->run, PCO_ENCODER_CLS, &text, 1, row, NULL, NULL, &err), PCO_ERROR_INVALID,
                "text 0 has no tokens");
    text.count = 2;
    check_fails(pco_encoder_run(c->run, PCO_ENCODER_CLS, &text, 1, row, NULL, NULL, &err), PCO_ERROR_INVALID,
                "outside a vocabulary");
    text = (pco_encoder_text){(const int32_t[2]){0, 1}, types, 2};
    check_fails(pco_encoder_run(c->run, PCO_ENCODER_CLS, &text, 1, row, NULL, NULL, &err), PCO_ERROR_INVALID,
                "has type 99");
    text = (pco_encoder_text){c->texts[1].ids, NULL, 1 << 20};
    check_fails(pco_encoder_run(c->run, PCO_ENCODER_CLS, &text, 1, row, NULL, NULL, &err), PCO_ERROR_INVALID,
                "do not fit into a context of");
    if (!c->logits)
        check_fails(pco_encoder_run(c->run, PCO_ENCODER_LOGITS, c->texts, 1, row, NULL, NULL, &err),
                    PCO_ERROR_UNSUPPORTED, "no masked-language head");
}

static void test_encoders(void **state)
{
    char path[512];
    pco_weights *goldens;
    cJSON *cases;
    const cJSON *item;
    (void)state;
    snprintf(path, sizeof path, "%s/goldens.safetensors", encoders_folder);
    check_ok(pco_safetensors_open(path, &goldens, &err));
    const char *text = pco_weights_note_value(goldens, "cases");
    assert_non_null(text);
    check_ok(pco_json_parse(text, strlen(text), path, &cases, &err));
    cJSON_ArrayForEach(item, cases)
    {
        encoders_case c = {0};
        encoders_open(goldens, cJSON_GetObjectItem(item, "name")->valuestring, &c);
        encoders_check(&c);
        encoders_refuse(&c);
        encoders_close(&c);
    }
    cJSON_Delete(cases);
    pco_weights_close(goldens);
}

/* What sentence-transformers keep in a folder. */
static void test_sentence(void **state)
{
    char path[512];
    pco_sentence sentence;
    (void)state;
    snprintf(path, sizeof path, "%s/bert_relu", encoders_folder);
    check_ok(pco_sentence_read(path, &sentence, &err));
    assert_int_equal(sentence.pooling, PCO_ENCODER_CLS);
    assert_int_equal(sentence.max_tokens, 32);
    assert_true(sentence.normalize);
    snprintf(path, sizeof path, "%s/bert", encoders_folder);
    check_ok(pco_sentence_read(path, &sentence, &err));
    assert_int_equal(sentence.pooling, PCO_ENCODER_MEAN);
    assert_false(sentence.normalize);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_encoders), cmocka_unit_test(test_sentence)};
    if (argc != 2) return 2;
    encoders_folder = argv[1];
    return cmocka_run_group_tests_name("encoders", tests, NULL, NULL);
}
