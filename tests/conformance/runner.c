/* One case on one device, variant by variant. */
#include "runner.h"

#include "base/error.h"
#include "graph/infer.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VARIANTS = 64 };
static const uint64_t WAIT_NANOSECONDS = 300ull * 1000000000ull; /* interpreters are slow */

/* ---- problems ---- */

static pco_status conf_problem_infer(conf_problem *problem, pco_error *err)
{
    const conf_case *one = problem->one;
    pco_shape_context context = {.op = pco_op_find(one->op),
                                 .attrs = one->attrs.bytes,
                                 .node_name = "case",
                                 .n_inputs = one->n_inputs};
    for (uint32_t i = 0; i < one->n_inputs; i++)
        if (one->in[i].present) context.inputs[i] = &problem->tensors[problem->node.inputs[i]];
    pco_status status = pco_infer(&context, err);
    if (status) return pco_fail_prefix(err, status, "the suite's own case '%s'", one->label);
    static const char *const NAMES[PCO_MAX_OUTPUTS] = {"y", "y1", "y2", "y3"};
    problem->node.n_outputs = context.n_outputs;
    for (uint32_t i = 0; i < context.n_outputs; i++) {
        pco_tensor *tensor = &problem->tensors[problem->n_tensors];
        *tensor = context.outputs[i];
        tensor->kind = PCO_KIND_OUTPUT;
        tensor->alias = one->op == PCO_OP_STATE_WRITE ? problem->node.inputs[0] : PCO_NONE;
        tensor->name = NAMES[i];
        tensor->bytes = oracle_bytes(tensor);
        problem->node.outputs[i] = problem->n_tensors++;
        problem->oracle.out[i].desc = *tensor;
    }
    return PCO_OK;
}

static pco_status conf_problem_build(conf_problem *problem, const conf_case *one, const void *const *data,
                                     uint64_t seed, const pco_contract *contract, pco_error *err)
{
    memset(problem, 0, sizeof *problem);
    problem->one = one;
    problem->rules = oracle_rules_from(contract);
    problem->node = (pco_node){.op = one->op,
                               .n_inputs = one->n_inputs,
                               .variant = PCO_NONE,
                               .attrs_size = one->attrs_size,
                               .attrs = one->attrs_size ? one->attrs.bytes : NULL,
                               .name = "case"};
    problem->oracle = (oracle_node){
        .op = one->op, .attrs = one->attrs.bytes, .n_inputs = one->n_inputs, .rules = &problem->rules};
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) problem->node.inputs[i] = PCO_NONE;
    for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) problem->node.outputs[i] = PCO_NONE;
    uint64_t data_seed = conf_case_seed(one, seed);
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        if (!one->in[i].present) continue;
        uint32_t at = problem->n_tensors++;
        problem->node.inputs[i] = at;
        problem->tensors[at] = conf_operand_tensor(one, i);
        problem->data[i] = malloc(problem->tensors[at].bytes + 8);
        if (!problem->data[i])
            return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a case's data");
        if (data)
            memcpy(problem->data[i], data[i], problem->tensors[at].bytes);
        else
            conf_operand_fill(one, i, data_seed, problem->data[i]);
        if (one->in[i].constant) problem->tensors[at].data = problem->data[i];
        pco_status status =
            oracle_operand_load(&problem->oracle.in[i], &problem->tensors[at], problem->data[i], err);
        if (status) return status;
    }
    pco_status status = conf_problem_infer(problem, err);
    if (status) return status;
    problem->oracle.n_outputs = problem->node.n_outputs;
    return oracle_run(&problem->oracle, err);
}

pco_status conf_problem_make(conf_problem *problem, const conf_case *one, uint64_t seed,
                             const pco_contract *contract, pco_error *err)
{
    return conf_problem_build(problem, one, NULL, seed, contract, err);
}

pco_status conf_problem_make_from(conf_problem *problem, const conf_case *one, const void *const *data,
                                  const pco_contract *contract, pco_error *err)
{
    return conf_problem_build(problem, one, data, 0, contract, err);
}

void conf_problem_clear(conf_problem *problem)
{
    oracle_node_clear(&problem->oracle);
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) free(problem->data[i]);
    memset(problem, 0, sizeof *problem);
}

/* ---- one execution ---- */

