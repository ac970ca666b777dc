#include "philox.h"
#include "run.h"

static void cpu_random_slice(void *task, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const cpu_node *node = task;
    cpu_philox philox = cpu_philox_of(&node->in[0], &node->in[1], node->attrs.random_bits.stream);
    uint32_t *y = (uint32_t *)(void *)node->out[0].data;
    for (int64_t i = begin; i < end; i++) y[i] = cpu_philox_word(&philox, i);
}

static CPU_RUN(random_bits) { cpu_parallel(node, node->out[0].count, cpu_grain(16), cpu_random_slice); }

CPU_OP(RANDOM_BITS, nothing, 0, PLAIN(random_bits), PLAIN(random_bits))
