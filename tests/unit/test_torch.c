/* test_torch FOLDER: the files of tests/golden/make_torch.py, and pickles that want more than tensors. */
#include "check.h"

#include "formats/torch_file.h"

static const char *torch_folder;

static const pco_weight *torch_tensor(const pco_weights *weights, const char *name, int32_t dtype, uint32_t rank,
                                      const int64_t *shape)
{
    const pco_weight *weight = pco_weights_find(weights, name);
    assert_non_null(weight);
    assert_int_equal(weight->dtype, dtype);
    assert_int_equal(weight->rank, rank);
    assert_memory_equal(weight->shape, shape, rank * sizeof *shape);
    return weight;
}

static void torch_check(const char *file)
{
    static const float turned[] = {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}, parameter[] = {4, 5};
    static const uint16_t bfloat[] = {0x3f80, 0xc020}, half[] = {0x3800};
    static const int64_t integers[] = {7, -1};
    static const double tenth = 0.1;
    static const unsigned char flag[] = {1, 0};
    char path[512];
    float row[8];
    pco_weights *w;
    snprintf(path, sizeof path, "%s/%s", torch_folder, file);
    check_ok(pco_torch_open(path, &w, &err));
    assert_int_equal(w->count, 11);
    torch_tensor(w, "model.whole", PCO_F32, 2, (int64_t[]){3, 4});
    memcpy(row, torch_tensor(w, "model.rows", PCO_F32, 2, (int64_t[]){2, 4})->data, sizeof row);
    for (int i = 0; i < 8; i++) assert_true(row[i] == (float)(i + 4));
    assert_memory_equal(torch_tensor(w, "model.turned", PCO_F32, 2, (int64_t[]){4, 3})->data, turned, sizeof turned);
    assert_memory_equal(torch_tensor(w, "model.bfloat", PCO_BF16, 1, (int64_t[]){2})->data, bfloat, sizeof bfloat);
    assert_memory_equal(torch_tensor(w, "model.half", PCO_F16, 1, (int64_t[]){1})->data, half, sizeof half);
    assert_memory_equal(torch_tensor(w, "model.long", -1, 2, (int64_t[]){1, 2})->data, integers, sizeof integers);
    assert_memory_equal(torch_tensor(w, "model.double", -1, 1, (int64_t[]){1})->data, &tenth, sizeof tenth);
    assert_int_equal(torch_tensor(w, "model.scalar", PCO_F32, 0, (int64_t[]){0})->bytes, 4);
    assert_int_equal(torch_tensor(w, "model.empty", PCO_F32, 2, (int64_t[]){0, 4})->bytes, 0);
    assert_memory_equal(torch_tensor(w, "model.parameter", PCO_F32, 1, (int64_t[]){2})->data, parameter, 8);
    assert_memory_equal(torch_tensor(w, "model.flag", PCO_BOOL, 1, (int64_t[]){2})->data, flag, 2);
    pco_weights_close(w);
}

static void test_files(void **state)
{
    (void)state;
    torch_check("zip.pt");
    torch_check("legacy.pt");
}

#define MAGIC "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
#define BEFORE \
    MAGIC "\x80\x02M\xe9\x03." \
          "\x80\x02}q\x00."

static void torch_refused(const char *data, size_t size, pco_status status, const char *what)
{
    pco_weights *weights;
    char *exact = malloc(size);
    assert_non_null(exact);
    memcpy(exact, data, size);
    check_fails(pco_torch_parse(exact, size, "x.pt", &weights, &err), status, what);
    assert_null(weights);
    free(exact);
}
#define REFUSED(data, status, what) torch_refused(data, sizeof(data) - 1, status, what)

static void test_refused(void **state)
{
    (void)state;
    REFUSED(BEFORE "\x80\x02"
                   "cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
            PCO_ERROR_UNSUPPORTED, "the pickle wants 'os.system', which is no tensor's");
    REFUSED(BEFORE "\x80\x04\x8c\x08"
                   "builtins\x8c\x04"
                   "eval\x93.",
            PCO_ERROR_UNSUPPORTED, "'builtins.eval'");
    REFUSED(BEFORE "\x80\x02(ios\nsystem\n.", PCO_ERROR_UNSUPPORTED, "INST (0x69)");
    REFUSED(BEFORE "\x80\x02\xff.", PCO_ERROR_UNSUPPORTED, "an opcode (0xff)");
    REFUSED(BEFORE "\x80\x02}.\x80\x02].", PCO_ERROR_FORMAT, "no dict of tensors");
    REFUSED(BEFORE "\x80\x02}", PCO_ERROR_FORMAT, "cut off");
    REFUSED(BEFORE "\x80\x02u.", PCO_ERROR_FORMAT, "missing");
    REFUSED("\x80\x02K\x01.", PCO_ERROR_FORMAT, "not one that torch.save wrote");
    REFUSED("PK\3\4", PCO_ERROR_FORMAT, "zip archive is damaged");
    REFUSED("nothing", PCO_ERROR_FORMAT, "no file that torch.save wrote");
}

/* Every prefix of a good file is refused, or has all that it says. */
static void test_prefixes(void **state)
{
    static const char *const files[] = {"zip.pt", "legacy.pt"};
    (void)state;
    for (int f = 0; f < 2; f++) {
        char path[512];
        pco_map map;
        snprintf(path, sizeof path, "%s/%s", torch_folder, files[f]);
        check_ok(pco_map_open(path, &map, &err));
        for (size_t size = 0; size < map.size; size++) {
            pco_weights *weights;
            pco_error error;
            char *exact = malloc(size + 1);
            memcpy(exact, map.data, size);
            assert_int_not_equal(pco_torch_parse(exact, size, "x.pt", &weights, &error), PCO_OK);
            free(exact);
        }
        pco_map_close(&map);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_prefixes)};
    if (argc != 2) return 2;
    torch_folder = argv[1];
    return cmocka_run_group_tests_name("torch", tests, NULL, NULL);
}
