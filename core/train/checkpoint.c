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
static const char checkpoint_file[] = "checkpoint.safetensors", checkpoint_note[] = "portico.train",
                  checkpoint_config[] = "config.json", checkpoint_model[] = "model.safetensors",
                  checkpoint_lock[] = "training.lock";

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

const char *trainer_kept(const pco_trainer *trainer)
{
    return trainer_has_checkpoint(trainer) ? "the last checkpoint is kept" : "no checkpoint was written yet";
}

/* ---- writing ---- */

pco_status trainer_take_folder(pco_trainer *trainer, pco_error *err)
{
    const char *out = trainer->config->out;
    pco_error why = {""};
    if (trainer->lock.held || trainer->unlocked || !pco_is_directory(out)) return PCO_OK;
    char *path = trainer_path(trainer, checkpoint_lock);
    pco_status status = path ? pco_lock_take(&trainer->lock, path, &why) : trainer_no_memory(err);
    free(path);
    if (status == PCO_ERROR_INVALID)
        return pco_fail(err, status, "%s: %s trains into this folder; wait for it, or give --out another one", out,
                        why.message);
    if (status == PCO_ERROR_OUT_OF_HOST_MEMORY) return trainer_no_memory(err);
    if (status == PCO_ERROR_UNSUPPORTED &&
        asprintf(&trainer->unlocked, "%s; nothing keeps a second training out of this folder", why.message) < 0) {
        trainer->unlocked = NULL;
        return trainer_no_memory(err);
    }
    if (status == PCO_ERROR_IO && access(out, W_OK | X_OK) == 0) /* as of another user, who may train there */
        return pco_fail(err, status, "%s; without this lock two trainings could write here", why.message);
    return PCO_OK; /* a folder that cannot be written to is found by trainer_check_folder */
}

pco_status trainer_check_folder(const pco_trainer *trainer, pco_error *err)
{
    const char *out = trainer->config->out;
    pco_status status = pco_folder_make(out, err);
    if (!status && access(out, W_OK | X_OK) != 0)
        status = pco_fail(err, PCO_ERROR_IO, "%s: the folder cannot be written to: %s", out, strerror(errno));
    const char *const names[] = {checkpoint_file, checkpoint_config,     checkpoint_model,
                                 "model.gguf",    "adapter_config.json", "adapter_model.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++) {
        char *path = trainer_path(trainer, names[i]);
        if (path) pco_file_clear(path);
        free(path);
    }
    return status;
}

/* Keys of "data" in the note, and what they are the digest of. */
static const char *const checkpoint_vocabularies[] = {"source_vocabulary", "target_vocabulary"};

static int checkpoint_note_data(const pco_trainer *trainer, cJSON *note)
{
    const pco_data_digests *digests = pco_data_digest(trainer->data);
    cJSON *data = cJSON_AddObjectToObject(note, "data");
    int good = data && (!*digests->file || cJSON_AddStringToObject(data, "file", digests->file));
    for (int side = 0; side < 2 && good; side++)
        good = cJSON_AddStringToObject(data, checkpoint_vocabularies[side], digests->vocabulary[side]) != NULL;
    return good;
}

/* The note: step, config and digests of the data. malloc'ed. */
static char *checkpoint_make_note(const pco_trainer *trainer)
{
    cJSON *note = cJSON_CreateObject();
    char *text = NULL;
    if (note && cJSON_AddNumberToObject(note, "format", CHECKPOINT_FORMAT) &&
        cJSON_AddNumberToObject(note, "step", (double)trainer->step) &&
        cJSON_AddNumberToObject(note, "batches", (double)pco_trainer_batches(trainer)) &&
        pco_loss_scale_note(&trainer->scale, note) &&
        pco_json_give(note, "config", cJSON_Duplicate(trainer->config->root, 1)) && checkpoint_note_data(trainer, note))
        text = cJSON_PrintUnformatted(note);
    cJSON_Delete(note);
    return text;
}

static pco_status checkpoint_write(const pco_trainer *trainer, const char *name, const pco_state_set *set, char *note,
                                   pco_error *err)
{
    char key[] = "portico.train";
    const pco_weights_note notes[] = {{key, note}};
    char *path = trainer_path(trainer, name);
    if (!path) return trainer_no_memory(err);
    pco_status status = pco_safetensors_write(path, set->items, set->count, notes, 1, err);
    free(path);
    return status;
}

/* A model's config that is not the one that was trained would be worse than none. */
static pco_status checkpoint_check_config(void *user, const void *data, size_t size, pco_error *err)
{
    const pco_trainer *trainer = user;
    cJSON *back = NULL;
    pco_status status = pco_json_parse(data, size, checkpoint_config, &back, err);
    if (!status && !cJSON_Compare(back, trainer->document, 1))
        status = pco_fail(err, PCO_ERROR_INTERNAL, "%s/%s: reads back other than it was meant; nothing was replaced",
                          trainer->config->out, checkpoint_config);
    cJSON_Delete(back);
    return status;
}

static pco_status checkpoint_write_config(const pco_trainer *trainer, pco_error *err)
{
    char *path = trainer_path(trainer, checkpoint_config), *text = cJSON_Print(trainer->document), *lines = NULL;
    int size = text ? asprintf(&lines, "%s\n", text) : -1;
    pco_status status = path && size >= 0 ? pco_file_write_checked(path, lines, (size_t)size, checkpoint_check_config,
                                                                   (void *)(uintptr_t)trainer, err)
                                          : trainer_no_memory(err);
    if (size >= 0) free(lines);
    cJSON_free(text);
    free(path);
    return status;
}

