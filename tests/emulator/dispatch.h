/* Between the two halves of the emulated device: messages from opencl.c to gpu.py, and what gpu.py hands to waves.c.
 * gpu.py repeats these structs with ctypes and struct. */
#ifndef EMU_DISPATCH_H
#define EMU_DISPATCH_H

#include <stdint.h>

#define EMU_VISIBLE __attribute__((visibility("default")))

/* The executor is started with these: a stream socket, and the file that is the device's memory. */
enum { EMU_SOCKET = 3, EMU_MEMORY = 4 };

/* A message is this and `bytes` bytes; so is the answer, whose `kind` is 0, or 1 with a text that says what is wrong.
 */
typedef struct emu_message {
    uint32_t kind, bytes;
} emu_message;

enum {
    EMU_COMPILE = 1, /* options, a zero, OpenCL C -> the code object */
    EMU_LOAD = 2,    /* a code object -> emu_loaded */
    EMU_RUN = 3,     /* emu_run and its arguments -> nothing, when it is done */
};

typedef struct emu_loaded {
    uint32_t program, shared, private;
} emu_loaded;

typedef struct emu_run {
    uint32_t program, groups[3], local[3], n_arguments;
} emu_run;

/* Values follow, with room up to a multiple of 8 bytes. */
typedef struct emu_argument {
    uint64_t bytes;  /* 0: a buffer */
    uint64_t offset; /* of a buffer, in the device's memory */
} emu_argument;

/* ---- waves.c ---- */

enum {
    EMU_BUFFERS = 6, /* what an instruction works on: scalars, vectors, memory, shared memory, scratch, accumulators */
    EMU_SCALARS = 288,
    EMU_VECTORS = 256,
};

/* A machine instruction as a function. */
typedef struct emu_instruction {
    void *code; /* NULL: not met yet */
    uint8_t buffers[EMU_BUFFERS];
    uint8_t is_barrier;
    uint8_t skipped; /* not 0: it does nothing, and is so many bytes long */
} emu_instruction;

typedef enum emu_end {
    EMU_DONE,
    EMU_UNKNOWN,       /* an instruction that resolve() does not know, at `counter` */
    EMU_ELSEWHERE,     /* a jump out of the code, to `counter` */
    EMU_OUT_OF_SHARED, /* a write beyond the shared memory that the kernel declares */
    EMU_NO_MEMORY,
} emu_end;

typedef struct emu_dispatch {
    emu_instruction *table; /* of instruction words, from `base` on */
    uint64_t base, n_words, entry;
    uint32_t groups[3], local[3];
    uint32_t wave_size;
    uint32_t dimensions;           /* of the invocation's number in its group that the kernel asks for */
    uint32_t scalars[EMU_SCALARS]; /* of each wave as it begins, constants among them */
    uint32_t group_registers[3];   /* where the number of the group goes; 0: nowhere */
    uint32_t group_packed;         /* 1: y and z share the second, 16 bits each */
    uint32_t execution_mask, program_counter;
    uint32_t shared, private;             /* bytes of a group, of an invocation */
    uint32_t flush;                       /* 1: subnormal f32 are flushed */
    int32_t (*resolve)(uint64_t counter); /* fills the table's entry; 0: it does not know it */
    uint64_t instructions, counter;       /* results */
} emu_dispatch;

EMU_VISIBLE emu_end emu_execute(emu_dispatch *dispatch);

#endif
