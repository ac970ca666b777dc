/* A trial: one node alone, or a few, run on a device in memory of its own, without a session. This is how the self-test
 * compares kernels, how the conformance suite judges them, and how `bench op --variant` times them. The caller says
 * which node with which operands, and judges what comes back; this side speaks with the plugin:
 *
 *     pco_trial trial = pco_trial_of(&on, &part);          the part stays the caller's
 *     pco_trial_variants, part.nodes[i].variant = ...      if not the plugin's own choice
 *     pco_trial_propose, pco_trial_convert                 what it wants; constants in its layouts
 *     pco_trial_lay_out, pco_trial_share                   where everything lies
 *     pco_trial_memory_create, pco_trial_prepare           buffers, program
 *     pco_trial_memory_write, pco_trial_run, pco_trial_memory_read     as often as wanted
 *     pco_trial_memory_check, pco_trial_memory_check_rest, pco_trial_memory_result
 *     program->destroy, pco_trial_memory_destroy, pco_trial_clear
 *
 * Functions that fail return what the plugin returned, or OUT_OF_HOST_MEMORY, unless they say otherwise. */
#ifndef PCO_RUNTIME_TRIAL_H
#define PCO_RUNTIME_TRIAL_H

#include "runtime/variant.h"

enum {
    PCO_TRIAL_NODES = 4,
    PCO_TRIAL_TENSORS = PCO_MAX_INPUTS + PCO_MAX_OUTPUTS + PCO_TRIAL_NODES,
    PCO_TRIAL_REGIONS = PCO_TRIAL_TENSORS + PCO_TRIAL_NODES,
};

typedef struct pco_trial {
    pco_open_device on;
    pco_part part;  /* at most PCO_TRIAL_NODES nodes and PCO_TRIAL_TENSORS tensors */
    int says_steps; /* messages begin with what was being done: "prepare: ..." */
    pco_node_proposal nodes[PCO_TRIAL_NODES];
    pco_tensor_proposal tensors[PCO_TRIAL_TENSORS];
    void *converted[PCO_TRIAL_TENSORS]; /* constants that the plugin wants in a layout of its own, else NULL */
} pco_trial;

pco_trial pco_trial_of(const pco_open_device *on, const pco_part *part);
void pco_trial_clear(pco_trial *trial);

/* Can the device run all nodes? Errors: UNSUPPORTED, and why. */
pco_status pco_trial_supports(const pco_trial *trial, pco_error *err) PCO_NODISCARD;
/* The variants of node 0 (pco_variants). */
pco_status pco_trial_variants(const pco_trial *trial, pco_variant variants[PCO_VARIANTS], uint32_t *count,
                              pco_error *err) PCO_NODISCARD;
/* Numbers of the code that node 0 would run (plugin.h: pipelines), at most `capacity`; returns how many: 0 where the
 * plugin does not tell, or cannot run it. */
uint32_t pco_trial_pipelines(const pco_trial *trial, uint64_t *pipelines, uint32_t capacity);

/* Asks what the plugin wants, and looks at the answer (pco_proposal_check). */
pco_status pco_trial_propose(pco_trial *trial, pco_error *err) PCO_NODISCARD;
/* Converts constants as was proposed. Errors: INTERNAL when more is written than was proposed. */
pco_status pco_trial_convert(pco_trial *trial, pco_error *err) PCO_NODISCARD;

/* ---- memory ---- */

/* Where regions lie and what lies around them. All zero: each in a buffer of its own, without anything around. */
typedef struct pco_trial_placement {
    int single;         /* one buffer for all */
    int odd_or_even;    /* region r begins at an odd multiple of its alignment where bit r mod 32 of `odd` is set, */
    uint32_t odd;       /* else at an even one */
    uint32_t shift;     /* regions begin so many times their alignment later */
    uint32_t alignment; /* at least; 0: as proposed */
    uint32_t guard;     /* bytes in front of each region, and behind it */
    int last;           /* nothing behind it: with buffers of their own, regions end where their buffers do */
    int recycled;       /* memory that held other data, behind allocations that are still alive */
    uint8_t around[4];  /* the word that guards and results hold at first */
} pco_trial_placement;

