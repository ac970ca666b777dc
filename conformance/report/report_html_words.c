/* What all parts of the page write alike. */
#include "report/report_html.h"

#include <math.h>
#include <stdio.h>

const char *conf_html_class(pco_conformance_state state)
{
    if (state == PCO_CASE_PASS) return "pass";
    if (state == PCO_CASE_WAIVED || state == PCO_CASE_MISTRUSTED || state == PCO_CASE_FLAKY) return "warn";
    return pco_conformance_state_is_bad(state) ? "bad" : "";
}

const char *conf_html_ratio(double ratio, char text[32])
{
    snprintf(text, 32, isinf(ratio) ? "inf" : ratio == 0 ? "0" : ratio < 1e-3 || ratio >= 1e5 ? "%.1e" : "%.3g", ratio);
    return text;
}
