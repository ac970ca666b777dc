/* What a report says: values that are put into the results and have to be read in report.json and on the page. */
#define CHECK_FOLDER
#include "check.h"

#include "base/file.h"
#include "formats/json.h"
#include "made_up_report.h"

/* The files of a report, of which the first device is looked at. */
typedef struct written {
    cJSON *root, *device;
    char *page;
} written;

static written write_report(const pco_conformance_report *report)
{
    char path[100];
    pco_map map;
    written files;
    check_ok(pco_conformance_report_write(check_folder, report, NULL, &err));
    snprintf(path, sizeof path, "%s/report.json", check_folder);
    check_ok(pco_json_load(path, &files.root, &err));
    files.device = cJSON_GetObjectItem(files.root, "conformance")->child;
    snprintf(path, sizeof path, "%s/report.html", check_folder);
    check_ok(pco_map_open(path, &map, &err));
    files.page = calloc(map.size + 1, 1);
    memcpy(files.page, map.data, map.size);
    pco_map_close(&map);
    return files;
}

static void written_clear(written *files)
{
    cJSON_Delete(files->root);
    free(files->page);
}

static void on_page(const written *files, const char *part)
{
    if (!strstr(files->page, part)) fail_msg("the page has no '%s'", part);
}

static void test_constants(void **state)
{
    (void)state;
    pco_conformance_report report = make_report("neg", 1, false);
    written files = write_report(&report);
    char *rows = cJSON_PrintUnformatted(cJSON_GetObjectItem(files.device, "constants"));
    assert_non_null(rows);
    assert_string_equal(rows,
                        "[{\"kernel\":\"matmul <f32>\",\"number\":3,\"name\":\"rows & columns\",\"values\":[16,32]},"
                        "{\"kernel\":\"matmul <f32>\",\"number\":4,\"values\":[-1]},"
                        "{\"kernel\":\"neg\",\"number\":0,\"values\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}]");
    free(rows);
    on_page(&files, "only one</span> (1 of 3).</p>");
    on_page(&files,
            "<tr><th class=\"row\">matmul &#60;f32&#62;</th>"
            "<td class=\"c-tested\">rows &#38; columns: 16, 32</td><td class=\"c-unsupported\">4: -1</td></tr>\n"
            "<tr><th class=\"row\">neg</th><td class=\"c-tested\">"
            "0: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 ...</td></tr>\n</tbody>");
    written_clear(&files);
    report.results[0].n_constants = 0; /* of a plugin that does not describe its launches */
    files = write_report(&report);
    assert_null(cJSON_GetObjectItem(files.device, "constants"));
    assert_null(strstr(files.page, "Specialisation constants"));
    written_clear(&files);
    pco_conformance_report_clear(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_constants)};
    return cmocka_run_group_tests_name("report_page", tests, check_make_folder, check_remove_folder);
}
