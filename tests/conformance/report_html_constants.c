/* The specialisation constants of one device's kernels and the values that they took. */
#include "report_html.h"

#include <string.h>

/* From `begin` on: where the next kernel begins. */
static uint32_t conf_constants_end(const pco_conformance_result *result, uint32_t begin)
{
    uint32_t end = begin + 1;
    while (end < result->n_constants &&
           strcmp(result->constants[end].kernel, result->constants[begin].kernel) == 0)
        end++;
    return end;
}

static void conf_constant_write(FILE *file, const pco_conformance_constant *one)
{
    fprintf(file, "<td class=\"%s\">", one->n_values > 1 ? "c-tested" : "c-unsupported");
    if (one->name[0])
        conf_html_text(file, one->name);
    else
        fprintf(file, "%u", (unsigned)one->number);
    for (uint32_t v = 0; v < one->n_values; v++) fprintf(file, "%s %d", v ? "," : ":", (int)one->values[v]);
    fputs(one->n_values == PCO_CONSTANT_VALUES ? " ...</td>" : "</td>", file);
}

void conf_html_constants(FILE *file, const pco_conformance_result *result)
{
    uint32_t single = 0;
    for (uint32_t i = 0; i < result->n_constants; i++) single += result->constants[i].n_values < 2;
    if (!result->n_constants) return;
    fprintf(file,
            "<h3>Specialisation constants</h3><p class=\"note\">The values that each constant of each kernel took "
            "in this run: <span class=\"key c-tested\">two or more</span>, <span class=\"key c-unsupported\">only "
            "one</span> (%u of %u).</p><div class=\"coverage\"><div><table><tbody>\n",
            (unsigned)single, (unsigned)result->n_constants);
    for (uint32_t begin = 0, end; begin < result->n_constants; begin = end) {
        end = conf_constants_end(result, begin);
        fputs("<tr><th class=\"row\">", file);
        conf_html_text(file, result->constants[begin].kernel);
        fputs("</th>", file);
        for (uint32_t i = begin; i < end; i++) conf_constant_write(file, &result->constants[i]);
        fputs("</tr>\n", file);
    }
    fputs("</tbody></table></div></div>\n", file);
}
