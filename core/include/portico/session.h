/* Sessions: devices that were opened to run graphs (portico/graph.h), with the memory that outlives programs: constants
 * and states. An executable is a graph made ready on a session's devices.
 *
 * The way: pco_context_create (portico/portico.h), pco_session_open, build a graph, pco_executable_create (which checks
 * what the device supports, tests its kernels, plans memory and uploads constants), then write inputs, run, read
 * outputs, again and again. A run allocates nothing and builds nothing.
 *
 *     if (pco_session_open(context, NULL, &session, &err)) ...
 *     if (pco_executable_create(session, graph, NULL, &executable, &err)) ...
 *     const uint32_t x = pco_executable_tensor(executable, "x"), y = pco_executable_tensor(executable, "y");
 *     if (pco_executable_write(executable, x, data, sizeof data, &err)) ...
 *     if (pco_executable_run(executable, &err)) ...
 *     if (pco_executable_read(executable, y, result, sizeof result, &err)) ...
 *
 * Any number of executables live in a session; they share constants of one content, and states of one name. Executables
 * are destroyed before their session is closed, and sessions before their context is destroyed. Where it is the other
 * way round, a line of the log says so; what was left can do nothing any more (INVALID) but be destroyed, and the last
 * of it takes session and context with it.
 *
 * Threads: a context with its sessions and executables is used by one thread at a time, one after the other; different
 * contexts by different threads at once. A call while another thread is in one of the same context is INVALID. A
 * callback may call what its own thread is in. Arguments: `err` may be NULL, and what says so; otherwise NULL is
 * INVALID, or the call does nothing where there is no status. After fork, calls in the child are INVALID (portico.h).
 */
#ifndef PORTICO_SESSION_H
#define PORTICO_SESSION_H

#include <portico/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pco_context pco_context;
typedef struct pco_session pco_session;
typedef struct pco_executable pco_executable;

/* Opens the first device, or set of devices joined with +, of `devices` (as in PORTICO_BACKEND; NULL: what the context
 * says, or the best there is) that works. `devices` may be NULL. Errors: NOT_FOUND, listing the devices there are; what
 * opening returned. */
PCO_EXPORT pco_status pco_session_open(pco_context *context, const char *devices, pco_session **session,
                                       pco_error *err) PCO_NODISCARD;
/* NULL is allowed. */
PCO_EXPORT void pco_session_close(pco_session *session);

/* The device that the session runs on; of several, the first, with the names of all and the sum of their
 * memory. NULL for NULL. */
PCO_EXPORT const pco_device_info *pco_session_device(const pco_session *session);
/* "vulkan:0", "vulkan:0+opencl:0" */
PCO_EXPORT const char *pco_session_device_id(const pco_session *session);

/* Bytes that the session holds on its devices now, and the most that it ever held. `peak` may be NULL. */
PCO_EXPORT uint64_t pco_session_memory(const pco_session *session, uint64_t *peak);

/* Says that data[bytes], which begins at a page, is read-only and outlives the session: constants that lie there are
 * not copied where a device can use them in place. Errors: INVALID where it does not begin at a page;
 * OUT_OF_HOST_MEMORY. */
PCO_EXPORT pco_status pco_session_lend(pco_session *session, const void *data, uint64_t bytes,
                                       pco_error *err) PCO_NODISCARD;

/* `size` must be set; everything else may be 0. */
typedef struct pco_executable_params {
    size_t size;             /* sizeof(pco_executable_params): what this header knows of */
    const char *name;        /* for messages; may be NULL */
    int no_decomposition;    /* 1: refuse instead of decomposing what the device cannot run */
    int force_decomposition; /* 1: decompose every composite op (the twin that tests compare with) */
    int no_self_test;        /* 1: take the device's kernels as they are, whatever PORTICO_SELF_TEST says: for what
                                looks for wrong ones */
    int plan_only;           /* 1: the plan alone, to be inspected and destroyed: nothing is allocated, uploaded or
                                prepared on the device, and it cannot run. Takes kernels untested */
} pco_executable_params;

