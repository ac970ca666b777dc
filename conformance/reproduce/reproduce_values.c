/* Values as .npy files, and the bounds of results. */
#include "reproduce/reproduce_internal.h"

#include "base/error.h"
#include "formats/npy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

pco_status conf_write_array(const conf_writing *w, const char *name, const pco_tensor *desc, int32_t dtype,
                            const void *data, pco_error *err)
{
    void *file;
    size_t bytes;
    pco_weight array = {.dtype = dtype, .type_name = dtype < 0 ? "F64" : NULL, .rank = desc->rank, .data = data};
    memcpy(array.shape, desc->shape, sizeof array.shape);
    pco_status status = pco_npy_encode(&array, &file, &bytes, err);
    if (status) return status;
    status = conf_folder_write(&w->folder, name, file, bytes, err);
    free(file);
    return status;
}

pco_status conf_write_values(const conf_writing *w, const char *name, const pco_tensor *desc, const void *data,
                             pco_error *err)
{
    uint32_t dtype = desc->dtype;
    if (dtype == PCO_F32 || dtype == PCO_F16 || dtype == PCO_I32 || dtype == PCO_BOOL)
        return conf_write_array(w, name, desc, (int32_t)dtype, data, err);
    int64_t count = oracle_count(desc);
    double *exact = malloc((size_t)(count + 1) * sizeof *exact);
    float *single = malloc((size_t)(count + 1) * sizeof *single);
    pco_status status = exact && single ? PCO_OK : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
    if (!status) {
        oracle_decode(dtype, data, exact, count);
        for (int64_t i = 0; i < count; i++) single[i] = (float)exact[i];
        status = conf_write_array(w, name, desc, PCO_F32, single, err);
    }
    free(exact);
    free(single);
    return status;
}

double conf_edge(const conf_problem *problem, uint32_t dtype)
{
    if (dtype == PCO_I32 || dtype == PCO_BOOL) return 0.0;
    oracle_format format = oracle_format_of(dtype);
    return format.max + (problem->rules.round < 1.0 ? (double)oracle_ulp(format, format.max) / 2 : 0.0);
}

void conf_bounds(const conf_problem *problem, const oracle_output *out, double *bound)
{
    const double edge = conf_edge(problem, out->desc.dtype);
    for (int64_t i = 0; i < out->count; i++) {
        bool overflows =
            edge > 0 && !problem->rules.nan_inf && !isinf(out->value[i]) && fabs(out->value[i]) + out->bound[i] >= edge;
        bound[i] = overflows ? (double)INFINITY : out->bound[i];
    }
}
