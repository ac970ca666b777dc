/* portico/onnx.h in a library that was built without ONNX. */
#include "base/error.h"
#include "portico/onnx.h"

static pco_status none(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                    "this build of Portico reads no ONNX files: build it with protobuf-c (Meson's option onnx)");
}

const char *pco_onnx_type_name(int32_t type)
{
    (void)type;
    return "unknown type";
}

uint32_t pco_onnx_type_bytes(int32_t type)
{
    (void)type;
    return 0;
}

pco_status pco_onnx_open(const char *path, pco_onnx_model **model, pco_error *err)
{
    PCO_NEEDS(model);
    *model = NULL;
    PCO_NEEDS(path);
    return none(err);
}

pco_status pco_onnx_parse(const void *data, size_t size, const char *folder, pco_onnx_model **model, pco_error *err)
{
    (void)size, (void)folder;
    PCO_NEEDS(model);
    *model = NULL;
    PCO_NEEDS(data);
    return none(err);
}

void pco_onnx_close(pco_onnx_model *model) { (void)model; }

uint32_t pco_onnx_inputs(const pco_onnx_model *model)
{
    (void)model;
    return 0;
}

uint32_t pco_onnx_outputs(const pco_onnx_model *model)
{
    (void)model;
    return 0;
}

pco_status pco_onnx_input(const pco_onnx_model *model, uint32_t index, pco_onnx_value *value, pco_error *err)
{
    (void)index;
    PCO_NEEDS(model);
    PCO_NEEDS(value);
    return none(err);
}

pco_status pco_onnx_output(const pco_onnx_model *model, uint32_t index, pco_onnx_value *value, pco_error *err)
{
    (void)index;
    PCO_NEEDS(model);
    PCO_NEEDS(value);
    return none(err);
}

int64_t pco_onnx_opset(const pco_onnx_model *model)
{
    (void)model;
    return 0;
}

uint32_t pco_onnx_nodes(const pco_onnx_model *model)
{
    (void)model;
    return 0;
}

uint32_t pco_onnx_check(const pco_onnx_model *model, pco_onnx_problem_fn problem, void *user)
{
    (void)model, (void)problem, (void)user;
    return 0;
}

int pco_onnx_has_operator(const char *domain, const char *op)
{
    (void)domain, (void)op;
    return 0;
}

pco_status pco_onnx_runner_create(pco_session *session, const pco_onnx_model *model, pco_onnx_runner **runner,
                                  pco_error *err)
{
    PCO_NEEDS(runner);
    *runner = NULL;
    PCO_NEEDS(session);
    PCO_NEEDS(model);
    return none(err);
}

void pco_onnx_runner_destroy(pco_onnx_runner *runner) { (void)runner; }

void pco_onnx_runner_tell(pco_onnx_runner *runner, pco_onnx_problem_fn problem, void *user)
{
    (void)runner, (void)problem, (void)user;
}

void pco_onnx_runner_merge(pco_onnx_runner *runner, int merge) { (void)runner, (void)merge; }

pco_status pco_onnx_run(pco_onnx_runner *runner, const pco_onnx_array *inputs, uint32_t n_inputs, pco_error *err)
{
    PCO_NEEDS(runner);
    PCO_NEEDS_SOME(inputs, n_inputs);
    return none(err);
}

pco_status pco_onnx_runner_output(const pco_onnx_runner *runner, uint32_t index, pco_onnx_array *array, pco_error *err)
{
    (void)index;
    PCO_NEEDS(runner);
    PCO_NEEDS(array);
    return none(err);
}

const pco_executable *pco_onnx_runner_executable(const pco_onnx_runner *runner)
{
    (void)runner;
    return NULL;
}
