#include "cli/train_log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/writer.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "formats/json.h"

static const char log_header[] = "step,loss,learning_rate,grad_norm,tokens,seconds,validation_loss\n",
                  log_scaled_header[] = "step,loss,learning_rate,grad_norm,tokens,seconds,loss_scale,validation_loss\n";

static int log_is_json(const char *path, int *json)
{
    const char *dot = strrchr(path, '.');
    *json = dot && strcmp(dot, ".jsonl") == 0;
    return dot && (*json || strcmp(dot, ".csv") == 0);
}

int train_log_check(const char *path)
{
    int json;
    if (log_is_json(path, &json)) return 1;
    cli_error("%s: a log ends in .csv or .jsonl", path);
    return 0;
}

/* The step of a line, or -1. */
static int64_t log_step(const char *line, int json)
{
    int64_t step = -1;
    if (sscanf(line, json ? "{\"step\":%" SCNd64 : "%" SCNd64, &step) != 1) return -1;
    return step;
}

static int log_is_header(const char *line) { return strncmp(line, "step,", 5) == 0; }

/* Keeps the lines of steps up to `last`, whole ones only. */
static int log_cut(const char *path, int json, int64_t last)
{
    char *text = NULL;
    size_t size = 0, kept = 0;
    pco_error err;
    if (!cli_read_text(path, &text, &size)) return 0;
    for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
        int header = !json && at == text && log_is_header(at);
        int64_t step = log_step(at, json);
        if (!header && (step < 0 || step > last)) continue;
        size_t length = (size_t)(end + 1 - at);
        memmove(text + kept, at, length);
        kept += length;
    }
    int good = pco_file_write(path, text, kept, &err) == PCO_OK;
    if (!good) cli_error("%s", err.message);
    free(text);
    return good;
}

static int log_good(pco_status status, const pco_error *err)
{
    if (status) cli_error("%s", err->message);
    return status == PCO_OK;
}

/* Does the file begin as a log does? An empty one may become a log; all else belongs to somebody else. */
static int log_is_ours(const train_log *log)
{
    char start[64];
    const ssize_t size = pread(log->fd, start, sizeof start - 1, 0);
    if (size == 0) return 1;
    if (size < 0) {
        cli_error("%s cannot be read: %s", log->path, strerror(errno));
        return 0;
    }
    start[size] = 0;
    if (log->json ? log_step(start, 1) >= 0 : log_is_header(start)) return 1;
    cli_error("%s: this file is no log of a training, and is left as it is; use another one", log->path);
    return 0;
}

/* Opens the file: cut behind step `resume_after`, or empty when that is -1. What is no regular file is only
 * written. */
static int log_open_file(train_log *log, int64_t resume_after)
{
    pco_error err;
    int is_regular;
    if (pco_file_open_log(log->path, &log->fd, &is_regular, &err)) return log_good(PCO_ERROR_IO, &err);
    if (is_regular && !log_is_ours(log)) return 0;
    if (!is_regular || resume_after < 0) {
        if (!is_regular || ftruncate(log->fd, 0) == 0) return 1;
        cli_error("%s cannot be written: %s", log->path, strerror(errno));
        return 0;
    }
    close(log->fd); /* what is kept becomes a new file */
    log->fd = -1;
    return log_cut(log->path, log->json, resume_after) &&
           log_good(pco_file_open_log(log->path, &log->fd, &is_regular, &err), &err);
}

int train_log_open(train_log *log, const char *path, int64_t resume_after, int scaled)
{
    *log = (train_log){.path = path, .fd = -1, .scaled = scaled};
    if (!path) return 1;
    if (!log_is_json(path, &log->json)) return train_log_check(path);
    const char *slash = strrchr(path, '/');
    char *folder = slash && slash > path ? strndup(path, (size_t)(slash - path)) : NULL;
    pco_error err;
    if (folder && pco_folder_make(folder, &err)) {
        cli_error("%s", err.message);
        free(folder);
        return 0;
    }
    free(folder);
    if (!log_open_file(log, resume_after)) return 0;
    if (log->json || lseek(log->fd, 0, SEEK_END) > 0) return 1;
    const char *header = scaled ? log_scaled_header : log_header;
    return log_good(pco_file_send(log->fd, header, strlen(header), path, &err), &err);
}

