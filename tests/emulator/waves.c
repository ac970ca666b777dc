/* Executes a dispatch: workgroups one after the other, their waves in turn up to each barrier. What an instruction does
 * comes from elsewhere, as a function; what surrounds it is here. Nothing that a GPU leaves undefined is zero. */
#include "dispatch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum {
    WAVES_POISON = 0xc7, /* in all bytes of registers and memory that a kernel has not written: -102287.6 as f32 */
    WAVES_LARGEST_SHARED = 65536,
    WAVES_PARENT_EVERY = 1 << 24, /* instructions between two looks at whether anybody still waits */
};
static const uint64_t WAVES_ENDED = UINT64_MAX; /* counter after s_endpgm */

typedef void waves_function(void *, void *, void *, void *, void *, void *);

typedef struct waves_wave {
    uint32_t *scalars, *vectors, *accumulators;
    uint8_t *scratch;
    int ended;
} waves_wave;

typedef struct waves_state {
    emu_dispatch *dispatch;
    uint32_t n_invocations, n_waves;
    size_t vector_bytes, scratch_bytes;
    waves_wave *waves;
    uint8_t *registers; /* of all waves */
    uint8_t *shared;    /* all 32 bits can address: lanes that are off may hold any address */
    pid_t parent;
} waves_state;

static const uint64_t WAVES_SHARED_ROOM = (UINT64_C(1) << 32) + 4096;

static void waves_close(waves_state *state)
{
    if (state->shared) munmap(state->shared, WAVES_SHARED_ROOM);
    free(state->registers);
    free(state->waves);
}

static emu_end waves_open(waves_state *state, emu_dispatch *dispatch)
{
    *state = (waves_state){.dispatch = dispatch, .parent = getppid()};
    state->n_invocations = dispatch->local[0] * dispatch->local[1] * dispatch->local[2];
    state->n_waves = (state->n_invocations + dispatch->wave_size - 1) / dispatch->wave_size;
    state->vector_bytes = sizeof(uint32_t) * EMU_VECTORS * dispatch->wave_size;
    state->scratch_bytes = ((size_t)dispatch->private * dispatch->wave_size + 15) & ~(size_t)15;
    const size_t scalar_bytes = sizeof dispatch->scalars;
    const size_t each = scalar_bytes + 2 * state->vector_bytes + state->scratch_bytes;
    void *shared =
        mmap(NULL, WAVES_SHARED_ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shared != MAP_FAILED) state->shared = shared;
    state->waves = calloc(state->n_waves, sizeof *state->waves);
    state->registers = malloc(each * state->n_waves);
    if (!state->shared || !state->waves || !state->registers) return EMU_NO_MEMORY;
    for (uint32_t w = 0; w < state->n_waves; w++) {
        uint8_t *at = state->registers + each * w;
        state->waves[w].scalars = (uint32_t *)(void *)at;
        state->waves[w].vectors = (uint32_t *)(void *)(at + scalar_bytes);
        state->waves[w].accumulators = (uint32_t *)(void *)(at + scalar_bytes + state->vector_bytes);
        state->waves[w].scratch = at + scalar_bytes + 2 * state->vector_bytes;
    }
    return EMU_DONE;
}

static uint64_t waves_counter(const waves_state *state, const waves_wave *wave)
{
    const uint32_t *counter = wave->scalars + state->dispatch->program_counter;
    return counter[0] | (uint64_t)counter[1] << 32;
}

static void waves_jump(const waves_state *state, const waves_wave *wave, uint64_t to)
{
    uint32_t *counter = wave->scalars + state->dispatch->program_counter;
    counter[0] = (uint32_t)to;
    counter[1] = (uint32_t)(to >> 32);
}

/* A wave as the hardware starts it: who it is in a few registers, the rest as whoever ran before left it. */
static void waves_begin(const waves_state *state, uint32_t number, const uint32_t group[3])
{
    const emu_dispatch *dispatch = state->dispatch;
    waves_wave *wave = &state->waves[number];
    const uint32_t first = number * dispatch->wave_size;
    memset(wave->vectors, WAVES_POISON, 2 * state->vector_bytes + state->scratch_bytes);
    memcpy(wave->scalars, dispatch->scalars, sizeof dispatch->scalars);
    wave->ended = 0;
    waves_jump(state, wave, dispatch->entry);
    for (int d = 0; d < 3; d++) {
        const uint32_t value = d == 1 && dispatch->group_packed ? group[1] | group[2] << 16 : group[d];
        if (dispatch->group_registers[d]) wave->scalars[dispatch->group_registers[d]] = value;
    }
    uint64_t mask = 0;
    for (uint32_t lane = 0; lane < dispatch->wave_size && first + lane < state->n_invocations; lane++) {
        const uint32_t i = first + lane, x = dispatch->local[0], y = dispatch->local[1];
        wave->vectors[lane] =
            i % x | (dispatch->dimensions > 1 ? i / x % y << 10 : 0) | (dispatch->dimensions > 2 ? i / x / y << 20 : 0);
        mask |= UINT64_C(1) << lane;
    }
    wave->scalars[dispatch->execution_mask] = (uint32_t)mask;
    if (dispatch->wave_size > 32) wave->scalars[dispatch->execution_mask + 1] = (uint32_t)(mask >> 32);
}

