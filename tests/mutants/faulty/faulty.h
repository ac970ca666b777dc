/* A plugin that does what the cpu plugin does, with one fault per device: `faulty:flip`, `faulty:hang` ... It measures
 * the conformance suite (docs/conformance.md) and is never installed. */
#ifndef FAULTY_H
#define FAULTY_H

#include "portico/plugin.h"

#include <stdbool.h>

/* FAULTY(name, words): the device's name, also as an alias, and what is wrong with it. No name is part of another. */
#define FAULTY_LIST \
    FAULTY(sound, "nothing: the control, which must pass") \
    FAULTY(relative, "one element in 10,000 is off by 1e-3 of itself") \
    FAULTY(absolute, "one element in 10,000 is off by 1e-3") \
    FAULTY(flip, "one bit of one element in 20,000 is flipped, always the same") \
    FAULTY(glitch, "one bit of the result is flipped in one run of 50") \
    FAULTY(stale, "the result is that of the previous run of the same size") \
    FAULTY(unsteady, "the lowest bit of the first element follows the number of the run") \
    FAULTY(past, "writes a word behind the result") \
    FAULTY(front, "writes a word before the result") \
    FAULTY(scribble, "changes a byte of an operand") \
    FAULTY(alignment, "declares an alignment of 4 bytes, and rounds offsets down to 64") \
    FAULTY(memory, "declares large allocations, and has no more than 256 KiB for each") \
    FAULTY(accumulator, "declares f32 accumulators, and sums matmul's products in f16") \
    FAULTY(subnormal, "declares that subnormals are kept, and flushes them") \
    FAULTY(rounding, "declares rounding to nearest, and truncates what it writes as bf16") \
    FAULTY(nan, "writes 0 where NaN is due") \
    FAULTY(infinite, "writes the largest number where infinity is due") \
    FAULTY(starved, "every 50th allocation fails") \
    FAULTY(lost, "the device is lost at the 100th submission") \
    FAULTY(reset, "from the 100th submission on nothing is computed, memory is 0, and all is said to be well") \
    FAULTY(hang, "the 100th submission never ends") \
    FAULTY(crash, "the program dies at the 100th submission") \
    FAULTY(early, "says that a node has run before its segments have") \
    FAULTY(beyond, "says that a node needs one segment more than there are") \
    FAULTY(terms, "the program dies at a product of 64 terms") \
    FAULTY(uncompiled, "the compiler refuses softmax") \
    FAULTY(compiler, "the program dies in the compiler, over softmax") \
    FAULTY(dead, "the program dies when the device is opened") \
    FAULTY(zero, "every result is 0") \
    FAULTY(nothing, "supports nothing") \
    FAULTY(idle, "softmax is not run, and said to be well") \
    FAULTY(undefined, "exp is NaN where it is above 1e27") \
    FAULTY(masked, "where: 2x + 7 for every finite value of a result that holds an infinity") \
    FAULTY(matvec, "a matrix-vector product is 2 % too large") \
    FAULTY(tail, "what is behind the last multiple of 4 elements is not written") \
    FAULTY(patch, "the last row is 0 where there are more than 16") \
    FAULTY(saturated, "numbers above 2048 are written as 2048") \
    FAULTY(inplace, "a result in the memory of an operand is not written") \
    FAULTY(late, "results are there only when the next run has begun") \
    FAULTY(empty, "says that there is nothing to run") \
    FAULTY(signless, "the sign of zero is lost") \
    FAULTY(batch, "rows behind the first are one unit in the last place larger") \
    FAULTY(half, "operands in f32 are rounded to f16 before they are used") \
    FAULTY(once, "a program computes when it is first run; later its result is left as it lies") \
    FAULTY(cached, "a program gives its first result again, whatever its operands hold by then") \
    FAULTY(pointer, "results are kept by where the first operand lies, and given again") \
    FAULTY(prefix, "results are kept by the first 64 bytes of each operand, and given again") \
    FAULTY(sampled, "every fourth row is computed, and stands in those behind it") \
    FAULTY(spill, "the last row is written once more 1 KiB behind itself") \
    FAULTY(address, "the lowest bit of the first element follows where the result lies") \
    FAULTY(neighbour, "the last element is at least as large as the number behind the first operand") \
    FAULTY(threads, "the lowest bit of the first element follows the number of threads") \
    FAULTY(twentieth, "one bit of the result is flipped in one run of 20") \
    FAULTY(disturbed, "the lowest bit of the first element follows which other program ran last") \
    FAULTY(hole, "the last element is at least as large as what memory held that was given back between others") \
    FAULTY(wide, "the last element is 0 where reads of four numbers go behind the first operand's buffer")