typedef struct conf_run_state {
    const pco_conformance_device *device;
    conf_problem *problem;
    pco_part part;
    pco_node_proposal node_proposal;
    pco_tensor_proposal tensor_proposals[CONF_MAX_TENSORS];
    pco_proposal proposal;
    void *converted[CONF_MAX_TENSORS];
    void *first[PCO_MAX_OUTPUTS]; /* results of the first run */
    const conf_observer *observer;
    const char *variant;
} conf_run_state;

static pco_status conf_run_propose(conf_run_state *run, pco_error *err)
{
    const pco_conformance_device *device = run->device;
    conf_problem *problem = run->problem;
    run->node_proposal = (pco_node_proposal){.variant = PCO_NONE, .fused_into = PCO_NONE};
    for (uint32_t t = 0; t < problem->n_tensors; t++)
        run->tensor_proposals[t] =
            (pco_tensor_proposal){0, device->info->buffer_alignment, problem->tensors[t].bytes};
    run->proposal = (pco_proposal){
        .size = sizeof run->proposal, .nodes = &run->node_proposal, .tensors = run->tensor_proposals};
    pco_status status = device->plugin->program->propose(device->device, &run->part, &run->proposal, err);
    if (status) return pco_fail_prefix(err, status, "propose");
    if (run->node_proposal.fused_into != PCO_NONE && run->node_proposal.fused_into != 0)
        return pco_fail(err, PCO_ERROR_INTERNAL, "propose: fused into a node that does not exist");
    for (uint32_t t = 0; t < problem->n_tensors; t++) {
        const pco_tensor_proposal *p = &run->tensor_proposals[t];
        const pco_tensor *tensor = &problem->tensors[t];
        if (p->alignment == 0 || (p->alignment & (p->alignment - 1)) != 0)
            return pco_fail(err, PCO_ERROR_INTERNAL, "propose: alignment %u of '%s' is no power of two",
                            p->alignment, tensor->name);
        if (p->layout == 0 && p->bytes < tensor->bytes)
            return pco_fail(err, PCO_ERROR_INTERNAL,
                            "propose: %" PRIu64 " bytes for '%s', which has %" PRIu64, p->bytes, tensor->name,
                            tensor->bytes);
        if (p->layout != 0 && (tensor->kind != PCO_KIND_CONSTANT || !device->plugin->program->convert))
            return pco_fail(err, PCO_ERROR_INTERNAL,
                            "propose: a layout for '%s', which is not for the plugin to lay out",
                            tensor->name);
        if (p->layout == 0) continue;
        run->converted[t] = calloc(1, p->bytes + 8);
        if (!run->converted[t]) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
        status = device->plugin->program->convert(device->device, tensor, p->layout, tensor->data,
                                                  run->converted[t], p->bytes, err);
        if (status) return pco_fail_prefix(err, status, "convert '%s'", tensor->name);
    }
    return PCO_OK;
}

/* Regions for all tensors and the workspace; output 0 in the memory of input tensor `in_place`, if any. */
static void conf_run_describe(const conf_run_state *run, uint32_t in_place, conf_run_memory *memory)
{
    const conf_problem *problem = run->problem;
    memset(memory, 0, sizeof *memory);
    memory->device = run->device;
    memory->n_regions = problem->n_tensors + 1;
    memory->single = problem->one->id % 2 == 0;
    for (uint32_t t = 0; t < problem->n_tensors; t++) {
        const pco_tensor *tensor = &problem->tensors[t];
        conf_run_region *region = &memory->regions[t];
        const pco_tensor_proposal *p = &run->tensor_proposals[t];
        *region = (conf_run_region){
            .shares = tensor->alias, .bytes = (p->bytes + 3) / 4 * 4, .data_bytes = p->bytes};
        if (tensor->bytes == 0) region->bytes = 0;
        region->written = tensor->kind == PCO_KIND_OUTPUT || tensor->kind == PCO_KIND_STATE;
        memory->alignment[t] = p->alignment;
        if (run->converted[t]) region->data = run->converted[t];
    }
    for (uint32_t i = 0; i < problem->one->n_inputs; i++) {
        uint32_t t = problem->node.inputs[i];
        if (t == PCO_NONE || run->converted[t]) continue;
        memory->regions[t].data = problem->data[i];
        memory->regions[t].data_bytes = problem->tensors[t].bytes;
    }
    uint32_t y = problem->node.outputs[0];
    if (in_place != PCO_NONE && memory->regions[in_place].bytes && memory->regions[y].bytes) {
        if (memory->regions[y].bytes > memory->regions[in_place].bytes)
            memory->regions[in_place].bytes = memory->regions[y].bytes;
        memory->regions[y].shares = in_place;
        memory->regions[in_place].written = true;
    }
    memory->regions[problem->n_tensors] = (conf_run_region){
        .shares = PCO_NONE, .written = true, .bytes = (run->node_proposal.workspace + 3) / 4 * 4};
    memory->alignment[problem->n_tensors] = run->device->info->buffer_alignment;
}

