/* test_seq2seq FOLDER [folder MODEL]: tiny encoder-decoders in Hugging Face's layout, on the device that
 * PORTICO_BACKEND picks, against transformers in float64 (tests/golden/make_seq2seq.py): |y - want| <= 1e-4 (|want| +
 * rms of the row); or what they, and a model that Portico trained, give once they are converted to folders: the same
 * bits. */
#define CHECK_FOLDER
#include "seq2seq_logits.h"

#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/convert.h"
#include "models/family.h"
#include "models/model.h"
#include "models/seq2seq.h"

static const char *seq2seq_folder, *seq2seq_model;

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

/* ---- converted ------------------------------------------------------------------------------------------- */

/* Logits of `count` tokens behind the source, [count, vocab], which the caller frees. */
static float *seq2seq_logits(const char *path, const int32_t *source, int64_t rows, const int32_t *target,
                             int64_t count, const char *family, int64_t *vocab)
{
    models_device device;
    pco_model_file *file;
    pco_seq2seq *run;
    check_ok(pco_model_file_open(path, &file, &err));
    if (family) assert_string_equal(file->family->name, family);
    *vocab = file->spec.vocab_size[PCO_DECODER];
    float *logits = malloc((size_t)(count * *vocab) * sizeof *logits);
    assert_non_null(logits);
    models_device_open(&device);
    check_ok(pco_seq2seq_create(device.session, file->weights, &file->spec, 32, PCO_F32, &run, &err));
    check_ok(pco_seq2seq_encode(run, source, rows, &err));
    check_ok(pco_seq2seq_score(run, target, count, logits, &err));
    pco_seq2seq_destroy(run);
    models_device_close(&device);
    pco_model_file_close(file);
    return logits;
}

/* In f32 the same bits; in f16 the folder is half as large and is read. */
static void seq2seq_fold(const char *path, const char *name, const char *family)
{
    static const int32_t types[] = {PCO_CONVERT_KEEP, PCO_F32, PCO_F16};
    static const int32_t source[] = {5, 9, 12, 7, 30, 2}, target[] = {1, 8, 8, 31, 20};
    int64_t vocab, again;
    float *want = seq2seq_logits(path, source, 6, target, 5, NULL, &vocab);
    uint64_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        const pco_convert_options options = {.type = types[i], .output_type = PCO_CONVERT_KEEP, .threads = 2};
        pco_convert_result result;
        char out[700];
        snprintf(out, sizeof out, "%s/%s-%d", check_folder, name, i);
        check_ok(pco_convert_to_folder(path, out, &options, &result, &err));
        float *logits = seq2seq_logits(out, source, 6, target, 5, family, &again);
        assert_int_equal(again, vocab);
        if (types[i] != PCO_F16) assert_memory_equal(logits, want, (size_t)(5 * vocab) * sizeof *want);
        if (types[i] == PCO_F16) assert_true(result.bytes_out < bytes * 6 / 10);
        bytes = result.bytes_out;
        free(logits);
    }
    free(want);
}

static void test_folders(void **state)
{
    static const char *const names[][2] = {
        {"bart", "bart"}, {"marian", "marian"},       {"t5", "t5"},
        {"t5_1.1", "t5"}, {"marian_table", "marian"}, {"encoder_decoder", "encoder-decoder"}};
    char path[512];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", seq2seq_folder, names[i][0]);
        seq2seq_fold(path, names[i][0], names[i][1]);
    }
    seq2seq_fold(seq2seq_model, "trained", "encoder-decoder");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_seq2seq)}, folders[] = {cmocka_unit_test(test_folders)};
    if (argc != 2 && (argc != 4 || strcmp(argv[2], "folder") != 0)) return 2;
    seq2seq_folder = argv[1];
    if (argc == 2) return cmocka_run_group_tests_name("seq2seq", tests, NULL, NULL);
    seq2seq_model = argv[3];
    return cmocka_run_group_tests_name("seq2seq_folder", folders, check_make_folder, check_remove_folder);
}
