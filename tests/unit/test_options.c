/* The options of `portico`: how a command line is read, and that tables and help texts tell the same. */
#include "check.h"

#include "cli/cli.h"

#include <ctype.h>
#include <stdio.h>
#include <unistd.h>

enum { COLOUR_NONE = -1, COLOUR_RED, COLOUR_GREEN };

typedef struct toy_arguments {
    const char *file, *text, *device;
    int flag, colour, piped, more;
    int64_t number;
    uint32_t small;
    uint64_t large;
    double real;
    uint64_t given;
} toy_arguments;

static int toy_more(void *arguments, const char *option, const char *value)
{
    (void)option;
    ((toy_arguments *)arguments)->more++;
    return strcmp(value, "bad") != 0;
}

static const char *const TOY_COLOURS[] = {[COLOUR_RED] = "red", [COLOUR_GREEN] = "green", NULL};
static const cli_option TOY_OPTIONS[] = {
    {CLI_OPERAND("a file", toy_arguments, file)},
    {CLI_OPERANDS(NULL, toy_more)},
    {CLI_FLAG("-", toy_arguments, piped)},
    {CLI_FLAG("--flag", toy_arguments, flag), .letter = "-f"},
    {CLI_TEXT("--text", toy_arguments, text), .letter = "-t"},
    {CLI_TEXT("--device", toy_arguments, device), .traits = CLI_MAY_BE_EMPTY},
    {CLI_WHOLE("--number", toy_arguments, number, -5, 9), .letter = "-n"},
    {CLI_WHOLE("--small", toy_arguments, small, 0, UINT32_MAX)},
    {CLI_WHOLE("--large", toy_arguments, large, 0, INT64_MAX)},
    {CLI_NUMBER("--real", toy_arguments, real, 0, 1)},
    {CLI_WORD("--colour", toy_arguments, colour, TOY_COLOURS)},
};
static const cli_command TOY = {.name = "toy", CLI_OPTIONS(TOY_OPTIONS)};

/* Reads the words of `line`, between spaces; "''" is an empty one. */
static int read_line(const char *line, toy_arguments *arguments)
{
    static char words[256]; /* texts of the arguments lie in it */
    char *argv[32] = {"toy"};
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
        if (strcmp(word, "''") == 0) *word = 0;
        argv[argc++] = word;
    }
    *arguments = (toy_arguments){.colour = COLOUR_NONE};
    return cli_parse(&TOY, argc, argv, arguments, &arguments->given);
}

static void test_forms(void **state)
{
    (void)state;
    toy_arguments a;
    static const char *const fives[] = {"f --number 5", "f --number=5", "f -n 5",    "f -n5",
                                        "f -n=5",       "-n5 f",        "-n 3 f -n5"};
    for (size_t i = 0; i < sizeof fives / sizeof *fives; i++) {
        assert_int_equal(read_line(fives[i], &a), CLI_OK);
        assert_int_equal(a.number, 5);
        assert_string_equal(a.file, "f");
    }
    assert_int_equal(read_line("f -n-5 -f -t-x --device= --small 4294967295 --large 9223372036854775807 --real .5", &a),
                     CLI_OK);
    assert_int_equal(a.number, -5);
    assert_int_equal(a.flag, 1);
    assert_string_equal(a.text, "-x");
    assert_string_equal(a.device, "");
    assert_int_equal(a.small, UINT32_MAX);
    assert_true(a.large == INT64_MAX && a.real == 0.5);
    assert_int_equal(a.colour, COLOUR_NONE);
    assert_int_equal(a.given, 0x3f9);
    assert_int_equal(read_line("f --colour green --text --flag", &a), CLI_OK);
    assert_int_equal(a.colour, COLOUR_GREEN);
    assert_string_equal(a.text, "--flag"); /* a value is no option */
    assert_int_equal(a.flag, 0);
}

static int asks_help(const char *line)
{
    static char words[256];
    char *argv[32] = {"toy"};
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    return cli_asks_help(&TOY, argc, argv);
}