static pco_status conf_run_prepare(conf_run_state *run, conf_run_memory *memory, pco_program **program,
                                   pco_error *err)
{
    pco_place places[CONF_MAX_TENSORS + 1];
    for (uint32_t r = 0; r < memory->n_regions; r++) {
        const conf_run_region *region = &memory->regions[r];
        places[r] = (pco_place){region->bytes ? region->buffer : PCO_NONE, 0, region->offset, region->bytes};
        /* an output in the memory of a larger input still has only its own room */
        if (r < run->problem->n_tensors && region->shares != PCO_NONE && region->bytes)
            places[r].bytes = (run->tensor_proposals[r].bytes + 3) / 4 * 4;
    }
    pco_plan plan = {.size = sizeof plan,
                     .n_buffers = memory->n_buffers,
                     .buffers = memory->buffers,
                     .tensors = places,
                     .workspaces = &places[run->problem->n_tensors]};
    pco_status status = run->device->plugin->program->prepare(run->device->device, &run->part, &run->proposal,
                                                              &plan, program, err);
    return status ? pco_fail_prefix(err, status, "prepare") : PCO_OK;
}

static pco_status conf_run_submit(conf_run_state *run, conf_run_memory *memory, pco_program *program,
                                  pco_error *err)
{
    const pco_plugin *plugin = run->device->plugin;
    uint64_t ticket = 0;
    pco_status status = conf_run_memory_reset(memory, err);
    if (status) return status;
    uint32_t segments = plugin->program->segments(program);
    if (segments > 0) {
        status = plugin->queue->submit(run->device->device, program, 0, segments, &ticket, err);
        if (status) return pco_fail_prefix(err, status, "submit");
        status = plugin->queue->wait(run->device->device, ticket, WAIT_NANOSECONDS, err);
        if (status) return pco_fail_prefix(err, status, "wait");
    }
    return conf_run_memory_check(memory, run->problem->tensors, err);
}

/* Keeps the outputs of the first run; compares those of later ones with them, bit for bit. */
static pco_status conf_run_compare(conf_run_state *run, const conf_run_memory *memory, const char *what,
                                   pco_error *err)
{
    for (uint32_t i = 0; i < run->problem->node.n_outputs; i++) {
        uint32_t t = run->problem->node.outputs[i];
        uint64_t bytes = run->problem->tensors[t].bytes;
        if (bytes == 0) continue;
        const uint8_t *result = conf_run_memory_result(memory, t), *first = run->first[i];
        if (!first) {
            run->first[i] = malloc(bytes);
            if (!run->first[i]) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
            memcpy(run->first[i], result, bytes);
            continue;
        }
        for (uint64_t at = 0; at < bytes; at++)
            if (result[at] != first[at])
                return pco_fail(err, PCO_ERROR_INTERNAL,
                                "%s differs from the first run at byte %" PRIu64 " of '%s'", what, at,
                                run->problem->tensors[t].name);
    }
    return PCO_OK;
}

static void conf_run_show(const conf_run_state *run, const conf_run_memory *memory, pco_program *program,
                          bool ran, pco_status status, const pco_error *err)
{
    const conf_execution execution = {run->device,  run->problem, memory, program,
                                      run->variant, ran,          status, status ? err->message : ""};
    if (run->observer) run->observer->observe(run->observer->user, &execution);
}

