/* Writing reproducers: what reproduce.c and its parts share, and what bisect.c calls. */
#ifndef CONF_REPRODUCE_H
#define CONF_REPRODUCE_H

#include "base/writer.h"
#include "run/runner.h"

/* What goes into the README. All borrowed. */
typedef struct conf_reproducer_text {
    const char *title;  /* "softmax, case 1a2b3c4d: f32 [3,7] ..." */
    const char *found;  /* what was seen */
    const char *repeat; /* the command */
    const char *variant;
    uint64_t seed;
} conf_reproducer_text;

/* A folder under construction: a hidden one beside `target`. */
typedef struct conf_folder {
    char target[1024], scratch[1100];
} conf_folder;

/* Creates the scratch folder, and the parents of `target`. Errors: INVALID when target exists and is no
 * reproducer; IO. */
pco_status conf_folder_create(conf_folder *folder, const char *target, pco_error *err) PCO_NODISCARD;
pco_status conf_folder_write(const conf_folder *folder, const char *name, const void *data, size_t bytes,
                             pco_error *err) PCO_NODISCARD;
/* The same for a text. Errors also: OUT_OF_HOST_MEMORY, when it is not whole. */
pco_status conf_folder_save(const conf_folder *folder, const char *name, const pco_writer *text,
                            pco_error *err) PCO_NODISCARD;
/* Puts it in its place, instead of what was there. */
pco_status conf_folder_finish(conf_folder *folder, pco_error *err) PCO_NODISCARD;
/* Removes what is left of the scratch folder; harmless after finish. */
void conf_folder_destroy(conf_folder *folder);

/* Writes the whole folder. `execution` is NULL where no program could be made: then there are operands and
 * expected values only. Errors: as pco_conformance_write_reproducer. */
pco_status conf_reproducer_write(const pco_conformance_device *device, const conf_problem *problem,
                                 const conf_execution *execution, const conf_reproducer_text *text, const char *target,
                                 pco_error *err) PCO_NODISCARD;

/* An observer that writes a reproducer of what it sees: of the first execution that is wrong, or with
 * `always` also of the first one. */
typedef struct conf_reproducer {
    const conf_reproducer_text *text;
    const char *target;
    bool always;
    bool keep_found;   /* text->found stays, whatever is seen */
    uint32_t written;  /* 0 nothing, 1 a right one, 2 a wrong one */
    pco_status status; /* of writing */
    pco_error err;
} conf_reproducer;
void conf_reproducer_observe(void *user, const conf_execution *execution);

#endif
