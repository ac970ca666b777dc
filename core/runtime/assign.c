/* Which device runs which node.
 *
 * Where a session has several devices, the nodes of a graph are parted into units: nodes with the same scope
 * in front of their name ("blk.3"), as models give one to each layer. A unit stays on one device for the
 * whole session, in every graph that has it, so that the programs for a prompt and for one token share
 * weights and caches: new units are dealt out in their order, so that each device gets a contiguous share of
 * their weights in proportion to its memory (equal shares where a memory is unknown), and a unit that uses a
 * state that exists goes to where that is. */
#include "runtime/session_internal.h"

#include "base/error.h"
#include "runtime/selftest.h"

#include <stdlib.h>
#include <string.h>

static pco_status assign_no_memory(pco_error *err)
{
    return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for assigning nodes to devices");
}

/* ---- units ---- */

typedef struct assign_unit {
    const char *name; /* of its first node */
    size_t length;    /* of the scope */
    double weight;    /* bytes of constants that no unit before has */
    uint32_t slot;    /* PCO_NONE: not known yet */
} assign_unit;

/* Length of a node's scope: what stands in front of the last full stop, 0 without one. */
static size_t assign_scope(const char *name)
{
    const char *stop = strrchr(name, '.');
    return stop ? (size_t)(stop - name) : 0;
}

/* The unit of each node; a node without a scope (a decomposition makes such) belongs to that of the one
 * before it. Returns how many units there are. */
static uint32_t assign_units(const pco_graph *graph, assign_unit *units, uint32_t *unit_of)
{
    uint32_t count = 0, last = PCO_NONE;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const char *name = graph->nodes[i].name;
        const size_t length = assign_scope(name);
        uint32_t u = 0;
        if (length == 0 && last != PCO_NONE) {
            u = last;
        } else {
            while (u < count && (units[u].length != length || strncmp(units[u].name, name, length) != 0)) u++;
            if (u == count) units[count++] = (assign_unit){.name = name, .length = length, .slot = PCO_NONE};
        }
        unit_of[i] = last = u;
    }
    return count;
}

static session_unit *assign_find(const pco_session *session, const assign_unit *unit)
{
    for (session_unit *known = session->units; known; known = known->next)
        if (strlen(known->name) == unit->length && strncmp(known->name, unit->name, unit->length) == 0) return known;
    return NULL;
}

static pco_status assign_remember(pco_session *session, const assign_unit *unit, pco_error *err)
{
    session_unit *known = calloc(1, sizeof *known);
    if (!known || !(known->name = strndup(unit->name, unit->length))) {
        free(known);
        return assign_no_memory(err);
    }
    known->slot = unit->slot;
    known->next = session->units;
    session->units = known;
    return PCO_OK;
}

/* ---- dealing out ---- */

/* Weights of the units, and the units that a state or an earlier graph ties to a device. */
static void assign_weigh(const pco_session *session, const pco_graph *graph, assign_unit *units, uint32_t count,
                         const uint32_t *unit_of, unsigned char *seen)
{
    for (uint32_t u = 0; u < count; u++) {
        const session_unit *known = assign_find(session, &units[u]);
        if (known) units[u].slot = known->slot;
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        assign_unit *unit = &units[unit_of[i]];
        unit->weight += 1; /* a unit without constants has some work too */
        for (uint32_t k = 0; k < graph->nodes[i].n_inputs; k++) {
            const uint32_t t = graph->nodes[i].inputs[k];
            if (t == PCO_NONE) continue;
            const pco_tensor *x = &graph->tensors[t];
            if (x->kind == PCO_KIND_STATE && unit->slot == PCO_NONE) {
                const uint32_t slot = session_state_slot(session, x->name);
                if (slot != PCO_NONE && slot < session->n_devices) unit->slot = slot;
            }
            if (x->kind == PCO_KIND_CONSTANT && !seen[t]) unit->weight += (double)x->bytes;
            seen[t] = 1;
        }
    }
}

/* The device in whose share the point `at` of 0..1 lies. */
static uint32_t assign_share(const pco_session *session, double at)
{
    double memory[PCO_SET_DEVICES], total = 0, upto = 0;
    int unknown = 0;
    for (uint32_t i = 0; i < session->n_devices; i++) unknown |= session->slots[i].entry->info.memory == 0;
    for (uint32_t i = 0; i < session->n_devices; i++) {
        memory[i] = unknown ? 1 : (double)session->slots[i].entry->info.memory;
        total += memory[i];
    }
    for (uint32_t i = 0; i + 1 < session->n_devices; i++) {
        upto += memory[i] / total;
        if (at < upto) return i;
    }
    return session->n_devices - 1;
}

