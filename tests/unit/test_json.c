#include <math.h>
#include <unistd.h>

#include "check.h"
#include "formats/json.h"

static cJSON *parse(const char *text)
{
    cJSON *root;
    check_ok(pco_json_parse(text, strlen(text), "config.json", &root, &err));
    return root;
}

static void refuses_text(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "empty"},
        {"{\n  \"a\": 1,\n  \"b\": nope\n}", "line 3, column 8"},
        {"{\"a\": 1} x", "column 10: there is text after"},
        {"{\"a\": {\"k\": 1, \"k\": 2}}", "'k'"},
        {"[{\"q\": 1, \"q\": 2}]", "'q'"},
        {"\xEF\xBB\xBF{}", "byte order"},
        {"{\"a\": \"\xC0\x80\"}", "column 8: this is not UTF-8"},
        {"{\"a\": \"\x01\"}", "control"},
        {"{\"a\\u0000\": 1}", "NUL"},
        {"{\"a\": \"open", "line 1"},
    };
    cJSON *root;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_fails(pco_json_parse(cases[i].text, strlen(cases[i].text), "f", &root, &err), PCO_ERROR_FORMAT,
                    cases[i].part);
    cJSON_Delete(parse(" {\"a\": \"x\\\\u0000\", \"b\": [1, 2, {}]}\n\n"));
    cJSON_Delete(parse("3 "));
    char path[] = "/tmp/portico-test-XXXXXX";
    int file = mkstemp(path);
    assert_int_equal(write(file, "{]", 2), 2);
    close(file);
    check_fails(pco_json_load(path, &root, &err), PCO_ERROR_FORMAT, "column 2");
    unlink(path);
    check_fails(pco_json_load(path, &root, &err), PCO_ERROR_IO, path);
}

static int allocations_left;

static void *allocate(size_t size) { return allocations_left-- > 0 ? malloc(size) : NULL; }

/* Want of memory is not blamed on the text, whichever allocation fails. */
static void lacks_memory(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"a\": [1, -2.5e+3, \"\\n\\u00e9\\ud83d\\ude00\", {}, []], \"b\" : {\"c\": [true, false, null]}}", " 3",
        "\"x\"", "[[]]"};
    static const char *const bad[] = {"[1, nope]", "{\"a\" 1}", "[1,]", "\"\\ud83d\"", "\"\\x\"", "[-]", "{\"a\": [}"};
    cJSON *root = NULL;
    cJSON_InitHooks(&(cJSON_Hooks){allocate, free});
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int n = 0;; n++) {
            allocations_left = n;
            pco_error why;
            if (!pco_json_parse(texts[i], strlen(texts[i]), "f", &root, &why)) {
                assert_true(n > 0);
                cJSON_Delete(root);
                break;
            }
            assert_string_equal(why.message, "f: out of host memory");
        }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        allocations_left = 100;
        check_fails(pco_json_parse(bad[i], strlen(bad[i]), "f", &root, &err), PCO_ERROR_FORMAT, "not valid JSON");
    }
    cJSON_InitHooks(NULL);
}

