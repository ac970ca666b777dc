/* Checkpoints: one safetensors file with weights and optimiser ("model.NAME", "adamw.m.NAME" ...) and a note
 * of JSON with the step and the config; and the trained model as a folder that `portico run` takes. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "formats/safetensors.h"
#include "train/trainer_internal.h"

enum { CHECKPOINT_FORMAT = 1 }; /* of the note, and of what the tensors are called */
static const char checkpoint_file[] = "checkpoint.safetensors", checkpoint_note[] = "portico.train";

char *trainer_path(const pco_trainer *trainer, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", trainer->config->out, name) < 0 ? NULL : path;
}

int trainer_has_checkpoint(const pco_trainer *trainer)
{
    char *path = trainer_path(trainer, checkpoint_file);
    int there = path && access(path, F_OK) == 0;
    free(path);
    return there;
}

/* ---- writing ---- */

pco_status trainer_check_folder(const pco_trainer *trainer, pco_error *err)
{
    const char *out = trainer->config->out;
    pco_status status = pco_folder_make(out, err);
    if (!status && access(out, W_OK | X_OK) != 0)
        status = pco_fail(err, PCO_ERROR_IO, "%s: the folder cannot be written to: %s", out, strerror(errno));
    return status;
}

/* Tensors with their values, read from the device. */
typedef struct checkpoint_set {
    pco_weight *items;
    uint32_t count;
} checkpoint_set;

static void checkpoint_release(checkpoint_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        free(set->items[i].name);
        free((void *)set->items[i].data);
    }
    free(set->items);
}

/* Adds the state "prefix NAME" under the name "shown NAME". What is not finite is never written: a checkpoint
 * is one to go on from. */
static pco_status checkpoint_add(const pco_trainer *trainer, checkpoint_set *set,
                                 const pco_nn_parameter *parameter, const char *prefix, const char *shown,
                                 pco_error *err)
{
    char *state = NULL;
    pco_weight *weight = &set->items[set->count++];
    const uint64_t bytes = (uint64_t)trainer_elements(parameter) * sizeof(float);
    *weight = (pco_weight){.dtype = PCO_F32, .rank = parameter->rank, .bytes = bytes};
    memcpy(weight->shape, parameter->shape, sizeof weight->shape);
    weight->data = malloc(bytes ? bytes : 1);
    if (asprintf(&state, "%s%s", prefix, parameter->name) < 0) state = NULL;
    if (asprintf(&weight->name, "%s%s", shown, parameter->name) < 0) weight->name = NULL;
    pco_status status = weight->data && state && weight->name ? PCO_OK : trainer_no_memory(err);
    if (!status) status = pco_session_read_state(trainer->session, state, (void *)weight->data, bytes, err);
    free(state);
    const float *values = weight->data;
    for (uint64_t i = 0; i < bytes / sizeof *values && !status; i++)
        if (!isfinite(values[i]))
            status = pco_fail(err, PCO_ERROR_INVALID,
                              "after step %" PRId64 " tensor '%s' is not finite; the last checkpoint is kept",
                              trainer->step, weight->name);
    return status;
}

/* The note: step and config. malloc'ed. */
static char *checkpoint_make_note(const pco_trainer *trainer)
{
    cJSON *note = cJSON_CreateObject();
    char *text = NULL;
    if (note && cJSON_AddNumberToObject(note, "format", CHECKPOINT_FORMAT) &&
        cJSON_AddNumberToObject(note, "step", (double)trainer->step) &&
        cJSON_AddNumberToObject(note, "batches", (double)pco_trainer_batches(trainer)) &&
        trainer_scale_note(trainer, note) && cJSON_AddItemToObject(note, "config", cJSON_Duplicate(trainer->config->root, 1)))
        text = cJSON_PrintUnformatted(note);
    cJSON_Delete(note);
    return text;
}

static pco_status checkpoint_write(const pco_trainer *trainer, const char *name, const checkpoint_set *set,
                                   char *note, pco_error *err)
{
    char key[] = "portico.train";
    const pco_weights_note notes[] = {{key, note}};
    char *path = trainer_path(trainer, name);
    if (!path) return trainer_no_memory(err);
    pco_status status = pco_safetensors_write(path, set->items, set->count, notes, note ? 1 : 0, err);
    free(path);
    return status;
}

static pco_status checkpoint_write_config(const pco_trainer *trainer, pco_error *err)
{
    char *path = trainer_path(trainer, "config.json"), *text = cJSON_Print(trainer->document), *lines = NULL;
    int size = text ? asprintf(&lines, "%s\n", text) : -1;
    pco_status status =
        path && size >= 0 ? pco_file_write(path, lines, (size_t)size, err) : trainer_no_memory(err);
    if (size >= 0) free(lines);
    cJSON_free(text);
    free(path);
    return status;
}

