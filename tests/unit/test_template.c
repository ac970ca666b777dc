/* test_template CASES.json ...: chat templates, rendered as jinja2 renders them (tests/golden/make_templates.py). A
 * case that may be refused (its name begins with '?') is right when it is UNSUPPORTED, too; that is counted. */
#define CHECK_FOLDER
#include "check.h"

#include "base/file.h"
#include "base/number.h"
#include "base/writer.h"
#include "formats/json.h"
#include "text/template.h"

#include <inttypes.h>
#include <locale.h>

static int n_files;
static char **files;

static char *text_of(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

/* 1: right; 0: refused, and may be; fails otherwise. */
static int check_case(const cJSON *root, const cJSON *item, int64_t now)
{
    const char *name = text_of(item, "name"), *want = text_of(item, "text");
    const char *source = text_of(cJSON_GetObjectItemCaseSensitive(root, "templates"), text_of(item, "template"));
    const cJSON *variables = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(root, "variables"),
                                                              text_of(item, "variables"));
    pco_template *template = NULL;
    char *text = NULL;
    size_t bytes = 0;
    pco_error err = {""};
    pco_status status = pco_template_parse(source, strlen(source), name, &template, &err);
    if (!status) status = pco_template_render(template, variables, now, &text, &bytes, &err);
    pco_template_destroy(template);
    if (status && *name == '?' && status == PCO_ERROR_UNSUPPORTED) {
        print_message("  refused: %s\n", err.message);
        return 0;
    }
    if (status && want) fail_msg("%s: %s; it should be:\n%s", name, err.message, want);
    if (!status && !want) fail_msg("%s: jinja2 says '%s'; here it is:\n%s", name, text_of(item, "error"), text);
    if (!status && (strlen(want) != bytes || memcmp(text, want, bytes) != 0)) {
        size_t at = 0;
        while (text[at] && text[at] == want[at]) at++;
        fail_msg("%s: at byte %zu is\n%.200s\nand it should be\n%.200s", name, at, text + at, want + at);
    }
    if (status)
        assert_true(status == PCO_ERROR_INVALID || status == PCO_ERROR_FORMAT || status == PCO_ERROR_UNSUPPORTED);
    const char *part = text_of(item, "says");
    if (status && part && !strstr(err.message, part)) fail_msg("%s: '%s' lacks '%s'", name, err.message, part);
    free(text);
    return 1;
}

static void test_cases(void **state)
{
    (void)state;
    for (int i = 0; i < n_files; i++) {
        cJSON *root;
        int64_t now;
        int right = 0, refused = 0;
        check_ok(pco_json_load(files[i], &root, &err));
        check_ok(pco_json_int(root, files[i], "now", 0, INT64_C(1) << 40, &now, &err));
        const cJSON *cases = cJSON_GetObjectItemCaseSensitive(root, "cases"), *item;
        cJSON_ArrayForEach(item, cases) * (check_case(root, item, now) ? &right : &refused) += 1;
        print_message("  %s: %d as jinja2 has them, %d refused\n", files[i], right, refused);
        assert_true(right > 0);
        cJSON_Delete(root);
    }
}

static void check_refused(const char *source, const char *variables, pco_status want, const char *part)
{
    cJSON *root;
    pco_template *template = NULL;
    char *text = NULL;
    size_t bytes;
    pco_error said = {""};
    check_ok(pco_json_parse(variables, strlen(variables), "variables", &root, &err));
    pco_status status = pco_template_parse(source, strlen(source), "t", &template, &said);
    if (!status) status = pco_template_render(template, root, 0, &text, &bytes, &said);
    if (status != want || !strstr(said.message, part))
        fail_msg("'%.100s': status %d '%s', and it should be %d with '%s'", source, status,
                 status ? said.message : text, want, part);
    pco_template_destroy(template);
    cJSON_Delete(root);
}

