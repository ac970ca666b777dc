/* What `portico conformance --compile-only` prints: what the devices' compilers made of the kernels. */
#include "cli/conformance_parts.h"

#include "formats/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The worst of each measure over the pipelines of a kernel. */
typedef struct compile_row {
    const char *kernel;
    uint32_t pipelines;
    int known[PCO_MEASURES];
    double worst[PCO_MEASURES];
} compile_row;

static void compile_add(compile_row *row, const pco_conformance_pipeline *pipeline)
{
    row->pipelines++;
    for (int m = 0; m < PCO_MEASURES; m++) {
        const pco_conformance_measure measure = (pco_conformance_measure)m;
        double value;
        if (!pco_conformance_pipeline_measure(pipeline, measure, &value)) continue;
        const int worse = pco_conformance_measure_is_least(measure) ? value < row->worst[m] : value > row->worst[m];
        if (!row->known[m] || worse) row->worst[m] = value;
        row->known[m] = 1;
    }
}

static int compile_order(const void *a, const void *b)
{
    return strcmp(((const compile_row *)a)->kernel, ((const compile_row *)b)->kernel);
}

/* Rows by kernel; NULL: no memory. */
static compile_row *compile_rows(const pco_conformance_result *result, uint32_t *count)
{
    compile_row *rows = calloc(result->n_pipelines + 1, sizeof *rows);
    *count = 0;
    for (uint32_t i = 0; rows && i < result->n_pipelines; i++) {
        const pco_conformance_pipeline *pipeline = &result->pipelines[i];
        uint32_t at = 0;
        while (at < *count && strcmp(rows[at].kernel, pipeline->kernel) != 0) at++;
        if (at == *count) rows[(*count)++].kernel = pipeline->kernel;
        compile_add(&rows[at], pipeline);
    }
    if (rows) qsort(rows, *count, sizeof *rows, compile_order);
    return rows;
}

static void compile_row_print(const compile_row *row, const int *shown)
{
    printf("  %-32s %9" PRIu32, row->kernel, row->pipelines);
    for (int m = 0; m < PCO_MEASURES; m++) {
        if (!shown[m]) continue;
        if (row->known[m])
            printf(" %12.0f", row->worst[m]);
        else
            printf(" %12s", "-");
    }
    putchar('\n');
}

static int compile_table(const pco_conformance_result *result, const pco_conformance_device *device)
{
    uint32_t count, spilling = 0;
    int shown[PCO_MEASURES] = {0};
    char scope[PCO_CONFORMANCE_SCOPE_TEXT];
    compile_row *rows = compile_rows(result, &count);
    if (!rows) {
        cli_error("out of host memory");
        return 0;
    }
    for (uint32_t i = 0; i < count; i++)
        for (int m = 0; m < PCO_MEASURES; m++) shown[m] |= rows[i].known[m];
    printf("%s: %s, %s\n  %-32s %9s", device->id, device->info->name, device->info->driver, "kernel", "pipelines");
    for (int m = 0; m < PCO_MEASURES; m++)
        if (shown[m]) printf(" %12s", pco_conformance_measure_name((pco_conformance_measure)m));
    putchar('\n');
    for (uint32_t i = 0; i < count; i++) compile_row_print(&rows[i], shown);
    for (uint32_t i = 0; i < result->n_pipelines; i++) {
        double spills;
        spilling += pco_conformance_pipeline_measure(&result->pipelines[i], PCO_MEASURE_SPILLS, &spills) && spills > 0;
    }
    printf("  %" PRIu32 " pipelines of %" PRIu32 " kernels", result->n_pipelines, count);
    if (shown[PCO_MEASURE_SPILLS]) printf(", %" PRIu32 " spill", spilling);
    printf("; %u cases and variants compiled, %u failed, %u unsupported; tier %s, %.1f s\n",
           result->count[PCO_CASE_PASS],
           result->count[PCO_CASE_FAIL] + result->count[PCO_CASE_CRASHED] + result->count[PCO_CASE_HUNG] +
               result->count[PCO_CASE_DEVICE_LOST],
           result->count[PCO_CASE_UNSUPPORTED], pco_conformance_scope(result->tier, result->slice, scope),
           result->seconds);
    if (result->status) printf("  %s: %s\n", result->not_opened ? "not opened" : "stopped", result->message);
    free(rows);
    return 1;
}

/* ---- JSON ---- */

static void compile_text(pco_json_writer *writer, const char *key, const char *text)
{
    pco_json_key(writer, key);
    pco_json_write_string(writer, text);
}