/* Makes a graph ready. The graph is copied as far as it is needed; constants' data are read during the call,
 * so that a graph can be destroyed afterwards. `params` may be NULL. Errors: the graph's own; UNSUPPORTED, naming the
 * op and why (the self-test's verdict too), with PORTICO_FALLBACK=error; OUT_OF_DEVICE_MEMORY with what was needed;
 * DEVICE_LOST in the self-test, or since an earlier call of this session was told so. */
PCO_EXPORT pco_status pco_executable_create(pco_session *session, const pco_graph *graph,
                                            const pco_executable_params *params, pco_executable **executable,
                                            pco_error *err) PCO_NODISCARD;
/* NULL is allowed. Waits for what still runs. */
PCO_EXPORT void pco_executable_destroy(pco_executable *executable);

/* Tensors are named by their name in the graph. A handle stays valid as long as the executable; PCO_NONE when
 * there is no input, value or output of that name: write and read then say which there are. */
PCO_EXPORT uint32_t pco_executable_tensor(const pco_executable *executable, const char *name);

/* Shape and type of a handle, as long as the executable lives; NULL for no handle. */
PCO_EXPORT const pco_tensor *pco_executable_describe(const pco_executable *executable, uint32_t handle);

/* Writes an input or a run value before a run (contiguous, the tensor's own type; `bytes` must be its size, or less to
 * write only its beginning: the rest stays as it was). Reads an output after a run. Errors: INVALID for a handle of
 * another kind, for more bytes than the tensor has, and for an output before the first run; what the device returned.
 */
PCO_EXPORT pco_status pco_executable_write(pco_executable *executable, uint32_t handle, const void *data,
                                           uint64_t bytes, pco_error *err) PCO_NODISCARD;
PCO_EXPORT pco_status pco_executable_read(pco_executable *executable, uint32_t handle, void *data, uint64_t bytes,
                                          pco_error *err) PCO_NODISCARD;

/* Runs once and waits. Errors: INVALID for an input or run value that was never written; what the device returned. */
PCO_EXPORT pco_status pco_executable_run(pco_executable *executable, pco_error *err) PCO_NODISCARD;

/* Where the host can address the memory of an input, a run value or an output itself: *address, as long as the
 * executable lives, of the tensor's bytes. Between runs they are read and written there instead of by write and read,
 * without a copy. Errors: UNSUPPORTED where the device has memory of its own, or where several parts of the graph read
 * the input. */
PCO_EXPORT pco_status pco_executable_map(pco_executable *executable, uint32_t handle, void **address,
                                         pco_error *err) PCO_NODISCARD;

/* Has runs read an input or run value where it lies, data[bytes] of the host, without a copy, until it is written or
 * lent anew; `data` may be NULL: no longer, and it is written or lent again before the next run. The memory is aligned
 * for its elements, and does not change while a run is under way. Errors: INVALID for a handle of another kind, another
 * size or an odd address; UNSUPPORTED where a device does not read memory of the host, upon which it is as before. */
PCO_EXPORT pco_status pco_executable_lend(pco_executable *executable, uint32_t handle, const void *data, uint64_t bytes,
                                          pco_error *err) PCO_NODISCARD;

/* The same as write and read with tensors of DLPack (dlpack.h of its own; versions before 1.0): of the handle's type
 * and shape, on DLPack's CPU, with any strides. `tensor` stays the caller's. What read makes is the caller's, who calls
 * its deleter; it does not need the executable. Errors: INVALID for another type or shape; UNSUPPORTED for another
 * device. */
struct DLManagedTensor;
PCO_EXPORT pco_status pco_executable_write_dlpack(pco_executable *executable, uint32_t handle,
                                                  const struct DLManagedTensor *tensor, pco_error *err) PCO_NODISCARD;
PCO_EXPORT pco_status pco_executable_read_dlpack(pco_executable *executable, uint32_t handle,
                                                 struct DLManagedTensor **tensor, pco_error *err) PCO_NODISCARD;

