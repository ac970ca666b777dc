#include "cli/options.h"

#include "base/suggest.h"
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A word of the command line that is an option. */
typedef struct option_found {
    uint32_t row;
    const char *name;  /* the one of its names that was used */
    const char *value; /* what is joined to it; NULL: nothing */
} option_found;

static int option_is_operand(const cli_option *option)
{
    return option->kind == CLI_KIND_OPERAND || option->kind == CLI_KIND_OPERANDS;
}

/* Is `word` this long name, alone or with "=VALUE"? Both without their dashes. */
static int option_is_name(const char *word, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(word, name, length) == 0 && (word[length] == 0 || word[length] == '=');
}

static int option_find_long(const cli_command *command, const char *word, option_found *found)
{
    for (uint32_t i = 0; i < command->n_options; i++) {
        const cli_option *option = &command->options[i];
        if (option_is_operand(option)) continue;
        if (strcmp(word, option->name) != 0 && (word[1] != '-' || !option_is_name(word, option->name))) continue;
        const size_t length = strlen(option->name);
        *found = (option_found){i, option->name, word[length] ? word + length + 1 : NULL};
        return 1;
    }
    return 0;
}

/* "-prompt" is a slip, and not "-p" with the value "rompt". */
static int option_lacks_dash(const cli_command *command, const char *word)
{
    for (uint32_t i = 0; i < command->n_options; i++)
        if (!option_is_operand(&command->options[i]) && strncmp(command->options[i].name, "--", 2) == 0 &&
            option_is_name(word + 1, command->options[i].name + 2))
            return 1;
    return 0;
}

static int option_find_letter(const cli_command *command, const char *word, option_found *found)
{
    if (word[0] != '-' || word[1] == 0 || word[1] == '-' || option_lacks_dash(command, word)) return 0;
    for (uint32_t i = 0; i < command->n_options; i++) {
        const char *letter = command->options[i].letter;
        if (!letter || letter[1] != word[1]) continue;
        *found = (option_found){i, letter, word[2] ? word + 2 + (word[2] == '=') : NULL};
        return 1;
    }
    return 0;
}

static int option_unknown(const cli_command *command, const char *word)
{
    pco_suggestion suggestion = {0};
    char name[PCO_SUGGEST_NAME + 1], hint[PCO_SUGGEST_HINT];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (uint32_t i = 0; i < command->n_options; i++)
        if (!option_is_operand(&command->options[i]) && !(command->options[i].traits & CLI_HIDDEN))
            pco_suggest(&suggestion, name, command->options[i].name);
    pco_suggest(&suggestion, name, "--help");
    cli_error("%s: unknown option '%s'%s; see portico %s --help", command->name, word,
              pco_suggest_hint(&suggestion, hint), command->name);
    return 0;
}

/* ---- values ---- */

int cli_number(const char *option, const char *text, double least, double most, double *number)
{
    char *end;
    errno = 0;
    *number = strtod(text, &end);
    if (*text && !*end && !errno && isfinite(*number) && *number >= least && *number <= most) return 1;
    cli_error("option %s: '%s' is not a number from %g to %g", option, text, least, most);
    return 0;
}

static int option_whole(const cli_option *option, const char *name, const char *text, void *target)
{
    char *end;
    errno = 0;
    const int64_t number = strtoll(text, &end, 10);
    if (!*text || *end || errno || number < option->low || number > option->high) {
        cli_error("option %s: '%s' is not a whole number from %" PRId64 " to %" PRId64, name, text, option->low,
                  option->high);
        return 0;
    }
    if (option->kind == CLI_KIND_INT64)
        *(int64_t *)target = number;
    else if (option->kind == CLI_KIND_UINT32)
        *(uint32_t *)target = (uint32_t)number;
    else
        *(uint64_t *)target = (uint64_t)number;
    return 1;
}

static int option_word(const cli_option *option, const char *name, const char *text, int *target)
{
    char list[256];
    size_t used = 0;
    int count = 0;
    while (option->words[count]) {
        if (strcmp(text, option->words[count]) == 0) return *target = count, 1;
        count++;
    }
    for (int i = 0; i < count; i++)
        cli_append(list, sizeof list, &used, "%s%s", i == 0 ? "" : count == 2 ? " nor " : ", ", option->words[i]);
    cli_error("option %s: '%s' is %s %s", name, text, count == 2 ? "neither" : "none of", list);
    return 0;
}

