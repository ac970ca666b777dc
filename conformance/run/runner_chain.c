/* A program of several nodes on one device: prepared as one part, run as one program. */
#include "cases/chain.h"
#include "run/runner.h"
#include "run/constants.h"

#include "base/dtype.h"
#include "base/error.h"
#include "graph/op.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHAIN_RUNS = 3 };

typedef struct chain_run {
    const pco_conformance_device *device;
    const pco_conformance_options *options;
    const conf_case *one;
    const conf_chain *chain;
    conf_case steps[CONF_CHAIN_NODES];
    conf_problem problems[CONF_CHAIN_NODES]; /* each node with the exact results of those before it */
    void *stored[CONF_CHAIN_NODES];          /* the node's exact result */
    void *first[CONF_CHAIN_NODES];           /* what the first run made */
    uint32_t result[CONF_CHAIN_NODES];       /* as tensors */
    void *data[PCO_MAX_INPUTS];              /* the case's operands, which are the first tensors */
    uint32_t n_tensors;
    pco_tensor tensors[PCO_TRIAL_TENSORS];
    pco_node nodes[CONF_CHAIN_NODES];
    pco_trial trial;
} chain_run;
_Static_assert((int)CONF_CHAIN_NODES <= PCO_TRIAL_NODES, "more nodes than a trial has");

/* ---- the program ---- */

static uint32_t chain_tensor(const chain_run *run, uint32_t input)
{
    return input >= CONF_CHAIN_RESULT ? run->result[input - CONF_CHAIN_RESULT] : input;
}

/* Node k as a case of its own, with its exact result, as a tensor of the part. */
static pco_status chain_add(chain_run *run, uint32_t k, pco_error *err)
{
    static const char *const NAMES[CONF_CHAIN_NODES] = {"y0", "y1", "y2"};
    const conf_chain_node *node = &run->chain->nodes[k];
    const pco_op_info *info = pco_op_find(node->op);
    conf_case *step = &run->steps[k];
    conf_problem *problem = &run->problems[k];
    const void *data[PCO_MAX_INPUTS] = {NULL};
    *step = (conf_case){.op = node->op, .id = run->one->id, .regime = CONF_EXACT, .n_inputs = node->n_inputs};
    step->attrs_size = pco_op_attrs_size(info);
    pco_op_default_attrs(info, step->attrs.bytes);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const uint32_t t = chain_tensor(run, node->inputs[i]);
        const pco_tensor *x = &run->tensors[t];
        step->in[i] = (conf_operand){.present = true, .dtype = x->dtype, .rank = x->rank};
        memcpy(step->in[i].shape, x->shape, sizeof x->shape);
        data[i] = node->inputs[i] >= CONF_CHAIN_RESULT ? run->stored[node->inputs[i] - CONF_CHAIN_RESULT]
                                                       : run->data[node->inputs[i]];
    }
    pco_status status = conf_problem_make_from(problem, step, data, &run->device->info->contract, err);
    if (status) return status;
    const oracle_output *out = &problem->oracle.out[0];
    pco_tensor *y = &run->tensors[run->n_tensors];
    run->nodes[k] = problem->node;
    for (uint32_t i = 0; i < node->n_inputs; i++) run->nodes[k].inputs[i] = chain_tensor(run, node->inputs[i]);
    *y = out->desc;
    y->name = NAMES[k];
    y->kind = node->kept ? PCO_KIND_OUTPUT : PCO_KIND_TRANSIENT;
    if (y->alias != PCO_NONE) y->alias = run->nodes[k].inputs[pco_op_written(info, 0)];
    run->nodes[k].outputs[0] = run->result[k] = run->n_tensors++;
    run->stored[k] = malloc(y->bytes + 8);
    if (!run->stored[k]) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a case's data");
    oracle_encode(y->dtype, out->value, run->stored[k], out->count);
    return PCO_OK;
}

