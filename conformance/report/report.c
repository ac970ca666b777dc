/* A report's folder: three files, each written whole or not at all, report.json last. */
#include "report/report_parts.h"

#include "base/error.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Are all files in it ours? An empty folder is fine; so is one whose writing was cut short. */
static pco_status conf_report_check_contents(const char *folder, pco_error *err)
{
    static const char *const NAMES[] = {"report.json", "report.html", "junit.xml", "reproducers"};
    DIR *entries = opendir(folder);
    if (!entries) return pco_fail(err, PCO_ERROR_INVALID, "%s: cannot be read: %s", folder, strerror(errno));
    pco_status status = PCO_OK;
    bool ours = false;
    char other[256] = "";
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        bool known = false;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
            size_t length = strlen(NAMES[i]);
            known |= strncmp(entry->d_name, NAMES[i], length) == 0 &&
                     (entry->d_name[length] == 0 || entry->d_name[length] == '.');
        }
        if (strcmp(entry->d_name, NAMES[0]) == 0) ours = true;
        if (!known) snprintf(other, sizeof other, "%s", entry->d_name);
    }
    closedir(entries);
    if (*other && !ours)
        status = pco_fail(err, PCO_ERROR_INVALID,
                          "%s: holds '%.80s' and no conformance report; name a new or an empty folder", folder, other);
    return status;
}

pco_status pco_conformance_report_check_folder(const char *folder, pco_error *err)
{
    cJSON *root;
    char path[1024];
    struct stat st;
    if (!*folder || strlen(folder) > 900)
        return pco_fail(err, PCO_ERROR_INVALID, "'%.40s' is no name for a folder", folder);
    if (stat(folder, &st) != 0) {
        if (errno == ENOENT) return PCO_OK;
        return pco_fail(err, PCO_ERROR_INVALID, "%s: %s", folder, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode)) return pco_fail(err, PCO_ERROR_INVALID, "%s: not a folder", folder);
    pco_status status = conf_report_check_contents(folder, err);
    conf_report_path(path, sizeof path, folder, "report.json");
    if (status || stat(path, &st) != 0) return status;
    if (conf_report_load(folder, &root, err))
        return pco_fail_prefix(err, PCO_ERROR_INVALID, "the folder holds another report.json");
    cJSON_Delete(root);
    return PCO_OK;
}

static pco_status conf_report_make_folder(const char *folder, pco_error *err)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", folder);
    for (char *at = path + 1;; at++) {
        if (*at != '/' && *at != 0) continue;
        char kept = *at;
        *at = 0;
        if (mkdir(path, 0755) != 0 && errno != EEXIST)
            return pco_fail(err, PCO_ERROR_IO, "%s: cannot be created: %s", path, strerror(errno));
        *at = kept;
        if (!kept) break;
    }
    return PCO_OK;
}

/* Writes a text to FOLDER/NAME when `status` is OK, and releases it; `digest` (may be NULL) is the text's. */
static pco_status conf_report_save(pco_writer *text, const char *folder, const char *name, char *digest,
                                   pco_status status, pco_error *err)
{
    char path[1024];
    if (digest) {
        pco_sha256 sha;
        pco_sha256_start(&sha);
        pco_sha256_add(&sha, text->data, text->size);
        pco_sha256_finish_text(&sha, digest);
    }
    conf_report_path(path, sizeof path, folder, name);
    if (!status) status = pco_writer_save(text, path, err);
    pco_writer_release(text);
    return status;
}

static pco_status conf_report_html(const char *folder, const pco_conformance_report *report,
                                   const pco_conformance_comparison *comparison, char *digest, pco_error *err)
{
    pco_writer html = {0};
    pco_status status = conf_html_write(report, comparison, &html, err);
    return conf_report_save(&html, folder, "report.html", digest, status, err);
}

static pco_status conf_report_junit(const char *folder, const pco_conformance_report *report, char *digest,
                                    pco_error *err)
{
    pco_writer junit = {0};
    conf_junit_write(report, &junit);
    return conf_report_save(&junit, folder, "junit.xml", digest, PCO_OK, err);
}

static pco_status conf_report_json(const char *folder, const pco_conformance_report *report,
                                   const pco_conformance_comparison *comparison, const char *html, const char *junit,
                                   pco_error *err)
{
    pco_writer json = {0};
    cJSON *root;
    pco_status status = conf_tree_make(report, comparison, true, &root, err);
    if (status) return status;
    cJSON *files = cJSON_AddObjectToObject(root, "files");
    if (!cJSON_AddStringToObject(files, "report.html", html) || !cJSON_AddStringToObject(files, "junit.xml", junit))
        status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report");
    if (!status) status = conf_seal(root, err);
    if (!status) {
        conf_tree_print(root, &json);
        status = conf_report_save(&json, folder, "report.json", NULL, PCO_OK, err);
    }
    cJSON_Delete(root);
    return status;
}

pco_status pco_conformance_report_write(const char *folder, const pco_conformance_report *report,
                                        const pco_conformance_comparison *comparison, pco_error *err)
{
    char html[PCO_SHA256_TEXT], junit[PCO_SHA256_TEXT];
    pco_conformance_report whole = *report;
    time_t now = time(NULL);
    struct tm utc;
    snprintf(whole.program, sizeof whole.program, "%s", PCO_VERSION);
    strftime(whole.written, sizeof whole.written, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    whole.folder = folder;
    conf_origin_system(&whole);
    whole.suite_version = PCO_CONFORMANCE_SUITE_VERSION;
    pco_conformance_suite_hash(report->options.tier, whole.suite_hash);
    pco_status status = pco_conformance_report_check_folder(folder, err);
    if (!status) status = conf_report_make_folder(folder, err);
    if (!status) status = conf_report_html(folder, &whole, comparison, html, err);
    if (!status) status = conf_report_junit(folder, &whole, junit, err);
    if (!status) status = conf_report_json(folder, &whole, comparison, html, junit, err);
    return status;
}
