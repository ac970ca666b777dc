/* Is a bound too wide? The median of error / bound, over the cases in which there is a bound to divide by. */
#include "report/report_parts.h"

#include "base/error.h"
#include "graph/op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int conf_figures_order(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* Operations whose bound is mostly that of the exponential in them. */
static bool conf_figures_has_exponential(uint32_t op)
{
    static const uint32_t OPS[] = {PCO_OP_SOFTMAX,
                                   PCO_OP_LOG_SOFTMAX,
                                   PCO_OP_LOGSUMEXP,
                                   PCO_OP_SCALED_DOT_PRODUCT_ATTENTION,
                                   PCO_OP_SWIGLU,
                                   PCO_OP_SIGMOID,
                                   PCO_OP_SILU,
                                   PCO_OP_GELU,
                                   PCO_OP_SCALED_DOT_PRODUCT_ATTENTION_BACKWARD};
    for (size_t i = 0; i < sizeof OPS / sizeof *OPS; i++)
        if (OPS[i] == op) return true;
    return false;
}

/* Why is the median low? One reason is known: a contract that allows functions many ulp, on a device that
 * needs about one. Then the bound is as wide as the contract is, and not wider: with functions of one ulp the
 * median would not be low. */
static void conf_figures_explain(conf_figures *figures, uint32_t op, const pco_contract *contract)
{
    double ulp = (double)contract->function_ulp;
    figures->low = figures->bounded > 0 && figures->max > 0 && figures->median < 0.01;
    if (!figures->low) return;
    figures->explained = conf_figures_has_exponential(op) && figures->median * ulp >= 0.01;
    if (figures->explained)
        snprintf(figures->why, sizeof figures->why,
                 "explained: the contract allows functions %g ulp; with one, the median would be %.2g", ulp,
                 figures->median * ulp);
    else
        snprintf(figures->why, sizeof figures->why, "tighten: the bound is wider than anything explains");
}

pco_status conf_figures_make(const pco_conformance_result *result, uint32_t op, const pco_contract *contract,
                             conf_figures *figures, pco_error *err)
{
    *figures = (conf_figures){0};
    double *ratios = malloc((result->n_cases + 1) * sizeof *ratios);
    if (!ratios) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "no memory for the report");
    for (uint32_t i = 0; i < result->n_cases; i++) {
        const pco_conformance_case *one = &result->cases[i];
        if (one->op == op && pco_conformance_state_is_judged(one->state) && one->bound > 0 && isfinite(one->bound))
            ratios[figures->bounded++] = one->ratio;
    }
    qsort(ratios, figures->bounded, sizeof *ratios, conf_figures_order);
    if (figures->bounded) {
        figures->median = ratios[figures->bounded / 2];
        figures->max = ratios[figures->bounded - 1];
        conf_figures_explain(figures, op, contract);
    }
    free(ratios);
    return PCO_OK;
}
