/* What the layers of refuse.h share: which call is refused. */
#include "refuse.h"

refuse_counts refuse_counted;
static unsigned refuse_at;

REFUSE_VISIBLE void pco_refuse_start(unsigned call);
REFUSE_VISIBLE const refuse_counts *pco_refuse_counts(void);

void pco_refuse_start(unsigned call)
{
    refuse_counted = (refuse_counts){0};
    refuse_at = call;
}

const refuse_counts *pco_refuse_counts(void) { return &refuse_counted; }

int refuse_now(const char *name)
{
    if (++refuse_counted.calls != refuse_at) return 0;
    refuse_counted.refused = name;
    return 1;
}
