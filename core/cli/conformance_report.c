/* portico conformance --report, --baseline, --verify, --rerun. */
#include "cli/conformance_report.h"

#include "cli/conformance_worker.h"
#include "commit.h"

#include "base/error.h"
#include "base/writer.h"
#include "formats/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CLI_REPORT_LINES = 20 }; /* of one kind that are printed */

/* ---- before the run ---- */

/* A baseline that was altered proves nothing: it is refused. */
static int cli_report_load_baseline(cli_report *report)
{
    pco_conformance_findings findings;
    pco_error err;
    int status = CLI_OK;
    if (pco_conformance_verify(report->baseline, &report->before, &findings, &err)) {
        cli_error("--baseline: %s", err.message);
        status = CLI_USAGE;
    } else if (findings.count[PCO_FINDING_ALTERED]) {
        cli_error("--baseline: %s was altered: %s; see --verify", report->baseline, findings.items[0].text);
        status = CLI_USAGE;
    }
    pco_conformance_findings_clear(&findings);
    return status;
}

int cli_report_begin(cli_report *report)
{
    pco_error err;
    if (report->folder && pco_conformance_report_check_folder(report->folder, &err)) {
        cli_error("--report: %s", err.message);
        return CLI_USAGE;
    }
    return report->baseline ? cli_report_load_baseline(report) : CLI_OK;
}

void cli_report_command(cli_report *report, int argc, char **argv)
{
    pco_writer line = {0};
    pco_write_text(&line, "portico conformance");
    for (int i = 1; i < argc; i++) {
        char *word = cli_quote(argv[i]);
        if (!word) line.status = PCO_ERROR_OUT_OF_HOST_MEMORY;
        pco_print(&line, " %s", word ? word : "");
        free(word);
    }
    if (line.status)
        pco_writer_release(&line);
    else
        report->command = line.data;
}

void cli_report_clear(cli_report *report)
{
    free(report->command);
    pco_conformance_report_clear(&report->before);
}

/* ---- comparison ---- */

static void cli_report_change(const pco_conformance_report *now, const pco_conformance_comparison *comparison,
                              const pco_conformance_change *change)
{
    const pco_conformance_case *one = change->now ? change->now : change->before;
    printf("  %-11s %s %s #%08" PRIx32 " [%s]", pco_conformance_change_name(change->kind),
           change->device == PCO_NONE ? "-" : now->devices[change->device].id, one->op_name, one->id, one->variant);
    if (change->before && change->now && change->kind == PCO_CHANGE_GROWN)
        printf(": error/bound %.3g, was %.3g", change->now->ratio, change->before->ratio);
    else if (change->before && change->now)
        printf(": %s, was %s", pco_conformance_state_name(change->now->state),
               pco_conformance_state_name(change->before->state));
    else
        printf(": %s", pco_conformance_state_name(one->state));
    putchar('\n');
    (void)comparison;
}

/* What the device does with numbers in another way than then. */
static void cli_report_probes(const char *id, const pco_conformance_probe *now, const pco_conformance_probe *before)
{
    if (!now->fingerprint || !before->fingerprint) return;
    if (now->fingerprint == before->fingerprint) {
        printf("  %s: fingerprint %016" PRIx64 ", as it was\n", id, now->fingerprint);
        return;
    }
    printf("  %s: fingerprint %016" PRIx64 ", was %016" PRIx64 "\n", id, now->fingerprint, before->fingerprint);
    for (uint32_t i = 0; i < now->n_lines; i++) {
        const pco_conformance_probe_line *is = &now->lines[i], *was = pco_conformance_probe_find(before, is->name);
        if (!was)
            printf("    %s: %s, was not probed\n", is->name, is->value);
        else if (strcmp(is->value, was->value) != 0)
            printf("    %s: %s, was %s\n", is->name, is->value, was->value);
        else if (is->bits != was->bits)
            printf("    %s: %s, with other bits\n", is->name, is->value);
    }
    for (uint32_t i = 0; i < before->n_lines; i++)
        if (!pco_conformance_probe_find(now, before->lines[i].name))
            printf("    %s: is not there any more, was %s\n", before->lines[i].name, before->lines[i].value);
}

