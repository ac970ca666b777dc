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

static void in_device(const written *files, const char *name, const char *text)
{
    const cJSON *device = cJSON_GetObjectItem(files->device, "device");
    const char *found = cJSON_GetStringValue(cJSON_GetObjectItem(device, name));
    if (!found || strcmp(found, text) != 0) fail_msg("%s: '%s', expected '%s'", name, found ? found : "(none)", text);
}

/* What a result can be traced to a driver by. */
static void test_driver(void **state)
{
    (void)state;
    pco_conformance_report report = make_report("neg", 1, false);
    pco_device_info *info = report.infos;
    written files = write_report(&report);
    in_device(&files, "driver_file", "/usr/lib/lib<toy>.so");
    in_device(&files, "driver_version", "0.0.1 <v>");
    in_device(&files, "api", "Vulkan 1.3.230 <a>");
    in_device(&files, "vendor_id", "0x1ae0");
    in_device(&files, "device_id", "0xc0de5");
    on_page(&files, "<dt>driver&rsquo;s version</dt><dd>0.0.1 &#60;v&#62;</dd>"
                    "<dt>driver&rsquo;s file</dt><dd>/usr/lib/lib&#60;toy&#62;.so</dd>"
                    "<dt>interface</dt><dd>Vulkan 1.3.230 &#60;a&#62;</dd>"
                    "<dt>ids</dt><dd>vendor 0x1ae0, device 0xc0de5</dd>");
    written_clear(&files);
    info->vendor_id = info->device_id = 0; /* unknown: the page does not say it */
    info->api[0] = info->driver_version[0] = info->driver_file[0] = 0;
    files = write_report(&report);
    in_device(&files, "driver_file", "");
    in_device(&files, "vendor_id", "0x0000");
    on_page(&files, "<dt>driver</dt><dd>toy 1.0 &#34;beta&#34;</dd><dt>type</dt>");
    written_clear(&files);
    pco_conformance_report_clear(&report);
}

/* All cases of an op end in `state`. */
static void op_ends(pco_conformance_result *result, uint32_t op, pco_conformance_state state)
{
    for (uint32_t i = 0; i < result->n_cases; i++) {
        pco_conformance_case *one = &result->cases[i];
        if (one->op != op) continue;
        result->count[one->state]--, result->count[state]++;
        one->state = state;
        snprintf(one->detail, sizeof one->detail, "no unit for %s", one->op_name);
    }
    for (uint32_t i = 0; i < result->n_ops; i++) {
        pco_conformance_op *row = &result->ops[i];
        if (row->op != op) continue;
        const uint32_t cases = row->count[PCO_CASE_PASS];
        memset(row->count, 0, sizeof row->count);
        row->count[state] = cases;
    }
}

/* The table of verdicts has what was tested; the rest is one line below it, and reasons further down. */
static void test_refused(void **state)
{
    (void)state;
    pco_conformance_report report = make_report("neg,add,softmax", 1, false);
    written files = write_report(&report);
    on_page(&files, "<tr><td class=\"op\">add</td><td class=\"verdict\">");
    assert_null(strstr(files.page, "only refused, or not promised: see below"));
    written_clear(&files);
    op_ends(&report.results[0], PCO_OP_ADD, PCO_CASE_UNSUPPORTED);
    op_ends(&report.results[0], PCO_OP_SOFTMAX, PCO_CASE_NOT_PROMISED);
    files = write_report(&report);
    on_page(&files, "<tr><td class=\"op\">neg</td><td class=\"verdict\"><span class=\"pill pass\">pass</span>");
    on_page(&files,
            "</tbody></table>\n<p class=\"note\">2 more operations were only refused, or not promised: see below.");
    assert_null(strstr(files.page, "<td class=\"op\">add</td><td class=\"verdict\">"));
    assert_null(strstr(files.page, "<td class=\"op\">softmax</td><td class=\"verdict\">"));
    const char *below = strstr(files.page, "see below");
    assert_non_null(strstr(below, "<td>no unit for add</td>"));
    assert_non_null(strstr(below, "<td>no unit for softmax</td>"));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(files.device, "ops")), 3);
    written_clear(&files);
    pco_conformance_report_clear(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_constants), cmocka_unit_test(test_driver),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("report_page", tests, check_make_folder, check_remove_folder);
}
