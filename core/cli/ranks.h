/* Several processes of `portico train`, started by mpirun. mpi.c is built with -Dmpi=enabled (or auto, where
 * MPI is found), mpi_none.c otherwise; nothing else knows of MPI. */
#ifndef PCO_CLI_RANKS_H
#define PCO_CLI_RANKS_H

#include "train/ranks.h"

/* What this build has: "Open MPI 4.1.4", or NULL. Static. */
const char *cli_mpi_name(void);

/* Joins the processes that were started together: *ranks is NULL when this one is alone (no launcher, or one
 * process). After success, or not, cli_ranks_close ends it. Errors: UNSUPPORTED for several processes in a
 * build without MPI; IO. */
pco_status cli_ranks_open(pco_ranks **ranks, pco_error *err) PCO_NODISCARD;

/* Waits for the others; when they have lost each other, ends all of them. */
void cli_ranks_close(pco_ranks *ranks);

/* Of a list with slashes, "cpu/opencl:pocl/vulkan", the entry of a rank, again from the first behind the
 * last. malloc'ed. Errors: INVALID for an empty entry; OUT_OF_HOST_MEMORY. */
pco_status cli_ranks_device(const char *list, uint32_t rank, char **device, pco_error *err) PCO_NODISCARD;

/* One line on stderr for an error that all ranks know: rank 0 prints it. One that they do not know all is
 * printed by the rank that has it. Returns CLI_FAILED. */
int cli_ranks_fail(const pco_ranks *ranks, const pco_error *err);

#endif
