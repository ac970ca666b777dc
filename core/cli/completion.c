/* portico completion SHELL */
#include "cli/pages.h"

#include "cli/help.h"
#include "graph/op.h"

#include <string.h>

static const char *const COMPLETION_SHELLS[] = {"bash", "zsh", "fish", NULL};

/* What a value is; of options that is said by the word behind them in the help: --input FILE. */
typedef enum completion_value {
    COMPLETION_FREE,
    COMPLETION_FILE,
    COMPLETION_FOLDER,
    COMPLETION_DEVICE,
    COMPLETION_OP,
    COMPLETION_WORDS,
    COMPLETION_COMMAND,
} completion_value;

typedef struct completion_option {
    const cli_option *row;
    completion_value value;
    char about[96]; /* the beginning of what its help says */
} completion_option;

static completion_value completion_of(const char *name, const char *word)
{
    static const struct {
        const char *name;
        completion_value value;
    } NAMES[] = {{"--ops", COMPLETION_OP},
                 {"--op", COMPLETION_OP},
                 {"--devices", COMPLETION_DEVICE},
                 {"--device", COMPLETION_DEVICE}},
      WORDS[] = {{"D", COMPLETION_DEVICE},
                 {"FILE", COMPLETION_FILE},
                 {"MODEL", COMPLETION_FILE},
                 {"DIR", COMPLETION_FOLDER},
                 {"FOLDER", COMPLETION_FOLDER}};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(NAMES[i].name, name) == 0) return NAMES[i].value;
    const size_t length = strcspn(word, " .\n"); /* FILE.svg is a file, too */
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (length == strlen(WORDS[i].name) && memcmp(word, WORDS[i].name, length) == 0) return WORDS[i].value;
    return COMPLETION_FREE;
}

/* Is `name` among the names of an option in a help text ("--prompt, -p TEXT")? Returns what stands behind it. */
static const char *completion_named(const cli_help_item *item, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = item->names; at + length <= item->names_end; at++)
        if ((at == item->names || at[-1] == ' ') && memcmp(at, name, length) == 0 &&
            (at + length == item->names_end || strchr(" ,", at[length])))
            return at + length;
    return NULL;
}

/* The first clause of a help's text, on one line, without what shells would take for their own. */
static void completion_about(char *about, size_t size, const cli_help_item *item)
{
    size_t used = 0;
    int depth = 0; /* what is in brackets is left out */
    for (const char *at = item->text; at < item->end && used + 1 < size; at++) {
        depth += (*at == '(') - (*at == ')');
        if (depth || *at == ')') continue;
        if (*at == ';' || (*at == '.' && at + 1 < item->end && (at[1] == ' ' || at[1] == '\n'))) break;
        if (*at == '\n' || *at == ' ') {
            if (used && about[used - 1] != ' ') about[used++] = ' ';
        } else if (!strchr("'\"`[]\\$:", *at)) {
            about[used++] = *at;
        }
    }
    while (used && strchr(" ,", about[used - 1])) used--;
    about[used] = 0;
}

/* Row i of a command: 0 for operands and what no help mentions. */
static int completion_option_at(const cli_command *command, uint32_t i, completion_option *option)
{
    const cli_option *row = &command->options[i];
    *option = (completion_option){.row = row, .value = row->words ? COMPLETION_WORDS : COMPLETION_FREE};
    if (row->kind == CLI_KIND_OPERAND || row->kind == CLI_KIND_OPERANDS || row->traits & CLI_HIDDEN) return 0;
    if (row->name[0] != '-' || row->name[1] == 0) return 0;
    for (const char *line = command->help; line; line = strchr(line, '\n'), line += line != NULL) {
        cli_help_item item;
        const char *behind = cli_help_item_at(line, &item) ? completion_named(&item, row->name) : NULL;
        if (!behind) continue;
        completion_about(option->about, sizeof option->about, &item);
        while (behind < item.names_end && strchr(" ,", *behind)) behind++;
        while (behind < item.names_end && *behind == '-') { /* the other name comes first: "--prompt, -p TEXT" */
            behind += strcspn(behind, " ");
            behind += strspn(behind, " ");
        }
        if (option->value == COMPLETION_FREE && row->kind != CLI_KIND_FLAG)
            option->value = completion_of(row->name, behind);
        break;
    }
    if (option->value == COMPLETION_FREE && row->kind != CLI_KIND_FLAG) option->value = completion_of(row->name, "");
    return 1;
}

