/* The specialisation constants of one device's kernels and the values that they took. */
#include "report/report_html.h"

#include <string.h>

/* From `begin` on: where the next kernel begins. */
static uint32_t conf_constants_end(const pco_conformance_result *result, uint32_t begin)
{
    uint32_t end = begin + 1;
    while (end < result->n_constants && strcmp(result->constants[end].kernel, result->constants[begin].kernel) == 0)
        end++;
    return end;
}

static void conf_constant_write(pco_writer *out, const pco_conformance_constant *one)
{
    pco_print(out, "<td class=\"%s\">", one->n_values > 1 ? "c-tested" : "c-unsupported");
    if (one->name[0])
        pco_write_xml(out, one->name);
    else
        pco_print(out, "%u", (unsigned)one->number);
    for (uint32_t v = 0; v < one->n_values; v++) pco_print(out, "%s %d", v ? "," : ":", (int)one->values[v]);
    pco_write_text(out, one->n_values == PCO_CONSTANT_VALUES ? " ...</td>" : "</td>");
}

void conf_html_constants(pco_writer *out, const pco_conformance_result *result)
{
    uint32_t single = 0;
    for (uint32_t i = 0; i < result->n_constants; i++) single += result->constants[i].n_values < 2;
    if (!result->n_constants) return;
    pco_print(out,
              "<h3>Specialisation constants</h3><p class=\"note\">The values that each constant of each "
              "kernel took "
              "in this run: <span class=\"key c-tested\">two or more</span>, <span class=\"key "
              "c-unsupported\">only "
              "one</span> (%u of %u).</p><div class=\"coverage\"><div><table><tbody>\n",
              (unsigned)single, (unsigned)result->n_constants);
    for (uint32_t begin = 0, end; begin < result->n_constants; begin = end) {
        end = conf_constants_end(result, begin);
        pco_write_text(out, "<tr><th class=\"row\">");
        pco_write_xml(out, result->constants[begin].kernel);
        pco_write_text(out, "</th>");
        for (uint32_t i = begin; i < end; i++) conf_constant_write(out, &result->constants[i]);
        pco_write_text(out, "</tr>\n");
    }
    pco_write_text(out, "</tbody></table></div></div>\n");
}
