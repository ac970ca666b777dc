/* Loss scaling (Micikevicius et al. 2018, 3.2): gradients of f16 activations are kept in f16's range by a
 * factor on the loss, which follows the overflows. The factor is a power of two, so it changes no bit of what
 * neither overflows nor underflows. */
#include "train/trainer_internal.h"

#include "base/error.h"

enum { SCALE_LEAST = 1, SCALE_MOST = 1 << 24 };

int trainer_scaled(const pco_trainer *trainer) { return trainer->config->dtype == PCO_F16; }

float trainer_factor(const pco_trainer *trainer, int64_t tokens)
{
    return (float)trainer->scale.factor * (1 / (float)tokens);
}

void trainer_scale_begin(pco_trainer *trainer)
{
    trainer->scale = (trainer_scale){.factor = trainer_scaled(trainer) ? trainer->config->scaling.initial : 1};
}

int trainer_scale_step(pco_trainer *trainer, int finite)
{
    trainer_scale *scale = &trainer->scale;
    if (!trainer_scaled(trainer)) return finite;
    if (finite) {
        if (++scale->good < trainer->config->scaling.interval) return 1;
        scale->good = 0;
        if (scale->factor < SCALE_MOST) scale->factor *= 2;
        return 1;
    }
    if (scale->factor <= SCALE_LEAST) return 0;
    scale->factor /= 2;
    scale->good = 0;
    scale->skipped++;
    return 1;
}

int trainer_scale_note(const pco_trainer *trainer, cJSON *note)
{
    const trainer_scale *scale = &trainer->scale;
    if (!trainer_scaled(trainer)) return 1;
    cJSON *object = cJSON_AddObjectToObject(note, "loss_scale");
    return object && cJSON_AddNumberToObject(object, "factor", scale->factor) &&
           cJSON_AddNumberToObject(object, "good_steps", (double)scale->good) &&
           cJSON_AddNumberToObject(object, "skipped_steps", (double)scale->skipped);
}

pco_status trainer_scale_load(pco_trainer *trainer, const cJSON *note, const char *label, pco_error *err)
{
    trainer_scale *scale = &trainer->scale;
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(note, "loss_scale");
    if (!trainer_scaled(trainer)) return PCO_OK;
    if (!cJSON_IsObject(object)) return pco_fail(err, PCO_ERROR_FORMAT, "%s: the scale of the loss is missing", label);
    int64_t factor = 0;
    pco_status status = pco_json_int(object, label, "factor", SCALE_LEAST, SCALE_MOST, &factor, err);
    if (!status) status = pco_json_int(object, label, "good_steps", 0, INT32_MAX, &scale->good, err);
    if (!status) status = pco_json_int(object, label, "skipped_steps", 0, trainer->step, &scale->skipped, err);
    scale->factor = (double)factor;
    return status;
}
