/* One reproducer: operands, results, kernels, launches, README.txt and repro.c in a folder. */
#include "reproduce/reproduce_internal.h"

#include "base/dtype.h"
#include "base/error.h"
#include "graph/op.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MAX_BYTES = 1ull << 31; /* of memory images */

/* ---- operands and results ---- */

static pco_status conf_write_operands(const conf_writing *w)
{
    const conf_problem *problem = w->problem;
    for (uint32_t i = 0; i < problem->one->n_inputs; i++) {
        char name[64];
        uint32_t t = problem->node.inputs[i];
        if (t == PCO_NONE) continue;
        snprintf(name, sizeof name, "%s.npy", problem->tensors[t].name);
        pco_status status = conf_write_values(w, name, &problem->tensors[t], problem->data[i], w->err);
        if (status) return status;
    }
    return PCO_OK;
}

static pco_status conf_write_bound(const conf_writing *w, const char *name, const oracle_output *out)
{
    double *bound = malloc((size_t)(out->count + 1) * sizeof *bound);
    if (!bound) return pco_fail(w->err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory");
    conf_bounds(w->problem, out, bound);
    pco_status status = conf_write_array(w, name, &out->desc, -1, bound, w->err);
    free(bound);
    return status;
}

static pco_status conf_write_results(conf_writing *w)
{
    const conf_problem *problem = w->problem;
    const pco_trial_memory *memory = w->execution ? w->execution->memory : NULL;
    if (memory) pco_print(&w->tables, "static const output outputs[] = {");
    for (uint32_t i = 0; i < problem->node.n_outputs; i++) {
        char expected[64], bound[64], got[64];
        uint32_t t = problem->node.outputs[i];
        const oracle_output *out = &problem->oracle.out[i];
        const char *name = problem->tensors[t].name;
        snprintf(expected, sizeof expected, "%s.expected.npy", name);
        snprintf(bound, sizeof bound, "%s.bound.npy", name);
        snprintf(got, sizeof got, "%s.got.npy", name);
        pco_status status = conf_write_array(w, expected, &out->desc, -1, out->value, w->err);
        if (!status) status = conf_write_bound(w, bound, out);
        if (!status && memory && w->execution->ran && memory->read && memory->regions[t].bytes)
            status = conf_write_values(w, got, &out->desc, pco_trial_memory_result(memory, t), w->err);
        if (status) return status;
        if (!memory || !memory->regions[t].bytes || out->count == 0) continue;
        w->n_outputs++;
        pco_print(&w->tables,
                  "\n    {.expected = \"%s\", .bound = \"%s\", .type = \"%s\", .buffer = %u, .offset = %" PRIu64
                  ", .count = %" PRId64 ", .zero = %d, .edge = %.17g},",
                  expected, bound, oracle_dtype_name(out->desc.dtype), memory->regions[t].buffer,
                  memory->regions[t].offset, out->count, out->sign_of_zero, conf_edge(problem, out->desc.dtype));
    }
    if (memory) pco_print(&w->tables, " };\n");
    return PCO_OK;
}

/* ---- memory ---- */

static pco_status conf_write_memory(conf_writing *w)
{
    const pco_trial_memory *memory = w->execution->memory;
    const char *separator = "";
    pco_print(&w->tables, "static buffer buffers[] = {");
    for (uint32_t b = 0; b < memory->n_buffers; b++) {
        char name[64];
        snprintf(name, sizeof name, "buffer%u.bin", b);
        pco_status status =
            conf_folder_write(&w->folder, name, memory->image + memory->starts[b], memory->sizes[b], w->err);
        if (status) return status;
        pco_print(&w->tables, "%s{.bytes = %" PRIu64 ", .file = \"%s\"},", b && b % 3 == 0 ? "\n    " : " ",
                  memory->sizes[b], name);
    }
    pco_print(&w->tables, " };\nstatic const window writable[] = {");
    for (int kept = 0; kept < 2; kept++) /* first what holds nothing before the run */
        for (uint32_t r = 0; r < memory->n_regions; r++) {
            const pco_trial_region *region = &memory->regions[r];
            bool fresh = !region->data && region->shares == PCO_NONE;
            if (!region->bytes || !region->written || fresh == kept) continue;
            pco_print(&w->tables, "%s{%u, %" PRIu64 ", %" PRIu64 "}", separator, region->buffer, region->offset,
                      region->bytes);
            separator = ", ";
            w->n_writable++;
            w->n_fresh += fresh;
        }
    pco_print(&w->tables, "};\n");
    return PCO_OK;
}

/* ---- README.txt ---- */

static void conf_put_contract(pco_writer *out, const pco_contract *c)
{
    pco_print(out,
              "Contract: compute %s, sums of f32 in %s, of f16 in %s, of bf16 in %s; %s; subnormals %s; NaN "
              "and infinity "
              "%s; / %g ulp, sqrt %g, rsqrt %g, functions %g\n",
              oracle_dtype_name(c->compute), oracle_dtype_name(c->accumulate_f32), oracle_dtype_name(c->accumulate_f16),
              oracle_dtype_name(c->accumulate_bf16), c->round_to_nearest ? "to nearest even" : "either neighbour",
              c->subnormals ? "kept" : "may be flushed", c->nan_inf ? "promised" : "not promised", (double)c->div_ulp,
              (double)c->sqrt_ulp, (double)c->rsqrt_ulp, (double)c->function_ulp);
}

static void conf_put_program(const conf_writing *w, pco_writer *out, bool program)
{
    const bool opencl = w->api == PCO_DISPATCH_OPENCL;
    if (program)
        pco_print(out,
                  "\nWithout Portico, in this folder (headers and loader of %s are needed):\n\n"
                  "  cc repro.c %s -lm -o repro && ./repro\n\n"
                  "prints the worst element and PASS or FAIL; ./repro NAME runs it on the device whose name "
                  "has NAME in it.%s\n",
                  opencl ? "OpenCL" : "Vulkan", opencl ? "-lOpenCL" : "-lvulkan",
                  w->execution->ran ? ""
                                    : " The case was not run when this folder was written: what it did to the device "
                                      "then, crash, hang or loss, ./repro may do too.");
    else if (!w->execution)
        pco_print(out, "\nNo program could be prepared, so there are no kernels and no repro.c here.\n");
    else if (w->describes)
        pco_print(out, "\nNo kernel is launched for this case, so there is no repro.c here.\n");
    else
        pco_print(out, "\nThe plugin describes no kernel launches, so there are no kernels and no repro.c here.\n");
    if (w->execution && w->execution->large)
        pco_print(out,
                  "\nFiles:\n"
                  "  inN.npy            one period of an operand, which repeats it: element i is element i mod %d\n"
                  "  y.expected.npy     the rows that are judged (columns of a product), in double; repro.c and\n"
                  "                     launches.h say which\n"
                  "  y.bound.npy        how far each element may be from it; inf: anything is right\n",
                  CONF_LARGE_PERIOD);
    else
        pco_print(out, "\nFiles:\n"
                       "  inN.npy            operands (bf16 and quantised types as f32)\n"
                       "  y.expected.npy     the result in exact arithmetic, in double\n"
                       "  y.bound.npy        how far each element may be from it; inf: anything is right\n"
                       "  y.got.npy          what the device wrote (absent when it was not run)\n");
    if (!program) return;
    pco_print(out, "  bufferN.bin        %s\n",
              w->execution->large ? "one period of an operand as it is stored; repro.c fills the memory with it"
                                  : "device memory before the run: operands in place, canaries and poison around them");
    pco_print(out, opencl ? "  *.cl               OpenCL C as it is compiled\n"
                          : "  *.spv              SPIR-V as the driver gets it\n"
                            "  *.comp             the GLSL that it was made from (glslc -fshader-stage=compute "
                            "--target-env=vulkan1.1 -O, or vulkan1.3 where it has GL_NV_cooperative_matrix2; the float "
                            "modes are patched in later)\n");
    pco_print(out, "\nLaunches:\n%s", w->list.data);
}

static pco_status conf_write_readme(conf_writing *w, bool program)
{
    pco_writer text = {0};
    const pco_device_info *info = w->device->info;
    pco_print(&text, "Reproducer: %s\n\nDevice: %s, %s, %s\n", w->text->title, w->device->id, info->name, info->driver);
    if (info->platform[0]) pco_print(&text, "Platform: %s\n", info->platform);
    conf_put_contract(&text, &info->contract);
    pco_print(&text, "Variant: %s\nSeed: %" PRIu64 "\nSeen: %s\n\nAgain, with Portico:\n\n  %s\n", w->text->variant,
              w->text->seed, w->text->found, w->text->repeat);
    conf_put_program(w, &text, program);
    pco_status status = conf_folder_save(&w->folder, "README.txt", &text, w->err);
    pco_writer_release(&text);
    return status;
}

/* ---- the whole ---- */

static pco_status conf_write_all(conf_writing *w)
{
    pco_status status = PCO_OK;
    const bool large = w->execution && w->execution->large;
    if (!status && large) status = conf_write_large(w);
    if (!status && !large) status = conf_write_operands(w);
    if (!status && w->execution && !large) status = conf_write_memory(w);
    if (!status && w->execution) status = conf_write_launches(w);
    if (!status && !large) status = conf_write_results(w);
    if (!status) status = pco_writer_check(&w->tables, "the tables of a reproducer", w->err);
    if (!status) status = pco_writer_check(&w->list, "the launches of a reproducer", w->err);
    const bool program = w->n_launches && w->n_outputs && w->n_fresh;
    if (!status && program) status = conf_write_program(w);
    return status ? status : conf_write_readme(w, program);
}

pco_status conf_reproducer_write(const pco_conformance_device *device, const conf_problem *problem,
                                 const conf_execution *execution, const conf_reproducer_text *text, const char *target,
                                 pco_error *err)
{
    conf_writing w = {.device = device, .problem = problem, .execution = execution, .text = text, .err = err};
    if (execution && execution->memory && execution->memory->total > MAX_BYTES)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "%s: %" PRIu64 " bytes are too much for a reproducer", target,
                        execution->memory->total);
    pco_status status = conf_folder_create(&w.folder, target, err);
    if (!status) status = conf_write_all(&w);
    if (!status) status = conf_folder_finish(&w.folder, err);
    pco_writer_release(&w.tables);
    pco_writer_release(&w.list);
    conf_folder_destroy(&w.folder);
    return status;
}

