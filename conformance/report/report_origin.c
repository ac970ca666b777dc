/* Where a report comes from: the system that it was made on, and the reproducers that lie beside it. */
#include "report/report_parts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

/* The value of PRETTY_NAME in os-release(5), without its quotes. */
static bool conf_origin_name(const char *path, char *out, size_t size)
{
    static const char KEY[] = "PRETTY_NAME=";
    char line[512];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        if (strncmp(line, KEY, sizeof KEY - 1) != 0) continue;
        char *value = line + sizeof KEY - 1;
        value[strcspn(value, "\n")] = 0;
        const char quote = *value;
        if (quote == '"' || quote == '\'') value[strcspn(value + 1, quote == '"' ? "\"" : "'") + 1] = 0, value++;
        snprintf(out, size, "%.*s", (int)size - 1, value);
        found = *value != 0;
    }
    if (file) fclose(file);
    return found;
}

void conf_origin_system(pco_conformance_report *report)
{
    struct utsname system;
    const bool known = uname(&system) == 0;
    snprintf(report->kernel, sizeof report->kernel, "%.60s %.120s %.60s", known ? system.sysname : "unknown",
             known ? system.release : "", known ? system.machine : "");
    if (!conf_origin_name("/etc/os-release", report->os, sizeof report->os) &&
        !conf_origin_name("/usr/lib/os-release", report->os, sizeof report->os))
        snprintf(report->os, sizeof report->os, "%.60s", known ? system.sysname : "unknown");
}

bool conf_origin_reproducer(const pco_conformance_report *report, uint32_t device, const pco_conformance_case *one,
                            char *path, size_t size)
{
    char name[256], full[PATH_MAX], real[PATH_MAX], home[PATH_MAX];
    struct stat st;
    const char *folder = report->reproducers ? report->reproducers[device] : NULL;
    *path = 0;
    if (!folder || !pco_conformance_state_is_bad(one->state)) return false;
    pco_conformance_reproducer_name(one, name, sizeof name);
    const int length = snprintf(full, sizeof full, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof full || stat(full, &st) != 0 || !S_ISDIR(st.st_mode)) return false;
    if (!realpath(full, real)) return false;
    const size_t root = report->folder && realpath(report->folder, home) ? strlen(home) : 0;
    const bool inside = root && strncmp(real, home, root) == 0 && real[root] == '/';
    snprintf(path, size, "%s", inside ? real + root + 1 : real); /* a report's folder can be moved as a whole */
    return true;
}
