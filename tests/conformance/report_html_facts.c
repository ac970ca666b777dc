/* What the page says of a device: driver, limits, contract. */
#include "report_html.h"

#include "oracle_number.h"

#include <inttypes.h>

static void conf_facts_row(FILE *file, const char *name, const char *text)
{
    if (!*text) return;
    fprintf(file, "<dt>%s</dt><dd>", name);
    conf_html_text(file, text);
    fputs("</dd>", file);
}

static void conf_facts_bytes(FILE *file, const char *name, uint64_t bytes)
{
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    char text[40];
    int unit = 0;
    while (value >= 1024 && unit < 4) value /= 1024, unit++;
    snprintf(text, sizeof text, "%.4g %s", value, UNITS[unit]);
    conf_facts_row(file, name, bytes == 0 ? "unknown" : bytes >> 50 ? "unlimited" : text);
}

static void conf_facts_device(FILE *file, const pco_device_info *info)
{
    fputs("<div><h3>Device</h3><dl>", file);
    conf_facts_row(file, "driver", info->driver);
    conf_facts_row(file, "platform", info->platform);
    conf_facts_row(file, "type", pco_device_type_word(info->type));
    fputs("<dt>features</dt><dd>", file);
    const char *between = "";
    for (int i = 0; i < PCO_N_FEATURE_WORDS; i++) {
        if (!(info->features & PCO_FEATURE_WORDS[i].bit)) continue;
        fprintf(file, "%s%s", between, PCO_FEATURE_WORDS[i].name);
        between = ", ";
    }
    fprintf(file, "%s</dd>", *between ? "" : "none");
    conf_facts_row(file, "not in this build", info->not_in_build);
    fputs("</dl></div>", file);
}

static void conf_facts_limits(FILE *file, const pco_device_info *info)
{
    char text[64];
    fputs("<div><h3>Limits</h3><dl>", file);
    conf_facts_bytes(file, "memory", info->memory);
    conf_facts_bytes(file, "allocation", info->max_allocation);
    conf_facts_bytes(file, "binding", info->max_binding);
    if (info->shared_memory) conf_facts_bytes(file, "shared memory", info->shared_memory);
    snprintf(text, sizeof text, "%" PRIu32 " bytes", info->buffer_alignment);
    conf_facts_row(file, "alignment", text);
    snprintf(text, sizeof text, "%" PRIu32, info->max_workgroup);
    conf_facts_row(file, info->type == PCO_DEVICE_CPU ? "threads" : "workgroup", text);
    if (info->subgroup_max) {
        snprintf(text, sizeof text, "%" PRIu32 " to %" PRIu32, info->subgroup_min, info->subgroup_max);
        conf_facts_row(file, "subgroups", text);
    }
    fputs("</dl></div>", file);
}

static void conf_facts_contract(FILE *file, const pco_contract *c)
{
    char text[160];
    fputs("<div><h3>Numeric contract</h3><dl>", file);
    snprintf(text, sizeof text, "of f32 in %s, of f16 in %s, of bf16 in %s",
             pco_accumulator_word(c->accumulate_f32), pco_accumulator_word(c->accumulate_f16),
             pco_accumulator_word(c->accumulate_bf16));
    conf_facts_row(file, "sums", text);
    snprintf(text, sizeof text, "in %s, %g ulp", pco_accumulator_word(c->compute), (double)c->function_ulp);
    conf_facts_row(file, "functions", text);
    conf_facts_row(file, "+ - *", c->round_to_nearest ? "rounded to nearest" : "rounded to either neighbour");
    snprintf(text, sizeof text, "%g ulp, square root %g, its reciprocal %g", (double)c->div_ulp,
             (double)c->sqrt_ulp, (double)c->rsqrt_ulp);
    conf_facts_row(file, "division", text);
    conf_facts_row(file, "a*b + c", c->contraction ? "may be rounded once" : "is rounded twice");
    conf_facts_row(file, "subnormals", c->subnormals ? "kept" : "may be flushed to zero");
    conf_facts_row(file, "NaN, infinity", c->nan_inf ? "as IEEE 754 says" : "not promised");
    fputs("</dl></div>", file);
}

void conf_html_facts(FILE *file, const pco_device_info *info)
{
    fputs("<div class=\"facts\">", file);
    conf_facts_device(file, info);
    conf_facts_limits(file, info);
    conf_facts_contract(file, &info->contract);
    fputs("</div>\n", file);
}
