#include "check.h"
#include "gguf_builder.h"

#include "base/dtype.h"

/* Seven keys and three tensors: f32 [2, 3], Q8_0 [1, 32], IQ2_XXS [256]. */
static void build_good(built *file)
{
    static const char *const texts[] = {"one", "", "three"};
    put_header(file, 3, 3, 7);
    put_key_text(file, "general.architecture", "llama");
    put_key_u32(file, "llama.block_count", 5);
    put_key(file, "llama.eps", PCO_GGUF_F32);
    put_f32(file, 0.25f);
    put_key_bool(file, "flag", 1);
    put_key_texts(file, "texts", texts, 3);
    put_key_array(file, "numbers", PCO_GGUF_I16, 2);
    put(file, (int16_t[]){-3, 4}, 4);
    put_key(file, "big", PCO_GGUF_U64);
    put_u64(file, UINT64_MAX);
    put_tensor(file, "a", 2, (uint64_t[]){3, 2}, 0, 0);
    put_tensor(file, "b", 2, (uint64_t[]){32, 1}, 8, 32);
    put_tensor(file, "c", 1, (uint64_t[]){256}, 16, 96);
    put_padding(file, 32);
    put(file, (float[8]){1, 2, 3, 4, 5, 6}, 32);
    put(file, (unsigned char[64]){0x00, 0x3C, 7}, 64);
    put(file, (unsigned char[96]){1}, 96);
}

static void reads_values(void **state)
{
    (void)state;
    built file;
    pco_gguf *gguf;
    uint32_t u32;
    int32_t i32, *numbers;
    float f32, *floats;
    int flag;
    uint64_t count;
    const char *text;
    const pco_gguf_string *strings;
    build_good(&file);
    check_ok(pco_gguf_parse(file.data, file.size, "f", 0, &gguf, &err));
    assert_int_equal(pco_gguf_version(gguf), 3);
    assert_int_equal(pco_gguf_entry_count(gguf), 7);
    assert_string_equal(pco_gguf_entry_at(gguf, 3)->key, "flag");
    assert_null(pco_gguf_entry_at(gguf, 7));
    check_ok(pco_gguf_u32(gguf, "llama.block_count", &u32, &err));
    check_ok(pco_gguf_i32(gguf, "llama.block_count", &i32, &err));
    check_ok(pco_gguf_f32(gguf, "llama.eps", &f32, &err));
    check_ok(pco_gguf_bool(gguf, "flag", &flag, &err));
    check_ok(pco_gguf_text(gguf, "general.architecture", &text, &err));
    assert_true(u32 == 5 && i32 == 5 && f32 == 0.25f && flag == 1);
    assert_string_equal(text, "llama");
    check_ok(pco_gguf_string_array(gguf, "texts", &strings, &count, &err));
    assert_int_equal(count, 3);
    assert_int_equal(strings[1].size, 0);
    assert_memory_equal(strings[2].data, "three", 5);
    check_ok(pco_gguf_i32_array(gguf, "numbers", &numbers, &count, &err));
    assert_true(count == 2 && numbers[0] == -3 && numbers[1] == 4);
    free(numbers);
    check_ok(pco_gguf_u32_or(gguf, "absent", 9, &u32, &err));
    check_ok(pco_gguf_f32_or(gguf, "absent", 0.5f, &f32, &err));
    check_ok(pco_gguf_bool_or(gguf, "absent", 1, &flag, &err));
    check_ok(pco_gguf_text_or(gguf, "absent", "x", &text, &err));
    assert_true(u32 == 9 && f32 == 0.5f && flag == 1 && text[0] == 'x');
    check_fails(pco_gguf_u32(gguf, "absent", &u32, &err), PCO_ERROR_NOT_FOUND, "'absent'");
    check_fails(pco_gguf_u32(gguf, "big", &u32, &err), PCO_ERROR_FORMAT, "'big'");
    check_fails(pco_gguf_u32(gguf, "texts", &u32, &err), PCO_ERROR_FORMAT, "array of string");
    check_fails(pco_gguf_text(gguf, "flag", &text, &err), PCO_ERROR_FORMAT, "type bool; string");
    check_fails(pco_gguf_u32_or(gguf, "flag", 1, &u32, &err), PCO_ERROR_FORMAT, "'flag'");
    check_fails(pco_gguf_f32_array(gguf, "numbers", &floats, &count, &err), PCO_ERROR_FORMAT, "i16");
    check_fails(pco_gguf_i32_array(gguf, "texts", &numbers, &count, &err), PCO_ERROR_FORMAT, "integers");
    pco_gguf_close(gguf);
}

