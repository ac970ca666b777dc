/* The same work in other places must give the same bits: at other offsets, between other neighbours, in
 * memory that held something else. And what a program gives must follow from what its operands hold now, not
 * from what they held when they, or others in the same place, were read before. */
#include "run/runner.h"

#include "base/dtype.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Numbers, not NaN: what ignores NaN (a maximum, a comparison) is moved by these. As f32 and bf16 they
 * are 6.6e35, as f16 57344. */
static const conf_placement PLACEMENTS[] = {
    {.words = "at other offsets, between large numbers, the result",
     .shift = 5,
     .regrouped = true,
     .around = {0x00, 0x7b, 0x00, 0x7b}},
    {.words = "in recycled memory, between large negative numbers, the result",
     .shift = 66,
     .recycled = true,
     .around = {0x00, 0xfb, 0x00, 0xfb}},
    /* A read behind the tensor is one behind the allocation: a fault of the page on some devices, and seen by
     * what watches over memory (oclgrind, validation layers, sanitizers). */
    {.words = "with each tensor at the end of its buffer, the result",
     .last = true,
     .around = {0x00, 0x7b, 0x00, 0x7b}},
};
enum { N_PLACEMENTS = sizeof PLACEMENTS / sizeof PLACEMENTS[0] };

/* ---- other operands ---- */

/* May the values of an operand change, while the others keep theirs? Constants belong to the program;
 * lengths, indices and what is garbage beyond a length go together. */
static bool conf_changed_may(const conf_problem *problem, uint32_t i, bool has_floats)
{
    const conf_operand *operand = &problem->one->in[i];
    if (problem->node.inputs[i] == PCO_NONE || operand->constant || conf_fill_is_garbage(operand->fill)) return false;
    return pco_dtype_is_float(operand->dtype) || !has_floats;
}

static bool conf_changed_has_floats(const conf_problem *problem)
{
    for (uint32_t i = 0; i < problem->one->n_inputs; i++)
        if (problem->node.inputs[i] != PCO_NONE && pco_dtype_is_float(problem->one->in[i].dtype)) return true;
    return false;
}

/* The second half of each operand that may change, with the data of another seed. The first half stays: a
 * device that knows operands by how they begin takes them for the old ones. */
static pco_status conf_changed_make(conf_problem *problem, const pco_contract *contract, pco_error *err)
{
    const conf_case *one = problem->one;
    const void *data[PCO_MAX_INPUTS] = {NULL};
    void *fresh[PCO_MAX_INPUTS] = {NULL};
    const bool floats = conf_changed_has_floats(problem);
    pco_status status = PCO_OK;
    bool changed = false;
    for (uint32_t i = 0; i < one->n_inputs && !status; i++) {
        data[i] = problem->data[i];
        if (!conf_changed_may(problem, i, floats)) continue;
        const pco_tensor *tensor = &problem->tensors[problem->node.inputs[i]];
        const uint64_t step = oracle_block_bytes(tensor->dtype), keep = tensor->bytes / step / 2 * step;
        fresh[i] = malloc(tensor->bytes + 8);
        if (!fresh[i]) {
            status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a case's data");
            break;
        }
        conf_operand_fill(one, i, conf_case_seed(one, 0x6f74686572), fresh[i]);
        memcpy(fresh[i], problem->data[i], keep);
        changed |= memcmp(fresh[i], problem->data[i], tensor->bytes) != 0;
        data[i] = fresh[i];
    }
    if (!status && changed) {
        problem->changed = calloc(1, sizeof *problem->changed);
        if (problem->changed)
            status = conf_problem_make_from(problem->changed, one, data, contract, err);
        else
            status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for a problem");
    }
    for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) free(fresh[i]);
    return status;
}

/* What the operands of `problem` hold, into the image of the session's memory. */
static void conf_changed_fill(conf_session *session, const conf_problem *problem)
{
    pco_trial_memory *memory = &session->memory;
    for (uint32_t i = 0; i < problem->node.n_inputs; i++) {
        const uint32_t t = problem->node.inputs[i];
        if (t == PCO_NONE || session->run->trial.converted[t] || !memory->regions[t].bytes) continue;
        pco_trial_region *region = &memory->regions[t];
        region->data = problem->data[i];
        memcpy(memory->image + memory->starts[region->buffer] + region->offset, region->data, region->data_bytes);
    }
}

static pco_status conf_changed_judge(const conf_session *session, const conf_problem *changed, pco_error *err)
{
    for (uint32_t i = 0; i < changed->node.n_outputs; i++) {
        const oracle_output *out = &changed->oracle.out[i];
        conf_verdict verdict;
        char texts[2][PCO_NUMBER_TEXT];
        if (out->count == 0) continue;
        conf_judge(out, &changed->rules, pco_trial_memory_result(&session->memory, changed->node.outputs[i]), &verdict);
        if (verdict.wrong)
            return pco_fail(
                err, PCO_ERROR_INTERNAL,
                "after operands were changed %" PRId64 " of %" PRId64
                " elements are outside their bounds; worst: '%s' element %" PRId64 " is %s, expected %s within %.3g",
                verdict.wrong, verdict.elements, changed->tensors[changed->node.outputs[i]].name, verdict.element,
                pco_number_text(verdict.got, texts[0]), pco_number_text(verdict.expected, texts[1]), verdict.bound);
    }
    return PCO_OK;
}

/* One program: the operands, others in the same memory, the first ones again. */
static pco_status conf_run_changed(conf_run_state *run, pco_error *err)
{
    conf_problem *problem = run->problem;
    conf_session session;
    pco_status status = problem->changed ? PCO_OK : conf_changed_make(problem, &run->device->info->contract, err);
    if (status || !problem->changed) return status;
    status = conf_session_open(&session, run, PCO_NONE, err);
    for (int i = 0; i < 3 && !status; i++) {
        conf_changed_fill(&session, i == 1 ? problem->changed : problem);
        status = pco_trial_memory_write(&session.memory, err);
        if (!status) status = conf_session_execute(&session, err);
        if (!status)
            status = i == 1 ? conf_changed_judge(&session, problem->changed, err)
                            : conf_session_compare(&session, "with the same operands as before, the result", err);
    }
    conf_session_close(&session);
    return status;
}

pco_status conf_run_placed(conf_run_state *run, conf_places places, pco_error *err)
{
    pco_status status = PCO_OK;
    for (int i = 0; i < N_PLACEMENTS && !status; i++) {
        if (places == CONF_PLACES_NONE || (places == CONF_PLACES_LAST && !PLACEMENTS[i].last)) continue;
        run->placement = &PLACEMENTS[i];
        status = conf_run_times(run, PCO_NONE, 1, PLACEMENTS[i].words, err);
        if (status == PCO_ERROR_UNSUPPORTED) status = PCO_OK; /* one buffer for all is larger than there may be */
    }
    run->placement = NULL;
    return status || places != CONF_PLACES_ALL ? status : conf_run_changed(run, err);
}
