/* Checkpoints of portico/train.h: one safetensors file with parameters, moments and a note of JSON. */
#include "train/training.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "formats/json.h"
#include "formats/safetensors.h"

enum { TRAINING_FORMAT = 1 }; /* of the note, and of what the tensors are called */
static const char training_note[] = "portico.training", training_kept[] = "nothing was written";
static const char *const training_optimizers[] = {"adamw", "sgd", "adam"};

/* malloc'ed by cJSON; NULL without memory. */
static char *training_make_note(const pco_training *training)
{
    cJSON *note = cJSON_CreateObject();
    char *text = NULL;
    if (note && cJSON_AddNumberToObject(note, "format", TRAINING_FORMAT) &&
        cJSON_AddNumberToObject(note, "step", (double)training->step) &&
        cJSON_AddStringToObject(note, "optimizer", training_optimizers[training->optimizer.type]) &&
        pco_loss_scale_note(&training->scale, note))
        text = cJSON_PrintUnformatted(note);
    cJSON_Delete(note);
    return text;
}

static pco_status training_read_set(const pco_training *training, pco_state_set *set, pco_error *err)
{
    return pco_state_set_read(set, training->session, &training->parameters, training->optimizer.type, training->step,
                              training_kept, err);
}

pco_status pco_training_save(pco_training *training, const char *path, pco_error *err)
{
    PCO_NEEDS(training);
    PCO_NEEDS(path);
    PCO_ENTER(pco_session_registry(training->session));
    char key[] = "portico.training", *text = training_make_note(training);
    const pco_weights_note notes[] = {{key, text}};
    pco_state_set set = {NULL, 0};
    pco_status status = training_has_graph(training, __func__, err);
    if (!status && !text) status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for training");
    if (!status) status = training_read_set(training, &set, err);
    if (!status) status = pco_safetensors_write(path, set.items, set.count, notes, 1, err);
    pco_state_set_release(&set);
    cJSON_free(text);
    return status;
}

pco_status pco_training_save_weights(pco_training *training, const char *path, pco_error *err)
{
    PCO_NEEDS(training);
    PCO_NEEDS(path);
    PCO_ENTER(pco_session_registry(training->session));
    pco_state_set set = {NULL, 0};
    pco_status status = training_has_graph(training, __func__, err);
    if (!status) status = training_read_set(training, &set, err);
    if (!status) status = pco_state_set_write_model(&set, training->parameters.count, path, err);
    pco_state_set_release(&set);
    return status;
}

/* The step and the factor of the loss. */
static pco_status training_read_note(const pco_training *training, const pco_weights *file, int64_t *step,
                                     pco_loss_scale *scale, pco_error *err)
{
    const char *text = pco_weights_note_value(file, training_note);
    cJSON *note = NULL;
    if (!text) return pco_fail(err, PCO_ERROR_FORMAT, "%s is no checkpoint of pco_training_save", file->label);
    pco_status status = pco_json_parse(text, strlen(text), file->label, &note, err);
    if (status) return status;
    const char *optimizer = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(note, "optimizer"));
    const char *wanted = training_optimizers[training->optimizer.type];
    int64_t format;
    status = pco_json_int(note, file->label, "format", TRAINING_FORMAT, TRAINING_FORMAT, &format, err);
    if (!status) status = pco_json_int(note, file->label, "step", 0, INT32_MAX, step, err);
    if (!status) status = pco_loss_scale_load(scale, note, file->label, *step, err);
    if (!status && (!optimizer || strcmp(optimizer, wanted) != 0))
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s is of the optimiser %s, and this one is %s", file->label,
                          optimizer ? optimizer : "(none)", wanted);
    cJSON_Delete(note);
    return status;
}

pco_status pco_training_load(pco_training *training, const char *path, pco_error *err)
{
    PCO_NEEDS(training);
    PCO_NEEDS(path);
    PCO_ENTER(pco_session_registry(training->session));
    pco_weights *file = NULL;
    int64_t step = 0;
    pco_loss_scale scale = training->scale;
    pco_status status = training_has_graph(training, __func__, err);
    if (!status) status = pco_safetensors_open(path, &file, err);
    if (!status) status = training_read_note(training, file, &step, &scale, err);
    if (!status)
        status = pco_state_load_all(training->session, file, &training->parameters, training->optimizer.type, err);
    pco_weights_close(file);
    if (status) return status;
    training->step = step;
    training->scale = scale;
    training->pending = 0;
    return PCO_OK;
}
