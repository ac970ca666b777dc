#include "cli/guard.h"
#include "cli/cli.h"

#include "base/printable.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A character whose last bytes have not come yet. */
typedef struct guard {
    char held[4];
    size_t n_held;
} guard;

static int guard_put(const char *data, size_t size)
{
    while (size) {
        const ssize_t done = write(STDOUT_FILENO, data, size);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return 0;
        data += done;
        size -= (size_t)done;
    }
    return 1;
}

/* Could text[size], which is no character, become one with more bytes? */
static int guard_is_begun(const char *text, size_t size)
{
    const unsigned char lead = (unsigned char)*text;
    const size_t whole = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || size >= whole) return 0;
    for (size_t i = 1; i < size; i++)
        if (((unsigned char)text[i] & 0xC0) != 0x80) return 0;
    return 1;
}

/* Shows text[size]; what is begun at its end is left. Returns 0 when the terminal is gone. */
static int guard_show(const char *text, size_t size, size_t *left)
{
    char line[1024];
    size_t used = 0;
    for (size_t at = 0, taken; at < size; at += taken) {
        *left = size - at;
        if (*left < 4 && !pco_utf8_decode(text + at, *left, NULL) && guard_is_begun(text + at, *left)) break;
        *left = 0;
        taken = 1;
        if (text[at] == '\n' || text[at] == '\t')
            line[used++] = text[at];
        else
            used += pco_printable_next(text + at, size - at, line + used, &taken);
        if (used + 4 * PCO_PRINTABLE_MOST < sizeof line && at + taken < size) continue;
        if (!guard_put(line, used)) return 0;
        used = 0;
    }
    return guard_put(line, used);
}

static ssize_t guard_write(void *cookie, const char *data, size_t size)
{
    guard *state = cookie;
    const size_t total = state->n_held + size;
    size_t left = 0;
    char *all = malloc(total ? total : 1);
    if (!all) return 0;
    memcpy(all, state->held, state->n_held);
    memcpy(all + state->n_held, data, size);
    const int shown = guard_show(all, total, &left);
    if (shown) memcpy(state->held, all + total - left, left);
    if (shown) state->n_held = left;
    free(all);
    return shown ? (ssize_t)size : 0;
}

/* ---- files -------------------------------------------------------------------------------------------- */

/* One line of /proc/self/maps, "begin-end rwxp offset dev inode   /path": the path, if `address` lies between. */
static const char *guard_mapped(char *line, uintptr_t address)
{
    char *at;
    const unsigned long begin = strtoul(line, &at, 16), end = *at == '-' ? strtoul(at + 1, &at, 16) : 0;
    if (address < begin || address >= end) return NULL;
    return strchr(at, '/');
}

/* The file that is mapped at an address, in `line`; NULL when it is none. For signal handlers: nothing is allocated. */
static const char *guard_find(uintptr_t address, char *line, size_t size)
{
    char byte;
    size_t used = 0;
    const char *found = NULL;
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (!found && fd >= 0 && read(fd, &byte, 1) == 1) {
        if (byte != '\n') {
            if (used + 1 < size) line[used++] = byte;
            continue;
        }
        line[used] = 0;
        used = 0;
        found = guard_mapped(line, address);
    }
    if (fd >= 0) close(fd);
    return found;
}

/* Several threads may come to the missing pages at once: none of them may find the handler gone. */
static atomic_flag guard_says = ATOMIC_FLAG_INIT;

static void guard_bus_error(int number, siginfo_t *info, void *context)
{
    static const char says[] = " was cut short or replaced while it was in use; put it back whole, and start again\n";
    char line[1500], text[2500] = "portico: ";
    const char *path = guard_find((uintptr_t)info->si_addr, line, sizeof line);
    (void)context;
    if (!path) { /* not ours to explain: it happens again, and ends the process */
        signal(number, SIG_DFL);
        return;
    }
    while (atomic_flag_test_and_set(&guard_says)) pause(); /* another thread says it, and ends the process */
    size_t used = strlen(text);
    pco_printable(path, strlen(path), text + used, sizeof text - used - sizeof says);
    strcat(text, says);
    (void)!write(STDERR_FILENO, text, strlen(text));
    _exit(CLI_FAILED);
}

void cli_guard_files(void)
{
    struct sigaction action = {.sa_sigaction = guard_bus_error, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
}

void cli_guard_terminal(void)
{
    if (!isatty(STDOUT_FILENO)) return;
    static guard of_stdout; /* as long as stdout, which drivers' libraries flush after main */
    FILE *guarded = fopencookie(&of_stdout, "w", (cookie_io_functions_t){.write = guard_write});
    if (!guarded) return;
    setvbuf(guarded, NULL, _IOLBF, BUFSIZ);
    stdout = guarded;
}
