/* test_hub FOLDER [all|gguf|folder]: tiny models in the layout of Hugging Face, on the device that PORTICO_BACKEND
 * picks, against transformers in float64 (tests/golden/make_hub.py): |y - want| <= 1e-4 (|want| + rms of the row),
 * docs/numerics.md. The first model of each family, or all; or all once they are converted to GGUF, and those to
 * folders again; or to folders. The test writes
 * their folders itself, from the config and the generator. */
#define CHECK_FOLDER
#include "models_test.h"

#include <dirent.h>

#include "base/dtype.h"
#include "base/file.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/causal.h"
#include "models/convert.h"
#include "models/model.h"
#include "train/graph.h"

#include <portico/portico.h>

static const char *hub_folder;
static int hub_all, hub_convert, hub_refold;

/* ---- writing a folder ------------------------------------------------------------------------------------ */

enum { HUB_TENSORS = 256 };

/* Bits of a float8 nearest to the value, the lowest where two are; none of the generator's values is beyond. */
static uint8_t hub_float8(float value, int mantissa)
{
    const int bias = mantissa == 3 ? 7 : 15, largest = mantissa == 3 ? 0x7E : 0x7B;
    int best = 0;
    double least = 1e30;
    for (int code = 0; code <= largest; code++) {
        const int exponent = code >> mantissa, fraction = code & ((1 << mantissa) - 1);
        const double size = exponent ? ldexp(fraction + (1 << mantissa), exponent - bias - mantissa)
                                     : ldexp(fraction, 1 - bias - mantissa);
        const double off = fabs(fabs((double)value) - size);
        /* to even, where two are as near */
        if (off < least || (off == least && code % 2 == 0)) best = code;
        if (off < least) least = off;
    }
    return (uint8_t)(best | (value < 0 ? 0x80 : 0));
}

static void hub_store(const char *type, float value, unsigned char *to)
{
    const double wide = (double)value;
    const uint16_t half = strcmp(type, "BF16") == 0 ? pco_bf16_from_f32(value) : pco_f16_from_f32(value);
    if (strcmp(type, "F64") == 0)
        memcpy(to, &wide, 8);
    else if (strcmp(type, "F32") == 0)
        memcpy(to, &value, 4);
    else if (strncmp(type, "F8", 2) == 0)
        *to = hub_float8(value, strcmp(type, "F8_E4M3") == 0 ? 3 : 2);
    else
        memcpy(to, &half, 2);
}

static size_t hub_type_size(const char *type)
{
    return strcmp(type, "F64") == 0 ? 8 : strcmp(type, "F32") == 0 ? 4 : strncmp(type, "F8", 2) == 0 ? 1 : 2;
}

/* Of those that Portico runs; -1 for the others. */
static int32_t hub_dtype(const char *type)
{
    if (strcmp(type, "F32") == 0) return PCO_F32;
    return strcmp(type, "F16") == 0 ? PCO_F16 : strcmp(type, "BF16") == 0 ? PCO_BF16 : -1;
}

static void hub_write_text(const char *folder, const char *name, const cJSON *root)
{
    char path[600], *text = cJSON_Print(root);
    assert_non_null(text);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    check_ok(pco_file_write(path, text, strlen(text), &err));
    free(text);
}

/* The tensors of a case, whose data and names are freed by the caller; returns how many. */
static uint32_t hub_generate(const cJSON *c, pco_weight *tensors)
{
    const char *type = cJSON_GetObjectItem(c, "type")->valuestring, *base = cJSON_GetObjectItem(c, "base")->valuestring;
    const uint32_t seed = (uint32_t)cJSON_GetObjectItem(c, "seed")->valueint;
    const size_t size = hub_type_size(type);
    const cJSON *item, *dimension;
    uint32_t count = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(c, "tensors"))
    {
        const char *name = cJSON_GetArrayItem(item, 0)->valuestring;
        const float bound = (float)cJSON_GetArrayItem(item, 2)->valuedouble,
                    offset = (float)cJSON_GetArrayItem(item, 3)->valuedouble;
        pco_weight *tensor = &tensors[count];
        int64_t elements = 1;
        assert_true(count < HUB_TENSORS);
        *tensor = (pco_weight){.dtype = hub_dtype(type), .type_name = type};
        cJSON_ArrayForEach(dimension, cJSON_GetArrayItem(item, 1))
        {
            tensor->shape[tensor->rank++] = dimension->valueint;
            elements *= dimension->valueint;
        }
        if (*base && strncmp(name, base, strlen(base)) == 0) name += strlen(base);
        tensor->name = strdup(name);
        unsigned char *data = malloc((size_t)elements * size);
        assert_true(tensor->name && data);
        for (int64_t i = 0; i < elements; i++)
            hub_store(type, models_uniform(seed, count, i, bound, offset), data + (size_t)i * size);
        tensor->data = data;
        count++;
    }
    return count;
}