static void cli_report_changes(const pco_conformance_report *now, const pco_conformance_comparison *comparison)
{
    uint32_t shown[PCO_CHANGE_KINDS] = {0};
    const uint32_t *count = comparison->count;
    printf("\nagainst the baseline of %s (Portico %s)\n", comparison->before->written, comparison->before->program);
    for (uint32_t d = 0; d < now->n_devices; d++) {
        uint32_t pair = comparison->pairs[d];
        printf("  %s: driver %s, was %s\n", now->devices[d].id, now->devices[d].info->driver,
               pair == PCO_NONE ? "no such device" : comparison->before->devices[pair].info->driver);
        if (pair != PCO_NONE)
            cli_report_probes(now->devices[d].id, &now->results[d].probe, &comparison->before->results[pair].probe);
    }
    for (uint32_t i = 0; i < comparison->n_changes; i++) {
        const pco_conformance_change *change = &comparison->changes[i];
        if (shown[change->kind]++ < CLI_REPORT_LINES) cli_report_change(now, comparison, change);
        if (shown[change->kind] == CLI_REPORT_LINES && count[change->kind] > CLI_REPORT_LINES)
            printf("  and %" PRIu32 " more of these\n", count[change->kind] - CLI_REPORT_LINES);
    }
    printf("  %" PRIu32 " regressions, %" PRIu32 " fixed, %" PRIu32 " grown more than %g-fold%s, %" PRIu32
           " in another state, %" PRIu32 " new, %" PRIu32 " removed\n",
           count[PCO_CHANGE_REGRESSION], count[PCO_CHANGE_FIXED], count[PCO_CHANGE_GROWN], comparison->factor,
           comparison->same_data ? "" : " (not compared: another seed)", count[PCO_CHANGE_STATE], count[PCO_CHANGE_NEW],
           count[PCO_CHANGE_REMOVED]);
    char was[PCO_CONFORMANCE_SCOPE_TEXT], is[PCO_CONFORMANCE_SCOPE_TEXT];
    pco_conformance_scope(comparison->before->options.tier, comparison->before->options.slice, was);
    pco_conformance_scope(now->options.tier, now->options.slice, is);
    if (strcmp(was, is) != 0) printf("  the baseline is of tier %s, this run of tier %s\n", was, is);
}

static int cli_report_compare(const cli_report *report, const pco_conformance_report *now,
                              pco_conformance_comparison *comparison)
{
    pco_error err;
    if (pco_conformance_compare(&report->before, now, report->factor > 0 ? report->factor : 2, comparison, &err))
        return cli_fail(&err);
    if (!report->json) cli_report_changes(now, comparison);
    if (comparison->count[PCO_CHANGE_REGRESSION] == 0) return CLI_OK;
    cli_error("%" PRIu32 " regressions against %s", comparison->count[PCO_CHANGE_REGRESSION], report->baseline);
    return CLI_FAILED;
}

int cli_report_end(const cli_report *report, const pco_conformance_options *options,
                   const pco_conformance_result *results, const pco_conformance_device *devices, uint32_t count,
                   const char *const *reproducers)
{
    pco_conformance_report now = {.options = *options,
                                  .commit = PCO_COMMIT,
                                  .command = report->command,
                                  .reproducers = reproducers,
                                  .n_devices = count,
                                  .devices = (pco_conformance_device *)(uintptr_t)devices,
                                  .results = (pco_conformance_result *)(uintptr_t)results};
    pco_conformance_comparison comparison = {0};
    pco_error err;
    int status = CLI_OK;
    if (report->baseline) status = cli_report_compare(report, &now, &comparison);
    if (report->folder) {
        if (pco_conformance_report_write(report->folder, &now, report->baseline ? &comparison : NULL, &err))
            status = cli_fail(&err);
        else
            cli_note("report: %s%sreport.html, report.json, junit.xml\n", report->folder,
                     report->folder[strlen(report->folder) - 1] == '/' ? "" : "/");
    }
    pco_conformance_comparison_clear(&comparison);
    return status;
}

/* ---- repeating ---- */

typedef struct cli_report_repeat {
    const pco_conformance_report *report;
    const cli_report_rerun *how;
    const pco_registry *registry;
    const pco_device_entry *entry;
    pco_conformance_device device; /* open only without worker processes */
    int identical;                 /* same device, driver and Portico: figures must be the same */
    uint32_t repeated, differ;
    uint32_t absent; /* variants that another device or driver has not */
} cli_report_repeat;

/* `text` as a shell pattern that matches itself. */
static void cli_report_literal(char *pattern, size_t size, const char *text)
{
    size_t used = 0;
    for (; *text && used + 3 < size; text++) {
        if (strchr("*?[\\", *text)) pattern[used++] = '\\';
        pattern[used++] = *text;
    }
    pattern[used] = 0;
}

