/* Which values the specialisation constants of each kernel took: what a kernel does under a value that no case gives it
 * is judged by nobody. */
#ifndef CONF_CONSTANTS_H
#define CONF_CONSTANTS_H

#include "conformance.h"

#include <stdbool.h>

typedef struct conf_constants {
    uint32_t count, capacity;
    pco_conformance_constant *items; /* by kernel, then number */
} conf_constants;

/* Notes a value. *fresh (may be NULL): it was not known. Errors: OUT_OF_HOST_MEMORY. */
pco_status conf_constants_note(conf_constants *constants, const pco_conformance_constant *seen, bool *fresh,
                               pco_error *err) PCO_NODISCARD;
/* Notes every value of `from`. */
pco_status conf_constants_add(conf_constants *constants, const conf_constants *from, pco_error *err) PCO_NODISCARD;
void conf_constants_clear(conf_constants *constants);

/* Is told of each value that is new to `constants`. */
typedef struct conf_constants_watch {
    conf_constants constants;
    void (*fresh)(void *user, const pco_conformance_constant *seen); /* of one value; may be NULL */
    void *user;
    void (*launch)(void *launch_user, const pco_dispatch_info *info); /* of each launch; may be NULL */
    void *launch_user;
} conf_constants_watch;

/* Notes what the launches of a prepared program have, as the plugin describes them; nothing where it does not. `own`:
 * of an operation of one's own, whose kernel may have any name. Errors: OUT_OF_HOST_MEMORY, what describe fails with,
 * and INTERNAL for a source that is not the kernel's. */
pco_status conf_constants_look(conf_constants_watch *watch, const pco_conformance_device *device, pco_program *program,
                               bool own, pco_error *err) PCO_NODISCARD;

#endif