/* The weights alone. */
static pco_status checkpoint_write_model(const pco_trainer *trainer, const pco_state_set *set, pco_error *err)
{
    if (!trainer->document) {
        pco_weight *items = pco_state_set_model(set, trainer->training.count);
        pco_status written =
            items ? trainer_base_write(trainer, items, trainer->training.count, err) : trainer_no_memory(err);
        free(items);
        return written;
    }
    char *path = trainer_path(trainer, checkpoint_model);
    pco_status status =
        path ? pco_state_set_write_model(set, trainer->training.count, path, err) : trainer_no_memory(err);
    free(path);
    return status;
}

static pco_status checkpoint_save(const pco_trainer *trainer, pco_error *err)
{
    pco_state_set set = {NULL, 0};
    char *note = checkpoint_make_note(trainer);
    pco_status status = note ? pco_folder_make(trainer->config->out, err) : trainer_no_memory(err);
    if (!status)
        status = pco_state_set_read(&set, trainer->session, &trainer->training, trainer->config->optimizer.type,
                                    trainer->step, trainer_kept(trainer), err);
    if (!status && trainer->document) status = checkpoint_write_config(trainer, err);
    if (!status) status = checkpoint_write_model(trainer, &set, err);
    /* last: a run that is killed in between goes on from the one before, and makes the model anew */
    if (!status) status = checkpoint_write(trainer, checkpoint_file, &set, note, err);
    pco_state_set_release(&set);
    cJSON_free(note);
    return status;
}

pco_status pco_trainer_save(pco_trainer *trainer, pco_error *err)
{
    pco_status status = trainer->ranks ? trainer_ranks_compare(trainer, err) : PCO_OK;
    if (status) return status;
    if (pco_ranks_rank(trainer->ranks) == 0) status = checkpoint_save(trainer, err);
    return pco_ranks_agree(trainer->ranks, status, 0, err);
}

/* ---- reading ---- */

static int checkpoint_is(const cJSON *data, const char *key, const char *digest)
{
    const char *said = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(data, key));
    return said ? strcmp(said, digest) == 0 : !*digest;
}

/* Ids of another vocabulary mean other tokens, so that is never gone on with; another file may be meant. */
static pco_status checkpoint_check_data(const pco_trainer *trainer, const cJSON *note, const char *label,
                                        pco_train_resume resume, pco_error *err)
{
    const pco_data_digests *digests = pco_data_digest(trainer->data);
    const pco_data_config *config = &trainer->config->data;
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(note, "data");
    if (!data && resume != PCO_TRAIN_RESUME_CHANGED)
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s does not say on what data it was trained; --changed-data goes on with those that "
                        "the config names",
                        label);
    for (int side = 0; side < 2 && data; side++) {
        const pco_data_tokenizer *how = &config->tokenizer[config->share_vocabulary ? 1 : side];
        const char *from = how->file ? how->file : config->file ? config->file : "this version";
        if (checkpoint_is(data, checkpoint_vocabularies[side], digests->vocabulary[side])) continue;
        if (trainer->base)
            return pco_fail(err, PCO_ERROR_FORMAT,
                            "%s began with another model than %s is now; bring back what it was, or start again with "
                            "another --out",
                            label, trainer->config->from);
        return pco_fail(err, PCO_ERROR_FORMAT,
                        "%s has another vocabulary than %s gives now; bring back what it was, or start again "
                        "with another --out",
                        label, from);
    }
    if (resume == PCO_TRAIN_RESUME_CHANGED || checkpoint_is(data, "file", digests->file)) return PCO_OK;
    return pco_fail(err, PCO_ERROR_FORMAT,
                    "%s has changed since %s was written; bring it back, or go on with it as it is now with "
                    "--changed-data",
                    config->file, label);
}

/* Step, config and digests of the note. */
static pco_status checkpoint_read_note(pco_trainer *trainer, const pco_weights *file, pco_train_resume resume,
                                       pco_error *err)
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
    if (!status) status = pco_loss_scale_load(&trainer->scale, note, file->label, trainer->step, err);
    const char *key = config ? pco_train_config_difference(trainer->config->root, config) : "config";
    if (!status && key)
        status = pco_fail(err, PCO_ERROR_FORMAT,
                          "%s is of another run: '%s' differs from the config; --out takes another folder", file->label,
                          key);
    if (!status) status = checkpoint_check_data(trainer, note, file->label, resume, err);
    cJSON_Delete(note);
    return status;
}

pco_status trainer_load(pco_trainer *trainer, pco_train_resume resume, pco_error *err)
{
    pco_weights *file = NULL;
    char *path = trainer_path(trainer, checkpoint_file);
    if (!path) return trainer_no_memory(err);
    pco_status status = pco_safetensors_open(path, &file, err);
    free(path);
    if (status) return status;
    status = checkpoint_read_note(trainer, file, resume, err);
    if (!status)
        status = pco_state_load_all(trainer->session, file, &trainer->training, trainer->config->optimizer.type, err);
    pco_weights_close(file);
    return status;
}
