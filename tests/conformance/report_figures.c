/* Is a bound too wide? The median of error / bound, over the cases in which there is a bound to divide by. */
#include "report_parts.h"

#include "base/error.h"
#include "graph/op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char CONF_TIGHTEN[] = "to be explained, or the bound to be tightened";

static int conf_figures_order(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

pco_status conf_figures_make(const pco_conformance_result *result, uint32_t op, conf_figures *figures,
                             pco_error *err)
{
    *figures = (conf_figures){0};
    double *ratios = malloc((result->n_cases + 1) * sizeof *ratios);
    if (!ratios) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report");
    for (uint32_t i = 0; i < result->n_cases; i++) {
        const pco_conformance_case *one = &result->cases[i];
        if (one->op == op && pco_conformance_state_is_judged(one->state) && one->bound > 0 &&
            isfinite(one->bound))
            ratios[figures->bounded++] = one->ratio;
    }
    qsort(ratios, figures->bounded, sizeof *ratios, conf_figures_order);
    if (figures->bounded) {
        figures->median = ratios[figures->bounded / 2];
        figures->max = ratios[figures->bounded - 1];
        if (figures->median < 0.01) figures->low = CONF_TIGHTEN;
    }
    free(ratios);
    return PCO_OK;
}
