/* test_seq2seq FOLDER: tiny encoder-decoders in Hugging Face's layout, on the device that PORTICO_BACKEND picks,
 * against transformers in float64 (tests/golden/make_seq2seq.py): |y - want| <= 1e-4 (|want| + rms of the row). */
#include "seq2seq_logits.h"

#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/model.h"
#include "models/seq2seq.h"

static const char *seq2seq_folder;

static void seq2seq_check(const pco_weights *goldens, const char *name)
{
    const pco_weight *source = seq2seq_stored(goldens, name, "source"),
                     *target = seq2seq_stored(goldens, name, "target"), *want = seq2seq_stored(goldens, name, "logits");
    char path[512];
    models_device device;
    pco_model_file *file;
    pco_seq2seq *run;
    snprintf(path, sizeof path, "%s/%s", seq2seq_folder, name);
    check_ok(pco_model_file_open(path, &file, &err));
    models_device_open(&device);
    check_ok(pco_seq2seq_create(device.session, file->weights, &file->spec, 32, PCO_F32, &run, &err));
    assert_int_equal(((const int32_t *)target->data)[0], file->spec.decoder_start_token_id);
    check_ok(pco_seq2seq_encode(run, source->data, source->shape[0], &err));
    seq2seq_logits_check(run, name, target, want);
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
