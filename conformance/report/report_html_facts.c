/* What the page says of a device: driver, limits, contract. */
#include "report/report_html.h"

#include "oracle/oracle_number.h"

#include <inttypes.h>

static void conf_facts_row(pco_writer *out, const char *name, const char *text)
{
    if (!*text) return;
    pco_print(out, "<dt>%s</dt><dd>", name);
    pco_write_xml(out, text);
    pco_write_text(out, "</dd>");
}

static void conf_facts_bytes(pco_writer *out, const char *name, uint64_t bytes)
{
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    char text[40];
    int unit = 0;
    while (value >= 1024 && unit < 4) value /= 1024, unit++;
    snprintf(text, sizeof text, "%.4g %s", value, UNITS[unit]);
    conf_facts_row(out, name, bytes == 0 ? "unknown" : bytes >> 50 ? "unlimited" : text);
}

static void conf_facts_device(pco_writer *out, const pco_device_info *info)
{
    pco_write_text(out, "<div><h3>Device</h3><dl>");
    char ids[64];
    conf_facts_row(out, "driver", info->driver);
    conf_facts_row(out, "driver&rsquo;s version", info->driver_version);
    conf_facts_row(out, "driver&rsquo;s file", info->driver_file);
    conf_facts_row(out, "platform", info->platform);
    conf_facts_row(out, "interface", info->api);
    snprintf(ids, sizeof ids, "vendor 0x%04" PRIx32 ", device 0x%04" PRIx32, info->vendor_id, info->device_id);
    if (info->vendor_id || info->device_id) conf_facts_row(out, "ids", ids);
    conf_facts_row(out, "type", pco_device_type_word(info->type));
    pco_write_text(out, "<dt>features</dt><dd>");
    const char *between = "";
    for (int i = 0; i < PCO_N_FEATURE_WORDS; i++) {
        if (!(info->features & PCO_FEATURE_WORDS[i].bit)) continue;
        pco_print(out, "%s%s", between, PCO_FEATURE_WORDS[i].name);
        between = ", ";
    }
    pco_print(out, "%s</dd>", *between ? "" : "none");
    conf_facts_row(out, "not in this build", info->not_in_build);
    pco_write_text(out, "</dl></div>");
}

static void conf_facts_limits(pco_writer *out, const pco_device_info *info)
{
    char text[64];
    pco_write_text(out, "<div><h3>Limits</h3><dl>");
    conf_facts_bytes(out, "memory", info->memory);
    conf_facts_bytes(out, "allocation", info->max_allocation);
    conf_facts_bytes(out, "binding", info->max_binding);
    if (info->shared_memory) conf_facts_bytes(out, "shared memory", info->shared_memory);
    snprintf(text, sizeof text, "%" PRIu32 " bytes", info->buffer_alignment);
    conf_facts_row(out, "alignment", text);
    snprintf(text, sizeof text, "%" PRIu32, info->max_workgroup);
    conf_facts_row(out, info->type == PCO_DEVICE_CPU ? "threads" : "workgroup", text);
    if (info->subgroup_max) {
        snprintf(text, sizeof text, "%" PRIu32 " to %" PRIu32, info->subgroup_min, info->subgroup_max);
        conf_facts_row(out, "subgroups", text);
    }
    pco_write_text(out, "</dl></div>");
}

static void conf_facts_contract(pco_writer *out, const pco_contract *c)
{
    char text[160];
    pco_write_text(out, "<div><h3>Numeric contract</h3><dl>");
    snprintf(text, sizeof text, "of f32 in %s, of f16 in %s, of bf16 in %s", pco_accumulator_word(c->accumulate_f32),
             pco_accumulator_word(c->accumulate_f16), pco_accumulator_word(c->accumulate_bf16));
    conf_facts_row(out, "sums", text);
    snprintf(text, sizeof text, "in %s, %g ulp", pco_accumulator_word(c->compute), (double)c->function_ulp);
    conf_facts_row(out, "functions", text);
    conf_facts_row(out, "+ - *", c->round_to_nearest ? "rounded to nearest" : "rounded to either neighbour");
    snprintf(text, sizeof text, "%g ulp, square root %g, its reciprocal %g", (double)c->div_ulp, (double)c->sqrt_ulp,
             (double)c->rsqrt_ulp);
    conf_facts_row(out, "division", text);
    conf_facts_row(out, "a*b + c", c->contraction ? "may be rounded once" : "is rounded twice");
    conf_facts_row(out, "subnormals", c->subnormals ? "kept" : "may be flushed to zero");
    conf_facts_row(out, "NaN, infinity", c->nan_inf ? "as IEEE 754 says" : "not promised");
    pco_write_text(out, "</dl></div>");
}

void conf_html_facts(pco_writer *out, const pco_device_info *info)
{
    pco_write_text(out, "<div class=\"facts\">");
    conf_facts_device(out, info);
    conf_facts_limits(out, info);
    conf_facts_contract(out, &info->contract);
    pco_write_text(out, "</div>\n");
}