/* What the operands of a command are. */
static completion_value completion_operand(const cli_command *command)
{
    if (strcmp(command->name, "ops") == 0) return COMPLETION_OP;
    if (strcmp(command->name, "completion") == 0) return COMPLETION_WORDS;
    for (uint32_t i = 0; i < command->n_options; i++)
        if (command->options[i].kind == CLI_KIND_OPERAND || command->options[i].kind == CLI_KIND_OPERANDS)
            return COMPLETION_FILE;
    return COMPLETION_FREE;
}

static void completion_ops(FILE *out, const char *between)
{
    uint32_t count;
    const pco_op_info *ops = pco_op_table(&count);
    for (uint32_t i = 0; i < count; i++) fprintf(out, "%s%s", i ? between : "", ops[i].name);
}

static void completion_words(FILE *out, const char *const *words, const char *between)
{
    for (int i = 0; words[i]; i++) fprintf(out, "%s%s", i ? between : "", words[i]);
}

static void completion_commands(FILE *out, const char *between)
{
    for (int i = 0; cli_commands[i]; i++) fprintf(out, "%s%s", cli_commands[i]->name, between);
    fprintf(out, "%s%shelp", cli_completion_command.name, between);
}

/* The line of a command in a list of them, which begins with `line`, a format for its name and a quote. */
__attribute__((format(printf, 2, 0))) static void completion_listed(FILE *out, const char *line,
                                                                    const cli_command *command)
{
    fprintf(out, line, command->name);
    for (const char *text = command->summary; *text; text++)
        if (*text != '\'') fputc(*text, out);
    fputs("'\n", out);
}

/* The words of a value, with spaces between; nothing where they are files or free. Devices are asked for when they are
 * wanted, in a function that each script has. */
static void completion_list(FILE *out, completion_value value, const char *const *words, const char *devices)
{
    if (value == COMPLETION_DEVICE) fputs(devices, out);
    if (value == COMPLETION_OP) completion_ops(out, " ");
    if (value == COMPLETION_WORDS) completion_words(out, words, " ");
    if (value == COMPLETION_COMMAND) completion_commands(out, " ");
}

/* Names and aliases of the devices that `portico devices` lists. */
#define COMPLETION_ASK_DEVICES \
    "portico devices 2>/dev/null | sed -n 's/^\\([a-z0-9_]*:[0-9]*\\).*/\\1/p; s/^  aliases *//p'"

/* ---- bash ---- */

static void bash_value(FILE *out, const char *command, const char *name, completion_value value,
                       const char *const *words)
{
    fprintf(out, "    %s.%s) ", command, name);
    if (value == COMPLETION_FILE)
        fputs("_portico_files f ;;\n", out);
    else if (value == COMPLETION_FOLDER)
        fputs("_portico_files d ;;\n", out);
    else {
        fputs("_portico_words \"", out);
        completion_list(out, value, words, "all $(_portico_devices)");
        fputs("\" ;;\n", out);
    }
}

static void bash_command(FILE *out, const cli_command *command)
{
    completion_option option;
    for (uint32_t i = 0; i < command->n_options; i++) {
        if (!completion_option_at(command, i, &option) || option.row->kind == CLI_KIND_FLAG) continue;
        bash_value(out, command->name, option.row->name, option.value, option.row->words);
        if (option.row->letter) bash_value(out, command->name, option.row->letter, option.value, option.row->words);
    }
    fprintf(out, "    %s.*) case $cur in -*) _portico_words \"--help", command->name);
    for (uint32_t i = 0; i < command->n_options; i++)
        if (completion_option_at(command, i, &option)) fprintf(out, " %s", option.row->name);
    fputs("\" ;; *) ", out);
    const completion_value operand = completion_operand(command);
    if (operand == COMPLETION_FILE || operand == COMPLETION_FREE)
        fputs("_portico_files f", out);
    else {
        fputs("_portico_words \"", out);
        completion_list(out, operand, COMPLETION_SHELLS, "");
        fputs("\"", out);
    }
    fputs(" ;; esac ;;\n", out);
}