static void cli_report_differs(cli_report_repeat *repeat, const pco_conformance_case *was, const char *what)
{
    if (repeat->differ++ < CLI_REPORT_LINES)
        printf("  %s %s #%08" PRIx32 " [%s]: %s\n", repeat->device.id, was->op_name, was->id, was->variant, what);
}

static void cli_report_judge(cli_report_repeat *repeat, const pco_conformance_case *was,
                             const pco_conformance_result *result)
{
    const pco_conformance_case *is = NULL;
    char what[700];
    for (uint32_t i = 0; i < result->n_cases && !is; i++)
        if (strcmp(result->cases[i].variant, was->variant) == 0 && result->cases[i].width == was->width)
            is = &result->cases[i];
    for (uint32_t i = 0; i < result->n_cases && !is; i++) /* it did not come as far as to a variant */
        if (result->cases[i].state >= PCO_CASE_CRASHED) is = &result->cases[i];
    /* a waiver is not the device's doing */
    pco_conformance_state then = was->state == PCO_CASE_WAIVED ? PCO_CASE_FAIL : was->state;
    if (!is && !repeat->identical) {
        repeat->absent++;
    } else if (!is) {
        cli_report_differs(repeat, was, "there is no such variant here");
    } else if (is->state != then && !(was->state == PCO_CASE_WAIVED && pco_conformance_state_is_bad(is->state))) {
        snprintf(what, sizeof what, "%s here, %s in the report%s%s", pco_conformance_state_name(is->state),
                 pco_conformance_state_name(was->state), *is->detail ? "; here: " : "", is->detail);
        cli_report_differs(repeat, was, what);
    } else if (repeat->identical && was->state != PCO_CASE_FLAKY && is->ratio != was->ratio) {
        snprintf(what, sizeof what, "error/bound %.17g here, %.17g in the report", is->ratio, was->ratio);
        cli_report_differs(repeat, was, what);
    }
}

/* One case, in a worker process: the device may crash or hang now. */
static pco_status cli_report_run(const cli_report_repeat *repeat, const pco_conformance_options *options,
                                 pco_conformance_result *result, pco_error *err)
{
    if (repeat->how->in_process) return pco_conformance_run(options, &repeat->device, 1, result, err);
    conformance_command command;
    conformance_command_make(&command, repeat->registry, repeat->entry, options);
    pco_conformance_isolation isolation = {
        .command = command.words, .jobs = 1, .timeout = conformance_timeout(repeat->how->timeout, options->tier)};
    return pco_conformance_run_isolated(options, &isolation, &repeat->device, result, err);
}

/* *go: is there any use in going on? */
static int cli_report_one(cli_report_repeat *repeat, const pco_conformance_case *was, int *go)
{
    char variant[256];
    pco_conformance_options options = repeat->report->options;
    pco_conformance_result result = {0};
    pco_error err;
    cli_report_literal(variant, sizeof variant, was->variant);
    options.seed = was->seed;
    options.ops = was->op_name;
    options.case_id = was->id;
    options.variant = *was->variant ? variant : NULL;
    pco_status status = cli_report_run(repeat, &options, &result, &err);
    *go = !status && !result.not_opened;
    if (!status && !result.not_opened) {
        repeat->repeated++;
        cli_report_judge(repeat, was, &result);
    }
    if (!status && result.status) status = pco_fail(&err, result.status, "%s", result.message);
    if (status) cli_error("%s: %s", repeat->device.id, err.message);
    pco_conformance_clear(&result, 1);
    return status ? CLI_FAILED : CLI_OK;
}

/* The device of this machine for device `i` of the report: of the same id among those that were chosen, or
 * the only one for the only one. */
static const pco_device_entry *cli_report_entry(const pco_registry *registry, const pco_conformance_report *report,
                                                uint32_t i, const uint32_t *indices, uint32_t count)
{
    const pco_device_entry *entries;
    pco_registry_devices(registry, &entries);
    for (uint32_t k = 0; k < count; k++)
        if (strcmp(entries[indices[k]].id, report->devices[i].id) == 0) return &entries[indices[k]];
    return count == 1 && report->n_devices == 1 ? &entries[indices[0]] : NULL;
}

