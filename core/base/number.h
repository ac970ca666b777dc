/* Numbers with a point, whatever the locale of the host program has instead. */
#ifndef PCO_BASE_NUMBER_H
#define PCO_BASE_NUMBER_H

/* As strtod in the locale "C", for decimal numbers of at most 300 characters. `end` may be NULL. */
double pco_number_read(const char *text, char **end);

/* What printf has written: its first radix character becomes a point, in place. Returns text. */
char *pco_number_plain(char *text);

#endif
