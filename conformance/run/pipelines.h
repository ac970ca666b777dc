/* What a device's compiler makes of the kernels that cases launch: each kernel with its specialisation constants once,
 * with the figures that the driver has for it. */
#ifndef CONF_PIPELINES_H
#define CONF_PIPELINES_H

#include "conformance.h"

#include <stdbool.h>

typedef struct conf_pipelines {
    uint32_t count, capacity;
    pco_conformance_pipeline *items; /* by identity */
} conf_pipelines;

/* Notes a pipeline; *fresh: it was not known, and is copied with its figures. Errors: OUT_OF_HOST_MEMORY. */
pco_status conf_pipelines_note(conf_pipelines *pipelines, const pco_conformance_pipeline *seen, bool *fresh,
                               pco_error *err) PCO_NODISCARD;
void conf_pipelines_clear(conf_pipelines *pipelines);

/* Looks at the launches of a run. The caller says which case is under way. */
typedef struct conf_pipelines_watch {
    conf_pipelines pipelines;
    const char *op, *variant; /* of the case under way; borrowed until the next launch */
    const char *folder;       /* for machine code, which exists; NULL: it is dropped */
    void (*fresh)(void *user, const pco_conformance_pipeline *seen); /* may be NULL */
    void *user;
    pco_status status; /* the first that failed */
    pco_error err;
} conf_pipelines_watch;

/* Asks the device to keep what its compiler says; one that has nothing to say is no error. */
void conf_inspect(const pco_conformance_device *device);

/* As conf_constants_watch.launch. */
void conf_pipelines_launch(void *watch, const pco_dispatch_info *info);

#endif
