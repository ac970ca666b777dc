/* Experts of folders, each with tensors of its own, as the stacks that the graph asks for. */
#include "models/hub.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t pco_hub_expert(const pco_hub *hub, const char *name, size_t *begin, size_t *end)
{
    const char *found = strstr(name, hub->experts);
    if (!found) return -1;
    *begin = (size_t)(found - name) + strlen(hub->experts);
    const size_t digits = strspn(name + *begin, "0123456789");
    *end = *begin + digits + 1;
    if (digits > 1 && name[*begin] == '0') return -1;
    return digits && digits < 7 && name[*begin + digits] == '.' ? strtoll(name + *begin, NULL, 10) : -1;
}

/* Makes of the tensor of expert 0 the stack of all. Names stay as they are until all is done. */
static pco_status hub_stack(int64_t experts, pco_weights *weights, pco_weight *first, size_t begin, size_t end,
                            pco_error *err)
{
    if (first->rank != 2 || first->dtype < 0)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "tensor '%s' of %s is no matrix of a type that Portico runs",
                        first->name, weights->label);
    const pco_weight like = *first;
    uint64_t bytes;
    char *to = NULL;
    for (int64_t e = 0; e < experts; e++) {
        char *name = NULL;
        if (asprintf(&name, "%.*s%" PRId64 ".%s", (int)begin, like.name, e, like.name + end) < 0) name = NULL;
        const pco_weight *expert = name ? pco_weights_find(weights, name) : NULL;
        const int same = expert && expert->dtype == like.dtype && expert->bytes == like.bytes && expert->rank == 2 &&
                         memcmp(expert->shape, like.shape, 2 * sizeof *like.shape) == 0;
        pco_status status = PCO_OK;
        if (!name || __builtin_mul_overflow(like.bytes, (uint64_t)experts, &bytes))
            status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for experts", weights->label);
        else if (!same)
            status = pco_fail(err, PCO_ERROR_FORMAT, "%s %s '%s'%s", weights->label, expert ? "has" : "has no tensor",
                              name, expert ? " in another type or shape than that of expert 0" : "");
        free(name);
        if (status) return status;
        /* no file has all those experts by saying so */
        if (e + 1 == experts && !(to = pco_weights_allocate(weights, bytes)))
            return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for experts", weights->label);
    }
    for (int64_t e = 0; e < experts; e++) {
        char *name = NULL;
        if (asprintf(&name, "%.*s%" PRId64 ".%s", (int)begin, like.name, e, like.name + end) < 0)
            return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for experts", weights->label);
        memcpy(to + (uint64_t)e * like.bytes, pco_weights_find(weights, name)->data, like.bytes);
        free(name);
    }
    first->rank = 3;
    first->shape[0] = experts;
    first->shape[1] = like.shape[0];
    first->shape[2] = like.shape[1];
    first->bytes = bytes;
    first->data = to;
    return PCO_OK;
}

/* What another expert has, expert 0 has, too: the stack is made of its tensors. */
static pco_status hub_check_twin(pco_weights *weights, const pco_weight *weight, size_t begin, size_t end,
                                 pco_error *err)
{
    char *name = NULL;
    if (asprintf(&name, "%.*s0.%s", (int)begin, weight->name, weight->name + end) < 0)
        return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "%s: no memory for experts", weights->label);
    const int has = pco_weights_find(weights, name) != NULL;
    const pco_status status = has ? PCO_OK
                                  : pco_fail(err, PCO_ERROR_FORMAT, "%s has a tensor '%s' and no '%s' of expert 0",
                                             weights->label, weight->name, name);
    free(name);
    return status;
}

pco_status pco_hub_stack_experts(const pco_hub *hub, int64_t experts, pco_weights *weights, pco_error *err)
{
    size_t begin, end;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < weights->count; i++) {
        const int64_t e = pco_hub_expert(hub, weights->items[i].name, &begin, &end);
        pco_status status = PCO_OK;
        if (e == 0) status = hub_stack(experts, weights, &weights->items[i], begin, end, err);
        if (e > 0) status = hub_check_twin(weights, &weights->items[i], begin, end, err);
        if (status) return status;
    }
    for (uint32_t i = 0; i < weights->count; i++) {
        char *name = weights->items[i].name;
        const int64_t e = pco_hub_expert(hub, name, &begin, &end);
        if (e > 0 && e < experts)
            free(name);
        else
            weights->items[kept++] = weights->items[i];
        if (e == 0) memmove(name + begin, name + end, strlen(name + end) + 1);
    }
    weights->count = kept;
    return pco_weights_index(weights, err);
}
