/* What the two files of the example plugin share. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <portico/plugin.h>

struct pco_backend {
    const pco_host *host;
};
struct pco_device {
    const pco_host *host;
};
struct pco_buffer {
    unsigned char *data;
    uint64_t bytes;
};

pco_status example_fail(pco_error *err, pco_status status, const char *format, ...);

extern const pco_program_api EXAMPLE_PROGRAM;
extern const pco_queue_api EXAMPLE_QUEUE;

#endif
