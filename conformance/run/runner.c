/* One case on one device, variant by variant. */
#include "run/diagnose.h"
#include "run/runner.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/hash.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The first input in whose memory the output may lie, as a tensor; reshape may always lie in its own. */
static uint32_t conf_run_place(const conf_run_state *run)
{
    const conf_problem *problem = run->problem;
    for (uint32_t i = 0; i < problem->one->n_inputs; i++) {
        uint32_t t = problem->node.inputs[i];
        if ((run->trial.nodes[0].in_place >> i & 1) && t != PCO_NONE && problem->tensors[t].kind == PCO_KIND_INPUT)
            return t;
    }
    return PCO_NONE;
}

/* Once more with the result in the memory of an operand, where that is allowed. */
static pco_status conf_run_shared(conf_run_state *run, pco_error *err)
{
    conf_problem *problem = run->problem;
    uint32_t in_place = conf_run_place(run);
    pco_status status = in_place == PCO_NONE ? PCO_OK : conf_run_times(run, in_place, 1, "running in place", err);
    if (!status && problem->one->op == PCO_OP_RESHAPE) { /* sharing memory by the plan: nothing may change */
        problem->tensors[1].alias = 0;
        status = conf_run_times(run, 0, 1, "running in place", err);
        problem->tensors[1].alias = PCO_NONE;
    }
    return status;
}

/* ---- verdicts ---- */

static void conf_run_judge(const conf_run_state *run, pco_conformance_case *result)
{
    const conf_problem *problem = run->problem;
    const char *doubt = NULL;
    char texts[2][PCO_NUMBER_TEXT];
    result->state = PCO_CASE_PASS;
    for (uint32_t i = 0; i < problem->node.n_outputs; i++) {
        conf_verdict verdict;
        const oracle_output *out = &problem->oracle.out[i];
        if (out->count == 0) continue;
        conf_judge(out, &problem->rules, run->first[i], &verdict);
        result->elements += verdict.elements;
        result->wrong += verdict.wrong;
        if (conf_regime_is_random(problem->one->regime) && !doubt) doubt = conf_judge_mistrust(&verdict);
        if (result->element >= 0 && verdict.ratio <= result->ratio) continue;
        result->ratio = verdict.ratio, result->output = i, result->element = verdict.element;
        result->expected = verdict.expected, result->got = verdict.got, result->bound = verdict.bound;
    }
    if (result->wrong) {
        result->state = PCO_CASE_FAIL;
        snprintf(result->detail, sizeof result->detail,
                 "%" PRId64 " of %" PRId64 " elements are outside their bounds; worst: '%s' element %" PRId64
                 " is %s, expected %s within %.3g",
                 result->wrong, result->elements, problem->tensors[problem->node.outputs[result->output]].name,
                 result->element, pco_number_text(result->got, texts[0]), pco_number_text(result->expected, texts[1]),
                 result->bound);
        conf_diagnose(problem, &run->device->info->contract, run->first, &result->explains, &result->evidence);
    } else if (conf_diagnose_fuses(problem, &run->device->info->contract, run->first, result->detail,
                                   sizeof result->detail)) {
        result->state = PCO_CASE_FAIL;
    } else if (doubt) {
        result->state = PCO_CASE_MISTRUSTED;
        snprintf(result->detail, sizeof result->detail, "%s", doubt);
    }
}

/* How often each tier runs a case for the same bits, and how many rows it runs alone. */
static int conf_run_repeats(pco_conformance_tier tier)
{
    return tier >= PCO_CONFORMANCE_FULL ? 100 : tier == PCO_CONFORMANCE_STANDARD ? 10 : 3;
}

/* In the short tiers only for real data in f32: a piece often means another pipeline, and software drivers compile
 * slowly. Which rows a piece has does not depend on how their elements are stored. */
static int conf_run_rows(pco_conformance_tier tier, const conf_case *one)
{
    if (tier == PCO_CONFORMANCE_QUICK || tier == PCO_CONFORMANCE_TINY)
        return one->regime == CONF_REAL && one->in[0].dtype == PCO_F32;
    return tier >= PCO_CONFORMANCE_FULL ? 8 : 3;
}

/* Where else does the case run? A node of a model has its place already. In the short tiers everywhere only the first
 * case with operands of some types, which runs in all variants; and every case of tiny, the tier of those who watch
 * over memory, at the end of its buffers. */
