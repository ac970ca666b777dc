/* A node with its operands, handed to a worker process as a file in memory, by its name in /proc. */
#ifndef CONF_PROBLEM_FILE_H
#define CONF_PROBLEM_FILE_H

#include "cases/case.h"

#include "base/file.h"

/* Writes the case and data[i], operand i in storage format, to a new file in memory; *file, if it is not -1, is closed
 * before. Errors: IO. */
pco_status conf_problem_store(const conf_case *one, void *const *data, int *file, pco_error *err) PCO_NODISCARD;

/* Reads what was stored: *one, and data[i] within the map, which the caller closes, also after an error. Errors: IO,
 * FORMAT. */
pco_status conf_problem_load(const char *path, pco_map *map, conf_case *one, const void **data,
                             pco_error *err) PCO_NODISCARD;

#endif
