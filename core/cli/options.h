/* Options: every command has one table of them, and one reader reads them all.
 *
 * "--name VALUE", "--name=VALUE", "-n VALUE", "-nVALUE" or "-n=VALUE", flags ("--name", "-n"), and operands: words that
 * are no options, wherever they stand. "--" ends the options. Of an option that is given twice the last one counts. */
#ifndef PCO_CLI_OPTIONS_H
#define PCO_CLI_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef enum cli_kind {
    CLI_KIND_FLAG,  /* an int, which becomes 1 */
    CLI_KIND_TEXT,  /* a const char *, which lives as long as argv */
    CLI_KIND_INT64, /* whole numbers from low to high */
    CLI_KIND_UINT32,
    CLI_KIND_UINT64,
    CLI_KIND_NUMBER,   /* a double from least to most */
    CLI_KIND_WORD,     /* an int or enum: which of `words` */
    CLI_KIND_READ,     /* what `read` makes of it */
    CLI_KIND_OPERAND,  /* a const char *: the next word that is no option */
    CLI_KIND_OPERANDS, /* each such word is given to `read` */
} cli_kind;

enum {
    CLI_HIDDEN = 1,       /* for child processes, which the program starts itself: no help mentions it */
    CLI_MAY_BE_EMPTY = 2, /* an empty value means something: a text, or that nothing was chosen */
};

/* Rows are written with the macros below. */
typedef struct cli_option {
    const char *name;   /* "--prompt", or "-" itself. Of operands: what is missing without them ("a model"), or NULL */
    const char *letter; /* "-p", or NULL */
    cli_kind kind;
    size_t offset; /* of what it sets, in the command's struct of arguments */
    int64_t low, high;
    double least, most;
    const char *const *words;                                            /* up to a NULL */
    int (*read)(void *arguments, const char *option, const char *value); /* 0 after a message; `option` as written */
    unsigned traits;
    unsigned uses; /* for which of the things that the command does it says something; the command checks that */
} cli_option;

/* The member's type decides the kind, or the row does not compile. */
#define CLI_MEMBER(type, member) (((type *)0)->member)
#define CLI_FLAG(long_name, type, member) \
    .name = (long_name), \
    .kind = _Generic(CLI_MEMBER(type, member), int \
                     : CLI_KIND_FLAG), \
    .offset = offsetof(type, member)
#define CLI_TEXT(long_name, type, member) \
    .name = (long_name), .kind = _Generic(CLI_MEMBER(type, member), const char *: CLI_KIND_TEXT), \
    .offset = offsetof(type, member)
#define CLI_WHOLE(long_name, type, member, from, to) \
    .name = (long_name), .offset = offsetof(type, member), .low = (from), .high = (to), \
    .kind = _Generic(CLI_MEMBER(type, member), int64_t \
                     : CLI_KIND_INT64, uint32_t \
                     : CLI_KIND_UINT32, uint64_t \
                     : CLI_KIND_UINT64)
#define CLI_NUMBER(long_name, type, member, from, to) \
    .name = (long_name), \
    .kind = _Generic(CLI_MEMBER(type, member), double \
                     : CLI_KIND_NUMBER), \
    .offset = offsetof(type, member), .least = (from), .most = (to)
#define CLI_WORD(long_name, type, member, list) \
    .name = (long_name), \
    .kind = _Generic(CLI_MEMBER(type, member), int \
                     : CLI_KIND_WORD, unsigned \
                     : CLI_KIND_WORD), \
    .offset = offsetof(type, member), .words = (list)
#define CLI_READ(long_name, function) .name = (long_name), .kind = CLI_KIND_READ, .read = (function)
#define CLI_OPERAND(what, type, member) \
    .name = (what), .kind = _Generic(CLI_MEMBER(type, member), const char *: CLI_KIND_OPERAND), \
    .offset = offsetof(type, member)
#define CLI_OPERANDS(what, function) .name = (what), .kind = CLI_KIND_OPERANDS, .read = (function)

/* Of a cli_command: its table. */
#define CLI_OPTIONS(table) .options = (table), .n_options = sizeof(table) / sizeof *(table)
enum { CLI_MOST_OPTIONS = 64 }; /* in a table: bits of `given` */

struct cli_command;

/* Reads argv[1 ... argc - 1] into the command's struct of arguments, which holds the defaults. Bit i of *given (which
 * may be NULL) says whether row i was there. Returns CLI_OK, or CLI_USAGE after one line. */
int cli_parse(const struct cli_command *command, int argc, char **argv, void *arguments, uint64_t *given);

/* Is one of the words --help or -h, as an option? */
int cli_asks_help(const struct cli_command *command, int argc, char **argv);

/* Is it the word --help or -h? */
int cli_is_help(const char *word);

/* For `read`: a number from least to most; 0 after a message. */
int cli_number(const char *option, const char *text, double least, double most, double *number);

#endif