/* Runs `times` times with the given sharing. */
static pco_status conf_run_times(conf_run_state *run, uint32_t in_place, int times, pco_error *err)
{
    conf_run_memory memory;
    pco_program *program = NULL;
    conf_run_describe(run, in_place, &memory);
    pco_status status = conf_run_memory_create(&memory, err);
    if (!status) status = conf_run_prepare(run, &memory, &program, err);
    if (!status && run->observer && run->observer->prepare_only) {
        conf_run_show(run, &memory, program, false, PCO_OK, err);
        status = pco_fail(err, PCO_ERROR_CANCELLED, "not run");
    }
    for (int i = 0; i < times && !status; i++) {
        status = conf_run_submit(run, &memory, program, err);
        if (!status)
            status = conf_run_compare(run, &memory,
                                      in_place == PCO_NONE ? "the second run" : "running in place", err);
        conf_run_show(run, &memory, program, true, status, err);
    }
    if (program) run->device->plugin->program->destroy(run->device->device, program);
    conf_run_memory_destroy(&memory);
    return status;
}

/* The first input in whose memory the output may lie, as a tensor; reshape may always lie in its own. */
static uint32_t conf_run_place(const conf_run_state *run)
{
    const conf_problem *problem = run->problem;
    for (uint32_t i = 0; i < problem->one->n_inputs; i++) {
        uint32_t t = problem->node.inputs[i];
        if ((run->node_proposal.in_place >> i & 1) && t != PCO_NONE &&
            problem->tensors[t].kind == PCO_KIND_INPUT)
            return t;
    }
    return PCO_NONE;
}

/* Once more with the result in the memory of an operand, where that is allowed. */
static pco_status conf_run_shared(conf_run_state *run, pco_error *err)
{
    conf_problem *problem = run->problem;
    uint32_t in_place = conf_run_place(run);
    pco_status status = in_place == PCO_NONE ? PCO_OK : conf_run_times(run, in_place, 1, err);
    if (!status && problem->one->op == PCO_OP_RESHAPE) { /* sharing memory by the plan: nothing may change */
        problem->tensors[1].alias = 0;
        status = conf_run_times(run, 0, 1, err);
        problem->tensors[1].alias = PCO_NONE;
    }
    return status;
}

/* ---- verdicts ---- */

static void conf_run_judge(const conf_run_state *run, pco_conformance_case *result)
{
    const conf_problem *problem = run->problem;
    const char *doubt = NULL;
    result->state = PCO_CASE_PASS;
    for (uint32_t i = 0; i < problem->node.n_outputs; i++) {
        conf_verdict verdict;
        const oracle_output *out = &problem->oracle.out[i];
        if (out->count == 0) continue;
        conf_judge(out, &problem->rules, run->first[i], &verdict);
        result->elements += verdict.elements;
        result->wrong += verdict.wrong;
        if (problem->one->regime == CONF_RANDOM && !doubt) doubt = conf_judge_mistrust(&verdict);
        if (result->element >= 0 && verdict.ratio <= result->ratio) continue;
        result->ratio = verdict.ratio, result->output = i, result->element = verdict.element;
        result->expected = verdict.expected, result->got = verdict.got, result->bound = verdict.bound;
    }
    if (result->wrong) {
        result->state = PCO_CASE_FAIL;
        snprintf(result->detail, sizeof result->detail,
                 "%" PRId64 " of %" PRId64 " elements are outside their bounds; worst: '%s' element %" PRId64
                 " is %.9g, expected %.9g within %.3g",
                 result->wrong, result->elements,
                 problem->tensors[problem->node.outputs[result->output]].name, result->element, result->got,
                 result->expected, result->bound);
    } else if (doubt) {
        result->state = PCO_CASE_MISTRUSTED;
        snprintf(result->detail, sizeof result->detail, "%s", doubt);
    }
}

static pco_status conf_run_variant(conf_run_state *run, pco_conformance_case *result, pco_error *err)
{
    pco_status status = conf_run_propose(run, err);
    if (!status) status = conf_run_times(run, PCO_NONE, 2, err);
    if (!status) conf_run_judge(run, result);
    if (!status && result->state != PCO_CASE_FAIL) status = conf_run_shared(run, err);
    if (status) {
        bool unsupported = status == PCO_ERROR_UNSUPPORTED;
        result->state = unsupported ? PCO_CASE_UNSUPPORTED : PCO_CASE_FAIL;
        result->ratio = unsupported ? 0.0 : INFINITY;
        snprintf(result->detail, sizeof result->detail, "%.511s", err->message);
    }
    for (uint32_t t = 0; t < CONF_MAX_TENSORS; t++) free(run->converted[t]), run->converted[t] = NULL;
    for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) free(run->first[i]), run->first[i] = NULL;
    return status == PCO_ERROR_DEVICE_LOST || status == PCO_ERROR_OUT_OF_HOST_MEMORY ? status : PCO_OK;
}