/* Up to a barrier or its end. */
static emu_end waves_continue(const waves_state *state, waves_wave *wave)
{
    emu_dispatch *dispatch = state->dispatch;
    void *const buffers[EMU_BUFFERS] = {wave->scalars, wave->vectors, NULL,
                                        state->shared, wave->scratch, wave->accumulators};
    for (;;) {
        const uint64_t counter = waves_counter(state, wave), word = (counter - dispatch->base) / 4;
        if (counter == WAVES_ENDED) {
            wave->ended = 1;
            return EMU_DONE;
        }
        dispatch->counter = counter;
        if (counter < dispatch->base || word >= dispatch->n_words) return EMU_ELSEWHERE;
        const emu_instruction *one = &dispatch->table[word];
        if (!one->code && !one->skipped && !dispatch->resolve(counter)) return EMU_UNKNOWN;
        dispatch->instructions++;
        if (one->skipped) {
            waves_jump(state, wave, counter + one->skipped);
            continue;
        }
        waves_function *function;
        memcpy(&function, &one->code, sizeof function);
        const uint8_t *b = one->buffers; /* a function takes the first few */
        function(buffers[b[0]], buffers[b[1]], buffers[b[2]], buffers[b[3]], buffers[b[4]], buffers[b[5]]);
        if (dispatch->instructions % WAVES_PARENT_EVERY == 0 && getppid() != state->parent) _exit(1);
        if (one->is_barrier) return EMU_DONE;
    }
}

static emu_end waves_group(const waves_state *state, const uint32_t group[3])
{
    emu_end end = EMU_DONE;
    uint32_t left = state->n_waves;
    memset(state->shared, WAVES_POISON, WAVES_LARGEST_SHARED);
    for (uint32_t w = 0; w < state->n_waves; w++) waves_begin(state, w, group);
    while (left && end == EMU_DONE) {
        left = 0;
        for (uint32_t w = 0; w < state->n_waves && end == EMU_DONE; w++) {
            if (!state->waves[w].ended) end = waves_continue(state, &state->waves[w]);
            left += !state->waves[w].ended;
        }
    }
    for (uint32_t i = state->dispatch->shared; i < WAVES_LARGEST_SHARED && end == EMU_DONE; i++)
        if (state->shared[i] != WAVES_POISON) end = EMU_OUT_OF_SHARED;
    return end;
}

/* How this processor treats subnormal numbers, in the kernel's way: 1 flushes them. */
static uint32_t waves_flush(uint32_t flush)
{
#if defined(__x86_64__)
    const uint32_t bits = 0x8040, old = _mm_getcsr(); /* flush to zero, and take subnormals as zero */
    _mm_setcsr(flush ? old | bits : old & ~bits);
    return (old & bits) == bits;
#elif defined(__aarch64__)
    const uint64_t bit = 1u << 24;
    uint64_t old;
    __asm__ volatile("mrs %0, fpcr" : "=r"(old));
    __asm__ volatile("msr fpcr, %0" : : "r"(flush ? old | bit : old & ~bit));
    return (old & bit) != 0;
#else
    return flush;
#endif
}

emu_end emu_execute(emu_dispatch *dispatch)
{
    waves_state state;
    uint32_t group[3];
    emu_end end = waves_open(&state, dispatch);
    const uint32_t old = waves_flush(dispatch->flush);
    for (group[2] = 0; group[2] < dispatch->groups[2]; group[2]++)
        for (group[1] = 0; group[1] < dispatch->groups[1]; group[1]++)
            for (group[0] = 0; group[0] < dispatch->groups[0] && end == EMU_DONE; group[0]++)
                end = waves_group(&state, group);
    waves_flush(old);
    waves_close(&state);
    return end;
}