static conf_places conf_run_places(pco_conformance_tier tier, const conf_problem *problem)
{
    const bool is_short = tier == PCO_CONFORMANCE_QUICK || tier == PCO_CONFORMANCE_TINY;
    if (problem->own_choice) return CONF_PLACES_NONE;
    if (!is_short || problem->one->turn == 0) return CONF_PLACES_ALL;
    return tier == PCO_CONFORMANCE_TINY ? CONF_PLACES_LAST : CONF_PLACES_NONE;
}

static bool conf_run_has_results(const conf_run_state *run)
{
    for (uint32_t i = 0; i < run->problem->node.n_outputs; i++)
        if (run->problem->oracle.out[i].count && !run->first[i]) return false;
    return true;
}

/* A refusal of what must fit is a failure. */
static void conf_run_refused(const conf_run_state *run, const pco_variant *variant, pco_conformance_case *result)
{
    if (!conf_must_fit(run->device, run->problem, variant, result->detail, sizeof result->detail)) return;
    result->state = PCO_CASE_FAIL;
    result->ratio = INFINITY;
}

/* Of the first run's results; 0 where there are none. */
static uint64_t conf_run_hash(const conf_run_state *run)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < run->problem->node.n_outputs; i++)
        if (run->first[i])
            hash = pco_hash(hash ? hash : PCO_HASH_START, run->first[i],
                            run->problem->tensors[run->problem->node.outputs[i]].bytes);
    return hash;
}

static pco_status conf_run_once(conf_run_state *run, const pco_conformance_options *options,
                                pco_conformance_case *result, pco_error *err)
{
    pco_status status = conf_run_propose(run, err);
    if (!status) status = conf_run_times(run, PCO_NONE, conf_run_repeats(options->tier), NULL, err);
    const bool refused = status == PCO_ERROR_UNSUPPORTED;       /* later on it is no excuse any more */
    if (conf_run_has_results(run)) conf_run_judge(run, result); /* also when a later run differed */
    if (status == PCO_ERROR_INTERNAL && result->state == PCO_CASE_FAIL) status = PCO_OK; /* said already */
    result->bits = conf_run_hash(run);
    result->invariance = (pco_conformance_invariance){{0}, {0}};
    run->invariance = &result->invariance;
    if (!status && result->state != PCO_CASE_FAIL) status = conf_run_shared(run, err);
    if (!status && result->state != PCO_CASE_FAIL)
        status = conf_run_placed(run, conf_run_places(options->tier, run->problem), err);
    if (!status && result->state != PCO_CASE_FAIL)
        status = conf_run_pieces(
            run, conf_run_rows(options->invariance ? PCO_CONFORMANCE_STANDARD : options->tier, run->problem->one), err);
    if (status) {
        result->state = refused                           ? PCO_CASE_UNSUPPORTED
                        : status == PCO_ERROR_DEVICE_LOST ? PCO_CASE_DEVICE_LOST
                                                          : PCO_CASE_FAIL;
        result->ratio = refused ? 0.0 : INFINITY;
        result->explains = result->evidence = 0;
        snprintf(result->detail, sizeof result->detail, "%.511s", err->message);
        if (refused) conf_run_refused(run, &run->variant, result);
    }
    conf_run_clear(run);
    return status == PCO_ERROR_DEVICE_LOST || status == PCO_ERROR_OUT_OF_HOST_MEMORY ? status : PCO_OK;
}

/* What fails is run once more on the same data: right once and wrong once is a verdict of its own. */
static pco_status conf_run_judged(conf_run_state *run, const pco_conformance_options *options,
                                  pco_conformance_case *result, pco_error *err)
{
    pco_conformance_case again = *result;
    pco_status status = conf_run_once(run, options, result, err);
    if (status || result->state != PCO_CASE_FAIL) return status;
    if (run->observer && run->observer->prepare_only) return status; /* nothing was run */
    status = conf_run_once(run, options, &again, err);
    if (again.state == PCO_CASE_DEVICE_LOST || status) *result = again;
    if (again.state != PCO_CASE_PASS && again.state != PCO_CASE_MISTRUSTED) return status;
    char detail[sizeof result->detail];
    snprintf(detail, sizeof detail, "wrong once and right once on the same data; wrong: %.440s", result->detail);
    memcpy(result->detail, detail, sizeof detail);
    result->state = PCO_CASE_FLAKY;
    return status;
}

