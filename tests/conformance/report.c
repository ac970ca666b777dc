/* Results as JSON. Infinity and NaN, which JSON has not, are written as strings. */
#include "conformance.h"
#include "oracle_number.h"

#include "base/error.h"

#include <inttypes.h>
#include <math.h>

static void conf_report_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

static void conf_report_member(FILE *file, const char *name, const char *text)
{
    fprintf(file, "\"%s\": ", name);
    conf_report_string(file, text);
}

static void conf_report_number(FILE *file, const char *name, double value)
{
    if (isnan(value))
        fprintf(file, "\"%s\": \"nan\"", name);
    else if (isinf(value))
        fprintf(file, "\"%s\": \"%sinf\"", name, value < 0 ? "-" : "");
    else
        fprintf(file, "\"%s\": %.17g", name, value);
}

static void conf_report_counts(FILE *file, const uint32_t *count)
{
    for (int state = 0; state < PCO_CASE_STATES; state++) {
        fprintf(file, "%s", state ? ", " : "");
        const char *name = pco_conformance_state_name((pco_conformance_state)state);
        fputc('"', file);
        for (; *name; name++) fputc(*name == ' ' ? '_' : *name, file);
        fprintf(file, "\": %" PRIu32, count[state]);
    }
}

static const char *conf_report_type(uint32_t dtype)
{
    return dtype == PCO_CONTRACT_F64 ? "f64" : oracle_dtype_name(dtype);
}

static void conf_report_device(FILE *file, const pco_conformance_device *device)
{
    const pco_device_info *info = device->info;
    const pco_contract *c = &info->contract;
    fprintf(file, "\"device\": {");
    conf_report_member(file, "id", device->id);
    fprintf(file, ", ");
    conf_report_member(file, "name", info->name);
    fprintf(file, ", ");
    conf_report_member(file, "driver", info->driver);
    fprintf(file, ", ");
    conf_report_member(file, "platform", info->platform);
    fprintf(file, ",\n   \"contract\": {");
    conf_report_member(file, "accumulate_f32", conf_report_type(c->accumulate_f32));
    fprintf(file, ", ");
    conf_report_member(file, "accumulate_f16", conf_report_type(c->accumulate_f16));
    fprintf(file, ", ");
    conf_report_member(file, "accumulate_bf16", conf_report_type(c->accumulate_bf16));
    fprintf(file, ", ");
    conf_report_member(file, "compute", conf_report_type(c->compute));
    fprintf(file, ", \"round_to_nearest\": %u, \"subnormals\": %u, \"contraction\": %u, \"nan_inf\": %u",
            c->round_to_nearest, c->subnormals, c->contraction, c->nan_inf);
    fprintf(file, ", \"div_ulp\": %g, \"sqrt_ulp\": %g, \"rsqrt_ulp\": %g, \"function_ulp\": %g}}",
            c->div_ulp, c->sqrt_ulp, c->rsqrt_ulp, c->function_ulp);
}

static void conf_report_op(FILE *file, const pco_conformance_op *row)
{
    fprintf(file, "   {");
    conf_report_member(file, "op", row->name);
    fprintf(file, ", ");
    conf_report_counts(file, row->count);
    fprintf(file, ", \"variants\": %" PRIu32 ", ", row->variants);
    conf_report_number(file, "median_error_over_bound", row->median_ratio);
    fprintf(file, ", ");
    conf_report_number(file, "max_error_over_bound", row->max_ratio);
    if (row->reason[0]) {
        fprintf(file, ", ");
        conf_report_member(file, "unsupported_because", row->reason);
    }
    fputc('}', file);
}

static void conf_report_failure(FILE *file, const pco_conformance_case *one)
{
    fprintf(file, "   {");
    conf_report_member(file, "op", one->op_name);
    fprintf(file, ", \"case\": \"%08" PRIx32 "\", ", one->id);
    conf_report_member(file, "label", one->label);
    fprintf(file, ", ");
    conf_report_member(file, "variant", one->variant);
    fprintf(file, ", ");
    conf_report_member(file, "state", pco_conformance_state_name(one->state));
    fprintf(file, ",\n    ");
    conf_report_number(file, "error_over_bound", one->ratio);
    fprintf(file,
            ", \"output\": %" PRIu32 ", \"element\": %" PRId64 ", \"elements\": %" PRId64
            ", \"wrong\": %" PRId64 ", ",
            one->output, one->element, one->elements, one->wrong);
    conf_report_number(file, "expected", one->expected);
    fprintf(file, ", ");
    conf_report_number(file, "got", one->got);
    fprintf(file, ", ");
    conf_report_number(file, "bound", one->bound);
    fprintf(file, ",\n    ");
    conf_report_member(file, "detail", one->detail);
    fprintf(file, ",\n    ");
    conf_report_member(file, "repeat", one->repeat);
    fputc('}', file);
}

static void conf_report_result(FILE *file, const pco_conformance_result *result,
                               const pco_conformance_device *device)
{
    static const char *const VERDICTS[] = {"pass", "fail", "nothing tested"};
    fprintf(file, " {");
    conf_report_device(file, device);
    fprintf(file, ",\n  ");
    conf_report_member(file, "verdict", VERDICTS[pco_conformance_judge(result, 1)]);
    fprintf(file, ", ");
    conf_report_member(file, "tier", pco_conformance_tier_name(result->tier));
    fprintf(file, ", \"seed\": %" PRIu64 ", \"seconds\": %.3f, \"status\": %d, ", result->seed,
            result->seconds, (int)result->status);
    conf_report_member(file, "message", result->message);
    fprintf(file, ",\n  ");
    conf_report_counts(file, result->count);
    fprintf(file, ",\n  \"ops\": [\n");
    for (uint32_t i = 0; i < result->n_ops; i++) {
        conf_report_op(file, &result->ops[i]);
        fprintf(file, i + 1 < result->n_ops ? ",\n" : "\n");
    }
    fprintf(file, "  ],\n  \"failures\": [\n");
    const char *between = "";
    for (uint32_t i = 0; i < result->n_cases; i++) {
        if (!pco_conformance_state_is_bad(result->cases[i].state)) continue;
        fputs(between, file);
        conf_report_failure(file, &result->cases[i]);
        between = ",\n";
    }
    fprintf(file, "  ]}");
}

pco_status pco_conformance_write_json(const pco_conformance_result *results,
                                      const pco_conformance_device *devices, uint32_t count, FILE *file,
                                      pco_error *err)
{
    fprintf(file, "{\"conformance\": [\n");
    for (uint32_t i = 0; i < count; i++) {
        conf_report_result(file, &results[i], &devices[i]);
        fprintf(file, i + 1 < count ? ",\n" : "\n");
    }
    fprintf(file, "]}\n");
    if (fflush(file) != 0 || ferror(file))
        return pco_fail(err, PCO_ERROR_IO, "the report could not be written");
    return PCO_OK;
}
