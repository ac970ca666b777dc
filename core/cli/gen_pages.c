/* portico-pages man FOLDER: writes portico.1 and a page for each command there. portico-pages bash|zsh|fish: what
 * completes command lines, on stdout. Run by the build. */
#include "cli/pages.h"

#include <stdio.h>
#include <string.h>

static int write_page(const char *folder, const cli_command *command)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/portico%s%s.1", folder, command ? "-" : "", command ? command->name : "");
    FILE *out = fopen(path, "w");
    if (!out) return perror(path), 0;
    cli_man_page(out, command);
    const int good = !ferror(out);
    return fclose(out) == 0 && good;
}

int main(int argc, char **argv)
{
    if (argc == 2) return cli_completion(stdout, argv[1]) && fflush(stdout) == 0 ? 0 : 1;
    if (argc != 3 || strcmp(argv[1], "man") != 0)
        return fputs("portico-pages man FOLDER | bash | zsh | fish\n", stderr), 2;
    int good = write_page(argv[2], NULL) && write_page(argv[2], &cli_completion_command);
    for (int i = 0; good && cli_commands[i]; i++) good = write_page(argv[2], cli_commands[i]);
    return good ? 0 : 1;
}
