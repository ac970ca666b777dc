/* What session.c, part.c and executable.c know of each other. */
#ifndef PCO_RUNTIME_SESSION_INTERNAL_H
#define PCO_RUNTIME_SESSION_INTERNAL_H

#include "base/error.h"
#include "runtime/session.h"

/* What the functions of portico/session.h begin with. */
#define SESSION_NEEDS(session) \
    PCO_NEEDS(session); \
    PCO_ENTER((session)->registry); \
    if ((session)->closed) return pco_fail(err, PCO_ERROR_INVALID, "%s: the session was closed", __func__)
#define EXECUTABLE_NEEDS(executable) \
    PCO_NEEDS(executable); \
    PCO_ENTER((executable)->session->registry); \
    if ((executable)->session->closed) return pco_fail(err, PCO_ERROR_INVALID, "%s: its session was closed", __func__)

/* Slots 0 .. n_devices - 1: the session's devices; SESSION_CPU: the CPU, for what they cannot run. */
enum { SESSION_CPU = PCO_SET_DEVICES, SESSION_SLOTS };

/* An open device. */
typedef struct session_slot {
    const pco_plugin *plugin; /* NULL: not opened */
    pco_device *device;
    const pco_device_entry *entry;
    uint32_t live; /* buffers on it */
    int lost;      /* it has said DEVICE_LOST, and holds something */
} session_slot;

/* Device memory that several executables use: constants that were uploaded together, or a state. */
typedef struct session_buffer {
    struct session_buffer *next;
    uint32_t slot;
    int held;       /* one of the users is pco_session_hold_constants */
    uint32_t users; /* executables; a buffer of constants goes with its last user */
    pco_buffer *buffer;
    uint64_t bytes;
    uint64_t content;              /* of a state: bytes of the tensor, before rounding up */
    char *state;                   /* name of the state, or NULL */
    const unsigned char *imported; /* constants in memory of the host: where it begins, or NULL */
    uint32_t dtype, rank;
    int64_t shape[PCO_MAX_RANK];
} session_buffer;

/* Where a constant lies; known by name, address, size, and content when it is small. */
typedef struct session_constant {
    struct session_constant *next;
    session_buffer *buffer;
    uint64_t offset, bytes, key;
    char *name; /* of constants that were made one: all of theirs */
    const unsigned char *data;
    uint64_t data_bytes;
    void *content; /* of a small one: a copy, compared when the keys agree */
    uint32_t layout;
} session_constant;

/* Memory of the host that outlives the session. */
typedef struct session_lent {
    struct session_lent *next;
    const unsigned char *data;
    uint64_t bytes;
    uint32_t refused; /* bit i: the device of slot i does not import it */
} session_lent;

/* A unit of the graphs of a session, and the device that has it (assign.c). */
typedef struct session_unit {
    struct session_unit *next;
    char *name;
    uint32_t slot;
} session_unit;

struct pco_session {
    pco_registry *registry;
    pco_executable *executables; /* in the order in which they were created */
    uint32_t holders;            /* trainings and others that keep it */
    int closed;                  /* 1: pco_session_close was called, which the last of these does */
    uint32_t n_devices;
    session_slot slots[SESSION_SLOTS];
    pco_device_entry whole; /* all devices as one */
    session_unit *units;
    session_buffer *buffers;
    session_constant *constants;
    session_lent *lent;
    uint64_t bytes, peak;
    int profiling;             /* 1: what nodes take is summed ... */
    uint64_t nanoseconds;      /* ... here; UINT64_MAX: some were not timed */
    unsigned char warned[256]; /* op number: its fallback has been said, 1 unsupported, 2 failed the self-test */
    uint32_t warned_own[64];   /* the same of ops that are no rows of the table: number and reason in one; 0: free */
    struct session_selftest *selftest; /* NULL: nothing was tested yet */
};

/* Opens a device of the registry in a slot that has none. Errors: DEVICE_LOST where its driver ended a process in the
 * self-test before. */
pco_status session_open_slot(pco_session *session, uint32_t slot, uint32_t device, pco_error *err) PCO_NODISCARD;
void session_close_slots(pco_session *session);

/* Opens SESSION_CPU if it is not yet. */
pco_status session_open_cpu(pco_session *session, pco_error *err) PCO_NODISCARD;

/* Can the device of a slot run a node? `why` says why not. */
int session_supports(pco_session *session, uint32_t slot, const pco_graph *graph, uint32_t node, pco_error *why);

/* Closes a device on which nothing is left, and opens it again. */
pco_status session_reopen(pco_session *session, uint32_t slot, pco_error *err) PCO_NODISCARD;

/* Notes a status that the device of a slot returned, and returns it. */
pco_status session_noted(pco_session *session, uint32_t slot, pco_status status);

/* Creates and destroys device buffers, counted. */
pco_status session_buffer_create(pco_session *session, uint32_t slot, uint64_t bytes, uint32_t usage,
                                 pco_buffer **buffer, pco_error *err) PCO_NODISCARD;
void session_buffer_destroy(pco_session *session, uint32_t slot, pco_buffer *buffer, uint64_t bytes);

/* The state of a tensor (of kind STATE) on a slot, created zeroed when it is new. Errors: INVALID when a state of
 * that name has another shape. */
pco_status session_state(pco_session *session, uint32_t slot, const pco_tensor *tensor, session_buffer **state,
                         pco_error *err) PCO_NODISCARD;

/* Is a constant on the device already, as `want` says, with `bytes` of room? Where it lies, then. In the layout of
 * files, constants that lie one behind the other are found in one that was made of them, and that one in them. */