/* Every n-th tensor to each of n files, and the index that says so. */
static void hub_write_shards(const char *folder, const pco_weight *tensors, uint32_t count, uint32_t shards)
{
    char name[64], path[600];
    cJSON *root = cJSON_CreateObject(), *map = cJSON_AddObjectToObject(root, "weight_map");
    for (uint32_t s = 0; s < shards; s++) {
        pco_weight chosen[HUB_TENSORS];
        uint32_t n = 0;
        snprintf(name, sizeof name, "model-%05u-of-%05u.safetensors", s + 1, shards);
        for (uint32_t i = s; i < count; i += shards) {
            chosen[n++] = tensors[i];
            cJSON_AddStringToObject(map, tensors[i].name, name);
        }
        snprintf(path, sizeof path, "%s/%s", folder, name);
        check_ok(pco_safetensors_write(path, chosen, n, NULL, 0, &err));
    }
    hub_write_text(folder, "model.safetensors.index.json", root);
    cJSON_Delete(root);
}

static void hub_write(const cJSON *c, char folder[512])
{
    static pco_weight tensors[HUB_TENSORS];
    char path[600];
    const uint32_t shards = (uint32_t)cJSON_GetObjectItem(c, "shards")->valueint, count = hub_generate(c, tensors);
    snprintf(folder, 512, "%s/%s", check_folder, cJSON_GetObjectItem(c, "name")->valuestring);
    check_ok(pco_folder_make(folder, &err));
    hub_write_text(folder, "config.json", cJSON_GetObjectItem(c, "config"));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (shards > 1)
        hub_write_shards(folder, tensors, count, shards);
    else
        check_ok(pco_safetensors_write(path, tensors, count, NULL, 0, &err));
    for (uint32_t i = 0; i < count; i++) {
        free(tensors[i].name);
        free((void *)tensors[i].data);
    }
}

/* ---- running it ------------------------------------------------------------------------------------------ */

typedef struct hub_model {
    const char *name;
    pco_model_file *file;
    const int32_t *ids;
    const double *logits;
    int64_t count, vocab;
} hub_model;

/* The whole text at once, then in a chunk of 16 and steps of 1 with the cache between them: the same logits. */
static void hub_logits(const hub_model *m, pco_causal *run)
{
    float *logits = malloc((size_t)(m->count * m->vocab) * sizeof *logits);
    assert_non_null(logits);
    check_ok(pco_causal_score(run, m->ids, m->count, logits, &err));
    const double whole = models_error(logits, m->logits, m->count * m->vocab, m->vocab, MODELS_TOLERANCE);
    double steps = 0;
    pco_causal_reset(run);
    for (int64_t at = 0; at < m->count;) {
        const int64_t rows = at ? 1 : 16;
        check_ok(pco_causal_append(run, m->ids + at, rows, logits, &err));
        at += rows;
        const double error =
            models_error(logits, m->logits + (at - 1) * m->vocab, m->vocab, m->vocab, MODELS_TOLERANCE);
        if (!(error <= steps)) steps = error;
    }
    free(logits);
    print_message("  %-20s error / bound %.4f at once, %.4f step by step\n", m->name, whole, steps);
    assert_true(whole <= 1 && steps <= 1);
}

/* Training builds a step from the same spec, with gradients of all that is in the file. */
static void hub_train(const hub_model *m)
{
    const pco_train_config config = {.optimizer = {.type = PCO_OPTIMIZER_ADAMW}, .max_grad_norm = 1};
    pco_nn_training training = {0};
    pco_graph *graph = pco_graph_create();
    assert_non_null(graph);
    const pco_nn nn = {.graph = graph, .weights = m->file->weights, .training = &training};
    pco_train_build(&nn, &config, &m->file->spec, PCO_TRAIN_STEP, 2, 0, 9);
    check_ok(pco_graph_check(graph, &err));
    assert_int_equal(training.count, m->file->weights->count);
    pco_graph_destroy(graph);
    pco_nn_training_release(&training);
}

