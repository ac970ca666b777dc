#include "runtime/memory.h"

#include "runtime/session_internal.h"

_Static_assert((int)PCO_MEMORY_DEVICES == (int)SESSION_SLOTS, "one entry per slot");

const pco_executable *pco_session_executable(const pco_session *session, uint32_t index)
{
    const pco_executable *executable = session->executables;
    while (executable && index-- > 0) executable = executable->next;
    return executable;
}

const char *pco_executable_name(const pco_executable *executable) { return executable->name; }

static void memory_add_part(pco_memory_use *use, const session_part *part)
{
    use->nodes += part->n_nodes;
    use->weights += part->constant_bytes;
    use->states += part->state_bytes;
    use->activations += part->activation_peak;
    use->workspace += part->workspace_peak;
    use->arena += part->arena_bytes;
    use->lower_bound += part->lower_bound;
    use->unplanned += part->transient_bytes + part->workspace_bytes;
    use->io += part->io_bytes;
}

uint32_t pco_executable_memory(const pco_executable *executable, pco_memory_use uses[PCO_MEMORY_DEVICES])
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < SESSION_SLOTS; slot++) {
        pco_memory_use use = {0};
        for (uint32_t p = 0; p < executable->n_parts; p++)
            if (executable->parts[p].slot == slot) memory_add_part(&use, &executable->parts[p]);
        if (use.nodes == 0) continue;
        use.device = executable->session->slots[slot].entry->id;
        uses[count++] = use;
    }
    return count;
}

uint32_t pco_session_totals(const pco_session *session, pco_memory_total totals[PCO_MEMORY_DEVICES])
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < SESSION_SLOTS; slot++) {
        const pco_device_entry *entry = session->slots[slot].entry;
        if (!session->slots[slot].plugin) continue;
        pco_memory_total total = {.device = entry->id, .device_memory = entry->info.memory};
        for (const session_buffer *b = session->buffers; b; b = b->next)
            if (b->slot == slot) *(b->state ? &total.states : &total.weights) += b->bytes;
        for (const pco_executable *e = session->executables; e; e = e->next)
            for (uint32_t p = 0; p < e->n_parts; p++) {
                if (e->parts[p].slot != slot) continue;
                total.arenas += e->parts[p].arena_bytes;
                total.io += e->parts[p].io_bytes;
            }
        total.total = total.weights + total.states + total.arenas + total.io;
        totals[count++] = total;
    }
    return count;
}
