/* One key of a config.json at a time. */
#include "models/hub.h"

#include "base/error.h"

void pco_hub_ignore(pco_hub_reader *r, const char *key)
{
    if (r->n_read < PCO_HUB_KEYS) r->read[r->n_read++] = key;
}

const cJSON *pco_hub_item(pco_hub_reader *r, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(r->root, key);
    pco_hub_ignore(r, key);
    return cJSON_IsNull(item) ? NULL : item;
}

int64_t pco_hub_size(pco_hub_reader *r, const char *key, int64_t most)
{
    int64_t value = 1;
    pco_hub_ignore(r, key);
    if (!r->status) r->status = pco_json_int(r->root, r->label, key, 1, most, &value, r->err);
    return r->status ? 1 : value;
}

int64_t pco_hub_size_or(pco_hub_reader *r, const char *key, int64_t most, int64_t fallback)
{
    return key && pco_hub_item(r, key) ? pco_hub_size(r, key, most) : fallback;
}

double pco_hub_number(pco_hub_reader *r, const char *key, double least, double most, double fallback)
{
    double value = fallback;
    if (pco_hub_item(r, key) && !r->status)
        r->status = pco_json_number(r->root, r->label, key, least, most, &value, r->err);
    return r->status ? fallback : value;
}

int pco_hub_bool(pco_hub_reader *r, const char *key, int fallback)
{
    int value = fallback;
    if (pco_hub_item(r, key) && !r->status)
        r->status = pco_json_bool_or(r->root, r->label, key, fallback, &value, r->err);
    return r->status ? fallback : value;
}

uint32_t pco_hub_enum(pco_hub_reader *r, const char *key, const char *const *names, uint32_t count, uint32_t fallback)
{
    uint32_t value = fallback;
    if (pco_hub_item(r, key) && !r->status)
        r->status = pco_json_enum(r->root, r->label, key, names, count, &value, r->err);
    return r->status ? fallback : value;
}

void pco_hub_only(pco_hub_reader *r, const char *key, double value)
{
    const cJSON *item = pco_hub_item(r, key);
    if (!item || r->status) return;
    if (cJSON_IsNumber(item) ? item->valuedouble == value : cJSON_IsBool(item) && cJSON_IsTrue(item) == (value != 0))
        return;
    r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED, "%s: '%s' is set to what Portico cannot run; it runs %g",
                         r->label, key, value);
}

pco_bias pco_hub_bias(pco_hub_reader *r, const char *key, int fallback)
{
    return pco_hub_bool(r, key, fallback) ? PCO_BIAS_ALL : PCO_BIAS_NONE;
}