/* The folder as a GGUF file, in place of it; 0 where GGUF cannot say what it is. */
static int hub_to_gguf(hub_model *m, const char *folder)
{
    /* other models of these families have what GGUF does not know, and are refused by what it is */
    static const char *const refused[] = {"GGUF has no models of type", "cannot say", "have no tensor"};
    char path[600];
    const pco_convert_options options = {.type = PCO_CONVERT_KEEP, .output_type = PCO_CONVERT_KEEP, .threads = 2};
    pco_convert_result result;
    pco_error why = {""};
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    const pco_status status = pco_convert_to_gguf(folder, path, &options, &result, &why);
    int known = 0;
    for (int i = 0; i < 3; i++) known = known || (status && strstr(why.message, refused[i]));
    if (known) print_message("  %-20s %s\n", m->name, strstr(why.message, "GGUF"));
    if (known) return 0;
    if (status) fail_msg("%s: %s", m->name, why.message);
    assert_true(result.no_tokenizer && result.bytes_in > 0);
    pco_model_file_close(m->file);
    check_ok(pco_model_file_open(path, &m->file, &err));
    return 1;
}

static void hub_remove(const char *name)
{
    static const char *const files[] = {"config.json", "generation_config.json", "model.safetensors", ""};
    char path[700];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s%s%s", check_folder, name, *files[i] ? "/" : "", files[i]);
        if (remove(path) != 0) assert_string_equal(files[i], "generation_config.json");
    }
}

/* What is in `from` as a folder, in place of it. */
static void hub_to_folder(hub_model *m, const char *from, const char *name)
{
    char path[700];
    const pco_convert_options options = {.type = PCO_CONVERT_KEEP, .output_type = PCO_CONVERT_KEEP, .threads = 2};
    pco_convert_result result;
    snprintf(path, sizeof path, "%s/%s", check_folder, name);
    check_ok(pco_convert_to_folder(from, path, &options, &result, &err));
    pco_model_file_close(m->file);
    check_ok(pco_model_file_open(path, &m->file, &err));
    assert_true(m->file->family->hub && !m->file->gguf);
    assert_false(m->file->is_part); /* of a model of several media the part is written as a model of its own */
}

static int hub_judge(const pco_weights *goldens, const cJSON *c)
{
    char folder[512], name[128];
    hub_model m = {.name = cJSON_GetObjectItem(c, "name")->valuestring};
    models_device device;
    pco_causal *run;
    snprintf(name, sizeof name, "%s/logits", m.name);
    const pco_weight *logits = pco_weights_find(goldens, name);
    snprintf(name, sizeof name, "%s/ids", m.name);
    const pco_weight *ids = pco_weights_find(goldens, name);
    assert_true(logits && ids);
    m.ids = ids->data;
    m.logits = logits->data;
    m.count = logits->shape[0];
    m.vocab = logits->shape[1];
    hub_write(c, folder);
    check_ok(pco_model_file_open(folder, &m.file, &err));
    assert_int_equal(m.file->spec.vocab_size[PCO_DECODER], m.vocab);
    assert_true(pco_model_file_ends(m.file, 2) && pco_model_file_ends(m.file, 3) && !pco_model_file_ends(m.file, 1));
    if (hub_convert && !hub_to_gguf(&m, folder)) {
        pco_model_file_close(m.file);
        return 0;
    }
    if (hub_convert) {
        char path[600];
        snprintf(path, sizeof path, "%s/model.gguf", folder);
        hub_to_folder(&m, path, "again");
    }
    if (hub_refold) hub_to_folder(&m, folder, "again");
    models_device_open(&device);
    check_ok(pco_causal_create(device.session, m.file->weights, &m.file->spec,
                               &(pco_causal_room){.context = m.file->spec.max_position_embeddings, .lanes = 1}, &run,
                               &err));
    hub_logits(&m, run);
    pco_causal_destroy(run);
    models_device_close(&device);
    if (!hub_convert) hub_train(&m);
    pco_model_file_close(m.file);
    if (hub_convert || hub_refold) hub_remove("again");
    return 1;
}

