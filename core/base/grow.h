/* Arrays that get one item after the other. */
#ifndef PCO_BASE_GROW_H
#define PCO_BASE_GROW_H

#include <stdint.h>
#include <stdlib.h>

/* Room for list[count], items of `size` bytes, where there is room for *room (0 and NULL: none). Returns the list,
 * which may have moved; NULL without memory: then it is as before. */
static inline void *pco_grow(void *list, size_t count, size_t *room, size_t size)
{
    if (count < *room) return list;
    if (count > (SIZE_MAX / size - 16) / 2) return NULL;
    const size_t wanted = 2 * count + 16;
    void *grown = realloc(list, wanted * size);
    if (grown) *room = wanted;
    return grown;
}

#endif