static int cli_report_samples(cli_report_repeat *repeat, uint32_t device, uint32_t count, uint64_t seed)
{
    const pco_conformance_result *result = &repeat->report->results[device];
    uint32_t *indices = calloc(count, sizeof *indices);
    int status = CLI_OK, go = 1;
    if (!indices) return CLI_FAILED;
    uint32_t drawn = pco_conformance_sample(result, seed, count, indices);
    for (uint32_t i = 0; i < drawn && go; i++)
        if (cli_report_one(repeat, &result->cases[indices[i]], &go)) status = CLI_FAILED;
    uint32_t agree = repeat->repeated - repeat->differ - repeat->absent;
    printf("  %-12s %s: %" PRIu32 " of %" PRIu32 " repeated cases agree%s\n", "repeated", repeat->device.id, agree,
           drawn - repeat->absent,
           repeat->identical ? ", error/bound to the last bit"
                             : " in their state (another driver or Portico: figures may differ)");
    if (repeat->absent) printf("%15s%" PRIu32 " have a variant that is not here\n", "", repeat->absent);
    if (agree == 0) cli_error("%s: nothing was repeated that agrees", repeat->device.id);
    free(indices);
    return repeat->differ || repeat->repeated < drawn || agree == 0 ? CLI_FAILED : status;
}

static int cli_report_device(const pco_registry *registry, const pco_conformance_report *report, uint32_t i,
                             const pco_device_entry *entry, uint32_t count, const cli_report_rerun *how, uint64_t seed)
{
    const pco_plugin_entry *plugins;
    const pco_device_info *was = report->devices[i].info;
    pco_error err;
    pco_registry_plugins(registry, &plugins);
    const pco_plugin_entry *plugin = &plugins[entry->plugin];
    cli_report_repeat repeat = {.report = report, .how = how, .registry = registry, .entry = entry};
    repeat.device = (pco_conformance_device){plugin->plugin, NULL, &entry->info, entry->id};
    repeat.identical = strcmp(was->driver, entry->info.driver) == 0 && strcmp(was->name, entry->info.name) == 0 &&
                       memcmp(was->uuid, entry->info.uuid, sizeof was->uuid) == 0 &&
                       strcmp(report->program, PCO_VERSION) == 0;
    if (how->in_process &&
        pco_plugin_open_device(plugin->plugin, plugin->backend, entry->index, &repeat.device.device, &err)) {
        cli_error("%s could not be opened: %s", entry->id, err.message);
        return CLI_FAILED;
    }
    int status = cli_report_samples(&repeat, i, count, seed);
    if (repeat.device.device) plugin->plugin->device->close(repeat.device.device);
    return status;
}

static int cli_report_repeat_all(const pco_conformance_report *report, const cli_report_rerun *how, uint32_t count)
{
    const char *devices = how->devices;
    uint64_t seed = how->seed;
    int status = CLI_OK;
    char text[24];
    pco_registry *registry = cli_registry(devices ? devices : "all", &status);
    if (!registry) return status;
    uint32_t *indices = NULL, n = cli_select_devices(registry, devices ? devices : "all", &indices, &status);
    if (!n)
        status = CLI_USAGE;
    else
        status = CLI_OK;
    if (seed == 0) seed = (uint64_t)time(NULL);
    snprintf(text, sizeof text, "%" PRIu64, seed);
    if (n) printf("  %-12s %s\n", "drawn with", text);
    for (uint32_t i = 0; i < report->n_devices && n; i++) {
        const pco_device_entry *entry = cli_report_entry(registry, report, i, indices, n);
        if (!entry) {
            cli_error("the report's device %s is not %s; choose one with --devices", report->devices[i].id,
                      devices ? "among those" : "here");
            status = CLI_USAGE;
            continue;
        }
        int one = cli_report_device(registry, report, i, entry, count, how, seed);
        if (status == CLI_OK) status = one;
    }
    free(indices);
    pco_registry_destroy(registry);
    return status;
}

/* ---- checking ---- */

static void cli_report_line(const pco_conformance_findings *findings, pco_conformance_finding_kind kind,
                            const char *name, const char *good)
{
    uint32_t shown = 0;
    printf("  %-12s ", name);
    if (findings->count[kind] == 0) {
        printf("%s\n", good);
        return;
    }
    for (uint32_t i = 0; i < findings->n_items; i++) {
        if (findings->items[i].kind != kind || shown++ >= CLI_REPORT_LINES) continue;
        if (shown > 1) printf("%15s", "");
        cli_wrap(findings->items[i].text, 15, 17);
    }
    if (findings->count[kind] > CLI_REPORT_LINES)
        printf("%15sand %" PRIu32 " more\n", "", findings->count[kind] - CLI_REPORT_LINES);
}

