#include "cli/cli.h"

#include "base/printable.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cli_error(const char *format, ...)
{
    char line[PCO_PRINTABLE_LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    pco_printable_line(line, sizeof line);
    fprintf(stderr, "portico: %s\n", line);
}

void cli_note(const char *format, ...)
{
    char line[PCO_PRINTABLE_LINE];
    const size_t end = strlen(format);
    const int ends = end && format[end - 1] == '\n';
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (ends && length > 0 && (size_t)length < sizeof line) line[length - 1] = 0;
    pco_printable_line(line, sizeof line);
    fprintf(stderr, ends ? "%s\n" : "%s", line);
}

void cli_text(FILE *out, const char *text)
{
    char shown[4 * PCO_PRINTABLE_MOST];
    for (size_t left = strlen(text), taken; left; left -= taken, text += taken)
        fwrite(shown, 1, pco_printable_next(text, left, shown, &taken), out);
}

int cli_fail(const pco_error *err)
{
    cli_error("%s", err->message);
    return CLI_FAILED;
}

int cli_print(pco_writer *text)
{
    pco_error err;
    const int status = pco_writer_check(text, "what would be printed", &err) ? cli_fail(&err) : CLI_OK;
    if (!status && text->size) fwrite(text->data, 1, text->size, stdout); /* errors of stdout are seen at the end */
    pco_writer_release(text);
    return status;
}

void cli_wrap(const char *text, int column, int indent)
{
    enum { COLUMNS = 100 };
    for (const char *at = text; *at;) {
        int length = (int)strcspn(at, " ");
        if (at != text && column + 1 + length > COLUMNS)
            printf("\n%*s", column = indent, "");
        else if (at != text)
            column += printf(" ");
        column += printf("%.*s", length, at);
        at += length + (at[length] == ' ');
    }
    putchar('\n');
}

void cli_append(char *text, size_t size, size_t *used, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text + *used, size - *used, format, args);
    va_end(args);
    if (length > 0) *used = *used + (size_t)length < size ? *used + (size_t)length : size - 1;
}

pco_registry *cli_registry(const char *device, int *status)
{
    pco_config config;
    pco_registry *registry = NULL;
    pco_error err;
    if (pco_config_read(&config, &err)) {
        cli_error("%s", err.message);
        *status = CLI_USAGE;
        return NULL;
    }
    if (pco_registry_create_for(&config, device ? device : "", &registry, &err))
        *status = cli_fail(&err);
    else
        pco_registry_watch(registry, cli_interrupted_flag());
    cli_keep_signals();
    return registry;
}

/* Was a plugin named that was found, and cannot be used? It is known by its file only. */
static void cli_explain_plugins(const pco_registry *registry, const char *selection)
{
    const pco_plugin_entry *plugins;
    uint32_t count = pco_registry_plugins(registry, &plugins);
    for (const char *at = selection; at && *at; at += strcspn(at, ",+"), at += *at != 0) {
        size_t length = strcspn(at, ",:+");
        for (uint32_t i = 0; i < count; i++) {
            const char *slash = strrchr(plugins[i].path, '/'), *name = slash ? slash + 1 : plugins[i].path;
            if (plugins[i].plugin || strlen(name) != length + 3 || strncmp(name, at, length) != 0) continue;
            cli_error("plugin %s is not used: %s", plugins[i].path, plugins[i].reason);
        }
    }
}

/* As pco_registry_select_sets; what matches nothing, and what names all, is looked for among all plugins. */
static pco_status cli_find_sets(pco_registry *registry, const char *selection, pco_device_set *sets, uint32_t capacity,
                                uint32_t *count, pco_error *err)
{
    int more = 0;
    pco_status status = PCO_OK;
    if (strcmp(selection, "all") == 0) status = pco_registry_complete(registry, &more, err);
    if (!status) status = pco_registry_select_sets(registry, selection, sets, capacity, count, err);
    if (status != PCO_ERROR_NOT_FOUND) return status;
    pco_error why;
    if (pco_registry_complete(registry, &more, &why) || !more) return status;
    return pco_registry_select_sets(registry, selection, sets, capacity, count, err);
}