typedef struct pco_trial_region {
    uint32_t buffer;
    uint32_t shares;        /* PCO_NONE, or the region, before this one, whose memory this one is */
    int written;            /* by the device: outputs, transients, states, workspaces */
    uint64_t offset, bytes; /* bytes = 0: no memory */
    uint64_t alignment;
    const void *data; /* contents before the run; NULL: the word around */
    uint64_t data_bytes;
} pco_trial_region;

typedef struct pco_trial_memory {
    const pco_trial *trial;
    pco_trial_placement placement;
    uint32_t n_regions, n_buffers;
    pco_trial_region regions[PCO_TRIAL_REGIONS]; /* by tensor, then the workspaces by node */
    pco_buffer *alive[2 * PCO_TRIAL_REGIONS];    /* others, which hold numbers */
    pco_buffer *buffers[PCO_TRIAL_REGIONS];
    uint64_t sizes[PCO_TRIAL_REGIONS];
    uint8_t *image, *after; /* all buffers, one behind the other: before the first run, and as last read */
    uint64_t starts[PCO_TRIAL_REGIONS];
    uint64_t total;
    int read; /* `after` holds what the last run left */
} pco_trial_memory;

/* Regions for all tensors and workspaces, as was proposed; tensors with an alias share its memory. data[t]: what tensor
 * t holds at first, in the layout of files (borrowed), or NULL. Before pco_trial_memory_create the caller may change
 * what it likes. */
void pco_trial_lay_out(const pco_trial *trial, const pco_trial_placement *placement, const void *const *data,
                       pco_trial_memory *memory);
/* Region `one` in the memory of `owner`, a region before it, which becomes as large and as much written to. */
void pco_trial_share(pco_trial_memory *memory, uint32_t one, uint32_t owner);
/* The operand of node 0 in whose memory output 0 may lie, as was proposed, if it is of kind INPUT, as large, and not
 * read at another place; PCO_NONE: none. */
uint32_t pco_trial_giver(const pco_trial *trial);

/* Gives the regions their places and creates the buffers. Destroy it also after an error. Errors: UNSUPPORTED when one
 * buffer would be larger than the device allows. */
pco_status pco_trial_memory_create(pco_trial_memory *memory, pco_error *err) PCO_NODISCARD;
void pco_trial_memory_destroy(pco_trial_memory *memory);
/* Writes all: the state before the first run. */
pco_status pco_trial_memory_write(pco_trial_memory *memory, pco_error *err) PCO_NODISCARD;
/* Between runs: what is both operand and result gets its first contents back. */
pco_status pco_trial_memory_restore(pco_trial_memory *memory, pco_error *err) PCO_NODISCARD;
/* And zeros where the device writes, but not to operands. */
pco_status pco_trial_memory_zero(pco_trial_memory *memory, pco_error *err) PCO_NODISCARD;
/* Reads all back. */
pco_status pco_trial_memory_read(pco_trial_memory *memory, pco_error *err) PCO_NODISCARD;
/* Did nothing change outside of written regions since the first run? Errors: INTERNAL, saying where. */
pco_status pco_trial_memory_check(const pco_trial_memory *memory, pco_error *err) PCO_NODISCARD;
/* Behind the last element of a result there are zeros, or what was there before the first run: a word that holds less
 * than it could is no place for what belongs elsewhere. Errors: INTERNAL, saying where. */
pco_status pco_trial_memory_check_rest(const pco_trial_memory *memory, pco_error *err) PCO_NODISCARD;
/* What a region held when it was read. */
const void *pco_trial_memory_result(const pco_trial_memory *memory, uint32_t region);

/* ---- running ---- */

pco_status pco_trial_prepare(const pco_trial *trial, const pco_trial_memory *memory, pco_program **program,
                             pco_error *err) PCO_NODISCARD;
/* The same for a caller with buffers and places of its own. */
pco_status pco_trial_prepare_plan(const pco_trial *trial, const pco_plan *plan, pco_program **program,
                                  pco_error *err) PCO_NODISCARD;
/* Submits the first `segments` segments and waits, `nanoseconds` at most. */
pco_status pco_trial_run(const pco_trial *trial, pco_program *program, uint32_t segments, uint64_t nanoseconds,
                         pco_error *err) PCO_NODISCARD;
/* What the nodes took in the last run, by the device's clock, of a program that was prepared under its `profile`; 0:
 * not known. */
uint64_t pco_trial_nanoseconds(const pco_trial *trial, pco_program *program);

#endif
