/* Running ONNX's node tests. */
#include "onnx/onnx_cases.h"
#include "onnx/onnx_test.h"

#include "base/dtype.h"
#include "base/error.h"

#include <dirent.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double RELATIVE = 1e-3, ABSOLUTE = 1e-7;

/* numpy.testing.assert_allclose: infinities and NaN match themselves only. */
static double onnx_ratio(double expected, double got)
{
    if (isnan(expected)) return isnan(got) ? 0.0 : INFINITY;
    if (got == expected) return 0.0;
    if (isinf(expected) || !isfinite(got)) return INFINITY;
    return fabs(got - expected) / (ABSOLUTE + RELATIVE * fabs(expected));
}

static pco_status onnx_compare(const onnx_test *test, const pco_onnx_runner *runner, uint32_t output,
                               pco_onnx_case *result, pco_error *err)
{
    const pco_onnx_tensor *expected = &test->outputs[output];
    pco_onnx_array array = {.size = sizeof array};
    pco_status status = pco_onnx_runner_output(runner, output, &array, err);
    if (status) return status;
    if (array.type != expected->type)
        return pco_fail(err, PCO_ERROR_INTERNAL, "output %u is %s, expected %s", output, pco_onnx_type_name(array.type),
                        pco_onnx_type_name(expected->type));
    if (array.rank != expected->rank || memcmp(array.shape, expected->shape, array.rank * sizeof *array.shape) != 0)
        return pco_fail(err, PCO_ERROR_INTERNAL, "output %u has another shape than expected", output);
    double *got = malloc(((size_t)expected->count + 1) * sizeof *got);
    if (!got) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
    char texts[2][PCO_NUMBER_TEXT];
    pco_onnx_decode(array.type, array.data, expected->count, got);
    for (int64_t i = 0; i < expected->count; i++) {
        double ratio = onnx_ratio(expected->value[i], got[i]);
        if (ratio <= result->ratio) continue;
        result->ratio = ratio;
        if (ratio > 1.0)
            snprintf(result->detail, sizeof result->detail, "output %u element %lld is %s, expected %s", output,
                     (long long)i, pco_number_text(got[i], texts[0]), pco_number_text(expected->value[i], texts[1]));
    }
    free(got);
    return PCO_OK;
}

/* The test's inputs as arrays of their own types, whose data the caller frees. */
static pco_status onnx_arrays(const onnx_test *test, pco_onnx_array *arrays, pco_error *err)
{
    for (uint32_t i = 0; i < test->n_inputs; i++) {
        const pco_onnx_tensor *input = &test->inputs[i];
        const uint64_t bytes = (uint64_t)input->count * pco_onnx_type_bytes(input->type);
        void *data = malloc(bytes + 1);
        if (!data) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for an input");
        pco_onnx_encode(input->type, input->value, input->count, data);
        arrays[i] = (pco_onnx_array){
            .size = sizeof arrays[i], .type = input->type, .rank = input->rank, .data = data, .bytes = bytes};
        memcpy(arrays[i].shape, input->shape, sizeof arrays[i].shape);
    }
    return PCO_OK;
}

static pco_status onnx_execute(const onnx_test *test, pco_session *session, pco_onnx_case *result, pco_error *err)
{
    pco_onnx_runner *runner = NULL;
    pco_onnx_array *arrays = calloc(test->n_inputs + 1u, sizeof *arrays);
    pco_status status =
        arrays ? onnx_arrays(test, arrays, err) : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for inputs");
    if (!status) status = pco_onnx_runner_create(session, test->model, &runner, err);
    if (!status) status = pco_onnx_run(runner, arrays, test->n_inputs, err);
    if (!status && pco_onnx_runner_executable(runner))
        result->stats = pco_executable_counts(pco_onnx_runner_executable(runner));
    for (uint32_t i = 0; i < test->n_outputs && !status; i++) status = onnx_compare(test, runner, i, result, err);
    pco_onnx_runner_destroy(runner);
    for (uint32_t i = 0; arrays && i < test->n_inputs; i++) free((void *)(size_t)arrays[i].data);
    free(arrays);
    return status;
}

static pco_status onnx_run_one(pco_session *session, const char *folder, pco_onnx_case *result, pco_error *err)
{
    onnx_test test;
    pco_status status = onnx_test_read(&test, folder, err);
    if (!status) status = onnx_execute(&test, session, result, err);
    if (status == PCO_ERROR_UNSUPPORTED)
        result->state = PCO_ONNX_SKIPPED;
    else
        result->state = status || result->ratio > 1.0 ? PCO_ONNX_FAIL : PCO_ONNX_PASS;
    if (status) snprintf(result->detail, sizeof result->detail, "%.511s", err->message);
    onnx_test_clear(&test);
    return status == PCO_ERROR_DEVICE_LOST || status == PCO_ERROR_OUT_OF_HOST_MEMORY ? status : PCO_OK;
}

static int onnx_is_case(const struct dirent *entry) { return strncmp(entry->d_name, "test_", 5) == 0; }

pco_status pco_onnx_cases_run(pco_session *session, const char *folder, const char *pattern,
                              pco_onnx_progress_fn progress, void *user, pco_onnx_result *result, pco_error *err)
{
    struct dirent **entries = NULL;
    pco_error local = {""};
    if (!err) err = &local;
    memset(result, 0, sizeof *result);
    int count = folder ? scandir(folder, &entries, onnx_is_case, alphasort) : -1;
    if (count <= 0) {
        free(entries);
        return pco_fail(err, PCO_ERROR_NOT_FOUND, "no ONNX node tests in '%s'", folder ? folder : "");
    }
    pco_status status = PCO_OK;
    for (int i = 0; i < count && !status; i++) {
        const char *name = entries[i]->d_name;
        char path[768];
        if (pattern && fnmatch(pattern, name, 0) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        pco_onnx_case one = {.name = name};
        status = onnx_run_one(session, path, &one, err);
        result->count[one.state]++;
        if (one.state == PCO_ONNX_FAIL && !result->first_failure[0])
            snprintf(result->first_failure, sizeof result->first_failure, "%.120s: %s", name, one.detail);
        if (progress && !progress(user, &one) && !status) status = pco_fail(err, PCO_ERROR_CANCELLED, "cancelled");
    }
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
    return status;
}