static void completion_bash(FILE *out)
{
    fputs("# bash completion for portico, made by `portico completion bash`.\n"
          "_portico_devices() { " COMPLETION_ASK_DEVICES "; }\n"
          "# Of a list with commas the last term is completed. Words end at colons for bash, and here they don't.\n"
          "_portico_words() {\n"
          "  local before=${cur%\"${cur##*,}\"} colon=${cur%\"${cur##*:}\"} reply\n"
          "  [[ $COMP_WORDBREAKS == *:* ]] || colon=\n"
          "  while read -r reply; do reply=$before$reply; COMPREPLY+=(\"${reply#\"$colon\"}\")\n"
          "  done < <(compgen -W \"$1\" -- \"${cur##*,}\")\n"
          "}\n"
          "_portico_files() { compopt -o filenames; while read -r; do COMPREPLY+=(\"$REPLY\"); done < <(compgen "
          "-\"$1\" -- "
          "\"$cur\"); }\n"
          "_portico() {\n"
          "  local line=${COMP_LINE:0:COMP_POINT} command=${COMP_WORDS[1]} cur before\n"
          "  cur=${line##*[[:space:]]} before=${line%\"$cur\"}\n"
          "  before=${before%\"${before##*[![:space:]]}\"} before=${before##*[[:space:]]}\n"
          "  if [[ $cur == --*=* ]]; then before=${cur%%=*} cur=${cur#*=}; fi\n"
          "  COMPREPLY=()\n"
          "  if [ \"$COMP_CWORD\" = 1 ]; then _portico_words \"--help --version ",
          out);
    completion_commands(out, " ");
    fputs("\"; return; fi\n  case $command.$before in\n    help.*) _portico_words \"", out);
    completion_commands(out, " ");
    fputs("\" ;;\n", out);
    for (int i = 0; cli_commands[i]; i++) bash_command(out, cli_commands[i]);
    bash_command(out, &cli_completion_command);
    fputs("  esac\n}\ncomplete -F _portico portico\n", out);
}

/* ---- zsh ---- */

static void zsh_value(FILE *out, completion_value value, const char *const *words)
{
    if (value == COMPLETION_FILE) fputs(":file:_files", out);
    if (value == COMPLETION_FOLDER) fputs(":folder:_files -/", out);
    if (value == COMPLETION_FREE) fputs(":value: ", out);
    if (value == COMPLETION_DEVICE) fputs(":device:_portico_devices", out);
    if (value != COMPLETION_OP && value != COMPLETION_WORDS && value != COMPLETION_COMMAND) return;
    fputs(":word:(", out);
    completion_list(out, value, words, "");
    fputs(")", out);
}

static void zsh_command(FILE *out, const cli_command *command)
{
    completion_option option;
    fprintf(out, "    %s) _arguments '--help[%s]'", command->name, "how it is used");
    for (uint32_t i = 0; i < command->n_options; i++) {
        if (!completion_option_at(command, i, &option)) continue;
        for (int letter = 0; letter < (option.row->letter ? 2 : 1); letter++) {
            fprintf(out, " \\\n      '%s[%s]", letter ? option.row->letter : option.row->name, option.about);
            if (option.row->kind != CLI_KIND_FLAG) zsh_value(out, option.value, option.row->words);
            fputs("'", out);
        }
    }
    const completion_value operand = completion_operand(command);
    if (operand != COMPLETION_FREE) {
        fputs(" \\\n      '*", out);
        zsh_value(out, operand, COMPLETION_SHELLS);
        fputs("'", out);
    }
    fputs(" ;;\n", out);
}

static void completion_zsh(FILE *out)
{
    fputs("#compdef portico\n# zsh completion for portico, made by `portico completion zsh`.\n"
          "_portico_devices() { _values -s , device all ${(f)\"$(" COMPLETION_ASK_DEVICES
          " | tr ' ' '\\n' | sed 's/:/\\\\:/g')\"}; }\n"
          "_portico() {\n"
          "  local command=$words[2]\n"
          "  if (( CURRENT == 2 )); then\n    local -a commands=(\n",
          out);
    for (int i = 0; cli_commands[i]; i++) completion_listed(out, "      '%s:", cli_commands[i]);
    completion_listed(out, "      '%s:", &cli_completion_command);
    fputs("      'help:how a command is used')\n    _describe command commands\n    return\n  fi\n"
          "  shift words; (( CURRENT-- ))\n  case $command in\n    help) compadd -- ",
          out);
    completion_commands(out, " ");
    fputs(" ;;\n", out);
    for (int i = 0; cli_commands[i]; i++) zsh_command(out, cli_commands[i]);
    zsh_command(out, &cli_completion_command);
    fputs("  esac\n}\nif [[ $zsh_eval_context[-1] == loadautofunc ]]; then _portico \"$@\"; else compdef _portico "
          "portico; fi\n",
          out);
}

