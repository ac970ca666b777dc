#include <unistd.h>

#include "check.h"
#include "formats/npy.h"

static size_t file_of(unsigned char *file, unsigned version, const char *header, size_t space)
{
    size_t length = strlen(header), begin = version == 1 ? 10 : 12;
    memset(file, 0, begin + length + space);
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (unsigned char)version;
    file[8] = (unsigned char)length;
    memcpy(file + begin, header, length);
    return begin + length + space;
}

static void reads(void **state)
{
    (void)state;
    unsigned char file[512];
    pco_npy npy;
    size_t size = file_of(file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", 24);
    check_ok(pco_npy_parse(file, size, "f", &npy, &err));
    assert_true(npy.array.dtype == PCO_F32 && npy.array.rank == 2 && npy.array.shape[1] == 3 && npy.array.bytes == 24);
    pco_npy_close(&npy);
    size = file_of(file, 2, "{\"shape\": (), \"descr\": \"<f8\", \"fortran_order\": False}", 8);
    check_ok(pco_npy_parse(file, size, "f", &npy, &err));
    assert_true(npy.array.dtype == -1 && npy.array.rank == 0 && npy.array.bytes == 8);
    size = file_of(file, 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", 2);
    check_ok(pco_npy_parse(file, size, "f", &npy, &err));
    file[size - 1] = 2;
    check_fails(pco_npy_parse(file, size, "f", &npy, &err), PCO_ERROR_FORMAT, "element 1");
}

static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *header, *part;
        size_t space;
    } cases[] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", "'>f4'", 4},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}", "Fortran", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", "expected", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}", "expected", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "expected", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296,4294967296)}", "counted", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", "expected", 4},
        {"{'descr': '<f4', 'fortran_order': False}", "expected", 4},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "once", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "nothing else", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", "'}'", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "needs 4 bytes", 3},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "needs 4 bytes", 5},
    };
    unsigned char file[512];
    pco_npy npy;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = file_of(file, 1, cases[i].header, cases[i].space);
        check_fails(pco_npy_parse(file, size, "f", &npy, &err), PCO_ERROR_FORMAT, cases[i].part);
    }
    size_t size = file_of(file, 3, "{}", 0);
    check_fails(pco_npy_parse(file, size, "f", &npy, &err), PCO_ERROR_FORMAT, "version 3.0");
    check_fails(pco_npy_parse("PK", 2, "f", &npy, &err), PCO_ERROR_FORMAT, "not a .npy");
}

static void round_trip(void **state)
{
    (void)state;
    static const double f64[3] = {1, 2.5, -1e300};
    static const uint16_t f16[4] = {0x3C00, 0, 0x7C00, 1};
    static const pco_weight arrays[] = {
        {.dtype = -1, .type_name = "F64", .rank = 1, .shape = {3}, .bytes = 24, .data = f64},
        {.dtype = PCO_F16, .rank = 3, .shape = {2, 1, 2}, .bytes = 8, .data = f16},
        {.dtype = PCO_I32, .rank = 2, .shape = {0, 5}},
        {.dtype = PCO_F16, .rank = 0, .bytes = 2, .data = f16},
        {.dtype = PCO_I32, .rank = 8, .shape = {1, 1, 1, 1, 1, 1, 1, INT64_C(2)}, .bytes = 8, .data = f64},
    };
    char path[] = "/tmp/portico-test-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        pco_npy npy;
        check_ok(pco_npy_write(path, &arrays[i], &err));
        check_ok(pco_npy_open(path, &npy, &err));
        assert_int_equal(npy.array.dtype, arrays[i].dtype);
        assert_int_equal(npy.array.rank, arrays[i].rank);
        assert_int_equal(npy.array.bytes, arrays[i].bytes);
        assert_memory_equal(npy.array.shape, arrays[i].shape, sizeof npy.array.shape);
        if (arrays[i].bytes) assert_memory_equal(npy.array.data, arrays[i].data, (size_t)arrays[i].bytes);
        pco_npy_close(&npy);
    }
    unlink(path);
    pco_weight other = {.dtype = PCO_BF16};
    check_fails(pco_npy_write(path, &other, &err), PCO_ERROR_UNSUPPORTED, "bf16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(refuses),
        cmocka_unit_test(round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
