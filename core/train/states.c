/* States of a session in safetensors files. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "formats/safetensors.h"
#include "train/update.h"

static const char states_model[] = "model.";

static pco_status states_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for training");
}

void pco_state_set_release(pco_state_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        free(set->items[i].name);
        free((void *)set->items[i].data);
    }
    free(set->items);
    *set = (pco_state_set){NULL, 0};
}

pco_status pco_state_set_add(pco_state_set *set, pco_session *session, const pco_nn_parameter *parameter,
                             const char *prefix, const char *shown, int64_t step, const char *kept, pco_error *err)
{
    char *state = NULL;
    pco_weight *weight = &set->items[set->count++];
    const uint64_t bytes = (uint64_t)pco_nn_elements(parameter) * sizeof(float);
    *weight = (pco_weight){.dtype = PCO_F32, .rank = parameter->rank, .bytes = bytes};
    memcpy(weight->shape, parameter->shape, sizeof weight->shape);
    weight->data = malloc(bytes ? bytes : 1);
    if (asprintf(&state, "%s%s", prefix, parameter->name) < 0) state = NULL;
    if (asprintf(&weight->name, "%s%s", shown, parameter->name) < 0) weight->name = NULL;
    pco_status status = weight->data && state && weight->name ? PCO_OK : states_no_memory(err);
    if (!status) status = pco_session_read_state(session, state, (void *)weight->data, bytes, err);
    free(state);
    const float *values = weight->data;
    for (uint64_t i = 0; i < bytes / sizeof *values && !status; i++)
        if (!isfinite(values[i]))
            status = pco_fail(err, PCO_ERROR_INVALID, "after step %" PRId64 " tensor '%s' is not finite; %s", step,
                              weight->name, kept);
    return status;
}

pco_status pco_state_set_read(pco_state_set *set, pco_session *session, const pco_nn_training *parameters,
                              pco_optimizer_type optimizer, int64_t step, const char *kept, pco_error *err)
{
    const char *const *prefixes;
    const uint32_t n_prefixes = pco_update_prefixes(optimizer, &prefixes), count = parameters->count;
    *set = (pco_state_set){calloc((size_t)count * (n_prefixes + 1) + 1, sizeof(pco_weight)), 0};
    pco_status status = set->items ? PCO_OK : states_no_memory(err);
    for (uint32_t i = 0; i < count && !status; i++)
        status = pco_state_set_add(set, session, &parameters->items[i], "", states_model, step, kept, err);
    for (uint32_t k = 0; k < n_prefixes; k++)
        for (uint32_t i = 0; i < count && !status; i++)
            status = pco_state_set_add(set, session, &parameters->items[i], prefixes[k], prefixes[k], step, kept, err);
    return status;
}

pco_weight *pco_state_set_model(const pco_state_set *set, uint32_t parameters)
{
    pco_weight *items = calloc((size_t)parameters + 1, sizeof *items);
    for (uint32_t i = 0; i < parameters && items; i++) {
        items[i] = set->items[i];
        items[i].name += strlen(states_model);
    }
    return items;
}

pco_status pco_state_set_write_model(const pco_state_set *set, uint32_t parameters, const char *path, pco_error *err)
{
    pco_weight *items = pco_state_set_model(set, parameters);
    if (!items) return states_no_memory(err);
    pco_status status = pco_safetensors_write(path, items, parameters, NULL, 0, err);
    free(items);
    return status;
}

/* The tensor "shown NAME" of a file, which has what the parameter needs. */
static pco_status states_find(const pco_weights *file, const pco_nn_parameter *parameter, const char *shown,
                              const pco_weight **weight, pco_error *err)
{
    char *name = NULL;
    if (asprintf(&name, "%s%s", shown, parameter->name) < 0) return states_no_memory(err);
    pco_status status = pco_weights_require(file, name, weight, err);
    if (!status && ((*weight)->dtype != PCO_F32 || (*weight)->rank != parameter->rank ||
                    memcmp((*weight)->shape, parameter->shape, parameter->rank * sizeof(int64_t)) != 0))
        status = pco_fail(err, PCO_ERROR_FORMAT, "%s: tensor '%s' is not F32 or not of the model's shape", file->label,
                          name);
    free(name);
    return status;
}

pco_status pco_state_load(pco_session *session, const pco_weights *file, const pco_nn_parameter *parameter,
                          const char *prefix, const char *shown, pco_error *err)
{
    char *state = NULL;
    const pco_weight *weight = NULL;
    pco_status status = states_find(file, parameter, shown, &weight, err);
    if (status) return status;
    if (asprintf(&state, "%s%s", prefix, parameter->name) < 0) return states_no_memory(err);
    status = pco_session_write_state(session, state, weight->data, weight->bytes, err);
    free(state);
    return status;
}

pco_status pco_state_load_all(pco_session *session, const pco_weights *file, const pco_nn_training *parameters,
                              pco_optimizer_type optimizer, pco_error *err)
{
    const char *const *prefixes;
    const uint32_t n_prefixes = pco_update_prefixes(optimizer, &prefixes);
    const pco_weight *weight;
    pco_status status = PCO_OK;
    for (int write = 0; write < 2; write++) /* nothing changes unless all is there */
        for (uint32_t i = 0; i < parameters->count && !status; i++) {
            const pco_nn_parameter *p = &parameters->items[i];
            status = write ? pco_state_load(session, file, p, "", states_model, err)
                           : states_find(file, p, states_model, &weight, err);
            for (uint32_t k = 0; k < n_prefixes && !status; k++)
                status = write ? pco_state_load(session, file, p, prefixes[k], prefixes[k], err)
                               : states_find(file, p, prefixes[k], &weight, err);
        }
    return status;
}
