#include "cli/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"

pco_status cli_ranks_device(const char *list, uint32_t rank, char **device, pco_error *err)
{
    uint32_t count = 1;
    const char *at = list;
    for (const char *c = list; *c; c++) count += *c == '/';
    *device = NULL;
    for (uint32_t i = rank % count; i > 0; i--) at = strchr(at, '/') + 1;
    const size_t length = strcspn(at, "/");
    if (count > 1 && length == 0)
        return pco_fail(err, PCO_ERROR_INVALID, "an empty entry in the list of devices '%s'", list);
    *device = strndup(at, length);
    return *device ? PCO_OK : pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a device's name");
}

int cli_ranks_fail(const pco_ranks *ranks, const pco_error *err)
{
    if (pco_ranks_broken(ranks))
        cli_error("rank %u: %s", pco_ranks_rank(ranks), err->message);
    else if (pco_ranks_rank(ranks) == 0 && *err->message)
        cli_error("%s", err->message);
    return CLI_FAILED;
}
