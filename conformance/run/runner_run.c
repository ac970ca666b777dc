/* One problem on one device in one variant: proposal, memory, program, and the same bits every time. */
#include "run/constants.h"
#include "run/runner.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t WAIT_NANOSECONDS = 300ull * 1000000000ull; /* interpreters are slow */

enum { CANARY = 256 };

pco_open_device conf_open_device(const pco_conformance_device *device)
{
    return (pco_open_device){device->plugin, device->device, device->info};
}

conf_run_state conf_run_start(const pco_conformance_device *device, conf_problem *problem)
{
    const pco_open_device on = conf_open_device(device);
    const pco_part part = {.size = sizeof part,
                           .n_tensors = problem->n_tensors,
                           .n_nodes = 1,
                           .tensors = problem->tensors,
                           .nodes = &problem->node};
    conf_run_state run = {
        .device = device, .problem = problem, .overlay = {PCO_NONE, PCO_NONE}, .trial = pco_trial_of(&on, &part)};
    run.trial.says_steps = 1;
    return run;
}

void conf_run_force(conf_run_state *run, const pco_variant *variants, uint32_t index)
{
    run->variant = variants[index];
    run->problem->node.variant = pco_variant_forced(&run->trial.on, index);
}

pco_status conf_run_propose(conf_run_state *run, pco_error *err)
{
    pco_status status = pco_trial_propose(&run->trial, err);
    return status ? status : pco_trial_convert(&run->trial, err);
}

/* Canaries and poison are the same word, a NaN in f32, f16 and bf16: what is read from outside its tensor shows too. */
pco_trial_placement conf_usual_placement(const conf_case *one)
{
    return (pco_trial_placement){.single = one->id % 2 == 0,
                                 .odd_or_even = 1,
                                 .odd = one->id >> 1,
                                 .guard = CANARY,
                                 .around = {0xe5, 0x7f, 0xe5, 0x7f}};
}

static pco_trial_placement conf_run_placement(const conf_run_state *run)
{
    pco_trial_placement placement = conf_usual_placement(run->problem->one);
    const conf_placement *other = run->placement;
    if (!other) return placement;
    if (other->regrouped) placement.single = !placement.single;
    if (other->last) placement.single = 0;
    placement.last = other->last, placement.recycled = other->recycled, placement.shift = other->shift;
    memcpy(placement.around, other->around, sizeof placement.around);
    return placement;
}

/* Regions for all tensors and the workspace; output 0 in the memory of input tensor `in_place`, if any. */
static void conf_run_lay_out(const conf_run_state *run, uint32_t in_place, pco_trial_memory *memory)
{
    const conf_problem *problem = run->problem;
    const pco_trial_placement placement = conf_run_placement(run);
    const void *data[PCO_TRIAL_TENSORS] = {NULL};
    for (uint32_t i = 0; i < problem->node.n_inputs; i++)
        if (problem->node.inputs[i] != PCO_NONE && problem->data[i]) data[problem->node.inputs[i]] = problem->data[i];
    pco_trial_lay_out(&run->trial, &placement, data, memory);
    const uint32_t over = run->overlay[0], under = run->overlay[1], y = problem->node.outputs[0];
    if (over != PCO_NONE && memory->regions[over].bytes == memory->regions[under].bytes &&
        !run->trial.converted[over] && !run->trial.converted[under])
        pco_trial_share(memory, over, under);
    if (in_place != PCO_NONE && memory->regions[in_place].bytes && memory->regions[y].bytes)
        pco_trial_share(memory, y, in_place);
}

pco_status conf_session_prepare(conf_session *session, conf_constants_watch *constants, pco_error *err)
{
    pco_status status = pco_trial_memory_create(&session->memory, err);
    if (!status) {
        status = pco_trial_prepare(session->trial, &session->memory, &session->program, err);
        if (status == PCO_ERROR_UNSUPPORTED && session->run && session->run->placement) /* it was prepared elsewhere */
            status = pco_fail_prefix(err, PCO_ERROR_INTERNAL, "refused in another place");
    }
    if (!status) status = conf_program_look(session, &session->until, err);
    if (status || !constants) return status;
    const bool own = session->run && PCO_OP_IS_OWN(session->run->problem->node.op); /* chains have none of these */
    return conf_constants_look(constants, session->device, session->program, own, err);
}