static pco_status assign_deal(pco_session *session, assign_unit *units, uint32_t count, pco_error *err)
{
    double total = 0, before = 0;
    pco_status status = PCO_OK;
    for (uint32_t u = 0; u < count; u++) total += units[u].weight;
    for (uint32_t u = 0; !status && u < count; u++) {
        if (units[u].slot == PCO_NONE) units[u].slot = assign_share(session, (before + units[u].weight / 2) / total);
        before += units[u].weight;
        if (!assign_find(session, &units[u])) status = assign_remember(session, &units[u], err);
    }
    return status;
}

pco_status session_assign(pco_session *session, const pco_graph *graph, uint32_t *slots, pco_error *err)
{
    for (uint32_t i = 0; i < graph->n_nodes; i++) slots[i] = 0;
    if (session->n_devices == 1) return PCO_OK;
    assign_unit *units = calloc(graph->n_nodes + 1, sizeof *units);
    unsigned char *seen = calloc(graph->n_tensors + 1, 1);
    pco_status status = units && seen ? PCO_OK : assign_no_memory(err);
    if (!status) {
        const uint32_t count = assign_units(graph, units, slots);
        assign_weigh(session, graph, units, count, slots, seen);
        status = assign_deal(session, units, count, err);
        for (uint32_t i = 0; !status && i < graph->n_nodes; i++) slots[i] = units[slots[i]].slot;
    }
    free(units);
    free(seen);
    return status;
}

/* ---- choosing ---- */

/* Is it the first time that this op falls back for this reason? */
static int assign_is_news(pco_session *session, uint32_t op, unsigned reason)
{
    if (op < sizeof session->warned) {
        const int news = !(session->warned[op] & reason);
        session->warned[op] |= (unsigned char)reason;
        return news;
    }
    const uint32_t key = op << 2 | reason; /* bit 30 says own, and is the same for all */
    for (size_t i = 0; i < sizeof session->warned_own / sizeof *session->warned_own; i++) {
        if (session->warned_own[i] == key) return 0;
        if (session->warned_own[i]) continue;
        session->warned_own[i] = key;
        return 1;
    }
    return 1;
}

/* What happens to a node that no device can run: an error, or the CPU with a word about it. reason: 1 it is
 * not supported, 2 it failed the self-test. */
static pco_status assign_fallback(pco_session *session, const pco_graph *graph, uint32_t i, unsigned reason,
                                  const pco_error *why, pco_error *err)
{
    const pco_config *config = pco_registry_config(session->registry);
    const pco_node *node = &graph->nodes[i];
    const char *op = pco_node_op(node)->name, *id = session->whole.id;
    if (config->fallback == PCO_FALLBACK_ERROR)
        return pco_fail(err, PCO_ERROR_UNSUPPORTED,
                        "device %s cannot run op '%s' (%s): %s; PORTICO_FALLBACK=warn lets the "
                        "CPU run it",
                        id, op, node->name, why->message);
    pco_status status = session_open_cpu(session, err);
    if (status)
        return pco_fail_prefix(err, status, "device %s cannot run op '%s' (%s), and the CPU cannot help", id, op,
                               why->message);
    pco_error cpu_why = {""};
    if (!session_supports(session, SESSION_CPU, graph, i, &cpu_why))
        return pco_fail(err, PCO_ERROR_UNSUPPORTED, "neither device %s nor the CPU can run op '%s' (%s): %s", id, op,
                        node->name, cpu_why.message);
    if (assign_is_news(session, node->op, reason) && config->fallback == PCO_FALLBACK_WARN)
        pco_log_line(config, PCO_LOG_WARNING, "op '%s' runs on the CPU: device %s: %s", op, id, why->message);
    return PCO_OK;
}

/* UNSUPPORTED, with why and reason, when the slot does not run the node. */
static pco_status assign_try(pco_session *session, uint32_t slot, pco_graph *graph, uint32_t i, int no_self_test,
                             unsigned *reason, pco_error *why, pco_error *err)
{
    *reason = 1;
    if (!session_supports(session, slot, graph, i, why)) return PCO_ERROR_UNSUPPORTED;
    *reason = 2;
    return no_self_test ? PCO_OK : session_selftest(session, slot, graph, i, why, err);
}

/* The state that operand k of a node is, or is what a write has left of it and is written again; PCO_NONE if
 * it is neither. Such nodes are where the state is: what only reads it after a write takes the write's result,
 * which goes anywhere. */
