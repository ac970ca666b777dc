/* A Vulkan or an OpenCL layer that refuses one call: what a driver leaves in the output of a call that fails is
 * undefined, and is rubbish here. It counts what is alive, too. Its functions are found with dlsym once the library was
 * opened. */
#ifndef REFUSE_H
#define REFUSE_H

typedef struct refuse_counts {
    unsigned calls;      /* that can fail, so far */
    unsigned alive;      /* objects that were made and not destroyed */
    unsigned waits;      /* for the device to have nothing left to do */
    const char *refused; /* the call that was, or NULL */
} refuse_counts;

/* "pco_refuse_start": begins to count; the call of this number, from 1, is refused. */
typedef void (*refuse_start_fn)(unsigned call);
typedef const refuse_counts *(*refuse_counts_fn)(void); /* "pco_refuse_counts" */

/* For the layers themselves. */
#define REFUSE_VISIBLE __attribute__((visibility("default")))
#define REFUSE_RUBBISH 0x5a
extern refuse_counts refuse_counted;
/* Counts a call that can fail. 1: it does. */
int refuse_now(const char *name);

#endif