/* A run in stretches, so that what is ready can be read while the host does something else: the segments of
 * all parts, counted through. start waits for the stretch before, then starts segments first .. first+count-1
 * and returns, when only the last part that they touch is still running (cpu devices run in the caller's
 * thread). wait ends the stretch. Stretches come in order, from 0 to the last segment, and each is waited for
 * before outputs or states are read. A run that is only to be asynchronous is one stretch: start 0 .. segments - 1,
 * then wait. Errors: as run. */
PCO_EXPORT uint32_t pco_executable_segments(const pco_executable *executable);
PCO_EXPORT pco_status pco_executable_start(pco_executable *executable, uint32_t first, uint32_t count,
                                           pco_error *err) PCO_NODISCARD;
PCO_EXPORT pco_status pco_executable_wait(pco_executable *executable, pco_error *err) PCO_NODISCARD;
/* How many segments, from the first, have run when a state has been written for the last time; 0: it is not
 * written. */
PCO_EXPORT uint32_t pco_executable_until(const pco_executable *executable, const char *state);

/* 1: executables made from now on note how long their nodes take, by the clocks of their devices; 0: no longer. Errors:
 * UNSUPPORTED where a device has no clock. */
PCO_EXPORT pco_status pco_session_profile(pco_session *session, int on, pco_error *err) PCO_NODISCARD;

/* What the nodes took in all runs since profile was switched on, summed; 0: not known, as some were not timed. */
PCO_EXPORT uint64_t pco_session_nanoseconds(const pco_session *session);

/* How long a node took in the last run, by its device's clock. */
typedef struct pco_node_timing {
    size_t size;                    /* sizeof(pco_node_timing), set by the caller in the first of an array */
    const char *node, *op, *device; /* names, as long as the executable lives: nodes may be fused or decomposed */
    uint32_t index;                 /* in the order in which they run */
    uint64_t nanoseconds;
} pco_node_timing;

/* The nodes of the last run, of an executable that was made while pco_session_profile was on: the first `capacity` of
 * them; *count receives how many there are. `timings` may be NULL. Errors: INVALID where nothing was timed. */
PCO_EXPORT pco_status pco_executable_timings(const pco_executable *executable, pco_node_timing *timings,
                                             uint32_t capacity, uint32_t *count, pco_error *err) PCO_NODISCARD;

/* Fills a session's state of that name with zeros (it is created by the first executable that has it). */
PCO_EXPORT pco_status pco_session_clear_state(pco_session *session, const char *name, pco_error *err) PCO_NODISCARD;

/* Writes or reads a whole state (contiguous, its own type; `bytes` must be its size): initial values and
 * checkpoints of what is trained. Errors: NOT_FOUND for a state that no executable has used yet; INVALID for
 * another size. */
PCO_EXPORT pco_status pco_session_write_state(pco_session *session, const char *name, const void *data, uint64_t bytes,
                                              pco_error *err) PCO_NODISCARD;
PCO_EXPORT pco_status pco_session_read_state(pco_session *session, const char *name, void *data, uint64_t bytes,
                                             pco_error *err) PCO_NODISCARD;

/* What an executable is made of. */
typedef struct pco_executable_stats {
    size_t size;                      /* sizeof(pco_executable_stats), set by the caller */
    uint32_t nodes, parts, cpu_nodes; /* nodes after passes; parts; nodes that fell back to the CPU */
    uint32_t decomposed;              /* composite nodes that were replaced by primitives */
    uint64_t constant_bytes, state_bytes, arena_bytes, transient_bytes, io_bytes;
    uint64_t arena_lower_bound; /* most bytes of transients alive at once */
} pco_executable_stats;

/* Fills in as much as stats->size says. Errors: INVALID for a size of 0, or above what the library has. */
PCO_EXPORT pco_status pco_executable_inspect(const pco_executable *executable, pco_executable_stats *stats,
                                             pco_error *err) PCO_NODISCARD;

#ifdef __cplusplus
}
#endif

#endif