static void getters(void **state)
{
    (void)state;
    static const char *const acts[] = {"relu", "gelu"};
    static const char *const known[] = {"n", "f", "b", "s", "act", "bad", "null"};
    cJSON *root = parse("{\"n\": 12, \"f\": 0.5, \"b\": true, \"s\": \"text\", \"act\": \"gelu\", \"bad\": "
                        "1.5, \"null\": null}");
    int64_t n;
    double f;
    int b;
    uint32_t act;
    const char *s;
    check_ok(pco_json_int(root, "c", "n", 1, 12, &n, &err));
    check_ok(pco_json_number(root, "c", "f", 0, 1, &f, &err));
    check_ok(pco_json_bool_or(root, "c", "b", 0, &b, &err));
    check_ok(pco_json_string(root, "c", "s", &s, &err));
    check_ok(pco_json_enum(root, "c", "act", acts, 2, &act, &err));
    assert_true(n == 12 && f == 0.5 && b == 1 && act == 1);
    assert_string_equal(s, "text");
    check_ok(pco_json_int_or(root, "c", "N", 1, 12, 7, &n, &err));
    check_ok(pco_json_number_or(root, "c", "F", 0, 1, 0.25, &f, &err));
    check_ok(pco_json_bool_or(root, "c", "B", 1, &b, &err));
    check_ok(pco_json_string_or(root, "c", "S", NULL, &s, &err));
    check_ok(pco_json_enum_or(root, "c", "ACT", acts, 2, 0, &act, &err));
    assert_true(n == 7 && f == 0.25 && b == 1 && act == 0 && !s);
    check_fails(pco_json_int(root, "c", "n", 1, 11, &n, &err), PCO_ERROR_FORMAT, "'n' is 12; an integer from 1 to 11");
    check_fails(pco_json_int(root, "c", "N", 1, 11, &n, &err), PCO_ERROR_FORMAT, "'N' is missing");
    check_fails(pco_json_int(root, "c", "bad", 1, 11, &n, &err), PCO_ERROR_FORMAT, "1.5");
    check_fails(pco_json_int_or(root, "c", "null", 1, 11, 3, &n, &err), PCO_ERROR_FORMAT, "null");
    check_fails(pco_json_number(root, "c", "s", 0, 1, &f, &err), PCO_ERROR_FORMAT, "the string 'text'");
    check_fails(pco_json_bool_or(root, "c", "n", 0, &b, &err), PCO_ERROR_FORMAT, "true or false");
    check_fails(pco_json_string(root, "c", "b", &s, &err), PCO_ERROR_FORMAT, "'b' is true");
    check_fails(pco_json_enum(root, "c", "s", acts, 2, &act, &err), PCO_ERROR_FORMAT, "'relu', 'gelu'");
    check_ok(pco_json_known(root, "c", known, 7, &err));
    check_fails(pco_json_known(root, "c", known + 2, 5, &err), PCO_ERROR_FORMAT, "unknown key 'n', 'f'");
    cJSON_Delete(root);
}

#define BAD "\xEF\xBF\xBD"

static void writes(void **state)
{
    (void)state;
    pco_writer text = {0};
    pco_json_writer writer = {.out = &text};
    pco_json_begin_object(&writer);
    pco_json_key(&writer, "a\"b\\");
    pco_json_write_string(&writer, "tab\t nul\x01 \xC3\xA9 bad\xFF");
    pco_json_key(&writer, "list");
    pco_json_begin_array(&writer);
    pco_json_write_number(&writer, 0.1);
    pco_json_write_number(&writer, NAN);
    pco_json_write_number(&writer, -INFINITY);
    pco_json_write_number(&writer, 1e300);
    pco_json_write_int(&writer, INT64_MIN);
    pco_json_write_uint(&writer, UINT64_MAX);
    pco_json_write_bool(&writer, 1);
    pco_json_begin_object(&writer);
    pco_json_end_object(&writer);
    pco_json_end_array(&writer);
    pco_json_key(&writer, "none");
    pco_json_write_null(&writer);
    pco_json_end_object(&writer);
    assert_string_equal(text.data,
                        "{\"a\\\"b\\\\\": \"tab\\t nul\\u0001 \xC3\xA9 bad\xEF\xBF\xBD\", \"list\": [0.1, null, null, "
                        "1e+300, -9223372036854775808, 18446744073709551615, true, {}], \"none\": null}");
    pco_writer_release(&text);
    writer = (pco_json_writer){.out = &text}; /* as Python's bytes.decode("utf-8", "replace") */
    pco_json_write_string(&writer, "\xF0\x9F\x98|\xE2\x82|\xE0\x80|\xED\xA0\x80|\xF4\x90\x80|\xE2\x82\xE2\x82\xAC");
    assert_string_equal(text.data,
                        "\"" BAD "|" BAD "|" BAD BAD "|" BAD BAD BAD "|" BAD BAD BAD "|" BAD "\xE2\x82\xAC\"");
    pco_writer_release(&text);
    writer = (pco_json_writer){.out = &text, .indent = 2};
    pco_json_begin_array(&writer);
    for (int i = 0; i < 2; i++) {
        pco_json_begin_object(&writer);
        pco_json_key(&writer, "i");
        pco_json_write_number(&writer, 1.0 / 3.0);
        pco_json_end_object(&writer);
    }
    pco_json_end_array(&writer);
    cJSON *root = parse(text.data);
    double back;
    check_ok(pco_json_number(cJSON_GetArrayItem(root, 1), "c", "i", 0, 1, &back, &err));
    assert_true(back == 1.0 / 3.0);
    cJSON_Delete(root);
    pco_writer_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_text),
        cmocka_unit_test(lacks_memory),
        cmocka_unit_test(getters),
        cmocka_unit_test(writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