static void test_refusals(void **state)
{
    (void)state;
    static const char none[] = "{}";
    check_refused("a\n{% include 'x' %}", none, PCO_ERROR_UNSUPPORTED, "line 2: the tag 'include'");
    check_refused("{% call f() %}{% endcall %}", none, PCO_ERROR_UNSUPPORTED, "the tag 'call'");
    check_refused("{{ 1 | pprint }}", none, PCO_ERROR_UNSUPPORTED, "line 1: the filter 'pprint'");
    check_refused("\n\n{{ 1 is escaped }}", none, PCO_ERROR_UNSUPPORTED, "line 3: the test 'escaped'");
    check_refused("{{ 'a'.encode() }}", none, PCO_ERROR_UNSUPPORTED, "the method 'encode'");
    check_refused("{{ [1].append(2) }}", none, PCO_ERROR_UNSUPPORTED, "the method 'append'");
    check_refused("{{ lipsum() }}", none, PCO_ERROR_UNSUPPORTED, "the function 'lipsum'");
    check_refused("{{ f() }}", none, PCO_ERROR_UNSUPPORTED, "'f' is not known");
    check_refused("{{ ''.__class__ }}", none, PCO_ERROR_UNSUPPORTED, "'__class__'");
    check_refused("{{ a.b.c }}", "{\"a\": {}}", PCO_ERROR_INVALID, "'b' is undefined");
    check_refused("{{ raise_exception('no ' + a) }}", "{\"a\": \"tools\"}", PCO_ERROR_INVALID,
                  "refuses these messages: no tools");
    check_refused("{% if a %}", none, PCO_ERROR_FORMAT, "'elif' is missing");
    check_refused("{{ a", none, PCO_ERROR_FORMAT, "a tag has no end");
    check_refused("{{ (a] }}", none, PCO_ERROR_FORMAT, "not paired");
    check_refused("\xFF", none, PCO_ERROR_FORMAT, "no UTF-8 at byte 0");
}

/* What would run for ever, or grow, ends with one line. */
static void test_bounds(void **state)
{
    static char deep[4096];
    pco_writer wide = {0};
    (void)state;
    check_refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{}", PCO_ERROR_INVALID, "more than 1000 deep");
    pco_write_text(&wide, "{% for i in range(9999) %}{{ 1");
    for (int i = 0; i < 300; i++) pco_write_text(&wide, " and 1");
    pco_write_text(&wide, " }}{% endfor %}");
    check_refused(wide.data, "{}", PCO_ERROR_INVALID, "steps");
    pco_writer_release(&wide);
    wide = (pco_writer){0};
    pco_write_text(&wide, "{% set d = {"); /* looking things up is work, too */
    for (int i = 0; i < 2000; i++) pco_print(&wide, "%d: 1, ", i);
    pco_write_text(&wide, "'x': 1} %}{% for i in range(9999) %}{{ d.x }}{% endfor %}");
    check_refused(wide.data, "{}", PCO_ERROR_INVALID, "steps");
    pco_writer_release(&wide);
    wide = (pco_writer){0};
    check_refused("{{ 'aaaaaaaaaa' * 100000000000 }}", "{}", PCO_ERROR_INVALID, "bytes of memory");
    check_refused("{% set n = namespace(a='aaaaaaaa') %}{% for i in range(60) %}{% set n.a = n.a + n.a %}{% endfor %}",
                  "{}", PCO_ERROR_INVALID, "bytes of memory");
    check_refused("{% for i in range(99999) %}{{ 'a' * 1000 }}{% endfor %}", "{}", PCO_ERROR_INVALID, "more than");
    check_refused("{{ range(100001) }}", "{}", PCO_ERROR_INVALID, "range has more than");
    check_refused("{{ 9223372036854775807 + 1 }}", "{}", PCO_ERROR_UNSUPPORTED, "beyond 64 bits");
    memset(deep, '(', sizeof deep - 1);
    memcpy(deep, "{{ ", 3);
    check_refused(deep, "{}", PCO_ERROR_UNSUPPORTED, "nested");
    for (int i = 0; i < 2000; i++) pco_write_text(&wide, "{% if a %}");
    check_refused(wide.data, "{}", PCO_ERROR_UNSUPPORTED, "nested");
    pco_writer_release(&wide);
    wide = (pco_writer){0};
    pco_write_text(&wide, "{{ 1");
    for (int i = 0; i < 2000; i++) pco_write_text(&wide, " - 1");
    pco_write_text(&wide, " }}");
    check_refused(wide.data, "{}", PCO_ERROR_UNSUPPORTED, "operators in a row");
    pco_writer_release(&wide);
    wide = (pco_writer){0};
    for (int i = 0; i < PCO_TEMPLATE_MOST / 4; i++) pco_write_text(&wide, "aaaaa");
    check_refused(wide.data, "{}", PCO_ERROR_FORMAT, "at most 524288");
    pco_writer_release(&wide);
}