/* Prepared, and not run: what compiles has passed. */
static pco_status conf_run_compiled(conf_run_state *run, pco_conformance_case *result, pco_error *err)
{
    conf_session session;
    pco_status status = conf_run_propose(run, err);
    if (!status) {
        status = conf_session_open(&session, run, PCO_NONE, err);
        conf_session_close(&session);
    }
    result->state = status == PCO_OK                  ? PCO_CASE_PASS
                    : status == PCO_ERROR_UNSUPPORTED ? PCO_CASE_UNSUPPORTED
                    : status == PCO_ERROR_DEVICE_LOST ? PCO_CASE_DEVICE_LOST
                                                      : PCO_CASE_FAIL;
    if (status) snprintf(result->detail, sizeof result->detail, "%.511s", err->message);
    if (status == PCO_ERROR_UNSUPPORTED) conf_run_refused(run, &run->variant, result);
    conf_run_clear(run);
    return status == PCO_ERROR_DEVICE_LOST || status == PCO_ERROR_OUT_OF_HOST_MEMORY ? status : PCO_OK;
}

static pco_status conf_run_variant(conf_run_state *run, const pco_conformance_options *options,
                                   pco_conformance_case *result, pco_error *err)
{
    if (options->compile_only) return conf_run_compiled(run, result, err);
    pco_status status = conf_run_judged(run, options, result, err);
    const bool runs = !run->observer || !run->observer->prepare_only;
    return status || !runs ? status : conf_run_replay(run, options, result, err);
}

static pco_conformance_case conf_run_result(const pco_conformance_device *device, const conf_case *one,
                                            const pco_conformance_options *options)
{
    const char *name = conf_case_op(one)->name;
    pco_conformance_case result = {.op = one->op,
                                   .id = one->id,
                                   .op_name = name,
                                   .regime = conf_regime_name(one->regime),
                                   .dtype = conf_case_dtype(one),
                                   .label = one->label,
                                   .variant = "",
                                   .seed = options->seed,
                                   .element = -1};
    if (options->compile_only)
        snprintf(result.repeat, sizeof result.repeat,
                 "portico conformance --compile-only --devices %s --tier %s --ops %s --case %08x", device->id,
                 pco_conformance_tier_name(options->tier), name, one->id);
    else
        snprintf(
            result.repeat, sizeof result.repeat,
            "portico conformance --devices %s --tier %s --ops %s --seed %" PRIu64 " --case %08x", device->id,
            pco_conformance_tier_name(options->tier == PCO_CONFORMANCE_SOAK ? PCO_CONFORMANCE_FULL : options->tier),
            name, options->seed, one->id);
    if (options->own_from && PCO_OP_IS_OWN(one->op))
        snprintf(result.repeat + strlen(result.repeat), sizeof result.repeat - strlen(result.repeat), " --ops-from %s",
                 options->own_from);
    if (options->replays)
        snprintf(result.repeat + strlen(result.repeat), sizeof result.repeat - strlen(result.repeat),
                 " --replays %" PRIu32, options->replays);
    return result;
}

/* Has it NaN where nothing may be read? Each kernel keeps away from that by itself. */
static bool conf_run_has_garbage(const conf_case *one)
{
    for (uint32_t i = 0; i < one->n_inputs; i++)
        if (conf_fill_is_garbage(one->in[i].fill)) return true;
    return false;
}

/* Is it for each kernel? Where a driver got one of them wrong, and of numbers that none must round in blocks. */
static bool conf_run_is_for_every(const conf_case *one)
{
    return one->every || (one->n_inputs > 1 && one->in[1].fill == CONF_FILL_SPARSE);
}

/* Each variant takes long to compile. In the short tiers the first case with operands of some types runs all of them,
 * the others the first one and, in turn, the odd or the even ones, but for cases that are for each of them; those that
 * other kinds of device would run are for every eighth case and for those with garbage. One that was asked for is
 * run. */
static bool conf_run_skips(const pco_conformance_options *options, const conf_case *one, uint32_t number,
                           const pco_variant *variant)
{
    const bool is_short = options->tier == PCO_CONFORMANCE_TINY || options->tier == PCO_CONFORMANCE_QUICK;
    if (!is_short || options->variant) return false;
    if (variant->form != PCO_FORM_OWN) return options->compile_only || (one->id % 8 != 0 && !conf_run_has_garbage(one));
    return one->turn != 0 && number != 0 && (one->turn + number) % 2 != 0 && !conf_run_is_for_every(one);
}

