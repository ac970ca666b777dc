/* A case made concrete. */
#include "run/problem.h"

#include "base/error.h"
#include "graph/infer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

pco_status conf_problem_infer(conf_problem *problem, pco_error *err)
{
    const conf_case *one = problem->one;
    pco_shape_context context = {
        .op = conf_case_op(one), .attrs = one->attrs.bytes, .node_name = "case", .n_inputs = problem->node.n_inputs};
    for (uint32_t i = 0; i < problem->node.n_inputs; i++)
        if (problem->node.inputs[i] != PCO_NONE) context.inputs[i] = &problem->tensors[problem->node.inputs[i]];
    pco_status status = pco_infer(&context, err);
    if (status) return pco_fail_prefix(err, status, "the suite's own case '%s'", one->label);
    static const char *const NAMES[PCO_MAX_OUTPUTS] = {"y", "y1", "y2", "y3"};
    problem->node.n_outputs = context.n_outputs;
    for (uint32_t i = 0; i < context.n_outputs; i++) {
        pco_tensor *tensor = &problem->tensors[problem->n_tensors];
        *tensor = context.outputs[i];
        tensor->kind = PCO_KIND_OUTPUT;
        uint32_t written = pco_op_written(context.op, i);
        tensor->alias = written == PCO_NONE ? PCO_NONE : problem->node.inputs[written];
        tensor->name = NAMES[i];
        tensor->bytes = oracle_bytes(tensor);
        problem->node.outputs[i] = problem->n_tensors++;
        problem->oracle.out[i].desc = *tensor;
    }
    return PCO_OK;
}

void conf_problem_describe(conf_problem *problem, const conf_case *one)
{
    memset(problem, 0, sizeof *problem);
    problem->one = one;
    problem->node = (pco_node){.op = one->op,
                               .n_inputs = one->n_inputs,
                               .variant = PCO_NONE,
                               .attrs_size = one->attrs_size,
                               .attrs = one->attrs_size ? one->attrs.bytes : NULL,
                               .name = "case"};
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) problem->node.inputs[i] = PCO_NONE;
    for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) problem->node.outputs[i] = PCO_NONE;
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        if (!one->in[i].present) continue;
        problem->tensors[problem->n_tensors] = conf_operand_tensor(one, i);
        problem->node.inputs[i] = problem->n_tensors++;
    }
}

static pco_status conf_problem_build(conf_problem *problem, const conf_case *one, const void *const *data,
                                     uint64_t seed, const oracle_rules *rules, bool answered, pco_error *err)
{
    conf_problem_describe(problem, one);
    problem->rules = *rules;
    problem->oracle =
        (oracle_node){.op = one->op, .attrs = one->attrs.bytes, .n_inputs = one->n_inputs, .rules = &problem->rules};
    uint64_t data_seed = conf_case_seed(one, seed);
    for (uint32_t i = 0; i < one->n_inputs; i++) {
        const uint32_t at = problem->node.inputs[i];
        if (at == PCO_NONE) continue;
        problem->data[i] = malloc(problem->tensors[at].bytes + 8);
        if (!problem->data[i])
            return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a case's data (%" PRIu64 " bytes)",
                            problem->tensors[at].bytes);
        if (data)
            memcpy(problem->data[i], data[i], problem->tensors[at].bytes);
        else
            conf_operand_fill(one, i, data_seed, problem->data[i]);
        if (one->in[i].constant) problem->tensors[at].data = problem->data[i];
        pco_status status = oracle_operand_load(&problem->oracle.in[i], &problem->tensors[at], problem->data[i], err);
        if (status) return status;
    }
    pco_status status = conf_problem_infer(problem, err);
    if (status) return status;
    problem->oracle.n_outputs = problem->node.n_outputs;
    return answered ? oracle_run(&problem->oracle, err) : PCO_OK;
}

static oracle_rules conf_problem_rules(const pco_contract *contract)
{
    oracle_rules rules = oracle_rules_from(contract);
    rules.exact_casts = contract->round_to_nearest != 0;
    return rules;
}

pco_status conf_problem_make(conf_problem *problem, const conf_case *one, uint64_t seed, const pco_contract *contract,
                             pco_error *err)
{
    oracle_rules rules = conf_problem_rules(contract);
    return conf_problem_build(problem, one, NULL, seed, &rules, true, err);
}

pco_status conf_problem_make_bare(conf_problem *problem, const conf_case *one, uint64_t seed,
                                  const pco_contract *contract, pco_error *err)
{
    oracle_rules rules = conf_problem_rules(contract);
    return conf_problem_build(problem, one, NULL, seed, &rules, false, err);
}

pco_status conf_problem_make_with(conf_problem *problem, const conf_problem *other, const oracle_rules *rules,
                                  pco_error *err)
{
    return conf_problem_build(problem, other->one, (const void *const *)other->data, 0, rules, true, err);
}

pco_status conf_problem_make_from(conf_problem *problem, const conf_case *one, const void *const *data,
                                  const pco_contract *contract, pco_error *err)
{
    oracle_rules rules = conf_problem_rules(contract);
    return conf_problem_build(problem, one, data, 0, &rules, true, err);
}

void conf_problem_clear(conf_problem *problem)
{
    oracle_node_clear(&problem->oracle);
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) free(problem->data[i]);
    if (problem->changed) conf_problem_clear(problem->changed);
    free(problem->changed);
    memset(problem, 0, sizeof *problem);
}
