/* The parts of a reproducer, which reproduce.c puts together. */
#ifndef CONF_REPRODUCE_INTERNAL_H
#define CONF_REPRODUCE_INTERNAL_H

#include "reproduce/reproduce.h"

/* What is under way. */
typedef struct conf_writing {
    const pco_conformance_device *device;
    const conf_problem *problem;
    const conf_execution *execution;
    const conf_reproducer_text *text;
    conf_folder folder;
    pco_writer tables, list; /* C tables; launches in words */
    uint32_t n_launches, n_outputs, n_writable, n_fresh, api;
    bool describes; /* the plugin tells what it launches */
    pco_error *err;
} conf_writing;

/* Values as a .npy file: of the type `dtype`, or of doubles (-1). */
pco_status conf_write_array(const conf_writing *w, const char *name, const pco_tensor *desc, int32_t dtype,
                            const void *data, pco_error *err) PCO_NODISCARD;
/* A tensor's values: in its own type where .npy has it, else in f32, which holds bf16 and quantised ones. */
pco_status conf_write_values(const conf_writing *w, const char *name, const pco_tensor *desc, const void *data,
                             pco_error *err) PCO_NODISCARD;
/* From where on a number rounds to infinity; 0 for types without. */
double conf_edge(const conf_problem *problem, uint32_t dtype);
/* The bounds of an output as repro.c needs them, into bound[count]: infinite also where overflow is not promised. */
void conf_bounds(const conf_problem *problem, const oracle_output *out, double *bound);

/* Kernel files, and the launches in C and in words. */
pco_status conf_write_launches(conf_writing *w) PCO_NODISCARD;
/* repro.c, and launches.h where that is long. */
pco_status conf_write_program(conf_writing *w) PCO_NODISCARD;

/* Text from elsewhere (names of devices, a driver's words) in the C program. */
void conf_put_comment(pco_writer *out, const char *text);
void conf_put_string(pco_writer *out, const char *text);

/* Operands, memory and results of a case that is held as periods and rows (w->execution->large). */
pco_status conf_write_large(conf_writing *w) PCO_NODISCARD;

#endif
