/* File descriptors, and the three that belong to whoever started the process. */
#ifndef PCO_BASE_FD_H
#define PCO_BASE_FD_H

/* For a program, first thing in main: where 0, 1 or 2 is closed it is taken by /dev/null, opened so that reading 0 and
 * writing 1 and 2 fail as they would have. Otherwise the next file to be opened gets the number, and messages go into
 * it. */
void pco_fd_standard(void);

/* The same open file with a number above 2, closed in programs that are started; `fd` is closed if it was another. For
 * files that a library keeps open: it cannot know that its process has 0 to 2. Takes and returns -1 with errno. */
int pco_fd_above(int fd);

#endif
