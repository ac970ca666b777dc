/* What `portico conformance` prints: a table per device, what went wrong, and the verdict. */
#include "cli/conformance_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* "0.123", "inf", or "0" for exact rows. */
static const char *conformance_ratio(double ratio, char *text)
{
    snprintf(text, 32, isinf(ratio) ? "inf" : ratio == 0 ? "0" : "%.3f", ratio);
    return text;
}

/* States that are rare have a column only where there is one of them. */
static const struct conformance_column {
    pco_conformance_state state;
    const char *title;
} COLUMNS[] = {{PCO_CASE_MISTRUSTED, "mistr."}, {PCO_CASE_WAIVED, "waived"}, {PCO_CASE_FLAKY, "flaky"},
               {PCO_CASE_CRASHED, "crashed"},   {PCO_CASE_HUNG, "hung"},     {PCO_CASE_DEVICE_LOST, "lost"}};
enum { N_COLUMNS = sizeof COLUMNS / sizeof COLUMNS[0] };

static void conformance_row(const pco_conformance_result *result, const pco_conformance_op *op)
{
    char median[32], most[32];
    uint32_t cases = 0, bad = 0;
    for (int s = 0; s < PCO_CASE_STATES; s++) {
        cases += op->count[s];
        if (pco_conformance_state_is_bad((pco_conformance_state)s)) bad += op->count[s];
    }
    printf("  %-29s %6u %6u %5u", op->name, cases, op->count[PCO_CASE_PASS], op->count[PCO_CASE_FAIL]);
    for (int c = 0; c < N_COLUMNS; c++)
        if (result->count[COLUMNS[c].state]) printf(" %7u", op->count[COLUMNS[c].state]);
    printf(" %7u %8u  %7s %7s%s\n", op->count[PCO_CASE_UNSUPPORTED], op->variants,
           conformance_ratio(op->median_ratio, median), conformance_ratio(op->max_ratio, most),
           bad ? "  <- fails" : "");
}

static void conformance_totals(const pco_conformance_result *result)
{
    char scope[PCO_CONFORMANCE_SCOPE_TEXT];
    printf("  %u passed, %u failed, %u mistrusted, %u unsupported, %u not promised", result->count[PCO_CASE_PASS],
           result->count[PCO_CASE_FAIL], result->count[PCO_CASE_MISTRUSTED], result->count[PCO_CASE_UNSUPPORTED],
           result->count[PCO_CASE_NOT_PROMISED]);
    for (int s = PCO_CASE_WAIVED; s < PCO_CASE_STATES; s++)
        if (result->count[s]) printf(", %u %s", result->count[s], pco_conformance_state_name((pco_conformance_state)s));
    printf("; tier %s, seed %" PRIu64, pco_conformance_scope(result->tier, result->slice, scope), result->seed);
    if (result->rounds) printf(" and on, %u rounds", result->rounds);
    if (result->rounds && result->each_round[result->rounds - 1].cut)
        printf(" (the last was cut after %u cases: %s)", result->each_round[result->rounds - 1].cases,
               result->each_round[result->rounds - 1].end);
    printf(", %.1f s\n", result->seconds);
    const pco_conformance_replays *replays = &result->replays;
    if (replays->executions)
        printf("  %" PRIu64 " replays: %" PRIu64 " differed, %" PRIu64 " were wrong; with 95 %% confidence at most "
               "%.2g %% of executions differ\n",
               replays->executions, replays->differed, replays->wrong,
               100 * pco_conformance_flake_bound(replays->differed, replays->executions));
    if (result->status) printf("  %s: %s\n", result->not_opened ? "not opened" : "stopped", result->message);
}