int cli_check_device(pco_registry *registry, const char *selection, int *status)
{
    pco_error err;
    pco_device_set set;
    uint32_t count;
    if (!selection || !*selection) selection = pco_registry_config(registry)->backend;
    if (cli_find_sets(registry, selection, &set, 1, &count, &err) == PCO_OK) return 1;
    *status = cli_fail(&err);
    cli_explain_plugins(registry, selection);
    if (selection && *selection) *status = CLI_USAGE;
    return 0;
}

/* Checks one term of a list and appends the sets that it names. */
static int cli_select_term(pco_registry *registry, const char *term, pco_device_set *sets, uint32_t capacity,
                           uint32_t *count)
{
    pco_error err;
    pco_device_set *found = calloc(capacity, sizeof *found);
    uint32_t n = 0;
    if (!found || cli_find_sets(registry, term, found, capacity, &n, &err)) {
        cli_error("%s", found ? err.message : "out of host memory");
        free(found);
        return 0;
    }
    for (uint32_t i = 0; i < n && i < capacity; i++) {
        uint32_t known = 0;
        while (known < *count && memcmp(&sets[known], &found[i], sizeof *found) != 0) known++;
        if (known == *count && *count < capacity) sets[(*count)++] = found[i];
    }
    free(found);
    return 1;
}

static void cli_no_memory(int *status)
{
    cli_error("out of host memory for the list of devices");
    *status = CLI_FAILED;
}

/* The sets of a list; the caller frees *sets. */
static uint32_t cli_select_list(pco_registry *registry, const char *list, pco_device_set **sets, int *status)
{
    const pco_device_entry *devices;
    *sets = NULL;
    if (!cli_check_device(registry, list, status)) return 0;
    uint32_t count = 0, capacity = pco_registry_devices(registry, &devices) + 1;
    for (const char *at = list; at && *at; at++) capacity += *at == ',';
    *sets = calloc(capacity, sizeof **sets);
    if (!*sets) {
        cli_no_memory(status);
        return 0;
    }
    *status = CLI_FAILED;
    if (!list) {
        cli_select_term(registry, pco_registry_config(registry)->backend, *sets, capacity, &count);
        return count ? 1 : 0;
    }
    for (const char *at = list, *next; at; at = next) {
        char term[256];
        size_t length = strcspn(at, ",");
        snprintf(term, sizeof term, "%.*s", (int)length, at);
        next = at[length] ? at + length + 1 : NULL;
        if (*term && cli_select_term(registry, term, *sets, capacity, &count)) continue;
        if (!*term) cli_error("an empty term in the list of devices '%s'", list);
        *status = CLI_USAGE;
        return 0;
    }
    return count;
}

uint32_t cli_select_sets(pco_registry *registry, const char *list, pco_device_entry **entries, int *status)
{
    pco_device_set *sets;
    uint32_t count = cli_select_list(registry, list, &sets, status);
    *entries = count ? calloc(count, sizeof **entries) : NULL;
    if (count && !*entries) cli_no_memory(status);
    for (uint32_t i = 0; *entries && i < count; i++) pco_registry_describe_set(registry, &sets[i], &(*entries)[i]);
    free(sets);
    return *entries ? count : 0;
}

uint32_t cli_select_devices(pco_registry *registry, const char *list, uint32_t **indices, int *status)
{
    pco_device_set *sets;
    uint32_t count = cli_select_list(registry, list, &sets, status);
    *indices = count ? calloc(count, sizeof **indices) : NULL;
    if (count && !*indices) cli_no_memory(status), count = 0;
    for (uint32_t i = 0; i < count; i++) {
        (*indices)[i] = sets[i].devices[0];
        if (sets[i].count == 1) continue;
        cli_error("devices joined with + cannot be taken one by one; separate them with commas");
        *status = CLI_USAGE;
        count = 0;
    }
    free(sets);
    return count;
}

char *cli_quote(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:,+=@%-";
    char *word = malloc(4 * strlen(text) + 3), *at = word;
    if (!word) return NULL;
    if (*text && strspn(text, plain) == strlen(text)) return strcpy(word, text);
    *at++ = '\'';
    for (; *text; text++) {
        if (*text == '\'') {
            memcpy(at, "'\\'", 3); /* the quote ends, one comes by itself, the quote goes on */
            at += 3;
        }
        *at++ = *text;
    }
    *at++ = '\'';
    *at = 0;
    return word;
}

char *cli_bytes(uint64_t bytes, char *text)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 4) value /= 1024, unit++;
    snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}
