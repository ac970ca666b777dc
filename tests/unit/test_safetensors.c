#include <unistd.h>

#include "check.h"
#include "formats/safetensors.h"

/* A file with that header and `space` bytes of data; freed by the caller. */
static unsigned char *file_of(const char *header, size_t space, size_t *size)
{
    uint64_t length = strlen(header);
    *size = 8 + (size_t)length + space;
    unsigned char *file = calloc(1, *size);
    assert_non_null(file);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, (size_t)length);
    return file;
}

static void check_refused(const char *header, size_t space, const char *part)
{
    size_t size;
    pco_weights *weights;
    unsigned char *file = file_of(header, space, &size);
    check_fails(pco_safetensors_parse(file, size, "f", &weights, &err), PCO_ERROR_FORMAT, part);
    assert_null(weights);
    free(file);
}

static void refuses(void **state)
{
    (void)state;
    pco_weights *weights;
    unsigned char huge[8] = {0, 0, 0, 0, 0, 0, 0, 1};
    check_fails(pco_safetensors_parse("x", 1, "f", &weights, &err), PCO_ERROR_FORMAT, "too few");
    check_fails(pco_safetensors_parse(huge, 8, "f", &weights, &err), PCO_ERROR_FORMAT, "limit");
    check_refused("[]", 0, "object");
    check_refused("{\"a\":1}", 0, "object is expected");
    check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}", 4, "not valid JSON");
    check_refused("{\"a\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "F99");
    check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "dimension 0");
    check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "dimension 0");
    check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[4503599627370496,4503599627370496],\"data_offsets\":[0,4]}}", 4,
                  "counted");
    check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "8 bytes");
    check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 8, "data_offsets");
    check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3, "cut off");
    check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "end at offset 4");
    check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "hole");
    check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                  "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                  8, "overlap");
    check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                  "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
                  8, "'a' is in one object twice");
    check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "'x'");
    check_refused("{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "NUL");
    check_refused("{\"__metadata__\":{\"k\":1}}", 0, "'k'");
    check_refused("{\"__metadata__\":3}", 0, "__metadata__");
}

static void round_trip(void **state)
{
    (void)state;
    static const float f32[6] = {1, -2, 3, 4.5f, 5, 6};
    static const double f64[2] = {0.1, -3};
    static const unsigned char flag[3] = {1, 0, 1};
    pco_weight tensors[] = {
        {.name = (char *)"flag", .dtype = PCO_BOOL, .rank = 1, .shape = {3}, .data = flag},
        {.name = (char *)"w\"eight\n", .dtype = PCO_F32, .rank = 2, .shape = {2, 3}, .data = f32},
        {.name = (char *)"wide", .dtype = -1, .type_name = "F64", .rank = 1, .shape = {2}, .data = f64},
        {.name = (char *)"none", .dtype = PCO_I32, .rank = 2, .shape = {0, 4}},
        {.name = (char *)"scalar", .dtype = PCO_F32, .rank = 0, .data = f32},
    };
    pco_weights_note notes[] = {{(char *)"format", (char *)"pt"}, {(char *)"step", (char *)"17"}};
    char path[] = "/tmp/portico-test-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    check_ok(pco_safetensors_write(path, tensors, 5, notes, 2, &err));
    pco_weights *weights;
    check_ok(pco_safetensors_open(path, &weights, &err));
    assert_int_equal(weights->count, 5);
    assert_string_equal(pco_weights_note_value(weights, "step"), "17");
    assert_null(pco_weights_note_value(weights, "stop"));
    const pco_weight *weight = pco_weights_find(weights, "w\"eight\n");
    assert_non_null(weight);
    assert_int_equal((uintptr_t)weight->data % 4, 0);
    assert_int_equal(weight->rank, 2);
    assert_int_equal(weight->shape[1], 3);
    assert_memory_equal(weight->data, f32, sizeof f32);
    weight = pco_weights_find(weights, "wide");
    assert_int_equal(weight->dtype, -1);
    assert_string_equal(weight->type_name, "F64");
    assert_int_equal((uintptr_t)weight->data % 64, 0);
    assert_memory_equal(weight->data, f64, sizeof f64);
    assert_int_equal(pco_weights_find(weights, "none")->bytes, 0);
    assert_int_equal(pco_weights_find(weights, "scalar")->bytes, 4);
    check_fails(pco_weights_require(weights, "wide", &weight, &err), PCO_ERROR_UNSUPPORTED, "F64");
    check_fails(pco_weights_require(weights, "absent", &weight, &err), PCO_ERROR_NOT_FOUND, "'absent'");
    check_ok(pco_weights_require(weights, "flag", &weight, &err));
    pco_weights_close(weights);
    unlink(path);
    check_fails(pco_safetensors_open(path, &weights, &err), PCO_ERROR_IO, path);
}

/* Matrices given one behind the other lie so, and so do vectors given between them: they can be one. */
static void writer_order(void **state)
{
    (void)state;
    static const float f32[6] = {1, -2, 3, 4.5f, 5, 6};
    static const char *const NAMES[6] = {"q.weight", "q.bias", "k.weight", "k.bias", "a.weight", "a.bias"};
    pco_weight tensors[6];
    for (int i = 0; i < 6; i++)
        tensors[i] = (pco_weight){.name = (char *)(uintptr_t)NAMES[i],
                                  .dtype = PCO_F32,
                                  .rank = i % 2 ? 1 : 2,
                                  .shape = {2, i % 2 ? 0 : 3},
                                  .data = f32};
    void *file;
    size_t size;
    check_ok(pco_safetensors_encode(tensors, 6, NULL, 0, &file, &size, &err));
    pco_weights *weights;
    check_ok(pco_safetensors_parse(file, size, "test", &weights, &err));
    for (int i = 0; i < 4; i++) {
        const pco_weight *one = pco_weights_find(weights, NAMES[i]), *next = pco_weights_find(weights, NAMES[i + 2]);
        assert_ptr_equal((const unsigned char *)one->data + one->bytes, next->data);
    }
    pco_weights_close(weights);
    free(file);
}

static void writer_refuses(void **state)
{
    (void)state;
    static const float f32[1] = {1};
    pco_weight tensor = {.name = (char *)"a", .dtype = PCO_F32, .rank = 1, .shape = {1}, .data = f32};
    pco_weight twice[2] = {tensor, tensor}, other = tensor;
    void *file;
    size_t size;
    check_fails(pco_safetensors_encode(twice, 2, NULL, 0, &file, &size, &err), PCO_ERROR_INVALID, "'a'");
    other.dtype = PCO_Q8_0;
    check_fails(pco_safetensors_encode(&other, 1, NULL, 0, &file, &size, &err), PCO_ERROR_UNSUPPORTED, "q8_0");
    other = tensor, other.name = (char *)"__metadata__";
    check_fails(pco_safetensors_encode(&other, 1, NULL, 0, &file, &size, &err), PCO_ERROR_INVALID, "__metadata__");
    other = tensor, other.data = NULL;
    check_fails(pco_safetensors_encode(&other, 1, NULL, 0, &file, &size, &err), PCO_ERROR_INVALID, "no data");
    check_ok(pco_safetensors_encode(NULL, 0, NULL, 0, &file, &size, &err));
    assert_int_equal(size, 64);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(writer_order),
        cmocka_unit_test(writer_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