/* ---- fish ---- */

static void fish_command(FILE *out, const cli_command *command)
{
    completion_option option;
    for (uint32_t i = 0; i < command->n_options; i++) {
        if (!completion_option_at(command, i, &option)) continue;
        fprintf(out, "complete -c portico -n '__fish_seen_subcommand_from %s' -l %s", command->name,
                option.row->name + 2);
        if (option.row->letter) fprintf(out, " -s %s", option.row->letter + 1);
        if (option.row->kind != CLI_KIND_FLAG) {
            fputs(option.value == COMPLETION_FILE || option.value == COMPLETION_FOLDER ? " -rF" : " -x", out);
            fputs(" -a '", out);
            if (option.value == COMPLETION_FOLDER) fputs("(__fish_complete_directories)", out);
            completion_list(out, option.value, option.row->words, "all (__portico_devices)");
            fputs("'", out);
        }
        fprintf(out, " -d '%s'\n", option.about);
    }
    const completion_value operand = completion_operand(command);
    if (operand == COMPLETION_OP || operand == COMPLETION_WORDS) {
        fprintf(out, "complete -c portico -n '__fish_seen_subcommand_from %s' -f -a '", command->name);
        completion_list(out, operand, COMPLETION_SHELLS, "");
        fputs("'\n", out);
    }
}

static void completion_fish(FILE *out)
{
    fputs("# fish completion for portico, made by `portico completion fish`.\n"
          "function __portico_devices\n    " COMPLETION_ASK_DEVICES " | string split ' '\nend\n",
          out);
    static const char LINE[] = "complete -c portico -n __fish_use_subcommand -f -a %s -d '";
    for (int i = 0; cli_commands[i]; i++) completion_listed(out, LINE, cli_commands[i]);
    completion_listed(out, LINE, &cli_completion_command);
    fputs("complete -c portico -n __fish_use_subcommand -f -a help -d 'how a command is used'\n"
          "complete -c portico -n '__fish_seen_subcommand_from help' -f -a '",
          out);
    completion_commands(out, " ");
    fputs("'\ncomplete -c portico -l help -d 'how it is used'\n", out);
    for (int i = 0; cli_commands[i]; i++) fish_command(out, cli_commands[i]);
    fish_command(out, &cli_completion_command);
}

int cli_completion(FILE *out, const char *shell)
{
    if (strcmp(shell, "bash") == 0) return completion_bash(out), 1;
    if (strcmp(shell, "zsh") == 0) return completion_zsh(out), 1;
    if (strcmp(shell, "fish") == 0) return completion_fish(out), 1;
    return 0;
}

/* ---- the command ---- */

typedef struct completion_args {
    const char *shell;
} completion_args;

static const cli_option COMPLETION_OPTIONS[] = {
    {CLI_OPERAND("a shell (bash, zsh or fish)", completion_args, shell)},
};

static int completion_run(int argc, char **argv)
{
    completion_args args = {0};
    const int status = cli_parse(&cli_completion_command, argc, argv, &args, NULL);
    if (status) return status;
    if (cli_completion(stdout, args.shell)) return CLI_OK;
    cli_error("completion: there is none for '%s'; bash, zsh and fish have one", args.shell);
    return CLI_USAGE;
}

const cli_command cli_completion_command = {
    .name = "completion",
    .summary = "prints what completes command lines in bash, zsh or fish",
    .help = "usage: portico completion bash|zsh|fish\n"
            "\n"
            "An install has these files already where the shells look for them. Elsewhere:\n"
            "\n"
            "  bash   portico completion bash > ~/.local/share/bash-completion/completions/portico\n"
            "  zsh    portico completion zsh > _portico, in a folder of $fpath\n"
            "  fish   portico completion fish > ~/.config/fish/completions/portico.fish\n"
            "\n"
            "Exit status: 0 done, 1 failed, 2 wrong usage.\n",
    CLI_OPTIONS(COMPLETION_OPTIONS),
    .run = completion_run,
};
