/* The transport of ranks over MPI: point-to-point messages alone, so that the order of sums is ours. Waiting
 * is testing with pauses: an MPI library spins, and would take a core from the device when that is the CPU.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/env.h"
#include "base/error.h"
#include "cli/ranks.h"

#define CLI_TEXT_OF(x) #x
#define CLI_TEXT(x)    CLI_TEXT_OF(x)

enum {
    CLI_MPI_TAG = 1,
    CLI_MPI_PIECE = 1 << 30 /* bytes; counts are int */,
    CLI_MPI_TESTS = 64,
    CLI_MPI_PAUSE = 20000 /* ns */
};

const char *cli_mpi_name(void)
{
    static const char name[] =
#ifdef OMPI_MAJOR_VERSION
        "Open MPI " CLI_TEXT(OMPI_MAJOR_VERSION) "." CLI_TEXT(OMPI_MINOR_VERSION) "." CLI_TEXT(OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
        "MPICH " MPICH_VERSION;
#else
        "MPI";
#endif
    return name;
}

static pco_status mpi_check(int code, const char *what, pco_error *err)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (code == MPI_SUCCESS) return PCO_OK;
    MPI_Error_string(code, text, &length);
    text[strcspn(text, "\n")] = 0;
    return pco_fail(err, PCO_ERROR_IO, "%s: %s", what, text);
}

/* Until both requests are complete. */
static pco_status mpi_finish(MPI_Request *requests, MPI_Status *statuses, pco_error *err)
{
    const struct timespec pause = {.tv_nsec = CLI_MPI_PAUSE};
    int done = 0;
    for (uint32_t tests = 0; !done; tests++) {
        int code = MPI_Testall(2, requests, &done, statuses);
        if (code == MPI_ERR_IN_STATUS)
            code = statuses[0].MPI_ERROR != MPI_SUCCESS ? statuses[0].MPI_ERROR : statuses[1].MPI_ERROR;
        if (code != MPI_SUCCESS) return mpi_check(code, "MPI", err);
        if (!done && tests >= CLI_MPI_TESTS) nanosleep(&pause, NULL);
    }
    return PCO_OK;
}

static pco_status mpi_exchange(void *user, uint32_t to, const void *out, uint64_t out_bytes, uint32_t from, void *in,
                               uint64_t in_bytes, pco_error *err)
{
    const char *sent = out;
    char *received = in;
    (void)user;
    while (out_bytes > 0 || in_bytes > 0) {
        const int send = (int)(out_bytes < CLI_MPI_PIECE ? out_bytes : CLI_MPI_PIECE),
                  receive = (int)(in_bytes < CLI_MPI_PIECE ? in_bytes : CLI_MPI_PIECE);
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        MPI_Status statuses[2];
        int got = receive;
        pco_status status = PCO_OK;
        memset(statuses, 0, sizeof statuses);
        if (receive)
            status =
                mpi_check(MPI_Irecv(received, receive, MPI_BYTE, (int)from, CLI_MPI_TAG, MPI_COMM_WORLD, &requests[0]),
                          "MPI_Irecv", err);
        if (!status && send)
            status = mpi_check(MPI_Isend(sent, send, MPI_BYTE, (int)to, CLI_MPI_TAG, MPI_COMM_WORLD, &requests[1]),
                               "MPI_Isend", err);
        if (!status) status = mpi_finish(requests, statuses, err);
        if (!status && receive) status = mpi_check(MPI_Get_count(&statuses[0], MPI_BYTE, &got), "MPI_Get_count", err);
        if (!status && got != receive)
            status = pco_fail(err, PCO_ERROR_IO, "rank %u sent %d bytes instead of %d", from, got, receive);
        if (status) return status;
        sent += send, received += receive;
        out_bytes -= (uint64_t)send, in_bytes -= (uint64_t)receive;
    }
    return PCO_OK;
}

pco_status cli_ranks_open(pco_ranks **ranks, pco_error *err)
{
    int provided = 0, rank = 0, count = 1;
    *ranks = NULL;
    if (!pco_launch_read().launched) return PCO_OK;
    pco_status status =
        mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread", err);
    if (status) return status;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    if (count == 1) return PCO_OK;
    const pco_transport transport = {.rank = (uint32_t)rank,
                                     .count = (uint32_t)count,
                                     .threads = provided >= MPI_THREAD_SERIALIZED,
                                     .exchange = mpi_exchange};
    return pco_ranks_create(&transport, ranks, err);
}

void cli_ranks_close(pco_ranks *ranks)
{
    const int broken = pco_ranks_broken(ranks);
    int begun = 0, ended = 0;
    pco_ranks_destroy(ranks);
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (!begun || ended) return;
    if (broken) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
}
