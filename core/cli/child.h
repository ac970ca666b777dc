/* The program in a process of its own, for what a device may crash or hang. */
#ifndef PCO_CLI_CHILD_H
#define PCO_CLI_CHILD_H

#include <signal.h>
#include <stddef.h>

enum { CLI_CHILD_BEATS = 5 }; /* the file descriptor on which a child says that it is alive, and what it does */

typedef struct cli_child {
    int exited, status; /* by itself, with that status; else it died, or was ended because it said nothing */
    int signal;         /* of which it died; 0: it was ended */
    double patience;
    char doing[200]; /* what it said last */
} cli_child;

/* Runs this program with words[] (NULL-terminated; the first is its name), which shares stdin, stdout and stderr, and
 * waits for its end. It is killed after `patience` seconds without a word; when *interrupted (NULL: never) is set it is
 * asked to end, and killed soon after. 0 after a message: it could not be started. */
int cli_child_run(const char *const *words, double patience, const volatile sig_atomic_t *interrupted,
                  cli_child *child);

/* "the process died (Segmentation fault) while running step 3", "no answer within 10 s ..." into text. */
void cli_child_describe(const cli_child *child, char *text, size_t size);

/* In the child: ends with its parent, and tells it what is going on (one line; NULL: still the same). */
void cli_child_begin(void);
void cli_child_beat(const char *doing);

#endif
