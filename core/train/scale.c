/* Loss scaling (Micikevicius et al. 2018, 3.2): gradients of f16 activations are kept in f16's range by a
 * factor on the loss, which follows the overflows. The factor is a power of two, so it changes no bit of what
 * neither overflows nor underflows. */
#include "base/error.h"
#include "formats/json.h"
#include "train/update.h"

enum { SCALE_LEAST = 1 };

pco_loss_scale pco_loss_scale_begin(pco_dtype dtype, const pco_loss_scaling *scaling)
{
    const int on = dtype == PCO_F16;
    return (pco_loss_scale){.on = on, .interval = scaling->interval, .factor = on ? scaling->initial : 1};
}

int pco_loss_scale_step(pco_loss_scale *scale, int finite)
{
    if (!scale->on) return finite;
    if (finite) {
        if (++scale->good < scale->interval) return 1;
        scale->good = 0;
        if (scale->factor < PCO_LOSS_SCALE_MOST) scale->factor *= 2;
        return 1;
    }
    if (scale->factor <= SCALE_LEAST) return 0;
    scale->factor /= 2;
    scale->good = 0;
    scale->skipped++;
    return 1;
}

int pco_loss_scale_note(const pco_loss_scale *scale, cJSON *note)
{
    if (!scale->on) return 1;
    cJSON *object = cJSON_AddObjectToObject(note, "loss_scale");
    return object && cJSON_AddNumberToObject(object, "factor", scale->factor) &&
           cJSON_AddNumberToObject(object, "good_steps", (double)scale->good) &&
           cJSON_AddNumberToObject(object, "skipped_steps", (double)scale->skipped);
}

pco_status pco_loss_scale_load(pco_loss_scale *scale, const cJSON *note, const char *label, int64_t steps,
                               pco_error *err)
{
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(note, "loss_scale");
    if (!scale->on) return PCO_OK;
    if (!cJSON_IsObject(object)) return pco_fail(err, PCO_ERROR_FORMAT, "%s: the scale of the loss is missing", label);
    int64_t factor = 0;
    pco_status status = pco_json_int(object, label, "factor", SCALE_LEAST, PCO_LOSS_SCALE_MOST, &factor, err);
    if (!status) status = pco_json_int(object, label, "good_steps", 0, INT32_MAX, &scale->good, err);
    if (!status) status = pco_json_int(object, label, "skipped_steps", 0, steps, &scale->skipped, err);
    scale->factor = (double)factor;
    return status;
}
