/* portico COMMAND ... */
#include "base/fd.h"
#include "cli/cli.h"
#include "cli/guard.h"
#include "cli/ranks.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const cli_command *const COMMANDS[] = {&cli_run,     &cli_inspect,     &cli_devices,  &cli_ops,
                                              &cli_compare, &cli_conformance, &cli_bench,    &cli_train,
                                              &cli_eval,    &cli_plot,        &cli_tokenizer};
enum { N_COMMANDS = sizeof COMMANDS / sizeof COMMANDS[0] };

static void main_help(void)
{
    printf("portico " PCO_VERSION ": runs transformer models on any compute device\n\n"
           "usage: portico COMMAND [ARGUMENT ...]\n\ncommands:\n");
    for (int i = 0; i < N_COMMANDS; i++) printf("  %-12s %s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    printf("\n`portico COMMAND --help` tells about one of them. Exit status: 0 done, 1 failed, 2 wrong "
           "usage,\n128 + N ended early by signal N (130: Ctrl-C, 143: SIGTERM).\n\n"
           "environment:\n");
    uint32_t count;
    const pco_env_row *rows = pco_env_table(&count);
    for (uint32_t i = 0; i < count; i++)
        printf("  %-20s %s (%s; default: %s)\n", rows[i].name, rows[i].doc, rows[i].values, rows[i].initial);
}

/* Has the reader of stdout gone? A pipe or socket says so to poll, other files never do. */
static int main_reader_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP));
}

/* What could not be written is an error, whenever that was: a flush that failed before is not seen by the next. A
 * reader that has read enough, as head does, is none: the program ends as others do there, by SIGPIPE. */
static int main_end(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    if (!main_reader_gone())
        cli_error("cannot write to stdout");
    else if (status == CLI_OK) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    return status == CLI_OK ? CLI_FAILED : status;
}

int main(int argc, char **argv)
{
    pco_fd_standard();
    cli_guard_terminal();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write, so that devices are closed in order: main_end */
    if (argc < 2) {
        cli_error("a command is missing; see portico --help");
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        main_help();
        return main_end(CLI_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        const char *mpi = cli_mpi_name();
        printf("portico " PCO_VERSION " (plugin ABI %u.%u, %s)\n", PCO_ABI_MAJOR, PCO_ABI_MINOR,
               mpi ? mpi : "without MPI");
        return main_end(CLI_OK);
    }
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(argv[1], COMMANDS[i]->name) != 0) continue;
        for (int k = 2; k < argc; k++)
            if (strcmp(argv[k], "--help") == 0 || strcmp(argv[k], "-h") == 0) {
                printf("portico %s: %s\n\n%s", COMMANDS[i]->name, COMMANDS[i]->summary, COMMANDS[i]->help);
                return main_end(CLI_OK);
            }
        if (COMMANDS[i] != &cli_conformance) cli_guard_files(); /* its processes are watched: a crash is a result */
        return main_end(COMMANDS[i]->run(argc - 1, argv + 1));
    }
    cli_error("unknown command '%s'; see portico --help", argv[1]);
    return CLI_USAGE;
}