pco_status conf_session_open(conf_session *session, conf_run_state *run, uint32_t in_place, pco_error *err)
{
    *session = (conf_session){.device = run->device, .trial = &run->trial, .run = run};
    conf_run_lay_out(run, in_place, &session->memory);
    return conf_session_prepare(session, run->constants, err);
}

pco_status conf_session_fill(conf_session *session, int i, pco_error *err)
{
    session->no_more = i == 2;
    if (i == 0) return pco_trial_memory_write(&session->memory, err);
    pco_status status = pco_trial_memory_restore(&session->memory, err);
    return !status && i == 2 ? pco_trial_memory_zero(&session->memory, err) : status;
}

pco_status conf_session_execute(conf_session *session, pco_error *err)
{
    const pco_program_api *api = session->device->plugin->program;
    const uint32_t segments = session->no_more ? session->until : api->segments(session->program);
    pco_status status = pco_trial_run(session->trial, session->program, segments, WAIT_NANOSECONDS, err);
    if (!status) status = pco_trial_memory_read(&session->memory, err);
    if (!status) status = pco_trial_memory_check(&session->memory, err);
    /* Kernels of one's own write whole words. */
    const int own = session->run && PCO_OP_IS_OWN(session->run->problem->node.op);
    if (!status && !own) status = pco_trial_memory_check_rest(&session->memory, err);
    return session->run && session->run->bare && status == PCO_ERROR_INTERNAL ? PCO_OK : status;
}

pco_status conf_session_compare(conf_session *session, const char *what, pco_error *err)
{
    conf_run_state *run = session->run;
    for (uint32_t i = 0; i < run->problem->node.n_outputs; i++) {
        uint32_t t = run->problem->node.outputs[i];
        uint64_t bytes = run->problem->tensors[t].bytes;
        if (bytes == 0) continue;
        const uint8_t *result = pco_trial_memory_result(&session->memory, t), *first = run->first[i];
        if (!first) {
            run->first[i] = malloc(bytes);
            if (!run->first[i]) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
            memcpy(run->first[i], result, bytes);
            continue;
        }
        for (uint64_t at = 0; at < bytes; at++)
            if (result[at] != first[at])
                return pco_fail(err, PCO_ERROR_INTERNAL, "%s differs from the first run at byte %" PRIu64 " of '%s'",
                                what, at, run->problem->tensors[t].name);
    }
    return PCO_OK;
}

static void conf_run_show(const conf_run_state *run, const pco_trial_memory *memory, pco_program *program, bool ran,
                          pco_status status, const pco_error *err)
{
    const conf_execution execution = {
        run->device, run->problem, memory, program, run->variant_text, ran, status, status ? err->message : "", NULL};
    if (run->observer && run->observer->observe) run->observer->observe(run->observer->user, &execution);
}

void conf_session_close(conf_session *session)
{
    if (session->program) session->device->plugin->program->destroy(session->device->device, session->program);
    session->program = NULL;
    pco_trial_memory_destroy(&session->memory);
}

pco_status conf_run_times(conf_run_state *run, uint32_t in_place, int times, const char *what, pco_error *err)
{
    static const char *const FOUND[] = {"the first run",
                                        "the second run, over memory that holds the first one's results,",
                                        "the third run, over zeroed memory,"};
    conf_session session;
    pco_status status = conf_session_open(&session, run, in_place, err);
    if (!status && run->observer && run->observer->prepare_only) {
        conf_run_show(run, &session.memory, session.program, false, PCO_OK, err);
        status = pco_fail(err, PCO_ERROR_CANCELLED, "not run");
    }
    for (int i = 0; i < times && !status; i++) {
        char name[64];
        snprintf(name, sizeof name, "run %d of %d", i + 1, times);
        status = conf_session_fill(&session, i, err);
        if (!status) status = conf_session_execute(&session, err);
        if (!status) status = conf_session_compare(&session, what ? what : i < 3 ? FOUND[i] : name, err);
        conf_run_show(run, &session.memory, session.program, true, status, err);
    }
    conf_session_close(&session);
    return status;
}

void conf_run_clear(conf_run_state *run)
{
    pco_trial_clear(&run->trial);
    for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) free(run->first[i]), run->first[i] = NULL;
}