/* Makes and sets a locale that has nothing but a radix character; 0 where there is no localedef. */
static int set_radix(const char *radix, int number)
{
    char source[300], path[64], name[16], command[200];
    snprintf(name, sizeof name, "made%d", number); /* what was loaded once by a name is kept */
    snprintf(path, sizeof path, "%s/source", check_folder);
    const int size = snprintf(source, sizeof source,
                              "comment_char %%\nescape_char /\nLC_NUMERIC\ndecimal_point \"%s\"\nthousands_sep \"\"\n"
                              "grouping -1\nEND LC_NUMERIC\n",
                              radix);
    check_ok(pco_file_write(path, source, (size_t)size, &err));
    snprintf(command, sizeof command, "localedef -c -i %s -f UTF-8 %s/%s > %s/log 2>&1", path, check_folder, name,
             check_folder);
    setenv("LOCPATH", check_folder, 1);
    const int made = system(command) >= 0 && setlocale(LC_NUMERIC, name);
    unsetenv("LOCPATH");
    return made;
}

/* The host program may have set a locale with another point than ours: a comma, and one of two bytes. */
static void test_locales(void **state)
{
    static const char *const radices[] = {",", "<U066B>"};
    static const char source[] = "{{ 0.5 + 1.25 }} {{ '2.5' | float * 2 }} {{ 1e-7 }} {{ 1.5e3 }}";
    cJSON *none = cJSON_CreateObject();
    int made = 0;
    (void)state;
    for (size_t i = 0; i < sizeof radices / sizeof *radices; i++) {
        if (!set_radix(radices[i], (int)i)) continue;
        pco_template *template;
        pco_writer json = {0};
        pco_json_writer writer = {.out = &json};
        char *end, *text, plain[16];
        size_t bytes;
        made++;
        snprintf(plain, sizeof plain, "%.1f", 1.5);
        assert_string_not_equal(plain, "1.5");
        assert_string_equal(pco_number_plain(plain), "1.5");
        check_ok(pco_template_parse(source, sizeof source - 1, "a template", &template, &err));
        check_ok(pco_template_render(template, none, 0, &text, &bytes, &err));
        pco_json_write_number(&writer, -0.125);
        pco_write_char(&json, 0);
        assert_true(pco_number_read("2.25.5", &end) == 2.25 && strcmp(end, ".5") == 0);
        (void)setlocale(LC_NUMERIC, "C");
        pco_template_destroy(template);
        assert_string_equal(text, "1.75 5.0 1e-07 1500.0");
        assert_string_equal(json.data, "-0.125");
        pco_writer_release(&json);
        free(text);
    }
    cJSON_Delete(none);
    if (!made) skip();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_bounds), cmocka_unit_test(test_locales)};
    n_files = argc - 1;
    files = argv + 1;
    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, check_make_folder, check_remove_folder);
}