/* What was refused, folded: a line for each first reason of an op, with the ops that give it. */
static void conformance_refusals(const pco_conformance_result *result)
{
    enum { INDENT = 15, NAMED = 8 };
    for (uint32_t i = 0; i < result->n_ops; i++) {
        const pco_conformance_op *op = &result->ops[i];
        char line[1024];
        size_t used = 0;
        uint32_t ops = 0, others = 0;
        int said = !op->count[PCO_CASE_UNSUPPORTED];
        for (uint32_t k = 0; k < i && !said; k++)
            said = result->ops[k].count[PCO_CASE_UNSUPPORTED] && strcmp(result->ops[k].reason, op->reason) == 0;
        if (said) continue;
        cli_append(line, sizeof line, &used, "%s:", op->reason);
        for (uint32_t k = i; k < result->n_ops; k++) {
            const pco_conformance_op *other = &result->ops[k];
            const uint32_t count = other->count[PCO_CASE_UNSUPPORTED];
            if (!count || strcmp(other->reason, op->reason) != 0) continue;
            if (ops++ < NAMED)
                cli_append(line, sizeof line, &used, "%s %s (%u)", ops > 1 ? "," : "", other->name, count);
            else
                others += count;
        }
        if (others) cli_append(line, sizeof line, &used, " and %u more ops (%u)", ops - NAMED, others);
        printf("  unsupported: ");
        cli_wrap(line, INDENT, INDENT);
    }
}

static void conformance_table(const pco_conformance_result *result, const pco_conformance_device *device)
{
    printf("%s: %s, %s\n", device->id, device->info->name, device->info->driver);
    printf("  %-29s %6s %6s %5s", "op", "cases", "pass", "fail");
    for (int c = 0; c < N_COLUMNS; c++)
        if (result->count[COLUMNS[c].state]) printf(" %7s", COLUMNS[c].title);
    printf(" %7s %8s  %7s %7s\n", "unsup.", "variants", "median", "max");
    for (uint32_t i = 0; i < result->n_ops; i++)
        if (pco_conformance_op_tested(&result->ops[i])) conformance_row(result, &result->ops[i]);
    if (result->n_ops == 0) printf("  nothing was tested%s\n", result->status ? "" : ": no case has such a variant");
    conformance_refusals(result);
    conformance_totals(result);
}

static void conformance_pieces(const pco_conformance_invariance *sums, pco_conformance_piece kind)
{
    char text[40] = "-";
    if (sums->compared[kind])
        snprintf(text, sizeof text, "%" PRIu32 " of %" PRIu32, sums->compared[kind] - sums->differed[kind],
                 sums->compared[kind]);
    printf(" %16s", text);
}

/* Is a result the same bits whatever the work is cut into? */
static void conformance_invariance(const pco_conformance_result *result)
{
    printf("  %-38s %16s %16s %16s\n", "the same bits", "a row alone", "in chunks", "2, 3 threads");
    for (uint32_t i = 0; i < result->n_ops; i++) {
        uint32_t differed = 0;
        printf("  %-38s", result->ops[i].name);
        for (int kind = 0; kind < PCO_PIECE_KINDS; kind++) {
            conformance_pieces(&result->ops[i].invariance, (pco_conformance_piece)kind);
            differed += result->ops[i].invariance.differed[kind];
        }
        puts(differed ? "  <- differs" : "");
    }
}

void conformance_print_failures(const pco_conformance_result *result, uint32_t most)
{
    uint32_t shown = 0, all = 0;
    for (uint32_t i = 0; i < result->n_cases; i++) {
        const pco_conformance_case *one = &result->cases[i];
        if (!pco_conformance_state_is_bad(one->state) || all++ >= most) continue;
        shown++;
        printf("\n  %s #%08x %s, variant %s: %s\n", one->op_name, one->id, one->label, one->variant,
               pco_conformance_state_name(one->state));
        printf("    ");
        cli_wrap(one->detail, 4, 4);
        if (one->wrong) printf("    error / bound: %.3g\n", one->ratio);
        printf("    again: %s\n", one->repeat);
    }
    if (all > shown) printf("\n  and %u more\n", all - shown);
}

