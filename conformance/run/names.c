/* States, tiers and slices by their names. */
#include "conformance.h"

#include <inttypes.h>
#include <string.h>

static const char *const STATES[PCO_CASE_STATES] = {"pass",   "fail",  "unsupported", "not promised", "mistrusted",
                                                    "waived", "flaky", "crashed",     "hung",         "device lost"};
static const char *const TIERS[] = {"quick", "standard", "tiny", "full", "soak"};
enum { N_TIERS = sizeof TIERS / sizeof TIERS[0] };

const char *pco_conformance_state_name(pco_conformance_state state)
{
    return (unsigned)state < PCO_CASE_STATES ? STATES[state] : "?";
}

int pco_conformance_state_is_bad(pco_conformance_state state)
{
    return state == PCO_CASE_FAIL || state == PCO_CASE_MISTRUSTED ||
           (state >= PCO_CASE_FLAKY && state < PCO_CASE_STATES);
}

int pco_conformance_state_is_judged(pco_conformance_state state)
{
    return state == PCO_CASE_PASS || state == PCO_CASE_FAIL || state == PCO_CASE_MISTRUSTED ||
           state == PCO_CASE_WAIVED || state == PCO_CASE_FLAKY;
}

const char *pco_conformance_tier_name(pco_conformance_tier tier)
{
    return (unsigned)tier < N_TIERS ? TIERS[tier] : "?";
}

int pco_conformance_tier_parse(const char *name, pco_conformance_tier *tier)
{
    for (int i = 0; i < N_TIERS; i++)
        if (strcmp(name, TIERS[i]) == 0) {
            *tier = (pco_conformance_tier)i;
            return 1;
        }
    return 0;
}

int pco_conformance_slice_parse(const char *text, pco_conformance_slice *slice)
{
    unsigned number, count;
    int length = 0;
    if (strspn(text, "0123456789/") != strlen(text) || strlen(text) > 9) return 0;
    if (sscanf(text, "%u/%u%n", &number, &count, &length) != 2 || text[length]) return 0;
    if (number < 1 || number > count) return 0;
    *slice = (pco_conformance_slice){number, count};
    return 1;
}

const char *pco_conformance_scope(pco_conformance_tier tier, pco_conformance_slice slice,
                                  char text[PCO_CONFORMANCE_SCOPE_TEXT])
{
    const int length = snprintf(text, PCO_CONFORMANCE_SCOPE_TEXT, "%s", pco_conformance_tier_name(tier));
    if (slice.count)
        snprintf(text + length, PCO_CONFORMANCE_SCOPE_TEXT - (size_t)length, ", slice %" PRIu32 "/%" PRIu32,
                 slice.number, slice.count);
    return text;
}