static void compile_pipeline(pco_json_writer *writer, const pco_conformance_pipeline *pipeline)
{
    char identity[20];
    snprintf(identity, sizeof identity, "%016" PRIx64, pipeline->identity);
    pco_json_begin_object(writer);
    compile_text(writer, "kernel", pipeline->kernel);
    compile_text(writer, "identity", identity);
    compile_text(writer, "op", pipeline->op);
    compile_text(writer, "variant", pipeline->variant);
    pco_json_key(writer, "subgroup_size");
    pco_json_write_int(writer, pipeline->width);
    pco_json_key(writer, "constants");
    pco_json_begin_array(writer);
    for (uint32_t i = 0; i < pipeline->n_specs; i++) pco_json_write_int(writer, pipeline->specs[i]);
    pco_json_end_array(writer);
    for (int m = 0; m < PCO_MEASURES; m++) {
        double value;
        if (!pco_conformance_pipeline_measure(pipeline, (pco_conformance_measure)m, &value)) continue;
        pco_json_key(writer, pco_conformance_measure_name((pco_conformance_measure)m));
        pco_json_write_number(writer, value);
    }
    pco_json_key(writer, "figures");
    pco_json_begin_array(writer);
    for (uint32_t i = 0; i < pipeline->n_figures; i++) {
        const pco_conformance_figure *figure = &pipeline->figures[i];
        pco_json_begin_object(writer);
        compile_text(writer, "code", figure->code);
        pco_json_key(writer, "subgroup_size");
        pco_json_write_int(writer, figure->width);
        compile_text(writer, "name", figure->name);
        pco_json_key(writer, "value");
        pco_json_write_number(writer, figure->value);
        pco_json_end_object(writer);
    }
    pco_json_end_array(writer);
    pco_json_end_object(writer);
}

static void compile_failure(pco_json_writer *writer, const pco_conformance_case *one)
{
    char id[12];
    snprintf(id, sizeof id, "%08" PRIx32, one->id);
    pco_json_begin_object(writer);
    compile_text(writer, "op", one->op_name);
    compile_text(writer, "case", id);
    compile_text(writer, "label", one->label);
    compile_text(writer, "variant", one->variant);
    compile_text(writer, "state", pco_conformance_state_name(one->state));
    compile_text(writer, "detail", one->detail);
    compile_text(writer, "again", one->repeat);
    pco_json_end_object(writer);
}

static void compile_device(pco_json_writer *writer, const pco_conformance_result *result,
                           const pco_conformance_device *device)
{
    char scope[PCO_CONFORMANCE_SCOPE_TEXT];
    pco_json_begin_object(writer);
    compile_text(writer, "device", device->id);
    compile_text(writer, "name", device->info->name);
    compile_text(writer, "driver", device->info->driver);
    compile_text(writer, "not_in_build", device->info->not_in_build);
    compile_text(writer, "tier", pco_conformance_scope(result->tier, result->slice, scope));
    compile_text(writer, "message", result->message);
    for (int s = 0; s < PCO_CASE_STATES; s++) {
        if (!result->count[s]) continue;
        pco_json_key(writer, pco_conformance_state_name((pco_conformance_state)s));
        pco_json_write_int(writer, result->count[s]);
    }
    pco_json_key(writer, "pipelines");
    pco_json_begin_array(writer);
    for (uint32_t i = 0; i < result->n_pipelines; i++) compile_pipeline(writer, &result->pipelines[i]);
    pco_json_end_array(writer);
    pco_json_key(writer, "failures");
    pco_json_begin_array(writer);
    for (uint32_t i = 0; i < result->n_cases; i++)
        if (pco_conformance_state_is_bad(result->cases[i].state)) compile_failure(writer, &result->cases[i]);
    pco_json_end_array(writer);
    pco_json_end_object(writer);
}

static int compile_json(const pco_conformance_result *results, const pco_conformance_device *devices, uint32_t count)
{
    pco_writer text = {0};
    pco_json_writer writer = {.out = &text, .indent = 1};
    pco_json_begin_object(&writer);
    pco_json_key(&writer, "compile_only");
    pco_json_begin_array(&writer);
    for (uint32_t i = 0; i < count; i++) compile_device(&writer, &results[i], &devices[i]);
    pco_json_end_array(&writer);
    pco_json_end_object(&writer);
    pco_write_char(&text, '\n');
    return cli_print(&text) == CLI_OK;
}

int conformance_print_compiled(const conformance_arguments *arguments, const pco_conformance_result *results,
                               const pco_conformance_device *devices, uint32_t count, int interrupted)
{
    uint32_t pipelines = 0;
    if (arguments->json && !compile_json(results, devices, count)) interrupted = 1;
    for (uint32_t i = 0; i < count; i++) {
        pipelines += results[i].n_pipelines;
        if (arguments->json) continue;
        if (i) putchar('\n');
        if (!compile_table(&results[i], &devices[i])) interrupted = 1;
        conformance_print_failures(&results[i], arguments->max_failures);
    }
    fflush(stdout);
    const pco_conformance_verdict verdict = pco_conformance_judge(results, count);
    const int failed = verdict == PCO_VERDICT_FAIL || interrupted;
    cli_note("conformance: %s; nothing was run\n",
             failed      ? "FAILED"
             : pipelines ? "all of it compiles"
                         : "NOTHING COMPILED: the device's plugin describes no kernels; choose another with "
                           "--devices, such as vulkan or opencl");
    return failed ? CLI_FAILED : pipelines ? CLI_OK : CLI_USAGE;
}
