/* Shapes of operands, and how many elements lie where. */
#include "cpu.h"

#include <string.h>

bool cpu_same_shape(const cpu_tensor *a, const cpu_tensor *b)
{
    return a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) == 0;
}

int64_t cpu_product(const int64_t *shape, int from, int to)
{
    int64_t product = 1;
    for (int i = from; i < to; i++) product *= shape[i];
    return product;
}

cpu_axis cpu_split(const cpu_tensor *x, int64_t axis)
{
    return (cpu_axis){.outer = cpu_product(x->shape, 0, (int)axis),
                      .n = x->shape[axis],
                      .inner = cpu_product(x->shape, (int)axis + 1, (int)x->rank)};
}