/* ---- from the suite ---- */

/* What is wrong with an execution, in words; 0 when nothing is. */
static bool conf_execution_fails(const conf_execution *execution, char *found, size_t size)
{
    const conf_problem *problem = execution->problem;
    char got[PCO_NUMBER_TEXT], expected[PCO_NUMBER_TEXT];
    snprintf(found, size, "nothing wrong: all elements are within their bounds");
    if (execution->status) snprintf(found, size, "%s", execution->message);
    if (!execution->ran) snprintf(found, size, "not run here, only prepared");
    if (execution->large || execution->status || !execution->ran || !execution->memory->read)
        return execution->status != PCO_OK;
    for (uint32_t i = 0; i < problem->node.n_outputs; i++) {
        conf_verdict verdict;
        uint32_t t = problem->node.outputs[i];
        const oracle_output *out = &problem->oracle.out[i];
        if (out->count == 0) continue;
        conf_judge(out, &problem->rules, pco_trial_memory_result(execution->memory, t), &verdict);
        if (!verdict.wrong) continue;
        snprintf(found, size,
                 "%" PRId64 " of %" PRId64 " elements of '%s' are outside their bounds; worst: element %" PRId64
                 " is %s, expected %s within %.3g",
                 verdict.wrong, verdict.elements, problem->tensors[t].name, verdict.element,
                 pco_number_text(verdict.got, got), pco_number_text(verdict.expected, expected), verdict.bound);
        return true;
    }
    return false;
}