/* A file with more experts than the config says, or fewer, is refused by the tensor that does not go with it. */
static void test_experts(void **state)
{
    static const struct {
        int experts;
        pco_status status;
        const char *says;
    } wrong[] = {{5, PCO_ERROR_FORMAT, "has no tensor 'model.layers.0.block_sparse_moe.experts.4."},
                 {3, PCO_ERROR_FORMAT, "block_sparse_moe.gate.weight'"}};
    char path[600], folder[512];
    pco_weights *goldens;
    pco_model_info info = {.size = sizeof info};
    cJSON *cases;
    (void)state;
    snprintf(path, sizeof path, "%s/mixtral.safetensors", hub_folder);
    check_ok(pco_safetensors_open(path, &goldens, &err));
    const char *text = pco_weights_note_value(goldens, "cases");
    check_ok(pco_json_parse(text, strlen(text), path, &cases, &err));
    cJSON *count = cJSON_GetObjectItem(cJSON_GetObjectItem(cases->child, "config"), "num_local_experts");
    assert_int_equal(count->valueint, 4);
    for (int i = 0; i < 2; i++) {
        cJSON_SetNumberValue(count, wrong[i].experts);
        hub_write(cases->child, folder);
        check_fails(pco_model_inspect(folder, 0, &info, &err), wrong[i].status, wrong[i].says);
    }
    /* what expert 0 has not, and a number that is spelled otherwise */
    static const char *const more[] = {"model.layers.0.block_sparse_moe.experts.1.w4.weight",
                                       "model.layers.0.block_sparse_moe.experts.01.w1.weight"};
    cJSON_SetNumberValue(count, 4);
    cJSON *tensors = cJSON_GetObjectItem(cases->child, "tensors");
    for (int i = 0; i < 2; i++) {
        cJSON *extra = cJSON_Duplicate(cJSON_GetArrayItem(tensors, 0), 1);
        cJSON_ReplaceItemInArray(extra, 0, cJSON_CreateString(more[i]));
        cJSON_AddItemToArray(tensors, extra);
        hub_write(cases->child, folder);
        check_fails(pco_model_inspect(folder, 0, &info, &err), i ? PCO_ERROR_UNSUPPORTED : PCO_ERROR_FORMAT, more[i]);
        cJSON_DeleteItemFromArray(tensors, cJSON_GetArraySize(tensors) - 1);
    }
    cJSON_Delete(cases);
    pco_weights_close(goldens);
}

static int hub_by_name(const void *a, const void *b) { return strcmp(a, b); }

static void test_logits(void **state)
{
    char files[64][64], path[5000];
    int count = 0, models = 0;
    (void)state;
    DIR *list = opendir(hub_folder);
    assert_non_null(list);
    for (const struct dirent *entry; (entry = readdir(list));)
        if (*entry->d_name != '.' && count < 64) snprintf(files[count++], 64, "%.60s", entry->d_name);
    closedir(list);
    qsort(files, (size_t)count, 64, hub_by_name);
    for (int i = 0; i < count; i++) {
        pco_weights *goldens;
        cJSON *cases;
        const cJSON *item;
        snprintf(path, sizeof path, "%s/%s", hub_folder, files[i]);
        check_ok(pco_safetensors_open(path, &goldens, &err));
        const char *text = pco_weights_note_value(goldens, "cases");
        assert_non_null(text);
        check_ok(pco_json_parse(text, strlen(text), path, &cases, &err));
        cJSON_ArrayForEach(item, cases)
        {
            models += hub_judge(goldens, item);
            if (!hub_all) break;
        }
        cJSON_Delete(cases);
        pco_weights_close(goldens);
    }
    print_message("  %d models of %d families\n", models, count);
    assert_true(count > 5);
    if (hub_convert) assert_true(models >= 17); /* those that GGUF can say */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_experts), cmocka_unit_test(test_logits)};
    if (argc < 2) return 2;
    hub_folder = argv[1];
    hub_all = argc > 2;
    hub_convert = argc > 2 && strcmp(argv[2], "gguf") == 0;
    hub_refold = argc > 2 && strcmp(argv[2], "folder") == 0;
    return cmocka_run_group_tests_name("hub", tests, check_make_folder, check_remove_folder);
}