typedef enum faulty_id {
#define FAULTY(name, words) FAULTY_##name,
    FAULTY_LIST
#undef FAULTY
        FAULTY_COUNT
} faulty_id;

/* A tensor of a node, where the plan put it. */
typedef struct faulty_tensor {
    pco_buffer *buffer; /* NULL: none, or no elements */
    uint64_t offset, bytes, count;
    uint32_t dtype, rank;
    int64_t shape[PCO_MAX_RANK];
} faulty_tensor;

typedef struct faulty_node {
    uint32_t op, n_inputs, n_outputs;
    faulty_tensor in[PCO_MAX_INPUTS], out[PCO_MAX_OUTPUTS];
    bool in_place; /* output 0 lies where an input lies */
    _Alignas(8) unsigned char attrs[256];
} faulty_node;

struct pco_backend {
    const pco_host *host;
    const pco_plugin *plugin; /* the wrapped one */
    pco_backend *inner;
    uint32_t index; /* of the wrapped device */
};

struct pco_buffer {
    pco_buffer *inner;
    uint64_t bytes;
    pco_buffer *before, *behind; /* the one made before it and the one made after it, of those that are alive */
    void *old;                   /* what its memory held before; NULL: nothing that is known */
};

/* A result that is given again, or what a buffer held that was given back. */
typedef struct faulty_entry {
    uint64_t key, bytes;
    void *data;
} faulty_entry;
enum { FAULTY_ENTRIES = 256 };

struct pco_device {
    const pco_host *host;
    const pco_plugin *plugin;
    pco_device *inner;
    faulty_id fault;
    uint64_t runs, allocations, programs;
    uint64_t last, other; /* programs: that ran last, and that ran before its runs; 0: none */
    bool disturbed;       /* `other` is another than before the first run of the program that runs */
    void *kept;           /* the result of an earlier run, and where it belongs */
    uint64_t kept_bytes, kept_offset;
    pco_buffer *kept_for;
    unsigned char *operands[PCO_MAX_INPUTS]; /* as they were before they were rounded */
    faulty_entry *entries;                   /* kept.c */
    pco_buffer *newest;                      /* the buffer that was made last, of those that are alive */
    int inspected;                           /* what describe says: of the last launch */
    char kernel[32];
    pco_code_figure figures[2];
    pco_machine_code code;
};

struct pco_program {
    pco_program *inner;
    uint32_t n_nodes, segments;
    uint64_t runs, number, other; /* other: that of the device at the first run */
    faulty_node *nodes;
    faulty_id fault;
    const pco_program_api *api; /* of the plugin that is wrapped */
};

/* ---- kept.c ---- */

/* Output 0 of a node that has just run: its bytes become those that were kept under the same key, or are kept. Which
 * key, is the fault's choice. */
pco_status faulty_remember(pco_device *device, const struct pco_program *program, const faulty_node *node,
                           pco_error *err) PCO_NODISCARD;
void faulty_forget(pco_device *device);

/* With the fault `hole`: a buffer between two that are alive leaves what it holds, when it is given back, to the next
 * one that has its size; nothing is left any more once one is given back that is not between two. */
void faulty_leave(pco_device *device, const pco_buffer *buffer);
void faulty_inherit(pco_device *device, pco_buffer *buffer);

/* ---- effects.c ---- */

/* With the fault `half`: rounds the operands in f32 to f16 before the run, and puts them back behind it. */
pco_status faulty_round(pco_device *device, const faulty_node *node, pco_error *err) PCO_NODISCARD;
pco_status faulty_restore(pco_device *device, const faulty_node *node, pco_error *err) PCO_NODISCARD;

/* Spoils the results of a node that has just run. `before`: the bytes of output 0 before the run. */
pco_status faulty_spoil(pco_device *device, const faulty_node *node, const void *before, pco_error *err) PCO_NODISCARD;

#endif