int session_find_constant(pco_session *session, uint32_t slot, const pco_tensor *tensor,
                          const pco_tensor_proposal *want, uint64_t bytes, session_buffer **buffer, uint64_t *offset);

/* A constant in lent memory that the device of a slot can use where it is: the buffer around it, with one use more, and
 * its offset there; NULL where it has to be copied. Its bytes count as held, like those of a copy. */
session_buffer *session_import(pco_session *session, uint32_t slot, const pco_tensor *tensor, uint32_t alignment,
                               uint64_t room, uint64_t *offset);

/* Keeps a constant that has been uploaded or imported. */
pco_status session_keep_constant(pco_session *session, session_buffer *buffer, const pco_tensor *tensor,
                                 uint32_t layout, uint64_t offset, uint64_t bytes, pco_error *err) PCO_NODISCARD;

/* The slot of a state that exists, or PCO_NONE. */
uint32_t session_state_slot(const pco_session *session, const char *name);

/* Gives up one use of a shared buffer; constants without users are destroyed. */
void session_unuse(pco_session *session, session_buffer *buffer);

/* assign.c: which slot should run which node of a graph, slots[n_nodes], by where they stand in it. */
pco_status session_assign(pco_session *session, const pco_graph *graph, uint32_t *slots, pco_error *err) PCO_NODISCARD;

/* Which slot does: the wanted ones as far as their devices can run the node and its kernels pass the self-test (unless
 * no_self_test is given), else another of the session's, else the CPU; with the last a line of the log, or an error, as
 * PORTICO_FALLBACK says. *cpu_nodes receives how many went there. */
pco_status session_choose(pco_session *session, pco_graph *graph, uint32_t *slots, int no_self_test,
                          uint32_t *cpu_nodes, pco_error *err) PCO_NODISCARD;

/* One part of an executable: consecutive nodes on one slot. */
typedef struct part_link {
    uint32_t tensor; /* of the executable's graph */
    uint32_t local;  /* of the part */
} part_link;

typedef struct session_part {
    uint32_t slot;
    int plan_only;                /* nothing on the device: its buffers are NULL */
    uint32_t first_node, n_nodes; /* of the executable's graph */
    uint32_t *local;              /* graph tensor -> part tensor, or PCO_NONE */
    pco_part view;
    pco_tensor *tensors; /* view.tensors */
    pco_node *nodes;     /* view.nodes */
    pco_node_proposal *node_proposals;
    pco_tensor_proposal *tensor_proposals;
    pco_place *places, *workspaces;
    uint64_t *view_offsets; /* of a slice that is a piece of its operand (its alias): where it begins there; else 0 */
    unsigned char *viewed;  /* 1: slices lie in the memory of this tensor, which owns it */
    pco_program *program;
    uint32_t segments;
    uint32_t n_buffers, buffer_capacity;
    pco_buffer **buffers;    /* of the plan */
    uint64_t *own_bytes;     /* of each buffer, when this part owns it; else 0 */
    unsigned char *owned;    /* 1: this part destroys it */
    session_buffer **shared; /* buffers of the session that this part uses */
    uint32_t n_shared;
    uint64_t constant_bytes, state_bytes, arena_bytes, transient_bytes, io_bytes, lower_bound;
    uint64_t activation_peak, workspace_peak, workspace_bytes; /* most at one node, twice; all workspaces */
} session_part;

/* A tensor that goes from one part to another: on the device that has both, between one device and memory of the other
 * that the host can address, or over the host's staging memory. */
typedef struct executable_copy {
    uint32_t from_part, from, to_part, to;
    uint64_t bytes;
    int on_device;
    unsigned char *from_address, *to_address; /* where the host finds it, or NULL */
} executable_copy;

enum { EXECUTABLE_LENT = 2 };

struct pco_executable {
    pco_session *session;
    pco_executable *next; /* of the session */
    char *name;
    pco_graph *graph; /* as it runs */
    uint32_t *slots;  /* of its nodes */
    uint32_t n_parts;
    session_part *parts;
    uint32_t n_copies, copy_capacity;
    executable_copy *copies;
    void *staging;
    uint64_t staging_bytes;
    uint32_t cpu_nodes, decomposed;
    unsigned char *given; /* of each tensor: 0: an input or run value that parts read, and nobody has written yet;
                             EXECUTABLE_LENT: it lies in the caller's memory */
    uint32_t n_missing;   /* how many are 0 */
    int ran;              /* 1: a run was started */
    int running;          /* 1: segments of running_part were submitted, and not waited for */
    uint32_t running_part;
    uint64_t ticket;
};

/* Makes a part from nodes of `graph` (the tables of part->local, view) and prepares it: propose, plan, upload,
 * prepare. `needed_after` tells for each graph tensor whether a later part or the host reads it. */
pco_status session_part_create(pco_session *session, const pco_graph *graph, session_part *part,
                               const unsigned char *needed_after, pco_error *err) PCO_NODISCARD;
/* Is the handle an input or a run value (output 0), or an output, of at least so many bytes? Errors: INVALID. */
pco_status executable_check(const pco_executable *executable, uint32_t handle, uint64_t bytes, int output,
                            pco_error *err) PCO_NODISCARD;

/* An input or run value has been written, or the host was told where it lies. */
void executable_give(pco_executable *executable, uint32_t handle);
/* Tells the parts that read the input where it lies: in memory that was lent; NULL: in its place. */
void executable_move(pco_executable *executable, uint32_t handle, const void *data);
/* It is no longer read in memory that was lent, but in its place: before it is written there. */
void executable_take_back(pco_executable *executable, uint32_t handle);

void session_part_destroy(pco_session *session, session_part *part);

#endif
