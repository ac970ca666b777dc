/* Where the device memory of a session goes: by kind, by program, by device.
 *
 * The arenas of a program hold its activations (results of nodes that only later nodes read) and the
 * workspaces that the plugin asked for. One run needs at least the most bytes of both that are alive at one
 * node: the lower bound. Everything is in bytes, with the padding that the device asks for. */
#ifndef PCO_RUNTIME_MEMORY_H
#define PCO_RUNTIME_MEMORY_H

#include "runtime/session.h"

/* Of a session: those that were chosen, and the CPU for what they cannot run. */
enum { PCO_MEMORY_DEVICES = PCO_SET_DEVICES + 1 };

/* One program on one device. Where it has several parts there, these are sums over them. */
typedef struct pco_memory_use {
    const char *device; /* "vulkan:0"; as long as the session */
    uint32_t nodes;
    uint64_t weights, states;    /* that it reads or writes; other programs of the session may share them */
    uint64_t activations;        /* most that are alive at one node */
    uint64_t workspace;          /* most that one node asks for */
    uint64_t arena, lower_bound; /* what the plan takes for both; the least that any plan could take */
    uint64_t unplanned;          /* every activation and workspace in memory of its own */
    uint64_t io;                 /* inputs, run values, outputs, and what goes from device to device */
} pco_memory_use;

/* What a session holds on one device: weights and states once, arenas and io of all programs. */
typedef struct pco_memory_total {
    const char *device;
    uint64_t device_memory; /* what the device has; 0: it does not say */
    uint64_t weights, states, arenas, io;
    uint64_t total; /* of these four; over all devices it is what pco_session_memory tells */
} pco_memory_total;

/* The programs of a session in the order in which they were created; NULL behind the last. */
const pco_executable *pco_session_executable(const pco_session *session, uint32_t index);

/* The name that it was created with, or "". As long as the executable. */
const char *pco_executable_name(const pco_executable *executable);

/* Fills in one entry per device that the program has nodes on; returns how many. */
uint32_t pco_executable_memory(const pco_executable *executable, pco_memory_use uses[PCO_MEMORY_DEVICES]);

/* The same for a session: one entry per open device. */
uint32_t pco_session_totals(const pco_session *session, pco_memory_total totals[PCO_MEMORY_DEVICES]);

#endif