int train_log_write(train_log *log, const train_record *r)
{
    if (!log->path) return 1;
    pco_error err;
    pco_writer line = {0};
    char norm[32] = "null"; /* JSON has no infinity */
    if (!log->json || isfinite(r->grad_norm)) snprintf(norm, sizeof norm, "%.9g", r->grad_norm);
    pco_print(&line,
              log->json ? "{\"step\":%" PRId64
                          ",\"loss\":%.9g,\"learning_rate\":%.9g,\"grad_norm\":%s,\"tokens\":%" PRId64
                          ",\"seconds\":%.3f"
                        : "%" PRId64 ",%.9g,%.9g,%s,%" PRId64 ",%.3f",
              r->step, r->loss, r->learning_rate, norm, r->tokens, r->seconds);
    if (log->scaled) pco_print(&line, log->json ? ",\"loss_scale\":%.9g" : ",%.9g", r->loss_scale);
    if (log->json)
        pco_print(&line, isnan(r->validation_loss) ? "}\n" : ",\"validation_loss\":%.9g}\n", r->validation_loss);
    else
        pco_print(&line, isnan(r->validation_loss) ? ",\n" : ",%.9g\n", r->validation_loss);
    pco_status status = pco_writer_flush(&line, log->fd, log->path, &err);
    pco_writer_release(&line);
    return log_good(status, &err);
}

void train_log_close(train_log *log)
{
    if (log->path && log->fd >= 0) close(log->fd);
    log->path = NULL;
}

/* ---- reading ---- */

static int log_parse_json(const char *line, size_t size, train_record *r)
{
    cJSON *root;
    pco_error err;
    if (pco_json_parse(line, size, "log", &root, &err)) return 0;
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(root, "step"),
                *loss = cJSON_GetObjectItemCaseSensitive(root, "loss"),
                *validation = cJSON_GetObjectItemCaseSensitive(root, "validation_loss");
    int good = pco_json_whole(step, &r->step) && cJSON_IsNumber(loss);
    if (good) {
        r->loss = loss->valuedouble;
        if (cJSON_IsNumber(validation)) r->validation_loss = validation->valuedouble;
    }
    cJSON_Delete(root);
    return good;
}

static int log_parse_csv(const char *line, train_record *r)
{
    char *end;
    r->step = strtoll(line, &end, 10);
    if (end == line || *end != ',') return 0;
    const char *at = end + 1;
    r->loss = strtod(at, &end);
    if (end == at || *end != ',') return 0;
    const char *last = strrchr(line, ','), *text = last + 1;
    double validation = strtod(text, &end);
    if (end != text) r->validation_loss = validation;
    return 1;
}

/* Numbers that a log can have: an axis from one to the other can be drawn in doubles. */
static int log_plausible(const train_record *r)
{
    return r->step >= 0 && r->step <= INT32_MAX && !(isfinite(r->loss) && fabs(r->loss) > 1e100) &&
           !(isfinite(r->validation_loss) && fabs(r->validation_loss) > 1e100);
}

int train_log_read(const char *path, train_record **records, uint32_t *count)
{
    char *text = NULL;
    size_t size = 0;
    int json;
    uint32_t capacity = 0, line = 0;
    *records = NULL;
    *count = 0;
    if (!train_log_check(path) || !cli_read_text(path, &text, &size)) return 0;
    log_is_json(path, &json);
    for (char *at = text, *end; *at; at = end) {
        train_record r = {.validation_loss = NAN};
        end = at + strcspn(at, "\n");
        size_t length = (size_t)(end - at);
        if (*end) *end++ = 0;
        line++;
        if (length == 0 || (!json && line == 1 && log_is_header(at))) continue;
        if (!(json ? log_parse_json(at, length, &r) : log_parse_csv(at, &r)) || !log_plausible(&r)) {
            cli_error("%s:%u: the line is no record of a training log", path, line);
            free(text);
            return 0;
        }
        if (*count == capacity) {
            train_record *grown = realloc(*records, (capacity = 2 * capacity + 256) * sizeof *grown);
            if (!grown) {
                cli_error("out of host memory for %s", path);
                free(text);
                return 0;
            }
            *records = grown;
        }
        (*records)[(*count)++] = r;
    }
    free(text);
    if (*count == 0) cli_error("%s holds no records", path);
    return *count > 0;
}
