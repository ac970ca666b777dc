/* test_families FOLDER [folder]: tiny models of families that are read from GGUF, on the device that PORTICO_BACKEND
 * picks, against transformers in float64 (tests/golden/make_families.py): |y - want| <= 1e-4 (|want| + rms of the row).
 * Or once they are converted to folders of Hugging Face. */
#define CHECK_FOLDER
#include "models_test.h"

#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/causal.h"
#include "models/convert.h"
#include "models/model.h"
#include "train/graph.h"

#include <glob.h>
#include <portico/portico.h>

/* A model, open on the device, and what it should answer. */
typedef struct families_case {
    const char *name;
    char path[512];
    models_device device;
    pco_model_file *file;
    pco_causal *run;
    const int32_t *ids;
    const double *logits;
    int64_t count, vocab;
} families_case;

static const char *families_folder;
static int families_convert;

/* The file as a folder, in place of it. */
static void families_to_folder(families_case *c)
{
    char folder[600];
    const pco_convert_options options = {.type = PCO_CONVERT_KEEP, .output_type = PCO_CONVERT_KEEP, .threads = 2};
    pco_convert_result result;
    snprintf(folder, sizeof folder, "%s/%s", check_folder, c->name);
    check_ok(pco_convert_to_folder(c->path, folder, &options, &result, &err));
    snprintf(c->path, sizeof c->path, "%.500s", folder);
}

static void families_open(const pco_weights *goldens, const char *name, families_case *c)
{
    const pco_weight *ids = pco_weights_find(goldens, "ids"), *logits = pco_weights_find(goldens, "logits");
    assert_true(ids && logits);
    c->name = name;
    c->ids = ids->data;
    c->logits = logits->data;
    c->count = logits->shape[0];
    c->vocab = logits->shape[1];
    snprintf(c->path, sizeof c->path, "%s/%s.gguf", families_folder, name);
    if (families_convert) families_to_folder(c);
    check_ok(pco_model_file_open(c->path, &c->file, &err));
    if (families_convert) assert_true(c->file->family->hub && !c->file->gguf);
    if (!families_convert || strcmp(name, "llama-mixtral") != 0)
        assert_int_equal(strncmp(name, c->file->family->name, strlen(c->file->family->name)), 0);
    assert_int_equal(c->file->spec.vocab_size[PCO_DECODER], c->vocab);
    models_device_open(&c->device);
    check_ok(pco_causal_create(c->device.session, c->file->weights, &c->file->spec,
                               &(pco_causal_room){.context = c->file->spec.max_position_embeddings, .lanes = 1},
                               &c->run, &err));
}

static void families_close(families_case *c)
{
    pco_causal_destroy(c->run);
    models_device_close(&c->device);
    pco_model_file_close(c->file);
}

/* The whole text at once, then in chunks of 16 and of 1 with the cache between them: the same logits. */
static void families_logits(families_case *c)
{
    float *logits = malloc((size_t)(c->count * c->vocab) * sizeof *logits);
    assert_non_null(logits);
    check_ok(pco_causal_score(c->run, c->ids, c->count, logits, &err));
    const double whole = models_error(logits, c->logits, c->count * c->vocab, c->vocab, MODELS_TOLERANCE);
    double steps = 0;
    pco_causal_reset(c->run);
    for (int64_t at = 0; at < c->count;) {
        const int64_t rows = at ? 1 : 16;
        check_ok(pco_causal_append(c->run, c->ids + at, rows, logits, &err));
        at += rows;
        const double error =
            models_error(logits, c->logits + (at - 1) * c->vocab, c->vocab, c->vocab, MODELS_TOLERANCE);
        if (!(error <= steps)) steps = error;
    }
    free(logits);
    print_message("  %-10s error / bound %.4f at once, %.4f step by step\n", c->name, whole, steps);
    assert_true(whole <= 1 && steps <= 1);
}

/* Texts to tokens and back. */
static void families_texts(const families_case *c, const cJSON *texts)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, texts)
    {
        const char *text = cJSON_GetObjectItem(item, "text")->valuestring;
        const cJSON *want = cJSON_GetObjectItem(item, "ids");
        int32_t *ids;
        char *back;
        size_t count, bytes;
        check_ok(pco_tokenizer_encode(c->file->target, text, strlen(text), PCO_ENCODE_SPECIAL, &ids, &count, &err));
        assert_int_equal(count, cJSON_GetArraySize(want));
        for (size_t i = 0; i < count; i++) assert_int_equal(ids[i], cJSON_GetArrayItem(want, (int)i)->valueint);
        check_ok(pco_tokenizer_decode(c->file->target, ids, count, &back, &bytes, &err));
        free(ids);
        free(back);
    }
}

/* A model with a table of positions has no others. */
static void families_context(const families_case *c)
{
    const int64_t most = c->file->spec.max_position_embeddings;
    int64_t context;
    check_ok(pco_model_context(c->file, most, &context, &err));
    if (c->file->spec.position_embedding == PCO_POSITION_LEARNED)
        check_fails(pco_model_context(c->file, most + 1, &context, &err), PCO_ERROR_INVALID, "learned 40 positions");
    else
        check_ok(pco_model_context(c->file, most + 1, &context, &err));
}

/* Training builds a step from the same spec, with gradients of all that is in the file. */
static void families_train(const families_case *c)
{
    const pco_train_config config = {.optimizer = {.type = PCO_OPTIMIZER_ADAMW}, .max_grad_norm = 1};
    pco_nn_training training = {0};
    pco_graph *graph = pco_graph_create();
    assert_non_null(graph);
    const pco_nn nn = {.graph = graph, .training = &training};
    pco_train_build(&nn, &config, &c->file->spec, PCO_TRAIN_STEP, 2, 0, 9);
    check_ok(pco_graph_check(graph, &err));
    uint32_t weights = 0; /* factors of RoPE are none */
    for (uint32_t i = 0; i < c->file->weights->count; i++)
        weights += strncmp(c->file->weights->items[i].name, "rope_f", 6) != 0;
    assert_int_equal(training.count, weights);
    for (uint32_t i = 0; i < training.count; i++)
        assert_non_null(pco_weights_find(c->file->weights, training.items[i].name));
    pco_graph_destroy(graph);
    pco_nn_training_release(&training);
}

static void families_judge(const char *path)
{
    pco_weights *goldens;
    cJSON *cases;
    families_case c = {0};
    check_ok(pco_safetensors_open(path, &goldens, &err));
    const char *text = pco_weights_note_value(goldens, "cases");
    assert_non_null(text);
    check_ok(pco_json_parse(text, strlen(text), path, &cases, &err));
    families_open(goldens, cJSON_GetObjectItem(cases->child, "name")->valuestring, &c);
    families_logits(&c);
    families_texts(&c, cJSON_GetObjectItem(cases->child, "texts"));
    families_context(&c);
    families_train(&c);
    families_close(&c);
    cJSON_Delete(cases);
    pco_weights_close(goldens);
}

static void test_families(void **state)
{
    glob_t found;
    char pattern[512];
    (void)state;
    snprintf(pattern, sizeof pattern, "%s/*.safetensors", families_folder);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) families_judge(found.gl_pathv[i]);
    print_message("  %zu models\n", found.gl_pathc);
    assert_true(found.gl_pathc >= 5);
    globfree(&found);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_families)};
    if (argc < 2) return 2;
    families_folder = argv[1];
    families_convert = argc > 2 && strcmp(argv[2], "folder") == 0;
    return cmocka_run_group_tests_name("families", tests, check_make_folder, check_remove_folder);
}