static void test_asks_help(void **state)
{
    (void)state;
    static const char *const yes[] = {
        "-h",   "f --help",    "f --number 5 -h", "--unknown --help", "-f -h", "-t=x --help",
        "- -h", "--text=x -h", "-n5 -h"};
    static const char *const no[] = {"", "f", "f -- --help", "f --text --help", "f -t -h", "--text=-h", "f -n"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!asks_help(yes[i])) fail_msg("'%s' asks for help", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (asks_help(no[i])) fail_msg("'%s' does not ask for help", no[i]);
}

static void test_operands(void **state)
{
    (void)state;
    toy_arguments a;
    assert_int_equal(read_line("-- --flag -f --", &a), CLI_OK);
    assert_string_equal(a.file, "--flag");
    assert_int_equal(a.more, 2);
    assert_int_equal(a.flag, 0);
    assert_int_equal(read_line("- f", &a), CLI_OK);
    assert_int_equal(a.piped, 1);
    assert_int_equal(read_line("f -f -- -", &a), CLI_OK); /* no option that "--" could end */
    assert_int_equal(a.piped, 1);
    assert_int_equal(a.more, 0);
    assert_int_equal(read_line("''", &a), CLI_OK);
    assert_string_equal(a.file, "");
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {"",
                                        "--flag",
                                        "f --flag=1",
                                        "f -f1",
                                        "f --number",
                                        "f -n",
                                        "f --number=",
                                        "f -n ''",
                                        "f -n x",
                                        "f -n 5x",
                                        "f -n 10",
                                        "f -n -6",
                                        "f --number 1e3",
                                        "f --small -1",
                                        "f --small 4294967296",
                                        "f --large 9223372036854775808",
                                        "f --real nan",
                                        "f --real 1.1",
                                        "f --real inf",
                                        "f --text ''",
                                        "f --colour blue",
                                        "f --colour gree",
                                        "f --nmber 5",
                                        "f -x",
                                        "f -text x",
                                        "f -number=5",
                                        "f --textx 5",
                                        "f g bad"};
    toy_arguments a;
    fflush(stderr);
    const int kept = dup(STDERR_FILENO);
    assert_non_null(freopen("/dev/null", "w", stderr));
    int passed[sizeof lines / sizeof *lines];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) passed[i] = read_line(lines[i], &a) != CLI_USAGE;
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (passed[i]) fail_msg("'%s' is read", lines[i]);
}

/* ---- tables and help texts ---- */

static int is_part(char letter) { return isalnum((unsigned char)letter) || letter == '-'; }

/* Does the text hold `word`, not as a part of another? */
static int mentions(const char *text, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++)
        if ((at == text || !is_part(at[-1])) && !is_part(at[length])) return 1;
    return 0;
}

static int is_operand(const cli_option *option)
{
    return option->kind == CLI_KIND_OPERAND || option->kind == CLI_KIND_OPERANDS;
}

static int has_option(const cli_command *command, const char *word, size_t length)
{
    for (uint32_t i = 0; i < command->n_options; i++) {
        const cli_option *option = &command->options[i];
        if (is_operand(option) || (option->traits & CLI_HIDDEN)) continue;
        if (strlen(option->name) == length && strncmp(option->name, word, length) == 0) return 1;
        if (option->letter && strlen(option->letter) == length && strncmp(option->letter, word, length) == 0) return 1;
    }
    return 0;
}

/* Each word of text[size] that looks like an option is in the table. */
static void check_words(const cli_command *command, const char *text, size_t size)
{
    for (const char *at = text, *end = text + size; at < end;) {
        size_t length = strcspn(at, " []|,\n");
        if (at + length > end) length = (size_t)(end - at);
        if (*at == '-' && !has_option(command, at, length))
            fail_msg("portico %s: %.*s is in the help, and not in the table", command->name, (int)length, at);
        at += length ? length : 1;
    }
}

static void test_tables(void **state)
{
    (void)state;
    for (int c = 0; cli_commands[c]; c++) {
        const cli_command *command = cli_commands[c];
        assert_in_range(command->n_options, 1, CLI_MOST_OPTIONS);
        for (uint32_t i = 0; i < command->n_options; i++) {
            const cli_option *option = &command->options[i];
            if (is_operand(option)) continue;
            assert_true(strncmp(option->name, "--", 2) == 0 || strcmp(option->name, "-") == 0);
            assert_true(!option->letter || (option->letter[0] == '-' && isalpha((unsigned char)option->letter[1])));
            assert_true(!option->letter || option->letter[2] == 0);
            for (uint32_t k = 0; k < i; k++) {
                const cli_option *other = &command->options[k];
                assert_true(is_operand(other) || strcmp(other->name, option->name) != 0);
                assert_true(!other->letter || !option->letter || strcmp(other->letter, option->letter) != 0);
            }
        }
        assert_false(has_option(command, "--help", 6) || has_option(command, "-h", 2)); /* main.c reads them */
    }
}

static void test_help(void **state)
{
    (void)state;
    for (int c = 0; cli_commands[c]; c++) {
        const cli_command *command = cli_commands[c];
        for (uint32_t i = 0; i < command->n_options; i++) {
            const cli_option *option = &command->options[i];
            if (is_operand(option)) continue;
            const int hidden = (option->traits & CLI_HIDDEN) != 0;
            if (mentions(command->help, option->name) == hidden)
                fail_msg("portico %s: the help does %smention %s", command->name, hidden ? "" : "not ", option->name);
            if (option->letter && !hidden && !mentions(command->help, option->letter))
                fail_msg("portico %s: the help does not mention %s", command->name, option->letter);
        }
        const char *usage_end = strstr(command->help, "\n\n");
        assert_non_null(usage_end);
        check_words(command, command->help, (size_t)(usage_end - command->help));
        for (const char *line = usage_end; (line = strstr(line, "\n  -")); line++) { /* "  -n, --name N  text" */
            const char *head = line + 3, *end = strstr(head, "  ");
            const size_t length = strcspn(head, "\n");
            check_words(command, head, end && (size_t)(end - head) < length ? (size_t)(end - head) : length);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),   cmocka_unit_test(test_operands), cmocka_unit_test(test_asks_help),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_tables),   cmocka_unit_test(test_help),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