static void cli_report_print(const char *folder, const pco_conformance_report *report,
                             const pco_conformance_findings *findings)
{
    char complete[160], waived[80], scope[PCO_CONFORMANCE_SCOPE_TEXT];
    const pco_conformance_options *options = &report->options;
    printf("%s: Portico %s, %s, tier %s, seed %" PRIu64 ", operations %s%s%s\n", folder, report->program,
           report->written, pco_conformance_scope(options->tier, options->slice, scope), options->seed,
           options->ops ? options->ops : "all", options->variant ? ", only variants " : "",
           options->variant ? options->variant : "");
    for (uint32_t i = 0; i < report->n_devices; i++)
        printf("  %-12s %s, %s\n", report->devices[i].id, report->devices[i].info->name,
               report->devices[i].info->driver);
    snprintf(complete, sizeof complete, "%" PRIu32 " cases, %" PRIu32 " records%s", findings->cases, findings->records,
             options->variant || options->case_id || options->slice.count ? " of a selection" : "");
    snprintf(waived, sizeof waived, findings->waived ? "%" PRIu32 ", each with its reason" : "none", findings->waived);
    cli_report_line(findings, PCO_FINDING_ALTERED, "alterations", "none");
    cli_report_line(findings, PCO_FINDING_SUITE, "suite", "this program's");
    cli_report_line(findings, PCO_FINDING_INCOMPLETE, "complete",
                    findings->count[PCO_FINDING_SUITE] || !report->n_devices ? "not checked" : complete);
    cli_report_line(findings, PCO_FINDING_WAIVER, "waivers", waived);
    cli_report_line(findings, PCO_FINDING_VERDICT, "verdict", report->n_devices ? "pass" : "cannot be read");
}

static int cli_report_print_json(const char *folder, const pco_conformance_report *report,
                                 const pco_conformance_findings *findings)
{
    static const char *const KINDS[PCO_FINDING_KINDS] = {"altered", "suite", "incomplete", "waiver", "verdict"};
    pco_writer text = {0};
    pco_json_writer json = {.out = &text, .indent = 2};
    pco_json_begin_object(&json);
    pco_json_key(&json, "folder");
    pco_json_write_string(&json, folder);
    pco_json_key(&json, "digest");
    pco_json_write_string(&json, report->digest);
    pco_json_key(&json, "records");
    pco_json_write_uint(&json, findings->records);
    pco_json_key(&json, "waived");
    pco_json_write_uint(&json, findings->waived);
    pco_json_key(&json, "findings");
    pco_json_begin_array(&json);
    for (uint32_t i = 0; i < findings->n_items; i++) {
        pco_json_begin_object(&json);
        pco_json_key(&json, "kind");
        pco_json_write_string(&json, KINDS[findings->items[i].kind]);
        pco_json_key(&json, "text");
        pco_json_write_string(&json, findings->items[i].text);
        pco_json_end_object(&json);
    }
    pco_json_end_array(&json);
    pco_json_end_object(&json);
    return cli_print(&text);
}

int cli_report_verify(cli_report *report, const cli_report_rerun *rerun)
{
    pco_conformance_report checked;
    pco_conformance_findings findings;
    pco_conformance_comparison comparison = {0};
    pco_error err;
    uint32_t found = 0;
    int status = CLI_OK;
    if (pco_conformance_verify(report->verify, &checked, &findings, &err)) {
        cli_error("--verify: %s", err.message);
        pco_conformance_report_clear(&checked);
        pco_conformance_findings_clear(&findings);
        return CLI_USAGE;
    }
    for (int kind = 0; kind < PCO_FINDING_KINDS; kind++) found += findings.count[kind];
    if (report->json)
        status = cli_report_print_json(report->verify, &checked, &findings);
    else
        cli_report_print(report->verify, &checked, &findings);
    if (report->rerun && checked.n_devices) {
        const int repeated = cli_report_repeat_all(&checked, rerun, report->rerun);
        if (status == CLI_OK) status = repeated;
    }
    if (report->baseline && checked.n_devices) {
        int compared = cli_report_compare(report, &checked, &comparison);
        if (status == CLI_OK) status = compared;
        pco_conformance_comparison_clear(&comparison);
    }
    if (found && status == CLI_OK) status = CLI_FAILED;
    if (!report->json && !report->rerun)
        printf("  Digests show alteration, not fraud: --rerun N repeats N cases on the device.\n");
    cli_note("conformance --verify: %s\n", findings.count[PCO_FINDING_ALTERED] ? "ALTERED"
                                           : findings.count[PCO_FINDING_INCOMPLETE] || findings.count[PCO_FINDING_SUITE]
                                               ? "INCOMPLETE"
                                           : status ? "FAILED"
                                                    : "good");
    pco_conformance_report_clear(&checked);
    pco_conformance_findings_clear(&findings);
    return status;
}
