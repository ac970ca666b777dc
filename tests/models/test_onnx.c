/* ONNX's node tests on the device that PORTICO_BACKEND picks: test_onnx FOLDER [PATTERN]. At least 120 must
 * be expressible and pass, and none may fail; skips (77) where the folder is absent. */
#include "onnx/onnx_cases.h"

#include <stdio.h>

enum { AT_LEAST = 120 };

static int onnx_print(void *user, const pco_onnx_case *result)
{
    (void)user;
    static const char *const names[] = {"pass", "FAIL", "skip"};
    if (result->state != PCO_ONNX_PASS) printf("%s %-60s %s\n", names[result->state], result->name, result->detail);
    return 1;
}

int main(int argc, char **argv)
{
    pco_config config;
    pco_registry *registry = NULL;
    pco_session *session = NULL;
    pco_onnx_result result = {0};
    pco_error err = {""};
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: test_onnx FOLDER [PATTERN]\n");
        return 2;
    }
    pco_status status = pco_config_read(&config, &err);
    if (!status) status = pco_registry_create(&config, &registry, &err);
    if (!status) status = pco_registry_open(registry, NULL, &session, &err);
    if (!status) {
        status = pco_onnx_cases_run(session, argv[1], argc == 3 ? argv[2] : NULL, onnx_print, NULL, &result, &err);
        printf("%s: %u ONNX cases passed, %u failed, %u cannot be expressed\n", pco_session_device_id(session),
               result.count[PCO_ONNX_PASS], result.count[PCO_ONNX_FAIL], result.count[PCO_ONNX_SKIPPED]);
    }
    pco_session_close(session);
    pco_registry_destroy(registry);
    if (status) fprintf(stderr, "test_onnx: %s\n", err.message);
    if (status == PCO_ERROR_NOT_FOUND && !result.count[PCO_ONNX_PASS]) return 77;
    return status || result.count[PCO_ONNX_FAIL] || (argc == 2 && result.count[PCO_ONNX_PASS] < AT_LEAST);
}