void conf_reproducer_observe(void *user, const conf_execution *execution)
{
    conf_reproducer *r = user;
    char found[600];
    bool fails = conf_execution_fails(execution, found, sizeof found);
    if (r->written == 2 || r->status || (!fails && (r->written || !r->always))) return;
    conf_reproducer_text text = *r->text;
    if (!r->keep_found && (execution->ran || !text.found[0])) text.found = found;
    if (execution->variant[0]) text.variant = execution->variant;
    r->status = conf_reproducer_write(execution->device, execution->problem, execution, &text, r->target, &r->err);
    if (!r->status) r->written = fails ? 2 : 1;
}

typedef struct conf_search {
    uint32_t id;
    bool found;
    conf_case one;
} conf_search;

static bool conf_search_visit(void *user, const conf_case *one)
{
    conf_search *search = user;
    if (one->id != search->id) return true;
    search->one = *one;
    search->found = true;
    return false;
}

typedef struct conf_outcome {
    uint32_t count; /* variants that were run */
    pco_conformance_case last;
} conf_outcome;

static void conf_outcome_keep(void *user, pco_conformance_case *result)
{
    conf_outcome *outcome = user;
    outcome->count++;
    outcome->last = *result;
}

/* Nothing was executed: operands and expected values only, with what stopped it. */
static pco_status conf_reproduce_unprepared(const pco_conformance_device *device, const conf_case *one,
                                            conf_reproducer_text *text, const char *folder, pco_error *err)
{
    conf_problem problem;
    pco_status status = conf_problem_make(&problem, one, text->seed, &device->info->contract, err);
    if (!status) status = conf_reproducer_write(device, &problem, NULL, text, folder, err);
    conf_problem_clear(&problem);
    return status;
}

