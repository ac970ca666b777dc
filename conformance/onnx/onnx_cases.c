/* Running ONNX's node tests. */
#include "onnx/onnx_cases.h"
#include "onnx/onnx_test.h"

#include "base/dtype.h"
#include "base/error.h"
#include "oracle/oracle_number.h"

#include <dirent.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double RELATIVE = 1e-3, ABSOLUTE = 1e-7;

static pco_status onnx_write_inputs(const pco_onnx_map *map, pco_executable *executable, pco_error *err)
{
    for (uint32_t i = 0; i < map->node->n_inputs; i++) {
        char name[16];
        if (map->in[i] == PCO_NONE) continue;
        snprintf(name, sizeof name, "input%u", i);
        uint32_t handle = pco_executable_tensor(executable, name);
        if (handle == PCO_NONE) continue; /* nothing depends on it */
        const pco_onnx_tensor *tensor = map->operands[i];
        uint32_t dtype = pco_onnx_map_type(tensor->type);
        uint64_t bytes = (uint64_t)tensor->count * oracle_block_bytes(dtype);
        void *data = malloc(bytes + 8);
        if (!data) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for an input");
        oracle_encode(dtype, tensor->value, data, tensor->count);
        pco_status status = pco_executable_write(executable, handle, data, bytes, err);
        free(data);
        if (status) return status;
    }
    return PCO_OK;
}

/* numpy.testing.assert_allclose: infinities and NaN match themselves only. */
static double onnx_ratio(double expected, double got)
{
    if (isnan(expected)) return isnan(got) ? 0.0 : INFINITY;
    if (got == expected) return 0.0;
    if (isinf(expected) || !isfinite(got)) return INFINITY;
    return fabs(got - expected) / (ABSOLUTE + RELATIVE * fabs(expected));
}

static bool onnx_same_shape(const pco_onnx_tensor *expected, const pco_tensor *got)
{
    if (expected->rank != got->rank) return false;
    for (uint32_t d = 0; d < got->rank; d++)
        if (expected->shape[d] != got->shape[d]) return false;
    return true;
}

static pco_status onnx_compare(const onnx_test *test, pco_executable *executable, uint32_t output,
                               pco_onnx_case *result, pco_error *err)
{
    char name[24];
    const pco_onnx_tensor *expected = &test->outputs[output];
    snprintf(name, sizeof name, "output%u", output);
    uint32_t handle = pco_executable_tensor(executable, name);
    if (handle == PCO_NONE) return pco_fail(err, PCO_ERROR_INTERNAL, "output %u is not in the program", output);
    const pco_tensor *desc = pco_executable_describe(executable, handle);
    if (!onnx_same_shape(expected, desc))
        return pco_fail(err, PCO_ERROR_INTERNAL, "output %u has another shape than expected", output);
    uint64_t bytes = (uint64_t)expected->count * oracle_block_bytes(desc->dtype);
    uint8_t *data = malloc(bytes + 8);
    double *got = malloc(((size_t)expected->count + 1) * sizeof *got);
    pco_status status = data && got ? PCO_OK : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
    if (!status && bytes) status = pco_executable_read(executable, handle, data, bytes, err);
    if (!status) oracle_decode(desc->dtype, data, got, expected->count);
    for (int64_t i = 0; i < expected->count && !status; i++) {
        double ratio = onnx_ratio(expected->value[i], got[i]);
        if (ratio <= result->ratio) continue;
        result->ratio = ratio;
        if (ratio > 1.0)
            snprintf(result->detail, sizeof result->detail, "output %u element %lld is %.*g, expected %.*g", output,
                     (long long)i, pco_number_digits(got[i]), got[i], pco_number_digits(expected->value[i]),
                     expected->value[i]);
    }
    free(data);
    free(got);
    return status;
}

/* From a mapped graph to a verdict. */
static pco_status onnx_execute(const onnx_test *test, const pco_onnx_map *map, pco_session *session,
                               pco_onnx_case *result, pco_error *err)
{
    pco_executable *executable = NULL;
    char name[24];
    for (uint32_t i = 0; i < test->node->n_outputs; i++) {
        if (!(test->expected >> i & 1)) continue;
        if (map->out[i] == PCO_NONE) return pco_fail(err, PCO_ERROR_UNSUPPORTED, "output %u is not mapped", i);
        snprintf(name, sizeof name, "output%u", i);
        pco_graph_output(map->graph, map->out[i], name);
    }
    pco_status status = pco_graph_check(map->graph, err);
    if (!status) status = pco_executable_create(session, map->graph, NULL, &executable, err);
    if (status) return status;
    result->stats = pco_executable_counts(executable);
    status = onnx_write_inputs(map, executable, err);
    if (!status) status = pco_executable_run(executable, err);
    for (uint32_t i = 0; i < test->node->n_outputs && !status; i++)
        if (test->expected >> i & 1) status = onnx_compare(test, executable, i, result, err);
    pco_executable_destroy(executable);
    return status;
}

static pco_status onnx_run_one(pco_session *session, const char *folder, pco_onnx_case *result, char *op,
                               size_t op_capacity, pco_error *err)
{
    onnx_test test;
    pco_graph *graph = NULL;
    pco_status status = onnx_test_read(&test, folder, err);
    if (status == PCO_OK) {
        snprintf(op, op_capacity, "%s", test.node->op);
        graph = pco_graph_create();
        status = graph ? PCO_OK : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a graph");
    }
    if (status == PCO_OK) {
        pco_onnx_map map = pco_onnx_map_start(graph, test.node);
        for (uint32_t i = 0; i < test.node->n_inputs; i++)
            if (test.given >> i & 1) map.operands[i] = &test.inputs[i];
        pco_onnx_map_node(&map);
        if (map.skip[0])
            status = pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s", map.skip);
        else
            status = onnx_execute(&test, &map, session, result, err);
    }
    if (status == PCO_ERROR_UNSUPPORTED)
        result->state = PCO_ONNX_SKIPPED;
    else
        result->state = status || result->ratio > 1.0 ? PCO_ONNX_FAIL : PCO_ONNX_PASS;
    if (status) snprintf(result->detail, sizeof result->detail, "%.511s", err->message);
    if (graph) pco_graph_destroy(graph);
    onnx_test_clear(&test);
    return status == PCO_ERROR_DEVICE_LOST || status == PCO_ERROR_OUT_OF_HOST_MEMORY ? status : PCO_OK;
}

static int onnx_is_case(const struct dirent *entry) { return strncmp(entry->d_name, "test_", 5) == 0; }

pco_status pco_onnx_run(pco_session *session, const char *folder, const char *pattern, pco_onnx_progress_fn progress,
                        void *user, pco_onnx_result *result, pco_error *err)
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
        char path[768], op[64] = "";
        if (pattern && fnmatch(pattern, name, 0) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        pco_onnx_case one = {.name = name, .op = op};
        status = onnx_run_one(session, path, &one, op, sizeof op, err);
        result->count[one.state]++;
        if (one.state == PCO_ONNX_FAIL && !result->first_failure[0])
            snprintf(result->first_failure, sizeof result->first_failure, "%.120s: %s", name, one.detail);
        if (progress && !progress(user, &one) && !status) status = pco_fail(err, PCO_ERROR_CANCELLED, "cancelled");
    }
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
    return status;
}
