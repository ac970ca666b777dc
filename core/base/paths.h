/* Where Portico's own files are, found from where its code lies, so that an install can be moved as a whole. */
#ifndef PCO_BASE_PATHS_H
#define PCO_BASE_PATHS_H

#include <stddef.h>

/* The folder of plugins that belongs to this library or program; 0 when there is none. */
int pco_path_plugins(char *path, size_t size);

/* The file that holds this code, the program or libportico.so, links resolved; 0 when it cannot be found out. */
int pco_path_self(char *path, size_t size);

/* The helper program that tries plugins out; 0 when it is missing. */
int pco_path_probe(char *path, size_t size);

#endif
