#include "cli/signals.h"

#include "base/clock.h"

#include <errno.h>
#include <stdint.h>

/* after: milliseconds from the first signal on after which another one ends the process; 0: never */
static const struct {
    int number;
    unsigned after;
} signals_watched[] = {{SIGINT, 1000}, {SIGTERM, 10000}, {SIGHUP, 0}};
enum { SIGNALS = sizeof signals_watched / sizeof *signals_watched };

static volatile sig_atomic_t signals_first, signals_when; /* when: milliseconds, of a clock that wraps around */
static int signals_on, signals_ignored[SIGNALS];

static void signals_note(int number)
{
    const int kept = errno;
    const unsigned when = (unsigned)(uint64_t)(1e3 * pco_seconds());
    if (!signals_first) {
        signals_when = (sig_atomic_t)when;
        signals_first = number;
    }
    /* Below 0: two signals at once are handled by two threads, and the first looked at the clock last. */
    const int since = (int)(when - (unsigned)signals_when);
    for (int i = 0; i < SIGNALS; i++) {
        const unsigned after = signals_watched[i].after;
        if (number != signals_watched[i].number || !after || since < (int)after) continue;
        signal(number, SIG_DFL);
        raise(number); /* delivered when this handler returns */
    }
    errno = kept;
}

/* Ignored ones stay ignored. */
static void signals_set(void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_flags = flags};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < SIGNALS; i++) sigaddset(&action.sa_mask, signals_watched[i].number);
    for (int i = 0; i < SIGNALS; i++) {
        action.sa_handler = signals_ignored[i] ? SIG_IGN : handler;
        sigaction(signals_watched[i].number, &action, NULL);
    }
}

void cli_watch_signals(void)
{
    struct sigaction before;
    for (int i = 0; i < SIGNALS; i++)
        signals_ignored[i] = sigaction(signals_watched[i].number, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
    signals_on = 1;
    signals_set(signals_note, SA_RESTART);
}

void cli_keep_signals(void)
{
    if (signals_on) signals_set(signals_note, SA_RESTART);
}

void cli_signals_end_reads(int end)
{
    if (signals_on) signals_set(signals_note, end ? 0 : SA_RESTART);
}

void cli_forget_signals(void)
{
    if (signals_on) signals_set(SIG_DFL, 0);
    signals_on = 0;
}

int cli_forget_interrupt(void)
{
    if (signals_first != SIGINT) return signals_first == 0;
    signals_first = 0;
    return 1;
}

int cli_interrupted(void) { return signals_first; }

const volatile sig_atomic_t *cli_interrupted_flag(void) { return &signals_first; }

int cli_exit_status(int status) { return signals_first ? 128 + signals_first : status; }