static uint32_t assign_state(const pco_graph *graph, const pco_node *node, uint32_t k)
{
    const uint32_t t = node->inputs[k];
    if (t == PCO_NONE || graph->tensors[t].kind == PCO_KIND_STATE) return t;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (node->outputs[i] == PCO_NONE || pco_op_written(pco_node_op(node), i) != k) continue;
        const uint32_t root = pco_graph_root(graph, t);
        if (graph->tensors[root].kind == PCO_KIND_STATE) return root;
    }
    return PCO_NONE;
}

static int assign_has_state(const pco_graph *graph, const pco_node *node)
{
    for (uint32_t k = 0; k < node->n_inputs; k++)
        if (assign_state(graph, node, k) != PCO_NONE) return 1;
    return 0;
}

/* Do both have the same one? */
static int assign_shares_state(const pco_graph *graph, const pco_node *a, const pco_node *b)
{
    for (uint32_t i = 0; i < a->n_inputs; i++) {
        const uint32_t state = assign_state(graph, a, i);
        for (uint32_t k = 0; state != PCO_NONE && k < b->n_inputs; k++)
            if (assign_state(graph, b, k) == state) return 1;
    }
    return 0;
}

/* The slot of the first of a node's states that exists, or PCO_NONE. */
static uint32_t assign_state_slot(const pco_session *session, const pco_graph *graph, const pco_node *node)
{
    for (uint32_t k = 0; k < node->n_inputs; k++) {
        const uint32_t state = assign_state(graph, node, k);
        if (state == PCO_NONE) continue;
        const uint32_t slot = session_state_slot(session, graph->tensors[state].name);
        if (slot != PCO_NONE) return slot;
    }
    return PCO_NONE;
}

/* The slot of a node: *slot as it is wanted; unless `fixed` is given, another device's; the CPU. */
static pco_status assign_node(pco_session *session, pco_graph *graph, uint32_t i, uint32_t *slot, int fixed,
                              int no_self_test, pco_error *err)
{
    pco_error first = {""}, why = {""};
    unsigned reason, first_reason = 1;
    const uint32_t wanted = *slot, there = assign_state_slot(session, graph, &graph->nodes[i]);
    for (uint32_t k = 0; k <= (fixed ? 0 : session->n_devices); k++) {
        *slot = k == 0 ? wanted : k - 1;
        if ((k > 0 && *slot == wanted) || *slot == SESSION_CPU || (there != PCO_NONE && *slot != there)) continue;
        pco_status status = assign_try(session, *slot, graph, i, no_self_test, &reason, &why, err);
        if (status != PCO_ERROR_UNSUPPORTED) return status;
        if (!*first.message) first = why, first_reason = reason;
    }
    if (!*first.message) pco_fail(&first, PCO_ERROR_UNSUPPORTED, "its state is on the CPU");
    *slot = SESSION_CPU;
    return assign_fallback(session, graph, i, first_reason, &first, err);
}

/* Nodes that share a state are on one device: where they are not, all go to the last of their slots, the CPU
 * last. Returns 1 if something was moved. */
static int assign_gather(pco_graph *graph, uint32_t *slots)
{
    int moved = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        if (!assign_has_state(graph, &graph->nodes[i])) continue;
        for (uint32_t k = 0; k < graph->n_nodes; k++) {
            if (slots[k] >= slots[i] || !assign_shares_state(graph, &graph->nodes[i], &graph->nodes[k])) continue;
            slots[k] = slots[i];
            graph->nodes[k].variant = PCO_NONE; /* it was one of another device */
            moved = 1;
        }
    }
    return moved;
}

pco_status session_choose(pco_session *session, pco_graph *graph, uint32_t *slots, int no_self_test,
                          uint32_t *cpu_nodes, pco_error *err)
{
    pco_status status = PCO_OK;
    *cpu_nodes = 0;
    for (uint32_t i = 0; !status && i < graph->n_nodes; i++)
        status = assign_node(session, graph, i, &slots[i], 0, no_self_test, err);
    while (!status && assign_gather(graph, slots)) /* slots only ever grow */
        for (uint32_t i = 0; !status && i < graph->n_nodes; i++)
            if (slots[i] != SESSION_CPU && assign_has_state(graph, &graph->nodes[i]))
                status = assign_node(session, graph, i, &slots[i], 1, no_self_test, err);
    for (uint32_t i = 0; i < graph->n_nodes; i++) *cpu_nodes += slots[i] == SESSION_CPU;
    return status;
}