/* Expectations that the run did not meet. */
static void conformance_waivers(const pco_conformance_waivers *waivers)
{
    const pco_conformance_waiver *rows;
    uint32_t count = waivers ? pco_conformance_waivers_list(waivers, &rows) : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].passed && !rows[i].waived)
            cli_note("waiver of line %u is no longer needed: all that it covers passed (%u): %s\n", rows[i].line,
                     rows[i].passed, rows[i].reason);
        else if (rows[i].passed)
            cli_note("waiver of line %u is too wide: %u of the records that it covers passed, %u failed: %s\n",
                     rows[i].line, rows[i].passed, rows[i].waived, rows[i].reason);
    }
}

/* "fingerprint 0123456789abcdef", and the lines: all of them, or those that break the contract. */
static void conformance_probe_lines(const pco_conformance_probe *probe, int all)
{
    for (uint32_t i = 0; i < probe->n_lines; i++) {
        const pco_conformance_probe_line *line = &probe->lines[i];
        const int broken = line->verdict == PCO_PROBE_BROKEN;
        if (!all && !broken) continue;
        printf("  %-48s %s", line->name, line->value);
        if (broken)
            printf("  <- BROKEN: the contract says %s", line->declared);
        else if (line->verdict == PCO_PROBE_BETTER)
            printf("  (better than the contract: %s)", line->declared);
        putchar('\n');
    }
    if (probe->message[0]) printf("  the probes ended early: %s\n", probe->message);
    if (probe->fingerprint) printf("  fingerprint %016" PRIx64 "\n", probe->fingerprint);
}

int conformance_print_probes(const conformance_arguments *arguments, const pco_conformance_result *results,
                             const pco_conformance_device *devices, uint32_t count)
{
    pco_error err;
    if (arguments->json) {
        pco_writer text = {0};
        const pco_status failed = pco_conformance_write_json(results, devices, count, &text, &err);
        if (!failed) return cli_print(&text);
        pco_writer_release(&text);
        return cli_fail(&err);
    }
    for (uint32_t i = 0; i < count; i++) {
        printf("%s%s: %s, %s\n", i ? "\n" : "", devices[i].id, devices[i].info->name, devices[i].info->driver);
        conformance_probe_lines(&results[i].probe, 1);
    }
    return CLI_OK;
}

int conformance_report(const conformance_arguments *arguments, const pco_conformance_result *results,
                       const pco_conformance_device *devices, uint32_t count, const char *const *reproducers,
                       const pco_conformance_waivers *waivers, int interrupted)
{
    pco_error err;
    if (arguments->json) {
        pco_writer text = {0};
        const pco_status failed = pco_conformance_write_json(results, devices, count, &text, &err);
        if (failed) cli_fail(&err), pco_writer_release(&text);
        if (failed || cli_print(&text)) interrupted = 1;
    } else {
        for (uint32_t i = 0; i < count; i++) {
            if (i) putchar('\n');
            conformance_table(&results[i], &devices[i]);
            conformance_probe_lines(&results[i].probe, 0);
            if (arguments->options.invariance) conformance_invariance(&results[i]);
            conformance_print_failures(&results[i], arguments->max_failures);
        }
    }
    fflush(stdout);
    conformance_waivers(waivers);
    if (cli_report_end(&arguments->report, &arguments->options, results, devices, count, reproducers)) interrupted = 1;
    pco_conformance_verdict verdict = pco_conformance_judge(results, count);
    uint32_t unopened = 0;
    for (uint32_t i = 0; i < count; i++) unopened += results[i].not_opened != 0;
    cli_note("conformance: %s", verdict == PCO_VERDICT_FAIL || interrupted
                                    ? unopened ? "FAILED: a device could not be opened" : "FAILED"
                                : verdict == PCO_VERDICT_PASS ? "passed"
                                                              : "NOTHING TESTED on a device");
    uint32_t all, tested = pco_conformance_tested(results, count, &all);
    if (tested < all) cli_note("; %u of %u cases tested, the others refused or not promised", tested, all);
    fputc('\n', stderr);
    if (verdict == PCO_VERDICT_FAIL || interrupted) return CLI_FAILED;
    return verdict == PCO_VERDICT_PASS ? CLI_OK : CLI_USAGE;
}
