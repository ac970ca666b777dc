/* Matrices of an adapter's file, and what they become. */
#include "models/adapter_internal.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pco_status adapter_no_memory(const char *folder, pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for the adapter %s", folder);
}

int pco_adapter_is(const char *tensor)
{
    return pco_text_ends(tensor, PCO_NN_LORA_A) || pco_text_ends(tensor, PCO_NN_LORA_B);
}

pco_status adapter_check_matrix(const adapter_reading *r, const pco_weight *from, int is_b, pco_error *err)
{
    if (from->rank == 2 && from->dtype >= 0 && pco_dtype_is_float((uint32_t)from->dtype) && from->shape[0] > 0 &&
        from->shape[1] > 0 && from->shape[is_b ? 1 : 0] <= PCO_ADAPTER_MOST_RANK)
        return PCO_OK;
    return pco_fail(err, PCO_ERROR_FORMAT, "%s: tensor '%s' must be a matrix of F32, F16 or BF16", r->all->label,
                    from->name);
}

pco_status adapter_read_matrix(const pco_weight *from, double scale, float *to, pco_error *err)
{
    const int64_t count = from->shape[0] * from->shape[1];
    pco_status status = pco_dtype_to_f32((uint32_t)from->dtype, from->data, count, to, err);
    for (int64_t i = 0; i < count && scale != 1 && !status; i++) to[i] = (float)((double)to[i] * scale);
    return status;
}

pco_status adapter_make(const adapter_reading *r, const char *projection, const char *suffix, int64_t stack,
                        int64_t rows, int64_t columns, float **values, pco_error *err)
{
    char *name;
    pco_weight made = {.type_name = "F32", .dtype = PCO_F32, .rank = stack ? 3 : 2};
    const int64_t shape[3] = {stack, rows, columns};
    memcpy(made.shape, shape + (stack ? 0 : 1), made.rank * sizeof *shape);
    made.bytes = (uint64_t)(stack ? stack : 1) * (uint64_t)rows * (uint64_t)columns * sizeof(float);
    *values = pco_weights_allocate(r->made, made.bytes);
    if (!*values || asprintf(&name, "%s%s", projection, suffix) < 0) return adapter_no_memory(r->all->label, err);
    made.data = *values;
    pco_status status = pco_weights_add(r->made, &made, name, strlen(name), err);
    free(name);
    return status;
}

void adapter_module_of(const pco_weight *from, char module[PCO_SPEC_NAME])
{
    const size_t head = strlen(ADAPTER_PREFIX), skip = strncmp(from->name, ADAPTER_PREFIX, head) == 0 ? head : 0;
    const size_t size = strlen(from->name) - skip, tail = strlen(PCO_NN_LORA_A);
    snprintf(module, PCO_SPEC_NAME, "%.*s", pco_adapter_is(from->name) && size > tail ? (int)(size - tail) : 0,
             from->name + skip);
}

pco_status adapter_scale_of(const adapter_reading *r, const pco_weight *b, double *scale, pco_error *err)
{
    char module[PCO_SPEC_NAME];
    adapter_module_of(b, module);
    return adapter_config_scale(r->config, module, b->shape[1], scale, err);
}
