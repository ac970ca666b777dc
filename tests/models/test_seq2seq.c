/* test_seq2seq FOLDER: tiny encoder-decoders in Hugging Face's layout, on the device that PORTICO_BACKEND picks,
 * against transformers in float64 (tests/golden/make_seq2seq.py): |y - want| <= 1e-4 (|want| + rms of the row). */
#include "models_test.h"

#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/model.h"
#include "models/seq2seq.h"

static const char *seq2seq_folder;

static const pco_weight *seq2seq_stored(const pco_weights *goldens, const char *model, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s/%s", model, what);
    const pco_weight *weight = pco_weights_find(goldens, name);
    assert_non_null(weight);
    return weight;
}

/* The whole target at once, and token by token with the cache between them. */
static void seq2seq_check(const pco_weights *goldens, const char *name)
{
    const pco_weight *source = seq2seq_stored(goldens, name, "source"),
                     *target = seq2seq_stored(goldens, name, "target"), *want = seq2seq_stored(goldens, name, "logits");
    const int64_t count = want->shape[0], vocab = want->shape[1];
    const int32_t *ids = target->data;
    char path[512];
    models_device device;
    pco_model_file *file;
    pco_seq2seq *run;
    double steps = 0;
    float *logits = malloc((size_t)(count * vocab) * sizeof *logits);
    assert_non_null(logits);
    snprintf(path, sizeof path, "%s/%s", seq2seq_folder, name);
    check_ok(pco_model_file_open(path, &file, &err));
    models_device_open(&device);
    check_ok(pco_seq2seq_create(device.session, file->weights, &file->spec, 32, PCO_F32, &run, &err));
    assert_int_equal(ids[0], file->spec.decoder_start_token_id);
    check_ok(pco_seq2seq_encode(run, source->data, source->shape[0], &err));
    check_ok(pco_seq2seq_score(run, ids, count, logits, &err));
    const double whole = models_error(logits, want->data, count * vocab, vocab, 1e-4);
    for (int64_t i = 0; i < count; i++) {
        check_ok(pco_seq2seq_step(run, ids[i], logits, &err));
        const double error = models_error(logits, (const double *)want->data + i * vocab, vocab, vocab, 1e-4);
        if (!(error <= steps)) steps = error;
    }
    print_message("  %-8s error / bound %.4f at once, %.4f step by step\n", name, whole, steps);
    assert_true(whole <= 1 && steps <= 1);
    free(logits);
    pco_seq2seq_destroy(run);
    models_device_close(&device);
    pco_model_file_close(file);
}

static void test_seq2seq(void **state)
{
    char path[512];
    pco_weights *goldens;
    cJSON *cases;
    const cJSON *item;
    (void)state;
    snprintf(path, sizeof path, "%s/goldens.safetensors", seq2seq_folder);
    check_ok(pco_safetensors_open(path, &goldens, &err));
    const char *text = pco_weights_note_value(goldens, "cases");
    assert_non_null(text);
    check_ok(pco_json_parse(text, strlen(text), path, &cases, &err));
    cJSON_ArrayForEach(item, cases) seq2seq_check(goldens, cJSON_GetObjectItem(item, "name")->valuestring);
    cJSON_Delete(cases);
    pco_weights_close(goldens);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_seq2seq)};
    if (argc != 2) return 2;
    seq2seq_folder = argv[1];
    return cmocka_run_group_tests_name("seq2seq", tests, NULL, NULL);
}