pco_status pco_trainer_save(pco_trainer *trainer, pco_error *err)
{
    const char *const *prefixes;
    const uint32_t n_prefixes = pco_train_state_prefixes(&trainer->config->optimizer, &prefixes),
                   count = trainer->training.count;
    checkpoint_set set = {calloc((size_t)count * (n_prefixes + 1) + 1, sizeof(pco_weight)), 0};
    char *note = checkpoint_make_note(trainer);
    pco_status status =
        set.items && note ? pco_folder_make(trainer->config->out, err) : trainer_no_memory(err);
    for (uint32_t i = 0; i < count && !status; i++)
        status = checkpoint_add(trainer, &set, &trainer->training.items[i], "", "model.", err);
    for (uint32_t k = 0; k < n_prefixes; k++)
        for (uint32_t i = 0; i < count && !status; i++)
            status =
                checkpoint_add(trainer, &set, &trainer->training.items[i], prefixes[k], prefixes[k], err);
    if (!status) status = checkpoint_write(trainer, checkpoint_file, &set, note, err);
    if (!status) status = checkpoint_write_config(trainer, err);
    if (!status) { /* the weights come first, and are called what the model calls them */
        checkpoint_set weights = {set.items, count};
        for (uint32_t i = 0; i < count; i++)
            memmove(set.items[i].name, set.items[i].name + strlen("model."),
                    strlen(set.items[i].name + strlen("model.")) + 1);
        status = checkpoint_write(trainer, "model.safetensors", &weights, NULL, err);
    }
    checkpoint_release(&set);
    cJSON_free(note);
    return status;
}

/* ---- reading ---- */

pco_status trainer_load_state(const pco_trainer *trainer, const pco_weights *file,
                              const pco_nn_parameter *parameter, const char *prefix, const char *shown,
                              pco_error *err)
{
    char *name = NULL, *state = NULL;
    const pco_weight *weight = NULL;
    if (asprintf(&name, "%s%s", shown, parameter->name) < 0) name = NULL;
    if (asprintf(&state, "%s%s", prefix, parameter->name) < 0) state = NULL;
    pco_status status =
        name && state ? pco_weights_require(file, name, &weight, err) : trainer_no_memory(err);
    if (!status && (weight->dtype != PCO_F32 || weight->rank != parameter->rank ||
                    memcmp(weight->shape, parameter->shape, parameter->rank * sizeof(int64_t)) != 0))
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: tensor '%s' is not F32 or not of the model's shape",
                          file->label, name);
    if (!status) status = pco_session_write_state(trainer->session, state, weight->data, weight->bytes, err);
    free(name);
    free(state);
    return status;
}

/* Step and config of the note. */
static pco_status checkpoint_read_note(pco_trainer *trainer, const pco_weights *file, pco_error *err)
{
    const char *text = pco_weights_note_value(file, checkpoint_note);
    cJSON *note = NULL;
    if (!text) return pco_fail(err, PCO_ERROR_FORMAT, "%s is no checkpoint of portico train", file->label);
    pco_status status = pco_json_parse(text, strlen(text), file->label, &note, err);
    if (status) return status;
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(note, "config");
    int64_t format;
    status = pco_json_int(note, file->label, "format", CHECKPOINT_FORMAT, CHECKPOINT_FORMAT, &format, err);
    if (!status) status = pco_json_int(note, file->label, "step", 0, INT32_MAX, &trainer->step, err);
    if (!status) status = trainer_scale_load(trainer, note, file->label, err);
    const char *key = config ? pco_train_config_difference(trainer->config->root, config) : "config";
    if (!status && key)
        status = pco_fail(err, PCO_ERROR_FORMAT,
                          "%s is of another run: '%s' differs from the config; --out takes another folder",
                          file->label, key);
    cJSON_Delete(note);
    return status;
}

pco_status trainer_load(pco_trainer *trainer, pco_error *err)
{
    const char *const *prefixes;
    const uint32_t n_prefixes = pco_train_state_prefixes(&trainer->config->optimizer, &prefixes);
    pco_weights *file = NULL;
    char *path = trainer_path(trainer, checkpoint_file);
    if (!path) return trainer_no_memory(err);
    pco_status status = pco_safetensors_open(path, &file, err);
    free(path);
    if (status) return status;
    status = checkpoint_read_note(trainer, file, err);
    for (uint32_t i = 0; i < trainer->training.count && !status; i++) {
        const pco_nn_parameter *p = &trainer->training.items[i];
        status = trainer_load_state(trainer, file, p, "", "model.", err);
        for (uint32_t k = 0; k < n_prefixes && !status; k++)
            status = trainer_load_state(trainer, file, p, prefixes[k], prefixes[k], err);
    }
    pco_weights_close(file);
    return status;
}