static pco_status chain_make(chain_run *run, pco_error *err)
{
    const uint64_t seed = conf_case_seed(run->one, run->options->seed);
    pco_status status = PCO_OK;
    for (uint32_t i = 0; i < run->one->n_inputs; i++) {
        run->tensors[i] = conf_operand_tensor(run->one, i);
        run->data[i] = malloc(run->tensors[i].bytes + 8);
        if (!run->data[i]) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a case's data");
        conf_operand_fill(run->one, i, seed, run->data[i]);
    }
    run->n_tensors = run->one->n_inputs;
    for (uint32_t k = 0; k < run->chain->n_nodes && !status; k++) status = chain_add(run, k, err);
    const pco_open_device on = conf_open_device(run->device);
    const pco_part part = {.size = sizeof part,
                           .n_tensors = run->n_tensors,
                           .n_nodes = run->chain->n_nodes,
                           .tensors = run->tensors,
                           .nodes = run->nodes};
    run->trial = pco_trial_of(&on, &part);
    run->trial.says_steps = 1;
    return status;
}

static pco_status chain_propose(chain_run *run, pco_error *err)
{
    pco_status status = pco_trial_supports(&run->trial, err);
    if (!status) status = pco_trial_propose(&run->trial, err);
    return status ? status : pco_trial_convert(&run->trial, err);
}

/* ---- memory ---- */

/* Results that share memory lie in the region of the tensor that had it first; all workspaces are one. */
static void chain_lay_out(const chain_run *run, pco_trial_memory *memory)
{
    const pco_trial_placement placement = conf_usual_placement(run->one);
    const void *data[PCO_TRIAL_TENSORS] = {NULL};
    for (uint32_t i = 0; i < run->one->n_inputs; i++) data[i] = run->data[i];
    pco_trial_lay_out(&run->trial, &placement, data, memory);
    for (uint32_t k = 0; k < run->chain->n_nodes; k++) {
        const uint32_t place = run->chain->nodes[k].place, y = run->result[k], workspace = run->n_tensors;
        if (place == CONF_CHAIN_RECYCLED) pco_trial_share(memory, y, run->result[0]);
        if (place == CONF_CHAIN_IN_PLACE && run->trial.nodes[k].in_place & 1)
            pco_trial_share(memory, y, run->nodes[k].inputs[0]);
        if (k && memory->regions[workspace + k].bytes) pco_trial_share(memory, workspace + k, workspace);
    }
}

/* ---- verdicts ---- */

/* Keeps what the first run made; later ones must make the same. */
static pco_status chain_compare(chain_run *run, const pco_trial_memory *memory, pco_error *err)
{
    for (uint32_t k = 0; k < run->chain->n_nodes; k++) {
        const uint64_t bytes = run->tensors[run->result[k]].bytes;
        const void *made = pco_trial_memory_result(memory, run->result[k]);
        if (!run->chain->nodes[k].kept) continue;
        if (run->first[k] && memcmp(run->first[k], made, bytes) != 0)
            return pco_fail(err, PCO_ERROR_INTERNAL, "%s: '%s' differs from the first run", run->chain->name,
                            run->tensors[run->result[k]].name);
        if (run->first[k]) continue;
        run->first[k] = malloc(bytes + 1);
        if (!run->first[k]) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
        memcpy(run->first[k], made, bytes);
    }
    return PCO_OK;
}