pco_status pco_conformance_write_reproducer(const pco_conformance_device *device, const pco_conformance_options *of,
                                            const pco_conformance_case *one, uint32_t flags, const char *folder,
                                            pco_error *err)
{
    const pco_conformance_tier tier = of->tier;
    const pco_conformance_options all = {.tier = tier, .own = of->own, .n_own = of->n_own};
    conf_search search = {.id = one->id};
    conf_outcome outcome = {0};
    char title[600], repeat[400];
    conf_cases_visit_all(device->info, &all, conf_search_visit, &search);
    if (!search.found)
        return pco_fail(err, PCO_ERROR_NOT_FOUND, "tier %s has no case %08x", pco_conformance_tier_name(tier), one->id);
    if (search.one.large && (flags & PCO_REPRODUCER_NO_DEVICE))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "case %08x is too large for a folder of values alone; its command repeats it", one->id);
    if (search.one.chain)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "case %08x is a program of several nodes; its command repeats it",
                        one->id);
    const char *op = conf_case_op(&search.one)->name;
    snprintf(title, sizeof title, "%s, case %08x: %s", op, one->id, search.one.label);
    snprintf(repeat, sizeof repeat,
             "portico conformance --devices %s --tier %s --ops %s --seed %" PRIu64 " --case %08x --variant %s",
             device->id, pco_conformance_tier_name(tier == PCO_CONFORMANCE_SOAK ? PCO_CONFORMANCE_FULL : tier), op,
             one->seed, one->id, one->variant);
    if (of->own_from && PCO_OP_IS_OWN(search.one.op))
        snprintf(repeat + strlen(repeat), sizeof repeat - strlen(repeat), " --ops-from %s", of->own_from);
    conf_reproducer_text text = {
        .title = title, .found = one->detail, .repeat = repeat, .variant = one->variant, .seed = one->seed};
    if (flags & PCO_REPRODUCER_NO_DEVICE) return conf_reproduce_unprepared(device, &search.one, &text, folder, err);
    conf_reproducer writer = {
        .text = &text, .target = folder, .always = (flags & (PCO_REPRODUCER_ALWAYS | PCO_REPRODUCER_NO_RUN)) != 0};
    conf_observer observer = {conf_reproducer_observe, &writer, (flags & PCO_REPRODUCER_NO_RUN) != 0};
    pco_conformance_options options = {
        .tier = tier, .seed = one->seed, .case_id = one->id, .variant = one->variant, .observer = &observer};
    pco_status status = conf_run_case(device, &search.one, &options, conf_outcome_keep, &outcome, err);
    if (writer.status) return pco_fail(err, writer.status, "%s", writer.err.message);
    if (writer.written) return PCO_OK;
    if (!outcome.count)
        return pco_fail(err, PCO_ERROR_NOT_FOUND, "case %08x has no variant '%s' on %s", one->id, one->variant,
                        device->id);
    if (status == PCO_ERROR_OUT_OF_HOST_MEMORY) return status;
    if (!pco_conformance_state_is_bad(outcome.last.state) && !(flags & PCO_REPRODUCER_ALWAYS))
        return pco_fail(err, PCO_ERROR_NOT_FOUND, "case %08x, variant '%s' passes now: nothing is written", one->id,
                        one->variant);
    /* wrong beside the runs that were seen (a piece of the work run alone, say): the first of them, then */
    char found[sizeof outcome.last.detail];
    snprintf(found, sizeof found, "%s", outcome.last.detail);
    text.found = found;
    writer.always = writer.keep_found = true;
    if (!status) status = conf_run_case(device, &search.one, &options, conf_outcome_keep, &outcome, err);
    if (writer.status) return pco_fail(err, writer.status, "%s", writer.err.message);
    if (writer.written) return PCO_OK;
    if (search.one.large) return pco_fail(err, PCO_ERROR_UNSUPPORTED, "case %08x: %s", one->id, found);
    return conf_reproduce_unprepared(device, &search.one, &text, folder, err);
}

void pco_conformance_reproducer_name(const pco_conformance_case *one, char *text, size_t size)
{
    snprintf(text, size, "%s-%08x-%s", one->op_name, one->id, one->variant[0] ? one->variant : "default");
    for (char *at = text; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *at)) *at = '_';
}
