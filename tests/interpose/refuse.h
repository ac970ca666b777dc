/* A Vulkan layer that refuses one call: what a driver leaves in the output of a call that fails is undefined, and is
 * rubbish here. It counts what is alive, too. Its functions are found with dlsym once the library was opened. */
#ifndef REFUSE_H
#define REFUSE_H

typedef struct refuse_counts {
    unsigned calls;      /* that can fail, so far */
    unsigned alive;      /* objects that were made and not destroyed */
    unsigned waits;      /* vkDeviceWaitIdle */
    const char *refused; /* the call that was, or NULL */
} refuse_counts;

/* "pco_refuse_start": begins to count; the call of this number, from 1, is refused. */
typedef void (*refuse_start_fn)(unsigned call);
typedef const refuse_counts *(*refuse_counts_fn)(void); /* "pco_refuse_counts" */

#endif
