/* Kernels by their numbers: those of the table, and those that are made at run time of a device. */
#include "gpu.h"

#include <stdio.h>
#include <string.h>

static const pco_gpu_made *made_of(const pco_gpu_device *device, uint32_t kernel)
{
    return kernel - pco_gpu_n_kernels < device->n_made ? device->made[kernel - pco_gpu_n_kernels] : NULL;
}

const pco_gpu_kernel *pco_gpu_row(const pco_gpu_device *device, uint32_t kernel)
{
    if (kernel < pco_gpu_n_kernels) return &pco_gpu_kernels[kernel];
    const pco_gpu_made *made = made_of(device, kernel);
    return made ? &made->row : NULL;
}

const pco_gpu_code *pco_gpu_code_of(const pco_gpu_device *device, uint32_t kernel)
{
    return kernel < pco_gpu_n_kernels ? &pco_gpu_codes[kernel] : &made_of(device, kernel)->code;
}

const pco_gpu_code *pco_gpu_source_of(const pco_gpu_device *device, uint32_t kernel)
{
    return kernel < pco_gpu_n_kernels ? pco_gpu_sources[kernel] : made_of(device, kernel)->pieces;
}

char *pco_gpu_source_text(const pco_gpu_device *device, uint32_t kernel, size_t *bytes)
{
    const pco_gpu_code *pieces = pco_gpu_source_of(device, kernel);
    size_t used = 0;
    *bytes = 0;
    for (uint32_t i = 0; pieces && pieces[i].data; i++) *bytes += pieces[i].bytes;
    char *text = device->host->allocate(device->host->user, *bytes + 1, 1);
    for (uint32_t i = 0; text && pieces && pieces[i].data; i++) {
        memcpy(text + used, pieces[i].data, pieces[i].bytes);
        used += pieces[i].bytes;
    }
    if (text) text[used] = 0;
    return text;
}

uint32_t pco_gpu_find_made(const pco_gpu_device *device, uint64_t key)
{
    for (uint32_t i = 0; i < device->n_made; i++)
        if (device->made[i]->key == key) return pco_gpu_n_kernels + i;
    return PCO_NONE;
}

pco_status pco_gpu_make(pco_gpu_device *device, const char *name, uint64_t key, const pco_gpu_kernel *row,
                        pco_gpu_code source, uint32_t *kernel, pco_error *err)
{
    const pco_host *host = device->host;
    pco_gpu_made *made = device->n_made < PCO_GPU_MOST_MADE ? host->allocate(host->user, sizeof *made, 64) : NULL;
    if (!made) {
        if (err)
            snprintf(err->message, sizeof err->message, "no %s for kernel %s",
                     device->n_made < PCO_GPU_MOST_MADE ? "memory" : "room is left", name);
        host->release(host->user, (void *)(uintptr_t)source.data);
        return device->n_made < PCO_GPU_MOST_MADE ? PCO_ERROR_OUT_OF_HOST_MEMORY : PCO_ERROR_UNSUPPORTED;
    }
    pco_error why = {""};
    *made = (pco_gpu_made){.row = *row, .key = key, .source = source, .pieces = {source}};
    snprintf(made->name, sizeof made->name, "%s", name);
    made->row.name = made->name;
    made->row.file = "of the program";
    made->row.defines = "";
    if (device->driver && device->driver->compile)
        made->status = device->driver->compile(device, name, &made->source, &made->code, &why);
    snprintf(made->why, sizeof made->why, "%.500s", why.message);
    *kernel = pco_gpu_n_kernels + device->n_made;
    device->made[device->n_made++] = made;
    return PCO_OK;
}

void pco_gpu_forget_made(pco_gpu_device *device)
{
    const pco_host *host = device->host;
    for (uint32_t i = 0; i < device->n_made; i++) {
        pco_gpu_made *made = device->made[i];
        if (made->code.data) host->release(host->user, (void *)(uintptr_t)made->code.data);
        host->release(host->user, (void *)(uintptr_t)made->source.data);
        host->release(host->user, made);
    }
    device->n_made = 0;
}
