/* The signals that ask the program to end: SIGINT (Ctrl-C), SIGTERM (kill, mpirun, a shutdown) and SIGHUP (its terminal
 * was closed). A long command watches them, ends in order, and says with its exit status that it was ended. */
#ifndef PCO_CLI_SIGNALS_H
#define PCO_CLI_SIGNALS_H

#include <signal.h>

/* From here on such a signal sets a flag. One that was ignored at the start (nohup, a job in the background) stays
 * ignored. Since a device may hang, SIGINT a second after the first signal or later ends the process as usual, and
 * SIGTERM ten seconds after it; what comes sooner is the same request twice (timeout signals the process and its group,
 * and may be held up in between), as SIGHUP always is (a terminal that closes sends several). */
void cli_watch_signals(void);

/* Takes signals that are watched back from drivers, once they are loaded: LLVM, in many of them, puts in handlers of
 * its own, and between its handler and ours a second signal would end the process. */
void cli_keep_signals(void);

/* The number of the first signal that came; 0: none. */
int cli_interrupted(void);
const volatile sig_atomic_t *cli_interrupted_flag(void);

/* 1: reading ends with EINTR when such a signal comes, instead of going on; 0: it goes on again. For signals that are
 * watched. */
void cli_signals_end_reads(int end);

/* Forgets a SIGINT, so that the program goes on; 0 where another signal came, which stays. */
int cli_forget_interrupt(void);

/* They end the process as usual again. */
void cli_forget_signals(void);

/* The exit status of a command that ended early: 128 + the signal; `status` where there was none. */
int cli_exit_status(int status);

#endif