static void chain_judge(const chain_run *run, pco_conformance_case *result)
{
    char texts[2][PCO_NUMBER_TEXT];
    for (uint32_t k = 0; k < run->chain->n_nodes; k++) {
        const conf_problem *problem = &run->problems[k];
        conf_verdict verdict;
        if (!run->first[k]) continue;
        conf_judge(&problem->oracle.out[0], &problem->rules, run->first[k], &verdict);
        result->elements += verdict.elements, result->wrong += verdict.wrong;
        if (result->element >= 0 && verdict.ratio <= result->ratio) continue;
        result->ratio = verdict.ratio, result->output = k, result->element = verdict.element;
        result->expected = verdict.expected, result->got = verdict.got, result->bound = verdict.bound;
    }
    result->state = result->wrong ? PCO_CASE_FAIL : PCO_CASE_PASS;
    if (result->wrong)
        snprintf(result->detail, sizeof result->detail,
                 "%s: %" PRId64 " of %" PRId64 " elements are wrong; '%s' element %" PRId64 " is %s, expected %s",
                 run->chain->name, result->wrong, result->elements, run->tensors[run->result[result->output]].name,
                 result->element, pco_number_text(result->got, texts[0]), pco_number_text(result->expected, texts[1]));
}

static pco_status chain_runs(chain_run *run, pco_error *err)
{
    conf_session session = {.device = run->device, .trial = &run->trial};
    chain_lay_out(run, &session.memory);
    pco_status status = conf_session_prepare(&session, run->options->constants, err);
    const bool runs = !conf_only_prepares(run->options);
    for (int i = 0; i < CHAIN_RUNS && !status && runs; i++) {
        status = conf_session_fill(&session, i, err);
        if (!status) status = conf_session_execute(&session, err);
        if (!status) status = chain_compare(run, &session.memory, err);
    }
    conf_session_close(&session);
    return status;
}

static pco_status chain_once(chain_run *run, pco_conformance_case *result, pco_error *err)
{
    pco_status status = chain_propose(run, err);
    const bool refused = status == PCO_ERROR_UNSUPPORTED;
    if (!status) status = chain_runs(run, err);
    chain_judge(run, result);
    if (status && result->state != PCO_CASE_FAIL) {
        result->state = refused                           ? PCO_CASE_UNSUPPORTED
                        : status == PCO_ERROR_DEVICE_LOST ? PCO_CASE_DEVICE_LOST
                                                          : PCO_CASE_FAIL;
        result->ratio = refused ? 0.0 : INFINITY;
        snprintf(result->detail, sizeof result->detail, "%.511s", err->message);
    }
    for (uint32_t k = 0; k < CONF_CHAIN_NODES; k++) free(run->first[k]), run->first[k] = NULL;
    return status == PCO_ERROR_DEVICE_LOST || status == PCO_ERROR_OUT_OF_HOST_MEMORY ? status : PCO_OK;
}

static void chain_clear(chain_run *run)
{
    for (uint32_t k = 0; k < CONF_CHAIN_NODES; k++) {
        conf_problem_clear(&run->problems[k]);
        free(run->stored[k]);
    }
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) free(run->data[i]);
    pco_trial_clear(&run->trial);
    free(run);
}

pco_status conf_run_chain(const pco_conformance_device *device, const conf_case *one,
                          const pco_conformance_options *options, const pco_conformance_case *blank,
                          conf_report_fn report, void *user, pco_error *err)
{
    pco_conformance_case result = *blank, again = *blank;
    const pco_variant own = {.name = "default"}; /* what the plugin chooses for each node */
    result.variant = again.variant = own.name;
    if (!pco_variant_matches(&own, options->variant)) return PCO_OK;
    if (options->begin && !options->begin(options->user, &result, 0)) return PCO_OK;
    chain_run *run = calloc(1, sizeof *run);
    if (!run) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a case");
    run->device = device, run->options = options, run->one = one, run->chain = conf_chain_find(one->chain);
    pco_status status = chain_make(run, err);
    if (!status) status = chain_once(run, &result, err);
    if (!status && result.state == PCO_CASE_FAIL) { /* right once and wrong once is a verdict of its own */
        status = chain_once(run, &again, err);
        if (!status && again.state == PCO_CASE_PASS) result.state = PCO_CASE_FLAKY;
    }
    chain_clear(run);
    if (status && status != PCO_ERROR_DEVICE_LOST) return status;
    report(user, &result);
    return status;
}
