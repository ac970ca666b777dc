/* What session.c, part.c and executable.c know of each other. */
#ifndef PCO_RUNTIME_SESSION_INTERNAL_H
#define PCO_RUNTIME_SESSION_INTERNAL_H

#include "runtime/session.h"

enum { SESSION_SLOTS = 2 }; /* 0: the device of the session; 1: the CPU for what it cannot run */

/* An open device. */
typedef struct session_slot {
    const pco_plugin *plugin; /* NULL: not opened */
    pco_device *device;
    const pco_device_entry *entry;
} session_slot;

/* Device memory that several executables use: constants that were uploaded together, or a state. */
typedef struct session_buffer {
    struct session_buffer *next;
    uint32_t slot;
    uint32_t users; /* executables; a buffer of constants goes with its last user */
    pco_buffer *buffer;
    uint64_t bytes;
    uint64_t content; /* of a state: bytes of the tensor, before rounding up */
    char *state;      /* name of the state, or NULL */
    uint32_t dtype, rank;
    int64_t shape[PCO_MAX_RANK];
} session_buffer;

/* Where a constant lies; known by name, address, size, and content when it is small. */
typedef struct session_constant {
    struct session_constant *next;
    session_buffer *buffer;
    uint64_t offset, bytes, key;
    const void *data;
    uint32_t layout;
} session_constant;

struct pco_session {
    pco_registry *registry;
    session_slot slots[SESSION_SLOTS];
    session_buffer *buffers;
    session_constant *constants;
    uint64_t bytes, peak;
    unsigned char warned[256]; /* op number: its fallback has been said */
};

/* Opens slot 1 if it is not yet. */
pco_status session_open_cpu(pco_session *session, pco_error *err) PCO_NODISCARD;

/* Creates and destroys device buffers, counted. */
pco_status session_buffer_create(pco_session *session, uint32_t slot, uint64_t bytes, uint32_t usage,
                                 pco_buffer **buffer, pco_error *err) PCO_NODISCARD;
void session_buffer_destroy(pco_session *session, uint32_t slot, pco_buffer *buffer, uint64_t bytes);

/* The state of a tensor (of kind STATE) on a slot, created zeroed when it is new. Errors: INVALID when a state of
 * that name has another shape. */
pco_status session_state(pco_session *session, uint32_t slot, const pco_tensor *tensor, session_buffer **state,
                         pco_error *err) PCO_NODISCARD;

/* A constant already on the device in that layout, or NULL. */
session_constant *session_find_constant(pco_session *session, uint32_t slot, const pco_tensor *tensor,
                                        uint32_t layout, uint64_t bytes);

/* Keeps a constant that has been uploaded. */
pco_status session_keep_constant(pco_session *session, session_buffer *buffer, const pco_tensor *tensor,
                                 uint32_t layout, uint64_t offset, uint64_t bytes, pco_error *err) PCO_NODISCARD;

/* Gives up one use of a shared buffer; constants without users are destroyed. */
void session_unuse(pco_session *session, session_buffer *buffer);

/* One part of an executable: consecutive nodes on one slot. */
typedef struct part_link {
    uint32_t tensor; /* of the executable's graph */
    uint32_t local;  /* of the part */
} part_link;

typedef struct session_part {
    uint32_t slot;
    uint32_t first_node, n_nodes; /* of the executable's graph */
    uint32_t *local;              /* graph tensor -> part tensor, or PCO_NONE */
    pco_part view;
    pco_tensor *tensors; /* view.tensors */
    pco_node *nodes;     /* view.nodes */
    pco_node_proposal *node_proposals;
    pco_tensor_proposal *tensor_proposals;
    pco_place *places, *workspaces;
    pco_program *program;
    uint32_t segments;
    uint32_t n_buffers, buffer_capacity;
    pco_buffer **buffers;     /* of the plan */
    uint64_t *own_bytes;      /* of each buffer, when this part owns it; else 0 */
    unsigned char *owned;     /* 1: this part destroys it */
    session_buffer **shared;  /* buffers of the session that this part uses */
    uint32_t n_shared;
    uint64_t constant_bytes, state_bytes, arena_bytes, transient_bytes, io_bytes, lower_bound;
} session_part;

/* Makes a part from nodes of `graph` (the tables of part->local, view) and prepares it: propose, plan, upload,
 * prepare. `needed_after` tells for each graph tensor whether a later part or the host reads it. */
pco_status session_part_create(pco_session *session, const pco_graph *graph, session_part *part,
                               const unsigned char *needed_after, pco_error *err) PCO_NODISCARD;
void session_part_destroy(pco_session *session, session_part *part);

#endif
