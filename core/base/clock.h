/* The clock by which everything measures how long it takes. */
#ifndef PCO_BASE_CLOCK_H
#define PCO_BASE_CLOCK_H

/* Seconds since some moment before the process began; never goes back, and is not set by anybody. Thread-safe, and safe
 * in a signal handler. */
double pco_seconds(void);

#endif