static pco_status conf_run_each(conf_run_state *run, const pco_variant *variants, uint32_t count,
                                const pco_conformance_options *options, conf_report_fn report, void *user,
                                pco_error *err)
{
    const bool own = run->problem->own_choice;
    pco_status status = PCO_OK;
    for (uint32_t v = 0; v < count && !status; v++) {
        char text[PCO_VARIANT_TEXT] = "";
        pco_conformance_case result = conf_run_result(run->device, run->problem->one, options);
        result.variant = pco_variant_text(&variants[v], text);
        result.width = variants[v].subgroup_width;
        if (!own && !pco_variant_matches(&variants[v], options->variant)) continue;
        if (run->problem->one && conf_run_skips(options, run->problem->one, v, &variants[v])) continue;
        if (options->begin && !options->begin(options->user, &result, 0)) continue;
        conf_run_force(run, variants, v);
        if (own) run->problem->node.variant = PCO_NONE;
        run->variant_text = own ? "" : result.variant;
        status = conf_run_variant(run, options, &result, err);
        if (own)
            result.variant = run->trial.nodes[0].variant < count
                                 ? pco_variant_text(&variants[run->trial.nodes[0].variant], text)
                                 : "";
        report(user, &result);
        if (own) break;
    }
    run->problem->node.variant = PCO_NONE;
    return status;
}

pco_status conf_run_problem(const pco_conformance_device *device, conf_problem *problem,
                            const pco_conformance_options *options, conf_report_fn report, void *user, pco_error *err)
{
    conf_run_state run = conf_run_start(device, problem);
    run.observer = options->observer;
    run.constants = options->constants;
    pco_variant variants[PCO_VARIANTS];
    uint32_t count;
    pco_status can = pco_trial_supports(&run.trial, err);
    if (can == PCO_OK) can = pco_trial_variants(&run.trial, variants, &count, err);
    if (can == PCO_OK && count == 0)
        can = pco_fail(err, PCO_ERROR_INTERNAL, "variants: none is listed for a node that the device supports");
    if (can == PCO_OK) return conf_run_each(&run, variants, count, options, report, user, err);
    pco_conformance_case result = conf_run_result(device, problem->one, options);
    result.state = can == PCO_ERROR_UNSUPPORTED   ? PCO_CASE_UNSUPPORTED
                   : can == PCO_ERROR_DEVICE_LOST ? PCO_CASE_DEVICE_LOST
                                                  : PCO_CASE_FAIL;
    snprintf(result.detail, sizeof result.detail, "%.511s", err->message);
    if (can == PCO_ERROR_UNSUPPORTED) conf_run_refused(&run, NULL, &result);
    report(user, &result);
    return can == PCO_ERROR_DEVICE_LOST ? can : PCO_OK;
}

pco_status conf_run_case(const pco_conformance_device *device, const conf_case *one,
                         const pco_conformance_options *options, conf_report_fn report, void *user, pco_error *err)
{
    pco_conformance_case result = conf_run_result(device, one, options);
    if (options->begin && !options->begin(options->user, &result, 1)) return PCO_OK;
    if (one->regime == CONF_SPECIAL && !device->info->contract.nan_inf && !options->compile_only) {
        result.state = PCO_CASE_NOT_PROMISED;
        snprintf(result.detail, sizeof result.detail, "the contract does not promise NaN and infinity");
        report(user, &result);
        return PCO_OK;
    }
    if (one->chain)
        return options->judging == PCO_JUDGE_BOUNDS ? conf_run_chain(device, one, options, &result, report, user, err)
                                                    : PCO_OK;
    if (options->judging != PCO_JUDGE_BOUNDS) return conf_run_norm(device, one, options, &result, report, user, err);
    if (one->large) return conf_run_large(device, one, options, &result, report, user, err);
    conf_problem problem;
    pco_status status = (conf_needs_no_answer(options) ? conf_problem_make_bare : conf_problem_make)(
        &problem, one, options->seed, &device->info->contract, err);
    if (status == PCO_OK) {
        status = conf_run_problem(device, &problem, options, report, user, err);
    } else {
        result.state = PCO_CASE_FAIL;
        snprintf(result.detail, sizeof result.detail, "%s%.480s",
                 status == PCO_ERROR_OUT_OF_HOST_MEMORY ? "out of host memory: " : "", err->message);
        if (status != PCO_ERROR_OUT_OF_HOST_MEMORY) status = PCO_OK;
        report(user, &result);
    }
    conf_problem_clear(&problem);
    if (!status && options->companions)
        status = conf_companions_add(options->companions, device, one, options->seed, err);
    return status;
}
