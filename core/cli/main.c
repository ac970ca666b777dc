/* portico COMMAND ... */
#include "base/fd.h"
#include "base/suggest.h"
#include "cli/cli.h"
#include "cli/guard.h"
#include "cli/ranks.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void main_help(void)
{
    printf("portico " PCO_VERSION ": runs transformer models on any compute device\n\n"
           "usage: portico COMMAND [ARGUMENT ...]\n\ncommands:\n");
    for (int i = 0; cli_commands[i]; i++) printf("  %-12s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    printf("  %-12s %s\n", cli_completion_command.name, cli_completion_command.summary);
    printf("\n`portico help COMMAND` or `portico COMMAND --help` tells about one of them. Options may stand anywhere\n"
           "behind it, as --name VALUE or --name=VALUE, short ones as -n VALUE or -nVALUE; what follows `--` is\n"
           "no option. Exit status: 0 done, 1 failed, 2 wrong usage, 128 + N ended early by signal N (130:\n"
           "Ctrl-C, 143: SIGTERM).\n\n"
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
 * reader that has read enough, as head does, is none: the program ends as others do there, by SIGPIPE. Not closed: the
 * C++ library of a driver writes to the same stream when the process ends. */
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

/* NULL after a message. */
static const cli_command *main_command(const char *name)
{
    pco_suggestion suggestion = {0};
    char hint[PCO_SUGGEST_HINT];
    for (int i = 0; cli_commands[i]; i++) {
        if (strcmp(name, cli_commands[i]->name) == 0) return cli_commands[i];
        pco_suggest(&suggestion, name, cli_commands[i]->name);
    }
    if (strcmp(name, cli_completion_command.name) == 0) return &cli_completion_command;
    pco_suggest(&suggestion, name, cli_completion_command.name);
    pco_suggest(&suggestion, name, name[0] == '-' ? "--help" : "help");
    if (name[0] == '-') pco_suggest(&suggestion, name, "--version");
    cli_error("unknown command '%s'%s; see portico --help", name, pco_suggest_hint(&suggestion, hint));
    return NULL;
}

static int main_command_help(const cli_command *command)
{
    printf("portico %s: %s\n\n%s", command->name, command->summary, command->help);
    return CLI_OK;
}

/* portico help [COMMAND] */
static int main_help_about(int argc, char **argv)
{
    if (argc > 1) {
        cli_error("help: unexpected argument '%s'; it takes one command, as in portico help %s", argv[1], argv[0]);
        return CLI_USAGE;
    }
    if (argc == 1 && !cli_is_help(argv[0]) && strcmp(argv[0], "help") != 0) {
        const cli_command *command = main_command(argv[0]);
        return command ? main_command_help(command) : CLI_USAGE;
    }
    main_help();
    return CLI_OK;
}

static int main_version(void)
{
    const char *mpi = cli_mpi_name();
    printf("portico " PCO_VERSION " (plugin ABI %u.%u, %s)\n", PCO_ABI_MAJOR, PCO_ABI_MINOR, mpi ? mpi : "without MPI");
    return CLI_OK;
}

static int main_run(int argc, char **argv)
{
    if (argc < 2) {
        cli_error("a command is missing; see portico --help");
        return CLI_USAGE;
    }
    if (cli_is_help(argv[1])) return main_help_about(0, NULL);
    if (strcmp(argv[1], "help") == 0) return main_help_about(argc - 2, argv + 2);
    if (strcmp(argv[1], "--version") == 0) return main_version();
    const cli_command *command = main_command(argv[1]);
    if (!command) return CLI_USAGE;
    if (cli_asks_help(command, argc - 1, argv + 1)) return main_command_help(command);
    if (command != &cli_conformance) cli_guard_files(); /* its processes are watched: a crash is a result */
    return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    pco_fd_standard();
    cli_guard_terminal();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write, so that devices are closed in order: main_end */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file that the system allows no further bytes (ulimit -f) */
    return main_end(main_run(argc, argv));
}