static void reads_tensors(void **state)
{
    (void)state;
    built file;
    pco_gguf *gguf;
    build_good(&file);
    check_ok(pco_gguf_parse(file.data, file.size, "f", 0, &gguf, &err));
    const pco_weights *weights = pco_gguf_weights(gguf);
    assert_int_equal(weights->count, 3);
    const pco_weight *a = pco_weights_find(weights, "a"), *b, *c = pco_weights_find(weights, "c");
    assert_true(a->rank == 2 && a->shape[0] == 2 && a->shape[1] == 3 && a->bytes == 24 && a->dtype == PCO_F32);
    assert_true(((const unsigned char *)a->data)[3] == 0x3F);
    check_ok(pco_weights_require(weights, "b", &b, &err));
    assert_true(b->dtype == PCO_Q8_0 && b->bytes == 34 && ((const unsigned char *)b->data)[2] == 7);
    assert_true(c->dtype == -1 && c->bytes == 66);
    assert_string_equal(c->type_name, "IQ2_XXS");
    check_fails(pco_weights_require(weights, "c", &b, &err), PCO_ERROR_UNSUPPORTED, "IQ2_XXS");
    pco_gguf_close(gguf);
}

/* Every shorter file is refused, and none reads beyond its end (each is in a block of its own size). */
static void refuses_every_cut(void **state)
{
    (void)state;
    built file;
    build_good(&file);
    for (size_t size = 0; size < file.size; size++) {
        unsigned char *copy = malloc(size ? size : 1);
        pco_gguf *gguf;
        pco_error err;
        memcpy(copy, file.data, size);
        pco_status status = pco_gguf_parse(copy, size, "f", 0, &gguf, &err);
        if (status != PCO_ERROR_FORMAT) fail_msg("cut to %zu bytes: status %d", size, (int)status);
        free(copy);
    }
}

static void check_refused(const built *file, const char *part)
{
    pco_gguf *gguf;
    check_fails(pco_gguf_parse(file->data, file->size, "f", PCO_GGUF_METADATA_ONLY, &gguf, &err), PCO_ERROR_FORMAT,
                part);
}

static void refuses_headers_and_keys(void **state)
{
    (void)state;
    static built file;
    pco_gguf *gguf;
    put_header(&file, 2, 0, 0);
    check_ok(pco_gguf_parse(file.data, file.size, "f", 0, &gguf, &err));
    pco_gguf_close(gguf);
    put_header(&file, 1, 0, 0);
    check_refused(&file, "version 1");
    put_header(&file, 4, 0, 0);
    check_refused(&file, "version 4");
    put_header(&file, 3u << 24, 0, 0);
    check_refused(&file, "big-endian");
    put_header(&file, 3, UINT64_MAX, 0);
    check_refused(&file, "18446744073709551615 tensors");
    put_header(&file, 3, 0, 2);
    put_key_u32(&file, "twin", 1);
    put_key_u32(&file, "twin", 2);
    check_refused(&file, "'twin'");
    put_header(&file, 3, 0, 1);
    put_key_array(&file, "nested", PCO_GGUF_ARRAY, 1);
    put_u64(&file, 0);
    check_refused(&file, "array of arrays");
    put_header(&file, 3, 0, 1);
    put_key_array(&file, "long", PCO_GGUF_U32, UINT64_MAX / 2);
    put_u64(&file, 0);
    check_refused(&file, "'long'");
    put_header(&file, 3, 0, 1);
    put_key_array(&file, "long", PCO_GGUF_STRING, UINT64_MAX / 8);
    put_u64(&file, 0);
    check_refused(&file, "'long'");
    put_header(&file, 3, 0, 1);
    put_key(&file, "odd", 13);
    put_u64(&file, 0);
    check_refused(&file, "type 13");
    put_header(&file, 3, 0, 1);
    put_key_u32(&file, "general.alignment", 24);
    check_refused(&file, "alignment' is 24");
}

