/* Checkpoints of llama2.c: each tensor by its name, the tokenizer, and what is refused. */
#define CHECK_FOLDER
#include "check.h"
#include "llama2c_builder.h"

#include "base/file.h"
#include "formats/llama2c.h"
#include "models/convert.h"
#include "models/model.h"

static void check_tensor(const pco_weights *weights, const l2c_tensor *tensor, int layer)
{
    char name[64];
    snprintf(name, sizeof name, tensor->name, layer);
    const pco_weight *found = pco_weights_find(weights, name);
    if (!found) fail_msg("there is no %s", name);
    const int count = tensor->columns * (tensor->rows + !tensor->rows);
    assert_int_equal(found->dtype, PCO_F32);
    assert_int_equal(found->rank, tensor->rows ? 2 : 1);
    assert_int_equal(found->shape[0], tensor->rows ? tensor->rows : tensor->columns);
    if (tensor->rows) assert_int_equal(found->shape[1], tensor->columns);
    assert_int_equal(found->bytes, 4 * count);
    for (int i = 0; i < count; i++) {
        float value;
        memcpy(&value, (const char *)found->data + 4 * i, sizeof value);
        if (value != l2c_value(tensor->name, layer, i)) fail_msg("%s: element %d is %g", name, i, (double)value);
    }
}

static void test_tensors(void **state)
{
    (void)state;
    static built file;
    for (int version = 0; version < 2; version++)
        for (int shared = 0; shared < 2; shared++) {
            pco_gguf *gguf;
            uint32_t number;
            build_llama2c(&file, version, shared);
            check_ok(pco_llama2c_parse(file.data, file.size, NULL, 0, "file", &gguf, &err));
            const pco_weights *weights = pco_gguf_weights(gguf);
            assert_int_equal(weights->count, 2 + 9 * L2C_LAYERS + !shared);
            for (int t = 0; t < 12 - shared; t++)
                for (int layer = 0; layer < l2c_orders[0][t].layers + !l2c_orders[0][t].layers; layer++)
                    check_tensor(weights, &l2c_orders[0][t], layer);
            check_ok(pco_gguf_u32(gguf, "llama.attention.head_count_kv", &number, &err));
            assert_int_equal(number, L2C_KV_HEADS);
            check_ok(pco_gguf_u32(gguf, "llama.context_length", &number, &err));
            assert_int_equal(number, L2C_CONTEXT);
            assert_null(pco_gguf_find(gguf, "tokenizer.ggml.model"));
            pco_gguf_close(gguf);
        }
}

/* Any length but the right one, and numbers that no model has. */
static void test_refused(void **state)
{
    (void)state;
    static built file;
    pco_gguf *gguf;
    for (int version = 0; version < 2; version++) {
        build_llama2c(&file, version, 1);
        for (size_t size = 0; size < file.size; size += size < 300 ? 1 : 97)
            check_fails(pco_llama2c_parse(file.data, size, NULL, 0, "file", &gguf, &err), PCO_ERROR_FORMAT, "file");
        put(&file, "", 1);
        check_fails(pco_llama2c_parse(file.data, file.size, NULL, 0, "file", &gguf, &err), PCO_ERROR_FORMAT,
                    "should have");
        for (int n = 0; n < 7; n++) {
            static const int32_t wrong[] = {0, -1, 3, 5, 1 << 24, (1 << 24) + 1, INT32_MAX, INT32_MIN};
            for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
                /* what no tensor's size depends on */
                if (n == 6 && version && wrong[w] > 0 && wrong[w] <= 1 << 24) continue;
                build_llama2c(&file, version, 1);
                memcpy(file.data + (version ? 8 : 0) + 4 * n, &wrong[w], 4);
                check_fails(pco_llama2c_parse(file.data, file.size, NULL, 0, "file", &gguf, &err), PCO_ERROR_FORMAT,
                            "file");
            }
        }
    }
    build_llama2c(&file, 2, 1);
    check_fails(pco_llama2c_parse(file.data, file.size, NULL, 0, "file", &gguf, &err), PCO_ERROR_UNSUPPORTED,
                "version 2");
}

/* Layers of 26 numbers each take 9 tensors. */
static void test_layers(void **state)
{
    (void)state;
    for (int layers = 1024; layers < 1026; layers++) {
        const int32_t numbers[] = {2, 1, layers, 1, 1, 1, 1};
        const size_t size = 256 + 4 * (size_t)(26 * layers + 4);
        unsigned char *data = calloc(1, size);
        pco_gguf *gguf;
        memcpy(data, "24ka\1\0\0", 8);
        memcpy(data + 8, numbers, sizeof numbers);
        data[36] = 1;
        if (layers == 1024) {
            check_ok(pco_llama2c_parse(data, size, NULL, 0, "file", &gguf, &err));
            pco_gguf_close(gguf);
        } else {
            check_fails(pco_llama2c_parse(data, size, NULL, 0, "file", &gguf, &err), PCO_ERROR_FORMAT, "numbers");
        }
        free(data);
    }
}

static void write_file(const char *name, const built *file, char path[512])
{
    snprintf(path, 512, "%s/%s", check_folder, name);
    check_ok(pco_file_write(path, file->data, file->size, &err));
}