static pco_conformance_case conf_run_result(const pco_conformance_device *device, const conf_case *one,
                                            const pco_conformance_options *options)
{
    const char *name = pco_op_find(one->op)->name;
    pco_conformance_case result = {.op = one->op,
                                   .id = one->id,
                                   .op_name = name,
                                   .regime = conf_regime_name(one->regime),
                                   .dtype = conf_case_dtype(one),
                                   .label = one->label,
                                   .variant = "",
                                   .seed = options->seed,
                                   .element = -1};
    snprintf(result.repeat, sizeof result.repeat,
             "portico conformance --devices %s --tier %s --ops %s --seed %" PRIu64 " --case %08x", device->id,
             pco_conformance_tier_name(options->tier), name, options->seed, one->id);
    return result;
}

static pco_status conf_run_variants(conf_run_state *run, const pco_conformance_options *options,
                                    conf_report_fn report, void *user, pco_error *err)
{
    const pco_program_api *program = run->device->plugin->program;
    const char *names[MAX_VARIANTS] = {"default"};
    uint32_t count =
        program->variants ? program->variants(run->device->device, &run->part, 0, names, MAX_VARIANTS) : 1;
    pco_status status = PCO_OK;
    if (count > MAX_VARIANTS) count = MAX_VARIANTS;
    for (uint32_t v = 0; v < (count ? count : 1) && !status; v++) {
        pco_conformance_case result = conf_run_result(run->device, run->problem->one, options);
        const bool own = run->problem->own_choice;
        if (count) result.variant = names[v];
        if (!own && options->variant && fnmatch(options->variant, result.variant, 0) != 0) continue;
        run->problem->node.variant = program->variants && count && !own ? v : PCO_NONE;
        run->variant = own ? "" : result.variant;
        status = conf_run_variant(run, &result, err);
        if (own) result.variant = run->node_proposal.variant < count ? names[run->node_proposal.variant] : "";
        report(user, &result);
        if (own) break;
    }
    run->problem->node.variant = PCO_NONE;
    return status;
}

pco_status conf_run_problem(const pco_conformance_device *device, conf_problem *problem,
                            const pco_conformance_options *options, conf_report_fn report, void *user,
                            pco_error *err)
{
    conf_run_state run = {.device = device, .problem = problem, .observer = options->observer};
    run.part = (pco_part){.size = sizeof run.part,
                          .n_tensors = problem->n_tensors,
                          .n_nodes = 1,
                          .tensors = problem->tensors,
                          .nodes = &problem->node};
    pco_status can = device->plugin->program->supports(device->device, &run.part, 0, err);
    if (can == PCO_OK) return conf_run_variants(&run, options, report, user, err);
    pco_conformance_case result = conf_run_result(device, problem->one, options);
    result.state = can == PCO_ERROR_UNSUPPORTED ? PCO_CASE_UNSUPPORTED : PCO_CASE_FAIL;
    snprintf(result.detail, sizeof result.detail, "%.511s", err->message);
    report(user, &result);
    return can == PCO_ERROR_DEVICE_LOST ? can : PCO_OK;
}

pco_status conf_run_case(const pco_conformance_device *device, const conf_case *one,
                         const pco_conformance_options *options, conf_report_fn report, void *user,
                         pco_error *err)
{
    pco_conformance_case result = conf_run_result(device, one, options);
    if (one->regime == CONF_SPECIAL && !device->info->contract.nan_inf) {
        result.state = PCO_CASE_NOT_PROMISED;
        snprintf(result.detail, sizeof result.detail, "the contract does not promise NaN and infinity");
        report(user, &result);
        return PCO_OK;
    }
    conf_problem problem;
    pco_status status = conf_problem_make(&problem, one, options->seed, &device->info->contract, err);
    if (status == PCO_OK) {
        status = conf_run_problem(device, &problem, options, report, user, err);
    } else {
        result.state = PCO_CASE_FAIL;
        if (status != PCO_ERROR_OUT_OF_HOST_MEMORY) status = PCO_OK;
        snprintf(result.detail, sizeof result.detail, "%.511s", err->message);
        report(user, &result);
    }
    conf_problem_clear(&problem);
    return status;
}