static void refuses_tensors(void **state)
{
    (void)state;
    static built file;
    static const struct {
        const char *name, *part;
        uint32_t rank, type;
        uint64_t dimension, offset;
    } cases[] = {
        {"t", "5 dimensions", 5, 0, 1, 0},
        {"t", "dimension 0", 1, 0, UINT64_MAX, 0},
        {"t", "counted", 2, 0, UINT64_C(1) << 40, 0},
        {"t", "unknown type 4", 1, 4, 32, 0},
        {"t", "block of 32", 1, 2, 31, 0},
        {"t", "offset 32", 1, 0, 1, 32},
        {"", "name of tensor 0", 1, 0, 1, 0},
        {"0123456789012345678901234567890123456789012345678901234567890123", "name of tensor 0", 1, 0, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t d = cases[i].dimension;
        put_header(&file, 3, 1, 0);
        put_tensor(&file, cases[i].name, cases[i].rank, (uint64_t[]){d, d, d, d, d}, cases[i].type, cases[i].offset);
        check_refused(&file, cases[i].part);
    }
    put_header(&file, 3, 2, 0);
    put_tensor(&file, "same", 1, (uint64_t[]){8}, 0, 0);
    put_tensor(&file, "same", 1, (uint64_t[]){8}, 0, 32);
    check_refused(&file, "'same'");
}

static void alignment_and_metadata_only(void **state)
{
    (void)state;
    static built file;
    pco_gguf *gguf;
    put_header(&file, 3, 2, 1);
    put_key_u32(&file, "general.alignment", 8);
    put_tensor(&file, "a", 1, (uint64_t[]){1}, 0, 0);
    put_tensor(&file, "b", 1, (uint64_t[]){2}, 0, 8);
    check_ok(pco_gguf_parse(file.data, file.size, "f", PCO_GGUF_METADATA_ONLY, &gguf, &err));
    assert_null(pco_weights_find(pco_gguf_weights(gguf), "b")->data);
    pco_gguf_close(gguf);
    check_fails(pco_gguf_parse(file.data, file.size, "f", 0, &gguf, &err), PCO_ERROR_FORMAT, "cut off");
    put_padding(&file, 8);
    put(&file, (float[]){1, 0, 2, 3}, 16);
    check_ok(pco_gguf_parse(file.data, file.size, "f", 0, &gguf, &err));
    float value;
    memcpy(&value, pco_weights_find(pco_gguf_weights(gguf), "b")->data, 4);
    assert_true(value == 2);
    pco_gguf_close(gguf);
}

/* What matrices can be written as has a number of its own for files that are mostly of it; whole numbers have none. */
static void file_types(void **state)
{
    (void)state;
    for (uint32_t type = 0; type < PCO_DTYPE_COUNT; type++) {
        const pco_ggml_type *row = pco_ggml_type_of(type);
        const int is_written = pco_dtype_class_of(type) != PCO_DTYPE_WHOLE;
        if ((row && row->file_type >= 0) != is_written) fail_msg("%s and its file_type", pco_dtype_name(type));
        for (uint32_t other = 0; other < type && is_written; other++)
            if (pco_ggml_type_of(other) && pco_ggml_type_of(other)->file_type == row->file_type)
                fail_msg("%s and %s have one file_type", pco_dtype_name(type), pco_dtype_name(other));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_values),      cmocka_unit_test(reads_tensors),
        cmocka_unit_test(refuses_every_cut), cmocka_unit_test(refuses_headers_and_keys),
        cmocka_unit_test(refuses_tensors),   cmocka_unit_test(alignment_and_metadata_only),
        cmocka_unit_test(file_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
