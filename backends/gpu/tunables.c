/* The constants of variants (gpu_variant), as the program interface offers them: to be listed, and to be set. */
#include "lower.h"

#include <stdio.h>
#include <string.h>

/* The variant of an op, or NULL. */
static const gpu_variant *gpu_variant_of(uint32_t op, const char *name)
{
    const gpu_lowerer *lowerer = gpu_find_lowerer(&(const pco_node){.op = op}, NULL);
    for (uint32_t v = 0; lowerer && lowerer->variants && v < lowerer->n_variants; v++)
        if (strcmp(lowerer->variants[v].name, name) == 0) return &lowerer->variants[v];
    return NULL;
}

static uint32_t gpu_n_values(const gpu_constant *constant)
{
    uint32_t n = 0;
    while (n < GPU_MAX_VALUES && constant->values[n]) n++;
    return n;
}

uint32_t pco_gpu_tunables(pco_device *device, uint32_t op, const char *name, pco_tunable *tunables, uint32_t capacity)
{
    const pco_gpu_limits *limits = &((const pco_gpu_device *)(const void *)device)->limits;
    const gpu_variant *variant = gpu_variant_of(op, name);
    uint32_t n = 0;
    for (; variant && n < GPU_MAX_CONSTANTS && variant->constants[n].name; n++) {
        const gpu_constant *constant = &variant->constants[n];
        if (n < capacity)
            tunables[n] = (pco_tunable){.name = constant->name,
                                        .initial = gpu_initial(limits, constant),
                                        .n_values = gpu_n_values(constant),
                                        .values = constant->values};
    }
    return n;
}

pco_status pco_gpu_tune(pco_device *device, uint32_t op, const char *name, const char *tunable, uint32_t value,
                        pco_error *err)
{
    pco_gpu_device *gpu = (pco_gpu_device *)(void *)device;
    const gpu_variant *variant = gpu_variant_of(op, name);
    uint32_t c = 0, v = 0, s = 0;
    while (variant && c < GPU_MAX_CONSTANTS && variant->constants[c].name &&
           strcmp(variant->constants[c].name, tunable))
        c++;
    if (!variant || c == GPU_MAX_CONSTANTS || !variant->constants[c].name) {
        snprintf(err->message, sizeof err->message, "op %u has no variant '%.40s' with a tunable '%.40s'", op, name,
                 tunable);
        return PCO_ERROR_NOT_FOUND;
    }
    const gpu_constant *constant = &variant->constants[c];
    const uint32_t n_values = gpu_n_values(constant);
    while (v < n_values && constant->values[v] != value) v++;
    if (v == n_values) {
        snprintf(err->message, sizeof err->message, "%s of variant '%s' cannot be %u", constant->name, variant->name,
                 value);
        return PCO_ERROR_INVALID;
    }
    while (s < gpu->n_settings && gpu->settings[s].constant != constant) s++;
    if (value == gpu_initial(&gpu->limits, constant)) {
        if (s < gpu->n_settings) gpu->settings[s] = gpu->settings[--gpu->n_settings];
        return PCO_OK;
    }
    if (s == PCO_GPU_MOST_SETTINGS) {
        snprintf(err->message, sizeof err->message, "%d tunables are set already", PCO_GPU_MOST_SETTINGS);
        return PCO_ERROR_UNSUPPORTED;
    }
    gpu->settings[s] = (pco_gpu_setting){constant, value};
    if (s == gpu->n_settings) gpu->n_settings++;
    return PCO_OK;
}