/* As a model: with no tokenizer, with the one called after its size, with the usual one, and with one of another model.
 */
static void test_files(void **state)
{
    (void)state;
    static built file, tokens;
    char path[512], beside[512];
    int is;
    pco_model_file *model;
    for (int version = 0; version < 2; version++) {
        build_llama2c(&file, version, version);
        build_llama2c_tokens(&tokens);
        write_file("model.bin", &file, path);
        check_ok(pco_llama2c_is(path, &is, &err));
        assert_int_equal(is, 1);
        check_ok(pco_model_file_open(path, &model, &err));
        assert_null(model->target);
        pco_model_file_close(model);
        for (int usual = 0; usual < 2; usual++) {
            int32_t *ids;
            size_t count;
            write_file(usual ? "tokenizer.bin" : "tok9.bin", &tokens, beside);
            check_ok(pco_model_file_open(path, &model, &err));
            assert_non_null(model->target);
            check_ok(pco_tokenizer_encode(model->target, "ab a", 4, PCO_ENCODE_BOS, &ids, &count, &err));
            assert_int_equal(count, 4);
            assert_memory_equal(ids, ((int32_t[]){1, 4, 6, 4}),
                                sizeof(int32_t[4])); /* "_a" before "ab", by its score */
            free(ids);
            pco_model_file_close(model);
            remove(beside);
        }
        tokens.size -= 1;
        write_file("tok9.bin", &tokens, beside);
        check_fails(pco_model_file_open(path, &model, &err), PCO_ERROR_FORMAT, "not one of 9 tokens");
        remove(beside);
        file.size -= 4;
        write_file("model.bin", &file, path);
        check_ok(pco_llama2c_is(path, &is, &err));
        assert_int_equal(is, version); /* version 0 has no mark */
        remove(path);
    }
}

/* As GGUF, and from there as a folder: the same tensors. */
static void test_convert(void **state)
{
    (void)state;
    static built file, tokens;
    char path[512], beside[512], made[512];
    pco_model_file *model;
    const pco_convert_options options = {.type = PCO_CONVERT_KEEP, .output_type = PCO_CONVERT_KEEP};
    pco_convert_result result;
    for (int version = 0; version < 2; version++) {
        build_llama2c(&file, version, version);
        build_llama2c_tokens(&tokens);
        write_file("model.bin", &file, path);
        write_file("tok9.bin", &tokens, beside);
        snprintf(made, sizeof made, "%s/made-%d.gguf", check_folder, version);
        check_ok(pco_convert_to_gguf(path, made, &options, &result, &err));
        check_ok(pco_model_file_open(made, &model, &err));
        assert_non_null(model->target);
        for (int t = 0; t < 12 - version; t++)
            for (int layer = 0; layer < l2c_orders[0][t].layers + !l2c_orders[0][t].layers; layer++)
                check_tensor(model->weights, &l2c_orders[0][t], layer);
        pco_model_file_close(model);
        snprintf(made, sizeof made, "%s/made-%d", check_folder, version);
        check_ok(pco_convert_to_folder(path, made, &options, &result, &err));
        remove(beside);
        remove(path);
    }
}

static void test_tokenizer(void **state)
{
    (void)state;
    static const char *const spelled[] = {"<unk>",
                                          "<s>",
                                          "</s>",
                                          "<0x00>",
                                          "\xE2\x96\x81"
                                          "a",
                                          "a",
                                          "b",
                                          "ab",
                                          "\xE2\x96\x81"};
    static const int32_t types[] = {2, 3, 3, 6, 1, 1, 1, 1, 1};
    static built file, tokens;
    pco_gguf *gguf;
    build_llama2c(&file, 1, 1);
    build_llama2c_tokens(&tokens);
    check_ok(pco_llama2c_parse(file.data, file.size, tokens.data, tokens.size, "file", &gguf, &err));
    const pco_gguf_entry *texts = pco_gguf_find(gguf, "tokenizer.ggml.tokens"),
                         *kinds = pco_gguf_find(gguf, "tokenizer.ggml.token_type");
    for (int i = 0; i < L2C_VOCAB; i++) {
        int32_t kind;
        memcpy(&kind, kinds->data + 4 * i, 4);
        assert_int_equal(kind, types[i]);
        assert_int_equal(texts->strings[i].size, strlen(spelled[i]));
        assert_memory_equal(texts->strings[i].data, spelled[i], strlen(spelled[i]));
    }
    pco_gguf_close(gguf);
    for (size_t size = 0; size < tokens.size; size++)
        check_fails(pco_llama2c_parse(file.data, file.size, tokens.data, size, "file", &gguf, &err), PCO_ERROR_FORMAT,
                    "9 tokens");
    put(&tokens, "", 1);
    check_fails(pco_llama2c_parse(file.data, file.size, tokens.data, tokens.size, "file", &gguf, &err),
                PCO_ERROR_FORMAT, "9 tokens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors), cmocka_unit_test(test_refused), cmocka_unit_test(test_layers),
        cmocka_unit_test(test_files),   cmocka_unit_test(test_convert), cmocka_unit_test(test_tokenizer),
    };
    return cmocka_run_group_tests_name("llama2c", tests, check_make_folder, check_remove_folder);
}
