/* The parts of the plugin's table that are not in plugin.c. */
#ifndef CPU_PROGRAM_H
#define CPU_PROGRAM_H

#include "cpu.h"

extern const pco_buffer_api cpu_buffer_api;
extern const pco_program_api cpu_program_api;
extern const pco_queue_api cpu_queue_api;

#endif