static int option_set(const cli_option *option, const char *name, const char *value, void *arguments)
{
    void *target = (char *)arguments + option->offset;
    switch (option->kind) {
    case CLI_KIND_FLAG: *(int *)target = 1; return 1;
    case CLI_KIND_TEXT:
    case CLI_KIND_OPERAND: *(const char **)target = value; return 1;
    case CLI_KIND_INT64:
    case CLI_KIND_UINT32:
    case CLI_KIND_UINT64: return option_whole(option, name, value, target);
    case CLI_KIND_NUMBER: return cli_number(name, value, option->least, option->most, target);
    case CLI_KIND_WORD: return option_word(option, name, value, target);
    case CLI_KIND_READ:
    case CLI_KIND_OPERANDS: return option->read(arguments, name, value);
    }
    return 0;
}

/* Finds the value of an option, which may be the next word, and sets what it is for. */
static int option_take(const cli_option *option, const option_found *found, int argc, char **argv, int *i,
                       void *arguments)
{
    const char *value = found->value;
    if (option->kind == CLI_KIND_FLAG) {
        if (!value) return option_set(option, found->name, NULL, arguments);
        cli_error("option %s takes no value", found->name);
        return 0;
    }
    if (!value && *i + 1 >= argc) {
        cli_error("option %s needs a value", found->name);
        return 0;
    }
    if (!value) value = argv[++*i];
    if (!*value && !(option->traits & CLI_MAY_BE_EMPTY)) {
        cli_error("option %s: its value is empty", found->name);
        return 0;
    }
    return option_set(option, found->name, value, arguments);
}

/* ---- the command line ---- */

static int option_operand(const cli_command *command, const char *word, void *arguments, uint64_t *given)
{
    for (uint32_t i = 0; i < command->n_options; i++) {
        const cli_option *option = &command->options[i];
        if (!option_is_operand(option) || (option->kind == CLI_KIND_OPERAND && (*given >> i & 1))) continue;
        *given |= UINT64_C(1) << i;
        return option_set(option, option->name, word, arguments);
    }
    cli_error("%s: unexpected argument '%s'; see portico %s --help", command->name, word, command->name);
    return 0;
}

static int option_missing(const cli_command *command, uint64_t given)
{
    for (uint32_t i = 0; i < command->n_options; i++) {
        const cli_option *option = &command->options[i];
        if (!option_is_operand(option) || !option->name || (given >> i & 1)) continue;
        cli_error("%s: %s is missing; see portico %s --help", command->name, option->name, command->name);
        return 1;
    }
    return 0;
}

int cli_is_help(const char *word) { return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0; }

int cli_asks_help(const cli_command *command, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        option_found found;
        if (cli_is_help(argv[i])) return 1;
        if (argv[i][0] != '-' ||
            (!option_find_long(command, argv[i], &found) && !option_find_letter(command, argv[i], &found)))
            continue;
        if (command->options[found.row].kind != CLI_KIND_FLAG && !found.value) i++; /* the next word is its value */
    }
    return 0;
}

int cli_parse(const cli_command *command, int argc, char **argv, void *arguments, uint64_t *given)
{
    uint64_t seen = 0;
    int ended = 0, good = 1;
    for (int i = 1; i < argc && good; i++) {
        const char *word = argv[i];
        option_found found;
        const int dashed = !ended && word[0] == '-';
        if (!ended && strcmp(word, "--") == 0) {
            ended = 1;
        } else if ((dashed || strcmp(word, "-") == 0) &&
                   (option_find_long(command, word, &found) || option_find_letter(command, word, &found))) {
            good = option_take(&command->options[found.row], &found, argc, argv, &i, arguments);
            seen |= UINT64_C(1) << found.row;
        } else {
            good = dashed ? option_unknown(command, word) : option_operand(command, word, arguments, &seen);
        }
    }
    if (given) *given = seen;
    return good && !option_missing(command, seen) ? CLI_OK : CLI_USAGE;
}
