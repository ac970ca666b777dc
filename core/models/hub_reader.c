/* One key of a config.json at a time. */
#include "models/hub.h"

#include "base/error.h"

#include <string.h>

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

int64_t pco_hub_usual_size(pco_hub_reader *r, const char *key, int64_t most, int64_t usual)
{
    return usual ? pco_hub_size_or(r, key, most, usual) : pco_hub_size(r, key, most);
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

void pco_hub_only_text(pco_hub_reader *r, const char *key, const char *value)
{
    const cJSON *item = pco_hub_item(r, key);
    const char *text = cJSON_GetStringValue(item);
    if (!item || r->status || (text && strcmp(text, value) == 0)) return;
    r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED, "%s: '%s' is %s%.100s, which Portico cannot run; it runs '%s'",
                         r->label, key, text ? "" : "no text", text ? text : "", value);
}

int32_t pco_hub_token(pco_hub_reader *r, const char *key, int32_t fallback)
{
    const cJSON *item = pco_hub_item(r, key);
    int64_t value = fallback;
    if (!item || r->status) return fallback;
    if (cJSON_IsArray(item) && item->child && pco_json_whole(item->child, &value) && value >= 0 && value <= INT32_MAX)
        return (int32_t)value;
    r->status = pco_json_int(r->root, r->label, key, -1, INT32_MAX, &value, r->err);
    return r->status ? fallback : (int32_t)value;
}

pco_nn_activation pco_hub_activation(pco_hub_reader *r, const char *key, pco_nn_activation usual)
{
    static const char *const names[] = {"silu", "swish", "gelu_pytorch_tanh", "gelu_new", "gelu_fast",
                                        "gelu", "relu",  "quick_gelu"};
    static const pco_nn_activation plain[] = {PCO_NN_SILU,      PCO_NN_SILU, PCO_NN_GELU_TANH, PCO_NN_GELU_TANH,
                                              PCO_NN_GELU_TANH, PCO_NN_GELU, PCO_NN_RELU,      PCO_NN_QUICK_GELU};
    enum { NAMES = sizeof names / sizeof *names };
    const int gated = usual == PCO_NN_SWIGLU || usual == PCO_NN_GEGLU;
    const uint32_t found = pco_hub_enum(r, key, names, NAMES, NAMES);
    if (r->status || found == NAMES) return usual;
    if (!gated) return plain[found];
    if (plain[found] == PCO_NN_SILU) return PCO_NN_SWIGLU;
    if (plain[found] == PCO_NN_GELU_TANH) return PCO_NN_GEGLU;
    r->status = pco_fail(r->err, PCO_ERROR_UNSUPPORTED,
                         "%s: '%s' is '%s', which Portico cannot run in a gated feed-forward block; it runs 'silu' and "
                         "'gelu_pytorch_tanh' there",
                         r->label, key, names[found]);
    return usual;
}

pco_bias pco_hub_bias(pco_hub_reader *r, const char *key, int fallback)
{
    return pco_hub_bool(r, key, fallback) ? PCO_BIAS_ALL : PCO_BIAS_NONE;
}
