/* A build without MPI. */
#include "base/env.h"
#include "base/error.h"
#include "cli/ranks.h"

const char *cli_mpi_name(void) { return NULL; }

pco_status cli_ranks_open(pco_ranks **ranks, pco_error *err)
{
    const pco_launch launch = pco_launch_read();
    *ranks = NULL;
    if (launch.count == 1) return PCO_OK;
    pco_fail(err, PCO_ERROR_UNSUPPORTED,
             "%u processes were started, and this portico was built without MPI (-Dmpi=enabled): each would "
             "train the "
             "same run; start one",
             launch.count);
    if (launch.rank) err->message[0] = 0; /* rank 0 says it */
    return PCO_ERROR_UNSUPPORTED;
}

void cli_ranks_close(pco_ranks *ranks) { pco_ranks_destroy(ranks); }
