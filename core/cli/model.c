#include "cli/model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pco_context *cli_context(const char *device, int *status)
{
    pco_context *context = NULL;
    pco_error err;
    pco_status result = api_context_create(NULL, device ? device : "", &context, &err);
    if (result) {
        *status = cli_fail(&err);
        if (result == PCO_ERROR_INVALID) *status = CLI_USAGE;
        return NULL;
    }
    pco_registry_watch(context->registry, cli_interrupted_flag());
    cli_keep_signals();
    if (cli_check_device(context->registry, device, status)) return context;
    pco_context_destroy(context);
    return NULL;
}

static int model_progress(void *user, double share)
{
    cli_progress *progress = user;
    if (cli_terminal()) cli_progress_update(progress, (uint64_t)(100 * share), 100);
    return cli_interrupted() != 0;
}

pco_status cli_open_model(pco_context *context, const char *path, const pco_model_params *how, pco_model **model,
                          pco_error *err)
{
    pco_status status = cli_open_any_model(context, path, how, model, err);
    if (status) return status;
    const pco_model_file *file = (*model)->file;
    if (!file->spec.encoder_only && !file->spec.sound.bands) return PCO_OK;
    status = file->spec.encoder_only ? api_no_writer(file, err) : api_no_reader(file, err);
    pco_model_close(*model);
    *model = NULL;
    return status;
}

pco_status cli_open_any_model(pco_context *context, const char *path, const pco_model_params *how, pco_model **model,
                              pco_error *err)
{
    cli_progress progress;
    pco_model_params params = *how;
    cli_progress_start(&progress, "loading", "%");
    params.size = sizeof params;
    params.progress = model_progress;
    params.progress_user = &progress;
    pco_status status = pco_model_open(context, path, &params, model, err);
    cli_progress_end(&progress);
    return status;
}

const char *const cli_cache_types[] = {"f32", "f16", "q8_0", NULL};

uint32_t cli_cache_dtype(int word)
{
    static const uint32_t dtypes[] = {PCO_F32, PCO_F16, PCO_Q8_0};
    return dtypes[word];
}

double cli_log_total(const float *logits, int64_t count)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        if ((double)logits[i] > largest) largest = (double)logits[i];
    for (int64_t i = 0; i < count; i++) sum += exp((double)logits[i] - largest);
    return largest + log(sum);
}

/* 0 would keep no token. */
int cli_read_top_p(void *arguments, const char *option, const char *value)
{
    double *top_p = &((cli_generate *)arguments)->params.top_p;
    if (!cli_number(option, value, 0, 1, top_p)) return 0;
    if (*top_p > 0) return 1;
    cli_error("option %s: 0 keeps no token; it is above 0, and at most 1", option);
    return 0;
}

int cli_read_stop(void *arguments, const char *option, const char *value)
{
    cli_generate *generate = arguments;
    if (generate->params.stop_count == CLI_STOPS) {
        cli_error("option %s: at most %d stop strings", option, CLI_STOPS);
        return 0;
    }
    if (!*value) {
        cli_error("option %s: its value is empty", option);
        return 0;
    }
    generate->stops[generate->params.stop_count++] = value;
    generate->params.stop = generate->stops;
    return 1;
}

int cli_read_text(const char *path, char **text, size_t *size)
{
    int is_stdin = strcmp(path, "-") == 0;
    FILE *in = is_stdin ? stdin : fopen(path, "rb");
    size_t capacity = 0, read = 1;
    *text = NULL;
    *size = 0;
    if (!in) {
        cli_error("%s cannot be opened: %s", path, strerror(errno));
        return 0;
    }
    int failed = 0;
    cli_signals_end_reads(1);
    while (read && !failed) {
        if (*size + 1 >= capacity) {
            char *grown = realloc(*text, capacity = 2 * capacity + 65536);
            if (!grown) {
                cli_error("out of host memory for %s", path);
                failed = 1;
                break;
            }
            *text = grown;
        }
        read = fread(*text + *size, 1, capacity - 1 - *size, in);
        *size += read;
    }
    if (!failed && ferror(in)) {
        if (!cli_interrupted()) cli_error("%s cannot be read: %s", path, strerror(errno));
        failed = 1;
    }
    cli_signals_end_reads(0);
    if (!is_stdin) fclose(in);
    if (!failed && memchr(*text, 0, *size)) {
        cli_error("%s contains a NUL byte and is no text", path);
        failed = 1;
    }
    if (failed) {
        free(*text);
        *text = NULL;
        return 0;
    }
    (*text)[*size] = 0;
    return 1;
}
